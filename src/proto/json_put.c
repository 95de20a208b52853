/* JSON, printed by hand.
 *
 *  J3  What is printed is valid UTF-8, whatever bytes a key holds. */
#include "proto/json_put.h"

#include "base/plain.h"
#include "base/text.h"

static void put_unit(struct sl_out *out, uint32_t unit) {
	char text[6] = "\\u";
	sl_hex(text + 2, unit, 4);
	sl_out_bytes(out, text, sizeof text);
}

/* A character by its number; above U+FFFF by the two surrogates of UTF-16. */
static void put_character(struct sl_out *out, uint32_t character) {
	if (character > 0xffff)
		put_unit(out, 0xd800 + ((character - 0x10000) >> 10));
	put_unit(out, character > 0xffff ? 0xdc00 + (character & 0x3ff) : character);
}

/* Prints the one character at p that is not plain; returns how many bytes it took. */
static size_t escape(struct sl_out *out, const unsigned char *p, size_t len, bool *is_text) {
	static const char shorts[] = "btn.fr"; /* U+0008 .. U+000D */
	uint32_t character;
	size_t sequence = sl_text_next(p, len, &character);
	if (sequence == 0) {
		sl_out_bytes(out, "\xef\xbf\xbd", 3);
		*is_text = false;
		return 1;
	}
	if (p[0] == '"' || p[0] == '\\')
		sl_out_bytes(out, (char[]){'\\', (char)p[0]}, 2);
	else if (p[0] >= 0x08 && p[0] <= 0x0d && p[0] != 0x0b)
		sl_out_bytes(out, (char[]){'\\', shorts[p[0] - 0x08]}, 2);
	else if (!sl_text_is_shown(character))
		put_character(out, character);
	else
		sl_out_bytes(out, p, sequence);
	return sequence;
}

bool sl_json_string(struct sl_out *out, struct sluice_bytes text) {
	const unsigned char *p = text.data;
	bool is_text = true;
	sl_out_char(out, '"');
	for (size_t i = 0; i < text.len;) {
		size_t plain = sl_plain_len(p + i, text.len - i);
		sl_out_bytes(out, p + i, plain);
		i += plain;
		if (i < text.len)
			i += escape(out, p + i, text.len - i, &is_text);
	}
	sl_out_char(out, '"');
	return is_text;
}

void sl_json_put_null(struct sl_out *out, const char *name) {
	sl_json_name(out, name);
	sl_out_str(out, "null");
}

void sl_json_put_word(struct sl_out *out, const char *name, const char *word) {
	sl_json_name(out, name);
	sl_out_char(out, '"');
	sl_out_str(out, word);
	sl_out_char(out, '"');
}

void sl_json_put_text(struct sl_out *out, const char *name, struct sluice_bytes text) {
	sl_json_name(out, name);
	(void)sl_json_string(out, text);
}

void sl_json_put_key(struct sl_out *out, struct sluice_bytes key) {
	sl_json_name(out, "key");
	if (sl_json_string(out, key))
		return;
	sl_json_name(out, "key_hex");
	sl_out_char(out, '"');
	sl_out_hex(out, key.data, key.len);
	sl_out_char(out, '"');
}

void sl_json_put_limit(struct sl_out *out, const char *name, const struct sluice_limit *limit) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (limit == NULL)
		sl_json_put_null(out, name);
	else
		sl_json_put_text(out, name, sl_slice(text, sluice_limit_print(limit, text)));
}

void sl_json_open(struct sl_out *out, const char *name, char bracket) {
	if (name != NULL)
		sl_json_name(out, name);
	else
		sl_json_element(out);
	sl_out_char(out, bracket);
}
