/* Waiting for locks, taking them from the dead, and giving up on the stopped.
 *
 * A lock word is 0 or names its owner (layout.h I7). An owner holds a lock for well under a microsecond, so a waiter
 * spins, then lets others run, and only after some rounds of that asks whether the owner is still there: a system call,
 * of which the core knows nothing (os/process.h). Dead owners' words are replaced by compare-and-swap of the very word
 * that was seen: a row of the process table that has been given to another process since has another generation, so no
 * living owner's word is ever mistaken for a dead one's.
 *
 * An owner that is alive and does not run (SIGSTOP, a freezer, a debugger) is never robbed: what it has begun it will
 * end. So whoever needs its lock is *held up*:
 *
 *   in hand   a wait with other locks in hand ends after SL_PATIENCE_NS: they are given back as they were, so nobody
 *             who is alive keeps others waiting. From now on the owner's row says which lock it sits on, and whoever
 *             of this process meets that owner is held up at once, as long as that lock has the same word
 *   outside   then, with nothing in hand, the lock is looked at once in SL_LOOK_NS. When it has moved the call is made
 *             again, from its beginning. When it has not for `looks` looks its owner counts as stopped: the call fails
 *             (SLUICE_E_BUSY), and so do others that need the owner, at once, until the lock has moved
 *
 * The looks are counted, and not the time: each takes the waiter's own running, so a machine that runs nobody, a host
 * that was suspended and a waiter that was stopped itself bring nobody nearer to giving up. An owner that is alive may
 * be kept from running between two instructions under the lock for as long as the scheduler likes: in a cgroup of a
 * tenth of a processor, behind 63 other threads of its own, that is 63 turns of 3 ms (10 ms where the kernel ticks 100
 * times a second), a tenth of the time: 1.9 s (6.3 s). SL_STALL_LOOKS looks are 10 s at least.
 *
 * A hold is known by its word alone, so one that ends and begins anew between two looks is taken for the same. For a
 * live owner to be given up on, thousands of looks in a row would have to meet such holds and never the time between.
 *
 *   row     63 it counts as stopped | 59..24 offset of the lock in the arena / 4 | 23..0 generation of the owner
 *
 * Threads of the same process are waited for in the same way: a debugger may stop one of them, and who damages the file
 * may write this process's own word. */
#include "base/assert.h"
#include "store/blocks.h"

enum {
	SPINS = 64,      /* tries of a round */
	ASK_ROUNDS = 16, /* rounds between two questions after the owner */
};

#define STOPPED ((uint64_t)1 << 63)

