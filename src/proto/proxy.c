/* PROXY protocol headers.
 *
 *   v1   "PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n", TCP6, or "PROXY UNKNOWN ...\r\n"; at most 107 bytes
 *   v2   signature 12 | version, command 1 | family, protocol 1 | length 2 | addresses | (type 1, length 2, value)...
 *
 * Source: W. Tarreau, "The PROXY protocol, versions 1 & 2" (haproxy doc/proxy-protocol.txt). Where it lets a receiver
 * choose, this one refuses: other versions, commands, families and protocols, single fields that do not end where their
 * length says. A header that names no inet client (LOCAL, health checks; UNKNOWN; unix sockets; datagrams) leaves the
 * socket's own peer in force, as the text asks. */
#include "proto/proxy.h"

#include "base/assert.h"

enum {
	V2_HEAD_BYTES = 16,
	V2_INET_BYTES = 12,
	V2_INET6_BYTES = 36,
	V2_UNIX_BYTES = 216,
	TLV_HEAD_BYTES = 3,
	TLV_CRC32C = 3,
};
enum command { LOCAL, PROXY };
enum family { UNSPEC, INET, INET6, UNIX };
enum protocol { ANY, STREAM, DATAGRAM };

static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n";

static enum sl_proxy_result bad(struct sl_proxy *proxy, const char *why) {
	proxy->why = why;
	return SL_PROXY_BAD;
}

static size_t get16(const char *at) {
	return (size_t)(uint8_t)at[0] << 8 | (uint8_t)at[1];
}

/* ---- version 1 ------------------------------------------------------------------------------------------------- */

/* Takes the text up to the next space, or all that is left, off a line. False for nothing. */
static bool take_word(struct sluice_bytes *line, struct sluice_bytes *word) {
	const char *at = line->data, *space = line->len == 0 ? NULL : memchr(at, ' ', line->len);
	*word = sl_slice(at, space != NULL ? (size_t)(space - at) : line->len);
	size_t taken = word->len + (space != NULL);
	*line = sl_slice(at + taken, line->len - taken);
	return word->len != 0 && (space == NULL || line->len != 0); /* no space at the end either */
}

static bool is_made_of(struct sluice_bytes word, const char *bytes) {
	for (size_t i = 0; i < word.len; i++)
		if (((const char *)word.data)[i] == '\0' || strchr(bytes, ((const char *)word.data)[i]) == NULL)
			return false;
	return true;
}

/* An address of its family and nothing else: no port, no brackets, no zone. */
static bool read_address(struct sluice_bytes word, bool v6, struct sl_address *address) {
	if (!is_made_of(word, v6 ? "0123456789abcdefABCDEF:." : "0123456789."))
		return false;
	if (v6 != (memchr(word.data, ':', word.len) != NULL))
		return false;
	return sl_address_parse(word, address, NULL);
}

static bool read_port(struct sluice_bytes word, uint16_t *port) {
	uint64_t value;
	if ((word.len > 1 && *(const char *)word.data == '0') || !sl_bytes_to_u64(word, &value) || value > UINT16_MAX)
		return false;
	*port = (uint16_t)value;
	return true;
}

/* What stands after "PROXY ", without the CR LF. */
static enum sl_proxy_result read_line(struct sl_proxy *proxy, struct sluice_bytes line) {
	struct sluice_bytes family, source, destination, source_port, destination_port;
	struct sl_address ours;
	uint16_t our_port;
	if (line.len >= 7 && memcmp(line.data, "UNKNOWN", 7) == 0 && (line.len == 7 || ((const char *)line.data)[7] == ' '))
		return SL_PROXY_DONE;
	if (!take_word(&line, &family) || !take_word(&line, &source) || !take_word(&line, &destination) ||
	    !take_word(&line, &source_port) || !take_word(&line, &destination_port) || line.len != 0)
		return bad(proxy, "expected PROXY, family, two addresses and two ports, a single space between them");
	bool v6 = sl_bytes_equal(family, sl_str("TCP6"));
	if (!v6 && !sl_bytes_equal(family, sl_str("TCP4")))
		return bad(proxy, "the family is not TCP4, TCP6 or UNKNOWN");
	if (!read_address(source, v6, &proxy->address) || !read_address(destination, v6, &ours))
		return bad(proxy, "not an address of the family that is named");
	if (!read_port(source_port, &proxy->port) || !read_port(destination_port, &our_port))
		return bad(proxy, "a port is not a number from 0 to 65535 without leading zeros");
	proxy->named = true;
	return SL_PROXY_DONE;
}

static enum sl_proxy_result parse_v1(struct sl_proxy *proxy, const char *data, size_t len) {
	size_t window = len < SL_PROXY_V1_BYTES_MAX ? len : SL_PROXY_V1_BYTES_MAX;
	const char *cr = memchr(data, '\r', window), *lf = memchr(data, '\n', window);
	if (lf != NULL && (cr == NULL || cr + 1 != lf))
		return bad(proxy, "a line feed without its carriage return");
	if (cr != NULL && lf == NULL && cr + 1 < data + window)
		return bad(proxy, "a carriage return inside the line");
	if (lf == NULL && len >= SL_PROXY_V1_BYTES_MAX)
		return bad(proxy, "the line has more than 107 bytes");
	if (lf == NULL)
		return SL_PROXY_MORE;
	proxy->consumed = (size_t)(lf - data) + 1;
	return read_line(proxy, sl_slice(data + 6, (size_t)(cr - data) - 6));
}

