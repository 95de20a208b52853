/* Quotas of keys' own: who sets, deletes and asks for them at fronts, and what must hold of them.
 *
 * What is known of a counter's own quota is what its clients were told, as with any store: one that was set is in force
 * from the answer on, until its end by the node's clock. A change that nobody heard of may come as long as the outage
 * lasts: until then either quota may be in force, and what the node has afterwards is taken for true. What a promotion
 * loses, and what a primary is told that is none any more, is seen at the nodes, and counted.
 *
 * Figures. An answer's quota is one that may have been in force within LAG before it was asked for: so once faults are
 * over every front decides by a change a second after it was acknowledged, and by the policy's own after an end.
 * Bounds. What any window admits is judged (judge.c) by the largest that may have been in force in it, or LAG before.
 * Lists. When nobody asks, all pages of a list at some front have each quota that is in force once, with its name, text
 * and end, and no other. GET and what DEL deleted are judged always. */
#include "tests/sim/world.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/redis/own_quota.h"
#include "hosts/server/door/override_ask.h"
#include "hosts/server/door/pending.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 3, PAGES_MAX = 2000 };
#define GRACE_NS (15 * SIM_MS)
#define ROUND_NS (2 * SIM_MS) /* ends: the module's clock in whole ms, and the next 2^19 ns */

/* What was asked at a front, until it has answered. */
struct change {
	struct world *world;
	struct sim_front *front;
	uint64_t opened;
	sluice_ns sent, ttl, clock_least;
	struct sim_counter *counter; /* NULL: a list */
	uint32_t crossed, may, pages;
	uint8_t quota;
	bool whole; /* a list that goes on to its end */
};

/* ---- what may be in force ---------------------------------------------------------------------------------------- */

static bool clocks_differ(const struct world *world) {
	return world->config.apart_ms != 0 || world->config.drift != 0 || world->has_leapt;
}

/* What the clocks say of those nodes where the counter may be: where they differ, of all. */
static void clocks_of(struct world *world, struct sim_counter *counter, sluice_ns *least, sluice_ns *most) {
	*most = 0;
	*least = judge_clock(world, counter, most);
	for (uint32_t n = 0; n < world->node_count && clocks_differ(world); n++) {
		*least = sl_min(*least, sim_node_now(&world->nodes[n])); /* it may have been there, or may be asked there yet */
		*most = sl_max(*most, sim_node_now(&world->nodes[n]));
	}
}

static const struct slr_own *row_at(struct sim_node *node, const struct sim_counter *counter) {
	const struct sim_entry *entry = sim_node_entry(node, sl_str(counter->redis_key), false);
	return entry == NULL ? NULL : slr_own_find(entry->value, sl_identity_of(&counter->limit->limit));
}

/* Which of the limit's quotas a row is. */
static uint8_t quota_of(const struct sim_counter *counter, const struct slr_own *row) {
	for (uint8_t v = 1; v < SIM_OWNS; v++)
		if (sl_bytes_equal(slr_own_text(row), sl_str(counter->limit->own_texts[v])))
			return v;
	SL_ASSERT(!"a node has a quota that was never set");
	return 0;
}

/* While its slot moves, the key may be at the other node already. */
static const struct slr_own *row_of(struct world *world, const struct sim_counter *counter) {
	const struct slr_own *row = row_at(primary_of(world, counter->slot), counter);
	if (row == NULL && world->moving && world->move.slot == counter->slot)
		row = row_at(&world->nodes[world->move.to], counter);
	return row;
}

/* What its primary has is true; whose clock is in whole ms, so a quota is in force until the next begins. */
static void take_row(struct world *world, struct sim_counter *counter) {
	const struct slr_own *row = row_of(world, counter);
	struct sim_own *own = &counter->own;
	own->known = true;
	own->quota = row == NULL ? 0 : quota_of(counter, row);
	own->end_least = own->end_most = row == NULL ? SLUICE_NEVER : row->end;
	if (own->end_most != SLUICE_NEVER)
		own->end_most += SIM_MS;
}

