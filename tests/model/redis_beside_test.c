/* The module's values against the embedded store, for all that a count of requests cannot express: leases, members,
 * reservations, parts of a cost, retries, penalties, denials that are counted, and any other limits beside them. Every
 * figure of every answer, to the nanosecond; who holds leases; and a replica that is told of every change by effects,
 * and is asked the same.
 *
 * A world is a handful of limits, of which some meet in one counter, three keys, a few ids and members. Time goes on by
 * steps up to the windows, often stands, and now and then goes back a little. Between calls a value is sometimes
 * written and read, or copied: it goes on as if nothing had been.
 *
 * Wall time stands still, so that the module forgets nothing that the store still has. SLUICE_SEED repeats a run. */
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/step.h"
#include "algo/terms.h"
#include "base/assert.h"
#include "base/siphash.h"
#include "hosts/redis/decide.h"

enum { RULES = 6, KEYS = 3, WHO = 5, TERMS = 4, CALLS = 400, WORLDS = 250, HOLDERS_MAX = 64 };

static const char *const notations[] = {
	"concurrency 5 lease 300ms",
	"concurrency 3 lease 300ms",
	"concurrency 12 lease 2s",
	"distinct 3/500ms",
	"distinct 2/500ms",
	"distinct 40/2s",
	"sliding-log 20/500ms",
	"sliding-log 9/500ms",
	"sliding-log 100/3s",
	"fixed-window 20/400ms",
	"sliding-window 30/600ms",
	"sliding-window 12/600ms",
	"token-bucket 20/1s burst 30",
	"token-bucket 20/1s burst 7",
	"leaky-bucket 10/1s queue 8",
	"sliding-buckets 25/1s precision 100ms edge count",
	"sliding-buckets 25/600ms precision 50ms edge weighted",
	"sliding-buckets 8/1s precision 100ms edge drop",
	"fixed-window 50/hour at UTC",
	"unlimited",
};
enum { NOTATIONS = sizeof notations / sizeof *notations };

static const char *const terms_texts[TERMS] = {"penalty [200ms, 1s] after 3 denials in 300ms",
                                               "penalty [50ms] after 1 denial in 100ms forgive 400ms", "count-denied",
                                               "count-denied; penalty [100ms, 300ms] after 4 denials in 1s"};

static const char *const ids[WHO] = {"a", "job-7", "0123456789abcdef", "x", "retry"};
static const char *const members[WHO] = {"192.0.2.1", "192.0.2.2", "m", "", "other"};
static const char *const key_names[KEYS] = {"one", "two", "three"};

struct world {
	struct dice dice;
	uint64_t number, now_ms;
	size_t at;
	struct sluice_store *store;
	struct sluice_limit limits[RULES];
	char texts[RULES][SLUICE_LIMIT_TEXT_MAX];
	struct sluice_terms terms[TERMS];
	slr_value values[KEYS], replicas[KEYS];
	struct slr_effects effects;
	/* the call, as both are asked it */
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	uint8_t key_of[SLUICE_ITEMS_MAX], rule_of[SLUICE_ITEMS_MAX], member_of[SLUICE_ITEMS_MAX];
	struct sluice_call call;
	struct slr_call asked;
};

