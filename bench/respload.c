/* respload: a load generator for servers that speak RESP2, fast enough not to be the bottleneck.
 *
 * Why another one: redis-benchmark parses every reply into objects, and stops at about 2.2 million replies of seven
 * integers a second, where a pipelined limiter begins. This one builds a batch by copying a template and patching the
 * key into it, steps over replies (resp_skip.h), and spends two system calls a batch: 5.7 million a second on one core.
 *
 * How it works: one thread, epoll, N connections. Each connection is a closed loop: it sends P commands in one write,
 * waits for all P replies, and sends the next P. So a latency here is the time from the write of a batch to the arrival
 * of a reply, and at saturation p50 is about N * P / throughput.
 *
 * Beside operations a second it prints the CPU time that the server spent for each operation, kernel part included
 * (bench_cpu_ns): the steadier figure by far, because it does not care who else uses the machine.
 *
 *   respload --port 6379 --connections 50 --pipeline 64 --keys 1000000 --seconds 2 --server-pid 123 GET %k
 *
 * In a command's arguments stand %k the key (the same one throughout a command), %t the time in ms, %s in s, %w the
 * number of the current window of --window-ms, %v that of the window before, %u six digits that count up, %% a percent
 * sign.
 *
 * Invariants
 *  1. A template's holes have fixed widths, so every command of a run has the same length.
 *  2. Figures count only what arrived between the end of the warm-up and the end of the run; the server's CPU time is
 *     read at the same two instants.
 *  3. A connection has either a batch to send or replies to wait for, never both a whole batch and new ones.
 */
#include "bench/bench.h"
#include "bench/resp_skip.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
	CONNECTIONS_MAX = 1024,
	PIPELINE_MAX = 1024,
	COMMAND_BYTES_MAX = 4096,
	HOLES_MAX = 32,
	INPUT_BYTES = 256 * 1024, /* the longest reply that can be stepped over */
	EVENTS_MAX = 256,
	MILLISECOND_DIGITS = 13,
	SECOND_DIGITS = 10,
	UNIQUE_DIGITS = 6,
};

struct options {
	const char *host;
	unsigned port, connections, pipeline;
	uint64_t keys, requests; /* requests 0: by time */
	uint64_t run_ms, warmup_ms, window_ms, seed;
	long server_pid, behind_pid; /* 0: not measured */
	int core;                    /* -1: not pinned */
	bool sequential, json;
};

struct hole {
	uint32_t at;
	char kind; /* the letter behind the % */
	uint8_t digits;
};

struct command {
	char bytes[COMMAND_BYTES_MAX];
	size_t len;
	struct hole holes[HOLES_MAX];
	unsigned hole_count;
};

struct connection {
	int fd;
	bool wants_write; /* registered for EPOLLOUT: the socket was full */
	unsigned waiting; /* replies still to come for the batch that was sent */
	uint64_t sent_ns;
	char *in, *out;
	size_t in_len, out_len, out_done;
};

struct tally {
	uint64_t replies, errors;
	uint64_t leading[3]; /* replies that begin with 0, with 1, with anything else */
	uint64_t start_ns, server_cpu_ns, behind_cpu_ns, own_cpu_ns;
	struct bench_histogram latency;
};

struct load {
	struct options options;
	struct command command;
	struct connection connections[CONNECTIONS_MAX];
	int epoll;
	struct bench_random random;
	uint64_t sent, key_next;
	char first_error[160];
	struct tally tally;
};

/* ---- the command -------------------------------------------------------------------------------------------- */

static void append(struct command *command, const char *data, size_t len) {
	if (len > COMMAND_BYTES_MAX - command->len) {
		fprintf(stderr, "respload: the command is longer than %d bytes\n", COMMAND_BYTES_MAX);
		exit(2);
	}
	memcpy(command->bytes + command->len, data, len);
	command->len += len;
}

/* Digits that a %w or %v needs: those of the current window's number. */
static unsigned window_digits(const struct options *options) {
	char text[24];
	return (unsigned)snprintf(text, sizeof text, "%llu",
	                          (unsigned long long)(bench_wall_ns() / 1000000u / options->window_ms));
}

