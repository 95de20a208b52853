/* Requests that resemble each other: a client, or a proxy, gives the same attributes in the same order, and of some the
 * same values, request after request: method and host, the plan, often the path. Only who asks differs.
 *
 * A pattern remembers what a policy makes of such a request as far as that follows from what stays the same: the
 * numbers of its names, its values in their forms, which limits may apply at all, and of which of those the conditions
 * are known to hold. What is left of matching is what the values that differ decide, by the same code as ever
 * (match.c). So it is never wrong about a value: one that is said to differ may be any.
 *
 * A pattern is of one policy, by its number: where another has come, or none was made, it is of no use. */
#ifndef SL_PATTERN_H
#define SL_PATTERN_H

#include "policy/policy.h"
#include "policy/ruleset.h"

enum {
	SL_PATTERN_ATTRIBUTES_MAX = 16,
	SL_PATTERN_LIMITS_MAX = 24,   /* that may apply */
	SL_PATTERN_VALUES_BYTES = 512 /* of the forms of values that stay the same */
};

struct sl_pattern_limit {
	uint32_t position;
	uint8_t key_of; /* 1 + the place in the list of one before it whose key has the same parts; 0: none has */
	bool sure;      /* its conditions hold whatever the values are that differ */
};

struct sl_pattern {
	uint64_t policy_number; /* sl_policy_number(); 0: there is no pattern */
	uint32_t count;  /* attributes */
	uint32_t varies; /* a bit for each: its value may be any */
	uint16_t numbers[SL_PATTERN_ATTRIBUTES_MAX]; /* SL_NAME_NONE: no limit of those asks for it */
	bool listed;                                 /* the limits below are all that may apply; else any may */
	uint32_t limit_count;
	struct sl_pattern_limit limits[SL_PATTERN_LIMITS_MAX];
	struct sluice_bytes values[SL_ATTRIBUTES_MAX]; /* by number: those that stay the same; NULL: all others */
	char memory[SL_PATTERN_VALUES_BYTES];
};

/* Makes the pattern of a request that the policy has matched. False, and there is none, where it is beyond the bounds
 * above. As long as matching the request a few times. */
bool sl_pattern_make(struct sl_pattern *pattern, const struct sluice_policy *policy,
                     const struct sluice_attribute *attributes, uint32_t count, uint32_t varies);

static inline bool sl_pattern_is_of(const struct sl_pattern *pattern, const struct sluice_policy *policy) {
	return pattern->policy_number == policy->number;
}

/* sl_policy_match() of a request of the pattern, which is of the policy, without a member of its own.
 *  values  of all its attributes, in their order; those that stay the same are not looked at */
SLUICE_MUST_USE sluice_err sl_pattern_match(const struct sl_pattern *pattern, const struct sluice_policy *policy,
                                            const struct sluice_attribute *attributes, struct sluice_match *match,
                                            void *buffer, size_t buffer_bytes);

/* ---- finding the pattern of a request ---------------------------------------------------------------------------- */

enum { SL_PATTERN_TEXT_BYTES = 512 };

/* Some bytes of what is remembered. */
struct sl_pattern_piece {
	uint16_t at, len;
};

/* The last request that had no pattern, and the pattern of those like it: which values vary is learned from those that
 * did. Zeroed it is empty. */
struct sl_pattern_memo {
	struct sl_pattern pattern;
	uint32_t count; /* attributes; 0: none */
	struct sl_pattern_piece names[SL_PATTERN_ATTRIBUTES_MAX], values[SL_PATTERN_ATTRIBUTES_MAX];
	char text[SL_PATTERN_TEXT_BYTES];
};

/* sl_policy_match(), by the pattern of the memo where the request is of it; else as any, and then the memo learns.
 * Some 10 ns for each attribute, besides what matching takes by the pattern. */
SLUICE_MUST_USE sluice_err sl_pattern_memo_match(struct sl_pattern_memo *memo, const struct sluice_policy *policy,
                                                 const struct sluice_attribute *attributes, size_t count,
                                                 struct sluice_bytes member, struct sluice_match *match, void *buffer,
                                                 size_t buffer_bytes);

#endif
