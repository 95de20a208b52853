/* Requests gather here until there are SL_REPLAY_BATCH of them, and are decided in order but together: the store then
 * fetches the counters of many keys at once instead of waiting for each in turn. Keys are written to one block of
 * memory, which outlives the line that they came from. */
#include "hosts/cli/replay.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ITEMS = SL_REPLAY_BATCH * SLUICE_ITEMS_MAX,
	/* room for one more request, however many limits with whatever keys it has */
	KEY_BYTES_SPARE = SLUICE_MATCH_BYTES_MAX,
	KEY_BYTES = 2 * KEY_BYTES_SPARE,
	DECISION_BYTES_MAX = 3 + 11 + 21 + 21, /* "1 " remaining retry reset */
};

struct origin {
	uint32_t file;
	uint64_t number;
};

struct sl_replay_batch {
	uint32_t count, item_count;
	size_t key_bytes;
	struct sluice_call calls[SL_REPLAY_BATCH];
	struct origin origins[SL_REPLAY_BATCH];
	struct sluice_item items[ITEMS];    /* of all calls, one behind the other */
	struct sluice_decision each[ITEMS]; /* likewise */
	uint32_t positions[ITEMS];          /* of each item's limit */
	const char *names[ITEMS];           /* of each item's limit in the policy, for a Redis */
	struct sluice_match match;
	char keys[KEY_BYTES];
};

struct sl_replay_batch *sl_replay_batch_open(void) {
	struct sl_replay_batch *batch = malloc(sizeof *batch);
	if (batch != NULL)
		batch->count = batch->item_count = 0, batch->key_bytes = 0;
	return batch;
}

void sl_replay_batch_close(struct sl_replay_batch *batch) {
	free(batch);
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* The options' limits, which share one key. */
static uint32_t add_limits(struct sl_replay *replay, const struct sl_replay_request *request) {
	const struct sl_replay_options *options = replay->options;
	struct sl_replay_batch *batch = replay->batch;
	struct sl_out out = sl_out_to(batch->keys + batch->key_bytes, KEY_BYTES - batch->key_bytes);
	if (!sl_replay_key_write(&options->key, request, &out))
		return 0;
	batch->key_bytes += sl_out_len(&out);
	for (uint32_t i = 0; i < options->limit_count; i++) {
		batch->items[batch->item_count + i] =
			(struct sluice_item){.limit = &options->limits[i], .key = sl_slice(out.start, sl_out_len(&out))};
		batch->positions[batch->item_count + i] = i;
	}
	return options->limit_count;
}

/* How much of the buffer a match's keys take. */
static size_t end_of_keys(const struct sl_replay_batch *batch, const struct sluice_match *match) {
	size_t end = batch->key_bytes;
	for (uint32_t i = 0; i < match->count; i++) {
		size_t to = (size_t)((const char *)match->items[i].key.data - batch->keys) + match->items[i].key.len;
		end = to > end ? to : end;
	}
	return end;
}

/* The policy's limits. False when more than SLUICE_ITEMS_MAX apply; nothing else can be out of range here. */
static bool add_matches(struct sl_replay *replay, const struct sl_replay_request *request, uint32_t *count) {
	struct sl_replay_batch *batch = replay->batch;
	struct sluice_attribute attributes[SL_REPLAY_ATTRIBUTES];
	size_t attribute_count = 0;
	for (int i = 0; i < SL_REPLAY_ATTRIBUTES; i++) {
		if (request->values[i].data != NULL)
			attributes[attribute_count++] =
				(struct sluice_attribute){sl_str(sl_replay_attribute_names[i]), request->values[i]};
	}
	if (sluice_policy_match(replay->policy, attributes, attribute_count, &batch->match, batch->keys + batch->key_bytes,
	                        KEY_BYTES - batch->key_bytes) != SLUICE_OK)
		return false;
	*count = batch->match.count;
	memcpy(batch->items + batch->item_count, batch->match.items, *count * sizeof *batch->items);
	memcpy(batch->positions + batch->item_count, batch->match.position, *count * sizeof *batch->positions);
	batch->key_bytes = end_of_keys(batch, &batch->match);
	return true;
}

int sl_replay_add(struct sl_replay *replay, const struct sl_replay_request *request, uint32_t file, uint64_t number) {
	struct sl_replay_batch *batch = replay->batch;
	uint32_t count = 0;
	bool full = batch->count == SL_REPLAY_BATCH || batch->key_bytes > KEY_BYTES - KEY_BYTES_SPARE;
	if (full && sl_replay_flush(replay) != SL_GO_ON)
		return SL_EXIT_FAILED;
	if (replay->policy == NULL)
		count = add_limits(replay, request);
	else if (!add_matches(replay, request, &count))
		return sl_cli_fail(replay->verb, "%s:%" PRIu64 ": more than %d limits of %s apply to it",
		                   sl_replay_file_name(replay, file), number, SLUICE_ITEMS_MAX, replay->options->policy_file);
	batch->origins[batch->count] = (struct origin){file, number};
	batch->calls[batch->count++] = (struct sluice_call){
		.items = batch->items + batch->item_count,
		.item_count = count,
		.cost = request->cost,
		.now = request->time,
		.each = batch->each + batch->item_count,
	};
	batch->item_count += count;
	return SL_GO_ON;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

static void print_decision(const struct sluice_decision *decision) {
	char line[DECISION_BYTES_MAX];
	struct sl_out out = sl_out_to(line, sizeof line);
	sl_out_str(&out, decision->allowed ? "1 " : "0 ");
	sl_out_u64(&out, decision->remaining);
	sl_out_char(&out, ' ');
	sl_out_i64(&out, sl_ns_to_ms_ceil(decision->retry_after_ns));
	sl_out_char(&out, ' ');
	sl_out_i64(&out, sl_ns_to_ms_ceil(decision->reset_after_ns));
	sl_out_char(&out, '\n');
	fwrite(line, 1, sl_out_len(&out), stdout);
}

/* Counts a request for each different key of its enforced limits: a key is denied where one of its own limits denied,
 * not where another key's did. */
static bool tally_keys(struct sl_replay *replay, const struct sluice_call *call) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		bool counted = call->items[i].observed, denied = false;
		for (uint32_t j = 0; j < call->item_count && !counted; j++) {
			if (call->items[j].observed || !sl_bytes_equal(call->items[i].key, call->items[j].key))
				continue;
			counted = j < i;
			denied |= !call->each[j].allowed;
		}
		if (!counted && !sl_tally_add(&replay->tally, call->items[i].key, denied))
			return false;
	}
	return true;
}

