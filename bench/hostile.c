/* hostile: what a check costs while somebody means harm.
 *
 *   a full store   new keys come without end, each evicts a counter; and clients that were there before, meanwhile
 *   collisions     keys that all have one page in common for somebody who knows the code but not the secret
 *
 * The colliding keys are found as an attacker would: with this very code and a secret of zeros, for an arena of the
 * same size. Under the arena's own secret they lie as any other keys do, and the ratio to as many random ones shows
 * it. Were the secret known, all of them would contend for the 160 slots of one page.
 *
 * Rows are interleaved, figures are CPU time of one thread. How to read it: docs/design/006-bench.md. */
#include "algo/rule.h"
#include "bench/traffic.h"
#include "store/slot.h"

enum {
	CHECKS = 1 << 18,
	CHECKS_NEW = 1 << 15, /* each evicts, which takes microseconds */
	BATCH = 16,
	STEP_NS = 50,
	STORE_MIB = 32,
	BLOCKS_PERCENT = 1,
	REGULARS = 50000,
	REGULAR_COST = 45000,     /* of the quota of 100k, twice: regulars have used most of theirs, so others go first */
	REGULAR_SECOND = 2000000, /* how many users later the flood begins */
	COLLIDING = 4096,
	PER_CENT = 100,
	SHARE_MIN = 95, /* of checks admitted, of new keys that evict: per cent */
};
static const char LIMIT[] = "100k/1h";
static const double COLLIDING_GOAL = 1.05; /* no slower, but for the noise of two medians */

enum what {
	QUIET,
	QUIET_BATCH,
	REGULAR,
	REGULAR_BATCH,
	NEW,
	NEW_BATCH,
	RANDOM,
	COLLIDED,
	RANDOM_NEW,
	COLLIDED_NEW,
	ROWS
};

static struct row {
	const char *title;
	enum what base; /* the row that it is compared with */
	double goal;
	struct bench_sample ns, times;
} rows[ROWS] = {
	[QUIET] = {.title = "store at load 0.6: a key it has", .base = QUIET},
	[QUIET_BATCH] = {.title = "store at load 0.6: batches of 16", .base = QUIET_BATCH},
	[REGULAR] = {.title = "full store: a key it has", .base = QUIET},
	[REGULAR_BATCH] = {.title = "full store: batches of 16", .base = QUIET_BATCH},
	[NEW] = {.title = "full store: a new key, one evicted", .base = QUIET},
	[NEW_BATCH] = {.title = "full store: new keys, batches of 16", .base = QUIET_BATCH},
	[RANDOM] = {.title = "4,096 random keys", .base = RANDOM},
	[COLLIDED] = {.title = "4,096 keys chosen to collide", .base = RANDOM, .goal = COLLIDING_GOAL},
	[RANDOM_NEW] = {.title = "random keys, each for the first time", .base = RANDOM_NEW},
	[COLLIDED_NEW] = {.title = "chosen keys, each for the first time", .base = RANDOM_NEW, .goal = COLLIDING_GOAL},
};

static struct sluice_limit limits[TRAFFIC_LIMITS_MAX];
static uint64_t chosen[2][COLLIDING]; /* users: random ones, colliding ones */

/* ---- a full store ------------------------------------------------------------------------------------------------ */

struct flood {
	struct traffic quiet, full;
	struct bench_random random;
	uint64_t next_new;
};

static struct traffic traffic_new(const char *title, struct sluice_store *store, struct bench_keys keys) {
	return (struct traffic){.title = title,
	                        .store = store,
	                        .limits = limits,
	                        .limit_count = 1,
	                        .cost = 1,
	                        .keys = keys,
	                        .now = sluice_now(),
	                        .step_ns = STEP_NS};
}

static uint64_t evicted_of(struct sluice_store *store) {
	struct sluice_store_stats stats;
	sluice_store_stats(store, &stats);
	return stats.evicted;
}

