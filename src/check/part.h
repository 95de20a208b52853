/* One limit of a call while it is being decided: what the files of this folder share. */
#ifndef SL_PART_H
#define SL_PART_H

#include "algo/bundle.h"
#include "algo/override.h"
#include "base/assert.h"
#include "decide/decide.h"
#include "store/blocks.h"
#include "store/sketch.h"

/* The open reservations of a counter (reserve.c). */
struct ledger {
	struct sl_place place;
	struct sl_slot *slot; /* NULL: it has none */
	const struct sl_reservation *list;
	uint32_t count, skipped; /* in the list; before it, in the block */
	uint32_t ended;          /* of the list, at the call's instant */
	uint32_t corrected;      /* of the list, by the call: those that have ended, and what it commits */
	int64_t commits;         /* which of the list is committed, or has it in it; -1: none */
	bool dead;               /* its counter went before it: what it names is charged nowhere */
	bool adds;               /* the charge is to be noted in it */
	bool writes;             /* it and the counter are changed together, anew */
	bool claimed;
	uint32_t block, scratch; /* taken for it, and to compute in */
	/* what its bundles are made of */
	struct sl_place contents_place;
	struct sl_slot *contents_slot; /* NULL: it has none */
	struct sl_contents contents;
	struct sl_found found; /* what is committed */
	bool contents_claimed;
	bool contents_renew; /* they get a new block */
	uint32_t contents_block;
};

/* Where the strikes of a counter are (strikes.c). */
struct strikes {
	struct sl_place place;
	struct sl_slot *slot; /* NULL: it has none */
};

struct part {
	struct sl_cell cell; /* what the engine knows of it: first */
	const struct sl_place *place;
	struct sl_slot *slot; /* NULL: no counter yet */
	uint32_t amount;      /* that is charged: the cost; or, forced, what may be charged */
	uint32_t block;       /* taken for it */
	uint64_t block_bytes;
	bool claimed;    /* the slot was claimed by this call */
	bool remembered; /* it has no counter, and the sketch knows of one: with this use, and this to be held against it */
	uint8_t use;
	uint8_t held_count;
	struct sl_held held[SL_USES];
	struct ledger ledger; /* these two: of one that is not plain */
	struct strikes strikes;
	struct sluice_limit own; /* where its key has a quota of its own: cell.limit is this then */
};

/* The record of a request that may be retried (token.c). */
struct token {
	struct sl_place place;
	struct sl_slot *slot; /* NULL: it has none */
	bool claimed;
};

/* ---- a part's counter ------------------------------------------------------------------------------------------ */

/* Copies the state from the slot, or none. */
static inline void part_load(const struct sluice_store *store, struct part *m) {
	const uint64_t *state;
	uint32_t block;
	m->cell.counter.block = NULL;
	m->cell.counter.block_bytes = 0;
	if (m->slot == NULL) {
		m->cell.counter.state = (struct sl_state){.rate = 0};
		return;
	}
	/* by words of 8: whatever wrote them last, the processor can forward that */
	state = sl_slot_state(m->slot);
	m->cell.counter.state.w[0] = __atomic_load_n(&state[0], __ATOMIC_RELAXED);
	m->cell.counter.state.w[1] = __atomic_load_n(&state[1], __ATOMIC_RELAXED);
	m->cell.counter.state.life = (uint32_t)(sl_slot_tag(m->slot) & SL_LIFE_FRESH) + 1;
	block = (uint32_t)m->cell.counter.state.w[1];
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK) && block != 0) {
		m->cell.counter.block = sl_block_memory(store, block);
		m->cell.counter.block_bytes = sl_block_bytes(store, block);
		sl_step_prefetch(m->cell.limit, &m->cell.counter);
	}
}

/* Bytes of the block that was taken for a counter: what was asked for, also where somebody else has written over what
 * is noted of it. */
static inline uint64_t part_taken_bytes(const struct sluice_store *store, const struct part *m) {
	return sl_max(sl_block_bytes(store, m->block), m->block_bytes);
}

/* `unlimited` counts nothing. */
static inline bool has_counter(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_HAS_COUNTER);
}

/* Nor is the counter of a limit looked at that has met a bound before. */
static inline bool item_has_counter(const struct sluice_item *item) {
	return has_counter(item->limit) && item->bound == SLUICE_BOUND_NONE;
}

