/* SLUICE.OVERRIDE SET|GET|DEL|LIST: quotas of keys' own, at run time.
 *
 *   SET limit key notation [ttl_ms]   +OK
 *   GET limit key                     [notation, ms until it ends or -1]; null: the key has none of its own
 *   DEL limit key                     how many were there, 0 or 1
 *   LIST [cursor [COUNT count]]       [next cursor or 0, [[limit, key, notation, ms until it ends or -1] ..]]
 *
 * A limit is `policy:NAME` or notation, as in all commands. Of a limit whose overrides in the file count in windows of
 * their own, each counter can have a quota: SET takes the first that the notation is a quota for. */
#include "algo/override.h"
#include "hosts/server/resp/resp.h"
#include "hosts/server/watch/log.h"

#include <stdlib.h>

enum { NAME_AT = sizeof "policy:" - 1, LIST_COUNT = 100, LIST_COUNT_MAX = 10000 };
#define TTL_MS_MAX (UINT64_C(3660) * 86400 * 1000)

/* Whose quota: the counters that a limit keeps for the key. */
struct target {
	const struct sluice_limit *limits[SL_POLICY_VARIANTS_MAX];
	uint32_t count;
	struct sluice_limit parsed;
	struct sluice_bytes name, key;
	char memory[SLUICE_KEY_BYTES_MAX];
};

static bool find_limit(struct sl_resp_turn *turn, struct sluice_bytes text, struct target *target) {
	const struct sluice_policy *policy = turn->context->policy;
	struct sluice_error error;
	int named = sl_policy_limit_named(policy, text, &target->limits[0]);
	target->name = text;
	target->count = 1;
	if (named > 0) {
		target->name = sl_slice((const char *)text.data + NAME_AT, text.len - NAME_AT);
		target->count = sl_policy_limit_variants(policy, (uint32_t)sl_policy_limit_find(policy, target->name),
		                                         target->limits, SL_POLICY_VARIANTS_MAX);
		return true;
	}
	if (named < 0) {
		sl_reply_error(turn, "ERR limit %s: the policy has no limit of that name", sl_shown(text).text);
		return false;
	}
	if (sluice_limit_parse(&target->parsed, text, &error) != SLUICE_OK) {
		sl_reply_error(turn, "ERR limit 1, column %u: %s", error.column, error.text);
		return false;
	}
	target->limits[0] = &target->parsed;
	if (target->name.len > SLUICE_NAME_BYTES_MAX)
		target->name.len = 0;
	return true;
}

/* The limit and the key that stand at 2 and 3. False: answered. */
static bool find(struct sl_resp_turn *turn, struct target *target) {
	struct sluice_bytes key = sl_resp_arg(turn, 3);
	if (turn->context->remote != NULL) {
		sl_reply_error(turn, "ERR the store is in Redis, which keeps no quotas of keys' own");
		return false;
	}
	if (key.len > SLUICE_KEY_BYTES_MAX) {
		sl_reply_error(turn, "ERR the key has %zu bytes: at most %d are allowed", key.len, SLUICE_KEY_BYTES_MAX);
		return false;
	}
	if (!find_limit(turn, sl_resp_arg(turn, 2), target))
		return false;
	target->key = key;
	if (target->limits[0] != &target->parsed)
		target->key = sl_policy_key(turn->context->policy, key, target->memory);
	return true;
}

static int64_t ms_left(sluice_ns ends_after_ns) {
	return ends_after_ns == SLUICE_NEVER ? -1 : sl_ns_to_ms_ceil(ends_after_ns);
}

/* Who did it, for whoever reads the log. */
static void tell(const struct sl_resp_turn *turn, const char *what, const struct target *target, const char *quota) {
	const char *user = turn->session->login.user;
	sl_log(SL_LOG_INFO, "override %s: limit %s key %s%s%s by %s", what, sl_shown(target->name).text,
	       sl_shown(target->key).text, quota[0] != '\0' ? " " : "", quota, user[0] != '\0' ? user : "anybody");
}

/* ---- the subcommands --------------------------------------------------------------------------------------------- */

/* Sets the quota of the first counter that it is one for; the reason of the first where there is none. */
static void set(struct sl_resp_turn *turn, const struct target *target, const struct sluice_limit *own,
                uint64_t ttl_ms) {
	struct sluice_override_request request = {
		.key = target->key, .own = own, .ttl_ns = ttl_ms * SL_MS_NS, .name = target->name};
	struct sluice_error error = {0};
	char text[SLUICE_LIMIT_TEXT_MAX];
	request.limit = target->limits[0];
	for (uint32_t i = 1; i < target->count && sl_own_mismatch(request.limit, own) != NULL; i++)
		if (sl_own_mismatch(target->limits[i], own) == NULL)
			request.limit = target->limits[i];
	if (sluice_override_set(turn->context->store, &request, turn->context->now, &error) != SLUICE_OK) {
		sl_reply_error(turn, "ERR %s", error.text);
		return;
	}
	sluice_limit_print(own, text);
	tell(turn, "set", target, text);
	sl_reply_status(turn, "OK");
}

