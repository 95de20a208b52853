/* inprocess: what a check costs inside a process, through include/sluice.h alone.
 *
 * Each case is a loop of checks over one store with one or more limits; its figure is ns of CPU time a check (of wall
 * time where two threads compete), the median of several repetitions. Repetitions of all cases are interleaved, so that
 * the machine's drift falls on all alike and ratios between cases hold. Instants are passed in and advance by a fixed
 * step a check, so that a case is in the same steady state however fast it runs: logs are full but admit, because as
 * much slides out as comes in.
 *
 * Keys are 20 bytes. "made" writes the key just before the check (9 ns or so of the figure); "array" fetches it from a
 * million strings in memory, which is a cache miss of its own and is what other libraries' benchmarks often include.
 *
 * Every case checks that the store answered what the case is about (admitted, or denied): a fast wrong answer must not
 * become a number.
 */
#include "bench/bench.h"
#include "sluice.h"

#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

enum {
	REPEATS_MAX = 101,
	LIMITS_MAX = 3,
	BATCH_MAX = 64,
	MILLION = 1000000,
	HUNDRED_THOUSAND = 100000,
	ZIPF_SAMPLES = 1 << 22,
	CASES_MAX = 48,
	TOUCH_BYTES = 64 << 20,
	TOUCH_LINE = 64,
};

enum how { HOW_ONE, HOW_SIMPLE, HOW_BATCH, HOW_PAIR, HOW_TOUCH }; /* PAIR: two threads; TOUCH: no check, one miss */
enum which { KEYS_HOT, KEYS_MADE, KEYS_ARRAY, KEYS_ZIPF };

/* One store under one set of limits, used by one or more cases. */
struct subject {
	struct sluice_store *store;
	struct sluice_limit limits[LIMITS_MAX];
	uint32_t limit_count;
	uint64_t keys;
	sluice_ns now, step_ns;
};

struct bench_case {
	const char *title;
	struct subject *subject;
	enum how how;
	enum which which;
	unsigned batch;
	double allowed_min, allowed_max; /* the share that has to be admitted, or the figure means something else */
	uint64_t checks;                 /* a repetition */
	double goal_ns;                  /* 0: none */
	double ns[REPEATS_MAX];
	double median, allowed;
};

/* What one thread of a case needs to itself. */
struct runner {
	const struct bench_case *bench;
	struct bench_random random;
	sluice_ns now;
	uint64_t checks, allowed, zipf_at;
	unsigned core;
	pthread_barrier_t *barrier; /* NULL: alone */
	uint64_t begin_ns, end_ns;
};

static char (*key_array)[BENCH_KEY_BYTES];
static uint32_t *zipf;
static const char *touched; /* TOUCH_BYTES of zeros in huge pages, as large as the store of a million keys */

static void die_text(const char *what, const char *detail) {
	fprintf(stderr, "inprocess: %s: %s\n", what, detail);
	exit(2);
}

/* ---- keys --------------------------------------------------------------------------------------------------- */

/* Fills zipf[] with ranks 0..n-1, rank k drawn in proportion to 1 / (k + 1)^0.99, by inverting the cumulated shares. */
static void make_zipf(uint64_t n) {
	struct bench_random random = {42};
	double *cumulated = malloc(n * sizeof *cumulated), sum = 0;
	zipf = malloc(ZIPF_SAMPLES * sizeof *zipf);
	if (cumulated == NULL || zipf == NULL)
		bench_die("malloc");
	for (uint64_t k = 0; k < n; k++)
		cumulated[k] = sum += 1 / pow((double)(k + 1), 0.99);
	for (uint64_t i = 0; i < ZIPF_SAMPLES; i++) {
		double want = sum * ((double)(bench_next(&random) >> 11) / 9007199254740992.0);
		uint64_t low = 0, high = n - 1;
		while (low < high) {
			uint64_t middle = (low + high) / 2;
			if (cumulated[middle] < want)
				low = middle + 1;
			else
				high = middle;
		}
		zipf[i] = (uint32_t)low;
	}
	free(cumulated);
}

