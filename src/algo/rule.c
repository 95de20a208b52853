/* Rules: the constants that the algorithms derive from a limit's numbers, and the identity of its counters.
 *
 * Identity (contract 4.3) is two words that go into the fingerprint ahead of the key:
 *
 *   kind   63..62 namespace (0 no name, 1 a policy's name, 2 CL.THROTTLE)  61..58 algorithm
 *          57..45 W / P (0 where there is no precision)                   44..0  window in ms (< 2^39)
 *          of a fixed-window by the calendar: 4096 + unit                        hash of the zone's name (45 bits)
 *          of windows that are spread: 4096 + 2048 + phase's upper 11 bits       44..39 its lower 6, 38..0 window in ms
 *   name   hash of the policy's name, never 0; or, without a name, the rate of a bucket; or 0: then kind alone says it
 *
 * Quota, burst, queue, edge and registers are left out on purpose: changing them keeps the counter. In CHECK the rate
 * of a bucket is in, because there it is not an operator who changes one limit but two callers who hold two.
 *
 * The tick of a bucket is the finest of 1 ns, 1 us, 1 ms in which the window is below the number of ticks that still
 * leaves room for the debt in a state of 16 bytes (bucket.c): W < 2^32 ns, else W < 2^41 us, else ms. */
#include "algo/rule.h"

#include "algo/calendar.h"
#include "base/assert.h"
#include "base/fold.h"
#include "base/math.h"
#include "base/out.h"

/* Bits 57..39 of the kind. */
static uint64_t spread_field(const struct sluice_limit *limit) {
	SL_ASSERT(limit->burst <= SL_PHASES && limit->window_ns / SL_MS_NS < (uint64_t)1 << 39);
	return limit->burst == 0 ? (uint64_t)SL_SPREAD_BIT << 6 : ((uint64_t)SL_PHASE_BIT << 6) + limit->burst - 1;
}

static uint64_t identity_kind(const struct sluice_limit *limit, uint64_t space) {
	SL_ASSERT(space < SL_SPACE_COMPANION && limit->window_ns / SL_MS_NS < (uint64_t)1 << 45);
	if (limit->calendar != SLUICE_CALENDAR_NONE)
		return space << 62 | (uint64_t)limit->algorithm << 58 | (uint64_t)(SL_CALENDAR_BIT | limit->calendar) << 45 |
		       sl_zone_at(limit->zone)->hash;
	if (sl_rule_spreads(limit))
		return space << 62 | (uint64_t)sl_rule_algorithm(limit) << 58 | spread_field(limit) << 39 |
		       limit->window_ns / SL_MS_NS;
	return space << 62 | (uint64_t)limit->algorithm << 58 | (uint64_t)limit->bucket_count << 45 |
	       limit->window_ns / SL_MS_NS;
}

static uint64_t capacity_of(const struct sluice_limit *limit) {
	if (limit->quota == 0)
		return 0;
	if (limit->algorithm == SLUICE_TOKEN_BUCKET)
		return limit->burst;
	return limit->algorithm == SLUICE_LEAKY_BUCKET ? (uint64_t)limit->burst + 1 : limit->quota;
}

static uint64_t tick_of(sluice_ns window_ns) {
	if (window_ns < (uint64_t)1 << 32)
		return 1;
	return window_ns / 1000 < (uint64_t)1 << 41 ? 1000 : SL_MS_NS;
}

/* A phase of p 131072ths: windows begin as long after those that are aligned, so their clock is ahead by the rest. */
static sluice_ns ahead_of(const struct sluice_limit *limit) {
	uint64_t phase = limit->burst == 0 ? 0 : limit->burst - 1;
	return phase == 0 ? 0 : limit->window_ns - (sluice_ns)(sl_mul(limit->window_ns, phase) / SL_PHASES);
}

