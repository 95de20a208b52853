/* Settling: who is counted how, and that nothing of it changes what was decided. Candidates are held to that on the
 * bytes of the store: with them and without them they are the same after 100,000 random requests. */
#include "hosts/server/door/call_outcome.h"

#include "algo/step.h"
#include "hosts/admission/admission.h"
#include "hosts/admission/stagger.h"
#include "store/layout.h"
#include "store/store.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define NOW_NS (UINT64_C(1800000000000) * MS)

static uint64_t dice = 2463534242u;

static uint64_t draw(uint64_t below) {
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice % below;
}

/* ---- a server without its doors ---------------------------------------------------------------------------------- */

struct server {
	struct sl_door_context context;
	struct sl_shared shared;
	struct sluice_policy *policy;
	uint32_t rows[16];
	char *match_buffer;
	bool candidates; /* are tried */
	struct sluice_match match;
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint8_t of[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	struct sluice_call call;
};

static struct server *server_open(const char *yaml) {
	struct server *server = calloc(1, sizeof *server);
	const struct sluice_store_options options = {.memory_bytes = 4u << 20};
	assert_non_null(server);
	struct sluice_problems problems;
	if (sluice_policy_load(&server->policy, sl_str(yaml), &problems) != SLUICE_OK)
		fail_msg("%s: %s", yaml, problems.count == 0 ? "no memory" : problems.list[0].text);
	sluice_problems_free(&problems);
	assert_int_equal(sluice_store_open(&server->context.store, &options, NULL), SLUICE_OK);
	server->match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	server->candidates = true;
	server->shared.stats = sl_stats_new(1);
	server->shared.stagger = sl_stagger_new();
	server->context.policy = server->policy;
	server->context.shared = &server->shared;
	server->context.rows = server->rows;
	server->context.stats = sl_stats_worker(server->shared.stats, 0);
	server->context.top = sl_top_new();
	server->context.now = NOW_NS;
	sl_stats_enter(server->shared.stats, server->policy, server->rows);
	return server;
}

static void server_close(struct server *server) {
	sl_top_free(server->context.top);
	sl_stagger_free(server->shared.stagger);
	sl_stats_free(server->shared.stats);
	sluice_store_close(server->context.store);
	sluice_policy_free(server->policy);
	free(server->match_buffer);
	free(server);
}

/* Decides and settles one request of the policy, as the doors do. */
static const struct sluice_decision *admit(struct server *server, const char *user, uint32_t cost) {
	const struct sluice_attribute attributes[] = {{sl_str("user"), sl_str(user)}};
	assert_int_equal(sluice_policy_match(server->policy, attributes, 1, &server->match, server->match_buffer,
	                                     SLUICE_MATCH_BYTES_MAX),
	                 SLUICE_OK);
	uint32_t count = server->match.count;
	memcpy(server->items, server->match.items, count * sizeof server->items[0]);
	if (server->candidates)
		count = sl_call_outcome_add_candidates(server->policy, &server->match, server->items, server->of);
	server->call = (struct sluice_call){.items = server->items,
	                                    .item_count = count,
	                                    .cost = cost,
	                                    .now = sl_admission_instant(server->context.now, server->items, count),
	                                    .each = server->each};
	sluice_decide_many(server->context.store, &server->call, 1);
	const struct sl_call_outcome outcome = {.call = &server->call,
	                                        .positions = server->match.position,
	                                        .shown = server->match.count,
	                                        .candidate_of = server->of,
	                                        .transport = SL_TRANSPORT_HTTP};
	sl_call_outcome_settle(&server->context, &outcome);
	return &server->call.merged;
}

/* Settles a request for a path that every limit of the policy that applies to it denies. */
static void deny_at(struct server *server, const char *path) {
	const struct sluice_attribute attributes[] = {{sl_str("path"), sl_str(path)}};
	server->call = (struct sluice_call){.items = server->items, .each = server->each, .cost = 2, .now = NOW_NS};
	assert_int_equal(sluice_policy_match(server->policy, attributes, 1, &server->match, server->match_buffer,
	                                     SLUICE_MATCH_BYTES_MAX),
	                 SLUICE_OK);
	memcpy(server->items, server->match.items, server->match.count * sizeof server->items[0]);
	server->call.item_count = server->match.count;
	sluice_decide_many(server->context.store, &server->call, 1);
	const struct sl_call_outcome outcome = {.call = &server->call,
	                                        .positions = server->match.position,
	                                        .shown = server->match.count,
	                                        .transport = SL_TRANSPORT_HTTP,
	                                        .asker = {.attributes = attributes, .attribute_count = 1}};
	sl_call_outcome_settle(&server->context, &outcome);
}

static struct sl_row_sum row(struct server *server, const char *name) {
	struct sl_row_sum sum;
	for (uint32_t i = 0; i < sl_stats_row_count(server->shared.stats); i++)
		if (sl_stats_row(server->shared.stats, i, &sum) && strcmp(sum.name, name) == 0)
			return sum;
	fail_msg("no row %s", name);
	return sum;
}

static uint32_t top_of(struct server *server, enum sl_top_kind kind, struct sl_top_entry entries[8]) {
	return sl_top_list(&server->context.top, 1, kind, server->context.now, entries, 8);
}

#define ASSERT_ROW(server, name, allowed, denied, shadow, cost_denied, cost_allowed)      \
	do {                                                                                  \
		struct sl_row_sum sum_ = row(server, name);                                       \
		assert_int_equal(sum_.decisions[SL_TRANSPORT_HTTP][SL_VERDICT_ALLOWED], allowed); \
		assert_int_equal(sum_.decisions[SL_TRANSPORT_HTTP][SL_VERDICT_DENIED], denied);   \
		assert_int_equal(sum_.decisions[SL_TRANSPORT_HTTP][SL_VERDICT_SHADOW], shadow);   \
		assert_int_equal(sum_.hits[0], cost_denied);                                      \
		assert_int_equal(sum_.hits[1], cost_allowed);                                     \
	} while (0)

/* ---- what is counted --------------------------------------------------------------------------------------------- */

static void test_each_limit_is_counted_by_its_own_answer(void **state) {
	struct sl_top_entry entries[8];
	struct sl_stats_sum sum;
	(void)state;
	struct server *server =
		server_open("near-limit: 20%\n"
	                "limits:\n"
	                "  - {name: wide, key: user, limit: 100/1m}\n"
	                "  - {name: tight, key: user, limit: sliding-log 4/1m, candidate: sliding-log 3/1m}\n"
	                "  - {name: seen, key: user, limit: sliding-log 2/1m, observe: true}\n");
	for (int i = 0; i < 6; i++)
		admit(server, "ann", 1);
	ASSERT_ROW(server, "wide", 6, 0, 0, 0, 6);
	ASSERT_ROW(server, "tight", 4, 2, 0, 2, 4);
	ASSERT_ROW(server, "seen", 2, 0, 4, 4, 2);
	ASSERT_ROW(server, "", 0, 0, 0, 0, 0);
	assert_int_equal(row(server, "tight").near, 1); /* 20 % of 4: when none is left */
	assert_int_equal(row(server, "seen").near, 1);
	assert_int_equal(row(server, "wide").near, 0);
	assert_int_equal(row(server, "tight").candidate, 3);
	assert_int_equal(row(server, "wide").candidate, 0);
	sl_stats_sum(server->shared.stats, &sum);
	assert_int_equal(sum.requests[SL_TRANSPORT_HTTP][SL_VERDICT_ALLOWED], 4);
	assert_int_equal(sum.requests[SL_TRANSPORT_HTTP][SL_VERDICT_DENIED], 2);
	assert_int_equal(sum.requests[SL_TRANSPORT_RESP][SL_VERDICT_ALLOWED], 0);
	assert_int_equal(top_of(server, SL_TOP_SHADOW, entries), 1);
	assert_int_equal(entries[0].count, 4);
	assert_memory_equal(entries[0].limit, "seen", 4);
	assert_memory_equal(entries[0].key, "user=ann", 8);
	assert_int_equal(top_of(server, SL_TOP_CANDIDATE, entries), 1);
	assert_int_equal(entries[0].count, 3);
	assert_true(entries[0].named);
	assert_memory_equal(entries[0].limit, "tight", 5);
	assert_memory_equal(entries[0].key, "user=ann", 8);
	assert_int_equal(top_of(server, SL_TOP_DENIED, entries), 1); /* no shadow */
	assert_int_equal(entries[0].count, 2);
	assert_true(entries[0].named);
	assert_memory_equal(entries[0].limit, "tight", 5);
	assert_memory_equal(entries[0].key, "user=ann", 8);
	assert_int_equal(top_of(server, SL_TOP_NEAR, entries), 2);
	server_close(server);
}

static void test_denials_are_counted_by_the_route_of_their_limit(void **state) {
	static const char yaml[] =
		"paths: {case: ignore}\n"
		"limits:\n"
		"  - {name: a, key: [], limit: 1/1h, when: {path: ['/o/{org}/s', '/o/*', /x]}}\n"
		"  - {name: b, key: [], limit: 1/1h, when: {path: '/O/{org}/s'}}\n"
		"  - {name: w, key: [], limit: 1/1h, when: {path: /x}, observe: true}\n"
		"  - {name: all, key: [], limit: 1/1h}\n";
	static const struct {
		const char *path;
		uint64_t told[5]; /* so far */
	} table[] = {
		{"/o/acme/s?q=1", {1, 0, 0, 1, 0}}, /* the first that holds, of each limit */
		{"//O/%6Fther/./S", {2, 0, 0, 2, 0}}, /* in the form of paths */
		{"/o/acme/t", {2, 1, 0, 2, 0}},
		{"/x", {2, 1, 1, 2, 0}}, /* observed: no denial */
		{"/elsewhere", {2, 1, 1, 2, 0}}, /* denied by what names no path */
	};
	static const char *const names[] = {"a /o/{org}/s", "a /o/*", "a /x", "b /O/{org}/s", "w /x"};
	struct server *server = server_open(yaml);
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		deny_at(server, table[i].path);
		assert_false(server->call.merged.allowed);
		for (uint32_t k = 0; k < 5; k++) {
			struct sl_route_sum sum;
			char name[sizeof sum];
			assert_true(sl_route_stats_row(sl_stats_routes(server->shared.stats), k, &sum));
			snprintf(name, sizeof name, "%s %s", sum.limit, sum.route);
			assert_string_equal(name, names[k]);
			if (sum.denied != table[i].told[k])
				fail_msg("%s: %s has %llu", table[i].path, name, (unsigned long long)sum.denied);
		}
	}
	server_close(server);
}

