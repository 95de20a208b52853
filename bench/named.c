/* named: what leases, members and reservations cost inside a process, through include/sluice.h alone: ns of CPU time
 * an operation, and bytes each.
 *
 * Each case is one key: a store with one counter that already holds so many, and a loop of operations by name over it.
 * Instants are passed in and advance by a fixed step, so that new members slide out as fast as they come in. Every case
 * checks what was answered: a fast wrong answer must not become a number. */
#include "bench/traffic.h"

enum { CASES = 15, OPERATIONS = 20000 };

enum what { ACQUIRE_RELEASE, RENEW, KNOWN, NEW, DENIED, RESERVE_COMMIT };

static struct bench_case {
	const char *title, *limit;
	enum what what;
	uint64_t held; /* before anything is timed */
	double step_ns;
	struct sluice_limit parsed;
	struct sluice_store *store;
	uint64_t now_ns, steps, names; /* names 0..names-1 were given; the last `held` of them are inside */
	double bytes;
	struct bench_sample ns;
} cases[CASES] = {
	{.title = "acquire and release, 10 held", .limit = "concurrency 20 lease 1h", .held = 10, .step_ns = 1000},
	{.title = "acquire and release, 100 held", .limit = "concurrency 200 lease 1h", .held = 100, .step_ns = 1000},
	{.title = "acquire and release, 1000 held", .limit = "concurrency 2k lease 1h", .held = 1000, .step_ns = 1000},
	{.title = "renew, 100 held", .limit = "concurrency 200 lease 1h", .what = RENEW, .held = 100, .step_ns = 1000},
	{.title = "member known, 50 counted", .limit = "distinct 50/1h", .what = KNOWN, .held = 50, .step_ns = 1000},
	{.title = "member known, 1000 counted", .limit = "distinct 1k/1h", .what = KNOWN, .held = 1000, .step_ns = 1000},
	{.title = "member new, 900 counted", .limit = "distinct 1k/1h", .what = NEW, .held = 900, .step_ns = 4e9},
	{.title = "stranger denied, 1000 counted",
     .limit = "distinct 1k/1h",
     .what = DENIED,
     .held = 1000,
     .step_ns = 1000},
	{.title = "member known, 50000 estimated",
     .limit = "distinct 1M/1h",
     .what = KNOWN,
     .held = 50000,
     .step_ns = 1000},
	{.title = "member new, 50000 estimated", .limit = "distinct 1M/1h", .what = NEW, .held = 50000, .step_ns = 72e6},
	{.title = "stranger denied, 50000 estimated",
     .limit = "distinct 50k/1h",
     .what = DENIED,
     .held = 60000,
     .step_ns = 60e6},
	{.title = "reserve and commit, token-bucket, 10 open",
     .limit = "token-bucket 1M/1s burst 1G",
     .what = RESERVE_COMMIT,
     .held = 10,
     .step_ns = 1e6},
	{.title = "reserve and commit, sub-buckets, 100 open",
     .limit = "sliding-buckets 1G/1m precision 1s",
     .what = RESERVE_COMMIT,
     .held = 100,
     .step_ns = 1e6},
	{.title = "reserve and commit, log of 1000, 10 open",
     .limit = "sliding-log 1G/1s",
     .what = RESERVE_COMMIT,
     .held = 10,
     .step_ns = 1e6},
	{.title = "reserve and commit, log of 1000, 100 open",
     .limit = "sliding-log 1G/1s",
     .what = RESERVE_COMMIT,
     .held = 100,
     .step_ns = 1e6},
};

static struct sluice_call call_of(const struct bench_case *bench, const struct sluice_item *item, uint64_t *name) {
	struct sluice_call call = {.items = item, .item_count = 1, .cost = 1, .now = bench->now_ns};
	if (bench->parsed.algorithm == SLUICE_CONCURRENCY || bench->what == RESERVE_COMMIT)
		call.id = (struct sluice_bytes){name, sizeof *name};
	return call;
}

/* One operation by name; whether it was allowed, or found. */
static bool operate(struct bench_case *bench, sluice_operation operation, uint64_t name) {
	struct sluice_item item = {.limit = &bench->parsed, .key = {"user:1", 6}};
	struct sluice_call call = call_of(bench, &item, &name);
	call.operation = operation;
	if (bench->what == RESERVE_COMMIT) {
		call.cost = operation == SLUICE_COMMIT ? 600 : 500;
		call.ttl_ns = operation == SLUICE_RESERVE ? (sluice_ns)3600 * 1000000000 : 0;
	}
	if (bench->parsed.algorithm == SLUICE_DISTINCT)
		item.member = (struct sluice_bytes){&name, sizeof name};
	if (sluice_decide(bench->store, &call) != SLUICE_OK)
		traffic_die(bench->title, "the store did not answer");
	return operation >= SLUICE_RELEASE && operation != SLUICE_RESERVE ? call.found == 1 : call.merged.allowed;
}

