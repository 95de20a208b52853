/* The policy: loaded at the start, and read again while the server serves.
 *
 * A reload prepares everything first (text, certificates, rows in the stats) and only then has the workers change over,
 * each at its next turn: what cannot be prepared leaves the current policy untouched. Counters are found by the names
 * and numbers of their limits, so they are kept wherever those are.
 *
 * A policy that would disarm is refused: one without the limits or the users that the one before had, which does not
 * say that none are meant. It runs on the reader's thread (reader.c), one at a time: no file is read by who serves, nor
 * with policy_lock in hand. */
#include "hosts/server/lifecycle/reload.h"

#include "hosts/files/denied_files.h"
#include "hosts/files/envoy_files.h"
#include "hosts/files/quota_files.h"
#include "hosts/server/lifecycle/entrances.h"
#include "hosts/server/lifecycle/readiness.h"
#include "hosts/server/lifecycle/store_location.h"
#include "hosts/server/tls/tls.h"
#include "policy/conf_terms.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BEGINNING_TOLD = 5 }; /* limits whose counters begin anew, by name; of the others only how many */

/* ---- what it came to ------------------------------------------------------------------------------------------- */

void sl_reload_say(struct sl_reload *outcome, const char *format, ...) {
	size_t used = strlen(outcome->messages), room = sizeof outcome->messages - used;
	va_list list;
	if (used != 0 && room > 1) {
		outcome->messages[used++] = '\n';
		outcome->messages[used] = '\0';
		room--;
	}
	va_start(list, format);
	vsnprintf(outcome->messages + used, room, format, list);
	va_end(list);
}

void sl_reload_tell(const struct sl_server_options *options, const struct sl_reload *outcome) {
	const char *path = options->policy_file == NULL ? "(none)" : options->policy_file;
	for (size_t i = 0; i < outcome->problems.count; i++)
		sl_log_place(path, &outcome->problems.list[i]);
	for (const char *line = outcome->messages; *line != '\0';) {
		int len = (int)strcspn(line, "\n");
		sl_log(outcome->taken_over ? SL_LOG_INFO : SL_LOG_ERROR, "%.*s", len, line);
		line += len + (line[len] == '\n');
	}
}

/* ---- loading --------------------------------------------------------------------------------------------------- */

static void follow(struct sl_followed *followed, const char *policy_file, const struct sluice_policy *policy) {
	const struct sl_settings *settings = sl_policy_settings(policy);
	const char *files[SL_FOLLOWED_MAX] = {policy_file, settings->tls_certificate, settings->tls_key,
	                                      settings->tls_client_ca};
	for (uint32_t i = 0; i < sl_policy_denied_count(policy); i++)
		files[SL_FOLLOWED_OWN + i] = sl_policy_denied_at(policy, i)->file;
	for (uint32_t i = 0; i < sl_policy_quotas_count(policy); i++)
		files[SL_FOLLOWED_QUOTAS + i] = sl_policy_quotas_at(policy, i)->file;
	for (int i = 0; i < SL_FOLLOWED_MAX; i++)
		snprintf(followed->paths[i], sizeof followed->paths[i], "%s", files[i] == NULL ? "" : files[i]);
	snprintf(followed->envoy, sizeof followed->envoy, "%s",
	         settings->envoy.config == NULL ? "" : settings->envoy.config);
}

/* Takes the policy out of a reading; NULL where there is none, or no memory. */
static struct sl_shared_policy *take_policy(struct sl_policy_reading *reading, struct sl_reload *outcome) {
	struct sl_shared_policy *shared = calloc(1, sizeof *shared);
	outcome->problems = reading->problems;
	reading->problems = (struct sluice_problems){.list = NULL};
	if (reading->error[0] != '\0')
		sl_reload_say(outcome, "%s", reading->error);
	if (shared == NULL)
		sl_reload_say(outcome, "out of memory while loading the policy");
	if (shared == NULL || reading->policy == NULL) {
		free(shared);
		return NULL;
	}
	shared->policy = reading->policy;
	shared->holders = 1;
	reading->policy = NULL;
	return shared;
}

