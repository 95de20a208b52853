/* Nodes that are real redis-servers: one, one behind TLS, users and sockets, a primary and its replica, a cluster. What
 * misbehaves on the wire is in nodes_test.c. */
#include "tests/unit/nodes_loop.h"
#include "tests/unit/redis_servers.h"

#include "base/bytes.h"
#include "hosts/server/cluster/command.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct sl_nodes_options settings_of(const char *const *addresses, uint32_t count) {
	return (struct sl_nodes_options){
		.addresses = addresses, .address_count = count, .via = SL_BY_EITHER, .budget_ns = 1000000000};
}

static void assert_counts(struct nodes_loop *world, const char *key, int64_t expected) {
	struct asked asked;
	asked_now(world, &asked, "CHECK", key, "1", LOOP_PATIENCE_MS);
	if (asked.kind != SL_ANSWER_NUMBERS)
		fail_msg("%s: kind %d, %s", key, asked.kind, asked.error);
	assert_int_equal(asked.count, 1);
	assert_int_equal(asked.numbers[0], expected);
}

static void test_one_server(void **state) {
	struct redis_server server = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	struct asked asked;
	(void)state;
	redis_start(&server, false, NULL);
	const char *addresses[] = {server.address};
	const struct sl_nodes_options settings = settings_of(addresses, 1);
	nodes_loop_open(&world, &settings, NULL);
	assert_counts(&world, "alice", 1); /* asked before anything is connected */
	assert_counts(&world, "alice", 2);
	assert_int_equal(sl_nodes_group(world.nodes, sl_str("alice")), 0);
	assert_true(nodes_loop_until_up(&world, "alice", LOOP_PATIENCE_MS));
	assert_true(nodes_said("decisions are made by the module"));
	asked_now(&world, &asked, "PEEK", "alice", "GET u8 0 GET u8 8 GET i8 0", LOOP_PATIENCE_MS);
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	assert_int_equal(asked.count, 3);
	assert_int_equal(asked.numbers[0], '2');
	asked_now(&world, &asked, "CHECK", "alice", "much", LOOP_PATIENCE_MS);
	assert_int_equal(asked.kind, SL_ANSWER_ERROR);
	assert_string_equal(asked.error, "ERR value is not an integer or out of range");
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
}

/* No module: the script is loaded at the greeting, and again when the server has forgotten it. */
static void test_the_script(void **state) {
	struct redis_server server = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	struct asked asked;
	(void)state;
	redis_start(&server, true, NULL);
	const char *addresses[] = {server.address};
	const struct sl_nodes_options settings = settings_of(addresses, 1);
	nodes_loop_open(&world, &settings, NULL);
	asked_now(&world, &asked, "CHECK", "alice", "1 10/60s", LOOP_PATIENCE_MS);
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	assert_int_equal(asked.count, 7);
	assert_int_equal(asked.numbers[2], 9);
	assert_true(nodes_said("decisions are made by the script"));
	redis_await(&server, "SCRIPT FLUSH", "+OK", LOOP_PATIENCE_MS);
	struct asked again[5];
	for (int i = 0; i < 5; i++) { /* all in one turn: one SCRIPT LOAD serves them */
		asked_fill(&again[i], "CHECK", "alice", "1 10/60s", LOOP_PATIENCE_MS);
		assert_true(sl_nodes_ask(world.nodes, &again[i].ask));
	}
	for (int i = 0; i < 5; i++) {
		assert_true(nodes_loop_until(&world, &again[i].answered, LOOP_PATIENCE_MS));
		assert_int_equal(again[i].kind, SL_ANSWER_NUMBERS);
		assert_int_equal(again[i].numbers[2], 8 - i);
	}
	assert_non_null(strstr(redis_say(&server, "INFO commandstats"), "cmdstat_script|load:calls=2,"));
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
}

/* One limit as bytes is the same limit as in words, and what the script can't decide so it answers as it answers
 * words. */
