/* Slots. A key's slot is the CRC16 (XMODEM: polynomial 0x1021, from 0) of what stands between its first '{' and the
 * next '}', if anything does, else of all of it, modulo 16,384: the cluster specification of Redis.
 *
 * CLUSTER SLOTS answers [[first, last, [host, port, id, ..], [replica..]..]..]. Of each range the first node is the
 * primary; a nil or empty host is the one that was asked, "?" one that the node does not know. */
#include "hosts/server/cluster/slots.h"

#include "base/out.h"

/* clang-format off */
static const uint16_t crc[256] = {
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad,
	0xe1ce, 0xf1ef, 0x1231, 0x0210, 0x3273, 0x2252, 0x52b5, 0x4294, 0x72f7, 0x62d6, 0x9339, 0x8318, 0xb37b, 0xa35a,
	0xd3bd, 0xc39c, 0xf3ff, 0xe3de, 0x2462, 0x3443, 0x0420, 0x1401, 0x64e6, 0x74c7, 0x44a4, 0x5485, 0xa56a, 0xb54b,
	0x8528, 0x9509, 0xe5ee, 0xf5cf, 0xc5ac, 0xd58d, 0x3653, 0x2672, 0x1611, 0x0630, 0x76d7, 0x66f6, 0x5695, 0x46b4,
	0xb75b, 0xa77a, 0x9719, 0x8738, 0xf7df, 0xe7fe, 0xd79d, 0xc7bc, 0x48c4, 0x58e5, 0x6886, 0x78a7, 0x0840, 0x1861,
	0x2802, 0x3823, 0xc9cc, 0xd9ed, 0xe98e, 0xf9af, 0x8948, 0x9969, 0xa90a, 0xb92b, 0x5af5, 0x4ad4, 0x7ab7, 0x6a96,
	0x1a71, 0x0a50, 0x3a33, 0x2a12, 0xdbfd, 0xcbdc, 0xfbbf, 0xeb9e, 0x9b79, 0x8b58, 0xbb3b, 0xab1a, 0x6ca6, 0x7c87,
	0x4ce4, 0x5cc5, 0x2c22, 0x3c03, 0x0c60, 0x1c41, 0xedae, 0xfd8f, 0xcdec, 0xddcd, 0xad2a, 0xbd0b, 0x8d68, 0x9d49,
	0x7e97, 0x6eb6, 0x5ed5, 0x4ef4, 0x3e13, 0x2e32, 0x1e51, 0x0e70, 0xff9f, 0xefbe, 0xdfdd, 0xcffc, 0xbf1b, 0xaf3a,
	0x9f59, 0x8f78, 0x9188, 0x81a9, 0xb1ca, 0xa1eb, 0xd10c, 0xc12d, 0xf14e, 0xe16f, 0x1080, 0x00a1, 0x30c2, 0x20e3,
	0x5004, 0x4025, 0x7046, 0x6067, 0x83b9, 0x9398, 0xa3fb, 0xb3da, 0xc33d, 0xd31c, 0xe37f, 0xf35e, 0x02b1, 0x1290,
	0x22f3, 0x32d2, 0x4235, 0x5214, 0x6277, 0x7256, 0xb5ea, 0xa5cb, 0x95a8, 0x8589, 0xf56e, 0xe54f, 0xd52c, 0xc50d,
	0x34e2, 0x24c3, 0x14a0, 0x0481, 0x7466, 0x6447, 0x5424, 0x4405, 0xa7db, 0xb7fa, 0x8799, 0x97b8, 0xe75f, 0xf77e,
	0xc71d, 0xd73c, 0x26d3, 0x36f2, 0x0691, 0x16b0, 0x6657, 0x7676, 0x4615, 0x5634, 0xd94c, 0xc96d, 0xf90e, 0xe92f,
	0x99c8, 0x89e9, 0xb98a, 0xa9ab, 0x5844, 0x4865, 0x7806, 0x6827, 0x18c0, 0x08e1, 0x3882, 0x28a3, 0xcb7d, 0xdb5c,
	0xeb3f, 0xfb1e, 0x8bf9, 0x9bd8, 0xabbb, 0xbb9a, 0x4a75, 0x5a54, 0x6a37, 0x7a16, 0x0af1, 0x1ad0, 0x2ab3, 0x3a92,
	0xfd2e, 0xed0f, 0xdd6c, 0xcd4d, 0xbdaa, 0xad8b, 0x9de8, 0x8dc9, 0x7c26, 0x6c07, 0x5c64, 0x4c45, 0x3ca2, 0x2c83,
	0x1ce0, 0x0cc1, 0xef1f, 0xff3e, 0xcf5d, 0xdf7c, 0xaf9b, 0xbfba, 0x8fd9, 0x9ff8, 0x6e17, 0x7e36, 0x4e55, 0x5e74,
	0x2e93, 0x3eb2, 0x0ed1, 0x1ef0,
};
/* clang-format on */

/* What of a key decides. */
static struct sluice_bytes tag_of(struct sluice_bytes key) {
	const char *p = key.data, *open = key.len == 0 ? NULL : memchr(p, '{', key.len);
	if (open == NULL)
		return key;
	const char *close = memchr(open, '}', key.len - (size_t)(open - p));
	return close == NULL || close == open + 1 ? key : sl_slice(open + 1, (size_t)(close - open - 1));
}

