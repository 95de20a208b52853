/* Module and script against the embedded store: the same requests at the same instants, every figure of every answer.
 *
 * The world of a stream is a handful of rules, some of which count in the same counter (another quota, burst, queue or
 * edge of it, or under a name another rate), and a handful of keys. Each request draws up to 16 items of it, enforced,
 * OBSERVED or TRIED, for one key or several. The store decides first; then module and script (by turns as a function
 * and by EVALSHA) are sent the same in their words, a stream pipelined, and answer with the merged figures or, asked
 * for EACH, with those of every limit, the wait for the next unit among them.
 *
 * What may differ, and is kept out of the streams: a counter that equals none may be forgotten by any charge, earlier
 * by one host than by the other (rule 4.2). It is the same counter as long as the clock does not go back to before it
 * was over, nor another rate says that it was not over; step_past_the_forgotten() sees to that. How many counters a
 * reset forgot is held to bounds for the same reason.
 *
 * The script may refuse a rule whose numbers could leave 53 bits: it is asked beforehand, such rules are listed, and
 * streams that have one are the module's alone. A million requests with SLUICE_SOAK_SECONDS set, else some 20,000. */
#include "tests/model/dice.h"
#include "tests/model/redis_door.h"

#include "base/bytes.h"
#include "base/math.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/rule.h"

enum { RULES = 8, KEYS = 4, REQUESTS_MAX = 160, STREAMS_PER_STORE = 100, LISTED_MAX = 6, SOAK = 1000000 };

struct item {
	size_t rule, key;
	uint8_t observed;
};

struct request {
	sluice_operation operation;
	bool each;
	uint64_t now_ms;
	uint32_t cost, count;
	struct item items[SLUICE_ITEMS_MAX];
	struct sluice_decision merged, single[SLUICE_ITEMS_MAX];
	uint32_t least_forgotten, most_forgotten;
};

/* What is known of a counter without looking into it. */
struct known {
	bool is_there;
	uint64_t last_ms; /* of its last charge */
	uint64_t over_ms; /* from when on it may have been forgotten */
	size_t rule;      /* that charged it last */
};

struct world {
	struct dice dice;
	uint64_t number, now_ms, high_ms;
	bool for_script;
	enum redis_who script;
	struct redis_door door;
	struct sluice_store *store;
	struct twin_rule rules[RULES];
	struct sluice_limit limits[RULES];
	int names[RULES];   /* 0: none */
	size_t same[RULES]; /* the first rule whose counters these are */
	struct known known[RULES][KEYS];
	size_t count;
	struct request requests[REQUESTS_MAX];
	uint64_t by_module, by_script, refused, ties;
};

static struct known *known_of(struct world *world, const struct item *item) {
	return &world->known[world->same[item->rule]][item->key];
}

/* ---- what is said -------------------------------------------------------------------------------------------- */

static const char *const verbs[] = {"SLUICE.CHECK", "SLUICE.PEEK", "SLUICE.REFUND", "SLUICE.RESET"};

static void key_word(const struct world *world, enum redis_who who, size_t key, struct redis_words *words) {
	redis_word(words, "%c:%" PRIu64 ":%zu", who == REDIS_MODULE ? 'm' : 's', world->number, key);
}

static void key_words(const struct world *world, enum redis_who who, const struct request *request,
                      struct redis_words *keys) {
	bool said[KEYS] = {[0] = false};
	keys->count = 0;
	said[request->items[0].key] = true;
	key_word(world, who, request->items[0].key, keys);
	for (size_t i = 0; i < request->count; i++) {
		size_t key = request->items[i].key;
		if (!said[key])
			key_word(world, who, key, keys);
		said[key] = true;
	}
}

static void item_words(const struct world *world, enum redis_who who, const struct item *item, size_t *key,
                       struct redis_words *words) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (item->key != *key) {
		redis_word(words, item->rule % 2 == 0 ? "KEY" : "key");
		key_word(world, who, item->key, words);
		*key = item->key;
	}
	if (world->names[item->rule] != 0) {
		redis_word(words, "NAME");
		redis_word(words, "name %d", world->names[item->rule]);
	}
	if (item->observed != 0)
		redis_word(words, item->observed == SLUICE_TRIED ? "TRIED" : "OBSERVED");
	rule_print(&world->rules[item->rule], text, sizeof text);
	redis_word(words, "%s", text);
}

