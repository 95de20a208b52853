/* See client.h. It blocks, because the command line has nothing else to do. */
#include "hosts/cli/client.h"

#include "base/assert.h"
#include "base/text.h"
#include "hosts/server/tls/tls.h"
#include "policy/address.h"
#include "proto/resp.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* `what` was going on, and the system said why it failed. */
static bool fail_errno(struct sluice_error *error, const char *what, int number) {
	bool late = number == EAGAIN || number == EWOULDBLOCK || number == EINPROGRESS;
	snprintf(error->text, sizeof error->text, "%s: %s", what, late ? "nothing within 5 seconds" : strerror(number));
	return false;
}

/* A socket with its timeouts set, connected; -1 with errno. SO_SNDTIMEO bounds connect() too. */
static int connect_to(int family, const struct sockaddr *address, socklen_t len) {
	struct timeval limit = {.tv_sec = SL_CLIENT_TIMEOUT_S};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 && connect(fd, address, len) == 0)
		return fd;
	int number = errno;
	close(fd);
	errno = number;
	return -1;
}

static bool open_unix(struct sl_client *client, const char *path, struct sluice_error *error) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	if (len == 0 || len >= sizeof address.sun_path) {
		snprintf(error->text, sizeof error->text, "a socket's path has 1 to %zu bytes", sizeof address.sun_path - 1);
		return false;
	}
	memcpy(address.sun_path, path, len + 1);
	client->fd = connect_to(AF_UNIX, (struct sockaddr *)&address, sizeof address);
	return client->fd >= 0 || fail_errno(error, "connecting", errno);
}

static bool open_network(struct sl_client *client, const char *address, struct sluice_error *error) {
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
	char host[256], port[8];
	if (!sl_host_split(address, host, port) || strspn(port, "0123456789") != strlen(port)) {
		snprintf(error->text, sizeof error->text, "this is not an address: expected HOST:PORT, [HOST]:PORT or "
		                                          "unix:/path");
		return false;
	}
	int failed = getaddrinfo(host, port, &hints, &found);
	if (failed != 0) {
		snprintf(error->text, sizeof error->text, "finding its address: %s", gai_strerror(failed));
		return false;
	}
	for (const struct addrinfo *one = found; one != NULL && client->fd < 0; one = one->ai_next)
		client->fd = connect_to(one->ai_family, one->ai_addr, one->ai_addrlen);
	int number = errno;
	freeaddrinfo(found);
	return client->fd >= 0 || fail_errno(error, "connecting", number);
}

/* Reads whom to trust; what is wrong with a file comes with the policy's name for it in front, which is not ours. */
static bool load_trust(const char *ca, struct sl_tls **tls, struct sluice_error *error) {
	struct sluice_error why;
	if (sl_tls_load_client(&(struct sl_tls_files){.ca = ca}, tls, &why))
		return true;
	const char *file = strchr(why.text, ' ');
	snprintf(error->text, sizeof error->text, "reading %s%.200s", ca != NULL ? "the file of --ca, " : "",
	         file != NULL ? file + 1 : why.text);
	return false;
}

static bool begin_tls(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error) {
	char host[256], port[8], why[SL_TLS_WHY_BYTES] = "TLS: nothing within 5 seconds";
	struct sl_tls *tls;
	if (options->server != NULL && strncmp(options->server, "unix:", 5) == 0) {
		snprintf(error->text, sizeof error->text, "--tls is for HOST:PORT: a unix socket needs none");
		return false;
	}
	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
	if (!sl_host_split(options->server != NULL ? options->server : SL_CLI_SERVER, host, port) ||
	    !load_trust(options->ca, &tls, error))
		return false;
	client->tls = sl_tls_call(tls, client->fd, host);
	sl_tls_free(tls);
	if (client->tls != NULL && sl_tls_handshake(client->tls, why) == 0)
		return true;
	snprintf(error->text, sizeof error->text, "beginning %s", client->tls != NULL ? why : "TLS: no memory");
	return false;
}

static bool log_in(struct sl_client *client, const char *user, struct sluice_error *error);

