/* A key that people wrote, in the form that the keys of requests have: decoded pair by pair, each value brought into
 * its form, and encoded again. */
#include "policy/attribute.h"
#include "policy/key.h"
#include "policy/policy.h"

/* Undoes sl_key_encode(); `text` has at most SLUICE_KEY_BYTES_MAX bytes. */
static struct sluice_bytes decode(struct sluice_bytes text, char *memory) {
	const char *p = text.data;
	char *at = memory;
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

/* Appends one pair; false where it is none. */
static bool add_pair(struct sl_out *out, struct sluice_bytes pair, const struct sl_settings *settings) {
	const char *p = pair.data, *mark = pair.len == 0 ? NULL : memchr(p, '=', pair.len);
	char decoded[SLUICE_KEY_BYTES_MAX], memory[SLUICE_KEY_BYTES_MAX];
	if (mark == NULL)
		return false;
	struct sluice_bytes name = {p, (size_t)(mark - p)}, value = {mark + 1, pair.len - name.len - 1};
	enum sl_attribute attribute = sl_attribute_find(name);
	sl_out_bytes(out, p, name.len + 1);
	if (attribute == SL_ATTRIBUTE_OTHER) {
		sl_out_bytes(out, value.data, value.len);
		return true;
	}
	value = sl_attribute_counted(attribute, decode(value, decoded), settings->ipv6_prefix, settings->paths, memory);
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
