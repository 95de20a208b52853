/* The one agreement between the algorithms, which understand states, and the store, which keeps them: bits 63..19 of a
 * state's first word are the instant of the counter's last charge in units of 2^19 ns (0.5 ms).
 *
 * 2^19 ns is less than a millisecond, so an instant of whole milliseconds survives being cut to it, and the 19 bits
 * below are free for the algorithms that count in milliseconds. */
#ifndef SL_COARSE_H
#define SL_COARSE_H

enum { SL_COARSE_SHIFT = 19 };

#endif
