/* A list that is sorted as it grows: readers visit a file nearly in order, so that an insertion seldom moves more than
 * one or two. The cap keeps a hostile file from turning into a gigabyte of advice.
 */
#include "policy/report.h"

#include "base/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool place_is_after(const struct sluice_problem *problem, struct sl_position place) {
	return problem->line != place.line ? problem->line > place.line : problem->column > place.column;
}

static bool report_grow(struct sl_report *report) {
	if (report->count < report->capacity)
		return true;
	size_t capacity = report->capacity == 0 ? 16 : report->capacity * 2;
	struct sluice_problem *list = realloc(report->list, capacity * sizeof *list);
	if (list == NULL) {
		report->failed = true;
		return false;
	}
	report->list = list;
	report->capacity = capacity;
	return true;
}

/* Opens a gap for a problem at its place; NULL without memory. */
static struct sluice_problem *report_insert(struct sl_report *report, struct sl_position place, bool warning) {
	if (!report_grow(report))
		return NULL;
	size_t at = report->count;
	while (at > 0 && place_is_after(&report->list[at - 1], place))
		at--;
	memmove(report->list + at + 1, report->list + at, (report->count - at) * sizeof *report->list);
	report->count++;
	report->list[at] = (struct sluice_problem){.line = place.line, .column = place.column, .warning = warning};
	return &report->list[at];
}

bool sl_report_is_full(const struct sl_report *report) {
	return report->listed[false] >= SL_REPORT_ERRORS_MAX;
}

static void report_add(struct sl_report *report, struct sl_position place, bool warning, const char *format,
                       va_list arguments) {
	size_t max = warning ? SL_REPORT_WARNINGS_MAX : SL_REPORT_ERRORS_MAX;
	if (report->listed[warning] > max)
		return;
	bool last = report->listed[warning] == max;
	if (last) /* after what is listed, not where the first unlisted one happens to be */
		place = (struct sl_position){report->list[report->count - 1].line, report->list[report->count - 1].column};
	struct sluice_problem *problem = report_insert(report, place, warning);
	if (problem == NULL)
		return;
	report->listed[warning]++;
	if (last)
		snprintf(problem->text, sizeof problem->text, "there are more than %zu %s; the rest is not listed", max,
		         warning ? "warnings" : "mistakes");
	else
		vsnprintf(problem->text, sizeof problem->text, format, arguments);
}

void sl_report_error(struct sl_report *report, struct sl_position place, const char *format, ...) {
	va_list arguments;
	report->error_count++;
	va_start(arguments, format);
	report_add(report, place, false, format, arguments);
	va_end(arguments);
}

void sl_report_found(struct sl_report *report, struct sl_position place, struct sluice_bytes found, const char *format,
                     ...) {
	char expected[sizeof report->list->text];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(expected, sizeof expected, format, arguments);
	va_end(arguments);
	sl_report_error(report, place, "%s, found %s", expected, sl_quote(found).text);
}

void sl_report_warning(struct sl_report *report, struct sl_position place, const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	report_add(report, place, true, format, arguments);
	va_end(arguments);
}

void sl_report_move(struct sl_report *report, struct sluice_problems *problems) {
	*problems = (struct sluice_problems){report->list, report->count};
	*report = (struct sl_report){0};
}

void sl_report_free(struct sl_report *report) {
	free(report->list);
	*report = (struct sl_report){0};
}

void sluice_problems_free(struct sluice_problems *problems) {
	if (problems == NULL)
		return;
	free(problems->list);
	*problems = (struct sluice_problems){0};
}

struct sl_quoted sl_quote(struct sluice_bytes text) {
	struct sl_quoted quoted;
	struct sl_out out = sl_out_to(quoted.text, sizeof quoted.text - 1);
	sl_out_quoted(&out, text, 40);
	*out.at = '\0';
	return quoted;
}
