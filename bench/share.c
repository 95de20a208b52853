/* share: what two threads on one store, and two processes on one store in shared memory, decide together.
 *
 * Every row is a rate, checks a second of all workers together, in wall time, since the one's waiting for the other is
 * the point. Beside it stands the ratio by the workers' CPU time, which neighbours disturb less: waiting is spinning,
 * so it is in there too, and that ratio is what is held against the goal, unless a neighbour had a core for a tenth of
 * the time in most rounds: then the row is "disturbed". Workers begin at a barrier and end when the first has done its
 * part, so that all of the time that counts is time in which both were at work. Rounds are
 * interleaved; a row's ratio to one worker is taken within a round.
 *
 * Two stores are shared: one of 10 M keys at load 0.80, and a full one of 16 MiB where every key is new and evicts
 * another. A second process opens each by name, as any other program would.
 *
 * How to read it: docs/design/006-bench.md. */
#include "bench/traffic.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { WORKERS = 2, CHECKS = 1 << 19, CHECKS_NEW = 1 << 15, CHUNK = 512, BATCH = 16, BLOCKS_PERCENT = 1, STEP_NS = 50 };
enum { FULL_MIB = 16, PER_CHECK_MIN = 95 };
static const char LIMIT[] = "1000M/1h";
static const double LOAD = 0.80;

enum which { SPREAD, HOT, HOT_EACH, NEW };

static struct row {
	const char *title;
	enum which which;
	unsigned batch; /* 0: one by one */
	double goal;    /* times one worker; 0: none */
} rows[] = {
	{"uniform, one by one", SPREAD, 0, 1.9},
	{"uniform, batches of 16", SPREAD, BATCH, 1.9},
	{"one hot key", HOT, 0, 0.4},
	{"a hot key each", HOT_EACH, 0, 1.9},
	{"full store, every key new", NEW, 0, 0},
	{"full store, every key new, batches of 16", NEW, BATCH, 0},
};
enum { ROWS = sizeof rows / sizeof *rows, STORES = 2 };

/* What the workers share: threads and processes alike, so it lies in memory that a fork leaves common. */
struct meeting {
	pthread_barrier_t barrier;
	uint32_t done; /* the first worker has done its part; atomic */
	struct {
		uint64_t checks, wall_ns, cpu_ns, allowed;
	} workers[WORKERS];
};

/* One worker: its place, its stores, its traffic. */
struct worker {
	struct meeting *meeting;
	unsigned number, together; /* workers that take part in this run */
	const struct row *row;
	struct sluice_store *stores[STORES]; /* of many keys, full */
	uint64_t keys, next_new;
	struct bench_random random;
	struct traffic traffic;
};

/* Ways of sharing, and their results. */
static struct way {
	const char *title;
	bool skipped;
	unsigned disturbed[ROWS]; /* rounds in which somebody else had a core */
	struct bench_sample rate[ROWS][WORKERS], ratio[ROWS], ratio_cpu[ROWS];
} ways[] = {
	{.title = "threads"},
	{.title = "processes"},
};
enum { WAYS = sizeof ways / sizeof *ways };

static struct sluice_limit limits[TRAFFIC_LIMITS_MAX];

/* ---- a worker's part ------------------------------------------------------------------------------------------- */

static void worker_init(struct worker *worker, struct meeting *meeting, unsigned number, uint64_t keys) {
	*worker = (struct worker){.meeting = meeting, .number = number, .keys = keys, .random = {number + 1}};
	worker->next_new = (uint64_t)(number + 1) << 36; /* no other worker's, and none of the many */
	worker->traffic = (struct traffic){.title = "share",
	                                   .limits = limits,
	                                   .limit_count = 1,
	                                   .cost = 1,
	                                   .keys = keys_new(),
	                                   .now = sluice_now(),
	                                   .step_ns = STEP_NS};
}

/* New keys are few: each evicts another, which takes microseconds. */
static uint64_t checks_of(const struct row *row) {
	return row->which == NEW ? CHECKS_NEW : CHECKS;
}

static void make_keys(struct worker *worker) {
	struct bench_keys *keys = &worker->traffic.keys;
	switch (worker->row->which) {
	case SPREAD:
		keys_uniform(keys, CHECKS, &worker->random, 0, worker->keys);
		break;
	case HOT:
		keys_hot(keys, 7);
		break;
	case HOT_EACH:
		keys_hot(keys, 7000 + worker->number);
		break;
	case NEW:
		keys_rising(keys, CHECKS_NEW, worker->next_new);
		worker->next_new += CHECKS_NEW;
		break;
	}
}