/* Two stores with the same regular clients: one filled to load 0.6, one with twice as many keys as it has slots. */
static struct flood flood_new(struct bench_keys keys) {
	struct flood flood = {traffic_new("quiet store", store_new((uint64_t)STORE_MIB << 20, BLOCKS_PERCENT), keys),
	                      traffic_new("full store", store_new((uint64_t)STORE_MIB << 20, BLOCKS_PERCENT), keys),
	                      {3},
	                      REGULAR_SECOND};
	struct sluice_store_stats stats;
	sluice_store_stats(flood.full.store, &stats);
	flood.quiet.cost = flood.full.cost = REGULAR_COST;
	for (unsigned turn = 0; turn < 2; turn++) {
		(void)traffic_fill(&flood.quiet, 0, REGULARS);
		(void)traffic_fill(&flood.full, 0, REGULARS);
	}
	flood.quiet.cost = flood.full.cost = 1;
	(void)traffic_fill(&flood.quiet, REGULAR_SECOND, stats.slots * 6 / 10 - REGULARS);
	(void)traffic_fill(&flood.full, REGULAR_SECOND, 2 * stats.slots);
	flood.next_new += 2 * stats.slots;
	return flood;
}

static double run_flood(struct flood *flood, enum what what) {
	struct traffic *traffic = what <= QUIET_BATCH ? &flood->quiet : &flood->full;
	bool is_new = what == NEW || what == NEW_BATCH, is_batch = what % 2 != 0;
	uint64_t evicted = is_new ? evicted_of(traffic->store) : 0, allowed = traffic->allowed;
	uint64_t checks = is_new ? CHECKS_NEW : CHECKS;
	if (is_new)
		keys_rising(&traffic->keys, checks, flood->next_new);
	else
		keys_uniform(&traffic->keys, checks, &flood->random, 0, REGULARS);
	flood->next_new += is_new ? checks : 0;
	traffic->title = rows[what].title;
	uint64_t begin = bench_thread_ns();
	if (is_batch)
		traffic_batch(traffic, 0, checks, BATCH);
	else
		traffic_one(traffic, 0, checks);
	uint64_t end = bench_thread_ns();
	if ((traffic->allowed - allowed) * PER_CENT < checks * SHARE_MIN)
		traffic_die(rows[what].title, "denied checks that it was to admit");
	if (is_new && (evicted_of(traffic->store) - evicted) * PER_CENT < checks * SHARE_MIN)
		traffic_die(rows[what].title, "new keys found room in a store that was to be full");
	return (double)(end - begin) / (double)checks;
}

/* ---- collisions -------------------------------------------------------------------------------------------------- */

/* Users whose keys lie in page 0 of an arena like this one, did it have a secret of zeros. */
static void choose(const struct sluice_store *store) {
	struct sluice_store guess = *store;
	struct bench_random random = {17};
	char key[BENCH_KEY_BYTES];
	const uint64_t *identity = &limits[0].derived[SL_IDENT_KIND];
	guess.secret[0] = guess.secret[1] = 0;
	for (unsigned i = 0; i < COLLIDING; i++)
		chosen[0][i] = bench_below(&random, UINT64_C(1000000000000));
	unsigned found = 0;
	for (uint64_t user = 0; found < COLLIDING; user++) {
		bench_key(key, user);
		struct sl_place place = sl_place_of(&guess, identity, 1, (struct sluice_bytes){key, sizeof key}, false);
		if (place.home < &guess.pages[1].buckets[0])
			chosen[1][found++] = user;
	}
}

static void keys_chosen(struct bench_keys *keys, const uint64_t *users, struct bench_random *random) {
	keys->stride = BENCH_KEY_BYTES;
	for (uint64_t i = 0; i < CHECKS; i++) {
		uint64_t which = random != NULL ? bench_below(random, COLLIDING) : i % COLLIDING;
		bench_key(keys->bytes + i * BENCH_KEY_BYTES, users[which]);
	}
}

/* Checks of keys that the store has, at random among the chosen. */
static double run_chosen(struct traffic *traffic, enum what what, struct bench_random *random) {
	keys_chosen(&traffic->keys, chosen[what == COLLIDED], random);
	traffic->title = rows[what].title;
	uint64_t begin = bench_thread_ns();
	traffic_one(traffic, 0, CHECKS);
	return (double)(bench_thread_ns() - begin) / CHECKS;
}

