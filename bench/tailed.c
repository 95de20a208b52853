/* tailed: what following decisions costs whoever decides, for what counts instructions:
 *
 *     valgrind --tool=callgrind --toggle-collect='measure_*' tailed WHO
 *
 * WHO is `nothing` (a door that knows no readers), `nobody` (there could be some), `one` (reads all), `denied` (reads
 * what is denied, which is nothing), `key` (reads a key that never comes), `hundred` (read all), or `filters` (128 read
 * a key each). ROUNDS batches of 64 SLUICE.CHECKs go through the RESP door, a key each, at 500,000 a second of the
 * clock that it is given, so that ticks come as often as they would. Prints how many were decided and written. */
#include "bench/bench.h"

#include "hosts/server/door/door.h"
#include "hosts/server/door/tailing.h"

enum { BATCH = 64, ROUNDS = 1000, KEYS = 4096 };

#define EACH_NS 2000 /* 500,000 a second */

static struct sl_door_context context;
static struct sl_shared shared;
static struct sl_buffer out;
static void *state;
static char batches[KEYS / BATCH][BATCH * 80];
static size_t lengths[KEYS / BATCH];

__attribute__((noinline)) static void measure_feed(uint32_t which) {
	size_t consumed;
	out.len = 0;
	if (sl_door_resp.feed(state, &context, batches[which], lengths[which], &consumed, &out) != SL_DOOR_OPEN ||
	    consumed != lengths[which])
		exit(3);
}

static void fill(void) {
	for (uint32_t key = 0; key < KEYS; key++) {
		char *batch = batches[key / BATCH];
		size_t *len = &lengths[key / BATCH];
		*len += (size_t)snprintf(batch + *len, sizeof batches[0] - *len,
		                         "*4\r\n$12\r\nSLUICE.CHECK\r\n$9\r\nuser:%04u\r\n$1\r\n1\r\n$9\r\n100000/1m\r\n", key);
	}
}

static void join(const char *key, bool denied) {
	struct sl_tail_filter filter;
	struct sl_tail_reader *reader;
	sl_tail_filter_begin(&filter);
	filter.denied = denied;
	if ((key != NULL && !sl_tail_filter_key(&filter, sl_str(key))) ||
	    sl_tail_join(shared.tail, &filter, &reader) != SL_TAIL_JOINED)
		exit(4);
}

static void join_all(const char *who) {
	char key[16];
	if (strcmp(who, "one") == 0)
		join(NULL, false);
	else if (strcmp(who, "denied") == 0)
		join(NULL, true);
	else if (strcmp(who, "key") == 0)
		join("user:none", false);
	for (int i = 0; i < 100 && strcmp(who, "hundred") == 0; i++)
		join(NULL, false);
	for (int i = 0; i < SL_TAIL_READERS_MAX && strcmp(who, "filters") == 0; i++) {
		snprintf(key, sizeof key, "user:x%03d", i);
		join(key, false);
	}
}

int main(int argc, char **argv) {
	const struct sluice_store_options options = {.memory_bytes = (uint64_t)16 << 20};
	struct sluice_policy *policy = NULL;
	if (argc != 2 || sluice_policy_load(&policy, sl_str("limits: []"), NULL) != SLUICE_OK ||
	    sluice_store_open(&context.store, &options, NULL) != SLUICE_OK) {
		fprintf(stderr, "usage: tailed nothing|nobody|one|denied|key|hundred|filters\n");
		return 2;
	}
	shared.tail = sl_tail_new(1);
	shared.stats = sl_stats_new(1);
	context.shared = &shared;
	context.stats = sl_stats_worker(shared.stats, 0);
	context.top = sl_top_new();
	context.policy = policy;
	context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	context.now = UINT64_C(1800000000000000000);
	context.tail = strcmp(argv[1], "nothing") == 0 ? NULL : sl_tail_source(shared.tail, 0);
	state = sl_door_resp.open(&context);
	fill();
	join_all(argv[1]);
	for (uint32_t i = 0; i < KEYS / BATCH; i++) { /* the counters are there */
		measure_feed(i);
		context.now += (sluice_ns)BATCH * EACH_NS;
	}
	uint64_t begun = sl_tail_ring_end(sl_tail_ring(shared.tail, 0));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		measure_feed(i % (KEYS / BATCH));
		context.now += (sluice_ns)BATCH * EACH_NS;
	}
	printf("decided %d wrote %llu words\n", ROUNDS * BATCH,
	       (unsigned long long)(sl_tail_ring_end(sl_tail_ring(shared.tail, 0)) - begun));
	return 0;
}
