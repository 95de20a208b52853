/* Reservations against a slow, obvious twin: decisions that know what will be returned, corrections, charges whatever
 * the quota.
 *
 * The twin is ledger_twin.h. The other side is a host in miniature: a counter with its block, and a sorted ledger, kept
 * as ledger.h tells hosts to.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run; in a soak it is a million operations. */
#include "algo/bundle.h"
#include "algo/step.h"
#include "base/math.h"
#include "tests/model/ledger_twin.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STREAM_OPS = 120 };

/* ---- the host in miniature --------------------------------------------------------------------------------------- */

struct world {
	struct dice dice;
	struct sluice_limit limit;
	struct sl_counter counter;
	struct sl_reservation list[PLACES_MAX];
	struct sl_ledger ledger;
	struct model model;
	uint64_t stream, op, unit, now, ids;
	const char *last;
	uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / 8 + 1];
};

static void differ(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_limit_print(&w->limit, text);
	fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 " operation %" PRIu64 " (%s) at %" PRIu64
	         " under %s: %s %" PRIu64 ", twin %" PRIu64,
	         dice_seed(), w->stream, w->op, w->last, w->now, text, what, got, expected);
}

static void same(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	if (got != expected)
		differ(w, what, got, expected);
}

static uint64_t units(const struct world *w, sluice_ns wait) {
	return wait == SLUICE_NEVER ? SLUICE_NEVER : wait / w->unit + (wait % w->unit != 0);
}

static void compare(const struct world *w, const struct sluice_decision *d, const struct twin_answer *a) {
	same(w, "allowed", d->allowed, a->allowed);
	same(w, "remaining", d->remaining, a->remaining);
	same(w, "quota", d->quota, a->quota);
	same(w, "retry_after", units(w, d->retry_after_ns), a->retry);
	same(w, "reset_after", units(w, d->reset_after_ns), a->reset);
	same(w, "delay", units(w, d->delay_ns), a->delay);
}

static struct sluice_decision decide(struct world *w, uint64_t cost) {
	struct sluice_decision decision = {0};
	struct twin_answer answer = model_ask(&w->model, w->now, cost, w->unit);
	same(w, "the counter's clock", sl_step_instant(&w->limit, &w->counter, w->now), model_clock(&w->model, w->now));
	sl_ledger_step(&w->limit, &w->counter, &w->ledger, w->now, cost, w->scratch, &decision);
	compare(w, &decision, &answer);
	return decision;
}

static void set_block(struct world *w, struct sl_counter *counter, void *block, uint64_t bytes) {
	if (w->counter.block != block)
		free(w->counter.block);
	w->counter = *counter;
	w->counter.block = block;
	w->counter.block_bytes = bytes;
	if (!sl_counter_is_valid(&w->limit, &w->counter))
		differ(w, "is valid", 0, 1);
}

static void correct(struct world *w, const struct sl_correction *list, uint32_t count) {
	struct sl_counter counter = w->counter;
	uint32_t above = 0;
	uint64_t bytes;
	void *block, *copy = NULL;
	for (uint32_t i = 0; i < count; i++)
		above += list[i].actual > list[i].charged;
	bytes = (sl_correct_bytes(&w->limit, &counter, above) + 7) / 8 * 8;
	block = bytes != 0 ? malloc(bytes) : NULL;
	if (w->counter.block != NULL) {
		copy = malloc(w->counter.block_bytes);
		memcpy(copy, w->counter.block, w->counter.block_bytes);
	}
	if (sl_correct(&w->limit, &counter, list, count, block, bytes)) {
		if (copy != NULL)
			assert_memory_equal(copy, w->counter.block, w->counter.block_bytes);
		set_block(w, &counter, bytes != 0 ? block : w->counter.block, bytes != 0 ? bytes : w->counter.block_bytes);
	} else {
		assert_memory_equal(&counter.state, &w->counter.state, sizeof counter.state);
		assert_ptr_equal(counter.block, w->counter.block);
		free(block);
	}
	free(copy);
}

static void collect(struct world *w, uint64_t t) {
	struct sl_correction list[PLACES_MAX];
	uint32_t ended = sl_ledger_ended(&w->ledger, t);
	for (uint32_t i = 0; i < ended; i++)
		list[i] = sl_ledger_return(&w->list[i]);
	if (ended != 0)
		correct(w, list, ended);
	memmove(w->list, w->list + ended, (w->ledger.count - ended) * sizeof *w->list);
	w->ledger.count -= ended;
	model_collect(&w->model, t);
}

/* Writes a charge into the block, in the present one where it need not grow. */
static void write_charge(struct world *w, uint32_t cost) {
	struct sl_counter counter = w->counter;
	uint64_t bytes = (sl_step_block_bytes(&w->limit, &counter, cost) + 7) / 8 * 8;
	void *block = bytes != 0 ? malloc(bytes) : NULL;
	if (bytes == 0)
		(void)sl_step_prepare(&w->limit, &counter);
	sl_step_write(&w->limit, &counter, w->now, cost, block, bytes);
	set_block(w, &counter, bytes != 0 ? block : w->counter.block, bytes != 0 ? bytes : w->counter.block_bytes);
}

