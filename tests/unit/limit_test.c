/* The notation both ways: what is written, what is printed, and what is refused, where and in which words.
 *
 * Contract section 2. Columns point at the first byte of what is wrong. */
#include "tests/model/dice.h"

#include "algo/rule.h"
#include "base/zone.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const struct {
	const char *written, *canonical;
} accepted[] = {
	{"100/60s", "sliding-window 100/1m"},
	{"sliding-window 100/60s", "sliding-window 100/1m"},
	{"fixed-window 10/1s", "fixed-window 10/1s"},
	{"sliding-log 400k/1m", "sliding-log 400000/1m"},
	{"sliding-buckets 240/1h precision 1m", "sliding-buckets 240/1h precision 1m edge count"},
	{"sliding-buckets 240/1h precision 60s edge drop", "sliding-buckets 240/1h precision 1m edge drop"},
	{"sliding-buckets 240/1h precision 60000ms edge weighted", "sliding-buckets 240/1h precision 1m edge weighted"},
	{"token-bucket 10/1s burst 100", "token-bucket 10/1s burst 100"},
	{"token-bucket 10/1s", "token-bucket 10/1s burst 10"},
	{"token-bucket 10/1s burst 1", "token-bucket 10/1s burst 1"},
	{"leaky-bucket 10/1s queue 50", "leaky-bucket 10/1s queue 50"},
	{"leaky-bucket 10/1s", "leaky-bucket 10/1s queue 10"},
	{"leaky-bucket 10/1s queue 0", "leaky-bucket 10/1s queue 0"},
	{"unlimited", "unlimited"},
	{"100/60s spread", "sliding-window 100/1m spread"},
	{"fixed-window 1k/60m spread", "fixed-window 1000/1h spread"},
	{"fixed-window 1k/60m spread 0", "fixed-window 1000/1h spread 0"},
	{"0/1h spread 131071", "sliding-window 0/1h spread 131071"},
	/* Sizes: k, M and G are decimal, up to 4294967295. */
	{"1k/1s", "sliding-window 1000/1s"},
	{"3M/1s", "sliding-window 3000000/1s"},
	{"4G/1s", "sliding-window 4000000000/1s"},
	{"0k/1s", "sliding-window 0/1s"},
	{"4294967295/1s", "sliding-window 4294967295/1s"},
	{"4294967k/1s", "sliding-window 4294967000/1s"},
	{"token-bucket 1/1s burst 4G", "token-bucket 1/1s burst 4000000000"},
	{"leaky-bucket 1/1s queue 4294967295", "leaky-bucket 1/1s queue 4294967295"},
	/* Durations: the largest unit that divides them. */
	{"1/1ms", "sliding-window 1/1ms"},
	{"1/999ms", "sliding-window 1/999ms"},
	{"1/1000ms", "sliding-window 1/1s"},
	{"1/1500ms", "sliding-window 1/1500ms"},
	{"1/59s", "sliding-window 1/59s"},
	{"1/90s", "sliding-window 1/90s"},
	{"1/60m", "sliding-window 1/1h"},
	{"1/3600s", "sliding-window 1/1h"},
	{"1/24h", "sliding-window 1/1d"},
	{"1/7d", "sliding-window 1/1w"},
	{"1/168h", "sliding-window 1/1w"},
	{"1/604800000ms", "sliding-window 1/1w"},
	{"1/8d", "sliding-window 1/8d"},
	{"1/3660d", "sliding-window 1/3660d"},
	{"1/316224000000ms", "sliding-window 1/3660d"},
	{"1/522w", "sliding-window 1/522w"},
	/* M is a million before the slash, m a minute behind it. */
	{"1M/1m", "sliding-window 1000000/1m"},
	/* Quota 0 denies; burst and queue are then left out. */
	{"0/1s", "sliding-window 0/1s"},
	{"fixed-window 0/1s", "fixed-window 0/1s"},
	{"sliding-log 0/1s", "sliding-log 0/1s"},
	{"token-bucket 0/1s", "token-bucket 0/1s"},
	{"leaky-bucket 0/1s", "leaky-bucket 0/1s"},
	{"sliding-buckets 0/1h precision 1m", "sliding-buckets 0/1h precision 1m edge count"},
	/* W / P from 2 to 4096. */
	{"sliding-buckets 1/2ms precision 1ms", "sliding-buckets 1/2ms precision 1ms edge count"},
	{"sliding-buckets 1/4096ms precision 1ms", "sliding-buckets 1/4096ms precision 1ms edge count"},
	{"sliding-buckets 1/3660d precision 1830d", "sliding-buckets 1/3660d precision 1830d edge count"},
	{"sliding-buckets 1/3660d precision 1d", "sliding-buckets 1/3660d precision 1d edge count"},
	{"sliding-buckets 4G/1w precision 1d edge count", "sliding-buckets 4000000000/1w precision 1d edge count"},
	/* Leases and members. */
	{"concurrency 20 lease 30s", "concurrency 20 lease 30s"},
	{"concurrency 2k lease 120s", "concurrency 2000 lease 2m"},
	{"concurrency 0 lease 1ms", "concurrency 0 lease 1ms"},
	{"concurrency 4294967295 lease 3660d", "concurrency 4294967295 lease 3660d"},
	{"distinct 50/1h", "distinct 50/1h"},
	{"distinct 0/60s", "distinct 0/1m"},
	{"distinct 1024/1h", "distinct 1024/1h"},
	{"distinct 1025/1h", "distinct 1025/1h edge deny"},
	{"distinct 1M/1d edge deny", "distinct 1000000/1d edge deny"},
	{"distinct 4294967295/3660d edge allow", "distinct 4294967295/3660d edge allow"},
	{"distinct 1025/1h registers 4096", "distinct 1025/1h edge deny"},
	{"distinct 1M/1d registers 16384", "distinct 1000000/1d edge deny registers 16384"},
	{"distinct 1M/1d registers 1024 edge allow", "distinct 1000000/1d edge allow registers 1024"},
	{"distinct 1M/1d edge deny registers 32768", "distinct 1000000/1d edge deny registers 32768"},
};

