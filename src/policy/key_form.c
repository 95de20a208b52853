/* A key that people wrote, in the form that the keys of requests have: decoded pair by pair, each value brought into
 * its form, and encoded again. And what it tells of the request: which override of its limit counts. */
#include "policy/attribute.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "policy/route.h"
#include "policy/ruleset.h"

/* Undoes sl_key_encode(), in `memory` where there may be something to undo; `text` has at most SLUICE_KEY_BYTES_MAX
 * bytes. */
static struct sluice_bytes decode(struct sluice_bytes text, char *memory) {
	const char *p = text.data;
	char *at = memory;
	if (text.len == 0 || memchr(p, '%', text.len) == NULL)
		return text;
	for (size_t i = 0; i < text.len; i++) {
		const char *code = text.len - i >= 3 ? p + i : "   ";
		char c = memcmp(code, "%25", 3) == 0   ? '%'
		         : memcmp(code, "%2C", 3) == 0 ? ','
		         : memcmp(code, "%3D", 3) == 0 ? '='
		                                       : '\0';
		*at++ = c != '\0' ? c : p[i];
		i += c != '\0' ? 2 : 0;
	}
	return sl_slice(memory, (size_t)(at - memory));
}

/* Appends one pair; false where it is none. What people leave as it is in a value, such as the "=" at the end of
 * base64, is encoded as in requests' keys. */
static bool add_pair(struct sl_out *out, struct sluice_bytes pair, const struct sl_settings *settings) {
	const char *p = pair.data, *mark = pair.len == 0 ? NULL : memchr(p, '=', pair.len);
	char decoded[SLUICE_KEY_BYTES_MAX], memory[SLUICE_KEY_BYTES_MAX];
	if (mark == NULL)
		return false;
	struct sluice_bytes name = {p, (size_t)(mark - p)}, value = {mark + 1, pair.len - name.len - 1};
	sl_out_bytes(out, p, name.len + 1);
	value = sl_attribute_counted(sl_attribute_find(name), decode(value, decoded), settings->ipv6_prefix,
	                             settings->paths, memory);
	sl_key_add(out, value);
	return true;
}

struct sluice_bytes sl_policy_key(const struct sluice_policy *policy, struct sluice_bytes key, char *memory) {
	char whole[4 * SLUICE_KEY_BYTES_MAX];
	struct sl_out out = sl_out_to(whole, sizeof whole);
	const char *at = key.data, *end = at + key.len;
	if (key.len == 0 || key.len >= SLUICE_KEY_BYTES_MAX) /* so long keys are folded, and not read back */
		return key;
	while (at != NULL) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		struct sluice_bytes pair = {at, (size_t)((comma != NULL ? comma : end) - at)};
		if (!add_pair(&out, pair, sl_policy_settings(policy)))
			return key;
		if (comma != NULL)
			sl_out_char(&out, ',');
		at = comma != NULL ? comma + 1 : NULL;
	}
	struct sluice_bytes form = sl_key_fold(whole, sl_slice(whole, sl_out_len(&out)));
	if (out.overflow || sl_bytes_equal(form, key))
		return key;
	memcpy(memory, form.data, form.len);
	return sl_slice(memory, form.len);
}

/* ---- whose override ---------------------------------------------------------------------------------------------- */

/* What a key tells of attributes. */
struct told {
	struct sluice_bytes values[SL_POLICY_KEY_PARTS_MAX * SL_CHOICES_MAX]; /* data NULL: it is absent */
	uint16_t names[SL_POLICY_KEY_PARTS_MAX * SL_CHOICES_MAX];
	uint32_t count;
	char memory[SLUICE_KEY_BYTES_MAX]; /* of the values: no longer than the key */
};

enum fits { FITS, FITS_NOT, UNDECIDED };

static const struct sluice_bytes *find_told(const struct told *told, uint32_t name) {
	for (uint32_t i = 0; i < told->count; i++)
		if (told->names[i] == name)
			return &told->values[i];
	return NULL;
}

static void tell(struct told *told, uint16_t name, struct sluice_bytes value) {
	told->names[told->count] = name;
	told->values[told->count++] = value;
}

/* The pair of the key that a part of the limit's key has become; those that it prefers are absent. False where the key
 * is none of this limit's. */
