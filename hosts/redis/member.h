/* One limit of a call while it is being decided: what decide.c, behind.c and commit.c share. */
#ifndef SLR_MEMBER_H
#define SLR_MEMBER_H

#include "hosts/redis/decide.h"
#include "hosts/redis/force.h"

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

	/* as slr_member_load() found it */
	bool there, packed;
	struct slr_image image;        /* the counter, with leases charged that have ended */
	struct sl_state state;         /* of it: a step may change the one in the image */
	const struct slr_holds *holds; /* in the value; NULL: none */
	uint32_t ended;                /* the first so many of them have */
	int32_t own;                   /* the one with the call's id, left out of account; -1: none */
	uint64_t held;                 /* by all others */
	sluice_ns clock;               /* the counter's: `now`, or its last charge where that is later */
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
	bool drop_own;                /* the hold with the call's id goes */
	const struct slr_hold *place; /* a hold to be added, or NULL */
};

/* Whether a change finds room: SLR_FINE, or why not. Nothing is changed. */
SLUICE_MUST_USE enum slr_failure slr_member_plan(const struct slr_call *call, struct slr_member *m,
                                                 const struct slr_change *change);

/* Changes the value, with what ended meanwhile. The member has been loaded, and its change planned; others that share
 * the counter are to be loaded again. m->decision is what the change leads to: it says how long the key is kept. */
void slr_member_commit(const struct slr_call *call, struct slr_member *m, const struct slr_change *change);

/* Keeps the key of a counter that was changed as long as m->decision, made behind the change, says. */
void slr_member_keep(const struct slr_call *call, struct slr_member *m);

/* Gives back at most `cost`; a counter that is not there stays so. */
void slr_member_refund(const struct slr_call *call, struct slr_member *m, uint32_t cost);

/* Forgets the counter. False: there was none. */
bool slr_member_reset(const struct slr_call *call, struct slr_member *m);

/* After the last change of a call: rows whose time is over go, and the value takes its smallest form. */
void slr_key_settle(const struct slr_call *call, struct slr_key *key, uint32_t count_before);

#endif
