/* What a caller may get wrong in a call of the library: each mistake by itself, with the error that sluice.h gives it,
 * and no byte of the store changed. Then limits that nobody has parsed, field by field, since a store's bytes may
 * hold any; and token buckets from numbers that a protocol has sent. */
#include "algo/rule.h"
#include "hosts/library/home.h"
#include "tests/unit/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START_NS (ASK_START_MS * ASK_MS)
#define DAY_NS ((uint64_t)86400 * 1000000000)

enum { NO_STORE = 1, NO_ROOM, NO_ITEMS, NO_LIMIT, NO_KEY, NO_MEMBER, NO_ID, BOUNDED }; /* what is missing */

/* ---- sluice_decide ----------------------------------------------------------------------------------------------- */

static const struct sluice_terms no_instants = {.penalty_count = 1, .after = 1, .penalties_ns = {1}};
static const struct sluice_terms no_denials = {.penalty_count = 1, .within_ns = 1, .penalties_ns = {1}};
static const struct sluice_terms many_denials = {
	.penalty_count = 1, .after = 65, .within_ns = 1, .penalties_ns = {1}};
static const struct sluice_terms falling = {
	.penalty_count = 2, .after = 1, .within_ns = 1, .penalties_ns = {2, 2}};
static const struct sluice_terms many_penalties = {
	.penalty_count = SLUICE_PENALTIES_MAX + 1, .after = 1, .within_ns = 1, .penalties_ns = {1}};

