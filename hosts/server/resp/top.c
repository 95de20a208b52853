/* SLUICE.TOP: the keys denied most, nearest to their limits, or that would be denied, over all workers.
 *
 *   SLUICE.TOP [DENIED | NEAR | SHADOW | CANDIDATE] [COUNT n]  ->  [limit, key, count, error, last_ms, ..] ...
 *
 * Most first. `limit` is a name of the policy or notation, `count` is of the last minutes and at most `error` too
 * high, `last_ms` is the instant of the last event in Unix milliseconds. A key with a quota of its own has that after
 * these, by names and values (proto/own_quota.h). */
#include "hosts/server/door/key_override.h"
#include "hosts/server/resp/resp.h"

#include <stdlib.h>

enum { COUNT_DEFAULT = 20 };

static bool is_word(struct sluice_bytes text, const char *word) {
	return text.len == strlen(word) && sl_bytes_equal_nocase(text, word);
}

static bool read_count(struct sl_resp_turn *turn, uint32_t index, uint32_t *count) {
	uint64_t number;
	if (index == turn->request->count) {
		sl_reply_error(turn, "ERR COUNT needs a number after it: 1 to %d", SL_TOP_COUNT_MAX);
		return false;
	}
	if (!sl_bytes_to_u64(sl_resp_arg(turn, index), &number) || number < 1 || number > SL_TOP_COUNT_MAX) {
		sl_reply_error(turn, "ERR COUNT %s: expected a whole number from 1 to %d",
		               sl_shown(sl_resp_arg(turn, index)).text, SL_TOP_COUNT_MAX);
		return false;
	}
	*count = (uint32_t)number;
	return true;
}

static bool read_arguments(struct sl_resp_turn *turn, enum sl_top_kind *kind, uint32_t *count) {
	for (uint32_t i = 1; i < turn->request->count; i++) {
		struct sluice_bytes word = sl_resp_arg(turn, i);
		if (is_word(word, "count")) {
			if (!read_count(turn, ++i, count))
				return false;
		} else if (!sl_top_kind_find(word, kind)) {
			sl_reply_error(turn, "ERR %s: expected DENIED, NEAR, SHADOW, CANDIDATE or COUNT", sl_shown(word).text);
			return false;
		}
	}
	return true;
}

static void reply_entry(struct sl_resp_turn *turn, const struct sl_top_entry *entry) {
	struct sluice_bytes limit = sl_slice(entry->limit, entry->limit_len), key = sl_slice(entry->key, entry->key_len);
	struct sluice_override own;
	bool owns = sl_override_of_key(turn->context, entry->named, limit, key, &own);
	sl_reply_array(turn, 5 + (owns ? 2 * SL_OWN_QUOTA_NAMES : 0));
	sl_reply_bulk(turn, limit);
	sl_reply_bulk(turn, key);
	sl_reply_integer(turn, (int64_t)entry->count);
	sl_reply_integer(turn, (int64_t)entry->error);
	sl_reply_integer(turn, (int64_t)(entry->last / 1000000));
	if (owns)
		sl_resp_put_own_quota(turn, &own);
}

void sl_resp_top(struct sl_resp_turn *turn) {
	const struct sl_shared *shared = turn->context->shared;
	enum sl_top_kind kind = SL_TOP_DENIED;
	uint32_t count = COUNT_DEFAULT;
	if (!read_arguments(turn, &kind, &count))
		return;
	struct sl_top_entry *entries = calloc(count, sizeof *entries);
	if (entries == NULL) {
		sl_reply_error(turn, "ERR no memory for the list");
		return;
	}
	if (shared != NULL)
		count = sl_top_list(shared->tops, shared->top_count, kind, turn->context->now, entries, count);
	else
		count = 0;
	sl_reply_array(turn, count);
	for (uint32_t i = 0; i < count; i++)
		reply_entry(turn, &entries[i]);
	free(entries);
}