static void reserve(struct world *w, uint32_t cost, uint64_t ttl) {
	uint64_t t = model_clock(&w->model, w->now);
	struct sl_reservation its = {.id = ++w->ids, .cost = cost};
	struct sluice_decision decision = decide(w, cost), charged;
	uint32_t at = 0;
	if (!decision.allowed || cost == 0)
		return;
	collect(w, t);
	sl_step(&w->limit, &w->counter, w->now, cost, true, &charged);
	same(w, "admitted as it was decided", charged.allowed, true);
	if (sl_rule_has(&w->limit, SL_HAS_BLOCK))
		write_charge(w, cost);
	its.instant = sl_step_instant(&w->limit, &w->counter, w->now);
	same(w, "the instant of the charge", its.instant, t);
	if (ttl == 0) {
		model_charge(&w->model, t, cost);
		return;
	}
	its.end = its.instant + ttl;
	model_reserve(&w->model, t, cost, its.id, its.end);
	its.debt = sl_ledger_debt(&w->limit, &w->counter, w->now);
	while (at < w->ledger.count && w->list[at].end <= its.end)
		at++;
	memmove(w->list + at + 1, w->list + at, (w->ledger.count - at) * sizeof *w->list);
	w->list[at] = its;
	w->ledger.count++;
	same(w, "the debt behind the charge", its.debt, w->model.open[w->model.opens - 1].debt);
}

static int64_t find(const struct world *w, uint64_t id, uint64_t t) {
	return sl_bundle_find(&w->limit, &w->ledger, &(struct sl_contents){.memory = NULL}, id, t).at;
}

static void commit(struct world *w, uint64_t id, uint32_t actual) {
	uint64_t t = model_clock(&w->model, w->now);
	int64_t at = find(w, id, t);
	struct sl_correction correction;
	same(w, "found", at >= 0, model_is_open(&w->model, id, t));
	if (at < 0)
		return;
	collect(w, t);
	at = find(w, id, t);
	correction = sl_ledger_return(&w->list[at]);
	correction.known = t;
	correction.actual = actual;
	correct(w, &correction, 1);
	memmove(w->list + at, w->list + at + 1, (w->ledger.count - (size_t)at - 1) * sizeof *w->list);
	w->ledger.count--;
	model_commit(&w->model, id, actual, t);
}

static void count(struct world *w, uint32_t cost) {
	uint64_t t = model_clock(&w->model, w->now);
	struct sluice_decision decision = decide(w, cost), counted = decision;
	struct twin_answer answer;
	uint32_t charged;
	collect(w, t);
	charged = sl_step_count(&w->limit, &w->counter, w->now, cost);
	if (charged != 0 && sl_rule_has(&w->limit, SL_HAS_BLOCK)) {
		write_charge(w, charged);
		while (sl_step_trim(&w->limit, &w->counter, w->now))
			set_block(w, &w->counter, w->counter.block, w->counter.block_bytes);
	}
	model_count(&w->model, t, cost);
	if (w->ledger.count != 0)
		return;
	sl_step_counted(&w->limit, &w->counter, w->now, cost, &counted);
	answer = model_ask(&w->model, w->now, cost, w->unit);
	answer.allowed = decision.allowed;
	answer.retry = decision.allowed ? 0 : answer.retry;
	answer.delay = units(w, decision.delay_ns);
	compare(w, &counted, &answer);
}

