/* What the RESP door decides: its commands' grammar, every mistake and that it changes nothing, redis-cell's vectors,
 * policies, batches, a full store. How it talks is in door_resp_test.c. */
#include "tests/unit/door_resp.h"

#include "hosts/server/resp/resp.h"

static const char no_policy[] = "limits: []\n";
static const char with_time[] = "client-time: true\n";

/* ---- limits that the caller brings along ------------------------------------------------------------------------ */

static void test_one_limit_until_it_denies(void **state) {
	(void)state;
	struct client client;
	char answer[160];
	client_open(&client, no_policy);
	client_expect(&client, "SLUICE.CHECK k 3 \"sliding-log 5/1s\"\r\n", seven(answer, 1, 5, 2, 0, 1000, 0, 0));
	client_expect(&client, "sluice.peek k 2 \"sliding-log 5/1s\"\r\n", seven(answer, 1, 5, 2, 0, 1000, 0, 0));
	client_expect(&client, "SLUICE.CHECK k 3 \"sliding-log 5/1s\"\r\n", seven(answer, 0, 5, 2, 1000, 1000, 0, 0));
	client_expect(&client, "SLUICE.CHECK k 6 \"sliding-log 5/1s\"\r\n", seven(answer, 0, 5, 2, -1, 1000, 0, 0));
	client_expect(&client, "SLUICE.REFUND k 2 \"sliding-log 5/1s\"\r\n", seven(answer, 1, 5, 4, 0, 1000, 0, 0));
	client_expect(&client, "SLUICE.CHECK k 0 \"sliding-log 5/1s\"\r\n", seven(answer, 1, 5, 4, 0, 1000, 0, 0));
	client_expect(&client, "SLUICE.RESET k \"sliding-log 5/1s\" 1/1s\r\n", ":1\r\n");
	client_expect(&client, "SLUICE.RESET k \"sliding-log 5/1s\"\r\n", ":0\r\n");
	client_expect(&client, "SLUICE.CHECK k 5 \"sliding-log 5/1s\"\r\n", seven(answer, 1, 5, 0, 0, 1000, 0, 0));
	client_expect(&client, "SLUICE.CHECK k 5 unlimited\r\n", seven(answer, 1, 4294967295, 4294967295, 0, 0, 0, -1));
	client_expect(&client, "SLUICE.CHECK l 3 \"leaky-bucket 1/1s queue 4294967295\"\r\n",
	              seven(answer, 1, 4294967296, 4294967293, 0, 3000, 2000, 0));
	client_close(&client);
}

static void test_several_limits_and_keys(void **state) {
	(void)state;
	struct client client;
	char answer[160];
	client_open(&client, no_policy);
	client_expect(&client,
	              "SLUICE.CHECK user:1 1 \"fixed-window 10/1s\" \"fixed-window 120/1m\" "
	              "KEY ip:9 \"fixed-window 2/1s\"\r\n",
	              seven(answer, 1, 2, 1, 0, 60000, 0, 2));
	client_expect(&client, "SLUICE.CHECK user:2 1 \"fixed-window 10/1s\" key ip:9 \"fixed-window 2/1s\"\r\n",
	              seven(answer, 1, 2, 0, 0, 1000, 0, 1));
	/* ip:9 denies, so user:1 pays nothing. */
	client_expect(&client, "SLUICE.CHECK user:1 1 \"fixed-window 10/1s\" KEY ip:9 \"fixed-window 2/1s\"\r\n",
	              seven(answer, 0, 2, 0, 1000, 1000, 0, 1));
	client_expect(&client, "SLUICE.PEEK user:1 1 \"fixed-window 10/1s\"\r\n", seven(answer, 1, 10, 9, 0, 1000, 0, 0));
	client_expect(&client, "SLUICE.RESET user:1 \"fixed-window 10/1s\" KEY ip:9 \"fixed-window 2/1s\"\r\n", ":2\r\n");
	/* A key may read KEY or AT, and may be empty. */
	client_expect(&client, "SLUICE.CHECK KEY 1 1/1s KEY AT 1/1s KEY KEY 1/1d KEY \"\" 1/1d\r\n",
	              seven(answer, 1, 1, 0, 0, 144000000, 0, 0));
	client_close(&client);
}

