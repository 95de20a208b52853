/* See beat.h. */
#include "hosts/server/fleet/beat.h"

void sl_beat_roll(struct sl_beat *beat, sluice_ns now) {
	uint64_t slots;
	if (now < beat->slot + SL_BEAT_SLOT_NS)
		return;
	slots = (now - beat->slot) / SL_BEAT_SLOT_NS;
	beat->rate = (uint32_t)((3 * (uint64_t)beat->rate + (uint64_t)beat->requests * SL_BEAT_SLOTS) / 4);
	beat->unit_rate = (3 * beat->unit_rate + beat->units * SL_BEAT_SLOTS) / 4;
	beat->requests = 0;
	beat->units = 0;
	beat->slot += slots * SL_BEAT_SLOT_NS;
	/* some hundred times at most: both come to 0 */
	for (uint64_t i = 1; i < slots && beat->unit_rate + beat->rate != 0; i++) {
		beat->rate = beat->rate * 3 / 4;
		beat->unit_rate = beat->unit_rate * 3 / 4;
	}
}

struct sl_beat *sl_beat_in(struct sl_beat *set, int ways, uint64_t tag, sluice_ns now) {
	struct sl_beat *oldest = NULL;
	for (int i = 0; i < ways; i++) {
		if (set[i].tag == tag) {
			sl_beat_roll(&set[i], now);
			return &set[i];
		}
		if (set[i].lease == NULL && (oldest == NULL || set[i].slot < oldest->slot))
			oldest = &set[i];
	}
	if (oldest != NULL)
		*oldest = (struct sl_beat){.tag = tag, .slot = now};
	return oldest;
}
