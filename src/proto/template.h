/* The bodies of denials that a policy brings along: text with values in it, written {{name}}.
 *
 *   {"error": "slow down", "limit": "{{limit}}", "retry_after": {{retry_after}}}
 *
 *   limit           the name of the limit that denied
 *   quota           of that limit
 *   remaining       of that limit
 *   retry_after     seconds until the request may be tried again, rounded up, at least 1; -1 for never
 *   retry_after_ms  the same in milliseconds, rounded up
 *   reset_after     seconds until the limit has all of its quota again, rounded up; -1 for never
 *   request_id      how whoever asks calls the request; "" where he doesn't
 *
 * Values are encoded by the body's type: as the inside of a JSON string, as text of HTML or the inside of a quoted
 * attribute, or, as plain text, without what may not be shown. So no value ends what it stands in. */
#ifndef SL_TEMPLATE_H
#define SL_TEMPLATE_H

#include "base/out.h"
#include "policy/policy.h"
#include "proto/headers.h"

enum {
	SL_TEMPLATE_VALUES_MAX = 64, /* in one body */
	SL_TEMPLATE_TEXT_MAX = 128,  /* bytes of a value that is a text */
};

struct sl_template_values {
	struct sluice_bytes limit, request_id; /* any bytes, at most SL_TEMPLATE_TEXT_MAX */
	uint64_t quota, remaining;
	sluice_ns retry_after_ns, reset_after_ns; /* SLUICE_NEVER for never */
};

/* Can a text be served as a body of a type? If not, the problem says where and why: it is longer than
 * SL_DENIED_BYTES_MAX, no UTF-8, has a {{ that is not closed or names no value, or is no JSON where the type says so.
 * O(len). */
bool sl_template_check(struct sluice_bytes text, enum sl_denied_type type, struct sluice_problem *problem);

/* Writes a body that sl_template_check() found good, its values put in: at most SL_TEMPLATE_ROOM(text.len) bytes. */
#define SL_TEMPLATE_ROOM(len) ((len) + (size_t)SL_TEMPLATE_VALUES_MAX * (6 * SL_TEMPLATE_TEXT_MAX + 2))
void sl_template_put(struct sl_out *out, struct sluice_bytes text, enum sl_denied_type type,
                     const struct sl_template_values *values);

/* The same of a policy's own body of a denial, with what it may tell of the limit that decided.
 *  decider         whose quota, remaining and reset_after it tells
 *  retry_after_ns  of the request as a whole */
void sl_template_put_denial(struct sl_out *out, const struct sl_policy_denied *denied,
                            const struct sl_headers_limit *decider, sluice_ns retry_after_ns,
                            struct sluice_bytes request_id);

/* The media type of a body, as a Content-Type has it. */
const char *sl_template_media(enum sl_denied_type type);

#endif
