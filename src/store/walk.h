/* Walking over a store's pages, passing by those in which no counter has ever been. On some systems a page that was
 * never written takes memory as soon as it is read, and a page of a file is brought in from it: who looks at all pages
 * would make all of the store resident. So whoever looks for counters goes by this; only repair and verification, which
 * trust nobody, look at every byte. */
#ifndef SL_WALK_H
#define SL_WALK_H

#include "store/store.h"

/* A walk under way: {.store = ...} to begin with. */
struct sl_walk {
	const struct sluice_store *store;
	uint64_t page; /* the one to look at */
	uint64_t next, end;
};

/* Goes on to the next page that may hold counters; false where there is none. A page that gets its first counter while
 * the walk is under way may be missed. Beside any user of the store; at most one or two system calls for a run of
 * written pages of a file, none for private memory. */
bool sl_walk_next(struct sl_walk *walk);

/* Notes that a slot of the page is about to be claimed, where this process keeps count of that. */
static inline void sl_walk_note(const struct sluice_store *store, uint64_t page) {
	uint64_t *word, bit = (uint64_t)1 << page % 64;
	if (store->claimed == NULL)
		return;
	word = &store->claimed[page / 64];
	if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)) /* relaxed: a walk beside this may see the page or not */
		(void)__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

#endif