static void test_notation_is_counted_once_by_who_decided(void **state) {
	struct sluice_limit limits[2];
	struct sl_top_entry entries[8];
	(void)state;
	struct server *server = server_open("limits: []\n");
	assert_int_equal(sluice_limit_parse(&limits[0], sl_str("100/1m"), NULL), SLUICE_OK);
	assert_int_equal(sluice_limit_parse(&limits[1], sl_str("fixed-window 2/60s"), NULL), SLUICE_OK);
	const struct sluice_item items[] = {{.limit = &limits[0], .key = sl_str("k")},
	                                    {.limit = &limits[1], .key = sl_str("\xff")}};
	struct sluice_call call = {.items = items, .item_count = 2, .cost = 1, .now = NOW_NS};
	const struct sl_call_outcome outcome = {.call = &call, .shown = 2, .transport = SL_TRANSPORT_HTTP};
	for (int i = 0; i < 3; i++) {
		sluice_decide_many(server->context.store, &call, 1);
		sl_call_outcome_settle(&server->context, &outcome);
	}
	ASSERT_ROW(server, "", 2, 1, 0, 1, 2);
	assert_int_equal(top_of(server, SL_TOP_DENIED, entries), 1);
	assert_false(entries[0].named);
	assert_int_equal(entries[0].limit_len, strlen("fixed-window 2/1m"));
	assert_memory_equal(entries[0].limit, "fixed-window 2/1m", entries[0].limit_len);
	assert_memory_equal(entries[0].key, "\xff", 1);
	/* what a batch takes together is counted alike */
	struct sl_call_outcome_plain plain = {.near_percent = 5};
	assert_false(sl_call_outcome_take(&plain, &call)); /* denied */
	call.item_count = 1;
	sluice_decide_many(server->context.store, &call, 1);
	assert_true(sl_call_outcome_take(&plain, &call));
	sl_call_outcome_settle_plain(&server->context, SL_TRANSPORT_HTTP, &plain);
	ASSERT_ROW(server, "", 3, 1, 0, 1, 3);
	call.cost = 96; /* three are left, near the limit: not to be taken */
	sluice_decide_many(server->context.store, &call, 1);
	assert_true(call.merged.allowed);
	assert_false(sl_call_outcome_take(&plain, &call));
	call.err = SLUICE_E_AWAY;
	assert_false(sl_call_outcome_take(&plain, &call));
	server_close(server);
}

