/* Slots of keys as CLUSTER KEYSLOT of Redis 7.0.15 has them, places of nodes, and what CLUSTER SLOTS says. */
#include "hosts/server/cluster/slots.h"

#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct {
	const char *key;
	uint16_t slot;
} slots[] = {
	{"", 0},
	{"a", 15495},
	{"123456789", 12739},
	{"foo", 12182},
	{"foo{bar}", 5061},
	{"{bar}", 5061},
	{"foo{}{bar}", 8363},
	{"foo{{bar}}zap", 4015},
	{"foo{bar}{zap}", 5061},
	{"{}", 15257},
	{"{", 4092},
	{"}", 12090},
	{"}{", 12793},
	{"a}{b}", 3300},
	{"{user1000}.following", 3443},
	{"user1000", 3443},
	{"alice", 749},
	{"sluice:ip:2001:db8::1", 7425},
	{"{ }", 9314},
	{"key:0", 2592},
	{"key:99", 3360},
	{"ein etwas längerer Schlüssel", 14129},
};

static void test_slots_of_keys(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
		if (sl_slot_of(sl_str(slots[i].key)) != slots[i].slot)
			fail_msg("%s: %u, not %u", slots[i].key, sl_slot_of(sl_str(slots[i].key)), slots[i].slot);
	assert_int_equal(sl_slot_of(sl_slice("a\0{x}b", 6)), sl_slot_of(sl_str("x")));
}

static void test_places(void **state) {
	static const struct {
		const char *text, *host, *printed;
		uint16_t port;
	} good[] = {
		{"10.0.0.1:6379", "10.0.0.1", "10.0.0.1:6379", 6379},
		{"[::1]:6379", "::1", "[::1]:6379", 6379},
		{"::1:6379", "::1", "[::1]:6379", 6379}, /* as MOVED has it */
		{"2001:db8::7:1", "2001:db8::7", "[2001:db8::7]:1", 1},
		{"redis-0.redis.local:65535", "redis-0.redis.local", "redis-0.redis.local:65535", 65535},
		{"10.0.0.1:6379@16379", "10.0.0.1", "10.0.0.1:6379", 6379},
		{":6379", "", ":6379", 6379},
		{"unix:/run/redis.sock", "/run/redis.sock", "unix:/run/redis.sock", 0},
	};
	static const char *const bad[] = {"",         "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "a:b",
	                                  "a b:6379", "a\n:6379", "[::1:6379", "a:-1",       "unix:",          ":"};
	struct sl_node_place place;
	char text[SL_PLACE_TEXT_MAX], longest[400];
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(sl_node_place_read(sl_str(good[i].text), &place));
		assert_string_equal(place.host, good[i].host);
		assert_int_equal(place.port, good[i].port);
		sl_node_place_print(&place, text);
		assert_string_equal(text, good[i].printed);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (sl_node_place_read(sl_str(bad[i]), &place))
			fail_msg("'%s' was taken", bad[i]);
	const struct sl_node_place asked = {.host = "h", .port = 1}, local = {.host = "/run/redis.sock", .is_unix = true};
	assert_true(sl_node_place_read(sl_str(":6379"), &place));
	sl_node_place_complete(&place, &asked);
	assert_string_equal(place.host, "h");
	assert_int_equal(place.port, 6379);
	sl_node_place_complete(&place, &local); /* complete already */
	assert_string_equal(place.host, "h");
	assert_true(sl_node_place_read(sl_str(":6379"), &place));
	sl_node_place_complete(&place, &local);
	assert_string_equal(place.host, "127.0.0.1");
	assert_false(place.is_unix);
	memset(longest, 'a', sizeof longest);
	(void)snprintf(longest + 255, sizeof longest - 255, ":1");
	assert_true(sl_node_place_read(sl_str(longest), &place));
	sl_node_place_print(&place, text);
	assert_string_equal(text, longest);
	(void)snprintf(longest + 255, sizeof longest - 255, "a:1");
	assert_false(sl_node_place_read(sl_str(longest), &place));
	memcpy(longest, "unix:", 5);
	memcpy(longest + 5 + 108, "", 1); /* one more than sun_path holds */
	assert_false(sl_node_place_read(sl_str(longest), &place));
}

