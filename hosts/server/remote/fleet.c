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
#include "hosts/server/remote/sending.h"
#include "hosts/server/remote/start.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { RETURN_MS = 200, TICK_MS_MAX = 10 };
#define STALL_NS ((sluice_ns)3000000)

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void tick(uv_timer_t *timer);

static void slice_answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_quota_slice *slice = group->owner;
	struct sl_fleet *fleet = ask->owner;
	if (answer->kind == SL_ANSWER_ERROR) {
		sl_count(&fleet->figures->cluster.refused, 1);
		sl_fleet_refused(fleet, answer->error);
	}
	sl_quota_slice_answered(slice, answer, sl_clock_monotonic());
	if (fleet->closing && sl_quota_slices_under_way(fleet->slices) == 0)
		uv_timer_start(&fleet->timer, tick, 0, 0); /* not from within the nodes */
}

static bool send_slice(void *to, struct sl_quota_slice *slice) {
	struct sl_fleet *fleet = to;
	struct sl_node_ask *ask = &slice->command->ask;
	ask->owner = fleet;
	ask->answered = slice_answered;
	ask->deadline = sl_clock_monotonic() + fleet->budget_ns;
	return sl_fleet_ask(fleet, slice->command);
}

static void close_nodes(struct sl_fleet *fleet);

static void tick(uv_timer_t *timer) {
	struct sl_fleet *fleet = timer->data;
	sluice_ns now = sl_clock_monotonic(), due;
	if (fleet->closing) {
		close_nodes(fleet);
		return;
	}
	due = sl_quota_slices_tick(fleet->slices, now);
	if (due != SLUICE_NEVER) {
		uint64_t ms = due > now ? (due - now) / SL_MS_NS : 0;
		uv_timer_start(timer, tick, ms < 1 ? 1 : ms < TICK_MS_MAX ? ms : TICK_MS_MAX, 0);
	}
}

static void lanes_tick(uv_timer_t *timer) {
	struct sl_fleet *fleet = timer->data;
	sluice_ns now = sl_clock_monotonic(), due = now;
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
	    !uv_is_active((uv_handle_t *)&fleet->timer))
		uv_timer_start(&fleet->timer, tick, 1, 0);
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
	if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
		return false;
	memcpy(fleet->secret, random, sizeof fleet->secret);
	fleet->ids = random[2];
	slices.seed = random[3];
	fleet->prefix = strdup(settings->prefix == NULL ? "" : settings->prefix);
	fleet->denials = sl_denial_cache_new();
	fleet->lanes = sl_lanes_new(fleet, &sl_remote_call_lanes);
	fleet->lanes_due = SLUICE_NEVER;
	fleet->hold_id = sl_fleet_id(fleet);
	if (fleet->prefix == NULL || fleet->denials == NULL || fleet->lanes == NULL)
		return false;
	slices.prefix = fleet->prefix;
	if (settings->slices)
		fleet->slices = sl_quota_slices_new(&slices);
	return !settings->slices || fleet->slices != NULL;
}

static void free_parts(struct sl_fleet *fleet) {
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
	made->lanes_tick = lanes_tick;
	made->budget_ns = options->settings->budget_ns;
	if (!make_parts(made, options->settings) || !open_nodes(made, options, error)) {
		free_parts(made);
		return false;
	}
	SL_ASSERT(uv_timer_init(made->loop, &made->timer) == 0);
	made->timer.data = made;
	SL_ASSERT(uv_timer_init(made->loop, &made->lane_timer) == 0);
	made->lane_timer.data = made;
	*fleet = made;
	return true;
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

static void timer_closed(uv_handle_t *handle) {
	struct sl_fleet *fleet = handle->data;
	void (*closed)(void *to) = fleet->closed;
	void *to = fleet->closed_to;
	free_parts(fleet);
	if (closed != NULL)
		closed(to);
}

static void lane_timer_closed(uv_handle_t *handle) {
	struct sl_fleet *fleet = handle->data;
	uv_close((uv_handle_t *)&fleet->timer, timer_closed);
}

static void nodes_closed(void *to) {
	struct sl_fleet *fleet = to;
	sl_lanes_abandon(fleet->lanes);
	sl_call_batches_finish(fleet);
	uv_close((uv_handle_t *)&fleet->lane_timer, lane_timer_closed);
}

static void close_nodes(struct sl_fleet *fleet) {
	if (fleet->nodes_closing)
		return;
	fleet->nodes_closing = true;
	uv_timer_stop(&fleet->timer);
	uv_timer_stop(&fleet->lane_timer);
	sl_nodes_close(fleet->nodes, nodes_closed, fleet);
}

void sl_fleet_close(struct sl_fleet *fleet, void (*closed)(void *to), void *to) {
	if (fleet->closing)
		return;
	fleet->closing = true;
	fleet->closed = closed;
	fleet->closed_to = to;
	if (fleet->slices != NULL && sl_quota_slices_end(fleet->slices, sl_clock_monotonic()) != 0)
		uv_timer_start(&fleet->timer, tick, RETURN_MS, 0);
	else
		close_nodes(fleet);
}
