/* The home of a store in this process: the memory, the file behind it, and this process's row in its table. */
#ifndef SL_HOME_H
#define SL_HOME_H

#include "os/file.h"
#include "store/lock.h"

enum {
	SL_HOME_SHOWN_MAX = 104, /* bytes of a path in a message */
	SL_HOME_SPARE_FDS = 8,
	SL_HOME_PRIVATE_ROW = 1,
};
#define SL_HOME_GUARD_WAIT_NS ((sluice_ns)10 * 1000000000)
#define SL_HOME_BYTES_DEFAULT ((uint64_t)64 << 20)

/* What sluice_store_open() was asked, checked. */
struct sl_opening {
	const char *path; /* of a file, shared memory's too; NULL for private memory */
	bool shared;
	bool existing;
	bool pretouch;
	uint32_t mode;
	uint32_t percent;
	uint64_t bytes; /* a multiple of a page; 0: as it comes */
	sluice_ns patience_ns; /* how long it waits for another process that is opening the store, or has it for itself */
	struct sluice_error *error;
	char shown[SL_HOME_SHOWN_MAX + 16]; /* the path, fit for a message */
};

/* One a file and process, however often it was opened; each open of private memory has its own. */
struct sl_home {
	struct sluice_store store; /* what callers hold; first, so that either is found from the other */
	struct sl_home *next;
	struct sl_file_id id;
	int fd; /* -1: private memory */
	int spare_fds
		[SL_HOME_SPARE_FDS]; /* further descriptors of the file, which can't be closed while this one is used */
	uint32_t spare_count;
	uint32_t references;
	uint64_t offset_ns;  /* of the clock; see anchor.c */
	sluice_ns latest_ns; /* as this process last saw it; atomic */
	struct sl_stalls stalls;
};

/* Says why an opening fails; returns `err`. `format` as for printf. */
sluice_err sl_opening_fail(const struct sl_opening *opening, sluice_err err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Makes a store in private memory of a zeroed home. SLUICE_OK, SLUICE_E_MEMORY or SLUICE_E_SYSTEM. */
SLUICE_MUST_USE sluice_err sl_home_make_private(struct sl_home *home, const struct sl_opening *opening);

/* Enters the store in the file home->fd (home->id), which nothing else of this process has open: makes it if it is new,
 * checks it if it is not. Errors as sluice_store_open(); the descriptor is then the caller's to close, and a file that
 * was made is removed again.
 *  created  by the caller, just now
 *  moved    out: the path no longer names that file; the caller is to begin again */
SLUICE_MUST_USE sluice_err sl_home_enter(struct sl_home *home, const struct sl_opening *opening, bool created,
                                         bool *moved);

/* Whether a store that has so many bytes will do for an opening: SLUICE_OK, or SLUICE_E_RANGE for another size. */
SLUICE_MUST_USE sluice_err sl_home_check_size(const struct sl_opening *opening, uint64_t has);

/* Whether a store that this process has open already will do for an opening: SLUICE_OK, SLUICE_E_RANGE for another
 * size, SLUICE_E_BUSY where a fork found no row and there is none now. */
SLUICE_MUST_USE sluice_err sl_home_accept(struct sl_home *home, const struct sl_opening *opening);

/* Gives back memory, row and descriptors. */
void sl_home_leave(struct sl_home *home);

/* In the child of a fork: becomes a process of its own. Calls only what is async-signal-safe. */
void sl_home_after_fork(struct sl_home *home);

/* Moves the store's `latest` word above `now`. */
void sl_home_raise_latest(struct sl_home *home, sluice_ns now);

/* How many processes have the store open, this one included. O(rows), some 50 us. */
uint32_t sl_home_processes(const struct sl_home *home);

/* The home that a caller's store is in; NULL where the arena was mapped by others. */
static inline struct sl_home *sl_home_of(const struct sluice_store *store) {
	return store->home;
}

#endif
