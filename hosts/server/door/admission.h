/* What a policy asks of a request, as one call: a lease at each limit of concurrency, a reservation at each limit that
 * says `reserve`, a plain charge at all others, all or nothing (docs/design/012-leases.md). The same at every door.
 *
 *   match -> sl_call_outcome_add_candidates() -> sl_admission_prepare() -> sluice_decide() -> sl_admission_ticket() */
#ifndef SL_ADMISSION_H
#define SL_ADMISSION_H

#include "hosts/server/door/call_outcome.h"
#include "proto/ticket.h"

/* What a door knows of a request besides its attributes. */
struct sl_admission {
	bool peek, upto;
	bool cost_said;         /* the caller says the cost: what the policy estimates is not looked at */
	struct sluice_bytes id; /* the caller's; len 0: none */
	/* Estimates that headers say: the value for a name in lower case, data NULL where the request has none. NULL at
	 * doors without headers. */
	struct sluice_bytes (*header)(void *data, const char *name);
	void *data;
	char made[SL_TICKET_ID_DIGITS + 1]; /* out: the id, where one was needed and the caller gave none */
	const char *wrong;                  /* out: the name of the header whose estimate is no number, where that failed */
};

/* Makes a call's operation, id, `upto` and items of a match: fills in ttl and cost of each item.
 *  call   in: item_count; out: operation (CHARGE, PEEK, ACQUIRE or RESERVE), id, upto
 *  items  in: those of the match, with their candidates after them; call->items points to them
 * Returns false where an estimate is no whole number 0..4294967295. */
SLUICE_MUST_USE bool sl_admission_prepare(struct sl_admission *admission, const struct sluice_policy *policy,
                                          const struct sluice_match *match, const uint8_t *candidate_of,
                                          struct sluice_item *items, struct sluice_call *call);

/* Does the call hold something that a ticket is given for: leases, reservations? Known before it is decided; what was
 * denied, and cost 0, holds nothing. */
static inline bool sl_admission_holds(const struct sluice_call *call) {
	return call->operation == SLUICE_ACQUIRE || call->operation == SLUICE_RESERVE;
}

/* Writes the ticket of an admission that was allowed and holds something. All keys are in it: what is said with it does
 * not matter. Returns its length. */
size_t sl_admission_ticket(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, char text[SL_TICKET_BYTES_MAX]);

#endif
