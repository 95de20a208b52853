/* Why a limit of the policy applies to a request, or does not: for people who ask why somebody is limited, or isn't. */
#ifndef SL_EXPLAIN_H
#define SL_EXPLAIN_H

#include "policy/ruleset.h"

/* What keeps a limit from counting for a request. */
enum sl_why {
	SL_WHY_COUNTS,
	SL_WHY_WHEN,      /* a condition does not hold */
	SL_WHY_UNLIMITED, /* the limit, or the override that fits first, says so */
	SL_WHY_MEMBER,    /* whom it counts is absent */
	SL_WHY_KEY,       /* a part of its key is */
	SL_WHY_BEYOND,    /* observed, and after as many as one request can have */
	SL_WHY_LATER,     /* one of the limits that apply denies for being one too many */
};

enum {
	SL_WHY_BYTES_MAX = 1024,
	SL_TOLD_MAX = 1024, /* limits that are told of one request; of a policy with more those that count, and the first */
};

/* One limit's part in a request; until tell() returns. */
struct sl_policy_told {
	const struct sluice_policy *policy;
	uint32_t position;                 /* of the limit in the policy */
	int32_t item;                      /* in the match; -1: it does not count */
	uint8_t why;                       /* enum sl_why */
	const struct sl_rollout *rollout;  /* of the limit or override that applies; NULL: its conditions fail */
	const struct sluice_bytes *values; /* by attribute number, as the conditions see them; data NULL: absent */
};

/* How many limits of a policy are told of a request: all of them, or SL_TOLD_MAX. (match.c) */
uint32_t sl_policy_told_count(const struct sluice_policy *policy);

/* Tells of so many limits of a policy, in its order, what each says of a request that sl_policy_match() has matched:
 * the same arguments, and `match` as it came out. Some 10 ns a limit that is told. (match.c) */
void sl_policy_explain(const struct sluice_policy *policy, const struct sluice_attribute *attributes, size_t count,
                       struct sluice_bytes member, const struct sluice_match *match,
                       void (*tell)(void *to, const struct sl_policy_told *told), void *to);

/* Says in one line, which may be shown (base/text.h), why a limit applies or not: 1..SL_WHY_BYTES_MAX bytes in
 * `memory`, cut where it would be longer. Some us. */
struct sluice_bytes sl_policy_why(const struct sl_policy_told *told, char memory[SL_WHY_BYTES_MAX]);

#endif
