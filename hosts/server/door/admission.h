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
	/* Costs that headers say: the value for a name in lower case, data NULL where the request has none; false where it
	 * stands on several lines. NULL at doors without headers. */
	bool (*header)(void *data, const char *name, struct sluice_bytes *value);
	void *data;
	char made[SL_TICKET_ID_DIGITS + 1]; /* out: the id, where one was needed and the caller gave none */
	const char *wrong;                  /* out: the name of the header whose cost is no number, where that failed */
};

/* Makes a call's operation, id, `upto` and items of a match: fills in ttl and cost of each item.
 *  call   in: item_count, cost; out: operation (CHARGE, PEEK, ACQUIRE or RESERVE), id, upto, cost
 *  items  in: those of the match, with their candidates after them; call->items points to them
 * Returns false where the cost that a header says is no whole number 0..4294967295, or stands on several lines. */
SLUICE_MUST_USE bool sl_admission_prepare(struct sl_admission *admission, const struct sluice_policy *policy,
                                          const struct sluice_match *match, const uint8_t *candidate_of,
                                          struct sluice_item *items, struct sluice_call *call);

/* Does the call hold something that a ticket is given for: leases, reservations? Known before it is decided; what was
 * denied, and cost 0, holds nothing. */
static inline bool sl_admission_holds(const struct sluice_call *call) {
	return call->operation == SLUICE_ACQUIRE || call->operation == SLUICE_RESERVE;
}

/* Does the call, where it is allowed, hold what it asks for: does anything cost? What costs nothing holds nothing. */
static inline bool sl_admission_costs(const struct sluice_call *call) {
	bool costs = call->cost != 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		costs = costs || call->items[i].cost != 0;
	return costs;
}

/* Says what each of `count` items costs: as the call's cost, which changes, where it is the same for all, so that none
 * has its own, which would take it a longer way. An item whose cost is 0 has none of its own either.
 *  costs  one for each item */
void sl_admission_share_costs(struct sluice_call *call, struct sluice_item *items, const uint32_t *costs,
                              uint32_t count);

/* Takes from items what they cost of their own: for a request that costs nothing, or asks for a part of its cost. */
void sl_admission_drop_costs(struct sluice_item *items, uint32_t count);

/* Writes the ticket of an admission that was allowed and holds something. All keys are in it: what is said with it does
 * not matter. Returns its length. */
size_t sl_admission_ticket(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, char text[SL_TICKET_BYTES_MAX]);

#endif
