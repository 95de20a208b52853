/* What is wrong with a policy file, gathered while it is read: all of it, in the order of the file. */
#ifndef SL_REPORT_H
#define SL_REPORT_H

#include "base/bytes.h"

enum {
	SL_REPORT_ERRORS_MAX = 1000, /* listed of one file; one more says that there are others */
	SL_REPORT_WARNINGS_MAX = 200,
};

/* A place in the file; both count from 1, columns in characters. */
struct sl_position {
	uint32_t line, column;
};

struct sl_report {
	struct sluice_problem *list; /* sorted by place; malloc */
	size_t count, capacity;
	size_t listed[2];   /* errors and warnings in the list, with the note that there are more */
	size_t error_count; /* how many there were, listed or not */
	bool failed;        /* the system gave no memory for the list */
};

/* Adds a mistake, which refuses the file. The text follows printf; it is cut to the problem's size. Keeps the list
 * sorted; equal places keep their order. Beyond SL_REPORT_ERRORS_MAX it only counts. */
void sl_report_error(struct sl_report *report, struct sl_position place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same, with ", found 'TEXT'" after it. */
void sl_report_found(struct sl_report *report, struct sl_position place, struct sluice_bytes found, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));

/* Adds a doubt: the file loads all the same. */
void sl_report_warning(struct sl_report *report, struct sl_position place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Is the list full of errors? Costly advice (the nearest known key) is pointless then. */
bool sl_report_is_full(const struct sl_report *report);

/* Gives the list to the caller, who frees it with sluice_problems_free(); the report is empty afterwards. */
void sl_report_move(struct sl_report *report, struct sluice_problems *problems);

/* Frees the list and empties the report. */
void sl_report_free(struct sl_report *report);

/* Text from a file inside a message: quoted, printable, at most 40 bytes of it. Use as sl_quote(text).text. */
struct sl_quoted {
	char text[176];
};
struct sl_quoted sl_quote(struct sluice_bytes text);

#endif
