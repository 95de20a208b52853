/* The names of attributes, each once, found by hash.
 *
 * The table is filled from the policy alone, so that no request can make its chains longer; it is at most a quarter
 * full. Invariant: a name stands in the first free slot after its hash.
 */
#include "policy/attribute.h"
#include "policy/key.h"
#include "policy/ruleset.h"

/* FNV-1a: short names, no secret needed (see above). */
static uint32_t name_hash(struct sluice_bytes name) {
	const unsigned char *p = name.data;
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ p[i]) * 16777619u;
	return hash ^ hash >> 16;
}

/* The slot that holds a name, or the free one where it belongs. */
static uint32_t name_slot(const struct sluice_policy *policy, struct sluice_bytes name) {
	uint32_t slot = name_hash(name) & (SL_NAME_SLOTS - 1);
	while (policy->slots[slot] != SL_NAME_NONE && !sl_bytes_equal(policy->names[policy->slots[slot]].text, name))
		slot = (slot + 1) & (SL_NAME_SLOTS - 1);
	return slot;
}

uint16_t sl_name_find(const struct sluice_policy *policy, struct sluice_bytes name) {
	return policy->slots[name_slot(policy, name)];
}

/* The name as keys begin with it, `user=`. */
static struct sluice_bytes name_encode(struct sl_pool *pool, struct sluice_bytes name) {
	char text[3 * SLUICE_NAME_BYTES_MAX + 1];
	struct sl_out out = sl_out_to(text, sizeof text);
	sl_key_encode(&out, name);
	sl_out_char(&out, '=');
	return (struct sluice_bytes){sl_pool_text(pool, sl_slice(text, sl_out_len(&out))), sl_out_len(&out)};
}

uint16_t sl_name_intern(struct sluice_policy *policy, struct sluice_bytes name) {
	uint32_t slot = name_slot(policy, name);
	if (policy->slots[slot] != SL_NAME_NONE || policy->name_count == SL_ATTRIBUTES_MAX)
		return policy->slots[slot];
	struct sl_name *added = &policy->names[policy->name_count];
	added->text = (struct sluice_bytes){sl_pool_text(&policy->pool, name), name.len};
	added->encoded = name_encode(&policy->pool, name);
	added->attribute = (uint8_t)sl_attribute_find(name);
	if (policy->pool.failed)
		return SL_NAME_NONE;
	policy->slots[slot] = (uint16_t)policy->name_count++;
	return policy->slots[slot];
}

bool sl_name_is_built_in(struct sluice_bytes name) {
	return sl_attribute_find(name) != SL_ATTRIBUTE_OTHER;
}
