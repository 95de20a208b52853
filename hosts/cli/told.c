/* See told.h. */
#include "hosts/cli/told.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/text.h"
#include "hosts/cli/request.h"
#include "os/clock.h"
#include "proto/json.h"
#include "proto/own_quota.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool fail(struct sluice_error *error) {
	snprintf(error->text, sizeof error->text, "the server's answer is not what is told of a limit");
	return false;
}

static struct sl_told_text *text_of(struct sl_told *told, const char *name) {
	return strcmp(name, "limit") == 0        ? &told->limit
	       : strcmp(name, "key") == 0        ? &told->key
	       : strcmp(name, "name") == 0       ? &told->name
	       : strcmp(name, "why") == 0        ? &told->why
	       : strcmp(name, SL_OWN_QUOTA) == 0 ? &told->own
	                                         : NULL;
}

/* One word, which is shown as it is: one that would look otherwise is not said. */
static bool take_word(struct sl_told *told, const char *name, struct sluice_bytes text) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz", digits[] = "0123456789.";
	bool bound = strcmp(name, "bound") == 0;
	char *word = bound ? told->bound : told->error;
	if (!bound && strcmp(name, "error") != 0)
		return false;
	size_t len = text.len <= SL_TOLD_WORD_MAX ? text.len : 0;
	memcpy(word, text.data, len);
	word[len] = '\0';
	if (strspn(word, bound ? letters : digits) != len || (!bound && strncmp(word, "0.", 2) != 0))
		word[0] = '\0';
	return true;
}

static bool read_row(struct sl_client *client, struct sl_told_list *list, struct sluice_error *error) {
	int64_t columns, value;
	if (!sl_client_integer(client, '*', &columns, error))
		return false;
	if (columns < 1 || columns > SL_TOLD_COLUMNS_MAX)
		return fail(error);
	for (int64_t i = 0; i < columns; i++) {
		if (!sl_client_integer(client, ':', &value, error))
			return false;
		if (list->count < SL_TOLD_ROWS_MAX)
			list->rows[list->count][i] = value;
	}
	list->columns = (uint32_t)columns;
	list->count += list->count < SL_TOLD_ROWS_MAX;
	return true;
}

static bool read_value(struct sl_client *client, struct sl_told *told, const char *name, struct sluice_error *error) {
	struct sl_told_text *text = text_of(told, name);
	struct sl_told_text other;
	struct sl_reply_token token;
	if (!sl_client_token(client, &token, error))
		return false;
	if (token.kind == SL_REPLY_INTEGER && told->number_count < SL_TOLD_NUMBERS_MAX) {
		memcpy(told->numbers[told->number_count].name, name, strlen(name) + 1);
		told->numbers[told->number_count++].value = token.value;
	} else if (token.kind == SL_REPLY_TEXT && take_word(told, name, token.text)) {
		return true;
	} else if (token.kind == SL_REPLY_TEXT) {
		text = text != NULL ? text : &other;
		text->len = token.text.len < sizeof text->data ? token.text.len : sizeof text->data;
		memcpy(text->data, token.text.data, text->len);
	} else if (token.kind == SL_REPLY_ARRAY && told->list_count < SL_TOLD_LISTS_MAX) {
		struct sl_told_list *list = &told->lists[told->list_count++];
		memcpy(list->name, name, strlen(name) + 1);
		list->count = list->columns = 0;
		for (int64_t i = 0; i < token.value; i++)
			if (!read_row(client, list, error))
				return false;
	} else if (token.kind != SL_REPLY_NIL) {
		return fail(error);
	}
	return true;
}

bool sl_told_read(struct sl_client *client, struct sl_told *told, struct sluice_error *error) {
	int64_t count;
	*told = (struct sl_told){.number_count = 0};
	if (!sl_client_integer(client, '*', &count, error))
		return false;
	if (count < 2 || count % 2 != 0)
		return fail(error);
	for (int64_t i = 0; i < count; i += 2) {
		char name[SL_TOLD_NAME_MAX + 1];
		size_t len;
		if (!sl_client_string(client, name, sizeof name - 1, &len, error))
			return false;
		name[len] = '\0';
		if (!read_value(client, told, name, error))
			return false;
	}
	return true;
}

int64_t sl_told_number(const struct sl_told *told, const char *name, int64_t other) {
	for (uint32_t i = 0; i < told->number_count; i++)
		if (strcmp(told->numbers[i].name, name) == 0)
			return told->numbers[i].value;
	return other;
}

/* ---- for people ------------------------------------------------------------------------------------------------ */

void sl_told_put_text(const struct sl_told_text *text) {
	char memory[SL_TEXT_ROOM(sizeof text->data)];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_out_shown(&out, sl_slice(text->data, text->len), sizeof text->data);
	fwrite(memory, 1, sl_out_len(&out), stdout);
}

/* "12 s ago", of an instant in Unix ms. */
static const char *ago(char text[SL_WAIT_TEXT_MAX + 8], int64_t ms) {
	int64_t now = (int64_t)(sl_clock_wall() / 1000000);
	char wait[SL_WAIT_TEXT_MAX];
	snprintf(text, SL_WAIT_TEXT_MAX + 8, "%s ago", sl_cli_wait(wait, now > ms ? now - ms : 0));
	return text;
}

