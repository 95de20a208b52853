/* Settling what was decided. The common case, an allowed request, is some additions to memory that this thread alone
 * writes; all else is out of line.
 *
 * A client may set the instant of a decision (AT). What is noted of it, the top keys and the log, bears the server's
 * own; and it is not staggered: a ticket for a time that a client made up would send others away until then. */
#include "hosts/server/door/call_outcome.h"

#include "algo/rule.h"
#include "base/operation.h"
#include "hosts/server/door/stagger.h"
#include "hosts/server/watch/key_shown.h"
#include "policy/attribute.h"

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

/* The row of an item, made where there is none yet; NULL where nothing is counted. Row 0 is always there once used, so
 * the call is for the first time only. */
static inline struct sl_row *row_of(const struct sl_door_context *context, uint32_t position) {
	uint32_t row = position == SL_POSITION_NOTATION || context->rows == NULL ? 0 : context->rows[position];
	struct sl_row *chunk;
	if (context->stats == NULL)
		return NULL;
	chunk = atomic_load_explicit(&context->stats->rows[row / 64], memory_order_relaxed);
	return chunk != NULL ? &chunk[row % 64] : sl_worker_stats_row(context->stats, row);
}

/* ---- noting: out of line ----------------------------------------------------------------------------------------- */

/* What a limit is called: its name, or its canonical text. */
static struct sluice_bytes name_of(const struct sl_door_context *context, const struct sluice_item *item,
                                   uint32_t position, char text[SLUICE_LIMIT_TEXT_MAX]) {
	if (position != SL_POSITION_NOTATION)
		return sl_str(sluice_policy_limit_name(context->policy, position));
	return sl_slice(text, sluice_limit_print(item->limit, text));
}

/* An attribute of the request, or the header that says the same; data NULL: neither. */
static struct sluice_bytes told_of(const struct sl_asker *asker, const char *attribute, const char *header) {
	for (size_t i = 0; i < asker->attribute_count; i++)
		if (sl_bytes_equal(asker->attributes[i].name, sl_str(attribute)))
			return asker->attributes[i].value;
	return asker->header != NULL && header != NULL ? asker->header(asker->data, header) : sl_slice(NULL, 0);
}

/* What the policy's limit counted the request by, else what the caller says of it. */
static struct sluice_bytes route_of(const struct sl_door_context *context, const struct sl_asker *asker,
                                    uint32_t position) {
	struct sluice_bytes route = {NULL, 0};
	if (position != SL_POSITION_NOTATION)
		route = sl_policy_route(context->policy, position, told_of(asker, "path", NULL));
	return route.data != NULL ? route : told_of(asker, "route", NULL);
}

static void log_denial(const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                       enum sl_top_kind kind, uint32_t position, struct sluice_bytes limit,
                       const struct sluice_item *item, const struct sluice_decision *decision, uint64_t suppressed) {
	static const char *const transports[SL_TRANSPORTS] = {"resp", "http"};
	const struct sl_log_settings *settings = &sl_policy_settings(context->policy)->log;
	const struct sl_asker *asker = &outcome->asker;
	char key[2 * SLUICE_KEY_BYTES_MAX], address[2 * SLUICE_KEY_BYTES_MAX], ip[SLUICE_KEY_BYTES_MAX],
		method[SLUICE_KEY_BYTES_MAX];
	/* the address itself, not the network that it counts as */
	struct sluice_bytes from = sl_attribute_form(SL_ATTRIBUTE_IP, told_of(asker, "ip", NULL), 128, ip);
	const struct sl_denial denial = {
		.now = context->now,
		.limit = limit,
		.key = sl_key_shown(settings, item->key, key),
		.cost = item->cost != 0 ? item->cost : outcome->call->cost,
		.quota = decision->quota,
		.remaining = decision->remaining,
		.retry_after_ms = sl_ns_to_ms_ceil(decision->retry_after_ns),
		.reset_after_ms = sl_ns_to_ms_ceil(decision->reset_after_ns),
		.method = sl_attribute_form(SL_ATTRIBUTE_METHOD, told_of(asker, "method", NULL), 128, method),
		.route = route_of(context, asker, position),
		.address = sl_key_shown(settings, from, address),
		.request_id = told_of(asker, "request-id", "x-request-id"),
		.traceparent = told_of(asker, "traceparent", "traceparent"),
		.observed = item->observed != 0,
		.candidate = kind == SL_TOP_CANDIDATE,
		.transport = transports[outcome->transport],
		.bound = decision->bound,
		.suppressed = suppressed,
	};
	sl_denials_write(context->shared->denials, &denial);
}

