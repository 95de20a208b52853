/* Attributes: one form for every spelling.
 *
 * Tables by name; then random values, made of what spellings differ by: what a form gives has that form, whatever went
 * in, and a value that is borrowed is the value. */
#include "policy/attribute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static struct sluice_bytes form(enum sl_attribute attribute, struct sluice_bytes value, char *memory) {
	return sl_attribute_form(attribute, value, 64, memory);
}

static void test_names(void **state) {
	(void)state;
	assert_int_equal(sl_attribute_find(sl_str("ip")), SL_ATTRIBUTE_IP);
	assert_int_equal(sl_attribute_find(sl_str("path")), SL_ATTRIBUTE_PATH);
	assert_int_equal(sl_attribute_find(sl_str("method")), SL_ATTRIBUTE_METHOD);
	assert_int_equal(sl_attribute_find(sl_str("host")), SL_ATTRIBUTE_HOST);
	assert_int_equal(sl_attribute_find(sl_str("IP")), SL_ATTRIBUTE_OTHER);
	assert_int_equal(sl_attribute_find(sl_str("")), SL_ATTRIBUTE_OTHER);
	assert_int_equal(sl_attribute_find(sl_str("user")), SL_ATTRIBUTE_OTHER);
}

static const struct row {
	enum sl_attribute attribute;
	const char *value, *form;
} rows[] = {
	{SL_ATTRIBUTE_IP, "203.0.113.7", "203.0.113.7"},
	{SL_ATTRIBUTE_IP, "255.255.255.255", "255.255.255.255"},
	{SL_ATTRIBUTE_IP, "0.0.0.0", "0.0.0.0"},
	{SL_ATTRIBUTE_IP, "1.2.3.4:567", "1.2.3.4"},
	{SL_ATTRIBUTE_IP, "::ffff:1.2.3.4", "1.2.3.4"},
	{SL_ATTRIBUTE_IP, "::FFFF:102:304", "1.2.3.4"},
	{SL_ATTRIBUTE_IP, "[::ffff:1.2.3.4]:80", "1.2.3.4"},
	{SL_ATTRIBUTE_IP, "2001:db8:0:0:1::5", "2001:db8::/64"},
	{SL_ATTRIBUTE_IP, "2001:DB8::6", "2001:db8::/64"},
	{SL_ATTRIBUTE_IP, "[2001:db8::7]:8080", "2001:db8::/64"},
	{SL_ATTRIBUTE_IP, "[2001:db8::7]", "2001:db8::/64"},
	{SL_ATTRIBUTE_IP, "fe80::1%eth0", "fe80::/64"},
	{SL_ATTRIBUTE_IP, "2001:db8::/64", "2001:db8::/64"}, /* as keys have it */
	{SL_ATTRIBUTE_IP, "", ""},                           /* what is no address stays as it is */
	{SL_ATTRIBUTE_IP, "unix", "unix"},
	{SL_ATTRIBUTE_IP, "1.2.3", "1.2.3"},
	{SL_ATTRIBUTE_IP, "1.2.3.04", "1.2.3.04"},
	{SL_ATTRIBUTE_IP, "1.2.3.256", "1.2.3.256"},
	{SL_ATTRIBUTE_IP, "1.2.3.4.", "1.2.3.4."},
	{SL_ATTRIBUTE_IP, "10.20.30.", "10.20.30."},
	{SL_ATTRIBUTE_IP, "10.20.30", "10.20.30"},
	{SL_ATTRIBUTE_IP, "1..3.4", "1..3.4"},
	{SL_ATTRIBUTE_IP, "1.2.3.4.5", "1.2.3.4.5"},
	{SL_ATTRIBUTE_IP, "1.2.3.4:70000", "1.2.3.4:70000"},
	{SL_ATTRIBUTE_IP, " 1.2.3.4", " 1.2.3.4"},
	{SL_ATTRIBUTE_PATH, "/login", "/login"},
	{SL_ATTRIBUTE_PATH, "/Login", "/Login"},
	{SL_ATTRIBUTE_PATH, "/login/", "/login/"},
	{SL_ATTRIBUTE_PATH, "/login;a", "/login;a"},
	{SL_ATTRIBUTE_PATH, "//shorten", "/shorten"},
	{SL_ATTRIBUTE_PATH, "/shorten?x=1", "/shorten"},
	{SL_ATTRIBUTE_PATH, "/a/../%6cogin#x", "/login"},
	{SL_ATTRIBUTE_PATH, "/.", "/"},
	{SL_ATTRIBUTE_PATH, "/a/.b", "/a/.b"},
	{SL_ATTRIBUTE_PATH, "", "/"},
	{SL_ATTRIBUTE_PATH, "*", "*"},
	{SL_ATTRIBUTE_PATH, "http://a.example/x/./y", "/x/y"},
	{SL_ATTRIBUTE_METHOD, "GET", "GET"},
	{SL_ATTRIBUTE_METHOD, "get", "GET"},
	{SL_ATTRIBUTE_METHOD, "M-Search{", "M-SEARCH{"},
	{SL_ATTRIBUTE_METHOD, "", ""},
	{SL_ATTRIBUTE_HOST, "example.com", "example.com"},
	{SL_ATTRIBUTE_HOST, "Example.COM:443", "example.com"},
	{SL_ATTRIBUTE_HOST, "example.com.", "example.com"},
	{SL_ATTRIBUTE_HOST, "example.com..:80", "example.com"},
	{SL_ATTRIBUTE_HOST, "example.com:80:90", "example.com"}, /* as servers read it */
	{SL_ATTRIBUTE_HOST, "[2001:DB8::1]:443", "[2001:db8::1]"},
	{SL_ATTRIBUTE_HOST, "[::1", "[::1"},
	{SL_ATTRIBUTE_HOST, "2001:DB8::1", "2001:db8::1"},
	{SL_ATTRIBUTE_HOST, "fe80::1%Eth0.", "fe80::1%eth0."}, /* a zone may end with a dot, */
	{SL_ATTRIBUTE_HOST, "::%..", "::%.."},                 /* or be nothing else */
	{SL_ATTRIBUTE_HOST, "[fe80::1%.", "[fe80::1%."},
	{SL_ATTRIBUTE_HOST, ":80", ""},
	{SL_ATTRIBUTE_HOST, "", ""},
	{SL_ATTRIBUTE_OTHER, "/A?b", "/A?b"},
};

