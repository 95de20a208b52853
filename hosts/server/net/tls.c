/* TLS by OpenSSL, on sockets that never block.
 *
 * A context is made anew for every policy and belongs to it; a session holds its context, so a reload changes new
 * connections only. Sessions are resumed by tickets, whose keys live with the context: nothing is kept for peers that
 * went away, and a changed client-ca is asked of everybody who comes again.
 *
 * A record is at most 16 KiB, and without read-ahead OpenSSL takes no byte from the socket that is not of the record in
 * hand: so a read with that much room empties it, and the socket's readiness says all that the loop has to know. */
#include "hosts/server/net/tls.h"

#include "os/file.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEM_BYTES_MAX = 4 * 1024 * 1024 };

/* SSL_CTX and SSL under names of our own, so that no other file sees OpenSSL. */
static SSL_CTX *context_of(const struct sl_tls *tls) {
	return (SSL_CTX *)(uintptr_t)tls;
}

static SSL *ssl_of(struct sl_tls_session *session) {
	return (SSL *)session;
}

/* ---- certificates ------------------------------------------------------------------------------------------------ */

/* The innermost reason that OpenSSL gives, or the system's. */
static const char *reason(void) {
	unsigned long code = ERR_peek_error();
	if (code == 0)
		return "no reason given";
	if (ERR_GET_LIB(code) == ERR_LIB_SYS)
		return strerror(ERR_GET_REASON(code));
	const char *text = ERR_reason_error_string(code);
	return text != NULL ? text : "no reason given";
}

static sluice_err fail(struct sluice_error *error, const char *key, const char *file, const char *why) {
	snprintf(error->text, sizeof error->text, "tls.%s: %.150s: %s", key, file, why);
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

/* HTTP/1.1 where it is offered; a client that offers only others gets the alert that says so. RESP has no name. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                           const unsigned char *offered, unsigned int offered_len, void *data) {
	static const unsigned char ours[] = "\x08http/1.1";
	(void)data;
	if (SSL_get_app_data(ssl) == NULL)
		return SSL_TLSEXT_ERR_NOACK;
	unsigned char *found = NULL;
	if (SSL_select_next_proto(&found, chosen_len, ours, sizeof ours - 1, offered, offered_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *context) {
	static const unsigned char name[] = "sluice";
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
	                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context,
	                 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(context, name, sizeof name - 1);
	SSL_CTX_set_num_tickets(context, 1);
	SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
}

/* Has the last reading of a text found its end, and no fault? */
static bool was_the_end(void) {
	unsigned long last = ERR_peek_last_error();
	bool is_end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
	if (is_end)
		ERR_clear_error();
	return is_end;
}

/* The first is the server's, the others lead from it to who signed it. */
static bool use_certificates(SSL_CTX *context, BIO *text) {
	X509 *one = PEM_read_bio_X509_AUX(text, NULL, no_passphrase, NULL);
	bool good = one != NULL && SSL_CTX_use_certificate(context, one) == 1 && SSL_CTX_clear_chain_certs(context) == 1;
	X509_free(one);
	while (good && (one = PEM_read_bio_X509(text, NULL, no_passphrase, NULL)) != NULL) {
		good = SSL_CTX_add0_chain_cert(context, one) == 1;
		if (!good)
			X509_free(one);
	}
	return good && was_the_end();
}

/* It fails too where the key is one, but not the certificate's. */
static bool use_key(SSL_CTX *context, BIO *text) {
	EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, no_passphrase, NULL);
	bool good = key != NULL && SSL_CTX_use_PrivateKey(context, key) == 1;
	EVP_PKEY_free(key);
	return good;
}

/* Whoever one of these has signed is let in; a revocation list among them counts as ever. */
static bool use_client_cas(SSL_CTX *context, BIO *text) {
	STACK_OF(X509_INFO) *all = PEM_X509_INFO_read_bio(text, NULL, no_passphrase, NULL);
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	int certificates = 0;
	bool good = all != NULL;
	for (int i = 0; good && i < sk_X509_INFO_num(all); i++) {
		const X509_INFO *one = sk_X509_INFO_value(all, i);
		if (one->x509 != NULL)
			good = X509_STORE_add_cert(store, one->x509) == 1 && SSL_CTX_add_client_CA(context, one->x509) == 1;
		if (good && one->crl != NULL)
			good = X509_STORE_add_crl(store, one->crl) == 1;
		certificates += one->x509 != NULL;
	}
	sk_X509_INFO_pop_free(all, X509_INFO_free);
	if (good && certificates == 0)
		ERR_raise(ERR_LIB_PEM, PEM_R_NO_START_LINE);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return good && certificates != 0;
}