static __attribute__((noinline)) void note(const struct sl_door_context *context, const struct sl_call_outcome *outcome,
                                           enum sl_top_kind kind, uint32_t i, const struct sluice_decision *decision) {
	const struct sluice_item *item = &outcome->call->items[i];
	uint32_t position = position_of(outcome, kind == SL_TOP_CANDIDATE ? outcome->candidate_of[i - outcome->shown] : i);
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (context->top == NULL)
		return;
	struct sluice_bytes limit = name_of(context, item, position, text);
	struct sl_top_noted noted = sl_top_note(context->top, kind, position != SL_POSITION_NOTATION, limit, item->key,
	                                        context->now, sl_policy_settings(context->policy)->log.denials_per_key);
	if (kind != SL_TOP_NEAR && noted.write && context->shared != NULL && context->shared->denials != NULL)
		log_denial(context, outcome, kind, position, limit, item, decision, noted.suppressed);
}

/* ---- staggering -------------------------------------------------------------------------------------------------- */

/* Is the call's instant the server's own? It may have been cut to whole milliseconds. */
static bool is_own_instant(const struct sl_door_context *context, const struct sluice_call *call) {
	return call->now <= context->now && context->now - call->now < 1000000;
}

static bool is_staggered(const struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i) {
	uint32_t position = position_of(outcome, i);
	return position != SL_POSITION_NOTATION && !outcome->call->items[i].observed && !outcome->call->each[i].allowed &&
	       sl_policy_limit_at(context->policy, position)->stagger;
}

/* The longest wait of those that deny, and whose it is; the first of equals. */
static void merge_waits(const struct sl_call_outcome *outcome) {
	struct sluice_call *call = outcome->call;
	sluice_ns longest = 0;
	for (uint32_t i = 0; i < outcome->shown; i++) {
		const struct sluice_decision *one = &call->each[i];
		if (call->items[i].observed || one->allowed || one->retry_after_ns <= longest)
			continue;
		longest = one->retry_after_ns;
		call->merged.index = (int32_t)i;
		call->merged.quota = one->quota;
		call->merged.bound = one->bound;
		call->merged.next_after_ns = one->next_after_ns;
	}
	call->merged.retry_after_ns = longest;
}

