/* See note.h. All notes are read and checked before the first is applied. What can stop them after that is a value that
 * is not the one they were written for, and has no room for what they say. */
#include "hosts/redis/note.h"

#include "hosts/redis/force.h"
#include "hosts/redis/memory.h"

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
	if (counter != NULL && counter != &scratch)
		counter->state = step.state;
	else if (has_room(*value, identity))
		slr_value_write(value, identity, &step.state, SLR_UNTIL_UNKNOWN);
	else
		return false;
	return true;
}

static bool apply_charge(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	sluice_ns instant = slr_read_u64(reader);
	uint32_t cost = slr_read_u32(reader);
	struct slr_counter *counter;
	struct sluice_limit limit;
	if (reader->failed || !slr_has_block(identity) || !slr_widest_limit(identity, &limit) || cost == 0 ||
	    instant > SLR_INSTANT_MAX)
		return false;
	if (value == NULL)
		return true;
	if (!has_room(*value, identity))
		return false;
	counter = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
	if (slr_force_counter(&limit, counter, instant, cost) && !slr_counter_is_none(counter))
		return true;
	if (slr_counter_is_none(counter))
		slr_value_remove(value, identity);
	return false;
}

/* Read beside the value, and moved into it when it is whole. */
static bool apply_whole(slr_value *value, struct slr_identity identity, struct slr_reader *reader) {
	struct slr_counter scratch, *read, *counter;
	slr_value beside = 0;
	if (!slr_read_counter(reader, &beside))
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
		return apply_charge(value, identity, reader);
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
