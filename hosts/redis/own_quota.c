/* See own_quota.h. */
#include "hosts/redis/own_quota.h"

#include "base/math.h"
#include "hosts/redis/api.h"
#include "hosts/redis/tokens.h"

_Static_assert(sizeof(struct slr_own) == 24, "as saved");
_Static_assert((int)SLUICE_NAME_BYTES_MAX <= UINT8_MAX && (int)SLUICE_LIMIT_TEXT_MAX <= UINT8_MAX,
               "lengths in a byte each");

/* ---- looking ----------------------------------------------------------------------------------------------------- */

const struct slr_own *slr_own_of(const struct slr_counter *counter) {
	return slr_companion_is(SLR_COMPANION_OVERRIDE, counter->identity) ? (const void *)slr_counter_bytes(counter)
	                                                                   : NULL;
}

const struct slr_own *slr_own_find(slr_value value, struct sl_identity counter) {
	struct slr_counter scratch;
	const struct slr_counter *companion;
	if (!slr_value_has_companions(value))
		return NULL;
	companion = slr_value_find(value, slr_companion_of(SLR_COMPANION_OVERRIDE, counter), &scratch);
	return companion != NULL ? slr_own_of(companion) : NULL;
}

static bool apply(const struct slr_own *own, struct sluice_limit *rule) {
	const struct sl_own said = {
		.quota = own->quota, .burst = own->burst, .edge = own->edge, .unlimited = own->unlimited != 0};
	return sl_own_apply(&said, rule);
}

bool slr_own_take(const struct slr_own *own, sluice_ns now, struct sluice_limit *rule) {
	return now < own->end && apply(own, rule);
}

bool slr_own_endless(slr_value value) {
	struct slr_counter scratch;
	const struct slr_own *own;
	if (!slr_value_has_companions(value))
		return false;
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		own = slr_own_of(slr_value_at(value, i, &scratch));
		if (own != NULL && own->end == SLUICE_NEVER)
			return true;
	}
	return false;
}

/* ---- setting ----------------------------------------------------------------------------------------------------- */

sluice_ns slr_own_end(const struct sluice_limit *own, sluice_ns now, sluice_ns ttl_ns) {
	uint64_t packed[2];
	sluice_ns life;
	sl_own_pack(own, now, ttl_ns != 0 ? ttl_ns : SLUICE_NEVER, packed, &life);
	return ttl_ns != 0 ? sl_own_end(packed) : SLUICE_NEVER;
}

static uint64_t bytes_for(size_t name, size_t text) {
	return (sizeof(struct slr_own) + name + text + 7) / 8 * 8;
}

void slr_own_put(slr_value *value, struct sl_identity counter, const struct sluice_limit *own, sluice_ns end,
                 struct sluice_bytes name) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	size_t len = sluice_limit_print(own, text);
	uint64_t bytes = bytes_for(name.len, len);
	struct slr_counter *companion;
	struct slr_own *put = slr_block_take(bytes);
	SL_ASSERT(name.len <= SLUICE_NAME_BYTES_MAX);
	memset(put, 0, bytes);
	*put = (struct slr_own){.end = end,
	                        .quota = own->quota,
	                        .burst = own->burst,
	                        .edge = own->edge,
	                        .unlimited = !sl_rule_has(own, SL_HAS_COUNTER),
	                        .name = (uint8_t)name.len,
	                        .text = (uint8_t)len};
	if (name.len != 0)
		memcpy(put->texts, name.data, name.len);
	memcpy(put->texts + name.len, text, len);
	companion = slr_value_open(value, slr_companion_of(SLR_COMPANION_OVERRIDE, counter), SLR_UNTIL_UNKNOWN);
	slr_counter_set_block(companion, put, bytes);
}

/* Whether it makes a rule of a limit of that kind, with which decisions can be made. */
static bool makes_rule(uint64_t kind, const struct slr_own *own) {
	struct sluice_limit limit;
	return sl_identity_widest((struct sl_identity){kind, 0}, &limit) && apply(own, &limit) &&
	       sl_rule_is_valid(&limit);
}

bool slr_own_is_valid(uint64_t kind, const void *block, uint64_t bytes) {
	const struct slr_own *own = block;
	if (bytes < sizeof *own || own->name > SLUICE_NAME_BYTES_MAX || own->text >= SLUICE_LIMIT_TEXT_MAX ||
	    bytes != bytes_for(own->name, own->text))
		return false;
	for (uint64_t i = sizeof *own + own->name + own->text; i < bytes; i++)
		if (((const unsigned char *)block)[i] != 0)
			return false;
	return own->zero == 0 && own->unlimited <= 1 &&
	       (own->end <= SLR_INSTANT_MAX || own->end == SLUICE_NEVER) && makes_rule(kind, own);
}

