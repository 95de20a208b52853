/* Slices under a simulated clock: fronts whose slices come from one counter, which the library itself decides.
 *
 * The node here is a counter of a private store and a list of holds, as 011 has them: a cost is decided together with
 * what is held; a hold that ends is charged in full at its end. Commands travel for a random time each way, in order.
 * Fronts die with slices out. Whatever is admitted is then checked by itself, over every window; how much that was is
 * compared with what one counter admits that everybody asks; and commands are counted.
 *
 * Every charge that the node makes must fit: that holds are no promise twice given is asserted at each. */
#include "tests/model/dice.h"

#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/slice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS ((sluice_ns)1000000)
#define START ((sluice_ns)1767225600000 * MS)
#define STEP (MS / 10)

enum { FRONTS_MAX = 8, HOLDS_MAX = 64, MESSAGES_MAX = 64, WAITS_MAX = 4096 };

struct message {
	sluice_ns arrives, answered; /* at the node; back at the front */
	struct sl_quota_slice *slice; /* NULL: a CHECK of cost 1 */
	uint64_t id;
	uint32_t spent, want;
	int64_t numbers[SL_LEASE_NUMBERS];
	bool executed;
};

struct front {
	struct sl_quota_slices *slices;
	struct sl_fleet_figures figures;
	struct world *world;
	struct message messages[MESSAGES_MAX]; /* a ring */
	uint64_t sent, taken, executed;
	struct sl_quota_slice_wait waits[WAITS_MAX];
	uint64_t wait_count;
	sluice_ns tick, owed; /* time not yet made into arrivals */
};

struct setting {
	const char *limit;
	uint32_t fronts, seconds, deaths;
	uint32_t rate;       /* requests a second, of all fronts */
	uint32_t latency_us; /* one way, at most */
	uint64_t lease_ms;
};

struct world {
	struct setting setting;
	struct dice dice;
	sluice_ns now;
	struct sluice_limit limit;
	struct sluice_store *node, *plain;
	struct {
		uint64_t id, units;
		sluice_ns ends;
	} holds[HOLDS_MAX];
	struct front fronts[FRONTS_MAX];
	uint64_t requests, admitted, commands, ideal, asked;
	uint32_t *per_ms; /* what was admitted in each ms */
	size_t ms_count;
	uint64_t worst_wait;
};

/* ---- the node ---------------------------------------------------------------------------------------------------- */

static struct sluice_decision decide(struct world *w, struct sluice_store *store, sluice_operation operation,
                                     uint64_t cost, sluice_ns now) {
	struct sluice_item item = {.limit = &w->limit, .key = sl_str("k")};
	struct sluice_call call = {.items = &item,
	                           .item_count = 1,
	                           .operation = operation,
	                           .cost = (uint32_t)cost,
	                           .want_next = true,
	                           .now = now - now % MS};
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	return call.merged;
}

static void charge(struct world *w, uint64_t cost, sluice_ns now) {
	if (cost != 0)
		assert_true(decide(w, w->node, SLUICE_CHARGE, cost, now).allowed);
}

static uint64_t held_of_all(const struct world *w) {
	uint64_t held = 0;
	for (int i = 0; i < HOLDS_MAX; i++)
		held += w->holds[i].units;
	return held;
}

static void end_holds(struct world *w, sluice_ns now) {
	for (int i = 0; i < HOLDS_MAX; i++)
		if (w->holds[i].units != 0 && w->holds[i].ends <= now) {
			charge(w, w->holds[i].units, w->holds[i].ends);
			w->holds[i].units = 0;
		}
}

static int hold_of(const struct world *w, uint64_t id) {
	int free_one = -1;
	for (int i = 0; i < HOLDS_MAX; i++) {
		if (w->holds[i].units != 0 && w->holds[i].id == id)
			return i;
		if (w->holds[i].units == 0)
			free_one = i;
	}
	assert_true(free_one >= 0);
	return free_one;
}

static uint64_t room(struct world *w, sluice_ns now) {
	uint64_t remaining = decide(w, w->node, SLUICE_PEEK, 1, now).remaining, held = held_of_all(w);
	assert_true(held <= remaining);
	return remaining - held;
}