static const struct refusal {
	const char *written;
	sluice_err err;
	uint32_t column;
	const char *says; /* a part of the message */
} refused[] = {
	/* Nothing, and not enough. */
	{"", SLUICE_E_SYNTAX, 1, "expected"},
	{"100", SLUICE_E_SYNTAX, 4, "/"},
	{"100/", SLUICE_E_SYNTAX, 5, "expected"},
	{"100/60", SLUICE_E_SYNTAX, 7, "ms, s, m, h, d or w"},
	{"/60s", SLUICE_E_SYNTAX, 1, "expected"},
	{"fixed-window", SLUICE_E_SYNTAX, 13, "expected a space and a quota such as 100/1m"},
	{"fixed-window 9/1m spread 131072", SLUICE_E_RANGE, 26, "up to 131071"},
	{"fixed-window 9/1m spread x", SLUICE_E_SYNTAX, 26, "up to 131071"},
	{"fixed-window 9/1m spread 5 spread", SLUICE_E_SYNTAX, 28, "expected the end"},
	{"9/day at ", SLUICE_E_SYNTAX, 10, "expected the name of a time zone"},
	{"9/day at  UTC", SLUICE_E_SYNTAX, 10, "expected the name of a time zone"},
	{"9/day at 0123456789012345678901234567890123456789012345678901234567890123456789", SLUICE_E_SYNTAX, 10,
     "expected the name of a time zone"},
	{"fixed-window ", SLUICE_E_SYNTAX, 14, "expected"},
	{"sliding-buckets 10/1s", SLUICE_E_SYNTAX, 22, "precision"},
	{"sliding-buckets 10/1s precision", SLUICE_E_SYNTAX, 32, "expected"},
	{"sliding-buckets 10/1s precision ", SLUICE_E_SYNTAX, 33, "expected"},
	{"token-bucket 10/1s burst", SLUICE_E_SYNTAX, 25, "expected"},
	{"240/1h precision 1m", SLUICE_E_SYNTAX, 8, "expected the end: 'precision' belongs to sliding-buckets ..."},
	{"sliding-log 240/1h edge count", SLUICE_E_SYNTAX, 20, "'edge' belongs to sliding-buckets ..."},
	{"10/1s burst 5", SLUICE_E_SYNTAX, 7, "'burst' belongs to token-bucket ..."},
	{"10/1s queue 5", SLUICE_E_SYNTAX, 7, "'queue' belongs to leaky-bucket ..."},
	{"fixed-window 10/1d at UTC", SLUICE_E_SYNTAX, 20, "'at' belongs to 100/day at ..."},
	{"10/1s colour 5", SLUICE_E_SYNTAX, 7, "this algorithm has no options"},
	{"token-bucket 10/1s queue 5", SLUICE_E_SYNTAX, 20, "expected the option 'burst', once"},
	{"sliding-buckets 10/1s edge count", SLUICE_E_SYNTAX, 33, "precision"},
	/* Words that are not words of the notation. */
	{"sliding_window 100/1m", SLUICE_E_SYNTAX, 1, "sliding-window"},
	{"Fixed-Window 10/1s", SLUICE_E_SYNTAX, 1, "fixed-window"},
	{"fixed 10/1s", SLUICE_E_SYNTAX, 1, "fixed"},
	{"unlimitedly", SLUICE_E_SYNTAX, 1, "unlimited"},
	{"unlimited 10/1s", SLUICE_E_SYNTAX, 10, "nothing after"},
	{"100/60s please", SLUICE_E_SYNTAX, 9, "please"},
	{"100/60s 200/60s", SLUICE_E_SYNTAX, 9, "200/60s"},
	{"token-bucket 10/1s Burst 5", SLUICE_E_SYNTAX, 20, "burst"},
	{"sliding-buckets 10/1s precision 100ms edge sharp", SLUICE_E_SYNTAX, 44, "count, drop or weighted"},
	/* concurrency has a lease and no window; distinct is exact up to 1,024, and has no edge there. */
	{"concurrency", SLUICE_E_SYNTAX, 12, "expected"},
	{"concurrency ", SLUICE_E_SYNTAX, 13, "in flight"},
	{"concurrency 20", SLUICE_E_SYNTAX, 15, "lease 30s"},
	{"concurrency 20/30s", SLUICE_E_SYNTAX, 15, "'lease'"},
	{"concurrency 20 lease", SLUICE_E_SYNTAX, 15, "lease 30s"},
	{"concurrency 20 lease ", SLUICE_E_SYNTAX, 22, "how long"},
	{"concurrency 20 lease 30", SLUICE_E_SYNTAX, 24, "ms, s, m, h, d or w"},
	{"concurrency 20 lease 0s", SLUICE_E_RANGE, 22, "1ms"},
	{"concurrency 20 lease 3661d", SLUICE_E_RANGE, 22, "3660d"},
	{"concurrency 20 Lease 30s", SLUICE_E_SYNTAX, 15, "'lease'"},
	{"concurrency 20  lease 30s", SLUICE_E_SYNTAX, 15, "'lease'"},
	{"concurrency 20 lease 30s ", SLUICE_E_SYNTAX, 25, "the end"},
	{"concurrency 20 lease 30s lease 30s", SLUICE_E_SYNTAX, 25, "the end"},
	{"concurrency 5G lease 30s", SLUICE_E_RANGE, 13, "4294967295"},
	{"concurrency 1k5 lease 30s", SLUICE_E_SYNTAX, 15, "'lease'"},
	{"distinct 50", SLUICE_E_SYNTAX, 12, "'/'"},
	{"distinct 50/1h edge deny", SLUICE_E_SYNTAX, 16, "above 1024"},
	{"distinct 1024/1h edge allow", SLUICE_E_SYNTAX, 18, "above 1024"},
	{"distinct 0/1h edge allow", SLUICE_E_SYNTAX, 15, "above 1024"},
	{"distinct 1025/1h edge count", SLUICE_E_SYNTAX, 23, "deny or allow"},
	{"distinct 1025/1h edge", SLUICE_E_SYNTAX, 22, "value"},
	{"distinct 1025/1h edge deny edge deny", SLUICE_E_SYNTAX, 28, "'edge' and 'registers', once each"},
	{"distinct 1025/1h registers 1024 registers 1024", SLUICE_E_SYNTAX, 33, "once each"},
	{"distinct 1025/1h burst 5", SLUICE_E_SYNTAX, 18, "'edge' and 'registers', once each"},
	{"distinct 1024/1h registers 4096", SLUICE_E_SYNTAX, 18, "above 1024"},
	{"distinct 0/1h registers 4096", SLUICE_E_SYNTAX, 15, "above 1024"},
	{"distinct 1025/1h registers", SLUICE_E_SYNTAX, 27, "value"},
	{"distinct 1025/1h registers ", SLUICE_E_SYNTAX, 28, "a number of registers"},
	{"distinct 1025/1h registers many", SLUICE_E_SYNTAX, 28, "a number of registers"},
	{"distinct 1025/1h registers 0", SLUICE_E_RANGE, 28, "1024, 2048"},
	{"distinct 1025/1h registers 512", SLUICE_E_RANGE, 28, "1024, 2048"},
	{"distinct 1025/1h registers 5000", SLUICE_E_RANGE, 28, "16384 or 32768"},
	{"distinct 1025/1h registers 16k", SLUICE_E_RANGE, 28, "1024, 2048"},
	{"distinct 1025/1h registers 65536", SLUICE_E_RANGE, 28, "16384 or 32768"},
	{"distinct 1025/1h registers 18446744073709555712", SLUICE_E_RANGE, 28, ""},
	{"distinct 1025/1h registers 4096 ", SLUICE_E_SYNTAX, 32, "expected"},
	{"sliding-log 240/1h registers 4096", SLUICE_E_SYNTAX, 20, "'registers' belongs to distinct ..."},
	{"sliding-buckets 10/1s precision 100ms edge deny", SLUICE_E_SYNTAX, 44, "count, drop or weighted"},
	/* Numbers. */
	{"-1/1s", SLUICE_E_SYNTAX, 1, "expected"},
	{"+1/1s", SLUICE_E_SYNTAX, 1, "expected"},
	{"1.5/1s", SLUICE_E_SYNTAX, 2, "expected"},
	{"1e3/1s", SLUICE_E_SYNTAX, 2, "expected"},
	{"0x10/1s", SLUICE_E_SYNTAX, 2, "expected"},
	{"1kk/1s", SLUICE_E_SYNTAX, 3, "expected"},
	{"1K/1s", SLUICE_E_SYNTAX, 2, "k, M"},
	{"1g/1s", SLUICE_E_SYNTAX, 2, "G"},
	{"100m/1s", SLUICE_E_SYNTAX, 4, "M"},
	{"4294967296/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"5G/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"4294968k/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"18446744073709551616/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"18446744073709551617/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"99999999999999999999999999999999999999999999/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"18446744073709552k/1s", SLUICE_E_RANGE, 1, "4294967295"},
	{"token-bucket 1/1s burst 5G", SLUICE_E_RANGE, 25, "4294967295"},
	{"token-bucket 1/1s burst 0", SLUICE_E_RANGE, 25, "1"},
	{"token-bucket 1/1s burst -1", SLUICE_E_SYNTAX, 25, "expected"},
	{"token-bucket 0/1s burst 5", SLUICE_E_SYNTAX, 19, "burst"},
	{"leaky-bucket 0/1s queue 5", SLUICE_E_SYNTAX, 19, "queue"},
	/* Durations. */
	{"1/0ms", SLUICE_E_RANGE, 3, "1ms"},
	{"1/0s", SLUICE_E_RANGE, 3, "1ms"},
	{"1/3661d", SLUICE_E_RANGE, 3, "3660d"},
	{"1/523w", SLUICE_E_RANGE, 3, "3660d"},
	{"1/316224000001ms", SLUICE_E_RANGE, 3, "3660d"},
	{"1/99999999999999999999d", SLUICE_E_RANGE, 3, "3660d"},
	{"1/18446744073709551617ms", SLUICE_E_RANGE, 3, "3660d"},
	{"1/30500568904944w", SLUICE_E_RANGE, 3, "3660d"}, /* just above 2^64 ms: 384 ms, should it wrap */
	{"100/60x", SLUICE_E_SYNTAX, 7, "ms, s, m, h, d or w"},
	{"100/60S", SLUICE_E_SYNTAX, 7, "ms, s, m, h, d or w"},
	{"100/60M", SLUICE_E_SYNTAX, 7, "ms, s, m, h, d or w"},
	{"100/60sec", SLUICE_E_SYNTAX, 8, "'ec'"},
	{"100/60us", SLUICE_E_SYNTAX, 7, "ms, s, m, h, d or w"},
	{"100/s", SLUICE_E_SYNTAX, 5, "expected"},
	{"100/-1s", SLUICE_E_SYNTAX, 5, "expected"},
	{"100/1.5s", SLUICE_E_SYNTAX, 6, "expected"},
	{"100/1m30s", SLUICE_E_SYNTAX, 7, "'30s'"},
	{"100//1s", SLUICE_E_SYNTAX, 5, "expected"},
	/* Precision: it divides the window into 2 to 4096 parts. */
	{"sliding-buckets 10/1s precision 300ms", SLUICE_E_RANGE, 33, "divide"},
	{"sliding-buckets 10/1s precision 1s", SLUICE_E_RANGE, 33, "4096"},
	{"sliding-buckets 10/1s precision 2s", SLUICE_E_RANGE, 33, "divide"},
	{"sliding-buckets 10/4097ms precision 1ms", SLUICE_E_RANGE, 37, "4096"},
	{"sliding-buckets 10/1s precision 0ms", SLUICE_E_RANGE, 33, "1ms"},
	{"sliding-buckets 10/1d precision 1ms", SLUICE_E_RANGE, 33, "4096"},
	/* Options given twice, or of another algorithm. */
	{"token-bucket 10/1s burst 5 burst 5", SLUICE_E_SYNTAX, 28, "burst"},
	{"leaky-bucket 10/1s queue 5 queue 6", SLUICE_E_SYNTAX, 28, "queue"},
	{"sliding-buckets 10/1s precision 100ms precision 100ms", SLUICE_E_SYNTAX, 39, "precision"},
	{"100/60s burst 5", SLUICE_E_SYNTAX, 9, "burst"},
	{"token-bucket 10/1s queue 5", SLUICE_E_SYNTAX, 20, "queue"},
	{"leaky-bucket 10/1s burst 5", SLUICE_E_SYNTAX, 20, "burst"},
	{"sliding-log 10/1s precision 100ms", SLUICE_E_SYNTAX, 19, "precision"},
	{"sliding-window 10/1s edge count", SLUICE_E_SYNTAX, 22, "edge"},
	/* Spaces: one between words, and only spaces. */
	{" 100/60s", SLUICE_E_SYNTAX, 1, "found ' '"},
	{"100/60s ", SLUICE_E_SYNTAX, 8, "found ' '"},
	{"token-bucket 10/1s burst 5 ", SLUICE_E_SYNTAX, 27, "found ' '"},
	{"unlimited ", SLUICE_E_SYNTAX, 10, "found ' '"},
	{"fixed-window  10/1s", SLUICE_E_SYNTAX, 14, "found ' '"},
	{"token-bucket 10/1s  burst 5", SLUICE_E_SYNTAX, 20, "found ' '"},
	{"100 /60s", SLUICE_E_SYNTAX, 4, "expected"},
	{"100/ 60s", SLUICE_E_SYNTAX, 5, "expected"},
	{"100/60 s", SLUICE_E_SYNTAX, 7, "expected"},
	{"fixed-window\t10/1s", SLUICE_E_SYNTAX, 1, "\\x09"},
	{"100/60s\n", SLUICE_E_SYNTAX, 8, "\\x0a"},
	{"100/60s\r\n", SLUICE_E_SYNTAX, 8, "\\x0d"},
};

