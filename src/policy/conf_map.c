/* Mappings by table, texts, and what was expected in their place. No section is named here: those stand above. */
#include "base/assert.h"
#include "base/out.h"
#include "policy/conf.h"
#include "policy/nearest.h"

#include <stdio.h>

static const char *field_at(const void *table, size_t index) {
	return ((const struct sl_field *)table)[index].name;
}

enum { LISTED_BYTES_MAX = 200 }; /* of a table's keys: the rest of a problem's text is for what was found */

/* The keys of a table, or, where they are many, the first of them. */
static void put_keys(struct sl_out *out, const struct sl_field *fields) {
	static const char others[] = " or one of sluice.yaml(5)";
	for (size_t i = 0; fields[i].name != NULL; i++) {
		bool last = fields[i + 1].name == NULL;
		size_t room = strlen(fields[i].name) + 4 + (last ? 0 : sizeof others);
		if (sl_out_len(out) + room > LISTED_BYTES_MAX) {
			sl_out_str(out, others);
			return;
		}
		sl_out_str(out, i == 0 ? "" : last ? " or " : ", ");
		sl_out_str(out, fields[i].name);
	}
}

/* Says what was meant, where that is near; returns it. */
static const char *report_unknown(struct sl_conf *conf, const struct sl_yaml *key, const char *what,
                                  const struct sl_field *fields) {
	char text[256];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	const char *nearest = sl_report_is_full(conf->report) ? NULL : sl_nearest(key->text, field_at, fields);
	const char *space = conf->hushed ? "" : " ";
	struct sl_quoted found = conf->hushed ? (struct sl_quoted){""} : sl_quote(key->text);
	if (nearest != NULL) {
		sl_report_error(conf->report, key->place, "unknown key%s%s in %s: did you mean '%s'?", space, found.text, what,
		                nearest);
		return nearest;
	}
	put_keys(&out, fields);
	*out.at = '\0';
	sl_report_error(conf->report, key->place, "unknown key%s%s in %s: expected %s", space, found.text, what, text);
	return NULL;
}

static size_t field_find(const struct sl_field *fields, struct sluice_bytes name) {
	size_t i = 0;
	while (fields[i].name != NULL && !sl_bytes_equal(name, sl_str(fields[i].name)))
		i++;
	return i;
}

/* A key that is there under a mistyped name (`meant`, a bit a field) is one mistake, not two. */
static void report_missing(struct sl_conf *conf, const struct sl_yaml *node, const char *what,
                           const struct sl_field *fields, const struct sl_yaml *const *seen, uint32_t meant) {
	for (size_t i = 0; fields[i].name != NULL && !node->cut; i++)
		if (fields[i].required != NULL && seen[i] == NULL && (meant & 1u << i) == 0)
			sl_report_error(conf->report, node->place, "missing key '%s' in %s: expected %s", fields[i].name, what,
			                fields[i].required);
}

void sl_conf_map(struct sl_conf *conf, const struct sl_yaml *node, const char *what, const struct sl_field *fields,
                 void *into) {
	const struct sl_yaml *seen[32] = {NULL};
	uint32_t meant = 0;
	char expected[64];
	snprintf(expected, sizeof expected, "a mapping with the keys of %s", what);
	if (!sl_conf_expect(conf, node, SL_NODE_MAP, expected))
		return;
	for (const struct sl_yaml *key = sl_map_first(node); key != NULL; key = sl_map_next(key)) {
		if (!sl_conf_expect(conf, key, SL_NODE_TEXT, "a key"))
			continue;
		size_t i = field_find(fields, key->text);
		SL_ASSERT(i < 32);
		if (fields[i].name == NULL) {
			const char *nearest = report_unknown(conf, key, what, fields);
			meant |= nearest == NULL ? 0 : 1u << field_find(fields, sl_str(nearest));
		} else if (seen[i] != NULL) {
			sl_report_error(conf->report, key->place, "duplicate key '%s' in %s: first in line %u", fields[i].name,
			                what, seen[i]->place.line);
		} else {
			seen[i] = key;
		}
	}
	for (size_t i = 0; fields[i].name != NULL; i++)
		if (seen[i] != NULL)
			fields[i].read(conf, seen[i]->next, (char *)into + fields[i].offset);
	report_missing(conf, node, what, fields, seen, meant);
}

bool sl_conf_expect(struct sl_conf *conf, const struct sl_yaml *node, enum sl_node_kind kind, const char *expected) {
	const char *found = node->kind == SL_NODE_LIST ? "a list" : node->kind == SL_NODE_MAP ? "a mapping" : "nothing";
	struct sl_quoted quoted;
	if (node->kind == kind)
		return true;
	if (node->kind == SL_NODE_REFUSED)
		return false;
	if (node->kind == SL_NODE_TEXT && node->text.len != 0) {
		quoted = sl_quote(node->text);
		found = conf->hushed ? "a text" : quoted.text;
	}
	sl_report_error(conf->report, node->place, "expected %s, found %s", expected, found);
	return false;
}

bool sl_conf_text(struct sl_conf *conf, const struct sl_yaml *node, const char *expected, struct sluice_bytes *text) {
	if (!sl_conf_expect(conf, node, SL_NODE_TEXT, expected))
		return false;
	if (sl_node_is_null(node)) {
		sl_report_error(conf->report, node->place, "expected %s, found nothing%s", expected,
		                node->text.len == 0 ? "" : " (null; quote it to mean the word)");
		return false;
	}
	*text = node->text;
	return true;
}
