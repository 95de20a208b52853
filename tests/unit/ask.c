/* Asking a small store; see ask.h. */
#include "tests/unit/ask.h"

#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

struct sluice_store *ask_store(uint64_t mib) {
	struct sluice_store_options options = {.memory_bytes = mib << 20};
	struct sluice_store *store;
	if (sluice_store_open(&store, &options, NULL) != SLUICE_OK)
		abort();
	return store;
}

int ask_open(void **state) {
	*state = ask_store(2);
	return 0;
}

int ask_close(void **state) {
	const char *wrong = sluice_store_verify(*state);
	sluice_store_close(*state);
	if (wrong != NULL)
		fprintf(stderr, "%s\n", wrong);
	return wrong == NULL ? 0 : -1;
}

struct sluice_limit ask_limit(const char *notation) {
	struct sluice_limit limit;
	if (sluice_limit_parse(&limit, sl_str(notation), NULL) != SLUICE_OK) {
		fprintf(stderr, "%s\n", notation);
		abort();
	}
	return limit;
}

struct asked ask(struct sluice_store *store, const struct ask *ask) {
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct asked asked = {.err = SLUICE_OK};
	struct sluice_call call = {.items = items,
	                           .cost = ask->cost,
	                           .operation = ask->operation,
	                           .now = (ASK_START_MS + ask->at_ms) * ASK_MS,
	                           .id = ask->id != NULL ? sl_str(ask->id) : sl_slice(NULL, 0),
	                           .ttl_ns = ask->ttl_ms * ASK_MS,
	                           .upto = ask->upto,
	                           .want_next = ask->want_next,
	                           .each = asked.each};
	for (uint32_t i = 0; i < SLUICE_ITEMS_MAX && ask->lines[i].limit != NULL; i++) {
		const struct ask_line *line = &ask->lines[i];
		limits[i] = ask_limit(line->limit);
		items[i] = (struct sluice_item){.limit = &limits[i],
		                                .key = sl_str(line->key != NULL ? line->key : "k"),
		                                .observed = line->observed,
		                                .cost = line->cost,
		                                .member = line->member != NULL ? sl_str(line->member) : sl_slice(NULL, 0),
		                                .terms = line->terms,
		                                .ttl_ns = line->ttl_ms * ASK_MS};
		call.item_count = i + 1;
	}
	if (sluice_decide(store, &call) != call.err)
		abort();
	asked.err = call.err;
	asked.d = call.merged;
	asked.found = call.found;
	asked.granted = call.granted;
	asked.forgotten = call.forgotten;
	asked.penalized = call.penalized;
	asked.repeated = call.repeated;
	return asked;
}

struct sluice_decision ask_peek(struct sluice_store *store, uint64_t at_ms, const char *limit) {
	struct asked asked = ASK(store, SLUICE_PEEK, at_ms, 1, .lines = {{limit}});
	if (asked.err != SLUICE_OK)
		abort();
	return asked.d;
}

struct asked ask_quietly(struct sluice_store *store, const struct ask *what) {
	size_t bytes;
	const void *arena = sl_store_arena(store, &bytes);
	void *copy = malloc(bytes);
	struct asked asked;
	if (copy == NULL)
		abort();
	memcpy(copy, arena, bytes);
	asked = ask(store, what);
	if (memcmp(copy, arena, bytes) != 0) {
		fprintf(stderr, "a call that should have changed nothing changed the arena\n");
		abort();
	}
	free(copy);
	return asked;
}
