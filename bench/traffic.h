/* What the benchmarks of the library share: stores and limits opened by their texts, keys made before anything is
 * timed, and loops of checks over them.
 *
 * Keys are 20 bytes, written beforehand one after another into huge pages and read in that order, which the processor
 * fetches ahead: about 1 ns of a check's figure. Instants are passed in and advance by a fixed step a check. Every loop
 * counts what was admitted, and ends the program when the store does not answer: a fast wrong answer must not become a
 * number. */
#ifndef SL_BENCH_TRAFFIC_H
#define SL_BENCH_TRAFFIC_H

#include "bench/bench.h"
#include "sluice.h"

#include <math.h>
#include <sys/mman.h>

enum {
	TRAFFIC_LIMITS_MAX = 3,
	TRAFFIC_BATCH_MAX = 64,
	TRAFFIC_KEYS = 1 << 20, /* made at once; more checks than that are several runs */
	TRAFFIC_FILL_BATCH = 32,
};

/* Prints "bench: what: detail" and exits 2. */
static inline void traffic_die(const char *what, const char *detail) {
	fprintf(stderr, "bench: %s: %s\n", what, detail);
	exit(2);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

/* Zeroed memory as a private store has it: in huge pages, where the system gives any. Never freed by its users. */
static inline void *bench_map(uint64_t bytes) {
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		bench_die("mmap");
	(void)madvise(memory, bytes, MADV_HUGEPAGE); /* advice */
	return memory;
}

/* What the system can give without swapping, in bytes; 0 when it does not say. */
static inline uint64_t bench_available_bytes(void) {
	char line[128];
	unsigned long long kib = 0;
	FILE *file = fopen("/proc/meminfo", "re");
	if (file == NULL)
		return 0;
	while (fgets(line, sizeof line, file) != NULL && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
		continue;
	fclose(file);
	return (uint64_t)kib << 10;
}

/* ---- keys ----------------------------------------------------------------------------------------------------- */

/* Ranks 0..n-1, rank k drawn in proportion to 1 / (k + 1), without a table. Source: Hoermann and Derflinger,
 * "Rejection-inversion to generate variates from monotone discrete distributions", 1996, with exponent 1, where the
 * integral of the density is the logarithm. */
struct zipf {
	uint64_t n;
	double low, high, accept;
};

static inline struct zipf zipf_of(uint64_t n) {
	return (struct zipf){n, log(1.5) - 1, log((double)n + 0.5), 2 - exp(log(2.5) - 0.5)};
}

static inline uint64_t zipf_next(const struct zipf *zipf, struct bench_random *random) {
	for (;;) {
		double share = (double)(bench_next(random) >> 11) / 9007199254740992.0;
		double u = zipf->high + share * (zipf->low - zipf->high), x = exp(u);
		double k = floor(x + 0.5);
		k = k < 1 ? 1 : k > (double)zipf->n ? (double)zipf->n : k;
		if (k - x <= zipf->accept || u >= log(k + 0.5) - 1 / k)
			return (uint64_t)k - 1;
	}
}

/* Where keys stand; `stride` is 0 where all checks are of one. */
struct bench_keys {
	char *bytes;
	size_t stride;
};

static inline struct bench_keys keys_new(void) {
	return (struct bench_keys){bench_map((uint64_t)TRAFFIC_KEYS * BENCH_KEY_BYTES), BENCH_KEY_BYTES};
}

static inline void keys_hot(struct bench_keys *keys, uint64_t user) {
	keys->stride = 0;
	bench_key(keys->bytes, user);
}

/* `count` keys, at most TRAFFIC_KEYS, uniform among users first..first + n - 1. */
static inline void keys_uniform(struct bench_keys *keys, uint64_t count, struct bench_random *random, uint64_t first,
                                uint64_t n) {
	keys->stride = BENCH_KEY_BYTES;
	for (uint64_t i = 0; i < count; i++)
		bench_key(keys->bytes + i * BENCH_KEY_BYTES, first + bench_below(random, n));
}

static inline void keys_zipf(struct bench_keys *keys, uint64_t count, struct bench_random *random,
                             const struct zipf *zipf) {
	keys->stride = BENCH_KEY_BYTES;
	for (uint64_t i = 0; i < count; i++)
		bench_key(keys->bytes + i * BENCH_KEY_BYTES, zipf_next(zipf, random));
}

/* Users first, first + 1, ... once each. */
static inline void keys_rising(struct bench_keys *keys, uint64_t count, uint64_t first) {
	keys->stride = BENCH_KEY_BYTES;
	for (uint64_t i = 0; i < count; i++)
		bench_key(keys->bytes + i * BENCH_KEY_BYTES, first + i);
}

/* ---- traffic -------------------------------------------------------------------------------------------------- */

/* One stream of checks; each thread has its own. */
struct traffic {
	const char *title; /* for messages */
	struct sluice_store *store;
	const struct sluice_limit *limits; /* all of them are asked at once, for the same key */
	uint32_t limit_count;
	uint32_t cost;
	struct bench_keys keys;
	sluice_ns now, step_ns;
	uint64_t allowed; /* counts up */
};

/* Parses limits separated by ';'. Returns how many there are. */
static inline uint32_t limits_parse(struct sluice_limit limits[TRAFFIC_LIMITS_MAX], const char *texts) {
	struct sluice_error error = {.text = "too many limits"};
	uint32_t count = 0;
	while (*texts != '\0') {
		size_t len = strcspn(texts, ";");
		struct sluice_bytes text = {texts, len};
		if (count == TRAFFIC_LIMITS_MAX || sluice_limit_parse(&limits[count++], text, &error) != SLUICE_OK)
			traffic_die(texts, error.text);
		texts += len + (texts[len] == ';');
	}
	return count;
}

static inline struct sluice_store *store_new(uint64_t memory_bytes, uint32_t blocks_percent) {
	struct sluice_store_options options = {.memory_bytes = memory_bytes, .blocks_percent = blocks_percent};
	struct sluice_error error = {.text = ""};
	struct sluice_store *store = NULL;
	if (sluice_store_open(&store, &options, &error) != SLUICE_OK)
		traffic_die("store", error.text);
	return store;
}

/* The size of a store whose slots `keys` counters of the given blocks_percent fill to `load`: what a small one of the
 * same shares holds, in proportion. */
static inline uint64_t store_bytes_for(uint64_t keys, double load, uint32_t blocks_percent) {
	struct sluice_store_stats stats;
	struct sluice_store *probe = store_new(UINT64_C(64) << 20, blocks_percent);
	sluice_store_stats(probe, &stats);
	sluice_store_close(probe);
	double bytes = (double)keys / load * (double)stats.memory_bytes / (double)stats.slots;
	return bytes < 1 << 20 ? 1 << 20 : (uint64_t)bytes + 4096;
}

/* Checks one by one, of the keys from number `from` on. */
static inline void traffic_one(struct traffic *traffic, uint64_t from, uint64_t checks) {
	struct sluice_item items[TRAFFIC_LIMITS_MAX];
	struct sluice_call call = {.items = items, .item_count = traffic->limit_count, .cost = traffic->cost};
	const char *key = traffic->keys.bytes + from * traffic->keys.stride;
	uint64_t allowed = 0;
	memset(items, 0, sizeof items);
	for (uint32_t i = 0; i < traffic->limit_count; i++)
		items[i].limit = &traffic->limits[i];
	for (uint64_t n = 0; n < checks; n++, key += traffic->keys.stride) {
		for (uint32_t i = 0; i < traffic->limit_count; i++)
			items[i].key = (struct sluice_bytes){key, BENCH_KEY_BYTES};
		call.now = traffic->now += traffic->step_ns;
		if (sluice_decide(traffic->store, &call) != SLUICE_OK)
			traffic_die(traffic->title, "the store did not answer");
		allowed += call.merged.allowed;
	}
	traffic->allowed += allowed;
}

/* The simple call, which reads the clock itself. */
static inline void traffic_simple(struct traffic *traffic, uint64_t checks) {
	const char *key = traffic->keys.bytes;
	struct sluice_decision decision;
	for (uint64_t n = 0; n < checks; n++, key += traffic->keys.stride) {
		struct sluice_bytes bytes = {key, BENCH_KEY_BYTES};
		if (sluice_check(traffic->store, &traffic->limits[0], bytes, traffic->cost, &decision) != SLUICE_OK)
			traffic_die(traffic->title, "the store did not answer");
		traffic->allowed += decision.allowed;
	}
}

/* Checks in batches of 1..TRAFFIC_BATCH_MAX; `checks` is a multiple of it. */
static inline void traffic_batch(struct traffic *traffic, uint64_t from, uint64_t checks, unsigned batch) {
	struct sluice_item items[TRAFFIC_BATCH_MAX][TRAFFIC_LIMITS_MAX];
	struct sluice_call calls[TRAFFIC_BATCH_MAX];
	const char *key = traffic->keys.bytes + from * traffic->keys.stride;
	memset(items, 0, sizeof items);
	memset(calls, 0, sizeof calls);
	for (unsigned i = 0; i < batch; i++) {
		for (uint32_t k = 0; k < traffic->limit_count; k++)
			items[i][k].limit = &traffic->limits[k];
		calls[i] = (struct sluice_call){.items = items[i], .item_count = traffic->limit_count, .cost = traffic->cost};
	}
	for (uint64_t n = 0; n < checks; n += batch) {
		for (unsigned i = 0; i < batch; i++, key += traffic->keys.stride) {
			for (uint32_t k = 0; k < traffic->limit_count; k++)
				items[i][k].key = (struct sluice_bytes){key, BENCH_KEY_BYTES};
			calls[i].now = traffic->now += traffic->step_ns;
		}
		sluice_decide_many(traffic->store, calls, batch);
		for (unsigned i = 0; i < batch; i++) {
			if (calls[i].err != SLUICE_OK)
				traffic_die(traffic->title, "the store did not answer");
			traffic->allowed += calls[i].merged.allowed;
		}
	}
}

/* Charges users first..first + count - 1 once each. Returns how long the checks took, in ns of wall time, the keys'
 * making left out. */
static inline uint64_t traffic_fill(struct traffic *traffic, uint64_t first, uint64_t count) {
	uint64_t took = 0, most = TRAFFIC_KEYS - TRAFFIC_KEYS % TRAFFIC_FILL_BATCH;
	while (count > 0) {
		uint64_t now = count < most ? count : most, whole = now - now % TRAFFIC_FILL_BATCH;
		keys_rising(&traffic->keys, now, first);
		uint64_t begin = bench_clock_ns();
		traffic_batch(traffic, 0, whole, TRAFFIC_FILL_BATCH);
		traffic_one(traffic, whole, now - whole);
		took += bench_clock_ns() - begin;
		first += now;
		count -= now;
	}
	return took;
}

/* The calling thread's own CPU time, which stands still while a neighbour has the core. */
static inline uint64_t bench_thread_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- results -------------------------------------------------------------------------------------------------- */

/* A measured thing: its repetitions, which bench_median() sorts. */
enum { BENCH_REPEATS_MAX = 101 };
struct bench_sample {
	double each[BENCH_REPEATS_MAX];
	double median;
	unsigned count;
};

static inline void sample_close(struct bench_sample *sample) {
	sample->median = sample->count > 0 ? bench_median(sample->each, sample->count) : 0;
}

/* "PASS" or "short", nothing where `goal` is 0. `higher`: the value has to reach the goal, else to stay below. */
static inline const char *bench_verdict(double value, double goal, bool higher) {
	return goal == 0 ? "" : (higher ? value >= goal : value <= goal) ? "PASS" : "short";
}

/* Writes the format with `value`, or nothing where it is 0: columns that not every row has. */
static inline const char *bench_optional(char text[24], const char *format, double value) {
	text[0] = '\0';
	if (value != 0)
		snprintf(text, 24, format, value);
	return text;
}

/* The options that all of these programs know. */
struct bench_options {
	const char *json; /* NULL: none */
	unsigned repeats;
	uint64_t keys_max; /* the most keys of a store */
	const char *only;  /* cases whose title does not contain it are left out */
};

static inline struct bench_options bench_options(const char *program, int argc, char **argv, unsigned repeats) {
	struct bench_options options = {NULL, repeats, 100000000, ""};
	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (value != NULL && strcmp(argv[i], "--json") == 0) {
			options.json = value;
		} else if (value != NULL && strcmp(argv[i], "--repeats") == 0) {
			options.repeats = (unsigned)bench_number(argv[i], value, 1, BENCH_REPEATS_MAX);
		} else if (value != NULL && strcmp(argv[i], "--keys-max") == 0) {
			options.keys_max = bench_number(argv[i], value, 100000, UINT64_C(1000000000));
		} else if (value != NULL && strcmp(argv[i], "--only") == 0) {
			options.only = value;
		} else {
			fprintf(stderr, "usage: %s [--repeats N] [--keys-max N] [--json FILE] [--only PART-OF-A-TITLE]\n", program);
			exit(2);
		}
	}
	return options;
}

static inline FILE *bench_json_open(const char *path) {
	FILE *file = fopen(path, "we");
	if (file == NULL)
		bench_die(path);
	return file;
}

static inline void bench_json_close(FILE *file, const char *path) {
	if (fclose(file) != 0)
		bench_die(path);
}

#endif
