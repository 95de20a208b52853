/* Values of the module and random calls of them, without Redis; see redis_world.h. */
#include "tests/unit/redis_world.h"

#include "base/assert.h"
#include "hosts/redis/own_quota.h"

static int64_t wall_ms;

int64_t redis_wall_ms(void) {
	return wall_ms;
}

static struct twin_rule any_rule(struct dice *dice) {
	return dice_rule(dice, (sluice_algorithm)(1 + dice_below(dice, SLUICE_LEAKY_BUCKET)),
	                 (sluice_edge)dice_below(dice, 3));
}

/* Another quota, burst, queue or edge: the same counter. */
static struct twin_rule sibling_of(struct dice *dice, struct twin_rule rule) {
	if (rule.algorithm == SLUICE_TOKEN_BUCKET || rule.algorithm == SLUICE_LEAKY_BUCKET)
		rule.burst = 1 + (uint32_t)dice_below(dice, 2 * (uint64_t)rule.burst + 1);
	else
		rule.quota = 1 + (uint32_t)dice_below(dice, 2 * (uint64_t)rule.quota + 1);
	rule.edge = rule.algorithm == SLUICE_SLIDING_BUCKETS ? (sluice_edge)dice_below(dice, 3) : rule.edge;
	return rule;
}

/* Whether a bucket of the same window stands before it: of one name they would be one counter of two rates, which the
 * store tells apart by lifetimes, and the module exactly (tests/model/rates_test.c). */
static bool shares_window(const struct redis_world *world, size_t i) {
	for (size_t k = 0; k < i; k++)
		if (world->rules[k].window_ns == world->rules[i].window_ns &&
		    world->rules[k].algorithm == world->rules[i].algorithm && world->rules[k].quota != world->rules[i].quota &&
		    world->rules[i].algorithm >= SLUICE_TOKEN_BUCKET)
			return true;
	return false;
}

void redis_world_begin(struct redis_world *world, uint64_t stream) {
	*world = (struct redis_world){.dice = dice_of(dice_seed(), stream), .now_ms = UINT64_C(1800000000000)};
	for (size_t i = 0; i < WORLD_RULES; i++) {
		bool sibling = i > 0 && dice_one_in(&world->dice, 3);
		world->rules[i] = sibling ? sibling_of(&world->dice, world->rules[i - 1]) : any_rule(&world->dice);
		world->limits[i] = rule_limit(&world->rules[i]);
		if (dice_one_in(&world->dice, 4) && !shares_window(world, i))
			sl_rule_name(&world->limits[i], sl_str("login"));
	}
}

void redis_world_end(struct redis_world *world) {
	for (size_t k = 0; k < WORLD_KEYS; k++) {
		slr_value_free(world->values[k]);
		slr_value_free(world->replicas[k]);
	}
	for (size_t k = 0; k < SLUICE_ITEMS_MAX; k++)
		slr_bytes_free(&world->effects[k].bytes);
}

static void step_time(struct redis_world *world) {
	uint64_t window_ms = world->rules[dice_below(&world->dice, WORLD_RULES)].window_ns / TWIN_MS;
	if (dice_one_in(&world->dice, 3))
		return;
	if (dice_one_in(&world->dice, 20))
		world->now_ms -= dice_below(&world->dice, 5000);
	else if (dice_one_in(&world->dice, 8))
		world->now_ms += dice_below(&world->dice, window_ms + 2);
	else
		world->now_ms += dice_below(&world->dice, window_ms / 16 + 2);
}

static uint8_t key_of_call(struct redis_world *world, uint8_t key) {
	struct slr_call *call = &world->call;
	uint8_t k = 0;
	while (k < call->key_count && world->keys_of_call[k] != key)
		k++;
	world->keys_of_call[k] = key;
	call->key_count = call->key_count > k ? call->key_count : (uint32_t)k + 1;
	return k;
}

void redis_world_draw(struct redis_world *world) {
	struct slr_call *call = &world->call;
	uint64_t rule = 0;
	*call = (struct slr_call){.operation = SL_OP_CHECK, .heard = true, .wall_ms = redis_wall_ms};
	step_time(world);
	if (world->now_ms > world->latest_ms)
		world->latest_ms = world->now_ms;
	call->asked.now = world->now_ms * SL_MS_NS;
	call->asked.want_next = dice_one_in(&world->dice, 2);
	call->asked.item_count = dice_one_in(&world->dice, 2) ? 1 : 1 + (uint32_t)dice_below(&world->dice, 4);
	for (uint32_t i = 0; i < call->asked.item_count; i++) {
		rule = dice_below(&world->dice, WORLD_RULES);
		call->items[i].limit = &world->limits[rule];
		call->items[i].observed = dice_one_in(&world->dice, 6) ? (uint8_t)(1 + dice_below(&world->dice, 2)) : 0;
		call->key_of[i] = key_of_call(world, (uint8_t)dice_below(&world->dice, WORLD_KEYS));
	}
	call->asked.cost = dice_cost(&world->dice, world->rules[rule].quota);
}

