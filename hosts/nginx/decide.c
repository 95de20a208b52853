/* Limits of a policy and limits of directives meet in one match, so that all rules of deciding, of costs and of bounds
 * are those of every other door. The policy's come first: of what the file says the order stays. */
#include "hosts/nginx/decide.h"

#include "algo/merge.h"
#include "base/assert.h"
#include "policy/attribute.h"
#include "policy/key.h"
#include "proto/json_put.h"
#include "proto/template.h"
#include "store/lock.h"

_Static_assert(SLUICE_ITEMS_MAX <= 32, "a bit for each item");

/* ---- the match --------------------------------------------------------------------------------------------------- */

static bool is_wrong(struct sl_nginx_answer *answer, struct sl_out *out) {
	*out->at = '\0';
	return answer->wrong[0] != '\0';
}

static bool match_policy(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	sluice_err err = sl_pattern_memo_match(&answer->memo, ask->policy, ask->attributes, ask->attribute_count,
	                                       sl_slice(NULL, 0), &answer->match, answer->match_bytes,
	                                       SLUICE_MATCH_BYTES_MAX);
	SL_ASSERT(err == SLUICE_OK || err == SLUICE_E_MISUSE); /* names are bounded by the configuration */
	if (err == SLUICE_OK)
		return true;
	size_t twice = sl_attribute_repeated(ask->attributes, ask->attribute_count);
	struct sl_out out = sl_out_to(answer->wrong, sizeof answer->wrong - 1);
	SL_ASSERT(twice < ask->attribute_count);
	sl_admission_put_repeated(&out, ask->attributes[twice].name);
	return !is_wrong(answer, &out);
}

static struct sluice_bytes key_of(struct sl_nginx_answer *answer, uint32_t i, struct sluice_bytes key) {
	return sl_key_fold(answer->folded.bytes[i], key);
}

/* Nothing may be added once a limit has met the bound of how many there may be: it stands in the last place. */
static bool is_full(const struct sluice_match *match) {
	return match->count == SLUICE_ITEMS_MAX && match->items[SLUICE_ITEMS_MAX - 1].bound == SLUICE_BOUND_LIMITS;
}

static void add_limits(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	struct sluice_match *match = &answer->match;
	for (uint32_t i = 0; i < ask->limit_count && !is_full(match); i++) {
		const struct sl_nginx_limit *one = &ask->limits[i];
		const struct sluice_item item = {
			.limit = one->limit, .key = key_of(answer, i, one->key), .member = one->member};
		/* at the end or, beyond the bound, in the last place */
		(void)sl_match_add(match, &item, SL_POSITION_NOTATION);
		answer->of[match->count - 1] = one;
	}
}

static bool match_all(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	answer->match.count = answer->match.beyond = 0;
	if (ask->policy != NULL && !match_policy(answer, ask))
		return false;
	memset(answer->of, 0, sizeof answer->of);
	add_limits(answer, ask);
	return true;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* What limits of directives cost, where that is not what the policy's do. */
static void take_costs(struct sl_nginx_answer *answer) {
	struct sluice_call *call = &answer->call;
	uint32_t costs[SLUICE_ITEMS_MAX];
	bool own = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sl_nginx_limit *one = answer->of[i];
		costs[i] = one != NULL ? one->cost : call->items[i].cost != 0 ? call->items[i].cost : call->cost;
		own = own || (one != NULL && one->cost != call->cost);
	}
	if (own)
		sl_admission_share_costs(call, answer->match.items, costs, call->item_count);
}

/* The id under which a request is charged once, by the header that the policy names. */
static bool take_retry_id(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask, struct sluice_bytes *id) {
	const char *name = ask->policy == NULL ? NULL : sl_policy_settings(ask->policy)->retry_header;
	struct sluice_bytes said = {NULL, 0};
	if (name == NULL)
		return true;
	if (!ask->header(ask->data, name, &said)) {
		struct sl_out out = sl_out_to(answer->wrong, sizeof answer->wrong - 1);
		sl_admission_put_repeated(&out, sl_str(name));
		return !is_wrong(answer, &out);
	}
	if (said.len == 0)
		return true;
	size_t room = said.len + 3;
	for (uint32_t i = 0; i < ask->attribute_count; i++)
		room += ask->attributes[i].value.len;
	size_t used = sl_admission_match_end(&answer->match, answer->match_bytes, 0);
	if (room > SLUICE_MATCH_BYTES_MAX - used)
		return true;
	struct sl_out scratch = sl_out_to(answer->match_bytes + used, SLUICE_MATCH_BYTES_MAX - used);
	*id = sl_admission_retry_id(ask->attributes, ask->attribute_count, said, &scratch, answer->retry_id);
	return true;
}

