/* `when` and `key`: which requests a limit is for, and who is counted.
 *
 *   when = { NAME: value | [value, ...] }     value = exact | prefix*
 *   key  = part | [part, ...]                 part  = NAME *( " | " NAME )
 *
 * A name is any text but white space, control characters and '|': "user, ip" is a list that lost its brackets, and a
 * limit on an attribute of that name would never apply to anybody.
 *
 * Values take the form that requests' values have (attribute.h), or no request would ever have one that is written
 * another way.
 */
#include "policy/attribute.h"
#include "policy/conf.h"
#include "policy/describe.h"
#include "policy/lint.h"

#include <stdlib.h>

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

/* ---- when ------------------------------------------------------------------------------------------------------ */

/* The exact values of a condition are laid out from the front of one array, the prefixes from its back. */
struct values {
	struct sluice_bytes *front, *back;
	enum sl_attribute attribute;
};

/* Writes a value, or a prefix, in the form that the attribute's values have. */
static struct sluice_bytes take_form(struct sl_conf *conf, const struct sl_yaml *node, enum sl_attribute attribute,
                                     struct sluice_bytes written, bool prefix) {
	char memory[SLUICE_KEY_BYTES_MAX];
	struct sluice_bytes form = written;
	bool may_hold = true;
	if (prefix)
		may_hold = sl_attribute_prefix_form(attribute, &form, memory);
	else
		form = sl_attribute_form(attribute, written, conf->policy->settings.ipv6_prefix, memory);
	sl_lint_value(conf, node, attribute, written, form, prefix, may_hold);
	return (struct sluice_bytes){sl_pool_text(&conf->policy->pool, form), form.len};
}

static void read_value(struct sl_conf *conf, const struct sl_yaml *node, struct values *values) {
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "a value, a prefix* or a list of those", &text))
		return;
	const char *star = memchr(text.data, '*', text.len);
	size_t stem = star == NULL ? text.len : (size_t)(star - (const char *)text.data);
	if (star != NULL && stem + 1 != text.len) {
		sl_report_found(conf->report, sl_node_place(node, stem), text, "expected * at the end only");
		return;
	}
	if (stem > SLUICE_KEY_BYTES_MAX) {
		sl_report_error(conf->report, node->place, "expected a value of at most %d bytes, found %zu",
		                SLUICE_KEY_BYTES_MAX, stem);
		return;
	}
	struct sluice_bytes copy = take_form(conf, node, values->attribute, sl_slice(text.data, stem), star != NULL);
	*(star == NULL ? values->front++ : --values->back) = copy;
}

static bool read_condition(struct sl_conf *conf, const struct sl_yaml *value, enum sl_attribute attribute,
                           struct sl_condition *condition) {
	uint32_t count = value->kind == SL_NODE_LIST ? value->count : 1;
	struct sluice_bytes *list = sl_pool_take(&conf->policy->pool, count, sizeof *list);
	struct values values = {list, list + count, attribute};
	if (list == NULL)
		return false;
	if (value->kind != SL_NODE_LIST)
		read_value(conf, value, &values);
	else if (value->first == NULL && !value->cut)
		sl_report_error(conf->report, value->place, "expected at least one value, found an empty list");
	for (const struct sl_yaml *node = value->first; value->kind == SL_NODE_LIST && node != NULL; node = node->next)
		read_value(conf, node, &values);
	condition->exact = list;
	condition->exact_count = (uint32_t)(values.front - list);
	condition->prefixes = values.back;
	condition->prefix_count = (uint32_t)(list + count - values.back);
	qsort(list, condition->exact_count, sizeof *list, sl_value_compare);
	return !conf->policy->pool.failed;
}

static bool is_repeated(const struct sl_condition *list, uint32_t count, uint16_t number) {
	for (uint32_t i = 0; i < count; i++)
		if (list[i].attribute == number)
			return true;
	return false;
}

void sl_conf_when(struct sl_conf *conf, const struct sl_yaml *node, struct sl_when *when) {
	if (!sl_conf_expect(conf, node, SL_NODE_MAP, "conditions, such as {method: POST, path: /a*}"))
		return;
	if (node->count / 2 > SL_CONDITIONS_MAX) {
		sl_report_error(conf->report, node->place, "expected at most %d conditions, found %u", SL_CONDITIONS_MAX,
		                node->count / 2);
		return;
	}
	struct sl_condition *list = sl_pool_take(&conf->policy->pool, node->count / 2, sizeof *list);
	if (list == NULL)
		return;
	when->list = list;
	for (const struct sl_yaml *key = sl_map_first(node); key != NULL; key = sl_map_next(key)) {
		struct sl_condition *condition = &list[when->count];
		if (!sl_conf_expect(conf, key, SL_NODE_TEXT, "the name of an attribute"))
			continue;
		uint16_t number = sl_conf_name(conf, key, 0, key->text);
		if (number != SL_NAME_NONE && is_repeated(list, when->count, number))
			sl_report_error(conf->report, key->place, "duplicate key %s in when", sl_quote(key->text).text);
		else if (read_condition(conf, key->next, sl_attribute_find(key->text), condition) && number != SL_NAME_NONE) {
			condition->attribute = number;
			when->count++;
		}
	}
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

static void add_choice(struct sl_conf *conf, const struct sl_yaml *node, size_t offset, struct sluice_bytes name,
                       struct sl_key_part *part) {
	name = trim(name, &offset);
	uint16_t number = sl_conf_name(conf, node, offset, name);
	if (number == SL_NAME_NONE)
		return;
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
		add_choice(conf, node, (size_t)(at - start), sl_slice(at, (size_t)((bar == NULL ? end : bar) - at)), part);
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