enum slr_failure redis_world_decide(struct redis_world *world) {
	struct slr_call *call = &world->call;
	enum slr_failure failure;
	for (uint32_t k = 0; k < call->key_count; k++) {
		call->keys[k].value = world->values[world->keys_of_call[k]];
		call->keys[k].effects = world->effects[k];
	}
	failure = slr_decide(call);
	for (uint32_t k = 0; k < call->key_count; k++) {
		struct slr_key *key = &call->keys[k];
		slr_value *replica = &world->replicas[world->keys_of_call[k]];
		world->values[world->keys_of_call[k]] = key->value;
		world->effects[k] = key->effects;
		SL_ASSERT(slr_value_is_valid(key->value));
		SL_ASSERT(key->changed || key->effects.bytes.len == 0);
		if (key->effects.bytes.len != 0)
			SL_ASSERT(slr_effects_apply(replica, sl_slice(key->effects.bytes.data, key->effects.bytes.len)));
		SL_ASSERT(slr_value_is_valid(*replica));
	}
	return failure;
}

static void draw_own(struct redis_world *world, bool some_end, struct redis_own *drawn) {
	size_t rule = dice_below(&world->dice, WORLD_RULES);
	struct twin_rule sibling = sibling_of(&world->dice, world->rules[rule]);
	drawn->key = (uint8_t)dice_below(&world->dice, WORLD_KEYS);
	drawn->limit = &world->limits[rule];
	drawn->set = !dice_one_in(&world->dice, 3);
	drawn->own = rule_limit(&sibling);
	if (dice_one_in(&world->dice, 4))
		SL_ASSERT(sluice_limit_parse(&drawn->own, sl_str("unlimited"), NULL) == SLUICE_OK);
	if (some_end && dice_one_in(&world->dice, 2))
		drawn->ttl_ns = (1 + dice_below(&world->dice, world->rules[rule].window_ns / TWIN_MS)) * TWIN_MS;
}

struct redis_own redis_world_override(struct redis_world *world, bool some_end) {
	struct redis_own drawn = {.ttl_ns = 0};
	struct slr_effects effects = {.bytes.data = NULL};
	struct slr_counter scratch;
	sluice_ns now = world->now_ms * SL_MS_NS;
	draw_own(world, some_end, &drawn);
	slr_value *value = &world->values[drawn.key];
	struct sl_identity counter = sl_identity_of(drawn.limit);
	struct sl_identity companion = slr_companion_of(SLR_COMPANION_OVERRIDE, counter);
	if (drawn.set) {
		slr_own_put(value, counter, &drawn.own, slr_own_end(&drawn.own, now, drawn.ttl_ns), sl_str("per-user"));
		slr_effect_whole(&effects, slr_value_find(*value, companion, &scratch));
	} else {
		slr_value_remove(value, companion);
		slr_effect_gone(&effects, companion);
	}
	slr_value_slim(value);
	SL_ASSERT(slr_effects_apply(&world->replicas[drawn.key], sl_slice(effects.bytes.data, effects.bytes.len)));
	slr_bytes_free(&effects.bytes);
	SL_ASSERT(slr_value_is_valid(*value) && slr_value_is_valid(world->replicas[drawn.key]));
	return drawn;
}

struct slr_call redis_call(enum sl_operation operation, slr_value value, const struct sluice_limit *limit,
                           sluice_ns now, uint32_t cost) {
	struct slr_call call = {.operation = operation, .key_count = 1};
	call.asked = (struct sluice_call){.item_count = 1, .cost = cost, .now = now, .want_next = true};
	call.wall_ms = redis_wall_ms;
	call.items[0].limit = limit;
	call.keys[0].value = value;
	return call;
}

struct sluice_limit redis_limit(const char *text) {
	struct sluice_limit limit;
	SL_ASSERT(sluice_limit_parse(&limit, sl_str(text), NULL) == SLUICE_OK);
	return limit;
}

struct slr_call redis_do(enum sl_operation operation, slr_value *value, const struct sluice_limit *limit, uint64_t ms,
                         uint32_t cost, uint64_t id) {
	struct slr_call call = redis_call(operation, *value, limit, REDIS_NOW + ms * SL_MS_NS, cost);
	call.id = id;
	call.asked.id = sl_slice("id", id != 0 ? 2 : 0);
	call.asked.ttl_ns = UINT64_C(1000) * SL_MS_NS;
	call.want = cost;
	SL_ASSERT(slr_decide(&call) == SLR_FINE);
	*value = call.keys[0].value;
	SL_ASSERT(slr_value_is_valid(*value));
	return call;
}

struct slr_bytes redis_bytes(slr_value value) {
	struct slr_bytes bytes = {.data = NULL};
	slr_write_value(&bytes, value);
	return bytes;
}
