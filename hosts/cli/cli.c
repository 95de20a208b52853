/* What the verbs share: their help, saying what failed, reading a file, printing a wait. No verb is named here. */
#include "hosts/cli/cli.h"

#include "base/text.h"
#include "hosts/files/quota_files.h"
#include "os/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void sl_cli_show(FILE *to, const char *text) {
	char memory[SL_TEXT_ROOM(SL_CLI_SHOWN_MAX)];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_shown(&out, sl_str(text), SL_CLI_SHOWN_MAX);
	fwrite(memory, 1, sl_out_len(&out), to);
}

static void complain(const struct sl_verb *verb, const char *format, va_list values) {
	char text[SL_CLI_SHOWN_MAX + 1];
	vsnprintf(text, sizeof text, format, values);
	fprintf(stderr, "sluice %s: ", verb->name);
	sl_cli_show(stderr, text);
	fputc('\n', stderr);
}

int sl_cli_fail(const struct sl_verb *verb, const char *format, ...) {
	va_list values;
	va_start(values, format);
	complain(verb, format, values);
	va_end(values);
	return SL_EXIT_FAILED;
}

int sl_cli_misuse(const struct sl_verb *verb, const char *format, ...) {
	va_list values;
	va_start(values, format);
	complain(verb, format, values);
	va_end(values);
	fprintf(stderr, "usage: sluice %s\nsluice %s --help says more\n", verb->usage, verb->name);
	return SL_EXIT_FAILED;
}

/* One option: its forms in a column, its help (line by line) in the next. */
static void print_option(const struct sl_option *option) {
	char forms[48], letter[8] = "    ";
	if (option->letter != 0)
		snprintf(letter, sizeof letter, "-%c, ", option->letter);
	snprintf(forms, sizeof forms, "%s--%s%s%s", letter, option->name, option->value != NULL ? " " : "",
	         option->value != NULL ? option->value : "");
	for (const char *line = option->help; *line != '\0';) {
		int len = (int)strcspn(line, "\n");
		printf("  %-24s %.*s\n", line == option->help ? forms : "", len, line);
		line += len + (line[len] == '\n');
	}
}

int sl_cli_help(const struct sl_verb *verb) {
	printf("usage: sluice %s\n\n%s.\n", verb->usage, verb->summary);
	if (verb->text != NULL)
		printf("\n%s", verb->text);
	puts("\noptions:");
	for (int i = 0; i < verb->option_count; i++)
		print_option(&verb->options[i]);
	print_option(&(struct sl_option){"help", 'h', NULL, "this text", SL_OWN});
	printf("\nexamples:\n%s", verb->examples);
	return sl_cli_end(verb, SL_EXIT_FINE);
}

static int take_word(const struct sl_verb *verb, void *to, const char *word) {
	if (verb->word != NULL)
		return verb->word(verb, to, word);
	return sl_cli_misuse(verb, "'%.64s'%s", word, verb->no_word != NULL ? verb->no_word : " is one word too many");
}

int sl_cli_read(const struct sl_verb *verb, int argc, char **argv, void *to, uint32_t *given) {
	struct sl_args args = sl_args_begin(argv, argc, verb->options, verb->option_count);
	uint32_t met = 0;
	for (int arg; (arg = sl_args_next(&args)) != SL_ARG_END;) {
		int status = SL_GO_ON;
		if (arg == SL_ARG_HELP)
			status = sl_cli_help(verb);
		else if (arg == SL_ARG_WORD)
			status = take_word(verb, to, args.value);
		else if (arg >= 0 && verb->options[arg].kind == SL_OPTION_OWN)
			status = verb->take(verb, to, arg, args.value);
		else if (arg == SL_ARG_BAD || !sl_args_store(&args, arg, to))
			status = sl_cli_misuse(verb, "%s", args.error);
		if (status != SL_GO_ON)
			return status;
		met |= arg >= 0 ? 1u << arg : 0;
	}
	if (given != NULL)
		*given = met;
	return SL_GO_ON;
}

int sl_cli_end(const struct sl_verb *verb, int status) {
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return sl_cli_fail(verb, "standard output: %s", strerror(errno));
}

