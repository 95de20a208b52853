/* One limit of a call while it is being decided: what decide.c, behind.c and commit.c share. */
#ifndef SLR_MEMBER_H
#define SLR_MEMBER_H

#include "hosts/redis/decide.h"
#include "hosts/redis/force.h"
#include "hosts/redis/side.h"

/* A counter as it is or would be, beside the value. It reads the value's block until it is charged. */
struct slr_image {
	struct sl_counter counter;
	void *own; /* its own block, once it has one */
};

struct slr_member {
	const struct sluice_limit *limit;
	struct slr_key *key;
	struct sluice_decision *decision;
	struct slr_identity identity;

	bool counts;    /* not `unlimited`, which has no counter */
	bool observed;  /* it takes no part in the answer */
	bool tried;     /* and charges nothing */
	bool charged;   /* this member charges the counter that it, or a group, has */
	uint8_t leader; /* first member with the same counter */
	uint32_t cost;  /* that is asked of it */
	uint64_t who;   /* whose lease or which member is asked for; 0: nobody's */

	/* docs/design/012-leases.md */
	sluice_ns ttl_ns;                 /* what it is charged is a reservation for so long; 0: it is none */
	const struct sluice_terms *terms; /* NULL: none */
	struct sl_strikes *strikes;       /* of the counter, where its terms have penalties; else NULL */
	bool strikes_out;                 /* the call's denial of it counts */
	bool denied, shut;                /* as decided: by the limit itself; by a penalty that runs */
	bool kept;                        /* it holds what the call asks for already: its lease, its reservation */
	bool reserves;                    /* its figures depend on what is reserved */
	uint8_t bound;                    /* enum sluice_bound that it denies by; 0: none */
	sluice_ns bound_ns;               /* by when that can have passed */

	/* as slr_member_load() found it */
	bool there, packed;
	uint32_t rate;                 /* of a bucket, as the value has it */
	struct slr_image image;        /* the counter, with leases charged and reservations returned that have ended */
	struct sl_state state;         /* of it: a step may change the one in the image */
	const struct slr_holds *holds; /* in the value; NULL: none */
	uint32_t ended;                /* the first so many of them have */
	int32_t own;                   /* the one with the call's id, left out of account; -1: none */
	uint64_t held;                 /* by all others */
	uint64_t leased;               /* of that: by leases, which last; plain holds are over in a moment */
	struct sl_ledger ledger;       /* in the value */
	struct sl_contents contents;   /* of its bundles */
	uint32_t returned;             /* the first so many of its entries have ended */
	sluice_ns clock;               /* the counter's: `now`, or its last charge where that is later */
};

/* A call while it is decided. */
struct slr_deciding {
	struct slr_call *call;
	struct slr_member members[SLUICE_ITEMS_MAX];
	uint32_t counts_before[SLUICE_ITEMS_MAX]; /* of each key */
	bool has_terms;                           /* some limit has */
};

/* Reads a member's counter out of its value.
 *  skip_own  the hold with the call's id is not held against it
 * False: a log is too long for the leases that have ended. */
SLUICE_MUST_USE bool slr_member_load(const struct slr_call *call, struct slr_member *m, bool skip_own);

/* Gives back what loading took. A member may be loaded again after it. */
void slr_member_drop(struct slr_member *m);

/* Decides a cost of 0..2^32 behind what is held; with `charge` the figures are those after the charge, or for SLR_HOLD
 * after the hold. Where nothing is held the image's state comes back charged. */
void slr_member_decide(const struct slr_call *call, struct slr_member *m, uint64_t cost, bool charge,
                       struct sluice_decision *decision);

/* The wait until `remaining` grows by one, into the member's decision. */
void slr_member_next(const struct slr_call *call, struct slr_member *m);

/* What is done to a member's counter. */
struct slr_change {
	uint32_t charge; /* at `now`, if not 0; forced: without asking the limit */
	bool forced;
	bool counted;                           /* as count-denied charges: whatever the quota */
	bool drop_own;                          /* the hold with the call's id goes */
	bool keep_own;                          /* but only what is charged of it */
	const struct slr_hold *place;           /* a hold to be added, or NULL */
	const struct sl_correction *correction; /* that the image has been corrected by, or NULL */
};

/* Whether the server has no memory for more. */
static inline bool slr_is_full(const struct slr_call *call) {
	return call->is_full != NULL && call->is_full();
}

/* Whether a change finds room: SLR_FINE, or why not. Nothing is changed. A counter that is not there yet, a longer
 * block and a reservation need memory; what was held before, or was admitted elsewhere, finds room in any case. */
SLUICE_MUST_USE enum slr_failure slr_member_plan(const struct slr_call *call, struct slr_member *m,
                                                 const struct slr_change *change);

/* Whether the counter could hold one thing more. */
bool slr_member_has_place(const struct slr_member *m);

