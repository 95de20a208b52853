/* What a command of the RESP door leaves in its worker's memory: one that fails, or answers at once, joins no batch,
 * whose end would give it back. */
#include "tests/unit/door_resp.h"

#include "hosts/server/resp/resp.h"
#include "policy/envoy.h"

static const char no_policy[] = "limits: []\n";
static const char of_paths[] = "limits:\n"
                               "  - {name: p, key: path, limit: 1000/1m}\n";

/* How often the words stand in the answers. */
static uint32_t count_words(const char *answers, const char *words) {
	uint32_t count = 0;
	for (const char *p = answers; (p = strstr(p, words)) != NULL; p++)
		count++;
	return count;
}

/* Notations longer than a line of the cache, all different. */
static size_t put_long_limits(char *to, size_t room, uint32_t count, uint32_t from) {
	size_t len = 0;
	for (uint32_t i = 0; i < count; i++)
		len += (size_t)snprintf(to + len, room - len, " \"token-bucket %08u/00000000000000000000000000000000000001s\"",
		                        from + i);
	return len;
}

/* Each takes as many spare limits as a command may, and joins no batch. */
static void test_limits_of_commands_that_join_no_batch(void **state) {
	static const char *const commands[] = {"SLUICE.CHECK k 1", "SLUICE.INSPECT k"};
	(void)state;
	struct client client;
	char line[2048];
	client_open(&client, no_policy);
	for (uint32_t i = 0; i < 2 * SL_RESP_SPARES; i++) {
		size_t len = (size_t)snprintf(line, sizeof line, "%s", commands[i % 2]);
		len += put_long_limits(line + len, sizeof line - len, SLUICE_ITEMS_MAX - 1, 1 + i * SLUICE_ITEMS_MAX);
		snprintf(line + len, sizeof line - len, "%s\r\n", i % 2 == 0 ? " nonsense" : "");
		const char *answer = client_ask(&client, line);
		assert_int_equal(answer[0], i % 2 == 0 ? '-' : '*');
		assert_int_equal(client.verdict, SL_DOOR_OPEN);
	}
	client_close(&client);
}

/* `count` limits of the policy for one key, which is brought into its form for each of them: one byte less. */
static size_t put_named(char *to, size_t room, size_t key_len, uint32_t count) {
	size_t len = (size_t)snprintf(to, room, "*%u\r\n$12\r\nSLUICE.CHECK\r\n$%zu\r\npath=/", 3 + count, key_len);
	memset(to + len, 'a', key_len - 6);
	to[len] = '/';
	len += key_len - 6;
	len += (size_t)snprintf(to + len, room - len, "\r\n$1\r\n1\r\n");
	for (uint32_t i = 0; i < count; i++)
		len += (size_t)snprintf(to + len, room - len, "$8\r\npolicy:p\r\n");
	return len;
}

/* The match buffer has room for the forms of a call's keys when the call begins; a 17th limit is refused, so its key
 * must not want any. */
static void test_a_limit_too_many_takes_no_room_for_its_key(void **state) {
	enum { KEY = SLUICE_KEY_BYTES_MAX - 1, ROOM = 256 * 1024 };
	const size_t call = (size_t)SLUICE_ITEMS_MAX * (KEY - 1);
	const size_t most = SLUICE_MATCH_BYTES_MAX - (size_t)SLUICE_ITEMS_MAX * SLUICE_KEY_BYTES_MAX;
	(void)state;
	struct client client;
	char *bytes = malloc(ROOM);
	assert_non_null(bytes);
	client_open(&client, of_paths);
	for (size_t rest = 0; rest < 3; rest++) {
		size_t len = 0;
		for (size_t i = 0; i < most / call; i++)
			len += put_named(bytes + len, ROOM - len, KEY, SLUICE_ITEMS_MAX);
		len += put_named(bytes + len, ROOM - len, most % call + 1 - rest, 1);
		len += put_named(bytes + len, ROOM - len, KEY, SLUICE_ITEMS_MAX + 1);
		bytes[len] = '\0';
		const char *answers = client_ask(&client, bytes);
		assert_int_equal(count_words(answers, "-ERR too many limits: at most 16 in one request"), 1);
		assert_int_equal(count_words(answers, "*7\r\n"), most / call + 1);
	}
	client_close(&client);
	free(bytes);
}

/* The key of a rule is folded entry by entry; before, its domain and the first entry stand there whole, encoded. */
static void test_the_longest_key_of_a_rule(void **state) {
	enum { LEN = SLUICE_KEY_BYTES_MAX };
	static char yaml[4 * LEN], bytes[8 * LEN];
	char text[LEN + 1];
	struct client client;
	struct sluice_problems problems;
	(void)state;
	memset(text, '=', LEN);
	text[LEN] = '\0';
	client_open(&client, "envoy: {config: /x}\n");
	snprintf(yaml, sizeof yaml,
	         "domain: '%s'\ndescriptors:\n  - key: '%s'\n    rate_limit: {unit: day, requests_per_unit: 1}\n", text,
	         text);
	struct sluice_policy *policy = (struct sluice_policy *)client.context.policy; /* nobody else has it yet */
	assert_int_equal(sl_policy_envoy_add(policy, "f.yaml", sl_str(yaml), &problems), SLUICE_OK);
	sluice_problems_free(&problems);
	snprintf(bytes, sizeof bytes, "*4\r\n$11\r\nSLUICE.RULE\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", LEN,
	         text, LEN, text, LEN, text);
	const char *answer = client_ask(&client, bytes);
	assert_memory_equal(answer, "*16\r\n", 5);
	assert_non_null(strstr(answer, "\r\n$1024\r\n%3D%3D"));
	client_close(&client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_of_commands_that_join_no_batch),
		cmocka_unit_test(test_a_limit_too_many_takes_no_room_for_its_key),
		cmocka_unit_test(test_the_longest_key_of_a_rule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
