/* "Did you mean": the known word that a mistyped one is closest to. */
#ifndef SL_NEAREST_H
#define SL_NEAREST_H

#include "base/bytes.h"

/* One word of a table of known ones; NULL past the last. */
typedef const char *sl_word_at(const void *table, size_t index);

/* The known word that the fewest edits (a letter put in, left out, changed, or two swapped) turn `word` into, where
 * these are few for its length; NULL where none is near. Words longer than 32 bytes are near to none.
 * Of a large table only the first words are looked at: 256, or 1,024 letters of those whose length is near. So it takes
 * 4 us at most, and `at` is called 257 times at most: callers may ask as often as requests come. */
const char *sl_nearest(struct sluice_bytes word, sl_word_at *at, const void *table);

#endif
