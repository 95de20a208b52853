/* What a decided command answers: how many elements, which, and in which order; said once for the server's RESP door
 * and for the module, which writes into Redis. Bytes are its sink's.
 *
 *   CHECK PEEK REFUND   allowed quota remaining retry_ms reset_ms delay_ms index
 *   with UPTO           .. granted
 *   ACQUIRE             .. id or nil
 *   RESERVE             .. ticket or nil
 *   COMMIT              the seven, or an error: there is no such reservation
 *   ADMIT               .. name [granted, with UPTO] [ticket or nil, where the policy leases or reserves anything]
 *   with NEXT           .. next_ms, after all of these
 *   ADMIT with EACH     .. in its place an array a limit that applies: name, limit, the six, next_ms, index, observed;
 *                       none where the store did not answer
 *   ADMIT with OPEN     .. 1 where the request passes undecided (on-error: allow), else 0: the last of all
 *   RESET CANCEL        how many were forgotten                 RELEASE RENEW    of how many counters
 *   EACH                an array a limit: the six, next_ms [with EXACT: ns by which retry_ms was rounded up]; then
 *                       [granted repeated found] of calls that come to more than their limits' figures
 *   HOLD with UPTO      .. granted, the most that others hold   LEASE            granted, and one limit's of EACH
 *   CL.THROTTLE         redis-cell's five: denied, quota, remaining, retry_s, reset_s
 *
 * What fronts ask for (EACH, LEASE, HOLD with UPTO) tells beside `allowed` which bound was met: 2 times sluice_bound.
 * */
#ifndef SL_PROTO_ANSWER_H
#define SL_PROTO_ANSWER_H

#include "proto/command.h"

/* Where the elements go. */
struct sl_answer_sink {
	void (*array)(void *to, uint32_t count); /* so many elements follow */
	void (*integer)(void *to, int64_t value);
	void (*text)(void *to, struct sluice_bytes text); /* data NULL: nil */
	void (*error)(void *to, const char *text);        /* "NOTFOUND ..": the whole answer */
};

/* A decided command. */
struct sl_outcome {
	enum sl_operation operation;
	uint32_t given;                 /* the words that it said: SL_SAYS() */
	const struct sluice_call *call; /* call->each where EACH or LEASE tells of each limit */
	bool named, ticketed;           /* ADMIT: a name goes with it; a ticket may */
	bool failed_open;               /* ADMIT: it passes though the store has not decided it, in whole or in part */
	struct sluice_bytes name, id;   /* the limit's; of what there is now: of a lease, a ticket; data NULL: of nothing */
	uint32_t told;                  /* ADMIT with EACH: of so many items of the call, */
	const char *const *names;       /* whose limits are called so, */
	const uint32_t *positions;      /* and stand there in the policy */
};

/* The numbers that most commands answer with. Their hosts write them at once, each by a put() that returns where to go
 * on; what stands after them, and all other shapes, are written below. */
enum { SL_FIGURES = 7, SL_FIGURES_CELL = 5 };
typedef void *sl_answer_put_one(void *to, int64_t value);
static inline __attribute__((always_inline)) void *sl_answer_seven(sl_answer_put_one *put, void *to,
                                                                   const struct sluice_decision *decision,
                                                                   int64_t first, int64_t last) {
	to = put(to, first);
	to = put(to, (int64_t)decision->quota);
	to = put(to, decision->remaining);
	to = put(to, sl_ns_to_ms_ceil(decision->retry_after_ns));
	to = put(to, sl_ns_to_ms_ceil(decision->reset_after_ns));
	to = put(to, sl_ns_to_ms_ceil(decision->delay_ns));
	return put(to, last);
}

/* redis-cell's five: the first is 1 when *denied*, waits are whole seconds, and there is no wait while allowed. */
static inline __attribute__((always_inline)) void *sl_answer_cell(sl_answer_put_one *put, void *to,
                                                                  const struct sluice_decision *decision) {
	to = put(to, !decision->allowed);
	to = put(to, (int64_t)decision->quota);
	to = put(to, decision->remaining);
	to = put(to, decision->allowed ? -1 : sl_ns_to_s_ceil(decision->retry_after_ns));
	return put(to, sl_ns_to_s_ceil(decision->reset_after_ns));
}

/* Does an answer begin with the seven? */
static inline bool sl_answer_is_decision(const struct sl_outcome *o) {
	const uint32_t others =
		SL_OP_BIT(RESET) | SL_OP_BIT(RELEASE) | SL_OP_BIT(RENEW) | SL_OP_BIT(CANCEL) | SL_OP_BIT(LEASE);
	return ((o->given & (SL_SAYS(EACH) | SL_SAYS(EXACT))) == 0 || o->operation == SL_OP_ADMIT) &&
	       !sl_operation_is(o->operation, others) && !(o->operation == SL_OP_COMMIT && o->call->found == 0) &&
	       !(o->operation == SL_OP_HOLD && o->call->upto);
}

/* How many elements stand after the seven. */
int sl_answer_more(const struct sl_outcome *outcome);

/* Is it just the seven? */
static inline bool sl_answer_is_plain(enum sl_operation operation, uint32_t given) {
	return sl_operation_is(operation, SL_OPS_PLAIN | SL_OP_BIT(REFUND)) &&
	       (given & ~(SL_SAYS(KEY) | SL_SAYS(AT) | SL_SAYS(MEMBER))) == 0;
}

/* Is it the seven and a name? Of an ADMIT without words, where the policy neither leases nor reserves. */
static inline bool sl_answer_is_named(uint32_t given, bool ticketed) {
	return given == 0 && !ticketed;
}

/* Writes what stands after the seven; or the whole of an answer that does not begin with them. */
void sl_answer_put_more(const struct sl_answer_sink *sink, void *to, const struct sl_outcome *outcome);
void sl_answer_put_other(const struct sl_answer_sink *sink, void *to, const struct sl_outcome *outcome);

/* What a limit answers where each tells of itself, read again: of SL_FIGURES numbers, or, of EXACT,
 * SL_FIGURES_EXACT. The first says whether these are possible: whoever is asked may answer anything. */
enum { SL_FIGURES_EXACT = SL_FIGURES + 1 };
bool sl_answer_is_each(const int64_t *numbers, uint32_t count);
struct sluice_decision sl_answer_each(const int64_t *numbers, uint32_t count);

/* Is there anything under a call's id now? */
static inline bool sl_answer_holds(const struct sluice_call *call) {
	return call->merged.allowed && (call->cost != 0 || call->repeated);
}

#endif
