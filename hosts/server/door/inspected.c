/* See inspected.h. */
#include "hosts/server/door/inspected.h"

#include "hosts/admission/admission.h"
#include "hosts/server/door/pending.h"

static bool look_remote(struct sl_door_context *context, struct sluice_call *call, const uint32_t *positions,
                        struct sl_inspected *told) {
	const struct sl_call_outcome outcome = {.call = call, .positions = positions, .shown = call->item_count};
	const struct sl_inspected *found;
	if (!sl_pending_inspect(context, &outcome, &found))
		return false;
	*told = *found;
	sl_pending_settle(context);
	return true;
}

bool sl_inspected_look(struct sl_door_context *context, const struct sluice_item *items, const uint32_t *positions,
                       uint32_t count, sluice_ns now, struct sl_inspected *told) {
	struct sluice_call call = {.items = items,
	                           .item_count = count,
	                           .cost = 1,
	                           .operation = SLUICE_PEEK,
	                           .now = sl_admission_instant(now, items, count)};
	if (context->remote != NULL)
		return look_remote(context, &call, positions, told);
	told->failed = NULL;
	told->err = sluice_inspect(context->store, items, count, call.now, told->list);
	if (told->err != SLUICE_OK)
		told->failed = SL_HELD_UP_TEXT ": nothing was read";
	return true;
}