static int64_t wall_ms(void) {
	return INT64_C(1000000000000);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool fits(const struct world *world, const struct sluice_limit *limit) {
	sluice_operation operation = world->call.operation;
	if (limit->algorithm == SLUICE_CONCURRENCY)
		return operation != SLUICE_CHARGE && operation != SLUICE_REFUND && operation != SLUICE_RESERVE;
	return limit->algorithm != SLUICE_DISTINCT || operation != SLUICE_RESERVE;
}

static void draw_item(struct world *world, uint32_t i) {
	struct dice *dice = &world->dice;
	struct sluice_item *item = &world->items[i];
	size_t rule = dice_below(dice, RULES);
	while (!fits(world, &world->limits[rule]))
		rule = (rule + 1) % RULES;
	world->rule_of[i] = (uint8_t)rule;
	*item = (struct sluice_item){.limit = &world->limits[rule]};
	item->key = sl_str(key_names[world->key_of[i]]);
	item->observed = dice_one_in(dice, 6) ? (uint8_t)(1 + dice_below(dice, 2)) : 0;
	if (world->limits[rule].algorithm == SLUICE_DISTINCT) {
		world->member_of[i] = (uint8_t)dice_below(dice, WHO);
		for (uint32_t k = 0; k < i; k++) /* two of one counter are refused */
			if (world->key_of[k] == world->key_of[i] && world->items[k].member.data != NULL)
				world->member_of[i] = world->member_of[k];
		item->member = sl_str(members[world->member_of[i]]);
	}
	if (dice_one_in(dice, 3) && world->limits[rule].algorithm != SLUICE_UNLIMITED)
		item->terms = &world->terms[rule % TERMS];
	if (item->terms != NULL && world->limits[rule].algorithm >= SLUICE_CONCURRENCY && item->terms->count_denied)
		item->terms = NULL;
	if (world->call.operation >= SLUICE_ACQUIRE && dice_one_in(dice, 3) && world->call.operation != SLUICE_COMMIT)
		item->cost = 1 + (uint32_t)dice_below(dice, 6);
	if ((world->call.operation == SLUICE_ACQUIRE || world->call.operation == SLUICE_RESERVE) &&
	    world->limits[rule].algorithm < SLUICE_CONCURRENCY && dice_one_in(dice, 3))
		item->ttl_ns = (1 + dice_below(dice, 700)) * SL_MS_NS;
}

static bool has_rule(const struct world *world) {
	for (size_t i = 0; i < RULES; i++)
		if (world->limits[i].algorithm < SLUICE_CONCURRENCY)
			return true;
	return false;
}

static sluice_operation draw_operation(struct world *world) {
	static const sluice_operation often[] = {SLUICE_CHARGE,  SLUICE_CHARGE,  SLUICE_CHARGE,  SLUICE_ACQUIRE,
	                                         SLUICE_ACQUIRE, SLUICE_RESERVE, SLUICE_RESERVE, SLUICE_COMMIT,
	                                         SLUICE_PEEK,    SLUICE_REFUND,  SLUICE_RELEASE, SLUICE_RENEW};
	if (dice_one_in(&world->dice, 60))
		return SLUICE_RESET;
	sluice_operation operation = often[dice_below(&world->dice, sizeof often / sizeof *often)];
	return has_rule(world) ? operation : operation == SLUICE_RELEASE ? operation : SLUICE_ACQUIRE;
}

static void draw(struct world *world) {
	struct dice *dice = &world->dice;
	struct sluice_call *call = &world->call;
	bool leases = false;
	if (dice_one_in(dice, 2))
		world->now_ms += dice_below(dice, dice_one_in(dice, 30) ? 4000 : dice_one_in(dice, 4) ? 400 : 30);
	else if (dice_one_in(dice, 40))
		world->now_ms -= dice_below(dice, 100);
	*call = (struct sluice_call){.items = world->items, .each = world->each};
	call->operation = draw_operation(world);
	call->now = world->now_ms * SL_MS_NS;
	call->want_next = dice_one_in(dice, 2);
	call->cost = dice_one_in(dice, 12) ? 0 : 1 + (uint32_t)dice_below(dice, dice_one_in(dice, 8) ? 60 : 5);
	call->item_count = dice_one_in(dice, 2) ? 1 : 1 + (uint32_t)dice_below(dice, 4);
	for (uint32_t i = 0; i < call->item_count; i++)
		world->key_of[i] = (uint8_t)(i == 0 || dice_one_in(dice, 2) ? dice_below(dice, KEYS) : world->key_of[i - 1]);
	for (uint32_t i = 1; i < call->item_count;
	     i++) /* a token is kept at the first key: of the same counters the same */
		for (uint32_t k = i; k > 0 && world->key_of[k] < world->key_of[k - 1]; k--) {
			uint8_t swapped = world->key_of[k];
			world->key_of[k] = world->key_of[k - 1];
			world->key_of[k - 1] = swapped;
		}
	for (uint32_t i = 0; i < call->item_count; i++) {
		draw_item(world, i);
		leases = leases || world->items[i].limit->algorithm == SLUICE_CONCURRENCY;
	}
	if (call->operation == SLUICE_ACQUIRE && !leases)
		call->operation = SLUICE_CHARGE;
	call->upto = (call->operation == SLUICE_CHARGE || call->operation == SLUICE_PEEK) && dice_one_in(dice, 4);
	for (uint32_t i = 0; call->upto && i < call->item_count; i++)
		world->items[i].cost = 0;
	if (call->operation >= SLUICE_ACQUIRE || (call->operation == SLUICE_CHARGE && dice_one_in(dice, 4)))
		call->id = sl_str(ids[dice_below(dice, WHO)]);
	if (call->operation == SLUICE_RESERVE)
		call->ttl_ns = (1 + dice_below(dice, 900)) * SL_MS_NS;
}

static uint64_t token_of(const struct world *world) {
	const struct sluice_call *call = &world->call;
	static const uint64_t key[2] = {1, 2};
	uint64_t sum = 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const uint64_t *identity = world->items[i].limit->derived;
		uint32_t first = 0; /* of this counter; as the store has it, one that is tried first hides no other */
		while (world->key_of[first] != world->key_of[i] ||
		       memcmp(world->items[first].limit->derived, identity, 2 * sizeof *identity) != 0)
			first++;
		if (world->items[i].limit->algorithm == SLUICE_UNLIMITED || world->items[i].observed == SLUICE_TRIED ||
		    (first != i && world->items[first].observed != SLUICE_TRIED))
			continue;
		sum += sl_siphash(key, identity, 2, sl_str(key_names[world->key_of[i]]), 2, 4);
	}
	return sum == 0 ? 0 : (sum ^ sl_id_number(call->id)) | 1;
}

