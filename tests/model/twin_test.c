/* Every algorithm against its slow twin: a million random operations each, 300,000 in `make test`, and every figure
 * compared.
 *
 * A stream is one fresh key under one limit, some two hundred operations at most, so that the twin's list stays short;
 * its instants are aimed at where limiters break: the same instant again, the exact end of a window or a sub-bucket,
 * the instant a charge leaves the log, idle for one and two windows, a millisecond either side of the wait that the
 * twin gave, backwards by a little and by days. A difference prints the whole stream and the seed.
 *
 * Whole milliseconds are what the contract promises to be exact for every algorithm. The windows and sub-buckets keep
 * every nanosecond, so they are compared with nanosecond instants too, every wait to the nanosecond.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "tests/model/dice.h"

#include "algo/rule.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { STREAM_OPS_MAX = 1500, STREAMS_PER_STORE = 200, DAY_MS = 86400000 };
#define INSTANT_MAX_NS ((uint64_t)12000000000000 * TWIN_MS)

struct op {
	sluice_operation operation;
	uint64_t now; /* in units of the stream */
	uint32_t cost;
	bool want_next;
	struct twin_rule rule;
	struct sluice_decision got;
	struct twin_answer expected;
};

struct stream {
	struct dice dice;
	struct sluice_store *store;
	struct twin twin;
	struct twin_rule rule;
	struct sluice_limit limit;
	bool named; /* the limit belongs to a name: a store reads the rate of its buckets out of their lifetime */
	bool spread; /* windows of a phase */
	char key[32];
	uint64_t unit; /* of time, in ns: TWIN_MS or TWIN_NS */
	uint64_t now;  /* in units */
	size_t count;
	struct op ops[STREAM_OPS_MAX];
};

/* ---- saying what went wrong ---------------------------------------------------------------------------------- */

static void print_op(const struct op *op, uint64_t unit) {
	static const char *const names[] = {"charge", "peek", "refund", "reset"};
	char text[SLUICE_LIMIT_TEXT_MAX];
	const struct sluice_decision *d = &op->got;
	const struct twin_answer *a = &op->expected;
	rule_print(&op->rule, text, sizeof text);
	fprintf(stderr, "%-6s at %" PRIu64 " cost %" PRIu32 "  %s\n", names[op->operation], op->now, op->cost, text);
	fprintf(stderr,
	        "    got  %d quota %" PRIu64 " remaining %" PRIu32 " retry %" PRId64 " reset %" PRId64 " delay %" PRId64
	        " next %" PRId64 "%s\n",
	        d->allowed, d->quota, d->remaining, twin_units(unit, d->retry_after_ns),
	        twin_units(unit, d->reset_after_ns), twin_units(unit, d->delay_ns), twin_units(unit, d->next_after_ns),
	        op->want_next ? "" : " (not asked)");
	fprintf(stderr,
	        "    twin %d quota %" PRIu64 " remaining %" PRIu32 " retry %" PRId64 " reset %" PRId64 " delay %" PRId64
	        " next %" PRId64 "\n",
	        a->allowed, a->quota, a->remaining, (int64_t)a->retry, (int64_t)a->reset, (int64_t)a->delay,
	        (int64_t)a->next);
}

static void differ(const struct stream *stream, const char *what) {
	size_t first = stream->count > 60 ? stream->count - 60 : 0;
	fprintf(stderr, "\nSLUICE_SEED=%" PRIu64 ", key %s: %s differs at operation %zu; %s:\n", dice_seed(), stream->key,
	        what, stream->count - 1, first == 0 ? "the stream" : "its end");
	for (size_t i = first; i < stream->count; i++)
		print_op(&stream->ops[i], stream->unit);
	fail_msg("%s", what);
}

static void compare(const struct stream *stream, const struct op *op) {
	const char *what = twin_difference(&op->expected, &op->rule, &op->got, op->want_next, stream->unit);
	if (what != NULL)
		differ(stream, what);
}

