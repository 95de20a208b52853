/* The forms of a value, and the ways between them.
 *
 * A key that is limited by one window, which most are, costs what an empty key costs: its counter is packed into the
 * pointer that Redis keeps for a value of ours, and takes no memory of its own.
 *
 *   bit  0        1
 *   bits 9..1     number of its shape (shape.h): identity, and bits 63..32 of its instant in ms
 *   bits 20..10   count of its window
 *   bits 31..21   count of the window before
 *   bits 63..32   bits 31..0 of its instant in ms
 *
 * Nothing is lost: an instant that is no whole number of ms, a count above 2047 or a shape for which there is no room
 * make it a counter in memory, and it is packed again when it fits.
 *
 * I1  A packed value is a user of its shape; whoever copies or forgets one says so there.
 * I2  Identities of one value differ. A table has no row that is none (no state and no holds) but while it is changed.
 * I3  A counter of an algorithm with blocks has a block exactly if the host's bits of its state say how long it is. */
#include "hosts/redis/value.h"

#include "algo/calendar.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/shape.h"
#include "hosts/redis/companion.h"

_Static_assert(sizeof(slr_value) == 8, "a packed counter takes 64 bits");
_Static_assert(sizeof(struct slr_counter) == 48 && sizeof(struct slr_row) == 56, "sizes that value.h promises");

/* A counter of an identity that has no name (most logs), alone in its value. */
struct brief {
	uint64_t kind;
	uint64_t w[2]; /* of its state: one without a name keeps no rate */
	void *more;
};
_Static_assert(sizeof(struct brief) == 32, "a size that value.h promises");

enum { TAG_PACKED = 1, TAG_ONE = 2, TAG_BRIEF = 4, COUNT_BITS = 11, COUNT_MAX = (1 << COUNT_BITS) - 1, ROOM_MIN = 2 };

/* ---- packing --------------------------------------------------------------------------------------------------- */

static inline uint32_t shape_number(slr_value value) {
	return value >> 1 & (SLR_SHAPES - 1);
}

static inline void unpack(slr_value value, struct slr_counter *counter) {
	const struct slr_shape *shape = slr_shape_at(shape_number(value));
	uint64_t ms = (uint64_t)shape->era << SLR_SHAPE_ERA_SHIFT | value >> 32;
	counter->identity = (struct sl_identity){shape->kind, shape->name};
	counter->state = sl_window_state((struct sl_window_counts){
		.last = ms * SL_MS_NS, .prev = value >> 21 & COUNT_MAX, .cur = value >> 10 & COUNT_MAX});
	counter->more = NULL;
}

/* Whether a state can be packed, and how, but for its shape; and of which era it is. */
static inline bool pack(struct sl_identity identity, const struct sl_state *state, slr_value *packed, uint32_t *era) {
	struct sl_window_counts counts = sl_window_counts(state);
	uint64_t ms = counts.last / SL_MS_NS;
	SL_DEBUG_ASSERT(!sl_identity_is_companion(identity));
	if (!sl_identity_has(identity, SL_HAS_WINDOWS))
		return false;
	if (counts.cur > COUNT_MAX || counts.prev > COUNT_MAX || ms * SL_MS_NS != counts.last)
		return false;
	*era = (uint32_t)(ms >> SLR_SHAPE_ERA_SHIFT);
	*packed = ms << 32 | (uint64_t)counts.prev << 21 | (uint64_t)counts.cur << 10 | TAG_PACKED;
	return true;
}

/* Packs a state into an empty value, or anew into the packed one that has this identity. */
static inline bool write_packed(slr_value *value, struct sl_identity identity, const struct sl_state *state) {
	slr_value packed;
	uint32_t era;
	int32_t number;
	if (!pack(identity, state, &packed, &era))
		return false;
	if (*value != 0 && slr_shape_at(shape_number(*value))->era == era) {
		*value = packed | (slr_value)shape_number(*value) << 1;
		return true;
	}
	number = slr_shape_use(identity.kind, identity.name, era);
	if (number < 0)
		return false;
	if (*value != 0)
		slr_shape_leave(shape_number(*value));
	*value = packed | (slr_value)(uint32_t)number << 1;
	return true;
}

/* ---- the forms ------------------------------------------------------------------------------------------------- */

static inline struct slr_counter *one_of(slr_value value) {
	return (value & SLR_VALUE_TAGS) == TAG_ONE ? (struct slr_counter *)(value - TAG_ONE) : NULL;
}

static inline struct brief *brief_of(slr_value value) {
	return (value & SLR_VALUE_TAGS) == TAG_BRIEF ? (struct brief *)(value - TAG_BRIEF) : NULL;
}