static sluice_err parse(struct sluice_bytes text, struct sluice_limit *limit, struct sluice_error *error) {
	memset(error, 0, sizeof *error);
	return sluice_limit_parse(limit, text, error);
}

static void written_limits_print_canonically(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
		struct sluice_limit limit, again;
		struct sluice_error error;
		char text[SLUICE_LIMIT_TEXT_MAX];
		if (parse(sl_str(accepted[i].written), &limit, &error) != SLUICE_OK)
			fail_msg("'%s': column %" PRIu32 ": %s", accepted[i].written, error.column, error.text);
		assert_int_equal(sluice_limit_print(&limit, text), strlen(accepted[i].canonical));
		assert_string_equal(text, accepted[i].canonical);
		assert_int_equal(parse(sl_str(text), &again, &error), SLUICE_OK);
		assert_memory_equal(&limit, &again, sizeof limit);
	}
}

static void the_fields_say_what_was_written(void **state) {
	struct sluice_limit limit;
	struct sluice_error error;
	(void)state;
	assert_int_equal(parse(sl_str("sliding-buckets 240/1h precision 1m edge drop"), &limit, &error), SLUICE_OK);
	assert_int_equal(limit.algorithm, SLUICE_SLIDING_BUCKETS);
	assert_int_equal(limit.edge, SLUICE_EDGE_DROP);
	assert_int_equal(limit.bucket_count, 60);
	assert_int_equal(limit.quota, 240);
	assert_true(limit.window_ns == 3600000000000u && limit.precision_ns == 60000000000u);
	assert_int_equal(parse(sl_str("token-bucket 10/1s burst 100"), &limit, &error), SLUICE_OK);
	assert_true(limit.algorithm == SLUICE_TOKEN_BUCKET && limit.quota == 10 && limit.burst == 100);
	assert_int_equal(parse(sl_str("leaky-bucket 10/3660d queue 4G"), &limit, &error), SLUICE_OK);
	assert_true(limit.algorithm == SLUICE_LEAKY_BUCKET && limit.burst == 4000000000u);
	assert_true(limit.window_ns == 316224000000000000u);
	assert_int_equal(parse(sl_str("unlimited"), &limit, &error), SLUICE_OK);
	assert_true(limit.algorithm == SLUICE_UNLIMITED && limit.window_ns == 0 && limit.quota == 0);
}

