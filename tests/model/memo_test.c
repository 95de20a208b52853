/* Commands that the RESP door recognises by their bytes (hosts/server/resp/memo.h) against the same door when it has
 * forgotten: random pipelines, split at random bytes, must be answered alike, and leave the same counted.
 *
 * The twin is fed byte by byte and made to forget before each, so that every command goes the long way. Pipelines are
 * of what comes close to being recognised: the same command of keys of all lengths, with another case, cost, limit,
 * word, or number of limits, lengths written as the parser does not expect them; limits enough to drive each other out
 * of the table of those that were parsed; inline commands, others, and bytes changed at random. ADMITs have attributes
 * in any order, of which now one value differs and now another. Between pipelines the policy is another one at
 * times, with or without an index, or one that asks who calls.
 *
 * SLUICE_SEED and SLUICE_OPS repeat or lengthen a run. */
#include "tests/model/dice.h"
#include "tests/model/memo_policies.h"

#include "base/recall.h"
#include "hosts/server/resp/resp.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PIPELINE_BYTES_MAX = 64 * 1024, COMMANDS_MAX = 200, CROWD = 20 };

struct side {
	struct sl_door_context context;
	struct sl_buffer out;
	void *state;
	bool forgets, closed;
	uint64_t answered;
};

static char pipeline[PIPELINE_BYTES_MAX];
static size_t pipeline_len;

/* ---- what is sent ------------------------------------------------------------------------------------------------ */

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	pipeline_len += (size_t)vsnprintf(pipeline + pipeline_len, sizeof pipeline - pipeline_len, format, arguments);
	va_end(arguments);
	assert_true(pipeline_len < sizeof pipeline);
}

static void put_key(struct dice *dice) {
	static const uint32_t lengths[] = {0, 1, 2, 7, 8, 9, 10, 11, 16, 99, 100, 101, 999, 1000, 1024, 1025};
	bool odd = dice_one_in(dice, 8);
	uint32_t len = odd ? lengths[dice_below(dice, sizeof lengths / sizeof *lengths)] : 16;
	const char *form = !dice_one_in(dice, 60) ? "$%u\r\n" : dice_one_in(dice, 2) ? "$0%u\r\n" : "$%u \r\n";
	put(form, len);
	for (uint32_t i = 0; i < len; i++)
		put("%c", i + 1 < len ? 'k' : (char)('a' + dice_below(dice, 20)));
	put("\r\n");
}

/* Quotas whose limits stand in the line of the table where 100/1m does. */
static uint32_t crowd[CROWD];

static uint64_t line_of(uint32_t quota) {
	char text[32];
	return sl_recall_hash(sl_slice(text, (size_t)snprintf(text, sizeof text, "%u/1m", quota))) >> 54;
}

static void find_crowd(void) {
	uint32_t quota = 101;
	for (uint32_t i = 0; i < CROWD; quota++)
		if (line_of(quota) == line_of(100))
			crowd[i++] = quota;
}

static void put_limit(struct dice *dice) {
	static const char *const usual[] = {
		"100/1m",      "token-bucket 5/1s burst 9", "sliding-log 20/1m", "100/1h", "distinct 3/1m",
		"policy:user", "fixed-window 9/1d tz UTC"};
	char made[32];
	const char *text = usual[dice_below(dice, sizeof usual / sizeof *usual)];
	if (dice_one_in(dice, 3)) { /* many, that want the line of the first */
		snprintf(made, sizeof made, "%u/1m", crowd[dice_below(dice, CROWD)]);
		text = made;
	}
	put("$%zu\r\n%s\r\n", strlen(text), text);
}

