/* GET /metrics: everything that is counted, as text for Prometheus.
 *
 *  M1  No label comes from a request: transports, verdicts, the names of limits and the paths that the policy writes
 *      are all there is. So the number of series is the same whatever clients send, and every series is there from the
 *      start, at 0.
 *  M2  What can't be read now is left out, not told as 0.
 *  M3  The names are those of docs/metrics.md, which users build their alerts on: none changes its meaning. */
#include "hosts/server/http/routes.h"

#include "algo/rule.h"
#include "hosts/server/http/figures.h"
#include "hosts/server/http/reply.h"
#include "hosts/server/watch/usage.h"
#include "proto/prom.h"

#include <stdlib.h>

enum {
	ROOM = 40 * 1024,           /* for all families, but for what each limit adds */
	LINES = 14 + SLUICE_BOUNDS, /* of one limit: 8 decisions, 2 hits, near, candidate, penalties, 2 of failing open,
	                             * bounds but none */
	ROOM_LINE = 128 + 2 * SLUICE_NAME_BYTES_MAX, /* each byte of a name may need an escape */
	ROOM_RULE = ROOM_LINE + 2 * SL_ENVOY_METRIC_BYTES_MAX,
	ROOM_ROUTE = ROOM_LINE + 2 * SL_ROUTE_TEXT_MAX
};

static const char *const verdicts[] = {"allowed", "denied", "shadow_denied", "error"};

#define NONE ((struct sl_prom_labels){NULL, 0})

/* One label, for families that have no other. */
static void count_by(struct sl_prom *prom, const char *label, const char *value, uint64_t count) {
	struct sl_prom_label by = {label, sl_str(value)};
	sl_prom_count(prom, (struct sl_prom_labels){&by, 1}, count);
}

static void put_one(struct sl_prom *prom, const char *name, enum sl_prom_type type, const char *unit, const char *help,
                    uint64_t count) {
	sl_prom_family(prom, name, type, unit, help);
	sl_prom_count(prom, NONE, count);
}

static void put_instant(struct sl_prom *prom, const char *name, const char *help, sluice_ns instant) {
	sl_prom_family(prom, name, SL_PROM_GAUGE, "seconds", help);
	sl_prom_time(prom, NONE, instant);
}

/* ---- what was decided ------------------------------------------------------------------------------------------- */

static void put_requests(struct sl_prom *prom, const struct sl_stats_sum *sum) {
	sl_prom_family(prom, "sluice_requests", SL_PROM_COUNTER, NULL, "Requests decided as a whole.");
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		for (int verdict = 0; verdict < SL_VERDICTS; verdict++) {
			struct sl_prom_label by[] = {{"transport", sl_str(sl_transport_names[transport])},
			                             {"decision", sl_str(verdicts[verdict])}};
			if (verdict != SL_VERDICT_SHADOW) /* a request as a whole is never in the shadow */
				sl_prom_count(prom, (struct sl_prom_labels){by, 2}, sum->requests[transport][verdict]);
		}
}

/* The labels of a limit: its name, which limits in notation do not have, and one or two more after it. */
static struct sl_prom_labels labels_of(const struct sl_row_sum *row, struct sl_prom_label by[3], uint32_t more) {
	by[0] = (struct sl_prom_label){"policy", sl_str(row->name)};
	return row->name[0] != '\0' ? (struct sl_prom_labels){by, more + 1} : (struct sl_prom_labels){by + 1, more};
}

static void put_row_decisions(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
		for (int transport = 0; transport < SL_TRANSPORTS; transport++) {
			by[1] = (struct sl_prom_label){"decision", sl_str(verdicts[verdict])};
			by[2] = (struct sl_prom_label){"transport", sl_str(sl_transport_names[transport])};
			sl_prom_count(prom, labels_of(row, by, 2), row->decisions[transport][verdict]);
		}
}

static void put_row_hits(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	for (int verdict = SL_VERDICT_ALLOWED; verdict <= SL_VERDICT_DENIED; verdict++) {
		by[1] = (struct sl_prom_label){"decision", sl_str(verdicts[verdict])};
		sl_prom_count(prom, labels_of(row, by, 1), row->hits[verdict == SL_VERDICT_ALLOWED]);
	}
}

