/* Whose request it is: the walk through trusted proxies, its grammar, and what spoofing buys. */
#include "proto/forwarded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static struct sluice_policy *policy;

static int setup(void **state) {
	static const char yaml[] = "trusted-proxies: [10.0.0.0/8, \"fd00::/8\"]\n";
	(void)state;
	return sluice_policy_load(&policy, sl_str(yaml), NULL) == SLUICE_OK ? 0 : -1;
}

static int teardown(void **state) {
	(void)state;
	sluice_policy_free(policy);
	return 0;
}

enum { LINES_MAX = 8, LINE_MAX_BYTES = 512 };

/* The client of lines, which '\n' separates here; each copied to memory of its exact size, so that reading past one is
 * seen. "-" where it is the peer. */
static const char *client_of(const char *text, enum sl_forwarded_form form) {
	static char printed[SL_ADDRESS_TEXT_MAX];
	struct sluice_bytes lines[LINES_MAX];
	struct sl_address address;
	uint32_t count = 0;
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, "\n");
		assert_true(count < LINES_MAX);
		char *copy = malloc(len == 0 ? 1 : len);
		memcpy(copy, at, len);
		lines[count++] = sl_slice(copy, len);
		at += len;
		if (*at == '\0')
			break;
	}
	bool found = sl_forwarded_client(lines, count, form, policy, &address);
	for (uint32_t i = 0; i < count; i++)
		free((void *)lines[i].data);
	if (!found)
		return "-";
	sl_address_print(&address, printed);
	return printed;
}

struct row {
	const char *lines, *client;
};

static void assert_rows(const struct row *rows, size_t count, enum sl_forwarded_form form) {
	for (size_t i = 0; i < count; i++) {
		const char *got = client_of(rows[i].lines, form);
		if (strcmp(got, rows[i].client) != 0)
			fail_msg("%s: want %s, got %s", rows[i].lines, rows[i].client, got);
	}
}

#define ASSERT_ROWS(rows, form) assert_rows(rows, sizeof(rows) / sizeof((rows)[0]), form)

/* ---- X-Forwarded-For ----------------------------------------------------------------------------------------- */

static void test_right_to_left(void **state) {
	static const struct row rows[] = {
		{"192.0.2.7", "192.0.2.7"},
		{"192.0.2.7, 10.0.0.2", "192.0.2.7"},
		{"6.6.6.6, 192.0.2.7, 10.0.0.2", "192.0.2.7"},
		{"10.0.0.9, 192.0.2.7", "192.0.2.7"},
		/* all are ours: the left-most */
		{"10.0.0.9, 10.0.0.8,10.0.0.7", "10.0.0.9"},
		/* every form of an address */
		{"192.0.2.7:5678", "192.0.2.7"},
		{"2001:db8::1", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:DB8:0::1]:443", "2001:db8::1"},
		{"fe80::1%eth0", "fe80::1"},
		{"::ffff:192.0.2.7", "192.0.2.7"},
		{"192.0.2.7, ::ffff:10.0.0.2", "192.0.2.7"},
		{"192.0.2.7, fd00::2", "192.0.2.7"},
		/* white space and empty elements are no entries */
		{" \t192.0.2.7\t , ,, 10.0.0.2 ,", "192.0.2.7"},
		/* several lines are one list, in their order */
		{"6.6.6.6\n192.0.2.7, 10.0.0.3\n10.0.0.2", "192.0.2.7"},
		{"192.0.2.7\n\n", "192.0.2.7"},
		/* nothing, or junk nearest to us: the peer */
		{"", "-"},
		{" , ", "-"},
		{"unknown", "-"},
		{"192.0.2.7, unknown", "-"},
		{"192.0.2.7, 10.0.0.2x", "-"},
		{"192.0.2.7 10.0.0.2", "-"},
		{"192.0.2.7;10.0.0.2", "-"},
		{"192.0.2.07", "-"},
		{"\"192.0.2.7\"", "-"},
		{"for=192.0.2.7", "-"},
		{"192.0.2.7:", "-"},
		{"192.0.2.7:99999", "-"},
		{"[2001:db8::1", "-"},
		/* junk behind a proxy of ours: the last address that was one */
		{"192.0.2.7, unknown, 10.0.0.2", "10.0.0.2"},
		{"192.0.2.7, 300.1.1.1, 10.0.0.2, 10.0.0.3", "10.0.0.2"},
	};
	(void)state;
	ASSERT_ROWS(rows, SL_FORWARDED_FOR);
}