/* Changes the value, with what ended meanwhile. The member has been loaded, and its change planned; others that share
 * the counter are to be loaded again. m->decision is what the change leads to: it says how long the key is kept. */
void slr_member_commit(const struct slr_call *call, struct slr_member *m, const struct slr_change *change);

/* Keeps the key of a counter that was changed as long as m->decision, made behind the change, says. */
void slr_member_keep(const struct slr_call *call, struct slr_member *m);

/* The reservations that are open at the member's clock. */
static inline struct sl_ledger slr_member_open(const struct slr_member *m) {
	if (m->ledger.count == m->returned)
		return (struct sl_ledger){NULL, 0};
	return (struct sl_ledger){m->ledger.list + m->returned, m->ledger.count - m->returned};
}

/* Corrects the image, and with it what is decided on it. False: a log is too long for it, and nothing was changed. */
SLUICE_MUST_USE bool slr_member_correct(struct slr_member *m, const struct sl_correction *list, uint32_t count);

/* Notes that what a member was charged by the commit before is a reservation of the call's id. */
void slr_member_reserve(const struct slr_call *call, struct slr_member *m);

/* A reservation that was found is over: it leaves the ledger. Before the commit. */
void slr_member_close(const struct slr_call *call, struct slr_member *m, const struct sl_found *found);

/* The corrections that return entries from..until - 1 of a member's ledger, for slr_give(); they may be none. */
struct sl_correction *slr_member_returns(const struct slr_member *m, uint32_t from, uint32_t until, uint32_t *count);

/* Writes the strikes of a member's counter. */
void slr_member_strike(const struct slr_call *call, struct slr_member *m);

/* Ends the lease of the call's id, or renews it. False: there is none, and nothing changed. */
bool slr_member_release(const struct slr_call *call, struct slr_member *m);
bool slr_member_renew(const struct slr_call *call, struct slr_member *m);

/* Gives back at most `cost`; a counter that is not there stays so. */
void slr_member_refund(const struct slr_call *call, struct slr_member *m, uint32_t cost);

/* Forgets the counter. False: there was none. */
bool slr_member_reset(const struct slr_call *call, struct slr_member *m);

/* Reads a member again, as it is after the commits of a call: that its leases are charged already is sure. */
void slr_member_reload(const struct slr_call *call, struct slr_member *m);

/* ---- what a call is beside a charge (lend.c)
 * ----------------------------------------------------------------------- */

/* ---- no room (short.c) ---------------------------------------------------------------------------------------- */

/* A member's charge finds no room: it denies, by the bound that it met, and so do all that share its counter. Returns
 * whether one of them is enforced. */
bool slr_deny(struct slr_deciding *d, uint32_t member, enum slr_failure failure);

/* Of a peek: denies by those members whose counters a charge could not make. False: one of them is enforced. */
bool slr_find_room(struct slr_deciding *d);

/* Writes what slr_deny() has denied over the figures of those members, when nothing else is written there any more. */
void slr_tell_bounds(struct slr_deciding *d);

/* Fills m->bound and m->bound_ns: which bound a failure is. */
void slr_meet_bound(const struct slr_call *call, struct slr_member *m, enum slr_failure failure);

/* Ends or renews the leases of the call's id. */
void slr_end_leases(struct slr_deciding *d);

/* Corrects the reservations of the call's id to the call's cost. */
void slr_commit_members(struct slr_deciding *d);

/* Whether the leases, or else the reservations, that the call asks for are held already, under its id, all of them;
 * marks the members that hold theirs. */
bool slr_is_held(struct slr_deciding *d);

/* Answers a call that has been decided before: nothing is charged, and it is allowed, what is left of its delay being
 * `delay_ns`. */
void slr_answer_again(struct slr_deciding *d, sluice_ns delay_ns);

/* The key beside whose counters a call's token is kept: of the first limit that it can charge; NULL: it charges
 * none. */
struct slr_key *slr_token_key(const struct slr_deciding *d);

/* The token of a request that is remembered, which has been charged; NULL: it has not. */
const struct slr_token *slr_retry_of(const struct slr_deciding *d);

/* Remembers a request that has been charged. */
void slr_remember(struct slr_deciding *d);

/* What a decided call leaves with limits that have terms: who was denied is noted, and who is counted though denied is
 * charged. Where there is no room for it a denial stands as it is. */
void slr_note_denials(struct slr_deciding *d, bool allowed);

/* Says that a key's value has changed, and is to be kept until a wall time (0: as long as it is kept anyhow); and the
 * wall time of an instant that is so far ahead. */
void slr_key_changed(struct slr_key *key, int64_t until_ms);
int64_t slr_wall_in(const struct slr_call *call, struct slr_key *key, sluice_ns ahead);

/* After the last change of a call: rows whose time is over go, and the value takes its smallest form. */
void slr_key_settle(const struct slr_call *call, struct slr_key *key, uint32_t count_before);

#endif
