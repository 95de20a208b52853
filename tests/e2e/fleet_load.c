/* Load on several servers at a steady rate, whatever they answer, and a record of every request.
 *
 *   fleet_load OUT RATE SECONDS CONNECTIONS FLYING KEYS PORT,PORT... WORD...
 *
 * Sends the command WORD... RATE times a second for SECONDS, or until standard input ends, over CONNECTIONS to each of
 * 127.0.0.1:PORT, each in its turn unless FLYING of its requests wait for answers; when that is so everywhere, less is
 * sent. `%` and `#` in a word are two numbers of 0..KEYS-1, drawn anew for each request. A server that is gone gets
 * nothing; it is tried again every 10 ms. Says "loading" once everything is connected.
 *
 * OUT gets a struct record for each request, in the order of answers: the caller judges, this program only writes down.
 * A request was decided between `sent_ns` and `answered_ns` (CLOCK_MONOTONIC), which is all that a client can know. */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	FRONTS_MAX = 16,
	LINKS_MAX = 512,
	FLYING_MAX = 1 << 13, /* requests of one connection without answer; a power of two */
	BUFFER_BYTES = 1 << 18,
	WORDS_MAX = 24,
	WORD_BYTES_MAX = 64,
	REQUEST_BYTES_MAX = 2048, /* WORDS_MAX words, and what stands around them */
	TICK_NS = 500000,
	RETRY_NS = 10000000,
	LINGER_NS = 2000000000,
};

#define CONNECT_NS ((uint64_t)10000000000)

/* FELL_BACK: denied by on-error: deny. Who denies by what was counted says when all of it is back; that one can't. */
enum outcome { DENIED, ALLOWED, REFUSED, UNANSWERED, FELL_BACK };

struct record {
	uint64_t sent_ns, answered_ns;
	uint32_t quota, remaining;
	uint16_t a, b;
	uint8_t front, outcome, zero[2];
};

struct link {
	int fd; /* -1: none */
	uint8_t front;
	bool connecting;
	uint64_t retry_ns;
	uint32_t first, end; /* of flying, modulo FLYING_MAX */
	size_t in_len, out_len;
	struct record *flying;
	char *in, *out;
};

static struct link links[LINKS_MAX];
static struct pollfd polled[LINKS_MAX + 1];
static uint16_t ports[FRONTS_MAX];
static uint32_t link_count, front_count, key_count, flying_most;
static char **words;
static int word_count;
static FILE *out_file;
static uint64_t seed = 88172645463325252u;

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t draw(uint32_t below) {
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 33) % below;
}