/* What a client puts in front changes nothing, whatever it is: the proxy appended 192.0.2.7. */
static void test_spoofing_buys_nothing(void **state) {
	static const char *const spoofs[] = {
		"6.6.6.6",
		"10.0.0.1",
		"10.0.0.1, 10.0.0.2",
		"127.0.0.1",
		"::1",
		"fd00::1",
		"[fd00::1]:80",
		"::ffff:10.0.0.1",
		"6.6.6.6:1",
		"unknown",
		"\"",
		"for=6.6.6.6",
		",",
		",,,, ,",
		" \t",
		"6.6.6.6,",
		"6.6.6.6;",
		"192.0.2.7, 6.6.6.6",
		"6.6.6.6\n10.0.0.1",
		"6.6.6.6\n",
		"\xc0\xae\x80\xff",
		"6.6.6.6%2c",
		"6.6.6.6\\",
		"(6.6.6.6",
	};
	static const char *const joins[] = {", ", ",", "\n"};
	char text[LINE_MAX_BYTES];
	(void)state;
	for (size_t i = 0; i < sizeof spoofs / sizeof spoofs[0]; i++)
		for (size_t j = 0; j < sizeof joins / sizeof joins[0]; j++) {
			snprintf(text, sizeof text, "%s%s192.0.2.7, 10.0.0.2", spoofs[i], joins[j]);
			assert_rows(&(struct row){text, "192.0.2.7"}, 1, SL_FORWARDED_FOR);
			snprintf(text, sizeof text, "%s%sfor=192.0.2.7, for=10.0.0.2", spoofs[i], joins[j]);
			assert_rows(&(struct row){text, "192.0.2.7"}, 1, SL_FORWARDED_RFC7239);
			snprintf(text, sizeof text, "for=%s%sfor=\"[2001:db8::7]\"", spoofs[i], joins[j]);
			assert_rows(&(struct row){text, "2001:db8::7"}, 1, SL_FORWARDED_RFC7239);
		}
}

/* A chain of proxies of ours that has no end is not walked for ever. */
static void test_hops_are_bounded(void **state) {
	char text[16 * 1024], *at = text;
	struct sl_address address;
	char printed[SL_ADDRESS_TEXT_MAX];
	(void)state;
	for (int i = 0; i <= SL_FORWARDED_HOPS_MAX; i++)
		at += snprintf(at, 16, "10.0.0.%d,", 200 - i);
	struct sluice_bytes line = sl_slice(text, (size_t)(at - text));
	assert_true(sl_forwarded_client(&line, 1, SL_FORWARDED_FOR, policy, &address));
	sl_address_print(&address, printed);
	assert_string_equal(printed, "10.0.0.199"); /* the hundredth from the right: .200 is one further */
}

/* ---- Forwarded ----------------------------------------------------------------------------------------------- */

static void test_forwarded(void **state) {
	static const struct row rows[] = {
		{"for=192.0.2.7", "192.0.2.7"},
		{"For=192.0.2.7;proto=https;by=203.0.113.43", "192.0.2.7"},
		{"by=_hidden;FOR=\"192.0.2.7\";host=example.com", "192.0.2.7"},
		{"for=\"192.0.2.7:4711\"", "192.0.2.7"},
		{"for=\"192.0.2.7:_gazonk\"", "192.0.2.7"},
		{"for=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"},
		{"for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17"},
		{"for=\"[2001:db8:cafe::17]:_x\"", "2001:db8:cafe::17"},
		{"for=192.0.2.7, for=10.0.0.2", "192.0.2.7"},
		{"for=6.6.6.6, for=192.0.2.7;by=10.0.0.2, for=10.0.0.2", "192.0.2.7"},
		{"for=6.6.6.6\nfor=192.0.2.7\nfor=10.0.0.2", "192.0.2.7"},
		/* a comma and a semicolon between quotes separate nothing, an escaped quote ends nothing */
		{"for=192.0.2.7;host=\"a, b; c\\\", d\"", "192.0.2.7"},
		{"for=192.0.2.7, for=10.0.0.2;host=\"a,b\"", "192.0.2.7"},
		{"for=192.0.2.7;host=\"a\\\\\"", "192.0.2.7"},
		{"for=192.0.2.7 ; proto=http", "192.0.2.7"},
		{"for=192.0.2.7;", "192.0.2.7"},
		/* no address, or not as it must be written: the walk ends there */
		{"for=unknown", "-"},
		{"for=_obfuscated", "-"},
		{"for=192.0.2.7, for=unknown, for=10.0.0.2", "10.0.0.2"},
		{"for=192.0.2.7, for=_proxy1", "-"},
		{"for=2001:db8::1", "-"},
		{"for=[2001:db8::1]", "-"},
		{"for=\"2001:db8::1\"", "-"},
		{"for=192.0.2.7:80", "-"},
		{"for=192.0.2.7;for=6.6.6.6", "-"},
		{"proto=https;by=192.0.2.7", "-"},
		{"for = 192.0.2.7", "-"},
		{"for=", "-"},
		{"for", "-"},
		{"=192.0.2.7", "-"},
		{"for=\"\"", "-"},
		{"for=\"192.0.2.7", "-"},
		{"for=\"192.0.2.7\"x", "-"},
		{"for=192.0.2.7;;proto=http", "-"},
		{"192.0.2.7", "-"},
		{"", "-"},
		{",", "-"},
	};
	(void)state;
	ASSERT_ROWS(rows, SL_FORWARDED_RFC7239);
}