/* ---- version 2 ------------------------------------------------------------------------------------------------- */

/* CRC-32C (Castagnoli), reflected, bit by bit: a header is short and a connection has one. The four bytes from `hole`
 * on count as 0. */
static uint32_t crc32c(const char *data, size_t len, size_t hole) {
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < len; i++) {
		crc ^= i - hole < 4 ? 0 : (uint8_t)data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

/* Walks what stands after the addresses, from `at` to `len`, the header's end. */
static enum sl_proxy_result read_fields(struct sl_proxy *proxy, const char *data, size_t at, size_t len) {
	bool checked = false;
	while (at < len) {
		if (len - at < TLV_HEAD_BYTES || len - at - TLV_HEAD_BYTES < get16(data + at + 1))
			return bad(proxy, "a field after the addresses is cut off");
		size_t value = at + TLV_HEAD_BYTES, bytes = get16(data + at + 1);
		if (data[at] == TLV_CRC32C) {
			if (bytes != 4 || checked)
				return bad(proxy, "more than one checksum, or one of another length than 4");
			if (crc32c(data, len, value) != (uint32_t)(get16(data + value) << 16 | get16(data + value + 2)))
				return bad(proxy, "the checksum is wrong");
			checked = true;
		}
		at = value + bytes;
	}
	return SL_PROXY_DONE;
}

/* The addresses of a proxied connection. *bytes gets how many they take of `room`; false where they do not fit. */
static bool read_addresses(struct sl_proxy *proxy, unsigned family, bool stream, const char *at, size_t room,
                           size_t *bytes) {
	static const size_t sizes[] = {
		[UNSPEC] = 0, [INET] = V2_INET_BYTES, [INET6] = V2_INET6_BYTES, [UNIX] = V2_UNIX_BYTES};
	*bytes = sizes[family];
	if (room < *bytes)
		return false;
	proxy->named = stream && (family == INET || family == INET6);
	if (!proxy->named)
		return true;
	if (family == INET) {
		proxy->address = (struct sl_address){{[10] = 0xff, [11] = 0xff}};
		memcpy(proxy->address.bytes + 12, at, 4);
		proxy->port = (uint16_t)get16(at + 8);
	} else {
		memcpy(proxy->address.bytes, at, 16);
		proxy->port = (uint16_t)get16(at + 32);
	}
	return true;
}

static enum sl_proxy_result parse_v2(struct sl_proxy *proxy, const char *data, size_t len) {
	if (len > 12 && (uint8_t)data[12] >> 4 != 2)
		return bad(proxy, "the version is not 2");
	if (len > 12 && (data[12] & 0x0f) > PROXY)
		return bad(proxy, "the command is neither LOCAL nor PROXY");
	if (len < V2_HEAD_BYTES)
		return SL_PROXY_MORE;
	unsigned family = (uint8_t)data[13] >> 4, protocol = data[13] & 0x0f;
	size_t total = V2_HEAD_BYTES + get16(data + 14), bytes = 0;
	if (total > SL_PROXY_BYTES_MAX)
		return bad(proxy, "the header has more than 4096 bytes");
	bool local = (data[12] & 0x0f) == LOCAL;
	if (!local && (family > UNIX || protocol > DATAGRAM))
		return bad(proxy, "no such family or protocol");
	if (len < total)
		return SL_PROXY_MORE;
	proxy->consumed = total;
	if (local) /* whatever it says belongs to nobody's connection */
		return SL_PROXY_DONE;
	if (!read_addresses(proxy, family, protocol == STREAM, data + V2_HEAD_BYTES, total - V2_HEAD_BYTES, &bytes))
		return bad(proxy, "too short for the addresses of its family");
	return read_fields(proxy, data, V2_HEAD_BYTES + bytes, total);
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static bool begins_like(const char *data, size_t len, const char *start, size_t start_len) {
	return memcmp(data, start, len < start_len ? len : start_len) == 0;
}

enum sl_proxy_result sl_proxy_parse(struct sl_proxy *proxy, const char *data, size_t len) {
	enum sl_proxy_result result;
	*proxy = (struct sl_proxy){.consumed = 0};
	if (len == 0)
		return SL_PROXY_MORE;
	if (begins_like(data, len, "PROXY ", 6))
		result = len < 6 ? SL_PROXY_MORE : parse_v1(proxy, data, len);
	else if (begins_like(data, len, signature, sizeof signature))
		result = len < sizeof signature ? SL_PROXY_MORE : parse_v2(proxy, data, len);
	else
		result = bad(proxy, "no PROXY header");
	SL_ASSERT(result != SL_PROXY_DONE || (proxy->consumed > 0 && proxy->consumed <= len));
	if (result == SL_PROXY_BAD)
		proxy->named = false;
	return result;
}
