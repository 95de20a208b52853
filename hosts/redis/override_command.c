/* SLUICE.OVERRIDE SET|GET|DEL|LIST: quotas of keys' own, at run time (own_quota.h), in the words of the server's door
 * (proto/override_words.h). The key is one of Redis, and LIMIT in notation; fronts say the NAME that it has in their
 * policy.
 *
 * A quota is part of its key's value: it is saved, replicated and moved with it, and gone with DEL of the key. A key
 * with one that does not end has no expiry.
 *
 * LIST walks the keyspace by SCAN, so many keys a call, found or looked for, since values do not know their keys; where
 * there are none it says so at once. It tells what its caller's user may read. */
#include "algo/override.h"
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/own_quota.h"
#include "hosts/redis/part.h"
#include "hosts/redis/request.h"
#include "proto/override_words.h"

#define NO_MEMORY_TEXT "OOM command not allowed when used memory > 'maxmemory'." /* in Redis' own words */

enum { VISITED_A_CALL = 512 /* keys */, SCANNED_AT_ONCE = 128 };

/* One command is read at a time. */
static struct sl_override_words words;
static struct sluice_bytes texts[SL_COMMAND_ARGS_MAX];

static bool take_texts(const struct slr_request *request) {
	if (request->count > SL_COMMAND_ARGS_MAX) {
		slr_fail(request, "too many arguments: at most %d in one command", SL_COMMAND_ARGS_MAX);
		return false;
	}
	for (uint32_t i = 0; i < request->count; i++)
		texts[i] = slr_arg(request, i);
	return true;
}

/* ---- one --------------------------------------------------------------------------------------------------------- */

/* The limit whose counter it is, and its key, which is opened. False: the reply has been given. */
static bool open_counter(struct slr_request *request, struct sluice_limit *limit, bool to_write) {
	struct sluice_error error;
	if (!slr_limit_read(limit, words.limit, &error)) {
		slr_fail(request, "limit 1, column %u: %s", error.column, error.text);
		return false;
	}
	if (words.name.data != NULL && sl_rule_has(limit, SL_HAS_COUNTER))
		sl_rule_name(limit, words.name);
	if (sl_rule_needs_key(limit))
		sl_rule_key(limit, words.key);
	(void)slr_read_key(request, 3);
	if (!slr_keys_open(request, to_write))
		return false;
	(void)slr_key_begin(&request->call->keys[0]);
	request->call->heard = slr_is_heard();
	return true;
}

/* Begins a command about one counter. False: the reply has been given. */
static bool begin(struct slr_request *request, struct RedisModuleCtx *context, struct RedisModuleString **args,
                  int count, bool set) {
	slr_request_begin(request, context, args, count);
	if (!take_texts(request))
		return false;
	if (set ? sl_override_read_set(&words, texts, request->count, true)
	        : sl_override_read_one(&words, texts, request->count, true))
		return true;
	slr_fail(request, "%s", words.error);
	return false;
}

/* As decisions have it: whole milliseconds. */
static sluice_ns instant(void) {
	sluice_ns now = slr_clock_now();
	return now - now % SL_MS_NS;
}

/* After a change of the key's value: keeps it as long as all that is in it needs it. */
static void keep(struct slr_request *request, const struct sluice_limit *limit, sluice_ns now, int64_t before_ms) {
	struct slr_key *key = &request->call->keys[0];
	key->changed = key->exact = true;
	if (key->value != 0)
		key->expire_ms = slr_own_expiry(key->value, limit, now, slr_clock_wall_ms(), before_ms);
	slr_value_slim(&key->value); /* after it: a row alone doesn't know how long it lives */
	slr_keys_keep(request);
}

/* What the key's expiry said of its counters is noted with each: from now on it says more. */
static void note_expiry(slr_value value, int64_t expire_ms) {
	struct slr_counter scratch;
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		const struct slr_counter *counter = slr_value_at(value, i, &scratch);
		if (slr_value_until(value, i) == SLR_UNTIL_UNKNOWN && slr_own_of(counter) == NULL)
			slr_value_keep(value, counter->identity, expire_ms);
	}
}

/* Tells replicas until when strikes are kept: only the terms of their last denial say it, and a key whose quota does
 * not end has no expiry that would. */
static void tell_strikes(struct slr_key *key) {
	struct slr_counter scratch;
	for (uint32_t i = 0; i < slr_value_count(key->value); i++) {
		const struct slr_counter *counter = slr_value_at(key->value, i, &scratch);
		if (slr_companion_is(SLR_COMPANION_STRIKES, counter->identity))
			slr_effect_kept(&key->effects, counter, slr_value_until(key->value, i));
	}
}