static bool tally(struct sl_replay *replay, const struct sluice_call *call, const uint32_t *positions) {
	replay->first = replay->requests == 0 || call->now < replay->first ? call->now : replay->first;
	replay->last = call->now > replay->last ? call->now : replay->last;
	replay->requests++;
	replay->allowed += call->merged.allowed;
	replay->denied += !call->merged.allowed;
	replay->unlimited += call->item_count == 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		replay->limits[positions[i]].requests++;
		replay->limits[positions[i]].denied += !call->each[i].allowed;
	}
	return tally_keys(replay, call);
}

static int fail_full(struct sl_replay *replay, const struct origin *origin) {
	return sl_cli_fail(replay->verb,
	                   "%s:%" PRIu64 ": the store of %" PRIu64 " MiB is full; --memory %" PRIu64 "GiB gives it more",
	                   sl_replay_file_name(replay, origin->file), origin->number, replay->options->memory_bytes >> 20,
	                   (replay->options->memory_bytes >> 29) + 1);
}

/* What a decision that failed means here. */
static int fail_call(struct sl_replay *replay, const struct sluice_call *call, const struct origin *origin) {
	const char *file = sl_replay_file_name(replay, origin->file);
	if (call->err == SLUICE_E_FULL)
		return fail_full(replay, origin);
	return sl_cli_fail(replay->verb, "%s:%" PRIu64 ": it could not be decided (error %d)", file, origin->number,
	                   call->err);
}

static int decide_in_redis(struct sl_replay *replay) {
	struct sl_replay_batch *batch = replay->batch;
	const char *const *names = replay->policy != NULL ? batch->names : NULL;
	struct sluice_error error;
	for (uint32_t i = 0; names != NULL && i < batch->item_count; i++)
		batch->names[i] = sluice_policy_limit_name(replay->policy, batch->positions[i]);
	if (sl_replay_redis_decide(replay->redis, batch->calls, batch->count, names, &error))
		return SL_GO_ON;
	return sl_cli_fail(replay->verb, "%.128s: %s", replay->options->store, error.text);
}

static int decide(struct sl_replay *replay) {
	struct sl_replay_batch *batch = replay->batch;
	if (replay->redis != NULL)
		return decide_in_redis(replay);
	sluice_decide_many(replay->store, batch->calls, batch->count);
	if (batch->count != 0 && replay->store->header->evicted != 0)
		return fail_full(replay, &batch->origins[0]); /* a server may go on from here by estimates; a replay is exact */
	return SL_GO_ON;
}

int sl_replay_flush(struct sl_replay *replay) {
	struct sl_replay_batch *batch = replay->batch;
	uint32_t count = batch->count;
	int status = decide(replay);
	batch->count = batch->item_count = 0;
	batch->key_bytes = 0;
	if (status != SL_GO_ON)
		return status;
	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_call *call = &batch->calls[i];
		if (call->err != SLUICE_OK)
			return fail_call(replay, call, &batch->origins[i]);
		if (replay->options->decisions)
			print_decision(&call->merged);
		if (!tally(replay, call, batch->positions + (call->items - batch->items)))
			return sl_cli_fail(replay->verb, "no memory to count keys");
	}
	if (ferror(stdout))
		return sl_cli_fail(replay->verb, "standard output: %m");
	return SL_GO_ON;
}
