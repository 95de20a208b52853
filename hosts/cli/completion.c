/* What shells complete after `sluice`, written from the tables of the verbs, so that it can't lag behind them.
 *
 * Each shell gets a script that knows all it needs: nothing is run while somebody types. A script has three parts, each
 * shell in its own words: the verbs; of a verb its options, and whether it takes files or one of a few words; of an
 * option what its value may be. Values that are free (a key, a number) complete to nothing. */
#include "hosts/cli/completion.h"

#include "base/assert.h"

#include <stdio.h>

const char *const sl_completion_shells[] = {"bash", "zsh", "fish", NULL};

/* What every verb has without naming it. */
static const struct sl_option help_option = {"help", 'h', NULL, "this text", SL_OWN};

/* Whether an option's value is the path of a file or of a folder. */
static bool is_path(const struct sl_option *option) {
	static const char *const paths[] = {"FILE", "DIR", "OUT", "STORE"};
	for (size_t i = 0; option->value != NULL && i < sizeof paths / sizeof *paths; i++) {
		if (strcmp(option->value, paths[i]) == 0)
			return true;
	}
	return false;
}

/* The names that an option's value is one of; NULL where it is something else. */
static const char *const *value_names(const struct sl_option *option) {
	return option->kind == SL_OPTION_NAME ? option->names : NULL;
}

static void print_names(const char *const *names) {
	for (int i = 0; names[i] != NULL; i++)
		printf("%s%s", i == 0 ? "" : " ", names[i]);
}

static void print_verbs(const struct sl_verb *const *verbs) {
	for (int i = 0; verbs[i] != NULL; i++)
		printf("%s%s", i == 0 ? "" : " ", verbs[i]->name);
}

/* The words that may follow a verb: those of its table, or all verbs. */
static void print_words(const struct sl_verb *verb, const struct sl_verb *const *verbs) {
	if (verb->follows == SL_FOLLOWS_VERB)
		print_verbs(verbs);
	else if (verb->words != NULL)
		print_names(verb->words);
}

/* The first line of a help, as it stands within single quotes: each character of `escaped` after a backslash, a
 * quote as `quote` has it. */
