/* reserve, commit: charges whose true cost comes later, from a shell. The ticket between them says what was charged, so
 * that whoever commits knows nothing but it, the key and the cost. */
#include "algo/step.h"
#include "hosts/cli/ask.h"

#include <inttypes.h>
#include <stdio.h>

static const struct sl_option reserve_options[] = {
	{"cost", 0, "N", "the estimate that is charged, 0..4294967295 (1)"},
	{"ttl", 0, "TIME", "how long a commit is waited for: then the estimate goes back (60s)"},
	{"id", 0, "ID", "the reservation's name, 1 to 64 bytes: reserved again with it, it is the same one"},
	SL_CLIENT_OPTION_SERVER,
	SL_CLIENT_OPTION_USER,
	SL_CLIENT_OPTION_TLS,
	SL_CLIENT_OPTION_CA,
	SL_ASK_OPTION_STORE,
};

static const struct sl_option commit_options[] = {
	SL_CLIENT_OPTION_SERVER, SL_CLIENT_OPTION_USER, SL_CLIENT_OPTION_TLS, SL_CLIENT_OPTION_CA, SL_ASK_OPTION_STORE,
};

/* ---- reserve ----------------------------------------------------------------------------------------------------- */

static int reserve_remote(struct sl_cli_ask *ask, int64_t answer[SL_ANSWER_LEN], char *ticket) {
	char cost[24], ttl[24];
	snprintf(cost, sizeof cost, "%" PRIu64, ask->cost);
	snprintf(ttl, sizeof ttl, "%" PRId64, sl_ns_to_ms_ceil(ask->ttl_ns));
	const char *const named[] = {cost, ttl, "ID", ask->id, NULL}, *const bare[] = {cost, ttl, NULL};
	return sl_ask_command(ask, "SLUICE.RESERVE", ask->id != NULL ? named : bare, answer, SL_ANSWER_LEN, ticket,
	                      SL_TICKET_BYTES_MAX);
}

static int reserve_here(struct sl_cli_ask *ask, int64_t answer[SL_ANSWER_LEN], char *ticket) {
	struct sluice_call call = {.operation = SLUICE_RESERVE, .cost = (uint32_t)ask->cost, .ttl_ns = ask->ttl_ns};
	struct sl_request *request = &ask->request;
	char made[17];
	if (ask->id == NULL) {
		sluice_make_id(made);
		ask->id = made;
	}
	struct sluice_bytes id = sl_str(ask->id);
	int status = sl_ask_decide(ask, &call);
	if (status != SL_GO_ON)
		return status;
	sl_request_answer(&call.merged, answer);
	sl_ticket_write(ticket, sl_id_number(id), request->words[0], request->items, NULL, (uint32_t)request->limit_count);
	return SL_GO_ON;
}

static int run_reserve(const struct sl_verb *verb, int argc, char **argv) {
	static char ticket[SL_TICKET_BYTES_MAX];
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int64_t answer[SL_ANSWER_LEN];
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &ask.request);
	for (int i = 0; i < ask.request.limit_count && status == SL_GO_ON; i++)
		if (ask.request.limits[i].algorithm == SLUICE_CONCURRENCY || ask.request.limits[i].algorithm == SLUICE_DISTINCT)
			status = sl_cli_misuse(verb, "nothing is reserved at %s", sl_rule_word(&ask.request.limits[i]));
	if (status == SL_GO_ON)
		status = sl_ask_is_remote(&ask) ? reserve_remote(&ask, answer, ticket) : reserve_here(&ask, answer, ticket);
	if (status != SL_GO_ON)
		return status;
	bool allowed = answer[SL_ANSWER_ALLOWED] != 0;
	sl_request_print(&ask.request, answer[SL_ANSWER_INDEX], answer);
	if (allowed && ask.cost != 0) {
		printf("%-10s ", "ticket");
		sl_cli_show(stdout, ticket);
		putchar('\n');
	}
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return allowed ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */

/* Prints how the limit with the least left stands behind the commit. */
static void print_committed(const struct sl_cli_ask *ask, uint64_t actual, const int64_t answer[SL_ANSWER_LEN]) {
	printf("%-10s %" PRIu64 " for %s\n", "committed", actual, (const char *)ask->request.words[0].data);
	printf("%-10s %" PRId64 " of %" PRId64 "\n", "remaining", answer[SL_ANSWER_REMAINING], answer[SL_ANSWER_QUOTA]);
	sl_request_print_wait("full again", answer[SL_ANSWER_RESET]);
}

