/* A key that comes back after its counter had to go: from what the sketch knows to a counter that can be stepped.
 *
 * The sketch says when counters that share its cells were last charged, and which share of their quota was used then;
 * here is the limit, so here that becomes costs, and the algorithm itself makes of them the counter that was charged so
 * (sl_step_assume). All that the limit does with time follows from that. */
#include "check/member.h"

static int held_of(const struct sluice_store *store, struct member *m, sluice_ns now, struct sl_held held[SL_USES]) {
	struct sl_past pasts[SL_USES];
	int found = sl_sketch_ask(store, m->place, now, pasts), count = 0;
	for (int i = 0; i < found; i++) {
		uint64_t cost = sl_use_cost(m->limit->derived[SL_CAPACITY], pasts[i].use);
		if (cost != 0 && count == 0)
			m->use = (uint8_t)pasts[i].use; /* the greatest */
		if (cost != 0)
			held[count++] = (struct sl_held){pasts[i].instant, cost};
	}
	return count;
}

void member_assume(const struct sluice_store *store, struct member *m, sluice_ns now, void *block,
                   uint64_t block_bytes) {
	struct sl_held held[SL_USES];
	m->counter = (struct sl_counter){.block = NULL};
	/* it can't have become less than when the member was decided, since only others' evictions raise it */
	sl_step_assume(m->limit, &m->counter, held, held_of(store, m, now, held), block, block_bytes);
}

void member_step_remembered(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost,
                            bool charge, struct sluice_decision *decision) {
	uint64_t scratch[SL_ASSUME_BYTES_MAX / sizeof(uint64_t) + 1];
	struct sl_held held[SL_USES];
	uint64_t bytes = sl_step_assume_bytes(m->limit);
	SL_ASSERT(bytes <= sizeof scratch);
	m->remembered = m->place->home != NULL && m->limit->quota != 0 && held_of(store, m, now, held) != 0;
	if (!m->remembered) {
		member_load(store, m);
		sl_step(m->limit, &m->counter, now, cost, charge, decision);
		return;
	}
	member_assume(store, m, now, bytes != 0 ? scratch : NULL, bytes != 0 ? sizeof scratch : 0);
	sl_step(m->limit, &m->counter, now, cost, charge, decision);
	m->counter.block = NULL; /* charge.c makes it anew in a block of the store */
}
