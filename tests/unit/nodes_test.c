/* Nodes that misbehave: half replies, wrong ones, none, too late, redirections in a circle, resets. Peers are on the
 * wire and on the same loop (wire_peer.h); what Redis itself decides is in nodes_redis_test.c. */
#include "tests/unit/wire_peer.h"

#include "base/bytes.h"
#include "hosts/server/cluster/pending_command.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>

static struct nodes_loop world;
static struct wire_peer peers[2];
/* What is to come too late has little time; what is to come has all that a busy machine may take for it. */
static const unsigned BUDGET_MS = 40;

/* Peers listen, and nodes are opened at the first of them. */
static int begin(void **state) {
	(void)state;
	nodes_loop_init(&world);
	for (int i = 0; i < 2; i++)
		peer_listen(&peers[i], &world.loop);
	return 0;
}

static void open_nodes(void) {
	const char *addresses[] = {peers[0].address};
	const struct sl_nodes_options settings = {
		.addresses = addresses, .address_count = 1, .via = SL_BY_MODULE, .budget_ns = BUDGET_MS * 1000000};
	nodes_loop_open(&world, &settings, NULL);
}

static void open_up(void) {
	open_nodes();
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
}

static int end(void **state) {
	(void)state;
	for (int i = 0; i < 2; i++)
		peer_close(&peers[i]);
	nodes_loop_close(&world);
	return 0;
}

static struct asked ask_within(const char *key, unsigned budget_ms) {
	struct asked asked;
	asked_now(&world, &asked, "CHECK", key, "1 1/1s", budget_ms);
	asked.ask.owner = NULL;
	return asked;
}

static struct asked ask(const char *key) {
	return ask_within(key, LOOP_PATIENCE_MS);
}

static void assert_number(const char *key, int64_t number) {
	const struct asked asked = ask(key);
	if (asked.kind != SL_ANSWER_NUMBERS)
		fail_msg("kind %d: %s", asked.kind, asked.error);
	assert_int_equal(asked.count, 1);
	assert_int_equal(asked.numbers[0], number);
}

static unsigned ms_of(const struct asked *asked) {
	return (unsigned)((asked->answered_at - asked->asked_at) / 1000000);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void test_replies_byte_by_byte(void **state) {
	(void)state;
	peers[0].drip = true;
	peers[0].check = "*2\r\n*2\r\n:1\r\n:-20\r\n:300\r\n";
	open_up();
	const struct asked asked = ask("a");
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	assert_int_equal(asked.count, 3);
	assert_int_equal(asked.numbers[1], -20);
	assert_int_equal(asked.numbers[2], 300);
}

static void test_answers_of_another_shape(void **state) {
	static const char *const odd[] = {"+OK\r\n", "$-1\r\n",          "*2\r\n:1\r\n$1\r\na\r\n",
	                                  "*0\r\n",  "*1\r\n-ERR x\r\n", "_\r\n"};
	char many[8 * SL_ANSWER_NUMBERS_MAX], *at = many;
	(void)state;
	open_up();
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		peers[0].check = odd[i];
		const struct asked asked = ask("a");
		assert_int_equal(asked.kind, SL_ANSWER_ERROR);
		assert_string_equal(asked.error, "ERR the node's answer does not fit the command");
	}
	for (int more = 0; more < 2; more++) { /* just as many numbers as there may be, and one more */
		at = many + snprintf(many, sizeof many, "*%d\r\n", SL_ANSWER_NUMBERS_MAX + more);
		for (int i = 0; i < SL_ANSWER_NUMBERS_MAX + more; i++)
			at += snprintf(at, (size_t)(many + sizeof many - at), ":1\r\n");
		peers[0].check = many;
		assert_int_equal(ask("a").kind, more ? SL_ANSWER_ERROR : SL_ANSWER_NUMBERS);
	}
	peers[0].check = ">2\r\n+x\r\n:1\r\n:7\r\n"; /* a push is no answer */
	assert_number("a", 7);
	peers[0].check = "-WRONGTYPE no\r\n";
	assert_string_equal(ask("a").error, "WRONGTYPE no");
	assert_int_equal(world.figures.refused, 8);
}