/* The store's call in the module's words. */
static void translate(struct world *world) {
	const struct sluice_call *call = &world->call;
	struct slr_call *asked = &world->asked;
	*asked = (struct slr_call){
		.asked = *call, .operation = (enum sl_operation)call->operation, .wall_ms = wall_ms, .heard = true};
	asked->id = call->id.len != 0 ? sl_id_number(call->id) : 0;
	asked->token = call->operation == SLUICE_CHARGE && call->id.len != 0 ? token_of(world) : 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (i == 0 || world->key_of[i] != world->key_of[i - 1])
			asked->keys[asked->key_count++].value = world->values[world->key_of[i]];
		asked->items[i] = call->items[i];
		asked->key_of[i] = (uint8_t)(asked->key_count - 1);
	}
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void print_decision(const char *who, const struct sluice_decision *d) {
	fprintf(stderr,
	        "%s: allowed %d index %d quota %" PRIu64 " remaining %u retry %" PRIu64 " reset %" PRIu64 " delay %" PRIu64
	        " next %" PRIu64 "\n",
	        who, d->allowed, d->index, d->quota, d->remaining, d->retry_after_ns, d->reset_after_ns, d->delay_ns,
	        d->next_after_ns);
}

static void print_call(const struct world *world) {
	static const char *const verbs[] = {"CHARGE",  "PEEK",  "REFUND",  "RESET", "ACQUIRE",
	                                    "RELEASE", "RENEW", "RESERVE", "COMMIT"};
	const struct sluice_call *call = &world->call;
	fprintf(stderr, "%s cost %u at %" PRIu64 " id %.*s ttl %" PRIu64 "%s:", verbs[call->operation], call->cost,
	        world->now_ms, (int)call->id.len, (const char *)call->id.data, call->ttl_ns / SL_MS_NS,
	        call->upto ? " UPTO" : "");
	for (uint32_t i = 0; i < call->item_count; i++)
		fprintf(stderr, " [%s %s%s cost %u ttl %" PRIu64 " %s%s]", key_names[world->key_of[i]],
		        call->items[i].observed == 0   ? ""
		        : call->items[i].observed == 1 ? "OBSERVED "
		                                       : "TRIED ",
		        world->texts[world->rule_of[i]], call->items[i].cost, call->items[i].ttl_ns / SL_MS_NS,
		        call->items[i].member.data != NULL ? members[world->member_of[i]] : "",
		        call->items[i].terms != NULL ? terms_texts[call->items[i].terms - world->terms] : "");
	fprintf(stderr, "\n");
}

static void differ(const struct world *world, const char *what) {
	fail_msg("SLUICE_SEED=%" PRIu64 " world %" PRIu64 " call %zu: %s", dice_seed(), world->number, world->at, what);
}

