/* SipHash against libsodium's: the same code that the store instantiates as 1-3, instantiated as 2-4. */
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sodium.h>

static void agrees_with_libsodium_for_every_length(void **state) {
	unsigned char text[200], key[crypto_shorthash_KEYBYTES], tag[crypto_shorthash_BYTES];
	uint64_t words[2], expected;
	(void)state;
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (unsigned char)(i * 37 + 11);
	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (unsigned char)(i * 101 + 3);
	memcpy(words, key, sizeof words);
	for (size_t len = 0; len <= sizeof text; len++) {
		assert_int_equal(crypto_shorthash(tag, text, len, key), 0);
		memcpy(&expected, tag, sizeof expected);
		assert_int_equal(sl_siphash(words, NULL, 0, sl_slice(text, len), 2, 4), expected);
	}
}

/* Words ahead of the bytes are hashed as if they were the first bytes of the message. */
static void words_ahead_are_the_first_bytes(void **state) {
	unsigned char text[40];
	const uint64_t key[2] = {1, 2};
	uint64_t words[2];
	(void)state;
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (unsigned char)(255 - i);
	memcpy(words, text, sizeof words);
	for (size_t len = 16; len <= sizeof text; len++) {
		uint64_t whole = sl_siphash(key, NULL, 0, sl_slice(text, len), 1, 3);
		assert_int_equal(whole, sl_siphash(key, words, 2, sl_slice(text + 16, len - 16), 1, 3));
		assert_int_equal(whole, sl_siphash(key, words, 1, sl_slice(text + 8, len - 8), 1, 3));
	}
}

static void keys_and_lengths_matter(void **state) {
	const uint64_t one[2] = {1, 2}, other[2] = {1, 3};
	(void)state;
	assert_int_not_equal(sl_siphash(one, NULL, 0, sl_str("a"), 1, 3), sl_siphash(other, NULL, 0, sl_str("a"), 1, 3));
	assert_int_not_equal(sl_siphash(one, NULL, 0, sl_slice("\0", 1), 1, 3), sl_siphash(one, NULL, 0, sl_str(""), 1, 3));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_libsodium_for_every_length),
		cmocka_unit_test(words_ahead_are_the_first_bytes),
		cmocka_unit_test(keys_and_lengths_matter),
	};
	return cmocka_run_group_tests_name("siphash", tests, NULL, NULL);
}
