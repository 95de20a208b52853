/* The limits of a body, with the keys and members that they count for.
 *
 *   element     "100/1m", "policy:NAME", or {"key"?,"limit","member"?}
 *
 * Some limits are asked for at routes of their own: whoever asks for them elsewhere is told where, as SLUICE.CHECK
 * names the command (docs/design/012-leases.md).
 *
 *   concurrency   acquire (at least one of the limits), release, renew, holders; reset; a peek
 *   distinct      not in reserve; check, refund and acquire say who is counted; a peek without a member is a
 *                 stranger's */
#include "algo/traits.h"
#include "base/assert.h"
#include "hosts/server/http/ask.h"
#include "policy/nearest.h"

#include <stdio.h>

enum { WHERE_BYTES = 24 };

static const char *where_limit(char where[WHERE_BYTES], size_t i, const char *after) {
	struct sl_out out = sl_out_to(where, WHERE_BYTES - 1);
	sl_out_str(&out, "limits[");
	sl_out_u64(&out, i);
	sl_out_str(&out, "]");
	sl_out_str(&out, after);
	*out.at = '\0';
	return where;
}

/* The index-th limit of a policy: a table for sl_nearest(). */
static const char *limit_name(const void *policy, size_t index) {
	return index < UINT32_MAX ? sluice_policy_limit_name(policy, (uint32_t)index) : NULL;
}

static bool fail_unnamed(struct sl_http_ask *ask, size_t i, struct sluice_bytes text,
                         const struct sluice_policy *policy) {
	const size_t prefix = strlen("policy:");
	char where[WHERE_BYTES];
	struct sluice_bytes name = sl_slice((const char *)text.data + prefix, text.len - prefix);
	struct sl_out out = sl_ask_error(ask);
	const char *near = sl_nearest(name, limit_name, policy);
	sl_out_str(&out, where_limit(where, i, ""));
	sl_out_str(&out, ": the policy has no limit named ");
	sl_out_quoted(&out, name, 64);
	if (near != NULL) {
		sl_out_str(&out, ": did you mean policy:");
		sl_out_str(&out, near);
	} else {
		sl_out_str(&out, ": GET /v1/limits lists them");
	}
	return sl_ask_done(&out);
}

static bool take_notation(struct sl_http_ask *ask, size_t i, const json_t *value, const struct sluice_policy *policy) {
	char where[WHERE_BYTES];
	struct sluice_error error;
	const struct sluice_limit *named;
	if (!json_is_string(value))
		return sl_ask_fail_type(ask, where_limit(where, i, ""), "a limit such as \"100/1m\", or {\"key\",\"limit\"}",
		                        value);
	int found = sl_policy_limit_named(policy, sl_json_bytes(value), &named);
	if (found < 0)
		return fail_unnamed(ask, i, sl_json_bytes(value), policy);
	if (found > 0) {
		struct sluice_bytes text = sl_json_bytes(value);
		ask->limits[i] = *named;
		text = sl_slice((const char *)text.data + 7, text.len - 7);
		ask->positions[i] = (uint32_t)sl_policy_limit_find(policy, text);
		ask->names = true;
		if (sl_policy_limit_at(policy, ask->positions[i])->has_terms)
			ask->items[i].terms = &sl_policy_limit_at(policy, ask->positions[i])->terms;
		return true;
	}
	ask->positions[i] = SL_POSITION_NOTATION;
	if (sluice_limit_parse(&ask->limits[i], sl_json_bytes(value), &error) == SLUICE_OK)
		return true;
	struct sl_out out = sl_ask_error(ask);
	sl_out_str(&out, where_limit(where, i, ""));
	sl_out_str(&out, ", column ");
	sl_out_u64(&out, error.column);
	sl_out_str(&out, ": ");
	sl_out_bytes(&out, error.text, strnlen(error.text, sizeof error.text));
	return sl_ask_done(&out);
}

/* ---- who is counted ------------------------------------------------------------------------------------------ */

/* What an element does not say is said for all. */
struct shared {
	char *forms; /* memory for keys that must be written anew, SLUICE_KEY_BYTES_MAX for each limit */
	json_t *key;
	struct sluice_bytes member; /* data NULL: none */
	bool members;               /* does this kind of request know any? */
	const struct sluice_policy *policy;
};

/* An object with a key or a member of its own. */
static bool take_object(struct sl_http_ask *ask, size_t i, json_t *object, struct shared *shared, json_t **limit) {
	char where[WHERE_BYTES];
	struct sl_ask_members members;
	struct sluice_bytes ignored;
	unsigned allowed = SL_ASK_KEY | SL_ASK_LIMIT | (shared->members ? SL_ASK_MEMBER : 0);
	if (!sl_ask_sort(ask, where_limit(where, i, ": "), object, allowed, &members))
		return false;
	json_t *key = sl_ask_member(&members, SL_ASK_KEY), *member = sl_ask_member(&members, SL_ASK_MEMBER);
	*limit = sl_ask_member(&members, SL_ASK_LIMIT);
	if (key != NULL) {
		shared->key = key;
		if (!sl_ask_key(ask, where_limit(where, i, ".key"), key, &ignored))
			return false;
	}
	if (member != NULL && !sl_ask_key(ask, where_limit(where, i, ".member"), member, &shared->member))
		return false;
	return *limit != NULL ||
	       sl_ask_fail(ask, "an object in limits must have the member limit: {\"key\":\"a\",\"limit\":\"10/1s\"}");
}

