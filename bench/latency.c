/* latency: how long requests take at a part of what a server can do, by RESP or HTTP.
 *
 *   latency --port N --door resp|http [--keys K] [--connections N] [--run-ms MS] [--load PERCENT] [--cpu N]
 *
 * First a closed loop, each connection with one request under way, which says how many a second the server answers on
 * this machine now. Then an open loop at `--load` percent of that: requests are due at instants that are drawn ahead,
 * whatever the server does, and each takes from the instant at which it was due to the last byte of its answer. So a
 * stall counts for all who had to wait for it, and not for one (what is called coordinated omission).
 *
 * Prints one line of JSON. Every answer is looked at: one that does not admit ends the run. */
#include "bench/bench.h"
#include "bench/resp_skip.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { CONNECTIONS_MAX = 256, REQUEST_BYTES_MAX = 512, ANSWER_BYTES_MAX = 8192, EVENTS_MAX = 64, WARMUP_MS = 300 };

#define LIMIT "1G/1m"
static const char resp_form[] = "*4\r\n$12\r\nSLUICE.CHECK\r\n$20\r\n%s\r\n$1\r\n1\r\n$5\r\n" LIMIT "\r\n";
static const char http_form[] = "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
								"Content-Length: %u\r\n\r\n{\"key\":\"%s\",\"limits\":[\"" LIMIT "\"]}";

static struct connection {
	int fd;
	uint64_t due_ns; /* of the request that is under way; 0: none is */
	size_t len;
	char in[ANSWER_BYTES_MAX];
} connections[CONNECTIONS_MAX];

static struct connection *idle[CONNECTIONS_MAX];
static unsigned idle_count, connection_count = 50;
static uint64_t port, keys = 1000000, run_ms = 2000, load_percent = 50, core = UINT64_MAX, answers;
static bool is_http, is_open;
static int events_fd;
static char request[REQUEST_BYTES_MAX];
static size_t request_len, key_at;
static struct bench_random random_keys = {7};
static struct bench_histogram took;

static void fail(const char *what) {
	fprintf(stderr, "latency: %s\n", what);
	exit(2);
}

static void make_request(void) {
	static const char place[] = "rl:user:000000000000";
	unsigned body = sizeof "{\"key\":\"\",\"limits\":[\"" LIMIT "\"]}" - 1 + BENCH_KEY_BYTES;
	request_len = (size_t)(is_http ? snprintf(request, sizeof request, http_form, body, place)
	                               : snprintf(request, sizeof request, resp_form, place));
	key_at = (size_t)(strstr(request, place) - request);
}

static void connect_all(void) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned i = 0; i < connection_count; i++) {
		struct connection *connection = &connections[i];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
		connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&to, sizeof to) != 0 ||
		    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
		    epoll_ctl(events_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
			bench_die("cannot connect");
		idle[idle_count++] = connection;
	}
}

