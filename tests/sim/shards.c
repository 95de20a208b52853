/* Shards: a primary and those that follow it; how what it tells reaches them, who takes over, and slots that move.
 *
 * This is what Redis does, seen from outside: replicas apply what they are told in order, later; a primary that nobody
 * hears is suspected after node_timeout, all say CLUSTERDOWN for a moment, and its replica takes over with what has
 * come to it; the others hear of it one after the other, and the old primary, which may have gone on meanwhile, last.
 * */
#include "tests/sim/world.h"

#include "base/assert.h"
#include "base/math.h"

#include <string.h>

static sluice_ns now_of(const struct world *world) {
	return world->time.now;
}

struct sim_shard *shard_of_node(struct world *world, uint32_t node) {
	for (uint32_t s = 0; s < world->config.shards; s++)
		for (uint32_t m = 0; m < world->shards[s].member_count; m++)
			if (world->shards[s].members[m] == node)
				return &world->shards[s];
	return NULL;
}

struct sim_node *primary_of(struct world *world, uint16_t slot) {
	return &world->nodes[world->shards[world->shard_of[slot]].primary];
}

static bool is_heard(const struct world *world, uint32_t node) {
	const struct sim_host *host = world->nodes[node].host;
	if (!host->listens || host->paused_until > now_of(world))
		return false;
	for (uint32_t n = 0; n < world->node_count; n++)
		if (n != node && world->net.cut[host->number][world->nodes[n].host->number])
			return false;
	return true;
}

/* ---- replication ------------------------------------------------------------------------------------------------- */

/* What replicas are told begins anew: they have `applied` all that was told before. */
static void begin_round(struct sim_shard *shard) {
	shard->rounds++;
	for (uint32_t m = 0; m < shard->member_count; m++)
		shard->replicas[m].planned = false;
}

/* Tags: the shard's number, the member's, the round, how much was told when it left. */
static uint64_t tag_of(const struct world *world, const struct sim_shard *shard, uint32_t member, size_t upto) {
	return (uint64_t)(shard - world->shards) | (uint64_t)member << 4 | (uint64_t)(shard->rounds & 0xffff) << 8 |
	       (uint64_t)upto << 24;
}

static void apply_upto(struct world *world, struct sim_shard *shard, uint32_t member, size_t upto) {
	struct sim_node *primary = &world->nodes[shard->primary], *replica = &world->nodes[shard->members[member]];
	for (; shard->replicas[member].applied < upto; shard->replicas[member].applied++)
		sim_node_apply(replica, &primary->told[shard->replicas[member].applied]);
}

/* A replica that has been told all has what its primary has. */
static void compare(struct world *world, const struct sim_node *primary, struct sim_node *replica) {
	for (uint32_t b = 0; b < SIM_BUCKETS; b++)
		for (struct sim_entry *entry = primary->buckets[b]; entry != NULL; entry = entry->next) {
			const struct sim_entry *other = sim_node_entry(replica, sl_slice(entry->key, entry->key_len), false);
			const uint64_t theirs = other == NULL ? 0 : sim_digest(other->value);
			if (sim_digest(entry->value) != theirs)
				sim_fail(world, "replica: node %u has been told all that node %u has, and differs at %.*s",
				         replica->number, primary->number, (int)entry->key_len, entry->key);
		}
}

static void forget_what_all_have(struct world *world, struct sim_shard *shard) {
	struct sim_node *primary = &world->nodes[shard->primary];
	for (uint32_t m = 0; m < shard->member_count; m++)
		if (shard->members[m] != shard->primary &&
		    (shard->replicas[m].applied != primary->told_count || shard->replicas[m].planned))
			return;
	if (primary->told_count < 2048)
		return;
	for (uint32_t m = 0; m < shard->member_count; m++) {
		if (shard->members[m] != shard->primary)
			compare(world, primary, &world->nodes[shard->members[m]]);
		shard->replicas[m].applied = 0;
	}
	sim_node_forget_told(primary);
	begin_round(shard);
}

static void on_told(void *to, uint64_t tag) {
	struct world *world = to;
	struct sim_shard *shard = &world->shards[tag & 0xf];
	const uint32_t member = tag >> 4 & 0xf;
	const struct sim_host *host = world->nodes[shard->members[member]].host;
	if ((tag >> 8 & 0xffff) != (shard->rounds & 0xffff))
		return;
	if (host->paused_until > now_of(world)) {
		sim_plan(&world->time, host->paused_until, on_told, to, tag);
		return;
	}
	shard->replicas[member].planned = false;
	if (!host->listens)
		return;
	apply_upto(world, shard, member, (size_t)(tag >> 24));
	forget_what_all_have(world, shard);
	shards_replicate(world, shard);
}

