/* Requests to Envoy's rate limit service that are known again by their bytes (hosts/server/envoy/known.h) and answered
 * in pieces that were written before (plain.c), against the long way: random requests, many of which come again, under
 * policies that come and go, must be answered byte by byte alike, and leave the same counted.
 *
 * The twin reads each message anew, and writes its answer from the statuses. Policies have all that keeps a request
 * from being known or plain: limits of the calendar, observed, reserved, with candidates, with costs, by paths, with
 * quotas of their own for some, files of envoyproxy/ratelimit with all of their words. Addresses are given quotas of
 * their own while all this goes on. Requests look, give back, bring limits along, have long names and values, bytes
 * that are changed.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "tests/model/dice.h"

#include "hosts/server/door/pending.h"
#include "hosts/server/envoy/rate_limit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MESSAGE_MAX = 2048, ANSWER_MAX = 512 * 1024, POOL = 24, ROWS_MAX = 64 };

static const char *const policies[] = {
	"limits:\n"
	"  - {name: client, key: ip, limit: 20/1m}\n"
	"  - {name: user, key: user, limit: token-bucket 5/1s burst 9}\n"
	"  - {name: path, key: path, limit: 1000/1h, when: {path: '/a/*'}}\n",
	"limits:\n" /* the same in all but its names, and in a window */
	"  - {name: CLIENT, key: ip, limit: 20/1m}\n"
	"  - {name: USER, key: user, limit: token-bucket 5/1s burst 9}\n"
	"  - {name: PATH, key: path, limit: 1000/1h, when: {path: '/a/*'},\n"
	"     overrides: [{when: {path: /a/1}, limit: 1000/2h}]}\n",
	"limits:\n"
	"  - {name: client, key: ip, limit: sliding-log 20/1m, overrides: [{when: {ip: 10.0.0.1}, limit: 40/1m}]}\n"
	"  - {name: all, key: [], limit: 400/1m, observe: true}\n"
	"  - {name: day, key: user, limit: 300/day at UTC}\n"
	"  - {name: gold, key: user, limit: 50/1m, candidate: 30/1m}\n",
	"limits:\n"
	"  - {name: client, key: ip, limit: 30/1m, cost: 2}\n"
	"  - {name: held, key: user, limit: 30/1m, when: {path: /a/1}, reserve: true}\n"
	"  - {name: pens, key: user, limit: 8/1m, penalty: {steps: [30s], after: 3, in: 1m}}\n",
	"limits: []\n",
	"envoy: {config: /nowhere}\n"
	"limits:\n"
	"  - {name: client, key: ip, limit: 25/1m}\n",
};
static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 20, name: far}}\n"
	"  - {key: user, value: u1, rate_limit: {unlimited: true}}\n"
	"  - {key: user, rate_limit: {unit: second, requests_per_unit: 5}, shadow_mode: true}\n"
	"  - {key: path, value: '/a/*', detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 90, "
	"replaces: [{name: far}]}}\n"
	"  - key: k\n"
	"    quota_mode: true\n"
	"    rate_limit: {unit: minute, requests_per_unit: 9}\n"
	"    metadata: {sluice: {limit: 'token-bucket 3/1s burst 6'}}\n"
	"    descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 40}}]\n";

struct side {
	struct sl_door_context context;
	struct sl_shared shared;
	struct sl_stats *stats;
	uint8_t *memory;
	struct sluice_bytes answer;
	char text[256]; /* where there is no answer */
};

struct message {
	uint8_t bytes[MESSAGE_MAX];
	size_t len;
};

static struct message pool[POOL];
static uint64_t met, plain, changed;

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void put_entry(struct sl_pb_writer *writer, struct dice *dice) {
	static const char *const keys[] = {"remote_address", "user", "path", "k", "ip", "user", "remote_address", "domain"};
	static const char *const values[] = {"10.0.0.1", "10.0.0.2", "u1", "u2", "/a/1", "/a/2?x", "", "2001:db8::1"};
	char text[400];
	const uint8_t *end = sl_pb_message_end(writer);
	size_t len = dice_one_in(dice, 30) ? dice_below(dice, sizeof text) : 0;
	memset(text, 'v', sizeof text);
	if (len != 0)
		sl_pb_put_text(writer, 2, sl_slice(text, len));
	else
		sl_pb_put_text(writer, 2, sl_str(values[dice_below(dice, 8)]));
	sl_pb_put_text(writer, 1, dice_one_in(dice, 40) ? sl_slice(text, len) : sl_str(keys[dice_below(dice, 8)]));
	sl_pb_message_begin(writer, 1, end);
}

static void put_wrapped(struct sl_pb_writer *writer, uint32_t number, uint64_t value) {
	const uint8_t *end = sl_pb_message_end(writer);
	sl_pb_put_u64(writer, 1, value);
	sl_pb_message_begin(writer, number, end);
}

