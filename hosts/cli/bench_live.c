/* bench --server: requests at a rate, and what a server answers.
 *
 * The requests have a timetable, whatever the answers: burst k is due at k * burst / rate. A client, a thread each,
 * takes the next burst, waits until it is due, sends it at once, reads the answers, then it thinks, if asked to.
 * Latency counts from when a request was due, so that a server that stalls is charged with all who had to wait for it,
 * not with the one who was under way. Where the clients are too few for the rate, requests are late, and that is told.
 *
 * The auditor is told of an admission from before it was sent until it was answered: the server decided in between. */
#include "hosts/cli/bench.h"

#include "base/math.h"
#include "hosts/cli/audit.h"
#include "proto/resp.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
	FIGURES = 7,     /* of an answer to CHECK */
	LATE_MS = 10,    /* sent so much after it was due, a request is late */
	FINE_BITS = 4,   /* latencies are told to a sixteenth */
	LATENCIES = 64 << FINE_BITS,
	WORDS_MAX = 3 + SL_BENCH_LIMITS_MAX,
};
#define S_NS ((sluice_ns)1000000000)

struct drive {
	const struct sl_bench_live *live;
	sluice_ns start, end;
	_Atomic uint64_t bursts; /* taken so far; relaxed: each is somebody's, whoever */
	_Atomic bool failed;     /* relaxed: others stop a little later */
	struct sl_audit *audit;  /* NULL: none */
	char limits[SL_BENCH_LIMITS_MAX][SLUICE_LIMIT_TEXT_MAX];
	pthread_mutex_t lock; /* of all below */
	uint64_t asked, allowed, late;
	sluice_ns last, longest;
	uint64_t latencies[LATENCIES];
	bool no_room; /* for the audit */
	struct sluice_error error;
};

struct client {
	struct drive *drive;
	pthread_t thread;
	struct sl_client connection;
	uint64_t random;
	char *bytes; /* a burst of commands */
	uint64_t keys[SL_BENCH_BURST_MAX];
};

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* A place for a latency: its highest bit, and the few bits below it. */
static uint32_t place_of(sluice_ns ns) {
	if (ns < 1u << FINE_BITS)
		return (uint32_t)ns;
	uint32_t top = 63 - (uint32_t)__builtin_clzll(ns);
	return (top - FINE_BITS + 1) << FINE_BITS | (uint32_t)(ns >> (top - FINE_BITS) & ((1u << FINE_BITS) - 1));
}

/* The largest latency of a place. */
static sluice_ns end_of_place(uint32_t place) {
	uint32_t row = place >> FINE_BITS, column = place & ((1u << FINE_BITS) - 1);
	return row == 0 ? column : ((sluice_ns)(1u << FINE_BITS | column) + 1) << (row - 1);
}

/* The latency that so many of 1,000 requests are within, in ms. */
static double within(const struct drive *drive, uint64_t of_1000) {
	uint64_t wanted = (drive->asked * of_1000 + 999) / 1000, met = 0;
	for (uint32_t place = 0; place < LATENCIES; place++)
		if ((met += drive->latencies[place]) >= wanted)
			return (double)sl_min(end_of_place(place), drive->longest) / 1e6;
	return (double)drive->longest / 1e6;
}

/* ---- a client ---------------------------------------------------------------------------------------------------- */

static uint64_t draw_key(struct client *client) {
	const struct sl_bench_live *live = client->drive->live;
	uint64_t count = live->keys;
	while (count >= 5) {
		uint64_t fifth = count / 5;
		if (sl_bench_draw(&client->random) % 100 >= live->skew)
			return fifth + sl_bench_draw(&client->random) % (count - fifth);
		count = fifth;
		if (live->skew == 20) /* even: a part of an even draw is one */
			break;
	}
	return sl_bench_draw(&client->random) % count;
}

/* Writes the commands of a burst; returns how many bytes. */
static size_t put_burst(struct client *client) {
	const struct sl_bench_live *live = client->drive->live;
	struct sluice_bytes words[WORDS_MAX] = {sl_str("SLUICE.CHECK")};
	char key[SL_BENCH_KEY_BYTES], cost[16], *at = client->bytes;
	snprintf(cost, sizeof cost, "%u", live->cost);
	words[2] = sl_str(cost);
	for (uint32_t i = 0; i < live->limit_count; i++)
		words[3 + i] = sl_str(client->drive->limits[i]);
	for (uint32_t i = 0; i < live->burst; i++) {
		client->keys[i] = draw_key(client);
		words[1] = sl_bench_key(key, client->keys[i]);
		at = sl_resp_put_command(at, 3 + live->limit_count, words);
	}
	return (size_t)(at - client->bytes);
}

