/* reset: forgets counters, of a running server or in a store directly. */
#include "hosts/cli/ask.h"

#include <inttypes.h>
#include <stdio.h>

static const struct sl_option options[] = {
	SL_CLIENT_OPTION_SERVER,
	SL_CLIENT_OPTION_USER,
	SL_CLIENT_OPTION_TLS,
	SL_CLIENT_OPTION_CA,
	{"store", 0, "STORE",
     "forget in a store's file, or in shared:NAME, instead of asking a server; beside the\n"
     "processes that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT]\n"
     "[/PREFIX], rediss:// over TLS, or unix://[USER@]/PATH"},
};

static int forget(struct sl_cli_ask *ask, int64_t *forgotten) {
	struct sluice_call call = {.operation = SLUICE_RESET};
	int status = sl_ask_decide(ask, &call);
	*forgotten = call.forgotten;
	return status;
}

static int run_reset(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int64_t forgotten = 0;
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &ask.request);
	if (status == SL_GO_ON && !sl_ask_is_remote(&ask))
		status = forget(&ask, &forgotten);
	else if (status == SL_GO_ON)
		status = sl_ask_command(&ask, "SLUICE.RESET", (const char *const[]){NULL}, &forgotten, 0, NULL, 0);
	if (status != SL_GO_ON)
		return status;
	printf("forgot %" PRId64 " counter%s\n", forgotten, forgotten == 1 ? "" : "s");
	return sl_cli_flush(verb) ? SL_EXIT_FINE : SL_EXIT_FAILED;
}

const struct sl_verb sl_verb_reset = {
	.name = "reset",
	.usage = "reset KEY LIMIT... [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Forgets a key's counters, as if it had never been seen",
	.text = "A counter is found by its key and its limit, so say the limit that it was charged under; burst, queue\n"
			"and edge do not matter. `KEY k` between limits: those behind it count for k. What a full store remembers\n"
			"of a counter that it evicted is forgotten as well, and so are leases, members, reservations and\n"
			"penalties. Exit status: 0 whether there was such a counter or not, 2 no answer.\n",
	.examples = "  sluice reset user:1 100/1m\n"
				"  sluice reset user:1 10/1s 'sliding-log 20/1m' --store /var/lib/sluice/counters\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_reset,
};