static void test_the_script_is_told_bytes(void **state) {
	const struct sl_ask_one one = {.kind = 'W', .charges = true, .cost = 1, .quota = 10, .window_ms = 3600000};
	struct sl_ask_one dear = one;
	struct redis_server server = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	struct asked asked;
	(void)state;
	dear.cost = 4; /* denied, and waits for more than one more */
	redis_start(&server, true, NULL);
	const char *addresses[] = {server.address};
	const struct sl_nodes_options settings = settings_of(addresses, 1);
	nodes_loop_open(&world, &settings, NULL);
	asked_now(&world, &asked, "CHECK", "alice", "7 EXACT 10/1h", LOOP_PATIENCE_MS);
	const struct sl_ask_one *const told[] = {&one, &dear, &one};
	const int64_t remaining[] = {2, 2, 1};
	for (int i = 0; i < 3; i++) {
		asked_fill(&asked, "CHECK", "alice", "5 AT 1 1/1h", LOOP_PATIENCE_MS); /* of which nothing is said */
		asked.ask.one = told[i];
		assert_true(sl_nodes_ask(world.nodes, &asked.ask));
		assert_true(nodes_loop_until(&world, &asked.answered, LOOP_PATIENCE_MS));
		assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
		assert_int_equal(asked.count, 8);
		assert_int_equal(asked.numbers[0], told[i] == &one);
		assert_int_equal(asked.numbers[1], 10);
		assert_int_equal(asked.numbers[2], remaining[i]);
		assert_true(asked.numbers[6] > 0 && asked.numbers[6] <= 7200000);
	}
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
}

/* A node may answer anything. */
static void test_bytes_that_are_no_answer(void **state) {
	unsigned char bytes[37] = {1, 10, 0, 0, 0, 9};
	int64_t numbers[SL_COMMAND_ONE_NUMBERS];
	(void)state;
	assert_true(sl_command_read_one(sl_slice(bytes, sizeof bytes), numbers));
	assert_int_equal(numbers[2], 9);
	assert_false(sl_command_read_one(sl_slice(bytes, sizeof bytes - 1), numbers));
	for (int i = 0; i < 3; i++) {
		static const double never = -1;
		memcpy(bytes + 9 + 8 * i, &never, sizeof never);
		assert_true(sl_command_read_one(sl_slice(bytes, sizeof bytes), numbers));
		assert_int_equal(numbers[i == 2 ? 6 : 3 + i], -1);
		static const double none[] = {-2, 9007199254740992.0, NAN, INFINITY};
		for (int k = 0; k < 4; k++) {
			memcpy(bytes + 9 + 8 * i, &none[k], sizeof none[k]);
			assert_false(sl_command_read_one(sl_slice(bytes, sizeof bytes), numbers));
		}
		memset(bytes + 9 + 8 * i, 0, 8);
	}
}

static void test_what_settings_insist_on(void **state) {
	struct redis_server server = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	struct asked asked;
	(void)state;
	redis_start(&server, true, NULL);
	const char *addresses[] = {server.address};
	struct sl_nodes_options settings = settings_of(addresses, 1);
	settings.via = SL_BY_MODULE;
	nodes_loop_open(&world, &settings, NULL);
	nodes_loop_until_said(&world, "it has not loaded the module, which via: module requires");
	assert_false(sl_nodes_is_up(world.nodes, sl_nodes_group(world.nodes, sl_str("alice"))));
	asked_fill(&asked, "CHECK", "alice", "1 10/60s", LOOP_PATIENCE_MS);
	assert_false(sl_nodes_ask(world.nodes, &asked.ask));
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
	server = (struct redis_server){.pid = 0};
	redis_start(&server, false, NULL); /* with the module, as far as one can see */
	settings.via = SL_BY_SCRIPT;
	nodes_loop_open(&world, &settings, NULL);
	assert_true(nodes_loop_until_up(&world, "alice", LOOP_PATIENCE_MS));
	assert_true(nodes_said("decisions are made by the script"));
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
}

/* ---- users, sockets, TLS ----------------------------------------------------------------------------------------- */