static const struct sl_told_list *list_of(const struct sl_told *told, const char *name) {
	static const struct sl_told_list none = {.count = 0};
	for (uint32_t i = 0; i < told->list_count; i++)
		if (strcmp(told->lists[i].name, name) == 0)
			return &told->lists[i];
	return &none;
}

/* The limit that is told of; one without traits that matter here where its text is of a later version. */
static struct sluice_limit limit_of(const struct sl_told *told) {
	struct sluice_limit limit;
	struct sluice_error error;
	sluice_err err = sluice_limit_parse(&limit, sl_slice(told->limit.data, told->limit.len), &error);
	if (err != SLUICE_OK)
		err = sluice_limit_parse(&limit, sl_str("unlimited"), &error);
	SL_ASSERT(err == SLUICE_OK);
	return limit;
}

static void print_used(const struct sl_told *told) {
	char oldest[SL_WAIT_TEXT_MAX + 8], last[SL_WAIT_TEXT_MAX + 8];
	int64_t oldest_ms = sl_told_number(told, "oldest_ms", 0), last_ms = sl_told_number(told, "last_ms", 0);
	const struct sluice_limit limit = limit_of(told);
	printf("%-10s %" PRId64, "used", sl_told_number(told, "used", 0));
	if (last_ms == 0)
		printf(": nothing was charged\n");
	else if (oldest_ms != 0 && sl_rule_has(&limit, SL_TAKES_LEASE))
		printf(", by leases that have not been released: the oldest was taken or renewed %s\n", ago(oldest, oldest_ms));
	else if (oldest_ms == 0)
		printf(", the last charge %s\n", ago(last, last_ms));
	else if (sl_rule_has(&limit, SL_HAS_WINDOWS)) /* when within the window nobody knows */
		printf(", in a window that began %s; the last charge %s\n", ago(oldest, oldest_ms), ago(last, last_ms));
	else
		printf(", the oldest charge %s, the last %s\n", ago(oldest, oldest_ms), ago(last, last_ms));
}

static void print_returns(const struct sl_told *told) {
	const struct sl_told_list *list = list_of(told, "returns");
	char wait[SL_WAIT_TEXT_MAX];
	for (uint32_t i = 0; i < list->count; i++)
		printf("%s%" PRId64 " left in %s", i == 0 ? "returns    " : ", ", list->rows[i][1],
		       sl_cli_wait(wait, list->rows[i][0]));
	if (list->count != 0)
		putchar('\n');
}

/* What counts, the oldest first: leases that nobody releases are found here. */
static void print_charges(const struct sl_told *told) {
	enum { SHOWN = 5 };
	const struct sl_told_list *list = list_of(told, "charges");
	int64_t all = sl_told_number(told, "charges_in_all", list->count), now = (int64_t)(sl_clock_wall() / 1000000);
	char from[SL_WAIT_TEXT_MAX + 8], until[SL_WAIT_TEXT_MAX];
	uint32_t i = 0;
	for (; i < list->count && i < SHOWN; i++) {
		int64_t ends = list->rows[i][1] - now;
		printf("%-10s %" PRId64 " of %s, until in %s\n", i == 0 ? "charges" : "", list->rows[i][2],
		       ago(from, list->rows[i][0]), sl_cli_wait(until, ends > 0 ? ends : 0));
	}
	if (all > (int64_t)i && i != 0)
		printf("%-10s and %" PRId64 " more\n", "", all - i);
}

static void print_penalties(const struct sl_told *told) {
	int64_t level = sl_told_number(told, "penalties", 0), denials = sl_told_number(told, "denials", 0);
	int64_t shut_out = sl_told_number(told, "shut_out_ms", 0);
	char wait[SL_WAIT_TEXT_MAX];
	if (shut_out > 0)
		printf("%-10s for %s, whatever is left: by penalty %" PRId64 "\n", "shut out", sl_cli_wait(wait, shut_out),
		       level);
	else if (level != 0 || denials != 0)
		printf("%-10s %" PRId64 " imposed and not forgiven, %" PRId64 " denials count towards the next\n", "penalties",
		       level, denials);
}

/* What fronts have taken and not charged yet. */
static void print_held(const struct sl_told *told) {
	const struct sl_told_list *list = list_of(told, "slices");
	int64_t held = sl_told_number(told, "held", 0);
	if (held != 0)
		printf("%-10s %" PRId64 " beside what is used, %" PRIu32 " slice%s of front ends among it\n", "held", held,
		       list->count, list->count == 1 ? "" : "s");
	if (sl_told_number(told, "slice_spent", 0) != 0)
		printf("%-10s %" PRId64 " of these are spent at the server that answers, and charged in a moment\n", "",
		       sl_told_number(told, "slice_spent", 0));
}

