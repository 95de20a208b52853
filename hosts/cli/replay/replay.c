/* The verb: what it is asked for, what it needs, and what it gives back. */
#include "algo/traits.h"
#include "hosts/cli/replay/replay.h"

#include "hosts/cli/replay/replay_audit.h"
#include "hosts/cli/replay/replay_batch.h"
#include "hosts/cli/replay/replay_read.h"
#include "hosts/cli/replay/replay_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum {
	FORMAT,
	LIMIT,
	KEY,
	MEMBER,
	CONFIG,
	UPTO,
	HOLD,
	ESTIMATE,
	COMMIT_AFTER,
	DECISIONS,
	AUDIT,
	JUDGE,
	SORT,
	TOP,
	MEMORY,
	STORE,
	VIA,
	CA
};

enum { TOP_DEFAULT = 10, STDOUT_BYTES = 256 * 1024 };

static const uint64_t memory_default = (uint64_t)1 << 30;

#define TO(field) offsetof(struct sl_replay_options, field)
#define LONGEST_NS ((sluice_ns)3660 * 86400 * 1000000000)
#define LONGEST "a duration such as 2s, up to 3660d"

/* In the order of enum sl_redis_via. */
static const char *const ways[] = {"auto", "module", "script", NULL};

static const struct sl_option options_table[] = {
	[FORMAT] = {"format", 0, "NAME", "auto, common, combined, json or ops (auto: a file's first readable line tells)",
                SL_NAME(TO(format), sl_log_formats)},
	[LIMIT] = {"limit", 0, "LIMIT", "a limit, such as 100/1m or 'sliding-log 20/1m'; up to 16, which admit together",
               SL_OWN},
	[KEY] = {"key", 0, "KEY",
             "the key of the limits: ip (default), user, method, path, host, status, key;\n"
             "'user | ip' is the first that a line has, 'ip,path' both together;\n"
             "ops lines have only a key, which is their default",
             SL_OWN},
	[MEMBER] = {"member", 0, "ATTRIBUTE", "the members of `distinct` limits: ip, user, method, path, host, status, key",
                SL_NAME(TO(member), sl_replay_attribute_names)},
	[CONFIG] = {"config", 'c', "FILE", "a policy instead of --limit", SL_TEXT(TO(policy_file))},
	[UPTO] = {"upto", 0, NULL, "grant the part of a cost that fits, instead of all or nothing",
              SL_FLAG(TO(upto))},
	[HOLD] = {"hold", 0, "TIME", "how long a request holds its lease (`concurrency`) if its line does not say so",
              SL_TIME(TO(hold_ns), 0, LONGEST_NS, LONGEST)},
	[ESTIMATE] = {"estimate", 0, "N",
                  "reserve N first, and commit the line's cost later; with a policy, at limits that\n"
                  "have `reserve` without an estimate",
                  SL_NUMBER(TO(estimate), 1, UINT32_MAX)},
	[COMMIT_AFTER] = {"commit-after", 0, "TIME",
                      "how long after its request a cost is committed (the request's own duration, or 0s)",
                      SL_TIME(TO(commit_ns), 0, LONGEST_NS, LONGEST)},
	[DECISIONS] = {"decisions", 0, NULL,
                   "print one line per request, and nothing else, on standard output:\n"
                   "ALLOWED REMAINING RETRY_AFTER_MS RESET_AFTER_MS, such as 1 99 0 60000",
                   SL_FLAG(TO(decisions))},
	[AUDIT] = {"audit", 0, NULL,
               "audit what was admitted: print the largest cost in any window next to the bound of\n"
               "the algorithm; exit status 1 if a bound is exceeded",
               SL_FLAG(TO(audit))},
	[JUDGE] = {"judge", 0, "FILE",
               "decide nothing, but audit the verdicts in FILE, one line per request: 1 or 0, as\n"
               "--decisions prints them; for the verdicts of another limiter on the same log",
               SL_TEXT_OF(TO(judge), 1, SIZE_MAX)},
	[SORT] = {"sort", 0, NULL, "sort lines by time first; lines of one instant keep their order", SL_FLAG(TO(sort))},
	[TOP] = {"top", 0, "N", "how many of the worst keys to print, 0..1000 (10)",
             SL_NUMBER(TO(top), 0, SL_REPLAY_STATS_WORST_MAX)},
	[MEMORY] = {"memory", 0, "SIZE", "memory for the counters, such as 512MiB (1GiB); allocated as it is used",
                SL_SIZE(TO(memory_bytes), 0, UINT64_MAX, "a size such as 512MiB or 4GiB")},
	[STORE] = {"store", 0, "URL",
               "decide in a Redis or Valkey instead, to compare: redis://[USER@]HOST[:PORT][/PREFIX],\n"
               "rediss:// over TLS, or unix://[USER@]/PATH; USER's password is in SLUICE_PASSWORD",
               SL_OWN},
	[VIA] = {"via", 0, "NAME",
             "how Redis decides: module, which must be loaded with `client-time yes`; script, which\n"
             "this program sends; auto, the module if it is loaded (auto)",
             SL_NAME(TO(via), ways)},
	[CA] = {"ca", 0, "FILE", "trust certificates of this PEM file, not the system's (rediss://)", SL_TEXT(TO(ca))},
};

