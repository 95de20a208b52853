/* Cells in the arena: calls of any kind, decided by src/decide over counters whose homes are locked.
 *
 * A call locks the homes of all its limits in address order, finds each counter and its companions, has the engine
 * decide, and unlocks. Several plain limits that each have a home of their own, and a store without reservations, need
 * no engine: they are stepped and charged as one limit is (check.c).
 *
 * I1..I4 of check.c hold here. */
#include "base/fold.h"
#include "base/operation.h"
#include "check/part.h"

/* A call while its homes are locked. */
struct arena_call {
	struct sl_deciding deciding; /* first: the engine hands it back */
	struct sluice_store *store;
	struct part *parts;
	struct token *token; /* NULL: none */
};

static struct arena_call *of(struct sl_deciding *d) {
	return (struct arena_call *)(void *)d;
}

static struct part *part_of(struct sl_cell *cell) {
	return (struct part *)(void *)cell;
}

/* ---- loading and judging ----------------------------------------------------------------------------------------- */

static void find_companions(struct sluice_store *store, const struct sluice_call *call, struct part *m) {
	struct sl_cell *c = &m->cell;
	bool reserves = c->ttl_ns != 0;
	bool ledger = sl_rule_has(c->limit, SL_RESERVABLE) && (reserves || sl_store_has_ledgers(store, call->now));
	SL_ASSERT(c->counts && (c->strikes == NULL || c->terms->penalty_count != 0));
	c->plain = !reserves && c->strikes == NULL;
	if (!ledger && c->plain)
		return;
	part_beside_none(m);
	if (ledger)
		ledger_find(store, m, call->now);
	m->ledger.adds = reserves;
	if (c->strikes != NULL)
		strikes_find(store, m);
}

static void load_override(struct sl_deciding *d, struct sl_cell *c) {
	const struct sluice_limit *limit = c->limit;
	if (!override_take(of(d)->store, part_of(c), d->call->now))
		return;
	c->limit = limit;
	sl_cell_take_own(c, d->call->operation, &part_of(c)->own);
}

static void load(struct sl_deciding *d, struct sl_cell *c) {
	struct part *m = part_of(c);
	if (c->counts && sl_store_has_overrides(of(d)->store))
		load_override(d, c);
	m->slot = c->counts ? sl_slot_find(m->place) : NULL;
	SL_ASSERT(!c->counts || m->place->home != NULL);
	c->there = m->slot != NULL;
	if (c->counts)
		find_companions(of(d)->store, d->call, m);
}

static void judge(struct sl_deciding *d, struct sl_cell *c, uint64_t cost, bool charge,
                  struct sluice_decision *decision) {
	struct part *m = part_of(c);
	SL_ASSERT(c->counts || c->plain); /* what has no counter has no companions */
	if (!c->plain && m->ledger.count != 0 && !m->ledger.dead)
		ledger_judge(of(d)->store, m, d->call->now, cost, decision);
	else
		part_step(of(d)->store, m, d->call->now, cost, charge && c->plain, decision);
	if (d->call->operation == SLUICE_PEEK && c->counts && !c->tried && sl_rule_has(c->limit, SL_HAS_BLOCK) &&
	    (c->plain || m->ledger.count == 0))
		part_peek_room(of(d)->store, d->call, m, (uint32_t)cost, decision);
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

static sluice_err charge(struct arena_call *a, struct sl_shortage *shortage) {
	const struct sluice_call *call = a->deciding.call;
	bool forced = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct part *m = &a->parts[i];
		if (!m->cell.forced)
			continue;
		SL_ASSERT(!forced && m->cell.charged); /* one at a time */
		forced = true;
		if (m->cell.plain)
			part_beside_none(m);
		m->cell.plain = m->ledger.adds = false;
		m->slot = sl_slot_find(m->place);
	}
	parts_keep_latest(a->store, call->now);
	return parts_charge(a->store, call, a->parts, call->item_count, forced ? NULL : a->token, shortage);
}

/* ---- correcting -------------------------------------------------------------------------------------------------- */

/* Changes counters and ledgers of all parts that are to be corrected, charging nothing: as one. SLUICE_OK; else
 * nothing was changed: SLUICE_E_FULL, and parts[*at] had no room; or held up. */
