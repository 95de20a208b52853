/* The module's clock: CLOCK_BOOTTIME, which no one can set, moved to Unix time by an anchor that is taken when the
 * module is loaded. A step of the wall clock neither frees nor locks anybody, as far as it is up to us: Redis expires
 * keys by the wall clock, so one that leaps ahead of a key's expiry takes the key with it. */
#include "hosts/redis/request.h"

#include <time.h>

static uint64_t anchor;

static uint64_t read_clock(clockid_t id) {
	struct timespec ts;
	if (clock_gettime(id, &ts) != 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void slr_clock_anchor(void) {
	anchor = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME);
}

sluice_ns slr_clock_now(void) {
	return anchor + read_clock(CLOCK_BOOTTIME);
}

int64_t slr_clock_wall_ms(void) {
	return (int64_t)(read_clock(CLOCK_REALTIME) / 1000000);
}
