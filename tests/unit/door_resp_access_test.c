/* The RESP door where users are configured: who may say what, in the words of Redis 7.0.15 (each was taken from a real
 * one), through reloads, and across processes. */
#include "tests/unit/door_resp.h"

#include "proto/resp.h"
#include "tests/unit/users.h"

#define OK "+OK\r\n"
#define PONG "+PONG\r\n"
#define NOAUTH "-NOAUTH Authentication required.\r\n"
#define HELLO_NOAUTH                                                                                              \
	"-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> " \
	"option can be used to authenticate the client and select the RESP protocol version at the same time\r\n"
#define WRONGPASS "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
#define NOPERM(command) "-NOPERM this user has no permissions to run the '" command "' command\r\n"
#define CHECK "SLUICE.CHECK k 1 2/1m\r\n"
#define RESET_K "SLUICE.RESET k 2/1m\r\n"

static struct sl_shared shared;

static void guard(struct client *client, const char *policy) {
	client_open(client, policy);
	shared.access = sl_access_new();
	assert_non_null(shared.access);
	client->context.shared = &shared;
}

static void unguard(struct client *client) {
	client_close(client);
	sl_access_free(shared.access);
	shared.access = NULL;
}

static void reconnect(struct client *client) {
	sl_door_resp.close(client->state);
	client_connect(client);
}

