/* Hot upgrade, the process that comes. upgrade.c tells the whole story.
 *
 * It starts as ever, but for the listening sockets, which it is given. When it serves it says so, and from then on
 * takes the other one's connections over. Should that one vanish, this one serves on. */
#include "hosts/server/lifecycle/takeover.h"

#include "hosts/server/lifecycle/accept.h"
#include "hosts/server/lifecycle/readiness.h"
#include "hosts/server/net/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKETS_WAIT_MS = 10000, PARCELS_A_TURN = 64 };

/* ---- the listening sockets ------------------------------------------------------------------------------------- */

/* Receives one message of text and descriptors; the text's length, or -1 for what is none. */
static ssize_t receive(int channel, char *text, size_t room, int fds[SL_LISTENS_MAX], uint32_t *fd_count) {
	char control[CMSG_SPACE(SL_LISTENS_MAX * sizeof(int))];
	struct iovec part = {text, room};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct pollfd arrival = {.fd = channel, .events = POLLIN};
	*fd_count = 0;
	if (poll(&arrival, 1, SOCKETS_WAIT_MS) != 1)
		return -1;
	ssize_t got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got < 0)
		return -1;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head != NULL; head = CMSG_NXTHDR(&message, head))
		if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
			*fd_count = (uint32_t)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(head), *fd_count * sizeof(int));
		}
	return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -1 : got;
}

/* Takes the next line off the text; false where there is none, or it is longer than a key. */
static bool take_line(struct sluice_bytes *text, char key[SL_ENTRANCE_KEY_MAX]) {
	const char *end = text->len == 0 ? NULL : memchr(text->data, '\n', text->len);
	size_t len = end == NULL ? SL_ENTRANCE_KEY_MAX : (size_t)(end - (const char *)text->data);
	if (len >= SL_ENTRANCE_KEY_MAX)
		return false;
	memcpy(key, text->data, len);
	key[len] = '\0';
	*text = sl_slice(end + 1, text->len - len - 1);
	return true;
}

static bool take_sockets(struct sl_server *server) {
	char text[SL_TAKEOVER_TEXT_MAX];
	size_t head = strlen(SL_TAKEOVER_HEAD);
	int fds[SL_LISTENS_MAX];
	uint32_t count;
	ssize_t len = receive(server->predecessor, text, sizeof text, fds, &count);
	bool fine = len >= (ssize_t)head && memcmp(text, SL_TAKEOVER_HEAD, head) == 0;
	struct sluice_bytes lines = fine ? sl_slice(text + head, (size_t)len - head) : sl_slice(NULL, 0);
	for (uint32_t i = 0; i < count; i++) {
		struct sl_gift *gift = &server->gifts[server->gift_count++];
		gift->fd = fds[i];
		fine = fine && take_line(&lines, gift->key);
	}
	return fine && lines.len == 0;
}

bool sl_takeover_begin(struct sl_server *server) {
	const char *variable = getenv(SL_TAKEOVER_VARIABLE), *had = getenv(SL_TAKEOVER_HAD);
	uint64_t fd;
	if (variable != NULL && had != NULL)
		server->had = (strstr(had, "limits") != NULL ? SL_ARMED_LIMITS : 0) |
		              (strstr(had, "users") != NULL ? SL_ARMED_USERS : 0) |
		              (strstr(had, "rules") != NULL ? SL_ARMED_RULES : 0);
	server->predecessor_was_ready = variable != NULL && (had == NULL || strstr(had, "unready") == NULL);
	unsetenv(SL_TAKEOVER_HAD);
	if (variable == NULL)
		return true;
	bool is_number = sl_bytes_to_u64(sl_str(variable), &fd) && fd < INT32_MAX;
	unsetenv(SL_TAKEOVER_VARIABLE);
	if (is_number && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0) {
		server->predecessor = (int)fd;
		if (take_sockets(server))
			return true;
	}
	sl_log(SL_LOG_ERROR, SL_TAKEOVER_VARIABLE ": no server of this kind hands over there");
	return false;
}

/* ---- the connections ------------------------------------------------------------------------------------------- */

static struct sl_entrance *find_entrance(struct sl_server *server, const struct sl_parcel *parcel) {
	for (uint32_t i = 0; i < server->entrance_count; i++) {
		struct sl_entrance *entrance = &server->entrances[i];
		if (entrance->door->transport == parcel->transport &&
		    sl_bytes_equal(parcel->listener, sl_str(entrance->listener.name)))
			return entrance;
	}
	return NULL;
}

/* One that came by an entrance that this process does not have any more is closed: nobody could say by which rules it
 * is to be served. */
static void take_in(struct sl_server *server, int fd, const char *bytes, size_t len) {
	struct sl_parcel parcel;
	struct sl_arrival arrival;
	struct sl_entrance *entrance = sl_parcel_read(&parcel, bytes, len) ? find_entrance(server, &parcel) : NULL;
	if (entrance == NULL || !sl_parcel_arrive(&parcel, fd, entrance->door, &entrance->listener, &arrival))
		close(fd);
	else
		sl_accept_place(server, &arrival);
}

static void introduce(struct sl_server *server) {
	server->introduced = true;
	sl_readiness_tell(server);
}

static void end(struct sl_server *server) {
	if (!server->introduced)
		introduce(server);
	sl_handle_close((uv_handle_t *)&server->predecessor_poll);
	close(server->predecessor);
	server->predecessor = -1;
}

/* One message; false when there is none now. */
static bool hear(struct sl_server *server) {
	char bytes[SL_PARCEL_BYTES_MAX];
	int fd = -1;
	ssize_t got = server->introduced ? sl_parcel_receive(server->predecessor, &fd, bytes)
	                                 : recv(server->predecessor, bytes, sizeof bytes, MSG_DONTWAIT);
	if (got < 0 && errno == EBADMSG)
		return true; /* a message that is none: the next may be */
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0)
		end(server);
	else if (!server->introduced)
		introduce(server);
	else
		take_in(server, fd, bytes, (size_t)got);
	return got > 0;
}

static void on_message(uv_poll_t *handle, int status, int events) {
	struct sl_server *server = handle->data;
	(void)events;
	if (status != 0) {
		end(server);
		return;
	}
	for (int i = 0; i < PARCELS_A_TURN; i++)
		if (!hear(server))
			return;
}

void sl_takeover_ready(struct sl_server *server) {
	if (server->predecessor < 0)
		return;
	(void)!send(server->predecessor, SL_TAKEOVER_READY, strlen(SL_TAKEOVER_READY), MSG_NOSIGNAL | MSG_DONTWAIT);
	uv_poll_init(&server->workers[0].loop, &server->predecessor_poll, server->predecessor);
	uv_unref((uv_handle_t *)&server->predecessor_poll);
	server->predecessor_poll.data = server;
	uv_poll_start(&server->predecessor_poll, UV_READABLE, on_message);
}
