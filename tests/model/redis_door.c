/* A redis-server for the model tests; see redis_door.h. */
#include "tests/model/redis_door.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES = 2000, PATH_BYTES = 512 };

static const int64_t STANDS_US = (int64_t)1000000000 * 1000000;

static void give_up(const char *what, const char *why) {
	fprintf(stderr, "%s: %s\n", what, why);
	abort();
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A file of the build: beside $SLUICE_MODULE, of the folder above this program's, or of build/. */
static void built_path(const char *name, char path[PATH_BYTES]) {
	const char *given = getenv("SLUICE_MODULE");
	ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 1);
	int up = 3;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SL_DEBUG)
	length = snprintf(path, PATH_BYTES, "build/tests/model/x");
#endif
	if (given != NULL) {
		length = snprintf(path, PATH_BYTES, "%s", given);
		up = 1;
	}
	if (length < 0)
		give_up("/proc/self/exe", "cannot be read");
	path[length] = '\0';
	for (; up > 0; up--) {
		char *slash = strrchr(path, '/');
		if (slash == NULL)
			give_up(path, "expected a path with folders");
		*slash = '\0';
	}
	snprintf(path + strlen(path), PATH_BYTES - strlen(path), "/%s", name);
	char *whole = realpath(path, NULL); /* the server leaves this folder before it opens it */
	if (whole == NULL || strlen(whole) >= PATH_BYTES || access(whole, R_OK) != 0)
		give_up(path, "is not there: run make first, or set SLUICE_MODULE");
	memcpy(path, whole, strlen(whole) + 1);
	free(whole);
}