static void request_words(const struct world *world, enum redis_who who, const struct request *request,
                          struct redis_words *words) {
	size_t key = request->items[0].key;
	words->count = 0;
	redis_word(words, "%s", verbs[request->operation]);
	key_word(world, who, key, words);
	if (request->operation != SLUICE_RESET)
		redis_word(words, "%" PRIu32, request->cost);
	redis_word(words, "AT");
	redis_word(words, "%" PRIu64, request->now_ms);
	if (request->each)
		redis_word(words, "EACH");
	for (size_t i = 0; i < request->count; i++)
		item_words(world, who, &request->items[i], &key, words);
}

static void send_request(struct world *world, enum redis_who who, const struct request *request) {
	static struct redis_words words, keys;
	request_words(world, who, request, &words);
	key_words(world, who, request, &keys);
	redis_door_send(&world->door, who, &words, &keys);
}

/* ---- comparing ----------------------------------------------------------------------------------------------- */

static void print_request(const struct world *world, enum redis_who who, const struct request *request) {
	static struct redis_words words;
	request_words(world, who, request, &words);
	for (size_t i = 0; i < words.count; i++)
		fprintf(stderr, strchr(words.text[i], ' ') ? " '%s'" : " %s", words.text[i]);
	fprintf(stderr, "\n");
}

static void differ(const struct world *world, enum redis_who who, size_t at, const char *expected,
                   const struct redisReply *reply) {
	static const char *const whose[] = {"module", "function", "eval"};
	for (size_t i = 0; i <= at; i++)
		print_request(world, who, &world->requests[i]);
	fprintf(stderr, "SLUICE_SEED=%" PRIu64 ", stream %" PRIu64 ", %s: expected %s, replied", dice_seed(), world->number,
	        whose[who], expected);
	for (size_t i = 0; reply != NULL && i < reply->elements; i++)
		if (reply->element[i]->type == REDIS_REPLY_INTEGER)
			fprintf(stderr, " %lld", reply->element[i]->integer);
		else
			fprintf(stderr, " %s", reply->element[i]->type == REDIS_REPLY_ERROR ? reply->element[i]->str : "[...]");
	if (reply != NULL && reply->elements == 0)
		fprintf(stderr, " %lld %s", reply->integer, reply->str == NULL ? "" : reply->str);
	fprintf(stderr, "\n");
	fail_msg("%s differs from the embedded store", whose[who]);
}

/* A decision as replies show it; `last` is what stands in the seventh place. */
static void compare_decision(const struct world *world, enum redis_who who, size_t at, const struct redisReply *reply,
                             const struct sluice_decision *d, long long last) {
	const long long expected[] = {d->allowed,
	                              (long long)d->quota,
	                              d->remaining,
	                              sl_ns_to_ms_ceil(d->retry_after_ns),
	                              sl_ns_to_ms_ceil(d->reset_after_ns),
	                              sl_ns_to_ms_ceil(d->delay_ns),
	                              last};
	char text[200];
	snprintf(text, sizeof text, "%lld %lld %lld %lld %lld %lld %lld", expected[0], expected[1], expected[2],
	         expected[3], expected[4], expected[5], expected[6]);
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 7)
		differ(world, who, at, text, reply);
	for (size_t i = 0; i < 7; i++)
		if (reply->element[i]->type != REDIS_REPLY_INTEGER || reply->element[i]->integer != expected[i])
			differ(world, who, at, text, reply);
}

/* The script merges waits in whole milliseconds: of two that end in the same one it names the first. */
static bool ties_in_ms(const struct request *request, const struct redisReply *reply) {
	long long index = reply->elements == 7 ? reply->element[6]->integer : -1;
	if (request->merged.allowed || index < 0 || index >= request->count)
		return false;
	const struct sluice_decision *named = &request->single[index];
	return !named->allowed && request->items[index].observed == 0 &&
	       sl_ns_to_ms_ceil(named->retry_after_ns) == sl_ns_to_ms_ceil(request->merged.retry_after_ns);
}

static void compare_merged(struct world *world, enum redis_who who, size_t at, const struct redisReply *reply) {
	struct sluice_decision expected = world->requests[at].merged;
	if (who != REDIS_MODULE && ties_in_ms(&world->requests[at], reply) &&
	    reply->element[6]->integer != expected.index) {
		expected.index = (int32_t)reply->element[6]->integer;
		expected.quota = world->requests[at].single[expected.index].quota;
		world->ties++;
	}
	compare_decision(world, who, at, reply, &expected, expected.index);
}

