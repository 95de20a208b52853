/* What nodes tell the log of one that can't be reached, and when they tell it again: on a clock of the test's own, in a
 * world where each connection fails at once. */
#include "hosts/server/cluster/nodes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S ((sluice_ns)1000000000)

enum { TIMERS_MAX = 2, LINES_MAX = 64 };

struct timer {
	struct sl_timer timer;
	void (*fired)(void *to), (*gone)(void *to);
	void *to;
	sluice_ns due; /* SLUICE_NEVER: it is not set */
};

static struct {
	sluice_ns now;
	int error; /* of a connection */
	struct timer timers[TIMERS_MAX];
	int timer_count;
	char lines[LINES_MAX][128];
	sluice_ns said[LINES_MAX];
	int line_count;
} world;

/* ---- the world --------------------------------------------------------------------------------------------------- */

static sluice_ns now_of(void *to) {
	(void)to;
	return world.now;
}

static bool fill(void *to, void *bytes, size_t len) {
	(void)to;
	memset(bytes, 7, len);
	return true;
}

static const struct sl_loop_operations operations;

static struct sl_timer *new_timer(void *of, enum sl_timer_kind kind, void (*fired)(void *to), void *to) {
	(void)of;
	(void)kind; /* at the end of a turn: as soon as it is set */
	assert_true(world.timer_count < TIMERS_MAX);
	struct timer *timer = &world.timers[world.timer_count++];
	*timer = (struct timer){.timer.operations = &operations, .fired = fired, .to = to, .due = SLUICE_NEVER};
	return &timer->timer;
}

static void set_timer(struct sl_timer *timer, uint64_t ms) {
	((struct timer *)timer)->due = world.now + ms * (S / 1000);
}

static void stop_timer(struct sl_timer *timer) {
	((struct timer *)timer)->due = SLUICE_NEVER;
}

static void free_timer(struct sl_timer *timer, void (*gone)(void *to)) {
	stop_timer(timer);
	((struct timer *)timer)->gone = gone;
}

static struct sl_socket *fail_to_connect(void *of, const struct sockaddr *address, socklen_t len,
                                         const struct sl_socket_events *events) {
	(void)of;
	(void)address;
	(void)len;
	(void)events;
	errno = world.error;
	return NULL;
}

static const struct sl_loop_operations operations = {.now = now_of,
                                                     .random = fill,
                                                     .timer_new = new_timer,
                                                     .timer_set = set_timer,
                                                     .timer_stop = stop_timer,
                                                     .timer_free = free_timer,
                                                     .connect = fail_to_connect};

static void say(bool trouble, const char *line) {
	assert_true(trouble);
	assert_true(world.line_count < LINES_MAX);
	world.said[world.line_count] = world.now;
	(void)snprintf(world.lines[world.line_count++], sizeof world.lines[0], "%s", line);
}

static void run_for(sluice_ns ns) {
	const sluice_ns end = world.now + ns;
	for (;;) {
		struct timer *first = &world.timers[0];
		for (int i = 1; i < world.timer_count; i++)
			if (world.timers[i].due < first->due)
				first = &world.timers[i];
		if (first->due > end)
			break;
		world.now = first->due > world.now ? first->due : world.now;
		first->due = SLUICE_NEVER;
		first->fired(first->to);
	}
	world.now = end;
}

static void on_closed(void *to) {
	*(bool *)to = true;
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

/* A node is tried every 2 s at last. Why it failed is said once, and again after 30 s; another reason at once. */
static void test_a_reason_is_said_again(void **state) {
	static const char *const addresses[] = {"192.0.2.1:6379"};
	static struct sl_cluster_figures figures;
	struct sl_nodes *nodes;
	struct sluice_error error;
	bool closed = false;
	const struct sl_nodes_options options = {.addresses = addresses,
	                                         .address_count = 1,
	                                         .budget_ns = S / 50,
	                                         .loop = {.operations = &operations},
	                                         .figures = &figures,
	                                         .say = say};
	(void)state;
	world.now = 1000 * S;
	world.error = ECONNREFUSED;
	assert_true(sl_nodes_open(&nodes, &options, &error));
	run_for(100 * S);
	assert_int_equal(world.line_count, 4);
	assert_true(world.said[0] <= 1001 * S);
	for (int i = 0; i < 4; i++) {
		assert_non_null(strstr(world.lines[i], "redis 192.0.2.1:6379: Connection refused; retrying in "));
		if (i != 0)
			assert_in_range(world.said[i] - world.said[i - 1], 30 * S, 32 * S);
	}
	world.error = EHOSTUNREACH;
	run_for(3 * S);
	assert_int_equal(world.line_count, 5);
	assert_non_null(strstr(world.lines[4], ": No route to host; retrying in "));
	world.error = ECONNREFUSED; /* said a moment ago, but something else has been said since */
	run_for(3 * S);
	assert_int_equal(world.line_count, 6);
	run_for(20 * S);
	assert_int_equal(world.line_count, 6);
	sl_nodes_close(nodes, on_closed, &closed);
	for (int i = 0; i < world.timer_count; i++)
		world.timers[i].gone(world.timers[i].to);
	assert_true(closed);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_reason_is_said_again)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
