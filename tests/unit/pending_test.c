/* Doors whose decisions are made elsewhere, against doors that decide at once: the same bytes, cut anywhere, get the
 * same answers, whether decisions are ready at once, later, or never.
 *
 * Elsewhere is a second store of this process: calls are decided in it when the test says so. So the
 * answers must be equal to the last byte, and so must what was counted. */
#include "hosts/server/door/override_ask.h"
#include "hosts/server/door/pending.h"
#include "tests/model/dice.h"
#include "tests/unit/door_resp.h"
#include "tests/unit/spop_frames.h"

#include <inttypes.h>

static const char policy_text[] = "client-time: true\n"
								  "limits:\n"
								  "  - name: per-user\n"
								  "    key: user\n"
								  "    limit: 7/1m\n"
								  "    candidate: 3/1m\n"
								  "    on-error: deny\n"
								  "  - name: shadow\n"
								  "    key: user\n"
								  "    limit: sliding-log 3/1m\n"
								  "    observe: true\n"
								  "  - name: open\n"
								  "    key: path\n"
								  "    limit: token-bucket 5/1s\n";

/* What decides for a door, and how soon. */
struct elsewhere {
	struct sl_remote remote;
	struct sluice_store *store;
	unsigned at_once_percent; /* of those that are ready at once */
	bool away;                /* nobody is there */
	bool apart;               /* whoever is there can't decide it */
	uint64_t sent, calls;
	struct dice dice;
};

static void list_one(void *list, const struct sluice_override_entry *entry) {
	sl_override_list_add(list, entry->name, entry->key, entry->limit, sl_ns_to_ms_ceil(entry->ends_after_ns));
}

/* What a door asks of quotas of keys' own. */
static void do_override(struct elsewhere *there, struct sl_override_ask *ask) {
	const struct sluice_override_request request = {.limit = ask->limits,
	                                                .key = ask->key,
	                                                .own = &ask->own,
	                                                .ttl_ns = ask->ttl_ms * SL_MS_NS,
	                                                .name = sl_str(ask->name != NULL ? ask->name : "")};
	if (ask->kind == SL_OVERRIDE_SET)
		ask->err = sluice_override_set(there->store, &request, NOW_NS, &ask->error);
	else if (ask->kind == SL_OVERRIDE_GET)
		ask->err = sluice_override_get(there->store, ask->limits, ask->key, NOW_NS, &ask->found);
	else if (ask->kind == SL_OVERRIDE_DELETE)
		ask->gone = sluice_override_delete(there->store, ask->limits, ask->key, NOW_NS) == SLUICE_OK;
	else
		ask->list.next = sluice_override_list(there->store, ask->from, ask->most, NOW_NS, list_one, &ask->list);
	sl_override_list_end(&ask->list);
}

static void decide_all(struct elsewhere *there, struct sl_pending *pending) {
	if (pending->override != NULL)
		do_override(there, pending->override);
	for (uint32_t i = 0; i < pending->call_count && pending->override == NULL; i++) {
		struct sluice_call *call = &pending->calls[i].call;
		if (there->away || there->apart)
			call->err = there->away ? SLUICE_E_AWAY : (sluice_err)SLUICE_E_APART;
		else
			assert_int_equal(sluice_decide(there->store, call), SLUICE_OK);
	}
	there->sent++;
	there->calls += pending->call_count;
}

static bool on_send(struct sl_remote *remote, struct sl_pending *pending) {
	struct elsewhere *there = (struct elsewhere *)remote;
	if (dice_below(&there->dice, 100) >= there->at_once_percent)
		return false;
	decide_all(there, pending);
	return true;
}

static void elsewhere_open(struct elsewhere *there, uint64_t seed) {
	struct sluice_store_options options = {.memory_bytes = 4 * 1024 * 1024};
	*there = (struct elsewhere){.remote.send = on_send};
	there->dice = dice_of(seed, 1);
	assert_int_equal(sluice_store_open(&there->store, &options, NULL), SLUICE_OK);
}

/* ---- a connection, as far as a door sees one --------------------------------------------------------------------- */

