/* Charging the counters of one call: slots and blocks first, which may fail, then writing, which can't.
 *
 *   plan      how long a block each counter needs, and its ledger (reserve.c)
 *   claim     a slot for each new counter, FRESH until it is published: a death gives it back
 *   take      the blocks that longer logs need, all within one change of the blocks (store/blocks.c): a death, or one
 *             that is not to be had, undoes all of it
 *   publish   each state by one store; with a new block within the change, so that the state and who owns which block
 *             become true together */
#include "check/member.h"

static inline bool changes(const struct member *m) {
	return m->charged || m->corrects;
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static void hold(struct sl_hold *hold, const struct sl_slot *slot) {
	if (slot != NULL)
		hold->slots[hold->count++] = slot;
}

void members_hold_found(const struct member *members, uint32_t count, struct sl_hold *found) {
	found->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		hold(found, members[i].slot);
		if (members[i].plain)
			continue;
		hold(found, members[i].ledger.slot);
		hold(found, members[i].ledger.contents_slot);
		hold(found, members[i].strikes.slot);
	}
}

static bool claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now, struct sl_hold *held,
                  struct sl_slot **slot) {
	*slot = sl_slot_claim(store, place, now, held);
	hold(held, *slot);
	return *slot != NULL;
}

/* Returns count, or the first member that finds no slot. A request without a slot for its record goes on without. */
static uint32_t claim_all(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                          uint32_t count, struct token *token, struct sl_hold *held) {
	for (uint32_t i = 0; i < count; i++) {
		struct member *m = &members[i];
		if (!m->charged)
			continue;
		if (m->slot == NULL && !(m->claimed = claim(store, m->place, call->now, held, &m->slot)))
			return i;
		if (!m->plain && m->ledger.adds && m->ledger.slot == NULL &&
		    !(m->ledger.claimed = claim(store, &m->ledger.place, call->now, held, &m->ledger.slot)))
			return i;
		if (!m->plain && m->ledger.contents_renew && m->ledger.contents_slot == NULL &&
		    !(m->ledger.contents_claimed =
		          claim(store, &m->ledger.contents_place, call->now, held, &m->ledger.contents_slot)))
			return i;
	}
	if (token != NULL && token->slot == NULL)
		token->claimed = claim(store, &token->place, call->now, held, &token->slot);
	return count;
}

static void give_back(struct sluice_store *store, const struct sl_place *place, struct sl_slot **slot, bool *claimed) {
	if (*claimed) {
		(void)sl_slot_free(store, place->home, *slot); /* it has no block yet */
		*slot = NULL;
	}
	*claimed = false;
}

static void give_back_claims(struct sluice_store *store, struct member *members, uint32_t count, struct token *token) {
	for (uint32_t i = 0; i < count; i++) {
		give_back(store, members[i].place, &members[i].slot, &members[i].claimed);
		if (members[i].plain)
			continue;
		give_back(store, &members[i].ledger.place, &members[i].ledger.slot, &members[i].ledger.claimed);
		give_back(store, &members[i].ledger.contents_place, &members[i].ledger.contents_slot,
		          &members[i].ledger.contents_claimed);
	}
	if (token != NULL)
		give_back(store, &token->place, &token->slot, &token->claimed);
}

