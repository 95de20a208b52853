/* One limit of a call while it is being decided: what the files of this folder share. */
#ifndef SL_MEMBER_H
#define SL_MEMBER_H

#include "algo/bundle.h"
#include "algo/terms.h"
#include "base/assert.h"
#include "store/blocks.h"
#include "store/sketch.h"

/* The open reservations beside a counter (reserve.c). */
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

/* The strikes beside a counter (strike.c). */
struct strikes {
	struct sl_place place;
	struct sl_slot *slot; /* NULL: it has none */
	bool looked;          /* the limit has penalties */
	bool denied;          /* the limit itself denied, of somebody who was not shut out */
};

/* What kept a charge from being made: a bound of ours, by which the limits of one counter deny. */
struct shortage {
	uint32_t member;
	sluice_bound bound;
	sluice_ns wait_ns; /* by when it can have passed; SLUICE_NEVER: never */
};

struct member {
	const struct sluice_limit *limit;
	const struct sluice_item *item;
	const struct sl_place *place;
	struct sl_slot *slot;      /* NULL: no counter yet */
	struct sl_counter counter; /* a copy */
	struct sluice_decision *decision;
	uint64_t who;
	uint32_t cost;
	uint32_t amount; /* that is charged: the cost; or, forced, what may be charged */
	uint32_t block;  /* taken for it */
	uint64_t block_bytes;
	bool observed;
	bool tried;      /* its own answer charges nothing */
	bool counts;     /* not `unlimited`, which has no counter */
	bool plain;      /* neither open reservations nor penalties stand beside it */
	bool charged;    /* this member charges the counter that it, or a group, has */
	bool forced;     /* whatever the quota */
	bool corrects;   /* its counter is not charged, but corrected by its ledger */
	bool kept;       /* it holds what the call asks for already: its lease, its reservation */
	bool claimed;    /* the slot was claimed by this call */
	bool remembered; /* it has no counter, and the sketch knows of one: with this use, and this to be held against it */
	uint8_t use;
	uint8_t held_count;
	struct sl_held held[SL_USES];
	uint8_t leader; /* first member with the same counter */
	struct ledger ledger;
	struct strikes strikes;
};

/* The request that may be retried (token.c). */
struct token {
	struct sl_place place;
	struct sl_slot *slot; /* NULL: it has none */
	bool claimed;
	sluice_ns life_ns;
};

/* ---- a member's counter ------------------------------------------------------------------------------------------ */

/* Copies the state from the slot, or none. */
static inline void member_load(const struct sluice_store *store, struct member *m) {
	const uint64_t *state;
	uint32_t block;
	m->counter.block = NULL;
	m->counter.block_bytes = 0;
	if (m->slot == NULL) {
		m->counter.state = (struct sl_state){.rate = 0};
		return;
	}
	/* by words of 8: whatever wrote them last, the processor can forward that */
	state = sl_slot_state(m->slot);
	m->counter.state.w[0] = __atomic_load_n(&state[0], __ATOMIC_RELAXED);
	m->counter.state.w[1] = __atomic_load_n(&state[1], __ATOMIC_RELAXED);
	m->counter.state.life = (uint32_t)(sl_slot_tag(m->slot) & SL_LIFE_FRESH) + 1;
	block = (uint32_t)m->counter.state.w[1];
	if (sl_rule_has_block(m->limit) && block != 0) {
		m->counter.block = sl_block_memory(store, block);
		m->counter.block_bytes = sl_block_bytes(store, block);
		sl_step_prefetch(m->limit, &m->counter);
	}
}

/* `unlimited` counts nothing. */
static inline bool has_counter(const struct sluice_limit *limit) {
	return limit->algorithm != SLUICE_UNLIMITED;
}

/* Nor is the counter of a limit looked at that has met a bound before. */
static inline bool item_has_counter(const struct sluice_item *item) {
	return has_counter(item->limit) && item->bound == SLUICE_BOUND_NONE;
}

/* Where the counter of a limit with one lives. */
static inline struct sl_place member_place(const struct sluice_store *store, const struct sluice_item *item) {
	return sl_place_of(store, &item->limit->derived[SL_IDENT_KIND], item->limit->derived[SL_IDENT_NAME] == 0 ? 1 : 2,
	                   item->key, sl_rule_has_block(item->limit));
}

/* Decides a member that has no counter in a store that has evicted some: from what the sketch knows, if it does. */
void member_step_remembered(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost,
                            bool charge, struct sluice_decision *decision);

/* Makes the counter of a remembered member anew, in its block if it keeps one; then it can be stepped and written. */
void member_assume(struct member *m, void *block, uint64_t block_bytes);

/* Decides a member on a copy of its counter, or on what the sketch knows of one; with `charge`, the copy comes back
 * charged where the algorithm keeps no block. Each call does: where a file needs it for more than that, gcc would
 * rather call it. */
