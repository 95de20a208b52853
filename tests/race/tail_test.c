/* Following decisions with everybody at it at once: workers decide as fast as they can while readers come, read and go,
 * some of them too slowly; under ThreadSanitizer. Every line is whole, is one that its reader wanted, and in the end
 * each decision that a reader wanted was got, or told as missed. */
#include "hosts/server/watch/tail.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORKERS = 2, READERS = 3, DECISIONS = 500000, LINES_MIN = 1000, KEYS = 5, PASSERS_BY = 300 };

static struct sl_tail *tail;
static pthread_barrier_t joined; /* readers are there before the first decision is made */
static _Atomic bool stop;
static _Atomic uint64_t lines_read;

/* A line says its length, and repeats what it is of: one that is torn does not. */
static size_t write_text(char *text, uint32_t key, uint64_t number) {
	size_t len = 8 + number % 300;
	memset(text, (int)('a' + number % 26), len);
	text[0] = (char)('0' + key);
	text[1] = (char)(len & 127);
	text[2] = (char)(len >> 7);
	return len;
}

static bool is_whole(const char *text, size_t len, int key) {
	if (len < 8 || (size_t)text[1] + ((size_t)text[2] << 7) != len || (key >= 0 && text[0] != '0' + key))
		return false;
	for (size_t i = 4; i < len; i++)
		if (text[i] != text[3])
			return false;
	return true;
}

static void *work(void *argument) {
	struct sl_tail_source *source = sl_tail_source(tail, (uint32_t)(uintptr_t)argument);
	char text[SL_RECORD_BYTES_MAX];
	pthread_barrier_wait(&joined);
	for (uint64_t i = 0; i < DECISIONS || lines_read < LINES_MIN; i++) { /* readers may hardly run */
		uint32_t key = (uint32_t)(i % KEYS);
		char name[2] = {(char)('0' + key), '\0'};
		struct sl_tail_subject subject = {.name = sl_str("api"), .key = sl_str(name), .denied = i % 3 == 0};
		struct sl_tail_head head;
		sluice_ns now = UINT64_C(1800000000000000000) + i * 20000; /* 50,000 a second: a tick is 5,000 of them */
		enum sl_tail_interest interest = sl_tail_interest(source, now);
		if (interest == SL_TAIL_COUNT && !subject.denied)
			sl_tail_count(source, 1);
		else if (sl_tail_is_wanted(source) && sl_tail_take(source, &subject, now, &head))
			sl_tail_write(source, &head, sl_slice(text, write_text(text, key, i)));
	}
	return argument;
}

static struct sl_tail_reader *join(int key) {
	struct sl_tail_filter filter;
	struct sl_tail_reader *reader = NULL;
	char name[2] = {(char)('0' + key), '\0'};
	sl_tail_filter_begin(&filter);
	if (key >= 0 && !sl_tail_filter_key(&filter, sl_str(name)))
		return NULL;
	return sl_tail_join(tail, &filter, &reader) == SL_TAIL_JOINED ? reader : NULL;
}

/* Reads on one worker's ring; false for a line that is not whole. */
static bool drain(struct sl_tail_reader *reader, uint32_t worker, uint64_t *at, int key, uint32_t most) {
	char text[SL_RECORD_BYTES_MAX + 8];
	struct sl_tail_head head;
	uint64_t before = *at;
	for (uint32_t i = 0; i < most && sl_tail_ring_read(sl_tail_ring(tail, worker), at, &head, text) == SL_TAIL_LINE;
	     i++, before = *at) {
		if (!sl_tail_is_for(reader, &head, worker, before))
			continue;
		if (!is_whole(text, head.len, key))
			return false;
		reader->got++;
		lines_read++;
	}
	return true;
}

/* The first reads all keys, the others one; the last takes one line at a time, and is late. */
static void *read_on(void *argument) {
	uint32_t number = (uint32_t)(uintptr_t)argument;
	int key = number == 0 ? -1 : (int)number;
	struct sl_tail_reader *reader = join(key);
	uint64_t at[WORKERS];
	bool fine = reader != NULL, last = false;
	pthread_barrier_wait(&joined);
	for (uint32_t i = 0; fine && i < WORKERS; i++)
		at[i] = reader->from[i];
	while (fine && !last) {
		last = stop;
		bool all = number + 1 < READERS || last;
		sl_tail_count_wanted(reader);
		for (uint32_t i = 0; fine && i < WORKERS; i++)
			fine = drain(reader, i, &at[i], key, all ? UINT32_MAX : 1);
		if (all) /* what is still to be read is not missed */
			sl_tail_missed(reader);
	}
	/* one that was counted and not yet written may have been told as missed, and got: one a worker */
	if (fine &&
	    (reader->got + reader->missed < reader->wanted || reader->got + reader->missed > reader->wanted + WORKERS))
		fine = fprintf(stderr, "reader %u wanted %llu, got %llu, missed %llu\n", number,
		               (unsigned long long)reader->wanted, (unsigned long long)reader->got,
		               (unsigned long long)reader->missed) < 0;
	sl_tail_leave(reader);
	return fine ? &stop : NULL;
}

/* Comes and goes, by filters that others have and by new ones. */
static void *pass_by(void *argument) {
	(void)argument;
	for (int i = 0; i < PASSERS_BY || !stop; i++) {
		struct sl_tail_reader *reader = join(i % (KEYS + 3) - 1);
		if (reader == NULL)
			return NULL;
		sl_tail_count_wanted(reader);
		sl_tail_leave(reader);
	}
	return &stop;
}

static void test_all_at_once(void **state) {
	pthread_t workers[WORKERS], readers[READERS], passer;
	void *result;
	(void)state;
	tail = sl_tail_new(WORKERS);
	assert_int_equal(pthread_barrier_init(&joined, NULL, READERS + WORKERS), 0);
	assert_non_null(tail);
	for (uintptr_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_on, (void *)i), 0);
	assert_int_equal(pthread_create(&passer, NULL, pass_by, NULL), 0);
	for (uintptr_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&workers[i], NULL, work, (void *)i), 0);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_join(workers[i], &result), 0);
	stop = true;
	for (int i = 0; i < READERS; i++) {
		assert_int_equal(pthread_join(readers[i], &result), 0);
		assert_ptr_equal(result, &stop);
	}
	assert_int_equal(pthread_join(passer, &result), 0);
	assert_ptr_equal(result, &stop);
	assert_int_equal(sl_tail_figures(tail).readers, 0);
	pthread_barrier_destroy(&joined);
	sl_tail_free(tail);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_at_once)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
