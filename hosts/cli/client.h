/* A small blocking client of the RESP door, and of Redis. For the command line only.
 *
 * Who it logs in as stands on the command line; the secret does not, for anybody may read that: it is taken from the
 * environment variable SLUICE_PASSWORD. */
#ifndef SL_CLI_CLIENT_H
#define SL_CLI_CLIENT_H

#include "hosts/cli/cli.h"
#include "proto/reply.h"

#include <sys/types.h>

enum {
	SL_CLIENT_TIMEOUT_S = 5, /* for connecting, for sending and for each read */
};

/* What stands before the text of an error that a server has answered. */
#define SL_CLIENT_REFUSED "the server refused: "

/* Which server, and as whom. Zeros: the one at SL_CLI_SERVER, as nobody, unless SLUICE_PASSWORD says a token. */
struct sl_client_options {
	const char *server; /* "127.0.0.1:7379", "[::1]:7379", "localhost:7379" or "unix:/path"; NULL: SL_CLI_SERVER */
	const char *user;   /* whose secret is in SLUICE_PASSWORD; NULL: a token, or the user default */
	const char *ca;     /* PEM file of who may have signed the server's certificate; NULL: the system's */
	bool tls;
	bool redis; /* it is a Redis or Valkey, not `sluice serve`: for what messages advise */
};

/* The rows of a verb's table of options for these, which stand `at` an offset of what it reads its arguments into. */
#define SL_CLIENT_OPTIONS(at)                                                                  \
	{"server", 's', "ADDR", "the server's RESP address (127.0.0.1:7379), or unix:/path",       \
	 SL_TEXT((at) + offsetof(struct sl_client_options, server))},                              \
		{"user", 'u', "NAME",                                                                  \
	     "log in as this user, by the secret in the environment variable\n"                    \
	     "SLUICE_PASSWORD; without a name that is a token, or default's",                      \
	     SL_TEXT((at) + offsetof(struct sl_client_options, user))},                            \
		{"tls", 0, NULL, "speak TLS; the server's certificate is verified",                    \
	     SL_FLAG((at) + offsetof(struct sl_client_options, tls))},                             \
	{                                                                                          \
		"ca", 0, "FILE", "trust the certificates in this PEM file instead of the system's (--tls)", \
			SL_TEXT((at) + offsetof(struct sl_client_options, ca))                             \
	}

struct sl_client_here;

struct sl_client {
	int fd;
	struct sl_tls_session *tls;  /* NULL: in the clear */
	struct sl_client_here *here; /* a store of this process answers, by the server's own door; NULL: a connection */
	bool reached;                /* there is somebody: what failed, failed later */
	struct sl_reply reply;       /* where in an answer one is */
	size_t at, len;              /* what of `input` is unread */
	char input[SL_REPLY_TOKEN_BYTES_MAX];
};

/* Nobody's yet. */
static inline void sl_client_begin(struct sl_client *client) {
	client->fd = -1;
	client->tls = NULL;
	client->here = NULL;
	client->reached = false;
	client->at = client->len = 0;
	client->reply = (struct sl_reply){.depth = 0};
}

/* Do the options for a server go together? SL_GO_ON, or what to exit with, after saying why not. Every verb asks. */
int sl_client_check(const struct sl_verb *verb, const struct sl_client_options *options);

/* Connects, and speaks TLS where asked, to whatever protocol: what sl_client_open() does before it logs in. */
bool sl_client_connect(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error);

/* Connects, speaks TLS where asked, and logs in where there is a secret. False with `error` filled (its column is
 * unused); there is then nothing to close. */
bool sl_client_open(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error);

/* The same for a store that this process has open, and closes itself: it is answered as a server answers.
 *  policy  whose limits it has; lives as long, NULL: none */
bool sl_client_open_store(struct sl_client *client, struct sluice_store *store, const struct sluice_policy *policy,
                          struct sluice_error *error);

/* Closes the connection. */
void sl_client_close(struct sl_client *client);

/* Sends one command, whose answer is then read piece by piece. False with `error` filled. */
bool sl_client_send(struct sl_client *client, const struct sluice_bytes *words, int count, struct sluice_error *error);
/* Sends commands that are written already, one or many. */
bool sl_client_send_bytes(struct sl_client *client, struct sluice_bytes bytes, struct sluice_error *error);
/* Reads a line of a protocol that is none of RESP, without what ends it; borrowed until more is read. */
bool sl_client_line(struct sl_client *client, struct sluice_bytes *line, struct sluice_error *error);
/* Reads an integer, or the head of an aggregate: `type` is ':' or '*'. */
bool sl_client_integer(struct sl_client *client, char type, int64_t *value, struct sluice_error *error);
/* Reads the next token of an answer, of any kind but an error; its text is borrowed until the next is read. */
bool sl_client_token(struct sl_client *client, struct sl_reply_token *token, struct sluice_error *error);
/* Reads a string; its first `max` bytes are kept, *len of them; none of nil. */
bool sl_client_string(struct sl_client *client, char *data, size_t max, size_t *len, struct sluice_error *error);

/* ---- client_here.c ---- */

/* As the two below. */
ssize_t sl_client_here_send(struct sl_client *client, const void *data, size_t len);
ssize_t sl_client_here_receive(struct sl_client *client, void *data, size_t len);
void sl_client_here_end(struct sl_client *client);

#endif
