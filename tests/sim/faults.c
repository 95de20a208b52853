/* Faults: drawn, written, read, and done. A list of them is all of a world that is not its seed, so a world that fails
 * fails again with some of its faults left out, which is how a failure is made short. */
#include "tests/sim/world.h"

#include "base/assert.h"
#include "base/math.h"

#include <inttypes.h>
#include <string.h>

const char *const sim_fault_names[SIM_FAULT_KINDS] = {
	[SIM_RESET] = "reset",     [SIM_PARTITION] = "partition", [SIM_ISOLATE] = "isolate", [SIM_ISLAND] = "island",
	[SIM_PAUSE] = "pause",     [SIM_KILL] = "kill",           [SIM_LOADING] = "loading", [SIM_LAG] = "lag",
	[SIM_SWITCH] = "switch",   [SIM_MOVE] = "move",           [SIM_STALL] = "stall",     [SIM_CRASH] = "crash",
	[SIM_RESTART] = "restart", [SIM_SLOW] = "slow",           [SIM_LEAP] = "leap",
};

bool fault_is_outage(const struct world *world, const struct sim_fault *fault) {
	switch (fault->kind) {
	case SIM_LAG:
	case SIM_MOVE:
	case SIM_LEAP:
	case SIM_CRASH:
	case SIM_RESTART:
		return false;
	case SIM_STALL:
		return fault->lasts > world->config.budget_ns / 8; /* who stands still is late by himself */
	case SIM_SWITCH:
		return !world->config.clustered; /* single servers can't say who is the primary now */
	default:
		return true;
	}
}

/* ---- in words ---------------------------------------------------------------------------------------------------- */

void faults_print(const struct sim_fault *fault, char line[96]) {
	snprintf(line, 96, "at %" PRIu64 " %s %u %u for %" PRIu64, fault->at, sim_fault_names[fault->kind], fault->a,
	         fault->b, fault->lasts);
}

bool faults_read(const char *line, struct sim_fault *fault) {
	char word[16];
	*fault = (struct sim_fault){.at = 0};
	if (sscanf(line, "at %" SCNu64 " %15s %u %u for %" SCNu64, &fault->at, word, &fault->a, &fault->b,
	           &fault->lasts) != 5)
		return false;
	for (uint8_t kind = 0; kind < SIM_FAULT_KINDS; kind++)
		if (strcmp(sim_fault_names[kind], word) == 0) {
			fault->kind = kind;
			return true;
		}
	return false;
}

/* ---- drawn ------------------------------------------------------------------------------------------------------- */

static sluice_ns lasts_of(struct dice *dice, uint8_t kind) {
	switch (kind) {
	case SIM_STALL:
		return sim_between(dice, SIM_MS, dice_one_in(dice, 3) ? 500 * SIM_MS : 20 * SIM_MS);
	case SIM_LOADING:
	case SIM_LEAP:
		return sim_between(dice, 50 * SIM_MS, 4 * SIM_S);
	default:
		return sim_between(dice, 5 * SIM_MS, dice_one_in(dice, 2) ? 4 * SIM_S : 300 * SIM_MS);
	}
}

/* A world has some kinds of faults only, often one or two: among many each hides what the others bring about. */
static uint32_t draw_kinds(const struct world *world, uint8_t kinds[SIM_FAULT_KINDS]) {
	struct dice dice = dice_of(world->seed, 6);
	const uint64_t one_in = 1 + dice_below(&dice, 8);
	uint32_t count = 0;
	for (uint8_t kind = 0; kind < SIM_FAULT_KINDS; kind++)
		if (dice_one_in(&dice, one_in))
			kinds[count++] = kind;
	if (count == 0)
		kinds[count++] = (uint8_t)dice_below(&dice, SIM_FAULT_KINDS);
	return count;
}

void faults_draw(struct world *world, sluice_ns from, sluice_ns until) {
	struct dice dice = dice_of(world->seed, 100 + from / SIM_MS);
	const uint32_t count = 1 + (uint32_t)dice_below(&dice, 8);
	uint8_t kinds[SIM_FAULT_KINDS];
	const uint32_t kind_count = draw_kinds(world, kinds);
	for (uint32_t i = 0; i < count && world->fault_count < SIM_FAULTS_MAX; i++) {
		struct sim_fault fault = {.kind = kinds[dice_below(&dice, kind_count)]};
		fault.at = sim_between(&dice, from, until);
		fault.lasts = lasts_of(&dice, fault.kind);
		fault.a = (uint32_t)dice_below(&dice, fault.kind == SIM_MOVE ? world->counter_count : world->config.fronts);
		fault.b = (uint32_t)dice_below(&dice, fault.kind == SIM_SWITCH || fault.kind == SIM_MOVE ? world->config.shards
		                                                                                          : world->node_count);
		if (fault.at + fault.lasts > until)
			fault.lasts = until - fault.at;
		world->faults[world->fault_count++] = fault;
	}
}

/* ---- done -------------------------------------------------------------------------------------------------------- */

static void cut_from_nodes(struct world *world, uint32_t node, bool cut) {
	for (uint32_t n = 0; n < world->node_count; n++)
		if (n != node)
			sim_net_cut(&world->net, world->nodes[node].host->number, world->nodes[n].host->number, cut);
}

static void cut_from_fronts(struct world *world, uint32_t node, uint32_t but, bool cut) {
	for (uint32_t f = 0; f < world->config.fronts; f++)
		if (f != but)
			sim_net_cut(&world->net, world->nodes[node].host->number, world->fronts[f].host->number, cut);
}

