/* Files that appear whole or not at all: written beside their place under a name of their own, then moved there. */
#ifndef SL_CLI_PART_H
#define SL_CLI_PART_H

#include "hosts/cli/cli.h"

#include <limits.h>

struct sl_part {
	const char *path;    /* where it is to be; borrowed */
	char name[PATH_MAX]; /* where it is being written */
	int fd;              /* read and write; -1: none */
};

/* Makes an empty file beside `path`, for its owner only. SL_GO_ON, or SL_EXIT_FAILED after saying why. */
int sl_part_begin(const struct sl_verb *verb, struct sl_part *part, const char *path);

/* Writes it to disk, moves it to its place and closes it. On failure nothing is left of it. SL_GO_ON, or SL_EXIT_FAILED
 * after saying why.
 *  replace  whatever stands there; else it must be free */
int sl_part_finish(const struct sl_verb *verb, struct sl_part *part, bool replace);

/* Removes it. Also after a failed begin, or a finish, when there is nothing to do. */
void sl_part_drop(struct sl_part *part);

#endif
