/* Lines of a file of quotas (`overrides-from`) that do nothing.
 *
 * As in lint.c, each warning is proved: a key tells only some of what a request has, and where more of it would decide
 * there is none. Bills of a million keys may have as many such lines, so the first are told and the others counted. */
#include "policy/quotas_inside.h"

#include "algo/rule.h"
#include "base/assert.h"

enum { STEPS_MAX = 20 * 1000 * 1000 };

struct lines {
	const struct sluice_policy *policy;
	const struct sl_ruleset_limit *limit;
	uint32_t position;
	uint64_t steps;
	struct sl_position last; /* that was told */
	uint32_t count, left_out;
};

static bool is_same(const struct sluice_limit *a, const struct sluice_limit *b) {
	char one[SLUICE_LIMIT_TEXT_MAX], other[SLUICE_LIMIT_TEXT_MAX];
	if (a->algorithm != b->algorithm || a->quota != b->quota) /* nearly all that differ */
		return false;
	sluice_limit_print(a, one);
	sluice_limit_print(b, other);
	return strcmp(one, other) == 0;
}

/* Has the key the same limit without its line, for the same requests? A line is enforced as its limit is, and keeps the
 * limit's candidate from being tried. */
static bool changes_nothing(const struct lines *lines, struct sluice_bytes key, const struct sluice_limit *said) {
	struct sl_policy_keyed without = sl_policy_limit_of_key(lines->policy, lines->position, key);
	return without.override == 0 && without.undecided == 0 && !lines->limit->shown.has_candidate &&
	       is_same(without.limit, said);
}

static void tell(struct lines *lines, struct sl_report *report, const struct sl_quota_row *row, const char *why) {
	if (lines->count == SL_QUOTAS_WARNINGS_MAX) {
		lines->left_out++;
		return;
	}
	lines->last = (struct sl_position){row->line, 1};
	lines->count++;
	sl_report_warning(report, lines->last, "%s: leave the line out", why);
}

static void lint_row(struct lines *lines, struct sl_report *report, const struct sl_quota_row *row) {
	struct sluice_bytes key = sl_slice(row->text, row->len);
	if (sl_policy_key_is_excluded(lines->policy, lines->position, key))
		tell(lines, report, row, "never used: the limit's own `when` excludes this key");
	else if (changes_nothing(lines, key, &lines->limit->quotas->limits[row->limit]))
		tell(lines, report, row, "changes nothing: the limit itself says the same for this key");
}

struct sl_quotas_linted sl_policy_quotas_lint(const struct sluice_policy *policy, uint32_t number,
                                              struct sl_report *report) {
	SL_ASSERT(number < policy->quotas_count);
	struct lines lines = {.policy = policy, .position = policy->quotas[number].position, .steps = STEPS_MAX};
	lines.limit = &policy->limits[lines.position];
	SL_ASSERT(lines.limit->quotas != NULL);
	const uint64_t steps = 8 + (uint64_t)lines.limit->shown.override_count;
	struct sl_quotas_linted linted = {.of = lines.limit->quotas->count};
	for (; linted.lines < linted.of && lines.steps >= steps; linted.lines++, lines.steps -= steps)
		lint_row(&lines, report, &lines.limit->quotas->rows[linted.lines]);
	if (lines.left_out != 0)
		sl_report_warning(report, lines.last, "%u more lines that do nothing are not listed", lines.left_out);
	return linted;
}
