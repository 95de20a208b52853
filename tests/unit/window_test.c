/* How much a node has under way: it grows while answers are quick, shrinks where the node is behind, and a node that
 * has answered all is never held to be behind, however late we came to read that. Instants are passed in. */
#include "hosts/server/cluster/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS_NS UINT64_C(1000000)
#define BUDGET_NS (20 * MS_NS)
#define BEGIN_NS (UINT64_C(1000) * MS_NS)

enum { FIRST = 64, LEAST = 16 };

/* A turn: so many answers to what was sent so long ago; what is then still under way, and whether others wait. */
struct turn {
	uint32_t answers, left;
	bool waits;
	double took_ms;
	uint32_t most; /* afterwards */
};

static void run(const char *name, const struct turn *turns, size_t count) {
	struct sl_node_ask ask = {.asker = NULL};
	struct sl_pending_command waiting = {.ask = &ask};
	struct sl_window window;
	sluice_ns now = BEGIN_NS;
	sl_window_reset(&window);
	assert_int_equal(window.most, FIRST);
	for (size_t i = 0; i < count; i++) {
		now += 100 * MS_NS;
		if (turns[i].waits && window.first == NULL)
			sl_window_wait(&window, &waiting, now);
		window.under_way = turns[i].answers + turns[i].left;
		for (uint32_t k = 0; k < turns[i].answers; k++) {
			window.under_way--;
			sl_window_answered(&window, now - (sluice_ns)(turns[i].took_ms * (double)MS_NS), now, BUDGET_NS);
		}
		sl_window_read(&window, now);
		if (window.most != turns[i].most)
			fail_msg("%s, turn %zu: %u, not %u", name, i, window.most, turns[i].most);
		if (window.first != NULL)
			sl_window_leave(&window, &waiting);
	}
}

