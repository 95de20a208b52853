/* Tickets: what is written is read back; what was cut, changed or made up is refused; the longest one fits. */
#include "proto/ticket.h"

#include "algo/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sluice_limit parse(const char *text) {
	struct sluice_limit limit;
	struct sluice_error error = {0};
	if (sluice_limit_parse(&limit, sl_str(text), &error) != SLUICE_OK)
		fail_msg("%s: %s", text, error.text);
	return limit;
}

static struct sluice_limit named(const char *text, const char *name) {
	struct sluice_limit limit = parse(text);
	sl_rule_name(&limit, sl_str(name));
	return limit;
}

static bool is_same(const struct sluice_limit *a, const struct sluice_limit *b) {
	return memcmp(a, b, sizeof *a) == 0;
}

static void test_the_bytes_of_one(void **state) {
	(void)state;
	struct sluice_limit limit = parse("100/60s");
	struct sluice_item item = {.limit = &limit, .key = sl_str("k")};
	char text[SL_TICKET_BYTES_MAX];
	/* 01 | 00 14 "sliding-window 100/1m" by the format in ticket.h, encoded by hand with base64(1) */
	size_t len = sl_ticket_write(text, 0x0123456789abcdef, sl_str("k"), &item, NULL, 1);
	assert_string_equal(text, "0123456789abcdef.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFt");
	assert_int_equal(len, strlen(text));
	/* 01 | 01 01 00 "k" 15 .. : the key is another one, or none will be said */
	sl_ticket_write(text, 0, sl_str("j"), &item, NULL, 1);
	assert_string_equal(text, "0000000000000000.AQUBAGsVc2xpZGluZy13aW5kb3cgMTAwLzFt");
	sl_ticket_write(text, UINT64_MAX, sl_slice(NULL, 0), &item, NULL, 1);
	assert_string_equal(text, "ffffffffffffffff.AQUBAGsVc2xpZGluZy13aW5kb3cgMTAwLzFt");
	/* 01 | 02 01 "n" 15 .. */
	const char *names[] = {"n"};
	sl_ticket_write(text, 0, sl_str("k"), &item, names, 1);
	assert_string_equal(text, "0000000000000000.AQYBbhVzbGlkaW5nLXdpbmRvdyAxMDAvMW0");
}

static void test_what_is_written_is_read(void **state) {
	(void)state;
	struct sluice_limit limits[] = {
		named("concurrency 20 lease 30s", "busy"), parse("sliding-log 400k/1m"), parse("unlimited"),
		parse("token-bucket 10/1s burst 7"),       parse("distinct 5/1h"),       parse("fixed-window 9/1d")};
	const char *names[] = {"busy", NULL, NULL, NULL, NULL, NULL};
	struct sluice_item items[6];
	static struct sl_ticket ticket;
	static char memory[SL_TICKET_BYTES_MAX], text[SL_TICKET_BYTES_MAX];
	for (int i = 0; i < 6; i++)
		items[i] = (struct sluice_item){.limit = &limits[i], .key = sl_str(i == 3 ? "other" : "key")};
	items[5].observed = SLUICE_TRIED;
	items[1].key = sl_slice("", 0);
	size_t len = sl_ticket_write(text, 77, sl_str("key"), items, names, 6);
	assert_true(sl_ticket_is(sl_slice(text, len)));
	assert_true(sl_ticket_read(&ticket, sl_slice(text, len), sl_str("key"), memory));
	assert_memory_equal(ticket.id.data, "000000000000004d", 16);
	assert_int_equal(ticket.id.len, 16);
	assert_int_equal(ticket.count, 3);
	static const int which[] = {0, 1, 3};
	for (int i = 0; i < 3; i++) {
		assert_true(is_same(&ticket.limits[i], &limits[which[i]]));
		assert_ptr_equal(ticket.items[i].limit, &ticket.limits[i]);
		assert_true(sl_bytes_equal(ticket.items[i].key, items[which[i]].key));
	}
	assert_true(sl_bytes_equal(ticket.names[0], sl_str("busy")));
	assert_int_equal(ticket.names[1].len, 0);
	/* Said with another key it is of that. */
	assert_true(sl_ticket_read(&ticket, sl_slice(text, len), sl_str("mine"), memory));
	assert_true(sl_bytes_equal(ticket.items[0].key, sl_str("mine")));
	assert_true(sl_bytes_equal(ticket.items[2].key, sl_str("other")));
}

static void test_nothing_cut_or_changed_is_read_as_it_was(void **state) {
	(void)state;
	struct sluice_limit limits[] = {named("concurrency 20 lease 30s", "busy"), parse("100/1m")};
	struct sluice_item items[] = {{.limit = &limits[0], .key = sl_str("a")},
	                              {.limit = &limits[1], .key = sl_str("zz")}};
	const char *names[] = {"busy", NULL};
	static struct sl_ticket ticket, whole;
	static char memory[SL_TICKET_BYTES_MAX], memory_whole[SL_TICKET_BYTES_MAX];
	char text[SL_TICKET_BYTES_MAX], again[SL_TICKET_BYTES_MAX];
	size_t len = sl_ticket_write(text, 5, sl_str("a"), items, names, 2);
	assert_true(sl_ticket_read(&whole, sl_slice(text, len), sl_str("a"), memory_whole));
	for (size_t cut = 0; cut < len; cut++) /* between two items as well */
		assert_false(sl_ticket_read(&ticket, sl_slice(text, cut), sl_str("a"), memory));
	for (size_t at = 0; at < len; at++)
		for (int byte = 0; byte < 256; byte++) {
			char before = text[at];
			text[at] = (char)byte;
			if ((char)byte != before && sl_ticket_read(&ticket, sl_slice(text, len), sl_str("a"), memory)) {
				const char *read_names[SLUICE_ITEMS_MAX] = {NULL};
				char name[SLUICE_NAME_BYTES_MAX + 1];
				for (uint32_t i = 0; i < ticket.count; i++)
					if (ticket.names[i].len != 0) {
						memcpy(name, ticket.names[i].data, ticket.names[i].len);
						name[ticket.names[i].len] = '\0';
						read_names[i] = name;
					}
				uint64_t id = strtoull(text, NULL, 16);
				sl_ticket_write(again, id, sl_str("a"), ticket.items, read_names, ticket.count);
				assert_string_equal(again, text); /* no two texts say the same */
			}
			text[at] = before;
		}
}