/* The width of a hole; 0 for a letter that is none. */
static unsigned hole_digits(const struct options *options, char kind) {
	switch (kind) {
	case 'k':
		return BENCH_KEY_BYTES;
	case 't':
		return MILLISECOND_DIGITS;
	case 's':
		return SECOND_DIGITS;
	case 'u':
		return UNIQUE_DIGITS;
	case 'w':
	case 'v':
		return window_digits(options);
	default:
		return 0;
	}
}

/* Expands one argument into `body`, noting its holes with offsets from there. */
static void expand(const struct options *options, const char *text, struct command *body) {
	for (; *text != '\0'; text++) {
		unsigned digits = text[0] == '%' ? hole_digits(options, text[1]) : 0;
		if (digits == 0) {
			text += text[0] == '%' && text[1] == '%';
			append(body, text, 1);
			continue;
		}
		if (body->hole_count == HOLES_MAX) {
			fprintf(stderr, "respload: more than %d placeholders in a command\n", HOLES_MAX);
			exit(2);
		}
		body->holes[body->hole_count++] = (struct hole){(uint32_t)body->len, *++text, (uint8_t)digits};
		append(body, "????????????????????", digits);
	}
}

/* Compiles the arguments into a RESP array with holes. */
static void compile(struct load *load, char **arguments, int count) {
	struct command *command = &load->command;
	char header[32];
	append(command, header, (size_t)snprintf(header, sizeof header, "*%d\r\n", count));
	for (int i = 0; i < count; i++) {
		struct command body = {.len = 0};
		expand(&load->options, arguments[i], &body);
		append(command, header, (size_t)snprintf(header, sizeof header, "$%zu\r\n", body.len));
		for (unsigned h = 0; h < body.hole_count; h++) {
			if (command->hole_count == HOLES_MAX) {
				fprintf(stderr, "respload: more than %d placeholders in a command\n", HOLES_MAX);
				exit(2);
			}
			command->holes[command->hole_count] = body.holes[h];
			command->holes[command->hole_count++].at += (uint32_t)command->len;
		}
		append(command, body.bytes, body.len);
		append(command, "\r\n", 2);
	}
}

/* Writes one command with its holes filled; returns the place behind it. */
static char *build(struct load *load, char *to, uint64_t now_ms) {
	const struct command *command = &load->command;
	const struct options *options = &load->options;
	uint64_t user = options->sequential ? load->key_next++ % options->keys : bench_below(&load->random, options->keys);
	memcpy(to, command->bytes, command->len);
	for (unsigned i = 0; i < command->hole_count; i++) {
		const struct hole *hole = &command->holes[i];
		char *at = to + hole->at;
		switch (hole->kind) {
		case 'k':
			bench_key(at, user);
			break;
		case 't':
			bench_digits(at, hole->digits, now_ms);
			break;
		case 's':
			bench_digits(at, hole->digits, now_ms / 1000);
			break;
		case 'u':
			bench_digits(at, hole->digits, load->sent);
			break;
		default:
			bench_digits(at, hole->digits, now_ms / options->window_ms - (hole->kind == 'v'));
		}
	}
	load->sent++;
	return to + command->len;
}

/* ---- a connection ------------------------------------------------------------------------------------------- */

static void watch(struct load *load, struct connection *connection, int how) {
	struct epoll_event event = {.events = EPOLLIN | (connection->wants_write ? EPOLLOUT : 0u), .data.ptr = connection};
	if (epoll_ctl(load->epoll, how, connection->fd, &event) != 0)
		bench_die("epoll_ctl");
}

