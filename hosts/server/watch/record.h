/* What is told of one limit's decision, and how it is written down: an object of JSON, on one line, UTF-8 without
 * control characters whatever the key. The denial log and whoever follows decisions as they happen write the same
 * members; docs/denial-log.schema.json and docs/tail.schema.json say what each means.
 *
 *   {"time":"2026-11-21T22:00:00.123Z","limit":"login","key":"ip=192.0.2.7","cost":1, what came of it, "transport":
 *    "http", what the request told of itself, "observed":false, "suppressed":41 in the log}
 *
 * With "bound":"room" (sluice_bound_name()) after the waits where not the quota denied but a bound of ours; what the
 * request did not tell (method, route, address, request_id, traceparent) is left out. */
#ifndef SL_RECORD_H
#define SL_RECORD_H

#include "base/out.h"

enum {
	SL_RECORD_TOLD_MAX = 256,
	/* The most that a record takes, its line end included: text may be escaped, and a key has its digits beside it. */
	SL_RECORD_BYTES_MAX =
		1024 + 5 * (6 * SL_RECORD_TOLD_MAX + 2) + 6 * SLUICE_LIMIT_TEXT_MAX + 2 + 8 * SLUICE_KEY_BYTES_MAX + 2,
};

struct sl_record_line {
	sluice_ns now;
	struct sluice_bytes limit, key; /* at most SLUICE_KEY_BYTES_MAX bytes of a key are shown */
	uint32_t cost;
	uint64_t quota;
	uint32_t remaining;
	int64_t retry_after_ms; /* -1: never */
	int64_t reset_after_ms;
	uint8_t bound;         /* enum sluice_bound */
	const char *transport; /* "resp", "http"; a constant */
	bool observed;         /* nobody was turned away: an observed limit would have */
	bool candidate;        /* and it was the limit's candidate, whose quota this is */
	uint64_t suppressed;   /* of the log: denials of this key since its last line */
	/* what the request tells of itself; data NULL: nothing. Of each SL_RECORD_TOLD_MAX bytes are shown */
	struct sluice_bytes method, route, address, request_id, traceparent;
	/* of a decision as it happens; nothing of it is in the log */
	bool allowed;        /* what this limit said */
	bool request_denied; /* another limit of the request did not */
	bool undecided;      /* the store could not answer: there are no figures, and `allowed` is whether it passed */
};

/* Writes the record of a denial, as the log has it, without a line end. About a microsecond. */
void sl_record_put_denial(struct sl_out *out, const struct sl_record_line *record);
/* Writes the record of a decision, as those who follow have it. */
void sl_record_put_decision(struct sl_out *out, const struct sl_record_line *record);
/* Writes what a follower is told of himself: how many decisions he has missed since he was told last. */
void sl_record_put_skipped(struct sl_out *out, sluice_ns now, uint64_t skipped);

#endif