static void put_descriptor(struct sl_pb_writer *writer, struct dice *dice) {
	const uint8_t *whole = sl_pb_message_end(writer);
	if (dice_one_in(dice, 12))
		sl_pb_put_varint(writer, 4, dice_below(dice, 2));
	if (dice_one_in(dice, 8))
		put_wrapped(writer, 3, dice_below(dice, 4));
	if (dice_one_in(dice, 16)) {
		const uint8_t *end = sl_pb_message_end(writer);
		sl_pb_put_u64(writer, 2, dice_below(dice, 9));
		sl_pb_put_u64(writer, 1, dice_below(dice, 30));
		sl_pb_message_begin(writer, 2, end);
	}
	for (uint64_t i = dice_one_in(dice, 4) ? dice_below(dice, 6) : 1; i > 0; i--)
		put_entry(writer, dice);
	sl_pb_message_begin(writer, 2, whole);
}

static void make_message(struct message *message, struct dice *dice) {
	uint8_t memory[16 * MESSAGE_MAX];
	struct sl_pb_writer writer = sl_pb_write(memory, sizeof memory);
	sl_pb_put_u64(&writer, 3, dice_one_in(dice, 3) ? dice_below(dice, 12) : 0);
	for (uint64_t i = dice_one_in(dice, 3) ? dice_below(dice, 7) : 1; i > 0; i--)
		put_descriptor(&writer, dice);
	sl_pb_put_text(&writer, 1, sl_str(dice_one_in(dice, 20) ? "" : "d"));
	struct sluice_bytes made = sl_pb_written(&writer);
	message->len = made.len < MESSAGE_MAX ? made.len : MESSAGE_MAX;
	memcpy(message->bytes, made.data, message->len);
	if (message->len != 0 && dice_one_in(dice, 20))
		message->bytes[dice_below(dice, message->len)] ^= (uint8_t)(1 + dice_below(dice, 255));
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

static void use_policy(struct side *side, uint64_t which) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	static uint32_t rows[2][ROWS_MAX];
	sluice_policy_free((struct sluice_policy *)side->context.policy);
	sluice_err err = sluice_policy_load(&policy, sl_str(policies[which]), &problems);
	if (err != SLUICE_OK)
		fail_msg("policy %" PRIu64 ": %s", which, problems.count > 0 ? problems.list[problems.count - 1].text : "?");
	sluice_problems_free(&problems);
	if (strncmp(policies[which], "envoy", 5) == 0) {
		err = sl_policy_envoy_add(policy, "f.yaml", sl_str(rules), &problems);
		if (err != SLUICE_OK)
			fail_msg("rules: %s", problems.count > 0 ? problems.list[0].text : "?");
		sluice_problems_free(&problems);
	}
	assert_true(sl_stats_rows_of(policy) < ROWS_MAX);
	side->context.policy = policy;
	side->context.rows = rows[side->context.listener];
	sl_stats_enter(side->stats, policy, rows[side->context.listener]);
}

static void open_side(struct side *side, uint32_t number) {
	struct sluice_store_options options = {.memory_bytes = 16 << 20};
	*side = (struct side){.context = {.listener = number, .forms = SL_FORM_DRAFT10}};
	assert_int_equal(sluice_store_open(&side->context.store, &options, NULL), SLUICE_OK);
	side->stats = sl_stats_new(1);
	side->shared.stats = side->stats;
	side->context.shared = &side->shared;
	side->context.stats = sl_stats_worker(side->stats, 0);
	side->context.top = sl_top_new();
	side->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	side->memory = malloc(ANSWER_MAX);
	side->context.now = UINT64_C(1800000000000000000);
	assert_true(side->context.match_buffer != NULL && side->memory != NULL && sl_rls_worker_of(&side->context) != NULL);
}

static void close_side(struct side *side) {
	sl_door_context_free(&side->context);
	sluice_policy_free((struct sluice_policy *)side->context.policy);
	free(side->context.match_buffer);
	free(side->memory);
	sl_top_free(side->context.top);
	sl_stats_free(side->stats);
	sluice_store_close(side->context.store);
}

/* Gives an address a quota of its own for the first limit of the policy, or takes it away. */
static sluice_err change_own(struct side *side, struct dice dice) {
	static const char *const keys[] = {"ip=10.0.0.1", "ip=10.0.0.2"};
	static const char *const quotas[] = {"9/1m", "33/1m", "sliding-log 9/1m", "sliding-log 33/1m"};
	struct sluice_bytes key = sl_str(keys[dice_below(&dice, 2)]);
	struct sluice_limit own;
	if (sl_policy_limit_count(side->context.policy) == 0)
		return SLUICE_E_NONE;
	const struct sluice_limit *limit = &sl_policy_limit_at(side->context.policy, 0)->limit;
	if (dice_one_in(&dice, 4))
		return sluice_override_delete(side->context.store, limit, key, side->context.now);
	assert_int_equal(sluice_limit_parse(&own, sl_str(quotas[dice_below(&dice, 4)]), NULL), SLUICE_OK);
	const struct sluice_override_request request = {.limit = limit, .key = key, .own = &own};
	return sluice_override_set(side->context.store, &request, side->context.now, NULL);
}