static sluice_err correct_members(struct arena_call *a, uint32_t *at) {
	const struct sluice_call *call = a->deciding.call;
	struct sl_shortage shortage = {.cell = 0};
	sluice_err err;
	for (uint32_t i = 0; i < call->item_count; i++)
		SL_ASSERT(!a->parts[i].cell.charged && !(a->parts[i].cell.corrects && a->parts[i].cell.plain));
	parts_keep_latest(a->store, call->now);
	err = parts_charge(a->store, call, a->parts, call->item_count, NULL, &shortage);
	for (uint32_t i = 0; i < call->item_count && err == SLUICE_OK; i++)
		if (a->parts[i].cell.corrects)
			ledger_find(a->store, &a->parts[i], call->now);
	SL_ASSERT(shortage.cell < SLUICE_ITEMS_MAX);
	*at = shortage.cell;
	return err;
}

/* What is above an estimate whose counter there is no room to correct is charged as of now: or not, where there is no
 * room for that either. */
static void charge_above(struct arena_call *a, struct part *m, uint32_t above) {
	struct sl_shortage ignored;
	uint32_t cost = m->cell.cost;
	SL_ASSERT(!m->cell.corrects && !m->cell.charged && !m->cell.forced);
	if (above == 0 || m->slot == NULL)
		return;
	m->cell.cost = above;
	m->cell.charged = m->cell.forced = true;
	if (parts_charge(a->store, a->deciding.call, a->parts, a->deciding.call->item_count, NULL, &ignored) != SLUICE_OK)
		m->amount = 0;
	m->cell.cost = cost;
	m->cell.charged = m->cell.forced = false;
}

/* Each by itself, as far as there is room; what was done of it can't be done again. */
static void correct_apart(struct arena_call *a) {
	bool corrects[SLUICE_ITEMS_MAX];
	uint32_t at, count = a->deciding.call->item_count;
	for (uint32_t i = 0; i < count; i++) {
		corrects[i] = a->parts[i].cell.corrects;
		a->parts[i].cell.corrects = false;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct part *m = &a->parts[i];
		uint32_t cost;
		if (!corrects[i])
			continue;
		m->cell.corrects = true;
		cost = m->ledger.found.its.cost;
		if (correct_members(a, &at) != SLUICE_OK) {
			ledger_keep_estimate(m);
			charge_above(a, m, m->cell.cost > cost ? m->cell.cost - cost : 0);
		}
		m->cell.corrects = false;
	}
}

static sluice_err correct(struct arena_call *a) {
	uint32_t at;
	sluice_err err = correct_members(a, &at);
	if (err != SLUICE_E_FULL)
		return err;
	correct_apart(a);
	return SLUICE_OK;
}

/* ---- giving back ------------------------------------------------------------------------------------------------- */

/* Corrects what has ended of parts that are about to be refunded. One for which there is no room is left out of the
 * refund (its slot is NULL): what it holds stays charged. SLUICE_OK, or held up. */
static sluice_err settle(struct arena_call *a) {
	sluice_err err = SLUICE_E_FULL;
	uint32_t left = 0, at;
	for (uint32_t i = 0; i < a->deciding.call->item_count; i++) {
		struct part *m = &a->parts[i];
		struct sl_cell *c = &m->cell;
		c->corrects = c->counts && !c->plain && c->leader == i && m->slot != NULL && m->ledger.ended != 0;
		left += c->corrects;
	}
	for (; left != 0 && (err = correct_members(a, &at)) == SLUICE_E_FULL; left--) {
		a->parts[at].cell.corrects = false;
		a->parts[at].slot = NULL;
	}
	return err == SLUICE_E_FULL ? SLUICE_OK : err;
}

static void refund_one(const struct arena_call *a, struct part *m) {
	uint32_t cost = m->cell.cost;
	sluice_ns now = a->deciding.call->now;
	SL_ASSERT(m->slot != NULL && !m->cell.charged);
	part_load(a->store, m);
	if (sl_step_prepare_refund(m->cell.limit, &m->cell.counter, now, &cost))
		sl_slot_write(m->slot, m->cell.counter.state.w);
	if (sl_step_refund(m->cell.limit, &m->cell.counter, now, cost))
		part_write(m);
}

