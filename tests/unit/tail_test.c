/* Following decisions: what filters let through, what a tick lets through, that every decision which a reader wanted is
 * got or told as missed, and that the ring gives lines whole or not at all. Time is passed in; one thread. */
#include "hosts/server/watch/tail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TICK_NS ((sluice_ns)SL_TAIL_TICK_MS * 1000000)
#define NOW_NS (UINT64_C(18000000000) * TICK_NS)

enum { WORKERS = 3 };

static struct sl_tail *tail;
static uint64_t at[WORKERS];

static int set_up(void **state) {
	(void)state;
	tail = sl_tail_new(WORKERS);
	assert_non_null(tail);
	memset(at, 0, sizeof at);
	return 0;
}

static int tear_down(void **state) {
	(void)state;
	sl_tail_free(tail);
	return 0;
}

static struct sl_tail_reader *join(const char *limit, const char *key, bool denied) {
	struct sl_tail_filter filter;
	struct sl_tail_reader *reader = NULL;
	sl_tail_filter_begin(&filter);
	filter.denied = denied;
	if (limit != NULL)
		assert_true(sl_tail_filter_limit(&filter, sl_str(limit)));
	if (key != NULL)
		assert_true(sl_tail_filter_key(&filter, sl_str(key)));
	assert_int_equal(sl_tail_join(tail, &filter, &reader), SL_TAIL_JOINED);
	return reader;
}

/* A decision as a worker makes it. Returns whether a line was written. */
static bool decide(uint32_t worker, const char *name, const char *notation, const char *key, bool denied,
                   sluice_ns now) {
	struct sl_tail_source *source = sl_tail_source(tail, worker);
	struct sl_tail_subject subject = {.key = sl_str(key), .denied = denied};
	struct sluice_limit limit;
	struct sl_tail_head head;
	char line[64];
	if (name != NULL)
		subject.name = sl_str(name);
	assert_int_equal(sluice_limit_parse(&limit, sl_str(notation), NULL), SLUICE_OK);
	subject.limit = &limit;
	if (!sl_tail_is_wanted(source))
		return false;
	(void)sl_tail_catch_up(source, now);
	if (!sl_tail_take(source, &subject, now, &head))
		return false;
	int len = snprintf(line, sizeof line, "%s %s %s", name != NULL ? name : notation, key, denied ? "no" : "yes");
	sl_tail_write(source, &head, sl_slice(line, (size_t)len));
	return true;
}

/* Reads all rings; how many lines are for a reader. `text` NULL: not looked at. */
static uint32_t read_all(const struct sl_tail_reader *reader, const char *text) {
	char memory[SL_RECORD_BYTES_MAX + 8];
	struct sl_tail_head head;
	uint32_t count = 0;
	for (uint32_t worker = 0; worker < WORKERS; worker++)
		for (uint64_t before = at[worker];
		     sl_tail_ring_read(sl_tail_ring(tail, worker), &at[worker], &head, memory) == SL_TAIL_LINE;
		     before = at[worker])
			if (sl_tail_is_for(reader, &head, worker, before)) {
				count++;
				if (text != NULL) {
					memory[head.len] = '\0';
					assert_string_equal(memory, text);
				}
			}
	return count;
}

/* ---- who wants what ---------------------------------------------------------------------------------------------- */

static void test_nobody_reads_nothing_is_written(void **state) {
	(void)state;
	assert_false(sl_tail_is_wanted(NULL));
	assert_false(sl_tail_is_wanted(sl_tail_source(tail, 0)));
	assert_false(decide(0, "login", "5/1m", "a", true, NOW_NS));
	struct sl_tail_reader *reader = join(NULL, NULL, false);
	assert_true(sl_tail_is_wanted(sl_tail_source(tail, 2)));
	sl_tail_leave(reader);
	assert_false(sl_tail_is_wanted(sl_tail_source(tail, 2)));
	sl_tail_leave(NULL);
	assert_int_equal(sl_tail_ring_end(sl_tail_ring(tail, 0)), 0);
}

