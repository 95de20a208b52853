/* The request of a log line, "GET /a HTTP/1.1", and how a line is refused, whatever its format. */
#include "base/out.h"
#include "proto/logline.h"

enum { METHOD_BYTES_MAX = 32 };

bool sl_logline_refuse(struct sluice_error *error, size_t column, const char *text) {
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	error->column = (uint32_t)column;
	sl_out_str(&out, text);
	*out.at = '\0';
	return false;
}

bool sl_logline_is_method(struct sluice_bytes text) {
	const char *p = text.data;
	if (text.len == 0 || text.len > METHOD_BYTES_MAX)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		bool letter = (p[i] >= 'A' && p[i] <= 'Z') || (p[i] >= 'a' && p[i] <= 'z');
		if (!letter && p[i] != '-' && p[i] != '_')
			return false;
	}
	return true;
}

/* http://host/path: the host; the path keeps the whole target, which whoever normalises it understands. */
void sl_logline_target_host(struct sluice_bytes target, struct sl_logline *out) {
	if (target.len == 0 || *(const char *)target.data == '/')
		return;
	const char *at = target.data, *end = at + target.len, *scheme = memmem(at, target.len, "://", 3);
	if (scheme == NULL || memchr(at, '?', (size_t)(scheme - at)) != NULL)
		return;
	const char *from = scheme + 3, *to = from;
	while (to < end && *to != '/' && *to != '?' && *to != '#')
		to++;
	if (to > from)
		out->host = sl_slice(from, (size_t)(to - from));
}

void sl_logline_request(struct sluice_bytes text, struct sl_logline *out) {
	if (text.len == 0)
		return;
	const char *start = text.data, *end = start + text.len, *at = start, *from, *to = end;
	while (at < end && *at != ' ' && *at != '\t')
		at++;
	struct sluice_bytes method = sl_slice(start, (size_t)(at - start));
	if (at == end || !sl_logline_is_method(method))
		return;
	from = at + 1;
	/* the target ends at the last " HTTP/": clients do send spaces in it; HTTP/0.9 names no version */
	for (const char *p = end - 1; p >= from; p--) {
		if (*p == ' ' && end - p > 6 && memcmp(p, " HTTP/", 6) == 0) {
			to = p;
			break;
		}
	}
	if (to == from)
		return;
	out->method = method;
	out->path = sl_slice(from, (size_t)(to - from));
	sl_logline_target_host(out->path, out);
}
