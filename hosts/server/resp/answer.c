/* Answers, written after each other into memory that is there: each as its command answers (proto/answer.h). A client
 * that asks by one policy always gets as many elements, whatever was decided. */
#include "algo/rule.h"
#include "algo/step.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/resp/resp.h"
#include "proto/answer.h"

static char *put_text(char *at, const char *text) {
	size_t len = strlen(text);
	memcpy(at, text, len);
	return at + len;
}

enum { SL_RESP_USUAL_BYTES = 32 }; /* up to the second number: 22 at most, and what writing it touches */

/* ---- where elements go ------------------------------------------------------------------------------------------- */

struct place {
	char *at;
	bool has_null; /* protocol 3 has one of its own */
};

static void put_array(void *to, uint32_t count) {
	struct place *place = to;
	place->at = sl_resp_put_number(place->at, '*', count);
}

static void put_integer(void *to, int64_t value) {
	struct place *place = to;
	place->at = sl_resp_put_number(place->at, ':', value);
}

static void put_bulk(void *to, struct sluice_bytes text) {
	struct place *place = to;
	if (text.data == NULL)
		place->at = put_text(place->at, place->has_null ? "_\r\n" : "$-1\r\n");
	else
		place->at = sl_resp_put_bulk(place->at, text);
}

static void put_error(void *to, const char *text) {
	struct place *place = to;
	place->at = put_text(put_text(put_text(place->at, "-"), text), "\r\n");
}

static const struct sl_answer_sink sink = {put_array, put_integer, put_bulk, put_error};

static inline void *put_one(void *at, int64_t value) {
	return sl_resp_put_number(at, ':', value);
}

/* The seven numbers; `more` elements follow, which is a constant where nearly all answers are written. */
static inline __attribute__((always_inline)) char *put_seven(char *at, const struct sluice_decision *decision,
                                                             int64_t index, int more) {
	at = sl_resp_put_number(at, '*', SL_FIGURES + more);
	return sl_answer_seven(put_one, at, decision, decision->allowed, index);
}

/* The commonest answer, of a charge or a peek that is allowed at once, by the first limit where it has no name. In a
 * pipeline over one limit nothing differs from the one before but two numbers; so the pieces between them are copied
 * whole. */
struct usual {
	uint64_t quota; /* that `text` begins with; more than any: there is no text yet */
	size_t len;
	char text[SL_RESP_USUAL_BYTES];
};

/* Of the limit with this index. */
static inline bool is_usual(const struct sluice_decision *decision, int32_t index) {
	return decision->allowed && decision->reset_after_ns != SLUICE_NEVER &&
	       (decision->retry_after_ns | decision->delay_ns | (uint32_t)(decision->index ^ index)) == 0;
}

static __attribute__((noinline)) void begin_usual(struct usual *usual, uint64_t quota, int more) {
	char *at = sl_resp_put_number(usual->text, '*', SL_FIGURES + more);
	at = sl_resp_put_number(at, ':', 1);
	at = sl_resp_put_number(at, ':', (int64_t)quota);
	*at++ = ':';
	usual->len = (size_t)(at - usual->text);
	usual->quota = quota;
}

/* Up to the delay. */
static inline __attribute__((always_inline)) char *put_usual_begin(char *at, const struct usual *usual,
                                                                   const struct sluice_decision *decision) {
	static const char nothing[8] = "\r\n:0\r\n:";
	memcpy(at, usual->text, sizeof usual->text);
	at = sl_put_unsigned(at + usual->len, decision->remaining);
	memcpy(at, nothing, sizeof nothing);
	return sl_put_unsigned(at + 7, (uint64_t)sl_ns_to_ms_ceil(decision->reset_after_ns));
}

static inline __attribute__((always_inline)) char *put_usual(char *at, struct usual *usual,
                                                             const struct sluice_decision *decision) {
	static const char end[] = "\r\n:0\r\n:0\r\n";
	if (usual->quota != decision->quota)
		begin_usual(usual, decision->quota, 0);
	at = put_usual_begin(at, usual, decision);
	memcpy(at, end, sizeof end - 1);
	return at + sizeof end - 1;
}

