/* `envoy: {config: DIR, ...}`: limits that stand in envoyproxy/ratelimit's own files. The policy only names them:
 * whoever loads it reads them (envoy.h), by what is said here. */
#include "algo/rule.h"
#include "policy/conf_terms.h"

#include <stdio.h>

static void read_config(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	struct sl_envoy_settings *envoy = into;
	const char *path = NULL;
	sl_conf_path(conf, value, &path);
	if (path != NULL && strlen(path) > SL_ENVOY_PATH_BYTES_MAX) {
		sl_report_error(conf->report, value->place, "expected a path of at most %d bytes, found %zu",
		                SL_ENVOY_PATH_BYTES_MAX, strlen(path));
		return;
	}
	envoy->config = path;
	envoy->line = value->place.line;
	envoy->column = value->place.column;
}

/* A word of the notation, which is asked whether a quota and a window are all that it needs. */
static void read_algorithm(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const char expected[] = "an algorithm that needs no more than a quota and a window, such as sliding-window";
	struct sluice_bytes text;
	struct sluice_limit limit;
	char notation[64];
	if (!sl_conf_text(conf, value, expected, &text))
		return;
	int len =
		snprintf(notation, sizeof notation, "%.*s 1/1m", (int)(text.len < 40 ? text.len : 40), (const char *)text.data);
	if (text.len > 40 || memchr(text.data, ' ', text.len) != NULL ||
	    sluice_limit_parse(&limit, sl_slice(notation, (size_t)len), NULL) != SLUICE_OK ||
	    sl_rule_has(&limit, SL_HAS_SEATS))
		sl_report_found(conf->report, value->place, text, "expected %s", expected);
	else
		*(const char **)into = sl_pool_text(&conf->policy->pool, text);
}

static void read_count_denied(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	sl_conf_bool(conf, value, into);
	if (*(const bool *)into)
		sl_conf_needs_module(conf, value, "count-denied");
}

void sl_conf_envoy(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
#define SETTING(name) offsetof(struct sl_envoy_settings, name)
	static const struct sl_field fields[] = {
		{"config", read_config, 0, "a folder of envoyproxy/ratelimit's YAML, or one file"},
		{"algorithm", read_algorithm, SETTING(algorithm), NULL},
		{"count-denied", read_count_denied, SETTING(count_denied), NULL},
		{"merge-domains", sl_conf_bool, SETTING(merge_domains), NULL},
		{"on-error", sl_conf_on_error, SETTING(on_error), NULL},
		{NULL, NULL, 0, NULL},
	};
#undef SETTING
	sl_conf_map(conf, value, "envoy", fields, into);
}
