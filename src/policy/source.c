/* One pass over the raw bytes, so that every complaint about them has a line and a column.
 *
 * Why not leave it to libyaml: its reader names a byte offset only, reads UTF-16 in silence, and compares each %TAG
 * directive with all before it, which four megabytes of them turn into minutes.
 */
#include "policy/source.h"

#include "policy/policy.h"

size_t sl_source_decode(struct sluice_bytes text, uint32_t *code) {
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = text.data;
	size_t len = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
	if (len == 0 || len > text.len)
		return 0;
	uint32_t n = len == 1 ? p[0] : p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		n = n << 6 | (p[i] & 0x3fu);
	}
	if (n < least[len] || n > 0x10ffff || n >> 11 == 0x1b) /* 0x1b: D800..DFFF, the surrogates */
		return 0;
	*code = n;
	return len;
}

size_t sl_source_characters(const char *text, size_t bytes) {
	size_t count = 0;
	for (size_t i = 0; i < bytes; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

/* YAML 1.1, production c-printable, without the byte order mark inside a file. */
static bool is_printable(uint32_t code) {
	if (code < 0x20)
		return code == '\t' || code == '\n' || code == '\r';
	return code != 0x7f &&
	       (code < 0x80 || code == 0x85 || (code >= 0xa0 && code < 0xfffe && code != 0xfeff) || code >= 0x10000);
}

static bool is_utf16(struct sluice_bytes yaml) {
	const unsigned char *p = yaml.data;
	return yaml.len >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff));
}

static bool is_refused_directive(struct sluice_bytes rest) {
	return *(const char *)rest.data == '%' && (rest.len < 6 || memcmp(rest.data, "%YAML ", 6) != 0);
}

/* Moves a place past a character. A line ends as YAML says: LF, CR, CR LF, NEL, LS or PS. */
static void place_advance(struct sl_position *place, uint32_t code, bool before_lf) {
	bool ends = code == '\n' || (code == '\r' && !before_lf) || code == 0x85 || code == 0x2028 || code == 0x2029;
	place->line += ends;
	place->column = ends ? 1 : place->column + 1;
}

size_t sl_source_mark(struct sluice_bytes yaml) {
	return yaml.len >= 3 && memcmp(yaml.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool check_bytes(struct sluice_bytes yaml, struct sl_report *report) {
	const char *bytes = yaml.data;
	struct sl_position place = {1, 1};
	size_t at = sl_source_mark(yaml);
	while (at < yaml.len) {
		struct sluice_bytes rest = {bytes + at, yaml.len - at};
		uint32_t code = 0;
		size_t len = sl_source_decode(rest, &code);
		if (len == 0) {
			sl_report_error(report, place, "expected UTF-8 text, found the byte 0x%02x", (unsigned char)bytes[at]);
			return false;
		}
		if (!is_printable(code)) {
			sl_report_error(report, place, "expected printable text, found the character U+%04X%s", code,
			                code == 0 ? " (NUL)" : "");
			return false;
		}
		if (place.column == 1 && is_refused_directive(rest)) {
			sl_report_error(report, place, "expected no directive, found a line that begins with '%%'");
			return false;
		}
		at += len;
		place_advance(&place, code, at < yaml.len && bytes[at] == '\n');
	}
	return true;
}

bool sl_source_check(struct sluice_bytes yaml, struct sl_report *report) {
	const struct sl_position start = {1, 1};
	if (yaml.len > SL_POLICY_FILE_BYTES_MAX) {
		sl_report_error(report, start, "expected a file of at most %d bytes", SL_POLICY_FILE_BYTES_MAX);
		return false;
	}
	if (is_utf16(yaml)) {
		sl_report_error(report, start, "expected UTF-8 text, found UTF-16: save the file as UTF-8");
		return false;
	}
	return check_bytes(yaml, report);
}

bool sl_source_tab_indents(struct sluice_bytes yaml, uint32_t line) {
	const char *at = yaml.data, *end = at + yaml.len;
	for (uint32_t skipped = 1; skipped < line && at < end; skipped++) {
		const char *feed = memchr(at, '\n', (size_t)(end - at));
		at = feed == NULL ? end : feed + 1;
	}
	while (at < end && *at == ' ')
		at++;
	return at < end && *at == '\t';
}
