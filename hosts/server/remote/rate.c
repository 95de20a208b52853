/* See rate.h: exponential decay by integers. */
#include "hosts/server/remote/rate.h"

void sl_rate_roll(struct sl_rate *rate, sluice_ns now) {
	uint64_t slots;
	if (now < rate->slot + SL_RATE_SLOT_NS)
		return;
	slots = (now - rate->slot) / SL_RATE_SLOT_NS;
	rate->request_rate = (uint32_t)((3 * (uint64_t)rate->request_rate + (uint64_t)rate->requests * SL_RATE_SLOTS) / 4);
	rate->unit_rate = (3 * rate->unit_rate + rate->units * SL_RATE_SLOTS) / 4;
	rate->requests = 0;
	rate->units = 0;
	rate->slot += slots * SL_RATE_SLOT_NS;
	/* some hundred times at most: both come to 0 */
	for (uint64_t i = 1; i < slots && rate->unit_rate + rate->request_rate != 0; i++) {
		rate->request_rate = rate->request_rate * 3 / 4;
		rate->unit_rate = rate->unit_rate * 3 / 4;
	}
}

struct sl_rate *sl_rate_in(struct sl_rate *set, int ways, uint64_t tag, sluice_ns now) {
	struct sl_rate *oldest = NULL;
	for (int i = 0; i < ways; i++) {
		if (set[i].tag == tag) {
			sl_rate_roll(&set[i], now);
			return &set[i];
		}
		if (set[i].slice == NULL && (oldest == NULL || set[i].slot < oldest->slot))
			oldest = &set[i];
	}
	if (oldest != NULL)
		*oldest = (struct sl_rate){.tag = tag, .slot = now};
	return oldest;
}
