/* The gRPC door as HTTP/2 and gRPC have it: what is refused and how, bytes cut anywhere, floods, windows that stay
 * shut, what it says when it has to leave, health, and who may ask. What it decides is in door_grpc_limits_test.c. */
#include "tests/unit/door_grpc.h"

#include "tests/unit/users.h"

static const char policy_text[] = "limits:\n  - {name: per-ip, key: ip, limit: fixed-window 3/1m}\n";

static int setup(void **state) {
	(void)state;
	return setup_with(policy_text);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* One request by its headers and the bytes of its body. */
struct row {
	const char *method, *path, *type, *name, *value, *body;
	size_t body_len;
	const char *status, *code, *message;
};

static void ask_row(const struct row *row) {
	nghttp2_nv head[8] = {NV_OF(":method", row->method), NV_OF(":scheme", "http"), NV_OF(":path", row->path),
	                      NV_OF(":authority", "x")};
	nghttp2_data_provider provider = {.read_callback = peer_on_read};
	size_t count = 4;
	if (row->type != NULL)
		head[count++] = (nghttp2_nv)NV_OF("content-type", row->type);
	if (row->name != NULL)
		head[count++] = (nghttp2_nv)NV_OF(row->name, row->value);
	int32_t id = nghttp2_submit_request(peer.http2, NULL, head, count, &provider, NULL);
	struct answer *answer = &peer.answers[peer.answer_count++];
	*answer =
		(struct answer){.id = id, .data = malloc(row->body_len + 1), .data_len = row->body_len, .data_ends = true};
	memcpy(answer->data, row->body, row->body_len);
	pump();
	if (strcmp(answer->status, row->status) != 0 || strcmp(answer->code, row->code) != 0 ||
	    strcmp(answer->message, row->message) != 0)
		fail_msg("%s %s: got %s, %s, %s", row->path, row->message, answer->status, answer->code, answer->message);
	assert_true(answer->closed);
	assert_int_equal(answer->body_len, 0);
}

#define GRPC "application/grpc"
#define BODY(text) text, sizeof(text) - 1

static void test_refusals(void **state) {
	static const struct row rows[] = {
		{"POST", RLS_PATH, NULL, NULL, NULL, BODY(""), "415", "3", "invalid gRPC request content-type"},
		{"POST", RLS_PATH, "application/json", NULL, NULL, BODY("{}"), "415", "3", "invalid gRPC request content-type"},
		{"POST", "/", "application/grpc-web", NULL, NULL, BODY(""), "415", "3", "invalid gRPC request content-type"},
		{"POST", RLS_PATH, GRPC, "grpc-timeout", "1s", BODY(""), "400", "13", "malformed grpc-timeout"},
		{"GET", RLS_PATH, GRPC, NULL, NULL, BODY(""), "405", "13",
	     "Received a HEADERS frame with a :method which should be POST"},
		{"OPTIONS", "*", GRPC, NULL, NULL, BODY(""), "405", "13",
	     "Received a HEADERS frame with a :method which should be POST"},
		{"POST", "/a.B/C", GRPC, NULL, NULL, BODY(""), "200", "12", "unknown service /a.B/C"},
		{"POST", "/envoy.service.ratelimit.v3.RateLimitService/Other", GRPC, NULL, NULL, BODY(""), "200", "12",
	     "unknown method /envoy.service.ratelimit.v3.RateLimitService/Other"},
		{"POST", "/grpc.health.v1.Health/List", GRPC, NULL, NULL, BODY(""), "200", "12",
	     "unknown method /grpc.health.v1.Health/List"},
		{"POST", "/x", GRPC, NULL, NULL, BODY(""), "200", "12", "malformed method name: \"/x\""},
		{"POST", "/x\xc3\xa9%/y", GRPC, NULL, NULL, BODY(""), "200", "12", "unknown service /x\\xc3\\xa9%25/y"},
		{"POST", RLS_PATH, GRPC, "grpc-encoding", "gzip", BODY(""), "200", "12",
	     "grpc: Decompressor is not installed for grpc-encoding \"gzip\""},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY(""), "200", "13",
	     "cardinality violation: received no request message from non-client-streaming RPC"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\0\0"), "200", "13", "unexpected EOF"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\0\0\0\0\5abc"), "200", "13", "unexpected EOF"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\0\0\0\0\0\0\0\0\0\0"), "200", "13",
	     "cardinality violation: received multiple request messages for non-client-streaming RPC"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\1\0\0\0\1a"), "200", "13",
	     "grpc: compressed flag set with identity or empty encoding"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\7\0\0\0\1a"), "200", "13",
	     "grpc: received unexpected payload format"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\0\0\x40\0\1"), "200", "8",
	     "grpc: received message larger than max (4194305 vs. 4194304)"},
		{"POST", RLS_PATH, GRPC, NULL, NULL, BODY("\0\0\0\0\1\xff"), "200", "13",
	     "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data"},
		{"POST", "/grpc.health.v1.Health/Check", GRPC, NULL, NULL, BODY("\0\0\0\0\3\x0a\1x"), "200", "5",
	     "unknown service"},
	};
	(void)state;
	for (piece = 0; piece < 2; piece++)
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			ask_row(&rows[i]);
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r2 t60"); /* the connection has lived on */
}

