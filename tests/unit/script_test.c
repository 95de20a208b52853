/* The script's texts in the program: whole, and named as Redis names them. */
#include "hosts/redis/script/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void texts_are_whole(void **state) {
	(void)state;
	assert_int_equal(strlen(sl_script_library), sl_script_library_bytes);
	assert_int_equal(strlen(sl_script_eval), sl_script_eval_bytes);
	assert_memory_equal(sl_script_library, "#!lua name=sluice\n", 18);
	assert_memory_equal(sl_script_eval, "-- sluice eval ", 15);
	assert_non_null(strstr(sl_script_library, "register('version'"));
	assert_null(strstr(sl_script_library, "--client-time\nlocal"));
}

/* Only the one that is made for it lets callers set the instant. */
static void instants_are_for_those_who_may_set_them(void **state) {
	(void)state;
	assert_int_equal(strlen(sl_script_eval_client_time), sl_script_eval_client_time_bytes);
	assert_non_null(strstr(sl_script_eval, "', false\n"));
	assert_non_null(strstr(sl_script_library, "', false\n"));
	assert_non_null(strstr(sl_script_eval_client_time, "', true\n"));
}

/* Against the program that everybody has. */
static void sha1_is_what_sha1sum_says(void **state) {
	char hex[41], said[41] = "", path[] = "/tmp/sluice-script-XXXXXX", command[64];
	FILE *text = fdopen(mkstemp(path), "w"), *sum;
	(void)state;
	assert_non_null(text);
	assert_int_equal(fwrite(sl_script_eval, 1, sl_script_eval_bytes, text), sl_script_eval_bytes);
	assert_int_equal(fclose(text), 0);
	snprintf(command, sizeof command, "sha1sum %s", path);
	sum = popen(command, "r");
	assert_non_null(sum);
	assert_int_equal(fread(said, 1, 40, sum), 40);
	pclose(sum);
	remove(path);
	sl_script_sha1(sl_script_eval, sl_script_eval_bytes, hex);
	assert_string_equal(hex, said);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_whole),
		cmocka_unit_test(instants_are_for_those_who_may_set_them),
		cmocka_unit_test(sha1_is_what_sha1sum_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
