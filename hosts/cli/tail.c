/* tail: decisions of a running server as they happen, a line each, until it is interrupted.
 *
 *   connect -> SLUICE.TAIL -> lines --+--> the server has gone: ask again for RETRY_S, then give up
 *                ^                    |
 *                +--------------------+
 *
 * The server says every three seconds that it lives, so silence for longer is one that does not. Keys are an attacker's
 * bytes: what would act on a terminal is shown as \xNN, in both forms. */
#include "base/math.h"
#include "base/text.h"
#include "hosts/cli/cli.h"
#include "hosts/cli/client.h"
#include "hosts/cli/interrupt.h"
#include "hosts/cli/request.h"
#include "hosts/server/door/tailing.h"
#include "os/clock.h"
#include "proto/json.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <unistd.h>

enum { SILENCE_MS = 10000, RETRY_S = 10, RETRY_MS = 200, TEXT_MAX = 256 };

struct tail {
	struct sl_client_options server;
	struct sl_client client;
	const char *limit, *key;
	bool denied, json;
	uint32_t count; /* of decisions to show; 0: all */
	uint32_t shown; /* so far */
	char *secret;   /* SLUICE_PASSWORD, which logging in takes away, for the next time; NULL: none */
	bool following; /* the server has said yes */
	int failed;     /* errno of standard output */
	char line[SL_RECORD_BYTES_MAX + 1];
};
#define TO(field) offsetof(struct tail, field)

static const struct sl_option options[] = {
	SL_CLIENT_OPTIONS(TO(server)),
	{"limit", 'l', "NAME", "only this limit: a name in the policy, or notation",
     SL_TEXT_OF(TO(limit), 1, SLUICE_LIMIT_TEXT_MAX)},
	{"key", 'k', "KEY", "only this key, as `sluice top` shows it (user=ann)",
     SL_TEXT(TO(key))},
	{"denied", 'd', NULL, "only denials, including those that observed limits would make", SL_FLAG(TO(denied))},
	{"json", 0, NULL, "lines of JSON, as docs/tail.schema.json says", SL_FLAG(TO(json))},
	{"count", 'n', "N", "exit after N decisions", SL_NUMBER(TO(count), 1, UINT32_MAX)},
};

static const char *address_of(const struct tail *tail) {
	return tail->server.server != NULL ? tail->server.server : SL_CLI_SERVER;
}

/* ---- a line for people ------------------------------------------------------------------------------------------- */

/* A text of the line, as it may be shown; "" where it has none. Cut after TEXT_MAX bytes. */
static const char *text_of(const json_t *line, const char *name, char room[SL_TEXT_ROOM(TEXT_MAX) + 1]) {
	const json_t *value = json_object_get(line, name);
	struct sl_out out = sl_out_to(room, SL_TEXT_ROOM(TEXT_MAX));
	if (json_is_string(value))
		sl_out_shown(&out, sl_json_bytes(value), TEXT_MAX);
	*out.at = '\0';
	return room;
}

static int64_t number_of(const json_t *line, const char *name) {
	return json_integer_value(json_object_get(line, name));
}

static const char *verdict_of(const json_t *line) {
	bool allowed = json_is_true(json_object_get(line, "allowed"));
	if (json_object_get(line, "failed_open") != NULL)
		return allowed ? "failed open" : "unanswered";
	if (allowed)
		return json_object_get(line, "request_denied") != NULL ? "would allow" : "allowed";
	return json_is_true(json_object_get(line, "observed")) ? "would deny" : "denied";
}

/* "41 of 600 left", and of a denial when to come again. */
static void print_figures(const json_t *line) {
	char wait[SL_WAIT_TEXT_MAX], never[SL_NEVER_TEXT_MAX], bound[SL_TEXT_ROOM(TEXT_MAX) + 1];
	if (json_object_get(line, "quota") == NULL)
		return;
	printf("  %" PRId64 " of %" PRId64 " left", number_of(line, "remaining"), number_of(line, "quota"));
	if (json_is_true(json_object_get(line, "allowed")))
		return;
	text_of(line, "bound", bound);
	if (number_of(line, "retry_after_ms") < 0)
		printf(", never%s", sl_request_never(never, bound, number_of(line, "cost") > number_of(line, "quota")));
	else
		printf(", again in %s", sl_cli_wait(wait, number_of(line, "retry_after_ms")));
	if (number_of(line, "retry_after_ms") >= 0 && bound[0] != '\0')
		printf(" (bound: %s)", bound);
}

