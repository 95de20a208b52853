/* sluice bench: what a decision costs on this machine, linked into a program: no network, no server.
 *
 *   hot       one key, over and over: computing, and nothing else
 *   by one    a key at random of --keys, one call each: one miss of memory a decision
 *   batches   the same in calls of 16, whose misses overlap
 *
 * Figures are the median of rounds, every limit in every round, so that a machine's drift falls on all alike. Instants
 * go on by a microsecond a decision, as if traffic came at a million a second. What a server answers over a network is
 * bound by the network: bench_live.c drives one.
 *
 * --audit lets windows go by, untimed, with costs that ask for more than each quota, and has the auditor judge. */
#include "hosts/cli/bench.h"

#include "algo/traits.h"
#include "hosts/cli/audit.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	LIMITS_MAX = SL_BENCH_LIMITS_MAX,
	BATCH = 16,
	DECISIONS = 100000, /* timed at a time */
	KEYS_DEFAULT = 1000000,
	KEYS_MAX = 100000000,
	ROUNDS_DEFAULT = 5,
	ROUNDS_MAX = 100,
	KEY_BYTES = SL_BENCH_KEY_BYTES,
	STEP_NS = 1000,
	AUDIT_KEYS = 3,
	AUDIT_WINDOWS = 4, /* go by */
	LIVE_KEYS = 1000,
	LIVE_RATE = 1000,
	LIVE_CLIENTS = 8,
	LIVE_S = 10,
	SKEW_EVEN = 20,
	SKEW_MAX = 99,
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
	struct sl_bench_live live; /* what is asked of a server; and `audit` of both */
};
#define TO(field) offsetof(struct bench, field)
#define LONGEST_NS ((sluice_ns)3600 * 1000000000)
#define LONGEST "a duration such as 30s, up to 1h"

enum { LIMIT, KEYS, ROUNDS, AUDIT, RATE, DURATION, CLIENTS, BURST, THINK, SKEW, COST, SERVER, USER, TLS, CA };

static const struct sl_option options[] = {
	[LIMIT] = {"limit", 'l', "LIMIT",
               "a limit to measure; repeatable; by default one of each algorithm that counts\n"
               "requests. A server gets all of them in one call (100/10s)",
               SL_OWN},
	[KEYS] = {"keys", 0, "N", "number of keys, 1 to 100000000 (1000000; with --server 1000)",
              SL_NUMBER(TO(keys), 1, KEYS_MAX)},
	[ROUNDS] = {"rounds", 0, "N", "number of rounds; the median is reported, 1 to 100 (5)",
                SL_NUMBER(TO(rounds), 1, ROUNDS_MAX)},
	[AUDIT] = {"audit", 0, NULL,
               "audit what was admitted: the largest cost in any window next to the bound; exit\n"
               "status 1 if a bound is exceeded",
               SL_FLAG(TO(live.audit))},
	[RATE] = {"rate", 0, "N", "requests per second, all clients together (1000; with --think as many as they make)",
              SL_NUMBER(TO(live.rate), 1, 10000000)},
	[DURATION] = {"duration", 0, "TIME", "for how long (10s)", SL_TIME(TO(live.duration), 1, LONGEST_NS, LONGEST)},
	[CLIENTS] = {"clients", 0, "N", "number of connections, each of which waits for its answers, 1 to 256 (8)",
                 SL_NUMBER(TO(live.clients), 1, SL_BENCH_CLIENTS_MAX)},
	[BURST] = {"burst", 0, "N", "send N requests at once, at the same overall rate, 1 to 1000 (1)",
               SL_NUMBER(TO(live.burst), 1, SL_BENCH_BURST_MAX)},
	[THINK] = {"think", 0, "TIME", "how long a client waits between an answer and its next request (0s)",
               SL_TIME(TO(live.think), 0, LONGEST_NS, LONGEST)},
	[SKEW] = {"skew", 0, "PERCENT",
              "this share of the requests uses the first fifth of the keys, the same share of those\n"
              "the first fifth of that, and so on: 80 is strongly skewed, 20 is even, 20 to 99 (20)",
              SL_NUMBER(TO(live.skew), SKEW_EVEN, SKEW_MAX)},
	[COST] = {"cost", 0, "N", "what a request costs, 1 to 4294967295 (1)",
              SL_NUMBER(TO(live.cost), 1, UINT32_MAX)},
	[SERVER] = SL_CLIENT_OPTIONS(TO(live.server)),
};

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static uint64_t draw(struct bench *bench) {
	return sl_bench_draw(&bench->random);
}

