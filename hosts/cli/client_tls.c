/* TLS under the client: one connection, the server always verified, by name or by address. */
#include "hosts/cli/client.h"

#include "policy/address.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>

/* Says why, in OpenSSL's words: about the certificate if that is it, else the first of its queue. */
static bool fail_tls(struct sl_client *client, const char *what, struct sluice_error *error) {
	long verified = client->tls != NULL ? SSL_get_verify_result(client->tls) : X509_V_OK;
	unsigned long code = ERR_get_error();
	const char *reason = verified != X509_V_OK ? X509_verify_cert_error_string(verified)
	                     : code != 0           ? ERR_reason_error_string(code)
	                                           : NULL;
	ERR_clear_error();
	snprintf(error->text, sizeof error->text, "%s: %.160s", what, reason != NULL ? reason : "the connection ended");
	sl_client_tls_end(client);
	return false;
}

static bool set_trust(SSL_CTX *context, const char *ca) {
	return ca != NULL ? SSL_CTX_load_verify_file(context, ca) == 1 : SSL_CTX_set_default_verify_paths(context) == 1;
}

/* Whose certificate it has to be. Addresses are not sent as names (RFC 6066, 3). */
static bool set_host(SSL *tls, const char *host) {
	struct sl_address address;
	if (sl_address_parse(sl_str(host), &address, NULL))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
	return SSL_set1_host(tls, host) == 1 && SSL_set_tlsext_host_name(tls, host) == 1;
}

bool sl_client_tls_begin(struct sl_client *client, const char *host, const char *ca, struct sluice_error *error) {
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
	if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
		SSL_CTX_free(context);
		return fail_tls(client, "beginning TLS", error);
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (!set_trust(context, ca)) {
		SSL_CTX_free(context);
		return fail_tls(client, ca != NULL ? "reading the file of --ca" : "reading the system's certificates", error);
	}
	client->tls = SSL_new(context);
	SSL_CTX_free(context);
	if (client->tls == NULL || !set_host(client->tls, host) || SSL_set_fd(client->tls, client->fd) != 1)
		return fail_tls(client, "beginning TLS", error);
	return SSL_connect(client->tls) == 1 || fail_tls(client, "beginning TLS", error);
}

void sl_client_tls_end(struct sl_client *client) {
	if (client->tls != NULL && SSL_is_init_finished(client->tls))
		SSL_shutdown(client->tls);
	SSL_free(client->tls);
	client->tls = NULL;
}

/* What the socket would have said. A time-out of its shows as a wish for more. */
static ssize_t result(struct sl_client *client, int done) {
	if (done > 0)
		return done;
	switch (SSL_get_error(client->tls, done)) {
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = EAGAIN;
		return -1;
	default:
		errno = errno != 0 ? errno : ECONNRESET;
		return -1;
	}
}

ssize_t sl_client_tls_send(struct sl_client *client, const void *data, size_t len) {
	size_t sent = 0;
	errno = 0;
	ERR_clear_error();
	return len == 0 ? 0 : SSL_write_ex(client->tls, data, len, &sent) == 1 ? (ssize_t)sent : result(client, 0);
}

ssize_t sl_client_tls_receive(struct sl_client *client, void *data, size_t len) {
	size_t got = 0;
	errno = 0;
	ERR_clear_error();
	return SSL_read_ex(client->tls, data, len, &got) == 1 ? (ssize_t)got : result(client, 0);
}