/* Where the counter of a limit with one lives, for a key of at most SLUICE_KEY_BYTES_MAX bytes, as most are. */
static inline struct sl_place part_place_short(const struct sluice_store *store, const struct sluice_item *item) {
	SL_DEBUG_ASSERT(item->key.len <= SLUICE_KEY_BYTES_MAX);
	return sl_place_of(store, &item->limit->derived[SL_IDENT_KIND], item->limit->derived[SL_IDENT_NAME] == 0 ? 1 : 2,
	                   item->key, sl_rule_has(item->limit, SL_HAS_BLOCK));
}

/* For a longer key, which is folded: so a caller of the library meets the counter that the key has at every door. */
struct sl_place part_place_long(const struct sluice_store *store, const struct sluice_item *item);

static inline struct sl_place part_place(const struct sluice_store *store, const struct sluice_item *item) {
	return __builtin_expect(item->key.len > SLUICE_KEY_BYTES_MAX, 0) ? part_place_long(store, item)
	                                                                 : part_place_short(store, item);
}

/* Decides a part that has no counter in a store that has evicted some: from what the sketch knows, if it does. */
void part_step_remembered(const struct sluice_store *store, struct part *m, sluice_ns now, uint64_t cost, bool charge,
                          struct sluice_decision *decision);

/* Makes the counter of a remembered part anew, in its block if it keeps one; then it can be stepped and written. */
void part_assume(struct part *m, void *block, uint64_t block_bytes);

/* Decides a part on a copy of its counter, or on what the sketch knows of one; with `charge`, the copy comes back
 * charged where the algorithm keeps no block. Each call does: where a file needs it for more than that, gcc would
 * rather call it. */
static inline __attribute__((always_inline)) void part_step(const struct sluice_store *store, struct part *m,
                                                            sluice_ns now, uint64_t cost, bool charge,
                                                            struct sluice_decision *decision) {
	m->remembered = false;
	if (__builtin_expect(m->slot == NULL, 0) && sl_sketch_is_used(store, now)) {
		part_step_remembered(store, m, now, cost, charge, decision);
		return;
	}
	part_load(store, m);
	sl_step(m->cell.limit, &m->cell.counter, now, cost, charge, decision);
}

/* Publishes the state that a part's copy has now, with the use and lifetime that a decision of it says. In line,
 * for the same reason. */
static inline __attribute__((always_inline)) void part_publish_state(struct part *m,
                                                                     const struct sluice_decision *decision) {
	uint64_t marks =
		__builtin_expect(m->remembered, 0) ? sl_marks_start(true, m->use) : sl_tag_marks(sl_slot_tag(m->slot));
	sl_slot_publish(m->slot, m->cell.counter.state.w, sl_marks_of(marks, decision->quota, decision->remaining),
	                sl_step_life(m->cell.limit, decision));
}

/* Writes the state of a copy that was refunded: its lifetime stays, but a bucket's says how fast it drains. */
static inline void part_write(struct part *m) {
	if (sl_rule_rate_may_change(m->cell.limit))
		sl_slot_publish(m->slot, m->cell.counter.state.w, sl_tag_marks(sl_slot_tag(m->slot)),
		                sl_bucket_life(m->cell.limit, &m->cell.counter.state));
	else
		sl_slot_write(m->slot, m->cell.counter.state.w);
}

/* Charges a counter that is there, and whose block, if it has one, is long enough: sl_step() has been called. */
static inline void part_publish(struct part *m, sluice_ns now, uint32_t cost) {
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK)) {
		if (sl_step_prepare(m->cell.limit, &m->cell.counter))
			sl_slot_write(m->slot, m->cell.counter.state.w);
		sl_step_write(m->cell.limit, &m->cell.counter, now, cost, NULL, 0);
	}
	part_publish_state(m, m->cell.decision);
}

/* Whether there is nothing to claim or take for the charge of a plain part, as for most: its counter is there, and its
 * block, if it has one, is long enough. sl_step() has been called. */
static inline __attribute__((always_inline)) bool part_fits(const struct part *m, uint32_t cost) {
	return m->slot != NULL && (!sl_rule_has(m->cell.limit, SL_HAS_BLOCK) ||
	                           sl_step_block_bytes(m->cell.limit, &m->cell.counter, cost) == 0);
}

