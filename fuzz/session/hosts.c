/* One server of two workers, the second of which takes the connections of the first over as another process would; and
 * what decides when decisions are made elsewhere. */
#include "fuzz/session/session.h"

#include "hosts/server/door/inspected.h"
#include "hosts/server/net/connection.h"
#include "hosts/server/net/parcel.h"
#include "store/store.h"

#include <unistd.h>

/* The SHA-256 of "secret" and of "other". */
#define SECRET "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
#define OTHER "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"

static const char *const policies[POLICIES] = {
	"client-time: true\n"
	"trusted-proxies: [192.0.2.0/24]\n"
	"attributes: {user: header x-user}\n"
	"limits:\n"
	"  - {name: user, key: user | ip, limit: sliding-log 3/1m, candidate: sliding-log 2/1m, stagger: true}\n"
	"  - {name: path, when: {path: /a*}, key: path, limit: token-bucket 2/1s burst 5, on-error: deny}\n"
	"  - {name: seen, key: user, limit: leaky-bucket 1/1s queue 2, observe: true}\n",

	"connections: {idle: 5s, request: 2s, write: 1s, max: 6, per-address: 2}\n"
	"attributes: {user: header x-user}\n"
	"limits:\n"
	"  - {name: seen, key: user, limit: distinct 2/1m, of: path, on-error: allow}\n"
	"  - {name: user, key: user | ip, limit: 5/10s, penalty: [1s, 1m] after 2 denials in 1m}\n",

	"users:\n"
	"  - {name: admin, token: \"" SECRET "\", roles: [admin]}\n"
	"  - {name: reader, token: \"" OTHER "\", roles: [check, read]}\n"
	"limits:\n"
	"  - {name: path, key: [user, path], limit: sliding-buckets 4/1m precision 5s}\n"
	"  - {name: user, key: user, limit: concurrency 2 lease 5s}\n",

	"limits: []\n",
};

static struct sl_listener listeners[] = {
	{.fd = -1, .name = "unix:/a"},
	{.fd = -1, .name = "127.0.0.1:1", .proxy_protocol = true},
	{.fd = -1, .name = "127.0.0.1:2"},
};

/* ---- the policy -------------------------------------------------------------------------------------------------- */

/* As lifecycle/reload.c makes one. */
static struct sl_shared_policy *make_policy(struct hosts *hosts, uint32_t policy) {
	struct sl_shared_policy *shared = calloc(1, sizeof *shared);
	struct sluice_problems problems = {.count = 0};
	SL_ASSERT(shared != NULL);
	shared->holders = 1;
	SL_ASSERT(sluice_policy_load(&shared->policy, sl_str(policies[policy % POLICIES]), &problems) == SLUICE_OK);
	sluice_problems_free(&problems);
	shared->rows = calloc(sl_stats_rows_of(shared->policy) + 1, sizeof *shared->rows);
	SL_ASSERT(shared->rows != NULL);
	if (hosts->parts.shared.stats != NULL)
		sl_stats_enter(hosts->parts.shared.stats, shared->policy, shared->rows);
	return shared;
}

static bool is_running(const struct hosts *hosts, int worker) {
	return loop_is_alive(&hosts->workers[worker].loop);
}

void hosts_use_policy(struct hosts *hosts, uint32_t policy) {
	struct sl_shared_policy *shared = make_policy(hosts, policy);
	for (int i = 0; i < WORKERS; i++)
		if (is_running(hosts, i))
			sl_worker_set_policy(&hosts->workers[i], shared);
	sl_shared_policy_release(shared);
}

static void *ask(void *server, bool waits) {
	struct hosts *hosts = server;
	(void)waits;
	hosts->tickets++;
	return hosts->tickets > 3 ? (hosts->tickets--, NULL) : hosts;
}

/* It takes some looks, and then a policy is in force. */
static bool look(void *server, void *ticket, struct sl_reload *outcome) {
	struct hosts *hosts = server;
	SL_ASSERT(ticket == hosts);
	if (++hosts->looks % 3 != 0)
		return false;
	outcome->taken_over = true;
	outcome->limit_count = 1;
	hosts_use_policy(hosts, hosts->looks / 3);
	return true;
}

static void leave(void *server, void *ticket) {
	struct hosts *hosts = server;
	SL_ASSERT(ticket == hosts && hosts->tickets > 0);
	hosts->tickets--;
}

/* ---- decisions elsewhere ----------------------------------------------------------------------------------------- */

enum { SENT_MAX = 64 };

static struct sl_pending *sent[SENT_MAX];
static uint32_t sent_count;

/* Answers all of it: decided, or, where nobody is there, not. */
static void decide(struct sl_pending *pending, struct sluice_store *store) {
	if (pending->inspected != NULL) {
		pending->inspected->failed = SL_INSPECT_AWAY_TEXT;
		pending->inspected->err = (sluice_err)SLUICE_E_AWAY;
		return;
	}
	for (uint32_t i = 0; i < pending->call_count; i++) {
		struct sluice_call *call = &pending->calls[i].call;
		call->err = (sluice_err)SLUICE_E_AWAY;
		if (store != NULL) {
			call->now = pending->calls[i].dated ? call->now : sluice_store_now(store);
			call->err = sluice_decide(store, call);
		}
	}
}

static bool send_elsewhere(struct sl_remote *remote, struct sl_pending *pending) {
	(void)remote;
	if (sent_count == SENT_MAX) {
		decide(pending, NULL);
		return true;
	}
	sent[sent_count++] = pending;
	return false;
}

static struct sl_remote elsewhere = {.send = send_elsewhere};

