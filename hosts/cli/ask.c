#include "hosts/cli/ask.h"

#include "base/assert.h"
#include "hosts/cli/store_open.h"
#include "hosts/server/door/door.h"

#include <inttypes.h>
#include <stdio.h>

enum { TTL_S = 60, BEHIND_MAX = 8 };

struct sl_cli_ask sl_ask_begin(const struct sl_verb *verb) {
	return (struct sl_cli_ask){.verb = verb, .cost = 1, .ttl_ns = (sluice_ns)TTL_S * 1000000000};
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static int take_id(struct sl_cli_ask *ask, const char *id) {
	size_t len = strlen(id);
	if (len < 1 || len > SLUICE_ID_BYTES_MAX)
		return sl_cli_misuse(ask->verb, "--id '%.64s': expected 1 to %d bytes, found %zu", id, SLUICE_ID_BYTES_MAX,
		                     len);
	ask->id = id;
	return SL_GO_ON;
}

static int take_ttl(struct sl_cli_ask *ask, const char *text) {
	const sluice_ns day = (sluice_ns)86400 * 1000000000;
	if (!sl_args_duration(text, 3660 * day, &ask->ttl_ns) || ask->ttl_ns == 0)
		return sl_cli_misuse(ask->verb, "--ttl '%.32s': expected a duration such as 60s, 1ms to 3660d", text);
	return SL_GO_ON;
}

static int take_member(struct sl_cli_ask *ask, const char *text) {
	if (strlen(text) > SLUICE_KEY_BYTES_MAX)
		return sl_cli_misuse(ask->verb, "--member '%.16s...' has more than %d bytes", text, SLUICE_KEY_BYTES_MAX);
	ask->member = text;
	return SL_GO_ON;
}

static int take_option(struct sl_cli_ask *ask, const char *name, const char *value) {
	if (strcmp(name, "store") == 0)
		ask->store = value;
	else if (strcmp(name, "peek") == 0)
		ask->peek = true;
	else if (strcmp(name, "upto") == 0)
		ask->upto = true;
	else if (strcmp(name, "member") == 0)
		return take_member(ask, value);
	else if (strcmp(name, "id") == 0)
		return take_id(ask, value);
	else if (strcmp(name, "ttl") == 0)
		return take_ttl(ask, value);
	else if (strcmp(name, "cost") != 0)
		SL_ASSERT(sl_client_option(&ask->server, name, value));
	else if (!sl_args_number(value, 0, UINT32_MAX, &ask->cost))
		return sl_cli_misuse(ask->verb, "--cost '%.64s': expected a whole number, 0 to 4294967295", value);
	return SL_GO_ON;
}

/* What does not go together; where to ask. */
static int check_place(struct sl_cli_ask *ask) {
	const struct sl_client_options *server = &ask->server;
	struct sluice_error error;
	ask->in_redis = ask->store != NULL && sl_redis_url_is(ask->store);
	if (!ask->in_redis && ask->store != NULL &&
	    (server->server != NULL || server->user != NULL || server->tls || server->ca != NULL))
		return sl_cli_misuse(ask->verb, "--server or --store, not both; --user, --tls and --ca are for a server");
	if (!ask->in_redis && server->ca != NULL && !server->tls)
		return sl_cli_misuse(ask->verb, "--ca says whom --tls trusts: give --tls as well");
	if (!ask->in_redis)
		return SL_GO_ON;
	if (!sl_redis_url_parse(ask->store, &ask->url, &error))
		return sl_cli_misuse(ask->verb, "--store: %s", error.text);
	if (server->server != NULL || server->user != NULL || server->tls)
		return sl_cli_misuse(ask->verb, "--server or --store, not both; a store's URL says whom to log in as, and "
		                                "rediss:// speaks TLS");
	if (server->ca != NULL && !ask->url.tls)
		return sl_cli_misuse(ask->verb, "--ca says whom TLS trusts: rediss:// speaks it");
	return SL_GO_ON;
}

int sl_ask_read(struct sl_cli_ask *ask, int argc, char **argv) {
	const struct sl_verb *verb = ask->verb;
	struct sl_args args = sl_args_begin(argv, argc, verb->options, verb->option_count);
	for (int arg; (arg = sl_args_next(&args)) != SL_ARG_END;) {
		int status = arg == SL_ARG_WORD ? sl_request_take(verb, &ask->request, args.value)
		             : arg < 0          ? sl_cli_stop(verb, &args, arg)
		                                : take_option(ask, verb->options[arg].name, args.value);
		if (status != SL_GO_ON)
			return status;
	}
	return check_place(ask);
}

const char *sl_ask_take(struct sl_cli_ask *ask, const char *what) {
	struct sl_request *request = &ask->request;
	if (request->word_count < 2) {
		sl_cli_misuse(ask->verb, "expected a key and %s behind it", what);
		return NULL;
	}
	const char *word = request->words[1].data;
	request->word_count--;
	memmove(&request->words[1], &request->words[2], (size_t)(request->word_count - 1) * sizeof *request->words);
	return word;
}

int sl_ask_ticket(struct sl_cli_ask *ask, const char *text, struct sl_ticket *ticket, char *memory) {
	struct sl_request *request = &ask->request;
	if (!sl_ticket_read(ticket, sl_str(text), request->words[0], memory))
		return sl_cli_fail(ask->verb, "'%.40s': no ticket, or not a whole one", text);
	request->limit_count = (int)ticket->count;
	for (uint32_t i = 0; i < ticket->count; i++) {
		request->limits[i] = ticket->limits[i];
		request->items[i] = ticket->items[i];
	}
	return SL_GO_ON;
}

/* ---- somebody else ----------------------------------------------------------------------------------------------- */

bool sl_ask_is_remote(const struct sl_cli_ask *ask) {
	return ask->store == NULL || ask->in_redis;
}

/* A prefix goes before every key, into memory of argv's life. */
static void add_prefix(struct sl_cli_ask *ask) {
	static char keys[SLUICE_ITEMS_MAX + 1][SL_URL_PREFIX_BYTES_MAX + SLUICE_KEY_BYTES_MAX + 1];
	struct sl_request *request = &ask->request;
	int key_count = 0;
	for (int i = 0; i < request->word_count && ask->url.prefix[0] != '\0'; i++) {
		if (i > 0 && !sl_bytes_equal(request->words[i - 1], sl_str("KEY")))
			continue;
		SL_ASSERT(key_count <= SLUICE_ITEMS_MAX); /* each has a limit behind it */
		snprintf(keys[key_count], sizeof keys[0], "%s%s", ask->url.prefix, (const char *)request->words[i].data);
		request->words[i] = sl_str(keys[key_count++]);
	}
}

static const char *address_of(const struct sl_cli_ask *ask) {
	return ask->in_redis ? ask->url.server : ask->server.server != NULL ? ask->server.server : SL_CLI_SERVER;
}

int sl_ask_failed(const struct sl_cli_ask *ask, struct sl_client *client, const struct sluice_error *error) {
	bool unloaded = ask->in_redis && strstr(error->text, "unknown command") != NULL;
	sl_client_close(client);
	return unloaded ? sl_cli_fail(ask->verb, "%.128s: Sluice's module is not loaded there", address_of(ask))
	                : sl_cli_fail(ask->verb, "%.128s: %s", address_of(ask), error->text);
}

int sl_ask_send(struct sl_cli_ask *ask, struct sl_client *client, const char *command, const char *const *behind) {
	struct sluice_bytes words[2 + BEHIND_MAX + SL_REQUEST_WORDS_MAX] = {sl_str(command)};
	struct sl_client_options options = ask->server;
	struct sluice_error error;
	int count = 1;
	if (ask->in_redis) {
		add_prefix(ask);
		options = sl_redis_url_options(&ask->url, ask->server.ca);
	}
	words[count++] = ask->request.words[0];
	for (; *behind != NULL; behind++) {
		SL_ASSERT(count < 2 + BEHIND_MAX);
		words[count++] = sl_str(*behind);
	}
	for (int i = 1; i < ask->request.word_count; i++)
		words[count++] = ask->request.words[i];
	if (!sl_client_open(client, &options, &error))
		return client->reached ? sl_cli_fail(ask->verb, "%.128s: %s", address_of(ask), error.text)
		                       : sl_cli_fail(ask->verb, "no server at %.128s: %s%s", address_of(ask), error.text,
		                                     ask->in_redis ? "" : "; `sluice serve` starts one");
	return sl_client_send(client, words, count, &error) ? SL_GO_ON : sl_ask_failed(ask, client, &error);
}

/* An array of `want` integers, and a text behind them where there is room for one. */
static bool read_array(struct sl_client *client, int64_t *answer, int want, char *text, size_t text_max,
                       struct sluice_error *error) {
	int64_t got;
	size_t len;
	if (!sl_client_integer(client, '*', &got, error))
		return false;
	if (got != want + (text != NULL)) {
		snprintf(error->text, sizeof error->text, "expected %d elements, the server sends %" PRId64,
		         want + (text != NULL), got);
		return false;
	}
	for (int i = 0; i < want; i++)
		if (!sl_client_integer(client, ':', &answer[i], error))
			return false;
	if (text == NULL)
		return true;
	if (!sl_client_string(client, text, text_max - 1, &len, error))
		return false;
	text[len] = '\0';
	return true;
}

int sl_ask_command(struct sl_cli_ask *ask, const char *command, const char *const *behind, int64_t *answer, int want,
                   char *text, size_t text_max) {
	struct sl_client client;
	struct sluice_error error;
	int status = sl_ask_send(ask, &client, command, behind);
	if (status != SL_GO_ON)
		return status;
	bool fine = want == 0 ? sl_client_integer(&client, ':', answer, &error)
	                      : read_array(&client, answer, want, text, text_max, &error);
	if (!fine)
		return sl_ask_failed(ask, &client, &error);
	sl_client_close(&client);
	return SL_GO_ON;
}

/* ---- a store of this host ---------------------------------------------------------------------------------------- */

int sl_ask_decide(struct sl_cli_ask *ask, struct sluice_call *call) {
	struct sluice_store *store = sl_store_open_existing(ask->verb, ask->store);
	if (store == NULL)
		return SL_EXIT_FAILED;
	for (int i = 0; i < ask->request.limit_count && ask->member != NULL; i++)
		ask->request.items[i].member = sl_str(ask->member);
	if (ask->id != NULL)
		call->id = sl_str(ask->id);
	call->upto = ask->upto;
	int status = sl_request_decide(ask->verb, &ask->request, store, ask->store, call);
	sluice_store_close(store);
	return status;
}

int sl_ask_holders(struct sl_cli_ask *ask, struct sluice_holder *list, uint32_t room, uint32_t *count) {
	const struct sluice_item *item = &ask->request.items[0];
	struct sluice_store *store = sl_store_open_existing(ask->verb, ask->store);
	if (store == NULL)
		return SL_EXIT_FAILED;
	*count =
		sluice_holders(store, item->limit, item->key, sl_door_instant(sluice_store_now(store), item, 1), list, room);
	sluice_store_close(store);
	return *count != SLUICE_HOLDERS_BUSY ? SL_GO_ON : sl_request_fail_busy(ask->verb, ask->store);
}
