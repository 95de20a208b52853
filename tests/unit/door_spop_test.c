/* The SPOP door without a socket: greetings, what each message gets, what harms nobody else, and the same answers
 * wherever the bytes are cut. A slow reader of ACKs in this file makes lines of them: "5/1 denied=0 remaining=2 ..". */
#include "hosts/server/door/door.h"
#include "tests/unit/spop_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_NS UINT64_C(1800000000000000000) /* a whole minute */

static const char policy_text[] =
	"retry-id: header idempotency-key\n"
	"limits:\n"
	"  - {name: per-user, key: user, when: {path: /api*}, limit: sliding-log 3/1m}\n"
	"  - {name: dear, key: user, when: {path: /dear}, limit: sliding-log 10/1m,\n"
	"     cost: header x-cost}\n"
	"  - {name: held, key: user, when: {path: /held}, limit: concurrency 2 lease 10s}\n"
	"  - {name: tokens, key: user, when: {path: /held}, limit: sliding-log 1k/1m,\n"
	"     reserve: {ttl: 10s, estimate: 100}}\n"
	"  - {name: tokens-of-two, key: user, when: {path: [/two, /one]}, limit: sliding-log 1k/1m,\n"
	"     reserve: {ttl: 10s, estimate: 100}}\n"
	"  - {name: words, key: user, when: {path: /two}, limit: sliding-log 1k/1m,\n"
	"     reserve: {ttl: 10s, estimate: 100, actual: header x-words}}\n"
	"  - {name: never, key: [], when: {path: /never}, limit: 0/1m}\n"
	"  - {name: tried, key: [user, path], when: {path: /tried*}, limit: concurrency 2 lease 10s, observe: true}\n"
	"  - {name: with-tried, key: user, when: {path: /tried*}, limit: sliding-log 3/1m}\n";

struct client {
	struct sl_door_context context;
	struct sl_buffer out;
	void *state;
	enum sl_door_verdict verdict;
	char lines[8192];
};

static void client_connect(struct client *client) {
	client->state = sl_door_spop.open(&client->context);
	client->verdict = SL_DOOR_OPEN;
	assert_non_null(client->state);
}

static void client_open(struct client *client) {
	struct sluice_policy *policy = NULL;
	struct sluice_store_options options = {.memory_bytes = 1024 * 1024};
	*client = (struct client){.context = {.now = NOW_NS}};
	assert_int_equal(sluice_policy_load(&policy, sl_str(policy_text), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&client->context.store, &options, NULL), SLUICE_OK);
	client->context.policy = policy;
	client->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	client_connect(client);
}

static void client_close(struct client *client) {
	sl_door_spop.close(client->state);
	sl_door_context_free(&client->context);
	sl_buffer_free(&client->out);
	free(client->context.match_buffer);
	sluice_store_close(client->context.store);
	sluice_policy_free((struct sluice_policy *)client->context.policy);
}

/* ---- a slow reader of what the agent says ----------------------------------------------------------------------- */

static void put_value(struct sl_out *out, struct sluice_bytes *payload) {
	struct sl_spop_value value;
	char memory[SL_SPOP_TEXT_MAX];
	assert_true(sl_spop_take_value(payload, &value));
	struct sluice_bytes text = sl_spop_text(&value, memory);
	sl_out_bytes(out, text.data, text.len);
}

static void put_actions(struct sl_out *out, struct sluice_bytes payload) {
	while (payload.len != 0) {
		struct sluice_bytes name;
		uint8_t head[3];
		for (int i = 0; i < 3; i++)
			assert_true(sl_spop_take_byte(&payload, &head[i]));
		assert_memory_equal(head, "\x01\x03\x02", 3);
		assert_true(sl_spop_take_text(&payload, &name));
		sl_out_char(out, ' ');
		sl_out_bytes(out, name.data, name.len);
		sl_out_char(out, '=');
		put_value(out, &payload);
	}
}

static void put_pairs(struct sl_out *out, struct sluice_bytes payload) {
	while (payload.len != 0) {
		struct sluice_bytes name;
		assert_true(sl_spop_take_text(&payload, &name));
		sl_out_char(out, ' ');
		sl_out_bytes(out, name.data, name.len);
		sl_out_char(out, '=');
		put_value(out, &payload);
	}
}

