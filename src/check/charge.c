/* Charging the counters of one call: slots and blocks first, which may fail, then writing, which can't.
 *
 *   plan      how long a block each counter needs, and its ledger (reserve.c)
 *   claim     a slot for each new counter, FRESH until it is published: a death gives it back
 *   take      the blocks that longer logs need, all within one change of the blocks (store/blocks.c): a death, or one
 *             that is not to be had, undoes all of it
 *   publish   each state by one store; with a new block within the change, so that the state and who owns which block
 *             become true together */
#include "check/part.h"

static inline bool changes(const struct part *m) {
	return m->cell.charged || m->cell.corrects;
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static void pin(struct sl_pins *pins, const struct sl_slot *slot) {
	SL_ASSERT(pins->count < SL_PINS_MAX);
	if (slot != NULL)
		pins->slots[pins->count++] = slot;
}

void parts_pin_found(const struct part *parts, uint32_t count, struct sl_pins *found) {
	found->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		pin(found, parts[i].slot);
		if (parts[i].cell.plain)
			continue;
		pin(found, parts[i].ledger.slot);
		pin(found, parts[i].ledger.contents_slot);
		pin(found, parts[i].strikes.slot);
	}
}

static bool claim(struct sluice_store *store, const struct sl_place *place, sluice_ns now, struct sl_pins *held,
                  struct sl_slot **slot) {
	SL_ASSERT(*slot == NULL && place->home != NULL);
	*slot = sl_slot_claim(store, place, now, held);
	SL_ASSERT(*slot == NULL || !sl_pins_have(held, *slot)); /* I2 */
	pin(held, *slot);
	return *slot != NULL;
}

/* Returns count, or the first part that finds no slot. A request without a slot for its record goes on without. */
static uint32_t claim_all(struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                          uint32_t count, struct token *token, struct sl_pins *held) {
	for (uint32_t i = 0; i < count; i++) {
		struct part *m = &parts[i];
		if (!m->cell.charged)
			continue;
		SL_ASSERT(m->place->home != NULL);
		if (m->slot == NULL && !(m->claimed = claim(store, m->place, call->now, held, &m->slot)))
			return i;
		if (!m->cell.plain && m->ledger.adds && m->ledger.slot == NULL &&
		    !(m->ledger.claimed = claim(store, &m->ledger.place, call->now, held, &m->ledger.slot)))
			return i;
		if (!m->cell.plain && m->ledger.contents_renew && m->ledger.contents_slot == NULL &&
		    !(m->ledger.contents_claimed =
		          claim(store, &m->ledger.contents_place, call->now, held, &m->ledger.contents_slot)))
			return i;
	}
	if (token != NULL && token->slot == NULL)
		token->claimed = claim(store, &token->place, call->now, held, &token->slot);
	return count;
}

static void give_back(struct sluice_store *store, const struct sl_place *place, struct sl_slot **slot, bool *claimed) {
	SL_ASSERT(!*claimed || *slot != NULL);
	if (*claimed) {
		(void)sl_slot_free(store, place->home, *slot); /* it has no block yet */
		*slot = NULL;
	}
	*claimed = false;
}

static void give_back_claims(struct sluice_store *store, struct part *parts, uint32_t count, struct token *token) {
	for (uint32_t i = 0; i < count; i++) {
		give_back(store, parts[i].place, &parts[i].slot, &parts[i].claimed);
		if (parts[i].cell.plain)
			continue;
		give_back(store, &parts[i].ledger.place, &parts[i].ledger.slot, &parts[i].ledger.claimed);
		give_back(store, &parts[i].ledger.contents_place, &parts[i].ledger.contents_slot,
		          &parts[i].ledger.contents_claimed);
	}
	if (token != NULL)
		give_back(store, &token->place, &token->slot, &token->claimed);
}

