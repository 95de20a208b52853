#include "hosts/cli/args.h"

#include <stdio.h>

enum { WORD_MAX = 32 };

struct sl_args sl_args_begin(char **argv, int argc, const struct sl_option *options, int option_count) {
	return (struct sl_args){.argv = argv, .argc = argc, .options = options, .option_count = option_count};
}

static int smaller(int a, int b) {
	return a < b ? a : b;
}

/* Edits that turn a into b: one letter changed, added, left out, or two neighbours swapped (optimal string alignment,
 * with the last three rows of its table). */
static int distance(const char *a, int a_len, const char *b, int b_len) {
	int rows[3][WORD_MAX + 1];
	for (int j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (int i = 1; i <= a_len; i++) {
		int *row = rows[i % 3];
		const int *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
		row[0] = i;
		for (int j = 1; j <= b_len; j++) {
			row[j] = smaller(smaller(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = smaller(row[j], above2[j - 2] + 1);
		}
	}
	return rows[a_len % 3][b_len];
}

const char *sl_args_nearest(const char *word, const char *const *names, int count) {
	const char *nearest = NULL;
	int len = (int)strnlen(word, WORD_MAX + 1), best = WORD_MAX;
	if (len == 0 || len > WORD_MAX)
		return NULL;
	for (int i = 0; i < count; i++) {
		int name_len = (int)strnlen(names[i], WORD_MAX + 1);
		if (name_len > WORD_MAX)
			continue;
		int edits = distance(word, len, names[i], name_len);
		if (edits < best && edits * 3 <= (name_len > len ? name_len : len) + 1) {
			best = edits;
			nearest = names[i];
		}
	}
	return nearest;
}

static int bad_unknown(struct sl_args *args, const char *word) {
	const char *names[32];
	int count = 0;
	char name[WORD_MAX + 2];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (int i = 0; i < args->option_count && count < 31; i++)
		names[count++] = args->options[i].name;
	names[count++] = "help";
	const char *nearest = word[1] == '-' ? sl_args_nearest(name, names, count) : NULL;
	if (nearest != NULL)
		snprintf(args->error, sizeof args->error, "no option '%.64s': did you mean --%s?", word, nearest);
	else
		snprintf(args->error, sizeof args->error, "no option '%.64s': --help lists those there are", word);
	return SL_ARG_BAD;
}

/* Gives the option at `found` its value: what stands behind '=', behind the letter, or in the next argument. */
static int take_value(struct sl_args *args, int found, const char *attached) {
	const struct sl_option *option = &args->options[found];
	args->value = attached;
	if (option->value == NULL && attached != NULL) {
		snprintf(args->error, sizeof args->error, "--%s takes no value", option->name);
		return SL_ARG_BAD;
	}
	if (option->value != NULL && attached == NULL) {
		if (args->at == args->argc) {
			snprintf(args->error, sizeof args->error, "--%s wants a value: --%s %s", option->name, option->name,
			         option->value);
			return SL_ARG_BAD;
		}
		args->value = args->argv[args->at++];
	}
	return found;
}

static int long_option(struct sl_args *args, const char *word) {
	size_t len = strcspn(word + 2, "=");
	const char *attached = word[2 + len] == '=' ? word + 2 + len + 1 : NULL;
	if (strcmp(word, "--help") == 0)
		return SL_ARG_HELP;
	for (int i = 0; i < args->option_count; i++) {
		const char *name = args->options[i].name;
		if (strlen(name) == len && memcmp(name, word + 2, len) == 0)
			return take_value(args, i, attached);
	}
	return bad_unknown(args, word);
}

static int short_option(struct sl_args *args, const char *word) {
	if (strcmp(word, "-h") == 0)
		return SL_ARG_HELP;
	for (int i = 0; i < args->option_count; i++) {
		if (args->options[i].letter == word[1] && (word[2] == '\0' || args->options[i].value != NULL))
			return take_value(args, i, word[2] == '\0' ? NULL : word + 2);
	}
	return bad_unknown(args, word);
}

int sl_args_next(struct sl_args *args) {
	if (args->at == args->argc)
		return SL_ARG_END;
	const char *word = args->argv[args->at++];
	if (!args->words_only && strcmp(word, "--") == 0) {
		args->words_only = true;
		return sl_args_next(args);
	}
	if (args->words_only || word[0] != '-' || word[1] == '\0') {
		args->value = word;
		return SL_ARG_WORD;
	}
	return word[1] == '-' ? long_option(args, word) : short_option(args, word);
}

bool sl_args_number(const char *text, uint64_t min, uint64_t max, uint64_t *value) {
	uint64_t number;
	if (!sl_bytes_to_u64(sl_str(text), &number) || number < min || number > max)
		return false;
	*value = number;
	return true;
}

bool sl_args_size(const char *text, uint64_t *bytes) {
	static const char *const units[] = {"", "KiB", "MiB", "GiB"};
	size_t digits = strspn(text, "0123456789");
	uint64_t number;
	if (!sl_bytes_to_u64(sl_slice(text, digits), &number))
		return false;
	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(text + digits, units[i]) == 0) {
			*bytes = number << (10 * i);
			return *bytes >> (10 * i) == number;
		}
	}
	return false;
}

bool sl_args_duration(const char *text, sluice_ns max, sluice_ns *ns) {
	static const struct {
		const char *name;
		sluice_ns ns;
	} units[] = {
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", (sluice_ns)60 * 1000000000},
		{"h", (sluice_ns)3600 * 1000000000},
		{"d", (sluice_ns)86400 * 1000000000},
	};
	size_t digits = strspn(text, "0123456789");
	uint64_t number;
	if (!sl_bytes_to_u64(sl_slice(text, digits), &number))
		return false;
	if (number == 0 && text[digits] == '\0') {
		*ns = 0;
		return true;
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(text + digits, units[i].name) == 0 && number <= max / units[i].ns) {
			*ns = number * units[i].ns;
			return true;
		}
	return false;
}
