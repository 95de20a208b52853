/* What each algorithm can do, as one table: a row an algorithm, a column a trait. Hosts ask for the trait that they
 * mean ("does it keep a block?"), never for an algorithm by its number, nor for a seat in the order of enum
 * sluice_algorithm, which has no meaning. So a new algorithm is a row here, a file of its own, and its cases in step.c;
 * in ledger.c if what it charges can be corrected, in notation.c if it has options.
 *
 * A question is asked of a constant that the compiler makes of a column: a shift and a test, and no memory is read. */
#ifndef SL_TRAITS_H
#define SL_TRAITS_H

#include "base/bytes.h"
#include "base/out.h"

enum sl_trait {
	SL_HAS_COUNTER = 1 << 0,    /* it counts something: all but unlimited */
	SL_COUNTS_COST = 1 << 1,    /* it adds up cost, whoever asks */
	SL_HAS_SEATS = 1 << 2,      /* it counts somebody by name, instead: leases, members (seats.c) */
	SL_TAKES_LEASE = 1 << 3,    /* who is counted is a lease: acquired, released, renewed */
	SL_TAKES_MEMBER = 1 << 4,   /* who is counted is a member, which the item names */
	SL_HAS_BLOCK = 1 << 5,      /* its counters have a block beside their 16 bytes */
	SL_KEEPS_TIMES = 1 << 6,    /* the block tells when each charge was made, and so in which seat it goes back */
	SL_HAS_WINDOWS = 1 << 7,    /* its state is an instant and two counts: of a window, and of the one before */
	SL_DRAINS = 1 << 8,         /* its state is a debt that drains; under a name, at a rate that may change */
	SL_DELAYS = 1 << 9,         /* what it admits may have to wait: delay_ns */
	SL_ROUNDS_TO_MS = 1 << 10,  /* it keeps instants in whole milliseconds, rounded up */
	SL_RESERVABLE = 1 << 11,    /* a charge can be corrected where it was made: RESERVE, COMMIT */
	SL_REFUNDABLE = 1 << 12,    /* what was charged can be given back: REFUND */
	SL_COUNTS_DENIED = 1 << 13, /* what it denies can be charged all the same: count-denied */
	SL_COUNTS_LATE = 1 << 14,   /* what is held while it is spent, and charged later, then counts for no less: slices */
	/* what those have of whose charges all can be asked */
	SL_OF_CHARGES = SL_COUNTS_COST | SL_RESERVABLE | SL_REFUNDABLE,
	/* what all have that count cost */
	SL_OF_COST = SL_HAS_COUNTER | SL_OF_CHARGES | SL_COUNTS_DENIED,
	/* and those with a block that tells when */
	SL_OF_TIMES = SL_HAS_BLOCK | SL_KEEPS_TIMES,
	/* and all that count somebody */
	SL_OF_SEATS = SL_HAS_COUNTER | SL_HAS_SEATS | SL_HAS_BLOCK,
};

/* The table: algorithm, its word in the notation, its traits, and an example with what it means, as `sluice help` tells
 * it. People read of algorithms in this order. */
#define SL_ALGORITHMS(ROW)                                                                                             \
	ROW(SLUICE_SLIDING_WINDOW, "sliding-window", SL_OF_COST | SL_HAS_WINDOWS | SL_COUNTS_LATE,                         \
	    "100/1m", "sliding-window, 100 a minute")                                                                      \
	ROW(SLUICE_FIXED_WINDOW, "fixed-window", SL_OF_COST | SL_HAS_WINDOWS | SL_COUNTS_LATE,                             \
	    "fixed-window 10k/1d", "10,000 a day, by the calendar (UTC)")                                                  \
	ROW(SLUICE_SLIDING_BUCKETS, "sliding-buckets", SL_OF_COST | SL_OF_TIMES | SL_COUNTS_LATE,                          \
	    "sliding-buckets 240/1h precision 1m", "240 an hour, kept in minutes")                                         \
	ROW(SLUICE_SLIDING_LOG, "sliding-log", SL_OF_COST | SL_OF_TIMES | SL_ROUNDS_TO_MS | SL_COUNTS_LATE,                \
	    "sliding-log 5/1m", "exact: never more than 5 in any minute")                                                  \
	ROW(SLUICE_TOKEN_BUCKET, "token-bucket", SL_OF_COST | SL_DRAINS | SL_COUNTS_LATE,                                  \
	    "token-bucket 10/1s burst 100", "10 a second, up to 100 at once")                                              \
	ROW(SLUICE_LEAKY_BUCKET, "leaky-bucket", SL_OF_COST | SL_DRAINS | SL_DELAYS,                                       \
	    "leaky-bucket 10/1s queue 50", "evened out to 10 a second, 50 may wait")                                       \
	ROW(SLUICE_CONCURRENCY, "concurrency", SL_OF_SEATS | SL_TAKES_LEASE,                                               \
	    "concurrency 5 lease 30s", "5 at a time; a lease ends by itself after 30 s")                                   \
	ROW(SLUICE_DISTINCT, "distinct", SL_OF_SEATS | SL_TAKES_MEMBER | SL_REFUNDABLE,                                    \
	    "distinct 3/1d", "3 different members, such as addresses of a user")                                           \
	ROW(SLUICE_UNLIMITED, "unlimited", 0,                                                                              \
	    "unlimited", "counts nothing, admits all")

