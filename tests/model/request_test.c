/* Requests of several limits and keys against their twins: all or nothing, limits that meet in one counter, observed
 * limits, `unlimited` among others, merging, and batches.
 *
 * The world of a stream is a handful of rules, some of which count in the same counter (rule 4.3: other quota, burst,
 * queue or edge), and a handful of keys. Each request draws its items from it. The twin keeps one list for each counter
 * and decides by the rules 4.1, 4.2, 4.3 and 4.9; what the library says of each limit is compared with that to the
 * millisecond, and the merged answer with what rule 4.4 makes of the single ones, to the nanosecond. A second store
 * gets the same requests through sluice_decide_many(), in batches. */
#include "tests/model/dice.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { RULES = 8, KEYS = 4, REQUESTS_MAX = 160, STREAMS_PER_STORE = 100 };

struct item {
	size_t rule, key;
	uint8_t observed; /* SLUICE_OBSERVED, SLUICE_TRIED */
};

struct request {
	sluice_operation operation;
	uint64_t now_ms;
	uint32_t cost, count;
	struct item items[SLUICE_ITEMS_MAX];
};

struct world {
	struct dice dice;
	uint64_t number, now_ms;
	struct sluice_store *one_by_one, *in_batches;
	struct twin_rule rules[RULES];
	struct sluice_limit limits[RULES];
	size_t same[RULES]; /* the first rule whose counters these are */
	char keys[KEYS][32];
	struct twin twins[RULES][KEYS]; /* of rules that are their own first */
	size_t count;
	struct request requests[REQUESTS_MAX];
	struct sluice_item items[REQUESTS_MAX][SLUICE_ITEMS_MAX]; /* of the batch */
	struct sluice_decision each[REQUESTS_MAX][SLUICE_ITEMS_MAX], batch_each[REQUESTS_MAX][SLUICE_ITEMS_MAX];
	struct sluice_call calls[REQUESTS_MAX], batch[REQUESTS_MAX];
};

static struct twin *twin_of(struct world *world, const struct item *item) {
	return &world->twins[world->same[item->rule]][item->key];
}

/* ---- what the twins say -------------------------------------------------------------------------------------- */

/* Whether items[0..i) count in the same counter as items[i]. */
static bool met_before(struct world *world, const struct request *request, size_t i) {
	for (size_t k = 0; k < i; k++)
		if (twin_of(world, &request->items[k]) == twin_of(world, &request->items[i]))
			return true;
	return false;
}

static void expect_single_answers(struct world *world, const struct request *request, struct twin_answer *answers) {
	uint32_t cost = request->operation == SLUICE_REFUND ? 0 : request->cost;
	for (size_t i = 0; i < request->count; i++)
		answers[i] = twin_peek(twin_of(world, &request->items[i]), &world->rules[request->items[i].rule],
		                       request->now_ms * TWIN_MS, cost, TWIN_MS);
}

static bool all_admit(const struct request *request, const struct twin_answer *answers) {
	for (size_t i = 0; i < request->count; i++)
		if (!request->items[i].observed && !answers[i].allowed)
			return false;
	return true;
}

/* Whether the counter of item i is charged by any of the items that meet in it, enforced or observed, but not tried. */
static bool is_charged(struct world *world, const struct request *request, const struct twin_answer *answers,
                       size_t i) {
	for (size_t k = 0; k < request->count; k++)
		if (answers[k].allowed && request->items[k].observed != SLUICE_TRIED &&
		    twin_of(world, &request->items[k]) == twin_of(world, &request->items[i]))
			return true;
	return false;
}

static void charge_twins(struct world *world, const struct request *request, struct twin_answer *answers) {
	uint64_t now_ns = request->now_ms * TWIN_MS;
	for (size_t i = 0; i < request->count; i++)
		if (!met_before(world, request, i) && is_charged(world, request, answers, i))
			twin_add(twin_of(world, &request->items[i]), &world->rules[request->items[i].rule], now_ns, request->cost);
	for (size_t i = 0; i < request->count; i++)
		twin_outlook(twin_of(world, &request->items[i]), &world->rules[request->items[i].rule], now_ns, TWIN_MS,
		             &answers[i]);
}

