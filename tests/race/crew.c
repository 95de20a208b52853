/* Threads that start together; see crew.h. */
#include "tests/race/crew.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct member {
	struct crew *crew;
	uint32_t index;
	void (*work)(struct crew *, uint32_t);
};

static void *start(void *argument) {
	struct member *member = argument;
	crew_wait(member->crew);
	member->work(member->crew, member->index);
	return NULL;
}

void crew_run(struct crew *crew, uint32_t count, void (*work)(struct crew *, uint32_t index)) {
	struct member members[CREW_MAX];
	pthread_t threads[CREW_MAX];
	if (count > CREW_MAX || pthread_barrier_init(&crew->barrier, NULL, count) != 0)
		abort();
	alarm(CREW_SECONDS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		members[i] = (struct member){crew, i, work};
		if (pthread_create(&threads[i], NULL, start, &members[i]) != 0)
			abort();
	}
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	alarm(0);
	pthread_barrier_destroy(&crew->barrier);
}

struct sluice_store *crew_store(uint64_t mib) {
	struct sluice_store_options options = {.memory_bytes = mib << 20};
	struct sluice_store *store;
	if (sluice_store_open(&store, &options, NULL) != SLUICE_OK)
		abort();
	return store;
}

struct sluice_limit crew_limit(const char *notation) {
	struct sluice_limit limit;
	if (sluice_limit_parse(&limit, sl_str(notation), NULL) != SLUICE_OK) {
		fprintf(stderr, "%s\n", notation);
		abort();
	}
	return limit;
}

void crew_wait(struct crew *crew) {
	pthread_barrier_wait(&crew->barrier);
}

bool crew_charge(struct crew *crew, const struct sluice_limit *limit, const char *key, uint64_t now_ns, uint32_t cost) {
	struct sluice_item item = {.limit = limit, .key = sl_str(key)};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .now = now_ns};
	if (sluice_decide(crew->store, &call) != SLUICE_OK) {
		crew_add(&crew->errors, 1);
		return false;
	}
	if (call.merged.allowed)
		crew_add(&crew->admitted, cost);
	return call.merged.allowed;
}

uint32_t crew_remaining(struct crew *crew, const struct sluice_limit *limit, const char *key, uint64_t now_ns) {
	struct sluice_item item = {.limit = limit, .key = sl_str(key)};
	struct sluice_call call = {.items = &item, .item_count = 1, .operation = SLUICE_PEEK, .now = now_ns};
	if (sluice_decide(crew->store, &call) != SLUICE_OK)
		abort();
	return call.merged.remaining;
}