static void test_a_user_with_few_rights_on_a_unix_socket(void **state) {
	struct redis_server server = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	char path[96];
	(void)state;
	redis_start(&server, false, NULL);
	redis_end(&server, SIGKILL);
	(void)snprintf(path, sizeof path, "%s/socket", server.folder);
	const char *args[] = {"--unixsocket", path,      "--user", "front",   "on",  ">secret", "~*",
	                      "-@all",        "+incrby", "--user", "default", "off", NULL};
	redis_start(&server, false, args);
	char address[128];
	(void)snprintf(address, sizeof address, "unix:%s", path);
	const char *addresses[] = {address};
	struct sl_nodes_options settings = settings_of(addresses, 1);
	settings.user = "front";
	nodes_loop_open(&world, &settings, "secret");
	assert_counts(&world, "alice", 1);
	nodes_loop_close(&world);
	nodes_loop_open(&world, &settings, "wrong");
	nodes_loop_until_said(&world, "WRONGPASS");
	assert_false(sl_nodes_is_up(world.nodes, sl_nodes_group(world.nodes, sl_str("alice"))));
	nodes_loop_close(&world);
	settings.user = NULL;
	nodes_loop_open(&world, &settings, NULL);
	nodes_loop_until_said(&world, "NOAUTH");
	assert_false(sl_nodes_is_up(world.nodes, sl_nodes_group(world.nodes, sl_str("alice"))));
	nodes_loop_close(&world);
	redis_end(&server, SIGTERM);
}

static void make_certificates(const char *folder) {
	char line[1024];
	(void)snprintf(
		line, sizeof line,
		"cd %s && { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key "
		"-out ca.pem -days 2 -subj /CN=ours && openssl req -newkey ec -pkeyopt "
		"ec_paramgen_curve:prime256v1 -nodes -keyout node.key -out node.csr -subj /CN=node -addext "
		"subjectAltName=IP:127.0.0.1 && openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key "
		"-CAcreateserial -copy_extensions copy -days 2 -out node.pem && rm -f node.csr ca.srl; } "
		">/dev/null 2>&1",
		folder);
	assert_int_equal(system(line), 0);
}

static void test_tls(void **state) {
	struct redis_server server = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	char ca[96], pem[96], key[96], port[8];
	(void)state;
	redis_start(&server, false, NULL);
	redis_end(&server, SIGKILL);
	make_certificates(server.folder);
	(void)snprintf(ca, sizeof ca, "%s/ca.pem", server.folder);
	(void)snprintf(pem, sizeof pem, "%s/node.pem", server.folder);
	(void)snprintf(key, sizeof key, "%s/node.key", server.folder);
	(void)snprintf(port, sizeof port, "%u", server.port);
	const char *args[] = {"--port",         "0", "--tls-port", port, "--tls-ca-cert-file", ca, "--tls-cert-file", pem,
	                      "--tls-key-file", key, NULL};
	redis_start(&server, false, args);
	const char *addresses[] = {server.address};
	struct sl_nodes_options settings = settings_of(addresses, 1);
	struct sl_tls_files files = {.certificate = pem, .key = key, .ca = ca};
	settings.tls = &files;
	nodes_loop_open(&world, &settings, NULL);
	for (int i = 1; i <= 50; i++)
		assert_counts(&world, "alice", i);
	nodes_loop_close(&world);

	files.ca = NULL; /* the system knows no such authority */
	nodes_loop_open(&world, &settings, NULL);
	nodes_loop_until_said(&world, "TLS: ");
	assert_false(sl_nodes_is_up(world.nodes, sl_nodes_group(world.nodes, sl_str("alice"))));
	assert_true(nodes_said("certificate"));
	nodes_loop_close(&world);

	char named[64]; /* a name that the certificate has not */
	(void)snprintf(named, sizeof named, "localhost:%u", server.port);
	addresses[0] = named;
	files.ca = ca;
	nodes_loop_open(&world, &settings, NULL);
	nodes_loop_until_said(&world, "TLS: hostname mismatch");
	assert_false(sl_nodes_is_up(world.nodes, sl_nodes_group(world.nodes, sl_str("alice"))));
	nodes_loop_close(&world);

	struct sluice_error error;
	struct sl_nodes *nodes;
	struct sl_cluster_figures figures;
	uv_loop_t loop;
	assert_int_equal(uv_loop_init(&loop), 0);
	files.ca = "/nowhere/ca.pem";
	settings.loop = sl_loop_uv(&loop);
	settings.figures = &figures;
	assert_false(sl_nodes_open(&nodes, &settings, &error));
	assert_non_null(strstr(error.text, "store.tls.ca: /nowhere/ca.pem: No such file"));
	assert_int_equal(uv_loop_close(&loop), 0);
	redis_end(&server, SIGTERM);
}