/* Has a wall clock ended the key, which nobody has looked at since? Where it differs from that of the node that the key
 * was set at, it may end before its quota. */
static bool is_over(struct world *world, const struct sim_counter *counter) {
	struct sim_node *node = primary_of(world, counter->slot);
	const struct sim_entry *entry = sim_node_entry(node, sl_str(counter->redis_key), false);
	return clocks_differ(world) && entry != NULL && sim_node_is_over(node, entry);
}

static uint32_t may_be(struct world *world, struct sim_counter *counter) {
	struct sim_own *own = &counter->own;
	sluice_ns least, most;
	uint32_t may = own->busy ? 1u << own->next : 0;
	if (!own->known && !own->busy && world->time.now > own->doubt_until)
		take_row(world, counter);
	if (!own->known)
		return may | own->ever | 1;
	if (own->quota == 0)
		return may | 1;
	clocks_of(world, counter, &least, &most);
	may |= least <= own->end_most ? 1u << own->quota : 0;
	return may | (most >= own->end_least || is_over(world, counter) ? 1 : 0);
}

/* Before and after what is known changes. */
static void note(struct world *world, struct sim_counter *counter) {
	struct sim_own *own = &counter->own;
	const uint32_t may = may_be(world, counter);
	const sluice_ns now = world->time.now;
	sluice_ns least, most;
	for (uint8_t v = 0; v < SIM_OWNS; v++)
		if (may >> v & 1)
			own->last[v] = now;
	if (!own->known || own->quota == 0 || may >> own->quota & 1)
		return;
	clocks_of(world, counter, &least, &most);
	most = least - own->end_most; /* it has ended so long ago */
	own->last[own->quota] = sl_max(own->last[own->quota], now - sl_min(now, most));
}

uint32_t overrides_since(struct world *world, struct sim_counter *counter, sluice_ns since) {
	struct sim_own *own = &counter->own;
	note(world, counter);
	uint32_t may = since <= world->outage_until ? own->ever | 1u : 0;
	for (uint8_t v = 0; v < SIM_OWNS; v++)
		may |= own->last[v] >= since ? 1u << v : 0;
	return may;
}

static sluice_ns before(sluice_ns instant, sluice_ns by) {
	return instant - sl_min(instant, by);
}

static sluice_ns lag_of(const struct world *world) {
	return SIM_S + world->config.budget_ns + GRACE_NS;
}

bool overrides_fit(struct world *world, struct sim_counter *counter, sluice_ns sent, uint64_t quota,
                   sluice_operation operation) {
	uint32_t may = overrides_since(world, counter, before(sent, lag_of(world)));
	if (operation == SLUICE_REFUND && (may >> (SIM_OWNS - 1) & 1) != 0)
		may |= 1; /* what was charged before a key is unlimited is given back as if it were not */
	world->totals.own_judged += counter->own.ever != 0;
	for (uint8_t v = 0; v < SIM_OWNS; v++)
		if (may >> v & 1 && counter->limit->owns[v].derived[SL_CAPACITY] == quota)
			return true;
	return false;
}

uint64_t overrides_bound(struct world *world, struct sim_counter *counter, sluice_ns begin) {
	const uint32_t may = overrides_since(world, counter, before(begin, lag_of(world)));
	uint64_t bound = 0;
	for (uint8_t v = 0; v < SIM_OWNS; v++)
		bound = may >> v & 1 ? sl_max(bound, counter->limit->bounds[v]) : bound;
	return bound;
}

/* ---- what befalls them ------------------------------------------------------------------------------------------- */

