/* Who asks: names find their rows, move with their connections, and are cleaned and cut; a client that names itself
 * anew each time takes no row from one that is connected, no decision is lost to the sums, and what was forgotten comes
 * back; all workers' pages add up to a bounded list. */
#include "hosts/server/watch/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORKERS = 3, NAMES = SL_CLIENT_ROWS - 2 * SL_TRANSPORTS };

static struct sl_stats *stats;
static struct sl_client_sum sums[SL_CLIENTS_TOLD_MAX];
static uint32_t sum_count;

static int setup(void **state) {
	(void)state;
	stats = sl_stats_new(WORKERS);
	return stats == NULL;
}

static int teardown(void **state) {
	(void)state;
	sl_stats_free(stats);
	return 0;
}

static struct sl_client_page *page_of(uint32_t worker) {
	return &sl_stats_worker(stats, worker)->clients;
}

static uint32_t name(uint32_t worker, uint32_t client, const char *text, const char *version) {
	return sl_client_stats_name(page_of(worker), client, sl_str(text), sl_str(version));
}

static uint32_t open_named(uint32_t worker, const char *text, const char *version) {
	return name(worker, sl_client_stats_open(page_of(worker), SL_TRANSPORT_RESP), text, version);
}

/* A worker decides, and a client is noted for it. */
static void decide(uint32_t worker, uint32_t client, enum sl_transport transport, enum sl_verdict verdict,
                   uint64_t count) {
	struct sl_worker_stats *page = sl_stats_worker(stats, worker);
	sl_count(&page->requests[transport][verdict], count);
	sl_client_stats_note(&page->clients, client, transport, page->requests[transport]);
}

static void read_sums(void) {
	sum_count = sl_stats_clients(stats, sums);
}

static const struct sl_client_sum *find(enum sl_client_kind kind, enum sl_transport transport, const char *text) {
	for (uint32_t i = 0; i < sum_count; i++)
		if (sums[i].kind == kind && sums[i].transport == transport && strcmp(sums[i].name, text) == 0)
			return &sums[i];
	return NULL;
}

static void assert_sum(enum sl_client_kind kind, const char *text, uint64_t open, uint64_t allowed, uint64_t denied) {
	const struct sl_client_sum *sum = find(kind, SL_TRANSPORT_RESP, text);
	assert_non_null(sum);
	assert_int_equal(sum->open, open);
	assert_int_equal(sum->decided[SL_VERDICT_ALLOWED], allowed);
	assert_int_equal(sum->decided[SL_VERDICT_DENIED], denied);
}

/* The sums by transport are those of the requests, whatever became of names. */
static void assert_whole(enum sl_transport transport) {
	struct sl_stats_sum all;
	sl_stats_sum(stats, &all);
	read_sums();
	for (int verdict = 0; verdict < SL_VERDICTS; verdict++) {
		uint64_t decided = 0;
		for (uint32_t i = 0; i < sum_count; i++)
			decided += sums[i].transport == transport ? sums[i].decided[verdict] : 0;
		assert_int_equal(decided, all.requests[transport][verdict]);
	}
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void test_a_connection_moves_to_its_name(void **state) {
	(void)state;
	uint32_t client = sl_client_stats_open(page_of(0), SL_TRANSPORT_RESP), other;
	decide(0, client, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 2); /* before it said who it is */
	client = name(0, client, "redis-py", "");
	client = name(0, client, "redis-py", "5.0.1");
	decide(0, client, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 7);
	decide(0, client, SL_TRANSPORT_RESP, SL_VERDICT_DENIED, 3);
	other = open_named(1, "redis-py", "5.0.1");
	decide(1, other, SL_TRANSPORT_RESP, SL_VERDICT_DENIED, 1);
	read_sums();
	assert_int_equal(sum_count, 2); /* the name without a version is told no more */
	assert_sum(SL_CLIENT_NAMED, "redis-py", 2, 7, 4);
	assert_string_equal(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, "redis-py")->version, "5.0.1");
	assert_sum(SL_CLIENT_UNNAMED, "", 0, 2, 0);
	client = name(0, client, "", "5.0.1"); /* no name is none */
	sl_client_stats_close(page_of(1), other);
	read_sums();
	assert_sum(SL_CLIENT_NAMED, "redis-py", 0, 7, 4);
	assert_sum(SL_CLIENT_UNNAMED, "", 1, 2, 0);
	sl_client_stats_close(page_of(0), client);
	assert_whole(SL_TRANSPORT_RESP);
}

