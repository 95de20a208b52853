/* JSON in, by jansson; out it goes by hand (json_put.c).
 *
 *  J1  Depth is bounded before jansson sees the text: its own bound, 2048 levels of recursion, is of no use to us.
 *  J2  A number too large for 64 bits is reported with the name of its member: it is most often a mistyped cost. */
#include "proto/json.h"

#include "proto/command.h"

/* ---- reading ------------------------------------------------------------------------------------------------- */

/* The byte (from 0) of the first bracket that nests too deep; -1 when none does. Strings are passed over; what is not
 * JSON at all is left for the parser to report. */
static ptrdiff_t too_deep_at(struct sluice_bytes text) {
	const char *p = text.data;
	bool in_string = false;
	int depth = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > SL_JSON_DEPTH_MAX)
				return (ptrdiff_t)i;
		} else if (p[i] == '}' || p[i] == ']') {
			depth--;
		}
	}
	return -1;
}

/* The name of the member whose value ends at `position`, found backwards: "name" : 123<position>. */
static struct sluice_bytes member_before(struct sluice_bytes text, size_t position) {
	const char *start = text.data, *at = start + (position < text.len ? position : text.len), *end;
	while (at > start && at[-1] != ':' && at[-1] != '"' && at[-1] != ',')
		at--;
	if (at > start && at[-1] == ':')
		at--;
	while (at > start && (at[-1] == ' ' || at[-1] == '\t'))
		at--;
	if (at == start || at[-1] != '"')
		return sl_str("");
	end = --at;
	while (at > start && at[-1] != '"')
		at--;
	return sl_slice(at, (size_t)(end - at));
}

/* ": expected a whole number 1..9", of a member that stands for a number of a command. */
static bool put_range_of(struct sl_out *out, struct sluice_bytes name, const struct sl_meaning *meaning) {
	if (meaning->member == NULL || meaning->most == 0 || !sl_bytes_equal(name, sl_str(meaning->member)))
		return false;
	sl_out_str(out, ": expected a whole number ");
	sl_out_u64(out, meaning->least);
	sl_out_str(out, "..");
	sl_out_u64(out, meaning->most);
	return true;
}

static void put_range(struct sl_out *out, struct sluice_bytes name) {
	for (int field = 0; field < SL_FIELDS; field++)
		if (put_range_of(out, name, &sl_fields[field]))
			return;
	for (int word = 0; word < SL_WORDS; word++)
		if (put_range_of(out, name, &sl_words[word]))
			return;
}

static void explain(char error[SL_JSON_ERROR_BYTES], struct sluice_bytes text, const json_error_t *from) {
	struct sl_out out = sl_out_to(error, SL_JSON_ERROR_BYTES - 1);
	if (json_error_code(from) == json_error_numeric_overflow) {
		struct sluice_bytes name = member_before(text, (size_t)from->position);
		sl_out_str(&out, "the number of ");
		sl_out_quoted(&out, name, 40);
		sl_out_str(&out, " is too large");
		put_range(&out, name);
	} else {
		sl_out_str(&out, "the body is not JSON: line ");
		sl_out_i64(&out, from->line);
		sl_out_str(&out, ", column ");
		sl_out_i64(&out, from->column);
		sl_out_str(&out, ": ");
		sl_out_bytes(&out, from->text, strnlen(from->text, 160));
	}
	*out.at = '\0';
}

json_t *sl_json_read(struct sluice_bytes text, char error[SL_JSON_ERROR_BYTES]) {
	struct sl_out out = sl_out_to(error, SL_JSON_ERROR_BYTES - 1);
	ptrdiff_t deep = too_deep_at(text);
	json_error_t from;
	json_t *root = NULL;
	if (text.len == 0)
		sl_out_str(&out, "the body is empty: expected a JSON object");
	else if (deep >= 0) {
		sl_out_str(&out, "the body nests more than 8 deep at byte ");
		sl_out_i64(&out, deep + 1);
	} else if ((root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &from)) == NULL) {
		explain(error, text, &from);
		return NULL;
	} else if (!json_is_object(root)) {
		sl_out_str(&out, "the body must be a JSON object");
		json_decref(root);
		root = NULL;
	}
	*out.at = '\0';
	return root;
}

void sl_json_free(json_t *root) {
	json_decref(root);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

void sl_json_put_own_quota(struct sl_out *out, const struct sluice_override *own) {
	sl_json_put_limit(out, SL_OWN_QUOTA, &own->limit);
	sl_json_put_ms(out, SL_OWN_ENDS, own->ends_after_ns);
}
