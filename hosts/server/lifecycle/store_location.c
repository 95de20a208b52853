/* The server opens the store that its policy names, and tells what it found there: whoever restarts a server wants to
 * know that the counters are still there, and how many a crash has cost. */
#include "hosts/server/lifecycle/store_location.h"

#include "hosts/library/home.h"
#include "hosts/library/torn.h"
#include "hosts/server/watch/log.h"
#include "policy/footprint.h"
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Counting the counters of a larger store would hold up the start. */
#define COUNT_BYTES_MAX ((uint64_t)4 << 30)

static void tell_kept(const char *location, struct sluice_store *store, uint64_t before) {
	struct sluice_store_stats stats;
	sluice_store_stats(store, &stats);
	uint64_t kept = stats.slots_used - stats.slots_expired;
	char dropped[64] = "", others[64] = "";
	if (stats.dropped > before)
		snprintf(dropped, sizeof dropped, ", dropped %" PRIu64 " as torn", stats.dropped - before);
	if (stats.processes > 1)
		snprintf(others, sizeof others, ", shared with %u other process%s", stats.processes - 1,
		         stats.processes > 2 ? "es" : "");
	sl_log(SL_LOG_INFO, "store %s: kept %" PRIu64 " counter%s%s%s", location, kept, kept == 1 ? "" : "s", dropped,
	       others);
}

/* A store that exists keeps its share. What other one the policy says is told, and where slots or blocks are less than
 * two thirds of what its limits want. */
static void tell_share(const char *location, const struct sluice_policy *policy, uint32_t percent) {
	uint32_t wanted = sl_policy_blocks_percent(policy);
	bool said = sl_policy_settings(policy)->blocks_percent != 0;
	bool far = percent * 3 < wanted * 2 || (100 - percent) * 3 < (100 - wanted) * 2;
	if (said && wanted != percent)
		sl_log(SL_LOG_WARNING, "store %s keeps %u%% for blocks, not %u%%: sluice store resize changes it", location,
		       percent, wanted);
	else if (!said && far)
		sl_log(SL_LOG_INFO,
		       "store %s keeps %u%% for blocks, its limits want %u%%: sluice store resize changes it",
		       location, percent, wanted);
}

/* Whoever can write a store can forge its counters; a name in a folder that all may write, /dev/shm for one, may have
 * been taken by anybody. */
static void tell_owner(const char *location, const struct sluice_store *store) {
	struct stat found;
	if (fstat(sl_home_of(store)->fd, &found) != 0)
		return;
	if (found.st_uid != geteuid() && found.st_uid != 0)
		sl_log(SL_LOG_WARNING, "store %s belongs to user %lu, who can change its counters and end this server",
		       location, (unsigned long)found.st_uid);
	else if ((found.st_mode & S_IWOTH) != 0)
		sl_log(SL_LOG_WARNING, "store %s can be written by every user of this host: chmod o-w", location);
}

static void tell(const char *location, const struct sluice_policy *policy, struct sluice_store *store, bool created,
                 uint64_t before) {
	size_t bytes;
	uint32_t percent = store->header->blocks_percent;
	(void)sl_store_arena(store, &bytes);
	if (created)
		sl_log(SL_LOG_INFO, "store %s: created, %zu MiB", location, bytes >> 20);
	else if (bytes <= COUNT_BYTES_MAX)
		tell_kept(location, store, before);
	else
		sl_log(SL_LOG_INFO, "store %s: kept its counters", location);
	tell_owner(location, store);
	tell_share(location, policy, percent);
}

bool sl_store_location_bears(const struct sl_settings *settings, const struct sluice_store *store,
                             struct sluice_error *error) {
	uint64_t most = sl_store_overrides_most(store);
	if (settings->overrides_most <= most)
		return true;
	snprintf(error->text, sizeof error->text,
	         "overrides: expected at most %" PRIu64 ", found %" PRIu32
	         ": a quarter of the slots and a half of the blocks of this store; sluice store resize gives it more",
	         most, settings->overrides_most);
	return false;
}

