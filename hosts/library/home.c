/* How a process comes into a store.
 *
 *   open the file, or make an empty one        registry.c
 *   take the guard                             one opener at a time, at most 10 s; the kernel releases it if we die
 *   does the path still name this file?        else begin again: whoever failed to finish a new file removed it
 *   is it new, or was never finished?          reserve its space, map, format; the magic is written last
 *   is it ours?                                the header is read and refused before anything is mapped
 *   does anybody else hold a row?              if nobody: fill its holes, and after the next step make it whole
 *   take a row, raise its generation           from now on others see that we live, and know our lock words
 *   anchor the clock, release the guard        anchor.c
 *
 * A lock word is row << 24 | generation. Its owner is dead if the row has another generation by now (whoever holds it
 * took the row after the owner had lost it), or if nobody holds the row's lock. A process that has taken a row and not
 * yet raised its generation makes the words of the one before it look alive for that moment: a waiter asks again.
 *
 * A file was never finished if it has no magic and nothing in it that formatting does not write: its maker died, or the
 * power was cut, before anybody could use it. Anything else without a magic is not ours. */
#include "hosts/library/home.h"

#include "base/math.h"
#include "base/point.h"
#include "hosts/library/anchor.h"
#include "os/clock.h"
#include "os/map.h"
#include "os/process.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NEVER_FINISHED_BYTES ((uint64_t)1 << 20)

sluice_err sl_opening_fail(const struct sl_opening *opening, sluice_err err, const char *format, ...) {
	struct sluice_error *error = opening->error;
	va_list arguments;
	if (error == NULL)
		return err;
	error->column = 0;
	va_start(arguments, format);
	(void)vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	return err;
}

static sluice_err fail_system(const struct sl_opening *opening, int wrong) {
	return sl_opening_fail(opening, SLUICE_E_SYSTEM, "%s: %s", opening->shown, strerror(wrong));
}

static sluice_err fail_space(const struct sl_opening *opening, uint64_t bytes, int wrong) {
	const char *help = wrong == EFBIG    ? "give it less, or raise RLIMIT_FSIZE (ulimit -f, LimitFSIZE= of systemd)"
	                   : opening->shared ? "give it less, or /dev/shm more (docker: --shm-size)"
	                                     : "give it less, or make room on its disk";
	return sl_opening_fail(opening, SLUICE_E_SYSTEM, "%s: %s for %llu MiB; %s", opening->shown, strerror(wrong),
	                       (unsigned long long)(bytes >> 20), help);
}

static sluice_err fail_map(const struct sl_opening *opening) {
	return sl_opening_fail(opening, SLUICE_E_MEMORY, "%s: %s when mapping it", opening->shown, strerror(errno));
}

static sluice_err fail_guarded(const struct sl_opening *opening) {
	if (opening->patience_ns < SL_HOME_GUARD_WAIT_NS)
		return sl_opening_fail(opening, SLUICE_E_BUSY, "%s: another process is opening it", opening->shown);
	return sl_opening_fail(opening, SLUICE_E_BUSY, "%s: another process has been opening it for 10 s", opening->shown);
}

/* ---- who we are ------------------------------------------------------------------------------------------------ */

static void let_others_run(const struct sluice_store *store) {
	(void)store;
	(void)sched_yield();
}

static void rest(const struct sluice_store *store, sluice_ns ns) {
	struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	(void)store;
	(void)nanosleep(&left, NULL); /* woken early by a signal: one look more than was asked for */
}

static sluice_ns clock_of(const struct sluice_store *store) {
	(void)store;
	return sl_clock_monotonic();
}

static bool owner_is_dead(const struct sluice_store *store, uint32_t owner) {
	const struct sl_home *home = sl_home_of(store);
	uint32_t row = owner >> SL_OWNER_ROW_SHIFT, generation = owner & SL_OWNER_GENERATION_MASK;
	if (home->fd < 0 || row == store->owner >> SL_OWNER_ROW_SHIFT || row == 0)
		return owner != store->owner;
	/* acquire; pairs with hold_row(): a generation is raised before any lock has it */
	if (__atomic_load_n(&store->processes->rows[row].generation, __ATOMIC_ACQUIRE) != generation)
		return true;
	return !sl_row_is_held(home->fd, row);
}

