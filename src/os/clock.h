/* The clocks. Nothing below this floor asks the time. */
#ifndef SL_CLOCK_H
#define SL_CLOCK_H

#include "sluice.h"

/* Wall time, Unix nanoseconds: for what people read, never for deciding. */
sluice_ns sl_clock_wall(void);

/* Nanoseconds of CLOCK_MONOTONIC, for measuring how long something took. */
sluice_ns sl_clock_monotonic(void);

#endif
