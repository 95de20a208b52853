/* What a body or a query asks, read strictly: a wrong type, a missing member, an unknown one ("limit" for "limits"), a
 * number out of range is refused with its name and what would be right. A limiter that guesses what was meant limits
 * the wrong thing, silently.
 *
 *   member       check  refund  reset  admit
 *   key            x      x       x           a string, 0..1024 bytes; may be absent where every limit has its own
 *   limits         x      x       x           1..16 notations, or {"key","limit"}; "policy:NAME" for one of the policy
 *   attributes                           x    {name: string}, at most 64
 *   cost           x      x              x    a whole number 0..4294967295, default 1
 *   peek           x      false          x    true or false
 *   at             x      x              x    Unix ms, where the operator allows it */
#include "hosts/server/http/door_http.h"
#include "policy/nearest.h"

enum member { KEY = 1, LIMITS = 2, ATTRIBUTES = 4, COST = 8, PEEK = 16, AT = 32, LIMIT = 64 };

static const struct member_name {
	const char *text;
	unsigned bit;
} member_names[] = {
	{"key", KEY},   {"limits", LIMITS}, {"attributes", ATTRIBUTES}, {"cost", COST},
	{"peek", PEEK}, {"at", AT},         {"limit", LIMIT},
};

enum { MEMBER_COUNT = sizeof member_names / sizeof member_names[0] };

/* The last instant that fits 63 bits of nanoseconds, as in SLUICE.CHECK's AT. */
static const int64_t at_ms_max = INT64_MAX / 1000000;

/* The members of one object, sorted out; NULL where absent. */
struct members {
	json_t *value[MEMBER_COUNT];
};

/* ---- saying what is wrong ------------------------------------------------------------------------------------ */

/* The beginning of an error; the caller goes on, and ends with done(). */
static struct sl_out error_of(struct sl_http_ask *ask) {
	return sl_out_to(ask->error, sizeof ask->error - 1);
}

static bool done(struct sl_out *out) {
	*out->at = '\0';
	return false;
}

static bool fail(struct sl_http_ask *ask, const char *text) {
	struct sl_out out = error_of(ask);
	sl_out_str(&out, text);
	return done(&out);
}

static const char *kind_of(const json_t *value) {
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a number";
	case JSON_REAL:
		return "a number with a fraction or an exponent";
	case JSON_NULL:
		return "null";
	default:
		return "true or false";
	}
}

/* "<where> must be <what>, found a string" */
static bool fail_type(struct sl_http_ask *ask, const char *where, const char *what, const json_t *value) {
	struct sl_out out = error_of(ask);
	sl_out_str(&out, where);
	sl_out_str(&out, " must be ");
	sl_out_str(&out, what);
	sl_out_str(&out, ", found ");
	if (json_is_integer(value))
		sl_out_i64(&out, json_integer_value(value));
	else
		sl_out_str(&out, kind_of(value));
	return done(&out);
}

/* ---- unknown members ----------------------------------------------------------------------------------------- */

/* The index-th member among those allowed: a table for sl_nearest(). */
static const char *allowed_name(const void *table, size_t index) {
	unsigned allowed = *(const unsigned *)table;
	for (size_t i = 0; i < MEMBER_COUNT; i++)
		if ((member_names[i].bit & allowed) != 0 && index-- == 0)
			return member_names[i].text;
	return NULL;
}

static bool fail_unknown(struct sl_http_ask *ask, const char *where, struct sluice_bytes name, unsigned allowed) {
	struct sl_out out = error_of(ask);
	const char *near = sl_nearest(name, allowed_name, &allowed), *known;
	sl_out_str(&out, where);
	sl_out_str(&out, "unknown member ");
	sl_out_quoted(&out, name, 40);
	sl_out_str(&out, near != NULL ? ": did you mean " : ": expected ");
	if (near != NULL)
		sl_out_str(&out, near);
	for (size_t i = 0; near == NULL && (known = allowed_name(&allowed, i)) != NULL; i++) {
		sl_out_str(&out, i > 0 ? ", " : "");
		sl_out_str(&out, known);
	}
	return done(&out);
}

static bool sort_members(struct sl_http_ask *ask, const char *where, json_t *object, unsigned allowed,
                         struct members *members) {
	const char *name;
	json_t *value;
	*members = (struct members){{NULL}};
	json_object_foreach(object, name, value) {
		size_t i = 0;
		while (i < MEMBER_COUNT && !((member_names[i].bit & allowed) != 0 && strcmp(member_names[i].text, name) == 0))
			i++;
		if (i == MEMBER_COUNT)
			return fail_unknown(ask, where, sl_str(name), allowed);
		members->value[i] = value;
	}
	return true;
}

static json_t *member(const struct members *members, unsigned bit) {
	for (size_t i = 0; i < MEMBER_COUNT; i++)
		if (member_names[i].bit == bit)
			return members->value[i];
	return NULL;
}

/* ---- single members ------------------------------------------------------------------------------------------ */