static void test_garbage_ends_the_connection(void **state) {
	(void)state;
	open_up();
	peers[0].check = "HTTP/1.1 400 Bad Request\r\n";
	assert_int_equal(ask("a").kind, SL_ANSWER_LOST);
	assert_true(nodes_said("it does not speak Redis' protocol: a byte that begins no reply"));
	assert_false(sl_nodes_is_up(world.nodes, 0));
	peers[0].check = ":1\r\n";
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	assert_number("a", 1);
	peer_say(&peers[0], ":5\r\n");
	nodes_loop_until_said(&world, "an answer to no command");
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
}

/* The log says what became of the connection, whatever a loop calls it. */
static void test_how_the_connection_ended_is_said(void **state) {
	(void)state;
	open_up();
	peer_hang_up(&peers[0]);
	nodes_loop_until_said(&world, ": it closed the connection; retrying in ");
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	peer_reset(&peers[0]);
	nodes_loop_until_said(&world, ": Connection reset by peer; retrying in ");
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	assert_int_equal(world.figures.disconnects, 2);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void test_a_late_answer_is_dropped(void **state) {
	struct asked late, next;
	(void)state;
	open_up();
	peers[0].check = NULL;
	asked_now(&world, &late, "CHECK", "a", "1 1/1s", BUDGET_MS);
	assert_int_equal(late.kind, SL_ANSWER_LATE);
	assert_true(ms_of(&late) >= BUDGET_MS);
	asked_fill(&next, "CHECK", "b", "1 1/1s", LOOP_PATIENCE_MS);
	assert_true(sl_nodes_ask(world.nodes, &next.ask));
	nodes_loop_until_count(&world, &peers[0].checks, 2);
	peer_say(&peers[0], ":1\r\n");
	nodes_loop_run(&world, 5);
	assert_false(next.answered); /* that was the other's */
	peer_say(&peers[0], ":2\r\n");
	assert_true(nodes_loop_until(&world, &next.answered, LOOP_PATIENCE_MS));
	assert_int_equal(next.numbers[0], 2);
	assert_int_equal(peers[0].checks, 2);
}

/* The answer lies in the socket when the loop goes on, long behind the deadline: that is not the node's fault. */
static void test_a_stall_of_ours(void **state) {
	struct asked asked;
	(void)state;
	open_up();
	peers[0].stalls_ms = 2 * BUDGET_MS;
	asked_now(&world, &asked, "CHECK", "a", "1 1/1s", BUDGET_MS);
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	peers[0].check = NULL; /* of a node that is late as well, it is */
	asked_now(&world, &asked, "CHECK", "a", "1 1/1s", BUDGET_MS);
	assert_int_equal(asked.kind, SL_ANSWER_LATE);
}

/* A node that owes nothing is not away; one that has not answered for a budget is, until it has. */
static void test_a_busy_node(void **state) {
	(void)state;
	open_up();
	peers[0].check = ":1\r\n";
	assert_number("a", 1);
	assert_true(sl_nodes_is_busy(world.nodes, 0));
	peers[0].check = NULL;
	assert_int_equal(ask_within("a", BUDGET_MS).kind, SL_ANSWER_LATE);
	assert_false(sl_nodes_is_busy(world.nodes, 0));
	peer_say(&peers[0], ":1\r\n");
	for (int i = 0; i < 1000 && !sl_nodes_is_busy(world.nodes, 0); i++)
		nodes_loop_run(&world, 5);
	assert_true(sl_nodes_is_busy(world.nodes, 0));
}

static void test_the_circuit(void **state) {
	struct asked asked[5], refused;
	(void)state;
	open_up();
	peers[0].check = peers[0].ping = NULL;
	for (int i = 0; i < 4; i++)
		assert_int_equal(ask_within("a", BUDGET_MS).kind, SL_ANSWER_LATE);
	peer_say(&peers[0], ":1\r\n:1\r\n:1\r\n:1\r\n"); /* late answers are no success, but in-time ones are */
	peers[0].check = ":1\r\n";
	assert_number("a", 1);
	peers[0].check = NULL;
	assert_true(sl_nodes_is_up(world.nodes, 0));
	for (int i = 0; i < 5; i++) {
		asked_fill(&asked[i], "CHECK", "a", "1 1/1s", BUDGET_MS);
		assert_true(sl_nodes_ask(world.nodes, &asked[i].ask));
	}
	for (int i = 0; i < 5; i++)
		assert_true(nodes_loop_until(&world, &asked[i].answered, LOOP_PATIENCE_MS));
	assert_true(sl_nodes_is_up(world.nodes, 0)); /* what was late together was late once */
	for (int i = 0; i < 4; i++)
		assert_int_equal(ask_within("a", BUDGET_MS).kind, SL_ANSWER_LATE);
	assert_false(sl_nodes_is_up(world.nodes, 0));
	asked_fill(&refused, "CHECK", "a", "1 1/1s", BUDGET_MS);
	assert_false(sl_nodes_ask(world.nodes, &refused.ask));
	nodes_loop_run(&world, 1);
	assert_int_equal(world.figures.breaks, 1);
	assert_int_equal(world.figures.nodes_open, 1);
	assert_true(nodes_said("answers come too late"));

	const unsigned pings = peers[0].pings;
	const char *role = peers[0].role;
	peers[0].role = NULL;
	nodes_loop_until_count(&world, &peers[0].pings, pings + 1); /* the probe goes after 50..100 ms */
	nodes_loop_run(&world, 100);
	assert_int_equal(peers[0].pings, pings + 1); /* a probe, and only one until it is answered */
	peers[0].ping = "+PONG\r\n";
	peers[0].role = role;
	for (int i = 0; i < 9; i++)
		peer_say(&peers[0], ":1\r\n"); /* those that were late */
	peer_say(&peers[0], "+PONG\r\n");  /* too late to close it */
	peer_say(&peers[0], role);         /* which goes with each probe */
	nodes_loop_run(&world, 5);
	assert_int_equal(world.figures.nodes_open, 1);
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	assert_int_equal(world.figures.nodes_open, 0);
	peers[0].check = ":3\r\n";
	assert_number("a", 3);
}

static void test_intervals_grow(void **state) {
	(void)state;
	peers[0].refuses = true;
	open_nodes();
	const sluice_ns begun = sl_clock_monotonic();
	/* at 0, then after 50..100, 100..200, 200..400 ms, and later where the host is busy */
	nodes_loop_until_count(&world, &peers[0].connects, 4);
	assert_int_equal(peers[0].connects, 4);
	assert_true(sl_clock_monotonic() - begun >= 350 * 1000000ull);
	assert_false(sl_nodes_is_up(world.nodes, 0));
	peers[0].refuses = false;
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
}

static void test_a_silent_node_is_given_up(void **state) {
	(void)state;
	peers[0].ping = NULL;
	open_nodes();
	assert_false(nodes_loop_until_up(&world, "a", 900));
	nodes_loop_until_said(&world, "no answer within 1 s");
	peers[0].ping = "+PONG\r\n";
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS)); /* it may just have been greeted in vain again */
}

