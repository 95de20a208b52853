/* See store_room.h. A line when room becomes low, one when it is back, and between the two shares nothing, so that a
 * store at the edge does not fill the log. */
#include "hosts/server/watch/store_room.h"

#include <inttypes.h>
#include <stdio.h>

struct lines {
	char (*texts)[SL_STORE_ROOM_LINE_MAX];
	bool *warns;
	uint32_t count;
};

static void tell_share(struct lines *lines, bool *low, uint64_t used, uint64_t all, const char *what,
                       const char *remedy) {
	uint64_t free_percent = all == 0 ? 100 : (uint64_t)((double)(all - used) / (double)all * 100);
	bool is_low = free_percent < (*low ? SL_STORE_ROOM_BACK_PERCENT : SL_STORE_ROOM_LOW_PERCENT);
	if (is_low == *low)
		return;
	*low = is_low;
	lines->warns[lines->count] = is_low;
	if (is_low)
		snprintf(lines->texts[lines->count], SL_STORE_ROOM_LINE_MAX, "store: %" PRIu64 "%% of its %s are in use; %s",
		         100 - free_percent, what, remedy);
	else
		snprintf(lines->texts[lines->count], SL_STORE_ROOM_LINE_MAX, "store: %" PRIu64 "%% of its %s are free again",
		         free_percent, what);
	lines->count++;
}

static void tell_evicted(struct lines *lines, struct sl_store_room *room, uint64_t evicted) {
	if (room->looked && evicted > room->evicted) {
		lines->warns[lines->count] = true;
		snprintf(lines->texts[lines->count++], SL_STORE_ROOM_LINE_MAX,
		         "store: full: %" PRIu64
		         " counters in use made room for others in the last minute; give it more memory",
		         evicted - room->evicted);
	}
	room->evicted = evicted;
	room->looked = true;
}

uint32_t sl_store_room_look(struct sl_store_room *room, const struct sl_store_figures *figures,
                            char texts[SL_STORE_ROOM_LINES][SL_STORE_ROOM_LINE_MAX], bool warns[SL_STORE_ROOM_LINES]) {
	struct lines lines = {.texts = texts, .warns = warns};
	if (figures->counted != 0)
		tell_share(&lines, &room->slots_low, figures->keys - figures->expired, figures->slots, "slots",
		           "give it more memory, before counters in use make room for others");
	tell_share(&lines, &room->blocks_low, figures->block_bytes, figures->block_bytes + figures->block_bytes_free,
	           "blocks", "give it more memory, or blocks a larger share, before counters in use make room for others");
	tell_share(&lines, &room->overrides_low, figures->overrides, figures->overrides_most, "overrides",
	           "at the bound more keys get none: delete some, raise store.overrides, or give it more memory");
	tell_evicted(&lines, room, figures->evicted);
	return lines.count;
}
