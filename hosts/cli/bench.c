/* sluice bench: what a decision costs on this machine, linked into a program: no network, no server.
 *
 *   hot       one key, over and over: computing, and nothing else
 *   by one    a key at random of --keys, one call each: one miss of memory a decision
 *   batches   the same in calls of 16, whose misses overlap
 *
 * Figures are the median of rounds, every limit in every round, so that a machine's drift falls on all alike. Instants
 * go on by a microsecond a decision, as if traffic came at a million a second. What a server answers over a network is
 * bound by the network: measure that with the client that will use it. */
#include "algo/traits.h"
#include "hosts/cli/cli.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	LIMITS_MAX = 16,
	BATCH = 16,
	DECISIONS = 100000, /* timed at a time */
	KEYS_DEFAULT = 1000000,
	KEYS_MAX = 100000000,
	ROUNDS_DEFAULT = 5,
	ROUNDS_MAX = 100,
	KEY_BYTES = 20,
	STEP_NS = 1000,
};
enum { HOT, BY_ONE, BATCHES, WAYS };

/* What is measured of an algorithm unless limits are given, if it is not this quota of it. */
static const char quota[] = " 1M/1m";
static const char *const others[] = {"sliding-buckets 1M/1m precision 1s", "sliding-log 10/10s"};

struct bench {
	struct sluice_store *store;
	struct sluice_limit limits[LIMITS_MAX];
	uint32_t limit_count;
	uint32_t keys, rounds;
	uint64_t random, leases;
	sluice_ns now;
	double ns[LIMITS_MAX][WAYS][ROUNDS_MAX];
	uint64_t allowed[LIMITS_MAX], decided[LIMITS_MAX];
};

static const struct sl_option options[] = {
	{"limit", 'l', "LIMIT", "what to measure; may be given several times; one of each algorithm of requests otherwise",
     SL_OWN},
	{"keys", 0, "N", "how many keys there are, 1 to 100000000 (1000000)",
     SL_NUMBER(offsetof(struct bench, keys), 1, KEYS_MAX)},
	{"rounds", 0, "N", "rounds of which the median is told, 1 to 100 (5)",
     SL_NUMBER(offsetof(struct bench, rounds), 1, ROUNDS_MAX)},
};

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* xorshift64*: which key comes next. */
static uint64_t draw(struct bench *bench) {
	bench->random ^= bench->random >> 12;
	bench->random ^= bench->random << 25;
	bench->random ^= bench->random >> 27;
	return bench->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* A key such as "bench:00000000000042": twenty bytes, the length of many a user's id. */
static struct sluice_bytes put_key(char text[KEY_BYTES], uint64_t number) {
	memcpy(text, "bench:", 6);
	for (int i = KEY_BYTES - 1; i >= 6; i--, number /= 10)
		text[i] = (char)('0' + number % 10);
	return sl_slice(text, KEY_BYTES);
}

/* A request of a key: whom `distinct` counts is drawn from an eighth more than there is room for; a lease is a new one.
 *  text  memory for a member or an id */
static void put_call(struct bench *bench, const struct sluice_limit *limit, struct sluice_bytes key, char *text,
                     struct sluice_item *item, struct sluice_call *call) {
	*item = (struct sluice_item){.limit = limit, .key = key};
	*call = (struct sluice_call){.items = item, .item_count = 1, .cost = 1, .now = bench->now};
	if (sl_rule_has(limit, SL_TAKES_MEMBER)) {
		item->member = put_key(text, draw(bench) % ((uint64_t)limit->quota + limit->quota / 8 + 1));
	} else if (sl_rule_has(limit, SL_TAKES_LEASE)) {
		call->operation = SLUICE_ACQUIRE;
		call->id = put_key(text, ++bench->leases);
	}
}

/* Decides one batch of calls, whose keys are already there. */
static void decide(struct bench *bench, struct sluice_call *calls, uint32_t count, uint32_t limit) {
	if (count == 1)
		(void)!sluice_decide(bench->store, calls); /* call->err says the same */
	else
		sluice_decide_many(bench->store, calls, count);
	for (uint32_t i = 0; i < count; i++)
		bench->allowed[limit] += calls[i].err == SLUICE_OK && calls[i].merged.allowed;
	bench->decided[limit] += count;
}

/* Calls for keys, each with memory for what it points to. */
struct bench_batch {
	char text[BATCH][KEY_BYTES], names[BATCH][KEY_BYTES];
	struct sluice_item items[BATCH];
	struct sluice_call calls[BATCH];
};

static void put_at(struct bench *bench, struct bench_batch *batch, uint32_t limit, uint32_t at, uint64_t key) {
	put_call(bench, &bench->limits[limit], put_key(batch->text[at], key), batch->names[at], &batch->items[at],
	         &batch->calls[at]);
}

/* ns of a decision. Making the keys is timed too, and taken off again by timing it alone. */
static double measure(struct bench *bench, uint32_t limit, int way, bool decides) {
	struct bench_batch batch;
	uint32_t count = way == BATCHES ? BATCH : 1;
	volatile char sink = 0;
	sluice_ns start = sl_clock_monotonic();
	for (uint32_t done = 0; done < DECISIONS; done += count) {
		for (uint32_t i = 0; i < count; i++) {
			bench->now += STEP_NS;
			put_at(bench, &batch, limit, i, way == HOT ? 0 : draw(bench) % bench->keys);
		}
		if (decides)
			decide(bench, batch.calls, count, limit);
		else
			sink = batch.text[0][KEY_BYTES - 1];
	}
	(void)sink;
	return (double)(sl_clock_monotonic() - start) / DECISIONS;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, uint32_t count) {
	qsort(values, count, sizeof *values, by_value);
	return values[count / 2];
}

/* Every key once, so that none is new when it is timed. */
static void fill(struct bench *bench, uint32_t limit) {
	struct bench_batch batch;
	for (uint64_t key = 0; key < bench->keys; key += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++)
			put_at(bench, &batch, limit, i, key + i);
		sluice_decide_many(bench->store, batch.calls, BATCH);
	}
}

