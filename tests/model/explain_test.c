/* What is explained of a request is what is decided next: over random policies and random traffic, in 100,000 states.
 * Which limits count, by which override and for which key, is held against a twin that reads the policy as it was made
 * up here; what each answers, and all of them together, against the decision that follows. */
#include "algo/merge.h"
#include "policy/explain.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define START_NS ((uint64_t)1767225600000 * 1000000)

enum { LIMITS_MAX = 5, OVERRIDES_MAX = 3, STATES_EACH = 400, ABSENT = 0 };

/* What requests have: each attribute one of these, or none. */
enum { USER, PLAN, PATH, IP, ATTRIBUTES };
static const char *const names[ATTRIBUTES] = {"user", "plan", "path", "ip"};
static const char *const values[ATTRIBUTES][4] = {
	[USER] = {NULL, "ann", "bob", "eve"},
	[PLAN] = {NULL, "free", "pro", "trial"},
	[PATH] = {NULL, "/login", "/search/a", "/search/b"},
	[IP] = {NULL, "192.0.2.1", "192.0.2.2", "10.0.0.1"},
};

/* Conditions: which value an attribute must have; ABSENT: it is not asked for. A path is a prefix from 2 on. */
struct when {
	uint8_t wants[ATTRIBUTES];
};

struct override {
	struct when when;
	bool unlimited, own, observe, says_observe;
	uint32_t quota;
};

struct made_limit {
	struct when when;
	uint8_t algorithm, key, override_count;
	uint32_t quota, cost; /* cost 0: the request's */
	bool observe, penalty;
	struct override overrides[OVERRIDES_MAX];
};

struct world {
	struct dice *dice;
	struct made_limit limits[LIMITS_MAX];
	uint32_t limit_count;
	struct sluice_policy *policy;
	struct sluice_store *store;
	uint8_t request[ATTRIBUTES]; /* an index into values */
	uint64_t t;
	uint32_t told, ids;
	uint64_t *keyed; /* of the keys met: [0] undecided, [1] an override is told of them, [2] the limit's own */
	const struct sluice_match *match;
};

/* ---- making policies up ---------------------------------------------------------------------------------------- */

static const char *const notations[] = {"%u/1m",
                                        "fixed-window %u/30s",
                                        "sliding-log %u/20s",
                                        "token-bucket %u/10s burst %u",
                                        "leaky-bucket %u/10s queue %u",
                                        "sliding-buckets %u/1m precision 10s",
                                        "concurrency %u lease 20s"};
static const char *const keys[] = {"user", "user | ip", "[user, path]", "ip | \"nobody\"", "[]", "[ip, plan]"};
enum { NOTATIONS = sizeof notations / sizeof *notations, KEYS = sizeof keys / sizeof *keys };

enum { YAML_MAX = 16384 };

/* Appends to a text of YAML_MAX bytes, which is long enough. */
__attribute__((format(printf, 2, 3))) static void put(char *yaml, const char *format, ...) {
	size_t len = strlen(yaml);
	va_list args;
	va_start(args, format);
	assert_in_range(vsnprintf(yaml + len, YAML_MAX - len, format, args), 0, YAML_MAX - len - 1);
	va_end(args);
}

static void put_when(char *yaml, const struct when *when) {
	const char *before = "{";
	for (int a = 0; a < ATTRIBUTES; a++) {
		if (when->wants[a] == ABSENT)
			continue;
		put(yaml, "%s%s: %s", before, names[a],
		    a == PATH && when->wants[a] >= 2 ? "/search/*" : values[a][when->wants[a]]);
		before = ", ";
	}
	put(yaml, "%s}", *before == '{' ? "{" : "");
}

static struct when random_when(struct dice *dice, bool empty) {
	struct when when = {.wants = {0}};
	for (int a = 0; a < ATTRIBUTES; a++)
		if (dice_one_in(dice, empty ? 4 : 2))
			when.wants[a] = (uint8_t)(1 + dice_below(dice, 3));
	if (!empty && memcmp(&when, &(struct when){.wants = {0}}, sizeof when) == 0)
		when.wants[PLAN] = 1;
	return when;
}

