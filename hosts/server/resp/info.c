/* INFO and CONFIG GET: what tools ask before they trust a server. The sections and fields of Redis that clients read,
 * with true values, and a section of our own. */
#include "hosts/server/resp/resp.h"
#include "store/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const struct sl_figures *figures_of(const struct sl_resp_turn *turn) {
	return turn->context->shared == NULL ? NULL : turn->context->shared->figures;
}

static uint64_t sum(const struct sl_figures *figures, size_t offset) {
	uint64_t total = 0;
	if (figures == NULL)
		return 0;
	for (uint32_t i = 0; i < figures->worker_count; i++) {
		const char *line = (const char *)&figures->workers[i];
		total += atomic_load_explicit((const _Atomic uint64_t *)(const void *)(line + offset), memory_order_relaxed);
	}
	return total;
}

static uint64_t uptime_s(const struct sl_resp_turn *turn) {
	const struct sl_figures *figures = figures_of(turn);
	if (figures == NULL || turn->context->now < figures->started)
		return 0;
	return (turn->context->now - figures->started) / 1000000000;
}

static void put_line(struct sl_out *out, const char *name, uint64_t value) {
	sl_out_str(out, name);
	sl_out_char(out, ':');
	sl_out_u64(out, value);
	sl_out_str(out, "\r\n");
}

static void put_server(const struct sl_resp_turn *turn, struct sl_out *out) {
	const struct sl_figures *figures = figures_of(turn);
	sl_out_str(out, "redis_version:7.0.15\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\n");
	put_line(out, "process_id", (uint64_t)getpid());
	put_line(out, "tcp_port", figures == NULL ? 0 : figures->resp_port);
	put_line(out, "server_time_usec", turn->context->now / 1000);
	put_line(out, "uptime_in_seconds", uptime_s(turn));
	put_line(out, "uptime_in_days", uptime_s(turn) / 86400);
}

static void put_clients(const struct sl_resp_turn *turn, struct sl_out *out) {
	const struct sl_figures *figures = figures_of(turn);
	put_line(out, "connected_clients",
	         sum(figures, offsetof(struct sl_worker_figures, opened[SL_TRANSPORT_RESP])) -
	             sum(figures, offsetof(struct sl_worker_figures, closed[SL_TRANSPORT_RESP])));
}

/* What the store has; a file keeps its size whatever a policy without `memory` would give a new one. */
static uint64_t store_bytes(const struct sl_resp_turn *turn) {
	size_t bytes;
	sl_store_arena(turn->context->store, &bytes);
	return bytes;
}

static void put_memory(const struct sl_resp_turn *turn, struct sl_out *out) {
	put_line(out, "maxmemory", store_bytes(turn));
	sl_out_str(out, "maxmemory_policy:allkeys-lfu\r\n");
}

static void put_persistence(const struct sl_resp_turn *turn, struct sl_out *out) {
	(void)turn;
	sl_out_str(out, "loading:0\r\naof_enabled:0\r\n");
}

static void put_stats(const struct sl_resp_turn *turn, struct sl_out *out) {
	const struct sl_figures *figures = figures_of(turn);
	put_line(out, "total_connections_received",
	         sum(figures, offsetof(struct sl_worker_figures, opened[SL_TRANSPORT_RESP])));
	put_line(out, "total_commands_processed", sum(figures, offsetof(struct sl_worker_figures, commands)));
	put_line(out, "rejected_connections",
	         figures == NULL ? 0 : atomic_load_explicit(&figures->refused, memory_order_relaxed));
}

static void put_replication(const struct sl_resp_turn *turn, struct sl_out *out) {
	(void)turn;
	sl_out_str(out, "role:master\r\nconnected_slaves:0\r\n");
}

static void put_cluster(const struct sl_resp_turn *turn, struct sl_out *out) {
	(void)turn;
	sl_out_str(out, "cluster_enabled:0\r\n");
}

static void put_decided(struct sl_out *out, int transport, const char *verdict, uint64_t value) {
	char name[48];
	snprintf(name, sizeof name, "sluice_%s_%s", sl_transport_names[transport], verdict);
	put_line(out, name, value);
}

/* What the doors have decided, and what is in the store. */
static void put_decisions(const struct sl_shared *shared, struct sl_out *out) {
	struct sl_stats_sum stats;
	struct sl_store_figures store;
	if (shared == NULL || shared->stats == NULL)
		return;
	sl_stats_sum(shared->stats, &stats);
	for (int i = 0; i < SL_TRANSPORTS; i++) {
		put_decided(out, i, "allowed", stats.requests[i][SL_VERDICT_ALLOWED]);
		put_decided(out, i, "denied", stats.requests[i][SL_VERDICT_DENIED]);
		put_decided(out, i, "error", stats.requests[i][SL_VERDICT_ERROR]);
	}
	if (shared->store_stats == NULL)
		return;
	sl_store_stats_read(shared->store_stats, &store);
	if (store.counted != 0)
		put_line(out, "sluice_keys", store.keys);
	put_line(out, "sluice_keys_evicted", store.evicted);
}

