/* See key_override.h. */
#include "hosts/server/door/key_override.h"

#include "algo/override.h"
#include "base/fold.h"
#include "base/text.h"
#include "hosts/server/door/call_outcome.h"
#include "hosts/server/door/override_ask.h"
#include "hosts/server/door/pending.h"
#include "hosts/server/watch/key_shown.h"
#include "hosts/server/watch/log.h"
#include "proto/command.h"
#include "store/store.h"

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

/* ---- whose ------------------------------------------------------------------------------------------------------- */

static void take_named(const struct sluice_policy *policy, struct sluice_bytes name,
                       struct sl_override_target *target) {
	target->name = name;
	target->policy_name = sluice_policy_limit_name(policy, (uint32_t)sl_policy_limit_find(policy, name));
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
		return fail(error, SLUICE_E_SYNTAX, "limit %s is no name of the policy's, and no notation: column %u: %s",
		            sl_shown(text).text, parsing.column, parsing.text);
	take_named(policy, text, target);
	return SLUICE_OK;
}

sluice_err sl_override_find(const struct sl_door_context *context, struct sluice_bytes limit, struct sluice_bytes key,
                            struct sl_override_target *target, struct sluice_error *error) {
	sluice_err err = find_limit(context->policy, limit, target, error);
	if (err != SLUICE_OK)
		return err;
	key = sl_key_fold(target->folded, key);
	target->key = target->limits[0] != &target->parsed ? sl_policy_key(context->policy, key, target->memory) : key;
	return SLUICE_OK;
}

/* ---- one --------------------------------------------------------------------------------------------------------- */

static void count(const struct sl_door_context *context, struct sl_override_changer changer, enum sl_event event) {
	if (context->stats != NULL)
		sl_count(&context->stats->events[changer.transport][event], 1);
}

/* The key in the form that logs have. */
static struct sl_shown key_shown(const struct sluice_policy *policy, const struct sl_override_target *target) {
	char memory[2 * SLUICE_KEY_BYTES_MAX];
	return sl_shown(sl_key_shown(&sl_policy_settings(policy)->log, target->key, memory));
}

/* Who did it, for whoever reads the log. */
static void tell(const struct sluice_policy *policy, const char *what, const struct sl_override_target *target,
                 const char *quota, const char *user) {
	sl_log(SL_LOG_INFO, "override %s: limit %s key %s%s%s by %s", what, sl_shown(target->name).text,
	       key_shown(policy, target).text, quota[0] != '\0' ? " " : "", quota, user[0] != '\0' ? user : "anybody");
}

/* Says so where no request that the policy matches has such a key: then only calls that name the limit and the key
 * count by its quota, and more often the key was mistyped. */
static void warn(const struct sluice_policy *policy, const struct sl_override_target *target) {
	int64_t found = target->limits[0] == &target->parsed ? -1 : sl_policy_limit_find(policy, target->name);
	uint32_t position = (uint32_t)found;
	if (found < 0 || found >= sl_policy_limit_count(policy)) /* a rule of envoyproxy/ratelimit's files */
		return;
	const char *why = sl_policy_key_is_foreign(policy, position, target->key)
	                      ? "expected the key of a request, such as user=alice"
	                  : sl_policy_key_is_excluded(policy, position, target->key)
	                      ? "the limit's own `when` excludes this key"
	                      : NULL;
	if (why != NULL)
		sl_log(SL_LOG_WARNING, "override set: limit %s key %s: never used: %s", sl_shown(target->name).text,
		       key_shown(policy, target).text, why);
}

/* Asks the nodes of Redis. SL_E_WAITS; or what it came to, with *told what is told until sl_pending_settle(). */
static sluice_err ask_remote(struct sl_door_context *context, const struct sl_override_target *target,
                             struct sl_override_ask *asked, struct sl_override_ask **told,
                             struct sluice_error *error) {
	if (target != NULL) {
		asked->key = target->key;
		asked->name = target->limits[0] != &target->parsed ? target->policy_name : NULL;
	}
	if (!sl_pending_override(context, asked, told))
		return (sluice_err)SL_E_WAITS;
	if ((*told)->err != SLUICE_OK && (*told)->err != SLUICE_E_NONE)
		*error = (*told)->error;
	return (*told)->err;
}

