/* The lines of explain.h. What matching finds out is told, not found out again: a condition that does not hold is named
 * with what the request has instead; of overrides the first that fits applies, so those before it are told with what
 * they lack, and those after it that would fit as well. */
#include "policy/explain.h"

#include "base/assert.h"
#include "base/text.h"
#include "policy/address.h"
#include "policy/attribute.h"
#include "policy/quotas.h"

enum { VALUE_SHOWN = 48, VALUES_SHOWN = 3, OVERRIDES_SHOWN = 4, OVERRIDES_LOOKED_AT = 1024 };

static void put_name(struct sl_out *out, const struct sluice_policy *policy, uint32_t number) {
	sl_out_shown(out, policy->names[number].text, SLUICE_NAME_BYTES_MAX);
}

/* ---- conditions ------------------------------------------------------------------------------------------------ */

/* The next value of a condition: path=/login|/password/.. */
static bool put_value(struct sl_out *out, struct sluice_bytes value, const char *after, uint32_t *shown) {
	if (*shown == VALUES_SHOWN) {
		sl_out_str(out, "|..");
		return false;
	}
	if ((*shown)++ != 0)
		sl_out_char(out, '|');
	sl_out_shown(out, value, VALUE_SHOWN);
	sl_out_str(out, after);
	return true;
}

static void put_condition(struct sl_out *out, const struct sluice_policy *policy,
                          const struct sl_condition *condition) {
	uint32_t shown = 0;
	put_name(out, policy, condition->attribute);
	sl_out_char(out, '=');
	for (uint32_t i = 0; i < condition->route_count; i++)
		if (!put_value(out, condition->routes[i].text, "", &shown))
			return;
	for (uint32_t i = 0; condition->route_count == 0 && i < condition->exact_count; i++)
		if (!put_value(out, condition->exact[i], "", &shown))
			return;
	for (uint32_t i = 0; condition->route_count == 0 && i < condition->prefix_count; i++)
		if (!put_value(out, condition->prefixes[i], "*", &shown))
			return;
	for (uint32_t i = 0; i < condition->suffix_count; i++) {
		struct sluice_bytes suffix = condition->suffixes[i];
		if (!put_value(out, sl_slice((const char *)suffix.data - 1, suffix.len + 1), "", &shown))
			return;
	}
	for (uint32_t i = 0; i < condition->network_count; i++) {
		char text[SL_ADDRESS_TEXT_MAX];
		size_t len = sl_network_print(&condition->networks[i], text);
		if (!put_value(out, sl_slice(text, len), "", &shown))
			return;
	}
}

static void put_conditions(struct sl_out *out, const struct sluice_policy *policy, const struct sl_when *when) {
	for (uint32_t i = 0; i < when->count; i++) {
		sl_out_str(out, i == 0 ? "" : ", ");
		put_condition(out, policy, &when->list[i]);
	}
}

static void put_except(struct sl_out *out, const struct sluice_policy *policy, const struct sl_when *except) {
	sl_out_str(out, "not (");
	put_conditions(out, policy, except);
	sl_out_char(out, ')');
}

static void put_when(struct sl_out *out, const struct sluice_policy *policy, const struct sl_when *when) {
	put_conditions(out, policy, when);
	for (uint32_t i = 0; i < when->except_count; i++) {
		sl_out_str(out, when->count + i == 0 ? "" : ", ");
		put_except(out, policy, &when->except[i]);
	}
	if (sl_when_is_empty(when))
		sl_out_str(out, "every request");
}

/* "no plan", "path is /search", or "not (path=/health)": each condition that does not hold. */
static void put_lacking(struct sl_out *out, const struct sluice_policy *policy, const struct sl_when *when,
                        const struct sluice_bytes *values) {
	const char *before = "";
	for (uint32_t i = 0; i < when->count; i++) {
		const struct sl_condition *condition = &when->list[i];
		struct sluice_bytes value = values[condition->attribute];
		if (value.data != NULL && sl_condition_holds(condition, value))
			continue;
		sl_out_str(out, before);
		before = ", ";
		sl_out_str(out, value.data == NULL ? "no " : "");
		put_name(out, policy, condition->attribute);
		sl_out_str(out, value.data == NULL ? "" : " is ");
		if (value.data != NULL)
			sl_out_shown(out, value, VALUE_SHOWN);
	}
	for (uint32_t i = 0; i < when->except_count; i++) {
		if (!sl_when_holds(&when->except[i], values))
			continue;
		sl_out_str(out, before);
		before = ", ";
		put_except(out, policy, &when->except[i]);
	}
}

