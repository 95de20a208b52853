/* What the RESP door says of leases, members, parts, retries and reservations: the words and where they may stand,
 * every refusal and that it changes nothing, ids, tickets, nil in both protocols, policies, and what is counted of it.
 * What the numbers are is in tests/cases. */
#include "tests/unit/door_resp.h"

#include "algo/step.h"
#include "hosts/server/resp/resp.h"

/* the reservation 00000000000000aa at `fixed-window 9/1m` of the key that is said */
#define TICKET "00000000000000aa.AQQRZml4ZWQtd2luZG93IDkvMW0"

static const char timed[] = "client-time: true\n";
static const char policy[] = "limits:\n"
							 "  - {name: slots, key: user, limit: concurrency 2 lease 30s}\n"
							 "  - {name: asked, key: user, limit: fixed-window 9/1m}\n"
							 "  - {name: devices, key: account, limit: distinct 2/1h, of: device}\n"
							 "  - {name: tokens, key: team, limit: fixed-window 100/1m, reserve: {ttl: 20s}}\n";

/* An answer of eight elements: seven numbers, then `last` as it stands on the wire. */
static const char *eight(char text[256], const char *numbers, const char *last) {
	size_t len = (size_t)snprintf(text, 256, "*8\r\n");
	for (; *numbers != '\0'; numbers += strcspn(numbers, " "), numbers += *numbers == ' ')
		len += (size_t)snprintf(text + len, 256 - len, ":%.*s\r\n", (int)strcspn(numbers, " "), numbers);
	snprintf(text + len, 256 - len, "%s", last);
	return text;
}

