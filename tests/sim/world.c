/* A world: drawn from its seed, run, and judged, in phases:
 *
 *   faults   something befalls somebody, for some seconds, under traffic
 *   mending  all of it is over; on-error may speak for SIM_RECOVERY_NS yet
 *   calm     all is served: on-error is an error, and each request is decided
 *   quiet    nobody asks; slices and holds go back, and accounts are compared
 *   moves    traffic and what operators do that is no outage (slots move), then quiet and accounts again, to the unit
 * */
#include "tests/sim/world.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "hosts/server/cluster/nodes.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 2 };

/* ---- drawn ------------------------------------------------------------------------------------------------------- */

void world_draw(struct sim_config *config, uint64_t seed) {
	struct dice dice = dice_of(seed, 3);
	*config = (struct sim_config){.fronts = 1 + (uint32_t)dice_below(&dice, SIM_FRONTS_MAX),
	                              .replicas = (uint32_t)dice_below(&dice, 3),
	                              .clustered = dice_below(&dice, 4) != 0,
	                              .slices = dice_below(&dice, 5) != 0,
	                              .names = dice_one_in(&dice, 6),
	                              .budget_ns = sim_between(&dice, 20, 100) * SIM_MS,
	                              .slice_ns = sim_between(&dice, 10, 100) * 10 * SIM_MS,
	                              .rate = 200 + (uint32_t)dice_below(&dice, 2000),
	                              .node_timeout_ms = 500 + (uint32_t)dice_below(&dice, 1500),
	                              .drift = dice_below(&dice, 3) != 0 ? (uint32_t)dice_below(&dice, 200000) : 0,
	                              .apart_ms = dice_one_in(&dice, 2) ? (uint32_t)dice_below(&dice, 3000) : 0,
	                              .overrides = dice_below(&dice, 4) != 0 ? 10 + (uint32_t)dice_below(&dice, 300) : 0};
	config->shards = config->clustered ? 2 + (uint32_t)dice_below(&dice, SIM_SHARDS_MAX - 1) : 1;
	config->replicas += config->clustered && config->replicas == 0 ? 1 : 0;
}

static uint64_t bound_of(const struct sluice_limit *limit) {
	const uint64_t quota = limit->quota;
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
		return 2 * quota;
	case SLUICE_SLIDING_WINDOW:
		return 2 * quota - 1;
	case SLUICE_TOKEN_BUCKET:
		return (uint64_t)limit->burst + quota;
	case SLUICE_LEAKY_BUCKET:
		return (uint64_t)limit->burst + 1 + quota;
	case SLUICE_UNLIMITED:
		return UINT64_MAX;
	default: /* logs, and sub-buckets whose edge counts */
		return quota;
	}
}

/* The same counter with another quota; of buckets with another burst, since their rate is what they drain by. */
static struct sluice_limit other_of(const struct sluice_limit *limit, uint32_t quota) {
	struct sluice_limit other = *limit;
	const bool drains = sl_rule_has(limit, SL_DRAINS);
	SL_ASSERT(sl_rule_requota(&other, drains ? limit->quota : quota, drains ? quota : limit->burst, limit->edge));
	return other;
}

/* Quotas of keys' own: a smaller one, a larger one, and none. Of what is compared to the unit all is counted: there the
 * smaller one is full at once. */
static void add_owns(struct sim_limit *limit) {
	const uint32_t quota = sl_rule_has(&limit->limit, SL_DRAINS) ? limit->limit.burst : limit->limit.quota;
	const uint32_t quotas[SIM_OWNS] = {quota, limit->account ? 40 : quota / 2 + 1, 2 * quota, quota / 4 * 3};
	for (uint32_t v = 0; v < SIM_OWNS; v++) {
		limit->owns[v] = other_of(&limit->limit, quotas[v]);
		if (v == SIM_OWNS - 1 && !limit->account)
			SL_ASSERT(sluice_limit_parse(&limit->owns[v], sl_str("unlimited"), NULL) == SLUICE_OK);
		sluice_limit_print(&limit->owns[v], limit->own_texts[v]);
		limit->bounds[v] = bound_of(&limit->owns[v]);
	}
	const struct sluice_limit wide = other_of(&limit->limit, UINT32_MAX / 2);
	sluice_limit_print(&wide, limit->wide);
}

static void add_limit(struct world *world, const char *text, bool account, bool loose, uint32_t keys) {
	struct sim_limit *limit = &world->limits[world->limit_count];
	struct sluice_error error;
	*limit = (struct sim_limit){.account = account, .loose = loose, .key_count = (uint8_t)keys};
	snprintf(limit->text, sizeof limit->text, "%s", text);
	snprintf(limit->name, sizeof limit->name, "limit-%u", world->limit_count);
	SL_ASSERT(sluice_limit_parse(&limit->limit, sl_str(text), &error) == SLUICE_OK);
	add_owns(limit);
	sl_rule_name(&limit->limit, sl_str(limit->name));
	limit->windowed = !account && !loose;
	limit->on_error = (uint8_t)(world->limit_count % 3); /* allow, deny, local */
	for (uint32_t k = 0; k < keys; k++) {
		struct sim_counter *counter = &world->counters[world->counter_count++];
		*counter = (struct sim_counter){.limit = limit, .sliced = world->config.slices, .own = {.known = true}};
		snprintf(counter->key, sizeof counter->key, "limit-%u-%u", world->limit_count, k);
		snprintf(counter->redis_key, sizeof counter->redis_key, "s:limit-%u-%u", world->limit_count, k);
		counter->slot = sl_slot_of(sl_str(counter->redis_key));
	}
	world->limit_count++;
}

