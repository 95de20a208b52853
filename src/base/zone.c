/* The zones that this process knows.
 *
 * An array of them, filled from the front, and an index by hash that is probed linearly; both only grow. Writers take a
 * place of the array by compare-and-swap, fill it, and then put its number into the index, likewise: that store
 * publishes it. So nobody waits for anybody, and a fork in the middle of it leaves nothing locked.
 *
 * I1  What stands in the index is filled, and never changes.
 * I2  The index has twice as many places as there can be zones: every probe meets an empty one.
 * I3  A name stands in the index once. Two threads that add it at once use up a place of the array each; that of the
 *     one that comes second stays empty. */
#include "base/zone.h"
#include "base/assert.h"
#include "base/siphash.h"

enum { INDEX = 2 * SL_ZONES_MAX };

static const struct sl_shift utc_shifts[] = {{INT64_MIN, 0}};
static struct sl_zone zones[SL_ZONES_MAX] = {
	{.name = "UTC", .hash = 0x555443 /* "UTC" */, .count = 1, .shifts = utc_shifts}};
static uint32_t taken = 1;       /* places of `zones` that are taken */
static uint16_t index_of[INDEX]; /* numbers; 0: empty, UTC is not in it */

int32_t (*sl_zone_load)(struct sluice_bytes name);
int32_t (*sl_zone_load_hash)(uint64_t hash);
const char *(*sl_zone_near)(struct sluice_bytes name);

uint64_t sl_zone_hash(struct sluice_bytes name) {
	/* A fixed key: the identity of a counter must not depend on the process. */
	static const uint64_t key[2] = {0x7a6f6e652d6f662d, 0x736c756963652d31};
	uint64_t hash;
	if (sl_bytes_equal(name, sl_str(zones[0].name)))
		return zones[0].hash;
	hash = sl_siphash(key, NULL, 0, name, 2, 4) & (((uint64_t)1 << 45) - 1);
	return hash != 0 ? hash : 1;
}

/* The place of the index where a name of this hash stands, or an empty one where it could. */
static uint32_t place_of(uint64_t hash, struct sluice_bytes name) {
	uint32_t place = hash % INDEX;
	for (;; place = (place + 1) % INDEX) {
		/* acquire; pairs with sl_zone_add */
		uint32_t number = __atomic_load_n(&index_of[place], __ATOMIC_ACQUIRE);
		if (number == 0 || (zones[number].hash == hash && sl_bytes_equal(name, sl_str(zones[number].name))))
			return place;
	}
}

int32_t sl_zone_find(struct sluice_bytes name) {
	uint64_t hash = sl_zone_hash(name);
	uint32_t number;
	if (hash == zones[0].hash)
		return 0;
	number = __atomic_load_n(&index_of[place_of(hash, name)], __ATOMIC_ACQUIRE);
	return number != 0 ? (int32_t)number : -1;
}

int32_t sl_zone_find_hash(uint64_t hash) {
	if (hash == zones[0].hash)
		return 0;
	for (uint32_t i = 0; i < INDEX; i++) {
		uint32_t number = __atomic_load_n(&index_of[(hash + i) % INDEX], __ATOMIC_ACQUIRE);
		if (number == 0)
			return -1;
		if (zones[number].hash == hash)
			return (int32_t)number;
	}
	return -1;
}

const struct sl_zone *sl_zone_at(uint32_t number) {
	SL_DEBUG_ASSERT(sl_zone_is_known(number));
	return &zones[number];
}

bool sl_zone_is_known(uint32_t number) {
	/* a number is only ever learned from the index, after which its zone is whole */
	return number < __atomic_load_n(&taken, __ATOMIC_RELAXED) && zones[number].count != 0;
}

bool sl_shifts_are_valid(const struct sl_shift *shifts, uint32_t count) {
	if (count < 1 || count > SL_SHIFTS_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (shifts[i].offset_s < -SL_OFFSET_MAX_S || shifts[i].offset_s > SL_OFFSET_MAX_S ||
		    (i != 0 && shifts[i].from_s <= shifts[i - 1].from_s))
			return false;
	return true;
}

static uint32_t swing_of(const struct sl_shift *shifts, uint32_t count) {
	int32_t least = shifts[0].offset_s, most = least;
	for (uint32_t i = 1; i < count; i++) {
		least = shifts[i].offset_s < least ? shifts[i].offset_s : least;
		most = shifts[i].offset_s > most ? shifts[i].offset_s : most;
	}
	return (uint32_t)(most - least);
}

/* A place of the array, or 0: all are taken. */
static uint32_t take_place(void) {
	uint32_t number = __atomic_load_n(&taken, __ATOMIC_RELAXED);
	do {
		if (number == SL_ZONES_MAX)
			return 0;
	} while (!__atomic_compare_exchange_n(&taken, &number, number + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return number;
}

int32_t sl_zone_add(struct sluice_bytes name, const struct sl_shift *shifts, uint32_t count) {
	int32_t there = sl_zone_find(name);
	uint32_t number, place;
	SL_ASSERT(name.len >= 1 && name.len < SL_ZONE_NAME_MAX && sl_shifts_are_valid(shifts, count));
	if (there >= 0)
		return there;
	number = take_place();
	if (number == 0)
		return -1;
	memcpy(zones[number].name, name.data, name.len);
	zones[number].hash = sl_zone_hash(name);
	zones[number].swing_s = swing_of(shifts, count);
	zones[number].shifts = shifts;
	zones[number].count = count;
	for (;;) {
		uint16_t empty = 0;
		place = place_of(zones[number].hash, name);
		/* release: publishes the zone; pairs with place_of */
		if (__atomic_compare_exchange_n(&index_of[place], &empty, (uint16_t)number, false, __ATOMIC_RELEASE,
		                                __ATOMIC_RELAXED))
			return (int32_t)number;
		there = sl_zone_find(name);
		if (there >= 0)
			return there;
	}
}