static const struct mistake {
	uint32_t operation;
	const char *limit;
	uint32_t missing;
	sluice_err err;
	const char *id;
	uint64_t call_ttl_ns, item_ttl_ns;
	const struct sluice_terms *terms;
	uint32_t bound, item_cost;
	bool upto, member, members; /* one; or two, in turn */
	uint32_t count; /* of items, 1 where it is 0 */
} mistakes[] = {
	{SLUICE_CHARGE, "9/1m", NO_STORE, SLUICE_E_MISUSE},
	{SLUICE_CHARGE, "9/1m", NO_ROOM, SLUICE_E_BUSY},
	{SLUICE_CHARGE, "9/1m", NO_ITEMS, SLUICE_E_MISUSE},
	{SLUICE_CHARGE, "9/1m", NO_LIMIT, SLUICE_E_MISUSE},
	{SLUICE_CHARGE, "9/1m", NO_KEY, SLUICE_E_MISUSE},
	{SLUICE_CHARGE, "distinct 9/1m", NO_MEMBER, SLUICE_E_MISUSE},
	{SLUICE_CHARGE, "9/1m", NO_ID, SLUICE_E_MISUSE},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_RANGE, .count = SLUICE_ITEMS_MAX + 1},
	{SLUICE_COMMIT + 1, "9/1m", 0, SLUICE_E_MISUSE},
	{UINT32_MAX, "9/1m", 0, SLUICE_E_MISUSE},
	/* a bound that is none, and one of no limit */
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_MISUSE, .bound = UINT8_MAX},
	{SLUICE_CHARGE, "9/1m", BOUNDED, SLUICE_E_MISUSE, .bound = 1},
	/* operations that are not for an algorithm */
	{SLUICE_CHARGE, "concurrency 9 lease 1m", 0, SLUICE_E_MISUSE},
	{SLUICE_RESERVE, "concurrency 9 lease 1m", 0, SLUICE_E_MISUSE, "id", .call_ttl_ns = DAY_NS},
	{SLUICE_REFUND, "concurrency 9 lease 1m", 0, SLUICE_E_MISUSE},
	{SLUICE_ACQUIRE, "concurrency 9 lease 1m", 0, SLUICE_E_MISUSE, "id", .item_ttl_ns = DAY_NS},
	{SLUICE_ACQUIRE, "9/1m", 0, SLUICE_E_MISUSE, "id"},
	{SLUICE_RESERVE, "distinct 9/1m", 0, SLUICE_E_MISUSE, "id", .call_ttl_ns = DAY_NS, .member = true},
	{SLUICE_CHARGE, "distinct 9/1m", 0, SLUICE_E_MISUSE},
	{SLUICE_REFUND, "distinct 9/1m", 0, SLUICE_E_MISUSE},
	/* a cost of its own beside "as much as there is" */
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_MISUSE, .upto = true, .item_cost = 1},
	/* two members of one counter, of which only one would be counted */
	{SLUICE_CHARGE, "distinct 9/1m", 0, SLUICE_E_MISUSE, .members = true, .count = 2},
	{SLUICE_PEEK, "distinct 9/1m", 0, SLUICE_E_MISUSE, .members = true, .count = 2},
	{SLUICE_REFUND, "distinct 9/1m", 0, SLUICE_E_MISUSE, .members = true, .count = SLUICE_ITEMS_MAX},
	{SLUICE_RESET, "distinct 9/1m", 0, SLUICE_OK, .members = true, .count = 2},
	{SLUICE_CHARGE, "distinct 9/1m", 0, SLUICE_OK, .member = true, .count = 2},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_OK, .members = true, .count = 2},
	/* ids */
	{SLUICE_ACQUIRE, "concurrency 9 lease 1m", 0, SLUICE_E_RANGE},
	{SLUICE_RELEASE, "concurrency 9 lease 1m", 0, SLUICE_E_RANGE, ""},
	{SLUICE_RENEW, "concurrency 9 lease 1m", 0, SLUICE_E_RANGE, ""},
	{SLUICE_COMMIT, "9/1m", 0, SLUICE_E_RANGE, ""},
	/* how long a reservation lasts */
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_E_RANGE, "id"},
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_E_RANGE, "id", .call_ttl_ns = ASK_MS - 1},
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_E_RANGE, "id", .call_ttl_ns = 3660 * DAY_NS + 1},
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_E_RANGE, "id", .item_ttl_ns = ASK_MS - 1},
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_E_RANGE, "id", .item_ttl_ns = 3660 * DAY_NS + 1},
	/* terms */
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_RANGE, .terms = &no_instants},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_RANGE, .terms = &no_denials},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_RANGE, .terms = &many_denials},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_RANGE, .terms = &falling},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_E_RANGE, .terms = &many_penalties},
	/* each bound exactly */
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_OK, "id", .call_ttl_ns = ASK_MS},
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_OK, "id", .call_ttl_ns = 3660 * DAY_NS},
	{SLUICE_RESERVE, "9/1m", 0, SLUICE_OK, "id", .item_ttl_ns = ASK_MS},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_OK, .count = SLUICE_ITEMS_MAX},
	{SLUICE_CHARGE, "9/1m", 0, SLUICE_OK, .bound = 1},
	{SLUICE_PEEK, "distinct 9/1m", 0, SLUICE_OK},
};

static sluice_err make(struct sluice_store *store, const struct mistake *m, struct sluice_call *call) {
	static const char id[SLUICE_ID_BYTES_MAX] = "id";
	struct sluice_limit limit = ask_limit(m->limit);
	struct sluice_item items[SLUICE_ITEMS_MAX + 1];
	uint32_t owner = store->owner;
	for (size_t i = 0; i < sizeof items / sizeof *items; i++)
		items[i] = (struct sluice_item){
			.limit = m->missing == NO_LIMIT || m->missing == BOUNDED ? NULL : &limit,
			.key = {m->missing == NO_KEY ? NULL : "k", 1},
			.member = {m->members ? &"mn"[i % 2] : m->member ? "m" : NULL,
			           m->members || m->member || m->missing == NO_MEMBER},
			.bound = (uint8_t)m->bound,
			.cost = m->item_cost,
			.terms = m->terms,
			.ttl_ns = m->item_ttl_ns,
		};
	*call = (struct sluice_call){
		.items = m->missing == NO_ITEMS ? NULL : items,
		.item_count = m->count != 0 ? m->count : 1,
		.cost = 1,
		.operation = (sluice_operation)m->operation,
		.upto = m->upto,
		.now = START_NS,
		.id = {m->id != NULL ? id : NULL, m->id != NULL ? strlen(m->id) : m->missing == NO_ID},
		.ttl_ns = m->call_ttl_ns,
	};
	store->owner = m->missing == NO_ROOM ? 0 : owner;
	sluice_err err = sluice_decide(m->missing == NO_STORE ? NULL : store, call);
	store->owner = owner;
	call->items = NULL;
	return err;
}

