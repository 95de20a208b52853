/* Decides what ends a ticket, here or elsewhere, and counts it. */
#include "hosts/server/door/ending_decide.h"

#include "hosts/server/door/pending.h"

static struct sl_call_outcome outcome_of(struct sl_ending *ending, uint32_t i, enum sl_transport transport) {
	struct sluice_call *call = &ending->calls[i];
	return (struct sl_call_outcome){.call = call,
	                                .positions = ending->positions + (call->items - ending->items),
	                                .shown = call->item_count,
	                                .more = i + 1 < ending->call_count,
	                                .transport = transport};
}

bool sl_ending_decide(struct sl_ending *ending, struct sl_door_context *context, enum sl_transport transport,
                      sluice_err *err) {
	uint32_t decided = 0;
	*err = SLUICE_OK;
	while (decided < ending->call_count && *err == SLUICE_OK) {
		struct sl_call_outcome outcome = outcome_of(ending, decided, transport);
		if (!sl_pending_ask(context, &outcome))
			return false;
		*err = ending->calls[decided++].err;
	}
	ending->released = ending->committed = 0;
	for (uint32_t i = 0; i < decided; i++) {
		const struct sluice_call *call = &ending->calls[i];
		struct sl_call_outcome outcome = outcome_of(ending, i, transport);
		sl_call_outcome_settle(context, &outcome);
		if (call->err == SLUICE_OK)
			*(call->operation == SLUICE_RELEASE ? &ending->released : &ending->committed) += call->found;
	}
	return true;
}
