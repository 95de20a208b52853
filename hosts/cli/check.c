/* check: one decision, of a running server over RESP or in a store directly, printed for people and told to scripts by
 * the exit status. */
#include "hosts/cli/ask.h"

#include <inttypes.h>
#include <stdio.h>

static const struct sl_option options[] = {
	SL_ASK_OPTION_COST,
	SL_CLIENT_OPTION_SERVER,
	SL_CLIENT_OPTION_USER,
	SL_CLIENT_OPTION_TLS,
	SL_CLIENT_OPTION_CA,
	{"peek", 0, NULL, "decide without charging"},
	{"upto", 0, NULL, "grant the largest part of the cost that there is room for, and say how much that is"},
	{"id", 0, "TOKEN", "a retry with the same token is answered and not charged again; 1 to 64 bytes"},
	SL_ASK_OPTION_MEMBER,
	SL_ASK_OPTION_STORE,
};

/* An answer, with UPTO what was granted behind it. */
enum { ANSWER_GRANTED = SL_ANSWER_LEN, ANSWER_LEN };

static int ask_server(struct sl_cli_ask *ask, int64_t answer[ANSWER_LEN]) {
	const char *behind[8];
	char cost[24];
	int count = 0;
	snprintf(cost, sizeof cost, "%" PRIu64, ask->cost);
	behind[count++] = cost;
	if (ask->upto)
		behind[count++] = "UPTO";
	if (ask->id != NULL)
		behind[count++] = "ID", behind[count++] = ask->id;
	if (ask->member != NULL)
		behind[count++] = "MEMBER", behind[count++] = ask->member;
	behind[count] = NULL;
	return sl_ask_command(ask, ask->peek ? "SLUICE.PEEK" : "SLUICE.CHECK", behind, answer,
	                      ask->upto ? ANSWER_LEN : SL_ANSWER_LEN, NULL, 0);
}

static int decide(struct sl_cli_ask *ask, int64_t answer[ANSWER_LEN]) {
	struct sluice_call call = {.operation = ask->peek ? SLUICE_PEEK : SLUICE_CHARGE, .cost = (uint32_t)ask->cost};
	int status = sl_ask_decide(ask, &call);
	if (status != SL_GO_ON)
		return status;
	sl_request_answer(&call.merged, answer);
	answer[ANSWER_GRANTED] = call.granted;
	return SL_GO_ON;
}

/* What can't be decided so, told before anybody is asked. */
static int check_limits(const struct sl_cli_ask *ask) {
	bool members = false;
	for (int i = 0; i < ask->request.limit_count; i++) {
		uint8_t algorithm = ask->request.limits[i].algorithm;
		members |= algorithm == SLUICE_DISTINCT;
		if (algorithm == SLUICE_CONCURRENCY && !ask->peek)
			return sl_cli_misuse(ask->verb, "concurrency is acquired and released: sluice acquire");
	}
	if (members && ask->member == NULL && !ask->peek)
		return sl_cli_misuse(ask->verb, "distinct counts members: who is it? --member MEMBER");
	if (ask->peek && ask->id != NULL)
		return sl_cli_misuse(ask->verb, "--id or --peek, not both: what is not charged can be asked again");
	return SL_GO_ON;
}

static int run_check(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int64_t answer[ANSWER_LEN];
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &ask.request);
	if (status == SL_GO_ON)
		status = check_limits(&ask);
	if (status == SL_GO_ON)
		status = sl_ask_is_remote(&ask) ? ask_server(&ask, answer) : decide(&ask, answer);
	if (status != SL_GO_ON)
		return status;
	sl_request_print(&ask.request, answer[SL_ANSWER_INDEX], answer);
	if (ask.upto)
		printf("%-10s %" PRId64 " of %" PRIu64 "\n", "granted", answer[ANSWER_GRANTED], ask.cost);
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return answer[SL_ANSWER_ALLOWED] != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

const struct sl_verb sl_verb_check = {
	.name = "check",
	.usage = "check KEY LIMIT... [--cost N] [--upto] [--member MEMBER] [--id TOKEN] [--peek]\n"
			 "                    [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Decides one request on a running server or in a store, and charges it if it is allowed",
	.text = "Each LIMIT is one argument: quote it when it has several words. Several limits admit together or not\n"
			"at all. `KEY k` between them: the limits behind it count for k. `--` ends the options, for a key that\n"
			"begins with a dash. Exit status: 0 allowed, 1 denied, 2 no answer.\n",
	.examples = "  sluice check user:1 100/1m\n"
				"  sluice check user:1 10/1s 'token-bucket 600/1h burst 50' KEY ip:9 'sliding-log 20/1m' --cost 5\n"
				"  sluice check user:1 100/1m --peek --server unix:/run/sluice.sock && echo there is room\n"
				"  sluice check user:1 'distinct 5/1d' --member 203.0.113.9\n"
				"  sluice check user:1 100k/1m --cost 5000 --upto\n"
				"  sluice check user:1 100/1m --store /var/lib/sluice/counters\n"
				"  sluice check user:1 100/1m --store redis://10.0.0.7/rl:\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_check,
};
