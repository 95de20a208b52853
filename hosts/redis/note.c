/* See note.h. All notes are read and checked before the first is applied. What can stop them after that is a value that
 * is not the one they were written for, and has no room for what they say. */
#include "hosts/redis/note.h"

#include "hosts/redis/force.h"
#include "hosts/redis/memory.h"

enum { CORRECTION_BYTES = 28 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void begin(struct slr_notes *notes, enum slr_note type, struct slr_identity identity) {
	unsigned char byte = (unsigned char)type;
	slr_bytes_add(&notes->bytes, &byte, 1);
	slr_bytes_u64(&notes->bytes, identity.kind);
	slr_bytes_u64(&notes->bytes, identity.name);
}

void slr_note_state(struct slr_notes *notes, struct slr_identity identity, const struct sl_state *state) {
	begin(notes, SLR_NOTE_STATE, identity);
	slr_bytes_u64(&notes->bytes, state->w[0]);
	slr_bytes_u64(&notes->bytes, state->w[1]);
}

void slr_note_rate(struct slr_notes *notes, struct slr_identity identity, const struct sl_state *state) {
	if (!slr_keeps_rate(identity) || state->rate == 0)
		return;
	begin(notes, SLR_NOTE_RATE, identity);
	slr_bytes_u32(&notes->bytes, state->rate);
}

void slr_note_charge(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost) {
	begin(notes, SLR_NOTE_CHARGE, identity);
	slr_bytes_u64(&notes->bytes, instant);
	slr_bytes_u32(&notes->bytes, cost);
}

void slr_note_whole(struct slr_notes *notes, const struct slr_counter *counter) {
	begin(notes, SLR_NOTE_WHOLE, counter->identity);
	slr_write_counter(&notes->bytes, counter, SLR_UNTIL_UNKNOWN);
}

void slr_note_holds(struct slr_notes *notes, const struct slr_counter *counter) {
	begin(notes, SLR_NOTE_HOLDS, counter->identity);
	slr_write_holds(&notes->bytes, slr_counter_holds(counter));
}

void slr_note_gone(struct slr_notes *notes, struct slr_identity identity) {
	begin(notes, SLR_NOTE_GONE, identity);
}

void slr_note_lend(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost,
                   uint64_t who) {
	begin(notes, SLR_NOTE_LEND, identity);
	slr_bytes_u64(&notes->bytes, instant);
	slr_bytes_u32(&notes->bytes, cost);
	slr_bytes_u64(&notes->bytes, who);
}

void slr_note_who(struct slr_notes *notes, enum slr_note type, struct slr_identity identity, sluice_ns instant,
                  uint64_t who) {
	begin(notes, type, identity);
	slr_bytes_u64(&notes->bytes, instant);
	slr_bytes_u64(&notes->bytes, who);
}

void slr_note_count(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant, uint32_t cost,
                    uint32_t quota) {
	begin(notes, SLR_NOTE_COUNT, identity);
	slr_bytes_u64(&notes->bytes, instant);
	slr_bytes_u32(&notes->bytes, cost);
	slr_bytes_u32(&notes->bytes, quota);
}

void slr_note_correct(struct slr_notes *notes, struct slr_identity identity, const struct sl_correction *list,
                      uint32_t count) {
	begin(notes, SLR_NOTE_CORRECT, identity);
	slr_bytes_u32(&notes->bytes, count);
	for (uint32_t i = 0; i < count; i++) {
		slr_bytes_u64(&notes->bytes, list[i].instant);
		slr_bytes_u64(&notes->bytes, list[i].known);
		slr_bytes_u32(&notes->bytes, list[i].charged);
		slr_bytes_u32(&notes->bytes, list[i].actual);
		slr_bytes_u32(&notes->bytes, list[i].debt);
	}
}

void slr_note_open(struct slr_notes *notes, struct slr_identity identity, const struct sl_reservation *reservation) {
	begin(notes, SLR_NOTE_OPEN, identity);
	slr_bytes_u64(&notes->bytes, reservation->id);
	slr_bytes_u64(&notes->bytes, reservation->instant);
	slr_bytes_u64(&notes->bytes, reservation->end);
	slr_bytes_u32(&notes->bytes, reservation->cost);
	slr_bytes_u32(&notes->bytes, reservation->debt);
}

void slr_note_close(struct slr_notes *notes, struct slr_identity identity, const struct sl_reservation *reservation) {
	slr_note_who(notes, SLR_NOTE_CLOSE, identity, reservation->end, reservation->id);
}

void slr_note_return(struct slr_notes *notes, struct slr_identity identity, sluice_ns instant) {
	begin(notes, SLR_NOTE_RETURN, identity);
	slr_bytes_u64(&notes->bytes, instant);
}

void slr_note_token(struct slr_notes *notes, const struct slr_token *token) {
	begin(notes, SLR_NOTE_TOKEN, (struct slr_identity){0, 0});
	slr_bytes_u64(&notes->bytes, token->hash);
	slr_bytes_u64(&notes->bytes, token->end);
	slr_bytes_u64(&notes->bytes, token->at);
	slr_bytes_u64(&notes->bytes, token->delay);
	slr_bytes_u32(&notes->bytes, token->granted);
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

/* Whether one more counter may join, if this one is not there. */
static bool has_room(slr_value value, struct slr_identity identity) {
	struct slr_counter scratch;
	return slr_value_count(value) < SLR_COUNTERS_MAX || slr_value_find(value, identity, &scratch) != NULL;
}

static bool apply_state(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	struct sl_counter step = {.state.w = {slr_read_u64(reader), 0}};
	step.state.w[1] = slr_read_u64(reader);
	if (reader->failed || slr_has_block(identity) || !slr_widest_limit(identity, &limit) ||
	    step.state.w[0] > SLR_INSTANT_MAX || sl_state_is_none(&step.state) || !sl_counter_is_valid(&limit, &step))
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

static bool apply_rate(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	uint32_t rate = slr_read_u32(reader);
	struct slr_counter scratch, *counter;
	if (reader->failed || !slr_keeps_rate(identity) || rate == 0)
		return false;
	counter = value != NULL ? slr_value_find(*value, identity, &scratch) : NULL;
	if (counter != NULL)
		counter->state.rate = rate;
	return true;
}

static bool lends(struct slr_identity identity) {
	return !slr_is_side(identity) && slr_algorithm_of(identity) >= SLUICE_CONCURRENCY;
}

static bool apply_charge(slr_value *value, struct slr_identity identity, struct slr_reader *reader, bool lend) {
	sluice_ns instant = slr_read_u64(reader);
	uint32_t cost = slr_read_u32(reader);
	uint64_t who = lend ? slr_read_u64(reader) : 0;
	struct slr_counter *counter;
	struct sluice_limit limit;
	if (reader->failed || !slr_has_block(identity) || !slr_widest_limit(identity, &limit) || cost == 0 ||
	    instant > SLR_INSTANT_MAX || lends(identity) != lend || (lend && who == 0))
		return false;
	if (value == NULL)
		return true;
	if (!has_room(*value, identity))
		return false;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	if (slr_force_counter(&limit, counter, instant, cost, who) && !slr_counter_is_none(counter))
		return true;
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return false;
}

/* Under the quota that it was counted under: a log keeps no more. */
static bool apply_count(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	sluice_ns instant = slr_read_u64(reader);
	uint32_t cost = slr_read_u32(reader), quota = slr_read_u32(reader);
	struct slr_counter *counter;
	struct sluice_limit limit;
	bool counted;
	if (reader->failed || !slr_has_block(identity) || lends(identity) || !slr_widest_limit(identity, &limit) ||
	    cost == 0 || quota == 0 || instant > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	if (!has_room(*value, identity))
		return false;
	limit.quota = quota;
	limit.derived[SL_CAPACITY] = quota;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	counted = slr_count_counter(&limit, counter, instant, cost);
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return counted;
}

/* A lease that is not there any more has ended here as well: that is no error. */
static bool apply_who(slr_value *value, struct slr_identity identity, struct slr_reader *reader, enum slr_note type) {
	sluice_ns instant = slr_read_u64(reader);
	uint64_t who = slr_read_u64(reader);
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	uint32_t algorithm = type == SLR_NOTE_FORGET ? SLUICE_DISTINCT : SLUICE_CONCURRENCY;
	if (reader->failed || slr_is_side(identity) || slr_algorithm_of(identity) != algorithm ||
	    !slr_widest_limit(identity, &limit) || who == 0 || instant > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	counter = slr_value_find(*value, identity, &scratch);
	if (counter == NULL)
		return true;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	(void)slr_end_counter(&limit, counter,
	                      type == SLR_NOTE_FORGET  ? SLR_END_FORGET
	                      : type == SLR_NOTE_RENEW ? SLR_END_RENEW
	                                               : SLR_END_RELEASE,
	                      instant, who);
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

static bool apply_correct(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *counter;
	struct sluice_limit limit;
	struct sl_correction *list;
	uint32_t count;
	bool right;
	if (!read_corrections(reader, &list, &count))
		return false;
	right = slr_has_block(identity) && !lends(identity) && slr_widest_limit(identity, &limit);
	for (uint32_t i = 0; i < count; i++)
		right = right && list[i].instant <= SLR_INSTANT_MAX && list[i].known <= SLR_INSTANT_MAX;
	counter = right && value != NULL ? slr_value_find(*value, identity, &scratch) : NULL;
	if (counter != NULL) {
		counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
		right = slr_correct_counter(&limit, counter, list, count);
		if (slr_counter_is_none(counter))
			slr_value_remove(value, identity);
	}
	slr_give(list);
	return right;
}

/* By which a counter drains, as far as this value knows. */
static uint32_t rate_of(slr_value value, struct slr_identity identity, const struct sluice_limit *limit) {
	struct slr_counter scratch, *counter = slr_value_find(value, identity, &scratch);
	return counter != NULL && counter->state.rate != 0 ? counter->state.rate : limit->quota;
}

static bool apply_open(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	struct sl_reservation reservation = {.id = slr_read_u64(reader)};
	struct sluice_limit limit;
	uint32_t rate;
	reservation.instant = slr_read_u64(reader);
	reservation.end = slr_read_u64(reader);
	reservation.cost = slr_read_u32(reader);
	reservation.debt = slr_read_u32(reader);
	if (reader->failed || !slr_widest_limit(identity, &limit) || reservation.cost == 0 ||
	    reservation.instant >= reservation.end || reservation.end > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	rate = rate_of(*value, identity, &limit);
	return has_room(*value, slr_side_of(SLR_SIDE_LEDGER, identity)) &&
	       slr_ledger_add(value, identity, &limit, rate, &reservation, SLR_UNTIL_UNKNOWN);
}

static bool apply_close(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	sluice_ns end = slr_read_u64(reader);
	uint64_t id = slr_read_u64(reader);
	struct sl_contents contents;
	struct sluice_limit limit;
	struct sl_ledger ledger;
	struct sl_found found;
	if (reader->failed || value == NULL || !slr_widest_limit(identity, &limit))
		return !reader->failed;
	ledger = slr_ledger_of(*value, identity);
	contents = slr_contents_of(*value, identity);
	found = sl_bundle_find(&limit, &ledger, &contents, id, 0);
	if (found.at >= 0 && (found.place != NULL ? found.place->end : found.its.end) == end)
		slr_ledger_close(value, identity, &found);
	return true;
}

static bool apply_return(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	sluice_ns instant = slr_read_u64(reader);
	struct sl_ledger ledger;
	if (reader->failed || value == NULL)
		return !reader->failed;
	ledger = slr_ledger_of(*value, identity);
	slr_ledger_remove(value, identity, 0, sl_ledger_ended(&ledger, instant));
	return true;
}

static bool apply_token(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
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
	if (!has_room(*value, slr_side_of(SLR_SIDE_TOKENS, identity)))
		return false;
	slr_token_add(value, &token, SLR_UNTIL_UNKNOWN);
	return true;
}

/* Read beside the value, and moved into it when it is whole. */
static bool apply_whole(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *read, *counter;
	slr_value beside = 0;
	if (!slr_read_counter(reader, SLR_CODEC_VERSION_RATELESS, &beside))
		return false;
	if (!slr_identity_equal(slr_value_at(beside, 0, &scratch)->identity, identity) ||
	    (value != NULL && !has_room(*value, identity))) {
		slr_value_free(beside);
		return false;
	}
	if (value != NULL) {
		read = slr_value_open(&beside, identity, SLR_UNTIL_UNKNOWN);
		slr_value_remove(value, identity);
		counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
		counter->state = read->state;
		counter->more = read->more;
		read->more = NULL;
	}
	slr_value_free(beside);
	return true;
}

static bool apply_holds(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	struct slr_counter *counter;
	struct slr_holds *holds;
	struct sluice_limit limit;
	if (!slr_read_holds(reader, &holds))
		return false;
	if (value == NULL || !slr_widest_limit(identity, &limit) || !has_room(*value, identity)) {
		slr_give(holds);
		return value == NULL && slr_widest_limit(identity, &limit);
	}
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	slr_give(slr_counter_holds(counter));
	slr_counter_set_holds(counter, holds);
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return true;
}

/* One note; with no value it is only checked. */
static bool apply_one(slr_value *value, struct slr_reader *reader) {
	const unsigned char *type = slr_read(reader, 1);
	struct slr_identity identity = {.kind = slr_read_u64(reader)};
	identity.name = slr_read_u64(reader);
	if (reader->failed)
		return false;
	switch (*type) {
	case SLR_NOTE_STATE:
		return apply_state(value, identity, reader);
	case SLR_NOTE_CHARGE:
	case SLR_NOTE_LEND:
		return apply_charge(value, identity, reader, *type == SLR_NOTE_LEND);
	case SLR_NOTE_RELEASE:
	case SLR_NOTE_RENEW:
	case SLR_NOTE_FORGET:
		return apply_who(value, identity, reader, (enum slr_note) * type);
	case SLR_NOTE_COUNT:
		return apply_count(value, identity, reader);
	case SLR_NOTE_CORRECT:
		return apply_correct(value, identity, reader);
	case SLR_NOTE_OPEN:
		return apply_open(value, identity, reader);
	case SLR_NOTE_CLOSE:
		return apply_close(value, identity, reader);
	case SLR_NOTE_RETURN:
		return apply_return(value, identity, reader);
	case SLR_NOTE_RATE:
		return apply_rate(value, identity, reader);
	case SLR_NOTE_TOKEN:
		return apply_token(value, identity, reader);
	case SLR_NOTE_WHOLE:
		return apply_whole(value, identity, reader);
	case SLR_NOTE_HOLDS:
		return apply_holds(value, identity, reader);
	case SLR_NOTE_GONE:
		if (value != NULL)
			slr_value_remove(value, identity);
		return true;
	default:
		return false;
	}
}

static bool apply_all(slr_value *value, struct sluice_bytes notes) {
	struct slr_reader reader = {.at = notes.data, .end = (const unsigned char *)notes.data + notes.len};
	bool right = notes.len != 0;
	while (right && reader.at != reader.end)
		right = apply_one(value, &reader);
	return right;
}

bool slr_notes_apply(slr_value *value, struct sluice_bytes notes) {
	if (!apply_all(NULL, notes))
		return false;
	bool right = apply_all(value, notes);
	slr_value_slim(value);
	return right;
}