static void put_row_near(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	sl_prom_count(prom, labels_of(row, by, 0), row->near);
}

static void put_row_candidate(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	sl_prom_count(prom, labels_of(row, by, 0), row->candidate);
}

static void put_row_penalties(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	sl_prom_count(prom, labels_of(row, by, 0), row->penalties);
}

static void put_row_undecided(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	if (row->name[0] != '\0') /* of limits in notation the caller decides */
		sl_prom_count(prom, labels_of(row, by, 0), row->undecided);
}

static void put_row_undecided_s(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	if (row->name[0] != '\0')
		sl_prom_count(prom, labels_of(row, by, 0), row->undecided_s);
}

static void put_row_bounds(struct sl_prom *prom, const struct sl_row_sum *row) {
	struct sl_prom_label by[3];
	for (int bound = SLUICE_BOUND_NONE + 1; bound < SLUICE_BOUNDS; bound++) {
		by[1] = (struct sl_prom_label){"bound", sl_str(sluice_bound_name((sluice_bound)bound))};
		sl_prom_count(prom, labels_of(row, by, 1), row->bounds[bound]);
	}
}

/* A family wants all its limits together: the rows are gone through once for each. */
static void put_rows(struct sl_prom *prom, const struct sl_stats *stats, const char *name, const char *help,
                     void (*put)(struct sl_prom *prom, const struct sl_row_sum *row)) {
	struct sl_row_sum row;
	sl_prom_family(prom, name, SL_PROM_COUNTER, NULL, help);
	for (uint32_t i = 0, count = sl_stats_row_count(stats); i < count; i++)
		if (sl_stats_row(stats, i, &row))
			put(prom, &row);
}

static void put_limits(struct sl_prom *prom, const struct sl_stats *stats) {
	put_rows(prom, stats, "sluice_decisions", "What each limit decided.", put_row_decisions);
	put_rows(prom, stats, "sluice_hits", "Cost of what each limit allowed and denied.", put_row_hits);
	put_rows(prom, stats, "sluice_near_limit", "Allowed decisions that left little of the quota (near-limit).",
	         put_row_near);
	put_rows(prom, stats, "sluice_candidate_denied", "Decisions that the candidate of a limit would have denied.",
	         put_row_candidate);
	put_rows(prom, stats, "sluice_penalties", "Penalties that a limit has imposed.", put_row_penalties);
	put_rows(prom, stats, "sluice_failed_open", "Requests that a limit let pass undecided (on-error: allow).",
	         put_row_undecided);
	put_rows(prom, stats, "sluice_failed_open_seconds", "Seconds in which a limit let any request pass undecided.",
	         put_row_undecided_s);
	put_rows(prom, stats, "sluice_bounds", "Decisions by one of Sluice's own bounds instead of the "
	                                       "quota.", put_row_bounds);
}

/* `count` rows, for which there is room, however many there are meanwhile. */
static void put_routes(struct sl_prom *prom, const struct sl_route_stats *stats, uint32_t count) {
	struct sl_route_sum row;
	sl_prom_family(prom, "sluice_denials_by_route", SL_PROM_COUNTER, NULL,
	               "Denials of each limit by the path of its conditions that the request had.");
	for (uint32_t i = 0; i < count; i++) {
		if (!sl_route_stats_row(stats, i, &row))
			continue;
		struct sl_prom_label by[] = {{"policy", sl_str(row.limit)}, {"route", sl_str(row.route)}};
		sl_prom_count(prom, (struct sl_prom_labels){by, 2}, row.denied);
	}
}

