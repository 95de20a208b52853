/* Requests that the HTTP door recognises (hosts/server/http/body_memo.h, policy/pattern.h) against the same door
 * without a memory: random requests, split at random bytes, must be answered alike, and leave the same counted.
 *
 * Bodies are of what comes close to being recognised: the same with other keys, escaped ones, no text at all, too long
 * ones; other limits, members, spaces; bytes changed at random. Admissions by JSON and at the proxies' doors have
 * attributes of which now one value differs and now another, and the policy is another one at times.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "hosts/server/http/worker.h"
#include "tests/model/dice.h"
#include "tests/model/memo_policies.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SENT_BYTES_MAX = 256 * 1024, BODY_BYTES_MAX = 16 * 1024 };

struct side {
	struct sl_door_context context;
	struct sl_buffer out;
	void *state;
	bool forgets, closed;
};

static char sent[SENT_BYTES_MAX], body[BODY_BYTES_MAX];
static size_t sent_len, body_len;

static void put_to(char *memory, size_t bytes, size_t *len, const char *format, va_list arguments) {
	*len += (size_t)vsnprintf(memory + *len, bytes - *len, format, arguments);
	assert_true(*len < bytes);
}

static void put_body(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put_body(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	put_to(body, sizeof body, &body_len, format, arguments);
	va_end(arguments);
}

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	put_to(sent, sizeof sent, &sent_len, format, arguments);
	va_end(arguments);
}

/* ---- what is sent ------------------------------------------------------------------------------------------------ */