static void claim_nothing(struct member *members, uint32_t count, struct token *token) {
	for (uint32_t i = 0; i < count; i++) {
		members[i].claimed = false;
		if (!members[i].plain)
			members[i].ledger.claimed = members[i].ledger.contents_claimed = false;
	}
	if (token != NULL)
		token->claimed = false;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* What the members of a call need before they are published: most need nothing. */
struct needs {
	bool slots;  /* a counter is new */
	bool change; /* of the blocks */
};

/* A member that is not plain was judged as it stands; now it is stepped as one that is charged. Its reservations
 * apart: where those are written, the counter is planned with them. */
static bool plan_beside(struct sluice_store *store, const struct sluice_call *call, struct member *m) {
	struct sluice_decision left;
	if (!ledger_plan(m, sl_block_bytes_most(store)))
		return false;
	m->block_bytes = 0;
	m->amount = m->cost;
	if (m->ledger.writes && m->slot == NULL && !m->charged) {
		m->remembered = false; /* there is nothing but the ledger */
		member_load(store, m);
	} else if (m->ledger.writes) {
		member_step(store, m, call->now, 0, false, &left);
		m->block_bytes =
			m->remembered ? sl_step_assume_bytes(m->limit, m->held_count) : ledger_counter_bytes(m, call->now);
	} else if (m->forced) {
		member_step(store, m, call->now, 0, false, &left);
		m->amount = sl_step_count(m->limit, &m->counter, call->now, m->cost);
		m->charged = m->amount != 0;
	} else {
		member_step(store, m, call->now, m->cost, true, m->decision);
	}
	return true;
}

/* A counter that may grow no more has room for a charge when the oldest of what it holds is gone; one that could not
 * even begin never has. */
static __attribute__((noinline)) void lacks_room_of_its_own(struct sluice_store *store, const struct sluice_call *call,
                                                            struct member *m, struct shortage *shortage) {
	struct sluice_decision now, then;
	*shortage = (struct shortage){0, SLUICE_BOUND_ROOM, SLUICE_NEVER};
	member_step(store, m, call->now, 0, false, &now);
	if (now.remaining >= now.quota)
		return;
	member_step(store, m, call->now, (uint64_t)now.remaining + 1, false, &then);
	shortage->wait_ns = then.retry_after_ns;
}

/* How long a block a member needs that is charged or corrected. False where that can't be: `shortage` says why. */
static inline bool plan_one(struct sluice_store *store, const struct sluice_call *call, struct member *m,
                            struct needs *needs, struct shortage *shortage) {
	bool writes = false;
	m->amount = m->cost;
	if (!m->plain) {
		if (!plan_beside(store, call, m)) {
			*shortage = (struct shortage){0, SLUICE_BOUND_RESERVATIONS, ledger_first_end(m, call->now)};
			return false;
		}
		if (!changes(m))
			return true;
		writes = m->ledger.writes;
	}
	if (sl_rule_has_block(m->limit) && !writes)
		m->block_bytes = m->remembered ? sl_step_assume_bytes(m->limit, m->held_count)
		                               : sl_step_block_bytes(m->limit, &m->counter, m->amount);
	if (m->block_bytes != 0 && m->block_bytes > sl_block_bytes_most(store) && !m->corrects) {
		lacks_room_of_its_own(store, call, m, shortage);
		return false;
	}
	needs->slots |= m->charged && m->slot == NULL;
	needs->change |= writes || m->block_bytes != 0;
	return true;
}

static inline bool plan_all(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                            uint32_t count, struct needs *needs, struct shortage *shortage) {
	*needs = (struct needs){false, false};
	for (uint32_t i = 0; i < count; i++) {
		members[i].block_bytes = 0;
		if (changes(&members[i]) && !plan_one(store, call, &members[i], needs, shortage)) {
			shortage->member = i;
			return false;
		}
	}
	return true;
}

/* Takes a block, if one is needed; returns 0, or its bytes where it is not to be had. */
static uint64_t take(struct sluice_store *store, uint64_t bytes, uint32_t *block) {
	uint64_t true_bytes;
	*block = bytes != 0 ? sl_blocks_take(store, bytes, &true_bytes) : 0;
	return *block != 0 ? 0 : bytes;
}

/* Takes all blocks; returns 0, or the bytes of the one that was not to be had, of members[*at]. */
static uint64_t take_all(struct sluice_store *store, struct member *members, uint32_t count, uint32_t *at) {
	uint64_t short_of = 0;
	for (uint32_t i = 0; i < count && short_of == 0; i++) {
		struct member *m = &members[i];
		m->block = 0;
		if (!changes(m))
			continue;
		*at = i;
		short_of = take(store, m->block_bytes, &m->block);
		if (m->plain || !m->ledger.writes)
			continue;
		if (short_of == 0)
			short_of = take(store, ledger_bytes(m), &m->ledger.block);
		if (short_of == 0)
			short_of = take(store, ledger_scratch_bytes(m), &m->ledger.scratch);
		if (short_of == 0)
			short_of = take(store, ledger_contents_bytes(m), &m->ledger.contents_block);
	}
	return short_of;
}

/* Opens a change of the blocks in which all are taken. SLUICE_OK; SLUICE_E_FULL, and the block of members[*at] was not
 * to be had; or held up. */
static sluice_err open_blocks(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                              uint32_t count, const struct sl_hold *held, uint32_t *at) {
	struct sl_room_search room = {0};
	uint64_t short_of;
	do {
		sluice_err err = sl_blocks_begin(store);
		if (err != SLUICE_OK)
			return err;
		short_of = take_all(store, members, count, at);
		if (short_of == 0)
			return SLUICE_OK;
		sl_blocks_abort(store);
	} while (sl_store_make_room(store, short_of, call->now, held, &room));
	return SLUICE_E_FULL;
}

/* ---- publishing ------------------------------------------------------------------------------------------------- */

/* What a forced charge leaves: the marks and the lifetime are of that, not of the denial. */
static struct sluice_decision left_by(struct member *m, sluice_ns now) {
	struct sluice_decision left;
	sl_step(m->limit, &m->counter, now, 0, false, &left);
	return left;
}

/* Charges into the block that was taken, and lets go of the one before; within the change. */
static void publish_moved(struct sluice_store *store, struct member *m, sluice_ns now) {
	uint64_t bytes = sl_block_bytes(store, m->block);
	uint32_t old = m->remembered ? 0 : (uint32_t)m->counter.state.w[1];
	void *block = sl_block_memory(store, m->block);
	struct sluice_decision left;
	if (m->remembered) {
		member_assume(m, block, bytes);
		if (m->forced)
			m->amount = sl_step_count(m->limit, &m->counter, now, m->cost);
		else
			sl_step(m->limit, &m->counter, now, m->amount, true, m->decision);
		block = NULL;
	}
	sl_step_write(m->limit, &m->counter, now, m->amount, block, bytes);
	while (m->forced && sl_step_trim(m->limit, &m->counter, now))
		;
	left = m->forced ? left_by(m, now) : *m->decision;
	m->counter.state.w[1] = m->counter.state.w[1] >> 32 << 32 | m->block;
	sl_block_own(store, m->block, m->slot);
	sl_blocks_save_slot(store, m->slot);
	member_publish_state(m, &left);
	if (old != 0)
		sl_blocks_free(store, old);
}

/* Forces a charge in place. */
static void publish_forced(struct member *m, sluice_ns now) {
	struct sluice_decision left;
	if (sl_rule_has_block(m->limit)) {
		if (sl_step_prepare(m->limit, &m->counter))
			sl_slot_write(m->slot, m->counter.state.w);
		sl_step_write(m->limit, &m->counter, now, m->amount, NULL, 0);
	}
	left = left_by(m, now);
	member_publish_state(m, &left);
	while (sl_step_trim(m->limit, &m->counter, now))
		sl_slot_write(m->slot, m->counter.state.w);
}

static void publish_one(struct sluice_store *store, const struct sluice_call *call, struct member *m) {
	if (!m->plain && m->ledger.writes) {
		ledger_publish(store, call, m);
		return;
	}
	if (!m->plain)
		ledger_outlive(store, m, call->now);
	if (m->block_bytes != 0)
		publish_moved(store, m, call->now);
	else if (m->forced)
		publish_forced(m, call->now);
	else
		member_publish(m, call->now, m->amount);
}

static inline void publish_all(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                               uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		struct member *m = &members[i];
		if (!changes(m))
			continue;
		publish_one(store, call, m);
		if (m->remembered && m->charged)
			__atomic_fetch_add(&store->header->sketch_starts, 1, __ATOMIC_RELAXED);
	}
}

