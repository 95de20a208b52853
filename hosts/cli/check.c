/* check: one decision of a running server, over RESP, printed for people and told to scripts by the exit status. */
#include "hosts/cli/cli.h"
#include "hosts/cli/client.h"

#include <inttypes.h>
#include <stdio.h>

enum { COST, SERVER, PEEK, STORE };

static const struct sl_option options[] = {
	[COST] = {"cost", 0, "N", "what the request costs, 0..4294967295 (1)"},
	[SERVER] = {"server", 's', "ADDR", "the server's RESP address (127.0.0.1:7379), or unix:/path"},
	[PEEK] = {"peek", 0, NULL, "decide without charging"},
	[STORE] = {"store", 0, "FILE", "not in this version: there are no file stores yet"},
};

/* The answer, as SLUICE.CHECK orders it. */
enum { ALLOWED, QUOTA, REMAINING, RETRY, RESET, DELAY, INDEX, ANSWER_LEN };

/* COMMAND KEY COST, then each limit, with `KEY k` before it where the key changes. */
enum { WORDS_MAX = 3 + 3 * SLUICE_ITEMS_MAX };

struct request {
	const char *server, *store;
	bool peek;
	uint64_t cost;
	char cost_text[24];
	struct sluice_bytes words[WORDS_MAX];
	int word_count;
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	const char *keys[SLUICE_ITEMS_MAX]; /* the key that each limit counts for */
	int limit_count;
};

static int take_limit(const struct sl_verb *verb, struct request *request, const char *text, const char *key) {
	struct sluice_error error;
	if (request->limit_count == SLUICE_ITEMS_MAX)
		return sl_cli_misuse(verb, "more than %d limits", SLUICE_ITEMS_MAX);
	struct sluice_limit *limit = &request->limits[request->limit_count];
	if (sluice_limit_parse(limit, sl_str(text), &error) != SLUICE_OK) {
		bool part = strchr(text, ' ') == NULL;
		return sl_cli_misuse(verb, "limit '%.64s', column %u: %s%s", text, error.column, error.text,
		                     part ? "; a limit of several words is one argument: quote it" : "");
	}
	request->keys[request->limit_count++] = key;
	return SL_GO_ON;
}

/* Looks at KEY LIMIT... before the server does, so that a mistake is told with its column. */
static int read_words(const struct sl_verb *verb, struct request *request) {
	const char *key = request->words[1].data; /* NULL without any word: no limit is read then */
	for (int i = 3; i < request->word_count; i++) {
		const char *word = request->words[i].data;
		if (strcmp(word, "KEY") == 0) {
			if (i + 2 >= request->word_count)
				return sl_cli_misuse(verb, "KEY wants a key and a limit behind it: KEY ip:9 10/1s");
			key = request->words[++i].data;
			continue;
		}
		int status = take_limit(verb, request, word, key);
		if (status != SL_GO_ON)
			return status;
	}
	if (request->limit_count == 0)
		return sl_cli_misuse(verb, "expected a key and at least one limit, such as: sluice check user:1 100/1m");
	return SL_GO_ON;
}

static int take_word(const struct sl_verb *verb, struct request *request, const char *word) {
	if (request->word_count == WORDS_MAX)
		return sl_cli_misuse(verb, "more than %d limits", SLUICE_ITEMS_MAX);
	bool key = request->word_count == 1 ||
	           (request->word_count > 3 && strcmp(request->words[request->word_count - 1].data, "KEY") == 0);
	if (key && strlen(word) > SLUICE_KEY_BYTES_MAX)
		return sl_cli_misuse(verb, "the key '%.16s...' has more than %d bytes", word, SLUICE_KEY_BYTES_MAX);
	if (request->word_count == 2)
		request->word_count = 3; /* the cost stands there; it is known when all options are */
	request->words[request->word_count++] = sl_str(word);
	return SL_GO_ON;
}

/* What is said of one key: "user:1 under sliding-window 100/1m". */
static void print_limit(const struct request *request, int64_t index, bool allowed) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	const char *key = request->words[1].data;
	if (index < 0 || index >= request->limit_count) {
		printf("%-10s %s, no limit applied\n", "allowed", key);
		return;
	}
	sluice_limit_print(&request->limits[index], text);
	printf("%-10s %s %s %s\n", allowed ? "allowed" : "denied", request->keys[index], allowed ? "under" : "by", text);
}

