/* `store: {redis: ...}`: counters that are kept by nodes of Redis or Valkey, and how those are asked.
 *
 *   redis = ADDRESS | [ADDRESS, ...]        some of the nodes, by address or name; a cluster's others are found out
 *   tls   = true | false | {ca, certificate, key}
 *
 * A password stands in a file of its own, never here: policies are reviewed, copied and printed. Whoever writes one all
 * the same (`password: x`, or an address such as redis://:x@host) is told where it belongs, and no message repeats it.
 */
#include "policy/conf_redis.h"

#include "policy/lint.h"

enum {
	REDIS_USER_BYTES_MAX = 128,
	HOST_BYTES_MAX = 253, /* of a name: RFC 1035 */
};

static const sluice_ns MS_NS = 1000000;

/* ---- addresses -------------------------------------------------------------------------------------------------- */

/* redis://:password@host:6379 is what other programs take: the found text may hold a secret. */
static bool is_url(struct sluice_bytes text) {
	const char *p = text.data;
	if (memchr(p, '@', text.len) != NULL)
		return true;
	for (size_t i = 0; i + 2 < text.len; i++)
		if (memcmp(p + i, "://", 3) == 0)
			return true;
	return false;
}

static bool is_letter(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Does it begin as a name does, not as an address? */
static bool is_named(struct sluice_bytes text) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len && p[i] != ':' && p[i] != '['; i++)
		if (is_letter(p[i]))
			return strncmp(p, "unix:", 5) != 0;
	return false;
}

/* cache.example:6379 */
static bool is_good_name(struct sluice_bytes text) {
	const char *p = text.data;
	uint64_t port;
	size_t len = 0;
	while (len < text.len &&
	       (is_letter(p[len]) || (p[len] >= '0' && p[len] <= '9') || p[len] == '.' || p[len] == '-' || p[len] == '_'))
		len++;
	return len <= HOST_BYTES_MAX && len < text.len && p[len] == ':' &&
	       sl_bytes_to_u64(sl_slice(p + len + 1, text.len - len - 1), &port) && port >= 1 && port <= UINT16_MAX;
}

static bool is_same(const char *a, const char *b) {
	struct sl_address x, y;
	uint32_t port_x, port_y;
	if (strcmp(a, b) == 0)
		return true;
	return sl_address_parse(sl_str(a), &x, &port_x) && sl_address_parse(sl_str(b), &y, &port_y) && port_x == port_y &&
	       memcmp(&x, &y, sizeof x) == 0;
}

static bool has_port_0(const char *address) {
	struct sl_address parsed;
	uint32_t port;
	return strncmp(address, "unix:", 5) != 0 && sl_address_parse(sl_str(address), &parsed, &port) && port == 0;
}

/* Adds the address that a node names to `list` of `*count`. */
static void add_address(struct sl_conf *conf, const struct sl_yaml *node, const char **list, uint32_t *count) {
	const char *address = NULL;
	if (node->kind == SL_NODE_TEXT && is_url(node->text)) {
		sl_report_error(
			conf->report, node->place,
			"expected an address such as 10.0.0.1:6379, found a URL: user, password-file and tls say the rest");
		return;
	}
	if (node->kind == SL_NODE_TEXT && !sl_node_is_null(node) && is_named(node->text)) {
		if (is_good_name(node->text))
			address = sl_pool_text(&conf->policy->pool, node->text);
		else
			sl_report_found(conf->report, node->place, node->text,
			                "expected a host and a port, such as cache.example:6379");
	} else {
		sl_conf_address(conf, node, &address);
	}
	if (address == NULL)
		return;
	if (has_port_0(address)) {
		sl_report_error(conf->report, node->place, "expected a port from 1 to 65535, such as :6379");
		return;
	}
	for (uint32_t i = 0; i < *count; i++)
		if (is_same(list[i], address)) {
			sl_report_found(conf->report, node->place, node->text, "expected each node once");
			return;
		}
	list[(*count)++] = address;
}