static inline struct slr_table *table_of(slr_value value) {
	return (value & SLR_VALUE_TAGS) == 0 ? (struct slr_table *)value : NULL;
}

static struct slr_counter *view_brief(const struct brief *brief, struct slr_counter *scratch) {
	*scratch = (struct slr_counter){{brief->kind, 0}, {.w = {brief->w[0], brief->w[1]}}, brief->more};
	return scratch;
}

bool slr_value_has_companions(slr_value value) {
	if (table_of(value) != NULL)
		return table_of(value)->companions != 0;
	return brief_of(value) != NULL ? sl_identity_is_companion((struct sl_identity){brief_of(value)->kind, 0})
	                               : one_of(value) != NULL && sl_identity_is_companion(one_of(value)->identity);
}

struct slr_counter *slr_value_at(slr_value value, uint32_t index, struct slr_counter *scratch) {
	if (slr_value_is_packed(value)) {
		unpack(value, scratch);
		return scratch;
	}
	if (brief_of(value) != NULL)
		return view_brief(brief_of(value), scratch);
	SL_DEBUG_ASSERT(index < slr_value_count(value));
	return one_of(value) != NULL ? one_of(value) : &table_of(value)->rows[index].counter;
}

int64_t slr_value_until(slr_value value, uint32_t index) {
	struct slr_table *table = table_of(value);
	return table != NULL ? table->rows[index].until_ms : SLR_UNTIL_UNKNOWN;
}

void slr_value_keep(slr_value value, struct sl_identity identity, int64_t until_ms) {
	struct slr_counter scratch, *counter = slr_value_find(value, identity, &scratch);
	if (counter != NULL && table_of(value) != NULL)
		((struct slr_row *)counter)->until_ms = until_ms;
}

struct slr_counter *slr_value_find(slr_value value, struct sl_identity identity, struct slr_counter *scratch) {
	uint32_t count = slr_value_count(value);
	if (slr_value_is_packed(value)) {
		unpack(value, scratch);
		return sl_identity_equal(scratch->identity, identity) ? scratch : NULL;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct slr_counter *counter = slr_value_at(value, i, scratch);
		if (sl_identity_equal(counter->identity, identity))
			return counter;
	}
	return NULL;
}

static struct slr_row *add_row(slr_value *value, const struct slr_counter *counter, int64_t until_ms) {
	struct slr_table *table = table_of(*value);
	if (table == NULL || table->count == table->room) {
		uint32_t count = table == NULL ? 0 : table->count, room = count < ROOM_MIN ? ROOM_MIN : count + count / 2;
		struct slr_table *longer = slr_take(sizeof *longer + room * sizeof longer->rows[0]);
		longer->count = (uint16_t)count;
		longer->room = (uint16_t)room;
		longer->companions = table == NULL ? 0 : table->companions;
		if (count != 0)
			memcpy(longer->rows, table->rows, count * sizeof table->rows[0]);
		slr_give(table);
		*value = (slr_value)longer;
		table = longer;
	}
	SL_ASSERT(table->count < table->room);
	table->rows[table->count] = (struct slr_row){*counter, until_ms};
	table->companions += sl_identity_is_companion(counter->identity);
	return &table->rows[table->count++];
}

slr_value slr_value_for(uint32_t count) {
	struct slr_table *table;
	if (count < 2)
		return 0;
	table = slr_take(sizeof *table + count * sizeof table->rows[0]);
	table->count = 0;
	table->room = (uint16_t)count;
	table->companions = 0;
	return (slr_value)table;
}

/* Gives up the form of a value of one counter, whose holds and block stay. */
static void leave_form(slr_value value) {
	if (slr_value_is_packed(value))
		slr_shape_leave(shape_number(value));
	else if (brief_of(value) != NULL)
		slr_give(brief_of(value));
	else
		slr_give(one_of(value));
}

/* The one counter of a value becomes the first row of a table. */
static void make_table(slr_value *value) {
	struct slr_counter scratch, *counter = slr_value_at(*value, 0, &scratch);
	slr_value table = 0;
	add_row(&table, counter, SLR_UNTIL_UNKNOWN);
	leave_form(*value);
	*value = table;
}

static void make_one(slr_value *value, const struct slr_counter *counter) {
	struct slr_counter *one = slr_take(sizeof *one);
	*one = *counter;
	SL_ASSERT(((slr_value)one & SLR_VALUE_TAGS) == 0);
	*value = (slr_value)one + TAG_ONE;
}

