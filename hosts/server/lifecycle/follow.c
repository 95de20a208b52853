/* Following the policy's files: a change is taken over without being asked.
 *
 * Every second, on the reader's thread, their sizes, times and inodes are looked at, by name: so editors that write
 * beside and rename, links that are turned to another folder (as Kubernetes does) and files written in place are all
 * seen, on any filesystem. What has changed is looked at again after a moment, until it is still: a file is seldom
 * written in one piece. Then it is read, and only if other bytes stand in it is the policy loaded. So a broken file is
 * told of once, and so is its end. An empty file is one that somebody is about to write, and gets longer: but one that
 * stays empty is no policy, and refused like any other that is none. */
#include "hosts/server/lifecycle/follow.h"

#include "hosts/server/lifecycle/policy_file.h"
#include "hosts/server/lifecycle/reload.h"

#include <sys/stat.h>

enum { LOOK_MS = 1000, SETTLE_MS = 200, EMPTY_LOOKS = 10 };

static bool is_file(const char *path, bool *is_empty) {
	struct stat status;
	bool found = stat(path, &status) == 0 && S_ISREG(status.st_mode);
	*is_empty = found && status.st_size == 0;
	return found;
}

/* Has the policy loaded if other bytes stand in its files: nothing but what stood there before and after the last look.
 * True: somebody writes, look again. */
static bool take_over(struct sl_server *server, const struct sl_followed *followed) {
	bool is_empty;
	if (!is_file(followed->paths[0], &is_empty) && server->reader.was_piped)
		return false;
	server->reader.empty_looks = is_empty ? server->reader.empty_looks + 1 : 0;
	if (is_empty && server->reader.empty_looks <= EMPTY_LOOKS)
		return true;
	uint64_t text = sl_policy_file_digest(followed->paths[0]);
	uint64_t digest = sl_followed_digest(followed, text);
	if (sl_followed_look(followed) != server->reader.seen)
		return true;
	return digest != followed->digest && !sl_server_reload_followed(server, text);
}

void sl_follow_begin(struct sl_server *server) {
	const char *path = server->options->policy_file;
	bool is_empty;
	server->reader.was_piped = path != NULL && !is_file(path, &is_empty);
}

sluice_ns sl_follow_look(struct sl_server *server) {
	struct sl_reader *reader = &server->reader;
	uint64_t again_ms = LOOK_MS;
	if (server->options->policy_file == NULL)
		return LOOK_MS * (sluice_ns)1000000;
	uint64_t seen = sl_followed_look(&reader->followed);
	if (seen != reader->seen) {
		reader->seen = seen;
		reader->unsettled = true;
		reader->empty_looks = 0;
		again_ms = SETTLE_MS;
	} else if (reader->unsettled && !sl_policy_is_fixed(server)) {
		const struct sl_followed followed = reader->followed;
		reader->unsettled = take_over(server, &followed);
		again_ms = reader->unsettled ? SETTLE_MS : LOOK_MS;
	}
	return again_ms * (sluice_ns)1000000;
}
