/* The end of what a ticket holds, at the doors of proxies: when the app has answered, reservations are committed to
 * what the request has cost and leases are released, all by one ticket. Each limit may have its cost said by another
 * header. What is not committed goes back by itself.
 *
 *   ticket -> sl_ending_make() -> calls, reservations first -> each decided */
#ifndef SL_ENDING_H
#define SL_ENDING_H

#include "policy/policy.h"
#include "proto/ticket.h"

/* Groups of a ticket's items, each ended by one call: those that cost the same, and the leases. */
struct sl_ending {
	struct sluice_call calls[SLUICE_ITEMS_MAX];
	uint32_t call_count;
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* those of a call side by side */
	uint32_t positions[SLUICE_ITEMS_MAX];       /* in the policy, or SL_POSITION_NOTATION */
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	uint32_t released, committed; /* out, once they are decided: of how many counters */
};

/* The position in the policy of a ticket's limit, by its name; SL_POSITION_NOTATION for one in notation (len 0), and
 * for one that the policy has no more. */
uint32_t sl_ending_position(const struct sluice_policy *policy, struct sluice_bytes name);

/* Makes the calls that end a ticket at an instant; they point into it.
 *  said  the value of a header by its name in lower case, data NULL or len 0 where it is not there
 *  no    out, where that fails: the name of the header whose cost is missing or is no whole number 0..4294967295
 * Returns false then: nothing is to be changed. */
SLUICE_MUST_USE bool sl_ending_make(struct sl_ending *ending, const struct sl_ticket *ticket,
                                    const struct sluice_policy *policy, sluice_ns now,
                                    struct sluice_bytes (*said)(void *data, const char *name), void *data,
                                    const char **no);

#endif
