/* Settling what was decided. The common case, an allowed request, is some additions to memory that this thread alone
 * writes; all else is out of line.
 *
 * A client may set the instant of a decision (AT). What is noted of it, the top keys and the log, bears the server's
 * own; and it is not staggered: a ticket for a time that a client made up would send others away until then. */
#include "hosts/server/door/call_outcome.h"

#include "algo/rule.h"
#include "base/operation.h"
#include "hosts/admission/admission.h"
#include "hosts/server/door/outcome_record.h"

uint32_t sl_call_outcome_add_candidates(const struct sluice_policy *policy, const struct sluice_match *match,
                                        struct sluice_item *items, uint8_t of[SLUICE_ITEMS_MAX]) {
	uint32_t shown = match->count;
	uint32_t count = shown + sl_policy_candidates(policy, match, items + shown, of, SLUICE_ITEMS_MAX - shown);
	for (uint32_t i = shown; i < count; i++)
		items[i].observed = SLUICE_TRIED; /* else one above an observed limit's quota would charge its counter */
	return count;
}

/* ---- what one item is -------------------------------------------------------------------------------------------- */

static uint32_t position_of(const struct sl_call_outcome *outcome, uint32_t i) {
	return outcome->positions == NULL ? SL_POSITION_NOTATION : outcome->positions[i];
}

/* Does a position have a row of its own? What is given in notation shares row 0 with the rules of files of
 * envoyproxy/ratelimit, which are counted by their names besides. */
static inline bool has_row(const struct sl_door_context *context, uint32_t position) {
	return context->rows != NULL && position < sl_policy_limit_count(context->policy);
}

/* Was an item's denial without consequence: observed, or a quota where another one admits? */
static inline bool is_observed(const struct sluice_call *call, uint32_t i) {
	return call->items[i].observed != 0 || (call->items[i].quota != 0 && call->merged.allowed);
}

/* The row of an item, made where there is none yet; NULL where nothing is counted. Row 0 is always there once used, so
 * the call is for the first time only. */
static inline struct sl_row *row_of(const struct sl_door_context *context, uint32_t position) {
	uint32_t row = has_row(context, position) ? context->rows[position] : 0;
	struct sl_row *chunk;
	if (context->stats == NULL)
		return NULL;
	chunk = atomic_load_explicit(&context->stats->rows[row / 64], memory_order_relaxed);
	return chunk != NULL ? &chunk[row % 64] : sl_worker_stats_row(context->stats, row);
}

/* ---- noting: out of line ----------------------------------------------------------------------------------------- */

static void log_denial(const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                       enum sl_top_kind kind, uint32_t i, uint32_t position, const struct sluice_decision *decision,
                       uint64_t suppressed) {
	struct sl_outcome_record made;
	sl_outcome_record(context, outcome, i, position, decision, &made);
	made.record.candidate = kind == SL_TOP_CANDIDATE;
	made.record.suppressed = suppressed;
	sl_denials_write(context->shared->denials, &made.record);
}

static __attribute__((noinline)) void note(const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                                           enum sl_top_kind kind, uint32_t i, const struct sluice_decision *decision) {
	const struct sluice_item *item = &outcome->call->items[i];
	uint32_t position = position_of(outcome, kind == SL_TOP_CANDIDATE ? outcome->candidate_of[i - outcome->shown] : i);
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (context->top == NULL)
		return;
	struct sluice_bytes limit = sl_outcome_limit(context, item, position, text);
	struct sl_top_noted noted = sl_top_note(context->top, kind, position != SL_POSITION_NOTATION, limit, item->key,
	                                        context->now, sl_policy_settings(context->policy)->log.denials_per_key);
	if (kind != SL_TOP_NEAR && noted.write && context->shared != NULL && context->shared->denials != NULL)
		log_denial(context, outcome, kind, i, position, decision, noted.suppressed);
}

/* ---- staggering -------------------------------------------------------------------------------------------------- */

/* Is the call's instant the server's own? It may have been cut to whole milliseconds. */
static bool is_own_instant(const struct sl_door_context *context, const struct sluice_call *call) {
	return call->now <= context->now && context->now - call->now < 1000000;
}

