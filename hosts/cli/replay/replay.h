/* replay: recorded traffic through limits, in the log's own time. What its files share.
 *
 *   files -> input (lines) -> logline (a request) -> [sort] -> batch (decided together) -> stats, or --decisions
 *
 * See docs/design/026-replay.md for why each is as it is. */
#ifndef SL_CLI_REPLAY_H
#define SL_CLI_REPLAY_H

#include "hosts/cli/cli.h"
#include "hosts/cli/replay/replay_key.h"
#include "hosts/cli/replay/replay_pending.h"
#include "hosts/cli/replay/replay_redis.h"
#include "hosts/cli/replay/replay_stats.h"
#include "policy/policy.h"

enum {
	SL_REPLAY_BATCH = 64,       /* requests decided together */
	SL_REPLAY_UNREADABLE_MAX = 5 /* unreadable lines that are told one by one */
};

/* A server logs a request at its end, so lines are out of order by as long as requests take. More than this is another
 * file's place, or another clock. */
#define SL_REPLAY_LATE_NS ((sluice_ns)60 * 1000000000)

/* What the command line asks for. Strings borrow from argv. */
struct sl_replay_options {
	char **files;
	uint32_t file_count;
	uint32_t format;         /* enum sl_log_format */
	const char *policy_file; /* or: */
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	uint32_t limit_count;
	const char *key_text; /* NULL: the default */
	struct sl_replay_key key;
	bool has_member;
	uint32_t member; /* enum sl_replay_attribute: who `distinct` of --limit counts */
	bool sort, decisions, upto, audit;
	const char *judge; /* a file of verdicts that somebody else gave, or NULL */
	bool has_hold; /* a request holds its lease for hold_ns, where its line does not say how long it took */
	sluice_ns hold_ns;
	bool reserves; /* each request is reserved with `estimate` first, its cost committed commit_ns later */
	uint32_t estimate;
	bool has_commit;
	sluice_ns commit_ns;
	uint32_t top;
	uint64_t memory_bytes;
	const char *store; /* the URL of a Redis that decides, or NULL: decided here */
	struct sl_redis_url url;
	const char *ca;
	uint32_t via; /* enum sl_redis_via */
};

/* How one limit fared, and its candidate. */
struct sl_replay_limit {
	uint64_t requests, denied, tried, candidate_denied;
};

/* One line that could not be read. */
struct sl_replay_unreadable {
	uint32_t file;
	uint64_t number;
	struct sluice_error error;
};

/* What leases and reservations came to. */
struct sl_replay_later {
	uint64_t leases, released;
	uint64_t reservations, committed, debts; /* debts: commits above their reservation */
	uint64_t reserved_cost, committed_cost, debt_cost;
};

struct sl_replay_batch;
struct sl_replay_audit;

/* A replay under way. */
struct sl_replay {
	const struct sl_verb *verb;
	const struct sl_replay_options *options;
	struct sluice_store *store; /* or: */
	struct sl_replay_redis *redis;
	struct sluice_policy *policy; /* NULL: the options' limits */
	uint32_t ipv6_prefix;
	uint32_t wanted; /* attributes that are looked at, as sl_replay_request_make() has them */
	struct sl_replay_batch *batch;
	struct sl_replay_audit *audit; /* NULL without --audit */
	struct sl_replay_stats stats;   /* of limits that are enforced */
	struct sl_replay_stats shadows; /* of those that are observed: who would have been denied */
	struct sl_replay_stats tried;   /* of candidates: the same */
	struct sl_replay_limit *limits; /* by position in the policy, or among the options' */
	uint32_t limit_count;
	struct sl_replay_pendings pendings;
	struct sl_replay_later later;
	bool tells_cost;                     /* what was admitted is told in units of cost as well */
	uint64_t cost, admitted_cost, parts; /* parts: requests that were granted less than they asked for */
	uint64_t requests, allowed, denied;
	uint64_t unlimited; /* requests that no limit applied to */
	sluice_ns first, last;
	uint64_t late; /* requests more than SL_REPLAY_LATE_NS earlier than one before them; the most of it: */
	sluice_ns late_by;
	uint64_t unreadable_count;
	struct sl_replay_unreadable unreadable[SL_REPLAY_UNREADABLE_MAX];
	const char *broke_off; /* the file that could not be read to its end, or NULL */
	struct sl_logline_scratch scratch;
	struct sl_replay_request request;
};

#endif
