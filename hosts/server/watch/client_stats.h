/* Who asks: connections and decisions by the name that a client gives its library, and its version. RESP's clients name
 * themselves by CLIENT SETINFO, those of gRPC and of /v1 by User-Agent; others, and proxies, are counted unnamed.
 *
 * Each worker has a page with a fixed number of rows, since a client may name itself anew whenever it likes:
 *
 *   rows  0 .. 3      unnamed, one a transport
 *         4 .. 7      others, one a transport: connections whose names found no row, and what forgotten names counted
 *         8 .. 63     a transport, a name and a version each
 *
 * A new name takes a row that was never used, else that of a name without open connections, of those the one with the
 * fewest decisions; what that name counted moves to the others. So the sums by transport are those of the requests
 * (stats.h), whatever clients call themselves, and a name with an open connection keeps its row. */
#ifndef SL_CLIENT_STATS_H
#define SL_CLIENT_STATS_H

#include "hosts/server/watch/times.h"
#include "hosts/server/watch/transport.h"

#include <pthread.h>

enum {
	SL_CLIENT_ROWS = 64,        /* of a worker */
	SL_CLIENT_NAME_MAX = 40,    /* bytes of a name that are kept */
	SL_CLIENT_VERSION_MAX = 24, /* bytes of a version that are kept */
	SL_CLIENTS_TOLD_MAX = 64,   /* of all workers: those with the most decisions */
};

/* A row. Its counters are relaxed, and written by its worker only; the texts are guarded by the page's lock. */
struct sl_client_row {
	uint8_t transport;
	char name[SL_CLIENT_NAME_MAX + 1]; /* "" of those that are unnamed, and of a row that was never used */
	char version[SL_CLIENT_VERSION_MAX + 1];
	_Atomic uint64_t open; /* connections */
	_Atomic uint64_t decided[SL_VERDICTS];
};

/* One worker's page. */
struct sl_client_page {
	pthread_mutex_t lock; /* taken by readers, and by the worker when a client names itself */
	struct sl_client_row rows[SL_CLIENT_ROWS];
	uint64_t noted[SL_TRANSPORTS][SL_VERDICTS]; /* of the worker's requests, those that stand in a row */
};

/* Sets up a page whose bytes are 0. It needs no end. */
void sl_client_page_init(struct sl_client_page *page);

/* The functions that follow are for the page's worker. A client is a row + 1; 0 stands for none, of which nothing is
 * counted. */

/* A connection was opened; returns its client, unnamed. Some ns. */
uint32_t sl_client_stats_open(struct sl_client_page *page, enum sl_transport transport);

/* An open connection's client has said its name and version, any bytes of any length; an empty name is none. They are
 * cut to what is kept, and what is no letter, digit or one of -._+:@/()~, becomes '_'. Returns the client that the
 * connection is counted as from now on. O(SL_CLIENT_ROWS): below a microsecond, whatever the client sends. */
uint32_t sl_client_stats_name(struct sl_client_page *page, uint32_t client, struct sluice_bytes name,
                              struct sluice_bytes version);

/* As sl_client_stats_name(), from a User-Agent (RFC 9110, 10.1.5): its first product and that one's version. */
uint32_t sl_client_stats_agent(struct sl_client_page *page, uint32_t client, struct sluice_bytes agent);

/* A connection has closed. Some ns. */
void sl_client_stats_close(struct sl_client_page *page, uint32_t client);

/* Counts for a client what its worker has decided of a transport since the last call. To be called after each feed of a
 * door and before the next, so that the difference is of one connection.
 *  requests  the worker's own of this transport, by verdict (struct sl_worker_stats) */
void sl_client_stats_note(struct sl_client_page *page, uint32_t client, enum sl_transport transport,
                          const _Atomic uint64_t requests[SL_VERDICTS]);

/* ---- reading ---- */

enum sl_client_kind { SL_CLIENT_NAMED, SL_CLIENT_UNNAMED, SL_CLIENT_OTHERS };

struct sl_client_sum {
	enum sl_transport transport;
	enum sl_client_kind kind;
	char name[SL_CLIENT_NAME_MAX + 1], version[SL_CLIENT_VERSION_MAX + 1]; /* "" where none was said */
	uint64_t open, decided[SL_VERDICTS];
};

/* Adds up pages: fills at most SL_CLIENTS_TOLD_MAX sums, those with the most decisions first; the rest is added to
 * the others of its transport. What has neither connections nor decisions is left out. Returns how many; 0 without
 * memory. Any thread; a worker waits for the copy of one page at most. O(n log n) of all rows. */
uint32_t sl_client_stats_sums(struct sl_client_page *const *pages, uint32_t page_count,
                              struct sl_client_sum sums[SL_CLIENTS_TOLD_MAX]);

/* The libraries that metrics name; "other" is any other name, "unnamed" none. */
enum { SL_CLIENT_LIBRARIES = 14 };
extern const char *const sl_client_libraries[SL_CLIENT_LIBRARIES];

/* The place in the list of a client: by its name up to a '(', as redis-py(django) is redis-py. */
uint32_t sl_client_library(const struct sl_client_sum *sum);

#endif