/* What is taken of headers that are fine. */
static void test_headers(void **state) {
	static const char *const types[] = {"application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"};
	const nghttp2_nv more[] = {NV_OF("grpc-timeout", "20m"), NV_OF("grpc-encoding", "identity"),
	                           NV_OF("x-request-id", "7"), NV_OF("grpc-accept-encoding", "identity,gzip")};
	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		static const char body[] = "\0\0\0\0\0";
		const struct row row = {"POST", RLS_PATH, types[i], "te", "trailers",
		                        body,   5,        "200",    "2",  "rate limit domain must not be empty"};
		ask_row(&row);
	}
	int32_t id = submit(RLS_PATH, more, 4, "\0\0\0\0\5\x0a\1x\x12\0", 10, true);
	pump();
	assert_string_equal(shown(id, false), "OK | ok");
}

/* The answers depend on the bytes, not on how they were cut. */
static void test_every_cut(void **state) {
	static uint8_t bytes[16 * 1024];
	size_t len = 0;
	struct sl_buffer whole = {0};
	const uint8_t *data;
	ssize_t more;
	(void)state;
	for (int i = 0; i < 5; i++)
		submit_request(i % 2 == 0 ? "x ip=1.1.1.1" : "x ip=2.2.2.2,path=/ a=b!");
	submit("/nope/x", NULL, 0, "", 0, true);
	submit_message("/grpc.health.v1.Health/Check", sl_slice(NULL, 0));
	while ((more = nghttp2_session_mem_send(peer.http2, &data)) > 0) {
		memcpy(bytes + len, data, (size_t)more);
		len += (size_t)more;
	}
	for (size_t cut = 0; cut <= 3; cut++) {
		size_t used, step = cut == 0 ? len : 2 * cut - 1;
		struct sl_grpc_session *one = sl_door_grpc.open(&context);
		struct sl_buffer said = {0};
		for (size_t at = 0; at < len; at += step) {
			size_t now = len - at < step ? len - at : step;
			char *copy = malloc(now);
			memcpy(copy, bytes + at, now);
			assert_int_equal(sl_door_grpc.feed(one, &context, copy, now, &used, &said), SL_DOOR_OPEN);
			free(copy);
		}
		sl_door_grpc.close(one);
		if (cut == 0) {
			whole = said;
		} else {
			assert_true(said.len > 300); /* orders differ by cuts: windows and settings are said between */
			sl_buffer_free(&said);
		}
		sluice_store_close(context.store);
		assert_int_equal(
			sluice_store_open(&context.store, &(struct sluice_store_options){.memory_bytes = 4 << 20}, NULL),
			SLUICE_OK);
	}
	sl_buffer_free(&whole);
	for (piece = 0; piece < 8; piece++) { /* the same requests, asked and answered */
		reconnect();
		expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r2 t60");
		int32_t first = submit_request("x ip=1.1.1.1"), second = submit_request("x ip=1.1.1.1 a=b");
		pump();
		assert_string_equal(shown(first, false), "OK | ok per-ip 3/m r1 t60");
		assert_string_equal(shown(second, false), "OK | ok per-ip 3/m r0 t60 | ok");
		context.now += 60000000000ull;
	}
}

