/* What a body or a query asks, read strictly: a wrong type, a missing member, an unknown one ("limit" for "limits"), a
 * number out of range is refused with its name and what would be right. A limiter that guesses what was meant limits
 * the wrong thing, silently.
 *
 *   c check  f refund  s reset  m admit  a acquire  l release  n renew  h holders  v reserve  t commit
 *
 *   member       taken by    what it must be
 *   key          all but m   a string, 0..1024 bytes; may be absent where every limit has its own, or id is a ticket
 *   limits       all but mt  1..16, of h one: ask_limits.c
 *   attributes   m           {name: string}, at most 64
 *   cost         cfmav       a whole number 0..4294967295, default 1
 *   actual       t           the same, not to be left out
 *   ttl_ms       v           1..316224000000: 3660 d; not to be left out
 *   peek         cfm         true or false; of f false
 *   upto         cm          true or false
 *   id           cmalnvt     a string, 1..64 bytes; of l, n and t not to be left out, and may be a ticket; of t must be
 *   member       cfma        a string, 0..1024 bytes: who is counted by distinct
 *   at           all but s   Unix ms, where the operator allows it */
#include "hosts/server/http/ask.h"

static const int64_t ttl_ms_max = (int64_t)3660 * 24 * 3600 * 1000;

/* ---- single members ------------------------------------------------------------------------------------------ */

static bool take_number(struct sl_http_ask *ask, const char *where, const json_t *value) {
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT32_MAX)
		return sl_ask_fail_type(ask, where, "a whole number 0..4294967295", value);
	ask->cost = (uint32_t)json_integer_value(value);
	return true;
}

static bool take_cost(struct sl_http_ask *ask, const json_t *value) {
	ask->cost_said = value != NULL;
	return value == NULL || take_number(ask, "cost", value);
}

static bool take_actual(struct sl_http_ask *ask, const json_t *value) {
	if (value == NULL)
		return sl_ask_fail(ask, "actual is missing: expected what it cost in the end, a whole number 0..4294967295");
	return take_number(ask, "actual", value);
}

static bool take_ttl(struct sl_http_ask *ask, const json_t *value) {
	if (value == NULL)
		return sl_ask_fail(ask, "ttl_ms is missing: expected after how many milliseconds it goes back uncommitted");
	if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > ttl_ms_max)
		return sl_ask_fail_type(ask, "ttl_ms", "a whole number of milliseconds, 1..316224000000", value);
	ask->ttl_ns = (sluice_ns)json_integer_value(value) * 1000000;
	return true;
}

static bool take_peek(struct sl_http_ask *ask, const json_t *value, enum sl_http_ask_kind kind) {
	ask->peek = value != NULL && json_is_true(value);
	if (value != NULL && !json_is_boolean(value))
		return sl_ask_fail_type(ask, "peek", "true or false", value);
	if (ask->peek && kind == SL_HTTP_ASK_REFUND)
		return sl_ask_fail(ask, "peek must be false or absent: a refund cannot be a peek");
	return true;
}

static bool take_at(struct sl_http_ask *ask, const json_t *value, const struct sl_door_context *context) {
	ask->now = context->now;
	if (value == NULL)
		return true;
	if (!sl_policy_settings(context->policy)->client_time)
		return sl_ask_fail(ask,
		                   "at is not allowed here: the operator would have to write client-time: true in the policy");
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > (int64_t)SL_AT_MS_MAX)
		return sl_ask_fail_type(ask, "at", "Unix milliseconds, a whole number 0..9223372036854", value);
	ask->now = (sluice_ns)json_integer_value(value) * 1000000;
	return true;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static bool add_attribute(struct sl_http_ask *ask, struct sluice_bytes name, struct sluice_bytes value) {
	struct sl_out out = sl_ask_error(ask);
	if (ask->attribute_count == SL_HTTP_ATTRIBUTES_MAX)
		return sl_ask_fail(ask, "at most 64 attributes are taken");
	sl_out_str(&out, "attribute ");
	sl_out_quoted(&out, name, 64);
	if (name.len < 1 || name.len > SLUICE_NAME_BYTES_MAX) {
		sl_out_str(&out, ": a name must have 1 to 64 bytes, found ");
		sl_out_u64(&out, name.len);
		return sl_ask_done(&out);
	}
	ask->attributes[ask->attribute_count++] = (struct sluice_attribute){name, value};
	return true;
}

static bool take_attributes(struct sl_http_ask *ask, json_t *value) {
	const char *name;
	json_t *text;
	if (value == NULL)
		return sl_ask_fail(ask, "attributes is missing: expected an object such as {\"user\":\"alice\"}");
	if (!json_is_object(value))
		return sl_ask_fail_type(ask, "attributes", "an object such as {\"user\":\"alice\"}", value);
	json_object_foreach(value, name, text) {
		if (!json_is_string(text)) {
			struct sl_out out = sl_ask_error(ask);
			sl_out_str(&out, "attribute ");
			sl_out_quoted(&out, sl_str(name), 64);
			sl_out_str(&out, " must be a string, found ");
			sl_out_str(&out, sl_ask_kind(text));
			return sl_ask_done(&out);
		}
		if (!add_attribute(ask, sl_str(name), sl_json_bytes(text)))
			return false;
	}
	return true;
}

