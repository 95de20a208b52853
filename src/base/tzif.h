/* Time zone files: TZif (RFC 9636), versions 1 to 4, of any bytes. */
#ifndef SL_TZIF_H
#define SL_TZIF_H

#include "base/zone.h"

/* Reads the shifts of a file, with those that the rule at its end says, up to the last instant of all (2554).
 *  shifts  out, room for SL_SHIFTS_MAX; what was before 1970 is left out but for what matters to windows of then
 *  count   out, 1..SL_SHIFTS_MAX
 * Returns NULL, or why the file can't be used: a constant, as "is cut off". Some 30 us. */
const char *sl_tzif_read(struct sluice_bytes file, struct sl_shift *shifts, uint32_t *count);

#endif
