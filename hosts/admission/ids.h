/* The ids that a door makes for leases, reservations and tickets. */
#ifndef SL_IDS_H
#define SL_IDS_H

#include "base/bytes.h"

enum { SL_ID_DIGITS = 16 };

/* Makes an id: 16 hex digits, NUL-ended, never all 0. Nobody who has seen others can tell the next, and two are alike
 * as seldom as random numbers of 64 bits are: of 10 million held at a time, two in 370,000 such times. Any thread; some
 * 20 ns, and a system call at the thread's first, and at the first after a fork. Returns the digits; none where the
 * system gave no random bytes, or no memory to hear of forks: an id that others can guess, or make as well, would be
 * worse, and a call that needs one is refused without it. */
struct sluice_bytes sl_make_id(char text[SL_ID_DIGITS + 1]);

#endif
