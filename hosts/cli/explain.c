/* sluice explain: from a request's attributes to its answer: which limits of the policy count, by which key, why the
 * others don't, what each would answer and what its counter holds. One command, SLUICE.WHY, tells it; of a server, or,
 * with -c FILE, of the server's own door in this process over a store of this host. Where the counters are in Redis
 * that door tells the rules alone, and a node with the module what they hold. */
#include "algo/merge.h"
#include "hosts/cli/ask.h"
#include "hosts/cli/explain_descriptor.h"
#include "hosts/cli/explain_redis.h"
#include "hosts/cli/request.h"
#include "hosts/cli/store/store_open.h"
#include "hosts/cli/told.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ATTRIBUTES_MAX = 256 };

struct explain {
	struct sl_cli_ask ask;
	const char *config;
	const char *domain, *descriptor; /* of a descriptor, in place of attributes */
	bool json;
	uint32_t cost;
	char cost_text[16]; /* what its word points to */
	int word_count;
	struct sluice_bytes words[2 + 2 * ATTRIBUTES_MAX]; /* the command, the cost, then names and values */
	struct sluice_policy *policy;                      /* of -c */
	struct sluice_store *aside;                        /* stands for a store that nobody named: it holds nothing */
	bool counters;                                     /* what counters hold is known */
};
#define TO(field) offsetof(struct explain, field)

static const struct sl_option options[] = {
	{"config", 'c', "FILE", "the policy, to explain it without a server", SL_TEXT(TO(config))},
	{"store", 0, "STORE",
     "with -c: the store's file, shared:NAME, or a Redis with the module (redis://[USER@]HOST\n"
     "[:PORT][/PREFIX], rediss://, unix://), instead of the one that the policy names",
     SL_TEXT(TO(ask.store))},
	{"domain", 0, "NAME", "the domain of a descriptor", SL_TEXT(TO(domain))},
	{"descriptor", 0, "KEY=VALUE,..",
     "a descriptor's entries instead of attributes; shows which rule of\n"
     "envoyproxy/ratelimit's files it matches",
     SL_TEXT(TO(descriptor))},
	{"cost", 0, "N", "the cost of the request if the policy does not set it, 1..4294967295 (1)",
     SL_NUMBER(TO(cost), 1, UINT32_MAX)},
	{"json", 0, NULL, "for programs: JSON, with every figure as a whole number", SL_FLAG(TO(json))},
	SL_CLIENT_OPTIONS(TO(ask.server)),
};

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static int take_word(const struct sl_verb *verb, void *to, const char *word) {
	struct explain *explain = to;
	const char *equals = strchr(word, '=');
	if (equals == NULL || equals == word)
		return sl_cli_misuse(verb, "'%.64s': expected an attribute, such as ip=192.0.2.7", word);
	if ((size_t)(equals - word) > SLUICE_NAME_BYTES_MAX)
		return sl_cli_misuse(verb, "the attribute name '%.16s...' has more than %d bytes", word, SLUICE_NAME_BYTES_MAX);
	if (explain->word_count == 2 * ATTRIBUTES_MAX)
		return sl_cli_misuse(verb, "more than %d attributes", ATTRIBUTES_MAX);
	explain->words[2 + explain->word_count++] = sl_slice(word, (size_t)(equals - word));
	explain->words[2 + explain->word_count++] = sl_str(equals + 1);
	return SL_GO_ON;
}

static int load_policy(struct explain *explain) {
	int status = sl_cli_load_policy(explain->ask.verb, explain->config, false, &explain->policy);
	explain->ask.policy = explain->policy;
	explain->ask.policy_file = explain->config;
	return status;
}

/* The counters that belong to the policy's file: those of the store that it names, where that is on this host. */
static void find_store(struct explain *explain) {
	static char name[sizeof SL_STORE_SHARED + SLUICE_NAME_BYTES_MAX];
	const struct sl_settings *settings = sl_policy_settings(explain->policy);
	if (explain->ask.store == NULL && settings->store_file != NULL)
		explain->ask.store = settings->store_file;
	if (explain->ask.store == NULL && settings->store_shared != NULL) {
		snprintf(name, sizeof name, SL_STORE_SHARED "%s", settings->store_shared);
		explain->ask.store = name;
	}
}

