/* Every history of some calls in a small world: all words of so many letters, where a letter is a call with its cost,
 * wait and key, and what each call answers is compared with a model.
 *
 * Histories that lead to the same place are followed once. A place is all that a next call can depend on: the instant,
 * what the model has, and the bytes that the store has for the counters: states, lifetimes and blocks, less the numbers
 * of those. So the count of histories is exact, though most are not played to their end one by one. Two places are the
 * same if their fingerprints of 128 bits are. */
#ifndef TESTS_MODEL_HISTORIES_H
#define TESTS_MODEL_HISTORIES_H

#include "sluice.h"

#include <stddef.h>

enum { HISTORIES_CALLS_MAX = 6 };

/* What every place begins with. */
struct history {
	uint64_t seen[2];                    /* the fingerprint of the place */
	double count;                        /* histories that lead here; exact up to 2^53 */
	uint16_t calls[HISTORIES_CALLS_MAX]; /* the letters of one of them */
	uint8_t depth;                       /* how many */
};

/* A world, and how it is explored. */
struct histories {
	const void *world;
	size_t place_bytes, letters; /* a place begins with its history, and has no pointers */
	uint32_t calls;              /* 1..HISTORIES_CALLS_MAX */
	bool (*follows)(const void *world, const void *place, size_t letter); /* whether it may; NULL: each may */
	/* Plays the history of `from` and the letter, compares, and makes of `to`, a copy of `from` whose history has the
	 * letter, the place where it leads: `seen`, and what stands behind the history. */
	void (*step)(const void *world, const void *from, size_t letter, void *to);
};

struct totals {
	double histories;
	uint64_t calls, places;
};

/* Explores from `count` places on, whose histories are empty. Histories of fewer calls count as well. */
struct totals histories_explore(const struct histories *all, const void *starts, size_t count);

void totals_add(struct totals *sum, const struct totals *more);

/* Prints them as a line of figures that runs keep. */
void totals_print(const struct totals *totals, const char *what, const char *of);

/* Mixes a word into a fingerprint. */
void histories_mix(uint64_t seen[2], uint64_t word);

/* Mixes all of a page of a store. */
void histories_see(struct sluice_store *store, uint64_t page, sluice_ns now, uint64_t seen[2]);

/* The first page with a counter; there has to be one. */
uint64_t histories_page(struct sluice_store *store, sluice_ns now);

#endif
