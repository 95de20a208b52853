/* Lines of access logs, read as they come from the servers in use; see logline.h. */
#include "proto/logline.h"

#include "base/out.h"
#include "base/scan.h"
#include "policy/address.h"

const char *const sl_log_formats[] = {"auto", "common", "combined", "json", "ops", NULL};

/* ---- a walk over one line ---------------------------------------------------------------------------------- */

struct walk {
	const char *start, *at, *end;
};

static size_t column_of(const struct walk *walk) {
	return (size_t)(walk->at - walk->start) + 1;
}

static void skip_spaces(struct walk *walk) {
	while (walk->at < walk->end && sl_is_blank(*walk->at))
		walk->at++;
}

/* The bytes up to the next space; empty at the end of the line. */
static struct sluice_bytes take_word(struct walk *walk) {
	const char *from = walk->at;
	walk->at = sl_find_blank(walk->start, from, walk->end);
	return sl_slice(from, (size_t)(walk->at - from));
}

/* ---- ops --------------------------------------------------------------------------------------------------- */

static bool parse_ops(struct sluice_bytes line, struct sl_logline *out, struct sluice_error *error) {
	struct walk walk = {line.data, line.data, (const char *)line.data + line.len};
	uint64_t ms, cost = 1;
	skip_spaces(&walk);
	size_t column = column_of(&walk);
	if (!sl_bytes_to_u64(take_word(&walk), &ms) || ms > SL_AT_MS_MAX)
		return sl_logline_refuse(error, column, "expected a time in whole Unix milliseconds, such as 1521911720615");
	skip_spaces(&walk);
	column = column_of(&walk);
	out->key = take_word(&walk);
	if (out->key.len == 0)
		return sl_logline_refuse(error, column, "expected a key after the time");
	skip_spaces(&walk);
	column = column_of(&walk);
	struct sluice_bytes word = take_word(&walk);
	if (word.len != 0 && (!sl_bytes_to_u64(word, &cost) || cost > UINT32_MAX))
		return sl_logline_refuse(error, column, "expected a cost, a whole number from 0 to 4294967295");
	skip_spaces(&walk);
	if (walk.at != walk.end)
		return sl_logline_refuse(error, column_of(&walk), "expected the end of the line after the cost");
	out->format = SL_LOG_OPS;
	out->time = ms * 1000000;
	out->cost = (uint32_t)cost;
	out->cost_said = word.len != 0;
	return true;
}

/* ---- common and combined ----------------------------------------------------------------------------------- */

static int hex_digit(char c) {
	static const char digits[] = "0123456789abcdef";
	const char *at = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
	return at != NULL ? (int)(at - digits) : -1;
}

/* Decodes one escape after a backslash, as Apache (\" \\ \n \t \xhh) and nginx (\xHH) write them. Anything else stands
 * for itself, backslash and all. Returns how many bytes it took after the backslash. */
static size_t decode_escape(const char *at, size_t left, struct sl_out *out) {
	static const char names[] = "nrtbvf", bytes[] = "\n\r\t\b\v\f";
	if (left >= 3 && at[0] == 'x') {
		int high = hex_digit(at[1]), low = hex_digit(at[2]);
		if (high >= 0 && low >= 0) {
			sl_out_char(out, (char)(high << 4 | low));
			return 3;
		}
	}
	const char *named = left > 0 && at[0] != '\0' ? strchr(names, at[0]) : NULL;
	if (named != NULL) {
		sl_out_char(out, bytes[named - names]);
		return 1;
	}
	if (left > 0 && (at[0] == '"' || at[0] == '\\')) {
		sl_out_char(out, at[0]);
		return 1;
	}
	sl_out_char(out, '\\');
	return 0;
}

/* Decodes what stands between quotes; text without a backslash is borrowed as it is. */
static struct sluice_bytes decode(struct sluice_bytes text, struct sl_logline_scratch *scratch) {
	if (text.len == 0 || memchr(text.data, '\\', text.len) == NULL)
		return text;
	const char *at = text.data, *end = at + text.len;
	struct sl_out out = sl_out_to(scratch->bytes + scratch->used, sizeof scratch->bytes - scratch->used);
	while (at < end) {
		char c = *at++;
		if (c == '\\')
			at += decode_escape(at, (size_t)(end - at), &out);
		else
			sl_out_char(&out, c);
	}
	scratch->used += sl_out_len(&out);
	return sl_slice(out.start, sl_out_len(&out));
}

/* "-", "" and nothing at all are how logs say that there is none. */
static struct sluice_bytes said(struct sluice_bytes text) {
	bool none = text.len == 0 || sl_bytes_equal(text, sl_str("-")) || sl_bytes_equal(text, sl_str("\"\""));
	return none ? (struct sluice_bytes){NULL, 0} : text;
}