struct slr_counter *slr_value_open(slr_value *value, struct sl_identity identity, int64_t until_ms) {
	struct slr_counter scratch = {.identity = identity}, *counter = slr_value_find(*value, identity, &scratch);
	if (counter == NULL && *value != 0) {
		struct slr_counter fresh = {.identity = identity};
		if ((*value & SLR_VALUE_TAGS) != 0)
			make_table(value);
		return &add_row(value, &fresh, until_ms)->counter;
	}
	if (counter == NULL || counter == &scratch) {
		if (counter != NULL)
			leave_form(*value);
		make_one(value, &scratch);
		return one_of(*value);
	}
	if (table_of(*value) != NULL && until_ms != SLR_UNTIL_UNKNOWN)
		((struct slr_row *)counter)->until_ms = until_ms;
	return counter;
}

struct slr_counter *slr_value_gather(slr_value *value, struct sl_identity identity, int64_t *until_ms) {
	struct slr_counter scratch, *counter = slr_value_find(*value, identity, &scratch);
	struct slr_row *row = counter != NULL && table_of(*value) != NULL ? (struct slr_row *)counter : NULL;
	if (row == NULL) {
		if (counter != NULL)
			*until_ms = SLR_UNTIL_UNKNOWN;
		return slr_value_open(value, identity, *until_ms);
	}
	if (row->until_ms < *until_ms)
		row->until_ms = *until_ms;
	*until_ms = row->until_ms;
	return counter;
}

void slr_value_write(slr_value *value, struct sl_identity identity, const struct sl_state *state, int64_t until_ms) {
	if (*value == 0) {
		if (write_packed(value, identity, state))
			return;
	} else if (slr_value_is_packed(*value)) {
		const struct slr_shape *shape = slr_shape_at(shape_number(*value));
		if (sl_identity_equal((struct sl_identity){shape->kind, shape->name}, identity) &&
		    write_packed(value, identity, state))
			return;
	}
	slr_value_open(value, identity, until_ms)->state = *state;
}

/* Values are freed by any thread. */
static uint64_t own_count;

uint64_t slr_own_count(void) {
	return __atomic_load_n(&own_count, __ATOMIC_RELAXED);
}

/* A block of a companion has come, or goes. */
static inline void count_own(struct sl_identity identity, uint64_t more) {
	if (slr_companion_is(SLR_COMPANION_OVERRIDE, identity))
		__atomic_fetch_add(&own_count, more, __ATOMIC_RELAXED);
}

static void free_more(struct slr_counter *counter) {
	if (counter->more != NULL)
		count_own(counter->identity, UINT64_MAX);
	if (counter->more != NULL && slr_has_block(counter->identity))
		slr_give(((struct slr_block *)counter->more)->holds);
	slr_give(counter->more);
	counter->more = NULL;
}

void slr_value_free(slr_value value) {
	struct slr_table *table = table_of(value);
	struct slr_counter scratch;
	if ((value & SLR_VALUE_TAGS) != 0) {
		free_more(slr_value_at(value, 0, &scratch));
		leave_form(value);
	} else if (table != NULL) {
		for (uint32_t i = 0; i < table->count; i++)
			free_more(&table->rows[i].counter);
		slr_give(table);
	}
}

bool slr_value_remove(slr_value *value, struct sl_identity identity) {
	struct slr_counter scratch, *counter = slr_value_find(*value, identity, &scratch);
	struct slr_table *table = table_of(*value);
	if (counter == NULL)
		return false;
	if (table == NULL || table->count == 1) {
		slr_value_free(*value);
		*value = 0;
		return true;
	}
	free_more(counter);
	table->companions -= sl_identity_is_companion(identity);
	*(struct slr_row *)counter = table->rows[--table->count];
	return true;
}

static void make_brief(slr_value *value) {
	struct slr_counter *one = one_of(*value);
	struct brief *brief = slr_take(sizeof *brief);
	*brief = (struct brief){one->identity.kind, {one->state.w[0], one->state.w[1]}, one->more};
	SL_ASSERT(((slr_value)brief & SLR_VALUE_TAGS) == 0);
	slr_give(one);
	*value = (slr_value)brief + TAG_BRIEF;
}

