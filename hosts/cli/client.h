/* A small blocking client of the RESP door: one command, one answer of integers. For the command line only. */
#ifndef SL_CLI_CLIENT_H
#define SL_CLI_CLIENT_H

#include "base/bytes.h"

enum {
	SL_CLIENT_TIMEOUT_S = 5,       /* for connecting, for sending and for each read */
	SL_CLIENT_LINE_MAX = 4096,     /* bytes of one line of an answer */
};

struct sl_client {
	int fd;
	size_t at, len; /* what of `input` is unread */
	char input[SL_CLIENT_LINE_MAX];
};

/* Connects to "127.0.0.1:7379", "[::1]:7379", "localhost:7379" or "unix:/path". False with `error` filled (its column
 * is unused); there is then nothing to close. */
bool sl_client_open(struct sl_client *client, const char *address, struct sluice_error *error);

/* Closes the connection. */
void sl_client_close(struct sl_client *client);

/* Sends one command and reads an array of exactly `want` integers; `want` 0: an integer that is no array. False with
 * `error` filled: the server's own -ERR text, or what went wrong on the way. */
bool sl_client_ask(struct sl_client *client, const struct sluice_bytes *words, int count, int64_t *integers, int want,
                   struct sluice_error *error);

#endif