static const struct {
	const char *sent, *error;
} mistakes[] = {
	{"SLUICE.CHECK k", "wrong number of arguments for 'sluice.check' command"},
	{"SLUICE.CHECK k 1", "wrong number of arguments for 'sluice.check' command"},
	{"SLUICE.PEEK k 1", "wrong number of arguments for 'sluice.peek' command"},
	{"SLUICE.REFUND k 1", "wrong number of arguments for 'sluice.refund' command"},
	{"SLUICE.RESET k", "wrong number of arguments for 'sluice.reset' command"},
	{"SLUICE.ADMIT 1 user", "wrong number of arguments for 'sluice.admit' command"},
	{"SLUICE.EXPLAIN 1", "wrong number of arguments for 'sluice.explain' command"},
	{"CL.THROTTLE k 1 2", "wrong number of arguments for 'cl.throttle' command"},
	{"CL.THROTTLE k 1 2 3 4 5", "wrong number of arguments for 'cl.throttle' command"},
	{"SLUICE.CHECK k -1 5/1m", "cost '-1': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k +1 5/1m", "cost '+1': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k 1.5 5/1m", "cost '1.5': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k '' 5/1m", "cost '': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k a 5/1m", "cost 'a': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k \"\\x00\" 5/1m", "cost '\\x00': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k 4294967296 5/1m", "cost '4294967296': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k 99999999999999999999999 5/1m",
     "cost '99999999999999999999999': expected a whole number from 0 to 4294967295"},
	{"SLUICE.CHECK k 1 5/1m 5/1x", "limit 2, column 4: "},
	{"SLUICE.CHECK k 1 5/1m ''", "limit 2, column 1: "},
	{"SLUICE.CHECK k 1 5/1m \"sliding-log 5/1m \"", "limit 2, column 17: "},
	{"SLUICE.CHECK k 1 5/1m KEY j 5/1m nonsense", "limit 3, column 1: "},
	{"SLUICE.CHECK k 1 5/1m KEY", "KEY needs a key and at least one limit after it"},
	{"SLUICE.CHECK k 1 5/1m KEY j", "no limit for key 'j': expected at least one after it, such as 100/60s"},
	{"SLUICE.CHECK k 1 KEY j 5/1m", "no limit for key 'k': expected at least one after it, such as 100/60s"},
	{"SLUICE.CHECK k 1 5/1m KEY i KEY j 5/1m", "no limit for key 'i': expected at least one after it, such as 100/60s"},
	{"SLUICE.RESET k 5/1m KEY j", "no limit for key 'j': expected at least one after it, such as 100/60s"},
	{"SLUICE.CHECK k 1 AT 5 5/1m", "AT is not allowed here: set client-time: true in the policy file"},
	{"SLUICE.CHECK k 1 5/1m AT 5", "AT after a limit: expected it before the first one"},
	{"SLUICE.CHECK k 1 5/1m 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s 1/1s",
     "too many limits: at most 16 in one request"},
	{"SLUICE.CHECK k 1 5/1m \"concurrency 5 lease 1s\"",
     "limit 2: concurrency is acquired and released: SLUICE.ACQUIRE"},
	{"CL.THROTTLE k -1 2 3", "max_burst '-1': expected a whole number from 0 to 4294967294"},
	{"CL.THROTTLE k x 2 3", "max_burst 'x': expected a whole number from 0 to 4294967294"},
	{"CL.THROTTLE k 9223372036854775807 2 3",
     "max_burst '9223372036854775807': expected a whole number from 0 to 4294967294"},
	{"CL.THROTTLE k 4 0 5", "count '0': expected a whole number from 1 to 4294967295"},
	{"CL.THROTTLE k 4 -5 5", "count '-5': expected a whole number from 1 to 4294967295"},
	{"CL.THROTTLE k 4 5 0", "period '0': expected a whole number from 1 to 316224000"},
	{"CL.THROTTLE k 4 5 -5", "period '-5': expected a whole number from 1 to 316224000"},
	{"CL.THROTTLE k 4 5 6 x", "quantity 'x': expected a whole number from -4294967295 to 4294967295"},
	{"CL.THROTTLE k 4 5 6 4294967296", "quantity '4294967296': expected a whole number from -4294967295 to 4294967295"},
};