/* ---- how long a key lives ---------------------------------------------------------------------------------------- */

static int64_t wall_of(int64_t wall_ms, sluice_ns ahead) {
	return wall_ms + (int64_t)sl_min((uint64_t)sl_ns_to_ms_ceil(ahead) + 1, (uint64_t)1 << 44);
}

/* Until when a counter may differ from none, as its state says. */
static int64_t lived_until(const struct slr_counter *counter, const struct sluice_limit *limit, sluice_ns now,
                           int64_t wall_ms) {
	const struct slr_holds *holds = slr_counter_holds(counter);
	struct sluice_decision decision;
	struct sluice_limit wide;
	struct sl_counter step;
	sluice_ns last = holds != NULL ? holds->list[holds->count - 1].end : 0, ahead;
	slr_counter_load(counter, &step);
	ahead = sl_step_instant(limit, &step, now) - now;
	sl_step(sl_rule_lasting(limit, &wide), &step, now, 0, false, &decision);
	ahead += sl_step_life(limit, &decision);
	return wall_of(wall_ms, last > now ? ahead + (last - now) + limit->window_ns : ahead);
}

static sluice_ns last_token_end(const struct slr_token *table, uint64_t room) {
	sluice_ns end = 0;
	for (uint64_t i = 0; i < room; i++)
		end = table[i].hash != 0 ? sl_max(end, table[i].end) : end;
	return end;
}

/* From when on a companion says nothing any more, as its block tells; 0: no later than another of the same counter.
 * SLUICE_NEVER: the block does not tell it. */
static sluice_ns companion_end(const struct slr_counter *companion) {
	const void *block = slr_counter_bytes(companion);
	const struct sl_state *state = &companion->state;
	if (slr_companion_is(SLR_COMPANION_LEDGER, companion->identity))
		return ((const struct sl_reservation *)block)[slr_companion_used(state) - 1].end; /* sorted by end */
	if (slr_companion_is(SLR_COMPANION_TOKENS, companion->identity))
		return last_token_end(block, slr_companion_room(state) / sizeof(struct slr_token));
	return slr_companion_is(SLR_COMPANION_CONTENTS, companion->identity) ? 0 : SLUICE_NEVER;
}

/* Until when any row of a value but a quota may say something. A limit of the counter's identity says enough of it: how
 * much the quota admits has no part in when a counter is empty, and a bucket that may have any rate has its own in its
 * state. What has no end that can be told is kept as long as a window may last. */
static int64_t told_until(const struct slr_counter *counter, const struct sluice_limit *limit, sluice_ns now,
                          int64_t wall_ms) {
	struct sluice_limit wide;
	sluice_ns end;
	if (limit != NULL && sl_identity_equal(sl_identity_of(limit), counter->identity))
		return lived_until(counter, limit, now, wall_ms);
	if (!sl_identity_is_companion(counter->identity))
		return sl_identity_widest(counter->identity, &wide) ? lived_until(counter, &wide, now, wall_ms)
		                                                    : wall_of(wall_ms, SL_WINDOW_NS_MAX);
	end = companion_end(counter);
	if (end == SLUICE_NEVER)
		return wall_of(wall_ms, SL_WINDOW_NS_MAX);
	return wall_of(wall_ms, end > now ? end - now : 0);
}

int64_t slr_own_expiry(slr_value value, const struct sluice_limit *limit, sluice_ns now, int64_t wall_ms,
                       int64_t before_ms) {
	int64_t latest = wall_ms + 1;
	struct slr_counter scratch;
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		const struct slr_counter *counter = slr_value_at(value, i, &scratch);
		const struct slr_own *own = slr_own_of(counter);
		int64_t until_ms = slr_value_until(value, i);
		if (own != NULL && own->end == SLUICE_NEVER)
			return SLR_NO_EXPIRE;
		if (own != NULL)
			until_ms = wall_of(wall_ms, own->end > now ? own->end - now : 0);
		else if (until_ms == SLR_UNTIL_UNKNOWN && before_ms != SLR_NO_EXPIRE)
			until_ms = before_ms;
		else if (until_ms == SLR_UNTIL_UNKNOWN)
			until_ms = told_until(counter, limit, now, wall_ms);
		latest = sl_max(latest, until_ms);
	}
	return latest;
}