/* Brings the figures of a plain part up to its counter as it is now; what was decided, and the delay, stay. */
static inline void part_refresh(const struct sluice_store *store, struct part *m, sluice_ns now) {
	struct sluice_decision left;
	part_step(store, m, now, m->cell.decision->allowed ? 0 : m->cell.cost, false, &left);
	m->cell.decision->quota = left.quota;
	m->cell.decision->remaining = left.remaining;
	m->cell.decision->reset_after_ns = left.reset_after_ns;
	if (!m->cell.decision->allowed)
		m->cell.decision->retry_after_ns = left.retry_after_ns;
}

/* The wait until a plain part's `remaining` grows by one, of the counter as it is now. */
static inline void part_fill_next(const struct sluice_store *store, struct part *m, sluice_ns now) {
	struct sluice_decision next;
	if (m->cell.decision->remaining >= m->cell.decision->quota)
		return;
	if (m->cell.decision->bound != SLUICE_BOUND_NONE) {
		m->cell.decision->next_after_ns = m->cell.decision->retry_after_ns;
		return;
	}
	part_step(store, m, now, (uint64_t)m->cell.decision->remaining + 1, false, &next);
	m->cell.decision->next_after_ns = next.retry_after_ns;
}

/* Before a state is written at `now`: no state may be later than header->latest_charge. */
static inline void parts_keep_latest(struct sluice_store *store, sluice_ns now) {
	if (__builtin_expect(now >= __atomic_load_n(&store->latest_ns, __ATOMIC_RELAXED), 0))
		sl_store_raise_latest(store, now);
}

/* Charges all parts that are marked `charged`, and corrects those that are marked so, or none; all homes are locked.
 * Plain ones have been stepped. Finds slots for new counters, for ledgers and for the token (NULL: none; without a slot
 * the request leaves no record, as if that had been evicted), and blocks, evicting where there is no other way.
 * SLUICE_OK; else nothing was changed but who else had to go: SLUICE_E_FULL, and `shortage` says why; or held up. */
SLUICE_MUST_USE sluice_err parts_charge(struct sluice_store *store, const struct sluice_call *call, struct part *parts,
                                        uint32_t count, struct token *token, struct sl_shortage *shortage);

/* Denies a peek by the bound that its charge would meet: the block of a counter would be longer than one may have.
 * `decision` is of that cost, as it was stepped; the part's limit has a block. Whether the store has such a block at
 * all, or a slot, only a charge finds out. Writes nothing. */
void part_peek_room(struct sluice_store *store, const struct sluice_call *call, struct part *m, uint32_t cost,
                    struct sluice_decision *decision);

/* All slots that were found: no claim of the call may take one of them. */
void parts_pin_found(const struct part *parts, uint32_t count, struct sl_pins *found);

/* Whether a counter, or a companion of it, has a block: those are forgotten within a change of the blocks. */
bool part_has_block(const struct part *m);

/* Forgets a counter and its companions. Returns whether there was any of it. */
bool part_forget(struct sluice_store *store, struct part *m);

/* After that, with no change open: hides from a part what the sketch knows of it. Returns whether it knew any. */
bool part_hide(struct sluice_store *store, struct part *m, sluice_ns now);

/* ---- its companions ---------------------------------------------------------------------------------------------- */

/* Finds the ledger of a part (slot: as found), in a store that may have some. */
void ledger_find(const struct sluice_store *store, struct part *m, sluice_ns now);

/* Plans what a charge, or a commit, does to a ledger: fills `writes` and `corrected`. False where it would be too
 * long, or need a block of more than `bytes_most`. */
SLUICE_MUST_USE bool ledger_plan(struct part *m, uint64_t bytes_most);

/* The wait until the first of those that are open ends; SLUICE_NEVER where none is. */
sluice_ns ledger_first_end(const struct part *m, sluice_ns now);

/* Bytes of the block that a planned change of a part needs for its ledger, and to compute in; 0: none. */
uint64_t ledger_bytes(const struct part *m);
uint64_t ledger_scratch_bytes(const struct part *m);
uint64_t ledger_contents_bytes(const struct part *m);

/* Bytes of the new block of a counter that is to be changed together with its ledger. */
uint64_t ledger_counter_bytes(struct part *m, sluice_ns now);