static struct twin_answer ask_twin(struct stream *stream, const struct op *op) {
	uint64_t now_ns = op->now * stream->unit, unit = stream->unit;
	switch (op->operation) {
	case SLUICE_CHARGE:
		return twin_charge(&stream->twin, &op->rule, now_ns, op->cost, unit);
	case SLUICE_PEEK:
		return twin_peek(&stream->twin, &op->rule, now_ns, op->cost, unit);
	case SLUICE_REFUND:
		return twin_refund(&stream->twin, &op->rule, now_ns, op->cost, unit);
	default:
		return (struct twin_answer){0};
	}
}

static void run_reset(struct stream *stream, const struct sluice_call *call) {
	bool counts = stream->twin.count != 0 && twin_peek(&stream->twin, &stream->rule, call->now, 0, TWIN_MS).reset != 0;
	if (counts && call->forgotten != 1)
		differ(stream, "forgotten");
	if (stream->twin.count == 0 && call->forgotten != 0)
		differ(stream, "forgotten, of a counter that never was,");
	twin_reset(&stream->twin);
}

static void run_op(struct stream *stream, const struct op *wanted) {
	struct op *op = &stream->ops[stream->count++];
	struct sluice_decision each = {0};
	struct sluice_item item = {.limit = &stream->limit, .key = sl_str(stream->key)};
	struct sluice_call call = {.items = &item,
	                           .item_count = 1,
	                           .cost = wanted->cost,
	                           .operation = wanted->operation,
	                           .want_next = wanted->want_next,
	                           .now = wanted->now * stream->unit,
	                           .each = &each};
	*op = *wanted;
	op->rule = stream->rule;
	if (sluice_decide(stream->store, &call) != SLUICE_OK)
		differ(stream, "the error");
	op->got = call.merged;
	if (op->operation == SLUICE_RESET) {
		run_reset(stream, &call);
		return;
	}
	op->expected = ask_twin(stream, op);
	compare(stream, op);
	op->got = each;
	op->got.index = 0; /* of one limit's own answer: not promised */
	compare(stream, op);
}

/* ---- what to do next ----------------------------------------------------------------------------------------- */

static uint64_t shifted(uint64_t t, int64_t by) {
	return by < 0 && t < (uint64_t)-by ? 0 : t + (uint64_t)by;
}

/* An instant forward, aimed at an edge. */
static uint64_t instant_ahead(struct stream *stream) {
	struct dice *dice = &stream->dice;
	uint64_t W = stream->rule.window_ns / stream->unit, P = stream->rule.precision_ns / stream->unit, t = stream->now;
	int64_t jitter = (int64_t)dice_below(dice, 3) - 1;
	switch (dice_below(dice, 8)) {
	case 0:
		return t + 1;
	case 1:
		return t + dice_below(dice, W / 8 + 2);
	case 2:
		return t + dice_below(dice, 2 * (W / (stream->rule.quota + 1ull)) + 2);
	case 3:
		return shifted((t / W + 1) * W, jitter);
	case 4:
		return P == 0 ? t + dice_below(dice, W + 1) : shifted((t / P + 1) * P, jitter);
	case 5:
		return shifted(t, (int64_t)(W * (1 + dice_below(dice, 2))) + jitter);
	case 6:
		return dice_one_in(dice, 4) ? t + W * (2 + dice_below(dice, 9)) : t + dice_below(dice, 3);
	default:
		return t + dice_below(dice, W + 1);
	}
}