static void write_record(const struct record *one) {
	if (fwrite(one, sizeof *one, 1, out_file) != 1) {
		perror("fleet_load: cannot write the record");
		exit(2);
	}
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void hang_up(struct link *link) {
	if (link->fd >= 0)
		close(link->fd);
	for (; link->first != link->end; link->first++) {
		struct record *one = &link->flying[link->first % FLYING_MAX];
		one->outcome = UNANSWERED;
		one->answered_ns = now_ns();
		write_record(one);
	}
	link->fd = -1;
	link->in_len = link->out_len = 0;
	link->retry_ns = now_ns() + RETRY_NS;
}

static void dial(struct link *link) {
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(ports[link->front]), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int on = 1;
	link->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (link->fd < 0)
		return;
	setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	link->connecting = true;
	if (connect(link->fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
		hang_up(link);
}

static void flush(struct link *link) {
	if (link->out_len == 0 || link->fd < 0)
		return;
	ssize_t sent = send(link->fd, link->out, link->out_len, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		hang_up(link);
		return;
	}
	if (sent > 0) {
		link->out_len -= (size_t)sent;
		memmove(link->out, link->out + sent, link->out_len);
	}
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* A word of the command at `to`, which has room for it: bytes. */
static size_t put_word(char *to, size_t room, const char *word, uint32_t a, uint32_t b) {
	char text[WORD_BYTES_MAX];
	size_t len = 0;
	for (; *word != '\0' && len < sizeof text - 12; word++)
		if (*word == '%' || *word == '#')
			len += (size_t)snprintf(text + len, 12, "%u", *word == '%' ? a : b);
		else
			text[len++] = *word;
	return (size_t)snprintf(to, room, "$%zu\r\n%.*s\r\n", len, (int)len, text);
}

static bool request(struct link *link) {
	if (link->fd < 0 || link->connecting || link->end - link->first >= flying_most ||
	    link->out_len + REQUEST_BYTES_MAX > BUFFER_BYTES)
		return false;
	uint32_t a = draw(key_count), b = draw(key_count);
	char *at = link->out + link->out_len, *end = link->out + BUFFER_BYTES;
	at += snprintf(at, (size_t)(end - at), "*%d\r\n", word_count);
	for (int i = 0; i < word_count; i++)
		at += put_word(at, (size_t)(end - at), words[i], a, b);
	link->out_len = (size_t)(at - link->out);
	link->flying[link->end++ % FLYING_MAX] =
		(struct record){.sent_ns = now_ns(), .a = (uint16_t)a, .b = (uint16_t)b, .front = link->front};
	return true;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* The integers of one reply at `p`: bytes it takes, 0 when it is not all there. An error reply has no integers. */
static size_t read_reply(const char *p, size_t len, int64_t *numbers, int *count) {
	size_t at = 0;
	long elements = 1;
	*count = 0;
	for (long i = 0; i < elements; i++) {
		const char *eol = memchr(p + at, '\n', len - at);
		if (eol == NULL)
			return 0;
		long long n = strtoll(p + at + 1, NULL, 10);
		char kind = p[at];
		at = (size_t)(eol - p) + 1;
		if (kind == '*')
			elements += n;
		else if (kind == ':' && *count < 8)
			numbers[(*count)++] = n;
		else if (kind == '$')
			at += (size_t)n + 2;
		if (at > len)
			return 0;
	}
	return at;
}

static void answer(struct link *link) {
	size_t at = 0, used;
	int64_t numbers[8] = {0};
	int count;
	const uint64_t now = now_ns();
	while (link->first != link->end && (used = read_reply(link->in + at, link->in_len - at, numbers, &count)) > 0) {
		struct record *one = &link->flying[link->first++ % FLYING_MAX];
		one->outcome = count == 0 ? REFUSED : numbers[0] == 1 ? ALLOWED : numbers[4] > 0 ? DENIED : FELL_BACK;
		one->quota = (uint32_t)numbers[1];
		one->remaining = (uint32_t)numbers[2];
		one->answered_ns = now;
		if (one->outcome == REFUSED)
			fprintf(stderr, "%.*s", (int)used, link->in + at);
		write_record(one);
		at += used;
	}
	link->in_len -= at;
	memmove(link->in, link->in + at, link->in_len);
}

static void hear(struct link *link, short events) {
	if (link->connecting) {
		int error = 0;
		socklen_t len = sizeof error;
		getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		link->connecting = false;
		if (error != 0 || (events & (POLLERR | POLLHUP)) != 0)
			hang_up(link);
		return;
	}
	ssize_t got = recv(link->fd, link->in + link->in_len, BUFFER_BYTES - link->in_len, 0);
	if (got > 0) {
		link->in_len += (size_t)got;
		answer(link);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		hang_up(link);
	}
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* Waits until something comes, or the time is `until_ns`. False: standard input has ended. */
static bool listen_until(uint64_t until_ns) {
	uint64_t now = now_ns();
	struct timespec left = {0, until_ns > now ? (long)(until_ns - now) : 0};
	for (uint32_t i = 0; i < link_count; i++) {
		const struct link *link = &links[i];
		const short events = link->connecting || link->out_len > 0 ? POLLIN | POLLOUT : POLLIN;
		polled[i] = (struct pollfd){.fd = link->fd, .events = events};
	}
	polled[link_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	if (ppoll(polled, link_count + 1, &left, NULL) <= 0)
		return true;
	for (uint32_t i = 0; i < link_count; i++) {
		if (polled[i].fd >= 0 && (polled[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0)
			hear(&links[i], polled[i].revents);
		else if (polled[i].fd >= 0 && (polled[i].revents & POLLOUT) != 0 && links[i].connecting)
			hear(&links[i], polled[i].revents);
		flush(&links[i]);
	}
	return polled[link_count].revents == 0;
}

static bool all_connected(void) {
	for (uint32_t i = 0; i < link_count; i++)
		if (links[i].fd < 0 || links[i].connecting)
			return false;
	return true;
}

static bool any_flying(void) {
	for (uint32_t i = 0; i < link_count; i++)
		if (links[i].first != links[i].end)
			return true;
	return false;
}

static void redial(void) {
	for (uint32_t i = 0; i < link_count; i++)
		if (links[i].fd < 0 && now_ns() >= links[i].retry_ns)
			dial(&links[i]);
}

static void load(double rate, double seconds) {
	const uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9);
	uint64_t due = 0, next = 0;
	bool go_on = true;
	for (uint64_t now = start; go_on && now < end; now = now_ns()) {
		const uint64_t wanted = (uint64_t)((double)(now - start) / 1e9 * rate);
		for (; due < wanted; due++)
			for (uint32_t tried = 0; tried < link_count; tried++)
				if (request(&links[next++ % link_count]))
					break;
		for (uint32_t i = 0; i < link_count; i++)
			flush(&links[i]);
		redial();
		go_on = listen_until(now + TICK_NS);
	}
	for (uint64_t late = now_ns() + LINGER_NS; any_flying() && now_ns() < late;)
		listen_until(now_ns() + TICK_NS);
}

static void make_links(uint32_t connections) {
	link_count = connections * front_count;
	for (uint32_t i = 0; i < link_count; i++) {
		links[i] = (struct link){.fd = -1,
		                         .front = (uint8_t)(i % front_count),
		                         .flying = calloc(FLYING_MAX, sizeof(struct record)),
		                         .in = malloc(BUFFER_BYTES),
		                         .out = malloc(BUFFER_BYTES)};
		if (links[i].flying == NULL || links[i].in == NULL || links[i].out == NULL)
			exit(2);
	}
	const uint64_t late = now_ns() + CONNECT_NS;
	while (!all_connected()) {
		if (now_ns() > late) {
			fprintf(stderr, "fleet_load: not every port takes connections\n");
			exit(2);
		}
		redial();
		listen_until(now_ns() + TICK_NS);
	}
}

int main(int argc, char **argv) {
	if (argc < 9 || argc - 8 > WORDS_MAX || (out_file = fopen(argv[1], "wb")) == NULL) {
		fprintf(stderr, "usage: fleet_load OUT RATE SECONDS CONNECTIONS FLYING KEYS PORT,PORT... WORD...\n");
		return 2;
	}
	for (char *p = argv[7]; *p != '\0' && front_count < FRONTS_MAX; p += *p == ',')
		ports[front_count++] = (uint16_t)strtol(p, &p, 10);
	const long connections = strtol(argv[4], NULL, 10);
	flying_most = (uint32_t)strtol(argv[5], NULL, 10);
	key_count = (uint32_t)strtol(argv[6], NULL, 10);
	words = argv + 8;
	word_count = argc - 8;
	if (key_count == 0 || flying_most == 0 || flying_most > FLYING_MAX || connections < 1 ||
	    connections * (long)front_count > LINKS_MAX)
		return 2;
	make_links((uint32_t)connections);
	printf("loading\n");
	fflush(stdout);
	load(strtod(argv[2], NULL), strtod(argv[3], NULL));
	for (uint32_t i = 0; i < link_count; i++)
		hang_up(&links[i]);
	return fclose(out_file) == 0 ? 0 : 2;
}