/* The wait for a cost of 1 beside what is held, and the rest of an answer. */
static void fill_each(struct world *w, sluice_ns now, int64_t numbers[SL_EACH_NUMBERS]) {
	uint64_t left = room(w, now), held = held_of_all(w);
	struct sluice_decision peek = decide(w, w->node, SLUICE_PEEK, held + 1, now);
	sluice_ns retry = left != 0 ? 0 : peek.retry_after_ns;
	numbers[0] = left != 0;
	numbers[1] = (int64_t)peek.quota;
	numbers[2] = (int64_t)left;
	numbers[3] = sl_ns_to_ms_ceil(retry);
	numbers[4] = sl_ns_to_ms_ceil(peek.reset_after_ns);
	numbers[5] = 0;
	numbers[6] = sl_ns_to_ms_ceil(peek.next_after_ns);
}

/* Stamped by who decided: the node, or a front that spends its slice. */
static void admit(struct world *w, sluice_ns now) {
	size_t ms = (size_t)((now - START) / MS);
	assert_true(ms < w->ms_count);
	w->admitted++;
	w->per_ms[ms]++;
}

static void execute(struct world *w, struct message *m, sluice_ns now) {
	end_holds(w, now);
	if (m->slice == NULL) {
		m->numbers[0] = room(w, now) != 0;
		charge(w, (uint64_t)m->numbers[0], now);
		if (m->numbers[0] == 1)
			admit(w, now);
		fill_each(w, now, m->numbers + 1);
	} else {
		int at = hold_of(w, m->id);
		uint64_t spent = m->spent < w->holds[at].units ? m->spent : w->holds[at].units;
		w->holds[at].units = 0;
		charge(w, spent, now);
		uint64_t left = room(w, now), granted = m->want < left ? m->want : left;
		w->holds[at].id = m->id;
		w->holds[at].units = granted;
		w->holds[at].ends = now + w->setting.lease_ms * MS;
		m->numbers[0] = (int64_t)granted;
		fill_each(w, now, m->numbers + 1);
	}
	m->executed = true;
}

/* ---- fronts ------------------------------------------------------------------------------------------------------ */

static struct message *put_message(struct front *f) {
	struct world *w = f->world;
	struct message *m = &f->messages[f->sent % MESSAGES_MAX];
	struct message *before = f->sent == 0 ? NULL : &f->messages[(f->sent - 1) % MESSAGES_MAX];
	if (f->sent - f->taken == MESSAGES_MAX)
		return NULL;
	sluice_ns arrives = w->now + (50 + dice_below(&w->dice, w->setting.latency_us)) * 1000;
	*m = (struct message){.arrives = before != NULL && before->arrives > arrives ? before->arrives : arrives};
	arrives = m->arrives + (50 + dice_below(&w->dice, w->setting.latency_us)) * 1000;
	m->answered = before != NULL && before->answered > arrives ? before->answered : arrives;
	f->sent++;
	w->commands++;
	return m;
}

static bool send_slice(void *to, struct sl_quota_slice *slice) {
	struct message *m = put_message(to);
	const struct sluice_bytes *words = slice->command->ask.words;
	uint64_t number = 0;
	if (m == NULL)
		return false;
	assert_string_equal(slice->command->ask.verb, "LEASE");
	m->slice = slice;
	m->id = slice->id;
	assert_true(sl_bytes_to_u64(words[2], &number));
	m->spent = (uint32_t)number;
	assert_true(sl_bytes_to_u64(words[3], &number));
	m->want = (uint32_t)number;
	return true;
}

static void ask_plainly(struct front *f) {
	struct message *m = put_message(f);
	f->world->asked++;
	if (m != NULL)
		m->slice = NULL;
}

static void decided(struct sl_quota_slice_wait *wait, enum sl_quota_slice_result result,
                    const struct sluice_decision *decision) {
	struct front *f = wait->owner;
	if (result == SL_QUOTA_SLICE_TAKEN) {
		assert_true(decision->allowed && decision->remaining <= decision->quota);
		admit(f->world, f->world->now);
		sl_quota_slice_done(wait, false, f->world->now);
	} else if (result == SL_QUOTA_SLICE_NONE) {
		ask_plainly(f);
	} else {
		assert_true(!decision->allowed && decision->retry_after_ns > 0);
	}
}

static void request(struct front *f) {
	struct world *w = f->world;
	struct sluice_item item = {.limit = &w->limit, .key = sl_str("k")};
	struct sl_plan_item plan = {.item = &item};
	struct sl_quota_slice_wait *wait = &f->waits[f->wait_count++ % WAITS_MAX];
	struct sluice_decision decision = {0};
	enum sl_quota_slice_result result;
	*wait = (struct sl_quota_slice_wait){.until = SLUICE_NEVER, .cost = 1, .decided = decided, .owner = f};
	w->requests++;
	w->ideal += decide(w, w->plain, SLUICE_CHARGE, 1, w->now).allowed;
	result = sl_quota_slice_take(f->slices, &plan, 42, w->now, wait, &decision);
	if (result != SL_QUOTA_SLICE_WAIT)
		decided(wait, result, &decision);
}

