/* Finding a verb, and what the program says of all of them. */
#include "hosts/cli/verbs.h"

#include "algo/traits.h"
#include "hosts/cli/completion.h"
#include "policy/nearest.h"

#include <stdio.h>

const struct sl_verb *const sl_verbs[] = {
	&sl_verb_serve,      &sl_verb_ready,   &sl_verb_check,    &sl_verb_acquire, &sl_verb_release, &sl_verb_renew,
	&sl_verb_holders,    &sl_verb_reserve, &sl_verb_commit,   &sl_verb_reset,   &sl_verb_override, &sl_verb_inspect,
	&sl_verb_store,
	&sl_verb_lint,       &sl_verb_replay,  &sl_verb_top,      &sl_verb_tail,    &sl_verb_explain, &sl_verb_password,
	&sl_verb_token,      &sl_verb_bench,   &sl_verb_size,
	&sl_verb_completion, &sl_verb_version, &sl_verb_help,
	NULL,
};

const struct sl_verb *sl_verb_find(const char *name) {
	for (int i = 0; sl_verbs[i] != NULL; i++) {
		if (strcmp(sl_verbs[i]->name, name) == 0)
			return sl_verbs[i];
	}
	return NULL;
}

/* How limits are written: a line of each algorithm, and of what else there is. */
static const struct {
	const char *limit, *says;
} examples[] = {
#define EXAMPLE(algorithm, word, traits, example, says) {example, says},
	SL_ALGORITHMS(EXAMPLE)
#undef EXAMPLE
	{"1M/month at Europe/Berlin", "a million a month, as bills are"},
	{"1000/1h spread", "each key's hour begins at a minute of its own"},
};

static void print_overview(FILE *to) {
	fputs("Sluice: rate limiting by sliding windows, exact where it says exact.\n\n"
	      "usage: sluice VERB [ARGUMENT]...\n\n",
	      to);
	for (int i = 0; sl_verbs[i] != NULL; i++)
		fprintf(to, "  %-10s %s\n", sl_verbs[i]->name, sl_verbs[i]->summary);
	fputs("\nA limit is written [algorithm] QUOTA/WINDOW [option value]...:\n", to);
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
		fprintf(to, "  %-45s %s\n", examples[i].limit, examples[i].says);
	fputs("\nExit status: 0 allowed or fine, 1 denied or findings, 2 misuse or failure.\n"
	      "sluice VERB --help says more about each.\n",
	      to);
}

static int overview(void) {
	print_overview(stdout);
	return sl_cli_end(&sl_verb_help, SL_EXIT_FINE);
}

/* The names of the verbs: a table for sl_nearest(). */
static const char *verb_at(const void *verbs, size_t index) {
	const struct sl_verb *verb = ((const struct sl_verb *const *)verbs)[index];
	return verb != NULL ? verb->name : NULL;
}

static int no_verb(const char *name) {
	const char *nearest = sl_nearest(sl_str(name), verb_at, sl_verbs);
	fputs("sluice: no verb '", stderr);
	sl_cli_show(stderr, name);
	fputs("': ", stderr);
	if (nearest != NULL)
		fprintf(stderr, "did you mean '%s'?\n", nearest);
	else
		fputs("sluice help lists them\n", stderr);
	return SL_EXIT_FAILED;
}

int sl_cli_main(int argc, char **argv) {
	if (argc < 2) {
		print_overview(stderr);
		return SL_EXIT_FAILED;
	}
	const char *name = argv[1];
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	const struct sl_verb *verb = sl_verb_find(name);
	if (verb == NULL)
		return no_verb(name);
	return verb->run(verb, argc - 2, argv + 2);
}

static int help_about(const struct sl_verb *verb, void *to, const char *name) {
	const struct sl_verb *about = sl_verb_find(name);
	(void)verb, (void)to;
	return about != NULL ? sl_cli_help(about) : no_verb(name);
}

static int run_help(const struct sl_verb *verb, int argc, char **argv) {
	int status = sl_cli_read(verb, argc, argv, NULL, NULL);
	return status == SL_GO_ON ? overview() : status;
}

const struct sl_verb sl_verb_help = {
	.name = "help",
	.usage = "help [VERB]",
	.summary = "Says what there is, or how a verb is used",
	.examples = "  sluice help replay\n",
	.follows = SL_FOLLOWS_VERB,
	.word = help_about,
	.run = run_help,
};

struct completion {
	uint32_t shell;
	bool named;
};

static int take_shell(const struct sl_verb *verb, void *to, const char *word) {
	struct completion *completion = to;
	if (completion->named)
		return sl_cli_misuse(verb, "'%.64s' is one word too many", word);
	for (uint32_t i = 0; sl_completion_shells[i] != NULL; i++) {
		if (strcmp(sl_completion_shells[i], word) == 0) {
			*completion = (struct completion){i, true};
			return SL_GO_ON;
		}
	}
	return sl_cli_misuse(verb, "no shell '%.64s': expected bash, zsh or fish", word);
}

static int run_completion(const struct sl_verb *verb, int argc, char **argv) {
	struct completion completion = {0};
	int status = sl_cli_read(verb, argc, argv, &completion, NULL);
	if (status != SL_GO_ON)
		return status;
	if (!completion.named)
		return sl_cli_misuse(verb, "a shell is missing: bash, zsh or fish");
	sl_completion_print(completion.shell, sl_verbs);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

const struct sl_verb sl_verb_completion = {
	.name = "completion",
	.usage = "completion bash|zsh|fish",
	.summary = "Prints what makes a shell complete verbs, options and their values",
	.examples = "  sluice completion fish | source               # in ~/.config/fish/config.fish\n"
				"  source <(sluice completion zsh)               # in ~/.zshrc, after compinit\n"
				"  eval \"$(sluice completion bash)\"             # in ~/.bashrc\n",
	.words = sl_completion_shells,
	.word = take_shell,
	.run = run_completion,
};

static int run_version(const struct sl_verb *verb, int argc, char **argv) {
	int status = sl_cli_read(verb, argc, argv, NULL, NULL);
	if (status != SL_GO_ON)
		return status;
	puts("sluice " SLUICE_VERSION);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

const struct sl_verb sl_verb_version = {
	.name = "version",
	.usage = "version",
	.summary = "Prints the program's version",
	.examples = "  sluice version\n",
	.run = run_version,
};
