/* interrupt: SIGINT, SIGTERM and SIGHUP for a verb that has something to give back, or to say, before it ends.
 *
 *   sl_interrupt_begin() -> work -> sl_interrupt_poll(), which a signal ends -> sl_interrupted()? -> sl_interrupt_end()
 *                            ^                                                        |
 *                            +-------------------------- no --------------------------+
 *
 * One process has one set of signals: no two of these at a time, and one thread. */
#ifndef SL_CLI_INTERRUPT_H
#define SL_CLI_INTERRUPT_H

#include <poll.h>
#include <stdbool.h>

/* From here on the three end no process: they are noted. A SIGHUP that is ignored stays so: nohup has asked for it.
 *  held  they come in while sl_interrupt_poll() waits, and nowhere else; false: they end a write that waits as well */
void sl_interrupt_begin(bool held);

/* As poll(), `ms` < 0 for no end; -1 with EINTR also for one of the three that came before. */
int sl_interrupt_poll(struct pollfd *in, nfds_t count, int ms);

/* Has one of the three come, since the process began? */
bool sl_interrupted(void);

/* What they did before, they do again. */
void sl_interrupt_end(void);

#endif
