/* See codec.h. Bytes come from files and from other servers: lengths are compared with what is left before anything is
 * taken for them, and a counter is put into the value only when all of it has been read and found right. */
#include "hosts/redis/codec.h"

#include "base/math.h"

#include "hosts/redis/memory.h"
#include "hosts/redis/companion.h"
#include "hosts/redis/tokens.h"

#include <endian.h>

enum { ROOM_MIN = 64, HOLD_BYTES = 24 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

void slr_bytes_add(struct slr_bytes *bytes, const void *data, size_t len) {
	if (bytes->room - bytes->len < len) {
		size_t room = bytes->room < ROOM_MIN ? ROOM_MIN : bytes->room * 2;
		unsigned char *longer;
		while (room < bytes->len + len)
			room *= 2;
		longer = slr_take(room);
		if (bytes->len != 0)
			memcpy(longer, bytes->data, bytes->len);
		slr_give(bytes->data);
		bytes->data = longer;
		bytes->room = room;
	}
	if (len != 0)
		memcpy(bytes->data + bytes->len, data, len);
	bytes->len += len;
}

/* The first so many bytes of a number, little-endian. */
static inline void add_number(struct slr_bytes *bytes, uint64_t value, size_t len) {
	uint64_t number = htole64(value);
	slr_bytes_add(bytes, &number, len);
}

void slr_bytes_u32(struct slr_bytes *bytes, uint32_t value) {
	add_number(bytes, value, 4);
}

void slr_bytes_u64(struct slr_bytes *bytes, uint64_t value) {
	add_number(bytes, value, 8);
}

void slr_bytes_free(struct slr_bytes *bytes) {
	slr_give(bytes->data);
	*bytes = (struct slr_bytes){.data = NULL};
}

void slr_write_holds(struct slr_bytes *bytes, const struct slr_holds *holds) {
	uint32_t count = holds != NULL ? holds->count : 0;
	slr_bytes_u32(bytes, count);
	for (uint32_t i = 0; i < count; i++) {
		slr_bytes_u64(bytes, holds->list[i].id);
		slr_bytes_u64(bytes, holds->list[i].end);
		slr_bytes_u32(bytes, holds->list[i].cost);
		slr_bytes_u32(bytes, holds->list[i].lease);
	}
}

void slr_write_counter(struct slr_bytes *bytes, const struct slr_counter *counter, int64_t until_ms) {
	uint64_t block_bytes = slr_counter_block_bytes(counter);
	struct sl_state state = counter->state;
	if (slr_has_block(counter->identity))
		sl_state_set_host(&state, 0); /* said by the bytes that follow */
	if (sl_identity_is_companion(counter->identity))
		block_bytes = slr_companion_bytes(counter->identity, &counter->state);
	slr_bytes_u64(bytes, counter->identity.kind);
	slr_bytes_u64(bytes, counter->identity.name);
	slr_bytes_u64(bytes, state.w[0]);
	slr_bytes_u64(bytes, state.w[1]);
	slr_bytes_u64(bytes, (uint64_t)until_ms);
	slr_bytes_u32(bytes, (uint32_t)block_bytes);
	if (slr_companion_is_tokens(counter->identity)) {
		void *saved = slr_tokens_saved(slr_counter_bytes(counter), block_bytes);
		slr_bytes_add(bytes, saved, block_bytes);
		slr_give(saved);
	} else if (block_bytes != 0) {
		slr_bytes_add(bytes, slr_counter_bytes(counter), block_bytes);
	}
	slr_write_holds(bytes, slr_counter_holds(counter));
}

static bool is_new(struct sl_identity identity) {
	struct sluice_limit limit;
	return sl_identity_is_companion(identity) || sl_identity_has(identity, SL_HAS_SEATS) ||
	       (sl_identity_widest(identity, &limit) && limit.calendar != SLUICE_CALENDAR_NONE);
}

static uint64_t version_of(slr_value value) {
	struct slr_counter scratch;
	uint64_t version = SLR_CODEC_VERSION_OLD;
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		const struct slr_counter *counter = slr_value_at(value, i, &scratch);
		if (slr_companion_is(SLR_COMPANION_OVERRIDE, counter->identity))
			return SLR_CODEC_VERSION;
		if (slr_companion_is(SLR_COMPANION_CONTENTS, counter->identity))
			version = SLR_CODEC_VERSION_BUNDLES;
		else if (sl_identity_keeps_rate(counter->identity) && counter->state.rate != 0)
			version = sl_max(version, SLR_CODEC_VERSION_RATES);
		else if (is_new(counter->identity))
			version = sl_max(version, SLR_CODEC_VERSION_RATELESS);
	}
	return version;
}

