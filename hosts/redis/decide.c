/* Deciding a call: the commonest here, without a detour; all others over cells (cells.c). */
#include "hosts/redis/decide.h"

#include "algo/merge.h"
#include "hosts/redis/part.h"

#include <stdlib.h>

/* ---- a plain call ------------------------------------------------------------------------------------------------ */

/* Whether a call is what most are: a check of one enforced limit that counts requests, with no more words, and of
 * a counter without companions. Then there is nobody to agree with, and nothing to look at again. */
static inline bool is_plain(const struct slr_call *call) {
	const struct sluice_item *item = &call->items[0];
	const uint64_t more = (call->asked.item_count ^ 1) | (call->key_count ^ 1) |
	                      (uint64_t)(call->operation ^ SL_OP_CHECK) | call->token | call->asked.upto |
	                      call->key_of[0] | item->observed | (item->terms != NULL) | item->cost |
	                      !sl_rule_has(item->limit, SL_COUNTS_COST);
	slr_value value = call->keys[0].value;
	return more == 0 && (slr_value_is_packed(value) || !slr_value_has_companions(value));
}

/* All that the cell of a plain call has. */
static inline void set_up(struct slr_call *call, struct slr_part *m) {
	m->cell.limit = call->items[0].limit;
	m->cell.decision = &call->each[0];
	m->cell.cost = call->asked.cost;
	m->cell.counts = true;
	m->cell.strikes = NULL;
	m->cell.who = m->cell.ttl_ns = 0;
	m->key = &call->keys[0];
	m->identity = sl_identity_of(m->cell.limit);
}

static enum slr_failure charge_alone(const struct slr_call *call, struct slr_part *m, uint32_t count) {
	const struct slr_change change = {.charge = call->asked.cost};
	enum slr_failure failure;
	if (!m->cell.there && count >= SLR_COUNTERS_MAX) {
		if (!slr_key_reclaim(call, m->key))
			return SLR_TOO_MANY_COUNTERS;
		slr_part_reload(call, m);
		slr_part_judge(call, m, call->asked.cost, true, m->cell.decision);
	}
	failure = slr_part_plan(call, m, &change);
	if (failure == SLR_FINE)
		slr_part_commit(call, m, &change);
	return failure;
}

/* The figures of a call that finds no room to be charged. */
static __attribute__((noinline)) void deny_alone(struct slr_call *call, struct slr_part *m, enum slr_failure failure) {
	struct sl_shortage shortage = slr_shortage_of(call, m, failure);
	slr_part_judge(call, m, call->asked.cost, false, m->cell.decision);
	sl_decide_bound(m->cell.decision, shortage.bound, shortage.wait_ns);
}

/* The wait until the limit's remaining grows, of its counter as the call has left it. */
static __attribute__((noinline)) void fill_next(const struct slr_call *call, struct slr_part *m) {
	struct sluice_decision *decision = m->cell.decision, next;
	if (decision->remaining >= decision->quota)
		return;
	if (m->key->changed)
		slr_part_reload(call, m);
	slr_part_judge(call, m, (uint64_t)decision->remaining + 1, false, &next);
	decision->next_after_ns = decision->bound != SLUICE_BOUND_NONE ? decision->retry_after_ns : next.retry_after_ns;
}

static enum slr_failure decide_alone(struct slr_call *call) {
	struct slr_part m;
	struct sluice_decision merged = sl_merge_nothing();
	enum slr_failure failure = SLR_LOG_TOO_LONG;
	uint32_t count = slr_key_begin(&call->keys[0]);
	sl_answer_clear(&call->asked);
	set_up(call, &m);
	if (slr_part_load(call, &m, false)) {
		slr_part_judge(call, &m, call->asked.cost, true, m.cell.decision);
		failure = m.cell.decision->allowed && call->asked.cost != 0 ? charge_alone(call, &m, count) : SLR_FINE;
		if (failure != SLR_FINE)
			deny_alone(call, &m, failure);
		failure = SLR_FINE;
	}
	if (failure == SLR_FINE) {
		call->asked.granted = m.cell.decision->allowed ? call->asked.cost : 0;
		if (call->asked.want_next)
			fill_next(call, &m);
		m.cell.decision->index = 0;
		sl_merge_add(&merged, m.cell.decision, 0);
		call->asked.merged = merged;
	}
	slr_part_drop(&m);
	slr_key_settle(call, &call->keys[0], count);
	return failure;
}

enum slr_failure slr_decide(struct slr_call *call) {
	call->asked.items = call->items;
	call->asked.each = call->each;
	return __builtin_expect(is_plain(call), 1) ? decide_alone(call) : slr_decide_cells(call);
}

/* ---- who holds leases -------------------------------------------------------------------------------------------- */

uint32_t slr_holders_of(const struct slr_call *call, struct sluice_holder *list, uint32_t room) {
	const struct sluice_limit *limit = call->items[0].limit;
	struct slr_counter scratch;
	const struct slr_counter *counter =
		slr_value_find(call->keys[call->key_of[0]].value, sl_identity_of(limit), &scratch);
	struct sl_counter step;
	uint32_t count;
	if (counter == NULL || !sl_rule_has(limit, SL_TAKES_LEASE))
		return 0;
	slr_counter_load(counter, &step);
	count = sl_lease_list(&step, call->asked.now, list, room);
	if (room > 1)
		qsort(list, count < room ? count : room, sizeof *list, sl_lease_order);
	return count;
}
