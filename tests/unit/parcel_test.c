/* Parcels: written and read they are the same; cut, lengthened or changed they are none, or another whole one; and they
 * cross a socket with their descriptor. */
#include "hosts/server/net/parcel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sl_parcel example(void) {
	return (struct sl_parcel){.transport = SL_TRANSPORT_HTTP,
	                          .is_named = true,
	                          .address = {{0x20, 1, 0x0d, 0xb8, [15] = 7}},
	                          .listener = sl_str("127.0.0.1:7380"),
	                          .peer = sl_str("[2001:db8::7]:51000"),
	                          .packed = sl_slice("a\0b", 3),
	                          .input = sl_str("GET /v1/li")};
}

static void assert_equal(const struct sl_parcel *a, const struct sl_parcel *b) {
	assert_int_equal(a->transport, b->transport);
	assert_int_equal(a->is_unix, b->is_unix);
	assert_int_equal(a->is_named, b->is_named);
	assert_memory_equal(&a->address, &b->address, 16);
	assert_true(sl_bytes_equal(a->listener, b->listener) && sl_bytes_equal(a->peer, b->peer));
	assert_true(sl_bytes_equal(a->packed, b->packed) && sl_bytes_equal(a->input, b->input));
}

static void test_written_and_read(void **state) {
	static char bytes[SL_PARCEL_BYTES_MAX], input[SL_PARCEL_INPUT_MAX], packed[SL_DOOR_PACK_MAX];
	struct sl_parcel parcel = example(), read;
	(void)state;
	size_t len = sl_parcel_write(&parcel, bytes);
	assert_true(sl_parcel_read(&read, bytes, len));
	assert_equal(&parcel, &read);
	parcel = (struct sl_parcel){.listener = sl_str("unix:/run/sluice"), .is_unix = true, .peer = sl_str("")};
	len = sl_parcel_write(&parcel, bytes);
	assert_true(sl_parcel_read(&read, bytes, len));
	assert_equal(&parcel, &read);
	/* the largest there is */
	char listener[SL_LISTEN_TEXT_MAX], peer[SL_PEER_TEXT_MAX];
	memset(listener, 'l', sizeof listener);
	memset(peer, 'p', sizeof peer);
	memset(input, 'i', sizeof input);
	parcel = example();
	parcel.listener = sl_slice(listener, SL_LISTEN_TEXT_MAX - 1);
	parcel.peer = sl_slice(peer, SL_PEER_TEXT_MAX - 1);
	parcel.packed = sl_slice(packed, sizeof packed);
	parcel.input = sl_slice(input, sizeof input);
	len = sl_parcel_write(&parcel, bytes);
	assert_int_equal(len, SL_PARCEL_BYTES_MAX - 2);
	assert_true(sl_parcel_read(&read, bytes, len));
	assert_equal(&parcel, &read);
}

static void test_what_is_none(void **state) {
	static char bytes[SL_PARCEL_BYTES_MAX + 8], damaged[SL_PARCEL_BYTES_MAX + 8];
	struct sl_parcel parcel = example(), read;
	size_t len = sl_parcel_write(&parcel, bytes);
	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_false(sl_parcel_read(&read, bytes, cut));
	assert_false(sl_parcel_read(&read, bytes, len + 1));
	for (size_t i = 0; i < SL_PARCEL_HEAD_BYTES; i++)
		for (int value = 0; value < 256; value++) {
			memcpy(damaged, bytes, len);
			damaged[i] = (char)value;
			if (damaged[i] == bytes[i])
				continue;
			bool is_other = sl_parcel_read(&read, damaged, len);
			/* the address may be any, flags and transport another; lengths may not */
			assert_int_equal(is_other,
			                 (i >= 6 && i < 22) || (i == 4 && value < SL_TRANSPORTS) || (i == 5 && value < 4));
		}
	memcpy(damaged, bytes, len);
	damaged[SL_PARCEL_HEAD_BYTES + 3] = '\0'; /* in the listener's name */
	assert_false(sl_parcel_read(&read, damaged, len));
	memcpy(damaged, bytes, len);
	damaged[SL_PARCEL_HEAD_BYTES + parcel.listener.len] = '\0'; /* in the peer's text */
	assert_false(sl_parcel_read(&read, damaged, len));
}

static void test_an_arrival(void **state) {
	struct sl_parcel parcel = example();
	struct sl_listener listener = {.fd = -1};
	struct sl_arrival arrival;
	(void)state;
	assert_true(sl_parcel_arrive(&parcel, 77, &sl_door_http, &listener, &arrival));
	assert_int_equal(arrival.fd, 77);
	assert_ptr_equal(arrival.door, &sl_door_http);
	assert_ptr_equal(arrival.listener, &listener);
	assert_string_equal(arrival.peer, "[2001:db8::7]:51000");
	assert_true(arrival.is_named && !arrival.is_unix && !arrival.place.counted);
	assert_int_equal(arrival.luggage->packed_len, 3);
	assert_int_equal(arrival.luggage->input_len, 10);
	assert_memory_equal(arrival.luggage->bytes, "a\0bGET /v1/li", 13);
	free(arrival.luggage);
}

static int open_descriptors(void) {
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_across_a_socket(void **state) {
	static char bytes[SL_PARCEL_BYTES_MAX], got[SL_PARCEL_BYTES_MAX];
	int pair[2], connection[2], fd = -1, before = open_descriptors();
	struct sl_parcel parcel = example(), read;
	size_t len = sl_parcel_write(&parcel, bytes);
	char word[8] = "";
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, connection), 0);
	assert_true(sl_parcel_send(pair[0], connection[0], bytes, len));
	close(connection[0]); /* the one that is under way keeps the connection open */
	assert_int_equal(sl_parcel_receive(pair[1], &fd, got), (ssize_t)len);
	assert_true(sl_parcel_read(&read, got, len));
	assert_equal(&parcel, &read);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(connection[1], "PING", 4), 4);
	assert_int_equal(recv(fd, word, sizeof word, 0), 4);
	assert_string_equal(word, "PING");
	close(fd);
	assert_int_equal(recv(connection[1], word, sizeof word, 0), 0);
	close(connection[1]);
	/* a message without a descriptor, one with two, one that is too long */
	assert_int_equal(send(pair[0], bytes, len, 0), (ssize_t)len);
	assert_int_equal(sl_parcel_receive(pair[1], &fd, got), -1);
	assert_int_equal(errno, EBADMSG);
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {.header = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	memcpy(CMSG_DATA(&control.header), pair, sizeof pair);
	struct iovec part = {bytes, len};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	assert_int_equal(sendmsg(pair[0], &message, 0), (ssize_t)len);
	assert_int_equal(sl_parcel_receive(pair[1], &fd, got), -1);
	assert_int_equal(errno, EBADMSG);
	assert_int_equal(fd, -1);
	static char longer[SL_PARCEL_BYTES_MAX + 1];
	assert_true(sl_parcel_send(pair[0], pair[0], longer, sizeof longer));
	assert_int_equal(sl_parcel_receive(pair[1], &fd, got), -1);
	assert_int_equal(errno, EBADMSG);
	close(pair[0]);
	assert_int_equal(sl_parcel_receive(pair[1], &fd, got), 0); /* the end */
	assert_false(sl_parcel_send(pair[1], pair[1], bytes, len));
	close(pair[1]);
	assert_int_equal(open_descriptors(), before); /* none of those that were refused is left */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_and_read),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_an_arrival),
		cmocka_unit_test(test_across_a_socket),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
