/* TLS to nodes: whom we trust, and who we are. */
#ifndef SL_TRUST_H
#define SL_TRUST_H

#include "hosts/server/fleet/slots.h"

#include <sys/types.h>

struct sl_trust;         /* certificates, of all connections of a worker */
struct sl_trust_session; /* of one connection */

/* Reads what settings->tls_* name: SLUICE_OK with *trust, NULL where nodes are asked without TLS; SLUICE_E_SYSTEM with
 * `error` saying which file and why; SLUICE_E_MEMORY. Blocks on files: some ms. */
SLUICE_MUST_USE sluice_err sl_trust_load(const struct sl_redis_settings *settings, struct sl_trust **trust,
                                         struct sluice_error *error);
/* NULL is fine. */
void sl_trust_free(struct sl_trust *trust);

/* Begins a session on a non-blocking socket, which stays the caller's. The node's certificate has to be signed by whom
 * we trust, and to be for the host of `place`. NULL: no memory. */
struct sl_trust_session *sl_trust_open(struct sl_trust *trust, int fd, const struct sl_node_place *place);
/* Frees it; the peer is told where that goes without waiting. NULL is fine. */
void sl_trust_close(struct sl_trust_session *session);

enum { SL_TRUST_WANT_READ = -1, SL_TRUST_WANT_WRITE = -2, SL_TRUST_FAILED = -3 };

/* Goes on with the handshake: 0 when done; else SL_TRUST_*. */
int sl_trust_handshake(struct sl_trust_session *session);
/* Why the handshake failed, as few words; `text` holds them. */
void sl_trust_why(struct sl_trust_session *session, char text[128]);
/* Reads: bytes; 0 at the end; else SL_TRUST_*. More may lie inside: sl_trust_has_more(). */
ssize_t sl_trust_read(struct sl_trust_session *session, void *data, size_t room);
bool sl_trust_has_more(struct sl_trust_session *session);
/* Sends some: bytes taken; else SL_TRUST_*, then the next call must begin with the same bytes. */
ssize_t sl_trust_write(struct sl_trust_session *session, const void *data, size_t len);

#endif