/* Asks by the short way, or by the long one. The message goes as soon as it is answered. */
static void ask(struct side *side, const struct message *message, bool briefly) {
	struct sl_rls_worker *worker = side->context.rls;
	uint8_t *bytes = malloc(message->len + 1);
	struct sl_pb_writer writer = sl_pb_write(side->memory, ANSWER_MAX);
	struct sl_rls_answer answer;
	enum sl_rls_read came;
	assert_non_null(bytes);
	memcpy(bytes, message->bytes, message->len);
	answer.writer = briefly ? &writer : NULL;
	side->text[0] = '\0';
	if (briefly) {
		came = sl_rls_read(&side->context, worker, sl_slice(bytes, message->len));
		met += worker->met != NULL;
	} else {
		sl_rls_was_read(worker);
		came = sl_rls_request_read(&worker->request, sl_slice(bytes, message->len));
	}
	enum sl_rls_end end =
		came == SL_RLS_READ ? sl_rls_decide(&side->context, worker, SL_TRANSPORT_GRPC, &answer) : SL_RLS_LATER;
	if (end == SL_RLS_ANSWERED) {
		plain += briefly && answer.written;
		if (!briefly || !answer.written)
			sl_rls_response_put(&writer, &answer.response);
		assert_false(writer.overflow);
	} else {
		snprintf(side->text, sizeof side->text, "%d %d %s", (int)came, (int)end,
		         end == SL_RLS_REFUSED ? answer.text : "");
	}
	side->answer = sl_pb_written(&writer);
	free(bytes);
	sl_pending_settle(&side->context);
}

static bool are_alike(const struct side *a, const struct side *b) {
	return a->answer.len == b->answer.len && memcmp(a->answer.data, b->answer.data, a->answer.len) == 0 &&
	       strcmp(a->text, b->text) == 0;
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

/* The answer to a request that holds something has an id in it that nobody else has. */
static bool has_ticket(const struct side *side) {
	return memmem(side->answer.data, side->answer.len, "sluice-ticket", 13) != NULL;
}

static void one_request(struct side sides[2], uint64_t round, struct dice *dice) {
	static const uint32_t forms[] = {SL_FORM_DRAFT10, SL_FORM_DRAFT10 | SL_FORM_FAILED_OPEN, SL_FORM_DRAFT7, 0};
	struct message *message = &pool[dice_below(dice, POOL)];
	sluice_ns pause = dice_below(dice, 300) * 1000000;
	uint32_t form = forms[dice_one_in(dice, 6) ? dice_below(dice, 4) : 0];
	if (message->len == 0 || dice_one_in(dice, 12))
		make_message(message, dice);
	if (dice_one_in(dice, 200)) {
		uint64_t which = dice_below(dice, sizeof policies / sizeof policies[0]);
		use_policy(&sides[0], which);
		use_policy(&sides[1], which);
	}
	if (dice_one_in(dice, 60)) {
		const sluice_err err = change_own(&sides[0], *dice);
		assert_int_equal(change_own(&sides[1], *dice), err);
		changed += err == SLUICE_OK;
	}
	for (int i = 0; i < 2; i++) {
		sides[i].context.now += pause;
		sides[i].context.forms = form;
		ask(&sides[i], message, i == 0);
	}
	if (!are_alike(&sides[0], &sides[1]) && !(has_ticket(&sides[0]) && has_ticket(&sides[1])))
		fail_msg("SLUICE_SEED=%" PRIu64 ", round %" PRIu64 ": answered %zu bytes %s, the long way %zu bytes %s",
		         dice_seed(), round, sides[0].answer.len, sides[0].text, sides[1].answer.len, sides[1].text);
}

static void answers_are_the_same(void **state) {
	static struct side sides[2];
	uint64_t rounds = dice_ops(60000);
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		open_side(&sides[i], i);
		use_policy(&sides[i], 0);
	}
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		one_request(sides, round, &dice);
	}
	print_message("%" PRIu64 " requests, %" PRIu64 " known, %" PRIu64 " plain; %" PRIu64 " own quotas set or gone\n",
	              rounds, met, plain, changed);
	assert_memory_equal(sides[0].context.stats->requests, sides[1].context.stats->requests,
	                    sizeof sides[0].context.stats->requests);
	for (uint32_t row = 0; row < 64; row++) {
		const struct sl_row *a = sl_worker_stats_row(sides[0].context.stats, row);
		const struct sl_row *b = sl_worker_stats_row(sides[1].context.stats, row);
		assert_memory_equal(a, b, sizeof *a);
	}
	assert_true(met * 4 > rounds && plain * 10 > rounds);
	for (uint32_t i = 0; i < 2; i++)
		close_side(&sides[i]);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_the_same)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
