/* The fleet of one worker: opened and closed here; what a call goes through is in remote_call.h.
 *
 * Closing: slices are settled first, which takes a round trip, at most RETURN_MS; then the nodes are closed, which
 * ends all that is still pending; then memory goes. */
#include "hosts/server/remote/fleet.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/look.h"
#include "hosts/server/remote/remote_override.h"
#include "hosts/server/remote/sending.h"
#include "hosts/server/remote/start.h"

#include <stdio.h>
#include <stdlib.h>

enum { RETURN_MS = 200, TICK_MS_MAX = 10 };
#define STALL_NS ((sluice_ns)3000000)

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void slice_answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_quota_slice *slice = group->owner;
	struct sl_fleet *fleet = ask->owner;
	if (answer->kind == SL_ANSWER_ERROR) {
		sl_count(&fleet->figures->cluster.refused, 1);
		sl_fleet_refused(fleet, answer->error);
	}
	sl_quota_slice_answered(slice, answer, sl_loop_now(fleet->loop));
	if (fleet->closing && sl_quota_slices_under_way(fleet->slices) == 0)
		sl_timer_set(fleet->timer, 0); /* not from within the nodes */
}

static bool send_slice(void *to, struct sl_quota_slice *slice) {
	struct sl_fleet *fleet = to;
	struct sl_node_ask *ask = &slice->command->ask;
	ask->owner = fleet;
	ask->answered = slice_answered;
	ask->at_once = true;
	ask->deadline = sl_loop_now(fleet->loop) + fleet->budget_ns;
	return sl_fleet_ask(fleet, slice->command);
}

static void close_nodes(struct sl_fleet *fleet);

static void tick(void *to) {
	struct sl_fleet *fleet = to;
	sluice_ns now = sl_loop_now(fleet->loop), due;
	if (fleet->closing) {
		close_nodes(fleet);
		return;
	}
	due = sl_quota_slices_tick(fleet->slices, now);
	if (due != SLUICE_NEVER) {
		uint64_t ms = due > now ? (due - now) / SL_MS_NS : 0;
		sl_timer_set(fleet->timer, ms < 1 ? 1 : ms < TICK_MS_MAX ? ms : TICK_MS_MAX);
	}
}

static void lanes_tick(void *to) {
	struct sl_fleet *fleet = to;
	sluice_ns now = sl_loop_now(fleet->loop), due = now;
	fleet->stalled = !fleet->stalled && now > sl_max(fleet->lanes_due, fleet->lanes_set) + STALL_NS;
	fleet->lanes_due = SLUICE_NEVER;
	if (!fleet->stalled) { /* else it is this worker that was late, and answers lie there that are to be read first */
		sl_call_batches_finish(fleet);
		due = sl_lanes_tick(fleet->lanes, now);
	}
	sl_fleet_wake(fleet, due);
}

static bool on_send(struct sl_remote *remote, struct sl_pending *pending) {
	struct sl_fleet *fleet = (struct sl_fleet *)(void *)((char *)remote - offsetof(struct sl_fleet, remote));
	if (pending->inspected != NULL)
		return sl_fleet_look(fleet, pending);
	if (pending->override != NULL)
		return sl_fleet_override(fleet, pending);
	struct sl_call_batch *batch = fleet->closing ? NULL : sl_call_batch_new(fleet, pending);
	bool decided;
	if (batch == NULL) {
		for (uint32_t c = 0; c < pending->call_count; c++)
			pending->calls[c].call.err = SLUICE_E_AWAY;
		return true;
	}
	fleet->sending = true;
	decided = sl_call_batch_start(batch);
	fleet->sending = false;
	if (fleet->slices != NULL && sl_quota_slices_count(fleet->slices) != 0 &&
	    !sl_timer_is_set(fleet->timer))
		sl_timer_set(fleet->timer, 1);
	return decided;
}

