/* A walk over a store reads no page that was never written: a large store starts empty; see walk.h. */
#include "store/walk.h"

#include "base/assert.h"

/* The first page from `page` on whose bit is set; page_count where there is none. */
static uint64_t next_claimed(const struct sluice_store *store, uint64_t page) {
	for (; page < store->page_count; page = (page / 64 + 1) * 64) {
		uint64_t bits = __atomic_load_n(&store->claimed[page / 64], __ATOMIC_RELAXED) >> page % 64;
		if (bits != 0)
			return page + (uint64_t)__builtin_ctzll(bits);
	}
	return store->page_count;
}

bool sl_walk_next(struct sl_walk *walk) {
	const struct sluice_store *store = walk->store;
	if (walk->next == walk->end) {
		walk->end = store->page_count;
		if (store->claimed != NULL) {
			walk->next = next_claimed(store, walk->next);
			walk->end = walk->next + (walk->next < store->page_count);
		} else if (store->find_written != NULL) {
			store->find_written(store, &walk->next, &walk->end);
		}
	}
	SL_ASSERT(walk->next <= walk->end && walk->end <= store->page_count);
	walk->page = walk->next;
	walk->next += walk->page < walk->end;
	return walk->page < walk->end;
}
