/* The PROXY protocol, versions 1 and 2: who the client of a proxy is, said before its first byte. Pure: bytes to a
 * struct.
 *
 * Read strictly, because whoever can make a receiver misread the header chooses the address that it is limited by. */
#ifndef SL_PROXY_H
#define SL_PROXY_H

#include "policy/address.h"

enum {
	SL_PROXY_V1_BYTES_MAX = 107, /* with its CR LF */
	SL_PROXY_BYTES_MAX = 4096,   /* of version 2 with all that it carries; senders keep to 536 unless told otherwise */
};

enum sl_proxy_result {
	SL_PROXY_MORE = 0, /* all bytes there are belong to a header that goes on: call again with more after them */
	SL_PROXY_DONE = 1, /* a whole header */
	SL_PROXY_BAD = -1, /* none, and nothing that follows can make it one */
};

struct sl_proxy {
	size_t consumed; /* bytes of the header; what the client itself says begins after them */
	bool named;      /* does it name an inet client? Else (LOCAL, UNKNOWN, unix, datagrams) the socket's peer is it */
	struct sl_address address;
	uint16_t port;
	const char *why; /* SL_PROXY_BAD: what was wrong, for a person */
};

/* Reads a header from the first bytes of a connection; `proxy` is filled as the result says. A checksum (CRC32C) that
 * version 2 brings is verified, everything else after its addresses is only checked to be whole. Some 100 ns. */
enum sl_proxy_result sl_proxy_parse(struct sl_proxy *proxy, const char *data, size_t len);

#endif