static __attribute__((noinline)) void stagger(const struct sl_door_context *context,
                                              const struct sl_call_outcome *outcome) {
	struct sluice_call *call = outcome->call;
	if (context->shared == NULL || context->shared->stagger == NULL || outcome->positions == NULL ||
	    !is_own_instant(context, call))
		return;
	struct sluice_store *store = context->remote == NULL ? context->store : NULL;
	sl_stagger_call(context->shared->stagger, store, context->policy, outcome->positions, outcome->shown, call);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static void count_error(struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i) {
	struct sl_row *row = row_of(context, position_of(outcome, i));
	if (row != NULL)
		sl_count(&row->decisions[outcome->transport][SL_VERDICT_ERROR], 1);
}

static void count_errors(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	uint32_t count = outcome->positions == NULL ? 1 : outcome->shown;
	for (uint32_t i = 0; i < count; i++)
		count_error(context, outcome, i);
}

static inline bool is_near(const struct sluice_decision *decision, uint32_t near_percent) {
	return (uint64_t)decision->remaining * 100 <= decision->quota * near_percent;
}

/* What the request is to this limit, or what of it was charged. */
static inline uint32_t hits_of(const struct sluice_call *call, uint32_t i, bool allowed) {
	if (call->repeated)
		return 0;
	if (call->upto && allowed)
		return call->granted;
	return call->items[i].cost != 0 ? call->items[i].cost : call->cost;
}

/* One limit's own answer, which has a row or not. */
static inline __attribute__((always_inline)) void count_one(struct sl_door_context *context,
                                                            const struct sl_call_outcome *outcome, uint32_t i,
                                                            const struct sluice_decision *decision, struct sl_row *row,
                                                            uint32_t near_percent) {
	const struct sluice_call *call = outcome->call;
	bool allowed = decision->allowed, near = allowed && is_near(decision, near_percent);
	bool observed = !allowed && is_observed(call, i);
	if (row != NULL) {
		enum sl_verdict verdict = allowed ? SL_VERDICT_ALLOWED : observed ? SL_VERDICT_SHADOW : SL_VERDICT_DENIED;
		sl_count(&row->decisions[outcome->transport][verdict], 1);
		sl_count(&row->hits[allowed], hits_of(call, i, allowed));
		if (near)
			sl_count(&row->near, 1);
		if (decision->bound != SLUICE_BOUND_NONE && decision->bound < SLUICE_BOUNDS)
			sl_count(&row->bounds[decision->bound], 1);
	}
	if (near)
		note(context, outcome, SL_TOP_NEAR, i, decision);
	else if (!allowed)
		note(context, outcome, observed ? SL_TOP_SHADOW : SL_TOP_DENIED, i, decision);
}

/* The denial of a limit whose `when` names paths is counted by the one that the request had. It is found again here, as
 * denials are rarer than matches. */
static __attribute__((noinline)) void count_route(struct sl_door_context *context,
                                                  const struct sl_call_outcome *outcome, uint32_t i) {
	uint32_t position = position_of(outcome, i);
	if (context->stats == NULL || !has_row(context, position))
		return;
	int64_t number = sl_policy_route_find(context->policy, position, sl_asker_told(&outcome->asker, "path", NULL));
	if (number < 0)
		return;
	uint32_t row = context->rows[sl_policy_limit_count(context->policy) + number];
	if (row != SL_ROUTE_ROW_NONE)
		sl_count(&context->stats->routes[row], 1);
}

static void count_candidates(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	for (uint32_t i = outcome->shown; i < call->item_count; i++) {
		if (call->each[i].allowed)
			continue;
		struct sl_row *row = row_of(context, position_of(outcome, outcome->candidate_of[i - outcome->shown]));
		if (row != NULL)
			sl_count(&row->candidate, 1);
		note(context, outcome, SL_TOP_CANDIDATE, i, &call->each[i]);
	}
}

/* The limits that apply, and found no place among those that are decided. */
static __attribute__((noinline)) void count_beyond(struct sl_door_context *context,
                                                   const struct sl_call_outcome *outcome) {
	const struct sluice_match *match = outcome->beyond;
	const bool costs = sl_admission_costs(outcome->call);
	for (uint32_t i = SLUICE_ITEMS_MAX; i < SLUICE_ITEMS_MAX + match->beyond; i++) {
		const struct sluice_item *item = &match->items[i];
		struct sl_row *row = row_of(context, match->position[i]);
		if (row == NULL)
			continue;
		enum sl_verdict verdict = !costs ? SL_VERDICT_ALLOWED : item->observed ? SL_VERDICT_SHADOW : SL_VERDICT_DENIED;
		sl_count(&row->decisions[outcome->transport][verdict], 1);
		sl_count(&row->hits[!costs], !costs ? 0 : item->cost != 0 ? item->cost : outcome->call->cost);
		sl_count(&row->bounds[item->bound], 1);
	}
}

bool sl_call_outcome_fails_open(const struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	struct sl_undecided *undecided = outcome->undecided;
	if (undecided == NULL)
		return false;
	if (call->err == SLUICE_OK)
		return call->merged.allowed && undecided->items != 0;
	undecided->items = 0;
	if (call->err != SLUICE_E_AWAY && call->err != SLUICE_E_BUSY)
		return false;
	for (uint32_t i = 0; i < outcome->shown; i++) {
		if (call->items[i].observed || !sl_rule_has(call->items[i].limit, SL_HAS_COUNTER))
			continue;
		if (outcome->positions[i] == SL_POSITION_NOTATION ||
		    sl_policy_limit_at(context->policy, outcome->positions[i])->on_error == SL_ON_ERROR_DENY)
			return false;
		undecided->items |= (uint32_t)1 << i;
	}
	return undecided->items != 0;
}

/* Tells of a request that passes undecided, and of the first that is decided again. */
static __attribute__((noinline)) void tell_open(struct sl_door_context *context,
                                                const struct sl_call_outcome *outcome) {
	static const char away[] = "the store did not answer in time", busy[] = SL_HELD_UP_TEXT,
					  refused[] = "a node of the store refused it, with the message that the log has";
	const struct sluice_call *call = outcome->call;
	uint32_t items = outcome->undecided->items;
	for (uint32_t i = 0; i < outcome->shown; i++) {
		struct sl_row *row = (items >> i & 1) != 0 ? row_of(context, outcome->positions[i]) : NULL;
		if (row == NULL)
			continue;
		sl_count(&row->undecided, 1);
		if (context->shared != NULL && context->shared->stats != NULL && has_row(context, outcome->positions[i]))
			sl_stats_undecided(context->shared->stats, context->rows[outcome->positions[i]], context->now);
	}
	if (context->shared != NULL && context->shared->failing != NULL)
		sl_failing_pass(context->shared->failing, context->now,
		                sluice_policy_limit_name(context->policy, outcome->positions[__builtin_ctz(items)]),
		                call->err == SLUICE_E_BUSY ? busy : outcome->undecided->refused ? refused : away);
}

static void settle_open(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	if (sl_call_outcome_fails_open(context, outcome))
		tell_open(context, outcome);
	else if (outcome->call->err == SLUICE_OK && outcome->undecided->items == 0 && !outcome->undecided->local &&
	         context->shared != NULL && context->shared->failing != NULL)
		sl_failing_decided(context->shared->failing, context->now);
}

/* Limits in notation: the merged answer stands for all. Where none applies there is no limit to count. */
static inline void settle_notation(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_decision *merged = &outcome->call->merged;
	if (merged->index >= 0)
		count_one(context, outcome, (uint32_t)merged->index, merged, row_of(context, SL_POSITION_NOTATION),
		          sl_policy_settings(context->policy)->near_percent);
}

static __attribute__((noinline)) void count_penalties(struct sl_door_context *context,
                                                      const struct sl_call_outcome *outcome) {
	for (uint32_t i = 0; i < outcome->shown; i++) {
		struct sl_row *row = (outcome->call->penalized >> i & 1) != 0 ? row_of(context, position_of(outcome, i)) : NULL;
		if (row != NULL)
			sl_count(&row->penalties, 1);
	}
}

static inline void settle_one(struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i,
                              uint32_t near_percent) {
	const struct sluice_decision *decision = &outcome->call->each[i];
	count_one(context, outcome, i, decision, row_of(context, outcome->positions[i]), near_percent);
	if (!decision->allowed && !is_observed(outcome->call, i))
		count_route(context, outcome, i);
}

static void settle_each(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const uint32_t near_percent = sl_policy_settings(context->policy)->near_percent;
	const uint32_t failed = outcome->undecided != NULL ? outcome->undecided->failed : 0;
	if (!outcome->call->merged.allowed)
		stagger(context, outcome);
	for (uint32_t i = 0; i < outcome->shown; i++)
		if ((failed >> i & 1) != 0)
			count_error(context, outcome, i);
		else if (sl_rule_has(outcome->call->items[i].limit, SL_HAS_COUNTER))
			settle_one(context, outcome, i, near_percent);
	count_candidates(context, outcome);
	if (outcome->call->penalized != 0)
		count_penalties(context, outcome);
	if (outcome->beyond != NULL)
		count_beyond(context, outcome);
}

/* ---- what became of leases, reservations and retries ------------------------------------------------------------- */

static void count_event(struct sl_door_context *context, const struct sl_call_outcome *outcome, enum sl_event event) {
	if (context->stats != NULL)
		sl_count(&context->stats->events[outcome->transport][event], 1);
}

static bool reserves(const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	bool any = call->operation == SLUICE_RESERVE && call->ttl_ns != 0;
	for (uint32_t i = 0; i < outcome->shown; i++)
		any = any || call->items[i].ttl_ns != 0;
	return any;
}

/* Of a call that was allowed. */
static void count_made(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	if (call->repeated) {
		count_event(context, outcome, SL_EVENT_REPEATED);
		return;
	}
	if (call->upto && call->granted < call->cost && call->granted != 0)
		count_event(context, outcome, SL_EVENT_PARTLY);
	if (!sl_admission_costs(call))
		return;
	if (call->operation == SLUICE_ACQUIRE)
		count_event(context, outcome, SL_EVENT_LEASE_ACQUIRED);
	if (sl_operation_is(call->operation, SL_OPS_LASTING) && reserves(outcome))
		count_event(context, outcome, SL_EVENT_RESERVATION_MADE);
}

static void count_ended(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	sluice_operation operation = outcome->call->operation;
	bool found = outcome->call->found != 0;
	if (operation == SLUICE_COMMIT)
		count_event(context, outcome, found ? SL_EVENT_RESERVATION_COMMITTED : SL_EVENT_RESERVATION_UNKNOWN);
	else
		count_event(context, outcome,
		            !found                        ? SL_EVENT_LEASE_UNKNOWN
		            : operation == SLUICE_RELEASE ? SL_EVENT_LEASE_RELEASED
		                                          : SL_EVENT_LEASE_RENEWED);
}

static bool is_end(const struct sluice_call *call) {
	return call->operation == SLUICE_RELEASE || call->operation == SLUICE_RENEW || call->operation == SLUICE_COMMIT;
}

void sl_call_outcome_settle(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	const struct sluice_call *call = outcome->call;
	bool failed = call->err != SLUICE_OK;
	if (call->err == SLUICE_E_MISUSE) /* the caller is told: no decision was asked for that can be made */
		return;
	if (!failed && is_end(call)) {
		count_ended(context, outcome);
		return;
	}
	if (!failed && call->merged.allowed &&
	    (sl_operation_is(call->operation, SL_OPS_LASTING) || call->upto || call->id.len != 0))
		count_made(context, outcome);
	if (context->stats != NULL) {
		enum sl_verdict verdict = failed                 ? SL_VERDICT_ERROR
		                          : call->merged.allowed ? SL_VERDICT_ALLOWED
		                                                 : SL_VERDICT_DENIED;
		sl_count(&context->stats->requests[outcome->transport][verdict], 1);
	}
	if (outcome->undecided != NULL)
		settle_open(context, outcome);
	if (failed)
		count_errors(context, outcome);
	else if (outcome->positions == NULL)
		settle_notation(context, outcome);
	else
		settle_each(context, outcome);
	if (sl_tail_is_wanted(context->tail))
		sl_outcome_show(context, outcome);
}

void sl_call_outcome_settle_plain(struct sl_door_context *context, enum sl_transport transport,
                                  const struct sl_call_outcome_plain *plain) {
	struct sl_row *row = row_of(context, SL_POSITION_NOTATION);
	if (plain->count == 0 || context->stats == NULL)
		return;
	sl_count(&context->stats->requests[transport][SL_VERDICT_ALLOWED], plain->count);
	if (row == NULL)
		return;
	sl_count(&row->decisions[transport][SL_VERDICT_ALLOWED], plain->count);
	sl_count(&row->hits[1], plain->hits);
}
