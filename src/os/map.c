/* Memory that is private, shared by name or a file, mapped alike; see map.h. */
#include "os/map.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older ones refuse it */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum { SMALL_PAGE_BYTES = 4096 };

void *sl_map_private(uint64_t bytes, bool small) {
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	/* Advice: a check is one miss of the cache and one of the TLB, and huge pages spare the second (15-28 %). */
	(void)madvise(memory, bytes, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	return memory;
}

/* Adds nothing to a byte of each page: its owner may be writing it. */
static void touch_each(unsigned char *memory, uint64_t bytes) {
	for (uint64_t at = 0; at < bytes; at += SMALL_PAGE_BYTES)
		(void)__atomic_fetch_or(memory + at, 0, __ATOMIC_RELAXED);
}

void sl_map_touch(void *memory, uint64_t bytes) {
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	/* Small pages that are there are copied into huge ones; what has none is left to the next line. */
	(void)madvise(memory, bytes, MADV_COLLAPSE);
	if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0)
		touch_each(memory, bytes);
}

void *sl_map_shared(int fd, uint64_t bytes, bool fresh) {
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return NULL;
	(void)madvise(memory, bytes, MADV_HUGEPAGE); /* heard by tmpfs with shmem_enabled=advise, and by nobody else */
	sl_map_expect_scan(memory, bytes, false);
	/* Only pages that are brought in through an advised mapping become huge ones: fallocate() takes small ones. */
	if (fresh)
		(void)madvise(memory, bytes, MADV_POPULATE_WRITE);
	return memory;
}

void sl_map_expect_scan(void *memory, uint64_t bytes, bool scan) {
	/* What is read ahead of a random access is memory taken for nothing, megabytes of it on some disks. */
	(void)madvise(memory, bytes, scan ? MADV_SEQUENTIAL : MADV_RANDOM);
}

void sl_map_free(void *memory, uint64_t bytes) {
	(void)munmap(memory, bytes);
}

int sl_map_sync(void *memory, uint64_t bytes) {
	return msync(memory, bytes, MS_SYNC) == 0 ? 0 : errno;
}

bool sl_random_secret(uint64_t secret[2]) {
	return getrandom(secret, 16, 0) == 16;
}
