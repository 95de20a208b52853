/* The judge: what must hold, whatever befalls anybody.
 *
 * Windows. A request was decided some time between its sending and its answer, which is all that anybody can know. Of
 * those that must lie in one window, by the clock of the counter's node, no more is admitted than the limit's bound and
 * what was lost: writes of a primary that its heir had not been told, those of one that was none any more, and keys
 * that a leaping wall clock has ended. All three are measured at the nodes.
 *
 * Accounts. Of limits whose window outlasts the world, `admitted - lost <= charged`; where no slice can be given up
 * `charged <= admitted + unknown`, too; and between two looks with nothing amiss in between, what was charged is what
 * was admitted, to the unit: so each slice and each hold is back. */
#include "tests/sim/world.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/redis/own_quota.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { RING = 4096 };
#define SLACK_NS (4 * SIM_MS) /* stamps of logs are rounded by 1 ms, slices outlast their hold by what clocks drift */

void sim_fail(struct world *world, const char *format, ...) {
	va_list args;
	char what[SIM_WHY_BYTES - 40];
	if (world->failed)
		return;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	world->failed = true;
	snprintf(world->why, sizeof world->why, "at %.6f s: %s", (double)world->time.now / 1e9, what);
}

void judge_begin(struct world *world) {
	for (uint32_t c = 0; c < world->counter_count; c++)
		world->counters[c].admissions = sim_take(&world->time, RING * sizeof(struct sim_admission));
}

static sluice_ns read_clock(struct world *world, struct sim_shard *shard) {
	const sluice_ns now = sim_node_now(&world->nodes[shard->primary]);
	if (now > shard->clock)
		shard->clock = now;
	return now;
}

