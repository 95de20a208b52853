/* A limiter's beginning and end, and its policy.
 *
 * A policy is replaced while calls may look at it: they count themselves in before they take the pointer and out when
 * they have told what it says, and one that was replaced is freed by whoever finds nobody in. No lock: a fork may
 * happen at any instant of another thread, and a lock that its child inherits would never be released. */
#include "bindings/common/inside.h"

#include "hosts/admission/stagger.h"
#include "bindings/common/workspace.h"
#include "base/assert.h"
#include "base/math.h"
#include "os/file.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>

/* Elsewhere a state is published by two stores (sl_store16()), and a process that is killed could leave half of one. */
#if defined(__x86_64__)
static const bool states_are_whole = true;
#else
static const bool states_are_whole = false;
#endif

enum { PATH_BYTES_MAX = 4096 };

/* A policy that was replaced. */
struct sl_retired {
	struct sluice_policy *policy;
	struct sl_retired *next;
};

/* ---- the store --------------------------------------------------------------------------------------------------- */

static bool read_size(struct sluice_bytes text, uint64_t *bytes, struct sl_failure *failure) {
	const char *p = text.data;
	size_t digits = 0;
	uint64_t number, unit;
	while (digits < text.len && p[digits] >= '0' && p[digits] <= '9')
		digits++;
	unit = sl_size_unit(sl_slice(p + digits, text.len - digits));
	if (unit == 0 || !sl_bytes_to_u64(sl_slice(p, digits), &number) || number > UINT64_MAX / unit)
		return sl_fail(failure, SL_FAILED_ARGUMENT, "memory '%.*s': expected a size, such as 64MiB",
		               (int)sl_min(text.len, 64), p);
	*bytes = number * unit;
	return true;
}

static bool copy_path(char path[PATH_BYTES_MAX], struct sluice_bytes text) {
	if (text.len >= PATH_BYTES_MAX || (text.len != 0 && memchr(text.data, '\0', text.len) != NULL))
		return false;
	if (text.len != 0)
		memcpy(path, text.data, text.len);
	path[text.len] = '\0';
	return true;
}

/* Where the store is; `path` is memory for its name. */
static bool read_place(const struct sl_limiter_options *options, struct sluice_store_options *place,
                       char path[PATH_BYTES_MAX], struct sl_failure *failure) {
	static const char shared[] = "shared:";
	const size_t prefix = sizeof shared - 1;
	struct sluice_bytes store = options->store;
	if (options->memory.len != 0 && !read_size(options->memory, &place->memory_bytes, failure))
		return false;
	if (store.len == 0 || sl_bytes_equal(store, sl_str("memory")))
		return true;
	if (!copy_path(path, store))
		return sl_fail(failure, SL_FAILED_ARGUMENT, "the store's name has %zu bytes, or a zero among them", store.len);
	if (store.len >= prefix && memcmp(path, shared, prefix) == 0)
		place->shared = path + prefix;
	else if (strchr(path, '/') != NULL)
		place->file = path;
	else
		return sl_fail(failure, SL_FAILED_ARGUMENT, "store '%.64s': expected memory, shared:NAME or the path of a file "
		               "with a slash in it", path);
	return true;
}

static enum sl_failure_kind kind_of(sluice_err err, const char *text) {
	switch (err) {
	case SLUICE_E_RANGE:
	case SLUICE_E_MISUSE:
		return SL_FAILED_ARGUMENT;
	case SLUICE_E_NONE:
		return SL_FAILED_UNKNOWN;
	case SLUICE_E_STORE:
		return SL_FAILED_STORE;
	case SLUICE_E_BUSY: /* two reasons, which only its text tells apart */
		return strstr(text, "processes have it open") != NULL ? SL_FAILED_FULL : SL_FAILED_BUSY;
	default:
		return SL_FAILED_SYSTEM;
	}
}