static void test_mistakes_are_named_and_change_nothing(void **state) {
	(void)state;
	struct client client;
	char answer[160], sent[512];
	client_open(&client, no_policy);
	client_expect(&client, "SLUICE.CHECK k 2 5/1m\r\n", seven(answer, 1, 5, 3, 0, 120000, 0, 0));
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		snprintf(sent, sizeof sent, "%s\r\n", mistakes[i].sent);
		const char *got = client_ask(&client, sent);
		assert_memory_equal(got, "-ERR ", 5);
		assert_memory_equal(got + 5, mistakes[i].error, strlen(mistakes[i].error));
		assert_string_equal(strstr(got, "\r\n"), "\r\n");
		assert_int_equal(client.verdict, SL_DOOR_OPEN);
		client_expect(&client, "SLUICE.PEEK k 0 5/1m\r\n", answer);
		client_expect(&client, "CL.THROTTLE k 4 5 5 0\r\n", "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n");
	}
	client_close(&client);
}

static void test_keys_are_of_any_length(void **state) {
	(void)state;
	static const char *const forms[] = {"SLUICE.CHECK %.*s 1 1/1s\r\n", "SLUICE.CHECK k 1 1/1s KEY %.*s 1/1s\r\n",
	                                    "SLUICE.RESET %.*s 1/1s\r\n", "CL.THROTTLE %.*s 1 1 1\r\n"};
	struct client client;
	char key[1026], sent[1200];
	memset(key, 'x', sizeof key);
	client_open(&client, no_policy);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		for (int len = 1024; len <= 1025; len++) {
			snprintf(sent, sizeof sent, forms[i], len, key);
			assert_int_not_equal(client_ask(&client, sent)[0], '-');
		}
	client_close(&client);
}

/* What commands keep until the batch is decided takes no room once they have failed, or were answered at once: of long
 * keys, and of keys that are written anew for a limit of the policy. */
static void test_failed_commands_take_no_room(void **state) {
	(void)state;
	static const struct {
		const char *form;
		int key_len, times;
	} rows[] = {{"SLUICE.CHECK %.*s 1 nonsense\r\n", 1500, 600},
	            {"SLUICE.HOLDERS %.*s 'concurrency 1 lease 1s'\r\n", 1500, 600},
	            {"SLUICE.CHECK method=%.*s 1 policy:x nonsense\r\n", 900, 700}};
	struct client client;
	char key[1501], sent[1600];
	memset(key, 'x', sizeof key);
	client_open(&client, "limits: [{name: x, key: method, limit: 1/1s}]\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		snprintf(sent, sizeof sent, rows[i].form, rows[i].key_len, key);
		for (int k = 0; k < rows[i].times; k++)
			assert_int_equal(client_ask(&client, sent)[0], i == 1 ? '*' : '-');
	}
	client_close(&client);
}

static void test_instants_from_clients(void **state) {
	(void)state;
	struct client client;
	char answer[160];
	client_open(&client, with_time);
	client_expect(&client, "SLUICE.CHECK k 1 AT 0 \"fixed-window 2/1s\"\r\n", seven(answer, 1, 2, 1, 0, 1000, 0, 0));
	client_expect(&client, "SLUICE.CHECK k 1 at 999 \"fixed-window 2/1s\"\r\n", seven(answer, 1, 2, 0, 0, 1, 0, 0));
	client_expect(&client, "SLUICE.PEEK k 1 AT 999 \"fixed-window 2/1s\"\r\n", seven(answer, 0, 2, 0, 1, 1, 0, 0));
	client_expect(&client, "SLUICE.PEEK k 1 AT 1000 \"fixed-window 2/1s\"\r\n", seven(answer, 1, 2, 2, 0, 0, 0, 0));
	client_expect(&client, "SLUICE.REFUND k 1 AT 999 \"fixed-window 2/1s\"\r\n", seven(answer, 1, 2, 1, 0, 1, 0, 0));
	client_expect(&client, "SLUICE.RESET k AT 999 \"fixed-window 2/1s\"\r\n", ":1\r\n");
	client_expect(&client, "SLUICE.CHECK k 1 AT 9223372036854 \"fixed-window 2/1s\"\r\n",
	              seven(answer, 1, 2, 1, 0, 146, 0, 0));
	static const char *const bad[] = {"9223372036855", "-1", "1.5", "x", "''", "18446744073709551616"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char sent[128];
		snprintf(sent, sizeof sent, "SLUICE.CHECK k 1 AT %s 2/1s\r\n", bad[i]);
		const char *got = client_ask(&client, sent);
		assert_memory_equal(got, "-ERR AT '", 9);
		assert_non_null(strstr(got, ": expected Unix milliseconds, a whole number from 0 to 9223372036854\r\n"));
	}
	client_expect(&client, "SLUICE.CHECK k 1 AT 5\r\n",
	              "-ERR no limit for key 'k': expected at least one after it, such as 100/60s\r\n");
	client_expect(&client, "SLUICE.CHECK k 1 AT\r\n", "-ERR AT needs an instant after it: Unix milliseconds\r\n");
	client_close(&client);
}

