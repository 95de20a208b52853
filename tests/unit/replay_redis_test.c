/* Where a Redis is, as --store says it, and the list of keys that a replay leaves there. */
#include "hosts/cli/replay/replay_keys.h"
#include "hosts/cli/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_urls(void **state) {
	static const struct {
		const char *text, *server, *user, *prefix;
		bool tls;
	} rows[] = {
		{"redis://127.0.0.1", "127.0.0.1:6379", "", "", false},
		{"redis://127.0.0.1:7000", "127.0.0.1:7000", "", "", false},
		{"redis://localhost/", "localhost:6379", "", "", false},
		{"redis://[::1]", "[::1]:6379", "", "", false},
		{"redis://[::1]:7000/rl:", "[::1]:7000", "", "rl:", false},
		{"redis://cache.example:1/a/b 2", "cache.example:1", "", "a/b 2", false},
		{"rediss://me@cache.example/1x", "cache.example:6379", "me", "1x", true},
		{"redis://a@b@h:1", "h:1", "a@b", "", false},
		{"redis://h/x@y", "h:6379", "", "x@y", false},
		{"unix:///run/redis.sock", "unix:/run/redis.sock", "", "", false},
		{"unix://me@/run/redis.sock", "unix:/run/redis.sock", "me", "", false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct sl_redis_url url;
		struct sluice_error error;
		print_message("%s\n", rows[i].text);
		assert_true(sl_redis_url_is(rows[i].text));
		assert_true(sl_redis_url_parse(rows[i].text, &url, &error));
		assert_string_equal(url.server, rows[i].server);
		assert_string_equal(url.user, rows[i].user);
		assert_string_equal(url.prefix, rows[i].prefix);
		assert_int_equal(url.tls, rows[i].tls);
		struct sl_client_options options = sl_redis_url_options(&url, "ca.pem");
		assert_ptr_equal(options.server, url.server);
		assert_true(rows[i].user[0] == '\0' ? options.user == NULL : options.user == url.user);
		assert_true(options.tls == rows[i].tls && options.redis && strcmp(options.ca, "ca.pem") == 0);
	}
}

static void test_urls_refused(void **state) {
	static const struct {
		const char *text, *part;
	} rows[] = {
		{"redis://", "expected a host"},
		{"redis:///rl:", "expected a host"},
		{"redis://me@", "expected a host"},
		{"redis://me:secret@h", "a password does not belong on a command line"},
		{"rediss://:secret@h", "SLUICE_PASSWORD"},
		{"unix://me:secret@/run/s", "a password does not belong"},
		{"redis://h/0", "a prefix of keys, not the number of a database"},
		{"redis://h/15", "not the number of a database"},
		{"redis://h/{x}", "without { and }"},
		{"unix://run/redis.sock", "expected the path of a socket"},
	};
	static const char *const others[] = {"", "redis:", "redis:/h", "REDIS://h", "shared:a", "/redis://h", "http://h"};
	struct sl_redis_url url;
	struct sluice_error error;
	char text[512];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		print_message("%s\n", rows[i].text);
		assert_true(sl_redis_url_is(rows[i].text));
		assert_false(sl_redis_url_parse(rows[i].text, &url, &error));
		assert_non_null(strstr(error.text, rows[i].part));
		assert_null(strstr(error.text, "secret"));
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_false(sl_redis_url_is(others[i]));
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof text, "redis://h/%0*d:", SL_URL_PREFIX_BYTES_MAX - 1 + i, 1);
		assert_int_equal(sl_redis_url_parse(text, &url, &error), i == 0);
		snprintf(text, sizeof text, "redis://%0*d@h", 131 + i, 1);
		assert_int_equal(sl_redis_url_parse(text, &url, &error), i == 0);
		snprintf(text, sizeof text, "redis://%0*d:1", 297 + i, 1);
		assert_int_equal(sl_redis_url_parse(text, &url, &error), i == 0);
		snprintf(text, sizeof text, "unix:///%0*d", 293 + i, 1);
		assert_int_equal(sl_redis_url_parse(text, &url, &error), i == 0);
	}
}

static struct sluice_bytes key_of(char text[32], unsigned i) {
	return sl_slice(text, (size_t)snprintf(text, 32, "key %u", i));
}

/* Each key once, in the order in which they came, through every size of the table. */
static void test_keys(void **state) {
	enum { COUNT = 20000 };
	struct sl_replay_keys keys;
	struct sluice_bytes key;
	char text[32];
	size_t at = 0;
	(void)state;
	assert_true(sl_replay_keys_open(&keys, 64 << 20));
	assert_false(sl_replay_keys_next(&keys, &at, &key));
	assert_true(sl_replay_keys_add(&keys, sl_str("")));
	for (unsigned i = 0; i < COUNT; i++)
		assert_true(sl_replay_keys_add(&keys, key_of(text, i)) && sl_replay_keys_add(&keys, key_of(text, i / 2)));
	assert_true(sl_replay_keys_add(&keys, sl_str("")));
	assert_int_equal(keys.count, COUNT + 1);
	assert_true(sl_replay_keys_next(&keys, &at, &key) && key.len == 0);
	for (unsigned i = 0; i < COUNT; i++) {
		assert_true(sl_replay_keys_next(&keys, &at, &key));
		assert_true(sl_bytes_equal(key, key_of(text, i)));
	}
	assert_false(sl_replay_keys_next(&keys, &at, &key));
	sl_replay_keys_close(&keys);
}

/* A set that may take no more says so, and keeps what it has. */
static void test_no_more_keys(void **state) {
	static char longest[100 * 1024];
	struct sl_replay_keys keys;
	struct sluice_bytes key;
	char text[32];
	unsigned count = 0;
	(void)state;
	assert_true(sl_replay_keys_open(&keys, 128 * 1024));
	assert_false(sl_replay_keys_add(&keys, sl_slice(longest, sizeof longest)));
	while (count < 100000 && sl_replay_keys_add(&keys, key_of(text, count)))
		count++;
	assert_in_range(count, 1000, 99999);
	assert_true(keys.slot_count * 8 + keys.text_room <= 128 * 1024);
	assert_true(sl_replay_keys_add(&keys, key_of(text, 0))); /* is there */
	size_t at = 0, found = 0;
	while (sl_replay_keys_next(&keys, &at, &key))
		assert_true(sl_bytes_equal(key, key_of(text, (unsigned)found++)));
	assert_int_equal(found, count);
	sl_replay_keys_close(&keys);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_urls_refused),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_no_more_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
