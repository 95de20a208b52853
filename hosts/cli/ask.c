/* See ask.h. What is asked is the same wherever it is answered, so verbs do not know whom they ask. */
#include "hosts/cli/ask.h"

#include "base/assert.h"
#include "base/fold.h"
#include "hosts/cli/store/store_open.h"
#include "hosts/server/door/call_outcome.h"

#include <inttypes.h>
#include <stdio.h>

enum { TTL_S = 60, FIELDS_MAX = SL_FORM_FIELDS_MAX + SL_WORDS + 4 };

struct sl_cli_ask sl_ask_begin(const struct sl_verb *verb) {
	return (struct sl_cli_ask){
		.verb = verb, .operation = verb->operation, .cost = 1, .ttl_ns = (sluice_ns)TTL_S * 1000000000};
}

int sl_ask_check_place(struct sl_cli_ask *ask) {
	const struct sl_client_options *server = &ask->server;
	struct sluice_error error;
	ask->in_redis = ask->store != NULL && sl_redis_url_is(ask->store);
	if (!ask->in_redis && ask->store != NULL &&
	    (server->server != NULL || server->user != NULL || server->tls || server->ca != NULL))
		return sl_cli_misuse(ask->verb, "--server or --store, not both; --user, --tls and --ca are for a server");
	if (!ask->in_redis)
		return sl_client_check(ask->verb, server);
	if (!sl_redis_url_parse(ask->store, &ask->url, &error))
		return sl_cli_misuse(ask->verb, "--store: %s", error.text);
	if (server->server != NULL || server->user != NULL || server->tls)
		return sl_cli_misuse(ask->verb, "--server or --store, not both; a store's URL says whom to log in as, and "
		                                "rediss:// speaks TLS");
	if (server->ca != NULL && !ask->url.tls)
		return sl_cli_misuse(ask->verb, "--ca says whom TLS trusts: rediss:// speaks it");
	return SL_GO_ON;
}

/* A prefix goes before every key, into memory of argv's life; what is too long then is folded, as by a server. */
static void add_prefix(struct sl_cli_ask *ask) {
	static char keys[SLUICE_ITEMS_MAX + 1][SL_URL_PREFIX_BYTES_MAX + SLUICE_KEY_BYTES_MAX + 1];
	struct sl_request *request = &ask->request;
	int key_count = 0;
	for (int i = 0; i < request->word_count && ask->url.prefix[0] != '\0'; i++) {
		if (i > 0 && !sl_bytes_equal(request->words[i - 1], sl_str("KEY")))
			continue;
		SL_ASSERT(key_count <= SLUICE_ITEMS_MAX); /* each has a limit after it */
		snprintf(keys[key_count], sizeof keys[0], "%s%s", ask->url.prefix, (const char *)request->words[i].data);
		request->words[i] = sl_key_fold(keys[key_count], sl_str(keys[key_count]));
		key_count++;
	}
}

static const char *address_of(const struct sl_cli_ask *ask) {
	return ask->in_redis                ? ask->url.server
	       : ask->store != NULL         ? ask->store
	       : ask->policy_file != NULL   ? ask->policy_file
	       : ask->server.server != NULL ? ask->server.server
	                                    : SL_CLI_SERVER;
}

int sl_ask_fail_busy(const struct sl_verb *verb, const char *name) {
	return sl_cli_fail(verb, "%.128s: a process that is stopped holds a lock of it: end it, or let it go on", name);
}

int sl_ask_failed(const struct sl_cli_ask *ask, const struct sluice_error *error) {
	if (ask->here != NULL && strstr(error->text, SL_HELD_UP_TEXT) != NULL)
		return sl_ask_fail_busy(ask->verb, ask->store);
	if (ask->in_redis && strstr(error->text, "unknown command") != NULL)
		return sl_cli_fail(ask->verb, "%.128s: Sluice's module is not loaded there", address_of(ask));
	const char *text = error->text;
	if (ask->client.here != NULL) { /* in this process no server refuses, and an error needs no code */
		text += strncmp(text, SL_CLIENT_REFUSED, strlen(SL_CLIENT_REFUSED)) == 0 ? strlen(SL_CLIENT_REFUSED) : 0;
		text += strncmp(text, "ERR ", 4) == 0 ? 4 : 0;
	}
	return sl_cli_fail(ask->verb, "%.128s: %s", address_of(ask), text);
}

