/* UTF-8, and what of it may be shown: to a terminal, in a log, to whoever reads a line and believes what he sees. */
#ifndef SL_TEXT_H
#define SL_TEXT_H

#include "base/out.h"

/* The length of the UTF-8 sequence at p (1 to 4) and the character that it is; 0 where there is none: no overlong
 * forms, no surrogates, at most U+10FFFF. `len` is at least 1. */
size_t sl_text_next(const unsigned char *p, size_t len, uint32_t *character);

/* May a character stand in a line as it is? Not if it acts on a terminal (controls, U+0080 to U+009F too), ends a line
 * for somebody (U+2028, U+2029), turns text around (U+202A to U+202E, U+2066 to U+2069 and the marks), or can't be seen
 * (zero width, tags). */
bool sl_text_is_shown(uint32_t character);

/* Appends text for people: what may be shown as it is, each byte of everything else, and of what is no UTF-8, as \xNN.
 * At most `max` bytes of it, then "...". At most SL_TEXT_ROOM(max) bytes, which is the room that it needs. */
#define SL_TEXT_ROOM(max) ((size_t)4 * (max) + 3)
void sl_out_shown(struct sl_out *out, struct sluice_bytes text, size_t max);

#endif
