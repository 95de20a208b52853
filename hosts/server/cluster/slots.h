/* The 16,384 slots of a cluster: which one a key is in, and what CLUSTER SLOTS says of who has them. */
#ifndef SL_SLOTS_H
#define SL_SLOTS_H

#include "hosts/server/cluster/nodes.h"
#include "proto/reply.h"

enum {
	SL_SLOTS = 16384,
	SL_HOST_BYTES_MAX = 255, /* of a name, or of the path of a socket */
};

/* Where a node is: a host (name or address) and its port, or the path of a socket. */
struct sl_node_place {
	char host[SL_HOST_BYTES_MAX + 1];
	uint16_t port;
	bool is_unix; /* `host` is a path */
};

/* Reads "10.0.0.1:6379", "[::1]:6379", "::1:6379" (as nodes write it), "name:6379@16379", "unix:/path". False, the
 * place untouched, for anything else; an empty host is taken: whoever reads knows what it means. */
bool sl_node_place_read(struct sluice_bytes text, struct sl_node_place *place);

enum { SL_PLACE_TEXT_MAX = SL_HOST_BYTES_MAX + 16 };
/* Writes it as it is read, NUL-ended; an IPv6 address in brackets. */
void sl_node_place_print(const struct sl_node_place *place, char text[SL_PLACE_TEXT_MAX]);

/* Fills in what a node leaves out when it names one: no host is the host that was asked, or the loopback behind a
 * socket. */
void sl_node_place_complete(struct sl_node_place *place, const struct sl_node_place *asked);

/* The same text? A name and its address are two places: nobody asks a name server to find that out. */
bool sl_node_place_equal(const struct sl_node_place *a, const struct sl_node_place *b);

/* A range of slots and its primary; an empty host is the one that was asked. */
struct sl_slots_range {
	uint16_t first, last;
	struct sl_node_place primary;
};

/* Reads the reply of CLUSTER SLOTS, token by token. All zero at the beginning. */
struct sl_slots_reader {
	uint8_t field, bad;
	bool known; /* `range` has a host that is one */
	struct sl_slots_range range;
};

/* Takes one token of the reply. True: reader->range is whole. What is out of range or of another shape makes no range;
 * reader->bad says that there was such. */
bool sl_slots_read(struct sl_slots_reader *reader, const struct sl_reply_token *token);

#endif