static sluice_err refund(struct arena_call *a) {
	sluice_err err = settle(a);
	for (uint32_t i = 0; i < a->deciding.call->item_count && err == SLUICE_OK; i++) {
		struct part *m = &a->parts[i];
		if (m->cell.counts && m->cell.leader == i && m->slot != NULL)
			refund_one(a, m);
	}
	return err;
}

/* ---- forgetting -------------------------------------------------------------------------------------------------- */

/* All are forgotten, or none: the blocks' lock, which may not be had, is taken before anything is changed. */
static sluice_err forget(struct arena_call *a) {
	uint32_t count = a->deciding.call->item_count;
	bool blocks = false;
	sluice_err err;
	for (uint32_t i = 0; i < count; i++)
		blocks = blocks || (a->parts[i].cell.counts && part_has_block(&a->parts[i]));
	err = blocks ? sl_blocks_begin(a->store) : SLUICE_OK;
	if (err != SLUICE_OK)
		return err;
	for (uint32_t i = 0; i < count; i++)
		if (a->parts[i].cell.counts && a->parts[i].cell.leader == i)
			a->parts[i].cell.gone = part_forget(a->store, &a->parts[i]);
	if (blocks)
		sl_blocks_commit(a->store);
	for (uint32_t i = 0; i < count; i++) {
		struct sl_cell *c = &a->parts[i].cell;
		if (c->counts && c->leader == i && part_hide(a->store, &a->parts[i], a->deciding.call->now))
			c->gone = true;
	}
	return SLUICE_OK;
}

/* ---- the seam ---------------------------------------------------------------------------------------------------- */

static sluice_err change(struct sl_deciding *d, enum sl_change change, struct sl_shortage *shortage) {
	switch (change) {
	case SL_CORRECT:
		return correct(of(d));
	case SL_REFUND:
		return refund(of(d));
	case SL_FORGET:
		return forget(of(d));
	default:
		return charge(of(d), shortage);
	}
}

static bool find(struct sl_deciding *d, struct sl_cell *c, uint32_t *cost) {
	struct part *m = part_of(c);
	if (c->plain || m->ledger.count == 0)
		return false;
	m->ledger.found = ledger_find_open(m, sl_id_number(d->call->id), d->call->now);
	if (m->ledger.found.at < 0)
		return false;
	*cost = m->ledger.found.its.cost;
	if (d->call->operation == SLUICE_COMMIT)
		m->ledger.commits = m->ledger.found.at;
	return true;
}

static bool end(struct sl_deciding *d, struct sl_cell *c) {
	SL_ASSERT(c->counts && c->who != 0);
	if (!c->there)
		return false;
	return d->call->operation == SLUICE_RENEW ? lease_renew(of(d)->store, part_of(c), d->call->now)
	                                          : lease_release(of(d)->store, part_of(c), d->call->now);
}

static bool strike(struct sl_deciding *d, struct sl_cell *c) {
	return strikes_write(of(d)->store, d->call, of(d)->parts, part_of(c));
}

static bool recall(struct sl_deciding *d, struct sl_record *record) {
	SL_ASSERT(of(d)->token != NULL && d->retried);
	return token_recall(of(d)->token, record);
}

static void keep_record(struct sl_deciding *d, const struct sl_record *record) {
	SL_ASSERT(of(d)->token != NULL && d->retried);
	if (of(d)->token->slot != NULL)
		token_publish(of(d)->token, record);
}

static const struct sl_host arena = {
	.load = load,
	.judge = judge,
	.change = change,
	.find = find,
	.end = end,
	.strike = strike,
	.recall = recall,
	.record = keep_record,
};

/* ---- setting up: groups and locks -------------------------------------------------------------------------------- */

static inline uint32_t add_home(struct sl_bucket **homes, uint32_t used, struct sl_bucket *home) {
	uint32_t at = used;
	while (at > 0 && homes[at - 1] > home)
		at--;
	if (at > 0 && homes[at - 1] == home)
		return used;
	SL_DEBUG_ASSERT(used < SLUICE_ITEMS_MAX + 2);
	for (uint32_t i = used; i > at; i--)
		homes[i] = homes[i - 1];
	homes[at] = home;
	return used + 1;
}

