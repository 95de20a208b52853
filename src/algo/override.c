/* Quotas of single keys, set at run time: see override.h. */
#include "algo/override.h"

#include "base/life.h"

enum {
	LIFE_SHIFT = 11,
	LIFE_MASK = 255,
	UNLIMITED_BIT = 1 << 10,
	EDGE_SHIFT = 7,
	EDGE_MASK = 7,
	REGISTERS_SHIFT = 3,
	REGISTERS_MASK = 15,
	BURST_BIT = 1 << 2,
};

const char *sl_rule_mismatch(const struct sluice_limit *limit, const struct sluice_limit *other) {
	if (!sl_rule_has(limit, SL_HAS_COUNTER))
		return "an unlimited limit counts nothing";
	if (!sl_rule_has(other, SL_HAS_COUNTER))
		return "an unlimited one counts nothing; observe: true tries having no limit";
	if (sl_rule_algorithm(other) == sl_rule_algorithm(limit) &&
	    (other->algorithm != limit->algorithm || (sl_rule_spreads(limit) && other->burst != limit->burst)))
		return "windows of another phase would need counters of their own";
	if (other->algorithm != limit->algorithm)
		return "another algorithm would need counters of its own";
	if (other->calendar == limit->calendar && other->zone != limit->zone)
		return "another time zone would need counters of its own";
	if (other->window_ns != limit->window_ns || other->calendar != limit->calendar)
		return sl_rule_has(limit, SL_TAKES_LEASE) ? "another lease would need counters of its own"
		                                          : "another window would need counters of its own";
	return other->precision_ns == limit->precision_ns ? NULL : "another precision would need counters of its own";
}

const char *sl_own_mismatch(const struct sluice_limit *limit, const struct sluice_limit *own) {
	const char *why = sl_rule_has(own, SL_HAS_COUNTER) || !sl_rule_has(limit, SL_HAS_COUNTER)
	                      ? sl_rule_mismatch(limit, own)
	                      : NULL;
	if (why != NULL || !sl_rule_has(own, SL_DRAINS) || sl_identity_space(sl_identity_of(limit)) == SL_SPACE_POLICY)
		return why;
	return own->quota == limit->quota ? NULL : "a bucket of another rate and no name would need counters of its own";
}

/* ---- sixteen bytes ----------------------------------------------------------------------------------------------- */

static uint64_t flags_of(const struct sluice_limit *own) {
	uint64_t bits = 0;
	if (!sl_rule_has(own, SL_HAS_COUNTER))
		return UNLIMITED_BIT;
	if (sl_rule_has(own, SL_DRAINS) && own->burst != own->quota)
		bits |= BURST_BIT;
	if (sl_rule_has(own, SL_TAKES_MEMBER) && own->burst != 0)
		bits |= (uint64_t)__builtin_ctz(own->burst) << REGISTERS_SHIFT;
	return bits | (uint64_t)own->edge << EDGE_SHIFT;
}

void sl_own_pack(const struct sluice_limit *own, sluice_ns now, sluice_ns ttl_ns, uint64_t words[2],
                 sluice_ns *life_ns) {
	uint64_t from = now >> SL_COARSE_SHIFT, code, lasts;
	SL_ASSERT(own->edge <= EDGE_MASK && ttl_ns != 0);
	*life_ns = ttl_ns != SLUICE_NEVER ? ttl_ns : SLUICE_NEVER - 1;
	code = sl_life_code(*life_ns);
	lasts = sl_life_units_of(code) + 1;
	if (ttl_ns != SLUICE_NEVER) {
		uint64_t end = (now + ttl_ns + (((sluice_ns)1 << SL_COARSE_SHIFT) - 1)) >> SL_COARSE_SHIFT;
		SL_ASSERT(now <= SLUICE_NEVER - ttl_ns && end <= from + lasts);
		from = end > lasts ? end - lasts : 0;
	}
	words[0] = from << SL_COARSE_SHIFT | code << LIFE_SHIFT | flags_of(own);
	words[1] = (uint64_t)own->quota << 32;
}

sluice_ns sl_own_end(const uint64_t words[2]) {
	uint64_t code = words[0] >> LIFE_SHIFT & LIFE_MASK;
	uint64_t end = (words[0] >> SL_COARSE_SHIFT) + sl_life_units_of(code <= 4 * 43 + 3 ? code : 0) + 1;
	return end < UINT64_MAX >> SL_COARSE_SHIFT ? end << SL_COARSE_SHIFT : SLUICE_NEVER;
}

struct sl_own sl_own_read(const uint64_t words[2]) {
	uint32_t bits = words[0] >> REGISTERS_SHIFT & REGISTERS_MASK, quota = (uint32_t)(words[1] >> 32);
	return (struct sl_own){.quota = quota,
	                       .burst = bits != 0 ? UINT32_C(1) << bits : quota,
	                       .edge = words[0] >> EDGE_SHIFT & EDGE_MASK,
	                       .unlimited = (words[0] & UNLIMITED_BIT) != 0,
	                       .burst_apart = (words[0] & BURST_BIT) != 0};
}

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

static void make_unlimited(struct sluice_limit *limit) {
	*limit = (struct sluice_limit){.algorithm = SLUICE_UNLIMITED};
	sl_rule_derive(limit);
}

bool sl_own_apply(const struct sl_own *own, struct sluice_limit *limit) {
	uint32_t burst = limit->burst;
	if (own->unlimited) {
		make_unlimited(limit);
		return true;
	}
	if (sl_rule_has(limit, SL_DRAINS))
		burst = own->burst;
	else if (sl_rule_has(limit, SL_TAKES_MEMBER))
		burst = own->quota > SL_EXACT_MEMBERS ? own->burst : 0;
	return sl_rule_requota(limit, own->quota, burst, own->edge);
}
