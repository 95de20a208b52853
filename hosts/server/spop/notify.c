/* Admissions, put off and decided together: a NOTIFY's arguments become attributes, the policy says which limits apply,
 * and one call of the store decides all that arrived in one read. Keys and texts stay in the frames, in the match
 * buffer and in the worker's table until the batch is answered, in the order in which it came. */
#include "hosts/server/spop/spop.h"

#include "base/assert.h"
#include "hosts/server/door/pending.h"
#include "os/clock.h"
#include "policy/attribute.h"
#include "store/lock.h"

/* ---- what the request says --------------------------------------------------------------------------------------- */

static void refuse(struct sl_spop_ask *ask, const char *before, struct sluice_bytes name, const char *after) {
	struct sl_out out = sl_out_to(ask->words, sizeof ask->words - 1);
	sl_out_str(&out, before);
	sl_out_quoted(&out, name, 64);
	sl_out_str(&out, after);
	*out.at = '\0';
}

/* The word of an admission, no attribute: taken out of the table. */
static struct sluice_bytes take_word(struct sl_spop_ask *ask, const char *name) {
	struct sluice_bytes value = {NULL, 0};
	for (uint32_t i = 0; i < ask->attribute_count; i++) {
		if (value.data != NULL || !sl_bytes_equal(ask->attributes[i].name, sl_str(name)))
			continue;
		value = ask->attributes[i].value;
		memmove(ask->attributes + i, ask->attributes + i + 1, (--ask->attribute_count - i) * sizeof ask->attributes[0]);
	}
	return value;
}

static bool argument_as_header(void *data, const char *name, struct sluice_bytes *value) {
	const struct sl_spop_ask *ask = data;
	bool twice = false;
	*value = sl_spop_argument(ask->attributes, ask->attribute_count, name, &twice);
	return !twice;
}

static bool read_cost(struct sl_spop_ask *ask, struct sluice_call *call) {
	struct sluice_bytes text = take_word(ask, "cost");
	uint64_t cost = 1;
	ask->admission.cost_said = text.data != NULL;
	if (text.data != NULL && (!sl_bytes_to_u64(text, &cost) || cost > UINT32_MAX)) {
		refuse(ask, "cost ", text, ": expected a whole number 0..4294967295");
		return false;
	}
	call->cost = (uint32_t)cost;
	return true;
}

/* The request's id: its own word, else what the policy's retry-id names. */
static bool read_id(struct sl_spop_turn *turn, struct sl_spop_ask *ask) {
	const char *name = sl_policy_settings(turn->context->policy)->retry_header;
	struct sluice_bytes id = take_word(ask, "id"), said = {NULL, 0};
	bool twice = false;
	if (id.len > SLUICE_ID_BYTES_MAX) {
		refuse(ask, "id ", id, ": expected at most 64 bytes");
		return false;
	}
	if (id.len == 0 && name != NULL)
		said = sl_spop_argument(ask->attributes, ask->attribute_count, name, &twice);
	if (twice) {
		refuse(ask, "", sl_str(name), " is given twice: expected one, the id of the request");
		return false;
	}
	if (said.len != 0) {
		struct sl_out scratch = sl_out_to(turn->worker->scratch, sizeof turn->worker->scratch);
		id = sl_admission_retry_id(ask->attributes, ask->attribute_count, said, &scratch, ask->retry_id);
	}
	ask->admission.id = id;
	return true;
}

static bool names_fit(struct sl_spop_ask *ask) {
	for (uint32_t i = 0; i < ask->attribute_count; i++) {
		struct sluice_bytes name = ask->attributes[i].name;
		if (name.len != 0 && name.len <= SLUICE_NAME_BYTES_MAX)
			continue;
		refuse(ask, "argument ", name, ": expected a name of 1 to 64 bytes");
		return false;
	}
	return true;
}

/* ---- the call --------------------------------------------------------------------------------------------------- */

static sluice_err try_match(struct sl_spop_turn *turn, struct sl_spop_ask *ask) {
	size_t used = turn->worker->match_used;
	return sl_pattern_memo_match(&turn->worker->memo, turn->context->policy, ask->attributes, ask->attribute_count,
	                             sl_slice(NULL, 0), &ask->match, (char *)turn->context->match_buffer + used,
	                             SLUICE_MATCH_BYTES_MAX - used);
}