/* Within a change for which all was taken: writes counter and ledger anew. */
void ledger_publish(struct sluice_store *store, const struct sluice_call *call, struct part *m);

/* After that change, and with no change open: a ledger in which nothing is left gives back its slot. */
void ledger_close(struct sluice_store *store, struct part *m);

/* Before a charge in place of a counter whose ledger stays as it is: lets that live as long as the counter will. */
void ledger_outlive(struct sluice_store *store, struct part *m, sluice_ns now);

/* What is open of the call's id, at the counter's clock; where the counter went, at the caller's. */
struct sl_found ledger_find_open(const struct part *m, uint64_t id, sluice_ns now);

/* Closes what a commit found without correcting anything, in place, which needs no room: the estimate stays charged. */
void ledger_keep_estimate(struct part *m);

/* Decides a part that is not plain, with its open reservations; charges nothing. */
void ledger_judge(const struct sluice_store *store, struct part *m, sluice_ns now, uint64_t cost,
                  struct sluice_decision *decision);

/* Tells anew what a part holds of which reservations have ended: as if they had been returned. */
void ledger_describe(const struct sluice_store *store, struct part *m, sluice_ns now, struct sluice_inspection *told);

/* How long a slot has to live from `word`, the first of its state, to `end`. */
static inline sluice_ns life_until(uint64_t word, sluice_ns end) {
	uint64_t from = word >> SL_COARSE_SHIFT << SL_COARSE_SHIFT;
	return end > from ? end - from : 0;
}

static inline sluice_ns ns_add(sluice_ns a, sluice_ns b) {
	return a < SLUICE_NEVER - 1 - b ? a + b : SLUICE_NEVER - 1;
}

/* A part has no companions, as far as was looked. */
static inline void part_beside_none(struct part *m) {
	m->ledger.slot = NULL;
	m->ledger.list = NULL;
	m->ledger.count = m->ledger.skipped = m->ledger.ended = m->ledger.corrected = 0;
	m->ledger.commits = -1;
	m->ledger.dead = m->ledger.adds = false;
	m->ledger.block = m->ledger.scratch = m->ledger.contents_block = 0;
	m->ledger.contents_slot = NULL;
	m->ledger.contents.memory = NULL;
	m->strikes.slot = NULL;
}

/* Finds the strikes of a part, and copies them to cell.strikes. (strikes.c) */
void strikes_find(const struct sluice_store *store, struct part *m);

/* Writes cell.strikes, in a block written anew. False: there is no room for them. (strikes.c) */
bool strikes_write(struct sluice_store *store, const struct sluice_call *call, struct part *parts, struct part *m);

/* Whether the key of a part has a quota of its own, in a store that has some, its home locked: cell.limit is that then.
 * (override.c) */
bool override_take(const struct sluice_store *store, struct part *m, sluice_ns now);

/* Fills the quota that the key of a counter has of its own, its home locked; false: it has none. (override.c) */
bool override_tell(const struct sluice_store *store, const struct sl_place *counter, const struct sluice_limit *limit,
                   sluice_ns now, struct sluice_override *override);

/* ---- the operations ---------------------------------------------------------------------------------------------- */

/* Ends the lease that cell.counter.who names, or lets it end T from now. False: there is none. (lease.c) */
bool lease_release(struct sluice_store *store, struct part *m, sluice_ns now);
bool lease_renew(struct sluice_store *store, struct part *m, sluice_ns now);

/* Where the record of a retried call is, but not its slot: false where it charges nothing; what is in it, where it is
 * found; and the record of one that was charged. (token.c) */
bool token_place(const struct sluice_store *store, const struct sluice_call *call, const struct part *parts,
                 struct token *token);
bool token_recall(const struct token *token, struct sl_record *record);
void token_publish(struct token *token, const struct sl_record *record);

/* Decides a call of any kind that is valid, its limits placed; fills all of it but `err`, which it returns. Held up
 * (store/lock.h): nothing was changed, and no lock is held. A `plain` one is a charge or a peek that says no more than
 * one cost, and limits with their keys, observed or not: none that is unlimited, or counts leases or parts.
 * (cells.c) */
SLUICE_MUST_USE sluice_err decide_several(struct sluice_store *store, struct sluice_call *call,
                                          const struct sl_place *places, bool plain);

#endif
