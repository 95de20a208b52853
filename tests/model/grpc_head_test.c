/* What a head may be (hosts/server/grpc/head.c) against nghttp2, which would judge it if we did not: random heads, of
 * fields that are right and wrong, in any order, more than once, with bodies and trailers, are malformed to the one
 * where they are to the other. Heads come again on one connection, so that fields that were judged before are met.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "tests/model/dice.h"

#include "hosts/server/grpc/session.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { FIELDS_MAX = 14, HEADS = 24, STREAMS = 40 };

struct head {
	nghttp2_nv fields[FIELDS_MAX];
	size_t count;
	uint32_t body; /* bytes of it */
	bool trailers, trailers_wrong;
};

static const char *const right[][2] = {
	{":method", "POST"},       {":scheme", "http"},
	{":path", "/grpc.health.v1.Health/Check"}, {":authority", "a.example:81"},
	{"content-type", "application/grpc"},      {"te", "trailers"},
};
/* What may stand in place of one of them, each right by itself, and not with every other. */
static const char *const instead[][2] = {
	{":method", "OPTIONS"}, {":method", "GET"}, {":path", "*"}, {":path", "no/slash"}, {":path", "**"},
	{":scheme", "HTTPS"},   {":scheme", "foo"},
};
static const char *const any[][2] = {
	{":method", "GET"},          {":method", "CONNECT"},     {":method", "P O"},        {":method", ""},
	{":scheme", "https"},        {":scheme", "1x"},          {":path", "/no/such"},     {":path", "/a b"},
	{":path", ""},               {":authority", "b"},        {":authority", "b\x7f"},   {":authority", "a b"},
	{":status", "200"},          {":other", "x"},            {":", "x"},                {"host", "c.example"},
	{"host", ""},                {"host", "c d"},            {"te", "gzip"},            {"te", "Trailers"},
	{"te", ""},                  {"connection", "close"},    {"upgrade", "h2c"},        {"keep-alive", "1"},
	{"transfer-encoding", "x"},  {"proxy-connection", "x"},  {"content-length", "0"},   {"content-length", "5"},
	{"content-length", "-1"},    {"content-length", ""},     {"content-length", "5x"},  {"content-length", "007"},
	{"content-length", "99999999999999999999"},              {"x-a", "1"},              {"X-A", "1"},
	{"x-\x01", "1"},             {"", "1"},                  {"x b", "1"},              {"x-a", " 1"},
	{"x-a", "1\t"},              {"x-a", "a\nb"},            {"x-a", "caf\xc3\xa9"},    {"grpc-timeout", "1S"},
	{"grpc-timeout", "x"},       {"authorization", "Basic x"}, {"content-type", "text/plain"}, {"x-\xff", "1"},
	{":scheme", "HTTP+a-.1"},    {":authority", "u@[::1]:8"}, {":method", "\xc3"},      {":path", "*"},
};

static struct head heads[HEADS];
static struct sl_door_context context;
static bool malformed_here[2 * STREAMS + 2], malformed_there[2 * STREAMS + 2], answered_here[2 * STREAMS + 2];
static uint64_t malformed, whole;

/* ---- what is sent ------------------------------------------------------------------------------------------------ */

static nghttp2_nv field(const char *const text[2], struct dice *dice) {
	return (nghttp2_nv){(uint8_t *)(uintptr_t)text[0], (uint8_t *)(uintptr_t)text[1], strlen(text[0]), strlen(text[1]),
	                    dice_one_in(dice, 6) ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE};
}

static const char *const *one_instead(const char *const text[2], struct dice *dice) {
	const char *const *other = instead[dice_below(dice, sizeof instead / sizeof instead[0])];
	return strcmp(other[0], text[0]) == 0 ? other : text;
}

static void make_head(struct head *head, struct dice *dice) {
	const size_t rights = sizeof right / sizeof right[0], anys = sizeof any / sizeof any[0];
	*head = (struct head){.body = (uint32_t)(dice_one_in(dice, 3) ? dice_below(dice, 8) : 5),
	                      .trailers = dice_one_in(dice, 8),
	                      .trailers_wrong = dice_one_in(dice, 3)};
	for (size_t i = 0; i < rights; i++)
		if (!dice_one_in(dice, 12))
			head->fields[head->count++] = field(one_instead(right[i], dice), dice);
	for (uint64_t more = dice_below(dice, 4); more > 0; more--) {
		size_t at = dice_one_in(dice, 3) ? dice_below(dice, head->count + 1) : head->count;
		memmove(head->fields + at + 1, head->fields + at, (head->count - at) * sizeof head->fields[0]);
		head->fields[at] = field(any[dice_below(dice, anys)], dice);
		head->count++;
	}
}

static ssize_t on_read(nghttp2_session *http2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *data) {
	static const nghttp2_nv trailers[] = {{(uint8_t *)(uintptr_t) "x-t", (uint8_t *)(uintptr_t) "1", 3, 1, 0},
	                                      {(uint8_t *)(uintptr_t) ":path", (uint8_t *)(uintptr_t) "/", 5, 1, 0}};
	const struct head *head = source->ptr;
	(void)data;
	assert_true(room >= head->body);
	memset(to, 0, head->body);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (head->trailers) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		assert_int_equal(nghttp2_submit_trailer(http2, id, trailers, head->trailers_wrong ? 2 : 1), 0);
	}
	return (ssize_t)head->body;
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