/* By the rules of envoyproxy/ratelimit's files, under that program's names. */
static void put_rules(struct sl_prom *prom, const struct sl_rule_sum *sums, uint32_t count) {
	static const struct {
		const char *name, *help;
	} families[SL_RULE_COUNTS] = {
		[SL_RULE_TOTAL] = {"sluice_envoy_total_hits",
	                       "Hits that rules of envoyproxy/ratelimit's files were asked for."},
		[SL_RULE_OVER] = {"sluice_envoy_over_limit", "Hits of those that were over the limit."},
		[SL_RULE_NEAR] = {"sluice_envoy_near_limit", "Hits that were within the limit, above 80 % of it."},
		[SL_RULE_WITHIN] = {"sluice_envoy_within_limit", "Hits that were within the limit."},
		[SL_RULE_SHADOW] = {"sluice_envoy_shadow_mode", "Hits over the limit that shadow_mode let pass."},
	};
	for (int family = 0; family < SL_RULE_COUNTS; family++) {
		sl_prom_family(prom, families[family].name, SL_PROM_COUNTER, NULL, families[family].help);
		for (uint32_t i = 0; i < count; i++) {
			struct sl_prom_label by[] = {{"domain", sums[i].domain}, {"descriptor", sums[i].descriptor}};
			sl_prom_count(prom, (struct sl_prom_labels){by, 2}, sums[i].counts[family]);
		}
	}
}

/* The sums of all rules; NULL where there are none. To be freed. */
static struct sl_rule_sum *rules_of(const struct sl_stats *stats, uint32_t *count) {
	const struct sl_rule_page *pages[SL_THREADS_MAX];
	uint32_t page_count = sl_stats_rules(stats, pages), most = sl_rule_stats_most(pages, page_count);
	struct sl_rule_sum *sums = most == 0 ? NULL : calloc(most, sizeof *sums);
	*count = sums == NULL ? 0 : sl_rule_stats_sum(pages, page_count, sums, most);
	return sums;
}

/* ---- what is in force ------------------------------------------------------------------------------------------- */

/* One number of each limit that counts anything, and is counted by itself: its own, not its overrides'. */
static void put_each_limit(struct sl_prom *prom, const struct sluice_policy *policy, bool windows) {
	for (uint32_t i = 0, count = sl_stats_limits_of(policy); i < count; i++) {
		const struct sl_policy_limit *limit = sl_policy_limit_at(policy, i);
		struct sl_prom_label by = {"policy", sl_str(limit->name)};
		if (!sl_rule_has(&limit->limit, SL_HAS_COUNTER))
			continue;
		if (windows)
			sl_prom_time(prom, (struct sl_prom_labels){&by, 1}, limit->limit.window_ns);
		else
			sl_prom_count(prom, (struct sl_prom_labels){&by, 1}, limit->limit.derived[SL_CAPACITY]);
	}
}

static void put_quotas(struct sl_prom *prom, const struct sluice_policy *policy) {
	sl_prom_family(prom, "sluice_limit_quota", SL_PROM_GAUGE, NULL,
	               "The quota of each limit in force, as its decisions tell it.");
	put_each_limit(prom, policy, false);
	sl_prom_family(prom, "sluice_limit_window_seconds", SL_PROM_GAUGE, "seconds",
	               "The window of each limit in force; of concurrency its lease.");
	put_each_limit(prom, policy, true);
}

/* ---- what is held ----------------------------------------------------------------------------------------------- */

/* Events of one kind, by transport. `names` are theirs, NULL for one that needs no label. */
static void put_events(struct sl_prom *prom, const struct sl_stats_sum *sum, enum sl_event first,
                       const char *const *names, uint32_t count) {
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		for (uint32_t i = 0; i < count; i++) {
			struct sl_prom_label by[] = {{"transport", sl_str(sl_transport_names[transport])},
			                             {"event", sl_str(names != NULL ? names[i] : "")}};
			sl_prom_count(prom, (struct sl_prom_labels){by, names != NULL ? 2 : 1}, sum->events[transport][first + i]);
		}
}

static void put_held(struct sl_prom *prom, const struct sl_stats_sum *sum) {
	static const char *const leases[] = {"acquired", "released", "renewed", "unknown"};
	static const char *const reservations[] = {"made", "committed", "unknown"};
	sl_prom_family(prom, "sluice_leases", SL_PROM_COUNTER, NULL,
	               "Leases acquired, released and renewed; unknown: calls for leases that had ended or never existed.");
	put_events(prom, sum, SL_EVENT_LEASE_ACQUIRED, leases, 4);
	sl_prom_family(prom, "sluice_reservations", SL_PROM_COUNTER, NULL,
	               "Reservations made and committed; unknown: commits of reservations that were no longer open.");
	put_events(prom, sum, SL_EVENT_RESERVATION_MADE, reservations, 3);
	sl_prom_family(prom, "sluice_repeated", SL_PROM_COUNTER, NULL,
	               "Retries under the same id, which were not charged again.");
	put_events(prom, sum, SL_EVENT_REPEATED, NULL, 1);
	sl_prom_family(prom, "sluice_partly_granted", SL_PROM_COUNTER, NULL,
	               "Requests that were granted a part of their cost (upto).");
	put_events(prom, sum, SL_EVENT_PARTLY, NULL, 1);
}

