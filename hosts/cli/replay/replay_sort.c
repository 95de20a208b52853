/* See replay_sort.h. Logs are nearly in order, but not quite: a request is logged when it ends. */
#include "hosts/cli/replay/replay_sort.h"

#include "base/assert.h"
#include "base/math.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A line as it stands in memory and in a run; its text follows, and padding up to 8 bytes. */
struct record {
	sluice_ns time;
	uint64_t number;
	uint32_t file, format, len, padding;
};

struct pair {
	sluice_ns time;
	uint64_t at;
};

/* A sorted run in the file, and what of it is in memory. */
struct run {
	uint64_t from, to; /* what is still in the file */
	size_t at, len;    /* what of `data` is unread */
	char *data;
};

enum {
	RECORD_MAX = sizeof(struct record) + SL_SORT_LINE_MAX,
	RUNS_MAX = SL_SORT_MEMORY / RECORD_MAX,
	WRITE_BYTES = 1 << 20,
};

struct sl_sort {
	size_t memory, used, pair_count;
	char *data;
	int fd;
	uint64_t written;
	uint32_t run_count, heap_count, runs_max;
	size_t next;             /* of the pairs, when all fits in memory */
	uint32_t heap[RUNS_MAX]; /* numbers of runs, the one with the earliest line on top */
	struct run runs[RUNS_MAX];
};

static bool fail(struct sluice_error *error, const char *what) {
	snprintf(error->text, sizeof error->text, "sorting in %.100s: %s: %s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
	         what, strerror(errno));
	return false;
}

static size_t record_bytes(size_t len) {
	return (sizeof(struct record) + len + 7) & ~(size_t)7;
}

struct sl_sort *sl_sort_open(size_t memory) {
	SL_ASSERT(memory >= SL_SORT_MEMORY_MIN && memory <= SL_SORT_MEMORY && memory % 16 == 0);
	struct sl_sort *sort = calloc(1, sizeof *sort);
	char *data = malloc(memory);
	if (sort == NULL || data == NULL) {
		free(sort);
		free(data);
		return NULL;
	}
	sort->memory = memory;
	sort->data = data;
	sort->runs_max = (uint32_t)(memory / RECORD_MAX);
	sort->fd = -1;
	return sort;
}

void sl_sort_close(struct sl_sort *sort) {
	if (sort->fd >= 0)
		close(sort->fd);
	free(sort->data);
	free(sort);
}

/* ---- adding ----------------------------------------------------------------------------------------------------- */

static struct pair *pairs_of(const struct sl_sort *sort) {
	return (struct pair *)(sort->data + sort->memory) - sort->pair_count;
}