/* ---- again, or never again --------------------------------------------------------------------------------------- */

static void test_what_was_sent_is_lost_and_not_sent_again(void **state) {
	(void)state;
	open_up();
	peers[0].resets = true;
	assert_int_equal(ask("a").kind, SL_ANSWER_LOST);
	peers[0].resets = false;
	assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	nodes_loop_run(&world, 20);
	assert_int_equal(peers[0].checks, 1);
	assert_int_equal(world.figures.disconnects, 1);
}

static void test_errors_that_pass(void **state) {
	static const char *const passing[] = {"-TRYAGAIN x\r\n", "-CLUSTERDOWN x\r\n", "-LOADING x\r\n",
	                                      "-MASTERDOWN x\r\n", "-BUSY x\r\n"};
	(void)state;
	open_up();
	for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
		peers[0].first = passing[i];
		peers[0].first_count = 2;
		assert_number("a", 1);
		peers[0].check = passing[i];
		/* nothing was done: until its time is over, or the circuit opens */
		const struct asked asked = i < 2 ? ask_within("a", BUDGET_MS) : ask("a");
		/* late, where it had just been sent once more */
		assert_true(asked.kind == SL_ANSWER_AWAY || (i < 2 && asked.kind == SL_ANSWER_LATE));
		assert_true(ms_of(&asked) >= (i < 2 ? BUDGET_MS : 1));
		assert_int_equal(world.figures.breaks, i < 2 ? 0 : i - 1);
		peers[0].check = ":1\r\n";
		assert_true(nodes_loop_until_up(&world, "a", LOOP_PATIENCE_MS));
	}
}

