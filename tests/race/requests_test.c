/* Requests of several limits from many threads: in any order of keys without a deadlock, all or nothing, and nothing
 * lost when some charge, some give back and some forget. */
#include "tests/race/crew.h"

#include "base/bytes.h"
#include "store/store.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { KEYS = 12, LIMITS = 6, COUNTERS = KEYS * LIMITS, REQUESTS = 40000 / CREW_SLOWNESS };

static const char *const notations[LIMITS] = {
	"fixed-window 4000/1d", "sliding-window 4500/1d", "sliding-buckets 5000/1d precision 1h edge count",
	"sliding-log 5500/1d",  "token-bucket 6000/1d",   "leaky-bucket 6500/1d queue 6499",
};
static const uint32_t quotas[LIMITS] = {4000, 4500, 5000, 5500, 6000, 6500};

/* Who was charged how much, counted by the threads themselves. */
struct ledger {
	uint64_t charged[COUNTERS]; /* atomic; net of refunds */
	uint64_t denied;            /* atomic */
};

static void key_name(uint32_t key, char name[16]) {
	snprintf(name, 16, "key%" PRIu32, key);
}

/* A request over some of the counters, drawn in a random order, some of them twice. Returns how many items. */
static uint32_t draw_items(struct crew *crew, struct dice *dice, char names[KEYS][16], struct sluice_item *items,
                           uint32_t *counters) {
	uint32_t count = 1 + (uint32_t)dice_below(dice, SLUICE_ITEMS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		counters[i] = (uint32_t)dice_below(dice, COUNTERS);
		items[i] = (struct sluice_item){.limit = &crew->limits[counters[i] % LIMITS],
		                                .key = sl_str(names[counters[i] / LIMITS])};
	}
	return count;
}

/* Adds n to the ledger of each counter of the request, once. */
static void book(struct ledger *ledger, const uint32_t *counters, uint32_t count, uint64_t n) {
	for (uint32_t i = 0; i < count; i++) {
		bool again = false;
		for (uint32_t k = 0; k < i; k++)
			again = again || counters[k] == counters[i];
		if (!again)
			crew_add(&ledger->charged[counters[i]], n);
	}
}

static void charge_at_random(struct crew *crew, uint32_t index) {
	struct ledger *ledger = crew->more;
	struct dice dice = dice_of(dice_seed(), index);
	char names[KEYS][16];
	for (uint32_t k = 0; k < KEYS; k++)
		key_name(k, names[k]);
	for (uint64_t n = 0; n < crew->attempts; n++) {
		struct sluice_item items[SLUICE_ITEMS_MAX];
		uint32_t counters[SLUICE_ITEMS_MAX], cost = (uint32_t)dice_below(&dice, 4);
		struct sluice_call call = {.items = items, .cost = cost, .now = crew->now_ns};
		call.item_count = draw_items(crew, &dice, names, items, counters);
		if (sluice_decide(crew->store, &call) != SLUICE_OK)
			crew_add(&crew->errors, 1);
		else if (call.merged.allowed)
			book(ledger, counters, call.item_count, cost);
		else
			crew_add(&ledger->denied, 1);
	}
}

static void compare_with_the_ledger(struct crew *crew, const struct ledger *ledger) {
	for (uint32_t c = 0; c < COUNTERS; c++) {
		char name[16];
		uint32_t remaining;
		key_name(c / LIMITS, name);
		remaining = crew_remaining(crew, &crew->limits[c % LIMITS], name, crew->now_ns);
		assert_true(ledger->charged[c] <= quotas[c % LIMITS]);
		assert_int_equal(remaining, quotas[c % LIMITS] - ledger->charged[c]);
	}
	assert_int_equal(crew->errors, 0);
	assert_null(sl_store_verify(crew->store));
}

static void begin(struct crew *crew, struct sluice_limit limits[LIMITS], struct ledger *ledger) {
	for (uint32_t i = 0; i < LIMITS; i++)
		limits[i] = crew_limit(notations[i]);
	*ledger = (struct ledger){0};
	*crew = (struct crew){.store = crew_store(4), .limits = limits, .now_ns = CREW_START_NS, .more = ledger};
}

static void many_limits_in_any_order_are_all_or_nothing(void **state) {
	static struct ledger ledger;
	struct sluice_limit limits[LIMITS];
	struct crew crew;
	(void)state;
	begin(&crew, limits, &ledger);
	crew.attempts = REQUESTS;
	crew_run(&crew, CREW, charge_at_random);
	compare_with_the_ledger(&crew, &ledger);
	assert_true(CREW_SLOWNESS > 1 || ledger.denied > 0); /* the quotas were reached */
	sluice_store_close(crew.store);
}

/* Two keys in opposite order, by half of the threads each: the classic way to lock up. */
static void charge_in_opposite_order(struct crew *crew, uint32_t index) {
	struct sluice_item items[2] = {{.limit = crew->limits, .key = sl_str("left")},
	                               {.limit = crew->limits, .key = sl_str("right")}};
	struct sluice_item turned[2] = {items[1], items[0]};
	for (uint64_t n = 0; n < crew->attempts; n++) {
		struct sluice_call call = {
			.items = index % 2 == 0 ? items : turned, .item_count = 2, .cost = 1, .now = crew->now_ns};
		if (sluice_decide(crew->store, &call) != SLUICE_OK)
			crew_add(&crew->errors, 1);
		else if (call.merged.allowed)
			crew_add(&crew->admitted, 1);
	}
}

