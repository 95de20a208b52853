/* One connection to a node: made, written once a turn of the loop, read, ended. Knows nothing of commands.
 *
 * A link lives as long as its connection; a node that is connected again gets a new one. Nothing here waits: names are
 * resolved by the loop's helpers, connecting and the TLS handshake go on when the socket is ready. It has no clock:
 * whoever opened it ends it when it takes too long. */
#ifndef SL_LINK_H
#define SL_LINK_H

#include "hosts/server/cluster/slots.h"
#include "hosts/server/loop/loop.h"
#include "hosts/server/tls/tls.h"

enum {
	SL_LINK_OUTPUT_BYTES_MAX = 16 * 1024 * 1024,
	SL_LINK_WHY_BYTES = 160,
};

struct sl_link;

/* What all links of a worker have in common. */
struct sl_link_world {
	struct sl_loop loop;
	struct sl_tls *tls;                         /* NULL: no TLS */
	uint32_t alive;                             /* links that the loop still knows */
	void (*ended)(struct sl_link_world *world); /* one is gone: alive was counted down */

	/* Of a link. None is called from within sl_link_open() or sl_link_close(); each may close it. */
	void (*up)(struct sl_link *link, void *owner); /* connected: bytes may be sent */
	/* Bytes came. Returns how many were taken; the others are given again with more after them, at least `*need` in
	 * all. -1: they break the protocol; `why` says how. */
	ptrdiff_t (*bytes)(struct sl_link *link, void *owner, const char *data, size_t len, size_t *need, const char **why);
	void (*down)(struct sl_link *link, void *owner, const char *why); /* it has ended by itself; it is closed already */
};

/* Begins to connect. `turn`: which of the addresses of a name, modulo their number. NULL, and `why` filled, where that
 * fails at once. */
struct sl_link *sl_link_open(struct sl_link_world *world, const struct sl_node_place *place, uint32_t turn, void *owner,
                             char why[SL_LINK_WHY_BYTES]);

/* Room for `bytes` more of output, to be written at once and told by sl_link_wrote(); NULL: there is none, neither from
 * the system nor within SL_LINK_OUTPUT_BYTES_MAX. Some ns. */
char *sl_link_room(struct sl_link *link, size_t bytes);
void sl_link_wrote(struct sl_link *link, size_t bytes);

/* Bytes of output since the beginning: all; and those that the system (or TLS) has taken. */
uint64_t sl_link_queued(const struct sl_link *link);
uint64_t sl_link_handed(const struct sl_link *link);

/* Hands output to the system, as much as it takes now; the rest goes when there is room. May call `down`. */
void sl_link_flush(struct sl_link *link);

/* Ends it: nothing of it is called any more; memory goes with its last handle. */
void sl_link_close(struct sl_link *link);

#endif