/* ---- ids and tickets ----------------------------------------------------------------------------------------- */

static bool take_upto(struct sl_http_ask *ask, const json_t *value) {
	ask->upto = value != NULL && json_is_true(value);
	return value == NULL || json_is_boolean(value) || sl_ask_fail_type(ask, "upto", "true or false", value);
}

/* Is a lease or a reservation ended by the id: must there be one? */
static bool needs_id(enum sl_http_ask_kind kind) {
	return kind == SL_HTTP_ASK_RELEASE || kind == SL_HTTP_ASK_RENEW || kind == SL_HTTP_ASK_COMMIT;
}

static bool take_own_id(struct sl_http_ask *ask, enum sl_http_ask_kind kind) {
	struct sl_out out = sl_ask_error(ask);
	if (kind == SL_HTTP_ASK_COMMIT)
		return sl_ask_fail(ask,
		                   "id must be a ticket, as /v1/reserve and /v1/admit give them: 16 hex digits, a dot, and "
		                   "what it is of");
	if (ask->id.len >= 1 && ask->id.len <= SLUICE_ID_BYTES_MAX)
		return true;
	sl_out_str(&out, "id must have 1 to 64 bytes, found ");
	sl_out_u64(&out, ask->id.len);
	return sl_ask_done(&out);
}

uint32_t sl_http_position(const struct sluice_policy *policy, struct sluice_bytes name) {
	int64_t position = name.len == 0 ? -1 : sl_policy_limit_find(policy, name);
	return position < 0 ? SL_RULING_NOTATION : (uint32_t)position;
}

/* Takes of a ticket what this kind of request is about: leases, or reservations. */
static bool take_held(struct sl_http_ask *ask, const struct sl_ticket *ticket, enum sl_http_ask_kind kind,
                      const struct sluice_policy *policy) {
	for (uint32_t i = 0; i < ticket->count; i++) {
		bool lease = ticket->items[i].limit->algorithm == SLUICE_CONCURRENCY;
		if (lease == (kind == SL_HTTP_ASK_COMMIT))
			continue;
		ask->positions[ask->item_count] = sl_http_position(policy, ticket->names[i]);
		ask->names = ask->names || ask->positions[ask->item_count] != SL_RULING_NOTATION;
		ask->items[ask->item_count++] = ticket->items[i];
	}
	return ask->item_count != 0 ||
	       sl_ask_fail(ask, kind == SL_HTTP_ASK_COMMIT ? "id is a ticket without reservations: POST /v1/release"
	                                                   : "id is a ticket without leases: POST /v1/commit");
}

static bool take_ticket(struct sl_http_ask *ask, const struct sl_http_turn *turn, const struct sl_ask_members *members,
                        enum sl_http_ask_kind kind) {
	struct sl_ticket *ticket = &ask->ticket->ticket;
	struct sluice_bytes key = {"", 0};
	const json_t *own = sl_ask_member(members, SL_ASK_KEY);
	if (sl_ask_member(members, SL_ASK_LIMITS) != NULL)
		return sl_ask_fail(ask, "limits must be absent: id is a ticket, which says what it is of");
	if (own != NULL && !sl_ask_key(ask, "key", own, &key))
		return false;
	if (!sl_ticket_read(ticket, ask->id, key, ask->ticket->memory))
		return sl_ask_fail(ask, "id looks like a ticket and is none: give it as it was answered, to the byte");
	ask->id = ticket->id;
	return take_held(ask, ticket, kind, turn->context->policy);
}

