/* How envoyproxy/ratelimit's files are kept: shared by those that read, build and search the tree. */
#ifndef SL_ENVOY_INSIDE_H
#define SL_ENVOY_INSIDE_H

#include "policy/conf.h"
#include "policy/envoy.h"

enum { SL_ENVOY_NONE = UINT32_MAX };

/* A domain, or a descriptor. */
struct sl_envoy_node {
	uint32_t parent;                /* SL_ENVOY_NONE: it is a domain */
	uint32_t rule;                  /* SL_ENVOY_NONE: it has no limit */
	struct sluice_bytes key, value; /* value.len 0: it is known by its key alone */
	bool value_to_metric, share;
	bool has_children;
	bool on_path; /* it or one above it is value_to_metric: what it is counted under has values */
};

/* How long what stands before the first star of a text is, and what stands after the last one. */
struct sl_envoy_ends {
	uint32_t before, after;
};

/* The stars of one level: of the values of one key, or of keys. */
struct sl_envoy_stars {
	uint32_t parent;
	struct sluice_bytes key; /* data NULL: of keys */
	uint32_t count, room;
	struct sl_envoy_ends *ends; /* each once */
};

struct sl_envoy_slot {
	uint64_t hash;
	uint32_t index; /* of a node, or of stars; SL_ENVOY_NONE: free */
	uint32_t kind;
};

/* All files of a policy. */
struct sl_envoy {
	struct sl_pool *pool;
	struct sl_envoy_node *nodes;
	struct sl_envoy_rule **rules;
	struct sl_envoy_stars *stars;
	struct sl_envoy_slot *slots; /* open addressing; slot_count is a power of two, at least twice what is used */
	uint32_t node_count, node_room, rule_count, rule_room, star_count, star_room, slot_count, used;
	uint32_t descriptor_count, file_count;
	uint64_t bytes;
	struct sluice_terms terms; /* of all rules */
};

/* ---- envoy_tree.c ---- */

/* Makes room for the files of a policy; NULL without memory. */
struct sl_envoy *sl_envoy_new(struct sl_pool *pool);

/* The node of a domain, or of a descriptor with this very key and value (value.len 0: none) in a parent;
 * SL_ENVOY_NONE. */
uint32_t sl_envoy_node_find(const struct sl_envoy *envoy, uint32_t parent, struct sluice_bytes key,
                            struct sluice_bytes value);

/* Does a parent have a descriptor that they would write as this one: key_value? */
bool sl_envoy_is_taken(const struct sl_envoy *envoy, uint32_t parent, struct sluice_bytes joined);

/* Has a descriptor of this key and value place among the stars of a parent, SL_ENVOY_ENDS_MAX? */
bool sl_envoy_has_room(const struct sl_envoy *envoy, const struct sl_envoy_node *node);

/* Adds a node that has room, whose parent, key, value and flags are said; texts are the pool's. SL_ENVOY_NONE without
 * memory. */
uint32_t sl_envoy_node_add(struct sl_envoy *envoy, const struct sl_envoy_node *node);

/* Adds a rule, whose node there is; false without memory. */
SLUICE_MUST_USE bool sl_envoy_rule_add(struct sl_envoy *envoy, struct sl_envoy_rule *rule);

/* ---- envoy_yaml.c ---- */

/* A descriptor as the file has it. Texts are the tree's, empty where they are absent; nodes NULL. */
struct sl_their_descriptor {
	struct sluice_bytes key, value;
	const struct sl_yaml *rate_limit, *descriptors, *metadata;
	bool shadow, quota, detailed, value_to_metric, share;
};

struct sl_their_rate_limit {
	uint32_t requests;
	struct sluice_bytes name;
	bool unlimited;
	const struct sl_yaml *unit, *replaces;
};

/* Checks the keys and then the types of a whole file, as they do; reports all mistakes, and doubts. */
void sl_their_check(struct sl_report *report, const struct sl_yaml *root);

/* The text of a key of a mapping; empty where it is absent or null. Of a file that was checked, as what follows. */
struct sluice_bytes sl_their_text(const struct sl_yaml *map, const char *name);
/* The list or mapping of a key; NULL where it is absent or null. */
const struct sl_yaml *sl_their_node(const struct sl_yaml *map, const char *name);
void sl_their_descriptor(const struct sl_yaml *map, struct sl_their_descriptor *descriptor);
/* The rate_limit of a descriptor that has one: what all that stand in it, or were merged into it, say together. */
void sl_their_rate_limit(const struct sl_yaml *descriptor, struct sl_their_rate_limit *limit);

#endif