static void run_rounds(struct bench *bench) {
	for (uint32_t limit = 0; limit < bench->limit_count; limit++)
		fill(bench, limit);
	for (uint32_t round = 0; round < bench->rounds; round++)
		for (uint32_t limit = 0; limit < bench->limit_count; limit++)
			for (int way = 0; way < WAYS; way++) {
				double keys = measure(bench, limit, way, false);
				double all = measure(bench, limit, way, true);
				bench->ns[limit][way][round] = all > keys ? all - keys : 0;
			}
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

static void print_table(struct bench *bench) {
	printf("%-54s %8s %10s %10s %8s\n", "ns a decision", "hot key", "by one", "batches", "allowed");
	for (uint32_t limit = 0; limit < bench->limit_count; limit++) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		sluice_limit_print(&bench->limits[limit], text);
		printf("%-54s", text);
		for (int way = 0; way < WAYS; way++)
			printf(" %*.0f", way == HOT ? 8 : 10, median(bench->ns[limit][way], bench->rounds));
		printf(" %6.0f %%\n", 100.0 * (double)bench->allowed[limit] / (double)bench->decided[limit]);
	}
	printf("\n%u keys of %d bytes, batches of %d; medians of %u rounds of %d decisions\n", bench->keys, KEY_BYTES,
	       BATCH, bench->rounds, DECISIONS);
}

/* Room for every limit's keys at a fill where the store performs, and for what logs and sub-buckets keep. */
static sluice_err open_store(struct bench *bench, struct sluice_error *error) {
	struct sluice_store_options store = {.blocks_percent = 50};
	store.memory_bytes = ((uint64_t)64 << 20) + (uint64_t)bench->keys * bench->limit_count * 128;
	return sluice_store_open(&bench->store, &store, error);
}

static bool add_limit(struct bench *bench, const char *text, struct sluice_error *error) {
	return sluice_limit_parse(&bench->limits[bench->limit_count], sl_str(text), error) == SLUICE_OK &&
	       ++bench->limit_count != 0;
}

static bool add_algorithm(struct bench *bench, const char *word, struct sluice_error *error) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	size_t len = strlen(word);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strncmp(others[i], word, len) == 0 && others[i][len] == ' ')
			return add_limit(bench, others[i], error);
	(void)snprintf(text, sizeof text, "%s%s", word, quota);
	return add_limit(bench, text, error);
}

/* One of each algorithm of requests. */
static bool add_defaults(struct bench *bench, struct sluice_error *error) {
	for (uint32_t i = 0; i < LIMITS_MAX; i++)
		if (sl_algorithm_has(i, SL_COUNTS_COST) && !add_algorithm(bench, sl_algorithm_word(i), error))
			return false;
	return true;
}

static int run(const struct sl_verb *verb, struct bench *bench) {
	struct sluice_error error;
	if (bench->limit_count == 0 && !add_defaults(bench, &error))
		return sl_cli_fail(verb, "%s", error.text);
	if (open_store(bench, &error) != SLUICE_OK)
		return sl_cli_fail(verb, "%s", error.text);
	bench->now = sluice_store_now(bench->store);
	run_rounds(bench);
	sluice_store_close(bench->store);
	print_table(bench);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

static int take_limit(const struct sl_verb *verb, void *to, int option, const char *text) {
	struct bench *bench = to;
	struct sluice_error error;
	(void)option;
	if (bench->limit_count == LIMITS_MAX)
		return sl_cli_misuse(verb, "at most %d limits are measured at a time", LIMITS_MAX);
	if (!add_limit(bench, text, &error))
		return sl_cli_misuse(verb, "--limit '%.64s', column %u: %s", text, error.column, error.text);
	return SL_GO_ON;
}

static int run_bench(const struct sl_verb *verb, int argc, char **argv) {
	struct bench *bench = calloc(1, sizeof *bench);
	if (bench == NULL)
		return sl_cli_fail(verb, "out of memory");
	bench->keys = KEYS_DEFAULT;
	bench->rounds = ROUNDS_DEFAULT;
	bench->random = UINT64_C(0x9e3779b97f4a7c15);
	int status = sl_cli_read(verb, argc, argv, bench, NULL);
	if (status == SL_GO_ON)
		status = run(verb, bench);
	free(bench);
	return status;
}

const struct sl_verb sl_verb_bench = {
	.name = "bench",
	.usage = "bench [--limit LIMIT]... [--keys N] [--rounds N]",
	.summary = "Measures what a decision costs on this machine",
	.text = "In the program's own memory, without a network: one hot key; keys at random, one by one; the same in\n"
			"batches of 16. Takes some seconds, and 128 bytes of memory for each key and limit.\n",
	.examples = "  sluice bench\n"
				"  sluice bench --limit 'sliding-log 100/1m' --limit 100/1m --keys 10000\n",
	SL_OPTIONS(options),
	.take = take_limit,
	.no_word = " is one word too many; a limit is given by --limit",
	.run = run_bench,
};
