/* TLS by OpenSSL, on sockets that never block.
 *
 * A context is made anew for every policy and belongs to it; a session holds its context, so a reload changes new
 * connections only. Sessions are resumed by tickets, whose keys live with the context: nothing is kept for peers that
 * went away, and a changed client-ca is asked of everybody who comes again.
 *
 * A record is at most 16 KiB, and without read-ahead OpenSSL takes no byte from the socket that is not of the record in
 * hand: so a read with that much room empties it, and the socket's readiness says all that the loop has to know.
 *
 * A peer that is called is always verified: its chain, and its name against the host that we asked for. Whoever could
 * stand in for a node could let everybody through, and would be told the password.
 *
 * OpenSSL's errors are a queue of the thread. It is empty before and after each call of ours. */
#include "hosts/server/tls/tls.h"

#include "os/file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
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

static bool fail(struct sluice_error *error, const char *key, const char *file, const char *why) {
	snprintf(error->text, sizeof error->text, "%s: %.150s: %s", key, file, why);
	ERR_clear_error();
	return false;
}

/* A file behind a passphrase would have OpenSSL ask at a terminal. */
static int no_passphrase(char *into, int size, int for_writing, void *data) {
	(void)into;
	(void)size;
	(void)for_writing;
	(void)data;
	return 0;
}

/* The door's protocol where it is offered; a client that offers only others gets the alert that says so. RESP has no
 * name. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                           const unsigned char *offered, unsigned int offered_len, void *data) {
	const unsigned char *ours = SSL_get_app_data(ssl);
	(void)data;
	if (ours == NULL)
		return SSL_TLSEXT_ERR_NOACK;
	unsigned char *found = NULL;
	if (SSL_select_next_proto(&found, chosen_len, ours, 1u + ours[0], offered, offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*chosen = found;
	return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *context) {
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
	                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context,
	                 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
}

static void set_up_server(SSL_CTX *context) {
	static const unsigned char name[] = "sluice";
	SSL_CTX_set_session_id_context(context, name, sizeof name - 1);
	SSL_CTX_set_num_tickets(context, 1);
	SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
}

/* Has the last reading of a text found its end, and no fault? */
static bool was_the_end(void) {
	unsigned long last = ERR_peek_last_error();
	bool is_end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
	if (is_end)
		ERR_clear_error();
	return is_end;
}

/* The first is ours, the others lead from it to who signed it. */
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

/* Whoever one of these has signed is trusted; a revocation list among them counts as ever. A server names them to its
 * clients, a client needs no such list. */
static bool use_cas(SSL_CTX *context, BIO *text) {
	STACK_OF(X509_INFO) *all = PEM_X509_INFO_read_bio(text, NULL, no_passphrase, NULL);
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	int found = 0;
	bool good = all != NULL;
	for (int i = 0; good && i < sk_X509_INFO_num(all); i++) {
		const X509_INFO *one = sk_X509_INFO_value(all, i);
		if (one->x509 != NULL)
			good = X509_STORE_add_cert(store, one->x509) == 1 && SSL_CTX_add_client_CA(context, one->x509) == 1;
		if (good && one->crl != NULL)
			good = X509_STORE_add_crl(store, one->crl) == 1;
		found += one->x509 != NULL;
	}
	sk_X509_INFO_pop_free(all, X509_INFO_free);
	if (good && found == 0)
		ERR_raise(ERR_LIB_X509, X509_R_NO_CERTIFICATE_FOUND);
	return good && found != 0;
}

/* Reads a file as a whole and has it used: OpenSSL itself would wait for whatever stands there. */
static bool use_file(SSL_CTX *context, bool use(SSL_CTX *, BIO *), const char *key, const char *file, bool or_pipe,
                     struct sluice_error *error) {
	char *bytes = malloc(PEM_BYTES_MAX);
	size_t len = 0;
	struct sluice_error why = {.text = "out of memory"};
	bool is_read = bytes != NULL && sl_file_read(file, or_pipe, bytes, PEM_BYTES_MAX, &len, &why);
	BIO *text = is_read ? BIO_new_mem_buf(bytes, (int)len) : NULL;
	ERR_clear_error();
	bool good = text != NULL && use(context, text);
	if (!good)
		fail(error, key, file, text != NULL ? reason() : why.text);
	BIO_free(text);
	if (bytes != NULL)
		explicit_bzero(bytes, len);
	free(bytes);
	return good;
}

/* The messages' names of the files: as in the policy. */
struct names {
	const char *certificate, *key, *ca;
};

static bool use_own(SSL_CTX *context, const struct sl_tls_files *files, const struct names *names, bool or_pipe,
                    struct sluice_error *error) {
	return use_file(context, use_certificates, names->certificate, files->certificate, or_pipe, error) &&
	       use_file(context, use_key, names->key, files->key, or_pipe, error) &&
	       (SSL_CTX_check_private_key(context) == 1 ||
	        fail(error, names->key, files->key, "it is not the certificate's"));
}

/* Ends a load: the context is the caller's, or gone. */
static bool loaded(SSL_CTX *context, bool good, struct sl_tls **tls) {
	if (!good)
		SSL_CTX_free(context);
	else
		*tls = (struct sl_tls *)context;
	return good;
}

