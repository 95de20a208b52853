/* Keys that are too long: SHA-256 against libsodium's, and what is folded. */
#include "base/sha256.h"
#include "policy/key.h"
#include "policy/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sodium.h>

enum { LONGEST = 4 * SLUICE_KEY_BYTES_MAX, KEPT = SLUICE_KEY_BYTES_MAX - 1 - SL_SHA256_DIGITS };

static char text[LONGEST];

static void fill(void) {
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(i * 37 + i / 256);
}

static void hex_of(const void *data, size_t len, char digits[SL_SHA256_DIGITS + 1]) {
	unsigned char hash[crypto_hash_sha256_BYTES];
	crypto_hash_sha256(hash, data, len);
	sodium_bin2hex(digits, SL_SHA256_DIGITS + 1, hash, sizeof hash);
}

static void agrees_with_libsodium_for_every_length(void **state) {
	char digits[SL_SHA256_DIGITS], expected[SL_SHA256_DIGITS + 1];
	(void)state;
	fill();
	for (size_t len = 0; len <= 300; len++) {
		sl_sha256_hex(sl_slice(text, len), digits);
		hex_of(text, len, expected);
		assert_memory_equal(digits, expected, sizeof digits);
	}
	sl_sha256_hex(sl_slice(text, sizeof text), digits);
	hex_of(text, sizeof text, expected);
	assert_memory_equal(digits, expected, sizeof digits);
	sl_sha256_hex(sl_slice(NULL, 0), digits);
	assert_memory_equal(digits, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", sizeof digits);
}

static void keys_that_fit_are_left_alone(void **state) {
	char folded[SLUICE_KEY_BYTES_MAX] = "untouched";
	(void)state;
	fill();
	for (size_t len = 0; len <= SLUICE_KEY_BYTES_MAX; len++) {
		struct sluice_bytes key = sl_key_fold(folded, sl_slice(text, len));
		assert_ptr_equal(key.data, text);
		assert_int_equal(key.len, len);
	}
	assert_string_equal(folded, "untouched");
}

/* One byte more or less, the last one another: each has a key of its own. */
static void longer_ones_end_in_their_hash(void **state) {
	char folded[SLUICE_KEY_BYTES_MAX], expected[SL_SHA256_DIGITS + 1];
	(void)state;
	fill();
	for (size_t len = SLUICE_KEY_BYTES_MAX + 1; len <= sizeof text; len += len < 1200 ? 1 : 97) {
		struct sluice_bytes key = sl_key_fold(folded, sl_slice(text, len));
		hex_of(text, len, expected);
		assert_ptr_equal(key.data, folded);
		assert_int_equal(key.len, SLUICE_KEY_BYTES_MAX);
		assert_memory_equal(folded, text, KEPT);
		assert_int_equal(folded[KEPT], '~');
		assert_memory_equal(folded + KEPT + 1, expected, SL_SHA256_DIGITS);
	}
}

/* Where the whole stands, or behind its place in the same memory. */
static void may_be_folded_in_place(void **state) {
	char expected[SLUICE_KEY_BYTES_MAX], here[LONGEST + 100];
	(void)state;
	fill();
	assert_int_equal(sl_key_fold(expected, sl_slice(text, LONGEST)).len, SLUICE_KEY_BYTES_MAX);
	for (size_t by = 0; by <= 100; by += 50) {
		memcpy(here + by, text, LONGEST);
		assert_ptr_equal(sl_key_fold(here, sl_slice(here + by, LONGEST)).data, here);
		assert_memory_equal(here, expected, sizeof expected);
	}
}

/* ---- keys that people write -------------------------------------------------------------------------------------- */

static void written_keys_take_the_form_of_requests(void **state) {
	static const struct {
		const char *key, *form;
	} rows[] = {
		{"ip=1.2.3.4", "ip=1.2.3.4"},
		{"ip=::ffff:1.2.3.4", "ip=1.2.3.4"},
		{"ip=[2001:DB8::5]:80", "ip=2001:db8::/64"},
		{"user=A%2Cb,path=//x?y", "user=A%2Cb,path=/x"},
		{"path=/a%252fb%2C%3D", "path=/a%252Fb%2C%3D"}, /* one path, as in requests */
		{"path=/a%3D%2C/../%2541", "path=/A"},
		{"method=get,host=A.Example:1", "method=GET,host=a.example"},
		{"user:1", "user:1"}, /* no pairs */
		{"ip=::1,x", "ip=::1,x"},
		{"", ""},
		{"=", "="},
		{"ip=%2", "ip=%252"}, /* as requests have it */
		{"user=YWxpY2U=", "user=YWxpY2U%3D"},
		{"user=YWxpY2U%3D", "user=YWxpY2U%3D"},
		{"user=a=b,x=100%", "user=a%3Db,x=100%25"},
		{"user=a%252Cb", "user=a%252Cb"},
		{"user=a%3db%41", "user=a%253db%2541"}, /* no code of a key */
		{"=a%b", "=a%25b"},
	};
	struct sluice_policy *policy;
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)state;
	assert_int_equal(sluice_policy_load(&policy, sl_str("limits: []"), NULL), SLUICE_OK);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_bytes key = sl_str(rows[i].key), form = sl_policy_key(policy, key, memory);
		if (!sl_bytes_equal(form, sl_str(rows[i].form)))
			fail_msg("%s gives %.*s", rows[i].key, (int)form.len, (const char *)form.data);
		assert_true(form.data == (sl_bytes_equal(form, key) ? key.data : memory));
	}
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_libsodium_for_every_length),
		cmocka_unit_test(keys_that_fit_are_left_alone),
		cmocka_unit_test(longer_ones_end_in_their_hash),
		cmocka_unit_test(may_be_folded_in_place),
		cmocka_unit_test(written_keys_take_the_form_of_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
