/* The running clock: CLOCK_BOOTTIME, which no one can set and which goes on through a suspend, moved to Unix time by an
 * anchor that is taken once. A later step of the wall clock, by hand or by NTP, changes nothing here. */
#include "os/clock.h"

#include <time.h>

static sluice_ns read_clock(clockid_t id) {
	struct timespec ts;
	if (clock_gettime(id, &ts) != 0)
		return 0;
	return (sluice_ns)ts.tv_sec * 1000000000 + (sluice_ns)ts.tv_nsec;
}

sluice_ns sl_clock_wall(void) {
	return read_clock(CLOCK_REALTIME);
}

sluice_ns sl_clock_monotonic(void) {
	return read_clock(CLOCK_MONOTONIC);
}

sluice_ns sluice_now(void) {
	static sluice_ns anchor; /* Unix time at boot; 0: not taken yet */
	sluice_ns boot = read_clock(CLOCK_BOOTTIME), found = __atomic_load_n(&anchor, __ATOMIC_RELAXED);
	if (found == 0) {
		sluice_ns mine = read_clock(CLOCK_REALTIME) - boot;
		/* whoever is first anchors for all; relaxed: the number is all there is to see */
		if (__atomic_compare_exchange_n(&anchor, &found, mine, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			found = mine;
	}
	return found + boot;
}
