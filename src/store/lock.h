/* The locks of the arena: who holds one, and what becomes of it when he dies (lock.c). */
#ifndef SL_LOCK_H
#define SL_LOCK_H

#include "store/store.h"

/* Waits for a lock, and takes it from an owner that has died. Returns true when it was taken so. */
bool sl_lock_slow(const struct sluice_store *store, uint32_t *lock);

static inline bool sl_lock_try(const struct sluice_store *store, uint32_t *lock) {
	uint32_t free = 0;
	/* acquire; pairs with sl_unlock */
	return __atomic_compare_exchange_n(lock, &free, store->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void sl_unlock(uint32_t *lock) {
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* release; pairs with sl_lock_try */
}

/* The lock of a home bucket taken from a dead owner: what it left half done there is undone. */
void sl_home_recover(struct sluice_store *store, struct sl_bucket *home);

/* Takes the lock of a home bucket. Locks of several are taken in address order. */
static inline void sl_home_lock(struct sluice_store *store, struct sl_bucket *home) {
	if (__builtin_expect(!sl_lock_try(store, &home->lock), 0) && sl_lock_slow(store, &home->lock))
		sl_home_recover(store, home);
}

static inline void sl_home_unlock(struct sl_bucket *home) {
	sl_unlock(&home->lock);
}

#endif