static void claim_nothing(struct part *parts, uint32_t count, struct token *token) {
	for (uint32_t i = 0; i < count; i++) {
		parts[i].claimed = false;
		if (!parts[i].cell.plain)
			parts[i].ledger.claimed = parts[i].ledger.contents_claimed = false;
	}
	if (token != NULL)
		token->claimed = false;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* What the parts of a call need before they are published: most need nothing. */
struct needs {
	bool slots;  /* a counter is new */
	bool change; /* of the blocks */
};

/* A part that is not plain was judged as it stands; now it is stepped as one that is charged. Its reservations
 * apart: where those are written, the counter is planned with them. */
static bool plan_beside(struct sluice_store *store, const struct sluice_call *call, struct part *m) {
	struct sluice_decision left;
	SL_ASSERT(!m->cell.plain && changes(m) && !(m->cell.forced && m->ledger.adds));
	if (!ledger_plan(m, sl_block_bytes_most(store)))
		return false;
	m->block_bytes = 0;
	m->amount = m->cell.cost;
	if (m->ledger.writes && m->slot == NULL && !m->cell.charged) {
		m->remembered = false; /* there is nothing but the ledger */
		part_load(store, m);
	} else if (m->ledger.writes) {
		part_step(store, m, call->now, 0, false, &left);
		m->block_bytes =
			m->remembered ? sl_step_assume_bytes(m->cell.limit, m->held_count, m->cell.cost)
			              : ledger_counter_bytes(m, call->now);
	} else if (m->cell.forced) {
		part_step(store, m, call->now, 0, false, &left);
		if (!m->remembered || !sl_rule_has(m->cell.limit, SL_HAS_BLOCK)) /* that has its block when it is moved */
			m->amount = sl_step_count(m->cell.limit, &m->cell.counter, call->now, m->cell.cost);
		m->cell.charged = m->amount != 0;
	} else {
		part_step(store, m, call->now, m->cell.cost, true, m->cell.decision);
	}
	return true;
}

/* A counter that may grow no more has room for a charge when the oldest of what it holds is gone; one that could not
 * even begin never has. */
static __attribute__((noinline)) void lacks_room_of_its_own(struct sluice_store *store, const struct sluice_call *call,
                                                            struct part *m, struct sl_shortage *shortage) {
	const struct sluice_limit *limit = m->cell.limit;
	struct sluice_limit full;
	struct sluice_decision now, then;
	SL_ASSERT(sl_rule_has(limit, SL_HAS_BLOCK));
	*shortage = (struct sl_shortage){0, SLUICE_BOUND_ROOM, SLUICE_NEVER};
	part_step(store, m, call->now, 0, false, &now);
	if (now.remaining >= now.quota)
		return;
	if (sl_rule_has(limit, SL_TAKES_MEMBER)) {
		/* whatever its cost, who is counted takes one place: as if there were no more than are taken */
		full = *limit;
		full.quota -= now.remaining;
		full.derived[SL_CAPACITY] = full.quota;
		m->cell.limit = &full;
	}
	part_step(store, m, call->now, m->cell.limit == limit ? (uint64_t)now.remaining + 1 : 1, false, &then);
	m->cell.limit = limit;
	shortage->wait_ns = then.retry_after_ns;
}

/* Bytes of the new block that a stepped part needs to be charged an amount; 0: none. */
static inline uint64_t needed_bytes(const struct part *m, uint32_t amount) {
	return m->remembered ? sl_step_assume_bytes(m->cell.limit, m->held_count, amount)
	                     : sl_step_block_bytes(m->cell.limit, &m->cell.counter, amount);
}

/* Whether such a block is longer than one counter may have. */
static inline bool is_above_share(const struct sluice_store *store, const struct part *m, uint64_t bytes) {
	return bytes != 0 && sl_max(bytes, sl_step_most_bytes(m->cell.limit)) > sl_block_bytes_most(store);
}

void part_peek_room(struct sluice_store *store, const struct sluice_call *call, struct part *m, uint32_t cost,
                    struct sluice_decision *decision) {
	struct sl_shortage shortage;
	struct sluice_decision charged;
	SL_ASSERT(call->operation == SLUICE_PEEK || call->cost == 0);
	if (!decision->allowed || cost == 0)
		return;
	part_step(store, m, call->now, cost, true, &charged);
	if (!is_above_share(store, m, needed_bytes(m, cost)))
		return;
	lacks_room_of_its_own(store, call, m, &shortage);
	sl_decide_bound(decision, shortage.bound, shortage.wait_ns);
}

/* How long a block a part needs that is charged or corrected. False where that can't be: `shortage` says why. */
static inline bool plan_one(struct sluice_store *store, const struct sluice_call *call, struct part *m,
                            struct needs *needs, struct sl_shortage *shortage) {
	bool writes = false;
	SL_DEBUG_ASSERT(m->cell.cost != 0 || m->cell.corrects);
	m->amount = m->cell.cost;
	if (!m->cell.plain) {
		if (!plan_beside(store, call, m)) {
			*shortage = (struct sl_shortage){0, SLUICE_BOUND_RESERVATIONS, ledger_first_end(m, call->now)};
			return false;
		}
		if (!changes(m))
			return true;
		writes = m->ledger.writes;
	}
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK) && !writes)
		m->block_bytes = needed_bytes(m, m->amount);
	if (!m->cell.corrects && is_above_share(store, m, m->block_bytes)) {
		lacks_room_of_its_own(store, call, m, shortage);
		return false;
	}
	SL_DEBUG_ASSERT(m->block_bytes == 0 || sl_rule_has(m->cell.limit, SL_HAS_BLOCK));
	needs->slots |= m->cell.charged && m->slot == NULL;
	needs->change |= writes || m->block_bytes != 0;
	return true;
}

