/* The grammar of commands as fronts speak it, read without a server: what stands in front of limits, holds and slices,
 * what is wrong with them, and where the keys are. What all doors share is in tests/e2e/test_grammar.py. */
#include "proto/command.h"

#include "base/fold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sluice_limit limits[SLUICE_ITEMS_MAX];
static struct sluice_item items[SLUICE_ITEMS_MAX];
static struct sluice_call call;
static struct sl_ticket ticket;
static char memory[SL_TICKET_BYTES_MAX];

static const char *refuses_at(const struct sl_command *command) {
	(void)command;
	return NULL;
}

static const struct sluice_limit *find(struct sl_command *command, struct sluice_bytes text,
                                       struct sluice_error *error) {
	struct sluice_limit *limit = &limits[command->call->item_count];
	return sluice_limit_parse(limit, text, error) == SLUICE_OK ? limit : NULL;
}

static const struct sl_command_door door = {.fronts = true, .refuses_at = refuses_at, .limit = find};
static struct sl_command command = {
	.door = &door, .call = &call, .items = items, .ticket = &ticket, .ticket_memory = memory};

/* A policy of two limits, `policy:both`. */
static bool add_named(struct sl_command *c, struct sluice_bytes text, struct sluice_bytes name) {
	static const struct sluice_limit limit = {.algorithm = SLUICE_FIXED_WINDOW};
	if (!sl_bytes_equal(name, sl_str("both")))
		return sl_command_fail(c, "no limit %s", sl_shown(text).text);
	return sl_command_add(c, &limit) != NULL && sl_command_add(c, &limit) != NULL;
}

static const char *refuses_always(const struct sl_command *c) {
	(void)c;
	return "client-time: false";
}

static char folds[8][SLUICE_KEY_BYTES_MAX];
static uint32_t fold_count;

static char *fold_room(struct sl_command *c) {
	(void)c;
	return folds[fold_count++ % 8];
}

static const struct sl_command_door public_door = {
	.refuses_at = refuses_always, .limit = find, .named = add_named, .fold_room = fold_room};

/* Words with one space between; `_` in a word is a space, '' an empty one, "a*70" stands for 70 of that letter. */
static uint32_t split(const char *words, struct sluice_bytes args[64]) {
	static char text[1024], many[SLUICE_KEY_BYTES_MAX + 1];
	uint32_t count = 0;
	char *at = text;
	snprintf(text, sizeof text, "%s", words);
	while (*at != '\0') {
		size_t len = strcspn(at, " ");
		if (at[1] == '*') {
			memset(many, at[0], sizeof many);
			args[count++] = sl_slice(many, strtoul(at + 2, NULL, 10));
		} else {
			args[count++] = sl_slice(at, at[0] == '\'' ? 0 : len);
		}
		for (char *p = at; p < at + len; p++)
			*p = *p == '_' ? ' ' : *p;
		at += len + (at[len] == ' ');
	}
	return count;
}

static bool ask_at(const struct sl_command_door *at, enum sl_operation operation, const char *words) {
	struct sluice_bytes args[64];
	uint32_t count = split(words, args);
	call = (struct sluice_call){.items = items};
	command.door = at;
	assert_true(count >= sl_command_arity(operation));
	return sl_command_read(&command, operation, args, count);
}

static bool ask(enum sl_operation operation, const char *words) {
	return ask_at(&door, operation, words);
}

