/* Quotas of single keys, which a file of their own gives: `overrides-from: FILE`, a line of CSV a key.
 *
 *   key,limit                 a first line like this is passed over, as are empty lines and those that begin with #
 *   alice,6000/1m             a value of the attribute that the limit's key is, or its first choice
 *   user=bob,unlimited        a key as explain tells it
 *   "org=a,user=b","5/1m"     quotes, inside which two stand for one, where a text has a comma
 *
 * The policy names the file, its host reads it (sl_policy_quotas_set()). */
#ifndef SL_QUOTAS_H
#define SL_QUOTAS_H

#include "policy/report.h"
#include "policy/ruleset.h"

struct sl_quotas;

/* One line. */
struct sl_quota {
	const struct sluice_limit *limit;
	const char *file;
	uint32_t line;
};

/* The quota of a key, in the form that requests' keys have. False: it has none of its own. Some 30 ns, and two misses
 * of memory. */
bool sl_quotas_find(const struct sl_quotas *quotas, struct sluice_bytes key, struct sl_quota *quota);

/* As sl_policy_quotas_set(), for somebody who wants to know all mistakes of the file: `report` gets them. */
SLUICE_MUST_USE bool sl_policy_quotas_check(struct sluice_policy *policy, uint32_t number, struct sluice_bytes text,
                                            struct sl_report *report);

/* Tells of the lines of a file of quotas that do nothing: their keys are excluded by the limit's own `when`, or would
 * have the same without them. `report` gets a warning of each of the first SL_QUOTAS_WARNINGS_MAX, with its place in
 * the file, and one that counts the others. The file was read (sl_policy_quotas_set()). O(lines x overrides), within
 * some seconds: returns how many lines that were, and of how many. */
enum { SL_QUOTAS_WARNINGS_MAX = 20 };
struct sl_quotas_linted {
	uint32_t lines, of; /* that have a key */
};
struct sl_quotas_linted sl_policy_quotas_lint(const struct sluice_policy *policy, uint32_t number,
                                              struct sl_report *report);

/* What of its quotas' file a limit's request has: writes its key to find out. False: none. (match.c) */
bool sl_quota_of(const struct sluice_policy *policy, const struct sl_ruleset_limit *limit,
                 const struct sluice_bytes *values, struct sl_quota *quota);

#endif
