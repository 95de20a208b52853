/* capacity: bytes a key and bytes an event, found by filling stores until they have to evict.
 *
 * A store's memory is given beforehand, so "bytes a key" is all of that memory - header, locks, sketch, block map,
 * empty places - over the counters that it held before the first one was evicted: what an operator has to reckon with.
 *
 *   keys     new keys until the first eviction, and on until one key in ten thousand has been evicted
 *   filled   logs and sub-buckets, key after key, until the first eviction
 *   steady   logs that are full at every instant while their window slides, all keys taking turns, for three windows:
 *            the most keys with which nothing is ever evicted or refused. A log asks for a little more than its quota
 *
 * Events are spread over the window. For logs the share of memory that is for blocks is shown as well: with 1,000
 * events a key the slots need 1 %, and blocks_percent ends at 98. Resident growth is as the system sees it. */
#include "bench/traffic.h"
#include "store/store.h"

enum {
	FILLED_MIB = 64,
	STEADY_MIB = 32,
	SHORT_MIB = 8, /* of both, where --keys-max asks for a short run */
	KEYS = 10000000,
	KEY_BYTES_FIRST = 38, /* memory for each of KEYS; what they need turns out */
	KEYS_REPEATS = 3,
	CHUNK = 8192, /* keys between two looks at what was evicted */
	RARE = 10000,
	WINDOWS = 3,
	PER_MILLE = 1000,
};

enum kind { ROW_KEYS, ROW_FILLED, ROW_STEADY };

