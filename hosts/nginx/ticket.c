/* What a request holds until it ends: leases of limits of concurrency, reservations. It is kept as a ticket, as every
 * proxy keeps it, so that ending it knows neither the request nor a configuration. */
#include "hosts/nginx/decide.h"

#include "hosts/admission/ending.h"
#include "hosts/admission/ids.h"

size_t sl_nginx_ticket(const struct sl_nginx_answer *answer, const struct sluice_policy *policy,
                       char text[SL_TICKET_BYTES_MAX]) {
	const struct sluice_call *call = &answer->call;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	const char *names[SLUICE_ITEMS_MAX];
	uint32_t count = 0;
	if (call->item_count == 0 || !sl_admission_holds(call) || !sl_admission_costs(call))
		return 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (!sl_rule_has(call->items[i].limit, SL_TAKES_LEASE) && call->items[i].ttl_ns == 0)
			continue;
		names[count] = answer->of[i] != NULL ? NULL : sluice_policy_limit_name(policy, answer->match.position[i]);
		items[count++] = call->items[i];
	}
	return sl_ticket_write(text, sl_id_number(call->id), sl_slice(NULL, 0), items, names, count);
}

/* A reservation whose cost nobody says goes back by itself; leases end now all the same. */
static void drop_reservations(struct sl_ticket *ticket) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < ticket->count; i++) {
		if (!sl_rule_has(ticket->items[i].limit, SL_TAKES_LEASE))
			continue;
		ticket->limits[count] = ticket->limits[i];
		ticket->items[count] = ticket->items[i];
		ticket->items[count].limit = &ticket->limits[count];
		ticket->names[count] = ticket->names[i];
		count++;
	}
	ticket->count = count;
}

sluice_err sl_nginx_end_ticket(struct sluice_store *store, const struct sluice_policy *policy,
                               struct sluice_bytes ticket, struct sluice_bytes (*said)(void *data, const char *name),
                               void *data) {
	char memory[SL_TICKET_BYTES_MAX];
	struct sl_ticket read;
	struct sl_ending ending;
	sluice_ns now = sluice_store_now(store);
	const char *no;
	if (!sl_ticket_read(&read, ticket, sl_slice("", 0), memory))
		return SLUICE_E_MISUSE;
	if (!sl_ending_make(&ending, &read, policy, now, said, data, &no)) {
		drop_reservations(&read);
		if (!sl_ending_make(&ending, &read, policy, now, said, data, &no))
			return SLUICE_E_MISUSE;
	}
	for (uint32_t i = 0; i < ending.call_count; i++)
		if (sluice_decide(store, &ending.calls[i]) != SLUICE_OK)
			return ending.calls[i].err;
	return SLUICE_OK;
}
