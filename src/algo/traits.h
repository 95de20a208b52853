/* What each algorithm can do, as one table: a row an algorithm, a column a trait. Hosts ask for the trait that they
 * mean ("does it keep a block?"), never for a seat in the order of enum sluice_algorithm, which has no meaning. So a
 * new algorithm is a row here, a file of its own, and its cases in step.c, ledger.c and notation.c.
 *
 * A question is asked of a constant that the compiler makes of a column: a shift and a test, and no memory is read. */
#ifndef SL_TRAITS_H
#define SL_TRAITS_H

#include "base/bytes.h"

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
	/* what all have that count cost */
	SL_OF_COST = SL_HAS_COUNTER | SL_COUNTS_COST | SL_RESERVABLE | SL_REFUNDABLE | SL_COUNTS_DENIED,
	/* and all that count somebody */
	SL_OF_SEATS = SL_HAS_COUNTER | SL_HAS_SEATS | SL_HAS_BLOCK,
};

/* The table: algorithm, its word in the notation, its traits. */
#define SL_ALGORITHMS(ROW)                                                                                             \
	ROW(SLUICE_UNLIMITED, "unlimited", 0)                                                                              \
	ROW(SLUICE_FIXED_WINDOW, "fixed-window", SL_OF_COST | SL_HAS_WINDOWS)                                              \
	ROW(SLUICE_SLIDING_WINDOW, "sliding-window", SL_OF_COST | SL_HAS_WINDOWS)                                          \
	ROW(SLUICE_SLIDING_BUCKETS, "sliding-buckets", SL_OF_COST | SL_HAS_BLOCK | SL_KEEPS_TIMES)                         \
	ROW(SLUICE_SLIDING_LOG, "sliding-log", SL_OF_COST | SL_HAS_BLOCK | SL_KEEPS_TIMES | SL_ROUNDS_TO_MS)               \
	ROW(SLUICE_TOKEN_BUCKET, "token-bucket", SL_OF_COST | SL_DRAINS)                                                   \
	ROW(SLUICE_LEAKY_BUCKET, "leaky-bucket", SL_OF_COST | SL_DRAINS | SL_DELAYS)                                       \
	ROW(SLUICE_CONCURRENCY, "concurrency", SL_OF_SEATS | SL_TAKES_LEASE)                                               \
	ROW(SLUICE_DISTINCT, "distinct", SL_OF_SEATS | SL_TAKES_MEMBER | SL_REFUNDABLE)

/* A column: a bit for each algorithm that has the trait, which must be a constant. */
static inline uint32_t sl_algorithms_with(enum sl_trait trait) {
#define SL_ALGORITHM_BIT(algorithm, word, traits) | (((traits) & trait) != 0 ? 1u << (algorithm) : 0)
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

/* Whether it is a number of enum sluice_algorithm. */
bool sl_algorithm_is_known(uint32_t algorithm);

/* The word of an algorithm that is known; a constant. */
const char *sl_algorithm_word(uint32_t algorithm);

/* The algorithm of which this is the word; -1: of none. */
int32_t sl_algorithm_named(struct sluice_bytes word);

#endif