static void make_keys(void) {
	key_array = malloc(sizeof *key_array * MILLION);
	if (key_array == NULL)
		bench_die("malloc");
	for (uint64_t i = 0; i < MILLION; i++)
		bench_key(key_array[i], i);
	make_zipf(MILLION);
}

static void make_touched(void) {
	void *memory = aligned_alloc(2 << 20, TOUCH_BYTES);
	if (memory == NULL)
		bench_die("aligned_alloc");
	(void)madvise(memory, TOUCH_BYTES, MADV_HUGEPAGE); /* advice: without huge pages the floor is a little higher */
	memset(memory, 0, TOUCH_BYTES);
	touched = memory;
}

/* The next key of a case; `buffer` holds it where it is made. */
static inline struct sluice_bytes next_key(struct runner *runner, char buffer[BENCH_KEY_BYTES]) {
	uint64_t keys = runner->bench->subject->keys;
	switch (runner->bench->which) {
	case KEYS_HOT:
		break; /* the buffer was filled once */
	case KEYS_MADE:
		bench_key(buffer, bench_below(&runner->random, keys));
		break;
	case KEYS_ARRAY:
		return (struct sluice_bytes){key_array[bench_below(&runner->random, keys)], BENCH_KEY_BYTES};
	case KEYS_ZIPF:
		bench_key(buffer, zipf[runner->zipf_at++ % ZIPF_SAMPLES]);
		break;
	}
	return (struct sluice_bytes){buffer, BENCH_KEY_BYTES};
}

/* ---- loops -------------------------------------------------------------------------------------------------- */

static void loop_one(struct runner *runner, uint64_t checks) {
	const struct subject *subject = runner->bench->subject;
	char buffer[BENCH_KEY_BYTES];
	struct sluice_item items[LIMITS_MAX];
	struct sluice_call call = {.items = items, .item_count = subject->limit_count, .cost = 1};
	bench_key(buffer, 7);
	memset(items, 0, sizeof items);
	for (uint32_t i = 0; i < subject->limit_count; i++)
		items[i].limit = &subject->limits[i];
	for (uint64_t n = 0; n < checks; n++) {
		struct sluice_bytes key = next_key(runner, buffer);
		for (uint32_t i = 0; i < subject->limit_count; i++)
			items[i].key = key;
		call.now = runner->now += subject->step_ns;
		if (sluice_decide(subject->store, &call) != SLUICE_OK)
			die_text(runner->bench->title, "the store did not answer");
		runner->allowed += call.merged.allowed;
	}
}

/* The simple call, which reads the clock itself. */
static void loop_simple(struct runner *runner, uint64_t checks) {
	const struct subject *subject = runner->bench->subject;
	char buffer[BENCH_KEY_BYTES];
	struct sluice_decision decision;
	bench_key(buffer, 8);
	for (uint64_t n = 0; n < checks; n++) {
		struct sluice_bytes key = next_key(runner, buffer);
		if (sluice_check(subject->store, &subject->limits[0], key, 1, &decision) != SLUICE_OK)
			die_text(runner->bench->title, "the store did not answer");
		runner->allowed += decision.allowed;
	}
}

static void loop_batch(struct runner *runner, uint64_t checks) {
	const struct subject *subject = runner->bench->subject;
	const unsigned batch = runner->bench->batch;
	static char buffers[BATCH_MAX][BENCH_KEY_BYTES];
	static struct sluice_item items[BATCH_MAX][LIMITS_MAX];
	static struct sluice_call calls[BATCH_MAX];
	memset(items, 0, sizeof items);
	memset(calls, 0, sizeof calls);
	for (unsigned i = 0; i < batch; i++) {
		for (uint32_t k = 0; k < subject->limit_count; k++)
			items[i][k].limit = &subject->limits[k];
		calls[i] = (struct sluice_call){.items = items[i], .item_count = subject->limit_count, .cost = 1};
	}
	for (uint64_t n = 0; n < checks; n += batch) {
		for (unsigned i = 0; i < batch; i++) {
			struct sluice_bytes key = next_key(runner, buffers[i]);
			for (uint32_t k = 0; k < subject->limit_count; k++)
				items[i][k].key = key;
			calls[i].now = runner->now += subject->step_ns;
		}
		sluice_decide_many(subject->store, calls, batch);
		for (unsigned i = 0; i < batch; i++) {
			if (calls[i].err != SLUICE_OK)
				die_text(runner->bench->title, "the store did not answer");
			runner->allowed += calls[i].merged.allowed;
		}
	}
}

