/* What INSPECT tells of a limit's counter, once for the server's RESP door, HTTP and the module: the
 * same names in the same order, each with a value.
 *
 *   RESP   an array a limit: name, value, name, value ..; lists are arrays
 *   JSON   an object a limit
 *
 *   limit, key                         whose counter
 *   allowed quota remaining            what the cost, mostly 1, would get now, charging nothing
 *   retry_after_ms reset_after_ms next_after_ms delay_ms
 *   used                               what counts
 *   oldest_ms last_ms                  the oldest charge that counts, and the last: Unix ms; 0: none
 *   penalties denials shut_out_ms      imposed and not forgiven; that count towards the next; until a lockout ends
 *   charges_in_all                     how many charges, windows, sub-buckets, leases or members count
 *   returns                            [after_ms, remaining], .. the next instants at which units return, at most 8
 *   charges                            [from_ms, until_ms, cost], .. what counts, the oldest first, at most 16
 *   own_quota own_ends_after_ms        where the key has a quota of its own, by which all of this is (own_quota.h)
 *   bound                              where a bound of ours decides: sluice_bound_name()
 *   error                              where the count is an estimate: sl_error_text() */
#ifndef SL_PROTO_INSPECTION_H
#define SL_PROTO_INSPECTION_H

#include "proto/answer.h"
#include "proto/own_quota.h"

enum {
	SL_INSPECTION_NUMBERS = 14,
	/* bytes that one limit's object takes at most, without its key and name */
	SL_INSPECTION_JSON_MAX = 320 + SL_INSPECTION_NUMBERS * 48 + SLUICE_RETURNS_MAX * 48 + SLUICE_CHARGES_MAX * 72 +
	                         2 * SLUICE_LIMIT_TEXT_MAX + SL_OWN_QUOTA_JSON_MAX
};

/* The standard error of a limit's count, in parts of 1: "0.0163". False: it counts exactly. */
enum { SL_ERROR_TEXT_MAX = sizeof "0.0000" };
bool sl_error_text(const struct sluice_limit *limit, char text[SL_ERROR_TEXT_MAX]);

/* Writes one limit's array; the caller then writes `more` names with their values, which belong to it. */
void sl_inspection_put(const struct sl_answer_sink *sink, void *to, const struct sluice_item *item,
                       const struct sluice_inspection *told, uint32_t more);

struct sl_inspection_number {
	const char *name;
	int64_t value;
};

/* All of them that are one number each, `allowed` first. */
void sl_inspection_numbers(const struct sluice_inspection *told,
                           struct sl_inspection_number list[SL_INSPECTION_NUMBERS]);

/* What fronts hold of a counter in Redis, beside what is used. */
enum { SL_HELD_SLICES_MAX = 24 };
struct sl_held_there {
	uint64_t cost;        /* by holds and slices, in all */
	uint32_t slice_count; /* those that end first first */
	struct {
		int64_t ends_ms; /* Unix ms */
		uint64_t cost;
	} slices[SL_HELD_SLICES_MAX];
	uint32_t left_here, spent_here; /* of a slice of the worker that answers: to be had; spent, and not charged yet */
};
enum { SL_HELD_JSON_MAX = 160 + SL_HELD_SLICES_MAX * 48 };
/* Writes two names with their values; those of the worker's own slice, two more. */
void sl_held_put(const struct sl_answer_sink *sink, void *to, const struct sl_held_there *held);
void sl_held_put_here(const struct sl_answer_sink *sink, void *to, const struct sl_held_there *held);

/* The same as integers alone, which fronts ask for by the word EACH: the numbers; how many returns and each; how many
 * charges and each; what is held; how many slices and each. The second reads all but the worker's own slice; false
 * where they are none of these. */
enum {
	SL_INSPECTION_FIGURES_MAX =
		SL_INSPECTION_NUMBERS + 1 + 2 * SLUICE_RETURNS_MAX + 1 + 3 * SLUICE_CHARGES_MAX + 2 + 2 * SL_HELD_SLICES_MAX
};
void sl_inspection_put_figures(const struct sl_answer_sink *sink, void *to, const struct sluice_inspection *told,
                               const struct sl_held_there *held);
SLUICE_MUST_USE bool sl_inspection_read_figures(const int64_t *figures, uint32_t count, struct sluice_inspection *told,
                                                struct sl_held_there *held);

/* An instant in Unix ms. */
static inline int64_t sl_inspection_ms(sluice_ns ns) {
	return (int64_t)(ns / 1000000);
}

#endif
