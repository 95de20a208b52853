/* Requests gather here until there are SL_REPLAY_BATCH of them, and are decided in order but together: the store then
 * fetches the counters of many keys at once instead of waiting for each in turn. Keys are written to one block of
 * memory, which outlives the line that they came from.
 *
 * What becomes of a request later, its release or commit, is known when it was decided, and has its place among the
 * requests by its instant, ahead of those of the same one: a lease is not held at the instant at which it ends. So a
 * batch is decided before the first request at or after the earliest instant at which one of it may end. */
#include "algo/traits.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/cli/replay/replay_audit.h"
#include "hosts/cli/replay/replay_batch.h"
#include "policy/key.h"
#include "store/store.h"

#include "hosts/cli/replay/replay_read.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/call_outcome.h"

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

/* How long after its commit a reservation of --estimate would still be open. */
static const sluice_ns RESERVE_SPARE_NS = (sluice_ns)60 * 1000000000;

/* Where a request came from, and what becomes of it. */
struct origin {
	uint32_t file;
	uint64_t number;
	uint32_t cost, reserved;
	sluice_ns release, commit; /* when; looked at where it has leases, reservations */
};

struct sl_replay_batch {
	uint32_t count, item_count;
	size_t key_bytes;
	struct sluice_call calls[SL_REPLAY_BATCH];
	struct origin origins[SL_REPLAY_BATCH];
	char ids[SL_REPLAY_BATCH][SL_PENDING_ID_BYTES];
	uint64_t order; /* of the last request that was added, from 1 */
	sluice_ns due;  /* the earliest instant at which something of the batch may end; SLUICE_NEVER: nothing will */
	struct sluice_item items[ITEMS];    /* of all calls, one after the other */
	struct sluice_decision each[ITEMS]; /* likewise */
	uint32_t positions[ITEMS];          /* of each item's limit */
	const char *names[ITEMS];           /* of each item's limit in the policy, for a Redis */
	struct sluice_match match;
	char keys[KEY_BYTES];
};

struct sl_replay_batch *sl_replay_batch_open(void) {
	struct sl_replay_batch *batch = malloc(sizeof *batch);
	if (batch != NULL)
		batch->count = batch->item_count = 0, batch->key_bytes = 0, batch->order = 0, batch->due = SLUICE_NEVER;
	return batch;
}

