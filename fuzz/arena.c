/* Any bytes as damage to an arena: a small valid one is changed at the places that the input names, then refused, or
 * repaired by a first opener and verified, asked and charged, and verified again. Nothing may be read or written beside
 * it, nothing may hang, and a repaired arena must be whole.
 *
 * A change is CHANGE_BYTES bytes, each of them one choice. Random bytes seldom look like what belongs to a place, so a
 * change may also be a small step, one bit, a number that is some unit's or slot's, or what stands at another place:
 * two slots with one block, a list that goes round, an undo log that begins elsewhere. */
#include "algo/step.h"
#include "base/assert.h"
#include "fuzz/mutate.h"
#include "store/slot.h"
#include "store/store.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where each choice of a change stands. */
enum {
	AT_PART,      /* of the arena */
	AT_WHERE,     /* in it: 2 bytes */
	AT_HOW = 3,   /* HOW_ */
	AT_VALUE,
	AT_COUNT,     /* how many bytes, or words */
	AT_FROM,      /* 2 bytes: the other place */
	CHANGE_BYTES = 8
};
enum { HOW_SET, HOW_BIT, HOW_STEP, HOW_NUMBER, HOW_COPY, HOW_ONES, HOWS };
enum { KEYS = 48, BYTES = SL_ARENA_BYTES_MIN, OWNER = 1 << SL_OWNER_ROW_SHIFT | 1 };

FUZZ_SHAPE(0, CHANGE_BYTES, SIZE_MAX);

static const char *const notations[] = {
	"sliding-log 60/1h",
	"sliding-window 60/1h",
	"sliding-buckets 60/1h precision 1m",
	"token-bucket 60/1h",
};
enum { LIMITS = sizeof notations / sizeof *notations };

static struct sluice_limit limits[LIMITS];
static unsigned char *valid, *work;
static const sluice_ns start = UINT64_C(1800000000) * 1000000000;

static void attach(struct sluice_store *store, void *memory) {
	*store = (struct sluice_store){0};
	sl_arena_attach(store, memory);
	store->owner = OWNER;
}

static void charge_all(struct sluice_store *store, sluice_operation operation, sluice_ns now) {
	for (uint32_t k = 0; k < KEYS; k++) {
		struct sluice_item item = {.limit = &limits[k % LIMITS], .key = sl_slice(&k, sizeof k)};
		struct sluice_call call = {
			.items = &item, .item_count = 1, .cost = 1 + k % 3, .operation = operation, .now = now + k};
		sluice_err err = sluice_decide(store, &call);
		SL_ASSERT(err == SLUICE_OK || err == SLUICE_E_FULL);
	}
}

static void make_valid(void) {
	const uint64_t secret[2] = {1, 2};
	struct sluice_store store;
	if (valid != NULL)
		return;
	valid = aligned_alloc(SL_PAGE_BYTES, BYTES);
	work = aligned_alloc(SL_PAGE_BYTES, BYTES);
	SL_ASSERT(valid != NULL && work != NULL);
	memset(valid, 0, BYTES);
	for (int i = 0; i < LIMITS; i++)
		SL_ASSERT(sluice_limit_parse(&limits[i], sl_str(notations[i]), NULL) == SLUICE_OK);
	SL_ASSERT(sl_arena_format(valid, BYTES, SL_BLOCKS_PERCENT_DEFAULT, secret, start) == SLUICE_OK);
	attach(&store, valid);
	for (sluice_ns i = 0; i < 12; i++)
		charge_all(&store, SLUICE_CHARGE, start + i * 1000000000);
	SL_ASSERT(sl_store_verify(&store) == NULL);
}

/* Where a change begins: the header, what is behind it, slots and blocks in use, or anywhere. */
static size_t place_of(const struct sluice_store *store, const uint8_t *change, const uint8_t *at) {
	size_t where = (size_t)at[0] << 8 | at[1];
	uint32_t key = (uint32_t)where % KEYS;
	const struct sluice_limit *limit = &limits[key % LIMITS];
	struct sl_place place =
		sl_place_of(store, &limit->derived[SL_IDENT_KIND], limit->derived[SL_IDENT_NAME] == 0 ? 1 : 2,
	                sl_slice(&key, sizeof key), sl_rule_has(limit, SL_HAS_BLOCK));
	const struct sl_slot *slot = sl_slot_find(&place);
	switch (change[0] % 8) {
	case 0:
		return where % sizeof(struct sl_header);
	case 1:
		return SL_PROCESSES_OFFSET + where % (SL_PAGES_OFFSET - SL_PROCESSES_OFFSET);
	case 2:
		return (size_t)store->header->sketch_offset + where;
	case 3:
		return (size_t)store->header->map_offset + where % 2048;
	case 4:
		return (size_t)store->header->blocks_offset + where;
	case 5:
		return slot != NULL ? (size_t)((const unsigned char *)slot - valid) + change[0] / 8 % 8 : where;
	case 6:
		return slot != NULL ? (size_t)((const unsigned char *)sl_slot_state(slot) - valid) + change[0] / 8 % 16 : where;
	default:
		return where * 16;
	}
}

/* Changes some bytes of `work`, at `at` and after it. */
static void change_at(size_t at, const uint8_t *change, size_t from) {
	size_t left = BYTES - at, count = 1 + change[AT_COUNT] % 64;
	uint32_t number = 0;
	count = change[AT_COUNT] < 128 ? 1 : count;
	switch (change[AT_HOW] % HOWS) {
	case HOW_SET:
		memset(work + at, change[AT_VALUE], count < left ? count : left);
		return;
	case HOW_BIT:
		work[at] ^= (unsigned char)(1 << change[AT_VALUE] % 8);
		return;
	case HOW_STEP:
	case HOW_NUMBER:
		at -= at % sizeof number;
		memcpy(&number, work + at, sizeof number);
		number = change[AT_HOW] % HOWS == HOW_STEP ? number + change[AT_VALUE] - 128
		                                           : (uint32_t)change[AT_VALUE] << change[AT_COUNT] % 25;
		memcpy(work + at, &number, sizeof number);
		return;
	case HOW_COPY:
		count = 8 * (1 + change[AT_COUNT] % 16);
		if (count < left && from + count < BYTES)
			memmove(work + at, work + from, count);
		return;
	default:
		memset(work + at, 0xff, 8 < left ? 8 : left);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_store store;
	struct sl_repair found;
	make_valid();
	attach(&store, valid);
	memcpy(work, valid, BYTES);
	for (; size >= CHANGE_BYTES; data += CHANGE_BYTES, size -= CHANGE_BYTES) {
		size_t at = place_of(&store, data, data + AT_WHERE), from = place_of(&store, data, data + AT_FROM);
		if (at < BYTES)
			change_at(at, data, from);
	}
	if (sl_arena_refuse(work, BYTES) != NULL)
		return 0;
	attach(&store, work);
	sl_arena_repair(&store, &found);
	SL_ASSERT(sl_store_verify(&store) == NULL);
	SL_ASSERT(found.counters + found.dropped + found.fresh <= store.page_count * SL_PAGE_SLOTS);
	charge_all(&store, SLUICE_PEEK, start);
	charge_all(&store, SLUICE_CHARGE, start + 3600 * UINT64_C(1000000000));
	charge_all(&store, SLUICE_REFUND, start);
	SL_ASSERT(sl_store_verify(&store) == NULL);
	return 0;
}