static void test_none_is_not_counted(void **state) {
	(void)state;
	assert_int_equal(name(0, 0, "x", "1"), 0);
	sl_client_stats_close(page_of(0), 0);
	decide(0, 0, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 1);
	read_sums();
	assert_int_equal(sum_count, 0);
}

static void test_names_are_cleaned_and_cut(void **state) {
	(void)state;
	static const struct {
		const char *said, *kept;
	} names[] = {
		{"go-redis(,go1.21)", "go-redis(,go1.21)"},
		{"<b>\"x\"\\ y\x1b[2J\xff", "_b__x___y__2J_"},
		{"0123456789012345678901234567890123456789TOO LONG", "0123456789012345678901234567890123456789"},
	};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		(void)open_named(0, names[i].said, "1\n2");
		read_sums();
		assert_non_null(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, names[i].kept));
		assert_string_equal(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, names[i].kept)->version, "1_2");
	}
	const char zero[] = {'a', '\0', 'b'};
	(void)sl_client_stats_name(page_of(0), sl_client_stats_open(page_of(0), SL_TRANSPORT_RESP), sl_slice(zero, 3),
	                           sl_str(""));
	read_sums();
	assert_non_null(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, "a_b"));
}

static void test_agents_are_read(void **state) {
	(void)state;
	static const struct {
		const char *agent, *name, *version;
	} agents[] = {
		{"curl/8.5.0", "curl", "8.5.0"},
		{"grpc-python/1.62.0 grpc-c/39.0.0 (linux; chttp2)", "grpc-python", "1.62.0"},
		{"Go-http-client/1.1", "Go-http-client", "1.1"},
		{"node", "node", ""},
		{"thing(x)/2", "thing", ""},
		{"a/b/c", "a", "b/c"},
	};
	for (size_t i = 0; i < sizeof agents / sizeof agents[0]; i++) {
		uint32_t client = sl_client_stats_open(page_of(0), SL_TRANSPORT_GRPC);
		(void)sl_client_stats_agent(page_of(0), client, sl_str(agents[i].agent));
		read_sums();
		const struct sl_client_sum *sum = find(SL_CLIENT_NAMED, SL_TRANSPORT_GRPC, agents[i].name);
		assert_non_null(sum);
		assert_string_equal(sum->version, agents[i].version);
	}
	for (size_t i = 0; i < 3; i++) { /* no product is no name */
		static const char *const none[] = {"", "/1.0", " x"};
		(void)sl_client_stats_agent(page_of(0), sl_client_stats_open(page_of(0), SL_TRANSPORT_GRPC), sl_str(none[i]));
	}
	read_sums();
	assert_int_equal(find(SL_CLIENT_UNNAMED, SL_TRANSPORT_GRPC, "")->open, 3);
}

/* ---- the bound --------------------------------------------------------------------------------------------------- */

/* One connection, that names itself anew each time: those beside it keep what they have. */
static void test_a_client_that_renames_itself_takes_nobodys_row(void **state) {
	(void)state;
	uint32_t kept = open_named(0, "sluice-node", "0.1.0");
	uint32_t hostile = sl_client_stats_open(page_of(0), SL_TRANSPORT_RESP);
	decide(0, kept, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 5);
	for (uint32_t i = 0; i < 10000; i++) {
		char text[32];
		snprintf(text, sizeof text, "evil-%u", i);
		hostile = name(0, hostile, text, "6.6.6");
		decide(0, hostile, SL_TRANSPORT_RESP, SL_VERDICT_DENIED, 1);
	}
	decide(0, kept, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 5);
	assert_whole(SL_TRANSPORT_RESP);
	assert_in_range(sum_count, 2, SL_CLIENTS_TOLD_MAX);
	assert_sum(SL_CLIENT_NAMED, "sluice-node", 1, 10, 0);
	assert_sum(SL_CLIENT_NAMED, "evil-9999", 1, 0, 1);
	assert_non_null(find(SL_CLIENT_OTHERS, SL_TRANSPORT_RESP, ""));
}

/* A name without connections stays as long as others have counted less; a forgotten one begins anew. */
static void test_the_least_used_name_without_connections_is_forgotten(void **state) {
	(void)state;
	char text[32];
	uint32_t much = open_named(0, "much", "1"), little = open_named(0, "little", "1");
	decide(0, much, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 100);
	decide(0, little, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 1);
	sl_client_stats_close(page_of(0), much);
	sl_client_stats_close(page_of(0), little);
	for (uint32_t i = 0; i < NAMES - 1; i++) { /* one more than rows are unused */
		snprintf(text, sizeof text, "held-%u", i);
		(void)open_named(0, text, "");
	}
	assert_whole(SL_TRANSPORT_RESP);
	assert_sum(SL_CLIENT_NAMED, "much", 0, 100, 0);
	assert_null(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, "little"));
	assert_sum(SL_CLIENT_OTHERS, "", 0, 1, 0);
	(void)open_named(0, "little", "1"); /* takes the row of the last that has no connection */
	assert_whole(SL_TRANSPORT_RESP);
	assert_null(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, "much"));
	assert_sum(SL_CLIENT_OTHERS, "", 0, 101, 0);
	read_sums();
}

