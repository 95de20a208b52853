/* Who is denied: `observe`, `canary`, of a limit and of its overrides.
 *
 *   canary = PERCENT "% of " NAME      PERCENT = digits [ "." 1 to 4 digits ], 0 to 100
 */
#include "policy/conf_rollout.h"

#include "base/out.h"

enum { DECIMALS_MAX = 4 };

/* How many decimal digits a text has from a place on. */
static size_t count_digits(struct sluice_bytes text, size_t at) {
	const char *p = text.data;
	size_t digits = 0;
	while (at + digits < text.len && p[at + digits] >= '0' && p[at + digits] <= '9')
		digits++;
	return digits;
}

/* Reads the number that a text begins with, in millionths of the whole; SL_CANARY_ALL + 1 for all that is more. Returns
 * where it ends; where there is none, or it has too many decimals, *good is false and that is where it breaks off. */
static size_t read_share(struct sluice_bytes text, uint32_t *share, bool *good) {
	const char *p = text.data;
	size_t at = count_digits(text, 0), decimals = 0;
	uint64_t percent = 0;
	*good = at != 0;
	for (size_t i = 0; i < at; i++)
		percent = percent > 100 ? percent : percent * 10 + (uint64_t)(p[i] - '0');
	uint64_t parts = percent * SL_CANARY_ONE_PERCENT;
	if (*good && at < text.len && p[at] == '.') {
		decimals = count_digits(text, at + 1);
		*good = decimals != 0 && decimals <= DECIMALS_MAX;
		uint64_t unit = SL_CANARY_ONE_PERCENT;
		for (size_t i = 0; i < decimals && i < DECIMALS_MAX; i++)
			parts += (uint64_t)(p[at + 1 + i] - '0') * (unit /= 10);
		at += 1 + (*good ? decimals : decimals < DECIMALS_MAX ? decimals : DECIMALS_MAX);
	}
	*share = parts <= SL_CANARY_ALL ? (uint32_t)parts : SL_CANARY_ALL + 1;
	return at;
}

/* The same percentage, written one way only. */
static const char *describe(struct sl_conf *conf, uint32_t share, struct sluice_bytes name) {
	char text[32 + SLUICE_NAME_BYTES_MAX];
	struct sl_out out = sl_out_to(text, sizeof text);
	sl_out_u64(&out, share / SL_CANARY_ONE_PERCENT);
	uint32_t rest = share % SL_CANARY_ONE_PERCENT, unit = SL_CANARY_ONE_PERCENT / 10;
	if (rest != 0)
		sl_out_char(&out, '.');
	for (; rest != 0; rest %= unit, unit /= 10)
		sl_out_char(&out, (char)('0' + rest / unit));
	sl_out_str(&out, "% of ");
	sl_out_bytes(&out, name.data, name.len);
	return sl_pool_text(&conf->policy->pool, sl_slice(text, sl_out_len(&out)));
}

static void read_canary(struct sl_conf *conf, const struct sl_yaml *node, const char *name, struct sl_rollout *rollout,
                        const char **shown) {
	static const char expected[] = "a share of an attribute's values, such as 10% of user";
	static const char of[] = "% of ";
	struct sluice_bytes text;
	uint32_t share;
	bool good;
	if (!sl_conf_text(conf, node, expected, &text))
		return;
	const char *p = text.data;
	size_t at = read_share(text, &share, &good);
	for (size_t i = 0; good && i < sizeof of - 1; i++) {
		good = at < text.len && p[at] == of[i];
		at += good;
	}
	if (!good) {
		sl_report_found(conf->report, sl_node_place(node, at), text, "expected %s (0%% to 100%%, up to %d decimals)",
		                expected, DECIMALS_MAX);
		return;
	}
	if (share > SL_CANARY_ALL) {
		sl_report_found(conf->report, node->place, text, "expected a share from 0%% to 100%%");
		return;
	}
	struct sluice_bytes attribute = sl_slice(p + at, text.len - at);
	uint16_t number = sl_conf_name(conf, node, at, attribute);
	if (number == SL_NAME_NONE)
		return;
	rollout->canary = true;
	rollout->attribute = number;
	rollout->share = share;
	rollout->limit = sl_canary_limit(sl_str(name == NULL ? "" : name));
	*shown = describe(conf, share, attribute);
}

void sl_conf_rollout(struct sl_conf *conf, const struct sl_rollout_nodes *nodes, const char *name,
                     struct sl_rollout *rollout, const char **shown) {
	bool observe = false;
	if (nodes->observe == NULL && nodes->canary == NULL)
		return;
	*rollout = (struct sl_rollout){.observe = false};
	*shown = NULL;
	if (nodes->observe != NULL)
		sl_conf_bool(conf, nodes->observe, &observe);
	rollout->observe = observe;
	if (nodes->canary == NULL)
		return;
	read_canary(conf, nodes->canary, name, rollout, shown);
	if (observe)
		sl_report_error(conf->report, nodes->canary->place,
		                "expected canary or observe: true, found both: requests outside the canary are observed "
		                "anyway");
}