/* The same about all counters of the target; what is told goes to the caller's own. */
static sluice_err ask_of_target(struct sl_door_context *context, const struct sl_override_target *target,
                                struct sl_override_ask *asked, struct sluice_error *error) {
	struct sluice_limit *limits = malloc(target->count * sizeof *limits);
	struct sl_override_ask *told;
	if (limits == NULL)
		return fail(error, SLUICE_E_AWAY, "there is no memory for it");
	for (uint32_t i = 0; i < target->count; i++)
		limits[i] = *target->limits[i];
	asked->limits = limits;
	asked->count = target->count;
	sluice_err err = ask_remote(context, target, asked, &told, error);
	free(limits);
	if (err == (sluice_err)SL_E_WAITS)
		return err;
	asked->found = told->found;
	asked->gone = told->gone;
	sl_pending_settle(context);
	return err;
}

/* The first that the quota is one for; the very first, for its reason, where there is none. */
static const struct sluice_limit *choose(const struct sl_override_target *target, const struct sluice_limit *own) {
	for (uint32_t i = 0; i < target->count; i++)
		if (sl_own_mismatch(target->limits[i], own) == NULL)
			return target->limits[i];
	return target->limits[0];
}

static sluice_err set_remote(struct sl_door_context *context, const struct sl_override_target *target,
                             const struct sluice_override_request *request, uint64_t ttl_ms,
                             struct sluice_error *error) {
	struct sl_override_ask asked = {.kind = SL_OVERRIDE_SET,
	                                .limits = request->limit,
	                                .count = 1,
	                                .own = *request->own,
	                                .ttl_ms = ttl_ms},
						   *told;
	const char *why = sl_own_mismatch(request->limit, request->own);
	if (why != NULL)
		return fail(error, SLUICE_E_RANGE, "%s%s", SL_OWN_MISMATCH_TEXT, why);
	sluice_err err = ask_remote(context, target, &asked, &told, error);
	if (err != (sluice_err)SL_E_WAITS)
		sl_pending_settle(context);
	return err;
}

