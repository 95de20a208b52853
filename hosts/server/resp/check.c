/* SLUICE.CHECK, PEEK, REFUND and RESET: limits that the caller brings along.
 *
 *   SLUICE.CHECK key cost [AT unix_ms] limit [limit ...] [KEY key limit [limit ...]] ...
 *   SLUICE.RESET key      [AT unix_ms] limit [limit ...] [KEY key limit [limit ...]] ...
 *
 * A key that no limit counts for is refused: nothing is guessed. No limit reads `KEY` or `AT`, so the words need no
 * escape; only keys are free bytes, and they stand at fixed places. */
#include "hosts/server/resp/resp.h"

#define AT_MS_MAX ((uint64_t)INT64_MAX / 1000000) /* the last instant that fits 63 bits of nanoseconds */

static bool is_word(struct sluice_bytes text, size_t len, const char *word) {
	return text.len == len && sl_bytes_equal_nocase(text, word);
}

static bool read_instant(struct sl_resp_turn *turn, uint32_t index, sluice_ns *now) {
	uint64_t ms;
	if (!sl_policy_settings(turn->context->policy)->client_time) {
		sl_reply_error(turn, "ERR AT is not allowed here: set client-time: true in the policy file");
		return false;
	}
	if (index == turn->request->count) {
		sl_reply_error(turn, "ERR AT needs an instant after it: Unix milliseconds");
		return false;
	}
	if (!sl_bytes_to_u64(sl_resp_arg(turn, index), &ms) || ms > AT_MS_MAX) {
		sl_reply_error(turn, "ERR AT %s: expected Unix milliseconds, a whole number from 0 to %llu",
		               sl_resp_shown(sl_resp_arg(turn, index)).text, (unsigned long long)AT_MS_MAX);
		return false;
	}
	*now = ms * 1000000;
	return true;
}

static bool key_fits(struct sl_resp_turn *turn, struct sluice_bytes key) {
	if (key.len <= SLUICE_KEY_BYTES_MAX)
		return true;
	sl_reply_error(turn, "ERR the key that begins %s has %zu bytes: at most %d are allowed",
	               sl_resp_shown(sl_slice(key.data, 32)).text, key.len, SLUICE_KEY_BYTES_MAX);
	return false;
}

static bool key_has_limits(struct sl_resp_turn *turn, struct sluice_bytes key, uint32_t limits) {
	if (limits != 0)
		return true;
	sl_reply_error(turn, "ERR no limit for key %s: expected at least one after it, such as 100/60s",
	               sl_resp_shown(key).text);
	return false;
}

static bool add_limit(struct sl_resp_turn *turn, struct sluice_call *call, uint32_t index, struct sluice_bytes key) {
	struct sluice_error error;
	if (call->item_count == SLUICE_ITEMS_MAX) {
		sl_reply_error(turn, "ERR too many limits: at most %d in one request", SLUICE_ITEMS_MAX);
		return false;
	}
	const struct sluice_limit *limit = sl_resp_limit(turn, sl_resp_arg(turn, index), &error);
	if (limit == NULL) {
		sl_reply_error(turn, "ERR limit %u, column %u: %s", call->item_count + 1, error.column, error.text);
		return false;
	}
	sl_resp_call_item(turn, call, limit, key);
	return true;
}

/* The limits from `index` on, with the keys between them. */
static bool read_limits(struct sl_resp_turn *turn, struct sluice_call *call, uint32_t index) {
	struct sluice_bytes key = sl_resp_arg(turn, 1);
	uint32_t before = 0; /* limits of the keys before this one */
	if (!key_fits(turn, key))
		return false;
	for (; index < turn->request->count; index++) {
		if (!is_word(sl_resp_arg(turn, index), 3, "key")) {
			if (!add_limit(turn, call, index, key))
				return false;
			continue;
		}
		if (!key_has_limits(turn, key, call->item_count - before))
			return false;
		if (++index == turn->request->count) {
			sl_reply_error(turn, "ERR KEY needs a key and at least one limit after it");
			return false;
		}
		key = sl_resp_arg(turn, index);
		before = call->item_count;
		if (!key_fits(turn, key))
			return false;
	}
	return key_has_limits(turn, key, call->item_count - before);
}

static void decide(struct sl_resp_turn *turn, sluice_operation operation) {
	struct sluice_call *call = sl_resp_call_begin(turn);
	uint32_t index = operation == SLUICE_RESET ? 2 : 3;
	call->operation = operation;
	call->cost = 0;
	if (operation != SLUICE_RESET && !sl_resp_read_cost(turn, sl_resp_arg(turn, 2), &call->cost))
		return;
	if (is_word(sl_resp_arg(turn, index), 2, "at")) {
		if (!read_instant(turn, index + 1, &call->now))
			return;
		index += 2;
	}
	if (read_limits(turn, call, index))
		sl_resp_call_end(turn, call, operation == SLUICE_RESET ? SL_RESP_FORGOTTEN : SL_RESP_NUMBERS);
}

void sl_resp_check(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_CHARGE);
}

void sl_resp_peek(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_PEEK);
}

void sl_resp_refund(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_REFUND);
}

void sl_resp_reset_counters(struct sl_resp_turn *turn) {
	decide(turn, SLUICE_RESET);
}
