/* What was decided by the rules of envoyproxy/ratelimit's files, as that program counts it: by the name that a rule is
 * counted under (policy/envoy.h), which has values of a request only where its file says so. Each worker has a list of
 * names of its own, which only grows: readers need no lock. Beyond SL_RULE_SERIES_MAX names the others are one. */
#ifndef SL_RULE_STATS_H
#define SL_RULE_STATS_H

#include "policy/envoy.h"

#include <stdatomic.h>

enum sl_rule_count { SL_RULE_TOTAL, SL_RULE_OVER, SL_RULE_NEAR, SL_RULE_WITHIN, SL_RULE_SHADOW, SL_RULE_COUNTS };

enum { SL_RULE_SERIES_MAX = 4096 }; /* of a worker */

struct sl_rule_page;

/* Counts for a name, on the worker that the page is of. The first call makes the page; without memory nothing is
 * counted. Some 50 ns.
 *  domain  what the name begins with; the rest, after a dot, is the descriptor */
void sl_rule_stats_count(struct sl_rule_page *_Atomic *page, struct sluice_bytes domain, struct sluice_bytes name,
                         const uint64_t add[SL_RULE_COUNTS]);
void sl_rule_stats_free(struct sl_rule_page *page);

/* The sums of one name. */
struct sl_rule_sum {
	struct sluice_bytes domain, descriptor; /* borrowed from a page */
	uint64_t counts[SL_RULE_COUNTS];
};

/* Adds up what pages have: fills `sums` with at most `room` of the names, in the order in which they came. Any thread.
 * O(names x pages). Returns how many; 0 without memory. */
uint32_t sl_rule_stats_sum(const struct sl_rule_page *const *pages, uint32_t page_count, struct sl_rule_sum *sums,
                           uint32_t room);
/* How many names there are at most: each as often as workers have it. Pages may be NULL. */
uint32_t sl_rule_stats_most(const struct sl_rule_page *const *pages, uint32_t page_count);

#endif
