/* A quota of a key's own (sluice_override_set()), as every door tells it beside the limit that it replaces: two names
 * with their values, which are left out where the key has none. An object of JSON has the same (proto/json.h).
 *
 *   own_quota           in canonical text: "sliding-window 6000/1m", "unlimited"
 *   own_ends_after_ms   the milliseconds until it ends, rounded up; -1: it does not */
#ifndef SL_PROTO_OWN_QUOTA_H
#define SL_PROTO_OWN_QUOTA_H

#include "proto/answer.h"

#define SL_OWN_QUOTA "own_quota"
#define SL_OWN_ENDS  "own_ends_after_ms"

enum {
	SL_OWN_QUOTA_NAMES = 2,
	SL_OWN_QUOTA_JSON_MAX = SLUICE_LIMIT_TEXT_MAX + 80 /* bytes that both take in an object */
};

/* Writes both names with their values: four elements. */
void sl_own_quota_put(const struct sl_answer_sink *sink, void *to, const struct sluice_override *own);

#endif
