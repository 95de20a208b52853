/* Tickets: what one says is read back as it was written, to the byte, or not at all: whoever changed a bit of one gets
 * "that is no ticket" and not another limit's counter.
 *
 *   0f3a...(16).AQJsb2dpbhNzbGlkaW5nLWxvZyA1LzFt
 *               version | flags, len, name "login", len, "sliding-log 5/1m"
 *
 * A ticket of one limit of a policy is some 60 bytes. Base64url is RFC 4648's section 5; bits after the last byte must
 * be 0 (3.5), so that no two texts are one ticket. */
#include "proto/ticket.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/out.h"

enum {
	VERSION = 1,
	FLAG_KEY = 1,
	FLAG_NAME = 2,
	FLAG_LAST = 4, /* so that nothing cut off between two items is a ticket of the first */
	FLAGS_ALL = 7,
	PACKED_MAX = 1 + SLUICE_ITEMS_MAX *
	                     (1 + 2 + SLUICE_KEY_BYTES_MAX + 1 + SLUICE_NAME_BYTES_MAX + 1 + SLUICE_LIMIT_TEXT_MAX - 1),
};

_Static_assert(SL_TICKET_ID_DIGITS + 1 + (PACKED_MAX * 4 + 2) / 3 + 1 <= SL_TICKET_BYTES_MAX, "the longest one fits");

/* ---- base64url --------------------------------------------------------------------------------------------------- */

/* The value of a character, or 64 for one that is none. */
static unsigned sextet_of(unsigned char c) {
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26u;
	if (c >= '0' && c <= '9')
		return c - '0' + 52u;
	return c == '-' ? 62 : c == '_' ? 63 : 64;
}