static void test_how_it_grows_and_shrinks(void **state) {
	static const struct {
		const char *name;
		struct turn turns[4];
	} rows[] = {
		{"quick, nobody waits", {{64, 0, false, 1, 64}, {64, 0, false, 1, 64}}},
		{"quick, others wait", {{1, 63, true, 1, 65}, {10, 54, true, 1, 75}}},
		{"all answered, others wait", {{10, 0, true, 1, 148}, {1, 0, true, 1, 298}}},
		{"all answered, read late", {{1, 63, false, 1, 64}, {64, 0, true, 9, 72}, {72, 0, true, 19, 81}}},
		{"behind", {{1, 63, false, 1, 64}, {32, 32, true, 9, 32}, {32, 1, true, 9, 16}, {9, 1, true, 19, LEAST}}},
		{"a node that is far away", {{1, 63, false, 8, 64}, {32, 32, true, 12, 64}, {32, 32, true, 14, 32}}},
		{"neither quick nor behind", {{1, 63, false, 1, 64}, {32, 32, true, 5, 64}}},
		{"most of the budget, always", {{32, 32, true, 13, 32}, {32, 32, true, 13, 16}}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t count = 0;
		while (count < 4 && rows[i].turns[count].most != 0)
			count++;
		run(rows[i].name, rows[i].turns, count);
	}
}

/* Halved once for what was under way together. */
static void test_what_was_sent_before_does_not_shrink_it_again(void **state) {
	struct sl_window window;
	(void)state;
	sl_window_reset(&window);
	window.under_way = 9;
	sl_window_answered(&window, BEGIN_NS, BEGIN_NS + MS_NS, BUDGET_NS);
	for (int i = 0; i < 3; i++) {
		sl_window_answered(&window, BEGIN_NS + 10 * MS_NS, BEGIN_NS + (20 + (sluice_ns)i) * MS_NS, BUDGET_NS);
		sl_window_read(&window, BEGIN_NS + (20 + (sluice_ns)i) * MS_NS);
		assert_int_equal(window.most, FIRST / 2);
	}
	sl_window_answered(&window, BEGIN_NS + 20 * MS_NS, BEGIN_NS + 30 * MS_NS, BUDGET_NS);
	sl_window_read(&window, BEGIN_NS + 30 * MS_NS);
	assert_int_equal(window.most, LEAST);
}

static void test_the_line(void **state) {
	struct sl_node_ask ask = {.asker = NULL};
	struct sl_pending_command waiting[4] = {{.next = NULL}};
	struct sl_window window;
	(void)state;
	sl_window_reset(&window);
	assert_true(sl_window_is_open(&window));
	for (int i = 0; i < 4; i++) {
		waiting[i].ask = &ask;
		sl_window_wait(&window, &waiting[i], BEGIN_NS + (sluice_ns)i);
		assert_true(waiting[i].waits && waiting[i].sent == BEGIN_NS + (sluice_ns)i);
	}
	assert_false(sl_window_is_open(&window)); /* nobody overtakes */
	sl_window_leave(&window, &waiting[1]);
	assert_ptr_equal(sl_window_next(&window), &waiting[0]);
	sl_window_leave(&window, &waiting[3]);
	window.under_way = window.most;
	assert_null(sl_window_next(&window));
	window.under_way--;
	assert_ptr_equal(sl_window_next(&window), &waiting[2]);
	assert_false(waiting[2].waits);
	assert_null(sl_window_next(&window));
	assert_true(sl_window_is_open(&window) && window.last == NULL);
	window.under_way++;
	assert_false(sl_window_is_open(&window));
}

/* Letters are askers, in the order in which their commands begin to wait; '-' takes the next, and what was taken is in
 * `turns`. A digit: the command of that place leaves, its time being over. */
static void test_askers_take_turns(void **state) {
	static const struct {
		const char *what, *turns;
	} rows[] = {
		{"aaa---", "aaa"},
		{"aaaab-----", "abaaa"},
		{"aaabbbccc---------", "abcabcabc"},
		{"aaaa--b---", "aaaba"},
		{"aab-a-bc-----", "ababca"}, /* who has had a turn is behind */
		{"...---", "..."},                  /* nobody's: each for itself */
		{"aaa..b------", "a..baa"},
		{"aaabb0----", "baba"},             /* a first that leaves */
		{"aaabb1----", "abab"},
		{"aaabb34---", "aaa"},
		{"aaabb43---", "aaa"},
		{"aaa2--", "aa"},
		{"ab0b1---c-", "bc"},
	};
	(void)state;
	for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
		struct sl_node_ask asks[32] = {{.asker = NULL}};
		struct sl_pending_command waiting[32] = {{.next = NULL}};
		struct sl_window window;
		char turns[32] = "";
		uint32_t placed = 0, taken = 0;
		sl_window_reset(&window);
		for (const char *at = rows[row].what; *at != 0; at++) {
			if (*at == '-') {
				const struct sl_pending_command *next = sl_window_next(&window);
				if (next != NULL)
					turns[taken++] = next->ask->asker == NULL ? '.' : *(const char *)next->ask->asker;
			} else if (*at >= '0' && *at <= '9') {
				sl_window_leave(&window, &waiting[*at - '0']);
			} else {
				static const char letters[] = "abc";
				asks[placed].asker = *at == '.' ? NULL : &letters[*at - 'a'];
				waiting[placed].ask = &asks[placed];
				sl_window_wait(&window, &waiting[placed], BEGIN_NS);
				placed++;
			}
		}
		if (strcmp(turns, rows[row].turns) != 0)
			fail_msg("%s: %s, not %s", rows[row].what, turns, rows[row].turns);
		assert_null(window.first);
		assert_null(window.last);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_how_it_grows_and_shrinks),
		cmocka_unit_test(test_what_was_sent_before_does_not_shrink_it_again),
		cmocka_unit_test(test_the_line),
		cmocka_unit_test(test_askers_take_turns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
