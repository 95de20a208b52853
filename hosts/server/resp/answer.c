/* Answers, written behind each other into memory that is there: a decision in the form that its command has.
 *
 *   CHECK PEEK REFUND   allowed quota remaining retry reset delay index
 *   with UPTO           .. granted
 *   ACQUIRE             .. id or nil
 *   RESERVE             .. ticket or nil
 *   ADMIT               .. name [granted, with UPTO] [ticket or nil, where the policy leases or reserves anything]
 *
 * A client that asks by one policy always gets as many elements, whatever was decided. */
#include "algo/merge.h"
#include "algo/rule.h"
#include "algo/step.h"
#include "hosts/server/door/admission.h"
#include "hosts/server/door/flight.h"
#include "hosts/server/resp/resp.h"

#define FALLBACK_NS ((sluice_ns)1000000000)

static char *put_decision(char *at, const struct sluice_decision *decision, int64_t index) {
	at = sl_resp_put_number(at, ':', decision->allowed);
	at = sl_resp_put_number(at, ':', (int64_t)decision->quota);
	at = sl_resp_put_number(at, ':', decision->remaining);
	at = sl_resp_put_number(at, ':', sl_ns_to_ms_ceil(decision->retry_after_ns));
	at = sl_resp_put_number(at, ':', sl_ns_to_ms_ceil(decision->reset_after_ns));
	at = sl_resp_put_number(at, ':', sl_ns_to_ms_ceil(decision->delay_ns));
	return sl_resp_put_number(at, ':', index);
}

/* redis-cell's five: the first is 1 when *denied*, waits are whole seconds, and there is no wait while allowed. */
static char *put_cell(char *at, const struct sluice_decision *decision) {
	at = sl_resp_put_number(at, '*', 5);
	at = sl_resp_put_number(at, ':', !decision->allowed);
	at = sl_resp_put_number(at, ':', (int64_t)decision->quota);
	at = sl_resp_put_number(at, ':', decision->remaining);
	at = sl_resp_put_number(at, ':', decision->allowed ? -1 : sl_ns_to_s_ceil(decision->retry_after_ns));
	return sl_resp_put_number(at, ':', sl_ns_to_s_ceil(decision->reset_after_ns));
}

static char *put_text(char *at, const char *text) {
	size_t len = strlen(text);
	memcpy(at, text, len);
	return at + len;
}

static char *put_bulk(char *at, const char *text, size_t len) {
	at = sl_resp_put_number(at, '$', (int64_t)len);
	memcpy(at, text, len);
	memcpy(at + len, "\r\n", 2);
	return at + len + 2;
}

static char *put_null(char *at, const struct sl_resp_turn *turn) {
	return put_text(at, turn->session->protocol == 2 ? "$-1\r\n" : "_\r\n");
}

/* ---- ids and tickets --------------------------------------------------------------------------------------------- */

/* Is there anything under the call's id now? */
static bool holds(const struct sluice_call *call) {
	return call->merged.allowed && (call->cost != 0 || call->repeated);
}

static char *put_leased(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call) {
	at = put_decision(sl_resp_put_number(at, '*', 8), &call->merged, call->merged.index);
	return holds(call) ? put_bulk(at, call->id.data, call->id.len) : put_null(at, turn);
}

static const uint32_t *positions_of(const struct sl_resp_turn *turn, const struct sluice_call *call) {
	const struct sl_resp_batch *batch = &turn->worker->batch;
	return batch->placed[call - batch->calls] ? batch->positions + (call->items - batch->items) : NULL;
}

