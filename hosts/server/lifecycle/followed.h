/* The files that a policy is made of. */
#ifndef SL_FOLLOWED_H
#define SL_FOLLOWED_H

#include "policy/policy.h"

enum {
	SL_FOLLOWED_OWN = 4,
	SL_FOLLOWED_QUOTAS = SL_FOLLOWED_OWN + SL_DENIED_MAX,
	SL_FOLLOWED_MAX = SL_FOLLOWED_QUOTAS + SL_QUOTAS_FILES_MAX,
};

_Static_assert((int)SL_QUOTAS_PATH_BYTES_MAX <= (int)SL_DENIED_PATH_BYTES_MAX, "paths have room");

/* What a policy was read from. */
struct sl_followed {
	/* the policy's file, those that it names for TLS, the bodies of denials, and of overrides; "" for none */
	char paths[SL_FOLLOWED_MAX][SL_DENIED_PATH_BYTES_MAX + 1];
	char
		envoy[SL_ENVOY_PATH_BYTES_MAX + 1]; /* the folder, or the file, of envoyproxy/ratelimit's limits; "" for none */
	uint64_t digest;                  /* of what stood in them when they were last read, taken over or not */
};

/* The digest of what stands in them now, given that of the first one's text. Reads the others. */
uint64_t sl_followed_digest(const struct sl_followed *followed, uint64_t text);
/* What can be told of them without reading: another number when one was written, replaced or removed. */
uint64_t sl_followed_look(const struct sl_followed *followed);

#endif
