/* The parts of replay: keys from lines, the external sort against a stable one, the stats against a plain list. */
#include "hosts/cli/replay/replay_key.h"
#include "hosts/cli/replay/replay_pending.h"
#include "hosts/cli/replay/replay_sort.h"
#include "hosts/cli/replay/replay_stats.h"
#include "policy/key.h"
#include "tests/model/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static struct sl_replay_request request;
static struct sl_logline made; /* what it was made of */

static void make(const char *text) {
	static struct sl_logline_scratch scratch;
	struct sluice_error error;
	assert_true(sl_logline_parse(SL_LOG_AUTO, sl_str(text), &scratch, &made, &error));
	sl_replay_request_make(&request, &made, SL_REPLAY_ALL, 64);
}

/* What the key names is all that it needs. */
static void expect_same_of_wanted(const struct sl_replay_key *key, struct sluice_bytes expected, bool has) {
	static struct sl_replay_request narrow;
	char bytes[SL_REPLAY_KEY_BYTES_MAX];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	uint32_t wanted = sl_replay_key_wants(key);
	sl_replay_request_make(&narrow, &made, wanted, 64);
	assert_int_equal(sl_replay_key_write(key, &narrow, &out), has);
	assert_true(sl_bytes_equal(sl_slice(bytes, sl_out_len(&out)), expected));
	for (int i = 0; i < SL_REPLAY_ATTRIBUTES; i++)
		assert_true((wanted >> i & 1) || narrow.values[i].data == NULL);
}

/* `wanted` NULL: the request has no such key. */
static void expect_key(const char *key_text, const char *wanted) {
	char bytes[SL_REPLAY_KEY_BYTES_MAX];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	struct sl_replay_key key = sl_replay_key_default;
	struct sluice_error error;
	if (key_text != NULL)
		assert_true(sl_replay_key_parse(&key, key_text, &error));
	bool has = sl_replay_key_write(&key, &request, &out);
	assert_int_equal(has, wanted != NULL);
	assert_int_equal(sl_out_len(&out), has ? strlen(wanted) : 0);
	assert_memory_equal(bytes, wanted, has ? strlen(wanted) : 0);
	expect_same_of_wanted(&key, sl_slice(bytes, sl_out_len(&out)), has);
}

static void keys(void **state) {
	(void)state;
	make("::ffff:1.2.3.4 - a=b,c% [17/May/2015:10:05:03 +0000] \"GET http://WWW.Example:80/x//../%7ey?q HTTP/1.1\" 200 "
	     "5");
	expect_key(NULL, "1.2.3.4");
	expect_key("ip", "1.2.3.4");
	expect_key("path", "/~y");
	expect_key("host", "www.example");
	expect_key("method", "GET");
	expect_key("status", "200");
	expect_key("user", "a=b,c%");
	expect_key("key", NULL);
	expect_key("user | ip", "user=a%3Db%2Cc%25");
	expect_key("ip|user", "ip=1.2.3.4");
	expect_key("key | path , ip", "path=/~y,ip=1.2.3.4");
	expect_key("ip,key", NULL);
	make("2001:db8:1:2:3::4 - - [17/May/2015:10:05:03 +0000] \"-\" 408 0");
	expect_key("ip", "2001:db8:1:2::/64");
	expect_key("path", NULL);
	expect_key("user|ip", "ip=2001:db8:1:2::/64");
	make("client.example - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5");
	expect_key("ip", "client.example");
	make("{\"ts\":1,\"remote_addr\":\"[2001:db8::1]:4711\",\"host\":\"[::1]:80\",\"method\":\"GET\"}");
	expect_key("ip", "2001:db8::/64");
	expect_key("host", "[::1]");
	make("5 1.2.3.4:80 1"); /* an ops key is nobody's address */
	expect_key(NULL, "1.2.3.4:80");
	expect_key("key", "1.2.3.4:80");
	expect_key("ip", NULL);
}

