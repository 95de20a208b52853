/* Reading a part's counter out of its value, and bringing a copy of it up to its clock: holds that have ended go, and
 * what leases among them held is charged; reservations that have ended are returned. Where a counter has both, all that
 * ends does so in its order. The value is not changed by that: it is when the call charges (commit.c). */
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/part.h"

/* ---- images ------------------------------------------------------------------------------------------------------ */

static void own_block(struct slr_image *image) {
	struct sl_counter *counter = image->counter;
	if (counter->block == NULL || image->own != NULL)
		return;
	image->own = slr_block_take(counter->block_bytes);
	memcpy(image->own, counter->block, counter->block_bytes);
	counter->block = image->own;
}

bool slr_image_charge(const struct sluice_limit *wide, struct slr_image *image, sluice_ns instant, uint32_t cost) {
	void *fresh;
	own_block(image);
	if (!sl_copy_charge(wide, image->counter, instant, cost, &slr_blocks, &fresh))
		return false;
	if (fresh != NULL) {
		slr_block_give(image->own);
		image->own = fresh;
	}
	return true;
}

bool slr_image_charge_lease(const struct sluice_limit *wide, struct slr_image *image, const struct slr_hold *hold) {
	struct sluice_limit as_before = *wide;
	if (sl_rule_rate_may_change(wide) && image->counter->state.rate != 0)
		as_before.quota = image->counter->state.rate;
	return slr_image_charge(&as_before, image, hold->end, hold->cost);
}

static bool correct_image(const struct sluice_limit *limit, struct slr_image *image, const struct sl_correction *list,
                          uint32_t count) {
	void *fresh;
	if (!sl_copy_correct(limit, image->counter, list, count, &slr_blocks, &fresh))
		return false;
	if (fresh != NULL) {
		slr_block_give(image->own);
		image->own = fresh;
	}
	return true;
}

struct sl_correction *slr_part_returns(const struct slr_part *m, uint32_t from, uint32_t until, uint32_t *count) {
	uint32_t room = sl_bundle_returns(m->cell.limit, &m->ledger, &m->contents, from, until, NULL);
	struct sl_correction *list = slr_take((room + 1) * sizeof *list);
	*count = sl_bundle_returns(m->cell.limit, &m->ledger, &m->contents, from, until, list);
	return list;
}

uint32_t slr_image_return(const struct slr_part *m, struct slr_image *image, uint32_t from, sluice_ns instant) {
	uint32_t ended = sl_ledger_ended(&m->ledger, instant), count;
	struct sl_correction *list;
	if (ended <= from)
		return from;
	list = slr_part_returns(m, from, ended, &count);
	if (!correct_image(m->cell.limit, image, list, count))
		ended = from; /* a damaged log; they stay charged */
	slr_give(list);
	return ended;
}

bool slr_part_correct(struct slr_part *m, const struct sl_correction *list, uint32_t count) {
	m->cell.counter.state = m->state;
	if (!correct_image(m->cell.limit, &m->image, list, count))
		return false;
	m->state = m->cell.counter.state;
	return true;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static bool charge_ended(struct slr_part *m) {
	struct sluice_limit wide;
	bool any = false;
	for (uint32_t i = 0; i < m->ended; i++) {
		const struct slr_hold *hold = &m->holds->list[i];
		if (hold->lease == 0)
			continue;
		if (!any)
			wide = sl_rule_widened(m->cell.limit);
		any = true;
		m->returned = slr_image_return(m, &m->image, m->returned, hold->end);
		if (!slr_image_charge_lease(&wide, &m->image, hold))
			return false;
	}
	return true;
}

static bool load_holds(const struct slr_call *call, struct slr_part *m, bool skip_own) {
	m->ended = slr_holds_ended(m->holds, m->clock);
	if (skip_own)
		m->own = slr_holds_find(m->holds, call->id, call->operation == SL_OP_LEASE);
	if (m->own >= 0 && (uint32_t)m->own < m->ended)
		m->own = -1;
	for (uint32_t i = m->ended; i < m->holds->count; i++)
		if ((int32_t)i != m->own) {
			m->held += m->holds->list[i].cost;
			m->leased += m->holds->list[i].lease != 0 ? m->holds->list[i].cost : 0;
		}
	if (!charge_ended(m))
		return false;
	m->state = m->cell.counter.state;
	return true;
}

/* The companions of the counter, or of one that there might be. */
static void load_companions(struct slr_part *m) {
	m->ledger = slr_ledger_of(m->key->value, m->identity);
	m->contents = slr_contents_of(m->key->value, m->identity);
	m->cell.plain = m->cell.plain && m->ledger.count == 0;
	if (m->cell.strikes != NULL)
		slr_strikes_of(m->key->value, m->identity, m->cell.strikes);
}

static bool load_with_companions(const struct slr_call *call, struct slr_part *m, bool skip_own) {
	load_companions(m);
	if (m->holds != NULL && !load_holds(call, m, skip_own))
		return false;
	m->returned = slr_image_return(m, &m->image, m->returned, m->clock);
	m->state = m->cell.counter.state;
	return true;
}

static void load_nothing(struct slr_part *m) {
	m->state = m->cell.counter.state = (struct sl_state){.rate = 0};
	m->cell.counter.block = NULL;
	m->cell.counter.block_bytes = 0;
	m->cell.counter.who = m->cell.who;
	m->cell.counter.known = false;
}

bool slr_part_load(const struct slr_call *call, struct slr_part *m, bool skip_own) {
	struct slr_counter scratch;
	const struct slr_counter *counter = m->cell.counts ? slr_value_find(m->key->value, m->identity, &scratch) : NULL;
	bool companions = counter != &scratch && m->cell.counts && slr_value_has_companions(m->key->value);
	m->cell.there = counter != NULL;
	m->rate = counter != NULL ? counter->state.rate : 0;
	m->packed = counter == &scratch;
	m->image = (struct slr_image){&m->cell.counter, NULL};
	m->holds = NULL;
	m->ended = 0;
	m->own = -1;
	m->held = m->leased = 0;
	m->ledger = (struct sl_ledger){NULL, 0};
	m->contents.memory = NULL;
	m->returned = 0;
	m->clock = call->asked.now;
	m->cell.plain = m->cell.ttl_ns == 0 && m->cell.strikes == NULL;
	if (m->cell.strikes != NULL)
		memset(m->cell.strikes, 0, sizeof *m->cell.strikes);
	if (counter == NULL) {
		load_nothing(m);
	} else {
		slr_counter_load(counter, &m->cell.counter);
		m->cell.counter.who = m->cell.who;
		m->state = m->cell.counter.state;
		m->clock = sl_step_instant(m->cell.limit, &m->cell.counter, call->asked.now);
		m->holds = slr_counter_holds(counter);
	}
	if (companions)
		return load_with_companions(call, m, skip_own);
	return m->holds == NULL || load_holds(call, m, skip_own);
}

void slr_part_drop(struct slr_part *m) {
	slr_block_give(m->image.own);
	m->image.own = NULL;
}

void slr_part_reload(const struct slr_call *call, struct slr_part *m) {
	bool whole;
	slr_part_drop(m);
	whole = slr_part_load(call, m, call->keep);
	SL_ASSERT(whole);
}