/* A bound is a decision, counted by name beside it, and never an error; what is kept more coarsely, too. */
static void test_bounds_are_counted_by_name(void **state) {
	(void)state;
	struct server *server = server_open("limits:\n"
	                                    "  - {name: a, key: user, limit: 100/1m}\n"
	                                    "  - {name: b, key: user, limit: 100/1m, observe: true}\n");
	admit(server, "ann", 1);
	server->call.each[0].bound = SLUICE_BOUND_KEY;
	sl_decide_bound(&server->call.each[1], SLUICE_BOUND_ROOM, 7);
	const struct sl_call_outcome outcome = {.call = &server->call,
	                                        .positions = server->match.position,
	                                        .shown = server->match.count,
	                                        .candidate_of = server->of,
	                                        .transport = SL_TRANSPORT_HTTP};
	sl_call_outcome_settle(&server->context, &outcome);
	assert_int_equal(row(server, "a").bounds[SLUICE_BOUND_KEY], 1);
	assert_int_equal(row(server, "b").bounds[SLUICE_BOUND_ROOM], 1);
	assert_int_equal(row(server, "b").bounds[SLUICE_BOUND_KEY], 0);
	ASSERT_ROW(server, "a", 2, 0, 0, 0, 2);
	ASSERT_ROW(server, "b", 1, 0, 1, 1, 1);
	struct sl_call_outcome_plain plain = {.near_percent = 5};
	server->call.merged.bound = SLUICE_BOUND_KEY;
	assert_false(sl_call_outcome_take(&plain, &server->call));
	server->call.merged.bound = SLUICE_BOUND_NONE;
	assert_true(sl_call_outcome_take(&plain, &server->call));
	assert_string_equal(sluice_bound_name(SLUICE_BOUND_RESERVATIONS), "reservations");
	assert_string_equal(sluice_bound_name((sluice_bound)SLUICE_BOUNDS), "none");
	server_close(server);
}

