/* What follows from a decision, the same at every door: it is counted in the stats; a denial is noted in the top keys
 * and in the denial log; candidates are tried; where a limit says so, retry_after is staggered.
 *
 *   door: match -> sl_call_outcome_add_candidates() -> sluice_decide() -> sl_call_outcome_settle() -> answer
 *
 * Nothing here changes what was decided. What is counted of a limit is its own answer:
 *
 *   allowed   it admits; also where another limit denied the request, and nothing was charged
 *   denied    it denies, and the request with it
 *   shadow    it is observed, and would have denied
 *   error     the store could not answer, whatever on-error then said
 *   hits      the cost of the request, by what it answers: allowed, or not; of UPTO what was granted; nothing for a
 *             retried request that had been charged before
 *   near      it admits, and at most near-limit percent of its quota are left
 *   candidate its candidate would have denied
 *   penalties a lockout began, of an observed limit, too
 *   bounds    a bound of ours was met (sluice_bound): it denied, or keeps the limit more coarsely
 *   routes    it denies, by the path of its `when` that the request had
 *   undecided the store could not answer, and it let the request pass (on-error: allow)
 *
 * Of limits in notation only the merged answer is there: they count once, in row 0, by the name of the limit that
 * decided. What an observed limit or a candidate would have denied is noted as denials are, apart from them: in the top
 * keys as kinds of their own, in the denial log as observed. Of limits that found no place among the sixteen of a
 * request (`beyond`) only the figures tell. */
#ifndef SL_CALL_OUTCOME_H
#define SL_CALL_OUTCOME_H

#include "hosts/server/door/door.h"
#include "hosts/admission/stagger.h"
#include "proto/problem.h"

/* What a request tells of itself, for those who look into a denial: attributes as they came (`method`, `path`, `route`,
 * `ip`, `request-id`, `traceparent`), and, at doors that have such, its headers. Looked at only where something is
 * noted, or denied. */
struct sl_asker {
	const struct sluice_attribute *attributes;
	size_t attribute_count;
	/* The value of a header by its name in lower case, data NULL where the request has none; NULL: no headers. */
	struct sluice_bytes (*header)(void *data, const char *name);
	void *data;
};

/* What of a request nobody has decided. */
struct sl_undecided {
	uint32_t items;  /* bit i: the limit of item i can't be asked, and says on-error: allow */
	uint32_t failed; /* bit i: nobody has decided item i of a call that was decided: each[i] is that of a full quota */
	bool refused;    /* a node has answered with an error */
	bool local;      /* others were decided by counters of this process alone (on-error: local) */
};

struct sl_call_outcome {
	struct sluice_call *call;    /* decided (call->err says how); settling may lengthen each[i].retry_after_ns and
	                                 * merged.retry_after_ns of a denial, where a limit staggers */
	const uint32_t *positions;   /* of each shown item in the policy, or SL_POSITION_NOTATION; NULL: all in notation */
	uint32_t shown;              /* the request's own items; those after them are candidates */
	const uint8_t *candidate_of; /* call->item_count - shown of them: which shown item each belongs to */
	enum sl_transport transport;
	struct sl_undecided *undecided; /* of a request that the policy decides, filled by deciding and settling; NULL: no
	                                 * on-error speaks, the caller is told that the store can't answer */
	const struct sluice_match *beyond; /* of the limits that were matched, those that found no place; NULL: none */
	struct sl_asker asker;
	bool more; /* its request has other calls, which are asked after this one */
	bool retried; /* call->id is of the policy's retry-id, which its client knows nothing of */
};

/* Does a request pass that the store has not decided, in whole or in part? Call it for what was decided with
 * outcome->undecided: fills in what of it is known by the policy alone. */
bool sl_call_outcome_fails_open(const struct sl_door_context *context, const struct sl_call_outcome *outcome);

/* Puts the candidates of a match after its items, as far as SLUICE_ITEMS_MAX has room.
 *  items  in: match->count items; out: with candidates after them; SLUICE_ITEMS_MAX places
 *  of     out: for each candidate the item that it belongs to
 * Returns the count of all. */
uint32_t sl_call_outcome_add_candidates(const struct sluice_policy *policy, const struct sluice_match *match,
                                        struct sluice_item *items, uint8_t of[SLUICE_ITEMS_MAX]);

/* Settles one decided call: SLUICE_CHARGE, ACQUIRE and RESERVE as decisions; these, RELEASE, RENEW and COMMIT as what
 * became of leases and reservations (enum sl_event). Others (peeks, refunds, resets) are not to be given. call->each
 * must be filled where positions are given, else it may be NULL. Some 10 ns for an allowed request in notation, some
 * 100 for a denied one. */
void sl_call_outcome_settle(struct sl_door_context *context, const struct sl_call_outcome *outcome);

/* ---- batches: what needs no look is counted together ------------------------------------------------------------- */

/* Allowed requests in notation that leave more than near-limit percent and met no bound. */
struct sl_call_outcome_plain {
	uint64_t count, hits;
	uint32_t near_percent; /* in */
};

/* Takes a decided call of kind SLUICE_CHARGE, all of whose limits are in notation, into `plain` where it is such a one;
 * else returns false, and it is to be settled by itself. About a ns. */
static inline bool sl_call_outcome_take(struct sl_call_outcome_plain *plain, const struct sluice_call *call) {
	const struct sluice_decision *merged = &call->merged;
	if (call->err != SLUICE_OK || !merged->allowed || merged->bound != SLUICE_BOUND_NONE || merged->index < 0 ||
	    call->upto || call->id.len != 0 || (uint64_t)merged->remaining * 100 <= merged->quota * plain->near_percent)
		return false;
	plain->count++;
	plain->hits += call->cost;
	return true;
}

/* Counts what was taken. */
void sl_call_outcome_settle_plain(struct sl_door_context *context, enum sl_transport transport,
                                  const struct sl_call_outcome_plain *plain);

#endif
