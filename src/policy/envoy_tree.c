/* The tree of all files: built while they are read, then searched, level by level.
 *
 *   slots    hash of (kind, parent, key, value) -> node, or the stars of a level
 *   stars    of one key of a level, or of its keys: the lengths of what stands around them
 *
 * A descriptor with a star stands in the table twice: as it is written, and by what stands before its first star and
 * after its last one. Whoever searches looks for both ends of a text, once for each pair of lengths that the stars of
 * that level have: as often for a thousand of them as for one, if those are alike. What stands between two stars is
 * compared.
 *
 * The hash is no secret: the table holds the operator's own texts, and requests only look. */
#include "base/assert.h"
#include "base/math.h"
#include "policy/envoy_inside.h"
#include "policy/key.h"

enum {
	KIND_WHOLE = 1, /* by key and value, or key alone; and domains */
	KIND_VALUES,    /* by key and both ends of a value with a star */
	KIND_KEYS,      /* by both ends of a key with a star */
	KIND_STARS,     /* the stars of a key's values */
	KIND_KEY_STARS, /* of a level's keys */
	KIND_NAME,      /* rules by their names */
	SLOTS_MIN = 64,
	ROOM_MIN = 16,
};

/* ---- the hash ---------------------------------------------------------------------------------------------------- */

static const uint64_t FNV_PRIME = 0x100000001b3;

static uint64_t hash_begin(uint32_t kind, uint32_t parent) {
	return (0xcbf29ce484222325 ^ kind) * FNV_PRIME + parent * 0x9e3779b97f4a7c15;
}

static inline uint64_t hash_byte(uint64_t hash, unsigned char byte) {
	return (hash ^ byte) * FNV_PRIME;
}

static uint64_t hash_text(uint64_t hash, struct sluice_bytes text) {
	for (size_t i = 0; i < text.len; i++)
		hash = hash_byte(hash, ((const unsigned char *)text.data)[i]);
	return hash_byte(hash, 0xff);
}

