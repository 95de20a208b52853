/* A request of the command line, from its words to its answer: what is asked, of whom, and how.
 *
 * Three places can answer: a server over RESP; a Redis with Sluice's module, which takes the same commands; a store of
 * this host, in which it is decided here. */
#ifndef SL_CLI_ASK_H
#define SL_CLI_ASK_H

#include "hosts/cli/request.h"
#include "hosts/cli/url.h"
#include "proto/ticket.h"

struct sl_cli_ask {
	const struct sl_verb *verb;
	struct sl_client_options server;
	const char *store;       /* NULL: a server */
	struct sl_redis_url url; /* of it, where it is a Redis */
	bool in_redis, peek, upto;
	uint64_t cost;
	sluice_ns ttl_ns;
	const char *id, *member; /* NULL: none */
	struct sl_request request;
};

/* The rows of a verb's table of options for these, besides those of a server (client.h). */
#define SL_ASK_OPTION_COST \
	{ "cost", 0, "N", "what the request costs, 0..4294967295 (1)" }
#define SL_ASK_OPTION_MEMBER \
	{ "member", 0, "MEMBER", "who is counted by limits of `distinct`" }
#define SL_ASK_OPTION_STORE                                                                           \
	{                                                                                                 \
		"store", 0, "STORE",                                                                          \
			"decide in a store's file, or in shared:NAME, instead of asking a server, beside the\n"   \
			"processes that use it; or in a Redis with Sluice's module: redis://[USER@]HOST[:PORT]\n" \
			"[/PREFIX], rediss:// over TLS, or unix://[USER@]/PATH"                                   \
	}

/* Begins with the defaults: cost 1, ttl a minute. */
struct sl_cli_ask sl_ask_begin(const struct sl_verb *verb);

/* Reads all arguments of the verb: its options by their names, its words into ask->request, unread. SL_GO_ON, or what
 * to exit with after saying why. */
int sl_ask_read(struct sl_cli_ask *ask, int argc, char **argv);

/* Takes the word behind the key out of the request: the id of a lease, a ticket. NULL, after saying that `what` is
 * missing, where there is none. */
const char *sl_ask_take(struct sl_cli_ask *ask, const char *what);

/* Reads the words of a ticket into the request: its keys and limits, and the id before its dot. For requests that name
 * no limits. `memory` (SL_TICKET_BYTES_MAX) holds the keys. SL_GO_ON, or what to exit with. */
int sl_ask_ticket(struct sl_cli_ask *ask, const char *text, struct sl_ticket *ticket, char *memory);

/* Is it answered by somebody else, over RESP? */
bool sl_ask_is_remote(const struct sl_cli_ask *ask);

/* Connects, and sends a command: its name, the key, what stands `behind` the key (ended by NULL), the limits. SL_GO_ON
 * with a client to be read and closed, or what to exit with. */
int sl_ask_send(struct sl_cli_ask *ask, struct sl_client *client, const char *command, const char *const *behind);

/* Says why an answer could not be read, and closes the client. SL_EXIT_FAILED. */
int sl_ask_failed(const struct sl_cli_ask *ask, struct sl_client *client, const struct sluice_error *error);

/* Sends a command as sl_ask_send() and reads `want` integers in an array, with a text of `text_max` bytes, NUL-ended,
 * as one element more where `text` is not NULL ("" for nil); `want` 0: a lone integer. SL_GO_ON, or what to exit
 * with. */
int sl_ask_command(struct sl_cli_ask *ask, const char *command, const char *const *behind, int64_t *answer, int want,
                   char *text, size_t text_max);

/* Decides a call over the request in a store of this host, by its clock: fills in items, count, cost, member, id, upto.
 * SL_GO_ON, or what to exit with. */
int sl_ask_decide(struct sl_cli_ask *ask, struct sluice_call *call);

/* Lists who holds leases of the request's first limit in a store of this host: fills at most `room`, and says how many
 * there are. SL_GO_ON, or what to exit with. */
int sl_ask_holders(struct sl_cli_ask *ask, struct sluice_holder *list, uint32_t room, uint32_t *count);

#endif
