/* acquire, release, renew, holders: leases from a shell.
 *
 * A script names its lease itself (`--id`), or keeps what acquire prints. Release and renew find it by key, id and the
 * limits that it is held at; a ticket, as servers give them for policies, says all but the key by itself. */
#include "hosts/cli/ask.h"

#include "base/out.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT_MAX = SL_TICKET_BYTES_MAX, HOLDERS_MAX = 65536, HOLDER_INTEGERS = 3 };

static const char store_text[] =
	"in a store's file, or in shared:NAME, instead of asking a server, beside the processes\n"
	"that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT][/PREFIX]";

static const struct sl_option acquire_options[] = {
	{"cost", 0, "N", "how many places it takes, and what other limits are charged, 0..4294967295 (1)"},
	{"id", 0, "ID", "the lease's name, 1 to 64 bytes: acquired again with it, it is the same lease"},
	SL_ASK_OPTION_MEMBER,
	SL_CLIENT_OPTION_SERVER,
	SL_CLIENT_OPTION_USER,
	SL_CLIENT_OPTION_TLS,
	SL_CLIENT_OPTION_CA,
	{"store", 0, "STORE", store_text},
};

static const struct sl_option end_options[] = {
	SL_CLIENT_OPTION_SERVER,           SL_CLIENT_OPTION_USER, SL_CLIENT_OPTION_TLS, SL_CLIENT_OPTION_CA,
	{"store", 0, "STORE", store_text},
};

/* ---- acquire ----------------------------------------------------------------------------------------------------- */

static int acquire_remote(struct sl_cli_ask *ask, int64_t answer[SL_ANSWER_LEN], char *id) {
	const char *behind[8];
	char cost[24];
	int count = 0;
	snprintf(cost, sizeof cost, "%" PRIu64, ask->cost);
	behind[count++] = cost;
	if (ask->id != NULL)
		behind[count++] = "ID", behind[count++] = ask->id;
	if (ask->member != NULL)
		behind[count++] = "MEMBER", behind[count++] = ask->member;
	behind[count] = NULL;
	return sl_ask_command(ask, "SLUICE.ACQUIRE", behind, answer, SL_ANSWER_LEN, id, TEXT_MAX);
}

static int acquire_here(struct sl_cli_ask *ask, int64_t answer[SL_ANSWER_LEN], char *id) {
	struct sluice_call call = {.operation = SLUICE_ACQUIRE, .cost = (uint32_t)ask->cost};
	char made[17];
	if (ask->id == NULL) {
		sluice_make_id(made);
		ask->id = made;
	}
	snprintf(id, TEXT_MAX, "%s", ask->id);
	int status = sl_ask_decide(ask, &call);
	ask->id = id;
	if (status == SL_GO_ON)
		sl_request_answer(&call.merged, answer);
	return status;
}

/* What can't be acquired, told before anybody is asked. */
static int check_limits(const struct sl_cli_ask *ask) {
	bool leases = false, members = false;
	for (int i = 0; i < ask->request.limit_count; i++) {
		leases |= ask->request.limits[i].algorithm == SLUICE_CONCURRENCY;
		members |= ask->request.limits[i].algorithm == SLUICE_DISTINCT;
	}
	if (!leases)
		return sl_cli_misuse(ask->verb,
		                     "expected a limit such as 'concurrency 3 lease 1m' among them; without any it is "
		                     "sluice check");
	if (members && ask->member == NULL)
		return sl_cli_misuse(ask->verb, "distinct counts members: who is it? --member MEMBER");
	return SL_GO_ON;
}

static int run_acquire(const struct sl_verb *verb, int argc, char **argv) {
	static char id[TEXT_MAX];
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int64_t answer[SL_ANSWER_LEN];
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &ask.request);
	if (status == SL_GO_ON)
		status = check_limits(&ask);
	if (status == SL_GO_ON)
		status = sl_ask_is_remote(&ask) ? acquire_remote(&ask, answer, id) : acquire_here(&ask, answer, id);
	if (status != SL_GO_ON)
		return status;
	bool allowed = answer[SL_ANSWER_ALLOWED] != 0;
	sl_request_print(&ask.request, answer[SL_ANSWER_INDEX], answer);
	if (allowed && ask.cost != 0) {
		printf("%-10s ", "id");
		sl_cli_show(stdout, id);
		putchar('\n');
	}
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return allowed ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

/* ---- release, renew ---------------------------------------------------------------------------------------------- */

