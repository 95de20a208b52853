/* What a replay came to: see replay_report.c. */
#ifndef SL_CLI_REPLAY_REPORT_H
#define SL_CLI_REPLAY_REPORT_H

#include "hosts/cli/replay/replay.h"

/* Prints who would have been limited to standard output; with --decisions, the counts alone to standard error. */
void sl_replay_report(const struct sl_replay *replay);

#endif