static void read_addresses(struct sl_conf *conf, const struct sl_yaml *node, struct sl_redis_settings *redis) {
	const bool is_list = node->kind == SL_NODE_LIST;
	const uint32_t written = is_list ? node->count : 1;
	if (is_list && node->first == NULL && node->cut) { /* [::1]:6379 is a list that breaks off, for YAML */
		sl_conf_expect(conf, node, SL_NODE_TEXT, "an address such as 10.0.0.1:6379, or \"[::1]:6379\" in quotes");
		return;
	}
	if (written == 0 || written > SL_REDIS_ADDRESSES_MAX) {
		sl_report_error(conf->report, node->place, "expected 1 to %d addresses of nodes, found %u",
		                SL_REDIS_ADDRESSES_MAX, written);
		return;
	}
	const char **list = sl_pool_take(&conf->policy->pool, written, sizeof *list);
	if (list == NULL)
		return;
	for (const struct sl_yaml *one = is_list ? node->first : node; one != NULL; one = is_list ? one->next : NULL)
		add_address(conf, one, list, &redis->address_count);
	redis->addresses = list;
}

/* ---- single values ---------------------------------------------------------------------------------------------- */

/* Does a prefix hold a whole hash tag, {x}? `*broken`: it opens one that it does not close, or an empty one; then what
 * a key is would decide. */
static bool has_tag(struct sluice_bytes prefix, bool *broken) {
	const char *p = prefix.data, *open = prefix.len == 0 ? NULL : memchr(p, '{', prefix.len);
	*broken = false;
	if (open == NULL)
		return false;
	const char *close = memchr(open, '}', prefix.len - (size_t)(open - p));
	*broken = close == NULL || close == open + 1;
	return !*broken;
}

static void read_prefix(struct sl_conf *conf, const struct sl_yaml *node, const char **prefix) {
	struct sluice_bytes text;
	size_t good = 0;
	bool broken;
	if (!sl_conf_text(conf, node, "what stands before every key, such as sluice:", &text))
		return;
	const char *p = text.data;
	while (good < text.len && p[good] > ' ' && p[good] < 0x7f)
		good++;
	if (good < text.len || text.len > SL_REDIS_PREFIX_BYTES_MAX) {
		sl_report_found(conf->report, good < text.len ? sl_node_place(node, good) : node->place, text,
		                "expected a prefix of at most %d printable ASCII characters without spaces",
		                SL_REDIS_PREFIX_BYTES_MAX);
		return;
	}
	if (has_tag(text, &broken))
		sl_report_warning(
			conf->report, node->place,
			"the hash tag in this prefix puts all keys into one slot: one node of a cluster has them all");
	if (broken)
		sl_report_found(conf->report, node->place, text,
		                "expected a prefix without '{', or with a whole hash tag: a key would close the tag that it "
		                "opens");
	else
		*prefix = sl_pool_text(&conf->policy->pool, text);
}

static void read_via(struct sl_conf *conf, const struct sl_yaml *node, uint8_t *via) {
	static const struct sl_word words[] = {
		{"auto", SL_VIA_AUTO, false},
		{"module", SL_VIA_MODULE, false},
		{"script", SL_VIA_SCRIPT, false},
		{NULL, 0, false},
	};
	uint32_t bits;
	if (sl_conf_word(conf, node, words, &bits))
		*via = (uint8_t)bits;
}

static void read_user(struct sl_conf *conf, const struct sl_yaml *node, const char **user) {
	struct sluice_bytes text;
	size_t good = 0;
	if (!sl_conf_text(conf, node, "the name of a user of the nodes", &text))
		return;
	const char *p = text.data;
	while (good < text.len && p[good] > ' ' && p[good] < 0x7f)
		good++;
	if (text.len == 0 || good < text.len || text.len > REDIS_USER_BYTES_MAX)
		sl_report_error(conf->report, good < text.len ? sl_node_place(node, good) : node->place,
		                "expected a name of 1 to %d printable ASCII characters without spaces", REDIS_USER_BYTES_MAX);
	else
		*user = sl_pool_text(&conf->policy->pool, text);
}