/* The last bulk string of an answer. */
static const char *last_text(const char *answer) {
	static char text[SL_TICKET_BYTES_MAX];
	const char *at = strrchr(answer, '$');
	assert_non_null(at);
	snprintf(text, sizeof text, "%.*s", (int)strtol(at + 1, NULL, 10), strchr(at, '\n') + 1);
	return text;
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

static void test_ids_that_the_door_makes(void **state) {
	(void)state;
	struct client client;
	char first[32], sent[160];
	client_open(&client, "limits: []\n");
	snprintf(first, sizeof first, "%s",
	         last_text(client_ask(&client, "SLUICE.ACQUIRE k 1 'concurrency 2 lease 30s'\r\n")));
	assert_int_equal(strlen(first), 16);
	assert_int_equal(strspn(first, "0123456789abcdef"), 16);
	const char *second = last_text(client_ask(&client, "SLUICE.ACQUIRE k 1 'concurrency 2 lease 30s'\r\n"));
	assert_string_not_equal(second, first);
	snprintf(sent, sizeof sent, "SLUICE.RELEASE k %s 'concurrency 2 lease 30s'\r\n", first);
	client_expect(&client, sent, ":1\r\n");
	client_expect(&client, sent, ":0\r\n");
	client_close(&client);
}

/* A pipeline of which each call has an id of its own, made while the batch waits. */
static void test_ids_of_one_batch(void **state) {
	(void)state;
	static char sent[200 * 96];
	struct client client;
	size_t len = 0, count = 0;
	client_open(&client, "limits: []\n");
	for (int i = 0; i < 200; i++)
		len += (size_t)snprintf(
			sent + len, sizeof sent - len,
			"*4\r\n$14\r\nSLUICE.ACQUIRE\r\n$1\r\nk\r\n$1\r\n1\r\n$25\r\nconcurrency 150 lease 30s\r\n");
	client_feed(&client, sent, len);
	assert_true(sl_buffer_append(&client.out, "", 1));
	for (const char *at = client.out.data; (at = strstr(at, "$16\r\n")) != NULL; at += 5)
		count++;
	assert_int_equal(count, 150);
	const char *got = client_ask(&client, "SLUICE.HOLDERS k 'concurrency 150 lease 30s'\r\n");
	assert_memory_equal(got, "*150\r\n", 6); /* so no two were alike */
	client_close(&client);
}

static void test_a_name_of_ones_own(void **state) {
	(void)state;
	struct client client;
	char answer[256];
	client_open(&client, timed);
	for (int i = 0; i < 5; i++)
		client_expect(&client, "SLUICE.ACQUIRE k 1 AT 1000 ID worker-7 'concurrency 2 lease 1s'\r\n",
		              eight(answer, "1 2 1 0 1000 0 0", "$8\r\nworker-7\r\n"));
	client_expect(&client, "SLUICE.ACQUIRE k 2 AT 1000 'concurrency 2 lease 1s' id other\r\n",
	              eight(answer, "0 2 1 1000 1000 0 0", "$-1\r\n"));
	client_expect(&client, "SLUICE.RENEW k worker-7 AT 1999 'concurrency 2 lease 1s'\r\n", ":1\r\n");
	client_expect(&client, "SLUICE.RENEW k worker-7 AT 2999 'concurrency 2 lease 1s' 9/1m\r\n", ":0\r\n");
	snprintf(answer, sizeof answer, "*1\r\n*3\r\n$16\r\n%016llx\r\n:1\r\n:1\r\n",
	         (unsigned long long)sl_id_number(sl_str("worker-7")));
	client_expect(&client, "SLUICE.HOLDERS k AT 2998 'concurrency 2 lease 1s'\r\n", answer);
	client_expect(&client, "SLUICE.HOLDERS k AT 2999 'concurrency 2 lease 1s'\r\n", "*0\r\n");
	client_close(&client);
}

static void test_nil_in_both_protocols(void **state) {
	(void)state;
	struct client client;
	char answer[256];
	client_open(&client, timed);
	client_expect(&client, "SLUICE.ACQUIRE k 2 AT 5 'concurrency 1 lease 1s'\r\n",
	              eight(answer, "0 1 1 -1 0 0 0", "$-1\r\n"));
	client_expect(&client, "SLUICE.ACQUIRE k 0 AT 5 'concurrency 1 lease 1s'\r\n",
	              eight(answer, "1 1 1 0 0 0 0", "$-1\r\n"));
	client_expect(&client, "SLUICE.RESERVE k 0 5000 AT 5 9/1m\r\n", eight(answer, "1 9 9 0 0 0 0", "$-1\r\n"));
	client_ask(&client, "HELLO 3\r\n");
	client_expect(&client, "SLUICE.ACQUIRE k 2 AT 5 'concurrency 1 lease 1s'\r\n",
	              eight(answer, "0 1 1 -1 0 0 0", "_\r\n"));
	client_expect(&client, "SLUICE.RESERVE k 10 5000 AT 5 9/1m\r\n", eight(answer, "0 9 9 -1 0 0 0", "_\r\n"));
	client_expect(&client, "SLUICE.RESERVE k 10 5000 AT 5 unlimited\r\n",
	              eight(answer, "1 4294967295 4294967295 0 0 0 -1", "_\r\n"));
	client_close(&client);
}

/* ---- members, parts, retries ------------------------------------------------------------------------------------- */

static void test_members(void **state) {
	(void)state;
	struct client client;
	char answer[160];
	client_open(&client, timed);
	/* The first also for the limits before it, each for those behind it until the next; limits that count nobody do
	 * not mind. */
	client_expect(&client,
	              "SLUICE.CHECK a 1 AT 5 'distinct 5/1h' MEMBER m 'distinct 6/1h' member n 'distinct 2/2h' 9/1m\r\n",
	              seven(answer, 1, 2, 1, 0, 7200000, 0, 2));
	client_expect(&client, "SLUICE.PEEK a 1 AT 5 'distinct 1/1h' MEMBER m\r\n",
	              seven(answer, 1, 1, 0, 0, 3600000, 0, 0));
	client_expect(&client, "SLUICE.PEEK a 1 AT 5 'distinct 1/1h' MEMBER n\r\n",
	              seven(answer, 0, 1, 0, 3600000, 3600000, 0, 0));
	client_expect(&client, "SLUICE.PEEK a 1 AT 5 'distinct 1/2h' MEMBER n\r\n",
	              seven(answer, 1, 1, 0, 0, 7200000, 0, 0));
	client_expect(&client, "SLUICE.REFUND a 1 AT 5 MEMBER n 'distinct 1/2h'\r\n", seven(answer, 1, 1, 1, 0, 0, 0, 0));
	/* A member may be of no bytes, and read as a word. */
	client_expect(&client, "SLUICE.CHECK b 1 AT 5 MEMBER '' 'distinct 5/1h'\r\n",
	              seven(answer, 1, 5, 4, 0, 3600000, 0, 0));
	client_expect(&client, "SLUICE.PEEK b 1 MEMBER n UPTO at 5 'distinct 5/1h'\r\n",
	              "*8\r\n:1\r\n:5\r\n:4\r\n:0\r\n:3600000\r\n:0\r\n:0\r\n:1\r\n");
	client_expect(&client, "SLUICE.CHECK b 1 MEMBER n 'distinct 5/1h' AT 5\r\n",
	              "-ERR AT after a limit: expected it before the first one\r\n");
	client_expect(&client, "SLUICE.CHECK b 1 AT 5 MEMBER n AT 5 'distinct 5/1h'\r\n",
	              "-ERR AT twice: expected it once\r\n");
	client_expect(&client, "SLUICE.CHECK b 1 AT 5 MEMBER KEY 'distinct 5/1h'\r\n",
	              seven(answer, 1, 5, 3, 0, 3600000, 0, 0));
	client_expect(&client, "SLUICE.CHECK b 1 AT 5 'distinct 5/1h' MEMBER UPTO\r\n",
	              seven(answer, 1, 5, 2, 0, 3600000, 0, 0));
	client_expect(&client, "SLUICE.CHECK c 1 AT 5 9/1m MEMBER m\r\n", seven(answer, 1, 9, 8, 0, 119995, 0, 0));
	client_close(&client);
}

static void test_parts_and_retries(void **state) {
	(void)state;
	struct client client;
	char answer[256];
	client_open(&client, timed);
	client_expect(&client, "SLUICE.CHECK k 7 AT 5 UPTO 'fixed-window 5/1m'\r\n",
	              eight(answer, "1 5 0 0 59995 0 0", ":5\r\n"));
	client_expect(&client, "SLUICE.CHECK k 7 AT 5 'fixed-window 5/1m' upto\r\n",
	              eight(answer, "0 5 0 59995 59995 0 0", ":0\r\n"));
	client_expect(&client, "SLUICE.PEEK k 7 AT 60000 'fixed-window 5/1m' UPTO\r\n",
	              eight(answer, "1 5 5 0 0 0 0", ":5\r\n"));
	for (int i = 0; i < 3; i++)
		client_expect(&client, "SLUICE.CHECK j 2 AT 5 ID t 'fixed-window 5/1m'\r\n",
		              seven(answer, 1, 5, 3, 0, 59995, 0, 0));
	client_expect(&client, "SLUICE.CHECK j 2 AT 5 'fixed-window 5/1m' ID u UPTO\r\n",
	              eight(answer, "1 5 1 0 59995 0 0", ":2\r\n"));
	client_close(&client);
}

/* ---- reservations ------------------------------------------------------------------------------------------------ */

static void test_reserve_and_commit(void **state) {
	(void)state;
	struct client client;
	char answer[256], sent[512], ticket[256];
	client_open(&client, timed);
	const char *got =
		client_ask(&client, "SLUICE.RESERVE k 5 5000 AT 5 'fixed-window 9/1m' KEY j 'fixed-window 7/1m'\r\n");
	snprintf(ticket, sizeof ticket, "%s", last_text(got));
	assert_true(sl_ticket_is(sl_str(ticket)));
	snprintf(sent, sizeof sent, "SLUICE.COMMIT k %s 6 AT 100\r\n", ticket);
	client_expect(&client, sent, seven(answer, 1, 7, 1, 0, 59900, 0, 1));
	client_expect(
		&client, sent,
		"-NOTFOUND no such reservation is open: it was committed before, was returned at the end of its ttl, or "
		"belongs to another key\r\n");
	client_expect(&client, "SLUICE.PEEK k 1 AT 100 'fixed-window 9/1m'\r\n", seven(answer, 1, 9, 3, 0, 59900, 0, 0));
	/* By a name of one's own; and another key has none such. */
	client_expect(&client, "SLUICE.RESERVE k 3 5000 AT 100 ID 00000000000000aa 'fixed-window 9/1m'\r\n",
	              eight(answer, "1 9 0 0 59900 0 0", "$44\r\n" TICKET "\r\n"));
	assert_memory_equal(client_ask(&client, "SLUICE.COMMIT j " TICKET " 1 AT 101\r\n"), "-NOTFOUND ", 10);
	client_expect(&client, "SLUICE.COMMIT k " TICKET " 1 AT 101\r\n", seven(answer, 1, 9, 2, 0, 59899, 0, 0));
	client_close(&client);
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

#define T65 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LEASE "'concurrency 2 lease 1s'"

static const struct {
	const char *sent, *error;
} mistakes[] = {
	{"SLUICE.ACQUIRE k 1", "wrong number of arguments for 'sluice.acquire' command"},
	{"SLUICE.RELEASE k", "wrong number of arguments for 'sluice.release' command"},
	{"SLUICE.RENEW k", "wrong number of arguments for 'sluice.renew' command"},
	{"SLUICE.HOLDERS k", "wrong number of arguments for 'sluice.holders' command"},
	{"SLUICE.RESERVE k 1 5000", "wrong number of arguments for 'sluice.reserve' command"},
	{"SLUICE.COMMIT k t", "wrong number of arguments for 'sluice.commit' command"},
	{"SLUICE.ACQUIRE k x " LEASE, "cost 'x': expected a whole number from 0 to 4294967295"},
	{"SLUICE.ACQUIRE k 1 9/1m", "no limit of concurrency among the limits: expected one, or SLUICE.CHECK"},
	{"SLUICE.ACQUIRE k 1 " LEASE " 'distinct 5/1h'",
     "limit 2: distinct counts members: expected MEMBER and the member, as in SLUICE.ACQUIRE key 1 MEMBER 192.0.2.1 "
     "\"distinct 50/1h\""},
	{"SLUICE.ACQUIRE k 1 UPTO " LEASE, "UPTO is no word of SLUICE.ACQUIRE"},
	{"SLUICE.ACQUIRE k 1 ID " LEASE, "no limit for key 'k': expected at least one after it, such as 'concurrency 20 "
                                     "lease 30s'"},
	{"SLUICE.ACQUIRE k 1 " LEASE " ID", "ID needs a token after it"},
	{"SLUICE.ACQUIRE k 1 " LEASE " ID ''", "the ID '' has 0 bytes: expected 1 to 64"},
	{"SLUICE.ACQUIRE k 1 ID " T65 " " LEASE,
     "the ID 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' has 65 bytes: expected 1 to 64"},
	{"SLUICE.ACQUIRE k 1 ID a ID b " LEASE, "ID twice: expected it once"},
	{"SLUICE.ACQUIRE k 1 AT 5 " LEASE, "AT is not allowed here: set client-time: true in the policy file"},
	{"SLUICE.CHECK k 1 9/1m " LEASE, "limit 2: concurrency is acquired and released: SLUICE.ACQUIRE"},
	{"SLUICE.REFUND k 1 " LEASE, "limit 1: concurrency takes no refund: SLUICE.RELEASE ends a lease, "
     "SLUICE.RESET all that is counted"},
	{"SLUICE.RESERVE k 1 5000 " LEASE, "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"},
	{"SLUICE.RESERVE k 1 5000 'distinct 5/1h'",
     "limit 1: distinct is not reserved: SLUICE.CHECK decides it at once"},
	{"SLUICE.RESERVE k 1 5000 MEMBER m 'distinct 5/1h'", "MEMBER is no word of SLUICE.RESERVE"},
	{"SLUICE.RESERVE k 1 0 9/1m", "ttl_ms '0': expected a whole number from 1 to 316224000000"},
	{"SLUICE.RESERVE k 1 316224000001 9/1m", "ttl_ms '316224000001': expected a whole number from 1 to 316224000000"},
	{"SLUICE.RESERVE k 1 5s 9/1m", "ttl_ms '5s': expected a whole number from 1 to 316224000000"},
	{"SLUICE.CHECK k 1 'distinct 5/1h'",
     "limit 1: distinct counts members: expected MEMBER and the member, as in SLUICE.CHECK key 1 MEMBER 192.0.2.1 "
     "\"distinct 50/1h\""},
	{"SLUICE.REFUND k 1 9/1m 'distinct 5/1h'",
     "limit 2: distinct counts members: expected MEMBER and the member, as in SLUICE.REFUND key 1 MEMBER 192.0.2.1 "
     "\"distinct 50/1h\""},
	{"SLUICE.CHECK k 1 'distinct 5/1h' MEMBER", "MEMBER needs a member after it: a member that distinct counts"},
	{"SLUICE.CHECK k 1 MEMBER m", "no limit for key 'k': expected at least one after it, such as 100/60s"},
	{"SLUICE.CHECK k 1 9/1m UPTO UPTO", "UPTO twice: expected it once"},
	{"SLUICE.PEEK k 1 9/1m ID t", "ID is no word of SLUICE.PEEK"},
	{"SLUICE.REFUND k 1 9/1m UPTO", "UPTO is no word of SLUICE.REFUND"},
	{"SLUICE.RESET k 9/1m MEMBER m", "MEMBER is no word of SLUICE.RESET"},
	{"SLUICE.RELEASE k a", "no limit for key 'k': expected at least one after it, such as 'concurrency 20 lease 30s'"},
	{"SLUICE.RELEASE k '' " LEASE, "the id '' has 0 bytes: expected 1 to 64"},
	{"SLUICE.RENEW k " T65 " " LEASE, "the id 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' has 65 bytes: expected 1 to 64"},
	{"SLUICE.RELEASE k a " LEASE " ID b", "ID is no word of SLUICE.RELEASE"},
	{"SLUICE.RELEASE k 00000000000000aa.A", "no ticket: '00000000000000aa.A': expected it as SLUICE.ADMIT gave it"},
	{"SLUICE.RELEASE k " TICKET " " LEASE,
     "the ticket says its limits: expected nothing after it but AT, found 'concurrency 2 lease 1s'"},
	{"SLUICE.HOLDERS k 9/1m", "expected one limit of concurrency: others have no holders"},
	{"SLUICE.HOLDERS k " LEASE " " LEASE, "expected one limit of concurrency: others have no holders"},
	{"SLUICE.COMMIT k 00000000000000aa 5",
     "no ticket: '00000000000000aa': expected it as SLUICE.RESERVE or SLUICE.ADMIT "
     "gave it"},
	{"SLUICE.COMMIT k " TICKET " -1", "actual '-1': expected a whole number from 0 to 4294967295"},
	{"SLUICE.COMMIT k " TICKET " 4294967296", "actual '4294967296': expected a whole number from 0 to 4294967295"},
	{"SLUICE.COMMIT k " TICKET " 1 9/1m",
     "the ticket says its limits: expected nothing after it and the cost but AT, NEXT and EACH, found '9/1m'"},
	{"SLUICE.COMMIT k " TICKET " 1 AT 5", "AT is not allowed here: set client-time: true in the policy file"},
	{"SLUICE.ADMIT 1 ID t", "no attribute: expected at least one, a name and a value"},
	{"SLUICE.ADMIT 1 UPTO user", "attribute 'user' has no value: expected pairs of a name and a value"},
	{"SLUICE.ADMIT 1 UPTO UPTO user ann",
     "UPTO twice: expected it once; an attribute of that name goes after another one"},
	{"SLUICE.ADMIT 1 ID a ID b user ann",
     "ID twice: expected it once; an attribute of that name goes after another one"},
	{"SLUICE.ADMIT 1 ID '' user ann", "the ID '' has 0 bytes: expected 1 to 64"},
	{"SLUICE.ADMIT 1 MEMBER a MEMBER b user ann",
     "MEMBER twice: expected it once; an attribute of that name goes after another one"},
};

static void test_mistakes_are_named_and_change_nothing(void **state) {
	(void)state;
	struct client client;
	char answer[160], sent[512];
	client_open(&client, "limits: []\n");
	client_expect(&client, "SLUICE.ACQUIRE k 1 ID mine " LEASE "\r\n",
	              "*8\r\n:1\r\n:2\r\n:1\r\n:0\r\n:1000\r\n:0\r\n:0\r\n$4\r\nmine\r\n");
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
		snprintf(sent, sizeof sent, "%s\r\n", mistakes[i].sent);
		const char *got = client_ask(&client, sent);
		char want[512];
		snprintf(want, sizeof want, "-ERR %s\r\n", mistakes[i].error);
		assert_string_equal(got, want);
		assert_int_equal(client.verdict, SL_DOOR_OPEN);
		client_expect(&client, "SLUICE.PEEK k 0 " LEASE "\r\n", seven(answer, 1, 2, 1, 0, 1000, 0, 0));
		client_expect(&client, "SLUICE.PEEK k 0 9/1m\r\n", seven(answer, 1, 9, 9, 0, 0, 0, 0));
		client_expect(&client, "SLUICE.PEEK k 0 'distinct 5/1h'\r\n", seven(answer, 1, 5, 5, 0, 0, 0, 0));
	}
	client_close(&client);
}

static void test_members_are_of_any_length(void **state) {
	(void)state;
	static const char *const forms[] = {"SLUICE.CHECK k 1 MEMBER %.*s 'distinct 5/1h'\r\n",
	                                    "SLUICE.ADMIT 1 MEMBER %.*s user ann\r\n"};
	struct client client;
	char member[1026], sent[1200];
	memset(member, 'x', sizeof member);
	client_open(&client, "limits: []\n");
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		for (int len = 1024; len <= 1025; len++) {
			snprintf(sent, sizeof sent, forms[i], len, member);
			assert_memory_equal(client_ask(&client, sent), "*", 1);
		}
	/* the two are two members, and each is one */
	char answer[160];
	client_expect(&client, "SLUICE.CHECK k 1 MEMBER a 'distinct 5/1h'\r\n", seven(answer, 1, 5, 2, 0, 3600000, 0, 0));
	client_close(&client);
}

/* ---- policies ---------------------------------------------------------------------------------------------------- */

static void test_admit_gives_tickets(void **state) {
	(void)state;
	struct client client;
	char ticket[256], sent[512], answer[160];
	client_open(&client, policy);
	const char *got = client_ask(&client, "SLUICE.ADMIT 1 user ann\r\n");
	static const char leased[] = "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:60000\r\n:0\r\n:0\r\n$5\r\nslots\r\n$";
	assert_memory_equal(got, leased, sizeof leased - 1);
	snprintf(ticket, sizeof ticket, "%s", last_text(got));
	/* The lease's own counter is the limit's by name. */
	client_expect(&client, "SLUICE.PEEK user=ann 0 policy:slots\r\n", seven(answer, 1, 2, 1, 0, 30000, 0, 0));
	snprintf(sent, sizeof sent, "SLUICE.RENEW * %s\r\n", ticket);
	client_expect(&client, sent, ":1\r\n");
	snprintf(sent, sizeof sent, "SLUICE.COMMIT * %s 1\r\n", ticket);
	assert_memory_equal(client_ask(&client, sent), "-NOTFOUND ", 10); /* it reserved nothing */
	snprintf(sent, sizeof sent, "SLUICE.RELEASE * %s\r\n", ticket);
	client_expect(&client, sent, ":1\r\n");
	client_expect(&client, sent, ":0\r\n");
	client_expect(&client, "SLUICE.PEEK user=ann 0 policy:slots\r\n", seven(answer, 1, 2, 2, 0, 0, 0, 0));
	/* Denied, or where nothing is held, there is none. */
	client_expect(&client, "SLUICE.ADMIT 3 user ann\r\n",
	              "*9\r\n:0\r\n:2\r\n:2\r\n:-1\r\n:60000\r\n:0\r\n:0\r\n$5\r\nslots\r\n$-1\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 account a device d\r\n",
	              "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 color red\r\n",
	              "*9\r\n:1\r\n:4294967295\r\n:4294967295\r\n:0\r\n:0\r\n:0\r\n:-1\r\n$0\r\n\r\n$-1\r\n");
	client_ask(&client, "HELLO 3\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 color red\r\n",
	              "*9\r\n:1\r\n:4294967295\r\n:4294967295\r\n:0\r\n:0\r\n:0\r\n:-1\r\n$0\r\n\r\n_\r\n");
	client_close(&client);
}

static void test_admit_reserves(void **state) {
	(void)state;
	struct client client;
	char ticket[256], sent[512], answer[160];
	client_open(&client, policy);
	for (int i = 0; i < 3; i++) { /* by one name: once */
		const char *got = client_ask(&client, "SLUICE.ADMIT 60 ID job-1 team t\r\n");
		static const char reserved[] = "*9\r\n:1\r\n:100\r\n:40\r\n:0\r\n:20000\r\n:0\r\n:3\r\n$6\r\ntokens\r\n$";
		assert_memory_equal(got, reserved, sizeof reserved - 1);
		snprintf(ticket, sizeof ticket, "%s", last_text(got));
	}
	snprintf(sent, sizeof sent, "SLUICE.RELEASE * %s\r\n", ticket);
	client_expect(&client, sent, ":0\r\n"); /* it leased nothing */
	snprintf(sent, sizeof sent, "SLUICE.COMMIT * %s 150\r\n", ticket);
	client_expect(&client, sent, seven(answer, 1, 100, 0, 0, 60000, 0, 0));
	assert_memory_equal(client_ask(&client, sent), "-NOTFOUND ", 10);
	client_close(&client);
}

/* Requests that come together are decided together: each member is still what its own request said. A member that the
 * caller names is counted also where there is no attribute. */
static void test_members_of_a_batch(void **state) {
	(void)state;
	struct client client;
	client_open(&client, policy);
	for (int i = 0; i < 2; i++)
		client_expect(&client, "SLUICE.ADMIT 1 account a device laptop\r\nSLUICE.ADMIT 1 account b device phone\r\n",
		              "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n"
		              "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 account a device laptop\r\n",
	              "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 MEMBER tablet account a\r\n",
	              "*9\r\n:1\r\n:2\r\n:0\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n");
	client_close(&client);
}

/* The words stand directly behind the cost, in capitals; further back they are attributes. */
static void test_admit_reads_words(void **state) {
	(void)state;
	struct client client;
	client_open(&client, policy);
	client_expect(&client, "SLUICE.ADMIT 1 MEMBER laptop account a device d\r\n",
	              "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 account a device laptop\r\n",
	              "*9\r\n:1\r\n:2\r\n:1\r\n:0\r\n:3600000\r\n:0\r\n:2\r\n$7\r\ndevices\r\n$-1\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 id x upto y member z color red ID 5\r\n",
	              "*9\r\n:1\r\n:4294967295\r\n:4294967295\r\n:0\r\n:0\r\n:0\r\n:-1\r\n$0\r\n\r\n$-1\r\n");
	client_close(&client);
	client_open(&client, "limits:\n  - {name: a, key: user, limit: fixed-window 5/1m}\n");
	client_expect(&client, "SLUICE.ADMIT 7 UPTO ID t user u\r\n",
	              "*9\r\n:1\r\n:5\r\n:0\r\n:0\r\n:60000\r\n:0\r\n:0\r\n$1\r\na\r\n:5\r\n");
	client_expect(&client, "SLUICE.ADMIT 7 ID t UPTO user u\r\n",
	              "*9\r\n:1\r\n:5\r\n:0\r\n:0\r\n:60000\r\n:0\r\n:0\r\n$1\r\na\r\n:5\r\n");
	client_expect(&client, "SLUICE.ADMIT 1 UPTO user u\r\n",
	              "*9\r\n:0\r\n:5\r\n:0\r\n:60000\r\n:60000\r\n:0\r\n:0\r\n$1\r\na\r\n:0\r\n");
	client_close(&client);
}

/* Quotas that are tried on the live leases and members: counted, and charge nothing. */
static void test_candidates(void **state) {
	(void)state;
	struct client client;
	struct sl_row_sum row;
	uint32_t rows[2];
	struct sl_stats *stats = sl_stats_new(1);
	assert_non_null(stats);
	client_open(&client,
	            "limits:\n"
	            "  - {name: slots, key: user, limit: concurrency 3 lease 30s, candidate: concurrency 1 lease 30s}\n"
	            "  - {name: devices, key: user, limit: distinct 3/1h, of: device, candidate: distinct 1/1h}\n");
	sl_stats_enter(stats, client.context.policy, rows);
	client.context.rows = rows;
	client.context.stats = sl_stats_worker(stats, 0);
	for (int i = 0; i < 3; i++) {
		static const char *const asked[] = {"SLUICE.ADMIT 1 user u device a\r\n", "SLUICE.ADMIT 1 user u device b\r\n",
		                                    "SLUICE.ADMIT 1 user u device a\r\n"};
		assert_memory_equal(client_ask(&client, asked[i]), "*9\r\n:1\r\n", 8);
	}
	assert_true(sl_stats_row(stats, rows[0], &row));
	assert_int_equal(row.candidate, 2);
	assert_true(sl_stats_row(stats, rows[1], &row));
	assert_int_equal(row.candidate, 1); /* a is a member whatever the quota */
	const char *holders = client_ask(&client, "SLUICE.PEEK user=u 1 policy:slots\r\n");
	assert_memory_equal(holders, "*7\r\n:0\r\n:3\r\n:0\r\n", 16); /* three leases, not six */
	client_close(&client);
	sl_stats_free(stats);
}

/* Values whose keys would be longer than any that a ticket holds, were they not folded. */
static void test_a_ticket_of_long_keys(void **state) {
	(void)state;
	static char sent[64 * 1024];
	struct client client;
	char value[1025];
	size_t len;
	memset(value, '%', sizeof value - 1); /* encoded it is thrice as long */
	value[1024] = '\0';
	client_open(&client, "limits:\n"
	                     "  - {name: a, key: [a, b, c, d, e, f], limit: concurrency 2 lease 30s}\n"
	                     "  - {name: b, key: [a, b], limit: concurrency 2 lease 1m}\n");
	len = (size_t)snprintf(sent, sizeof sent, "SLUICE.ADMIT 1");
	for (const char *name = "abcdef"; *name != '\0'; name++)
		len += (size_t)snprintf(sent + len, sizeof sent - len, " %c %s", *name, value);
	snprintf(sent + len, sizeof sent - len, "\r\n");
	const char *got = client_ask(&client, sent);
	assert_memory_equal(got, "*9\r\n:1\r\n:2\r\n:1\r\n", 16);
	char *released = malloc(32 * 1024);
	assert_non_null(released);
	const char *ticket = last_text(got);
	snprintf(released, 32 * 1024, "SLUICE.RELEASE * %s\r\n", ticket);
	client_expect(&client, released, ":2\r\n");
	free(released);
	client_close(&client);
}

/* Tickets fill the match buffer; a pipeline of more than it holds is decided in parts. */
static void test_many_tickets_in_one_pipeline(void **state) {
	(void)state;
	enum { CALLS = 200, EACH = 12 * 1024 };
	struct client client;
	struct sluice_limit limit;
	struct sluice_item list[9];
	static char keys[9][1025], ticket[SL_TICKET_BYTES_MAX];
	char *sent = malloc((size_t)CALLS * 16 * 1024);
	size_t len = 0;
	assert_non_null(sent);
	assert_int_equal(sluice_limit_parse(&limit, sl_str("concurrency 2 lease 1s"), NULL), SLUICE_OK);
	for (int i = 0; i < 9; i++) {
		memset(keys[i], 'a' + i, 1024);
		list[i] = (struct sluice_item){.limit = &limit, .key = sl_slice(keys[i], 1024)};
	}
	size_t ticket_len = sl_ticket_write(ticket, 7, sl_slice(NULL, 0), list, NULL, 9);
	assert_in_range(ticket_len, EACH, 16 * 1024 - 64);
	client_open(&client, "limits: []\n");
	for (int i = 0; i < CALLS; i++)
		len += (size_t)snprintf(sent + len, 16 * 1024, "*3\r\n$14\r\nSLUICE.RELEASE\r\n$1\r\n*\r\n$%zu\r\n%s\r\n",
		                        ticket_len, ticket);
	assert_int_equal(client_feed(&client, sent, len), 0);
	assert_int_equal(client.out.len, CALLS * 4);
	for (int i = 0; i < CALLS; i++)
		assert_memory_equal(client.out.data + (size_t)4 * (size_t)i, ":0\r\n", 4);
	free(sent);
	client_close(&client);
}

/* ---- COMMAND, roles ---------------------------------------------------------------------------------------------- */

static void test_command_knows_them(void **state) {
	(void)state;
	struct client client;
	client_open(&client, "limits: []\n");
	client_expect(&client,
	              "COMMAND GETKEYS SLUICE.ACQUIRE k 1 ID key MEMBER KEY 'concurrency 2 lease 1s' KEY j 9/1m\r\n",
	              "*2\r\n$1\r\nk\r\n$1\r\nj\r\n");
	client_expect(&client, "COMMAND GETKEYS SLUICE.RELEASE k ID 'concurrency 2 lease 1s' KEY j 9/1m\r\n",
	              "*2\r\n$1\r\nk\r\n$1\r\nj\r\n");
	client_expect(&client, "COMMAND GETKEYS SLUICE.COMMIT k ticket 1\r\n", "*1\r\n$1\r\nk\r\n");
	static const char *const commands[] = {"acquire", "release", "renew", "holders", "reserve", "commit"};
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		char sent[64], want[64];
		snprintf(sent, sizeof sent, "COMMAND INFO sluice.%s\r\n", commands[i]);
		snprintf(want, sizeof want, "*1\r\n*10\r\n$%zu\r\nsluice.%s\r\n:-", strlen(commands[i]) + 7, commands[i]);
		assert_memory_equal(client_ask(&client, sent), want, strlen(want));
		snprintf(sent, sizeof sent, "COMMAND DOCS sluice.%s\r\n", commands[i]);
		assert_non_null(strstr(client_ask(&client, sent), "arguments"));
	}
	client_close(&client);
}