/* ---- a primary and its replica ----------------------------------------------------------------------------------- */

static void test_a_failover_is_followed(void **state) {
	struct redis_server first = {.pid = 0}, second = {.pid = 0};
	struct nodes_loop world = {.begun = false};
	char port[8], line[64];
	(void)state;
	redis_start(&first, false, NULL);
	(void)snprintf(port, sizeof port, "%u", first.port);
	const char *args[] = {"--replicaof", "127.0.0.1", port, NULL};
	redis_start(&second, false, args);

	const char *addresses[] = {second.address}; /* its primary is found through it */
	const struct sl_nodes_options settings = settings_of(addresses, 1);
	nodes_loop_open(&world, &settings, NULL);
	assert_true(nodes_loop_until_up(&world, "alice", LOOP_PATIENCE_MS));
	assert_counts(&world, "alice", 1);
	redis_await(&second, "GET alice", "$1\r\n1", LOOP_PATIENCE_MS);

	redis_await(&second, "REPLICAOF NO ONE", "+OK", LOOP_PATIENCE_MS);
	(void)snprintf(line, sizeof line, "REPLICAOF 127.0.0.1 %u", second.port);
	redis_await(&first, line, "+OK", LOOP_PATIENCE_MS); /* the old one stays, and answers READONLY */
	struct asked asked;
	asked_now(&world, &asked, "CHECK", "alice", "1", LOOP_PATIENCE_MS);
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	assert_int_equal(asked.numbers[0], 2);
	assert_true(nodes_said("the primary now"));
	redis_await(&first, "GET alice", "$1\r\n2", LOOP_PATIENCE_MS);

	redis_end(&second, SIGKILL);
	nodes_loop_until_down(&world, sl_nodes_group(world.nodes, sl_str("alice")));
	asked_fill(&asked, "CHECK", "alice", "1", LOOP_PATIENCE_MS);
	assert_false(sl_nodes_ask(world.nodes, &asked.ask));
	redis_await(&first, "REPLICAOF NO ONE", "+OK", LOOP_PATIENCE_MS);
	assert_true(nodes_loop_until_up(&world, "alice", LOOP_PATIENCE_MS));
	assert_counts(&world, "alice", 3);
	nodes_loop_close(&world);
	redis_end(&first, SIGTERM);
	redis_end(&second, SIGTERM);
}

/* ---- a cluster --------------------------------------------------------------------------------------------------- */

enum { NODES = 3 };