/* All frames that were sent, a line each. */
static const char *lines_of(struct client *client) {
	struct sl_out out = sl_out_to(client->lines, sizeof client->lines);
	size_t at = 0;
	while (at < client->out.len) {
		struct sl_spop_frame frame;
		ptrdiff_t taken = sl_spop_frame_read(&frame, client->out.data + at, client->out.len - at, SL_SPOP_FRAME_MAX);
		assert_true(taken > 0 && frame.flags == SL_SPOP_FIN);
		at += (size_t)taken;
		if (frame.type == SL_SPOP_ACK) {
			sl_out_u64(&out, frame.stream);
			sl_out_char(&out, '/');
			sl_out_u64(&out, frame.frame);
			put_actions(&out, frame.payload);
		} else {
			sl_out_str(&out, frame.type == SL_SPOP_AGENT_HELLO ? "hello" : "goodbye");
			put_pairs(&out, frame.payload);
		}
		sl_out_char(&out, '\n');
	}
	sl_out_char(&out, '\0');
	assert_false(out.overflow);
	return client->lines;
}

/* Sends bytes in pieces of `piece` (0: whole) and returns the lines of all that was answered to them. */
static const char *client_send(struct client *client, const char *bytes, size_t len, size_t piece) {
	size_t given = 0, kept = 0;
	client->out.len = 0;
	while (client->verdict != SL_DOOR_CLOSE && (given < len || client->verdict == SL_DOOR_MORE)) {
		size_t more = piece == 0 || len - given < piece ? len - given : piece, consumed = 0;
		given += client->verdict == SL_DOOR_MORE ? 0 : more;
		char *memory = malloc(given - kept + 1);
		memcpy(memory, bytes + kept, given - kept);
		client->verdict =
			sl_door_spop.feed(client->state, &client->context, memory, given - kept, &consumed, &client->out);
		free(memory);
		assert_true(consumed <= given - kept);
		kept += consumed;
	}
	return lines_of(client);
}

static void client_greet(struct client *client) {
	char bytes[256];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	spop_hello(&out, 16380, false);
	assert_string_equal(client_send(client, bytes, sl_out_len(&out), 0),
	                    "hello version=2.0 max-frame-size=16380 capabilities=pipelining\n");
	assert_int_equal(client->verdict, SL_DOOR_OPEN);
}

static const char *client_notify(struct client *client, const char *message, const char *const *pairs) {
	char bytes[4096];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	spop_notify(&out, 5, 1, message, pairs);
	assert_false(out.overflow);
	return client_send(client, bytes, sl_out_len(&out), 0);
}

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL, NULL})

/* ---- greetings -------------------------------------------------------------------------------------------------- */

static void greeting(const char *versions, bool size, uint32_t bytes_max, bool capabilities, const char *answer) {
	struct client client;
	char bytes[256];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	char *start = sl_spop_begin(&out, SL_SPOP_HAPROXY_HELLO, 0, 0);
	if (versions != NULL)
		sl_spop_put_pair_text(&out, "supported-versions", versions);
	if (size)
		sl_spop_put_pair_u32(&out, "max-frame-size", bytes_max);
	if (capabilities)
		sl_spop_put_pair_text(&out, "capabilities", "");
	sl_spop_end(&out, start);
	client_open(&client);
	const char *lines = client_send(&client, bytes, sl_out_len(&out), 0);
	assert_memory_equal(lines, answer, strlen(answer));
	assert_int_equal(client.verdict, answer[0] == 'h' ? SL_DOOR_OPEN : SL_DOOR_CLOSE);
	client_close(&client);
}

static void test_greetings(void **state) {
	(void)state;
	greeting("1.0, 2.0", true, 16380, true, "hello version=2.0 max-frame-size=16380");
	greeting("2.1", true, 1u << 20, true, "hello version=2.0 max-frame-size=65536");
	greeting("2.0", true, 1024, true, "hello version=2.0 max-frame-size=1024");
	greeting("2.0", true, 1023, true, "goodbye status-code=9");
	greeting("1.0, 3.2", true, 16380, true, "goodbye status-code=8");
	greeting("", true, 16380, true, "goodbye status-code=8");
	greeting(NULL, true, 16380, true, "goodbye status-code=5");
	greeting("2.0", false, 0, true, "goodbye status-code=6");
	greeting("2.0", true, 16380, false, "goodbye status-code=7");
}

