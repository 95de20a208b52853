/* Parcels: written by one process, read by another, which believes nothing of them. */
#include "hosts/server/net/parcel.h"

#include "base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IS_UNIX = 1, IS_NAMED = 2, FLAGS_ALL = 3 };
enum { AT_TRANSPORT = 4, AT_FLAGS = 5, AT_ADDRESS = 6, AT_LISTENER = 22, AT_PEER = 24, AT_PACKED = 26, AT_INPUT = 28 };

static const char magic[4] = {'S', 'L', 'P', '1'};

static void put(char *at, size_t value, int bytes) {
	for (int i = 0; i < bytes; i++)
		at[i] = (char)(value >> 8 * (bytes - 1 - i));
}

static size_t get(const char *at, int bytes) {
	size_t value = 0;
	for (int i = 0; i < bytes; i++)
		value = value << 8 | (uint8_t)at[i];
	return value;
}

static bool is_within_bounds(const struct sl_parcel *parcel) {
	return parcel->transport < SL_TRANSPORTS && parcel->listener.len >= 1 &&
	       parcel->listener.len < SL_LISTEN_TEXT_MAX && parcel->peer.len < SL_PEER_TEXT_MAX &&
	       parcel->packed.len <= SL_DOOR_PACK_MAX && parcel->input.len <= SL_PARCEL_INPUT_MAX;
}

size_t sl_parcel_write(const struct sl_parcel *parcel, char bytes[SL_PARCEL_BYTES_MAX]) {
	SL_ASSERT(is_within_bounds(parcel));
	memcpy(bytes, magic, sizeof magic);
	bytes[AT_TRANSPORT] = (char)parcel->transport;
	bytes[AT_FLAGS] = (char)((parcel->is_unix ? IS_UNIX : 0) | (parcel->is_named ? IS_NAMED : 0));
	memcpy(bytes + AT_ADDRESS, parcel->address.bytes, 16);
	put(bytes + AT_LISTENER, parcel->listener.len, 2);
	put(bytes + AT_PEER, parcel->peer.len, 2);
	put(bytes + AT_PACKED, parcel->packed.len, 2);
	put(bytes + AT_INPUT, parcel->input.len, 4);
	struct sl_out out = sl_out_to(bytes + SL_PARCEL_HEAD_BYTES, SL_PARCEL_BYTES_MAX - SL_PARCEL_HEAD_BYTES);
	sl_out_bytes(&out, parcel->listener.data, parcel->listener.len);
	sl_out_bytes(&out, parcel->peer.data, parcel->peer.len);
	sl_out_bytes(&out, parcel->packed.data, parcel->packed.len);
	sl_out_bytes(&out, parcel->input.data, parcel->input.len);
	SL_ASSERT(!out.overflow);
	return SL_PARCEL_HEAD_BYTES + sl_out_len(&out);
}

/* Takes `len` bytes off what is left; false where there are fewer. */
static bool take(struct sluice_bytes *left, size_t len, struct sluice_bytes *slice) {
	if (left->len < len)
		return false;
	*slice = sl_slice(left->data, len);
	*left = sl_slice((const char *)left->data + len, left->len - len);
	return true;
}

static bool has_nul(struct sluice_bytes text) {
	return text.len != 0 && memchr(text.data, '\0', text.len) != NULL;
}

bool sl_parcel_read(struct sl_parcel *parcel, const char *bytes, size_t len) {
	if (len < SL_PARCEL_HEAD_BYTES || memcmp(bytes, magic, sizeof magic) != 0 ||
	    (uint8_t)bytes[AT_TRANSPORT] >= SL_TRANSPORTS || ((uint8_t)bytes[AT_FLAGS] & ~FLAGS_ALL) != 0)
		return false;
	struct sluice_bytes left = sl_slice(bytes + SL_PARCEL_HEAD_BYTES, len - SL_PARCEL_HEAD_BYTES);
	*parcel = (struct sl_parcel){.transport = (enum sl_transport)bytes[AT_TRANSPORT],
	                             .is_unix = bytes[AT_FLAGS] & IS_UNIX,
	                             .is_named = bytes[AT_FLAGS] & IS_NAMED};
	memcpy(parcel->address.bytes, bytes + AT_ADDRESS, 16);
	return take(&left, get(bytes + AT_LISTENER, 2), &parcel->listener) &&
	       take(&left, get(bytes + AT_PEER, 2), &parcel->peer) &&
	       take(&left, get(bytes + AT_PACKED, 2), &parcel->packed) &&
	       take(&left, get(bytes + AT_INPUT, 4), &parcel->input) && left.len == 0 && is_within_bounds(parcel) &&
	       !has_nul(parcel->listener) && !has_nul(parcel->peer);
}

bool sl_parcel_arrive(const struct sl_parcel *parcel, int fd, const struct sl_door *door,
                      const struct sl_listener *listener, struct sl_arrival *arrival) {
	SL_ASSERT(is_within_bounds(parcel) && door->transport == parcel->transport);
	struct sl_luggage *luggage = malloc(sizeof *luggage + parcel->packed.len + parcel->input.len);
	if (luggage == NULL)
		return false;
	luggage->packed_len = parcel->packed.len;
	luggage->input_len = parcel->input.len;
	if (parcel->packed.len != 0)
		memcpy(luggage->bytes, parcel->packed.data, parcel->packed.len);
	if (parcel->input.len != 0)
		memcpy(luggage->bytes + parcel->packed.len, parcel->input.data, parcel->input.len);
	*arrival = (struct sl_arrival){.fd = fd,
	                               .door = door,
	                               .listener = listener,
	                               .address = parcel->address,
	                               .is_unix = parcel->is_unix,
	                               .is_named = parcel->is_named,
	                               .luggage = luggage};
	if (parcel->peer.len != 0)
		memcpy(arrival->peer, parcel->peer.data, parcel->peer.len);
	return true;
}

/* ---- with its descriptor, over a socket ------------------------------------------------------------------------ */

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

bool sl_parcel_send(int socket, int fd, const char *bytes, size_t len) {
	union control control = {.bytes = {0}};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
	control.header = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	ssize_t sent;
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)len;
}

/* The one descriptor that came; -1 where none did. More than one can't: there is room for one, the rest the kernel
 * closes and says so in the flags. */
static int take_descriptor(struct msghdr *message) {
	int fd = -1;
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof fd))
		memcpy(&fd, CMSG_DATA(header), sizeof fd);
	return fd;
}

ssize_t sl_parcel_receive(int socket, int *fd, char bytes[SL_PARCEL_BYTES_MAX]) {
	union control control;
	struct iovec part = {.iov_base = bytes, .iov_len = SL_PARCEL_BYTES_MAX};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof *fd)};
	ssize_t got;
	*fd = -1;
	do
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got;
	*fd = take_descriptor(&message);
	if (*fd >= 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return got;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = EBADMSG;
	return -1;
}
