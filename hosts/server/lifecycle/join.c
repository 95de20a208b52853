/* Workers join the fleet: where the store is in Redis, each worker gets connections of its own to the nodes, on its
 * loop. The server's own store stays: it has the clock, and the counters of on-error: local. */
#include "hosts/server/lifecycle/join.h"

#include "hosts/server/loop/loop_uv.h"
#include "hosts/server/remote/fleet.h"
#include "hosts/server/tls/tls.h"
#include "os/file.h"

#include <stdio.h>
#include <string.h>

enum { PASSWORD_BYTES_MAX = 512 };
_Static_assert(PASSWORD_BYTES_MAX == 512, "take_first_line() says so");

static void say(bool trouble, const char *line) {
	sl_log(trouble ? SL_LOG_WARNING : SL_LOG_INFO, "%s", line);
}

/* Ends what was read of a file after its first line. False: that is no password. */
static bool take_first_line(char *line, size_t len, struct sluice_error *error) {
	line[len] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	if (line[0] != '\0' && strlen(line) <= PASSWORD_BYTES_MAX)
		return true;
	snprintf(error->text, sizeof error->text, "%s",
	         line[0] == '\0' ? "expected the password in its first line, found nothing"
	                         : "the first line has more than 512 bytes");
	return false;
}

static bool read_password(const char *path, char password[PASSWORD_BYTES_MAX + 2]) {
	size_t len = 0;
	struct sluice_error error;
	bool good = sl_file_read(path, true, password, PASSWORD_BYTES_MAX + 1, &len, &error) &&
	            take_first_line(password, len, &error);
	if (!good)
		sl_log(SL_LOG_ERROR, "store.password-file: %s: %s", path, error.text);
	return good;
}

static void leave(void *to) {
	sl_fleet_close(to, NULL, NULL);
}

static bool join(struct sl_server *server, struct sl_worker *worker, const struct sl_fleet_options *options) {
	struct sluice_error error = {.text = ""};
	struct sl_fleet *fleet = NULL;
	struct sl_fleet_options own = *options;
	own.loop = sl_loop_uv(&worker->loop);
	own.store = server->store;
	own.figures = &server->parts.fleet[worker - server->workers];
	if (!sl_fleet_open(&fleet, &own, &error)) {
		sl_log(SL_LOG_ERROR, "store.redis: %s", error.text);
		return false;
	}
	worker->context.remote = sl_fleet_remote(fleet);
	worker->ending = leave;
	worker->ending_to = fleet;
	return true;
}

bool sl_fleets_join(struct sl_server *server, const struct sl_settings *settings) {
	char password[PASSWORD_BYTES_MAX + 2];
	struct sl_fleet_options options = {.settings = &settings->redis, .say = say};
	bool good = true;
	if (settings->redis.address_count == 0)
		return true;
	if (settings->redis.password_file != NULL) {
		good = read_password(settings->redis.password_file, password);
		options.password = password;
	}
	for (uint32_t i = 0; good && i < server->worker_count; i++)
		good = join(server, &server->workers[i], &options);
	explicit_bzero(password, sizeof password);
	return good;
}

static bool check_tls(const struct sl_redis_settings *settings) {
	const struct sl_tls_files files = {settings->tls_certificate, settings->tls_key, settings->tls_ca};
	struct sluice_error error = {.text = ""};
	struct sl_tls *tls = NULL;
	if (settings->tls && !sl_tls_load_client(&files, &tls, &error)) {
		sl_log(SL_LOG_ERROR, "store.redis: %s", error.text);
		return false;
	}
	sl_tls_free(tls);
	return true;
}

bool sl_fleets_check(const struct sl_settings *settings) {
	char password[PASSWORD_BYTES_MAX + 2];
	bool good = settings->redis.password_file == NULL || read_password(settings->redis.password_file, password);
	explicit_bzero(password, sizeof password);
	return check_tls(&settings->redis) && good;
}
