/* JSON at the doors: jansson reads what clients send, a bounded writer of our own prints what they get
 * (json_put.h). */
#ifndef SL_JSON_H
#define SL_JSON_H

#include "proto/json_put.h"
#include "proto/own_quota.h"

#include <jansson.h>

enum { SL_JSON_DEPTH_MAX = 8 }; /* a body of ours nests three deep */

/* Reads one JSON object: strict RFC 8259, duplicate names refused, depth bounded, U+0000 allowed in strings.
 *  error  out, NUL-ended: what was wrong, and where; at least SL_JSON_ERROR_BYTES
 * Returns the object, to be ended with sl_json_free(), or NULL. Linear in the text. */
enum { SL_JSON_ERROR_BYTES = 256 };
json_t *sl_json_read(struct sluice_bytes text, char error[SL_JSON_ERROR_BYTES]);
void sl_json_free(json_t *root);

/* Both members of proto/own_quota.h. */
void sl_json_put_own_quota(struct sl_out *out, const struct sluice_override *own);

/* The bytes of a JSON string, which may hold NUL; borrowed from it. */
static inline struct sluice_bytes sl_json_bytes(const json_t *string) {
	return sl_slice(json_string_value(string), json_string_length(string));
}

#endif