/* A column: a bit for each algorithm that has the trait, which must be a constant; and for each whose windows may be
 * spread (SLUICE_SPREAD), which has all of its traits. */
static inline uint32_t sl_algorithms_with(enum sl_trait trait) {
#define SL_ALGORITHM_BITS(algorithm, traits) \
	(((traits) & SL_HAS_WINDOWS) != 0 ? (1u << SLUICE_SPREAD | 1u) << (algorithm) : 1u << (algorithm))
#define SL_ALGORITHM_BIT(algorithm, word, traits, example, says) \
	| (((traits) & trait) != 0 ? SL_ALGORITHM_BITS(algorithm, traits) : 0)
	return 0 SL_ALGORITHMS(SL_ALGORITHM_BIT);
#undef SL_ALGORITHM_BIT
}

/* Whether an algorithm has a trait. Any number below 32 may be asked about: what is no algorithm has none. */
static inline bool sl_algorithm_has(uint32_t algorithm, enum sl_trait trait) {
	return (sl_algorithms_with(trait) >> (algorithm & 31) & 1) != 0;
}

static inline bool sl_rule_has(const struct sluice_limit *limit, enum sl_trait trait) {
	return sl_algorithm_has(limit->algorithm, trait);
}

/* The bit of a limit's algorithm, as in the sets above. */
static inline uint32_t sl_algorithm_bit(const struct sluice_limit *limit) {
	return 1u << (limit->algorithm & 31);
}

/* The instant, Unix ns, at which a call over these algorithms, a bit each, is decided when the clock says `now`: whole
 * milliseconds where there is a log and no bucket, else `now`. A log keeps instants in whole milliseconds; stamped so,
 * it is exact to its stamps, and the first charge of `sliding-log 5/1m` says that the quota is back in 60,000 ms, not
 * in 60,001. But a bucket is refilled all the time: by whole milliseconds, one of 3,000 tokens a second and a burst of
 * 1 would admit 1,000. So beside one a log is up to 1 ms late: a call has one instant, by which counters, ledgers and
 * strikes of all its limits go. */
static inline sluice_ns sl_algorithms_instant(uint32_t algorithms, sluice_ns now) {
	bool by_ms = (algorithms & sl_algorithms_with(SL_ROUNDS_TO_MS)) != 0 &&
	             (algorithms & sl_algorithms_with(SL_DRAINS)) == 0;
	return by_ms ? now - now % 1000000 : now;
}

/* A bit for each algorithm that counts something and lacks one of these traits at least, which must be constants.
 * `unlimited`, which counts nothing, lacks nothing. */
static inline uint32_t sl_algorithms_without(enum sl_trait wanted) {
#define SL_ALGORITHM_BIT(algorithm, word, traits, example, says)                                                       \
	| (((traits)&SL_HAS_COUNTER) != 0 && ((traits)&wanted) != wanted ? SL_ALGORITHM_BITS(algorithm, traits) : 0)
	return 0 SL_ALGORITHMS(SL_ALGORITHM_BIT);
#undef SL_ALGORITHM_BIT
#undef SL_ALGORITHM_BITS
}

/* Whether a limit counts something and lacks one of these traits at least. */
static inline bool sl_rule_lacks(const struct sluice_limit *limit, enum sl_trait wanted) {
	return (sl_algorithms_without(wanted) >> (limit->algorithm & 31) & 1) != 0;
}

/* Whether it is an algorithm's number, without SLUICE_SPREAD. */
bool sl_algorithm_is_known(uint32_t algorithm);

/* The word of an algorithm that is known; a constant. */
const char *sl_algorithm_word(uint32_t algorithm);

/* The algorithm of which this is the word; -1: of none. */
int32_t sl_algorithm_named(struct sluice_bytes word);

/* All words, in the order of the table: `sliding-window, fixed-window, ... or unlimited`. */
void sl_algorithms_list(struct sl_out *out);

#endif
