/* What a body or a query asks, read strictly: a wrong type, a missing member, an unknown one ("limit" for "limits"), a
 * number out of range is refused with its name and what would be right. A limiter that guesses what was meant limits
 * the wrong thing, silently.
 *
 * Which members a body has, and their ranges, are those of the words and fields of its command (proto/command.h); all
 * may have `at`, all but admit `key`. JSON's own are `limits`, `attributes` and `peek`; `cost` may be left out. */
#include "hosts/server/http/ask.h"
#include "hosts/server/http/worker.h"

#include "algo/traits.h"
#include "hosts/admission/ending.h"

/* ---- single members ------------------------------------------------------------------------------------------ */

static bool take_cost(struct sl_http_ask *ask, const json_t *value) {
	uint64_t number = 1;
	ask->cost_said = value != NULL;
	if (value != NULL && !sl_ask_number(ask, &sl_fields[SL_FIELD_COST], value, &number))
		return false;
	ask->call.cost = (uint32_t)number;
	return true;
}

static bool take_actual(struct sl_http_ask *ask, const json_t *value) {
	uint64_t number;
	if (value == NULL)
		return sl_ask_fail(ask, "actual is missing: expected the true cost, a whole number 0..4294967295");
	if (!sl_ask_number(ask, &sl_fields[SL_FIELD_ACTUAL], value, &number))
		return false;
	ask->call.cost = (uint32_t)number;
	return true;
}

static bool take_ttl(struct sl_http_ask *ask, const json_t *value) {
	uint64_t ms;
	if (value == NULL)
		return sl_ask_fail(ask, "ttl_ms is missing: expected the milliseconds after which an uncommitted estimate is "
		                        "returned");
	if (!sl_ask_number(ask, &sl_fields[SL_FIELD_TTL], value, &ms))
		return false;
	ask->call.ttl_ns = ms * 1000000;
	return true;
}

static bool take_peek(struct sl_http_ask *ask, const json_t *value, enum sl_operation operation) {
	ask->peek = value != NULL && json_is_true(value);
	if (value != NULL && !json_is_boolean(value))
		return sl_ask_fail_type(ask, "peek", "true or false", value);
	return !ask->peek || operation != SL_OP_REFUND ||
	       sl_ask_fail(ask, "peek must be false or absent: a refund cannot be a peek");
}