/* ---- redis-cell ------------------------------------------------------------------------------------------------- */

/* redis-cell 0.5.0's own answers, run there; calls of one instant. */
static const struct {
	const char *call;
	int answer[5];
} cell[] = {
	{"a 15 30 60", {0, 16, 15, -1, 2}},
	{"a 15 30 60", {0, 16, 14, -1, 4}},
	{"z 15 30 60 0", {0, 16, 16, -1, 0}},
	{"z 15 30 60 0", {0, 16, 16, -1, 0}},
	{"a 15 30 60 0", {0, 16, 14, -1, 4}},
	{"o 4 5 5 6", {1, 5, 5, -1, 0}},
	{"o 4 5 5 5", {0, 5, 0, -1, 5}},
	{"o 4 5 5 1", {1, 5, 0, 1, 5}},
	{"o 4 5 5 6", {1, 5, 0, -1, 5}},
	{"o 4 5 5 0", {0, 5, 0, -1, 5}},
	{"b 0 1 2", {0, 1, 0, -1, 2}},
	{"b 0 1 2", {1, 1, 0, 2, 2}},
	{"g 4 5 5 3", {0, 5, 2, -1, 3}},
	{"g 4 5 5 -1", {0, 5, 3, -1, 2}},
	{"g 4 5 5 0", {0, 5, 3, -1, 2}},
	{"s 0 10 1", {0, 1, 0, -1, 1}},
	{"s 0 10 1", {1, 1, 0, 1, 1}},
	/* Where it errs: a refund creates nothing, and seconds are rounded up. */
	{"h 4 5 5 -2", {0, 5, 5, -1, 0}},
	{"m 0 2000 1", {0, 1, 0, -1, 1}},
};

static void test_golden_vectors_of_redis_cell(void **state) {
	(void)state;
	struct client client;
	char sent[128], answer[128];
	client_open(&client, no_policy);
	for (size_t i = 0; i < sizeof cell / sizeof *cell; i++) {
		const int *a = cell[i].answer;
		snprintf(sent, sizeof sent, "CL.THROTTLE %s\r\n", cell[i].call);
		snprintf(answer, sizeof answer, "*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", a[0], a[1], a[2], a[3], a[4]);
		client_expect(&client, sent, answer);
	}
	client_close(&client);
}

static void test_throttle_has_counters_of_its_own(void **state) {
	(void)state;
	struct client client;
	char answer[160];
	client_open(&client, no_policy);
	client_ask(&client, "CL.THROTTLE k 4 5 5 5\r\n");
	client_expect(&client, "SLUICE.CHECK k 5 \"token-bucket 5/5s burst 5\"\r\n", seven(answer, 1, 5, 0, 0, 5000, 0, 0));
	client_close(&client);
}

