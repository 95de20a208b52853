/* Read from /proc/self, as every client of Prometheus does. What can't be read is said to be missing, never 0. */
#include "hosts/server/watch/usage.h"

#include "os/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIELD_START = 22, FIELD_VIRTUAL = 23, FIELD_RESIDENT = 24 }; /* of /proc/self/stat, from 1; see proc(5) */

static ssize_t read_all(const char *path, char *text, size_t room) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t len = read(fd, text, room - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len;
}

/* The second field is the program's name in parentheses and may hold spaces: fields are counted from its end. */
static bool read_fields(uint64_t *start, uint64_t *virtual_bytes, uint64_t *resident_pages) {
	char text[1024], *at;
	if (read_all("/proc/self/stat", text, sizeof text) <= 0 || (at = strrchr(text, ')')) == NULL)
		return false;
	for (int field = 2; field < FIELD_START; field++)
		if ((at = strchr(at + 1, ' ')) == NULL)
			return false;
	*start = strtoull(at, &at, 10);
	*virtual_bytes = strtoull(at, &at, 10);
	*resident_pages = strtoull(at, &at, 10);
	return true;
}

/* Unix time of the start, worked out once: a clock that is set later must not seem to be a restart. */
static sluice_ns started_at(uint64_t ticks_after_boot) {
	static _Atomic uint64_t known;
	uint64_t none = 0, ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	sluice_ns up = sl_clock_boottime(), after_boot = ticks_after_boot * (1000000000 / ticks);
	uint64_t started = sl_clock_wall() - (up > after_boot ? up - after_boot : 0);
	return atomic_compare_exchange_strong(&known, &none, started) ? started : none;
}

static bool count_fds(uint64_t *count) {
	struct stat stat_of;
	if (stat("/proc/self/fd", &stat_of) == 0 && stat_of.st_size > 0) { /* Linux 6.2 and later say it so */
		*count = (uint64_t)stat_of.st_size;
		return true;
	}
	DIR *folder = opendir("/proc/self/fd");
	if (folder == NULL)
		return false;
	*count = 0;
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
		*count += entry->d_name[0] != '.';
	closedir(folder);
	(*count)--; /* the folder's own */
	return true;
}

static sluice_ns ns_of(struct timeval time) {
	return (sluice_ns)time.tv_sec * 1000000000 + (sluice_ns)time.tv_usec * 1000;
}

void sl_usage_read(struct sl_usage *usage) {
	struct rusage self;
	struct rlimit files;
	uint64_t start = 0, pages = 0;
	*usage = (struct sl_usage){0};
	usage->has_stat = read_fields(&start, &usage->virtual_bytes, &pages);
	if (usage->has_stat)
		usage->started_ns = started_at(start);
	usage->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (getrusage(RUSAGE_SELF, &self) == 0)
		usage->cpu_ns = ns_of(self.ru_utime) + ns_of(self.ru_stime);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		usage->max_fds = files.rlim_cur;
	usage->has_fds = count_fds(&usage->open_fds);
}