static char *put_reserved(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call) {
	const uint32_t *positions = positions_of(turn, call);
	const char *names[SLUICE_ITEMS_MAX];
	char text[SL_TICKET_BYTES_MAX];
	at = put_decision(sl_resp_put_number(at, '*', 8), &call->merged, call->merged.index);
	if (!holds(call) || call->merged.index < 0) /* which counts nothing */
		return put_null(at, turn);
	for (uint32_t i = 0; i < call->item_count; i++)
		names[i] = positions == NULL ? NULL : sluice_policy_limit_name(turn->context->policy, positions[i]);
	/* the first limit counts for the key that the command names: check.c */
	size_t len =
		sl_ticket_write(text, sl_id_number(call->id), call->items[0].key, call->items, names, call->item_count);
	return put_bulk(at, text, len);
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

/* What stands behind the seven and the name. */
static char *put_more(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call, uint32_t granted,
                      bool held) {
	const struct sluice_policy *policy = turn->context->policy;
	if (call->upto)
		at = sl_resp_put_number(at, ':', granted);
	if (!sl_policy_holds(policy))
		return at;
	if (!held)
		return put_null(at, turn);
	char text[SL_TICKET_BYTES_MAX];
	struct sluice_match match = match_of(turn, call);
	return put_bulk(at, text, sl_admission_ticket(policy, &match, call, text));
}

static int64_t named_count(const struct sl_resp_turn *turn, const struct sluice_call *call) {
	return 8 + call->upto + sl_policy_holds(turn->context->policy);
}

static char *put_named(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call) {
	int64_t position = -1;
	const char *name = "";
	if (call->merged.index >= 0) {
		position = positions_of(turn, call)[call->merged.index];
		name = sluice_policy_limit_name(turn->context->policy, (uint32_t)position);
	}
	at = sl_resp_put_number(at, '*', named_count(turn, call));
	at = put_decision(at, &call->merged, position);
	at = put_bulk(at, name, strlen(name));
	return put_more(at, turn, call, call->granted, sl_admission_holds(call) && holds(call));
}

/* The policy says what a request gets while the store cannot answer: allowed, as where no limit applies, or denied for
 * a second by the first limit that says so. */
static char *put_fallback(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call) {
	const struct sluice_policy *policy = turn->context->policy;
	struct sluice_match match = match_of(turn, call);
	struct sluice_decision fallback = sl_merge_nothing();
	const char *name = "";
	int32_t denier = sl_policy_denier(policy, &match);
	if (denier >= 0) {
		name = sluice_policy_limit_name(policy, match.position[denier]);
		fallback = (struct sluice_decision){.quota = match.items[denier].limit->derived[SL_CAPACITY],
		                                    .retry_after_ns = FALLBACK_NS};
	}
	at = sl_resp_put_number(at, '*', named_count(turn, call));
	at = put_decision(at, &fallback, denier < 0 ? -1 : (int64_t)match.position[denier]);
	at = put_bulk(at, name, strlen(name));
	return put_more(at, turn, call, fallback.allowed ? call->cost : 0, false);
}

static char *put_failure(char *at, const struct sl_resp_turn *turn, sluice_err err) {
	if (err == SLUICE_E_APART)
		return put_text(at, "-ERR " SL_FLIGHT_APART_TEXT "\r\n");
	if (err == SLUICE_E_AWAY)
		return put_text(at, "-ERR the store did not answer in time: the request was not decided\r\n");
	if (err == SLUICE_E_BUSY)
		return put_text(at, "-ERR " SL_HELD_UP_TEXT ": the request was not decided\r\n");
	if (err == SLUICE_E_MISUSE && turn->context->remote != NULL)
		return put_text(at, "-ERR " SL_FLIGHT_MISUSE_TEXT "\r\n");
	return put_text(at, "-ERR the request could not be decided\r\n");
}

static char *put_answer(char *at, const struct sl_resp_turn *turn, const struct sluice_call *call,
                        enum sl_resp_form form) {
	sluice_err err = call->err;
	bool is_unable = err == SLUICE_E_AWAY || err == SLUICE_E_BUSY;
	if (err == SLUICE_E_MISUSE && turn->context->tally != NULL)
		sl_count(&turn->context->tally->errors[SL_TRANSPORT_RESP], 1);
	if (err != SLUICE_OK)
		return form == SL_RESP_NAMED && is_unable ? put_fallback(at, turn, call) : put_failure(at, turn, err);
	switch (form) {
	case SL_RESP_FORGOTTEN:
		return sl_resp_put_number(at, ':', call->forgotten);
	case SL_RESP_NAMED:
		return put_named(at, turn, call);
	case SL_RESP_CELL:
		return put_cell(at, &call->merged);
	case SL_RESP_GRANTED:
		at = put_decision(sl_resp_put_number(at, '*', 8), &call->merged, call->merged.index);
		return sl_resp_put_number(at, ':', call->granted);
	case SL_RESP_LEASED:
		return put_leased(at, turn, call);
	case SL_RESP_RESERVED:
		return put_reserved(at, turn, call);
	case SL_RESP_FOUND:
		return sl_resp_put_number(at, ':', call->found);
	case SL_RESP_COMMITTED:
		if (call->found == 0)
			return put_text(at, "-NOTFOUND no such reservation is open: it was committed before, or has returned at "
			                    "the end of its ttl, or was of another key\r\n");
		break;
	case SL_RESP_NUMBERS:
		break;
	}
	return put_decision(sl_resp_put_number(at, '*', 7), &call->merged, call->merged.index);
}

/* May an answer of this form bear a ticket? */
static bool is_long(enum sl_resp_form form) {
	return form == SL_RESP_NAMED || form == SL_RESP_RESERVED;
}

void sl_resp_answer(struct sl_resp_turn *turn) {
	const struct sl_resp_batch *batch = &turn->worker->batch;
	char *at = sl_buffer_reserve(turn->out, (size_t)batch->call_count * SL_RESP_REPLY_BYTES_MAX);
	for (uint32_t i = 0; i < batch->call_count && at != NULL; i++) {
		if (is_long(batch->forms[i])) {
			turn->out->len = (size_t)(at - turn->out->data);
			at = sl_buffer_reserve(turn->out,
			                       SL_TICKET_BYTES_MAX + (size_t)(batch->call_count - i) * SL_RESP_REPLY_BYTES_MAX);
		}
		if (at != NULL)
			at = put_answer(at, turn, &batch->calls[i], batch->forms[i]);
	}
	if (at != NULL)
		turn->out->len = (size_t)(at - turn->out->data);
	else
		turn->failed = true;
}
