/* Two spellings of one path must be one path here, or a client picks the spelling that no limit knows.
 *
 * One pass, left to right, in RFC 3986's order: decode (6.2.2.2; what stays encoded has digits in upper case, 6.2.2.1),
 * then look at segments (6.2.2.3). A segment is judged when its end is met: "." goes, ".." takes the segment before it
 * along. Slashes are joined before dot segments are resolved, as servers do it: /a//../b is /b. Segments that have no
 * room in the key are only counted, so that as many ".." after them bring back what stands before them.
 *
 * Invariants: out[0..len) is normal, and what is written never overtakes what is read, so that out may be the input.
 * All that ".." removes was written once: O(n). What comes out is what comes out of it again: nothing is decoded that a
 * lone "%" before it would make another code of (%2%46), and a cut leaves no dot segment (..name cut to ..).
 */
#include "policy/path.h"

static bool is_unreserved(unsigned char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
	       c == '_' || c == '~';
}

static int hex_digit(unsigned char c) {
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Does a percent-encoded character stand at the start of the text? */
static bool is_code(const unsigned char *p, size_t len) {
	return p[0] == '%' && len >= 3 && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0;
}

/* The character at the start of the text, decoded where that is ours to do; how many bytes it took is in *used. `last`
 * are the two before it, as they were written. */
static char decode(const unsigned char *p, size_t len, const char last[2], size_t *used) {
	*used = 1;
	if (!is_code(p, len) || last[0] == '%' || last[1] == '%')
		return (char)p[0];
	unsigned char decoded = (unsigned char)(hex_digit(p[1]) << 4 | hex_digit(p[2]));
	if (!is_unreserved(decoded))
		return (char)p[0];
	*used = 3;
	return (char)decoded;
}

/* "http://host" in front of a path, as clients of a proxy write it: its length, or 0. */
static size_t authority_len(struct sluice_bytes target) {
	const char *p = target.data;
	size_t at = 0;
	while (at < target.len && (is_unreserved((unsigned char)p[at]) || p[at] == '+'))
		at++;
	if (at == 0 || target.len - at < 3 || memcmp(p + at, "://", 3) != 0)
		return 0;
	at += 3;
	while (at < target.len && p[at] != '/' && p[at] != '?' && p[at] != '#')
		at++;
	return at;
}

static size_t path_len(struct sluice_bytes target) {
	const char *p = target.data;
	size_t len = 0;
	while (len < target.len && p[len] != '?' && p[len] != '#')
		len++;
	return len;
}

/* A path being written: whole segments, each with the slash after it; `deep` more have no room, of which the first is
 * written as far as there is. */
struct path {
	char *out;
	size_t len, deep;
};

static void remove_last(struct path *path) {
	if (path->deep > 0) {
		path->deep--;
		return;
	}
	if (path->len > 1)
		for (path->len--; path->out[path->len - 1] != '/';)
			path->len--;
}

/* A segment, without its slash; `slash`: it has one. */
static void add_segment(struct path *path, const unsigned char *p, size_t bytes, bool slash) {
	const bool fits = path->deep == 0;
	char last[2] = {0}, first[2] = {0};
	size_t len = 0, used, digits = 0; /* to come of a character that stays encoded */
	for (size_t at = 0; at < bytes; at += used, len++) {
		char c = decode(p + at, bytes - at, last, &used);
		if (digits != 0) {
			digits--;
			c = c >= 'a' ? (char)(c - 32) : c;
		} else if (used == 1 && is_code(p + at, bytes - at)) {
			digits = 2;
		}
		last[0] = last[1];
		last[1] = c;
		if (len < 2)
			first[len] = c;
		if (fits && path->len + len < SLUICE_KEY_BYTES_MAX)
			path->out[path->len + len] = c;
	}
	if (len == 0 || (len == 1 && first[0] == '.'))
		return;
	if (len == 2 && first[0] == '.' && first[1] == '.') {
		remove_last(path);
	} else if (!fits || path->len + len + slash > SLUICE_KEY_BYTES_MAX) {
		path->deep++;
	} else {
		path->len += len;
		if (slash)
			path->out[path->len++] = '/';
	}
}

/* How much of a path that has no room is kept: all that has, but for the start of a segment that reads as dots. */
static size_t cut_len(const struct path *path) {
	const char *start = path->out + path->len;
	const size_t len = SLUICE_KEY_BYTES_MAX - path->len;
	return len <= 2 && memcmp(start, "..", len) == 0 ? path->len : SLUICE_KEY_BYTES_MAX;
}

size_t sl_path_normalise(struct sluice_bytes target, char *out) {
	const unsigned char *in = target.len == 0 ? (const void *)"" : target.data;
	size_t at = authority_len(target);
	size_t end = at + path_len(sl_slice(in + at, target.len - at));
	struct path path = {.out = out, .len = 1};
	if (at < end && in[at] != '/') {
		size_t len = end - at < SLUICE_KEY_BYTES_MAX ? end - at : SLUICE_KEY_BYTES_MAX;
		memmove(out, in + at, len);
		return len;
	}
	out[0] = '/';
	for (size_t from = at + 1; from <= end && at < end; from = at + 1) {
		const unsigned char *slash = memchr(in + from, '/', end - from);
		at = slash != NULL ? (size_t)(slash - in) : end;
		add_segment(&path, in + from, at - from, slash != NULL);
	}
	return path.deep > 0 ? cut_len(&path) : path.len;
}