/* Takes the field between quotes. A backslash guards the byte after it. */
static bool take_quoted(struct walk *walk, struct sluice_bytes *text) {
	if (walk->at == walk->end || *walk->at != '"')
		return false;
	const char *from = ++walk->at, *quote = memchr(from, '"', (size_t)(walk->end - from));
	if (quote != NULL && memchr(from, '\\', (size_t)(quote - from)) == NULL) { /* nearly always */
		walk->at = quote;
	} else {
		for (; walk->at < walk->end && *walk->at != '"'; walk->at++)
			if (*walk->at == '\\' && walk->at + 1 < walk->end)
				walk->at++;
	}
	if (walk->at == walk->end)
		return false;
	*text = sl_slice(from, (size_t)(walk->at++ - from));
	return true;
}

/* Finds "[time]" before the request. A user's name may hold brackets, even a time in them; a quote in it is escaped,
 * so nothing but the real one stands before ` "`. Where none does, the first one is taken, for the error. */
static bool find_time(struct walk *walk, struct sl_logtime_day *day, struct sl_logline *out, struct sluice_error *error,
                      const char **bracket) {
	const char *first_bracket = NULL;
	bool found = false;
	for (const char *at = walk->start; (at = memchr(at, '[', (size_t)(walk->end - at))) != NULL; at++) {
		sluice_ns time;
		size_t len = sl_logtime_clf(sl_slice(at + 1, (size_t)(walk->end - at - 1)), day, &time);
		const char *after = at + 1 + len;
		if (first_bracket == NULL)
			first_bracket = at;
		if (len == 0 || after == walk->end || *after != ']')
			continue;
		bool quoted = walk->end - after > 2 && after[1] == ' ' && after[2] == '"';
		if (!found || quoted) {
			*bracket = at;
			walk->at = after + 1;
			out->time = time;
			found = true;
		}
		if (quoted)
			return true;
	}
	if (found)
		return true;
	size_t column = first_bracket != NULL ? (size_t)(first_bracket - walk->start) + 1 : 1;
	return sl_logline_refuse(error, column, "expected a time such as [17/May/2015:10:05:03 +0000]");
}

static bool is_digits(struct sluice_bytes text) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
	}
	return text.len > 0;
}

static bool is_none(struct sluice_bytes word) {
	return sl_bytes_equal(word, sl_str("-"));
}

static bool is_address(struct sluice_bytes word) {
	struct sl_address address;
	return sl_address_parse(word, &address, NULL);
}

/* A host's name: letters, digits and `-._*`. No prefix of syslog, journald, Docker or Kubernetes has these alone. */
static bool is_name(struct sluice_bytes text) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++) {
		bool letter = (p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= 'a' && p[i] <= 'z') || (p[i] & 0x80) != 0;
		if (!letter && !(p[i] >= '0' && p[i] <= '9') && memchr("-._*", p[i], 4) == NULL)
			return false;
	}
	return text.len > 0;
}

/* A name or an address with a port. */
static bool has_port(struct sluice_bytes word) {
	struct sl_address address;
	uint32_t port;
	if (sl_address_parse(word, &address, &port))
		return port != SL_PORT_NONE;
	const char *colon = memchr(word.data, ':', word.len), *end = (const char *)word.data + word.len;
	return colon != NULL && is_name(sl_slice(word.data, (size_t)(colon - (const char *)word.data))) &&
	       is_digits(sl_slice(colon + 1, (size_t)(end - colon - 1)));
}

/* Takes a word, or a list with commas, as X-Forwarded-For has them: then its first one is returned. */
static struct sluice_bytes take_first(struct walk *walk) {
	skip_spaces(walk);
	struct sluice_bytes first = take_word(walk), last = first;
	while (last.len > 0 && ((const char *)last.data)[last.len - 1] == ',') {
		skip_spaces(walk);
		last = take_word(walk);
	}
	const char *comma = memchr(first.data, ',', first.len);
	return comma != NULL ? sl_slice(first.data, (size_t)(comma - (const char *)first.data)) : first;
}

/* What follows the client, or what was taken for it, is no "-": finds the client and the identity. A name or an address
 * with a port is a virtual host, and so is a name alone where an address follows. An address between the client's and
 * `- USER` is the peer that sent the client's in X-Forwarded-For. */
static void look_further(struct walk *walk, struct sluice_bytes *client, struct sluice_bytes *identity,
                         struct sl_logline *out) {
	if (has_port(*client) || (is_name(*client) && !is_address(*client) && is_address(*identity))) {
		out->host = said(*client);
		*client = *identity;
		*identity = take_first(walk);
	}
	struct walk ahead = *walk;
	if (!is_address(*identity) || !is_address(*client) || !is_none(take_first(&ahead)))
		return;
	skip_spaces(&ahead);
	if (ahead.at < ahead.end) { /* else the "-" is the user */
		*walk = ahead;
		*identity = sl_str("-");
	}
}

/* The user's name, which may hold spaces. ingress-nginx wrote the client twice: `CLIENT - [CLIENT] - USER`. */
static struct sluice_bytes take_user(struct walk *walk) {
	skip_spaces(walk);
	while (walk->end > walk->at && sl_is_blank(walk->end[-1]))
		walk->end--;
	const char *from = walk->at, *again = NULL;
	if (from < walk->end && *from == '[')
		again = memmem(from, (size_t)(walk->end - from), "] - ", 4);
	from = again != NULL ? again + 4 : from;
	return sl_slice(from, (size_t)(walk->end - from));
}