/* ---- what is counted --------------------------------------------------------------------------------------------- */

static void test_what_is_counted(void **state) {
	(void)state;
	static const char *const asked[] = {
		"SLUICE.ACQUIRE k 1 ID a " LEASE,
		"SLUICE.ACQUIRE k 1 ID a " LEASE,
		"SLUICE.ACQUIRE k 1 ID b " LEASE,
		"SLUICE.ACQUIRE k 1 ID c " LEASE,
		"SLUICE.RENEW k a " LEASE,
		"SLUICE.RELEASE k a " LEASE,
		"SLUICE.RELEASE k a " LEASE,
		"SLUICE.RENEW k a " LEASE,
		"SLUICE.CHECK k 7 UPTO 'fixed-window 5/1m'",
		"SLUICE.CHECK k 7 UPTO 'fixed-window 5/1m'",
		"SLUICE.RESERVE k 3 5000 ID 00000000000000aa 'fixed-window 9/1m'",
		"SLUICE.COMMIT k " TICKET " 1",
		"SLUICE.COMMIT k " TICKET " 1",
		"SLUICE.CHECK j 1 ID t 5/1m",
		"SLUICE.CHECK j 1 ID t 5/1m",
	};
	static const uint64_t expected[SL_EVENTS] = {
		[SL_EVENT_LEASE_ACQUIRED] = 2,      [SL_EVENT_LEASE_RELEASED] = 1,   [SL_EVENT_LEASE_RENEWED] = 1,
		[SL_EVENT_LEASE_UNKNOWN] = 2,       [SL_EVENT_RESERVATION_MADE] = 1, [SL_EVENT_RESERVATION_COMMITTED] = 1,
		[SL_EVENT_RESERVATION_UNKNOWN] = 1, [SL_EVENT_REPEATED] = 2,         [SL_EVENT_PARTLY] = 1,
	};
	struct client client;
	struct sl_stats_sum sum;
	struct sl_row_sum row;
	struct sl_stats *stats = sl_stats_new(1);
	assert_non_null(stats);
	client_open(&client, "limits: []\n");
	client.context.stats = sl_stats_worker(stats, 0);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		char sent[256];
		snprintf(sent, sizeof sent, "%s\r\n", asked[i]);
		client_ask(&client, sent);
	}
	sl_stats_sum(stats, &sum);
	for (int i = 0; i < SL_EVENTS; i++)
		assert_int_equal(sum.events[SL_TRANSPORT_RESP][i], expected[i]);
	assert_int_equal(sum.requests[SL_TRANSPORT_RESP][SL_VERDICT_ALLOWED], 7);
	assert_int_equal(sum.requests[SL_TRANSPORT_RESP][SL_VERDICT_DENIED], 2);
	assert_true(sl_stats_row(stats, 0, &row));
	assert_int_equal(row.hits[1], 1 + 1 + 5 + 3 + 1); /* what was charged: a, b, the part, the estimate, t */
	assert_int_equal(row.hits[0], 1 + 7);
	client_close(&client);
	sl_stats_free(stats);
}

