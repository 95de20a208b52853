/* SLUICE.CHECK, PEEK, REFUND and RESET: limits that the caller brings along, or names.
 *
 *   SLUICE.CHECK key cost [AT unix_ms] limit [limit ...] [KEY key limit [limit ...]] ...
 *   SLUICE.RESET key      [AT unix_ms] limit [limit ...] [KEY key limit [limit ...]] ...
 *
 * A limit is notation, or `policy:NAME`: the limit of that name with its own counter, for a key as EXPLAIN shows it
 * (`ip=192.0.2.7`). Its conditions, overrides, `observe` and candidate are of requests that the policy decides; here
 * the caller has decided that it counts. RESET alone takes the overrides along: it forgets every counter of the key.
 *
 * A key that no limit counts for is refused: nothing is guessed. No limit reads `KEY` or `AT`, so the words need no
 * escape; only keys are free bytes, and they stand at fixed places. */
#include "hosts/server/door/ruling.h"
#include "hosts/server/resp/resp.h"
#include "policy/nearest.h"

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

/* A call being read, and which limits of the policy its items are. */
struct reading {
	struct sluice_call *call;
	uint32_t positions[SLUICE_ITEMS_MAX];
	bool placed; /* some are */
};

static bool add_item(struct sl_resp_turn *turn, struct reading *reading, const struct sluice_limit *limit,
                     struct sluice_bytes key, uint32_t position) {
	if (reading->call->item_count == SLUICE_ITEMS_MAX) {
		sl_reply_error(turn, "ERR too many limits: at most %d in one request", SLUICE_ITEMS_MAX);
		return false;
	}
	reading->positions[reading->call->item_count] = position;
	reading->placed = reading->placed || position != SL_RULING_NOTATION;
	sl_resp_call_item(turn, reading->call, limit, key);
	return true;
}

/* ---- limits of the policy, by name ------------------------------------------------------------------------------- */

static const char name_prefix[] = "policy:";
enum { NAME_PREFIX_LEN = sizeof name_prefix - 1, NAMES_SHOWN = 8 };

static bool is_name(struct sluice_bytes text) {
	return text.len > NAME_PREFIX_LEN && memcmp(text.data, name_prefix, NAME_PREFIX_LEN) == 0;
}

static const char *name_at(const void *policy, size_t index) {
	return sluice_policy_limit_name(policy, (uint32_t)index);
}

static bool fail_unknown(struct sl_resp_turn *turn, const struct reading *reading, struct sluice_bytes name) {
	const struct sluice_policy *policy = turn->context->policy;
	const char *near = sl_nearest(name, name_at, policy);
	char memory[NAMES_SHOWN * (SLUICE_NAME_BYTES_MAX + 2) + 32];
	struct sl_out out = sl_out_to(memory, sizeof memory - 1);
	uint32_t count = sl_policy_limit_count(policy);
	sl_out_str(&out, near != NULL ? "did you mean " : count == 0 ? "it has none" : "it has ");
	if (near != NULL)
		sl_out_str(&out, near);
	for (uint32_t i = 0; near == NULL && i < count && i < NAMES_SHOWN; i++) {
		sl_out_str(&out, i > 0 ? ", " : "");
		sl_out_str(&out, name_at(policy, i));
	}
	sl_out_str(&out, near != NULL ? "?" : count > NAMES_SHOWN ? " and others" : "");
	*out.at = '\0';
	sl_reply_error(turn, "ERR limit %u: the policy has no limit %s: %s", reading->call->item_count + 1,
	               sl_resp_shown(name).text, memory);
	return false;
}

/* A reset forgets whatever counter the limit or an override of it may keep; else it is the limit's own, whose numbers
 * live as long as the policy, which is changed between turns only. */
static bool add_named(struct sl_resp_turn *turn, struct reading *reading, struct sluice_bytes text,
                      struct sluice_bytes key) {
	const struct sluice_policy *policy = turn->context->policy;
	const struct sluice_limit *variants[SLUICE_ITEMS_MAX + 1];
	struct sluice_bytes name = sl_slice((const char *)text.data + NAME_PREFIX_LEN, text.len - NAME_PREFIX_LEN);
	int64_t position = sl_policy_limit_find(policy, name);
	uint32_t count = 1;
	if (position < 0)
		return fail_unknown(turn, reading, name);
	variants[0] = &sl_policy_limit_at(policy, (uint32_t)position)->limit;
	if (reading->call->operation == SLUICE_RESET)
		count = sl_policy_limit_variants(policy, (uint32_t)position, variants, SLUICE_ITEMS_MAX + 1);
	if (count > SLUICE_ITEMS_MAX - reading->call->item_count) {
		sl_reply_error(turn,
		               "ERR too many limits: at most %d in one request, and %s with its overrides stands for %s%u",
		               SLUICE_ITEMS_MAX, sl_resp_shown(text).text, count > SLUICE_ITEMS_MAX ? "at least " : "", count);
		return false;
	}
	for (uint32_t i = 0; i < count; i++)
		if (!add_item(turn, reading, variants[i], key, (uint32_t)position))
			return false;
	return true;
}

static bool add_limit(struct sl_resp_turn *turn, struct reading *reading, struct sluice_bytes text,
                      struct sluice_bytes key) {
	struct sluice_error error;
	if (is_name(text))
		return add_named(turn, reading, text, key);
	const struct sluice_limit *limit = sl_resp_limit(turn, text, &error);
	if (limit == NULL) {
		sl_reply_error(turn, "ERR limit %u, column %u: %s", reading->call->item_count + 1, error.column, error.text);
		return false;
	}
	return add_item(turn, reading, limit, key, SL_RULING_NOTATION);
}

/* ---- the arguments ----------------------------------------------------------------------------------------------- */

/* The limits from `index` on, with the keys between them. */
static bool read_limits(struct sl_resp_turn *turn, struct reading *reading, uint32_t index) {
	const struct sluice_call *call = reading->call;
	struct sluice_bytes key = sl_resp_arg(turn, 1);
	uint32_t before = 0; /* limits of the keys before this one */
	if (!key_fits(turn, key))
		return false;
	for (; index < turn->request->count; index++) {
		if (!is_word(sl_resp_arg(turn, index), 3, "key")) {
			if (!add_limit(turn, reading, sl_resp_arg(turn, index), key))
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
	struct reading reading = {.call = call};
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
	if (!read_limits(turn, &reading, index))
		return;
	if (reading.placed)
		sl_resp_call_place(turn, call, reading.positions, call->item_count);
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