/* SL_EXIT_DENIED where there is no such reservation. */
static int commit_remote(struct sl_cli_ask *ask, const char *ticket, uint64_t actual, int64_t answer[SL_ANSWER_LEN]) {
	struct sl_client client;
	struct sluice_error error;
	char cost[24];
	int64_t count;
	snprintf(cost, sizeof cost, "%" PRIu64, actual);
	int status = sl_ask_send(ask, &client, "SLUICE.COMMIT", (const char *const[]){ticket, cost, NULL});
	if (status != SL_GO_ON)
		return status;
	bool fine = sl_client_integer(&client, '*', &count, &error);
	for (int i = 0; i < count && i < SL_ANSWER_LEN && fine; i++)
		fine = sl_client_integer(&client, ':', &answer[i], &error);
	if (!fine && strstr(error.text, "NOTFOUND") != NULL) {
		sl_client_close(&client);
		return SL_EXIT_DENIED;
	}
	if (!fine)
		return sl_ask_failed(ask, &client, &error);
	sl_client_close(&client);
	return SL_GO_ON;
}

static int commit_here(struct sl_cli_ask *ask, const char *text, uint64_t actual, int64_t answer[SL_ANSWER_LEN]) {
	static struct sl_ticket ticket;
	static char memory[SL_TICKET_BYTES_MAX], digits[SL_TICKET_ID_DIGITS + 1];
	struct sluice_call call = {.operation = SLUICE_COMMIT, .cost = (uint32_t)actual};
	int status = sl_ask_ticket(ask, text, &ticket, memory);
	if (status != SL_GO_ON)
		return status;
	memcpy(digits, ticket.id.data, SL_TICKET_ID_DIGITS);
	ask->id = digits;
	status = sl_ask_decide(ask, &call);
	if (status != SL_GO_ON)
		return status;
	sl_request_answer(&call.merged, answer);
	return call.found != 0 ? SL_GO_ON : SL_EXIT_DENIED;
}

static int read_commit(struct sl_cli_ask *ask, const char **ticket, uint64_t *actual) {
	const struct sl_verb *verb = ask->verb;
	*ticket = sl_ask_take(ask, "a ticket");
	const char *cost = *ticket == NULL ? NULL : sl_ask_take(ask, "a ticket and the true cost");
	if (cost == NULL)
		return SL_EXIT_FAILED;
	if (!sl_ticket_is(sl_str(*ticket)))
		return sl_cli_misuse(verb, "'%.40s': expected a ticket, as reserve prints it", *ticket);
	if (!sl_args_number(cost, 0, UINT32_MAX, actual))
		return sl_cli_misuse(verb, "the true cost '%.32s': expected a whole number, 0 to 4294967295", cost);
	return ask->request.word_count == 1 ? SL_GO_ON : sl_cli_misuse(verb, "expected nothing behind the true cost");
}

static int run_commit(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int64_t answer[SL_ANSWER_LEN] = {0};
	const char *ticket;
	uint64_t actual = 0;
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = read_commit(&ask, &ticket, &actual);
	if (status == SL_GO_ON)
		status = sl_ask_is_remote(&ask) ? commit_remote(&ask, ticket, actual, answer)
		                                : commit_here(&ask, ticket, actual, answer);
	if (status == SL_EXIT_DENIED)
		puts("no such reservation: it was committed before, its time was over, or it is another key's");
	else if (status == SL_GO_ON)
		print_committed(&ask, actual, answer);
	else
		return status;
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return status == SL_GO_ON ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

/* ---- what they say of themselves --------------------------------------------------------------------------------- */

const struct sl_verb sl_verb_reserve = {
	.name = "reserve",
	.usage = "reserve KEY LIMIT... --cost N [--ttl TIME] [--id ID]\n"
			 "                      [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Charges an estimate that `commit` corrects when the true cost is known",
	.text =
		"As check; the ticket that is printed is what commit takes. What nobody commits goes back after TIME. Exit\n"
		"status: 0 allowed, 1 denied, 2 no answer.\n",
	.examples = "  sluice reserve team:7 'sliding-log 400k/1m' --cost 500 --ttl 2m\n",
	.options = reserve_options,
	.option_count = sizeof reserve_options / sizeof *reserve_options,
	.run = run_reserve,
};

const struct sl_verb sl_verb_commit = {
	.name = "commit",
	.usage = "commit KEY TICKET COST [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Says what a reservation has cost in truth: less, or more, than was reserved",
	.text =
		"It is charged where the estimate was, at that instant; above the quota it is debt that later requests wait\n"
		"for. Exit status: 0 committed, 1 there was no such reservation (any more), 2 no answer.\n",
	.examples = "  sluice commit team:7 \"$ticket\" 1234\n",
	.options = commit_options,
	.option_count = sizeof commit_options / sizeof *commit_options,
	.run = run_commit,
};
