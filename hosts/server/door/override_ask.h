/* What is asked of quotas of keys' own where counters are in Redis, until its nodes have answered (door/pending.h). */
#ifndef SL_OVERRIDE_ASK_H
#define SL_OVERRIDE_ASK_H

#include "hosts/server/door/override_list.h"
#include "sluice.h"

enum sl_override_kind { SL_OVERRIDE_SET, SL_OVERRIDE_GET, SL_OVERRIDE_DELETE, SL_OVERRIDE_LIST };

struct sl_override_ask {
	enum sl_override_kind kind;
	/* SET, GET, DELETE: the counters that are meant, of which SET has one; whose they are */
	const struct sluice_limit *limits;
	uint32_t count;
	const char *name; /* of the limit in the policy; NULL: given in notation */
	struct sluice_bytes key;
	/* SET */
	struct sluice_limit own;
	uint64_t ttl_ms;
	/* LIST */
	uint64_t from;
	uint32_t most;

	/* what it came to */
	sluice_err err; /* as door/key_override.h has them, and SLUICE_E_AWAY */
	struct sluice_error error;
	struct sluice_override found;
	uint32_t gone;
	struct sl_override_list list;
};

/* A copy of what is asked, in memory of its own; NULL: there is none. */
struct sl_override_ask *sl_override_ask_new(const struct sl_override_ask *asked);
/* NULL is allowed. */
void sl_override_ask_free(struct sl_override_ask *ask);

#endif