static int take_limit(const struct sl_verb *verb, struct sl_replay_options *options, const char *text) {
	struct sluice_error error;
	if (options->limit_count == SLUICE_ITEMS_MAX)
		return sl_cli_misuse(verb, "more than %d limits", SLUICE_ITEMS_MAX);
	if (sluice_limit_parse(&options->limits[options->limit_count], sl_str(text), &error) != SLUICE_OK)
		return sl_cli_misuse(verb, "--limit '%.64s', column %u: %s", text, error.column, error.text);
	options->limit_count++;
	return SL_GO_ON;
}

static int take_key(const struct sl_verb *verb, struct sl_replay_options *options, const char *text) {
	struct sluice_error error;
	if (!sl_replay_key_parse(&options->key, text, &error))
		return sl_cli_misuse(verb, "--key '%.64s', column %u: %s", text, error.column, error.text);
	options->key_text = text;
	return SL_GO_ON;
}

static int take_store(const struct sl_verb *verb, struct sl_replay_options *options, const char *text) {
	struct sluice_error error;
	if (!sl_redis_url_is(text))
		return sl_cli_misuse(verb, "--store: expected the URL of a Redis, such as redis://127.0.0.1:6379");
	if (!sl_redis_url_parse(text, &options->url, &error))
		return sl_cli_misuse(verb, "--store: %s", error.text);
	options->store = text;
	return SL_GO_ON;
}

static int take_option(const struct sl_verb *verb, void *to, int option, const char *value) {
	return option == LIMIT ? take_limit(verb, to, value)
	       : option == KEY ? take_key(verb, to, value)
	                       : take_store(verb, to, value);
}

static int take_file(const struct sl_verb *verb, void *to, const char *word) {
	struct sl_replay_options *options = to;
	(void)verb;
	options->files[options->file_count++] = (char *)word;
	return SL_GO_ON;
}

/* What leases, members and reservations need, and what they don't go with. */
static int check_kinds(const struct sl_verb *verb, const struct sl_replay_options *options) {
	uint32_t kinds = 0;
	for (uint32_t i = 0; i < options->limit_count; i++)
		kinds |= 1u << options->limits[i].algorithm;
	bool members = (kinds & sl_algorithms_with(SL_TAKES_MEMBER)) != 0;
	bool leases = (kinds & sl_algorithms_with(SL_TAKES_LEASE)) != 0;
	if (options->policy_file != NULL && options->has_member)
		return sl_cli_misuse(verb, "--member is for --limit: a policy says `of: %s`",
		                     sl_replay_attribute_names[options->member]);
	if (members && !options->has_member)
		return sl_cli_misuse(verb, "distinct counts members: which attribute? --member ip");
	if (!members && options->has_member)
		return sl_cli_misuse(verb, "--member is for limits of distinct, and there is none");
	if (leases && !options->has_hold && options->format != SL_LOG_AUTO && options->format != SL_LOG_JSON)
		return sl_cli_misuse(verb,
		                     "how long is a lease held? these lines do not say how long a request took: --hold TIME");
	if (options->upto && (leases || options->reserves))
		return sl_cli_misuse(verb, "--upto does not go with leases or reservations: their cost is taken whole");
	if (options->reserves && (options->audit || options->judge != NULL))
		return sl_cli_misuse(verb, "--audit does not go with --estimate: a commit may charge more than was reserved, "
		                           "so no bound holds for a window");
	if (options->store == NULL)
		return SL_GO_ON;
	if (leases || members || options->reserves || options->upto)
		return sl_cli_misuse(verb, "--store decides plain limits alone: leave out %s",
		                     leases              ? "concurrency"
		                     : members           ? "distinct"
		                     : options->reserves ? "--estimate"
		                                         : "--upto");
	return SL_GO_ON;
}

