/* Buckets whose rate changes (contract 4.7), against a slow twin of their own: a debt, the instant that it is of, and
 * the rate of whoever charged it last. Each line of the twin is a sentence of the contract; it knows no state of ours.
 *
 * A door that holds the rate (the module, the script) must say the twin's numbers, all of them. A store knows the
 * rate by a lifetime only: there the twin keeps the least and the most that the debt may be. Where the rate did not
 * change the two fall together, and all is exact; where it did, what drains is uncertain by a quarter, or 3 ms. Waits
 * of a store must be true in any case: that long later the same cost is admitted, one ms sooner it is denied.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "base/assert.h"
#include "base/bytes.h"
#include "hosts/redis/decide.h"
#include "tests/model/dice.h"
#include "tests/model/redis_door.h"
#include "tests/unit/redis_world.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STREAM_OPS = 60, RATES = 3, OPENS = 8, ANY_RATE = 1 << 20 };
#define TTL_MS_MAX (UINT64_C(3660) * 86400000)
#define START_MS UINT64_C(1800000000000)
#define INSTANT_MAX_MS UINT64_C(9000000000000) /* AT ends not far behind it */

/* ---- the twin ---------------------------------------------------------------------------------------------------- */

/* An open reservation: of the debt behind its charge, in whole units, what has not drained goes back. */
struct open {
	uint64_t id, end, instant;
	uint32_t cost;
	twin_wide least, most;
};

struct line {
	twin_wide least, most; /* what was owed at `base`, in cost x ns, less what was refunded since; equal where known */
	uint64_t base;         /* the last charge, ns */
	uint32_t rate;         /* of whoever made it; 0: nobody has charged it */
	unsigned told;         /* how often it was given back to by others since; from ANY_RATE on: nobody can say */
	size_t opens;
	struct open open[OPENS];
};

/* The same at an instant: what is owed, and what has drained since the charge. */
struct standing {
	twin_wide least, most, drained_least, drained_most;
	uint64_t t;
	uint32_t rate;
	bool sure; /* the door must know it exactly */
};

struct op {
	sluice_operation operation;
	uint64_t now;
	uint32_t cost;
	size_t rule;
	uint64_t id, ttl_ms; /* of RESERVE; id of COMMIT */
};

struct stream {
	struct dice dice;
	uint64_t number, now;
	struct twin_rule rules[RATES]; /* of one algorithm and window */
	struct sluice_limit limits[RATES];
	struct line line;
	bool reserves;
	char key[32];
	size_t count;
	struct op ops[STREAM_OPS];
};

static twin_wide floor0(twin_wide x) {
	return x > 0 ? x : 0;
}

static twin_wide up(twin_wide a, twin_wide b) {
	return a / b + (a % b != 0);
}

/* What is owed at `t`, to a limit of this rate: a door that holds no rate is sure of it only if that is the asker's. */
static struct standing at(const struct line *line, uint64_t t, uint32_t asker, bool holds) {
	struct standing now = {.t = t > line->base ? t : line->base, .rate = line->rate};
	twin_wide drained = (twin_wide)(now.t - line->base) * line->rate, ms3 = (twin_wide)3 * TWIN_MS * line->rate;
	twin_wide late = 0, early = 0;
	if (line->told >= ANY_RATE) {
		late = drained + 1;
		early = (twin_wide)(now.t - line->base) * UINT32_MAX + 1;
	} else if (!holds && (asker != line->rate || line->told != 0)) {
		late = drained * (1 + line->told) / (4 + line->told);
		late = late > ms3 ? late : ms3;
		early = drained * (1 + line->told) / 4 + ms3;
	}
	now.drained_least = floor0(drained - late);
	now.drained_most = drained + early;
	now.most = floor0(line->most - now.drained_least);
	now.least = floor0(line->least - now.drained_most);
	now.sure = now.least == now.most && ((late == 0 && early == 0) || now.most == 0);
	return now;
}

/* What the charge is left with of a debt when `back` is given back of it now. */
static twin_wide less(twin_wide debt, twin_wide drained, twin_wide back) {
	twin_wide owed = floor0(debt - drained);
	return debt - (back < owed ? back : owed);
}