static void opposite_orders_neither_lock_up_nor_miscount(void **state) {
	struct sluice_limit limit = crew_limit("sliding-log 100k/1h");
	struct crew crew = {.store = crew_store(4), .limits = &limit, .now_ns = CREW_START_NS};
	(void)state;
	crew.attempts = 200000 / CREW_SLOWNESS / CREW;
	crew_run(&crew, CREW, charge_in_opposite_order);
	assert_int_equal(crew.errors, 0);
	assert_int_equal(crew.admitted, CREW_SLOWNESS > 1 ? crew.attempts * CREW : 100000);
	assert_int_equal(crew_remaining(&crew, &limit, "left", crew.now_ns), 100000 - crew.admitted);
	assert_int_equal(crew_remaining(&crew, &limit, "right", crew.now_ns), 100000 - crew.admitted);
	sluice_store_close(crew.store);
}

/* ---- charges, refunds, peeks and batches at once --------------------------------------------------------------- */

/* Each thread gives back only what it has charged itself, so nothing is ever refunded that is not there. */
static void charge_and_give_back(struct crew *crew, uint32_t index) {
	struct ledger *ledger = crew->more;
	struct dice dice = dice_of(dice_seed(), index);
	uint32_t held[LIMITS] = {0};
	for (uint64_t n = 0; n < crew->attempts; n++) {
		uint32_t l = (uint32_t)dice_below(&dice, LIMITS), cost = 1 + (uint32_t)dice_below(&dice, 3);
		struct sluice_item item = {.limit = &crew->limits[l], .key = sl_str("key0")};
		struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .now = crew->now_ns};
		if (held[l] >= cost && dice_one_in(&dice, 2))
			call.operation = SLUICE_REFUND;
		else if (dice_one_in(&dice, 8))
			call.operation = SLUICE_PEEK;
		sluice_decide_many(crew->store, &call, 1);
		if (call.err != SLUICE_OK)
			crew_add(&crew->errors, 1);
		if (call.operation == SLUICE_REFUND)
			held[l] -= cost;
		else if (call.operation == SLUICE_CHARGE && call.merged.allowed)
			held[l] += cost;
	}
	for (uint32_t l = 0; l < LIMITS; l++)
		crew_add(&ledger->charged[l], held[l]);
}

static void what_is_given_back_is_not_lost(void **state) {
	static struct ledger ledger;
	struct sluice_limit limits[LIMITS];
	struct crew crew;
	(void)state;
	begin(&crew, limits, &ledger);
	crew.attempts = REQUESTS;
	crew_run(&crew, CREW, charge_and_give_back);
	compare_with_the_ledger(&crew, &ledger);
	sluice_store_close(crew.store);
}

/* Forgetting while others charge: whoever comes between two resets is admitted at most the quota, so the sum is at
 * most the quota times one more than the resets that forgot something. */
static void charge_and_forget(struct crew *crew, uint32_t index) {
	for (uint64_t n = 0; n < crew->attempts; n++) {
		const struct sluice_limit *limit = &crew->limits[n / 64 % crew->limit_count];
		struct sluice_item item = {.limit = limit, .key = sl_str("forgotten")};
		struct sluice_call call = {.items = &item, .item_count = 1, .operation = SLUICE_RESET, .now = crew->now_ns};
		if (n % 64 != 8 * (uint64_t)index)
			crew_charge(crew, limit, "forgotten", crew->now_ns, 1);
		else if (sluice_decide(crew->store, &call) == SLUICE_OK)
			crew_add(&crew->clock, call.forgotten);
		else
			crew_add(&crew->errors, 1);
	}
}

static void forgetting_frees_one_quota_at_a_time(void **state) {
	static const char *const small[] = {"sliding-log 5/1h", "fixed-window 5/1h", "sliding-buckets 5/1h precision 1m"};
	struct sluice_limit limits[3];
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct crew crew = {.store = crew_store(4), .limits = limits, .limit_count = 1, .now_ns = CREW_START_NS};
		limits[0] = crew_limit(small[i]);
		crew.attempts = REQUESTS;
		crew_run(&crew, CREW, charge_and_forget);
		assert_int_equal(crew.errors, 0);
		assert_true(crew.clock > 0 && crew.admitted <= 5 * (crew.clock + 1));
		assert_null(sl_store_verify(crew.store));
		sluice_store_close(crew.store);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_limits_in_any_order_are_all_or_nothing),
		cmocka_unit_test(opposite_orders_neither_lock_up_nor_miscount),
		cmocka_unit_test(what_is_given_back_is_not_lost),
		cmocka_unit_test(forgetting_frees_one_quota_at_a_time),
	};
	dice_seed();
	return cmocka_run_group_tests_name("requests under threads", tests, NULL, NULL);
}
