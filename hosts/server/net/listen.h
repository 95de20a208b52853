/* Listening sockets: made from the text of an address, or given by whoever started this process. */
#ifndef SL_LISTEN_H
#define SL_LISTEN_H

#include "policy/policy.h"

#include <sys/stat.h>
#include <sys/un.h>

enum {
	SL_LISTEN_TEXT_MAX = sizeof(struct sockaddr_un) + 16,
	SL_USER_TIMEOUT_MS = 120000, /* after which the kernel gives up on a peer that takes nothing */
};

struct sl_listener {
	int fd;                             /* non-blocking, close-on-exec; -1 when closed */
	uint32_t port;                      /* the real one; 0 of a unix socket */
	bool loopback;                      /* nobody on another host reaches it */
	_Atomic uint32_t number;            /* which one of its door's in the policy, sl_settings_listen(), or NONE */
	_Atomic uint32_t forms;             /* SL_FORM_ bits of its answers; a reload may change both */
	bool tls, proxy_protocol;           /* what its connections begin with: struct sl_listen */
	char name[SL_LISTEN_TEXT_MAX];      /* "127.0.0.1:7379", "[::1]:7379", "unix:/path" */
	char unix_path[SL_LISTEN_TEXT_MAX]; /* of a unix socket, to be removed at the end; else "" */
	dev_t unix_device;                  /* which file that was: another of its name is not removed */
	ino_t unix_inode;
};

/* What is asked for. */
struct sl_listen_ask {
	const char *text;   /* "HOST:PORT", "[IPV6]:PORT" or "unix:/path"; port 0 picks a free one */
	const char *option; /* the command line's name for it, such as "--resp", for messages */
	uint32_t mode;      /* permissions of a unix socket, 0..0777; it never has others, not for an instant */
	bool local_only;    /* an address that other hosts reach is refused */
	bool no_login;      /* since its protocol knows none: users change nothing about that */
	bool only_look;     /* everything but the socket: listener->fd stays -1 */
};

/* Listens. The file of a unix socket that nobody listens on any more is replaced; any other file is left alone. Changes
 * the process's umask for an instant: for the start, while there is one thread. False for a text that is no address,
 * for a refused one, and where the system refuses: error->text says which and why. */
SLUICE_MUST_USE bool sl_listen(struct sl_listener *listener, const struct sl_listen_ask *ask,
                               struct sluice_error *error);

/* Takes over a descriptor that listens already: a stream socket, inet or unix, or it is refused, and
 * stays the caller's. It becomes non-blocking and close-on-exec.
 *  remove  the file of a unix socket is this process's to remove at the end */
SLUICE_MUST_USE bool sl_listener_adopt(struct sl_listener *listener, int fd, bool remove, struct sluice_error *error);

/* Sets what the connections accepted from it inherit: no delay; probes that find out within about two minutes that a
 * peer is gone without a word; and that the kernel keeps at most 256 KiB of what a peer's window has no room for.
 * Nothing for unix sockets. */
void sl_listener_tune(const struct sl_listener *listener);

/* Closes, and removes the file of a unix socket, if that is still the one. */
void sl_listener_close(struct sl_listener *listener);

/* Closes, and leaves the file: another process goes on listening. */
void sl_listener_leave(struct sl_listener *listener);

#endif
