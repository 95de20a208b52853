/* Fronts, and clients that ask them: fleets as the product's workers have them, each on a host of its own, asked as
 * doors ask (struct sl_pending). What each answer says of itself is judged here, as soon as it is there. */
#include "tests/sim/world.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "hosts/server/door/pending.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 3, ITEMS_MAX = 4, ABANDONED_ONE_IN = 80 };
#define GRACE_NS (15 * SIM_MS) /* of timers of whole ms, and of what is read once more before it is late */

/* One request of a client: its calls, and where it stood when it was sent. */
struct sim_call {
	struct world *world;
	struct sim_front *front;
	uint64_t opened;
	sluice_ns sent;
	bool cold[CALLS_MAX];
	struct sim_counter *counters[CALLS_MAX][ITEMS_MAX];
	sluice_ns floors[CALLS_MAX][ITEMS_MAX]; /* what the counter's node's clock showed */
};

/* A pending as doors make it: in one piece. What is at its end without a size is what follows it here. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wgnu-variable-sized-type-not-at-end"
#endif
struct asked {
	struct sl_pending pending;
	struct sl_pending_call calls[CALLS_MAX]; /* pending.calls */
	struct sluice_item items[CALLS_MAX][ITEMS_MAX];
	struct sl_pending_item facts[CALLS_MAX][ITEMS_MAX];
	struct sluice_decision each[CALLS_MAX][ITEMS_MAX];
};
_Static_assert(offsetof(struct asked, calls) == sizeof(struct sl_pending), "calls follow what is pending");

/* ---- judging answers --------------------------------------------------------------------------------------------- */

static bool passes_undecided(const struct sluice_call *call, const struct sl_pending_call *of, uint32_t i) {
	(void)call;
	return (of->undecided.items >> i & 1) != 0 || (of->undecided.local && of->facts[i].on_error == SL_ON_ERROR_LOCAL);
}

static bool has_bound(const struct sluice_call *call, uint8_t bound) {
	for (uint32_t i = 0; i < call->item_count; i++)
		if (call->each[i].bound == bound)
			return true;
	return false;
}

static void judge_figures(struct world *world, const struct sim_call *asked, uint32_t c,
                          const struct sl_pending_call *of) {
	const struct sluice_call *call = &of->call;
	/* a front's own bounds ask no counter; of a reset nobody is told but how many were forgotten */
	const bool asks = call->operation != SLUICE_RESET && !has_bound(call, SLUICE_BOUND_QUEUE) &&
					  !has_bound(call, SLUICE_BOUND_HOLDS);
	bool allowed = true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_decision *d = &call->each[i];
		allowed = allowed && d->allowed;
		if (asks && !overrides_fit(world, asked->counters[c][i], asked->sent, d->quota, call->operation))
			sim_fail(world, "figures: %s, %u of %u limits (operation %d, cost %u), is told a quota of %" PRIu64,
			         asked->counters[c][i]->limit->text, i, call->item_count, (int)call->operation, call->cost,
			         (uint64_t)d->quota);
		if (d->remaining > d->quota || (d->allowed && d->retry_after_ns != 0))
			sim_fail(world, "figures: %s is told %u remaining, retry after %" PRIu64,
			         asked->counters[c][i]->limit->text, d->remaining, d->retry_after_ns);
	}
	if (allowed != call->merged.allowed)
		sim_fail(world, "figures: allowed %d, of all limits %d", call->merged.allowed, allowed);
}

/* What it does to what its counters were asked, or may have been. */
static void settle(struct world *world, const struct sim_call *asked, uint32_t c, const struct sl_pending_call *of) {
	const struct sluice_call *call = &of->call;
	const bool decided = call->err == SLUICE_OK, allowed = decided && call->merged.allowed,
			   queued = decided && has_bound(call, SLUICE_BOUND_QUEUE);
	for (uint32_t i = 0; i < call->item_count && call->operation == SLUICE_CHARGE && call->cost != 0; i++) {
		struct sim_counter *counter = asked->counters[c][i];
		const bool open = decided && passes_undecided(call, of, i);
		if (allowed && !open)
			judge_admitted(world, counter, asked->sent, call->cost, asked->floors[c][i]);
		else if (!decided || open || queued)
			counter->unknown += call->cost;
	}
}

static void judge_call(struct world *world, const struct sim_call *asked, uint32_t c,
                       const struct sl_pending_call *of) {
	const struct sluice_call *call = &of->call;
	const bool undecided = call->err == SLUICE_E_AWAY || of->undecided.items != 0 || of->undecided.local;
	world->totals.decisions++;
	if (call->err != SLUICE_OK && call->err != SLUICE_E_AWAY)
		sim_fail(world, "error: a call of %s ends with %d", asked->counters[c][0]->limit->text, (int)call->err);
	if (undecided && asked->sent > world->outage_until)
		sim_fail(world, "on-error: %s %s was not decided (operation %d, %u limits), and no node is away",
		         asked->counters[c][0]->limit->text, asked->counters[c][0]->key, (int)call->operation,
		         call->item_count);
	world->totals.away += undecided;
	if (call->err == SLUICE_OK) {
		world->totals.admitted += call->merged.allowed;
		world->totals.denied += !call->merged.allowed;
		judge_figures(world, asked, c, of);
	}
	settle(world, asked, c, of);
}

