/* What of UTF-8 may be shown, and how all else is; and how a text is known again, in any case. */
#include "base/nocase.h"
#include "base/recall.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* A character as UTF-8, by the table of RFC 3629. */
static size_t encode(uint32_t c, unsigned char out[4]) {
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = len; i-- > 1; c >>= 6)
		out[i] = (unsigned char)(0x80 | (c & 0x3f));
	out[0] = (unsigned char)(leads[len] | c);
	return len;
}

static void test_every_character(void **state) {
	unsigned char bytes[4];
	uint32_t found = 0;
	(void)state;
	for (uint32_t c = 0; c < 0x110000; c++) {
		size_t len = encode(c, bytes), want = c >= 0xd800 && c < 0xe000 ? 0 : len;
		if (sl_text_next(bytes, len, &found) != want || (want != 0 && found != c))
			fail_msg("U+%04X", c);
		if (sl_text_next(bytes, len - (len > 1), &found) != (len == 1 ? 1 : 0))
			fail_msg("U+%04X, cut", c);
	}
}

static void test_what_is_no_utf8(void **state) {
	static const char *const rows[] = {
		"\x80",         "\xbf",             "\xc0\x80",         "\xc1\xbf", "\xe0\x9f\xbf",
		"\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xff",     "\xf5\x80\x80\x80",
		"\xc3(",        "\xe2\x82(",        "\xf0\x9f\x98(",
	};
	uint32_t found;
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(sl_text_next((const unsigned char *)rows[i], strlen(rows[i]), &found), 0);
}

static void assert_shown(const char *text, size_t max, const char *want) {
	size_t room = SL_TEXT_ROOM(max < strlen(text) ? max : strlen(text));
	char *memory = malloc(room);
	struct sl_out out = sl_out_to(memory, room);
	sl_out_shown(&out, sl_str(text), max);
	assert_false(out.overflow);
	assert_int_equal(sl_out_len(&out), strlen(want));
	assert_memory_equal(memory, want, strlen(want));
	free(memory);
}

static void test_what_is_shown(void **state) {
	(void)state;
	assert_shown("", 10, "");
	static const char plain[] = "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 '\"\\";
	assert_shown(plain, 100, plain);
	assert_shown("\x1b]0;x\a\t\r\n\x7f", 100, "\\x1b]0;x\\x07\\x09\\x0d\\x0a\\x7f");
	assert_shown("\xc2\x9b" "31m \xc2\xa0", 100, "\\xc2\\x9b31m \xc2\xa0");          /* C1: CSI */
	assert_shown("a\xe2\x80\xae" "b", 100, "a\\xe2\\x80\\xae" "b");                    /* U+202E */
	assert_shown("\xe2\x80\xa8\xe2\x80\xa9", 100, "\\xe2\\x80\\xa8\\xe2\\x80\\xa9"); /* U+2028, U+2029 */
	assert_shown("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c", 100, "\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c");
	assert_shown("\xe2\x80\x8b\xef\xbb\xbf\xc2\xad", 100, "\\xe2\\x80\\x8b\\xef\\xbb\\xbf\\xc2\\xad");
	assert_shown("\xf3\xa0\x81\x81", 100, "\\xf3\\xa0\\x81\\x81"); /* U+E0041: a tag */
	assert_shown("\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\x9f", 100, "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\x9f"); /* beside them */
	assert_shown("\xff\xc3", 100, "\\xff\\xc3");
	assert_shown("abcdef", 3, "abc...");
	assert_shown("ab\xc3\xa9", 3, "ab\\xc3..."); /* cut within a character */
}

/* By every byte, whatever the length. */
static void test_a_text_is_known_again(void **state) {
	char kept[41], text[41];
	(void)state;
	for (size_t i = 0; i < sizeof kept; i++)
		kept[i] = (char)('a' + i);
	for (size_t len = 0; len < sizeof kept; len++) {
		memcpy(text, kept, sizeof kept);
		assert_true(sl_recall_is(kept, len, sl_slice(text, len)));
		assert_false(sl_recall_is(kept, len + 1, sl_slice(text, len)));
		for (size_t at = 0; at < sizeof text; at++) {
			text[at] ^= 0x20;
			bool same = sl_recall_is(kept, len, sl_slice(text, len));
			if (same != (at >= len))
				fail_msg("byte %zu of %zu", at, len);
			if (sl_recall_hash(sl_slice(text, len)) == sl_recall_hash(sl_slice(kept, len)) && at < len)
				fail_msg("the same hash without byte %zu of %zu", at, len);
			text[at] ^= 0x20;
		}
	}
}

/* Headers are known whatever the case of their letters, and of letters alone: by every byte in places of every length,
 * whatever stands behind. */
static void test_a_name_is_known_in_any_case(void **state) {
	enum { LEN = 20 };
	char lower[LEN + 1], text[LEN + 1];
	(void)state;
	for (unsigned want = 0; want < 256; want++) {
		if (want >= 'A' && want <= 'Z')
			continue;
		for (size_t i = 0; i <= LEN; i++)
			lower[i] = text[i] = (char)('a' + i);
		for (unsigned c = 0; c < 256; c++) {
			unsigned small = c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c;
			for (size_t len = 1; len <= LEN; len++) {
				size_t at = (want + c) % len;
				char kept = lower[at], behind = lower[len];
				lower[at] = (char)want;
				text[at] = (char)c;
				lower[len] = '1';
				text[len] = '2';
				if (sl_is_lowered(sl_slice(text, len), sl_slice(lower, len)) != (small == want))
					fail_msg("%02x for %02x, byte %zu of %zu", c, want, at, len);
				lower[at] = text[at] = kept;
				lower[len] = text[len] = behind;
			}
		}
	}
	assert_true(sl_is_lowered(sl_slice(text, 0), sl_slice(lower, 0)));
	assert_false(sl_is_lowered(sl_slice(text, 8), sl_slice(lower, 9)));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_character),
		cmocka_unit_test(test_what_is_no_utf8),
		cmocka_unit_test(test_what_is_shown),
		cmocka_unit_test(test_a_text_is_known_again),
		cmocka_unit_test(test_a_name_is_known_in_any_case),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
