/* The count of connections of each client address: a hash table of the addresses that have any.
 *
 * Open addressing with linear probing; who leaves is closed over by moving back those after it, so there are no tombs
 * and the table is as large as the addresses that are here now ask for. The hash is keyed: an attacker with a whole
 * network to choose from must not be able to choose collisions. One lock: it is taken twice in a connection's life.
 *
 *  B1  A slot with count 0 is free; between an address's home and its slot no slot is free.
 *  B2  At most half of the slots are taken. */
#include "hosts/server/net/bounds.h"

#include "base/assert.h"
#include "base/siphash.h"
#include "os/map.h"

#include <pthread.h>
#include <stdlib.h>

enum { SLOTS_MIN = 64 };

struct slot {
	struct sl_address network;
	uint32_t count;
};

struct sl_bounds {
	_Atomic uint32_t open;
	_Atomic uint64_t *refused;
	uint32_t descriptors; /* set while there is one thread */
	uint64_t secret[2];
	pthread_mutex_t lock; /* guards what follows */
	struct slot *slots;
	size_t capacity, taken; /* capacity is a power of two */
};

struct sl_bounds *sl_bounds_new(_Atomic uint64_t *refused) {
	struct sl_bounds *bounds = calloc(1, sizeof *bounds);
	if (bounds == NULL)
		return NULL;
	bounds->refused = refused;
	bounds->descriptors = UINT32_MAX;
	bounds->capacity = SLOTS_MIN;
	bounds->slots = calloc(SLOTS_MIN, sizeof *bounds->slots);
	pthread_mutex_init(&bounds->lock, NULL);
	if (bounds->slots != NULL && sl_random_secret(bounds->secret))
		return bounds;
	sl_bounds_free(bounds);
	return NULL;
}

void sl_bounds_free(struct sl_bounds *bounds) {
	if (bounds == NULL)
		return;
	pthread_mutex_destroy(&bounds->lock);
	free(bounds->slots);
	free(bounds);
}

/* ---- the table; all under the lock ------------------------------------------------------------------------------- */

static size_t home_of(const struct sl_bounds *bounds, const struct sl_address *network) {
	return (size_t)sl_siphash(bounds->secret, NULL, 0, sl_slice(network->bytes, sizeof network->bytes), 1, 3) &
	       (bounds->capacity - 1);
}

/* The slot of an address, or the free one where it would go. */
static struct slot *find(const struct sl_bounds *bounds, const struct sl_address *network) {
	size_t i = home_of(bounds, network);
	while (bounds->slots[i].count != 0 && memcmp(&bounds->slots[i].network, network, sizeof *network) != 0)
		i = (i + 1) & (bounds->capacity - 1);
	return &bounds->slots[i];
}

static bool resize(struct sl_bounds *bounds, size_t capacity) {
	struct slot *before = bounds->slots, *slots = calloc(capacity, sizeof *slots);
	size_t count = bounds->capacity;
	if (slots == NULL)
		return false;
	bounds->slots = slots;
	bounds->capacity = capacity;
	for (size_t i = 0; i < count; i++)
		if (before[i].count != 0)
			*find(bounds, &before[i].network) = before[i];
	free(before);
	return true;
}

/* Empties a slot, and moves back whoever stands after it because of it (B1). */
static void vacate(struct sl_bounds *bounds, struct slot *slot) {
	size_t mask = bounds->capacity - 1, hole = (size_t)(slot - bounds->slots);
	for (size_t i = (hole + 1) & mask; bounds->slots[i].count != 0; i = (i + 1) & mask) {
		size_t home = home_of(bounds, &bounds->slots[i].network);
		if (((i - home) & mask) < ((i - hole) & mask)) /* its home lies after the hole: it is right where it is */
			continue;
		bounds->slots[hole] = bounds->slots[i];
		hole = i;
	}
	bounds->slots[hole].count = 0;
	bounds->taken--;
}

static bool add(struct sl_bounds *bounds, const struct sl_address *network, uint32_t most) {
	struct slot *slot = find(bounds, network);
	if (most != 0 && slot->count >= most)
		return false;
	if (slot->count == 0) {
		if (2 * (bounds->taken + 1) > bounds->capacity && !resize(bounds, 2 * bounds->capacity))
			return false;
		slot = find(bounds, network);
		slot->network = *network;
		bounds->taken++;
	}
	slot->count++;
	return true;
}

static void take_away(struct sl_bounds *bounds, const struct sl_address *network) {
	struct slot *slot = find(bounds, network);
	SL_ASSERT(slot->count != 0);
	if (slot->count > 1) {
		slot->count--;
		return;
	}
	vacate(bounds, slot);
	if (bounds->capacity > SLOTS_MIN && 8 * bounds->taken < bounds->capacity)
		(void)!resize(bounds, bounds->capacity / 2); /* no memory: it stays large */
}

/* ---- from outside ------------------------------------------------------------------------------------------------ */

uint32_t sl_bounds_enter(struct sl_bounds *bounds, struct sl_bounds_entry *place) {
	SL_ASSERT(!place->counted);
	place->counted = true;
	return atomic_fetch_add_explicit(&bounds->open, 1, memory_order_relaxed) + 1;
}

bool sl_bounds_enter_address(struct sl_bounds *bounds, struct sl_bounds_entry *place, const struct sl_address *address,
                             const struct sl_settings *settings) {
	SL_ASSERT(!place->by_address);
	place->network = *address;
	sl_address_group(&place->network, settings->ipv6_prefix);
	pthread_mutex_lock(&bounds->lock);
	place->by_address = add(bounds, &place->network, settings->connections.per_address);
	pthread_mutex_unlock(&bounds->lock);
	return place->by_address;
}

void sl_bounds_leave(struct sl_bounds *bounds, struct sl_bounds_entry *place) {
	if (place->by_address) {
		pthread_mutex_lock(&bounds->lock);
		take_away(bounds, &place->network);
		pthread_mutex_unlock(&bounds->lock);
	}
	if (place->counted)
		atomic_fetch_sub_explicit(&bounds->open, 1, memory_order_relaxed);
	*place = (struct sl_bounds_entry){.counted = false};
}

void sl_bounds_set_descriptors(struct sl_bounds *bounds, uint32_t descriptors) {
	bounds->descriptors = descriptors;
}

uint32_t sl_bounds_most(const struct sl_bounds *bounds, const struct sl_settings *settings) {
	uint32_t max = settings->connections.max;
	return max != 0 && max < bounds->descriptors ? max : bounds->descriptors;
}

void sl_bounds_refuse(struct sl_bounds *bounds) {
	atomic_fetch_add_explicit(bounds->refused, 1, memory_order_relaxed);
}

uint32_t sl_bounds_open(const struct sl_bounds *bounds) {
	return atomic_load_explicit(&bounds->open, memory_order_relaxed);
}
