/* What a descriptor has found, for those who count it and those who ask: the key of its counter, and in words which
 * rule it is and where that stands, or why there is none. */
#include "base/assert.h"
#include "base/text.h"
#include "policy/envoy_inside.h"
#include "policy/key.h"

struct sluice_bytes sl_policy_envoy_key(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                        struct sluice_bytes domain, const struct sluice_bytes *pairs, uint32_t count,
                                        char *to, size_t room) {
	struct sl_out out = sl_out_to(to, room);
	struct sluice_bytes key;
	sl_key_add(&out, domain);
	for (uint32_t i = 0; i < count; i++) {
		const struct sluice_bytes *pair = &pairs[2 * (size_t)i];
		sl_out_char(&out, ',');
		sl_key_add(&out, pair[0]);
		sl_out_char(&out, '=');
		sl_key_add(&out, found == NULL ? pair[1] : sl_policy_envoy_value(policy, found, i, pair[1]));
		key = sl_key_fold(to, sl_slice(to, sl_out_len(&out)));
		out.at = to + key.len;
	}
	SL_ASSERT(!out.overflow);
	return sl_key_fold(to, sl_slice(to, sl_out_len(&out)));
}

struct sluice_bytes sl_policy_envoy_why(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                        struct sluice_bytes domain, const struct sluice_bytes *pairs, uint32_t count,
                                        char memory[SL_ENVOY_WHY_BYTES_MAX]) {
	enum { NAME_SHOWN = 128, FILE_SHOWN = 256 };
	struct sl_out out = sl_out_to(memory, SL_ENVOY_WHY_BYTES_MAX);
	if (found->rule != NULL) {
		sl_out_shown(&out, found->rule->full_key, NAME_SHOWN);
		sl_out_str(&out, ": ");
		sl_out_shown(&out, sl_str(found->rule->file), FILE_SHOWN);
		sl_out_char(&out, ':');
		sl_out_u64(&out, found->rule->line);
	} else if (!sl_policy_envoy_has(policy, domain)) {
		sl_out_str(&out, "no rule: no file has the domain ");
		sl_out_shown(&out, domain, NAME_SHOWN);
	} else if (found->matched < count) {
		sl_out_str(&out, "no rule: entry ");
		sl_out_u64(&out, found->matched + 1);
		sl_out_str(&out, " (");
		sl_out_shown(&out, pairs[2 * (size_t)found->matched], NAME_SHOWN);
		sl_out_str(&out, ") finds no descriptor");
	} else {
		sl_out_str(&out, "no rule: the descriptor that it finds has no rate_limit");
	}
	SL_ASSERT(!out.overflow);
	return sl_slice(memory, sl_out_len(&out));
}
