/* See request.h. Words are read before anybody is asked: a mistake costs no round trip. */
#include "hosts/cli/request.h"

#include "base/fold.h"

#include <inttypes.h>
#include <stdio.h>

/* A key, folded where it is too long: NUL-ended, in memory of argv's life. A server would fold it itself; but what is
 * shown is what is counted, and in Redis nobody else does. */
static struct sluice_bytes fold(struct sluice_bytes key) {
	static char folded[SLUICE_ITEMS_MAX + 1][SLUICE_KEY_BYTES_MAX + 1];
	static int count;
	if (key.len <= SLUICE_KEY_BYTES_MAX || count > SLUICE_ITEMS_MAX) /* so many keys have no limits: refused as that */
		return key;
	return sl_key_fold_long(folded[count++], key);
}

int sl_request_take(const struct sl_verb *verb, struct sl_request *request, const char *word) {
	int count = request->word_count;
	bool key = count == 0 || (count > 1 && strcmp(request->words[count - 1].data, "KEY") == 0);
	if (count == SL_REQUEST_WORDS_MAX)
		return sl_cli_misuse(verb, "more than %d limits", SLUICE_ITEMS_MAX);
	request->words[request->word_count++] = key ? fold(sl_str(word)) : sl_str(word);
	return SL_GO_ON;
}

static int take_limit(const struct sl_verb *verb, struct sl_request *request, struct sluice_bytes text,
                      struct sluice_bytes key) {
	struct sluice_error error;
	if (request->limit_count == SLUICE_ITEMS_MAX)
		return sl_cli_misuse(verb, "more than %d limits", SLUICE_ITEMS_MAX);
	struct sluice_limit *limit = &request->limits[request->limit_count];
	static const char by_name[] = "policy:";
	bool named = text.len >= sizeof by_name && memcmp(text.data, by_name, sizeof by_name - 1) == 0;
	request->names[request->limit_count] = named ? text.data : NULL;
	request->named |= named;
	if (named)
		text = sl_str("unlimited"); /* nothing is known of it here */
	if (sluice_limit_parse(limit, text, &error) != SLUICE_OK) {
		bool part = memchr(text.data, ' ', text.len) == NULL;
		return sl_cli_misuse(verb, "limit '%.64s', column %u: %s%s", (const char *)text.data, error.column, error.text,
		                     part ? "; a limit of several words is one argument: quote it" : "");
	}
	request->items[request->limit_count++] = (struct sluice_item){.limit = limit, .key = key};
	return SL_GO_ON;
}

int sl_request_read(const struct sl_verb *verb, struct sl_request *request) {
	struct sluice_bytes key = request->words[0]; /* NULL without any word: no limit is read then */
	for (int i = 1; i < request->word_count; i++) {
		if (sl_bytes_equal(request->words[i], sl_str("KEY"))) {
			if (i + 2 >= request->word_count)
				return sl_cli_misuse(verb, "KEY needs a key and a limit after it: KEY ip:9 10/1s");
			key = request->words[++i];
			continue;
		}
		int status = take_limit(verb, request, request->words[i], key);
		if (status != SL_GO_ON)
			return status;
	}
	if (request->limit_count == 0)
		return sl_cli_misuse(verb, "expected a key and at least one limit, such as: sluice %s user:1 100/1m",
		                     verb->name);
	return SL_GO_ON;
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

/* What is said of one key: "user:1 under sliding-window 100/1m". */
static void print_limit(const struct sl_request *request, int64_t index, bool allowed) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (index < 0 || index >= request->limit_count) {
		printf("%-10s %s, no limit applied\n", "allowed", (const char *)request->words[0].data);
		return;
	}
	sluice_limit_print(&request->limits[index], text);
	printf("%-10s %s %s %s\n", allowed ? "allowed" : "denied", (const char *)request->items[index].key.data,
	       allowed ? "under" : "by", request->names[index] != NULL ? request->names[index] : text);
}

const char *sl_request_never(char memory[SL_NEVER_TEXT_MAX], const char *bound, bool above) {
	if (bound[0] == '\0' || (above && strcmp(bound, "key") == 0))
		return ": the cost is above the quota";
	snprintf(memory, SL_NEVER_TEXT_MAX, " (bound: %.32s)", bound);
	return memory;
}

static void print_wait(const char *name, int64_t ms, const char *bound) {
	char text[SL_WAIT_TEXT_MAX], never[SL_NEVER_TEXT_MAX];
	if (ms < 0)
		printf("%-10s never%s\n", name, sl_request_never(never, bound, false));
	else if (ms == 0)
		printf("%-10s now\n", name);
	else
		printf("%-10s in %s (%" PRId64 " ms)\n", name, sl_cli_wait(text, ms), ms);
}

void sl_request_print_wait(const char *name, int64_t ms) {
	print_wait(name, ms, "");
}

void sl_request_print(const struct sl_request *request, int64_t index, const int64_t answer[SL_ANSWER_LEN]) {
	print_limit(request, index, answer[SL_ANSWER_ALLOWED] != 0);
	sl_request_print_figures(answer, "");
}

void sl_request_print_figures(const int64_t answer[SL_ANSWER_LEN], const char *bound) {
	printf("%-10s %" PRId64 " of %" PRId64 "\n", "remaining", answer[SL_ANSWER_REMAINING], answer[SL_ANSWER_QUOTA]);
	if (answer[SL_ANSWER_ALLOWED] == 0)
		print_wait("retry", answer[SL_ANSWER_RETRY], bound);
	if (answer[SL_ANSWER_DELAY] != 0)
		sl_request_print_wait("go ahead", answer[SL_ANSWER_DELAY]);
	sl_request_print_wait("full again", answer[SL_ANSWER_RESET]);
}