static void test_what_stands_in_front_of_a_limit(void **state) {
	(void)state;
	assert_true(ask(SL_OP_ACQUIRE, "ACQUIRE k 3 EXACT name n OBSERVED COST 5 concurrency_9_lease_1s KEY j TRIED TTL 70 "
	                               "TERMS count-denied 9/1m MEMBER m 8/1m"));
	assert_int_equal(call.item_count, 3);
	assert_int_equal(items[0].observed, SLUICE_OBSERVED);
	assert_int_equal(items[0].cost, 5);
	assert_int_equal(command.named, 1);
	assert_true(sl_bytes_equal(command.names[0], sl_str("n")));
	assert_int_equal(items[1].observed, SLUICE_TRIED);
	assert_int_equal(items[1].ttl_ns, 70000000);
	assert_true(items[1].terms->count_denied && items[0].terms == NULL);
	assert_true(sl_bytes_equal(items[0].key, sl_str("k")) && sl_bytes_equal(items[2].key, sl_str("j")));
	assert_true(items[2].observed == 0 && items[2].cost == 0 && items[2].ttl_ns == 0 && items[2].terms == NULL);
	assert_true(sl_bytes_equal(items[0].member, sl_str("m"))); /* the first is of those before it, too */
	assert_true((command.given & SL_SAYS(EXACT)) != 0 && call.want_next);
}

static void test_holds_and_slices(void **state) {
	(void)state;
	assert_true(ask(SL_OP_HOLD, "HOLD k 3 aF 2000 UPTO 9/1m"));
	assert_true(command.hold == 0xaf && call.ttl_ns == 2000000000 && call.cost == 3 && call.upto);
	assert_true(ask(SL_OP_CONFIRM, "CONFIRM k 3 a KEEP 9/1m"));
	assert_true((command.given & SL_SAYS(KEEP)) != 0);
	assert_true(ask(SL_OP_PEEK, "PEEK k 3 BESIDE 9a0fAF 9/1m") && command.hold == 0x9a0faf);
	assert_true(ask(SL_OP_LEASE, "LEASE k a 500 7 8 9/1m") && command.spent == 7 && command.want == 8);
	assert_true(ask(SL_OP_RESERVE, "RESERVE k 1 0 TTL 5 9/1m")); /* its limits say when it ends */
	/* one that says nothing of it is charged */
	assert_true(ask(SL_OP_RESERVE, "RESERVE k 1 0 TTL 5 9/1m MEMBER m distinct_9/1h"));
}

