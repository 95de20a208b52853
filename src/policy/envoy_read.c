/* A file of envoyproxy/ratelimit that is well formed, into the tree: what it may say, in the words of that program.
 *
 * What is ours is said apart from it: by the policy (`envoy: {algorithm, count-denied, on-error}`), or in a
 * descriptor's `metadata: {sluice: {limit: "sliding-log 100/1m"}}`, which that program's readers pass over. */
#include "algo/rule.h"
#include "base/assert.h"
#include "base/siphash.h"
#include "policy/conf_terms.h"
#include "policy/envoy_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNTED_BYTES = 47 }; /* of a name that is longer than SLUICE_NAME_BYTES_MAX; then ~ and 16 digits */

struct reading {
	struct sluice_policy *policy;
	struct sl_envoy *envoy;
	struct sl_report *report;
	const char *file;
	bool full; /* a bound was met, and told */
};

/* Their units, by their numbers in RateLimitResponse.RateLimit.Unit. */
static const struct {
	const char *name, *window;
} units[] = {
	{"", ""},      {"SECOND", "1s"}, {"MINUTE", "1m"}, {"HOUR", "1h"},
	{"DAY", "1d"}, {"MONTH", "30d"}, {"YEAR", "365d"}, {"WEEK", "1w"},
};

static uint32_t unit_of(struct sluice_bytes text) {
	for (uint32_t i = 1; i < sizeof units / sizeof units[0]; i++)
		if (sl_bytes_equal_nocase(text, units[i].name))
			return i;
	return 0;
}

static struct sluice_bytes kept(struct sl_envoy *envoy, struct sluice_bytes text) {
	const char *copy = sl_pool_text(envoy->pool, text);
	return copy == NULL ? sl_slice("", 0) : sl_slice(copy, text.len);
}

static struct sluice_bytes joined(struct sl_envoy *envoy, struct sluice_bytes before, const char *with,
                                  struct sluice_bytes after) {
	size_t len = strlen(with);
	char *text = sl_pool_take(envoy->pool, before.len + len + after.len + 1, 1);
	if (text == NULL)
		return sl_slice("", 0);
	memcpy(text, before.data, before.len);
	memcpy(text + before.len, with, len);
	memcpy(text + before.len + len, after.data, after.len);
	return sl_slice(text, before.len + len + after.len);
}

/* ---- a rule ------------------------------------------------------------------------------------------------------ */

/* The name that headers, logs and Redis know a rule by: its full key, in printable ASCII; a longer one is cut, and told
 * from others by a hash. */
static const char *name_of(struct sl_envoy *envoy, struct sluice_bytes full_key) {
	static const uint64_t key[2] = {0x656e766f792d7275, 0x6c652d6e616d6573};
	char text[SLUICE_NAME_BYTES_MAX + 1];
	bool whole = full_key.len <= SLUICE_NAME_BYTES_MAX;
	size_t len = 0;
	for (; len < full_key.len && len < SLUICE_NAME_BYTES_MAX; len++) {
		char c = ((const char *)full_key.data)[len];
		bool shown = c > 0x20 && c < 0x7f && c != '"' && c != '\\';
		text[len] = shown ? c : '?';
		whole = whole && shown;
	}
	if (!whole) {
		len = len < COUNTED_BYTES ? len : COUNTED_BYTES;
		text[len++] = '~';
		len = (size_t)(sl_hex(text + len, sl_siphash(key, NULL, 0, full_key, 2, 4), 16) - text);
	}
	SL_ASSERT(len <= SLUICE_NAME_BYTES_MAX);
	return sl_pool_text(envoy->pool, sl_slice(text, len));
}

/* Can the store decide it? */
static void check_store(struct reading *in, const struct sl_yaml *node, const struct sluice_limit *limit) {
	struct sl_conf conf = {.policy = in->policy, .report = in->report};
	sl_conf_limit_needs_module(&conf, node, limit);
}

