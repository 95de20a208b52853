/* The server: listeners, workers and connections around the doors. */
#ifndef SL_SERVER_H
#define SL_SERVER_H

#include "policy/policy.h"

struct sl_server_options {
	const char *policy_file; /* NULL: defaults and no limits of its own (CHECK needs none) */
	/* By enum sl_listen_door; NULL: as the policy says; else instead of it. Port 0 picks a free one. */
	const char *listen[SL_LISTEN_DOORS];
	uint32_t threads;   /* 0: as the policy says */
	bool drain_given;   /* drain_ns instead of the policy's */
	sluice_ns drain_ns; /* how long /readyz is red before listening ends */
	bool unprotected;   /* listens where other hosts reach it though there are no users */
	bool quiet;         /* no banner */
};

/* Serves until SIGTERM or SIGINT, finishes what is in hand, and returns 0; or says why not, on standard error, and
 * returns 2 (a taken port, a missing file, a bad policy). Once it listens it prints, one a line, "sluice: resp on
 * 127.0.0.1:7379" and "sluice: http on 127.0.0.1:7380" with the real ports, to standard error, then "sluice: ready";
 * or, until a node of Redis has answered, "sluice: listening: not ready before ..", and "sluice: ready" after that.
 * SIGHUP reads the policy again, SIGUSR2 starts the program anew and hands everything over to it. */
int sl_server_run(const struct sl_server_options *options);

/* Checks all that starting would check, but for whether the addresses are free: prints "FILE: fine" and returns 0, or
 * what is wrong and returns 2. Changes nothing: a store or a log that does not exist is not made. */
int sl_server_check(const struct sl_server_options *options);

#endif
