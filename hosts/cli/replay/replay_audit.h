/* --audit: what was admitted, judged by the auditor; and --judge: verdicts that somebody else gave, judged likewise. */
#ifndef SL_CLI_REPLAY_AUDIT_H
#define SL_CLI_REPLAY_AUDIT_H

#include "hosts/cli/replay/replay.h"

/* Begins what the options ask for of it. SL_GO_ON, or SL_EXIT_FAILED after saying why. */
int sl_replay_audit_open(struct sl_replay *replay);
void sl_replay_audit_close(struct sl_replay *replay);

/* With --judge: puts the next verdicts in the place of decisions: of `count` calls, in order. As above. */
int sl_replay_audit_verdicts(struct sl_replay *replay, struct sluice_call *calls, uint32_t count);

/* Counts what a decided call was charged. As above.
 *  positions  of its items' limits
 *  release    when its leases end */
int sl_replay_audit_call(struct sl_replay *replay, const struct sluice_call *call, const uint32_t *positions,
                         sluice_ns release);

/* Once all is decided: are there as many verdicts as requests? As above. */
int sl_replay_audit_end(struct sl_replay *replay);

/* Prints what was found; nothing without --audit. */
void sl_replay_audit_report(const struct sl_replay *replay, FILE *to);

/* What the program exits with by it: SL_EXIT_FINE, or SL_EXIT_DENIED where a bound was exceeded. */
int sl_replay_audit_status(const struct sl_replay *replay);

#endif