static bool read_answer(struct client *client, bool *allowed, struct sluice_error *error) {
	int64_t count, figure;
	if (!sl_client_integer(&client->connection, '*', &count, error))
		return false;
	if (count != FIGURES) {
		snprintf(error->text, sizeof error->text, "this is not an answer of Sluice: expected %d integers", FIGURES);
		return false;
	}
	for (int i = 0; i < FIGURES; i++) {
		if (!sl_client_integer(&client->connection, ':', &figure, error))
			return false;
		*allowed = i == 0 ? figure == 1 : *allowed;
	}
	return true;
}

/* Tells the auditor of an admission. False without memory. Locked. */
static bool tell(struct drive *drive, uint64_t key, sluice_ns since, sluice_ns now) {
	const struct sl_bench_live *live = drive->live;
	char text[SL_BENCH_KEY_BYTES];
	struct sl_audit_charge charge = {
		.key = sl_bench_key(text, key), .cost = live->cost, .since = since, .now = now};
	for (uint32_t i = 0; drive->audit != NULL && i < live->limit_count; i++) {
		charge.position = i;
		charge.limit = &live->limits[i];
		if (!sl_audit_add(drive->audit, &charge))
			return false;
	}
	return true;
}

/* Counts an answer. False where there is no memory to audit it. */
static bool count(struct drive *drive, uint64_t key, bool allowed, sluice_ns due, sluice_ns sent) {
	pthread_mutex_lock(&drive->lock);
	const sluice_ns now = sluice_now(); /* under the lock: the auditor is told in order */
	const sluice_ns latency = now - sl_min(due, now);
	drive->asked++;
	drive->allowed += allowed;
	drive->late += sent > due + LATE_MS * (S_NS / 1000);
	drive->latencies[place_of(latency)]++;
	drive->longest = sl_max(drive->longest, latency);
	drive->last = now;
	drive->no_room |= allowed && !tell(drive, key, sent, now);
	bool fine = !drive->no_room;
	pthread_mutex_unlock(&drive->lock);
	return fine;
}

static void wait_until(sluice_ns instant) {
	for (sluice_ns now; (now = sluice_now()) < instant;) {
		sluice_ns wait = instant - now;
		nanosleep(&(struct timespec){(time_t)(wait / S_NS), (long)(wait % S_NS)}, NULL);
	}
}

static bool ask(struct client *client, sluice_ns due, struct sluice_error *error) {
	struct drive *drive = client->drive;
	size_t len = put_burst(client);
	sluice_ns sent = sluice_now();
	if (!sl_client_send_bytes(&client->connection, sl_slice(client->bytes, len), error))
		return false;
	for (uint32_t i = 0; i < drive->live->burst; i++) {
		bool allowed = false;
		if (!read_answer(client, &allowed, error))
			return false;
		if (!count(drive, client->keys[i], allowed, due, sent)) {
			snprintf(error->text, sizeof error->text, "the audit needs more than %d MiB: take fewer keys, or less time",
			         SL_BENCH_AUDIT_BYTES_MAX >> 20);
			return false;
		}
	}
	return true;
}

/* When a burst is due. */
static sluice_ns due_at(const struct drive *drive, uint64_t burst) {
	const struct sl_bench_live *live = drive->live;
	if (live->rate == 0)
		return sluice_now();
	return drive->start + (sluice_ns)((unsigned __int128)burst * live->burst * S_NS / live->rate);
}