/* One kind of command, and how many of it. */
static void put_alike(struct dice *dice) {
	static const char *const names[] = {"SLUICE.CHECK",  "sluice.check", "SLUICE.PEEK",
	                                    "SLUICE.REFUND", "SLUICE.RESET", "Sluice.Acquire"};
	const char *name = names[dice_below(dice, 3) == 0 ? dice_below(dice, 6) : 0];
	bool resets = strcmp(name, "SLUICE.RESET") == 0, word = dice_one_in(dice, 6);
	uint32_t limits = 1 + (uint32_t)(dice_one_in(dice, 3) ? dice_below(dice, 5) : 0);
	uint32_t cost = (uint32_t)(dice_one_in(dice, 4) ? dice_below(dice, 200) : 1), count = (uint32_t)dice_below(dice, 9);
	struct dice same = *dice;
	size_t after = 0, len = 0;
	(void)dice_bits(dice);
	for (uint32_t i = 0; i <= count; i++) {
		put("*%u\r\n$%zu\r\n%s\r\n", 2 + !resets + word + limits, strlen(name), name);
		put_key(dice);
		if (i != 0 && !dice_one_in(dice, 10)) { /* and the rest as it was */
			memmove(pipeline + pipeline_len, pipeline + after, len);
			pipeline_len += len;
			continue;
		}
		after = pipeline_len;
		if (!resets)
			put("$%d\r\n%u\r\n", cost < 10 ? 1 : cost < 100 ? 2 : 3, cost);
		if (word)
			put("$4\r\nNEXT\r\n");
		struct dice limit = dice_one_in(dice, 10) ? *dice : same;
		for (uint32_t l = 0; l < limits; l++)
			put_limit(&limit);
		len = pipeline_len - after;
	}
}

/* ---- admissions -------------------------------------------------------------------------------------------------- */

static void put_bulk(const char *text) {
	put("$%zu\r\n%s\r\n", strlen(text), text);
}

/* One kind of admission, and many of it, of which some values differ. */
static void put_admissions(struct dice *dice) {
	uint32_t first = (uint32_t)dice_below(dice, MEMO_ATTRIBUTES), attribute_count = 1 + (uint32_t)dice_below(dice, 5);
	uint32_t step = dice_one_in(dice, 2) ? 1 : 3, count = (uint32_t)dice_below(dice, 12), chosen[MEMO_ATTRIBUTES] = {0};
	uint32_t differ = (uint32_t)dice_bits(dice) & (uint32_t)dice_bits(dice);
	const char *cost = dice_one_in(dice, 4) ? "3" : "1", *word = dice_one_in(dice, 8) ? "EACH" : NULL;
	bool twice = dice_one_in(dice, 30);
	for (uint32_t i = 0; i <= count; i++) {
		put("*%u\r\n$12\r\nSLUICE.ADMIT\r\n", 2 + (word != NULL) + 2 * (attribute_count + twice));
		put_bulk(cost);
		if (word != NULL)
			put_bulk(word);
		for (uint32_t k = 0; k < attribute_count + twice; k++) {
			uint32_t which = (first + k % attribute_count * step) % MEMO_ATTRIBUTES;
			if ((differ >> which & 1) != 0 || dice_one_in(dice, 40))
				chosen[which] = (uint32_t)dice_below(dice, 6);
			put_bulk(memo_attributes[which].name);
			put_bulk(memo_attributes[which].values[chosen[which]]);
		}
	}
}

static void put_other(struct dice *dice) {
	static const char *const others[] = {
		"PING\r\n",
		"*1\r\n$4\r\nPING\r\n",
		"SLUICE.CHECK a 1 100/1m\r\n",
		"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n",
		"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n",
		"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n",
		"*4\r\n$12\r\nSLUICE.ADMIT\r\n$1\r\n1\r\n$4\r\nuser\r\n$1\r\na\r\n",
		"*4\r\n$12\r\nSLUICE.CHECK\r\n$1\r\na\r\n$1\r\nx\r\n$6\r\n100/1m\r\n",
		"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n",
		"*0\r\n",
		"\r\n",
	};
	put("%s", others[dice_below(dice, sizeof others / sizeof *others)]);
}

