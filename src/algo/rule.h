/* A rule: a limit, validated, with the constants that its algorithm derives from it and the identity of its counters.
 * It is the public struct sluice_limit; this header names what stands in `derived`. */
#ifndef SL_RULE_H
#define SL_RULE_H

#include "algo/traits.h"
#include "base/assert.h"

enum {
	SL_MS_NS = 1000000,
	SL_BUCKETS_MAX = 4096,   /* W / P of sliding-buckets */
	SL_EXACT_MEMBERS = 1024, /* distinct: up to this quota members are counted exactly, above it estimated */
	/* registers of the estimate: a power of two, `registers N`; 4,096 where nothing is said */
	SL_REGISTER_BITS_MIN = 10,
	SL_REGISTER_BITS = 12,
	SL_REGISTER_BITS_MAX = 15,
	SL_REGISTERS_MIN = 1 << SL_REGISTER_BITS_MIN,
	SL_REGISTERS = 1 << SL_REGISTER_BITS,
	SL_REGISTERS_MAX = 1 << SL_REGISTER_BITS_MAX,
	/* in the place of W / P of an identity: a window of the calendar, whose unit stands in the bits below, and its
	 * zone's hash in the place of the window */
	SL_CALENDAR_BIT = 4096,
	/* likewise: windows that are spread, and of which key is not said; and below the other, in 11 bits there and 6 more
	 * above the window, the phase of a key's */
	SL_SPREAD_BIT = 4096 + 1024,
	SL_PHASE_BIT = 4096 + 2048,
	SL_PHASES = 1 << 17, /* phases that there are: parts of a window */
};
#define SL_WINDOW_NS_MAX ((sluice_ns)3660 * 86400 * 1000000000) /* 3660 d */

/* Whose counters: bits 63..62 of an identity's kind. A companion is no counter, but what a host keeps beside one under
 * an identity of its own. */
enum sl_space { SL_SPACE_NONE, SL_SPACE_POLICY, SL_SPACE_THROTTLE, SL_SPACE_COMPANION };

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
	SL_AHEAD_NS = SL_TICK_NS, /* windows that are spread: how far their clock is ahead of time, below W (spread.c) */
	SL_RING_INVERSE = SL_WINDOW_TICKS,
};

/* Makes the counters of a limit belong to a name (of a limit in a policy) instead of to its notation, so that quota
 * and rate may change under them. Names differ when their 64-bit hashes do. */
void sl_rule_name(struct sluice_limit *limit, struct sluice_bytes name);

/* Makes the counters of a token-bucket those of CL.THROTTLE: no CHECK of the same key meets them. */
void sl_rule_throttle(struct sluice_limit *limit);

/* ---- windows that are spread (spread.c) -------------------------------------------------------------------------- */

static inline bool sl_rule_spreads(const struct sluice_limit *limit) {
	return (limit->algorithm & SLUICE_SPREAD) != 0;
}

/* The algorithm, without SLUICE_SPREAD. */
static inline uint32_t sl_rule_algorithm(const struct sluice_limit *limit) {
	return limit->algorithm & ~(uint32_t)SLUICE_SPREAD;
}

/* Whether it is one rule for all keys, by which nothing can be decided until a key has given it its phase. */
static inline bool sl_rule_needs_key(const struct sluice_limit *limit) {
	return sl_rule_spreads(limit) && limit->burst == 0;
}

/* Gives such a rule, a copy of it, the phase of a key: the same for the same identity and key in every process, store
 * and node. Others stay as they are. About 30 ns. */
void sl_rule_key(struct sluice_limit *limit, struct sluice_bytes key);

/* ---- members that are estimated (hll.c) -------------------------------------------------------------------------- */

/* Whether members are counted by an estimate once there are many: distinct above 1,024. */
static inline bool sl_rule_estimates(const struct sluice_limit *limit) {
	return limit->algorithm == SLUICE_DISTINCT && limit->quota > SL_EXACT_MEMBERS;
}

/* By how many registers, as a power of two, a counter of the limit is estimated from when it has to be; of one that
 * counts exactly, what is said where nothing is. */
static inline uint32_t sl_rule_register_bits(const struct sluice_limit *limit) {
	if (!sl_rule_estimates(limit))
		return SL_REGISTER_BITS;
	SL_DEBUG_ASSERT(limit->burst >= SL_REGISTERS_MIN && limit->burst <= SL_REGISTERS_MAX);
	return (uint32_t)__builtin_ctz(limit->burst);
}

/* A token-bucket from numbers: quota 1..4294967295 a window of 1 ms..3660 d, burst 1..4294967295. SLUICE_OK, or
 * SLUICE_E_RANGE with `error` (may be NULL) saying which number and what would be right. */
