/* For LD_PRELOAD: a disk that does not answer. Who reads a file whose name ends with ".stuck" waits for good, as he
 * does when the host of a mounted folder is away; the file is a regular one, and opening it goes well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

ssize_t read(int fd, void *data, size_t len) {
	static ssize_t (*next)(int, void *, size_t);
	char link[64], path[4096];
	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "read");
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t got = readlink(link, path, sizeof path);
	while (got > 6 && memcmp(path + got - 6, ".stuck", 6) == 0)
		pause();
	return next(fd, data, len);
}