/* The run itself: from the barrier until the first of all has done its part. */
static void run_worker(struct worker *worker) {
	struct meeting *meeting = worker->meeting;
	struct traffic *traffic = &worker->traffic;
	uint64_t checks = 0, wanted = checks_of(worker->row);
	bench_pin(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? worker->number : 0);
	make_keys(worker);
	traffic->title = worker->row->title;
	traffic->store = worker->stores[worker->row->which == NEW];
	traffic->allowed = 0;
	if (worker->together > 1)
		pthread_barrier_wait(&meeting->barrier);
	uint64_t begin_ns = bench_clock_ns(), begin_cpu_ns = bench_thread_ns();
	while (checks < wanted && __atomic_load_n(&meeting->done, __ATOMIC_RELAXED) == 0) {
		if (worker->row->batch > 0)
			traffic_batch(traffic, checks, CHUNK, worker->row->batch);
		else
			traffic_one(traffic, checks, CHUNK);
		checks += CHUNK;
	}
	uint64_t wall_ns = bench_clock_ns() - begin_ns, cpu_ns = bench_thread_ns() - begin_cpu_ns;
	__atomic_store_n(&meeting->done, 1, __ATOMIC_RELAXED);
	meeting->workers[worker->number].checks = checks;
	meeting->workers[worker->number].wall_ns = wall_ns;
	meeting->workers[worker->number].cpu_ns = cpu_ns;
	meeting->workers[worker->number].allowed = traffic->allowed;
	if (worker->together > 1)
		pthread_barrier_wait(&meeting->barrier);
}

static void *run_thread(void *argument) {
	run_worker(argument);
	return NULL;
}

/* ---- one way of sharing ---------------------------------------------------------------------------------------- */

struct rate {
	double wall, cpu; /* all workers' checks a second, each by its own time */
	bool disturbed;   /* a worker had no core for a tenth of the time or more */
};

static struct rate rate_of(const struct meeting *meeting, unsigned together, const char *title) {
	struct rate rate = {0, 0, false};
	for (unsigned i = 0; i < together; i++) {
		double wall = (double)meeting->workers[i].wall_ns, cpu = (double)meeting->workers[i].cpu_ns;
		uint64_t checks = meeting->workers[i].checks;
		if (meeting->workers[i].allowed * 100 < checks * PER_CHECK_MIN)
			traffic_die(title, "denied checks of a quota that is never reached");
		rate.wall += (double)checks * 1e9 / wall;
		rate.cpu += (double)checks * 1e9 / cpu;
		rate.disturbed = rate.disturbed || cpu < 0.9 * wall;
	}
	return rate;
}

/* Runs a row with one worker or two. The other one is a thread of ours, or a process that runs the same rows. */
static struct rate run_row(const struct row *row, struct worker workers[WORKERS], unsigned together, bool threads) {
	struct meeting *meeting = workers[0].meeting;
	pthread_t other;
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].row = row;
		workers[i].together = together;
	}
	meeting->done = 0;
	if (together > 1 && threads && pthread_create(&other, NULL, run_thread, &workers[1]) != 0)
		bench_die("pthread_create");
	run_worker(&workers[0]);
	if (together > 1 && threads)
		pthread_join(other, NULL);
	return rate_of(meeting, together, row->title);
}

static uint64_t evicted_of(struct sluice_store *store) {
	struct sluice_store_stats stats;
	sluice_store_stats(store, &stats);
	return stats.evicted;
}

/* One round of all rows, one worker and two of each. */
static void run_round(struct way *way, struct worker workers[WORKERS], bool threads) {
	for (unsigned i = 0; i < ROWS; i++) {
		struct rate rate[WORKERS];
		for (unsigned together = 1; together <= WORKERS; together++) {
			bool is_new = rows[i].which == NEW;
			uint64_t before = is_new ? evicted_of(workers[0].stores[1]) : 0, checks = 0;
			rate[together - 1] = run_row(&rows[i], workers, together, threads);
			for (unsigned k = 0; k < together; k++)
				checks += workers[0].meeting->workers[k].checks;
			if (is_new && (evicted_of(workers[0].stores[1]) - before) * 100 < checks * PER_CHECK_MIN)
				traffic_die(rows[i].title, "new keys found room in a store that was to be full");
			way->rate[i][together - 1].each[way->rate[i][together - 1].count++] = rate[together - 1].wall / 1e6;
		}
		way->ratio[i].each[way->ratio[i].count++] = rate[1].wall / rate[0].wall;
		way->ratio_cpu[i].each[way->ratio_cpu[i].count++] = rate[1].cpu / rate[0].cpu;
		way->disturbed[i] += rate[1].disturbed;
	}
}

static void close_samples(struct way *way) {
	for (unsigned i = 0; i < ROWS; i++) {
		for (unsigned k = 0; k < WORKERS; k++)
			sample_close(&way->rate[i][k]);
		sample_close(&way->ratio[i]);
		sample_close(&way->ratio_cpu[i]);
	}
}