/* The same of an admission that one limit of the policy answers for, whose position and name end it. */
struct usual_named {
	struct usual begin;
	uint32_t position;
	size_t len;
	char end[SL_RESP_NUMBER_BYTES_MAX * 3 + SLUICE_NAME_BYTES_MAX];
};

static __attribute__((noinline)) void begin_named(struct usual_named *usual, const struct sluice_policy *policy,
                                                  uint64_t quota, uint32_t position) {
	char *at = put_text(usual->end, "\r\n:0\r\n");
	at = sl_resp_put_number(at, ':', position);
	at = sl_resp_put_bulk(at, sl_str(sluice_policy_limit_name(policy, position)));
	usual->len = (size_t)(at - usual->end);
	usual->position = position;
	begin_usual(&usual->begin, quota, 1);
	SL_ASSERT(usual->len <= sizeof usual->end);
}

static __attribute__((noinline)) char *put_usual_named(char *at, struct usual_named *usual,
                                                       const struct sluice_policy *policy,
                                                       const struct sluice_decision *decision, uint32_t position) {
	if (usual->begin.quota != decision->quota || usual->position != position)
		begin_named(usual, policy, decision->quota, position);
	at = put_usual_begin(at, &usual->begin, decision);
	memcpy(at, usual->end, usual->len);
	return at + usual->len;
}

static char *put_cell(char *at, const struct sluice_decision *decision) {
	return sl_answer_cell(put_one, sl_resp_put_number(at, '*', SL_FIGURES_CELL), decision);
}

static char *put_outcome(char *at, const struct sl_resp_turn *turn, const struct sl_outcome *outcome,
                         const struct sluice_decision *decision, int64_t index) {
	struct place place = {at, turn->session->protocol != 2};
	if (sl_answer_is_decision(outcome)) {
		place.at = put_seven(at, decision, index, sl_answer_more(outcome));
		sl_answer_put_more(&sink, &place, outcome);
	} else {
		sl_answer_put_other(&sink, &place, outcome);
	}
	return place.at;
}

/* ---- ids and tickets --------------------------------------------------------------------------------------------- */

static const uint32_t *positions_of(const struct sl_resp_turn *turn, const struct sluice_call *call) {
	const struct sl_resp_batch *batch = &turn->worker->batch;
	return batch->placed[call - batch->calls] ? batch->positions + (call->items - batch->items) : NULL;
}

static struct sluice_bytes ticket_of(const struct sl_resp_turn *turn, const struct sluice_call *call,
                                     char text[SL_TICKET_BYTES_MAX]) {
	const uint32_t *positions = positions_of(turn, call);
	const char *names[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < call->item_count; i++)
		names[i] = positions == NULL ? NULL : sluice_policy_limit_name(turn->context->policy, positions[i]);
	/* the first limit counts for the key that the command names: check.c */
	return sl_slice(text, sl_ticket_write(text, sl_id_number(call->id), call->items[0].key, call->items, names,
	                                      call->item_count));
}

static char *put_reserved(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call, uint32_t given) {
	struct sl_outcome outcome = {.operation = SL_OP_RESERVE, .given = given, .call = call};
	char text[SL_TICKET_BYTES_MAX];
	if (sl_answer_holds(call) && call->merged.index >= 0) /* else it counts nothing */
		outcome.id = ticket_of(turn, call, text);
	return put_outcome(at, turn, &outcome, &call->merged, call->merged.index);
}

static char *put_more(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call,
                      enum sl_operation operation, uint32_t given) {
	struct sl_outcome outcome = {.operation = operation, .given = given, .call = call};
	if (operation == SL_OP_ACQUIRE && sl_answer_holds(call))
		outcome.id = call->id;
	return put_outcome(at, turn, &outcome, &call->merged, call->merged.index);
}

/* ---- policies ---------------------------------------------------------------------------------------------------- */

/* The match that a call was made of. */
static struct sluice_match match_of(const struct sl_resp_turn *turn, const struct sluice_call *call) {
	const struct sl_resp_batch *batch = &turn->worker->batch;
	struct sluice_match match = {.count = batch->shown[call - batch->calls]};
	memcpy(match.items, call->items, match.count * sizeof match.items[0]);
	memcpy(match.position, positions_of(turn, call), match.count * sizeof match.position[0]);
	return match;
}

