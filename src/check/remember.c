/* A key that comes back after its counter had to go: from what the sketch knows to a counter that can be stepped.
 *
 * The sketch says when counters that share its cells were last charged, and which share of their quota was used then;
 * here is the limit, so here that becomes costs, and the algorithm itself makes of them the counter that was charged so
 * (sl_step_assume). All that the limit does with time follows from that. */
#include "check/part.h"

/* Fills held, held_count, which begins as 0, and use. */
static void look_up(const struct sluice_store *store, struct part *m, sluice_ns now) {
	struct sl_past pasts[SL_USES];
	int found = sl_sketch_ask(store, m->place, now, pasts);
	SL_ASSERT(m->held_count == 0);
	for (int i = 0; i < found; i++) {
		uint64_t cost = sl_use_cost(m->cell.limit->derived[SL_CAPACITY], pasts[i].use);
		if (cost == 0)
			continue;
		if (m->held_count == 0)
			m->use = (uint8_t)pasts[i].use; /* the greatest */
		SL_ASSERT(m->held_count < SL_USES);
		m->held[m->held_count++] = (struct sl_held){pasts[i].instant, cost};
	}
}

void part_assume(struct part *m, void *block, uint64_t block_bytes) {
	SL_ASSERT(m->remembered && m->held_count != 0);
	SL_ASSERT((block != NULL) == sl_rule_has(m->cell.limit, SL_HAS_BLOCK));
	sl_step_assume(m->cell.limit, &m->cell.counter, m->held, m->held_count, block, block_bytes);
	if (sl_rule_has(m->cell.limit, SL_HAS_SEATS))
		m->cell.counter.who = m->cell.who;
}

void part_step_remembered(const struct sluice_store *store, struct part *m, sluice_ns now, uint64_t cost, bool charge,
                          struct sluice_decision *decision) {
	uint64_t scratch[SL_ASSUME_BYTES_MAX / sizeof(uint64_t) + 1];
	SL_ASSERT(m->slot == NULL);
	m->held_count = 0;
	if (m->place->home != NULL && m->cell.limit->quota != 0)
		look_up(store, m, now);
	m->remembered = m->held_count != 0;
	if (m->remembered)
		part_assume(m, sl_rule_has(m->cell.limit, SL_HAS_BLOCK) ? scratch : NULL,
		            sl_rule_has(m->cell.limit, SL_HAS_BLOCK) ? sizeof scratch : 0);
	else
		part_load(store, m);
	sl_step(m->cell.limit, &m->cell.counter, now, cost, charge, decision);
	m->cell.counter.block = NULL; /* that was on the stack: charge.c makes it anew in a block of the store */
}
