/* Deciding, for the routes that do: decide.c, hold.c, commit.c. */
#ifndef SL_HTTP_DECIDE_H
#define SL_HTTP_DECIDE_H

#include "hosts/server/door/call_outcome.h"
#include "hosts/server/http/decision.h"
#include "hosts/server/http/door_http.h"

/* A call over items, with its answers. */
struct sl_http_question {
	struct sluice_call call;
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* of a match, with candidates after them */
	uint8_t candidate_of[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
};

/* Decides question->call, of which items, item_count, cost, operation, id, ttl_ns and upto are set; all else is made
 * here, and `outcome` with it. False: later, or it was answered that it cannot be; nothing is to be said. Else
 * question->call.err says how. What was charged is settled. */
SLUICE_MUST_USE bool sl_http_decide(struct sl_http_exchange *exchange, struct sl_http_question *question,
                                    const struct sl_http_ask *ask, struct sl_call_outcome *outcome);

/* A header of a request, whose `data` is its struct sl_http_request: data NULL where it has none. */
struct sluice_bytes sl_http_header_of(void *data, const char *name);

/* A call of an ask's items, in the ask's words. */
struct sluice_call sl_http_call_of(const struct sl_http_ask *ask, sluice_operation operation);

/* Answers a call that failed: the store is away, or something that no request should meet. */
void sl_http_reply_failed(struct sl_http_exchange *exchange, sluice_err err);

/* Is it one of those that a policy's on-error answers: the store is away? */
bool sl_http_is_unable(sluice_err err);
/* The store cannot answer. `status`: 503, unless a proxy would take that for a server that is down. `names` are of the
 * limits that deny for it. With Retry-After: SL_UNABLE_RETRY_NS. */
void sl_http_reply_unable(struct sl_http_exchange *exchange, unsigned status, sluice_err err,
                          const struct sluice_bytes *names, uint32_t count);

/* Answers a malformed request: ask->error. */
void sl_http_reply_malformed(struct sl_http_exchange *exchange, const struct sl_http_ask *ask);

/* Answers with a decision over an ask's items, or its ticket's. `id` is what the caller holds now; len 0: nothing. */
void sl_http_reply_items(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                         const struct sl_http_question *question, struct sluice_bytes id);

/* Answers with what the counters of items hold at an instant; `positions` of each in the policy, or
 * SL_POSITION_NOTATION. (inspect.c) */
void sl_http_reply_inspection(struct sl_http_exchange *exchange, const struct sluice_item *items, uint32_t count,
                              const uint32_t *positions, sluice_ns now);

/* The same of items by a request's attributes, of which `match` was made: with reasons. (inspect.c) */
void sl_http_reply_why(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                       const struct sluice_match *match, const struct sluice_item *items);

/* Decides what the policy says of the ask's attributes, and answers. */
void sl_http_decide_attributes(struct sl_http_exchange *exchange, const struct sl_http_ask *ask,
                               struct sl_http_style style);

#endif
