/* Whoever reads the log hears that the store fills up before counters in use make room for others. */
#ifndef SL_STORE_ROOM_H
#define SL_STORE_ROOM_H

#include "hosts/server/watch/store_stats.h"

#include <stdbool.h>

enum {
	SL_STORE_ROOM_LOOK_MS = 60000,
	SL_STORE_ROOM_LOW_PERCENT = 15,  /* of slots, or of blocks, free: a line; the alert's share too */
	SL_STORE_ROOM_BACK_PERCENT = 25, /* free again: another */
	SL_STORE_ROOM_LINES = 4,
	SL_STORE_ROOM_LINE_MAX = 160,
};

/* How many quotas of keys' own there may be: what the policy says (sl_settings.overrides_most, 0: nothing), and never
 * more than the store can have. */
static inline uint64_t sl_store_overrides_bound(uint32_t said, uint64_t of_store) {
	return said != 0 && said < of_store ? said : of_store;
}

/* What was said last. All zero to begin with. */
struct sl_store_room {
	bool slots_low, blocks_low, overrides_low, looked;
	uint64_t evicted; /* as of the last look */
};

/* What the log is to say now: writes 0 to SL_STORE_ROOM_LINES lines and returns how many. figures->overrides_most is
 * what sl_store_overrides_bound() comes to. The first look says nothing of what was evicted before. `warns` tells of
 * each whether it is a warning. */
uint32_t sl_store_room_look(struct sl_store_room *room, const struct sl_store_figures *figures,
                            char lines[SL_STORE_ROOM_LINES][SL_STORE_ROOM_LINE_MAX], bool warns[SL_STORE_ROOM_LINES]);

#endif