/* A message in many DATA frames, of any length up to the most. */
static void test_long_messages(void **state) {
	enum { LONG = SL_GRPC_MESSAGE_MAX };
	uint8_t *body = calloc(1, LONG + 5);
	struct sl_pb_writer writer;
	(void)state;
	/* domain, a descriptor ip=1.1.1.1, and an unknown field that fills it up to the last byte */
	for (size_t size = LONG - 1; size <= LONG; size++) {
		struct sluice_bytes request = message_of("x ip=1.1.1.1");
		memset(body, 0, LONG + 5);
		sl_grpc_prefix(body, (uint32_t)size);
		size_t fill = size - request.len - 6;
		writer = sl_pb_write(body + 5, size);
		char *filler = calloc(1, fill);
		sl_pb_put_bytes(&writer, 99, sl_slice(filler, fill));
		free(filler);
		assert_true(writer.at >= body + 5 + request.len);
		memcpy(body + 5, request.data, request.len);
		assert_ptr_equal(writer.at, body + 5 + request.len);
		int32_t id = submit(RLS_PATH, NULL, 0, body, 5 + size, true);
		pump();
		assert_string_equal(shown(id, false), size < LONG ? "OK | ok per-ip 3/m r2 t60" : "OK | ok per-ip 3/m r1 t60");
		assert_int_equal(door->held_bytes, 0);
	}
	free(body);
}

/* ---- floods ------------------------------------------------------------------------------------------------------ */