static const struct {
	enum sl_operation operation;
	const char *words, *error;
} mistakes[] = {
	{SL_OP_CHECK, "CHECK k 1 NAME n", "NAME needs a name and a limit after it"},
	{SL_OP_CHECK, "CHECK k 1 9/1m TRIED", "TRIED needs a limit after it"},
	{SL_OP_CHECK, "CHECK k 1 TERMS x 9/1m", "limit 1, TERMS, column 1: "},
	{SL_OP_CHECK, "CHECK k 1 COST 0 9/1m", "COST '0': expected a whole number from 1 to 4294967295"},
	{SL_OP_CHECK, "CHECK k 1 TTL 0 9/1m", "TTL '0': expected a whole number from 1 to 316224000000"},
	{SL_OP_CHECK, "CHECK k 1 OBSERVED UPTO", "the last words need a limit after them"},
	{SL_OP_CHECK, "CHECK k 1 9/1m NAME n KEY j 9/1m", "KEY has to stand before the words of its limit"},
	{SL_OP_CHECK, "CHECK k 1 LEEP 9/1m", "limit 1, column 1: expected a limit such as 100/1m"},
	{SL_OP_CHECK, "CHECK k 1 KEEP 9/1m", "KEEP is no word of SLUICE.CHECK"},
	{SL_OP_RESET, "RESET k COST 3 9/1m", "COST is no word of SLUICE.RESET"},
	{SL_OP_PEEK, "PEEK k 1 BESIDE a BESIDE b 9/1m", "BESIDE twice: expected it once"},
	{SL_OP_PEEK, "PEEK k 1 BESIDE xy 9/1m", "id 'xy': expected 1 to 16 hex digits"},
	{SL_OP_HOLD, "HOLD k 1 0123456789abcdef0 9 9/1m", "id '0123456789abcdef0': expected 1 to 16 hex digits"},
	{SL_OP_CHECK, "CHECK k : 9/1m", "cost ':': expected a whole number from 0 to 4294967295"},
	{SL_OP_HOLD, "HOLD k 1 a 60001 9/1m", "ttl_ms '60001': expected a whole number from 1 to 60000"},
	{SL_OP_HOLD, "HOLD k 1 a 9 distinct_5/1h", "limit 1: distinct is not held: SLUICE.CHECK with MEMBER decides"},
	{SL_OP_LEASE, "LEASE k a 9 0 1 OBSERVED 9/1m", "a lease is of one limit, neither OBSERVED nor TRIED"},
	{SL_OP_RESERVE, "RESERVE k 1 0 9/1m", "ttl_ms '0': expected a whole number from 1 to 316224000000"},
	{SL_OP_CHECK, "CHECK k 1 NEXT EXACT 9/1m", "NEXT and EACH: expected one of them"},
	{SL_OP_CHECK, "CHECK k x 9/1m", "cost 'x': expected a whole number from 0 to 4294967295"},
	{SL_OP_CHECK, "CHECK k 4294967296 9/1m", "cost '4294967296': expected a whole number from 0 to 4294967295"},
	{SL_OP_CHECK, "CHECK k 1 foo", "limit 1, column 1: "},
	{SL_OP_CHECK, "CHECK k 1 x", "limit 1, column 1: "},
	{SL_OP_CHECK, "CHECK k 1 9/1m 9/1x", "limit 2, column 4: "},
	{SL_OP_CHECK, "CHECK k 1 UPTO", "no limit for key 'k': expected at least one after it, such as 100/60s"},
	{SL_OP_CHECK, "CHECK k 1 KEY j 9/1m", "no limit for key 'k': "},
	{SL_OP_CHECK, "CHECK k 1 9/1m KEY j", "no limit for key 'j': "},
	{SL_OP_ACQUIRE, "ACQUIRE k 1 NEXT", "no limit for key 'k': expected at least one after it, such as 'concurrency"},
	{SL_OP_RELEASE, "RELEASE k a", "no limit for key 'k': expected at least one after it, such as 'concurrency 20"},
	{SL_OP_RENEW, "RENEW k a AT 5", "no limit for key 'k': expected at least one after it, such as 'concurrency 20"},
	{SL_OP_CHECK, "CHECK k 1 9/1m AT 5", "AT after a limit: expected it before the first one"},
	{SL_OP_CHECK, "CHECK k 1 AT", "AT needs an instant after it: Unix milliseconds"},
	{SL_OP_CHECK, "CHECK k 1 AT x 9/1m", "AT 'x': expected Unix milliseconds, a whole number from 0 to 9223372036854"},
	{SL_OP_CHECK, "CHECK k 1 AT 1 AT 2 9/1m", "AT twice: expected it once"},
	{SL_OP_CHECK, "CHECK k 1 NAME a 9/1m NAME b", "NAME needs a name and a limit after it"},
	{SL_OP_CHECK, "CHECK k 1 NAME '' 9/1m", "the name '' has 0 bytes: expected 1 to 64"},
	{SL_OP_CHECK, "CHECK k 1 NAME n*65 9/1m", "the name 'nnnn"},
	{SL_OP_CHECK, "CHECK k 1 ID '' 9/1m", "the ID '' has 0 bytes: expected 1 to 64"},
	{SL_OP_CHECK, "CHECK k 1 ID i*65 9/1m", "the ID 'iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii' has 65 bytes: expected 1 to 64"},
	{SL_OP_RELEASE, "RELEASE k i*65 concurrency_9_lease_1s", "the id 'iiii"},
	{SL_OP_CANCEL, "CANCEL k '' 9/1m", "id '': expected 1 to 16 hex digits"},
	{SL_OP_CANCEL, "CANCEL k -1 9/1m", "id '-1': expected 1 to 16 hex digits"},
	{SL_OP_LEASE, "LEASE k a 9 0 x 9/1m", "want 'x': expected a whole number from 0 to 4294967295"},
	{SL_OP_RESERVE, "RESERVE k 1 5 concurrency_9_lease_1s", "limit 1: concurrency is acquired and released: SLUICE.A"},
	{SL_OP_REFUND, "REFUND k 1 concurrency_9_lease_1s", "limit 1: concurrency takes no refund: "},
	{SL_OP_CHECK, "CHECK k 1 9/1m distinct_5/1h", "limit 2: distinct counts members: expected MEMBER and the member"},
	{SL_OP_CHECK, "CHECK k 1 MEMBER a distinct_3/1h 9/1m MEMBER b distinct_4/1h",
     "limit 3: another member of the same counter: expected one, and a call for each of the others"},
	{SL_OP_PEEK, "PEEK k 1 MEMBER a distinct_3/1h MEMBER b distinct_3/1h", "limit 2: another member of the same"},
	{SL_OP_REFUND, "REFUND k 1 MEMBER a distinct_3/1h MEMBER b distinct_3/1h", "limit 2: another member of the same"},
	{SL_OP_COMMIT, "COMMIT k none 5", "no ticket: 'none': expected it as SLUICE.RESERVE or SLUICE.ADMIT gave it"},
	{SL_OP_COMMIT, "COMMIT k none x", "actual 'x': expected a whole number from 0 to 4294967295"},
	{SL_OP_RELEASE, "RELEASE k 0123456789abcdef.!", "no ticket: '0123456789abcdef.!': expected it as SLUICE.ADMIT"},
	{SL_OP_RELEASE, "RELEASE k 0123456789abcdef.! at 5", "no ticket: '0123456789abcdef.!': expected it as SLUICE"},
};

