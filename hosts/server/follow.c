/* Following the policy's files: a change is taken over without being asked.
 *
 * Every second their sizes, times and inodes are looked at, by name: so editors that write beside and rename, links
 * that are turned to another folder (as Kubernetes does) and files written in place are all seen, on any filesystem.
 * What has changed is looked at again after a moment, until it is still: a file is seldom written in one piece. Then it
 * is read, and only if other bytes stand in it is the policy loaded. So a broken file is told of once, and so is its
 * end. */
#include "hosts/server/inside.h"

#include "base/siphash.h"
#include "hosts/server/policy_file.h"

#include <sys/stat.h>

enum { LOOK_MS = 1000, SETTLE_MS = 200 };

static uint64_t mix(uint64_t seed, uint64_t word) {
	const uint64_t key[2] = {seed, 0x666f6c6c6f776564};
	return sl_siphash(key, &word, 1, sl_slice(NULL, 0), 1, 3);
}

uint64_t sl_follow_digest(const struct sl_followed *followed, uint64_t text) {
	uint64_t digest = mix(0, text);
	for (int i = 1; i < SL_FOLLOWED_MAX; i++)
		if (followed->paths[i][0] != '\0')
			digest = mix(digest, sl_policy_file_digest(followed->paths[i]));
	return digest;
}

/* What can be told of the files without reading them. */
static uint64_t look(const struct sl_followed *followed) {
	uint64_t seen = 1;
	for (int i = 0; i < SL_FOLLOWED_MAX; i++) {
		struct stat status;
		if (followed->paths[i][0] == '\0' || stat(followed->paths[i], &status) != 0)
			continue;
		seen = mix(seen, (uint64_t)i);
		seen = mix(seen, (uint64_t)status.st_dev);
		seen = mix(seen, (uint64_t)status.st_ino);
		seen = mix(seen, (uint64_t)status.st_size);
		seen = mix(seen, (uint64_t)status.st_mtim.tv_sec);
		seen = mix(seen, (uint64_t)status.st_mtim.tv_nsec);
		seen = mix(seen, (uint64_t)status.st_ctim.tv_sec);
		seen = mix(seen, (uint64_t)status.st_ctim.tv_nsec);
	}
	return seen;
}

static struct sl_followed followed_of(struct sl_server *server, bool *fixed) {
	pthread_mutex_lock(&server->policy_lock);
	struct sl_followed followed = server->followed;
	*fixed = server->policy_is_fixed;
	pthread_mutex_unlock(&server->policy_lock);
	return followed;
}

static bool is_empty(const char *path) {
	struct stat status;
	return stat(path, &status) == 0 && status.st_size == 0;
}

/* Has the policy loaded if other bytes stand in its files. An empty file is one that somebody is about to write: as a
 * policy it would be one without limits, so it is taken over only by who asks for it. For the same reason what is
 * loaded has to be what stood there before and after the last look. True: somebody writes, look again. */
static bool take_over(struct sl_server *server, const struct sl_followed *followed) {
	if (is_empty(followed->paths[0]))
		return true;
	uint64_t text = sl_policy_file_digest(followed->paths[0]);
	uint64_t digest = sl_follow_digest(followed, text);
	if (look(followed) != server->seen)
		return true;
	return digest != followed->digest && !sl_server_reload_followed(server, text);
}

static void on_look(uv_timer_t *timer) {
	struct sl_server *server = timer->data;
	bool fixed;
	struct sl_followed followed = followed_of(server, &fixed);
	uint64_t seen = look(&followed);
	uint64_t again_ms = LOOK_MS;
	if (seen != server->seen) {
		server->seen = seen;
		server->unsettled = true;
		again_ms = SETTLE_MS;
	} else if (server->unsettled && !fixed) {
		server->unsettled = take_over(server, &followed);
		again_ms = server->unsettled ? SETTLE_MS : LOOK_MS;
	}
	uv_timer_start(timer, on_look, again_ms, 0);
}

void sl_follow_start(struct sl_server *server) {
	if (server->options->policy_file == NULL)
		return;
	uv_timer_init(&server->workers[0].loop, &server->follow);
	uv_unref((uv_handle_t *)&server->follow);
	server->follow.data = server;
	uv_timer_start(&server->follow, on_look, LOOK_MS, 0);
}