void slr_value_slim(slr_value *value) {
	struct slr_table *table = table_of(*value);
	struct slr_counter *one;
	slr_value packed = 0;
	if (table != NULL && table->count == 1) {
		make_one(value, &table->rows[0].counter);
		slr_give(table);
	}
	one = one_of(*value);
	if (one == NULL)
		return;
	if (one->more == NULL && write_packed(&packed, one->identity, &one->state)) {
		slr_give(one);
		*value = packed;
	} else if (one->identity.name == 0) {
		make_brief(value);
	}
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static struct slr_block *block_of_bytes(void *bytes) {
	return (struct slr_block *)(void *)((unsigned char *)bytes - offsetof(struct slr_block, bytes));
}

void *slr_block_take(uint64_t bytes) {
	struct slr_block *block = slr_take(sizeof *block + bytes);
	SL_DEBUG_ASSERT(bytes % 8 == 0);
	block->holds = NULL;
	return block->bytes;
}

void slr_block_give(void *bytes) {
	if (bytes != NULL)
		slr_give(block_of_bytes(bytes));
}

void slr_counter_set_block(struct slr_counter *counter, void *block, uint64_t bytes) {
	struct slr_block *before = counter->more, *now = block_of_bytes(block);
	SL_ASSERT(slr_has_block(counter->identity) && bytes / 8 <= UINT32_MAX);
	if (before != now) {
		now->holds = before != NULL ? before->holds : NULL;
		if (before == NULL)
			count_own(counter->identity, 1);
		slr_give(before);
		counter->more = now;
	}
	sl_state_set_host(&counter->state, (uint32_t)(bytes / 8));
}

void slr_counter_set_holds(struct slr_counter *counter, struct slr_holds *holds) {
	if (!slr_has_block(counter->identity)) {
		counter->more = holds;
		return;
	}
	if (counter->more == NULL && holds != NULL)
		counter->more = block_of_bytes(slr_block_take(0));
	if (counter->more == NULL)
		return;
	((struct slr_block *)counter->more)->holds = holds;
	if (holds == NULL && sl_state_host(&counter->state) == 0) {
		slr_give(counter->more);
		counter->more = NULL;
	}
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static struct slr_counter copy_counter(const struct slr_counter *from) {
	struct slr_counter to = *from;
	uint64_t bytes = slr_counter_block_bytes(from);
	to.more = NULL;
	if (bytes != 0) {
		to.more = block_of_bytes(slr_block_take(bytes));
		memcpy(slr_counter_bytes(&to), slr_counter_bytes(from), bytes);
		count_own(to.identity, 1);
	}
	slr_counter_set_holds(&to, slr_holds_copy(slr_counter_holds(from)));
	return to;
}

slr_value slr_value_copy(slr_value value) {
	slr_value copy = 0;
	struct slr_counter counter, scratch;
	if (slr_value_is_packed(value)) {
		slr_shape_use_again(shape_number(value));
		return value;
	}
	if ((value & SLR_VALUE_TAGS) != 0) {
		counter = copy_counter(slr_value_at(value, 0, &scratch));
		make_one(&copy, &counter);
		slr_value_slim(&copy);
		return copy;
	}
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		counter = copy_counter(&table_of(value)->rows[i].counter);
		add_row(&copy, &counter, table_of(value)->rows[i].until_ms);
	}
	return copy;
}

static void *moved(void *memory, void *(*move)(void *context, void *memory), void *context) {
	void *to = memory != NULL ? move(context, memory) : NULL;
	return to != NULL ? to : memory;
}

static void move_more(struct slr_counter *counter, void *(*move)(void *context, void *memory), void *context) {
	struct slr_block *block;
	counter->more = moved(counter->more, move, context);
	block = slr_counter_block(counter);
	if (block != NULL)
		block->holds = moved(block->holds, move, context);
}

void slr_value_move(slr_value *value, void *(*move)(void *context, void *memory), void *context) {
	struct slr_table *table = table_of(*value);
	if (brief_of(*value) != NULL) {
		struct brief *brief = moved(brief_of(*value), move, context);
		struct slr_counter scratch;
		move_more(view_brief(brief, &scratch), move, context);
		brief->more = scratch.more;
		*value = (slr_value)brief + TAG_BRIEF;
	} else if (one_of(*value) != NULL) {
		*value = (slr_value)moved(one_of(*value), move, context) + TAG_ONE;
		move_more(one_of(*value), move, context);
	} else if (table != NULL) {
		table = moved(table, move, context);
		*value = (slr_value)table;
		for (uint32_t i = 0; i < table->count; i++)
			move_more(&table->rows[i].counter, move, context);
	}
}

static size_t more_bytes(const struct slr_counter *counter) {
	size_t bytes = slr_holds_bytes(slr_counter_holds(counter));
	if (slr_counter_block(counter) != NULL)
		bytes += sizeof(struct slr_block) + slr_counter_block_bytes(counter);
	return bytes;
}

size_t slr_value_bytes(slr_value value) {
	struct slr_table *table = table_of(value);
	struct slr_counter scratch;
	size_t bytes;
	if (slr_value_is_packed(value))
		return 0;
	if ((value & SLR_VALUE_TAGS) != 0)
		return (brief_of(value) != NULL ? sizeof(struct brief) : sizeof(struct slr_counter)) +
		       more_bytes(slr_value_at(value, 0, &scratch));
	if (table == NULL)
		return 0;
	bytes = sizeof *table + table->room * sizeof table->rows[0];
	for (uint32_t i = 0; i < table->count; i++)
		bytes += more_bytes(&table->rows[i].counter);
	return bytes;
}