uint16_t sl_slot_of(struct sluice_bytes key) {
	const struct sluice_bytes tag = tag_of(key);
	const uint8_t *p = tag.data;
	uint16_t sum = 0;
	for (size_t i = 0; i < tag.len; i++)
		sum = (uint16_t)(sum << 8 ^ crc[(sum >> 8 ^ p[i]) & 0xff]);
	return sum & (SL_SLOTS - 1);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static const char *last_of(struct sluice_bytes text, char c) {
	const char *p = text.data;
	for (size_t i = text.len; i > 0; i--)
		if (p[i - 1] == c)
			return p + i - 1;
	return NULL;
}

/* Names are letters, digits and a few marks; what else a node may say is none. */
static bool is_host(struct sluice_bytes host) {
	const unsigned char *p = host.data;
	for (size_t i = 0; i < host.len; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f || p[i] == '[' || p[i] == ']')
			return false;
	return host.len <= SL_HOST_BYTES_MAX;
}

static void set_host(struct sl_node_place *place, struct sluice_bytes host, uint16_t port, bool is_unix) {
	memset(place, 0, sizeof *place);
	if (host.len != 0)
		memcpy(place->host, host.data, host.len);
	place->port = port;
	place->is_unix = is_unix;
}

bool sl_node_place_read(struct sluice_bytes text, struct sl_node_place *place) {
	const char *p = text.data;
	uint64_t port;
	if (text.len > 5 && memcmp(p, "unix:", 5) == 0) {
		/* sun_path has 108 bytes, and a NUL among them */
		if (text.len - 5 > 107 || memchr(p, '\0', text.len) != NULL)
			return false;
		set_host(place, sl_slice(p + 5, text.len - 5), 0, true);
		return true;
	}
	const char *bus = text.len == 0 ? NULL : memchr(p, '@', text.len);
	if (bus != NULL)
		text.len = (size_t)(bus - p);
	const char *colon = last_of(text, ':');
	if (colon == NULL || !sl_bytes_to_u64(sl_slice(colon + 1, (size_t)(p + text.len - colon - 1)), &port) ||
	    port == 0 || port > UINT16_MAX)
		return false;
	struct sluice_bytes host = sl_slice(p, (size_t)(colon - p));
	if (host.len >= 2 && *p == '[' && colon[-1] == ']')
		host = sl_slice(p + 1, host.len - 2);
	if (!is_host(host))
		return false;
	set_host(place, host, (uint16_t)port, false);
	return true;
}

void sl_node_place_print(const struct sl_node_place *place, char text[SL_PLACE_TEXT_MAX]) {
	struct sl_out out = sl_out_to(text, SL_PLACE_TEXT_MAX - 1);
	const bool brackets = !place->is_unix && strchr(place->host, ':') != NULL;
	sl_out_str(&out, place->is_unix ? "unix:" : brackets ? "[" : "");
	sl_out_str(&out, place->host);
	if (!place->is_unix) {
		sl_out_str(&out, brackets ? "]:" : ":");
		sl_out_u64(&out, place->port);
	}
	*out.at = '\0';
}

void sl_node_place_complete(struct sl_node_place *place, const struct sl_node_place *asked) {
	if (place->host[0] == '\0')
		set_host(place, sl_str(asked->is_unix ? "127.0.0.1" : asked->host), place->port, false);
}

bool sl_node_place_equal(const struct sl_node_place *a, const struct sl_node_place *b) {
	return a->port == b->port && a->is_unix == b->is_unix && strcmp(a->host, b->host) == 0;
}

/* ---- CLUSTER SLOTS ----------------------------------------------------------------------------------------------- */

enum { FIELD_FIRST = 0, FIELD_LAST = 1, FIELD_PRIMARY = 2, FIELD_HOST, FIELD_PORT, FIELD_REST, FIELD_BROKEN };

static bool break_off(struct sl_slots_reader *reader) {
	reader->bad = 1;
	reader->field = FIELD_BROKEN;
	return false;
}

static bool read_slot(struct sl_slots_reader *reader, const struct sl_reply_token *token) {
	if (token->depth != 2 || token->kind != SL_REPLY_INTEGER || token->value < 0 || token->value >= SL_SLOTS)
		return break_off(reader);
	if (reader->field++ == FIELD_FIRST) {
		reader->range.first = (uint16_t)token->value;
		return false;
	}
	reader->range.last = (uint16_t)token->value;
	return reader->range.first <= reader->range.last ? false : break_off(reader);
}

static bool read_host(struct sl_slots_reader *reader, const struct sl_reply_token *token) {
	const bool is_text = token->kind == SL_REPLY_TEXT && is_host(token->text);
	if (token->depth != 3 || (!is_text && token->kind != SL_REPLY_NIL))
		return break_off(reader);
	const struct sluice_bytes host = is_text ? token->text : sl_str("");
	reader->known = !sl_bytes_equal(host, sl_str("?"));
	set_host(&reader->range.primary, host, 0, false);
	reader->field++;
	return false;
}

static bool read_port(struct sl_slots_reader *reader, const struct sl_reply_token *token) {
	if (token->depth != 3 || token->kind != SL_REPLY_INTEGER || token->value <= 0 || token->value > UINT16_MAX)
		return break_off(reader);
	reader->range.primary.port = (uint16_t)token->value;
	reader->field++;
	return reader->known;
}

bool sl_slots_read(struct sl_slots_reader *reader, const struct sl_reply_token *token) {
	if (token->aside || token->depth == 0)
		return false;
	if (token->depth == 1) { /* a range begins */
		reader->field = FIELD_FIRST;
		return token->kind == SL_REPLY_ARRAY ? false : break_off(reader);
	}
	switch (reader->field) {
	case FIELD_FIRST:
	case FIELD_LAST:
		return read_slot(reader, token);
	case FIELD_PRIMARY:
		if (token->depth != 2 || token->kind != SL_REPLY_ARRAY)
			return break_off(reader);
		reader->field++;
		return false;
	case FIELD_HOST:
		return read_host(reader, token);
	case FIELD_PORT:
		return read_port(reader, token);
	default:
		return false; /* replicas, identities: of no use here */
	}
}