static bool take_id(struct sl_http_ask *ask, const struct sl_http_turn *turn, const struct sl_ask_members *members,
                    enum sl_http_ask_kind kind) {
	const json_t *value = sl_ask_member(members, SL_ASK_ID);
	if (value == NULL)
		return !needs_id(kind) || sl_ask_fail(ask, "id is missing: expected what was answered as \"id\"");
	if (!json_is_string(value))
		return sl_ask_fail_type(ask, "id", "a string", value);
	if (ask->peek)
		return sl_ask_fail(ask, "id must be absent with peek: a peek charges nothing that could be charged twice");
	ask->id = sl_json_bytes(value);
	if (needs_id(kind) && sl_ticket_is(ask->id))
		return take_ticket(ask, turn, members, kind);
	return take_own_id(ask, kind);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

void sl_http_ask_begin(struct sl_http_ask *ask, const struct sl_http_turn *turn) {
	ask->root = NULL;
	ask->item_count = ask->attribute_count = 0;
	ask->error[0] = '\0';
	ask->cost = 1;
	ask->cost_said = ask->peek = ask->names = ask->upto = false;
	ask->now = turn->context->now;
	ask->id = ask->member = sl_slice(NULL, 0);
	ask->ttl_ns = 0;
	ask->ticket = NULL;
}

static const unsigned taken[] = {
	[SL_HTTP_ASK_CHECK] =
		SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_COST | SL_ASK_PEEK | SL_ASK_AT | SL_ASK_UPTO | SL_ASK_ID | SL_ASK_MEMBER,
	[SL_HTTP_ASK_REFUND] = SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_COST | SL_ASK_PEEK | SL_ASK_AT | SL_ASK_MEMBER,
	[SL_HTTP_ASK_RESET] = SL_ASK_KEY | SL_ASK_LIMITS,
	[SL_HTTP_ASK_ADMIT] =
		SL_ASK_ATTRIBUTES | SL_ASK_COST | SL_ASK_PEEK | SL_ASK_AT | SL_ASK_UPTO | SL_ASK_ID | SL_ASK_MEMBER,
	[SL_HTTP_ASK_ACQUIRE] = SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_COST | SL_ASK_AT | SL_ASK_ID | SL_ASK_MEMBER,
	[SL_HTTP_ASK_RELEASE] = SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_AT | SL_ASK_ID,
	[SL_HTTP_ASK_RENEW] = SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_AT | SL_ASK_ID,
	[SL_HTTP_ASK_HOLDERS] = SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_AT,
	[SL_HTTP_ASK_RESERVE] = SL_ASK_KEY | SL_ASK_LIMITS | SL_ASK_COST | SL_ASK_AT | SL_ASK_ID | SL_ASK_TTL,
	[SL_HTTP_ASK_COMMIT] = SL_ASK_KEY | SL_ASK_ACTUAL | SL_ASK_AT | SL_ASK_ID,
};

/* What all kinds may have but limits and attributes. */
static bool take_values(struct sl_http_ask *ask, const struct sl_http_turn *turn, enum sl_http_ask_kind kind,
                        const struct sl_ask_members *members) {
	const json_t *member = sl_ask_member(members, SL_ASK_MEMBER);
	return take_cost(ask, sl_ask_member(members, SL_ASK_COST)) &&
	       take_peek(ask, sl_ask_member(members, SL_ASK_PEEK), kind) &&
	       take_upto(ask, sl_ask_member(members, SL_ASK_UPTO)) &&
	       take_at(ask, sl_ask_member(members, SL_ASK_AT), turn->context) &&
	       (member == NULL || sl_ask_key(ask, "member", member, &ask->member)) && take_id(ask, turn, members, kind) &&
	       (kind != SL_HTTP_ASK_RESERVE || take_ttl(ask, sl_ask_member(members, SL_ASK_TTL))) &&
	       (kind != SL_HTTP_ASK_COMMIT || take_actual(ask, sl_ask_member(members, SL_ASK_ACTUAL)));
}

bool sl_http_ask_body(struct sl_http_ask *ask, const struct sl_http_turn *turn, enum sl_http_ask_kind kind,
                      struct sl_http_ticket *ticket) {
	struct sl_ask_members members;
	sl_http_ask_begin(ask, turn);
	ask->ticket = ticket;
	ask->root = sl_json_read(turn->request->body, ask->error);
	if (ask->root == NULL || !sl_ask_sort(ask, "", ask->root, taken[kind], &members) ||
	    !take_values(ask, turn, kind, &members))
		return false;
	if (kind == SL_HTTP_ASK_ADMIT)
		return take_attributes(ask, sl_ask_member(&members, SL_ASK_ATTRIBUTES));
	return ask->item_count != 0 ||
	       sl_ask_limits(ask, &members, kind, turn->context->policy, turn->context->match_buffer);
}

bool sl_http_ask_query(struct sl_http_ask *ask, const struct sl_http_turn *turn, char *memory) {
	struct sluice_bytes rest = turn->request->query, name, value;
	sl_http_ask_begin(ask, turn);
	ask->peek = true;
	while (sl_http_query_next(&rest, &name, &value)) {
		ptrdiff_t name_bytes = sl_http_decode(name, true, memory);
		ptrdiff_t value_bytes = name_bytes < 0 ? -1 : sl_http_decode(value, true, memory + name_bytes);
		if (value_bytes < 0)
			return sl_ask_fail(ask, "a % in the query must be followed by two hex digits: write % itself as %25");
		if (!add_attribute(ask, sl_slice(memory, (size_t)name_bytes),
		                   sl_slice(memory + name_bytes, (size_t)value_bytes)))
			return false;
		memory += name_bytes + value_bytes;
	}
	return true;
}

void sl_http_ask_free(struct sl_http_ask *ask) {
	sl_json_free(ask->root);
	ask->root = NULL;
}