static void expect_refusal(const struct refusal *r) {
	struct sluice_limit limit, before;
	struct sluice_error error;
	sluice_err err;
	memset(&limit, 0x5a, sizeof limit);
	before = limit;
	err = parse(sl_str(r->written), &limit, &error);
	if (err != r->err || error.column != r->column || strstr(error.text, r->says) == NULL)
		fail_msg("'%s': error %d, column %" PRIu32 ": '%s'; expected error %d, column %" PRIu32 " and '%s'", r->written,
		         err, error.column, error.text, r->err, r->column, r->says);
	assert_memory_equal(&limit, &before, sizeof limit);
	assert_int_equal(sluice_limit_parse(&limit, sl_str(r->written), NULL), r->err);
	assert_null(strchr(error.text, '\n'));
	assert_true(error.text[strlen(error.text) - 1] != '.');
}

static void bad_limits_are_refused_where_they_are_bad(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		expect_refusal(&refused[i]);
}

static int32_t no_zone(struct sluice_bytes name) {
	(void)name;
	return -1;
}

static const char *near_berlin(struct sluice_bytes name) {
	return name.len == 12 ? "Europe/Berlin" : NULL;
}

/* A zone that is not there: where zones can be read it may be one that is meant; where not, that is said. */
static void an_unknown_zone_is_told_with_what_is_known(void **state) {
	static const struct {
		const char *written, *says;
		bool reads, knows;
	} rows[] = {
		{"9/day at Europe/Brlin", "expected the name of a time zone such as Europe/Berlin (only UTC is known here), "
	                              "found 'Europe/Brlin'",
	     false, false},
		{"9/day at Europe/Brlin", "expected the name of a time zone such as Europe/Berlin, found 'Europe/Brlin'",
	     true, false},
		{"9/day at Europe/Brlin",
	     "expected the name of a time zone (did you mean Europe/Berlin?), found 'Europe/Brlin'", true, true},
		{"9/day at Mars", "expected the name of a time zone such as Europe/Berlin, found 'Mars'", true, true},
	};
	int32_t (*load)(struct sluice_bytes) = sl_zone_load;
	const char *(*near)(struct sluice_bytes) = sl_zone_near;
	struct sluice_limit limit;
	struct sluice_error error;
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		sl_zone_load = rows[i].reads ? no_zone : NULL;
		sl_zone_near = rows[i].knows ? near_berlin : NULL;
		assert_int_equal(parse(sl_str(rows[i].written), &limit, &error), SLUICE_E_SYNTAX);
		assert_string_equal(error.text, rows[i].says);
		assert_int_equal(error.column, 10);
	}
	sl_zone_load = load;
	sl_zone_near = near;
}