static void put_sluice(const struct sl_resp_turn *turn, struct sl_out *out) {
	const struct sl_figures *figures = figures_of(turn);
	sl_out_str(out, "sluice_version:" SLUICE_VERSION "\r\n");
	put_line(out, "sluice_threads", figures == NULL ? 1 : figures->worker_count);
	put_line(out, "sluice_limits", sl_policy_limit_count(turn->context->policy));
	put_line(out, "sluice_ready", sl_door_unready(turn->context) == NULL);
	put_line(out, "sluice_client_time", sl_policy_settings(turn->context->policy)->client_time);
	if (turn->context->shared == NULL || turn->context->shared->stats == NULL)
		return;
	struct sl_stats_sum sum;
	sl_stats_sum(turn->context->shared->stats, &sum);
	put_line(out, "sluice_requests_allowed", sl_stats_sum_decided(&sum, SL_VERDICT_ALLOWED));
	put_line(out, "sluice_requests_denied", sl_stats_sum_decided(&sum, SL_VERDICT_DENIED));
	put_decisions(turn->context->shared, out);
}

static const struct section {
	const char *name, *title;
	void (*put)(const struct sl_resp_turn *turn, struct sl_out *out);
} sections[] = {
	{"server", "# Server\r\n", put_server},    {"clients", "# Clients\r\n", put_clients},
	{"memory", "# Memory\r\n", put_memory},    {"persistence", "# Persistence\r\n", put_persistence},
	{"stats", "# Stats\r\n", put_stats},       {"replication", "# Replication\r\n", put_replication},
	{"cluster", "# Cluster\r\n", put_cluster}, {"sluice", "# Sluice\r\n", put_sluice},
};

static bool wants(const struct sl_resp_turn *turn, const char *section) {
	static const char *const all[] = {"all", "default", "everything"};
	bool wanted = turn->request->count == 1;
	for (uint32_t i = 1; i < turn->request->count; i++) {
		wanted |= sl_bytes_equal_nocase(sl_resp_arg(turn, i), section);
		for (size_t j = 0; j < sizeof all / sizeof *all; j++)
			wanted |= sl_bytes_equal_nocase(sl_resp_arg(turn, i), all[j]);
	}
	return wanted;
}

void sl_resp_info(struct sl_resp_turn *turn) {
	char memory[4096];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
		if (!wants(turn, sections[i].name))
			continue;
		if (sl_out_len(&out) != 0)
			sl_out_str(&out, "\r\n");
		sl_out_str(&out, sections[i].title);
		sections[i].put(turn, &out);
	}
	sl_reply_verbatim(turn, sl_slice(memory, sl_out_len(&out)));
}

/* ---- CONFIG --------------------------------------------------------------------------------------------------- */

/* `*` and `?`, all else as it is, in any case. Goes back to the last star only: at most pattern x text steps. */
static bool glob(struct sluice_bytes pattern, const char *text) {
	const char *p = pattern.data, *end = p + pattern.len, *star = NULL, *mark = text;
	while (*text != '\0') {
		char c = p < end && *p >= 'A' && *p <= 'Z' ? (char)(*p | 0x20) : p < end ? *p : '\0';
		if (p < end && c == '*') {
			star = ++p;
			mark = text;
		} else if (p < end && (c == '?' || c == *text)) {
			p++;
			text++;
		} else if (star != NULL) {
			p = star;
			text = ++mark;
		} else {
			return false;
		}
	}
	while (p < end && *p == '*')
		p++;
	return p == end;
}

void sl_resp_config_get(struct sl_resp_turn *turn) {
	char maxmemory[24], port[24];
	const struct sl_figures *figures = figures_of(turn);
	snprintf(maxmemory, sizeof maxmemory, "%llu", (unsigned long long)store_bytes(turn));
	snprintf(port, sizeof port, "%u", figures == NULL ? 0 : figures->resp_port);
	const char *const settings[][2] = {
		{"appendonly", "no"},
		{"databases", "1"},
		{"maxmemory", maxmemory},
		{"maxmemory-policy", "allkeys-lfu"},
		{"port", port},
		{"proto-max-bulk-len", "65536"},
		{"save", ""},
		{"timeout", "0"},
	};
	enum { SETTINGS = sizeof settings / sizeof *settings };
	bool wanted[SETTINGS] = {false};
	size_t count = 0;
	for (size_t i = 0; i < SETTINGS; i++) {
		for (uint32_t j = 2; j < turn->request->count; j++)
			wanted[i] |= glob(sl_resp_arg(turn, j), settings[i][0]);
		count += wanted[i];
	}
	sl_reply_map(turn, count);
	for (size_t i = 0; i < SETTINGS; i++) {
		if (!wanted[i])
			continue;
		sl_reply_text(turn, settings[i][0]);
		sl_reply_text(turn, settings[i][1]);
	}
}

void sl_resp_no_cluster(struct sl_resp_turn *turn) {
	sl_reply_error(turn, "ERR This instance has cluster support disabled");
}
