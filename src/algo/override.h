/* A quota of a key's own, set at run time: another quota for the counter of one key, and what of it a slot of 16 bytes
 * says. Hosts keep it beside the counter and decide by the rule that it makes of the limit's; the counter stays.
 *
 *   word 0   63..19 an instant, in units of 2^19 ns   18..11 a lifetime (base/life.h)   10 unlimited   9..7 edge
 *            6..3 registers of distinct, as a power of two   2 the burst stands elsewhere
 *   word 1   63..32 quota   31..0 the host's
 *
 * It ends when that lifetime has passed since that instant. The instant is chosen for that: it lies before the call
 * that set the quota by as much as the lifetime, which has but four steps an octave, is too long. So the store, which
 * knows both as it knows those of any slot, forgets it at its end, and not before; and since the word says the lifetime
 * again, one store of 16 bytes changes quota and end together. */
#ifndef SL_OVERRIDE_H
#define SL_OVERRIDE_H

#include "algo/rule.h"

/* What is said of a key. */
struct sl_own {
	uint32_t quota, burst; /* burst: of the algorithms that have one; else of no meaning */
	uint8_t edge;          /* enum sluice_edge */
	bool unlimited;
	bool burst_apart; /* the burst is not the quota, and stands where the host put it */
};

/* Why another limit can't be a quota for the counters of a limit, for people; NULL where it can. Names and, of windows
 * that are spread, phases that keys give are left out of it; what it says of `unlimited` is for limits that try one. */
const char *sl_rule_mismatch(const struct sluice_limit *limit, const struct sluice_limit *other);

/* What is wrong with one, before the reason; and with a time that it is to last. */
#define SL_OWN_MISMATCH_TEXT "expected unlimited, or another quota for the same counter: "
#define SL_OWN_LASTS_TEXT "a quota of a key's own lasts 1 ms to 3660 d"
#define SL_OWN_FULL_TEXT "there are as many quotas of keys' own as "
#define SL_OWN_KEY_FULL_TEXT "the key has as many counters as it may: "

/* The same for a key's own quota at run time, which may be `unlimited`: the same counter or none, nothing else. */
const char *sl_own_mismatch(const struct sluice_limit *limit, const struct sluice_limit *own);

/* What a limit says as a key's own quota, and the words of it that ends `ttl_ns` after `now` (SLUICE_NEVER: not), to
 * the next 2^19 ns; *life_ns: the lifetime to publish it with. Of an instant less than a quarter of the ttl after 1970
 * it ends that much later. */
void sl_own_pack(const struct sluice_limit *own, sluice_ns now, sluice_ns ttl_ns, uint64_t words[2],
                 sluice_ns *life_ns);

/* The end of the quota that these words say: Unix ns; SLUICE_NEVER: none. And what it is; `burst` is the caller's to
 * fill in where it is `burst_apart`. */
sluice_ns sl_own_end(const uint64_t words[2]);
struct sl_own sl_own_read(const uint64_t words[2]);

/* Makes `limit` the rule of a key with this quota: the counters stay the same. False, and nothing was changed, where
 * there is no such rule, as of damaged words; never where it is unlimited. Some ns. */
bool sl_own_apply(const struct sl_own *own, struct sluice_limit *limit);

/* Whether a decision by a counter that is elsewhere, of which no more is known, says that its key is unlimited for now;
 * `capacity` is the limit's (SL_CAPACITY). Nothing else has all of 4294967295 left, but a quota of so many of which
 * nothing is charged. */
static inline bool sl_own_is_unlimited(uint64_t capacity, const struct sluice_decision *decision) {
	return decision->allowed && decision->quota == UINT32_MAX && decision->remaining == UINT32_MAX &&
	       decision->reset_after_ns == 0 && capacity != UINT32_MAX;
}

#endif
