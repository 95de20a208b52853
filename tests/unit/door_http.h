/* What the tests of the HTTP door share: the door over a real store and a real policy, without a network: bytes in,
 * bytes out, at an instant of ours. */
#ifndef SL_TESTS_DOOR_HTTP_H
#define SL_TESTS_DOOR_HTTP_H

#include "hosts/server/door/door.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* 2026-01-01T00:00:00Z: a multiple of a minute and of a day, so that windows begin here. */
static const sluice_ns start_ns = 1767225600ull * 1000000000;

static const char policy_text[] = "client-time: true\n"
								  "limits:\n"
								  "  - name: login\n"
								  "    when: {method: POST, path: /login}\n"
								  "    key: ip\n"
								  "    limit: sliding-log 5/1m\n"
								  "    on-error: deny\n"
								  "  - name: per-user\n"
								  "    key: user | ip\n"
								  "    limit: 600/1m\n"
								  "    overrides:\n"
								  "      - {when: {plan: pro}, limit: 6000/1m}\n"
								  "      - {when: {user: root}, limit: unlimited}\n"
								  "  - name: search\n"
								  "    when: {path: /search*}\n"
								  "    key: [user | ip, path]\n"
								  "    limit: token-bucket 10/1s burst 2\n"
								  "    observe: true\n";

/* ---- the door under test ------------------------------------------------------------------------------------- */

static struct sl_door_context context;
static struct sl_buffer out;
static void *connection;

static inline struct sluice_policy *load(const char *yaml) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	sluice_err err = sluice_policy_load(&policy, sl_str(yaml), &problems);
	if (err != SLUICE_OK)
		fail_msg("policy: %s", problems.count > 0 ? problems.list[0].text : "?");
	sluice_problems_free(&problems);
	return policy;
}

static inline int setup(void **state) {
	(void)state;
	context = (struct sl_door_context){.now = start_ns, .connection_id = 1, .forms = SL_FORM_DRAFT10};
	context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	context.policy = load(policy_text);
	if (sluice_store_open(&context.store, &(struct sluice_store_options){.memory_bytes = 4 << 20}, NULL) != SLUICE_OK)
		return -1;
	connection = sl_door_http.open(&context);
	return 0;
}

static inline int teardown(void **state) {
	(void)state;
	sl_door_http.close(connection);
	sl_door_context_free(&context);
	sl_buffer_free(&out);
	sluice_store_close(context.store);
	sluice_policy_free((struct sluice_policy *)context.policy);
	free(context.match_buffer);
	return 0;
}

static inline void use_policy(const char *yaml) {
	sluice_policy_free((struct sluice_policy *)context.policy);
	context.policy = load(yaml);
}

static inline void reconnect(void) {
	sl_door_http.close(connection);
	connection = sl_door_http.open(&context);
	out.len = 0;
}

/* Feeds bytes as a connection does, from memory of their exact size, until the door wants new ones. Returns how many
 * are done with. */
static inline size_t feed(const char *data, size_t len, enum sl_door_verdict *verdict) {
	char *copy = malloc(len == 0 ? 1 : len);
	size_t done = 0, used;
	memcpy(copy, data, len);
	do {
		*verdict = sl_door_http.feed(connection, &context, copy + done, len - done, &used, &out);
		assert_true(used <= len - done);
		done += used;
	} while (*verdict == SL_DOOR_MORE);
	free(copy);
	return done;
}

/* ---- reading answers ----------------------------------------------------------------------------------------- */

struct answer {
	unsigned status;
	char head[8192]; /* with a CR LF in front of every line */
	char *body;
	size_t body_bytes;
	json_t *json; /* NULL where the body is none */
};

static inline void answer_free(struct answer *answer) {
	free(answer->body);
	json_decref(answer->json);
}

/* The value of a header, up to its line's end, in static memory; NULL where it is absent. Twice is a failure. */
static inline const char *header(const struct answer *answer, const char *name) {
	static char value[8192];
	char needle[64];
	snprintf(needle, sizeof needle, "\r\n%s: ", name);
	const char *at = strstr(answer->head, needle);
	if (at == NULL)
		return NULL;
	at += strlen(needle);
	assert_null(strstr(at, needle));
	snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
	return value;
}