void sl_replay_batch_close(struct sl_replay_batch *batch) {
	free(batch);
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* The item of one of the options' limits; false where the request has not what it counts. */
static bool fill_item(const struct sl_replay_options *options, const struct sl_replay_request *request,
                      const struct sluice_limit *limit, struct sluice_bytes key, struct sluice_item *item) {
	*item = (struct sluice_item){.limit = limit, .key = key};
	if (sl_rule_has(limit, SL_TAKES_MEMBER))
		item->member = request->values[options->member];
	else if (sl_rule_has(limit, SL_RESERVABLE) && options->reserves)
		item->ttl_ns = options->commit_ns + RESERVE_SPARE_NS;
	return !sl_rule_has(limit, SL_TAKES_MEMBER) || item->member.data != NULL;
}

/* The options' limits, which share one key. Members are copied after it. */
static uint32_t add_limits(struct sl_replay *replay, const struct sl_replay_request *request) {
	const struct sl_replay_options *options = replay->options;
	struct sl_replay_batch *batch = replay->batch;
	struct sl_out out = sl_out_to(batch->keys + batch->key_bytes, KEY_BYTES - batch->key_bytes);
	uint32_t count = 0;
	if (!sl_replay_key_write(&options->key, request, &out))
		return 0;
	struct sluice_bytes key = sl_slice(out.start, sl_out_len(&out));
	for (uint32_t i = 0; i < options->limit_count; i++) {
		struct sluice_item *item = &batch->items[batch->item_count + count];
		if (!fill_item(options, request, &options->limits[i], key, item))
			continue;
		if (item->member.data != NULL) {
			char folded[SLUICE_KEY_BYTES_MAX];
			const char *copy = out.at;
			item->member = sl_key_fold(folded, item->member);
			sl_out_bytes(&out, item->member.data, item->member.len);
			item->member = sl_slice(copy, item->member.len);
		}
		batch->positions[batch->item_count + count++] = i;
	}
	batch->key_bytes += sl_out_len(&out);
	return count;
}

/* How much of the buffer a match's keys take. */
static size_t end_of_keys(const struct sl_replay_batch *batch, const struct sluice_match *match) {
	size_t end = batch->key_bytes;
	for (uint32_t i = 0; i < match->count; i++) {
		struct sluice_bytes last = match->items[i].member.data != NULL ? match->items[i].member : match->items[i].key;
		size_t to = (size_t)((const char *)last.data - batch->keys) + last.len;
		end = to > end ? to : end;
	}
	return end;
}

/* The policy's limits. Nothing can be out of range here, and no attribute stands twice. */
static void add_matches(struct sl_replay *replay, const struct sl_replay_request *request, uint32_t *count) {
	struct sl_replay_batch *batch = replay->batch;
	struct sluice_attribute attributes[SL_REPLAY_ATTRIBUTES];
	size_t attribute_count = 0;
	for (int i = 0; i < SL_REPLAY_ATTRIBUTES; i++) {
		if (request->values[i].data != NULL)
			attributes[attribute_count++] =
				(struct sluice_attribute){sl_str(sl_replay_attribute_names[i]), request->values[i]};
	}
	sluice_err err = sluice_policy_match(replay->policy, attributes, attribute_count, &batch->match,
	                                     batch->keys + batch->key_bytes, KEY_BYTES - batch->key_bytes);
	SL_ASSERT(err == SLUICE_OK);
	*count = batch->match.count;
	memcpy(batch->items + batch->item_count, batch->match.items, *count * sizeof *batch->items);
	memcpy(batch->positions + batch->item_count, batch->match.position, *count * sizeof *batch->positions);
	batch->key_bytes = end_of_keys(batch, &batch->match);
}

static sluice_ns later(sluice_ns time, sluice_ns wait) {
	return wait < SLUICE_NEVER - time ? time + wait : SLUICE_NEVER;
}

static bool is_candidate(const struct sluice_item *item) {
	return item->observed == SLUICE_TRIED;
}

static bool is_lease(const struct sluice_item *item) {
	return sl_rule_has(item->limit, SL_TAKES_LEASE) && !is_candidate(item);
}

static bool is_reserved(const struct sluice_item *item) {
	return item->ttl_ns != 0;
}

/* What a reservation is charged first: as the policy estimates, else as the options do, else the cost itself. */
static uint32_t estimate_of(const struct sl_replay *replay, uint32_t position) {
	uint32_t estimate = 0;
	if (replay->policy != NULL)
		estimate = sl_policy_limit_at(replay->policy, position)->reserve.estimate;
	return estimate != 0 ? estimate : replay->options->estimate;
}

/* Makes the call of a request with leases or reservations one that takes them, and notes when they end. SL_GO_ON, or
 * SL_EXIT_FAILED after saying why. */
static int take_on(struct sl_replay *replay, const struct sl_replay_request *request, struct sluice_item *items,
                   const uint32_t *positions, struct sluice_call *call, struct origin *origin) {
	const struct sl_replay_options *options = replay->options;
	struct sl_replay_batch *batch = replay->batch;
	bool leases = false, reserves = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		leases |= is_lease(&items[i]);
		if (!is_reserved(&items[i]))
			continue;
		items[i].cost = estimate_of(replay, positions[i]);
		origin->reserved = reserves ? origin->reserved : items[i].cost != 0 ? items[i].cost : request->cost;
		reserves = true;
	}
	for (uint32_t i = 0; i < call->item_count && reserves; i++)
		if (!is_reserved(&items[i]) && items[i].cost == 0)
			items[i].cost = 1; /* the line's cost is of what is reserved: tokens are no requests, and no places */
	if (!leases && !reserves)
		return SL_GO_ON;
	if (leases && !request->has_duration && !options->has_hold)
		return sl_cli_fail(replay->verb, "%s:%" PRIu64 ": the line does not say how long the request took: --hold TIME",
		                   sl_replay_file_name(replay, origin->file), origin->number);
	sluice_ns hold = request->has_duration ? request->duration : options->hold_ns;
	sluice_ns wait = options->has_commit ? options->commit_ns : request->has_duration ? request->duration : 0;
	char *id = batch->ids[batch->count];
	sl_replay_pending_id(batch->order, id);
	origin->release = leases ? later(request->time, hold) : SLUICE_NEVER;
	origin->commit = reserves ? later(request->time, wait) : SLUICE_NEVER;
	batch->due = sl_min(batch->due, sl_min(origin->release, origin->commit));
	call->operation = leases ? SLUICE_ACQUIRE : SLUICE_RESERVE;
	call->id = sl_str(id);
	return SL_GO_ON;
}