void sl_rule_derive(struct sluice_limit *limit) {
	SL_ASSERT(sl_algorithm_is_known(sl_rule_algorithm(limit)));
	memset(limit->derived, 0, sizeof limit->derived);
	limit->derived[SL_IDENT_KIND] = identity_kind(limit, SL_SPACE_NONE);
	limit->derived[SL_CAPACITY] = capacity_of(limit);
	if (limit->algorithm == SLUICE_UNLIMITED) {
		limit->derived[SL_CAPACITY] = UINT32_MAX;
		return;
	}
	SL_ASSERT(limit->window_ns >= SL_MS_NS && limit->window_ns <= SL_WINDOW_NS_MAX);
	limit->derived[SL_WINDOW_INVERSE] = UINT64_MAX / limit->window_ns;
	if (sl_rule_spreads(limit))
		limit->derived[SL_AHEAD_NS] = ahead_of(limit);
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS) {
		SL_ASSERT(limit->precision_ns != 0);
		limit->derived[SL_PRECISION_INVERSE] = UINT64_MAX / limit->precision_ns;
		limit->derived[SL_RING_INVERSE] = UINT64_MAX / (limit->bucket_count + 1u);
	}
	if (sl_rule_has(limit, SL_DRAINS)) {
		limit->derived[SL_IDENT_NAME] = limit->quota;
		limit->derived[SL_TICK_NS] = tick_of(limit->window_ns);
		limit->derived[SL_WINDOW_TICKS] = limit->window_ns / limit->derived[SL_TICK_NS];
		SL_ASSERT(limit->derived[SL_WINDOW_TICKS] < (uint64_t)1 << 41);
	}
}

void sl_rule_name(struct sluice_limit *limit, struct sluice_bytes name) {
	/* A fixed key: names are the operator's, and the hash must not depend on the store that is used. */
	static const uint64_t key[2] = {0x6c696d69742d6e61, 0x6d652d6f662d736c};
	limit->derived[SL_IDENT_KIND] = identity_kind(limit, SL_SPACE_POLICY);
	limit->derived[SL_IDENT_NAME] = sl_siphash(key, NULL, 0, name, 2, 4);
	if (limit->derived[SL_IDENT_NAME] == 0)
		limit->derived[SL_IDENT_NAME] = 1;
}

void sl_rule_key(struct sluice_limit *limit, struct sluice_bytes key) {
	/* Fixed as well: a client may choose a key for its phase, but gains nothing: all bounds hold for any phase. */
	static const uint64_t secret[2] = {0x7068617365732d6f, 0x662d77696e646f77};
	if (!sl_rule_needs_key(limit))
		return;
	limit->burst = 1 + (uint32_t)(sl_siphash_folded(secret, &limit->derived[SL_IDENT_KIND], 2, key, 2, 4) % SL_PHASES);
	limit->derived[SL_IDENT_KIND] = identity_kind(limit, sl_identity_space(sl_identity_of(limit)));
	limit->derived[SL_AHEAD_NS] = ahead_of(limit);
	SL_DEBUG_ASSERT(sl_rule_is_valid(limit));
}

void sl_rule_throttle(struct sluice_limit *limit) {
	SL_ASSERT(limit->algorithm == SLUICE_TOKEN_BUCKET);
	limit->derived[SL_IDENT_KIND] = identity_kind(limit, SL_SPACE_THROTTLE);
}

static sluice_err range_error(struct sluice_error *error, const char *text) {
	if (error != NULL) {
		struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
		sl_out_str(&out, text);
		*out.at = '\0';
		error->column = 0;
	}
	return SLUICE_E_RANGE;
}

sluice_err sl_rule_make_token_bucket(struct sluice_limit *limit, uint64_t quota, sluice_ns window_ns, uint64_t burst,
                                     struct sluice_error *error) {
	if (quota < 1 || quota > UINT32_MAX)
		return range_error(error, "the count must be 1..4294967295");
	if (window_ns < SL_MS_NS || window_ns > SL_WINDOW_NS_MAX || window_ns % SL_MS_NS != 0)
		return range_error(error, "the period must be whole milliseconds from 1 ms to 3660 d");
	if (burst < 1 || burst > UINT32_MAX)
		return range_error(error, "the burst must be 1..4294967295");
	*limit = (struct sluice_limit){
		.algorithm = SLUICE_TOKEN_BUCKET, .quota = (uint32_t)quota, .burst = (uint32_t)burst, .window_ns = window_ns};
	sl_rule_derive(limit);
	return SLUICE_OK;
}

static bool window_is_valid(const struct sluice_limit *limit) {
	return limit->window_ns >= SL_MS_NS && limit->window_ns <= SL_WINDOW_NS_MAX && limit->window_ns % SL_MS_NS == 0 &&
	       limit->derived[SL_WINDOW_INVERSE] == UINT64_MAX / limit->window_ns;
}

static bool edge_is_of_buckets(uint32_t edge) {
	return edge == SLUICE_EDGE_COUNT || edge == SLUICE_EDGE_DROP || edge == SLUICE_EDGE_WEIGHTED;
}

