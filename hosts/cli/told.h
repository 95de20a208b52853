/* What is told of limits by SLUICE.INSPECT and WHY, wherever they were asked: an array a limit, of names and values.
 * Read without knowing all names, so that what a server or a module tells besides is told on. */
#ifndef SL_CLI_TOLD_H
#define SL_CLI_TOLD_H

#include "hosts/cli/client.h"
#include "policy/explain.h"

enum {
	SL_TOLD_NUMBERS_MAX = 32,
	SL_TOLD_LISTS_MAX = 4,
	SL_TOLD_ROWS_MAX = 32,
	SL_TOLD_COLUMNS_MAX = 3,
	SL_TOLD_NAME_MAX = 31,
	SL_TOLD_WORD_MAX = 15,
};

struct sl_told_text {
	size_t len;
	char data[SLUICE_KEY_BYTES_MAX + SL_WHY_BYTES_MAX];
};

struct sl_told_list {
	char name[SL_TOLD_NAME_MAX + 1];
	uint32_t count, columns; /* rows beyond SL_TOLD_ROWS_MAX are left out */
	int64_t rows[SL_TOLD_ROWS_MAX][SL_TOLD_COLUMNS_MAX];
};

/* One limit. */
struct sl_told {
	struct sl_told_text limit, key, name, why, own; /* len 0: not said */
	char bound[SL_TOLD_WORD_MAX + 1];               /* which bound of ours decides; "": not said */
	char error[SL_TOLD_WORD_MAX + 1];               /* the standard error of its count, in digits; "": not said */
	uint32_t number_count, list_count;
	struct {
		char name[SL_TOLD_NAME_MAX + 1];
		int64_t value;
	} numbers[SL_TOLD_NUMBERS_MAX];
	struct sl_told_list lists[SL_TOLD_LISTS_MAX];
};

/* Reads one limit's array. False with `error` filled. */
bool sl_told_read(struct sl_client *client, struct sl_told *told, struct sluice_error *error);

/* A number by its name; `other` where it is not said. */
int64_t sl_told_number(const struct sl_told *told, const char *name, int64_t other);

/* Prints a text of it as people may see it, or as a string of JSON. */
void sl_told_put_text(const struct sl_told_text *text);
void sl_told_put_json(const struct sl_told_text *text);

/* Prints it for people, with what its counter holds; without; or as an object of JSON. */
void sl_told_print(const struct sl_told *told);
void sl_told_print_rule(const struct sl_told *told);
void sl_told_print_json(const struct sl_told *told);

#endif