int sl_client_check(const struct sl_verb *verb, const struct sl_client_options *options) {
	if (options->ca != NULL && !options->tls)
		return sl_cli_misuse(verb, "--ca says whom --tls trusts: give --tls as well");
	return SL_GO_ON;
}

bool sl_client_connect(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error) {
	const char *address = options->server != NULL ? options->server : SL_CLI_SERVER;
	SL_ASSERT(options->tls || options->ca == NULL); /* else a secret goes out in the clear that was meant for TLS */
	sl_client_begin(client);
	bool connected = strncmp(address, "unix:", 5) == 0 ? open_unix(client, address + 5, error)
	                                                   : open_network(client, address, error);
	if (!connected)
		return false;
	client->reached = true;
	if (!options->tls || begin_tls(client, options, error))
		return true;
	sl_client_close(client);
	return false;
}

bool sl_client_open(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error) {
	if (!sl_client_connect(client, options, error))
		return false;
	if (log_in(client, options->user, error))
		return true;
	sl_client_close(client);
	return false;
}

void sl_client_close(struct sl_client *client) {
	sl_client_here_end(client);
	if (client->tls != NULL)
		sl_tls_end(client->tls);
	sl_tls_close(client->tls);
	client->tls = NULL;
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

/* As send() and recv() say it: on a socket that blocks, TLS wants more only where its time was over. */
static ssize_t as_socket(ssize_t done) {
	if (done < 0)
		errno = done == SL_TLS_FAILED ? ECONNRESET : EAGAIN;
	return done < 0 ? -1 : done;
}

static bool send_all(struct sl_client *client, const char *data, size_t len, struct sluice_error *error) {
	while (len > 0) {
		ssize_t sent = client->here != NULL  ? sl_client_here_send(client, data, len)
		               : client->tls != NULL ? as_socket(sl_tls_write(client->tls, data, len))
		                                     : send(client->fd, data, len, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return fail_errno(error, "sending", errno);
		data += sent;
		len -= (size_t)sent;
	}
	return true;
}

bool sl_client_send(struct sl_client *client, const struct sluice_bytes *words, int count, struct sluice_error *error) {
	char *memory = malloc(sl_resp_command_bytes((uint32_t)count, words));
	if (memory == NULL)
		return fail_errno(error, "sending", ENOMEM);
	bool fine = send_all(client, memory, (size_t)(sl_resp_put_command(memory, (uint32_t)count, words) - memory), error);
	free(memory);
	return fine;
}

/* Reads more after what is unread. A token never takes all of the memory. */
static bool read_more(struct sl_client *client, struct sluice_error *error) {
	memmove(client->input, client->input + client->at, client->len - client->at);
	client->len -= client->at;
	client->at = 0;
	char *to = client->input + client->len;
	size_t room = sizeof client->input - client->len;
	ssize_t got;
	do
		got = client->here != NULL  ? sl_client_here_receive(client, to, room)
		      : client->tls != NULL ? as_socket(sl_tls_read(client->tls, to, room))
		                            : recv(client->fd, to, room, 0);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return fail_errno(error, "waiting for the answer", errno);
	if (got == 0) {
		snprintf(error->text, sizeof error->text, "the server closed the connection without an answer");
		return false;
	}
	client->len += (size_t)got;
	return true;
}

enum { REFUSAL_SHOWN_MAX = 200 };

/* Says what came instead: an error of the server, or something that no RESP server sends. */
static bool refuse(struct sluice_bytes text, bool is_error, struct sluice_error *error) {
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	if (is_error) {
		sl_out_str(&out, SL_CLIENT_REFUSED);
		sl_out_shown(&out, text, REFUSAL_SHOWN_MAX);
		if (text.len >= 6 && memcmp(text.data, "NOAUTH", 6) == 0)
			sl_out_str(&out, " Set SLUICE_PASSWORD to a token, or to the password of --user");
	} else {
		sl_out_str(&out, "expected integers of a Sluice server, got ");
		sl_out_quoted(&out, text, 32);
	}
	*out.at = '\0';
	return false;
}

/* Is a token one that was expected? Its text is borrowed until the next one is read. */
static bool take(struct sl_client *client, struct sl_reply_token *token, uint32_t kinds, struct sluice_error *error) {
	for (;;) {
		const char *from = client->input + client->at;
		size_t len = client->len - client->at;
		ptrdiff_t taken = sl_reply_next(&client->reply, from, len, token);
		if (taken < 0)
			return refuse(sl_slice(from, len), false, error);
		client->at += (size_t)taken;
		if (taken == 0 ? !read_more(client, error) : false)
			return false;
		if (taken == 0 || token->aside)
			continue;
		return (kinds >> token->kind & 1) != 0 ||
		       refuse(token->kind == SL_REPLY_ERROR ? token->text : sl_slice(from, (size_t)taken),
		              token->kind == SL_REPLY_ERROR, error);
	}
}

/* The next token of the answer, of one of two kinds. */
static bool next(struct sl_client *client, struct sl_reply_token *token, enum sl_reply_kind kind,
                 enum sl_reply_kind other, struct sluice_error *error) {
	return take(client, token, 1u << kind | 1u << other, error);
}

bool sl_client_token(struct sl_client *client, struct sl_reply_token *token, struct sluice_error *error) {
	return take(client, token, ~(1u << SL_REPLY_ERROR), error);
}

/* The secret leaves the environment here: nothing that runs later needs it. */
static bool log_in(struct sl_client *client, const char *user, struct sluice_error *error) {
	char *secret = getenv("SLUICE_PASSWORD");
	struct sluice_bytes words[3] = {sl_str("AUTH")};
	struct sl_reply_token token;
	int count = 1;
	if (secret == NULL && user != NULL) {
		snprintf(error->text, sizeof error->text, "--user needs a secret in the environment variable SLUICE_PASSWORD");
		return false;
	}
	if (secret == NULL)
		return true;
	if (user != NULL)
		words[count++] = sl_str(user);
	words[count++] = sl_str(secret);
	bool fine =
		sl_client_send(client, words, count, error) && next(client, &token, SL_REPLY_TEXT, SL_REPLY_TEXT, error);
	OPENSSL_cleanse(secret, strlen(secret));
	unsetenv("SLUICE_PASSWORD");
	return fine && (sl_bytes_equal(token.text, sl_str("OK")) || refuse(token.text, false, error));
}

/* ---- answers of other shapes ------------------------------------------------------------------------------------ */

bool sl_client_send_bytes(struct sl_client *client, struct sluice_bytes bytes, struct sluice_error *error) {
	return send_all(client, bytes.data, bytes.len, error);
}

bool sl_client_line(struct sl_client *client, struct sluice_bytes *line, struct sluice_error *error) {
	const char *end;
	while ((end = memchr(client->input + client->at, '\n', client->len - client->at)) == NULL) {
		if (client->at == 0 && client->len == sizeof client->input)
			return refuse(sl_slice(client->input, client->len), false, error);
		if (!read_more(client, error))
			return false;
	}
	*line = sl_slice(client->input + client->at, (size_t)(end - client->input) - client->at);
	client->at += line->len + 1;
	line->len -= line->len > 0 && end[-1] == '\r' ? 1 : 0;
	return true;
}

bool sl_client_integer(struct sl_client *client, char type, int64_t *value, struct sluice_error *error) {
	enum sl_reply_kind kind = type == '*' ? SL_REPLY_ARRAY : SL_REPLY_INTEGER;
	struct sl_reply_token token;
	if (!next(client, &token, kind, kind, error))
		return false;
	*value = token.value;
	return true;
}

bool sl_client_string(struct sl_client *client, char *data, size_t max, size_t *len, struct sluice_error *error) {
	struct sl_reply_token token;
	*len = 0;
	if (!next(client, &token, SL_REPLY_TEXT, SL_REPLY_NIL, error))
		return false;
	if (token.kind == SL_REPLY_NIL)
		return true;
	*len = token.text.len < max ? token.text.len : max;
	memcpy(data, token.text.data, *len);
	return true;
}