sluice_ns judge_clock(struct world *world, const struct sim_counter *counter, sluice_ns *highest) {
	sluice_ns now = read_clock(world, &world->shards[world->shard_of[counter->slot]]);
	if (world->moving && world->move.slot == counter->slot) /* it may be there already */
		now = sl_min(now, read_clock(world, shard_of_node(world, world->move.to)));
	/* a slot that has moved brings its clock along */
	for (uint32_t s = 0; s < world->config.shards && highest != NULL; s++)
		if (s == 0 || world->shards[s].clock > *highest)
			*highest = world->shards[s].clock;
	return now;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

void judge_lost(struct world *world, struct sim_counter *counter, uint64_t cost) {
	counter->losses[counter->loss_count++ % 64] = (struct sim_loss){world->time.now, cost};
	counter->lost += cost;
	world->totals.lost_units += cost;
}

/* What was lost within so long: a charge that counts in a window is lost in it, or after it. */
static uint64_t lost_lately(const struct world *world, const struct sim_counter *counter, sluice_ns within) {
	uint64_t lost = 0;
	for (uint32_t l = 0; l < 64 && l < counter->loss_count; l++)
		if (counter->losses[l].at + within >= world->time.now)
			lost += counter->losses[l].cost;
	return counter->loss_count > 64 ? counter->lost : lost;
}

void judge_admitted(struct world *world, struct sim_counter *counter, sluice_ns sent, uint32_t cost, sluice_ns floor) {
	const struct sim_limit *limit = counter->limit;
	const sluice_ns window = limit->limit.window_ns;
	struct sim_admission *new = &counter->admissions[counter->count++ % RING];
	sluice_ns until = 0;
	uint64_t sum = 0;
	const sluice_ns here = judge_clock(world, counter, &until);
	counter->admitted += cost;
	*new = (struct sim_admission){here < floor ? here : floor, until, world->time.now, cost};
	if (sent < counter->given_back_at)
		new->from = sl_min(new->from, counter->given_back_from);
	if (!limit->windowed)
		return;
	world->totals.judged++;
	const sluice_ns begin = until - window + SLACK_NS;
	/* the counter's clock stands still while its node's is behind that of the node before: then its window is longer */
	sluice_ns begun = world->time.now - (world->time.now < window ? world->time.now : window);
	for (uint32_t back = 1; back <= counter->count && back <= RING; back++) {
		const struct sim_admission *one = &counter->admissions[(counter->count - back) % RING];
		if (one->until <= begin)
			break;
		if (one->at < counter->set_back_at && one->at + window <= world->time.now)
			continue; /* of a slice: it was charged by the clock that is behind, and no window is shorter for that */
		sum += one->from > begin ? one->cost : 0;
		begun = one->at < begun ? one->at : begun;
	}
	const uint64_t bound = overrides_bound(world, counter, begun),
				   lost = lost_lately(world, counter, 3 * window + 5 * SIM_S);
	if (sum > bound && sum - bound > lost)
		sim_fail(world, "over: %s %s: %" PRIu64 " admitted within a window, bound %" PRIu64 ", lost %" PRIu64
		         " (a request of %u sent %" PRIu64 " us ago)", limit->text, counter->key, sum, bound, lost, cost,
		         (world->time.now - sent) / 1000);
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

static int64_t number_at(struct sluice_bytes reply, uint32_t index) {
	const char *at = reply.data, *end = at + reply.len;
	for (uint32_t i = 0; i <= index; i++)
		at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
	SL_ASSERT(*at == ':');
	/* a reply is ended by its length, not by a NUL: strtoll() may not have it */
	int64_t number = 0;
	bool negative = at[1] == '-';
	for (at += negative ? 2 : 1; at < end && *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (*at - '0');
	return negative ? -number : number;
}

static uint64_t peek_used(struct sim_node *node, const struct sim_counter *counter, sluice_ns at) {
	char instant[24];
	snprintf(instant, sizeof instant, "%" PRIu64, at / SIM_MS);
	const struct sluice_bytes args[] = {sl_str("SLUICE.PEEK"), sl_str(counter->redis_key), sl_str("0"), sl_str("AT"),
	                                    sl_str(instant), sl_str("NAME"), sl_str(counter->limit->name),
	                                    sl_str(counter->limit->wide)};
	sim_reply_begin();
	SL_ASSERT(sim_module_run(node, args, 8, false));
	return (uint64_t)(number_at(sim_reply(), 1) - number_at(sim_reply(), 2));
}

/* Without a quota of its own, which may be full long before that. */
uint64_t judge_used(struct sim_node *node, struct sim_counter *counter, sluice_ns at) {
	struct sim_entry *entry = sim_node_entry(node, sl_str(counter->redis_key), false);
	const struct sl_identity identity = sl_identity_of(&counter->limit->limit);
	if (entry != NULL)
		sim_node_expire(node, entry);
	if (entry == NULL || slr_own_find(entry->value, identity) == NULL)
		return peek_used(node, counter, at);
	const slr_value whole = entry->value;
	entry->value = slr_value_copy(whole);
	(void)slr_value_remove(&entry->value, slr_companion_of(SLR_COMPANION_OVERRIDE, identity));
	const uint64_t used = peek_used(node, counter, at);
	slr_value_free(entry->value);
	entry->value = whole;
	return used;
}

static const struct slr_counter *find(struct sim_node *node, const struct sim_counter *counter,
                                      struct slr_counter *scratch) {
	const struct sim_entry *entry = sim_node_entry(node, sl_str(counter->redis_key), false);
	return entry != NULL ? slr_value_find(entry->value, sl_identity_of(&counter->limit->limit), scratch) : NULL;
}

uint64_t judge_held(struct sim_node *node, const struct sim_counter *counter, sluice_ns at, bool in_slices) {
	struct slr_counter scratch;
	struct sl_counter step;
	const struct slr_counter *there = find(node, counter, &scratch);
	const struct slr_holds *holds = there == NULL ? NULL : slr_counter_holds(there);
	uint64_t held = 0;
	if (holds == NULL)
		return 0;
	slr_counter_load(there, &step);
	for (uint32_t h = slr_holds_ended(holds, sl_step_instant(&counter->limit->limit, &step, at)); h < holds->count; h++)
		held += !in_slices || holds->list[h].lease != 0 ? holds->list[h].cost : 0;
	return held;
}

/* What is held for a call is confirmed or cancelled within its budget: then nobody waits for it. Not so where a key got
 * a lower quota of its own in between: what is confirmed then is denied, and is held until its time is over. */
void judge_holds(struct world *world) {
	const sluice_ns lasts = sl_max(4 * world->config.budget_ns, SIM_S);
	for (uint32_t c = 0; c < world->counter_count && world->config.overrides == 0; c++) {
		struct sim_counter *counter = &world->counters[c];
		struct sim_node *node = primary_of(world, counter->slot);
		struct slr_counter scratch;
		const struct slr_counter *there = find(node, counter, &scratch);
		const struct slr_holds *holds = there == NULL ? NULL : slr_counter_holds(there);
		const sluice_ns now = sim_node_now(node);
		for (uint32_t h = 0; holds != NULL && h < holds->count; h++) {
			const struct slr_hold *hold = &holds->list[h];
			if (hold->lease == 0 && hold->end > now && hold->end + 2 * world->config.budget_ns < now + lasts)
				sim_fail(world, "hold: %s %s: %u is held since %" PRIu64 " ms, and no node is away",
				         counter->limit->text, counter->key, hold->cost, (now + lasts - hold->end) / SIM_MS);
		}
	}
}

/* What was admitted until then, and counts yet by a clock that is behind. */
static uint64_t counts_yet(const struct sim_counter *counter, sluice_ns until, sluice_ns now) {
	const sluice_ns longest = 2 * counter->limit->limit.window_ns;
	uint64_t sum = 0;
	for (uint32_t back = 1; back <= counter->count && back <= RING; back++) {
		const struct sim_admission *one = &counter->admissions[(counter->count - back) % RING];
		if (one->until + longest <= now)
			break;
		sum += one->at <= until ? one->cost : 0;
	}
	return sum;
}

/* What goes with a counter's key: what is used. Where the node's clock is behind that of the counter, which goes too,
 * what had drained by that drains once more, and windows that were over begin again. */
static uint64_t goes_with_key(const struct world *world, const struct sim_entry *entry,
                              const struct sim_counter *counter, sluice_ns now, uint64_t used) {
	struct slr_counter scratch;
	const struct slr_counter *there = slr_value_find(entry->value, sl_identity_of(&counter->limit->limit), &scratch);
	struct sl_counter step;
	if (there == NULL)
		return used;
	slr_counter_load(there, &step);
	if (sl_step_instant(&counter->limit->limit, &step, now) <= now)
		return used;
	return sl_max(used, counts_yet(counter, world->time.now, now));
}

/* By then its counters say no more than none would; unless it was another's wall clock that it was to expire by. What
 * has come from a node whose clock is ahead of this one's counts by this one's clock for longer than its key lives. */
void judge_expiring(struct sim_node *node, struct sim_entry *entry) {
	struct world *world = world_of(node);
	const struct sluice_bytes key = sl_slice(entry->key, entry->key_len);
	entry->expire_ms = 0;
	for (uint32_t c = 0; c < world->counter_count; c++) {
		struct sim_counter *counter = &world->counters[c];
		if (!sl_bytes_equal(sl_str(counter->redis_key), key))
			continue;
		const uint64_t used = judge_used(node, counter, sim_node_now(node));
		const bool may_be_early = world->has_leapt || world->config.apart_ms != 0 || world->config.drift != 0;
		overrides_expired(world, node, counter, may_be_early);
		if (used != 0 && !may_be_early)
			sim_fail(world, "expiry: %s %s expires at node %u with %" PRIu64 " charged", counter->limit->text,
			         counter->key, node->number, used);
		const uint64_t lost = may_be_early ? goes_with_key(world, entry, counter, sim_node_now(node), used) : used;
		if (lost != 0 && !shards_is_stale(world, node, counter))
			judge_lost(world, counter, lost);
		if (sim_node_leads(node) && !shards_is_stale(world, node, counter)) {
			counter->expired_at = world->time.now;
			counter->expired_clock = sim_node_now(node);
		}
	}
}

/* By a clock that is behind it counts yet, and nobody knows of it any more: windows that are over begin again. */
void judge_clock_reopened(struct world *world, const struct sim_node *node, struct sim_counter *counter) {
	const sluice_ns now = sim_node_now(node);
	if (counter->expired_clock <= now)
		return;
	const uint64_t forgotten = counts_yet(counter, counter->expired_at, now);
	counter->expired_clock = 0;
	if (forgotten != 0)
		judge_lost(world, counter, forgotten);
}

/* What is spent of a slice counts when it is settled, by the clock that is. Where that is yet in a window before that
 * which the slice was taken in, and nothing was charged since, it counts there, beside all that was admitted then. */
static uint64_t settled_before(const struct world *world, const struct sim_counter *counter,
                               const struct slr_counter *there, sluice_ns now) {
	const struct slr_holds *holds = slr_counter_holds(there);
	const sluice_ns window = counter->limit->limit.window_ns;
	struct sl_counter step;
	uint64_t before = 0;
	if (!sl_rule_has(&counter->limit->limit, SL_HAS_WINDOWS))
		return 0;
	slr_counter_load(there, &step);
	const sluice_ns clock = sl_step_instant(&counter->limit->limit, &step, now);
	for (uint32_t h = 0; holds != NULL && h < holds->count; h++) {
		const struct slr_hold *hold = &holds->list[h];
		before += hold->lease != 0 && clock / window < (hold->end - world->config.slice_ns) / window ? hold->cost : 0;
	}
	return before;
}

/* What was admitted by slices that are not settled counts from an instant of the clock that is. */
static void settle_later(struct world *world, struct sim_counter *counter, sluice_ns now) {
	for (uint32_t back = 1; counter->sliced && back <= counter->count && back <= RING; back++) {
		struct sim_admission *one = &counter->admissions[(counter->count - back) % RING];
		if (one->at + world->config.slice_ns < world->time.now)
			break;
		one->from = sl_min(one->from, now);
	}
}

/* The clock of a counter's node was another a moment ago. If it is ahead of that, what is held for fronts ends at once,
 * and they spend it yet. */
void judge_clock_changed(struct world *world, struct sim_node *node, struct sim_counter *counter, sluice_ns before) {
	const sluice_ns now = sim_node_now(node);
	struct slr_counter scratch;
	const struct slr_counter *there = find(node, counter, &scratch);
	uint64_t ended = 0;
	const struct slr_holds *holds = there == NULL ? NULL : slr_counter_holds(there);
	for (uint32_t h = 0; holds != NULL && h < holds->count; h++)
		if (holds->list[h].end > before && holds->list[h].end <= now + world->config.slice_ns)
			ended += holds->list[h].cost;
	if (ended != 0 && now > before + SIM_MS)
		judge_lost(world, counter, ended);
	if (now < before) {
		counter->set_back_at = world->time.now;
		settle_later(world, counter, now);
	}
	const uint64_t early = there == NULL || now >= before ? 0 : settled_before(world, counter, there, now);
	if (early != 0)
		judge_lost(world, counter, early);
	judge_clock_reopened(world, node, counter);
}

/* A front gives back what was confirmed for a request that does not pass. A refund takes the newest charge, which may
 * be another's: that one counts for as long as what was to be given back, which is older by what the request lasted. */
void judge_given_back(struct sim_node *node, const struct sluice_bytes *args, uint32_t count) {
	struct world *world = world_of(node);
	const sluice_ns lasted = 2 * world->config.budget_ns;
	for (uint32_t c = 0; c < world->counter_count; c++) {
		struct sim_counter *counter = &world->counters[c];
		bool named = false;
		for (uint32_t i = 1; i < count; i++)
			named = named || sl_bytes_equal(args[i], sl_str(counter->redis_key));
		if (!named || !counter->limit->windowed)
			continue;
		counter->given_back_at = world->time.now;
		counter->given_back_from = judge_clock(world, counter, NULL) - lasted;
		for (uint32_t back = 1; back <= counter->count && back <= RING; back++) {
			struct sim_admission *one = &counter->admissions[(counter->count - back) % RING];
			if (one->at + lasted < world->time.now)
				break;
			one->from = sl_min(one->from, counter->given_back_from);
		}
	}
}

static void look_at(struct world *world, struct sim_counter *counter) {
	struct sim_node *node = primary_of(world, counter->slot);
	const uint64_t charged = judge_used(node, counter, sim_node_now(node)), more = charged - counter->admitted;
	if (counter->admitted > charged + counter->lost)
		sim_fail(world, "account: %s %s: admitted %" PRIu64 ", charged %" PRIu64 ", lost %" PRIu64,
		         counter->limit->text, counter->key, counter->admitted, charged, counter->lost);
	if (!counter->sliced && charged > counter->admitted + counter->unknown)
		sim_fail(world, "account: %s %s: charged %" PRIu64 ", admitted %" PRIu64 ", unknown %" PRIu64,
		         counter->limit->text, counter->key, charged, counter->admitted, counter->unknown);
	if (counter->has_base && world->disturbed_at < world->looked_at &&
	    more - counter->base > counter->unknown - counter->base_unknown)
		sim_fail(world, "account: %s %s: %" PRId64 " charged beyond what was admitted, with nothing amiss",
		         counter->limit->text, counter->key, (int64_t)(more - counter->base));
	counter->base = more;
	counter->base_unknown = counter->unknown;
	counter->has_base = true;
}

void judge_accounts(struct world *world) {
	for (uint32_t c = 0; c < world->counter_count; c++)
		if (world->counters[c].limit->account)
			look_at(world, &world->counters[c]);
	world->looked_at = world->time.now;
}