void slr_write_value(struct slr_bytes *bytes, slr_value value) {
	uint32_t count = slr_value_count(value);
	uint64_t version = version_of(value);
	struct slr_counter scratch;
	add_number(bytes, version, 1);
	slr_bytes_u32(bytes, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct slr_counter *counter = slr_value_at(value, i, &scratch);
		slr_write_counter(bytes, counter, slr_value_until(value, i));
		if (version >= SLR_CODEC_VERSION_RATES)
			slr_bytes_u32(bytes, sl_identity_keeps_rate(counter->identity) ? counter->state.rate : 0);
	}
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

const void *slr_read(struct slr_reader *reader, size_t len) {
	const unsigned char *at = reader->at;
	if (reader->failed || (size_t)(reader->end - at) < len) {
		reader->failed = true;
		return NULL;
	}
	reader->at += len;
	return at;
}

static uint64_t read_number(struct slr_reader *reader, size_t len) {
	const unsigned char *at = slr_read(reader, len);
	uint64_t value = 0;
	for (size_t i = 0; at != NULL && i < len; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

uint32_t slr_read_u32(struct slr_reader *reader) {
	return (uint32_t)read_number(reader, 4);
}

uint64_t slr_read_u64(struct slr_reader *reader) {
	return read_number(reader, 8);
}

/* Whether a hold may join those that have been read: they are in order, and none stands twice. */
static bool is_next(const struct slr_holds *holds, const struct slr_hold *hold) {
	if (hold->cost < SLR_HOLD_COST_MIN || hold->lease > 1 || hold->end > SLR_INSTANT_MAX ||
	    slr_holds_find(holds, hold->id, hold->lease) >= 0)
		return false;
	return holds == NULL || holds->list[holds->count - 1].end <= hold->end;
}

bool slr_read_holds(struct slr_reader *reader, struct slr_holds **holds) {
	uint32_t count = slr_read_u32(reader);
	*holds = NULL;
	reader->failed = reader->failed || count > SLR_HOLDS_MAX || (size_t)(reader->end - reader->at) / HOLD_BYTES < count;
	for (uint32_t i = 0; i < count && !reader->failed; i++) {
		struct slr_hold hold = {.id = slr_read_u64(reader)};
		hold.end = slr_read_u64(reader);
		hold.cost = slr_read_u32(reader);
		hold.lease = slr_read_u32(reader);
		if (is_next(*holds, &hold))
			*holds = slr_holds_add(*holds, &hold);
		else
			reader->failed = true;
	}
	if (reader->failed) {
		slr_give(*holds);
		*holds = NULL;
	}
	return !reader->failed;
}

/* The block of a counter, copied to where it is aligned; NULL for none. */
static bool read_block(struct slr_reader *reader, struct sl_identity identity, void **block, uint32_t *bytes) {
	const void *from;
	*block = NULL;
	*bytes = slr_read_u32(reader);
	from = slr_read(reader, *bytes);
	if (from == NULL || *bytes % 8 != 0 || (*bytes != 0 && !slr_has_block(identity)))
		return false;
	if (*bytes == 0)
		return true;
	*block = slr_block_take(*bytes);
	memcpy(*block, from, *bytes);
	return true;
}

static bool is_companion(struct sl_identity identity, struct sl_counter *counter) {
	struct sl_state state = counter->state;
	sl_state_set_host(&state, (uint32_t)(counter->block_bytes / 8));
	if (sl_state_host(&counter->state) != 0)
		return false;
	return slr_companion_is_tokens(identity) ? slr_tokens_load(counter)
	                                         : slr_companion_is_valid(identity, &state, counter->block);
}

/* Whether state and block are ones that a limit of this identity can have led to; tokens are placed then. */
static bool is_counter(struct sl_identity identity, struct sl_counter *counter) {
	struct sluice_limit limit;
	if (sl_identity_is_companion(identity))
		return is_companion(identity, counter);
	if (!sl_identity_widest(identity, &limit))
		return false;
	if (sl_state_coarse(&counter->state) > SLR_INSTANT_MAX ||
	    (slr_has_block(identity) && sl_state_host(&counter->state) != 0))
		return false;
	return sl_counter_is_valid(&limit, counter);
}

static void put_counter(slr_value *value, struct sl_identity identity, int64_t until_ms, const struct sl_counter *step,
                        struct slr_holds *holds) {
	struct slr_counter *counter;
	if (step->block == NULL && holds == NULL) {
		slr_value_write(value, identity, &step->state, until_ms);
		return;
	}
	counter = slr_value_open(value, identity, until_ms);
	counter->state = step->state;
	if (step->block != NULL)
		slr_counter_set_block(counter, step->block, step->block_bytes);
	slr_counter_set_holds(counter, holds);
}

/* The rate that follows a counter that keeps one; 0 of others. */
static bool read_rate(struct slr_reader *reader, struct sl_identity identity, uint64_t version, uint32_t *rate) {
	*rate = version >= SLR_CODEC_VERSION_RATES ? slr_read_u32(reader) : 0;
	return !reader->failed && (*rate == 0 || sl_identity_keeps_rate(identity));
}

bool slr_read_counter(struct slr_reader *reader, uint64_t version, slr_value *value) {
	struct sl_identity identity = {.kind = slr_read_u64(reader)};
	struct slr_holds *holds = NULL;
	struct sl_counter step;
	struct slr_counter scratch;
	uint32_t block_bytes;
	int64_t until_ms;
	identity.name = slr_read_u64(reader);
	step.state.w[0] = slr_read_u64(reader);
	step.state.w[1] = slr_read_u64(reader);
	until_ms = (int64_t)slr_read_u64(reader);
	if (!read_block(reader, identity, &step.block, &block_bytes))
		return false;
	step.block_bytes = block_bytes;
	step.state.life = 0;
	if (slr_read_holds(reader, &holds) && read_rate(reader, identity, version, &step.state.rate) &&
	    is_counter(identity, &step) &&
	    (sl_identity_is_companion(identity) ? holds == NULL : holds != NULL || !sl_state_is_none(&step.state)) &&
	    slr_value_count(*value) < SLR_COUNTERS_READ_MAX && slr_value_find(*value, identity, &scratch) == NULL) {
		put_counter(value, identity, until_ms, &step, holds);
		return true;
	}
	slr_block_give(step.block);
	slr_give(holds);
	return false;
}

slr_value slr_read_value(struct sluice_bytes bytes) {
	struct slr_reader reader = {.at = bytes.data, .end = (const unsigned char *)bytes.data + bytes.len};
	uint64_t version = read_number(&reader, 1);
	uint32_t count = slr_read_u32(&reader);
	bool right = version >= SLR_CODEC_VERSION_OLD && version <= SLR_CODEC_VERSION && count >= 1 &&
	             count <= SLR_COUNTERS_READ_MAX;
	slr_value value = right ? slr_value_for(count) : 0;
	for (uint32_t i = 0; right && i < count; i++)
		right = slr_read_counter(&reader, version, &value);
	if (right && !reader.failed && reader.at == reader.end) {
		slr_value_slim(&value);
		return value;
	}
	slr_value_free(value);
	return 0;
}