/* What of a reservation goes back at `t`, of as much as `cost`: between the least and the most. */
static void undrained(const struct line *line, const struct open *o, uint64_t t, twin_wide W, uint32_t asker,
                      bool holds, twin_wide back[2]) {
	struct line since = {.rate = line->rate, .base = o->instant, .told = line->told};
	struct standing s = at(&since, t, asker, holds);
	back[0] = floor0(o->least * W - s.drained_most);
	back[1] = floor0(o->most * W - s.drained_least);
}

static twin_wide least_of(twin_wide a, twin_wide b) {
	return a < b ? a : b;
}

/* Gives back up to `cost` of a reservation at `t`, and forgets it. */
static void give_back(struct line *line, size_t i, uint64_t t, twin_wide cost, twin_wide W, uint32_t asker,
                      bool holds) {
	struct standing now = at(line, t, asker, holds);
	twin_wide back[2];
	undrained(line, &line->open[i], t, W, asker, holds, back);
	line->least = less(line->least, now.drained_least, least_of(cost * W, back[1]));
	line->most = less(line->most, now.drained_most, least_of(cost * W, back[0]));
	line->open[i] = line->open[--line->opens];
}

/* The line as it stands at `t`, with what has ended by then returned, in the order of the ends. */
static struct line settled(const struct line *line, uint64_t t, twin_wide W, uint32_t asker, bool holds) {
	struct line there = *line;
	t = t > line->base ? t : line->base;
	for (;;) {
		size_t first = there.opens;
		for (size_t i = 0; i < there.opens; i++)
			if (there.open[i].end <= t && (first == there.opens || there.open[i].end < there.open[first].end))
				first = i;
		if (first == there.opens)
			return there;
		give_back(&there, first, there.open[first].end, there.open[first].cost, W, asker, holds);
	}
}

static twin_wide room(const struct twin_rule *rule, twin_wide debt) {
	twin_wide used = up(debt, rule->window_ns), capacity = twin_quota(rule);
	return capacity > used ? capacity - used : 0;
}

/* Whole ms after which at most `debt` - `over` is owed, at a rate. */
static int64_t wait_ms(twin_wide over, uint32_t rate) {
	twin_wide ms = over <= 0 ? 0 : up(over, (twin_wide)rate * TWIN_MS), most = (SLUICE_NEVER - 1) / TWIN_MS + 1;
	return (int64_t)(ms < most ? ms : most);
}

struct figures {
	int64_t allowed, quota, remaining, retry, reset, delay;
};

static bool gives_back(const struct op *op) {
	return op->operation == SLUICE_REFUND || op->operation == SLUICE_COMMIT;
}

/* What a door that knows the debt exactly answers, charged or not. */
static struct figures expect(const struct stream *s, const struct op *op, const struct standing *now, bool admits) {
	const struct twin_rule *rule = &s->rules[op->rule];
	twin_wide W = rule->window_ns, debt = now->most, capacity = twin_quota(rule);
	uint32_t cost = gives_back(op) ? 0 : op->cost, rate = now->rate;
	bool charges = (op->operation == SLUICE_CHARGE || op->operation == SLUICE_RESERVE) && admits && cost != 0;
	struct figures f = {.allowed = admits, .quota = (int64_t)capacity};
	if (charges || debt == 0) /* of what is empty nothing drains: it is as good as new */
		rate = rule->quota;
	if (rule->algorithm == SLUICE_LEAKY_BUCKET && admits && cost != 0)
		f.delay = wait_ms(debt + (twin_wide)(cost - 1) * W, rate);
	if (!admits)
		f.retry = (twin_wide)cost > capacity ? -1 : wait_ms(debt - (capacity - cost) * W, rate);
	debt += charges ? cost * W : 0;
	f.remaining = (int64_t)room(rule, debt);
	f.remaining = f.remaining < UINT32_MAX ? f.remaining : UINT32_MAX;
	f.reset = wait_ms(debt, rate);
	return f;
}

/* ---- saying what went wrong -------------------------------------------------------------------------------------- */