static const char *say_to(char *text, size_t room, const char *what, const struct wire_peer *to) {
	(void)snprintf(text, room, "-%s 749 127.0.0.1:%u\r\n", what, to->port);
	return text;
}

static void test_moved(void **state) {
	char text[64];
	(void)state;
	open_up();
	peers[1].check = ":2\r\n";
	peers[0].check = say_to(text, sizeof text, "MOVED", &peers[1]);
	assert_number("alice", 2); /* the other one is connected while it waits */
	assert_int_equal(world.figures.redirected, 1);
	assert_int_equal(world.figures.nodes, 2);
	assert_number("alice", 2);
	assert_int_equal(world.figures.redirected, 1);
	assert_int_equal(peers[0].checks, 1);
	(void)snprintf(text, sizeof text, "-MOVED 749 :%u\r\n", peers[0].port); /* no host: the same */
	peers[1].check = text;
	peers[0].check = ":3\r\n";
	assert_number("alice", 3);
	assert_int_equal(world.figures.nodes, 2);
	(void)snprintf(text, sizeof text, "-MOVED 749 localhost:%u\r\n", peers[1].port);
	peers[0].check = text;
	peers[1].check = ":4\r\n";
	struct asked asked;
	asked_now(&world, &asked, "CHECK", "alice", "1 1/1s", LOOP_PATIENCE_MS); /* names take their time */
	assert_int_equal(asked.numbers[0], 4);
}

static void test_redirections_without_sense(void **state) {
	static const char *const senseless[] = {
		"-MOVED \r\n",        "-MOVED x 127.0.0.1:1\r\n",     "-MOVED 16384 127.0.0.1:1\r\n", "-MOVED 1 127.0.0.1\r\n",
		"-ASK 1\r\n",         "-MOVED 1 127.0.0.1:99999\r\n", "-MOVED 1 a\\b c:1\r\n",        "-ASK -1 127.0.0.1:1\r\n",
		"-MOVED 1 [::1]\r\n",
	};
	(void)state;
	open_up();
	for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
		peers[0].check = senseless[i];
		assert_int_equal(ask("alice").kind, SL_ANSWER_ERROR);
	}
	assert_int_equal(world.figures.nodes, 1);
}