static bool same(const struct sluice_decision *a, const struct sluice_decision *b, bool want_next) {
	return a->allowed == b->allowed && a->index == b->index && a->quota == b->quota && a->remaining == b->remaining &&
	       a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
	       a->delay_ns == b->delay_ns && (!want_next || a->next_after_ns == b->next_after_ns);
}

static void compare_decision(const struct world *world, const struct sluice_decision *store,
                             const struct sluice_decision *module, bool next) {
	if (same(store, module, world->call.want_next && next))
		return;
	print_decision("store ", store);
	print_decision("module", module);
	for (uint32_t i = 0; i < world->call.item_count; i++) {
		print_decision(" each of the store ", &world->call.each[i]);
		print_decision(" each of the module", &world->asked.each[i]);
	}
	differ(world, "a decision differs");
}

static void compare(const struct world *world) {
	const struct sluice_call *call = &world->call;
	const struct slr_call *asked = &world->asked;
	bool decides =
		call->operation != SLUICE_RESET && call->operation != SLUICE_RELEASE && call->operation != SLUICE_RENEW;
	if (call->found != asked->asked.found)
		differ(world, "found differs");
	if (!decides)
		return;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (call->items[i].limit->algorithm != SLUICE_UNLIMITED)
			compare_decision(world, &call->each[i], &asked->each[i], true);
	compare_decision(world, &call->merged, &asked->asked.merged, true);
	if (call->repeated != asked->asked.repeated)
		differ(world, "repeated differs");
	if (call->operation <= SLUICE_PEEK && call->granted != asked->asked.granted)
		differ(world, "granted differs");
}

static void compare_holders(struct world *world, uint32_t i) {
	struct sluice_holder store[HOLDERS_MAX], module[HOLDERS_MAX];
	struct slr_call asked = {.asked = {.item_count = 1, .now = world->call.now}, .key_count = 1};
	uint32_t count =
		sluice_holders(world->store, world->items[i].limit, world->items[i].key, world->call.now, store, HOLDERS_MAX);
	asked.items[0].limit = world->items[i].limit;
	asked.keys[0].value = world->values[world->key_of[i]];
	if (count != slr_holders_of(&asked, module, HOLDERS_MAX))
		differ(world, "holders differ");
	for (uint32_t k = 0; k < count; k++)
		if (store[k].ends_after_ns != module[k].ends_after_ns)
			differ(world, "the end of a lease differs");
}