/* Fills the store of many keys, and the other one with as many more as it has slots. */
static void fill_stores(struct worker *worker) {
	struct sluice_store_stats stats;
	worker->traffic.store = worker->stores[0];
	(void)traffic_fill(&worker->traffic, 0, worker->keys);
	sluice_store_stats(worker->stores[1], &stats);
	worker->traffic.store = worker->stores[1];
	(void)traffic_fill(&worker->traffic, worker->next_new, 2 * stats.slots);
	worker->next_new += 2 * stats.slots;
}

static void run_threads(struct way *way, struct meeting *meeting, uint64_t keys, unsigned repeats) {
	struct worker workers[WORKERS];
	for (unsigned i = 0; i < WORKERS; i++)
		worker_init(&workers[i], meeting, i, keys);
	workers[0].stores[0] = store_new(store_bytes_for(keys, LOAD, BLOCKS_PERCENT), BLOCKS_PERCENT);
	workers[0].stores[1] = store_new((uint64_t)FULL_MIB << 20, BLOCKS_PERCENT);
	memcpy(workers[1].stores, workers[0].stores, sizeof workers[1].stores);
	fill_stores(&workers[0]);
	for (unsigned turn = 0; turn < repeats; turn++)
		run_round(way, workers, true);
	for (unsigned i = 0; i < STORES; i++)
		sluice_store_close(workers[0].stores[i]);
}

/* ---- two processes ----------------------------------------------------------------------------------------------- */

static void shared_name(char name[64], unsigned store, long pid) {
	snprintf(name, 64, "sluice-bench-%ld-%u", pid, store);
}

/* Opens the store of a name. NULL, said on standard output, where the system has no room for it. */
static struct sluice_store *shared_open(unsigned store, long pid, uint64_t bytes) {
	char name[64];
	struct sluice_error error = {.text = ""};
	struct sluice_store *opened = NULL;
	struct sluice_store_options options = {
		.memory_bytes = bytes, .blocks_percent = BLOCKS_PERCENT, .shared = name, .existing = bytes == 0};
	shared_name(name, store, pid);
	if (sluice_store_open(&opened, &options, &error) != SLUICE_OK)
		printf("  processes: left out, no shared memory: %s\n", error.text);
	return opened;
}

/* Removes the names; a name that was never made is as it should be. */
static void shared_forget(long pid) {
	for (unsigned i = 0; i < STORES; i++) {
		char name[64];
		struct sluice_error error = {.text = ""};
		shared_name(name, i, pid);
		sluice_err err = sluice_store_forget(name, &error);
		if (err != SLUICE_OK && err != SLUICE_E_NONE)
			fprintf(stderr, "bench: %s stays in shared memory: %s\n", name, error.text);
	}
}

/* The second process: opens what the first has filled, and takes its part in every row of two. */
static void second_process(struct meeting *meeting, uint64_t keys, unsigned repeats, long first) {
	struct worker worker;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != first)
		_exit(2);
	worker_init(&worker, meeting, 1, keys);
	worker.together = 2;
	pthread_barrier_wait(&meeting->barrier);
	for (unsigned i = 0; i < STORES; i++)
		if ((worker.stores[i] = shared_open(i, first, 0)) == NULL)
			_exit(2);
	pthread_barrier_wait(&meeting->barrier);
	for (unsigned turn = 0; turn < repeats; turn++)
		for (unsigned i = 0; i < ROWS; i++) {
			worker.row = &rows[i];
			run_worker(&worker);
		}
	for (unsigned i = 0; i < STORES; i++)
		sluice_store_close(worker.stores[i]);
	pthread_barrier_wait(&meeting->barrier); /* from here on its end is expected */
	_exit(0);
}

/* The second process has died, and the first may be waiting for it: no number can come of that. */
static volatile sig_atomic_t expected_end;
static void child_ended(int number) {
	static const char text[] = "bench: the second process ended before its time\n";
	(void)number;
	if (!expected_end) {
		(void)!write(STDERR_FILENO, text, sizeof text - 1);
		_exit(2);
	}
}

static pid_t start_second(struct meeting *meeting, uint64_t keys, unsigned repeats) {
	long first = getpid();
	expected_end = 0;
	signal(SIGCHLD, child_ended);
	fflush(stdout);
	pid_t second = fork();
	if (second < 0)
		bench_die("fork");
	if (second == 0)
		second_process(meeting, keys, repeats, first);
	return second;
}

