/* An admission as a call of the batch: matched, by its pattern where it has one, and joined. Keys are built in the
 * worker's match buffer, one request after the other, until the batch is decided. */
#include "base/assert.h"
#include "hosts/admission/admission.h"
#include "hosts/server/resp/resp.h"

struct sluice_attribute *sl_resp_attributes(struct sl_resp_turn *turn, uint32_t count) {
	struct sl_resp_worker *worker = turn->worker;
	if (worker->batch.attribute_count + count > SL_RESP_ARGS_MAX / 2)
		sl_resp_flush(turn);
	return worker->attributes + worker->batch.attribute_count;
}

static inline sluice_err try_match(struct sl_resp_turn *turn, const struct sl_resp_matched *matched) {
	struct sl_resp_worker *worker = turn->worker;
	size_t used = worker->batch.match_used, room = SLUICE_MATCH_BYTES_MAX - used;
	char *buffer = (char *)turn->context->match_buffer + used;
	const struct sluice_policy *policy = turn->context->policy;
	return matched->pattern != NULL
	           ? sl_pattern_match(matched->pattern, policy, matched->attributes, &worker->match, buffer, room)
	           : sl_policy_match(policy, matched->attributes, matched->count, matched->member, &worker->match, buffer,
	                             room);
}

sluice_err sl_resp_match(struct sl_resp_turn *turn, const struct sl_resp_matched *matched) {
	struct sl_resp_worker *worker = turn->worker;
	if (worker->match.beyond != 0) /* a call of the batch may be counted by it */
		sl_resp_flush(turn);
	sluice_err err = try_match(turn, matched);
	if (err == SLUICE_E_RANGE && worker->batch.match_used != 0) { /* perhaps the buffer is full of earlier keys */
		sl_resp_flush(turn);
		err = try_match(turn, matched);
	}
	if (err == SLUICE_OK)
		worker->batch.match_used =
			sl_admission_match_end(&worker->match, turn->context->match_buffer, worker->batch.match_used);
	return err;
}

/* Makes a call of what was found. begin() may decide the batch, and with it give up the match buffer: then the keys
 * just built are after its start and stay whole, for nothing is built there before this call has joined. */
void sl_resp_admit_join(struct sl_resp_turn *turn, struct sl_admission *admission, const struct sluice_call *asked,
                        uint32_t given, const struct sl_resp_matched *matched) {
	struct sl_resp_batch *batch = &turn->worker->batch;
	const struct sluice_match *found = &turn->worker->match;
	size_t used = batch->match_used;
	struct sluice_call *call = sl_resp_call_begin(turn);
	batch->match_used = used;
	uint32_t index = batch->call_count;
	call->cost = asked->cost;
	call->want_next = asked->want_next;
	memcpy(batch->items + batch->item_count, found->items, found->count * sizeof found->items[0]);
	call->item_count = sl_call_outcome_add_candidates(turn->context->policy, found, batch->items + batch->item_count,
	                                                  batch->candidate_of[index]);
	batch->shown[index] = (uint8_t)found->count;
	batch->beyond[index] = found->beyond != 0;
	batch->undecided[index] = (struct sl_undecided){0};
	batch->asked_from[index] = (uint32_t)(matched->attributes - turn->worker->attributes);
	batch->asked_count[index] = matched->count;
	batch->attribute_count = batch->asked_from[index] + batch->asked_count[index];
	bool prepared = sl_admission_prepare(admission, turn->context->policy, found, batch->candidate_of[index],
	                                     batch->items + batch->item_count, call);
	SL_ASSERT(prepared); /* only the cost of a header may be wrong, and there are none here */
	if (call->id.data == admission->made) {
		memcpy(batch->made[index], admission->made, sizeof batch->made[index]);
		call->id.data = batch->made[index];
	}
	memcpy(batch->positions + batch->item_count, found->position, found->count * sizeof found->position[0]);
	call->each = batch->each + batch->item_count;
	batch->placed[index] = true;
	sl_resp_call_end(turn, call, SL_OP_ADMIT, given);
}

void sl_resp_admit_alike(struct sl_resp_turn *turn, const struct sl_pattern *pattern,
                         const struct sluice_attribute *attributes, uint32_t cost) {
	const struct sl_resp_matched matched = {.pattern = pattern, .attributes = attributes, .count = pattern->count};
	struct sl_admission admission = {.cost_said = true};
	const struct sluice_call asked = {.cost = cost};
	if (sl_resp_match(turn, &matched) == SLUICE_OK)
		sl_resp_admit_join(turn, &admission, &asked, 0, &matched);
	else
		sl_reply_error(turn, SL_RESP_UNDECIDABLE);
}
