/* Tables of policy files and the problems that each must have: all of them, in order, each with line, column and a part
 * of its text. A problem too many fails as one too few does. */
#ifndef POLICY_ROWS_H
#define POLICY_ROWS_H

#include "policy/policy.h"

struct wanted {
	uint32_t line, column;
	const char *part; /* of the text; NULL ends the list */
};

struct row {
	const char *yaml;
	struct wanted wanted[10];
};

/* Prints problems as part of the test's own output. */
void sl_policy_print(const struct sluice_problems *problems);

/* Fails unless the file is refused with exactly these mistakes. */
void sl_policy_refused(struct sluice_bytes yaml, const struct wanted *wanted, size_t count);

/* Fails unless each file is refused with exactly its mistakes. */
void sl_policy_rows_refused(const struct row *rows, size_t count);
#define CHECK_ROWS(rows) sl_policy_rows_refused(rows, sizeof(rows) / sizeof *(rows))

/* Fails unless each file loads, with exactly its warnings. */
void sl_policy_rows_warned(const struct row *rows, size_t count);
#define CHECK_WARNINGS(rows) sl_policy_rows_warned(rows, sizeof(rows) / sizeof *(rows))

/* Attributes from "name=value name=value", values without spaces, which point into the text; how many. */
size_t sl_policy_split(const char *text, struct sluice_attribute *attributes);

/* Loads a file that has no problems at all; free it with sluice_policy_free(). */
struct sluice_policy *sl_policy_loads(const char *yaml);

#endif