static void test_moved_in_a_circle(void **state) {
	char there[64], back[64];
	(void)state;
	open_up();
	peers[0].check = say_to(there, sizeof there, "MOVED", &peers[1]);
	peers[1].check = say_to(back, sizeof back, "MOVED", &peers[0]);
	const struct asked asked = ask_within("alice", 10 * BUDGET_MS);
	assert_true(asked.kind == SL_ANSWER_AWAY || asked.kind == SL_ANSWER_LATE);
	assert_true(ms_of(&asked) >= 10 * BUDGET_MS);
	assert_in_range(peers[0].checks + peers[1].checks, 5, 5 + 10 * BUDGET_MS / 4);
	assert_in_range(peers[0].slots_asked + peers[1].slots_asked, 0, 3 + ms_of(&asked) / 50);
}

static void test_ask(void **state) {
	char there[64];
	struct asked asked;
	(void)state;
	open_up();
	peers[0].check = say_to(there, sizeof there, "ASK", &peers[1]);
	peers[1].check = "-MOVED 749 127.0.0.1:1\r\n"; /* to whom does not say ASKING */
	peers[1].asked = ":9\r\n";
	asked_now(&world, &asked, "CHECK", "alice", "1 1/1s", LOOP_PATIENCE_MS); /* the other one has to be connected */
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
	assert_int_equal(asked.numbers[0], 9);
	assert_int_equal(peers[1].askings, 1);
	assert_number("alice", 9);
	assert_true(peers[0].checks >= 3); /* the slot is still the first one's */
}

/* The peer answers on this loop, which has hundreds of nodes to connect to: where the machine is busy it may be given
 * up for a moment. */
static void assert_alice_is_answered(void) {
	struct asked asked = {.kind = SL_ANSWER_AWAY};
	for (int tries = 0; tries < 20 && asked.kind != SL_ANSWER_NUMBERS; tries++) {
		assert_true(nodes_loop_until_up(&world, "alice", LOOP_PATIENCE_MS));
		asked_now(&world, &asked, "CHECK", "alice", "1 1/1s", LOOP_PATIENCE_MS);
	}
	assert_int_equal(asked.kind, SL_ANSWER_NUMBERS);
}

static void test_a_cluster_of_nonsense(void **state) {
	enum { ROOM = 2 * 1024 * 1024 };
	char *slots = malloc(ROOM), *at = slots;
	(void)state;
	assert_non_null(slots);
	at += snprintf(at, ROOM, "*16384\r\n");
	for (int i = 0; i < 16384; i++)
		at += snprintf(at, 128, "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", i, i,
		               i == 749 ? peers[0].port : 1 + i % 900); /* nobody listens there */
	peers[0].slots = slots;
	open_nodes();
	assert_true(nodes_loop_until_up(&world, "alice", LOOP_PATIENCE_MS));
	assert_in_range(world.figures.nodes, 100, 1024);
	assert_alice_is_answered();
	nodes_loop_run(&world, 300);
	assert_alice_is_answered();
	peers[0].slots = "*0\r\n"; /* all slots given up, as one says: not by whom answers */
	free(slots);
	nodes_loop_run(&world, 1500);
	assert_alice_is_answered();
}

/* ---- bounds, and the end ----------------------------------------------------------------------------------------- */

static unsigned landed[8], landed_in_all, landed_ours;

static void expect_landings(void) {
	memset(landed, 0, sizeof landed);
	landed_in_all = landed_ours = 0;
}

static void count_landed(struct sl_node_ask *done, const struct sl_answer *answer) {
	(void)done;
	landed[answer->kind]++;
	landed_ours += answer->ours;
	landed_in_all++;
}

static void test_commands_under_way_are_bounded(void **state) {
	enum { MOST = SL_PENDING_COMMANDS_MAX };
	struct sl_node_ask *asks = calloc(MOST + 1, sizeof *asks);
	struct asked like;
	(void)state;
	assert_non_null(asks);
	peers[0].check = NULL;
	open_up();
	asked_fill(&like, "CHECK", "a", "1 1/1s", 60000);
	expect_landings();
	for (unsigned i = 0; i < MOST; i++) {
		asks[i] = like.ask;
		asks[i].answered = count_landed;
		if (!sl_nodes_ask(world.nodes, &asks[i]))
			fail_msg("%u are too many", i);
	}
	asks[MOST] = like.ask;
	assert_false(sl_nodes_ask(world.nodes, &asks[MOST]));
	peer_hang_up(&peers[0]);
	nodes_loop_until_count(&world, &landed_in_all, MOST);
	assert_int_equal(landed[SL_ANSWER_LOST] + landed[SL_ANSWER_AWAY], MOST);
	free(asks);
}