/* Gives the policy its certificate, where it names one. False, and why: it can't be used, or a listener needs one. */
static bool load_tls(struct sl_shared_policy *shared, bool or_pipe, struct sluice_error *error) {
	const struct sl_settings *settings = sl_policy_settings(shared->policy);
	const struct sl_tls_files files = {settings->tls_certificate, settings->tls_key, settings->tls_client_ca};
	if (files.certificate != NULL && files.key != NULL)
		return sl_tls_load_server(&files, or_pipe, &shared->tls, error);
	for (uint32_t i = 0; i < settings->listen_count; i++)
		if (settings->listens[i].tls) {
			snprintf(error->text, sizeof error->text, "%.150s speaks TLS: tls.certificate and tls.key are missing",
			         settings->listens[i].address);
			return false;
		}
	return true;
}

/* Gives the policy the bodies of its denials, and its keys' own quotas. False, and where: one of them can't be used. */
static bool load_files(struct sl_shared_policy *shared, const char *policy_file, struct sl_reload *outcome) {
	struct sluice_problem problem;
	const char *file;
	bool good = sl_denied_files_read(shared->policy, policy_file, &file, &problem) &&
	            sl_quota_files_read(shared->policy, policy_file, &file, &problem);
	if (!good)
		sl_reload_say(outcome, "%s:%u:%u: %s", file, problem.line, problem.column, problem.text);
	return good;
}

static void tell_envoy(void *to, const char *file, const struct sluice_problems *problems) {
	for (size_t i = 0; i < problems->count; i++)
		sl_reload_say(to, "%s:%u:%u: %s%s", file, problems->list[i].line, problems->list[i].column,
		              problems->list[i].warning ? "warning: " : "", problems->list[i].text);
}

struct sl_shared_policy *sl_policy_prepare(const struct sl_server_options *options, struct sl_policy_reading *reading,
                                           struct sl_reload *outcome, struct sl_followed *followed) {
	if (reading->policy != NULL)
		follow(followed, options->policy_file, reading->policy);
	const bool or_pipe = !reading->again;
	/* before the certificates and bodies are read: one that changes meanwhile is read again */
	followed->digest = sl_followed_digest(followed, reading->digest);
	struct sl_shared_policy *shared = take_policy(reading, outcome);
	sl_policy_reading_free(reading);
	if (shared == NULL)
		return NULL;
	struct sluice_error error;
	if (!load_tls(shared, or_pipe, &error))
		sl_reload_say(outcome, "%s", error.text);
	else if (load_files(shared, options->policy_file, outcome) &&
	         sl_envoy_files_read(shared->policy, options->policy_file, tell_envoy, outcome))
		return shared;
	sl_shared_policy_release(shared);
	return NULL;
}

bool sl_policy_enter(struct sl_server *server, struct sl_shared_policy *policy) {
	policy->rows = calloc(sl_stats_rows_of(policy->policy) + 1, sizeof *policy->rows);
	if (policy->rows == NULL)
		return false;
	sl_stats_enter(server->parts.shared.stats, policy->policy, policy->rows);
	return true;
}

/* ---- reloading ------------------------------------------------------------------------------------------------- */