static void refund_twins(struct world *world, const struct request *request) {
	for (size_t i = 0; i < request->count; i++)
		if (!met_before(world, request, i))
			twin_refund(twin_of(world, &request->items[i]), &world->rules[request->items[i].rule],
			            request->now_ms * TWIN_MS, request->cost, TWIN_MS);
}

/* ---- comparing ----------------------------------------------------------------------------------------------- */

static void print_request(const struct world *world, const struct request *request) {
	static const char *const names[] = {"charge", "peek", "refund", "reset"};
	fprintf(stderr, "%s at %" PRIu64 " cost %" PRIu32 "\n", names[request->operation], request->now_ms, request->cost);
	for (size_t i = 0; i < request->count; i++) {
		char text[SLUICE_LIMIT_TEXT_MAX];
		const struct item *item = &request->items[i];
		rule_print(&world->rules[item->rule], text, sizeof text);
		const char *how = item->observed == SLUICE_TRIED ? " tried" : item->observed != 0 ? " observed" : "";
		fprintf(stderr, "    key %zu%s  %s\n", item->key, how, text);
	}
}

static void print_decision(const char *who, const struct sluice_decision *d) {
	fprintf(stderr, "    %s %d index %" PRId32 " quota %" PRIu64 " remaining %" PRIu32, who, d->allowed, d->index,
	        d->quota, d->remaining);
	fprintf(stderr, " retry %" PRIu64 " reset %" PRIu64 " delay %" PRIu64 " next %" PRIu64 "\n", d->retry_after_ns,
	        d->reset_after_ns, d->delay_ns, d->next_after_ns);
}

static void differ(const struct world *world, const char *what, size_t item) {
	const struct sluice_call *call = &world->calls[world->count];
	fprintf(stderr, "\nSLUICE_SEED=%" PRIu64 ", stream %" PRIu64 ": %s, item %zu, of the last request:\n", dice_seed(),
	        world->number, what, item);
	for (size_t i = 0; i <= world->count; i++)
		print_request(world, &world->requests[i]);
	for (size_t i = 0; i < call->item_count; i++)
		print_decision("each", &world->each[world->count][i]);
	print_decision("merged", &call->merged);
	fail_msg("%s", what);
}

static const char *difference(const struct twin_rule *rule, const struct sluice_decision *d,
                              const struct twin_answer *a, bool request_allowed) {
	if (d->allowed != a->allowed)
		return "allowed";
	if (d->remaining != a->remaining)
		return "remaining";
	if ((uint64_t)sl_ns_to_ms_ceil(d->retry_after_ns) != a->retry)
		return "retry_after";
	if ((uint64_t)sl_ns_to_ms_ceil(d->reset_after_ns) != a->reset)
		return "reset_after";
	if (request_allowed && (uint64_t)sl_ns_to_ms_ceil(d->delay_ns) != a->delay)
		return "delay";
	if ((rule->algorithm != SLUICE_LEAKY_BUCKET || rule->quota != 0) && d->quota != a->quota)
		return "quota";
	if (!a->next_is_beyond && (uint64_t)sl_ns_to_ms_ceil(d->next_after_ns) != a->next)
		return "next_after";
	return NULL;
}

static void compare_each(struct world *world, const struct request *request, const struct twin_answer *answers) {
	bool allowed = all_admit(request, answers);
	for (size_t i = 0; i < request->count; i++) {
		/* An observed limit that denies, on a counter that another limit charges at once: before or after is open. */
		if (allowed && !answers[i].allowed && is_charged(world, request, answers, i))
			continue;
		const struct twin_rule *rule = &world->rules[request->items[i].rule];
		const char *what = difference(rule, &world->each[world->count][i], &answers[i], allowed);
		if (what != NULL)
			differ(world, what, i);
	}
}

