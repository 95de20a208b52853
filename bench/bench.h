/* What every benchmark here shares: a clock, a seeded generator, a histogram, medians, and the CPU time of a process.
 *
 * All of it is static inline: a benchmark is one .c file that is built alone. Nothing here allocates. Errors of the
 * system end the program with one line; a benchmark that goes on after a failure prints numbers that mean nothing.
 */
#ifndef SL_BENCH_H
#define SL_BENCH_H

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif

enum {
	BENCH_KEY_BYTES = 20,         /* "rl:user:" and 12 digits */
	BENCH_HISTOGRAM_SHIFT = 6,    /* 64 cells for each power of two: 1.6 % wide */
	BENCH_HISTOGRAM_CELLS = 3072, /* up to 2^47 ns, a day and a half */
};

/* Prints "NAME: what: errno's text" and exits 2. */
static inline void bench_die(const char *what) {
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* Reads a whole number in min..max from a text, or prints what was wrong and exits 2. */
static inline uint64_t bench_number(const char *name, const char *text, uint64_t min, uint64_t max) {
	char *end = NULL;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value < min || value > max) {
		fprintf(stderr, "bench: %s: '%s': expected a whole number from %llu to %llu\n", name, text,
		        (unsigned long long)min, (unsigned long long)max);
		exit(2);
	}
	return value;
}

/* Under callgrind with --instr-atstart=no it counts from here on: what is prepared takes a seventh of the time. */
static inline void bench_count_from_here(void) {
#ifdef CALLGRIND_START_INSTRUMENTATION
	CALLGRIND_START_INSTRUMENTATION;
#endif
}

/* Nanoseconds that only grow, from an arbitrary start. */
static inline uint64_t bench_clock_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds since the Unix epoch. */
static inline uint64_t bench_wall_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Keeps the calling thread on one core. Exits 2 when there is no such core. */
static inline void bench_pin(unsigned core) {
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		bench_die("cannot pin to that core");
}

/* A seeded generator (splitmix64): the same seed gives the same traffic. */
struct bench_random {
	uint64_t state;
};

static inline uint64_t bench_next(struct bench_random *random) {
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Uniform in 0..n-1, n > 0; the bias is below n / 2^64. */
static inline uint64_t bench_below(struct bench_random *random, uint64_t n) {
	return (uint64_t)(((unsigned __int128)bench_next(random) * n) >> 64);
}

/* Writes `value` as exactly `digits` decimal digits, with leading zeros; the higher digits are dropped. */
static inline void bench_digits(char *to, unsigned digits, uint64_t value) {
	while (digits > 0) {
		to[--digits] = (char)('0' + value % 10);
		value /= 10;
	}
}

/* Writes the key of a user, "rl:user:NNNNNNNNNNNN", BENCH_KEY_BYTES bytes without a NUL. */
static inline void bench_key(char to[BENCH_KEY_BYTES], uint64_t user) {
	uint32_t parts[3] = {(uint32_t)(user / 100000000u % 10000u), (uint32_t)(user / 10000u % 10000u),
	                     (uint32_t)(user % 10000u)};
	memcpy(to, "rl:user:", 8);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t high = parts[i] / 100, low = parts[i] % 100;
		to[8 + 4 * i] = (char)('0' + high / 10);
		to[9 + 4 * i] = (char)('0' + high % 10);
		to[10 + 4 * i] = (char)('0' + low / 10);
		to[11 + 4 * i] = (char)('0' + low % 10);
	}
}

/* Counts of durations; log-linear, so a quantile is right within 1.6 %. */
struct bench_histogram {
	uint64_t total;
	uint64_t cells[BENCH_HISTOGRAM_CELLS];
};

static inline void bench_histogram_add(struct bench_histogram *histogram, uint64_t ns, uint64_t times) {
	const unsigned fine = 1u << BENCH_HISTOGRAM_SHIFT;
	unsigned cell = (unsigned)ns;
	if (ns >= fine) {
		unsigned log = 63u - (unsigned)__builtin_clzll(ns) - BENCH_HISTOGRAM_SHIFT;
		cell = (log + 1) * fine + (unsigned)(ns >> log) - fine;
	}
	histogram->cells[cell < BENCH_HISTOGRAM_CELLS ? cell : BENCH_HISTOGRAM_CELLS - 1] += times;
	histogram->total += times;
}

/* The duration, in ns, that a share 0..1 of all are at or below; 0 of an empty histogram. */
static inline double bench_histogram_quantile(const struct bench_histogram *histogram, double share) {
	const unsigned fine = 1u << BENCH_HISTOGRAM_SHIFT;
	double want = share * (double)histogram->total, seen = 0;
	for (unsigned cell = 0; cell < BENCH_HISTOGRAM_CELLS; cell++) {
		seen += (double)histogram->cells[cell];
		if (histogram->cells[cell] == 0 || seen < want)
			continue;
		if (cell < fine)
			return cell;
		return (double)((uint64_t)(cell % fine + fine) << (cell / fine - 1));
	}
	return 0;
}

static inline int bench_compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The median of n > 0 numbers; sorts them. */
static inline double bench_median(double *numbers, size_t n) {
	qsort(numbers, n, sizeof *numbers, bench_compare);
	return n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2;
}

/* CPU time of all threads of a process that are alive, user and kernel, in ns, from the scheduler's own account (exact
 * to one tick of a running thread). 0 when the process cannot be seen. */
static inline uint64_t bench_cpu_ns(long pid) {
	char path[64];
	uint64_t sum = 0;
	snprintf(path, sizeof path, "/proc/%ld/task", pid);
	DIR *tasks = opendir(path);
	if (tasks == NULL)
		return 0;
	for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
		unsigned long long ran = 0;
		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/proc/%ld/task/%.16s/schedstat", pid, task->d_name);
		FILE *file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fscanf(file, "%llu", &ran) == 1)
			sum += ran;
		fclose(file);
	}
	closedir(tasks);
	return sum;
}

/* Resident memory of this process, in bytes; 0 when it cannot be read. */
static inline uint64_t bench_resident_bytes(void) {
	unsigned long long size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