/* A counter of leases or members belongs to T or W; N, Q, edge and registers may change under it. */
static void identity_of_leases_and_members(void **state) {
	static const char *const texts[] = {
		"concurrency 20 lease 30s", "concurrency 5 lease 30s", "concurrency 20 lease 31s",
		"distinct 20/30s",          "distinct 5M/30s",         "distinct 5M/30s edge allow",
		"distinct 20/31s",          "sliding-log 20/30s",      "distinct 5M/30s registers 32768"};
	static const int same[] = {0, 0, 2, 3, 3, 3, 6, 7, 3};
	struct sluice_limit limits[9];
	struct sluice_error error;
	(void)state;
	for (int i = 0; i < 9; i++) {
		assert_int_equal(parse(sl_str(texts[i]), &limits[i], &error), SLUICE_OK);
		assert_true(sl_rule_is_valid(&limits[i]));
		assert_int_equal(limits[i].derived[SL_CAPACITY], limits[i].quota);
		for (int j = 0; j < i; j++)
			assert_int_equal(limits[i].derived[SL_IDENT_KIND] == limits[j].derived[SL_IDENT_KIND], same[i] == same[j]);
	}
	limits[0].edge = SLUICE_EDGE_DENY;
	limits[4].edge = SLUICE_EDGE_COUNT;
	limits[5].burst = 0;
	limits[8].burst = 5000;
	assert_false(sl_rule_is_valid(&limits[0]) || sl_rule_is_valid(&limits[4]));
	assert_false(sl_rule_is_valid(&limits[5]) || sl_rule_is_valid(&limits[8]));
}