/* ---- CLUSTER SLOTS ----------------------------------------------------------------------------------------------- */

/* Reads a reply and writes the ranges as text: "0-5460 10.0.0.1:7000;". */
static void read_ranges(const char *reply, char *text, size_t room, struct sl_slots_reader *reader) {
	struct sl_reply parser = {.depth = 0};
	struct sl_reply_token token;
	size_t at = 0, len = 0;
	memset(reader, 0, sizeof *reader);
	text[0] = '\0';
	while (reply[at] != '\0') {
		const ptrdiff_t taken = sl_reply_next(&parser, reply + at, strlen(reply + at), &token);
		assert_true(taken > 0);
		at += (size_t)taken;
		if (!sl_slots_read(reader, &token))
			continue;
		char place[SL_PLACE_TEXT_MAX];
		sl_node_place_print(&reader->range.primary, place);
		len += (size_t)snprintf(text + len, room - len, "%u-%u %s;", reader->range.first, reader->range.last, place);
	}
}

#define HOST(host) "*4\r\n$9\r\n" host "\r\n:7000\r\n$2\r\nid\r\n*2\r\n$8\r\nhostname\r\n$1\r\nh\r\n"

static void test_ranges(void **state) {
	static const struct {
		const char *reply, *ranges;
		bool bad;
	} rows[] = {
		{"*0\r\n", "", false},
		{"*1\r\n*3\r\n:0\r\n:5460\r\n" HOST("127.0.0.1"), "0-5460 127.0.0.1:7000;", false},
		{"*1\r\n*4\r\n:7\r\n:7\r\n" HOST("127.0.0.1") HOST("127.0.0.9"), "7-7 127.0.0.1:7000;", false},
		{"*2\r\n*3\r\n:0\r\n:1\r\n" HOST("127.0.0.1") "*3\r\n:2\r\n:16383\r\n" HOST("127.0.0.2"),
	     "0-1 127.0.0.1:7000;2-16383 127.0.0.2:7000;", false},
		{"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$0\r\n\r\n:7000\r\n$2\r\nid\r\n", "0-1 :7000;", false},
		{"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$-1\r\n:7000\r\n$2\r\nid\r\n", "0-1 :7000;", false},
		{"*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\n?\r\n:7000\r\n$2\r\nid\r\n", "", false},
		/* out of range or of another shape: none, and the next one counts */
		{"*2\r\n*3\r\n:0\r\n:16384\r\n" HOST("127.0.0.1") "*3\r\n:2\r\n:2\r\n" HOST("127.0.0.2"), "2-2 127.0.0.2:7000;",
	     true},
		{"*1\r\n*3\r\n:-1\r\n:1\r\n" HOST("127.0.0.1"), "", true},
		{"*1\r\n*3\r\n:2\r\n:1\r\n" HOST("127.0.0.1"), "", true},
		{"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n", "", true},
		{"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n", "", true},
		{"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$3\r\na\nb\r\n:1\r\n", "", true},
		{"*1\r\n*3\r\n:0\r\n:1\r\n$1\r\na\r\n", "", true},
		{"*1\r\n*3\r\n*1\r\n:0\r\n:1\r\n" HOST("127.0.0.1"), "", true},
		{"*2\r\n:1\r\n*3\r\n:2\r\n:2\r\n" HOST("127.0.0.2"), "2-2 127.0.0.2:7000;", true},
	};
	struct sl_slots_reader reader;
	char text[512];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		read_ranges(rows[i].reply, text, sizeof text, &reader);
		assert_string_equal(text, rows[i].ranges);
		assert_int_equal(reader.bad, rows[i].bad);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots_of_keys),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
