/* A peer on the wire that behaves as a test says: it answers the greeting as a node does, and SLUICE.CHECK with the
 * test's own bytes, with nothing, in halves, or by a reset. On the same loop as what it tests. */
#ifndef WIRE_PEER_H
#define WIRE_PEER_H

#include "tests/unit/nodes_loop.h"

#include "proto/resp.h"

enum { PEER_LINKS_MAX = 64, PEER_INPUT_BYTES = 64 * 1024 };

struct wire_peer;

struct peer_link {
	uv_tcp_t tcp;
	struct wire_peer *peer;
	bool used, asking;
	size_t len;
	char input[PEER_INPUT_BYTES];
};

struct wire_peer {
	uv_tcp_t listener;
	uint16_t port;
	char address[64];
	/* What it does. */
	const char *check; /* the answer to SLUICE.CHECK; NULL: none */
	const char *first; /* the answer to the first ones, `first_count` of them */
	unsigned first_count;
	const char *ping, *slots, *role, *module, *asked; /* asked: to CHECK behind ASKING; NULL: as to any */
	bool drip;                                        /* answers byte by byte */
	bool resets;                                      /* hangs up when asked */
	bool refuses;                                     /* hangs up when connected */
	bool deaf;                                        /* does not read */
	unsigned stalls_ms; /* keeps the whole loop so long, once it has answered SLUICE.CHECK */
	/* What it has seen. */
	unsigned connects, checks, pings, slots_asked, askings, scripts;
	char last_key[64], last_word[64]; /* of SLUICE.CHECK: its key; what stands after its cost */
	unsigned open;
	struct peer_link links[PEER_LINKS_MAX];
};

/* Listens on a free port of the loopback; a node that is well. About 4 MiB: static memory. */
void peer_listen(struct wire_peer *peer, uv_loop_t *loop);
/* Sends bytes on all its connections. */
void peer_say(struct wire_peer *peer, const char *bytes);
/* Hangs up on everybody. */
void peer_hang_up(struct wire_peer *peer);
/* The same by a reset, as a node's host does that knows the connection no more. */
void peer_reset(struct wire_peer *peer);
/* Ends it; the loop is run until that is done. */
void peer_close(struct wire_peer *peer);

#endif