static struct sl_outcome admitted(const struct sl_resp_turn *turn, const struct sluice_call *call, uint32_t given,
                                  int64_t position) {
	const struct sluice_policy *policy = turn->context->policy;
	return (struct sl_outcome){
		.operation = SL_OP_ADMIT,
		.given = given,
		.call = call,
		.named = true,
		.ticketed = sl_policy_holds(policy),
		.name = position < 0 ? sl_slice("", 0) : sl_str(sluice_policy_limit_name(policy, (uint32_t)position)),
	};
}

static bool passes_undecided(const struct sl_resp_turn *turn, const struct sluice_call *call) {
	const struct sl_resp_batch *batch = &turn->worker->batch;
	return (call->err != SLUICE_OK || call->merged.allowed) && batch->undecided[call - batch->calls].items != 0;
}

/* An admission, with what each limit says where that was asked for and decided. */
static char *put_each(char *at, const struct sl_resp_turn *turn, struct sl_outcome *outcome, int64_t position) {
	const struct sluice_call *call = outcome->call;
	const char *names[SLUICE_ITEMS_MAX];
	outcome->told =
		(outcome->given & SL_SAYS(EACH)) == 0 ? 0 : turn->worker->batch.shown[call - turn->worker->batch.calls];
	outcome->positions = positions_of(turn, call);
	outcome->names = names;
	for (uint32_t i = 0; i < outcome->told; i++)
		names[i] = sluice_policy_limit_name(turn->context->policy, outcome->positions[i]);
	return put_outcome(at, turn, outcome, &call->merged, position);
}

static char *put_held(char *at, const struct sl_resp_turn *turn, struct sl_outcome *outcome, int64_t position) {
	const struct sluice_call *call = outcome->call;
	struct sluice_match match = match_of(turn, call);
	char text[SL_TICKET_BYTES_MAX];
	outcome->id = sl_slice(text, sl_admission_ticket(turn->context->policy, &match, call, sizeof text, text));
	return put_each(at, turn, outcome, position);
}

static __attribute__((noinline)) char *put_admitted(char *at, const struct sl_resp_turn *turn,
                                                    const struct sluice_call *call, uint32_t given,
                                                    struct usual_named *usual) {
	int32_t index = call->merged.index;
	int64_t position = index < 0 ? -1 : (int64_t)positions_of(turn, call)[index];
	if (position >= 0 && is_usual(&call->merged, index) &&
	    sl_answer_is_named(given, sl_policy_holds(turn->context->policy)))
		return put_usual_named(at, usual, turn->context->policy, &call->merged, (uint32_t)position);
	struct sl_outcome outcome = admitted(turn, call, given, position);
	if (sl_answer_is_named(given, outcome.ticketed))
		return sl_resp_put_bulk(put_seven(at, &call->merged, position, 1), outcome.name);
	outcome.failed_open = passes_undecided(turn, call);
	if (outcome.ticketed && sl_admission_holds(call) && sl_answer_holds(call))
		return put_held(at, turn, &outcome, position);
	return put_each(at, turn, &outcome, position);
}

/* The policy says what a request gets while the store cannot answer. */
static char *put_fallback(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call, uint32_t given) {
	struct sluice_match match = match_of(turn, call);
	struct sluice_call fallback = *call;
	sl_admission_fall_back(turn->context->policy, &match, &fallback);
	int64_t position = fallback.merged.index < 0 ? -1 : (int64_t)match.position[fallback.merged.index];
	struct sl_outcome outcome = admitted(turn, &fallback, given, position);
	outcome.failed_open = passes_undecided(turn, call);
	return put_outcome(at, turn, &outcome, &fallback.merged, position);
}

