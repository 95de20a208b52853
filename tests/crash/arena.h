/* Arenas in memory, without processes and files: what the tests of death and damage begin with.
 *
 * A handle has an owner word of the test's choice, and takes every other owner for dead: so a lock that is found held
 * is one that a dying call has left behind, and has to be recovered at once. */
#ifndef TESTS_CRASH_ARENA_H
#define TESTS_CRASH_ARENA_H

#include "algo/step.h"
#include "store/slot.h"

enum {
	ARENA_BYTES = SL_ARENA_BYTES_MIN,
	ARENA_VICTIM = 1 << SL_OWNER_ROW_SHIFT | 1, /* owners */
	ARENA_SECOND = 2 << SL_OWNER_ROW_SHIFT | 1,
	ARENA_SURVIVOR = 127 << SL_OWNER_ROW_SHIFT | SL_OWNER_GENERATION_MASK, /* no process of a test ever has it */
};

#define ARENA_MS ((sluice_ns)SL_MS_NS)
#define ARENA_S (1000 * ARENA_MS)
#define ARENA_START_NS ((sluice_ns)1767225600 * ARENA_S) /* 2026-01-01: a multiple of every window up to a day */

/* ARENA_BYTES of zeros, page-aligned, that children of fork() share. Aborts when there are none. */
void *arena_map(void);

/* Formats ARENA_BYTES as an empty arena with the secret of a seed. */
void arena_format(void *memory, uint64_t seed);

/* Fills a handle. */
void arena_attach(struct sluice_store *store, void *memory, uint32_t owner);

/* A limit of this notation; aborts when there is none. */
struct sluice_limit arena_limit(const char *notation);

/* One call with one limit. Returns its error. */
sluice_err arena_call(struct sluice_store *store, sluice_operation operation, const struct sluice_limit *limit,
                      const char *key, uint32_t cost, sluice_ns now, struct sluice_decision *decision);

/* Where the counter of a key lives, or would; its number of page and of bucket. */
struct sl_place arena_place(const struct sluice_store *store, const struct sluice_limit *limit, const char *key);
uint64_t arena_page(const struct sluice_store *store, const struct sl_place *place);
uint64_t arena_bucket(const struct sl_place *place);

/* Takes and gives back every lock there is, so that whatever dead owners left behind is recovered. */
void arena_settle(struct sluice_store *store);

/* Units of blocks that are free or that a counter has: the same for the life of an arena, or some are lost. */
uint64_t arena_units(const struct sluice_store *store);

/* What is wrong with a settled arena that began with so many units; NULL for nothing. */
const char *arena_problem(const struct sluice_store *store, uint64_t units);

/* Nanoseconds of CLOCK_MONOTONIC, for measuring. */
uint64_t arena_clock_ns(void);

/* Seconds that a test may take, from SLUICE_SECONDS; 0 where that isn't set: the short version is asked for. */
uint64_t arena_seconds(void);

#endif
