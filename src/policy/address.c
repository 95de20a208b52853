/* One form for every address: 16 bytes, IPv4 mapped into ::ffff:0:0/96.
 *
 * Why: a client that reaches a dual-stack socket has two spellings, and two spellings would be two quotas. Grouping
 * IPv6 by a prefix is for the same reason: whoever has one address of a /64 has 2^64 of them. NAT64 and 6to4 addresses
 * are left as IPv6: what they embed is no more trustworthy than they are.
 *
 * inet_pton() reads, for it is exact (no octal, no short forms). Printing is our own: inet_ntop() writes ::1:2 as
 * ::0.1.0.2, which is no canonical form (RFC 5952, 4 and 5).
 */
#include "policy/address.h"

#include "base/out.h"

#include <arpa/inet.h>

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool sl_host_split(const char *text, char host[256], char port[8]) {
	const char *colon = strrchr(text, ':'), *from = text, *to = colon;
	const size_t port_len = colon != NULL ? strlen(colon + 1) : 0;
	if (port_len == 0 || port_len > 5 || colon == text)
		return false;
	if (*text == '[') {
		from++;
		to--;
		if (*to != ']')
			return false;
	}
	if (to <= from || to - from > 255)
		return false;
	memcpy(host, from, (size_t)(to - from));
	host[to - from] = '\0';
	memcpy(port, colon + 1, port_len + 1);
	return true;
}

