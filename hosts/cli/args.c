/* See args.h. One walk over argv, without getopt, which prints what it finds wrong and has no word for what is near. */
#include "hosts/cli/args.h"

#include "algo/reading.h"
#include "base/assert.h"
#include "base/out.h"
#include "policy/nearest.h"

#include <inttypes.h>
#include <stdio.h>

struct sl_args sl_args_begin(char **argv, int argc, const struct sl_option *options, int option_count) {
	return (struct sl_args){.argv = argv, .argc = argc, .options = options, .option_count = option_count};
}

static const char *name_at(const void *names, size_t index) {
	return ((const char *const *)names)[index];
}

const char *sl_args_nearest(const char *word, const char *const *names) {
	return sl_nearest(sl_str(word), name_at, names);
}

/* The names of a verb's options, and --help after them: a table for sl_nearest(). */
static const char *option_at(const void *table, size_t index) {
	const struct sl_args *args = table;
	const size_t count = (size_t)args->option_count;
	return index < count ? args->options[index].name : index == count ? "help" : NULL;
}

static int bad_unknown(struct sl_args *args, const char *word) {
	const char *nearest = NULL;
	if (word[1] == '-')
		nearest = sl_nearest(sl_slice(word + 2, strcspn(word + 2, "=")), option_at, args);
	if (nearest != NULL)
		snprintf(args->error, sizeof args->error, "no option '%.64s': did you mean --%s?", word, nearest);
	else
		snprintf(args->error, sizeof args->error, "no option '%.64s': --help lists them", word);
	return SL_ARG_BAD;
}

/* Gives the option at `found` its value: what stands after '=', after the letter, or in the next argument. */
static int take_value(struct sl_args *args, int found, const char *attached) {
	const struct sl_option *option = &args->options[found];
	args->value = attached;
	if (option->value == NULL && attached != NULL) {
		snprintf(args->error, sizeof args->error, "--%s takes no value", option->name);
		return SL_ARG_BAD;
	}
	if (option->value != NULL && attached == NULL) {
		if (args->at == args->argc) {
			snprintf(args->error, sizeof args->error, "--%s needs a value: --%s %s", option->name, option->name,
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

int sl_args_name(struct sl_args *args, const char *option, const char *word, const char *const *names) {
	const char *nearest = sl_args_nearest(word, names);
	struct sl_out out = sl_out_to(args->error, sizeof args->error - 1);
	for (int i = 0; names[i] != NULL; i++)
		if (strcmp(word, names[i]) == 0)
			return i;
	out.at += snprintf(out.at, 128, "--%s '%.32s': expected ", option, word);
	for (int i = 0; names[i] != NULL; i++) {
		sl_out_str(&out, i == 0 ? "" : names[i + 1] != NULL ? ", " : " or ");
		sl_out_str(&out, names[i]);
	}
	if (nearest != NULL) {
		sl_out_str(&out, "; did you mean ");
		sl_out_str(&out, nearest);
		sl_out_str(&out, "?");
	}
	*out.at = '\0';
	return -1;
}

/* Says what a value has to be instead. */
static bool bad_value(struct sl_args *args, const struct sl_option *option) {
	int len = snprintf(args->error, sizeof args->error, "--%s '%.64s': expected ", option->name, args->value);
	char *at = args->error + len;
	size_t room = sizeof args->error - (size_t)len;
	if (option->kind == SL_OPTION_NUMBER)
		snprintf(at, room, "a whole number, %" PRIu64 " to %" PRIu64, option->least, option->most);
	else if (option->kind == SL_OPTION_TEXT)
		snprintf(at, room, "%" PRIu64 " to %" PRIu64 " bytes, found %zu", option->least, option->most,
		         strlen(args->value));
	else
		snprintf(at, room, "%s", option->expects);
	return false;
}

bool sl_args_store(struct sl_args *args, int found, void *to) {
	const struct sl_option *option = &args->options[found];
	const char *value = args->value;
	void *field = (char *)to + option->to;
	uint64_t number = 0;
	bool fine = true;
	SL_ASSERT(option->kind != SL_OPTION_OWN);
	if (option->kind == SL_OPTION_FLAG) {
		*(bool *)field = true;
		return true;
	}
	if (option->kind == SL_OPTION_NAME) {
		int index = sl_args_name(args, option->name, value, option->names);
		*(uint32_t *)field = index >= 0 ? (uint32_t)index : 0;
		return index >= 0;
	}
	if (option->kind == SL_OPTION_TEXT)
		number = option->most != 0 ? strlen(value) : 0;
	else if (option->kind == SL_OPTION_TIME)
		fine = sl_args_duration(value, option->most, &number);
	else if (option->kind == SL_OPTION_SIZE)
		fine = sl_args_size(value, &number);
	else
		fine = sl_args_number(value, 0, UINT32_MAX, &number);
	if (!fine || number < option->least || number > option->most)
		return bad_value(args, option);
	if (option->kind == SL_OPTION_TEXT)
		*(const char **)field = value;
	else if (option->kind == SL_OPTION_NUMBER)
		*(uint32_t *)field = (uint32_t)number;
	else
		*(uint64_t *)field = number;
	return true;
}

bool sl_args_number(const char *text, uint64_t min, uint64_t max, uint64_t *value) {
	uint64_t number;
	if (!sl_bytes_to_u64(sl_str(text), &number) || number < min || number > max)
		return false;
	*value = number;
	return true;
}

bool sl_args_size(const char *text, uint64_t *bytes) {
	size_t digits = strspn(text, "0123456789");
	uint64_t number, unit = sl_size_unit(sl_str(text + digits));
	if (unit == 0 || !sl_bytes_to_u64(sl_slice(text, digits), &number) || number > UINT64_MAX / unit)
		return false;
	*bytes = number * unit;
	return true;
}

bool sl_args_duration(const char *text, sluice_ns max, sluice_ns *ns) {
	size_t digits = strspn(text, "0123456789");
	uint64_t number;
	if (!sl_bytes_to_u64(sl_slice(text, digits), &number))
		return false;
	if (number == 0 && text[digits] == '\0') {
		*ns = 0;
		return true;
	}
	sluice_ns unit = sl_unit_ms(sl_str(text + digits)) * SL_MS_NS;
	if (unit == 0 || number > max / unit)
		return false;
	*ns = number * unit;
	return true;
}