/* What memory allows: one load a turn from a place that only the load before makes known. */
static void loop_touch(struct runner *runner, uint64_t checks) {
	for (uint64_t n = 0; n < checks; n++) {
		uint64_t line = bench_below(&runner->random, TOUCH_BYTES / TOUCH_LINE);
		runner->random.state ^= *(const volatile uint64_t *)(const void *)(touched + line * TOUCH_LINE);
	}
	runner->allowed = checks;
}

/* Alone: the thread's own CPU time, which stands still while a neighbour has the core. In a pair: wall time, since the
 * one's waiting for the other is the point. */
static uint64_t runner_clock_ns(const struct runner *runner) {
	struct timespec t;
	clock_gettime(runner->barrier != NULL ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *run_one(void *argument) {
	struct runner *runner = argument;
	bench_pin(runner->core);
	if (runner->barrier != NULL)
		pthread_barrier_wait(runner->barrier);
	runner->begin_ns = runner_clock_ns(runner);
	if (runner->bench->how == HOW_SIMPLE)
		loop_simple(runner, runner->checks);
	else if (runner->bench->how == HOW_BATCH)
		loop_batch(runner, runner->checks);
	else if (runner->bench->how == HOW_TOUCH)
		loop_touch(runner, runner->checks);
	else
		loop_one(runner, runner->checks);
	runner->end_ns = runner_clock_ns(runner);
	return NULL;
}

/* Two threads at once on two cores; the figure is wall time over all checks of both. */
static double run_pair(struct bench_case *bench, struct runner *runners) {
	pthread_barrier_t barrier;
	pthread_t other;
	pthread_barrier_init(&barrier, NULL, 2);
	runners[0].barrier = runners[1].barrier = &barrier;
	runners[1].core = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	if (pthread_create(&other, NULL, run_one, &runners[1]) != 0)
		bench_die("pthread_create");
	run_one(&runners[0]);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&barrier);
	uint64_t begin = runners[0].begin_ns < runners[1].begin_ns ? runners[0].begin_ns : runners[1].begin_ns;
	uint64_t end = runners[0].end_ns > runners[1].end_ns ? runners[0].end_ns : runners[1].end_ns;
	return (double)(end - begin) / (double)(2 * bench->checks);
}

/* Runs `checks` checks of a case and returns ns a check; checks that it admitted what it should. */
static double run_case(struct bench_case *bench, uint64_t seed, uint64_t checks) {
	bool two = bench->how == HOW_PAIR;
	struct runner runners[2] = {{.bench = bench}, {.bench = bench}};
	for (unsigned i = 0; i < 2; i++) {
		runners[i].random.state = seed * 2 + i;
		runners[i].zipf_at = bench_next(&runners[i].random);
		runners[i].checks = checks;
		runners[i].now = bench->subject->now;
	}
	double ns = 0;
	if (two) {
		ns = run_pair(bench, runners);
	} else {
		run_one(&runners[0]);
		ns = (double)(runners[0].end_ns - runners[0].begin_ns) / (double)checks;
	}
	bench->subject->now = runners[0].now > runners[1].now ? runners[0].now : runners[1].now;
	bench->allowed = (double)(runners[0].allowed + runners[1].allowed) / (double)(checks << two);
	return ns;
}

/* ---- cases -------------------------------------------------------------------------------------------------- */

/* Opens a store for limits separated by ';'. `step_ns` is how far the time advances a check. */
static struct subject *subject_open(const char *texts, uint64_t keys, uint64_t memory_mib, double step_ns) {
	struct subject *subject = calloc(1, sizeof *subject);
	struct sluice_store_options options = {.memory_bytes = memory_mib << 20};
	struct sluice_error error = {.text = ""};
	if (subject == NULL)
		bench_die("calloc");
	subject->keys = keys;
	subject->now = sluice_now();
	subject->step_ns = (sluice_ns)step_ns;
	while (*texts != '\0') {
		size_t len = strcspn(texts, ";");
		struct sluice_bytes text = {texts, len};
		if (subject->limit_count == LIMITS_MAX ||
		    sluice_limit_parse(&subject->limits[subject->limit_count++], text, &error) != SLUICE_OK)
			die_text(texts, error.text);
		texts += len + (texts[len] == ';');
	}
	if (sluice_store_open(&subject->store, &options, &error) != SLUICE_OK)
		die_text("store", error.text);
	return subject;
}

static struct bench_case cases[CASES_MAX];
static unsigned case_count;
static const char *only = ""; /* cases whose title does not contain it are left out */

static struct bench_case *add(const char *title, struct subject *subject, enum how how, enum which which,
                              double goal_ns) {
	struct bench_case *bench = &cases[case_count];
	*bench = (struct bench_case){.title = title, .subject = subject, .how = how, .which = which, .goal_ns = goal_ns,
	                             .allowed_min = 0.7, .allowed_max = 1};
	bench->checks = which == KEYS_HOT ? 2000000 : 400000;
	case_count += strstr(title, only) != NULL;
	return bench;
}

static void add_denied(const char *title, struct subject *subject, enum which which) {
	struct bench_case *bench = add(title, subject, HOW_ONE, which, 0);
	bench->allowed_min = 0;
	bench->allowed_max = 0.01;
}

static void add_batch(const char *title, struct subject *subject, enum which which, unsigned batch) {
	add(title, subject, HOW_BATCH, which, 0)->batch = batch;
}

static void add_hot(void) {
	add("hot key, 4G/1m", subject_open("4000M/1m", 1, 16, 50), HOW_ONE, KEYS_HOT, 30);
	add("hot key, 4G/1m, sluice_check (own clock)", subject_open("4000M/1m", 1, 16, 0), HOW_SIMPLE, KEYS_HOT, 0);
	add("hot key, fixed-window", subject_open("fixed-window 4000M/1m", 1, 16, 50), HOW_ONE, KEYS_HOT, 0);
	add("hot key, token-bucket", subject_open("token-bucket 100M/1s", 1, 16, 50), HOW_ONE, KEYS_HOT, 0);
	add("hot key, leaky-bucket", subject_open("leaky-bucket 100M/1s", 1, 16, 50), HOW_ONE, KEYS_HOT, 0);
	add("hot key, sliding-buckets precision 1s",
	    subject_open("sliding-buckets 4000M/1m precision 1s", 1, 16, 50), HOW_ONE, KEYS_HOT, 0);
	add("hot key, sliding-log 10/10s, full", subject_open("sliding-log 10/10s", 1, 16, 1.01e9), HOW_ONE, KEYS_HOT, 0);
	add("hot key, sliding-log 100/10s, full", subject_open("sliding-log 100/10s", 1, 16, 1.01e8), HOW_ONE, KEYS_HOT, 0);
	add_denied("hot key, 100/1h denied", subject_open("100/1h", 1, 16, 0), KEYS_HOT);
	add_denied("hot key, token-bucket denied", subject_open("token-bucket 100/1h", 1, 16, 0), KEYS_HOT);
	add_denied("hot key, sliding-log 100/1h denied", subject_open("sliding-log 100/1h", 1, 16, 0), KEYS_HOT);
}

/* As much slides out of the logs as comes in: the time advances so that each key gets `fill` of its quota a window. */
static struct subject *steady_log(const char *text, uint64_t keys, uint64_t quota, double fill, uint64_t memory_mib) {
	return subject_open(text, keys, memory_mib, 10e9 / ((double)keys * (double)quota * fill));
}

static void add_spread(void) {
	struct subject *million = subject_open("100k/1m", MILLION, 128, 100);
	add("floor: one load from 64 MiB, no check", million, HOW_TOUCH, KEYS_MADE, 0);
	add("1 M keys, made", million, HOW_ONE, KEYS_MADE, 150);
	add("1 M keys, array", million, HOW_ONE, KEYS_ARRAY, 0);
	add("1 M keys, sluice_check (own clock)", million, HOW_SIMPLE, KEYS_MADE, 0);
	add_batch("1 M keys, batch of 16", million, KEYS_MADE, 16);
	add_batch("1 M keys, batch of 32", million, KEYS_MADE, 32);
	add("1 M keys, Zipf 0.99", million, HOW_ONE, KEYS_ZIPF, 0);
	add_batch("1 M keys, Zipf 0.99, batch of 16", million, KEYS_ZIPF, 16);
	add("1 M keys, token-bucket", subject_open("token-bucket 100k/1m", MILLION, 128, 100), HOW_ONE, KEYS_MADE, 0);
	struct subject *ten = steady_log("sliding-log 10/10s", MILLION, 10, 0.7, 1024);
	add("1 M keys, sliding-log 10/10s", ten, HOW_ONE, KEYS_MADE, 0);
	add_batch("1 M keys, sliding-log 10/10s, batch of 16", ten, KEYS_MADE, 16);
	struct subject *few = subject_open("100k/1m", HUNDRED_THOUSAND, 16, 100);
	add("100 k keys", few, HOW_ONE, KEYS_MADE, 0);
	add_batch("100 k keys, batch of 16", few, KEYS_MADE, 16);
	struct subject *hundred = steady_log("sliding-log 100/10s", HUNDRED_THOUSAND, 100, 0.8, 512);
	add("100 k keys, sliding-log 100/10s", hundred, HOW_ONE, KEYS_MADE, 0);
	add_batch("100 k keys, sliding-log 100/10s, batch of 16", hundred, KEYS_MADE, 16);
	struct subject *three = subject_open("fixed-window 10k/1s;fixed-window 120k/1m;"
	                                     "sliding-buckets 240k/1h precision 1m", HUNDRED_THOUSAND, 128, 100);
	add("100 k keys, three limits", three, HOW_ONE, KEYS_MADE, 0);
	add_batch("100 k keys, three limits, batch of 64", three, KEYS_MADE, 64);
	add("2 threads, one hot key", subject_open("4000M/1m", 1, 16, 50), HOW_PAIR, KEYS_HOT, 0);
	add("2 threads, 1 M keys", million, HOW_PAIR, KEYS_MADE, 0);
}

/* Brings a case into its steady state: every key seen, logs filled for a whole window. */
static void warm(struct bench_case *bench) {
	const struct subject *subject = bench->subject;
	uint64_t checks = subject->keys == 1 ? 10000 : 2 * subject->keys;
	if (subject->limits[0].algorithm == SLUICE_SLIDING_LOG && subject->step_ns > 0)
		checks = subject->limits[0].window_ns / subject->step_ns * 5 / 4 + 1000;
	run_case(bench, 99, checks - checks % BATCH_MAX + BATCH_MAX);
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
	{"log of 10 against counter, 1 M keys", "1 M keys, sliding-log 10/10s", "1 M keys, made", 1.5},
	{"log of 10 against counter, 1 M, batch of 16", "1 M keys, sliding-log 10/10s, batch of 16",
	 "1 M keys, batch of 16", 1.5},
	{"log of 100 against counter, 100 k keys", "100 k keys, sliding-log 100/10s", "100 k keys", 1.5},
	{"log of 100 against counter, 100 k, batch of 16", "100 k keys, sliding-log 100/10s, batch of 16",
	 "100 k keys, batch of 16", 1.5},
	{"counter against the floor, 1 M keys", "1 M keys, made", "floor: one load from 64 MiB, no check", 0},
	{"two threads against one, hot, time a check", "2 threads, one hot key", "hot key, 4G/1m", 0},
	{"two threads against one, 1 M keys", "2 threads, 1 M keys", "1 M keys, made", 0},
};

enum { RATIO_COUNT = sizeof ratios / sizeof *ratios };

/* 0 where a case of it was left out. */
static double ratio(unsigned i) {
	const struct bench_case *over = find(ratios[i].over), *under = find(ratios[i].under);
	return over != NULL && under != NULL ? over->median / under->median : 0;
}

static const char *verdict(double value, double at_most) {
	return at_most == 0 ? "" : value <= at_most ? "PASS" : "short";
}

static void print_table(unsigned repeats) {
	printf("In process: ns a check, median of %u (min..max)%*s goal\n", repeats, 14, "");
	for (unsigned i = 0; i < case_count; i++) {
		const struct bench_case *bench = &cases[i];
		char goal[24] = "";
		if (bench->goal_ns > 0)
			snprintf(goal, sizeof goal, "%.0f", bench->goal_ns);
		printf("  %-46s %7.1f (%6.1f..%6.1f) %6s  %s\n", bench->title, bench->median, bench->ns[0],
		       bench->ns[repeats - 1], goal, verdict(bench->median, bench->goal_ns));
	}
	for (unsigned i = 0; i < RATIO_COUNT; i++) {
		char goal[24] = "";
		if (ratio(i) == 0)
			continue;
		if (ratios[i].at_most > 0)
			snprintf(goal, sizeof goal, "%.1fx", ratios[i].at_most);
		printf("  %-46s %7.2fx %17s %6s  %s\n", ratios[i].name, ratio(i), "", goal,
		       verdict(ratio(i), ratios[i].at_most));
	}
}

static void write_json(const char *path, unsigned repeats) {
	FILE *file = fopen(path, "we");
	if (file == NULL)
		bench_die(path);
	fprintf(file, "{\"repeats\": %u, \"cases\": [", repeats);
	for (unsigned i = 0; i < case_count; i++)
		fprintf(file,
		        "%s\n {\"case\": \"%s\", \"ns\": %.2f, \"min\": %.2f, \"max\": %.2f, "
		        "\"goal\": %.0f, \"admitted\": %.4f}",
		        i > 0 ? "," : "", cases[i].title, cases[i].median, cases[i].ns[0], cases[i].ns[repeats - 1],
		        cases[i].goal_ns, cases[i].allowed);
	fprintf(file, "],\n \"ratios\": [");
	for (unsigned i = 0; i < RATIO_COUNT; i++)
		fprintf(file, "%s\n {\"ratio\": \"%s\", \"value\": %.3f, \"goal\": %.2f}", i > 0 ? "," : "",
		        ratios[i].name, ratio(i), ratios[i].at_most);
	fprintf(file, "]}\n");
	if (fclose(file) != 0)
		bench_die(path);
}

static void run_all(unsigned repeats) {
	for (unsigned i = 0; i < case_count; i++)
		warm(&cases[i]);
	for (unsigned turn = 0; turn < repeats; turn++) {
		for (unsigned i = 0; i < case_count; i++) {
			struct bench_case *bench = &cases[i];
			run_case(bench, 1000 + turn * 2, bench->checks / 8);
			bench->ns[turn] = run_case(bench, 1001 + turn * 2, bench->checks);
			if (bench->allowed < bench->allowed_min || bench->allowed > bench->allowed_max) {
				fprintf(stderr, "inprocess: %s: admitted %.1f %%, expected %.0f to %.0f %%\n", bench->title,
				        100 * bench->allowed, 100 * bench->allowed_min, 100 * bench->allowed_max);
				exit(1);
			}
		}
	}
	for (unsigned i = 0; i < case_count; i++)
		cases[i].median = bench_median(cases[i].ns, repeats);
}

int main(int argc, char **argv) {
	const char *json = NULL;
	unsigned repeats = 9;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--json") == 0) {
			json = argv[i + 1];
		} else if (i + 1 < argc && strcmp(argv[i], "--repeats") == 0) {
			repeats = (unsigned)bench_number(argv[i], argv[i + 1], 1, REPEATS_MAX);
		} else if (i + 1 < argc && strcmp(argv[i], "--only") == 0) {
			only = argv[i + 1];
		} else {
			fprintf(stderr, "usage: inprocess [--repeats N] [--json FILE] [--only PART-OF-A-TITLE]\n");
			return 2;
		}
	}
	bench_pin(0);
	make_keys();
	make_touched();
	add_hot();
	add_spread();
	run_all(repeats);
	print_table(repeats);
	if (json != NULL)
		write_json(json, repeats);
	return 0;
}