static void reload(struct client *client, const char *policy) {
	sluice_policy_free((struct sluice_policy *)client->context.policy);
	client->context.policy = users_load(policy);
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

static void test_before_a_login(void **state) {
	(void)state;
	struct client client;
	guard(&client, users_policy("", ""));
	/* What is no command at all is told first, as in Redis. */
	client_expect(&client, "PING\r\nCLIENT ID\r\nCONFIG GET x\r\nCOMMAND COUNT\r\nINFO\r\n" CHECK RESET_K,
	              NOAUTH NOAUTH NOAUTH NOAUTH NOAUTH NOAUTH NOAUTH);
	client_expect(&client, "NOSUCH\r\n", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n");
	client_expect(&client, "CLIENT\r\n", "-ERR wrong number of arguments for 'client' command\r\n");
	client_expect(&client, "CLIENT NOSUCH\r\n", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n");
	client_expect(&client, "HELLO\r\nHELLO 3\r\nHELLO 3 SETNAME x\r\n", HELLO_NOAUTH HELLO_NOAUTH HELLO_NOAUTH);
	client_expect(&client, "HELLO 9\r\n", "-NOPROTO unsupported protocol version\r\n");
	client_expect(&client, "HELLO 3 FOO\r\n", "-ERR Syntax error in HELLO option 'FOO'\r\n");
	client_expect(&client, "RESET\r\nPING\r\n", "+RESET\r\n" NOAUTH);
	client_expect(&client, "QUIT\r\n", OK);
	assert_int_equal(client.verdict, SL_DOOR_CLOSE);
	reconnect(&client);
	client_expect(&client, "POST / HTTP/1.1\r\n", "");
	assert_int_equal(client.verdict, SL_DOOR_CLOSE);
	unguard(&client);
}

static void test_auth(void **state) {
	(void)state;
	struct client client;
	guard(&client, users_policy("", ""));
	client_expect(&client, "AUTH checker x\r\nAUTH nobody pw-checker\r\nAUTH x\r\nAUTH pw-checker\r\n",
	              WRONGPASS WRONGPASS WRONGPASS WRONGPASS);
	client_expect(&client, "AUTH checker pw-checker x\r\n", "-ERR syntax error\r\n");
	client_expect(&client, "AUTH\r\n", "-ERR wrong number of arguments for 'auth' command\r\n");
	client_expect(&client, "PING\r\nAUTH checker pw-checker\r\nPING\r\n", NOAUTH OK PONG);
	/* A failure leaves the login as it was; another one replaces it; RESET ends it. */
	client_expect(&client, "AUTH admin x\r\nPING\r\n" RESET_K, WRONGPASS PONG NOPERM("sluice.reset"));
	client_expect(&client, "AUTH admin pw-admin\r\n" RESET_K, OK ":0\r\n");
	client_expect(&client, "AUTH reader pw-reader\r\n" RESET_K CHECK, OK NOPERM("sluice.reset") NOPERM("sluice.check"));
	client_expect(&client, "RESET\r\nPING\r\n", "+RESET\r\n" NOAUTH);
	/* A bearer's token alone, or with its user's name. */
	client_expect(&client, "AUTH token-robot\r\nPING\r\n", OK PONG);
	assert_non_null(strstr(client_ask(&client, "CLIENT INFO\r\n"), " user=robot "));
	client_expect(&client, "RESET\r\nAUTH robot token-robot\r\nPING\r\n", "+RESET\r\n" OK PONG);
	unguard(&client);
}

/* AUTH with a password alone is for the user default where there is one: then tokens need their names. */
static void test_the_user_default(void **state) {
	(void)state;
	struct client client;
	char line[USERS_LINE_MAX];
	guard(&client, users_policy("", user_password(line, "default", "pw-default", USERS_ROUNDS, "check")));
	client_expect(&client, "AUTH token-robot\r\nAUTH x\r\nAUTH pw-default\r\nPING\r\n", WRONGPASS WRONGPASS OK PONG);
	assert_non_null(strstr(client_ask(&client, "CLIENT LIST\r\n"), " user=default "));
	unguard(&client);
}

static void test_hello_logs_in(void **state) {
	(void)state;
	struct client client;
	guard(&client, users_policy("", ""));
	client_expect(&client, "HELLO 3 SETNAME n AUTH checker x\r\nPING\r\n", WRONGPASS NOAUTH);
	const char *answer = client_ask(&client, "HELLO 3 AUTH checker pw-checker SETNAME n\r\n");
	assert_int_equal(strncmp(answer, "%7\r\n", 4), 0);
	client_expect(&client, "CLIENT GETNAME\r\nPING\r\n", "$1\r\nn\r\n" PONG);
	assert_int_equal(strncmp(client_ask(&client, "HELLO 2\r\n"), "*14\r\n", 5), 0);
	assert_int_equal(strncmp(client_ask(&client, "HELLO 3 AUTH checker x\r\n"), "-WRONGPASS", 10), 0);
	assert_int_equal(strncmp(client_ask(&client, "HELLO\r\n"), "*14\r\n", 5), 0); /* as before */
	reconnect(&client);
	assert_int_equal(strncmp(client_ask(&client, "HELLO 3 AUTH robot token-robot\r\n"), "%7\r\n", 4), 0);
	unguard(&client);
}

static void test_too_many_failures(void **state) {
	(void)state;
	struct client client;
	guard(&client, users_policy("", ""));
	client_expect(&client, "AUTH reader pw-reader\r\nRESET\r\n", OK "+RESET\r\n");
	for (int i = 0; i < 10; i++) {
		client.context.now = NOW_NS + (sluice_ns)i * 1000000000;
		client_expect(&client, i % 2 ? "AUTH checker x\r\n" : "HELLO 3 AUTH checker x\r\n", WRONGPASS);
	}
	reconnect(&client); /* another connection is the same address */
	const char *late = "-ERR too many failed logins from this address: retry in ";
	assert_int_equal(strncmp(client_ask(&client, "AUTH checker pw-checker\r\n"), late, strlen(late)), 0);
	assert_int_equal(strncmp(client_ask(&client, "HELLO 3 AUTH checker pw-checker\r\n"), late, strlen(late)), 0);
	client_expect(&client, "AUTH reader pw-reader\r\nPING\r\n", OK PONG);
	client_expect(&client, "AUTH token-robot\r\nPING\r\n", OK PONG);
	unguard(&client);
}

/* ---- roles ----------------------------------------------------------------------------------------------------- */

enum { NONE = 0, CHECK_ = SL_ROLE_CHECK, READ = SL_ROLE_READ, ADMIN = SL_ROLE_ADMIN, ANY = SL_ROLE_ALL };

/* Every command of the table is here with the roles that may say it: one that is added must be added here as well. */
static const struct {
	const char *name, *said;
	uint32_t roles;
	bool before_login;
} rules[] = {
	{"sluice.check", CHECK, CHECK_, false},
	{"sluice.peek", "SLUICE.PEEK k 1 2/1m\r\n", CHECK_ | READ, false},
	{"sluice.refund", "SLUICE.REFUND k 1 2/1m\r\n", CHECK_, false},
	{"sluice.reset", RESET_K, ADMIN, false},
	{"sluice.acquire", "SLUICE.ACQUIRE k 1 'concurrency 1 lease 1s'\r\n", CHECK_, false},
	{"sluice.release", "SLUICE.RELEASE k a 'concurrency 1 lease 1s'\r\n", CHECK_, false},
	{"sluice.renew", "SLUICE.RENEW k a 'concurrency 1 lease 1s'\r\n", CHECK_, false},
	{"sluice.holders", "SLUICE.HOLDERS k 'concurrency 1 lease 1s'\r\n", READ, false}, /* tells the ids of others */
	{"sluice.reserve", "SLUICE.RESERVE k 1 1000 2/1m\r\n", CHECK_, false},
	{"sluice.commit", "SLUICE.COMMIT k ticket 1\r\n", CHECK_, false},
	{"sluice.top", "SLUICE.TOP\r\n", READ, false},
	{"sluice.tail", "SLUICE.TAIL X\r\n", READ, false},
	{"sluice.reload", "SLUICE.RELOAD\r\n", ADMIN, false},
	{"sluice.override", "SLUICE.OVERRIDE SET 2/1m k 9/1m\r\n", ADMIN, false},
	{"sluice.admit", "SLUICE.ADMIT 1 user a\r\n", CHECK_, false},
	{"sluice.explain", "SLUICE.EXPLAIN 1 user a\r\n", CHECK_ | READ, false},
	{"sluice.inspect", "SLUICE.INSPECT k 2/1m\r\n", READ, false}, /* tells what others were charged */
	{"sluice.why", "SLUICE.WHY 1 user a\r\n", READ, false},
	{"sluice.rule", "SLUICE.RULE d k v\r\n", READ, false},
	{"cl.throttle", "CL.THROTTLE k 1 1 1\r\n", CHECK_, false},
	{"auth", "AUTH x y z\r\n", ANY, true},
	{"client", "CLIENT ID\r\n", ANY, false},
	{"cluster", "CLUSTER INFO\r\n", ANY, false},
	{"command", "COMMAND COUNT\r\n", ANY, false},
	{"config", "CONFIG GET save\r\n", ANY, false},
	{"echo", "ECHO x\r\n", ANY, false},
	{"hello", "HELLO 9\r\n", ANY, true},
	{"host:", "Host: x\r\n", ANY, true},
	{"info", "INFO server\r\n", ANY, false},
	{"ping", "PING\r\n", ANY, false},
	{"post", "POST\r\n", ANY, true},
	{"quit", "QUIT\r\n", ANY, true},
	{"readonly", "READONLY\r\n", ANY, false},
	{"readwrite", "READWRITE\r\n", ANY, false},
	{"reset", "RESET\r\n", ANY, true},
	{"select", "SELECT 0\r\n", ANY, false},
	{"time", "TIME\r\n", ANY, false},
};

enum { RULES = sizeof rules / sizeof *rules };

static void expect_rule(struct client *client, size_t rule, uint32_t roles, bool logged_in) {
	const char *answer = client_ask(client, rules[rule].said);
	bool allowed = rules[rule].before_login || (roles & (rules[rule].roles | ADMIN)) != 0;
	char refusal[128];
	/* a command with subcommands is refused by the name of the one that was asked for */
	snprintf(refusal, sizeof refusal, logged_in ? NOPERM("%s") : NOAUTH, rules[rule].name);
	size_t until = logged_in ? strlen(refusal) - sizeof "' command\r" : strlen(refusal);
	bool refused = strncmp(answer, refusal, until) == 0;
	if (refused == allowed)
		fail_msg("%s with roles %u%s: %s", rules[rule].name, roles, logged_in ? "" : ", anonymous", answer);
}

static void test_every_command_and_role(void **state) {
	(void)state;
	static const struct {
		const char *anonymous, *login;
		uint32_t roles;
	} callers[] = {
		{"", "", NONE},
		{"", "AUTH checker pw-checker\r\n", CHECK_},
		{"", "AUTH reader pw-reader\r\n", READ},
		{"", "AUTH admin pw-admin\r\n", ADMIN},
		{"", "AUTH token-robot\r\n", CHECK_},
		{"anonymous: check\n", "", CHECK_},
		{"anonymous: read\n", "", READ},
		{"anonymous: [check, read]\n", "", CHECK_ | READ},
		{"anonymous: admin\n", "", ADMIN},
		{"anonymous: admin\n", "AUTH checker pw-checker\r\n", CHECK_}, /* who logs in is who he is */
	};
	struct client client;
	for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
		guard(&client, users_policy(callers[i].anonymous, ""));
		for (size_t rule = 0; rule < RULES; rule++) {
			reconnect(&client);
			if (callers[i].login[0] != '\0')
				client_expect(&client, callers[i].login, OK);
			expect_rule(&client, rule, callers[i].roles, callers[i].login[0] != '\0');
		}
		unguard(&client);
	}
}

/* The table above is the table of commands. */
static void test_no_command_is_forgotten(void **state) {
	(void)state;
	struct client client;
	client_open(&client, "limits: []\n");
	const char *at = client_ask(&client, "COMMAND LIST\r\n");
	char want[16];
	snprintf(want, sizeof want, "*%d\r\n", (int)RULES);
	assert_int_equal(strncmp(at, want, strlen(want)), 0);
	for (size_t i = 0; i < RULES; i++) {
		char line[32];
		snprintf(line, sizeof line, "\r\n%s\r\n", rules[i].name);
		if (strstr(at, line) == NULL)
			fail_msg("COMMAND LIST has no %s", rules[i].name);
	}
	client_close(&client);
}

/* Without users nobody is asked for anything. */
static void test_without_users(void **state) {
	(void)state;
	struct client client;
	guard(&client, "limits: []\n");
	client_expect(&client, "PING\r\n" RESET_K "AUTH default x\r\nAUTH nobody x\r\nAUTH x\r\n",
	              PONG
	              ":0\r\n" OK WRONGPASS
	              "-ERR AUTH <password> called without any password configured for the default user. Are you sure your "
	              "configuration is correct?\r\n");
	unguard(&client);
}

/* ---- reloads --------------------------------------------------------------------------------------------------- */

static void test_reloads_judge_anew(void **state) {
	(void)state;
	struct client client;
	char line[USERS_LINE_MAX], other[USERS_LINE_MAX], policy[2 * USERS_LINE_MAX + 64];
	guard(&client, users_policy("", ""));
	client_expect(&client, "AUTH checker pw-checker\r\n" RESET_K, OK NOPERM("sluice.reset"));
	/* The same user, elsewhere in the file, with another role. */
	snprintf(policy, sizeof policy, "users:\n%s%s", user_token(other, "t", "x", "read"),
	         user_password(line, "checker", "pw-checker", USERS_ROUNDS, "admin"));
	reload(&client, policy);
	client_expect(&client, RESET_K "PING\r\n", ":0\r\n" PONG);
	/* Another password. */
	snprintf(policy, sizeof policy, "users:\n%s", user_password(line, "checker", "pw-new", USERS_ROUNDS, "admin"));
	reload(&client, policy);
	client_expect(&client, RESET_K "PING\r\nAUTH checker pw-checker\r\nAUTH checker pw-new\r\nPING\r\n",
	              NOAUTH NOAUTH WRONGPASS OK PONG);
	/* The same name and password, hashed again: as if it were another. */
	snprintf(policy, sizeof policy, "users:\n%s", user_password(line, "checker", "pw-new", USERS_ROUNDS + 1, "admin"));
	reload(&client, policy);
	client_expect(&client, "PING\r\nAUTH checker pw-new\r\nPING\r\n", NOAUTH OK PONG);
	/* Gone, with anonymous as it may be. */
	snprintf(policy, sizeof policy, "anonymous: check\nusers:\n%s", user_token(other, "t", "x", "read"));
	reload(&client, policy);
	client_expect(&client, RESET_K "PING\r\n", NOAUTH PONG);
	assert_non_null(strstr(client_ask(&client, "CLIENT INFO\r\n"), " user=default "));
	/* No users at all: nobody has to log in, nobody is logged in. */
	client_expect(&client, "AUTH x\r\n", OK);
	reload(&client, "limits: []\n");
	client_expect(&client, RESET_K, ":0\r\n");
	assert_non_null(strstr(client_ask(&client, "CLIENT INFO\r\n"), " user=default "));
	/* Users again: the login of before is not. */
	reload(&client, policy);
	client_expect(&client, RESET_K, NOAUTH);
	unguard(&client);
}

/* ---- guests ---------------------------------------------------------------------------------------------------- */

static void expect_guest(struct client *client, const char *sent, size_t len, const char *answered) {
	for (size_t cut = 0; cut <= len; cut += len > 4096 && cut > 64 && cut + 64 < len ? 997 : 1) {
		reconnect(client);
		client->out.len = 0;
		size_t kept = client_feed(client, sent, cut);
		if (client->verdict != SL_DOOR_CLOSE)
			client_feed(client, sent + cut - kept, len - cut + kept);
		assert_true(sl_buffer_append(&client->out, "", 1));
		assert_string_equal(client->out.data, answered);
	}
}

static void test_guests_have_small_bounds(void **state) {
	(void)state;
	static char big[64 * 1024];
	static const char eleven[] = "*11\r\n", bulk[] = "*2\r\n$4\r\nAUTH\r\n$16385\r\n", huge[] = "*1000000\r\n";
	static const char multi[] = "-ERR Protocol error: unauthenticated multibulk length\r\n";
	static const char too_big[] = "-ERR Protocol error: too big unauthenticated request, at most 20480 bytes\r\n";
	struct client client;
	guard(&client, users_policy("", ""));
	expect_guest(&client, eleven, sizeof eleven - 1, multi);
	expect_guest(&client, huge, sizeof huge - 1, multi);
	expect_guest(&client, bulk, sizeof bulk - 1, "-ERR Protocol error: unauthenticated bulk length\r\n");
	expect_guest(&client, "*10\r\n$4\r\nECHO\r\n", 15, "");
	/* Two arguments that would each be allowed; a line without an end. */
	size_t len = (size_t)snprintf(big, sizeof big, "*3\r\n$4\r\nAUTH\r\n$16384\r\n");
	memset(big + len, 'x', 16384);
	len += 16384;
	len += (size_t)snprintf(big + len, sizeof big - len, "\r\n$16384\r\n");
	expect_guest(&client, big, len, too_big);
	memset(big, 'x', 20480);
	expect_guest(&client, big, 20480, too_big);
	/* Whoever has logged in, in the same breath even, has the bounds of everybody. */
	reconnect(&client);
	client_expect(&client, "AUTH token-robot\r\n*12\r\n$4\r\nECHO\r\n", OK);
	assert_int_equal(client.verdict, SL_DOOR_OPEN);
	unguard(&client);
	guard(&client, users_policy("anonymous: check\n", ""));
	client_expect(&client, "*12\r\n$4\r\nECHO\r\n", "");
	assert_int_equal(client.verdict, SL_DOOR_OPEN);
	unguard(&client);
}

/* ---- to another process ---------------------------------------------------------------------------------------- */

static void move(struct client *client) {
	char bytes[SL_DOOR_PACK_MAX];
	size_t len = sl_door_resp.pack(client->state, bytes);
	assert_in_range(len, 1, sizeof bytes);
	sl_door_resp.close(client->state);
	client->context.connection_id += 1000;
	client->state = sl_door_resp.unpack(&client->context, bytes, len);
	assert_non_null(client->state);
}

static void test_sessions_move(void **state) {
	(void)state;
	struct client client;
	guard(&client, users_policy("", ""));
	move(&client);
	client_expect(&client, "PING\r\n", NOAUTH);
	client_ask(&client, "HELLO 3 AUTH checker pw-checker SETNAME nn\r\n");
	client_ask(&client, "CLIENT SETINFO LIB-NAME lib\r\nCLIENT SETINFO LIB-VER 1.2\r\n");
	client.context.now += 5000000000;
	char before[512];
	snprintf(before, sizeof before, "%s", client_ask(&client, "CLIENT INFO\r\n"));
	assert_non_null(strstr(before, " age=5 "));
	move(&client);
	client_expect(&client, "CLIENT INFO\r\n", before); /* its number, too */
	client_expect(&client, RESET_K, NOPERM("sluice.reset"));
	client_expect(&client, "CLIENT GETNAME\r\n", "$2\r\nnn\r\n");
	client_expect(&client, "CLIENT REPLY OFF\r\nPING\r\n", "");
	move(&client);
	client_expect(&client, "PING\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\n", OK);
	move(&client);
	client_expect(&client, "PING\r\nPING\r\n", PONG);
	/* A process with another policy judges for itself. */
	char line[USERS_LINE_MAX], policy[USERS_LINE_MAX + 16];
	snprintf(policy, sizeof policy, "users:\n%s", user_password(line, "checker", "other", USERS_ROUNDS, "check"));
	reload(&client, policy);
	move(&client);
	client_expect(&client, "PING\r\n", NOAUTH);
	unguard(&client);
}

/* The longest of everything fits; anything else than what was packed is refused, or at least harms nobody. */
static void test_packed_bytes_are_checked(void **state) {
	(void)state;
	struct client client;
	char bytes[SL_DOOR_PACK_MAX], long_name[65], line[USERS_LINE_MAX], said[512], text[129];
	memset(long_name, 'u', 64);
	memset(text, 't', 128);
	long_name[64] = text[128] = '\0';
	guard(&client, users_policy("", user_token(line, long_name, "long", "check")));
	snprintf(said, sizeof said, "AUTH long\r\nCLIENT SETNAME %s\r\n", text);
	client_expect(&client, said, OK OK);
	snprintf(said, sizeof said, "CLIENT SETINFO LIB-NAME %s\r\nCLIENT SETINFO LIB-VER %s\r\n", text, text);
	client_expect(&client, said, OK OK);
	size_t len = sl_door_resp.pack(client.state, bytes);
	for (size_t cut = 0; cut < len; cut++)
		assert_null(sl_door_resp.unpack(&client.context, bytes, cut));
	bytes[len] = 0;
	assert_null(sl_door_resp.unpack(&client.context, bytes, len + 1));
	int taken = 0;
	for (size_t i = 0; i < len * 256; i++) {
		char was = bytes[i / 256];
		bytes[i / 256] = (char)i;
		void *other = sl_door_resp.unpack(&client.context, bytes, len);
		if (other != NULL) {
			taken++;
			sl_door_resp.close(other);
		}
		bytes[i / 256] = was;
	}
	assert_true(taken > 0);
	assert_null(sl_door_resp.unpack(&client.context, "R2", 2));
	unguard(&client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_a_login),          cmocka_unit_test(test_auth),
		cmocka_unit_test(test_the_user_default),        cmocka_unit_test(test_hello_logs_in),
		cmocka_unit_test(test_too_many_failures),       cmocka_unit_test(test_every_command_and_role),
		cmocka_unit_test(test_no_command_is_forgotten), cmocka_unit_test(test_without_users),
		cmocka_unit_test(test_reloads_judge_anew),      cmocka_unit_test(test_guests_have_small_bounds),
		cmocka_unit_test(test_sessions_move),           cmocka_unit_test(test_packed_bytes_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