/* Takes the locks of all homes, in address order, or none. */
static inline sluice_err lock_homes(struct sluice_store *store, struct sl_bucket **homes, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		SL_DEBUG_ASSERT(i == 0 || homes[i - 1] < homes[i]); /* each once, in one order */
		sluice_err err = sl_home_lock(store, homes[i]);
		if (__builtin_expect(err == SLUICE_OK, 1))
			continue;
		while (i-- > 0)
			sl_home_unlock(homes[i]);
		return err;
	}
	return SLUICE_OK;
}

static inline void unlock_homes(struct sl_bucket **homes, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		sl_home_unlock(homes[i]);
}

/* Those that count nothing have one place, at which nothing is. */
static void find_leaders(struct part *parts, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = 0;
		while (parts[first].place->home != parts[i].place->home || parts[first].place->tag != parts[i].place->tag)
			first++;
		SL_ASSERT(first <= i && (first == i || parts[first].cell.leader == first));
		parts[i].cell.leader = (uint8_t)first;
	}
}

/* A lease's number, or a part's fingerprint: keyed, so that nobody can prepare two that collide. */
static uint64_t who_of(const struct sluice_store *store, const struct sluice_call *call,
                       const struct sluice_item *item) {
	uint64_t who;
	if (sl_rule_has(item->limit, SL_TAKES_LEASE))
		return sl_operation_is(call->operation, SL_OPS_LASTING) && call->id.len != 0 ? sl_id_number(call->id) : 0;
	if (!sl_rule_has(item->limit, SL_TAKES_MEMBER) || item->member.data == NULL)
		return 0;
	who = sl_siphash_folded(store->secret, NULL, 0, item->member, 1, 3);
	return who != 0 ? who : 1;
}

/* ---- several plain limits ---------------------------------------------------------------------------------------- */

/* All that a plain limit's cell has. */
static inline void set_up_plain(struct part *m, const struct sluice_call *call, uint32_t index,
                                struct sluice_decision *decision) {
	m->cell.limit = call->items[index].limit;
	m->cell.decision = decision;
	m->cell.cost = call->cost;
	m->cell.observed = call->items[index].observed != 0;
	m->cell.tried = call->items[index].observed == SLUICE_TRIED;
	m->cell.plain = true;
	m->cell.forced = m->cell.corrects = false;
}

static inline sluice_err charge_apart(struct sluice_store *store, const struct sluice_call *call, struct part *parts) {
	struct sl_shortage ignored;
	bool fit = true;
	parts_keep_latest(store, call->now);
	for (uint32_t i = 0; i < call->item_count; i++) {
		parts[i].cell.charged = parts[i].cell.decision->allowed && !parts[i].cell.tried;
		fit = fit && (!parts[i].cell.charged || part_fits(&parts[i], call->cost));
	}
	if (!fit)
		return parts_charge(store, call, parts, call->item_count, NULL, &ignored);
	for (uint32_t i = 0; i < call->item_count; i++)
		if (parts[i].cell.charged)
			part_publish(&parts[i], call->now, call->cost);
	return SLUICE_OK;
}

/* The part that the counter of a candidate was charged through; NULL: it was not. */
static inline const struct part *charged_with(const struct part *parts, uint32_t candidate) {
	const struct sl_place *place = parts[candidate].place;
	for (uint32_t i = 0; i < candidate; i++)
		if (parts[i].place->tag == place->tag && parts[i].place->home == place->home)
			return parts[i].cell.charged ? &parts[i] : NULL;
	return NULL;
}

/* A candidate whose counter was charged through its limit has been stepped as that was, for most. A bucket of a name
 * may have been charged at another rate. */
static inline void refresh_candidate(const struct sluice_store *store, const struct sluice_call *call,
                                     struct part *parts, uint32_t i) {
	struct part *m = &parts[i];
	const struct part *charged = charged_with(parts, i);
	m->slot = charged != NULL ? charged->slot : sl_slot_find(m->place);
	if (charged == NULL || !m->cell.decision->allowed || m->remembered || sl_rule_rate_may_change(m->cell.limit))
		part_refresh(store, m, call->now);
}

