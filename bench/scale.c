/* scale: what a check costs by the number of keys, beside what memory allows.
 *
 * For one hot key, then 1 M, 10 M and 100 M: a store of slots for load 0.80, filled, and beside it as many bytes of
 * bare memory in the same pages. Every round measures the memory's own accesses and all kinds of checks once, so that
 * the machine's drift falls on all alike; ratios are taken within a round and their median is what counts. Figures are
 * CPU time of the one thread. A size that would take more than half of the free memory is left out, and said so.
 *
 * How to read it: docs/design/006-bench.md. */
#include "bench/access.h"
#include "bench/traffic.h"

enum { CHECKS = 1 << 20, BATCH = 16, HOT_RUNS = 4, BLOCKS_PERCENT = 1, STEP_NS = 50 };
static const char LIMIT[] = "1000M/1h";
static const double LOAD = 0.80;

enum what { DEPENDENT, PREFETCHED, BUCKETS, CHECK_ONE, CHECK_BATCH, ZIPF_ONE, ZIPF_BATCH, WHATS };
static const char *const titles[WHATS] = {
	[DEPENDENT] = "memory: dependent access",
	[PREFETCHED] = "memory: 16 prefetched, then touched",
	[BUCKETS] = "memory: 16 x 128 bytes prefetched, written",
	[CHECK_ONE] = "uniform, one by one",
	[CHECK_BATCH] = "uniform, batches of 16",
	[ZIPF_ONE] = "Zipf 1.0, one by one",
	[ZIPF_BATCH] = "Zipf 1.0, batches of 16",
};

