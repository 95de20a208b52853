/* The value of one Redis key: the counters of all limits that count for it, and their companions.
 *
 * Redis keeps one pointer for it, and the pointer is the value:
 *
 *   0                                                no counter
 *   bit 0 set        a window counter, packed        nothing else in memory (its layout: value.c)
 *   bits 2..0 = 100  one counter without a name      32 bytes
 *   bits 2..0 = 010  struct slr_counter *, one       48 bytes
 *   bits 2..0 = 000  struct slr_table *              8 + 56 a counter
 *
 * A counter has its identity (algo/rule.h: kind and name), its state, its holds, and for logs, sub-buckets, leases and
 * members a block. A companion of a counter (companion.h: its reservations, its strikes) is kept as one more counter
 * of an
 * identity that no limit has, all of it in its block. A value goes from one form to another as it must
 * (slr_value_open) and as it may (slr_value_slim). */
#ifndef SLR_VALUE_H
#define SLR_VALUE_H

#include "algo/step.h"
#include "base/assert.h"
#include "hosts/redis/hold.h"

typedef uintptr_t slr_value;

enum {
	SLR_COUNTERS_MAX = 256,      /* that a call leaves at one key; of more it makes none */
	SLR_COUNTERS_READ_MAX = 512, /* that are read: earlier builds could leave a few more */
	SLR_VALUE_TAGS = 7           /* 0: a table, or no counter */
};
#define SLR_UNTIL_UNKNOWN INT64_MAX
/* No instant that is read is later: what follows one by a few windows is then far from where 64 bits end. Callers may
 * set instants up to half of it all. */
#define SLR_INSTANT_MAX (UINT64_MAX / 4 * 3)

struct slr_counter {
	struct sl_identity identity;
	struct sl_state state; /* with a block, the host's 32 bits are its bytes / 8; of a bucket of a name with its rate */
	void *more;            /* its holds; or, for algorithms with blocks, a struct slr_block; or NULL */
};

struct slr_block {
	struct slr_holds *holds;
	unsigned char bytes[];
};

struct slr_row {
	struct slr_counter counter;
	int64_t until_ms; /* wall time from which on it equals no counter, as far as is known */
};

struct slr_table {
	uint16_t count, room;
	uint32_t companions; /* how many of them are companions */
	struct slr_row rows[];
};

/* Companions are all in their block. */
static inline bool slr_has_block(struct sl_identity identity) {
	return sl_identity_is_companion(identity) || sl_identity_has(identity, SL_HAS_BLOCK);
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static inline bool slr_value_is_packed(slr_value value) {
	return (value & 1) != 0;
}

/* How many counters a value has, with their companions. */
static inline uint32_t slr_value_count(slr_value value) {
	if ((value & SLR_VALUE_TAGS) != 0)
		return 1;
	return value == 0 ? 0 : ((const struct slr_table *)value)->count;
}

/* Whether any counter has companions. */
bool slr_value_has_companions(slr_value value);

/* How many quotas of keys' own (own_quota.h) all values of this process have. From any thread. */
uint64_t slr_own_count(void);

/* The counter at an index below the count, brought into `scratch` where it is kept otherwise. Points into the value:
 * valid until that is changed. */
struct slr_counter *slr_value_at(slr_value value, uint32_t index, struct slr_counter *scratch);

/* The counter of an identity, as slr_value_at() gives it; NULL: there is none. */
struct slr_counter *slr_value_find(slr_value value, struct sl_identity identity, struct slr_counter *scratch);

/* An empty value into which `count` counters are about to be read, 0..SLR_COUNTERS_READ_MAX. */
slr_value slr_value_for(uint32_t count);

/* Writes the state of a counter that has neither block nor holds, which is made if there is none: packed where it can
 * be. `until_ms` is noted where there is room for it. */
void slr_value_write(slr_value *value, struct sl_identity identity, const struct sl_state *state, int64_t until_ms);

/* The counter of an identity, to be changed in place: unpacked, made if there is none. Valid until another one is
 * made. */
struct slr_counter *slr_value_open(slr_value *value, struct sl_identity identity, int64_t until_ms);

/* The same for a companion that gathers entries, of which one more ends at `*until_ms`; that becomes the end of the
 * last of them, as far as it is known: the companion is kept until then. */
struct slr_counter *slr_value_gather(slr_value *value, struct sl_identity identity, int64_t *until_ms);

/* Forgets a counter with its block and holds. False: there was none. */
bool slr_value_remove(slr_value *value, struct sl_identity identity);

/* Brings a value into its smallest form, after what was changed in it. */
void slr_value_slim(slr_value *value);

/* When the counter at an index equals none, wall ms; SLR_UNTIL_UNKNOWN: not known. */
int64_t slr_value_until(slr_value value, uint32_t index);

/* Notes when a counter equals none, where there is room for it. */
void slr_value_keep(slr_value value, struct sl_identity identity, int64_t until_ms);

/* Gives back all memory of a value. From any thread. */
void slr_value_free(slr_value value);

/* A value that equals this one, and shares no memory with it. */
slr_value slr_value_copy(slr_value value);

/* Offers each piece of a value's memory to `move`, which returns where it has moved it to, or NULL: it stays. */
void slr_value_move(slr_value *value, void *(*move)(void *context, void *memory), void *context);

/* Bytes of memory that a value takes besides the pointer. */
size_t slr_value_bytes(slr_value value);

/* Whether a value could have been made by this code: for loads, fuzzers, debug builds. */
bool slr_value_is_valid(slr_value value);

/* ---- the parts of a counter -------------------------------------------------------------------------------------- */

static inline struct slr_block *slr_counter_block(const struct slr_counter *counter) {
	return slr_has_block(counter->identity) ? counter->more : NULL;
}

/* What the block of a counter has that has one. */
static inline unsigned char *slr_counter_bytes(const struct slr_counter *counter) {
	struct slr_block *block = slr_counter_block(counter);
	SL_DEBUG_ASSERT(block != NULL);
	return block->bytes;
}

static inline struct slr_holds *slr_counter_holds(const struct slr_counter *counter) {
	if (counter->more == NULL || !slr_has_block(counter->identity))
		return counter->more;
	return ((struct slr_block *)counter->more)->holds;
}

static inline uint64_t slr_counter_block_bytes(const struct slr_counter *counter) {
	return slr_has_block(counter->identity) ? (uint64_t)sl_state_host(&counter->state) * 8 : 0;
}

/* The counter as a step wants it: its state copied, its block in place. */
static inline void slr_counter_load(const struct slr_counter *counter, struct sl_counter *step) {
	step->state = counter->state;
	step->block_bytes = counter->more != NULL ? slr_counter_block_bytes(counter) : 0;
	step->block = step->block_bytes != 0 ? ((struct slr_block *)counter->more)->bytes : NULL;
	step->who = 0;
	step->known = false;
}

/* Hands a list of holds to a counter; NULL: none. */
void slr_counter_set_holds(struct slr_counter *counter, struct slr_holds *holds);

/* A block of so many bytes, a multiple of 8, for slr_counter_set_block(). */
void *slr_block_take(uint64_t bytes);
void slr_block_give(void *bytes);

/* Hands a block to a counter, in place of the one it had, which is given back if it is another. */
void slr_counter_set_block(struct slr_counter *counter, void *block, uint64_t bytes);

/* Whether a counter says nothing that none would not: no state, no holds. */
static inline bool slr_counter_is_none(const struct slr_counter *counter) {
	return sl_state_is_none(&counter->state) && slr_counter_holds(counter) == NULL;
}

#endif