/* `at` grows with the order of adding: so the order is stable, and total. */
static int compare_pairs(const void *a, const void *b) {
	const struct pair *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* A file without a name, gone when it is closed, however the program ends. */
static bool open_file(struct sl_sort *sort, struct sluice_error *error) {
	const char *said = getenv("TMPDIR"), *folder = said != NULL ? said : "/tmp";
	char path[4096];
	if (sort->fd >= 0)
		return true;
	sort->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (sort->fd >= 0)
		return true;
	snprintf(path, sizeof path, "%s/sluice-sort-XXXXXX", folder);
	sort->fd = mkostemp(path, O_CLOEXEC);
	if (sort->fd < 0)
		return fail(error, "no temporary file");
	unlink(path);
	return true;
}

static bool write_bytes(struct sl_sort *sort, const char *data, size_t len, struct sluice_error *error) {
	while (len > 0) {
		ssize_t n = pwrite(sort->fd, data, len, (off_t)sort->written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(error, "writing");
		data += n;
		len -= (size_t)n;
		sort->written += (uint64_t)n;
	}
	return true;
}

/* Writes the lines in the order of the pairs, gathered into larger writes. */
static bool write_in_order(struct sl_sort *sort, char *gather, struct sluice_error *error) {
	const struct pair *pairs = pairs_of(sort);
	size_t held = 0;
	for (size_t i = 0; i < sort->pair_count; i++) {
		const struct record *record = (const struct record *)(sort->data + pairs[i].at);
		size_t bytes = record_bytes(record->len);
		if (held + bytes > WRITE_BYTES) {
			if (!write_bytes(sort, gather, held, error))
				return false;
			held = 0;
		}
		memcpy(gather + held, record, bytes);
		held += bytes;
	}
	return write_bytes(sort, gather, held, error);
}

static bool write_run(struct sl_sort *sort, struct sluice_error *error) {
	if (sort->run_count == sort->runs_max) {
		snprintf(error->text, sizeof error->text, "too much to sort at once: split the log by time");
		return false;
	}
	if (!open_file(sort, error))
		return false;
	struct run *run = &sort->runs[sort->run_count];
	run->from = sort->written;
	qsort(pairs_of(sort), sort->pair_count, sizeof(struct pair), compare_pairs);
	char *gather = malloc(WRITE_BYTES);
	if (gather == NULL)
		return fail(error, "writing");
	bool fine = write_in_order(sort, gather, error);
	free(gather);
	run->to = sort->written;
	sort->run_count++;
	sort->used = sort->pair_count = 0;
	return fine;
}

bool sl_sort_add(struct sl_sort *sort, const struct sl_sort_line *line, struct sluice_error *error) {
	SL_ASSERT(line->text.len <= SL_SORT_LINE_MAX);
	size_t bytes = record_bytes(line->text.len);
	if (sort->used + bytes + (sort->pair_count + 1) * sizeof(struct pair) > sort->memory && !write_run(sort, error))
		return false;
	struct record *record = (struct record *)(sort->data + sort->used);
	memset((char *)record + bytes - 8, 0, 8); /* the padding too is written to the file */
	*record = (struct record){line->time, line->number, line->file, line->format, (uint32_t)line->text.len, 0};
	if (line->text.len > 0)
		memcpy(record + 1, line->text.data, line->text.len);
	sort->pair_count++;
	*pairs_of(sort) = (struct pair){line->time, sort->used};
	sort->used += bytes;
	return true;
}

/* ---- taking ----------------------------------------------------------------------------------------------------- */

/* Makes sure that the next record of a run is whole in memory. 1, 0 when the run is over, -1. */
static int load(struct sl_sort *sort, struct run *run, struct sluice_error *error) {
	size_t left = run->len - run->at, room = sort->memory / sort->run_count & ~(size_t)7;
	const struct record *record = (const struct record *)(run->data + run->at);
	if (left >= sizeof *record && left >= record_bytes(record->len))
		return 1;
	memmove(run->data, run->data + run->at, left);
	run->at = 0;
	run->len = left;
	while (run->len < room && run->from < run->to) {
		size_t want = (size_t)sl_min(room - run->len, run->to - run->from);
		ssize_t got = pread(sort->fd, run->data + run->len, want, (off_t)run->from);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			errno = got == 0 ? EIO : errno;
			fail(error, "reading");
			return -1;
		}
		run->len += (size_t)got;
		run->from += (uint64_t)got;
	}
	return run->len > 0;
}

static bool is_earlier(const struct sl_sort *sort, uint32_t a, uint32_t b) {
	const struct run *x = &sort->runs[a], *y = &sort->runs[b];
	sluice_ns x_time = ((const struct record *)(x->data + x->at))->time;
	sluice_ns y_time = ((const struct record *)(y->data + y->at))->time;
	return x_time != y_time ? x_time < y_time : a < b;
}

/* Lets the run on top of the heap sink to where it belongs. */
static void sink(struct sl_sort *sort, uint32_t at) {
	for (;;) {
		uint32_t least = at, left = 2 * at + 1, right = left + 1;
		if (left < sort->heap_count && is_earlier(sort, sort->heap[left], sort->heap[least]))
			least = left;
		if (right < sort->heap_count && is_earlier(sort, sort->heap[right], sort->heap[least]))
			least = right;
		if (least == at)
			return;
		uint32_t number = sort->heap[at];
		sort->heap[at] = sort->heap[least];
		sort->heap[least] = number;
		at = least;
	}
}

bool sl_sort_finish(struct sl_sort *sort, struct sluice_error *error) {
	if (sort->run_count == 0) {
		qsort(pairs_of(sort), sort->pair_count, sizeof(struct pair), compare_pairs);
		return true;
	}
	if (sort->pair_count > 0 && !write_run(sort, error))
		return false;
	for (uint32_t i = 0; i < sort->run_count; i++) {
		struct run *run = &sort->runs[i];
		run->data = sort->data + (sort->memory / sort->run_count & ~(size_t)7) * i;
		run->at = run->len = 0;
		if (load(sort, run, error) < 0)
			return false;
		sort->heap[sort->heap_count++] = i;
	}
	for (uint32_t i = sort->heap_count / 2; i-- > 0;)
		sink(sort, i);
	sort->next = SIZE_MAX; /* nothing was handed out yet */
	return true;
}

static int hand_out(const char *at, struct sl_sort_line *line) {
	const struct record *record = (const struct record *)at;
	*line = (struct sl_sort_line){record->time, record->number, record->file, record->format,
	                              sl_slice(record + 1, record->len)};
	return 1;
}

/* Goes past the line that was handed out last, which stands on top of the heap. */
static int advance(struct sl_sort *sort, struct sluice_error *error) {
	struct run *run = &sort->runs[sort->heap[0]];
	run->at += record_bytes(((const struct record *)(run->data + run->at))->len);
	int got = load(sort, run, error);
	if (got == 0)
		sort->heap[0] = sort->heap[--sort->heap_count];
	sink(sort, 0);
	return got;
}

int sl_sort_next(struct sl_sort *sort, struct sl_sort_line *line, struct sluice_error *error) {
	if (sort->run_count == 0)
		return sort->next < sort->pair_count ? hand_out(sort->data + pairs_of(sort)[sort->next++].at, line) : 0;
	if (sort->next == SIZE_MAX)
		sort->next = 0;
	else if (sort->heap_count > 0 && advance(sort, error) < 0)
		return -1;
	if (sort->heap_count == 0)
		return 0;
	const struct run *run = &sort->runs[sort->heap[0]];
	return hand_out(run->data + run->at, line);
}
