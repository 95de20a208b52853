/* Paths with parts, the attributes that they fill in, and the choice of which paths are one.
 *
 *   path   = segments, of which some are {NAME}; a star at the end
 *   paths  = {case: keep | ignore, trailing-slash: keep | ignore}
 */
#include "policy/conf_route.h"

#include "policy/attribute.h"

struct paths_nodes {
	const struct sl_yaml *letters, *slash;
};

static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

static bool is_part_byte(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* The length of the name in a part that opens at `open`, which is a whole segment; 0 for none. */
static size_t part_len(struct sluice_bytes path, size_t open) {
	const char *p = path.data;
	size_t end = open + 1;
	while (end < path.len && is_part_byte(p[end]))
		end++;
	bool whole = open > 0 && p[open - 1] == '/' && end < path.len && p[end] == '}' &&
	             (end + 1 == path.len || p[end + 1] == '/');
	return whole ? end - open - 1 : 0;
}

static bool add_part(struct sl_conf *conf, const struct sl_yaml *node, size_t offset, struct sluice_bytes name,
                     struct sl_route *route) {
	struct sluice_policy *policy = conf->policy;
	if (sl_name_is_built_in(name) || sl_bytes_equal(name, sl_str("route"))) {
		sl_report_found(conf->report, sl_node_place(node, offset), name,
		                "expected a name of your own for a part: method, host, path, ip and route are taken");
		return false;
	}
	uint16_t number = name.len <= SLUICE_NAME_BYTES_MAX ? sl_name_intern(policy, name) : SL_NAME_NONE;
	bool repeated = false;
	for (uint32_t i = 0; i < route->part_count; i++)
		repeated = repeated || route->numbers[i] == number;
	if (number == SL_NAME_NONE || repeated || route->part_count == SL_ROUTE_PARTS_MAX) {
		sl_report_found(conf->report, sl_node_place(node, offset), name,
		                "expected at most %d parts of a path, each with a name of its own of at most %d bytes",
		                SL_ROUTE_PARTS_MAX, SLUICE_NAME_BYTES_MAX);
		return false;
	}
	policy->names[number].is_part = true;
	route->numbers[route->part_count++] = number;
	return true;
}

bool sl_conf_route_parts(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes path, bool prefix,
                         struct sl_route *route) {
	const char *p = path.data;
	*route = (struct sl_route){.prefix = prefix};
	for (size_t i = 0; i < path.len; i++) {
		if (p[i] != '{' && p[i] != '}')
			continue;
		size_t len = p[i] == '{' ? part_len(path, i) : 0;
		if (len == 0 || (prefix && i + len + 2 == path.len)) {
			sl_report_found(conf->report, sl_node_place(node, i), path,
			                "expected a part such as {org} as a whole segment: /orgs/{org}/search, /orgs/{org}/*");
			return false;
		}
		if (!add_part(conf, node, i + 1, sl_slice(p + i + 1, len), route))
			return false;
		i += len + 1;
	}
	return true;
}

bool sl_conf_route_text(struct sl_conf *conf, struct sluice_bytes written, struct sluice_bytes form,
                        struct sl_route *route) {
	const char *p = form.data, *text = sl_pool_text(&conf->policy->pool, written);
	if (text == NULL)
		return false;
	route->stem = form;
	route->text = sl_slice(text, written.len);
	route->ends_loosely = route->prefix && (conf->policy->settings.paths & SL_PATHS_ANY_SLASH) != 0 && form.len > 1 &&
	                      p[form.len - 1] == '/';
	return true;
}

void sl_conf_paths(struct sl_conf *conf, const struct sl_yaml *node, void *into) {
	static const struct sl_field fields[] = {
		{"case", keep, offsetof(struct paths_nodes, letters), NULL},
		{"trailing-slash", keep, offsetof(struct paths_nodes, slash), NULL},
		{NULL, NULL, 0, NULL},
	};
	static const struct sl_word words[] = {{"keep", 0, false}, {"ignore", 1, false}, {NULL, 0, false}};
	struct paths_nodes nodes = {0};
	uint32_t letters = 0, slash = 0;
	sl_conf_map(conf, node, "paths", fields, &nodes);
	if (nodes.letters != NULL && !sl_conf_word(conf, nodes.letters, words, &letters))
		return;
	if (nodes.slash != NULL && !sl_conf_word(conf, nodes.slash, words, &slash))
		return;
	*(uint32_t *)into = (letters != 0 ? SL_PATHS_ANY_CASE : 0) | (slash != 0 ? SL_PATHS_ANY_SLASH : 0);
}
