/* TLS on sockets that never block: who serves (a certificate of ours, and whose clients are let in) and who calls (whom
 * we trust, and who we are). Version 1.2 and up, OpenSSL's defaults for everything that ages; no renegotiation, no
 * compression; tickets, but no sessions kept here. ALPN agrees on what the door speaks where the client asks. */
#ifndef SL_TLS_H
#define SL_TLS_H

#include "sluice.h"

#include <sys/types.h>

struct sl_tls;         /* certificates and keys: immutable, used by all workers */
struct sl_tls_session; /* of one connection */

/* PEM files; NULL: none. */
struct sl_tls_files {
	const char *certificate, *key; /* ours */
	const char *ca;                /* who may have signed the peers' */
};

/* Reads the files for connections that are taken; certificate and key have to be named, and `ca` says that clients must
 * show one, too. False where a file can't be read or is none, where the key is not the certificate's, and without
 * memory: error->text says which file of the policy and why. Blocks on files: some ms, or for as long as a disk does;
 * never on a pipe, unless `or_pipe` says that one will do as well. */
SLUICE_MUST_USE bool sl_tls_load_server(const struct sl_tls_files *files, bool or_pipe, struct sl_tls **tls,
                                        struct sluice_error *error);
/* The same for connections that are made: without `ca` the system's certificates say whom to trust, certificate and key
 * are shown where the peer asks. Pipes will do. */
SLUICE_MUST_USE bool sl_tls_load_client(const struct sl_tls_files *files, struct sl_tls **tls,
                                        struct sluice_error *error);
/* Lets go; sessions that were made with it live on. NULL is fine. */
void sl_tls_free(struct sl_tls *tls);

/* Begins a session on a non-blocking socket, which stays the caller's. NULL: no memory. About 10 KiB each.
 *  alpn  the protocol that ALPN may agree on, its length in the first byte: "\x08http/1.1"; NULL: it is not answered.
 *        Not copied */
struct sl_tls_session *sl_tls_open(const struct sl_tls *tls, int fd, const char *alpn);
/* The same for who calls. The peer's certificate has to be signed by whom we trust, and to be for `host`. */
struct sl_tls_session *sl_tls_call(const struct sl_tls *tls, int fd, const char *host);
/* Frees it without a word to the peer. NULL is fine. */
void sl_tls_close(struct sl_tls_session *session);

enum { SL_TLS_WANT_READ = -1, SL_TLS_WANT_WRITE = -2, SL_TLS_FAILED = -3, SL_TLS_WHY_BYTES = 128 };

/* Goes on with the handshake. 0: done; else SL_TLS_*: when to call again, or that it failed (the peer was told). `why`
 * (SL_TLS_WHY_BYTES, may be NULL) says then in a few words why. */
int sl_tls_handshake(struct sl_tls_session *session, char *why);
/* Reads at most one record. Bytes; 0 at the end; else SL_TLS_*. With room for SL_TLS_RECORD_BYTES, nothing that has
 * been read from the socket is left inside, so the socket's readiness says all. */
ssize_t sl_tls_read(struct sl_tls_session *session, void *data, size_t room);
/* With less room: does more lie inside? */
bool sl_tls_has_more(struct sl_tls_session *session);
/* Sends some of it. Bytes taken; else SL_TLS_*: then the next call must begin with the same bytes, at any place. */
ssize_t sl_tls_write(struct sl_tls_session *session, const void *data, size_t len);
/* Tells the peer that nothing follows, as far as that goes without waiting. */
void sl_tls_end(struct sl_tls_session *session);

enum { SL_TLS_RECORD_BYTES = 16 * 1024 };

#endif