static bool open_store(struct sl_limiter *limiter, const struct sl_limiter_options *options,
                       struct sl_failure *failure) {
	struct sluice_store_options place = {0};
	struct sluice_error error = {.text = "no memory"};
	char path[PATH_BYTES_MAX];
	if (!read_place(options, &place, path, failure))
		return false;
	limiter->may_wait = place.file != NULL || place.shared != NULL;
	sluice_err err = sluice_store_open(&limiter->store, &place, &error);
	return err == SLUICE_OK || sl_fail(failure, kind_of(err, error.text), "%s", error.text);
}

/* ---- the policy -------------------------------------------------------------------------------------------------- */

/* A path has no line break, nor a colon with a space after it: YAML that says anything has. */
static bool is_yaml(struct sluice_bytes text) {
	const char *p = text.data;
	for (size_t i = 0; i < text.len; i++)
		if (p[i] == '\n' || (p[i] == ':' && i + 1 < text.len && p[i + 1] == ' '))
			return true;
	return false;
}

/* As many mistakes as there is room for, a line each. */
static bool fail_policy(struct sl_failure *failure, const char *path, const struct sluice_problems *problems) {
	size_t at = 0;
	failure->kind = SL_FAILED_POLICY;
	failure->again = false;
	(void)snprintf(failure->text, sizeof failure->text, "the policy can't be read");
	for (size_t i = 0; i < problems->count && at < sizeof failure->text; i++) {
		const struct sluice_problem *one = &problems->list[i];
		if (one->warning)
			continue;
		int len = snprintf(failure->text + at, sizeof failure->text - at, "%s%s:%u:%u: %s", at == 0 ? "" : "\n", path,
		                   one->line, one->column, one->text);
		if (len < 0 || (size_t)len >= sizeof failure->text - at) {
			failure->text[at == 0 ? sizeof failure->text - 1 : at] = '\0';
			break;
		}
		at += (size_t)len;
	}
	return false;
}

static bool load_yaml(struct sluice_policy **policy, struct sluice_bytes yaml, const char *path,
                      struct sl_failure *failure) {
	struct sluice_problems problems = {0};
	sluice_err err = sluice_policy_load(policy, yaml, &problems);
	bool good = err == SLUICE_OK || (err == SLUICE_E_MEMORY ? sl_fail(failure, SL_FAILED_SYSTEM, "no memory")
	                                                        : fail_policy(failure, path, &problems));
	sluice_problems_free(&problems);
	if (good && sl_policy_quotas_count(*policy) != 0) {
		sluice_policy_free(*policy);
		*policy = NULL;
		return sl_fail(failure, SL_FAILED_POLICY,
		               "%.512s: overrides-from is for servers and the command line: nobody reads that file here", path);
	}
	return good;
}

static bool load_file(struct sluice_policy **policy, struct sluice_bytes name, struct sl_failure *failure) {
	char path[PATH_BYTES_MAX];
	struct sluice_error error;
	size_t len;
	if (!copy_path(path, name))
		return sl_fail(failure, SL_FAILED_ARGUMENT, "policy: neither YAML nor a path");
	char *yaml = sl_file_read_text(path, false, SL_POLICY_FILE_BYTES_MAX, &len, &error);
	if (yaml == NULL)
		return sl_fail(failure, SL_FAILED_POLICY, "the policy %.512s can't be read: %s", path, error.text);
	bool good = load_yaml(policy, sl_slice(yaml, len), path, failure);
	free(yaml);
	return good;
}

static bool load_policy(struct sluice_policy **policy, struct sluice_bytes text, struct sl_failure *failure) {
	return is_yaml(text) ? load_yaml(policy, text, "policy", failure) : load_file(policy, text, failure);
}

