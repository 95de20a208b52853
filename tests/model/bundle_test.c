/* Thousands of open reservations of one counter, through the store and through the module, against what bundles
 * (algo/bundle.h) promise, with a slow list of what was reserved beside them:
 *
 *   found    what is open by its own end is found, once, and corrected by its own estimate, in whatever order; what
 *            has ended by the end that was last possible isn't
 *   safe     no more is ever free than if each had been returned at its own end
 *   in time  what is back at the latest end that bundling may lead to, is
 *   waits    what is told as retry_after admits then, and ever after; and not a millisecond before, but that the
 *            module, which returns a log's charges as soon as it looks, may do so an eighth of a window before
 *
 * Windows, logs, sub-buckets and buckets, ends that are all alike, all different, or any; SLUICE_SEED repeats a run. */
#include "algo/bundle.h"
#include "base/bytes.h"
#include "base/math.h"
#include "tests/model/dice.h"
#include "tests/unit/redis_world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STREAMS = 24, RESERVED_MAX = 1500, TTL_MS = 40000 };
static const uint64_t START_MS = UINT64_C(1767225600000); /* windows of up to a day begin here */

static const char *const limits[] = {
	"fixed-window 100000/1h",
	"sliding-window 100000/1m",
	"sliding-log 100000/1h",
	"sliding-log 100000/1m",
	"sliding-buckets 100000/1h precision 1m",
	"sliding-buckets 100000/1m precision 1s edge drop",
	"token-bucket 100000/1d",
	"leaky-bucket 86400/1d queue 99999",
	"100000/month at Europe/Berlin",
	"token-bucket 100000/1h",
	"token-bucket 100000/5m",
};
enum { LIMITS = sizeof limits / sizeof *limits };

struct reserved {
	uint64_t id, end_ms, at_ms;
	uint32_t cost;
};

struct world {
	struct dice dice;
	struct sluice_limit limit;
	struct sluice_store *store;
	slr_value value, replica;
	bool in_module;
	uint64_t now_ms, spent; /* spent: charged for good */
	struct reserved open[RESERVED_MAX];
	uint32_t count;
	uint64_t stream;
	const char *what;
};

static void differ(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&w->limit, text);
	fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 " (%s, %s, %s), %u open at +%" PRIu64 " ms: %s: %" PRIu64
	         ", expected %" PRIu64,
	         dice_seed(), w->stream, text, w->in_module ? "module" : "store", w->what, w->count, w->now_ms - START_MS,
	         what, got, expected);
}

struct said {
	struct sluice_decision d;
	uint32_t found;
	bool repeated;
};

static struct said ask_module(struct world *w, sluice_operation operation, uint64_t at_ms, uint32_t cost, uint64_t id,
                              uint64_t ttl_ms) {
	static const enum sl_operation words[] = {[SLUICE_CHARGE] = SL_OP_CHECK,
	                                           [SLUICE_PEEK] = SL_OP_PEEK,
	                                           [SLUICE_RESERVE] = SL_OP_RESERVE,
	                                           [SLUICE_COMMIT] = SL_OP_COMMIT};
	struct slr_call call = redis_call(words[operation], w->value, &w->limit, at_ms * SL_MS_NS, cost);
	call.id = id;
	call.asked.id = sl_slice("id", id != 0 ? 2 : 0);
	call.asked.ttl_ns = ttl_ms * SL_MS_NS;
	call.heard = true;
	if (slr_decide(&call) != SLR_FINE)
		differ(w, "the module failed", 1, 0);
	w->value = call.keys[0].value;
	if (call.keys[0].changed && !slr_effects_apply(&w->replica, (struct sluice_bytes){call.keys[0].effects.bytes.data,
	                                                                                  call.keys[0].effects.bytes.len}))
		differ(w, "a replica refuses what was noted", 1, 0);
	slr_bytes_free(&call.keys[0].effects.bytes);
	return (struct said){call.asked.merged, call.asked.found, call.asked.repeated};
}