void overrides_promoted(struct world *world, struct sim_counter *counter, bool has_all) {
	struct sim_own *own = &counter->own;
	const struct sim_own were = *own;
	own->crossed += !has_all;
	if (!own->known)
		return;
	note(world, counter);
	take_row(world, counter);
	const bool same = own->quota == were.quota && (own->quota == 0 || (own->end_most >= were.end_least &&
	                                                                   own->end_least <= were.end_most));
	if (same || (own->busy && own->quota == own->next)) /* a change is under way, and has arrived */
		return;
	own->ever |= 1u << own->quota;
	note(world, counter);
	sluice_ns least, most;
	clocks_of(world, counter, &least, &most);
	if (were.quota != 0 && own->quota == 0 && most >= were.end_least)
		return; /* it had ended, and nobody needs to keep it */
	if (were.quota == 0 && own->end_least <= least)
		return; /* it had ended, and was kept */
	world->totals.own_lost++;
	if (has_all && !(own->quota == 0 && clocks_differ(world))) /* else a wall clock may have ended it there */
		sim_fail(world, "override: %s %s has another after it went to another node, which was told all",
		         counter->limit->text, counter->key);
}

void overrides_expired(struct world *world, struct sim_node *node, struct sim_counter *counter, bool may_be_early) {
	const struct slr_own *row = row_at(node, counter);
	if (row == NULL)
		return;
	const bool has_ended = row->end <= sim_node_now(node);
	if (!has_ended && !may_be_early)
		sim_fail(world, "override: %s %s expires at node %u with its own quota in force", counter->limit->text,
		         counter->key, node->number);
	if (shards_is_stale(world, node, counter))
		return;
	note(world, counter);
	if (counter->own.known && !has_ended) {
		world->totals.own_lost++;
		counter->own.quota = 0;
		counter->own.end_least = counter->own.end_most = SLUICE_NEVER;
	}
	counter->own.crossed += !has_ended;
	note(world, counter);
}