/* A node that answers nothing has 64 commands; the others wait for their turn, and are late for no fault of the
 * node's. */
static void test_a_node_has_so_much_under_way(void **state) {
	enum { MOST = 300, WINDOW = 64 };
	struct sl_node_ask asks[MOST];
	struct asked like;
	(void)state;
	open_up();
	peers[0].check = NULL;
	asked_fill(&like, "CHECK", "a", "1 1/1s", BUDGET_MS);
	expect_landings();
	for (unsigned i = 0; i < MOST; i++) {
		asks[i] = like.ask;
		asks[i].answered = count_landed;
		assert_true(sl_nodes_ask(world.nodes, &asks[i]));
	}
	nodes_loop_until_count(&world, &landed_in_all, MOST);
	assert_int_equal(peers[0].checks, WINDOW);
	assert_int_equal(landed[SL_ANSWER_LATE], MOST);
	assert_in_range(landed_ours, MOST - WINDOW, MOST); /* MOST: where this host took so long to send them */
	assert_true(sl_nodes_is_up(world.nodes, 0));
}

/* As many as the node answers, in their order. */
static void test_what_waits_has_its_turn(void **state) {
	enum { MOST = 300, WINDOW = 64 };
	static struct asked asked[MOST];
	(void)state;
	open_up();
	peers[0].check = NULL;
	for (unsigned i = 0; i < MOST; i++) {
		asked_fill(&asked[i], "CHECK", "a", "1 1/1s", LOOP_PATIENCE_MS);
		assert_true(sl_nodes_ask(world.nodes, &asked[i].ask));
	}
	nodes_loop_until_count(&world, &peers[0].checks, WINDOW);
	nodes_loop_run(&world, 5);
	assert_int_equal(peers[0].checks, WINDOW);
	for (unsigned i = 0; i < MOST; i++) {
		char answer[16];
		snprintf(answer, sizeof answer, ":%u\r\n", i);
		nodes_loop_until_count(&world, &peers[0].checks, i + 1);
		peer_say(&peers[0], answer);
	}
	for (unsigned i = 0; i < MOST; i++) {
		assert_true(nodes_loop_until(&world, &asked[i].answered, LOOP_PATIENCE_MS));
		assert_int_equal(asked[i].kind, SL_ANSWER_NUMBERS);
		assert_int_equal(asked[i].numbers[0], i);
	}
}

/* To a node that does not read: what waits is not written to it. */
static void test_what_was_not_sent_is_not_lost(void **state) {
	enum { MOST = 20000, WINDOW = 64 };
	static char key[1000];
	struct sl_node_ask *asks = calloc(MOST, sizeof *asks);
	struct asked like;
	unsigned taken = 0;
	(void)state;
	assert_non_null(asks);
	memset(key, 'k', sizeof key - 1);
	open_up();
	uv_read_stop((uv_stream_t *)&peers[0].links[0].tcp);
	asked_fill(&like, "CHECK", key, "1 1/1s", 60000);
	expect_landings();
	for (; taken < MOST; taken++) {
		asks[taken] = like.ask;
		asks[taken].answered = count_landed;
		if (!sl_nodes_ask(world.nodes, &asks[taken]))
			break;
	}
	assert_int_equal(taken, MOST);
	peer_hang_up(&peers[0]);
	nodes_loop_until_count(&world, &landed_in_all, taken);
	assert_true(landed[SL_ANSWER_AWAY] >= MOST - WINDOW);
	assert_int_equal(landed[SL_ANSWER_LOST] + landed[SL_ANSWER_AWAY], taken);
	free(asks);
}

