/* What waits at a worker until the policy was read again: told when its ticket is over, and gone with the worker. Each
 * ticket is left once, whatever becomes of who waits; else the reader keeps it for ever. */
#include "hosts/server/door/door.h"
#include "hosts/server/net/reloading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TICKETS_MAX = 4 };

struct ticket {
	bool over;
	unsigned left;
};

static struct bed {
	uv_loop_t loop;
	struct sl_shared shared;
	struct sl_reloading reloading;
	struct ticket tickets[TICKETS_MAX];
	unsigned asked, told, looks;
	bool again; /* who is told asks once more */
} bed;

/* ---- the reader -------------------------------------------------------------------------------------------------- */

static void *reader_ask(void *server, bool waits) {
	assert_ptr_equal(server, &bed);
	assert_true(waits);
	return bed.asked < TICKETS_MAX ? &bed.tickets[bed.asked++] : NULL;
}

static bool reader_look(void *server, void *ticket, struct sl_reload *outcome) {
	assert_ptr_equal(server, &bed);
	bed.looks++;
	outcome->limit_count = (uint32_t)((struct ticket *)ticket - bed.tickets) + 1;
	return ((struct ticket *)ticket)->over;
}

static void reader_leave(void *server, void *ticket) {
	assert_ptr_equal(server, &bed);
	((struct ticket *)ticket)->left++;
}

/* ---- who waits --------------------------------------------------------------------------------------------------- */

static bool ask_for(unsigned *to);

static void on_ready(struct sl_pending *pending, void *to) {
	*(unsigned *)to = pending->reload->limit_count;
	sl_pending_free(pending);
	bed.told++;
	if (bed.again) {
		bed.again = false;
		assert_false(ask_for(to));
	}
}

static struct sl_pending *make(unsigned *to) {
	struct sl_pending *pending = calloc(1, sizeof *pending + sizeof pending->calls[0]);
	assert_non_null(pending);
	pending->call_count = 1;
	pending->ready = on_ready;
	pending->to = to;
	pending->reload = calloc(1, sizeof *pending->reload);
	assert_non_null(pending->reload);
	return pending;
}

static bool ask_for(unsigned *to) {
	return bed.reloading.remote.send(&bed.reloading.remote, make(to));
}

static int begin(void **state) {
	(void)state;
	memset(&bed, 0, sizeof bed);
	bed.shared.server = &bed;
	bed.shared.reload_ask = reader_ask;
	bed.shared.reload_look = reader_look;
	bed.shared.reload_leave = reader_leave;
	assert_int_equal(uv_loop_init(&bed.loop), 0);
	sl_reloading_init(&bed.reloading, &bed.loop, &bed.shared);
	return 0;
}

static void end(void) {
	sl_reloading_close(&bed.reloading);
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&bed.loop), 0);
}

static void until_looks(unsigned more) {
	for (const unsigned until = bed.looks + more; bed.looks < until;)
		assert_int_not_equal(uv_run(&bed.loop, UV_RUN_ONCE), 0);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void test_each_is_told_when_it_is_over(void **state) {
	unsigned to[3] = {0};
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_false(ask_for(&to[i]));
	until_looks(6);
	assert_int_equal(bed.told, 0);
	bed.tickets[1].over = true;
	bed.again = true;
	until_looks(6);
	assert_int_equal(bed.told, 1);
	assert_int_equal(to[1], 2);
	assert_int_equal(bed.asked, 4); /* the one that was told asks again */
	bed.tickets[0].over = bed.tickets[2].over = bed.tickets[3].over = true;
	uv_run(&bed.loop, UV_RUN_DEFAULT); /* with nobody left it looks no more */
	assert_int_equal(bed.told, 4);
	assert_int_equal(to[0], 1);
	assert_int_equal(to[1], 4);
	assert_int_equal(to[2], 3);
	for (int i = 0; i < 4; i++)
		assert_int_equal(bed.tickets[i].left, 1);
	end();
}

static void test_nobody_waits_any_more(void **state) {
	struct sl_pending *pending = make(NULL);
	(void)state;
	assert_false(bed.reloading.remote.send(&bed.reloading.remote, pending));
	uv_run(&bed.loop, UV_RUN_DEFAULT);
	assert_int_equal(bed.told + bed.looks, 0);
	assert_int_equal(bed.tickets[0].left, 1);
	end();
}

static void test_a_worker_ends(void **state) {
	unsigned to[2] = {0};
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_false(ask_for(&to[i]));
	end();
	assert_int_equal(bed.told, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bed.tickets[i].left, 1);
}

static void test_too_many(void **state) {
	unsigned to = 0;
	(void)state;
	bed.asked = TICKETS_MAX;
	struct sl_pending *pending = make(&to);
	assert_true(bed.reloading.remote.send(&bed.reloading.remote, pending));
	assert_string_equal(pending->reload->messages, "the policy can't be reloaded now: too many reloads are waiting");
	sl_pending_free(pending);
	end();
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_is_told_when_it_is_over, begin),
		cmocka_unit_test_setup(test_nobody_waits_any_more, begin),
		cmocka_unit_test_setup(test_a_worker_ends, begin),
		cmocka_unit_test_setup(test_too_many, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