/* A replica is asked what its primary is. */
static void compare_replica(struct world *world, uint32_t i) {
	const struct slr_value *unused = NULL;
	struct slr_call primary = world->asked, replica;
	(void)unused;
	primary.operation = SL_OP_PEEK;
	primary.asked.item_count = primary.key_count = 1;
	primary.token = 0;
	primary.asked.upto = false;
	primary.items[0] = world->asked.items[i];
	primary.key_of[0] = 0;
	replica = primary;
	primary.keys[0].value = world->values[world->key_of[i]];
	replica.keys[0].value = world->replicas[world->key_of[i]];
	if (slr_decide(&primary) != SLR_FINE || slr_decide(&replica) != SLR_FINE)
		differ(world, "a peek failed");
	if (!same(&primary.each[0], &replica.each[0], primary.asked.want_next)) {
		print_decision("primary", &primary.each[0]);
		print_decision("replica", &replica.each[0]);
		differ(world, "the replica says otherwise");
	}
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void keep(struct world *world) {
	struct slr_call *asked = &world->asked;
	for (uint32_t k = 0; k < asked->key_count; k++) {
		struct slr_key *key = &asked->keys[k];
		uint32_t i = 0;
		while (asked->key_of[i] != k)
			i++;
		world->values[world->key_of[i]] = key->value;
		if (!slr_value_is_valid(key->value))
			differ(world, "a value is not valid");
		if (key->effects.bytes.len != 0 &&
		    !slr_effects_apply(&world->replicas[world->key_of[i]],
		                       sl_slice(key->effects.bytes.data, key->effects.bytes.len)))
			differ(world, "a replica refuses notes");
		if (!slr_value_is_valid(world->replicas[world->key_of[i]]))
			differ(world, "a replica is not valid");
		slr_bytes_free(&key->effects.bytes);
	}
}

/* Saves and loads a value, or copies it. */
static void move(struct world *world, slr_value *value) {
	struct slr_bytes bytes = {.data = NULL};
	slr_value other;
	if (dice_one_in(&world->dice, 2)) {
		other = slr_value_copy(*value);
	} else {
		slr_write_value(&bytes, *value);
		other = slr_read_value(sl_slice(bytes.data, bytes.len));
		slr_bytes_free(&bytes);
	}
	if ((other == 0) != (*value == 0))
		differ(world, "a value does not survive being saved");
	slr_value_free(*value);
	*value = other;
}

static void step(struct world *world) {
	draw(world);
	translate(world);
	if (getenv("SLUICE_TRACE") != NULL)
		print_call(world);
	if (sluice_decide(world->store, &world->call) != SLUICE_OK) {
		print_call(world);
		differ(world, "the store refuses");
	}
	if (slr_decide(&world->asked) != SLR_FINE)
		differ(world, "the module refuses");
	keep(world);
	compare(world);
	for (uint32_t i = 0; i < world->call.item_count; i++) {
		compare_replica(world, i);
		if (world->items[i].limit->algorithm == SLUICE_CONCURRENCY)
			compare_holders(world, i);
	}
	if (dice_one_in(&world->dice, 20))
		move(world, dice_one_in(&world->dice, 2) ? &world->values[dice_below(&world->dice, KEYS)]
		                                         : &world->replicas[dice_below(&world->dice, KEYS)]);
}

static void begin(struct world *world, uint64_t number) {
	static const struct sluice_store_options options = {.memory_bytes = 8 << 20};
	*world = (struct world){.dice = dice_of(dice_seed(), number), .number = number};
	world->now_ms = UINT64_C(1800000000000) + dice_below(&world->dice, 100000);
	SL_ASSERT(sluice_store_open(&world->store, &options, NULL) == SLUICE_OK);
	for (size_t i = 0; i < RULES; i++) {
		const char *text = notations[dice_below(&world->dice, NOTATIONS - (i == 0 ? 1 : 0))];
		SL_ASSERT(sluice_limit_parse(&world->limits[i], sl_str(text), NULL) == SLUICE_OK);
		snprintf(world->texts[i], sizeof world->texts[i], "%s", text);
		if (dice_one_in(&world->dice, 4) && world->limits[i].algorithm != SLUICE_UNLIMITED)
			sl_rule_name(&world->limits[i], sl_str("login"));
	}
	for (size_t i = 0; i < TERMS; i++)
		SL_ASSERT(sl_terms_parse(&world->terms[i], sl_str(terms_texts[i]), NULL) == SLUICE_OK);
	/* whatever is drawn, there is a limit for it */
	SL_ASSERT(sluice_limit_parse(&world->limits[RULES - 1], sl_str("sliding-log 9/500ms"), NULL) == SLUICE_OK);
	snprintf(world->texts[RULES - 1], sizeof world->texts[0], "sliding-log 9/500ms");
}

static void end(struct world *world) {
	for (size_t k = 0; k < KEYS; k++) {
		slr_value_free(world->values[k]);
		slr_value_free(world->replicas[k]);
	}
	sluice_store_close(world->store);
}

static void test_the_module_decides_as_the_store(void **state) {
	static struct world world;
	uint64_t worlds = dice_ops(WORLDS), from = 0;
	(void)state;
	if (getenv("SLUICE_WORLD") != NULL) {
		from = strtoull(getenv("SLUICE_WORLD"), NULL, 10);
		worlds = from + 1;
	}
	for (uint64_t number = from; number < worlds; number++) {
		begin(&world, number);
		for (world.at = 0; world.at < CALLS; world.at++)
			step(&world);
		end(&world);
	}
	printf("%" PRIu64 " calls, SLUICE_SEED=%" PRIu64 "\n", (worlds - from) * CALLS, dice_seed());
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_module_decides_as_the_store)};
	/* A soak looks for what is not known yet; any other run is told of what a change has broken. */
	if (getenv("SLUICE_SOAK_SECONDS") == NULL)
		setenv("SLUICE_SEED", "6", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