/* A frame, written by hand. */
static size_t frame_to(uint8_t *to, uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t len) {
	const uint8_t head[9] = {
		(uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           type,           flags,
		(uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
	memcpy(to, head, 9);
	if (len != 0)
		memcpy(to + 9, data, len);
	return 9 + len;
}

/* Sends one frame so often, or until the door closes. Returns how often. */
static uint32_t flood(uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t len, uint32_t most) {
	uint8_t bytes[64];
	uint32_t count = 0;
	size_t size = frame_to(bytes, type, flags, stream, data, len);
	for (; count < most && door != NULL; count++)
		feed(bytes, size);
	return count;
}

static void test_frames_that_bring_nothing_on(void **state) {
	static const struct {
		uint8_t type;
		size_t len;
	} kinds[] = {{NGHTTP2_PING, 8}, {NGHTTP2_SETTINGS, 0}, {NGHTTP2_PRIORITY, 5}, {NGHTTP2_WINDOW_UPDATE, 4}, {99, 4}};
	static const uint8_t data[8] = {0, 0, 0, 1, 0, 0, 0, 0};
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		uint32_t stream = kinds[i].type == NGHTTP2_PRIORITY ? 3 : 0;
		reconnect();
		pump();
		uint32_t count = flood(kinds[i].type, 0, stream, data, kinds[i].len, 100000);
		if (kinds[i].type == 99) { /* of types that nobody knows nghttp2 tells nothing, and answers nothing */
			assert_non_null(door);
			continue;
		}
		assert_true(count > SL_GRPC_ASIDE_MAX / 2 && count <= SL_GRPC_ASIDE_MAX + 1);
		assert_null(door);
		if (kinds[i].type != NGHTTP2_SETTINGS) /* whose answers have confused our peer */
			assert_int_equal(peer.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
	}
	/* beside requests, and over time, they may come for ever */
	reconnect();
	pump();
	for (int i = 0; i < 1000 && door != NULL; i++) {
		flood(NGHTTP2_PING, 0, 0, data, 8, SL_GRPC_ASIDE_PER_REQUEST);
		submit_request("x a=b");
		pump();
		forget_answers();
	}
	for (int i = 0; i < 50 && door != NULL; i++) {
		flood(NGHTTP2_PING, 0, 0, data, 8, SL_GRPC_ASIDE_PER_S);
		context.now += 1000000001;
	}
	assert_non_null(door);
}

/* CONTINUATION frames without end, in which nothing stands. */
static void test_continuations(void **state) {
	uint8_t bytes[64];
	(void)state;
	pump();
	feed(bytes, frame_to(bytes, NGHTTP2_HEADERS, 0, 1, "", 0));
	assert_true(flood(NGHTTP2_CONTINUATION, 0, 1, "", 0, 1000) < 100);
	assert_null(door);
}

/* A header list that is too long, in one piece and in pieces: the stream is reset, the connection goes on. */
static void test_long_headers(void **state) {
	static char value[SL_GRPC_HEADERS_MAX];
	(void)state;
	memset(value, 'a', sizeof value - 1);
	for (int half = 0; half < 2; half++) {
		value[half != 0 ? sizeof value / 2 : sizeof value - 100] = '\0';
		const nghttp2_nv more[] = {NV_OF("x-one", value), NV_OF("x-two", value)};
		int32_t id = submit(RLS_PATH, more, half != 0 ? 2 : 1, "", 0, true);
		pump();
		assert_int_equal(answer_of(id)->error, NGHTTP2_ENHANCE_YOUR_CALM);
	}
	value[1000] = '\0';
	const nghttp2_nv more[] = {NV_OF("x-one", value)};
	int32_t id = submit(RLS_PATH, more, 1, "\0\0\0\0\0", 5, true);
	pump();
	assert_string_equal(shown(id, false), "grpc 2: rate limit domain must not be empty");
}

/* Streams that are opened and given up at once. */
static void test_rapid_resets(void **state) {
	uint32_t count = 0;
	(void)state;
	pump();
	for (; count < 40000 && door != NULL; count++) {
		int32_t id = submit(RLS_PATH, NULL, 0, "", 0, false);
		pump();
		nghttp2_submit_rst_stream(peer.http2, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
		pump();
		forget_answers();
	}
	assert_null(door);
	assert_true(count > 1000 && count < 20000);
}

/* Whoever gives a request up before its turn has come is not charged for it; those beside it are answered in order. */
static void test_given_up_at_once(void **state) {
	static uint8_t bytes[4096];
	const uint8_t *data;
	size_t len = 0;
	(void)state;
	pump();
	int32_t first = submit_request("x ip=1.1.1.1"), gone = submit_request("x ip=1.1.1.1"),
			last = submit_request("x ip=1.1.1.1");
	for (ssize_t more; (more = nghttp2_session_mem_send(peer.http2, &data)) > 0; len += (size_t)more)
		memcpy(bytes + len, data, (size_t)more);
	const uint8_t reset[] = {0, 0, 4, NGHTTP2_RST_STREAM, 0, 0, 0, 0, (uint8_t)gone, 0, 0, 0, NGHTTP2_CANCEL};
	memcpy(bytes + len, reset, sizeof reset);
	feed(bytes, len + sizeof reset);
	pump();
	assert_string_equal(shown(first, false), "OK | ok per-ip 3/m r2 t60");
	assert_string_equal(shown(last, false), "OK | ok per-ip 3/m r1 t60");
	assert_false(answer_of(gone)->closed);
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r0 t60");
}

/* More streams at a time than the peer was told. */
static void test_many_streams(void **state) {
	uint32_t refused = 0, open = 0;
	(void)state;
	static uint8_t bytes[32 * 1024];
	const uint8_t *data;
	size_t len = 0;
	for (int i = 0; i < SL_GRPC_STREAMS_MAX + 20; i++)
		submit(RLS_PATH, NULL, 0, "\0\0\0", 3, false);
	for (ssize_t more; (more = nghttp2_session_mem_send(peer.http2, &data)) > 0; len += (size_t)more)
		memcpy(bytes + len, data, (size_t)more); /* before it has seen our settings */
	feed(bytes, len);
	pump();
	for (uint32_t i = 0; i < peer.answer_count; i++) {
		refused += peer.answers[i].closed && peer.answers[i].error == NGHTTP2_REFUSED_STREAM;
		open += !peer.answers[i].closed;
	}
	assert_int_equal(open + refused, SL_GRPC_STREAMS_MAX + 20);
	assert_int_equal(refused, 20);
	assert_int_equal(door->unfinished, SL_GRPC_STREAMS_MAX);
	struct sl_door_standing standing = sl_door_grpc.standing(door);
	assert_true(standing.unfinished && !standing.unread && standing.held_bytes > 0);
}

/* Messages that are begun and not ended: the stream that finds no room is denied, those beside it go on. */
static void test_held_bytes(void **state) {
	enum { EACH = 1000 * 1000, STREAMS = 12 };
	uint8_t *body = calloc(1, EACH);
	int32_t ids[STREAMS];
	uint32_t denied = 0;
	(void)state;
	sl_grpc_prefix(body, 2 * EACH);
	for (int i = 0; i < STREAMS; i++) {
		ids[i] = submit(RLS_PATH, NULL, 0, body, EACH, false);
		pump();
	}
	for (int i = 0; i < STREAMS; i++) {
		const struct answer *answer = answer_of(ids[i]);
		denied += answer->body_len != 0 && strcmp(answer->code, "0") == 0;
	}
	assert_true(denied > 0 && denied < STREAMS);
	assert_true(door->held_bytes <= SL_GRPC_HELD_MAX + SL_GRPC_STREAMS_MAX * sizeof(struct sl_grpc_stream));
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r2 t60");
	free(body);
}

/* A peer whose window stays shut: the answer waits, and so does the connection, until it opens. */
static void test_shut_window(void **state) {
	const nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
	const nghttp2_settings_entry some = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10};
	(void)state;
	nghttp2_submit_settings(peer.http2, NGHTTP2_FLAG_NONE, &none, 1);
	pump();
	int32_t id = submit_request("x ip=1.1.1.1");
	pump();
	assert_string_equal(shown(id, false), "open");
	struct sl_door_standing standing = sl_door_grpc.standing(door);
	assert_true(standing.unread && !standing.unfinished);
	nghttp2_submit_settings(peer.http2, NGHTTP2_FLAG_NONE, &some, 1);
	pump();
	assert_string_equal(shown(id, false), "OK | ok per-ip 3/m r2 t60");
	standing = sl_door_grpc.standing(door);
	assert_true(!standing.unread && !standing.unfinished && standing.held_bytes == 0);
}

/* Bytes that are no HTTP/2, and a greeting that does not end. */
static void test_no_http2(void **state) {
	(void)state;
	assert_true(sl_door_grpc.standing(door).unfinished); /* nothing has come yet */
	feed("PRI * HTTP/2.0\r\n\r\nSM", 20);
	assert_true(sl_door_grpc.standing(door).unfinished);
	feed("GET / HTTP/1.1\r\n", 16);
	assert_null(door);
	reconnect();
	peer.http2 = peer.http2;
	feed("*1\r\n$4\r\nPING\r\n", 14);
	assert_null(door);
}

/* ---- leaving, and health ----------------------------------------------------------------------------------------- */

static uint8_t health_of(int32_t id, uint32_t number) {
	const struct answer *answer = answer_of(id);
	assert_true(answer->body_len >= (number + 1) * 7);
	return answer->body[number * 7 + 6];
}

static void test_health(void **state) {
	static const char ratelimit[] = "\x0a\x09ratelimit", other[] = "\x0a\x05other";
	(void)state;
	int32_t check = submit_message("/grpc.health.v1.Health/Check", sl_slice(NULL, 0));
	int32_t named = submit_message("/grpc.health.v1.Health/Check", sl_slice(ratelimit, 11));
	int32_t watch = submit_message("/grpc.health.v1.Health/Watch", sl_slice(NULL, 0));
	int32_t unknown = submit_message("/grpc.health.v1.Health/Watch", sl_slice(other, 7));
	pump();
	assert_int_equal(health_of(check, 0), 1);
	assert_int_equal(health_of(named, 0), 1);
	assert_int_equal(health_of(watch, 0), 1);
	assert_int_equal(health_of(unknown, 0), 3);
	assert_false(answer_of(watch)->closed);
	assert_false(sl_door_grpc.standing(door).unfinished || sl_door_grpc.standing(door).unread); /* it may idle */
	context.draining = true;
	pump();
	assert_int_equal(health_of(watch, 1), 2);
	assert_int_equal(answer_of(watch)->body_len, 14);
	assert_int_equal(answer_of(unknown)->body_len, 7);
	check = submit_message("/grpc.health.v1.Health/Check", sl_slice(NULL, 0));
	pump();
	assert_int_equal(health_of(check, 0), 2);
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r2 t60"); /* it serves on */
}

/* GOAWAY in two steps: what was sent before the second is answered, watchers are let go, then it closes. */
static void test_leaving(void **state) {
	(void)state;
	int32_t watch = submit_message("/grpc.health.v1.Health/Watch", sl_slice(NULL, 0));
	int32_t slow = submit(RLS_PATH, NULL, 0, "\0\0\0\0\5\x0a", 6, false);
	pump();
	context.leaving = true;
	feed(NULL, 0);
	assert_true(peer.goaway);
	assert_int_equal(peer.goaway_last, INT32_MAX);
	assert_int_equal(peer.goaways, 1);
	pump(); /* the other end answers the PING */
	assert_int_equal(peer.goaways, 2);
	assert_int_equal(peer.goaway_last, slow);
	assert_int_equal(peer.goaway_error, NGHTTP2_NO_ERROR);
	assert_true(answer_of(watch)->closed);
	assert_string_equal(answer_of(watch)->code, "14");
	assert_non_null(door); /* one request is open still */
	struct answer *answer = answer_of(slow);
	answer->data = realloc(answer->data, 16);
	memcpy(answer->data + 6, "\1x\x12\0", 4);
	answer->data_len = 10;
	answer->data_ends = true;
	nghttp2_session_resume_data(peer.http2, slow);
	pump();
	assert_string_equal(shown(slow, false), "OK | ok");
	assert_null(door);
}

/* With nothing open it closes when its PING is answered; before any greeting at once. */
static void test_leaving_idle(void **state) {
	(void)state;
	expect("x ip=1.1.1.1", "OK | ok per-ip 3/m r2 t60");
	context.leaving = true;
	feed(NULL, 0);
	assert_non_null(door);
	pump();
	assert_null(door);
	context.leaving = false;
	reconnect();
	context.leaving = true;
	feed(NULL, 0);
	assert_null(door);
}

/* ---- who may ask ------------------------------------------------------------------------------------------------- */

static struct sl_shared shared;

static void expect_login(const char *value, const char *again, const char *expected) {
	nghttp2_nv more[2] = {NV_OF("authorization", value != NULL ? value : ""),
	                      NV_OF("authorization", again != NULL ? again : "")};
	struct sluice_bytes message = message_of("x ip=1.1.1.1");
	uint8_t body[256];
	sl_grpc_prefix(body, (uint32_t)message.len);
	memcpy(body + 5, message.data, message.len);
	int32_t id = submit(RLS_PATH, more, (size_t)(value != NULL) + (again != NULL), body, 5 + message.len, true);
	pump();
	if (strncmp(shown(id, false), expected, strlen(expected)) != 0)
		fail_msg("%s: want %s, got %s", value, expected, shown(id, false));
}

static void test_users(void **state) {
	static char long_token[SL_GRPC_AUTHORIZATION_MAX + 2];
	(void)state;
	sluice_policy_free((struct sluice_policy *)context.policy);
	context.policy = users_load(users_policy(policy_text, ""));
	shared.access = sl_access_new();
	context.shared = &shared;
	context.peer.text = "192.0.2.1:4321";
	expect_login(NULL, NULL, "grpc 16: this requires the role check: log in");
	expect_login("Bearer token-robot", NULL, "OK | ok per-ip 3/m r2");
	expect_login("bearer  token-robot", NULL, "OK | ok per-ip 3/m r1");
	expect_login("Basic Y2hlY2tlcjpwdy1jaGVja2Vy", NULL, "OK | ok per-ip 3/m r0"); /* checker:pw-checker */
	expect_login("Basic cmVhZGVyOnB3LXJlYWRlcg==", NULL, "grpc 7: ");              /* reader:pw-reader */
	expect_login("Bearer wrong", NULL, "grpc 16: authorization: no user has this name and secret");
	expect_login("Digest x", NULL, "grpc 16: authorization: expected");
	expect_login("", NULL, "grpc 16: authorization: expected");
	expect_login("Bearer token-robot", "Bearer token-robot", "grpc 16: authorization is given more than once");
	memset(long_token, 'a', SL_GRPC_AUTHORIZATION_MAX + 1);
	expect_login(long_token, NULL, "grpc 16: authorization is given more than once, or too long");
	int32_t id = submit_message("/grpc.health.v1.Health/Check", sl_slice(NULL, 0)); /* open to all */
	pump();
	assert_int_equal(health_of(id, 0), 1);
	for (int i = 0; i < 200 && strncmp(answer_of(id)->code, "8", 2) != 0; i++) {
		const nghttp2_nv wrong = NV_OF("authorization", "Basic Y2hlY2tlcjp3cm9uZw=="); /* checker:wrong */
		id = submit(RLS_PATH, &wrong, 1, "", 0, true);
		pump();
	}
	assert_memory_equal(shown(id, false), "grpc 8: too many failed logins from this address", 48);
	sl_access_free(shared.access);
}

int main(void) {
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_refusals),
		TEST(test_headers),
		TEST(test_every_cut),
		TEST(test_long_messages),
		TEST(test_frames_that_bring_nothing_on),
		TEST(test_continuations),
		TEST(test_long_headers),
		TEST(test_rapid_resets),
		TEST(test_given_up_at_once),
		TEST(test_many_streams),
		TEST(test_held_bytes),
		TEST(test_shut_window),
		TEST(test_no_http2),
		TEST(test_health),
		TEST(test_leaving),
		TEST(test_leaving_idle),
		TEST(test_users),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