static bool take_at(struct sl_http_ask *ask, const json_t *value, const struct sl_door_context *context) {
	uint64_t ms;
	if (value == NULL)
		return true;
	if (!sl_policy_settings(context->policy)->client_time)
		return sl_ask_fail(ask,
		                   "at is not allowed here: it needs client-time: true in the policy");
	if (!sl_ask_number(ask, &sl_words[SL_WORD_AT], value, &ms))
		return false;
	ask->call.now = ms * 1000000;
	return true;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static bool add_attribute(struct sl_http_ask *ask, struct sluice_bytes name, struct sluice_bytes value) {
	struct sl_out out = sl_ask_error(ask);
	if (ask->attribute_count == SL_HTTP_ATTRIBUTES_MAX)
		return sl_ask_fail(ask, "at most 64 attributes are allowed");
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

/* Is a lease or a reservation ended by the id: must there be one? */
static bool needs_id(enum sl_operation operation) {
	return operation == SL_OP_RELEASE || operation == SL_OP_RENEW || operation == SL_OP_COMMIT;
}

static bool take_own_id(struct sl_http_ask *ask, enum sl_operation operation) {
	struct sl_out out = sl_ask_error(ask);
	if (operation == SL_OP_COMMIT)
		return sl_ask_fail(ask,
		                   "id must be a ticket, as /v1/reserve and /v1/admit answer it: 16 hex digits, a dot, and "
		                   "its limits");
	if (ask->call.id.len >= 1 && ask->call.id.len <= SLUICE_ID_BYTES_MAX)
		return true;
	sl_out_str(&out, "id must have 1 to 64 bytes, found ");
	sl_out_u64(&out, ask->call.id.len);
	return sl_ask_done(&out);
}

/* Takes of a ticket what this operation of request is about: leases, or reservations. */
static bool take_held(struct sl_http_ask *ask, const struct sl_ticket *ticket, enum sl_operation operation,
                      const struct sluice_policy *policy) {
	for (uint32_t i = 0; i < ticket->count; i++) {
		bool lease = sl_rule_has(ticket->items[i].limit, SL_TAKES_LEASE);
		if (lease == (operation == SL_OP_COMMIT))
			continue;
		ask->positions[ask->call.item_count] = sl_ending_position(policy, ticket->names[i]);
		ask->names = ask->names || ask->positions[ask->call.item_count] != SL_POSITION_NOTATION;
		ask->items[ask->call.item_count++] = ticket->items[i];
	}
	return ask->call.item_count != 0 ||
	       sl_ask_fail(ask, operation == SL_OP_COMMIT ? "id is a ticket without reservations: POST /v1/release"
	                                                   : "id is a ticket without leases: POST /v1/commit");
}

/* What only looks like a ticket is an id, if there are limits with it. */
static bool take_ticket(struct sl_http_ask *ask, const struct sl_http_exchange *exchange,
                        const struct sl_ask_members *members, enum sl_operation operation) {
	struct sl_ticket *ticket = &ask->ticket->ticket;
	struct sluice_bytes key = {"", 0};
	json_t *own = sl_ask_member(members, SL_ASK_KEY);
	bool limits = sl_ask_member(members, SL_ASK_LIMITS) != NULL;
	if (own != NULL && !sl_ask_key(ask, "key", own, &key))
		return false;
	if (!sl_ticket_read(ticket, ask->call.id, key, ask->ticket->memory))
		return limits ? take_own_id(ask, operation)
		              : sl_ask_fail(ask,
		                            "id looks like a ticket but is not one: send it back exactly as it was answered");
	if (limits)
		return sl_ask_fail(ask, "limits must be absent: id is a ticket, which contains them");
	ask->call.id = ticket->id;
	return take_held(ask, ticket, operation, exchange->context->policy);
}

static bool take_id(struct sl_http_ask *ask, const struct sl_http_exchange *exchange,
                    const struct sl_ask_members *members, enum sl_operation operation) {
	const json_t *value = sl_ask_member(members, SL_ASK_ID);
	if (value == NULL)
		return !needs_id(operation) || sl_ask_fail(ask, "id is missing: expected the \"id\" of an answer");
	if (!json_is_string(value))
		return sl_ask_fail_type(ask, "id", "a string", value);
	if (ask->peek)
		return sl_ask_fail(ask, "id must be absent with peek: a peek charges nothing that could be charged twice");
	ask->call.id = sl_json_bytes(value);
	if (needs_id(operation) && sl_ticket_is(ask->call.id))
		return take_ticket(ask, exchange, members, operation);
	return take_own_id(ask, operation);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

void sl_http_ask_begin(struct sl_http_ask *ask, const struct sl_http_exchange *exchange) {
	ask->root = NULL;
	ask->call = (struct sluice_call){.cost = 1, .now = exchange->context->now};
	ask->attribute_count = 0;
	ask->error[0] = '\0';
	ask->cost_said = ask->peek = ask->names = false;
	ask->member = sl_slice(NULL, 0);
	ask->ticket = NULL;
}

/* What all operations may have but limits and attributes. */
static bool take_values(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, enum sl_operation operation,
                        const struct sl_ask_members *members) {
	json_t *member = sl_ask_member(members, SL_ASK_MEMBER);
	return take_cost(ask, sl_ask_member(members, SL_ASK_COST)) &&
	       take_peek(ask, sl_ask_member(members, SL_ASK_PEEK), operation) && sl_ask_flags(ask, members) &&
	       take_at(ask, sl_ask_member(members, SL_ASK_AT), exchange->context) &&
	       (member == NULL || sl_ask_key(ask, "member", member, &ask->member)) &&
	       take_id(ask, exchange, members, operation) &&
	       (operation != SL_OP_RESERVE || take_ttl(ask, sl_ask_member(members, SL_ASK_TTL))) &&
	       (operation != SL_OP_COMMIT || take_actual(ask, sl_ask_member(members, SL_ASK_ACTUAL)));
}

static bool read_body(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, enum sl_operation operation) {
	struct sl_ask_members members;
	ask->root = sl_json_read(exchange->request->body, ask->error);
	if (ask->root == NULL || !sl_ask_sort(ask, "", ask->root, sl_ask_members_of(operation), &members) ||
	    !take_values(ask, exchange, operation, &members))
		return false;
	if (operation == SL_OP_ADMIT)
		return take_attributes(ask, sl_ask_member(&members, SL_ASK_ATTRIBUTES));
	return ask->call.item_count != 0 ||
	       sl_ask_limits(ask, &members, operation, exchange->context->policy, exchange->context->match_buffer);
}

/* The memo of bodies of an operation; NULL: they are not remembered. */
static struct sl_http_body_memo *memo_of(const struct sl_http_exchange *exchange, enum sl_operation operation) {
	struct sl_http_worker *worker = exchange->context->http;
	return worker == NULL                ? NULL
	       : operation == SL_OP_CHECK ? &worker->checks
	       : operation == SL_OP_ADMIT ? &worker->admits
	                                  : NULL;
}

bool sl_http_ask_body(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, enum sl_operation operation,
                      struct sl_http_ticket *ticket) {
	struct sl_http_body_memo *memo = memo_of(exchange, operation);
	sl_http_ask_begin(ask, exchange);
	ask->ticket = ticket;
	if (memo != NULL && sl_http_body_recall(memo, exchange->request->body, ask))
		return true;
	if (!read_body(ask, exchange, operation))
		return false;
	if (memo != NULL)
		sl_http_body_keep(memo, exchange->request->body, ask, operation);
	return true;
}

bool sl_http_ask_query(struct sl_http_ask *ask, const struct sl_http_exchange *exchange, char *memory) {
	struct sluice_bytes rest = exchange->request->query, name, value;
	sl_http_ask_begin(ask, exchange);
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