static const char *pick(struct dice *dice, const char *usual, const char *const *others, size_t count) {
	return dice_one_in(dice, 12) ? others[dice_below(dice, count)] : usual;
}
#define PICK(usual, ...) \
	pick(dice, usual, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void put_key(struct dice *dice) {
	uint32_t len = dice_one_in(dice, 40) ? 1022 + (uint32_t)dice_below(dice, 5) : (uint32_t)dice_below(dice, 20);
	for (uint32_t i = 0; i < len; i++)
		put_body("%c", i + 1 < len ? 'k' : (char)('a' + dice_below(dice, 8)));
	if (dice_one_in(dice, 6))
		put_body("%s", PICK("\\u0041", "\\\"", "\xc3\xa4", "\xff", "\x7f", "\x01", "\\", "\",\"cost\":\"", "\\n"));
}

static const char usual_limit[] = "\"100/1m\"", usual_own[] = "{\"key\":\"own\",\"limit\":\"100/1m\"}";

static void put_check(const char *usual, struct dice *dice) {
	const char *blank = PICK("", " ", "\t", "\r\n ");
	put_body("{%s\"key\"%s:\"", blank, blank);
	if (usual != usual_limit && dice_one_in(dice, 2))
		put_body("own");
	else
		put_key(dice);
	put_body("\",%s\"limits\":[%s", blank, PICK(usual, "\"5/1s\"", "\"token-bucket 5/1s burst 9\", \"7/1m\"",
	                                            "{\"limit\":\"9/1m\"}", "{\"key\":\"own\",\"limit\":\"9/1m\"}",
	                                            "\"policy:user\"", "\"distinct 3/1m\"", "1",
	                                            "\"1/1m\",\"1/1m\",\"1/1m\",\"1/1m\",\"1/1m\""));
	put_body("]%s}", PICK("", ",\"cost\":2", ",\"peek\":true", ",\"member\":\"m\"", ",\"at\":1800000000000",
	                      ",\"cost\":5000000000", ",\"each\":true", ",\"upto\":true", ",\"next\":true", ",\"id\":\"i\"",
	                      ",\"key\":\"twice\"", ",\"attributes\":{}", "}", ",\"peek\":false,\"cost\":0"));
}

/* Some attributes, of which `chosen` says which values. */
struct chosen {
	uint32_t first, count, step, differ, values[MEMO_ATTRIBUTES];
};

static uint32_t attribute_at(const struct chosen *chosen, uint32_t i) {
	return (chosen->first + i % chosen->count * chosen->step) % MEMO_ATTRIBUTES;
}

static void choose(struct chosen *chosen, struct dice *dice) {
	for (uint32_t i = 0; i < MEMO_ATTRIBUTES; i++)
		if ((chosen->differ >> i & 1) != 0 || dice_one_in(dice, 40))
			chosen->values[i] = (uint32_t)dice_below(dice, MEMO_VALUES);
}

static void put_admission(const struct chosen *chosen, struct dice *dice) {
	bool twice = dice_one_in(dice, 40);
	put_body("{\"attributes\":{");
	for (uint32_t i = 0; i < chosen->count + twice; i++) {
		const struct memo_attribute *attribute = &memo_attributes[attribute_at(chosen, i)];
		put_body("%s\"%s\":\"%s%s\"", i == 0 ? "" : ",", attribute->name,
		         attribute->values[chosen->values[attribute_at(chosen, i)]], PICK("", "\\u0041", "\xc3\xa4"));
	}
	put_body("}%s}", PICK("", ",\"cost\":2", ",\"peek\":true", ",\"member\":\"m\"", ",\"id\":\"once\"",
	                      ",\"key\":\"k\""));
}

static void post(const char *path, struct dice *dice) {
	if (dice_one_in(dice, 60))
		body[dice_below(dice, body_len)] = (char)dice_bits(dice);
	put("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path, body_len);
	assert_true(sent_len + body_len < sizeof sent);
	memcpy(sent + sent_len, body, body_len);
	sent_len += body_len;
}

static void put_forward(const struct chosen *chosen, struct dice *dice) {
	const uint32_t *values = chosen->values;
	put("GET /v1/auth/forward HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: %s\r\nX-Forwarded-Method: %s\r\n"
	    "X-Forwarded-Uri: %s\r\n%s\r\n",
	    PICK("localhost", "a.example.com:80", "B"), memo_attributes[1].values[values[1]],
	    memo_attributes[2].values[values[2]], memo_attributes[3].values[values[3]],
	    PICK("", "Cookie: a=b\r\n", "X-Forwarded-For: 10.0.0.7\r\n"));
}

/* One kind of request, and many of it. */
static void put_alike(struct dice *dice) {
	struct chosen chosen = {.first = (uint32_t)dice_below(dice, MEMO_ATTRIBUTES),
	                        .count = 1 + (uint32_t)dice_below(dice, 5),
	                        .step = dice_one_in(dice, 2) ? 1 : 3,
	                        .differ = (uint32_t)dice_bits(dice) & (uint32_t)dice_bits(dice)};
	uint32_t kind = (uint32_t)dice_below(dice, 3), count = 1 + (uint32_t)dice_below(dice, 12);
	const char *usual = dice_one_in(dice, 6) ? usual_own : usual_limit;
	for (uint32_t i = 0; i < count && sent_len < sizeof sent / 2; i++) {
		body_len = 0;
		choose(&chosen, dice);
		if (kind == 0)
			put_check(usual, dice);
		else if (kind == 1)
			put_admission(&chosen, dice);
		if (kind == 2)
			put_forward(&chosen, dice);
		else
			post(kind == 0 ? PICK("/v1/check", "/v1/refund", "/v1/reset") : "/v1/admit", dice);
	}
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

static void open_side(struct side *side, bool forgets) {
	struct sluice_store_options options = {.memory_bytes = 4 << 20};
	*side = (struct side){.forgets = forgets, .closed = true};
	memo_policy_load(&side->context, 0);
	assert_int_equal(sluice_store_open(&side->context.store, &options, NULL), SLUICE_OK);
	side->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	assert_non_null(side->context.match_buffer);
	side->context.peer.text = "127.0.0.1:4321";
	side->context.peer.is_trusted = true;
	side->context.forms = SL_FORM_DRAFT10;
	side->context.now = UINT64_C(1800000000000000000);
}

static void close_side(struct side *side) {
	sl_door_http.close(side->state);
	sl_door_context_free(&side->context);
	sl_buffer_free(&side->out);
	free(side->context.match_buffer);
	sluice_store_close(side->context.store);
	sluice_policy_free((struct sluice_policy *)side->context.policy);
}

static void connect_side(struct side *side) {
	if (side->state != NULL)
		sl_door_http.close(side->state);
	side->state = sl_door_http.open(&side->context);
	assert_non_null(side->state);
	if (side->forgets) {
		free(side->context.http);
		side->context.http = NULL;
	}
	side->closed = false;
}

/* Feeds what is sent in pieces: each in memory of its own size, with what was left over before it. */
static void feed_side(struct side *side, struct dice *dice) {
	size_t kept = 0, given = 0;
	side->out.len = 0;
	while (given < sent_len && !side->closed) {
		size_t left = sent_len - given, consumed;
		size_t more = dice_one_in(dice, 2) ? left : 1 + dice_below(dice, left);
		size_t len = given + more - kept;
		char *memory = malloc(len);
		assert_non_null(memory);
		memcpy(memory, sent + kept, len);
		enum sl_door_verdict verdict =
			sl_door_http.feed(side->state, &side->context, memory, len, &consumed, &side->out);
		free(memory);
		assert_true(consumed <= len && verdict != SL_DOOR_WAIT);
		side->closed = verdict == SL_DOOR_CLOSE;
		kept += consumed;
		given += more;
		if (verdict == SL_DOOR_MORE) /* fed again from there, as a server does when its answers are sent */
			given = kept;
	}
}

static uint64_t checks_known, admits_known, patterns_known; /* how often there was something to recognise */

static void one_round(struct side sides[2], uint64_t round, struct dice *dice) {
	sluice_ns pause = dice_below(dice, 1000) * 1000000;
	unsigned policy = memo_policy_next(dice), parts = 1 + (unsigned)dice_below(dice, 6);
	sent_len = 0;
	for (unsigned i = 0; i < parts && sent_len < sizeof sent / 4; i++)
		put_alike(dice);
	for (int i = 0; i < 2; i++) {
		if (policy != MEMO_POLICIES)
			memo_policy_load(&sides[i].context, policy);
		if (sides[i].closed)
			connect_side(&sides[i]);
		sides[i].context.now += pause;
		feed_side(&sides[i], dice);
	}
	const struct sl_http_worker *worker = sides[0].context.http;
	checks_known += worker->checks.piece_count != 0;
	admits_known += worker->admits.piece_count != 0;
	patterns_known += sl_pattern_is_of(&worker->forwarded.pattern, sides[0].context.policy) &&
	                  sl_pattern_is_of(&worker->asked.pattern, sides[0].context.policy);
	if (sides[0].out.len != sides[1].out.len || memcmp(sides[0].out.data, sides[1].out.data, sides[0].out.len) != 0 ||
	    sides[0].closed != sides[1].closed || sides[0].context.commands != sides[1].context.commands)
		fail_msg("SLUICE_SEED=%" PRIu64 ", round %" PRIu64
		         ": with a memory requests are answered %zu bytes, without %zu:\n%.*s",
		         dice_seed(), round, sides[0].out.len, sides[1].out.len,
		         (int)(sent_len < 3000 ? sent_len : 3000), sent);
}

static void answers_are_the_same(void **state) {
	struct side sides[2];
	uint64_t rounds = dice_ops(1500);
	(void)state;
	for (int i = 0; i < 2; i++)
		open_side(&sides[i], i == 1);
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		one_round(sides, round, &dice);
	}
	assert_true(checks_known * 4 > rounds && admits_known * 4 > rounds && patterns_known * 8 > rounds);
	for (int i = 0; i < 2; i++)
		close_side(&sides[i]);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_the_same)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
