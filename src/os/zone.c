/* Time zones from files, by name. What is in a file is read by base/tzif.c.
 *
 * A name comes from whoever may name a limit, over the network too: it is one or more parts of letters, digits, `_`,
 * `+` and `-`, separated by single slashes, the first beginning with a capital letter, as all of tzdata's do. So there
 * is no way out of the folder, nor into its copies (posix/, right/) or its other files (localtime, zone.tab); and only
 * a regular file of at most FILE_BYTES_MAX is read, once for each zone. There are some 600 names, of some 20 KB each at
 * most: no stranger can fill the table. */
#include "os/zone.h"

#include "base/math.h"
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
static ssize_t read_file(int fd, unsigned char *bytes) {
	struct stat stat;
	ssize_t len = 0, got;
	if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_size > FILE_BYTES_MAX)
		len = -1;
	while (len >= 0 && (got = read(fd, bytes + len, (size_t)(FILE_BYTES_MAX - len))) != 0)
		len = got > 0 ? len + got : -1;
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

static int32_t read_and_add(struct sluice_bytes name, int fd) {
	struct {
		unsigned char file[FILE_BYTES_MAX];
		struct sl_shift shifts[SL_SHIFTS_MAX];
	} *room = malloc(sizeof *room);
	int32_t number = -1;
	if (room == NULL)
		return -1;
	ssize_t len = read_file(fd, room->file);
	if (len >= 0)
		number = add(name, sl_slice(room->file, (size_t)len), room->shifts);
	free(room);
	return number;
}

int32_t sl_zone_read(struct sluice_bytes name) {
	char path[PATH_BYTES];
	int32_t number;
	int written, fd;
	if (!is_name(name))
		return -1;
	written = snprintf(path, sizeof path, "%s/%.*s", folder(), (int)name.len, (const char *)name.data);
	if (written < 0 || (size_t)written >= sizeof path)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not hold us up */
	if (fd < 0)
		return -1;
	number = read_and_add(name, fd);
	close(fd);
	return number;
}

/* ---- all names --------------------------------------------------------------------------------------------------- */

static struct name {
	char text[SL_ZONE_NAME_MAX], small[SL_ZONE_NAME_MAX]; /* in lower case */
} *names;

/* All of a name, or the last part of one that has several, in lower case. Those of one length are a chain: a stranger's
 * name is held against few of them, and most of these are told from it by their ends. */
static struct spelling {
	uint16_t name, next; /* of the chain; NO_SPELLING: it ends */
	uint8_t from;        /* where it begins in the name */
	char first, last;
} *spellings;
enum { NO_SPELLING = UINT16_MAX };
static uint16_t chains[SL_ZONE_NAME_MAX]; /* by length: the first */
static size_t name_count, spelling_count;
static pthread_once_t listed = PTHREAD_ONCE_INIT;

static void make_small(struct sluice_bytes text, char *small) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		small[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 32) : p[i];
}

static void keep_spelling(size_t from, size_t len) {
	const char *small = names[name_count].small + from;
	spellings[spelling_count] =
		(struct spelling){(uint16_t)name_count, chains[len], (uint8_t)from, small[0], small[len - 1]};
	chains[len] = (uint16_t)spelling_count++;
}

static void keep_name(const char *text) {
	size_t len = strlen(text);
	const char *slash = strrchr(text, '/');
	if (name_count == NAMES_MAX)
		return;
	memcpy(names[name_count].text, text, len + 1);
	make_small(sl_slice(text, len), names[name_count].small);
	keep_spelling(0, len);
	if (slash != NULL)
		keep_spelling((size_t)(slash + 1 - text), strlen(slash + 1));
	name_count++;
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
	memset(chains, 0xff, sizeof chains);
	names = malloc(NAMES_MAX * sizeof *names);
	spellings = malloc((size_t)2 * NAMES_MAX * sizeof *spellings);
	if (names != NULL && spellings != NULL)
		list_folder("", 0);
}

int32_t sl_zone_read_hash(uint64_t hash) {
	int32_t number = sl_zone_find_hash(hash);
	if (number >= 0)
		return number;
	pthread_once(&listed, list_all);
	for (size_t i = 0; i < name_count; i++)
		if (sl_zone_hash(sl_str(names[i].text)) == hash)
			return sl_zone_read(sl_str(names[i].text));
	return -1;
}

/* Whether two texts differ in one place by at most two letters: a slip of the finger. They have 5 letters at least, the
 * other one 3, and their lengths differ by 2 at most: so one of their ends is the same, and where it is but one, all to
 * within two letters of the other. */
static bool is_slip(struct sluice_bytes name, struct sluice_bytes known) {
	const char *p = name.data, *q = known.data, *p_end = p + name.len, *q_end = q + known.len;
	size_t front = 0, back = 0, shorter = sl_min(name.len, known.len), alike = sl_max(name.len, known.len) - 2;
	if (p_end[-1] != q_end[-1])
		return *p == *q && memcmp(p, q, alike) == 0;
	if (*p != *q)
		return memcmp(p_end - alike, q_end - alike, alike) == 0;
	while (front < shorter && p[front] == q[front])
		front++;
	while (back < shorter - front && p[name.len - 1 - back] == q[known.len - 1 - back])
		back++;
	return name.len - front - back <= 2 && known.len - front - back <= 2;
}

/* Looks among the spellings of one length for a name in lower case: for itself, or (`slips`, where it has 5 letters at
 * least) for one a slip away, which has one of its ends. The name, or NULL; else *by_part is one whose last part it is,
 * as berlin. */
static const char *guess_among(struct sluice_bytes name, size_t len, bool slips, const char **by_part) {
	const char *p = name.data;
	for (size_t i = chains[len]; i != NO_SPELLING; i = spellings[i].next) {
		const struct spelling *one = &spellings[i];
		const struct name *known = &names[one->name];
		bool first = one->first == p[0], last = one->last == p[name.len - 1];
		struct sluice_bytes small = {known->small + one->from, len};
		if (!(first || last) || !(slips ? is_slip(name, small) : sl_bytes_equal(name, small)))
			continue;
		if (one->from == 0)
			return known->text;
		*by_part = known->text;
	}
	return NULL;
}

static const char *guess(struct sluice_bytes name) {
	const char *by_part = NULL, *found = guess_among(name, name.len, false, &by_part);
	if (found != NULL || by_part != NULL || name.len < 5)
		return found != NULL ? found : by_part;
	for (size_t len = name.len - 2; len <= name.len + 2 && len < SL_ZONE_NAME_MAX && found == NULL; len++)
		found = guess_among(name, len, true, &by_part);
	return found != NULL ? found : by_part;
}

const char *sl_zone_guess(struct sluice_bytes name) {
	char small[SL_ZONE_NAME_MAX];
	if (name.len < 3 || name.len >= SL_ZONE_NAME_MAX)
		return NULL;
	pthread_once(&listed, list_all);
	make_small(name, small);
	return guess(sl_slice(small, name.len));
}

void sl_zone_use_host(void) {
	sl_zone_load = sl_zone_read;
	sl_zone_load_hash = sl_zone_read_hash;
	sl_zone_near = sl_zone_guess;
}
