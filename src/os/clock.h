/* The clocks. Nothing below this floor asks the time. */
#ifndef SL_CLOCK_H
#define SL_CLOCK_H

#include "sluice.h"

/* Wall time, Unix nanoseconds: for what people read, and for anchoring a clock once. */
sluice_ns sl_clock_wall(void);

/* Nanoseconds of CLOCK_MONOTONIC, for measuring how long something took. */
sluice_ns sl_clock_monotonic(void);

/* Nanoseconds of CLOCK_BOOTTIME: since the host was started, suspends included. Nobody can set it. */
sluice_ns sl_clock_boottime(void);

/* What sluice_now() adds to CLOCK_BOOTTIME, modulo 2^64: Unix time at boot, as it looked when first asked for. */
uint64_t sl_clock_anchor(void);

/* Which boot of which kernel this is: 128 random bits, the same for all processes of a host, never both 0. Returns
 * false when the system does not say. */
bool sl_clock_boot_id(uint64_t boot[2]);

/* By how much this process's time namespace has moved CLOCK_BOOTTIME, modulo 2^64: less this, processes of all
 * namespaces of a host read the same. 0 where there are no such namespaces. */
uint64_t sl_clock_boottime_shift(void);

/* The same by a file like /proc/self/timens_offsets: for tests. */
uint64_t sl_clock_boottime_shift_by(const char *path);

#endif
