/* reserved: what calls cost beside thousands of open reservations, for what counts instructions:
 *
 *     valgrind --tool=callgrind --instr-atstart=no --toggle-collect='measure_*' \
 *         reserved HOST LIMIT PATTERN OPEN CHARGES
 *
 * HOST is `store` (the library) or `module` (hosts/redis without a Redis). CHARGES of the counter are made in turn,
 * 1 ms from each other, of which OPEN are reserved, evenly spread:
 *   moving   each for as long       equal   until one instant      mixed   until any instant
 * Then each measure_ function is called ROUNDS times, RESERVE and COMMIT in turn, so that OPEN stay open; at last all
 * have ended, and one CHECK corrects them. Commits take any reservation that is open, at random. It prints OPEN, and
 * what was admitted, so that nobody measures denials. */
#include "bench/bench.h"

#include "hosts/redis/decide.h"

enum { ROUNDS = 32, STEP_MS = 1, TTL_MS = 60000, OPEN_MAX = 16384 };

static struct sluice_store *store;
static slr_value value;
static struct sluice_limit limit;
static bool module;
static uint64_t now_ms = UINT64_C(1800000000000);
static uint64_t ids[OPEN_MAX + 1];
static uint32_t id_count, admitted;

static int64_t wall_ms(void) {
	return (int64_t)now_ms;
}

static struct sluice_decision in_module(enum sl_operation operation, uint32_t cost, uint64_t id, uint64_t ttl_ms) {
	static struct slr_call call;
	call.operation = operation;
	call.asked.item_count = call.key_count = 1;
	call.asked.cost = cost;
	call.id = id;
	call.asked.id = sl_slice("id", id != 0 ? 2 : 0);
	call.asked.ttl_ns = ttl_ms * SL_MS_NS;
	call.asked.now = now_ms * SL_MS_NS;
	call.wall_ms = wall_ms;
	call.items[0].limit = &limit;
	call.keys[0].value = value;
	if (slr_decide(&call) != SLR_FINE)
		exit(1);
	value = call.keys[0].value;
	if (operation == SL_OP_COMMIT && call.asked.found != 1)
		exit(3);
	return call.asked.merged;
}

static struct sluice_decision in_store(sluice_operation operation, uint32_t cost, uint64_t id, uint64_t ttl_ms) {
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .operation = operation};
	char text[17];
	int len = snprintf(text, sizeof text, "%016llx", (unsigned long long)id);
	call.now = now_ms * SL_MS_NS;
	call.ttl_ns = ttl_ms * SL_MS_NS;
	call.id = id != 0 ? sl_slice(text, (size_t)len) : sl_slice(NULL, 0);
	if (sluice_decide(store, &call) != SLUICE_OK)
		exit(1);
	if (operation == SLUICE_COMMIT && call.found != 1)
		exit(3);
	return call.merged;
}

__attribute__((noinline)) static bool measure_check(uint32_t cost) {
	return module ? in_module(SL_OP_CHECK, cost, 0, 0).allowed : in_store(SLUICE_CHARGE, cost, 0, 0).allowed;
}

/* Both waits of a denial. */
__attribute__((noinline)) static bool measure_denied(void) {
	uint32_t whole = (uint32_t)limit.derived[SL_CAPACITY];
	return module ? in_module(SL_OP_CHECK, whole, 0, 0).allowed : in_store(SLUICE_CHARGE, whole, 0, 0).allowed;
}

__attribute__((noinline)) static bool measure_reserve(uint64_t id, uint64_t ttl_ms) {
	return module ? in_module(SL_OP_RESERVE, 2, id, ttl_ms).allowed : in_store(SLUICE_RESERVE, 2, id, ttl_ms).allowed;
}

__attribute__((noinline)) static void measure_commit(uint64_t id) {
	if (module)
		in_module(SL_OP_COMMIT, 1, id, 0);
	else
		in_store(SLUICE_COMMIT, 1, id, 0);
}

__attribute__((noinline)) static bool measure_ended(void) {
	return module ? in_module(SL_OP_CHECK, 1, 0, 0).allowed : in_store(SLUICE_CHARGE, 1, 0, 0).allowed;
}

static uint64_t next_ttl(const char *pattern, struct bench_random *random, uint64_t last_ms) {
	if (pattern[0] == 'e')
		return last_ms - now_ms;
	return pattern[0] == 'x' || pattern[1] == 'i' ? TTL_MS + bench_next(random) % TTL_MS : TTL_MS;
}

/* Not measured. */
static void reserve(uint64_t id, uint64_t ttl_ms) {
	struct sluice_decision d =
		module ? in_module(SL_OP_RESERVE, 2, id, ttl_ms) : in_store(SLUICE_RESERVE, 2, id, ttl_ms);
	admitted += d.allowed;
	ids[id_count++] = id;
}

int main(int argc, char **argv) {
	struct bench_random random = {7};
	struct sluice_store_options options = {.memory_bytes = (uint64_t)64 << 20};
	uint64_t open, charges, last_ms;
	if (argc != 6 || sluice_limit_parse(&limit, sl_str(argv[2]), NULL) != SLUICE_OK ||
	    sluice_store_open(&store, &options, NULL) != SLUICE_OK) {
		fprintf(stderr, "usage: reserved store|module LIMIT moving|equal|mixed OPEN CHARGES\n");
		return 2;
	}
	module = argv[1][0] == 'm';
	open = bench_number("OPEN", argv[4], 1, OPEN_MAX - 1);
	charges = bench_number("CHARGES", argv[5], open, 1000000);
	last_ms = now_ms + charges * STEP_MS + TTL_MS;
	for (uint64_t i = 0, reserved = 0; i < charges; i++, now_ms += STEP_MS) {
		if ((i + 1) * open / charges > reserved) {
			reserved++;
			reserve(bench_next(&random) | 1, next_ttl(argv[3], &random, last_ms));
		} else if (module) {
			in_module(SL_OP_CHECK, 2, 0, 0);
		} else {
			in_store(SLUICE_CHARGE, 2, 0, 0);
		}
	}
	bench_count_from_here();
	for (int i = 0; i < ROUNDS; i++, now_ms += STEP_MS) {
		uint64_t at = bench_next(&random) % id_count, id = bench_next(&random) | 1;
		admitted += measure_reserve(id, next_ttl(argv[3], &random, last_ms));
		admitted += measure_check(1);
		if (measure_denied())
			return 4;
		measure_commit(ids[at]);
		ids[at] = id;
	}
	now_ms += 2 * TTL_MS;
	admitted += measure_ended();
	printf("open %u admitted %u of %llu\n", id_count, admitted, (unsigned long long)open + 2 * ROUNDS + 1);
	return admitted == open + 2 * ROUNDS + 1 ? 0 : 5;
}
