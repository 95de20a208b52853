/* What a service manager wants to hear, and what it hands over: systemd's notification socket, its watchdog, and the
 * sockets that it listens on in our stead. A few datagrams and variables; no library is needed. Without a manager
 * everything here does nothing.
 *
 * Source: sd_notify(3), sd_listen_fds(3). */
#ifndef SL_NOTIFY_H
#define SL_NOTIFY_H

#include "sluice.h"

/* Sends a state, "READY=1\nSTATUS=serving"; `format` as for printf, at most 1,023 bytes. Whoever does not listen is not
 * told; errors are of no consequence. */
void sl_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that the configuration is being read again; sl_notify("READY=1") ends that. */
void sl_notify_reloading(void);

/* How long the manager waits for "WATCHDOG=1" before it takes this process for dead, in ns; 0: it does not watch. */
sluice_ns sl_notify_watchdog(void);

/* Whether a variable that says which process it is meant for ("4711") names this one. */
bool sl_notify_is_mine(const char *pid);

enum { SL_GIVEN_MAX = 64, SL_GIVEN_NAME_MAX = 64 };

/* A descriptor that the manager listens on for us. */
struct sl_given {
	int fd;
	char name[SL_GIVEN_NAME_MAX]; /* FileDescriptorName=, else the unit's; "" where it says none */
};

/* The descriptors that this process was started with, in their order; at most SL_GIVEN_MAX. They become close-on-exec.
 * Returns how many; 0 where there is no manager, or they are meant for another process; -1 where what it says of them
 * makes no sense. */
int sl_given_sockets(struct sl_given list[SL_GIVEN_MAX]);

#endif