/* An instant that has to do with what happened: a charge leaving, the end of a wait, a step back. */
static uint64_t instant_of_history(struct stream *stream) {
	struct dice *dice = &stream->dice;
	const struct twin *twin = &stream->twin;
	uint64_t unit = stream->unit, W = stream->rule.window_ns / unit, most = INSTANT_MAX_NS / unit;
	uint64_t t = twin_clock(twin, stream->now * unit) / unit;
	const struct op *last = &stream->ops[stream->count == 0 ? 0 : stream->count - 1];
	int64_t jitter = (int64_t)dice_below(dice, 3) - 1;
	switch (dice_below(dice, 8)) {
	case 0:
	case 1:
		if (twin->count != 0)
			t = twin->events[dice_below(dice, twin->count)].at_ns / unit + W;
		return t < stream->now ? stream->now : shifted(t, jitter);
	case 2:
	case 3:
		return last->expected.retry > most ? t : shifted(t + last->expected.retry, jitter);
	case 4:
		return last->expected.reset > most ? t : shifted(t + last->expected.reset, jitter);
	case 5:
		return last->expected.next > most ? t : shifted(t + last->expected.next, jitter);
	case 6:
		return shifted(stream->now, -(int64_t)(1 + dice_below(dice, W / 2 + 2)));
	default:
		return dice_one_in(dice, 3) ? shifted(t, -(int64_t)(2 * W + DAY_MS)) : t;
	}
}

static void next_op(struct stream *stream, struct op *op) {
	struct dice *dice = &stream->dice;
	uint64_t roll = dice_below(dice, 100), t = stream->now;
	if (dice_one_in(dice, 2))
		t = dice_one_in(dice, 3) ? instant_of_history(stream) : instant_ahead(stream);
	if (t <= INSTANT_MAX_NS / stream->unit)
		stream->now = t;
	*op = (struct op){.now = stream->now, .want_next = dice_one_in(dice, 2)};
	op->operation = roll < 72 ? SLUICE_CHARGE : roll < 86 ? SLUICE_PEEK : roll < 99 ? SLUICE_REFUND : SLUICE_RESET;
	op->cost = dice_cost(dice, twin_quota(&stream->rule));
	if (op->operation == SLUICE_CHARGE && stream->count != 0 && dice_one_in(dice, 12))
		op->cost = stream->ops[stream->count - 1].expected.remaining; /* exactly all that is left */
}

/* Rule 4.7: other numbers, the same counter. */
static void change_rule(struct stream *stream) {
	struct twin_rule *rule = &stream->rule, other = dice_rule(&stream->dice, rule->algorithm, rule->edge);
	bool is_bucket = rule->algorithm == SLUICE_TOKEN_BUCKET || rule->algorithm == SLUICE_LEAKY_BUCKET;
	if (is_bucket)
		other.quota = rule->quota; /* a rate that changes: rates_test.c */
	if (is_bucket && (rule->quota == 0) != (other.quota == 0))
		other.quota = rule->quota; /* a rate of nothing has no burst to keep */
	if (other.quota == 0 || (other.burst == 0 && rule->algorithm == SLUICE_TOKEN_BUCKET))
		other.burst = rule->burst;
	rule->quota = other.quota;
	rule->burst = other.burst;
	if (rule->algorithm == SLUICE_SLIDING_BUCKETS)
		rule->edge = (sluice_edge)dice_below(&stream->dice, 3);
	stream->limit = rule_limit(rule);
	if (stream->named)
		sl_rule_name(&stream->limit, sl_str("search"));
}

static void begin_stream(struct stream *stream, uint64_t number, struct twin_rule rule) {
	static const uint64_t bases_ms[] = {
		0, 0, 1, 1767225600000, 1767225600000, 1767225599999, 4294967296000, 5000000000000};
	struct dice *dice = &stream->dice;
	uint64_t W = rule.window_ns / stream->unit;
	stream->rule = rule;
	stream->limit = rule_limit(&rule);
	if (stream->named)
		sl_rule_name(&stream->limit, sl_str("search"));
	stream->count = 0;
	stream->now = bases_ms[dice_below(dice, sizeof bases_ms / sizeof *bases_ms)] * (TWIN_MS / stream->unit);
	stream->now += dice_one_in(dice, 2) ? dice_below(dice, 2 * W) : 0;
	if (dice_one_in(dice, 3))
		stream->now -= stream->now % W;
	snprintf(stream->key, sizeof stream->key, "%" PRIu64, number);
}

static size_t stream_length(struct dice *dice) {
	if (dice_one_in(dice, 400))
		return STREAM_OPS_MAX;
	return 1 + dice_below(dice, dice_one_in(dice, 2) ? 30 : 160);
}

