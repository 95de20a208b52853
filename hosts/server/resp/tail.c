/* SLUICE.TAIL: decisions as they happen.
 *
 *   SLUICE.TAIL [LIMIT name] [KEY key] [DENIED]  ->  OK, and from then on, until RESET, QUIT or the connection's end
 *
 *   > sluice.tail {"time":..,"limit":..,..}      protocol 3: a push, which clients tell from answers
 *   * sluice.tail {"time":..,"limit":..,..}      protocol 2: an array of two, as messages of Redis are
 *
 * As beside MONITOR of Redis, other commands are answered meanwhile. A second SLUICE.TAIL replaces the first. */
#include "hosts/server/door/tailing.h"
#include "hosts/server/resp/resp.h"

static bool is_word(struct sluice_bytes text, const char *word) {
	return text.len == strlen(word) && sl_bytes_equal_nocase(text, word);
}

/* LIMIT name or KEY key, from `index` on. */
static bool read_pair(struct sl_resp_turn *turn, uint32_t index, struct sl_tail_filter *filter) {
	bool limit = is_word(sl_resp_arg(turn, index), "limit");
	struct sluice_error error = {.text = ""};
	if (index + 1 == turn->request->count) {
		sl_reply_error(turn, "ERR %s needs %s after it", limit ? "LIMIT" : "KEY",
		               limit ? "a limit's name, or notation," : "a key");
		return false;
	}
	struct sluice_bytes value = sl_resp_arg(turn, index + 1);
	if (!limit)
		sl_tailing_key(turn->context, filter, value);
	if (!limit || sl_tailing_limit(turn->context, filter, value, &error))
		return true;
	sl_reply_error(turn, "ERR LIMIT: %s", error.text);
	return false;
}

static bool read_arguments(struct sl_resp_turn *turn, struct sl_tail_filter *filter) {
	sl_tail_filter_begin(filter);
	for (uint32_t i = 1; i < turn->request->count; i++) {
		struct sluice_bytes word = sl_resp_arg(turn, i);
		if (is_word(word, "denied")) {
			filter->denied = true;
		} else if (is_word(word, "limit") || is_word(word, "key")) {
			if (!read_pair(turn, i++, filter))
				return false;
		} else {
			sl_reply_error(turn, "ERR %s: expected LIMIT, KEY or DENIED", sl_shown(word).text);
			return false;
		}
	}
	return true;
}

void sl_resp_tail(struct sl_resp_turn *turn) {
	struct sl_tail_filter filter;
	struct sluice_error error = {.text = ""};
	if (!read_arguments(turn, &filter))
		return;
	if (sl_tailing_begin(turn->context, &filter, &error))
		sl_reply_status(turn, "OK");
	else
		sl_reply_error(turn, "ERR %s", error.text);
}

/* No answer to anything, so CLIENT REPLY OFF does not silence it. */
void sl_resp_stream(void *state, struct sl_door_context *context, struct sluice_bytes line, struct sl_buffer *out) {
	const struct sl_resp_session *session = state;
	struct sluice_bytes name = sl_str(SL_TAILING_NAME);
	char *at = sl_buffer_reserve(out, SL_RESP_NUMBER_BYTES_MAX + name.len + line.len + 2 * SL_RESP_BULK_MORE);
	(void)context;
	if (at == NULL)
		return;
	at = sl_resp_put_number(at, session->protocol == 2 ? '*' : '>', 2);
	at = sl_resp_put_bulk(at, name);
	at = sl_resp_put_bulk(at, line);
	out->len = (size_t)(at - out->data);
}

bool sl_resp_may_stream(void *state, struct sl_door_context *context) {
	struct sl_resp_session *session = state;
	sl_resp_session_judge(session, context);
	return (session->roles & SL_ROLE_READ) != 0;
}

/* A stream has no end of its own here: the connection's is it. */
void sl_resp_end_stream(void *state, struct sl_door_context *context, struct sl_buffer *out) {
	(void)state;
	(void)context;
	(void)out;
}