static bool prepare(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	struct sl_admission admission = {.header = ask->header, .data = ask->data};
	struct sluice_call *call = &answer->call;
	call->items = answer->match.items;
	call->item_count = answer->match.count;
	call->cost = 1;
	call->want_next = true;
	call->ttl_ns = 0;
	call->each = answer->each;
	if (!take_retry_id(answer, ask, &admission.id))
		return false;
	if (!sl_admission_prepare(&admission, ask->policy, &answer->match, NULL, answer->match.items, call)) {
		struct sl_out out = sl_out_to(answer->wrong, sizeof answer->wrong - 1);
		sl_admission_put_no_cost(&out, admission.wrong);
		return !is_wrong(answer, &out);
	}
	if (call->id.data == admission.made) {
		memcpy(answer->made, admission.made, sizeof answer->made);
		call->id.data = answer->made;
	}
	take_costs(answer);
	return true;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void name_limits(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	const struct sluice_call *call = &answer->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		struct sluice_bytes name = answer->of[i] != NULL
		                               ? answer->of[i]->name
		                               : sl_str(sluice_policy_limit_name(ask->policy, answer->match.position[i]));
		answer->limits[i] = (struct sl_headers_limit){name, item->limit, &answer->each[i], item->observed != 0};
	}
}

/* What is told of them once they are decided: by keys' own quotas, where they have any. */
static void take_own(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	const struct sluice_call *call = &answer->call;
	for (uint32_t i = 0; i < call->item_count; i++)
		answer->limits[i].limit =
			sl_admission_limit(ask->store, &call->items[i], &answer->each[i], call->now, &answer->own[i]);
}

/* The store can't answer: what the policy's limits say to that, and the directives'. */
static enum sl_nginx_end fall_back(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	struct sluice_decision *merged = &answer->call.merged;
	answer->deniers = 0;
	for (uint32_t i = 0; i < answer->match.count; i++) {
		bool denies = answer->of[i] != NULL
		                  ? ask->denies_on_error
		                  : sl_policy_on_error(ask->policy, &answer->match, i) == SL_ON_ERROR_DENY;
		answer->deniers |= (uint32_t)denies << i;
	}
	*merged = answer->deniers != 0 ? sl_admission_unable(&answer->match, (uint32_t)__builtin_ctz(answer->deniers))
	                               : sl_merge_nothing();
	return merged->allowed ? SL_NGINX_UNDECIDED : SL_NGINX_UNABLE;
}

static void decide(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	struct sluice_call *call = &answer->call;
	answer->err = SLUICE_E_AWAY;
	if (ask->store == NULL)
		return;
	call->now = sl_admission_instant(sluice_store_now(ask->store), call->items, call->item_count);
	answer->err = sluice_decide(ask->store, call);
	if (answer->err == SLUICE_OK && !call->merged.allowed && answer->stagger != NULL && ask->policy != NULL)
		sl_stagger_call(answer->stagger, ask->store, ask->policy, answer->match.position, call->item_count, call);
	if (answer->err == SLUICE_OK)
		take_own(answer, ask);
}

/* A denial has the body of the limit that decided, where the policy names one. An id of the request that is given
 * twice, or longer than ids are, is none. */
static void choose_body(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	uint32_t decider = (uint32_t)answer->call.merged.index;
	answer->denied = NULL;
	answer->request_id = sl_slice(NULL, 0);
	if (answer->of[decider] != NULL)
		return;
	answer->denied = sl_policy_denied_by(ask->policy, answer->match.position[decider]);
	if (answer->denied != NULL && (!ask->header(ask->data, "x-request-id", &answer->request_id) ||
	                               answer->request_id.len > SL_TEMPLATE_TEXT_MAX))
		answer->request_id = sl_slice(NULL, 0);
}

enum sl_nginx_end sl_nginx_decide(struct sl_nginx_answer *answer, const struct sl_nginx_ask *ask) {
	answer->wrong[0] = '\0';
	if (!match_all(answer, ask))
		return SL_NGINX_WRONG;
	answer->err = SLUICE_OK;
	if (answer->match.count == 0) {
		answer->call.item_count = 0;
		answer->call.merged = sl_merge_nothing();
		return SL_NGINX_PASSED;
	}
	if (!prepare(answer, ask))
		return SL_NGINX_WRONG;
	name_limits(answer, ask);
	decide(answer, ask);
	if (answer->err == SLUICE_OK && answer->call.merged.allowed)
		return SL_NGINX_PASSED;
	if (answer->err == SLUICE_OK) {
		choose_body(answer, ask);
		return SL_NGINX_DENIED;
	}
	if (sl_is_held_up(answer->err) && !ask->last && !ask->hurried)
		return SL_NGINX_HELD_UP;
	if (sl_is_held_up(answer->err) && ask->last) /* others are not to wait for it until it has moved */
		sl_stall_give_up(ask->store, answer->err);
	return fall_back(answer, ask);
}

