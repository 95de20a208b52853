/* The members of an object: which there may be, of which type, and how a wrong one is refused. */
#include "hosts/server/http/ask.h"
#include "policy/nearest.h"

static const struct member_name {
	const char *text;
	unsigned bit;
} member_names[] = {
	{"key", SL_ASK_KEY},       {"limits", SL_ASK_LIMITS}, {"attributes", SL_ASK_ATTRIBUTES},
	{"cost", SL_ASK_COST},     {"peek", SL_ASK_PEEK},     {"at", SL_ASK_AT},
	{"limit", SL_ASK_LIMIT},   {"id", SL_ASK_ID},         {"upto", SL_ASK_UPTO},
	{"member", SL_ASK_MEMBER}, {"ttl_ms", SL_ASK_TTL},    {"actual", SL_ASK_ACTUAL},
};

_Static_assert(sizeof member_names / sizeof member_names[0] == SL_ASK_MEMBER_COUNT, "each has its place when sorted");

/* ---- saying what is wrong ------------------------------------------------------------------------------------ */

/* The beginning of an error; the caller goes on, and ends with sl_ask_done(). */
struct sl_out sl_ask_error(struct sl_http_ask *ask) {
	return sl_out_to(ask->error, sizeof ask->error - 1);
}

bool sl_ask_done(struct sl_out *out) {
	*out->at = '\0';
	return false;
}

bool sl_ask_fail(struct sl_http_ask *ask, const char *text) {
	struct sl_out out = sl_ask_error(ask);
	sl_out_str(&out, text);
	return sl_ask_done(&out);
}

const char *sl_ask_kind(const json_t *value) {
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
bool sl_ask_fail_type(struct sl_http_ask *ask, const char *where, const char *what, const json_t *value) {
	struct sl_out out = sl_ask_error(ask);
	sl_out_str(&out, where);
	sl_out_str(&out, " must be ");
	sl_out_str(&out, what);
	sl_out_str(&out, ", found ");
	if (json_is_integer(value))
		sl_out_i64(&out, json_integer_value(value));
	else
		sl_out_str(&out, sl_ask_kind(value));
	return sl_ask_done(&out);
}

/* ---- unknown members ----------------------------------------------------------------------------------------- */

/* The index-th member among those allowed: a table for sl_nearest(). */
static const char *allowed_name(const void *table, size_t index) {
	unsigned allowed = *(const unsigned *)table;
	for (size_t i = 0; i < SL_ASK_MEMBER_COUNT; i++)
		if ((member_names[i].bit & allowed) != 0 && index-- == 0)
			return member_names[i].text;
	return NULL;
}

static bool fail_unknown(struct sl_http_ask *ask, const char *where, struct sluice_bytes name, unsigned allowed) {
	struct sl_out out = sl_ask_error(ask);
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
	return sl_ask_done(&out);
}

bool sl_ask_sort(struct sl_http_ask *ask, const char *where, json_t *object, unsigned allowed,
                 struct sl_ask_members *members) {
	const char *name;
	json_t *value;
	*members = (struct sl_ask_members){{NULL}};
	json_object_foreach(object, name, value) {
		size_t i = 0;
		while (i < SL_ASK_MEMBER_COUNT &&
		       !((member_names[i].bit & allowed) != 0 && strcmp(member_names[i].text, name) == 0))
			i++;
		if (i == SL_ASK_MEMBER_COUNT)
			return fail_unknown(ask, where, sl_str(name), allowed);
		members->value[i] = value;
	}
	return true;
}

json_t *sl_ask_member(const struct sl_ask_members *members, unsigned bit) {
	for (size_t i = 0; i < SL_ASK_MEMBER_COUNT; i++)
		if (member_names[i].bit == bit)
			return members->value[i];
	return NULL;
}

/* ---- keys ---------------------------------------------------------------------------------------------------- */

bool sl_ask_key(struct sl_http_ask *ask, const char *where, const json_t *value, struct sluice_bytes *key) {
	if (!json_is_string(value))
		return sl_ask_fail_type(ask, where, "a string", value);
	*key = sl_json_bytes(value);
	if (key->len > SLUICE_KEY_BYTES_MAX) {
		struct sl_out out = sl_ask_error(ask);
		sl_out_str(&out, where);
		sl_out_str(&out, " must have at most 1024 bytes, found ");
		sl_out_u64(&out, key->len);
		return sl_ask_done(&out);
	}
	return true;
}