/* The row is ours alone: becomes a process that no lock word speaks of yet. */
static void hold_row(struct sl_home *home, uint32_t row) {
	struct sl_process *process = &home->store.processes->rows[row];
	uint32_t generation = (process->generation + 1) & SL_OWNER_GENERATION_MASK;
	generation = generation != 0 ? generation : 1;
	SL_POINT();
	process->pid = (uint32_t)getpid();
	process->since_ns = sl_clock_wall();
	SL_POINT();
	__atomic_store_n(&process->generation, generation, __ATOMIC_SEQ_CST); /* pairs with owner_is_dead() */
	SL_POINT();
	home->store.owner = row << SL_OWNER_ROW_SHIFT | generation;
}

/* Takes the first free row. 0, EAGAIN when there is none, or another errno. The guard is ours. */
static int take_row(struct sl_home *home) {
	for (uint32_t row = 1; row < SL_PROCESSES; row++) {
		int err = sl_row_take(home->fd, row);
		if (err == 0)
			hold_row(home, row);
		if (err != EAGAIN)
			return err;
	}
	return EAGAIN;
}

static sluice_err become_process(struct sl_home *home, const struct sl_opening *opening) {
	int err = take_row(home);
	if (err == EAGAIN)
		return sl_opening_fail(opening, SLUICE_E_BUSY, "%s: %d processes have it open; there is room for no more",
		                       opening->shown, SL_PROCESSES - 1);
	return err == 0 ? SLUICE_OK : fail_system(opening, err);
}

void sl_home_after_fork(struct sl_home *home) {
	if (home->fd < 0) {
		hold_row(home, SL_HOME_PRIVATE_ROW); /* what threads of the parent held here is nobody's now */
		return;
	}
	home->store.owner = 0;
	if (sl_guard_take(home->fd, SL_HOME_GUARD_WAIT_NS) != 0)
		return;
	(void)take_row(home); /* where it fails the owner stays 0, and the core says SLUICE_E_BUSY */
	sl_guard_release(home->fd);
}

uint32_t sl_home_processes(const struct sl_home *home) {
	uint32_t count = 1;
	if (home->fd >= 0)
		for (uint32_t row = 1; row < SL_PROCESSES; row++)
			count += sl_row_is_held(home->fd, row);
	return count;
}

/* ---- the clock ------------------------------------------------------------------------------------------------- */