static inline __attribute__((always_inline)) void member_step(const struct sluice_store *store, struct member *m,
                                                              sluice_ns now, uint64_t cost, bool charge,
                                                              struct sluice_decision *decision) {
	m->remembered = false;
	if (__builtin_expect(m->slot == NULL, 0) && sl_sketch_is_used(store, now)) {
		member_step_remembered(store, m, now, cost, charge, decision);
		return;
	}
	member_load(store, m);
	sl_step(m->limit, &m->counter, now, cost, charge, decision);
}

/* Publishes the state that a member's copy has now, with the use and lifetime that a decision of it says. In line,
 * for the same reason. */
static inline __attribute__((always_inline)) void member_publish_state(struct member *m,
                                                                       const struct sluice_decision *decision) {
	uint64_t marks =
		__builtin_expect(m->remembered, 0) ? sl_marks_start(true, m->use) : sl_tag_marks(sl_slot_tag(m->slot));
	sl_slot_publish(m->slot, m->counter.state.w, sl_marks_of(marks, decision->quota, decision->remaining),
	                sl_step_life(m->limit, decision));
}

/* Writes the state of a copy that was refunded: its lifetime stays, but a bucket's says how fast it drains. */
static inline void member_write(struct member *m) {
	if (sl_rule_rate_may_change(m->limit))
		sl_slot_publish(m->slot, m->counter.state.w, sl_tag_marks(sl_slot_tag(m->slot)),
		                sl_bucket_life(m->limit, &m->counter.state));
	else
		sl_slot_write(m->slot, m->counter.state.w);
}

/* Charges a counter that is there, and whose block, if it has one, is long enough: sl_step() has been called. */
static inline void member_publish(struct member *m, sluice_ns now, uint32_t cost) {
	if (sl_rule_has_block(m->limit)) {
		if (sl_step_prepare(m->limit, &m->counter))
			sl_slot_write(m->slot, m->counter.state.w);
		sl_step_write(m->limit, &m->counter, now, cost, NULL, 0);
	}
	member_publish_state(m, m->decision);
}

/* Before a state is written at `now`: no state may be later than header->latest_charge. */
static inline void members_keep_latest(struct sluice_store *store, sluice_ns now) {
	if (__builtin_expect(now >= __atomic_load_n(&store->latest_ns, __ATOMIC_RELAXED), 0))
		sl_store_raise_latest(store, now);
}

/* Charges all members that are marked `charged`, and corrects those that are marked so, or none; all homes are locked.
 * Plain ones have been stepped. Finds slots for new counters, for ledgers and for the token (NULL: none; without a slot
 * the request leaves no record, as if that had been evicted), and blocks, evicting where there is no other way.
 * SLUICE_OK; else nothing was changed but who else had to go: SLUICE_E_FULL, and `shortage` says why; or held up. */
SLUICE_MUST_USE sluice_err members_charge(struct sluice_store *store, const struct sluice_call *call,
                                          struct member *members, uint32_t count, struct token *token,
                                          struct shortage *shortage);

/* Turns the decisions of all who were to charge the counter that shortage->member charges into denials by its bound.
 * Returns whether one of them is enforced. */
bool members_deny(const struct sluice_call *call, struct member *members, const struct shortage *shortage);

/* All slots that were found: no claim of the call may take one of them. */
void members_hold_found(const struct member *members, uint32_t count, struct sl_hold *found);

/* Whether a counter, or what stands beside it, has a block: those are forgotten within a change of the blocks. */
bool member_has_block(const struct member *m);

/* Forgets a counter and what stands beside it. Returns whether there was any of it. */
bool member_forget(struct sluice_store *store, struct member *m);

/* Behind that, with no change open: hides from a member what the sketch knows of it. Returns whether it knew any. */
bool member_hide(struct sluice_store *store, struct member *m, sluice_ns now);

/* ---- what stands beside it --------------------------------------------------------------------------------------- */

/* Decides a member as it stands, with its open reservations and penalties; charges nothing. */
void member_judge(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost,
                  struct sluice_decision *decision);

/* Finds the ledger of a member (slot: as found), in a store that may have some. */
void ledger_find(const struct sluice_store *store, struct member *m, sluice_ns now);

/* Plans what a charge, or a commit, does to a ledger: fills `writes` and `corrected`. False where it would be too
 * long, or need a block of more than `bytes_most`. */
SLUICE_MUST_USE bool ledger_plan(struct member *m, uint64_t bytes_most);

/* The wait until the first of those that are open ends; SLUICE_NEVER where none is. */
sluice_ns ledger_first_end(const struct member *m, sluice_ns now);

/* Bytes of the block that a planned change of a member needs for its ledger, and to compute in; 0: none. */
uint64_t ledger_bytes(const struct member *m);
uint64_t ledger_scratch_bytes(const struct member *m);
uint64_t ledger_contents_bytes(const struct member *m);

/* Bytes of the new block of a counter that is to be changed together with its ledger. */
uint64_t ledger_counter_bytes(struct member *m, sluice_ns now);

