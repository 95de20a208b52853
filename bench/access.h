/* What memory allows, measured beside what uses it: one touch of a 64-byte line at random, over as many bytes as a
 * store has and in the same pages.
 *
 *   dependent   each line says where the next one is: one full trip to memory an access
 *   prefetched  16 lines are prefetched, then touched: trips overlap as those of a batch of checks do
 *   buckets     16 pairs of lines are prefetched for writing, then one of each is written: what the store's buckets of
 *               128 bytes cost before anything is decided
 *
 * The lines form one cycle through all of them (Sattolo's shuffle), so that the dependent walk meets none twice and
 * adds no arithmetic of its own. */
#ifndef SL_BENCH_ACCESS_H
#define SL_BENCH_ACCESS_H

#include "bench/traffic.h"

enum { ACCESS_LINE = 64, ACCESS_BATCH = 16 };

struct access_line {
	struct access_line *next;
	uint64_t fill[ACCESS_LINE / 8 - 1];
};
_Static_assert(sizeof(struct access_line) == ACCESS_LINE, "a line is a cache line");

struct access {
	struct access_line *lines;
	uint64_t count, bytes;
	const struct access_line *at;
	struct bench_random random;
};

/* Maps and links `bytes` of lines; about 1 s a GiB. */
static inline struct access access_new(uint64_t bytes) {
	struct access access = {bench_map(bytes), bytes / ACCESS_LINE, bytes, NULL, {11}};
	struct bench_random ahead = {5}, random = {5};
	struct access_line *lines = access.lines;
	for (uint64_t i = 0; i < access.count; i++)
		lines[i].next = &lines[i];
	/* the same numbers are drawn twice, 16 turns apart: first to prefetch, then to swap */
	for (unsigned i = 0; i < ACCESS_BATCH && i + 1 < access.count; i++)
		__builtin_prefetch(&lines[bench_below(&ahead, access.count - 1 - i)], 1);
	for (uint64_t i = access.count - 1; i > 0; i--) {
		uint64_t other = bench_below(&random, i);
		struct access_line *next = lines[i].next;
		if (i > ACCESS_BATCH)
			__builtin_prefetch(&lines[bench_below(&ahead, i - ACCESS_BATCH)], 1);
		lines[i].next = lines[other].next;
		lines[other].next = next;
	}
	access.at = lines;
	return access;
}

static inline void access_free(struct access *access) {
	(void)munmap(access->lines, access->bytes);
}

static inline void access_dependent(struct access *access, uint64_t times) {
	const struct access_line *at = access->at;
	for (uint64_t i = 0; i < times; i++)
		at = *(struct access_line *const volatile *)&at->next;
	access->at = at;
}

static inline void access_prefetched(struct access *access, uint64_t times) {
	const struct access_line *batch[ACCESS_BATCH];
	uint64_t sum = 0;
	for (uint64_t i = 0; i < times; i += ACCESS_BATCH) {
		for (unsigned k = 0; k < ACCESS_BATCH; k++) {
			batch[k] = &access->lines[bench_below(&access->random, access->count)];
			__builtin_prefetch(batch[k]);
		}
		for (unsigned k = 0; k < ACCESS_BATCH; k++)
			sum += (uintptr_t)batch[k]->next;
	}
	__asm__ volatile("" : : "r"(sum)); /* the touches are not to be left out */
}

static inline void access_buckets(struct access *access, uint64_t times) {
	struct access_line *batch[ACCESS_BATCH];
	for (uint64_t i = 0; i < times; i += ACCESS_BATCH) {
		for (unsigned k = 0; k < ACCESS_BATCH; k++) {
			batch[k] = &access->lines[2 * bench_below(&access->random, access->count / 2)];
			__builtin_prefetch(&batch[k][0], 1);
			__builtin_prefetch(&batch[k][1], 1);
		}
		for (unsigned k = 0; k < ACCESS_BATCH; k++)
			*(volatile uint64_t *)batch[k][1].fill += (uintptr_t)batch[k][0].next;
	}
}

#endif
