/* For LD_PRELOAD: a host that has no memory for what takes so many bytes. While the file $NO_MEMORY_WHILE is there,
 * malloc() of $NO_MEMORY_FROM..$NO_MEMORY_TO bytes fails; nginx clears its environment, so it is read at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size); /* the C library's own */

static char path[4096];
static size_t from = 1, to; /* none, until they are read */

__attribute__((constructor)) static void read_environment(void) {
	const char *least = getenv("NO_MEMORY_FROM"), *most = getenv("NO_MEMORY_TO"), *file = getenv("NO_MEMORY_WHILE");
	if (least == NULL || most == NULL || file == NULL)
		return;
	snprintf(path, sizeof path, "%s", file);
	from = strtoul(least, NULL, 10);
	to = strtoul(most, NULL, 10);
}

void *malloc(size_t size) {
	if (size >= from && size <= to && access(path, F_OK) == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(size);
}