static inline bool plan_all(struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                            uint32_t count, struct needs *needs, struct sl_shortage *shortage) {
	*needs = (struct needs){false, false};
	for (uint32_t i = 0; i < count; i++) {
		parts[i].block_bytes = 0;
		if (changes(&parts[i]) && !plan_one(store, call, &parts[i], needs, shortage)) {
			shortage->cell = i;
			return false;
		}
	}
	return true;
}

/* Takes a block, if one is needed; returns 0, or its bytes where it is not to be had. */
static uint64_t take(struct sluice_store *store, uint64_t bytes, uint32_t *block) {
	uint64_t true_bytes;
	SL_ASSERT(bytes != SL_BLOCK_TOO_LARGE);
	*block = bytes != 0 ? sl_blocks_take(store, bytes, &true_bytes) : 0;
	return *block != 0 ? 0 : bytes;
}

/* Takes all blocks; returns 0, or the bytes of the one that was not to be had, of parts[*at]. */
static uint64_t take_all(struct sluice_store *store, struct part *parts, uint32_t count, uint32_t *at) {
	uint64_t short_of = 0;
	for (uint32_t i = 0; i < count && short_of == 0; i++) {
		struct part *m = &parts[i];
		m->block = 0;
		if (!changes(m))
			continue;
		*at = i;
		short_of = take(store, m->block_bytes, &m->block);
		if (m->cell.plain || !m->ledger.writes)
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

/* Opens a change of the blocks in which all are taken. SLUICE_OK; SLUICE_E_FULL, and the block of parts[*at] was not
 * to be had; or held up. */
static sluice_err open_blocks(struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                              uint32_t count, const struct sl_pins *held, uint32_t *at) {
	struct sl_room_search room = {0};
	uint64_t short_of;
	SL_ASSERT(held->count <= SL_PINS_MAX);
	do {
		sluice_err err = sl_blocks_begin(store);
		if (err != SLUICE_OK)
			return err;
		short_of = take_all(store, parts, count, at);
		if (short_of == 0)
			return SLUICE_OK;
		sl_blocks_abort(store);
	} while (sl_store_make_room(store, short_of, call->now, held, &room));
	return SLUICE_E_FULL;
}

/* ---- publishing ------------------------------------------------------------------------------------------------- */

/* What a forced charge leaves: the marks and the lifetime are of that, not of the denial. */
static struct sluice_decision left_by(struct part *m, sluice_ns now) {
	struct sluice_decision left;
	SL_ASSERT(m->cell.forced);
	sl_step(m->cell.limit, &m->cell.counter, now, 0, false, &left);
	SL_ASSERT(left.allowed); /* a cost of nothing */
	return left;
}

/* Charges into the block that was taken, and lets go of the one before; within the change. */
static void publish_moved(struct sluice_store *store, struct part *m, sluice_ns now) {
	uint64_t bytes = part_taken_bytes(store, m);
	uint32_t old = m->remembered ? 0 : (uint32_t)m->cell.counter.state.w[1];
	void *block = sl_block_memory(store, m->block);
	struct sluice_decision left;
	SL_ASSERT(m->block != 0 && m->slot != NULL && m->cell.charged); /* planned, taken, claimed */
	if (m->remembered) {
		part_assume(m, block, bytes);
		if (m->cell.forced)
			m->amount = sl_step_count(m->cell.limit, &m->cell.counter, now, m->cell.cost);
		else
			sl_step(m->cell.limit, &m->cell.counter, now, m->amount, true, m->cell.decision);
		block = NULL;
	}
	if (m->amount != 0)
		sl_step_write(m->cell.limit, &m->cell.counter, now, m->amount, block, bytes);
	while (m->cell.forced && sl_step_trim(m->cell.limit, &m->cell.counter, now))
		;
	left = m->cell.forced ? left_by(m, now) : *m->cell.decision;
	m->cell.counter.state.w[1] = m->cell.counter.state.w[1] >> 32 << 32 | m->block;
	sl_block_own(store, m->block, m->slot);
	sl_blocks_save_slot(store, m->slot);
	part_publish_state(m, &left);
	if (old != 0)
		sl_blocks_free(store, old);
}

/* Forces a charge in place, or into the slot that was claimed for what the sketch knows. */
static void publish_forced(struct part *m, sluice_ns now) {
	struct sluice_decision left;
	SL_ASSERT(m->slot != NULL && m->amount != 0 && !(m->remembered && sl_rule_has(m->cell.limit, SL_HAS_BLOCK)));
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK)) {
		if (sl_step_prepare(m->cell.limit, &m->cell.counter))
			sl_slot_write(m->slot, m->cell.counter.state.w);
		sl_step_write(m->cell.limit, &m->cell.counter, now, m->amount, NULL, 0);
	}
	left = left_by(m, now);
	part_publish_state(m, &left);
	while (sl_step_trim(m->cell.limit, &m->cell.counter, now))
		sl_slot_write(m->slot, m->cell.counter.state.w);
}