/* Rule 4.4, word by word, over the limits that were compared one by one; and when what remains of all of them grows. */
static struct sluice_decision merge(const struct world *world, const struct request *request) {
	const struct sluice_decision *each = world->each[world->count];
	struct sluice_decision merged = {.allowed = true, .index = -1, .remaining = UINT32_MAX, .quota = UINT32_MAX};
	for (size_t i = 0; i < request->count; i++) {
		const struct sluice_decision *d = &each[i], *decider = &each[merged.index < 0 ? 0 : merged.index];
		if (request->items[i].observed || world->rules[request->items[i].rule].algorithm == SLUICE_UNLIMITED)
			continue;
		if (merged.index < 0 || (decider->allowed && !d->allowed) ||
		    (!decider->allowed && !d->allowed && d->retry_after_ns > decider->retry_after_ns) ||
		    (decider->allowed && d->allowed && d->remaining < decider->remaining))
			merged.index = (int32_t)i;
		merged.allowed = merged.allowed && d->allowed;
		merged.remaining = d->remaining < merged.remaining ? d->remaining : merged.remaining;
		if (!d->allowed && d->retry_after_ns > merged.retry_after_ns) /* SLUICE_NEVER is the longest of all */
			merged.retry_after_ns = d->retry_after_ns;
		if (d->reset_after_ns > merged.reset_after_ns)
			merged.reset_after_ns = d->reset_after_ns;
		if (d->delay_ns > merged.delay_ns)
			merged.delay_ns = d->delay_ns;
	}
	if (merged.index >= 0)
		merged.quota = each[merged.index].quota;
	for (size_t i = 0; i < request->count; i++) {
		const struct sluice_decision *d = &each[i];
		if (request->items[i].observed || world->rules[request->items[i].rule].algorithm == SLUICE_UNLIMITED ||
		    d->remaining != merged.remaining)
			continue;
		if (d->next_after_ns == 0) { /* the least is all that this one has */
			merged.next_after_ns = 0;
			break;
		}
		merged.next_after_ns = d->next_after_ns > merged.next_after_ns ? d->next_after_ns : merged.next_after_ns;
	}
	return merged;
}

static void compare_merged(const struct world *world, const struct request *request) {
	const struct sluice_decision *got = &world->calls[world->count].merged;
	struct sluice_decision expected = merge(world, request);
	if (got->allowed != expected.allowed || got->index != expected.index || got->remaining != expected.remaining ||
	    got->quota != expected.quota || got->retry_after_ns != expected.retry_after_ns ||
	    got->reset_after_ns != expected.reset_after_ns || got->next_after_ns != expected.next_after_ns ||
	    (expected.allowed && got->delay_ns != expected.delay_ns)) {
		print_decision("expected", &expected);
		differ(world, "the merged answer", 0);
	}
}

static void compare_reset(struct world *world, const struct request *request) {
	uint32_t known = 0, counting = 0, forgotten = world->calls[world->count].forgotten;
	for (size_t i = 0; i < request->count; i++) {
		const struct twin_rule *rule = &world->rules[request->items[i].rule];
		struct twin *twin = twin_of(world, &request->items[i]);
		struct twin_answer a = twin_peek(twin, rule, request->now_ms * TWIN_MS, 0, TWIN_MS);
		if (met_before(world, request, i))
			continue;
		known += twin->count != 0;
		counting += a.reset != 0;
		twin_reset(twin);
	}
	/* A counter whose charges all expired may or may not have been reclaimed. */
	if (forgotten < counting || forgotten > known)
		differ(world, "forgotten", forgotten);
}

static void run_request(struct world *world) {
	struct request *request = &world->requests[world->count];
	struct twin_answer answers[SLUICE_ITEMS_MAX] = {0};
	struct sluice_call *call = &world->calls[world->count];
	if (sluice_decide(world->one_by_one, call) != SLUICE_OK)
		differ(world, "the error", 0);
	if (request->operation == SLUICE_RESET) {
		compare_reset(world, request);
		return;
	}
	if (request->operation == SLUICE_REFUND)
		refund_twins(world, request);
	expect_single_answers(world, request, answers);
	if (request->operation == SLUICE_CHARGE && all_admit(request, answers))
		charge_twins(world, request, answers);
	compare_each(world, request, answers);
	compare_merged(world, request);
}

