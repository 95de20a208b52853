/* The denial log: one line of JSON for a denial, sampled per key and bounded in all, so that an attack cannot fill a
 * disk. Lines are handed to a thread of its own: a slow disk delays no decision, it costs lines, which are counted.
 *
 *   {"time":"2026-11-21T22:00:00.123Z","limit":"login","key":"ip=192.0.2.7","cost":1,"quota":5,"remaining":0,
 *    "retry_after_ms":3100,"reset_after_ms":60000,"transport":"http","method":"POST","address":"192.0.2.7",
 *    "request_id":"7f3a","observed":false,"suppressed":41}
 *
 * with "bound":"room" (sluice_bound_name()) after the waits where not the quota denied but a bound of ours; what the
 * request did not tell (method, route, address, request_id, traceparent) is left out. docs/denial-log.schema.json
 * says all of it.
 *
 * A line is UTF-8 and holds no control characters, whatever the key: a key that is none has its bytes in "key_hex" as
 * well. retry_after_ms is -1 where the cost is above the quota. The file and its FILE.1 together stay below two times
 * the size that the settings say. */
#ifndef SL_DENIALS_H
#define SL_DENIALS_H

#include "base/out.h"
#include "policy/policy.h"

struct sl_denials;

/* Opens the log that the settings name, and starts its thread; NULL with a line on standard error where that cannot be
 * done. A regular file is appended to; a pipe or a terminal (/dev/stderr) is written to and never set aside. */
struct sl_denials *sl_denials_open(const struct sl_log_settings *settings);
/* Writes what is queued, and ends. NULL is allowed. */
void sl_denials_close(struct sl_denials *denials);
/* Opens the file anew, for those who rotate it by other means (SIGHUP). A file that was renamed or removed is noticed
 * without that too, before the next lines are written. From any thread; done a moment later by the log's own. */
void sl_denials_reopen(struct sl_denials *denials);

enum { SL_DENIAL_TOLD_MAX = 256 };

struct sl_denial {
	sluice_ns now;
	struct sluice_bytes limit, key;
	uint32_t cost;
	uint64_t quota;
	uint32_t remaining;
	int64_t retry_after_ms; /* -1: never */
	int64_t reset_after_ms;
	uint8_t bound;         /* enum sluice_bound */
	const char *transport; /* "resp", "http"; a constant */
	bool observed;         /* nobody was turned away: an observed limit would have */
	bool candidate;        /* and it was the limit's candidate, whose quota this is */
	uint64_t suppressed;   /* denials of this key since its last line */
	/* what the request tells of itself; data NULL: nothing. Of each SL_DENIAL_TOLD_MAX bytes are shown */
	struct sluice_bytes method, route, address, request_id, traceparent;
};

/* Queues one line; drops it, and counts that, where the queue or the second is full. At most SLUICE_KEY_BYTES_MAX bytes
 * of a key are shown. From any thread; never waits for the disk. About a microsecond. */
void sl_denials_write(struct sl_denials *denials, const struct sl_denial *denial);

/* An instant as lines say it: 2026-11-21T22:00:00.123Z. */
void sl_denial_put_time(struct sl_out *out, sluice_ns now);

/* Lines written, and lines dropped by the bounds, so far. NULL: 0. From any thread. */
void sl_denials_figures(const struct sl_denials *denials, uint64_t *written, uint64_t *dropped);

#endif