static void start_front(struct world *w, struct front *f) {
	struct sl_quota_slices_options options = {.slice_ns = w->setting.lease_ms * MS,
	                                          .prefix = "",
	                                          .seed = dice_bits(&w->dice),
	                                          .send = send_slice,
	                                          .to = f,
	                                          .figures = &f->figures};
	memset(f, 0, sizeof *f);
	f->world = w;
	f->slices = sl_quota_slices_new(&options);
	f->tick = w->now;
	assert_non_null(f->slices);
}

static void take_answers(struct front *f, bool all) {
	struct world *w = f->world;
	while (f->taken < f->sent && (all || f->messages[f->taken % MESSAGES_MAX].answered <= w->now)) {
		struct message m = f->messages[f->taken % MESSAGES_MAX];
		struct sl_answer answer = {
			.kind = all ? SL_ANSWER_LOST : SL_ANSWER_NUMBERS, .count = SL_LEASE_NUMBERS, .numbers = m.numbers};
		f->taken++;
		if (m.slice != NULL)
			sl_quota_slice_answered(m.slice, &answer, w->now);
	}
}

/* It dies: what it had sent may still arrive. */
static void kill_front(struct world *w, struct front *f) {
	for (; f->executed < f->sent; f->executed++)
		if (dice_one_in(&w->dice, 2))
			execute(w, &f->messages[f->executed % MESSAGES_MAX], w->now);
	(void)sl_quota_slices_end(f->slices, w->now);
	take_answers(f, true);
	sl_quota_slices_free(f->slices);
	start_front(w, f);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void step_front(struct front *f) {
	struct world *w = f->world;
	sluice_ns each = (sluice_ns)1000000000 * w->setting.fronts / w->setting.rate;
	take_answers(f, false);
	if (w->now >= f->tick) {
		sluice_ns due = sl_quota_slices_tick(f->slices, w->now);
		f->tick = due < w->now + 5 * MS ? due : w->now + 5 * MS;
	}
	for (f->owed += STEP / 2 + dice_below(&w->dice, STEP + 1); f->owed >= each; f->owed -= each)
		request(f);
}

/* Commands arrive at the node in the order of time over all fronts. */
static void step_node(struct world *w) {
	for (;;) {
		struct front *first = NULL;
		sluice_ns at = w->now;
		for (uint32_t i = 0; i < w->setting.fronts; i++) {
			struct front *f = &w->fronts[i];
			if (f->executed < f->sent && f->messages[f->executed % MESSAGES_MAX].arrives <= at) {
				first = f;
				at = f->messages[f->executed % MESSAGES_MAX].arrives;
			}
		}
		if (first == NULL)
			return;
		execute(w, &first->messages[first->executed++ % MESSAGES_MAX], at);
	}
}

static void run(struct world *w, const struct setting *setting, uint64_t seed) {
	sluice_ns end = START + (sluice_ns)setting->seconds * 1000 * MS, life;
	*w = (struct world){.setting = *setting, .dice = dice_of(seed, 77), .now = START};
	assert_int_equal(sluice_limit_parse(&w->limit, sl_str(setting->limit), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&w->node, NULL, NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&w->plain, NULL, NULL), SLUICE_OK);
	w->ms_count = (size_t)setting->seconds * 1000 + 2;
	w->per_ms = calloc(w->ms_count, sizeof w->per_ms[0]);
	assert_non_null(w->per_ms);
	for (uint32_t i = 0; i < setting->fronts; i++)
		start_front(w, &w->fronts[i]);
	life = setting->deaths == 0 ? SLUICE_NEVER : (end - START) / setting->deaths;
	for (sluice_ns next_death = START + life; w->now < end; w->now += STEP) {
		step_node(w);
		for (uint32_t i = 0; i < setting->fronts; i++)
			step_front(&w->fronts[i]);
		if (w->now >= next_death && setting->deaths != 0) {
			kill_front(w, &w->fronts[dice_below(&w->dice, setting->fronts)]);
			next_death += life;
		}
	}
}

static uint64_t most_in_a_window(const struct world *w) {
	size_t window = (size_t)(w->limit.window_ns / MS);
	uint64_t sum = 0, most = 0;
	for (size_t ms = 0; ms < w->ms_count; ms++) {
		sum += w->per_ms[ms];
		sum -= ms >= window ? w->per_ms[ms - window] : 0;
		most = sum > most ? sum : most;
	}
	return most;
}

static uint64_t bound_of(const struct sluice_limit *limit) {
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return 2 * (uint64_t)limit->quota;
	case SLUICE_SLIDING_WINDOW:
		return 2 * (uint64_t)limit->quota - 1;
	case SLUICE_TOKEN_BUCKET:
		return (uint64_t)limit->quota + limit->burst;
	default:
		return limit->quota;
	}
}