bool hosts_settle(struct hosts *hosts, uint8_t which, bool away) {
	if (sent_count == 0)
		return false;
	uint32_t at = which % sent_count;
	struct sl_pending *pending = sent[at];
	sent[at] = sent[--sent_count];
	if (pending->to == NULL) {
		sl_pending_free(pending);
		return true;
	}
	decide(pending, away ? NULL : hosts->store);
	pending->ready(pending, pending->to);
	return true;
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

struct sl_worker *hosts_worker(struct hosts *hosts) {
	return &hosts->workers[hosts->has_left];
}

bool hosts_open(struct hosts *hosts, int fd, const struct sl_door *door, uint8_t from) {
	struct sl_worker *worker = hosts_worker(hosts);
	struct sl_arrival arrival = {.fd = fd, .door = door, .listener = &listeners[from % 3]};
	arrival.is_unix = from % 3 == 0;
	if (!arrival.is_unix)
		SL_ASSERT(sl_address_parse(sl_str(from < 128 ? "192.0.2.7" : "203.0.113.9"), &arrival.address, NULL));
	memcpy(arrival.peer, from % 3 == 0 ? "unix" : "peer:1", from % 3 == 0 ? 5 : 7);
	if (!sl_arrival_admit(hosts->parts.bounds, worker->context.policy, &arrival)) {
		close(fd);
		return false;
	}
	SL_ASSERT(sl_worker_give(worker, &arrival));
	return true;
}

static const struct sl_door *door_of(enum sl_transport transport) {
	static const struct sl_door *const doors[SL_TRANSPORTS] = {&sl_door_resp, &sl_door_http, &sl_door_spop,
	                                                           &sl_door_grpc};
	return doors[transport];
}

/* What lifecycle/upgrade.c and takeover.c do, in one. */
static bool give(void *to, int fd, const char *bytes, size_t len) {
	struct hosts *hosts = to;
	struct sl_parcel parcel;
	struct sl_arrival arrival;
	SL_ASSERT(sl_parcel_read(&parcel, bytes, len));
	for (size_t i = 0; i < sizeof listeners / sizeof listeners[0]; i++)
		if (sl_bytes_equal(parcel.listener, sl_str(listeners[i].name))) {
			wire_hold(fd);
			SL_ASSERT(sl_parcel_arrive(&parcel, fd, door_of(parcel.transport), &listeners[i], &arrival));
			sl_arrival_admit_moved(hosts->parts.bounds, hosts->workers[1].context.policy, &arrival);
			SL_ASSERT(sl_worker_give(&hosts->workers[1], &arrival));
			return true;
		}
	abort();
}

void hosts_hand_over(struct hosts *hosts) {
	if (!hosts->has_left && is_running(hosts, 0))
		sl_worker_hand_over(&hosts->workers[0], give, hosts);
	hosts->has_left = true;
}

void hosts_check_nobody_waits(const struct hosts *hosts) {
	for (int i = 0; i < WORKERS; i++)
		for (const struct sl_connection *c = hosts->workers[i].connections; c != NULL; c = c->next) {
			bool waits = c->unsent_len != 0 || c->pending != NULL || c->ready != NULL || c->waiting != NULL;
			SL_ASSERT(c->stage == SL_LINGERING || (c->stage != SL_FLUSHING && !waits && !c->more));
		}
}

/* ---- beginning, turns and end ------------------------------------------------------------------------------------ */

void hosts_begin(struct hosts *hosts, uint32_t policy, bool is_elsewhere) {
	struct sluice_store_options options = {.memory_bytes = SL_ARENA_BYTES_MIN};
	*hosts = (struct hosts){.is_elsewhere = is_elsewhere};
	sent_count = 0;
	SL_ASSERT(sluice_store_open(&hosts->store, &options, NULL) == SLUICE_OK);
	struct sl_shared_policy *first = make_policy(hosts, policy);
	SL_ASSERT(sl_parts_make(&hosts->parts, WORKERS, sl_policy_settings(first->policy)));
	sl_stats_enter(hosts->parts.shared.stats, first->policy, first->rows);
	hosts->parts.shared.server = hosts;
	hosts->parts.shared.reload_ask = ask;
	hosts->parts.shared.reload_look = look;
	hosts->parts.shared.reload_leave = leave;
	for (uint32_t i = 0; i < WORKERS; i++) {
		struct sl_worker_options worker = {.store = hosts->store,
		                                   .policy = first,
		                                   .shared = &hosts->parts.shared,
		                                   .number = i,
		                                   .own = &hosts->parts.figures->workers[i],
		                                   .next_id = &hosts->next_id,
		                                   .bounds = hosts->parts.bounds};
		SL_ASSERT(sl_worker_init(&hosts->workers[i], &worker) == SLUICE_OK);
		if (is_elsewhere)
			hosts->workers[i].context.remote = &elsewhere;
	}
	sl_shared_policy_release(first);
}

bool hosts_turn(struct hosts *hosts) {
	bool any = false;
	for (int i = 0; i < WORKERS; i++)
		any = (is_running(hosts, i) && loop_turn(&hosts->workers[i].loop)) || any;
	return any;
}

void hosts_end(struct hosts *hosts) {
	for (int i = 0; i < WORKERS; i++) {
		SL_ASSERT(!is_running(hosts, i));
		sl_worker_free(&hosts->workers[i]);
	}
	while (sent_count != 0) {
		SL_ASSERT(sent[sent_count - 1]->to == NULL); /* whoever waited for it is gone */
		sl_pending_free(sent[--sent_count]);
	}
	SL_ASSERT(hosts->tickets == 0 && sl_bounds_open(hosts->parts.bounds) == 0);
	sl_parts_free(&hosts->parts);
	sluice_store_close(hosts->store);
}
