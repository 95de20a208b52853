/* A quota of a key's own, set at run time (SLUICE.OVERRIDE): a companion of the counter (companion.h), which stays when
 * that goes. It is read with the value that a decision has opened anyway, and nobody without companions pays for it.
 *
 * Its block is struct slr_own, and behind it two texts, for people: the name of the limit and the quota in canonical
 * text, then zeros up to a multiple of 8. Whose it is the name of the server's key says. */
#ifndef SLR_OWN_QUOTA_H
#define SLR_OWN_QUOTA_H

#include "algo/override.h"
#include "hosts/redis/companion.h"

struct slr_own {
	sluice_ns end; /* from when on it counts no longer; SLUICE_NEVER: it does not end */
	uint32_t quota, burst;
	uint8_t edge; /* enum sluice_edge */
	uint8_t unlimited;
	uint8_t name, text; /* bytes of the two texts */
	uint32_t zero;
	char texts[];
};

/* The quota of a counter's key, which may have ended; NULL: there is none. Points into the value. */
const struct slr_own *slr_own_find(slr_value value, struct sl_identity counter);

/* The same of a row of a value; NULL: it is none. */
const struct slr_own *slr_own_of(const struct slr_counter *counter);

/* Makes *rule, a limit of the counter, the one of its key. False, and it is as it was: the quota has ended by `now`. */
bool slr_own_take(const struct slr_own *own, sluice_ns now, struct sluice_limit *rule);

/* The end of a quota set at `now` for `ttl_ns`, to the next 2^19 ns as in stores of ours; 0: it does not end. */
sluice_ns slr_own_end(const struct sluice_limit *own, sluice_ns now, sluice_ns ttl_ns);

/* Sets the quota of a counter's key, or changes it: `own` counts until `end`, and `name` is what lists tell. */
void slr_own_put(slr_value *value, struct sl_identity counter, const struct sluice_limit *own, sluice_ns end,
                 struct sluice_bytes name);

static inline struct sluice_bytes slr_own_name(const struct slr_own *own) {
	return sl_slice(own->texts, own->name);
}
static inline struct sluice_bytes slr_own_text(const struct slr_own *own) {
	return sl_slice(own->texts + own->name, own->text);
}

/* Whether a block of so many bytes can be one of a counter of that kind (sl_identity.kind). */
bool slr_own_is_valid(uint64_t kind, const void *block, uint64_t bytes);

/* Whether a value has a quota that does not end: then its key has no expiry. */
bool slr_own_endless(slr_value value);

/* Until when a key is to be kept for all that is in its value, wall ms; SLR_NO_EXPIRE: for good.
 *  limit   whose counter is known best, or NULL
 *  before  the expiry that the key had: what isn't known of a counter ends no later. Where that was none either, as
 *          after a failover, each counter's own state tells it. Strikes of which nobody told the end, as older modules
 *          don't, are kept as long as a window may last */
int64_t slr_own_expiry(slr_value value, const struct sluice_limit *limit, sluice_ns now, int64_t wall_ms,
                       int64_t before_ms);

#endif
