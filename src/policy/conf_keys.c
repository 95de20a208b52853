/* `key`: who is counted; and names of attributes, wherever they stand.
 *
 *   key  = part | [part, ...]                 part  = NAME *( " | " NAME ) [ " | " DQUOTE literal DQUOTE ]
 *
 * A name is any text but white space, control characters and '|': "user, ip" is a list that lost its brackets, and a
 * limit on an attribute of that name would never apply to anybody.
 */
#include "policy/describe.h"
#include "policy/key.h"
#include "policy/lint.h"

static bool is_name_byte(unsigned char c) {
	return c > ' ' && c != 0x7f && c != '|';
}

uint16_t sl_conf_name(struct sl_conf *conf, const struct sl_yaml *node, size_t offset, struct sluice_bytes name) {
	const unsigned char *p = name.data;
	size_t good = 0;
	while (good < name.len && is_name_byte(p[good]))
		good++;
	if (name.len == 0) {
		sl_report_error(conf->report, sl_node_place(node, offset), "expected the name of an attribute, found nothing");
	} else if (good < name.len) {
		sl_report_found(conf->report, sl_node_place(node, offset + good), name,
		                "expected an attribute's name, without spaces and | (fallbacks: user | ip; parts: [ip, path])");
	} else if (name.len > SLUICE_NAME_BYTES_MAX) {
		sl_report_error(conf->report, sl_node_place(node, offset),
		                "expected the name of an attribute, at most %d bytes, found %zu", SLUICE_NAME_BYTES_MAX,
		                name.len);
	} else {
		uint16_t number = sl_name_intern(conf->policy, name);
		if (number != SL_NAME_NONE && conf->first_use != NULL && !conf->optional && conf->first_use[number].line == 0)
			conf->first_use[number] = offset == 0 ? node->place : sl_node_place(node, offset);
		if (number == SL_NAME_NONE && !conf->policy->pool.failed)
			sl_report_found(conf->report, sl_node_place(node, offset), name,
			                "expected at most %d different attributes in a file", SL_ATTRIBUTES_MAX);
		return number;
	}
	return SL_NAME_NONE;
}

/* ---- key ------------------------------------------------------------------------------------------------------- */

static struct sluice_bytes trim(struct sluice_bytes text, size_t *offset) {
	const char *p = text.data;
	while (text.len > 0 && *p == ' ')
		p++, text.len--, (*offset)++;
	while (text.len > 0 && p[text.len - 1] == ' ')
		text.len--;
	return sl_slice(p, text.len);
}

/* A literal: what a request counts as that has none of the attributes before it. `text` has its quotes. */
static void add_literal(struct sl_conf *conf, const struct sl_yaml *node, size_t offset, struct sluice_bytes text,
                        bool last, struct sl_key_part *part) {
	char encoded[3 * SLUICE_NAME_BYTES_MAX + 1];
	struct sl_out out = sl_out_to(encoded, sizeof encoded);
	const char *p = text.data;
	size_t good = 1;
	while (good < text.len && p[good] >= 0x20 && p[good] < 0x7f && p[good] != '"')
		good++;
	if (text.len < 3 || good + 1 != text.len || text.len - 2 > SLUICE_NAME_BYTES_MAX) {
		sl_report_found(conf->report, sl_node_place(node, offset), text,
		                "expected a literal of 1 to %d printable ASCII characters in quotes, such as \"unknown\"",
		                SLUICE_NAME_BYTES_MAX);
		return;
	}
	if (!last || part->count == 0) {
		sl_report_found(conf->report, sl_node_place(node, offset), text,
		                "expected a literal as the last fallback, after the attributes: ip | \"unknown\"");
		return;
	}
	sl_out_char(&out, '=');
	sl_key_encode(&out, sl_slice(p + 1, text.len - 2));
	part->literal = sl_slice(sl_pool_text(&conf->policy->pool, sl_slice(encoded, sl_out_len(&out))), sl_out_len(&out));
	part->written = sl_slice(sl_pool_text(&conf->policy->pool, text), text.len);
}

static void add_choice(struct sl_conf *conf, const struct sl_yaml *node, size_t offset, struct sluice_bytes name,
                       struct sl_key_part *part) {
	uint16_t number = sl_conf_name(conf, node, offset, name);
	if (number == SL_NAME_NONE)
		return;
	conf->policy->names[number].in_key |= !conf->optional;
	for (uint32_t i = 0; i < part->count; i++)
		if (part->choices[i] == number) {
			sl_report_found(conf->report, sl_node_place(node, offset), name, "expected each fallback once");
			return;
		}
	if (part->count == SL_CHOICES_MAX)
		sl_report_found(conf->report, sl_node_place(node, offset), name, "expected at most %d fallbacks",
		                SL_CHOICES_MAX);
	else
		part->choices[part->count++] = number;
}

static void read_part(struct sl_conf *conf, const struct sl_yaml *node, struct sl_key_part *part) {
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "an attribute such as ip, or fallbacks such as user | ip", &text))
		return;
	const char *start = text.data, *end = start + text.len, *at = start;
	const size_t errors = conf->report->error_count;
	while (at != NULL && conf->report->error_count < errors + SL_CHOICES_MAX) { /* a bound on complaints, too */
		const char *bar = memchr(at, '|', (size_t)(end - at));
		size_t offset = (size_t)(at - start);
		struct sluice_bytes choice = trim(sl_slice(at, (size_t)((bar == NULL ? end : bar) - at)), &offset);
		if (choice.len != 0 && *(const char *)choice.data == '"')
			add_literal(conf, node, offset, choice, bar == NULL, part);
		else
			add_choice(conf, node, offset, choice, part);
		at = bar == NULL ? NULL : bar + 1;
	}
	if (conf->report->error_count == errors)
		sl_lint_part(conf, node, part);
}

void sl_conf_key(struct sl_conf *conf, const struct sl_yaml *node, struct sl_ruleset_limit *limit) {
	static const char expected[] = "an attribute, fallbacks such as user | ip, or a list of those";
	bool list = node->kind == SL_NODE_LIST;
	if (!list && !sl_conf_expect(conf, node, SL_NODE_TEXT, expected))
		return;
	if (list && node->count > SL_POLICY_KEY_PARTS_MAX) {
		sl_report_error(conf->report, node->place, "expected at most %d parts of a key, found %u",
		                SL_POLICY_KEY_PARTS_MAX, node->count);
		return;
	}
	struct sl_key_part *parts = sl_pool_take(&conf->policy->pool, list ? node->count : 1, sizeof *parts);
	limit->parts = parts;
	if (parts == NULL)
		return;
	if (!list)
		read_part(conf, node, &parts[limit->part_count++]);
	for (const struct sl_yaml *part = node->first; list && part != NULL; part = part->next)
		read_part(conf, part, &parts[limit->part_count++]);
}