void sl_home_raise_latest(struct sl_home *home, sluice_ns now) {
	uint64_t fresh = sl_latest_write(now, home->store.secret);
	for (int i = 0; i < 2; i++) {
		uint64_t *latest = &home->store.header->anchors[i].latest, word = __atomic_load_n(latest, __ATOMIC_RELAXED);
		/* relaxed: the word is all there is to see; a lost race was won by one that is as late */
		if (sl_latest_read(word, home->store.secret) <= now)
			(void)__atomic_compare_exchange_n(latest, &word, fresh, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&home->latest_ns, sl_latest_read(fresh, home->store.secret), __ATOMIC_RELAXED);
}

/* Reads the store's clock, and sets it if this boot has not. The guard is ours. */
static void anchor_clock(struct sl_home *home) {
	struct sl_anchor *copies = home->store.header->anchors, chosen;
	uint64_t shift = sl_clock_boottime_shift();
	struct sl_boot boot = {.wall_ns = sl_clock_wall(), .boottime_ns = sl_clock_boottime() - shift};
	(void)sl_clock_boot_id(boot.id); /* without one each first opener anchors anew */
	(void)sl_anchor_choose(copies, home->store.secret, &boot, &chosen);
	for (int i = 0; i < 2; i++) {
		if (memcmp(&copies[i], &chosen, offsetof(struct sl_anchor, latest)) != 0)
			memcpy(&copies[i], &chosen, offsetof(struct sl_anchor, latest));
		SL_POINT();
	}
	home->offset_ns = chosen.offset_ns - shift;
	sl_home_raise_latest(home, sl_latest_read(chosen.latest, home->store.secret) - 1);
}

/* ---- the memory ------------------------------------------------------------------------------------------------ */

/* What lies between holes of the file, to whole pages. */
static void find_written(const struct sluice_store *store, uint64_t *page, uint64_t *end) {
	uint64_t from = SL_PAGES_OFFSET + *page * SL_PAGE_BYTES, to;
	sl_file_find_written(sl_home_of(store)->fd, SL_PAGES_OFFSET + store->page_count * SL_PAGE_BYTES, &from, &to);
	*page = (from - SL_PAGES_OFFSET) / SL_PAGE_BYTES;
	*end = (to - SL_PAGES_OFFSET + SL_PAGE_BYTES - 1) / SL_PAGE_BYTES;
}

static void attach(struct sl_home *home, void *memory) {
	sl_arena_attach(&home->store, memory);
	home->store.relax = let_others_run;
	home->store.rest = rest;
	home->store.clock = clock_of;
	home->store.owner_is_dead = owner_is_dead;
	home->store.stalls = &home->stalls;
	home->stalls.looks = SL_STALL_LOOKS;
	home->store.home = home;
	home->store.find_written = find_written;
}

static void *format_private(uint64_t bytes, uint32_t percent, bool pretouch) {
	void *memory = sl_map_private(bytes, pretouch);
	uint64_t secret[2];
	if (memory == NULL)
		return NULL;
	if (sl_random_secret(secret) && sl_arena_format(memory, bytes, percent, secret, sl_clock_wall()) == SLUICE_OK)
		return memory;
	sl_map_free(memory, bytes);
	return NULL;
}

sluice_err sl_home_make_private(struct sl_home *home, const struct sl_opening *opening) {
	void *memory = format_private(opening->bytes != 0 ? opening->bytes : SL_HOME_BYTES_DEFAULT, opening->percent,
	                              opening->pretouch);
	if (memory == NULL)
		return sl_opening_fail(opening, SLUICE_E_MEMORY, "the system gave no memory for the store");
	attach(home, memory);
	home->store.claimed = calloc((home->store.page_count + 63) / 64, sizeof *home->store.claimed);
	if (home->store.claimed == NULL) {
		sl_map_free(memory, home->store.arena_bytes);
		return sl_opening_fail(opening, SLUICE_E_MEMORY, "the system gave no memory for the store");
	}
	home->fd = -1;
	hold_row(home, SL_HOME_PRIVATE_ROW);
	home->offset_ns = sl_clock_anchor();
	home->latest_ns = SLUICE_NEVER; /* nobody reads it after us */
	return SLUICE_OK;
}

static bool all_zero(const void *memory, size_t bytes) {
	const unsigned char *p = memory;
	return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

/* Whether some bytes of a file are all zero, or missing. */
static bool file_is_zero(int fd, uint64_t from, uint64_t to) {
	unsigned char bytes[16384];
	while (from < to) {
		uint64_t left = to - from;
		ssize_t got = sl_file_read_at(fd, bytes, left < sizeof bytes ? (size_t)left : sizeof bytes, from);
		if (got == 0)
			return true;
		if (got < 0 || !all_zero(bytes, (size_t)got))
			return false;
		from += (uint64_t)got;
	}
	return true;
}

/* See above. Formatting writes nothing between the blocks' control and their map, and the header, which says where that
 * is, before it; the first MiB must do. */
static bool was_never_finished(int fd, const struct sl_header *header, uint64_t file_bytes) {
	uint64_t zero_to =
		header->map_offset != 0 ? sl_min(header->map_offset, NEVER_FINISHED_BYTES) : NEVER_FINISHED_BYTES;
	return header->magic == 0 && (header->version == 0 || header->version == SL_ARENA_VERSION) &&
	       (header->header_bytes == 0 || header->header_bytes == sizeof *header) &&
	       (header->arena_bytes == 0 || header->arena_bytes == file_bytes) &&
	       file_is_zero(fd, sizeof *header, SL_BLOCKS_CONTROL_OFFSET) && file_is_zero(fd, SL_PAGES_OFFSET, zero_to);
}

static sluice_err format_file(const struct sl_home *home, const struct sl_opening *opening, void *memory,
                              uint64_t bytes) {
	uint64_t secret[2];
	int wrong = sl_file_reserve(home->fd, bytes);
	if (wrong != 0)
		return fail_space(opening, bytes, wrong);
	if (!sl_random_secret(secret))
		return sl_opening_fail(opening, SLUICE_E_SYSTEM, "the system's random numbers could not be read");
	SL_POINT();
	if (sl_arena_format(memory, bytes, opening->percent, secret, sl_clock_wall()) != SLUICE_OK)
		return sl_opening_fail(opening, SLUICE_E_RANGE, "%s: no store can be so large", opening->shown);
	wrong = opening->shared ? 0 : sl_file_sync(home->fd, opening->path);
	return wrong == 0 ? SLUICE_OK : fail_system(opening, wrong);
}

static int set_length_anew(int fd, uint64_t bytes) {
	int wrong = sl_file_set_length(fd, 0);
	return wrong != 0 ? wrong : sl_file_set_length(fd, bytes);
}

static sluice_err map_and_format(struct sl_home *home, const struct sl_opening *opening, uint64_t bytes) {
	sluice_err err;
	void *memory;
	int wrong = set_length_anew(home->fd, bytes);
	if (wrong != 0)
		return fail_space(opening, bytes, wrong);
	memory = sl_map_shared(home->fd, bytes, opening->shared);
	if (memory == NULL)
		return fail_map(opening);
	err = format_file(home, opening, memory, bytes);
	if (err == SLUICE_OK)
		attach(home, memory);
	else
		sl_map_free(memory, bytes);
	return err;
}

/* Makes the store in a file of `had` bytes that are worth nothing; it is as long again when that fails. */
static sluice_err make(struct sl_home *home, const struct sl_opening *opening, uint64_t had) {
	sluice_err err = map_and_format(home, opening, opening->bytes != 0 ? opening->bytes : SL_HOME_BYTES_DEFAULT);
	if (err != SLUICE_OK)
		(void)set_length_anew(home->fd, had); /* or of another length then, and still never finished */
	return err;
}

sluice_err sl_home_check_size(const struct sl_opening *opening, uint64_t has) {
	if (opening->bytes == 0 || opening->bytes == has)
		return SLUICE_OK;
	return sl_opening_fail(
		opening, SLUICE_E_RANGE,
		"%s: has %llu bytes (%llu MiB), not %llu; say that or nothing, or %s", opening->shown, (unsigned long long)has,
		(unsigned long long)(has >> 20), (unsigned long long)opening->bytes,
		opening->shared ? "remove it, with its counters, while nothing uses it" : "change it: sluice store resize");
}

/* Maps a store that exists, of which the header was read. */
static sluice_err join(struct sl_home *home, const struct sl_opening *opening, const struct sl_header *header,
                       uint64_t file_bytes) {
	const char *wrong = sl_arena_refuse(header, file_bytes);
	sluice_err err;
	void *memory;
	if (wrong != NULL)
		return sl_opening_fail(opening, SLUICE_E_STORE, "%s: %s", opening->shown, wrong);
	err = sl_home_check_size(opening, header->arena_bytes);
	if (err != SLUICE_OK)
		return err;
	memory = sl_map_shared(home->fd, header->arena_bytes, false);
	if (memory == NULL)
		return fail_map(opening);
	attach(home, memory);
	return SLUICE_OK;
}

/* Whether nobody else has the store open, who would have repaired it. Where the kernel can't say it is not opened: it
 * may be torn. The first fills its holes, before anything is written through the mapping: a file that was copied may
 * have some, and its disk be full. */
static sluice_err find_first(const struct sl_home *home, const struct sl_opening *opening, bool *is_first) {
	bool is_held;
	int wrong = sl_any_row_is_held(home->fd, &is_held);
	*is_first = !is_held;
	if (wrong != 0)
		return fail_system(opening, wrong);
	wrong = *is_first ? sl_file_reserve(home->fd, home->store.arena_bytes) : 0;
	return wrong == 0 ? SLUICE_OK : fail_space(opening, home->store.arena_bytes, wrong);
}

/* The guard is ours. */
static sluice_err enter_guarded(struct sl_home *home, const struct sl_opening *opening, uint64_t file_bytes) {
	struct sl_header header = {0};
	struct sl_repair found;
	bool is_new, is_first = false;
	sluice_err err;
	if (sl_file_read_at(home->fd, &header, sizeof header, 0) < 0)
		return fail_system(opening, errno);
	is_new = was_never_finished(home->fd, &header, file_bytes);
	if (is_new && opening->existing)
		return sl_opening_fail(opening, SLUICE_E_NONE, "%s: is a file, but no store was made in it", opening->shown);
	err = is_new ? make(home, opening, file_bytes) : join(home, opening, &header, file_bytes);
	if (err != SLUICE_OK)
		return err;
	err = is_new ? SLUICE_OK : find_first(home, opening, &is_first);
	if (err == SLUICE_OK)
		err = become_process(home, opening);
	if (err == SLUICE_OK && is_first) {
		sl_map_expect_scan(home->store.header, home->store.arena_bytes, true);
		sl_arena_repair(&home->store, &found);
		sl_map_expect_scan(home->store.header, home->store.arena_bytes, false);
	}
	SL_POINT();
	if (err == SLUICE_OK)
		anchor_clock(home);
	else
		sl_map_free(home->store.header, home->store.arena_bytes);
	return err;
}

sluice_err sl_home_enter(struct sl_home *home, const struct sl_opening *opening, bool created, bool *moved) {
	const char *remote = sl_file_remote_kind_of(home->fd);
	struct sl_file_id at;
	uint64_t file_bytes = 0;
	sluice_err err;
	int wrong;
	*moved = false;
	if (remote != NULL) {
		err = sl_opening_fail(opening, SLUICE_E_SYSTEM, "%s: is on %s; a store must be on a filesystem of this host",
		                      opening->shown, remote);
		goto removed;
	}
	wrong = sl_guard_take(home->fd, opening->patience_ns);
	if (wrong == EAGAIN)
		return fail_guarded(opening);
	if (wrong == 0 && (sl_file_id_at(opening->path, &at) != 0 || !sl_file_id_equal(&at, &home->id))) {
		*moved = true;
		return SLUICE_E_BUSY;
	}
	if (wrong == 0)
		wrong = sl_file_id_of(home->fd, &at, &file_bytes);
	err = wrong == 0 ? enter_guarded(home, opening, file_bytes) : fail_system(opening, wrong);
	if (err == SLUICE_OK)
		sl_guard_release(home->fd);
removed:
	/* Still under the guard, and nobody has made it since: others who wait find that the path names another file. */
	if (err != SLUICE_OK && created && file_bytes == 0)
		(void)unlink(opening->path);
	return err;
}

sluice_err sl_home_accept(struct sl_home *home, const struct sl_opening *opening) {
	sluice_err err = sl_home_check_size(opening, home->store.arena_bytes);
	int wrong;
	if (err != SLUICE_OK || home->store.owner != 0)
		return err;
	wrong = sl_guard_take(home->fd, opening->patience_ns);
	if (wrong != 0)
		return fail_guarded(opening);
	err = become_process(home, opening);
	sl_guard_release(home->fd);
	return err;
}

void sl_home_leave(struct sl_home *home) {
	sl_map_free(home->store.header, home->store.arena_bytes);
	free(home->store.claimed);
	for (uint32_t i = 0; i < home->spare_count; i++)
		(void)close(home->spare_fds[i]);
	if (home->fd >= 0)
		(void)close(home->fd);
}