/* A request of a key: whom `distinct` counts is drawn from an eighth more than there is room for; a lease is a new one.
 *  text  memory for a member or an id */
static void put_call(struct bench *bench, const struct sluice_limit *limit, struct sluice_bytes key, char *text,
                     struct sluice_item *item, struct sluice_call *call) {
	*item = (struct sluice_item){.limit = limit, .key = key};
	*call = (struct sluice_call){.items = item, .item_count = 1, .cost = 1, .now = bench->now};
	if (sl_rule_has(limit, SL_TAKES_MEMBER)) {
		item->member = sl_bench_key(text, draw(bench) % ((uint64_t)limit->quota + limit->quota / 8 + 1));
	} else if (sl_rule_has(limit, SL_TAKES_LEASE)) {
		call->operation = SLUICE_ACQUIRE;
		call->id = sl_bench_key(text, ++bench->leases);
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
	put_call(bench, &bench->limits[limit], sl_bench_key(batch->text[at], key), batch->names[at], &batch->items[at],
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

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* Decides for keys that nobody has used yet, and tells the auditor. False without memory. */
static bool audit_limit(struct bench *bench, struct sl_audit *audit, uint32_t position) {
	const struct sluice_limit *limit = &bench->limits[position];
	const uint32_t cost_max = limit->quota / (DECISIONS / 100) + 1;
	for (uint32_t i = 0; i < DECISIONS; i++) {
		char text[KEY_BYTES], name[KEY_BYTES];
		struct sluice_item item;
		struct sluice_call call;
		bench->now += limit->window_ns / DECISIONS * AUDIT_WINDOWS + 1;
		put_call(bench, limit, sl_bench_key(text, (uint64_t)KEYS_MAX + draw(bench) % AUDIT_KEYS), name, &item, &call);
		call.cost = sl_rule_has(limit, SL_HAS_SEATS) ? 1 : 1 + (uint32_t)(draw(bench) % cost_max);
		if (sluice_decide(bench->store, &call) != SLUICE_OK || !call.merged.allowed)
			continue;
		struct sl_audit_charge charge = {.position = position,
		                                 .limit = limit,
		                                 .key = item.key,
		                                 .member = item.member,
		                                 .cost = call.cost,
		                                 .since = call.now,
		                                 .now = call.now,
		                                 .until = SLUICE_NEVER};
		if (sl_rule_has(limit, SL_HAS_COUNTER) && !sl_audit_add(audit, &charge))
			return false;
	}
	return true;
}

/* As a verb ends: what it exits with. */
static int audit_all(const struct sl_verb *verb, struct bench *bench) {
	struct sl_audit *audit = sl_audit_open(bench->limit_count, SL_BENCH_AUDIT_BYTES_MAX, false);
	bool fine = audit != NULL;
	for (uint32_t limit = 0; fine && limit < bench->limit_count; limit++)
		fine = audit_limit(bench, audit, limit);
	int status = fine ? SL_EXIT_FINE : sl_cli_fail(verb, "no memory to audit in");
	if (fine) {
		sl_audit_print(audit, stdout, NULL, NULL);
		status = sl_audit_exceeded(audit) != 0 ? SL_EXIT_DENIED : SL_EXIT_FINE;
	}
	sl_audit_close(audit);
	return status;
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

static int run_here(const struct sl_verb *verb, struct bench *bench) {
	struct sluice_error error;
	if (bench->limit_count == 0 && !add_defaults(bench, &error))
		return sl_cli_fail(verb, "%s", error.text);
	if (open_store(bench, &error) != SLUICE_OK)
		return sl_cli_fail(verb, "%s", error.text);
	bench->now = sluice_store_now(bench->store);
	run_rounds(bench);
	print_table(bench);
	int status = bench->live.audit ? audit_all(verb, bench) : SL_EXIT_FINE;
	sluice_store_close(bench->store);
	return sl_cli_end(verb, status);
}

static int run_live(const struct sl_verb *verb, struct bench *bench) {
	struct sluice_error error;
	if (bench->limit_count == 0 && !add_limit(bench, "100/10s", &error))
		return sl_cli_fail(verb, "%s", error.text);
	for (uint32_t i = 0; i < bench->limit_count; i++)
		if (sl_rule_has(&bench->limits[i], SL_HAS_SEATS) || !sl_rule_has(&bench->limits[i], SL_HAS_COUNTER))
			return sl_cli_misuse(verb, "a server is driven by limits that count cost: leave out %s",
			                     sl_algorithm_word(bench->limits[i].algorithm));
	bench->live.limits = bench->limits;
	bench->live.limit_count = bench->limit_count;
	bench->live.keys = bench->keys;
	return sl_bench_live_run(verb, &bench->live);
}

/* What is for a server, and what is not. */
static int check_options(const struct sl_verb *verb, struct bench *bench, uint32_t given) {
	bool live = (given >> SERVER & 1) != 0;
	for (int i = RATE; i <= CA && !live; i++)
		if ((given >> i & 1) != 0)
			return sl_cli_misuse(verb, "--%s is for a server: give --server ADDR as well", options[i].name);
	if (live && (given >> ROUNDS & 1) != 0)
		return sl_cli_misuse(verb, "--rounds is for measuring here: a server is driven for a --duration");
	if (live && sl_client_check(verb, &bench->live.server) != SL_GO_ON)
		return SL_EXIT_FAILED;
	if (live && (given >> KEYS & 1) == 0)
		bench->keys = LIVE_KEYS;
	if ((given >> RATE & 1) == 0 && bench->live.think == 0)
		bench->live.rate = LIVE_RATE;
	return SL_GO_ON;
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
	bench->live = (struct sl_bench_live){.cost = 1,
	                                     .burst = 1,
	                                     .clients = LIVE_CLIENTS,
	                                     .skew = SKEW_EVEN,
	                                     .duration = (sluice_ns)LIVE_S * 1000000000};
	uint32_t given;
	int status = sl_cli_read(verb, argc, argv, bench, &given);
	if (status == SL_GO_ON)
		status = check_options(verb, bench, given);
	if (status == SL_GO_ON)
		status = bench->live.server.server != NULL ? run_live(verb, bench) : run_here(verb, bench);
	free(bench);
	return status;
}

const struct sl_verb sl_verb_bench = {
	.name = "bench",
	.usage = "bench [--limit LIMIT]... [--keys N] [--audit] [--server ADDR [--rate N] [OPTION]...]",
	.summary = "Measures what a decision costs on this machine, or drives a server",
	.text = "In the program's own memory, without a network: one hot key; keys at random, one by one; the same in\n"
			"batches of 16. Takes some seconds, and 128 bytes of memory for each key and limit.\n"
			"With --server it sends SLUICE.CHECK for the keys bench:00000000000000 and on to a running server, on a\n"
			"timetable that does not wait for answers; latency counts from when a request was due.\n"
			"Exit status: 0 fine, 1 if --audit found a bound exceeded, 2 if something could not be done.\n",
	.examples = "  sluice bench\n"
				"  sluice bench --limit 'sliding-log 100/1m' --limit 100/1m --keys 10000\n"
				"  sluice bench --server 127.0.0.1:7379 --limit 'sliding-log 50/2s' --keys 20 --skew 80 --audit\n"
				"  sluice bench --server 127.0.0.1:7379 --rate 5000 --burst 100 --duration 1m --audit\n"
				"  sluice bench --server 127.0.0.1:7379 --clients 64 --think 50ms\n",
	SL_OPTIONS(options),
	.take = take_limit,
	.no_word = " is one word too many; a limit is given by --limit",
	.run = run_bench,
};
