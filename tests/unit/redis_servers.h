/* Real redis-servers for tests: started in a folder of their own, waited for, ended by their id.
 *
 * A server has no module here: some of Redis' own commands answer to the module's names, which serves transport as
 * well: SLUICE.CHECK is INCRBY, SLUICE.PEEK is BITFIELD (an array), and SLUICE.LEASE is DECRBY, so that nodes take the
 * module for loaded. */
#ifndef REDIS_SERVERS_H
#define REDIS_SERVERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { REDIS_SERVERS_MAX = 8 };

struct redis_server {
	pid_t pid;
	uint16_t port;
	char folder[64];
	char address[96]; /* as the settings have it */
};

/* Is there a redis-server on this machine? Tests of it are skipped where there is none. */
bool redis_is_there(void);
/* A free port of the loopback. */
uint16_t redis_free_port(void);
/* Starts one on a free port (server->port != 0: on that one) with further arguments, NULL-ended, and waits until it
 * listens. `plain`: without the commands above. Fails the test where that takes more than 30 s. */
void redis_start(struct redis_server *server, bool plain, const char *const *args);
/* Ends it by a signal and waits for that; SIGTERM removes its folder, too, also of one that has ended before. */
void redis_end(struct redis_server *server, int signal);
/* Sends a command (words separated by spaces) and returns the first bytes of the answer; static memory. */
const char *redis_say(const struct redis_server *server, const char *line);
/* Waits until an answer begins so, at most `ms`; fails where it does not. */
void redis_await(const struct redis_server *server, const char *line, const char *begins, unsigned ms);

#endif