/* ---- drawing ------------------------------------------------------------------------------------------------- */

static bool same_counters(const struct twin_rule *a, const struct twin_rule *b) {
	bool is_bucket = a->algorithm == SLUICE_TOKEN_BUCKET || a->algorithm == SLUICE_LEAKY_BUCKET;
	return a->algorithm == b->algorithm && a->window_ns == b->window_ns && a->precision_ns == b->precision_ns &&
	       (!is_bucket || a->quota == b->quota);
}

static struct twin_rule draw_rule(struct world *world) {
	const struct dice_kind *kind = &dice_kinds[dice_below(&world->dice, DICE_KINDS)];
	struct twin_rule rule = dice_rule(&world->dice, kind->algorithm, kind->edge);
	if (dice_one_in(&world->dice, 2) && rule.quota > 50) /* so that several of them deny */
		rule.quota = (uint32_t)(1 + dice_below(&world->dice, 20));
	if (rule.burst > 50)
		rule.burst = (uint32_t)(1 + dice_below(&world->dice, 20));
	return rule;
}

static void begin_world(struct world *world) {
	world->now_ms = 1767225600000 + dice_below(&world->dice, 100000);
	world->count = 0;
	for (size_t i = 0; i < RULES; i++) {
		struct twin_rule rule = draw_rule(world);
		if (i != 0 && dice_one_in(&world->dice, 3)) { /* another view of counters that are there */
			rule = world->rules[dice_below(&world->dice, i)];
			if (rule.algorithm == SLUICE_TOKEN_BUCKET || rule.algorithm == SLUICE_LEAKY_BUCKET)
				rule.burst += rule.quota != 0;
			else if (rule.algorithm != SLUICE_UNLIMITED)
				rule.quota = (uint32_t)(1 + dice_below(&world->dice, 30));
			if (rule.algorithm == SLUICE_SLIDING_BUCKETS)
				rule.edge = (sluice_edge)dice_below(&world->dice, 3);
		}
		world->rules[i] = rule;
		world->limits[i] = rule_limit(&rule);
		for (world->same[i] = 0; !same_counters(&world->rules[world->same[i]], &rule);)
			world->same[i]++;
	}
	for (size_t i = 0; i < KEYS; i++)
		snprintf(world->keys[i], sizeof world->keys[i], "%c%" PRIu64, i < 2 ? 'k' : (int)('k' + i), world->number);
}

static struct sluice_bytes key_of(const struct world *world, size_t key) {
	return sl_slice(world->keys[key], strlen(world->keys[key]) + (key == 1)); /* the second ends with its NUL */
}

static void draw_items(struct world *world, struct request *request) {
	struct dice *dice = &world->dice;
	uint32_t most = dice_one_in(dice, 4) ? SLUICE_ITEMS_MAX : 4;
	size_t focus = (size_t)dice_below(dice, RULES);
	request->count = (uint32_t)dice_below(dice, most + 1);
	for (size_t i = 0; i < request->count; i++) {
		struct item *item = &request->items[i];
		item->rule = dice_one_in(dice, 3) ? focus : (size_t)dice_below(dice, RULES);
		item->key = (size_t)dice_below(dice, dice_one_in(dice, 2) ? 1 : KEYS);
		item->observed = dice_one_in(dice, 6) ? SLUICE_OBSERVED : dice_one_in(dice, 8) ? SLUICE_TRIED : 0;
		if (request->operation == SLUICE_REFUND && met_before(world, request, i)) {
			request->count = (uint32_t)i; /* which edge says what still counts, nobody promised */
			break;
		}
	}
}