/* A check of health is answered and closed; while the server drains it is told to ask another. */
static void test_health(void **state) {
	struct client client;
	char bytes[256];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	(void)state;
	spop_hello(&out, 16380, true);
	client_open(&client);
	assert_memory_equal(client_send(&client, bytes, sl_out_len(&out), 0), "hello", 5);
	assert_int_equal(client.verdict, SL_DOOR_CLOSE);
	sl_door_spop.close(client.state);
	client_connect(&client);
	client.context.draining = true;
	assert_string_equal(client_send(&client, bytes, sl_out_len(&out), 0),
	                    "goodbye status-code=0 message=the server is shutting down: ask another\n");
	client_close(&client);
}

/* ---- admissions ------------------------------------------------------------------------------------------------- */

static void test_admissions(void **state) {
	struct client client;
	const char *const *asked = PAIRS("path", "/api/x?y", "user", "ann");
	(void)state;
	client_open(&client);
	client_greet(&client);
	assert_string_equal(client_notify(&client, "admit", asked),
	                    "5/1 denied=false limit=per-user quota=3 remaining=2 reset_after_ms=60000\n");
	client_notify(&client, "admit", asked);
	client_notify(&client, "admit", asked);
	client.context.now += 1500000000;
	assert_string_equal(client_notify(&client, "admit", asked),
	                    "5/1 denied=true retry=59 retry_after_ms=58500 limit=per-user quota=3 remaining=0 "
	                    "reset_after_ms=58500\n");
	/* no limit applies; one that never admits has no time to come back at */
	assert_string_equal(client_notify(&client, "admit", PAIRS("path", "/free")), "5/1 denied=false\n");
	assert_string_equal(client_notify(&client, "admit", PAIRS("path", "/never")),
	                    "5/1 denied=true retry_after_ms=-1 limit=never quota=0 remaining=0 reset_after_ms=0\n");
	/* headers, where the listener's forms have any */
	client.context.forms = SL_FORM_DRAFT10;
	assert_string_equal(client_notify(&client, "admit", PAIRS("path", "/api", "user", "bob")),
	                    "5/1 denied=false limit=per-user quota=3 remaining=2 reset_after_ms=60000 "
	                    "ratelimit_policy=\"per-user\";q=3;w=60 ratelimit=\"per-user\";r=2;t=60\n");
	client_close(&client);
}

/* Costs and ids: the request's own words, and what the policy finds in headers. */
static void test_words(void **state) {
	struct client client;
	(void)state;
	client_open(&client);
	client_greet(&client);
#define DEAR "5/1 denied=false limit=dear quota=10 remaining="
	static const struct {
		const char *pairs[9];
		const char *answer;
	} rows[] = {
		{{"path", "/dear", "user", "a", "x-cost", "4"}, DEAR "6 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "a", "cost", "3"}, DEAR "3 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "a"}, DEAR "2 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "b", "id", "one"}, DEAR "9 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "b", "id", "one"}, DEAR "9 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "b", "idempotency-key", "one"}, DEAR "8 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "b", "idempotency-key", "one"}, DEAR "8 reset_after_ms=60000\n"},
		{{"path", "/dear?2", "user", "b", "idempotency-key", "one"}, DEAR "7 reset_after_ms=60000\n"},
		{{"path", "/dear", "user", "b", "cost", "4 or so"},
	     "5/1 refused=cost '4 or so': expected a whole number 0..4294967295\n"},
		{{"path", "/dear", "user", "b", "x-cost", "-1"},
	     "5/1 refused='x-cost' must be a whole number 0..4294967295, given once: what the request costs\n"},
		{{"path", "/dear", "user", "b", "user", "c"},
	     "5/1 refused=argument 'user' is given twice: expected each once\n"},
		{{"path", "/dear", "", "b"}, "5/1 refused=argument '': expected a name of 1 to 64 bytes\n"},
		{{"path", "/dear", "user", "b", "cost", "0"}, DEAR "7 reset_after_ms=60000\n"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_string_equal(client_notify(&client, "admit", rows[i].pairs), rows[i].answer);
	client_close(&client);
}