/* What does not go together. */
static int check_options(const struct sl_verb *verb, const struct sl_replay_options *options) {
	if (options->file_count == 0)
		return sl_cli_misuse(verb, "which logs? `-` reads standard input");
	if (options->policy_file == NULL && options->limit_count == 0)
		return sl_cli_misuse(verb, "which limits? --limit LIMIT, or -c FILE for a policy");
	if (options->policy_file != NULL && (options->limit_count > 0 || options->key_text != NULL))
		return sl_cli_misuse(verb, "-c FILE brings its own limits and keys: leave out --limit and --key");
	if (options->format == SL_LOG_OPS && options->key_text != NULL && !sl_replay_key_has(&options->key, SL_REPLAY_KEY))
		return sl_cli_misuse(verb, "--key '%.64s': ops lines have nothing but a key; leave it out", options->key_text);
	if (options->via != SL_VIA_AUTO && options->store == NULL)
		return sl_cli_misuse(verb, "--via says how a Redis decides: give --store redis://HOST as well");
	if (options->ca != NULL && (options->store == NULL || !options->url.tls))
		return sl_cli_misuse(verb, "--ca says whom TLS trusts: give --store rediss://HOST as well");
	if (options->judge != NULL && (options->decisions || options->upto || options->store != NULL))
		return sl_cli_misuse(verb, "--judge decides nothing: leave out %s",
		                     options->decisions ? "--decisions"
		                     : options->upto    ? "--upto"
		                                        : "--store");
	return check_kinds(verb, options);
}

static int read_options(const struct sl_verb *verb, int argc, char **argv, struct sl_replay_options *options) {
	uint32_t given;
	int status = sl_cli_read(verb, argc, argv, options, &given);
	options->has_hold = (given >> HOLD & 1) != 0;
	options->has_commit = (given >> COMMIT_AFTER & 1) != 0;
	options->reserves = (given >> ESTIMATE & 1) != 0;
	options->has_member = (given >> MEMBER & 1) != 0;
	return status == SL_GO_ON ? check_options(verb, options) : status;
}

/* ---- what it needs ----------------------------------------------------------------------------------------------- */

static int load_policy(struct sl_replay *replay, const char *path) {
	if (sl_cli_load_policy(replay->verb, path, true, &replay->policy) != SL_GO_ON)
		return sl_cli_fail(replay->verb, "%s: not replayed with this policy", path);
	replay->ipv6_prefix = sl_policy_settings(replay->policy)->ipv6_prefix;
	replay->limit_count = sl_policy_limit_count(replay->policy);
	return SL_GO_ON;
}

/* Does any limit of a policy, or override, have a trait? */
static bool policy_has(const struct sl_replay *replay, uint32_t position, enum sl_trait trait) {
	const struct sluice_limit *variants[SL_POLICY_VARIANTS_MAX];
	uint32_t count = sl_policy_limit_variants(replay->policy, position, variants, SL_POLICY_VARIANTS_MAX);
	for (uint32_t i = 0; i < count; i++)
		if (sl_rule_has(variants[i], trait))
			return true;
	return false;
}

