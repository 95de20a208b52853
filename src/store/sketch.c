/* The sketch: what is remembered of counters that had to go while they were in use.
 *
 * A key that comes back must not start with its whole quota, or a flood of new keys would free whoever is denied. Which
 * limit an evicted counter had is not known here, so what is kept is what every limit can be charged with: how much of
 * its quota was used at the instant of its last charge, in one of eight uses, and that instant. The limit of whoever
 * asks then does the decaying: the counter is built anew as one that was charged so much, then (sl_step_assume).
 *
 *   cell      u32 latest[8]: for each use, the latest instant at which an evicted counter of that use was last charged
 *   rows      two: a counter has a cell in each half, and the earlier of the two instants holds for it
 *
 * A maximum and not a sum: a counter that shares its cells with others is taken to be as used as the most used of them,
 * and no more. Each use decays by itself, so a flood of little used keys keeps no old full one alive. One may be held
 * too used (then it shares both cells with a more used one of its window), never too little.
 *
 * Memory: 128 bytes a page of 160 slots, 3 %. Two misses for a key that has no counter, in a store that has evicted.
 * Source: count-min sketch (Cormode and Muthukrishnan 2005), with latest instants instead of counts. */
#include "base/assert.h"
#include "base/coarse.h"
#include "store/sketch.h"

enum { UNIT_SHIFT = 25, ROWS = 2 };

enum {
	AHEAD_UNITS_MAX = 2048, /* a unit that lies further ahead of now is one of 4.6 years ago */
	ROUNDED_UNITS = 2,      /* as far ahead as rounding puts what is not */
};

/* The cells of a counter. Its fingerprint is keyed, so nobody can choose whose cells to share. */
static void cells_of(const struct sluice_store *store, uint64_t page, uint64_t tag,
                     struct sl_sketch_cell *cells[ROWS]) {
	uint64_t x = (tag >> SL_TAG_HOME_SHIFT) ^ page * UINT64_C(0x9e3779b97f4a7c15), half = store->cell_count / 2;
	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd); /* MurmurHash3's finalizer */
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	x ^= x >> 33;
	cells[0] = &store->sketch[(x >> 32) * half >> 32];
	cells[1] = &store->sketch[half + ((uint32_t)x * half >> 32)];
	SL_DEBUG_ASSERT(cells[0] < store->sketch + half && cells[1] < store->sketch + store->cell_count);
}

/* The sketch is asked no more once everything that it remembers has passed. */
static void raise_until(uint64_t *until_ns, uint64_t coarse) {
	uint64_t next = coarse < UINT64_MAX >> SL_COARSE_SHIFT ? coarse << SL_COARSE_SHIFT : UINT64_MAX;
	uint64_t seen = __atomic_load_n(until_ns, __ATOMIC_RELAXED);
	while (seen < next && !__atomic_compare_exchange_n(until_ns, &seen, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void sl_sketch_prefetch(const struct sluice_store *store, uint64_t page, uint64_t tag) {
	struct sl_sketch_cell *cells[ROWS];
	cells_of(store, page, tag, cells);
	for (int row = 0; row < ROWS; row++)
		__builtin_prefetch(cells[row], 1);
}

void sl_sketch_note(struct sluice_store *store, uint64_t page, uint64_t tag, sluice_ns last) {
	struct sl_sketch_cell *cells[ROWS];
	uint32_t unit = (uint32_t)((last >> UNIT_SHIFT) + 1); /* rounded up: nothing is forgotten early */
	unit = unit != 0 ? unit : 1;
	SL_ASSERT(page < store->page_count && (tag & SL_LIFE_FRESH) != SL_LIFE_FRESH);
	cells_of(store, page, tag, cells);
	for (int row = 0; row < ROWS; row++) {
		uint32_t *latest = &cells[row]->latest[sl_tag_use(tag)], seen = __atomic_load_n(latest, __ATOMIC_RELAXED);
		while ((seen == 0 || (int32_t)(unit - seen) > 0) &&
		       !__atomic_compare_exchange_n(latest, &seen, unit, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
		SL_POINT();
	}
	raise_until(&store->header->sketch_until_ns, (last >> SL_COARSE_SHIFT) + sl_life_units(tag) + 1);
}

/* The instant that both rows agree to for a use, 0 for none. Where rounding up has put it ahead of now it is now: else
 * a counter that is evicted again and again would be moved ahead of the clock, a unit each time. */
static sluice_ns instant_of(struct sl_sketch_cell *const cells[ROWS], unsigned use, sluice_ns now) {
	uint64_t now_unit = now >> UNIT_SHIFT;
	int64_t least = INT64_MAX;
	sluice_ns instant;
	for (int row = 0; row < ROWS; row++) {
		uint32_t unit = __atomic_load_n(&cells[row]->latest[use], __ATOMIC_RELAXED);
		int64_t ahead = (int32_t)(unit - (uint32_t)now_unit);
		if (unit == 0 || ahead > AHEAD_UNITS_MAX || ahead + (int64_t)now_unit < 0)
			return 0;
		least = ahead < least ? ahead : least;
	}
	instant = (sluice_ns)((int64_t)now_unit + least) << UNIT_SHIFT;
	return instant > now && least <= ROUNDED_UNITS ? now : instant;
}

int sl_sketch_ask(const struct sluice_store *store, const struct sl_place *place, sluice_ns now,
                  struct sl_past pasts[SL_USES]) {
	struct sl_sketch_cell *cells[ROWS];
	int count = 0;
	cells_of(store, (uint64_t)(sl_page_of(place->home) - store->pages), place->tag, cells);
	/* from the most used down: a less used past only matters where it is later */
	for (unsigned use = SL_USES; use-- > 0;) {
		sluice_ns instant = instant_of(cells, use, now);
		if (instant != 0 && (count == 0 || instant > pasts[count - 1].instant))
			pasts[count++] = (struct sl_past){instant, use};
	}
	SL_ASSERT(count <= SL_USES && (count < 2 || pasts[0].instant < pasts[count - 1].instant));
	return count;
}