static void test_made_up_texts(void **state) {
	(void)state;
	static const char *const bad[] = {
		"",
		".",
		"0123456789abcdef",
		"0123456789abcdef.",
		"0123456789abcdef.AQ",                                /* no item */
		"0123456789abcdef.AgQVc2xpZGluZy13aW5kb3cgMTAwLzFt",  /* version 2 */
		"0123456789ABCDEF.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFt",  /* capitals */
		"123456789abcdef.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFt",   /* 15 digits */
		"0123456789abcdef.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFt=", /* padding */
		"0123456789abcdef.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFt.",
		"0123456789abcdef.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFtA",   /* 6 bits too many */
		"0123456789abcdef.AQQVc2xpZGluZy13aW5kb3cgMTAwLzFtAA",  /* an item cut short */
		"0123456789abcdef.AQwVc2xpZGluZy13aW5kb3cgMTAwLzFt",    /* an unknown flag */
		"0123456789abcdef.AQAVc2xpZGluZy13aW5kb3cgMTAwLzFt",    /* not the last, but nothing follows */
		"0123456789abcdef.AQQHMTAwLzYwcw",                      /* "100/60s", not canonical */
		"0123456789abcdef.AQQJdW5saW1pdGVk",                    /* "unlimited" */
		"0123456789abcdef.AQYAFXNsaWRpbmctd2luZG93IDEwMC8xbQ",  /* a name of 0 bytes */
		"0123456789abcdef.AQYBABVzbGlkaW5nLXdpbmRvdyAxMDAvMW0", /* a name of a 0 byte */
	};
	static struct sl_ticket ticket;
	static char memory[SL_TICKET_BYTES_MAX];
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (sl_ticket_read(&ticket, sl_str(bad[i]), sl_str("k"), memory))
			fail_msg("'%s' was read", bad[i]);
	assert_false(sl_ticket_is(sl_str("0123456789abcdeg.AQ")));
	assert_false(sl_ticket_is(sl_str("0123456789abcdef")));
	assert_true(sl_ticket_is(sl_str("0123456789abcdef.")));
	static char zeros[SL_TICKET_BYTES_MAX + 1];
	memset(zeros, 'A', sizeof zeros);
	memcpy(zeros, "0123456789abcdef.", 17);
	assert_false(sl_ticket_read(&ticket, sl_slice(zeros, sizeof zeros), sl_str("k"), memory));
	assert_false(sl_ticket_read(&ticket, sl_slice(zeros, SL_TICKET_BYTES_MAX - 1), sl_str("k"), memory));
}

/* Sixteen limits of the longest text, names of 64 bytes, keys of 1,024: it fits; a longer key is read from none. */
static void test_the_longest_ticket(void **state) {
	(void)state;
	static char keys[SLUICE_ITEMS_MAX][SLUICE_KEY_BYTES_MAX + 1];
	static struct sl_ticket ticket;
	static char memory[SL_TICKET_BYTES_MAX], text[SL_TICKET_BYTES_MAX];
	char name[SLUICE_NAME_BYTES_MAX + 1];
	const char *names[SLUICE_ITEMS_MAX];
	memset(name, 'n', sizeof name - 1);
	name[SLUICE_NAME_BYTES_MAX] = '\0';
	struct sluice_limit limit = named("sliding-buckets 4294967295/3659d precision 1d edge weighted", name);
	struct sluice_item items[SLUICE_ITEMS_MAX];
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++) {
		memset(keys[i], 'a' + i, sizeof keys[i]);
		items[i] = (struct sluice_item){.limit = &limit, .key = sl_slice(keys[i], SLUICE_KEY_BYTES_MAX)};
		names[i] = name;
	}
	size_t len = sl_ticket_write(text, 1, sl_str("k"), items, names, SLUICE_ITEMS_MAX);
	assert_in_range(len, 20000, SL_TICKET_BYTES_MAX - 1);
	assert_true(sl_ticket_read(&ticket, sl_slice(text, len), sl_str("k"), memory));
	assert_int_equal(ticket.count, SLUICE_ITEMS_MAX);
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		assert_memory_equal(ticket.items[i].key.data, keys[i], SLUICE_KEY_BYTES_MAX);
	items[0].key.len++;
	len = sl_ticket_write(text, 1, sl_str("k"), items, names, 1);
	assert_false(sl_ticket_read(&ticket, sl_slice(text, len), sl_str("k"), memory)); /* no key is so long */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_bytes_of_one),
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_nothing_cut_or_changed_is_read_as_it_was),
		cmocka_unit_test(test_made_up_texts),
		cmocka_unit_test(test_the_longest_ticket),
	};
	return cmocka_run_group_tests_name("ticket", tests, NULL, NULL);
}