bool sl_address_is_v4(const struct sl_address *address) {
	return memcmp(address->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

bool sl_address_is_loopback(const struct sl_address *address) {
	static const uint8_t v6[16] = {[15] = 1};
	return sl_address_is_v4(address) ? address->bytes[12] == 127 : memcmp(address->bytes, v6, sizeof v6) == 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static const char *find(struct sluice_bytes text, char c) {
	return text.len == 0 ? NULL : memchr(text.data, c, text.len);
}

/* A copy for inet_pton(); false for what is too long or holds a NUL. */
static bool to_string(struct sluice_bytes text, char string[INET6_ADDRSTRLEN]) {
	if (text.len == 0 || text.len >= INET6_ADDRSTRLEN || find(text, '\0') != NULL)
		return false;
	memcpy(string, text.data, text.len);
	string[text.len] = '\0';
	return true;
}

static bool parse_v4(struct sluice_bytes text, struct sl_address *address) {
	char string[INET6_ADDRSTRLEN];
	struct sl_address parsed;
	memcpy(parsed.bytes, v4_prefix, sizeof v4_prefix);
	if (!to_string(text, string) || inet_pton(AF_INET, string, parsed.bytes + sizeof v4_prefix) != 1)
		return false;
	*address = parsed;
	return true;
}

static bool parse_v6(struct sluice_bytes text, struct sl_address *address) {
	char string[INET6_ADDRSTRLEN];
	struct sl_address parsed;
	const char *zone = find(text, '%');
	if (zone != NULL) {
		if (zone + 1 == (const char *)text.data + text.len)
			return false;
		text.len = (size_t)(zone - (const char *)text.data);
	}
	if (!to_string(text, string) || inet_pton(AF_INET6, string, parsed.bytes) != 1)
		return false;
	*address = parsed;
	return true;
}

static bool parse_port(struct sluice_bytes text, uint32_t *port) {
	uint64_t value;
	if (text.len > 5 || !sl_bytes_to_u64(text, &value) || value > 65535)
		return false;
	*port = (uint32_t)value;
	return true;
}

/* "[v6]" or "[v6]:port" */
static bool parse_bracketed(struct sluice_bytes text, struct sl_address *address, uint32_t *port) {
	const char *start = text.data, *end = start + text.len;
	const char *close = find(text, ']');
	if (close == NULL || (close + 1 != end && close[1] != ':'))
		return false;
	if (close + 1 != end && !parse_port(sl_slice(close + 2, (size_t)(end - close - 2)), port))
		return false;
	return parse_v6(sl_slice(start + 1, (size_t)(close - start - 1)), address);
}

bool sl_address_parse(struct sluice_bytes text, struct sl_address *address, uint32_t *port) {
	struct sl_address parsed;
	uint32_t number = SL_PORT_NONE;
	const char *start = text.data, *colon = find(text, ':');
	bool good;
	if (text.len != 0 && *start == '[') {
		good = parse_bracketed(text, &parsed, &number);
	} else if (colon == NULL) {
		good = parse_v4(text, &parsed);
	} else if (find(sl_slice(colon + 1, (size_t)(start + text.len - colon - 1)), ':') == NULL) {
		/* one colon is never IPv6 */
		good = parse_v4(sl_slice(start, (size_t)(colon - start)), &parsed) &&
		       parse_port(sl_slice(colon + 1, (size_t)(start + text.len - colon - 1)), &number);
	} else {
		good = parse_v6(text, &parsed);
	}
	if (!good)
		return false;
	*address = parsed;
	if (port != NULL)
		*port = number;
	return true;
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static void print_v4(struct sl_out *out, const uint8_t quad[4]) {
	for (int i = 0; i < 4; i++) {
		if (i > 0)
			sl_out_char(out, '.');
		sl_out_u64(out, quad[i]);
	}
}

static void print_group(struct sl_out *out, unsigned group) {
	char text[4];
	int digits = group > 0xfff ? 4 : group > 0xff ? 3 : group > 0xf ? 2 : 1;
	sl_out_bytes(out, text, (size_t)(sl_hex(text, group, digits) - text));
}

/* The first of the longest runs of zero groups, at least two long; `*len` 0 where there is none. */
static int longest_zeros(const unsigned groups[8], int *len) {
	int best = -1, run = 0;
	*len = 0;
	for (int i = 0; i < 8; i++) {
		run = groups[i] == 0 ? run + 1 : 0;
		if (run >= 2 && run > *len) {
			*len = run;
			best = i - run + 1;
		}
	}
	return best;
}

static void print_v6(struct sl_out *out, const uint8_t bytes[16]) {
	unsigned groups[8];
	int zeros_len;
	for (int i = 0; i < 8; i++)
		groups[i] = (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
	int zeros = longest_zeros(groups, &zeros_len);
	for (int i = 0; i < 8; i++) {
		if (i == zeros) {
			sl_out_str(out, "::");
			i += zeros_len - 1;
			continue;
		}
		if (i > 0 && i != zeros + zeros_len)
			sl_out_char(out, ':');
		print_group(out, groups[i]);
	}
}

static void print_address(struct sl_out *out, const struct sl_address *address) {
	if (sl_address_is_v4(address))
		print_v4(out, address->bytes + sizeof v4_prefix);
	else
		print_v6(out, address->bytes);
}

static size_t finish(struct sl_out *out) {
	*out->at = '\0';
	return sl_out_len(out);
}

size_t sl_address_print(const struct sl_address *address, char text[SL_ADDRESS_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SL_ADDRESS_TEXT_MAX - 1);
	print_address(&out, address);
	return finish(&out);
}

/* ---- networks ------------------------------------------------------------------------------------------------ */

/* Clears the bits after the first `bits`; were any set? */
static bool mask(struct sl_address *address, unsigned bits) {
	bool strays = false;
	for (unsigned i = 0; i < 16; i++) {
		unsigned kept = bits >= 8 * (i + 1) ? 8 : bits > 8 * i ? bits - 8 * i : 0;
		uint8_t bits_kept = (uint8_t)(0xff00u >> kept);
		strays |= (address->bytes[i] & (uint8_t)~bits_kept) != 0;
		address->bytes[i] &= bits_kept;
	}
	return strays;
}

void sl_address_group(struct sl_address *address, uint32_t ipv6_prefix) {
	if (!sl_address_is_v4(address))
		mask(address, ipv6_prefix);
}

size_t sl_address_key(const struct sl_address *address, uint32_t ipv6_prefix, char text[SL_ADDRESS_TEXT_MAX]) {
	if (ipv6_prefix >= 128 || sl_address_is_v4(address))
		return sl_address_print(address, text);
	struct sl_out out = sl_out_to(text, SL_ADDRESS_TEXT_MAX - 1);
	struct sl_address network = *address;
	mask(&network, ipv6_prefix);
	print_v6(&out, network.bytes);
	sl_out_char(&out, '/');
	sl_out_u64(&out, ipv6_prefix);
	return finish(&out);
}

static bool parse_bare(struct sluice_bytes text, struct sl_address *address) {
	return find(text, ':') == NULL ? parse_v4(text, address) : find(text, '%') == NULL && parse_v6(text, address);
}

bool sl_network_parse(struct sluice_bytes text, struct sl_network *network, bool *strays) {
	struct sl_network parsed;
	const char *start = text.data, *slash = find(text, '/');
	struct sluice_bytes host = {start, slash == NULL ? text.len : (size_t)(slash - start)};
	uint64_t bits = 128;
	if (!parse_bare(host, &parsed.address))
		return false;
	bool dotted = find(host, ':') == NULL;
	if (slash != NULL) {
		if (!sl_bytes_to_u64(sl_slice(slash + 1, (size_t)(start + text.len - slash - 1)), &bits))
			return false;
		if (bits > (dotted ? 32 : 128))
			return false;
		bits += dotted ? 96 : 0;
	}
	parsed.prefix_bits = (uint8_t)bits;
	parsed.v4 = bits >= 96 && sl_address_is_v4(&parsed.address);
	bool stray = mask(&parsed.address, parsed.prefix_bits);
	*network = parsed;
	if (strays != NULL)
		*strays = stray;
	return true;
}

bool sl_network_contains(const struct sl_network *network, const struct sl_address *address) {
	struct sl_address masked = *address;
	if (sl_address_is_v4(address) != network->v4)
		return false;
	mask(&masked, network->prefix_bits);
	return memcmp(masked.bytes, network->address.bytes, sizeof masked.bytes) == 0;
}

bool sl_network_covers(const struct sl_network *network, const struct sl_network *other) {
	return network->v4 == other->v4 && network->prefix_bits <= other->prefix_bits &&
	       sl_network_contains(network, &other->address);
}

size_t sl_network_print(const struct sl_network *network, char text[SL_ADDRESS_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SL_ADDRESS_TEXT_MAX - 1);
	if (network->v4)
		print_v4(&out, network->address.bytes + sizeof v4_prefix);
	else
		print_v6(&out, network->address.bytes);
	sl_out_char(&out, '/');
	sl_out_u64(&out, network->v4 ? network->prefix_bits - 96u : network->prefix_bits);
	return finish(&out);
}