/* The figures of those that were stepped as if charged, and were not; and of candidates. */
static inline void step_back(const struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                             bool charged) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct part *m = &parts[i];
		if (m->cell.tried && charged)
			refresh_candidate(store, call, parts, i);
		else if (!charged && m->cell.decision->allowed)
			part_step(store, m, call->now, call->cost, false, m->cell.decision);
	}
}

/* SLUICE_OK; held up; or SLUICE_E_FULL: nothing was changed, and the engine is to decide: who denies for want of room,
 * or a key that is unlimited. */
static inline sluice_err decide_apart(struct sluice_store *store, struct sluice_call *call, struct part *parts,
                                      struct sluice_decision *decisions) {
	bool charge = call->operation == SLUICE_CHARGE && call->cost != 0, allowed = true, candidates = false;
	sluice_err err = SLUICE_OK;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct part *m = &parts[i];
		set_up_plain(m, call, i, &decisions[i]);
		if (__builtin_expect(sl_store_has_overrides(store), 0) && override_take(store, m, call->now) &&
		    !sl_rule_has(m->cell.limit, SL_HAS_COUNTER))
			return SLUICE_E_FULL;
		m->slot = sl_slot_find(m->place);
		part_step(store, m, call->now, call->cost, charge, &decisions[i]);
		if (!charge && !m->cell.tried && sl_rule_has(m->cell.limit, SL_HAS_BLOCK))
			part_peek_room(store, call, m, call->cost, &decisions[i]);
		candidates |= m->cell.tried;
		allowed = allowed && (decisions[i].allowed || m->cell.observed);
	}
	if (charge && allowed)
		err = charge_apart(store, call, parts);
	if (err != SLUICE_OK)
		return err;
	if (charge && (!allowed || candidates))
		step_back(store, call, parts, allowed);
	for (uint32_t i = 0; call->want_next && i < call->item_count; i++)
		part_fill_next(store, &parts[i], call->now);
	call->granted = allowed ? call->cost : 0;
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++)
		sl_answer_add(call, i, &decisions[i], !parts[i].cell.observed);
	return SLUICE_OK;
}

/* ---- calls of any kind ------------------------------------------------------------------------------------------- */

static void set_up(const struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                   struct sluice_decision *decisions) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		sl_cell_set_up(&parts[i].cell, call, i, &decisions[i]);
		parts[i].cell.who = parts[i].cell.counter.who = who_of(store, call, &call->items[i]);
	}
	find_leaders(parts, call->item_count);
}

/* Decides a call whose homes are locked. */
static sluice_err decide_locked(struct arena_call *a) {
	struct sl_strikes strikes[SLUICE_ITEMS_MAX]; /* filled where there are penalties */
	bool counts = false;
	for (uint32_t i = 0; i < a->deciding.call->item_count; i++) {
		struct sl_cell *c = &a->parts[i].cell;
		a->deciding.cells[i] = c;
		if (c->terms != NULL && c->terms->penalty_count != 0 && c->counts)
			c->strikes = &strikes[i];
		load(&a->deciding, c);
		counts = counts || (c->counts && !c->tried);
	}
	if (!counts && a->token != NULL) { /* all keys are unlimited: nothing is charged, and a record would have no life */
		a->token = NULL;
		a->deciding.retried = false;
	}
	if (a->token != NULL)
		a->token->slot = sl_slot_find(&a->token->place);
	return sl_decide(&a->deciding);
}

