/* The server's own log, on standard error: lines for people, or JSON for machines.
 *
 *   sluice: loaded /etc/sluice/sluice.yaml
 *   {"time":"2026-11-21T22:00:00.123Z","level":"info","message":"loaded /etc/sluice/sluice.yaml"}
 *
 * A line is one write of at most SL_LOG_LINE_MAX bytes, so lines of several threads never mix. What stands in a line is
 * made printable: nobody can forge a second line. No secret is ever given to it. */
#ifndef SL_LOG_H
#define SL_LOG_H

#include "base/bytes.h"

#include <stdatomic.h>

enum sl_log_level { SL_LOG_INFO, SL_LOG_WARNING, SL_LOG_ERROR };

enum {
	SL_LOG_MESSAGE_MAX = 2048, /* bytes of a message; what is longer is cut */
	SL_LOG_LINE_MAX = 16 * 1024,
};

/* Says whether lines are JSON from now on; text before the first call. From any thread. */
void sl_log_set_json(bool json);

/* Says which lines are written from now on: those of this level and above; all before the first call. For a process
 * that is no server, and has a door of its own. From any thread. */
void sl_log_set_least(enum sl_log_level level);

/* Writes a line; `format` as for printf, without a name in front or a newline after it. As text it is "sluice:
 * MESSAGE", or "sluice: warning: MESSAGE". From any thread. */
void sl_log(enum sl_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes what is wrong, or doubtful, at a place of a file: as text "FILE:LINE:COLUMN: MESSAGE", where a warning says
 * that it is one; as JSON with the members file, line and column. */
void sl_log_place(const char *file, const struct sluice_problem *problem);

/* For lines that a client could cause: when the last one was written. Zeroed before its first use. */
struct sl_log_bound {
	_Atomic uint64_t last_ns;
};

/* Whether a line may be written: at most one in `every_ns`. From any thread. */
bool sl_log_may(struct sl_log_bound *bound, sluice_ns every_ns);

#endif
