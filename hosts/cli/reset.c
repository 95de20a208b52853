/* reset: forgets counters, of a running server or in a store directly. */
#include "hosts/cli/request.h"
#include "hosts/cli/store_open.h"

#include <inttypes.h>
#include <stdio.h>

enum { SERVER, USER, TLS, CA, STORE };

static const struct sl_option options[] = {
	[SERVER] = SL_CLIENT_OPTION_SERVER,
	[USER] = SL_CLIENT_OPTION_USER,
	[TLS] = SL_CLIENT_OPTION_TLS,
	[CA] = SL_CLIENT_OPTION_CA,
	[STORE] = {"store", 0, "FILE",
               "forget in a store's file, or in shared:NAME, instead of asking a server;\n"
               "beside the processes that use it"},
};

struct reset {
	struct sl_client_options server;
	const char *store;
	struct sl_request request;
};

static int forget(const struct sl_verb *verb, const struct reset *reset, int64_t *forgotten) {
	struct sluice_call call = {.operation = SLUICE_RESET};
	struct sluice_store *store = sl_store_open_existing(verb, reset->store);
	if (store == NULL)
		return SL_EXIT_FAILED;
	int status = sl_request_decide(verb, &reset->request, store, reset->store, &call);
	sluice_store_close(store);
	*forgotten = call.forgotten;
	return status;
}

static int ask(const struct sl_verb *verb, const struct reset *reset, int64_t *forgotten) {
	return sl_request_ask(verb, &reset->request, &reset->server, "SLUICE.RESET", NULL, forgotten, 0);
}

static int read_arguments(const struct sl_verb *verb, struct reset *reset, struct sl_args *args) {
	for (int arg; (arg = sl_args_next(args)) != SL_ARG_END;) {
		int status = SL_GO_ON;
		if (arg == SL_ARG_WORD)
			status = sl_request_take(verb, &reset->request, args->value);
		else if (arg == STORE)
			reset->store = args->value;
		else if (arg < 0 || !sl_client_option(&reset->server, options[arg].name, args->value))
			return sl_cli_stop(verb, args, arg);
		if (status != SL_GO_ON)
			return status;
	}
	return sl_request_place(verb, &reset->server, reset->store);
}

static int run_reset(const struct sl_verb *verb, int argc, char **argv) {
	struct reset reset = {0};
	int64_t forgotten = 0;
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	int status = read_arguments(verb, &reset, &args);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &reset.request);
	if (status == SL_GO_ON)
		status = reset.store != NULL ? forget(verb, &reset, &forgotten) : ask(verb, &reset, &forgotten);
	if (status != SL_GO_ON)
		return status;
	printf("forgot %" PRId64 " counter%s\n", forgotten, forgotten == 1 ? "" : "s");
	return sl_cli_flush(verb) ? SL_EXIT_FINE : SL_EXIT_FAILED;
}

const struct sl_verb sl_verb_reset = {
	.name = "reset",
	.usage = "reset KEY LIMIT... [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store FILE]",
	.summary = "Forgets a key's counters, as if it had never been seen",
	.text = "A counter is found by its key and its limit, so say the limit that it was charged under; burst, queue\n"
			"and edge do not matter. `KEY k` between limits: those behind it count for k. What a full store remembers\n"
			"of a counter that it evicted is forgotten as well. Exit status: 0 whether there was such a counter or\n"
			"not, 2 no answer.\n",
	.examples = "  sluice reset user:1 100/1m\n"
				"  sluice reset user:1 10/1s 'sliding-log 20/1m' --store /var/lib/sluice/counters\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_reset,
};