/* However it is spelt, what would be right is said. */
static void test_hostile_names(void **state) {
	struct client client;
	char name[200];
	(void)state;
	memset(name, '\xff', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	client_open(&client);
	client_greet(&client);
	const char *answer = client_notify(&client, "admit", PAIRS(name, "x"));
	assert_non_null(strstr(answer, "\\xff..."));
	assert_non_null(strstr(answer, ": expected a name of 1 to 64 bytes\n"));
	answer = client_notify(&client, name, PAIRS("a", "b"));
	assert_non_null(strstr(answer, ": expected one message, named admit or commit\n"));
	client_close(&client);
}

/* What HAProxy's configuration has wrong is said in the ACK, and the connection goes on. */
static void test_messages_that_are_none(void **state) {
	struct client client;
	(void)state;
	client_open(&client);
	client_greet(&client);
	assert_string_equal(client_notify(&client, "check-ip", PAIRS("ip", "192.0.2.1")),
	                    "5/1 error=message 'check-ip': expected one message, named admit or commit\n");
	assert_string_equal(client_notify(&client, "commit", PAIRS("ticket", "")),
	                    "5/1 refused='ticket' is missing: expected the one that admit answered\n");
	assert_string_equal(client_notify(&client, "commit", PAIRS("ticket", "0123456789abcdef.AQ")),
	                    "5/1 refused='ticket' is not a ticket: send it back exactly as admit answered it\n");
	client_close(&client);
}

/* ---- what is held ----------------------------------------------------------------------------------------------- */

static void test_held(void **state) {
	struct client client;
	char ticket[256], line[512];
	(void)state;
	client_open(&client);
	client_greet(&client);
	const char *answer = client_notify(&client, "admit", PAIRS("path", "/held", "user", "a"));
	const char *at = strstr(answer, " ticket=");
	assert_non_null(at);
	assert_int_equal(sscanf(at, " ticket=%255s", ticket), 1);
	/* no cost, or none that is one: nothing is changed */
	static const char refused[] = "5/1 refused='x-actual-cost': expected the request's true cost, a whole number "
	                              "0..4294967295; nothing was changed\n";
	assert_string_equal(client_notify(&client, "commit", PAIRS("ticket", ticket)), refused);
	assert_string_equal(client_notify(&client, "commit", PAIRS("ticket", ticket, "x-actual-cost", "x")), refused);
	/* the first that says something counts */
	const char *const *pairs = PAIRS("ticket", ticket, "x-actual-cost", "", "x-actual-cost", "7", "x-actual-cost", "8");
	assert_string_equal(client_notify(&client, "commit", pairs), "5/1 released=1 committed=1\n");
	assert_string_equal(client_notify(&client, "commit", pairs), "5/1 released=0 committed=0\n");
	answer = client_notify(&client, "admit", PAIRS("path", "/held", "user", "a", "id", "00000000000000aa"));
	snprintf(line, sizeof line, "5/1 denied=false limit=held quota=2 remaining=1 reset_after_ms=60000 ticket=");
	assert_memory_equal(answer, line, strlen(line));
	client_close(&client);
}

/* Each reservation is committed to the cost that its own header says. */
static void test_each_at_its_cost(void **state) {
	struct client client;
	char ticket[512];
	(void)state;
	client_open(&client);
	client_greet(&client);
	const char *at = strstr(client_notify(&client, "admit", PAIRS("path", "/two", "user", "a")), " ticket=");
	assert_true(at != NULL && sscanf(at, " ticket=%511s", ticket) == 1);
	assert_string_equal(
		client_notify(&client, "commit", PAIRS("ticket", ticket, "x-actual-cost", "30", "x-words", "500")),
		"5/1 released=0 committed=2\n");
	/* 1,000 less 30, less the 100 of another request; and of the words 1,000 less 500 */
	assert_non_null(
		strstr(client_notify(&client, "admit", PAIRS("path", "/two", "user", "a", "cost", "600")), "denied=true"));
	assert_non_null(strstr(client_notify(&client, "admit", PAIRS("path", "/two", "user", "a", "cost", "500")),
	                       "limit=words quota=1000 remaining=0 "));
	assert_non_null(strstr(client_notify(&client, "admit", PAIRS("path", "/one", "user", "a", "cost", "470")),
	                       "limit=tokens-of-two quota=1000 remaining=0 "));
	client_close(&client);
}

/* A ticket that would not fit into the frames that were agreed on is denied by the limits that would be held. */
static void test_a_ticket_that_can_not_be_told(void **state) {
	struct client client;
	char bytes[2048], user[701];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	(void)state;
	memset(user, 'u', sizeof user - 1);
	user[sizeof user - 1] = '\0';
	client_open(&client);
	spop_hello(&out, 1024, false);
	client_send(&client, bytes, sl_out_len(&out), 0);
	const char *answer = client_notify(&client, "admit", PAIRS("path", "/held", "user", user));
	static const char denied[] = "5/1 denied=true retry_after_ms=-1 limit=held";
	assert_memory_equal(answer, denied, sizeof denied - 1);
	assert_memory_equal(client_notify(&client, "admit", PAIRS("path", "/api", "user", user)), "5/1 denied=false", 16);
	client_close(&client);
}

/* What an observed limit holds is not told where there is no room for it; the request is decided all the same. */
static void test_an_observed_lease_that_can_not_be_told(void **state) {
	struct client client;
	char bytes[2048], path[707];
	struct sl_out out = sl_out_to(bytes, sizeof bytes);
	(void)state;
	memset(path, 'p', sizeof path - 1);
	memcpy(path, "/tried", 6);
	path[sizeof path - 1] = '\0';
	client_open(&client);
	spop_hello(&out, 1024, false);
	client_send(&client, bytes, sl_out_len(&out), 0);
	const char *answer = client_notify(&client, "admit", PAIRS("path", "/tried", "user", "a"));
	assert_non_null(strstr(answer, "limit=with-tried quota=3 remaining=2 "));
	assert_non_null(strstr(answer, " ticket="));
	answer = client_notify(&client, "admit", PAIRS("path", path, "user", "a"));
	assert_non_null(strstr(answer, "5/1 denied=false limit=with-tried quota=3 remaining=1 "));
	assert_null(strstr(answer, " ticket="));
	client_close(&client);
}

/* A retry's id is of all that a message says of the request: more than its frame has bytes, as addresses are short
 * there. */
static void test_a_retry_of_many_addresses(void **state) {
	enum { ADDRESSES = 250, LONG = 58000 };
	struct client client;
	char *bytes = malloc(SL_SPOP_FRAME_MAX + 64), *path = malloc(LONG);
	struct sl_out out = sl_out_to(bytes, SL_SPOP_FRAME_MAX + 64);
	(void)state;
	memset(path, 'p', LONG);
	client_open(&client);
	spop_hello(&out, SL_SPOP_FRAME_MAX, false);
	client_send(&client, bytes, sl_out_len(&out), 0);
	out.at = bytes;
	char *start = sl_spop_begin(&out, SL_SPOP_NOTIFY, 5, 1);
	sl_spop_put_text(&out, sl_str("admit"));
	sl_out_char(&out, (char)(ADDRESSES + 2));
	sl_spop_put_pair_text(&out, "idempotency-key", "one");
	sl_spop_put_text(&out, sl_str("path"));
	sl_out_char(&out, SL_SPOP_STRING);
	sl_spop_put_text(&out, sl_slice(path, LONG));
	for (int i = 0; i < ADDRESSES; i++) {
		sl_spop_put_text(&out, sl_str("path"));
		sl_out_char(&out, SL_SPOP_IPV6);
		sl_out_bytes(&out, "\x20\x01\x0d\xb8\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
	}
	sl_spop_end(&out, start);
	assert_false(out.overflow);
	assert_string_equal(client_send(&client, bytes, sl_out_len(&out), 0),
	                    "5/1 refused=argument 'path' is given twice: expected each once\n");
	client_close(&client);
	free(bytes);
	free(path);
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

static size_t write_conversation(char *bytes, size_t room) {
	struct sl_out out = sl_out_to(bytes, room);
	spop_hello(&out, 16380, false);
	for (uint64_t i = 0; i < 80; i++) {
		char user[] = {(char)('a' + i % 5), '\0'};
		spop_notify(&out, i, 1, i % 13 == 12 ? "nonsense" : "admit", PAIRS("path", "/api", "user", user));
		if (i % 17 == 16)
			spop_notify(&out, i, 2, "commit", PAIRS("ticket", "x"));
	}
	sl_spop_end(&out, sl_spop_begin(&out, (enum sl_spop_type)77, 0, 0)); /* of a later version */
	spop_notify(&out, 300, 1, "admit", PAIRS("path", "/free"));
	sl_spop_end(&out, sl_spop_begin(&out, SL_SPOP_HAPROXY_DISCONNECT, 0, 0));
	spop_notify(&out, 301, 1, "admit", PAIRS("path", "/free")); /* after it nothing is answered */
	assert_false(out.overflow);
	return sl_out_len(&out);
}

static void test_cut_anywhere(void **state) {
	struct client client;
	char bytes[16384], *whole;
	(void)state;
	size_t len = write_conversation(bytes, sizeof bytes);
	client_open(&client);
	whole = strdup(client_send(&client, bytes, len, 0));
	assert_int_equal(client.verdict, SL_DOOR_CLOSE);
	assert_non_null(strstr(whole, "300/1 denied=false\ngoodbye status-code=0 message=until next time\n"));
	assert_null(strstr(whole, "301/1"));
	client_close(&client);
	for (size_t piece = 1; piece < 300; piece += piece < 20 ? 1 : 37) {
		client_open(&client);
		assert_string_equal(client_send(&client, bytes, len, piece), whole);
		client_close(&client);
	}
	free(whole);
}

/* What is malformed ends the connection; what came before it is answered. */
static void test_malformed(void **state) {
	static const struct {
		const char *bytes;
		size_t len;
		const char *goodbye;
	} rows[] = {
		{"\0\0\x40\0", 4, "goodbye status-code=3 message=the frame is longer than was agreed on\n"},
		{"\0\0\0\x02\x03\0", 6, "goodbye status-code=4 message=the frame is malformed\n"},
		{"\0\0\0\x07\x03\0\0\0\0\x05\x01", 11,
	     "goodbye status-code=10 message=the payload is fragmented, which was not agreed on\n"},
		{"\0\0\0\x07\0\0\0\0\x01\x05\x01", 11,
	     "goodbye status-code=10 message=the payload is fragmented, which was not agreed on\n"},
		{"\0\0\0\x07\x03\0\0\0\x01\x05\x01", 11, "goodbye status-code=4 message=the frame is malformed\n"},
		{"\0\0\0\x0e\x03\0\0\0\x01\x05\x01\x05"
	     "admit\x02",
	     18, "goodbye status-code=4 message=the frame is malformed\n"},
		{"\0\0\0\x07\x01\0\0\0\x01\0\0", 11, "goodbye status-code=4 message=HELLO was sent before\n"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct client client;
		char bytes[512], expect[512];
		struct sl_out out = sl_out_to(bytes, sizeof bytes);
		client_open(&client);
		client_greet(&client);
		spop_notify(&out, 1, 1, "admit", PAIRS("path", "/free"));
		sl_out_bytes(&out, rows[i].bytes, rows[i].len);
		snprintf(expect, sizeof expect, "1/1 denied=false\n%s", rows[i].goodbye);
		assert_string_equal(client_send(&client, bytes, sl_out_len(&out), 0), expect);
		assert_int_equal(client.verdict, SL_DOOR_CLOSE);
		client_close(&client);
	}
}

static void test_hello_comes_first(void **state) {
	struct client client;
	(void)state;
	client_open(&client);
	assert_string_equal(client_notify(&client, "admit", PAIRS("path", "/free")),
	                    "goodbye status-code=4 message=HELLO comes first\n");
	client_close(&client);
}

/* Given to another process, a connection goes on where it was. */
static void test_handed_over(void **state) {
	struct client client;
	char packed[SL_DOOR_PACK_MAX];
	(void)state;
	client_open(&client);
	for (int greeted = 0; greeted < 2; greeted++) {
		size_t len = sl_door_spop.pack(client.state, packed);
		void *anew = sl_door_spop.unpack(&client.context, packed, len);
		assert_non_null(anew);
		sl_door_spop.close(client.state);
		client.state = anew;
		if (greeted == 0)
			client_greet(&client);
	}
	assert_string_equal(client_notify(&client, "admit", PAIRS("path", "/free")), "5/1 denied=false\n");
	assert_null(sl_door_spop.unpack(&client.context, packed, 3));
	memset(packed, 0xff, sizeof packed);
	assert_null(sl_door_spop.unpack(&client.context, packed, 5));
	client_close(&client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_greetings),
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_admissions),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_messages_that_are_none),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_each_at_its_cost),
		cmocka_unit_test(test_a_ticket_that_can_not_be_told),
		cmocka_unit_test(test_an_observed_lease_that_can_not_be_told),
		cmocka_unit_test(test_a_retry_of_many_addresses),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_hello_comes_first),
		cmocka_unit_test(test_handed_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
