/* The file as a whole: its sections.
 *
 * Every reader reports and goes on, so that one run names all mistakes; none guesses. A ruleset with gaps is thrown
 * away by the caller when the report holds an error. The format is docs/design/003-policy.md.
 */
#include "policy/conf.h"

#include "policy/lint.h"

enum { LINT_STEPS_MAX = 20 * 1000 * 1000 };

static void read_observe(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_bool(conf, value, into);
	conf->observe = value;
}

static void read_limits(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	conf->policy->settings.limits_given = true;
	sl_conf_limits(conf, value, into);
}

static void read_users(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	conf->policy->settings.users_given = true;
	sl_conf_users(conf, value, into);
}

/* Nothing but comments, a lone `---`, or `{}`. Nobody means that: it is what is left of a file that was emptied. */
static bool is_empty(const struct sl_yaml *root) {
	return root == NULL || (sl_node_is_null(root) && root->text.len == 0) ||
	       (root->kind == SL_NODE_MAP && sl_map_first(root) == NULL);
}

static void read_root(struct sl_conf *conf, const struct sl_yaml *root, const struct sl_field *fields) {
	const struct sl_position start = {1, 1};
	if (is_empty(root)) {
		if (conf->report->error_count == 0)
			sl_report_error(conf->report, root == NULL ? start : root->place,
			                "expected a policy, found nothing: write limits: [] if there are to be no limits");
		return;
	}
	sl_conf_map(conf, root, "the policy", fields, conf->policy);
	if (!conf->policy->settings.limits_given && conf->policy->settings.envoy.config == NULL &&
	    conf->report->error_count == 0)
		sl_report_warning(conf->report, root->place,
		                  "there are no limits, so this policy denies nobody: write limits: [] if this is meant");
}

bool sl_conf_read(struct sluice_policy *policy, struct sluice_bytes yaml, struct sl_report *report) {
#define SETTING(name) offsetof(struct sluice_policy, settings name)
	static const struct sl_field fields[] = {
		{"headers", sl_conf_forms, SETTING(.forms), NULL},
		{"tls", sl_conf_tls, SETTING(), NULL},
		{"users", read_users, SETTING(), NULL},
		{"anonymous", sl_conf_anonymous, SETTING(.anonymous), NULL},
		{"trusted-proxies", sl_conf_proxies, 0, NULL},
		{"listen", sl_conf_listen, SETTING(), NULL}, /* after those that it leans on */
		{"client-address", sl_conf_client_address, SETTING(.forwarded), NULL},
		{"store", sl_conf_store, SETTING(), NULL},
		{"attributes", sl_conf_attributes, 0, NULL},
		{"paths", sl_conf_paths, SETTING(.paths), NULL},
		{"retry-id", sl_conf_retry_id, SETTING(.retry_header), NULL},
		{"denied", sl_conf_denied, offsetof(struct sluice_policy, denied), NULL},
		{"ipv6-prefix", sl_conf_ipv6_prefix, SETTING(.ipv6_prefix), NULL},
		{"observe", read_observe, offsetof(struct sluice_policy, observe), NULL},
		{"limits", read_limits, 0, NULL}, /* after all that they lean on */
		{"threads", sl_conf_threads, SETTING(.threads), NULL},
		{"client-time", sl_conf_bool, SETTING(.client_time), NULL},
		{"near-limit", sl_conf_near, SETTING(.near_percent), NULL},
		{"drain", sl_conf_drain, SETTING(.drain_ns), NULL},
		{"connections", sl_conf_connections, SETTING(.connections), NULL},
		{"envoy", sl_conf_envoy, SETTING(.envoy), NULL},
		{"log", sl_conf_log, SETTING(.log), NULL},
		{NULL, NULL, 0, NULL},
	};
#undef SETTING
	struct sl_tree tree;
	struct sl_conf conf = {.policy = policy, .report = report, .scratch = &tree.pool, .lint_steps = LINT_STEPS_MAX};
	bool good = sl_tree_read(&tree, yaml, report);
	if (good)
		read_root(&conf, tree.root, fields);
	if (good && policy->settings.listens == NULL && report->error_count == 0)
		sl_conf_listen(&conf, NULL, &policy->settings);
	if (good && report->error_count == 0)
		sl_conf_check_overrides(&conf);
	if (good && report->error_count == 0)
		sl_lint_settings(&conf);
	good = good && !tree.pool.failed;
	sl_pool_free(&tree.pool);
	return good && !policy->pool.failed && !report->failed;
}
