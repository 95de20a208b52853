/* Leases and members against a plain list of all there ever were: a million random operations, every field, through
 * the step alone, with a host that keeps state and block as step.h says.
 *
 * The twin shares nothing with src/algo: somebody counts while his end lies ahead, held is a sum over the list, and a
 * wait is the first of the ends, sorted, behind which the sum fits. Around each decision:
 *  - a peek and a denial change no byte of state and block;
 *  - waiting exactly retry_after admits, one nanosecond less does not; the same of reset_after and the whole quota;
 *  - never more than N, or Q, count at one instant (but those that were there before the quota was lowered).
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "tests/model/dice.h"

#include "algo/step.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OPS_MAX = 3000, NAMES_MAX = 2000, DAY_NS_LOG = 47 };

struct one {
	uint64_t id, end, cost;
};

struct stream {
	struct dice dice;
	uint64_t seed;
	struct sluice_limit limit;
	bool leases;
	/* the host */
	struct sl_state state;
	void *block;
	uint64_t block_bytes;
	/* the twin */
	struct one list[OPS_MAX];
	uint32_t count;
	uint64_t last;
	/* the traffic */
	uint64_t now, names, unit;
	size_t ops;
};

struct answer {
	bool allowed, known;
	uint64_t remaining, retry, reset;
};

static void differ(const struct stream *s, const char *what, uint64_t got, uint64_t expected) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&s->limit, text);
	fail_msg("SLUICE_SEED=%" PRIu64 ", stream %" PRIu64 ", operation %zu, %s at %" PRIu64 ": %s is %" PRIu64
	         ", expected %" PRIu64,
	         dice_seed(), s->seed, s->ops, text, s->now, what, got, expected);
}

static void same(const struct stream *s, const char *what, uint64_t got, uint64_t expected) {
	if (got != expected)
		differ(s, what, got, expected);
}

/* ---- the twin --------------------------------------------------------------------------------------------------- */

static uint64_t list_clock(const struct stream *s, uint64_t now) {
	return now > s->last ? now : s->last;
}

static uint64_t list_held(const struct stream *s, uint64_t t) {
	uint64_t held = 0;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->list[i].end > t)
			held += s->list[i].cost;
	return held;
}

static struct one *list_find(struct stream *s, uint64_t id, uint64_t t) {
	for (uint32_t i = 0; i < s->count; i++)
		if (id != 0 && s->list[i].id == id && s->list[i].end > t)
			return &s->list[i];
	return NULL;
}

static int by_end(const void *a, const void *b) {
	const struct one *x = a, *y = b;
	return x->end < y->end ? -1 : x->end > y->end;
}

static uint64_t list_retry(const struct stream *s, uint64_t t, uint64_t cost) {
	static struct one sorted[OPS_MAX];
	uint64_t held = list_held(s, t);
	uint32_t count = 0;
	if (cost > s->limit.quota)
		return SLUICE_NEVER;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->list[i].end > t)
			sorted[count++] = s->list[i];
	qsort(sorted, count, sizeof *sorted, by_end);
	for (uint32_t i = 0; i < count; i++) {
		held -= sorted[i].cost;
		if (held + cost <= s->limit.quota)
			return sorted[i].end - t;
	}
	return 0;
}

static uint64_t list_last_end(const struct stream *s, uint64_t t) {
	uint64_t last = t;
	for (uint32_t i = 0; i < s->count; i++)
		last = s->list[i].end > last ? s->list[i].end : last;
	return last;
}

static struct answer list_decide(struct stream *s, uint64_t now, uint64_t cost, uint64_t who) {
	uint64_t t = list_clock(s, now), held = list_held(s, t), quota = s->limit.quota;
	struct answer a = {.known = list_find(s, who, t) != NULL};
	if (!s->leases && cost > 1)
		cost = 1;
	if (quota == 0)
		return (struct answer){.allowed = cost == 0, .retry = cost == 0 ? 0 : SLUICE_NEVER};
	a.allowed = cost == 0 || a.known || held + cost <= quota;
	a.remaining = quota > held ? quota - held : 0;
	a.retry = a.allowed ? 0 : list_retry(s, t, cost);
	a.reset = list_last_end(s, t) - t;
	return a;
}

