/* The running clock: CLOCK_BOOTTIME, which no one can set and which goes on through a suspend, moved to Unix time by an
 * anchor that is taken once: for a process here, for a store by hosts/library/anchor.c. A later step of the wall clock,
 * by hand or by NTP, changes nothing. */
#include "os/clock.h"

#include <stdio.h>
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

sluice_ns sl_clock_boottime(void) {
	return read_clock(CLOCK_BOOTTIME);
}

uint64_t sl_clock_anchor(void) {
	static uint64_t anchor; /* 0: not taken yet */
	uint64_t found = __atomic_load_n(&anchor, __ATOMIC_RELAXED);
	if (found == 0) {
		uint64_t mine = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME);
		/* whoever is first anchors for all; relaxed: the number is all there is to see */
		if (__atomic_compare_exchange_n(&anchor, &found, mine, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			found = mine;
	}
	return found;
}

sluice_ns sluice_now(void) {
	return sl_clock_anchor() + read_clock(CLOCK_BOOTTIME);
}

bool sl_clock_boot_id(uint64_t boot[2]) {
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned digits = 0;
	int c;
	boot[0] = boot[1] = 0;
	if (file == NULL)
		return false;
	while (digits < 32 && (c = getc(file)) != EOF) {
		unsigned value = c >= '0' && c <= '9' ? (unsigned)c - '0' : (unsigned)c - 'a' + 10;
		if (c == '-')
			continue;
		if (value > 15)
			break;
		boot[digits / 16] = boot[digits / 16] << 4 | value;
		digits++;
	}
	(void)fclose(file);
	return digits == 32 && (boot[0] | boot[1]) != 0;
}

uint64_t sl_clock_boottime_shift(void) {
	return sl_clock_boottime_shift_by("/proc/self/timens_offsets");
}

uint64_t sl_clock_boottime_shift_by(const char *path) {
	FILE *file = fopen(path, "re");
	char line[128];
	long long seconds, nanoseconds;
	uint64_t shift = 0;
	if (file == NULL)
		return 0; /* the kernel has no time namespaces */
	while (fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "boottime %lld %lld", &seconds, &nanoseconds) == 2)
			shift = (uint64_t)seconds * 1000000000 + (uint64_t)nanoseconds;
	(void)fclose(file);
	return shift;
}
