/* Decisions as headers and JSON. */
#ifndef SL_HTTP_DECISION_H
#define SL_HTTP_DECISION_H

#include "hosts/server/http/exchange.h"
#include "proto/headers.h"

/* How a decision is answered. */
struct sl_http_style {
	bool explain;    /* an explanation: 200 whatever it says, with what next frees and with candidates */
	bool empty;      /* the proxies' doors: no body where it is allowed, but a Sluice-Delay-Ms where the request is to
	                  * be held; and a denial's body, which strangers read, tells only of those limits that denied */
	uint16_t denied; /* status of a denial; 0 for 429 */
	uint16_t wrong;  /* of a cost that is none; 0 for 400 */
	uint16_t unable; /* of what on-error: deny denies; 0 for 503 */
};

/* A decision as it is shown. Everything is borrowed. */
struct sl_http_view {
	const struct sluice_call *call; /* call->each may be NULL where count is 0 */
	uint32_t count;                 /* of the limits that are shown; those after them in the call are candidates */
	uint32_t beyond;                /* limits after those that found no place in the call; only the list shows them */
	struct sl_headers_limit limits[SLUICE_MATCHED_MAX];
	struct sluice_limit own[SLUICE_ITEMS_MAX]; /* of those that are decided by their keys' own quotas */
	struct sluice_bytes keys[SLUICE_MATCHED_MAX];
	const uint8_t *candidate_of; /* for each candidate the limit that it belongs to; NULL where there are none */
	const struct sl_door_context *context; /* of an explanation: where standings and quotas are looked up */
	struct sluice_bytes id;      /* of what the caller holds now, or its ticket; len 0: nothing */
	struct sl_http_style style;
	const struct sl_policy_denied *denied; /* the body of a denial; NULL: a problem */
	struct sluice_bytes request_id; /* what such a body may name: of whoever asks; len 0: none */
	bool failed_open; /* it passes though the store has not decided it, in whole or in part */
	bool next; /* it is asked when the next unit is free */
};

/* What is told of limit `i` of a view, whose call is there: `name`, and the limit that it was decided by. */
void sl_http_view_limit(struct sl_http_view *view, uint32_t i, struct sluice_bytes name);

/* Which bound of ours was met, and the standard error of a count that is an estimate: a member each, left out where
 * there is none. */
void sl_http_put_bound(struct sl_out *out, const struct sluice_decision *decision);
void sl_http_put_error(struct sl_out *out, const struct sluice_limit *limit);

/* 200, or 429 as a problem, with the headers of rate limits in the listener's forms. */
void sl_http_reply_decision(struct sl_http_exchange *exchange, const struct sl_http_view *view);

#endif