static void draw_request(struct world *world) {
	struct dice *dice = &world->dice;
	struct request *request = &world->requests[world->count];
	struct sluice_call *call = &world->calls[world->count];
	uint64_t roll = dice_below(dice, 100), W = world->rules[dice_below(dice, RULES)].window_ns / TWIN_MS;
	if (dice_one_in(dice, 2))
		world->now_ms += dice_below(dice, dice_one_in(dice, 3) ? W + 2 : W / 16 + 2);
	if (dice_one_in(dice, 20))
		world->now_ms -= dice_below(dice, 3000);
	*request = (struct request){.now_ms = world->now_ms};
	request->operation = roll < 75 ? SLUICE_CHARGE : roll < 85 ? SLUICE_PEEK : roll < 97 ? SLUICE_REFUND : SLUICE_RESET;
	request->cost = dice_cost(dice, 1 + dice_below(dice, 20));
	draw_items(world, request);
	*call = (struct sluice_call){.items = world->items[world->count],
	                             .item_count = request->count,
	                             .cost = request->cost,
	                             .operation = request->operation,
	                             .want_next = true,
	                             .now = request->now_ms * TWIN_MS,
	                             .each = world->each[world->count]};
	for (size_t i = 0; i < request->count; i++)
		world->items[world->count][i] = (struct sluice_item){.limit = &world->limits[request->items[i].rule],
		                                                     .key = key_of(world, request->items[i].key),
		                                                     .observed = request->items[i].observed};
	world->batch[world->count] = *call;
	world->batch[world->count].each = world->batch_each[world->count];
}

/* ---- batches ------------------------------------------------------------------------------------------------- */

static bool equal_decisions(const struct sluice_decision *a, const struct sluice_decision *b) {
	return a->allowed == b->allowed && a->index == b->index && a->remaining == b->remaining && a->quota == b->quota &&
	       a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
	       a->delay_ns == b->delay_ns && a->next_after_ns == b->next_after_ns;
}

/* All requests of the stream, cut into batches of random lengths, in the other store. */
static void compare_batches(struct world *world) {
	size_t total = world->count;
	for (size_t done = 0, n; done < total; done += n) {
		n = 1 + (size_t)dice_below(&world->dice, dice_one_in(&world->dice, 2) ? 3 : 70);
		n = n < total - done ? n : total - done;
		sluice_decide_many(world->in_batches, &world->batch[done], n);
	}
	for (world->count = 0; world->count < total; world->count++) {
		const struct sluice_call *a = &world->calls[world->count], *b = &world->batch[world->count];
		if (a->err != b->err || (a->operation == SLUICE_RESET && a->forgotten != b->forgotten))
			differ(world, "the batch's error or count", 0);
		if (a->operation == SLUICE_RESET)
			continue;
		if (!equal_decisions(&a->merged, &b->merged))
			differ(world, "the batch's merged answer", 0);
		for (size_t i = 0; i < a->item_count; i++)
			if (!equal_decisions(&a->each[i], &b->each[i]))
				differ(world, "the batch's answer", i);
	}
}

static void fresh_stores(struct world *world) {
	struct sluice_store_options options = {.memory_bytes = 16 << 20};
	sluice_store_close(world->one_by_one);
	sluice_store_close(world->in_batches);
	assert_int_equal(sluice_store_open(&world->one_by_one, &options, NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&world->in_batches, &options, NULL), SLUICE_OK);
}

static void requests_equal_their_twins(void **state) {
	static struct world world;
	uint64_t done = 0, most = dice_ops(300000);
	(void)state;
	for (world.number = 0; done < most; world.number++) {
		size_t length;
		if (world.number % STREAMS_PER_STORE == 0)
			fresh_stores(&world);
		world.dice = dice_of(dice_seed(), world.number ^ 0x7265717565737473u);
		begin_world(&world);
		for (length = 1 + (size_t)dice_below(&world.dice, REQUESTS_MAX); world.count < length; world.count++) {
			draw_request(&world);
			run_request(&world);
		}
		compare_batches(&world);
		done += length;
		for (size_t i = 0; i < RULES * KEYS; i++)
			twin_reset(&world.twins[i / KEYS][i % KEYS]);
	}
	sluice_store_close(world.one_by_one);
	sluice_store_close(world.in_batches);
	print_message("%" PRIu64 " requests compared\n", done);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(requests_equal_their_twins)};
	dice_seed();
	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