/* A quote that the client opens must not reach what a proxy of ours appended. */
static void test_an_open_quote_swallows_nothing(void **state) {
	static const struct row rows[] = {
		{"for=\"6.6.6.6, for=192.0.2.7", "192.0.2.7"},
		{"for=\"6.6.6.6, for=\"[2001:db8::7]\"", "2001:db8::7"},
		{"for=6.6.6.6;x=\"\\, for=192.0.2.7", "192.0.2.7"},
		{"for=6.6.6.6;x=\"\\\", for=192.0.2.7, for=10.0.0.2", "192.0.2.7"},
		{"for=\"6.6.6.6\nfor=\"[2001:db8::7]\"", "2001:db8::7"},
	};
	(void)state;
	ASSERT_ROWS(rows, SL_FORWARDED_RFC7239);
}

/* As sl_forwarded_last finds elements, but each quote looks for the one that opens it for itself. */
static bool last_plainly(struct sluice_bytes *list, struct sluice_bytes *element) {
	const char *p = list->data;
	while (list->len > 0) {
		size_t end = list->len, at = end;
		while (at > 0 && p[at - 1] != ',') {
			size_t open = --at;
			for (size_t i = at; p[at] == '"' && i-- > 0;) {
				size_t slashes = 0;
				while (slashes < i && p[i - 1 - slashes] == '\\')
					slashes++;
				if (p[i] == '"' && slashes % 2 == 0) {
					open = i;
					break;
				}
			}
			at = open;
		}
		list->len = at > 0 ? at - 1 : 0;
		while (end > at && strchr(" \t", p[end - 1]) != NULL)
			end--;
		while (end > at && strchr(" \t", p[at]) != NULL)
			at++;
		*element = sl_slice(p + at, end - at);
		if (end > at)
			return true;
	}
	return false;
}

static void test_elements_beside_a_plain_search(void **state) {
	static const char letters[] = "\"\"\"\\\\,, =a";
	uint32_t random = 1;
	(void)state;
	for (int round = 0; round < 20000; round++) {
		char text[24];
		for (size_t i = 0; i < sizeof text; i++) {
			random = random * 1664525 + 1013904223;
			text[i] = letters[(random >> 16) % (sizeof letters - 1)];
		}
		struct sluice_bytes mine = sl_slice(text, (size_t)round % (sizeof text + 1)), one = {0}, other = {0};
		struct sluice_bytes plain = mine;
		bool more;
		do {
			more = sl_forwarded_last(&mine, true, &one);
			assert_int_equal(more, last_plainly(&plain, &other));
			assert_int_equal(mine.len, plain.len);
			if (more && !sl_bytes_equal(one, other))
				fail_msg("%.*s", (int)sizeof text, text);
		} while (more);
	}
}

/* A stranger writes what stands at the left: the time to read it is proportional to its length. 200 lines of 16 KB
 * take some ms; they take 7 s where each quote looks through the whole line. */
static void test_a_long_line_costs_no_more_than_its_length(void **state) {
	static const char *const fills[] = {"\\\"", "\"\\", "\"", "\\\\\"", "a=b;", "for=a;", " ", "\\", ","};
	static char line[16 * 1024];
	(void)state;
	for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
		struct sl_address address;
		struct sluice_bytes lines = sl_slice(line, sizeof line);
		struct timespec begun, ended;
		for (size_t at = 0; at < sizeof line; at++)
			line[at] = fills[i][at % strlen(fills[i])];
		memcpy(line + sizeof line - 20, "  , for=203.0.113.9 ", 20);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
		for (int round = 0; round < 100; round++) {
			assert_true(sl_forwarded_client(&lines, 1, SL_FORWARDED_RFC7239, policy, &address));
			lines.len -= 20; /* without what the proxy appended */
			(void)sl_forwarded_client(&lines, 1, SL_FORWARDED_RFC7239, policy, &address);
			lines.len += 20;
		}
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
		if (ended.tv_sec - begun.tv_sec > 1)
			fail_msg("'%s' again and again: over a second", fills[i]);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right_to_left),
		cmocka_unit_test(test_spoofing_buys_nothing),
		cmocka_unit_test(test_hops_are_bounded),
		cmocka_unit_test(test_forwarded),
		cmocka_unit_test(test_an_open_quote_swallows_nothing),
		cmocka_unit_test(test_elements_beside_a_plain_search),
		cmocka_unit_test(test_a_long_line_costs_no_more_than_its_length),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
