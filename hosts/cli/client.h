/* A small blocking client of the RESP door. For the command line only.
 *
 * Who it logs in as stands on the command line; the secret does not, for anybody may read that: it is taken from the
 * environment variable SLUICE_PASSWORD. */
#ifndef SL_CLI_CLIENT_H
#define SL_CLI_CLIENT_H

#include "hosts/cli/args.h"

#include <openssl/types.h>
#include <sys/types.h>

enum {
	SL_CLIENT_TIMEOUT_S = 5,   /* for connecting, for sending and for each read */
	SL_CLIENT_LINE_MAX = 4096, /* bytes of one line of an answer */
};

/* Which server, and as whom. Zeros: the one at SL_CLI_SERVER, as nobody, unless SLUICE_PASSWORD says a token. */
struct sl_client_options {
	const char *server; /* "127.0.0.1:7379", "[::1]:7379", "localhost:7379" or "unix:/path"; NULL: SL_CLI_SERVER */
	const char *user;   /* whose secret is in SLUICE_PASSWORD; NULL: a token, or the user default */
	const char *ca;     /* PEM file of who may have signed the server's certificate; NULL: the system's */
	bool tls;
	bool redis; /* it is a Redis or Valkey, not `sluice serve`: for what messages advise */
};

/* The rows of a verb's table of options for these. */
#define SL_CLIENT_OPTION_SERVER \
	{ "server", 's', "ADDR", "the server's RESP address (127.0.0.1:7379), or unix:/path" }
#define SL_CLIENT_OPTION_USER                                                  \
	{                                                                          \
		"user", 'u', "NAME",                                                   \
			"log in as this user, by the secret in the environment variable\n" \
			"SLUICE_PASSWORD; without a name that is a token, or default's"    \
	}
#define SL_CLIENT_OPTION_TLS \
	{ "tls", 0, NULL, "speak TLS; the server's certificate is verified" }
#define SL_CLIENT_OPTION_CA \
	{ "ca", 0, "FILE", "trust who is in this PEM file instead of the system's list (--tls)" }

/* Takes an option of those by its name; false where it is another. */
bool sl_client_option(struct sl_client_options *options, const char *name, const char *value);

struct sl_client {
	int fd;
	SSL *tls;       /* NULL: in the clear */
	bool reached;   /* there is somebody: what failed, failed later */
	size_t at, len; /* what of `input` is unread */
	char input[SL_CLIENT_LINE_MAX];
};

/* Connects, speaks TLS where asked, and logs in where there is a secret. False with `error` filled (its column is
 * unused); there is then nothing to close. */
bool sl_client_open(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error);

/* Closes the connection. */
void sl_client_close(struct sl_client *client);

/* Sends one command, whose answer is then read piece by piece. False with `error` filled. */
bool sl_client_send(struct sl_client *client, const struct sluice_bytes *words, int count, struct sluice_error *error);
/* Sends commands that are written already, one or many. */
bool sl_client_send_bytes(struct sl_client *client, struct sluice_bytes bytes, struct sluice_error *error);
/* Reads an integer, or the head of an aggregate: `type` is ':' or '*'. */
bool sl_client_integer(struct sl_client *client, char type, int64_t *value, struct sluice_error *error);
/* Reads a string; its first `max` bytes are kept, *len of them; none of nil. */
bool sl_client_string(struct sl_client *client, char *data, size_t max, size_t *len, struct sluice_error *error);

/* ---- client_tls.c ---- */

/* Begins TLS on the connected client->fd with a server of this name or address, and verifies its certificate. False
 * with `error` filled; the descriptor stays the caller's. */
bool sl_client_tls_begin(struct sl_client *client, const char *host, const char *ca, struct sluice_error *error);
/* Ends it, if it has begun; the descriptor stays open. */
void sl_client_tls_end(struct sl_client *client);
/* As send() and recv() on its descriptor, errno included. */
ssize_t sl_client_tls_send(struct sl_client *client, const void *data, size_t len);
ssize_t sl_client_tls_receive(struct sl_client *client, void *data, size_t len);

#endif
