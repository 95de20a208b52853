/* See effect.h. All effects are read and checked before the first is applied. What can stop them after that is a value
 * that is not the one they were written for, and has no room for what they say. */
#include "hosts/redis/effect.h"

#include "hosts/redis/charge.h"
#include "hosts/redis/memory.h"

enum { CORRECTION_BYTES = 28 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void begin(struct slr_effects *effects, enum slr_effect_type type, struct sl_identity identity) {
	unsigned char byte = (unsigned char)type;
	slr_bytes_add(&effects->bytes, &byte, 1);
	slr_bytes_u64(&effects->bytes, identity.kind);
	slr_bytes_u64(&effects->bytes, identity.name);
}

void slr_effect_state(struct slr_effects *effects, struct sl_identity identity, const struct sl_state *state) {
	begin(effects, SLR_EFFECT_STATE, identity);
	slr_bytes_u64(&effects->bytes, state->w[0]);
	slr_bytes_u64(&effects->bytes, state->w[1]);
}

void slr_effect_rate(struct slr_effects *effects, struct sl_identity identity, const struct sl_state *state) {
	if (!sl_identity_keeps_rate(identity) || state->rate == 0)
		return;
	begin(effects, SLR_EFFECT_RATE, identity);
	slr_bytes_u32(&effects->bytes, state->rate);
}

void slr_effect_charge(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost) {
	begin(effects, SLR_EFFECT_CHARGE, identity);
	slr_bytes_u64(&effects->bytes, instant);
	slr_bytes_u32(&effects->bytes, cost);
}

void slr_effect_whole(struct slr_effects *effects, const struct slr_counter *counter) {
	slr_effect_kept(effects, counter, SLR_UNTIL_UNKNOWN);
}

void slr_effect_kept(struct slr_effects *effects, const struct slr_counter *counter, int64_t until_ms) {
	begin(effects, SLR_EFFECT_WHOLE, counter->identity);
	slr_write_counter(&effects->bytes, counter, until_ms);
}

void slr_effect_holds(struct slr_effects *effects, const struct slr_counter *counter) {
	begin(effects, SLR_EFFECT_HOLDS, counter->identity);
	slr_write_holds(&effects->bytes, slr_counter_holds(counter));
}

void slr_effect_gone(struct slr_effects *effects, struct sl_identity identity) {
	begin(effects, SLR_EFFECT_GONE, identity);
}

void slr_effect_lend(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost,
                     uint64_t who) {
	begin(effects, SLR_EFFECT_LEND, identity);
	slr_bytes_u64(&effects->bytes, instant);
	slr_bytes_u32(&effects->bytes, cost);
	slr_bytes_u64(&effects->bytes, who);
}

void slr_effect_who(struct slr_effects *effects, enum slr_effect_type type, struct sl_identity identity,
                    sluice_ns instant, uint64_t who) {
	begin(effects, type, identity);
	slr_bytes_u64(&effects->bytes, instant);
	slr_bytes_u64(&effects->bytes, who);
}

void slr_effect_count(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost,
                      uint32_t quota) {
	begin(effects, SLR_EFFECT_COUNT, identity);
	slr_bytes_u64(&effects->bytes, instant);
	slr_bytes_u32(&effects->bytes, cost);
	slr_bytes_u32(&effects->bytes, quota);
}

void slr_effect_correct(struct slr_effects *effects, struct sl_identity identity, const struct sl_correction *list,
                        uint32_t count) {
	begin(effects, SLR_EFFECT_CORRECT, identity);
	slr_bytes_u32(&effects->bytes, count);
	for (uint32_t i = 0; i < count; i++) {
		slr_bytes_u64(&effects->bytes, list[i].instant);
		slr_bytes_u64(&effects->bytes, list[i].known);
		slr_bytes_u32(&effects->bytes, list[i].charged);
		slr_bytes_u32(&effects->bytes, list[i].actual);
		slr_bytes_u32(&effects->bytes, list[i].debt);
	}
}

void slr_effect_refund(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant, uint32_t cost) {
	begin(effects, SLR_EFFECT_REFUND, identity);
	slr_bytes_u64(&effects->bytes, instant);
	slr_bytes_u32(&effects->bytes, cost);
}

void slr_effect_open(struct slr_effects *effects, struct sl_identity identity,
                     const struct sl_reservation *reservation) {
	begin(effects, SLR_EFFECT_OPEN, identity);
	slr_bytes_u64(&effects->bytes, reservation->id);
	slr_bytes_u64(&effects->bytes, reservation->instant);
	slr_bytes_u64(&effects->bytes, reservation->end);
	slr_bytes_u32(&effects->bytes, reservation->cost);
	slr_bytes_u32(&effects->bytes, reservation->debt);
}

void slr_effect_close(struct slr_effects *effects, struct sl_identity identity,
                      const struct sl_reservation *reservation) {
	slr_effect_who(effects, SLR_EFFECT_CLOSE, identity, reservation->end, reservation->id);
}

void slr_effect_return(struct slr_effects *effects, struct sl_identity identity, sluice_ns instant) {
	begin(effects, SLR_EFFECT_RETURN, identity);
	slr_bytes_u64(&effects->bytes, instant);
}

void slr_effect_token(struct slr_effects *effects, const struct slr_token *token) {
	begin(effects, SLR_EFFECT_TOKEN, (struct sl_identity){0, 0});
	slr_bytes_u64(&effects->bytes, token->hash);
	slr_bytes_u64(&effects->bytes, token->end);
	slr_bytes_u64(&effects->bytes, token->at);
	slr_bytes_u64(&effects->bytes, token->delay);
	slr_bytes_u32(&effects->bytes, token->granted);
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* Whether one more counter may join, if this one is not there. */
static bool has_room(slr_value value, struct sl_identity identity) {
	struct slr_counter scratch;
	return slr_value_count(value) < SLR_COUNTERS_READ_MAX || slr_value_find(value, identity, &scratch) != NULL;
}

static bool apply_state(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	struct sl_counter step = {.state.w = {slr_read_u64(reader), 0}};
	step.state.w[1] = slr_read_u64(reader);
	if (reader->failed || slr_has_block(identity) || !sl_identity_widest(identity, &limit) ||
	    sl_state_coarse(&step.state) > SLR_INSTANT_MAX || sl_state_is_none(&step.state) ||
	    !sl_counter_is_valid(&limit, &step))
		return false;
	if (value == NULL)
		return true;
	counter = slr_value_find(*value, identity, &scratch);
	step.state.rate = counter != NULL ? counter->state.rate : 0;
	if (counter != NULL && counter != &scratch)
		counter->state = step.state;
	else if (has_room(*value, identity))
		slr_value_write(value, identity, &step.state, SLR_UNTIL_UNKNOWN);
	else
		return false;
	return true;
}

static bool apply_rate(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	uint32_t rate = slr_read_u32(reader);
	struct slr_counter scratch, *counter;
	if (reader->failed || !sl_identity_keeps_rate(identity) || rate == 0)
		return false;
	counter = value != NULL ? slr_value_find(*value, identity, &scratch) : NULL;
	if (counter != NULL)
		counter->state.rate = rate;
	return true;
}

static bool lends(struct sl_identity identity) {
	return sl_identity_has(identity, SL_HAS_SEATS);
}

static bool apply_charge(slr_value *value, struct sl_identity identity, struct slr_reader *reader, bool lend) {
	sluice_ns instant = slr_read_u64(reader);
	uint32_t cost = slr_read_u32(reader);
	uint64_t who = lend ? slr_read_u64(reader) : 0;
	struct slr_counter *counter;
	struct sluice_limit limit;
	if (reader->failed || !slr_has_block(identity) || !sl_identity_widest(identity, &limit) || cost == 0 ||
	    instant > SLR_INSTANT_MAX || lends(identity) != lend || (lend && who == 0))
		return false;
	if (value == NULL)
		return true;
	if (!has_room(*value, identity))
		return false;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	if (slr_counter_charge(&limit, counter, instant, cost, who) && !slr_counter_is_none(counter))
		return true;
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return false;
}

/* Under the quota that it was counted under: a log keeps no more. */
static bool apply_count(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	sluice_ns instant = slr_read_u64(reader);
	uint32_t cost = slr_read_u32(reader), quota = slr_read_u32(reader);
	struct slr_counter *counter;
	struct sluice_limit limit;
	bool counted;
	if (reader->failed || !slr_has_block(identity) || lends(identity) || !sl_identity_widest(identity, &limit) ||
	    cost == 0 || quota == 0 || instant > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	if (!has_room(*value, identity))
		return false;
	limit.quota = quota;
	limit.derived[SL_CAPACITY] = quota;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	counted = slr_counter_count(&limit, counter, instant, cost);
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return counted;
}

/* A lease that is not there any more has ended here as well: that is no error. */
static bool apply_who(slr_value *value, struct sl_identity identity, struct slr_reader *reader,
                      enum slr_effect_type type) {
	sluice_ns instant = slr_read_u64(reader);
	uint64_t who = slr_read_u64(reader);
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	enum sl_trait whose = type == SLR_EFFECT_FORGET ? SL_TAKES_MEMBER : SL_TAKES_LEASE;
	if (reader->failed || !sl_identity_has(identity, whose) || !sl_identity_widest(identity, &limit) || who == 0 ||
	    instant > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	counter = slr_value_find(*value, identity, &scratch);
	if (counter == NULL)
		return true;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	(void)slr_counter_end(&limit, counter,
	                      type == SLR_EFFECT_FORGET  ? SLR_END_FORGET
	                      : type == SLR_EFFECT_RENEW ? SLR_END_RENEW
	                                                 : SLR_END_RELEASE,
	                      instant, who);
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return true;
}

static bool apply_refund(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	sluice_ns instant = slr_read_u64(reader);
	uint32_t cost = slr_read_u32(reader);
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	if (reader->failed || !sl_identity_widest(identity, &limit) || !slr_refund_is_known(&limit) || cost == 0 ||
	    instant > SLR_INSTANT_MAX)
		return false;
	counter = value != NULL ? slr_value_find(*value, identity, &scratch) : NULL;
	if (counter == NULL)
		return true;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	slr_counter_refund(&limit, counter, instant, cost);
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return true;
}

static bool read_corrections(struct slr_reader *reader, struct sl_correction **list, uint32_t *count) {
	*list = NULL;
	*count = slr_read_u32(reader);
	if (reader->failed || *count == 0 || *count > SL_LEDGER_MAX + 1 ||
	    (size_t)(reader->end - reader->at) / CORRECTION_BYTES < *count)
		return false;
	*list = slr_take(*count * sizeof **list);
	for (uint32_t i = 0; i < *count; i++) {
		struct sl_correction *one = &(*list)[i];
		one->instant = slr_read_u64(reader);
		one->known = slr_read_u64(reader);
		one->charged = slr_read_u32(reader);
		one->actual = slr_read_u32(reader);
		one->debt = slr_read_u32(reader);
		one->spread = 0;
	}
	return true;
}

static bool apply_correct(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	struct sl_correction *list;
	uint32_t count;
	bool right;
	if (!read_corrections(reader, &list, &count))
		return false;
	right = slr_has_block(identity) && !lends(identity) && sl_identity_widest(identity, &limit);
	for (uint32_t i = 0; i < count; i++)
		right = right && list[i].instant <= SLR_INSTANT_MAX && list[i].known <= SLR_INSTANT_MAX;
	counter = right && value != NULL ? slr_value_find(*value, identity, &scratch) : NULL;
	if (counter != NULL) {
		counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
		right = slr_counter_correct(&limit, counter, list, count);
		if (slr_counter_is_none(counter))
			slr_value_remove(value, identity);
	}
	slr_give(list);
	return right;
}

/* By which a counter drains, as far as this value knows. */
static uint32_t rate_of(slr_value value, struct sl_identity identity, const struct sluice_limit *limit) {
	struct slr_counter scratch, *counter = slr_value_find(value, identity, &scratch);
	return counter != NULL && counter->state.rate != 0 ? counter->state.rate : limit->quota;
}

static bool apply_open(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	struct sl_reservation reservation = {.id = slr_read_u64(reader)};
	struct sluice_limit limit;
	uint32_t rate;
	reservation.instant = slr_read_u64(reader);
	reservation.end = slr_read_u64(reader);
	reservation.cost = slr_read_u32(reader);
	reservation.debt = slr_read_u32(reader);
	if (reader->failed || !sl_identity_widest(identity, &limit) || reservation.cost == 0 ||
	    reservation.instant >= reservation.end || reservation.end > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	rate = rate_of(*value, identity, &limit);
	return has_room(*value, slr_companion_of(SLR_COMPANION_LEDGER, identity)) &&
	       slr_ledger_add(value, identity, &limit, rate, &reservation, SLR_UNTIL_UNKNOWN);
}

static bool apply_close(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	sluice_ns end = slr_read_u64(reader);
	uint64_t id = slr_read_u64(reader);
	struct sl_contents contents;
	struct sluice_limit limit;
	struct sl_ledger ledger;
	struct sl_found found;
	if (reader->failed || value == NULL || !sl_identity_widest(identity, &limit))
		return !reader->failed;
	ledger = slr_ledger_of(*value, identity);
	contents = slr_contents_of(*value, identity);
	found = sl_bundle_find(&limit, &ledger, &contents, id, 0);
	if (found.at >= 0 && (found.place != NULL ? found.place->end : found.its.end) == end)
		slr_ledger_close(value, identity, &found);
	return true;
}

static bool apply_return(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	sluice_ns instant = slr_read_u64(reader);
	struct sluice_limit limit;
	struct sl_ledger ledger;
	if (reader->failed || !sl_identity_widest(identity, &limit))
		return false;
	if (value == NULL)
		return true;
	ledger = slr_ledger_of(*value, identity);
	slr_ledger_remove(value, identity, 0, sl_ledger_ended(&ledger, instant));
	return true;
}

static bool apply_token(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	struct slr_token token = {.hash = slr_read_u64(reader)};
	token.end = slr_read_u64(reader);
	token.at = slr_read_u64(reader);
	token.delay = slr_read_u64(reader);
	token.granted = slr_read_u32(reader);
	if (reader->failed || identity.kind != 0 || identity.name != 0 || token.hash == 0 || token.end > SLR_INSTANT_MAX ||
	    token.at > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	if (!has_room(*value, slr_companion_of(SLR_COMPANION_TOKENS, identity)))
		return false;
	slr_token_add(value, &token, SLR_UNTIL_UNKNOWN);
	return true;
}

/* Read apart from the value, into a table, which keeps until when it is kept; and moved when it is whole. */
static bool apply_whole(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *read, *counter;
	slr_value apart = slr_value_for(2);
	if (!slr_read_counter(reader, SLR_CODEC_VERSION_RATELESS, &apart) ||
	    !sl_identity_equal(slr_value_at(apart, 0, &scratch)->identity, identity) ||
	    (value != NULL && !has_room(*value, identity))) {
		slr_value_free(apart);
		return false;
	}
	if (value != NULL) {
		read = slr_value_open(&apart, identity, SLR_UNTIL_UNKNOWN);
		slr_value_remove(value, identity);
		counter = slr_value_open(value, identity, slr_value_until(apart, 0));
		counter->state = read->state;
		counter->more = read->more;
		read->more = NULL;
	}
	slr_value_free(apart);
	return true;
}

static bool apply_holds(slr_value *value, struct sl_identity identity, struct slr_reader *reader) {
	struct slr_counter *counter;
	struct slr_holds *holds;
	struct sluice_limit limit;
	if (!slr_read_holds(reader, &holds))
		return false;
	if (value == NULL || !sl_identity_widest(identity, &limit) || !has_room(*value, identity)) {
		slr_give(holds);
		return value == NULL && sl_identity_widest(identity, &limit);
	}
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	slr_give(slr_counter_holds(counter));
	slr_counter_set_holds(counter, holds);
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return true;
}

/* One effect; with no value it is only checked. */
static bool apply_one(slr_value *value, struct slr_reader *reader) {
	const unsigned char *type = slr_read(reader, 1);
	struct sl_identity identity = {.kind = slr_read_u64(reader)};
	identity.name = slr_read_u64(reader);
	if (reader->failed)
		return false;
	switch (*type) {
	case SLR_EFFECT_STATE:
		return apply_state(value, identity, reader);
	case SLR_EFFECT_CHARGE:
	case SLR_EFFECT_LEND:
		return apply_charge(value, identity, reader, *type == SLR_EFFECT_LEND);
	case SLR_EFFECT_RELEASE:
	case SLR_EFFECT_RENEW:
	case SLR_EFFECT_FORGET:
		return apply_who(value, identity, reader, (enum slr_effect_type) * type);
	case SLR_EFFECT_COUNT:
		return apply_count(value, identity, reader);
	case SLR_EFFECT_CORRECT:
		return apply_correct(value, identity, reader);
	case SLR_EFFECT_REFUND:
		return apply_refund(value, identity, reader);
	case SLR_EFFECT_OPEN:
		return apply_open(value, identity, reader);
	case SLR_EFFECT_CLOSE:
		return apply_close(value, identity, reader);
	case SLR_EFFECT_RETURN:
		return apply_return(value, identity, reader);
	case SLR_EFFECT_RATE:
		return apply_rate(value, identity, reader);
	case SLR_EFFECT_TOKEN:
		return apply_token(value, identity, reader);
	case SLR_EFFECT_WHOLE:
		return apply_whole(value, identity, reader);
	case SLR_EFFECT_HOLDS:
		return apply_holds(value, identity, reader);
	case SLR_EFFECT_GONE:
		if (value != NULL)
			slr_value_remove(value, identity);
		return true;
	default:
		return false;
	}
}

/* What was noted of how long a counter lives is of before: only what comes whole says it anew. */
static void forget_until(slr_value value, struct slr_reader reader) {
	const unsigned char *type = slr_read(&reader, 1);
	struct sl_identity identity = {.kind = slr_read_u64(&reader)};
	identity.name = slr_read_u64(&reader);
	if (*type != SLR_EFFECT_WHOLE)
		slr_value_keep(value, identity, SLR_UNTIL_UNKNOWN);
}

static bool apply_all(slr_value *value, struct sluice_bytes effects) {
	struct slr_reader reader = {.at = effects.data, .end = (const unsigned char *)effects.data + effects.len};
	bool right = effects.len != 0;
	while (right && reader.at != reader.end) {
		const struct slr_reader one = reader;
		right = apply_one(value, &reader);
		if (right && value != NULL && *value != 0)
			forget_until(*value, one);
	}
	return right;
}

bool slr_effects_apply(slr_value *value, struct sluice_bytes effects) {
	if (!apply_all(NULL, effects))
		return false;
	bool right = apply_all(value, effects);
	slr_value_slim(value);
	return right;
}