static SSL_CTX *make(const SSL_METHOD *method, struct sl_tls **tls, struct sluice_error *error) {
	SSL_CTX *context = SSL_CTX_new(method);
	*tls = NULL;
	if (context == NULL)
		snprintf(error->text, sizeof error->text, "tls: out of memory");
	else
		set_up(context);
	return context;
}

bool sl_tls_load_server(const struct sl_tls_files *files, bool or_pipe, struct sl_tls **tls,
                        struct sluice_error *error) {
	static const struct names names = {"tls.certificate", "tls.key", "tls.client-ca"};
	SSL_CTX *context = make(TLS_server_method(), tls, error);
	if (context == NULL)
		return false;
	set_up_server(context);
	bool good = use_own(context, files, &names, or_pipe, error);
	if (good && files->ca != NULL) {
		good = use_file(context, use_cas, names.ca, files->ca, or_pipe, error);
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	return loaded(context, good, tls);
}

bool sl_tls_load_client(const struct sl_tls_files *files, struct sl_tls **tls, struct sluice_error *error) {
	static const struct names names = {"store.tls.certificate", "store.tls.key", "store.tls.ca"};
	SSL_CTX *context = make(TLS_client_method(), tls, error);
	bool good = true;
	if (context == NULL)
		return false;
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	ERR_clear_error();
	if (files->ca != NULL)
		good = use_file(context, use_cas, names.ca, files->ca, true, error);
	else if (SSL_CTX_set_default_verify_paths(context) != 1)
		good = fail(error, names.ca, "the system's certificates", reason());
	if (good && files->certificate != NULL)
		good = use_own(context, files, &names, true, error);
	return loaded(context, good, tls);
}

void sl_tls_free(struct sl_tls *tls) {
	SSL_CTX_free((SSL_CTX *)tls);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

struct sl_tls_session *sl_tls_open(const struct sl_tls *tls, int fd, const char *alpn) {
	SSL *ssl = SSL_new(context_of(tls));
	if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	SSL_set_app_data(ssl, (void *)(uintptr_t)alpn);
	SSL_set_accept_state(ssl);
	return (struct sl_tls_session *)ssl;
}

/* Whose certificate it has to be. Addresses are not sent as names (RFC 6066, 3). */
static bool set_name(SSL *ssl, const char *host) {
	unsigned char bytes[16];
	if (inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct sl_tls_session *sl_tls_call(const struct sl_tls *tls, int fd, const char *host) {
	SSL *ssl = SSL_new(context_of(tls));
	if (ssl == NULL || !set_name(ssl, host) || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	SSL_set_connect_state(ssl);
	return (struct sl_tls_session *)ssl;
}

void sl_tls_close(struct sl_tls_session *session) {
	SSL_free(ssl_of(session));
}

/* Why a handshake failed. */
static void explain(SSL *ssl, char why[SL_TLS_WHY_BYTES]) {
	const long verified = SSL_get_verify_result(ssl);
	const unsigned long code = ERR_peek_error();
	const char *text = verified != X509_V_OK ? X509_verify_cert_error_string(verified)
	                   : code != 0           ? ERR_reason_error_string(code)
	                                         : NULL;
	snprintf(why, SL_TLS_WHY_BYTES, "TLS: %.110s", text != NULL ? text : "the connection ended");
}

/* What to do about a call that did not succeed. */
static int next_of(SSL *ssl, int result, char *why) {
	int error = SSL_get_error(ssl, result);
	int next = error == SSL_ERROR_WANT_READ     ? SL_TLS_WANT_READ
	           : error == SSL_ERROR_WANT_WRITE  ? SL_TLS_WANT_WRITE
	           : error == SSL_ERROR_ZERO_RETURN ? 0
	                                            : SL_TLS_FAILED;
	if (why != NULL && (next == 0 || next == SL_TLS_FAILED))
		explain(ssl, why);
	ERR_clear_error();
	return next;
}

int sl_tls_handshake(struct sl_tls_session *session, char *why) {
	int result = SSL_do_handshake(ssl_of(session));
	if (result == 1)
		return 0;
	int next = next_of(ssl_of(session), result, why);
	return next == 0 ? SL_TLS_FAILED : next;
}

bool sl_tls_has_more(struct sl_tls_session *session) {
	return SSL_pending(ssl_of(session)) > 0;
}

static int clamp(size_t len) {
	return len < INT32_MAX ? (int)len : INT32_MAX;
}

ssize_t sl_tls_read(struct sl_tls_session *session, void *data, size_t room) {
	int got = SSL_read(ssl_of(session), data, clamp(room));
	return got > 0 ? got : next_of(ssl_of(session), got, NULL);
}

ssize_t sl_tls_write(struct sl_tls_session *session, const void *data, size_t len) {
	int sent = SSL_write(ssl_of(session), data, clamp(len));
	if (sent > 0)
		return sent;
	int next = next_of(ssl_of(session), sent, NULL);
	return next == 0 ? SL_TLS_FAILED : next;
}

void sl_tls_end(struct sl_tls_session *session) {
	if (SSL_is_init_finished(ssl_of(session)))
		SSL_shutdown(ssl_of(session));
	ERR_clear_error();
}