void sl_resp_override_set(struct sl_resp_turn *turn) {
	struct target target;
	struct sluice_limit own;
	struct sluice_error error;
	uint64_t ttl_ms = 0;
	if (!find(turn, &target))
		return;
	if (turn->request->count > 6) {
		sl_reply_error(turn, "ERR expected SLUICE.OVERRIDE SET limit key notation [ttl_ms]");
	} else if (sluice_limit_parse(&own, sl_resp_arg(turn, 4), &error) != SLUICE_OK) {
		sl_reply_error(turn, "ERR quota, column %u: %s", error.column, error.text);
	} else if (turn->request->count == 6 &&
	           (!sl_bytes_to_u64(sl_resp_arg(turn, 5), &ttl_ms) || ttl_ms < 1 || ttl_ms > TTL_MS_MAX)) {
		sl_reply_error(turn, "ERR ttl_ms %s: expected a whole number from 1 to %llu",
		               sl_shown(sl_resp_arg(turn, 5)).text, (unsigned long long)TTL_MS_MAX);
	} else {
		set(turn, &target, &own, ttl_ms);
	}
}

void sl_resp_override_get(struct sl_resp_turn *turn) {
	struct target target;
	struct sluice_override own;
	char text[SLUICE_LIMIT_TEXT_MAX];
	sluice_err err = SLUICE_E_NONE;
	if (!find(turn, &target))
		return;
	for (uint32_t i = 0; i < target.count && err == SLUICE_E_NONE; i++)
		err = sluice_override_get(turn->context->store, target.limits[i], target.key, turn->context->now, &own);
	if (err == SLUICE_E_NONE) {
		sl_reply_null(turn);
	} else if (err != SLUICE_OK) {
		sl_reply_error(turn, "ERR " SL_HELD_UP_TEXT ": nothing can be told");
	} else {
		sl_reply_array(turn, 2);
		sl_reply_bulk(turn, sl_slice(text, sluice_limit_print(&own.limit, text)));
		sl_reply_integer(turn, ms_left(own.ends_after_ns));
	}
}

void sl_resp_override_del(struct sl_resp_turn *turn) {
	struct target target;
	int64_t gone = 0;
	if (!find(turn, &target))
		return;
	for (uint32_t i = 0; i < target.count; i++) {
		sluice_err err =
			sluice_override_delete(turn->context->store, target.limits[i], target.key, turn->context->now);
		gone += err == SLUICE_OK;
		if (err == SLUICE_OK || err == SLUICE_E_NONE)
			continue;
		sl_reply_error(turn, "ERR " SL_HELD_UP_TEXT ": nothing was changed");
		return;
	}
	if (gone != 0)
		tell(turn, "deleted", &target, "");
	sl_reply_integer(turn, gone);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* One that was told, its three texts after each other in `texts`. */
struct listed {
	size_t name, key, limit;
	int64_t ms_left;
};

struct listing {
	struct listed *list;
	char *texts;
	size_t count, room, used, bytes;
	bool failed;
};

static bool make_room(struct listing *l, size_t more) {
	if (l->count == l->room) {
		size_t room = l->room * 2 + 64;
		struct listed *list = realloc(l->list, room * sizeof *list);
		if (list == NULL)
			return false;
		l->list = list;
		l->room = room;
	}
	if (l->bytes - l->used < more) {
		size_t bytes = l->bytes * 2 + more + 4096;
		char *texts = realloc(l->texts, bytes);
		if (texts == NULL)
			return false;
		l->texts = texts;
		l->bytes = bytes;
	}
	return true;
}

static void keep(struct listing *l, struct sluice_bytes text) {
	memcpy(l->texts + l->used, text.data, text.len);
	l->used += text.len;
}

static void take(void *context, const struct sluice_override_entry *entry) {
	struct listing *l = context;
	if (l->failed || !make_room(l, entry->name.len + entry->key.len + entry->limit.len)) {
		l->failed = true;
		return;
	}
	keep(l, entry->name);
	keep(l, entry->key);
	keep(l, entry->limit);
	l->list[l->count++] =
		(struct listed){entry->name.len, entry->key.len, entry->limit.len, ms_left(entry->ends_after_ns)};
}

static void reply_listed(struct sl_resp_turn *turn, const struct listing *l, uint64_t next) {
	const char *at = l->texts;
	sl_reply_array(turn, 2);
	sl_reply_integer(turn, (int64_t)next);
	sl_reply_array(turn, l->count);
	for (size_t i = 0; i < l->count; i++) {
		const struct listed *one = &l->list[i];
		sl_reply_array(turn, 4);
		sl_reply_bulk(turn, sl_slice(at, one->name));
		sl_reply_bulk(turn, sl_slice(at + one->name, one->key));
		sl_reply_bulk(turn, sl_slice(at + one->name + one->key, one->limit));
		sl_reply_integer(turn, one->ms_left);
		at += one->name + one->key + one->limit;
	}
}

void sl_resp_override_list(struct sl_resp_turn *turn) {
	uint32_t words = turn->request->count;
	uint64_t from = 0, count = LIST_COUNT;
	struct listing l = {0};
	if ((words != 2 && words != 3 && words != 5) || (words > 2 && !sl_bytes_to_u64(sl_resp_arg(turn, 2), &from)) ||
	    (words == 5 && (!sl_bytes_equal_nocase(sl_resp_arg(turn, 3), "COUNT") ||
	                    !sl_bytes_to_u64(sl_resp_arg(turn, 4), &count) || count < 1 || count > LIST_COUNT_MAX))) {
		sl_reply_error(turn, "ERR expected SLUICE.OVERRIDE LIST [cursor [COUNT 1..%d]]", LIST_COUNT_MAX);
		return;
	}
	if (turn->context->remote != NULL) {
		sl_reply_error(turn, "ERR the store is in Redis, which keeps no quotas of keys' own");
		return;
	}
	uint64_t next = sluice_override_list(turn->context->store, from, (uint32_t)count, turn->context->now, take, &l);
	if (l.failed)
		turn->failed = true;
	else
		reply_listed(turn, &l, next);
	free(l.list);
	free(l.texts);
}
