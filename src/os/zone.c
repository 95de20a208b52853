/* Time zones from files, by name. What is in a file is read by base/tzif.c.
 *
 * A name comes from whoever may name a limit, over the network too: it is one or more parts of letters, digits, `_`,
 * `+` and `-`, separated by single slashes, the first beginning with a capital letter, as all of tzdata's do. So there
 * is no way out of the folder, nor into its copies (posix/, right/) or its other files (localtime, zone.tab); and only
 * a regular file of at most FILE_BYTES_MAX is read, once for each zone. There are some 600 names, of some 20 KB each at
 * most: no stranger can fill the table. */
#include "os/zone.h"

#include "base/tzif.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 65536, PATH_BYTES = 512, NAMES_MAX = 4096, DEPTH_MAX = 3 };

static bool is_part(char c) {
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '+' ||
	       c == '-';
}

static bool is_name(struct sluice_bytes name) {
	const char *p = name.data;
	if (name.len < 1 || name.len >= SL_ZONE_NAME_MAX || p[0] < 'A' || p[0] > 'Z' || p[name.len - 1] == '/')
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!is_part(p[i]) && (p[i] != '/' || p[i - 1] == '/'))
			return false;
	return true;
}

static const char *folder(void) {
	const char *named = secure_getenv("TZDIR");
	return named != NULL && named[0] == '/' ? named : "/usr/share/zoneinfo";
}

/* All of a regular file, up to FILE_BYTES_MAX; its length, or -1. */
static ssize_t read_file(const char *path, unsigned char *bytes) {
	struct stat stat;
	ssize_t len = 0, got;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not hold us up */
	if (fd < 0)
		return -1;
	if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_size > FILE_BYTES_MAX)
		len = -1;
	while (len >= 0 && (got = read(fd, bytes + len, (size_t)(FILE_BYTES_MAX - len))) != 0)
		len = got > 0 ? len + got : -1;
	close(fd);
	return len;
}

/* Adds a zone whose file has been read; gives back what is not taken. */
static int32_t add(struct sluice_bytes name, struct sluice_bytes file, struct sl_shift *room) {
	struct sl_shift *shifts;
	uint32_t count;
	int32_t number;
	if (sl_tzif_read(file, room, &count) != NULL)
		return -1;
	shifts = malloc(count * sizeof *shifts);
	if (shifts == NULL)
		return -1;
	memcpy(shifts, room, count * sizeof *shifts);
	number = sl_zone_add(name, shifts, count);
	if (number < 0 || sl_zone_at((uint32_t)number)->shifts != shifts)
		free(shifts);
	return number;
}

int32_t sl_zone_read(struct sluice_bytes name) {
	char path[PATH_BYTES];
	struct {
		unsigned char file[FILE_BYTES_MAX];
		struct sl_shift shifts[SL_SHIFTS_MAX];
	} * room;
	int32_t number = -1;
	ssize_t len;
	int written;
	if (!is_name(name))
		return -1;
	written = snprintf(path, sizeof path, "%s/%.*s", folder(), (int)name.len, (const char *)name.data);
	if (written < 0 || (size_t)written >= sizeof path)
		return -1;
	room = malloc(sizeof *room);
	if (room == NULL)
		return -1;
	len = read_file(path, room->file);
	if (len >= 0)
		number = add(name, sl_slice(room->file, (size_t)len), room->shifts);
	free(room);
	return number;
}

/* ---- all names --------------------------------------------------------------------------------------------------- */

static char **names;
static size_t name_count;
static pthread_once_t listed = PTHREAD_ONCE_INIT;

static void keep_name(const char *name) {
	char *copy = name_count < NAMES_MAX ? strdup(name) : NULL;
	if (copy != NULL)
		names[name_count++] = copy;
}

static void list_folder(const char *under, int depth) {
	char path[PATH_BYTES], name[SL_ZONE_NAME_MAX];
	struct dirent *entry;
	DIR *dir;
	(void)snprintf(path, sizeof path, "%s/%s", folder(), under);
	dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		struct stat stat;
		int len = snprintf(name, sizeof name, "%s%s%s", under, *under != '\0' ? "/" : "", entry->d_name);
		if (len < 0 || (size_t)len >= sizeof name || !is_name(sl_str(name)) ||
		    fstatat(dirfd(dir), entry->d_name, &stat, 0) != 0)
			continue;
		if (S_ISDIR(stat.st_mode) && depth < DEPTH_MAX)
			list_folder(name, depth + 1);
		else if (S_ISREG(stat.st_mode))
			keep_name(name);
	}
	if (dir != NULL)
		closedir(dir);
}

static void list_all(void) {
	names = malloc(NAMES_MAX * sizeof *names);
	if (names != NULL)
		list_folder("", 0);
}

int32_t sl_zone_read_hash(uint64_t hash) {
	int32_t number = sl_zone_find_hash(hash);
	if (number >= 0)
		return number;
	pthread_once(&listed, list_all);
	for (size_t i = 0; i < name_count; i++)
		if (sl_zone_hash(sl_str(names[i])) == hash)
			return sl_zone_read(sl_str(names[i]));
	return -1;
}

static char lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Whether two names differ, but for case, in one place by at most two letters: a slip of the finger. */
static bool is_slip(struct sluice_bytes name, const char *known) {
	const char *p = name.data;
	size_t len = strlen(known), front = 0, back = 0, shorter = name.len < len ? name.len : len;
	while (front < shorter && lower(p[front]) == lower(known[front]))
		front++;
	while (back < shorter - front && lower(p[name.len - 1 - back]) == lower(known[len - 1 - back]))
		back++;
	return name.len - front - back <= 2 && len - front - back <= 2;
}

static bool is_same(struct sluice_bytes name, const char *known) {
	return sl_bytes_equal_nocase(name, known);
}

/* Looks for a name by all of it, then by its last part, as Berlin. */
static const char *guess(struct sluice_bytes name, bool (*fits)(struct sluice_bytes name, const char *known)) {
	const char *by_part = NULL;
	for (size_t i = 0; i < name_count; i++) {
		const char *part = strrchr(names[i], '/');
		if (fits(name, names[i]))
			return names[i];
		if (part != NULL && by_part == NULL && fits(name, part + 1))
			by_part = names[i];
	}
	return by_part;
}

const char *sl_zone_guess(struct sluice_bytes name) {
	const char *found;
	if (name.len < 3 || name.len >= SL_ZONE_NAME_MAX)
		return NULL;
	pthread_once(&listed, list_all);
	found = guess(name, is_same);
	return found != NULL || name.len < 5 ? found : guess(name, is_slip);
}

void sl_zone_use_host(void) {
	sl_zone_load = sl_zone_read;
	sl_zone_load_hash = sl_zone_read_hash;
	sl_zone_near = sl_zone_guess;
}
