/* See key_override.h. */
#include "hosts/server/door/key_override.h"

#include "algo/override.h"
#include "base/text.h"
#include "hosts/server/door/call_outcome.h"
#include "hosts/server/watch/log.h"
#include "proto/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_AT = sizeof "policy:" - 1 };

__attribute__((format(printf, 3, 4))) static sluice_err fail(struct sluice_error *error, sluice_err err,
                                                             const char *format, ...) {
	va_list values;
	va_start(values, format);
	vsnprintf(error->text, sizeof error->text, format, values);
	va_end(values);
	error->column = 0;
	return err;
}

static sluice_err fail_redis(struct sluice_error *error) {
	return fail(error, SLUICE_E_MISUSE,
	            "the counters are in Redis, which keeps no quotas of keys' own: overrides-from in the policy does, and "
	            "so do stores in memory, shared memory and files");
}

/* ---- whose ------------------------------------------------------------------------------------------------------- */

static void take_named(const struct sluice_policy *policy, struct sluice_bytes name,
                       struct sl_override_target *target) {
	target->name = name;
	target->count = sl_policy_limit_variants(policy, (uint32_t)sl_policy_limit_find(policy, name), target->limits,
	                                         SL_POLICY_VARIANTS_MAX);
}

static sluice_err find_limit(const struct sluice_policy *policy, struct sluice_bytes text,
                             struct sl_override_target *target, struct sluice_error *error) {
	struct sluice_error parsing;
	int named = sl_policy_limit_named(policy, text, &target->limits[0]);
	if (named < 0)
		return fail(error, SLUICE_E_NONE, "limit %s: the policy has no limit of that name", sl_shown(text).text);
	if (named > 0) {
		take_named(policy, sl_slice((const char *)text.data + NAME_AT, text.len - NAME_AT), target);
		return SLUICE_OK;
	}
	if (sluice_limit_parse(&target->parsed, text, &parsing) == SLUICE_OK) {
		target->limits[0] = &target->parsed;
		target->count = 1;
		target->name = sl_slice(text.data, text.len <= SLUICE_NAME_BYTES_MAX ? text.len : 0);
		return SLUICE_OK;
	}
	if (sl_policy_limit_find(policy, text) < 0)
		return fail(error, SLUICE_E_SYNTAX, "limit 1, column %u: %s", parsing.column, parsing.text);
	take_named(policy, text, target);
	return SLUICE_OK;
}

sluice_err sl_override_find(const struct sl_door_context *context, struct sluice_bytes limit, struct sluice_bytes key,
                            struct sl_override_target *target, struct sluice_error *error) {
	sluice_err err;
	if (context->remote != NULL)
		return fail_redis(error);
	if (key.len > SLUICE_KEY_BYTES_MAX)
		return fail(error, SLUICE_E_RANGE, "the key has %zu bytes: at most %d are allowed", key.len,
		            SLUICE_KEY_BYTES_MAX);
	err = find_limit(context->policy, limit, target, error);
	if (err != SLUICE_OK)
		return err;
	target->key = target->limits[0] != &target->parsed ? sl_policy_key(context->policy, key, target->memory) : key;
	return SLUICE_OK;
}

/* ---- one --------------------------------------------------------------------------------------------------------- */

int64_t sl_override_ms_left(sluice_ns ends_after_ns) {
	return ends_after_ns == SLUICE_NEVER ? -1 : sl_ns_to_ms_ceil(ends_after_ns);
}

/* Who did it, for whoever reads the log. */
static void tell(const char *what, const struct sl_override_target *target, const char *quota, const char *user) {
	sl_log(SL_LOG_INFO, "override %s: limit %s key %s%s%s by %s", what, sl_shown(target->name).text,
	       sl_shown(target->key).text, quota[0] != '\0' ? " " : "", quota, user[0] != '\0' ? user : "anybody");
}

/* The first that the quota is one for; the very first, for its reason, where there is none. */
static const struct sluice_limit *choose(const struct sl_override_target *target, const struct sluice_limit *own) {
	for (uint32_t i = 0; i < target->count; i++)
		if (sl_own_mismatch(target->limits[i], own) == NULL)
			return target->limits[i];
	return target->limits[0];
}

