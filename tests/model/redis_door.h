/* A redis-server of a test's own, with the module and the scripts in it, on a Unix socket and under a wall clock that
 * stands still in the year 2001: no key of the test expires while it is asked about.
 *
 * The module is $SLUICE_MODULE, else sluice-module.so of the test's own build (of build/, when that is one with
 * a sanitizer, which redis-server is not); the scripts stand beside it. The working folder is the source's. */
#ifndef TESTS_MODEL_REDIS_DOOR_H
#define TESTS_MODEL_REDIS_DOOR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct redisContext;
struct redisReply;

enum { REDIS_WORDS_MAX = 96, REDIS_WORD_BYTES = 160 };

/* A command, filled word by word. */
struct redis_words {
	size_t count;
	char text[REDIS_WORDS_MAX][REDIS_WORD_BYTES];
	size_t length[REDIS_WORDS_MAX];
};

/* Whom a command is for: who of the three answers. */
enum redis_who { REDIS_MODULE, REDIS_FUNCTION, REDIS_EVAL };

struct redis_door {
	struct redisContext *client;
	pid_t process;
	char folder[64], sha[48];
};

/* Starts and connects, loads both scripts; aborts the test, with the server's log, when something of it fails. */
struct redis_door redis_door_open(void);

/* Ends the server by its process id and removes its folder. */
void redis_door_close(struct redis_door *door);

/* Adds a word, formatted as printf does. */
void redis_word(struct redis_words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sends a command of the module's words (SLUICE.CHECK key cost ...) to one of the three, ahead of its reply; keys are
 * the distinct keys that it names. */
void redis_door_send(struct redis_door *door, enum redis_who who, const struct redis_words *words,
                     const struct redis_words *keys);

/* The next reply, in the order of sending; the caller's to free. Aborts when the server is gone. */
struct redisReply *redis_door_read(struct redis_door *door);

#endif
