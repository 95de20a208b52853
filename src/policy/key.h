/* Keys as text: what EXPLAIN prints and what counters are found by. */
#ifndef SL_KEY_H
#define SL_KEY_H

#include "base/fold.h"
#include "base/out.h"

/* Appends a name or a value with `%`, `,` and `=` as %25, %2C and %3D, so that no two lists of pairs make one key.
 * Sets out->overflow where it does not fit. About 1 ns a byte. */
void sl_key_encode(struct sl_out *out, struct sluice_bytes text);

/* The same of an attribute's value: one that is longer than SLUICE_KEY_BYTES_MAX is folded first. */
void sl_key_add(struct sl_out *out, struct sluice_bytes value);

#endif
