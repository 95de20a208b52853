/* JSON at the doors: jansson reads what clients send, a bounded writer of our own prints what they get. */
#ifndef SL_JSON_H
#define SL_JSON_H

#include "base/out.h"

#include <jansson.h>

enum { SL_JSON_DEPTH_MAX = 8 }; /* a body of ours nests three deep */

/* Reads one JSON object: strict RFC 8259, duplicate names refused, depth bounded, U+0000 allowed in strings.
 *  error  out, NUL-ended: what was wrong, and where; at least SL_JSON_ERROR_BYTES
 * Returns the object, to be ended with sl_json_free(), or NULL. Linear in the text. */
enum { SL_JSON_ERROR_BYTES = 256 };
json_t *sl_json_read(struct sluice_bytes text, char error[SL_JSON_ERROR_BYTES]);
void sl_json_free(json_t *root);

/* Prints a string, quoted and escaped, with all that may not be shown as it is (sl_text_is_shown()): no terminal acts
 * on the line, no editor breaks it, and nobody reads it in another order than it has. JSON is UTF-8: what is not
 * becomes U+FFFD, one for each wrong byte. Returns whether all of it was. At most SL_JSON_ROOM(len) bytes. */
#define SL_JSON_ROOM(len) ((size_t)6 * (len) + 2)
bool sl_json_string(struct sl_out *out, struct sluice_bytes text);

/* Begins a member of an object: a comma, unless it is the first, and its name; or an element of an array. */
void sl_json_name(struct sl_out *out, const char *name);
void sl_json_element(struct sl_out *out);

/* Whole members. ms: rounded up, -1 for SLUICE_NEVER; word: of letters that need no escape; a limit in the notation,
 * null for NULL; a key as "key", with "key_hex" beside it where it is no text. */
void sl_json_put_u64(struct sl_out *out, const char *name, uint64_t value);
void sl_json_put_i64(struct sl_out *out, const char *name, int64_t value);
void sl_json_put_ms(struct sl_out *out, const char *name, sluice_ns ns);
void sl_json_put_bool(struct sl_out *out, const char *name, bool value);
void sl_json_put_null(struct sl_out *out, const char *name);
void sl_json_put_word(struct sl_out *out, const char *name, const char *word);
void sl_json_put_text(struct sl_out *out, const char *name, struct sluice_bytes text);
void sl_json_put_key(struct sl_out *out, struct sluice_bytes key);
void sl_json_put_limit(struct sl_out *out, const char *name, const struct sluice_limit *limit);

/* Begins an object or an array: ended by its bracket. An element of an array has no name: NULL. */
void sl_json_open(struct sl_out *out, const char *name, char bracket);

/* The bytes of a JSON string, which may hold NUL; borrowed from it. */
static inline struct sluice_bytes sl_json_bytes(const json_t *string) {
	return sl_slice(json_string_value(string), json_string_length(string));
}

#endif
