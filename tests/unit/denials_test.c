/* The denial log: what a line says, and that no flood makes it longer than it may be. Instants are passed in; the log's
 * own thread is waited for by ending it. */
#include "hosts/server/watch/denials.h"

#include "base/bytes.h"
#include "hosts/server/watch/key_shown.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)
#define NOW_NS (UINT64_C(1800000000) * SECOND_NS) /* 2027-01-15T08:00:00Z */

struct place {
	char folder[64], path[96], aside[96];
	struct sl_log_settings settings;
};

static int set_up(void **state) {
	struct place *place = calloc(1, sizeof *place);
	assert_non_null(place);
	snprintf(place->folder, sizeof place->folder, "/tmp/sluice-denials-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	snprintf(place->path, sizeof place->path, "%s/denials.log", place->folder);
	snprintf(place->aside, sizeof place->aside, "%s/denials.log.1", place->folder);
	place->settings =
		(struct sl_log_settings){.denials = place->path, .denials_per_second = 100, .denials_bytes = 1 << 20};
	*state = place;
	return 0;
}

static int tear_down(void **state) {
	struct place *place = *state;
	unlink(place->path);
	unlink(place->aside);
	rmdir(place->folder);
	free(place);
	return 0;
}

static struct sl_record_line denial_of(struct sluice_bytes key, sluice_ns now) {
	return (struct sl_record_line){.now = now,
	                          .limit = sl_str("login"),
	                          .key = key,
	                          .cost = 1,
	                          .quota = 5,
	                          .remaining = 2,
	                          .retry_after_ms = 3100,
	                          .reset_after_ms = 60000,
	                          .transport = "http",
	                          .suppressed = 41};
}

/* The whole file, NUL-ended; to be freed. */
static char *contents(const char *path, size_t *len) {
	FILE *file = fopen(path, "r");
	char *text = NULL;
	*len = 0;
	if (file == NULL)
		return calloc(1, 1);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	*len = (size_t)ftell(file);
	rewind(file);
	text = malloc(*len + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, *len, file), *len);
	text[*len] = '\0';
	fclose(file);
	return text;
}

static uint64_t file_bytes(const char *path) {
	struct stat st;
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Writes denials, ends the log and returns what stands in the file. */
static char *logged(const struct place *place, const struct sl_record_line *denials, int count) {
	struct sl_denials *log = sl_denials_open(&place->settings);
	size_t len;
	assert_non_null(log);
	for (int i = 0; i < count; i++)
		sl_denials_write(log, &denials[i]);
	sl_denials_close(log);
	return contents(place->path, &len);
}

/* ---- what a line says -------------------------------------------------------------------------------------------- */

static void test_a_line_says_who_and_why(void **state) {
	struct sl_record_line denial = denial_of(sl_str("ip=192.0.2.7"), NOW_NS + 123456789);
	char *text = logged(*state, &denial, 1);
	assert_string_equal(text, "{\"time\":\"2027-01-15T08:00:00.123Z\",\"limit\":\"login\",\"key\":\"ip=192.0.2.7\","
	                          "\"cost\":1,\"quota\":5,\"remaining\":2,\"retry_after_ms\":3100,\"reset_after_ms\":60000,"
	                          "\"transport\":\"http\",\"observed\":false,\"suppressed\":41}\n");
	free(text);
}

/* What nobody was turned away for says so, and has lines of its own: a flood of it leaves those of denials alone. */
static void test_observed_lines_take_none_from_denials(void **state) {
	enum { FLOOD = 1000 };
	struct sl_record_line *denials = calloc(FLOOD + 100, sizeof *denials);
	int count = 0, observed = 0, enforced = 0, candidates = 0;
	assert_non_null(denials);
	for (; count < FLOOD; count++) {
		denials[count] = denial_of(sl_str("ip=192.0.2.7"), NOW_NS);
		denials[count].observed = true;
		denials[count].candidate = count % 2 == 1;
	}
	for (; count < FLOOD + 100; count++)
		denials[count] = denial_of(sl_str("ip=192.0.2.8"), NOW_NS);
	char *text = logged(*state, denials, count);
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		*end = '\0';
		bool seen = strstr(line, "\"observed\":true") != NULL;
		observed += seen;
		enforced += !seen && strstr(line, "ip=192.0.2.8") != NULL;
		candidates += strstr(line, "\"observed\":true,\"candidate\":true,\"suppressed\":41}") != NULL;
	}
	assert_int_equal(observed, 100);
	assert_int_equal(candidates, 50);
	assert_int_equal(enforced, 100);
	free(text);
	free(denials);
}