/* First checks: the counters are forgotten before each turn, outside of what is timed. */
static double run_first(struct traffic *traffic, enum what what) {
	const unsigned turns = 16;
	uint64_t took = 0;
	struct sluice_item item = {.limit = limits};
	struct sluice_call call = {.items = &item, .item_count = 1, .operation = SLUICE_RESET};
	keys_chosen(&traffic->keys, chosen[what == COLLIDED_NEW], NULL);
	traffic->title = rows[what].title;
	for (unsigned turn = 0; turn < turns; turn++) {
		for (uint64_t i = 0; i < COLLIDING; i++) {
			item.key = (struct sluice_bytes){traffic->keys.bytes + i * BENCH_KEY_BYTES, BENCH_KEY_BYTES};
			call.now = traffic->now += STEP_NS;
			if (sluice_decide(traffic->store, &call) != SLUICE_OK)
				traffic_die(traffic->title, "the store did not answer");
		}
		uint64_t begin = bench_thread_ns();
		traffic_one(traffic, 0, COLLIDING);
		took += bench_thread_ns() - begin;
	}
	return (double)took / turns / COLLIDING;
}

/* ---- rounds and results ------------------------------------------------------------------------------------------ */

static void run_rounds(unsigned repeats, struct flood *flood, struct traffic *attack) {
	struct bench_random random = {23};
	for (unsigned turn = 0; turn < repeats; turn++)
		for (enum what what = 0; what < ROWS; what++) {
			double ns = what <= NEW_BATCH  ? run_flood(flood, what)
			            : what <= COLLIDED ? run_chosen(attack, what, &random)
			                               : run_first(attack, what);
			rows[what].ns.each[rows[what].ns.count++] = ns;
			rows[what].times.each[rows[what].times.count++] = ns / rows[rows[what].base].ns.each[turn];
		}
	for (enum what what = 0; what < ROWS; what++) {
		sample_close(&rows[what].ns);
		sample_close(&rows[what].times);
	}
}

static void print_rows(unsigned repeats) {
	printf("Hostile: ns a check, median of %u (min..max)%*s  times   goal\n", repeats, 27, "");
	for (enum what what = 0; what < ROWS; what++) {
		char times[24], goal[24];
		const struct row *row = &rows[what];
		printf("  %-46s %7.1f (%6.1f..%6.1f) %8s %6s  %s\n", row->title, row->ns.median, row->ns.each[0],
		       row->ns.each[repeats - 1], bench_optional(times, "%.2fx", row->base != what ? row->times.median : 0),
		       bench_optional(goal, "%.2fx", row->goal), bench_verdict(row->times.median, row->goal, false));
	}
}

static void write_json(const char *path, unsigned repeats) {
	FILE *file = bench_json_open(path);
	fprintf(file, "{\"repeats\": %u, \"rows\": [", repeats);
	for (enum what what = 0; what < ROWS; what++) {
		const struct row *row = &rows[what];
		fprintf(file, "%s\n {\"row\": \"%s\", \"ns\": %.2f, \"min\": %.2f, \"max\": %.2f, ", what > 0 ? "," : "",
		        row->title, row->ns.median, row->ns.each[0], row->ns.each[repeats - 1]);
		fprintf(file, "\"against\": \"%s\", \"times\": %.3f, \"goal\": %.2f}", rows[row->base].title, row->times.median,
		        row->goal);
	}
	fprintf(file, "]}\n");
	bench_json_close(file, path);
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("hostile", argc, argv, 9);
	struct bench_keys keys = keys_new();
	bench_pin(0);
	(void)limits_parse(limits, LIMIT);
	struct flood flood = flood_new(keys);
	struct traffic attack = traffic_new("collisions", store_new((uint64_t)STORE_MIB << 20, BLOCKS_PERCENT), keys);
	choose(attack.store);
	run_rounds(options.repeats, &flood, &attack);
	print_rows(options.repeats);
	if (options.json != NULL)
		write_json(options.json, options.repeats);
	sluice_store_close(attack.store);
	sluice_store_close(flood.quiet.store);
	sluice_store_close(flood.full.store);
	return 0;
}
