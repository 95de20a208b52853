/* The auditor: a judge of what was admitted, who knows nothing of how it was decided.
 *
 * He is told who was charged how much and when, keeps what of it lies in the window that ends now, and remembers the
 * largest sum that he has seen for each limit. No half-open window (s, s + W] holds more than the best of those that
 * end with a charge, so nothing is missed. Beside it stands the bound that docs/limits.md states (sl_step_most()).
 *
 * Of a decision that was made elsewhere the instant is not known, only that it lies between asking and being answered.
 * A charge then counts from the former on and is met by the latter: a window is said to hold it only if it does for
 * certain. So a judge of a live server may miss a little, and accuses nobody wrongly.
 *
 *   counter: hash of limit, identity and key (64 bits of a keyed SipHash) | sum | a heap of what counts, by its end
 *
 * Two counters are taken for one if their hashes agree: with a million, once in 37 million audits. */
#ifndef SL_CLI_AUDIT_H
#define SL_CLI_AUDIT_H

#include "base/bytes.h"

#include <stdio.h>

enum { SL_AUDIT_KEY_MAX = 128 }; /* bytes that are kept of the key of a worst window */

/* One charge that was admitted. */
struct sl_audit_charge {
	uint32_t position; /* of the limit, among those that are told apart */
	const struct sluice_limit *limit;
	struct sluice_bytes key, member; /* member: of distinct */
	uint64_t cost;                   /* 0 counts nothing */
	sluice_ns since, now;            /* it was charged at some instant between them; `now` never runs back but for
	                                  * counters, which then go on from their last charge, as they do when deciding */
	sluice_ns until;                 /* concurrency: when the lease ends, at the latest */
};

/* The worst that was seen of a limit. */
struct sl_audit_worst {
	uint64_t most, bound; /* bound: UINT64_MAX: none is stated */
	sluice_ns at;         /* the end of the window */
	struct sluice_limit limit;
	uint64_t counters, exceeded; /* counters that were charged, and those of them with a window above their bound */
	size_t key_len;
	char key[SL_AUDIT_KEY_MAX];
};

struct sl_audit;

/* Begins an audit of `positions` limits (at least 1) in at most `bytes_max` of memory; NULL where the system gives
 * none, or no random bytes.
 *  apart  it is judged by another clock than it was decided by: windows are a ten-thousandth and a millisecond shorter,
 *         which is more than two clocks drift apart, and than a server rounds instants down for logs */
struct sl_audit *sl_audit_open(uint32_t positions, uint64_t bytes_max, bool apart);
void sl_audit_close(struct sl_audit *audit);

/* Counts a charge. Of a limit whose quota changes under its counter (overrides), the largest bound holds. Amortised
 * O(log n) for n charges that count. False without memory. */
SLUICE_MUST_USE bool sl_audit_add(struct sl_audit *audit, const struct sl_audit_charge *charge);

/* Of a position; most 0 where nothing was admitted. Owned by the audit. */
const struct sl_audit_worst *sl_audit_worst(const struct sl_audit *audit, uint32_t position);

/* How many counters, of all limits, were above their bound in some window. */
uint64_t sl_audit_exceeded(const struct sl_audit *audit);

/* Prints the table: a line for each limit that admitted anything, then a sentence.
 *  name  what stands before a limit's text; may give NULL, or be NULL */
void sl_audit_print(const struct sl_audit *audit, FILE *to, const char *(*name)(const void *names, uint32_t position),
                    const void *names);

#endif