static void put(struct slr_request *request, const struct sluice_limit *limit, const struct sluice_limit *own) {
	struct slr_key *key = &request->call->keys[0];
	struct sl_identity identity = sl_identity_of(limit);
	struct sluice_bytes name = words.name.data != NULL ? words.name : words.limit;
	struct slr_counter scratch;
	sluice_ns now = instant();
	int64_t before_ms = key->value != 0 ? slr_GetAbsExpire(request->keys[0]) : SLR_NO_EXPIRE;
	slr_own_put(&key->value, identity, own, slr_own_end(own, now, words.ttl_ms * SL_MS_NS),
	            sl_slice(name.data, name.len <= SLUICE_NAME_BYTES_MAX ? name.len : 0));
	if (before_ms != SLR_NO_EXPIRE)
		note_expiry(key->value, before_ms);
	if (request->call->heard)
		slr_effect_whole(
			&key->effects,
			slr_value_find(key->value, slr_companion_of(SLR_COMPANION_OVERRIDE, identity), &scratch));
	if (request->call->heard)
		tell_strikes(key);
	keep(request, limit, now, before_ms);
	slr_ReplyWithSimpleString(request->context, "OK");
}

/* Whether there is room for the quota: for one more, or it takes the place of another. False: the reply has been
 * given. */
static bool has_room(struct slr_request *request, const struct sluice_limit *limit) {
	const struct slr_key *key = &request->call->keys[0];
	if (slr_own_find(key->value, sl_identity_of(limit)) != NULL)
		return true;
	if (slr_value_count(key->value) >= SLR_COUNTERS_MAX)
		slr_fail(request, "%s", SL_OWN_KEY_FULL_TEXT "256");
	else if (slr_own_count() >= slr_settings.overrides_max)
		slr_fail(request, "%s", SL_OWN_FULL_TEXT "overrides-max, an argument of the module, allows");
	else if (slr_request_is_full(request))
		slr_ReplyWithError(request->context, NO_MEMORY_TEXT);
	else
		return true;
	return false;
}

static int set(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct sluice_limit limit, own, checked;
	struct slr_request request;
	struct sluice_error error;
	const char *why;
	if (!begin(&request, context, args, count, true))
		return SLR_REDIS_OK;
	if (sluice_limit_parse(&own, words.quota, &error) != SLUICE_OK) {
		slr_fail(&request, "quota, column %u: %s", error.column, error.text);
		return SLR_REDIS_OK;
	}
	if (!open_counter(&request, &limit, true))
		return SLR_REDIS_OK;
	checked = own;
	if (sl_rule_needs_key(&own) && sl_rule_spreads(&limit))
		checked.burst = limit.burst; /* the phase that the key gives */
	why = sl_own_mismatch(&limit, &checked);
	if (why != NULL)
		slr_fail(&request, "%s%s", SL_OWN_MISMATCH_TEXT, why);
	else if (has_room(&request, &limit))
		put(&request, &limit, &own);
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}

static int64_t ms_left(const struct slr_own *own, sluice_ns now) {
	return own->end == SLUICE_NEVER ? -1 : sl_ns_to_ms_ceil(own->end - now);
}

static int get(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	struct sluice_limit limit;
	const struct slr_own *own;
	sluice_ns now = instant();
	if (!begin(&request, context, args, count, false) || !open_counter(&request, &limit, false))
		return SLR_REDIS_OK;
	own = slr_own_find(request.call->keys[0].value, sl_identity_of(&limit));
	if (own == NULL || own->end <= now) {
		slr_ReplyWithNull(context);
	} else {
		slr_ReplyWithArray(context, 2);
		slr_ReplyWithStringBuffer(context, slr_own_text(own).data, own->text);
		slr_ReplyWithLongLong(context, ms_left(own, now));
	}
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}