/* When room that others have may have come free: slots are in use by calls that end at once, blocks for longer. */
static sluice_ns room_wait(const struct sluice_limit *limit, bool slots) {
	sluice_ns most = slots ? (sluice_ns)SL_MS_NS : (sluice_ns)1000 * SL_MS_NS;
	return limit->window_ns < most ? limit->window_ns : most;
}

/* Claims and takes all that the members, and the token, need. */
static __attribute__((noinline)) sluice_err provide(struct sluice_store *store, const struct sluice_call *call,
                                                    struct member *members, uint32_t count, struct token *token,
                                                    bool change, struct shortage *shortage) {
	struct sl_hold held;
	uint32_t at;
	bool claimed;
	sluice_err err;
	claim_nothing(members, count, token);
	members_hold_found(members, count, &held);
	if (token != NULL)
		hold(&held, token->slot);
	at = claim_all(store, call, members, count, token, &held);
	claimed = at == count;
	err = claimed ? SLUICE_OK : sl_blocks_why_full(store);
	if (claimed && change)
		err = open_blocks(store, call, members, count, &held, &at);
	if (err == SLUICE_OK)
		return SLUICE_OK;
	if (err == SLUICE_E_FULL)
		*shortage = (struct shortage){at, SLUICE_BOUND_ROOM, room_wait(members[at].limit, !claimed)};
	give_back_claims(store, members, count, token);
	return err;
}

