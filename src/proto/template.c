/* Bodies are kept as they are written, and walked through each time one is put out: they are short, and a denial that
 * has one is a page for a person.
 *
 *  T1  A text that was checked has nothing that sl_template_put() could stumble over: the two read by one function.
 *  T2  JSON is checked with a sample in the place of each value: as long, so that mistakes are where they are, and with
 *      a space on both sides, so that no value can be the half of a token. */
#include "proto/template.h"

#include "base/assert.h"
#include "base/text.h"
#include "proto/json.h"

#include <stdio.h>

enum value { LIMIT, QUOTA, REMAINING, RETRY_AFTER, RETRY_AFTER_MS, RESET_AFTER, REQUEST_ID, VALUES };

static const char *const names[VALUES] = {
	"limit", "quota", "remaining", "retry_after", "retry_after_ms", "reset_after", "request_id",
};

static bool is_text(enum value value) {
	return value == LIMIT || value == REQUEST_ID;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* What comes next in a text: some of it as it is, then a value, unless the text ends. */
struct piece {
	struct sluice_bytes plain;
	struct sluice_bytes whole; /* the value with its braces; len 0: the text ends */
	struct sluice_bytes name;  /* within them; data NULL: they are not closed */
	enum value value;          /* VALUES: there is none of that name */
};

static struct sluice_bytes between(const char *from, const char *to) {
	return sl_slice(from, (size_t)(to - from));
}

static bool is_in_name(char c) {
	return c > ' ' && c < 0x7f && c != '{' && c != '}';
}

/* The name after the opening braces, with spaces around it; data NULL where no closing ones follow it. */
static struct sluice_bytes name_at(const char *at, const char *end, const char **after) {
	const struct sluice_bytes none = {NULL, 0};
	while (at < end && *at == ' ')
		at++;
	const char *name = at;
	while (at < end && is_in_name(*at))
		at++;
	struct sluice_bytes found = between(name, at);
	while (at < end && *at == ' ')
		at++;
	if (end - at < 2 || at[0] != '}' || at[1] != '}')
		return none;
	*after = at + 2;
	return found;
}

static void next_piece(struct sluice_bytes *rest, struct piece *piece) {
	const char *start = rest->data, *end = start + rest->len, *at = start, *after = end;
	while (end - at >= 2 && (at[0] != '{' || at[1] != '{'))
		at++;
	if (end - at < 2) {
		*piece = (struct piece){.plain = *rest, .value = VALUES};
		*rest = sl_slice(end, 0);
		return;
	}
	piece->plain = between(start, at);
	piece->name = name_at(at + 2, end, &after);
	piece->whole = between(at, after);
	piece->value = LIMIT;
	while (piece->value < VALUES && !sl_bytes_equal(piece->name, sl_str(names[piece->value])))
		piece->value++;
	*rest = between(after, end);
}

/* ---- what is refused ------------------------------------------------------------------------------------------- */

/* Fills in the place of a byte; lines and columns count from 1, columns in characters. */
static bool refuse_at(struct sluice_problem *problem, struct sluice_bytes text, size_t offset) {
	const unsigned char *p = text.data;
	uint32_t character;
	problem->warning = false;
	problem->line = problem->column = 1;
	for (size_t i = 0, n; i < offset; i += n) {
		n = sl_text_next(p + i, text.len - i, &character);
		n = n == 0 ? 1 : n;
		problem->column = p[i] == '\n' ? 1 : problem->column + 1;
		problem->line += p[i] == '\n';
	}
	return false;
}

static bool check_text(struct sluice_bytes text, struct sluice_problem *problem) {
	const unsigned char *p = text.data;
	uint32_t character;
	for (size_t i = 0, n; i < text.len; i += n) {
		n = sl_text_next(p + i, text.len - i, &character);
		if (n != 0 && (character >= ' ' || character == '\t' || character == '\n' || character == '\r'))
			continue;
		snprintf(problem->text, sizeof problem->text, "expected UTF-8 text without control characters, found \\x%02x",
		         p[i]);
		return refuse_at(problem, text, i);
	}
	return true;
}

static bool check_values(struct sluice_bytes text, struct sluice_problem *problem) {
	struct sluice_bytes rest = text;
	struct piece piece;
	char shown[SL_TEXT_ROOM(20) + 1];
	for (uint32_t count = 0;;) {
		next_piece(&rest, &piece);
		if (piece.whole.len == 0)
			return true;
		size_t offset = (size_t)((const char *)piece.whole.data - (const char *)text.data);
		if (piece.name.data == NULL) {
			snprintf(problem->text, sizeof problem->text, "{{ is not closed: expected {{name}}");
			return refuse_at(problem, text, offset);
		}
		if (piece.value == VALUES) {
			struct sl_out out = sl_out_to(shown, sizeof shown - 1);
			sl_out_shown(&out, piece.name, 20);
			shown[sl_out_len(&out)] = '\0';
			snprintf(problem->text, sizeof problem->text,
			         "unknown value '%s': expected limit, quota, remaining, retry_after, retry_after_ms, reset_after "
			         "or request_id",
			         shown);
			return refuse_at(problem, text, offset);
		}
		if (++count > SL_TEMPLATE_VALUES_MAX) {
			snprintf(problem->text, sizeof problem->text, "expected at most %d values, this is one more",
			         SL_TEMPLATE_VALUES_MAX);
			return refuse_at(problem, text, offset);
		}
	}
}

static bool check_json(struct sluice_bytes text, struct sluice_problem *problem) {
	char sample[SL_DENIED_BYTES_MAX];
	struct sluice_bytes rest = text;
	struct piece piece;
	json_error_t from;
	memcpy(sample, text.data, text.len);
	for (next_piece(&rest, &piece); piece.whole.len != 0; next_piece(&rest, &piece)) {
		char *at = sample + ((const char *)piece.whole.data - (const char *)text.data);
		memset(at, ' ', piece.whole.len);
		at[1] = is_text(piece.value) ? 'a' : '1';
	}
	json_t *root = json_loadb(sample, text.len, JSON_REJECT_DUPLICATES, &from);
	if (root != NULL) {
		json_decref(root);
		return true;
	}
	snprintf(problem->text, sizeof problem->text,
	         "expected JSON, with limit and request_id within quotes: %.120s", from.text);
	problem->warning = false;
	problem->line = from.line > 0 ? (uint32_t)from.line : 1;
	problem->column = from.column > 0 ? (uint32_t)from.column : 1;
	return false;
}

bool sl_template_check(struct sluice_bytes text, enum sl_denied_type type, struct sluice_problem *problem) {
	if (text.len == 0 || text.len > SL_DENIED_BYTES_MAX) {
		snprintf(problem->text, sizeof problem->text, "expected a body of 1 to %d bytes, found %s",
		         SL_DENIED_BYTES_MAX, text.len == 0 ? "none" : "more");
		return refuse_at(problem, text, 0);
	}
	return check_text(text, problem) && check_values(text, problem) &&
	       ((type != SL_DENIED_JSON && type != SL_DENIED_PROBLEM) || check_json(text, problem));
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* The inside of a JSON string. */
static void put_json(struct sl_out *out, struct sluice_bytes text) {
	char *start = out->at;
	(void)sl_json_string(out, text);
	if (out->overflow)
		return;
	size_t len = (size_t)(out->at - start) - 2;
	memmove(start, start + 1, len);
	out->at = start + len;
}

static void put_html_byte(struct sl_out *out, char c) {
	switch (c) {
	case '&': sl_out_str(out, "&amp;"); break;
	case '<': sl_out_str(out, "&lt;"); break;
	case '>': sl_out_str(out, "&gt;"); break;
	case '"': sl_out_str(out, "&#34;"); break;
	case '\'': sl_out_str(out, "&#39;"); break;
	case '`': sl_out_str(out, "&#96;"); break;
	default: sl_out_char(out, c);
	}
}

/* What may not be shown, and what is no UTF-8, is left out. */
static void put_shown(struct sl_out *out, struct sluice_bytes text, bool html) {
	const unsigned char *p = text.data;
	uint32_t character;
	for (size_t i = 0, n; i < text.len; i += n) {
		n = sl_text_next(p + i, text.len - i, &character);
		if (n == 1 && html && sl_text_is_shown(character))
			put_html_byte(out, (char)p[i]);
		else if (n != 0 && sl_text_is_shown(character))
			sl_out_bytes(out, p + i, n);
		n = n == 0 ? 1 : n;
	}
}

static void put_seconds(struct sl_out *out, sluice_ns ns, int64_t least) {
	sl_out_i64(out, ns == 0 ? least : sl_ns_to_s_ceil(ns));
}

static void put_value(struct sl_out *out, enum value value, enum sl_denied_type type,
                      const struct sl_template_values *values) {
	switch (value) {
	case QUOTA: sl_out_u64(out, values->quota); return;
	case REMAINING: sl_out_u64(out, values->remaining); return;
	case RETRY_AFTER: put_seconds(out, values->retry_after_ns, 1); return;
	case RETRY_AFTER_MS: sl_out_i64(out, sl_ns_to_ms_ceil(values->retry_after_ns)); return;
	case RESET_AFTER: put_seconds(out, values->reset_after_ns, 0); return;
	default: break;
	}
	struct sluice_bytes text = value == LIMIT ? values->limit : values->request_id;
	SL_ASSERT(text.len <= SL_TEMPLATE_TEXT_MAX);
	if (type == SL_DENIED_JSON || type == SL_DENIED_PROBLEM)
		put_json(out, text);
	else
		put_shown(out, text, type == SL_DENIED_HTML);
}

void sl_template_put(struct sl_out *out, struct sluice_bytes text, enum sl_denied_type type,
                     const struct sl_template_values *values) {
	struct sluice_bytes rest = text;
	struct piece piece;
	do {
		next_piece(&rest, &piece);
		sl_out_bytes(out, piece.plain.data, piece.plain.len);
		if (piece.whole.len != 0)
			put_value(out, piece.value, type, values);
	} while (piece.whole.len != 0);
}

void sl_template_put_denial(struct sl_out *out, const struct sl_policy_denied *denied,
                            const struct sl_headers_limit *decider, sluice_ns retry_after_ns,
                            struct sluice_bytes request_id) {
	const struct sl_template_values values = {
		.limit = decider->name,
		.request_id = request_id,
		.quota = decider->decision->quota,
		.remaining = decider->decision->remaining,
		.retry_after_ns = retry_after_ns,
		.reset_after_ns = decider->decision->reset_after_ns,
	};
	sl_template_put(out, denied->body, (enum sl_denied_type)denied->type, &values);
}

const char *sl_template_media(enum sl_denied_type type) {
	static const char *const media[] = {
		[SL_DENIED_JSON] = "application/json",
		[SL_DENIED_PROBLEM] = "application/problem+json",
		[SL_DENIED_HTML] = "text/html; charset=utf-8",
		[SL_DENIED_PLAIN] = "text/plain; charset=utf-8",
	};
	return media[type];
}