static void fresh_store(struct stream *stream) {
	struct sluice_store_options options = {.memory_bytes = 8 << 20};
	sluice_store_close(stream->store);
	assert_int_equal(sluice_store_open(&stream->store, &options, NULL), SLUICE_OK);
}

static void run_streams(struct stream *with, sluice_algorithm algorithm, sluice_edge edge, uint64_t standard) {
	static struct stream stream;
	uint64_t done = 0, most = dice_ops(standard);
	stream = *with;
	for (uint64_t number = 0; done < most; number++) {
		if (number % STREAMS_PER_STORE == 0)
			fresh_store(&stream);
		stream.dice = dice_of(dice_seed(), number * 64 + algorithm * 8 + edge * 2 + stream.named);
		struct twin_rule rule = dice_rule(&stream.dice, algorithm, edge);
		if (stream.spread)
			rule.spread = 1 + (uint32_t)dice_below(&stream.dice, 131072);
		begin_stream(&stream, number, rule);
		for (size_t left = stream_length(&stream.dice); left != 0; left--) {
			struct op op;
			if (dice_one_in(&stream.dice, 40))
				change_rule(&stream);
			next_op(&stream, &op);
			run_op(&stream, &op);
		}
		done += stream.count;
		twin_reset(&stream.twin);
	}
	sluice_store_close(stream.store);
	print_message("%" PRIu64 " operations compared\n", done);
}

static void against_twin(sluice_algorithm algorithm, sluice_edge edge) {
	static struct stream with = {.unit = TWIN_MS};
	run_streams(&with, algorithm, edge, DICE_MILLION);
}

static void against_twin_to_the_ns(sluice_algorithm algorithm, sluice_edge edge) {
	static struct stream with = {.unit = TWIN_NS};
	run_streams(&with, algorithm, edge, DICE_MILLION / 5);
}

static void against_twin_of_a_name(sluice_algorithm algorithm) {
	static struct stream with = {.unit = TWIN_MS, .named = true};
	run_streams(&with, algorithm, 0, DICE_MILLION / 5);
}

static void against_twin_spread(sluice_algorithm algorithm, uint64_t unit, bool named) {
	static struct stream with;
	with = (struct stream){.unit = unit, .spread = true, .named = named};
	run_streams(&with, algorithm, 0, DICE_MILLION / 10);
}

static void spread_windows_equal_their_twins(void **state) {
	(void)state;
	for (int named = 0; named < 2; named++) {
		against_twin_spread(SLUICE_FIXED_WINDOW, TWIN_MS, named != 0);
		against_twin_spread(SLUICE_SLIDING_WINDOW, TWIN_MS, named != 0);
	}
	against_twin_spread(SLUICE_FIXED_WINDOW, TWIN_NS, false);
	against_twin_spread(SLUICE_SLIDING_WINDOW, TWIN_NS, false);
}

static void fixed_window_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_FIXED_WINDOW, 0);
}

static void sliding_window_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_SLIDING_WINDOW, 0);
}

static void sliding_buckets_count_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_COUNT);
}

static void sliding_buckets_drop_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_DROP);
}

static void sliding_buckets_weighted_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_WEIGHTED);
}

static void sliding_log_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_SLIDING_LOG, 0);
}

static void token_bucket_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_TOKEN_BUCKET, 0);
}

static void leaky_bucket_equals_its_twin(void **state) {
	(void)state;
	against_twin(SLUICE_LEAKY_BUCKET, 0);
}

static void a_named_token_bucket_equals_its_twin(void **state) {
	(void)state;
	against_twin_of_a_name(SLUICE_TOKEN_BUCKET);
}

static void a_named_leaky_bucket_equals_its_twin(void **state) {
	(void)state;
	against_twin_of_a_name(SLUICE_LEAKY_BUCKET);
}

