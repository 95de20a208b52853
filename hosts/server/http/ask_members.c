/* The members of an object: which there may be, of which type, and how a wrong one is refused. */
#include "hosts/server/http/ask.h"

#include "base/fold.h"
#include "policy/nearest.h"

/* By their bits, from the lowest. */
static const char *const member_names[SL_ASK_MEMBER_COUNT] = {
	"key", "limits", "attributes", "cost", "peek", "at", "limit", "id", "member", "ttl_ms", "actual",
};
enum { NAMES = SL_ASK_MEMBER_COUNT + SL_WORDS };

_Static_assert(NAMES <= 32, "a bit for each");

static const char *name_of(size_t index) {
	return index < SL_ASK_MEMBER_COUNT ? member_names[index] : sl_words[index - SL_ASK_MEMBER_COUNT].member;
}

/* Is a member one of the words, or fields, of a form? */
static bool has_member(const struct sl_form *form, const char *name) {
	for (unsigned word = 0; word < SL_WORDS; word++) {
		const char *member = (form->words & 1u << word) != 0 ? sl_words[word].member : NULL;
		if (member != NULL && strcmp(member, name) == 0)
			return true;
	}
	for (uint32_t i = 0; i < form->field_count; i++)
		if (strcmp(sl_fields[form->fields[i]].member, name) == 0)
			return true;
	return false;
}

static uint32_t find_members_of(enum sl_operation operation) {
	const struct sl_form *form = &sl_forms[operation];
	uint32_t members = SL_ASK_AT;
	for (size_t i = 0; i < SL_ASK_MEMBER_COUNT; i++)
		members |= has_member(form, member_names[i]) ? 1u << i : 0;
	for (unsigned word = 0; word < SL_WORDS; word++)
		if ((form->words & 1u << word) != 0 && sl_word_is_flag(word))
			members |= 1u << (SL_ASK_MEMBER_COUNT + word);
	if (operation == SL_OP_CHECK || operation == SL_OP_REFUND || operation == SL_OP_ADMIT)
		members |= SL_ASK_PEEK;
	if (operation == SL_OP_ADMIT)
		return members | SL_ASK_ATTRIBUTES;
	return members | SL_ASK_KEY | (operation == SL_OP_COMMIT ? 0 : SL_ASK_LIMITS);
}

/* Found once: none has none. Whoever comes first writes what all others would. */
uint32_t sl_ask_members_of(enum sl_operation operation) {
	static uint32_t found[SL_OPERATIONS];
	SL_ASSERT(operation < SL_OPERATIONS);
	uint32_t members = __atomic_load_n(&found[operation], __ATOMIC_RELAXED);
	if (members == 0) {
		members = find_members_of(operation);
		__atomic_store_n(&found[operation], members, __ATOMIC_RELAXED);
	}
	return members;
}

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

bool sl_ask_number(struct sl_http_ask *ask, const struct sl_meaning *meaning, const json_t *value, uint64_t *number) {
	char what[96];
	struct sl_out out = sl_out_to(what, sizeof what - 1);
	if (json_is_integer(value) && json_integer_value(value) >= 0 &&
	    sl_meaning_has(meaning, (uint64_t)json_integer_value(value))) {
		*number = (uint64_t)json_integer_value(value);
		return true;
	}
	sl_out_str(&out, meaning->unit != NULL ? meaning->unit : "");
	sl_out_str(&out, meaning->is_ms ? "a whole number of milliseconds, " : "a whole number ");
	sl_out_u64(&out, meaning->least);
	sl_out_str(&out, "..");
	sl_out_u64(&out, meaning->most);
	*out.at = '\0';
	return sl_ask_fail_type(ask, meaning->member, what, value);
}

/* ---- unknown members ----------------------------------------------------------------------------------------- */

/* The index-th member among those allowed: a table for sl_nearest(). */
static const char *allowed_name(const void *table, size_t index) {
	uint32_t allowed = *(const uint32_t *)table;
	for (size_t i = 0; i < NAMES; i++)
		if ((1u << i & allowed) != 0 && index-- == 0)
			return name_of(i);
	return NULL;
}

static bool fail_unknown(struct sl_http_ask *ask, const char *where, struct sluice_bytes name, uint32_t allowed) {
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

bool sl_ask_sort(struct sl_http_ask *ask, const char *where, json_t *object, uint32_t allowed,
                 struct sl_ask_members *members) {
	const char *name;
	json_t *value;
	*members = (struct sl_ask_members){{NULL}};
	json_object_foreach(object, name, value) {
		size_t i = 0;
		while (i < NAMES && !((1u << i & allowed) != 0 && strcmp(name_of(i), name) == 0))
			i++;
		if (i == NAMES)
			return fail_unknown(ask, where, sl_str(name), allowed);
		members->value[i] = value;
	}
	return true;
}

json_t *sl_ask_member(const struct sl_ask_members *members, uint32_t bit) {
	return members->value[__builtin_ctz(bit)];
}

bool sl_ask_flags(struct sl_http_ask *ask, const struct sl_ask_members *members) {
	for (unsigned word = 0; word < SL_WORDS; word++) {
		const json_t *value = members->value[SL_ASK_MEMBER_COUNT + word];
		if (value != NULL && !json_is_boolean(value))
			return sl_ask_fail_type(ask, sl_words[word].member, "true or false", value);
		if (value != NULL && json_is_true(value))
			sl_command_say(&ask->call, word);
	}
	return true;
}

/* ---- keys ---------------------------------------------------------------------------------------------------- */

/* In the body itself, whoever looks at it again. */
static bool fold(struct sl_http_ask *ask, json_t *value) {
	char folded[SLUICE_KEY_BYTES_MAX];
	struct sluice_bytes key = sl_key_fold(folded, sl_json_bytes(value));
	return json_string_setn_nocheck(value, key.data, key.len) == 0 ||
	       sl_ask_fail(ask, "the key is long, and there is no memory to fold it");
}

bool sl_ask_key(struct sl_http_ask *ask, const char *where, json_t *value, struct sluice_bytes *key) {
	if (!json_is_string(value))
		return sl_ask_fail_type(ask, where, "a string", value);
	if (json_string_length(value) > SLUICE_KEY_BYTES_MAX && !fold(ask, value))
		return false;
	*key = sl_json_bytes(value);
	return true;
}