static void put_limit(char *yaml, const struct made_limit *limit, uint32_t quota) {
	put(yaml, "limit: \"");
	put(yaml, notations[limit->algorithm], quota, limit->quota);
	put(yaml, "\"");
}

static void random_limit(struct dice *dice, struct made_limit *limit, uint32_t number, char *yaml) {
	*limit = (struct made_limit){.when = random_when(dice, true),
	                             .algorithm = (uint8_t)dice_below(dice, NOTATIONS),
	                             .key = (uint8_t)dice_below(dice, KEYS),
	                             .quota = 1 + (uint32_t)dice_below(dice, 6),
	                             .cost = dice_one_in(dice, 4) ? 2 : 0,
	                             .observe = dice_one_in(dice, 4),
	                             .penalty = dice_one_in(dice, 4)};
	put(yaml, "  - name: n%u\n    when: ", number);
	put_when(yaml, &limit->when);
	put(yaml, "\n    key: %s\n    optional: true\n    ", keys[limit->key]);
	put_limit(yaml, limit, limit->quota);
	put(yaml, "\n    observe: %s\n", limit->observe ? "true" : "false");
	if (limit->cost != 0)
		put(yaml, "    cost: %u\n", limit->cost);
	if (limit->penalty)
		put(yaml, "    penalty: \"[3s, 20s] after 2 denials in 10s\"\n");
	limit->override_count = (uint8_t)dice_below(dice, OVERRIDES_MAX + 1);
	if (limit->override_count != 0)
		put(yaml, "    overrides:\n");
	for (int i = 0; i < limit->override_count; i++) {
		struct override *override = &limit->overrides[i];
		*override = (struct override){.when = random_when(dice, false), .unlimited = dice_one_in(dice, 4)};
		override->own = override->unlimited || dice_one_in(dice, 2);
		override->says_observe = !override->own || dice_one_in(dice, 3);
		override->observe = override->says_observe ? dice_one_in(dice, 2) : limit->observe;
		override->quota = 1 + (uint32_t)dice_below(dice, 8);
		put(yaml, "      - {when: ");
		put_when(yaml, &override->when);
		put(yaml, override->own ? ", " : "");
		if (override->unlimited)
			put(yaml, "limit: unlimited");
		else if (override->own)
			put_limit(yaml, limit, override->quota);
		if (override->says_observe)
			put(yaml, ", observe: %s", override->observe ? "true" : "false");
		put(yaml, "}\n");
	}
}

static void open_world(struct world *world, struct dice *dice) {
	static char yaml[YAML_MAX];
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct sluice_problems problems = {0};
	yaml[0] = '\0';
	*world = (struct world){.dice = dice, .limit_count = 1 + (uint32_t)dice_below(dice, LIMITS_MAX), .t = START_NS};
	put(yaml, "attributes: {user: header u, plan: header p}\nlimits:\n");
	for (uint32_t i = 0; i < world->limit_count; i++)
		random_limit(dice, &world->limits[i], i, yaml);
	if (sluice_policy_load(&world->policy, sl_str(yaml), &problems) != SLUICE_OK)
		fail_msg("SLUICE_SEED=%" PRIu64 ": %s\n%s", dice_seed(), problems.count != 0 ? problems.list[0].text : "",
		         yaml);
	sluice_problems_free(&problems);
	assert_int_equal(sluice_store_open(&world->store, &options, NULL), SLUICE_OK);
}

static void close_world(struct world *world) {
	sluice_policy_free(world->policy);
	sluice_store_close(world->store);
}

/* ---- the twin -------------------------------------------------------------------------------------------------- */

static bool fits(const struct world *world, const struct when *when) {
	for (int a = 0; a < ATTRIBUTES; a++) {
		uint8_t wants = when->wants[a], has = world->request[a];
		if (wants != ABSENT && (a == PATH && wants >= 2 ? has < 2 : has != wants))
			return false;
	}
	return true;
}