static bool buckets_are_valid(const struct sluice_limit *limit) {
	return limit->bucket_count >= 2 && limit->bucket_count <= SL_BUCKETS_MAX && edge_is_of_buckets(limit->edge) &&
	       limit->precision_ns * limit->bucket_count == limit->window_ns && limit->precision_ns % SL_MS_NS == 0 &&
	       limit->derived[SL_PRECISION_INVERSE] == UINT64_MAX / limit->precision_ns &&
	       limit->derived[SL_RING_INVERSE] == UINT64_MAX / (limit->bucket_count + 1u);
}

static bool spread_is_valid(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_HAS_WINDOWS) && limit->calendar == SLUICE_CALENDAR_NONE && limit->burst <= SL_PHASES &&
	       limit->derived[SL_AHEAD_NS] == ahead_of(limit) && limit->derived[SL_AHEAD_NS] < limit->window_ns;
}

static bool registers_are_valid(uint32_t registers) {
	return registers >= SL_REGISTERS_MIN && registers <= SL_REGISTERS_MAX && (registers & (registers - 1)) == 0;
}

/* Of concurrency and distinct. */
static bool members_are_valid(const struct sluice_limit *limit) {
	if (limit->bucket_count != 0 || limit->precision_ns != 0)
		return false;
	if (!sl_rule_estimates(limit))
		return limit->burst == 0 && limit->edge == SLUICE_EDGE_COUNT;
	return (limit->edge == SLUICE_EDGE_DENY || limit->edge == SLUICE_EDGE_ALLOW) && registers_are_valid(limit->burst);
}

static bool calendar_is_valid(const struct sluice_limit *limit) {
	if (limit->calendar == SLUICE_CALENDAR_NONE)
		return limit->zone == 0;
	return limit->algorithm == SLUICE_FIXED_WINDOW && sl_calendar_is_known(limit->calendar) &&
	       sl_zone_is_known(limit->zone) && limit->window_ns == sl_calendar_longest(limit->calendar, limit->zone);
}

bool sl_rule_is_valid(const struct sluice_limit *limit) {
	if (!calendar_is_valid(limit))
		return false;
	if (limit->algorithm == SLUICE_UNLIMITED)
		return limit->derived[SL_CAPACITY] == UINT32_MAX;
	if (!sl_algorithm_is_known(sl_rule_algorithm(limit)) || !window_is_valid(limit) ||
	    limit->derived[SL_CAPACITY] != capacity_of(limit))
		return false;
	if (sl_rule_spreads(limit))
		return spread_is_valid(limit);
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS)
		return buckets_are_valid(limit);
	if (sl_rule_has(limit, SL_HAS_SEATS))
		return members_are_valid(limit);
	return !sl_rule_has(limit, SL_DRAINS) || (limit->derived[SL_TICK_NS] == tick_of(limit->window_ns) &&
	                             limit->derived[SL_WINDOW_TICKS] * limit->derived[SL_TICK_NS] == limit->window_ns);
}

bool sl_rule_requota(struct sluice_limit *limit, uint32_t quota, uint32_t burst, uint8_t edge) {
	struct sluice_limit other = *limit;
	other.quota = quota;
	other.burst = burst;
	other.edge = edge;
	if (limit->algorithm == SLUICE_SLIDING_BUCKETS ? !edge_is_of_buckets(edge)
	    : sl_rule_has(limit, SL_HAS_SEATS)         ? !members_are_valid(&other)
	                                               : edge != SLUICE_EDGE_COUNT)
		return false;
	other.derived[SL_CAPACITY] = capacity_of(&other);
	*limit = other;
	return true;
}

/* ---- identities -------------------------------------------------------------------------------------------------- */

/* A window of the calendar, by the hash of its zone. On a host that does not know it, UTC's are the nearest. */
static void read_calendar(struct sluice_limit *limit, uint64_t zone_hash) {
	uint32_t unit = limit->bucket_count - SL_CALENDAR_BIT;
	int32_t zone = sl_zone_find_hash(zone_hash);
	if (!sl_calendar_is_known(unit))
		return; /* no fixed window has a precision: it is refused */
	if (zone < 0 && sl_zone_load_hash != NULL)
		zone = sl_zone_load_hash(zone_hash);
	limit->calendar = (uint16_t)unit;
	limit->zone = (uint16_t)(zone >= 0 ? zone : 0);
	limit->bucket_count = 0;
	limit->window_ns = sl_calendar_longest(limit->calendar, limit->zone);
}