static void expect(const struct bench_case *bench, bool as_expected) {
	if (!as_expected)
		traffic_die(bench->title, "was answered otherwise than the case is about");
}

/* The operation by which a name comes in. */
static sluice_operation enters_by(const struct bench_case *bench) {
	if (bench->what == RESERVE_COMMIT)
		return SLUICE_RESERVE;
	return bench->parsed.algorithm == SLUICE_CONCURRENCY ? SLUICE_ACQUIRE : SLUICE_CHARGE;
}

static void step(struct bench_case *bench) {
	bench->steps++;
	bench->now_ns += (uint64_t)bench->step_ns;
}

static void run_one(struct bench_case *bench) {
	sluice_operation enter = enters_by(bench);
	step(bench);
	switch (bench->what) {
	case ACQUIRE_RELEASE:
		expect(bench, operate(bench, enter, bench->names) && operate(bench, SLUICE_RELEASE, bench->names));
		bench->names++;
		return;
	case RENEW:
		expect(bench, operate(bench, SLUICE_RENEW, bench->steps % bench->held));
		return;
	case KNOWN: /* the newest, which above 1,024 are those known */
		expect(bench, operate(bench, enter, bench->names - 1 - bench->steps % 50));
		return;
	case NEW:
		expect(bench, operate(bench, enter, bench->names++));
		return;
	case DENIED:
		expect(bench, !operate(bench, enter, bench->names++));
		return;
	case RESERVE_COMMIT:
		expect(bench, operate(bench, enter, bench->names) && operate(bench, SLUICE_COMMIT, bench->names));
		bench->names++;
		return;
	}
}

static void fill(struct bench_case *bench) {
	sluice_operation enter = enters_by(bench);
	struct sluice_store_stats before, after;
	sluice_store_stats(bench->store, &before);
	for (uint64_t i = 0; i < bench->held; i++) {
		step(bench);
		if (!operate(bench, enter, bench->names++))
			break; /* what is to be full is */
	}
	if (bench->what == DENIED)
		bench->step_ns = 1; /* and stays so */
	sluice_store_stats(bench->store, &after);
	bench->bytes = (double)(before.block_bytes_free - after.block_bytes_free) / (double)bench->names;
}

static double run_case(struct bench_case *bench) {
	uint64_t begin = bench_thread_ns();
	for (int i = 0; i < OPERATIONS; i++)
		run_one(bench);
	return (double)(bench_thread_ns() - begin) / OPERATIONS;
}

static void print_all(const char *path, unsigned repeats) {
	FILE *file = path != NULL ? bench_json_open(path) : NULL;
	printf("Leases, members and reservations: ns an operation, median of %u (min..max); bytes each\n", repeats);
	for (unsigned i = 0; i < CASES; i++) {
		const struct bench_case *bench = &cases[i];
		printf("  %-40s %8.0f (%7.0f..%7.0f) %8.1f B\n", bench->title, bench->ns.median, bench->ns.each[0],
		       bench->ns.each[repeats - 1], bench->bytes);
		if (file != NULL)
			fprintf(file, "%s {\"case\": \"%s\", \"ns\": %.1f, \"bytes\": %.1f}", i > 0 ? ",\n" : "{\"cases\": [",
			        bench->title, bench->ns.median, bench->bytes);
	}
	if (file != NULL) {
		fprintf(file, "]}\n");
		bench_json_close(file, path);
	}
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("named", argc, argv, 9);
	bench_pin(0);
	for (unsigned i = 0; i < CASES; i++) {
		if (sluice_limit_parse(&cases[i].parsed, (struct sluice_bytes){cases[i].limit, strlen(cases[i].limit)}, NULL) !=
		    SLUICE_OK)
			traffic_die(cases[i].limit, "no limit");
		cases[i].store = store_new(16 << 20, 0);
		cases[i].now_ns = (uint64_t)1800000000 * 1000000000;
		fill(&cases[i]);
	}
	for (unsigned turn = 0; turn < options.repeats; turn++)
		for (unsigned i = 0; i < CASES; i++)
			cases[i].ns.each[cases[i].ns.count++] = run_case(&cases[i]);
	for (unsigned i = 0; i < CASES; i++)
		sample_close(&cases[i].ns);
	print_all(options.json, options.repeats);
	return 0;
}