static void fill_pipeline(struct dice *dice) {
	uint32_t parts = 1 + (uint32_t)dice_below(dice, 12);
	pipeline_len = 0;
	for (uint32_t i = 0; i < parts && pipeline_len < sizeof pipeline / 2; i++) {
		if (dice_one_in(dice, 5))
			put_other(dice);
		else if (dice_one_in(dice, 2))
			put_admissions(dice);
		else
			put_alike(dice);
	}
	if (dice_one_in(dice, 6))
		pipeline[dice_below(dice, pipeline_len)] = (char)dice_bits(dice);
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

static void open_side(struct side *side, bool forgets) {
	struct sluice_store_options options = {.memory_bytes = 4 << 20};
	*side = (struct side){.forgets = forgets, .closed = true};
	memo_policy_load(&side->context, 0);
	assert_int_equal(sluice_store_open(&side->context.store, &options, NULL), SLUICE_OK);
	side->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	assert_non_null(side->context.match_buffer);
}

static void close_side(struct side *side) {
	sl_door_resp.close(side->state);
	sl_door_context_free(&side->context);
	sl_buffer_free(&side->out);
	free(side->context.match_buffer);
	sluice_store_close(side->context.store);
	sluice_policy_free((struct sluice_policy *)side->context.policy);
}

static void connect_side(struct side *side) {
	if (side->state != NULL)
		sl_door_resp.close(side->state);
	side->state = sl_door_resp.open(&side->context);
	assert_non_null(side->state);
	side->closed = false;
}

/* Feeds the pipeline in pieces: each in memory of its own size, with what was left over before it. */
static void send(struct side *side, struct dice *dice) {
	size_t kept = 0, given = 0;
	side->out.len = 0;
	while (given < pipeline_len && !side->closed) {
		size_t left = pipeline_len - given;
		size_t more = side->forgets ? 1 : dice_one_in(dice, 3) ? left : 1 + dice_below(dice, left), consumed;
		size_t len = given + more - kept;
		char *memory = malloc(len);
		assert_non_null(memory);
		memcpy(memory, pipeline + kept, len);
		if (side->forgets) {
			sl_resp_memos_forget(&side->context.resp->memos);
			sl_resp_memos_forget_admits(&side->context.resp->memos);
		}
		enum sl_door_verdict verdict =
			sl_door_resp.feed(side->state, &side->context, memory, len, &consumed, &side->out);
		free(memory);
		assert_true(consumed <= len && (verdict == SL_DOOR_OPEN || verdict == SL_DOOR_CLOSE));
		side->closed = verdict == SL_DOOR_CLOSE;
		kept += consumed;
		given += more;
	}
}

static uint64_t known, admits_known; /* how often the one side had something to recognise */

static void one_round(struct side sides[2], uint64_t round, struct dice *dice) {
	sluice_ns pause = dice_below(dice, 1000) * 1000000;
	unsigned policy = memo_policy_next(dice);
	fill_pipeline(dice);
	for (int i = 0; i < 2; i++) {
		if (policy != MEMO_POLICIES)
			memo_policy_load(&sides[i].context, policy);
		if (sides[i].closed || dice_one_in(&(struct dice){round}, 20))
			connect_side(&sides[i]);
		sides[i].context.now += pause;
		send(&sides[i], dice);
	}
	known += sides[0].context.resp->memos.list[0].head_len != 0;
	for (int i = 0; i < SL_RESP_MEMOS; i++) {
		const struct sl_resp_admit_memo *memo = &sides[0].context.resp->memos.admits[i];
		admits_known += memo->count != 0 && sl_pattern_is_of(&memo->pattern, sides[0].context.policy);
	}
	if (sides[0].out.len != sides[1].out.len || memcmp(sides[0].out.data, sides[1].out.data, sides[0].out.len) != 0 ||
	    sides[0].closed != sides[1].closed || sides[0].context.commands != sides[1].context.commands)
		fail_msg("SLUICE_SEED=%" PRIu64 ", round %" PRIu64
		         ": recognised by its bytes, a pipeline is answered %zu bytes "
		         "(%" PRIu64 " commands), else %zu (%" PRIu64 "):\n%.*s",
		         dice_seed(), round, sides[0].out.len, sides[0].context.commands, sides[1].out.len,
		         sides[1].context.commands, (int)(pipeline_len < 2000 ? pipeline_len : 2000), pipeline);
}

static void answers_are_the_same(void **state) {
	struct side sides[2];
	uint64_t rounds = dice_ops(4000);
	(void)state;
	find_crowd();
	for (int i = 0; i < 2; i++) {
		open_side(&sides[i], i == 1);
		sides[i].context.now = UINT64_C(1800000000000000000);
	}
	for (uint64_t round = 0; round < rounds; round++) {
		struct dice dice = dice_of(dice_seed(), round);
		one_round(sides, round, &dice);
	}
	assert_true(known * 4 > rounds && admits_known * 4 > rounds);
	for (int i = 0; i < 2; i++)
		close_side(&sides[i]);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_the_same)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