static void test_what_cannot_be_decided_is_an_error_of_each(void **state) {
	struct sl_stats_sum sum;
	(void)state;
	struct server *server = server_open("limits:\n"
	                                    "  - {name: a, key: user, limit: 100/1m, on-error: deny}\n"
	                                    "  - {name: b, key: user, limit: 100/1m}\n");
	admit(server, "ann", 1);
	server->call.err = SLUICE_E_AWAY;
	const struct sl_call_outcome outcome = {.call = &server->call,
	                                        .positions = server->match.position,
	                                        .shown = server->match.count,
	                                        .candidate_of = server->of,
	                                        .transport = SL_TRANSPORT_HTTP};
	sl_call_outcome_settle(&server->context, &outcome);
	const struct sl_call_outcome notation = {.call = &server->call, .shown = 2, .transport = SL_TRANSPORT_RESP};
	sl_call_outcome_settle(&server->context, &notation);
	assert_int_equal(row(server, "a").decisions[SL_TRANSPORT_HTTP][SL_VERDICT_ERROR], 1);
	assert_int_equal(row(server, "b").decisions[SL_TRANSPORT_HTTP][SL_VERDICT_ERROR], 1);
	assert_int_equal(row(server, "").decisions[SL_TRANSPORT_RESP][SL_VERDICT_ERROR], 1);
	ASSERT_ROW(server, "a", 1, 0, 0, 0, 1);
	sl_stats_sum(server->shared.stats, &sum);
	assert_int_equal(sum.requests[SL_TRANSPORT_HTTP][SL_VERDICT_ERROR], 1);
	assert_int_equal(sum.requests[SL_TRANSPORT_RESP][SL_VERDICT_ERROR], 1);
	/* with nothing to count in, nothing is counted, and nothing breaks */
	server->context.stats = NULL;
	sl_top_free(server->context.top);
	server->context.top = NULL;
	sl_call_outcome_settle(&server->context, &outcome);
	server->call.err = SLUICE_OK;
	sl_call_outcome_settle(&server->context, &outcome);
	server_close(server);
}

