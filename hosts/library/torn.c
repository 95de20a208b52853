/* Read beside the store, without opening it: opening is what drops torn counters. */
#include "hosts/library/torn.h"

#include "os/file.h"
#include "store/layout.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t sl_torn_dropped(const char *file) {
	struct sl_header header = {0};
	struct stat found;
	int fd = lstat(file, &found) == 0 && S_ISREG(found.st_mode) ? open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd < 0)
		return 0;
	ssize_t got = sl_file_read_at(fd, &header, sizeof header, 0);
	close(fd);
	return got == (ssize_t)sizeof header && header.magic == SL_ARENA_MAGIC ? header.dropped : 0;
}
