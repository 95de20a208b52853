/* What the program asks of its system, beside another way to ask: which boot this is, how the clock of a time namespace
 * is shifted, the memory that may still be had; and the sockets that a service manager has left open, by table. */
#include "os/clock.h"
#include "os/memory.h"
#include "os/notify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_boot_is_known_by_its_id(void **state) {
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
	unsigned a, b, c, d;
	uint64_t boot[2], e;
	(void)state;
	if (file == NULL)
		skip();
	assert_int_equal(fscanf(file, "%8x-%4x-%4x-%4x-%12" SCNx64, &a, &b, &c, &d, &e), 5);
	(void)fclose(file);
	assert_true(sl_clock_boot_id(boot));
	assert_true(boot[0] == ((uint64_t)a << 32 | (uint64_t)b << 16 | c));
	assert_true(boot[1] == ((uint64_t)d << 48 | e));
}

static void there_is_memory_and_not_more_than_the_system_has(void **state) {
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	(void)state;
	assert_in_range(sl_memory_available(), 1, all);
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

enum { FIRST = 3 }; /* descriptors of a service manager begin with the third */

static const struct {
	bool mine;
	const char *fds, *names;
	int count;
	const char *first, *second;
} rows[] = {
	{false, "1", NULL, 0, NULL, NULL},
	{true, NULL, NULL, 0, NULL, NULL},
	{true, "0", NULL, 0, NULL, NULL},
	{true, "x", NULL, -1, NULL, NULL},
	{true, "", NULL, -1, NULL, NULL},
	{true, "-1", NULL, -1, NULL, NULL},
	{true, "18446744073709551616", NULL, -1, NULL, NULL},
	{true, "4097", NULL, -1, NULL, NULL},
	{true, "1", NULL, 1, "", NULL},
	{true, "2", NULL, 2, "", ""},
	{true, "2", "resp:http", 2, "resp", "http"},
	{true, "2", "resp", 2, "resp", ""},
	{true, "2", ":http:more", 2, "", "http"},
};

static void sockets_are_taken_as_they_are_given(void **state) {
	struct sl_given given[SL_GIVEN_MAX];
	char pid[16];
	int kept[2] = {fcntl(FIRST, F_DUPFD, 64), fcntl(FIRST + 1, F_DUPFD, 64)};
	(void)state;
	for (int fd = FIRST; fd < FIRST + 2; fd++)
		assert_int_equal(dup2(0, fd), fd);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		(void)snprintf(pid, sizeof pid, "%d", (int)getpid() + !rows[i].mine);
		setenv("LISTEN_PID", pid, 1);
		unsetenv("LISTEN_FDS");
		unsetenv("LISTEN_FDNAMES");
		if (rows[i].fds != NULL)
			setenv("LISTEN_FDS", rows[i].fds, 1);
		if (rows[i].names != NULL)
			setenv("LISTEN_FDNAMES", rows[i].names, 1);
		for (int k = 0; k < 2; k++)
			assert_int_equal(fcntl(FIRST + k, F_SETFD, 0), 0);
		int count = sl_given_sockets(given);
		if (count != rows[i].count)
			fail_msg("row %zu: %d", i, count);
		for (int k = 0; k < count; k++) {
			assert_int_equal(given[k].fd, FIRST + k);
			assert_string_equal(given[k].name, k == 0 ? rows[i].first : rows[i].second);
			assert_int_equal(fcntl(FIRST + k, F_GETFD), FD_CLOEXEC); /* whoever is started has none of them */
		}
	}
	close(FIRST + 1);
	setenv("LISTEN_FDS", "2", 1);
	assert_int_equal(sl_given_sockets(given), -1); /* one that is not there */
	for (int k = 0; k < 2; k++)
		if (kept[k] >= 0)
			dup2(kept[k], FIRST + k);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_boot_is_known_by_its_id),
		cmocka_unit_test(there_is_memory_and_not_more_than_the_system_has),
		cmocka_unit_test(sockets_are_taken_as_they_are_given),
	};
	return cmocka_run_group_tests_name("the system", tests, NULL, NULL);
}