static void expect_error(const char *words, const char *error) {
	if (strncmp(command.error, error, strlen(error)) != 0)
		fail_msg("%s: %s", words, command.error);
}

static void test_mistakes(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		assert_false(ask(mistakes[i].operation, mistakes[i].words));
		expect_error(mistakes[i].words, mistakes[i].error);
	}
}

/* What a door that is no front's takes: names of a policy, no instant, and no word of fronts. */
static void test_a_public_door(void **state) {
	static const struct {
		const char *words, *error;
	} wrong[] = {
		{"CHECK k 1 AT 5 9/1m", "AT is not allowed here: client-time: false"},
		{"CHECK k 1 EXACT 9/1m", "EXACT is no word of SLUICE.CHECK"},
		{"CHECK k 1 policy:none", "no limit 'policy:none'"},
		{"CHECK k 1 policy:a", "no limit 'policy:a'"}, /* as short as a word */
		{"CHECK k 1 policy:", "limit 1, column 1: "},
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(ask_at(&public_door, SL_OP_CHECK, wrong[i].words));
		expect_error(wrong[i].words, wrong[i].error);
	}
	assert_true(ask_at(&public_door, SL_OP_CHECK, "CHECK k 1 policy:both fixed-window_9/1h KEY j policy:both UPTO"));
	assert_true(call.item_count == 5 && call.upto && !call.want_next);
	assert_true(sl_bytes_equal(items[1].key, sl_str("k")) && sl_bytes_equal(items[4].key, sl_str("j")));
	assert_false(ask_at(&public_door, SL_OP_RESERVE, "RESERVE k 1 0 9/1m"));
	expect_error("0 at a public door", "ttl_ms '0': expected a whole number from 1 to ");
}

/* Sixteen limits may be asked at once, of whatever kind the seventeenth is. */
static void test_the_most_limits(void **state) {
	static const char fifteen[] =
		"CHECK k 1 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m 1/1m";
	static const char *const more[] = {"9/1m 9/1m", "9/1m NAME n 9/1m", "9/1m foo", "9/1m policy:both", "policy:both"};
	const struct sl_command_door both = {.fronts = true, .refuses_at = refuses_at, .limit = find, .named = add_named};
	char words[256];
	(void)state;
	snprintf(words, sizeof words, "%s 9/1m", fifteen);
	assert_true(ask(SL_OP_CHECK, words) && call.item_count == SLUICE_ITEMS_MAX);
	for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
		snprintf(words, sizeof words, "%s %s", fifteen, more[i]);
		assert_false(ask_at(&both, SL_OP_CHECK, words));
		expect_error(words, "too many limits: at most 16 in one request");
	}
}