/* The limit that metadata says, in place of rate_limit's. */
static void read_own(struct reading *in, const struct sl_yaml *sluice, struct sl_envoy_rule *rule) {
	struct sluice_error error = {0};
	struct sluice_limit limit;
	const struct sl_yaml *node = NULL, *unknown = NULL;
	for (const struct sl_yaml *key = sl_map_first(sluice); key != NULL; key = sl_map_next(key))
		if (key->kind == SL_NODE_TEXT && sl_bytes_equal(key->text, sl_str("limit")))
			node = key->next;
		else
			unknown = key;
	if (unknown != NULL) {
		sl_report_error(in->report, unknown->place, "unknown key in metadata.sluice: expected limit");
	} else if (node == NULL || node->kind != SL_NODE_TEXT) {
		sl_report_error(in->report, sluice->place, "metadata.sluice: expected a limit such as sliding-log 100/1m");
	} else if (sluice_limit_parse(&limit, node->text, &error) != SLUICE_OK) {
		sl_report_error(in->report, error.column == 0 ? node->place : sl_node_place(node, error.column - 1), "%s",
		                error.text);
	} else if (sl_rule_has(&limit, SL_HAS_SEATS) || !sl_rule_has(&limit, SL_HAS_COUNTER)) {
		sl_report_error(in->report, node->place,
		                "expected a limit that counts requests: leases, members and "
		                "unlimited have their own ways");
	} else {
		check_store(in, node, &limit);
		rule->shown.limit = limit;
		rule->own = true;
		rule->fixed = false;
	}
}

static void read_metadata(struct reading *in, const struct sl_yaml *metadata, struct sl_envoy_rule *rule) {
	const struct sl_yaml *sluice = NULL;
	if (metadata != NULL && metadata->kind != SL_NODE_MAP)
		sl_report_error(in->report, metadata->place, "expected metadata to be a mapping");
	else if (metadata != NULL)
		sluice = sl_their_node(metadata, "sluice");
	if (sluice != NULL && sluice->kind != SL_NODE_MAP)
		sl_report_error(in->report, sluice->place, "metadata.sluice: expected {limit: ..}");
	else if (sluice != NULL && rule == NULL)
		sl_report_error(in->report, sluice->place, "metadata.sluice goes with a rate_limit, which is missing");
	else if (sluice != NULL && rule->unlimited)
		sl_report_error(in->report, sluice->place, "metadata.sluice can't go with unlimited");
	else if (sluice != NULL)
		read_own(in, sluice, rule);
}

/* False: a name that can't be replaced, which is told. */
static bool read_replaces(struct reading *in, const struct sl_their_rate_limit *limit, struct sl_envoy_rule *rule) {
	const struct sl_yaml *list = limit->replaces;
	if (list == NULL)
		return true;
	if (list->count > SL_ENVOY_REPLACES_MAX) {
		sl_report_error(in->report, list->place, "expected at most %d names in replaces, found %u",
		                SL_ENVOY_REPLACES_MAX, list->count);
		return false;
	}
	struct sluice_bytes *names = sl_pool_take(in->envoy->pool, list->count, sizeof *names);
	for (const struct sl_yaml *one = list->first; one != NULL && names != NULL; one = one->next) {
		struct sluice_bytes name = sl_their_text(one, "name");
		const char *wrong = name.len == 0                       ? "should not have an empty replaces entry"
		                    : sl_bytes_equal(name, limit->name) ? "replaces should not contain name of same descriptor"
		                                                        : NULL;
		if (wrong != NULL) {
			sl_report_error(in->report, one->place, "%s", wrong);
			return false;
		}
		names[rule->replace_count++] = kept(in->envoy, name);
	}
	rule->replaces = names;
	return true;
}

static const char THEIR_ALGORITHM[] = "fixed-window";

static const char *algorithm_of(const struct reading *in) {
	const char *algorithm = in->policy->settings.envoy.algorithm;
	return algorithm == NULL ? THEIR_ALGORITHM : algorithm;
}

