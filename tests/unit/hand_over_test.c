/* Connections that move from one worker to another as they would to another process: as parcels. Real loops on threads
 * of their own, sockets without a network; what waits for something waits for an answer. */
#include "hosts/server/net/parcel.h"
#include "hosts/server/lifecycle/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OLD, NEW, WORKERS, CONNECTIONS = 40, SENT_MAX = 1000 };

static struct sluice_store *store;
static struct sl_shared_policy *policy;
static struct sl_parts parts;
static struct sl_worker workers[WORKERS];
static struct sl_listener listener = {.fd = -1, .name = "unix:/test"};
static _Atomic uint64_t next_id;
static _Atomic uint32_t given, refused;
static bool is_running[WORKERS];
static _Atomic bool is_ready; /* is the receiver? */

static void *run_worker(void *argument) {
	struct sl_worker *worker = argument;
	uv_run(&worker->loop, UV_RUN_DEFAULT);
	return NULL;
}

static const struct sl_door *door_of(enum sl_transport transport) {
	return transport == SL_TRANSPORT_RESP ? &sl_door_resp : &sl_door_http;
}

/* What the process that takes over does, across the same bytes. */
static bool give(void *to, int fd, const char *bytes, size_t len) {
	struct sl_parcel parcel;
	struct sl_arrival arrival;
	assert_ptr_equal(to, &workers[NEW]);
	if (!is_ready) {
		refused++;
		return false;
	}
	assert_true(sl_parcel_read(&parcel, bytes, len));
	assert_true(sl_bytes_equal(parcel.listener, sl_str(listener.name)));
	assert_true(sl_parcel_arrive(&parcel, dup(fd), door_of(parcel.transport), &listener, &arrival));
	assert_true(sl_worker_give(&workers[NEW], &arrival));
	given++;
	return true;
}

static void start(uint32_t worker) {
	assert_int_equal(pthread_create(&workers[worker].thread, NULL, run_worker, &workers[worker]), 0);
	is_running[worker] = true;
}

/* The old worker reads nothing yet, and no message. */
static int set_up_still(void **state) {
	struct sluice_store_options options = {.memory_bytes = 1024 * 1024};
	(void)state;
	policy = calloc(1, sizeof *policy);
	policy->holders = 1;
	assert_int_equal(sluice_policy_load(&policy->policy, sl_str("limits: []\n"), NULL), SLUICE_OK);
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	assert_true(sl_parts_make(&parts, WORKERS, sl_policy_settings(policy->policy)));
	given = refused = 0;
	is_ready = true;
	for (uint32_t i = 0; i < WORKERS; i++) {
		struct sl_worker_options worker = {.store = store,
		                                   .policy = policy,
		                                   .shared = &parts.shared,
		                                   .number = i,
		                                   .own = &parts.figures->workers[i],
		                                   .next_id = &next_id,
		                                   .bounds = parts.bounds};
		assert_int_equal(sl_worker_init(&workers[i], &worker), SLUICE_OK);
	}
	start(NEW);
	return 0;
}

static int set_up(void **state) {
	set_up_still(state);
	start(OLD);
	return 0;
}

static void join(uint32_t worker) {
	if (is_running[worker])
		pthread_join(workers[worker].thread, NULL);
	is_running[worker] = false;
}

static int clear_up(void **state) {
	(void)state;
	for (uint32_t i = 0; i < WORKERS; i++) {
		if (is_running[i])
			sl_worker_drain(&workers[i]);
		join(i);
		sl_worker_free(&workers[i]);
	}
	assert_int_equal(sl_bounds_open(parts.bounds), 0);
	sl_parts_free(&parts);
	sl_shared_policy_release(policy);
	sluice_store_close(store);
	return 0;
}

/* A client's end of a new connection that the old worker serves. */
static int dial(const struct sl_door *door) {
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
	struct sl_arrival arrival = {.fd = pair[1], .door = door, .listener = &listener, .peer = "unix", .is_unix = true};
	assert_true(sl_arrival_admit(workers[OLD].bounds, workers[OLD].context.policy, &arrival));
	assert_true(sl_worker_give(&workers[OLD], &arrival));
	return pair[0];
}