static struct asked second;

static void ask_again(struct sl_node_ask *done, const struct sl_answer *answer) {
	(void)done;
	(void)answer;
	asked_fill(&second, "CHECK", "b", "1 1/1s", LOOP_PATIENCE_MS);
	assert_true(sl_nodes_ask(world.nodes, &second.ask));
}

static void test_asking_from_within_an_answer(void **state) {
	struct asked first;
	(void)state;
	open_up();
	asked_fill(&first, "CHECK", "a", "1 1/1s", LOOP_PATIENCE_MS);
	first.ask.answered = ask_again;
	second.answered = false;
	assert_true(sl_nodes_ask(world.nodes, &first.ask));
	assert_true(nodes_loop_until(&world, &second.answered, LOOP_PATIENCE_MS));
	assert_int_equal(second.kind, SL_ANSWER_NUMBERS);
}

static void close_nodes(struct sl_node_ask *done, const struct sl_answer *answer) {
	(void)done;
	landed[answer->kind]++;
	landed_in_all++;
	sl_nodes_close(world.nodes, NULL, NULL);
}

/* One answered by closing, three behind it, one that pauses: all are answered, once. */
static void test_closing_from_within_an_answer(void **state) {
	struct asked asked[4];
	(void)state;
	open_up();
	expect_landings();
	for (int i = 0; i < 4; i++) {
		asked_fill(&asked[i], "CHECK", "a", "1 1/1s", LOOP_PATIENCE_MS);
		asked[i].ask.answered = i == 1 ? close_nodes : count_landed;
		assert_true(sl_nodes_ask(world.nodes, &asked[i].ask));
	}
	peers[0].first = "-TRYAGAIN\r\n";
	peers[0].first_count = 1;
	nodes_loop_until_count(&world, &landed_in_all, 4);
	assert_int_equal(landed[SL_ANSWER_NUMBERS], 1);
	assert_int_equal(landed[SL_ANSWER_AWAY], 1);
	assert_int_equal(landed[SL_ANSWER_LOST], 2);
}

static int end_closed(void **state) {
	(void)state;
	for (int i = 0; i < 2; i++)
		peer_close(&peers[i]);
	assert_int_equal(uv_run(&world.loop, UV_RUN_DEFAULT), 0);
	return uv_loop_close(&world.loop);
}

static void test_the_log_is_bounded(void **state) {
	static const char *addresses[20];
	static char text[20][32];
	(void)state;
	for (int i = 0; i < 20; i++) {
		(void)snprintf(text[i], sizeof text[i], "127.0.0.1:%d", i + 1);
		addresses[i] = text[i];
	}
	const struct sl_nodes_options settings = {.addresses = addresses, .address_count = 20, .budget_ns = 20000000};
	nodes_loop_open(&world, &settings, NULL);
	nodes_loop_until_count(&world, &nodes_line_count, 10);
	nodes_loop_run(&world, 100);
	assert_in_range(nodes_line_count, 10, 21);
	assert_true(nodes_said("redis 127.0.0.1:"));
	assert_true(nodes_said(": Connection refused; retrying in 0."));
}

/* ---- what a module knows ---------------------------------------------------------------------------------------- */

/* SLUICE.LEASE without arguments tells; a module of before, which has an error for that, is told EACH, and no UPTO of
 * ACQUIRE. */