static bool is_same_text(const char *a, const char *b) {
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool listens_equal(const struct sl_settings *a, const struct sl_settings *b) {
	bool equal = a->listen_count == b->listen_count;
	for (uint32_t i = 0; equal && i < a->listen_count; i++) {
		const struct sl_listen *x = &a->listens[i], *y = &b->listens[i];
		equal = x->door == y->door && strcmp(x->address, y->address) == 0 && x->tls == y->tls && x->mode == y->mode &&
		        x->proxy_protocol == y->proxy_protocol && x->unprotected == y->unprotected;
	}
	return equal;
}

static bool denials_equal(const struct sl_log_settings *a, const struct sl_log_settings *b) {
	return is_same_text(a->denials, b->denials) && a->denials_per_key == b->denials_per_key &&
	       a->denials_per_second == b->denials_per_second && a->denials_bytes == b->denials_bytes;
}

/* What a reload can't change: it is compared with what the process began with. */
static void say_what_stays(const struct sl_server *server, const struct sl_settings *now, struct sl_reload *outcome) {
	const struct sl_settings *first = sl_policy_settings(server->first->policy);
	const char *path = server->options->policy_file;
	if (!sl_store_location_equal(now, first))
		sl_reload_say(outcome, "store: %s changes it, which needs a restart: keeping the current store", path);
	if (!listens_equal(now, first))
		sl_reload_say(outcome, "listen: %s changes it, which needs a restart: keeping the current addresses", path);
	if (now->threads != first->threads && server->options->threads == 0)
		sl_reload_say(outcome, "threads: %s changes them, which needs a restart: keeping the current threads", path);
	if (!denials_equal(&now->log, &first->log))
		sl_reload_say(outcome, "log: %s changes the log of denials, which needs a restart: keeping the current one",
		              path);
}

/* Which limits have other counters than before, under the same name: nobody has spent anything of them yet. */
static void say_what_begins_anew(const struct sluice_policy *before, const struct sluice_policy *now,
                                 struct sl_reload *outcome) {
	char is[SLUICE_LIMIT_TEXT_MAX], was[SLUICE_LIMIT_TEXT_MAX];
	uint32_t found = 0, own = sl_policy_limit_count(now);
	for (uint32_t i = 0; i < sl_policy_limit_count(before); i++) {
		const struct sl_policy_limit *limit = sl_policy_limit_at(before, i);
		int64_t at = sl_policy_limit_find(now, sl_str(limit->name));
		if (at < 0 || at >= own || !sl_policy_begins_anew(before, i, now, (uint32_t)at) || found++ >= BEGINNING_TOLD)
			continue;
		sluice_limit_print(&sl_policy_limit_at(now, (uint32_t)at)->limit, is);
		sluice_limit_print(&limit->limit, was);
		sl_reload_say(outcome, "limit %s: its counters begin anew: it is %s now, and was %s", limit->name, is, was);
	}
	if (found > BEGINNING_TOLD)
		sl_reload_say(outcome, "%u limits more begin their counters anew", found - BEGINNING_TOLD);
}

/* A large policy takes a while to free: not on the thread of a worker, who may be the last to let go of it. */
static void retire(struct sl_server *server, struct sl_shared_policy *policy) {
	policy->next = server->retired;
	server->retired = policy;
}

void sl_policy_clear_retired(struct sl_server *server) {
	for (struct sl_shared_policy **at = &server->retired; *at != NULL;) {
		struct sl_shared_policy *policy = *at;
		if (!sl_shared_policy_is_mine(policy)) {
			at = &policy->next;
			continue;
		}
		*at = policy->next;
		sl_shared_policy_release(policy);
	}
}

/* Has all use a policy that is ready for it. */
static void adopt(struct sl_server *server, struct sl_shared_policy *policy, struct sl_reload *outcome) {
	const struct sl_settings *settings = sl_policy_settings(policy->policy);
	for (uint32_t i = 0; i < server->worker_count; i++)
		sl_worker_set_policy(&server->workers[i], policy);
	say_what_begins_anew(server->policy->policy, policy->policy, outcome);
	retire(server, server->policy);
	server->policy = policy;
	sl_entrances_refresh(server, settings);
	sl_log_set_json(settings->log.json);
	outcome->taken_over = true;
	say_what_stays(server, settings, outcome);
	if (!server->options->quiet)
		sl_reload_say(outcome, "loaded %s", server->options->policy_file);
}

static bool listens_with_tls(const struct sl_server *server) {
	for (uint32_t i = 0; i < server->entrance_count; i++)
		if (server->entrances[i].listener.tls)
			return true;
	return false;
}

static const char *disarms(const struct sl_server *server, const struct sl_shared_policy *policy) {
	const struct sluice_policy *before = server->policy->policy;
	return sl_policy_disarms(sl_policy_armed(before), policy->policy);
}

/* `policy`: what was read, and is ready; NULL: it can't be served. The lock is held. */
static void use_policy(struct sl_server *server, struct sl_shared_policy *policy, struct sl_reload *outcome) {
	const struct sl_redis_settings *redis = &sl_policy_settings(server->first->policy)->redis;
	const char *path = server->options->policy_file, *open_to_all, *disarmed, *beyond;
	struct sluice_error error;
	if (policy == NULL) {
		sl_reload_say(outcome, "%s was rejected: keeping the current policy", path);
	} else if ((open_to_all = sl_entrances_forbidden(server, sl_policy_settings(policy->policy))) != NULL) {
		sl_reload_say(outcome,
		              "%s was rejected: it has no users, and other hosts can reach %s: keeping "
		              "the current policy",
		              path, open_to_all);
		sl_shared_policy_release(policy);
	} else if ((disarmed = disarms(server, policy)) != NULL) {
		sl_reload_say(outcome, "%s was rejected: %s: keeping the current policy", path, disarmed);
		sl_shared_policy_release(policy);
	} else if (!sl_store_location_bears(sl_policy_settings(policy->policy), server->store, &error)) {
		sl_reload_say(outcome, "%s was rejected: store: %s: keeping the current policy", path, error.text);
		sl_shared_policy_release(policy);
	} else if ((beyond = sl_policy_beyond_script(policy->policy, redis)) != NULL) {
		sl_reload_say(outcome,
		              "%s was rejected: the limit '%s' needs Sluice's module, and the store in use, which a reload "
		              "keeps, is a Redis via: script: keeping the current policy",
		              path, beyond);
		sl_shared_policy_release(policy);
	} else if (policy->tls == NULL && server->policy->tls != NULL && listens_with_tls(server)) {
		sl_reload_say(outcome, "%s was rejected: it has no certificate (tls), and a listener speaks TLS", path);
		sl_shared_policy_release(policy);
	} else if (!sl_policy_enter(server, policy)) {
		sl_reload_say(outcome, "out of memory: keeping the current policy");
		sl_shared_policy_release(policy);
	} else {
		adopt(server, policy, outcome);
	}
}

static void note(struct sl_server *server, const struct sl_reload *outcome) {
	struct sl_figures *figures = server->parts.figures;
	atomic_fetch_add_explicit(&figures->reloads[outcome->taken_over], 1, memory_order_relaxed);
	atomic_store_explicit(&figures->reload_failed, !outcome->taken_over, memory_order_relaxed);
	if (outcome->taken_over)
		atomic_store_explicit(&figures->reloaded_ns, sluice_store_now(server->store), memory_order_relaxed);
}

uint32_t sl_server_limit_count(struct sl_server *server) {
	pthread_mutex_lock(&server->policy_lock);
	uint32_t count = sl_policy_limit_count(server->policy->policy);
	pthread_mutex_unlock(&server->policy_lock);
	return count;
}

/* What a reading comes to, told to systemd, counted and logged. */
static void change_over(struct sl_server *server, struct sl_policy_reading *reading, struct sl_reload *outcome) {
	struct sl_shared_policy *policy = sl_policy_prepare(server->options, reading, outcome, &server->reader.followed);
	pthread_mutex_lock(&server->policy_lock);
	if (server->policy_is_fixed) {
		sl_reload_say(outcome, "nothing is reloaded: " SL_POLICY_FIXED_TEXT);
		if (policy != NULL)
			sl_shared_policy_release(policy);
	} else {
		sl_notify_reloading();
		use_policy(server, policy, outcome);
		note(server, outcome);
		sl_readiness_tell_locked(server);
	}
	pthread_mutex_unlock(&server->policy_lock);
}

void sl_server_reload(struct sl_server *server, struct sl_reload *outcome) {
	*outcome = (struct sl_reload){.taken_over = false};
	if (sl_policy_is_fixed(server)) {
		sl_reload_say(outcome, "nothing is reloaded: " SL_POLICY_FIXED_TEXT);
	} else if (server->options->policy_file == NULL) {
		sl_reload_say(outcome, "nothing to reload: no policy file was given");
	} else {
		struct sl_policy_reading reading;
		sl_policy_file_read(&reading, server->options->policy_file, true);
		change_over(server, &reading, outcome);
	}
	outcome->limit_count = sl_server_limit_count(server);
	sl_reload_tell(server->options, outcome);
}

bool sl_server_reload_followed(struct sl_server *server, uint64_t text) {
	struct sl_policy_reading reading;
	struct sl_reload outcome = {.taken_over = false};
	sl_policy_file_read(&reading, server->options->policy_file, true);
	bool is_that = reading.digest == text;
	if (is_that && !sl_policy_is_fixed(server))
		change_over(server, &reading, &outcome);
	else
		sl_policy_reading_free(&reading);
	sl_reload_tell(server->options, &outcome);
	sluice_problems_free(&outcome.problems);
	return is_that;
}

bool sl_policy_is_fixed(struct sl_server *server) {
	pthread_mutex_lock(&server->policy_lock);
	bool fixed = server->policy_is_fixed;
	pthread_mutex_unlock(&server->policy_lock);
	return fixed;
}

void sl_policy_fix(struct sl_server *server, bool fixed) {
	pthread_mutex_lock(&server->policy_lock);
	server->policy_is_fixed = fixed;
	pthread_mutex_unlock(&server->policy_lock);
}
