/* The slow, obvious twin of every algorithm: a plain list of all charges ever made, and every figure of a decision
 * recomputed from it by the words of the contract.
 *
 * It shares nothing with src/algo: no state that is folded together, no closed formula for a wait. `remaining` is the
 * largest cost that twin_admits() grants, found by halving; a wait is the first instant at which twin_admits() grants
 * the cost, found by doubling and halving. So one predicate, a sum over a list, carries everything, and it can be read
 * against the contract line by line.
 *
 * Invariants
 *  1. Events are in the order in which they were charged, and their instants never decrease (rule 4.6 raises them).
 *  2. A charge that was refunded to nothing stays in the list: it still holds the counter's clock.
 *  3. Nothing is ever forgotten except by twin_reset(). */
#ifndef TESTS_MODEL_TWIN_H
#define TESTS_MODEL_TWIN_H

#include "sluice.h"

__extension__ typedef __int128 twin_wide; /* products of cost, quota and nanoseconds; below 2^95 */

/* A limit as the test meant it, before the notation was printed and parsed. */
struct twin_rule {
	sluice_algorithm algorithm;
	sluice_edge edge;
	uint32_t quota;
	uint32_t burst; /* B of token-bucket, N of leaky-bucket; else 0 */
	uint64_t window_ns, precision_ns;
	uint32_t spread; /* windows: 0, or 1 and the phase at which they begin, in 131072ths of one */
};

struct twin_event {
	uint64_t at_ns;
	uint64_t cost; /* of a charge: what refunds have left of it, except in buckets, where they are events themselves */
	uint32_t rate; /* buckets: QUOTA of the rule that made this charge: from there on all drains at it (rule 4.7) */
	bool refund;   /* buckets only */
};

/* One counter. All zeroes is a counter that does not exist yet. */
struct twin {
	struct twin_event *events;
	size_t count, room;
};

/* What the twin says. Waits are whole multiples of the unit asked for, rounded up, saturating like the library's. */
struct twin_answer {
	bool allowed;
	bool next_is_beyond; /* `next` means nothing: remaining is at 4294967295 and can't be seen to grow */
	uint32_t remaining;
	uint64_t quota, retry, reset, delay, next;
};

enum { TWIN_MS = 1000000, TWIN_NS = 1 };

void twin_reset(struct twin *twin);

/* The instant at which a request stamped `now_ns` counts (rule 4.6). */
uint64_t twin_clock(const struct twin *twin, uint64_t now_ns);

/* The largest cost that the rule ever admits at once, as decisions report it. */
uint64_t twin_quota(const struct twin_rule *rule);

/* Section 3, column "admits when". `t` is not before the last charge. */
bool twin_admits(const struct twin *twin, const struct twin_rule *rule, twin_wide t, uint64_t cost);

/* The decision on `cost` without charging it; a wait counts from twin_clock(). */
struct twin_answer twin_peek(const struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost,
                             uint64_t unit_ns);

/* The same, the counter charged if it admits. */
struct twin_answer twin_charge(struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost,
                               uint64_t unit_ns);

/* Charges, asking nothing: for requests of several limits, decided elsewhere. */
void twin_add(struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost);

/* Takes back; answers as a peek of cost 0. */
struct twin_answer twin_refund(struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint32_t cost,
                               uint64_t unit_ns);

/* What is in the counter after a charge: remaining, reset and next, written into `answer`. */
void twin_outlook(const struct twin *twin, const struct twin_rule *rule, uint64_t now_ns, uint64_t unit_ns,
                  struct twin_answer *answer);

/* Rule 4.4: what a call of several limits is answered, by their answers in order. `decided` is set to the one that
 * decided, whose quota and `next` it has. */
struct twin_answer twin_merged(const struct twin_answer *answers, size_t count, bool allowed, size_t *decided);

/* A wait of a decision in whole units, rounded up; -1 for never. */
int64_t twin_units(uint64_t unit_ns, sluice_ns wait);

/* The first figure in which a decision on one limit differs from the twin's answer; NULL where none does. The index is
 * 0. `want_next`: whether next_after_ns was asked for. */
const char *twin_difference(const struct twin_answer *answer, const struct twin_rule *rule,
                            const struct sluice_decision *got, bool want_next, uint64_t unit_ns);

#endif