static struct size {
	const char *title;
	uint64_t keys;
	double goal_ns, goal_one,
		goal_batch; /* ns of one by one; times one dependent, times one prefetched access; 0: none */
	bool done;
	uint64_t bytes;
	double load, fill_per_s;
	struct bench_sample ns[WHATS], times[WHATS]; /* times the memory's access of the same round */
} sizes[] = {
	{.title = "1 hot key", .keys = 1, .goal_ns = 25},
	{.title = "1 M keys", .keys = 1000000},
	{.title = "10 M keys", .keys = 10000000},
	{.title = "100 M keys", .keys = 100000000, .goal_one = 1.2, .goal_batch = 3.5},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* One key has no distribution. */
static const char *title_of(const struct size *size, enum what what) {
	const char *comma = strchr(titles[what], ',');
	return size->keys == 1 && comma != NULL ? comma + 2 : titles[what];
}

static bool is_zipf(enum what what) {
	return what == ZIPF_ONE || what == ZIPF_BATCH;
}

static bool is_batch(enum what what) {
	return what == CHECK_BATCH || what == ZIPF_BATCH;
}

/* Which accesses of memory a kind of check is compared with. */
static enum what floor_of(enum what what) {
	return is_batch(what) || what == BUCKETS ? PREFETCHED : DEPENDENT;
}

static bool applies(const struct size *size, enum what what) {
	return size->keys > 1 || what == CHECK_ONE || what == CHECK_BATCH;
}

static double goal_of(const struct size *size, enum what what) {
	return what == CHECK_ONE ? size->goal_one : what == CHECK_BATCH ? size->goal_batch : 0;
}

/* ns a check of one kind, keys made beforehand. */
static double run_checks(struct traffic *traffic, const struct size *size, enum what what, struct bench_random *random,
                         const struct zipf *zipf) {
	unsigned runs = size->keys == 1 ? HOT_RUNS : 1;
	uint64_t allowed = traffic->allowed;
	if (size->keys == 1)
		keys_hot(&traffic->keys, 7);
	else if (is_zipf(what))
		keys_zipf(&traffic->keys, CHECKS, random, zipf);
	else
		keys_uniform(&traffic->keys, CHECKS, random, 0, size->keys);
	traffic->title = titles[what];
	uint64_t begin = bench_thread_ns();
	for (unsigned i = 0; i < runs; i++) {
		if (is_batch(what))
			traffic_batch(traffic, 0, CHECKS, BATCH);
		else
			traffic_one(traffic, 0, CHECKS);
	}
	uint64_t end = bench_thread_ns();
	if (traffic->allowed - allowed != (uint64_t)runs * CHECKS)
		traffic_die(titles[what], "denied a check of a quota that is never reached");
	return (double)(end - begin) / (double)runs / CHECKS;
}

static double run_memory(struct access *access, enum what what) {
	uint64_t begin = bench_thread_ns();
	if (what == DEPENDENT)
		access_dependent(access, CHECKS);
	else if (what == PREFETCHED)
		access_prefetched(access, CHECKS);
	else
		access_buckets(access, CHECKS);
	return (double)(bench_thread_ns() - begin) / CHECKS;
}

static void run_rounds(struct size *size, struct traffic *traffic, struct access *access, unsigned repeats) {
	struct bench_random random = {size->keys};
	struct zipf zipf = zipf_of(size->keys);
	for (unsigned turn = 0; turn < repeats; turn++)
		for (enum what what = 0; what < WHATS; what++) {
			if (!applies(size, what))
				continue;
			double ns = what < CHECK_ONE ? run_memory(access, what) : run_checks(traffic, size, what, &random, &zipf);
			size->ns[what].each[size->ns[what].count++] = ns;
			if (size->keys > 1)
				size->times[what].each[size->times[what].count++] = ns / size->ns[floor_of(what)].each[turn];
		}
	for (enum what what = 0; what < WHATS; what++) {
		sample_close(&size->ns[what]);
		sample_close(&size->times[what]);
	}
}

/* Fills a store of the right size, outside of anything timed but the fill itself. */
static void fill(struct size *size, struct traffic *traffic) {
	struct sluice_store_stats stats;
	uint64_t took = traffic_fill(traffic, 0, size->keys);
	size->fill_per_s = (double)size->keys * 1e9 / (double)took;
	sluice_store_stats(traffic->store, &stats);
	size->load = (double)stats.slots_used / (double)stats.slots;
	size->bytes = stats.memory_bytes;
	if (stats.slots_used + stats.evicted != size->keys || stats.evicted * 100 > size->keys)
		traffic_die(size->title, "the store does not hold what went in");
}

static void run_size(struct size *size, const struct bench_options *options, struct bench_keys keys) {
	struct sluice_limit limits[TRAFFIC_LIMITS_MAX];
	uint64_t bytes = store_bytes_for(size->keys, LOAD, BLOCKS_PERCENT), available = bench_available_bytes();
	if (strstr(size->title, options->only) == NULL)
		return;
	if (size->keys > options->keys_max) {
		printf("  %s: left out, --keys-max is %llu\n", size->title, (unsigned long long)options->keys_max);
		return;
	}
	if (2 * bytes > available) {
		printf("  %s: left out, it needs 2 x %llu MiB of memory and %llu are free\n", size->title,
		       (unsigned long long)(bytes >> 20), (unsigned long long)(available >> 20));
		return;
	}
	struct access access = {0};
	struct traffic traffic = {.title = size->title,
	                          .store = store_new(bytes, BLOCKS_PERCENT),
	                          .limits = limits,
	                          .cost = 1,
	                          .keys = keys,
	                          .now = sluice_now(),
	                          .step_ns = STEP_NS};
	traffic.limit_count = limits_parse(limits, LIMIT);
	fill(size, &traffic);
	if (size->keys > 1)
		access = access_new(size->bytes);
	run_rounds(size, &traffic, &access, options->repeats);
	if (size->keys > 1)
		access_free(&access);
	sluice_store_close(traffic.store);
	size->done = true;
}

static void print_size(const struct size *size, unsigned repeats) {
	char times[24], goal[24];
	if (size->keys > 1)
		printf("  %s in %llu MiB, load %.2f, filled at %.1f M keys/s\n", size->title,
		       (unsigned long long)(size->bytes >> 20), size->load, size->fill_per_s / 1e6);
	else
		printf("  %s\n", size->title);
	for (enum what what = 0; what < WHATS; what++) {
		if (!applies(size, what))
			continue;
		const struct bench_sample *ns = &size->ns[what];
		double goal_ns = what == CHECK_ONE ? size->goal_ns : 0;
		bench_optional(times, "%.2fx", what > PREFETCHED ? size->times[what].median : 0);
		bench_optional(goal, goal_ns > 0 ? "%.0f" : "%.1fx", goal_ns > 0 ? goal_ns : goal_of(size, what));
		printf("    %-44s %7.1f (%6.1f..%6.1f) %8s %6s  %s\n", title_of(size, what), ns->median, ns->each[0],
		       ns->each[repeats - 1], times, goal,
		       goal_ns > 0 ? bench_verdict(ns->median, goal_ns, false)
		                   : bench_verdict(size->times[what].median, goal_of(size, what), false));
	}
}

static void write_size(FILE *file, const struct size *size, bool first) {
	bool any = false;
	fprintf(file, "%s\n {\"size\": \"%s\", \"keys\": %llu, \"bytes\": %llu, \"load\": %.4f, \"fill_per_s\": %.0f,",
	        first ? "" : ",", size->title, (unsigned long long)size->keys, (unsigned long long)size->bytes, size->load,
	        size->fill_per_s);
	fprintf(file, " \"rows\": [");
	for (enum what what = 0; what < WHATS; what++) {
		const struct bench_sample *ns = &size->ns[what];
		if (!applies(size, what))
			continue;
		fprintf(file, "%s\n  {\"row\": \"%s\", \"ns\": %.2f, \"times_memory\": %.3f, \"goal\": %.2f, \"each\": [",
		        any ? "," : "", title_of(size, what), ns->median, size->times[what].median, goal_of(size, what));
		for (unsigned i = 0; i < ns->count; i++)
			fprintf(file, "%s%.2f", i > 0 ? ", " : "", ns->each[i]);
		fprintf(file, "]}");
		any = true;
	}
	fprintf(file, "]}");
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("scale", argc, argv, 7);
	struct bench_keys keys = keys_new();
	bool first = true;
	bench_pin(0);
	printf("By the number of keys: ns a check, median of %u (min..max)%*s memory   goal\n", options.repeats, 13, "");
	for (unsigned i = 0; i < SIZES; i++) {
		run_size(&sizes[i], &options, keys);
		if (sizes[i].done)
			print_size(&sizes[i], options.repeats);
		fflush(stdout);
	}
	if (options.json == NULL)
		return 0;
	FILE *file = bench_json_open(options.json);
	fprintf(file, "{\"repeats\": %u, \"sizes\": [", options.repeats);
	for (unsigned i = 0; i < SIZES; i++)
		if (sizes[i].done) {
			write_size(file, &sizes[i], first);
			first = false;
		}
	fprintf(file, "]}\n");
	bench_json_close(file, options.json);
	return 0;
}