static void put_overrides(struct sl_prom *prom, const struct sl_stats_sum *sum) {
	static const char *const changes[] = {"set", "deleted", "full"};
	sl_prom_family(prom, "sluice_override_changes", SL_PROM_COUNTER, NULL,
	               "Quotas of keys' own that were set, deleted, and refused since there were too many (full).");
	put_events(prom, sum, SL_EVENT_OVERRIDE_SET, changes, 3);
}

/* ---- how long it took ------------------------------------------------------------------------------------------- */

static void put_times(struct sl_prom *prom, const struct sl_stats_sum *sum) {
	sluice_ns bounds[SL_TIMES];
	for (uint32_t i = 0; i < SL_TIMES; i++)
		bounds[i] = sl_times_bound(i);
	sl_prom_family(prom, "sluice_decision_duration_seconds", SL_PROM_HISTOGRAM, "seconds",
	               "Time to find and charge the counters of a request.");
	sl_prom_histogram(prom, NONE, bounds, sum->decision, SL_TIMES, sum->decision_ns);
	sl_prom_family(prom, "sluice_request_duration_seconds", SL_PROM_HISTOGRAM, "seconds",
	               "Time from waking up for a request to having answered it.");
	for (int transport = 0; transport < SL_TRANSPORTS; transport++) {
		struct sl_prom_label by = {"transport", sl_str(sl_transport_names[transport])};
		sl_prom_histogram(prom, (struct sl_prom_labels){&by, 1}, bounds, sum->request[transport], SL_TIMES,
		                  sum->request_ns[transport]);
	}
}

/* ---- the store -------------------------------------------------------------------------------------------------- */

static void put_store(struct sl_prom *prom, const struct sl_store_figures *store) {
	if (store->counted != 0) {
		put_one(prom, "sluice_keys", SL_PROM_GAUGE, NULL, "Counters in the store.", store->keys);
		put_one(prom, "sluice_keys_expired", SL_PROM_GAUGE, NULL, "Counters in the store that have expired.",
		        store->expired);
	}
	put_one(prom, "sluice_store_slots", SL_PROM_GAUGE, NULL, "Counters that the store has room for.", store->slots);
	sl_prom_family(prom, "sluice_keys_evicted", SL_PROM_COUNTER, NULL, "Counters in use that made room for others.");
	count_by(prom, "reason", "full", store->evicted);
	put_one(prom, "sluice_sketch_starts", SL_PROM_COUNTER, NULL,
	        "Counters that started with less than their quota, because evicted counters are "
	        "remembered.", store->from_sketch);
	put_one(prom, "sluice_store_bytes", SL_PROM_GAUGE, "bytes", "Size of the store.", store->bytes);
	sl_prom_family(prom, "sluice_store_block_bytes", SL_PROM_GAUGE, "bytes", "Memory for logs and sub-buckets.");
	count_by(prom, "state", "used", store->block_bytes);
	count_by(prom, "state", "free", store->block_bytes_free);
	put_one(prom, "sluice_overrides", SL_PROM_GAUGE, NULL,
	        "Quotas of keys' own in the store; those that have ended may be among them.", store->overrides);
	put_one(prom, "sluice_overrides_max", SL_PROM_GAUGE, NULL, "How many there may be.", store->overrides_most);
	put_one(prom, "sluice_store_recoveries", SL_PROM_COUNTER, NULL, "Locks taken from processes that had died.",
	        store->recoveries);
	put_one(prom, "sluice_store_held_up", SL_PROM_COUNTER, NULL,
	        "Decisions not made because a stopped process held a lock of the store.", store->given_up);
	put_one(prom, "sluice_store_stopped_processes", SL_PROM_GAUGE, NULL,
	        "Processes that share the store and count as stopped while holding a lock.", store->stopped);
	put_one(prom, "sluice_store_dropped", SL_PROM_COUNTER, NULL, "Counters dropped as torn after a power cut.",
	        store->dropped);
}

