/* The denial log: one line of JSON for a denial, sampled per key and bounded in all, so that an attack cannot fill a
 * disk. Lines are handed to a thread of its own: a slow disk delays no decision, it costs lines, which are counted.
 *
 *   {"time":"2026-11-21T22:00:00.123Z","limit":"login","key":"ip=192.0.2.7","cost":1,"quota":5,"remaining":0,
 *    "retry_after_ms":3100,"reset_after_ms":60000,"transport":"http","method":"POST","address":"192.0.2.7",
 *    "request_id":"7f3a","observed":false,"suppressed":41}
 *
 * as record.h has it. The file and its FILE.1 together stay below two times the size that the settings say. */
#ifndef SL_DENIALS_H
#define SL_DENIALS_H

#include "hosts/server/watch/record.h"
#include "policy/policy.h"

struct sl_denials;

/* Opens the log that the settings name, and starts its thread; NULL with a line on standard error where that cannot be
 * done. A regular file is appended to; a pipe or a terminal is written to and never set aside. Nor is a descriptor that
 * this process inherited, of any kind: /dev/stderr, /dev/stdout, /dev/fd/N, /proc/self/fd/N, or a link to one. */
struct sl_denials *sl_denials_open(const struct sl_log_settings *settings);
/* Whether it could be opened, if the settings name one, as far as that can be told without making it. False after a
 * line in the log. */
bool sl_denials_check(const struct sl_log_settings *settings);
/* Writes what is queued, and ends. NULL is allowed. */
void sl_denials_close(struct sl_denials *denials);
/* Opens the file anew, for those who rotate it by other means (SIGHUP). A file that was renamed or removed is noticed
 * without that too, before the next lines are written. From any thread; done a moment later by the log's own. */
void sl_denials_reopen(struct sl_denials *denials);

/* Queues one line; drops it, and counts that, where the queue or the second is full. From any thread; never waits for
 * the disk. About a microsecond. */
void sl_denials_write(struct sl_denials *denials, const struct sl_record_line *record);

/* Lines written, and lines dropped by the bounds, so far. NULL: 0. From any thread. */
void sl_denials_figures(const struct sl_denials *denials, uint64_t *written, uint64_t *dropped);

#endif
