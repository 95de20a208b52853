/* The verbs that ask for one operation on counters: check, acquire, release, renew, holders, reserve, commit, reset.
 * Each is a row of what it takes and says of itself; what is sent is the grammar's (proto/command.h), and how it is
 * answered is told by the operation.
 *
 * A script names its lease itself (`--id`), or keeps what acquire prints. Release and renew find it by key, id and the
 * limits that it is held at; a ticket says all but the key by itself, as it does of a reservation to be committed. */
#include "algo/rule.h"
#include "algo/step.h"
#include "base/out.h"
#include "hosts/cli/ask.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- options ----------------------------------------------------------------------------------------------------- */

#define TO(field) offsetof(struct sl_cli_ask, field)
#define COST(help) \
	{ "cost", 0, "N", help, SL_NUMBER(TO(cost), 0, UINT32_MAX) }
#define ID(value, help) \
	{ "id", 0, value, help, SL_TEXT_OF(TO(id), 1, SLUICE_ID_BYTES_MAX) }
#define MEMBER \
	{ "member", 0, "MEMBER", "member for limits of `distinct`", SL_TEXT(TO(member)) }
#define FLAG(name, help) \
	{ #name, 0, NULL, help, SL_FLAG(TO(name)) }
#define STORE(help) \
	{ "store", 0, "STORE", help, SL_TEXT(TO(store)) }
#define DECIDE                                                                                      \
	STORE("decide in a store's file, or in shared:NAME, instead of asking a server, beside the\n"   \
	      "processes that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT]\n" \
	      "[/PREFIX], rediss:// over TLS, or unix://[USER@]/PATH")
#define LEASED                                                                                       \
	STORE("in a store's file, or in shared:NAME, instead of asking a server, beside the processes\n" \
	      "that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT][/PREFIX]")

static const struct sl_option check_options[] = {
	COST("what the request costs, 0..4294967295 (1)"),
	SL_CLIENT_OPTIONS(TO(server)),
	FLAG(peek, "decide without charging"),
	FLAG(upto, "grant the largest part of the cost that there is room for, and say how much that is"),
	FLAG(next, "say when one unit more will be free"),
	ID("TOKEN", "a retry with the same token is answered and not charged again; 1 to 64 bytes"),
	MEMBER,
	DECIDE,
};

static const struct sl_option acquire_options[] = {
	COST("how many places it takes, and what other limits are charged, 0..4294967295 (1)"),
	ID("ID", "the lease's name, 1 to 64 bytes: to acquire it again is to get the same lease"),
	MEMBER,
	SL_CLIENT_OPTIONS(TO(server)),
	LEASED,
};

static const struct sl_option end_options[] = {SL_CLIENT_OPTIONS(TO(server)), LEASED};

static const struct sl_option reserve_options[] = {
	COST("the estimate that is charged, 0..4294967295 (1)"),
	{"ttl", 0, "TIME", "how long to wait for the commit; then the estimate is returned (60s)",
     SL_TIME(TO(ttl_ns), 1, (sluice_ns)3660 * 86400 * 1000000000, "a duration such as 60s, 1ms to 3660d")},
	ID("ID", "the reservation's name, 1 to 64 bytes: to reserve it again is to get the same one"),
	SL_CLIENT_OPTIONS(TO(server)),
	DECIDE,
};

static const struct sl_option commit_options[] = {SL_CLIENT_OPTIONS(TO(server)), DECIDE};

static const struct sl_option reset_options[] = {
	SL_CLIENT_OPTIONS(TO(server)),
	STORE("forget in a store's file, or in shared:NAME, instead of asking a server; beside the\n"
          "processes that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT]\n"
          "[/PREFIX], rediss:// over TLS, or unix://[USER@]/PATH"),
};

/* ---- reading the words ------------------------------------------------------------------------------------------- */

static int take_word(const struct sl_verb *verb, void *to, const char *word) {
	struct sl_cli_ask *ask = to;
	return sl_request_take(verb, &ask->request, word);
}

/* Takes the word after the key out of the request. NULL, after saying that `what` is missing, where there is none. */
static const char *pull(struct sl_cli_ask *ask, const char *what) {
	struct sl_request *request = &ask->request;
	if (request->word_count < 2) {
		sl_cli_misuse(ask->verb, "expected a key and %s after it", what);
		return NULL;
	}
	const char *word = request->words[1].data;
	request->word_count--;
	memmove(&request->words[1], &request->words[2], (size_t)(request->word_count - 1) * sizeof *request->words);
	return word;
}

/* A ticket that is whole says the limits. */
static int check_ticket(const struct sl_cli_ask *ask) {
	static char memory[SL_TICKET_BYTES_MAX];
	static struct sl_ticket ticket;
	if (sl_ticket_read(&ticket, sl_str(ask->held), ask->request.words[0], memory))
		return SL_GO_ON;
	return sl_cli_fail(ask->verb, "'%.40s': not a ticket, or not a whole one", ask->held);
}

/* KEY ID LIMIT..., or KEY TICKET. */
static int read_held(struct sl_cli_ask *ask) {
	ask->held = pull(ask, "the id of a lease");
	if (ask->held == NULL)
		return SL_EXIT_FAILED;
	if (ask->request.word_count == 1 && sl_ticket_is(sl_str(ask->held)))
		return check_ticket(ask);
	if (strlen(ask->held) < 1 || strlen(ask->held) > SLUICE_ID_BYTES_MAX)
		return sl_cli_misuse(ask->verb, "the id '%.64s': expected 1 to %d bytes", ask->held, SLUICE_ID_BYTES_MAX);
	return sl_request_read(ask->verb, &ask->request);
}

/* KEY TICKET COST. */
static int read_commit(struct sl_cli_ask *ask) {
	uint64_t actual;
	ask->held = pull(ask, "a ticket");
	const char *cost = ask->held == NULL ? NULL : pull(ask, "a ticket and the true cost");
	if (cost == NULL)
		return SL_EXIT_FAILED;
	if (!sl_ticket_is(sl_str(ask->held)))
		return sl_cli_misuse(ask->verb, "'%.40s': expected a ticket, as reserve prints it", ask->held);
	if (!sl_args_number(cost, 0, UINT32_MAX, &actual))
		return sl_cli_misuse(ask->verb, "the true cost '%.32s': expected a whole number, 0 to 4294967295", cost);
	ask->cost = (uint32_t)actual;
	if (ask->request.word_count != 1)
		return sl_cli_misuse(ask->verb, "expected nothing after the true cost");
	return check_ticket(ask);
}

/* What can't be asked of these limits, told before anybody is asked. */
static int check_limits(const struct sl_cli_ask *ask) {
	const struct sl_request *request = &ask->request;
	const struct sluice_limit *not_reserved = NULL;
	bool leases = request->named, distinct = false; /* of limits by name the server knows what can be asked */
	for (int i = 0; i < request->limit_count; i++) {
		leases |= sl_rule_has(&request->limits[i], SL_TAKES_LEASE);
		distinct |= sl_rule_has(&request->limits[i], SL_TAKES_MEMBER);
		if (not_reserved == NULL && request->names[i] == NULL && sl_rule_lacks(&request->limits[i], SL_RESERVABLE))
			not_reserved = &request->limits[i];
	}
	if (ask->operation == SL_OP_CHECK && leases && !request->named)
		return sl_cli_misuse(ask->verb, "concurrency is acquired and released: sluice acquire");
	if (ask->operation == SL_OP_ACQUIRE && !leases)
		return sl_cli_misuse(ask->verb, "expected a limit such as 'concurrency 3 lease 1m' among them; without any it "
		                                "is sluice check");
	if (ask->operation == SL_OP_HOLDERS && (request->limit_count != 1 || !leases))
		return sl_cli_misuse(ask->verb, "expected one limit such as 'concurrency 3 lease 1m'");
	if (ask->operation == SL_OP_RESERVE && not_reserved != NULL)
		return sl_cli_misuse(ask->verb, "nothing is reserved at %s", sl_algorithm_word(not_reserved->algorithm));
	if (sl_forms[ask->operation].members && distinct && ask->member == NULL)
		return sl_cli_misuse(ask->verb, "distinct counts members: which one? --member MEMBER");
	if (ask->operation == SL_OP_PEEK && ask->id != NULL)
		return sl_cli_misuse(ask->verb, "--id or --peek, not both: a peek charges nothing that could be charged twice");
	return SL_GO_ON;
}

static int read_call(struct sl_cli_ask *ask, int argc, char **argv) {
	int status = sl_cli_read(ask->verb, argc, argv, ask, NULL);
	if (status == SL_GO_ON)
		status = sl_ask_check_place(ask);
	if (status != SL_GO_ON)
		return status;
	ask->operation = ask->peek ? SL_OP_PEEK : ask->operation;
	ask->given = (ask->upto ? SL_SAYS(UPTO) : 0) | (ask->next ? SL_SAYS(NEXT) : 0);
	if (ask->operation == SL_OP_COMMIT)
		return read_commit(ask);
	if (sl_operation_is(ask->operation, SL_OP_BIT(RELEASE) | SL_OP_BIT(RENEW)))
		return read_held(ask);
	status = sl_request_read(ask->verb, &ask->request);
	return status == SL_GO_ON ? check_limits(ask) : status;
}

/* ---- telling the answer: each reads it, prints it, and says what to exit with; false with `error` filled --------- */

/* What stands after the seven: what each word that was said adds, in the order of the words. */
static void print_more(const struct sl_cli_ask *ask, const int64_t *more) {
	if (ask->upto)
		printf("%-10s %" PRId64 " of %" PRIu32 "\n", "granted", *more++, ask->cost);
	if (ask->next)
		sl_request_print_wait("one more", *more);
}

static bool tell_decision(struct sl_cli_ask *ask, int *status, struct sluice_error *error) {
	int64_t answer[SL_ANSWER_LEN + SL_WORDS];
	char text[SL_TICKET_BYTES_MAX];
	bool has_text = sl_operation_is(ask->operation, SL_OP_BIT(ACQUIRE) | SL_OP_BIT(RESERVE));
	size_t len = 0;
	if (!sl_ask_read_array(ask, answer, SL_ANSWER_LEN + ask->upto + ask->next, has_text, error) ||
	    (has_text && !sl_client_string(&ask->client, text, sizeof text - 1, &len, error)))
		return false;
	text[len] = '\0';
	*status = answer[SL_ANSWER_ALLOWED] != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
	sl_request_print(&ask->request, answer[SL_ANSWER_INDEX], answer);
	print_more(ask, answer + SL_ANSWER_LEN);
	if (has_text && *status == SL_EXIT_FINE && ask->cost != 0) {
		printf("%-10s ", ask->operation == SL_OP_ACQUIRE ? "id" : "ticket");
		sl_cli_show(stdout, text);
		putchar('\n');
	}
	return true;
}

static bool tell_ended(struct sl_cli_ask *ask, int *status, struct sluice_error *error) {
	int64_t found;
	if (!sl_client_integer(&ask->client, ':', &found, error))
		return false;
	*status = found != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
	if (found == 0)
		puts("no such lease: it has ended, was released before, or is another key's or limit's");
	else
		printf("%s %" PRId64 " lease%s\n", ask->operation == SL_OP_RELEASE ? "released" : "renewed", found,
		       found == 1 ? "" : "s");
	return true;
}

static bool tell_forgotten(struct sl_cli_ask *ask, int *status, struct sluice_error *error) {
	int64_t forgotten;
	if (!sl_client_integer(&ask->client, ':', &forgotten, error))
		return false;
	*status = SL_EXIT_FINE;
	printf("forgot %" PRId64 " counter%s\n", forgotten, forgotten == 1 ? "" : "s");
	return true;
}

/* How the limit with the least left stands after the commit. */
static bool tell_committed(struct sl_cli_ask *ask, int *status, struct sluice_error *error) {
	int64_t answer[SL_ANSWER_LEN];
	error->text[0] = '\0';
	bool fine = sl_ask_read_array(ask, answer, SL_ANSWER_LEN, 0, error);
	*status = fine ? SL_EXIT_FINE : SL_EXIT_DENIED;
	if (!fine && strstr(error->text, "NOTFOUND") == NULL)
		return false;
	if (!fine) {
		puts("no such reservation: it was committed before, its time is over, or it is another key's");
		return true;
	}
	printf("%-10s %" PRIu32 " for %s\n", "committed", ask->cost, (const char *)ask->request.words[0].data);
	printf("%-10s %" PRId64 " of %" PRId64 "\n", "remaining", answer[SL_ANSWER_REMAINING], answer[SL_ANSWER_QUOTA]);
	sl_request_print_wait("full again", answer[SL_ANSWER_RESET]);
	return true;
}

static bool tell_holder(struct sl_client *client, struct sluice_error *error) {
	char wait[SL_WAIT_TEXT_MAX], text[4 * SLUICE_ID_BYTES_MAX + 8], id[SLUICE_ID_BYTES_MAX];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	int64_t width, cost, ends_ms;
	size_t len;
	if (!sl_client_integer(client, '*', &width, error) || !sl_client_string(client, id, sizeof id, &len, error) ||
	    !sl_client_integer(client, ':', &cost, error) || !sl_client_integer(client, ':', &ends_ms, error))
		return false;
	if (width != 3) {
		snprintf(error->text, sizeof error->text, "expected 3 elements of a holder, the server sent %" PRId64, width);
		return false;
	}
	sl_out_quoted(&out, sl_slice(id, len), SLUICE_ID_BYTES_MAX);
	bool plain = sl_out_len(&out) == len + 2; /* quotes only around what was escaped */
	printf("%10" PRId64 "  %-14s %.*s\n", cost, sl_cli_wait(wait, ends_ms), (int)sl_out_len(&out) - (plain ? 2 : 0),
	       plain ? text + 1 : text);
	return true;
}

static bool tell_holders(struct sl_cli_ask *ask, int *status, struct sluice_error *error) {
	int64_t count;
	if (!sl_client_integer(&ask->client, '*', &count, error))
		return false;
	*status = SL_EXIT_FINE;
	printf("%" PRId64 " holder%s%s\n", count, count == 1 ? "" : "s", count == 0 ? "" : ":");
	if (count != 0)
		printf("%10s  %-14s %s\n", "cost", "ends in", "id");
	for (int64_t i = 0; i < count; i++)
		if (!tell_holder(&ask->client, error))
			return false;
	return true;
}

static int run_call(const struct sl_verb *verb, int argc, char **argv) {
	static bool (*const tell[SL_OPERATIONS])(struct sl_cli_ask *, int *, struct sluice_error *) = {
		[SL_OP_CHECK] = tell_decision,   [SL_OP_PEEK] = tell_decision,    [SL_OP_ACQUIRE] = tell_decision,
		[SL_OP_RESERVE] = tell_decision, [SL_OP_RELEASE] = tell_ended,    [SL_OP_RENEW] = tell_ended,
		[SL_OP_RESET] = tell_forgotten,  [SL_OP_COMMIT] = tell_committed, [SL_OP_HOLDERS] = tell_holders,
	};
	static struct sl_cli_ask ask;
	struct sluice_error error;
	ask = sl_ask_begin(verb);
	int status = read_call(&ask, argc, argv);
	if (status == SL_GO_ON)
		status = sl_ask_send(&ask);
	if (status != SL_GO_ON)
		return status;
	if (!tell[ask.operation](&ask, &status, &error))
		status = sl_ask_failed(&ask, &error);
	sl_ask_end(&ask);
	return sl_cli_end(verb, status);
}

/* ---- what they say of themselves --------------------------------------------------------------------------------- */

#define CALL(asked, options) .operation = (asked), .word = take_word, .run = run_call, SL_OPTIONS(options)
#define WHERE "[--server ADDR [--user NAME] [--tls [--ca FILE]] | --store STORE]"

const struct sl_verb sl_verb_check = {
	.name = "check",
	.usage = "check KEY LIMIT... [--cost N] [--upto] [--next] [--member MEMBER] [--id TOKEN] [--peek]\n"
			 "                    " WHERE,
	.summary = "Decides one request on a running server or in a store, and charges it if it is allowed",
	.text = "Each LIMIT is one argument: quote it if it has several words. Several limits admit together or not at\n"
			"all. `KEY k` between them gives the limits after it the key k. `--` ends the options, for a key that\n"
			"begins with a dash. Exit status: 0 allowed, 1 denied, 2 no answer.\n",
	.examples = "  sluice check user:1 100/1m\n"
				"  sluice check user:1 10/1s 'token-bucket 600/1h burst 50' KEY ip:9 'sliding-log 20/1m' --cost 5\n"
				"  sluice check user:1 100/1m --peek --server unix:/run/sluice.sock && echo there is room\n"
				"  sluice check user:1 'distinct 5/1d' --member 203.0.113.9\n"
				"  sluice check user:1 100k/1m --cost 5000 --upto\n"
				"  sluice check user:1 100/1m --store /var/lib/sluice/counters\n"
				"  sluice check user:1 100/1m --store redis://10.0.0.7/rl:\n",
	CALL(SL_OP_CHECK, check_options),
};

const struct sl_verb sl_verb_acquire = {
	.name = "acquire",
	.usage = "acquire KEY LIMIT... [--id ID] [--cost N] [--member MEMBER]\n"
			 "                      " WHERE,
	.summary = "Takes a lease of `concurrency N lease T`, until it is released or T is over",
	.text = "At least one LIMIT must be of concurrency. Other limits are charged together with it, all or none. The\n"
			"id is printed. With an id of your own, a retried acquire is the same lease. Exit status: 0 allowed,\n"
			"1 denied, 2 no answer.\n",
	.examples = "  sluice acquire backups 'concurrency 2 lease 1h' --id \"$HOSTNAME\" && run-backup\n"
				"  sluice acquire user:1 'concurrency 5 lease 30s' 100/1m\n",
	CALL(SL_OP_ACQUIRE, acquire_options),
};

const struct sl_verb sl_verb_release = {
	.name = "release",
	.usage = "release KEY ID LIMIT... " WHERE,
	.summary = "Ends a lease before its time",
	.text = "Name the limits of the lease; N does not matter, T does. Those of the server's policy are policy:NAME. A\n"
			"server's ticket contains them: release KEY TICKET. Exit status: 0 released, 1 there is no such lease\n"
			"(any more), 2 no answer.\n",
	.examples = "  sluice release backups \"$HOSTNAME\" 'concurrency 2 lease 1h'\n"
				"  sluice release user=ann 12bb2ffe6cb3ee63 policy:jobs\n",
	CALL(SL_OP_RELEASE, end_options),
};

const struct sl_verb sl_verb_renew = {
	.name = "renew",
	.usage = "renew KEY ID LIMIT... " WHERE,
	.summary = "Restarts the time of a lease: it ends T from now",
	.text =
		"Takes the limits or a ticket, as release does. Exit status: 0 renewed, 1 there is no such lease (any\n"
		"more), 2 no answer.\n",
	.examples = "  sluice renew backups \"$HOSTNAME\" 'concurrency 2 lease 1h' || exit\n",
	CALL(SL_OP_RENEW, end_options),
};

const struct sl_verb sl_verb_holders = {
	.name = "holders",
	.usage = "holders KEY LIMIT " WHERE,
	.summary = "Lists the leases of a key and their holders, in the order in which they end",
	.text = "An id that you chose is listed as 16 digits, which release the lease as well.\n",
	.examples = "  sluice holders backups 'concurrency 2 lease 1h'\n",
	CALL(SL_OP_HOLDERS, end_options),
};

const struct sl_verb sl_verb_reserve = {
	.name = "reserve",
	.usage = "reserve KEY LIMIT... --cost N [--ttl TIME] [--id ID]\n"
			 "                      " WHERE,
	.summary = "Charges an estimate that `commit` corrects when the true cost is known",
	.text =
		"Works as check does, and prints the ticket for commit. Without a commit, the estimate is returned after\n"
		"TIME. Exit status: 0 allowed, 1 denied, 2 no answer.\n",
	.examples = "  sluice reserve team:7 'sliding-log 400k/1m' --cost 500 --ttl 2m\n",
	CALL(SL_OP_RESERVE, reserve_options),
};

const struct sl_verb sl_verb_commit = {
	.name = "commit",
	.usage = "commit KEY TICKET COST " WHERE,
	.summary = "Corrects a reservation to its true cost, which may be less or more",
	.text =
		"The true cost is charged at the instant of the reservation. Above the quota it is debt, for which later\n"
		"requests wait. Exit status: 0 committed, 1 there is no such reservation (any more), 2 no answer.\n",
	.examples = "  sluice commit team:7 \"$ticket\" 1234\n",
	CALL(SL_OP_COMMIT, commit_options),
};

const struct sl_verb sl_verb_reset = {
	.name = "reset",
	.usage = "reset KEY LIMIT... " WHERE,
	.summary = "Clears a key's counters, as if the key had never been seen",
	.text = "A counter is found by its key and its limit, so name the limit that charged it; burst, queue and edge\n"
			"do not matter. `KEY k` between limits gives those after it the key k. Leases, members, reservations and\n"
			"penalties are cleared as well, and what a full store remembers of an evicted counter. Exit status: 0\n"
			"whether there was such a counter or not, 2 no answer.\n",
	.examples = "  sluice reset user:1 100/1m\n"
				"  sluice reset user:1 10/1s 'sliding-log 20/1m' --store /var/lib/sluice/counters\n",
	CALL(SL_OP_RESET, reset_options),
};
