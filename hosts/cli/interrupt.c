/* interrupt: signals that are noted, and let in while something waits. */
#include "hosts/cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

enum { NUMBERS = 3 };
static const int numbers[NUMBERS] = {SIGINT, SIGTERM, SIGHUP};

static volatile sig_atomic_t interrupted;
static struct sigaction actions_before[NUMBERS];
static sigset_t the_three, mask_before;

static void on_signal(int number) {
	(void)number;
	interrupted = 1;
}

void sl_interrupt_begin(bool held) {
	struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: they end a wait */
	sigemptyset(&the_three);
	for (int i = 0; i < NUMBERS; i++) {
		sigaddset(&the_three, numbers[i]);
		sigaction(numbers[i], &action, &actions_before[i]);
		if (numbers[i] == SIGHUP && actions_before[i].sa_handler == SIG_IGN)
			sigaction(SIGHUP, &actions_before[i], NULL);
	}
	sigprocmask(SIG_BLOCK, held ? &the_three : NULL, &mask_before);
}

/* One that comes between the look at `interrupted` and the wait must not be slept over. */
int sl_interrupt_poll(struct pollfd *in, nfds_t count, int ms) {
	const struct timespec most = {ms / 1000, ms % 1000 * 1000000L};
	sigset_t now;
	int ready = -1;
	sigprocmask(SIG_BLOCK, &the_three, &now);
	errno = EINTR;
	if (!interrupted)
		ready = ppoll(in, count, ms < 0 ? NULL : &most, &mask_before);
	int number = errno;
	sigprocmask(SIG_SETMASK, &now, NULL);
	errno = number;
	return ready;
}

bool sl_interrupted(void) {
	return interrupted;
}

void sl_interrupt_end(void) {
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
	for (int i = 0; i < NUMBERS; i++)
		sigaction(numbers[i], &actions_before[i], NULL);
}
