/* The files of a recording: see replay_read.c. */
#ifndef SL_CLI_REPLAY_READ_H
#define SL_CLI_REPLAY_READ_H

#include "hosts/cli/replay/replay.h"

/* Reads all files and decides all requests. SL_EXIT_FINE, or SL_EXIT_FAILED after saying why. */
int sl_replay_read(struct sl_replay *replay);

/* The name of a file as it is told: standard input has one too. */
static inline const char *sl_replay_file_name(const struct sl_replay *replay, uint32_t file) {
	const char *name = replay->options->files[file];
	return strcmp(name, "-") == 0 ? "<stdin>" : name;
}

#endif
