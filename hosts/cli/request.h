/* KEY LIMIT... of a command line: read, asked of a server or decided in a store, and the answer printed. */
#ifndef SL_CLI_REQUEST_H
#define SL_CLI_REQUEST_H

#include "hosts/cli/cli.h"

/* A key, then each limit, with `KEY k` before it where the key changes. */
enum { SL_REQUEST_WORDS_MAX = 1 + 3 * SLUICE_ITEMS_MAX };

struct sl_request {
	struct sluice_bytes words[SL_REQUEST_WORDS_MAX]; /* as they were given */
	int word_count;
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* the same with the keys that they count for */
	int limit_count;
	const char *names[SLUICE_ITEMS_MAX]; /* of limits given as policy:NAME, whose numbers the server knows; else NULL */
	bool named;                          /* some are */
};

/* An answer, as SLUICE.CHECK orders its integers; waits in ms, -1 for never. */
enum {
	SL_ANSWER_ALLOWED,
	SL_ANSWER_QUOTA,
	SL_ANSWER_REMAINING,
	SL_ANSWER_RETRY,
	SL_ANSWER_RESET,
	SL_ANSWER_DELAY,
	SL_ANSWER_INDEX,
	SL_ANSWER_LEN
};

/* Takes one word of the command line, borrowed. SL_GO_ON, or what to exit with after saying what is wrong. */
int sl_request_take(const struct sl_verb *verb, struct sl_request *request, const char *word);

/* Reads the words that were taken: a mistake is told with its column, before anybody is asked. SL_GO_ON, or what to
 * exit with. */
int sl_request_read(const struct sl_verb *verb, struct sl_request *request);

/* Prints an answer for people. `index` names the limit that decided; -1 where none applied. */
void sl_request_print(const struct sl_request *request, int64_t index, const int64_t answer[SL_ANSWER_LEN]);

/* The same without its first line. `bound`: which bound of ours decided; "": none, or nobody told. */
void sl_request_print_figures(const int64_t answer[SL_ANSWER_LEN], const char *bound);

/* Why a denial is for good, to be read after "never": ": the cost is above the quota", or " (bound: limits)".
 *  bound  as it was told; "": none. By `key` nobody is denied for a cost that is `above` the quota: that is the reason
 * In `memory`, or a constant. */
enum { SL_NEVER_TEXT_MAX = 48 };
const char *sl_request_never(char memory[SL_NEVER_TEXT_MAX], const char *bound, bool above);

/* "NAME   in 3 s (3000 ms)", "now" or "never". */
void sl_request_print_wait(const char *name, int64_t ms);

#endif