/* ---- the fleet, where the store is in Redis ---------------------------------------------------------------------- */

static void put_slices(struct sl_prom *prom, const struct sl_fleet_sum *fleet) {
	static const char units[] = "Cost taken in slices of hot keys' quotas, and given back unspent.";
	sl_prom_family(prom, "sluice_fleet_slice_units", SL_PROM_COUNTER, NULL, units);
	count_by(prom, "kind", "taken", fleet->slice_units);
	count_by(prom, "kind", "returned", fleet->returned);
	put_one(prom, "sluice_fleet_slices", SL_PROM_GAUGE, NULL, "Slices held now.", fleet->slices);
	/* their former names */
	sl_prom_family(prom, "sluice_fleet_lease_units", SL_PROM_COUNTER, NULL, units);
	count_by(prom, "kind", "taken", fleet->slice_units);
	count_by(prom, "kind", "returned", fleet->returned);
	put_one(prom, "sluice_fleet_leases", SL_PROM_GAUGE, NULL, "Slices held now.", fleet->slices);
}

static void put_fleet_decisions(struct sl_prom *prom, const struct sl_fleet_sum *fleet) {
	sl_prom_family(prom, "sluice_fleet_decisions", SL_PROM_COUNTER, NULL, "Requests by how the fleet decided them.");
	for (int way = 0; way < SL_WAYS; way++)
		count_by(prom, "way", sl_http_fleet_ways[way], fleet->decided[way]);
	put_one(prom, "sluice_fleet_late", SL_PROM_COUNTER, NULL,
	        "Requests whose budget was over before the nodes had answered.", fleet->late);
	put_one(prom, "sluice_fleet_lost_confirms", SL_PROM_COUNTER, NULL, "Holds that could not be confirmed in time.",
	        fleet->lost_confirms);
	put_slices(prom, fleet);
}

