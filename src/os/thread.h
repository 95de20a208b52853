/* Threads that do something beside those that serve. */
#ifndef SL_THREAD_H
#define SL_THREAD_H

#include <pthread.h>

/* Starts a thread that hears no signal: those are for the threads that expect them. As pthread_create(): 0, or an errno
 * with nothing started; pthread_join() ends it. Changes the caller's own signals for the moment of the call only. */
int sl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
