/* The fleet of one worker: opened and closed here; what a flight goes through is in trip.c.
 *
 * Closing: leases are settled first, which takes a round trip, at most RETURN_MS; then the nodes are closed, which
 * lands all that still flies; then memory goes. */
#include "hosts/server/fleet/fleet.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/math.h"
#include "base/out.h"
#include "base/siphash.h"
#include "hosts/server/fleet/trip.h"
#include "os/clock.h"

#include <stdlib.h>

enum { RETURN_MS = 200, TICK_MS_MAX = 10, LINE_BYTES_MAX = 400, QUOTED_MAX = 160 };
#define SAY_EVERY_NS ((sluice_ns)5000000000)
#define STALL_NS ((sluice_ns)3000000)

/* ---- the log ----------------------------------------------------------------------------------------------------- */

/* What to do about an error of a node, by how it begins. */
static const char *advice_for(struct sluice_bytes error) {
	static const struct {
		const char *begins, *advice;
	} advice[] = {
		{"OOM", "give the node more memory (maxmemory) or let it evict (maxmemory-policy)"},
		{"WRONGTYPE", "a key of ours holds something else: give the store a prefix that nobody else uses"},
		{"NOPERM", "let the user run the commands on these keys: ACL SETUSER name +@all ~prefix*"},
		{"NOAUTH", "write user and password-file under store"},
		{"ERR UPTO is no word", "a node's module is older than this front: nodes are upgraded first"},
		{"ERR unknown command", "load sluice-module.so on every node, or write via: script"},
		{"READONLY", "a replica was asked: name the primary, or wait for the failover to end"},
		{"MISCONF", "the node can't save to disk and refuses writes: see its log"},
		{"CROSSSLOT", "the node became part of a cluster: passes by itself"},
	};
	for (size_t i = 0; i < sizeof advice / sizeof advice[0]; i++) {
		size_t len = strlen(advice[i].begins);
		if (error.len >= len && memcmp(error.data, advice[i].begins, len) == 0)
			return advice[i].advice;
	}
	return "on-error decides what requests get meanwhile";
}

void sl_fleet_refused(struct sl_fleet *fleet, struct sluice_bytes error) {
	char line[LINE_BYTES_MAX];
	struct sl_out out = sl_out_to(line, sizeof line - 1);
	sluice_ns now = sl_clock_monotonic();
	if (fleet->say == NULL)
		return;
	if (fleet->said_at != 0 && now - fleet->said_at < SAY_EVERY_NS) {
		fleet->unsaid++;
		return;
	}
	sl_out_str(&out, "redis: a command was refused: ");
	sl_out_quoted(&out, error, QUOTED_MAX);
	sl_out_str(&out, "; ");
	sl_out_str(&out, advice_for(error));
	if (fleet->unsaid != 0) {
		sl_out_str(&out, " (and ");
		sl_out_u64(&out, fleet->unsaid);
		sl_out_str(&out, " more before)");
	}
	*out.at = '\0';
	fleet->said_at = now;
	fleet->unsaid = 0;
	fleet->say(line);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

uint64_t sl_fleet_id(struct sl_fleet *fleet) {
	const uint64_t word = fleet->ids++;
	return sl_siphash(fleet->secret, &word, 1, sl_str("hold"), 2, 4);
}

bool sl_fleet_ask(struct sl_fleet *fleet, struct sl_group *group) {
	return !fleet->nodes_closing && sl_nodes_ask(fleet->nodes, &group->ask);
}

static void tick(uv_timer_t *timer);

static void lease_answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_lease *lease = group->owner;
	struct sl_fleet *fleet = ask->owner;
	if (answer->kind == SL_ANSWER_ERROR) {
		sl_count(&fleet->figures->refused, 1);
		sl_fleet_refused(fleet, answer->error);
	}
	sl_lease_answered(lease, answer, sl_clock_monotonic());
	if (fleet->closing && sl_leases_under_way(fleet->leases) == 0)
		uv_timer_start(&fleet->timer, tick, 0, 0); /* not from within the nodes */
}

static bool send_lease(void *to, struct sl_lease *lease) {
	struct sl_fleet *fleet = to;
	struct sl_node_ask *ask = &lease->command->ask;
	ask->owner = fleet;
	ask->answered = lease_answered;
	ask->deadline = sl_clock_monotonic() + fleet->budget_ns;
	return sl_fleet_ask(fleet, lease->command);
}

static void close_nodes(struct sl_fleet *fleet);