struct line {
	struct sl_door_context context;
	const struct sl_door *door;
	struct elsewhere *there; /* NULL: decides at once */
	struct sl_buffer out;
	void *state;
	char *kept; /* not consumed */
	size_t kept_len;
	struct sl_pending *ready;
	struct sl_stats *stats;
	uint32_t settled;
	bool closed;
};

static void line_open(struct line *line, const struct sl_door *door, struct elsewhere *there) {
	struct sluice_policy *policy = NULL;
	struct sluice_store_options options = {.memory_bytes = 4 * 1024 * 1024};
	*line = (struct line){.door = door, .there = there, .context = {.now = NOW_NS, .forms = SL_FORM_DRAFT10}};
	assert_int_equal(sluice_policy_load(&policy, sl_str(policy_text), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&line->context.store, &options, NULL), SLUICE_OK);
	line->context.policy = policy;
	line->context.match_buffer = malloc(SLUICE_MATCH_BYTES_MAX);
	line->context.remote = there != NULL ? &there->remote : NULL;
	line->context.connection_id = 1;
	line->stats = sl_stats_new(1);
	line->context.stats = sl_stats_worker(line->stats, 0);
	line->state = door->open(&line->context);
}

static void line_close(struct line *line) {
	line->door->close(line->state);
	sl_pending_free_all(line->ready);
	sl_door_context_free(&line->context);
	sl_stats_free(line->stats);
	sl_buffer_free(&line->out);
	free(line->kept);
	free(line->context.match_buffer);
	sluice_store_close(line->context.store);
	sluice_policy_free((struct sluice_policy *)line->context.policy);
}

static enum sl_door_verdict feed_once(struct line *line, size_t *done) {
	size_t len = line->kept_len - *done, consumed = 0;
	char *memory = malloc(len + 1); /* of their own each time: nothing may be kept of the last feed's */
	memcpy(memory, line->kept + *done, len);
	line->context.ready = line->ready;
	line->context.ready_settled = line->settled;
	line->context.ready_taken = 0;
	enum sl_door_verdict verdict = line->door->feed(line->state, &line->context, memory, len, &consumed, &line->out);
	line->ready = line->context.ready;
	line->settled = line->context.ready_settled;
	free(memory);
	assert_true(consumed <= len);
	*done += consumed;
	return verdict;
}

static void line_land(struct line *line) {
	struct sl_pending *pending = line->context.pending, **end = &line->ready;
	assert_non_null(pending);
	decide_all(line->there, pending);
	pending->next = NULL;
	while (*end != NULL)
		end = &(*end)->next;
	*end = pending;
}

/* Bytes arrive; all that they ask for is decided, before others come. */
static void line_send(struct line *line, const char *bytes, size_t len) {
	enum sl_door_verdict verdict;
	size_t done = 0;
	if (line->closed)
		return;
	line->kept = realloc(line->kept, line->kept_len + len + 1);
	memcpy(line->kept + line->kept_len, bytes, len);
	line->kept_len += len;
	do {
		verdict = feed_once(line, &done);
		if (verdict == SL_DOOR_WAIT)
			line_land(line);
		else if (verdict != SL_DOOR_MORE)
			assert_null(line->ready); /* all that was asked for was answered */
	} while (verdict == SL_DOOR_MORE || verdict == SL_DOOR_WAIT);
	line->closed = verdict == SL_DOOR_CLOSE;
	memmove(line->kept, line->kept + done, line->kept_len - done);
	line->kept_len -= done;
}

/* ---- random requests --------------------------------------------------------------------------------------------- */

