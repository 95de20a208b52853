/* A request to Envoy's rate limit service on its way to its answer, by whichever door it came: gRPC, or JSON over HTTP.
 *
 *   the door reads it into sl_rls_worker_of(context)->request
 *   sl_rls_decide()     -> ANSWERED: answer.response      REFUSED: answer.code, answer.text
 *                       -> LATER: as sl_pending_decide() has it; the door reads it again, and decides it again
 *   the door writes the answer, and then sl_pending_settle()s: until then the answer's ticket needs what was decided
 *
 *   rate_limit.c  descriptors to limits, decided      statuses.c  what is told of it */
#ifndef SL_RATE_LIMIT_H
#define SL_RATE_LIMIT_H

#include "hosts/server/door/admission.h"
#include "hosts/server/door/call_outcome.h"
#include "policy/envoy.h"
#include "proto/grpc.h"
#include "proto/rls.h"

enum {
	/* What is done to a request's limits, by what its descriptors say: looked at, charged, given back. In this order:
	 * what looks denies the rest, and what is given back is so whatever the rest says. */
	SL_RLS_LOOKED,
	SL_RLS_CHARGED,
	SL_RLS_REFUNDED,
	SL_RLS_GROUPS,
	SL_RLS_NAMES_BYTES = 16 * 1024, /* the names of entries that stand again in a descriptor */
	SL_RLS_ATTRIBUTES_MAX = SL_RLS_ENTRIES_MAX + SL_RLS_DESCRIPTORS_MAX,
	SL_RLS_TEXT_BYTES = 256 * 1024, /* of the headers and the body of an answer */
	SL_RLS_HEADERS_MAX = 24,
	SL_RLS_FIELDS_MAX = 4,
};

/* Limits that are decided as one step. */
struct sl_rls_group {
	struct sluice_match match;
	uint16_t owner[SLUICE_ITEMS_MAX];           /* the descriptor that each is of */
	uint32_t costs[SLUICE_ITEMS_MAX];           /* what that says; 0: it says nothing, which is 1 */
	struct sluice_item items[SLUICE_ITEMS_MAX]; /* of the match, candidates after them */
	uint8_t candidate_of[SLUICE_ITEMS_MAX];
	struct sluice_decision each[SLUICE_ITEMS_MAX];
	struct sluice_call call;
	struct sl_call_outcome outcome;
	struct sl_undecided undecided;
	struct sl_admission admission;
	struct sluice_limit overrides[SLUICE_ITEMS_MAX + 1]; /* that descriptors bring along; the last finds no place */
	char override_names[SLUICE_ITEMS_MAX + 1][SLUICE_LIMIT_TEXT_MAX];
	uint32_t override_count;
	bool used;       /* some descriptor is of it */
	bool passes;     /* nobody could decide it, and it passes all the same, in whole or in part */
	uint32_t unable; /* bit i: nobody could decide it, and the limit of item i says on-error: deny */
};

/* What one request takes, used again by the next. One a worker, about 470 KiB. */
struct sl_rls_worker {
	struct sl_rls_request request;
	struct sluice_attribute attributes[SL_RLS_ATTRIBUTES_MAX];
	size_t attribute_count;
	struct sl_rls_group groups[SL_RLS_GROUPS];
	size_t match_used;                                   /* of the context's match buffer */
	bool has_rules;                                      /* the policy has files of envoyproxy/ratelimit */
	struct sl_envoy_found found[SL_RLS_DESCRIPTORS_MAX]; /* what each descriptor is decided by there, if has_rules */
	struct sl_out names;                                 /* into names_memory */
	struct sl_rls_status statuses[SL_RLS_DESCRIPTORS_MAX];
	char ticket[SL_TICKET_BYTES_MAX];
	char names_memory[SL_RLS_NAMES_BYTES];
	char text[SL_RLS_TEXT_BYTES]; /* headers and body */
	struct sl_rls_header headers[SL_RLS_HEADERS_MAX], upstream;
	struct sl_rls_field fields[SL_RLS_FIELDS_MAX];
};

enum sl_rls_end { SL_RLS_ANSWERED, SL_RLS_LATER, SL_RLS_REFUSED };

/* What came of a request. Its slices are the worker's and the policy's: until the next request. */
struct sl_rls_answer {
	struct sl_rls_response response; /* of SL_RLS_ANSWERED */
	enum sl_grpc_code code;          /* of SL_RLS_REFUSED: why, in gRPC's words. UNAVAILABLE: `err` of the store */
	const char *text;
	sluice_err err;
};

/* The memory of a worker's requests, made by the first; NULL where there is none. It goes with the context. */
struct sl_rls_worker *sl_rls_worker_of(struct sl_door_context *context);

/* Decides the request that was read: about 2 us for one descriptor. What was charged is counted under `transport`. */
SLUICE_MUST_USE enum sl_rls_end sl_rls_decide(struct sl_door_context *context, struct sl_rls_worker *worker,
                                              enum sl_transport transport, struct sl_rls_answer *answer);

/* Answers OVER_LIMIT, of no descriptor: `bound` of ours kept the request from being read or asked. */
void sl_rls_answer_bound(struct sl_door_context *context, struct sl_rls_worker *worker, enum sl_transport transport,
                         const char *bound, struct sl_rls_answer *answer);

/* ---- statuses.c, for rate_limit.c alone ---- */

/* Answers a request whose groups are all decided. */
void sl_rls_answer_decided(const struct sl_door_context *context, struct sl_rls_worker *worker,
                           struct sl_rls_answer *answer);
/* Answers OVER_LIMIT to a request of which `group` can't be decided, whoever is asked; `why` goes to the proxy, as
 * metadata. Nothing was charged for that group. */
void sl_rls_answer_refused(struct sl_door_context *context, struct sl_rls_worker *worker, enum sl_transport transport,
                           const struct sl_rls_group *group, const char *why, struct sl_rls_answer *answer);

#endif
