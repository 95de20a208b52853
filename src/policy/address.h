/* Addresses of clients and networks of proxies: text to bytes, and back in one canonical form. */
#ifndef SL_ADDRESS_H
#define SL_ADDRESS_H

#include "base/bytes.h"

enum { SL_ADDRESS_TEXT_MAX = 48 }; /* bytes of a printed address or network, with its NUL */

/* An IPv6 address in network order; an IPv4 one stands as ::ffff:a.b.c.d, so that both forms of it are one. */
struct sl_address {
	uint8_t bytes[16];
};

/* Addresses that share their first bits; for IPv4 networks prefix_bits is 96 more than written. */
struct sl_network {
	struct sl_address address; /* bits after the prefix are 0 */
	uint8_t prefix_bits;       /* 0..128 */
	bool v4;
};

#define SL_PORT_NONE UINT32_MAX

/* Reads "1.2.3.4", "1.2.3.4:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80"; a %zone of IPv6 is dropped.
 *  port    out, may be NULL: 0..65535, or SL_PORT_NONE where none is written
 * Returns false, leaving both untouched, for anything else: white space, names, leading zeros. No allocation. */
bool sl_address_parse(struct sluice_bytes text, struct sl_address *address, uint32_t *port);

/* Splits HOST:PORT at the last colon, brackets around the host taken off; neither part is looked into. False where one
 * is missing or too long: 255 bytes, 5 of the port. */
bool sl_host_split(const char *text, char host[256], char port[8]);

/* Is it an IPv4 address, in whichever form it was written? */
bool sl_address_is_v4(const struct sl_address *address);

/* Is it 127.0.0.0/8 or ::1? */
bool sl_address_is_loopback(const struct sl_address *address);

/* Writes an address as RFC 5952 says (IPv4 as a dotted quad), NUL-ended. Returns its length. */
size_t sl_address_print(const struct sl_address *address, char text[SL_ADDRESS_TEXT_MAX]);

/* Writes what an address counts as, NUL-ended: IPv4 alone, IPv6 by its network of `ipv6_prefix` bits (1..128), such as
 * "2001:db8:1:2::/64"; with 128 bits the address itself. Returns its length. */
size_t sl_address_key(const struct sl_address *address, uint32_t ipv6_prefix, char text[SL_ADDRESS_TEXT_MAX]);

/* Clears what does not count of an address: of IPv6 the bits after the first `ipv6_prefix`, of IPv4 none. */
void sl_address_group(struct sl_address *address, uint32_t ipv6_prefix);

/* Reads "10.0.0.0/8", "2001:db8::/32", or an address for itself alone. Bits after the prefix are cleared.
 *  strays  out, may be NULL: were there such bits?
 * Returns false, leaving both untouched, for anything else. */
bool sl_network_parse(struct sluice_bytes text, struct sl_network *network, bool *strays);

/* An IPv6 network never contains an IPv4 address, not even ::/0. */
bool sl_network_contains(const struct sl_network *network, const struct sl_address *address);

/* Does a network contain all of another? IPv4 and IPv6 as above. */
bool sl_network_covers(const struct sl_network *network, const struct sl_network *other);

/* Writes a network, NUL-ended, always with its prefix. Returns its length. */
size_t sl_network_print(const struct sl_network *network, char text[SL_ADDRESS_TEXT_MAX]);

#endif
