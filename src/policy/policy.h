/* What a loaded policy tells its hosts. Matching is public (sluice.h); these are the settings around it, and what the
 * doors print of a limit. Everything here is owned by the policy and lives until sluice_policy_free(). */
#ifndef SL_POLICY_H
#define SL_POLICY_H

#include "base/bytes.h"

enum {
	SL_POLICY_LIMITS_MAX = 1024,    /* limits in one file */
	SL_POLICY_OVERRIDES_MAX = 1024, /* overrides of one limit */
	SL_POLICY_KEY_PARTS_MAX = 8,    /* parts of a composite key */
	SL_POLICY_FILE_BYTES_MAX = 4 * 1024 * 1024,
};

/* Settings of the server; strings are NUL-ended, NULL where the file does not say. */
struct sl_settings {
	const char *listen_resp;  /* "127.0.0.1:7379", "[::1]:7379" or "unix:/path"; has the default when absent */
	const char *listen_http;  /* "127.0.0.1:7380" */
	const char *listen_grpc;  /* NULL unless written; no door serves it yet */
	uint64_t memory_bytes;    /* 256 MiB unless written: what a new store gets */
	bool memory_given;        /* written: then a store that exists must have just that size */
	const char *store_file;   /* path; NULL unless written, and then store_shared is NULL */
	const char *store_shared; /* name of shared memory; NULL unless written */
	uint32_t blocks_percent;  /* share of a new store for logs and sub-buckets; 0 unless written */
	uint32_t threads;         /* 0: one a core */
	bool client_time;         /* may clients set the instant (AT)? */
	uint32_t ipv6_prefix;     /* 1..128, default 64 */
};

/* One limit as the file has it. */
struct sl_policy_limit {
	const char *name;
	struct sluice_limit limit; /* the limit without overrides */
	const char *key_text;      /* the key, such as "user | ip, path"; "" where all requests share one counter */
	const char *when_text;     /* the conditions as one line of JSON, "{}" where there are none */
	uint32_t override_count;
	bool observe;
	bool deny_on_error;
};

/* Where the HTTP doors find an attribute that is not built in. */
struct sl_policy_source {
	struct sluice_bytes name;   /* of the attribute, such as "user" */
	struct sluice_bytes header; /* in lower case, such as "x-user-id" */
};

struct sl_address;

/* The settings, defaults filled in. */
const struct sl_settings *sl_policy_settings(const struct sluice_policy *policy);

/* How many limits the file has, 0..SL_POLICY_LIMITS_MAX. */
uint32_t sl_policy_limit_count(const struct sluice_policy *policy);

/* One limit, in the order of the file; `position` < sl_policy_limit_count(). */
const struct sl_policy_limit *sl_policy_limit_at(const struct sluice_policy *policy, uint32_t position);

/* What a request gets while the store cannot answer: does any limit of the match say `on-error: deny`? Observed limits
 * deny nobody. `match` must be of this policy. */
bool sl_policy_denies_on_error(const struct sluice_policy *policy, const struct sluice_match *match);

/* How many attributes have a source of their own. */
uint32_t sl_policy_source_count(const struct sluice_policy *policy);

/* One of them, in the order of the file; `position` < sl_policy_source_count(). */
const struct sl_policy_source *sl_policy_source_at(const struct sluice_policy *policy, uint32_t position);

/* Is an address one of trusted-proxies? O(networks written). */
bool sl_policy_trusts(const struct sluice_policy *policy, const struct sl_address *address);

#endif