static size_t resp_request(struct dice *dice, char *text, size_t room) {
	static const char *const forms[] = {
		"*4\r\n$12\r\nSLUICE.CHECK\r\n$1\r\n%c\r\n$1\r\n1\r\n$4\r\n3/1m\r\n",
		"*5\r\n$12\r\nSLUICE.CHECK\r\n$1\r\n%c\r\n$1\r\n1\r\n$5\r\n10/1s\r\n$14\r\nsliding-log 4/\r\n",
		"*5\r\n$12\r\nSLUICE.CHECK\r\n$1\r\n%c\r\n$1\r\n2\r\n$5\r\n10/1s\r\n$16\r\nsliding-log 4/1m\r\n",
		"*4\r\n$11\r\nSLUICE.PEEK\r\n$1\r\n%c\r\n$1\r\n1\r\n$15\r\npolicy:per-user\r\n",
		"*4\r\n$12\r\nSLUICE.ADMIT\r\n$1\r\n1\r\n$4\r\nuser\r\n$1\r\n%c\r\n",
		"*6\r\n$12\r\nSLUICE.ADMIT\r\n$1\r\n1\r\n$4\r\nuser\r\n$1\r\n%c\r\n$4\r\npath\r\n$1\r\n/\r\n",
		"*4\r\n$14\r\nSLUICE.EXPLAIN\r\n$1\r\n1\r\n$4\r\nuser\r\n$1\r\n%c\r\n",
		"*3\r\n$12\r\nSLUICE.RESET\r\n$1\r\n%c\r\n$15\r\npolicy:per-user\r\n",
		"*4\r\n$13\r\nSLUICE.REFUND\r\n$1\r\n%c\r\n$1\r\n1\r\n$4\r\n3/1m\r\n",
		"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\n%c\r\n$1\r\n2\r\n$1\r\n3\r\n$2\r\n60\r\n",
		"*2\r\n$4\r\nECHO\r\n$1\r\n%c\r\n",
		"SLUICE.CHECK %c 1 5/1h\r\n",
		"SLUICE.CHECK %c 3 UPTO 5/1h\r\n",
		"SLUICE.CHECK %c 1 ID t 5/1h MEMBER m 'distinct 2/1h'\r\n",
		"SLUICE.ACQUIRE %c 1 ID me 'concurrency 2 lease 20ms'\r\nSLUICE.RENEW k me 'concurrency 2 lease 20ms'\r\n",
		"SLUICE.RELEASE %c me 'concurrency 2 lease 20ms' 5/1h\r\n",
		"SLUICE.RESERVE %c 3 20 ID 00000000000000aa 'fixed-window 9/1m'\r\n",
		"SLUICE.COMMIT %c 00000000000000aa.AQQRZml4ZWQtd2luZG93IDkvMW0 1\r\n",
		"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n*4\r\n$12\r\nSLUICE.CHECK\r\n$1\r\n%c\r\n$1\r\n1\r\n$"
		"4\r\n3/1m\r\n",
		"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\n%c\r\n*2\r\n$6\r\nCLIENT\r\n$7\r\nGETNAME\r\n",
		"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n*4\r\n$12\r\nSLUICE.CHECK\r\n$1\r\n%c\r\n$1\r\n1\r\n$4\r\n3/"
		"1m\r\n"
		"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n",
	};
	const char *form = forms[dice_below(dice, sizeof forms / sizeof forms[0])];
	int len = snprintf(text, room, form, (char)('a' + dice_below(dice, 4)));
	assert_true(len > 0 && (size_t)len < room);
	return (size_t)len;
}

static size_t http_request(struct dice *dice, char *text, size_t room) {
	static const char *const bodies[][2] = {
		{"/v1/check", "{\"key\":\"%c\",\"limits\":[\"3/1m\",\"sliding-log 2/1s\"]}"},
		{"/v1/check", "{\"key\":\"%c\",\"limits\":[\"policy:per-user\"],\"peek\":true}"},
		{"/v1/admit", "{\"attributes\":{\"user\":\"%c\",\"path\":\"/\"}}"},
		{"/v1/refund", "{\"key\":\"%c\",\"limits\":[\"3/1m\"]}"},
		{"/v1/reset", "{\"key\":\"%c\",\"limits\":[\"policy:per-user\",\"3/1m\",\"policy:shadow\"]}"},
		{"/v1/check", "{\"key\":\"%c\",\"limits\":[\"3/1q\"]}"},
	};
	char body[160];
	uint32_t which = (uint32_t)dice_below(dice, sizeof bodies / sizeof bodies[0] + 2);
	if (which >= sizeof bodies / sizeof bodies[0])
		return (size_t)snprintf(text, room, "GET /v1/explain?user=%c&path=/ HTTP/1.1\r\nHost: x\r\n\r\n",
		                        (char)('a' + dice_below(dice, 4)));
		/* the one conversion of each is a char */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	int len = snprintf(body, sizeof body, bodies[which][1], (char)('a' + dice_below(dice, 4)));
#pragma GCC diagnostic pop
	const char *expect = dice_below(dice, 8) == 0 ? "Expect: 100-continue\r\n" : "";
	return (size_t)snprintf(text, room, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s",
	                        bodies[which][0], expect, len, body);
}