static void draw_limits(struct world *world) {
	static const char *const forms[] = {"sliding-log %u/%us", "sliding-window %u/%us", "fixed-window %u/%us",
	                                    "token-bucket %u/%us", "sliding-buckets %u/%us precision 250ms",
	                                    "leaky-bucket %u/%us"};
	struct dice dice = dice_of(world->seed, 4);
	char text[64];
	const uint32_t each = world->config.rate / 4;
	snprintf(text, sizeof text, "sliding-log %u/%us", each * 2 / 3 + 5, 1 + (uint32_t)dice_below(&dice, 3));
	add_limit(world, text, false, false, 1 + (uint32_t)dice_below(&dice, 2));
	add_limit(world, "fixed-window 100M/1d", true, false, 1 + (uint32_t)dice_below(&dice, 3));
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof text, forms[dice_below(&dice, sizeof forms / sizeof *forms)],
		         5 + (uint32_t)dice_below(&dice, each), 1 + (uint32_t)dice_below(&dice, 4));
		add_limit(world, text, false, false, 1 + (uint32_t)dice_below(&dice, 3));
	}
	add_limit(world, "token-bucket 100M/1s", false, true, 2);
	add_limit(world, "sliding-window 100M/365d", true, false, 4);
	for (uint32_t k = 0; k < 4; k++) /* too seldom asked for to be sliced */
		world->counters[world->counter_count - 1 - k].sliced = false;
	add_limit(world, "sliding-log 20/2s", false, false, SIM_KEYS_MAX);
}

static struct sim_clock draw_clock(const struct world *world, struct dice *dice) {
	struct sim_clock clock = {.ahead = sim_between(dice, SIM_S, 100000 * SIM_S)};
	clock.faster = (int64_t)dice_below(dice, 2 * (uint64_t)world->config.drift + 1) - world->config.drift;
	return clock;
}

static void draw_nodes(struct world *world) {
	struct dice dice = dice_of(world->seed, 5);
	for (uint32_t n = 0; n < world->node_count; n++) {
		const struct sim_clock clock = draw_clock(world, &dice);
		struct sim_node *node = &world->nodes[n];
		node->command_ns = sim_between(&dice, 2 * SIM_US, 30 * SIM_US);
		node->epoch = UINT64_C(1790035200) * SIM_S - clock.ahead; /* noon of some day, so that no day ends */
		node->wall_ahead = sim_between(&dice, 0, world->config.apart_ms * SIM_MS);
		sim_node_begin(node, sim_host_add(&world->net, &clock), world->nodes, world->node_count);
	}
	for (uint32_t f = 0; f < world->config.fronts; f++) {
		const struct sim_clock clock = draw_clock(world, &dice);
		world->fronts[f].host = sim_host_add(&world->net, &clock);
	}
}

void world_begin(struct world *world, uint64_t seed, const struct sim_config *config) {
	memset(world, 0, sizeof *world);
	sim_module_load();
	world->seed = seed;
	world->config = *config;
	world->node_count = config->shards * (1 + config->replicas);
	SL_ASSERT(world->node_count <= SIM_NODES_MAX);
	sim_time_begin(&world->time, seed);
	sim_net_begin(&world->net, &world->time);
	world->net.piece_one_in = 6;
	world->net.slow_one_in = 50;
	draw_nodes(world);
	draw_limits(world);
	shards_begin(world);
	judge_begin(world);
	fronts_begin(world);
	world->outage_until = SIM_RECOVERY_NS; /* all is being connected */
	world->traffic = true;
	fronts_ask(world);
	overrides_begin(world);
}

void world_run(struct world *world, sluice_ns until) {
	while (!world->failed && sim_step(&world->time, until))
		continue;
	world->totals.simulated = world->time.now;
}

/* All are closed, and nothing is on its way any more. */
void world_end(struct world *world) {
	world->traffic = false;
	for (uint32_t f = 0; f < world->config.fronts; f++) {
		struct sim_front *front = &world->fronts[f];
		front->host->paused_until = 0;
		front_close(front);
		front->down_until = SLUICE_NEVER;
	}
	for (uint32_t a = 0; a < world->net.host_count; a++)
		for (uint32_t b = a + 1; b < world->net.host_count; b++)
			sim_net_cut(&world->net, a, b, false);
	const sluice_ns end = world->time.now + 3 * SIM_S;
	while (sim_step(&world->time, end))
		continue;
	world->totals.messages = world->net.messages;
	for (uint32_t f = 0; f < world->config.fronts; f++)
		if (world->fronts[f].fleet != NULL)
			sim_fail(world, "closing: front %u is not closed within 3 s", f);
	if (world->failed)
		return;
	fronts_end(world);
	for (uint32_t n = 0; n < world->node_count; n++) {
		sim_node_empty(&world->nodes[n]);
		sim_node_forget_told(&world->nodes[n]);
		free(world->nodes[n].told);
	}
	sim_time_end(&world->time);
}
