/* A rule: a limit, validated, with the constants that its algorithm derives from it and the identity of its counters.
 * It is the public struct sluice_limit; this header names what stands in `derived`. */
#ifndef SL_RULE_H
#define SL_RULE_H

#include "base/bytes.h"

enum {
	SL_MS_NS = 1000000,
	SL_BUCKETS_MAX = 4096,   /* W / P of sliding-buckets */
	SL_EXACT_MEMBERS = 1024, /* distinct: up to this quota members are counted exactly, above it estimated */
	/* in the place of W / P of an identity: a window of the calendar, whose unit stands in the bits below, and its
	 * zone's hash in the place of the window */
	SL_CALENDAR_BIT = 4096,
};
#define SL_WINDOW_NS_MAX ((sluice_ns)3660 * 86400 * 1000000000) /* 3660 d */

/* Whose counters: bits 63..62 of SL_IDENT_KIND. */
enum sl_space { SL_SPACE_NONE, SL_SPACE_POLICY, SL_SPACE_THROTTLE };

/* Indexes into sluice_limit.derived. */
enum sl_derived {
	SL_IDENT_KIND,     /* whose counters: namespace, algorithm, W / P, window; injective */
	SL_IDENT_NAME,     /* hash of the name in a policy; without a name the rate of a bucket, else 0 */
	SL_CAPACITY,       /* what `quota` of a decision says: Q, B or N + 1; N of concurrency */
	SL_TICK_NS,        /* buckets: the unit of their time, 1 ns, 1 us or 1 ms */
	SL_WINDOW_TICKS,   /* buckets: W in ticks, below 2^41 */
	SL_WINDOW_INVERSE, /* windows: floor((2^64 - 1) / W), to divide an instant by W with a multiplication */
	/* sub-buckets: the same of P and of n + 1 */
	SL_PRECISION_INVERSE = SL_TICK_NS,
	SL_RING_INVERSE = SL_WINDOW_TICKS,
};

/* Makes the counters of a limit belong to a name (of a limit in a policy) instead of to its notation, so that quota
 * and rate may change under them. Names differ when their 64-bit hashes do. */
void sl_rule_name(struct sluice_limit *limit, struct sluice_bytes name);

/* Makes the counters of a token-bucket those of CL.THROTTLE: no CHECK of the same key meets them. */
void sl_rule_throttle(struct sluice_limit *limit);

/* A token-bucket from numbers: quota 1..4294967295 a window of 1 ms..3660 d, burst 1..4294967295. SLUICE_OK, or
 * SLUICE_E_RANGE with `error` (may be NULL) saying which number and what would be right. */
SLUICE_MUST_USE sluice_err sl_rule_make_token_bucket(struct sluice_limit *limit, uint64_t quota, sluice_ns window_ns,
                                                     uint64_t burst, struct sluice_error *error);

/* The algorithm's word in the notation; a constant. */
const char *sl_rule_word(const struct sluice_limit *limit);

/* Whether the numbers and derived constants of a limit are ones that sluice_limit_parse() can produce. */
bool sl_rule_is_valid(const struct sluice_limit *limit);

/* Fills the derived constants from the numbers, as a rule of no name. For the parser. */
void sl_rule_derive(struct sluice_limit *limit);

#endif