static struct row {
	const char *title, *limit;
	enum kind kind;
	uint64_t each; /* charges that a key holds */
	unsigned blocks_percent;
	double goal, at_most; /* bytes; 0: none */
	uint64_t count;       /* keys, or events where `of_events` */
	double bytes, bytes_rare, bytes_blocks, resident;
} rows[] = {
	{"a key: sliding-window", "100/1h", ROW_KEYS, 1, 1, 32, 40, 0, 0, 0, 0, 0},
	{"a key: token-bucket", "token-bucket 100/1h", ROW_KEYS, 1, 1, 32, 40, 0, 0, 0, 0, 0},
	{"a key: fixed-window", "fixed-window 100/100d", ROW_KEYS, 1, 1, 32, 40, 0, 0, 0, 0, 0},
	{"a key: sliding-log 10/1h holding 10", "sliding-log 10/1h", ROW_FILLED, 10, 60, 0, 0, 0, 0, 0, 0, 0},
	{"a key: sliding-log 100/1h holding 100", "sliding-log 100/1h", ROW_FILLED, 100, 90, 0, 0, 0, 0, 0, 0, 0},
	{"a key: sliding-buckets of 60, one in use", "sliding-buckets 240/1h precision 1m", ROW_FILLED, 1, 80, 0, 0, 0, 0,
     0, 0, 0},
	{"an event: log of 1,000, 30 s", "sliding-log 1000/30s", ROW_FILLED, 1000, 98, 4.5, 0, 0, 0, 0, 0, 0},
	{"an event: log of 1,000, 30 s, steady", "sliding-log 1000/30s", ROW_STEADY, 1000, 98, 4.5, 0, 0, 0, 0, 0, 0},
	{"an event: log of 1,000, 1 h", "sliding-log 1000/1h", ROW_FILLED, 1000, 98, 4.5, 0, 0, 0, 0, 0, 0},
	{"an event: log of 1,000, 1 h, steady", "sliding-log 1000/1h", ROW_STEADY, 1000, 98, 4.5, 0, 0, 0, 0, 0, 0},
	{"an event: log of 10,000, 1 h", "sliding-log 10k/1h", ROW_FILLED, 10000, 98, 4.5, 0, 0, 0, 0, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static uint64_t keys_wanted = KEYS;
static uint64_t filled_bytes = (uint64_t)FILLED_MIB << 20, steady_bytes = (uint64_t)STEADY_MIB << 20;

/* The figure of sluice_store_stats(), which walks the whole store, without the walk. */
static uint64_t evicted_of(const struct sluice_store *store) {
	return __atomic_load_n(&store->header->evicted, __ATOMIC_RELAXED);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Fills one store. `first`: keys that it held when none had been evicted; `rare`: keys when one in RARE had been. */
static void fill_keys(const struct row *row, const struct bench_keys *keys, double *first, double *rare,
                      double *resident) {
	struct sluice_limit limits[TRAFFIC_LIMITS_MAX];
	uint64_t before = bench_resident_bytes(), user = 0;
	struct sluice_store *store = store_new(keys_wanted * KEY_BYTES_FIRST, row->blocks_percent);
	struct traffic traffic = {.title = row->title,
	                          .store = store,
	                          .limits = limits,
	                          .cost = 1,
	                          .keys = *keys,
	                          .now = sluice_now(),
	                          .step_ns = 1};
	traffic.limit_count = limits_parse(limits, row->limit);
	*first = 0;
	while (evicted_of(store) * RARE <= user) {
		(void)traffic_fill(&traffic, user, CHUNK);
		user += CHUNK;
		if (evicted_of(store) == 0) {
			*first = (double)user;
			*resident = (double)(bench_resident_bytes() - before) / (double)user;
		}
	}
	if (traffic.allowed != user || *first == 0)
		traffic_die(row->title, "did not fill");
	*rare = (double)user;
	sluice_store_close(store);
}

static void run_keys(struct row *row, const struct bench_keys *keys) {
	double first[KEYS_REPEATS], rare[KEYS_REPEATS], resident[KEYS_REPEATS];
	for (unsigned i = 0; i < KEYS_REPEATS; i++)
		fill_keys(row, keys, &first[i], &rare[i], &resident[i]);
	double memory = (double)(keys_wanted * KEY_BYTES_FIRST), count = bench_median(first, KEYS_REPEATS);
	row->count = (uint64_t)count;
	row->bytes = memory / count;
	row->bytes_rare = memory / bench_median(rare, KEYS_REPEATS);
	row->resident = bench_median(resident, KEYS_REPEATS);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* One key's charges at a given instant each. */
struct charge {
	struct sluice_limit limit;
	struct sluice_item item;
	struct sluice_call call;
	char key[BENCH_KEY_BYTES];
};

static void charge_init(struct charge *charge, const struct row *row) {
	struct sluice_limit limits[TRAFFIC_LIMITS_MAX];
	memset(charge, 0, sizeof *charge);
	(void)limits_parse(limits, row->limit);
	charge->limit = limits[0];
	charge->item = (struct sluice_item){.limit = &charge->limit, .key = {charge->key, BENCH_KEY_BYTES}};
	charge->call = (struct sluice_call){.items = &charge->item, .item_count = 1, .cost = 1};
}

static bool is_of_events(const struct row *row) {
	return strncmp(row->title, "an event", 8) == 0;
}

static void set_result(struct row *row, uint64_t memory, uint64_t count, uint64_t resident) {
	row->count = count;
	row->bytes = (double)memory / (double)count;
	row->bytes_blocks = row->bytes * row->blocks_percent / 100;
	row->resident = (double)resident / (double)count;
}

static void run_filled(struct row *row) {
	struct charge charge;
	uint64_t before = bench_resident_bytes(), keys = 0, resident = 0;
	struct sluice_store *store = store_new(filled_bytes, row->blocks_percent);
	const sluice_ns start = sluice_now();
	charge_init(&charge, row);
	for (bool fits = true; fits; keys += fits) {
		bench_key(charge.key, keys);
		resident = bench_resident_bytes() - before;
		for (uint64_t i = 0; i < row->each && fits; i++) {
			charge.call.now = start + i * (charge.limit.window_ns / (row->each + 1));
			fits = sluice_decide(store, &charge.call) == SLUICE_OK && evicted_of(store) == 0 &&
			       charge.call.merged.bound == SLUICE_BOUND_NONE;
			if (fits && !charge.call.merged.allowed)
				traffic_die(row->title, "denied what its quota admits");
		}
	}
	if (charge.call.err != SLUICE_OK || keys == 0)
		traffic_die(row->title, "stopped for another reason than that it was full");
	set_result(row, filled_bytes, is_of_events(row) ? keys * row->each : keys, resident);
	sluice_store_close(store);
}

/* Whether `keys` logs stay full through WINDOWS windows with nothing evicted or refused. */
static bool holds_steady(const struct row *row, uint64_t keys, uint64_t *resident) {
	struct charge charge;
	struct bench_random random = {keys};
	uint64_t before = bench_resident_bytes(), allowed = 0;
	struct sluice_store *store = store_new(steady_bytes, row->blocks_percent);
	const sluice_ns start = sluice_now();
	bool fits = true;
	charge_init(&charge, row);
	/* one more in a hundred than the quota: the log is full whenever it is asked */
	const uint64_t turns = row->each + row->each / 100;
	const sluice_ns step = charge.limit.window_ns / turns;
	for (uint64_t turn = 0; turn < WINDOWS * turns && fits; turn++)
		for (uint64_t user = 0; user < keys && fits; user++) {
			bench_key(charge.key, user);
			charge.call.now = start + turn * step + bench_below(&random, step);
			fits = sluice_decide(store, &charge.call) == SLUICE_OK && evicted_of(store) == 0;
			allowed += charge.call.merged.allowed;
		}
	*resident = bench_resident_bytes() - before;
	sluice_store_close(store);
	if (fits && allowed * PER_MILLE < keys * row->each * WINDOWS * (PER_MILLE - 10))
		traffic_die(row->title, "the logs were not full");
	return fits;
}

/* Goes down from what a key-after-key fill of the same limit holds, 1 % at a time. */
static void run_steady(struct row *row) {
	uint64_t resident = 0, most = 0;
	for (unsigned i = 0; i < ROWS; i++)
		if (rows[i].kind == ROW_FILLED && strcmp(rows[i].limit, row->limit) == 0)
			most = rows[i].count / row->each * steady_bytes / filled_bytes;
	uint64_t keys = most;
	while (keys > 0 && !holds_steady(row, keys, &resident))
		keys -= most / 100 + 1 < keys ? most / 100 + 1 : keys;
	if (keys == 0)
		traffic_die(row->title, "no number of keys stays without an eviction");
	set_result(row, steady_bytes, keys * row->each, resident);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static const char *verdict(const struct row *row) {
	if (row->goal == 0 || row->bytes <= row->goal || row->at_most == 0 || row->bytes > row->at_most)
		return bench_verdict(row->bytes, row->goal, false);
	return "short, within 40";
}

static void print_row(const struct row *row) {
	char goal[24], rare[24], blocks[24];
	printf("  %-42s %9llu %8.1f %8s %8s %8.1f %6s  %s\n", row->title, (unsigned long long)row->count, row->bytes,
	       bench_optional(rare, "%.1f", row->bytes_rare), bench_optional(blocks, "%.1f", row->bytes_blocks),
	       row->resident, bench_optional(goal, "%.1f", row->goal), verdict(row));
	fflush(stdout);
}

static void write_row(FILE *json, const struct row *row, bool first) {
	fprintf(json, "%s\n {\"of\": \"%s\", \"limit\": \"%s\", \"count\": %llu, \"bytes\": %.2f, ", first ? "" : ",",
	        row->title, row->limit, (unsigned long long)row->count, row->bytes);
	fprintf(json, "\"bytes_rare\": %.2f, \"bytes_blocks\": %.2f, \"resident\": %.2f, \"goal\": %.1f}", row->bytes_rare,
	        row->bytes_blocks, row->resident, row->goal);
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("capacity", argc, argv, 1);
	struct bench_keys keys = keys_new();
	if (options.keys_max < keys_wanted) {
		keys_wanted = options.keys_max;
		filled_bytes = steady_bytes = (uint64_t)SHORT_MIB << 20;
	}
	printf("Bytes of full stores: %*s count   all in 1/10,000   blocks resident   goal\n", 28, "");
	for (unsigned i = 0; i < ROWS; i++) {
		if (strstr(rows[i].title, options.only) == NULL)
			continue;
		if (rows[i].kind == ROW_KEYS)
			run_keys(&rows[i], &keys);
		else if (rows[i].kind == ROW_FILLED)
			run_filled(&rows[i]);
		else
			run_steady(&rows[i]);
		print_row(&rows[i]);
	}
	if (options.json == NULL)
		return 0;
	FILE *json = bench_json_open(options.json);
	fprintf(json, "[");
	for (unsigned i = 0; i < ROWS; i++)
		write_row(json, &rows[i], i == 0);
	fprintf(json, "]\n");
	bench_json_close(json, options.json);
	return 0;
}
