/* What the tests of the gRPC door share: the door over a real store and a real policy, without a network, and at the
 * other end nghttp2's own client. Bytes go to and fro at an instant of ours. */
#ifndef SL_TESTS_DOOR_GRPC_H
#define SL_TESTS_DOOR_GRPC_H

#include "hosts/server/door/pending.h"
#include "hosts/server/grpc/session.h"
#include "proto/rls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* 2026-01-01T00:00:00Z: a multiple of a minute and of a day, so that windows begin here. */
static const sluice_ns start_ns = 1767225600ull * 1000000000;

#define RLS_PATH "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

enum { ANSWERS_MAX = 1200, BODY_MAX = 32 * 1024 };

/* What has come of a stream. */
struct answer {
	int32_t id;
	char status[8], code[8], message[512];
	uint8_t *body;
	size_t body_len;
	bool closed;
	uint32_t error; /* of RST_STREAM */
	/* what is sent of it */
	uint8_t *data;
	size_t data_len, data_at;
	bool data_ends;
};

/* The other end. */
struct peer {
	nghttp2_session *http2;
	struct answer answers[ANSWERS_MAX];
	uint32_t answer_count;
	bool goaway;
	int32_t goaway_last;
	uint32_t goaway_error, goaways;
};

static struct sl_door_context context;
static struct sl_buffer out;
static struct sl_grpc_session *door; /* NULL: closed */
static struct peer peer;
static size_t piece; /* in which bytes are fed; 0: whole */
static enum sl_door_verdict verdict;

static inline struct sluice_policy *load(const char *yaml) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	sluice_err err = sluice_policy_load(&policy, sl_str(yaml), &problems);
	if (err != SLUICE_OK)
		fail_msg("policy: %s", problems.count > 0 ? problems.list[0].text : "?");
	sluice_problems_free(&problems);
	return policy;
}

/* ---- the other end ------------------------------------------------------------------------------------------*/

static inline struct answer *answer_of(int32_t id) {
	for (uint32_t i = 0; i < peer.answer_count; i++)
		if (peer.answers[i].id == id)
			return &peer.answers[i];
	fail_msg("no stream %d", id);
	return NULL;
}

static inline void keep_text(char *to, size_t room, const uint8_t *text, size_t len) {
	assert_true(len < room);
	memcpy(to, text, len);
	to[len] = '\0';
}

static int peer_on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                          const uint8_t *value, size_t len, uint8_t flags, void *data) {
	struct answer *answer = answer_of(frame->hd.stream_id);
	(void)http2;
	(void)flags;
	(void)data;
	if (name_len == 7 && memcmp(name, ":status", 7) == 0)
		keep_text(answer->status, sizeof answer->status, value, len);
	if (name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
		keep_text(answer->code, sizeof answer->code, value, len);
	if (name_len == 12 && memcmp(name, "grpc-message", 12) == 0)
		keep_text(answer->message, sizeof answer->message, value, len);
	return 0;
}

static int peer_on_data(nghttp2_session *http2, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
                        void *data) {
	struct answer *answer = answer_of(id);
	(void)http2;
	(void)flags;
	(void)data;
	answer->body = realloc(answer->body, answer->body_len + len + 1);
	memcpy(answer->body + answer->body_len, bytes, len);
	answer->body_len += len;
	return 0;
}

static int peer_on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *data) {
	(void)http2;
	(void)data;
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		peer.goaway = true;
		peer.goaways++;
		peer.goaway_last = frame->goaway.last_stream_id;
		peer.goaway_error = frame->goaway.error_code;
	}
	return 0;
}

static int peer_on_close(nghttp2_session *http2, int32_t id, uint32_t error, void *data) {
	struct answer *answer = answer_of(id);
	(void)http2;
	(void)data;
	answer->closed = true;
	answer->error = error;
	return 0;
}

static ssize_t peer_on_read(nghttp2_session *http2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                            nghttp2_data_source *source, void *data) {
	struct answer *answer = answer_of(id);
	size_t left = answer->data_len - answer->data_at, len = left < room ? left : room;
	(void)http2;
	(void)source;
	(void)data;
	if (len != 0)
		memcpy(to, answer->data + answer->data_at, len);
	answer->data_at += len;
	if (len == left && answer->data_ends)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (len == 0)
		return NGHTTP2_ERR_DEFERRED;
	return (ssize_t)len;
}