static struct said ask(struct world *w, sluice_operation operation, uint64_t at_ms, uint32_t cost, uint64_t id,
                       uint64_t ttl_ms) {
	char key[24], text[17];
	int key_len = snprintf(key, sizeof key, "%" PRIu64, w->stream), len = snprintf(text, sizeof text, "%" PRIx64, id);
	struct sluice_item item = {.limit = &w->limit, .key = sl_slice(key, (size_t)key_len)};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .operation = operation};
	if (w->in_module)
		return ask_module(w, operation, at_ms, cost, id, ttl_ms);
	call.now = at_ms * SL_MS_NS;
	call.ttl_ns = ttl_ms * SL_MS_NS;
	call.id = id != 0 ? sl_slice(text, (size_t)len) : sl_slice(NULL, 0);
	if (sluice_decide(w->store, &call) != SLUICE_OK)
		differ(w, "the store failed", 1, 0);
	return (struct said){call.merged, call.found, call.repeated};
}

/* By when all that was reserved until `end` is back: as much later again as it was reserved for. */
static uint64_t latest_end(const struct reserved *it) {
	return it->end_ms + (it->end_ms - it->at_ms);
}

/* What is charged at an instant if each is returned at its own end; `late`: at the latest. */
static uint64_t charged(const struct world *w, uint64_t at_ms, bool late) {
	uint64_t sum = w->spent;
	for (uint32_t i = 0; i < w->count; i++)
		sum += (late ? latest_end(&w->open[i]) : w->open[i].end_ms) > at_ms ? w->open[i].cost : 0;
	return sum;
}

static bool drains(const struct world *w) {
	return w->limit.algorithm == SLUICE_TOKEN_BUCKET || w->limit.algorithm == SLUICE_LEAKY_BUCKET;
}

static bool by_charge(const struct world *w) {
	return w->limit.algorithm == SLUICE_SLIDING_LOG || w->limit.algorithm == SLUICE_SLIDING_BUCKETS;
}

/* Within the window of the limit, all of a stream is; but a bucket drains meanwhile. */
static void check_room(struct world *w, uint64_t at_ms) {
	uint64_t capacity = w->limit.derived[SL_CAPACITY], most = capacity - charged(w, at_ms, false);
	uint64_t least = capacity - charged(w, at_ms, true), remaining = ask(w, SLUICE_PEEK, at_ms, 1, 0, 0).d.remaining;
	uint64_t drained = drains(w) ? (at_ms - START_MS) * w->limit.quota / (w->limit.window_ns / SL_MS_NS) + 1 : 0;
	if (remaining > sl_min(most + drained, capacity))
		differ(w, "more is free than if all were returned in time", remaining, most);
	if (remaining + drained + (drains(w) ? w->count / 16 + 4 : 0) < least)
		differ(w, "less is free than if all were returned as late as may be", remaining, least);
}

static void check_waits(struct world *w) {
	uint64_t capacity = w->limit.derived[SL_CAPACITY], free_now = ask(w, SLUICE_PEEK, w->now_ms, 1, 0, 0).d.remaining;
	uint32_t cost = (uint32_t)(free_now + 1 + dice_below(&w->dice, capacity - free_now));
	struct said said = ask(w, SLUICE_PEEK, w->now_ms, cost, 0, 0);
	uint64_t retry_ms, early_ms, step;
	if (said.d.allowed)
		differ(w, "more than what is free fits", cost, free_now);
	retry_ms = sl_ns_to_ms_ceil(said.d.retry_after_ns);
	if (!ask(w, SLUICE_PEEK, w->now_ms + retry_ms, cost, 0, 0).d.allowed)
		differ(w, "denied when it was told to come", retry_ms, cost);
	early_ms = w->in_module && by_charge(w) ? (w->limit.window_ns / 8 + w->limit.precision_ns) / SL_MS_NS : 0;
	if (retry_ms > 1 + early_ms && ask(w, SLUICE_PEEK, w->now_ms + retry_ms - 1 - early_ms, cost, 0, 0).d.allowed)
		differ(w, "admitted before it was told to come", retry_ms, cost);
	for (step = 1; step <= 16; step++)
		if (!ask(w, SLUICE_PEEK, w->now_ms + retry_ms + step * 777, cost, 0, 0).d.allowed)
			differ(w, "denied after it would have been admitted", retry_ms + step * 777, cost);
}