char *sl_cli_read_policy(const char *path, size_t *len, struct sluice_error *error) {
	if (strcmp(path, "-") == 0)
		return sl_file_read_rest(STDIN_FILENO, SL_POLICY_FILE_BYTES_MAX, len, error);
	return sl_file_read_text(path, true, SL_POLICY_FILE_BYTES_MAX, len, error);
}

size_t sl_cli_print_problems(FILE *to, const char *file, const struct sluice_problems *problems, bool warnings) {
	size_t count = 0;
	for (size_t i = 0; i < problems->count; i++) {
		const struct sluice_problem *problem = &problems->list[i];
		if (problem->warning && !warnings)
			continue;
		count++;
		fprintf(to, "%s:%u:%u: %s: ", file, problem->line, problem->column, problem->warning ? "warning" : "error");
		sl_cli_show(to, problem->text);
		fputc('\n', to);
	}
	return count;
}

static bool read_quotas(struct sluice_policy *policy, const char *path) {
	struct sluice_problem problem;
	const char *file;
	if (sl_quota_files_read(policy, path, &file, &problem))
		return true;
	sl_cli_print_problems(stderr, file, &(struct sluice_problems){.list = &problem, .count = 1}, true);
	return false;
}

int sl_cli_load_policy(const struct sl_verb *verb, const char *path, bool warnings, struct sluice_policy **policy) {
	struct sluice_problems problems = {0};
	struct sluice_error error;
	size_t len;
	char *yaml = sl_cli_read_policy(path, &len, &error);
	*policy = NULL;
	if (yaml == NULL)
		return sl_cli_fail(verb, "%s: %s", path, error.text);
	sluice_err err = sluice_policy_load(policy, sl_slice(yaml, len), &problems);
	if (err == SLUICE_E_MEMORY)
		sl_cli_fail(verb, "%s: no memory to read it", path);
	else if (err != SLUICE_OK)
		sl_cli_print_problems(stderr, path, &problems, warnings);
	bool good = err == SLUICE_OK && read_quotas(*policy, path);
	sluice_problems_free(&problems);
	free(yaml);
	return good ? SL_GO_ON : SL_EXIT_FAILED;
}

const char *sl_cli_wait(char text[SL_WAIT_TEXT_MAX], int64_t ms) {
	static const struct {
		const char *big, *small;
		int64_t big_s, small_s;
	} units[] = {{"m", "s", 60, 1}, {"h", "m", 3600, 60}, {"d", "h", 86400, 3600}};
	int64_t s = ms / 1000 + (ms % 1000 != 0);
	if (ms < 0) {
		snprintf(text, SL_WAIT_TEXT_MAX, "never");
	} else if (ms < 1000) {
		snprintf(text, SL_WAIT_TEXT_MAX, "%" PRId64 " ms", ms);
	} else if (ms < 60000) {
		int digits = ms % 1000 == 0 ? 0 : ms % 100 == 0 ? 1 : ms % 10 == 0 ? 2 : 3;
		int64_t fraction = digits == 1 ? ms % 1000 / 100 : digits == 2 ? ms % 1000 / 10 : ms % 1000;
		if (digits == 0)
			snprintf(text, SL_WAIT_TEXT_MAX, "%" PRId64 " s", ms / 1000);
		else
			snprintf(text, SL_WAIT_TEXT_MAX, "%" PRId64 ".%0*" PRId64 " s", ms / 1000, digits, fraction);
	} else {
		int unit = s < 3600 ? 0 : s <= 86400 - 60 ? 1 : 2; /* 23 h 59 m and a second is rounded up to a day */
		int64_t parts = (s + units[unit].small_s - 1) / units[unit].small_s;
		int64_t ratio = units[unit].big_s / units[unit].small_s, rest = parts % ratio;
		int used = snprintf(text, SL_WAIT_TEXT_MAX, "%" PRId64 " %s", parts / ratio, units[unit].big);
		if (rest != 0)
			snprintf(text + used, SL_WAIT_TEXT_MAX - (size_t)used, " %" PRId64 " %s", rest, units[unit].small);
	}
	return text;
}
