/* full: how many users a store that is made for a policy holds, and what each costs once it is full.
 *
 * examples/sluice.yaml, its own 256 MiB (or a part, by --keys-max), split as a server would split it. Users come who
 * were never seen; each is a slot for per-user and a slot with a block for per-user-daily.
 *
 *   once     users who ask once, until the first counter in use is evicted
 *   all day  the same number of users asks again every two hours of a day: how many counters were evicted by its end
 *   room     CPU time of an admission of a new user while there is room for its block
 *   none     the same once there is none. Instructions:
 *     valgrind --tool=callgrind --toggle-collect='measure_*' full --repeats 1 --keys-max 100000 --only none */
#include "bench/traffic.h"
#include "policy/footprint.h"
#include "store/store.h"

enum { ROUND = 4096, FILLED_OF = 20, HOURS = 24, STEP_HOURS = 2, MIB_A_MILLION = 512 };

static struct sluice_policy *policy;
static struct sluice_store *store;
static sluice_ns now;
static uint64_t users, allowed;

static void load(void) {
	struct sluice_problems problems;
	char *yaml = malloc(1 << 20);
	FILE *file = fopen("examples/sluice.yaml", "r");
	if (yaml == NULL || file == NULL)
		bench_die("examples/sluice.yaml");
	size_t len = fread(yaml, 1, 1 << 20, file);
	fclose(file);
	if (sluice_policy_load(&policy, (struct sluice_bytes){yaml, len}, &problems) != SLUICE_OK)
		traffic_die("examples/sluice.yaml", "did not load");
	sluice_problems_free(&problems);
	free(yaml);
}

static uint64_t evicted(void) {
	return __atomic_load_n(&store->header->evicted, __ATOMIC_RELAXED);
}

static void admit(uint64_t user) {
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	char name[BENCH_KEY_BYTES];
	struct sluice_match match;
	bench_key(name, user);
	const struct sluice_attribute attributes[] = {
		{{"method", 6}, {"GET", 3}},
		{{"path", 4}, {"/", 1}},
		{{"ip", 2}, {"203.0.113.7", 11}},
		{{"user", 4}, {name, BENCH_KEY_BYTES}},
	};
	if (sluice_policy_match(policy, attributes, 4, &match, buffer, sizeof buffer) != SLUICE_OK)
		traffic_die("full", "did not match");
	struct sluice_call call = {.items = match.items, .item_count = match.count, .cost = 1, .now = now += 50};
	if (sluice_decide(store, &call) != SLUICE_OK || match.count != 2)
		traffic_die("full", "did not decide");
	allowed += call.merged.allowed;
}

static __attribute__((noinline)) double measure_new(void) {
	uint64_t begin = bench_thread_ns();
	for (unsigned i = 0; i < ROUND; i++)
		admit(users++);
	return (double)(bench_thread_ns() - begin) / ROUND;
}

/* Users of a day, some of whom ask in each of its hours. */
static uint64_t evicted_by_a_day(uint64_t memory, uint64_t count) {
	store = store_new(memory, sl_policy_blocks_percent(policy));
	sluice_ns start = sluice_now();
	for (unsigned hour = 0; hour < HOURS; hour += STEP_HOURS) {
		now = start + hour * (sluice_ns)3600000000000;
		for (uint64_t user = 0; user < count; user++)
			admit(user);
	}
	uint64_t gone = evicted();
	sluice_store_close(store);
	return gone;
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("full", argc, argv, 9);
	struct bench_sample room = {0}, none = {0};
	uint64_t once, gone = 0;
	load();
	uint64_t memory = sl_policy_settings(policy)->memory_bytes;
	if (options.keys_max < 500000)
		memory = options.keys_max * MIB_A_MILLION / 1000000 << 20;
	now = sluice_now();
	store = store_new(memory, sl_policy_blocks_percent(policy));
	bench_pin(0);
	(void)sluice_store_pretouch(store, 0, memory); /* the system's work, which either side would pay by chance */
	for (unsigned i = 0; i < options.repeats; i++)
		room.each[room.count++] = measure_new();
	while (evicted() == 0)
		admit(users++);
	once = users;
	for (uint64_t until = users + users / FILLED_OF; users < until;)
		admit(users++);
	for (unsigned i = 0; i < options.repeats; i++)
		none.each[none.count++] = measure_new();
	sluice_store_close(store);
	if (options.only[0] == '\0')
		gone = evicted_by_a_day(memory, once / 20 * 19);
	sample_close(&room);
	sample_close(&none);
	printf("full: examples/sluice.yaml in %llu MiB, blocks %u%%\n", (unsigned long long)memory >> 20,
	       sl_policy_blocks_percent(policy));
	printf("  users before the first counter in use goes %10llu %8.1f bytes each  goal 550000 of 256 MiB  %s\n",
	       (unsigned long long)once, (double)memory / (double)once,
	       bench_verdict((double)memory / (double)once, (double)(UINT64_C(256) << 20) / 550000, false));
	printf("  counters that 19 of 20 of them, active all day, lose %llu\n", (unsigned long long)gone);
	printf("  ns of CPU time of a new user, with room %8.1f (%.1f..%.1f), without %8.1f (%.1f..%.1f)\n", room.median,
	       room.each[0], room.each[options.repeats - 1], none.median, none.each[0], none.each[options.repeats - 1]);
	printf("  without to with %28.2fx  goal 2.0x  %s\n", none.median / room.median,
	       bench_verdict(none.median / room.median, 2, false));
	if (options.json != NULL) {
		FILE *json = bench_json_open(options.json);
		fprintf(json, "{\"users\": %llu, \"room_ns\": %.1f, \"none_ns\": %.1f, \"ratio\": %.3f}\n",
		        (unsigned long long)once, room.median, none.median, none.median / room.median);
		bench_json_close(json, options.json);
	}
	return allowed == 0;
}