static int del(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	struct sluice_limit limit;
	struct sl_identity identity;
	struct slr_key *key;
	const struct slr_own *own;
	sluice_ns now = instant();
	bool counts;
	if (!begin(&request, context, args, count, false) || !open_counter(&request, &limit, true))
		return SLR_REDIS_OK;
	key = &request.call->keys[0];
	own = slr_own_find(key->value, sl_identity_of(&limit));
	counts = own != NULL && own->end > now;
	if (own != NULL) {
		int64_t before_ms = slr_GetAbsExpire(request.keys[0]);
		identity = slr_companion_of(SLR_COMPANION_OVERRIDE, sl_identity_of(&limit));
		slr_value_remove(&key->value, identity);
		if (request.call->heard)
			slr_effect_gone(&key->effects, identity);
		keep(&request, &limit, now, before_ms);
	}
	slr_ReplyWithLongLong(context, counts);
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* A list being made: the cursor stands before what is told, and is known after it. So the keys of which something is
 * to be told are kept until then. */
struct listing {
	struct RedisModuleCtx *context;
	struct RedisModuleUser *user;
	sluice_ns now;
	uint64_t next;
	struct RedisModuleString **keys;
	uint32_t key_count, room, visited, found;
};

/* Which rows of a value tell of a quota; `tell`: each is told. */
static uint32_t walk(const struct listing *l, struct RedisModuleString *key, slr_value value, bool tell) {
	const struct sluice_bytes name = slr_text(key);
	struct slr_counter scratch;
	uint32_t found = 0;
	for (uint32_t i = 0; slr_value_has_companions(value) && i < slr_value_count(value); i++) {
		const struct slr_own *own = slr_own_of(slr_value_at(value, i, &scratch));
		if (own == NULL || own->end <= l->now)
			continue;
		found++;
		if (!tell)
			continue;
		slr_ReplyWithArray(l->context, 4);
		slr_ReplyWithStringBuffer(l->context, slr_own_name(own).data, own->name);
		slr_ReplyWithStringBuffer(l->context, name.data, sl_min(name.len, SLUICE_KEY_BYTES_MAX));
		slr_ReplyWithStringBuffer(l->context, slr_own_text(own).data, own->text);
		slr_ReplyWithLongLong(l->context, ms_left(own, l->now));
	}
	return found;
}

static uint32_t visit(const struct listing *l, struct RedisModuleString *key, bool tell) {
	struct RedisModuleKey *opened = slr_OpenKey(l->context, key, SLR_KEY_READ | SLR_KEY_NOTOUCH);
	uint32_t found = 0;
	if (opened != NULL && slr_ModuleTypeGetType(opened) == slr_type)
		found = walk(l, key, (slr_value)slr_ModuleTypeGetValue(opened), tell);
	if (opened != NULL)
		slr_CloseKey(opened);
	return found;
}

static void note_key(struct listing *l, struct RedisModuleString *key) {
	if (l->key_count == l->room) {
		uint32_t room = l->room * 2 + SCANNED_AT_ONCE;
		struct RedisModuleString **more = slr_take(room * sizeof(void *));
		if (l->key_count != 0)
			memcpy(more, l->keys, l->key_count * sizeof(void *));
		slr_give(l->keys);
		l->keys = more;
		l->room = room;
	}
	l->keys[l->key_count++] = key;
}

/* A key that was scanned: kept, where something is to be told of it that the user may read. */
static void take_key(struct listing *l, struct RedisModuleString *key) {
	uint32_t found = l->user != NULL ? visit(l, key, false) : 0;
	l->visited++;
	if (found != 0 && slr_ACLCheckKeyPermissions(l->user, key, SLR_SPEC_ACCESS) == SLR_REDIS_OK) {
		l->found += found;
		note_key(l, key);
	} else {
		slr_FreeString(l->context, key);
	}
}

/* Takes the next keys. False: those were the last. Where a table has become sparse a step finds none in up to ten times
 * as many of its buckets, so it counts as the keys that it was asked for. */
static bool scan(struct listing *l, uint32_t count) {
	const uint32_t before = l->visited;
	struct RedisModuleCallReply *reply =
		slr_Call(l->context, "SCAN", "lcl", (long long)l->next, "COUNT", (long long)count), *cursor, *keys;
	struct sluice_bytes next = sl_slice(NULL, 0);
	cursor = reply != NULL ? slr_CallReplyArrayElement(reply, 0) : NULL;
	keys = reply != NULL ? slr_CallReplyArrayElement(reply, 1) : NULL;
	if (cursor != NULL)
		next.data = slr_CallReplyStringPtr(cursor, &next.len);
	if (next.data == NULL || !sl_bytes_to_u64(next, &l->next))
		l->next = 0;
	for (size_t i = 0; keys != NULL && i < slr_CallReplyLength(keys); i++)
		take_key(l, slr_CreateStringFromCallReply(slr_CallReplyArrayElement(keys, i)));
	if (reply != NULL)
		slr_FreeCallReply(reply);
	l->visited = (uint32_t)sl_max(l->visited, before + count);
	return l->next != 0;
}

static void reply_listed(struct listing *l) {
	slr_ReplyWithArray(l->context, 2);
	slr_ReplyWithLongLong(l->context, (long long)l->next);
	slr_ReplyWithArray(l->context, l->found);
	for (uint32_t k = 0; k < l->key_count; k++) {
		(void)visit(l, l->keys[k], true);
		slr_FreeString(l->context, l->keys[k]);
	}
	slr_give(l->keys);
}

static int list(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	struct listing l = {.context = context, .now = instant()};
	bool more = slr_own_count() != 0;
	slr_request_begin(&request, context, args, count);
	if (!take_texts(&request))
		return SLR_REDIS_OK;
	if (!sl_override_read_list(&words, texts, request.count)) {
		slr_fail(&request, "%s", words.error);
		return SLR_REDIS_OK;
	}
	l.next = more ? words.from : 0;
	l.user = slr_user_of(context);
	while (more && l.found < words.count && l.visited < VISITED_A_CALL)
		more = scan(&l, (uint32_t)sl_min(words.count, SCANNED_AT_ONCE));
	if (l.user != NULL)
		slr_FreeModuleUser(l.user);
	reply_listed(&l);
	return SLR_REDIS_OK;
}

static int help(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	static const char *const lines[] = {
		"SLUICE.OVERRIDE <subcommand> [<arg> ...]. Subcommands are:",
		"SET <limit> <key> <quota> [<ttl-ms>] [NAME <name>]",
		"    Gives a key of a limit another quota.",
		"GET <limit> <key> [NAME <name>]",
		"    A key's own quota, and when it ends.",
		"DEL <limit> <key> [NAME <name>]",
		"    Forgets a key's own quota.",
		"LIST [<cursor> [COUNT <count>]]",
		"    Quotas of keys' own, some at a time.",
		"HELP",
		"    Prints this help.",
	};
	(void)args;
	(void)count;
	slr_ReplyWithArray(context, sizeof lines / sizeof lines[0]);
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		slr_ReplyWithSimpleString(context, lines[i]);
	return SLR_REDIS_OK;
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

static const struct sl_argument set_arguments[] = {
	{.name = "limit", .type = SL_ARGUMENT_STRING},
	{.name = "key", .type = SL_ARGUMENT_KEY},
	{.name = "quota", .type = SL_ARGUMENT_STRING},
	{.name = "ttl-ms", .type = SL_ARGUMENT_INTEGER, .optional = true},
	{.name = "name", .token = "NAME", .type = SL_ARGUMENT_STRING, .optional = true},
};
static const struct sl_argument one_arguments[] = {
	{.name = "limit", .type = SL_ARGUMENT_STRING},
	{.name = "key", .type = SL_ARGUMENT_KEY},
	{.name = "name", .token = "NAME", .type = SL_ARGUMENT_STRING, .optional = true},
};
static const struct sl_argument list_arguments[] = {
	{.name = "cursor", .type = SL_ARGUMENT_INTEGER, .optional = true},
	{.name = "count", .token = "COUNT", .type = SL_ARGUMENT_INTEGER, .optional = true},
};

#define ONE "O(N) with N the number of counters of the key"
#define ARGUMENTS(list) .arguments = list, .argument_count = sizeof list / sizeof list[0]

const struct slr_command_row slr_override_commands[] = {
	{"sluice.override", NULL, 0, "admin", "admin dangerous", .arity = -2, .key_at = -1,
     .summary = "Quotas of keys' own, at run time"},
	{"sluice.override|set", set, 0, "write admin fast", "admin dangerous", .arity = -5, .key_at = 3,
     .complexity = ONE, .summary = "Gives a key of a limit another quota", ARGUMENTS(set_arguments)},
	{"sluice.override|get", get, 0, "readonly admin fast", "admin dangerous", .arity = -4, .key_at = 3, .reads = true,
     .complexity = ONE, .summary = "A key's own quota, and when it ends", ARGUMENTS(one_arguments)},
	{"sluice.override|del", del, 0, "write admin fast", "admin dangerous", .arity = -4, .key_at = 3,
     .complexity = ONE, .summary = "Forgets a key's own quota", ARGUMENTS(one_arguments)},
	{"sluice.override|list", list, 0, "readonly admin", "admin dangerous", .reads = true, .arity = -2, .key_at = -1,
     .complexity = "O(N) with N the keys looked at: at most some 500 a call",
     .summary = "Quotas of keys' own, some at a time", ARGUMENTS(list_arguments)},
	{"sluice.override|help", help, 0, "allow-loading allow-stale", "admin dangerous", .arity = 2, .key_at = -1,
     .complexity = "O(1)", .summary = "Lists the subcommands"},
	{.name = NULL},
};