/* Decides a call whose limits' homes are these. As decide_several(). */
static __attribute__((noinline)) sluice_err decide_any(struct sluice_store *store, struct sluice_call *call,
                                                       struct part *parts, struct sluice_decision *decisions,
                                                       struct sl_bucket **homes, uint32_t home_count,
                                                       struct sluice_inspection *inspect) {
	struct arena_call a; /* filled as it is needed: its list of cells is the longest part */
	struct token token;
	sluice_err err;
	a.store = store;
	a.parts = parts;
	a.token = NULL;
	a.deciding.inspect = inspect;
	set_up(store, call, parts, decisions);
	if (call->operation == SLUICE_CHARGE && call->id.len != 0 && token_place(store, call, parts, &token)) {
		a.token = &token;
		home_count = add_home(homes, home_count, token.place.home);
	}
	err = lock_homes(store, homes, home_count);
	if (err != SLUICE_OK)
		return err;
	a.deciding.host = &arena;
	a.deciding.call = call;
	a.deciding.retried = a.token != NULL;
	a.deciding.always_changes = false;
	err = decide_locked(&a);
	if (inspect != NULL && err == SLUICE_OK)
		ledger_describe(store, &parts[0], call->now, inspect);
	if (inspect != NULL && home_count != 0 && sl_store_has_overrides(store))
		inspect->overridden =
			override_tell(store, parts[0].place, call->items[0].limit, call->now, &inspect->own);
	unlock_homes(homes, home_count);
	return err;
}

sluice_err decide_several(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places,
                          bool plain) {
	struct part parts[SLUICE_ITEMS_MAX];
	struct sluice_decision decisions[SLUICE_ITEMS_MAX];
	struct sl_bucket *homes[SLUICE_ITEMS_MAX + 2];
	uint32_t home_count = 0;
	/* whether each limit has a home of its own, so a counter of its own; candidates charge nothing */
	bool apart = plain && !sl_store_has_ledgers(store, call->now);
	sluice_err err;
	for (uint32_t i = 0; i < call->item_count; i++) {
		uint32_t others = home_count;
		parts[i].place = &places[i];
		if (places[i].home != NULL)
			home_count = add_home(homes, home_count, places[i].home);
		apart = apart && (home_count != others || call->items[i].observed == SLUICE_TRIED);
	}
	if (!apart)
		return decide_any(store, call, parts, decisions, homes, home_count, NULL);
	err = lock_homes(store, homes, home_count);
	if (err != SLUICE_OK)
		return err;
	/* asked again under the locks: somebody may have reserved while they were waited for */
	err = sl_store_has_ledgers(store, call->now) ? SLUICE_E_FULL : decide_apart(store, call, parts, decisions);
	unlock_homes(homes, home_count);
	return err == SLUICE_E_FULL ? decide_any(store, call, parts, decisions, homes, home_count, NULL) : err;
}

/* Looks at one limit's counter under its own lock. */
static sluice_err inspect_one(struct sluice_store *store, const struct sluice_item *item, sluice_ns now,
                              struct sluice_inspection *told) {
	struct sluice_limit limit = *item->limit; /* as its key makes it: windows that are spread */
	struct sluice_item keyed = *item;
	struct sluice_call call = {
		.items = &keyed, .item_count = 1, .cost = 1, .operation = SLUICE_PEEK, .want_next = true, .now = now};
	struct sl_place place = {.home = NULL};
	struct part part;
	struct sluice_decision decision;
	struct sl_bucket *homes[2];
	sluice_err err;
	sl_rule_key(&limit, item->key);
	keyed.limit = &limit;
	if (item_has_counter(&keyed))
		place = part_place(store, &keyed);
	part.place = &place;
	homes[0] = place.home;
	sl_answer_clear(&call);
	do {
		err = decide_any(store, &call, &part, &decision, homes, place.home != NULL, told);
	} while (sl_is_held_up(err) && sl_held_up_wait(store, &err));
	return err;
}

sluice_err sluice_inspect(struct sluice_store *store, const struct sluice_item *items, uint32_t count, sluice_ns now,
                          struct sluice_inspection *list) {
	sluice_err err = SLUICE_OK;
	if (store == NULL || ((items == NULL || list == NULL) && count != 0))
		return SLUICE_E_MISUSE;
	if (store->owner == 0)
		return SLUICE_E_BUSY;
	if (count > SLUICE_ITEMS_MAX)
		return SLUICE_E_RANGE;
	for (uint32_t i = 0; i < count && err == SLUICE_OK; i++) {
		const struct sluice_call call = {
			.items = &items[i], .item_count = 1, .cost = 1, .operation = SLUICE_PEEK, .now = now};
		err = sl_call_validate(&call);
		if (err == SLUICE_OK)
			err = inspect_one(store, &items[i], now, &list[i]);
	}
	return err;
}