static size_t spop_request(struct dice *dice, char *text, size_t room) {
	char user[] = {(char)('a' + dice_below(dice, 4)), '\0'};
	static const char *const messages[] = {"admit", "admit", "admit", "admit", "admit", "commit", "nonsense"};
	const char *message = messages[dice_below(dice, sizeof messages / sizeof messages[0])];
	bool commits = message[0] == 'c';
	const char *const pairs[] = {commits ? "ticket" : "user",
	                             commits ? "00000000000000aa.AQQRZml4ZWQtd2luZG93IDkvMW0" : user,
	                             commits ? "x-actual-cost" : "path",
	                             commits ? "1" : "/",
	                             dice_below(dice, 8) == 0 ? "cost" : NULL,
	                             "two",
	                             NULL};
	struct sl_out out = sl_out_to(text, room);
	spop_notify(&out, dice_below(dice, 1000), dice_below(dice, 3), message, pairs);
	assert_false(out.overflow);
	return sl_out_len(&out);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

typedef size_t request_fn(struct dice *dice, char *text, size_t room);

/* What a connection of a door begins with. */
static size_t greet(const struct sl_door *door, char *text, size_t room) {
	struct sl_out out = sl_out_to(text, room);
	if (door == &sl_door_spop)
		spop_hello(&out, 16380, false);
	return sl_out_len(&out);
}

static void compare(const struct sl_door *door, request_fn *make, uint64_t seed, unsigned at_once_percent) {
	struct elsewhere there;
	struct line here, remote;
	struct dice dice;
	char text[64 * 1024];
	size_t len = 0;
	elsewhere_open(&there, seed);
	there.at_once_percent = at_once_percent;
	line_open(&here, door, NULL);
	line_open(&remote, door, &there);
	dice = dice_of(seed, 2);
	len = greet(door, text, sizeof text);
	for (int i = 0; i < 150; i++)
		len += make(&dice, text + len, sizeof text - len);
	for (size_t at = 0; at < len;) {
		size_t more = 1 + (size_t)dice_below(&dice, dice_below(&dice, 3) == 0 ? 20 : 8000);
		more = more < len - at ? more : len - at;
		line_send(&here, text + at, more);
		line_send(&remote, text + at, more);
		here.context.now += 1000000;
		remote.context.now += 1000000;
		at += more;
		assert_int_equal(here.out.len, remote.out.len);
		assert_memory_equal(here.out.data, remote.out.data, here.out.len);
		assert_int_equal(here.context.commands, remote.context.commands);
		assert_int_equal(here.kept_len, remote.kept_len);
		assert_int_equal(here.context.stats->errors[door->transport], remote.context.stats->errors[door->transport]);
	}
	assert_true(there.sent > 0);
	line_close(&here);
	line_close(&remote);
	sluice_store_close(there.store);
}

static void test_same_answers_resp(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		compare(&sl_door_resp, resp_request, seed, seed % 3 * 50);
}

static void test_same_answers_http(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		compare(&sl_door_http, http_request, seed, seed % 3 * 50);
}

static void test_same_answers_spop(void **state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		compare(&sl_door_spop, spop_request, seed, seed % 3 * 50);
}

/* Each decision is asked for once, however often the bytes are read. */
static void test_decided_once(void **state) {
	static const char check[] = "*4\r\n$12\r\nSLUICE.CHECK\r\n$1\r\nk\r\n$1\r\n1\r\n$6\r\n500/1h\r\n";
	struct elsewhere there;
	struct line line;
	char *text = malloc(300 * sizeof check);
	size_t len = 0;
	(void)state;
	elsewhere_open(&there, 1);
	line_open(&line, &sl_door_resp, &there);
	for (int i = 0; i < 300; i++, len += sizeof check - 1)
		memcpy(text + len, check, sizeof check - 1);
	line_send(&line, text, len);
	assert_int_equal(there.calls, 300);
	assert_int_equal(there.sent, 5); /* of 64 at most */
	assert_int_equal(line.context.commands, 300);
	static const char last[] = "*7\r\n:1\r\n:500\r\n:200\r\n";
	assert_non_null(memmem(line.out.data, line.out.len, last, sizeof last - 1));
	free(text);
	line_close(&line);
	sluice_store_close(there.store);
}

/* Nobody is there: the policy says what a request gets, and notation an error. */
static void test_away(void **state) {
	static const struct {
		const char *request, *answer;
	} rows[] = {
		{"SLUICE.CHECK k 1 3/1m\r\n", "-ERR the store did not answer in time: the request was not decided\r\n"},
		{"SLUICE.ADMIT 1 user k\r\n", "*8\r\n:0\r\n:7\r\n:0\r\n:1000\r\n:0\r\n:0\r\n:0\r\n$8\r\nper-user\r\n"},
		{"SLUICE.ADMIT 1 path k\r\n", "*8\r\n:1\r\n:4294967295\r\n:4294967295\r\n:0\r\n:0\r\n:0\r\n:-1\r\n$0\r\n\r\n"},
		{"SLUICE.EXPLAIN 1 user k\r\n", "-ERR the store did not answer in time: nothing was read\r\n"},
	};
	struct elsewhere there;
	struct line line;
	(void)state;
	elsewhere_open(&there, 1);
	there.away = true;
	line_open(&line, &sl_door_resp, &there);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		line.out.len = 0;
		line_send(&line, rows[i].request, strlen(rows[i].request));
		assert_int_equal(line.out.len, strlen(rows[i].answer));
		assert_memory_equal(line.out.data, rows[i].answer, line.out.len);
	}
	line_close(&line);
	sluice_store_close(there.store);
}

