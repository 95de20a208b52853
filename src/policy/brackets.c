/* A list, and words after it, and a path with parts among other values: YAML takes that for a mistake, and stops.
 *
 * So before YAML sees the file, the brackets and commas of
 *
 *   penalty: [1m, 10m, 1h] after 3 denials in 1m
 *   when: {path: /orgs/{org}/search}
 *
 * become U+FEFF, a character that libyaml takes for a letter and that sl_source_check() refuses anywhere in a file: one
 * for one, so that every column stays, and so that whatever text comes out of libyaml with one in it had a bracket or a
 * comma there. Which of them, its neighbours tell: after ']' stands the word "after", after the others no 'a'; and
 * before '[' stands nothing, or the colon of the key; before '{' a slash, and before '}' the name that it opened.
 *
 * Where it stands in a comment nobody looks at it; in a quoted text it is put back like anywhere. It is hidden in
 * nothing that YAML would have read otherwise.
 */
#include "policy/brackets.h"

enum { HIDDEN_BYTES = 3 };
static const char hidden[HIDDEN_BYTES + 1] = "\xef\xbb\xbf";

static bool is_space(char c) {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char *skip_spaces(const char *at, const char *end) {
	while (at < end && is_space(*at))
		at++;
	return at;
}

static bool begins(const char *at, const char *end, const char *word) {
	size_t len = strlen(word);
	return (size_t)(end - at) >= len && memcmp(at, word, len) == 0;
}

/* Where the list after a key `penalty` opens, whose first letter stands here; NULL where none does. */
static const char *find_open(const char *at, const char *end) {
	if (!begins(at, end, "penalty"))
		return NULL;
	at += strlen("penalty");
	at += at < end && (*at == '"' || *at == '\'');
	while (at < end && *at == ' ')
		at++;
	if (at == end || *at != ':')
		return NULL;
	at = skip_spaces(at + 1, end);
	return at < end && *at == '[' ? at : NULL;
}

static bool is_word(char c) {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
}

/* Where the list ends that opens here: words alone, and "after" after it; NULL where it is another. Words that are no
 * penalties are told by who reads them, but for those in 'a', which nobody could tell from "after" any more. */
static const char *find_close(const char *open, const char *end) {
	const char *at = open;
	do {
		at = skip_spaces(at + 1, end);
		if (at < end && *at == 'a')
			return NULL;
		while (at < end && is_word(*at))
			at++;
		at = skip_spaces(at, end);
	} while (at < end && *at == ',');
	return at < end && *at == ']' && begins(skip_spaces(at + 1, end), end, "after") ? at : NULL;
}

static bool is_part(char c) {
	return is_word(c) ? c != '.' : c == '_' || c == '-';
}

/* Where a part of a path ends, {org}, whose slash stands here; NULL where none does. */
static const char *find_part(const char *slash, const char *end) {
	const char *at = slash + 2;
	if (!begins(slash, end, "/{"))
		return NULL;
	while (at < end && is_part(*at))
		at++;
	return at < end && *at == '}' && at != slash + 2 ? at : NULL;
}

static bool is_mark(char c) {
	return c == '[' || c == ',' || c == ']' || c == '{' || c == '}';
}

/* What is to be hidden next: from *open to its end, which is returned; NULL: nothing any more. */
static const char *find_marks(const char *at, const char *end, const char **open) {
	for (; at < end; at++) {
		const char *close = NULL;
		*open = at;
		if (*at == '/')
			close = find_part(at, end);
		else if (*at == 'p' && (*open = find_open(at, end)) != NULL)
			close = find_close(*open, end);
		if (close != NULL)
			return close;
	}
	return NULL;
}

/* Copies from `at` on with the marks of a list hidden that closes at `close`; returns where it ends. */
static char *hide_list(char *to, const char *at, const char *close) {
	for (; at <= close; at++) {
		if (!is_mark(*at)) {
			*to++ = *at;
			continue;
		}
		memcpy(to, hidden, HIDDEN_BYTES);
		to += HIDDEN_BYTES;
	}
	return to;
}

/* One pass over the file: the first finds out how many bytes there will be (`to` NULL), the second writes them. */
static size_t copy(char *to, struct sluice_bytes yaml) {
	const char *at = yaml.data, *end = at + yaml.len;
	size_t bytes = yaml.len;
	while (at < end) {
		const char *open;
		const char *close = find_marks(at, end, &open);
		const char *next = close == NULL ? end : open;
		if (to != NULL)
			memcpy(to, at, (size_t)(next - at));
		to = to == NULL ? NULL : to + (next - at);
		at = next;
		if (close == NULL)
			continue;
		for (const char *mark = open; mark <= close; mark++)
			bytes += is_mark(*mark) ? HIDDEN_BYTES - 1 : 0;
		to = to == NULL ? NULL : hide_list(to, open, close);
		at = close + 1;
	}
	return bytes;
}

struct sluice_bytes sl_brackets_hide(struct sl_pool *pool, struct sluice_bytes yaml) {
	size_t bytes = copy(NULL, yaml);
	if (bytes == yaml.len)
		return yaml;
	char *text = sl_pool_take(pool, bytes, 1);
	if (text != NULL)
		copy(text, yaml);
	return (struct sluice_bytes){text, bytes};
}

/* What was hidden at `at`, of a text of which `start` to `out` has been put back. */
static char shown(const char *start, const char *out, const char *at, const char *end) {
	const char *after = skip_spaces(at + HIDDEN_BYTES, end), *name = out;
	if (out > start && out[-1] == '/')
		return '{';
	while (name > start && is_part(name[-1]))
		name--;
	if (name > start && name[-1] == '{')
		return '}';
	while (out > start && is_space(out[-1]))
		out--;
	if (after < end && *after == 'a')
		return ']';
	return out == start || out[-1] == ':' ? '[' : ',';
}

size_t sl_brackets_show(char *text, size_t len) {
	const char *at = text, *end = text + len;
	char *out = text;
	while (at < end) {
		if (!begins(at, end, hidden)) {
			*out++ = *at++;
			continue;
		}
		char mark = shown(text, out, at, end);
		*out++ = mark;
		at += HIDDEN_BYTES;
	}
	return (size_t)(out - text);
}
