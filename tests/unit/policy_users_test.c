/* Users of a policy file: what loads, what is refused, and that no message ever repeats a secret. */
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEX16 "0123456789abcdef"
#define SALT HEX16 "0123456789ABCDEF"
#define HASH HEX16 HEX16 HEX16 "fedcba9876543210"
#define PASSWORD "\"pbkdf2-sha256:1000:" SALT ":" HASH "\""
#define TOKEN "\"sha256:" HASH "\""

static void test_loads(void **state) {
	struct sluice_policy *policy = sl_policy_loads("users:\n"
	                                               "  - {name: api, password: " PASSWORD ", roles: [check]}\n"
	                                               "  - {name: prometheus, token: " TOKEN ", role: read}\n"
	                                               "  - role: [admin, read]\n"
	                                               "    password: pbkdf2-sha256:10000000:" SALT ":" HASH "\n"
	                                               "    name: 'a!~/\"x'\n"
	                                               "anonymous: [check, read]\n");
	const struct sl_settings *settings = sl_policy_settings(policy);
	const struct sl_user *users = settings->users;
	(void)state;
	assert_int_equal(settings->user_count, 3);
	assert_int_equal(settings->anonymous, SL_ROLE_CHECK | SL_ROLE_READ);
	assert_true(sl_bytes_equal(users[0].name, sl_str("api")));
	assert_int_equal(users[0].roles, SL_ROLE_CHECK);
	assert_false(users[0].is_token);
	assert_int_equal(users[0].secret.kind, SL_SECRET_PBKDF2);
	assert_int_equal(users[0].secret.rounds, 1000);
	assert_memory_equal(users[0].secret.salt, "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", 16);
	assert_memory_equal(users[0].secret.hash + 16, "\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10",
	                    16);
	assert_true(sl_bytes_equal(users[1].name, sl_str("prometheus")));
	assert_int_equal(users[1].roles, SL_ROLE_READ);
	assert_true(users[1].is_token);
	assert_int_equal(users[1].secret.kind, SL_SECRET_SHA256);
	assert_memory_equal(users[1].secret.hash, users[0].secret.hash, 32);
	assert_int_equal(users[2].roles, SL_ROLE_ADMIN | SL_ROLE_READ);
	assert_int_equal(users[2].secret.rounds, 10000000);
	assert_true(sl_bytes_equal(users[2].name, sl_str("a!~/\"x")));
	sluice_policy_free(policy);
	policy = sl_policy_loads("users: []\nanonymous: []\n");
	assert_int_equal(sl_policy_settings(policy)->user_count, 0);
	assert_int_equal(sl_policy_settings(policy)->anonymous, 0);
	sluice_policy_free(policy);
}

static void test_refused(void **state) {
	static const struct row rows[] = {
		{"users: {api: x}\n", {{1, 8, "expected a list of users, found a mapping"}}},
		{"users:\n", {{1, 7, "expected a list of users, found nothing"}}},
		{"users: x\n", {{1, 8, "expected a list of users, found a text"}}},
		{"users: [{name: a, password: " PASSWORD ", token: " TOKEN ", role: read}]\n",
	     {{1, 9, "expected a password or a token, found both: make two users"}}},
		{"users: [{name: a}]\n",
	     {{1, 9, "expected a password or a token in a user, found neither"},
	      {1, 9, "expected a role in a user: check, read or admin"}}},
		{"users: [{token: " TOKEN ", role: read}]\n",
	     {{1, 9, "missing key 'name' in a user: expected a name, such as api"}}},
		{"users: [{name: a, token: " TOKEN ", rol: read}]\n",
	     {{1, 101, "unknown key in a user: did you mean 'role'?"}}},
		{"users: [{name: a, token: " TOKEN ", roles: []}]\n",
	     {{1, 108, "expected at least one role, check, read or admin"}}},
		{"users: [{name: a, token: " TOKEN ", roles: read, role: read}]\n",
	     {{1, 9, "expected role or roles, found both"}}},
		{"users: [{name: a, token: " TOKEN ", role: raed}]\n",
	     {{1, 107, "expected check, read or admin, found 'raed': did you mean 'read'?"}}},
		{"users: [{name: a, token: " TOKEN ", roles: [read, none]}]\n",
	     {{1, 115, "check, read or admin, found 'none'"}}},
		{"users:\n- {name: a, token: " TOKEN ", role: read}\n- {name: a, password: " PASSWORD ", role: read}\n",
	     {{3, 10, "duplicate name 'a': the user in line 2 has it"}}},
		{"users:\n- {name: a, token: " TOKEN ", role: read}\n- {name: b, token: " TOKEN ", role: read}\n",
	     {{3, 20, "duplicate token: the user in line 2 has it"}}},
		{"users:\n- {name: '', token: x, role: read}\n- {name: 'a b', token: x, role: read}\n"
	     "- {name: 'a:b', token: x, role: read}\n- {name: \"a\\x7f\", token: x, role: read}\n",
	     {{2, 10, "expected a name of 1 to 64 printable ASCII characters, without ':' and spaces"},
	      {2, 21, "expected a hashed token, sha256:HASH: 'sluice token' makes a token and its hash"},
	      {3, 12, "expected a name of 1 to 64"},
	      {3, 24, "expected a hashed token"},
	      {4, 12, "expected a name of 1 to 64"},
	      {4, 24, "expected a hashed token"},
	      {5, 10, "expected a name of 1 to 64"},
	      {5, 26, "expected a hashed token"}}},
		{"anonymous: [check, none]\n", {{1, 20, "expected none alone, or a list without it"}}},
		{"anonymous: everybody\n", {{1, 12, "expected check, read, admin or none, found 'everybody'"}}},
		{"anonymous: {}\n", {{1, 12, "expected check, read, admin or none, found a mapping"}}},
	};
	(void)state;
	CHECK_ROWS(rows);
}