static void keys_refused(void **state) {
	static const struct {
		const char *text;
		uint32_t column;
		const char *says;
	} bad[] = {
		{"", 1, "expected ip"},
		{"usr", 1, "did you mean user?"},
		{"ip,", 4, "expected ip"},
		{"ip, pth", 5, "mean path?"},
		{"|ip", 1, "expected ip"},
		{"ip|", 4, "expected ip"},
		{"IP", 1, "did you mean ip?"},
		{"user ip", 1, "no attribute"},
		{"ip,,path", 4, "expected ip"},
		{"ip,ip,ip,ip,ip,ip,ip,ip", 19, "too many parts"},
		{"ip|ip|ip|ip|ip|ip|ip|ip", 22, "too many choices"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sl_replay_key key;
		struct sluice_error error;
		assert_false(sl_replay_key_parse(&key, bad[i].text, &error));
		assert_int_equal(error.column, bad[i].column);
		assert_non_null(strstr(error.text, bad[i].says));
	}
}

static void long_values_are_folded(void **state) {
	static char value[4 * SLUICE_KEY_BYTES_MAX];
	char bytes[SL_REPLAY_KEY_BYTES_MAX], folded[SLUICE_KEY_BYTES_MAX];
	struct sl_logline line = {.format = SL_LOG_JSON, .time = 1, .cost = 1};
	struct sluice_error error;
	struct sl_replay_key key;
	(void)state;
	memset(value, 'v', sizeof value);
	value[0] = '/';
	line.user = line.path = sl_slice(value, sizeof value);
	sl_replay_request_make(&request, &line, SL_REPLAY_ALL, 64);
	assert_int_equal(request.values[SL_REPLAY_PATH].len, SLUICE_KEY_BYTES_MAX); /* cut: they share a counter */
	assert_true(sl_replay_key_parse(&key, "user", &error));
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	struct sluice_bytes wanted = sl_key_fold(folded, line.user);
	assert_true(sl_replay_key_write(&key, &request, &out));
	assert_int_equal(sl_out_len(&out), wanted.len);
	assert_memory_equal(bytes, wanted.data, wanted.len);
	assert_true(sl_replay_key_parse(&key, "user,path", &error));
	out = sl_out_to(bytes, sizeof bytes);
	assert_true(sl_replay_key_write(&key, &request, &out));
	assert_int_equal(sl_out_len(&out), SLUICE_KEY_BYTES_MAX);
}

/* ---- the sort ---------------------------------------------------------------------------------------------------- */

struct twin_line {
	sluice_ns time;
	uint64_t number;
	uint32_t len;
};

static int twin_compare(const void *a, const void *b) {
	const struct twin_line *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Sorts `count` random lines with so little memory that they make many runs, or all in memory. */
static void sort_against_twin(struct dice *dice, size_t memory, uint32_t count, uint32_t len_max, uint64_t times) {
	static char text[SL_SORT_LINE_MAX];
	struct twin_line *twin = calloc(count + 1, sizeof *twin);
	struct sl_sort *sort = sl_sort_open(memory);
	struct sl_sort_line line;
	struct sluice_error error;
	for (uint32_t i = 0; i < count; i++) {
		twin[i] = (struct twin_line){dice_below(dice, times), i, (uint32_t)dice_below(dice, len_max + 1)};
		memset(text, 'a' + (int)(i % 26), twin[i].len);
		line = (struct sl_sort_line){twin[i].time, i, i % 7, i % 5, sl_slice(text, twin[i].len)};
		assert_true(sl_sort_add(sort, &line, &error));
	}
	qsort(twin, count, sizeof *twin, twin_compare);
	assert_true(sl_sort_finish(sort, &error));
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(sl_sort_next(sort, &line, &error), 1);
		assert_int_equal(line.time, twin[i].time);
		assert_int_equal(line.number, twin[i].number);
		assert_int_equal(line.file, twin[i].number % 7);
		assert_int_equal(line.format, twin[i].number % 5);
		assert_int_equal(line.text.len, twin[i].len);
		memset(text, 'a' + (int)(twin[i].number % 26), twin[i].len);
		assert_memory_equal(line.text.data, text, twin[i].len);
	}
	assert_int_equal(sl_sort_next(sort, &line, &error), 0);
	assert_int_equal(sl_sort_next(sort, &line, &error), 0);
	sl_sort_close(sort);
	free(twin);
}

static void sorted(void **state) {
	struct dice dice = dice_of(dice_seed(), __LINE__);
	(void)state;
	sort_against_twin(&dice, SL_SORT_MEMORY_MIN, 0, 10, 1);
	sort_against_twin(&dice, SL_SORT_MEMORY_MIN, 1, 0, 1);
	sort_against_twin(&dice, SL_SORT_MEMORY_MIN, 1000, 40, 10);  /* in memory */
	sort_against_twin(&dice, SL_SORT_MEMORY_MIN, 12000, 40, 50); /* runs, most lines of one instant */
	sort_against_twin(&dice, SL_SORT_MEMORY_MIN, 12000, 40, UINT64_MAX);
	sort_against_twin(&dice, 16 * SL_SORT_MEMORY_MIN, 150, SL_SORT_LINE_MAX, 50); /* the longest lines */
}

static void too_many_runs(void **state) {
	static char text[SL_SORT_LINE_MAX];
	struct sl_sort *sort = sl_sort_open(SL_SORT_MEMORY_MIN);
	struct sl_sort_line line = {.text = sl_slice(text, sizeof text)};
	struct sluice_error error = {0};
	int added = 0;
	(void)state;
	while (added < 100 && sl_sort_add(sort, &line, &error))
		added++;
	assert_true(added > 4 && added < 100);
	assert_non_null(strstr(error.text, "too much to sort"));
	sl_sort_close(sort);
}

static void no_temporary_file(void **state) {
	static char text[SL_SORT_LINE_MAX];
	struct sl_sort *sort = sl_sort_open(SL_SORT_MEMORY_MIN);
	struct sl_sort_line line = {.text = sl_slice(text, sizeof text)};
	struct sluice_error error = {0};
	(void)state;
	setenv("TMPDIR", "/nowhere/at/all", 1);
	while (sl_sort_add(sort, &line, &error))
		;
	unsetenv("TMPDIR");
	assert_non_null(strstr(error.text, "/nowhere/at/all"));
	sl_sort_close(sort);
}

/* ---- the counts -------------------------------------------------------------------------------------------------- */

enum { KEY_TEXT = 40 };

/* Of 5 to 28 bytes, the first sixteen the short ones: some that the memo takes, some that are too long for it. */
static struct sluice_bytes key_text(char text[KEY_TEXT], uint32_t number) {
	int more = number < 16 ? 0 : (int)(number % 20);
	int len = snprintf(text, KEY_TEXT, "key-%u%.*s", number, more, "~~~~~~~~~~~~~~~~~~~~");
	return sl_slice(text, (size_t)len);
}

static void tallied(void **state) {
	enum { KEYS = 5000, ADDS = 200000 };
	static struct { uint64_t requests, denied; } twin[KEYS];
	struct dice dice = dice_of(dice_seed(), __LINE__);
	struct sl_replay_stats stats;
	char text[KEY_TEXT];
	uint64_t limited = 0, met = 0;
	(void)state;
	assert_true(sl_replay_stats_open(&stats, SL_REPLAY_STATS_SLOTS_MAX, SL_REPLAY_STATS_TEXT_MAX));
	for (int i = 0; i < ADDS; i++) {
		uint32_t key = (uint32_t)(dice_below(&dice, KEYS) * dice_below(&dice, KEYS) / KEYS);
		bool denied = dice_below(&dice, 3) == 0 && key % 2 == 0;
		met += twin[key].requests++ == 0;
		limited += denied && twin[key].denied == 0;
		twin[key].denied += denied;
		assert_true(sl_replay_stats_add(&stats, key_text(text, key), denied));
	}
	assert_int_equal(stats.keys, met);
	assert_int_equal(stats.limited, limited);
	assert_false(stats.keys_at_least || stats.requests_at_least);
	struct sl_replay_stats_slot *worst = calloc(SL_REPLAY_STATS_WORST_MAX, sizeof *worst);
	uint32_t count = sl_replay_stats_worst(&stats, worst, SL_REPLAY_STATS_WORST_MAX);
	assert_int_equal(count, limited < SL_REPLAY_STATS_WORST_MAX ? limited : SL_REPLAY_STATS_WORST_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_bytes key = sl_replay_stats_text(&stats, &worst[i]);
		snprintf(text, sizeof text, "%.*s", (int)key.len, (const char *)key.data);
		uint32_t number = (uint32_t)strtoul(text + 4, NULL, 10);
		assert_int_equal(worst[i].denied, twin[number].denied);
		assert_int_equal(worst[i].requests, twin[number].requests);
		assert_true(i == 0 || worst[i - 1].denied >= worst[i].denied);
		twin[number].denied = 0; /* each is named once */
	}
	for (uint32_t i = 0; i < KEYS && count == SL_REPLAY_STATS_WORST_MAX; i++)
		assert_true(twin[i].denied <= worst[count - 1].denied); /* nobody worse was left out */
	assert_int_equal(sl_replay_stats_worst(&stats, worst, 0), 0);
	free(worst);
	sl_replay_stats_close(&stats);
}

static void stats_ties(void **state) {
	static const char *const order[] = {"b", "a", "ab", "c"};
	struct sl_replay_stats stats;
	struct sl_replay_stats_slot worst[4];
	(void)state;
	assert_true(sl_replay_stats_open(&stats, 64, 1000));
	for (int i = 3; i >= 0; i--)
		assert_true(sl_replay_stats_add(&stats, sl_str(order[i]), true));
	assert_true(sl_replay_stats_add(&stats, sl_str("b"), false));
	assert_int_equal(sl_replay_stats_worst(&stats, worst, 4), 4);
	for (int i = 0; i < 4; i++)
		assert_true(sl_bytes_equal(sl_replay_stats_text(&stats, &worst[i]), sl_str(order[i])));
	sl_replay_stats_close(&stats);
}

/* A full table gives up those never denied, keeps every limited one, and says what it no longer knows. */
static void stats_full(void **state) {
	struct sl_replay_stats stats;
	char text[KEY_TEXT];
	(void)state;
	assert_true(sl_replay_stats_open(&stats, 64, 1000));
	for (uint32_t i = 0; i < 20; i++)
		assert_true(sl_replay_stats_add(&stats, key_text(text, i), true));
	assert_false(stats.requests_at_least);
	for (uint32_t i = 20; i < 5000; i++)
		assert_true(sl_replay_stats_add(&stats, key_text(text, i), false));
	assert_true(stats.requests_at_least);
	assert_false(stats.keys_at_least);
	assert_int_equal(stats.limited, 20);
	for (uint32_t i = 20; i < 100; i++)
		assert_true(sl_replay_stats_add(&stats, key_text(text, i), true));
	assert_true(stats.keys_at_least);
	assert_true(stats.limited >= 33 && stats.limited <= 48); /* more than half of 64, at most three quarters */
	for (uint32_t i = 0; i < 20; i++)
		assert_true(sl_replay_stats_add(&stats, key_text(text, i), true)); /* those in it count on */
	struct sl_replay_stats_slot worst[20];
	assert_int_equal(sl_replay_stats_worst(&stats, worst, 20), 20);
	for (int i = 0; i < 20; i++)
		assert_int_equal(worst[i].denied, 2);
	assert_int_equal(stats.slot_count, 64);
	sl_replay_stats_close(&stats);
}

static void stats_text_full(void **state) {
	struct sl_replay_stats stats;
	struct sl_replay_stats_slot worst[4];
	char text[KEY_TEXT];
	(void)state;
	assert_true(sl_replay_stats_open(&stats, 64, 11));
	for (uint32_t i = 0; i < 3; i++)
		assert_true(sl_replay_stats_add(&stats, key_text(text, i), true));
	assert_true(sl_replay_stats_add(&stats, sl_str(""), true));
	assert_int_equal(stats.limited, 4);
	assert_int_equal(sl_replay_stats_worst(&stats, worst, 4), 4);
	assert_int_equal(sl_replay_stats_text(&stats, &worst[0]).len + sl_replay_stats_text(&stats, &worst[1]).len, 0);
	assert_true(sl_bytes_equal(sl_replay_stats_text(&stats, &worst[2]), sl_str("key-0")));
	assert_true(sl_bytes_equal(sl_replay_stats_text(&stats, &worst[3]), sl_str("key-1")));
	sl_replay_stats_close(&stats);
}

/* ---- what becomes of requests later ------------------------------------------------------------------------------ */

static bool is_counted(const struct sluice_item *item) {
	return item->limit->algorithm == SLUICE_SLIDING_LOG;
}

/* The heap gives its events by time, then by request, whatever came when; and its keys are its own. */
static void pendings(void **state) {
	struct dice dice = dice_of(dice_seed(), __LINE__);
	struct sl_replay_pendings heap = {0};
	struct sluice_limit log, lease;
	(void)state;
	assert_int_equal(sluice_limit_parse(&log, sl_str("sliding-log 5/1m"), NULL), SLUICE_OK);
	assert_int_equal(sluice_limit_parse(&lease, sl_str("concurrency 5 lease 1m"), NULL), SLUICE_OK);
	assert_null(sl_replay_pending_first(&heap));
	uint64_t order = 0, taken = 0;
	sluice_ns last = 0; /* what was taken last, unless something earlier was added since */
	uint64_t last_order = 0;
	for (int round = 0; round < 20000 || heap.count != 0; round++) {
		if (round < 20000 && dice_below(&dice, 5) < 3) {
			char key[32];
			int len = snprintf(key, sizeof key, "%llu", (unsigned long long)++order);
			struct sluice_item items[] = {{.limit = &lease, .key = sl_str("not this one")},
			                              {.limit = &log, .key = sl_slice(key, (size_t)len)}};
			struct sl_replay_pending event = {
				.time = dice_below(&dice, 1000), .order = order, .item_count = 2, .items = items};
			assert_true(sl_replay_pending_add(&heap, &event, is_counted));
			memset(key, 'x', sizeof key);
			last = 0, last_order = 0;
			continue;
		}
		const struct sl_replay_pending *first = sl_replay_pending_first(&heap);
		if (first == NULL)
			continue;
		assert_true(first->time > last || (first->time == last && first->order > last_order));
		for (size_t i = 0; i < heap.count; i++)
			assert_true(heap.heap[i]->time >= first->time);
		char text[32];
		int len = snprintf(text, sizeof text, "%llu", (unsigned long long)first->order);
		assert_int_equal(first->item_count, 1);
		assert_ptr_equal(first->items[0].limit, &log);
		assert_true(sl_bytes_equal(first->items[0].key, sl_slice(text, (size_t)len)));
		last = first->time, last_order = first->order;
		sl_replay_pending_drop(&heap);
		taken++;
	}
	assert_int_equal(taken, order);
	struct sluice_item other = {.limit = &lease, .key = sl_str("k")};
	struct sl_replay_pending nothing = {.item_count = 1, .items = &other};
	assert_true(sl_replay_pending_add(&heap, &nothing, is_counted));
	assert_null(sl_replay_pending_first(&heap)); /* nothing of it was wanted */
	sl_replay_pendings_close(&heap);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys),
		cmocka_unit_test(keys_refused),
		cmocka_unit_test(long_values_are_folded),
		cmocka_unit_test(sorted),
		cmocka_unit_test(too_many_runs),
		cmocka_unit_test(no_temporary_file),
		cmocka_unit_test(tallied),
		cmocka_unit_test(stats_ties),
		cmocka_unit_test(stats_full),
		cmocka_unit_test(stats_text_full),
		cmocka_unit_test(pendings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
