/* Policy files and the problems that each must have; see policy_rows.h. */
#include "tests/unit/policy_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

void sl_policy_print(const struct sluice_problems *problems) {
	for (size_t i = 0; i < problems->count; i++)
		print_message("  %u:%u: %s%s\n", problems->list[i].line, problems->list[i].column,
		              problems->list[i].warning ? "warning: " : "", problems->list[i].text);
}

static size_t count_wanted(const struct wanted *wanted) {
	size_t count = 0;
	while (wanted[count].part != NULL)
		count++;
	return count;
}

/* What is said of nearly every policy of a line or two: left out unless the row is about it. */
static bool is_aside(const struct sluice_problem *problem, const struct wanted *wanted, size_t count) {
	static const char *const aside[] = {"HTTP doors have no attribute ", "there are no limits"};
	for (size_t i = 0; i < sizeof aside / sizeof *aside; i++) {
		bool asked = false;
		for (size_t j = 0; j < count; j++)
			asked = asked || strstr(wanted[j].part, aside[i]) != NULL;
		if (!asked && strncmp(problem->text, aside[i], strlen(aside[i])) == 0)
			return true;
	}
	return false;
}

/* Leaves those that a test is about: mistakes, or the warnings of a file that has none. */
static void keep_asked(struct sluice_problems *problems, bool warnings, const struct wanted *wanted, size_t count) {
	size_t kept = 0;
	for (size_t i = 0; i < problems->count; i++)
		if (problems->list[i].warning == warnings && !is_aside(&problems->list[i], wanted, count))
			problems->list[kept++] = problems->list[i];
		else if (!problems->list[i].warning)
			problems->list[kept++] = problems->list[i];
	problems->count = kept;
}

static void check_problems(struct sluice_problems *problems, bool warnings, const struct wanted *wanted,
                           size_t count) {
	keep_asked(problems, warnings, wanted, count);
	sl_policy_print(problems);
	assert_int_equal(problems->count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(problems->list[i].line, wanted[i].line);
		assert_int_equal(problems->list[i].column, wanted[i].column);
		assert_int_equal(problems->list[i].warning, warnings);
		if (strstr(problems->list[i].text, wanted[i].part) == NULL)
			fail_msg("'%s' does not say '%s'", problems->list[i].text, wanted[i].part);
	}
}

void sl_policy_refused(struct sluice_bytes yaml, const struct wanted *wanted, size_t count) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	print_message("%.*s\n", (int)(yaml.len < 400 ? yaml.len : 400), (const char *)yaml.data);
	assert_int_equal(sluice_policy_load(&policy, yaml, &problems), SLUICE_E_SYNTAX);
	assert_null(policy);
	check_problems(&problems, false, wanted, count);
	sluice_problems_free(&problems);
	assert_null(problems.list);
}

void sl_policy_rows_refused(const struct row *rows, size_t count) {
	for (size_t i = 0; i < count; i++)
		sl_policy_refused(sl_str(rows[i].yaml), rows[i].wanted, count_wanted(rows[i].wanted));
}

void sl_policy_rows_warned(const struct row *rows, size_t count) {
	for (size_t i = 0; i < count; i++) {
		struct sluice_policy *policy = NULL;
		struct sluice_problems problems;
		print_message("%s\n", rows[i].yaml);
		assert_int_equal(sluice_policy_load(&policy, sl_str(rows[i].yaml), &problems), SLUICE_OK);
		check_problems(&problems, true, rows[i].wanted, count_wanted(rows[i].wanted));
		sluice_problems_free(&problems);
		sluice_policy_free(policy);
	}
}

struct sluice_policy *sl_policy_loads(const char *yaml) {
	struct sluice_policy *policy = NULL;
	struct sluice_problems problems;
	sluice_err err = sluice_policy_load(&policy, sl_str(yaml), &problems);
	keep_asked(&problems, true, NULL, 0);
	sl_policy_print(&problems);
	assert_int_equal(err, SLUICE_OK);
	assert_int_equal(problems.count, 0);
	sluice_problems_free(&problems);
	return policy;
}

size_t sl_policy_split(const char *text, struct sluice_attribute *attributes) {
	size_t count = 0;
	while (*text != '\0') {
		size_t name = strcspn(text, "="), value = strcspn(text + name + 1, " ");
		attributes[count].name = sl_slice(text, name);
		attributes[count++].value = sl_slice(text + name + 1, value);
		text += name + 1 + value;
		text += *text == ' ';
	}
	return count;
}
