/* Two spellings of one path must be one path here, or a client picks the spelling that no limit knows.
 *
 * One pass, left to right, in RFC 3986's order: decode (6.2.2.2), then look at segments (6.2.2.3). A segment is judged
 * when its end is met: "." goes, ".." takes the segment before it along. Slashes are joined before dot segments are
 * resolved, as servers do it: /a//../b is /b.
 *
 * Invariant: out[0..len) is normal, and what is written never overtakes what is read, so that out may be the input. All
 * that ".." removes was written once: O(n).
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

/* The character at the start of the text, decoded where that is ours to do; how many bytes it took is in *used. */
static char decode(const unsigned char *p, size_t len, size_t *used) {
	*used = 1;
	if (p[0] != '%' || len < 3)
		return (char)p[0];
	int high = hex_digit(p[1]), low = hex_digit(p[2]);
	if (high < 0 || low < 0 || !is_unreserved((unsigned char)(high << 4 | low)))
		return (char)p[0];
	*used = 3;
	return (char)(high << 4 | low);
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

/* Ends the segment that began at out[start], where out[start - 1] is its slash; returns the new length. */
static size_t end_segment(const char *out, size_t start, size_t len) {
	size_t segment = len - start;
	if (segment == 1 && out[start] == '.')
		return start;
	if (segment != 2 || out[start] != '.' || out[start + 1] != '.')
		return len;
	len = start;
	if (len > 1)
		for (len--; out[len - 1] != '/';)
			len--;
	return len;
}

static size_t cut(size_t len) {
	return len < SLUICE_KEY_BYTES_MAX ? len : SLUICE_KEY_BYTES_MAX;
}

size_t sl_path_normalise(struct sluice_bytes target, char *out) {
	const unsigned char *in = target.len == 0 ? (const void *)"" : target.data;
	size_t at = authority_len(target), used;
	size_t end = at + path_len(sl_slice(in + at, target.len - at));
	size_t len = 1, start = 1; /* the segment being written begins at out[start] */
	if (at == end) {
		out[0] = '/';
		return 1;
	}
	if (in[at] != '/') {
		memmove(out, in + at, end - at);
		return cut(end - at);
	}
	out[0] = '/';
	for (at++; at < end; at += used) {
		char c = decode(in + at, end - at, &used);
		if (c != '/') {
			out[len++] = c;
			continue;
		}
		len = end_segment(out, start, len);
		if (out[len - 1] != '/')
			out[len++] = '/';
		start = len;
	}
	return cut(end_segment(out, start, len));
}