static void compare_reply(struct world *world, enum redis_who who, size_t at, const struct redisReply *reply) {
	const struct request *request = &world->requests[at];
	char text[64];
	if (request->operation == SLUICE_RESET) {
		snprintf(text, sizeof text, "%" PRIu32 "..%" PRIu32, request->least_forgotten, request->most_forgotten);
		if (reply->type != REDIS_REPLY_INTEGER || reply->integer < request->least_forgotten ||
		    reply->integer > request->most_forgotten)
			differ(world, who, at, text, reply);
		return;
	}
	if (!request->each) {
		compare_merged(world, who, at, reply);
		return;
	}
	snprintf(text, sizeof text, "%" PRIu32 " arrays", request->count);
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != request->count)
		differ(world, who, at, text, reply);
	for (size_t i = 0; i < request->count; i++)
		compare_decision(world, who, at, reply->element[i], &request->single[i],
		                 (long long)sl_ns_to_ms_ceil(request->single[i].next_after_ns));
}

static void compare_stream(struct world *world, enum redis_who who) {
	for (size_t i = 0; i < world->count; i++)
		send_request(world, who, &world->requests[i]);
	for (size_t i = 0; i < world->count; i++) {
		struct redisReply *reply = redis_door_read(&world->door);
		compare_reply(world, who, i, reply);
		freeReplyObject(reply);
	}
	*(who == REDIS_MODULE ? &world->by_module : &world->by_script) += world->count;
}

/* ---- the store's answers --------------------------------------------------------------------------------------- */

static size_t key_text(const struct world *world, size_t key, char text[32]) {
	return (size_t)snprintf(text, 32, "%" PRIu64 ":%zu", world->number, key);
}

static void decide(const struct world *world, struct request *request, sluice_operation operation) {
	struct sluice_item items[SLUICE_ITEMS_MAX];
	char keys[KEYS][32];
	for (uint32_t i = 0; i < request->count; i++) {
		const struct item *item = &request->items[i];
		items[i] = (struct sluice_item){.limit = &world->limits[item->rule],
		                                .key = sl_slice(keys[item->key], key_text(world, item->key, keys[item->key])),
		                                .observed = item->observed};
	}
	struct sluice_call call = {.items = items,
	                           .item_count = request->count,
	                           .cost = request->cost,
	                           .operation = operation,
	                           .want_next = true,
	                           .now = request->now_ms * SL_MS_NS,
	                           .each = request->single};
	assert_int_equal(sluice_decide(world->store, &call), SLUICE_OK);
	request->merged = call.merged;
}

static bool met_before(struct world *world, const struct request *request, size_t i) {
	for (size_t k = 0; k < i; k++)
		if (known_of(world, &request->items[k]) == known_of(world, &request->items[i]))
			return true;
	return false;
}

/* What a reset may say that it forgot: all that was charged; at the least, what certainly counts. */
static void bound_forgotten(struct world *world, struct request *request) {
	request->least_forgotten = request->most_forgotten = 0;
	decide(world, request, SLUICE_PEEK);
	for (size_t i = 0; i < request->count; i++) {
		const struct known *known = known_of(world, &request->items[i]);
		if (met_before(world, request, i) || !known->is_there)
			continue;
		request->most_forgotten++;
		request->least_forgotten += request->single[i].reset_after_ns != 0 && known->over_ms > world->high_ms;
	}
}

static void learn(struct world *world, const struct request *request) {
	for (size_t i = 0; i < request->count; i++) {
		const struct item *item = &request->items[i];
		struct known *known = known_of(world, item);
		uint64_t t = sl_max(request->now_ms, known->last_ms);
		if (request->operation == SLUICE_PEEK || world->limits[item->rule].algorithm == SLUICE_UNLIMITED)
			continue;
		if (request->operation == SLUICE_RESET) {
			*known = (struct known){.is_there = false};
			continue;
		}
		if (request->operation == SLUICE_CHARGE && request->cost != 0 && request->merged.allowed &&
		    request->single[i].allowed && item->observed != SLUICE_TRIED) {
			known->is_there = true;
			known->last_ms = t;
			known->rule = item->rule;
		}
		if (known->is_there)
			known->over_ms = t + (uint64_t)sl_ns_to_ms_ceil(request->single[i].reset_after_ns) +
			                 world->rules[item->rule].precision_ns / SL_MS_NS;
	}
}

static bool is_bucket(const struct twin_rule *rule) {
	return rule->algorithm == SLUICE_TOKEN_BUCKET || rule->algorithm == SLUICE_LEAKY_BUCKET;
}

/* Two rates of one counter meet in no request: whose drained what went before would be anybody's guess. */
static void agree_on_rates(struct world *world, struct request *request) {
	for (size_t i = 0; i < request->count; i++)
		for (size_t k = 0; k < i; k++)
			if (is_bucket(&world->rules[request->items[i].rule]) &&
			    known_of(world, &request->items[i]) == known_of(world, &request->items[k]))
				request->items[i].rule = request->items[k].rule;
}