static bool fail_member(struct sl_http_ask *ask, size_t i) {
	char where[WHERE_BYTES];
	struct sl_out out = sl_ask_error(ask);
	sl_out_str(&out, where_limit(where, i, ""));
	sl_out_str(&out, ": only distinct counts members: leave member out");
	return sl_ask_done(&out);
}

/* One element: a notation, which counts for the body's key and member, or an object. */
static bool take_limit(struct sl_http_ask *ask, size_t i, json_t *value, const struct shared *all) {
	struct sluice_item *item = &ask->items[i];
	struct shared own = *all;
	bool object = json_is_object(value);
	if (object && !take_object(ask, i, value, &own, &value))
		return false;
	if (own.key == NULL)
		return sl_ask_fail(ask, "key is missing: expected a string such as \"user:1\"");
	*item = (struct sluice_item){.limit = &ask->limits[i], .key = sl_json_bytes(own.key)};
	if (!take_notation(ask, i, value, all->policy))
		return false;
	if (ask->positions[i] != SL_POSITION_NOTATION)
		item->key = sl_policy_key(all->policy, item->key, all->forms + i * SLUICE_KEY_BYTES_MAX);
	if (sl_rule_has(&ask->limits[i], SL_TAKES_MEMBER))
		item->member = own.member;
	else if (object && own.member.data != all->member.data)
		return fail_member(ask, i);
	return true;
}

/* ---- at which route ------------------------------------------------------------------------------------------ */

static bool fail_misfit(struct sl_http_ask *ask, const struct sl_misfit *misfit, enum sl_operation operation,
                        int index) {
	char where[WHERE_BYTES], name[16], text[SL_HTTP_ERROR_BYTES / 2];
	struct sl_out out = sl_ask_error(ask), lower = sl_out_to(name, sizeof name - 1);
	for (const char *p = sl_forms[operation].name; *p != '\0'; p++)
		sl_out_char(&lower, (char)(*p | 0x20));
	*lower.at = '\0';
	SL_ASSERT(index >= 0 || !misfit->of_algorithm);
	(void)snprintf(text, sizeof text, misfit->http,
	               misfit->of_algorithm ? sl_algorithm_word(ask->limits[index].algorithm) : name);
	if (index >= 0)
		sl_out_str(&out, where_limit(where, (size_t)index, ": "));
	sl_out_str(&out, text);
	return sl_ask_done(&out);
}

/* May this operation be asked of these limits? */
static bool may_ask(struct sl_http_ask *ask, enum sl_operation operation) {
	struct sluice_call call = ask->call;
	bool members = false;
	int index;
	call.items = ask->items;
	const struct sl_misfit *misfit = sl_command_misfit(ask->peek ? SL_OP_PEEK : operation, &call, &index);
	if (misfit != NULL)
		return fail_misfit(ask, misfit, operation, index);
	for (uint32_t i = 0; i < call.item_count; i++)
		members = members || sl_rule_has(call.items[i].limit, SL_TAKES_MEMBER);
	return members || ask->member.data == NULL ||
	       sl_ask_fail(ask, "member must be absent: none of the limits is distinct, which alone counts members");
}

static bool fail_count(struct sl_http_ask *ask, size_t max, size_t count) {
	struct sl_out out = sl_ask_error(ask);
	sl_out_str(&out, max == 1 ? "limits must hold one limit, found " : "limits must hold 1 to 16 limits, found ");
	sl_out_u64(&out, count);
	return sl_ask_done(&out);
}

bool sl_ask_limits(struct sl_http_ask *ask, const struct sl_ask_members *members, enum sl_operation operation,
                   const struct sluice_policy *policy, char *forms) {
	const json_t *value = sl_ask_member(members, SL_ASK_LIMITS);
	const struct shared all = {
		.forms = forms,
		.key = sl_ask_member(members, SL_ASK_KEY),
		.member = ask->member,
		.members = (sl_forms[operation].words & SL_SAYS(MEMBER)) != 0,
		.policy = policy,
	};
	struct sluice_bytes ignored;
	size_t count = json_array_size(value), max = operation == SL_OP_HOLDERS ? 1 : SLUICE_ITEMS_MAX;
	if (all.key != NULL && !sl_ask_key(ask, "key", all.key, &ignored))
		return false;
	if (value == NULL)
		return sl_ask_fail(ask, "limits is missing: expected an array such as [\"100/1m\"]");
	if (!json_is_array(value))
		return sl_ask_fail_type(ask, "limits", "an array such as [\"100/1m\"]", value);
	if (count < 1 || count > max)
		return fail_count(ask, max, count);
	for (size_t i = 0; i < count; i++)
		if (!take_limit(ask, i, json_array_get(value, i), &all))
			return false;
	ask->call.item_count = (uint32_t)count;
	return may_ask(ask, operation);
}
