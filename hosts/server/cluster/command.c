/* Commands as nodes read them: arrays of bulk strings. */
#include "hosts/server/cluster/command.h"

#include "hosts/redis/script/script.h"
#include "proto/resp.h"

#include <stdio.h>

size_t sl_command_ask_bytes(const struct sl_node_ask *ask) {
	return 128 + strlen(ask->verb) + 5 * (size_t)SL_RESP_BULK_MORE + sl_resp_command_bytes(ask->key_count, ask->keys) +
	       sl_resp_command_bytes(ask->word_count, ask->words);
}

char *sl_command_write_ask(char *at, const struct sl_node_ask *ask, const char *sha, bool exact) {
	if (sha != NULL) {
		char number[16];
		snprintf(number, sizeof number, "%u", ask->key_count);
		at = sl_resp_put_number(at, '*', 4 + (int64_t)ask->key_count + ask->word_count);
		at = sl_resp_put_bulk(at, sl_str("EVALSHA"));
		at = sl_resp_put_bulk(sl_resp_put_bulk(at, sl_str(sha)), sl_str(number));
		for (uint32_t i = 0; i < ask->key_count; i++)
			at = sl_resp_put_bulk(at, ask->keys[i]);
		at = sl_resp_put_bulk(at, sl_str(ask->verb));
	} else {
		const size_t len = strlen(ask->verb);
		at = sl_resp_put_number(at, '*', 1 + !ask->bare + (int64_t)ask->word_count);
		at = sl_resp_put_number(at, '$', (int64_t)len + 7);
		memcpy(at, "SLUICE.", 7);
		memcpy(at + 7, ask->verb, len);
		memcpy(at + 7 + len, "\r\n", 2);
		at += len + 9;
		if (!ask->bare)
			at = sl_resp_put_bulk(at, ask->keys[0]);
	}
	for (uint32_t i = 0; i < ask->word_count; i++)
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
