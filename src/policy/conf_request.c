/* Who a request is from and what is known of it: proxies that are believed, where the client's address stands, and the
 * headers that attributes are read from.
 */
#include "policy/lint.h"

void sl_conf_proxies(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	struct sluice_policy *policy = into;
	if (!sl_conf_expect(conf, value, SL_NODE_LIST, "a list of networks, such as [10.0.0.0/8, \"::1/128\"]"))
		return;
	if (value->count > SL_PROXIES_MAX) {
		sl_report_error(conf->report, value->place, "expected at most %d networks, found %u", SL_PROXIES_MAX,
		                value->count);
		return;
	}
	struct sl_network *proxies = sl_pool_take(&policy->pool, value->count, sizeof *proxies);
	policy->proxies = proxies; /* those that are written instead of the defaults */
	policy->proxy_count = 0;
	for (const struct sl_yaml *node = value->first; node != NULL && proxies != NULL; node = node->next)
		if (sl_conf_network(conf, node, &proxies[policy->proxy_count]))
			sl_lint_proxy(conf, node, &proxies[policy->proxy_count++]);
}

/* One entry of `attributes`. */
static void read_attribute(struct sl_conf *conf, const struct sl_yaml *key) {
	struct sluice_policy *policy = conf->policy;
	struct sl_policy_source *source = &policy->sources[policy->source_count];
	if (!sl_conf_expect(conf, key, SL_NODE_TEXT, "the name of an attribute"))
		return;
	uint16_t number = sl_conf_name(conf, key, 0, key->text);
	bool given = key->next->kind == SL_NODE_TEXT && sl_bytes_equal(key->next->text, sl_str("given"));
	bool good = given || sl_conf_source(conf, key->next, &source->header);
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

void sl_conf_attributes(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
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
	for (const struct sl_yaml *key = sl_map_first(value); key != NULL; key = sl_map_next(key))
		read_attribute(conf, key);
}

void sl_conf_client_address(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_word words[] = {{"x-forwarded-for", 0, false}, {"forwarded", 1, false}, {NULL, 0, false}};
	uint32_t forwarded;
	if (sl_conf_word(conf, value, words, &forwarded))
		*(bool *)into = forwarded != 0;
}

void sl_conf_retry_id(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	*(const char **)into = sl_conf_header(conf, value);
}