void shards_replicate(struct world *world, struct sim_shard *shard) {
	const struct sim_node *primary = &world->nodes[shard->primary];
	for (uint32_t m = 0; m < shard->member_count; m++) {
		const struct sim_node *replica = &world->nodes[shard->members[m]];
		if (shard->members[m] == shard->primary || shard->replicas[m].planned || !replica->host->listens ||
		    shard->replicas[m].applied >= primary->told_count)
			continue;
		shard->replicas[m].planned = true;
		sim_net_carry(&world->net, primary->host->number, replica->host->number,
		              sim_net_arrival(&world->net) + shard->lag, on_told, world,
		              tag_of(world, shard, m, primary->told_count));
	}
}

/* All that a member has is its primary's, as after a full synchronization. */
static void synchronize(struct world *world, struct sim_shard *shard, uint32_t member) {
	struct sim_node *primary = &world->nodes[shard->primary], *replica = &world->nodes[shard->members[member]];
	sim_node_copy(replica, primary);
	sim_node_forget_told(replica);
	shard->replicas[member].applied = primary->told_count;
	begin_round(shard);
	shards_replicate(world, shard);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

/* What is true: who leads, and whose slots are whose. Slots on their way are what they were. */
static void learn(struct world *world, struct sim_node *node) {
	const bool led = sim_node_leads(node);
	for (uint32_t slot = 0; slot < SIM_SLOTS && world->config.clustered; slot++)
		node->view.owner[slot] = world->shards[world->shard_of[slot]].primary;
	for (uint32_t n = 0; n < world->node_count; n++) {
		const struct sim_shard *shard = shard_of_node(world, n);
		node->view.leader[n] = shard->primary == n ? SIM_NOBODY : shard->primary;
	}
	node->view.down = false;
	if (!led || sim_node_leads(node))
		return;
	struct sim_shard *shard = shard_of_node(world, node->number); /* it has lost its place, and what it has with it */
	for (uint32_t m = 0; m < shard->member_count; m++)
		if (shard->members[m] == node->number)
			synchronize(world, shard, m);
}

static void on_news(void *to, uint64_t tag) {
	struct world *world = to;
	struct sim_node *node = &world->nodes[tag];
	if (node->host->paused_until > now_of(world))
		sim_plan(&world->time, node->host->paused_until + sim_between(&world->time.net, 10 * SIM_MS, 500 * SIM_MS),
		         on_news, to, tag);
	else if (node->host->listens)
		learn(world, node);
}

/* Everybody hears of it from `from`, in a while. */
static void spread(struct world *world, uint32_t from, sluice_ns most) {
	for (uint32_t n = 0; n < world->node_count; n++)
		sim_net_carry(&world->net, world->nodes[from].host->number, world->nodes[n].host->number,
		              now_of(world) + sim_between(&world->time.net, SIM_MS, most), on_news, world, n);
}

/* ---- taking over ------------------------------------------------------------------------------------------------- */

/* What is charged and what is held for slices, at an instant of the counter's clock. A plain hold is nothing yet: once
 * it is confirmed it is charged. */
static uint64_t kept_at(struct sim_node *node, struct sim_counter *counter, sluice_ns at) {
	const uint64_t used = judge_used(node, counter, at),
				   plain = judge_held(node, counter, at, false) - judge_held(node, counter, at, true);
	return used - sl_min(used, plain);
}

/* What the old primary had of each counter, and the new one has not. A new one that was the primary before, and was
 * away when it was replaced, may still take itself for it: what it did on its own is beside what it was told. */
static void count_lost(struct world *world, struct sim_shard *shard, struct sim_node *old, struct sim_node *new,
                       uint32_t member) {
	const bool has_all = shard->replicas[member].applied == old->told_count;
	const sluice_ns old_now = sim_node_now(old), new_now = sim_node_now(new),
					at = old_now > new_now ? old_now : new_now;
	const bool led = sim_node_leads(new);
	if (has_all && !led) {
		compare(world, old, new);
		return;
	}
	for (uint32_t c = 0; c < world->counter_count; c++) {
		struct sim_counter *counter = &world->counters[c];
		if (world->shard_of[counter->slot] != shard - world->shards)
			continue;
		const uint64_t had = kept_at(old, counter, at), has = kept_at(new, counter, at);
		if (had > has)
			judge_lost(world, counter, had - has);
	}
	if (led)
		return;
	/* and no more than that: with what is on its way it would have all */
	struct sim_node *trial = sim_take(&world->time, sizeof *trial);
	*trial = *new;
	memset(trial->buckets, 0, sizeof trial->buckets);
	trial->told = NULL;
	trial->told_count = trial->told_room = 0;
	sim_node_copy(trial, new);
	for (size_t i = shard->replicas[member].applied; i < old->told_count; i++)
		sim_node_apply(trial, &old->told[i]);
	compare(world, old, trial);
	sim_node_empty(trial);
}

/* Counters go from one node to another. If its clock is ahead, what is held at them ends at once, and slices are
 * charged in full; if it is behind, what has drained since they were charged has not yet. Either way a request between
 * its holds and its charges may fail. */
static void change_clocks(struct world *world, struct sim_node *node, sluice_ns before, sluice_ns takes) {
	const int64_t ahead = (int64_t)(sim_node_now(node) - before);
	for (uint32_t c = 0; c < world->counter_count && takes == 0; c++) /* else each when it moves */
		if (shard_of_node(world, node->number) == &world->shards[world->shard_of[world->counters[c].slot]])
			judge_clock_changed(world, node, &world->counters[c], before);
	if (ahead > (int64_t)SIM_MS)
		world->disturbed_at = now_of(world) + takes + world->config.slice_ns + SIM_S;
	if ((ahead > (int64_t)SIM_MS || ahead < -(int64_t)SIM_MS) && world->outage_until < now_of(world) + takes)
		world->outage_until = now_of(world) + takes;
}

static void promote(struct world *world, struct sim_shard *shard, uint32_t member) {
	struct sim_node *old = &world->nodes[shard->primary], *new = &world->nodes[shard->members[member]];
	const bool has_all = shard->replicas[member].applied == old->told_count;
	count_lost(world, shard, old, new, member);
	change_clocks(world, new, sim_node_now(old), 0);
	shard->primary = new->number;
	for (uint32_t c = 0; c < world->counter_count; c++)
		if (&world->shards[world->shard_of[world->counters[c].slot]] == shard)
			overrides_promoted(world, &world->counters[c], has_all);
	shard->epoch++;
	shard->failing = false;
	world->totals.failovers++;
	sim_node_forget_told(new);
	begin_round(shard);
	for (uint32_t m = 0; m < shard->member_count; m++) {
		shard->replicas[m].applied = 0;
		if (shard->members[m] != new->number && shard->members[m] != old->number &&
		    world->nodes[shard->members[m]].host->listens)
			synchronize(world, shard, m);
	}
	learn(world, new);
}

/* The member of a shard that has most of what was told, and is there; -1: none. */
static int heir_of(const struct world *world, const struct sim_shard *shard) {
	int best = -1;
	for (uint32_t m = 0; m < shard->member_count; m++) {
		if (shard->members[m] == shard->primary || !is_heard(world, shard->members[m]) ||
		    world->nodes[shard->members[m]].loading_until > now_of(world))
			continue;
		if (best < 0 || shard->replicas[m].applied > shard->replicas[best].applied)
			best = (int)m;
	}
	return best;
}

static void on_election(void *to, uint64_t tag) {
	struct world *world = to;
	struct sim_shard *shard = &world->shards[tag & 0xf];
	const int heir = heir_of(world, shard);
	if (shard->epoch != tag >> 4 || !shard->failing)
		return;
	shard->failing = false;
	if (is_heard(world, shard->primary)) { /* it is back */
		spread(world, shard->primary, 300 * SIM_MS);
	} else if (heir >= 0) {
		promote(world, shard, (uint32_t)heir);
		spread(world, shard->primary, 300 * SIM_MS);
	}
}

static void on_suspicion(void *to, uint64_t tag) {
	struct world *world = to;
	struct sim_shard *shard = &world->shards[tag & 0xf];
	struct sim_node *primary = &world->nodes[shard->primary];
	if (shard->epoch != tag >> 4 || shard->failing || is_heard(world, shard->primary))
		return;
	shards_finish_move(world);
	shard->failing = true;
	for (uint32_t n = 0; n < world->node_count && world->config.clustered; n++)
		if (is_heard(world, n))
			world->nodes[n].view.down = true;
	if (world->config.clustered && primary->host->listens)
		primary->view.down = true; /* it hears nobody either */
	sim_plan(&world->time, now_of(world) + sim_between(&world->time.net, 50 * SIM_MS, 500 * SIM_MS), on_election, to,
	         tag);
}

void shards_suspect(struct world *world, uint32_t node) {
	struct sim_shard *shard = shard_of_node(world, node);
	const sluice_ns timeout = world->config.node_timeout_ms * SIM_MS;
	if (shard->primary == node)
		sim_plan(&world->time, now_of(world) + sim_between(&world->time.net, timeout, 3 * timeout / 2), on_suspicion,
		         world, (uint64_t)(shard - world->shards) | shard->epoch << 4);
}

/* A node is there again, after it was killed: with its own data as the primary, with the primary's as a replica. */
void shards_return(struct world *world, uint32_t number) {
	struct sim_shard *shard = shard_of_node(world, number);
	struct sim_node *node = &world->nodes[number];
	const sluice_ns before = sim_node_now(node);
	sim_node_start(node);
	if (shard->primary == number)
		change_clocks(world, node, before, 0);
	node->loading_until = now_of(world) + sim_between(&world->time.net, 0, 400 * SIM_MS);
	for (uint32_t m = 0; m < shard->member_count; m++)
		if (shard->members[m] == number && shard->primary != number)
			synchronize(world, shard, m);
	learn(world, node);
	shards_news(world);
}

void shards_news(struct world *world) {
	for (uint32_t s = 0; s < world->config.shards; s++)
		spread(world, world->shards[s].primary, 300 * SIM_MS);
}

void shards_switch(struct world *world, uint32_t number) {
	struct sim_shard *shard = &world->shards[number];
	const int heir = heir_of(world, shard);
	struct sim_node *old = &world->nodes[shard->primary];
	if (heir < 0 || shard->failing || !is_heard(world, shard->primary) || world->moving ||
	    old->view.leader[old->number] != SIM_NOBODY)
		return;
	apply_upto(world, shard, (uint32_t)heir, old->told_count); /* it waits until the other has all */
	promote(world, shard, (uint32_t)heir);
	learn(world, old);
	spread(world, shard->primary, 200 * SIM_MS);
}

/* ---- slots that move --------------------------------------------------------------------------------------------- */

static void on_moved(void *to, uint64_t tag) {
	struct world *world = to;
	if (world->moving && world->move.slot == tag)
		shards_finish_move(world);
}

static void migrate_one(struct world *world, struct sim_counter *counter) {
	struct sim_node *from = &world->nodes[world->move.from], *to = &world->nodes[world->move.to];
	const struct sim_entry *entry = sim_node_entry(from, sl_str(counter->redis_key), false);
	if (counter->slot != world->move.slot || entry == NULL || entry->value == 0)
		return;
	sim_node_migrate(from, to, sl_str(counter->redis_key));
	judge_clock_changed(world, to, counter, sim_node_now(from));
}

static void on_migrate(void *to, uint64_t tag) {
	struct world *world = to;
	if (!world->moving || world->counters[tag].slot != world->move.slot)
		return;
	migrate_one(world, &world->counters[tag]);
	shards_replicate(world, shard_of_node(world, world->move.from));
	shards_replicate(world, shard_of_node(world, world->move.to));
}

void shards_finish_move(struct world *world) {
	struct sim_node *from = &world->nodes[world->move.from], *to = &world->nodes[world->move.to];
	const uint16_t slot = world->move.slot;
	if (!world->moving)
		return;
	for (uint32_t c = 0; c < world->counter_count; c++) {
		migrate_one(world, &world->counters[c]);
		if (world->counters[c].slot != slot)
			continue;
		(void)overrides_since(world, &world->counters[c], now_of(world));
		judge_clock_reopened(world, to, &world->counters[c]);
	}
	world->moving = false;
	from->view.goes[slot] = to->view.comes[slot] = SIM_NOBODY;
	world->shard_of[slot] = (uint8_t)(shard_of_node(world, to->number) - world->shards);
	from->view.owner[slot] = to->view.owner[slot] = to->number;
	for (uint32_t c = 0; c < world->counter_count; c++)
		if (world->counters[c].slot == slot)
			overrides_promoted(world, &world->counters[c], true);
	shards_replicate(world, shard_of_node(world, from->number));
	shards_replicate(world, shard_of_node(world, to->number));
	spread(world, to->number, 500 * SIM_MS);
}

void shards_move(struct world *world, uint16_t slot, uint32_t shard) {
	struct sim_node *from = primary_of(world, slot), *to = &world->nodes[world->shards[shard].primary];
	const sluice_ns takes = sim_between(&world->time.net, 5 * SIM_MS, 400 * SIM_MS);
	if (!world->config.clustered || from == to || world->moving || !is_heard(world, from->number) ||
	    !is_heard(world, to->number) || !sim_node_leads(from) || !sim_node_leads(to) || from->view.down ||
	    to->view.down || world->shards[shard].failing)
		return;
	world->moving = true;
	world->move = (struct sim_move){slot, from->number, to->number};
	world->totals.moves++;
	change_clocks(world, to, sim_node_now(from), takes);
	to->view.comes[slot] = from->number;
	from->view.goes[slot] = to->number;
	for (uint32_t c = 0; c < world->counter_count; c++)
		if (world->counters[c].slot == slot)
			sim_plan(&world->time, now_of(world) + sim_between(&world->time.net, 0, takes), on_migrate, world, c);
	sim_plan(&world->time, now_of(world) + takes + SIM_MS, on_moved, world, slot);
}

/* ---- what comes of each command ---------------------------------------------------------------------------------- */

struct world *world_of(const struct sim_node *node) {
	return (struct world *)((char *)node->net - offsetof(struct world, net));
}

bool shards_is_stale(const struct world *world, const struct sim_node *node, const struct sim_counter *counter) {
	if (world->moving && counter->slot == world->move.slot)
		return false;
	return world->shards[world->shard_of[counter->slot]].primary != node->number && sim_node_leads(node);
}

static bool has_stale(struct world *world, uint32_t node) {
	return shard_of_node(world, node)->primary != node && sim_node_leads(&world->nodes[node]);
}

static uint64_t charged_at(struct sim_node *node, struct sim_counter *counter) {
	const sluice_ns now = sim_node_now(node);
	const uint64_t used = judge_used(node, counter, now);
	return used - sl_min(used, judge_held(node, counter, now, false));
}

static void before(struct sim_node *node, struct sluice_bytes key) {
	struct world *world = world_of(node);
	/* of keys a command may have several */
	if (sl_bytes_equal(key, sl_str("LIST")) && shard_of_node(world, node->number)->primary != node->number)
		world->replica_listed_at = now_of(world);
	node->looked = has_stale(world, node->number);
	for (uint32_t c = 0; c < world->counter_count && node->looked; c++) {
		struct sim_counter *counter = &world->counters[c];
		if (!shards_is_stale(world, node, counter))
			continue;
		counter->before = charged_at(node, counter);
		counter->slices_before = judge_held(node, counter, sim_node_now(node), true);
		counter->own.before = overrides_print(node, counter);
	}
}

/* What a command has charged at a node that is no primary any more, and what more it holds for slices, which may be
 * spent without being settled there. What it holds less is no gain: the primary holds that yet. */
static void count_stale(struct world *world, struct sim_node *node, struct sim_counter *counter) {
	const uint64_t charged = charged_at(node, counter);
	const uint64_t slices = judge_held(node, counter, sim_node_now(node), true);
	const uint64_t lost =
		charged - sl_min(charged, counter->before) + slices - sl_min(slices, counter->slices_before);
	if (lost != 0)
		judge_lost(world, counter, lost);
}

static void after(struct sim_node *node, struct sluice_bytes key) {
	struct world *world = world_of(node);
	struct sim_shard *shard = shard_of_node(world, node->number);
	(void)key;
	for (uint32_t c = 0; c < world->counter_count && node->looked; c++) {
		struct sim_counter *counter = &world->counters[c];
		if (!shards_is_stale(world, node, counter))
			continue;
		count_stale(world, node, counter);
		if (overrides_print(node, counter) != counter->own.before) {
			counter->own.crossed++; /* whoever is told that it is done is told wrong */
			world->totals.own_lost++;
		}
	}
	node->looked = false;
	if (shard->primary == node->number)
		shards_replicate(world, shard);
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

void shards_begin(struct world *world) {
	const uint32_t each = 1 + world->config.replicas;
	for (uint32_t s = 0; s < world->config.shards; s++) {
		struct sim_shard *shard = &world->shards[s];
		*shard = (struct sim_shard){.primary = (uint8_t)(s * each), .member_count = (uint8_t)each, .epoch = 1};
		for (uint32_t m = 0; m < each; m++)
			shard->members[m] = (uint8_t)(s * each + m);
	}
	for (uint32_t slot = 0; slot < SIM_SLOTS; slot++)
		world->shard_of[slot] = (uint8_t)(slot * world->config.shards / SIM_SLOTS);
	for (uint32_t n = 0; n < world->node_count; n++) {
		world->nodes[n].clustered = world->config.clustered;
		world->nodes[n].before = before;
		world->nodes[n].after = after;
		world->nodes[n].refunding = judge_given_back;
		world->nodes[n].expiring = judge_expiring;
		world->nodes[n].view.leader[n] = n % each == 0 ? SIM_NOBODY : (uint8_t)(n - n % each);
		learn(world, &world->nodes[n]);
	}
}