static void push_retired(struct sl_limiter *limiter, struct sl_retired *one) {
	one->next = __atomic_load_n(&limiter->retired, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&limiter->retired, &one->next, one, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* Frees what was replaced where nobody may look at any of it; else another time. */
static void free_retired(struct sl_limiter *limiter) {
	struct sl_retired *list = __atomic_exchange_n(&limiter->retired, NULL, __ATOMIC_SEQ_CST);
	/* whoever counts himself in from here on finds the new policy: in one order with sl_limiter_enter() */
	bool free_all = __atomic_load_n(&limiter->admitting, __ATOMIC_SEQ_CST) == 0;
	while (list != NULL) {
		struct sl_retired *next = list->next;
		if (free_all) {
			sluice_policy_free(list->policy);
			free(list);
		} else {
			push_retired(limiter, list);
		}
		list = next;
	}
}

const struct sluice_policy *sl_limiter_enter(struct sl_limiter *limiter) {
	__atomic_add_fetch(&limiter->admitting, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&limiter->policy, __ATOMIC_SEQ_CST);
}

void sl_limiter_leave(struct sl_limiter *limiter) {
	__atomic_sub_fetch(&limiter->admitting, 1, __ATOMIC_SEQ_CST);
}

static bool staggers(const struct sluice_policy *policy) {
	for (uint32_t i = 0; i < sl_policy_limit_count(policy); i++)
		if (sl_policy_limit_at(policy, i)->stagger)
			return true;
	return false;
}

/* The table of tickets, once a policy asks for one. */
static bool make_stagger(struct sl_limiter *limiter, const struct sluice_policy *policy) {
	struct sl_stagger *stagger, *none = NULL;
	if (!staggers(policy) || __atomic_load_n(&limiter->stagger, __ATOMIC_ACQUIRE) != NULL)
		return true;
	stagger = sl_stagger_new();
	if (stagger != NULL &&
	    !__atomic_compare_exchange_n(&limiter->stagger, &none, stagger, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sl_stagger_free(stagger);
	return stagger != NULL;
}

bool sl_limiter_reload(struct sl_limiter *limiter, struct sluice_bytes text, struct sl_failure *failure) {
	struct sluice_policy *policy = NULL;
	struct sl_retired *old = malloc(sizeof *old);
	const char *disarms = NULL;
	if (old == NULL || !load_policy(&policy, text, failure)) {
		bool good = old != NULL || sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
		free(old);
		return good && false;
	}
	const struct sluice_policy *before = sl_limiter_enter(limiter);
	if (before != NULL)
		disarms = sl_policy_disarms(sl_policy_armed(before) & SL_ARMED_LIMITS, policy);
	sl_limiter_leave(limiter);
	if (disarms != NULL || !make_stagger(limiter, policy)) {
		sluice_policy_free(policy);
		free(old);
		return disarms != NULL ? sl_fail(failure, SL_FAILED_POLICY, "the policy was rejected: %s", disarms)
		                       : sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
	}
	old->policy = __atomic_exchange_n(&limiter->policy, policy, __ATOMIC_SEQ_CST);
	push_retired(limiter, old);
	free_retired(limiter);
	return true;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

bool sl_limiter_open(struct sl_limiter **limiter, const struct sl_limiter_options *options,
                     struct sl_failure *failure) {
	struct sl_limiter *made = calloc(1, sizeof *made);
	if (made == NULL)
		return sl_fail(failure, SL_FAILED_SYSTEM, "no memory");
	if (!states_are_whole) {
		free(made);
		return sl_fail(failure, SL_FAILED_SYSTEM,
		               "a store in process is for x86-64 alone: use a server: "
		               "redis://host:port");
	}
	if (!open_store(made, options, failure) ||
	    (options->policy.len != 0 && !sl_limiter_reload(made, options->policy, failure))) {
		sl_limiter_close(made);
		return false;
	}
	*limiter = made;
	return true;
}

void sl_limiter_close(struct sl_limiter *limiter) {
	if (limiter == NULL)
		return;
	sluice_store_close(limiter->store);
	sluice_policy_free(limiter->policy);
	free_retired(limiter);
	sl_stagger_free(limiter->stagger);
	sl_workspace_free(limiter->spare);
	sl_kept_free(limiter);
	free(limiter);
}

bool sl_limiter_may_wait(const struct sl_limiter *limiter) {
	return limiter->may_wait;
}

void sl_limiter_park(struct sl_limiter *limiter) {
	if (limiter->store->stalls != NULL)
		limiter->store->stalls->parks = true;
}

struct sluice_store *sl_limiter_store(const struct sl_limiter *limiter) {
	return limiter->store;
}

/* ---- one plain limit --------------------------------------------------------------------------------------------- */

sluice_err sl_limiter_check_at(struct sl_limiter *limiter, struct sluice_bytes key, struct sluice_bytes limit,
                               uint32_t cost, sluice_ns now, struct sluice_decision *decision) {
	const struct sl_kept *kept = sl_kept_find(limiter, limit);
	if (kept == NULL || !kept->plain)
		return SLUICE_E_NONE;
	struct sluice_item item = {.limit = &kept->limit, .key = key};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = cost, .operation = SLUICE_CHARGE};
	call.now = now != 0 ? now : sluice_store_now(limiter->store);
	call.now = sl_algorithms_instant(sl_algorithm_bit(&kept->limit), call.now);
	sluice_err err = sluice_decide(limiter->store, &call);
	if (err == SLUICE_OK)
		*decision = call.merged;
	return err;
}

static __attribute__((noinline)) sluice_err check_other(struct sl_limiter *limiter, struct sluice_bytes key,
                                                        struct sluice_bytes limit, uint32_t cost,
                                                        struct sluice_decision *decision) {
	return sl_limiter_check_at(limiter, key, limit, cost, 0, decision);
}

/* Calls stand at its end only, so that it saves nothing. */
sluice_err sl_limiter_check(struct sl_limiter *limiter, struct sluice_bytes key, struct sluice_bytes limit,
                            uint32_t cost, struct sluice_decision *decision) {
	const struct sl_kept *kept = sl_kept_first(limiter, limit);
	if (__builtin_expect(kept == NULL, 0))
		return check_other(limiter, key, limit, cost, decision);
	return sluice_check(limiter->store, &kept->limit, key, cost, decision);
}

/* ---- several ----------------------------------------------------------------------------------------------------- */

static const struct sl_kept *keep(struct sl_limiter *limiter, struct sluice_bytes text) {
	const struct sl_kept *kept = sl_kept_find(limiter, text);
	struct sluice_limit limit;
	struct sluice_error error;
	if (kept != NULL || sluice_limit_parse(&limit, text, &error) != SLUICE_OK)
		return kept;
	sl_kept_add(limiter, text, &limit);
	return sl_kept_find(limiter, text);
}

bool sl_limiter_set(struct sl_limiter *limiter, const struct sluice_bytes *texts, uint32_t count, struct sl_set *set) {
	set->count = 0;
	set->algorithms = 0;
	if (count == 0 || count > SLUICE_ITEMS_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct sl_kept *kept = keep(limiter, texts[i]);
		if (kept == NULL || !kept->plain)
			return false;
		set->limits[i] = &kept->limit;
		set->algorithms |= sl_algorithm_bit(&kept->limit);
	}
	set->count = count;
	return true;
}

static sluice_err check_several(struct sl_limiter *limiter, const struct sl_set *set, struct sluice_bytes key,
                                uint32_t cost, struct sluice_decision *decision) {
	struct sluice_item items[SLUICE_ITEMS_MAX];
	struct sluice_call call = {.items = items, .item_count = set->count, .cost = cost, .operation = SLUICE_CHARGE};
	for (uint32_t i = 0; i < set->count; i++)
		items[i] = (struct sluice_item){.limit = set->limits[i], .key = key};
	call.now = sl_algorithms_instant(set->algorithms, sluice_store_now(limiter->store));
	sluice_err err = sluice_decide(limiter->store, &call);
	if (err == SLUICE_OK)
		*decision = call.merged;
	return err;
}

sluice_err sl_limiter_check_set(struct sl_limiter *limiter, const struct sl_set *set, struct sluice_bytes key,
                                uint32_t cost, struct sluice_decision *decision) {
	SL_ASSERT(set->count >= 1 && set->count <= SLUICE_ITEMS_MAX);
	if (set->count != 1 || (set->algorithms & sl_algorithms_with(SL_ROUNDS_TO_MS)) != 0)
		return check_several(limiter, set, key, cost, decision);
	return sluice_check(limiter->store, set->limits[0], key, cost, decision);
}
