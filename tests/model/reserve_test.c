/* Reservations, commits, charges of what was denied, penalties, parts of a cost and retried requests through
 * sluice_decide(), against slow twins.
 *
 * The counter's twin is ledger_twin.h; strikes have theirs in tests/unit/terms_test.c, and are asked here as they are.
 * A stream is one key under one limit and its terms, some of it in a file that is closed and opened again in the
 * middle. SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "algo/terms.h"
#include "base/bytes.h"
#include "base/math.h"
#include "tests/model/ledger_twin.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { STREAM_OPS = 120, STREAMS_A_STORE = 64, IDS = 40 };

struct once {
	uint64_t id, at;
	uint32_t granted;
	sluice_ns delay_ns;
};

struct world {
	struct dice dice;
	struct sluice_store *store;
	const char *file; /* NULL: private memory */
	struct sluice_limit limit;
	struct sluice_terms terms;
	struct sl_strikes strikes;
	struct model model;
	struct once once[IDS]; /* requests that may be retried */
	uint32_t once_count;
	char key[32];
	uint64_t stream, op, unit, now, ids;
	const char *last;
	struct sluice_call call;
};

static void differ(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	char text[SLUICE_LIMIT_TEXT_MAX], terms[SL_TERMS_TEXT_MAX];
	sluice_limit_print(&w->limit, text);
	sl_terms_print(&w->terms, terms);
	fail_msg("SLUICE_SEED=%" PRIu64 " stream %" PRIu64 " operation %" PRIu64 " (%s, cost %" PRIu32 ") at %" PRIu64
	         " under %s, terms '%s': %s %" PRIu64 ", twin %" PRIu64,
	         dice_seed(), w->stream, w->op, w->last, w->call.cost, w->now, text, terms, what, got, expected);
}

static void same(const struct world *w, const char *what, uint64_t got, uint64_t expected) {
	if (got != expected)
		differ(w, what, got, expected);
}

static uint64_t units(const struct world *w, sluice_ns wait) {
	return wait == SLUICE_NEVER ? SLUICE_NEVER : wait / w->unit + (wait % w->unit != 0);
}

static void compare(const struct world *w, const struct twin_answer *a) {
	const struct sluice_decision *d = &w->call.merged;
	same(w, "allowed", d->allowed, a->allowed);
	same(w, "remaining", d->remaining, a->remaining);
	same(w, "quota", d->quota, a->quota);
	same(w, "retry_after", units(w, d->retry_after_ns), a->retry);
	same(w, "reset_after", units(w, d->reset_after_ns), a->reset);
	same(w, "delay", units(w, d->delay_ns), a->delay);
}

/* ---- what is expected -------------------------------------------------------------------------------------------- */

static bool is_shut_out(const struct world *w) {
	return sl_strikes_stand(&w->terms, &w->strikes, w->now).ends_after_ns != 0;
}

/* What penalties make of an answer. */
static struct twin_answer judged(const struct world *w, struct twin_answer answer, uint64_t cost) {
	uint64_t ends = units(w, sl_strikes_stand(&w->terms, &w->strikes, w->now).ends_after_ns);
	if (ends == 0)
		return answer;
	answer.remaining = 0;
	answer.delay = 0;
	answer.reset = sl_max(answer.reset, ends);
	if (cost != 0) {
		answer.allowed = false;
		answer.retry = sl_max(answer.retry, ends);
	}
	return answer;
}

static struct twin_answer peeked(const struct world *w, uint64_t cost) {
	return judged(w, model_ask(&w->model, w->now, cost, w->unit), cost);
}

/* Denied: it may be charged all the same, and be the one too many. */
static struct twin_answer denied(struct world *w, uint64_t cost, bool by_limit) {
	uint64_t t = model_clock(&w->model, w->now);
	bool shut_out = is_shut_out(w);
	struct twin_answer answer;
	if (w->terms.count_denied) {
		model_collect(&w->model, t);
		model_count(&w->model, t, cost);
	}
	if (by_limit && !shut_out)
		sl_strikes_add(&w->terms, &w->strikes, w->now);
	same(w, "penalized", w->call.penalized, !shut_out && is_shut_out(w));
	answer = model_ask(&w->model, w->now, cost, w->unit);
	answer.retry = answer.allowed ? 0 : answer.retry;
	answer.allowed = false;
	answer.delay = 0;
	return judged(w, answer, cost);
}