/* How many bytes a text stands for, written to `to`; SIZE_MAX for a text that is none. */
static size_t decode(unsigned char *to, const unsigned char *text, size_t len) {
	uint32_t bits = 0;
	unsigned count = 0;
	size_t written = 0;
	for (size_t i = 0; i < len; i++) {
		unsigned sextet = sextet_of(text[i]);
		if (sextet == 64)
			return SIZE_MAX;
		bits = bits << 6 | sextet;
		count += 6;
		if (count >= 8) {
			count -= 8;
			to[written++] = (unsigned char)(bits >> count);
		}
	}
	return count == 6 || (bits & ((1u << count) - 1)) != 0 ? SIZE_MAX : written;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Is there anything of it to be released or committed? */
static bool is_held(const struct sluice_item *item) {
	return (sl_rule_has(item->limit, SL_TAKES_LEASE) || sl_rule_has(item->limit, SL_RESERVABLE)) &&
	       item->observed != SLUICE_TRIED;
}

static bool is_said(struct sluice_bytes key, const struct sluice_item *item) {
	return key.data != NULL && sl_bytes_equal(item->key, key);
}

static void put_short(struct sl_out *out, struct sluice_bytes text) {
	SL_ASSERT(text.len <= UINT8_MAX);
	sl_out_char(out, (char)text.len);
	sl_out_bytes(out, text.data, text.len);
}

static void put_item(struct sl_out *out, const struct sluice_item *item, const char *name, struct sluice_bytes key) {
	bool other = !is_said(key, item);
	char text[SLUICE_LIMIT_TEXT_MAX];
	sl_out_char(out, (char)((other ? FLAG_KEY : 0) | (name != NULL ? FLAG_NAME : 0)));
	if (other) {
		SL_ASSERT(item->key.len <= UINT16_MAX);
		sl_out_char(out, (char)(item->key.len & 255));
		sl_out_char(out, (char)(item->key.len >> 8));
		sl_out_bytes(out, item->key.data, item->key.len);
	}
	if (name != NULL)
		put_short(out, sl_str(name));
	put_short(out, sl_slice(text, sluice_limit_print(item->limit, text)));
}

size_t sl_ticket_write(char text[SL_TICKET_BYTES_MAX], uint64_t id, struct sluice_bytes key,
                       const struct sluice_item *items, const char *const *names, uint32_t count) {
	unsigned char packed[PACKED_MAX];
	struct sl_out out = sl_out_to(packed, sizeof packed);
	SL_ASSERT(count <= SLUICE_ITEMS_MAX);
	size_t last = 0;
	sl_out_char(&out, VERSION);
	for (uint32_t i = 0; i < count; i++)
		if (is_held(&items[i])) {
			last = sl_out_len(&out);
			put_item(&out, &items[i], names == NULL ? NULL : names[i], key);
		}
	SL_ASSERT(!out.overflow);
	if (last != 0)
		packed[last] |= FLAG_LAST;
	sl_hex(text, id, SL_TICKET_ID_DIGITS);
	text[SL_TICKET_ID_DIGITS] = '.';
	struct sl_out whole = sl_out_to(text, SL_TICKET_BYTES_MAX - 1);
	whole.at += SL_TICKET_ID_DIGITS + 1;
	sl_out_base64(&whole, sl_slice(packed, sl_out_len(&out)), true);
	SL_ASSERT(!whole.overflow);
	*whole.at = '\0';
	return sl_out_len(&whole);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool sl_ticket_is(struct sluice_bytes text) {
	const unsigned char *p = text.data;
	if (text.len <= SL_TICKET_ID_DIGITS || p[SL_TICKET_ID_DIGITS] != '.')
		return false;
	for (int i = 0; i < SL_TICKET_ID_DIGITS; i++)
		if (!(p[i] >= '0' && p[i] <= '9') && !(p[i] >= 'a' && p[i] <= 'f'))
			return false;
	return true;
}

/* Takes bytes off the rest; false where there are fewer. */
static bool take(struct sluice_bytes *rest, size_t len, struct sluice_bytes *taken) {
	if (rest->len < len)
		return false;
	*taken = sl_slice(rest->data, len);
	*rest = sl_slice((const char *)rest->data + len, rest->len - len);
	return true;
}

/* A length of one or two bytes, then so many. */
static bool take_text(struct sluice_bytes *rest, size_t prefix, struct sluice_bytes *text) {
	struct sluice_bytes head;
	if (!take(rest, prefix, &head))
		return false;
	const unsigned char *p = head.data;
	return take(rest, prefix == 1 ? p[0] : (size_t)p[0] | (size_t)p[1] << 8, text);
}

static bool take_key(struct sluice_bytes *rest, struct sluice_bytes *key) {
	return take_text(rest, 2, key) && key->len <= SLUICE_KEY_BYTES_MAX;
}

/* Canonical text only. */
static bool read_limit(struct sluice_limit *limit, struct sluice_bytes text) {
	char canonical[SLUICE_LIMIT_TEXT_MAX];
	return sluice_limit_parse(limit, text, NULL) == SLUICE_OK &&
	       sl_bytes_equal(text, sl_slice(canonical, sluice_limit_print(limit, canonical)));
}

static bool is_name(struct sluice_bytes name) {
	return name.len != 0 && name.len <= SLUICE_NAME_BYTES_MAX && memchr(name.data, '\0', name.len) == NULL;
}

static bool read_item(struct sl_ticket *ticket, struct sluice_bytes *rest, struct sluice_bytes key) {
	struct sluice_limit *limit = &ticket->limits[ticket->count];
	struct sluice_item *item = &ticket->items[ticket->count];
	struct sluice_bytes flags, name = {NULL, 0}, text;
	*item = (struct sluice_item){.limit = limit, .key = key};
	if (!take(rest, 1, &flags))
		return false;
	unsigned bits = *(const unsigned char *)flags.data;
	if (bits > FLAGS_ALL || ((bits & FLAG_KEY) != 0 && !take_key(rest, &item->key)) ||
	    ((bits & FLAG_NAME) != 0 && !(take_text(rest, 1, &name) && is_name(name))))
		return false;
	if (!take_text(rest, 1, &text) || !read_limit(limit, text) || !is_held(item))
		return false;
	if (name.len != 0)
		sl_rule_name(limit, name);
	ticket->names[ticket->count++] = name;
	return ((bits & FLAG_LAST) != 0) == (rest->len == 0);
}

bool sl_ticket_read(struct sl_ticket *ticket, struct sluice_bytes text, struct sluice_bytes key, void *memory) {
	if (!sl_ticket_is(text) || text.len >= SL_TICKET_BYTES_MAX)
		return false;
	const unsigned char *packed = memory;
	size_t before = SL_TICKET_ID_DIGITS + 1,
		   len = decode(memory, (const unsigned char *)text.data + before, text.len - before);
	if (len == SIZE_MAX || len < 2 || packed[0] != VERSION)
		return false;
	struct sluice_bytes rest = sl_slice(packed + 1, len - 1);
	ticket->id = sl_slice(text.data, SL_TICKET_ID_DIGITS);
	ticket->count = 0;
	while (rest.len != 0)
		if (ticket->count == SLUICE_ITEMS_MAX || !read_item(ticket, &rest, key))
			return false;
	return true;
}