static bool take_cost(struct sl_http_ask *ask, const json_t *value) {
	ask->cost = 1;
	if (value == NULL)
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT32_MAX)
		return fail_type(ask, "cost", "a whole number 0..4294967295", value);
	ask->cost = (uint32_t)json_integer_value(value);
	return true;
}

static bool take_peek(struct sl_http_ask *ask, const json_t *value, enum sl_http_ask_kind kind) {
	ask->peek = value != NULL && json_is_true(value);
	if (value != NULL && !json_is_boolean(value))
		return fail_type(ask, "peek", "true or false", value);
	if (ask->peek && kind == SL_HTTP_ASK_REFUND)
		return fail(ask, "peek must be false or absent: a refund cannot be a peek");
	return true;
}

static bool take_at(struct sl_http_ask *ask, const json_t *value, const struct sl_door_context *context) {
	ask->now = context->now;
	if (value == NULL)
		return true;
	if (!sl_policy_settings(context->policy)->client_time)
		return fail(ask, "at is not allowed here: the operator would have to write client-time: true in the policy");
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > at_ms_max)
		return fail_type(ask, "at", "Unix milliseconds, a whole number 0..9223372036854", value);
	ask->now = (sluice_ns)json_integer_value(value) * 1000000;
	return true;
}

/* `where` is "key" or "limits[3].key". */
static bool take_key(struct sl_http_ask *ask, const char *where, const json_t *value, struct sluice_bytes *key) {
	if (!json_is_string(value))
		return fail_type(ask, where, "a string", value);
	*key = sl_json_bytes(value);
	if (key->len > SLUICE_KEY_BYTES_MAX) {
		struct sl_out out = error_of(ask);
		sl_out_str(&out, where);
		sl_out_str(&out, " must have at most 1024 bytes, found ");
		sl_out_u64(&out, key->len);
		return done(&out);
	}
	return true;
}

/* ---- limits -------------------------------------------------------------------------------------------------- */

enum { WHERE_BYTES = 24 };

static const char *where_limit(char where[WHERE_BYTES], size_t i, const char *behind) {
	struct sl_out out = sl_out_to(where, WHERE_BYTES - 1);
	sl_out_str(&out, "limits[");
	sl_out_u64(&out, i);
	sl_out_str(&out, "]");
	sl_out_str(&out, behind);
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
	struct sl_out out = error_of(ask);
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
	return done(&out);
}

static bool take_notation(struct sl_http_ask *ask, size_t i, const json_t *value, const struct sluice_policy *policy) {
	char where[WHERE_BYTES];
	struct sluice_error error;
	const struct sluice_limit *named;
	if (!json_is_string(value))
		return fail_type(ask, where_limit(where, i, ""), "a limit such as \"100/1m\", or {\"key\",\"limit\"}", value);
	int found = sl_policy_limit_named(policy, sl_json_bytes(value), &named);
	if (found < 0)
		return fail_unnamed(ask, i, sl_json_bytes(value), policy);
	if (found > 0) {
		struct sluice_bytes text = sl_json_bytes(value);
		ask->limits[i] = *named;
		text = sl_slice((const char *)text.data + 7, text.len - 7);
		ask->positions[i] = (uint32_t)sl_policy_limit_find(policy, text);
		ask->names = true;
		return true;
	}
	ask->positions[i] = SL_RULING_NOTATION;
	if (sluice_limit_parse(&ask->limits[i], sl_json_bytes(value), &error) == SLUICE_OK)
		return true;
	struct sl_out out = error_of(ask);
	sl_out_str(&out, where_limit(where, i, ""));
	sl_out_str(&out, ", column ");
	sl_out_u64(&out, error.column);
	sl_out_str(&out, ": ");
	sl_out_bytes(&out, error.text, strnlen(error.text, sizeof error.text));
	return done(&out);
}

/* One element: a notation, which counts for the body's key, or an object with a key of its own. */
static bool take_limit(struct sl_http_ask *ask, size_t i, json_t *value, const json_t *key,
                       const struct sluice_policy *policy) {
	char where[WHERE_BYTES];
	struct sluice_item *item = &ask->items[i];
	const char *where_key = "key";
	if (json_is_object(value)) {
		struct members members;
		if (!sort_members(ask, where_limit(where, i, ": "), value, KEY | LIMIT, &members))
			return false;
		value = member(&members, LIMIT);
		if (member(&members, KEY) != NULL) {
			key = member(&members, KEY);
			where_key = where_limit(where, i, ".key");
		}
		if (value == NULL)
			return fail(ask, "an object in limits must have the member limit: {\"key\":\"a\",\"limit\":\"10/1s\"}");
	}
	if (key == NULL)
		return fail(ask, "key is missing: expected a string such as \"user:1\"");
	*item = (struct sluice_item){.limit = &ask->limits[i]};
	return take_key(ask, where_key, key, &item->key) && take_notation(ask, i, value, policy);
}

