/* See url.h. Read by hand: what is allowed is less than a URL, and what is refused is told by name. */
#include "hosts/cli/url.h"

#include <stdio.h>

static const char redis_scheme[] = "redis://", tls_scheme[] = "rediss://", unix_scheme[] = "unix://";

static bool begins_with(const char *text, const char *prefix) {
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool sl_redis_url_is(const char *text) {
	return begins_with(text, redis_scheme) || begins_with(text, tls_scheme) || begins_with(text, unix_scheme);
}

static bool fail(struct sluice_error *error, const char *why) {
	snprintf(error->text, sizeof error->text, "%s", why);
	return false;
}

/* Copies part of a text where it fits. */
static bool copy(char *to, size_t room, const char *from, size_t len) {
	if (len >= room)
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

/* Takes "USER@" off the front of what is left. The last '@' before any '/' ends it: passwords may hold others. */
static bool take_user(const char **rest, struct sl_redis_url *url, struct sluice_error *error) {
	size_t before = strcspn(*rest, "/"), len = before;
	while (len > 0 && (*rest)[len - 1] != '@')
		len--;
	if (len == 0)
		return true;
	if (memchr(*rest, ':', len) != NULL)
		return fail(error, "a password does not belong on a command line, which everybody on the host may read: "
		                   "give the user alone, and the password in the environment variable SLUICE_PASSWORD");
	if (!copy(url->user, sizeof url->user, *rest, len - 1))
		return fail(error, "the user's name has more than 131 bytes");
	*rest += len;
	return true;
}

/* Does a host have a port after it? In [::1] colons are part of it. */
static bool has_port(const char *host, size_t len) {
	const char *end = memchr(host, ']', len);
	const char *from = end != NULL ? end : host;
	return memchr(from, ':', len - (size_t)(from - host)) != NULL;
}

static bool take_prefix(const char *prefix, struct sl_redis_url *url, struct sluice_error *error) {
	size_t len = strlen(prefix), digits = strspn(prefix, "0123456789");
	if (len > 0 && digits == len)
		return fail(error, "what stands after '/' is a prefix of keys, not the number of a database: leave it out, or "
		                   "write one such as /limits:");
	if (memchr(prefix, '{', len) != NULL || memchr(prefix, '}', len) != NULL)
		return fail(error, "expected a prefix without { and }, which choose the slot of a key in a cluster");
	return copy(url->prefix, sizeof url->prefix, prefix, len) || fail(error, "the prefix has more than 256 bytes");
}

static bool take_host(const char *rest, struct sl_redis_url *url, struct sluice_error *error) {
	size_t len = strcspn(rest, "/");
	const char *port = has_port(rest, len) ? "" : ":6379";
	if (len == 0)
		return fail(error, "expected a host, as in redis://127.0.0.1:6379");
	if ((size_t)snprintf(url->server, sizeof url->server, "%.*s%s", (int)len, rest, port) >= sizeof url->server)
		return fail(error, "the host's name is too long");
	return rest[len] == '\0' || take_prefix(rest + len + 1, url, error);
}

bool sl_redis_url_parse(const char *text, struct sl_redis_url *url, struct sluice_error *error) {
	*url = (struct sl_redis_url){.tls = begins_with(text, tls_scheme)};
	*error = (struct sluice_error){0};
	bool file = begins_with(text, unix_scheme);
	const char *rest = strstr(text, "://") + 3;
	if (!take_user(&rest, url, error))
		return false;
	if (!file)
		return take_host(rest, url, error);
	if (*rest != '/')
		return fail(error, "expected the path of a socket, as in unix:///run/redis.sock");
	if ((size_t)snprintf(url->server, sizeof url->server, "unix:%s", rest) >= sizeof url->server)
		return fail(error, "the socket's path is too long");
	return true;
}

struct sl_client_options sl_redis_url_options(const struct sl_redis_url *url, const char *ca) {
	return (struct sl_client_options){.server = url->server,
	                                  .user = url->user[0] != '\0' ? url->user : NULL,
	                                  .ca = ca,
	                                  .tls = url->tls,
	                                  .redis = true};
}