static bool tell_part(const struct sluice_policy *policy, const struct sl_key_part *part, struct sluice_bytes pair,
                      struct told *told, char **memory) {
	for (uint32_t i = 0; i < part->count; i++) {
		struct sluice_bytes name = policy->names[part->choices[i]].encoded;
		if (pair.len < name.len || memcmp(pair.data, name.data, name.len) != 0) {
			tell(told, part->choices[i], sl_slice(NULL, 0));
			continue;
		}
		struct sluice_bytes value = decode(sl_slice((const char *)pair.data + name.len, pair.len - name.len), *memory);
		*memory += value.len;
		tell(told, part->choices[i], value);
		return true;
	}
	return part->literal.data != NULL && sl_bytes_equal(part->literal, pair);
}

static bool tell_key(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit, struct sluice_bytes key,
                     struct told *told) {
	const char *at = key.data, *end = at + key.len;
	char *memory = told->memory;
	told->count = 0;
	if (key.len == 0 || limit->part_count == 0)
		return key.len == 0 && limit->part_count == 0;
	for (uint32_t i = 0; i < limit->part_count; i++) {
		const char *comma = at == NULL || at == end ? NULL : memchr(at, ',', (size_t)(end - at));
		if (at == NULL)
			return false;
		if (!tell_part(policy, &limit->parts[i], sl_slice(at, (size_t)((comma != NULL ? comma : end) - at)), told,
		               &memory))
			return false;
		at = comma != NULL ? comma + 1 : NULL;
	}
	return at == NULL;
}

static enum fits when_fits(const struct sl_when *when, const struct told *told) {
	enum fits fits = FITS;
	for (uint32_t i = 0; i < when->count; i++) {
		const struct sluice_bytes *value = find_told(told, when->list[i].attribute);
		if (value == NULL)
			fits = UNDECIDED;
		else if (value->data == NULL || !sl_condition_holds(&when->list[i], *value))
			return FITS_NOT;
	}
	for (uint32_t i = 0; i < when->except_count; i++) {
		enum fits but = when_fits(&when->except[i], told);
		if (but == FITS)
			return FITS_NOT;
		fits = but == UNDECIDED ? UNDECIDED : fits;
	}
	return fits;
}

bool sl_policy_key_is_foreign(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes key) {
	struct told told;
	return key.len < SLUICE_KEY_BYTES_MAX && !tell_key(policy, &policy->limits[position], key, &told);
}

bool sl_policy_key_is_excluded(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes key) {
	const struct sl_ruleset_limit *limit = &policy->limits[position];
	struct told told;
	uint32_t kept = 0;
	if (key.len >= SLUICE_KEY_BYTES_MAX || !tell_key(policy, limit, key, &told))
		return false;
	for (uint32_t i = 0; i < told.count; i++) {
		if (limit->routed != NULL &&
		    (told.names[i] == policy->route || sl_routes_fill(limit->routed, told.names[i]))) {
			if (!sl_routes_allow(limit->routed, policy->route, told.names[i], told.values[i]))
				return true;
			continue;
		}
		told.names[kept] = told.names[i];
		told.values[kept++] = told.values[i];
	}
	told.count = kept;
	return when_fits(&limit->when, &told) == FITS_NOT;
}

static uint32_t cost_told(const struct sl_ruleset_limit *limit, const struct told *told) {
	const struct sl_policy_cost *cost = &limit->shown.cost;
	for (uint32_t i = 0; i < cost->route_count; i++) {
		enum fits fits = when_fits(&limit->cost_routes[i].when, told);
		if (fits != FITS_NOT)
			return fits == FITS ? limit->cost_routes[i].cost : 0;
	}
	return cost->on && cost->header == NULL ? cost->cost : 0;
}

struct sl_policy_keyed sl_policy_limit_of_key(const struct sluice_policy *policy, uint32_t position,
                                              struct sluice_bytes key) {
	const struct sl_ruleset_limit *limit = &policy->limits[position];
	struct sl_policy_keyed keyed = {.limit = &limit->shown.limit};
	struct told told;
	bool is_key = key.len < SLUICE_KEY_BYTES_MAX && tell_key(policy, limit, key, &told);
	if (!is_key)
		told.count = 0;
	keyed.cost = cost_told(limit, &told);
	if (!is_key)
		return keyed;
	for (uint32_t i = 0; i < limit->shown.override_count; i++) {
		enum fits fits = when_fits(&limit->overrides[i].when, &told);
		if (fits == FITS_NOT)
			continue;
		if (fits == UNDECIDED) {
			keyed.undecided = i + 1;
			return keyed;
		}
		keyed.override = i + 1;
		keyed.limit = &limit->overrides[i].limit;
		return keyed;
	}
	return keyed;
}
