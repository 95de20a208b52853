/* Reading a text by a grammar: where one is, what was wrong there, and what limits and terms both write: numbers and
 * durations. No allocation; a text need not end in NUL. */
#ifndef SL_READING_H
#define SL_READING_H

#include "algo/rule.h"
#include "base/out.h"

struct sl_reading {
	const char *start, *at, *end;
	struct sluice_error *error; /* NULL: nobody wants to know */
};

static inline bool sl_is_digit(char c) {
	return c >= '0' && c <= '9';
}

/* Fills the error with `expected`, what was found at `where`, and its column. Returns `err`. */
sluice_err sl_reading_fail(const struct sl_reading *in, sluice_err err, const char *where, const char *expected);

/* Reads digits to a number; saturates at UINT64_MAX, so that the range check after it sees any overflow. SLUICE_OK, or
 * SLUICE_E_SYNTAX, which is told. */
SLUICE_MUST_USE sluice_err sl_read_digits(struct sl_reading *in, uint64_t *value, const char *expected);

/* Reads digits and one of `ms s m h d w`, 1 ms to 3660 d. SLUICE_OK, SLUICE_E_SYNTAX or SLUICE_E_RANGE, told. */
SLUICE_MUST_USE sluice_err sl_read_duration(struct sl_reading *in, sluice_ns *ns, const char *expected);

/* How many milliseconds one of `ms s m h d w` is; 0 for another text. */
uint64_t sl_unit_ms(struct sluice_bytes text);

/* Writes a duration of whole ms in the largest unit that divides it. */
void sl_print_duration(struct sl_out *out, sluice_ns ns);

#endif