/* See the top of this file. */
static void step_past_the_forgotten(struct world *world, struct request *request) {
	for (size_t i = 0; i < request->count; i++) {
		struct item *item = &request->items[i];
		const struct known *known = known_of(world, item);
		if (!known->is_there || known->over_ms > sl_max(world->high_ms, request->now_ms))
			continue;
		if (request->now_ms < known->over_ms || request->now_ms < known->last_ms)
			request->now_ms = world->high_ms;
		if (is_bucket(&world->rules[item->rule]))
			item->rule = known->rule;
	}
}

static void run_request(struct world *world, struct request *request) {
	step_past_the_forgotten(world, request);
	agree_on_rates(world, request);
	world->high_ms = sl_max(world->high_ms, request->now_ms);
	if (request->operation == SLUICE_RESET)
		bound_forgotten(world, request);
	decide(world, request, request->operation);
	learn(world, request);
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

static struct twin_rule draw_rule(struct dice *dice) {
	const struct dice_kind *kind = &dice_kinds[dice_below(dice, DICE_KINDS)];
	struct twin_rule rule = dice_rule(dice, kind->algorithm, kind->edge);
	if (dice_one_in(dice, 2) && rule.quota > 50) /* so that several of them deny */
		rule.quota = (uint32_t)(1 + dice_below(dice, 20));
	if (dice_one_in(dice, 2) && rule.burst > 50)
		rule.burst = (uint32_t)(1 + dice_below(dice, 20));
	return rule;
}

/* Another view of the counters of an earlier rule, under its name if it has one. */
static void draw_view(struct world *world, size_t i) {
	size_t of = (size_t)dice_below(&world->dice, i);
	struct twin_rule rule = world->rules[of];
	world->names[i] = world->names[of];
	if (is_bucket(&rule) && rule.quota != 0) {
		rule.burst += 1 + (uint32_t)dice_below(&world->dice, 3);
		rule.burst = rule.burst == 0 ? UINT32_MAX : rule.burst; /* rates that change: rates_test.c */
	} else if (rule.algorithm != SLUICE_UNLIMITED && !is_bucket(&rule)) {
		rule.quota = (uint32_t)(1 + dice_below(&world->dice, 30));
	}
	if (rule.algorithm == SLUICE_SLIDING_BUCKETS)
		rule.edge = (sluice_edge)dice_below(&world->dice, 3);
	world->rules[i] = rule;
}

static bool same_counters(const struct world *world, size_t i, size_t k) {
	return world->limits[i].derived[SL_IDENT_KIND] == world->limits[k].derived[SL_IDENT_KIND] &&
	       world->limits[i].derived[SL_IDENT_NAME] == world->limits[k].derived[SL_IDENT_NAME];
}

static void set_rule(struct world *world, size_t i) {
	char name[16];
	world->limits[i] = rule_limit(&world->rules[i]);
	if (world->names[i] != 0 && world->rules[i].algorithm != SLUICE_UNLIMITED)
		sl_rule_name(&world->limits[i],
		             sl_slice(name, (size_t)snprintf(name, sizeof name, "name %d", world->names[i])));
	for (world->same[i] = 0; !same_counters(world, world->same[i], i);)
		world->same[i]++;
	if (is_bucket(&world->rules[i]) && world->rules[i].quota != world->rules[world->same[i]].quota) {
		/* drawn under the name of another: rates that change are rates_test.c's, where a store may err */
		world->rules[i].quota = world->rules[world->same[i]].quota;
		set_rule(world, i);
	}
}

/* Whether the script takes the rule. What it refuses must be refused for its 53 bits. */
static bool script_takes(struct world *world, size_t rule) {
	static struct redis_words words, keys;
	struct item item = {.rule = rule};
	size_t key = 0;
	words.count = keys.count = 0;
	redis_word(&words, "SLUICE.PEEK");
	key_word(world, world->script, 0, &words);
	key_word(world, world->script, 0, &keys);
	redis_word(&words, "0");
	redis_word(&words, "AT");
	redis_word(&words, "%" PRIu64, world->now_ms);
	item_words(world, world->script, &item, &key, &words);
	redis_door_send(&world->door, world->script, &words, &keys);
	struct redisReply *reply = redis_door_read(&world->door);
	bool takes = reply->type == REDIS_REPLY_ARRAY;
	if (!takes) {
		if (reply->type != REDIS_REPLY_ERROR || strstr(reply->str, "53 bits") == NULL)
			fail_msg("%s: %s", words.text[words.count - 1], reply->type == REDIS_REPLY_ERROR ? reply->str : "?");
		if (world->refused++ < LISTED_MAX)
			print_message("refused by the script: %s: %s\n", words.text[words.count - 1], reply->str);
	}
	freeReplyObject(reply);
	return takes;
}

static void begin_world(struct world *world) {
	world->now_ms = world->high_ms = 1767225600000 + dice_below(&world->dice, 100000);
	world->count = 0;
	world->script = dice_one_in(&world->dice, 2) ? REDIS_FUNCTION : REDIS_EVAL;
	world->for_script = !dice_one_in(&world->dice, 8);
	memset(world->known, 0, sizeof world->known);
	for (size_t i = 0; i < RULES; i++) {
		do {
			world->rules[i] = draw_rule(&world->dice);
			world->names[i] = dice_one_in(&world->dice, 4) ? 1 + (int)dice_below(&world->dice, 3) : 0;
			if (i != 0 && dice_one_in(&world->dice, 3)) /* another view of counters that are there */
				draw_view(world, i);
			set_rule(world, i);
		} while (world->for_script && !script_takes(world, i));
	}
}

static void draw_items(struct world *world, struct request *request) {
	struct dice *dice = &world->dice;
	uint32_t most = dice_one_in(dice, 6) ? SLUICE_ITEMS_MAX : 4;
	size_t focus = (size_t)dice_below(dice, RULES);
	request->count = 1 + (uint32_t)dice_below(dice, dice_one_in(dice, 3) ? 1 : most);
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

static void draw_request(struct world *world, struct request *request) {
	struct dice *dice = &world->dice;
	uint64_t roll = dice_below(dice, 100), W = world->rules[dice_below(dice, RULES)].window_ns / SL_MS_NS;
	if (dice_one_in(dice, 2))
		world->now_ms += dice_below(dice, dice_one_in(dice, 3) ? W + 2 : W / 16 + 2);
	if (dice_one_in(dice, 20))
		world->now_ms -= dice_below(dice, 3000);
	*request = (struct request){.now_ms = world->now_ms};
	request->operation = roll < 75 ? SLUICE_CHARGE : roll < 85 ? SLUICE_PEEK : roll < 97 ? SLUICE_REFUND : SLUICE_RESET;
	request->cost = dice_cost(dice, 1 + dice_below(dice, 20));
	request->each = request->operation != SLUICE_RESET && dice_one_in(dice, 2);
	draw_items(world, request);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

static void fresh_stores(struct world *world) {
	struct sluice_store_options options = {.memory_bytes = 32 << 20};
	sluice_store_close(world->store);
	assert_int_equal(sluice_store_open(&world->store, &options, NULL), SLUICE_OK);
	freeReplyObject(redisCommand(world->door.client, "FLUSHALL"));
}

static struct world the_world;

static void three_decide_alike(void **state) {
	uint64_t most = getenv("SLUICE_SOAK_SECONDS") != NULL ? SOAK : dice_ops(20000);
	(void)state;
	for (the_world.number = 0; the_world.by_module < most || the_world.by_script < most; the_world.number++) {
		if (the_world.number % STREAMS_PER_STORE == 0)
			fresh_stores(&the_world);
		the_world.dice = dice_of(dice_seed(), the_world.number ^ 0x7265646973646f6fu);
		begin_world(&the_world);
		size_t length = 1 + (size_t)dice_below(&the_world.dice, REQUESTS_MAX);
		for (; the_world.count < length; the_world.count++) {
			draw_request(&the_world, &the_world.requests[the_world.count]);
			run_request(&the_world, &the_world.requests[the_world.count]);
		}
		compare_stream(&the_world, REDIS_MODULE);
		if (the_world.for_script)
			compare_stream(&the_world, the_world.script);
	}
	print_message("kept: %" PRIu64 " requests alike in store and module, %" PRIu64 " in the script\n",
	              the_world.by_module, the_world.by_script);
	print_message("kept: the script refused %" PRIu64 " rules; of %" PRIu64 " ties within a ms it named the other\n",
	              the_world.refused, the_world.ties);
}

static int open_door(void **state) {
	(void)state;
	the_world.door = redis_door_open();
	return 0;
}

static int close_door(void **state) {
	(void)state;
	sluice_store_close(the_world.store);
	redis_door_close(&the_world.door);
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(three_decide_alike)};
	dice_seed();
	return cmocka_run_group_tests_name("store, module and script", tests, open_door, close_door);
}