/* FNV's low bits are weak. */
static uint64_t hash_end(uint64_t hash) {
	hash ^= hash >> 32;
	hash *= 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

static uint64_t hash_pair(uint32_t kind, uint32_t parent, struct sluice_bytes key, struct sluice_bytes value) {
	uint64_t hash = hash_text(hash_begin(kind, parent), key);
	for (size_t i = 0; i < value.len; i++)
		hash = hash_byte(hash, ((const unsigned char *)value.data)[i]);
	return hash_end(hash);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Is what a slot has these texts? */
static bool is_at(const struct sl_envoy *envoy, const struct sl_envoy_slot *slot, uint32_t kind, uint32_t parent,
                  struct sluice_bytes key, struct sluice_bytes value) {
	if (kind == KIND_STARS || kind == KIND_KEY_STARS)
		return envoy->stars[slot->index].parent == parent && sl_bytes_equal(envoy->stars[slot->index].key, key);
	if (kind == KIND_NAME)
		return sl_bytes_equal(sl_str(envoy->rules[slot->index]->shown.name), key);
	const struct sl_envoy_node *node = &envoy->nodes[slot->index];
	return node->parent == parent && sl_bytes_equal(node->key, key) && sl_bytes_equal(node->value, value);
}

static uint32_t find(const struct sl_envoy *envoy, uint64_t hash, uint32_t kind, uint32_t parent,
                     struct sluice_bytes key, struct sluice_bytes value) {
	for (uint64_t at = hash;; at++) {
		const struct sl_envoy_slot *slot = &envoy->slots[at & (envoy->slot_count - 1)];
		if (slot->index == SL_ENVOY_NONE)
			return SL_ENVOY_NONE;
		if (slot->hash == hash && slot->kind == kind && is_at(envoy, slot, kind, parent, key, value))
			return slot->index;
	}
}

static void put(struct sl_envoy_slot *slots, uint32_t slot_count, struct sl_envoy_slot one) {
	uint64_t at = one.hash;
	while (slots[at & (slot_count - 1)].index != SL_ENVOY_NONE)
		at++;
	slots[at & (slot_count - 1)] = one;
}

static bool take_slots(struct sl_envoy *envoy, uint32_t count) {
	struct sl_envoy_slot *slots = sl_pool_take(envoy->pool, count, sizeof *slots);
	if (slots == NULL)
		return false;
	for (uint32_t slot = 0; slot < count; slot++)
		slots[slot].index = SL_ENVOY_NONE;
	for (uint32_t i = 0; i < envoy->slot_count; i++)
		if (envoy->slots[i].index != SL_ENVOY_NONE)
			put(slots, count, envoy->slots[i]);
	envoy->slots = slots;
	envoy->slot_count = count;
	return true;
}

static bool insert(struct sl_envoy *envoy, uint64_t hash, uint32_t kind, uint32_t index) {
	if (2 * (envoy->used + 1) > envoy->slot_count && !take_slots(envoy, 2 * envoy->slot_count))
		return false;
	put(envoy->slots, envoy->slot_count, (struct sl_envoy_slot){hash, index, kind});
	envoy->used++;
	return true;
}

struct sl_envoy *sl_envoy_new(struct sl_pool *pool) {
	struct sl_envoy *envoy = sl_pool_take(pool, 1, sizeof *envoy);
	if (envoy == NULL)
		return NULL;
	envoy->pool = pool;
	return take_slots(envoy, SLOTS_MIN) ? envoy : NULL;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* A list with room for one more; the old one where it has it. NULL without memory. */
static void *grown(struct sl_pool *pool, void *list, uint32_t count, uint32_t *room, size_t bytes) {
	if (count < *room)
		return list;
	uint32_t more = *room == 0 ? ROOM_MIN : 2 * *room;
	void *taken = sl_pool_take(pool, more, bytes);
	if (taken == NULL)
		return NULL;
	if (count != 0)
		memcpy(taken, list, count * bytes);
	*room = more;
	return taken;
}

/* ---- stars ------------------------------------------------------------------------------------------------------- */

static bool has_star(struct sluice_bytes text) {
	return text.len != 0 && memchr(text.data, '*', text.len) != NULL;
}

/* The text with the star that a node is found by: its key, or its value; data NULL: it has none. */
static struct sluice_bytes starred(const struct sl_envoy_node *node) {
	return has_star(node->key) ? node->key : has_star(node->value) ? node->value : sl_slice(NULL, 0);
}

static struct sl_envoy_ends ends_of(struct sluice_bytes text) {
	const char *p = text.data;
	struct sl_envoy_ends ends = {0, 0};
	while (p[ends.before] != '*')
		ends.before++;
	while (p[text.len - 1 - ends.after] != '*')
		ends.after++;
	return ends;
}

/* Does a text have the form of one with stars? What is between them is looked for from left to right. */
static bool fits(struct sluice_bytes form, struct sluice_bytes text) {
	const char *f = form.data, *t = text.data;
	size_t at = 0, i = 0, star = SIZE_MAX, tried = 0;
	while (i < text.len) {
		if (at < form.len && f[at] == '*') {
			star = at++;
			tried = i;
		} else if (at < form.len && f[at] == t[i]) {
			at++;
			i++;
		} else if (star != SIZE_MAX) {
			at = star + 1;
			i = ++tried;
		} else {
			return false;
		}
	}
	while (at < form.len && f[at] == '*')
		at++;
	return at == form.len;
}

/* By which both ends of a text are found: of a key's values, or of keys. */
static uint64_t hash_ends(uint32_t kind, uint32_t parent, struct sluice_bytes key, struct sluice_bytes text,
                          struct sl_envoy_ends ends) {
	const unsigned char *p = text.data;
	uint64_t hash = hash_begin(kind, parent);
	if (kind == KIND_VALUES)
		hash = hash_text(hash, key);
	hash = hash_text(hash, sl_slice(p, ends.before));
	return hash_end(hash_text(hash, sl_slice(p + text.len - ends.after, ends.after)));
}

static uint32_t find_stars(const struct sl_envoy *envoy, uint32_t parent, bool of_keys, struct sluice_bytes key) {
	static const struct sluice_bytes none = {NULL, 0};
	uint32_t kind = of_keys ? KIND_KEY_STARS : KIND_STARS;
	struct sluice_bytes name = of_keys ? none : key;
	return find(envoy, hash_pair(kind, parent, name, none), kind, parent, name, none);
}

static bool has_ends(const struct sl_envoy_stars *stars, struct sl_envoy_ends ends) {
	for (uint32_t i = 0; i < stars->count; i++)
		if (stars->ends[i].before == ends.before && stars->ends[i].after == ends.after)
			return true;
	return false;
}

bool sl_envoy_has_room(const struct sl_envoy *envoy, const struct sl_envoy_node *node) {
	struct sluice_bytes text = starred(node);
	if (text.data == NULL)
		return true;
	uint32_t at = find_stars(envoy, node->parent, has_star(node->key), node->key);
	return at == SL_ENVOY_NONE || envoy->stars[at].count < SL_ENVOY_ENDS_MAX ||
	       has_ends(&envoy->stars[at], ends_of(text));
}

static bool add_ends(struct sl_pool *pool, struct sl_envoy_stars *stars, struct sl_envoy_ends ends) {
	if (has_ends(stars, ends))
		return true;
	struct sl_envoy_ends *list = grown(pool, stars->ends, stars->count, &stars->room, sizeof *list);
	if (list == NULL)
		return false;
	SL_ASSERT(stars->count < SL_ENVOY_ENDS_MAX);
	list[stars->count++] = ends;
	stars->ends = list;
	return true;
}

/* Notes the star of a node among those of its level. */
static bool add_star(struct sl_envoy *envoy, const struct sl_envoy_node *node, struct sl_envoy_ends ends) {
	static const struct sluice_bytes none = {NULL, 0};
	const bool of_keys = has_star(node->key);
	uint32_t kind = of_keys ? KIND_KEY_STARS : KIND_STARS;
	uint32_t at = find_stars(envoy, node->parent, of_keys, node->key);
	if (at == SL_ENVOY_NONE) {
		struct sluice_bytes name = of_keys ? none : node->key;
		struct sl_envoy_stars *stars =
			grown(envoy->pool, envoy->stars, envoy->star_count, &envoy->star_room, sizeof *stars);
		if (stars == NULL)
			return false;
		envoy->stars = stars;
		at = envoy->star_count++;
		stars[at] = (struct sl_envoy_stars){.parent = node->parent, .key = name};
		if (!insert(envoy, hash_pair(kind, node->parent, name, none), kind, at))
			return false;
	}
	return add_ends(envoy->pool, &envoy->stars[at], ends);
}

static bool index_star(struct sl_envoy *envoy, const struct sl_envoy_node *node, uint32_t at) {
	struct sluice_bytes text = starred(node);
	if (text.data == NULL)
		return true;
	struct sl_envoy_ends ends = ends_of(text);
	uint32_t kind = has_star(node->key) ? KIND_KEYS : KIND_VALUES;
	return insert(envoy, hash_ends(kind, node->parent, node->key, text, ends), kind, at) && add_star(envoy, node, ends);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

uint32_t sl_envoy_node_find(const struct sl_envoy *envoy, uint32_t parent, struct sluice_bytes key,
                            struct sluice_bytes value) {
	return find(envoy, hash_pair(KIND_WHOLE, parent, key, value), KIND_WHOLE, parent, key, value);
}

bool sl_envoy_is_taken(const struct sl_envoy *envoy, uint32_t parent, struct sluice_bytes joined) {
	const char *text = joined.data;
	if (sl_envoy_node_find(envoy, parent, joined, sl_slice("", 0)) != SL_ENVOY_NONE)
		return true;
	for (size_t i = 1; i + 1 < joined.len; i++)
		if (text[i] == '_' && sl_envoy_node_find(envoy, parent, sl_slice(text, i),
		                                         sl_slice(text + i + 1, joined.len - i - 1)) != SL_ENVOY_NONE)
			return true;
	return false;
}

uint32_t sl_envoy_node_add(struct sl_envoy *envoy, const struct sl_envoy_node *node) {
	struct sl_envoy_node *nodes = grown(envoy->pool, envoy->nodes, envoy->node_count, &envoy->node_room, sizeof *nodes);
	if (nodes == NULL)
		return SL_ENVOY_NONE;
	envoy->nodes = nodes;
	const uint32_t at = envoy->node_count;
	nodes[at] = *node;
	envoy->node_count++;
	if (node->parent != SL_ENVOY_NONE)
		nodes[node->parent].has_children = true;
	if (!insert(envoy, hash_pair(KIND_WHOLE, node->parent, node->key, node->value), KIND_WHOLE, at) ||
	    !index_star(envoy, node, at))
		return SL_ENVOY_NONE;
	return at;
}

static uint32_t find_name(const struct sl_envoy *envoy, struct sluice_bytes name) {
	static const struct sluice_bytes none = {NULL, 0};
	return find(envoy, hash_pair(KIND_NAME, 0, name, none), KIND_NAME, 0, name, none);
}

bool sl_envoy_rule_add(struct sl_envoy *envoy, struct sl_envoy_rule *rule) {
	static const struct sluice_bytes none = {NULL, 0};
	struct sl_envoy_rule **rules =
		grown(envoy->pool, envoy->rules, envoy->rule_count, &envoy->rule_room, sizeof *rules);
	if (rules == NULL || rule->shown.name == NULL)
		return false;
	struct sluice_bytes name = sl_str(rule->shown.name);
	const uint32_t at = envoy->rule_count;
	envoy->rules = rules;
	if (find_name(envoy, name) == SL_ENVOY_NONE && !insert(envoy, hash_pair(KIND_NAME, 0, name, none), KIND_NAME, at))
		return false;
	rules[at] = rule;
	envoy->rule_count++;
	return true;
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

uint32_t sl_policy_envoy_files(const struct sluice_policy *policy) {
	return policy->envoy == NULL ? 0 : policy->envoy->file_count;
}

uint32_t sl_policy_envoy_count(const struct sluice_policy *policy) {
	return policy->envoy == NULL ? 0 : policy->envoy->rule_count;
}

const struct sl_envoy_rule *sl_policy_envoy_at(const struct sluice_policy *policy, uint32_t number) {
	SL_ASSERT(number < sl_policy_envoy_count(policy));
	return policy->envoy->rules[number];
}

const struct sl_envoy_rule *sl_policy_envoy_rule(const struct sluice_policy *policy, uint32_t position) {
	if (position < policy->limit_count || position - policy->limit_count >= sl_policy_envoy_count(policy))
		return NULL;
	return policy->envoy->rules[position - policy->limit_count];
}

int64_t sl_policy_envoy_named(const struct sluice_policy *policy, struct sluice_bytes name) {
	uint32_t at = policy->envoy == NULL ? SL_ENVOY_NONE : find_name(policy->envoy, name);
	return at == SL_ENVOY_NONE ? -1 : (int64_t)policy->limit_count + at;
}

/* ---- searching --------------------------------------------------------------------------------------------------- */

/* Does an entry have the form of a node with a star? */
static bool is_of_form(const struct sl_envoy_node *node, const struct sluice_bytes *pair) {
	return fits(node->key, pair[0]) && (node->value.len == 0 || fits(node->value, pair[1]));
}

/* The first in the files, or `best`, of a level's descriptors whose stars fit an entry: its value's, or its key's. */
static uint32_t find_star(const struct sl_envoy *envoy, uint32_t kind, uint32_t parent, const struct sluice_bytes *pair,
                          uint32_t best) {
	struct sluice_bytes text = pair[kind == KIND_VALUES];
	uint32_t at = find_stars(envoy, parent, kind == KIND_KEYS, pair[0]);
	for (uint32_t i = 0; at != SL_ENVOY_NONE && i < envoy->stars[at].count; i++) {
		struct sl_envoy_ends ends = envoy->stars[at].ends[i];
		if ((uint64_t)ends.before + ends.after > text.len)
			continue;
		uint64_t hash = hash_ends(kind, parent, pair[0], text, ends);
		for (uint64_t slot = hash;; slot++) {
			const struct sl_envoy_slot *one = &envoy->slots[slot & (envoy->slot_count - 1)];
			if (one->index == SL_ENVOY_NONE)
				break;
			/* nodes are numbered as they stand in the files */
			if (one->hash == hash && one->kind == kind && one->index < best &&
			    envoy->nodes[one->index].parent == parent && is_of_form(&envoy->nodes[one->index], pair))
				best = one->index;
		}
	}
	return best;
}

/* The descriptor that an entry reaches from a node; SL_ENVOY_NONE. */
static uint32_t step(const struct sl_envoy *envoy, uint32_t parent, const struct sluice_bytes *pair, uint32_t bit,
                     struct sl_envoy_found *found) {
	uint32_t node = SL_ENVOY_NONE;
	if (pair[1].len != 0)
		node = sl_envoy_node_find(envoy, parent, pair[0], pair[1]);
	if (node != SL_ENVOY_NONE) {
		found->exact |= (uint16_t)(1u << bit);
		return node;
	}
	if (envoy->star_count != 0) {
		node = find_star(envoy, KIND_VALUES, parent, pair, SL_ENVOY_NONE);
		node = find_star(envoy, KIND_KEYS, parent, pair, node);
	}
	if (node != SL_ENVOY_NONE) {
		found->wild |= (uint16_t)(1u << bit);
		return node;
	}
	return sl_envoy_node_find(envoy, parent, pair[0], sl_slice("", 0));
}

bool sl_policy_envoy_has(const struct sluice_policy *policy, struct sluice_bytes domain) {
	return policy->envoy != NULL &&
	       sl_envoy_node_find(policy->envoy, SL_ENVOY_NONE, domain, sl_slice("", 0)) != SL_ENVOY_NONE;
}

void sl_policy_envoy_find(const struct sluice_policy *policy, struct sluice_bytes domain,
                          const struct sluice_bytes *pairs, uint32_t count, struct sl_envoy_found *found) {
	const struct sl_envoy *envoy = policy->envoy;
	*found = (struct sl_envoy_found){.rule = NULL};
	if (envoy == NULL || count == 0 || count > SL_ENVOY_DEPTH_MAX)
		return;
	uint32_t at = sl_envoy_node_find(envoy, SL_ENVOY_NONE, domain, sl_slice("", 0));
	for (uint32_t i = 0; i < count && at != SL_ENVOY_NONE; i++) {
		at = envoy->nodes[at].has_children ? step(envoy, at, pairs + 2 * (size_t)i, i, found) : SL_ENVOY_NONE;
		found->matched += at != SL_ENVOY_NONE;
	}
	if (at == SL_ENVOY_NONE || envoy->nodes[at].rule == SL_ENVOY_NONE)
		return;
	found->rule = envoy->rules[envoy->nodes[at].rule];
	found->position = policy->limit_count + envoy->nodes[at].rule;
}

/* ---- what was found ---------------------------------------------------------------------------------------------- */

/* The nodes of a rule, from its first entry's to its own. Returns how many. */
static uint32_t path_of(const struct sl_envoy *envoy, const struct sl_envoy_rule *rule,
                        const struct sl_envoy_node *path[SL_ENVOY_DEPTH_MAX]) {
	uint32_t count = 0;
	for (uint32_t at = rule->node; envoy->nodes[at].parent != SL_ENVOY_NONE; at = envoy->nodes[at].parent) {
		SL_ASSERT(count < SL_ENVOY_DEPTH_MAX);
		path[count++] = &envoy->nodes[at];
	}
	for (uint32_t i = 0; i < count / 2; i++) {
		const struct sl_envoy_node *other = path[i];
		path[i] = path[count - 1 - i];
		path[count - 1 - i] = other;
	}
	return count;
}

/* The text with the star of a node. */
static struct sluice_bytes pattern_of(const struct sl_envoy_node *node) {
	return node->value.len != 0 ? node->value : node->key;
}

struct sluice_bytes sl_policy_envoy_value(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                          uint32_t i, struct sluice_bytes value) {
	const struct sl_envoy_node *path[SL_ENVOY_DEPTH_MAX];
	if ((found->wild >> i & 1) == 0)
		return value;
	uint32_t count = path_of(policy->envoy, found->rule, path);
	SL_ASSERT(i < count);
	return path[i]->share ? pattern_of(path[i]) : value;
}

/* The value of an entry in what its descriptor is counted under. */
static struct sluice_bytes metric_value(const struct sl_envoy_found *found, const struct sl_envoy_node *node,
                                        uint32_t i, struct sluice_bytes value) {
	if ((found->wild >> i & 1) != 0)
		return node->share                                      ? pattern_of(node)
		       : node->value_to_metric || found->rule->detailed ? value
		                                                        : pattern_of(node);
	if (found->rule->detailed || (found->exact >> i & 1) != 0 || node->value_to_metric)
		return value;
	return sl_slice("", 0);
}

struct sluice_bytes sl_policy_envoy_metric(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                           struct sluice_bytes domain, const struct sluice_bytes *pairs, uint32_t count,
                                           char text[SL_ENVOY_METRIC_BYTES_MAX]) {
	const struct sl_envoy *envoy = policy->envoy;
	const struct sl_envoy_node *path[SL_ENVOY_DEPTH_MAX];
	struct sl_out out = sl_out_to(text, SL_ENVOY_METRIC_BYTES_MAX);
	const bool fits_whole = found->rule->full_key.len <= SL_ENVOY_METRIC_BYTES_MAX;
	struct sluice_bytes plain = fits_whole ? found->rule->full_key : sl_str(found->rule->shown.name);
	if (!found->rule->detailed && !envoy->nodes[found->rule->node].on_path)
		return plain;
	uint32_t depth = path_of(envoy, found->rule, path);
	bool shares = false;
	SL_ASSERT(depth == count);
	for (uint32_t i = 0; i < count; i++)
		shares = shares || ((found->wild >> i & 1) != 0 && path[i]->share);
	sl_out_bytes(&out, domain.data, domain.len);
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_bytes value = metric_value(found, path[i], i, pairs[2 * (size_t)i + 1]);
		sl_out_char(&out, '.');
		sl_out_bytes(&out, pairs[2 * (size_t)i].data, pairs[2 * (size_t)i].len);
		if (value.len != 0 || (found->rule->detailed && !shares))
			sl_out_char(&out, '_');
		sl_out_bytes(&out, value.data, value.len);
	}
	for (char *at = text; at < out.at; at++) /* values are any bytes: none that is no text becomes a label */
		*at = (unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f ? '_' : *at;
	return out.overflow ? plain : sl_slice(text, sl_out_len(&out));
}