/* The second process is started before there is a store, so that it inherits none. */
static void run_processes(struct way *way, struct meeting *meeting, uint64_t keys, unsigned repeats) {
	struct worker workers[WORKERS];
	long first = getpid();
	pid_t second = start_second(meeting, keys, repeats);
	worker_init(&workers[0], meeting, 0, keys);
	workers[0].stores[0] = shared_open(0, first, store_bytes_for(keys, LOAD, BLOCKS_PERCENT));
	workers[0].stores[1] = shared_open(1, first, (uint64_t)FULL_MIB << 20);
	way->skipped = workers[0].stores[0] == NULL || workers[0].stores[1] == NULL;
	if (!way->skipped) {
		fill_stores(&workers[0]);
		pthread_barrier_wait(&meeting->barrier); /* the stores are there */
		pthread_barrier_wait(&meeting->barrier); /* and open on the other side: nobody needs the names any more */
		shared_forget(first);
		for (unsigned turn = 0; turn < repeats; turn++)
			run_round(way, workers, false);
	}
	expected_end = 1;
	if (way->skipped)
		(void)kill(second, SIGKILL);
	else
		pthread_barrier_wait(&meeting->barrier);
	(void)waitpid(second, NULL, 0);
	for (unsigned i = 0; i < STORES; i++)
		sluice_store_close(workers[0].stores[i]);
	if (way->skipped)
		shared_forget(first);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Workers that were kept from meeting can't be in each other's way: such a row proves nothing. */
static const char *verdict(const struct way *way, unsigned i) {
	if (rows[i].goal > 0 && way->disturbed[i] * 2 > way->ratio[i].count)
		return "disturbed";
	return bench_verdict(way->ratio_cpu[i].median, rows[i].goal, true);
}

static void print_way(const struct way *way) {
	for (unsigned i = 0; i < ROWS && !way->skipped; i++) {
		char goal[24];
		const struct bench_sample *ratio = &way->ratio[i];
		printf("  %-10s %-42s %8.2f %8.2f %6.2fx (%4.2f..%4.2f) %5.2fx %6s  %s\n", i == 0 ? way->title : "",
		       rows[i].title, way->rate[i][0].median, way->rate[i][1].median, ratio->median, ratio->each[0],
		       ratio->each[ratio->count - 1], way->ratio_cpu[i].median, bench_optional(goal, "%.1fx", rows[i].goal),
		       verdict(way, i));
	}
}

static void write_json(const char *path, uint64_t keys, unsigned repeats) {
	FILE *file = bench_json_open(path);
	bool first = true;
	fprintf(file, "{\"repeats\": %u, \"keys\": %llu, \"rows\": [", repeats, (unsigned long long)keys);
	for (unsigned w = 0; w < WAYS; w++)
		for (unsigned i = 0; i < ROWS && !ways[w].skipped; i++) {
			fprintf(file, "%s\n {\"of\": \"%s\", \"row\": \"%s\", \"one\": %.4f, \"two\": %.4f, ", first ? "" : ",",
			        ways[w].title, rows[i].title, ways[w].rate[i][0].median, ways[w].rate[i][1].median);
			fprintf(file, "\"ratio\": %.4f, \"ratio_cpu\": %.4f, \"goal\": %.2f, \"disturbed\": %u, \"each\": [",
			        ways[w].ratio[i].median, ways[w].ratio_cpu[i].median, rows[i].goal, ways[w].disturbed[i]);
			for (unsigned k = 0; k < ways[w].ratio[i].count; k++)
				fprintf(file, "%s%.4f", k > 0 ? ", " : "", ways[w].ratio[i].each[k]);
			fprintf(file, "]}");
			first = false;
		}
	fprintf(file, "]}\n");
	bench_json_close(file, path);
}

static struct meeting *meeting_new(void) {
	struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;
	if (meeting == MAP_FAILED)
		bench_die("mmap");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&meeting->barrier, &shared, WORKERS);
	pthread_barrierattr_destroy(&shared);
	return meeting;
}

int main(int argc, char **argv) {
	struct bench_options options = bench_options("share", argc, argv, 7);
	uint64_t keys = options.keys_max < 10000000 ? options.keys_max : 10000000;
	struct meeting *meeting = meeting_new();
	(void)limits_parse(limits, LIMIT);
	if (sysconf(_SC_NPROCESSORS_ONLN) < WORKERS)
		fprintf(stderr, "bench: one core only: two workers take turns on it, so read no ratios here\n");
	printf("Shared, %.1f M keys: M checks/s of all, median of %u%*s one      two  two/one             by CPU   goal\n",
	       (double)keys / 1e6, options.repeats, 8, "");
	for (unsigned i = 0; i < WAYS; i++) {
		if (strstr(ways[i].title, options.only) == NULL) {
			ways[i].skipped = true;
			continue;
		}
		if (i == 0)
			run_threads(&ways[i], meeting, keys, options.repeats);
		else
			run_processes(&ways[i], meeting, keys, options.repeats);
		close_samples(&ways[i]);
		print_way(&ways[i]);
		fflush(stdout);
	}
	if (options.json != NULL)
		write_json(options.json, keys, options.repeats);
	return 0;
}
