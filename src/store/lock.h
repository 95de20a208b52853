/* The locks of the arena: who holds one, and what becomes of it when he dies, or is stopped (lock.c). */
#ifndef SL_LOCK_H
#define SL_LOCK_H

#include "base/assert.h"
#include "store/store.h"

enum {
	SL_E_HELD_UP = -256, /* and below, by the row of the process that sits on a lock: no error of the public header */
	SL_STALL_LOOKS = 10000,
};
#define SL_PATIENCE_NS ((sluice_ns)10 * 1000000) /* a wait with other locks in hand */
#define SL_LOOK_NS ((sluice_ns)1000000)

static inline bool sl_is_held_up(sluice_err err) {
	return err <= (sluice_err)SL_E_HELD_UP;
}

/* Waits for a lock, and takes it from an owner that has died: *dead is his word then, else 0. SLUICE_OK, or held up:
 * one hold of another process has lasted for SL_PATIENCE_NS, or its owner was met so before and has not moved since. */
SLUICE_MUST_USE sluice_err sl_lock_slow(const struct sluice_store *store, uint32_t *lock, uint32_t *dead);

/* Takes a lock that is free. Of a process that has a row of the process table. */
static inline bool sl_lock_try(const struct sluice_store *store, uint32_t *lock) {
	uint32_t free = 0;
	SL_DEBUG_ASSERT(store->owner != 0);
	/* acquire; pairs with sl_unlock */
	return __atomic_compare_exchange_n(lock, &free, store->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void sl_unlock(uint32_t *lock) {
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* release; pairs with sl_lock_try */
}

/* The rest of sl_home_lock(). What a dead owner has left half done there is undone. */
SLUICE_MUST_USE sluice_err sl_home_lock_slow(struct sluice_store *store, struct sl_bucket *home);

/* Takes the lock of a home bucket. Locks of several are taken in address order. SLUICE_OK, or held up: then whatever
 * the caller holds has to be given back before anybody is waited for. */
SLUICE_MUST_USE static inline sluice_err sl_home_lock(struct sluice_store *store, struct sl_bucket *home) {
	if (__builtin_expect(!sl_lock_try(store, &home->lock), 0))
		return sl_home_lock_slow(store, home);
	return SLUICE_OK;
}

static inline void sl_home_unlock(struct sl_bucket *home) {
	sl_unlock(&home->lock);
}

/* ---- who is held up ---------------------------------------------------------------------------------------------- */

enum sl_stall {
	SL_STALL_OVER,    /* it has moved, or died: try again */
	SL_STALL_STANDS,  /* not yet */
	SL_STALL_STOPPED, /* not for so long that it counts as stopped */
};

/* Looks whether the process that held up a call (`err`) has moved since. A system call at most. */
enum sl_stall sl_stall_look(const struct sluice_store *store, sluice_err err);

/* Says that it has not for stalls->looks looks: it counts as stopped until it moves. */
void sl_stall_give_up(const struct sluice_store *store, sluice_err err);

/* For a call that was held up (*err) and holds no lock: waits until the process has moved, at most stalls->looks times
 * SL_LOOK_NS, and not at all where that is known to be in vain. True: the call is to be made again. False: *err is its
 * error: SLUICE_E_BUSY; or, where the host parks calls, *err as it was, and looking is the host's. */
bool sl_held_up_wait(const struct sluice_store *store, sluice_err *err);

/* Takes the lock of a home for a caller that holds no other: waits as sl_held_up_wait() does. */
SLUICE_MUST_USE sluice_err sl_home_lock_patiently(struct sluice_store *store, struct sl_bucket *home);

/* Whether a lock is in the hand of a process that is known to hold up others; *err says who. */
bool sl_lock_is_held_up(const struct sluice_store *store, const uint32_t *lock, sluice_err *err);

/* How many processes count as stopped now. */
uint32_t sl_stalls_count(const struct sluice_store *store);

#endif