/* What a key is made of: "user=ann,path=/search/a"; false where a part is absent. */
static bool key_of(const struct world *world, uint8_t key, char text[128]) {
	const uint8_t *has = world->request;
	const char *user = values[USER][has[USER]], *ip = values[IP][has[IP]];
	bool by_user = has[USER] != ABSENT;
	switch (key) {
	case 0:
		snprintf(text, 128, "user=%s", by_user ? user : "");
		return by_user;
	case 1:
		snprintf(text, 128, "%s=%s", by_user ? "user" : "ip", by_user ? user : ip != NULL ? ip : "");
		return by_user || ip != NULL;
	case 2:
		snprintf(text, 128, "user=%s,path=%s", by_user ? user : "", has[PATH] != ABSENT ? values[PATH][has[PATH]] : "");
		return by_user && has[PATH] != ABSENT;
	case 3:
		snprintf(text, 128, "%s=%s", ip != NULL ? "ip" : "", ip != NULL ? ip : "nobody");
		return true;
	case 4:
		text[0] = '\0';
		return true;
	default:
		snprintf(text, 128, "ip=%s,plan=%s", ip != NULL ? ip : "", has[PLAN] != ABSENT ? values[PLAN][has[PLAN]] : "");
		return ip != NULL && has[PLAN] != ABSENT;
	}
}

/* Does a limit count, and as what? `observed` and `quota` of what counts. */
static bool counts(const struct world *world, const struct made_limit *limit, uint32_t *quota, bool *observed,
                   char key[128]) {
	*quota = limit->quota;
	*observed = limit->observe;
	if (!fits(world, &limit->when))
		return false;
	for (int i = 0; i < limit->override_count; i++) {
		const struct override *override = &limit->overrides[i];
		if (!fits(world, &override->when))
			continue;
		if (override->unlimited)
			return false;
		*quota = override->own ? override->quota : limit->quota;
		*observed = override->observe;
		break;
	}
	return key_of(world, limit->key, key);
}

/* ---- one state ------------------------------------------------------------------------------------------------- */

/* What the key alone tells of the limit is what counts for the request, unless it says that it does not know. */
static void check_key(const struct world *world, uint32_t position, const struct sluice_item *item) {
	const struct sl_policy_keyed keyed = sl_policy_limit_of_key(world->policy, position, item->key);
	assert_true(keyed.override == 0 || keyed.undecided == 0);
	assert_int_equal(keyed.cost, item->cost);
	world->keyed[keyed.undecided != 0 ? 0 : keyed.override != 0 ? 1 : 2]++;
	if (keyed.undecided == 0 && keyed.limit->quota != item->limit->quota)
		fail_msg("SLUICE_SEED=%" PRIu64 ": n%u, key %.*s: %u counts, told %u", dice_seed(), position,
		         (int)item->key.len, (const char *)item->key.data, item->limit->quota, keyed.limit->quota);
}

static void check_told(void *to, const struct sl_policy_told *told) {
	struct world *world = to;
	char key[128], line[SL_WHY_BYTES_MAX];
	uint32_t quota;
	bool observed, is = counts(world, &world->limits[told->position], &quota, &observed, key);
	assert_int_equal(told->position, world->told++);
	assert_in_range(sl_policy_why(told, line).len, 1, SL_WHY_BYTES_MAX);
	if (is != (told->item >= 0))
		fail_msg("SLUICE_SEED=%" PRIu64 ": n%u counts: %d, told %d: %.*s", dice_seed(), told->position, is, told->item,
		         (int)sl_policy_why(told, line).len, line);
	if (!is)
		return;
	const struct sluice_item *item = &world->match->items[told->item];
	assert_int_equal(item->limit->quota, quota);
	assert_int_equal(item->observed, observed);
	assert_int_equal(item->key.len, strlen(key));
	assert_memory_equal(item->key.data, key, item->key.len);
	check_key(world, told->position, item);
}

static size_t random_request(struct world *world, struct sluice_attribute attributes[ATTRIBUTES]) {
	size_t count = 0;
	for (int a = 0; a < ATTRIBUTES; a++) {
		world->request[a] = (uint8_t)dice_below(world->dice, 4);
		if (world->request[a] == ABSENT)
			continue;
		attributes[count].name = sl_str(names[a]);
		attributes[count++].value = sl_str(values[a][world->request[a]]);
	}
	return count;
}