uint64_t overrides_print(struct sim_node *node, const struct sim_counter *counter) {
	const struct slr_own *row = row_at(node, counter);
	return row == NULL ? 0 : row->end * SIM_OWNS + quota_of(counter, row);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void take_change(struct world *world, const struct change *change) {
	struct sim_counter *counter = change->counter;
	struct sim_own *own = &counter->own;
	sluice_ns least, most;
	note(world, counter);
	own->busy = false;
	clocks_of(world, counter, &least, &most);
	own->known = change->crossed == own->crossed && world->time.now > own->doubt_until;
	own->quota = change->quota;
	own->changed_at = world->time.now;
	own->end_least = own->end_most = SLUICE_NEVER;
	if (change->ttl != 0) {
		own->end_least = sl_min(least, change->clock_least) + change->ttl - ROUND_NS;
		own->end_most = most + change->ttl + ROUND_NS;
	}
	note(world, counter);
}

/* It may come yet, or have come. */
static void doubt_change(struct world *world, const struct change *change) {
	struct sim_own *own = &change->counter->own;
	note(world, change->counter);
	own->busy = own->known = false;
	own->doubt_until = sl_max(own->doubt_until, sl_max(world->outage_until, world->time.now + SIM_S));
}

static void judge_got(struct world *world, const struct change *change, const struct sl_override_ask *ask) {
	struct sim_counter *counter = change->counter;
	const uint32_t may = overrides_since(world, counter, change->sent) | change->may;
	char text[SLUICE_LIMIT_TEXT_MAX] = "none";
	bool fits = ask->err == SLUICE_E_NONE && (may & 1) != 0;
	if (ask->err == SLUICE_OK)
		sluice_limit_print(&ask->found.limit, text);
	for (uint8_t v = 1; v < SIM_OWNS && ask->err == SLUICE_OK; v++)
		fits = fits || (may >> v & 1 && strcmp(text, counter->limit->own_texts[v]) == 0);
	if (!fits)
		sim_fail(world, "override: GET of %s %s is told %s, and what was set may be (bits) %x", counter->limit->text,
		         counter->key, text, may);
}

static bool may_have_ended(struct world *world, struct sim_counter *counter) {
	sluice_ns least, most;
	clocks_of(world, counter, &least, &most);
	return counter->own.known && most >= counter->own.end_least;
}

/* What may have been in force when it was sent; it may also have ended on the way, or its key, by a wall clock. */
static void judge_deleted(struct world *world, const struct change *change, const struct sl_override_ask *ask) {
	const bool gone = may_have_ended(world, change->counter) || change->crossed != change->counter->own.crossed;
	const uint32_t may = change->may | (gone ? 1u : 0) |
	                     (change->sent <= world->outage_until ? change->counter->own.ever | 1u : 0);
	if (ask->gone > 1 || (ask->gone == 1 && (may & ~1u) == 0) || (ask->gone == 0 && (may & 1) == 0))
		sim_fail(world, "override: DEL of %s %s has deleted %u, and what was set may be (bits) %x",
		         change->counter->limit->text, change->counter->key, ask->gone, may);
}

/* What a page tells was so since then. A front that has not heard of a switch asks the former primary, which is a
 * replica now, and tells what it was told last. */
static sluice_ns list_since(const struct world *world, const struct change *change) {
	return world->replica_listed_at >= change->sent ? before(change->sent, lag_of(world)) : change->sent;
}

static struct sim_counter *counter_named(struct world *world, struct sluice_bytes key) {
	for (uint32_t c = 0; c < world->counter_count; c++)
		if (sl_bytes_equal(sl_str(world->counters[c].key), key))
			return &world->counters[c];
	return NULL;
}

static void judge_listed(struct world *world, const struct change *change, const struct sl_override_listed *one) {
	struct sim_counter *counter = counter_named(world, one->key);
	sluice_ns least, most;
	if (counter == NULL || !sl_bytes_equal(one->name, sl_str(counter->limit->name))) {
		sim_fail(world, "override: LIST tells of %.*s, which nobody set", (int)one->key.len,
		         (const char *)one->key.data);
		return;
	}
	const sluice_ns since = list_since(world, change);
	const uint32_t may = overrides_since(world, counter, since);
	uint8_t v = SIM_OWNS - 1;
	while (v != 0 && !((may >> v & 1) != 0 && sl_bytes_equal(one->limit, sl_str(counter->limit->own_texts[v]))))
		v--;
	if (v == 0)
		sim_fail(world, "override: LIST tells of %.*s for %s, and what was set may be (bits) %x", (int)one->limit.len,
		         (const char *)one->limit.data, counter->key, may);
	counter->own.seen++;
	clocks_of(world, counter, &least, &most);
	if (!counter->own.known || counter->own.busy || counter->own.quota != v || change->sent <= world->outage_until ||
	    counter->own.changed_at >= since) /* its node may have listed it before that */
		return;
	const sluice_ns left = one->ms_left < 0 ? SLUICE_NEVER : (sluice_ns)one->ms_left * SIM_MS;
	const bool ends = counter->own.end_most != SLUICE_NEVER;
	if (ends != (left != SLUICE_NEVER) ||
	    (ends && (least + left > counter->own.end_most + world->config.budget_ns + GRACE_NS + ROUND_NS ||
	              most + left + ROUND_NS < counter->own.end_least)))
		sim_fail(world, "override: LIST tells that %s has %" PRId64 " ms left, by the clock %" PRIu64 " to %" PRIu64,
		         counter->key, one->ms_left, counter->own.end_least, counter->own.end_most);
}

/* A replica that was taken for the primary yet hides a key that has ended by its wall's clock, which may be ahead. */
static bool may_hide(const struct world *world, const struct change *change, const struct sim_counter *counter) {
	return world->replica_listed_at >= change->sent && clocks_differ(world) && counter->own.end_most != SLUICE_NEVER;
}

/* All pages have come: nothing is left out. */
static void judge_whole(struct world *world, const struct change *change) {
	for (uint32_t c = 0; c < world->counter_count; c++) {
		struct sim_counter *counter = &world->counters[c];
		const uint32_t may = overrides_since(world, counter, change->sent);
		if (counter->own.seen > 1 || (counter->own.seen == 1 && (may & ~1u) == 0) ||
		    (counter->own.seen == 0 && (may & 1) == 0 && !may_hide(world, change, counter)))
			sim_fail(world, "override: all of LIST tells %u times of %s, and what was set may be (bits) %x",
			         counter->own.seen, counter->key, may);
		world->totals.own_listed += counter->own.seen;
	}
}

static void judge_change(const struct change *change, const struct sl_override_ask *ask) {
	struct world *world = change->world;
	if (world->time.now > sl_max(change->sent, world->stalled_until[change->front->number]) +
	                          world->config.budget_ns / 4 * 5 + GRACE_NS)
		sim_fail(world, "override: an answer of front %u took %" PRIu64 " us", change->front->number,
		         (world->time.now - change->sent) / 1000);
	if (ask->err == SLUICE_E_AWAY) {
		if (change->sent > world->outage_until)
			sim_fail(world, "override: no answer (kind %d), and no node is away", (int)ask->kind);
		if (ask->kind == SL_OVERRIDE_SET || ask->kind == SL_OVERRIDE_DELETE)
			doubt_change(world, change);
		return;
	}
	if (ask->err != SLUICE_OK && !(ask->err == SLUICE_E_NONE && ask->kind == SL_OVERRIDE_GET)) {
		sim_fail(world, "override: kind %d ends with %d: %s", (int)ask->kind, (int)ask->err, ask->error.text);
		return;
	}
	if (ask->kind == SL_OVERRIDE_GET)
		judge_got(world, change, ask);
	for (size_t i = 0; ask->kind == SL_OVERRIDE_LIST && i < ask->list.count; i++)
		judge_listed(world, change, &ask->list.list[i]);
	if (ask->kind == SL_OVERRIDE_DELETE)
		judge_deleted(world, change, ask);
	if (ask->kind == SL_OVERRIDE_SET || ask->kind == SL_OVERRIDE_DELETE)
		take_change(world, change);
	world->totals.own_asked[ask->kind]++;
}

static void send_ask(const struct change *as, const struct sl_override_ask *asked);

static void go_on(const struct change *change, const struct sl_override_ask *ask) {
	struct sl_override_ask next = {.kind = SL_OVERRIDE_LIST, .from = ask->list.next, .most = PAGE};
	struct change again = *change;
	if (ask->err != SLUICE_OK)
		return;
	if (ask->list.next == 0)
		judge_whole(change->world, change);
	else if (++again.pages > PAGES_MAX)
		sim_fail(change->world, "override: LIST does not end");
	else
		send_ask(&again, &next);
}

static void settle(struct change *change, const struct sl_override_ask *ask) {
	const bool heard = change->front->opened == change->opened && !change->front->closing;
	if (heard)
		judge_change(change, ask);
	else if (ask->kind == SL_OVERRIDE_SET || ask->kind == SL_OVERRIDE_DELETE)
		doubt_change(change->world, change);
	if (heard && change->whole && !change->world->failed)
		go_on(change, ask);
	free(change);
}

static void on_told(struct sl_pending *pending, void *to) {
	struct change *change = to;
	change->front->under_way--;
	settle(change, pending->override);
	sl_override_ask_free(pending->override);
	free(pending);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void send_ask(const struct change *as, const struct sl_override_ask *asked) {
	struct sim_front *front = as->front;
	struct sl_pending *pending = calloc(1, sizeof *pending + sizeof pending->calls[0]);
	struct change *change = malloc(sizeof *change);
	SL_ASSERT(pending != NULL && change != NULL);
	*change = *as;
	change->opened = front->opened;
	change->sent = as->pages == 0 ? as->world->time.now : as->sent;
	pending->ready = on_told;
	pending->to = change;
	pending->sent_at = sim_clock_read(&front->host->clock, as->world->time.now);
	pending->call_count = 1;
	pending->override = sl_override_ask_new(asked);
	SL_ASSERT(pending->override != NULL);
	struct sl_remote *remote = sl_fleet_remote(front->fleet);
	if (remote->send(remote, pending)) {
		front->under_way++;
		on_told(pending, change);
	} else {
		front->under_way++;
		sim_host_turn_end(front->host);
	}
}

/* A quota other than the policy's; for a while, or until it is deleted. */
static void draw_set(struct world *world, struct change *change, struct sl_override_ask *ask) {
	struct dice *dice = &world->own_dice;
	change->quota = (uint8_t)(1 + dice_below(dice, SIM_OWNS - 1));
	if (dice_one_in(dice, 2))
		change->ttl = sim_between(dice, 50, dice_one_in(dice, 2) ? 8000 : 1000) * SIM_MS;
	ask->own = change->counter->limit->owns[change->quota];
	ask->ttl_ms = change->ttl / SIM_MS;
}

static void begin_change(struct change *change) {
	struct world *world = change->world;
	struct sim_own *own = &change->counter->own;
	sluice_ns most;
	change->crossed = own->crossed;
	clocks_of(world, change->counter, &change->clock_least, &most);
	note(world, change->counter);
	own->busy = true;
	own->next = change->quota;
	own->ever |= 1u << change->quota;
	note(world, change->counter);
}

static void ask(struct world *world, struct sim_front *front) {
	struct dice *dice = &world->own_dice;
	const uint64_t kind = dice_below(dice, 10);
	struct change change = {.world = world, .front = front};
	struct sl_override_ask asked = {.kind = kind < 5   ? SL_OVERRIDE_SET
	                                        : kind < 7 ? SL_OVERRIDE_DELETE
	                                        : kind < 9 ? SL_OVERRIDE_GET
	                                                   : SL_OVERRIDE_LIST};
	const uint32_t limit = (uint32_t)dice_below(dice, 1 + dice_below(dice, world->limit_count));
	if (asked.kind == SL_OVERRIDE_LIST) {
		asked.most = 1 + (uint32_t)dice_below(dice, 8);
		send_ask(&change, &asked);
		return;
	}
	do
		change.counter = &world->counters[dice_below(dice, world->counter_count)];
	while (change.counter->limit != &world->limits[limit]);
	asked.limits = &change.counter->limit->limit;
	asked.count = 1;
	asked.name = change.counter->limit->name;
	asked.key = sl_str(change.counter->key);
	if (asked.kind != SL_OVERRIDE_GET && change.counter->own.busy)
		return; /* one at a time: nobody knows in which order two come */
	if (asked.kind == SL_OVERRIDE_SET)
		draw_set(world, &change, &asked);
	change.may = overrides_since(world, change.counter, world->time.now);
	if (asked.kind != SL_OVERRIDE_GET)
		begin_change(&change);
	send_ask(&change, &asked);
}

static bool is_there(const struct world *world, const struct sim_front *front) {
	return front->fleet != NULL && !front->closing && front->host->paused_until <= world->time.now;
}

static void on_ask(void *to, uint64_t tag) {
	struct world *world = to;
	struct dice *dice = &world->own_dice;
	struct sim_front *front = &world->fronts[dice_below(dice, world->config.fronts)];
	(void)tag;
	if (world->traffic && is_there(world, front))
		ask(world, front);
	sim_plan(&world->time, world->time.now + sim_between(dice, 1, 2 * world->config.overrides) * SIM_MS, on_ask, world,
	         0);
}

void overrides_begin(struct world *world) {
	world->own_dice = dice_of(world->seed, 7);
	if (world->config.overrides != 0)
		sim_plan(&world->time, SIM_S, on_ask, world, 0);
}

void overrides_list(struct world *world) {
	struct change change = {.world = world, .front = &world->fronts[0], .whole = true};
	const struct sl_override_ask asked = {.kind = SL_OVERRIDE_LIST, .most = PAGE};
	for (uint32_t f = 1; f < world->config.fronts && !is_there(world, change.front); f++)
		change.front = &world->fronts[f];
	if (world->config.overrides == 0 || !is_there(world, change.front))
		return;
	for (uint32_t c = 0; c < world->counter_count; c++) {
		struct sim_own *own = &world->counters[c].own;
		own->seen = 0;
		if (!clocks_differ(world)) /* else what has ended may be in force again, by a clock that is behind (fleet.md) */
			own->ever = (uint8_t)may_be(world, &world->counters[c]);
	}
	send_ask(&change, &asked);
}