/* What single limits of the policy cost, by the rules of the doors (hosts/admission/admission.h): a line's cost is as
 * stated as that of a caller, and no line has headers. */
static void say_costs(const struct sl_replay *replay, const struct sl_replay_request *request, struct sluice_call *call,
                      struct sluice_item *items, const uint32_t *positions) {
	uint32_t costs[SLUICE_ITEMS_MAX] = {0};
	bool own = false;
	if (replay->policy == NULL)
		return; /* limits of the command line have none of their own */
	if (call->cost == 0 || call->upto)
		sl_admission_drop_costs(items, call->item_count);
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sl_policy_cost *says = &sl_policy_limit_at(replay->policy, positions[i])->cost;
		own = own || says->on;
		costs[i] = items[i].cost != 0 ? items[i].cost : call->cost;
		if (says->on && items[i].cost == 0)
			costs[i] = sl_admission_own_cost(says, request->cost_said, call->cost);
	}
	if (own && call->cost != 0 && !call->upto)
		sl_admission_share_costs(call, items, costs, call->item_count);
}

/* The candidates of the request's limits, after these, as at the doors: they charge nothing, and cost what their limits
 * do. Verdicts that somebody else gave say nothing of them. Returns how many items there are then. */
static uint32_t add_candidates(const struct sl_replay *replay, struct sluice_item *items, uint32_t *positions,
                               uint32_t count) {
	const struct sluice_match *match = &replay->batch->match;
	uint8_t of[SLUICE_ITEMS_MAX];
	if (replay->policy == NULL || replay->options->judge != NULL)
		return count;
	SL_ASSERT(match->count == count);
	count = sl_call_outcome_add_candidates(replay->policy, match, items, of);
	for (uint32_t i = match->count; i < count; i++) {
		items[i].cost = items[of[i - match->count]].cost;
		positions[i] = positions[of[i - match->count]];
	}
	return count;
}

/* The policy's limits that apply, and found no place among those that are decided: as a server counts them. Verdicts
 * that somebody else gave say nothing of them. */
static void count_beyond(struct sl_replay *replay, const struct sluice_call *call) {
	const struct sluice_match *match = &replay->batch->match;
	if (replay->policy == NULL || replay->options->judge != NULL)
		return;
	for (uint32_t i = SLUICE_ITEMS_MAX; i < SLUICE_ITEMS_MAX + match->beyond; i++) {
		replay->limits[match->position[i]].requests++;
		replay->limits[match->position[i]].denied += sl_admission_costs(call);
	}
}

static int flush(struct sl_replay *replay);
static int end_until(struct sl_replay *replay, sluice_ns time);

/* Decides what has to be decided before a request of this instant. */
static int make_way(struct sl_replay *replay, sluice_ns time) {
	struct sl_replay_batch *batch = replay->batch;
	const struct sl_replay_pending *first = sl_replay_pending_first(&replay->pendings);
	bool full = batch->count == SL_REPLAY_BATCH || batch->key_bytes > KEY_BYTES - KEY_BYTES_SPARE;
	bool due = batch->due <= time || (first != NULL && first->time <= time);
	if ((full || due) && flush(replay) != SL_GO_ON)
		return SL_EXIT_FAILED;
	return due ? end_until(replay, time) : SL_GO_ON;
}