static void differ(const struct stream *s, const char *door, const char *what, const struct figures *got,
                   const struct figures *want) {
	static const char *const names[] = {"charge", "peek", "refund", "reset", "", "", "", "reserve", "commit"};
	char text[SLUICE_LIMIT_TEXT_MAX];
	fprintf(stderr, "\nSLUICE_SEED=%" PRIu64 ", %s, stream %" PRIu64 ": %s\n", dice_seed(), door, s->number, what);
	for (size_t i = 0; i < s->count; i++) {
		rule_print(&s->rules[s->ops[i].rule], text, sizeof text);
		fprintf(stderr, "  %-7s at +%" PRIu64 " ms cost %" PRIu32 "  %s  id %" PRIu64 " ttl %" PRIu64 "\n",
		        names[s->ops[i].operation], s->ops[i].now / TWIN_MS - START_MS, s->ops[i].cost, text, s->ops[i].id,
		        s->ops[i].ttl_ms);
	}
	const struct figures *both[] = {got, want};
	for (int i = 0; i < 2 && both[i] != NULL; i++)
		fprintf(stderr, "    %s %" PRId64 " quota %" PRId64 " remaining %" PRId64 " retry %" PRId64 " reset %" PRId64
		                " delay %" PRId64 "\n", i == 0 ? "got " : "twin", both[i]->allowed, both[i]->quota,
		        both[i]->remaining, both[i]->retry, both[i]->reset, both[i]->delay);
	fail_msg("%s", what);
}

/* ---- following a door -------------------------------------------------------------------------------------------- */

static void check_exact(const struct stream *s, const char *door, const struct op *op, const struct standing *now,
                        const struct figures *got) {
	const struct twin_rule *rule = &s->rules[op->rule];
	bool free_of_charge = op->cost == 0 || gives_back(op);
	struct figures want = expect(s, op, now, free_of_charge || op->cost <= room(rule, now->most));
	if (s->line.opens != 0 || op->operation == SLUICE_RESERVE) { /* waits know what will be returned: check_wait() */
		want.retry = got->retry;
		want.reset = got->reset;
	}
	if (memcmp(got, &want, sizeof want) != 0)
		differ(s, door, "it does not say what the twin says", got, &want);
}

/* Between the least and the most that may be owed. */
static void check_between(const struct stream *s, const char *door, const struct op *op, const struct standing *now,
                          const struct figures *got) {
	const struct twin_rule *rule = &s->rules[op->rule];
	uint32_t cost = gives_back(op) ? 0 : op->cost;
	bool charges = op->operation == SLUICE_CHARGE || op->operation == SLUICE_RESERVE;
	twin_wide charged = charges && got->allowed ? cost : 0, W = rule->window_ns;
	twin_wide low = room(rule, now->most + charged * W), high = room(rule, now->least + charged * W);
	low = low < UINT32_MAX ? low : UINT32_MAX;
	if (got->remaining < low || got->remaining > high)
		differ(s, door, "remaining is further from the twin's than a quarter of what drained", got, NULL);
	if (cost != 0 && got->allowed != (cost <= got->remaining + charged))
		differ(s, door, "it does not admit what it says is left", got, NULL);
	if (got->delay != 0 && (rule->algorithm != SLUICE_LEAKY_BUCKET || !got->allowed))
		differ(s, door, "a delay of what is not to be held", got, NULL);
	if (now->most == 0 && charged == 0 && got->reset != 0)
		differ(s, door, "what was full is not", got, NULL);
}

/* More than was reserved is debt from now on, less goes back. */
static void commit(struct stream *s, const struct op *op, const struct standing *now, bool holds) {
	const struct twin_rule *rule = &s->rules[op->rule];
	twin_wide W = rule->window_ns;
	struct line there = settled(&s->line, op->now, W, rule->quota, holds);
	for (size_t i = 0; i < there.opens; i++) {
		struct open o = there.open[i];
		if (o.id != op->id)
			continue;
		s->line = there;
		s->line.told += !holds && rule->quota != s->line.rate;
		if (op->cost > o.cost) {
			s->line.open[i] = s->line.open[--s->line.opens];
			s->line.least = now->least + (op->cost - (twin_wide)o.cost) * W;
			s->line.most = now->most + (op->cost - (twin_wide)o.cost) * W;
			s->line.base = now->t;
			if (s->line.told != 0) /* little said how fast it drains, and now much does: any rate of those */
				s->line.told = ANY_RATE;
		} else {
			give_back(&s->line, i, now->t, o.cost - (twin_wide)op->cost, W, rule->quota, holds);
		}
		return;
	}
}

