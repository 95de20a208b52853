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

static void json_value(struct sl_out *out, const struct sl_yaml *value) {
	const char *before = "[";
	if (value->kind == SL_NODE_TEXT)
		json_text(out, value->text);
	if (value->kind != SL_NODE_LIST)
		return;
	for (const struct sl_yaml *node = value->first; node != NULL; node = node->next) {
		if (node->kind != SL_NODE_TEXT)
			continue;
		sl_out_str(out, before);
		json_text(out, node->text);
		before = ",";
	}
	sl_out_str(out, *before == ',' ? "]" : "[]");
}

/* The most bytes that a text and the marks around it can take. */
static size_t json_bytes(const struct sl_yaml *node) {
	return 6 * node->text.len + 4;
}

static size_t json_bytes_when(const struct sl_yaml *when) {
	size_t bytes = 3;
	for (const struct sl_yaml *node = when->first; node != NULL; node = node->next) {
		bytes += json_bytes(node);
		for (const struct sl_yaml *value = node->first; value != NULL; value = value->next)
			bytes += json_bytes(value);
	}
	return bytes;
}

const char *sl_describe_when(struct sl_pool *pool, const struct sl_yaml *when) {
	const char *before = "{";
	if (when == NULL || when->kind != SL_NODE_MAP || when->first == NULL)
		return "{}";
	size_t bytes = json_bytes_when(when);
	char *text = sl_pool_take(pool, bytes, 1);
	if (text == NULL)
		return NULL;
	struct sl_out out = sl_out_to(text, bytes);
	for (const struct sl_yaml *key = sl_map_first(when); key != NULL; key = sl_map_next(key)) {
		if (key->kind != SL_NODE_TEXT || (key->next->kind != SL_NODE_TEXT && key->next->kind != SL_NODE_LIST))
			continue;
		sl_out_str(&out, before);
		json_text(&out, key->text);
		sl_out_char(&out, ':');
		json_value(&out, key->next);
		before = ",";
	}
	sl_out_str(&out, *before == ',' ? "}" : "{}");
	sl_out_char(&out, '\0');
	return text;
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

const char *sl_describe_key(struct sluice_policy *policy, const struct sl_ruleset_limit *limit) {
	const size_t bytes = (size_t)SL_POLICY_KEY_PARTS_MAX * (SL_CHOICES_MAX + 1) * (SLUICE_NAME_BYTES_MAX + 5);
	char text[SL_POLICY_KEY_PARTS_MAX * (SL_CHOICES_MAX + 1) * (SLUICE_NAME_BYTES_MAX + 5)];
	struct sl_out out = sl_out_to(text, bytes);
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