/* Whether a text has a word that is "-", or also one that is an address. */
static bool has_field(struct sluice_bytes text, bool or_address) {
	struct walk walk = {text.data, text.data, (const char *)text.data + text.len};
	bool found = false;
	skip_spaces(&walk);
	while (walk.at < walk.end && !found) {
		struct sluice_bytes word = take_word(&walk);
		found = is_none(word) || (or_address && is_address(word));
		skip_spaces(&walk);
	}
	return found;
}

/* Takes `- FIELD..` for a user that is none, with fields of somebody's own behind, where the client is sure. False
 * where the words of the user hold more than a name: a "-" stands for a field. */
static bool cut_user(struct sluice_bytes client, struct sluice_bytes *user) {
	const char *text = user->data;
	if (user->len > 2 && text[0] == '-' && sl_is_blank(text[1]) && is_address(client) &&
	    !has_field(sl_slice(text + 2, user->len - 2), true)) {
		*user = sl_str("-");
		return true;
	}
	return user->len == 1 || !has_field(*user, false);
}

/* `client identity user` before the time, and what may stand with them: see logline.h. */
static bool take_client(struct sluice_bytes text, struct sl_logline *out, struct sluice_error *error) {
	struct walk walk = {text.data, text.data, (const char *)text.data + text.len};
	struct sluice_bytes client = take_first(&walk), identity = take_first(&walk);
	if (!is_none(identity)) /* it is in nearly every log */
		look_further(&walk, &client, &identity, out);
	struct sluice_bytes user = take_user(&walk);
	if (client.len == 0 || identity.len == 0 || user.len == 0)
		return sl_logline_refuse(error, 1, "expected the client's address, an identity and a user before the time");
	if (!cut_user(client, &user))
		return sl_logline_refuse(error, 1, "more stands before the time than the client, an identity and a user");
	out->ip = said(client);
	out->user = said(user);
	return true;
}

static bool parse_common(struct sluice_bytes line, struct sl_logline_scratch *scratch, struct sl_logline *out,
                         struct sluice_error *error) {
	struct walk walk = {line.data, line.data, (const char *)line.data + line.len};
	struct sluice_bytes request = {NULL, 0};
	const char *bracket = line.data;
	if (!find_time(&walk, &scratch->day, out, error, &bracket) ||
	    !take_client(sl_slice(walk.start, (size_t)(bracket - walk.start)), out, error))
		return false;
	skip_spaces(&walk);
	size_t column = column_of(&walk);
	if (!take_quoted(&walk, &request))
		return sl_logline_refuse(error, column, "expected the request between quotes, such as \"GET / HTTP/1.1\"");
	skip_spaces(&walk);
	column = column_of(&walk);
	struct sluice_bytes status = take_word(&walk);
	if (!is_none(status) && !(status.len == 3 && is_digits(status)))
		return sl_logline_refuse(error, column, "expected the response's status, three digits");
	skip_spaces(&walk);
	column = column_of(&walk);
	struct sluice_bytes size = take_word(&walk);
	if (!is_none(size) && !is_digits(size))
		return sl_logline_refuse(error, column, "expected the response's size in bytes, or -");
	out->status = said(status);
	out->user = decode(out->user, scratch);
	if (!scratch->skips_request)
		sl_logline_request(decode(request, scratch), out);
	return true;
}

/* ---- any ---------------------------------------------------------------------------------------------------- */

/* JSON begins with a brace; ops lines have digits alone first and, unlike an address, nothing after them but a space;
 * everything else can only be an access log. */
static enum sl_log_format detect(struct sluice_bytes line) {
	struct walk walk = {line.data, line.data, (const char *)line.data + line.len};
	skip_spaces(&walk);
	if (walk.at < walk.end && *walk.at == '{')
		return SL_LOG_JSON;
	return is_digits(take_word(&walk)) ? SL_LOG_OPS : SL_LOG_COMMON;
}

bool sl_logline_parse(enum sl_log_format format, struct sluice_bytes line, struct sl_logline_scratch *scratch,
                      struct sl_logline *out, struct sluice_error *error) {
	*out = (struct sl_logline){.format = format, .cost = 1};
	scratch->used = 0;
	if (line.len == 0)
		return sl_logline_refuse(error, 1, "the line is empty");
	if (line.len > SL_LOGLINE_BYTES_MAX)
		return sl_logline_refuse(error, SL_LOGLINE_BYTES_MAX + 1, "the line has more than 65536 bytes");
	if (format == SL_LOG_AUTO)
		format = out->format = detect(line);
	if (format == SL_LOG_OPS)
		return parse_ops(line, out, error);
	return format == SL_LOG_JSON ? sl_logline_json(line, scratch, out, error) : parse_common(line, scratch, out, error);
}