/* After list_decide() that allowed. */
static void list_charge(struct stream *s, uint64_t now, uint64_t cost, uint64_t who, struct answer *a) {
	uint64_t t = list_clock(s, now), end = t + s->limit.window_ns;
	if (cost == 0 || s->limit.quota == 0 || (s->leases && a->known))
		return;
	cost = s->leases ? cost : 1;
	if (a->known) {
		list_find(s, who, t)->end = end;
	} else {
		s->list[s->count++] = (struct one){who, end, cost};
		a->remaining -= cost;
	}
	s->last = t;
	a->reset = list_last_end(s, t) - t;
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

static struct sl_counter load(const struct stream *s, uint64_t who) {
	return (struct sl_counter){.state = s->state, .block = s->block, .block_bytes = s->block_bytes, .who = who};
}

static struct sluice_decision decide(const struct stream *s, uint64_t now, uint64_t cost, uint64_t who, bool *known) {
	struct sl_counter counter = load(s, who);
	struct sluice_decision d;
	sl_step(&s->limit, &counter, now, cost, false, &d);
	*known = counter.known;
	return d;
}

static struct sluice_decision charge(struct stream *s, uint64_t now, uint32_t cost, uint64_t who, bool *known) {
	struct sl_counter counter = load(s, who);
	struct sluice_decision d;
	uint64_t need;
	sl_step(&s->limit, &counter, now, cost, true, &d);
	*known = counter.known;
	if (!d.allowed || cost == 0)
		return d;
	need = (sl_step_block_bytes(&s->limit, &counter, cost) + 7) / 8 * 8;
	if (need != 0) {
		void *block = malloc(need + 64);
		assert_non_null(block);
		need += 8 * dice_below(&s->dice, 8);
		memset(block, 0xa5, need);
		sl_step_write(&s->limit, &counter, now, cost, block, need);
		assert_ptr_equal(counter.block, block);
		free(s->block);
		s->block = block;
		s->block_bytes = need;
	} else {
		sl_step_prepare(&s->limit, &counter);
		sl_step_write(&s->limit, &counter, now, cost, NULL, 0);
	}
	s->state = counter.state;
	return d;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static void compare(const struct stream *s, const struct sluice_decision *d, bool known, const struct answer *a) {
	same(s, "allowed", d->allowed, a->allowed);
	same(s, "known", known, a->known);
	same(s, "quota", d->quota, s->limit.quota);
	same(s, "remaining", d->remaining, a->remaining);
	same(s, "retry_after", d->retry_after_ns, a->retry);
	same(s, "reset_after", d->reset_after_ns, a->reset);
	same(s, "delay", d->delay_ns, 0);
}

/* What waits promise, asked of the step itself. */
static void check_waits(const struct stream *s, const struct sluice_decision *d, uint64_t cost, uint64_t who) {
	uint64_t t = list_clock(s, s->now);
	bool known;
	if (d->retry_after_ns != 0 && d->retry_after_ns != SLUICE_NEVER) {
		same(s, "allowed behind retry_after", decide(s, t + d->retry_after_ns, cost, who, &known).allowed, true);
		same(s, "allowed 1 ns before it", decide(s, t + d->retry_after_ns - 1, cost, who, &known).allowed, false);
	}
	if (d->reset_after_ns != 0) {
		same(s, "remaining behind reset_after", decide(s, t + d->reset_after_ns, 1, 0, &known).remaining,
		     s->limit.quota);
		assert_true(decide(s, t + d->reset_after_ns - 1, 1, 0, &known).remaining < s->limit.quota);
	}
}

static void peek(struct stream *s, uint64_t cost, uint64_t who) {
	struct answer a = list_decide(s, s->now, cost, who);
	bool known;
	struct sluice_decision d = decide(s, s->now, cost, who, &known);
	compare(s, &d, known, &a);
	check_waits(s, &d, cost, who);
}

static void charge_both(struct stream *s, uint32_t cost, uint64_t who) {
	struct answer a = list_decide(s, s->now, cost, who);
	struct sl_state before = s->state;
	void *copy = malloc(s->block_bytes + 1);
	bool known;
	struct sluice_decision d;
	assert_non_null(copy);
	if (s->block != NULL)
		memcpy(copy, s->block, s->block_bytes);
	d = charge(s, s->now, cost, who, &known);
	if (a.allowed)
		list_charge(s, s->now, cost, who, &a);
	compare(s, &d, known, &a);
	if (!d.allowed || cost == 0 || (s->leases && known)) {
		assert_memory_equal(&before, &s->state, sizeof before);
		assert_true(s->block == NULL || memcmp(copy, s->block, s->block_bytes) == 0);
	}
	if (!known && d.allowed && cost != 0)
		assert_true(list_held(s, list_clock(s, s->now)) <= s->limit.quota);
	free(copy);
	check_waits(s, &d, cost, who);
}

/* ---- leases and members by name --------------------------------------------------------------------------------- */

static void end_one(struct stream *s, uint64_t who, bool renews) {
	struct sl_counter counter = load(s, who);
	uint64_t t = list_clock(s, s->now);
	struct one *one = list_find(s, who, t);
	bool found = renews ? sl_lease_renew(&s->limit, &counter, s->now) : sl_lease_release(&s->limit, &counter, s->now);
	same(s, renews ? "renewed" : "released", found, one != NULL);
	if (one == NULL) {
		assert_memory_equal(&counter.state, &s->state, sizeof s->state);
	} else if (renews) {
		one->end = t + s->limit.window_ns;
		s->last = t;
	} else {
		one->end = 0;
	}
	s->state = counter.state;
}

static void list_holders(struct stream *s) {
	static struct sluice_holder holders[OPS_MAX];
	struct sl_counter counter = load(s, 0);
	uint64_t t = list_clock(s, s->now), held = 0;
	uint32_t room = (uint32_t)dice_below(&s->dice, 2) * OPS_MAX, live = 0;
	uint32_t count = sl_lease_list(&counter, s->now, holders, room);
	for (uint32_t i = 0; i < s->count; i++)
		live += s->list[i].end > t;
	same(s, "holders", count, live);
	for (uint32_t i = 0; i < count && i < room; i++) {
		held += holders[i].cost;
		for (uint32_t j = 0; j < i && j < 20; j++)
			assert_true(holders[i].id == 0 || holders[i].id != holders[j].id);
		if (holders[i].id == 0)
			continue;
		assert_non_null(list_find(s, holders[i].id, t));
		same(s, "a holder's end", t + holders[i].ends_after_ns, list_find(s, holders[i].id, t)->end);
		same(s, "a holder's cost", holders[i].cost, list_find(s, holders[i].id, t)->cost);
	}
	same(s, "what holders hold", room != 0 ? held : list_held(s, t), list_held(s, t));
}

static void refund(struct stream *s, uint32_t cost, uint64_t who) {
	struct sl_counter counter = load(s, who);
	struct one *one = list_find(s, who, list_clock(s, s->now));
	uint32_t left = cost;
	bool changed;
	assert_false(sl_step_prepare_refund(&s->limit, &counter, s->now, &left));
	assert_int_equal(left, cost);
	changed = sl_step_refund(&s->limit, &counter, s->now, left);
	same(s, "refunded", changed, !s->leases && cost != 0 && one != NULL);
	if (changed)
		one->end = 0;
	s->state = counter.state;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static void change_quota(struct stream *s) {
	uint32_t quota = dice_one_in(&s->dice, 12) ? 0 : (uint32_t)(1 + dice_below(&s->dice, 2 * s->limit.quota + 3));
	if (!s->leases && quota > SL_EXACT_MEMBERS)
		quota = SL_EXACT_MEMBERS;
	s->limit.quota = quota;
	s->limit.derived[SL_CAPACITY] = quota;
	assert_true(sl_rule_is_valid(&s->limit));
}

static void move_clock(struct stream *s) {
	uint64_t window = s->limit.window_ns, end;
	switch (dice_below(&s->dice, 12)) {
	case 0:
		return;
	case 1:
	case 2:
	case 3: /* the end of somebody, and 1 ns either side */
		end = s->count != 0 ? s->list[dice_below(&s->dice, s->count)].end : 0;
		if (end > s->now && end - s->now < 2 * window)
			s->now = end - 1 + dice_below(&s->dice, 3);
		return;
	case 4:
		s->now += dice_below(&s->dice, 2 * window) / s->unit * s->unit;
		return;
	case 5:
		s->now -= dice_below(&s->dice, s->unit * 3);
		return;
	case 6:
		if (dice_one_in(&s->dice, 10))
			s->now -= (uint64_t)1 << DAY_NS_LOG;
		return;
	default:
		s->now += dice_below(&s->dice, window / (s->limit.quota + (uint64_t)1) + 2) / s->unit * s->unit;
		return;
	}
}

static uint64_t some_name(struct stream *s) {
	uint64_t name = 1 + dice_below(&s->dice, s->names);
	return dice_one_in(&s->dice, 40) ? 0 : name * 0x9e3779b97f4a7c15;
}

static void run_op(struct stream *s) {
	uint64_t who = some_name(s);
	uint32_t cost = dice_one_in(&s->dice, 2) ? 1 : dice_cost(&s->dice, s->limit.quota);
	move_clock(s);
	switch (dice_below(&s->dice, 16)) {
	case 0:
		change_quota(s);
		return;
	case 1:
	case 2:
		peek(s, cost, who);
		return;
	case 3:
	case 4:
		if (s->leases)
			end_one(s, who, false);
		else
			refund(s, cost, who);
		return;
	case 5:
		if (s->leases)
			end_one(s, who, true);
		return;
	case 6:
		if (s->leases && dice_one_in(&s->dice, 4))
			list_holders(s);
		else
			refund(s, s->leases ? cost : 0, who);
		return;
	default:
		charge_both(s, cost, !s->leases && who == 0 ? 1 : who);
		return;
	}
}

static size_t run_stream(uint64_t number, bool leases) {
	static struct stream s;
	char text[SLUICE_LIMIT_TEXT_MAX];
	size_t ops;
	s = (struct stream){.dice = dice_of(dice_seed(), number), .seed = number, .leases = leases};
	bool large = dice_one_in(&s.dice, 60);
	uint64_t quota = large ? 600 + dice_below(&s.dice, 425) : 1 + dice_below(&s.dice, 1 + dice_below(&s.dice, 60));
	snprintf(text, sizeof text,
	         leases ? "concurrency %" PRIu64 " lease %" PRIu64 "ms" : "distinct %" PRIu64 "/%" PRIu64 "ms", quota,
	         dice_window(&s.dice) / TWIN_MS);
	assert_int_equal(sluice_limit_parse(&s.limit, sl_str(text), NULL), SLUICE_OK);
	s.now = ((uint64_t)1 << 48) + (dice_bits(&s.dice) >> 2);
	s.unit = dice_one_in(&s.dice, 2) ? TWIN_MS : TWIN_NS;
	s.now = s.now / s.unit * s.unit;
	s.names = 1 + dice_below(&s.dice, 3 * quota);
	ops = large ? OPS_MAX : 20 + dice_below(&s.dice, 280);
	for (s.ops = 0; s.ops < ops && s.now >> 63 == 0; s.ops++) {
		run_op(&s);
		if (s.ops % 8 == 0) {
			struct sl_counter counter = load(&s, 0);
			same(&s, "valid", sl_counter_is_valid(&s.limit, &counter), true);
		}
	}
	free(s.block);
	return ops;
}

static void run_all(bool leases) {
	uint64_t todo = dice_ops(DICE_MILLION);
	for (uint64_t number = 0, done = 0; done < todo; number++)
		done += run_stream(number, leases);
}

static void leases_are_those_of_the_twin(void **state) {
	(void)state;
	run_all(true);
}

static void members_are_those_of_the_twin(void **state) {
	(void)state;
	run_all(false);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases_are_those_of_the_twin),
		cmocka_unit_test(members_are_those_of_the_twin),
	};
	printf("SLUICE_SEED=%" PRIu64 "\n", dice_seed());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