static inline void forget_answers(void) {
	for (uint32_t i = 0; i < peer.answer_count; i++) {
		free(peer.answers[i].body);
		free(peer.answers[i].data);
	}
	peer.answer_count = 0;
}

static inline void peer_open(void) {
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	assert_int_equal(nghttp2_option_new(&option), 0);
	nghttp2_option_set_peer_max_concurrent_streams(option, ANSWERS_MAX); /* until the settings come */
	nghttp2_option_set_no_http_messaging(option, 1);                     /* requests that are none can be sent */
	nghttp2_session_callbacks_set_on_header_callback(callbacks, peer_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, peer_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, peer_on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, peer_on_close);
	forget_answers();
	peer = (struct peer){.http2 = NULL};
	assert_int_equal(nghttp2_session_client_new2(&peer.http2, callbacks, NULL, option), 0);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static inline int setup_with(const char *yaml) {
	context = (struct sl_door_context){.now = start_ns, .connection_id = 1, .forms = SL_FORM_DRAFT10};
	context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	context.policy = load(yaml);
	if (sluice_store_open(&context.store, &(struct sluice_store_options){.memory_bytes = 4 << 20}, NULL) != SLUICE_OK)
		return -1;
	door = sl_door_grpc.open(&context);
	piece = 0;
	peer_open();
	return nghttp2_submit_settings(peer.http2, NGHTTP2_FLAG_NONE, NULL, 0);
}

static inline void reconnect(void) {
	if (door != NULL)
		sl_door_grpc.close(door);
	door = sl_door_grpc.open(&context);
	out.len = 0;
	nghttp2_session_del(peer.http2);
	peer_open();
	assert_int_equal(nghttp2_submit_settings(peer.http2, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

static inline int teardown(void **state) {
	(void)state;
	if (door != NULL)
		sl_door_grpc.close(door);
	nghttp2_session_del(peer.http2);
	peer.http2 = NULL;
	forget_answers();
	sl_door_context_free(&context);
	sl_buffer_free(&out);
	sluice_store_close(context.store);
	sluice_policy_free((struct sluice_policy *)context.policy);
	free(context.match_buffer);
	return 0;
}

/* Feeds bytes from memory of their exact size, all that the door says goes to the other end. */
static inline void feed(const void *data, size_t len) {
	size_t used;
	if (door == NULL)
		return;
	do {
		char *copy = malloc(len != 0 ? len : 1);
		if (len != 0)
			memcpy(copy, data, len);
		verdict = sl_door_grpc.feed(door, &context, copy, len, &used, &out);
		free(copy);
		assert_int_equal(used, len);
		assert_int_not_equal(verdict, SL_DOOR_WAIT);
		len = 0;
	} while (verdict == SL_DOOR_MORE);
	if (peer.http2 != NULL && out.len != 0)
		assert_int_equal(nghttp2_session_mem_recv(peer.http2, (const uint8_t *)out.data, out.len), out.len);
	out.len = 0;
	if (verdict == SL_DOOR_CLOSE) {
		sl_door_grpc.close(door);
		door = NULL;
	}
}

static inline void feed_pieces(const uint8_t *data, size_t len) {
	size_t each = piece == 0 ? len : piece;
	for (size_t at = 0; at < len; at += each)
		feed(data + at, len - at < each ? len - at : each);
}

/* Sends all that the other end has to say, until neither has any more. */
static inline void pump(void) {
	const uint8_t *data;
	ssize_t len;
	feed(NULL, 0);
	while ((len = nghttp2_session_mem_send(peer.http2, &data)) > 0)
		feed_pieces(data, (size_t)len);
	assert_int_equal(len, 0);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

#define NV_OF(name, value) \
	{ (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE }

/* Opens a stream with further headers; its body is data, and goes on where `ends` is false. Not sent before pump(). */
static inline int32_t submit(const char *path, const nghttp2_nv *more, size_t more_count, const void *data, size_t len,
                             bool ends) {
	nghttp2_nv head[16] = {NV_OF(":method", "POST"), NV_OF(":scheme", "http"),
	                       NV_OF(":path", path),     NV_OF(":authority", "x"),
	                       NV_OF("te", "trailers"),  NV_OF("content-type", "application/grpc")};
	nghttp2_data_provider provider = {.read_callback = peer_on_read};
	if (more_count != 0)
		memcpy(head + 6, more, more_count * sizeof *more);
	int32_t id = nghttp2_submit_request(peer.http2, NULL, head, 6 + more_count, &provider, NULL);
	assert_true(id > 0 && peer.answer_count < ANSWERS_MAX);
	struct answer *answer = &peer.answers[peer.answer_count++];
	*answer = (struct answer){.id = id, .data = malloc(len + 1), .data_len = len, .data_ends = ends};
	if (len != 0)
		memcpy(answer->data, data, len);
	return id;
}

/* The same of a message in its frame. */
static inline int32_t submit_message(const char *path, struct sluice_bytes message) {
	uint8_t *body = malloc(SL_GRPC_PREFIX_BYTES + message.len);
	sl_grpc_prefix(body, (uint32_t)message.len);
	if (message.len != 0)
		memcpy(body + SL_GRPC_PREFIX_BYTES, message.data, message.len);
	int32_t id = submit(path, NULL, 0, body, SL_GRPC_PREFIX_BYTES + message.len, true);
	free(body);
	return id;
}

/* A request as text: DOMAIN[!HITS] { ' ' DESCRIPTOR }; a descriptor is KEY=VALUE,KEY=VALUE with, at its end, +HITS (its
 * own), -HITS (given back) or @N/UNIT (a limit of its own). Static memory. */
static inline struct sluice_bytes message_of(const char *text) {
	static uint8_t memory[BODY_MAX];
	struct sl_pb_writer writer = sl_pb_write(memory, sizeof memory);
	char copy[BODY_MAX], *words[300] = {copy}, *save, *hits;
	size_t count = 0;
	snprintf(copy, sizeof copy, "%s", text);
	for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	if ((hits = strchr(words[0], '!')) != NULL) {
		*hits = '\0';
		sl_pb_put_u64(&writer, 3, strtoull(hits + 1, NULL, 10));
	}
	for (size_t i = count; i-- > 1;) {
		const uint8_t *end = sl_pb_message_end(&writer), *within;
		char *tail = strpbrk(words[i], "+-@"), *entries[64];
		size_t entry_count = 0;
		if (tail != NULL && *tail == '-')
			sl_pb_put_u64(&writer, 4, 1);
		within = sl_pb_message_end(&writer);
		if (tail != NULL && *tail == '@') {
			sl_pb_put_u64(&writer, 2, strtoull(strchr(tail, '/') + 1, NULL, 10));
			sl_pb_put_u64(&writer, 1, strtoull(tail + 1, NULL, 10));
			sl_pb_message_begin(&writer, 2, within);
		} else if (tail != NULL) {
			sl_pb_put_u64(&writer, 1, strtoull(tail + 1, NULL, 10));
			sl_pb_message_begin(&writer, 3, within);
		}
		if (tail != NULL)
			*tail = '\0';
		for (char *entry = strtok_r(words[i], ",", &save); entry != NULL; entry = strtok_r(NULL, ",", &save))
			entries[entry_count++] = entry;
		while (entry_count-- > 0) {
			char *value = strchr(entries[entry_count], '=');
			within = sl_pb_message_end(&writer);
			sl_pb_put_text(&writer, 2, sl_str(value + 1));
			sl_pb_put_text(&writer, 1, sl_slice(entries[entry_count], (size_t)(value - entries[entry_count])));
			sl_pb_message_begin(&writer, 1, within);
		}
		sl_pb_message_begin(&writer, 2, end);
	}
	sl_pb_put_text(&writer, 1, sl_str(words[0]));
	assert_false(writer.overflow);
	return sl_pb_written(&writer);
}

static inline int32_t submit_request(const char *text) {
	return submit_message(RLS_PATH, message_of(text));
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static inline void show_limit(struct sl_out *to, struct sluice_bytes message) {
	static const char *const units[] = {"?", "s", "m", "h", "d", "month", "year", "w"};
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	uint64_t requests = 0, unit = 0;
	struct sluice_bytes name = {"", 0};
	while (sl_pb_next(&reader, &field) > 0) {
		requests = field.number == 1 ? field.value : requests;
		unit = field.number == 2 ? field.value : unit;
		name = field.number == 3 ? field.bytes : name;
	}
	sl_out_char(to, ' ');
	sl_out_bytes(to, name.data, name.len);
	sl_out_char(to, ' ');
	sl_out_u64(to, requests);
	sl_out_char(to, '/');
	sl_out_str(to, units[unit]);
}

static inline void show_status(struct sl_out *to, struct sluice_bytes message) {
	struct sl_pb_reader reader = sl_pb_read(message), within;
	struct sl_pb_field field, seconds;
	uint64_t remaining = 0;
	bool limited = false;
	while (sl_pb_next(&reader, &field) > 0) {
		if (field.number == 1)
			sl_out_str(to, field.value == 1 ? "ok" : field.value == 2 ? "over" : "?");
		if (field.number == 2)
			show_limit(to, field.bytes);
		if (field.number == 3)
			remaining = field.value;
		if (field.number != 4)
			continue;
		within = sl_pb_read(field.bytes);
		seconds.value = 0;
		(void)sl_pb_next(&within, &seconds);
		sl_out_str(to, " r");
		sl_out_u64(to, remaining);
		sl_out_str(to, " t");
		sl_out_u64(to, seconds.value);
		limited = true;
	}
	if (!limited && remaining != 0) {
		sl_out_str(to, " r");
		sl_out_u64(to, remaining);
	}
}

static inline void show_header(struct sl_out *to, struct sluice_bytes message) {
	struct sl_pb_reader reader = sl_pb_read(message);
	struct sl_pb_field field;
	sl_out_str(to, " <");
	for (int i = 0; sl_pb_next(&reader, &field) > 0; i++) {
		sl_out_str(to, i > 0 ? ": " : "");
		sl_out_bytes(to, field.bytes.data, field.bytes.len);
	}
	sl_out_char(to, '>');
}

/* An answer as text: OVERALL | STATUS | STATUS .. and, where they are asked for, its headers and its body; or, of one
 * that has none, "grpc N: MESSAGE". Static memory. */
static inline const char *shown(int32_t id, bool with_headers) {
	static char text[BODY_MAX];
	const struct answer *answer = answer_of(id);
	struct sl_out to = sl_out_to(text, sizeof text - 1);
	struct sl_pb_reader reader;
	struct sl_pb_field field;
	struct sluice_bytes message;
	if (!answer->closed) {
		return "open";
	} else if (answer->body_len == 0) {
		snprintf(text, sizeof text, "grpc %s: %s", answer->code, answer->message);
		return text;
	}
	assert_string_equal(answer->status, "200");
	assert_string_equal(answer->code, "0");
	assert_int_equal(sl_grpc_unframe(sl_slice(answer->body, answer->body_len), &message), SL_GRPC_FRAME_WHOLE);
	reader = sl_pb_read(message);
	while (sl_pb_next(&reader, &field) > 0) {
		if (field.number == 1)
			sl_out_str(&to, field.value == 1 ? "OK" : field.value == 2 ? "OVER" : "?");
		if (field.number == 2) {
			sl_out_str(&to, " | ");
			show_status(&to, field.bytes);
		}
		if (with_headers && (field.number == 3 || field.number == 4)) {
			sl_out_str(&to, field.number == 3 ? "" : " up");
			show_header(&to, field.bytes);
		}
		if (with_headers && field.number == 5) {
			sl_out_str(&to, " body ");
			sl_out_bytes(&to, field.bytes.data, field.bytes.len);
		}
	}
	*to.at = '\0';
	return text;
}

/* Asks, and compares the answer. */
static inline void expect(const char *request, const char *expected) {
	int32_t id = submit_request(request);
	pump();
	if (strcmp(shown(id, false), expected) != 0)
		fail_msg("%.200s\n  want %s\n  got  %s", request, expected, shown(id, false));
}

static inline void expect_all(const char *request, const char *expected) {
	int32_t id = submit_request(request);
	pump();
	if (strcmp(shown(id, true), expected) != 0)
		fail_msg("%.200s\n  want %s\n  got  %s", request, expected, shown(id, true));
}

#endif