/* Takes one answer off `*at`. Strict: a length that is wrong by one makes the next answer unreadable. */
static inline struct answer read_answer(const char **at, const char *end, bool head_only) {
	struct answer answer = {0};
	const char *head_end = memmem(*at, (size_t)(end - *at), "\r\n\r\n", 4), *length;
	assert_non_null(head_end);
	assert_int_equal(sscanf(*at, "HTTP/1.1 %3u ", &answer.status), 1);
	assert_true((size_t)(head_end - *at) < sizeof answer.head - 3);
	memcpy(answer.head, *at, (size_t)(head_end - *at) + 2);
	*at = head_end + 4;
	if (answer.status == 100)
		return answer;
	length = header(&answer, "Content-Length");
	assert_non_null(length);
	answer.body_bytes = head_only ? 0 : strtoul(length, NULL, 10);
	assert_true((size_t)(end - *at) >= answer.body_bytes);
	answer.body = strndup(*at, answer.body_bytes);
	*at += answer.body_bytes;
	assert_non_null(header(&answer, "Date"));
	const char *type = header(&answer, "Content-Type");
	if (type == NULL) {
		assert_int_equal(answer.body_bytes, 0);
		return answer;
	}
	if (strstr(type, "json") != NULL && !head_only) {
		json_error_t error;
		answer.json = json_loadb(answer.body, answer.body_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
		if (answer.json == NULL)
			fail_msg("%s in %s", error.text, answer.body);
	}
	return answer;
}

/* Sends bytes and reads the one answer that they get. */
static inline struct answer ask_raw(const char *bytes, size_t len) {
	enum sl_door_verdict verdict;
	const char *at;
	out.len = 0;
	feed(bytes, len, &verdict);
	at = out.data;
	assert_non_null(at);
	struct answer answer = read_answer(&at, out.data + out.len, false);
	assert_ptr_equal(at, out.data + out.len);
	assert_int_equal(verdict == SL_DOOR_CLOSE, header(&answer, "Connection") != NULL);
	if (verdict == SL_DOOR_CLOSE)
		reconnect();
	return answer;
}

static inline struct answer post(const char *path, const char *body) {
	static char bytes[256 * 1024];
	int len = snprintf(bytes, sizeof bytes, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", path,
	                   strlen(body), body);
	assert_true(len < (int)sizeof bytes);
	return ask_raw(bytes, (size_t)len);
}

static inline struct answer get(const char *target) {
	char bytes[16 * 1024];
	int len = snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
	return ask_raw(bytes, (size_t)len);
}

static inline const char *text_of(const struct answer *answer, const char *name) {
	const char *text = json_string_value(json_object_get(answer->json, name));
	if (text == NULL)
		fail_msg("no %s in %s", name, answer->body);
	return text;
}

static inline json_int_t number_of(const json_t *object, const char *name) {
	assert_true(json_is_integer(json_object_get(object, name)));
	return json_integer_value(json_object_get(object, name));
}

static inline json_t *limit_of(const struct answer *answer, size_t i) {
	json_t *limit = json_array_get(json_object_get(answer->json, "limits"), i);
	assert_non_null(limit);
	return limit;
}

static inline void assert_header(const struct answer *answer, const char *name, const char *want) {
	const char *value = header(answer, name);
	if (want == NULL) {
		assert_null(value);
		return;
	}
	assert_non_null(value);
	assert_string_equal(value, want);
}

/* Every problem: its type of media, its members, and that no cache keeps it. */
static inline void assert_problem(const struct answer *answer, unsigned status, const char *detail_has) {
	if (answer->status != status)
		fail_msg("want %u, got %u: %s", status, answer->status, answer->body);
	assert_header(answer, "Content-Type", "application/problem+json");
	assert_header(answer, "Cache-Control", "no-store");
	assert_int_equal(number_of(answer->json, "status"), status);
	text_of(answer, "type");
	text_of(answer, "title");
	if (strstr(text_of(answer, "detail"), detail_has) == NULL)
		fail_msg("want \"%s\" in \"%s\"", detail_has, text_of(answer, "detail"));
}

/* Sends, and expects only a status; for requests whose answer is looked at elsewhere. */
static inline void post_for_status(const char *path, const char *body, unsigned status) {
	struct answer answer = post(path, body);
	if (answer.status != status)
		fail_msg("%s %s: want %u, got %u: %s", path, body, status, answer.status, answer.body);
	answer_free(&answer);
}

/* ---- a full store -------------------------------------------------------------------------------------------- */

/* Charges a log once a millisecond until it has no room to grow. */
static inline void fill_log(const struct sluice_item *item) {
	struct sluice_call call = {.items = item, .item_count = 1, .cost = 1, .now = start_ns - 3600000000000u};
	uint32_t i = 0;
	do {
		call.now += 1000000;
		assert_int_equal(sluice_decide(context.store, &call), SLUICE_OK);
		assert_in_range(i++, 0, 1000000);
	} while (call.merged.allowed);
	assert_int_equal(call.merged.bound, SLUICE_BOUND_ROOM);
}

/* The same for what the policy says of an address. */
static inline void fill_log_of(const char *ip) {
	struct sluice_attribute attribute = {sl_str("ip"), sl_str(ip)};
	struct sluice_match match;
	assert_int_equal(
		sluice_policy_match(context.policy, &attribute, 1, &match, context.match_buffer, SLUICE_MATCH_BYTES_MAX),
		SLUICE_OK);
	fill_log(&match.items[0]);
}

/* `before`, then `count` times `piece`, then `after`. */
static inline char *repeat(const char *before, const char *piece, size_t count, const char *after) {
	char *text = malloc(strlen(before) + count * strlen(piece) + strlen(after) + 1), *at = stpcpy(text, before);
	for (size_t i = 0; i < count; i++)
		at = stpcpy(at, piece);
	stpcpy(at, after);
	return text;
}

#endif
