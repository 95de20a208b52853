/* A thread takes over the signal mask of the one that starts it; see thread.h. */
#include "os/thread.h"

#include <signal.h>
#include <stddef.h>

int sl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int wrong = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return wrong;
}
