#include "hosts/server/door/ruling.h"

uint32_t sl_ruling_add_candidates(const struct sluice_policy *policy, const struct sluice_match *match,
                                  struct sluice_item *items, uint8_t of[SLUICE_ITEMS_MAX]) {
	return match->count +
	       sl_policy_candidates(policy, match, items + match->count, of, SLUICE_ITEMS_MAX - match->count);
}

void sl_ruling_settle(struct sl_door_context *context, const struct sl_ruling *ruling) {
	if (context->tally != NULL)
		sl_count(&context->tally->requests[ruling->transport][SL_VERDICT_ALLOWED], 1);
}