sluice_err sl_override_set(const struct sl_door_context *context, const struct sl_override_target *target,
                           struct sluice_bytes notation, uint64_t ttl_ms, const char *user,
                           struct sluice_override *own, struct sluice_error *error) {
	struct sluice_error parsing;
	char text[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_override_request request = {
		.key = target->key, .own = &own->limit, .ttl_ns = ttl_ms * SL_MS_NS, .name = target->name};
	if (sluice_limit_parse(&own->limit, notation, &parsing) != SLUICE_OK)
		return fail(error, SLUICE_E_SYNTAX, "quota, column %u: %s", parsing.column, parsing.text);
	request.limit = choose(target, &own->limit);
	own->ends_after_ns = ttl_ms != 0 ? request.ttl_ns : SLUICE_NEVER;
	sluice_err err = sluice_override_set(context->store, &request, context->now, error);
	if (err == SLUICE_E_BUSY)
		return fail(error, err, SL_HELD_UP_TEXT ": nothing was changed");
	if (err != SLUICE_OK)
		return err;
	sluice_limit_print(&own->limit, text);
	tell("set", target, text, user);
	return SLUICE_OK;
}

sluice_err sl_override_get(const struct sl_door_context *context, const struct sl_override_target *target,
                           struct sluice_override *own, struct sluice_error *error) {
	sluice_err err = SLUICE_E_NONE;
	for (uint32_t i = 0; i < target->count && err == SLUICE_E_NONE; i++)
		err = sluice_override_get(context->store, target->limits[i], target->key, context->now, own);
	return err == SLUICE_OK || err == SLUICE_E_NONE ? err : fail(error, err, SL_HELD_UP_TEXT ": nothing can be told");
}

sluice_err sl_override_delete(const struct sl_door_context *context, const struct sl_override_target *target,
                              const char *user, uint32_t *gone, struct sluice_error *error) {
	*gone = 0;
	for (uint32_t i = 0; i < target->count; i++) {
		sluice_err err = sluice_override_delete(context->store, target->limits[i], target->key, context->now);
		*gone += err == SLUICE_OK;
		if (err != SLUICE_OK && err != SLUICE_E_NONE)
			return fail(error, err, SL_HELD_UP_TEXT ": %s", *gone == 0 ? "nothing was changed" : "not all are deleted");
	}
	if (*gone != 0)
		tell("deleted", target, "", user);
	return SLUICE_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* While the list grows its texts move: their addresses are made at the end. */
static bool make_room(struct sl_override_list *l, size_t more) {
	if (l->count == l->room) {
		size_t room = l->room * 2 + 64;
		struct sl_override_listed *list = realloc(l->list, room * sizeof *list);
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

static struct sluice_bytes keep(struct sl_override_list *l, struct sluice_bytes text) {
	if (text.len != 0)
		memcpy(l->texts + l->used, text.data, text.len);
	l->used += text.len;
	return sl_slice(NULL, text.len);
}

static void take(void *context, const struct sluice_override_entry *entry) {
	struct sl_override_list *l = context;
	if (l->failed || !make_room(l, entry->name.len + entry->key.len + entry->limit.len)) {
		l->failed = true;
		return;
	}
	struct sl_override_listed *one = &l->list[l->count++];
	one->name = keep(l, entry->name);
	one->key = keep(l, entry->key);
	one->limit = keep(l, entry->limit);
	one->ms_left = sl_override_ms_left(entry->ends_after_ns);
}

/* The texts stand after each other. */
static void give_addresses(struct sl_override_list *l) {
	const char *at = l->texts;
	for (size_t i = 0; i < l->count; i++) {
		struct sluice_bytes *const texts[] = {&l->list[i].name, &l->list[i].key, &l->list[i].limit};
		for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
			texts[k]->data = at;
			at += texts[k]->len;
		}
	}
}

sluice_err sl_override_list_read(const struct sl_door_context *context, uint64_t from, uint32_t count,
                                 struct sl_override_list *list, struct sluice_error *error) {
	*list = (struct sl_override_list){.list = NULL};
	if (context->remote != NULL)
		return fail_redis(error);
	list->next = sluice_override_list(context->store, from, count, context->now, take, list);
	give_addresses(list);
	return SLUICE_OK;
}

void sl_override_list_free(struct sl_override_list *list) {
	free(list->list);
	free(list->texts);
}
