/* `store`: where the counters are. On this host, in memory, in a file or in shared memory; or kept by nodes of Redis or
 * Valkey, and then memory and blocks size what this process counts by itself (on-error: local).
 */
#include "policy/conf_redis.h"
#include "policy/footprint.h"
#include "store/store.h"

#include <inttypes.h>

struct store_nodes {
	const struct sl_yaml *memory, *pretouch, *file, *shared, *blocks, *overrides;
	struct sl_redis_nodes redis;
	const struct sl_yaml *leases, *lease;
};

static void keep(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	(void)conf;
	*(const struct sl_yaml **)into = value;
}

static void read_home(struct sl_conf *conf, const struct store_nodes *nodes, struct sl_settings *settings) {
	if (nodes->memory != NULL) {
		sl_conf_size(conf, nodes->memory, &settings->memory_bytes);
		settings->memory_given = true;
	}
	if (nodes->file != NULL)
		sl_conf_path(conf, nodes->file, &settings->store_file);
	if (nodes->shared != NULL)
		sl_conf_shared(conf, nodes->shared, &settings->store_shared);
	if (nodes->blocks != NULL)
		sl_conf_percent(conf, nodes->blocks, 1, SL_BLOCKS_PERCENT_MAX, "a share of the store",
		                &settings->blocks_percent);
}

/* How many there may be in a store of that size: sl_conf_check_overrides(). */
static void read_overrides(struct sl_conf *conf, const struct store_nodes *nodes, struct sl_settings *settings) {
	if (nodes->overrides == NULL)
		return;
	sl_conf_number(conf, nodes->overrides, 1, UINT32_MAX, &settings->overrides_most);
	if (nodes->redis.redis != NULL)
		sl_report_error(conf->report, nodes->overrides->place,
		                "overrides bounds what a store of this host holds: these counters are in redis");
	conf->overrides_most = nodes->overrides;
}

void sl_conf_check_overrides(struct sl_conf *conf) {
	const struct sl_settings *settings = &conf->policy->settings;
	bool is_known = settings->memory_given || (settings->store_file == NULL && settings->store_shared == NULL);
	if (settings->overrides_most == 0 || !is_known)
		return;
	uint64_t most = sl_arena_overrides_most(settings->memory_bytes, sl_policy_blocks_percent(conf->policy));
	if (settings->overrides_most > most)
		sl_report_error(conf->report, conf->overrides_most->place,
		                "expected at most %" PRIu64 ", found %" PRIu32 ": a store of %" PRIu64
		                " MiB gives a quarter of its slots and a half of its blocks to quotas of keys' own; give it "
		                "more memory",
		                most, settings->overrides_most, settings->memory_bytes >> 20);
}

/* What a file or shared memory has is there once it is made; where nodes keep the counters little is used here. */
static void read_pretouch(struct sl_conf *conf, const struct store_nodes *nodes, struct sl_settings *settings) {
	bool is_private = nodes->file == NULL && nodes->shared == NULL;
	settings->pretouch = is_private && nodes->redis.redis == NULL;
	if (nodes->pretouch == NULL)
		return;
	sl_conf_bool(conf, nodes->pretouch, &settings->pretouch);
	if (!is_private)
		sl_report_error(conf->report, nodes->pretouch->place,
		                "pretouch is for private memory: files and shared memory are allocated when they are created");
}

static void check_home(struct sl_conf *conf, const struct sl_yaml *store, const struct store_nodes *nodes,
                       const struct sl_settings *settings) {
	if (nodes->redis.redis != NULL && (nodes->file != NULL || nodes->shared != NULL))
		sl_report_error(conf->report, store->place, "expected redis or %s, found both: a store is in one place",
		                nodes->file != NULL ? "file" : "shared");
	if (settings->store_file != NULL && settings->store_shared != NULL)
		sl_report_error(conf->report, store->place, "expected file or shared, found both: a store is in one place");
}

/* What is written under the former name of a key counts as the key; once is enough. */
static void take_former(struct sl_conf *conf, const struct sl_yaml *former, const char *former_name,
                        const struct sl_yaml **now, const char *name) {
	if (former != NULL && *now != NULL)
		sl_report_error(conf->report, former->place, "expected %s alone: %s is its former name", name, former_name);
	else if (former != NULL)
		*now = former;
}

void sl_conf_store(struct sl_conf *conf, const struct sl_yaml *value, void *into) {
	static const struct sl_field fields[] = {
		{"memory", keep, offsetof(struct store_nodes, memory), NULL},
		{"pretouch", keep, offsetof(struct store_nodes, pretouch), NULL},
		{"file", keep, offsetof(struct store_nodes, file), NULL},
		{"shared", keep, offsetof(struct store_nodes, shared), NULL},
		{"blocks", keep, offsetof(struct store_nodes, blocks), NULL},
		{"overrides", keep, offsetof(struct store_nodes, overrides), NULL},
		{"redis", keep, offsetof(struct store_nodes, redis.redis), NULL},
		{"prefix", keep, offsetof(struct store_nodes, redis.prefix), NULL},
		{"via", keep, offsetof(struct store_nodes, redis.via), NULL},
		{"budget", keep, offsetof(struct store_nodes, redis.budget), NULL},
		{"slices", keep, offsetof(struct store_nodes, redis.slices), NULL},
		{"slice", keep, offsetof(struct store_nodes, redis.slice), NULL},
		{"leases", keep, offsetof(struct store_nodes, leases), NULL}, /* the former names of these two */
		{"lease", keep, offsetof(struct store_nodes, lease), NULL},
		{"tls", keep, offsetof(struct store_nodes, redis.tls), NULL},
		{"ready-after", keep, offsetof(struct store_nodes, redis.ready_after), NULL},
		{"user", keep, offsetof(struct store_nodes, redis.user), NULL},
		{"password", keep, offsetof(struct store_nodes, redis.password), NULL}, /* to say where it belongs */
		{"password-file", keep, offsetof(struct store_nodes, redis.password_file), NULL},
		{NULL, NULL, 0, NULL},
	};
	struct sl_settings *settings = into;
	struct store_nodes nodes = {0};
	conf->hushed = value->kind == SL_NODE_MAP; /* `password:hunter2`, without the space, is a key */
	sl_conf_map(conf, value, "store", fields, &nodes);
	conf->hushed = false;
	read_home(conf, &nodes, settings);
	read_pretouch(conf, &nodes, settings);
	read_overrides(conf, &nodes, settings);
	take_former(conf, nodes.leases, "leases", &nodes.redis.slices, "slices");
	take_former(conf, nodes.lease, "lease", &nodes.redis.slice, "slice");
	sl_conf_redis(conf, &nodes.redis, &settings->redis);
	check_home(conf, value, &nodes, settings);
}
