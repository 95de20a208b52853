/* lint: what is wrong with a policy file, all of it at once, as file:line:column, which editors jump to. */
#include "hosts/cli/cli.h"
#include "hosts/files/denied_files.h"
#include "hosts/files/envoy_files.h"
#include "hosts/files/quota_files.h"
#include "policy/footprint.h"
#include "policy/lint.h"
#include "policy/quotas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct lint {
	const char *path, *envoy;
	bool errors_only;
};

enum { SUMS_MAX = 20 };

static const struct sl_option options[] = {
	{"envoy", 0, "DIR", "check files of envoyproxy/ratelimit instead: a folder, or one file",
     SL_TEXT(offsetof(struct lint, envoy))},
	{"errors-only", 0, NULL, "do not report or count warnings", SL_FLAG(offsetof(struct lint, errors_only))},
};

/* Says of limits below a limit from how many keys on they ask for more than that admits. Were all compared? */
static bool print_sums(const char *file, const struct sluice_policy *policy) {
	struct sl_lint_sum sums[SUMS_MAX];
	bool whole;
	uint32_t count = sl_lint_sums(policy, sums, SUMS_MAX, &whole);
	for (uint32_t i = 0; i < count; i++) {
		const struct sl_policy_limit *below = sl_policy_limit_at(policy, sums[i].below);
		const struct sl_policy_limit *above = sl_policy_limit_at(policy, sums[i].above);
		char quota[SLUICE_LIMIT_TEXT_MAX], all[SLUICE_LIMIT_TEXT_MAX];
		sluice_limit_print(&below->limit, quota);
		sluice_limit_print(&above->limit, all);
		if (sums[i].keys == 1)
			printf("%s: note: no key of %s ever has its full quota (%s): %s admits less (%s)\n", file, below->name,
			       quota, above->name, all);
		else
			printf("%s: note: %" PRIu64 " keys of %s at full quota (%s) ask for more than %s admits (%s)\n", file,
			       sums[i].keys, below->name, quota, above->name, all);
	}
	return whole;
}

/* Says how a store is split that is made for limits which need blocks, and how many keys it then has room for. */
static void print_split(const char *file, const struct sluice_policy *policy) {
	const struct sl_settings *settings = sl_policy_settings(policy);
	if (settings->redis.address_count != 0 || sl_policy_footprint(policy).most == 0)
		return;
	printf("%s: note: %" PRIu64 " MiB, of which blocks are %" PRIu32 "%%, are room for %" PRIu64
	       " keys of each limit that use it up\n",
	       file, settings->memory_bytes >> 20, sl_policy_blocks_percent(policy), sl_policy_keys_most(policy));
}

/* What is no mistake. */
static void print_notes(const char *file, const struct sluice_policy *policy) {
	bool whole = print_sums(file, policy);
	print_split(file, policy);
	if (!whole || sl_lint_is_half(policy))
		printf("%s: note: lint did not compare all rules with each other, which would take too long: rules that "
		       "others hide, repeat or bound may be missing from the list\n",
		       file);
}

/* How many warnings there are of the files of quotas, which have been read. */
static size_t print_quotas(const struct sluice_policy *policy) {
	size_t shown = 0;
	for (uint32_t i = 0; i < sl_policy_quotas_count(policy); i++) {
		struct sl_report report = {0};
		struct sluice_problems problems;
		const char *file = sl_policy_quotas_at(policy, i)->file;
		struct sl_quotas_linted linted = sl_policy_quotas_lint(policy, i, &report);
		sl_report_move(&report, &problems);
		shown += sl_cli_print_problems(stdout, file, &problems, true);
		if (linted.lines != linted.of)
			printf("%s: note: lint looked for lines that do nothing among the first %" PRIu32 " of %" PRIu32
			       " keys only: comparing the others with the limit's overrides would take too long\n",
			       file, linted.lines, linted.of);
		sluice_problems_free(&problems);
	}
	return shown;
}

/* How many problems the files of denials and of quotas have: read as at the policy's start, but all of them. */
static size_t print_named(const char *path, struct sluice_policy *policy, bool warnings) {
	const char *file;
	size_t shown = 0;
	for (uint32_t i = 0; i < sl_policy_denied_count(policy); i++) {
		struct sluice_problem problem;
		if (!sl_denied_file_read(policy, i, path, &file, &problem))
			shown += sl_cli_print_problems(stdout, file, &(struct sluice_problems){.list = &problem, .count = 1}, true);
	}
	for (uint32_t i = 0; i < sl_policy_quotas_count(policy); i++) {
		struct sl_report report = {0};
		struct sluice_problems problems;
		bool good = sl_quota_file_check(policy, i, path, &file, &report);
		sl_report_move(&report, &problems);
		shown += sl_cli_print_problems(stdout, file, &problems, true);
		shown += !good && problems.count == 0; /* no memory to list them */
		sluice_problems_free(&problems);
	}
	return shown == 0 && warnings ? print_quotas(policy) : shown;
}

/* What the files of envoyproxy/ratelimit say: printed as it comes. */
struct envoy_lint {
	const struct sl_verb *verb;
	bool warnings, unread; /* unread: what --envoy names can't be read, or a file of it */
	size_t shown;
};

static void print_envoy(void *to, const char *file, const struct sluice_problems *problems) {
	struct envoy_lint *lint = to;
	if (problems->count == 1 && problems->list->line == 0) { /* no policy names it */
		lint->unread = true;
		(void)sl_cli_fail(lint->verb, "%s", problems->list->text);
		return;
	}
	lint->shown += sl_cli_print_problems(stdout, file, problems, lint->warnings);
}