static void print_quoted(const char *help, const char *escaped, const char *quote) {
	for (; *help != '\0' && *help != '\n'; help++) {
		if (*help == '\'')
			fputs(quote, stdout);
		else
			printf("%s%c", strchr(escaped, *help) != NULL ? "\\" : "", *help);
	}
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

/* The patterns of `verb:option` that one option is met by. */
static void bash_pattern(const struct sl_verb *verb, const struct sl_option *option) {
	printf("\t(%s:--%s", verb->name, option->name);
	if (option->letter != 0)
		printf("|%s:-%c", verb->name, option->letter);
	fputs(") ", stdout);
}

static void bash_values(const struct sl_verb *verb) {
	for (int i = 0; i < verb->option_count; i++) {
		const struct sl_option *option = &verb->options[i];
		if (option->value == NULL)
			continue;
		bash_pattern(verb, option);
		if (value_names(option) != NULL) {
			fputs("words='", stdout);
			print_names(value_names(option));
			fputs("' ;;\n", stdout);
		} else {
			puts(is_path(option) ? "compopt -o default; return ;;" : "return ;;");
		}
	}
}

static void bash_verb(const struct sl_verb *verb, const struct sl_verb *const *verbs) {
	printf("\t\t(%s) options='", verb->name);
	for (int i = 0; i < verb->option_count; i++)
		printf("--%s ", verb->options[i].name);
	fputs("--help'", stdout);
	if (verb->follows == SL_FOLLOWS_FILE)
		fputs(" files=1", stdout);
	if (verb->follows == SL_FOLLOWS_VERB || verb->words != NULL) {
		fputs(" words='", stdout);
		print_words(verb, verbs);
		fputs("'", stdout);
	}
	puts(" ;;");
}

static void print_bash(const struct sl_verb *const *verbs) {
	puts("# sluice for bash: eval \"$(sluice completion bash)\"\n"
	     "_sluice() {\n"
	     "\tlocal word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} options= words= files=\n"
	     "\tCOMPREPLY=()\n"
	     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then");
	fputs("\t\twords='", stdout);
	print_verbs(verbs);
	puts("'\n"
	     "\telse\n"
	     "\t\tcase $verb in");
	for (int i = 0; verbs[i] != NULL; i++)
		bash_verb(verbs[i], verbs);
	puts("\t\tesac\n"
	     "\tfi\n"
	     "\tcase $verb:${COMP_WORDS[COMP_CWORD-1]} in");
	for (int i = 0; verbs[i] != NULL; i++)
		bash_values(verbs[i]);
	puts("\tesac\n"
	     "\tcase $word in\n"
	     "\t(-*) words=$options files= ;;\n"
	     "\tesac\n"
	     "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	     "\tif [ -n \"$files\" ] && [ \"${#COMPREPLY[@]}\" -eq 0 ]; then compopt -o default; fi\n"
	     "}\n"
	     "complete -F _sluice sluice");
}

/* ---- zsh -------------------------------------------------------------------------------------------------------- */

static void zsh_option(const struct sl_option *option) {
	const char *is_given = option->value != NULL ? "=" : ""; /* --cost 5 and --cost=5 */
	if (option->letter != 0)
		printf("'(-%c --%s)'{-%c,--%s%s}'[", option->letter, option->name, option->letter, option->name, is_given);
	else
		printf("'--%s%s[", option->name, is_given);
	print_quoted(option->help, "[]\\", "'\\''");
	fputs("]", stdout);
	if (option->value != NULL) {
		printf(":%s:", option->value);
		if (value_names(option) != NULL) {
			fputs("(", stdout);
			print_names(value_names(option));
			fputs(")", stdout);
		} else if (is_path(option)) {
			fputs("_files", stdout);
		}
	}
	fputs("' \\\n\t\t\t", stdout);
}

static void zsh_verb(const struct sl_verb *verb, const struct sl_verb *const *verbs) {
	printf("\t\t(%s) _arguments \\\n\t\t\t", verb->name);
	for (int i = 0; i < verb->option_count; i++)
		zsh_option(&verb->options[i]);
	zsh_option(&help_option);
	if (verb->follows == SL_FOLLOWS_VERB || verb->words != NULL) {
		fputs("'1: :(", stdout);
		print_words(verb, verbs);
		fputs(")' \\\n\t\t\t", stdout);
	}
	/* Where no words follow, "( )": with an empty action zsh only lists an option that it should write out. */
	printf("'*: :%s' ;;\n", verb->follows == SL_FOLLOWS_FILE ? "_files" : "( )");
}

static void print_zsh(const struct sl_verb *const *verbs) {
	puts("#compdef sluice\n"
	     "# sluice for zsh: a file _sluice of a folder in $fpath, or source <(sluice completion zsh)\n"
	     "_sluice() {\n"
	     "\tlocal -a verbs\n"
	     "\tif (( CURRENT == 2 )); then\n"
	     "\t\tverbs=(");
	for (int i = 0; verbs[i] != NULL; i++) {
		printf("\t\t\t'%s:", verbs[i]->name);
		print_quoted(verbs[i]->summary, "\\", "'\\''");
		puts("'");
	}
	puts("\t\t)\n"
	     "\t\t_describe verb verbs\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tlocal verb=$words[2]\n"
	     "\tshift words\n"
	     "\t(( CURRENT-- ))\n"
	     "\tcase $verb in");
	for (int i = 0; verbs[i] != NULL; i++)
		zsh_verb(verbs[i], verbs);
	puts("\tesac\n"
	     "}\n"
	     "if [ \"$funcstack[1]\" = _sluice ]; then _sluice \"$@\"; else compdef _sluice sluice; fi");
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static void fish_option(const struct sl_verb *verb, const struct sl_option *option) {
	printf("complete -c sluice -n '__fish_seen_subcommand_from %s' -l %s", verb->name, option->name);
	if (option->letter != 0)
		printf(" -s %c", option->letter);
	if (option->value != NULL)
		fputs(is_path(option) ? " -r -F" : " -x", stdout);
	if (value_names(option) != NULL) {
		fputs(" -a '", stdout);
		print_names(value_names(option));
		fputs("'", stdout);
	}
	fputs(" -d '", stdout);
	print_quoted(option->help, "\\", "\\'");
	puts("'");
}

static void fish_verb(const struct sl_verb *verb, const struct sl_verb *const *verbs) {
	printf("complete -c sluice -n __fish_use_subcommand -a %s -d '", verb->name);
	print_quoted(verb->summary, "\\", "\\'");
	puts("'");
	for (int i = 0; i < verb->option_count; i++)
		fish_option(verb, &verb->options[i]);
	fish_option(verb, &help_option);
	if (verb->follows == SL_FOLLOWS_FILE)
		printf("complete -c sluice -n '__fish_seen_subcommand_from %s' -F\n", verb->name);
	if (verb->follows == SL_FOLLOWS_VERB || verb->words != NULL) {
		printf("complete -c sluice -n '__fish_seen_subcommand_from %s; and test (count (commandline -opc)) -eq 2'",
		       verb->name);
		fputs(" -a '", stdout);
		print_words(verb, verbs);
		puts("'");
	}
}

static void print_fish(const struct sl_verb *const *verbs) {
	puts("# sluice for fish: sluice completion fish | source\n"
	     "complete -c sluice -f");
	for (int i = 0; verbs[i] != NULL; i++)
		fish_verb(verbs[i], verbs);
}

void sl_completion_print(uint32_t shell, const struct sl_verb *const *verbs) {
	static void (*const prints[])(const struct sl_verb *const *) = {print_bash, print_zsh, print_fish};
	SL_ASSERT(shell < sizeof prints / sizeof *prints);
	prints[shell](verbs);
}