/* Words in any case, and members: the first is of the limits before it, an empty one is one. */
static void test_words_and_members(void **state) {
	(void)state;
	assert_true(ask(SL_OP_CHECK, "CHECK k 12 at 70 Each iD i 9/1m MEMBER '' 8/1m MEMBER b 7/1m"));
	assert_true(call.cost == 12 && call.now == 70000000 && call.want_next && sl_bytes_equal(call.id, sl_str("i")));
	assert_true(items[0].member.data != NULL && items[0].member.len == 0 && items[1].member.len == 0);
	assert_true(sl_bytes_equal(items[2].member, sl_str("b")));
	assert_true(call.operation == SLUICE_CHARGE);
	assert_true(ask(SL_OP_HOLDERS, "HOLDERS k concurrency_9_lease_1s") && call.operation == SLUICE_PEEK);
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* A lease and a reservation of the key "k". */
static const char *write_ticket(void) {
	static char text[SL_TICKET_BYTES_MAX];
	struct sluice_limit both[2];
	struct sluice_item of[2];
	assert_int_equal(sluice_limit_parse(&both[0], sl_str("concurrency 9 lease 1s"), NULL), SLUICE_OK);
	assert_int_equal(sluice_limit_parse(&both[1], sl_str("sliding-log 9/1m"), NULL), SLUICE_OK);
	for (int i = 0; i < 2; i++)
		of[i] = (struct sluice_item){.limit = &both[i], .key = sl_str("k")};
	(void)sl_ticket_write(text, 0xfedcba9876543210, sl_str("k"), of, NULL, 2);
	return text;
}

static const struct {
	enum sl_operation operation;
	const char *before, *after; /* the ticket */
	const char *error;          /* NULL: none */
	enum sluice_algorithm algorithm;
} ticketed[] = {
	{SL_OP_RELEASE, "RELEASE k", "", NULL, SLUICE_CONCURRENCY},
	{SL_OP_RENEW, "RENEW k", " AT 70", NULL, SLUICE_CONCURRENCY},
	{SL_OP_COMMIT, "COMMIT k", " 5", NULL, SLUICE_SLIDING_LOG},
	{SL_OP_COMMIT, "COMMIT k", " 5 at 70 EXACT", NULL, SLUICE_SLIDING_LOG},
	{SL_OP_RELEASE, "RELEASE k", " 9/1m", "the ticket says its limits: expected nothing after it but AT, found '9", 0},
	{SL_OP_RELEASE, "RELEASE k", " KEY j", "the ticket says its limits: expected nothing after it but AT, found 'K", 0},
	{SL_OP_RENEW, "RENEW k", " foo", "the ticket says its limits: expected nothing after it but AT, found 'foo'", 0},
	{SL_OP_RENEW, "RENEW k", " AT x", "AT 'x': ", 0},
	{SL_OP_COMMIT, "COMMIT k", " 5 KEY j",
     "the ticket says its limits: expected nothing after it and the cost but AT, NEXT and EACH, found 'KEY'", 0},
};

static void test_tickets(void **state) {
	char words[512];
	(void)state;
	for (size_t i = 0; i < sizeof ticketed / sizeof *ticketed; i++) {
		bool read;
		snprintf(words, sizeof words, "%s %.200s%s", ticketed[i].before, write_ticket(), ticketed[i].after);
		read = ask(ticketed[i].operation, words);
		if (ticketed[i].error != NULL) {
			assert_false(read);
			expect_error(words, ticketed[i].error);
			continue;
		}
		assert_true(read && command.ticketed && call.item_count == 1);
		assert_int_equal(items[0].limit->algorithm, ticketed[i].algorithm);
		assert_true(sl_bytes_equal(items[0].key, sl_str("k")));
		assert_true(sl_bytes_equal(call.id, sl_str("fedcba9876543210")));
		assert_int_equal(call.now, strstr(ticketed[i].after, " 70") != NULL ? 70000000 : 0);
	}
	/* what only looks like a ticket is an id, if there are limits with it */
	assert_true(ask(SL_OP_RELEASE, "RELEASE k 0123456789abcdef.! concurrency_9_lease_1s") && !command.ticketed);
	assert_true(ask(SL_OP_RELEASE, "RELEASE k 0123456789abcdef.! TTL 5 concurrency_9_lease_1s") && !command.ticketed);
	assert_true(sl_bytes_equal(call.id, sl_str("0123456789abcdef.!")) && call.item_count == 1);
	assert_true(ask(SL_OP_RELEASE, "RELEASE k 0123456789abcdef.! concurrency_9_lease_1s concurrency_8_lease_2s"));
	assert_true(!command.ticketed && call.item_count == 2);
}

/* ---- long keys --------------------------------------------------------------------------------------------------- */

static void assert_folded(struct sluice_bytes text, size_t whole_len) {
	char whole[SLUICE_KEY_BYTES_MAX + 1], folded[SLUICE_KEY_BYTES_MAX];
	memset(whole, *(const char *)text.data, sizeof whole);
	assert_true(whole_len <= sizeof whole);
	assert_true(sl_bytes_equal(text, sl_key_fold(folded, sl_slice(whole, whole_len))));
}

/* A key or a member that is too long is folded where the door gives memory for it, once each, and the same key is the
 * same text. A key of just so many bytes is left as it is. */
static void test_long_keys_are_folded(void **state) {
	(void)state;
	fold_count = 0;
	assert_true(ask_at(&public_door, SL_OP_CHECK,
	                   "CHECK a*1025 1 MEMBER m*1025 9/1m distinct_5/1m KEY b*1024 9/1m KEY c*1025 9/1m"));
	assert_int_equal(fold_count, 3);
	assert_folded(items[0].key, 1025);
	assert_folded(items[0].member, 1025);
	assert_true(items[1].key.data == items[0].key.data && items[1].member.data == items[0].member.data);
	assert_folded(items[2].key, 1024);
	assert_folded(items[3].key, 1025);
	assert_true(sl_bytes_equal(command.key, items[3].key));
}

static void test_long_keys_stay_where_they_are_names(void **state) {
	(void)state;
	assert_true(ask(SL_OP_CHECK, "CHECK a*1025 1 MEMBER m*1025 distinct_5/1m KEY b*1025 9/1m"));
	assert_int_equal(items[0].key.len, 1025);
	assert_int_equal(items[0].member.len, 1025);
	assert_int_equal(items[1].key.len, 1025);
}

static void test_tickets_of_long_keys(void **state) {
	char words[512];
	(void)state;
	snprintf(words, sizeof words, "RELEASE a*1025 %.200s", write_ticket());
	fold_count = 0;
	assert_true(ask_at(&public_door, SL_OP_RELEASE, words) && command.ticketed);
	assert_folded(items[0].key, 1025);
	assert_int_equal(fold_count, 1);
}

static void test_throttle_folds_its_key(void **state) {
	struct sluice_bytes args[64];
	uint32_t count = split("CL.THROTTLE a*1025 4 5 5", args);
	(void)state;
	call = (struct sluice_call){.items = items};
	command.door = &public_door;
	assert_true(sl_command_read_throttle(&command, args, count));
	assert_folded(command.key, 1025);
	args[1].len = 1024;
	assert_true(sl_command_read_throttle(&command, args, count));
	assert_ptr_equal(command.key.data, args[1].data);
}

/* ---- ADMIT ------------------------------------------------------------------------------------------------------- */

/* Only capitals are words there, and only directly after the cost. */
static void test_admit(void **state) {
	static const struct {
		const char *words;
		uint32_t index; /* of the first attribute; 0: refused */
		const char *error;
	} rows[] = {
		{"ADMIT 1 user a", 2, NULL},
		{"ADMIT 12 UPTO NEXT user a", 4, NULL},
		{"ADMIT 1 MEMBER m OPEN ip 1.2.3.4", 5, NULL},
		{"ADMIT 1 upto a", 2, NULL},
		{"ADMIT 1 Upto a", 2, NULL},
		{"ADMIT 1 KEY a", 2, NULL},
		{"ADMIT 1 FOO a", 2, NULL},
		{"ADMIT 1 9 a", 2, NULL},
		{"ADMIT 1 user a UPTO", 2, NULL},
		{"ADMIT 1 UPTO", 2, NULL},
		{"ADMIT x user a", 0, "cost 'x': expected a whole number"},
		{"ADMIT 1 UPTO UPTO user a", 0, "UPTO twice: expected it once; an attribute of that name goes after another"},
		{"ADMIT 1 ID i*65 user a", 0, "the ID 'iiii"},
	};
	struct sluice_bytes args[64];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint32_t count = split(rows[i].words, args), index = 0;
		call = (struct sluice_call){.items = items};
		command.door = &public_door;
		bool read = sl_command_read_admit(&command, SL_OP_ADMIT, args, count, &index);
		assert_int_equal(read, rows[i].error == NULL);
		if (!read)
			expect_error(rows[i].words, rows[i].error);
		else if (index != rows[i].index)
			fail_msg("%s: %u", rows[i].words, index);
	}
}

