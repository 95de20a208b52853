/* What prints JSON, into memory that the caller owns: apart from what reads it (json.h), so that a host that reads none
 * needs no library for it. */
#ifndef SL_JSON_PUT_H
#define SL_JSON_PUT_H

#include "base/digits.h"
#include "base/out.h"

/* Prints a string, quoted and escaped, with all that may not be shown as it is (sl_text_is_shown()): no terminal acts
 * on the line, no editor breaks it, and nobody reads it in another order than it has. JSON is UTF-8: what is not
 * becomes U+FFFD, one for each wrong byte. Returns whether all of it was. At most SL_JSON_ROOM(len) bytes. */
#define SL_JSON_ROOM(len) ((size_t)6 * (len) + 2)
bool sl_json_string(struct sl_out *out, struct sluice_bytes text);

/* Begins a member of an object: a comma, unless it is the first, and its name; or an element of an array. */
static inline void sl_json_element(struct sl_out *out) {
	if (out->at != out->start && out->at[-1] != '{' && out->at[-1] != '[')
		sl_out_char(out, ',');
}
static inline __attribute__((always_inline)) void sl_json_name(struct sl_out *out, const char *name) {
	const size_t len = strlen(name); /* a constant, nearly everywhere: so the copy is some stores */
	sl_json_element(out);
	if ((size_t)(out->end - out->at) < len + 3) {
		out->overflow = true;
		return;
	}
	char *at = out->at;
	*at++ = '"';
	memcpy(at, name, len);
	at[len] = '"';
	at[len + 1] = ':';
	out->at = at + len + 2;
}

/* Whole members. ms: rounded up, -1 for SLUICE_NEVER; word: of letters that need no escape; a limit in the notation,
 * null for NULL; a key as "key", with "key_hex" beside it where it is no text. */
static inline void sl_json_put_u64(struct sl_out *out, const char *name, uint64_t value) {
	sl_json_name(out, name);
	if (out->end - out->at >= SL_DIGITS_MAX)
		out->at = sl_put_unsigned(out->at, value);
	else
		sl_out_u64(out, value);
}
static inline void sl_json_put_i64(struct sl_out *out, const char *name, int64_t value) {
	sl_json_name(out, name);
	sl_out_i64(out, value);
}
static inline void sl_json_put_ms(struct sl_out *out, const char *name, sluice_ns ns) {
	if (ns != SLUICE_NEVER)
		sl_json_put_u64(out, name, (uint64_t)sl_ns_to_ms_ceil(ns));
	else
		sl_json_put_i64(out, name, -1);
}
static inline void sl_json_put_bool(struct sl_out *out, const char *name, bool value) {
	sl_json_name(out, name);
	sl_out_str(out, value ? "true" : "false");
}
void sl_json_put_null(struct sl_out *out, const char *name);
void sl_json_put_word(struct sl_out *out, const char *name, const char *word);
void sl_json_put_text(struct sl_out *out, const char *name, struct sluice_bytes text);
void sl_json_put_key(struct sl_out *out, struct sluice_bytes key);
void sl_json_put_limit(struct sl_out *out, const char *name, const struct sluice_limit *limit);

/* Begins an object or an array: ended by its bracket. An element of an array has no name: NULL. */
void sl_json_open(struct sl_out *out, const char *name, char bracket);

#endif
