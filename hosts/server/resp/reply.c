/* Values as the two protocol versions write them. What version 3 adds and we use: maps, sets, a null of its own, text
 * for people. A client of version 2 gets flat arrays and bulk strings instead. */
#include "hosts/server/resp/resp.h"

#include <stdarg.h>
#include <stdio.h>

static void append(struct sl_resp_turn *turn, const void *data, size_t len) {
	char *at = sl_reply_reserve(turn, len);
	if (at == NULL || len == 0)
		return;
	memcpy(at, data, len);
	turn->out->len += len;
}

static void append_number(struct sl_resp_turn *turn, char type, int64_t value) {
	char *at = sl_reply_reserve(turn, SL_RESP_NUMBER_BYTES_MAX);
	if (at != NULL)
		turn->out->len = (size_t)(sl_resp_put_number(at, type, value) - turn->out->data);
}

void sl_reply_error(struct sl_resp_turn *turn, const char *format, ...) {
	char line[SL_RESP_REPLY_BYTES_MAX * 2] = "-";
	va_list arguments;
	sl_resp_flush(turn);
	if (turn->context->stats != NULL && !turn->waits) /* where it waits, all of this is done again */
		sl_count(&turn->context->stats->errors[SL_TRANSPORT_RESP], 1);
	va_start(arguments, format);
	int written = vsnprintf(line + 1, sizeof line - 3, format, arguments);
	va_end(arguments);
	size_t len = written < 0 ? 0 : (size_t)written;
	if (len > sizeof line - 4)
		len = sizeof line - 4;
	for (size_t i = 1; i <= len; i++)
		if (line[i] == '\r' || line[i] == '\n')
			line[i] = ' ';
	memcpy(line + 1 + len, "\r\n", 2);
	append(turn, line, len + 3);
}

void sl_reply_status(struct sl_resp_turn *turn, const char *text) {
	append(turn, "+", 1);
	append(turn, text, strlen(text));
	append(turn, "\r\n", 2);
}

void sl_reply_integer(struct sl_resp_turn *turn, int64_t value) {
	append_number(turn, ':', value);
}

void sl_reply_bulk(struct sl_resp_turn *turn, struct sluice_bytes text) {
	char *at = sl_reply_reserve(turn, text.len + SL_RESP_BULK_MORE);
	if (at != NULL)
		turn->out->len = (size_t)(sl_resp_put_bulk(at, text) - turn->out->data);
}

void sl_reply_text(struct sl_resp_turn *turn, const char *text) {
	sl_reply_bulk(turn, sl_str(text));
}

void sl_reply_verbatim(struct sl_resp_turn *turn, struct sluice_bytes text) {
	if (turn->session->protocol == 2) {
		sl_reply_bulk(turn, text);
		return;
	}
	append_number(turn, '=', (int64_t)text.len + 4);
	append(turn, "txt:", 4);
	append(turn, text.data, text.len);
	append(turn, "\r\n", 2);
}

void sl_reply_null(struct sl_resp_turn *turn) {
	if (turn->session->protocol == 2)
		append(turn, "$-1\r\n", 5);
	else
		append(turn, "_\r\n", 3);
}

void sl_reply_array(struct sl_resp_turn *turn, size_t count) {
	append_number(turn, '*', (int64_t)count);
}

void sl_reply_map(struct sl_resp_turn *turn, size_t pairs) {
	if (turn->session->protocol == 2)
		append_number(turn, '*', (int64_t)pairs * 2);
	else
		append_number(turn, '%', (int64_t)pairs);
}

void sl_reply_set(struct sl_resp_turn *turn, size_t count) {
	append_number(turn, turn->session->protocol == 2 ? '*' : '~', (int64_t)count);
}

void sl_reply_words(struct sl_resp_turn *turn, const char *words, bool array) {
	size_t count = *words != '\0';
	for (const char *p = words; *p != '\0'; p++)
		count += *p == ' ';
	if (array)
		sl_reply_array(turn, count);
	else
		sl_reply_set(turn, count);
	while (*words != '\0') {
		size_t len = strcspn(words, " ");
		append(turn, "+", 1);
		append(turn, words, len);
		append(turn, "\r\n", 2);
		words += len + (words[len] == ' ');
	}
}