static void publish_one(struct sluice_store *store, const struct sluice_call *call, struct part *m) {
	SL_DEBUG_ASSERT(m->slot != NULL || !m->cell.charged); /* a charged part has a slot after planning */
	SL_DEBUG_ASSERT(m->block_bytes == 0 || m->block != 0);
	if (!m->cell.plain && m->ledger.writes) {
		ledger_publish(store, call, m);
		return;
	}
	if (!m->cell.plain)
		ledger_outlive(store, m, call->now);
	if (m->block_bytes != 0)
		publish_moved(store, m, call->now);
	else if (m->cell.forced)
		publish_forced(m, call->now);
	else
		part_publish(m, call->now, m->amount);
}

static inline void publish_all(struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                               uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		struct part *m = &parts[i];
		if (!changes(m))
			continue;
		publish_one(store, call, m);
		if (m->remembered && m->cell.charged)
			__atomic_fetch_add(&store->header->sketch_starts, 1, __ATOMIC_RELAXED);
	}
}

/* When room that others have may have come free: slots are in use by calls that end at once, blocks for longer. */
static sluice_ns room_wait(const struct sluice_limit *limit, bool slots) {
	sluice_ns most = slots ? (sluice_ns)SL_MS_NS : (sluice_ns)1000 * SL_MS_NS;
	return limit->window_ns < most ? limit->window_ns : most;
}

