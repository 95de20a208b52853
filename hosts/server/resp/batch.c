/* Decisions, put off and taken together.
 *
 * A pipeline of requests that asks for 64 decisions touches 64 places of a store that is far larger than any cache: one
 * by one, each waits 100 ns and more for memory. So the door only notes them while it parses, and when the batch is
 * full, when the bytes are used up, or when a request comes that answers at once, all are decided by one call that
 * hashes and fetches ahead, and are answered in the order in which they came.
 *
 * The text of a limit hardly changes between requests: a table of the texts seen, direct-mapped, spares the parse.
 *
 * Invariants
 *  1. Answers stand in `out` in the order of the requests: whoever answers at once has flushed before.
 *  2. An item's limit lies in a cache line that bears the number of this batch, or in a spare; neither is written again
 *     before the batch is decided.
 *  3. Keys lie in the bytes being fed or in the match buffer; feed() flushes before it returns.
 */
#include "base/assert.h"
#include "base/operation.h"
#include "base/recall.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/outcome_record.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/resp/resp.h"
#include "os/clock.h"
#include "store/lock.h"

/* ---- limits --------------------------------------------------------------------------------------------------- */

static inline bool is_text_of(const struct sl_resp_cached *line, struct sluice_bytes text) {
	return sl_recall_is(line->text, line->len, text);
}

static struct sl_resp_cached *line_of(struct sl_resp_worker *worker, struct sluice_bytes text) {
	return &worker->cache[sl_recall_hash(text) >> 54];
}

_Static_assert(SL_RESP_CACHE_LINES == 1 << (64 - 54), "the hash's upper bits number the lines");

const struct sluice_limit *sl_resp_limit_recall(struct sl_resp_turn *turn, struct sluice_bytes text) {
	struct sl_resp_worker *worker = turn->worker;
	if (text.len > SL_RESP_CACHE_TEXT_MAX || text.len == 0)
		return NULL;
	struct sl_resp_cached *line = worker->recent; /* most pipelines ask for one limit over and over */
	if (line == NULL || !is_text_of(line, text)) {
		line = line_of(worker, text);
		if (!is_text_of(line, text))
			return NULL;
		worker->recent = line;
	}
	line->batch = worker->batch.number;
	return &line->limit;
}

const struct sluice_limit *sl_resp_limit_keep(struct sl_resp_turn *turn, struct sluice_bytes text,
                                              const struct sluice_limit *limit) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	if (text.len <= SL_RESP_CACHE_TEXT_MAX && text.len != 0) {
		struct sl_resp_cached *line = line_of(turn->worker, text);
		if (line->batch != batch->number) {
			sl_resp_memos_forget(&turn->worker->memos); /* one of its limits may have stood here */
			line->batch = batch->number;
			line->len = (uint8_t)text.len;
			memcpy(line->text, text.data, text.len);
			line->limit = *limit;
			return &line->limit;
		}
	}
	SL_ASSERT(batch->spare_count < SL_RESP_SPARES); /* sl_resp_call_begin() made sure of a call's worth */
	batch->spares[batch->spare_count] = *limit;
	return &batch->spares[batch->spare_count++];
}

const struct sluice_limit *sl_resp_limit(struct sl_resp_turn *turn, struct sluice_bytes text,
                                         struct sluice_error *error) {
	const struct sluice_limit *known = sl_resp_limit_recall(turn, text);
	struct sluice_limit limit;
	if (known != NULL)
		return known;
	if (sluice_limit_parse(&limit, text, error) != SLUICE_OK)
		return NULL;
	return sl_resp_limit_keep(turn, text, &limit);
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

struct sluice_call *sl_resp_call_begin(struct sl_resp_turn *turn) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	if (batch->call_count == SL_RESP_CALLS_MAX || batch->spare_count > SL_RESP_SPARES - SLUICE_ITEMS_MAX ||
	    batch->match_used > SLUICE_MATCH_BYTES_MAX - (size_t)SLUICE_ITEMS_MAX * SLUICE_KEY_BYTES_MAX) {
		sl_resp_flush(turn);
		batch->spare_count = 0; /* where nothing has gathered, they are of commands that failed or answered at once */
	}
	struct sluice_call *call = &batch->calls[batch->call_count];
	call->items = batch->items + batch->item_count;
	call->item_count = 0;
	call->operation = SLUICE_CHARGE;
	call->want_next = call->upto = false;
	call->now = turn->context->now;
	call->id.len = 0;
	call->ttl_ns = 0;
	call->each = NULL;
	batch->placed[batch->call_count] = false;
	return call;
}

void sl_resp_call_place(struct sl_resp_turn *turn, struct sluice_call *call, uint32_t index, uint32_t position) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	uint32_t *positions = batch->positions + batch->item_count;
	for (uint32_t i = 0; call->each == NULL && i < SLUICE_ITEMS_MAX; i++)
		positions[i] = SL_POSITION_NOTATION;
	positions[index] = position;
	call->each = batch->each + batch->item_count;
	batch->placed[batch->call_count] = true;
}

void sl_resp_call_make_id(struct sl_resp_turn *turn, struct sluice_call *call) {
	char *made = turn->worker->batch.made[turn->worker->batch.call_count];
	call->id = sl_make_id(made);
}