/* What a policy says that options don't go with. */
static int check_policy(struct sl_replay *replay) {
	const struct sl_replay_options *options = replay->options;
	bool reserves = false;
	for (uint32_t i = 0; i < replay->limit_count; i++) {
		const struct sl_policy_limit *limit = sl_policy_limit_at(replay->policy, i);
		bool leases = policy_has(replay, i, SL_TAKES_LEASE);
		reserves |= limit->reserve.on;
		if (limit->reserve.on && (options->audit || options->judge != NULL))
			return sl_cli_fail(replay->verb,
			                   "--audit does not go with reserve of %s of %s: a commit may charge more than was "
			                   "reserved, so no bound holds for a window",
			                   limit->name, options->policy_file);
		if (options->upto && (leases || limit->reserve.on))
			return sl_cli_fail(replay->verb, "--upto does not go with %s of %s: its cost is taken whole", limit->name,
			                   options->policy_file);
		if (options->store != NULL &&
		    (leases || limit->reserve.on || limit->has_terms || policy_has(replay, i, SL_TAKES_MEMBER)))
			return sl_cli_fail(replay->verb, "--store decides plain limits alone: %s of %s has %s", limit->name,
			                   options->policy_file,
			                   leases              ? "leases"
			                   : limit->reserve.on ? "reserve"
			                   : limit->has_terms  ? limit->terms_text
			                                       : "members");
	}
	if (options->reserves && !reserves)
		return sl_cli_fail(replay->verb, "--estimate is for limits that say reserve: true, and %s has none",
		                   options->policy_file);
	replay->tells_cost |= reserves;
	return SL_GO_ON;
}

/* Where it is decided: in memory of its own, or in a Redis. */
static int open_store(struct sl_replay *replay) {
	const struct sl_replay_options *options = replay->options;
	struct sluice_store_options store = {.memory_bytes = options->memory_bytes};
	struct sluice_error error = {0};
	if (options->store != NULL) {
		replay->redis = sl_replay_redis_open(&options->url, options->ca, options->via, options->memory_bytes, &error);
		return replay->redis != NULL ? SL_GO_ON : sl_cli_fail(replay->verb, "%.128s: %s", options->store, error.text);
	}
	/* In huge pages each counter of a sparse store takes 2 MiB: 562 MiB for 1,753 clients, and the time to zero them.
	 * In small ones it is 10 MiB, and no slower with a quarter of a million keys. Where the kernel knows no such
	 * switch, replay merely takes more. */
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (sluice_store_open(&replay->store, &store, &error) != SLUICE_OK)
		return sl_cli_fail(replay->verb, "--memory: %s", error.text);
	return SL_GO_ON;
}

static int open_replay(struct sl_replay *replay) {
	const struct sl_replay_options *options = replay->options;
	replay->ipv6_prefix = 64;
	replay->wanted = SL_REPLAY_ALL; /* a policy may name any */
	if (options->policy_file == NULL)
		replay->wanted = sl_replay_key_wants(&options->key) | (options->has_member ? 1u << options->member : 0);
	replay->scratch.skips_request =
		(replay->wanted & (1u << SL_REPLAY_METHOD | 1u << SL_REPLAY_PATH | 1u << SL_REPLAY_HOST)) == 0;
	replay->limit_count = options->limit_count;
	replay->tells_cost = options->reserves || options->upto;
	if (options->policy_file != NULL &&
	    (load_policy(replay, options->policy_file) != SL_GO_ON || check_policy(replay) != SL_GO_ON))
		return SL_EXIT_FAILED;
	if (open_store(replay) != SL_GO_ON)
		return SL_EXIT_FAILED;
	replay->limits = calloc(replay->limit_count + 1, sizeof *replay->limits);
	replay->batch = sl_replay_batch_open();
	if (replay->limits == NULL || replay->batch == NULL ||
	    !sl_replay_stats_open(&replay->stats, SL_REPLAY_STATS_SLOTS_MAX, SL_REPLAY_STATS_TEXT_MAX) ||
	    !sl_replay_stats_open(&replay->shadows, SL_REPLAY_STATS_SLOTS_MAX, SL_REPLAY_STATS_TEXT_MAX) ||
	    !sl_replay_stats_open(&replay->tried, SL_REPLAY_STATS_SLOTS_MAX, SL_REPLAY_STATS_TEXT_MAX))
		return sl_cli_fail(replay->verb, "no memory");
	return sl_replay_audit_open(replay);
}