sluice_err sl_override_set(struct sl_door_context *context, const struct sl_override_target *target,
                           struct sluice_bytes notation, uint64_t ttl_ms, struct sl_override_changer changer,
                           struct sluice_override *own, struct sluice_error *error) {
	struct sluice_error parsing;
	char text[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_override_request request = {
		.key = target->key,
		.own = &own->limit,
		.ttl_ns = ttl_ms * SL_MS_NS,
		.most = sl_policy_settings(context->policy)->overrides_most,
		.name = target->name};
	if (sluice_limit_parse(&own->limit, notation, &parsing) != SLUICE_OK)
		return fail(error, SLUICE_E_SYNTAX, "quota, column %u: %s", parsing.column, parsing.text);
	request.limit = choose(target, &own->limit);
	own->ends_after_ns = ttl_ms != 0 ? request.ttl_ns : SLUICE_NEVER;
	sluice_err err = context->remote != NULL ? set_remote(context, target, &request, ttl_ms, error)
	                                         : sluice_override_set(context->store, &request, context->now, error);
	if (err == SLUICE_E_BUSY)
		return fail(error, err, SL_HELD_UP_TEXT ": nothing was changed");
	if (err == SLUICE_E_FULL)
		count(context, changer, SL_EVENT_OVERRIDE_FULL);
	if (err != SLUICE_OK)
		return err;
	count(context, changer, SL_EVENT_OVERRIDE_SET);
	sluice_limit_print(&own->limit, text);
	tell(context->policy, "set", target, text, changer.user);
	warn(context->policy, target);
	return SLUICE_OK;
}

static sluice_err get_here(const struct sl_door_context *context, const struct sl_override_target *target,
                           struct sluice_override *own) {
	sluice_err err = SLUICE_E_NONE;
	for (uint32_t i = 0; i < target->count && err == SLUICE_E_NONE; i++)
		err = sluice_override_get(context->store, target->limits[i], target->key, context->now, own);
	return err;
}

sluice_err sl_override_get(struct sl_door_context *context, const struct sl_override_target *target,
                           struct sluice_override *own, struct sluice_error *error) {
	struct sl_override_ask asked = {.kind = SL_OVERRIDE_GET};
	sluice_err err;
	if (context->remote != NULL) {
		err = ask_of_target(context, target, &asked, error);
		*own = asked.found;
		return err;
	}
	err = get_here(context, target, own);
	return err == SLUICE_OK || err == SLUICE_E_NONE ? err : fail(error, err, SL_HELD_UP_TEXT ": nothing was read");
}

sluice_err sl_override_delete(struct sl_door_context *context, const struct sl_override_target *target,
                              struct sl_override_changer changer, uint32_t *gone, struct sluice_error *error) {
	struct sl_override_ask asked = {.kind = SL_OVERRIDE_DELETE};
	*gone = 0;
	if (context->remote != NULL) {
		sluice_err err = ask_of_target(context, target, &asked, error);
		if (err != SLUICE_OK)
			return err;
		*gone = asked.gone;
	}
	for (uint32_t i = 0; i < target->count && context->remote == NULL; i++) {
		sluice_err err = sluice_override_delete(context->store, target->limits[i], target->key, context->now);
		*gone += err == SLUICE_OK;
		if (err != SLUICE_OK && err != SLUICE_E_NONE)
			return fail(error, err, SL_HELD_UP_TEXT ": %s", *gone == 0 ? "nothing was changed" : "not all are deleted");
	}
	if (*gone != 0) {
		count(context, changer, SL_EVENT_OVERRIDE_DELETED);
		tell(context->policy, "deleted", target, "", changer.user);
	}
	return SLUICE_OK;
}

/* ---- beside other figures ---------------------------------------------------------------------------------------- */

bool sl_override_of_item(const struct sl_door_context *context, const struct sluice_item *item, sluice_ns now,
                         struct sluice_override *own) {
	return context->remote == NULL &&
	       sluice_override_get(context->store, item->limit, item->key, now, own) == SLUICE_OK;
}

bool sl_override_of_key(const struct sl_door_context *context, bool named, struct sluice_bytes limit,
                        struct sluice_bytes key, struct sluice_override *own) {
	struct sl_override_target target = {.name = limit, .key = key};
	struct sluice_error error;
	if (context->remote != NULL || !sl_store_has_overrides(context->store))
		return false;
	if (named && sl_policy_limit_find(context->policy, limit) >= 0)
		take_named(context->policy, limit, &target);
	else if (!named && sluice_limit_parse(&target.parsed, limit, &error) == SLUICE_OK)
		target.limits[target.count++] = &target.parsed;
	return get_here(context, &target, own) == SLUICE_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void take(void *context, const struct sluice_override_entry *entry) {
	sl_override_list_add(context, entry->name, entry->key, entry->limit, sl_ns_to_ms_ceil(entry->ends_after_ns));
}

static sluice_err list_remote(struct sl_door_context *context, uint64_t from, uint32_t count,
                              struct sl_override_list *list, struct sluice_error *error) {
	struct sl_override_ask asked = {.kind = SL_OVERRIDE_LIST, .from = from, .most = count}, *told;
	sluice_err err = ask_remote(context, NULL, &asked, &told, error);
	if (err == (sluice_err)SL_E_WAITS)
		return err;
	*list = told->list;
	told->list = (struct sl_override_list){.list = NULL};
	sl_pending_settle(context);
	return err;
}

sluice_err sl_override_list_read(struct sl_door_context *context, uint64_t from, uint32_t count,
                                 struct sl_override_list *list, struct sluice_error *error) {
	*list = (struct sl_override_list){.list = NULL};
	if (context->remote != NULL)
		return list_remote(context, from, count, list, error);
	list->next = sluice_override_list(context->store, from, count, context->now, take, list);
	sl_override_list_end(list);
	return SLUICE_OK;
}
