/* See part.h. Whoever is killed while writing leaves the file of before, and at most a part with a name of its own. */
#include "hosts/cli/store/part.h"

#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int sl_part_begin(const struct sl_verb *verb, struct sl_part *part, const char *path) {
	part->path = path;
	part->fd = -1;
	int len = snprintf(part->name, sizeof part->name, "%s.new-XXXXXX", path);
	if (len < 0 || (size_t)len >= sizeof part->name)
		return sl_cli_fail(verb, "%.64s...: %s", path, strerror(ENAMETOOLONG));
	part->fd = mkostemp(part->name, O_CLOEXEC);
	return part->fd >= 0 ? SL_GO_ON : sl_cli_fail(verb, "%s: %s", part->name, strerror(errno));
}

int sl_part_finish(const struct sl_verb *verb, struct sl_part *part, bool replace) {
	int err = sl_file_sync(part->fd, part->name);
	if (err == 0 && renameat2(AT_FDCWD, part->name, AT_FDCWD, part->path, replace ? 0 : RENAME_NOREPLACE) != 0)
		err = errno;
	if (err != 0) {
		sl_part_drop(part);
		return sl_cli_fail(verb, "%s: %s", part->path, strerror(err));
	}
	err = sl_file_sync(part->fd, part->path); /* the folder: it has another entry now */
	close(part->fd);
	part->fd = -1;
	return err == 0 ? SL_GO_ON : sl_cli_fail(verb, "%s: writing its folder to disk: %s", part->path, strerror(err));
}

void sl_part_drop(struct sl_part *part) {
	if (part->fd < 0)
		return;
	unlink(part->name);
	close(part->fd);
	part->fd = -1;
}