/* A quota in a unit, counted as the policy says. */
static bool read_quota(struct reading *in, const struct sl_yaml *node, uint32_t requests, uint32_t unit,
                       struct sluice_limit *limit) {
	const char *algorithm = algorithm_of(in);
	struct sluice_error error = {0};
	char text[96];
	snprintf(text, sizeof text, "%.40s %" PRIu32 "/%s", algorithm, requests, units[unit].window);
	if (sluice_limit_parse(limit, sl_str(text), &error) == SLUICE_OK) {
		check_store(in, node, limit);
		return true;
	}
	sl_report_error(in->report, node->place, "%.40s: %.180s", text, error.text);
	return false;
}

static struct sluice_limit unlimited(void) {
	struct sluice_limit limit;
	sluice_err err = sluice_limit_parse(&limit, sl_str("unlimited"), NULL);
	SL_ASSERT(err == SLUICE_OK);
	return limit;
}

static void fill_shown(struct reading *in, struct sl_envoy_rule *rule) {
	const struct sl_envoy_settings *says = &in->policy->settings.envoy;
	struct sl_policy_limit *shown = &rule->shown;
	shown->name = name_of(in->envoy, rule->full_key);
	shown->key_text = "domain, entries";
	shown->when_text = "{}";
	shown->terms_text = says->count_denied ? "count-denied" : "";
	shown->has_terms = says->count_denied;
	shown->terms.count_denied = says->count_denied;
	shown->on_error = says->on_error;
	shown->observe = rule->shadow;
	if (shown->name != NULL)
		sl_rule_name(&shown->limit, sl_str(shown->name));
}