/* Each part of a hashed secret has its place. */
static void test_secrets(void **state) {
	static const struct {
		const char *text;
		uint32_t column; /* from the opening quote, which is 1 */
		const char *part;
	} rows[] = {
		{"password: \"\"", 1,
	     "expected a hashed password, pbkdf2-sha256:ROUNDS:SALT:HASH: 'sluice password' makes one"},
		{"password: \"sha256:" HASH "\"", 1, "expected a hashed password"},
		{"password: \"PBKDF2-sha256:1000:" SALT ":" HASH "\"", 1, "expected a hashed password"},
		{"password: \"pbkdf2-sha256:\"", 16, "expected rounds from 1000 to 10000000 after pbkdf2-sha256:"},
		{"password: \"pbkdf2-sha256:999:" SALT ":" HASH "\"", 16, "expected rounds from 1000"},
		{"password: \"pbkdf2-sha256:10000001:" SALT ":" HASH "\"", 16, "expected rounds from 1000"},
		{"password: \"pbkdf2-sha256:+1000:" SALT ":" HASH "\"", 16, "expected rounds from 1000"},
		{"password: \"pbkdf2-sha256:1000\"", 20, "expected a salt of 32 hexadecimal digits"},
		{"password: \"pbkdf2-sha256:1000:" HEX16 ":" HASH "\"", 21, "expected a salt of 32 hexadecimal digits"},
		{"password: \"pbkdf2-sha256:1000:" SALT "0:" HASH "\"", 21, "expected a salt of 32 hexadecimal digits"},
		{"password: \"pbkdf2-sha256:1000:" SALT "\"", 53, "expected a hash of 64 hexadecimal digits"},
		{"password: \"pbkdf2-sha256:1000:" SALT ":" HASH "0\"", 54, "expected a hash of 64 hexadecimal digits"},
		{"password: \"pbkdf2-sha256:1000:" SALT ":" HASH ":\"", 54, "expected a hash of 64 hexadecimal digits"},
		{"password: \"pbkdf2-sha256:1000:" SALT ":" HEX16 HEX16 HEX16 "012345678gabcdef\"", 54, "expected a hash"},
		{"password: \"pbkdf2-sha256:1000:" SALT ":" HEX16 HEX16 HEX16 "01234567/@`gGabc\"", 54, "expected a hash"},
		{"token: \"" HASH "\"", 1, "expected a hashed token, sha256:HASH: 'sluice token' makes a token and its hash"},
		{"token: \"pbkdf2-sha256:1000:" SALT ":" HASH "\"", 1, "expected a hashed token"},
		{"token: \"sha256:\"", 9, "expected a hash of 64 hexadecimal digits"},
		{"token: \"sha256:" HEX16 "\"", 9, "expected a hash of 64 hexadecimal digits"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char yaml[512];
		uint32_t start = (uint32_t)(strchr(rows[i].text, '"') - rows[i].text);
		snprintf(yaml, sizeof yaml, "users:\n- %s\n  name: a\n  role: check\n", rows[i].text);
		sl_policy_refused(sl_str(yaml), &(struct wanted){2, 2 + start + rows[i].column, rows[i].part}, 1);
	}
}

/* However a secret in clear is mistyped into a file, no message repeats a part of it. */
static void test_no_message_repeats_a_secret(void **state) {
	static const char *const files[] = {
		"users: [{name: a, password: hunter2, role: check}]\n",
		"users: [{name: a, token: hunter2, role: check}]\n",
		"users: [{name: a, password: \"hunter2\", role: check}]\n",
		"users: [{name: a, password: sha256:hunter2, role: check}]\n",
		"users: [{name: a, password: pbkdf2-sha256:hunter2, role: check}]\n",
		"users: [{name: a, password: pbkdf2-sha256:1000:hunter2:hunter2, role: check}]\n",
		"users: [{name: a, token: sha256:hunter2, role: check}]\n",
		"users: [{name: a, password: [hunter2], role: check}]\n",
		"users: [{name: a, password: {hunter2: hunter2}, role: check}]\n",
		"users: [{name: a, password: xx,hunter2, role: check}]\n", /* cut by the comma: a key of its own */
		"users: [{name: a, password:hunter2, role: check}]\n",     /* no space: a key without a value */
		"users: [{name: a, password hunter2, role: check}]\n",
		"users:\n- name: a\n  password:hunter2\n  role: check\n",
		"users:\n- name: a\n  password: *hunter2\n  role: check\n", /* what YAML takes for marks */
		"users:\n- name: a\n  password: &hunter2 x\n  role: check\n",
		"users:\n- name: a\n  password: !hunter2 x\n  role: check\n",
		"users:\n- name: a\n  password: !!hunter2 x\n  role: check\n",
		"users:\n- name: a\n  password: !hunter2!x y\n  role: check\n",
		"users:\n- name: a\n  password: @hunter2\n  role: check\n",
		"users:\n- name: a\n  password: \"hunter2\n  role: check\n",
		"users:\n- name: a\n  password: \"\\hunter2\"\n  role: check\n",
		"users:\n- name: a\n  password: |hunter2\n  role: check\n",
		"users:\n- name: a\n  password: hunter2: x\n  role: check\n",
		"users:\n- a:hunter2\n",
		"users: [hunter2]\n",
		"users: hunter2\n",
		"users:\n  a: hunter2\n",
		"users: [{name: a:hunter2, role: check}]\n",
		"users: [{name: a, pasword: hunter2, role: check}]\n",
		"users: [{name: a, secret: hunter2, role: check}]\n",
		"users: [{name: a, password: hunter2, password: hunter2, role: check}]\n",
		"users: [{name: a, password: hunter2, token: hunter2, role: check}]\n",
		"password: hunter2\n",
		"requirepass: hunter2\n",
	};
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct sluice_policy *policy = NULL;
		struct sluice_problems problems;
		print_message("%s", files[i]);
		assert_int_equal(sluice_policy_load(&policy, sl_str(files[i]), &problems), SLUICE_E_SYNTAX);
		assert_true(problems.count > 0);
		for (size_t j = 0; j < problems.count; j++) {
			print_message("  %u:%u: %s\n", problems.list[j].line, problems.list[j].column, problems.list[j].text);
			assert_null(strstr(problems.list[j].text, "unter2"));
		}
		sluice_problems_free(&problems);
	}
}

