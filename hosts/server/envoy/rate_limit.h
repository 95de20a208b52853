/* A request to Envoy's rate limit service on its way to its answer, by whichever door it came: gRPC, or JSON over HTTP.
 *
 *   the door reads it into sl_rls_worker_of(context)->request
 *   sl_rls_decide()     -> ANSWERED: answer.response      REFUSED: answer.code, answer.text
 *                       -> LATER: as sl_pending_decide() has it; the door reads it again, and decides it again
 *   the door writes the answer, and then sl_pending_settle()s: until then the answer's ticket needs what was decided
 *
 *   rate_limit.c  descriptors to limits, decided      known.c  what came before, and what it came to
 *   statuses.c    what is told of it                  plain.c  the commonest of that, quickly */
#ifndef SL_RATE_LIMIT_H
#define SL_RATE_LIMIT_H

#include "hosts/admission/admission.h"
#include "hosts/server/door/call_outcome.h"
#include "hosts/server/envoy/known.h"
#include "proto/grpc.h"
#include "proto/headers.h"
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
	SL_RLS_OVER_MAX = 64 * 1024, /* statuses of a request that is not read: of more descriptors, none is told */
	SL_RLS_TOLD = 64, /* limits of which a worker keeps what does not change */
	SL_RLS_TOLD_BYTES = 176,
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

/* What is told of a limit each time, as it is told: plain.c. */
struct sl_rls_told {
	uint64_t policy_number; /* 0: nothing is kept here */
	uint64_t quota;         /* as decisions have it */
	const struct sluice_limit *limit;
	const struct sl_envoy_rule *rule; /* NULL: of none */
	uint32_t position;
	uint16_t current_len, metadata_len, policy_len, state_len;
	uint8_t current[SL_RLS_TOLD_BYTES];  /* current_limit of its status */
	uint8_t metadata[SL_RLS_TOLD_BYTES]; /* where it decides */
	char policy[SL_RLS_TOLD_BYTES];      /* of RateLimit-Policy */
	char state[SL_RLS_TOLD_BYTES];       /* of RateLimit, up to its numbers */
};

/* What one request takes, used again by the next. One a worker, about 1.5 MiB, most of it touched as it is needed. */
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
	struct sl_rls_told told[SL_RLS_TOLD];
	const struct sl_rls_known *met; /* the one that the request in hand is; NULL: none */
	struct sl_rls_known *room;      /* where that is to be kept; NULL: it is not */
	struct sluice_bytes message;    /* its bytes then */
	struct sl_rls_known known[SL_RLS_KNOWN];
};

enum sl_rls_end { SL_RLS_ANSWERED, SL_RLS_LATER, SL_RLS_REFUSED };

/* What came of a request. Its slices are the worker's and the policy's: until the next request. */
struct sl_rls_answer {
	struct sl_pb_writer *writer; /* in: where the answer may be written as a message at once; NULL: it may not */
	bool written;                /* out, of SL_RLS_ANSWERED: it was */
	struct sl_rls_response response; /* of SL_RLS_ANSWERED, unless it was written */
	enum sl_grpc_code code;          /* of SL_RLS_REFUSED: why, in gRPC's words. UNAVAILABLE: `err` of the store */
	const char *text;
	sluice_err err;
};

/* The memory of a worker's requests, made by the first; NULL where there is none. It goes with the context. */
struct sl_rls_worker *sl_rls_worker_of(struct sl_door_context *context);

/* Reads a message into worker->request: or finds that it came before, and what it came to. O(bytes). */
SLUICE_MUST_USE enum sl_rls_read sl_rls_read(const struct sl_door_context *context, struct sl_rls_worker *worker,
                                             struct sluice_bytes message);
/* The request was read otherwise: it is none that came before. */
static inline void sl_rls_was_read(struct sl_rls_worker *worker) {
	worker->met = worker->room = NULL;
}

/* Decides the request that was read: about 2 us for one descriptor. What was charged is counted under `transport`. */
SLUICE_MUST_USE enum sl_rls_end sl_rls_decide(struct sl_door_context *context, struct sl_rls_worker *worker,
                                              enum sl_transport transport, struct sl_rls_answer *answer);

/* Answers OVER_LIMIT, of `descriptors` descriptors: `bound` of ours kept the request from being read or asked. 0: it
 * is not known how many it has. */
void sl_rls_answer_bound(struct sl_door_context *context, struct sl_rls_worker *worker, enum sl_transport transport,
                         const char *bound, uint32_t descriptors, struct sl_rls_answer *answer);

/* ---- known.c and rate_limit.c ---- */

/* Keeps what the request in hand came to, if there is room for it and it is of the kind: its call is made and not
 * decided yet. */
void sl_rls_known_keep(const struct sl_door_context *context, struct sl_rls_worker *worker);
/* Makes it a group of no limits, of which nothing is decided. */
static inline void sl_rls_group_clear(struct sl_rls_group *group) {
	group->match.count = group->match.beyond = group->override_count = 0;
	group->used = group->passes = false;
	group->unable = 0;
	group->call.err = SLUICE_OK;
}

/* ---- statuses.c, for rate_limit.c and plain.c alone ---- */

/* Answers a request whose groups are all decided. */
void sl_rls_answer_decided(const struct sl_door_context *context, struct sl_rls_worker *worker,
                           struct sl_rls_answer *answer);
/* Answers OVER_LIMIT to a request of which `group` can't be decided, whoever is asked; `why` goes to the proxy, as
 * metadata. Nothing was charged for that group. */
void sl_rls_answer_refused(struct sl_door_context *context, struct sl_rls_worker *worker, enum sl_transport transport,
                           const struct sl_rls_group *group, const char *why, struct sl_rls_answer *answer);
/* What a status tells of a limit, whatever is left of it; and of one of envoyproxy/ratelimit's rules, after that. */
void sl_rls_status_name(struct sl_rls_status *status, const struct sl_headers_limit *limit);
void sl_rls_status_name_rule(struct sl_rls_status *status, const struct sl_envoy_rule *rule);
/* Its duration_until_reset: of a rule (NULL: none) whose windows are theirs until that ends, whatever is left; else
 * `wait`. */
uint64_t sl_rls_reset_s(sluice_ns wait, sluice_ns now, const struct sl_envoy_rule *rule);

/* ---- plain.c, for rate_limit.c alone ---- */

/* Writes the answer to a request whose groups are all decided, if it is of the commonest kind; false, with nothing
 * written, for others. About 500 instructions, and 150 for each further limit. */
bool sl_rls_plain_put(const struct sl_door_context *context, struct sl_rls_worker *worker, struct sl_pb_writer *writer);

#endif
