/* Ids that doors make: of the form that the core reads as their own number, no two alike, in any thread and process,
 * and with no bit that says anything of the next. */
#include "algo/step.h"
#include "hosts/admission/ids.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, EACH = 20000 };

static void *make(void *to) {
	uint64_t *numbers = to;
	for (int i = 0; i < EACH; i++) {
		char text[SL_ID_DIGITS + 1];
		sl_make_id(text);
		if (strlen(text) != SL_ID_DIGITS || strspn(text, "0123456789abcdef") != SL_ID_DIGITS)
			return NULL; /* leaves zeros, which meet */
		numbers[i] = strtoull(text, NULL, 16);
		if (sl_id_number(sl_str(text)) != numbers[i])
			return NULL;
	}
	return NULL;
}

static int compare(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void test_no_two_are_alike(void **state) {
	(void)state;
	static uint64_t numbers[THREADS * EACH];
	pthread_t threads[THREADS];
	int ones[64] = {0}, changes[64] = {0};
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, make, numbers + i * EACH), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < EACH; i++)
		for (int bit = 0; bit < 64; bit++) {
			ones[bit] += numbers[i] >> bit & 1;
			changes[bit] += (numbers[i] ^ numbers[i - 1]) >> bit & 1;
		}
	for (int bit = 0; bit < 64; bit++) { /* 10,000 +- 71: eight deviations are never seen */
		assert_in_range(ones[bit], EACH / 2 - 566, EACH / 2 + 566);
		assert_in_range(changes[bit], EACH / 2 - 566, EACH / 2 + 566);
	}
	qsort(numbers, THREADS * EACH, sizeof numbers[0], compare);
	for (int i = 1; i < THREADS * EACH; i++)
		assert_true(numbers[i] != numbers[i - 1]);
}

/* The next id of a process that begins here, as a copy of this one. */
static void make_in_child(char text[SL_ID_DIGITS + 1]) {
	int ends[2], status;
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char made[SL_ID_DIGITS + 1];
		sl_make_id(made);
		_exit(write(ends[1], made, sizeof made) != sizeof made);
	}
	assert_int_equal(read(ends[0], text, SL_ID_DIGITS + 1), SL_ID_DIGITS + 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
}

static void test_processes_make_ids_of_their_own(void **state) {
	char ids[4][SL_ID_DIGITS + 1];
	(void)state;
	sl_make_id(ids[0]);
	make_in_child(ids[1]);
	make_in_child(ids[2]);
	sl_make_id(ids[3]);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(ids[i], ids[j]);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_two_are_alike),
	                                   cmocka_unit_test(test_processes_make_ids_of_their_own)};
	return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
