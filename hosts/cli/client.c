#include "hosts/cli/client.h"

#include "base/text.h"
#include "hosts/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/crypto.h>
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

/* Splits host:port, [host]:port. False when there is no port or a part is too long. */
static bool split_address(const char *address, char host[256], char port[8]) {
	const char *colon = strrchr(address, ':');
	const char *from = address, *to = colon;
	if (colon == NULL || colon == address || strlen(colon + 1) == 0 || strlen(colon + 1) > 5)
		return false;
	if (*from == '[') {
		from++;
		to--;
		if (*to != ']')
			return false;
	}
	if (to <= from || (size_t)(to - from) > 255 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	memcpy(host, from, (size_t)(to - from));
	host[to - from] = '\0';
	memcpy(port, colon + 1, strlen(colon + 1) + 1);
	return true;
}

static bool open_network(struct sl_client *client, const char *address, struct sluice_error *error) {
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
	char host[256], port[8];
	if (!split_address(address, host, port)) {
		snprintf(error->text, sizeof error->text, "that is no address: expected HOST:PORT, [HOST]:PORT or unix:/path");
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

static bool begin_tls(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error) {
	char host[256], port[8];
	if (options->server != NULL && strncmp(options->server, "unix:", 5) == 0) {
		snprintf(error->text, sizeof error->text, "--tls is for HOST:PORT: a unix socket needs none");
		return false;
	}
	return split_address(options->server != NULL ? options->server : SL_CLI_SERVER, host, port) &&
	       sl_client_tls_begin(client, host, options->ca, error);
}

static bool log_in(struct sl_client *client, const char *user, struct sluice_error *error);

bool sl_client_open(struct sl_client *client, const struct sl_client_options *options, struct sluice_error *error) {
	const char *address = options->server != NULL ? options->server : SL_CLI_SERVER;
	client->fd = -1;
	client->tls = NULL;
	client->reached = false;
	client->at = client->len = 0;
	bool connected = strncmp(address, "unix:", 5) == 0 ? open_unix(client, address + 5, error)
	                                                   : open_network(client, address, error);
	if (!connected)
		return false;
	client->reached = true;
	if ((!options->tls || begin_tls(client, options, error)) && log_in(client, options->user, error))
		return true;
	sl_client_close(client);
	return false;
}

void sl_client_close(struct sl_client *client) {
	sl_client_tls_end(client);
	close(client->fd);
	client->fd = -1;
}

bool sl_client_option(struct sl_client_options *options, const char *name, const char *value) {
	if (strcmp(name, "server") == 0)
		options->server = value;
	else if (strcmp(name, "user") == 0)
		options->user = value;
	else if (strcmp(name, "ca") == 0)
		options->ca = value;
	else if (strcmp(name, "tls") == 0)
		options->tls = true;
	else
		return false;
	return true;
}

static bool send_all(struct sl_client *client, const char *data, size_t len, struct sluice_error *error) {
	while (len > 0) {
		ssize_t sent =
			client->tls != NULL ? sl_client_tls_send(client, data, len) : send(client->fd, data, len, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return fail_errno(error, "sending", errno);
		data += sent;
		len -= (size_t)sent;
	}
	return true;
}

static bool send_command(struct sl_client *client, const struct sluice_bytes *words, int count,
                         struct sluice_error *error) {
	char head[32];
	int head_len = snprintf(head, sizeof head, "*%d\r\n", count);
	bool fine = send_all(client, head, (size_t)head_len, error);
	for (int i = 0; i < count && fine; i++) {
		head_len = snprintf(head, sizeof head, "$%zu\r\n", words[i].len);
		fine = send_all(client, head, (size_t)head_len, error) &&
		       send_all(client, words[i].data, words[i].len, error) && send_all(client, "\r\n", 2, error);
	}
	return fine;
}

/* Reads more behind what is unread. */
static bool read_more(struct sl_client *client, struct sluice_error *error) {
	memmove(client->input, client->input + client->at, client->len - client->at);
	client->len -= client->at;
	client->at = 0;
	if (client->len == sizeof client->input) {
		snprintf(error->text, sizeof error->text, "the answer has a line of more than %d bytes: is it a Sluice server?",
		         SL_CLIENT_LINE_MAX);
		return false;
	}
	char *to = client->input + client->len;
	size_t room = sizeof client->input - client->len;
	ssize_t got;
	do
		got = client->tls != NULL ? sl_client_tls_receive(client, to, room) : recv(client->fd, to, room, 0);
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

/* The next line without its CR LF; borrowed until the next call. */
static bool read_line(struct sl_client *client, struct sluice_bytes *line, struct sluice_error *error) {
	for (;;) {
		char *from = client->input + client->at;
		char *end = memchr(from, '\n', client->len - client->at);
		if (end != NULL) {
			size_t len = (size_t)(end - from);
			client->at += len + 1;
			*line = sl_slice(from, len > 0 && from[len - 1] == '\r' ? len - 1 : len);
			return true;
		}
		if (!read_more(client, error))
			return false;
	}
}

enum { REFUSAL_SHOWN_MAX = 200 };

/* Says what came instead of integers: an error of the server, or something that no RESP server sends. */
static bool refuse(struct sluice_bytes line, struct sluice_error *error) {
	struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
	const char *text = line.data;
	if (line.len > 0 && text[0] == '-') {
		sl_out_str(&out, "the server refused: ");
		sl_out_shown(&out, sl_slice(text + 1, line.len - 1), REFUSAL_SHOWN_MAX);
	} else {
		sl_out_str(&out, "expected integers of a Sluice server, got ");
		sl_out_quoted(&out, line, 32);
	}
	*out.at = '\0';
	return false;
}

/* Reads "<type>NUMBER". */
static bool read_integer(struct sl_client *client, char type, int64_t *value, struct sluice_error *error) {
	struct sluice_bytes line;
	uint64_t number;
	if (!read_line(client, &line, error))
		return false;
	const char *text = line.data;
	bool negative = line.len > 1 && text[1] == '-';
	size_t digits = negative ? 2 : 1;
	if (line.len <= digits || text[0] != type ||
	    !sl_bytes_to_u64(sl_slice(text + digits, line.len - digits), &number) || number > INT64_MAX)
		return refuse(line, error);
	*value = negative ? -(int64_t)number : (int64_t)number;
	return true;
}

/* The secret leaves the environment here: nothing that runs later needs it. */
static bool log_in(struct sl_client *client, const char *user, struct sluice_error *error) {
	char *secret = getenv("SLUICE_PASSWORD");
	struct sluice_bytes words[3] = {sl_str("AUTH")}, line;
	int count = 1;
	if (secret == NULL && user != NULL) {
		snprintf(error->text, sizeof error->text, "--user wants a secret in the environment variable SLUICE_PASSWORD");
		return false;
	}
	if (secret == NULL)
		return true;
	if (user != NULL)
		words[count++] = sl_str(user);
	words[count++] = sl_str(secret);
	bool fine = send_command(client, words, count, error) && read_line(client, &line, error);
	OPENSSL_cleanse(secret, strlen(secret));
	unsetenv("SLUICE_PASSWORD");
	return fine && (sl_bytes_equal(line, sl_str("+OK")) || refuse(line, error));
}

/* ---- answers of other shapes ------------------------------------------------------------------------------------ */

bool sl_client_send(struct sl_client *client, const struct sluice_bytes *words, int count, struct sluice_error *error) {
	return send_command(client, words, count, error);
}

bool sl_client_send_bytes(struct sl_client *client, struct sluice_bytes bytes, struct sluice_error *error) {
	return send_all(client, bytes.data, bytes.len, error);
}

bool sl_client_integer(struct sl_client *client, char type, int64_t *value, struct sluice_error *error) {
	return read_integer(client, type, value, error);
}

bool sl_client_string(struct sl_client *client, char *data, size_t max, size_t *len, struct sluice_error *error) {
	struct sluice_bytes end;
	int64_t left;
	*len = 0;
	if (!read_integer(client, '$', &left, error))
		return false;
	if (left < 0) /* nil */
		return true;
	while (left > 0) {
		if (client->at == client->len && !read_more(client, error))
			return false;
		size_t part = client->len - client->at, keep = max - *len;
		part = part < (size_t)left ? part : (size_t)left;
		keep = keep < part ? keep : part;
		memcpy(data + *len, client->input + client->at, keep);
		*len += keep;
		client->at += part;
		left -= (int64_t)part;
	}
	return read_line(client, &end, error);
}