static int read_arguments(struct explain *explain, int argc, char **argv) {
	struct sl_cli_ask *ask = &explain->ask;
	int status = sl_cli_read(ask->verb, argc, argv, explain, NULL);
	if (status != SL_GO_ON)
		return status;
	if ((explain->domain == NULL) != (explain->descriptor == NULL))
		return sl_cli_misuse(ask->verb, "--domain and --descriptor go together");
	if (explain->descriptor != NULL && (explain->word_count != 0 || explain->json))
		return sl_cli_misuse(ask->verb, "--descriptor goes without attributes and without --json");
	if (explain->word_count == 0 && explain->descriptor == NULL)
		return sl_cli_misuse(ask->verb,
		                     "which request? Give its attributes, such as: sluice explain ip=192.0.2.7 path=/login");
	if (explain->config == NULL && ask->store != NULL)
		return sl_cli_misuse(ask->verb, "--store has no policy: give it by -c FILE as well");
	if (explain->config != NULL && ask->server.server != NULL)
		return sl_cli_misuse(ask->verb, "-c FILE or --server ADDR, not both: a server has its own policy");
	status = sl_ask_check_place(ask);
	if (status == SL_GO_ON && explain->descriptor != NULL && ask->in_redis)
		return sl_cli_misuse(ask->verb, "--descriptor: counters in Redis need a server: --server ADDR");
	return status;
}

/* All limits of the policy. */
struct story {
	struct sl_told *list;
	uint32_t count, shown; /* of them, those that apply */
	uint32_t left_out;     /* more of the policy, which do not: as far as it is known */
	struct sluice_decision merged;
	int32_t decider; /* in the list; -1: none */
};

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* A store that holds nothing, where nobody knows what the counters hold: the rules are told all the same. */
static int reach_aside(struct explain *explain) {
	const struct sluice_store_options nothing = {.memory_bytes = 1 << 20};
	struct sluice_error error;
	if (sluice_store_open(&explain->aside, &nothing, &error) == SLUICE_OK &&
	    sl_client_open_store(&explain->ask.client, explain->aside, explain->policy, &error))
		return SL_GO_ON;
	return sl_cli_fail(explain->ask.verb, "%s", error.text);
}

static int reach(struct explain *explain) {
	int status = SL_GO_ON;
	if (explain->config != NULL)
		status = load_policy(explain);
	if (status == SL_GO_ON && explain->config != NULL)
		find_store(explain);
	if (status == SL_GO_ON && explain->config != NULL && explain->descriptor != NULL)
		(void)sl_explain_read_files(&explain->ask, explain->policy, explain->config, &status);
	explain->counters = explain->config == NULL || explain->ask.store != NULL;
	if (status != SL_GO_ON)
		return status;
	return explain->counters && !explain->ask.in_redis ? sl_ask_reach(&explain->ask) : reach_aside(explain);
}

/* A prefix of the URL, else that of the policy. SL_GO_ON, or what to exit with. */
static int look_in_redis(struct explain *explain, struct story *story) {
	struct sl_cli_ask there = {.verb = explain->ask.verb,
	                           .store = explain->ask.store,
	                           .in_redis = true,
	                           .url = explain->ask.url,
	                           .server = explain->ask.server};
	struct sluice_attribute attributes[ATTRIBUTES_MAX];
	const char *own = sl_policy_settings(explain->policy)->redis.prefix;
	const char *prefix = there.url.prefix[0] != '\0' || own == NULL ? there.url.prefix : own;
	size_t count = (size_t)explain->word_count / 2;
	struct sluice_error error;
	int status = sl_ask_reach(&there);
	if (status != SL_GO_ON)
		return status;
	for (size_t i = 0; i < count; i++)
		attributes[i] = (struct sluice_attribute){explain->words[2 + 2 * i], explain->words[3 + 2 * i]};
	if (!sl_explain_in_redis(&there.client, explain->policy, prefix, attributes, count, story->list, story->count,
	                         &error))
		status = sl_ask_failed(&there, &error);
	sl_ask_end(&there);
	return status;
}

static bool send_request(struct explain *explain, struct sluice_error *error) {
	snprintf(explain->cost_text, sizeof explain->cost_text, "%" PRIu32, explain->cost);
	explain->words[0] = sl_str("SLUICE.WHY");
	explain->words[1] = sl_str(explain->cost_text);
	return sl_client_send(&explain->ask.client, explain->words, 2 + explain->word_count, error);
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

static bool applies(const struct sl_told *told) {
	return sl_told_number(told, "applies", 0) != 0;
}

static sluice_ns wait_of(const struct sl_told *told, const char *name) {
	int64_t ms = sl_told_number(told, name, 0);
	return ms < 0 ? SLUICE_NEVER : (sluice_ns)ms * 1000000;
}

/* As contract and doors merge: what all enforced limits say together. */
static void merge(struct story *story) {
	story->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < story->count; i++) {
		const struct sl_told *told = &story->list[i];
		struct sluice_decision one = {.allowed = sl_told_number(told, "allowed", 1) != 0,
		                              .quota = (uint64_t)sl_told_number(told, "quota", 0),
		                              .remaining = (uint32_t)sl_told_number(told, "remaining", 0),
		                              .retry_after_ns = wait_of(told, "retry_after_ms"),
		                              .reset_after_ns = wait_of(told, "reset_after_ms"),
		                              .delay_ns = wait_of(told, "delay_ms")};
		if (applies(told) && sl_told_number(told, "observed", 0) == 0)
			sl_merge_add(&story->merged, &one, (int32_t)i);
	}
	story->decider = story->merged.index;
}

