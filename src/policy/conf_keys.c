/* `when` and `key`: which requests a limit is for, and who is counted.
 *
 *   when = { NAME: value | [value, ...] }     value = exact | prefix*, and of `path` with parts (conf_route.c)
 *   key  = part | [part, ...]                 part  = NAME *( " | " NAME ) [ " | " DQUOTE literal DQUOTE ]
 *
 * A name is any text but white space, control characters and '|': "user, ip" is a list that lost its brackets, and a
 * limit on an attribute of that name would never apply to anybody.
 *
 * Values take the form that requests' values have (attribute.h), or no request would ever have one that is written
 * another way.
 */
#include "policy/attribute.h"
#include "policy/conf_route.h"
#include "policy/describe.h"
#include "policy/key.h"
#include "policy/lint.h"
#include "policy/route.h"

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
	struct sl_route *routes; /* of a path: each value, in the order of the file */
	uint32_t route_count;
	bool has_parts;
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
	if (attribute == SL_ATTRIBUTE_PATH)
		form = sl_attribute_path(conf->policy->settings.paths, form, prefix, memory);
	sl_lint_value(conf, node, attribute, written, form, prefix, may_hold);
	return (struct sluice_bytes){sl_pool_text(&conf->policy->pool, form), form.len};
}

/* Keeps a path as a route; `*has_parts`: neither exact nor a prefix. False where it is none, which is reported. */
static bool add_route(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes path, bool prefix,
                      struct values *values, bool *has_parts) {
	struct sl_route *route = &values->routes[values->route_count];
	if (!sl_conf_route_parts(conf, node, path, prefix, route))
		return false;
	*has_parts = route->part_count != 0;
	values->has_parts = values->has_parts || *has_parts;
	return true;
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
	bool has_parts = false, path = values->attribute == SL_ATTRIBUTE_PATH;
	if (path && !add_route(conf, node, sl_slice(text.data, stem), star != NULL, values, &has_parts))
		return;
	struct sluice_bytes copy = take_form(conf, node, values->attribute, sl_slice(text.data, stem), star != NULL);
	if (path && (copy.data == NULL || !sl_conf_route_text(conf, copy, &values->routes[values->route_count])))
		return;
	if (path && values->routes[values->route_count].ends_loosely && !has_parts)
		*values->front++ = sl_slice(copy.data, copy.len - 1);
	values->route_count += path;
	if (!has_parts)
		*(star == NULL ? values->front++ : --values->back) = copy;
}

static bool read_condition(struct sl_conf *conf, const struct sl_yaml *value, enum sl_attribute attribute,
                           struct sl_condition *condition) {
	uint32_t count = value->kind == SL_NODE_LIST ? value->count : 1;
	bool path = attribute == SL_ATTRIBUTE_PATH;
	uint32_t room = path ? 2 * count : count; /* a folder with and without its slash */
	struct sluice_bytes *list = sl_pool_take(&conf->policy->pool, room, sizeof *list);
	struct sl_route *routes = path ? sl_pool_take(&conf->policy->pool, count, sizeof *routes) : NULL;
	struct values values = {.front = list, .back = list + room, .attribute = attribute, .routes = routes};
	if (list == NULL || (path && routes == NULL))
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
	condition->prefix_count = (uint32_t)(list + room - values.back);
	condition->routes = values.routes;
	condition->route_count = values.route_count;
	condition->has_parts = values.has_parts;
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
		                "expected a literal as the last resort, behind the attributes: ip | \"unknown\"");
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
