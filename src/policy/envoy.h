/* The limits of envoyproxy/ratelimit's own files, as a policy has them by `envoy: {config: DIR}`.
 *
 * A file is a tree: a domain, and descriptors that stand inside one another. Each is known by a key, or a key and a
 * value, in which stars stand for any text; some have a limit, and are rules. A request's descriptor is a list of
 * entries, and is decided by the rule that it reaches with its last one. What that is, is found level by level, each by
 * its hash: the cost follows the entries, not the file.
 *
 *   at each level   the key with this value; else the first in the file whose star fits; else the key alone
 *
 * Entries are never joined: what they call key_value is two texts here, so that a=b_c is not a_b=c.
 *
 * Rules have positions as limits do: those of the policy's own limits first, then the rules of all files in the order
 * in which they were read. Nothing that lists the policy's limits lists them; what asks for a position may. */
#ifndef SL_ENVOY_H
#define SL_ENVOY_H

#include "base/out.h"
#include "policy/policy.h"

enum {
	SL_ENVOY_FILES_MAX = 256,
	SL_ENVOY_FILE_BYTES_MAX = 4 * 1024 * 1024,
	SL_ENVOY_BYTES_MAX = 32 * 1024 * 1024, /* of all files */
	SL_ENVOY_DESCRIPTORS_MAX = 65536,      /* of all files */
	SL_ENVOY_DEPTH_MAX = 16,               /* descriptors inside one another */
	SL_ENVOY_ENDS_MAX = 256,               /* different lengths around the stars of a level's keys, or a key's values */
	SL_ENVOY_REPLACES_MAX = 64,            /* of one rule */
	SL_ENVOY_WHY_BYTES_MAX = 2048,
	/* of a key before it is folded: what there is, and one entry more, each text encoded; with separators */
	SL_ENVOY_KEY_ROOM = (3 + 2 * 3) * SLUICE_KEY_BYTES_MAX + 8,
	SL_ENVOY_METRIC_BYTES_MAX = 512,       /* of what a rule is counted under; longer ones go without values, or cut */
	SL_ENVOY_NEAR_PERCENT = 80,            /* of a quota, from which on a hit is near the limit: theirs */
};

/* A descriptor with a limit. */
struct sl_envoy_rule {
	struct sl_policy_limit shown;
	struct sluice_bytes full_key; /* domain.key_value.key: what their dump and metrics call it */
	struct sluice_bytes name;     /* rate_limit.name; empty: none */
	const struct sluice_bytes *replaces;
	uint32_t replace_count;
	uint32_t requests; /* a unit */
	uint32_t unit;     /* a number of RateLimitResponse.RateLimit.Unit; 0 of what is unlimited */
	uint32_t node;     /* of the tree */
	uint32_t line;     /* where it stands */
	const char *file;  /* its name as it was given to sl_policy_envoy_add() */
	bool unlimited;    /* counts nothing, allows all */
	bool shadow;       /* counts, and denies nobody */
	bool quota;        /* denies where all such rules of a request do */
	bool detailed;     /* is counted by all values of a descriptor */
	bool fixed;        /* its windows are theirs: fixed ones, of its unit */
	bool own;          /* the limit is metadata's, in the notation */
};

/* What a descriptor is decided by. */
struct sl_envoy_found {
	const struct sl_envoy_rule *rule; /* NULL: by nothing */
	uint32_t position;                /* of the rule: sl_policy_limit_at() */
	uint32_t matched;                 /* how many entries have found a descriptor */
	uint16_t wild, exact;             /* bit i: entry i was found by a star, or by its value; else by its key */
};

/* Reads one more file into a policy, before anybody else has it. Its rules are found only where this succeeds for all.
 *  file      its name for messages and metrics of a kind: copied
 *  problems  out, as of sluice_policy_load(): mistakes in the words of envoyproxy/ratelimit, and doubts
 * SLUICE_OK, SLUICE_E_SYNTAX or SLUICE_E_MEMORY. O(bytes). */
SLUICE_MUST_USE sluice_err sl_policy_envoy_add(struct sluice_policy *policy, const char *file, struct sluice_bytes yaml,
                                               struct sluice_problems *problems);

/* Makes a policy that has nothing but the files of a folder, or one file, which the host reads: for looking at them
 * alone. `config` is at most SL_ENVOY_PATH_BYTES_MAX bytes long. Free it with sluice_policy_free(). */
SLUICE_MUST_USE sluice_err sl_policy_envoy_alone(struct sluice_policy **policy, const char *config);

/* How many files were read, and how many rules they all have; and one rule, in the order in which they were read. */
uint32_t sl_policy_envoy_files(const struct sluice_policy *policy);
uint32_t sl_policy_envoy_count(const struct sluice_policy *policy);
const struct sl_envoy_rule *sl_policy_envoy_at(const struct sluice_policy *policy, uint32_t number);
/* The rule at a position of a match; NULL: it is one of the policy's limits, or in notation. */
const struct sl_envoy_rule *sl_policy_envoy_rule(const struct sluice_policy *policy, uint32_t position);

/* The position of the rule that has a name, as headers and logs tell it; -1: none has. Of several the first. */
int64_t sl_policy_envoy_named(const struct sluice_policy *policy, struct sluice_bytes name);

/* Has some file this domain? */
bool sl_policy_envoy_has(const struct sluice_policy *policy, struct sluice_bytes domain);

/* Finds what a descriptor is decided by. O(bytes of the entries).
 *  pairs  key, value, key, value ..: `count` entries */
void sl_policy_envoy_find(const struct sluice_policy *policy, struct sluice_bytes domain,
                          const struct sluice_bytes *pairs, uint32_t count, struct sl_envoy_found *found);

/* The value of entry `i` as it is counted: itself, or the text with the star whose threshold is shared. `found` has a
 * rule. */
struct sluice_bytes sl_policy_envoy_value(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                          uint32_t i, struct sluice_bytes value);

/* The key of a descriptor's counter: its domain and all its entries, in their order; one that grows long is folded on
 * the way. At most `room` bytes in `to`, for which SL_ENVOY_KEY_ROOM suffices.
 *  found  the rule whose values are counted, some of which share a threshold; NULL: the entries' own */
struct sluice_bytes sl_policy_envoy_key(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                        struct sluice_bytes domain, const struct sluice_bytes *pairs, uint32_t count,
                                        char *to, size_t room);

/* Says in one line, which may be shown (base/text.h), which rule a descriptor has found and where it stands, or why it
 * has found none: 1..SL_ENVOY_WHY_BYTES_MAX bytes in `memory`. */
struct sluice_bytes sl_policy_envoy_why(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                        struct sluice_bytes domain, const struct sluice_bytes *pairs, uint32_t count,
                                        char memory[SL_ENVOY_WHY_BYTES_MAX]);

/* What a descriptor that has found a rule is counted under in metrics: the rule's full key, with the values that
 * value_to_metric and detailed_metric ask for. At most SL_ENVOY_METRIC_BYTES_MAX bytes: written to `text`, or borrowed
 * from the policy. */
struct sluice_bytes sl_policy_envoy_metric(const struct sluice_policy *policy, const struct sl_envoy_found *found,
                                           struct sluice_bytes domain, const struct sluice_bytes *pairs, uint32_t count,
                                           char text[SL_ENVOY_METRIC_BYTES_MAX]);

#endif
