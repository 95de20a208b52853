/* inprocess: what a check costs inside a process by algorithm, through include/sluice.h alone.
 *
 * Each case is a loop of checks over one store with one or more limits; its figure is ns of CPU time a check, the
 * median of several repetitions. Repetitions of all cases are interleaved, so that the machine's drift falls on all
 * alike and ratios between cases hold. Instants are passed in and advance by a fixed step a check, so that a case is
 * in the same steady state however fast it runs: logs are full but admit, because as much slides out as comes in.
 *
 * Every case checks that the store answered what the case is about (admitted, or denied): a fast wrong answer must not
 * become a number. By the number of keys, and beside what memory allows: scale.c. Threads and processes: share.c. */
#include "bench/traffic.h"

enum {
	MILLION = 1000000,
	HUNDRED_THOUSAND = 100000,
	CASES_MAX = 48,
	CHECKS_HOT = 1 << 21,
	CHECKS_SPREAD = 400000 / TRAFFIC_BATCH_MAX * TRAFFIC_BATCH_MAX,
};

enum how { HOW_ONE, HOW_SIMPLE, HOW_BATCH };

/* One store under one set of limits, used by one or more cases. */
struct subject {
	struct sluice_limit limits[TRAFFIC_LIMITS_MAX];
	struct traffic traffic;
	uint64_t keys;
};

struct bench_case {
	const char *title;
	struct subject *subject;
	enum how how;
	unsigned batch;
	double allowed_min, allowed_max; /* the share that has to be admitted, or the figure means something else */
	uint64_t checks;                 /* a repetition */
	double goal_ns;                  /* 0: none */
	struct bench_sample ns;
	double allowed;
};

static struct bench_keys keys; /* of whatever runs */
static const char *only;

/* ---- running ------------------------------------------------------------------------------------------------- */

static void run_checks(const struct bench_case *bench, struct traffic *traffic, uint64_t checks) {
	if (bench->how == HOW_SIMPLE)
		traffic_simple(traffic, checks);
	else if (bench->how == HOW_BATCH)
		traffic_batch(traffic, 0, checks, bench->batch);
	else
		traffic_one(traffic, 0, checks);
}

/* Runs `checks` checks of a case and returns ns a check; notes the share that it admitted. */
static double run_case(struct bench_case *bench, uint64_t seed, uint64_t checks) {
	struct traffic *traffic = &bench->subject->traffic;
	struct bench_random random = {seed};
	uint64_t allowed = traffic->allowed, took = 0;
	traffic->title = bench->title;
	for (uint64_t left = checks, now = 0; left > 0; left -= now) {
		now = left < TRAFFIC_KEYS || bench->subject->keys == 1 ? left : TRAFFIC_KEYS;
		if (bench->subject->keys == 1)
			keys_hot(&traffic->keys, 7);
		else
			keys_uniform(&traffic->keys, now, &random, 0, bench->subject->keys);
		uint64_t begin = bench_thread_ns();
		run_checks(bench, traffic, now);
		took += bench_thread_ns() - begin;
	}
	bench->allowed = (double)(traffic->allowed - allowed) / (double)checks;
	return (double)took / (double)checks;
}

/* ---- cases -------------------------------------------------------------------------------------------------- */

/* Opens a store for limits separated by ';'. `step_ns` is how far the time advances a check. */
static struct subject *subject_open(const char *texts, uint64_t key_count, uint64_t memory_mib, double step_ns) {
	struct subject *subject = calloc(1, sizeof *subject);
	if (subject == NULL)
		bench_die("calloc");
	subject->keys = key_count;
	subject->traffic = (struct traffic){.title = texts,
	                                    .store = store_new(memory_mib << 20, 0),
	                                    .cost = 1,
	                                    .limits = subject->limits,
	                                    .keys = keys,
	                                    .now = sluice_now(),
	                                    .step_ns = (sluice_ns)step_ns};
	subject->traffic.limit_count = limits_parse(subject->limits, texts);
	return subject;
}

static struct bench_case cases[CASES_MAX];
static unsigned case_count;

static struct bench_case *add(const char *title, struct subject *subject, enum how how, double goal_ns) {
	struct bench_case *bench = &cases[case_count];
	*bench = (struct bench_case){
		.title = title, .subject = subject, .how = how, .goal_ns = goal_ns, .allowed_min = 0.7, .allowed_max = 1};
	bench->checks = subject->keys == 1 ? CHECKS_HOT : CHECKS_SPREAD;
	case_count += strstr(title, only) != NULL;
	return bench;
}

static void add_denied(const char *title, struct subject *subject) {
	struct bench_case *bench = add(title, subject, HOW_ONE, 0);
	bench->allowed_min = 0;
	bench->allowed_max = 0.01;
}