static void tick(uv_timer_t *timer) {
	struct sl_fleet *fleet = timer->data;
	sluice_ns now = sl_clock_monotonic(), due;
	if (fleet->closing) {
		close_nodes(fleet);
		return;
	}
	due = sl_leases_tick(fleet->leases, now);
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
		sl_journeys_land(fleet);
		due = sl_lanes_tick(fleet->lanes, now);
	}
	sl_fleet_wake(fleet, due);
}

void sl_fleet_wake(struct sl_fleet *fleet, sluice_ns due) {
	sluice_ns now;
	if (due >= fleet->lanes_due || fleet->nodes_closing)
		return;
	now = sl_clock_monotonic();
	fleet->lanes_due = due;
	fleet->lanes_set = now;
	uv_update_time(fleet->loop);
	uv_timer_start(&fleet->lane_timer, lanes_tick, due <= now ? 1 : (due - now + SL_MS_NS - 1) / SL_MS_NS, 0);
}

static bool launch(struct sl_remote *remote, struct sl_flight *flight) {
	struct sl_fleet *fleet = (struct sl_fleet *)(void *)((char *)remote - offsetof(struct sl_fleet, remote));
	struct sl_journey *journey = fleet->closing ? NULL : sl_journey_new(fleet, flight);
	bool landed;
	if (journey == NULL) {
		for (uint32_t c = 0; c < flight->call_count; c++)
			flight->calls[c].call.err = SLUICE_E_AWAY;
		return true;
	}
	fleet->launching = true;
	landed = sl_journey_begin(journey);
	fleet->launching = false;
	if (fleet->leases != NULL && sl_leases_count(fleet->leases) != 0 && !uv_is_active((uv_handle_t *)&fleet->timer))
		uv_timer_start(&fleet->timer, tick, 1, 0);
	return landed;
}

struct sl_remote *sl_fleet_remote(struct sl_fleet *fleet) {
	return &fleet->remote;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool make_parts(struct sl_fleet *fleet, const struct sl_redis_settings *settings) {
	struct sl_leases_options leases = {
		.lease_ns = settings->lease_ns, .send = send_lease, .to = fleet, .figures = fleet->figures};
	uint64_t random[4];
	if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
		return false;
	memcpy(fleet->secret, random, sizeof fleet->secret);
	fleet->ids = random[2];
	leases.seed = random[3];
	fleet->prefix = strdup(settings->prefix == NULL ? "" : settings->prefix);
	fleet->known = sl_known_new();
	fleet->lanes = sl_lanes_new(fleet);
	fleet->lanes_due = SLUICE_NEVER;
	fleet->hold_id = sl_fleet_id(fleet);
	if (fleet->prefix == NULL || fleet->known == NULL || fleet->lanes == NULL)
		return false;
	leases.prefix = fleet->prefix;
	if (settings->leases)
		fleet->leases = sl_leases_new(&leases);
	return !settings->leases || fleet->leases != NULL;
}

static void free_parts(struct sl_fleet *fleet) {
	sl_leases_free(fleet->leases);
	sl_known_free(fleet->known);
	sl_lanes_free(fleet->lanes);
	free(fleet->prefix);
	free(fleet);
}

static sluice_err open_nodes(struct sl_fleet *fleet, const struct sl_fleet_options *options,
                             struct sluice_error *error) {
	const struct sl_nodes_options nodes = {.settings = options->settings,
	                                       .password = options->password,
	                                       .loop = options->loop,
	                                       .figures = options->figures,
	                                       .say = options->say};
	return sl_nodes_open(&fleet->nodes, &nodes, error);
}

sluice_err sl_fleet_open(struct sl_fleet **fleet, const struct sl_fleet_options *options, struct sluice_error *error) {
	struct sl_fleet *made = calloc(1, sizeof *made);
	sluice_err err;
	if (made == NULL)
		return SLUICE_E_MEMORY;
	made->remote.launch = launch;
	made->store = options->store;
	made->figures = options->figures;
	made->say = options->say;
	made->loop = options->loop;
	made->budget_ns = options->settings->budget_ns;
	err = make_parts(made, options->settings) ? open_nodes(made, options, error) : SLUICE_E_MEMORY;
	if (err != SLUICE_OK) {
		free_parts(made);
		return err;
	}
	SL_ASSERT(uv_timer_init(made->loop, &made->timer) == 0);
	made->timer.data = made;
	SL_ASSERT(uv_timer_init(made->loop, &made->lane_timer) == 0);
	made->lane_timer.data = made;
	*fleet = made;
	return SLUICE_OK;
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
	sl_journeys_land(fleet);
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
	if (fleet->leases != NULL && sl_leases_end(fleet->leases, sl_clock_monotonic()) != 0)
		uv_timer_start(&fleet->timer, tick, RETURN_MS, 0);
	else
		close_nodes(fleet);
}