/* All rows have connections: a new name is one of the others, and gets a row as soon as there is one. */
static void test_a_full_table_counts_others(void **state) {
	(void)state;
	uint32_t clients[NAMES];
	char text[32];
	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(text, sizeof text, "held-%u", i);
		clients[i] = open_named(0, text, "");
	}
	uint32_t late = open_named(0, "late", "2");
	decide(0, late, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 4);
	assert_whole(SL_TRANSPORT_RESP);
	assert_null(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, "late"));
	assert_sum(SL_CLIENT_OTHERS, "", 1, 4, 0);
	sl_client_stats_close(page_of(0), clients[7]);
	late = name(0, late, "late", "2");
	decide(0, late, SL_TRANSPORT_RESP, SL_VERDICT_ALLOWED, 2);
	assert_whole(SL_TRANSPORT_RESP);
	assert_sum(SL_CLIENT_NAMED, "late", 1, 2, 0);
	for (uint32_t i = 0; i < NAMES; i++)
		if (i != 7)
			sl_client_stats_close(page_of(0), clients[i]);
	sl_client_stats_close(page_of(0), late);
	read_sums();
	for (uint32_t i = 0; i < sum_count; i++)
		assert_int_equal(sums[i].open, 0);
}

/* Names of all workers and transports, many more than are told: those with the most decisions are, no sum is lost. */
static void test_the_list_is_bounded_and_whole(void **state) {
	(void)state;
	char text[32];
	for (uint32_t worker = 0; worker < WORKERS; worker++)
		for (uint32_t i = 0; i < NAMES; i++) {
			enum sl_transport transport = (enum sl_transport)(i % SL_TRANSPORTS);
			uint32_t client = sl_client_stats_open(page_of(worker), transport);
			snprintf(text, sizeof text, "w%u-%u", worker, i);
			decide(worker, client, transport, SL_VERDICT_DENIED, 1);
			client = name(worker, client, text, "");
			decide(worker, client, transport, SL_VERDICT_ALLOWED, 1 + worker * NAMES + i);
		}
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		assert_whole((enum sl_transport)transport);
	assert_in_range(sum_count, SL_CLIENTS_TOLD_MAX / 2, SL_CLIENTS_TOLD_MAX);
	assert_non_null(find(SL_CLIENT_NAMED, (NAMES - 1) % SL_TRANSPORTS, "w2-55"));
	assert_null(find(SL_CLIENT_NAMED, SL_TRANSPORT_RESP, "w0-0"));
	uint64_t open = 0;
	for (uint32_t i = 0; i < sum_count; i++)
		open += sums[i].open;
	assert_int_equal(open, WORKERS * NAMES);
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

static void test_libraries_are_a_list_of_ours(void **state) {
	(void)state;
	static const struct {
		struct sl_client_sum sum;
		const char *library;
	} clients[] = {
		{{.name = "sluice-node"}, "sluice-node"},
		{{.name = "redis-py(django)"}, "redis-py"},
		{{.name = "redis-py2"}, "other"},
		{{.name = "redis-p"}, "other"},
		{{.name = "other"}, "other"},
		{{.name = "unnamed"}, "other"},
		{{.kind = SL_CLIENT_OTHERS}, "other"},
		{{.kind = SL_CLIENT_UNNAMED}, "unnamed"},
	};
	for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++)
		assert_string_equal(sl_client_libraries[sl_client_library(&clients[i].sum)], clients[i].library);
}

int main(void) {
#define TEST(what) cmocka_unit_test_setup_teardown(what, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_connection_moves_to_its_name),
		TEST(test_none_is_not_counted),
		TEST(test_names_are_cleaned_and_cut),
		TEST(test_agents_are_read),
		TEST(test_a_client_that_renames_itself_takes_nobodys_row),
		TEST(test_the_least_used_name_without_connections_is_forgotten),
		TEST(test_a_full_table_counts_others),
		TEST(test_the_list_is_bounded_and_whole),
		TEST(test_libraries_are_a_list_of_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
