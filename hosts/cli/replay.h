/* replay: recorded traffic through limits, in the log's own time. What its files share.
 *
 *   files -> input (lines) -> logline (a request) -> [sort] -> batch (decided together) -> tally, or --decisions
 *
 * See docs/design/006-replay.md for why each is as it is. */
#ifndef SL_CLI_REPLAY_H
#define SL_CLI_REPLAY_H

#include "hosts/cli/cli.h"
#include "hosts/cli/replay_key.h"
#include "hosts/cli/replay_pending.h"
#include "hosts/cli/replay_redis.h"
#include "hosts/cli/replay_tally.h"
#include "policy/policy.h"

enum {
	SL_REPLAY_BATCH = 256,       /* requests decided together */
	SL_REPLAY_UNREADABLE_MAX = 5 /* unreadable lines that are told one by one */
};

/* What the command line asks for. Strings borrow from argv. */
struct sl_replay_options {
	char **files;
	uint32_t file_count;
	enum sl_log_format format;
	const char *policy_file; /* or: */
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	uint32_t limit_count;
	const char *key_text; /* NULL: the default */
	struct sl_replay_key key;
	const char *member_text; /* NULL: none */
	uint8_t member;          /* enum sl_replay_attribute: who `distinct` of --limit counts */
	bool sort, decisions, upto;
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
	enum sl_redis_via via;
};

/* How one limit fared. */
struct sl_replay_limit {
	uint64_t requests, denied;
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

/* A replay under way. */
struct sl_replay {
	const struct sl_verb *verb;
	const struct sl_replay_options *options;
	struct sluice_store *store; /* or: */
	struct sl_replay_redis *redis;
	struct sluice_policy *policy; /* NULL: the options' limits */
	uint32_t ipv6_prefix;
	struct sl_replay_batch *batch;
	struct sl_replay_tally tally;
	struct sl_replay_limit *limits; /* by position in the policy, or among the options' */
	uint32_t limit_count;
	struct sl_pendings pendings;
	struct sl_replay_later later;
	bool tells_cost;                     /* what was admitted is told in units of cost as well */
	uint64_t cost, admitted_cost, parts; /* parts: requests that were granted less than they asked for */
	uint64_t requests, allowed, denied;
	uint64_t unlimited; /* requests that no limit applied to */
	sluice_ns first, last;
	uint64_t unreadable_count;
	struct sl_replay_unreadable unreadable[SL_REPLAY_UNREADABLE_MAX];
	const char *broke_off; /* the file that could not be read to its end, or NULL */
	struct sl_logline_scratch scratch;
	struct sl_replay_request request;
};

/* ---- replay_batch.c ---------------------------------------------------------------------------------------- */

/* The batch's memory: about 2 MiB, touched as used. NULL when there is none. */
struct sl_replay_batch *sl_replay_batch_open(void);
void sl_replay_batch_close(struct sl_replay_batch *batch);

/* Adds a request, deciding what has gathered when the batch is full. `file` and `number` say where it came from.
 * SL_GO_ON, or SL_EXIT_FAILED after saying why. */
int sl_replay_add(struct sl_replay *replay, const struct sl_replay_request *request, uint32_t file, uint64_t number);

/* Decides what has gathered, and tallies or prints it; then what is left to be released and committed comes to its end.
 * As sl_replay_add(). */
int sl_replay_end(struct sl_replay *replay);

/* ---- replay_read.c ----------------------------------------------------------------------------------------- */

/* Reads all files and decides all requests. SL_EXIT_FINE, or SL_EXIT_FAILED after saying why. */
int sl_replay_read(struct sl_replay *replay);

/* The name of a file as it is told: standard input has one too. */
static inline const char *sl_replay_file_name(const struct sl_replay *replay, uint32_t file) {
	const char *name = replay->options->files[file];
	return strcmp(name, "-") == 0 ? "<stdin>" : name;
}

/* ---- replay_report.c --------------------------------------------------------------------------------------- */

/* Prints who would have been limited to standard output; with --decisions, the counts alone to standard error. */
void sl_replay_report(const struct sl_replay *replay);

#endif
