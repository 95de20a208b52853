/* A policy, compiled: what matching walks through. Immutable once loaded.
 *
 * Attribute names are interned: each name that the file uses has a number, and a request's attributes are sorted into
 * an array by number once, before the first limit is looked at.
 */
#ifndef SL_RULESET_H
#define SL_RULESET_H

#include "policy/address.h"
#include "policy/policy.h"
#include "policy/pool.h"
#include "policy/rollout.h"

enum {
	SL_ATTRIBUTES_MAX = 256, /* different names in one file */
	SL_CONDITIONS_MAX = 16,  /* of one `when` */
	SL_CHOICES_MAX = 8,      /* fallbacks of one part of a key */
	SL_ROUTE_PARTS_MAX = 8,  /* of one path */
	SL_PROXIES_MAX = 1024,
	SL_NAME_SLOTS = 1024, /* of the table of names; a power of two, four times SL_ATTRIBUTES_MAX */
	SL_NAME_NONE = UINT16_MAX,
};

/* A path of a limit's conditions: exact, a prefix, or with parts. */
struct sl_route {
	struct sluice_bytes text; /* as it is written, what the attribute `route` is: /Orgs/{org}/x, /x and a star */
	struct sluice_bytes stem; /* in the form of paths, without the star: what requests are compared with */
	bool prefix;
	bool ends_loosely; /* a prefix of a folder, which the folder without its slash has as well */
	uint8_t part_count;
	uint16_t numbers[SL_ROUTE_PARTS_MAX]; /* of the attributes that its parts are */
};

/* What one attribute must be: equal to one of `exact`, or begin with one of `prefixes`; a host may end with one of
 * `suffixes`, an ip lie in one of `networks`. */
struct sl_condition {
	uint32_t attribute;
	uint32_t exact_count, prefix_count, suffix_count, network_count;
	const struct sluice_bytes *exact; /* sorted by length, then bytes */
	const struct sluice_bytes *prefixes;
	const struct sluice_bytes *suffixes; /* each with its dot, and a star before that, which is no part of it */
	const struct sl_network *networks;
	const struct sl_route *routes; /* of `path`: all of them, in the order of the file */
	uint32_t route_count;
	bool has_parts; /* some route does, and is neither exact nor a prefix */
	uint64_t not_of; /* a bit for each length below 64 that no value has which this holds for */
};

/* All of the list must hold, and nothing of `except`; neither: always. */
struct sl_when {
	const struct sl_condition *list;
	const struct sl_when *except; /* each with a list, and no `except` of its own */
	uint32_t count, except_count;
};

static inline bool sl_when_is_empty(const struct sl_when *when) {
	return when->count + when->except_count == 0;
}

struct sl_override {
	struct sl_when when;
	struct sluice_limit limit; /* a copy of the limit's own where it says none */
	bool own;                  /* it says one */
	struct sl_rollout rollout;
};

/* What requests cost at a limit that meet some conditions. */
struct sl_cost_route {
	struct sl_when when;
	uint32_t cost;
};

/* The first of `choices` that a request has. */
struct sl_key_part {
	uint32_t count;
	uint16_t choices[SL_CHOICES_MAX];
	struct sluice_bytes literal; /* the last resort, as it stands in a key: =unknown; data NULL: none */
	struct sluice_bytes written; /* the same as the file has it, with its quotes */
};

struct sl_index;
struct sl_quotas;

struct sl_ruleset_limit {
	struct sl_policy_limit shown;
	struct sl_when when;
	struct sl_rollout rollout;
	const struct sl_override *overrides; /* shown.override_count of them */
	const struct sl_index *index;        /* of them; NULL: they are few, and walked through */
	const struct sl_quotas *quotas;      /* of single keys, which go before; NULL: none */
	const struct sl_key_part *parts;
	uint32_t part_count;
	const struct sl_cost_route *cost_routes; /* shown.cost.route_count of them */
	const struct sl_condition *routed; /* whose routes fill in attributes while this limit is looked at; NULL: none */
	const struct sl_condition *paths;  /* what `when` says of the path; NULL: nothing */
	struct sl_policy_routes routes;    /* those of them that have numbers */
	uint32_t of; /* number of the attribute that `distinct` counts; SL_NAME_NONE: none */
	const struct sluice_limit **variants; /* sl_policy_limit_variants() */
	uint32_t variant_count;
};

struct sl_name {
	struct sluice_bytes text;
	struct sluice_bytes encoded; /* as it stands in a key, with '=' after it */
	uint8_t attribute;           /* enum sl_attribute: which form its values have */
	bool is_part;                /* of a path */
	bool in_key;                 /* of a limit that is not optional */
};

/* The public struct. */
struct sluice_policy {
	struct sl_pool pool; /* owns all that the rest points to */
	uint64_t number;     /* sl_policy_number() */
	struct sl_settings settings;
	struct sl_ruleset_limit *limits;
	const struct sl_index *index; /* of the limits; NULL: they are few, and walked through */
	uint32_t *named;              /* positions of limits by the hash of their names (limit_names.c) */
	uint32_t named_mask;
	const struct sl_network *proxies;
	struct sl_policy_source *sources;
	uint32_t limit_count, proxy_count, source_count;
	bool observe; /* all limits, whatever they say themselves */
	bool holds;   /* some limit leases or reserves */
	bool has_costs; /* some limit says a cost or reserves */
	bool half_linted; /* comparing all rules with each other took too long */
	uint8_t denied; /* the number of the body of denials by limits that name none, from 1; 0: none */
	uint8_t denied_count;
	uint8_t quotas_count;
	struct sl_policy_quotas quotas[SL_QUOTAS_FILES_MAX];
	struct sl_policy_denied denials[SL_DENIED_MAX];
	struct sl_envoy *envoy; /* envoyproxy/ratelimit's files; NULL: none was read */
	uint32_t route_count; /* numbers of routes given so far */
	uint16_t route;  /* number of the attribute `route`; SL_NAME_NONE: nothing asks for it */
	uint32_t name_count;
	struct sl_name names[SL_ATTRIBUTES_MAX];
	uint16_t slots[SL_NAME_SLOTS]; /* numbers of names by hash, open addressing; SL_NAME_NONE is free */
};

/* The number of a name, or SL_NAME_NONE. Some ns. */
uint16_t sl_name_find(const struct sluice_policy *policy, struct sluice_bytes name);

/* The number of a name, new or known. SL_NAME_NONE where SL_ATTRIBUTES_MAX are taken or the pool failed. */
uint16_t sl_name_intern(struct sluice_policy *policy, struct sluice_bytes name);

/* Makes the table of limits' names, for so many. False without memory. */
bool sl_limit_names_make(struct sluice_policy *policy, uint32_t count);

/* Enters the name of a limit. Returns its position, or that of the limit that has the name already. */
uint32_t sl_limit_names_add(struct sluice_policy *policy, uint32_t position);

/* Finds out which counters a limit and its overrides may keep for a key. False where they are more than
 * SL_POLICY_VARIANTS_MAX. */
bool sl_limit_variants(struct sl_pool *pool, struct sl_ruleset_limit *limit);

/* Is a name one that the proxies' doors always fill in: method, host, path, ip? */
bool sl_name_is_built_in(struct sluice_bytes name);

/* Do all conditions hold? `values` by attribute number; data NULL: absent. */
bool sl_when_holds(const struct sl_when *when, const struct sluice_bytes *values);

/* Is a value one of a condition's? */
bool sl_condition_holds(const struct sl_condition *condition, struct sluice_bytes value);

/* The order of sl_condition.exact, for qsort(). */
int sl_value_compare(const void *a, const void *b);

#endif
