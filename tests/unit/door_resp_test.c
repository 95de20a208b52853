/* The RESP door's manners: what a real Redis 7.0.15 answers, byte for byte, at every cut of the bytes; both protocols;
 * order; silence; bounds. What it decides is in door_resp_limits_test.c. */
#include "tests/unit/door_resp.h"

#include "proto/resp.h"

static const char no_policy[] = "limits: []\n";

#define CLOSES true
#define STAYS false
#define HELLO_3(id)                                                                                               \
	"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:" id \
	"\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
#define HELLO_2(id)                                                                                                \
	"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:" id \
	"\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
#define CHECK "*4\r\n$12\r\nSLUICE.CHECK\r\n$1\r\nk\r\n$1\r\n1\r\n$4\r\n2/1m\r\n"
#define FIRST "*7\r\n:1\r\n:2\r\n:1\r\n:0\r\n:120000\r\n:0\r\n:0\r\n"
#define SECOND "*7\r\n:1\r\n:2\r\n:0\r\n:0\r\n:120000\r\n:0\r\n:0\r\n"
#define UNKNOWN "-ERR unknown command "

static const struct exchange {
	const char *sent, *answered;
	bool closes;
} exchanges[] = {
	/* Protocol edges. */
	{"*0\r\nPING\r\n", "+PONG\r\n", STAYS},
	{"*-1\r\nPING\r\n", "+PONG\r\n", STAYS},
	{"\r\n\nPING\r\n", "+PONG\r\n", STAYS},
	{"*abc\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n", CLOSES},
	{"PING\r\n*1\r\n+PING\r\nPING\r\n", "+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n", CLOSES},
	{"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n", CLOSES},
	{"PING \"unbalanced\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n", CLOSES},
	{"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", "+PONG\r\n+PONG\r\n", STAYS},
	{"*1\n$4\nPING\n", "", STAYS},
	{"POST / HTTP/1.1\r\nPING\r\n", "", CLOSES},
	{"Host: example\r\nPING\r\n", "", CLOSES},
	{"GET / HTTP/1.1\r\n", UNKNOWN "'GET', with args beginning with: '/' 'HTTP/1.1' \r\n", STAYS},
	{"*2\r\n$6\r\nNO\r\nUC\r\n$3\r\na\r\n\r\n", UNKNOWN "'NO  UC', with args beginning with: 'a  ' \r\n", STAYS},
	{"*1\r\n$0\r\n\r\n", UNKNOWN "'', with args beginning with: \r\n", STAYS},
	{"SLUICE\x0e"
     "CHECK\r\n",
     UNKNOWN "'SLUICE\x0e"
             "CHECK', with args beginning with: \r\n",
     STAYS},
	/* Small talk. */
	{"PING\r\nping hi\r\nPiNg a b\r\n", "+PONG\r\n$2\r\nhi\r\n-ERR wrong number of arguments for 'ping' command\r\n",
     STAYS},
	{"ECHO \"\\x41\\n\"\r\nECHO\r\n", "$2\r\nA\n\r\n-ERR wrong number of arguments for 'echo' command\r\n", STAYS},
	{"QUIT\r\nPING\r\n", "+OK\r\n", CLOSES},
	{"SELECT 0\r\nSELECT 1\r\nSELECT x\r\n",
     "+OK\r\n-ERR DB index is out of range\r\n-ERR value is not an integer or out of range\r\n", STAYS},
	{"TIME\r\n", "*2\r\n$10\r\n1800000000\r\n$1\r\n0\r\n", STAYS},
	{"AUTH x\r\n",
     "-ERR AUTH <password> called without any password configured for the default user. "
     "Are you sure your configuration is correct?\r\n",
     STAYS},
	{"AUTH default x\r\nAUTH bob x\r\nAUTH a b c\r\n",
     "+OK\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n-ERR syntax error\r\n", STAYS},
	{"CLUSTER NODES\r\nREADONLY\r\nREADWRITE\r\n",
     "-ERR This instance has cluster support disabled\r\n-ERR This instance has cluster support disabled\r\n"
     "-ERR This instance has cluster support disabled\r\n",
     STAYS},
	/* HELLO, and what it changes. */
	{"HELLO\r\n", HELLO_2("1"), STAYS},
	{"hello 3\r\nclient getname\r\nHELLO 2\r\nclient getname\r\n", HELLO_3("1") "_\r\n" HELLO_2("1") "$-1\r\n", STAYS},
	{"HELLO 3 AUTH default x SETNAME app\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME\r\n",
     HELLO_3("1") "$3\r\napp\r\n+RESET\r\n$-1\r\n", STAYS},
	{"HELLO 4\r\nHELLO 1\r\nHELLO abc\r\n",
     "-NOPROTO unsupported protocol version\r\n-NOPROTO unsupported protocol version\r\n"
     "-ERR Protocol version is not an integer or out of range\r\n",
     STAYS},
	{"HELLO 3 FOO\r\nHELLO 3 AUTH x\r\nHELLO 3 SETNAME \"a b\"\r\nCLIENT GETNAME\r\n",
     "-ERR Syntax error in HELLO option 'FOO'\r\n-ERR Syntax error in HELLO option 'AUTH'\r\n"
     "-ERR Client names cannot contain spaces, newlines or special characters.\r\n$-1\r\n",
     STAYS},
	/* CLIENT. */
	{"CLIENT ID\r\nCLIENT SETNAME app\r\nCLIENT GETNAME\r\nCLIENT SETNAME \"\"\r\nCLIENT GETNAME\r\n",
     ":1\r\n+OK\r\n$3\r\napp\r\n+OK\r\n$-1\r\n", STAYS},
	{"CLIENT SETINFO LIB-NAME x\r\nclient setinfo lib-ver 1.0\r\nCLIENT SETINFO FOO x\r\n",
     "+OK\r\n+OK\r\n-ERR Unrecognized option 'FOO'\r\n", STAYS},
	{"CLIENT NO-EVICT on\r\nCLIENT NO-EVICT x\r\n", "+OK\r\n-ERR syntax error\r\n", STAYS},
	{"CLIENT\r\nCLIENT FOO\r\nCLIENT SETNAME\r\nclient id x\r\n",
     "-ERR wrong number of arguments for 'client' command\r\n-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n"
     "-ERR wrong number of arguments for 'client|setname' command\r\n"
     "-ERR wrong number of arguments for 'client|id' command\r\n",
     STAYS},
	{"CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type external-ip\r\n",
     "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n", STAYS},
	{"CLIENT LIST ID 99\r\nCLIENT LIST FOO\r\n", "$0\r\n\r\n-ERR syntax error\r\n", STAYS},
	/* Silence. */
	{"CLIENT REPLY OFF\r\nPING\r\nNOSUCH\r\n" CHECK "CLIENT REPLY ON\r\n" CHECK, "+OK\r\n" SECOND, STAYS},
	{"CLIENT REPLY SKIP\r\nPING\r\nECHO heard\r\n", "$5\r\nheard\r\n", STAYS},
	{"CLIENT REPLY SKIP\r\n" CHECK CHECK, SECOND, STAYS},
	{"CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING\r\n", "+OK\r\n+PONG\r\n", STAYS},
	{"CLIENT REPLY OFF\r\n*x\r\n", "", CLOSES},
	/* CONFIG, COMMAND. */
	{"CONFIG GET save\r\nCONFIG GET appendonly nosuch\r\nCONFIG GET nosuch\r\n",
     "*2\r\n$4\r\nsave\r\n$0\r\n\r\n*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n*0\r\n", STAYS},
	{"CONFIG GET S?V*\r\nCONFIG GET *x*x*\r\nCONFIG\r\nCONFIG SET save 1\r\n",
     "*2\r\n$4\r\nsave\r\n$0\r\n\r\n*0\r\n-ERR wrong number of arguments for 'config' command\r\n"
     "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n",
     STAYS},
	{"COMMAND INFO nosuch\r\nCOMMAND DOCS nosuch\r\n", "*1\r\n$-1\r\n*0\r\n", STAYS},
	{"COMMAND GETKEYS sluice.check a 1 1/1s key b 1/1s\r\nCOMMAND GETKEYS PING\r\nCOMMAND GETKEYS NOSUCH\r\n"
     "COMMAND GETKEYS CL.THROTTLE k\r\n",
     "*2\r\n$1\r\na\r\n$1\r\nb\r\n-ERR The command has no key arguments\r\n-ERR Invalid command specified\r\n"
     "-ERR Invalid number of arguments specified for command\r\n",
     STAYS},
	{"COMMAND FOO\r\n", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.\r\n", STAYS},
	/* Order: a decision, put off, is still answered before what came after it. */
	{CHECK "PING\r\n" CHECK "NOSUCH\r\n", FIRST "+PONG\r\n" SECOND UNKNOWN "'NOSUCH', with args beginning with: \r\n",
     STAYS},
	{CHECK "SLUICE.CHECK k x 2/1m\r\n" CHECK,
     FIRST "-ERR cost 'x': expected a whole number from 0 to 4294967295\r\n" SECOND, STAYS},
	{CHECK "*1\r\n$-5\r\n", FIRST "-ERR Protocol error: invalid bulk length\r\n", CLOSES},
	{CHECK "QUIT\r\n" CHECK, FIRST "+OK\r\n", CLOSES},
};

/* One exchange on a new server, its bytes cut in two. */
static void converse(const struct exchange *exchange, size_t cut) {
	struct client client;
	size_t len = strlen(exchange->sent);
	client_open(&client, no_policy);
	size_t kept = client_feed(&client, exchange->sent, cut);
	if (client.verdict != SL_DOOR_CLOSE)
		client_feed(&client, exchange->sent + cut - kept, len - cut + kept);
	assert_true(sl_buffer_append(&client.out, "", 1));
	assert_string_equal(client.out.data, exchange->answered);
	assert_int_equal(client.verdict, exchange->closes ? SL_DOOR_CLOSE : SL_DOOR_OPEN);
	client_close(&client);
}

static void test_exchanges_at_every_cut(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
		for (size_t cut = 0; cut <= strlen(exchanges[i].sent); cut++)
			converse(&exchanges[i], cut);
}

static void test_bytes_one_by_one(void **state) {
	(void)state;
	static const char sent[] = "*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n" CHECK "PING\r\n";
	struct client client;
	size_t kept = 0;
	client_open(&client, no_policy);
	for (size_t at = 1; at < sizeof sent; at++)
		kept = client_feed(&client, sent + at - 1 - kept, kept + 1);
	assert_int_equal(kept, 0);
	assert_true(sl_buffer_append(&client.out, "", 1));
	assert_string_equal(client.out.data, "$5\r\nhello\r\n" FIRST "+PONG\r\n");
	client_close(&client);
}

/* ---- what tools read ------------------------------------------------------------------------------------------- */

static void test_info_in_both_protocols(void **state) {
	(void)state;
	struct client client;
	client_open(&client, no_policy);
	const char *two = client_ask(&client, "INFO\r\n");
	assert_int_equal(two[0], '$');
	assert_non_null(strstr(two, "\r\nredis_version:7.0.15\r\n"));
	assert_non_null(strstr(two, "\r\nloading:0\r\n"));
	assert_non_null(strstr(two, "\r\nrole:master\r\n"));
	assert_non_null(strstr(two, "\r\nsluice_version:" SLUICE_VERSION "\r\n"));
	client_ask(&client, "HELLO 3\r\n");
	const char *three = client_ask(&client, "info sluice\r\n");
	assert_int_equal(three[0], '=');
	assert_non_null(strstr(three, "\r\ntxt:# Sluice\r\n"));
	assert_null(strstr(three, "redis_version"));
	client_expect(&client, "INFO nosuch\r\n", "=4\r\ntxt:\r\n");
	client_close(&client);
}

static void test_client_list_tells_of_this_connection(void **state) {
	(void)state;
	struct client client;
	client_open(&client, no_policy);
	client_ask(&client, "CLIENT SETNAME app\r\n");
	client.context.now += UINT64_C(7) * 1000000000;
	const char *line = client_ask(&client, "CLIENT LIST\r\n");
	assert_non_null(strstr(line, "id=1 addr=192.0.2.1:4321 name=app age=7 "));
	client_close(&client);
}

/* Steps over one value; returns its end. */
static const char *skip_value(const char *p) {
	char type = *p;
	long long n = strtoll(p + 1, NULL, 10);
	p = strstr(p, "\r\n") + 2;
	if (type == '$' && n >= 0)
		return p + n + 2;
	long long parts = type == '*' || type == '~' ? n : type == '%' ? 2 * n : 0;
	for (long long i = 0; i < parts; i++)
		p = skip_value(p);
	return p;
}

static void test_command_tables_are_whole_values(void **state) {
	(void)state;
	static const char *const asked[] = {"COMMAND\r\n",
	                                    "COMMAND DOCS\r\n",
	                                    "COMMAND INFO\r\n",
	                                    "COMMAND LIST\r\n",
	                                    "COMMAND HELP\r\n",
	                                    "CLIENT HELP\r\n",
	                                    "CONFIG HELP\r\n",
	                                    "CONFIG GET *\r\n",
	                                    "COMMAND INFO client|id sluice.check\r\n",
	                                    "COMMAND DOCS sluice.check client\r\n"};
	struct client client;
	client_open(&client, no_policy);
	for (int protocol = 2; protocol <= 3; protocol++) {
		for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
			const char *value = client_ask(&client, asked[i]);
			assert_true(value[0] == '*' || value[0] == '%');
			assert_string_equal(skip_value(value), "");
		}
		client_ask(&client, "HELLO 3\r\n");
	}
	client_close(&client);
}