static void test_filters(void **state) {
	/* limit, key, denied of the filter; then of each decision whether it is wanted */
	static const struct {
		const char *limit, *key;
		bool denied, wants[6];
	} rows[] = {
		{NULL, NULL, false, {true, true, true, true, true, true}},
		{NULL, NULL, true, {false, true, false, true, false, true}},
		{"login", NULL, false, {true, true, false, false, false, false}},
		{"login", "user=a", true, {false, true, false, false, false, false}},
		{NULL, "user=a", false, {true, true, false, true, false, false}},
		{"5/1m", NULL, false, {false, false, false, false, true, true}},
		{"sliding-window 5/60s", NULL, true, {false, false, false, false, false, true}},
		{"6/1m", NULL, false, {false}},
		{"logi", NULL, false, {false}},
		{NULL, "", false, {false, false, true, false, false, false}},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_tail_reader *reader = join(rows[i].limit, rows[i].key, rows[i].denied);
		const bool wrote[6] = {
			decide(0, "login", "5/1m", "user=a", false, NOW_NS + i * TICK_NS),
			decide(1, "login", "5/1m", "user=a", true, NOW_NS + i * TICK_NS),
			decide(1, "api", "5/1m", "", false, NOW_NS + i * TICK_NS),
			decide(2, "api", "5/1m", "user=a", true, NOW_NS + i * TICK_NS),
			decide(0, NULL, "5/1m", "user=ab", false, NOW_NS + i * TICK_NS),
			decide(0, NULL, "sliding-window 5/1m", "user=b", true, NOW_NS + i * TICK_NS),
		};
		uint32_t wanted = 0;
		for (int j = 0; j < 6; j++) {
			if (wrote[j] != rows[i].wants[j])
				fail_msg("filter %zu, decision %d: %d", i, j, wrote[j]);
			wanted += rows[i].wants[j];
		}
		sl_tail_count_wanted(reader);
		assert_int_equal(reader->wanted, wanted);
		assert_int_equal(read_all(reader, NULL), wanted);
		sl_tail_leave(reader);
	}
}

static void test_a_text_that_is_too_long(void **state) {
	struct sl_tail_filter filter;
	char text[SLUICE_KEY_BYTES_MAX + 1];
	(void)state;
	memset(text, 'a', sizeof text);
	sl_tail_filter_begin(&filter);
	assert_false(sl_tail_filter_limit(&filter, sl_slice(text, SLUICE_LIMIT_TEXT_MAX + 1)));
	assert_false(sl_tail_filter_limit(&filter, sl_slice(text, 0)));
	assert_false(sl_tail_filter_key(&filter, sl_slice(text, sizeof text)));
	assert_true(filter.any_limit && filter.any_key);
	assert_true(sl_tail_filter_key(&filter, sl_slice(text, SLUICE_KEY_BYTES_MAX)));
}

/* Readers of other filters beside each other: each gets his own, in one line for all who want it. */
static void test_readers_beside_each_other(void **state) {
	struct sl_tail_reader *all = join(NULL, NULL, false), *denied = join(NULL, NULL, true),
						  *key = join(NULL, "k7", false), *again = join(NULL, NULL, true);
	(void)state;
	assert_int_equal(denied->filter, again->filter);
	assert_int_not_equal(all->filter, denied->filter);
	for (int i = 0; i < 20; i++) {
		char name[8];
		snprintf(name, sizeof name, "k%d", i);
		assert_true(decide((uint32_t)i % WORKERS, "api", "5/1m", name, i % 4 == 3, NOW_NS));
	}
	uint64_t begun[WORKERS];
	memcpy(begun, at, sizeof at);
	struct {
		struct sl_tail_reader *reader;
		uint32_t wanted;
	} rows[] = {{all, 20}, {denied, 5}, {key, 1}, {again, 5}};
	for (int i = 0; i < 4; i++) {
		memcpy(at, begun, sizeof at);
		assert_int_equal(read_all(rows[i].reader, rows[i].reader == key ? "api k7 no" : NULL), rows[i].wanted);
		sl_tail_leave(rows[i].reader);
	}
}

/* One who comes later to a filter that others have gets nothing from before, and has missed none of it. */
static void test_who_comes_later(void **state) {
	struct sl_tail_reader *first = join(NULL, NULL, false);
	(void)state;
	for (int i = 0; i < 7; i++)
		assert_true(decide(1, "api", "5/1m", "a", false, NOW_NS));
	struct sl_tail_reader *second = join(NULL, NULL, false);
	assert_int_equal(first->filter, second->filter);
	assert_true(decide(1, "api", "5/1m", "b", false, NOW_NS));
	assert_int_equal(read_all(second, "api b yes"), 1);
	second->got = 1;
	sl_tail_count_wanted(second);
	assert_int_equal(sl_tail_missed(second), 0);
	sl_tail_count_wanted(first);
	assert_int_equal(sl_tail_missed(first), 8);
	assert_int_equal(sl_tail_missed(first), 0);
	assert_int_equal(sl_tail_figures(tail).missed, 8);
	sl_tail_leave(first);
	sl_tail_leave(second);
}

