/* A request to RateLimitService on its way to its answer. */
#ifndef SL_GRPC_RATE_LIMIT_H
#define SL_GRPC_RATE_LIMIT_H

#include "hosts/server/door/admission.h"
#include "hosts/server/door/call_outcome.h"
#include "hosts/server/grpc/session.h"
#include "policy/envoy.h"
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
	SL_RLS_ANSWER_BYTES = 512 * 1024,
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

/* What one request takes, used again by the next, and the memory of connections. One a worker, about 1.4 MiB. */
struct sl_grpc_worker {
	struct sl_grpc_memory memory;
	struct sl_rls_request request;
	struct sluice_attribute attributes[SL_RLS_ATTRIBUTES_MAX];
	size_t attribute_count;
	struct sl_rls_group groups[SL_RLS_GROUPS];
	size_t match_used;   /* of the context's match buffer */
	bool has_rules;      /* the policy has files of envoyproxy/ratelimit */
	struct sl_envoy_found found[SL_RLS_DESCRIPTORS_MAX]; /* what each descriptor is decided by there, if has_rules */
	struct sl_out names; /* into names_memory */
	struct sl_rls_status statuses[SL_RLS_DESCRIPTORS_MAX];
	char ticket[SL_TICKET_BYTES_MAX];
	char names_memory[SL_RLS_NAMES_BYTES];
	char text[SL_RLS_ANSWER_BYTES / 2]; /* headers and body */
	uint8_t answer[SL_RLS_ANSWER_BYTES];
};

/* Answers a request whose groups are all decided. (statuses.c) */
void sl_rls_answer(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker);
/* Answers OVER_LIMIT to a request of which `group` can't be decided, whoever is asked; `why` goes to the proxy, as
 * metadata. Nothing was charged for that group. */
void sl_rls_answer_refused(struct sl_grpc_stream *stream, struct sl_grpc_worker *worker,
                           const struct sl_rls_group *group, const char *why);
/* Answers OVER_LIMIT, of no descriptor: a bound of ours kept the request from being read or asked. */
void sl_rls_answer_bound(struct sl_grpc_stream *stream, const char *bound);

#endif