/* ---- overrides ------------------------------------------------------------------------------------------------- */

static void put_override(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                         uint32_t number) {
	sl_out_str(out, "override ");
	sl_out_u64(out, number + 1);
	sl_out_str(out, " (");
	put_when(out, policy, &limit->overrides[number].when);
	sl_out_char(out, ')');
}

/* Which counts: the number of an override, or how many there are where it is the limit itself. */
static uint32_t chosen(const struct sl_ruleset_limit *limit, const struct sl_rollout *rollout) {
	for (uint32_t i = 0; i < limit->shown.override_count; i++)
		if (rollout == &limit->overrides[i].rollout)
			return i;
	return limit->shown.override_count;
}

/* What of an override that does not count: it does not fit, or comes after one that does. Of very many the first. */
static void put_passed(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                       uint32_t counts, const struct sluice_bytes *values) {
	uint32_t told = 0;
	for (uint32_t i = 0; i < limit->shown.override_count && i < OVERRIDES_LOOKED_AT; i++) {
		const struct sl_when *when = &limit->overrides[i].when;
		bool fits = i > counts && sl_when_holds(when, values);
		if (i == counts || (i > counts && !fits))
			continue;
		sl_out_str(out, "; ");
		if (told++ == OVERRIDES_SHOWN) {
			sl_out_str(out, "other overrides don't apply either");
			return;
		}
		put_override(out, policy, limit, i);
		sl_out_str(out, fits ? " fits as well, and comes later: the first that fits applies" : " does not fit: ");
		if (!fits)
			put_lacking(out, policy, when, values);
	}
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

/* An address that is shared more often than not by those behind it. */
static bool is_inside(const struct sl_address *address) {
	static const struct {
		const char *network;
	} inside[] = {{"10.0.0.0/8"}, {"172.16.0.0/12"}, {"192.168.0.0/16"}, {"100.64.0.0/10"}, {"fc00::/7"}};
	for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
		struct sl_network network;
		bool read = sl_network_parse(sl_str(inside[i].network), &network, NULL);
		SL_ASSERT(read);
		if (sl_network_contains(&network, address))
			return true;
	}
	return false;
}

static void put_address(struct sl_out *out, const struct sluice_policy *policy, struct sluice_bytes value) {
	struct sl_network network; /* what an address counts as may be one */
	if (!sl_network_parse(value, &network, NULL))
		return;
	if (sl_policy_trusts(policy, &network.address))
		sl_out_str(out, "; the address is one of trusted-proxies: a proxy that told no client's address");
	else if (is_inside(&network.address))
		sl_out_str(out, "; the address is a private one, and not in trusted-proxies: if it is a proxy's, or many share "
		                "it, they share this counter");
}

/* Of each part of the key by which attribute it counts, where that is worth a word. */
static void put_parts(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                      const struct sluice_bytes *values) {
	for (uint32_t i = 0; i < limit->part_count; i++) {
		const struct sl_key_part *part = &limit->parts[i];
		uint32_t c = 0;
		while (c < part->count && values[part->choices[c]].data == NULL)
			c++;
		if (c != 0) {
			sl_out_str(out, "; no ");
			put_name(out, policy, part->choices[0]);
			sl_out_str(out, ", so it counts by ");
			if (c < part->count)
				put_name(out, policy, part->choices[c]);
			else
				sl_out_bytes(out, part->written.data, part->written.len);
		}
		uint8_t attribute = c < part->count ? policy->names[part->choices[c]].attribute : SL_ATTRIBUTE_OTHER;
		if (attribute == SL_ATTRIBUTE_PATH)
			sl_out_str(out, "; each path has a counter of its own");
		if (attribute == SL_ATTRIBUTE_IP)
			put_address(out, policy, values[part->choices[c]]);
	}
}

/* Which part of the key is absent. */
static void put_absent(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                       const struct sluice_bytes *values) {
	sl_out_str(out, "its key is ");
	sl_out_shown(out, sl_str(limit->shown.key_text), SL_WHY_BYTES_MAX / 4);
	sl_out_str(out, ", and the request has no ");
	for (uint32_t i = 0; i < limit->part_count; i++) {
		const struct sl_key_part *part = &limit->parts[i];
		uint32_t c = 0;
		while (c < part->count && values[part->choices[c]].data == NULL)
			c++;
		if (c < part->count || part->literal.data != NULL)
			continue;
		for (c = 0; c < part->count; c++) {
			sl_out_str(out, c == 0 ? "" : " and no ");
			put_name(out, policy, part->choices[c]);
		}
		return;
	}
}

/* ---- the line -------------------------------------------------------------------------------------------------- */