static void each_mistake_is_told_and_changes_nothing(void **state) {
	struct sluice_store *store = *state;
	void *before = malloc(store->arena_bytes);
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		struct sluice_call call;
		memcpy(before, store->header, store->arena_bytes);
		assert_int_equal(make(store, &mistakes[i], &call), mistakes[i].err);
		assert_int_equal(call.err, mistakes[i].err);
		if (mistakes[i].err != SLUICE_OK)
			assert_memory_equal(store->header, before, store->arena_bytes);
	}
	free(before);
	assert_int_equal(sluice_decide(store, NULL), SLUICE_E_MISUSE);
}

/* One byte more than an id may have. */
static void a_long_id_is_refused(void **state) {
	static const char id[SLUICE_ID_BYTES_MAX + 1] = "";
	struct sluice_limit limit = ask_limit("9/1m");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 1, .now = START_NS, .id = {id, sizeof id}};
	assert_int_equal(sluice_decide(*state, &call), SLUICE_E_RANGE);
	call.id.len--;
	assert_int_equal(sluice_decide(*state, &call), SLUICE_OK);
}

/* ---- the other calls --------------------------------------------------------------------------------------------- */

static void visit(void *context, const struct sluice_override_entry *entry) {
	(void)entry;
	++*(int *)context;
}