static char *put_failure(char *at, const struct sl_resp_turn *turn, sluice_err err) {
	if (err == SLUICE_E_APART)
		return put_text(at, "-ERR " SL_PENDING_APART_TEXT "\r\n");
	if (err == SLUICE_E_AWAY)
		return put_text(at, "-ERR the store did not answer in time: the request was not decided\r\n");
	if (err == SLUICE_E_BUSY)
		return put_text(at, "-ERR " SL_HELD_UP_TEXT ": the request was not decided\r\n");
	if (err == SLUICE_E_MISUSE && turn->context->remote != NULL)
		return put_text(at, "-ERR " SL_PENDING_MISUSE_TEXT "\r\n");
	return put_text(at, "-ERR the request could not be decided\r\n");
}

static char *put_failed(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call,
                        enum sl_operation operation, uint32_t given) {
	bool is_unable = call->err == SLUICE_E_AWAY || call->err == SLUICE_E_BUSY;
	if (call->err == SLUICE_E_MISUSE && turn->context->stats != NULL)
		sl_count(&turn->context->stats->errors[SL_TRANSPORT_RESP], 1);
	if (operation == SL_OP_ADMIT && is_unable)
		return put_fallback(at, turn, call, given);
	return put_failure(at, turn, call->err);
}

static char *put_answer(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call,
                        enum sl_operation operation, uint32_t given, struct usual *usual,
                        struct usual_named *named) {
	if (call->err != SLUICE_OK)
		return put_failed(at, turn, call, operation, given);
	if (sl_answer_is_plain(operation, given))
		return is_usual(&call->merged, 0) ? put_usual(at, usual, &call->merged)
		                               : put_seven(at, &call->merged, call->merged.index, 0);
	if (operation == SL_OP_THROTTLE)
		return put_cell(at, &call->merged);
	if (operation == SL_OP_ADMIT)
		return put_admitted(at, turn, call, given, named);
	if (operation == SL_OP_RESERVE)
		return put_reserved(at, turn, call, given);
	return put_more(at, turn, call, operation, given);
}

/* Bytes that an answer may take. */
static size_t room_for(enum sl_operation operation, uint32_t given) {
	const size_t numbers = (size_t)SLUICE_ITEMS_MAX * (1 + SL_FIGURES) + 5; /* of EACH, with the heads of its arrays */
	const size_t texts = (size_t)SLUICE_ITEMS_MAX * (SLUICE_NAME_BYTES_MAX + SLUICE_LIMIT_TEXT_MAX + 2 * 16);
	const size_t positions = (size_t)SLUICE_ITEMS_MAX * 2; /* and whether they are observed */
	bool ticket = operation == SL_OP_ADMIT || operation == SL_OP_RESERVE;
	size_t one = SL_RESP_REPLY_BYTES_MAX + (ticket ? SL_TICKET_BYTES_MAX : 0);
	if ((given & SL_SAYS(EACH)) == 0)
		return one;
	return operation != SL_OP_ADMIT ? numbers * SL_RESP_NUMBER_BYTES_MAX
	                                : one + texts + (numbers + positions) * SL_RESP_NUMBER_BYTES_MAX;
}

void sl_resp_answer(struct sl_resp_turn *turn) {
	const struct sl_resp_batch *batch = &turn->worker->batch;
	struct usual usual = {.quota = UINT64_MAX};
	struct usual_named named; /* filled with the first */
	named.begin.quota = UINT64_MAX;
	named.position = UINT32_MAX;
	char *at = sl_reply_reserve(turn, (size_t)batch->call_count * SL_RESP_REPLY_BYTES_MAX);
	for (uint32_t i = 0; i < batch->call_count && at != NULL; i++) {
		enum sl_operation operation = batch->operations[i];
		uint32_t given = batch->given[i];
		size_t room = room_for(operation, given);
		if (room > SL_RESP_REPLY_BYTES_MAX) {
			turn->out->len = (size_t)(at - turn->out->data);
			at = sl_reply_reserve(turn, room + (size_t)(batch->call_count - i - 1) * SL_RESP_REPLY_BYTES_MAX);
		}
		if (at != NULL)
			at = put_answer(at, turn, &batch->calls[i], operation, given, &usual, &named);
	}
	if (at != NULL)
		turn->out->len = (size_t)(at - turn->out->data);
}