static void print_answer(const struct sl_told *told) {
	static const struct {
		const char *name;
		int place;
	} figures[] = {{"allowed", SL_ANSWER_ALLOWED},      {"quota", SL_ANSWER_QUOTA},
	               {"remaining", SL_ANSWER_REMAINING},  {"retry_after_ms", SL_ANSWER_RETRY},
	               {"reset_after_ms", SL_ANSWER_RESET}, {"delay_ms", SL_ANSWER_DELAY}};
	int64_t answer[SL_ANSWER_LEN] = {0}, next = sl_told_number(told, "next_after_ms", 0);
	for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
		answer[figures[i].place] = sl_told_number(told, figures[i].name, 0);
	sl_request_print_figures(answer, told->bound);
	if (next != 0)
		sl_request_print_wait("next unit", next);
	if (told->bound[0] != '\0')
		printf("%-10s %s\n", "bound", told->bound);
	if (told->error[0] != '\0')
		printf("%-10s %s of the count, which is an estimate above 1,024 members\n", "error", told->error);
}

/* Of a limit of the policy by name: whose quota it is. */
static void print_override(const struct sl_told *told) {
	int64_t override = sl_told_number(told, "override", 0), undecided = sl_told_number(told, "undecided", 0);
	if (override != 0)
		printf("%-10s %" PRId64 " of the limit applies to this key\n", "override", override);
	if (undecided != 0)
		printf("%-10s %" PRId64
		       " may count for its requests, which the key does not show: sluice explain NAME=VALUE... "
		       "does\n",
		       "override", undecided);
}

/* What was set at run time, and so is in no file. */
static void print_own(const struct sl_told *told) {
	char wait[SL_WAIT_TEXT_MAX];
	int64_t ends_ms = sl_told_number(told, SL_OWN_ENDS, -1);
	if (told->own.len == 0)
		return;
	printf("%-10s ", "own quota");
	sl_told_put_text(&told->own);
	if (ends_ms >= 0)
		printf(", ends in %s", sl_cli_wait(wait, ends_ms));
	putchar('\n');
}

static void print_head(const struct sl_told *told, const char *what, const char *relation) {
	printf("%-10s ", what);
	sl_told_put_text(&told->key);
	printf(" %s ", relation);
	sl_told_put_text(&told->limit);
	putchar('\n');
}

void sl_told_print_rule(const struct sl_told *told) {
	print_head(told, "counted", "under");
}

void sl_told_print(const struct sl_told *told) {
	bool allowed = sl_told_number(told, "allowed", 1) != 0;
	bool observed = sl_told_number(told, "observed", 0) != 0;
	print_head(told, allowed ? "allowed" : observed ? "would deny" : "denied", allowed || observed ? "under" : "by");
	print_override(told);
	print_own(told);
	print_answer(told);
	print_used(told);
	print_returns(told);
	print_charges(told);
	print_penalties(told);
	print_held(told);
}

/* ---- for programs ---------------------------------------------------------------------------------------------- */

static bool is_yes_or_no(const char *name) {
	return strcmp(name, "allowed") == 0 || strcmp(name, "observed") == 0 || strcmp(name, "applies") == 0;
}

void sl_told_put_json(const struct sl_told_text *text) {
	char memory[SL_JSON_ROOM(sizeof text->data)];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	sl_json_string(&out, sl_slice(text->data, text->len));
	fwrite(memory, 1, sl_out_len(&out), stdout);
}

static void put_json_text(const char *name, const struct sl_told_text *text, const char **before) {
	if (text->len == 0 && strcmp(name, "key") != 0)
		return;
	printf("%s\"%s\":", *before, name);
	sl_told_put_json(text);
	*before = ",";
}

static void put_json_list(const struct sl_told_list *list) {
	printf(",\"%s\":[", list->name);
	for (uint32_t i = 0; i < list->count; i++) {
		for (uint32_t k = 0; k < list->columns; k++)
			printf("%s%" PRId64, k != 0 ? "," : i != 0 ? ",[" : "[", list->rows[i][k]);
		putchar(']');
	}
	putchar(']');
}

void sl_told_print_json(const struct sl_told *told) {
	const char *before = "{";
	put_json_text("limit", &told->limit, &before);
	put_json_text("name", &told->name, &before);
	if (sl_told_number(told, "applies", 1) != 0)
		put_json_text("key", &told->key, &before);
	put_json_text("why", &told->why, &before);
	put_json_text(SL_OWN_QUOTA, &told->own, &before);
	for (uint32_t i = 0; i < told->number_count; i++)
		if (is_yes_or_no(told->numbers[i].name))
			printf(",\"%s\":%s", told->numbers[i].name, told->numbers[i].value != 0 ? "true" : "false");
		else
			printf(",\"%s\":%" PRId64, told->numbers[i].name, told->numbers[i].value);
	if (told->bound[0] != '\0')
		printf(",\"bound\":\"%s\"", told->bound);
	if (told->error[0] != '\0')
		printf(",\"error\":%s", told->error);
	for (uint32_t i = 0; i < told->list_count; i++)
		put_json_list(&told->lists[i]);
	putchar('}');
}