static void print_request(const json_t *line) {
	static const char *const names[] = {"method", "route", "address", "request_id"};
	char room[SL_TEXT_ROOM(TEXT_MAX) + 1];
	if (number_of(line, "cost") != 1)
		printf("  cost %" PRId64, number_of(line, "cost"));
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (json_object_get(line, names[i]) != NULL)
			printf("  %s", text_of(line, names[i], room));
	if (json_object_get(line, "candidate") != NULL)
		fputs("  (candidate)", stdout);
}

/* 22:00:00.123Z  denied       login  user=ann  0 of 5 left, again in 3.1 s  POST  192.0.2.7 */
static void print_decision(const json_t *line) {
	char time[SL_TEXT_ROOM(TEXT_MAX) + 1], limit[SL_TEXT_ROOM(TEXT_MAX) + 1], key[SL_TEXT_ROOM(TEXT_MAX) + 1];
	const char *clock = strchr(text_of(line, "time", time), 'T');
	printf("%s  %-11s  %s  %s", clock != NULL ? clock + 1 : time, verdict_of(line), text_of(line, "limit", limit),
	       text_of(line, "key", key));
	print_figures(line);
	print_request(line);
	putchar('\n');
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

/* Shows what the server has sent. False with `error` filled for what is no line. */
static bool show(struct tail *tail, size_t len, struct sluice_error *error) {
	char why[SL_JSON_ERROR_BYTES];
	json_t *line = sl_json_read(sl_slice(tail->line, len), why);
	if (line == NULL) {
		snprintf(error->text, sizeof error->text, "expected a decision, which is not JSON: %.150s", why);
		return false;
	}
	const json_t *skipped = json_object_get(line, "skipped");
	tail->line[len] = '\0';
	if (skipped == NULL)
		tail->shown++;
	if (tail->json && (skipped == NULL || json_integer_value(skipped) != 0)) {
		sl_cli_show(stdout, tail->line);
		putchar('\n');
	} else if (!tail->json && skipped == NULL) {
		print_decision(line);
	} else if (!tail->json && json_integer_value(skipped) != 0) {
		printf("... %" PRId64 " more are not shown\n", (int64_t)json_integer_value(skipped));
	}
	sl_json_free(line);
	return true;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static bool begin(struct tail *tail, struct sluice_error *error) {
	struct sluice_bytes words[6] = {sl_str("SLUICE.TAIL")};
	int count = 1;
	size_t len;
	if (tail->secret != NULL)
		setenv("SLUICE_PASSWORD", tail->secret, 1);
	if (!sl_client_open(&tail->client, &tail->server, error))
		return false;
	if (tail->limit != NULL) {
		words[count++] = sl_str("LIMIT");
		words[count++] = sl_str(tail->limit);
	}
	if (tail->key != NULL) {
		words[count++] = sl_str("KEY");
		words[count++] = sl_str(tail->key);
	}
	if (tail->denied)
		words[count++] = sl_str("DENIED");
	tail->following = sl_client_send(&tail->client, words, count, error) &&
	                  sl_client_string(&tail->client, tail->line, sizeof tail->line - 1, &len, error);
	return tail->following;
}

/* What was printed is to be seen before anything is waited for. */
static void flush(struct tail *tail) {
	if (fflush(stdout) != 0 && tail->failed == 0)
		tail->failed = errno;
}

/* Waits until there is something to read. False when it is to end, or the server is silent. */
static bool wait_for_line(struct tail *tail, struct sluice_error *error) {
	struct pollfd in = {.fd = tail->client.fd, .events = POLLIN};
	if (sl_interrupted())
		return false;
	if (tail->client.at < tail->client.len)
		return true;
	flush(tail);
	if (tail->failed != 0)
		return false;
	int ready = sl_interrupt_poll(&in, 1, SILENCE_MS);
	snprintf(error->text, sizeof error->text, "nothing within %d seconds", SILENCE_MS / 1000);
	return ready == 1 && !sl_interrupted();
}

static bool read_line(struct tail *tail, struct sluice_error *error) {
	int64_t members;
	size_t len;
	return sl_client_integer(&tail->client, '*', &members, error) &&
	       sl_client_string(&tail->client, tail->line, sizeof tail->line - 1, &len, error) &&
	       sl_client_string(&tail->client, tail->line, sizeof tail->line - 1, &len, error) && show(tail, len, error);
}

static bool is_over(const struct tail *tail) {
	return sl_interrupted() || tail->failed != 0 || ferror(stdout) || (tail->count != 0 && tail->shown >= tail->count);
}

/* Asks again after the server has gone: an upgrade or a restart is over in a moment. */
static bool begin_again(const struct sl_verb *verb, struct tail *tail, struct sluice_error *error) {
	sluice_ns until = sl_clock_monotonic() + (sluice_ns)RETRY_S * 1000000000;
	flush(tail);
	fprintf(stderr, "sluice %s: %s: %s: retrying\n", verb->name, address_of(tail), error->text);
	tail->following = false;
	do {
		if (begin(tail, error))
			return true;
		if (tail->client.reached) /* and refused */
			return false;
		sl_interrupt_poll(NULL, 0, RETRY_MS);
	} while (!sl_interrupted() && sl_clock_monotonic() < until);
	return false;
}

static int follow(const struct sl_verb *verb, struct tail *tail) {
	struct sluice_error error = {.text = ""};
	sl_interrupt_begin(false); /* before the server counts a reader: whoever sees that may end it */
	bool fine = begin(tail, &error);
	while (fine && !is_over(tail)) {
		if (wait_for_line(tail, &error) && read_line(tail, &error))
			continue;
		sl_client_close(&tail->client);
		fine = is_over(tail) || begin_again(verb, tail, &error);
	}
	if (tail->following)
		sl_client_close(&tail->client);
	if (!fine && !sl_interrupted())
		return sl_cli_fail(verb, "%s: %s", address_of(tail), error.text);
	flush(tail);
	if (tail->failed != 0)
		return sl_cli_fail(verb, "standard output: %s", strerror(tail->failed));
	return sl_cli_end(verb, SL_EXIT_FINE);
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

static int run_tail(const struct sl_verb *verb, int argc, char **argv) {
	struct tail *tail = calloc(1, sizeof *tail);
	if (tail == NULL)
		return sl_cli_fail(verb, "no memory");
	int status = sl_cli_read(verb, argc, argv, tail, NULL);
	if (status == SL_GO_ON)
		status = sl_client_check(verb, &tail->server);
	if (status == SL_GO_ON) {
		const char *secret = getenv("SLUICE_PASSWORD");
		tail->secret = secret != NULL ? strdup(secret) : NULL;
		sl_client_begin(&tail->client);
		status = follow(verb, tail);
		if (tail->secret != NULL)
			OPENSSL_cleanse(tail->secret, strlen(tail->secret));
		free(tail->secret);
	}
	free(tail);
	return status;
}

const struct sl_verb sl_verb_tail = {
	.name = "tail",
	.usage = "tail [--limit NAME] [--key KEY] [--denied] [--json] [--count N]\n"
			 "                   [--server ADDR [--user NAME] [--tls [--ca FILE]]]",
	.summary = "Shows the decisions of a running server as they happen",
	.text = "A line is what one limit decided of one request: when, what, the limit, the key, what is left. Ctrl-C "
			"ends it.\n"
			"Under heavy traffic it is a sample: each thread sends at most 200 lines in a tenth of a second and counts "
			"the\n"
			"rest. The server applies --limit, --key and --denied before it samples, so rare decisions are found. If "
			"the\n"
			"server goes away, tail tries to reconnect for ten seconds. Keys are shown as in the server's log.\n",
	.examples = "  sluice tail\n"
				"  sluice tail --denied --limit login\n"
				"  sluice tail --key user=ann --count 10\n"
				"  sluice tail --json | jq -r 'select(.allowed == false) | .key'\n",
	SL_OPTIONS(options),
	.no_word = ": it takes no words; --key KEY follows a key",
	.run = run_tail,
};
