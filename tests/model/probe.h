/* One key under one limit in a store of its own: what tests of a single counter say over and over. */
#ifndef TESTS_MODEL_PROBE_H
#define TESTS_MODEL_PROBE_H

#include "tests/model/dice.h"

struct probe {
	struct sluice_store *store;
	struct sluice_limit limit;
	struct twin_rule rule; /* as probe_of() was given it */
	char key[64];
};

/* Opens a store of 1 MiB with one limit; aborts when it can't. Close it with probe_close(). */
struct probe probe_of(const struct twin_rule *rule);
struct probe probe_of_text(const char *notation);
void probe_close(struct probe *probe);

/* From here on another key is asked for: a counter that does not exist. */
void probe_next_key(struct probe *probe);

/* One request; aborts on an error. next_after_ns is filled. */
struct sluice_decision probe_do(const struct probe *probe, sluice_operation operation, uint64_t now_ns, uint32_t cost);

static inline struct sluice_decision probe_charge(const struct probe *probe, uint64_t now_ns, uint32_t cost) {
	return probe_do(probe, SLUICE_CHARGE, now_ns, cost);
}

static inline struct sluice_decision probe_peek(const struct probe *probe, uint64_t now_ns, uint32_t cost) {
	return probe_do(probe, SLUICE_PEEK, now_ns, cost);
}

/* Brings a counter into some state by up to `most` random charges and refunds from `now` on, `unit_ns` apart or
 * multiples of it. Returns the last instant. */
uint64_t probe_stir(const struct probe *probe, struct dice *dice, uint64_t now_ns, uint64_t unit_ns, size_t most);

/* The algorithms with their edges, for tests that take each in turn. */
enum { KINDS = 8 };
extern const struct kind {
	const char *name;
	sluice_algorithm algorithm;
	sluice_edge edge;
	bool keeps_ns; /* decided and reported to the nanosecond; the others promise whole milliseconds */
} kinds[KINDS];

/* A rule of small worlds: sub-buckets of two instants each where that may be, so that an edge has a weight; buckets
 * that hold `quota`. */
struct twin_rule kind_rule(const struct kind *kind, uint32_t window_ms, uint32_t quota);

#endif