struct sluice_store *sl_store_location_open(const struct sluice_policy *policy, bool quiet) {
	const struct sl_settings *settings = sl_policy_settings(policy);
	const char *location = settings->store_file != NULL ? settings->store_file : settings->store_shared;
	struct sluice_store_options options = {.memory_bytes = settings->memory_given ? settings->memory_bytes : 0,
	                                       .blocks_percent = sl_policy_blocks_percent(policy),
	                                       .file = settings->store_file,
	                                       .shared = settings->store_shared,
	                                       .existing = location != NULL,
	                                       .pretouch = settings->pretouch};
	struct sluice_error error = {.text = ""};
	struct sluice_store *store = NULL;
	uint64_t before = settings->store_file != NULL ? sl_torn_dropped(settings->store_file) : UINT64_MAX;
	sluice_err err = location != NULL ? sluice_store_open(&store, &options, &error) : SLUICE_E_NONE;
	bool created = err == SLUICE_E_NONE;
	if (created) {
		options.memory_bytes = settings->memory_bytes;
		options.existing = false;
		err = sluice_store_open(&store, &options, &error);
	}
	if (err != SLUICE_OK || !sl_store_location_bears(settings, store, &error)) {
		sl_log(SL_LOG_ERROR, "store: %s", error.text);
		sluice_store_close(store);
		return NULL;
	}
	store->stalls->parks = true; /* threads that serve wait for nobody: net/parking.c */
	if (location != NULL && !quiet)
		tell(location, policy, store, created, before);
	return store;
}

/* Whether a file could be made at `path`. */
static bool can_make(const char *path) {
	char folder[4096];
	const char *slash = strrchr(path, '/');
	int len = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
	snprintf(folder, sizeof folder, "%.*s", len == 0 ? 1 : len, len == 0 ? "." : path);
	if (access(folder, W_OK | X_OK) == 0)
		return true;
	sl_log(SL_LOG_ERROR, "store: %s can't be created: folder %s: %s", path, folder, strerror(errno));
	return false;
}

bool sl_store_location_check(const struct sl_settings *settings) {
	struct sluice_store_options options = {.memory_bytes = settings->memory_given ? settings->memory_bytes : 0,
	                                       .file = settings->store_file,
	                                       .shared = settings->store_shared,
	                                       .existing = true};
	struct sluice_error error = {.text = ""};
	struct sluice_store *store = NULL;
	if (settings->store_file == NULL && settings->store_shared == NULL)
		return true;
	sluice_err err = sluice_store_open(&store, &options, &error);
	if (err == SLUICE_E_NONE)
		return settings->store_file == NULL || can_make(settings->store_file);
	bool fine = err == SLUICE_OK && sl_store_location_bears(settings, store, &error);
	if (!fine)
		sl_log(SL_LOG_ERROR, "store: %s", error.text);
	sluice_store_close(store);
	return fine;
}

static bool is_same(const char *a, const char *b) {
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_same_redis(const struct sl_redis_settings *a, const struct sl_redis_settings *b) {
	if (a->address_count != b->address_count)
		return false;
	for (uint32_t i = 0; i < a->address_count; i++)
		if (strcmp(a->addresses[i], b->addresses[i]) != 0)
			return false;
	return is_same(a->prefix, b->prefix) && a->via == b->via && a->budget_ns == b->budget_ns &&
	       a->slices == b->slices && a->slice_ns == b->slice_ns && is_same(a->user, b->user) &&
	       is_same(a->password_file, b->password_file) && a->tls == b->tls && is_same(a->tls_ca, b->tls_ca) &&
	       is_same(a->tls_certificate, b->tls_certificate) && is_same(a->tls_key, b->tls_key);
}

bool sl_store_location_equal(const struct sl_settings *a, const struct sl_settings *b) {
	return is_same_redis(&a->redis, &b->redis) && is_same(a->store_file, b->store_file) &&
	       is_same(a->store_shared, b->store_shared) && a->memory_bytes == b->memory_bytes &&
	       a->pretouch == b->pretouch && a->blocks_percent == b->blocks_percent;
}