static int end_remote(struct sl_cli_ask *ask, const char *command, const char *id, int64_t *found) {
	return sl_ask_command(ask, command, (const char *const[]){id, NULL}, found, 0, NULL, 0);
}

static int end_here(struct sl_cli_ask *ask, sluice_operation operation, int64_t *found) {
	struct sluice_call call = {.operation = operation};
	int status = sl_ask_decide(ask, &call);
	*found = call.found;
	return status;
}

/* KEY ID LIMIT..., or KEY TICKET. */
static int read_end(struct sl_cli_ask *ask, struct sl_ticket *ticket, char *memory) {
	const char *id = sl_ask_take(ask, "the id of a lease");
	if (id == NULL)
		return SL_EXIT_FAILED;
	ask->id = id;
	if (ask->request.word_count > 1 || !sl_ticket_is(sl_str(id))) {
		if (strlen(id) < 1 || strlen(id) > SLUICE_ID_BYTES_MAX)
			return sl_cli_misuse(ask->verb, "the id '%.64s': expected 1 to %d bytes", id, SLUICE_ID_BYTES_MAX);
		return sl_request_read(ask->verb, &ask->request);
	}
	return sl_ask_ticket(ask, id, ticket, memory);
}

static int run_end(const struct sl_verb *verb, int argc, char **argv, sluice_operation operation, const char *command,
                   const char *done) {
	static char memory[SL_TICKET_BYTES_MAX], digits[SL_TICKET_ID_DIGITS + 1];
	static struct sl_ticket ticket;
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int64_t found = 0;
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = read_end(&ask, &ticket, memory);
	if (status != SL_GO_ON)
		return status;
	if (sl_ask_is_remote(&ask)) {
		status = end_remote(&ask, command, ask.id, &found);
	} else {
		if (ticket.count != 0) {
			memcpy(digits, ticket.id.data, SL_TICKET_ID_DIGITS);
			ask.id = digits;
		}
		status = end_here(&ask, operation, &found);
	}
	if (status != SL_GO_ON)
		return status;
	if (found == 0)
		puts("no such lease: it has ended, was released before, or is another key's");
	else
		printf("%s %" PRId64 " lease%s\n", done, found, found == 1 ? "" : "s");
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return found != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

static int run_release(const struct sl_verb *verb, int argc, char **argv) {
	return run_end(verb, argc, argv, SLUICE_RELEASE, "SLUICE.RELEASE", "released");
}

static int run_renew(const struct sl_verb *verb, int argc, char **argv) {
	return run_end(verb, argc, argv, SLUICE_RENEW, "SLUICE.RENEW", "renewed");
}

/* ---- holders ----------------------------------------------------------------------------------------------------- */

static void print_holder(struct sluice_bytes id, uint64_t cost, int64_t ends_ms) {
	char wait[SL_WAIT_TEXT_MAX], text[4 * SLUICE_ID_BYTES_MAX + 8];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	sl_out_quoted(&out, id, SLUICE_ID_BYTES_MAX);
	bool plain = sl_out_len(&out) == id.len + 2; /* quotes only around what was escaped */
	printf("%10" PRIu64 "  %-14s %.*s\n", cost, sl_cli_wait(wait, ends_ms), (int)sl_out_len(&out) - (plain ? 2 : 0),
	       plain ? text + 1 : text);
}

static void print_count(uint64_t count) {
	printf("%" PRIu64 " holder%s%s\n", count, count == 1 ? "" : "s", count == 0 ? "" : ":");
	if (count != 0)
		printf("%10s  %-14s %s\n", "cost", "ends in", "id");
}

static bool print_remote(struct sl_client *client, struct sluice_error *error) {
	int64_t count, width, cost, ends_ms;
	char id[SLUICE_ID_BYTES_MAX];
	size_t len;
	if (!sl_client_integer(client, '*', &count, error))
		return false;
	print_count((uint64_t)count);
	for (int64_t i = 0; i < count; i++) {
		if (!sl_client_integer(client, '*', &width, error) || !sl_client_string(client, id, sizeof id, &len, error) ||
		    !sl_client_integer(client, ':', &cost, error) || !sl_client_integer(client, ':', &ends_ms, error))
			return false;
		if (width != HOLDER_INTEGERS) {
			snprintf(error->text, sizeof error->text, "expected %d elements of a holder, the server sends %" PRId64,
			         HOLDER_INTEGERS, width);
			return false;
		}
		print_holder(sl_slice(id, len), (uint64_t)cost, ends_ms);
	}
	return true;
}

static int holders_remote(struct sl_cli_ask *ask) {
	struct sl_client client;
	struct sluice_error error;
	int status = sl_ask_send(ask, &client, "SLUICE.HOLDERS", (const char *const[]){NULL});
	if (status != SL_GO_ON)
		return status;
	if (!print_remote(&client, &error))
		return sl_ask_failed(ask, &client, &error);
	sl_client_close(&client);
	return SL_GO_ON;
}

static int holders_here(struct sl_cli_ask *ask) {
	static struct sluice_holder list[HOLDERS_MAX];
	uint32_t count;
	int status = sl_ask_holders(ask, list, HOLDERS_MAX, &count);
	if (status != SL_GO_ON)
		return status;
	print_count(count);
	for (uint32_t i = 0; i < count && i < HOLDERS_MAX; i++) {
		char id[17];
		snprintf(id, sizeof id, "%016" PRIx64, list[i].id);
		print_holder(sl_str(id), list[i].cost, sl_ns_to_ms_ceil(list[i].ends_after_ns));
	}
	return SL_GO_ON;
}

static int run_holders(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_cli_ask ask = sl_ask_begin(verb);
	int status = sl_ask_read(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = sl_request_read(verb, &ask.request);
	if (status == SL_GO_ON && (ask.request.limit_count != 1 || ask.request.limits[0].algorithm != SLUICE_CONCURRENCY))
		status = sl_cli_misuse(verb, "expected one limit such as 'concurrency 3 lease 1m'");
	if (status == SL_GO_ON)
		status = sl_ask_is_remote(&ask) ? holders_remote(&ask) : holders_here(&ask);
	if (status != SL_GO_ON)
		return status;
	return sl_cli_flush(verb) ? SL_EXIT_FINE : SL_EXIT_FAILED;
}

/* ---- what they say of themselves --------------------------------------------------------------------------------- */

const struct sl_verb sl_verb_acquire = {
	.name = "acquire",
	.usage = "acquire KEY LIMIT... [--id ID] [--cost N] [--member MEMBER]\n"
			 "                      [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Takes a lease of `concurrency N lease T`, until it is released or T is over",
	.text = "At least one LIMIT is of concurrency; others may stand beside it and are charged with it, all or none.\n"
			"The id is printed; one of your own makes a retried acquire the same lease. Exit status: 0 allowed,\n"
			"1 denied, 2 no answer.\n",
	.examples = "  sluice acquire backups 'concurrency 2 lease 1h' --id \"$HOSTNAME\" && run-backup\n"
				"  sluice acquire user:1 'concurrency 5 lease 30s' 100/1m\n",
	.options = acquire_options,
	.option_count = sizeof acquire_options / sizeof *acquire_options,
	.run = run_acquire,
};

const struct sl_verb sl_verb_release = {
	.name = "release",
	.usage = "release KEY ID LIMIT... [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Gives a lease back before its time",
	.text = "Say the limits that it is held at; N does not matter, T does. A ticket of a server says them itself:\n"
			"release KEY TICKET. Exit status: 0 released, 1 there was no such lease (any more), 2 no answer.\n",
	.examples = "  sluice release backups \"$HOSTNAME\" 'concurrency 2 lease 1h'\n",
	.options = end_options,
	.option_count = sizeof end_options / sizeof *end_options,
	.run = run_release,
};

const struct sl_verb sl_verb_renew = {
	.name = "renew",
	.usage = "renew KEY ID LIMIT... [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Lets a lease that is held end its T from now",
	.text =
		"As release: with the limits, or a ticket. Exit status: 0 renewed, 1 there was no such lease (any more), 2\n"
		"no answer.\n",
	.examples = "  sluice renew backups \"$HOSTNAME\" 'concurrency 2 lease 1h' || exit\n",
	.options = end_options,
	.option_count = sizeof end_options / sizeof *end_options,
	.run = run_renew,
};

const struct sl_verb sl_verb_holders = {
	.name = "holders",
	.usage = "holders KEY LIMIT [--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]",
	.summary = "Lists who holds leases of a key, those that end first first",
	.text = "An id that was given as text is listed as the 16 digits that it is kept as; they release it as well.\n",
	.examples = "  sluice holders backups 'concurrency 2 lease 1h'\n",
	.options = end_options,
	.option_count = sizeof end_options / sizeof *end_options,
	.run = run_holders,
};