static char *read_file(const char *path, size_t *bytes) {
	FILE *file = fopen(path, "rb");
	char *text = malloc(1 << 20);
	if (file == NULL || text == NULL)
		give_up(path, "cannot be read");
	*bytes = fread(text, 1, 1 << 20, file);
	fclose(file);
	return text;
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

static pid_t start(char *const argv[]) {
	pid_t process = fork();
	if (process == 0) {
		int nowhere = open("/dev/null", O_RDWR);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that aborts nothing stays */
		dup2(nowhere, STDIN_FILENO);
		dup2(nowhere, STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (process < 0)
		give_up(argv[0], "cannot be started");
	return process;
}

static void run(char *const argv[]) {
	int status;
	if (waitpid(start(argv), &status, 0) < 0 || status != 0)
		give_up(argv[0], "failed");
}

static void build_clock(const struct redis_door *door, char library[PATH_BYTES], char file[PATH_BYTES]) {
	const int64_t steering[3] = {STANDS_US, 0, 0};
	snprintf(library, PATH_BYTES, "%s/clock.so", door->folder);
	snprintf(file, PATH_BYTES, "%s/clock", door->folder);
	run((char *[]){"gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "tests/e2e/steered_clock.c", "-o", library,
	               NULL});
	FILE *out = fopen(file, "wb");
	if (out == NULL || fwrite(steering, sizeof steering, 1, out) != 1 || fclose(out) != 0)
		give_up(file, "cannot be written");
}

static void start_server(struct redis_door *door, char *socket) {
	char module[PATH_BYTES], library[PATH_BYTES], file[PATH_BYTES], preload[PATH_BYTES + 16], steer[PATH_BYTES + 32];
	built_path("sluice-module.so", module);
	build_clock(door, library, file);
	snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
	snprintf(steer, sizeof steer, "STEERED_CLOCK=%s", file);
	door->process = start(
		(char *[]){"env",          preload, steer,          "redis-server", "--port",      "0",      "--unixsocket",
	               socket,         "--dir", door->folder,   "--logfile",    "log",         "--save", "",
	               "--appendonly", "no",    "--loadmodule", module,         "client-time", "yes",    NULL});
}

static void print_log(const struct redis_door *door) {
	char path[PATH_BYTES];
	size_t bytes;
	snprintf(path, sizeof path, "%s/log", door->folder);
	if (access(path, R_OK) != 0)
		return;
	char *text = read_file(path, &bytes);
	fprintf(stderr, "%.*s\n", (int)bytes, text);
	free(text);
}

static void connect_to(struct redis_door *door, const char *socket) {
	for (int tries = 0; tries < TRIES; tries++) {
		door->client = redisConnectUnix(socket);
		if (door->client != NULL && door->client->err == 0)
			return;
		redisFree(door->client);
		usleep(5000);
	}
	print_log(door);
	give_up("redis-server", "does not answer");
}

/* ---- the scripts ------------------------------------------------------------------------------------------------- */

static void load_script(struct redis_door *door, const char *name, bool is_function) {
	char path[PATH_BYTES];
	size_t bytes;
	built_path(name, path);
	char *text = read_file(path, &bytes);
	redisReply *reply = is_function ? redisCommand(door->client, "FUNCTION LOAD %b", text, bytes)
	                                : redisCommand(door->client, "SCRIPT LOAD %b", text, bytes);
	if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
		give_up(path, reply == NULL ? "lost the server" : reply->str);
	snprintf(door->sha, sizeof door->sha, "%s", reply->str);
	freeReplyObject(reply);
	free(text);
}

struct redis_door redis_door_open(void) {
	struct redis_door door = {.folder = "/tmp/sluice-redis-XXXXXX"};
	char socket[PATH_BYTES];
	if (mkdtemp(door.folder) == NULL)
		give_up(door.folder, "cannot be made");
	snprintf(socket, sizeof socket, "%s/socket", door.folder);
	start_server(&door, socket);
	connect_to(&door, socket);
	load_script(&door, "sluice-client-time.lua", true);
	load_script(&door, "sluice-eval-client-time.lua", false); /* its hash is the one that stays */
	return door;
}

void redis_door_close(struct redis_door *door) {
	redisFree(door->client);
	kill(door->process, SIGTERM);
	waitpid(door->process, NULL, 0);
	run((char *[]){"rm", "-r", door->folder, NULL});
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

void redis_word(struct redis_words *words, const char *format, ...) {
	va_list arguments;
	if (words->count == REDIS_WORDS_MAX)
		give_up(format, "is a word too many");
	va_start(arguments, format);
	int length = vsnprintf(words->text[words->count], REDIS_WORD_BYTES, format, arguments);
	va_end(arguments);
	if (length < 0 || length >= REDIS_WORD_BYTES)
		give_up(format, "is too long a word");
	words->length[words->count++] = (size_t)length;
}

/* The words of a script's call: FCALL sluice_check 1 key cost ..., EVALSHA sha 1 key CHECK cost ... */
static void begin_script(const struct redis_door *door, enum redis_who who, const char *verb,
                         const struct redis_words *keys, struct redis_words *out) {
	redis_word(out, who == REDIS_FUNCTION ? "FCALL" : "EVALSHA");
	if (who == REDIS_EVAL)
		redis_word(out, "%s", door->sha);
	else
		redis_word(out, "sluice_%s", verb);
	redis_word(out, "%zu", keys->count);
	for (size_t i = 0; i < keys->count; i++)
		redis_word(out, "%s", keys->text[i]);
	if (who == REDIS_EVAL)
		redis_word(out, "%s", verb);
}

void redis_door_send(struct redis_door *door, enum redis_who who, const struct redis_words *words,
                     const struct redis_words *keys) {
	static struct redis_words prefix;
	const char *argv[2 * REDIS_WORDS_MAX];
	size_t lengths[2 * REDIS_WORDS_MAX], count = 0, from = 0;
	char verb[32];
	prefix.count = 0;
	if (who != REDIS_MODULE) {
		snprintf(verb, sizeof verb, "%s", strchr(words->text[0], '.') + 1);
		for (char *c = verb; who == REDIS_FUNCTION && *c != '\0'; c++)
			*c = (char)(*c | 0x20);
		begin_script(door, who, verb, keys, &prefix);
		from = 2;
	}
	for (size_t i = 0; i < prefix.count; i++, count++) {
		argv[count] = prefix.text[i];
		lengths[count] = prefix.length[i];
	}
	for (size_t i = from; i < words->count; i++, count++) {
		argv[count] = words->text[i];
		lengths[count] = words->length[i];
	}
	if (redisAppendCommandArgv(door->client, (int)count, argv, lengths) != REDIS_OK)
		give_up("redisAppendCommandArgv", door->client->errstr);
}

struct redisReply *redis_door_read(struct redis_door *door) {
	void *reply;
	if (redisGetReply(door->client, &reply) == REDIS_OK)
		return reply;
	print_log(door);
	give_up("redis-server", door->client->errstr);
	return NULL;
}