/* SL_GO_ON, or SL_EXIT_FAILED after saying what may be left behind. */
static int close_replay(struct sl_replay *replay) {
	struct sluice_error error;
	int status = SL_GO_ON;
	if (!sl_replay_redis_close(replay->redis, &error))
		status = sl_cli_fail(replay->verb, "%.128s: keys of this replay may be left there until they expire: %s",
		                     replay->options->store, error.text);
	sl_replay_audit_close(replay);
	sl_replay_stats_close(&replay->stats);
	sl_replay_stats_close(&replay->shadows);
	sl_replay_stats_close(&replay->tried);
	sl_replay_pendings_close(&replay->pendings);
	sl_replay_batch_close(replay->batch);
	free(replay->limits);
	sluice_store_close(replay->store);
	sluice_policy_free(replay->policy);
	free(replay);
	return status;
}

static int run_options(const struct sl_verb *verb, const struct sl_replay_options *options) {
	struct sl_replay *replay = calloc(1, sizeof *replay);
	if (replay == NULL)
		return sl_cli_fail(verb, "no memory");
	replay->verb = verb;
	replay->options = options;
	int status = open_replay(replay);
	if (status == SL_GO_ON) {
		setvbuf(stdout, NULL, _IOFBF, STDOUT_BYTES);
		status = sl_replay_read(replay);
		/* what came before a file broke off is told, as what it is */
		if (status == SL_EXIT_FINE || (replay->broke_off != NULL && replay->requests + replay->unreadable_count > 0))
			sl_replay_report(replay);
		status = sl_cli_end(verb, status == SL_EXIT_FINE ? sl_replay_audit_status(replay) : status);
	}
	return close_replay(replay) == SL_GO_ON ? status : SL_EXIT_FAILED;
}

static int run_replay(const struct sl_verb *verb, int argc, char **argv) {
	struct sl_replay_options *options = calloc(1, sizeof *options);
	char **files = calloc((size_t)argc + 1, sizeof *files);
	int status;
	if (options == NULL || files == NULL) {
		status = sl_cli_fail(verb, "no memory");
	} else {
		options->files = files;
		options->top = TOP_DEFAULT;
		options->memory_bytes = memory_default;
		options->key = sl_replay_key_default;
		status = read_options(verb, argc, argv, options);
		status = status == SL_GO_ON ? run_options(verb, options) : status;
	}
	free(files);
	free(options);
	return status;
}

const struct sl_verb sl_verb_replay = {
	.name = "replay",
	.usage = "replay LOG... (--limit LIMIT... [--key KEY] | -c FILE) [--store URL] [OPTION]...",
	.summary = "Runs recorded traffic through limits, in the log's own time, and says who would have been limited",
	.text = "LOG is an access log (common, combined or JSON lines) or a file of ops lines, `time_ms key [cost]`;\n"
			"plain, .gz or .xz; `-` is standard input. Lines are decided in file order: an instant earlier than a\n"
			"counter's last charge counts as that charge's instant. Unreadable lines are counted and reported.\n"
			"With --store a Redis decides, with keys of this replay alone, which are removed at the end.\n"
			"Exit status: 0 if the input was read, whatever was denied; 2 if it could not be read; with --audit 1 if\n"
			"any window admitted more than the bound of its limit.\n",
	.follows = SL_FOLLOWS_FILE,
	.examples = "  sluice replay access.log --limit 'sliding-log 20/1m'\n"
				"  sluice replay access.log.1.gz access.log --limit 10/1s --limit 300/1m --key 'user | ip'\n"
				"  sluice replay access.log -c examples/sluice.yaml --top 50\n"
				"  xz -dc trace.ops.xz | sluice replay --format ops --limit 'token-bucket 100/10s burst 200' -\n"
				"  sluice replay access.log --limit 100/1m --decisions | grep -c ^0\n"
				"  sluice replay access.json --limit 'concurrency 5 lease 30s' --key user\n"
				"  sluice replay access.log --limit 'distinct 3/1d' --key user --member ip\n"
				"  sluice replay tokens.ops --limit 'sliding-log 400k/1m' --estimate 500 --commit-after 2s\n"
				"  sluice replay access.log -c policy.yaml --store redis://10.0.0.7\n"
				"  sluice replay access.log --limit 'sliding-log 20/1m' --audit\n"
				"  sluice replay access.log --limit 'sliding-log 20/1m' --judge theirs.txt\n",
	SL_OPTIONS(options_table),
	.take = take_option,
	.word = take_file,
	.run = run_replay,
};