static void test_who_knows_what(void **state) {
	static const struct {
		const char *module, *words, *word;
	} rows[] = {
		{":2\r\n", "1 EXACT 1/1s", "EXACT"},
		{":3\r\n", "1 EXACT 1/1s", "EXACT"},
		{":1\r\n", "1 EXACT 1/1s", "EACH"},
		{"-ERR wrong number of arguments for 'sluice.lease' command\r\n", "1 EXACT 1/1s", "EACH"},
		{"+OK\r\n", "1 EXACT 1/1s", "EACH"},
		{":3\r\n", "1 UPTO 1/1s", "UPTO"},
		{":2\r\n", "1 UPTO 1/1s", "1/1s"},
		{"+OK\r\n", "1 UPTO 1/1s", "1/1s"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct asked asked;
		if (i != 0) {
			end(state);
			begin(state);
		}
		peers[0].module = rows[i].module;
		open_up();
		asked_now(&world, &asked, "CHECK", "a", rows[i].words, BUDGET_MS);
		assert_string_equal(peers[0].last_word, rows[i].word);
	}
}

/* ---- pending commands -------------------------------------------------------------------------------------------- */

static void test_who_is_due_first(void **state) {
	enum { COUNT = 2000 };
	struct sl_pending_commands commands = {.heap = NULL};
	static struct sl_pending_command *all[COUNT];
	uint64_t random = 7;
	(void)state;
	for (int i = 0; i < COUNT; i++) {
		all[i] = sl_pending_commands_take(&commands, COUNT);
		assert_non_null(all[i]);
	}
	assert_null(sl_pending_commands_take(&commands, COUNT));
	for (int turn = 0; turn < 40000; turn++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		struct sl_pending_command *pending = all[(random >> 33) % COUNT];
		if ((random >> 60) < 5)
			sl_pending_commands_clear_due(&commands, pending);
		else
			assert_true(sl_pending_commands_set_due(&commands, pending, (random >> 20) % 1000));
	}
	sluice_ns before = 0;
	uint32_t due = 0;
	for (int i = 0; i < COUNT; i++)
		due += all[i]->place != 0;
	assert_true(due > COUNT / 4);
	for (struct sl_pending_command *first; (first = sl_pending_commands_first(&commands)) != NULL; due--) {
		assert_true(first->due >= before);
		before = first->due;
		sl_pending_commands_clear_due(&commands, first);
	}
	assert_int_equal(due, 0);
	for (int i = 0; i < COUNT; i++)
		sl_pending_commands_give(&commands, all[i]);
	assert_int_equal(commands.taken, 0);
	sl_pending_commands_free(&commands);
}

#define ON_PEERS(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
	const struct CMUnitTest tests[] = {
		ON_PEERS(test_replies_byte_by_byte),
		ON_PEERS(test_answers_of_another_shape),
		ON_PEERS(test_garbage_ends_the_connection),
		ON_PEERS(test_how_the_connection_ended_is_said),
		ON_PEERS(test_a_late_answer_is_dropped),
		ON_PEERS(test_a_stall_of_ours),
		ON_PEERS(test_a_busy_node),
		ON_PEERS(test_the_circuit),
		ON_PEERS(test_intervals_grow),
		ON_PEERS(test_a_silent_node_is_given_up),
		ON_PEERS(test_what_was_sent_is_lost_and_not_sent_again),
		ON_PEERS(test_errors_that_pass),
		ON_PEERS(test_moved),
		ON_PEERS(test_redirections_without_sense),
		ON_PEERS(test_moved_in_a_circle),
		ON_PEERS(test_ask),
		ON_PEERS(test_a_cluster_of_nonsense),
		ON_PEERS(test_commands_under_way_are_bounded),
		ON_PEERS(test_a_node_has_so_much_under_way),
		ON_PEERS(test_what_waits_has_its_turn),
		ON_PEERS(test_what_was_not_sent_is_not_lost),
		ON_PEERS(test_asking_from_within_an_answer),
		cmocka_unit_test_setup_teardown(test_closing_from_within_an_answer, begin, end_closed),
		ON_PEERS(test_who_knows_what),
		ON_PEERS(test_the_log_is_bounded),
		cmocka_unit_test(test_who_is_due_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
