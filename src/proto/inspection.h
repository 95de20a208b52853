/* What INSPECT tells of a limit's counter, once for the server's RESP door, HTTP and the module: the
 * same names in the same order, each with a value.
 *
 *   RESP   an array a limit: name, value, name, value ..; lists are arrays
 *   JSON   an object a limit
 *
 *   limit, key                         whose counter
 *   allowed quota remaining            what a cost of 1 would get now, charging nothing
 *   retry_after_ms reset_after_ms next_after_ms
 *   used                               what counts
 *   oldest_ms last_ms                  the oldest charge that counts, and the last: Unix ms; 0: none
 *   penalties denials shut_out_ms      imposed and not forgiven; that count towards the next; until a shut-out ends
 *   charges_in_all                     how many charges, windows, sub-buckets, leases or members count
 *   returns                            [after_ms, remaining], .. the next instants at which units return, at most 8
 *   charges                            [from_ms, until_ms, cost], .. what counts, the oldest first, at most 16 */
#ifndef SL_PROTO_INSPECTION_H
#define SL_PROTO_INSPECTION_H

#include "proto/answer.h"

enum {
	SL_INSPECTION_NUMBERS = 13,
	/* bytes that one limit's object takes at most, without its key and name */
	SL_INSPECTION_JSON_MAX = 256 + SL_INSPECTION_NUMBERS * 48 + SLUICE_RETURNS_MAX * 48 + SLUICE_CHARGES_MAX * 72 +
	                         2 * SLUICE_LIMIT_TEXT_MAX
};

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

/* An instant in Unix ms. */
static inline int64_t sl_inspection_ms(sluice_ns ns) {
	return (int64_t)(ns / 1000000);
}

#endif
