/* Paths: one spelling each.
 *
 * The table is RFC 3986's own examples (5.2.4, 6.2.2) and what proxies and attackers send; the random targets are held
 * to what the normal form promises, and to a twin that splits and joins. */
#include "policy/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_table(void **state) {
	static const struct row {
		const char *target, *path;
	} rows[] = {
		{"/", "/"},
		{"", "/"},
		{"/login", "/login"},
		{"/Login", "/Login"},
		{"/login/", "/login/"},
		{"/login?user=a", "/login"},
		{"/login#top", "/login"},
		{"/login?a#b?c", "/login"},
		{"?q", "/"},
		{"/?q", "/"},
		{"/%6cogin", "/login"},
		{"/%6Cogin", "/login"},
		{"/%41%5A%61%7a%30%39%2d%2E%5f%7E", "/AZaz09-._~"},
		{"/a%2Fb", "/a%2Fb"}, /* an encoded slash is no separator */
		{"/a%2fb", "/a%2Fb"}, /* the same, as hexadecimal digits are in any case */
		{"/%c3%aF%20%3a", "/%C3%AF%20%3A"},
		{"/%%2f%2%6f%2x%f", "/%%2F%2%6F%2x%f"},
		{"/a%3fb", "/a%3Fb"}, /* nor does an encoded ? begin a query */
		{"/a%00b", "/a%00b"},
		{"/%256cogin", "/%256cogin"}, /* decoded once, not twice */
		{"/%", "/%"},
		{"/%6", "/%6"},
		{"/%6g", "/%6g"},
		{"/%2%46", "/%2%46"}, /* decoded, it would be another code */
		{"/%%36%35", "/%%365"},
		{"//", "/"},
		{"//login", "/login"},
		{"/a//b///c", "/a/b/c"},
		{"/.", "/"},
		{"/./", "/"},
		{"/..", "/"},
		{"/../", "/"},
		{"/../../login", "/login"},
		{"/a/..", "/"},
		{"/a/../", "/"},
		{"/a/.", "/a/"},
		{"/a/./b", "/a/b"},
		{"/a/b/c/./../../g", "/a/g"},
		{"/a//../b", "/b"},
		{"/a/b/..", "/a/"},
		{"/a/%2e%2E/b", "/b"},
		{"/a/.%2e/b", "/b"},
		{"/...", "/..."},
		{"/..a/.b/c..", "/..a/.b/c.."},
		{"/a;v=1/b", "/a;v=1/b"},
		{"/caf\xc3\xa9", "/caf\xc3\xa9"},
		{"http://example.org/login?x", "/login"},
		{"http://example.org", "/"},
		{"http://example.org?x", "/"},
		{"HTTPS://u:p@example.org:443//a/../login", "/login"},
		{"/http://example.org/", "/http:/example.org/"},
		{"*", "*"},
		{"example.org:443", "example.org:443"},
		{"://x", "://x"},
	};
	char out[128];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t len = sl_path_normalise(sl_str(rows[i].target), out);
		print_message("%s\n", rows[i].target);
		assert_int_equal(len, strlen(rows[i].path));
		assert_memory_equal(out, rows[i].path, len);
	}
	assert_int_equal(sl_path_normalise((struct sluice_bytes){NULL, 0}, out), 1);
	assert_int_equal(sl_path_normalise(sl_slice("/a\0b", 4), out), 4);
}

static void test_cut(void **state) {
	static char target[8192], out[SLUICE_KEY_BYTES_MAX];
	(void)state;
	memset(target, 'a', sizeof target);
	target[0] = '/';
	assert_int_equal(sl_path_normalise(sl_slice(target, SLUICE_KEY_BYTES_MAX), out), SLUICE_KEY_BYTES_MAX);
	assert_int_equal(sl_path_normalise(sl_slice(target, SLUICE_KEY_BYTES_MAX + 1), out), SLUICE_KEY_BYTES_MAX);
	assert_int_equal(sl_path_normalise(sl_slice(target, sizeof target), out), SLUICE_KEY_BYTES_MAX);
	assert_int_equal(sl_path_normalise(sl_slice(target + 1, sizeof target - 1), out), SLUICE_KEY_BYTES_MAX);
	/* what is cut is the normal form: a long detour ends where it leads */
	memcpy(target + sizeof target - 9, "/../login", 9);
	assert_int_equal(sl_path_normalise(sl_slice(target, sizeof target), out), 6);
	assert_memory_equal(out, "/login", 6);
}

/* A name that starts with dots and is cut behind them is no dot segment: what is kept stays as it is. */
static void test_cut_in_dots(void **state) {
	(void)state;
	static char target[SLUICE_KEY_BYTES_MAX + 16], out[SLUICE_KEY_BYTES_MAX], again[SLUICE_KEY_BYTES_MAX];
	for (size_t kept = 0; kept <= 4; kept++) {
		const size_t start = SLUICE_KEY_BYTES_MAX - kept;
		memset(target, 'a', sizeof target);
		target[0] = target[start - 1] = '/';
		target[start] = target[start + 1] = '.';
		size_t len = sl_path_normalise(sl_slice(target, sizeof target), out);
		assert_int_equal(len, kept == 1 || kept == 2 ? start : SLUICE_KEY_BYTES_MAX);
		assert_memory_equal(out, target, len);
		assert_int_equal(sl_path_normalise(sl_slice(out, len), again), len);
	}
}

