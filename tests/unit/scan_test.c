/* The end of a word, found many bytes at a time, is where a walk finds it; and nothing outside of the text is read:
 * each text is a copy of its own exact size, so that the address sanitizer sees it. */
#include "base/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LONGEST = 70 };

static const char *walk(const char *at, const char *end) {
	while (at < end && *at != ' ' && *at != '\t')
		at++;
	return at;
}

static void check_text(const char *text, size_t len) {
	char *copy = malloc(len + (len == 0));
	memcpy(copy, text, len);
	for (size_t from = 0; from <= len; from++)
		assert_ptr_equal(sl_find_blank(copy, copy + from, copy + len), walk(copy + from, copy + len));
	free(copy);
}

/* Blanks in each place and in each two, among bytes that differ from them in one bit. */
static void words_end_where_a_walk_ends(void **state) {
	static const char others[] = "a!\"\x08\x0b\x0d\x00\xa0\x89\x60\xff";
	char text[LONGEST];
	(void)state;
	for (size_t len = 0; len <= LONGEST; len++)
		for (size_t first = 0; first <= len; first++) {
			for (size_t i = 0; i < len; i++)
				text[i] = others[(i * 7 + len) % (sizeof others - 1)];
			if (first < len)
				text[first] = len % 2 == 0 ? ' ' : '\t';
			if (2 * first < len)
				text[2 * first] = ' ';
			check_text(text, len);
		}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_end_where_a_walk_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