/* Finds the limits that apply. False where the request was refused, or the batch has to be decided first. */
static bool match(struct sl_spop_turn *turn, struct sl_spop_ask *ask, bool *full) {
	sluice_err err = try_match(turn, ask);
	*full = err == SLUICE_E_RANGE && turn->worker->match_used != 0; /* perhaps by the keys of those before it */
	if (*full)
		return false;
	if (err == SLUICE_E_MISUSE)
		refuse(ask, "argument ", ask->attributes[sl_attribute_repeated(ask->attributes, ask->attribute_count)].name,
		       " is given twice: expected each once");
	else if (err != SLUICE_OK)
		refuse(ask, "", sl_slice("", 0), "the arguments are too long");
	if (err != SLUICE_OK)
		return false;
	turn->worker->match_used =
		sl_admission_match_end(&ask->match, turn->context->match_buffer, turn->worker->match_used);
	return true;
}

/* Does a ticket fit into an ACK, with all else that stands there? */
static bool can_tell(struct sl_spop_turn *turn, const struct sl_spop_ask *ask) {
	const size_t most = sl_spop_ticket_max(turn->session);
	char ticket[SL_TICKET_BYTES_MAX];
	return !sl_admission_holds(ask->call) ||
	       sl_admission_ticket(turn->context->policy, &ask->match, ask->call, most, ticket) <= most;
}

/* Makes the call of a request that is right, in the batch's place for it. False where it was refused. */
static bool make_call(struct sl_spop_turn *turn, struct sl_spop_ask *ask) {
	struct sl_door_context *context = turn->context;
	struct sluice_call *call = ask->call;
	memcpy(ask->items, ask->match.items, ask->match.count * sizeof ask->items[0]);
	call->items = ask->items;
	call->item_count = sl_call_outcome_add_candidates(context->policy, &ask->match, ask->items, ask->candidate_of);
	call->each = ask->each;
	call->want_next = turn->context->forms != 0;
	call->now = sl_admission_instant(context->now, call->items, call->item_count);
	ask->admission.header = argument_as_header;
	ask->admission.data = ask;
	if (sl_admission_prepare(&ask->admission, context->policy, &ask->match, ask->candidate_of, ask->items, call))
		return true;
	refuse(ask, "", sl_str(ask->admission.wrong),
	       " must be a whole number 0..4294967295, given once: what the request costs");
	return false;
}

/* A ticket that HAProxy can't be told is denied before it is decided. */
static void join(struct sl_spop_turn *turn, struct sl_spop_ask *ask) {
	ask->undecided = (struct sl_undecided){0};
	if (can_tell(turn, ask)) {
		turn->worker->call_count++;
		return;
	}
	ask->own = *ask->call;
	ask->call = &ask->own;
	sl_admission_deny_untold(ask->call);
}

/* Fills in an ask from its arguments. False: the batch is full, and nothing was done. */
static bool fill(struct sl_spop_turn *turn, struct sl_spop_ask *ask) {
	struct sl_spop_worker *worker = turn->worker;
	bool full = false;
	ask->words[0] = '\0';
	ask->admission = (struct sl_admission){.cost_said = false};
	ask->call = &worker->calls[worker->call_count];
	*ask->call = (struct sluice_call){.operation = SLUICE_CHARGE};
	if (names_fit(ask) && read_cost(ask, ask->call) && read_id(turn, ask) && match(turn, ask, &full) &&
	    make_call(turn, ask))
		join(turn, ask);
	return !full;
}