static void end_change(struct sluice_store *store, struct member *members, uint32_t count) {
	sl_blocks_commit(store);
	for (uint32_t i = 0; i < count; i++)
		if (!members[i].plain && changes(&members[i]) && members[i].ledger.writes)
			ledger_close(store, &members[i]);
}

sluice_err members_charge(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                          uint32_t count, struct token *token, struct shortage *shortage) {
	struct needs needs;
	sluice_err err = SLUICE_OK;
	if (!plan_all(store, call, members, count, &needs, shortage))
		return SLUICE_E_FULL;
	if (needs.slots || needs.change || token != NULL)
		err = provide(store, call, members, count, token, needs.change, shortage);
	if (err != SLUICE_OK)
		return err;
	publish_all(store, call, members, count);
	if (needs.change)
		end_change(store, members, count);
	return SLUICE_OK;
}

bool members_deny(const struct sluice_call *call, struct member *members, const struct shortage *shortage) {
	uint8_t leader = members[shortage->member].leader;
	bool enforced = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (!m->counts || m->leader != leader || m->tried || m->cost == 0 || !m->decision->allowed)
			continue;
		sl_decide_bound(m->decision, shortage->bound, shortage->wait_ns);
		enforced = enforced || !m->observed;
	}
	return enforced;
}

/* What the sketch knows can't be taken out of it, since others may share it: a counter that has been charged nothing,
 * and lives as long as that, stands before it. */
static void hide_from_sketch(struct sluice_store *store, struct member *m, sluice_ns now) {
	const struct sl_hold hold = {.count = 0};
	const uint64_t state[2] = {now >> SL_COARSE_SHIFT << SL_COARSE_SHIFT, 0};
	struct sl_slot *slot = sl_slot_claim(store, m->place, now, &hold);
	members_keep_latest(store, now);
	if (slot != NULL)
		sl_slot_publish(slot, state, 0, store->header->sketch_until_ns - now);
}

static struct sl_slot *find_beside(const struct member *m, uint64_t which) {
	struct sl_place place = sl_place_beside(m->place, which);
	struct sl_slot *slot = sl_slot_find(&place);
	return slot != NULL && sl_marks_are_beside(sl_tag_marks(sl_slot_tag(slot))) ? slot : NULL;
}

bool member_has_block(const struct member *m) {
	bool has = m->slot != NULL && sl_tag_has_block(sl_slot_tag(m->slot));
	for (uint64_t which = SL_BESIDE_LEDGER; which < SL_BESIDE_ALL; which *= 2)
		has = has || find_beside(m, which) != NULL;
	return has;
}

/* What stands beside a counter goes behind it: reservations whose counter has gone are charged nowhere. */
bool member_forget(struct sluice_store *store, struct member *m) {
	bool was = m->slot != NULL;
	if (was)
		sl_slot_free_within(store, m->place->home, m->slot);
	for (uint64_t which = SL_BESIDE_LEDGER; which < SL_BESIDE_ALL; which *= 2) {
		struct sl_slot *slot = find_beside(m, which);
		if (slot == NULL)
			continue;
		sl_slot_free_within(store, m->place->home, slot);
		was = true;
	}
	m->slot = m->ledger.slot = m->ledger.contents_slot = m->strikes.slot = NULL;
	m->ledger.count = m->ledger.ended = 0;
	return was;
}

bool member_hide(struct sluice_store *store, struct member *m, sluice_ns now) {
	struct sluice_decision decision;
	if (!sl_sketch_is_used(store, now))
		return false;
	member_step(store, m, now, 0, false, &decision);
	if (m->remembered)
		hide_from_sketch(store, m, now);
	m->slot = sl_slot_find(m->place);
	return m->remembered;
}