/* A number of a filter that was let go and is another's: lines and counts of the one before are not his. */
static void test_a_number_used_again(void **state) {
	(void)state;
	struct sl_tail_reader *reader = join(NULL, NULL, true);
	uint32_t filter = reader->filter;
	for (int i = 0; i < 9; i++)
		assert_true(decide(0, "api", "5/1m", "a", true, NOW_NS));
	for (int i = 0; i < SL_TAIL_READERS_MAX; i++) { /* all others come in between */
		sl_tail_leave(reader);
		reader = join("login", NULL, false);
	}
	assert_int_equal(reader->filter, filter);
	memset(at, 0, sizeof at);
	assert_int_equal(read_all(reader, NULL), 0);
	sl_tail_count_wanted(reader);
	assert_int_equal(reader->wanted, 0);
	assert_false(decide(0, "api", "5/1m", "a", true, NOW_NS));
	assert_true(decide(0, "login", "5/1m", "a", true, NOW_NS));
	sl_tail_count_wanted(reader);
	assert_int_equal(reader->wanted, 1);
	sl_tail_leave(reader);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

static void test_the_next_reader_is_refused(void **state) {
	struct sl_tail_reader *readers[SL_TAIL_READERS_MAX], *more = NULL;
	struct sl_tail_filter filter;
	char key[16];
	(void)state;
	sl_tail_filter_begin(&filter);
	for (int i = 0; i < SL_TAIL_READERS_MAX; i++) {
		snprintf(key, sizeof key, "k%d", i);
		readers[i] = join(NULL, key, false);
	}
	assert_int_equal(sl_tail_join(tail, &filter, &more), SL_TAIL_FULL);
	assert_null(more);
	assert_int_equal(sl_tail_figures(tail).readers, SL_TAIL_READERS_MAX);
	/* each of so many filters still finds its own */
	for (int i = 0; i < SL_TAIL_READERS_MAX; i++) {
		snprintf(key, sizeof key, "k%d", i);
		assert_true(decide(0, "api", "5/1m", key, false, NOW_NS));
	}
	assert_false(decide(0, "api", "5/1m", "k128", false, NOW_NS));
	sl_tail_leave(readers[5]);
	assert_int_equal(sl_tail_join(tail, &filter, &readers[5]), SL_TAIL_JOINED);
	for (int i = 0; i < SL_TAIL_READERS_MAX; i++)
		sl_tail_leave(readers[i]);
	assert_int_equal(sl_tail_figures(tail).readers, 0);
}

/* A stream of everything takes its share of a tick and no more, what is rare is found in it, and none is lost. */
static void test_a_tick_and_what_is_rare(void **state) {
	enum { TICKS = 50, OFTEN = 5000 };
	struct sl_tail_reader *all = join(NULL, NULL, false), *rare = join(NULL, "rare", true);
	uint64_t lines = 0, found = 0;
	(void)state;
	for (int tick = 0; tick < TICKS; tick++) {
		sluice_ns now = NOW_NS + (sluice_ns)tick * TICK_NS;
		uint64_t begun[WORKERS];
		for (int i = 0; i < OFTEN; i++)
			decide(0, "api", "5/1m", "often", i % 2 == 0, now);
		assert_true(decide(0, "api", "5/1m", "rare", true, now));
		memcpy(begun, at, sizeof at);
		uint32_t of_all = read_all(all, NULL);
		memcpy(at, begun, sizeof at);
		found += read_all(rare, "api rare no");
		assert_true(of_all <= SL_TAIL_TICK_LINES && of_all >= SL_TAIL_TICK_LINES / 2 - 1);
		lines += of_all;
	}
	assert_int_equal(found, TICKS);
	all->got = lines;
	sl_tail_count_wanted(all);
	assert_int_equal(sl_tail_missed(all), TICKS * (OFTEN + 1) - lines);
	rare->got = found;
	sl_tail_count_wanted(rare);
	assert_int_equal(sl_tail_missed(rare), 0);
	sl_tail_leave(all);
	sl_tail_leave(rare);
}

/* Whoever comes and goes without end makes a worker look at filters so many times a tick, not each time. */
static void test_changes_of_a_tick(void **state) {
	(void)state;
	struct sl_tail_reader *reader = join(NULL, NULL, false);
	int written = 0;
	for (int i = 0; i < 10 * SL_TAIL_TICK_CHANGES; i++) {
		struct sl_tail_reader *other = join(NULL, "none", false);
		written += decide(0, "api", "5/1m", "a", false, NOW_NS);
		sl_tail_leave(other);
	}
	/* what is shared, and the share of one of two, from the first change on */
	assert_int_equal(written, SL_TAIL_TICK_SHARED + (SL_TAIL_TICK_LINES - SL_TAIL_TICK_SHARED) / 2);
	struct sl_tail_reader *late = join(NULL, "late", false);
	assert_false(decide(0, "api", "5/1m", "late", false, NOW_NS));
	assert_true(decide(0, "api", "5/1m", "late", false, NOW_NS + TICK_NS));
	assert_int_equal(read_all(late, "api late yes"), 1);
	sl_tail_leave(late);
	sl_tail_leave(reader);
}

/* ---- the ring ---------------------------------------------------------------------------------------------------- */

static void test_ring_gives_back_what_was_written(void **state) {
	static struct sl_tail_ring ring;
	static char text[SL_RECORD_BYTES_MAX + 8], copy[SL_RECORD_BYTES_MAX + 8];
	uint64_t position = 0;
	struct sl_tail_head head;
	(void)state;
	assert_int_equal(sl_tail_ring_read(&ring, &position, &head, copy), SL_TAIL_NONE);
	for (uint32_t i = 0; i < 3000; i++) { /* several times around, at every length modulo 8 */
		const struct sl_tail_head wrote = {
			.len = i % 7 == 0 ? SL_RECORD_BYTES_MAX - i % 16 : i % 600, .mask = {i, ~i}, .taken = i * 3, .now = i * 5};
		memset(text, (int)(i % 251), wrote.len);
		sl_tail_ring_write(&ring, &wrote, text);
		assert_int_equal(sl_tail_ring_read(&ring, &position, &head, copy), SL_TAIL_LINE);
		assert_memory_equal(&head.mask, &wrote.mask, sizeof head.mask);
		assert_int_equal(head.len, wrote.len);
		assert_int_equal(head.taken, wrote.taken);
		assert_int_equal(head.now, wrote.now);
		assert_memory_equal(copy, text, wrote.len);
		assert_int_equal(sl_tail_ring_read(&ring, &position, &head, copy), SL_TAIL_NONE);
	}
}

/* The last line that is there, and the first that is not: a reader is late by one word, not before. */
static void test_ring_at_its_edge(void **state) {
	static struct sl_tail_ring ring;
	static char text[SL_RECORD_BYTES_MAX + 8];
	enum { LINE_WORDS = 5 + 3 };
	struct sl_tail_head head = {.len = 24}, got;
	uint64_t kept = 0, late = 0;
	(void)state;
	for (int i = 0; i < SL_TAIL_RING_WORDS / LINE_WORDS; i++)
		sl_tail_ring_write(&ring, &head, text);
	assert_int_equal(sl_tail_ring_end(&ring), SL_TAIL_RING_WORDS);
	assert_int_equal(sl_tail_ring_read(&ring, &kept, &got, text), SL_TAIL_LINE);
	head.len = 0;
	sl_tail_ring_write(&ring, &head, text);
	assert_int_equal(sl_tail_ring_read(&ring, &late, &got, text), SL_TAIL_LATE);
	assert_int_equal(late, sl_tail_ring_end(&ring));
	assert_int_equal(sl_tail_ring_read(&ring, &kept, &got, text), SL_TAIL_LINE);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nobody_reads_nothing_is_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_text_that_is_too_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_readers_beside_each_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_who_comes_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_number_used_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_next_reader_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_tick_and_what_is_rare, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_changes_of_a_tick, set_up, tear_down),
		cmocka_unit_test(test_ring_gives_back_what_was_written),
		cmocka_unit_test(test_ring_at_its_edge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