/* Bytes that C strings hide: NUL inside and at the end, and what is not ASCII. */
static void bytes_that_are_no_text_are_refused(void **state) {
	static const struct {
		const char *data;
		size_t len;
		uint32_t column;
	} texts[] = {
		{"100/60s\0", 8, 8},
		{"100\0/60s", 8, 4},
		{"\0", 1, 1},
		{"100/60\0s", 8, 7},
		{"unlimited\0", 10, 1},
		{"100/60s\xff", 8, 8},
		{"\xc2\xa0"
	     "100/60s",
	     9, 1},
	};
	struct sluice_limit limit;
	struct sluice_error error;
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(parse(sl_slice(texts[i].data, texts[i].len), &limit, &error), SLUICE_E_SYNTAX);
		if (error.column != texts[i].column)
			fail_msg("text %zu: column %" PRIu32 ": %s", i, error.column, error.text);
		for (const char *p = error.text; *p != '\0'; p++)
			assert_true(*p >= 32 && *p < 127);
	}
}

static void a_text_and_a_limit_are_needed(void **state) {
	struct sluice_limit limit;
	(void)state;
	assert_int_equal(sluice_limit_parse(NULL, sl_str("9/1m"), NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_limit_parse(&limit, (struct sluice_bytes){NULL, 1}, NULL), SLUICE_E_MISUSE);
	assert_int_equal(sluice_limit_parse(&limit, (struct sluice_bytes){NULL, 0}, NULL), SLUICE_E_SYNTAX);
}

static void a_long_text_is_refused_and_quoted_shortly(void **state) {
	static char text[100000];
	struct sluice_limit limit;
	struct sluice_error error;
	(void)state;
	memset(text, '9', sizeof text);
	assert_true(parse(sl_slice(text, sizeof text), &limit, &error) != SLUICE_OK);
	assert_true(memchr(error.text, '\0', sizeof error.text) != NULL);
	memset(text, 'a', sizeof text);
	assert_int_equal(parse(sl_slice(text, sizeof text), &limit, &error), SLUICE_E_SYNTAX);
	memset(text, ' ', sizeof text);
	assert_int_equal(parse(sl_slice(text, sizeof text), &limit, &error), SLUICE_E_SYNTAX);
	assert_int_equal(error.column, 1);
	assert_int_equal(parse(sl_slice(NULL, 0), &limit, &error), SLUICE_E_SYNTAX);
}

/* ---- at random ----------------------------------------------------------------------------------------------- */

/* The canonical duration, worked out the long way. */
static size_t print_duration(uint64_t ns, char *text, size_t bytes) {
	static const struct {
		uint64_t ms;
		const char *unit;
	} units[] = {{604800000, "w"}, {86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
	uint64_t ms = ns / TWIN_MS;
	size_t i = 0;
	while (ms % units[i].ms != 0)
		i++;
	return (size_t)snprintf(text, bytes, "%" PRIu64 "%s", ms / units[i].ms, units[i].unit);
}

static void print_expected(const struct twin_rule *rule, char *text, size_t bytes) {
	char written[SLUICE_LIMIT_TEXT_MAX], window[32], precision[32];
	char *slash;
	static const char *const edges[] = {"count", "drop", "weighted"};
	rule_print(rule, written, sizeof written);
	slash = strchr(written, '/');
	if (slash == NULL) {
		snprintf(text, bytes, "%s", written);
		return;
	}
	print_duration(rule->window_ns, window, sizeof window);
	if (rule->algorithm == SLUICE_SLIDING_BUCKETS) {
		print_duration(rule->precision_ns, precision, sizeof precision);
		snprintf(text, bytes, "%.*s/%s precision %s edge %s", (int)(slash - written), written, window, precision,
		         edges[rule->edge]);
	} else {
		const char *option = strchr(slash, ' ');
		snprintf(text, bytes, "%.*s/%s%s", (int)(slash - written), written, window, option == NULL ? "" : option);
	}
}

static struct twin_rule any_rule(struct dice *dice) {
	sluice_algorithm algorithm = (sluice_algorithm)dice_below(dice, 7);
	return dice_rule(dice, algorithm, (sluice_edge)dice_below(dice, 3));
}

static void random_limits_go_round(void **state) {
	struct dice dice = dice_of(dice_seed(), 1);
	(void)state;
	for (uint64_t i = 0; i < dice_ops(200000); i++) {
		struct twin_rule rule = any_rule(&dice);
		struct sluice_limit limit = rule_limit(&rule), again;
		char expected[SLUICE_LIMIT_TEXT_MAX], text[SLUICE_LIMIT_TEXT_MAX];
		struct sluice_error error;
		print_expected(&rule, expected, sizeof expected);
		assert_int_equal(sluice_limit_print(&limit, text), strlen(expected));
		assert_string_equal(text, expected);
		assert_int_equal(parse(sl_str(text), &again, &error), SLUICE_OK);
		assert_memory_equal(&limit, &again, sizeof limit);
		assert_true(limit.quota == rule.quota && limit.window_ns == rule.window_ns);
	}
}

/* A good text with a byte changed, doubled or lost is refused inside of itself or prints as something that parses. */
static void damaged_limits_are_refused_or_whole(void **state) {
	static const char bytes[] = " 0159/kMGmshdwx\t-.";
	struct dice dice = dice_of(dice_seed(), 2);
	(void)state;
	for (uint64_t i = 0; i < dice_ops(300000); i++) {
		struct twin_rule rule = any_rule(&dice);
		char written[SLUICE_LIMIT_TEXT_MAX + 1], text[SLUICE_LIMIT_TEXT_MAX];
		struct sluice_limit limit, again;
		struct sluice_error error;
		size_t len = rule_print(&rule, written, sizeof written), at = (size_t)dice_below(&dice, len);
		char byte = dice_one_in(&dice, 8) ? (char)dice_bits(&dice) : bytes[dice_below(&dice, sizeof bytes - 1)];
		if (dice_one_in(&dice, 3)) {
			written[at] = byte;
		} else if (dice_one_in(&dice, 2)) {
			memmove(written + at, written + at + 1, len - at - 1);
			len--;
		} else {
			memmove(written + at + 1, written + at, len - at);
			written[at] = byte;
			len++;
		}
		if (parse(sl_slice(written, len), &limit, &error) == SLUICE_OK) {
			sluice_limit_print(&limit, text);
			assert_int_equal(parse(sl_str(text), &again, &error), SLUICE_OK);
			assert_memory_equal(&limit, &again, sizeof limit);
		} else {
			assert_true(error.column >= 1 && error.column <= len + 1);
			assert_true(error.text[0] != '\0');
		}
	}
}

/* Debts stand in stores and in Redis in these ticks: who changes a bound here makes something else of them. */
static void the_tick_of_a_bucket_is_for_ever(void **state) {
	static const struct {
		const char *text;
		sluice_ns tick_ns;
	} rows[] = {{"token-bucket 1/1ms", 1},
	            {"token-bucket 1/4294ms", 1},
	            {"token-bucket 1/4295ms", 1000},
	            {"leaky-bucket 1/4294ms", 1},
	            {"leaky-bucket 1/4295ms", 1000},
	            {"token-bucket 1/2199023255ms", 1000},
	            {"token-bucket 1/2199023256ms", SL_MS_NS},
	            {"leaky-bucket 1/3660d", SL_MS_NS}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_limit limit;
		assert_int_equal(sluice_limit_parse(&limit, sl_str(rows[i].text), NULL), SLUICE_OK);
		assert_int_equal(limit.derived[SL_TICK_NS], rows[i].tick_ns);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_limits_print_canonically),
		cmocka_unit_test(the_fields_say_what_was_written),
		cmocka_unit_test(bad_limits_are_refused_where_they_are_bad),
		cmocka_unit_test(an_unknown_zone_is_told_with_what_is_known),
		cmocka_unit_test(identity_of_leases_and_members),
		cmocka_unit_test(the_tick_of_a_bucket_is_for_ever),
		cmocka_unit_test(bytes_that_are_no_text_are_refused),
		cmocka_unit_test(a_text_and_a_limit_are_needed),
		cmocka_unit_test(a_long_text_is_refused_and_quoted_shortly),
		cmocka_unit_test(random_limits_go_round),
		cmocka_unit_test(damaged_limits_are_refused_or_whole),
	};
	dice_seed();
	return cmocka_run_group_tests_name("the notation", tests, NULL, NULL);
}