/* A replica, and what was saved and loaded, answer as the value does; from there on the loaded one goes on. */
static void check_copies(struct world *w) {
	struct slr_bytes bytes;
	slr_value values[2];
	uint64_t said[3];
	if (!w->in_module || w->value == 0)
		return;
	bytes = redis_bytes(w->value);
	values[0] = w->value;
	values[1] = slr_read_value((struct sluice_bytes){bytes.data, bytes.len});
	slr_bytes_free(&bytes);
	if (values[1] == 0)
		differ(w, "what was saved is refused", 1, 0);
	for (int i = 0; i < 3; i++) {
		w->value = i == 2 ? w->replica : values[i];
		said[i] = (uint64_t)ask(w, SLUICE_PEEK, w->now_ms, 1, 0, 0).d.remaining << 32 |
		          ask(w, SLUICE_PEEK, w->now_ms + 20000, 1, 0, 0).d.remaining;
		if (said[i] != said[0])
			differ(w, i == 1 ? "what was loaded differs" : "a replica differs", said[i], said[0]);
	}
	slr_value_free(values[0]);
	w->value = values[1];
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

static uint64_t ttl_of(struct world *w, int pattern, uint64_t last_ms) {
	switch (pattern) {
	case 0:
		return last_ms - w->now_ms; /* all until one instant */
	case 1:
		return TTL_MS;
	case 2:
		return 1 + dice_below(&w->dice, TTL_MS);
	default:
		return (uint64_t)20 << dice_below(&w->dice, 11); /* of all scales */
	}
}

static void reserve_one(struct world *w, int pattern, uint64_t last_ms) {
	struct reserved *it = &w->open[w->count];
	uint64_t ttl = ttl_of(w, pattern, last_ms);
	*it = (struct reserved){dice_bits(&w->dice) >> 1 | 1, w->now_ms + ttl, w->now_ms,
	                        1 + (uint32_t)dice_below(&w->dice, 9)};
	if (!ask(w, SLUICE_RESERVE, w->now_ms, it->cost, it->id, ttl).d.allowed)
		differ(w, "not reserved", it->cost, 0);
	w->count++;
	if (dice_below(&w->dice, 20) == 0 && !ask(w, SLUICE_RESERVE, w->now_ms, it->cost, it->id, ttl).repeated)
		differ(w, "reserved twice", it->id, 0);
}

/* Below, above or as estimated; then again, which must find nothing. */
static void commit_one(struct world *w, uint32_t at) {
	struct reserved it = w->open[at];
	uint32_t actual = (uint32_t)dice_below(&w->dice, 2 * it.cost);
	uint64_t before = ask(w, SLUICE_PEEK, w->now_ms, 1, 0, 0).d.remaining;
	struct said said = ask(w, SLUICE_COMMIT, w->now_ms, actual, it.id, 0);
	bool open = it.end_ms > w->now_ms;
	if (open != (said.found == 1) && (open || latest_end(&it) <= w->now_ms))
		differ(w, open ? "an open one isn't found" : "one that has ended is found", said.found, it.id);
	if (said.found != 0 && !drains(w) && said.d.remaining != before + it.cost - actual)
		differ(w, "not corrected by its own estimate", said.d.remaining, before + it.cost - actual);
	if (ask(w, SLUICE_COMMIT, w->now_ms, actual, it.id, 0).found != 0)
		differ(w, "committed twice", it.id, 0);
	w->spent += said.found != 0 ? actual : 0;
	w->open[at] = w->open[--w->count];
}

static void drop_ended(struct world *w) {
	for (uint32_t i = w->count; i-- > 0;)
		if (latest_end(&w->open[i]) <= w->now_ms)
			w->open[i] = w->open[--w->count];
}

static void run(struct world *w, int pattern, int order) {
	uint64_t last_ms = START_MS + 45000, since = 0;
	while (w->count < RESERVED_MAX && w->now_ms < START_MS + 25000) {
		reserve_one(w, pattern, last_ms);
		if (dice_below(&w->dice, 8) == 0)
			commit_one(w, (uint32_t)dice_below(&w->dice, w->count));
		if (dice_below(&w->dice, 30) == 0 && ask(w, SLUICE_CHARGE, w->now_ms, 3, 0, 0).d.allowed)
			w->spent += 3;
		if (++since % 100 == 0) {
			check_room(w, w->now_ms);
			check_room(w, w->now_ms + dice_below(&w->dice, 30000));
			check_waits(w);
			check_copies(w);
		}
		w->now_ms += dice_below(&w->dice, 30);
		drop_ended(w);
	}
	for (uint32_t left = w->count / 2; left > 0 && w->count > 0; left--)
		commit_one(w, order == 0   ? 0
		              : order == 1 ? w->count - 1
		                           : (uint32_t)dice_below(&w->dice, w->count));
	check_room(w, w->now_ms);
	check_waits(w);
	w->now_ms = START_MS + 58000;
	check_room(w, w->now_ms);
	if (ask(w, SLUICE_CHARGE, w->now_ms, 1, 0, 0).d.allowed)
		w->spent++;
	check_room(w, w->now_ms);
}

static void thousands_are_kept(void **state) {
	struct sluice_store_options options = {.memory_bytes = (uint64_t)64 << 20};
	static struct world w;
	uint64_t streams = sl_max(STREAMS / 2, dice_ops(STREAMS * 4));
	(void)state;
	print_message("seed %" PRIu64 "\n", dice_seed());
	for (uint64_t stream = 0; stream < streams; stream++) {
		static const char *const patterns[] = {"one end", "one time", "any time", "all scales"};
		int pattern = (int)(stream % 4);
		w = (struct world){.stream = stream, .now_ms = START_MS, .what = patterns[pattern]};
		w.dice = dice_of(dice_seed(), stream);
		w.in_module = dice_below(&w.dice, 2) == 0;
		assert_int_equal(sluice_limit_parse(&w.limit, sl_str(limits[dice_below(&w.dice, LIMITS)]), NULL), SLUICE_OK);
		assert_int_equal(sluice_store_open(&w.store, &options, NULL), SLUICE_OK);
		run(&w, pattern, (int)dice_below(&w.dice, 3));
		assert_null(sluice_store_verify(w.store));
		assert_true(slr_value_is_valid(w.value));
		sluice_store_close(w.store);
		slr_value_free(w.value);
		slr_value_free(w.replica);
	}
}

/* As many as are kept, and not one is lost: each is found by its id. */
static void as_many_as_are_kept(void **state) {
	static uint64_t ids[SL_LEDGER_MAX];
	struct sluice_store_options options = {.memory_bytes = (uint64_t)64 << 20};
	static struct world w;
	(void)state;
	for (uint64_t stream = 0; stream < 4; stream++) {
		uint32_t count = 0;
		w = (struct world){.stream = stream, .now_ms = START_MS, .what = "as many as may be"};
		w.in_module = stream % 2 == 0;
		w.dice = dice_of(dice_seed(), stream);
		assert_int_equal(sluice_limit_parse(&w.limit, sl_str(limits[stream < 2 ? 0 : 6]), NULL), SLUICE_OK);
		assert_int_equal(sluice_store_open(&w.store, &options, NULL), SLUICE_OK);
		for (;; w.now_ms += dice_below(&w.dice, 2)) {
			uint64_t id = dice_bits(&w.dice) >> 1 | 1;
			struct said said = ask(&w, SLUICE_RESERVE, w.now_ms, 1, id, 3600000);
			if (!said.d.allowed)
				break;
			if (count == SL_LEDGER_MAX)
				differ(&w, "more are reserved than are kept", count, 0);
			ids[count++] = id;
		}
		if (count != SL_LEDGER_MAX)
			differ(&w, "fewer are reserved than are kept", count, SL_LEDGER_MAX);
		while (count-- > 0)
			if (ask(&w, SLUICE_COMMIT, w.now_ms, 1, ids[count], 0).found != 1)
				differ(&w, "an open one isn't found", count, ids[count]);
		assert_null(sluice_store_verify(w.store));
		sluice_store_close(w.store);
		slr_value_free(w.value);
		slr_value_free(w.replica);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_are_kept),
		cmocka_unit_test(thousands_are_kept),
	};
	return cmocka_run_group_tests_name("bundles", tests, NULL, NULL);
}