static void test_most_users(void **state) {
	static char yaml[SL_USERS_MAX * 256];
	(void)state;
	for (unsigned count = SL_USERS_MAX; count <= SL_USERS_MAX + 1; count++) {
		struct sluice_policy *policy = NULL;
		size_t len = (size_t)snprintf(yaml, sizeof yaml, "users:\n");
		for (unsigned i = 0; i < count; i++)
			len += (size_t)snprintf(yaml + len, sizeof yaml - len,
			                        "- {name: %064u, role: check, token: \"sha256:%064x\"}\n", i, i);
		sluice_err err = sluice_policy_load(&policy, sl_slice(yaml, len), NULL);
		assert_int_equal(err, count == SL_USERS_MAX ? SLUICE_OK : SLUICE_E_SYNTAX);
		sluice_policy_free(policy);
	}
	snprintf(yaml, sizeof yaml, "users: [{name: %065u, role: check, token: \"sha256:%064x\"}]\n", 1, 1);
	sl_policy_refused(sl_str(yaml), &(struct wanted){1, 16, "expected a name of 1 to 64"}, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads),      cmocka_unit_test(test_refused),
		cmocka_unit_test(test_secrets),    cmocka_unit_test(test_no_message_repeats_a_secret),
		cmocka_unit_test(test_most_users),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