static void end(struct world *w) {
	for (uint32_t i = 0; i < w->setting.fronts; i++) {
		(void)sl_quota_slices_end(w->fronts[i].slices, w->now);
		take_answers(&w->fronts[i], true);
		sl_quota_slices_free(w->fronts[i].slices);
	}
	sluice_store_close(w->node);
	sluice_store_close(w->plain);
	free(w->per_ms);
}

struct expected {
	uint32_t share_permille, commands_permille; /* at least; at most */
};

static void hold_to(const struct setting *setting, struct expected expected) {
	struct world *w = malloc(sizeof *w);
	uint64_t most, share, commands;
	assert_non_null(w);
	run(w, setting, dice_seed());
	most = most_in_a_window(w);
	share = w->admitted * 1000 / w->ideal;
	commands = w->commands * 1000 / w->requests;
	print_message("%-36s %u fronts %6u/s: admitted %" PRIu64 " of %" PRIu64 " (%" PRIu64
	              " permille), most in a window %" PRIu64 ", commands %" PRIu64 " (%" PRIu64 " permille, %" PRIu64
	              " plain)\n",
	              setting->limit, setting->fronts, setting->rate, w->admitted, w->ideal, share, most, w->commands,
	              commands, w->asked);
	assert_true(most <= bound_of(&w->limit));
	assert_true(share >= expected.share_permille);
	assert_true(commands <= expected.commands_permille);
	end(w);
	free(w);
}

static void test_ten_times_the_limit(void **state) {
	static const char *const limits[] = {"sliding-log 1000/1s",  "sliding-window 1000/1s",
	                                     "token-bucket 1000/1s", "sliding-buckets 1000/1s precision 100ms",
	                                     "fixed-window 1000/1s", "token-bucket 1000/1s burst 100"};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
		hold_to(&(struct setting){limits[i], 3, 60, 0, 10000, 500, 500}, (struct expected){970, 20});
}

static void test_other_loads(void **state) {
	static const struct {
		struct setting setting;
		struct expected expected;
	} rows[] = {
		{{"sliding-log 1000/1s", 3, 20, 0, 700, 500, 500}, {1000, 120}}, /* nobody is denied */
		{{"sliding-log 1000/1s", 3, 20, 0, 900, 500, 500}, {1000, 200}},
		{{"sliding-log 1000/1s", 3, 20, 0, 1000, 500, 500}, {960, 350}}, /* all of it: slices are in the way */
		{{"sliding-log 1000/1s", 3, 20, 0, 1200, 500, 500}, {960, 250}},
		{{"sliding-log 1000/1s", 3, 20, 0, 2000, 500, 500}, {980, 120}},
		{{"sliding-log 1000/1s", 3, 20, 0, 4000, 500, 500}, {980, 60}},
		{{"sliding-log 100/1s", 3, 20, 0, 3000, 500, 500}, {980, 40}},
		{{"sliding-log 10000/10s", 3, 30, 0, 10000, 500, 500}, {980, 20}},
		{{"sliding-log 1000/1s", 8, 20, 0, 10000, 500, 500}, {980, 40}},
		{{"sliding-log 1000/1s", 1, 20, 0, 10000, 500, 500}, {980, 20}},
		{{"sliding-log 1000/1s", 3, 20, 0, 10000, 8000, 500}, {970, 20}}, /* nodes that are far */
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		hold_to(&rows[i].setting, rows[i].expected);
}

static void test_fronts_that_die(void **state) {
	(void)state;
	hold_to(&(struct setting){"sliding-log 1000/1s", 3, 60, 60, 10000, 2000, 500}, (struct expected){960, 40});
	hold_to(&(struct setting){"token-bucket 1000/1s", 3, 60, 60, 3000, 2000, 100}, (struct expected){970, 120});
	hold_to(&(struct setting){"sliding-window 500/100ms", 3, 20, 60, 20000, 5000, 50}, (struct expected){850, 80});
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ten_times_the_limit),
		cmocka_unit_test(test_other_loads),
		cmocka_unit_test(test_fronts_that_die),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
