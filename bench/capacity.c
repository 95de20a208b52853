/* capacity: bytes a key and bytes an event, found by filling a store until it refuses.
 *
 * A store's memory is given beforehand, so "bytes a key" is that memory over the keys that went in before the first one
 * that found no room: what an operator has to reckon with, headers, locks, empty places and all. For logs the share of
 * memory that holds them is what is divided, by the charges that they hold. Resident growth is shown beside it, as the
 * system sees it.
 */
#include "bench/bench.h"
#include "sluice.h"

enum { MEMORY_MIB = 64, STEP_NS = 2000000 };

struct fill {
	const char *title, *limit;
	uint64_t each;            /* charges a key gets */
	unsigned blocks_percent;
	bool of_events;           /* divide by charges, not by keys */
	double goal_bytes;        /* 0: none */
	double bytes, resident;
	uint64_t count;
};

static struct fill fills[] = {
	{"a key: sliding-window", "100/1m", 1, 1, false, 32, 0, 0, 0},
	{"a key: token-bucket", "token-bucket 100/1m", 1, 1, false, 32, 0, 0, 0},
	{"a key: sliding-log 10/1h holding 10", "sliding-log 10/1h", 10, 60, false, 0, 0, 0, 0},
	{"a key: sliding-log 100/1h holding 100", "sliding-log 100/1h", 100, 90, false, 0, 0, 0, 0},
	{"a key: sliding-buckets of 60, one in use", "sliding-buckets 240/1h precision 1m", 1, 80, false, 0, 0, 0, 0},
	{"an event: log of 1,000, within 30 s", "sliding-log 1000/30s", 1000, 90, true, 4.5, 0, 0, 0},
	{"an event: log of 1,000, within 1 h", "sliding-log 1000/1h", 1000, 90, true, 4.5, 0, 0, 0},
	{"an event: log of 10,000, within 1 h", "sliding-log 10k/1h", 10000, 90, true, 4.5, 0, 0, 0},
};

enum { FILL_COUNT = sizeof fills / sizeof *fills };

/* Charges keys one after another until the store has no room; each key's charges are 2 ms apart, so none merge. */
static void run_fill(struct fill *fill) {
	struct sluice_store_options options = {(uint64_t)MEMORY_MIB << 20, fill->blocks_percent};
	struct sluice_limit limit;
	struct sluice_store *store = NULL;
	struct sluice_error error = {.text = ""};
	struct sluice_bytes text = {fill->limit, strlen(fill->limit)};
	uint64_t before = bench_resident_bytes(), keys = 0, charges = 0;
	if (sluice_limit_parse(&limit, text, &error) != SLUICE_OK ||
	    sluice_store_open(&store, &options, &error) != SLUICE_OK) {
		fprintf(stderr, "capacity: %s: %s\n", fill->limit, error.text);
		exit(2);
	}
	char key[BENCH_KEY_BYTES];
	struct sluice_item item = {.limit = &limit, .key = {key, sizeof key}};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1};
	const sluice_ns start = sluice_now();
	for (;; keys++) {
		bench_key(key, keys);
		uint64_t i = 0;
		for (; i < fill->each; i++) {
			call.now = start + i * STEP_NS;
			if (sluice_decide(store, &call) != SLUICE_OK)
				break;
			charges += call.merged.allowed;
		}
		if (i < fill->each)
			break;
	}
	if (call.err != SLUICE_E_FULL || charges < keys * fill->each || keys == 0) {
		fprintf(stderr, "capacity: %s: stopped at key %llu with error %d after %llu charges, not because it was full\n",
		        fill->limit, (unsigned long long)keys, (int)call.err, (unsigned long long)charges);
		exit(1);
	}
	fill->count = fill->of_events ? charges : keys;
	double share = fill->of_events ? fill->blocks_percent / 100.0 : 1;
	fill->bytes = share * (double)options.memory_bytes / (double)fill->count;
	fill->resident = (double)(bench_resident_bytes() - before) / (double)fill->count;
	sluice_store_close(store);
}

static void write_json(FILE *json, const struct fill *fill, bool first) {
	fprintf(json, "%s\n {\"of\": \"%s\", \"limit\": \"%s\", ", first ? "" : ",", fill->title, fill->limit);
	fprintf(json, "\"count\": %llu, \"bytes\": %.2f, \"resident\": %.2f}", (unsigned long long)fill->count,
	        fill->bytes, fill->resident);
}

int main(int argc, char **argv) {
	FILE *json = NULL;
	if (argc == 3 && strcmp(argv[1], "--json") == 0) {
		json = fopen(argv[2], "we");
		if (json == NULL)
			bench_die(argv[2]);
	} else if (argc != 1) {
		fprintf(stderr, "usage: capacity [--json FILE]\n");
		return 2;
	}
	printf("Bytes when %d MiB are full%*s count   bytes resident  goal\n", MEMORY_MIB, 32, "");
	if (json != NULL)
		fprintf(json, "[");
	for (unsigned i = 0; i < FILL_COUNT; i++) {
		struct fill *fill = &fills[i];
		run_fill(fill);
		char goal[24] = "";
		if (fill->goal_bytes > 0)
			snprintf(goal, sizeof goal, "%.1f  %s", fill->goal_bytes,
			         fill->bytes <= fill->goal_bytes ? "PASS" : "short");
		printf("  %-54s %9llu %7.1f %8.1f  %s\n", fill->title, (unsigned long long)fill->count, fill->bytes,
		       fill->resident, goal);
		if (json != NULL)
			write_json(json, fill, i == 0);
	}
	if (json != NULL && (fprintf(json, "]\n") < 0 || fclose(json) != 0))
		bench_die(argv[2]);
	return 0;
}