SLUICE_MUST_USE sluice_err sl_rule_make_token_bucket(struct sluice_limit *limit, uint64_t quota, sluice_ns window_ns,
                                                     uint64_t burst, struct sluice_error *error);

/* Whether the numbers and derived constants of a limit are ones that sluice_limit_parse() can produce. */
bool sl_rule_is_valid(const struct sluice_limit *limit);

/* Fills the derived constants from the numbers, as a rule of no name. For the parser. */
void sl_rule_derive(struct sluice_limit *limit);

/* Gives a limit another quota, burst (in the sense of struct sluice_limit) and edge: its counters stay the same, also
 * those of a bucket without a name, whose rate is in their identity. False, and nothing was changed, where no limit of
 * its kind has them. Some ns. */
bool sl_rule_requota(struct sluice_limit *limit, uint32_t quota, uint32_t burst, uint8_t edge);

/* ---- identities, by themselves: of hosts that keep them (layout: rule.c) ----------------------------------------- */

struct sl_identity {
	uint64_t kind, name; /* SL_IDENT_KIND, SL_IDENT_NAME */
};

static inline struct sl_identity sl_identity_of(const struct sluice_limit *limit) {
	return (struct sl_identity){limit->derived[SL_IDENT_KIND], limit->derived[SL_IDENT_NAME]};
}

static inline bool sl_identity_equal(struct sl_identity a, struct sl_identity b) {
	return a.kind == b.kind && a.name == b.name;
}

static inline enum sl_space sl_identity_space(struct sl_identity identity) {
	return (enum sl_space)(identity.kind >> 62);
}

/* enum sluice_algorithm, 0..15; of a companion its type. */
static inline uint32_t sl_identity_algorithm(struct sl_identity identity) {
	return identity.kind >> 58 & 15;
}

static inline bool sl_identity_is_companion(struct sl_identity identity) {
	return sl_identity_space(identity) == SL_SPACE_COMPANION;
}

/* Whether the algorithm of a counter has a trait; no companion has any. */
static inline bool sl_identity_has(struct sl_identity identity, enum sl_trait trait) {
	return !sl_identity_is_companion(identity) && sl_algorithm_has(sl_identity_algorithm(identity), trait);
}

/* Whether its counters may be charged at one rate now and another then: buckets of a name. The identity of others says
 * their rate, or they have none. */
static inline bool sl_identity_keeps_rate(struct sl_identity identity) {
	return sl_identity_space(identity) == SL_SPACE_POLICY && sl_identity_has(identity, SL_DRAINS);
}

static inline bool sl_rule_rate_may_change(const struct sluice_limit *limit) {
	return sl_identity_keeps_rate(sl_identity_of(limit));
}

/* The first item that asks for another member than one before it does, of the same counter: a counter is charged once,
 * so only one of them would be counted, and such a call is no valid one. Two that are observed may, for they deny
 * nobody. `count`: there is none. Items of limits that are there. O(count^2), for those with members alone. */
uint32_t sl_items_second_member(const struct sluice_item *items, uint32_t count);

/* The identity of a counter's companion of a type, 1..15. Injective, but that of the name 58 bits are told apart. And
 * whether one can be a companion's of a counter, and of which algorithm that is. */
static inline struct sl_identity sl_identity_companion(uint32_t type, struct sl_identity counter) {
	SL_DEBUG_ASSERT(type >= 1 && type <= 15 && !sl_identity_is_companion(counter));
	return (struct sl_identity){(uint64_t)SL_SPACE_COMPANION << 62 | (uint64_t)type << 58 | counter.name << 6 >> 6,
	                            counter.kind};
}

static inline bool sl_identity_accompanies(struct sl_identity companion, uint32_t *algorithm) {
	const struct sl_identity counter = {companion.name, 0};
	*algorithm = sl_identity_algorithm(counter);
	return companion.name != 0 && !sl_identity_is_companion(counter);
}

/* A limit of this identity that admits as much as any can: for what is done to a counter whoever asks for it, such as
 * charging what has been admitted elsewhere. Its rate, where the identity does not say it, is 1. False where there is
 * no limit of this identity. And one with the counters and the rate of `limit`; of a quota of 0 the rate is 1. */
bool sl_identity_widest(struct sl_identity identity, struct sluice_limit *limit);
struct sluice_limit sl_rule_widened(const struct sluice_limit *limit);

/* The limit whose decisions tell how long a counter is to be kept: `limit` itself; but of a quota of 0, to which
 * nothing is ever back, `*wide`, which becomes the widened one. */
static inline const struct sluice_limit *sl_rule_lasting(const struct sluice_limit *limit, struct sluice_limit *wide) {
	if (__builtin_expect(limit->quota != 0, 1))
		return limit;
	*wide = sl_rule_widened(limit);
	return wide;
}

#endif
