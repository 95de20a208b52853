/* One mapping and one descriptor for each file that the process has open, whatever the number of its handles: closing
 * any descriptor of a file would drop the locks that tell others that this process lives (os/process.c). So
 *
 * I1  a path is looked up by its file before it is opened;
 * I2  if it turns out only after opening that the file is open already (a rename in between), the second descriptor is
 *     kept until the first is closed.
 *
 * A fork waits until no opening is under way, and the child then becomes a process of its own in every store. */
#include "hosts/library/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	pthread_mutex_t mutex;
	struct sl_home *first;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) {
	(void)pthread_mutex_lock(&registry.mutex);
}

static void after_fork_in_parent(void) {
	(void)pthread_mutex_unlock(&registry.mutex);
}

static void after_fork_in_child(void) {
	for (struct sl_home *home = registry.first; home != NULL; home = home->next)
		sl_home_after_fork(home);
	(void)pthread_mutex_unlock(&registry.mutex);
}

static void watch_forks(void) {
	/* Fails only without memory, and then forks are as if by clone(): see the caveats of sluice.h. */
	(void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static struct sl_home *find(const struct sl_file_id *id) {
	for (struct sl_home *home = registry.first; home != NULL; home = home->next)
		if (home->fd >= 0 && sl_file_id_equal(&home->id, id))
			return home;
	return NULL;
}

static sluice_err refuse_path(const struct sl_opening *opening, int wrong) {
	switch (wrong) {
	case ENOENT:
		if (opening->existing)
			return sl_opening_fail(opening, SLUICE_E_NONE, "%s: there is no such store", opening->shown);
		return sl_opening_fail(opening, SLUICE_E_SYSTEM, "%s: its folder does not exist", opening->shown);
	case ELOOP:
		return sl_opening_fail(opening, SLUICE_E_STORE, "%s: is a symbolic link; name the file itself", opening->shown);
	case EISDIR:
		return sl_opening_fail(opening, SLUICE_E_STORE, "%s: is a folder; name a file", opening->shown);
	case ENXIO:
		return sl_opening_fail(opening, SLUICE_E_STORE, "%s: is not a regular file", opening->shown);
	case EACCES:
	case EPERM:
		return sl_opening_fail(opening, SLUICE_E_SYSTEM,
		                       "%s: %s for user %lu; all users of a store must be able to read and write it",
		                       opening->shown, strerror(wrong), (unsigned long)geteuid());
	default:
		return sl_opening_fail(opening, SLUICE_E_SYSTEM, "%s: %s", opening->shown, strerror(wrong));
	}
}

/* I2 */
static void keep_descriptor(struct sl_home *home, int fd) {
	if (home->spare_count < SL_HOME_SPARE_FDS)
		home->spare_fds[home->spare_count++] = fd;
	/* else it stays open for good: one descriptor is the smaller loss */
}

/* Opens the file of a path and enters it. *known: the file turned out to be open already. */
static sluice_err enter_file(struct sl_home *fresh, struct sl_home **known, const struct sl_opening *opening,
                             bool *moved) {
	bool created = false;
	uint64_t bytes;
	sluice_err err;
	int wrong;
	fresh->fd = sl_file_open(opening->path, !opening->existing, opening->mode, &created);
	if (fresh->fd < 0)
		return refuse_path(opening, errno);
	wrong = sl_file_id_of(fresh->fd, &fresh->id, &bytes);
	if (wrong != 0)
		err = refuse_path(opening, wrong);
	else if ((*known = find(&fresh->id)) != NULL) {
		keep_descriptor(*known, fresh->fd);
		return sl_home_accept(*known, opening);
	} else
		err = sl_home_enter(fresh, opening, created, moved);
	if (err != SLUICE_OK)
		(void)close(fresh->fd);
	return err;
}

/* The registry is locked. */
static sluice_err open_locked(struct sl_home *fresh, struct sl_home **known, const struct sl_opening *opening) {
	struct sl_file_id id;
	if (opening->path == NULL)
		return sl_home_make_private(fresh, opening);
	/* Twice round only where others replace the file at the same time. */
	for (int tries = 0; tries < 100; tries++) {
		bool moved = false;
		sluice_err err;
		if (sl_file_id_at(opening->path, &id) == 0 && (*known = find(&id)) != NULL) /* I1 */
			return sl_home_accept(*known, opening);
		memset(fresh, 0, sizeof *fresh);
		err = enter_file(fresh, known, opening, &moved);
		if (!moved)
			return err;
	}
	return sl_opening_fail(opening, SLUICE_E_BUSY, "%s: is being replaced by others all the time", opening->shown);
}

sluice_err sl_registry_open(struct sl_home **home, const struct sl_opening *opening) {
	static pthread_once_t watched = PTHREAD_ONCE_INIT;
	struct sl_home *fresh = calloc(1, sizeof *fresh), *known = NULL;
	sluice_err err;
	if (fresh == NULL)
		return sl_opening_fail(opening, SLUICE_E_MEMORY, "the system gave no memory for the store");
	(void)pthread_once(&watched, watch_forks);
	(void)pthread_mutex_lock(&registry.mutex);
	err = open_locked(fresh, &known, opening);
	if (err == SLUICE_OK && known == NULL) {
		known = fresh;
		known->next = registry.first;
		registry.first = known;
		fresh = NULL;
	}
	if (err == SLUICE_OK) {
		known->references++;
		*home = known;
	}
	(void)pthread_mutex_unlock(&registry.mutex);
	free(fresh);
	return err;
}

void sl_registry_close(struct sl_home *home) {
	bool last;
	(void)pthread_mutex_lock(&registry.mutex);
	last = --home->references == 0;
	if (last) {
		struct sl_home **link = &registry.first;
		while (*link != home)
			link = &(*link)->next;
		*link = home->next;
		sl_home_leave(home);
	}
	(void)pthread_mutex_unlock(&registry.mutex);
	if (last)
		free(home);
}
