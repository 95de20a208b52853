/* ready: is a server there, and does it want requests? What /readyz answers, for containers that have no curl and for
 * scripts that wait. */
#include "base/text.h"
#include "hosts/cli/client.h"
#include "hosts/cli/verbs.h"
#include "proto/json.h"

#include <stdio.h>

#define DEFAULT_SERVER "127.0.0.1:7380"

enum { DETAIL_BYTES_MAX = 200 };

static const struct sl_option options[] = {
	{"server", 's', "ADDR", "the server's HTTP address (" DEFAULT_SERVER "), or unix:/path",
     SL_TEXT(offsetof(struct sl_client_options, server))},
	{"tls", 0, NULL, "speak TLS; the server's certificate is verified",
     SL_FLAG(offsetof(struct sl_client_options, tls))},
	{"ca", 0, "FILE", "trust the certificates in this PEM file instead of the system's (--tls)",
     SL_TEXT(offsetof(struct sl_client_options, ca))},
};

/* Asks /readyz; the status that is answered, 0 with `error` filled where there is none. */
static int ask(struct sl_client *client, struct sluice_error *error) {
	static const char request[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	static const char version[] = "HTTP/1.1 ";
	struct sluice_bytes line;
	if (!sl_client_send_bytes(client, sl_str(request), error) || !sl_client_line(client, &line, error))
		return 0;
	const char *digits = (const char *)line.data + sizeof version - 1;
	int status = 0;
	if (line.len >= sizeof version + 2 && memcmp(line.data, version, sizeof version - 1) == 0) {
		for (int i = 0; i < 3 && digits[i] >= '0' && digits[i] <= '9'; i++)
			status = status * 10 + (digits[i] - '0');
	}
	if (status >= 100)
		return status;
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	sl_out_str(&out, "expected HTTP, got ");
	sl_out_quoted(&out, line, 32);
	*out.at = '\0';
	return 0;
}

/* Why not, as the server says it: the `detail` of its problem document, which the end of the connection ends. */
static void say_why(struct sl_client *client) {
	struct sluice_bytes body;
	struct sluice_error error;
	char why[SL_JSON_ERROR_BYTES], text[4 * DETAIL_BYTES_MAX + 8];
	struct sl_out out = sl_out_to(text, sizeof text);
	while (sl_client_line(client, &body, &error) && body.len != 0)
		;
	if (!sl_client_line(client, &body, &error))
		body = sl_slice(client->input + client->at, client->len - client->at);
	json_t *problem = sl_json_read(body, why), *detail = json_object_get(problem, "detail");
	sl_out_shown(&out, json_is_string(detail) ? sl_json_bytes(detail) : sl_str("the server does not say why"),
	             DETAIL_BYTES_MAX);
	printf("not ready: %.*s\n", (int)sl_out_len(&out), text);
	sl_json_free(problem);
}

static int run_ready(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_client_options server = {.server = DEFAULT_SERVER};
	struct sl_client client;
	struct sluice_error error;
	int status = sl_cli_read(verb, argc, argv, &server, NULL), answer = 0;
	if (status == SL_GO_ON)
		status = sl_client_check(verb, &server);
	if (status != SL_GO_ON)
		return status;
	if (sl_client_connect(&client, &server, &error)) {
		answer = ask(&client, &error);
		if (answer == 200)
			puts("ready");
		else if (answer == 503)
			say_why(&client);
		sl_client_close(&client);
	}
	if (answer == 0)
		return sl_cli_fail(verb, "%s: %s", server.server, error.text);
	if (answer != 200 && answer != 503)
		return sl_cli_fail(verb, "%s: HTTP status %d: expected 200 or 503 of a Sluice server", server.server, answer);
	return sl_cli_end(verb, answer == 200 ? SL_EXIT_FINE : SL_EXIT_DENIED);
}

const struct sl_verb sl_verb_ready = {
	.name = "ready",
	.usage = "ready [--server ADDR [--tls [--ca FILE]]]",
	.summary = "Says whether a running server is ready for requests, as its /readyz does",
	.text = "Exit status: 0 ready, 1 not ready, 2 nobody answers.\n",
	.examples = "  sluice ready\n"
				"  until sluice ready >/dev/null 2>&1; do sleep 1; done\n",
	SL_OPTIONS(options),
	.run = run_ready,
};
