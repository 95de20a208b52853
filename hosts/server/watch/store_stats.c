/* Counting without locks: a tag and the first word of a state are read as they stand, one atomic load each. A counter
 * that moves meanwhile may be counted twice or not at all; so the figure is as good as a figure of a moment ago. What
 * has expired is told by the tag and that word, as it is by those who look for a free slot (store/slot.h).
 *
 * Pages in which no counter has ever been are passed by (store/walk.h), since to read them could make all of the store
 * resident. Why not sluice_store_stats(): it locks each home, so it writes every page that it visits, and would make
 * all that was ever used of a file dirty, over and over. */
#include "hosts/server/watch/store_stats.h"

#include "os/clock.h"
#include "os/thread.h"
#include "store/lock.h"
#include "store/slot.h"
#include "store/walk.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SLICE_PAGES = 512 }; /* looked at between two rests: 2 MiB, about 0.6 ms */

struct sl_store_stats {
	struct sluice_store *store;
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool stop, wanted;
	sluice_ns begun; /* monotonic: the last count */
	uint64_t keys, expired;
	sluice_ns counted; /* of the store's clock; 0: none yet */
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void count_page(const struct sl_page *page, sluice_ns now, uint64_t *keys, uint64_t *expired) {
	for (int i = 0; i < SL_PAGE_BUCKETS; i++)
		for (int j = 0; j < SL_BUCKET_SLOTS; j++) {
			const struct sl_slot *slot = &page->buckets[i].slots[j];
			uint64_t tag = sl_slot_tag(slot);
			*keys += tag != 0;
			*expired += tag != 0 && sl_slot_has_expired(slot, tag, now);
		}
}

/* Rests, and hears whether it is to end. */
static bool rest(struct sl_store_stats *store_stats, sluice_ns ns) {
	struct timespec until;
	sluice_ns end = sl_clock_monotonic() + ns;
	until.tv_sec = (time_t)(end / 1000000000);
	until.tv_nsec = (long)(end % 1000000000);
	pthread_mutex_lock(&store_stats->lock);
	while (!store_stats->stop && pthread_cond_timedwait(&store_stats->changed, &store_stats->lock, &until) == 0)
		;
	bool stop = store_stats->stop;
	pthread_mutex_unlock(&store_stats->lock);
	return !stop;
}

/* One count. False when it is to end. */
static bool count_all(struct sl_store_stats *store_stats, uint64_t *keys, uint64_t *expired) {
	const struct sluice_store *store = store_stats->store;
	struct sl_walk walk = {.store = store};
	sluice_ns now = sluice_store_now(store), begun = sl_clock_monotonic();
	for (int pages = 1; sl_walk_next(&walk); pages++) {
		count_page(&store->pages[walk.page], now, keys, expired);
		if (pages < SLICE_PAGES)
			continue;
		if (!rest(store_stats, (sl_clock_monotonic() - begun) * SL_STORE_STATS_REST))
			return false;
		begun = sl_clock_monotonic();
		pages = 0;
	}
	return true;
}

/* Waits until a count is wanted. False when it is to end. */
static bool wait_for_work(struct sl_store_stats *store_stats) {
	pthread_mutex_lock(&store_stats->lock);
	while (!store_stats->stop && !store_stats->wanted)
		pthread_cond_wait(&store_stats->changed, &store_stats->lock);
	bool stop = store_stats->stop;
	store_stats->wanted = false;
	store_stats->begun = sl_clock_monotonic();
	pthread_mutex_unlock(&store_stats->lock);
	return !stop;
}

static void *run(void *argument) {
	struct sl_store_stats *store_stats = argument;
	while (wait_for_work(store_stats)) {
		uint64_t keys = 0, expired = 0;
		if (!count_all(store_stats, &keys, &expired))
			break;
		pthread_mutex_lock(&store_stats->lock);
		store_stats->keys = keys;
		store_stats->expired = expired;
		store_stats->counted = sluice_store_now(store_stats->store);
		pthread_mutex_unlock(&store_stats->lock);
	}
	return NULL;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

struct sl_store_stats *sl_store_stats_new(struct sluice_store *store) {
	struct sl_store_stats *store_stats = calloc(1, sizeof *store_stats);
	pthread_condattr_t monotonic;
	if (store_stats == NULL)
		return NULL;
	store_stats->store = store;
	store_stats->wanted = true;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&store_stats->lock, NULL);
	pthread_cond_init(&store_stats->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (sl_thread_start(&store_stats->thread, run, store_stats) == 0)
		return store_stats;
	pthread_cond_destroy(&store_stats->changed);
	pthread_mutex_destroy(&store_stats->lock);
	free(store_stats);
	return NULL;
}

void sl_store_stats_free(struct sl_store_stats *store_stats) {
	if (store_stats == NULL)
		return;
	pthread_mutex_lock(&store_stats->lock);
	store_stats->stop = true;
	pthread_cond_broadcast(&store_stats->changed);
	pthread_mutex_unlock(&store_stats->lock);
	pthread_join(store_stats->thread, NULL);
	pthread_cond_destroy(&store_stats->changed);
	pthread_mutex_destroy(&store_stats->lock);
	free(store_stats);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static uint64_t figure(const uint64_t *at) {
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

void sl_store_stats_read(struct sl_store_stats *store_stats, struct sl_store_figures *figures) {
	const struct sluice_store *store = store_stats->store;
	const struct sl_header *header = store->header;
	uint64_t units_free = figure(&store->blocks->free_units);
	*figures = (struct sl_store_figures){
		.bytes = store->arena_bytes,
		.slots = store->page_count * SL_PAGE_SLOTS,
		.block_bytes = (store->unit_count - 1 - units_free) * SL_UNIT_BYTES, /* unit 0 is nobody's */
		.block_bytes_free = units_free * SL_UNIT_BYTES,
		.overrides = figure(&header->overrides),
		.overrides_most = sl_store_overrides_most(store),
		.evicted = figure(&header->evicted),
		.from_sketch = figure(&header->sketch_starts),
		.recoveries = figure(&header->stolen_locks),
		.dropped = figure(&header->dropped),
		.given_up = store->stalls != NULL ? figure(&store->stalls->given_up) : 0,
		.stopped = sl_stalls_count(store),
	};
	pthread_mutex_lock(&store_stats->lock);
	figures->keys = store_stats->keys;
	figures->expired = store_stats->expired;
	figures->counted = store_stats->counted;
	if (!store_stats->wanted &&
	    sl_clock_monotonic() - store_stats->begun >= (sluice_ns)SL_STORE_STATS_EVERY_MS * 1000000) {
		store_stats->wanted = true;
		pthread_cond_signal(&store_stats->changed);
	}
	pthread_mutex_unlock(&store_stats->lock);
}