static void charge(struct stream *s, const struct op *op, const struct standing *now, bool holds) {
	const struct twin_rule *rule = &s->rules[op->rule];
	twin_wide W = rule->window_ns, cost = op->cost, back[2];
	struct line there = settled(&s->line, op->now, W, rule->quota, holds), charged = there;
	/* another rate from now on, or so it may look to a store that others gave back to */
	bool turns = there.rate != rule->quota || (!holds && there.told != 0);
	for (size_t i = 0; i < there.opens && turns; i++) {
		struct open *o = &charged.open[i];
		undrained(&there, o, now->t, W, rule->quota, holds, back);
		if (!holds && now->least == 0) { /* of what owes nothing no rate can be told */
			back[0] = 0;
			back[1] = o->most * W;
		}
		*o = (struct open){o->id, o->end, now->t, o->cost, back[0] / W, back[1] / W + !holds};
	}
	charged.least = now->least + cost * W;
	charged.most = now->most + cost * W;
	charged.base = now->t;
	charged.rate = rule->quota;
	charged.told = 0;
	if (op->operation == SLUICE_RESERVE)
		charged.open[charged.opens++] = (struct open){op->id, now->t + op->ttl_ms * TWIN_MS, now->t, op->cost,
		                                              charged.least / W, charged.most / W};
	s->line = charged;
}

/* How the counter stands for who asks. */
static struct standing stand(const struct stream *s, const struct op *op, bool holds) {
	const struct twin_rule *rule = &s->rules[op->rule];
	struct line there = settled(&s->line, op->now, rule->window_ns, rule->quota, holds);
	return at(&there, op->now, rule->quota, holds);
}

