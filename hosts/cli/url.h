/* Where a Redis is, as --store says it:
 *
 *   redis://[USER@]HOST[:PORT][/PREFIX]     rediss:// the same over TLS     unix://[USER@]/PATH
 *
 * PORT is 6379 unless said. PREFIX stands before every key; a number would be a database elsewhere and is refused. So
 * is a password: everybody on the host may read a command line. */
#ifndef SL_CLI_URL_H
#define SL_CLI_URL_H

#include "hosts/cli/client.h"

enum { SL_URL_PREFIX_BYTES_MAX = 256 };

struct sl_redis_url {
	char server[300]; /* "HOST:PORT" or "unix:/path", for sl_client_open() */
	char user[132];   /* "" for none */
	char prefix[SL_URL_PREFIX_BYTES_MAX + 1];
	bool tls;
};

/* Is it a URL of a Redis, rather than a file's name? */
bool sl_redis_url_is(const char *text);

/* Reads one. False with `error` filled: what is wrong and what would be right. The user is read and not yet proved. */
bool sl_redis_url_parse(const char *text, struct sl_redis_url *url, struct sluice_error *error);

/* Where and as whom to connect; borrows from `url`.
 *  ca  PEM file, or NULL: the system's */
struct sl_client_options sl_redis_url_options(const struct sl_redis_url *url, const char *ca);

#endif