static void judge_wait(struct world *world, const struct sim_call *asked) {
	const sluice_ns stalled = world->stalled_until[asked->front->number],
					begin = stalled > asked->sent ? stalled : asked->sent,
					most = world->config.budget_ns / 4 * 5 + GRACE_NS;
	if (world->time.now > begin + most)
		sim_fail(world, "budget: a request of front %u waited %" PRIu64 " us, budget %" PRIu64 " us",
		         asked->front->number, (world->time.now - asked->sent) / 1000, world->config.budget_ns / 1000);
}

static void judge_answer(const struct sim_call *asked, const struct sl_pending *pending) {
	struct world *world = asked->world;
	judge_wait(world, asked);
	for (uint32_t c = 0; c < pending->call_count; c++)
		judge_call(world, asked, c, &pending->calls[c]);
}

/* Nobody hears what came of it. */
static void give_up(const struct sim_call *asked, const struct sl_pending *pending) {
	for (uint32_t c = 0; c < pending->call_count; c++)
		for (uint32_t i = 0; i < pending->calls[c].call.item_count; i++)
			asked->counters[c][i]->unknown +=
				pending->calls[c].call.operation == SLUICE_CHARGE ? pending->calls[c].call.cost : 0;
}

static void on_answered(struct sl_pending *pending, void *to) {
	struct sim_call *asked = to;
	if (asked->front->opened == asked->opened && !asked->front->closing)
		judge_answer(asked, pending);
	else
		give_up(asked, pending);
	asked->front->under_way--;
	free(asked);
	free(pending);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static struct sim_counter *counter_of(struct world *world, uint32_t limit) {
	uint32_t first = 0;
	for (uint32_t l = 0; l < limit; l++)
		first += world->limits[l].key_count;
	return &world->counters[first + dice_below(&world->time.traffic, world->limits[limit].key_count)];
}

/* Mostly one limit at a time, and the first ones most often. */
static uint32_t choose_limit(struct world *world) {
	struct dice *dice = &world->time.traffic;
	return (uint32_t)dice_below(dice, 1 + dice_below(dice, world->limit_count));
}

static void draw_call(struct world *world, struct asked *asked, struct sim_call *call, uint32_t c) {
	struct dice *dice = &world->time.traffic;
	struct sl_pending_call *of = &asked->calls[c];
	const uint32_t items = dice_below(dice, 4) != 0 ? 1 : 1 + (uint32_t)dice_below(dice, ITEMS_MAX);
	uint32_t limit = choose_limit(world);
	bool loose = false;
	for (uint32_t i = 0; i < items; i++, limit++) {
		struct sim_counter *counter = counter_of(world, limit % world->limit_count);
		asked->items[c][i] = (struct sluice_item){.limit = &counter->limit->limit, .key = sl_str(counter->key)};
		asked->facts[c][i] = (struct sl_pending_item){counter->limit->name, counter->limit->on_error, false};
		call->counters[c][i] = counter;
		call->floors[c][i] = judge_clock(world, counter, NULL);
		loose = i == 0 ? counter->limit->loose : loose && counter->limit->loose;
	}
	of->call = (struct sluice_call){.items = asked->items[c],
	                                .item_count = items,
	                                .cost = dice_below(dice, 8) != 0 ? 1 : (uint32_t)dice_below(dice, 9),
	                                .operation = dice_one_in(dice, 16) ? SLUICE_PEEK : SLUICE_CHARGE,
	                                .each = asked->each[c]};
	of->facts = asked->facts[c];
	if (loose && dice_one_in(dice, 8))
		of->call.operation = dice_one_in(dice, 8) ? SLUICE_RESET : SLUICE_REFUND;
}

/* What nobody hears of may have been charged: accounts are kept clear of it. */
static bool may_abandon(const struct sim_call *call, const struct asked *asked) {
	for (uint32_t c = 0; c < asked->pending.call_count; c++)
		for (uint32_t i = 0; i < asked->calls[c].call.item_count; i++)
			if (call->counters[c][i]->limit->account)
				return false;
	return true;
}

static void ask(struct world *world, struct sim_front *front) {
	struct dice *dice = &world->time.traffic;
	struct asked *asked = calloc(1, sizeof *asked);
	struct sim_call *call = calloc(1, sizeof *call);
	SL_ASSERT(asked != NULL && call != NULL);
	*call = (struct sim_call){.world = world, .front = front, .opened = front->opened, .sent = world->time.now};
	asked->pending = (struct sl_pending){.ready = on_answered,
	                                     .to = call,
	                                     .sent_at = sim_clock_read(&front->host->clock, world->time.now),
	                                     .call_count = 1};
	if (dice_one_in(dice, 6)) /* pipelined */
		asked->pending.call_count += (uint32_t)dice_below(dice, CALLS_MAX);
	for (uint32_t c = 0; c < asked->pending.call_count; c++)
		draw_call(world, asked, call, c);
	world->totals.calls++;
	struct sl_remote *remote = sl_fleet_remote(front->fleet);
	if (remote->send(remote, &asked->pending)) {
		judge_answer(call, &asked->pending);
		free(call);
		free(asked);
	} else if (may_abandon(call, asked) && dice_one_in(dice, ABANDONED_ONE_IN)) { /* its client goes away */
		give_up(call, &asked->pending);
		asked->pending.to = NULL;
		free(call);
	} else {
		front->under_way++;
	}
	sim_host_turn_end(front->host);
}

static void on_ask(void *to, uint64_t tag) {
	struct world *world = to;
	struct dice *dice = &world->time.traffic;
	struct sim_front *front = &world->fronts[dice_below(dice, world->config.fronts)];
	(void)tag;
	const bool there = front->fleet != NULL && !front->closing && front->host->paused_until <= world->time.now;
	if (world->traffic && there)
		ask(world, front);
	sim_plan(&world->time, world->time.now + sim_between(dice, 0, 2 * SIM_S / world->config.rate), on_ask, world, 0);
}

void fronts_ask(struct world *world) {
	on_ask(world, 0);
}

/* ---- fleets ------------------------------------------------------------------------------------------------------ */

static void say(bool trouble, const char *line) {
	(void)trouble;
	if (getenv("SAY") != NULL)
		(void)fprintf(stderr, "# %s\n", line);
}

void front_open(struct sim_front *front) {
	struct world *world = front->world;
	struct sluice_error error = {.text = ""};
	char texts[SIM_NODES_MAX][32];
	const char *addresses[SIM_NODES_MAX];
	struct sl_redis_settings settings = {.addresses = addresses,
	                                     .prefix = "s:",
	                                     .via = SL_VIA_MODULE,
	                                     .budget_ns = world->config.budget_ns,
	                                     .slices = world->config.slices,
	                                     .slice_ns = world->config.slice_ns};
	const struct sl_fleet_options options = {.settings = &settings,
	                                         .loop = sim_loop(front->host),
	                                         .store = front->store,
	                                         .figures = front->figures,
	                                         .say = say};
	for (uint32_t n = 0; n < world->node_count; n++) {
		if (world->config.names && n == 0)
			snprintf(texts[n], sizeof texts[n], "node-%u:6379", world->nodes[n].host->number);
		else
			sim_host_address(world->nodes[n].host, texts[n]);
		addresses[settings.address_count++] = texts[n];
	}
	front->opened++;
	front->closing = false;
	SL_ASSERT(sl_fleet_open(&front->fleet, &options, &error));
}

static void add_figures(struct sim_front *front) {
	struct sim_totals *totals = &front->world->totals;
	struct sl_fleet_sum sum;
	sl_fleet_sum(front->figures, 1, &sum);
	totals->sliced += sum.decided[SL_WAY_SLICE];
	totals->held += sum.decided[SL_WAY_HELD];
	totals->known += sum.decided[SL_WAY_KNOWN];
	totals->commands += sum.commands;
	memset(front->figures, 0, sizeof *front->figures);
}

static void on_closed(void *to) {
	struct sim_front *front = to;
	if (front->under_way != 0)
		sim_fail(front->world, "closing: front %u is closed, and %" PRIu64 " requests have no answer", front->number,
		         front->under_way);
	add_figures(front);
	front->fleet = NULL;
	front->closing = false;
}

static void on_reopen(void *to, uint64_t tag) {
	struct sim_front *front = to;
	(void)tag;
	if (front->fleet == NULL && front->down_until <= front->world->time.now && front->down_until != 0) {
		front->down_until = 0;
		front_open(front);
	}
}

void front_close(struct sim_front *front) {
	if (front->fleet == NULL || front->closing)
		return;
	front->closing = true;
	sl_fleet_close(front->fleet, on_closed, front);
	sim_plan(&front->world->time, front->down_until + SIM_S, on_reopen, front, 0);
	front->down_until += SIM_S;
}

void fronts_begin(struct world *world) {
	const struct sluice_store_options options = {.memory_bytes = 4 << 20};
	struct sluice_error error = {.text = ""};
	for (uint32_t f = 0; f < world->config.fronts; f++) {
		struct sim_front *front = &world->fronts[f];
		front->world = world;
		front->number = f;
		SL_ASSERT(sluice_store_open(&front->store, &options, &error) == SLUICE_OK);
		front->figures = aligned_alloc(64, (sizeof *front->figures + 63) / 64 * 64);
		SL_ASSERT(front->figures != NULL);
		memset(front->figures, 0, sizeof *front->figures);
		front_open(front);
	}
}

void fronts_end(struct world *world) {
	for (uint32_t f = 0; f < world->config.fronts; f++) {
		struct sim_front *front = &world->fronts[f];
		SL_ASSERT(front->fleet == NULL);
		sluice_store_close(front->store);
		free(front->figures);
	}
}