/* ---- what a client is told --------------------------------------------------------------------------------------- */

size_t sl_nginx_headers_room(const struct sl_nginx_answer *answer) {
	size_t room = SL_HEADERS_ROOM_FIXED;
	for (uint32_t i = 0; i < answer->call.item_count; i++)
		room += SL_HEADERS_ROOM_PER_LIMIT + 4 * answer->limits[i].name.len;
	return room;
}

void sl_nginx_put_headers(struct sl_out *out, const struct sl_nginx_answer *answer, uint32_t forms) {
	const struct sluice_decision *merged = &answer->call.merged;
	const struct sl_headers_decision decision = {
		.limits = answer->limits,
		.count = answer->call.item_count,
		.decided = merged->index,
		.allowed = merged->allowed,
		.now = answer->call.now,
	};
	if (!merged->allowed)
		sl_headers_retry_after(out, merged->retry_after_ns);
	if (answer->err == SLUICE_OK)
		sl_headers_rate_limit(out, forms, &decision);
	else if (merged->allowed && (forms & SL_FORM_FAILED_OPEN) != 0)
		sl_out_str(out, SL_HEADERS_FAILED_OPEN);
}

static bool has_own_body(const struct sl_nginx_answer *answer, enum sl_nginx_end end) {
	return end == SL_NGINX_DENIED && answer->denied != NULL;
}

const char *sl_nginx_body_media(const struct sl_nginx_answer *answer, enum sl_nginx_end end) {
	return has_own_body(answer, end) ? sl_template_media((enum sl_denied_type)answer->denied->type) : sl_problem_media;
}

static void put_own_body(struct sl_out *out, const struct sl_nginx_answer *answer) {
	const struct sluice_decision *merged = &answer->call.merged;
	sl_template_put_denial(out, answer->denied, &answer->limits[merged->index], merged->retry_after_ns,
	                       answer->request_id);
}

size_t sl_nginx_body_room(const struct sl_nginx_answer *answer, enum sl_nginx_end end) {
	if (has_own_body(answer, end))
		return SL_TEMPLATE_ROOM(answer->denied->body.len);
	size_t room = SL_PROBLEM_ROOM;
	for (uint32_t i = 0; i < answer->call.item_count; i++)
		room += SL_JSON_ROOM(answer->limits[i].name.len) + 1;
	return room;
}

static void put_unable(struct sl_out *out, const struct sl_nginx_answer *answer, unsigned status) {
	struct sluice_bytes names[SLUICE_ITEMS_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < answer->call.item_count; i++)
		if ((answer->deniers >> i & 1) != 0)
			names[count++] = answer->limits[i].name;
	sl_problem_put_unable(out, status, answer->err != SLUICE_E_AWAY, names, count);
}

struct sluice_bytes sl_nginx_delaying(const struct sl_nginx_answer *answer) {
	const struct sluice_decision *each = answer->each;
	uint32_t i = 0, count = answer->call.item_count;
	while (i < count && (answer->limits[i].observed || each[i].delay_ns != answer->call.merged.delay_ns))
		i++;
	SL_ASSERT(i < count); /* the merged delay is one of theirs */
	return answer->limits[i].name;
}

void sl_nginx_put_detail(struct sl_out *out, const struct sl_nginx_answer *answer) {
	sl_problem_detail(out, &(struct sl_problem_denial){&answer->call, answer->limits, answer->call.item_count});
}

void sl_nginx_put_body(struct sl_out *out, const struct sl_nginx_answer *answer, enum sl_nginx_end end,
                       unsigned status) {
	const struct sl_problem_denial denial = {&answer->call, answer->limits, answer->call.item_count};
	if (end == SL_NGINX_UNABLE) {
		put_unable(out, answer, status);
		return;
	}
	if (has_own_body(answer, end)) {
		put_own_body(out, answer);
		return;
	}
	if (end == SL_NGINX_WRONG)
		sl_problem_members(out, status, NULL, NULL, sl_str(answer->wrong));
	else
		sl_problem_put_denial(out, status, &denial);
	sl_out_char(out, '}');
}
