/* The thread that reads the policy's files, so that none that serves ever waits for a file: a disk may be slow, the
 * host of a mounted folder away, and what a path names may have been replaced by anything.
 *
 *   who asks -> ticket -> here: reads, prepares, has the workers change over -> the ticket says what it came to
 *
 * Between two tickets it looks whether a followed file has changed (follow.c). One reading at a time, in the order in
 * which they were asked for, so no older text ever takes a newer one's place. Who waits for a ticket looks at it now
 * and then, for at most TICKET_NS: then he is told that files can't be read, and the reading goes its way without him.
 *
 * A thread that waits for a file cannot be ended. So the end of the server doesn't depend on it: it is waited for a
 * moment, and then the process ends as it is. */
#include "hosts/server/lifecycle/reader.h"

#include "hosts/server/lifecycle/follow.h"
#include "hosts/server/lifecycle/reload.h"
#include "os/clock.h"
#include "os/thread.h"

#include <stdlib.h>
#include <time.h>

#define TICKET_NS ((sluice_ns)10 * 1000000000)
#define END_NS ((sluice_ns)1000000000)
enum { TICKETS_MAX = 64 };

struct sl_reload_ticket {
	struct sl_reload_ticket *next;
	sluice_ns begun;
	bool waited_for, over;
	struct sl_reload outcome;
};

static struct timespec at(sluice_ns monotonic) {
	return (struct timespec){.tv_sec = (time_t)(monotonic / 1000000000), .tv_nsec = (long)(monotonic % 1000000000)};
}

static void ticket_free(struct sl_reload_ticket *ticket) {
	sluice_problems_free(&ticket->outcome.problems);
	free(ticket);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* The lock is held, and held again. */
static void serve_first(struct sl_server *server) {
	struct sl_reader *reader = &server->reader;
	struct sl_reload_ticket *ticket = reader->first;
	struct sl_reload outcome;
	reader->first = ticket->next;
	reader->count--;
	pthread_mutex_unlock(&reader->lock);
	sl_server_reload(server, &outcome);
	pthread_mutex_lock(&reader->lock);
	ticket->outcome = outcome;
	ticket->over = true;
	if (!ticket->waited_for)
		ticket_free(ticket);
}

static void *run(void *argument) {
	struct sl_server *server = argument;
	struct sl_reader *reader = &server->reader;
	sluice_ns next_look = 0;
	pthread_mutex_lock(&reader->lock);
	while (!reader->stop) {
		const struct timespec until = at(next_look);
		if (reader->first != NULL) {
			serve_first(server);
		} else if (sl_clock_monotonic() >= next_look) {
			pthread_mutex_unlock(&reader->lock);
			sl_policy_clear_retired(server);
			next_look = sl_clock_monotonic() + sl_follow_look(server);
			pthread_mutex_lock(&reader->lock);
		} else {
			(void)pthread_cond_timedwait(&reader->changed, &reader->lock, &until);
		}
	}
	reader->ended = true;
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
	return NULL;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

void *sl_reader_ask(void *to, bool waits) {
	struct sl_reader *reader = &((struct sl_server *)to)->reader;
	struct sl_reload_ticket *ticket = calloc(1, sizeof *ticket), **end = &reader->first;
	if (ticket == NULL)
		return NULL;
	*ticket = (struct sl_reload_ticket){.begun = sl_clock_monotonic(), .waited_for = waits};
	pthread_mutex_lock(&reader->lock);
	bool full = reader->count >= TICKETS_MAX;
	if (!full) {
		while (*end != NULL)
			end = &(*end)->next;
		*end = ticket;
		reader->count++;
	}
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
	if (full)
		free(ticket);
	return full ? NULL : ticket;
}

static bool not_waited_for(struct sl_server *server, struct sl_reload *outcome, const char *what, const char *why) {
	*outcome = (struct sl_reload){.taken_over = false, .limit_count = sl_server_limit_count(server)};
	sl_reload_say(outcome, "%s%s", what, why);
	return true;
}

bool sl_reader_look(void *to, void *it, struct sl_reload *outcome) {
	struct sl_server *server = to;
	struct sl_reload_ticket *ticket = it;
	pthread_mutex_lock(&server->reader.lock);
	const bool over = ticket->over;
	if (over) {
		*outcome = ticket->outcome;
		ticket->outcome.problems = (struct sluice_problems){.list = NULL};
	}
	pthread_mutex_unlock(&server->reader.lock);
	if (over)
		return true;
	if (sl_policy_is_fixed(server))
		return not_waited_for(server, outcome, "nothing is reloaded: ", SL_POLICY_FIXED_TEXT);
	if (sl_clock_monotonic() - ticket->begun < TICKET_NS)
		return false;
	return not_waited_for(server, outcome, server->options->policy_file,
	                      " could not be read within 10 s: keeping the current policy");
}

void sl_reader_leave(void *to, void *it) {
	struct sl_reader *reader = &((struct sl_server *)to)->reader;
	struct sl_reload_ticket *ticket = it;
	pthread_mutex_lock(&reader->lock);
	ticket->waited_for = false;
	if (ticket->over)
		ticket_free(ticket);
	pthread_mutex_unlock(&reader->lock);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

bool sl_reader_start(struct sl_server *server) {
	struct sl_reader *reader = &server->reader;
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&reader->lock, NULL);
	pthread_cond_init(&reader->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sl_follow_begin(server);
	reader->started = sl_thread_start(&reader->thread, run, server) == 0;
	if (!reader->started)
		sl_log(SL_LOG_ERROR, "the system gave no thread for reading the policy again");
	return reader->started;
}

bool sl_reader_end(struct sl_server *server) {
	struct sl_reader *reader = &server->reader;
	const struct timespec until = at(sl_clock_monotonic() + END_NS);
	if (!reader->started)
		return true;
	pthread_mutex_lock(&reader->lock);
	reader->stop = true;
	pthread_cond_broadcast(&reader->changed);
	while (!reader->ended && pthread_cond_timedwait(&reader->changed, &reader->lock, &until) == 0)
		;
	const bool ended = reader->ended;
	pthread_mutex_unlock(&reader->lock);
	if (!ended) {
		sl_log(SL_LOG_WARNING,
		       "stopping while the policy's files can't be read: the thread that reads them is abandoned");
		return false;
	}
	pthread_join(reader->thread, NULL);
	for (struct sl_reload_ticket *ticket = reader->first, *next; ticket != NULL; ticket = next) {
		next = ticket->next;
		ticket_free(ticket);
	}
	pthread_cond_destroy(&reader->changed);
	pthread_mutex_destroy(&reader->lock);
	return true;
}
