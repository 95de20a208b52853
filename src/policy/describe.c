/* Texts that are made once, when a policy is loaded, so that no door has to build them for each request. */
#include "policy/describe.h"

#include "base/out.h"

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void json_text(struct sl_out *out, struct sluice_bytes text) {
	const unsigned char *p = text.data;
	char escape[6] = "\\u";
	sl_out_char(out, '"');
	for (size_t i = 0; i < text.len; i++) {
		if (p[i] == '"' || p[i] == '\\')
			sl_out_char(out, '\\');
		if (p[i] < 0x20)
			sl_out_bytes(out, escape, (size_t)(sl_hex(escape + 2, p[i], 4) - escape));
		else
			sl_out_char(out, (char)p[i]);
	}
	sl_out_char(out, '"');
}

static bool is_value(const struct sl_yaml *node) {
	return node->kind == SL_NODE_TEXT || node->kind == SL_NODE_LIST || node->kind == SL_NODE_MAP;
}

/* The most bytes that a node takes, with the marks around it. Trees are as deep as tree.h lets them be. */
static size_t json_bytes(const struct sl_yaml *node) {
	size_t bytes = 6 * node->text.len + 4;
	for (const struct sl_yaml *inside = node->first; inside != NULL; inside = inside->next)
		bytes += json_bytes(inside);
	return bytes;
}

static void json_node(struct sl_out *out, const struct sl_yaml *node);

static void json_map(struct sl_out *out, const struct sl_yaml *node) {
	const char *before = "{";
	for (const struct sl_yaml *key = sl_map_first(node); key != NULL; key = sl_map_next(key)) {
		if (key->kind != SL_NODE_TEXT || !is_value(key->next))
			continue;
		sl_out_str(out, before);
		json_text(out, key->text);
		sl_out_char(out, ':');
		json_node(out, key->next);
		before = ",";
	}
	sl_out_str(out, *before == ',' ? "}" : "{}");
}

static void json_list(struct sl_out *out, const struct sl_yaml *node) {
	const char *before = "[";
	for (const struct sl_yaml *inside = node->first; inside != NULL; inside = inside->next) {
		if (!is_value(inside))
			continue;
		sl_out_str(out, before);
		json_node(out, inside);
		before = ",";
	}
	sl_out_str(out, *before == ',' ? "]" : "[]");
}

static void json_node(struct sl_out *out, const struct sl_yaml *node) {
	if (node->kind == SL_NODE_TEXT)
		json_text(out, node->text);
	else if (node->kind == SL_NODE_LIST)
		json_list(out, node);
	else
		json_map(out, node);
}

const char *sl_describe_when(struct sl_pool *pool, const struct sl_yaml *when) {
	if (when == NULL || when->kind != SL_NODE_MAP || when->first == NULL)
		return "{}";
	size_t bytes = json_bytes(when) + 1;
	char *text = sl_pool_take(pool, bytes, 1);
	if (text == NULL)
		return NULL;
	struct sl_out out = sl_out_to(text, bytes);
	json_map(&out, when);
	sl_out_char(&out, '\0');
	return text;
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

const char *sl_describe_key(struct sluice_policy *policy, const struct sl_ruleset_limit *limit) {
	char text[SL_POLICY_KEY_PARTS_MAX * (SL_CHOICES_MAX + 1) * (SLUICE_NAME_BYTES_MAX + 5)];
	struct sl_out out = sl_out_to(text, sizeof text);
	for (uint32_t i = 0; i < limit->part_count; i++) {
		sl_out_str(&out, i == 0 ? "" : ", ");
		for (uint32_t j = 0; j < limit->parts[i].count; j++) {
			struct sluice_bytes name = policy->names[limit->parts[i].choices[j]].text;
			sl_out_str(&out, j == 0 ? "" : " | ");
			sl_out_bytes(&out, name.data, name.len);
		}
		if (limit->parts[i].literal.data != NULL)
			sl_out_str(&out, " | ");
		sl_out_bytes(&out, limit->parts[i].written.data, limit->parts[i].written.len);
	}
	return sl_pool_text(&policy->pool, sl_slice(text, sl_out_len(&out)));
}