/* The module's clock does not leap; but keys go by the wall clock, and what was charged with them (judge.c). */
static void leap(struct world *world, const struct sim_fault *fault) {
	world->nodes[fault->b].wall_ahead += fault->a % 2 == 0 ? fault->lasts : -fault->lasts;
	world->has_leapt = true;
}

static void begin_at_node(struct world *world, const struct sim_fault *fault) {
	struct sim_host *host = world->nodes[fault->b].host;
	shards_finish_move(world);
	if (fault->kind == SIM_KILL)
		sim_node_stop(&world->nodes[fault->b]);
	else if (fault->kind == SIM_PAUSE)
		sim_host_pause(host, world->time.now + fault->lasts);
	else
		cut_from_nodes(world, fault->b, true);
	if (fault->kind == SIM_ISLAND)
		cut_from_fronts(world, fault->b, fault->a, true);
	shards_suspect(world, fault->b);
}

static void end_at_node(struct world *world, const struct sim_fault *fault) {
	if (fault->kind == SIM_KILL)
		shards_return(world, fault->b);
	else if (fault->kind == SIM_ISOLATE || fault->kind == SIM_ISLAND)
		cut_from_nodes(world, fault->b, false);
	if (fault->kind == SIM_ISLAND)
		cut_from_fronts(world, fault->b, fault->a, false);
	shards_news(world);
}

static void stop_front(struct world *world, const struct sim_fault *fault) {
	struct sim_front *front = &world->fronts[fault->a];
	front->down_until = world->time.now + fault->lasts + SIM_S;
	if (fault->kind == SIM_CRASH)
		sim_host_die(front->host);
	front_close(front);
}

static void slow_down(struct world *world, sluice_ns least, sluice_ns most) {
	world->net.latency_least = least;
	world->net.latency_most = most;
}

static void begin(struct world *world, const struct sim_fault *fault) {
	const uint32_t front = world->fronts[fault->a % world->config.fronts].host->number;
	switch (fault->kind) {
	case SIM_RESET:
		sim_host_break_from(&world->net.hosts[front], world->nodes[fault->b].host, fault->lasts % 2 != 0);
		break;
	case SIM_PARTITION:
		sim_net_cut(&world->net, front, world->nodes[fault->b].host->number, true);
		break;
	case SIM_LOADING:
		world->nodes[fault->b].loading_until = world->time.now + fault->lasts;
		break;
	case SIM_LAG:
		shard_of_node(world, fault->b)->lag = sim_between(&world->time.net, SIM_MS, 200 * SIM_MS);
		break;
	case SIM_SWITCH:
		shards_switch(world, fault->b);
		break;
	case SIM_MOVE:
		shards_move(world, world->counters[fault->a].slot, fault->b);
		break;
	case SIM_STALL:
		sim_host_pause(&world->net.hosts[front], world->time.now + fault->lasts);
		world->stalled_until[fault->a] = sl_max(world->stalled_until[fault->a], world->time.now + fault->lasts);
		break;
	case SIM_CRASH:
	case SIM_RESTART:
		stop_front(world, fault);
		break;
	case SIM_SLOW:
		slow_down(world, 2 * SIM_MS, 60 * SIM_MS);
		break;
	case SIM_LEAP:
		leap(world, fault);
		break;
	default:
		begin_at_node(world, fault);
	}
}

static void end(struct world *world, const struct sim_fault *fault) {
	const uint32_t front = world->fronts[fault->a % world->config.fronts].host->number;
	switch (fault->kind) {
	case SIM_PARTITION:
		sim_net_cut(&world->net, front, world->nodes[fault->b].host->number, false);
		break;
	case SIM_LAG:
		shard_of_node(world, fault->b)->lag = 0;
		break;
	case SIM_SLOW:
		slow_down(world, 100 * SIM_US, 500 * SIM_US);
		break;
	case SIM_PAUSE:
	case SIM_KILL:
	case SIM_ISOLATE:
	case SIM_ISLAND:
		end_at_node(world, fault);
		break;
	default:
		break;
	}
}

static void on_fault(void *to, uint64_t tag) {
	struct world *world = to;
	const struct sim_fault *fault = &world->faults[tag / 2];
	if (tag % 2 != 0) {
		end(world, fault);
		return;
	}
	world->totals.faults[fault->kind]++;
	if (fault_is_outage(world, fault) && fault->at + fault->lasts + SIM_RECOVERY_NS > world->outage_until)
		world->outage_until = fault->at + fault->lasts + SIM_RECOVERY_NS;
	if (fault_is_outage(world, fault) || fault->kind == SIM_CRASH || fault->kind == SIM_STALL)
		world->disturbed_at =
			sl_max(world->disturbed_at, fault->at + fault->lasts + world->config.slice_ns + SIM_S);
	begin(world, fault);
	sim_plan(&world->time, fault->at + fault->lasts, on_fault, world, tag + 1);
}

void faults_plan(struct world *world) {
	for (uint32_t f = 0; f < world->fault_count; f++) {
		const struct sim_fault *fault = &world->faults[f];
		const uint32_t a_most = fault->kind == SIM_MOVE ? world->counter_count : world->config.fronts,
					   b_most = fault->kind == SIM_SWITCH || fault->kind == SIM_MOVE ? world->config.shards
																					 : world->node_count;
		if (fault->a < a_most && fault->b < b_most) /* a smaller world has no such front or node */
			sim_plan(&world->time, fault->at, on_fault, world, 2 * (uint64_t)f);
	}
}
