/* TLS: certificates, and sessions on sockets. Version 1.2 and up, OpenSSL's defaults for everything that ages; no
 * renegotiation, no compression; tickets, but no sessions kept here. ALPN agrees on HTTP where the client asks. */
#ifndef SL_TLS_H
#define SL_TLS_H

#include "policy/policy.h"

#include <sys/types.h>

struct sl_tls;         /* a certificate, its key, and whose clients are let in: immutable, used by all workers */
struct sl_tls_session; /* of one connection */

/* Reads what settings->tls_* name. Returns SLUICE_OK with *tls, NULL where they name nothing; SLUICE_E_SYSTEM where a
 * file can't be read or is none, or the key is not the certificate's; SLUICE_E_NONE where a listener speaks TLS and no
 * certificate is named; SLUICE_E_MEMORY. error->text says which file and why. Blocks on files: some ms, or for as long
 * as a disk does; never on a pipe, unless `or_pipe` says that one will do as well. */
SLUICE_MUST_USE sluice_err sl_tls_load(const struct sl_settings *settings, bool or_pipe, struct sl_tls **tls,
                                       struct sluice_error *error);
/* Lets go; sessions that were made with it live on. NULL is fine. */
void sl_tls_free(struct sl_tls *tls);

/* Begins a session on a non-blocking socket, which stays the caller's. NULL: no memory. About 10 KiB each.
 *  http  may ALPN agree on HTTP/1.1? Else it is not answered */
struct sl_tls_session *sl_tls_open(const struct sl_tls *tls, int fd, bool http);
/* Frees it without a word to the peer. NULL is fine. */
void sl_tls_close(struct sl_tls_session *session);

enum { SL_TLS_WANT_READ = -1, SL_TLS_WANT_WRITE = -2, SL_TLS_FAILED = -3 };

/* Goes on with the handshake. 0: done; else SL_TLS_*: when to call again, or that it failed (the peer was told). */
int sl_tls_handshake(struct sl_tls_session *session);
/* Reads at most one record. Bytes; 0 at the end; else SL_TLS_*. With room for SL_TLS_RECORD_BYTES, nothing that has
 * been read from the socket is left inside, so the socket's readiness says all. */
ssize_t sl_tls_read(struct sl_tls_session *session, void *data, size_t room);
/* Sends some of it. Bytes taken; else SL_TLS_*: then the next call must begin with the same bytes, at any place. */
ssize_t sl_tls_write(struct sl_tls_session *session, const void *data, size_t len);
/* Tells the peer that nothing follows, as far as that goes without waiting. */
void sl_tls_end(struct sl_tls_session *session);

enum { SL_TLS_RECORD_BYTES = 16 * 1024 };

#endif