static void quotas_of_keys_need_a_store_a_limit_and_a_key(void **state) {
	struct sluice_store *store = *state;
	struct sluice_limit limit = ask_limit("9/1m"), own = ask_limit("20/1m"), none = ask_limit("unlimited");
	struct sluice_override_request good = {.limit = &limit, .key = sl_str("k"), .own = &own}, bad[6];
	struct sluice_override found;
	uint32_t owner = store->owner;
	int seen = 0;
	for (int i = 0; i < 6; i++)
		bad[i] = good;
	bad[0].limit = NULL;
	bad[1].own = NULL;
	bad[2].key.data = NULL;
	bad[3].name.len = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(sluice_override_set(store, &bad[i], START_NS, NULL), SLUICE_E_MISUSE);
	bad[4].ttl_ns = ASK_MS - 1;
	bad[5].name = (struct sluice_bytes){"0123456789012345678901234567890123456789012345678901234567890123456789", 65};
	for (int i = 4; i < 6; i++)
		assert_int_equal(sluice_override_set(store, &bad[i], START_NS, NULL), SLUICE_E_RANGE);
	bad[4].ttl_ns = ASK_MS;
	assert_int_equal(sluice_override_set(store, &bad[4], SLUICE_NEVER - 1, NULL), SLUICE_E_RANGE);
	assert_int_equal(sluice_override_set(NULL, &good, START_NS, NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_override_get(store, &limit, sl_str("k"), START_NS, NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_override_get(store, NULL, sl_str("k"), START_NS, &found), SLUICE_E_MISUSE);
	assert_int_equal(sluice_override_get(store, &none, sl_str("k"), START_NS, &found), SLUICE_E_NONE);
	assert_int_equal(sluice_override_delete(store, &limit, (struct sluice_bytes){NULL, 1}, START_NS), SLUICE_E_MISUSE);
	assert_int_equal(sluice_override_delete(store, &none, sl_str("k"), START_NS), SLUICE_E_NONE);
	assert_int_equal(sluice_override_list(store, 0, 9, START_NS, visit, &seen), 0); /* there is none */
	bad[4].ttl_ns = 0;
	bad[4].name = (struct sluice_bytes){bad[5].name.data, 64};
	assert_int_equal(sluice_override_set(store, &bad[4], START_NS, NULL), SLUICE_OK);
	assert_int_equal(sluice_override_list(NULL, 0, 9, START_NS, visit, &seen), 0);
	assert_int_equal(sluice_override_list(store, 0, 9, START_NS, NULL, &seen), 0);
	assert_int_equal(sluice_override_list(store, store->page_count, 9, START_NS, visit, &seen), 0);
	store->owner = 0;
	assert_int_equal(sluice_override_set(store, &good, START_NS, NULL), SLUICE_E_BUSY);
	assert_int_equal(sluice_override_get(store, &limit, sl_str("k"), START_NS, &found), SLUICE_E_BUSY);
	assert_int_equal(sluice_override_delete(store, &limit, sl_str("k"), START_NS), SLUICE_E_BUSY);
	assert_int_equal(sluice_override_list(store, 0, 9, START_NS, visit, &seen), 0);
	store->owner = owner;
	assert_int_equal(seen, 0);
	assert_int_equal(sluice_override_list(store, 0, 9, START_NS, visit, &seen), 0);
	assert_int_equal(seen, 1);
}

static void inspecting_needs_a_store_and_a_list(void **state) {
	struct sluice_store *store = *state;
	struct sluice_limit limit = ask_limit("9/1m");
	struct sluice_item items[2] = {{.limit = &limit, .key = sl_str("k")}, {.key = sl_str("k")}};
	struct sluice_item most[SLUICE_ITEMS_MAX];
	struct sluice_inspection list[SLUICE_ITEMS_MAX];
	uint32_t owner = store->owner;
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		most[i] = items[0];
	assert_int_equal(sluice_inspect(store, most, SLUICE_ITEMS_MAX, START_NS, list), SLUICE_OK);
	assert_int_equal(sluice_inspect(NULL, items, 1, START_NS, list), SLUICE_E_MISUSE);
	assert_int_equal(sluice_inspect(store, items, 1, START_NS, NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_inspect(store, items, 2, START_NS, list), SLUICE_E_MISUSE);
	assert_int_equal(sluice_inspect(store, NULL, 1, START_NS, list), SLUICE_E_MISUSE);
	assert_int_equal(sluice_inspect(store, items, SLUICE_ITEMS_MAX + 1, START_NS, list), SLUICE_E_RANGE);
	assert_int_equal(sluice_inspect(store, items, 0, START_NS, NULL), SLUICE_OK);
	store->owner = 0;
	assert_int_equal(sluice_inspect(store, items, 1, START_NS, list), SLUICE_E_BUSY);
	store->owner = owner;
	assert_int_equal(sluice_inspect(store, items, 1, START_NS, list), SLUICE_OK);
}

/* Who has no place in the store may not look; which is not to say that nobody holds anything. */
static void listing_holders_needs_a_place(void **state) {
	struct sluice_store *store = *state;
	struct sluice_limit leases = ask_limit("concurrency 9 lease 1m"), other = ask_limit("9/1m");
	struct sluice_holder list[2];
	uint32_t owner = store->owner;
	assert_int_equal(sluice_holders(NULL, &leases, sl_str("k"), START_NS, list, 2), 0);
	assert_int_equal(sluice_holders(store, NULL, sl_str("k"), START_NS, list, 2), 0);
	assert_int_equal(sluice_holders(store, &other, sl_str("k"), START_NS, list, 2), 0);
	store->owner = 0;
	assert_int_equal(sluice_holders(store, &leases, sl_str("k"), START_NS, list, 2), SLUICE_HOLDERS_BUSY);
	assert_int_equal(sluice_holders(store, &leases, sl_str("k"), START_NS, NULL, 0), SLUICE_HOLDERS_BUSY);
	assert_int_equal(sluice_holders(store, &other, sl_str("k"), START_NS, list, 2), 0);
	store->owner = owner;
	assert_int_equal(sluice_holders(store, &leases, sl_str("k"), START_NS, list, 2), 0);
}

/* Of what can't be asked nothing is told; of the same key that was shut out, it is. */
static void how_a_key_stands_needs_terms(void **state) {
	struct sluice_store *store = *state;
	const struct sluice_terms terms = {
		.penalty_count = 1, .after = 1, .within_ns = DAY_NS, .forgive_ns = DAY_NS, .penalties_ns = {DAY_NS}};
	const struct sluice_terms empty = {0};
	struct sluice_limit limit = ask_limit("0/1m"), none = ask_limit("unlimited");
	struct sluice_item good = {.limit = &limit, .key = sl_str("k"), .terms = &terms};
	struct sluice_item bad[5] = {good, good, good, good, good};
	struct sluice_call call = {.items = &good, .item_count = 1, .cost = 1, .now = START_NS};
	uint32_t owner = store->owner;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	assert_int_equal(call.penalized, 1);
	bad[0].limit = NULL;
	bad[1].limit = &none;
	bad[2].terms = NULL;
	bad[3].terms = &empty;
	bad[4].terms = &falling;
	for (int i = 0; i < 5; i++)
		assert_true(sluice_standing(store, &bad[i], START_NS).level == 0);
	assert_true(sluice_standing(NULL, &good, START_NS).level == 0);
	assert_true(sluice_standing(store, NULL, START_NS).level == 0);
	store->owner = 0;
	assert_true(sluice_standing(store, &good, START_NS).level == 0);
	store->owner = owner;
	assert_true(sluice_standing(store, &good, START_NS).ends_after_ns == DAY_NS);
}

/* ---- limits that nobody has parsed ------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(struct sluice_limit, name), sizeof((struct sluice_limit *)0)->name
#define DERIVED(name) offsetof(struct sluice_limit, derived[name]), 8
#define BUCKETS "sliding-buckets 60/1m precision 1s"

static const struct {
	const char *limit;
	size_t offset, bytes;
	uint64_t value;
} wrong[] = {
	{"9/1m", FIELD(algorithm), SLUICE_DISTINCT + 1},
	{"9/1m", FIELD(algorithm), UINT8_MAX},
	{"9/1m", FIELD(window_ns), 0},
	{"9/1m", FIELD(window_ns), ASK_MS - 1},
	{"9/1m", FIELD(window_ns), ASK_MS + 1},
	{"9/1m", FIELD(window_ns), 3660 * DAY_NS + ASK_MS},
	{"9/1m", FIELD(window_ns), DAY_NS},
	{"9/1m", FIELD(quota), 8},
	{"9/1m", FIELD(zone), 1},
	{"9/1m", FIELD(calendar), SLUICE_CALENDAR_DAY},
	{"9/1m", DERIVED(SL_WINDOW_INVERSE), 1},
	{"9/1m", DERIVED(SL_CAPACITY), 1},
	{"unlimited", DERIVED(SL_CAPACITY), 1},
	{"unlimited", FIELD(zone), 1},
	{"9/month at UTC", FIELD(calendar), SLUICE_CALENDAR_YEAR},
	{"9/month at UTC", FIELD(calendar), SLUICE_CALENDAR_YEAR + 1},
	{"9/month at UTC", FIELD(zone), UINT16_MAX},
	{"9/month at UTC", FIELD(window_ns), DAY_NS},
	{"9/month at UTC", FIELD(algorithm), SLUICE_SLIDING_WINDOW},
	{"9/1m spread", FIELD(burst), SL_PHASES + 1},
	{"9/1m spread", FIELD(burst), 2},
	{"9/1m spread", FIELD(algorithm), SLUICE_SLIDING_LOG | SLUICE_SPREAD},
	{"9/1m spread", DERIVED(SL_AHEAD_NS), UINT64_MAX},
	{BUCKETS, FIELD(bucket_count), 0},
	{BUCKETS, FIELD(bucket_count), 1},
	{BUCKETS, FIELD(bucket_count), 59},
	{BUCKETS, FIELD(bucket_count), SL_BUCKETS_MAX + 1},
	{BUCKETS, FIELD(edge), SLUICE_EDGE_DENY},
	{BUCKETS, FIELD(precision_ns), 0},
	{BUCKETS, FIELD(precision_ns), ASK_MS},
	{BUCKETS, DERIVED(SL_PRECISION_INVERSE), 1},
	{BUCKETS, DERIVED(SL_RING_INVERSE), 1},
	{"concurrency 9 lease 1m", FIELD(bucket_count), 1},
	{"concurrency 9 lease 1m", FIELD(precision_ns), 1},
	{"concurrency 9 lease 1m", FIELD(burst), 1},
	{"distinct 9/1m", FIELD(edge), SLUICE_EDGE_DENY},
	{"distinct 2k/1m", FIELD(edge), SLUICE_EDGE_COUNT},
	{"distinct 2k/1m", FIELD(burst), 0},
	{"distinct 2k/1m", FIELD(burst), SL_REGISTERS_MIN / 2},
	{"distinct 2k/1m", FIELD(burst), SL_REGISTERS_MIN + 1},
	{"distinct 2k/1m", FIELD(burst), 2 * SL_REGISTERS_MAX},
	{"token-bucket 9/1m", FIELD(burst), 1},
	{"token-bucket 9/1m", DERIVED(SL_TICK_NS), 7},
	{"token-bucket 9/1m", DERIVED(SL_WINDOW_TICKS), 1},
};

static void each_wrong_field_of_a_limit_is_seen(void **state) {
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct sluice_limit limit = ask_limit(wrong[i].limit);
		sl_rule_key(&limit, sl_str("k"));
		assert_true(sl_rule_is_valid(&limit));
		memcpy((char *)&limit + wrong[i].offset, &wrong[i].value, wrong[i].bytes); /* little-endian, as arenas are */
		if (sl_rule_is_valid(&limit))
			fail_msg("row %zu: %s", i, wrong[i].limit);
	}
	(void)state;
}

static const struct {
	uint64_t quota, window_ns, burst;
	const char *told;
} numbers[] = {
	{0, ASK_MS, 1, "the count must be 1..4294967295"},
	{UINT64_C(1) << 32, ASK_MS, 1, "the count must be 1..4294967295"},
	{1, 0, 1, "the period must be whole milliseconds from 1 ms to 3660 d"},
	{1, ASK_MS - 1, 1, "the period must be whole milliseconds from 1 ms to 3660 d"},
	{1, ASK_MS + 1, 1, "the period must be whole milliseconds from 1 ms to 3660 d"},
	{1, 3660 * DAY_NS + ASK_MS, 1, "the period must be whole milliseconds from 1 ms to 3660 d"},
	{1, ASK_MS, 0, "the burst must be 1..4294967295"},
	{1, ASK_MS, UINT64_C(1) << 32, "the burst must be 1..4294967295"},
	{1, ASK_MS, 1, NULL},
	{UINT32_MAX, 3660 * DAY_NS, UINT32_MAX, NULL},
};

static void a_bucket_of_numbers_is_right_or_refused(void **state) {
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		struct sluice_limit limit = {0};
		struct sluice_error error = {.column = 7};
		sluice_err err =
			sl_rule_make_token_bucket(&limit, numbers[i].quota, numbers[i].window_ns, numbers[i].burst, &error);
		assert_int_equal(err, numbers[i].told != NULL ? SLUICE_E_RANGE : SLUICE_OK);
		assert_int_equal(sl_rule_make_token_bucket(&limit, numbers[i].quota, numbers[i].window_ns, numbers[i].burst,
		                                           NULL), err);
		if (numbers[i].told != NULL) {
			assert_string_equal(error.text, numbers[i].told);
			assert_int_equal(error.column, 0);
			assert_int_equal(limit.window_ns, 0); /* untouched */
		} else {
			assert_true(sl_rule_is_valid(&limit) && limit.quota == numbers[i].quota && limit.burst == numbers[i].burst);
		}
	}
	(void)state;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ask_open, ask_close)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(each_mistake_is_told_and_changes_nothing),
		TEST(a_long_id_is_refused),
		TEST(quotas_of_keys_need_a_store_a_limit_and_a_key),
		TEST(inspecting_needs_a_store_and_a_list),
		TEST(listing_holders_needs_a_place),
		TEST(how_a_key_stands_needs_terms),
		cmocka_unit_test(each_wrong_field_of_a_limit_is_seen),
		cmocka_unit_test(a_bucket_of_numbers_is_right_or_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