static void refund(struct world *w, uint32_t cost) {
	uint64_t t = model_clock(&w->model, w->now);
	if (w->counter.state.w[0] == 0 && w->counter.state.w[1] == 0)
		return;
	collect(w, t);
	(void)sl_step_prepare_refund(&w->limit, &w->counter, w->now, &cost);
	(void)sl_step_refund(&w->limit, &w->counter, w->now, cost);
	set_block(w, &w->counter, w->counter.block, w->counter.block_bytes);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static uint64_t some_ttl(struct world *w) {
	uint64_t W = w->model.rule.window_ns / w->unit, ttl;
	switch (dice_below(&w->dice, 6)) {
	case 0:
		ttl = 1 + dice_below(&w->dice, 5);
		break;
	case 1:
		ttl = W;
		break;
	case 2:
		ttl = W + dice_below(&w->dice, 2 * W);
		break;
	default:
		ttl = 1 + dice_below(&w->dice, W);
	}
	return ttl * w->unit;
}

static void pass_time(struct world *w) {
	uint64_t W = w->model.rule.window_ns, unit = w->unit, t = w->now, k = w->ledger.count;
	switch (dice_below(&w->dice, 9)) {
	case 0:
	case 1:
		return;
	case 2:
		t = k == 0 ? t : w->list[dice_below(&w->dice, k)].end - dice_below(&w->dice, 2) * unit;
		break;
	case 3:
		t += dice_below(&w->dice, W / unit + 1) * unit;
		break;
	case 4:
		t = (t / W + 1) * W - dice_below(&w->dice, 2) * unit;
		break;
	case 5:
		t = dice_one_in(&w->dice, 6) ? t - dice_below(&w->dice, W / unit + 1) * unit
		                             : t + dice_below(&w->dice, W / unit / 50 + 2) * unit;
		break;
	default:
		t += dice_below(&w->dice, W / unit / 20 + 2) * unit;
	}
	if (t < ((uint64_t)1 << 60) && (t > W || t > w->now))
		w->now = t;
}

static uint64_t some_id(struct world *w) {
	if (w->ledger.count == 0 || dice_one_in(&w->dice, 8))
		return 1 + dice_below(&w->dice, w->ids + 2);
	return w->list[dice_below(&w->dice, w->ledger.count)].id;
}

static uint32_t some_actual(struct world *w, uint64_t quota) {
	uint32_t cost = dice_cost(&w->dice, quota);
	switch (dice_below(&w->dice, 4)) {
	case 0:
		return 0;
	case 1:
		return (uint32_t)(1 + dice_below(&w->dice, 4));
	default:
		return cost;
	}
}

/* What a counter may hold is above its quota from here on, or its edge is another; a bucket keeps its rate. */
static void change_limit(struct world *w) {
	struct twin_rule *rule = &w->model.rule;
	struct twin_rule other = dice_rule(&w->dice, rule->algorithm, (sluice_edge)dice_below(&w->dice, 3));
	if (other.quota == 0 || rule->quota == 0)
		return;
	if (model_is_bucket(rule)) {
		rule->burst = other.burst;
	} else {
		rule->quota = other.quota;
		rule->edge = rule->algorithm == SLUICE_SLIDING_BUCKETS ? other.edge : rule->edge;
	}
	w->limit = rule_limit(rule);
}

static void step(struct world *w) {
	uint64_t quota = twin_quota(&w->model.rule);
	uint32_t cost = dice_cost(&w->dice, quota);
	struct sluice_decision decision;
	pass_time(w);
	switch (dice_below(&w->dice, 16)) {
	case 0:
	case 1:
		w->last = "peek";
		decision = decide(w, dice_one_in(&w->dice, 9) ? (uint64_t)UINT32_MAX + 1 : cost);
		if (!decision.allowed && decision.retry_after_ns < SLUICE_NEVER / 1024 && w->unit == TWIN_NS)
			w->now = model_clock(&w->model, w->now) + decision.retry_after_ns - dice_below(&w->dice, 2);
		return;
	case 2:
	case 3:
		w->last = "charge";
		reserve(w, cost, 0);
		return;
	case 4:
	case 5:
	case 6:
	case 7:
		w->last = "commit";
		commit(w, some_id(w), some_actual(w, quota));
		return;
	case 8:
		w->last = "count";
		/* Of a log only while nothing is reserved: what ended may seem to hold more (ledger.h). */
		if (w->ledger.count == 0 || w->model.rule.algorithm != SLUICE_SLIDING_LOG)
			count(w, cost);
		return;
	case 9:
		w->last = "refund";
		if (dice_one_in(&w->dice, 4) && (w->ledger.count == 0 || w->model.rule.algorithm != SLUICE_SLIDING_LOG)) {
			refund(w, cost);
			model_refund(&w->model, model_clock(&w->model, w->now), cost);
		}
		return;
	case 10:
		if (dice_one_in(&w->dice, 10))
			change_limit(w);
		return;
	default:
		w->last = "reserve";
		reserve(w, cost, some_ttl(w));
	}
}

static void run_stream(uint64_t number, sluice_algorithm algorithm, sluice_edge edge, bool ns) {
	static struct world w;
	struct twin_rule rule;
	memset(&w, 0, sizeof w);
	w.dice = dice_of(dice_seed(), 63000000 + number);
	w.stream = number;
	rule = dice_rule(&w.dice, algorithm, edge);
	w.limit = rule_limit(&rule);
	model_start(&w.model, &rule, w.limit.derived[SL_TICK_NS]);
	w.ledger.list = w.list;
	w.unit = ns && (!model_is_bucket(&rule) || w.limit.derived[SL_TICK_NS] == 1) ? TWIN_NS : TWIN_MS;
	w.now = ((uint64_t)1767225600 << (number % 3 == 0 ? 0 : 1)) * 1000000000 + (w.unit == 1 ? number * 7 : 0);
	w.now = w.now > 2 * rule.window_ns ? w.now : 2 * rule.window_ns;
	for (w.op = 0; w.op < STREAM_OPS && w.model.places < PLACES_MAX - 256; w.op++)
		step(&w);
	free(w.counter.block);
}

static void every_algorithm_against_its_twin(void **state) {
	uint64_t ops = getenv("SLUICE_SOAK_SECONDS") != NULL ? DICE_MILLION : dice_ops(DICE_MILLION / 4);
	(void)state;
	for (uint64_t i = 0; i * STREAM_OPS < ops || i < 16; i++) {
		const struct dice_kind *kind = &dice_kinds[i % DICE_COUNTING];
		run_stream(i, kind->algorithm, kind->edge, i / DICE_COUNTING % 2 == 1);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_against_its_twin),
	};
	dice_seed();
	return cmocka_run_group_tests_name("reservations against their twin", tests, NULL, NULL);
}