static void test_where_the_keys_are(void **state) {
	(void)state;
	struct sluice_bytes args[64];
	uint16_t at[64];
	uint32_t count = split("CHECK a 1 NAME KEY 9/1m KEY b MEMBER key COST 5 9/1m key c 9/1m KEY", args);
	assert_int_equal(sl_command_keys(SL_OP_CHECK, args, count, at), 3);
	assert_true(at[0] == 1 && at[1] == 7 && at[2] == 14);
	assert_int_equal(sl_command_keys(SL_OP_COMMIT, args, count, at), 1);
	assert_int_equal(sl_command_keys(SL_OP_CHECK, args, 1, at), 0);
	count = split("CHECK a 1 foo KEY b", args);
	assert_int_equal(sl_command_keys(SL_OP_CHECK, args, count, at), 2);
	count = split("CHECK a 1 foo KEY b x", args);
	assert_int_equal(sl_command_keys(SL_OP_CHECK, args, count, at), 2);
	assert_int_equal(at[1], 5);
}

/* Each form tells of all that it takes, once, and no member of JSON means two things. */
static void test_the_tables(void **state) {
	(void)state;
	struct sl_argument told[SL_ARGUMENTS_MAX];
	for (unsigned i = 0; i < SL_OP_THROTTLE; i++) {
		const struct sl_form *form = &sl_forms[i];
		uint32_t count = sl_command_arguments(i, true, told);
		assert_non_null(form->name);
		assert_int_equal(form->words & form->fronts, 0);
		assert_true(count >= form->field_count + (uint32_t)__builtin_popcount(form->words | form->fronts));
		for (uint32_t k = 0; k < count; k++)
			for (uint32_t j = 0; j < k && told[k].token != NULL; j++)
				assert_true(told[j].token == NULL || strcmp(told[j].token, told[k].token) != 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_stands_in_front_of_a_limit), cmocka_unit_test(test_holds_and_slices),
		cmocka_unit_test(test_mistakes),                        cmocka_unit_test(test_a_public_door),
		cmocka_unit_test(test_the_most_limits),                 cmocka_unit_test(test_words_and_members),
		cmocka_unit_test(test_tickets),                         cmocka_unit_test(test_admit),
		cmocka_unit_test(test_long_keys_are_folded),            cmocka_unit_test(test_tickets_of_long_keys),
		cmocka_unit_test(test_long_keys_stay_where_they_are_names),
		cmocka_unit_test(test_throttle_folds_its_key),
		cmocka_unit_test(test_where_the_keys_are),              cmocka_unit_test(test_the_tables),
	};
	return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