static void test_away_spop(void **state) {
	static const char *const rows[][2] = {{"user", "unable"}, {"path", "failed_open"}};
	struct elsewhere there;
	struct line line;
	char text[256];
	(void)state;
	elsewhere_open(&there, 1);
	there.away = true;
	line_open(&line, &sl_door_spop, &there);
	line_send(&line, text, greet(line.door, text, sizeof text));
	for (size_t i = 0; i < 2; i++) {
		const char *const pairs[] = {rows[i][0], "k", NULL};
		struct sl_out out = sl_out_to(text, sizeof text);
		spop_notify(&out, 1, 1, "admit", pairs);
		line.out.len = 0;
		line_send(&line, text, sl_out_len(&out));
		assert_non_null(memmem(line.out.data, line.out.len, rows[i][1], strlen(rows[i][1])));
		assert_non_null(memmem(line.out.data, line.out.len, i == 0 ? "denied\x11" : "denied\x01", 7));
	}
	/* what can't be decided is refused, though the limit is open to outages: a caller may have brought it about */
	const char *const open[] = {"path", "k", NULL};
	struct sl_out out = sl_out_to(text, sizeof text);
	there.away = false;
	there.apart = true;
	spop_notify(&out, 1, 1, "admit", open);
	line.out.len = 0;
	line_send(&line, text, sl_out_len(&out));
	assert_non_null(memmem(line.out.data, line.out.len, "refused", 7));
	assert_null(memmem(line.out.data, line.out.len, "denied", 6));
	line_close(&line);
	sluice_store_close(there.store);
}