static __attribute__((noinline)) void stagger(const struct sl_door_context *context,
                                              const struct sl_call_outcome *outcome) {
	struct sluice_call *call = outcome->call;
	bool any = false;
	if (context->shared == NULL || context->shared->stagger == NULL || !is_own_instant(context, call) ||
	    context->remote != NULL) /* tickets are spaced by peeking at a store that is at hand */
		return;
	for (uint32_t i = 0; i < outcome->shown; i++) {
		if (!is_staggered(context, outcome, i))
			continue;
		call->each[i].retry_after_ns = sl_stagger_next(context->shared->stagger, context->store, &call->items[i],
		                                               call->cost, call->now, call->each[i].retry_after_ns);
		any = true;
	}
	if (any)
		merge_waits(outcome);
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static void count_errors(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	uint32_t count = outcome->positions == NULL ? 1 : outcome->shown;
	for (uint32_t i = 0; i < count; i++) {
		struct sl_row *row = row_of(context, position_of(outcome, i));
		if (row != NULL)
			sl_count(&row->decisions[outcome->transport][SL_VERDICT_ERROR], 1);
	}
}

static inline bool is_near(const struct sl_door_context *context, const struct sluice_decision *decision) {
	return (uint64_t)decision->remaining * 100 <= decision->quota * sl_policy_settings(context->policy)->near_percent;
}

/* What the request is to this limit, or what of it was charged. */
static inline uint32_t hits_of(const struct sluice_call *call, uint32_t i, bool allowed) {
	if (call->repeated)
		return 0;
	if (call->upto && allowed)
		return call->granted;
	return call->items[i].cost != 0 ? call->items[i].cost : call->cost;
}

/* One limit's own answer. */
static inline void count_one(struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i,
                             const struct sluice_decision *decision) {
	const struct sluice_call *call = outcome->call;
	bool allowed = decision->allowed, near = allowed && is_near(context, decision),
		 observed = call->items[i].observed != 0;
	struct sl_row *row = row_of(context, position_of(outcome, i));
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
	if (context->stats == NULL || context->rows == NULL || position == SL_POSITION_NOTATION)
		return;
	int64_t number = sl_policy_route_find(context->policy, position, told_of(&outcome->asker, "path", NULL));
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

/* An observed limit that applies after so many as can be decided. */
static __attribute__((noinline)) void count_beyond(struct sl_door_context *context,
                                                   const struct sl_call_outcome *outcome) {
	struct sl_row *row = row_of(context, outcome->beyond - 1);
	if (row == NULL)
		return;
	sl_count(&row->decisions[outcome->transport][SL_VERDICT_SHADOW], 1);
	sl_count(&row->hits[0], outcome->call->cost);
	sl_count(&row->bounds[SLUICE_BOUND_LIMITS], 1);
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
		if (sl_policy_limit_at(context->policy, outcome->positions[i])->on_error == SL_ON_ERROR_DENY)
			return false;
		undecided->items |= (uint32_t)1 << i;
	}
	return undecided->items != 0;
}

/* Tells of a request that passes undecided, and of the first that is decided again. */
static __attribute__((noinline)) void tell_open(struct sl_door_context *context,
                                                const struct sl_call_outcome *outcome) {
	static const char away[] = "the store did not answer in time", busy[] = SL_HELD_UP_TEXT;
	const struct sluice_call *call = outcome->call;
	uint32_t items = outcome->undecided->items;
	for (uint32_t i = 0; i < outcome->shown; i++) {
		struct sl_row *row = (items >> i & 1) != 0 ? row_of(context, outcome->positions[i]) : NULL;
		if (row == NULL)
			continue;
		sl_count(&row->undecided, 1);
		if (context->shared != NULL && context->shared->stats != NULL && context->rows != NULL)
			sl_stats_undecided(context->shared->stats, context->rows[outcome->positions[i]], context->now);
	}
	if (context->shared != NULL && context->shared->failing != NULL)
		sl_failing_pass(context->shared->failing, context->now,
		                sluice_policy_limit_name(context->policy, outcome->positions[__builtin_ctz(items)]),
		                call->err == SLUICE_E_BUSY ? busy : away);
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
		count_one(context, outcome, (uint32_t)merged->index, merged);
}

static __attribute__((noinline)) void count_penalties(struct sl_door_context *context,
                                                      const struct sl_call_outcome *outcome) {
	for (uint32_t i = 0; i < outcome->shown; i++) {
		struct sl_row *row = (outcome->call->penalized >> i & 1) != 0 ? row_of(context, position_of(outcome, i)) : NULL;
		if (row != NULL)
			sl_count(&row->penalties, 1);
	}
}

static inline void settle_one(struct sl_door_context *context, const struct sl_call_outcome *outcome, uint32_t i) {
	const struct sluice_decision *decision = &outcome->call->each[i];
	count_one(context, outcome, i, decision);
	if (!decision->allowed && !outcome->call->items[i].observed)
		count_route(context, outcome, i);
}

static void settle_each(struct sl_door_context *context, const struct sl_call_outcome *outcome) {
	if (!outcome->call->merged.allowed)
		stagger(context, outcome);
	for (uint32_t i = 0; i < outcome->shown; i++)
		if (sl_rule_has(outcome->call->items[i].limit, SL_HAS_COUNTER))
			settle_one(context, outcome, i);
	count_candidates(context, outcome);
	if (outcome->call->penalized != 0)
		count_penalties(context, outcome);
	if (outcome->beyond != 0)
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
	if (call->cost == 0)
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
