/* ${NAME}, put in after YAML was read: what the environment says is one value, whatever marks it has, and can make no
 * keys, lists or comments. As in a shell, a default is for a name that is not set, or empty.
 *
 *   ${NAME}   ${NAME:-default}   $${ for ${        the default ends at the first }
 */
#include "policy/environment.h"

#include "base/out.h"
#include "policy/policy.h"
#include "policy/source.h"

#include <stdlib.h>

enum { NAME_BYTES_MAX = 255 };

static bool is_name_byte(char c, bool first) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* What stands between the braces. */
struct reference {
	char name[NAME_BYTES_MAX + 1];
	bool has_default;
	struct sluice_bytes otherwise;
	size_t end; /* behind its brace, from the start of the text */
};

/* Reads a reference whose dollar stands at `at`; an error's text, or NULL. */
static const char *read_reference(struct sluice_bytes text, size_t at, struct reference *reference) {
	const char *p = text.data, *close = memchr(p + at, '}', text.len - at);
	size_t name = at + 2, len = 0;
	if (close == NULL)
		return "expected } after ${NAME or ${NAME:-default";
	while (len < NAME_BYTES_MAX && is_name_byte(p[name + len], len == 0))
		len++;
	memcpy(reference->name, p + name, len);
	reference->name[len] = '\0';
	reference->end = (size_t)(close - p) + 1;
	reference->has_default = p[name + len] == ':' && p[name + len + 1] == '-';
	reference->otherwise = sl_slice(NULL, 0);
	if (reference->has_default)
		reference->otherwise = sl_slice(p + name + len + 2, (size_t)(close - p) - (name + len + 2));
	if (len == 0 || (!reference->has_default && p[name + len] != '}'))
		return "expected ${NAME} or ${NAME:-default}: a name of letters, digits and _ ($${ means ${)";
	return NULL;
}

/* The value of a reference; data NULL where there is none. */
static struct sluice_bytes value_of(const struct reference *reference) {
	const char *value = getenv(reference->name);
	if (reference->has_default && (value == NULL || *value == '\0'))
		return reference->otherwise.len == 0 ? sl_slice("", 0) : reference->otherwise;
	return value == NULL ? sl_slice(NULL, 0) : sl_str(value);
}

/* Is a value text that a file could have? A variable may hold any bytes. */
static bool is_text(struct sluice_bytes value) {
	struct sl_report ignored = {0};
	bool good = value.len == 0 || sl_source_check(value, &ignored);
	sl_report_free(&ignored);
	return good && memchr(value.len == 0 ? "" : value.data, '\n', value.len) == NULL;
}

/* Appends one reference, and moves *at after it. Where it can't be, that is reported. */
static void add_reference(struct sl_report *report, const struct sl_yaml *node, size_t *at, struct sl_out *out) {
	struct reference reference;
	const char *wrong = read_reference(node->text, *at, &reference);
	struct sl_position place = sl_node_place(node, *at);
	if (wrong != NULL) {
		sl_report_error(report, place, "%s", wrong);
		return;
	}
	struct sluice_bytes value = value_of(&reference);
	if (value.data == NULL)
		sl_report_error(report, place, "the environment has no %s: expected it to be set, or a default: ${%s:-...}",
		                sl_quote(sl_str(reference.name)).text, reference.name);
	else if (!is_text(value))
		sl_report_error(report, place, "expected one line of UTF-8 text in the environment's %s", reference.name);
	else
		sl_out_bytes(out, value.data, value.len);
	*at = reference.end;
}

enum what { BYTE, ESCAPE, REFERENCE };

static enum what what_is_at(struct sluice_bytes text, size_t at) {
	const char *p = (const char *)text.data + at;
	if (text.len - at >= 3 && memcmp(p, "$${", 3) == 0)
		return ESCAPE;
	return text.len - at >= 2 && memcmp(p, "${", 2) == 0 ? REFERENCE : BYTE;
}

/* Writes the text with all its references; false where one can't be read. */
static bool expand(struct sl_report *report, const struct sl_yaml *node, struct sl_out *out) {
	const char *p = node->text.data;
	size_t mistakes = report->error_count;
	for (size_t at = 0; at < node->text.len && report->error_count == mistakes;)
		switch (what_is_at(node->text, at)) {
		case ESCAPE:
			sl_out_bytes(out, "${", 2);
			at += 3;
			break;
		case REFERENCE:
			add_reference(report, node, &at, out);
			break;
		default:
			sl_out_char(out, p[at++]);
		}
	return report->error_count == mistakes;
}

/* How many bytes the values of a text's references have, up to one that can't be read: what it grows by at most. */
static size_t measure(struct sluice_bytes text) {
	struct reference reference;
	size_t bytes = 0;
	for (size_t at = 0; at < text.len;) {
		enum what what = what_is_at(text, at);
		if (what == REFERENCE && read_reference(text, at, &reference) != NULL)
			break;
		bytes += what == REFERENCE ? value_of(&reference).len : 0;
		at = what == REFERENCE ? reference.end : what == ESCAPE ? at + 3 : at + 1;
	}
	return bytes;
}

void sl_environment_expand(struct sl_pool *pool, struct sl_report *report, struct sl_yaml *node, size_t *room) {
	if (node->text.len < 2 || strstr(node->text.data, "${") == NULL)
		return;
	size_t grows = measure(node->text);
	if (grows > *room) {
		sl_report_error(report, node->place, "expected values of at most %d bytes in all from the environment",
		                SL_POLICY_FILE_BYTES_MAX);
		node->kind = SL_NODE_REFUSED;
		return;
	}
	char *text = sl_pool_take(pool, node->text.len + grows + 1, 1);
	if (text == NULL)
		return;
	struct sl_out out = sl_out_to(text, node->text.len + grows);
	bool is_whole = expand(report, node, &out);
	if (is_whole && out.overflow) /* a program's other thread sets what this one reads: no reason to end the program */
		sl_report_error(report, node->place, "the environment was changed while the policy was read");
	if (!is_whole || out.overflow) {
		node->kind = SL_NODE_REFUSED;
		return;
	}
	*room -= grows;
	node->text = sl_slice(text, sl_out_len(&out));
	node->plain = true;
	node->verbatim = false;
}
