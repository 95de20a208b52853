/* The file as a whole: mappings by table, and the sections of the server.
 *
 * Every reader reports and goes on, so that one run names all mistakes; none guesses. A ruleset with gaps is thrown
 * away by the caller when the report holds an error. The format is docs/design/003-policy.md.
 */
#include "policy/conf.h"

#include "base/assert.h"
#include "base/out.h"
#include "policy/nearest.h"

#include <stdio.h>

enum { LINT_STEPS_MAX = 20 * 1000 * 1000 };

/* ---- mappings by table --------------------------------------------------------------------------------------- */

static const char *field_at(const void *table, size_t index) {
	return ((const struct sl_field *)table)[index].name;
}

/* Says what was meant, where that is near; returns it. */
static const char *report_unknown(struct sl_conf *conf, const struct sl_node *key, const char *what,
                                  const struct sl_field *fields) {
	char text[192];
	struct sl_out out = sl_out_to(text, sizeof text - 1);
	const char *nearest = sl_report_is_full(conf->report) ? NULL : sl_nearest(key->text, field_at, fields);
	if (nearest != NULL) {
		sl_report_error(conf->report, key->place, "unknown key %s in %s: did you mean '%s'?", sl_quote(key->text).text,
		                what, nearest);
		return nearest;
	}
	for (size_t i = 0; fields[i].name != NULL; i++) {
		sl_out_str(&out, i == 0 ? "" : fields[i + 1].name == NULL ? " or " : ", ");
		sl_out_str(&out, fields[i].name);
	}
	*out.at = '\0';
	sl_report_error(conf->report, key->place, "unknown key %s in %s: expected %s", sl_quote(key->text).text, what,
	                text);
	return NULL;
}

static size_t field_find(const struct sl_field *fields, struct sluice_bytes name) {
	size_t i = 0;
	while (fields[i].name != NULL && !sl_bytes_equal(name, sl_str(fields[i].name)))
		i++;
	return i;
}

/* A key that is there under a mistyped name (`meant`, a bit a field) is one mistake, not two. */
static void report_missing(struct sl_conf *conf, const struct sl_node *node, const char *what,
                           const struct sl_field *fields, const struct sl_node *const *seen, uint32_t meant) {
	for (size_t i = 0; fields[i].name != NULL && !node->cut; i++)
		if (fields[i].required != NULL && seen[i] == NULL && (meant & 1u << i) == 0)
			sl_report_error(conf->report, node->place, "missing key '%s' in %s: expected %s", fields[i].name, what,
			                fields[i].required);
}

void sl_conf_map(struct sl_conf *conf, const struct sl_node *node, const char *what, const struct sl_field *fields,
                 void *into) {
	const struct sl_node *seen[32] = {NULL};
	uint32_t meant = 0;
	char expected[64];
	snprintf(expected, sizeof expected, "a mapping with the keys of %s", what);
	if (!sl_conf_expect(conf, node, SL_NODE_MAP, expected))
		return;
	for (const struct sl_node *key = sl_map_first(node); key != NULL; key = sl_map_next(key)) {
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
			fields[i].read(conf, key->next, (char *)into + fields[i].offset);
		}
	}
	report_missing(conf, node, what, fields, seen, meant);
}

bool sl_conf_expect(struct sl_conf *conf, const struct sl_node *node, enum sl_node_kind kind, const char *expected) {
	const char *found = node->kind == SL_NODE_LIST ? "a list" : node->kind == SL_NODE_MAP ? "a mapping" : "nothing";
	struct sl_quoted quoted;
	if (node->kind == kind)
		return true;
	if (node->kind == SL_NODE_REFUSED)
		return false;
	if (node->kind == SL_NODE_TEXT && node->text.len != 0) {
		quoted = sl_quote(node->text);
		found = quoted.text;
	}
	sl_report_error(conf->report, node->place, "expected %s, found %s", expected, found);
	return false;
}