static void put_fleet_nodes(struct sl_prom *prom, const struct sl_fleet_sum *fleet) {
	sluice_ns bounds[SL_TIMES];
	for (uint32_t i = 0; i < SL_TIMES; i++)
		bounds[i] = sl_times_bound(i);
	sl_prom_family(prom, "sluice_fleet_nodes", SL_PROM_GAUGE, NULL,
	               "Nodes known, nodes that answer, and nodes not asked since they failed (open).");
	count_by(prom, "state", "known", fleet->nodes);
	count_by(prom, "state", "up", fleet->nodes_up);
	count_by(prom, "state", "open", fleet->nodes_open);
	put_one(prom, "sluice_fleet_commands", SL_PROM_COUNTER, NULL, "Commands sent to nodes.", fleet->commands);
	put_one(prom, "sluice_fleet_commands_refused", SL_PROM_COUNTER, NULL, "Commands that nodes answered with an error.",
	        fleet->refused);
	put_one(prom, "sluice_fleet_redirections", SL_PROM_COUNTER, NULL, "Commands that a node redirected to another.",
	        fleet->redirected);
	sl_prom_family(prom, "sluice_fleet_connections", SL_PROM_COUNTER, NULL, "Connections to nodes.");
	count_by(prom, "event", "made", fleet->connects);
	count_by(prom, "event", "lost", fleet->disconnects);
	put_one(prom, "sluice_fleet_circuit_opens", SL_PROM_COUNTER, NULL,
	        "Times that a node's circuit opened: nothing is sent to it until it answers a probe.", fleet->breaks);
	sl_prom_family(prom, "sluice_fleet_command_duration_seconds", SL_PROM_HISTOGRAM, "seconds",
	               "Time from sending a command to its answer.");
	sl_prom_histogram(prom, NONE, bounds, fleet->asked, SL_TIMES, fleet->asked_ns);
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

static void put_connections(struct sl_prom *prom, const struct sl_http_figures *figures) {
	sl_prom_family(prom, "sluice_connections", SL_PROM_GAUGE, NULL, "Open connections.");
	for (int i = 0; i < SL_TRANSPORTS; i++)
		count_by(prom, "transport", sl_transport_names[i], figures->open[i]);
	sl_prom_family(prom, "sluice_connections_accepted", SL_PROM_COUNTER, NULL, "Connections taken.");
	for (int i = 0; i < SL_TRANSPORTS; i++)
		count_by(prom, "transport", sl_transport_names[i], figures->accepted[i]);
	put_one(prom, "sluice_connections_refused", SL_PROM_COUNTER, NULL,
	        "Connections refused: a bound was reached, or no descriptor was left.", figures->refused);
	sl_prom_family(prom, "sluice_protocol_errors", SL_PROM_COUNTER, NULL,
	               "Requests that were refused instead of decided.");
	for (int i = 0; i < SL_TRANSPORTS; i++)
		count_by(prom, "transport", sl_transport_names[i], figures->stats.errors[i]);
}

/* M1: what clients call themselves is no label; a list of ours is. */
static void put_clients(struct sl_prom *prom, const struct sl_http_figures *figures) {
	uint64_t open[SL_CLIENT_LIBRARIES] = {0};
	for (uint32_t i = 0; i < figures->client_count; i++)
		if (figures->clients[i].transport == SL_TRANSPORT_RESP)
			open[sl_client_library(&figures->clients[i])] += figures->clients[i].open;
	sl_prom_family(prom, "sluice_client_connections", SL_PROM_GAUGE, NULL,
	               "Open connections of RESP by the library that the client has named.");
	for (int i = 0; i < SL_CLIENT_LIBRARIES; i++)
		count_by(prom, "library", sl_client_libraries[i], open[i]);
}

static void put_config(struct sl_prom *prom, const struct sl_http_figures *figures) {
	sl_prom_family(prom, "sluice_config_reloads", SL_PROM_COUNTER, NULL, "Reloads of the policy.");
	count_by(prom, "result", "ok", figures->reloads_ok);
	count_by(prom, "result", "failed", figures->reloads_failed);
	put_instant(prom, "sluice_config_last_reload_success_timestamp_seconds",
	            "When the policy in force was loaded, the start included.", figures->reloaded);
	put_one(prom, "sluice_config_last_reload_successful", SL_PROM_GAUGE, NULL,
	        "Whether the last reload of the policy succeeded.", !figures->reload_failed);
	sl_prom_family(prom, "sluice_denial_log_lines", SL_PROM_COUNTER, NULL, "Lines of the denial log.");
	count_by(prom, "result", "written", figures->log_written);
	count_by(prom, "result", "dropped", figures->log_dropped);
}

static void put_tail(struct sl_prom *prom, const struct sl_tail *tail) {
	const struct sl_tail_figures figures = sl_tail_figures(tail);
	put_one(prom, "sluice_tail_readers", SL_PROM_GAUGE, NULL, "Clients that follow decisions as they "
	                                                          "happen.", figures.readers);
	put_one(prom, "sluice_tail_lines", SL_PROM_COUNTER, NULL, "Decisions sent to clients that follow "
	                                                          "decisions.", figures.sent);
	put_one(prom, "sluice_tail_skipped", SL_PROM_COUNTER, NULL,
	        "Decisions that were counted for these clients as missed, not sent.", figures.missed);
}

static void put_server(struct sl_prom *prom, const struct sl_http_exchange *exchange,
                       const struct sl_http_figures *figures) {
	put_connections(prom, figures);
	put_clients(prom, figures);
	put_config(prom, figures);
	put_tail(prom, exchange->context->shared->tail);
	put_one(prom, "sluice_draining", SL_PROM_GAUGE, NULL, "Whether the server is shutting down.",
	        exchange->context->draining);
	put_one(prom, "sluice_ready", SL_PROM_GAUGE, NULL, "Whether /readyz answers 200.",
	        sl_door_unready(exchange->context) == NULL);
	put_one(prom, "sluice_threads", SL_PROM_GAUGE, NULL, "Worker threads.", figures->threads);
	put_one(prom, "sluice_limits", SL_PROM_GAUGE, NULL, "Limits of the policy.",
	        sl_policy_limit_count(exchange->context->policy));
	put_one(prom, "sluice_limits_without_series", SL_PROM_GAUGE, NULL,
	        "Limits that are counted together, as (others): those after the first 1,024 of the policy.",
	        sl_policy_limit_count(exchange->context->policy) - sl_stats_limits_of(exchange->context->policy));
	put_instant(prom, "sluice_start_time_seconds", "When the server began to serve, by the store's clock.",
	            figures->started);
	sl_prom_family(prom, "sluice_build_info", SL_PROM_GAUGE, NULL, "The version that runs; always 1.");
	count_by(prom, "version", SLUICE_VERSION, 1);
}

static void put_process(struct sl_prom *prom) {
	struct sl_usage usage;
	sl_usage_read(&usage);
	sl_prom_family(prom, "process_cpu_seconds", SL_PROM_COUNTER, "seconds", "User and system CPU time.");
	sl_prom_time(prom, NONE, usage.cpu_ns);
	if (usage.has_stat) {
		put_one(prom, "process_resident_memory_bytes", SL_PROM_GAUGE, "bytes", "Resident memory.",
		        usage.resident_bytes);
		put_one(prom, "process_virtual_memory_bytes", SL_PROM_GAUGE, "bytes", "Virtual memory.", usage.virtual_bytes);
		put_instant(prom, "process_start_time_seconds", "When the process was started.", usage.started_ns);
	}
	if (usage.has_fds)
		put_one(prom, "process_open_fds", SL_PROM_GAUGE, NULL, "Open file descriptors.", usage.open_fds);
	put_one(prom, "process_max_fds", SL_PROM_GAUGE, NULL, "Maximum number of open file descriptors.", usage.max_fds);
}

/* ---- the route -------------------------------------------------------------------------------------------------- */

void sl_http_route_metrics(struct sl_http_exchange *exchange) {
	const struct sl_shared *shared = exchange->context->shared;
	struct sl_http_figures figures;
	struct sl_http_reply reply;
	struct sluice_bytes accept;
	if (shared == NULL || shared->stats == NULL) {
		sl_http_reply_problem(exchange, 503, sl_str("this server keeps no stats"), NULL);
		return;
	}
	sl_http_figures_read(exchange, &figures);
	struct sl_prom prom = {.open_metrics = sl_http_field(exchange->request, "accept", &accept) &&
	                                       sl_prom_accepts_open_metrics(accept)};
	/* a limit has two lines more, of what is in force */
	const uint32_t routes = sl_route_stats_count(sl_stats_routes(shared->stats));
	size_t room =
		ROOM + (size_t)sl_stats_row_count(shared->stats) * (LINES + 2) * ROOM_LINE + (size_t)routes * ROOM_ROUTE;
	uint32_t rule_count;
	struct sl_rule_sum *rules = rules_of(shared->stats, &rule_count);
	room += (size_t)rule_count * SL_RULE_COUNTS * ROOM_RULE;
	if (!sl_http_reply_begin(&reply, exchange, 200, prom.open_metrics ? SL_PROM_OPEN_TYPE : SL_PROM_TEXT_TYPE, room)) {
		free(rules);
		return;
	}
	sl_http_reply_body(&reply);
	prom.out = &reply.w;
	put_requests(&prom, &figures.stats);
	put_limits(&prom, shared->stats);
	put_routes(&prom, sl_stats_routes(shared->stats), routes);
	put_rules(&prom, rules, rule_count);
	free(rules);
	put_quotas(&prom, exchange->context->policy);
	put_held(&prom, &figures.stats);
	put_overrides(&prom, &figures.stats);
	put_times(&prom, &figures.stats);
	if (shared->store_stats != NULL)
		put_store(&prom, &figures.store);
	if (figures.has_fleet) {
		put_fleet_decisions(&prom, &figures.fleet);
		put_fleet_nodes(&prom, &figures.fleet);
	}
	put_server(&prom, exchange, &figures);
	put_process(&prom);
	sl_prom_end(&prom);
	sl_http_reply_end(&reply);
}