static void say(int fd, const char *text) {
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void hear(int fd, const char *expected) {
	char got[512] = "";
	size_t len = 0;
	while (len < strlen(expected)) {
		ssize_t more = recv(fd, got + len, strlen(expected) - len, 0);
		assert_true(more > 0);
		len += (size_t)more;
	}
	assert_string_equal(got, expected);
}

static uint64_t closed_by(int worker) {
	return parts.figures->workers[worker].closed[SL_TRANSPORT_RESP] +
	       parts.figures->workers[worker].closed[SL_TRANSPORT_HTTP];
}

static void test_everything_moves_and_nothing_is_lost(void **state) {
	int resp[CONNECTIONS], http[CONNECTIONS];
	(void)state;
	for (int i = 0; i < CONNECTIONS; i++) {
		resp[i] = dial(&sl_door_resp);
		http[i] = dial(&sl_door_http);
		say(resp[i], "PING\r\nHELLO 3\r\nCLIENT SETNAME mover\r\nPING\r\n*2\r\n$4\r\nEC"); /* and half a request */
		say(http[i], "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 39\r\n\r\n{\"key\":\"moved\",");
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		char answer[4096];
		hear(resp[i], "+PONG\r\n%");
		for (size_t len = 0; len < 5 || memcmp(answer + len - 5, "PONG\r", 5) != 0; len++)
			assert_int_equal(recv(resp[i], answer + len, 1, 0), 1);
		hear(resp[i], "\n");
	}
	sl_worker_hand_over(&workers[OLD], give, &workers[NEW]);
	join(OLD); /* it ends when it has given all away */
	assert_int_equal(given, 2 * CONNECTIONS);
	assert_int_equal(closed_by(OLD), 2 * CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++) {
		say(resp[i], "HO\r\n$2\r\nhi\r\nCLIENT GETNAME\r\n");
		hear(resp[i], "$2\r\nhi\r\n$5\r\nmover\r\n");
		say(resp[i], "GET nothing\r\nCLIENT GETNAME\r\n");
		say(http[i], "\"limits\":[\"unlimited\"]}\n");
		hear(http[i], "HTTP/1.1 200 OK\r\n");
		close(resp[i]);
		close(http[i]);
	}
}

static void test_who_can_not_go_now_goes_later(void **state) {
	int busy = dial(&sl_door_resp), idle = dial(&sl_door_resp);
	char big[4096], *answers = malloc(SENT_MAX * 4023);
	size_t sent = 0, len = 0;
	(void)state;
	say(idle, "PING\r\n");
	hear(idle, "+PONG\r\n");
	/* more answers than the socket takes: they are pending */
	int size = snprintf(big, sizeof big, "*2\r\n$4\r\nECHO\r\n$4000\r\n%04000d\r\n", 7);
	assert_int_equal(size, 4023);
	struct pollfd room = {.fd = busy, .events = POLLOUT};
	while (sent < SENT_MAX && poll(&room, 1, 200) == 1) {
		ssize_t part = send(busy, big, (size_t)size, MSG_NOSIGNAL);
		assert_int_equal(part, size);
		sent++;
	}
	assert_true(sent < SENT_MAX); /* the worker reads no more */
	sl_worker_hand_over(&workers[OLD], give, &workers[NEW]);
	say(idle, "PING\r\n");
	hear(idle, "+PONG\r\n"); /* by the one or the other */
	while (len < sent * 4009)
		len += (size_t)recv(busy, answers + len, sent * 4009 - len, 0);
	for (size_t i = 0; i < sent; i++)
		assert_memory_equal(answers + i * 4009, "$4000\r\n0000", 11);
	join(OLD);
	assert_int_equal(given, 2);
	say(busy, "PING\r\n");
	hear(busy, "+PONG\r\n");
	free(answers);
	close(busy);
	close(idle);
}

static void test_an_upgrade_that_fails_changes_nothing(void **state) {
	int fd = dial(&sl_door_resp);
	(void)state;
	is_ready = false;
	say(fd, "PING\r\n");
	hear(fd, "+PONG\r\n");
	sl_worker_hand_over(&workers[OLD], give, &workers[NEW]);
	while (refused == 0) {
		say(fd, "PING\r\n"); /* served on, and offered after each answer */
		hear(fd, "+PONG\r\n");
	}
	sl_worker_hand_over(&workers[OLD], NULL, NULL);
	int later = dial(&sl_door_resp); /* who is served came behind that */
	say(later, "PING\r\n");
	hear(later, "+PONG\r\n");
	close(later);
	is_ready = true;
	say(fd, "PING\r\n");
	hear(fd, "+PONG\r\n");
	assert_int_equal(given, 0);
	assert_true(closed_by(OLD) <= 1); /* `later` */
	close(fd);
}

/* All three come in one turn: it is offered, refused, and drained. What it had sent is answered; it is not offered
 * again then, though it could go. */
static void test_who_could_not_go_until_the_end_stays(void **state) {
	char end;
	int fd = dial(&sl_door_resp);
	(void)state;
	is_ready = false;
	say(fd, "PING\r\n");
	sl_worker_hand_over(&workers[OLD], give, &workers[NEW]);
	sl_worker_drain(&workers[OLD]);
	start(OLD);
	hear(fd, "+PONG\r\n");
	assert_int_equal(recv(fd, &end, 1, 0), 0);
	join(OLD);
	assert_int_equal(refused, 1);
	close(fd);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_could_not_go_until_the_end_stays, set_up_still, clear_up),
		cmocka_unit_test_setup_teardown(test_everything_moves_and_nothing_is_lost, set_up, clear_up),
		cmocka_unit_test_setup_teardown(test_who_can_not_go_now_goes_later, set_up, clear_up),
		cmocka_unit_test_setup_teardown(test_an_upgrade_that_fails_changes_nothing, set_up, clear_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
