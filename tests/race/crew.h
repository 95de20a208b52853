/* Threads that start together and are waited for: what every race test begins and ends with. */
#ifndef TESTS_RACE_CREW_H
#define TESTS_RACE_CREW_H

#include "sluice.h"

#include <pthread.h>

enum {
	CREW = 8,
	CREW_MAX = 64,
	CREW_SECONDS_MAX = 300, /* a test that takes longer hangs: the process is ended by SIGALRM */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	CREW_SLOWNESS = 20, /* tests do that many times less */
#else
	CREW_SLOWNESS = 1,
#endif
};

#define CREW_START_NS ((uint64_t)1767225600000 * 1000000) /* 2026-01-01: a multiple of every window up to a day */

/* What the threads of one run share. */
struct crew {
	struct sluice_store *store;
	const struct sluice_limit *limits;
	uint32_t limit_count;
	uint64_t now_ns;   /* the instant, or its beginning */
	uint64_t attempts; /* of each thread */
	pthread_barrier_t barrier;
	uint64_t clock;    /* atomic; what it counts is the test's */
	uint64_t admitted; /* atomic */
	uint64_t errors;   /* atomic: calls that did not return SLUICE_OK */
	void *more;
};

/* Runs work(crew, index) in `count` threads at once, index 0..count-1, and returns when all have. */
void crew_run(struct crew *crew, uint32_t count, void (*work)(struct crew *, uint32_t index));

/* A store of so many MiB; a limit of this notation; both abort when they can't be had. */
struct sluice_store *crew_store(uint64_t mib);
struct sluice_limit crew_limit(const char *notation);

/* Waits for the others of the run. */
void crew_wait(struct crew *crew);

/* One charge of one key; adds to crew->admitted or crew->errors. Returns whether it was admitted. */
bool crew_charge(struct crew *crew, const struct sluice_limit *limit, const char *key, uint64_t now_ns, uint32_t cost);

/* What is left of a key, asked quietly. */
uint32_t crew_remaining(struct crew *crew, const struct sluice_limit *limit, const char *key, uint64_t now_ns);

static inline uint64_t crew_add(uint64_t *counter, uint64_t n) {
	return __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

#endif
