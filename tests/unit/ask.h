/* Asking a small store, as the tables of the tests of leases, reservations, terms and retries write it. */
#ifndef TESTS_UNIT_ASK_H
#define TESTS_UNIT_ASK_H

#include "base/bytes.h"

/* Rows of tables leave out what they do not ask for. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum { ASK_MS = 1000000 };
#define ASK_START_MS ((uint64_t)1767225600000) /* 2026-01-01: a multiple of every window up to a day */

/* A limit of a request: its notation; the key, "k" where none is said. */
struct ask_line {
	const char *limit, *key, *member;
	uint8_t observed;
	uint32_t cost;
	uint64_t ttl_ms;
	const struct sluice_terms *terms;
};

struct ask {
	sluice_operation operation;
	uint64_t at_ms; /* behind ASK_START_MS */
	uint32_t cost;
	const char *id;
	uint64_t ttl_ms;
	bool upto, want_next;
	struct ask_line lines[SLUICE_ITEMS_MAX];
};

struct asked {
	sluice_err err;
	struct sluice_decision d, each[SLUICE_ITEMS_MAX];
	uint32_t found, granted, forgotten;
	uint16_t penalized;
	bool repeated;
};

/* A store of so many MiB; aborts when there is none. */
struct sluice_store *ask_store(uint64_t mib);

/* For cmocka, before and after a test: a store of 2 MiB as *state, which has to be whole when it is closed. */
int ask_open(void **state);
int ask_close(void **state);

/* A limit of this notation; aborts when there is none. */
struct sluice_limit ask_limit(const char *notation);

/* Makes the call; its limits are those lines that name one. */
struct asked ask(struct sluice_store *store, const struct ask *ask);

/* The same as a peek of cost 1 of one line, at an instant. */
struct sluice_decision ask_peek(struct sluice_store *store, uint64_t at_ms, const char *limit);

/* Fails the test unless the call changes no byte of the arena. */
struct asked ask_quietly(struct sluice_store *store, const struct ask *ask);

#define ASK(store, ...) ask(store, &(struct ask){__VA_ARGS__})

#endif