static void test_table(void **state) {
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sluice_bytes got = form(rows[i].attribute, sl_str(rows[i].value), memory);
		if (!sl_bytes_equal(got, sl_str(rows[i].form)))
			fail_msg("%s: got %.*s, not %s", rows[i].value, (int)got.len, (const char *)got.data, rows[i].form);
	}
	assert_null(form(SL_ATTRIBUTE_PATH, sl_slice(NULL, 0), memory).data); /* absent stays absent */
	struct sluice_bytes whole = sl_attribute_form(SL_ATTRIBUTE_IP, sl_str("2001:DB8::5"), 128, memory);
	assert_true(sl_bytes_equal(whole, sl_str("2001:db8::5")));
	whole = sl_attribute_form(SL_ATTRIBUTE_IP, sl_str("2001:db8:1:2::5"), 48, memory);
	assert_true(sl_bytes_equal(whole, sl_str("2001:db8:1::/48")));
}

/* Nothing is read past the end of a value: here no memory is beyond it. */
static void test_values_at_the_end_of_memory(void **state) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)state;
	assert_true(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t len = strlen(rows[i].value);
		char *value = memcpy(pages + page - len, rows[i].value, len);
		struct sluice_bytes got = form(rows[i].attribute, sl_slice(value, len), memory);
		assert_true(sl_bytes_equal(got, sl_str(rows[i].form)));
	}
	munmap(pages, 2 * page);
}

/* What has its form is not copied: that is what makes forms cheap. */
static void test_borrowed(void **state) {
	static const struct row same[] = {
		{SL_ATTRIBUTE_IP, "203.0.113.77", NULL},     {SL_ATTRIBUTE_PATH, "/a/b.c/d/", NULL},
		{SL_ATTRIBUTE_METHOD, "PROPFIND", NULL},     {SL_ATTRIBUTE_HOST, "www.example.com", NULL},
		{SL_ATTRIBUTE_IP, "2001:db8::/64", NULL},
	};
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		assert_ptr_equal(form(same[i].attribute, sl_str(same[i].value), memory).data, same[i].value);
}

static void test_long(void **state) {
	static char text[5000];
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)state;
	memset(text, 'A', sizeof text);
	for (int attribute = SL_ATTRIBUTE_PATH; attribute <= SL_ATTRIBUTE_HOST; attribute++) {
		struct sluice_bytes got = form((enum sl_attribute)attribute, sl_slice(text, sizeof text), memory);
		assert_int_equal(got.len, SLUICE_KEY_BYTES_MAX);
	}
	text[1023] = '.'; /* at the cut */
	assert_int_equal(form(SL_ATTRIBUTE_HOST, sl_slice(text, sizeof text), memory).len, SLUICE_KEY_BYTES_MAX - 1);
	assert_int_equal(form(SL_ATTRIBUTE_IP, sl_slice(text, sizeof text), memory).len, sizeof text);
}