/* The twin behind what a door did; `now` becomes what stands then. */
static void follow(struct stream *s, const struct op *op, struct standing *now, bool allowed, bool holds) {
	const struct twin_rule *rule = &s->rules[op->rule];
	twin_wide W = rule->window_ns, cost = op->cost;
	uint32_t asker = rule->quota;
	if (op->operation == SLUICE_RESET) {
		s->line = (struct line){0};
	} else if (op->operation == SLUICE_COMMIT) {
		commit(s, op, now, holds);
	} else if (op->operation == SLUICE_REFUND && s->line.rate != 0) {
		size_t opens = s->line.opens;
		s->line = settled(&s->line, op->now, W, asker, holds);
		s->line.told += (cost != 0 || s->line.opens != opens) && !holds && rule->quota != s->line.rate;
		s->line.least = less(s->line.least, now->drained_least, cost * W);
		s->line.most = less(s->line.most, now->drained_most, cost * W);
	} else if (op->operation != SLUICE_PEEK && op->operation != SLUICE_REFUND && allowed && cost != 0) {
		charge(s, op, now, holds);
	}
	if (gives_back(op))
		*now = stand(s, op, holds);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* A rate near the first, far from it, or any; such that a full debt drains within 292 years: of what takes longer than
 * 584 nobody tells how long. */
static uint32_t another_rate(struct dice *dice, const struct twin_rule *rule) {
	uint64_t quota = rule->quota, rate = quota, least;
	switch (dice_below(dice, 5)) {
	case 0:
		rate = quota - quota / 5 + dice_below(dice, quota / 2 + 1);
		break;
	case 1:
		rate = rate * 1000;
		break;
	case 2:
		rate = rate / 1000;
		break;
	case 3:
		rate = rate * (2 + dice_below(dice, 9));
		break;
	default:
		rate = dice_quota(dice);
	}
	least = 1 + (uint64_t)((twin_wide)twin_quota(rule) * rule->window_ns >> 63);
	rate = rate > least ? rate : least;
	return (uint32_t)(rate < UINT32_MAX ? rate : UINT32_MAX);
}

/* `most`: of capacities and windows, as the door can count. */
static void begin(struct stream *s, uint64_t number, uint64_t most) {
	sluice_algorithm algorithm = number % 2 == 0 ? SLUICE_TOKEN_BUCKET : SLUICE_LEAKY_BUCKET;
	memset(s, 0, sizeof *s);
	s->dice = dice_of(dice_seed(), number);
	s->number = number;
	s->now = START_MS + dice_below(&s->dice, 100000);
	do
		s->rules[0] = dice_rule(&s->dice, algorithm, 0);
	while (s->rules[0].quota == 0 ||
	       (twin_wide)(twin_quota(&s->rules[0]) + 1) * s->rules[0].window_ns / TWIN_MS >= (twin_wide)most);
	s->rules[0].quota = another_rate(&s->dice, &s->rules[0]);
	for (size_t i = 0; i < RATES; i++) {
		if (i != 0) {
			s->rules[i] = s->rules[0];
			s->rules[i].quota = another_rate(&s->dice, &s->rules[0]);
			if (dice_one_in(&s->dice, 3))
				s->rules[i].burst = 1 + (uint32_t)dice_below(&s->dice, s->rules[0].burst);
		}
		s->limits[i] = rule_limit(&s->rules[i]);
		sl_rule_name(&s->limits[i], sl_str("api"));
	}
	snprintf(s->key, sizeof s->key, "k%" PRIu64, number);
}

/* Whole ms; aimed at what the rates do. */
static uint64_t step_of(struct stream *s) {
	struct dice *dice = &s->dice;
	const struct twin_rule *rule = &s->rules[dice_below(dice, RATES)];
	uint64_t window_ms = rule->window_ns / TWIN_MS, unit = window_ms / rule->quota + 1;
	switch (dice_below(dice, 6)) {
	case 0:
		return 1 + dice_below(dice, 4);
	case 1:
		return dice_below(dice, window_ms + 2);
	case 2:
		return dice_below(dice, unit * (1 + dice_below(dice, twin_quota(rule))) + 2) % (1000 * window_ms + 1000);
	case 3:
		return dice_below(dice, 3 * unit + 1);
	default:
		return 0;
	}
}

static struct op *draw(struct stream *s) {
	struct op *op = &s->ops[s->count++];
	uint64_t roll = dice_below(&s->dice, 100);
	s->now += step_of(s);
	s->now = s->now < INSTANT_MAX_MS ? s->now : INSTANT_MAX_MS;
	op->rule = s->count > 1 && !dice_one_in(&s->dice, 4) ? s->ops[s->count - 2].rule : dice_below(&s->dice, RATES);
	op->operation = roll < 60 ? SLUICE_CHARGE : roll < 80 ? SLUICE_PEEK : roll < 98 ? SLUICE_REFUND : SLUICE_RESET;
	op->now = s->now * TWIN_MS;
	op->cost = dice_cost(&s->dice, twin_quota(&s->rules[op->rule]));
	op->id = s->count;
	if (s->reserves && op->operation == SLUICE_CHARGE && s->line.opens < OPENS && op->cost != 0 &&
	    dice_one_in(&s->dice, 4)) {
		op->operation = SLUICE_RESERVE;
		op->ttl_ms = 1 + dice_below(&s->dice, 3 * (s->rules[0].window_ns / TWIN_MS) + 10) % TTL_MS_MAX;
	} else if (s->line.opens != 0 && dice_one_in(&s->dice, 4)) {
		const struct open *o = &s->line.open[dice_below(&s->dice, s->line.opens)];
		op->operation = SLUICE_COMMIT;
		op->id = o->id;
		op->cost = (uint32_t)dice_below(&s->dice, dice_one_in(&s->dice, 3) ? 2 * (uint64_t)o->cost : o->cost + 1ull);
	}
	if (op->operation == SLUICE_CHARGE && dice_one_in(&s->dice, 3)) /* what is left, or one more */
		op->cost = (uint32_t)(room(&s->rules[op->rule], s->line.most) + (twin_wide)dice_below(&s->dice, 2));
	return op;
}

static int64_t ms_of(sluice_ns wait) {
	return wait == SLUICE_NEVER ? -1 : sl_ns_to_ms_ceil(wait);
}

static struct figures figures_of(const struct sluice_decision *d) {
	return (struct figures){d->allowed, (int64_t)d->quota, d->remaining, ms_of(d->retry_after_ns),
	                        ms_of(d->reset_after_ns), ms_of(d->delay_ns)};
}

/* ---- the store --------------------------------------------------------------------------------------------------- */

static struct sluice_decision ask_store(struct sluice_store *store, const struct stream *s, const struct op *op,
                                        uint64_t later_ms) {
	struct sluice_item item = {.limit = &s->limits[op->rule], .key = sl_str(s->key)};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = op->cost, .operation = op->operation};
	char id[24];
	if (op->operation >= SLUICE_RESERVE)
		call.id = sl_slice(id, (size_t)snprintf(id, sizeof id, "%" PRIu64, op->id));
	call.ttl_ns = op->ttl_ms * TWIN_MS;
	call.now = op->now + later_ms * TWIN_MS;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	return call.merged;
}