/* Reads the limit of a descriptor; NULL where it is wrong, which is told, or without memory. */
static struct sl_envoy_rule *read_rule(struct reading *in, const struct sl_yaml *map,
                                       const struct sl_their_descriptor *descriptor, struct sluice_bytes full_key) {
	struct sl_envoy_rule *rule = sl_pool_take(in->envoy->pool, 1, sizeof *rule);
	struct sl_their_rate_limit limit;
	if (rule == NULL)
		return NULL;
	sl_their_rate_limit(map, &limit);
	struct sl_position place = limit.unit != NULL ? limit.unit->place : descriptor->rate_limit->place;
	struct sluice_bytes unit = limit.unit != NULL ? limit.unit->text : sl_slice("", 0);
	*rule = (struct sl_envoy_rule){
		.full_key = full_key,
		.name = kept(in->envoy, limit.name),
		.requests = limit.requests,
		.unit = unit_of(unit),
		.line = map->place.line,
		.file = in->file,
		.unlimited = limit.unlimited,
		.shadow = descriptor->shadow,
		.quota = descriptor->quota,
		.detailed = descriptor->detailed,
	};
	if (limit.unlimited && rule->unit != 0) {
		sl_report_error(in->report, place, "should not specify rate limit unit when unlimited");
		return NULL;
	}
	if (!limit.unlimited && rule->unit == 0) {
		sl_report_error(in->report, place, "invalid rate limit unit '%.100s'", (const char *)unit.data);
		return NULL;
	}
	if (!read_replaces(in, &limit, rule))
		return NULL;
	if (rule->quota && in->policy->settings.redis.address_count != 0) {
		sl_report_error(in->report, map->place,
		                "quota_mode: a store in Redis can't decide it; a store on this host can");
		return NULL;
	}
	if (limit.unlimited)
		rule->shown.limit = unlimited();
	else if (!read_quota(in, descriptor->rate_limit, rule->requests, rule->unit, &rule->shown.limit))
		return NULL;
	rule->fixed = !limit.unlimited && strcmp(algorithm_of(in), THEIR_ALGORITHM) == 0;
	read_metadata(in, descriptor->metadata, rule);
	fill_shown(in, rule);
	return rule;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static void read_descriptors(struct reading *in, const struct sl_yaml *list, uint32_t parent,
                             struct sluice_bytes parent_key, uint32_t depth);

static bool has_star(struct sluice_bytes text) {
	return text.len != 0 && memchr(text.data, '*', text.len) != NULL;
}

/* The node of a descriptor that is good, and what is inside it. */
static void add_descriptor(struct reading *in, const struct sl_yaml *map, const struct sl_their_descriptor *says,
                           uint32_t parent, struct sluice_bytes final_key, struct sluice_bytes full_key,
                           uint32_t depth) {
	struct sl_envoy *envoy = in->envoy;
	struct sl_envoy_rule *rule = NULL;
	if (says->rate_limit != NULL)
		rule = read_rule(in, map, says, full_key);
	else
		read_metadata(in, says->metadata, NULL);
	if (says->share && !has_star(final_key))
		sl_report_error(in->report, map->place,
		                "share_threshold can only be used with wildcard values (containing '*'), but found key '%.80s'",
		                (const char *)final_key.data);
	struct sl_envoy_node node = {
		.parent = parent,
		.rule = rule != NULL ? envoy->rule_count : SL_ENVOY_NONE,
		.key = kept(envoy, says->key),
		.value = kept(envoy, says->value),
		.value_to_metric = says->value_to_metric,
		.share = says->share,
		.on_path = says->value_to_metric || envoy->nodes[parent].on_path,
	};
	if (!sl_envoy_has_room(envoy, &node)) {
		sl_report_error(in->report, map->place, "expected at most %d different lengths around the '*' of one key",
		                SL_ENVOY_ENDS_MAX);
		return;
	}
	uint32_t at = sl_envoy_node_add(envoy, &node);
	if (at == SL_ENVOY_NONE)
		return;
	if (rule != NULL) {
		rule->node = at;
		envoy->pool->failed = !sl_envoy_rule_add(envoy, rule);
	}
	if (says->descriptors != NULL)
		read_descriptors(in, says->descriptors, at, full_key, depth + 1);
}

static void read_descriptor(struct reading *in, const struct sl_yaml *map, uint32_t parent,
                            struct sluice_bytes parent_key, uint32_t depth) {
	struct sl_their_descriptor says;
	struct sl_envoy *envoy = in->envoy;
	sl_their_descriptor(map, &says);
	if (says.key.len == 0) {
		sl_report_error(in->report, map->place, "descriptor has empty key");
		return;
	}
	struct sluice_bytes final_key =
		says.value.len != 0 ? joined(envoy, says.key, "_", says.value) : kept(envoy, says.key);
	struct sluice_bytes full_key = joined(envoy, parent_key, ".", final_key);
	if (envoy->pool->failed)
		return;
	if (sl_envoy_is_taken(envoy, parent, final_key))
		sl_report_error(in->report, map->place, "duplicate descriptor composite key '%.180s'",
		                (const char *)full_key.data);
	else
		add_descriptor(in, map, &says, parent, final_key, full_key, depth);
}

static void read_descriptors(struct reading *in, const struct sl_yaml *list, uint32_t parent,
                             struct sluice_bytes parent_key, uint32_t depth) {
	if (depth > SL_ENVOY_DEPTH_MAX) {
		sl_report_error(in->report, list->place, "expected at most %d descriptors inside one another",
		                SL_ENVOY_DEPTH_MAX);
		return;
	}
	for (const struct sl_yaml *one = list->first; one != NULL && !in->full && !in->envoy->pool->failed;
	     one = one->next) {
		if (in->envoy->descriptor_count == SL_ENVOY_DESCRIPTORS_MAX) {
			in->full = true;
			sl_report_error(in->report, one->place, "expected at most %d descriptors in all files",
			                SL_ENVOY_DESCRIPTORS_MAX);
			return;
		}
		in->envoy->descriptor_count++;
		read_descriptor(in, one, parent, parent_key, depth);
	}
}

/* ---- a file ------------------------------------------------------------------------------------------------------ */

static void read_domain(struct reading *in, const struct sl_yaml *root) {
	static const struct sl_position start = {1, 1};
	struct sl_envoy *envoy = in->envoy;
	const bool is_map = root != NULL && root->kind == SL_NODE_MAP;
	const struct sl_yaml *name = is_map ? sl_their_node(root, "domain") : NULL;
	if (name == NULL || name->text.len == 0) {
		sl_report_error(in->report, root == NULL ? start : root->place, "config file cannot have empty domain");
		return;
	}
	struct sluice_bytes domain = kept(envoy, name->text);
	uint32_t at = sl_envoy_node_find(envoy, SL_ENVOY_NONE, domain, sl_slice("", 0));
	if (at != SL_ENVOY_NONE && !in->policy->settings.envoy.merge_domains) {
		sl_report_error(in->report, name->place, "duplicate domain '%.180s' in config file", (const char *)domain.data);
		return;
	}
	if (at == SL_ENVOY_NONE)
		at = sl_envoy_node_add(
			envoy,
			&(struct sl_envoy_node){.parent = SL_ENVOY_NONE, .rule = SL_ENVOY_NONE, .key = domain, .value = {"", 0}});
	const struct sl_yaml *list = sl_their_node(root, "descriptors");
	if (at != SL_ENVOY_NONE && list != NULL)
		read_descriptors(in, list, at, domain, 1);
}

static void read_file(struct reading *in, struct sluice_bytes yaml) {
	static const struct sl_position start = {1, 1};
	struct sl_envoy *envoy = in->envoy;
	struct sl_tree tree;
	if (yaml.len > SL_ENVOY_FILE_BYTES_MAX) {
		sl_report_error(in->report, start, "expected a file of at most %d bytes", SL_ENVOY_FILE_BYTES_MAX);
		return;
	}
	if (envoy->file_count == SL_ENVOY_FILES_MAX || yaml.len > SL_ENVOY_BYTES_MAX - envoy->bytes) {
		sl_report_error(in->report, start, "expected at most %d files of %d MiB together", SL_ENVOY_FILES_MAX,
		                SL_ENVOY_BYTES_MAX >> 20);
		return;
	}
	envoy->file_count++;
	envoy->bytes += yaml.len;
	if (!sl_tree_read_theirs(&tree, yaml, in->report))
		envoy->pool->failed = true;
	if (tree.root != NULL && in->report->error_count == 0)
		sl_their_check(in->report, tree.root);
	if (in->report->error_count == 0 && !envoy->pool->failed)
		read_domain(in, tree.root);
	sl_pool_free(&tree.pool);
}

sluice_err sl_policy_envoy_add(struct sluice_policy *policy, const char *file, struct sluice_bytes yaml,
                               struct sluice_problems *problems) {
	struct sl_report report = {0};
	struct reading in = {.policy = policy, .report = &report};
	*problems = (struct sluice_problems){0};
	if (policy->envoy == NULL)
		policy->envoy = sl_envoy_new(&policy->pool);
	in.envoy = policy->envoy;
	in.file = sl_pool_text(&policy->pool, sl_str(file));
	if (in.envoy == NULL || in.file == NULL)
		return SLUICE_E_MEMORY;
	read_file(&in, yaml);
	sluice_err err = policy->pool.failed || report.failed ? SLUICE_E_MEMORY
	                 : report.error_count != 0            ? SLUICE_E_SYNTAX
	                                                      : SLUICE_OK;
	if (err != SLUICE_E_MEMORY)
		sl_report_move(&report, problems);
	sl_report_free(&report);
	return err;
}

sluice_err sl_policy_envoy_alone(struct sluice_policy **policy, const char *config) {
	sluice_err err = sluice_policy_load(policy, sl_str("limits: []\n"), NULL);
	if (err != SLUICE_OK)
		return err;
	(*policy)->settings.envoy.config = sl_pool_text(&(*policy)->pool, sl_str(config));
	if ((*policy)->settings.envoy.config != NULL)
		return SLUICE_OK;
	sluice_policy_free(*policy);
	return SLUICE_E_MEMORY;
}