static void test_every_listed_command_is_found(void **state) {
	(void)state;
	struct client client;
	char listed[4096], asked[64], expected[64];
	client_open(&client, no_policy);
	snprintf(listed, sizeof listed, "%s", client_ask(&client, "COMMAND LIST\r\n"));
	unsigned long count = strtoul(listed + 1, NULL, 10);
	assert_true(count > 20);
	char *at = strstr(listed, "\r\n") + 2;
	for (unsigned long i = 0; i < count; i++) {
		size_t len = strtoul(at + 1, NULL, 10);
		char *name = strstr(at, "\r\n") + 2;
		snprintf(asked, sizeof asked, "COMMAND INFO %.*s\r\n", (int)len, name);
		for (char *p = asked + 13; p < asked + 13 + len; p += 2) /* every other letter in the other case */
			*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
		snprintf(expected, sizeof expected, "*1\r\n*10\r\n$%zu\r\n%.*s\r\n", len, (int)len, name);
		assert_memory_equal(client_ask(&client, asked), expected, strlen(expected));
		at = name + len + 2;
	}
	client_close(&client);
}

/* ---- bounds ---------------------------------------------------------------------------------------------------- */

static void test_much_output_comes_in_portions(void **state) {
	(void)state;
	enum { ECHOES = 40, BULK = 60000 };
	struct client client;
	size_t len = 0, consumed, sent = 0;
	char *bytes = malloc((size_t)ECHOES * (BULK + 64));
	assert_non_null(bytes);
	for (int i = 0; i < ECHOES; i++) {
		len += (size_t)snprintf(bytes + len, 64, "*2\r\n$4\r\nECHO\r\n$%d\r\n", BULK);
		memset(bytes + len, 'x', BULK);
		len += BULK;
		memcpy(bytes + len, "\r\n", 2);
		len += 2;
	}
	client_open(&client, no_policy);
	for (size_t at = 0; at < len; at += consumed) {
		client.out.len = 0;
		client.verdict = sl_door_resp.feed(client.state, &client.context, bytes + at, len - at, &consumed, &client.out);
		assert_true(client.out.len <= SL_DOOR_OUTPUT_TURN + SL_RESP_BULK_BYTES_MAX + 32);
		assert_true(consumed != 0);
		assert_int_equal(client.verdict, at + consumed < len ? SL_DOOR_MORE : client.verdict);
		sent += client.out.len;
	}
	assert_int_equal(sent, ECHOES * (BULK + 10));
	free(bytes);
	client_close(&client);
}