int sl_replay_add(struct sl_replay *replay, const struct sl_replay_request *request, uint32_t file, uint64_t number) {
	struct sl_replay_batch *batch = replay->batch;
	uint32_t count = 0;
	if (make_way(replay, request->time) != SL_GO_ON)
		return SL_EXIT_FAILED;
	if (replay->policy == NULL)
		count = add_limits(replay, request);
	else
		add_matches(replay, request, &count);
	struct origin *origin = &batch->origins[batch->count];
	struct sluice_call *call = &batch->calls[batch->count];
	struct sluice_item *items = batch->items + batch->item_count;
	*origin = (struct origin){.file = file, .number = number, .cost = request->cost};
	*call = (struct sluice_call){
		.items = items,
		.item_count = count,
		.cost = request->cost,
		.now = request->time,
		.upto = replay->options->upto,
		.each = batch->each + batch->item_count,
	};
	batch->order++;
	say_costs(replay, request, call, items, batch->positions + batch->item_count);
	if (take_on(replay, request, items, batch->positions + batch->item_count, call, origin) != SL_GO_ON)
		return SL_EXIT_FAILED;
	count_beyond(replay, call);
	call->item_count = add_candidates(replay, items, batch->positions + batch->item_count, count);
	batch->count++;
	batch->item_count += call->item_count;
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

/* Counts a request for each different key of its limits that are enforced (0), of those that are SLUICE_OBSERVED, or of
 * candidates (SLUICE_TRIED): a key is denied where one of its own limits denied, not where another key's did. */
static bool count_keys(struct sl_replay_stats *stats, const struct sluice_call *call, int observed) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		bool counted = call->items[i].observed != observed, denied = false;
		for (uint32_t j = 0; j < call->item_count && !counted; j++) {
			if (call->items[j].observed != observed || !sl_bytes_equal(call->items[i].key, call->items[j].key))
				continue;
			counted = j < i;
			denied |= !call->each[j].allowed;
		}
		if (!counted && !sl_replay_stats_add(stats, call->items[i].key, denied))
			return false;
	}
	return true;
}

/* The same of all three. Most requests meet one limit. */
static bool count_all_keys(struct sl_replay *replay, const struct sluice_call *call) {
	if (call->item_count == 1 && call->items->observed == 0)
		return sl_replay_stats_add(&replay->stats, call->items->key, !call->each->allowed);
	return count_keys(&replay->stats, call, 0) && count_keys(&replay->shadows, call, SLUICE_OBSERVED) &&
	       count_keys(&replay->tried, call, SLUICE_TRIED);
}

/* The instants of all, and how far one goes back behind those before it. */
static void count_instant(struct sl_replay *replay, sluice_ns time) {
	sluice_ns behind = time < replay->last ? replay->last - time : 0;
	replay->first = replay->requests == 0 || time < replay->first ? time : replay->first;
	replay->last = time > replay->last ? time : replay->last;
	replay->late += behind > SL_REPLAY_LATE_NS;
	replay->late_by = behind > replay->late_by ? behind : replay->late_by;
}

static bool stats(struct sl_replay *replay, const struct sluice_call *call, const struct origin *origin,
                  const uint32_t *positions) {
	count_instant(replay, call->now);
	replay->requests++;
	replay->allowed += call->merged.allowed;
	replay->denied += !call->merged.allowed;
	replay->unlimited += call->item_count == 0;
	replay->cost += origin->cost;
	replay->admitted_cost += call->upto ? call->granted : call->merged.allowed ? origin->cost : 0;
	replay->parts += call->upto && call->merged.allowed && call->granted < origin->cost;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sl_replay_limit *limit = &replay->limits[positions[i]];
		bool candidate = is_candidate(&call->items[i]), denied = !call->each[i].allowed;
		limit->requests += !candidate;
		limit->denied += !candidate && denied;
		limit->tried += candidate;
		limit->candidate_denied += candidate && denied;
	}
	return count_all_keys(replay, call);
}

/* The first call of a batch that no store of this size has room for; count: none. */
static uint32_t find_no_room(const struct sl_replay_batch *batch) {
	for (uint32_t i = 0; i < batch->count; i++)
		for (uint32_t k = 0; batch->calls[i].err == SLUICE_OK && k < batch->calls[i].item_count; k++)
			if (batch->calls[i].each[k].bound == SLUICE_BOUND_ROOM)
				return i;
	return batch->count;
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
	if (replay->options->judge != NULL)
		return sl_replay_audit_verdicts(replay, batch->calls, batch->count);
	if (replay->redis != NULL)
		return decide_in_redis(replay);
	sluice_decide_many(replay->store, batch->calls, batch->count);
	if (batch->count != 0 && replay->store->header->evicted != 0)
		return fail_full(replay, &batch->origins[0]); /* a server may go on from here by estimates; a replay is exact */
	uint32_t at = find_no_room(batch);
	return at < batch->count ? fail_full(replay, &batch->origins[at]) : SL_GO_ON;
}