/* Whether it denies, where that is not plain. */
static void put_rollout(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                        const struct sl_rollout *rollout, const struct sluice_bytes *values) {
	if (rollout->observe) {
		sl_out_str(out, policy->observe ? "; observed, as all limits are (observe at the top): it denies nobody"
		                                : "; observed: it denies nobody");
		return;
	}
	if (!rollout->canary)
		return;
	bool observes = sl_rollout_observes(rollout, values);
	bool absent = values[rollout->attribute].data == NULL;
	sl_out_str(out, "; canary ");
	if (limit->shown.canary != NULL && rollout == &limit->rollout)
		sl_out_str(out, limit->shown.canary);
	else {
		sl_out_str(out, "of ");
		put_name(out, policy, rollout->attribute);
	}
	sl_out_str(out, absent     ? ": the request has none, so it is not in it, and only observed"
	                : observes ? ": the request is not in it, and only observed"
	                           : ": the request is in it, so it can be denied");
}

/* That the key has a quota of its own, and where it stands; false: it has none. */
static bool put_own(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                    const struct sluice_bytes *values, const char *after) {
	struct sl_quota quota;
	if (limit->quotas == NULL || !sl_quota_of(policy, limit, values, &quota))
		return false;
	sl_out_str(out, "line ");
	sl_out_u64(out, quota.line);
	sl_out_str(out, " of ");
	sl_out_shown(out, sl_str(quota.file), SL_WHY_BYTES_MAX / 4);
	sl_out_str(out, after);
	return true;
}

static void put_counts(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                       const struct sl_rollout *rollout, const struct sluice_bytes *values) {
	uint32_t counts = chosen(limit, rollout);
	bool own = put_own(out, policy, limit, values, " applies, the key's own quota");
	if (own) {
		sl_out_str(out, limit->shown.override_count != 0 ? ", before any override" : "");
	} else if (counts != limit->shown.override_count) {
		put_override(out, policy, limit, counts);
		sl_out_str(out, " applies");
	} else {
		sl_out_str(out, limit->when.count != 0 ? "applies where " : "applies to ");
		put_when(out, policy, &limit->when);
	}
	if (limit->shown.of != NULL) {
		sl_out_str(out, "; counts different values of ");
		put_name(out, policy, limit->of);
	}
	if (!own)
		put_passed(out, policy, limit, counts, values);
	put_parts(out, policy, limit, values);
	put_rollout(out, policy, limit, rollout, values);
}

static void put_unlimited(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                          const struct sl_rollout *rollout, const struct sluice_bytes *values) {
	uint32_t counts = chosen(limit, rollout);
	if (put_own(out, policy, limit, values, " says unlimited"))
		return;
	if (counts != limit->shown.override_count)
		put_override(out, policy, limit, counts);
	else
		sl_out_str(out, "the limit");
	sl_out_str(out, " says unlimited");
}

static void put_why(struct sl_out *out, const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                    uint8_t why, const struct sl_rollout *rollout, const struct sluice_bytes *values) {
	switch ((enum sl_why)why) {
	case SL_WHY_WHEN:
		sl_out_str(out, "for ");
		put_when(out, policy, &limit->when);
		sl_out_str(out, ": ");
		put_lacking(out, policy, &limit->when, values);
		break;
	case SL_WHY_UNLIMITED:
		put_unlimited(out, policy, limit, rollout, values);
		break;
	case SL_WHY_MEMBER:
		sl_out_str(out, "it counts different values of ");
		put_name(out, policy, limit->of);
		sl_out_str(out, ", and the request has none");
		break;
	case SL_WHY_KEY:
		put_absent(out, policy, limit, values);
		break;
	case SL_WHY_BEYOND:
	case SL_WHY_LATER:
		sl_out_str(out, why == SL_WHY_BEYOND
		                    ? "it would be observed, and 16 limits before it apply already"
		                    : "more limits apply than one request can have, and one of them denies for that");
		break;
	case SL_WHY_COUNTS:
		put_counts(out, policy, limit, rollout, values);
		break;
	}
}

struct sluice_bytes sl_policy_why(const struct sl_policy_told *told, char memory[SL_WHY_BYTES_MAX]) {
	static const char cut[] = " ...";
	struct sl_out line = sl_out_to(memory, SL_WHY_BYTES_MAX - (sizeof cut - 1));
	put_why(&line, told->policy, &told->policy->limits[told->position], told->why, told->rollout, told->values);
	if (line.overflow) {
		line.end += sizeof cut - 1;
		sl_out_str(&line, cut);
	}
	return sl_slice(memory, sl_out_len(&line));
}
