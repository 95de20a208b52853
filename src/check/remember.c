/* A key that comes back after its counter had to go: from what the sketch knows to a counter that can be stepped.
 *
 * The sketch says when counters that share its cells were last charged, and which share of their quota was used then;
 * here is the limit, so here that becomes costs, and the algorithm itself makes of them the counter that was charged so
 * (sl_step_assume). All that the limit does with time follows from that. */
#include "check/member.h"

/* Fills held, held_count and use. */
static void look_up(const struct sluice_store *store, struct member *m, sluice_ns now) {
	struct sl_past pasts[SL_USES];
	int found = sl_sketch_ask(store, m->place, now, pasts);
	m->held_count = 0;
	for (int i = 0; i < found; i++) {
		uint64_t cost = sl_use_cost(m->limit->derived[SL_CAPACITY], pasts[i].use);
		if (cost == 0)
			continue;
		if (m->held_count == 0)
			m->use = (uint8_t)pasts[i].use; /* the greatest */
		m->held[m->held_count++] = (struct sl_held){pasts[i].instant, cost};
	}
}

void member_assume(struct member *m, void *block, uint64_t block_bytes) {
	sl_step_assume(m->limit, &m->counter, m->held, m->held_count, block, block_bytes);
	if (m->limit->algorithm >= SLUICE_CONCURRENCY)
		m->counter.who = m->who;
}

void member_step_remembered(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost,
                            bool charge, struct sluice_decision *decision) {
	uint64_t scratch[SL_ASSUME_BYTES_MAX / sizeof(uint64_t) + 1];
	m->held_count = 0;
	if (m->place->home != NULL && m->limit->quota != 0)
		look_up(store, m, now);
	m->remembered = m->held_count != 0;
	if (m->remembered)
		member_assume(m, sl_rule_has_block(m->limit) ? scratch : NULL,
		              sl_rule_has_block(m->limit) ? sizeof scratch : 0);
	else
		member_load(store, m);
	sl_step(m->limit, &m->counter, now, cost, charge, decision);
	m->counter.block = NULL; /* that was on the stack: charge.c makes it anew in a block of the store */
}