static void add_batch(const char *title, struct subject *subject, unsigned batch) {
	add(title, subject, HOW_BATCH, 0)->batch = batch;
}

static void add_hot(void) {
	add("hot key, 4G/1m", subject_open("4000M/1m", 1, 16, 50), HOW_ONE, 25);
	add("hot key, 4G/1m, sluice_check (own clock)", subject_open("4000M/1m", 1, 16, 0), HOW_SIMPLE, 0);
	add("hot key, fixed-window", subject_open("fixed-window 4000M/1m", 1, 16, 50), HOW_ONE, 0);
	add("hot key, token-bucket", subject_open("token-bucket 100M/1s", 1, 16, 50), HOW_ONE, 0);
	add("hot key, leaky-bucket", subject_open("leaky-bucket 100M/1s", 1, 16, 50), HOW_ONE, 0);
	add("hot key, sliding-buckets precision 1s", subject_open("sliding-buckets 4000M/1m precision 1s", 1, 16, 50),
	    HOW_ONE, 0);
	add("hot key, sliding-log 10/10s, full", subject_open("sliding-log 10/10s", 1, 16, 1.01e9), HOW_ONE, 0);
	add("hot key, sliding-log 100/10s, full", subject_open("sliding-log 100/10s", 1, 16, 1.01e8), HOW_ONE, 0);
	add_denied("hot key, 100/1h denied", subject_open("100/1h", 1, 16, 0));
	add_denied("hot key, token-bucket denied", subject_open("token-bucket 100/1h", 1, 16, 0));
	add_denied("hot key, sliding-log 100/1h denied", subject_open("sliding-log 100/1h", 1, 16, 0));
}

/* As much slides out of the logs as comes in: the time advances so that each key gets `fill` of its quota a window. */
static struct subject *steady_log(const char *text, uint64_t key_count, uint64_t quota, double fill,
                                  uint64_t memory_mib) {
	return subject_open(text, key_count, memory_mib, 10e9 / ((double)key_count * (double)quota * fill));
}

static void add_spread(void) {
	struct subject *million = subject_open("100k/1m", MILLION, 128, 100);
	add("1 M keys", million, HOW_ONE, 150);
	add("1 M keys, sluice_check (own clock)", million, HOW_SIMPLE, 0);
	add_batch("1 M keys, batch of 16", million, 16);
	add_batch("1 M keys, batch of 32", million, 32);
	add("1 M keys, fixed-window", subject_open("fixed-window 100k/1m", MILLION, 128, 100), HOW_ONE, 0);
	add("1 M keys, token-bucket", subject_open("token-bucket 100k/1m", MILLION, 128, 100), HOW_ONE, 0);
	struct subject *ten = steady_log("sliding-log 10/10s", MILLION, 10, 0.7, 1024);
	add("1 M keys, sliding-log 10/10s", ten, HOW_ONE, 0);
	add_batch("1 M keys, sliding-log 10/10s, batch of 16", ten, 16);
	struct subject *few = subject_open("100k/1m", HUNDRED_THOUSAND, 16, 100);
	add("100 k keys", few, HOW_ONE, 0);
	add_batch("100 k keys, batch of 16", few, 16);
	struct subject *hundred = steady_log("sliding-log 100/10s", HUNDRED_THOUSAND, 100, 0.8, 512);
	add("100 k keys, sliding-log 100/10s", hundred, HOW_ONE, 0);
	add_batch("100 k keys, sliding-log 100/10s, batch of 16", hundred, 16);
	struct subject *three = subject_open("fixed-window 10k/1s;fixed-window 120k/1m;"
	                                     "sliding-buckets 240k/1h precision 1m",
	                                     HUNDRED_THOUSAND, 128, 100);
	add("100 k keys, three limits", three, HOW_ONE, 0);
	add_batch("100 k keys, three limits, batch of 64", three, 64);
}

/* Brings a case into its steady state: every key seen, logs filled for a whole window. */
static void warm(struct bench_case *bench) {
	const struct subject *subject = bench->subject;
	uint64_t checks = subject->keys == 1 ? 10000 : 2 * subject->keys;
	if (subject->limits[0].algorithm == SLUICE_SLIDING_LOG && subject->traffic.step_ns > 0)
		checks = subject->limits[0].window_ns / subject->traffic.step_ns * 5 / 4 + 1000;
	run_case(bench, 99, checks - checks % TRAFFIC_BATCH_MAX + TRAFFIC_BATCH_MAX);
}

/* ---- results ------------------------------------------------------------------------------------------------ */

/* NULL for a case that --only left out. */
static const struct bench_case *find(const char *title) {
	for (unsigned i = 0; i < case_count; i++)
		if (strcmp(cases[i].title, title) == 0)
			return &cases[i];
	return NULL;
}