static void connect_one(struct load *load, struct connection *connection) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)load->options.port)};
	int one = 1;
	if (inet_pton(AF_INET, load->options.host, &to.sin_addr) != 1) {
		fprintf(stderr, "respload: --host %s: expected an IPv4 address\n", load->options.host);
		exit(2);
	}
	connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&to, sizeof to) != 0)
		bench_die("cannot connect");
	if (setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
		bench_die("TCP_NODELAY");
	connection->in = malloc(INPUT_BYTES);
	connection->out = malloc(load->command.len * load->options.pipeline);
	if (connection->in == NULL || connection->out == NULL)
		bench_die("malloc");
	watch(load, connection, EPOLL_CTL_ADD);
}

/* Sends what the socket takes; the rest goes when it can be written again. */
static void flush(struct load *load, struct connection *connection) {
	while (connection->out_done < connection->out_len) {
		ssize_t n = send(connection->fd, connection->out + connection->out_done,
		                 connection->out_len - connection->out_done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			bench_die("send");
		connection->out_done += n > 0 ? (size_t)n : 0;
	}
	bool wants = connection->out_done < connection->out_len;
	if (wants != connection->wants_write) {
		connection->wants_write = wants;
		watch(load, connection, EPOLL_CTL_MOD);
	}
}

/* Builds and sends the next batch, as far as the number of requests allows. */
static void send_batch(struct load *load, struct connection *connection) {
	uint64_t left = load->options.requests == 0 ? UINT64_MAX : load->options.requests - load->sent;
	unsigned count = left < load->options.pipeline ? (unsigned)left : load->options.pipeline;
	uint64_t now_ms = bench_wall_ns() / 1000000u;
	char *to = connection->out;
	for (unsigned i = 0; i < count; i++)
		to = build(load, to, now_ms);
	connection->out_len = (size_t)(to - connection->out);
	connection->out_done = 0;
	connection->waiting = count;
	connection->sent_ns = bench_clock_ns();
	flush(load, connection);
}

static void note_error(struct load *load, const char *reply, size_t len) {
	size_t n = 0;
	load->tally.errors++;
	if (load->first_error[0] != '\0')
		return;
	for (; n < len && n < sizeof load->first_error - 1; n++) {
		char c = reply[n];
		load->first_error[n] = c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : ' ';
	}
	load->first_error[n] = '\0';
	fprintf(stderr, "respload: the first error: %s\n", load->first_error);
}

/* Steps over the replies that are there; returns how many there were. */
static unsigned take_replies(struct load *load, struct connection *connection) {
	size_t done = 0;
	unsigned count = 0;
	struct resp_reply reply;
	while (count < connection->waiting) {
		enum resp_verdict verdict = resp_skip(connection->in + done, connection->in_len - done, &reply);
		if (verdict == RESP_MORE)
			break;
		if (verdict == RESP_BAD) {
			fprintf(stderr, "respload: the server sent what is not RESP2\n");
			exit(2);
		}
		if (reply.error)
			note_error(load, connection->in + done, reply.len);
		load->tally.leading[reply.leading == 0 || reply.leading == 1 ? reply.leading : 2]++;
		done += reply.len;
		count++;
	}
	connection->in_len -= done;
	memmove(connection->in, connection->in + done, connection->in_len);
	return count;
}

static void receive(struct load *load, struct connection *connection) {
	ssize_t n =
		recv(connection->fd, connection->in + connection->in_len, INPUT_BYTES - connection->in_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fprintf(stderr, "respload: the server hung up, or a reply is longer than %d bytes\n", INPUT_BYTES);
		exit(2);
	}
	connection->in_len += (size_t)n;
	unsigned count = take_replies(load, connection);
	connection->waiting -= count;
	load->tally.replies += count;
	if (count > 0)
		bench_histogram_add(&load->tally.latency, bench_clock_ns() - connection->sent_ns, count);
	if (connection->waiting == 0 && (load->options.requests == 0 || load->sent < load->options.requests))
		send_batch(load, connection);
}

/* ---- a run -------------------------------------------------------------------------------------------------- */

static uint64_t own_cpu_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void tally_start(struct load *load) {
	memset(&load->tally, 0, sizeof load->tally);
	load->tally.start_ns = bench_clock_ns();
	load->tally.server_cpu_ns = bench_cpu_ns(load->options.server_pid);
	load->tally.behind_cpu_ns = bench_cpu_ns(load->options.behind_pid);
	load->tally.own_cpu_ns = own_cpu_ns();
}

/* Serves events until the instant, or until all requests are answered. */
static void run_until(struct load *load, uint64_t end_ns) {
	struct epoll_event events[EVENTS_MAX];
	while (bench_clock_ns() < end_ns) {
		if (load->options.requests != 0 && load->tally.replies == load->options.requests)
			return;
		int n = epoll_wait(load->epoll, events, EVENTS_MAX, 100);
		if (n < 0 && errno != EINTR)
			bench_die("epoll_wait");
		for (int i = 0; i < n; i++) {
			struct connection *connection = events[i].data.ptr;
			if (events[i].events & EPOLLOUT)
				flush(load, connection);
			if (events[i].events & ~(uint32_t)EPOLLOUT)
				receive(load, connection);
		}
	}
}

static void report(struct load *load) {
	const struct tally *tally = &load->tally;
	double seconds = (double)(bench_clock_ns() - tally->start_ns) / 1e9;
	double server = (double)(bench_cpu_ns(load->options.server_pid) - tally->server_cpu_ns) / 1e9;
	double behind = (double)(bench_cpu_ns(load->options.behind_pid) - tally->behind_cpu_ns) / 1e9;
	double own = (double)(own_cpu_ns() - tally->own_cpu_ns) / 1e9;
	double ops = tally->replies > 0 ? (double)tally->replies : 1;
	double p50 = bench_histogram_quantile(&tally->latency, 0.50) / 1e3;
	double p99 = bench_histogram_quantile(&tally->latency, 0.99) / 1e3;
	double p999 = bench_histogram_quantile(&tally->latency, 0.999) / 1e3;
	if (!load->options.json) {
		printf("%.0f ops/s, p50 %.0f us, p99 %.0f us, %llu replies (%llu begin with 0, %llu with 1), %llu errors\n",
		       ops / seconds, p50, p99, (unsigned long long)tally->replies, (unsigned long long)tally->leading[0],
		       (unsigned long long)tally->leading[1], (unsigned long long)tally->errors);
		printf("server %.4f us an operation, %.0f %% of a core; this program %.0f %%\n", server / ops * 1e6,
		       100 * server / seconds, 100 * own / seconds);
		return;
	}
	printf("{\"ops\": %llu, \"seconds\": %.4f, \"ops_per_s\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"p999_us\": %.1f, \"errors\": %llu, \"first_error\": \"%s\", "
	       "\"leading_0\": %llu, \"leading_1\": %llu, \"leading_other\": %llu, "
	       "\"server_us_per_op\": %.5f, \"behind_us_per_op\": %.5f, \"server_busy\": %.3f, \"client_busy\": %.3f}\n",
	       (unsigned long long)tally->replies, seconds, ops / seconds, p50, p99, p999,
	       (unsigned long long)tally->errors, load->first_error, (unsigned long long)tally->leading[0],
	       (unsigned long long)tally->leading[1], (unsigned long long)tally->leading[2], server / ops * 1e6,
	       behind / ops * 1e6, server / seconds, own / seconds);
}

static int run(struct load *load) {
	const struct options *options = &load->options;
	load->random.state = options->seed;
	load->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (load->epoll < 0)
		bench_die("epoll_create1");
	for (unsigned i = 0; i < options->connections; i++)
		connect_one(load, &load->connections[i]);
	if (options->requests != 0)
		tally_start(load);
	for (unsigned i = 0; i < options->connections; i++)
		if (options->requests == 0 || load->sent < options->requests)
			send_batch(load, &load->connections[i]);
	if (options->requests == 0) {
		run_until(load, bench_clock_ns() + options->warmup_ms * 1000000u);
		tally_start(load);
	}
	run_until(load, bench_clock_ns() + options->run_ms * 1000000u);
	report(load);
	return options->requests != 0 && load->tally.replies != options->requests ? 2 : 0;
}

/* ---- the command line --------------------------------------------------------------------------------------- */

static const char usage[] =
	"usage: respload --port N [option ...] COMMAND [ARGUMENT ...]\n"
	"  --host A        127.0.0.1        --connections N  50        --pipeline P  1\n"
	"  --keys K        1000000          --sequential     keys in order, not at random\n"
	"  --run-ms MS     2000             --warmup-ms MS   300       --requests N  a number, not a time\n"
	"  --server-pid N  measure its CPU  --cpu N          pin       --seed N      1\n"
	"  --behind-pid N  the same for a server behind it\n"
	"  --window-ms MS  60000, for %w and %v              --json    one line of JSON\n"
	"in arguments: %k key  %t ms  %s seconds  %w window  %v the one before  %u unique  %% percent\n";

/* Reads one option with a number; false when `name` is none of them. */
static bool number_option(struct options *options, const char *name, const char *text) {
	if (strcmp(name, "--port") == 0)
		options->port = (unsigned)bench_number(name, text, 1, 65535);
	else if (strcmp(name, "--connections") == 0)
		options->connections = (unsigned)bench_number(name, text, 1, CONNECTIONS_MAX);
	else if (strcmp(name, "--pipeline") == 0)
		options->pipeline = (unsigned)bench_number(name, text, 1, PIPELINE_MAX);
	else if (strcmp(name, "--keys") == 0)
		options->keys = bench_number(name, text, 1, 1000000000000u);
	else if (strcmp(name, "--requests") == 0)
		options->requests = bench_number(name, text, 1, UINT64_MAX);
	else if (strcmp(name, "--run-ms") == 0)
		options->run_ms = bench_number(name, text, 1, 86400000);
	else if (strcmp(name, "--warmup-ms") == 0)
		options->warmup_ms = bench_number(name, text, 0, 86400000);
	else if (strcmp(name, "--window-ms") == 0)
		options->window_ms = bench_number(name, text, 1, 86400000);
	else if (strcmp(name, "--seed") == 0)
		options->seed = bench_number(name, text, 0, UINT64_MAX);
	else if (strcmp(name, "--server-pid") == 0)
		options->server_pid = (long)bench_number(name, text, 1, 1u << 30);
	else if (strcmp(name, "--behind-pid") == 0)
		options->behind_pid = (long)bench_number(name, text, 1, 1u << 30);
	else if (strcmp(name, "--cpu") == 0)
		options->core = (int)bench_number(name, text, 0, CPU_SETSIZE - 1);
	else
		return false;
	return true;
}

/* Reads the options; returns the position of the command's first word, or exits 2. */
static int read_options(struct options *options, int argc, char **argv) {
	int i = 1;
	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--sequential") == 0)
			options->sequential = true;
		else if (strcmp(argv[i], "--json") == 0)
			options->json = true;
		else if (strcmp(argv[i], "--host") == 0 && i + 1 < argc)
			options->host = argv[++i];
		else if (i + 1 < argc && number_option(options, argv[i], argv[i + 1]))
			i++;
		else
			break;
	}
	if (i >= argc || argv[i][0] == '-' || options->port == 0) {
		fputs(usage, stderr);
		exit(2);
	}
	/* a number of requests runs to its end, however long that takes */
	if (options->requests != 0)
		options->run_ms = 86400000;
	return i;
}

int main(int argc, char **argv) {
	struct load *load = calloc(1, sizeof *load);
	if (load == NULL)
		bench_die("calloc");
	load->options = (struct options){.host = "127.0.0.1",
	                                 .connections = 50,
	                                 .pipeline = 1,
	                                 .keys = 1000000,
	                                 .run_ms = 2000,
	                                 .warmup_ms = 300,
	                                 .window_ms = 60000,
	                                 .seed = 1,
	                                 .core = -1};
	int first = read_options(&load->options, argc, argv);
	if (load->options.core >= 0)
		bench_pin((unsigned)load->options.core);
	compile(load, argv + first, argc - first);
	return run(load);
}