static void *drive_client(void *argument) {
	struct client *client = argument;
	struct drive *drive = client->drive;
	struct sluice_error error;
	while (!atomic_load_explicit(&drive->failed, memory_order_relaxed)) {
		sluice_ns due = due_at(drive, atomic_fetch_add_explicit(&drive->bursts, 1, memory_order_relaxed));
		if (due >= drive->end)
			break;
		wait_until(due);
		if (!ask(client, due, &error)) {
			pthread_mutex_lock(&drive->lock);
			if (!atomic_exchange_explicit(&drive->failed, true, memory_order_relaxed))
				drive->error = error;
			pthread_mutex_unlock(&drive->lock);
			break;
		}
		if (drive->live->think != 0)
			wait_until(sluice_now() + drive->live->think);
	}
	return NULL;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Room for a burst of the longest commands. */
static size_t burst_bytes(const struct drive *drive) {
	size_t bytes = 128 + SL_BENCH_KEY_BYTES;
	for (uint32_t i = 0; i < drive->live->limit_count; i++)
		bytes += strlen(drive->limits[i]) + 16;
	return bytes * drive->live->burst;
}

/* Connects the clients. How many there are; fewer than asked for where one failed, with `error` filled. */
static uint32_t connect_all(struct drive *drive, struct client *clients, struct sluice_error *error) {
	const struct sl_bench_live *live = drive->live;
	const char *given = getenv("SLUICE_PASSWORD");
	char *secret = given != NULL ? strdup(given) : NULL; /* a client takes it out of the environment */
	uint32_t made = 0;
	for (; made < live->clients; made++) {
		struct client *client = &clients[made];
		client->drive = drive;
		client->random = UINT64_C(0x9e3779b97f4a7c15) * (made + 1);
		if (secret != NULL)
			setenv("SLUICE_PASSWORD", secret, 1);
		if (!sl_client_open(&client->connection, &live->server, error))
			break;
		client->bytes = malloc(burst_bytes(drive));
		if (client->bytes == NULL) {
			snprintf(error->text, sizeof error->text, "no memory");
			sl_client_close(&client->connection);
			break;
		}
	}
	free(secret);
	return made;
}

static bool drive_all(struct drive *drive, struct client *clients, struct sluice_error *error) {
	uint32_t started = 0;
	drive->start = drive->last = sluice_now();
	drive->end = drive->start + drive->live->duration;
	for (; started < drive->live->clients; started++)
		if (pthread_create(&clients[started].thread, NULL, drive_client, &clients[started]) != 0) {
			atomic_store_explicit(&drive->failed, true, memory_order_relaxed);
			snprintf(drive->error.text, sizeof drive->error.text, "the system gave no thread for client %u", started);
			break;
		}
	for (uint32_t i = 0; i < started; i++)
		pthread_join(clients[i].thread, NULL);
	*error = drive->error;
	return !drive->failed;
}

static void print_part(const char *name, uint64_t part, uint64_t whole) {
	printf("%-9s %10" PRIu64 "  %5.1f %%\n", name, part, whole != 0 ? 100.0 * (double)part / (double)whole : 0.0);
}

static void print(const struct drive *drive) {
	const struct sl_bench_live *live = drive->live;
	double seconds = (double)(drive->last - drive->start) / 1e9;
	printf("requests  %10" PRIu64 "  %.0f a second, of %u keys by %u client%s, %u at a time\n", drive->asked,
	       seconds > 0 ? (double)drive->asked / seconds : 0.0, live->keys, live->clients, live->clients == 1 ? "" : "s",
	       live->burst);
	print_part("allowed", drive->allowed, drive->asked);
	print_part("denied", drive->asked - drive->allowed, drive->asked);
	print_part("late", drive->late, drive->asked);
	printf("latency   p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, longest %.2f ms\n", within(drive, 500),
	       within(drive, 900), within(drive, 990), within(drive, 999), (double)drive->longest / 1e6);
	if (drive->audit != NULL)
		sl_audit_print(drive->audit, stdout, NULL, NULL);
}

static int run(const struct sl_verb *verb, struct drive *drive, struct client *clients) {
	const struct sl_bench_live *live = drive->live;
	const char *address = live->server.server;
	struct sluice_error error = {0};
	uint32_t made = connect_all(drive, clients, &error);
	bool fine = made == live->clients && drive_all(drive, clients, &error);
	for (uint32_t i = 0; i < made; i++) {
		sl_client_close(&clients[i].connection);
		free(clients[i].bytes);
	}
	if (!fine)
		return sl_cli_fail(verb, "%.128s: %s", address, error.text);
	print(drive);
	bool exceeded = drive->audit != NULL && sl_audit_exceeded(drive->audit) != 0;
	return sl_cli_end(verb, exceeded ? SL_EXIT_DENIED : SL_EXIT_FINE);
}

int sl_bench_live_run(const struct sl_verb *verb, const struct sl_bench_live *live) {
	struct drive *drive = calloc(1, sizeof *drive);
	struct client *clients = calloc(live->clients, sizeof *clients);
	int status = SL_EXIT_FAILED;
	if (drive != NULL && live->audit)
		drive->audit = sl_audit_open(live->limit_count, SL_BENCH_AUDIT_BYTES_MAX, true);
	if (drive == NULL || clients == NULL || (live->audit && drive->audit == NULL)) {
		status = sl_cli_fail(verb, "no memory");
	} else {
		drive->live = live;
		pthread_mutex_init(&drive->lock, NULL);
		for (uint32_t i = 0; i < live->limit_count; i++)
			sluice_limit_print(&live->limits[i], drive->limits[i]);
		status = run(verb, drive, clients);
		pthread_mutex_destroy(&drive->lock);
	}
	sl_audit_close(drive != NULL ? drive->audit : NULL);
	free(clients);
	free(drive);
	return status;
}
