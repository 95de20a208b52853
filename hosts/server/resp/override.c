/* SLUICE.OVERRIDE SET|GET|DEL|LIST: quotas of keys' own, at run time (door/key_override.h).
 *
 *   SET limit key notation [ttl_ms]   +OK
 *   GET limit key                     [notation, ms until it ends or -1]; null: the key has none of its own
 *   DEL limit key                     how many were there, 0 or 1
 *   LIST [cursor [COUNT count]]       [next cursor or 0, [[limit, key, notation, ms until it ends or -1] ..]]
 *
 * Of a limit whose overrides in the file count in windows of their own, each counter can have a quota: SET takes the
 * first that the notation is a quota for. */
#include "hosts/server/door/key_override.h"
#include "hosts/server/resp/resp.h"

enum { LIST_COUNT_MAX = 10000 };
#define TTL_MS_MAX (UINT64_C(3660) * 86400 * 1000)

/* The limit and the key that stand at 2 and 3. False: answered. */
static bool find(struct sl_resp_turn *turn, struct sl_override_target *target) {
	struct sluice_error error;
	if (sl_override_find(turn->context, sl_resp_arg(turn, 2), sl_resp_arg(turn, 3), target, &error) == SLUICE_OK)
		return true;
	sl_reply_error(turn, "ERR %s", error.text);
	return false;
}

void sl_resp_override_set(struct sl_resp_turn *turn) {
	struct sl_override_target target;
	struct sluice_override own;
	struct sluice_error error;
	uint64_t ttl_ms = 0;
	if (!find(turn, &target))
		return;
	if (turn->request->count > 6)
		sl_reply_error(turn, "ERR expected SLUICE.OVERRIDE SET limit key notation [ttl_ms]");
	else if (turn->request->count == 6 &&
	         (!sl_bytes_to_u64(sl_resp_arg(turn, 5), &ttl_ms) || ttl_ms < 1 || ttl_ms > TTL_MS_MAX))
		sl_reply_error(turn, "ERR ttl_ms %s: expected a whole number from 1 to %llu",
		               sl_shown(sl_resp_arg(turn, 5)).text, (unsigned long long)TTL_MS_MAX);
	else if (sl_override_set(turn->context, &target, sl_resp_arg(turn, 4), ttl_ms, turn->session->login.user, &own,
	                         &error) != SLUICE_OK)
		sl_reply_error(turn, "ERR %s", error.text);
	else
		sl_reply_status(turn, "OK");
}

void sl_resp_override_get(struct sl_resp_turn *turn) {
	struct sl_override_target target;
	struct sluice_override own;
	struct sluice_error error;
	char text[SLUICE_LIMIT_TEXT_MAX];
	if (!find(turn, &target))
		return;
	sluice_err err = sl_override_get(turn->context, &target, &own, &error);
	if (err == SLUICE_E_NONE) {
		sl_reply_null(turn);
	} else if (err != SLUICE_OK) {
		sl_reply_error(turn, "ERR %s", error.text);
	} else {
		sl_reply_array(turn, 2);
		sl_reply_bulk(turn, sl_slice(text, sluice_limit_print(&own.limit, text)));
		sl_reply_integer(turn, sl_override_ms_left(own.ends_after_ns));
	}
}

void sl_resp_override_del(struct sl_resp_turn *turn) {
	struct sl_override_target target;
	struct sluice_error error;
	uint32_t gone;
	if (!find(turn, &target))
		return;
	if (sl_override_delete(turn->context, &target, turn->session->login.user, &gone, &error) != SLUICE_OK)
		sl_reply_error(turn, "ERR %s", error.text);
	else
		sl_reply_integer(turn, gone);
}

static void reply_listed(struct sl_resp_turn *turn, const struct sl_override_list *l) {
	sl_reply_array(turn, 2);
	sl_reply_integer(turn, (int64_t)l->next);
	sl_reply_array(turn, l->count);
	for (size_t i = 0; i < l->count; i++) {
		sl_reply_array(turn, 4);
		sl_reply_bulk(turn, l->list[i].name);
		sl_reply_bulk(turn, l->list[i].key);
		sl_reply_bulk(turn, l->list[i].limit);
		sl_reply_integer(turn, l->list[i].ms_left);
	}
}

void sl_resp_override_list(struct sl_resp_turn *turn) {
	uint32_t words = turn->request->count;
	uint64_t from = 0, count = SL_OVERRIDES_LISTED;
	struct sluice_error error;
	struct sl_override_list l;
	if ((words != 2 && words != 3 && words != 5) || (words > 2 && !sl_bytes_to_u64(sl_resp_arg(turn, 2), &from)) ||
	    (words == 5 && (!sl_bytes_equal_nocase(sl_resp_arg(turn, 3), "COUNT") ||
	                    !sl_bytes_to_u64(sl_resp_arg(turn, 4), &count) || count < 1 || count > LIST_COUNT_MAX))) {
		sl_reply_error(turn, "ERR expected SLUICE.OVERRIDE LIST [cursor [COUNT 1..%d]]", LIST_COUNT_MAX);
		return;
	}
	if (sl_override_list_read(turn->context, from, (uint32_t)count, &l, &error) != SLUICE_OK)
		sl_reply_error(turn, "ERR %s", error.text);
	else if (l.failed)
		turn->failed = true;
	else
		reply_listed(turn, &l);
	sl_override_list_free(&l);
}