/* Windows of a phase. Those of no key are no counter's. */
static void read_spread(struct sluice_limit *limit, uint64_t kind) {
	uint64_t window_ms = kind & (((uint64_t)1 << 39) - 1);
	if (limit->bucket_count < SL_PHASE_BIT || !sl_rule_has(limit, SL_HAS_WINDOWS))
		return; /* no window has a precision: it is refused */
	limit->algorithm |= SLUICE_SPREAD;
	limit->burst = (uint32_t)(kind >> 39 & (SL_PHASES - 1)) + 1;
	limit->bucket_count = 0;
	limit->window_ns = window_ms <= SL_WINDOW_NS_MAX / SL_MS_NS ? window_ms * SL_MS_NS : 0;
}

static bool has_numbers(const struct sluice_limit *limit) {
	return sl_rule_has(limit, SL_HAS_COUNTER) && limit->window_ns != 0 &&
	       (limit->algorithm == SLUICE_SLIDING_BUCKETS) == (limit->bucket_count != 0);
}

/* Derives all but the identity, which is kept. */
static void widen(struct sluice_limit *limit, struct sl_identity identity, uint64_t rate) {
	SL_ASSERT(rate >= 1 && rate <= UINT32_MAX);
	limit->quota = sl_rule_has(limit, SL_DRAINS) ? (uint32_t)rate : UINT32_MAX;
	if (sl_rule_has(limit, SL_DRAINS))
		limit->burst = UINT32_MAX;
	else if (sl_rule_has(limit, SL_TAKES_MEMBER))
		limit->burst = limit->burst != 0 ? limit->burst : SL_REGISTERS;
	else if (!sl_rule_spreads(limit))
		limit->burst = 0;
	sl_rule_derive(limit);
	limit->derived[SL_IDENT_KIND] = identity.kind;
	limit->derived[SL_IDENT_NAME] = identity.name;
}

bool sl_identity_widest(struct sl_identity identity, struct sluice_limit *limit) {
	uint64_t window_ms = identity.kind & (((uint64_t)1 << 45) - 1), rate = 1;
	*limit = (struct sluice_limit){
		.algorithm = (uint8_t)sl_identity_algorithm(identity),
		.bucket_count = (uint16_t)(identity.kind >> 45 & 0x1fff),
		.window_ns = window_ms <= SL_WINDOW_NS_MAX / SL_MS_NS ? window_ms * SL_MS_NS : 0,
	};
	if (limit->bucket_count >= SL_SPREAD_BIT)
		read_spread(limit, identity.kind);
	else if (limit->bucket_count > SL_CALENDAR_BIT)
		read_calendar(limit, window_ms);
	if (sl_identity_is_companion(identity) || !has_numbers(limit))
		return false;
	if (limit->bucket_count != 0) {
		limit->precision_ns = limit->window_ns / limit->bucket_count;
		limit->edge = SLUICE_EDGE_DROP; /* whichever it had: no other admits more */
	}
	if (sl_rule_has(limit, SL_TAKES_MEMBER))
		limit->edge = SLUICE_EDGE_ALLOW;
	if (sl_identity_space(identity) != SL_SPACE_POLICY && identity.name >= 1 && identity.name <= UINT32_MAX)
		rate = identity.name;
	widen(limit, identity, rate);
	return sl_rule_is_valid(limit);
}

struct sluice_limit sl_rule_widened(const struct sluice_limit *limit) {
	struct sluice_limit wide = *limit;
	widen(&wide, sl_identity_of(limit), limit->quota != 0 ? limit->quota : 1);
	SL_DEBUG_ASSERT(sl_rule_is_valid(&wide));
	return wide;
}

static bool asks_for_member(const struct sluice_item *item) {
	return item->bound == SLUICE_BOUND_NONE && item->observed != SLUICE_TRIED &&
	       sl_rule_has(item->limit, SL_TAKES_MEMBER) && item->member.data != NULL;
}

static bool contradicts(const struct sluice_item *item, const struct sluice_item *other) {
	return asks_for_member(other) && (item->observed == 0 || other->observed == 0) &&
	       sl_identity_equal(sl_identity_of(item->limit), sl_identity_of(other->limit)) &&
	       sl_bytes_equal(item->key, other->key) && !sl_bytes_equal(item->member, other->member);
}

uint32_t sl_items_second_member(const struct sluice_item *items, uint32_t count) {
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t k = 0; asks_for_member(&items[i]) && k < i; k++)
			if (contradicts(&items[i], &items[k]))
				return i;
	return count;
}