static void test_away_http(void **state) {
	static const struct {
		const char *request, *status, *inside;
	} rows[] = {
		{"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n{\"key\":\"a\",\"limits\":[\"3/1m\"]}  ",
	     "HTTP/1.1 503 ", "Store away"},
		{"POST /v1/admit HTTP/1.1\r\nHost: x\r\nContent-Length: 29\r\n\r\n{\"attributes\":{\"user\":\"ann\"}}",
	     "HTTP/1.1 503 ", "[\"per-user\"]"},
		{"POST /v1/admit HTTP/1.1\r\nHost: x\r\nContent-Length: 27\r\n\r\n{\"attributes\":{\"path\":\"/\"}}",
	     "HTTP/1.1 200 ", "\"allowed\":true"},
	};
	struct elsewhere there;
	struct line line;
	(void)state;
	elsewhere_open(&there, 1);
	there.away = true;
	line_open(&line, &sl_door_http, &there);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		line.out.len = 0;
		line_send(&line, rows[i].request, strlen(rows[i].request));
		assert_true(line.out.len > 13);
		assert_memory_equal(line.out.data, rows[i].status, 13);
		assert_non_null(memmem(line.out.data, line.out.len, rows[i].inside, strlen(rows[i].inside)));
	}
	line_close(&line);
	sluice_store_close(there.store);
}

/* What is told to whoever decides. */
static bool look(struct sl_remote *remote, struct sl_pending *pending) {
	const struct sl_pending_call *call = &pending->calls[0];
	(void)remote;
	assert_int_equal(pending->call_count, 1);
	assert_int_equal(call->call.item_count, 3); /* per-user, shadow, and per-user's candidate */
	assert_string_equal(call->facts[0].name, "per-user");
	assert_int_equal(call->facts[0].on_error, SL_ON_ERROR_DENY);
	assert_string_equal(call->facts[1].name, "shadow");
	assert_int_equal(call->facts[1].on_error, SL_ON_ERROR_ALLOW);
	assert_string_equal(call->facts[2].name, "per-user");
	assert_int_equal(call->call.items[1].observed, SLUICE_OBSERVED);
	assert_int_equal(call->call.items[2].observed, SLUICE_TRIED);
	assert_false(call->dated);
	return false;
}

static void test_facts(void **state) {
	static const char admit[] = "SLUICE.ADMIT 1 user k\r\n";
	struct elsewhere there;
	struct line line;
	size_t done = 0;
	(void)state;
	elsewhere_open(&there, 1);
	there.remote.send = look;
	line_open(&line, &sl_door_resp, &there);
	line.kept = strdup(admit);
	line.kept_len = strlen(admit);
	assert_int_equal(feed_once(&line, &done), SL_DOOR_WAIT);
	assert_int_equal(done, 0);
	assert_int_equal(line.out.len, 0);
	sl_pending_free(line.context.pending);
	line_close(&line);
	sluice_store_close(there.store);
}

/* A door makes an id each time that it reads the request; what it answers is the one that was decided by. */
static void test_the_id_that_is_answered_is_held(void **state) {
	(void)state;
	struct elsewhere there;
	struct line line;
	struct sluice_limit limit;
	struct sluice_holder holder;
	char want[128];
	static const char asked[] = "SLUICE.ACQUIRE k 1 'concurrency 2 lease 1m'\r\n";
	elsewhere_open(&there, 1);
	line_open(&line, &sl_door_resp, &there);
	line_send(&line, asked, sizeof asked - 1);
	assert_int_equal(there.sent, 1);
	assert_int_equal(sluice_limit_parse(&limit, sl_str("concurrency 2 lease 1m"), NULL), SLUICE_OK);
	assert_int_equal(sluice_holders(there.store, &limit, sl_str("k"), NOW_NS, &holder, 1), 1);
	snprintf(want, sizeof want, "*8\r\n:1\r\n:2\r\n:1\r\n:0\r\n:60000\r\n:0\r\n:0\r\n$16\r\n%016llx\r\n",
	         (unsigned long long)holder.id);
	assert_int_equal(line.out.len, strlen(want));
	assert_memory_equal(line.out.data, want, strlen(want));
	line_close(&line);
	sluice_store_close(there.store);
}

