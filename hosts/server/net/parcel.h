/* A connection as another process of this program takes it over (hot upgrade): its descriptor, and these bytes.
 *
 *   "SLP1" | transport, flags: 1 byte each | address: 16 | lengths: listener 2, peer 2, packed 2, input 4 | those four
 *
 * Numbers are big-endian. The bytes come from a process that may be newer or older than this one, so all of it is
 * checked as if it came from a stranger: a parcel that is cut, too long or of another form is no parcel. */
#ifndef SL_PARCEL_H
#define SL_PARCEL_H

#include "hosts/server/net/worker.h"

enum {
	SL_PARCEL_INPUT_MAX = 64 * 1024, /* unfinished input that moves with a connection; one with more stays */
	SL_PARCEL_HEAD_BYTES = 4 + 2 + 16 + 10,
	SL_PARCEL_BYTES_MAX =
		SL_PARCEL_HEAD_BYTES + SL_LISTEN_TEXT_MAX + SL_PEER_TEXT_MAX + SL_DOOR_PACK_MAX + SL_PARCEL_INPUT_MAX,
};

struct sl_parcel {
	enum sl_transport transport;
	bool is_unix;                 /* the peer has no address */
	bool is_named;                /* the PROXY header has been read: the peer is the one that it named */
	struct sl_address address;    /* of the peer, unless is_unix */
	struct sluice_bytes listener; /* sl_listener.name of the one it came by, 1..SL_LISTEN_TEXT_MAX - 1 bytes */
	struct sluice_bytes peer;     /* its text, up to SL_PEER_TEXT_MAX - 1 bytes, no NUL among them */
	struct sluice_bytes packed;   /* door->pack()'s, up to SL_DOOR_PACK_MAX */
	struct sluice_bytes input;    /* read and not answered yet, up to SL_PARCEL_INPUT_MAX */
};

/* Writes a parcel, whose lengths must be within the bounds above. Returns its bytes. */
size_t sl_parcel_write(const struct sl_parcel *parcel, char bytes[SL_PARCEL_BYTES_MAX]);
/* Reads one; its slices point into `bytes`. False for bytes that are none. */
SLUICE_MUST_USE bool sl_parcel_read(struct sl_parcel *parcel, const char *bytes, size_t len);

/* Makes an arrival of a parcel, for sl_worker_give(). `listener` is the receiver's own of parcel->listener's name; door
 * and transport must agree. The descriptor is taken over only where it returns true; false: no memory. */
SLUICE_MUST_USE bool sl_parcel_arrive(const struct sl_parcel *parcel, int fd, const struct sl_door *door,
                                      const struct sl_listener *listener, struct sl_arrival *arrival);

/* Sends bytes and a descriptor as one message over a socket that keeps messages apart (SOCK_SEQPACKET), whole or not at
 * all. False where it does not go: errno says why (EAGAIN: the receiver is behind; EMSGSIZE: SO_SNDBUF is less than
 * SL_PARCEL_BYTES_MAX). The descriptor stays the caller's. Any thread. */
SLUICE_MUST_USE bool sl_parcel_send(int socket, int fd, const char *bytes, size_t len);
/* Receives one. Returns its length and the descriptor, close-on-exec and the caller's; 0 at the end of what is sent; -1
 * with errno, EBADMSG for a message that is cut or brings not just one descriptor (which is then closed). */
ssize_t sl_parcel_receive(int socket, int *fd, char bytes[SL_PARCEL_BYTES_MAX]);

#endif
