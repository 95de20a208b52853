/* Quotas of keys' own against a twin that has none: a store in which each call brings the quota that its key has at
 * that instant (a change of quota keeps the counter, contract 4.7) must answer alike, whatever is set, changed, deleted
 * and left to end between calls. The twin's list of quotas is an array. */
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/rule.h"

enum { KEYS = 6, LIMITS = 7, OPERATIONS = 120000 };
#define MS_NS ((sluice_ns)1000000)
#define START_NS ((sluice_ns)1767225600000 * MS_NS)

/* What stands for a number is the quota. */
static const char *const forms[LIMITS] = {
	"fixed-window %u/10s",     "sliding-window %u/10s",          "sliding-buckets %u/10s precision 1s",
	"sliding-log %u/10s",      "token-bucket %u/10s burst %u",   "leaky-bucket %u/10s queue %u",
	"sliding-window %u/10s spread",
};

struct world {
	struct sluice_store *own, *twin; /* with quotas of keys' own; and told of them by each call */
	struct {
		struct sluice_limit limit;
		sluice_ns end; /* 0: none is set */
	} set[LIMITS][KEYS];
	struct sluice_limit base[LIMITS];
	sluice_ns now;
	uint64_t sets, denied, ended;
};

static struct sluice_limit make(unsigned which, uint32_t quota, uint32_t burst) {
	char text[96];
	struct sluice_limit limit;
	snprintf(text, sizeof text, forms[which], quota, burst);
	assert_int_equal(sluice_limit_parse(&limit, sl_str(text), NULL), SLUICE_OK);
	sl_rule_name(&limit, sl_str("m"));
	return limit;
}

static void change(struct world *w, struct dice *dice) {
	unsigned which = (unsigned)dice_below(dice, LIMITS), key = (unsigned)dice_below(dice, KEYS);
	char name[4] = {(char)('a' + key), 0};
	uint32_t quota = 1 + (uint32_t)dice_below(dice, 30);
	struct sluice_limit own = make(which, quota, 1 + (uint32_t)dice_below(dice, 30));
	sluice_ns ttl = dice_one_in(dice, 3) ? 0 : (1 + dice_below(dice, 20000)) * MS_NS;
	if (dice_one_in(dice, 4)) {
		sluice_err err = sluice_override_delete(w->own, &w->base[which], sl_str(name), w->now);
		assert_int_equal(err, w->set[which][key].end > w->now ? SLUICE_OK : SLUICE_E_NONE);
		w->set[which][key].end = 0;
		return;
	}
	if (dice_one_in(dice, 6))
		assert_int_equal(sluice_limit_parse(&own, sl_str("unlimited"), NULL), SLUICE_OK);
	struct sluice_override_request request = {
		.limit = &w->base[which], .key = sl_str(name), .own = &own, .ttl_ns = ttl};
	struct sluice_override told;
	assert_int_equal(sluice_override_set(w->own, &request, w->now, NULL), SLUICE_OK);
	assert_int_equal(sluice_override_get(w->own, &w->base[which], sl_str(name), w->now, &told), SLUICE_OK);
	assert_true(ttl == 0 ? told.ends_after_ns == SLUICE_NEVER
	                     : told.ends_after_ns >= ttl && told.ends_after_ns < ttl + MS_NS);
	w->set[which][key].limit = own;
	w->set[which][key].end = ttl == 0 ? SLUICE_NEVER : w->now + told.ends_after_ns;
	w->sets++;
}

/* The limit that a call brings for a key, told of its quota. */
static const struct sluice_limit *of_key(struct world *w, unsigned which, unsigned key) {
	bool holds = w->set[which][key].end > w->now;
	w->ended += !holds && w->set[which][key].end != 0;
	return holds ? &w->set[which][key].limit : &w->base[which];
}

