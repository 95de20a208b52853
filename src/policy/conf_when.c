/* `when`: which requests a limit is for.
 *
 *   when  = { NAME: value | [value, ...], not: none | [none, ...] }      none = when without `not`
 *   value = exact | prefix*, of `path` with parts (conf_route.c), of `host` *.suffix, of `ip` a network
 *
 * Values take the form that requests' values have (attribute.h), or no request would ever have one that is written
 * another way.
 */
#include "policy/attribute.h"
#include "policy/conf_route.h"
#include "policy/lint.h"
#include "policy/route.h"

#include <stdlib.h>

/* The exact values of a condition are laid out from the front of one array, the prefixes from its back. */
struct values {
	struct sluice_bytes *front, *back;
	enum sl_attribute attribute;
	struct sl_route *routes; /* of a path: each value, in the order of the file */
	uint32_t route_count;
	bool has_parts;
	struct sluice_bytes *suffixes; /* of a host */
	struct sl_network *networks;   /* of an ip */
	uint32_t suffix_count, network_count;
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

/* *.example.com: what stands before the dot is any name, of any number of labels. */
static void read_suffix(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes text,
                        struct values *values) {
	char starred[SLUICE_KEY_BYTES_MAX];
	struct sluice_bytes name = sl_slice((const char *)text.data + 2, text.len - 2);
	if (name.len == 0 || name.len > sizeof starred - 2 || memchr(name.data, '*', name.len) != NULL) {
		sl_report_found(conf->report, node->place, text, "expected the end of a host's name, such as *.example.com");
		return;
	}
	struct sluice_bytes form = take_form(conf, node, SL_ATTRIBUTE_HOST, name, false);
	if (form.data == NULL)
		return;
	memcpy(starred, "*.", 2);
	memcpy(starred + 2, form.data, form.len);
	const char *kept = sl_pool_text(&conf->policy->pool, sl_slice(starred, form.len + 2));
	if (kept != NULL)
		values->suffixes[values->suffix_count++] = sl_slice(kept + 1, form.len + 1);
}

/* 10.0.0.0/8. A request's IPv6 address is a network of ipv6-prefix bits itself: nothing narrower can be told apart. */
static bool read_network(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes text,
                         struct values *values) {
	const uint32_t bits = conf->policy->settings.ipv6_prefix;
	struct sl_network *network = &values->networks[values->network_count];
	bool strays = false;
	if (memchr(text.data, '/', text.len) == NULL || !sl_network_parse(text, network, &strays))
		return false;
	bool narrow = !network->v4 && network->prefix_bits > bits;
	if (narrow) {
		sl_address_group(&network->address, bits);
		network->prefix_bits = (uint8_t)bits;
	}
	sl_lint_network(conf, node, network, strays, narrow);
	values->network_count++;
	return true;
}

/* Reads what only some attributes can be; false where it is none of those. */
static bool read_special(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes text,
                         struct values *values) {
	const char *p = text.data;
	if (values->attribute == SL_ATTRIBUTE_HOST && text.len >= 2 && p[0] == '*' && p[1] == '.') {
		read_suffix(conf, node, text, values);
		return true;
	}
	return values->attribute == SL_ATTRIBUTE_IP && read_network(conf, node, text, values);
}

static void read_value(struct sl_conf *conf, const struct sl_yaml *node, struct values *values) {
	struct sluice_bytes text;
	if (!sl_conf_text(conf, node, "a value, a prefix* or a list of those", &text) ||
	    read_special(conf, node, text, values))
		return;
	const char *star = memchr(text.data, '*', text.len);
	size_t stem = star == NULL ? text.len : (size_t)(star - (const char *)text.data);
	if (star != NULL && stem + 1 != text.len) {
		sl_report_found(conf->report, sl_node_place(node, stem), text,
		                values->attribute == SL_ATTRIBUTE_HOST ? "expected * at the end only, or *. at the beginning"
		                                                       : "expected * at the end only");
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
	if (path && (copy.data == NULL || !sl_conf_route_text(conf, text, copy, &values->routes[values->route_count])))
		return;
	if (path && values->routes[values->route_count].ends_loosely && !has_parts)
		*values->front++ = sl_slice(copy.data, copy.len - 1);
	values->route_count += path;
	if (!has_parts)
		*(star == NULL ? values->front++ : --values->back) = copy;
}

/* Where only single values hold, those that are of no length of theirs are told apart at once. */
static uint64_t lengths_without(const struct sl_condition *condition) {
	uint64_t lengths = 0;
	if (condition->prefix_count + condition->suffix_count + condition->network_count != 0 || condition->has_parts)
		return 0;
	for (uint32_t i = 0; i < condition->exact_count; i++)
		lengths |= condition->exact[i].len < 64 ? UINT64_C(1) << condition->exact[i].len : 0;
	return ~lengths;
}

static bool read_condition(struct sl_conf *conf, const struct sl_yaml *value, enum sl_attribute attribute,
                           struct sl_condition *condition) {
	uint32_t count = value->kind == SL_NODE_LIST ? value->count : 1;
	bool path = attribute == SL_ATTRIBUTE_PATH;
	uint32_t room = path ? 2 * count : count; /* a folder with and without its slash */
	struct sluice_bytes *list = sl_pool_take(&conf->policy->pool, room, sizeof *list);
	struct sl_route *routes = path ? sl_pool_take(&conf->policy->pool, count, sizeof *routes) : NULL;
	struct values values = {.front = list, .back = list + room, .attribute = attribute, .routes = routes};
	if (attribute == SL_ATTRIBUTE_HOST)
		values.suffixes = sl_pool_take(&conf->policy->pool, count, sizeof *values.suffixes);
	if (attribute == SL_ATTRIBUTE_IP)
		values.networks = sl_pool_take(&conf->policy->pool, count, sizeof *values.networks);
	if (conf->policy->pool.failed)
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
	condition->suffixes = values.suffixes;
	condition->suffix_count = values.suffix_count;
	condition->networks = values.networks;
	condition->network_count = values.network_count;
	qsort(list, condition->exact_count, sizeof *list, sl_value_compare);
	condition->not_of = lengths_without(condition);
	return !conf->policy->pool.failed;
}

static bool is_repeated(const struct sl_condition *list, uint32_t count, uint16_t number) {
	for (uint32_t i = 0; i < count; i++)
		if (list[i].attribute == number)
			return true;
	return false;
}

/* One attribute of a mapping, and what it must be. */
static void add_condition(struct sl_conf *conf, const struct sl_yaml *key, struct sl_condition *list,
                          struct sl_when *when) {
	struct sl_condition *condition = &list[when->count];
	uint16_t number = sl_conf_name(conf, key, 0, key->text);
	if (number != SL_NAME_NONE && is_repeated(list, when->count, number))
		sl_report_error(conf->report, key->place, "duplicate key %s in when", sl_quote(key->text).text);
	else if (read_condition(conf, key->next, sl_attribute_find(key->text), condition) && number != SL_NAME_NONE) {
		condition->attribute = number;
		when->count++;
	}
}

static bool is_not(const struct sl_yaml *key) {
	return sl_bytes_equal(key->text, sl_str("not"));
}

static bool may_hold(struct sl_conf *conf, const struct sl_yaml *node) {
	if (!sl_conf_expect(conf, node, SL_NODE_MAP, "conditions, such as {method: POST, path: /a*}"))
		return false;
	if (node->count / 2 > SL_CONDITIONS_MAX)
		sl_report_error(conf->report, node->place, "expected at most %d conditions, found %u", SL_CONDITIONS_MAX,
		                node->count / 2);
	return node->count / 2 <= SL_CONDITIONS_MAX;
}

/* Reads conditions into a list; `not` stands at `*not`, or, where that is NULL, is none. */
static void read_list(struct sl_conf *conf, const struct sl_yaml *node, struct sl_when *when,
                      const struct sl_yaml **not) {
	struct sl_condition *list = sl_pool_take(&conf->policy->pool, node->count / 2, sizeof *list);
	if (list == NULL)
		return;
	when->list = list;
	for (const struct sl_yaml *key = sl_map_first(node); key != NULL; key = sl_map_next(key)) {
		if (!sl_conf_expect(conf, key, SL_NODE_TEXT, "the name of an attribute"))
			continue;
		if (!is_not(key))
			add_condition(conf, key, list, when);
		else if (not == NULL)
			sl_report_error(conf->report, key->place, "expected no not within not: write the inner conditions "
			                                          "outside of both");
		else if (*not != NULL)
			sl_report_error(conf->report, key->place, "duplicate key 'not' in when");
		else
			*not = key->next;
	}
}

/* One set of conditions that must not hold. An empty one always holds: the limit would never apply. */
static void add_except(struct sl_conf *conf, const struct sl_yaml *node, struct sl_when *list, struct sl_when *when) {
	if (!may_hold(conf, node))
		return;
	if (node->first == NULL)
		sl_report_error(conf->report, node->place, "expected at least one condition in not, found none");
	read_list(conf, node, &list[when->except_count++], NULL);
}

static void read_except(struct sl_conf *conf, const struct sl_yaml *node, struct sl_when *when) {
	bool many = node->kind == SL_NODE_LIST;
	uint32_t count = many ? node->count : 1;
	if (count > SL_CONDITIONS_MAX) {
		sl_report_error(conf->report, node->place, "expected at most %d in not, found %u", SL_CONDITIONS_MAX, count);
		return;
	}
	struct sl_when *list = sl_pool_take(&conf->policy->pool, count, sizeof *list);
	if (list == NULL)
		return;
	when->except = list;
	for (const struct sl_yaml *one = many ? node->first : node; one != NULL; one = many ? one->next : NULL)
		add_except(conf, one, list, when);
}

void sl_conf_when(struct sl_conf *conf, const struct sl_yaml *node, struct sl_when *when) {
	const struct sl_yaml *not = NULL;
	if (!may_hold(conf, node))
		return;
	read_list(conf, node, when, &not);
	if (not != NULL)
		read_except(conf, not, when);
}