static void print_wait(const char *name, int64_t ms) {
	char text[SL_WAIT_TEXT_MAX];
	if (ms < 0)
		printf("%-10s never: the cost is above the quota\n", name);
	else if (ms == 0)
		printf("%-10s now\n", name);
	else
		printf("%-10s in %s (%" PRId64 " ms)\n", name, sl_cli_wait(text, ms), ms);
}

static void print_answer(const struct request *request, const int64_t answer[ANSWER_LEN]) {
	print_limit(request, answer[INDEX], answer[ALLOWED] != 0);
	printf("%-10s %" PRId64 " of %" PRId64 "\n", "remaining", answer[REMAINING], answer[QUOTA]);
	if (answer[ALLOWED] == 0)
		print_wait("retry", answer[RETRY]);
	if (answer[DELAY] != 0)
		print_wait("go ahead", answer[DELAY]);
	print_wait("full again", answer[RESET]);
}

static int ask(const struct sl_verb *verb, struct request *request) {
	struct sl_client client;
	struct sluice_error error;
	int64_t answer[ANSWER_LEN];
	snprintf(request->cost_text, sizeof request->cost_text, "%" PRIu64, request->cost);
	request->words[0] = sl_str(request->peek ? "SLUICE.PEEK" : "SLUICE.CHECK");
	request->words[2] = sl_str(request->cost_text);
	if (!sl_client_open(&client, request->server, &error))
		return sl_cli_fail(verb, "no server at %.128s: %s; `sluice serve` starts one", request->server, error.text);
	bool fine = sl_client_ask(&client, request->words, request->word_count, answer, ANSWER_LEN, &error);
	sl_client_close(&client);
	if (!fine)
		return sl_cli_fail(verb, "%.128s: %s", request->server, error.text);
	print_answer(request, answer);
	if (!sl_cli_flush(verb))
		return SL_EXIT_FAILED;
	return answer[ALLOWED] != 0 ? SL_EXIT_FINE : SL_EXIT_DENIED;
}

static int read_arguments(const struct sl_verb *verb, struct request *request, struct sl_args *args) {
	for (int arg; (arg = sl_args_next(args)) != SL_ARG_END;) {
		int status = SL_GO_ON;
		if (arg == SL_ARG_WORD)
			status = take_word(verb, request, args->value);
		else if (arg == SERVER)
			request->server = args->value;
		else if (arg == STORE)
			request->store = args->value;
		else if (arg == PEEK)
			request->peek = true;
		else if (arg == COST && !sl_args_number(args->value, 0, UINT32_MAX, &request->cost))
			status = sl_cli_misuse(verb, "--cost '%.64s': expected a whole number, 0 to 4294967295", args->value);
		else if (arg < 0)
			return sl_cli_stop(verb, args, arg);
		if (status != SL_GO_ON)
			return status;
	}
	return SL_GO_ON;
}

static int run_check(const struct sl_verb *verb, int argc, char **argv) {
	struct request request = {.server = "127.0.0.1:7379", .cost = 1, .word_count = 1};
	struct sl_args args = sl_args_begin(argv, argc, options, sizeof options / sizeof *options);
	int status = read_arguments(verb, &request, &args);
	if (status != SL_GO_ON)
		return status;
	if (request.store != NULL)
		return sl_cli_fail(verb, "--store %.128s: this version keeps no counters in files; ask a running server with "
		                         "--server ADDR", request.store);
	status = read_words(verb, &request);
	return status == SL_GO_ON ? ask(verb, &request) : status;
}

const struct sl_verb sl_verb_check = {
	.name = "check",
	.usage = "check KEY LIMIT... [--cost N] [--peek] [--server ADDR]",
	.summary = "Decides one request on a running server, and charges it if it is allowed",
	.text = "Each LIMIT is one argument: quote it when it has several words. Several limits admit together or not\n"
	        "at all. `KEY k` between them: the limits behind it count for k. `--` ends the options, for a key that\n"
	        "begins with a dash. Exit status: 0 allowed, 1 denied, 2 no answer.\n",
	.examples = "  sluice check user:1 100/1m\n"
	            "  sluice check user:1 10/1s 'token-bucket 600/1h burst 50' KEY ip:9 'sliding-log 20/1m' --cost 5\n"
	            "  sluice check user:1 100/1m --peek --server unix:/run/sluice.sock && echo there is room\n",
	.options = options,
	.option_count = sizeof options / sizeof *options,
	.run = run_check,
};