/* Within a change for which all was taken: writes counter and ledger anew. */
void ledger_publish(struct sluice_store *store, const struct sluice_call *call, struct member *m);

/* Behind that change, and with no change open: a ledger in which nothing is left gives back its slot. */
void ledger_close(struct sluice_store *store, struct member *m);

/* Before a charge in place of a counter whose ledger stays as it is: lets that live as long as the counter will. */
void ledger_outlive(struct sluice_store *store, struct member *m, sluice_ns now);

/* Corrects what has ended of members that are about to be refunded. One for which there is no room is left out of the
 * refund (its slot is NULL): what it holds stays charged. SLUICE_OK, or held up. */
SLUICE_MUST_USE sluice_err ledger_settle(struct sluice_store *store, const struct sluice_call *call,
                                         struct member *members);

/* How long a slot has to live from `word`, the first of its state, to `end`. */
static inline sluice_ns life_until(uint64_t word, sluice_ns end) {
	uint64_t from = word >> SL_COARSE_SHIFT << SL_COARSE_SHIFT;
	return end > from ? end - from : 0;
}

/* Before a call is decided, or decided again. With one store: they stand side by side. */
static inline void call_clear_answer(struct sluice_call *call) {
	memset(&call->forgotten, 0,
	       offsetof(struct sluice_call, penalized) + sizeof call->penalized - offsetof(struct sluice_call, forgotten));
}

static inline sluice_ns ns_add(sluice_ns a, sluice_ns b) {
	return a < SLUICE_NEVER - 1 - b ? a + b : SLUICE_NEVER - 1;
}

/* Nothing stands beside a member, as far as was looked. */
static inline void member_beside_none(struct member *m) {
	m->ledger.slot = NULL;
	m->ledger.count = m->ledger.skipped = m->ledger.ended = m->ledger.corrected = 0;
	m->ledger.commits = -1;
	m->ledger.dead = m->ledger.adds = m->ledger.writes = m->ledger.claimed = false;
	m->ledger.block = m->ledger.scratch = m->ledger.contents_block = 0;
	m->ledger.contents_slot = NULL;
	m->ledger.contents.memory = NULL;
	m->ledger.contents_claimed = m->ledger.contents_renew = false;
	m->strikes.slot = NULL;
	m->strikes.looked = m->strikes.denied = false;
}

/* Brings the figures of a decision up to its counter as it is now; what was decided, and the delay, stay. */
void member_refresh(const struct sluice_store *store, struct member *m, sluice_ns now);

/* Finds the strikes of a member (penalties only); and what they say of its decision. Returns whether it is shut out. */
void strikes_find(struct member *m);
bool strikes_judge(const struct sluice_store *store, const struct member *m, sluice_ns now, uint64_t cost,
                   struct sluice_decision *decision);

/* What a decided call leaves with limits that have terms: denials are counted (the counter's charge, the strikes).
 * Where there is no room for it a denial stands as it is. */
void members_note_denials(struct sluice_store *store, struct sluice_call *call, struct member *members, bool allowed);

/* ---- the operations ---------------------------------------------------------------------------------------------- */

/* Whether a retried call holds all that it asks for; marks the members that do, and says what was granted. (lease.c) */
bool members_hold(const struct sluice_store *store, struct sluice_call *call, struct member *members);

/* SLUICE_RELEASE and SLUICE_RENEW. (lease.c) */
void members_end_leases(struct sluice_store *store, struct sluice_call *call, struct member *members);

/* SLUICE_COMMIT. Where there is no room to correct a counter, the estimate stays charged, and what the true cost is
 * above it is charged as of now, as far as there is room for that. SLUICE_OK, or held up. (reserve.c) */
SLUICE_MUST_USE sluice_err members_commit(struct sluice_store *store, struct sluice_call *call, struct member *members);

/* Where the record of a retried call is, but not its slot: false where it charges nothing; its answer, where it is
 * found; and the record of one that was charged. (token.c) */
bool token_place(const struct sluice_store *store, const struct sluice_call *call, const struct member *members,
                 struct token *token);
bool token_recall(const struct token *token, struct sluice_call *call, sluice_ns *delay_ns);
void token_publish(const struct sluice_call *call, struct token *token, sluice_ns delay_ns);

/* Decides a call of any kind that is valid, its limits placed; fills all of it but `err`, which it returns. Held up
 * (store/lock.h): nothing was changed, and no lock is held. A `plain` one is a charge or a peek that says no more than
 * one cost, and limits with their keys, observed or not: none that is unlimited, or counts leases or members.
 * (several.c) */
SLUICE_MUST_USE sluice_err decide_several(struct sluice_store *store, struct sluice_call *call,
                                          const struct sl_place *places, bool plain);

/* SLUICE_OK, or what is wrong with a call. (valid.c) */
SLUICE_MUST_USE sluice_err call_validate(const struct sluice_store *store, const struct sluice_call *call);

#endif