static void ask(struct connection *connection, uint64_t due_ns) {
	bench_key(request + key_at, bench_below(&random_keys, keys));
	connection->due_ns = due_ns;
	if (send(connection->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
		bench_die("send"); /* a socket with nothing under way takes one request */
}

/* The length of an answer; 0 where it has not come whole. */
static size_t answer_len(const struct connection *connection) {
	struct resp_reply reply;
	if (!is_http) {
		enum resp_verdict verdict = resp_skip(connection->in, connection->len, &reply);
		if (verdict == RESP_BAD || (verdict == RESP_WHOLE && reply.leading != 1))
			fail("an answer of RESP that does not admit");
		return verdict == RESP_WHOLE ? reply.len : 0;
	}
	const char *end = memmem(connection->in, connection->len, "\r\n\r\n", 4);
	if (end == NULL)
		return 0;
	size_t head = (size_t)(end - connection->in) + 4;
	const char *field = memmem(connection->in, head, "ontent-", 7), *length = NULL;
	for (; field != NULL; field = memmem(field + 7, head - (size_t)(field + 7 - connection->in), "ontent-", 7))
		if (strncasecmp(field + 7, "length: ", 8) == 0)
			length = field + 15;
	if (strncmp(connection->in, "HTTP/1.1 200", 12) != 0 || length == NULL)
		fail("an answer of HTTP that is no 200 with a length");
	size_t whole = head + strtoul(length, NULL, 10);
	return whole <= connection->len ? whole : 0;
}

static void receive(struct connection *connection) {
	ssize_t n =
		recv(connection->fd, connection->in + connection->len, ANSWER_BYTES_MAX - connection->len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || connection->due_ns == 0)
		fail("the server hung up, or answered what nobody asked");
	connection->len += (size_t)n;
	size_t len = answer_len(connection);
	if (len == 0)
		return;
	if (len != connection->len)
		fail("more than one answer");
	bench_histogram_add(&took, bench_clock_ns() - connection->due_ns, 1);
	answers++;
	connection->len = 0;
	connection->due_ns = 0;
	if (is_open)
		idle[idle_count++] = connection;
	else
		ask(connection, bench_clock_ns());
}

/* Takes what comes within `wait_ns`. */
static void take_events(uint64_t wait_ns) {
	struct epoll_event events[EVENTS_MAX];
	struct timespec wait = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
	int n = epoll_pwait2(events_fd, events, EVENTS_MAX, &wait, NULL);
	if (n < 0 && errno != EINTR)
		bench_die("epoll_pwait2");
	for (int i = 0; i < n; i++)
		receive(events[i].data.ptr);
}

static void run_closed(uint64_t until_ns) {
	while (idle_count > 0)
		ask(idle[--idle_count], bench_clock_ns());
	while (bench_clock_ns() < until_ns)
		take_events(100000000);
}

/* Waits for all that is under way. */
static void settle(void) {
	is_open = true;
	uint64_t give_up_ns = bench_clock_ns() + UINT64_C(10000000000);
	while (idle_count < connection_count && bench_clock_ns() < give_up_ns)
		take_events(100000000);
	if (idle_count < connection_count)
		fail("an answer did not come within 10 s");
}

/* `step_ns` on average from one instant to the next: a uniform draw of up to twice that. */
static void run_open(uint64_t step_ns, uint64_t until_ns) {
	struct bench_random random = {11};
	uint64_t due_ns = bench_clock_ns();
	for (uint64_t now_ns = due_ns; now_ns < until_ns; now_ns = bench_clock_ns()) {
		for (; due_ns <= now_ns && idle_count > 0; due_ns += 1 + bench_below(&random, 2 * step_ns))
			ask(idle[--idle_count], due_ns);
		take_events(due_ns > now_ns && idle_count > 0 ? due_ns - now_ns : idle_count > 0 ? 0 : 100000000);
	}
}

static uint64_t answers_of(uint64_t ms) {
	uint64_t before = answers;
	memset(&took, 0, sizeof took);
	run_closed(bench_clock_ns() + ms * 1000000);
	return answers - before;
}

static void take_words(int argc, char **argv) {
	for (int i = 1; i < argc; i += 2) {
		const char *name = argv[i], *text = i + 1 < argc ? argv[i + 1] : "";
		if (strcmp(name, "--port") == 0)
			port = bench_number(name, text, 1, 65535);
		else if (strcmp(name, "--keys") == 0)
			keys = bench_number(name, text, 1, 1000000000);
		else if (strcmp(name, "--connections") == 0)
			connection_count = (unsigned)bench_number(name, text, 1, CONNECTIONS_MAX);
		else if (strcmp(name, "--run-ms") == 0)
			run_ms = bench_number(name, text, 1, 3600000);
		else if (strcmp(name, "--load") == 0)
			load_percent = bench_number(name, text, 1, 100);
		else if (strcmp(name, "--cpu") == 0)
			core = bench_number(name, text, 0, 4095);
		else if (strcmp(name, "--door") == 0 && (strcmp(text, "http") == 0 || strcmp(text, "resp") == 0))
			is_http = text[0] == 'h';
		else
			fail("usage: latency --port N --door resp|http [--keys K] [--connections N] [--run-ms MS] "
			     "[--load PERCENT] [--cpu N]");
	}
	if (port == 0)
		fail("which port? --port N");
}

int main(int argc, char **argv) {
	take_words(argc, argv);
	if (core != UINT64_MAX)
		bench_pin((unsigned)core);
	(void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* or a wait may be 50 us longer */
	events_fd = epoll_create1(EPOLL_CLOEXEC);
	if (events_fd < 0)
		bench_die("epoll_create1");
	make_request();
	connect_all();
	(void)answers_of(WARMUP_MS);
	uint64_t most = answers_of(run_ms);
	double closed_us = bench_histogram_quantile(&took, 0.5) / 1e3;
	if (most == 0)
		fail("no answers");
	settle();
	memset(&took, 0, sizeof took);
	answers = 0;
	uint64_t begin_ns = bench_clock_ns();
	run_open(run_ms * 1000000 / most * 100 / load_percent, begin_ns + run_ms * 1000000);
	double seconds = (double)(bench_clock_ns() - begin_ns) / 1e9;
	uint64_t answered = answers;
	settle();
	printf("{\"most_per_s\": %.0f, \"closed_p50_us\": %.1f, \"per_s\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"p999_us\": %.1f}\n",
	       (double)most * 1e3 / (double)run_ms, closed_us, (double)answered / seconds,
	       bench_histogram_quantile(&took, 0.5) / 1e3, bench_histogram_quantile(&took, 0.99) / 1e3,
	       bench_histogram_quantile(&took, 0.999) / 1e3);
	return 0;
}
