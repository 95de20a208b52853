/* GET /v1/figures: what /metrics tells, as one JSON object for programs and for the dashboard, and with ?history=1 what
 * each limit decided in each of the last steps of 2 s. Its shape is in docs/metrics.md. */
#include "hosts/server/http/figures.h"

#include "hosts/server/http/reply.h"
#include "hosts/server/http/routes.h"
#include "hosts/server/watch/store_room.h"
#include "proto/json.h"
#include "proto/prom.h"

enum {
	ROOM = 8 * 1024, /* for all but the limits */
	/* of each client: what it may be called may need an escape each byte */
	ROOM_CLIENT = 256 + SL_JSON_ROOM(SL_CLIENT_NAME_MAX) + SL_JSON_ROOM(SL_CLIENT_VERSION_MAX),
	ROOM_LIMIT = 1024 + 2 * SLUICE_LIMIT_TEXT_MAX + 2 * 6 * SLUICE_NAME_BYTES_MAX,
	ARRAYS = 5,
	ROOM_HISTORY = 256 + ARRAYS * SL_HISTORY_STEPS * 11, /* ten digits and a comma */
};

static uint64_t look(const _Atomic uint64_t *figure) {
	return atomic_load_explicit(figure, memory_order_relaxed);
}

void sl_http_figures_read(const struct sl_http_exchange *exchange, struct sl_http_figures *figures) {
	const struct sl_shared *shared = exchange->context->shared;
	const struct sl_figures *own = shared->figures;
	*figures = (struct sl_http_figures){.threads = own == NULL ? 1 : own->worker_count};
	sl_stats_sum(shared->stats, &figures->stats);
	figures->client_count = sl_stats_clients(shared->stats, figures->clients);
	sl_denials_figures(shared->denials, &figures->log_written, &figures->log_dropped);
	if (shared->store_stats != NULL)
		sl_store_stats_read(shared->store_stats, &figures->store);
	figures->store.overrides_most = sl_store_overrides_bound(
		sl_policy_settings(exchange->context->policy)->overrides_most, figures->store.overrides_most);
	if (own == NULL)
		return;
	figures->has_fleet = shared->fleet != NULL;
	if (figures->has_fleet)
		sl_fleet_sum(shared->fleet, own->worker_count, &figures->fleet);
	for (uint32_t i = 0; i < own->worker_count; i++)
		for (int transport = 0; transport < SL_TRANSPORTS; transport++) {
			uint64_t closed = look(&own->workers[i].closed[transport]); /* before what was opened: never below 0 */
			uint64_t opened = look(&own->workers[i].opened[transport]);
			figures->accepted[transport] += opened;
			figures->open[transport] += opened > closed ? opened - closed : 0;
		}
	figures->refused = look(&own->refused);
	figures->reloads_failed = look(&own->reloads[0]);
	figures->reloads_ok = look(&own->reloads[1]);
	figures->started = own->started;
	figures->reloaded = look(&own->reloaded_ns);
	figures->reload_failed = atomic_load_explicit(&own->reload_failed, memory_order_relaxed);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* An instant, in whole milliseconds. */
static void put_instant(struct sl_out *out, const char *name, sluice_ns instant) {
	sl_json_put_u64(out, name, instant / 1000000);
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

static void put_store(struct sl_out *out, const struct sl_store_figures *store) {
	sl_json_open(out, "store", '{');
	sl_json_put_u64(out, "bytes", store->bytes);
	sl_json_put_u64(out, "slots", store->slots);
	if (store->counted != 0) {
		sl_json_put_u64(out, "keys", store->keys);
		sl_json_put_u64(out, "keys_expired", store->expired);
		put_instant(out, "counted_ms", store->counted);
	} else {
		sl_json_put_null(out, "keys");
		sl_json_put_null(out, "keys_expired");
		sl_json_put_null(out, "counted_ms");
	}
	sl_json_put_u64(out, "block_bytes", store->block_bytes);
	sl_json_put_u64(out, "block_bytes_free", store->block_bytes_free);
	sl_json_put_u64(out, "overrides", store->overrides);
	sl_json_put_u64(out, "overrides_max", store->overrides_most);
	sl_json_put_u64(out, "evicted", store->evicted);
	sl_json_put_u64(out, "from_sketch", store->from_sketch);
	sl_json_put_u64(out, "recoveries", store->recoveries);
	sl_json_put_u64(out, "held_up", store->given_up);
	sl_json_put_u64(out, "stopped_processes", store->stopped);
	sl_json_put_u64(out, "dropped", store->dropped);
	sl_out_char(out, '}');
}

static void put_times(struct sl_out *out, const char *name, const uint64_t counts[SL_TIMES], sluice_ns sum) {
	sl_json_open(out, name, '{');
	sl_json_open(out, "bounds", '[');
	for (uint32_t i = 0; i + 1 < SL_TIMES; i++) {
		sl_json_element(out);
		sl_prom_bound(out, sl_times_bound(i));
	}
	sl_out_char(out, ']');
	sl_json_open(out, "counts", '[');
	for (uint32_t i = 0; i < SL_TIMES; i++) {
		sl_json_element(out);
		sl_out_u64(out, counts[i]);
	}
	sl_out_char(out, ']');
	sl_json_name(out, "sum");
	sl_prom_seconds(out, sum);
	sl_out_char(out, '}');
}

static void put_traffic(struct sl_out *out, const struct sl_http_figures *figures) {
	const struct sl_stats_sum *stats = &figures->stats;
	sl_json_open(out, "connections", '{');
	for (int i = 0; i < SL_TRANSPORTS; i++)
		sl_json_put_u64(out, sl_transport_names[i], figures->open[i]);
	sl_json_put_u64(out, "refused", figures->refused);
	sl_out_char(out, '}');
	sl_json_open(out, "requests", '{');
	for (int i = 0; i < SL_TRANSPORTS; i++) {
		sl_json_open(out, sl_transport_names[i], '{');
		sl_json_put_u64(out, "allowed", stats->requests[i][SL_VERDICT_ALLOWED]);
		sl_json_put_u64(out, "denied", stats->requests[i][SL_VERDICT_DENIED]);
		sl_json_put_u64(out, "error", stats->requests[i][SL_VERDICT_ERROR]);
		sl_out_char(out, '}');
	}
	sl_out_char(out, '}');
	put_times(out, "decision_seconds", stats->decision, stats->decision_ns);
	sl_json_open(out, "request_seconds", '{');
	for (int i = 0; i < SL_TRANSPORTS; i++)
		put_times(out, sl_transport_names[i], stats->request[i], stats->request_ns[i]);
	sl_out_char(out, '}');
	sl_json_open(out, "protocol_errors", '{');
	for (int i = 0; i < SL_TRANSPORTS; i++)
		sl_json_put_u64(out, sl_transport_names[i], stats->errors[i]);
	sl_out_char(out, '}');
}

static void put_event(struct sl_out *out, const char *name, const struct sl_stats_sum *stats, enum sl_event event) {
	sl_json_put_u64(out, name, sl_stats_sum_event(stats, event));
}

static void put_held(struct sl_out *out, const struct sl_stats_sum *stats) {
	sl_json_open(out, "leases", '{');
	put_event(out, "acquired", stats, SL_EVENT_LEASE_ACQUIRED);
	put_event(out, "released", stats, SL_EVENT_LEASE_RELEASED);
	put_event(out, "renewed", stats, SL_EVENT_LEASE_RENEWED);
	put_event(out, "unknown", stats, SL_EVENT_LEASE_UNKNOWN);
	sl_out_char(out, '}');
	sl_json_open(out, "reservations", '{');
	put_event(out, "made", stats, SL_EVENT_RESERVATION_MADE);
	put_event(out, "committed", stats, SL_EVENT_RESERVATION_COMMITTED);
	put_event(out, "unknown", stats, SL_EVENT_RESERVATION_UNKNOWN);
	sl_out_char(out, '}');
	put_event(out, "repeated", stats, SL_EVENT_REPEATED);
	put_event(out, "partly_granted", stats, SL_EVENT_PARTLY);
	sl_json_open(out, "override_changes", '{');
	put_event(out, "set", stats, SL_EVENT_OVERRIDE_SET);
	put_event(out, "deleted", stats, SL_EVENT_OVERRIDE_DELETED);
	put_event(out, "full", stats, SL_EVENT_OVERRIDE_FULL);
	sl_out_char(out, '}');
}

const char *const sl_http_fleet_ways[SL_WAYS] = {"asked", "held", "leased", "known", "local", "failed"};

/* null where the store is not in Redis. */
static void put_fleet(struct sl_out *out, const struct sl_http_figures *figures) {
	const struct sl_fleet_sum *fleet = &figures->fleet;
	if (!figures->has_fleet) {
		sl_json_put_null(out, "fleet");
		return;
	}
	sl_json_open(out, "fleet", '{');
	sl_json_open(out, "decided", '{');
	for (int way = 0; way < SL_WAYS; way++)
		sl_json_put_u64(out, sl_http_fleet_ways[way], fleet->decided[way]);
	sl_out_char(out, '}');
	sl_json_put_u64(out, "late", fleet->late);
	sl_json_put_u64(out, "refused", fleet->refused);
	sl_json_put_u64(out, "lost_confirms", fleet->lost_confirms);
	sl_json_put_u64(out, "commands", fleet->commands);
	sl_json_put_u64(out, "redirected", fleet->redirected);
	sl_json_put_u64(out, "connects", fleet->connects);
	sl_json_put_u64(out, "disconnects", fleet->disconnects);
	sl_json_put_u64(out, "breaks", fleet->breaks);
	sl_json_put_u64(out, "slices", fleet->slices);
	sl_json_put_u64(out, "slice_units", fleet->slice_units);
	sl_json_put_u64(out, "leases", fleet->slices); /* the former names of these two */
	sl_json_put_u64(out, "leased", fleet->slice_units);
	sl_json_put_u64(out, "returned", fleet->returned);
	sl_json_put_u64(out, "nodes", fleet->nodes);
	sl_json_put_u64(out, "nodes_up", fleet->nodes_up);
	sl_json_put_u64(out, "nodes_open", fleet->nodes_open);
	put_times(out, "command_seconds", fleet->asked, fleet->asked_ns);
	sl_out_char(out, '}');
}

static const char *const client_kinds[] = {
	[SL_CLIENT_NAMED] = "named", [SL_CLIENT_UNNAMED] = "unnamed", [SL_CLIENT_OTHERS] = "others"};

/* A text that a client has said; null for none. */
static void put_said(struct sl_out *out, const char *name, const char *text) {
	if (text[0] != '\0')
		sl_json_put_text(out, name, sl_str(text));
	else
		sl_json_put_null(out, name);
}

static void put_clients(struct sl_out *out, const struct sl_http_figures *figures) {
	sl_json_open(out, "clients", '[');
	for (uint32_t i = 0; i < figures->client_count; i++) {
		const struct sl_client_sum *client = &figures->clients[i];
		sl_json_open(out, NULL, '{');
		sl_json_put_word(out, "door", sl_transport_names[client->transport]);
		sl_json_put_word(out, "kind", client_kinds[client->kind]);
		put_said(out, "name", client->name);
		put_said(out, "version", client->version);
		sl_json_put_u64(out, "connections", client->open);
		sl_json_put_u64(out, "allowed", client->decided[SL_VERDICT_ALLOWED]);
		sl_json_put_u64(out, "denied", client->decided[SL_VERDICT_DENIED]);
		sl_json_put_u64(out, "error", client->decided[SL_VERDICT_ERROR]);
		sl_out_char(out, '}');
	}
	sl_out_char(out, ']');
}

static void put_server(struct sl_out *out, const struct sl_http_exchange *exchange,
                       const struct sl_http_figures *figures) {
	sluice_ns now = exchange->context->now;
	sl_out_char(out, '{');
	sl_json_put_word(out, "version", SLUICE_VERSION);
	put_instant(out, "now_ms", now);
	put_instant(out, "started_ms", figures->started);
	sl_json_put_u64(out, "uptime_s", now > figures->started ? (now - figures->started) / 1000000000 : 0);
	sl_json_put_u64(out, "threads", figures->threads);
	sl_json_put_bool(out, "draining", exchange->context->draining);
	sl_json_put_bool(out, "ready", sl_door_unready(exchange->context) == NULL);
	put_store(out, &figures->store);
	put_traffic(out, figures);
	put_held(out, &figures->stats);
	put_fleet(out, figures);
	put_clients(out, figures);
	sl_json_open(out, "reloads", '{');
	sl_json_put_u64(out, "ok", figures->reloads_ok);
	sl_json_put_u64(out, "failed", figures->reloads_failed);
	sl_json_put_bool(out, "last_failed", figures->reload_failed);
	put_instant(out, "last_ms", figures->reloaded);
	sl_out_char(out, '}');
	sl_json_open(out, "denial_log", '{');
	sl_json_put_u64(out, "written", figures->log_written);
	sl_json_put_u64(out, "dropped", figures->log_dropped);
	sl_out_char(out, '}');
}

/* ---- the limits ------------------------------------------------------------------------------------------------- */

/* What a query asks for. */
struct wish {
	bool history, one;
	struct sluice_bytes limit; /* where `one` */
};

enum { ALLOWED, DENIED, SHADOW, NEAR, CANDIDATE };

static uint32_t of_step(const struct sl_step_sum *step, int which) {
	const uint32_t counts[ARRAYS] = {step->allowed, step->denied, step->shadow, step->near, step->candidate};
	return counts[which];
}

static void put_array(struct sl_out *out, const char *name, const struct sl_step_sum *steps, uint32_t count,
                      int which) {
	bool any = false;
	for (uint32_t i = 0; i < count; i++)
		any |= of_step(&steps[i], which) != 0;
	sl_json_open(out, name, '[');
	for (uint32_t i = 0; any && i < count; i++) {
		sl_json_element(out);
		sl_out_u64(out, of_step(&steps[i], which));
	}
	sl_out_char(out, ']');
}

static void put_history(struct sl_out *out, struct sl_stats *stats, uint32_t row) {
	static const char *const names[ARRAYS] = {"allowed", "denied", "shadow", "near", "candidate"};
	struct sl_step_sum steps[SL_HISTORY_STEPS];
	sluice_ns last;
	uint32_t count = sl_stats_history(stats, row, steps, &last);
	sl_json_open(out, "history", '{');
	sl_json_put_u64(out, "step_ms", SL_HISTORY_STEP_MS);
	put_instant(out, "last_ms", last);
	sl_json_put_u64(out, "steps", count);
	for (int i = ALLOWED; i <= CANDIDATE; i++)
		put_array(out, names[i], steps, count, i);
	sl_out_char(out, '}');
}

/* How often each bound of ours was met. */
static void put_bounds(struct sl_out *out, const struct sl_row_sum *sum) {
	sl_json_open(out, "bounds", '{');
	for (int bound = SLUICE_BOUND_NONE + 1; bound < SLUICE_BOUNDS; bound++)
		sl_json_put_u64(out, sluice_bound_name((sluice_bound)bound), sum->bounds[bound]);
	sl_out_char(out, '}');
}

/* `limit` is NULL for all limits in notation, whose row is 0, and for those that share a row. */
static void put_limit(struct sl_out *out, struct sl_stats *stats, uint32_t row, const struct sl_policy_limit *limit,
                      const struct wish *wish) {
	struct sl_row_sum sum = {.name = ""};
	struct sluice_bytes name = sl_str(limit != NULL ? limit->name : row == 0 ? "" : SL_STATS_OTHERS);
	if (wish->one && !sl_bytes_equal(wish->limit, name))
		return;
	(void)sl_stats_row(stats, row, &sum);
	sl_json_open(out, NULL, '{');
	sl_json_put_text(out, "name", name);
	sl_json_put_limit(out, "limit", limit == NULL ? NULL : &limit->limit);
	sl_json_put_bool(out, "observe", limit != NULL && limit->observe);
	if (limit != NULL && limit->canary != NULL)
		sl_json_put_text(out, "canary", sl_str(limit->canary));
	else
		sl_json_put_null(out, "canary");
	sl_json_put_limit(out, "candidate", limit != NULL && limit->has_candidate ? &limit->candidate : NULL);
	sl_json_put_u64(out, "allowed", sl_row_sum_decided(&sum, SL_VERDICT_ALLOWED));
	sl_json_put_u64(out, "denied", sl_row_sum_decided(&sum, SL_VERDICT_DENIED));
	sl_json_put_u64(out, "shadow_denied", sl_row_sum_decided(&sum, SL_VERDICT_SHADOW));
	sl_json_put_u64(out, "error", sl_row_sum_decided(&sum, SL_VERDICT_ERROR));
	sl_json_put_u64(out, "near", sum.near);
	sl_json_put_u64(out, "candidate_denied", sum.candidate);
	sl_json_put_u64(out, "hits_allowed", sum.hits[1]);
	sl_json_put_u64(out, "hits_denied", sum.hits[0]);
	sl_json_put_u64(out, "penalties", sum.penalties);
	put_bounds(out, &sum);
	if (wish->history)
		put_history(out, stats, row);
	sl_out_char(out, '}');
}

static void put_limits(struct sl_out *out, const struct sl_door_context *context, const struct wish *wish) {
	struct sl_stats *stats = context->shared->stats;
	sl_json_open(out, "limits", '[');
	put_limit(out, stats, 0, NULL, wish);
	for (uint32_t i = 0; context->rows != NULL && i < sl_stats_limits_of(context->policy); i++)
		put_limit(out, stats, context->rows[i], sl_policy_limit_at(context->policy, i), wish);
	const uint32_t own = sl_stats_limits_of(context->policy);
	if (context->rows != NULL && own != sl_policy_limit_count(context->policy))
		put_limit(out, stats, context->rows[own], NULL, wish);
	sl_out_char(out, ']');
}

/* ---- the route -------------------------------------------------------------------------------------------------- */

/* Takes one name=value; false where it is none of ours. `memory` gets a decoded name. */
static bool read_wish(struct sluice_bytes name, struct sluice_bytes value, char memory[SLUICE_NAME_BYTES_MAX * 3],
                      struct wish *wish) {
	if (sl_bytes_equal(name, sl_str("history"))) {
		wish->history = sl_bytes_equal(value, sl_str("1"));
		return wish->history || sl_bytes_equal(value, sl_str("0"));
	}
	if (!sl_bytes_equal(name, sl_str("limit")) || value.len > (size_t)SLUICE_NAME_BYTES_MAX * 3)
		return false;
	ptrdiff_t len = sl_http_decode(value, true, memory);
	wish->one = true;
	wish->limit = sl_slice(memory, len > 0 ? (size_t)len : 0);
	return len >= 0;
}

static bool read_wishes(const struct sl_http_exchange *exchange, char memory[SLUICE_NAME_BYTES_MAX * 3],
                        struct wish *wish) {
	struct sluice_bytes rest = exchange->request->query, name, value;
	while (sl_http_query_next(&rest, &name, &value))
		if (!read_wish(name, value, memory, wish))
			return false;
	return true;
}

static size_t room_for(const struct sl_door_context *context, const struct wish *wish) {
	size_t limits = wish->one ? 1 : (size_t)sl_stats_limits_of(context->policy) + 2;
	return ROOM + limits * (ROOM_LIMIT + (wish->history ? ROOM_HISTORY : 0));
}

void sl_http_route_figures(struct sl_http_exchange *exchange) {
	const struct sl_shared *shared = exchange->context->shared;
	char memory[SLUICE_NAME_BYTES_MAX * 3];
	struct wish wish = {0};
	struct sl_http_figures figures;
	struct sl_http_reply reply;
	if (shared == NULL || shared->stats == NULL) {
		sl_http_reply_problem(exchange, 503, sl_str("this server keeps no stats"), NULL);
		return;
	}
	if (sl_http_query_repeats(exchange->request->query)) {
		sl_http_reply_problem(exchange, 400, sl_str(SL_HTTP_REPEATED), NULL);
		return;
	}
	if (!read_wishes(exchange, memory, &wish)) {
		sl_http_reply_problem(exchange, 400, sl_str("expected nothing, or history=1 and limit=NAME, after the '?'"),
		                      NULL);
		return;
	}
	sl_http_figures_read(exchange, &figures);
	size_t room = room_for(exchange->context, &wish) + figures.client_count * ROOM_CLIENT;
	if (!sl_http_reply_begin(&reply, exchange, 200, "application/json", room))
		return;
	sl_http_reply_body(&reply);
	put_server(&reply.w, exchange, &figures);
	put_limits(&reply.w, exchange->context, &wish);
	sl_out_char(&reply.w, '}');
	sl_http_reply_end(&reply);
}