/* Of a call that was decided without some limits, whose nodes are away, these are errors, whatever on-error says. */
static void test_a_limit_that_nobody_decided_is_an_error_of_its_own(void **state) {
	(void)state;
	struct server *server = server_open("near-limit: 99%\n"
	                                    "limits:\n"
	                                    "  - {name: a, key: user, limit: 100/1m}\n"
	                                    "  - {name: b, key: user, limit: 100/1m}\n"
	                                    "  - {name: c, key: user, limit: 100/1m, observe: true}\n");
	admit(server, "ann", 1);
	struct sl_undecided undecided = {.items = 2, .failed = 6};
	const struct sl_call_outcome outcome = {.call = &server->call,
	                                        .positions = server->match.position,
	                                        .shown = server->match.count,
	                                        .candidate_of = server->of,
	                                        .transport = SL_TRANSPORT_HTTP,
	                                        .undecided = &undecided};
	sl_call_outcome_settle(&server->context, &outcome);
	ASSERT_ROW(server, "a", 2, 0, 0, 0, 2);
	ASSERT_ROW(server, "b", 1, 0, 0, 0, 1);
	ASSERT_ROW(server, "c", 1, 0, 0, 0, 1);
	for (const char *name = "b"; *name != '\0'; name = *name == 'b' ? "c" : "") {
		assert_int_equal(row(server, name).decisions[SL_TRANSPORT_HTTP][SL_VERDICT_ERROR], 1);
		assert_int_equal(row(server, name).near, 1); /* of the first request */
	}
	assert_int_equal(row(server, "b").undecided, 1);
	assert_int_equal(row(server, "c").undecided, 0); /* it lets all pass */
	server_close(server);
}

/* ---- staggering -------------------------------------------------------------------------------------------------- */

/* Where limits cost differently and one costs nothing, the call's cost is 0 and items say theirs. */
static void test_a_lease_is_counted_whatever_other_limits_cost(void **state) {
	struct server *server = server_open("limits:\n"
	                                    "- {name: bytes, key: user, limit: 100/1h}\n"
	                                    "- {name: flight, key: user, limit: concurrency 5 lease 1m}\n");
	const struct sluice_attribute user = {sl_str("user"), sl_str("ann")};
	static const struct {
		uint32_t cost, bytes, flight;
	} calls[] = {{1, 0, 0}, {0, 0, 1}, {1, 7, 0}, {0, 0, 0}, {0, 7, 1}}; /* four of them hold a lease */
	(void)state;
	assert_int_equal(sluice_policy_match(server->policy, &user, 1, &server->match, server->match_buffer,
	                                     SLUICE_MATCH_BYTES_MAX),
	                 SLUICE_OK);
	assert_int_equal(server->match.count, 2);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		char id[SL_TICKET_ID_DIGITS + 1];
		memcpy(server->items, server->match.items, 2 * sizeof server->items[0]);
		server->items[0].cost = calls[i].bytes;
		server->items[1].cost = calls[i].flight;
		sluice_make_id(id);
		server->call = (struct sluice_call){.items = server->items,
		                                    .item_count = 2,
		                                    .cost = calls[i].cost,
		                                    .operation = SLUICE_ACQUIRE,
		                                    .id = sl_str(id),
		                                    .now = NOW_NS,
		                                    .each = server->each};
		sluice_decide_many(server->context.store, &server->call, 1);
		assert_true(server->call.err == SLUICE_OK && server->call.merged.allowed);
		const struct sl_call_outcome outcome = {.call = &server->call,
		                                        .positions = server->match.position,
		                                        .shown = 2,
		                                        .transport = SL_TRANSPORT_HTTP};
		sl_call_outcome_settle(&server->context, &outcome);
	}
	assert_int_equal(sluice_holders(server->context.store, server->match.items[1].limit, server->match.items[1].key,
	                                NOW_NS, NULL, 0),
	                 4);
	assert_int_equal(server->context.stats->events[SL_TRANSPORT_HTTP][SL_EVENT_LEASE_ACQUIRED], 4);
	server_close(server);
}