/* EXPLAIN says behind the nine elements what they can't: how a key stands, and how far an estimate may be off. */
static void test_explain_says_how_a_key_stands(void **state) {
	(void)state;
	static const char knock[] = "SLUICE.ADMIT 1 user u\r\n";
	static const char told[] = "*17\r\n$1\r\na\r\n$17\r\nfixed-window 1/1s\r\n$6\r\nuser=u\r\n";
	struct client client;
	client_open(&client,
	            "limits:\n"
	            "  - {name: a, key: user, limit: fixed-window 1/1s, penalty: '[1m, 10m] after 2 denials in 1m'}\n"
	            "  - {name: b, key: team, limit: distinct 1025/1h, of: device}\n");
	for (int i = 0; i < 2; i++)
		client_ask(&client, knock);
	const char *got = client_ask(&client, "SLUICE.EXPLAIN 1 user u\r\n");
	assert_non_null(strstr(got, told));
	assert_non_null(strstr(got, "$5\r\nlevel\r\n:0\r\n$7\r\ndenials\r\n:1\r\n$13\r\nends_after_ms\r\n:0\r\n"));
	client_ask(&client, knock);
	got = client_ask(&client, "SLUICE.EXPLAIN 1 user u\r\n");
	assert_non_null(strstr(got, "$5\r\nlevel\r\n:1\r\n$7\r\ndenials\r\n:0\r\n$13\r\nends_after_ms\r\n:60000\r\n"
	                            "$17\r\nforgiven_after_ms\r\n:660000\r\n"));
	client_expect(&client, "SLUICE.EXPLAIN 1 team t device d\r\n",
	              "*1\r\n*11\r\n$1\r\nb\r\n$26\r\ndistinct 1025/1h edge deny\r\n$6\r\nteam=t\r\n"
	              ":1\r\n:1025\r\n:1025\r\n:0\r\n:0\r\n:0\r\n$5\r\nerror\r\n$6\r\n0.0163\r\n");
	client_close(&client);
}