static bool take_limits(struct sl_http_ask *ask, const json_t *value, const json_t *key,
                        const struct sluice_policy *policy) {
	struct sluice_bytes ignored;
	size_t count = json_array_size(value);
	if (key != NULL && !take_key(ask, "key", key, &ignored))
		return false;
	if (value == NULL)
		return fail(ask, "limits is missing: expected an array such as [\"100/1m\"]");
	if (!json_is_array(value))
		return fail_type(ask, "limits", "an array such as [\"100/1m\"]", value);
	if (count < 1 || count > SLUICE_ITEMS_MAX) {
		struct sl_out out = error_of(ask);
		sl_out_str(&out, "limits must hold 1 to 16 limits, found ");
		sl_out_u64(&out, count);
		return done(&out);
	}
	for (size_t i = 0; i < count; i++)
		if (!take_limit(ask, i, json_array_get(value, i), key, policy))
			return false;
	ask->item_count = (uint32_t)count;
	return true;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static bool add_attribute(struct sl_http_ask *ask, struct sluice_bytes name, struct sluice_bytes value) {
	struct sl_out out = error_of(ask);
	if (ask->attribute_count == SL_HTTP_ATTRIBUTES_MAX)
		return fail(ask, "at most 64 attributes are taken");
	sl_out_str(&out, "attribute ");
	sl_out_quoted(&out, name, 64);
	if (name.len < 1 || name.len > SLUICE_NAME_BYTES_MAX) {
		sl_out_str(&out, ": a name must have 1 to 64 bytes, found ");
		sl_out_u64(&out, name.len);
		return done(&out);
	}
	if (value.len > SLUICE_KEY_BYTES_MAX) {
		sl_out_str(&out, ": a value must have at most 1024 bytes, found ");
		sl_out_u64(&out, value.len);
		return done(&out);
	}
	ask->attributes[ask->attribute_count++] = (struct sluice_attribute){name, value};
	return true;
}

static bool take_attributes(struct sl_http_ask *ask, json_t *value) {
	const char *name;
	json_t *text;
	if (value == NULL)
		return fail(ask, "attributes is missing: expected an object such as {\"user\":\"alice\"}");
	if (!json_is_object(value))
		return fail_type(ask, "attributes", "an object such as {\"user\":\"alice\"}", value);
	json_object_foreach(value, name, text) {
		if (!json_is_string(text)) {
			struct sl_out out = error_of(ask);
			sl_out_str(&out, "attribute ");
			sl_out_quoted(&out, sl_str(name), 64);
			sl_out_str(&out, " must be a string, found ");
			sl_out_str(&out, kind_of(text));
			return done(&out);
		}
		if (!add_attribute(ask, sl_str(name), sl_json_bytes(text)))
			return false;
	}
	return true;
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

void sl_http_ask_begin(struct sl_http_ask *ask, const struct sl_http_turn *turn) {
	ask->root = NULL;
	ask->item_count = ask->attribute_count = 0;
	ask->error[0] = '\0';
	ask->cost = 1;
	ask->peek = ask->names = false;
	ask->now = turn->context->now;
}

bool sl_http_ask_body(struct sl_http_ask *ask, const struct sl_http_turn *turn, enum sl_http_ask_kind kind) {
	static const unsigned allowed[] = {
		[SL_HTTP_ASK_CHECK] = KEY | LIMITS | COST | PEEK | AT,
		[SL_HTTP_ASK_REFUND] = KEY | LIMITS | COST | PEEK | AT,
		[SL_HTTP_ASK_RESET] = KEY | LIMITS,
		[SL_HTTP_ASK_ADMIT] = ATTRIBUTES | COST | PEEK | AT,
	};
	struct members members;
	sl_http_ask_begin(ask, turn);
	ask->root = sl_json_read(turn->request->body, ask->error);
	if (ask->root == NULL || !sort_members(ask, "", ask->root, allowed[kind], &members))
		return false;
	if (!take_cost(ask, member(&members, COST)) || !take_peek(ask, member(&members, PEEK), kind) ||
	    !take_at(ask, member(&members, AT), turn->context))
		return false;
	if (kind == SL_HTTP_ASK_ADMIT)
		return take_attributes(ask, member(&members, ATTRIBUTES));
	return take_limits(ask, member(&members, LIMITS), member(&members, KEY), turn->context->policy);
}

bool sl_http_ask_query(struct sl_http_ask *ask, const struct sl_http_turn *turn, char *memory) {
	struct sluice_bytes rest = turn->request->query, name, value;
	sl_http_ask_begin(ask, turn);
	ask->peek = true;
	while (sl_http_query_next(&rest, &name, &value)) {
		ptrdiff_t name_bytes = sl_http_decode(name, true, memory);
		ptrdiff_t value_bytes = name_bytes < 0 ? -1 : sl_http_decode(value, true, memory + name_bytes);
		if (value_bytes < 0)
			return fail(ask, "a % in the query must be followed by two hex digits: write % itself as %25");
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