static const struct {
	const char *name, *over, *under;
	double at_most; /* 0: shown, no goal */
} ratios[] = {
	{"log of 10 against counter, hot", "hot key, sliding-log 10/10s, full", "hot key, 4G/1m", 1.5},
	{"log of 100 against counter, hot", "hot key, sliding-log 100/10s, full", "hot key, 4G/1m", 1.5},
	{"log of 10 against counter, 1 M keys", "1 M keys, sliding-log 10/10s", "1 M keys", 1.5},
	{"log of 10 against counter, 1 M, batch of 16", "1 M keys, sliding-log 10/10s, batch of 16",
     "1 M keys, batch of 16", 1.5},
	{"log of 100 against counter, 100 k keys", "100 k keys, sliding-log 100/10s", "100 k keys", 1.5},
	{"log of 100 against counter, 100 k, batch of 16", "100 k keys, sliding-log 100/10s, batch of 16",
     "100 k keys, batch of 16", 1.5},
};

enum { RATIO_COUNT = sizeof ratios / sizeof *ratios };

/* 0 where a case of it was left out. */
static double ratio(unsigned i) {
	const struct bench_case *over = find(ratios[i].over), *under = find(ratios[i].under);
	return over != NULL && under != NULL ? over->ns.median / under->ns.median : 0;
}

static void print_table(unsigned repeats) {
	printf("In process, by algorithm: ns a check, median of %u (min..max)%*s goal\n", repeats, 3, "");
	for (unsigned i = 0; i < case_count; i++) {
		const struct bench_case *bench = &cases[i];
		char goal[24] = "";
		if (bench->goal_ns > 0)
			snprintf(goal, sizeof goal, "%.0f", bench->goal_ns);
		printf("  %-46s %7.1f (%6.1f..%6.1f) %6s  %s\n", bench->title, bench->ns.median, bench->ns.each[0],
		       bench->ns.each[repeats - 1], goal, bench_verdict(bench->ns.median, bench->goal_ns, false));
	}
	for (unsigned i = 0; i < RATIO_COUNT; i++) {
		char goal[24] = "";
		if (ratio(i) == 0)
			continue;
		if (ratios[i].at_most > 0)
			snprintf(goal, sizeof goal, "%.1fx", ratios[i].at_most);
		printf("  %-46s %7.2fx %17s %6s  %s\n", ratios[i].name, ratio(i), "", goal,
		       bench_verdict(ratio(i), ratios[i].at_most, false));
	}
}

static void write_json(const char *path, unsigned repeats) {
	FILE *file = bench_json_open(path);
	fprintf(file, "{\"repeats\": %u, \"cases\": [", repeats);
	for (unsigned i = 0; i < case_count; i++)
		fprintf(file,
		        "%s\n {\"case\": \"%s\", \"ns\": %.2f, \"min\": %.2f, \"max\": %.2f, "
		        "\"goal\": %.0f, \"admitted\": %.4f}",
		        i > 0 ? "," : "", cases[i].title, cases[i].ns.median, cases[i].ns.each[0],
		        cases[i].ns.each[repeats - 1], cases[i].goal_ns, cases[i].allowed);
	fprintf(file, "],\n \"ratios\": [");
	for (unsigned i = 0; i < RATIO_COUNT; i++)
		fprintf(file, "%s\n {\"ratio\": \"%s\", \"value\": %.3f, \"goal\": %.2f}", i > 0 ? "," : "", ratios[i].name,
		        ratio(i), ratios[i].at_most);
	fprintf(file, "]}\n");
	bench_json_close(file, path);
}

static void run_all(unsigned repeats) {
	for (unsigned i = 0; i < case_count; i++)
		warm(&cases[i]);
	for (unsigned turn = 0; turn < repeats; turn++) {
		for (unsigned i = 0; i < case_count; i++) {
			struct bench_case *bench = &cases[i];
			run_case(bench, 1000 + turn * 2, bench->checks / TRAFFIC_BATCH_MAX / 8 * TRAFFIC_BATCH_MAX);
			bench->ns.each[bench->ns.count++] = run_case(bench, 1001 + turn * 2, bench->checks);
			if (bench->allowed < bench->allowed_min || bench->allowed > bench->allowed_max) {
				fprintf(stderr, "inprocess: %s: admitted %.1f %%, expected %.0f to %.0f %%\n", bench->title,
				        100 * bench->allowed, 100 * bench->allowed_min, 100 * bench->allowed_max);
				exit(1);
			}
		}
	}
	for (unsigned i = 0; i < case_count; i++)
		sample_close(&cases[i].ns);
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("inprocess", argc, argv, 9);
	only = options.only;
	keys = keys_new();
	bench_pin(0);
	add_hot();
	add_spread();
	run_all(options.repeats);
	print_table(options.repeats);
	if (options.json != NULL)
		write_json(options.json, options.repeats);
	return 0;
}