/* A shut-out is counted when it begins, however many are turned away by it. */
static void test_penalties_are_counted_as_they_begin(void **state) {
	(void)state;
	struct client client;
	struct sl_row_sum row;
	uint32_t rows[1];
	struct sl_stats *stats = sl_stats_new(1);
	assert_non_null(stats);
	client_open(&client,
	            "limits:\n"
	            "  - {name: a, key: user, limit: fixed-window 1/1s, penalty: '[1m, 10m] after 3 denials in 1m'}\n");
	sl_stats_enter(stats, client.context.policy, rows);
	client.context.rows = rows;
	client.context.stats = sl_stats_worker(stats, 0);
	for (int i = 0; i < 9; i++)
		client_ask(&client, "SLUICE.ADMIT 1 user u\r\nSLUICE.CHECK user=u 1 policy:a\r\n");
	assert_true(sl_stats_row(stats, rows[0], &row));
	assert_int_equal(row.penalties, 1);
	client_expect(&client, "SLUICE.ADMIT 1 user u\r\n",
	              "*8\r\n:0\r\n:1\r\n:0\r\n:60000\r\n:60000\r\n:0\r\n:0\r\n$1\r\na\r\n");
	/* An admin forgets them with the counter. */
	client_ask(&client, "SLUICE.RESET user=u policy:a\r\n");
	assert_memory_equal(client_ask(&client, "SLUICE.ADMIT 1 user u\r\n"), "*8\r\n:1\r\n", 8);
	client_close(&client);
	sl_stats_free(stats);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_that_the_door_makes),
		cmocka_unit_test(test_ids_of_one_batch),
		cmocka_unit_test(test_a_name_of_ones_own),
		cmocka_unit_test(test_nil_in_both_protocols),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_parts_and_retries),
		cmocka_unit_test(test_reserve_and_commit),
		cmocka_unit_test(test_mistakes_are_named_and_change_nothing),
		cmocka_unit_test(test_members_are_of_any_length),
		cmocka_unit_test(test_admit_gives_tickets),
		cmocka_unit_test(test_admit_reserves),
		cmocka_unit_test(test_members_of_a_batch),
		cmocka_unit_test(test_admit_reads_words),
		cmocka_unit_test(test_candidates),
		cmocka_unit_test(test_a_ticket_of_long_keys),
		cmocka_unit_test(test_many_tickets_in_one_pipeline),
		cmocka_unit_test(test_command_knows_them),
		cmocka_unit_test(test_what_is_counted),
		cmocka_unit_test(test_explain_says_how_a_key_stands),
		cmocka_unit_test(test_penalties_are_counted_as_they_begin),
	};
	return cmocka_run_group_tests_name("door_resp_held", tests, NULL, NULL);
}