static int on_close(nghttp2_session *http2, int32_t id, uint32_t error, void *data) {
	(void)http2;
	(void)data;
	malformed_here[id] = error == NGHTTP2_PROTOCOL_ERROR;
	return 0;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	(void)http2;
	(void)data;
	if (frame->hd.type == NGHTTP2_HEADERS)
		answered_here[frame->hd.stream_id] = true;
	return 0;
}

static int on_invalid(nghttp2_session *http2, const nghttp2_frame *frame, int error, void *data) {
	(void)http2;
	(void)error;
	(void)data;
	malformed_there[frame->hd.stream_id] = true;
	return 0;
}

/* A body that is not as long as was said is reset without a word before. */
static int on_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	(void)http2;
	(void)data;
	if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code == NGHTTP2_PROTOCOL_ERROR)
		malformed_there[frame->hd.stream_id] = true;
	return 0;
}

static nghttp2_session *new_session(bool client) {
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *http2;
	nghttp2_option *option;
	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	assert_int_equal(nghttp2_option_new(&option), 0);
	if (client) {
		nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
		nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
		nghttp2_option_set_no_http_messaging(option, 1);
		assert_int_equal(nghttp2_session_client_new2(&http2, callbacks, NULL, option), 0);
	} else {
		nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid);
		nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
		assert_int_equal(nghttp2_session_server_new2(&http2, callbacks, NULL, option), 0);
	}
	assert_int_equal(nghttp2_submit_settings(http2, NGHTTP2_FLAG_NONE, NULL, 0), 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return http2;
}

/* What the client says goes to both; what the door answers, to the client. A mistake in what comes after the answer is
 * none: the door has refused a request by its head, and the twin answers nothing. */
static void exchange(nghttp2_session *client, nghttp2_session *twin, void *door, int32_t id) {
	static struct sl_buffer out;
	const uint8_t *data, *ignored;
	ssize_t len;
	while ((len = nghttp2_session_mem_send(client, &data)) > 0) {
		size_t consumed;
		out.len = 0;
		assert_int_equal(nghttp2_session_mem_recv(twin, data, (size_t)len), len);
		while (nghttp2_session_mem_send(twin, &ignored) > 0)
			;
		malformed_there[id] = malformed_there[id] && !answered_here[id];
		assert_int_equal(sl_door_grpc.feed(door, &context, (const char *)data, (size_t)len, &consumed, &out),
		                 SL_DOOR_OPEN);
		assert_int_equal(nghttp2_session_mem_recv(client, (const uint8_t *)out.data, out.len), out.len);
	}
	sl_buffer_free(&out);
	out = (struct sl_buffer){0};
}

static void one_connection(uint64_t round, struct dice *dice) {
	nghttp2_session *client = new_session(true), *twin = new_session(false);
	void *door = sl_door_grpc.open(&context);
	assert_non_null(door);
	memset(malformed_here, 0, sizeof malformed_here);
	memset(malformed_there, 0, sizeof malformed_there);
	memset(answered_here, 0, sizeof answered_here);
	for (int i = 0; i < HEADS; i++)
		make_head(&heads[i], dice);
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct head *head = &heads[dice_below(dice, HEADS)];
		const nghttp2_data_provider provider = {.source.ptr = head, .read_callback = on_read};
		bool bare = head->body == 0 && !head->trailers;
		int32_t id = nghttp2_submit_request(client, NULL, head->fields, head->count, bare ? NULL : &provider, NULL);
		assert_true(id > 0 && id < 2 * STREAMS + 2);
		exchange(client, twin, door, id);
		malformed += malformed_there[id];
		whole += !malformed_there[id];
		if (malformed_here[id] == malformed_there[id])
			continue;
		for (size_t f = 0; f < head->count; f++)
			print_message("%s: '%s'\n", head->fields[f].name, head->fields[f].value);
		fail_msg("SLUICE_SEED=%" PRIu64 ", connection %" PRIu64
		         ", stream %d, body of %u, trailers %d: malformed %d, to nghttp2 %d",
		         dice_seed(), round, id, head->body, head->trailers, malformed_here[id], malformed_there[id]);
	}
	sl_door_grpc.close(door);
	nghttp2_session_del(client);
	nghttp2_session_del(twin);
}

static void heads_are_judged_alike(void **state) {
	uint64_t rounds = dice_ops(600);
	struct sluice_policy *policy = NULL;
	(void)state;
	assert_int_equal(sluice_policy_load(&policy, sl_str("limits: []\n"), NULL), SLUICE_OK);
	context.policy = policy;
	context.now = UINT64_C(1800000000000000000);
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		one_connection(round, &dice);
	}
	print_message("%" PRIu64 " malformed, %" PRIu64 " not\n", malformed, whole);
	assert_true(malformed > whole / 10 && whole > malformed / 10);
	sl_door_context_free(&context);
	sluice_policy_free(policy);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(heads_are_judged_alike)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