/* ---- prefixes ---------------------------------------------------------------------------------------------------- */

static void test_prefixes(void **state) {
	static const struct {
		enum sl_attribute attribute;
		const char *prefix, *form; /* NULL: no value begins so */
	} cases[] = {
		{SL_ATTRIBUTE_PATH, "/search", "/search"},   {SL_ATTRIBUTE_PATH, "/a//b", "/a/b"},
		{SL_ATTRIBUTE_PATH, "/a/", "/a/"},           {SL_ATTRIBUTE_PATH, "/a/../b/", "/b/"},
		{SL_ATTRIBUTE_PATH, "/a/..", "/a/.."},       {SL_ATTRIBUTE_PATH, "/a/.", "/a/."},
		{SL_ATTRIBUTE_PATH, "/%6Cog", "/log"},       {SL_ATTRIBUTE_PATH, "/%6", "/%6"},
		{SL_ATTRIBUTE_PATH, "", ""},                 {SL_ATTRIBUTE_PATH, "/search?q=", NULL},
		{SL_ATTRIBUTE_PATH, "/a#", NULL},            {SL_ATTRIBUTE_PATH, "/", "/"},
		{SL_ATTRIBUTE_METHOD, "prop", "PROP"},       {SL_ATTRIBUTE_HOST, "Api.", "api."},
		{SL_ATTRIBUTE_HOST, "a.example:80", NULL},   {SL_ATTRIBUTE_HOST, "[::1]:", NULL},
		{SL_ATTRIBUTE_HOST, "[2001:DB8", "[2001:db8"}, {SL_ATTRIBUTE_HOST, "2001:DB8", "2001:db8"},
		{SL_ATTRIBUTE_HOST, "", ""},                 {SL_ATTRIBUTE_IP, "10.", "10."},
		{SL_ATTRIBUTE_IP, "2001:DB8:", "2001:db8:"}, {SL_ATTRIBUTE_IP, "Unix", "Unix"},
		{SL_ATTRIBUTE_OTHER, "A?", "A?"},
	};
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sluice_bytes prefix = sl_str(cases[i].prefix);
		bool holds = sl_attribute_prefix_form(cases[i].attribute, &prefix, memory);
		print_message("%s\n", cases[i].prefix);
		assert_int_equal(holds, cases[i].form != NULL);
		if (holds)
			assert_true(sl_bytes_equal(prefix, sl_str(cases[i].form)));
	}
}

/* ---- random values ----------------------------------------------------------------------------------------------- */

static size_t random_value(char *value) {
	static const char *const pieces[] = {
		"/",  "//",  ".",   "..",      "%2e",      "%2",    "%",   "a", "Z", ":",   "::",   "80",    "[",   "]",
		"?",  "#",   "%6c", "1.2.3.4", "2001:db8", "ffff:", "10.", "0", "*", "://", "http", "%eth0", "/64", "\x00",
		"%25", "\xff",
	};
	size_t len = 0;
	for (long count = random() % 9; count > 0; count--) {
		const char *piece = pieces[random() % (long)(sizeof pieces / sizeof *pieces)];
		size_t bytes = *piece == '\0' ? 1 : strlen(piece);
		memcpy(value + len, piece, bytes);
		len += bytes;
	}
	return len;
}

static void test_forms_stay(void **state) {
	const char *given = getenv("SLUICE_SEED");
	unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : 20261122;
	char value[256], once[SLUICE_KEY_BYTES_MAX], twice[SLUICE_KEY_BYTES_MAX];
	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (int i = 0; i < 400000; i++) {
		enum sl_attribute attribute = (enum sl_attribute)(1 + i % 4);
		struct sluice_bytes text = {value, random_value(value)};
		struct sluice_bytes first = form(attribute, text, once), second = form(attribute, first, twice);
		if (!sl_bytes_equal(first, second))
			fail_msg("%d: %.*s gives %.*s, and that %.*s", attribute, (int)text.len, value, (int)first.len,
			         (const char *)first.data, (int)second.len, (const char *)second.data);
		assert_true(first.data == value || first.data == once);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_at_the_end_of_memory),
		cmocka_unit_test(test_names), cmocka_unit_test(test_table),    cmocka_unit_test(test_borrowed),
		cmocka_unit_test(test_long),  cmocka_unit_test(test_prefixes), cmocka_unit_test(test_forms_stay),
	};
	return cmocka_run_group_tests_name("attribute", tests, NULL, NULL);
}