/* What the request told, each bounded on its own and in the order of the schema. */
static void test_a_line_says_what_the_request_told(void **state) {
	char route[1000];
	struct sl_record_line denial = denial_of(sl_str("ip=192.0.2.7"), NOW_NS);
	memset(route, 'r', sizeof route);
	denial.method = sl_str("POST");
	denial.route = sl_slice(route, sizeof route);
	denial.address = sl_str("192.0.2.7");
	denial.request_id = sl_str("a\"b");
	denial.traceparent = sl_str("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
	denial.observed = true;
	char *text = logged(*state, &denial, 1), expected[1024];
	snprintf(expected, sizeof expected,
	         "\"transport\":\"http\",\"method\":\"POST\",\"route\":\"%.*s\",\"address\":\"192.0.2.7\","
	         "\"request_id\":\"a\\\"b\",\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\","
	         "\"observed\":true,\"suppressed\":41}\n",
	         SL_RECORD_TOLD_MAX, route);
	assert_non_null(strstr(text, expected));
	free(text);
}

/* ---- how a key is shown ------------------------------------------------------------------------------------------ */

static void test_keys_are_shown_as_chosen(void **state) {
	static const char secret[] = "0123456789abcdef";
	static const struct {
		enum sl_keys_shown keys;
		const char *key, *shown;
	} rows[] = {
		{SL_KEYS_CLEAR, "user=alice", "user=alice"},
		{SL_KEYS_CUT, "user=alice", "user=al*"},
		{SL_KEYS_CUT, "user=alexander,plan=pro", "user=alex*,plan=p*"},
		{SL_KEYS_CUT, "ip=192.0.2.7", "ip=192.*"},
		{SL_KEYS_CUT, "bob", "b*"},
		{SL_KEYS_CUT, "x", "*"},
		{SL_KEYS_CUT, "user=", "user=*"},
		{SL_KEYS_CUT, "\xc3\xa4\xc3\xb6\xc3\xbc", "\xc3\xa4*"}, /* no half character */
		{SL_KEYS_HASH, "", ""},
		/* printf %s user=alice | openssl dgst -sha256 -hmac 0123456789abcdef */
		{SL_KEYS_HASH, "user=alice", "hmac:9b6be98892504c65"},
	};
	char memory[2 * SLUICE_KEY_BYTES_MAX], key[2 * SLUICE_KEY_BYTES_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct sl_log_settings settings = {.keys = (uint8_t)rows[i].keys, .keys_secret = secret};
		struct sluice_bytes shown = sl_key_shown(&settings, sl_str(rows[i].key), memory);
		assert_int_equal(shown.len, strlen(rows[i].shown));
		assert_memory_equal(shown.data, rows[i].shown, shown.len);
	}
	memset(key, ',', sizeof key); /* each comma ends a value, and each value shows as one byte more */
	struct sluice_bytes worst =
		sl_key_shown(&(struct sl_log_settings){.keys = SL_KEYS_CUT}, sl_slice(key, sizeof key), memory);
	assert_int_equal(worst.len, 2 * SLUICE_KEY_BYTES_MAX);
}

static void test_a_line_names_the_bound_that_denied(void **state) {
	struct sl_record_line denial = denial_of(sl_str("ip=192.0.2.7"), NOW_NS);
	denial.bound = SLUICE_BOUND_ROOM;
	char *text = logged(*state, &denial, 1);
	assert_non_null(strstr(text, "\"reset_after_ms\":60000,\"bound\":\"room\",\"transport\":\"http\""));
	free(text);
}

/* Any bytes at all in a key: the line is one line, UTF-8, without a control character, and says which bytes they
 * were. */
static void test_a_key_of_any_bytes_makes_one_clean_line(void **state) {
	unsigned char key[SLUICE_KEY_BYTES_MAX + 100];
	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (unsigned char)i;
	struct sl_record_line denial = denial_of(sl_slice(key, sizeof key), NOW_NS);
	char *text = logged(*state, &denial, 1);
	size_t len = strlen(text);
	assert_int_equal(text[len - 1], '\n');
	for (size_t i = 0; i + 1 < len; i++)
		assert_true((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
	json_t *line = json_loads(text, JSON_ALLOW_NUL, NULL);
	assert_non_null(line);
	const char *digits = json_string_value(json_object_get(line, "key_hex"));
	assert_non_null(digits);
	assert_int_equal(strlen(digits), 2 * SLUICE_KEY_BYTES_MAX);
	assert_memory_equal(digits, "000102", 6);
	json_decref(line);
	free(text);
}

static void test_text_has_no_digits(void **state) {
	struct sl_record_line denial = denial_of(sl_str("user=\xc3\xa4\x1b[31m"), NOW_NS);
	char *text = logged(*state, &denial, 1);
	assert_null(strstr(text, "key_hex"));
	assert_non_null(strstr(text, "\"key\":\"user=\xc3\xa4\\u001b[31m\""));
	free(text);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* No second has more lines than it may, whatever clocks the workers have. */
static void test_a_second_has_its_lines_and_no_more(void **state) {
	struct place *place = *state;
	struct sl_denials *log = sl_denials_open(&place->settings);
	uint64_t written, dropped;
	assert_non_null(log);
	for (int i = 0; i < 5000; i++) {
		struct sl_record_line denial = denial_of(sl_str("k"), NOW_NS + (i % 2 ? 0 : SECOND_NS) + (sluice_ns)i);
		sl_denials_write(log, &denial); /* two clocks on both companions of a second */
	}
	struct sl_record_line later = denial_of(sl_str("later"), NOW_NS + 2 * SECOND_NS);
	sl_denials_write(log, &later);
	sl_denials_close(log);
	size_t len;
	char *text = contents(place->path, &len);
	int lines = 0;
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_in_range(lines, 101, 201);
	assert_non_null(strstr(text, "later"));
	free(text);
	sl_denials_figures(NULL, &written, &dropped);
	assert_int_equal(written + dropped, 0);
}

static void flood(struct sl_denials *log, int keys, int a_second) {
	char key[300];
	memset(key, 'k', sizeof key);
	for (int i = 0; i < keys; i++) {
		snprintf(key, 32, "ip=2001:db8::%x", (unsigned)i);
		key[strlen(key)] = 'k';
		struct sl_record_line denial =
			denial_of(sl_slice(key, sizeof key), NOW_NS + SECOND_NS / (sluice_ns)a_second * (sluice_ns)i);
		sl_denials_write(log, &denial);
	}
}

static void test_a_flood_of_a_million_keys_fills_no_disk(void **state) {
	struct place *place = *state;
	struct sl_denials *log = sl_denials_open(&place->settings);
	assert_non_null(log);
	flood(log, 1000000, 20000); /* 50 seconds of it */
	sl_denials_reopen(log);
	sl_denials_close(log);
	assert_true(file_bytes(place->path) + file_bytes(place->aside) < 2u << 20);
	size_t len;
	char *text = contents(place->path, &len);
	uint64_t lines = 0;
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	free(text);
	text = contents(place->aside, &len);
	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	free(text);
	assert_in_range(lines, 1, 100 * 50);
}

/* With nothing to hold lines back the file goes round and round, and each part is whole lines of at most its size. */
static void test_the_file_and_its_predecessor_keep_to_their_size(void **state) {
	struct place *place = *state;
	uint64_t written = 0, dropped = 0;
	place->settings.denials_per_second = 1000000;
	struct sl_denials *log = sl_denials_open(&place->settings);
	assert_non_null(log);
	for (int round = 0; round < 40; round++) {
		flood(log, 1000, 1000);
		while (written + dropped < (uint64_t)(round + 1) * 1000) {
			sl_denials_figures(log, &written, &dropped);
			usleep(100);
		}
		assert_true(file_bytes(place->path) <= 1u << 20);
		assert_true(file_bytes(place->aside) <= 1u << 20);
	}
	assert_int_equal(written + dropped, 40000);
	assert_true(written > 4 * (1 << 20) / 420); /* several times the size went through */
	sl_denials_close(log);
	size_t len;
	char *text = contents(place->aside, &len);
	assert_true(len > (1 << 20) - 1000);
	assert_int_equal(text[0], '{');
	assert_int_equal(text[len - 1], '\n');
	free(text);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void wait_for_lines(struct sl_denials *log, uint64_t lines) {
	uint64_t written = 0, dropped;
	while (written < lines) {
		sl_denials_figures(log, &written, &dropped);
		usleep(100);
	}
}

static void test_a_file_renamed_by_others_is_begun_anew(void **state) {
	struct place *place = *state;
	struct sl_record_line first = denial_of(sl_str("first"), NOW_NS), second = denial_of(sl_str("second"), NOW_NS);
	struct sl_denials *log = sl_denials_open(&place->settings);
	size_t len;
	assert_non_null(log);
	sl_denials_write(log, &first);
	wait_for_lines(log, 1);
	assert_int_equal(rename(place->path, place->aside), 0);
	sl_denials_write(log, &second);
	sl_denials_close(log);
	char *text = contents(place->path, &len), *before = contents(place->aside, &len);
	assert_non_null(strstr(text, "second"));
	assert_null(strstr(text, "first"));
	assert_non_null(strstr(before, "first"));
	assert_null(strstr(before, "second"));
	free(text);
	free(before);
}

static void test_what_stands_in_a_file_stays(void **state) {
	struct place *place = *state;
	struct sl_record_line denial = denial_of(sl_str("a"), NOW_NS);
	free(logged(place, &denial, 1));
	denial.key = sl_str("b");
	char *text = logged(place, &denial, 1);
	assert_non_null(strstr(text, "\"key\":\"a\""));
	assert_non_null(strstr(text, "\"key\":\"b\""));
	free(text);
}

static void test_a_folder_that_is_not_there_is_refused(void **state) {
	struct place *place = *state;
	place->settings.denials = "/nonexistent/denials.log";
	assert_null(sl_denials_open(&place->settings));
	assert_false(sl_denials_check(&place->settings));
	place->settings.denials = place->folder;
	assert_null(sl_denials_open(&place->settings));
	assert_false(sl_denials_check(&place->settings));
	sl_denials_close(NULL);
}

/* A full disk costs lines, which are counted, and nothing else. */
static void test_lines_that_cannot_be_written_are_counted(void **state) {
	struct place *place = *state;
	struct sl_record_line denial = denial_of(sl_str("a"), NOW_NS);
	uint64_t written = 0, dropped = 0;
	place->settings.denials = "/dev/full";
	struct sl_denials *log = sl_denials_open(&place->settings);
	assert_non_null(log);
	for (int i = 0; i < 10; i++)
		sl_denials_write(log, &denial);
	while (dropped < 10) {
		sl_denials_figures(log, &written, &dropped);
		usleep(100);
	}
	assert_int_equal(written, 0);
	assert_int_equal(dropped, 10);
	sl_denials_close(log);
}

/* ---- inherited descriptors --------------------------------------------------------------------------------------- */

static const char *name_of(char name[32], const char *folder, int fd) {
	snprintf(name, 32, "%s/%d", folder, fd);
	return name;
}

/* Whoever opened the file writes on in it: what stands there stays, and it has no other name. */
static void test_an_inherited_file_is_never_set_aside(void **state) {
	static const char *const folders[] = {"/dev/fd", "/proc/self/fd"};
	struct place *place = *state;
	char name[32], link[128];
	place->settings.denials_bytes = 2048; /* some lines */
	snprintf(link, sizeof link, "%s/link", place->folder);
	for (int i = 0; i < 3; i++) {
		/* not for appending: where the descriptor stands is for both to know */
		int fd = open(place->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		size_t len;
		int lines = 0;
		assert_true(fd >= 0);
		assert_int_equal(write(fd, "first\n", 6), 6);
		place->settings.denials = name_of(name, folders[i % 2], fd);
		if (i == 2) {
			assert_int_equal(symlink(name, link), 0);
			place->settings.denials = link;
		}
		struct sl_denials *log = sl_denials_open(&place->settings);
		assert_non_null(log);
		flood(log, 40, 40);
		sl_denials_reopen(log);
		sl_denials_close(log);
		assert_int_equal(write(fd, "last\n", 5), 5);
		close(fd);
		unlink(link);
		char *text = contents(place->path, &len);
		for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
			lines++;
		assert_int_equal(lines, 42);
		assert_memory_equal(text, "first\n{", 7);
		assert_string_equal(text + len - 7, "}\nlast\n");
		assert_int_equal(file_bytes(place->aside), 0);
		free(text);
	}
}

/* Nobody reads: what has no room is dropped, whole lines, and neither the log nor its end waits. The pipe stays one
 * that waits, for others write to it. */
static void test_a_full_inherited_pipe_costs_lines(void **state) {
	enum { LINES = 1000 };
	struct place *place = *state;
	static char text[1 << 20];
	char name[32];
	int ends[2];
	uint64_t written, dropped = 0;
	size_t len = 0, lines = 0;
	assert_int_equal(pipe(ends), 0);
	place->settings.denials = name_of(name, "/dev/fd", ends[1]);
	place->settings.denials_per_second = LINES;
	struct sl_denials *log = sl_denials_open(&place->settings);
	assert_non_null(log);
	for (int i = 0; i < LINES; i++) {
		struct sl_record_line denial = denial_of(sl_str("user=ann"), NOW_NS);
		sl_denials_write(log, &denial);
	}
	while (written = 0, sl_denials_figures(log, &written, &dropped), written + dropped < LINES)
		usleep(100);
	sl_denials_close(log);
	assert_true(written > 100 && dropped > 100);
	assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
	close(ends[1]);
	for (ssize_t got; (got = read(ends[0], text + len, sizeof text - len)) > 0; len += (size_t)got)
		;
	close(ends[0]);
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	assert_int_equal(lines, written);
	assert_int_equal(text[len - 1], '\n');
}

/* Closed, for reading only, or of this process itself: a store would be written to. */
static void test_what_was_not_inherited_is_refused(void **state) {
	struct place *place = *state;
	char name[32];
	int ends[2], own = open(place->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(pipe(ends), 0);
	const int refused[] = {ends[0], own, 1000000};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		place->settings.denials = name_of(name, "/dev/fd", refused[i]);
		assert_false(sl_denials_check(&place->settings));
		assert_null(sl_denials_open(&place->settings));
	}
	place->settings.denials = name_of(name, "/dev/fd", ends[1]);
	assert_true(sl_denials_check(&place->settings));
	close(ends[0]);
	close(ends[1]);
	close(own);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_line_says_who_and_why, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_observed_lines_take_none_from_denials, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_line_says_what_the_request_told, set_up, tear_down),
		cmocka_unit_test(test_keys_are_shown_as_chosen),
		cmocka_unit_test_setup_teardown(test_a_line_names_the_bound_that_denied, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_key_of_any_bytes_makes_one_clean_line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_text_has_no_digits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_second_has_its_lines_and_no_more, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_flood_of_a_million_keys_fills_no_disk, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_file_and_its_predecessor_keep_to_their_size, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_file_renamed_by_others_is_begun_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_stands_in_a_file_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_folder_that_is_not_there_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lines_that_cannot_be_written_are_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_an_inherited_file_is_never_set_aside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_full_inherited_pipe_costs_lines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_was_not_inherited_is_refused, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