/* As doors ask: leases by ACQUIRE. */
static struct sluice_call decide(struct world *world, struct sluice_item *items, uint32_t count, uint32_t cost,
                                 struct sluice_decision *each) {
	struct sluice_call call = {.items = items, .item_count = count, .cost = cost, .now = world->t, .each = each};
	char id[24];
	for (uint32_t i = 0; i < count; i++)
		if (items[i].limit->algorithm == SLUICE_CONCURRENCY)
			call.operation = SLUICE_ACQUIRE;
	if (call.operation == SLUICE_ACQUIRE)
		call.id = sl_slice(id, (size_t)snprintf(id, sizeof id, "lease %u", world->ids++));
	assert_int_equal(sluice_decide(world->store, &call), SLUICE_OK);
	return call;
}

static void hold(const struct world *world, const char *what, uint64_t said, uint64_t is) {
	if (said != is)
		fail_msg("SLUICE_SEED=%" PRIu64 ": at %" PRIu64 " ns: %s: said %" PRIu64 ", is %" PRIu64, dice_seed(), world->t,
		         what, said, is);
}

static bool explain_and_decide(struct world *world) {
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	static struct sluice_inspection list[SLUICE_ITEMS_MAX];
	struct sluice_attribute attributes[ATTRIBUTES];
	struct sluice_decision each[SLUICE_ITEMS_MAX], merged = sl_merge_nothing();
	struct sluice_match match;
	size_t count = random_request(world, attributes);
	uint32_t cost = 1 + (uint32_t)dice_below(world->dice, 3);
	assert_int_equal(
		sl_policy_match(world->policy, attributes, count, sl_slice(NULL, 0), &match, buffer, sizeof buffer), SLUICE_OK);
	world->told = 0;
	world->match = &match;
	sl_policy_explain(world->policy, attributes, count, sl_slice(NULL, 0), &match, check_told, world);
	hold(world, "limits told of", world->told, world->limit_count);
	for (uint32_t i = 0; i < match.count; i++)
		if (match.items[i].cost == 0)
			match.items[i].cost = cost;
	assert_int_equal(sluice_inspect(world->store, match.items, match.count, world->t, list), SLUICE_OK);
	for (uint32_t i = 0; i < match.count; i++)
		if (match.items[i].observed == 0)
			sl_merge_add(&merged, &list[i].decision, (int32_t)i);
	struct sluice_call call = decide(world, match.items, match.count, cost, each);
	hold(world, "allowed", merged.allowed, call.merged.allowed);
	for (uint32_t i = 0; i < match.count; i++) {
		hold(world, "a limit's answer", list[i].decision.allowed, each[i].allowed);
		hold(world, "a limit's quota", list[i].decision.quota, each[i].quota);
		if (!each[i].allowed && !call.penalized)
			hold(world, "a limit's retry", list[i].decision.retry_after_ns, each[i].retry_after_ns);
	}
	if (!merged.allowed && !call.penalized) {
		hold(world, "who decides", (uint64_t)merged.index, (uint64_t)call.merged.index);
		hold(world, "retry", merged.retry_after_ns, call.merged.retry_after_ns);
	}
	return merged.allowed;
}

static void explain_says_what_will_be_decided(void **state) {
	uint64_t states = dice_ops(100000), denied = 0, keyed[3] = {0};
	(void)state;
	for (uint64_t done = 0; done < states; done += STATES_EACH) {
		struct dice dice = dice_of(dice_seed(), done);
		struct world world;
		open_world(&world, &dice);
		world.keyed = keyed;
		for (int i = 0; i < STATES_EACH; i++) {
			world.t += dice_below(&dice, 2000) * 1000000;
			denied += !explain_and_decide(&world);
		}
		close_world(&world);
	}
	assert_in_range(denied, states / 10, states / 10 * 9); /* both are met often */
	for (int i = 0; i < 3; i++)
		assert_true(keyed[i] > states / 100);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(explain_says_what_will_be_decided)};
	dice_seed();
	return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