bool sl_conf_text(struct sl_conf *conf, const struct sl_node *node, const char *expected, struct sluice_bytes *text) {
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

/* ---- listen, store ------------------------------------------------------------------------------------------- */

/* The listeners of all doors, while `listen` is read. */
struct listen_nodes {
	const char *address[3];
};

static void read_listen(struct sl_conf *conf, const struct sl_node *value, void *into) {
	static const struct sl_field fields[] = {
		{"resp", sl_conf_listen, offsetof(struct listen_nodes, address[SL_LISTEN_RESP]), NULL},
		{"http", sl_conf_listen, offsetof(struct listen_nodes, address[SL_LISTEN_HTTP]), NULL},
		{"grpc", sl_conf_listen, offsetof(struct listen_nodes, address[SL_LISTEN_GRPC]), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct sl_settings *settings = into;
	struct listen_nodes nodes = {{settings->listens[0].address, settings->listens[1].address, NULL}};
	struct sl_listen *listens = sl_pool_take(&conf->policy->pool, 3, sizeof *listens);
	sl_conf_map(conf, value, "listen", fields, &nodes);
	settings->listen_count = 0;
	settings->listens = listens;
	for (uint8_t i = 0; listens != NULL && i < 3; i++)
		if (nodes.address[i] != NULL)
			listens[settings->listen_count++] =
				(struct sl_listen){.address = nodes.address[i], .door = i, .mode = 0660, .forms = settings->forms};
}

static void read_memory(struct sl_conf *conf, const struct sl_node *value, void *into) {
	struct sl_settings *settings = into;
	sl_conf_size(conf, value, &settings->memory_bytes);
	settings->memory_given = true;
}

static void read_store(struct sl_conf *conf, const struct sl_node *value, void *into) {
	static const struct sl_field fields[] = {
		{"memory", read_memory, 0, NULL},
		{"file", sl_conf_path, offsetof(struct sl_settings, store_file), NULL},
		{"shared", sl_conf_shared, offsetof(struct sl_settings, store_shared), NULL},
		{"blocks", sl_conf_percent, offsetof(struct sl_settings, blocks_percent), NULL},
		{NULL, NULL, 0, NULL},
	};
	const struct sl_settings *settings = into;
	sl_conf_map(conf, value, "store", fields, into);
	if (settings->store_file != NULL && settings->store_shared != NULL)
		sl_report_error(conf->report, value->place, "expected file or shared, found both: a store has one home");
}

/* ---- trusted-proxies, attributes ----------------------------------------------------------------------------- */

static void read_proxies(struct sl_conf *conf, const struct sl_node *value, void *into) {
	struct sluice_policy *policy = into;
	if (!sl_conf_expect(conf, value, SL_NODE_LIST, "a list of networks, such as [10.0.0.0/8, \"::1/128\"]"))
		return;
	if (value->count > SL_PROXIES_MAX) {
		sl_report_error(conf->report, value->place, "expected at most %d networks, found %u", SL_PROXIES_MAX,
		                value->count);
		return;
	}
	policy->proxies = sl_pool_take(&policy->pool, value->count, sizeof *policy->proxies);
	for (const struct sl_node *node = value->first; node != NULL && policy->proxies != NULL; node = node->next)
		if (sl_conf_network(conf, node, &policy->proxies[policy->proxy_count]))
			policy->proxy_count++;
}

/* One entry of `attributes`. */
static void read_attribute(struct sl_conf *conf, const struct sl_node *key) {
	struct sluice_policy *policy = conf->policy;
	struct sl_policy_source *source = &policy->sources[policy->source_count];
	if (!sl_conf_expect(conf, key, SL_NODE_TEXT, "the name of an attribute"))
		return;
	uint16_t number = sl_conf_name(conf, key, 0, key->text);
	bool good = sl_conf_source(conf, key->next, &source->header);
	if (number == SL_NAME_NONE)
		return;
	source->name = policy->names[number].text;
	if (sl_name_is_built_in(source->name)) {
		sl_report_error(conf->report, key->place, "%s is built in: expected a name of your own",
		                sl_quote(source->name).text);
		return;
	}
	for (uint32_t i = 0; i < policy->source_count; i++)
		if (sl_bytes_equal(policy->sources[i].name, source->name)) {
			sl_report_error(conf->report, key->place, "duplicate key %s in attributes", sl_quote(source->name).text);
			return;
		}
	policy->source_count += good;
}

static void read_attributes(struct sl_conf *conf, const struct sl_node *value, void *into) {
	struct sluice_policy *policy = into;
	if (!sl_conf_expect(conf, value, SL_NODE_MAP, "a mapping of names to sources, such as {user: header x-user-id}"))
		return;
	if (value->count / 2 > SL_ATTRIBUTES_MAX) {
		sl_report_error(conf->report, value->place, "expected at most %d attributes, found %u", SL_ATTRIBUTES_MAX,
		                value->count / 2);
		return;
	}
	policy->sources = sl_pool_take(&policy->pool, value->count / 2 + 1, sizeof *policy->sources);
	if (policy->sources == NULL)
		return;
	for (const struct sl_node *key = sl_map_first(value); key != NULL; key = sl_map_next(key))
		read_attribute(conf, key);
}

/* ---- the top -------------------------------------------------------------------------------------------------- */

static void read_threads(struct sl_conf *conf, const struct sl_node *value, void *into) {
	sl_conf_number(conf, value, 1, 1024, into);
}

static void read_ipv6_prefix(struct sl_conf *conf, const struct sl_node *value, void *into) {
	sl_conf_number(conf, value, 1, 128, into);
}

bool sl_conf_read(struct sluice_policy *policy, struct sluice_bytes yaml, struct sl_report *report) {
	static const struct sl_field fields[] = {
		{"listen", read_listen, offsetof(struct sluice_policy, settings), NULL},
		{"store", read_store, offsetof(struct sluice_policy, settings), NULL},
		{"trusted-proxies", read_proxies, 0, NULL},
		{"attributes", read_attributes, 0, NULL},
		{"limits", sl_conf_limits, 0, NULL},
		{"threads", read_threads, offsetof(struct sluice_policy, settings.threads), NULL},
		{"client-time", sl_conf_bool, offsetof(struct sluice_policy, settings.client_time), NULL},
		{"ipv6-prefix", read_ipv6_prefix, offsetof(struct sluice_policy, settings.ipv6_prefix), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct sl_tree tree;
	struct sl_conf conf = {policy, report, &tree.pool, LINT_STEPS_MAX};
	bool good = sl_tree_read(&tree, yaml, report);
	/* a file of comments, or a lone `---`, says nothing: all defaults */
	if (good && tree.root != NULL && !(sl_node_is_null(tree.root) && tree.root->text.len == 0))
		sl_conf_map(&conf, tree.root, "the policy", fields, policy);
	good = good && !tree.pool.failed;
	sl_pool_free(&tree.pool);
	return good && !policy->pool.failed && !report->failed;
}