/* Notes what becomes of a request that was admitted with leases or reservations. False without memory. */
static bool note_later(struct sl_replay *replay, const struct sluice_call *call, const struct origin *origin,
                       uint64_t order) {
	struct sl_replay_pending pending = {.order = order,
	                                    .file = origin->file,
	                                    .number = origin->number,
	                                    .reserved = origin->reserved,
	                                    .item_count = call->item_count,
	                                    .items = (struct sluice_item *)call->items};
	struct sl_replay_pending release = pending, commit = pending;
	bool leases = false, reserves = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		leases |= is_lease(&call->items[i]);
		reserves |= is_reserved(&call->items[i]);
	}
	replay->later.leases += leases;
	replay->later.reservations += reserves;
	replay->later.reserved_cost += reserves ? origin->reserved : 0;
	release.operation = SLUICE_RELEASE;
	release.time = origin->release;
	commit.operation = SLUICE_COMMIT;
	commit.time = origin->commit;
	commit.cost = origin->cost;
	return sl_replay_pending_add(&replay->pendings, &release, is_lease) &&
	       sl_replay_pending_add(&replay->pendings, &commit, is_reserved);
}

/* Counts what a release or a commit found. */
static void count_later(struct sl_replay_later *all, const struct sl_replay_pending *pending, bool found) {
	if (pending->operation == SLUICE_RELEASE) {
		all->released += found;
	} else if (found) {
		all->committed++;
		all->committed_cost += pending->cost;
		all->debts += pending->cost > pending->reserved;
		all->debt_cost += pending->cost > pending->reserved ? pending->cost - pending->reserved : 0;
	}
}

/* Releases and commits what is due at an instant. As sl_replay_add(). */
static int end_until(struct sl_replay *replay, sluice_ns time) {
	const struct sl_replay_pending *first;
	while ((first = sl_replay_pending_first(&replay->pendings)) != NULL && first->time <= time) {
		char id[SL_PENDING_ID_BYTES];
		struct sluice_call call = {.items = first->items,
		                           .item_count = first->item_count,
		                           .operation = first->operation,
		                           .cost = first->cost,
		                           .now = first->time};
		sl_replay_pending_id(first->order, id);
		call.id = sl_str(id);
		if (sluice_decide(replay->store, &call) != SLUICE_OK)
			return fail_call(replay, &call, &(struct origin){.file = first->file, .number = first->number});
		count_later(&replay->later, first, call.found != 0);
		sl_replay_pending_drop(&replay->pendings);
	}
	return SL_GO_ON;
}

/* Decides what has gathered, and counts or prints it. As sl_replay_add(). */
static int flush(struct sl_replay *replay) {
	struct sl_replay_batch *batch = replay->batch;
	uint32_t count = batch->count;
	int status = decide(replay);
	batch->count = batch->item_count = 0;
	batch->key_bytes = 0;
	batch->due = SLUICE_NEVER;
	if (status != SL_GO_ON)
		return status;
	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_call *call = &batch->calls[i];
		const struct origin *origin = &batch->origins[i];
		if (call->err != SLUICE_OK)
			return fail_call(replay, call, origin);
		if (replay->options->decisions)
			print_decision(&call->merged);
		const uint32_t *positions = batch->positions + (call->items - batch->items);
		if (!stats(replay, call, origin, positions))
			return sl_cli_fail(replay->verb, "no memory to count keys");
		if (sl_replay_audit_call(replay, call, positions, origin->release) != SL_GO_ON)
			return SL_EXIT_FAILED;
		if (replay->options->judge == NULL && call->operation != SLUICE_CHARGE && call->merged.allowed &&
		    !note_later(replay, call, origin, batch->order - count + 1 + i))
			return sl_cli_fail(replay->verb, "no memory for leases and reservations that are open");
	}
	if (ferror(stdout))
		return sl_cli_fail(replay->verb, "standard output: %m");
	return SL_GO_ON;
}

int sl_replay_end(struct sl_replay *replay) {
	if (flush(replay) != SL_GO_ON || end_until(replay, SLUICE_NEVER) != SL_GO_ON)
		return SL_EXIT_FAILED;
	return sl_replay_audit_end(replay);
}
