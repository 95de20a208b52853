/* Commands as nodes read them: arrays of bulk strings.
 *
 * A script is told a CHECK or PEEK of one limit of a window or log as bytes, and answers with bytes: to take words
 * apart and to answer tables costs Redis 0.3 of such a call (docs/design/028-module-cost.md).
 * hosts/redis/script/direct.lua reads the one and writes the other; numbers are little-endian.
 *
 *   asked     1 charges | 1 kind | 4 cost | 4 quota | 8 window in ms, a double | 1 length | name of the counter's field
 *   answered  1 allowed | 4 quota | 4 remaining | 8 retry_ms | 8 reset_ms | 8 next_ms, doubles | 4 ns of EXACT
 *
 * An ask that the script's straight way can't decide it answers as it answers words. */
#include "hosts/server/cluster/command.h"

#include "base/assert.h"
#include "base/out.h"
#include "hosts/redis/script/script.h"
#include "proto/resp.h"

#include <stdio.h>

enum {
	ASKED_BYTES = 19, /* and the field's name */
	ANSWERED_BYTES = 37,
	FIELD_BYTES_MAX = 1 + 20 + 1 + SL_ASK_NAME_MAX,
};

static char *put_le(char *at, uint64_t value, unsigned bytes) {
	for (unsigned i = 0; i < bytes; i++)
		*at++ = (char)(value >> 8 * i & 0xff);
	return at;
}

static uint64_t read_le(const unsigned char *at, unsigned bytes) {
	uint64_t value = 0;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)at[i] << 8 * i;
	return value;
}

static char *put_one(char *at, const struct sl_ask_one *one) {
	char text[ASKED_BYTES + FIELD_BYTES_MAX], *end = text;
	const double window = (double)one->window_ms;
	uint64_t bits;
	struct sl_out field = sl_out_to(text + ASKED_BYTES, FIELD_BYTES_MAX);
	sl_out_char(&field, (char)one->kind);
	sl_out_u64(&field, one->window_ms);
	if (one->name.len != 0) {
		sl_out_char(&field, '@');
		sl_out_bytes(&field, one->name.data, one->name.len);
	}
	SL_ASSERT(!field.overflow);
	memcpy(&bits, &window, sizeof bits);
	*end++ = (char)one->charges;
	*end++ = (char)one->kind;
	end = put_le(put_le(end, one->cost, 4), one->quota, 4);
	end = put_le(put_le(end, bits, 8), sl_out_len(&field), 1);
	return sl_resp_put_bulk(at, sl_slice(text, (size_t)(end - text) + sl_out_len(&field)));
}

bool sl_command_read_one(struct sluice_bytes text, int64_t numbers[static SL_COMMAND_ONE_NUMBERS]) {
	const unsigned char *at = text.data;
	if (text.len != ANSWERED_BYTES)
		return false;
	numbers[0] = at[0];
	numbers[1] = (int64_t)read_le(at + 1, 4);
	numbers[2] = (int64_t)read_le(at + 5, 4);
	for (int i = 0; i < 3; i++) {
		const uint64_t bits = read_le(at + 9 + 8 * i, 8);
		double ms;
		memcpy(&ms, &bits, sizeof ms);
		if (!(ms >= -1 && ms < 9007199254740992.0)) /* NaN is none either */
			return false;
		numbers[i == 2 ? 6 : 3 + i] = (int64_t)ms;
	}
	numbers[5] = 0;
	numbers[7] = (int64_t)read_le(at + 33, 4);
	return true;
}

size_t sl_command_ask_bytes(const struct sl_node_ask *ask) {
	return 128 + ASKED_BYTES + FIELD_BYTES_MAX + strlen(ask->verb) + 5 * (size_t)SL_RESP_BULK_MORE +
	       sl_resp_command_bytes(ask->key_count, ask->keys) + sl_resp_command_bytes(ask->word_count, ask->words);
}

char *sl_command_write_ask(char *at, const struct sl_node_ask *ask, const char *sha, uint8_t grammar) {
	const bool exact = sha != NULL || grammar >= SL_GRAMMAR_EXACT;
	const uint32_t without = sha == NULL && grammar < SL_GRAMMAR_PART ? ask->part : 0;
	if (sha != NULL) {
		char number[16];
		snprintf(number, sizeof number, "%u", ask->key_count);
		at = sl_resp_put_number(at, '*',
		                        4 + (int64_t)ask->key_count + (ask->one == NULL ? (int64_t)ask->word_count : 0));
		at = sl_resp_put_bulk(at, sl_str("EVALSHA"));
		at = sl_resp_put_bulk(sl_resp_put_bulk(at, sl_str(sha)), sl_str(number));
		for (uint32_t i = 0; i < ask->key_count; i++)
			at = sl_resp_put_bulk(at, ask->keys[i]);
		if (ask->one != NULL)
			return put_one(at, ask->one);
		at = sl_resp_put_bulk(at, sl_str(ask->verb));
	} else {
		const size_t len = strlen(ask->verb);
		at = sl_resp_put_number(at, '*', 1 + !ask->bare - (without != 0) + (int64_t)ask->word_count);
		at = sl_resp_put_number(at, '$', (int64_t)len + 7);
		memcpy(at, "SLUICE.", 7);
		memcpy(at + 7, ask->verb, len);
		memcpy(at + 7 + len, "\r\n", 2);
		at += len + 9;
		if (!ask->bare)
			at = sl_resp_put_bulk(at, ask->keys[0]);
	}
	for (uint32_t i = 0; i < ask->word_count; i++)
		if (i + 1 != without)
			at = sl_resp_put_bulk(at, !exact && i + 1 == ask->exact ? sl_str("EACH") : ask->words[i]);
	return at;
}

struct sl_node_script sl_command_script(bool dated) {
	struct sl_node_script script = {.text = sl_slice(sl_script_eval, sl_script_eval_bytes)};
	if (dated)
		script.text = sl_slice(sl_script_eval_client_time, sl_script_eval_client_time_bytes);
	sl_script_sha1(script.text.data, script.text.len, script.sha);
	return script;
}
