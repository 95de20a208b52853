/* overrides: what quotas of keys' own, set at run time, cost those who decide by them, and how much memory they take.
 *
 * Two stores of equal size have the same million keys; in one of them each key has a quota of its own, with the limit's
 * name `per-user`. Keys are drawn at random, and both sides take turns.
 *
 *   none  CPU time of sluice_check() of a key without
 *   own   of a key with one. Instructions, NAME being none or own:
 *     valgrind --tool=callgrind --toggle-collect='measure_*' overrides --repeats 1 --keys-max 100000 --only NAME */
#include "bench/traffic.h"

enum { KEYS = 1000000, MIB = 512, MIB_BYTES = 1 << 20, ROUND = 1 << 18, SEED = 8 };

static const char LIMIT[] = "1000/1h", OWN[] = "2000/1h";

/* Sets the quotas of so many keys; returns ns each. */
static double set_all(struct traffic *traffic, uint64_t count) {
	struct sluice_limit own[TRAFFIC_LIMITS_MAX];
	struct sluice_error error;
	char key[BENCH_KEY_BYTES];
	const struct sluice_override_request request = {.limit = &traffic->limits[0],
	                                                .key = {key, BENCH_KEY_BYTES},
	                                                .own = own,
	                                                .name = {"per-user", 8}};
	(void)limits_parse(own, OWN);
	const uint64_t begin = bench_thread_ns();
	for (uint64_t user = 0; user < count; user++) {
		bench_key(key, user);
		if (sluice_override_set(traffic->store, &request, sluice_store_now(traffic->store), &error) != SLUICE_OK)
			traffic_die(traffic->title, error.text);
	}
	return (double)(bench_thread_ns() - begin) / (double)count;
}

/* Bytes of a slot and of blocks that each of the quotas has taken. */
static double bytes_each(const struct sluice_store_stats *before, const struct sluice_store_stats *after) {
	const double slot = (double)(after->memory_bytes - after->block_bytes - after->sketch_bytes) / (double)after->slots;
	const double blocks = (double)(before->block_bytes_free - after->block_bytes_free);
	return (slot * (double)(after->slots_used - before->slots_used) + blocks) / (double)after->overrides;
}

static __attribute__((noinline)) double measure_checks(struct traffic *traffic, uint64_t checks) {
	const uint64_t begin = bench_thread_ns();
	traffic_simple(traffic, checks);
	return (double)(bench_thread_ns() - begin) / (double)checks;
}

int main(int argc, char **argv) {
	const struct bench_options options = bench_options("overrides", argc, argv, 9);
	const uint64_t keys = options.keys_max < KEYS ? options.keys_max : KEYS;
	const uint64_t memory = keys * MIB / KEYS * MIB_BYTES;
	const bool instructions = options.only[0] != '\0';
	struct sluice_limit limit[TRAFFIC_LIMITS_MAX];
	struct bench_random random = {SEED};
	struct bench_sample none = {0}, own = {0}, ratio = {0};
	struct sluice_store_stats before, after;
	struct traffic sides[2] = {{.title = "none"}, {.title = "own"}};
	(void)limits_parse(limit, LIMIT);
	bench_pin(0);
	const struct bench_keys drawn = keys_new();
	for (int i = 0; i < 2; i++) {
		sides[i].store = store_new(memory, 50);
		sides[i].limits = limit;
		sides[i].limit_count = sides[i].cost = 1;
		sides[i].keys = drawn;
		sides[i].now = sluice_store_now(sides[i].store);
		(void)sluice_store_pretouch(sides[i].store, 0, memory);
		(void)traffic_fill(&sides[i], 0, keys);
	}
	sluice_store_stats(sides[1].store, &before);
	const double set_ns = set_all(&sides[1], keys);
	sluice_store_stats(sides[1].store, &after);
	if (after.overrides != keys || after.evicted != 0)
		traffic_die("own", "the store has not kept all quotas");
	for (unsigned i = 0; i < options.repeats; i++) {
		struct bench_keys at = drawn;
		keys_uniform(&at, ROUND, &random, 0, keys);
		sides[0].keys = sides[1].keys = at;
		if (!instructions || strstr("none", options.only) != NULL)
			none.each[none.count++] = measure_checks(&sides[0], ROUND);
		if (!instructions || strstr("own", options.only) != NULL)
			own.each[own.count++] = measure_checks(&sides[1], ROUND);
		if (!instructions)
			ratio.each[ratio.count++] = own.each[i] / none.each[i];
	}
	sample_close(&none);
	sample_close(&own);
	sample_close(&ratio);
	printf("overrides: %llu keys at random, each without or with a quota of its own\n", (unsigned long long)keys);
	printf("  ns of CPU time of sluice_check(), without %8.1f, with %8.1f\n", none.median, own.median);
	if (!instructions)
		printf("  with to without %8.2fx (%.2f..%.2f)  goal 1.2x  %s\n", ratio.median, ratio.each[0],
		       ratio.each[options.repeats - 1], bench_verdict(ratio.median, 1.2, false));
	printf("  to set one %8.1f ns; bytes of one %8.1f\n", set_ns, bytes_each(&before, &after));
	if (options.json != NULL) {
		FILE *json = bench_json_open(options.json);
		fprintf(json, "{\"none_ns\": %.1f, \"own_ns\": %.1f, \"ratio\": %.3f, \"set_ns\": %.1f, \"bytes\": %.1f}\n",
		        none.median, own.median, ratio.median, set_ns, bytes_each(&before, &after));
		bench_json_close(json, options.json);
	}
	return sides[0].allowed + sides[1].allowed == 0;
}