/* A charge, or a reservation until `ttl` later. */
static struct twin_answer charged(struct world *w, uint64_t cost, uint64_t id, uint64_t ttl) {
	uint64_t t = model_clock(&w->model, w->now);
	struct twin_answer own = model_ask(&w->model, w->now, cost, w->unit), answer = judged(w, own, cost);
	if (!answer.allowed)
		return denied(w, cost, !own.allowed);
	if (cost == 0)
		return answer;
	model_collect(&w->model, t);
	if (ttl != 0)
		model_reserve(&w->model, t, cost, id, t + ttl);
	else
		model_charge(&w->model, t, cost);
	answer = model_ask(&w->model, w->now, 0, w->unit);
	answer.delay = own.delay;
	return answer;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void decide(struct world *w, sluice_operation operation, uint32_t cost, uint64_t id, uint64_t ttl, bool upto) {
	char text[24];
	struct sluice_item item = {.limit = &w->limit, .key = sl_str(w->key), .terms = &w->terms};
	w->call = (struct sluice_call){.items = &item,
	                               .item_count = 1,
	                               .cost = cost,
	                               .operation = operation,
	                               .upto = upto,
	                               .now = w->now,
	                               .ttl_ns = ttl};
	if (id != 0)
		w->call.id = sl_slice(text, (size_t)snprintf(text, sizeof text, "order %" PRIu64, id));
	if (sluice_decide(w->store, &w->call) != SLUICE_OK)
		differ(w, "the error", (uint64_t)(int64_t)w->call.err, SLUICE_OK);
}

static void check_standing(const struct world *w) {
	struct sluice_item item = {.limit = &w->limit, .key = sl_str(w->key), .terms = &w->terms};
	struct sluice_standing got = sluice_standing(w->store, &item, w->now);
	struct sluice_standing expected = sl_strikes_stand(&w->terms, &w->strikes, w->now);
	same(w, "level", got.level, expected.level);
	same(w, "denials", got.denials, expected.denials);
	same(w, "ends", got.ends_after_ns, expected.ends_after_ns);
	same(w, "forgiven", got.forgiven_after_ns, expected.forgiven_after_ns);
}

static void do_charge(struct world *w, uint32_t cost, bool upto) {
	uint32_t part = upto ? (uint32_t)sl_min(cost, peeked(w, 1).remaining) : cost;
	struct twin_answer answer;
	decide(w, SLUICE_CHARGE, cost, 0, 0, upto);
	answer = charged(w, upto && part == 0 && cost != 0 ? 1 : part, 0, 0);
	compare(w, &answer);
	same(w, "granted", w->call.granted, answer.allowed ? part : 0);
	same(w, "repeated", w->call.repeated, false);
}

static void do_peek(struct world *w, uint32_t cost, bool upto) {
	uint32_t part = upto ? (uint32_t)sl_min(cost, peeked(w, 1).remaining) : cost;
	struct twin_answer answer = peeked(w, upto && part == 0 && cost != 0 ? 1 : part);
	decide(w, SLUICE_PEEK, cost, 0, 0, upto);
	compare(w, &answer);
	same(w, "granted", w->call.granted, answer.allowed ? part : 0);
}

static void do_reserve(struct world *w, uint32_t cost, uint64_t id, uint64_t ttl) {
	uint64_t t = model_clock(&w->model, w->now);
	bool again = model_is_open(&w->model, id, t);
	struct twin_answer answer;
	decide(w, SLUICE_RESERVE, cost, id, ttl, false);
	answer = again ? peeked(w, 0) : charged(w, cost, id, ttl);
	compare(w, &answer);
	same(w, "repeated", w->call.repeated, again);
}

static void do_commit(struct world *w, uint64_t id, uint32_t actual) {
	uint64_t t = model_clock(&w->model, w->now);
	bool open = model_is_open(&w->model, id, t);
	struct twin_answer answer;
	decide(w, SLUICE_COMMIT, actual, id, 0, false);
	same(w, "found", w->call.found, open);
	if (open) {
		model_collect(&w->model, t);
		model_commit(&w->model, id, actual, t);
	}
	answer = peeked(w, 0);
	compare(w, &answer);
}

static void do_refund(struct world *w, uint32_t cost) {
	uint64_t t = model_clock(&w->model, w->now);
	struct twin_answer answer;
	decide(w, SLUICE_REFUND, cost, 0, 0, false);
	model_collect(&w->model, t);
	model_refund(&w->model, t, cost);
	answer = peeked(w, 0);
	compare(w, &answer);
}

/* The same request again: charged once within the window, to within a millisecond of its end. */
static void do_once(struct world *w, uint32_t cost) {
	struct once *once = &w->once[dice_below(&w->dice, w->once_count + (w->once_count < IDS))];
	uint64_t W = w->limit.window_ns, t = w->now;
	bool again = once < w->once + w->once_count;
	struct twin_answer answer;
	if (again && (t < once->at || (t >= once->at + W - sl_min(W, TWIN_MS) && t <= once->at + W + TWIN_MS)))
		return;
	again = again && t < once->at + W;
	if (once == w->once + w->once_count)
		*once = (struct once){.id = 1000 + w->once_count++};
	decide(w, SLUICE_CHARGE, cost, once->id, 0, false);
	same(w, "repeated", w->call.repeated, again);
	if (!again) {
		answer = charged(w, cost, 0, 0);
		compare(w, &answer);
		if (!answer.allowed || cost == 0)
			*once = w->once[--w->once_count]; /* leaves no record */
		else
			*once = (struct once){once->id, t, cost, w->call.merged.delay_ns};
		return;
	}
	same(w, "granted", w->call.granted, once->granted);
	answer = peeked(w, 0);
	answer.delay = units(w, w->call.merged.delay_ns);
	assert_true(w->call.merged.delay_ns <= once->delay_ns);
	compare(w, &answer);
}

static void do_reset(struct world *w) {
	const struct twin_rule rule = w->model.rule;
	decide(w, SLUICE_RESET, 0, 0, 0, false);
	model_start(&w->model, &rule, w->limit.derived[SL_TICK_NS]);
	w->strikes = (struct sl_strikes){0};
	do_peek(w, 1, false);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void open_store(struct world *w) {
	struct sluice_store_options options = {.memory_bytes = 16u << 20, .file = w->file};
	struct sluice_error error;
	if (sluice_store_open(&w->store, &options, &error) != SLUICE_OK)
		fail_msg("%s", error.text);
}

static void reopen(struct world *w) {
	if (w->file == NULL)
		return;
	sluice_store_close(w->store);
	open_store(w);
	assert_null(sluice_store_verify(w->store));
}

static void pass_time(struct world *w) {
	uint64_t W = w->limit.window_ns, unit = w->unit, t = w->now, k = w->model.opens, ends;
	switch (dice_below(&w->dice, 9)) {
	case 0:
	case 1:
	case 2:
		return;
	case 3:
		t = k == 0 ? t : w->model.open[dice_below(&w->dice, k)].end - dice_below(&w->dice, 2) * unit;
		break;
	case 4:
		t += dice_below(&w->dice, W / unit + 1) * unit;
		break;
	case 5:
		t = (t / W + 1) * W - dice_below(&w->dice, 2) * unit;
		break;
	case 6:
		ends = sl_strikes_stand(&w->terms, &w->strikes, t).ends_after_ns;
		t = ends != 0 ? t + ends - dice_below(&w->dice, 2) * unit : t;
		break;
	default:
		t += dice_below(&w->dice, W / unit / 20 + 2) * unit;
	}
	if (t < ((uint64_t)1 << 60) && t > w->now)
		w->now = t;
}

static struct sluice_terms some_terms(struct world *w) {
	struct sluice_terms terms = {.count_denied = dice_one_in(&w->dice, 3)};
	uint64_t second = 1000 * (uint64_t)TWIN_MS;
	if (dice_one_in(&w->dice, 2))
		return terms;
	terms.penalty_count = (uint8_t)(1 + dice_below(&w->dice, SLUICE_PENALTIES_MAX));
	terms.after = (uint16_t)(1 + dice_below(&w->dice, dice_one_in(&w->dice, 5) ? SL_AFTER_MAX : 4));
	terms.within_ns = sl_max(w->limit.window_ns / (1 + dice_below(&w->dice, 4)) / TWIN_MS, 1) * TWIN_MS;
	terms.forgive_ns = (1 + dice_below(&w->dice, 100)) * second;
	for (uint32_t i = 0; i < terms.penalty_count; i++)
		terms.penalties_ns[i] = (i != 0 ? terms.penalties_ns[i - 1] : 0) + (1 + dice_below(&w->dice, 20)) * second;
	return terms;
}

static uint64_t some_id(struct world *w) {
	if (w->model.opens == 0 || dice_one_in(&w->dice, 8))
		return 1 + dice_below(&w->dice, w->ids + 2);
	return w->model.open[dice_below(&w->dice, w->model.opens)].id;
}

static void step(struct world *w) {
	uint64_t W = w->limit.window_ns, ttl = TWIN_MS * (1 + dice_below(&w->dice, 2 * W / TWIN_MS));
	uint32_t cost = dice_cost(&w->dice, twin_quota(&w->model.rule));
	bool upto = dice_one_in(&w->dice, 5);
	/* a log's reservations lose units where denials are counted: exact only for those of one end (algo/ledger.h) */
	bool reserves = !w->terms.count_denied || w->model.rule.algorithm != SLUICE_SLIDING_LOG;
	pass_time(w);
	switch (dice_below(&w->dice, reserves ? 20 : 13)) {
	case 0:
	case 1:
		w->last = "peek";
		do_peek(w, cost, upto);
		return;
	case 2:
	case 3:
	case 4:
		w->last = "charge";
		do_charge(w, cost, upto);
		return;
	case 5:
		w->last = "once";
		do_once(w, cost);
		return;
	case 6:
		w->last = "refund";
		if (w->model.opens == 0 || w->model.rule.algorithm != SLUICE_SLIDING_LOG)
			do_refund(w, cost);
		return;
	case 7:
		w->last = "reset, and peek";
		if (dice_one_in(&w->dice, 8))
			do_reset(w);
		return;
	case 8:
	case 9:
	case 10:
	case 11:
	case 12:
		w->last = "commit";
		do_commit(w, some_id(w), dice_one_in(&w->dice, 3) ? 0 : cost);
		return;
	case 13:
		w->last = "the same reservation";
		do_reserve(w, cost, some_id(w), sl_min(ttl, SL_WINDOW_NS_MAX));
		return;
	default:
		w->last = "reserve";
		do_reserve(w, cost, ++w->ids, sl_min(ttl, SL_WINDOW_NS_MAX));
	}
}

static void run_stream(struct world *w, uint64_t number, sluice_algorithm algorithm, sluice_edge edge) {
	struct twin_rule rule;
	struct sluice_store *store = w->store;
	const char *file = w->file;
	*w = (struct world){.dice = dice_of(dice_seed(), 64000000 + number), .store = store, .file = file};
	w->stream = number;
	rule = dice_rule(&w->dice, algorithm, edge);
	w->limit = rule_limit(&rule);
	model_start(&w->model, &rule, w->limit.derived[SL_TICK_NS]);
	w->terms = some_terms(w);
	w->unit = TWIN_MS;
	w->now = sl_max((uint64_t)1767225600 * 1000000000, 2 * rule.window_ns);
	snprintf(w->key, sizeof w->key, "user:%" PRIu64, number);
	for (w->op = 0; w->op < STREAM_OPS && w->model.places < PLACES_MAX - 256; w->op++) {
		step(w);
		check_standing(w);
		if (w->op == STREAM_OPS / 2)
			reopen(w);
	}
}

/* Streams 0.. of a store; the last eight of each in a file. */
static void every_algorithm_through_the_store(void **state) {
	uint64_t ops = getenv("SLUICE_SOAK_SECONDS") != NULL ? DICE_MILLION : dice_ops(DICE_MILLION / 8);
	static struct world w;
	char file[64];
	(void)state;
	snprintf(file, sizeof file, "/tmp/sluice-reserve-%ld", (long)getpid());
	for (uint64_t i = 0; i * STREAM_OPS < ops || i % STREAMS_A_STORE != 0; i++) {
		uint64_t of_store = i % STREAMS_A_STORE;
		if (of_store == 0 || of_store == STREAMS_A_STORE - 8) {
			if (w.store != NULL)
				sluice_store_close(w.store);
			unlink(file);
			w.file = of_store == 0 ? NULL : file;
			open_store(&w);
		}
		run_stream(&w, i, dice_kinds[i % DICE_COUNTING].algorithm, dice_kinds[i % DICE_COUNTING].edge);
	}
	assert_null(sluice_store_verify(w.store));
	sluice_store_close(w.store);
	unlink(file);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_algorithm_through_the_store),
	};
	dice_seed();
	return cmocka_run_group_tests_name("reservations and penalties against their twins", tests, NULL, NULL);
}