/* Inline words touch each other in memory, arrays do not: neither may mix up 1, 23 and 12, 3. */
static void test_throttle_tells_numbers_apart(void **state) {
	(void)state;
	struct client client;
	client_open(&client, no_policy);
	client_expect(&client, "CL.THROTTLE a 1 23 1\r\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
	client_expect(&client, "CL.THROTTLE b 12 3 1\r\n", "*5\r\n:0\r\n:13\r\n:12\r\n:-1\r\n:1\r\n");
	client_expect(&client, "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nc\r\n$1\r\n1\r\n$2\r\n23\r\n$1\r\n1\r\n",
	              "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
	client_expect(&client, "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nd\r\n$2\r\n12\r\n$1\r\n3\r\n$1\r\n1\r\n",
	              "*5\r\n:0\r\n:13\r\n:12\r\n:-1\r\n:1\r\n");
	client_close(&client);
}

/* ---- policies --------------------------------------------------------------------------------------------------- */

static const char policy[] = "limits:\n"
							 "  - {name: strict, when: {plan: free}, key: user, limit: fixed-window 2/1m}\n"
							 "  - {name: wide, key: [user, path], limit: sliding-log 3/1s}\n"
							 "  - {name: seen, key: user, limit: fixed-window 1/1s, observe: true}\n";

static void test_admit(void **state) {
	(void)state;
	struct client client;
	client_open(&client, policy);
	client_expect(&client, "SLUICE.ADMIT 1 user bob path /x\r\n",
	              "*8\r\n:1\r\n:3\r\n:2\r\n:0\r\n:1000\r\n:0\r\n:1\r\n$4\r\nwide\r\n");
	client_expect(&client, "SLUICE.ADMIT 2 user bob path /x plan free\r\n",
	              "*8\r\n:1\r\n:2\r\n:0\r\n:0\r\n:60000\r\n:0\r\n:0\r\n$6\r\nstrict\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 user bob path /x plan free\r\n",
	              "*8\r\n:0\r\n:2\r\n:0\r\n:60000\r\n:60000\r\n:0\r\n:0\r\n$6\r\nstrict\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 AT 5 color red\r\n",
	              "*8\r\n:1\r\n:4294967295\r\n:4294967295\r\n:0\r\n:0\r\n:0\r\n:-1\r\n$0\r\n\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 user bob path\r\n",
	              "-ERR attribute 'path' has no value: expected pairs of a name and a value\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 user bob path /x user bob\r\n",
	              "-ERR the attribute 'user' is given twice: expected each once\r\n");
	client_expect(&client, "SLUICE.EXPLAIN 1 x 1 y 2 x 1\r\n",
	              "-ERR the attribute 'x' is given twice: expected each once\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 '' bob\r\n", "-ERR the attribute name '' has 0 bytes: expected 1 to 64\r\n");
	client_expect(&client, "SLUICE.ADMIT x user bob\r\n",
	              "-ERR cost 'x': expected a whole number from 0 to 4294967295\r\n");
	client_close(&client);
}

static void test_explain(void **state) {
	(void)state;
	struct client client;
	static const char asked[] = "SLUICE.EXPLAIN 2 user \"b,o=b%\" path /x plan free\r\n";
	static const char told[] = "*3\r\n"
							   "*9\r\n$6\r\nstrict\r\n$17\r\nfixed-window 2/1m\r\n$17\r\nuser=b%2Co%3Db%25\r\n"
							   ":1\r\n:2\r\n:2\r\n:0\r\n:0\r\n:0\r\n"
							   "*9\r\n$4\r\nwide\r\n$16\r\nsliding-log 3/1s\r\n$25\r\nuser=b%2Co%3Db%25,path=/x\r\n"
							   ":1\r\n:3\r\n:3\r\n:0\r\n:0\r\n:0\r\n"
							   "*9\r\n$4\r\nseen\r\n$17\r\nfixed-window 1/1s\r\n$17\r\nuser=b%2Co%3Db%25\r\n"
							   ":0\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n";
	client_open(&client, policy);
	client_expect(&client, asked, told);
	client_expect(&client, asked, told); /* nothing was charged */
	client_expect(&client, "SLUICE.EXPLAIN 1 color red\r\n", "*0\r\n");
	client_close(&client);
}

/* Sends a request a millisecond until its log has no room to grow; returns that answer. */
static const char *fill_log(struct client *client, const char *request) {
	for (int i = 0; i < 1000000; i++) {
		const char *got = client_ask(client, request);
		if (strncmp(got, "*7\r\n:1\r\n:4000000000\r\n", 21) != 0 &&
		    strncmp(got, "*8\r\n:1\r\n:4000000000\r\n", 21) != 0)
			return got;
		client->context.now += 1000000;
	}
	fail_msg("a store of 1 MiB holds any log");
	return NULL;
}

/* The log denies, until its oldest charge is gone, whatever on-error says; those that have room go on. */
static void test_no_room_for_a_log(void **state) {
	(void)state;
	struct client client;
	char answer[160];
	client_open(&client, no_policy);
	client_ask(&client, "SLUICE.CHECK first 1 \"fixed-window 9/1d\"\r\n");
	const char *got = fill_log(&client, "SLUICE.CHECK key 1 \"sliding-log 4G/1d\"\r\n");
	long long retry_ms = 86400000 - (long long)(client.context.now - NOW_NS) / 1000000;
	assert_string_equal(got, seven(answer, 0, 4000000000, 0, retry_ms, 86399999, 0, 0));
	client.context.now = NOW_NS;
	client_expect(&client, "SLUICE.CHECK first 1 \"fixed-window 9/1d\"\r\n",
	              seven(answer, 1, 9, 7, 0, 57600000, 0, 0)); /* those that have room go on */
	client_close(&client);
	client_open(&client, "limits:\n  - {name: a, key: user, limit: sliding-log 4G/1d, on-error: allow}\n"
	                     "  - {name: b, key: path, limit: fixed-window 9/1d}\n");
	got = fill_log(&client, "SLUICE.ADMIT 1 user 1\r\n");
	assert_non_null(strstr(got, "*8\r\n:0\r\n:4000000000\r\n:0\r\n"));
	assert_non_null(strstr(got, ":0\r\n$1\r\na\r\n"));
	assert_non_null(strstr(client_ask(&client, "SLUICE.ADMIT 1 user 1 path /\r\n"), "$1\r\na\r\n"));
	assert_non_null(strstr(client_ask(&client, "SLUICE.ADMIT 1 path /\r\n"), "*8\r\n:1\r\n:9\r\n:8\r\n"));
	client_close(&client);
}

#define ADMIT_PATH(path) \
	"*6\r\n$12\r\nSLUICE.ADMIT\r\n$1\r\n1\r\n$4\r\nuser\r\n$1\r\nx\r\n$4\r\npath\r\n$2\r\n" path "\r\n"

/* In one batch, limits of the same quota: each answer has its own limit's position and name. */
static void test_admits_of_one_batch(void **state) {
	static const char twins[] = "limits:\n"
								"  - {name: a, when: {path: /a}, key: user, limit: sliding-log 3/1s}\n"
								"  - {name: long-b, when: {path: /b}, key: user, limit: sliding-log 3/1s}\n";
	(void)state;
	struct client client;
	client_open(&client, twins);
	client_expect(&client,
	              ADMIT_PATH("/a") ADMIT_PATH("/b") ADMIT_PATH("/a"),
	              "*8\r\n:1\r\n:3\r\n:2\r\n:0\r\n:1000\r\n:0\r\n:0\r\n$1\r\na\r\n"
	              "*8\r\n:1\r\n:3\r\n:2\r\n:0\r\n:1000\r\n:0\r\n:1\r\n$6\r\nlong-b\r\n"
	              "*8\r\n:1\r\n:3\r\n:1\r\n:0\r\n:1000\r\n:0\r\n:0\r\n$1\r\na\r\n");
	client_close(&client);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* One of several kinds of request, by number; a quarter of the CHECKs hold a mistake. */
static int write_request(char *to, size_t bytes, int i) {
	if (i % 101 == 50)
		return snprintf(to, bytes, "*1\r\n$4\r\nPING\r\n");
	if (i % 7 == 3)
		return snprintf(to, bytes,
		                "*6\r\n$12\r\nSLUICE.ADMIT\r\n$1\r\n1\r\n$4\r\nuser\r\n$1\r\n%d\r\n$4\r\npath\r\n$2\r\n/%d\r\n",
		                i % 10, i % 5);
	if (i % 7 == 5)
		return snprintf(to, bytes, "*5\r\n$11\r\nCL.THROTTLE\r\n$2\r\n%02d\r\n$1\r\n%d\r\n$2\r\n10\r\n$2\r\n60\r\n",
		                i % 30, i % 9);
	return snprintf(to, bytes,
	                "*5\r\n$12\r\nSLUICE.CHECK\r\n$2\r\n%02d\r\n$1\r\n1\r\n"
	                "$7\r\n%04d/1m\r\n$19\r\nsliding-log %04d/9%c\r\n",
	                i % 50, i, i + 1, i % 4 != 0 ? 's' : 'x');
}

/* A pipeline far longer than a batch, with more different limits than there are spares, many of whose texts fall on the
 * same cache lines: answered as one by one. */
static void test_long_pipelines_answer_as_single_calls(void **state) {
	(void)state;
	enum { CALLS = 3000, TEXT = 160 };
	struct client pipeline, single;
	struct sl_buffer answers = {.data = NULL};
	char *sent = malloc((size_t)CALLS * TEXT);
	size_t len = 0;
	assert_non_null(sent);
	client_open(&pipeline, policy);
	client_open(&single, policy);
	for (int i = 0; i < CALLS; i++) {
		int call_len = write_request(sent + len, TEXT, i);
		assert_in_range(call_len, 1, TEXT - 1);
		single.out.len = 0;
		client_feed(&single, sent + len, (size_t)call_len);
		assert_true(sl_buffer_append(&answers, single.out.data, single.out.len));
		len += (size_t)call_len;
	}
	assert_int_equal(client_feed(&pipeline, sent, len), 0);
	assert_int_equal(pipeline.out.len, answers.len);
	assert_memory_equal(pipeline.out.data, answers.data, answers.len);
	sl_buffer_free(&answers);
	free(sent);
	client_close(&pipeline);
	client_close(&single);
}

/* Sixteen limits a call and none of their texts fit the cache: the spares run out and the batch ends early. */
static void test_limits_too_long_for_the_cache(void **state) {
	(void)state;
	enum { CALLS = 40 };
	static char sent[CALLS * 2048];
	struct client client;
	size_t len = 0;
	client_open(&client, no_policy);
	for (int i = 0; i < CALLS; i++) {
		len += (size_t)snprintf(sent + len, 64, "*19\r\n$12\r\nSLUICE.CHECK\r\n$1\r\nk\r\n$1\r\n1\r\n");
		for (int j = 0; j < 16; j++) {
			char text[96];
			int text_len =
				snprintf(text, sizeof text, "sliding-buckets %02d00000000/%d000s precision 100000ms edge weighted",
			             10 + j, 100 + j * 10);
			assert_true(text_len > SL_RESP_CACHE_TEXT_MAX);
			len += (size_t)snprintf(sent + len, 128, "$%d\r\n%s\r\n", text_len, text);
		}
	}
	assert_int_equal(client_feed(&client, sent, len), 0);
	const char *at = client.out.data;
	for (int i = 0; i < CALLS; i++) {
		char head[64];
		snprintf(head, sizeof head, "*7\r\n:1\r\n:1000000000\r\n:%d\r\n:0\r\n", 999999999 - i);
		assert_memory_equal(at, head, strlen(head));
		at = i + 1 < CALLS ? strchr(at + 1, '*') : at;
		assert_non_null(at);
	}
	client_close(&client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_limit_until_it_denies),
		cmocka_unit_test(test_several_limits_and_keys),
		cmocka_unit_test(test_mistakes_are_named_and_change_nothing),
		cmocka_unit_test(test_keys_are_of_any_length),
		cmocka_unit_test(test_failed_commands_take_no_room),
		cmocka_unit_test(test_instants_from_clients),
		cmocka_unit_test(test_golden_vectors_of_redis_cell),
		cmocka_unit_test(test_throttle_has_counters_of_its_own),
		cmocka_unit_test(test_throttle_tells_numbers_apart),
		cmocka_unit_test(test_admit),
		cmocka_unit_test(test_admits_of_one_batch),
		cmocka_unit_test(test_explain),
		cmocka_unit_test(test_no_room_for_a_log),
		cmocka_unit_test(test_long_pipelines_answer_as_single_calls),
		cmocka_unit_test(test_limits_too_long_for_the_cache),
	};
	return cmocka_run_group_tests_name("door_resp_limits", tests, NULL, NULL);
}