static void test_only_limits_that_say_so_are_staggered(void **state) {
	(void)state;
	struct server *server =
		server_open("limits:\n"
	                "  - {name: plain, key: user, limit: sliding-log 3/1m}\n"
	                "  - {name: spread, key: user, limit: token-bucket 1/1s burst 3, stagger: true}\n");
	for (int i = 0; i < 3; i++)
		assert_true(admit(server, "ann", 1)->allowed);
	for (uint64_t i = 1; i <= 70; i++) {
		const struct sluice_decision *merged = admit(server, "ann", 1);
		assert_false(merged->allowed);
		assert_int_equal(server->each[0].retry_after_ns, 60000 * MS);
		/* sixteen windows of a second ahead, then a new round */
		assert_int_equal(server->each[1].retry_after_ns, ((i - 1) % SL_STAGGER_WINDOWS + 1) * 1000 * MS);
		assert_int_equal(merged->retry_after_ns, 60000 * MS);
		assert_int_equal(merged->index, 0);
	}
	server_close(server);
}

static void test_the_merged_answer_follows_a_staggered_wait(void **state) {
	(void)state;
	struct server *server =
		server_open("limits:\n"
	                "  - {name: plain, key: user, limit: fixed-window 3/3s}\n"
	                "  - {name: spread, key: user, limit: token-bucket 1/1s burst 2, stagger: true}\n");
	admit(server, "ann", 2);
	for (uint64_t i = 1; i <= 5; i++) {
		const struct sluice_decision *merged = admit(server, "ann", 2);
		assert_false(merged->allowed);
		assert_int_equal(server->each[1].retry_after_ns, 2000 * i * MS);
		assert_int_equal(merged->index, i == 1 ? 0 : 1);
		assert_int_equal(merged->quota, i == 1 ? 3 : 2);
		assert_int_equal(merged->retry_after_ns, (i == 1 ? 3000 : 2000 * i) * MS);
	}
	/* an instant that the client set is not staggered */
	server->call.now += 1000 * MS;
	sluice_decide_many(server->context.store, &server->call, 1);
	const struct sl_call_outcome outcome = {.call = &server->call,
	                                        .positions = server->match.position,
	                                        .shown = server->match.count,
	                                        .candidate_of = server->of,
	                                        .transport = SL_TRANSPORT_HTTP};
	sl_call_outcome_settle(&server->context, &outcome);
	assert_int_equal(server->each[1].retry_after_ns, 1000 * MS);
	server_close(server);
}

/* ---- candidates change nothing ----------------------------------------------------------------------------------- */

/* All counters and their blocks; what stands before them says who has the store open. */
static void compare_stores(const struct sluice_store *a, const struct sluice_store *b) {
	size_t bytes, others;
	const char *x = sl_store_arena(a, &bytes), *y = sl_store_arena(b, &others);
	assert_int_equal(bytes, others);
	for (size_t i = SL_PAGES_OFFSET; i < bytes; i++)
		if (x[i] != y[i])
			fail_msg("byte %zu of the stores differs: %02x, %02x", i, x[i] & 255, y[i] & 255);
}