/* What nobody knows is not told: rules alone. */
static void forget_counters(struct sl_told *told) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < told->number_count; i++)
		if (strcmp(told->numbers[i].name, "cost") == 0 || strcmp(told->numbers[i].name, "observed") == 0 ||
		    strcmp(told->numbers[i].name, "applies") == 0)
			told->numbers[kept++] = told->numbers[i];
	told->number_count = kept;
	told->list_count = 0;
	told->bound[0] = '\0';
}

static bool read_story(struct explain *explain, struct story *story, struct sluice_error *error) {
	int64_t count;
	if (!sl_client_integer(&explain->ask.client, '*', &count, error))
		return false;
	if (count > SL_POLICY_LIMITS_MAX) {
		snprintf(error->text, sizeof error->text, "the server tells of more limits than a policy has");
		return false;
	}
	story->list = calloc((size_t)count + 1, sizeof *story->list);
	if (story->list == NULL) {
		snprintf(error->text, sizeof error->text, "no memory");
		return false;
	}
	for (; story->count < (uint32_t)count; story->count++) {
		struct sl_told *told = &story->list[story->count];
		if (!sl_told_read(&explain->ask.client, told, error))
			return false;
		story->shown += applies(told);
		if (!explain->counters || explain->ask.in_redis)
			forget_counters(told);
	}
	if (explain->policy != NULL)
		story->left_out = sl_policy_limit_count(explain->policy) - story->count;
	return true;
}

static const struct sl_told_text *name_of_decider(const struct story *story) {
	static const struct sl_told_text none = {.len = 0};
	return story->decider < 0 ? &none : &story->list[story->decider].name;
}

/* "1 of 40 limits apply". Of a server's limits so many are told; it does not say of more. */
static void print_applying(const struct explain *explain, const struct story *story) {
	bool more = explain->policy == NULL && story->count == SL_TOLD_MAX;
	printf("%" PRIu32 " of %" PRIu32 " limits%s apply", story->shown, story->count + story->left_out,
	       more ? " or more" : "");
}

static void print_verdict(const struct explain *explain, const struct story *story) {
	char wait[SL_WAIT_TEXT_MAX], never[SL_NEVER_TEXT_MAX];
	if (!explain->counters) {
		print_applying(explain, story);
		printf("; %s, so their answers are not known\n",
		       sl_policy_settings(explain->policy)->redis.address_count == 0
		           ? "no store was named"
		           : "the store is a Redis, to be named by --store redis://HOST");
		return;
	}
	if (story->merged.allowed) {
		fputs("allowed: ", stdout);
		print_applying(explain, story);
		putchar('\n');
		return;
	}
	fputs("denied by ", stdout);
	sl_told_put_text(name_of_decider(story));
	if (story->merged.retry_after_ns == SLUICE_NEVER)
		printf(", and always will be%s\n", sl_request_never(never, story->list[story->decider].bound, false));
	else
		printf(": allowed in %s\n", sl_cli_wait(wait, sl_ns_to_ms_ceil(story->merged.retry_after_ns)));
}

static void print_text(const struct explain *explain, const struct story *story) {
	print_verdict(explain, story);
	for (uint32_t i = 0; i < story->count; i++) {
		const struct sl_told *told = &story->list[i];
		if (!applies(told))
			continue;
		putchar('\n');
		sl_told_put_text(&told->name);
		fputs(": ", stdout);
		sl_told_put_text(&told->why);
		putchar('\n');
		if (explain->counters)
			sl_told_print(told);
		else
			sl_told_print_rule(told);
	}
	for (uint32_t i = 0, before = 0; i < story->count; i++) {
		const struct sl_told *told = &story->list[i];
		if (applies(told))
			continue;
		fputs(before++ == 0 ? "\n" : "", stdout);
		sl_told_put_text(&told->name);
		fputs(" does not apply: ", stdout);
		sl_told_put_text(&told->why);
		putchar('\n');
	}
}

