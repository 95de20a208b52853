/* A request of the command line, from its words to its answer: what is asked, of whom, and how.
 *
 * Three places can answer, all by the same commands: a server over RESP; a Redis with Sluice's module; a store of this
 * host, at the server's own door in this process (client_here.c). */
#ifndef SL_CLI_ASK_H
#define SL_CLI_ASK_H

#include "hosts/cli/request.h"
#include "hosts/cli/url.h"
#include "proto/command.h"
#include "proto/ticket.h"

struct sl_cli_ask {
	const struct sl_verb *verb;
	enum sl_operation operation;
	uint32_t given; /* words of the grammar, which stand alone: SL_SAYS() */
	struct sl_client_options server;
	const char *store;       /* NULL: a server */
	const struct sluice_policy *policy; /* whose limits a store of this host has; NULL: none */
	const char *policy_file;            /* where that is from */
	struct sl_redis_url url; /* of it, where it is a Redis */
	bool in_redis;
	bool peek, upto, next;
	uint32_t cost;
	sluice_ns ttl_ns;
	const char *id, *member; /* NULL: none */
	const char *held;        /* the id of a lease, or a ticket */
	struct sl_request request;
	struct sluice_store *here; /* while a store of this host is asked */
	struct sl_client client;
};

/* Begins with the defaults: cost 1, ttl a minute. */
struct sl_cli_ask sl_ask_begin(const struct sl_verb *verb);

/* What does not go together of the options; where to ask. SL_GO_ON, or what to exit with after saying why. */
int sl_ask_check_place(struct sl_cli_ask *ask);

/* Connects alone; as sl_ask_send(). */
int sl_ask_reach(struct sl_cli_ask *ask);

/* Connects, and sends ask->operation with what `ask` says. SL_GO_ON with ask->client to be read, and sl_ask_end(); or
 * what to exit with. */
int sl_ask_send(struct sl_cli_ask *ask);

/* Ends it. */
void sl_ask_end(struct sl_cli_ask *ask);

/* Says why an answer could not be read. SL_EXIT_FAILED. */
int sl_ask_failed(const struct sl_cli_ask *ask, const struct sluice_error *error);

/* Reads an array's first `want` integers; `more` elements stand after them. False with `error` filled. */
bool sl_ask_read_array(struct sl_cli_ask *ask, int64_t *answer, int want, int more, struct sluice_error *error);

/* Says that a process that is stopped holds up a store. Returns SL_EXIT_FAILED. */
int sl_ask_fail_busy(const struct sl_verb *verb, const char *name);

#endif