void sl_resp_call_end(struct sl_resp_turn *turn, struct sluice_call *call, enum sl_operation operation,
                      uint32_t given) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	SL_DEBUG_ASSERT(call == &batch->calls[batch->call_count]);
	if ((given & SL_SAYS(EACH)) != 0)
		call->each = batch->each + batch->item_count;
	call->now = sl_admission_instant(call->now, call->items, call->item_count);
	batch->item_count += call->item_count;
	batch->operations[batch->call_count] = (uint8_t)operation;
	batch->given[batch->call_count++] = given;
}

/* ---- deciding -------------------------------------------------------------------------------------------------- */

static struct sl_call_outcome outcome_of(struct sl_resp_worker *worker, uint32_t i) {
	struct sl_resp_batch *batch = &worker->batch;
	const struct sluice_call *call = &batch->calls[i];
	bool admits = batch->operations[i] == SL_OP_ADMIT;
	return (struct sl_call_outcome){
		.call = (struct sluice_call *)call,
		.positions = batch->placed[i] ? batch->positions + (call->items - batch->items) : NULL,
		.shown = admits ? batch->shown[i] : call->item_count,
		.candidate_of = batch->candidate_of[i],
		.transport = SL_TRANSPORT_RESP,
		.undecided = admits ? &batch->undecided[i] : NULL,
		.asker = {.attributes = worker->attributes + (admits ? batch->asked_from[i] : 0),
	              .attribute_count = admits ? batch->asked_count[i] : 0},
		.beyond = admits && batch->beyond[i] ? &worker->match : NULL,
	};
}

static void settle_one(struct sl_resp_turn *turn, uint32_t i) {
	struct sl_call_outcome outcome = outcome_of(turn->worker, i);
	sl_call_outcome_settle(turn->context, &outcome);
}

static void settle(struct sl_resp_turn *turn) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	struct sl_call_outcome_plain plain = {.near_percent = sl_policy_settings(turn->context->policy)->near_percent};
	const enum sl_tail_interest interest = sl_tail_interest(turn->context->tail, turn->context->now);
	for (uint32_t i = 0; i < batch->call_count; i++) {
		if (batch->calls[i].operation == SLUICE_CHARGE
		        ? batch->placed[i] || !sl_call_outcome_take(&plain, &batch->calls[i])
		        : sl_operation_is(batch->calls[i].operation, SL_OPS_LASTING))
			settle_one(turn, i);
		else if (__builtin_expect(interest == SL_TAIL_EACH, 0) && batch->calls[i].operation == SLUICE_CHARGE)
			sl_outcome_show_plain(turn->context, SL_TRANSPORT_RESP, &batch->calls[i]);
	}
	if (__builtin_expect(interest == SL_TAIL_COUNT, 0))
		sl_tail_count(turn->context->tail, plain.count);
	sl_call_outcome_settle_plain(turn->context, SL_TRANSPORT_RESP, &plain);
}

/* Sends all of the batch away. False: later. */
static bool send_away(struct sl_resp_turn *turn, bool (*decide)(struct sl_door_context *context,
                                                                const struct sl_call_outcome *outcomes, size_t count)) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	struct sl_call_outcome outcomes[SL_RESP_CALLS_MAX];
	for (uint32_t i = 0; i < batch->call_count; i++)
		outcomes[i] = outcome_of(turn->worker, i);
	if (decide(turn->context, outcomes, batch->call_count))
		return true;
	turn->waits = true;
	turn->said = turn->out->len;
	return false;
}

/* Where the counters are elsewhere, or some of it has waited. */
static bool decide_there(struct sl_resp_turn *turn) {
	return send_away(turn, sl_pending_decide);
}

/* Decides all of the batch. How long that took is noted as so many times its share. False: later. */
static bool decide_here(struct sl_resp_turn *turn) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	struct sl_worker_stats *stats = turn->context->stats;
	sluice_ns begun = stats != NULL ? sl_clock_monotonic() : 0;
	sluice_decide_many(turn->context->store, batch->calls, batch->call_count);
	if (stats != NULL)
		sl_times_add(&stats->decision, (sl_clock_monotonic() - begun) / batch->call_count, batch->call_count);
	for (uint32_t i = 0; i < batch->call_count; i++)
		if (__builtin_expect(sl_is_held_up(batch->calls[i].err), 0))
			return send_away(turn, sl_pending_park);
	return true;
}


static void begin_anew(struct sl_resp_batch *batch) {
	batch->number++;
	batch->call_count = batch->item_count = batch->spare_count = batch->attribute_count = 0;
	batch->match_used = 0;
}

void sl_resp_flush(struct sl_resp_turn *turn) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	if (batch->call_count == 0) {
		batch->match_used = 0; /* by commands that have failed, or were answered at once */
		return;
	}
	if (turn->waits) { /* gathered by what goes on to the end of a request that will be read again */
		begin_anew(batch);
		return;
	}
	bool here = turn->context->remote == NULL && !sl_pending_wait(turn->context);
	if (!(here ? decide_here(turn) : decide_there(turn))) {
		begin_anew(batch);
		return;
	}
	settle(turn);
	sl_resp_answer(turn);
	sl_pending_settle(turn->context);
	turn->begun = turn->at;
	begin_anew(batch);
}