/* Asked once, whether the answer is there at once or not. Nothing of an ask stays: AddressSanitizer's build tells. */
static void test_quotas_of_keys(void **state) {
	static const char *const rows[][2] = {
		{"SLUICE.OVERRIDE SET policy:per-user k 9/1m\r\n", "+OK\r\n"},
		{"SLUICE.OVERRIDE GET policy:per-user k\r\n", "*2\r\n$19\r\nsliding-window 9/1m\r\n:-1\r\n"},
		{"SLUICE.OVERRIDE LIST\r\n", "*2\r\n:0\r\n*1\r\n*4\r\n$8\r\nper-user\r\n$1\r\nk\r\n"
	                               "$19\r\nsliding-window 9/1m\r\n:-1\r\n"},
		{"SLUICE.OVERRIDE DEL policy:per-user k\r\n", ":1\r\n"},
		{"SLUICE.OVERRIDE GET policy:per-user k\r\n", "$-1\r\n"},
	};
	(void)state;
	for (unsigned at_once = 0; at_once <= 100; at_once += 100) {
		struct elsewhere there;
		struct line line;
		size_t done = 0;
		elsewhere_open(&there, 1);
		there.at_once_percent = at_once;
		line_open(&line, &sl_door_resp, &there);
		for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
			line.out.len = 0;
			line_send(&line, rows[i][0], strlen(rows[i][0]));
			assert_int_equal(line.out.len, strlen(rows[i][1]));
			assert_memory_equal(line.out.data, rows[i][1], line.out.len);
		}
		assert_int_equal(there.sent, 5);
		if (at_once == 0) { /* the connection ends before it is told */
			line.kept = realloc(line.kept, strlen(rows[1][0]));
			line.kept_len = strlen(rows[1][0]);
			memcpy(line.kept, rows[1][0], line.kept_len);
			assert_int_equal(feed_once(&line, &done), SL_DOOR_WAIT);
			line_land(&line);
		}
		line_close(&line);
		sluice_store_close(there.store);
	}
}

/* A request that is refused when it is read again does not ask for what it has got: the next one must not get it. */
static void test_what_is_not_asked_for_again(void **state) {
	static const char dated[] = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 36\r\n\r\n"
								"{\"key\":\"a\",\"limits\":[\"3/1m\"],\"at\":5}",
					  plain[] = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n"
								"{\"key\":\"bb\",\"limits\":[\"3/1m\"] }";
	struct elsewhere there;
	struct line line;
	struct sluice_policy *other = NULL;
	size_t done = 0;
	(void)state;
	elsewhere_open(&there, 1);
	line_open(&line, &sl_door_http, &there);
	line.kept_len = sizeof dated - 1 + sizeof plain - 1;
	line.kept = malloc(line.kept_len);
	memcpy(line.kept, dated, sizeof dated - 1);
	memcpy(line.kept + sizeof dated - 1, plain, sizeof plain - 1);
	assert_int_equal(feed_once(&line, &done), SL_DOOR_WAIT);
	line_land(&line);
	assert_int_equal(sluice_policy_load(&other, sl_str("limits: []\n"), NULL), SLUICE_OK);
	sluice_policy_free((struct sluice_policy *)line.context.policy);
	line.context.policy = other;
	assert_int_equal(feed_once(&line, &done), SL_DOOR_WAIT);
	assert_int_equal(done, sizeof dated - 1);
	line_land(&line);
	assert_int_equal(feed_once(&line, &done), SL_DOOR_OPEN);
	assert_int_equal(done, line.kept_len);
	assert_memory_equal(line.out.data, "HTTP/1.1 400 ", 13);
	assert_non_null(memmem(line.out.data, line.out.len, "\"key\":\"bb\"", 10));
	assert_null(line.ready);
	line_close(&line);
	sluice_store_close(there.store);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_asked_for_again),
		cmocka_unit_test(test_quotas_of_keys),
		cmocka_unit_test(test_the_id_that_is_answered_is_held),
		cmocka_unit_test(test_same_answers_resp),
		cmocka_unit_test(test_same_answers_http),
		cmocka_unit_test(test_same_answers_spop),
		cmocka_unit_test(test_decided_once),
		cmocka_unit_test(test_away),
		cmocka_unit_test(test_away_http),
		cmocka_unit_test(test_away_spop),
		cmocka_unit_test(test_facts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
