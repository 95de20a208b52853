/* Memory that is left; see memory.h.
 *
 * Source: proc(5) for MemAvailable, the kernel's cgroup-v2.rst for memory.max and memory.current: a group may use what
 * it and all above it are given. In a container its own group is the root of what can be seen. */
#include "os/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 4096, PATH_BYTES = 4096, FILE_BYTES = PATH_BYTES + 256 };

/* The beginning of a small file, as a string. */
static bool read_text(const char *root, const char *folder, const char *name, char text[TEXT_MAX]) {
	char path[FILE_BYTES];
	snprintf(path, sizeof path, "%s%s%s", root, folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t len = read(fd, text, TEXT_MAX - 1);
	close(fd);
	text[len < 0 ? 0 : len] = '\0';
	return len > 0;
}

static uint64_t read_bytes(const char *root, const char *folder, const char *name) {
	char text[TEXT_MAX], *end;
	if (!read_text(root, folder, name, text))
		return UINT64_MAX;
	errno = 0;
	uint64_t bytes = strtoull(text, &end, 10); /* "max": none */
	return end == text || errno != 0 ? UINT64_MAX : bytes;
}

static uint64_t available_in_all(const char *root) {
	char text[TEXT_MAX];
	const char *line = read_text(root, "/proc", "/meminfo", text) ? strstr(text, "\nMemAvailable:") : NULL;
	return line == NULL ? UINT64_MAX : strtoull(line + strlen("\nMemAvailable:"), NULL, 10) * 1024;
}

static uint64_t left_in_group(const char *root, const char *folder) {
	uint64_t most = read_bytes(root, folder, "/memory.max"), used = read_bytes(root, folder, "/memory.current");
	if (most == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	return used < most ? most - used : 0;
}

/* The group's path, from "0::/path" in a line of its own; "" where there is none. */
static void find_group(const char *root, char path[PATH_BYTES]) {
	char text[TEXT_MAX];
	path[0] = '\0';
	if (!read_text(root, "/proc", "/self/cgroup", text))
		return;
	const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (line == NULL)
		return;
	line = strchr(line, '/');
	if (line != NULL)
		snprintf(path, PATH_BYTES, "%.*s", (int)strcspn(line, "\n"), line);
}

uint64_t sl_memory_available_under(const char *root) {
	char path[PATH_BYTES], folder[PATH_BYTES + 16];
	uint64_t least = available_in_all(root);
	find_group(root, path);
	for (;;) {
		snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", path);
		uint64_t left = left_in_group(root, folder);
		least = left < least ? left : least;
		char *last = strrchr(path, '/');
		if (last == NULL)
			return least;
		*last = '\0';
	}
}

uint64_t sl_memory_available(void) {
	return sl_memory_available_under("");
}
