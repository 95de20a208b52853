/* How it is found out whom nodes belong to, and what their modules know: a single server that becomes a cluster, errors
 * that say nothing of it, replicas that become primaries. Peers are on the wire and on the same loop (wire_peer.h). */
#include "tests/unit/wire_peer.h"

#include "base/bytes.h"

#include <stdio.h>

static struct nodes_loop world;
static struct wire_peer peers[2];

static int begin(void **state) {
	(void)state;
	nodes_loop_init(&world);
	for (int i = 0; i < 2; i++)
		peer_listen(&peers[i], &world.loop);
	return 0;
}

static int end(void **state) {
	(void)state;
	for (int i = 0; i < 2; i++)
		peer_close(&peers[i]);
	nodes_loop_close(&world);
	return 0;
}

static void open_nodes(void) {
	const char *addresses[] = {peers[0].address};
	const struct sl_nodes_options settings = {
		.addresses = addresses, .address_count = 1, .via = SL_BY_MODULE, .budget_ns = 40000000};
	nodes_loop_open(&world, &settings, NULL);
}

static void open_up(void) {
	open_nodes();
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
}

static struct asked ask(const char *key, const char *words) {
	struct asked asked;
	asked_now(&world, &asked, "CHECK", key, words, LOOP_PATIENCE_MS);
	asked.ask.owner = NULL;
	return asked;
}

static void assert_number(const char *key, int64_t number) {
	const struct asked asked = ask(key, "1 1/1s");
	if (asked.kind != SL_ANSWER_NUMBERS)
		fail_msg("kind %d: %s", asked.kind, asked.error);
	assert_int_equal(asked.numbers[0], number);
}

/* All slots are a peer's, as CLUSTER SLOTS says it. */
static const char *all_slots_of(char text[128], const struct wire_peer *peer) {
	(void)snprintf(text, 128, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n", peer->port);
	return text;
}

static unsigned slot_of_alice(void) {
	return sl_nodes_group(world.nodes, sl_str("alice"));
}

static void until_slots_asked(unsigned more) {
	nodes_loop_until_count(&world, &peers[0].slots_asked, peers[0].slots_asked + more);
}

/* CROSSSLOT says so at the latest: keys go by their slots from then on, to whoever has them. */
static void test_a_single_server_that_becomes_a_cluster(void **state) {
	char slots[128];
	(void)state;
	open_up();
	assert_int_equal(slot_of_alice(), 0);
	peers[0].first = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
	peers[0].first_count = 1;
	peers[1].check = ":2\r\n";
	assert_int_equal(ask("alice", "1 1/1s").kind, SL_ANSWER_ERROR);
	assert_int_equal(slot_of_alice(), 749);
	assert_number("alice", 1); /* whoever said it is asked, until it is known who has the slot */
	peers[0].slots = all_slots_of(slots, &peers[1]);
	until_slots_asked(1);
	nodes_loop_run(&world, 300);
	assert_number("alice", 2);
}

/* It is asked again, and nobody before: an error that passes says nothing of slots. */
static void test_an_error_is_no_single_server(void **state) {
	char slots[128];
	(void)state;
	peers[0].slots = "-BUSY Redis is busy running a script\r\n";
	open_nodes();
	until_slots_asked(3);
	assert_false(sl_nodes_knows_slots(world.nodes));
	assert_true(nodes_said(": CLUSTER SLOTS: BUSY Redis is busy"));
	peers[0].slots = all_slots_of(slots, &peers[0]);
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	assert_int_equal(slot_of_alice(), 749);
}

/* Taken for a single server, as it may well be one; MOVED says otherwise, and then all slots are its until it is known
 * better. */
static void test_who_may_not_ask_for_slots(void **state) {
	char text[64];
	(void)state;
	peers[0].slots = "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n";
	open_up();
	nodes_loop_until_said(&world, "CLUSTER SLOTS: NOPERM this user has no permissions to run the 'cluster|slots' "
	                              "command; let the user run the commands");
	assert_number("alice", 1);
	assert_int_equal(slot_of_alice(), 0);
	peers[1].check = ":2\r\n";
	(void)snprintf(text, sizeof text, "-MOVED 749 127.0.0.1:%u\r\n", peers[1].port);
	peers[0].first = text;
	peers[0].first_count = 1;
	assert_number("alice", 2);
	assert_int_equal(slot_of_alice(), 749);
	assert_number("a", 1);
	assert_number("alice", 2);
}

/* Asks until the node is told a word as it stands, which modules of before are not. */
static void until_told(const char *word) {
	char words[32];
	(void)snprintf(words, sizeof words, "1 %s 1/1s", word);
	for (int i = 0; i < 400; i++) {
		assert_int_equal(ask("a", words).kind, SL_ANSWER_NUMBERS);
		if (strcmp(peers[0].last_word, word) == 0)
			return;
		nodes_loop_run(&world, 10);
	}
	fail_msg("it is told %s", peers[0].last_word);
}

/* SLUICE.LEASE is a command that writes: what refuses those says nothing of what the module knows. */
static void test_what_a_module_knows_is_asked_again(void **state) {
	static const char *const errors[] = {"-NOREPLICAS x\r\n", "-MISCONF x\r\n", "-MASTERDOWN x\r\n", "-NOPERM x\r\n"};
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
		if (i != 0) {
			end(state);
			begin(state);
		}
		peers[0].module = errors[i];
		open_up();
		(void)ask("a", "1 EXACT 1/1s");
		assert_string_equal(peers[0].last_word, "EACH");
		peers[0].module = ":3\r\n";
		until_told("EXACT");
		until_told("UPTO");
	}
}

static void test_a_replica_that_becomes_the_primary(void **state) {
	const char *role = peers[0].role;
	(void)state;
	peers[0].module = "-READONLY You can't write against a read only replica.\r\n";
	peers[0].role = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$7\r\nconnect\r\n:-1\r\n";
	open_nodes();
	nodes_loop_until_said(&world, "connected, a replica");
	nodes_loop_run(&world, 100);
	peers[0].module = ":3\r\n";
	peers[0].role = role;
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	nodes_loop_run(&world, 50);
	(void)ask("a", "1 EXACT 1/1s");
	assert_string_equal(peers[0].last_word, "EXACT");
}

#define ON_PEERS(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
	const struct CMUnitTest tests[] = {
		ON_PEERS(test_a_single_server_that_becomes_a_cluster),
		ON_PEERS(test_an_error_is_no_single_server),
		ON_PEERS(test_who_may_not_ask_for_slots),
		ON_PEERS(test_what_a_module_knows_is_asked_again),
		ON_PEERS(test_a_replica_that_becomes_the_primary),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
