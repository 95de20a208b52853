/* What a policy asks of a request, as one call: a lease at each limit of concurrency, a reservation at each limit that
 * says `reserve`, a plain charge at all others, all or nothing (docs/design/012-leases.md). The same in every host.
 *
 *   match -> sl_call_outcome_add_candidates() -> sl_admission_prepare() -> sluice_decide() -> sl_admission_ticket() */
#ifndef SL_ADMISSION_H
#define SL_ADMISSION_H

#include "algo/traits.h"
#include "base/out.h"
#include "hosts/admission/stagger.h"
#include "policy/policy.h"
#include "proto/ticket.h"

/* The longest ticket that a proxy is given in a header: it keeps some KiB for all of them. */
enum { SL_ADMISSION_PROXY_TICKET_MAX = 3 * 1024 };

/* After how long a caller may ask again whom the store could not answer: it is looked for about once a second. */
#define SL_UNABLE_RETRY_NS ((sluice_ns)1000000000)

/* What a door knows of a request besides its attributes. */
struct sl_admission {
	bool peek, upto;
	bool cost_said;         /* the caller says the cost: what the policy estimates is not looked at */
	const uint32_t *costs;  /* instead: what the caller says of each item of the match, at least 1, or 0 where it says
	                         * nothing, which is 1; NULL: one cost for all */
	struct sluice_bytes id; /* the caller's; len 0: none */
	/* Costs that headers say: the value for a name in lower case, data NULL where the request has none; false where it
	 * stands on several lines. NULL at doors without headers. */
	bool (*header)(void *data, const char *name, struct sluice_bytes *value);
	void *data;
	char made[SL_TICKET_ID_DIGITS + 1]; /* out: the id, where one was needed and the caller gave none */
	const char *wrong;                  /* out: the name of the header whose cost is no number, where that failed */
};

enum { SL_RETRY_ID_DIGITS = 64 };

/* The id under which a proxy's request is charged once: what the header said that the policy's retry-id names, for one
 * method, host and path alone, so that a client who gives many requests one id is told apart.
 *  scratch  room for these attributes as they came, what was said, and 3 bytes
 *  digits   holds the id that is returned */
struct sluice_bytes sl_admission_retry_id(const struct sluice_attribute *attributes, size_t count,
                                          struct sluice_bytes said, struct sl_out *scratch,
                                          char digits[SL_RETRY_ID_DIGITS]);

/* Where what a match has written into its buffer ends, of which the first `used` bytes were others'. */
size_t sl_admission_match_end(const struct sluice_match *match, const char *buffer, size_t used);

/* The instant, Unix ns, at which a request over these limits is decided when the clock says `now`: see
 * sl_algorithms_instant(). */
static inline sluice_ns sl_admission_instant(sluice_ns now, const struct sluice_item *items, uint32_t count) {
	uint32_t algorithms = 0;
	for (uint32_t i = 0; i < count; i++)
		algorithms |= sl_algorithm_bit(items[i].limit);
	return sl_algorithms_instant(algorithms, now);
}

/* Makes a call's operation, id, `upto` and items of a match: fills in ttl and cost of each item.
 *  call   in: item_count, cost; out: operation (CHARGE, PEEK, ACQUIRE or RESERVE), id, upto, cost
 *  items  in: those of the match, with their candidates after them; call->items points to them
 * `policy` is that of the match; NULL: all its limits are given in notation.
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

/* What is wrong with a request, for whoever reads its refusal: the cost that `header` says is none; an attribute is
 * given twice. At most 160 bytes, and those of the header's name. */
void sl_admission_put_no_cost(struct sl_out *out, const char *header);
void sl_admission_put_repeated(struct sl_out *out, struct sluice_bytes name);

/* What a request that costs `whole` costs at a limit with a cost of its own, where no `when` of that matches and no
 * header says it. `said`: the caller says the cost. */
static inline uint32_t sl_admission_own_cost(const struct sl_policy_cost *says, bool said, uint32_t whole) {
	return said || says->cost == 0 ? whole : says->cost;
}

/* Says what each of `count` items costs: as the call's cost, which changes, where it is the same for all, so that none
 * has its own, which would take it a longer way. An item whose cost is 0 has none of its own either.
 *  costs  one for each item */
void sl_admission_share_costs(struct sluice_call *call, struct sluice_item *items, const uint32_t *costs,
                              uint32_t count);

/* Takes from items what they cost of their own: for a request that costs nothing, or asks for a part of its cost. */
void sl_admission_drop_costs(struct sluice_item *items, uint32_t count);

/* The decision of a request that the store could not answer, denied for a second by an item of its match. */
struct sluice_decision sl_admission_unable(const struct sluice_match *match, uint32_t denier);

/* What a request gets that the store could not answer: allowed, as where no limit applies, or denied for a second by
 * the first limit that says `on-error: deny`. Fills call->merged, whose index counts the items of the match, and
 * call->granted. */
void sl_admission_fall_back(const struct sluice_policy *policy, const struct sluice_match *match,
                            struct sluice_call *call);

/* Denies a call that has a ticket which its caller can't be told, since keys are so long: the limits that would be held
 * deny by SLUICE_BOUND_KEY, for good, and nothing is looked at. Not an error: one would pass where a proxy is open to
 * errors, and clients choose how long their headers are. Fills call->each, which is there, and merged. */
void sl_admission_deny_untold(struct sluice_call *call);

/* Writes the ticket of an admission that holds something, if it is allowed. All keys are in it: what is said with it
 * does not matter. Where it would have more than `most` bytes, what observed limits hold is left out: that ends by its
 * time, and no request is denied for it. Returns its length: above `most` where it is too long even so; 0 where there
 * is nothing left to be told. All tickets of a call are of one length, whatever its id. */
size_t sl_admission_ticket(const struct sluice_policy *policy, const struct sluice_match *match,
                           const struct sluice_call *call, size_t most, char text[SL_TICKET_BYTES_MAX]);

/* The limit by which an item was decided at `now`, as clients are told of it: that of its key's own quota, if it has
 * one, which is put into `own`; else the item's. Where nobody has one, one load.
 *  store  NULL: its counter is in Redis. Of its key's own quota only `unlimited` is known then */
const struct sluice_limit *sl_admission_limit(struct sluice_store *store, const struct sluice_item *item,
                                              const struct sluice_decision *decision, sluice_ns now,
                                              struct sluice_limit *own);

#endif