bool sl_spop_admit(struct sl_spop_turn *turn, const struct sl_spop_frame *frame, struct sluice_bytes rest) {
	struct sl_spop_worker *worker = turn->worker;
	uint8_t count;
	uint32_t arguments;
	if (!sl_spop_take_byte(&rest, &count))
		return false;
	if (worker->ask_count == SL_SPOP_ASKS_MAX || worker->argument_count + count > SL_SPOP_ARGUMENTS_MAX)
		sl_spop_flush(turn);
	for (;;) {
		struct sl_spop_ask *ask = &worker->asks[worker->ask_count];
		struct sluice_bytes payload = rest;
		if (turn->waits)
			return true;
		arguments = worker->argument_count;
		ask->stream = frame->stream;
		ask->frame = frame->frame;
		ask->attributes = sl_spop_arguments(worker, &payload, count, &ask->attribute_count);
		if (ask->attributes == NULL)
			return false;
		if (payload.len != 0) {
			worker->argument_count = arguments;
			sl_spop_flush(turn);
			turn->failed |= !turn->waits && !sl_spop_answer_words(turn, frame->stream, frame->frame, "error",
			                                                      "expected one message per frame");
			return true;
		}
		if (fill(turn, ask)) {
			worker->ask_count++;
			return true;
		}
		worker->argument_count = arguments;
		sl_spop_flush(turn);
	}
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

static struct sl_call_outcome outcome_of(struct sl_spop_ask *ask) {
	return (struct sl_call_outcome){.call = ask->call,
	                                .positions = ask->match.position,
	                                .shown = ask->match.count,
	                                .candidate_of = ask->candidate_of,
	                                .transport = SL_TRANSPORT_SPOP,
	                                .undecided = &ask->undecided,
	                                .beyond = ask->match.beyond != 0 ? &ask->match : NULL,
	                                .retried = ask->call->id.data == ask->retry_id,
	                                .asker = {.attributes = ask->attributes, .attribute_count = ask->attribute_count}};
}

/* Is an ask decided with the batch: neither refused nor denied before? */
static bool is_decided(const struct sl_spop_ask *ask) {
	return ask->words[0] == '\0' && ask->call != &ask->own;
}

static bool send_away(struct sl_spop_turn *turn, bool (*decide)(struct sl_door_context *context,
                                                                const struct sl_call_outcome *outcomes, size_t count)) {
	struct sl_call_outcome outcomes[SL_SPOP_ASKS_MAX];
	size_t count = 0;
	for (uint32_t i = 0; i < turn->worker->ask_count; i++)
		if (is_decided(&turn->worker->asks[i]))
			outcomes[count++] = outcome_of(&turn->worker->asks[i]);
	return decide(turn->context, outcomes, count);
}

/* False: later. */
static bool decide(struct sl_spop_turn *turn) {
	struct sl_spop_worker *worker = turn->worker;
	struct sl_worker_stats *stats = turn->context->stats;
	if (worker->call_count == 0)
		return true;
	if (turn->context->remote != NULL || sl_pending_wait(turn->context))
		return send_away(turn, sl_pending_decide);
	sluice_ns begun = stats != NULL ? sl_clock_monotonic() : 0;
	sluice_decide_many(turn->context->store, worker->calls, worker->call_count);
	if (stats != NULL)
		sl_times_add(&stats->decision, (sl_clock_monotonic() - begun) / worker->call_count, worker->call_count);
	for (uint32_t i = 0; i < worker->call_count; i++)
		if (__builtin_expect(sl_is_held_up(worker->calls[i].err), 0))
			return send_away(turn, sl_pending_park);
	return true;
}

static void answer(struct sl_spop_turn *turn, struct sl_spop_ask *ask) {
	struct sl_call_outcome outcome = outcome_of(ask);
	bool refused = ask->words[0] != '\0';
	if (!refused)
		sl_call_outcome_settle(turn->context, &outcome);
	else if (turn->context->stats != NULL)
		sl_count(&turn->context->stats->errors[SL_TRANSPORT_SPOP], 1);
	bool good = refused ? sl_spop_answer_words(turn, ask->stream, ask->frame, "refused", ask->words)
	                    : sl_spop_answer(turn, ask, &outcome);
	turn->failed |= !good;
}

void sl_spop_flush(struct sl_spop_turn *turn) {
	struct sl_spop_worker *worker = turn->worker;
	if (worker->ask_count != 0) {
		turn->waits = turn->waits || !decide(turn);
		for (uint32_t i = 0; i < worker->ask_count && !turn->waits; i++)
			answer(turn, &worker->asks[i]);
		if (!turn->waits) {
			sl_pending_settle(turn->context);
			turn->begun = turn->at;
		}
	}
	worker->ask_count = worker->call_count = worker->argument_count = 0;
	worker->match_used = 0;
}
