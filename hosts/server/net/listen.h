/* Listening sockets, from the text of an address. */
#ifndef SL_LISTEN_H
#define SL_LISTEN_H

#include "policy/policy.h"

#include <sys/un.h>

enum { SL_LISTEN_TEXT_MAX = sizeof(struct sockaddr_un) + 16 };

struct sl_listener {
	int fd;                             /* non-blocking, close-on-exec; -1 when closed */
	uint32_t port;                      /* the real one; 0 of a unix socket */
	bool loopback;                      /* nobody on another host reaches it */
	uint32_t forms;                     /* SL_FORM_ bits of its answers */
	bool tls, proxy_protocol;           /* what its connections begin with: struct sl_listen */
	char name[SL_LISTEN_TEXT_MAX];      /* "127.0.0.1:7379", "[::1]:7379", "unix:/path" */
	char unix_path[SL_LISTEN_TEXT_MAX]; /* of a unix socket, to be removed at the end; else "" */
};

/* Listens on "HOST:PORT", "[IPV6]:PORT" or "unix:/path"; port 0 picks a free one. The file of a unix socket that nobody
 * listens on any more is replaced; any other file is left alone.
 *  option  the command line's name for it, such as "--resp", for the message
 * Returns SLUICE_OK; SLUICE_E_SYNTAX for a text that is no address; SLUICE_E_SYSTEM. error->text says which and why. */
SLUICE_MUST_USE sluice_err sl_listen(struct sl_listener *listener, const char *text, const char *option,
                                     struct sluice_error *error);

/* Closes, and removes the file of a unix socket. */
void sl_listener_close(struct sl_listener *listener);

#endif