/* That the wait it told is true of itself. */
static void check_wait(struct sluice_store *store, const struct stream *s, const struct op *op,
                       const struct figures *got) {
	struct op peek = *op;
	peek.operation = SLUICE_PEEK;
	peek.ttl_ms = 0;
	if (got->allowed || got->retry <= 0 || got->retry > INT64_C(4000000000000))
		return;
	peek.now = op->now > s->line.base ? op->now : s->line.base;
	if (!ask_store(store, s, &peek, (uint64_t)got->retry).allowed)
		differ(s, "store", "retry_after is not true: it is denied then", got, NULL);
	if (ask_store(store, s, &peek, (uint64_t)got->retry - 1).allowed)
		differ(s, "store", "retry_after is not true: it is admitted sooner", got, NULL);
}

static void run_store(struct sluice_store *store, struct stream *s) {
	while (s->count < STREAM_OPS) {
		const struct op *op = draw(s);
		struct sluice_decision d = ask_store(store, s, op, 0);
		struct standing now = stand(s, op, false);
		struct figures got = figures_of(&d);
		if (gives_back(op))
			follow(s, op, &now, true, false);
		if (op->operation != SLUICE_RESET)
			(now.sure ? check_exact : check_between)(s, "store", op, &now, &got);
		if (op->operation != SLUICE_RESET)
			check_wait(store, s, op, &got);
		if (!gives_back(op))
			follow(s, op, &now, d.allowed, false);
	}
}

static void a_store_errs_by_a_quarter_at_most(void **state) {
	static struct stream s;
	struct sluice_store_options options = {.memory_bytes = 8 << 20};
	struct sluice_store *store = NULL;
	uint64_t streams = dice_ops(DICE_MILLION) / STREAM_OPS / 2 + 1;
	(void)state;
	for (uint64_t number = 0; number < streams; number++) {
		if (number % 1000 == 0) {
			sluice_store_close(store);
			assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
		}
		begin(&s, number, INT64_MAX);
		s.reserves = number % 3 == 0 && twin_quota(&s.rules[0]) < 1 << 28; /* debt has an end, too */
		run_store(store, &s);
	}
	sluice_store_close(store);
	print_message("%" PRIu64 " operations compared\n", streams * STREAM_OPS);
}

/* ---- the module, in this process --------------------------------------------------------------------------------- */

/* A value that went to a file and back, or to a replica, is what it was, rate and all. */
static void through_bytes(slr_value *value) {
	if (*value == 0)
		return;
	struct slr_bytes bytes = redis_bytes(*value);
	slr_value_free(*value);
	*value = slr_read_value(sl_slice(bytes.data, bytes.len));
	assert_true(*value != 0);
	slr_bytes_free(&bytes);
}

static void run_module(struct stream *s) {
	slr_value value = 0, replica = 0;
	struct slr_effects effects = {.bytes.data = NULL};
	while (s->count < STREAM_OPS) {
		const struct op *op = draw(s);
		struct slr_call call =
			redis_call((enum sl_operation)op->operation, value, &s->limits[op->rule], op->now, op->cost);
		struct standing now = stand(s, op, true);
		struct figures got;
		call.id = op->id;
		call.asked.id = sl_slice("id", op->id != 0 ? 2 : 0);
		call.asked.ttl_ns = op->ttl_ms * TWIN_MS;
		call.asked.want_next = false;
		call.heard = true;
		call.keys[0].effects = effects;
		assert_int_equal(slr_decide(&call), SLR_FINE);
		value = call.keys[0].value;
		effects = call.keys[0].effects;
		if (effects.bytes.len != 0)
			assert_true(slr_effects_apply(&replica, sl_slice(effects.bytes.data, effects.bytes.len)));
		got = figures_of(&call.asked.merged);
		if (gives_back(op))
			follow(s, op, &now, true, true);
		if (op->operation != SLUICE_RESET)
			check_exact(s, "module", op, &now, &got);
		if (!gives_back(op))
			follow(s, op, &now, got.allowed, true);
		if (dice_one_in(&s->dice, 8))
			through_bytes(&value);
		if (dice_one_in(&s->dice, 16)) { /* the replica becomes the primary */
			slr_value_free(value);
			value = slr_value_copy(replica);
		}
	}
	slr_value_free(value);
	slr_value_free(replica);
	slr_bytes_free(&effects.bytes);
}