void sl_ask_end(struct sl_cli_ask *ask) {
	sl_client_close(&ask->client);
	if (ask->here != NULL)
		sluice_store_close(ask->here);
	ask->here = NULL;
}

int sl_ask_reach(struct sl_cli_ask *ask) {
	struct sl_client_options options = ask->in_redis ? sl_redis_url_options(&ask->url, ask->server.ca) : ask->server;
	struct sluice_error error;
	if (ask->store != NULL && !ask->in_redis) {
		ask->here = sl_store_open_existing(ask->verb, ask->store);
		if (ask->here == NULL)
			return SL_EXIT_FAILED;
		if (sl_client_open_store(&ask->client, ask->here, ask->policy, &error))
			return SL_GO_ON;
		sluice_store_close(ask->here);
		ask->here = NULL;
		return sl_cli_fail(ask->verb, "%s", error.text);
	}
	if (sl_client_open(&ask->client, &options, &error))
		return SL_GO_ON;
	if (ask->client.reached)
		return sl_cli_fail(ask->verb, "%.128s: %s", address_of(ask), error.text);
	return sl_cli_fail(ask->verb, "no server at %.128s: %s%s", address_of(ask), error.text,
	                   ask->in_redis ? "" : "; `sluice serve` starts one");
}

/* The text of a field, by its meaning in the grammar. */
static const char *field_of(const struct sl_cli_ask *ask, uint8_t field, char number[24]) {
	if (field == SL_FIELD_LEASE || field == SL_FIELD_TICKET)
		return ask->held;
	snprintf(number, 24, "%" PRId64, field == SL_FIELD_TTL ? sl_ns_to_ms_ceil(ask->ttl_ns) : (int64_t)ask->cost);
	return number;
}

/* What stands between the key and the limits. */
static int put_fields(const struct sl_cli_ask *ask, struct sluice_bytes *words, char numbers[][24]) {
	const struct sl_form *form = &sl_forms[ask->operation];
	int count = 0;
	for (int i = 0; i < form->field_count; i++)
		words[count++] = sl_str(field_of(ask, form->fields[i], numbers[i]));
	for (unsigned word = 0; word < SL_WORDS; word++)
		if ((ask->given & 1u << word) != 0)
			words[count++] = sl_str(sl_words[word].name);
	if (ask->id != NULL)
		words[count++] = sl_str("ID"), words[count++] = sl_str(ask->id);
	if (ask->member != NULL)
		words[count++] = sl_str("MEMBER"), words[count++] = sl_str(ask->member);
	SL_ASSERT(count <= FIELDS_MAX);
	return count;
}

int sl_ask_send(struct sl_cli_ask *ask) {
	struct sl_request *request = &ask->request;
	struct sluice_bytes words[2 + FIELDS_MAX + SL_REQUEST_WORDS_MAX];
	char name[32], numbers[SL_FORM_FIELDS_MAX][24];
	struct sluice_error error;
	int status = sl_ask_reach(ask);
	if (status != SL_GO_ON)
		return status;
	if (ask->in_redis)
		add_prefix(ask);
	snprintf(name, sizeof name, "SLUICE.%s", sl_forms[ask->operation].name);
	words[0] = sl_str(name);
	words[1] = request->words[0];
	int count = 2 + put_fields(ask, words + 2, numbers);
	for (int i = 1; i < request->word_count; i++)
		words[count++] = request->words[i];
	if (sl_client_send(&ask->client, words, count, &error))
		return SL_GO_ON;
	status = sl_ask_failed(ask, &error);
	sl_ask_end(ask);
	return status;
}

bool sl_ask_read_array(struct sl_cli_ask *ask, int64_t *answer, int want, int more, struct sluice_error *error) {
	int64_t got;
	if (!sl_client_integer(&ask->client, '*', &got, error))
		return false;
	if (got != want + more) {
		snprintf(error->text, sizeof error->text, "expected %d elements, the server sent %" PRId64, want + more, got);
		return false;
	}
	for (int i = 0; i < want; i++)
		if (!sl_client_integer(&ask->client, ':', &answer[i], error))
			return false;
	return true;
}