/* How many problems the files of envoyproxy/ratelimit have that a policy names, printed. */
static size_t lint_files(const char *path, struct sluice_policy *policy, struct envoy_lint *lint) {
	bool good = sl_envoy_files_read(policy, path, print_envoy, lint);
	return good ? lint->shown : lint->shown + 1;
}

static int lint_envoy(const struct sl_verb *verb, const char *config, bool errors_only) {
	struct envoy_lint lint = {.verb = verb, .warnings = !errors_only};
	struct sluice_policy *policy;
	if (strlen(config) > SL_ENVOY_PATH_BYTES_MAX)
		return sl_cli_misuse(verb, "--envoy takes a path of at most %d bytes", SL_ENVOY_PATH_BYTES_MAX);
	if (sl_policy_envoy_alone(&policy, config) != SLUICE_OK)
		return sl_cli_fail(verb, "%s: no memory to read it", config);
	int status = lint_files(config, policy, &lint) == 0 ? SL_EXIT_FINE : lint.unread ? SL_EXIT_FAILED : SL_EXIT_DENIED;
	uint32_t files = sl_policy_envoy_files(policy), rules = sl_policy_envoy_count(policy);
	if (status == SL_EXIT_FINE && rules == 0 && !errors_only) {
		printf("%s:1:1: warning: there are no limits in %" PRIu32 " file%s: nobody is denied\n", config, files,
		       files == 1 ? "" : "s");
		status = SL_EXIT_DENIED;
	} else if (status == SL_EXIT_FINE) {
		printf("%s: fine, %" PRIu32 " limit%s in %" PRIu32 " file%s\n", config, rules, rules == 1 ? "" : "s", files,
		       files == 1 ? "" : "s");
	}
	sluice_policy_free(policy);
	return sl_cli_end(verb, status);
}

static int lint(const struct sl_verb *verb, const char *path, bool errors_only) {
	const char *file = strcmp(path, "-") == 0 ? "<stdin>" : path;
	struct sluice_error error;
	size_t len;
	char *yaml = sl_cli_read_policy(path, &len, &error);
	if (yaml == NULL)
		return sl_cli_fail(verb, "%s: %s", file, error.text);
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems = {0};
	sluice_err err = sluice_policy_load(&policy, sl_slice(yaml, len), &problems);
	size_t shown = sl_cli_print_problems(stdout, file, &problems, !errors_only);
	struct envoy_lint envoy = {.verb = verb, .warnings = !errors_only};
	if (err == SLUICE_OK)
		shown += print_named(file, policy, !errors_only);
	if (err == SLUICE_OK)
		shown += lint_files(file, policy, &envoy);
	if (err == SLUICE_OK && !errors_only)
		print_notes(file, policy);
	int status = err != SLUICE_OK || shown != 0 ? SL_EXIT_DENIED : SL_EXIT_FINE;
	if (err == SLUICE_E_MEMORY)
		status = sl_cli_fail(verb, "%s: no memory to read it", file);
	if (status == SL_EXIT_FINE) {
		uint32_t count = sl_policy_limit_count(policy) + sl_policy_envoy_count(policy);
		printf("%s: fine, %u limit%s\n", file, count, count == 1 ? "" : "s");
	}
	sluice_problems_free(&problems);
	sluice_policy_free(policy);
	free(yaml);
	return sl_cli_end(verb, status);
}

static int take_file(const struct sl_verb *verb, void *to, const char *word) {
	struct lint *lint = to;
	if (lint->path != NULL)
		return sl_cli_misuse(verb, "'%.64s' is one file too many", word);
	lint->path = word;
	return SL_GO_ON;
}

static int run_lint(const struct sl_verb *verb, int argc, char **argv) {
	struct lint asked = {.path = NULL};
	int status = sl_cli_read(verb, argc, argv, &asked, NULL);
	if (status != SL_GO_ON)
		return status;
	if (asked.envoy != NULL && asked.path != NULL)
		return sl_cli_misuse(verb, "a policy file or --envoy DIR, not both");
	if (asked.envoy != NULL)
		return lint_envoy(verb, asked.envoy, asked.errors_only);
	return asked.path != NULL ? lint(verb, asked.path, asked.errors_only) : sl_cli_misuse(verb, "which policy file?");
}

const struct sl_verb sl_verb_lint = {
	.name = "lint",
	.usage = "lint FILE [--errors-only]\n"
			 "       sluice lint --envoy DIR [--errors-only]",
	.summary = "Reports the errors and warnings of a policy file",
	.follows = SL_FOLLOWS_FILE,
	.text =
		"Each problem is one line, FILE:LINE:COLUMN: error|warning: TEXT; a policy with warnings alone loads.\n"
		"`-` reads standard input. Exit status: 0 clean, 1 problems, 2 the file can't be read.\n"
		"A note says how many keys at full quota exceed a limit that they share. This is no problem if they do not\n"
		"all come at once. A note also says how many keys of a large file of `overrides-from` were checked.\n"
		"lint also reads the files that a policy names by `denied`, `overrides-from` and `envoy`, and reports their\n"
		"problems with their own lines. With --envoy DIR it checks only files of envoyproxy/ratelimit, in the words\n"
		"of that program.\n"
		"A limit that does not apply because an attribute is absent is a warning, unless it has `optional: true`.\n",
	.examples = "  sluice lint examples/sluice.yaml\n"
				"  sluice lint --envoy /data/ratelimit/config\n",
	SL_OPTIONS(options),
	.word = take_file,
	.run = run_lint,
};