static void print_json(const struct explain *explain, const struct story *story) {
	putchar('{');
	if (explain->counters) {
		printf("\"allowed\":%s,\"limit\":", story->merged.allowed ? "true" : "false");
		sl_told_put_json(name_of_decider(story));
		printf(",\"retry_after_ms\":%" PRId64 ",", sl_ns_to_ms_ceil(story->merged.retry_after_ns));
	}
	for (int others = 0; others < 2; others++) {
		uint32_t told = 0;
		printf(others ? ",\"others\":[" : "\"limits\":[");
		for (uint32_t i = 0; i < story->count; i++) {
			if (applies(&story->list[i]) != (others == 0))
				continue;
			printf(told++ == 0 ? "" : ",\n ");
			sl_told_print_json(&story->list[i]);
		}
		putchar(']');
	}
	if (story->left_out != 0)
		printf(",\"left_out\":%" PRIu32, story->left_out);
	puts("}");
}

static int explain_request(struct explain *explain) {
	struct sluice_error error;
	struct story story = {.decider = -1};
	int status = reach(explain);
	if (status != SL_GO_ON)
		return status;
	if (!send_request(explain, &error) || !read_story(explain, &story, &error))
		status = sl_ask_failed(&explain->ask, &error);
	else if (explain->ask.in_redis)
		status = look_in_redis(explain, &story);
	if (status == SL_GO_ON) {
		merge(&story);
		(explain->json ? print_json : print_text)(explain, &story);
		status = story.merged.allowed ? SL_EXIT_FINE : SL_EXIT_DENIED;
	}
	free(story.list);
	sl_ask_end(&explain->ask);
	return sl_cli_end(explain->ask.verb, status);
}

static int explain_descriptor(struct explain *explain) {
	int status = reach(explain);
	if (status != SL_GO_ON)
		return status;
	status = sl_explain_descriptor(&explain->ask, explain->counters, explain->domain, explain->descriptor);
	sl_ask_end(&explain->ask);
	return sl_cli_end(explain->ask.verb, status);
}

static int run_explain(const struct sl_verb *verb, int argc, char **argv) {
	static struct explain explain;
	explain = (struct explain){.ask = sl_ask_begin(verb), .cost = 1};
	int status = read_arguments(&explain, argc, argv);
	if (status == SL_GO_ON)
		status = (explain.descriptor == NULL ? explain_request : explain_descriptor)(&explain);
	if (explain.aside != NULL)
		sluice_store_close(explain.aside);
	sluice_policy_free(explain.policy);
	return status;
}

const struct sl_verb sl_verb_explain = {
	.name = "explain",
	.usage = "explain NAME=VALUE... [--cost N] [--json] [--server ADDR [--user NAME] [--tls [--ca FILE]]]\n"
			 "       sluice explain NAME=VALUE... -c FILE [--store STORE] [--cost N] [--json]\n"
			 "       sluice explain --domain NAME --descriptor KEY=VALUE,.. [--server ADDR | -c FILE [--store STORE]]",
	.summary = "Explains a decision: which limits apply to a request, by which key, and why others do not",
	.text =
		"Give the attributes of the request: ip=192.0.2.7 method=POST path=/login, and the policy's own attributes.\n"
		"For each limit that applies, explain shows the override and the key, the answer, and what its counter\n"
		"holds; for each other limit, what is missing. Nothing is charged. With -c FILE no server is asked: the\n"
		"counters come from the policy's store, or from --store, which may be a Redis with Sluice's module; without\n"
		"a store, only the rules are shown. Exit status: 0 allowed, 1 denied, 2 no answer.\n"
		"With --domain and --descriptor, explain shows which rule of envoyproxy/ratelimit's files a descriptor\n"
		"matches, where that rule is, which counter decides it, and what is left.\n",
	.examples = "  sluice explain ip=192.0.2.7 method=POST path=/login\n"
				"  sluice explain user=alice plan=pro path=/search --json --server 10.0.0.7:7379\n"
				"  sluice explain -c examples/sluice.yaml user=alice ip=192.0.2.7 path=/\n"
				"  sluice explain -c policy.yaml --store redis://10.0.0.7 ip=192.0.2.7 path=/login\n"
				"  sluice explain --domain shop --descriptor path=/login,user=alice\n"
				"  sluice explain -c policy.yaml --domain shop --descriptor path=/login\n",
	SL_OPTIONS(options),
	.word = take_word,
	.run = run_explain,
};
