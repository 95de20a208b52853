/* The instant at which a door decides. A log keeps instants in whole milliseconds, so a request that meets one is
 * stamped in whole milliseconds too: then its log is exact to its stamps, and the first charge of `sliding-log 5/1m`
 * says that the quota is back in 60,000 ms, not in 60,001. All else keeps the nanosecond: a bucket of 3,000 tokens a
 * second and a burst of 1 would otherwise pass one request a millisecond. */
#include "hosts/server/door/door.h"

#include "algo/traits.h"

sluice_ns sl_door_instant(sluice_ns now, const struct sluice_item *items, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (sl_rule_has(items[i].limit, SL_ROUNDS_TO_MS))
			return now - now % 1000000;
	return now;
}