static void test_zeros_and_garbage(void **state) {
	(void)state;
	static char zeros[70000];
	struct client client;
	client_open(&client, no_policy);
	client_feed(&client, zeros, sizeof zeros);
	assert_int_equal(client.verdict, SL_DOOR_CLOSE);
	assert_memory_equal(client.out.data, "-ERR Protocol error: too big inline request\r\n", 45);
	client_close(&client);
	client_open(&client, no_policy);
	zeros[100] = '\n';
	assert_int_equal(client_feed(&client, zeros, 101), 0);
	assert_int_equal(client.verdict, SL_DOOR_OPEN);
	assert_memory_equal(client.out.data, "-ERR unknown command '", 22);
	client_close(&client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exchanges_at_every_cut),
		cmocka_unit_test(test_bytes_one_by_one),
		cmocka_unit_test(test_info_in_both_protocols),
		cmocka_unit_test(test_client_list_tells_of_this_connection),
		cmocka_unit_test(test_command_tables_are_whole_values),
		cmocka_unit_test(test_every_listed_command_is_found),
		cmocka_unit_test(test_much_output_comes_in_portions),
		cmocka_unit_test(test_zeros_and_garbage),
	};
	return cmocka_run_group_tests_name("door_resp", tests, NULL, NULL);
}
