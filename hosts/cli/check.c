/* check: one decision, of a running server over RESP or in a store directly, printed for people and told to scripts by
 * the exit status. */
#include "hosts/cli/request.h"
#include "hosts/cli/store_open.h"
#include "hosts/cli/url.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>

enum { COST, SERVER, USER, TLS, CA, PEEK, STORE };

static const struct sl_option options[] = {
	[COST] = {"cost", 0, "N", "what the request costs, 0..4294967295 (1)"},
	[SERVER] = SL_CLIENT_OPTION_SERVER,
	[USER] = SL_CLIENT_OPTION_USER,
	[TLS] = SL_CLIENT_OPTION_TLS,
	[CA] = SL_CLIENT_OPTION_CA,
	[PEEK] = {"peek", 0, NULL, "decide without charging"},
	[STORE] = {"store", 0, "STORE",
               "decide in a store's file, or in shared:NAME, instead of asking a server, beside the\n"
               "processes that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT]\n"
               "[/PREFIX], rediss:// over TLS, or unix://[USER@]/PATH"},
};

struct check {
	struct sl_client_options server;
	const char *store;
	struct sl_redis_url url; /* of it, where it is a Redis */
	bool in_redis, peek;
	uint64_t cost;
	struct sl_request request;
};

static int ask(const struct sl_verb *verb, const struct check *check, int64_t answer[SL_ANSWER_LEN]) {
	char cost[24];
	snprintf(cost, sizeof cost, "%" PRIu64, check->cost);
	return sl_request_ask(verb, &check->request, &check->server, check->peek ? "SLUICE.PEEK" : "SLUICE.CHECK", cost,
	                      answer, SL_ANSWER_LEN);
}

/* In a Redis: its module takes what a server takes. A prefix goes before every key, into memory of argv's life. */
static int ask_redis(const struct sl_verb *verb, struct check *check, int64_t answer[SL_ANSWER_LEN]) {
	static char keys[SLUICE_ITEMS_MAX][SL_URL_PREFIX_BYTES_MAX + SLUICE_KEY_BYTES_MAX + 1];
	struct sl_request *request = &check->request;
	int key_count = 0;
	for (int i = 0; i < request->word_count && check->url.prefix[0] != '\0'; i++) {
		if (i > 0 && !sl_bytes_equal(request->words[i - 1], sl_str("KEY")))
			continue;
		SL_ASSERT(key_count < SLUICE_ITEMS_MAX); /* each has a limit behind it */
		snprintf(keys[key_count], sizeof keys[0], "%s%s", check->url.prefix, (const char *)request->words[i].data);
		request->words[i] = sl_str(keys[key_count++]);
	}
	const char *ca = check->server.ca;
	check->server = sl_redis_url_options(&check->url, ca);
	return ask(verb, check, answer);
}

static int decide(const struct sl_verb *verb, const struct check *check, int64_t answer[SL_ANSWER_LEN]) {
	struct sluice_call call = {.operation = check->peek ? SLUICE_PEEK : SLUICE_CHARGE, .cost = (uint32_t)check->cost};
	struct sluice_store *store = sl_store_open_existing(verb, check->store);
	if (store == NULL)
		return SL_EXIT_FAILED;
	int status = sl_request_decide(verb, &check->request, store, check->store, &call);
	sluice_store_close(store);
	if (status == SL_GO_ON)
		sl_request_answer(&call.merged, answer);
	return status;
}

/* What does not go together; where to ask. */
static int check_arguments(const struct sl_verb *verb, struct check *check) {
	struct sluice_error error;
	if (check->store == NULL || !sl_redis_url_is(check->store))
		return sl_request_place(verb, &check->server, check->store);
	check->in_redis = true;
	if (!sl_redis_url_parse(check->store, &check->url, &error))
		return sl_cli_misuse(verb, "--store: %s", error.text);
	if (check->server.server != NULL || check->server.user != NULL || check->server.tls)
		return sl_cli_misuse(verb, "--server or --store, not both; a store's URL says whom to log in as, and rediss:// "
		                           "speaks TLS");
	if (check->server.ca != NULL && !check->url.tls)
		return sl_cli_misuse(verb, "--ca says whom TLS trusts: rediss:// speaks it");
	return SL_GO_ON;
}

static int read_arguments(const struct sl_verb *verb, struct check *check, struct sl_args *args) {
	for (int arg; (arg = sl_args_next(args)) != SL_ARG_END;) {
		int status = SL_GO_ON;
		if (arg == SL_ARG_WORD)
			status = sl_request_take(verb, &check->request, args->value);
		else if (arg == STORE)
			check->store = args->value;
		else if (arg == PEEK)
			check->peek = true;
		else if (arg >= 0 && sl_client_option(&check->server, options[arg].name, args->value))
			continue;
		else if (arg == COST && !sl_args_number(args->value, 0, UINT32_MAX, &check->cost))
			status = sl_cli_misuse(verb, "--cost '%.64s': expected a whole number, 0 to 4294967295", args->value);
		else if (arg < 0)
			return sl_cli_stop(verb, args, arg);
		if (status != SL_GO_ON)
			return status;
	}
	return check_arguments(verb, check);
}

static int run_check(const struct sl_verb *verb, int argc, char **argv) {
	struct check check = {.cost = 1};
	int64_t answer[SL_ANSWER_LEN];
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	int status = read_arguments(verb, &check, &args);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &check.request);
	if (status == SL_GO_ON && check.in_redis)
		status = ask_redis(verb, &check, answer);
	else if (status == SL_GO_ON)
		status = check.store != NULL ? decide(verb, &check, answer) : ask(verb, &check, answer);
	if (status != SL_GO_ON)
		return status;
	sl_request_print(&check.request, answer[SL_ANSWER_INDEX], answer);
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return answer[SL_ANSWER_ALLOWED] != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

const struct sl_verb sl_verb_check = {
	.name = "check",
	.usage = "check KEY LIMIT... [--cost N] [--peek] [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Decides one request on a running server or in a store, and charges it if it is allowed",
	.text = "Each LIMIT is one argument: quote it when it has several words. Several limits admit together or not\n"
			"at all. `KEY k` between them: the limits behind it count for k. `--` ends the options, for a key that\n"
			"begins with a dash. Exit status: 0 allowed, 1 denied, 2 no answer.\n",
	.examples = "  sluice check user:1 100/1m\n"
				"  sluice check user:1 10/1s 'token-bucket 600/1h burst 50' KEY ip:9 'sliding-log 20/1m' --cost 5\n"
				"  sluice check user:1 100/1m --peek --server unix:/run/sluice.sock && echo there is room\n"
				"  sluice check user:1 100/1m --store /var/lib/sluice/counters\n"
				"  sluice check user:1 100/1m --store redis://10.0.0.7/rl:\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_check,
};