/* Claims and takes all that the parts, and the token, need. */
static __attribute__((noinline)) sluice_err provide(struct sluice_store *store, const struct sluice_call *call,
                                                    struct part *parts, uint32_t count, struct token *token,
                                                    bool change, struct sl_shortage *shortage) {
	struct sl_pins held;
	uint32_t at;
	bool claimed;
	sluice_err err;
	SL_ASSERT(count <= SLUICE_ITEMS_MAX);
	claim_nothing(parts, count, token);
	parts_pin_found(parts, count, &held);
	if (token != NULL)
		pin(&held, token->slot);
	at = claim_all(store, call, parts, count, token, &held);
	claimed = at == count;
	err = claimed ? SLUICE_OK : sl_blocks_why_full(store);
	if (claimed && change)
		err = open_blocks(store, call, parts, count, &held, &at);
	if (err == SLUICE_OK)
		return SLUICE_OK;
	SL_ASSERT(at < count || sl_is_held_up(err)); /* who is held up may have found no fault with any part */
	if (err == SLUICE_E_FULL)
		*shortage = (struct sl_shortage){at, SLUICE_BOUND_ROOM, room_wait(parts[at].cell.limit, !claimed)};
	give_back_claims(store, parts, count, token);
	return err;
}

static void end_change(struct sluice_store *store, struct part *parts, uint32_t count) {
	sl_blocks_commit(store);
	for (uint32_t i = 0; i < count; i++)
		if (!parts[i].cell.plain && changes(&parts[i]) && parts[i].ledger.writes)
			ledger_close(store, &parts[i]);
}

sluice_err parts_charge(struct sluice_store *store, const struct sluice_call *call, struct part *parts, uint32_t count,
                        struct token *token, struct sl_shortage *shortage) {
	struct needs needs;
	sluice_err err = SLUICE_OK;
	if (!plan_all(store, call, parts, count, &needs, shortage))
		return SLUICE_E_FULL;
	if (needs.slots || needs.change || token != NULL)
		err = provide(store, call, parts, count, token, needs.change, shortage);
	if (err != SLUICE_OK)
		return err;
	publish_all(store, call, parts, count);
	if (needs.change)
		end_change(store, parts, count);
	return SLUICE_OK;
}

/* What the sketch knows can't be taken out of it, since others may share it: a counter that has been charged nothing,
 * and lives as long as that, stands before it. */
static void hide_from_sketch(struct sluice_store *store, struct part *m, sluice_ns now) {
	const struct sl_pins hold = {.count = 0};
	const uint64_t state[2] = {now >> SL_COARSE_SHIFT << SL_COARSE_SHIFT, 0};
	struct sl_slot *slot = sl_slot_claim(store, m->place, now, &hold);
	SL_ASSERT(m->slot == NULL);
	parts_keep_latest(store, now);
	if (slot != NULL)
		sl_slot_publish(slot, state, 0, store->header->sketch_until_ns - now);
}

static struct sl_slot *find_beside(const struct part *m, uint64_t which) {
	struct sl_place place = sl_place_beside(m->place, which);
	struct sl_slot *slot = sl_slot_find(&place);
	return slot != NULL && sl_marks_are_beside(sl_tag_marks(sl_slot_tag(slot))) ? slot : NULL;
}

bool part_has_block(const struct part *m) {
	bool has = m->slot != NULL && sl_tag_has_block(sl_slot_tag(m->slot));
	for (uint64_t which = SL_BESIDE_LEDGER; which < SL_BESIDE_ALL; which *= 2)
		has = has || find_beside(m, which) != NULL;
	return has;
}

/* Companions go after their counter: reservations whose counter has gone are charged nowhere. */
bool part_forget(struct sluice_store *store, struct part *m) {
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
	return was;
}

bool part_hide(struct sluice_store *store, struct part *m, sluice_ns now) {
	struct sluice_decision decision;
	if (!sl_sketch_is_used(store, now))
		return false;
	part_step(store, m, now, 0, false, &decision);
	if (m->remembered)
		hide_from_sketch(store, m, now);
	m->slot = sl_slot_find(m->place);
	return m->remembered;
}
