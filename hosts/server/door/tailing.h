/* Following decisions as they happen (watch/tail.h), as all doors let a client ask for it: by a limit, a key, and
 * whether only what is denied matters. */
#ifndef SL_TAILING_H
#define SL_TAILING_H

#include "hosts/server/door/door.h"

/* The name that every line of a stream bears where its protocol gives lines one. */
#define SL_TAILING_NAME "sluice.tail"

/* Lets a limit pass: a name of the policy, or notation. False with `error` filled where it is neither. */
SLUICE_MUST_USE bool sl_tailing_limit(const struct sl_door_context *context, struct sl_tail_filter *filter,
                                      struct sluice_bytes text, struct sluice_error *error);
/* Lets a key pass, in whatever spelling: it takes the form of requests, and is folded if it is long. */
void sl_tailing_key(const struct sl_door_context *context, struct sl_tail_filter *filter, struct sluice_bytes text);

/* The connection being fed follows from now on (context->reader), in place of what it followed before. False with
 * `error` filled: SL_TAIL_READERS_MAX do, or there is no memory. */
SLUICE_MUST_USE bool sl_tailing_begin(struct sl_door_context *context, const struct sl_tail_filter *filter,
                                      struct sluice_error *error);
/* It follows no more, if it did. */
void sl_tailing_end(struct sl_door_context *context);

/* Appends why there is no limit of a name: what was likely meant, or which there are: "did you mean login?". */
void sl_tailing_suggest(struct sl_out *out, const struct sluice_policy *policy, struct sluice_bytes name);

#endif