struct sl_remote *sl_fleet_remote(struct sl_fleet *fleet) {
	return &fleet->remote;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool make_parts(struct sl_fleet *fleet, const struct sl_redis_settings *settings) {
	struct sl_quota_slices_options slices = {
		.slice_ns = settings->slice_ns, .send = send_slice, .to = fleet, .figures = fleet->figures};
	uint64_t random[4];
	if (!sl_loop_random(fleet->loop, random, sizeof random))
		return false;
	memcpy(fleet->secret, random, sizeof fleet->secret);
	fleet->ids = random[2];
	slices.seed = random[3];
	fleet->prefix = strdup(settings->prefix == NULL ? "" : settings->prefix);
	fleet->denials = sl_denial_cache_new();
	fleet->lanes = sl_lanes_new(fleet, &sl_remote_call_lanes);
	fleet->lanes_due = SLUICE_NEVER;
	fleet->hold_id = sl_fleet_id(fleet);
	fleet->timer = sl_timer_new(fleet->loop, SL_TIMER_AFTER, tick, fleet);
	fleet->lane_timer = sl_timer_new(fleet->loop, SL_TIMER_AFTER, lanes_tick, fleet);
	if (fleet->prefix == NULL || fleet->denials == NULL || fleet->lanes == NULL || fleet->timer == NULL ||
	    fleet->lane_timer == NULL)
		return false;
	slices.prefix = fleet->prefix;
	if (settings->slices)
		fleet->slices = sl_quota_slices_new(&slices);
	return !settings->slices || fleet->slices != NULL;
}

static void free_parts(struct sl_fleet *fleet) {
	if (fleet->timer != NULL) /* those of one that was never open */
		sl_timer_free(fleet->timer, NULL);
	if (fleet->lane_timer != NULL)
		sl_timer_free(fleet->lane_timer, NULL);
	sl_quota_slices_free(fleet->slices);
	sl_denial_cache_free(fleet->denials);
	sl_lanes_free(fleet->lanes);
	free(fleet->prefix);
	free(fleet);
}

static bool open_nodes(struct sl_fleet *fleet, const struct sl_fleet_options *options, struct sluice_error *error) {
	static const enum sl_node_via ways[] = {
		[SL_VIA_AUTO] = SL_BY_EITHER, [SL_VIA_MODULE] = SL_BY_MODULE, [SL_VIA_SCRIPT] = SL_BY_SCRIPT};
	const struct sl_redis_settings *settings = options->settings;
	const struct sl_tls_files files = {settings->tls_certificate, settings->tls_key, settings->tls_ca};
	const struct sl_nodes_options nodes = {.addresses = settings->addresses,
	                                       .address_count = settings->address_count,
	                                       .via = ways[settings->via],
	                                       .budget_ns = settings->budget_ns,
	                                       .user = settings->user,
	                                       .password = options->password,
	                                       .tls = settings->tls ? &files : NULL,
	                                       .loop = options->loop,
	                                       .figures = &options->figures->cluster,
	                                       .say = options->say};
	return sl_nodes_open(&fleet->nodes, &nodes, error);
}

bool sl_fleet_open(struct sl_fleet **fleet, const struct sl_fleet_options *options, struct sluice_error *error) {
	struct sl_fleet *made = calloc(1, sizeof *made);
	snprintf(error->text, sizeof error->text, "out of memory");
	if (made == NULL)
		return false;
	made->remote.send = on_send;
	made->store = options->store;
	made->figures = options->figures;
	made->say = options->say;
	made->loop = options->loop;
	made->budget_ns = options->settings->budget_ns;
	if (!make_parts(made, options->settings) || !open_nodes(made, options, error)) {
		free_parts(made);
		return false;
	}
	*fleet = made;
	return true;
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static void timer_gone(void *of) {
	struct sl_fleet *fleet = of;
	void (*closed)(void *to) = fleet->closed;
	void *to = fleet->closed_to;
	fleet->timer = NULL;
	free_parts(fleet);
	if (closed != NULL)
		closed(to);
}

static void lane_timer_gone(void *of) {
	struct sl_fleet *fleet = of;
	fleet->lane_timer = NULL;
	sl_timer_free(fleet->timer, timer_gone);
}

static void nodes_closed(void *to) {
	struct sl_fleet *fleet = to;
	sl_lanes_abandon(fleet->lanes);
	sl_call_batches_finish(fleet);
	sl_timer_free(fleet->lane_timer, lane_timer_gone);
}

static void close_nodes(struct sl_fleet *fleet) {
	if (fleet->nodes_closing)
		return;
	fleet->nodes_closing = true;
	sl_timer_stop(fleet->timer);
	sl_timer_stop(fleet->lane_timer);
	sl_nodes_close(fleet->nodes, nodes_closed, fleet);
}

void sl_fleet_close(struct sl_fleet *fleet, void (*closed)(void *to), void *to) {
	if (fleet->closing)
		return;
	fleet->closing = true;
	fleet->closed = closed;
	fleet->closed_to = to;
	if (fleet->slices != NULL && sl_quota_slices_end(fleet->slices, sl_loop_now(fleet->loop)) != 0)
		sl_timer_set(fleet->timer, RETURN_MS);
	else
		close_nodes(fleet);
}