static inline void pause_cpu(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static inline uint32_t row_of(uint32_t word) {
	return word >> SL_OWNER_ROW_SHIFT;
}

/* ---- stalls ------------------------------------------------------------------------------------------------------ */

static uint64_t entry_of(const struct sluice_store *store, const uint32_t *lock, uint32_t word) {
	uint64_t offset = (uint64_t)((const uint8_t *)lock - (const uint8_t *)store->header);
	SL_ASSERT(offset < store->arena_bytes && offset % sizeof *lock == 0);
	return offset / sizeof *lock << SL_OWNER_ROW_SHIFT | (word & SL_OWNER_GENERATION_MASK);
}

static const uint32_t *lock_of(const struct sluice_store *store, uint64_t entry) {
	uint64_t offset = (entry & ~STOPPED) >> SL_OWNER_ROW_SHIFT;
	return (const uint32_t *)(const void *)store->header + offset;
}

static uint32_t word_of(uint32_t row, uint64_t entry) {
	return row << SL_OWNER_ROW_SHIFT | (uint32_t)(entry & SL_OWNER_GENERATION_MASK);
}

static sluice_err err_of(uint32_t word) {
	SL_DEBUG_ASSERT(word != 0 && row_of(word) < SL_PROCESSES);
	return (sluice_err)(SL_E_HELD_UP - (int)row_of(word));
}

/* What is said of a row, if it is still so; else it is forgotten, and 0. */
static uint64_t entry_at(const struct sluice_store *store, uint32_t row) {
	uint64_t *at = &store->stalls->rows[row], entry = __atomic_load_n(at, __ATOMIC_RELAXED);
	if (entry == 0 || __atomic_load_n(lock_of(store, entry), __ATOMIC_RELAXED) == word_of(row, entry))
		return entry;
	/* relaxed, here and below: an entry is all there is to see */
	(void)__atomic_compare_exchange_n(at, &entry, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return 0;
}

static uint32_t row_of_err(sluice_err err) {
	return (uint32_t)(SL_E_HELD_UP - (int)err) % SL_PROCESSES;
}

/* The same of the process of a word. */
static uint64_t entry_for(const struct sluice_store *store, uint32_t word) {
	uint64_t entry = entry_at(store, row_of(word));
	return word_of(row_of(word), entry) == word ? entry : 0;
}

static bool is_dead(const struct sluice_store *store, uint32_t word) {
	return word != 0 && store->owner_is_dead != NULL && store->owner_is_dead(store, word);
}

static enum sl_stall look(const struct sluice_store *store, uint32_t row, uint64_t entry) {
	if (entry == 0 || is_dead(store, word_of(row, entry)))
		return SL_STALL_OVER;
	return entry & STOPPED ? SL_STALL_STOPPED : SL_STALL_STANDS;
}

enum sl_stall sl_stall_look(const struct sluice_store *store, sluice_err err) {
	return look(store, row_of_err(err), entry_at(store, row_of_err(err)));
}

void sl_stall_give_up(const struct sluice_store *store, sluice_err err) {
	uint64_t entry = entry_at(store, row_of_err(err));
	if (entry != 0)
		(void)__atomic_compare_exchange_n(&store->stalls->rows[row_of_err(err)], &entry, entry | STOPPED, false,
		                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool sl_lock_is_held_up(const struct sluice_store *store, const uint32_t *lock, sluice_err *err) {
	uint32_t word = __atomic_load_n(lock, __ATOMIC_RELAXED);
	if (word == 0 || store->stalls == NULL || look(store, row_of(word), entry_for(store, word)) == SL_STALL_OVER)
		return false;
	*err = err_of(word);
	return true;
}

uint32_t sl_stalls_count(const struct sluice_store *store) {
	uint32_t count = 0;
	for (uint32_t row = 1; store->stalls != NULL && row < SL_PROCESSES; row++)
		count += (entry_at(store, row) & STOPPED) != 0;
	return count;
}

/* True: try again. False: it counts as stopped. */
static bool await(const struct sluice_store *store, sluice_err err) {
	uint32_t row = row_of_err(err);
	uint64_t first = entry_at(store, row), entry = first;
	SL_ASSERT(store->rest != NULL && !store->stalls->parks);
	for (uint32_t looks = 0; looks < store->stalls->looks; looks++, entry = entry_at(store, row)) {
		enum sl_stall stall = look(store, row, entry);
		if (stall != SL_STALL_STANDS || entry != first)
			return stall != SL_STALL_STOPPED;
		store->rest(store, SL_LOOK_NS);
	}
	if (entry != first)
		return true;
	sl_stall_give_up(store, err);
	return false;
}

bool sl_held_up_wait(const struct sluice_store *store, sluice_err *err) {
	SL_ASSERT(sl_is_held_up(*err) && store->stalls != NULL);
	if (store->stalls->parks ? sl_stall_look(store, *err) != SL_STALL_STOPPED : await(store, *err))
		return !store->stalls->parks;
	*err = SLUICE_E_BUSY;
	return false;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* A wait for one lock. */
struct wait {
	uint32_t word; /* in it all the time since, as far as was seen; 0: none */
	sluice_ns since;
};

/* Whether a hold has lasted too long to be waited for with other locks in hand; notes whose it is. */
static bool is_held_up(const struct sluice_store *store, const uint32_t *lock, uint32_t seen, struct wait *wait,
                       bool asked) {
	if (store->stalls == NULL || seen == 0)
		return false;
	if (entry_for(store, seen) != 0)
		return true;
	if (!asked)
		return false;
	SL_ASSERT(store->clock != NULL);
	if (wait->word != seen) {
		*wait = (struct wait){seen, store->clock(store)};
		return false;
	}
	if (store->clock(store) - wait->since < SL_PATIENCE_NS)
		return false;
	__atomic_store_n(&store->stalls->rows[row_of(seen)], entry_of(store, lock, seen), __ATOMIC_RELAXED);
	return true;
}

/* Replaces the word of a dead owner by ours. */
static bool steal(const struct sluice_store *store, uint32_t *lock, uint32_t seen) {
	return is_dead(store, seen) &&
	       /* acquire: the dead owner's stores were seen by all when the kernel dropped its row */
	       __atomic_compare_exchange_n(lock, &seen, store->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

sluice_err sl_lock_slow(const struct sluice_store *store, uint32_t *lock, uint32_t *dead) {
	struct wait wait = {0, 0};
	SL_ASSERT(store->owner != 0); /* who has no row of the process table may not decide */
	*dead = 0;
	for (unsigned round = 1;; round++) {
		bool ask = round % ASK_ROUNDS == 0, held_up;
		uint32_t seen = 0;
		for (int i = 0; i < SPINS; i++) {
			seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
			if (seen == 0 && sl_lock_try(store, lock))
				return SLUICE_OK;
			if (seen != wait.word)
				wait.word = 0;
			pause_cpu();
		}
		held_up = is_held_up(store, lock, seen, &wait, ask);
		if ((ask || held_up) && steal(store, lock, seen)) {
			*dead = seen;
			return SLUICE_OK;
		}
		if (held_up)
			return err_of(seen);
		if (store->relax != NULL)
			store->relax(store);
	}
}
