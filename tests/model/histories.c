/* Breadth first: all places of one depth, then all that they lead to (histories.h). */
#include "tests/model/histories.h"

#include "base/assert.h"
#include "store/scan.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The places of one depth, and where each is, by its fingerprint. */
struct layer {
	unsigned char *places;
	size_t place_bytes, count, room;
	uint32_t *slots; /* index + 1; a power of two of them */
	size_t slot_count;
};

/* ---- fingerprints ------------------------------------------------------------------------------------------------ */

static uint64_t mixed(uint64_t bits) {
	bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
	return bits ^ bits >> 31;
}

void histories_mix(uint64_t seen[2], uint64_t word) {
	seen[0] = mixed(seen[0] + word + UINT64_C(0x9e3779b97f4a7c15));
	seen[1] = mixed((seen[1] ^ word) * 3 + UINT64_C(0xd1b54a32d192ed03));
}

static bool see_entry(void *context, const struct sl_entry *entry) {
	uint64_t *seen = context, word;
	const unsigned char *bytes = entry->block;
	histories_mix(seen, entry->hash);
	histories_mix(seen, entry->tag & SL_LIFE_FRESH);
	histories_mix(seen, entry->state[0]);
	histories_mix(seen, entry->block != NULL ? entry->state[1] >> 32 : entry->state[1]);
	for (uint64_t i = 0; entry->block != NULL && i + 8 <= entry->block_bytes; i += 8) {
		memcpy(&word, bytes + i, 8);
		histories_mix(seen, word);
	}
	return true;
}

void histories_see(struct sluice_store *store, uint64_t page, sluice_ns now, uint64_t seen[2]) {
	(void)sl_store_scan(store, page, now, NULL, see_entry, seen);
}

static bool always(void *context, const struct sl_entry *entry) {
	(void)entry;
	*(bool *)context = true;
	return false;
}

uint64_t histories_page(struct sluice_store *store, sluice_ns now) {
	bool found = false;
	uint64_t page = 0;
	for (; page < store->page_count && !found; page += !found)
		(void)sl_store_scan(store, page, now, NULL, always, &found);
	SL_ASSERT(found);
	return page;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static struct history *place_at(const struct layer *layer, size_t index) {
	return (struct history *)(void *)(layer->places + index * layer->place_bytes);
}

static void rehash(struct layer *layer) {
	layer->slot_count = layer->slot_count == 0 ? 1024 : 2 * layer->slot_count;
	free(layer->slots);
	layer->slots = calloc(layer->slot_count, sizeof *layer->slots);
	SL_ASSERT(layer->slots != NULL);
	for (size_t i = 0; i < layer->count; i++) {
		size_t at = place_at(layer, i)->seen[0] & (layer->slot_count - 1);
		while (layer->slots[at] != 0)
			at = (at + 1) & (layer->slot_count - 1);
		layer->slots[at] = (uint32_t)i + 1;
	}
}

/* Adds the histories of a place to those that lead there. */
static void reach(struct layer *layer, const struct history *place) {
	size_t at;
	if (2 * layer->count >= layer->slot_count)
		rehash(layer);
	for (at = place->seen[0] & (layer->slot_count - 1); layer->slots[at] != 0;
	     at = (at + 1) & (layer->slot_count - 1)) {
		struct history *there = place_at(layer, layer->slots[at] - 1);
		if (there->seen[0] == place->seen[0] && there->seen[1] == place->seen[1]) {
			there->count += place->count;
			return;
		}
	}
	if (layer->count == layer->room) {
		layer->room = layer->room == 0 ? 256 : 2 * layer->room;
		layer->places = realloc(layer->places, layer->room * layer->place_bytes);
		SL_ASSERT(layer->places != NULL);
	}
	layer->slots[at] = (uint32_t)layer->count + 1;
	memcpy(place_at(layer, layer->count++), place, layer->place_bytes);
}

static void empty(struct layer *layer) {
	free(layer->places);
	free(layer->slots);
	*layer = (struct layer){.place_bytes = layer->place_bytes};
}

/* ---- exploring --------------------------------------------------------------------------------------------------- */

/* All letters after one place. */
static void explore_place(const struct histories *all, const struct history *from, struct history *to,
                          struct layer *next, struct totals *totals) {
	for (size_t letter = 0; letter < all->letters; letter++) {
		if (all->follows != NULL && !all->follows(all->world, from, letter))
			continue;
		memcpy(to, from, all->place_bytes);
		to->calls[to->depth++] = (uint16_t)letter;
		all->step(all->world, from, letter, to);
		totals->calls++;
		totals->histories += to->count;
		if (to->depth < all->calls)
			reach(next, to);
	}
}

struct totals histories_explore(const struct histories *all, const void *starts, size_t count) {
	struct layer now = {.place_bytes = all->place_bytes}, next = now;
	struct history *place = malloc(all->place_bytes);
	struct totals totals = {0};
	SL_ASSERT(place != NULL && all->calls <= HISTORIES_CALLS_MAX);
	for (size_t i = 0; i < count; i++) {
		memcpy(place, (const unsigned char *)starts + i * all->place_bytes, all->place_bytes);
		place->count = 1;
		reach(&now, place);
	}
	for (uint32_t depth = 1; depth <= all->calls; depth++) {
		for (size_t i = 0; i < now.count; i++)
			explore_place(all, place_at(&now, i), place, &next, &totals);
		totals.places += now.count;
		empty(&now);
		now = next;
		next = (struct layer){.place_bytes = all->place_bytes};
	}
	empty(&now);
	free(place);
	return totals;
}

void totals_add(struct totals *sum, const struct totals *more) {
	sum->histories += more->histories;
	sum->calls += more->calls;
	sum->places += more->places;
}

void totals_print(const struct totals *totals, const char *what, const char *of) {
	printf("kept: %s, %s: %.3g histories, %" PRIu64 " calls in %" PRIu64 " places\n", what, of, totals->histories,
	       totals->calls, totals->places);
}