static void the_module_is_exact(void **state) {
	static struct stream s;
	uint64_t streams = dice_ops(DICE_MILLION) / STREAM_OPS / 4 + 1;
	(void)state;
	for (uint64_t number = 0; number < streams; number++) {
		begin(&s, number, INT64_MAX);
		s.reserves = number % 3 == 0 && twin_quota(&s.rules[0]) < 1 << 28; /* debt has an end, too */
		run_module(&s);
	}
	print_message("%" PRIu64 " operations compared\n", streams * STREAM_OPS);
}

/* ---- module and script in Redis ---------------------------------------------------------------------------------- */

static void send_op(struct redis_door *door, enum redis_who who, const struct stream *s, const struct op *op) {
	static const char *const names[] = {"CHECK", "PEEK", "REFUND", "RESET"};
	static struct redis_words words, keys;
	char text[SLUICE_LIMIT_TEXT_MAX];
	words.count = keys.count = 0;
	rule_print(&s->rules[op->rule], text, sizeof text);
	redis_word(&keys, "%s", s->key);
	redis_word(&words, "SLUICE.%s", names[op->operation]);
	redis_word(&words, "%s", s->key);
	if (op->operation != SLUICE_RESET)
		redis_word(&words, "%" PRIu32, op->cost);
	redis_word(&words, "AT");
	redis_word(&words, "%" PRIu64, op->now / TWIN_MS);
	redis_word(&words, "NAME");
	redis_word(&words, "api");
	redis_word(&words, "%s", text);
	redis_door_send(door, who, &words, &keys);
}

static void run_redis(struct redis_door *door, enum redis_who who, struct stream *s) {
	static const char *const names[] = {"module in Redis", "script as a library", "script by EVALSHA"};
	while (s->count < STREAM_OPS) {
		const struct op *op = draw(s);
		struct standing now = at(&s->line, op->now, s->rules[op->rule].quota, true);
		struct redisReply *reply;
		struct figures got;
		send_op(door, who, s, op);
		reply = redis_door_read(door);
		if (reply->type == REDIS_REPLY_ERROR)
			differ(s, names[who], reply->str, NULL, NULL);
		if (op->operation == SLUICE_REFUND)
			follow(s, op, &now, true, true);
		if (op->operation != SLUICE_RESET) {
			assert_int_equal(reply->elements, 7);
			got = (struct figures){reply->element[0]->integer, reply->element[1]->integer, reply->element[2]->integer,
			                       reply->element[3]->integer, reply->element[4]->integer, reply->element[5]->integer};
			check_exact(s, names[who], op, &now, &got);
		}
		if (op->operation != SLUICE_REFUND)
			follow(s, op, &now, op->operation == SLUICE_RESET || got.allowed, true);
		freeReplyObject(reply);
	}
}

static void module_and_script_are_exact_in_redis(void **state) {
	static struct stream s;
	struct redis_door door = redis_door_open();
	uint64_t streams = dice_ops(DICE_MILLION) / STREAM_OPS / 200 + 1;
	(void)state;
	for (uint64_t number = 0; number < 3 * streams; number++) {
		begin(&s, number, (uint64_t)1 << 52);
		run_redis(&door, (enum redis_who)(number % 3), &s);
	}
	redis_door_close(&door);
	print_message("%" PRIu64 " operations compared\n", 3 * streams * STREAM_OPS);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_store_errs_by_a_quarter_at_most),
		cmocka_unit_test(the_module_is_exact),
		cmocka_unit_test(module_and_script_are_exact_in_redis),
	};
	dice_seed();
	return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
