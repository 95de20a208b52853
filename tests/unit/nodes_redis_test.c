/* Nodes that are real redis-servers: one, one behind TLS, users and sockets, a primary and its replica, a cluster. What
 * misbehaves on the wire is in nodes_test.c. */
#include "tests/unit/nodes_loop.h"
#include "tests/unit/redis_servers.h"

#include "base/bytes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct sl_redis_settings settings_of(const char *const *addresses, uint32_t count) {
	return (struct sl_redis_settings){.addresses = addresses,
	                                  .address_count = count,
	                                  .prefix = "",
	                                  .via = SL_VIA_AUTO,
	                                  .budget_ns = 20000000,
	                                  .leases = true,
	                                  .lease_ns = 500000000};
}

static void assert_counts(struct nodes_loop *world, const char *key, int64_t expected) {
	struct asked asked;
	asked_now(world, &asked, "CHECK", key, "1", 1000);
	if (asked.kind != SL_ANSWER_NUMBERS)
		fail_msg("%s: kind %d, %s", key, asked.kind, asked.error);
	assert_int_equal(asked.count, 1);
	assert_int_equal(asked.numbers[0], expected);
}

static void test_one_server(void **state) {
	struct redis_server server = {.pid = 0};
	struct nodes_loop world;
	struct asked asked;
	(void)state;
	redis_start(&server, false, NULL);
	const char *addresses[] = {server.address};
	const struct sl_redis_settings settings = settings_of(addresses, 1);
	nodes_loop_open(&world, &settings, NULL);
	assert_counts(&world, "alice", 1); /* asked before anything is connected */
	assert_counts(&world, "alice", 2);
	assert_int_equal(sl_nodes_group(world.nodes, sl_str("alice")), 0);
	assert_true(nodes_loop_until_up(&world, "alice", 1000));
	assert_true(nodes_said("asked by the module"));
	asked_now(&world, &asked, "PEEK", "alice", "GET u8 0 GET u8 8 GET i8 0", 1000);
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	assert_int_equal(asked.count, 3);
	assert_int_equal(asked.numbers[0], '2');
	asked_now(&world, &asked, "CHECK", "alice", "much", 1000);
	assert_int_equal(asked.kind, SL_ANSWER_ERROR);
	assert_string_equal(asked.error, "ERR value is not an integer or out of range");
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_server),
	};
	if (!redis_is_there()) {
		(void)fprintf(stderr, "SKIPPED: there is no redis-server here\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