static void windows_equal_their_twins_to_the_ns(void **state) {
	(void)state;
	against_twin_to_the_ns(SLUICE_FIXED_WINDOW, 0);
	against_twin_to_the_ns(SLUICE_SLIDING_WINDOW, 0);
}

static void sub_buckets_equal_their_twins_to_the_ns(void **state) {
	(void)state;
	against_twin_to_the_ns(SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_COUNT);
	against_twin_to_the_ns(SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_DROP);
	against_twin_to_the_ns(SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_WEIGHTED);
}

/* ---- the twin itself, against numbers worked out by hand ------------------------------------------------------ */

static void the_twin_says_what_a_person_computes(void **state) {
	struct twin twin = {0};
	struct twin_rule sliding = {SLUICE_SLIDING_WINDOW, 0, 10, 0, 1000ull * TWIN_MS, 0, 0};
	struct twin_rule token = {SLUICE_TOKEN_BUCKET, 0, 10, 5, 1000ull * TWIN_MS, 0, 0};
	struct twin_rule leaky = {SLUICE_LEAKY_BUCKET, 0, 10, 2, 1000ull * TWIN_MS, 0, 0};
	struct twin_answer a;
	(void)state;
	/* Ten at 500 ms; at 1250 ms three quarters of them, 7.5, still weigh: 2 are left, a third fits at 1300. */
	a = twin_charge(&twin, &sliding, 500ull * TWIN_MS, 10, TWIN_MS);
	assert_true(a.allowed && a.remaining == 0 && a.reset == 1500 && a.next == 600);
	a = twin_peek(&twin, &sliding, 1250ull * TWIN_MS, 3, TWIN_MS);
	assert_true(!a.allowed && a.remaining == 2 && a.retry == 50 && a.reset == 750 && a.next == 50);
	twin_reset(&twin);
	/* Five tokens gone at 0; one is back every 100 ms, all of them after 500. */
	a = twin_charge(&twin, &token, 0, 5, TWIN_MS);
	assert_true(a.allowed && a.remaining == 0 && a.reset == 500 && a.next == 100);
	a = twin_charge(&twin, &token, 150ull * TWIN_MS, 3, TWIN_MS);
	assert_true(!a.allowed && a.remaining == 1 && a.retry == 150 && a.reset == 350 && a.next == 50);
	twin_reset(&twin);
	/* One leaves at once, two wait 100 and 200 ms, the fourth is refused until the first 100 ms have drained. */
	a = twin_charge(&twin, &leaky, 0, 1, TWIN_MS);
	assert_true(a.allowed && a.delay == 0 && a.remaining == 2 && a.quota == 3);
	a = twin_charge(&twin, &leaky, 0, 2, TWIN_MS);
	assert_true(a.allowed && a.delay == 200 && a.remaining == 0 && a.reset == 300);
	a = twin_charge(&twin, &leaky, 0, 1, TWIN_MS);
	assert_true(!a.allowed && a.delay == 0 && a.retry == 100);
	twin_reset(&twin);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_twin_says_what_a_person_computes),
		cmocka_unit_test(fixed_window_equals_its_twin),
		cmocka_unit_test(sliding_window_equals_its_twin),
		cmocka_unit_test(sliding_buckets_count_equals_its_twin),
		cmocka_unit_test(sliding_buckets_drop_equals_its_twin),
		cmocka_unit_test(sliding_buckets_weighted_equals_its_twin),
		cmocka_unit_test(sliding_log_equals_its_twin),
		cmocka_unit_test(token_bucket_equals_its_twin),
		cmocka_unit_test(leaky_bucket_equals_its_twin),
		cmocka_unit_test(windows_equal_their_twins_to_the_ns),
		cmocka_unit_test(spread_windows_equal_their_twins),
		cmocka_unit_test(sub_buckets_equal_their_twins_to_the_ns),
		cmocka_unit_test(a_named_token_bucket_equals_its_twin),
		cmocka_unit_test(a_named_leaky_bucket_equals_its_twin),
	};
	dice_seed();
	return cmocka_run_group_tests_name("twins", tests, NULL, NULL);
}
