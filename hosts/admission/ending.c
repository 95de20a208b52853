/* What ends a ticket, as calls. Items that end the same way are one call, so that a reservation over several limits is
 * committed as it was made, in one step; leases come last, so that nothing is half done where a reservation can't be
 * answered for now. */
#include "hosts/admission/ending.h"

#include "algo/rule.h"
#include "algo/traits.h"
#include "hosts/admission/admission.h"

uint32_t sl_ending_position(const struct sluice_policy *policy, struct sluice_bytes name) {
	int64_t position = name.len == 0 ? -1 : sl_policy_limit_find(policy, name);
	return position < 0 ? SL_POSITION_NOTATION : (uint32_t)position;
}

/* What ends an item: the cost that is said of it, or, of a lease, nothing. */
struct end {
	uint32_t position;
	bool is_lease, done;
	uint32_t cost;
};

/* The header that the policy names for a limit; for one that it has no more it is the usual one. */
static const char *header_for(const struct sluice_policy *policy, uint32_t position) {
	const char *header =
		position == SL_POSITION_NOTATION ? NULL : sl_policy_limit_at(policy, position)->reserve.actual_header;
	return header != NULL ? header : "x-actual-cost";
}

static bool read_ends(const struct sl_ticket *ticket, const struct sluice_policy *policy,
                      struct sluice_bytes (*said)(void *data, const char *name), void *data,
                      struct end ends[SLUICE_ITEMS_MAX], const char **no) {
	for (uint32_t i = 0; i < ticket->count; i++) {
		uint64_t cost = 0;
		ends[i] = (struct end){.position = sl_ending_position(policy, ticket->names[i]),
		                       .is_lease = sl_rule_has(ticket->items[i].limit, SL_TAKES_LEASE)};
		if (ends[i].is_lease)
			continue;
		*no = header_for(policy, ends[i].position);
		if (!sl_bytes_to_u64(said(data, *no), &cost) || cost > UINT32_MAX)
			return false;
		ends[i].cost = (uint32_t)cost;
	}
	return true;
}

/* Puts the first item that is not in any call yet, with all others that end the same way, into one. */
static void add_call(struct sl_ending *ending, const struct sl_ticket *ticket, struct end *ends, uint32_t first,
                     uint32_t *filled, sluice_ns now) {
	uint32_t begin = *filled;
	for (uint32_t i = first; i < ticket->count; i++) {
		if (ends[i].done || ends[i].is_lease != ends[first].is_lease || ends[i].cost != ends[first].cost)
			continue;
		ending->positions[*filled] = ends[i].position;
		ending->items[(*filled)++] = ticket->items[i];
		ends[i].done = true;
	}
	ending->calls[ending->call_count++] = (struct sluice_call){
		.items = ending->items + begin,
		.item_count = *filled - begin,
		.cost = ends[first].cost,
		.operation = ends[first].is_lease ? SLUICE_RELEASE : SLUICE_COMMIT,
		.id = ticket->id,
		.each = ending->each + begin,
		.now = sl_admission_instant(now, ending->items + begin, *filled - begin),
	};
}

bool sl_ending_make(struct sl_ending *ending, const struct sl_ticket *ticket, const struct sluice_policy *policy,
                    sluice_ns now, struct sluice_bytes (*said)(void *data, const char *name), void *data,
                    const char **no) {
	struct end ends[SLUICE_ITEMS_MAX];
	uint32_t filled = 0;
	ending->call_count = 0;
	if (!read_ends(ticket, policy, said, data, ends, no))
		return false;
	for (int leases = 0; leases < 2; leases++)
		for (uint32_t i = 0; i < ticket->count; i++)
			if (!ends[i].done && ends[i].is_lease == (leases == 1))
				add_call(ending, ticket, ends, i, &filled, now);
	return true;
}