static void same(const struct sluice_decision *a, const struct sluice_decision *b) {
	assert_int_equal(a->allowed, b->allowed);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->remaining, b->remaining);
	assert_int_equal(a->quota, b->quota);
	assert_int_equal(a->retry_after_ns, b->retry_after_ns);
	assert_int_equal(a->reset_after_ns, b->reset_after_ns);
	assert_int_equal(a->delay_ns, b->delay_ns);
	assert_int_equal(a->next_after_ns, b->next_after_ns);
}

static void decide(struct world *w, struct dice *dice) {
	static const sluice_operation operations[] = {SLUICE_CHARGE, SLUICE_CHARGE, SLUICE_CHARGE, SLUICE_PEEK,
	                                              SLUICE_CHARGE};
	static const char keys[KEYS][2] = {"a", "b", "c", "d", "e", "f"};
	struct sluice_item here[4], there[4];
	struct sluice_decision each[2][4];
	struct sluice_call calls[2];
	uint32_t count = 1 + (uint32_t)(dice_one_in(dice, 2) ? dice_below(dice, 4) : 0);
	memset(here, 0, sizeof here);
	for (uint32_t i = 0; i < count; i++) {
		unsigned which = (unsigned)dice_below(dice, LIMITS), key = (unsigned)dice_below(dice, KEYS);
		here[i].limit = &w->base[which];
		here[i].key = sl_str(keys[key]);
		here[i].observed = dice_one_in(dice, 8) ? SLUICE_OBSERVED : 0;
		there[i] = here[i];
		there[i].limit = of_key(w, which, key);
	}
	calls[0] = (struct sluice_call){.items = here,
	                                .item_count = count,
	                                .cost = (uint32_t)dice_below(dice, 5),
	                                .operation = operations[dice_below(dice, 5)],
	                                .want_next = dice_one_in(dice, 3),
	                                .upto = dice_one_in(dice, 9),
	                                .now = w->now,
	                                .each = each[0]};
	calls[1] = calls[0];
	calls[1].items = there;
	calls[1].each = each[1];
	if (dice_one_in(dice, 2)) {
		sluice_decide_many(w->own, &calls[0], 1);
		assert_int_equal(calls[0].err, SLUICE_OK);
	} else {
		assert_int_equal(sluice_decide(w->own, &calls[0]), SLUICE_OK);
	}
	assert_int_equal(sluice_decide(w->twin, &calls[1]), SLUICE_OK);
	same(&calls[0].merged, &calls[1].merged);
	for (uint32_t i = 0; i < count; i++) {
		each[1][i].index = each[0][i].index;
		same(&each[0][i], &each[1][i]);
	}
	assert_int_equal(calls[0].granted, calls[1].granted);
	w->denied += !calls[0].merged.allowed;
}

static void decisions_are_those_of_the_quota_that_a_key_has(void **state) {
	struct sluice_store_options options = {.memory_bytes = 4 << 20};
	struct dice dice = dice_of(dice_seed(), 41);
	struct world w = {.now = START_NS};
	(void)state;
	assert_int_equal(sluice_store_open(&w.own, &options, NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&w.twin, &options, NULL), SLUICE_OK);
	for (unsigned which = 0; which < LIMITS; which++)
		w.base[which] = make(which, 12, 15);
	for (uint64_t i = 0, count = dice_ops(OPERATIONS); i < count; i++) {
		w.now += dice_one_in(&dice, 100) ? dice_below(&dice, 30000) * MS_NS : dice_below(&dice, 300) * MS_NS;
		if (dice_one_in(&dice, 12))
			change(&w, &dice);
		else
			decide(&w, &dice);
	}
	printf("%" PRIu64 " sets, %" PRIu64 " denials, %" PRIu64 " calls after an end\n", w.sets, w.denied, w.ended);
	assert_null(sluice_store_verify(w.own));
	sluice_store_close(w.own);
	sluice_store_close(w.twin);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(decisions_are_those_of_the_quota_that_a_key_has)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