/* At every length around the room, with detours that begin before it, in it and behind it, against the same path made
 * whole and cut. */
static void test_cut_after_detours(void **state) {
	static char target[8192], expected[8192], out[SLUICE_KEY_BYTES_MAX];
	(void)state;
	for (size_t before = SLUICE_KEY_BYTES_MAX - 6; before <= SLUICE_KEY_BYTES_MAX + 3; before++)
		for (size_t more = 0; more < 6; more++) {
			size_t len = 0, kept;
			for (size_t i = 0; i < before; i++)
				expected[len++] = i % 8 == 0 ? '/' : 'a';
			memcpy(target, expected, len);
			kept = len;
			for (size_t i = 0; i < more; i++, len += 5)
				memcpy(target + len, "/bb/c", 5);
			for (size_t i = 0; i < 2 * more; i++, len += 3)
				memcpy(target + len, "/..", 3);
			memcpy(target + len, "/dddddd", 7);
			memcpy(expected + kept, "/dddddd", 7);
			kept = kept + 7 < SLUICE_KEY_BYTES_MAX ? kept + 7 : SLUICE_KEY_BYTES_MAX;
			assert_int_equal(sl_path_normalise(sl_slice(target, len + 7), out), kept);
			assert_memory_equal(out, expected, kept);
		}
}

/* ---- random targets --------------------------------------------------------------------------------------------- */

static size_t random_target(char *target) {
	static const char *const pieces[] = {"/", "/", "//", ".", "..", "%2e", "%2E%2e", "a", "%61", "%2f", "%2F", "~"};
	size_t len = 0;
	target[len++] = '/';
	for (long count = random() % 12; count > 0; count--) {
		const char *piece = pieces[random() % (long)(sizeof pieces / sizeof *pieces)];
		memcpy(target + len, piece, strlen(piece));
		len += strlen(piece);
	}
	return len;
}

/* The twin: decode all, split at slashes into a stack of segments, join. */
static size_t twin(const char *target, size_t len, char *out) {
	char decoded[128];
	const char *segments[64];
	size_t lens[64], count = 0, n = 0, out_len = 0;
	bool open = false; /* does the path end with a slash? */
	for (size_t i = 0; i < len; i++) {
		unsigned code;
		char pair[3] = {0};
		bool escape = target[i] == '%' && i + 2 < len;
		if (escape)
			memcpy(pair, target + i + 1, 2);
		if (escape && sscanf(pair, "%2x", &code) == 1) {
			if (code != '/')
				decoded[n++] = (char)code;
			else
				n += (size_t)snprintf(decoded + n, 4, "%%2F");
			i += 2;
		} else {
			decoded[n++] = target[i];
		}
	}
	for (size_t at = 1; at <= n;) {
		const char *slash = memchr(decoded + at, '/', n - at);
		size_t end = slash == NULL ? n : (size_t)(slash - decoded), segment = end - at;
		bool dot = segment == 1 && decoded[at] == '.', up = segment == 2 && memcmp(decoded + at, "..", 2) == 0;
		open = segment == 0 || dot || up || slash != NULL;
		if (up && count > 0)
			count--;
		if (segment != 0 && !dot && !up) {
			segments[count] = decoded + at;
			lens[count++] = segment;
		}
		at = end + 1;
	}
	for (size_t i = 0; i < count; i++) {
		out[out_len++] = '/';
		memcpy(out + out_len, segments[i], lens[i]);
		out_len += lens[i];
	}
	if (open || out_len == 0)
		out[out_len++] = '/';
	return out_len;
}

static void test_twin(void **state) {
	unsigned seed = 20240502;
	char target[128], out[128], expected[128], again[128];
	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (int i = 0; i < 300000; i++) {
		size_t len = random_target(target);
		size_t out_len = sl_path_normalise(sl_slice(target, len), out);
		size_t expected_len = twin(target, len, expected);
		if (out_len != expected_len || memcmp(out, expected, out_len) != 0)
			fail_msg("%.*s: got %.*s, not %.*s", (int)len, target, (int)out_len, out, (int)expected_len, expected);
		assert_int_equal(sl_path_normalise(sl_slice(out, out_len), again), out_len); /* normal stays normal */
		assert_memory_equal(again, out, out_len);
		assert_int_equal(sl_path_normalise(sl_slice(target, len), target), out_len); /* in place */
		assert_memory_equal(target, out, out_len);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_cut_in_dots),
		cmocka_unit_test(test_cut_after_detours),
		cmocka_unit_test(test_twin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
