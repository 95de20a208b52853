/* TLS by OpenSSL, as a client on sockets that never block. A node is always verified: its chain against `ca` or the
 * system's certificates, its name against the host that we asked for. Whoever could stand in for a node could let
 * everybody through, and would be told the password. */
#include "hosts/server/fleet/trust.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

struct sl_trust {
	SSL_CTX *context;
};

/* SSL under a name of ours, so that no other file sees OpenSSL. */
static SSL *ssl_of(struct sl_trust_session *session) {
	return (SSL *)session;
}

static sluice_err fail(struct sluice_error *error, const char *key, const char *file) {
	const unsigned long code = ERR_peek_error();
	const char *reason = code == 0                               ? "no reason given"
	                     : ERR_GET_LIB(code) == ERR_LIB_SYS      ? strerror(ERR_GET_REASON(code))
	                     : ERR_reason_error_string(code) != NULL ? ERR_reason_error_string(code)
	                                                             : "no reason given";
	snprintf(error->text, sizeof error->text, "store.tls.%s: %.120s: %.80s", key, file, reason);
	ERR_clear_error();
	return SLUICE_E_SYSTEM;
}

/* A file behind a passphrase would have OpenSSL ask at a terminal. */
static int no_passphrase(char *into, int size, int for_writing, void *data) {
	(void)into;
	(void)size;
	(void)for_writing;
	(void)data;
	return 0;
}

static sluice_err fill(SSL_CTX *context, const struct sl_redis_settings *settings, struct sluice_error *error) {
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	ERR_clear_error();
	if (settings->tls_ca != NULL && SSL_CTX_load_verify_file(context, settings->tls_ca) != 1)
		return fail(error, "ca", settings->tls_ca);
	if (settings->tls_ca == NULL && SSL_CTX_set_default_verify_paths(context) != 1)
		return fail(error, "ca", "the system's certificates");
	if (settings->tls_certificate == NULL)
		return SLUICE_OK;
	if (SSL_CTX_use_certificate_chain_file(context, settings->tls_certificate) != 1)
		return fail(error, "certificate", settings->tls_certificate);
	if (SSL_CTX_use_PrivateKey_file(context, settings->tls_key, SSL_FILETYPE_PEM) != 1)
		return fail(error, "key", settings->tls_key);
	return SLUICE_OK;
}

sluice_err sl_trust_load(const struct sl_redis_settings *settings, struct sl_trust **trust,
                         struct sluice_error *error) {
	*trust = NULL;
	if (!settings->tls)
		return SLUICE_OK;
	struct sl_trust *made = calloc(1, sizeof *made);
	if (made != NULL)
		made->context = SSL_CTX_new(TLS_client_method());
	if (made == NULL || made->context == NULL) {
		free(made);
		return SLUICE_E_MEMORY;
	}
	sluice_err err = fill(made->context, settings, error);
	if (err == SLUICE_OK)
		*trust = made;
	else
		sl_trust_free(made);
	return err;
}

void sl_trust_free(struct sl_trust *trust) {
	if (trust == NULL)
		return;
	SSL_CTX_free(trust->context);
	free(trust);
}

/* Whose certificate it has to be. Addresses are not sent as names (RFC 6066, 3). */
static bool set_name(SSL *ssl, const char *host) {
	unsigned char bytes[16];
	if (inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct sl_trust_session *sl_trust_open(struct sl_trust *trust, int fd, const struct sl_node_place *place) {
	SSL *ssl = SSL_new(trust->context);
	if (ssl == NULL || !set_name(ssl, place->host) || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	SSL_set_connect_state(ssl);
	return (struct sl_trust_session *)ssl;
}

void sl_trust_close(struct sl_trust_session *session) {
	if (session == NULL)
		return;
	if (SSL_is_init_finished(ssl_of(session)))
		SSL_shutdown(ssl_of(session));
	SSL_free(ssl_of(session));
	ERR_clear_error();
}

/* What to do about a call that did not succeed. OpenSSL's errors are a queue of the thread: it is emptied. */
static int next_of(SSL *ssl, int result) {
	switch (SSL_get_error(ssl, result)) {
	case SSL_ERROR_WANT_READ:
		return SL_TRUST_WANT_READ;
	case SSL_ERROR_WANT_WRITE:
		return SL_TRUST_WANT_WRITE;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		return SL_TRUST_FAILED;
	}
}

int sl_trust_handshake(struct sl_trust_session *session) {
	ERR_clear_error();
	const int result = SSL_do_handshake(ssl_of(session));
	if (result == 1)
		return 0;
	const int next = next_of(ssl_of(session), result);
	return next == 0 ? SL_TRUST_FAILED : next;
}

void sl_trust_why(struct sl_trust_session *session, char text[128]) {
	const long verified = SSL_get_verify_result(ssl_of(session));
	const unsigned long code = ERR_peek_error();
	const char *reason = verified != X509_V_OK ? X509_verify_cert_error_string(verified)
	                     : code != 0           ? ERR_reason_error_string(code)
	                                           : NULL;
	snprintf(text, 128, "TLS: %.110s", reason != NULL ? reason : "the connection ended");
	ERR_clear_error();
}

ssize_t sl_trust_read(struct sl_trust_session *session, void *data, size_t room) {
	ERR_clear_error();
	const int got = SSL_read(ssl_of(session), data, room < INT32_MAX ? (int)room : INT32_MAX);
	return got > 0 ? got : next_of(ssl_of(session), got);
}

bool sl_trust_has_more(struct sl_trust_session *session) {
	return SSL_pending(ssl_of(session)) > 0;
}

ssize_t sl_trust_write(struct sl_trust_session *session, const void *data, size_t len) {
	ERR_clear_error();
	const int sent = SSL_write(ssl_of(session), data, len < INT32_MAX ? (int)len : INT32_MAX);
	if (sent > 0)
		return sent;
	const int next = next_of(ssl_of(session), sent);
	return next == 0 ? SL_TRUST_FAILED : next;
}