static void start_cluster(struct redis_server servers[NODES]) {
	static const char *const ranges[NODES] = {"0 5460", "5461 10922", "10923 16383"};
	static const char *const args[] = {
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000", NULL};
	char line[128];
	for (int i = 0; i < NODES; i++) {
		redis_start(&servers[i], false, args);
		(void)snprintf(line, sizeof line, "CLUSTER ADDSLOTSRANGE %s", ranges[i]);
		redis_await(&servers[i], line, "+OK", LOOP_PATIENCE_MS);
		(void)snprintf(line, sizeof line, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
		redis_await(&servers[i], line, "+OK", LOOP_PATIENCE_MS);
	}
	for (int i = 1; i < NODES; i++) {
		(void)snprintf(line, sizeof line, "CLUSTER MEET 127.0.0.1 %u", servers[i].port);
		redis_await(&servers[0], line, "+OK", LOOP_PATIENCE_MS);
	}
	for (int i = 0; i < NODES; i++) {
		redis_await(&servers[i], "CLUSTER INFO", "cluster_state:ok", LOOP_PATIENCE_MS);
		redis_await(&servers[i], "CLUSTER INFO", "cluster_known_nodes:3", LOOP_PATIENCE_MS);
	}
}

static const char *id_of(const struct redis_server *server) {
	static char ids[4][41];
	static unsigned turn;
	char *id = ids[turn++ % 4];
	assert_int_equal(sscanf(redis_say(server, "CLUSTER MYID"), "$40\r\n%40s", id), 1);
	return id;
}

static void set_slot(const struct redis_server *at, unsigned slot, const char *what, const struct redis_server *node) {
	char line[128];
	(void)snprintf(line, sizeof line, "CLUSTER SETSLOT %u %s %s", slot, what, id_of(node));
	redis_await(at, line, "+OK", LOOP_PATIENCE_MS);
}

static void migrate(struct redis_server servers[NODES], struct nodes_loop *world) {
	const unsigned slot = sl_slot_of(sl_str("alice")); /* 749: the first one's */
	char line[128];
	assert_in_range(slot, 0, 5460);
	set_slot(&servers[2], slot, "IMPORTING", &servers[0]);
	set_slot(&servers[0], slot, "MIGRATING", &servers[2]);
	assert_counts(world, "alice", 2);     /* still there */
	assert_counts(world, "{alice}:b", 1); /* not there: ASK */
	assert_counts(world, "{alice}:b", 2);
	(void)snprintf(line, sizeof line, "MIGRATE 127.0.0.1 %u alice 0 1000", servers[2].port);
	redis_await(&servers[0], line, "+OK", LOOP_PATIENCE_MS);
	assert_counts(world, "alice", 3);
	assert_true(world->figures.redirected >= 3);
	set_slot(&servers[2], slot, "NODE", &servers[2]);
	set_slot(&servers[0], slot, "NODE", &servers[2]);
	assert_counts(world, "alice", 4); /* MOVED */
	const uint64_t redirected = world->figures.redirected;
	assert_counts(world, "alice", 5);
	assert_int_equal(world->figures.redirected, redirected);
}

static void test_a_cluster(void **state) {
	struct redis_server servers[NODES] = {{.pid = 0}};
	struct nodes_loop world = {.begun = false};
	char key[16];
	(void)state;
	start_cluster(servers);
	const char *addresses[] = {servers[1].address};
	const struct sl_nodes_options settings = settings_of(addresses, 1);
	nodes_loop_open(&world, &settings, NULL);
	assert_counts(&world, "alice", 1);
	assert_int_equal(sl_nodes_group(world.nodes, sl_str("alice")), sl_slot_of(sl_str("alice")));
	for (int i = 0; i < 100; i++) {
		(void)snprintf(key, sizeof key, "key:%d", i);
		assert_counts(&world, key, 1);
	}
	assert_int_equal(world.figures.redirected, 0);
	assert_int_equal(world.figures.nodes, 3);
	assert_int_equal(world.figures.nodes_up, 3);
	migrate(servers, &world);
	for (int i = 0; i < 1000; i++) { /* our slots are theirs */
		char line[64], expected[16], text[24];
		(void)snprintf(text, sizeof text, "%d{%d}%s", i, i * 7919, i % 3 ? "" : "}");
		(void)snprintf(line, sizeof line, "CLUSTER KEYSLOT %s", text);
		(void)snprintf(expected, sizeof expected, ":%u\r\n", sl_slot_of(sl_str(text)));
		if (i % 50 == 0)
			assert_memory_equal(redis_say(&servers[0], line), expected, strlen(expected));
	}
	redis_end(&servers[1], SIGKILL);
	nodes_loop_until_down(&world, 6000);
	const char *lost = "foo{bar}"; /* 5061: the first one's */
	assert_true(sl_nodes_is_up(world.nodes, sl_nodes_group(world.nodes, sl_str(lost))));
	assert_false(sl_nodes_is_up(world.nodes, 6000));
	assert_counts(&world, lost, 1);
	nodes_loop_close(&world);
	for (int i = 0; i < NODES; i++)
		redis_end(&servers[i], SIGTERM);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_server),
		cmocka_unit_test(test_the_script),
		cmocka_unit_test(test_the_script_is_told_bytes),
		cmocka_unit_test(test_bytes_that_are_no_answer),
		cmocka_unit_test(test_what_settings_insist_on),
		cmocka_unit_test(test_a_user_with_few_rights_on_a_unix_socket),
		cmocka_unit_test(test_tls),
		cmocka_unit_test(test_a_failover_is_followed),
		cmocka_unit_test(test_a_cluster),
	};
	if (!redis_is_there()) {
		(void)fprintf(stderr, "SKIPPED: there is no redis-server here\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
