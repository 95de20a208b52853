/* JSON in by jansson, out by hand.
 *
 *  J1  Depth is bounded before jansson sees the text: its own bound, 2048 levels of recursion, is of no use to us.
 *  J2  A number too large for 64 bits is reported with the name of its member: it is most often a mistyped cost.
 *  J3  What is printed is valid UTF-8, whatever bytes a key holds. */
#include "proto/json.h"

#include "base/plain.h"
#include "base/text.h"
#include "proto/command.h"

/* ---- reading ------------------------------------------------------------------------------------------------- */

/* The byte (from 0) of the first bracket that nests too deep; -1 when none does. Strings are passed over; what is not
 * JSON at all is left for the parser to report. */
static ptrdiff_t too_deep_at(struct sluice_bytes text) {
	const char *p = text.data;
	bool in_string = false;
	int depth = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > SL_JSON_DEPTH_MAX)
				return (ptrdiff_t)i;
		} else if (p[i] == '}' || p[i] == ']') {
			depth--;
		}
	}
	return -1;
}

/* The name of the member whose value ends at `position`, found backwards: "name" : 123<position>. */
static struct sluice_bytes member_before(struct sluice_bytes text, size_t position) {
	const char *start = text.data, *at = start + (position < text.len ? position : text.len), *end;
	while (at > start && at[-1] != ':' && at[-1] != '"' && at[-1] != ',')
		at--;
	if (at > start && at[-1] == ':')
		at--;
	while (at > start && (at[-1] == ' ' || at[-1] == '\t'))
		at--;
	if (at == start || at[-1] != '"')
		return sl_str("");
	end = --at;
	while (at > start && at[-1] != '"')
		at--;
	return sl_slice(at, (size_t)(end - at));
}

/* ": expected a whole number 1..9", of a member that stands for a number of a command. */
static bool put_range_of(struct sl_out *out, struct sluice_bytes name, const struct sl_meaning *meaning) {
	if (meaning->member == NULL || meaning->most == 0 || !sl_bytes_equal(name, sl_str(meaning->member)))
		return false;
	sl_out_str(out, ": expected a whole number ");
	sl_out_u64(out, meaning->least);
	sl_out_str(out, "..");
	sl_out_u64(out, meaning->most);
	return true;
}

static void put_range(struct sl_out *out, struct sluice_bytes name) {
	for (int field = 0; field < SL_FIELDS; field++)
		if (put_range_of(out, name, &sl_fields[field]))
			return;
	for (int word = 0; word < SL_WORDS; word++)
		if (put_range_of(out, name, &sl_words[word]))
			return;
}

static void explain(char error[SL_JSON_ERROR_BYTES], struct sluice_bytes text, const json_error_t *from) {
	struct sl_out out = sl_out_to(error, SL_JSON_ERROR_BYTES - 1);
	if (json_error_code(from) == json_error_numeric_overflow) {
		struct sluice_bytes name = member_before(text, (size_t)from->position);
		sl_out_str(&out, "the number of ");
		sl_out_quoted(&out, name, 40);
		sl_out_str(&out, " is too large");
		put_range(&out, name);
	} else {
		sl_out_str(&out, "the body is not JSON: line ");
		sl_out_i64(&out, from->line);
		sl_out_str(&out, ", column ");
		sl_out_i64(&out, from->column);
		sl_out_str(&out, ": ");
		sl_out_bytes(&out, from->text, strnlen(from->text, 160));
	}
	*out.at = '\0';
}

json_t *sl_json_read(struct sluice_bytes text, char error[SL_JSON_ERROR_BYTES]) {
	struct sl_out out = sl_out_to(error, SL_JSON_ERROR_BYTES - 1);
	ptrdiff_t deep = too_deep_at(text);
	json_error_t from;
	json_t *root = NULL;
	if (text.len == 0)
		sl_out_str(&out, "the body is empty: expected a JSON object");
	else if (deep >= 0) {
		sl_out_str(&out, "the body nests more than 8 deep at byte ");
		sl_out_i64(&out, deep + 1);
	} else if ((root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &from)) == NULL) {
		explain(error, text, &from);
		return NULL;
	} else if (!json_is_object(root)) {
		sl_out_str(&out, "the body must be a JSON object");
		json_decref(root);
		root = NULL;
	}
	*out.at = '\0';
	return root;
}

void sl_json_free(json_t *root) {
	json_decref(root);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

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

void sl_json_put_own_quota(struct sl_out *out, const struct sluice_override *own) {
	sl_json_put_limit(out, SL_OWN_QUOTA, &own->limit);
	sl_json_put_ms(out, SL_OWN_ENDS, own->ends_after_ns);
}

void sl_json_open(struct sl_out *out, const char *name, char bracket) {
	if (name != NULL)
		sl_json_name(out, name);
	else
		sl_json_element(out);
	sl_out_char(out, bracket);
}
