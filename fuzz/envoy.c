/* Any bytes as a file of envoyproxy/ratelimit: refused with a mistake that has a place and words, or read; and then any
 * descriptor finds a rule of that file, or none, whose counter and name in metrics are within their bounds.
 *
 * An input is the file; what follows its first NUL is a descriptor: domain NUL key NUL value NUL ... */
#include "base/assert.h"
#include "policy/envoy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes up to the next NUL; `*data` moves behind it. */
static struct sluice_bytes take(const char **data, size_t *size) {
	size_t len = strnlen(*data, *size);
	struct sluice_bytes word = {*data, len};
	*data += len + (len < *size);
	*size -= len + (len < *size);
	return word;
}

static void check_problems(const struct sluice_problems *problems, bool read) {
	bool mistake = false;
	for (size_t i = 0; i < problems->count; i++) {
		const struct sluice_problem *p = &problems->list[i];
		SL_ASSERT(p->line >= 1 && p->column >= 1 && p->text[0] != '\0');
		SL_ASSERT(strnlen(p->text, sizeof p->text) < sizeof p->text);
		mistake |= !p->warning;
	}
	SL_ASSERT(mistake != read);
}

static void check_descriptor(const struct sluice_policy *policy, const char *text, size_t left) {
	struct sluice_bytes pairs[2 * (SL_ENVOY_DEPTH_MAX + 1)], domain = take(&text, &left);
	struct sl_envoy_found found;
	char memory[SL_ENVOY_METRIC_BYTES_MAX];
	uint32_t count = 0;
	for (; left != 0 && count <= SL_ENVOY_DEPTH_MAX; count++) {
		pairs[2 * count] = take(&text, &left);
		pairs[2 * count + 1] = take(&text, &left);
	}
	sl_policy_envoy_find(policy, domain, pairs, count, &found);
	SL_ASSERT(found.matched <= count && (found.wild & found.exact) == 0);
	SL_ASSERT(found.matched == 0 || sl_policy_envoy_has(policy, domain));
	if (found.rule == NULL)
		return;
	SL_ASSERT(found.matched == count && sl_policy_envoy_rule(policy, found.position) == found.rule);
	SL_ASSERT(sl_policy_limit_at(policy, found.position) == &found.rule->shown);
	for (uint32_t i = 0; i < count; i++) {
		struct sluice_bytes value = sl_policy_envoy_value(policy, &found, i, pairs[2 * i + 1]);
		bool shares = !sl_bytes_equal(value, pairs[2 * i + 1]);
		SL_ASSERT(!shares || ((found.wild >> i & 1) != 0 && memchr(value.data, '*', value.len) != NULL));
	}
	struct sluice_bytes name = sl_policy_envoy_metric(policy, &found, domain, pairs, count, memory);
	SL_ASSERT(name.len != 0 && name.len <= SL_ENVOY_METRIC_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *text = (const char *)data;
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	size_t left = size;
	struct sluice_bytes yaml = take(&text, &left);
	sluice_err err = sluice_policy_load(&policy, sl_str("envoy: {config: /x}\n"), NULL);
	SL_ASSERT(err == SLUICE_OK);
	err = sl_policy_envoy_add(policy, "f", yaml, &problems);
	SL_ASSERT(err == SLUICE_OK || err == SLUICE_E_SYNTAX);
	check_problems(&problems, err == SLUICE_OK);
	for (uint32_t i = 0; i < sl_policy_envoy_count(policy); i++) {
		const struct sl_envoy_rule *rule = sl_policy_envoy_at(policy, i);
		size_t len = strlen(rule->shown.name);
		SL_ASSERT(len >= 1 && len <= SLUICE_NAME_BYTES_MAX);
		SL_ASSERT(sl_policy_limit_find(policy, sl_str(rule->shown.name)) <= (int64_t)i);
	}
	if (err == SLUICE_OK)
		check_descriptor(policy, text, left);
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	return 0;
}