static void read_tls(struct sl_conf *conf, const struct sl_yaml *node, struct sl_redis_settings *redis) {
	static const struct sl_field fields[] = {
		{"ca", sl_conf_path, offsetof(struct sl_redis_settings, tls_ca), NULL},
		{"certificate", sl_conf_path, offsetof(struct sl_redis_settings, tls_certificate), NULL},
		{"key", sl_conf_path, offsetof(struct sl_redis_settings, tls_key), NULL},
		{NULL, NULL, 0, NULL},
	};
	size_t errors = conf->report->error_count;
	if (node->kind == SL_NODE_TEXT) {
		sl_conf_bool(conf, node, &redis->tls);
		return;
	}
	if (node->kind == SL_NODE_LIST) {
		sl_conf_expect(conf, node, SL_NODE_TEXT, "true, false, or a mapping such as {ca: /etc/ssl/redis-ca.pem}");
		return;
	}
	redis->tls = true;
	sl_conf_map(conf, node, "the nodes' tls", fields, redis);
	if ((redis->tls_certificate == NULL) != (redis->tls_key == NULL) && errors == conf->report->error_count)
		sl_report_error(conf->report, node->place, "expected certificate and key together, found only %s",
		                redis->tls_key == NULL ? "certificate" : "key");
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* What is said of nodes where there are none. */
static void refuse_all(struct sl_conf *conf, const struct sl_redis_nodes *nodes) {
	const struct {
		const struct sl_yaml *node;
		const char *name;
	} keys[] = {
		{nodes->prefix, "prefix"}, {nodes->via, "via"},
		{nodes->budget, "budget"}, {nodes->slices, "slices"},
		{nodes->slice, "slice"},   {nodes->ready_after, "ready-after"},
		{nodes->user, "user"},     {nodes->password_file, "password-file"},
		{nodes->tls, "tls"},
	};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (keys[i].node != NULL)
			sl_report_error(conf->report, keys[i].node->place,
			                "expected redis: ADDRESS as well: %s is for a store in Redis", keys[i].name);
}

static void read_values(struct sl_conf *conf, const struct sl_redis_nodes *nodes, struct sl_redis_settings *redis) {
	read_addresses(conf, nodes->redis, redis);
	if (nodes->prefix != NULL)
		read_prefix(conf, nodes->prefix, &redis->prefix);
	if (nodes->via != NULL)
		read_via(conf, nodes->via, &redis->via);
	if (nodes->budget != NULL)
		sl_conf_wait(conf, nodes->budget, MS_NS, "1ms", 10000 * MS_NS, "10s", &redis->budget_ns);
	if (nodes->slices != NULL)
		sl_conf_bool(conf, nodes->slices, &redis->slices);
	if (nodes->slice != NULL)
		sl_conf_wait(conf, nodes->slice, 10 * MS_NS, "10ms", 10000 * MS_NS, "10s", &redis->slice_ns);
	if (nodes->ready_after != NULL)
		sl_conf_wait(conf, nodes->ready_after, 0, "0s", 3600000 * MS_NS, "1h", &redis->ready_after_ns);
	if (nodes->user != NULL)
		read_user(conf, nodes->user, &redis->user);
	if (nodes->password_file != NULL)
		sl_conf_path(conf, nodes->password_file, &redis->password_file);
	if (nodes->tls != NULL)
		read_tls(conf, nodes->tls, redis);
	if (nodes->user != NULL && nodes->password_file == NULL && nodes->password == NULL)
		sl_report_error(conf->report, nodes->user->place,
		                "expected password-file as well as user: AUTH takes a name and a password");
}

void sl_conf_redis(struct sl_conf *conf, const struct sl_redis_nodes *nodes, struct sl_redis_settings *redis) {
	if (nodes->password != NULL)
		sl_report_error(conf->report, nodes->password->place,
		                "expected no password in this file: password-file: PATH names a file whose first line it is");
	if (nodes->redis == NULL) {
		refuse_all(conf, nodes);
		return;
	}
	read_values(conf, nodes, redis);
	sl_lint_redis(conf, nodes, redis);
}