/* Gives both a store with the same secret, so that they place a key alike: a file, and a copy of it. */
static void share_secret(struct server *a, struct server *b) {
	char folder[] = "/tmp/sluice-outcome-XXXXXX", command[128], paths[2][64];
	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < 2; i++) {
		struct sluice_store **store = i == 0 ? &a->context.store : &b->context.store;
		snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
		const struct sluice_store_options options = {.memory_bytes = 4u << 20, .file = paths[i], .existing = i == 1};
		sluice_store_close(*store);
		assert_int_equal(sluice_store_open(store, &options, NULL), SLUICE_OK);
		if (i == 0) {
			snprintf(command, sizeof command, "cp %s/0 %s/1", folder, folder);
			assert_int_equal(system(command), 0);
		}
	}
	for (int i = 0; i < 2; i++)
		unlink(paths[i]);
	rmdir(folder);
}

static void with_and_without(const char *limit, const char *candidate, const char *observe) {
	char yaml[512], user[8];
	snprintf(yaml, sizeof yaml,
	         "limits:\n"
	         "  - {name: a, key: user, limit: %s, candidate: %s, observe: %s}\n"
	         "  - {name: b, key: [], limit: 3000/1m}\n",
	         limit, candidate, observe);
	struct server *with = server_open(yaml), *without = server_open(yaml);
	share_secret(with, without);
	without->candidates = false;
	sluice_ns now = NOW_NS;
	for (int i = 0; i < 100000 / 21; i++) {
		now += draw(20) == 0 ? draw(30000) * MS : draw(400) * MS + draw(MS);
		uint32_t cost = draw(10) == 0 ? (uint32_t)draw(60) : (uint32_t)draw(4);
		snprintf(user, sizeof user, "%" PRIu64, draw(12));
		with->context.now = without->context.now = now;
		struct sluice_decision one = *admit(with, user, cost), other = *admit(without, user, cost);
		assert_memory_equal(&one, &other, sizeof one);
		assert_memory_equal(with->each, without->each, 2 * sizeof one);
	}
	compare_stores(with->context.store, without->context.store);
	struct sl_row_sum sum = row(with, "a");
	assert_true(sum.candidate > 100); /* it was tried, and it matters */
	assert_int_equal(row(without, "a").candidate, 0);
	server_close(with);
	server_close(without);
}

static void test_candidates_change_no_decision_and_no_byte(void **state) {
	static const char *const limits[][3] = {
		{"fixed-window 30/1m", "fixed-window 20/1m", "fixed-window 45/1m"},
		{"sliding-window 30/1m", "20/1m", "45/1m"},
		{"sliding-log 30/1m", "sliding-log 20/1m", "sliding-log 45/1m"},
		{"sliding-buckets 30/1m precision 5s", "sliding-buckets 20/1m precision 5s",
	     "sliding-buckets 45/1m precision 5s edge drop"},
		{"sliding-buckets 30/1m precision 5s edge weighted", "sliding-buckets 20/1m precision 5s edge weighted",
	     "sliding-buckets 45/1m precision 5s edge weighted"},
		{"token-bucket 30/1m burst 20", "token-bucket 30/1m burst 10", "token-bucket 50/1m burst 40"},
		{"leaky-bucket 30/1m queue 20", "leaky-bucket 30/1m queue 10", "leaky-bucket 50/1m queue 40"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		with_and_without(limits[i][0], limits[i][1], "false");
		with_and_without(limits[i][0], limits[i][2], "false");
		with_and_without(limits[i][0], limits[i][2], "true");
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_limit_is_counted_by_its_own_answer),
		cmocka_unit_test(test_denials_are_counted_by_the_route_of_their_limit),
		cmocka_unit_test(test_notation_is_counted_once_by_who_decided),
		cmocka_unit_test(test_bounds_are_counted_by_name),
		cmocka_unit_test(test_what_cannot_be_decided_is_an_error_of_each),
		cmocka_unit_test(test_a_limit_that_nobody_decided_is_an_error_of_its_own),
		cmocka_unit_test(test_a_lease_is_counted_whatever_other_limits_cost),
		cmocka_unit_test(test_only_limits_that_say_so_are_staggered),
		cmocka_unit_test(test_the_merged_answer_follows_a_staggered_wait),
		cmocka_unit_test(test_candidates_change_no_decision_and_no_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
