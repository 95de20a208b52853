/* The host's time zones: tzdata, as files of /usr/share/zoneinfo, or of the folder that TZDIR names. */
#ifndef SL_OS_ZONE_H
#define SL_OS_ZONE_H

#include "base/zone.h"

/* From now on whoever parses a limit finds the host's time zones. Any number of times, from one thread. */
void sl_zone_use_host(void);

/* Reads a zone of the host's by its name in tzdata, and adds it; from any thread. Returns its number, or -1: there is
 * no such zone, its file can't be read or is none, or no place is left. Some 100 us; never on the way to a decision. */
int32_t sl_zone_read(struct sluice_bytes name);

/* The same by sl_zone.hash. The first call that finds nothing known lists the folder: some ms, once. */
int32_t sl_zone_read_hash(uint64_t hash);

/* The name of a zone of the host's that is nearly this one; NULL: none is. Some us; lists the folder, once. */
const char *sl_zone_guess(struct sluice_bytes name);

#endif