/* Reads a file as a whole and has it used: OpenSSL itself would wait for whatever stands there. */
static sluice_err use_file(SSL_CTX *context, bool use(SSL_CTX *, BIO *), const char *key, const char *file,
                           bool or_pipe, struct sluice_error *error) {
	char *bytes = malloc(PEM_BYTES_MAX);
	size_t len = 0;
	const char *why = bytes == NULL ? "out of memory" : sl_file_read(file, or_pipe, bytes, PEM_BYTES_MAX, &len);
	BIO *text = why == NULL ? BIO_new_mem_buf(bytes, (int)len) : NULL;
	sluice_err err = SLUICE_OK;
	ERR_clear_error();
	if (why != NULL || text == NULL)
		err = fail(error, key, file, why != NULL ? why : "out of memory");
	else if (!use(context, text))
		err = fail(error, key, file, reason());
	BIO_free(text);
	if (bytes != NULL)
		explicit_bzero(bytes, len);
	free(bytes);
	return err;
}

static sluice_err fill(SSL_CTX *context, const struct sl_settings *settings, bool or_pipe, struct sluice_error *error) {
	sluice_err err;
	set_up(context);
	err = use_file(context, use_certificates, "certificate", settings->tls_certificate, or_pipe, error);
	if (err == SLUICE_OK)
		err = use_file(context, use_key, "key", settings->tls_key, or_pipe, error);
	if (err == SLUICE_OK && SSL_CTX_check_private_key(context) != 1)
		err = fail(error, "key", settings->tls_key, "it is not the certificate's");
	if (err == SLUICE_OK && settings->tls_client_ca != NULL)
		err = use_file(context, use_client_cas, "client-ca", settings->tls_client_ca, or_pipe, error);
	return err;
}

sluice_err sl_tls_load(const struct sl_settings *settings, bool or_pipe, struct sl_tls **tls,
                       struct sluice_error *error) {
	*tls = NULL;
	if (settings->tls_certificate == NULL || settings->tls_key == NULL) {
		for (uint32_t i = 0; i < settings->listen_count; i++)
			if (settings->listens[i].tls) {
				snprintf(error->text, sizeof error->text, "%.150s speaks TLS: tls.certificate and tls.key are missing",
				         settings->listens[i].address);
				return SLUICE_E_NONE;
			}
		return SLUICE_OK;
	}
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	if (context == NULL) {
		snprintf(error->text, sizeof error->text, "tls: out of memory");
		return SLUICE_E_MEMORY;
	}
	sluice_err err = fill(context, settings, or_pipe, error);
	if (err != SLUICE_OK)
		SSL_CTX_free(context);
	else
		*tls = (struct sl_tls *)context;
	return err;
}

void sl_tls_free(struct sl_tls *tls) {
	SSL_CTX_free((SSL_CTX *)tls);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

struct sl_tls_session *sl_tls_open(const struct sl_tls *tls, int fd, bool http) {
	static char is_http;
	SSL *ssl = SSL_new(context_of(tls));
	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	SSL_set_app_data(ssl, http ? &is_http : NULL);
	SSL_set_accept_state(ssl);
	return (struct sl_tls_session *)ssl;
}

void sl_tls_close(struct sl_tls_session *session) {
	SSL_free(ssl_of(session));
}

/* What to do about a call that did not succeed. OpenSSL's errors are a queue of the thread: it is left empty. */
static int next_of(SSL *ssl, int result) {
	int error = SSL_get_error(ssl, result);
	ERR_clear_error();
	return error == SSL_ERROR_WANT_READ     ? SL_TLS_WANT_READ
	       : error == SSL_ERROR_WANT_WRITE  ? SL_TLS_WANT_WRITE
	       : error == SSL_ERROR_ZERO_RETURN ? 0
	                                        : SL_TLS_FAILED;
}

int sl_tls_handshake(struct sl_tls_session *session) {
	int result = SSL_do_handshake(ssl_of(session));
	if (result == 1)
		return 0;
	int next = next_of(ssl_of(session), result);
	return next == 0 ? SL_TLS_FAILED : next;
}

static int clamp(size_t len) {
	return len < INT32_MAX ? (int)len : INT32_MAX;
}

ssize_t sl_tls_read(struct sl_tls_session *session, void *data, size_t room) {
	int got = SSL_read(ssl_of(session), data, clamp(room));
	return got > 0 ? got : next_of(ssl_of(session), got);
}

ssize_t sl_tls_write(struct sl_tls_session *session, const void *data, size_t len) {
	int sent = SSL_write(ssl_of(session), data, clamp(len));
	if (sent > 0)
		return sent;
	int next = next_of(ssl_of(session), sent);
	return next == 0 ? SL_TLS_FAILED : next;
}

void sl_tls_end(struct sl_tls_session *session) {
	if (SSL_is_init_finished(ssl_of(session)))
		SSL_shutdown(ssl_of(session));
	ERR_clear_error();
}
