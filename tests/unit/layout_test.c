/* docs/format.md against layout.h: every row of its tables of fields, and nothing left out that stands in the
 * structs. */
#include "store/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct field {
	const char *name;
	size_t at, bytes;
};

#define FIELD(type, name) \
	{ #name, offsetof(struct type, name), sizeof(((struct type *)0)->name) }

static const struct field header_fields[] = {
	FIELD(sl_header, magic),           FIELD(sl_header, version),       FIELD(sl_header, header_bytes),
	FIELD(sl_header, arena_bytes),     FIELD(sl_header, page_count),    FIELD(sl_header, cell_count),
	FIELD(sl_header, unit_count),      FIELD(sl_header, sketch_offset), FIELD(sl_header, map_offset),
	FIELD(sl_header, blocks_offset),   FIELD(sl_header, hash_top_bits), FIELD(sl_header, blocks_percent),
	FIELD(sl_header, secret),          FIELD(sl_header, formatted_ns),  FIELD(sl_header, check),
	FIELD(sl_header, anchors),         FIELD(sl_header, latest_charge), FIELD(sl_header, repairs),
	FIELD(sl_header, overrides),       FIELD(sl_header, override_units),
	FIELD(sl_header, dropped),         FIELD(sl_header, evicted),       FIELD(sl_header, sketch_starts),
	FIELD(sl_header, sketch_until_ns), FIELD(sl_header, stolen_locks),  FIELD(sl_header, sweep_unit),
	FIELD(sl_header, ledgers_until_ns),
};

static const struct field bucket_fields[] = {
	FIELD(sl_bucket, lock),
	FIELD(sl_bucket, spill),
	FIELD(sl_bucket, slots),
	FIELD(sl_bucket, states),
};

static char *document;

static int read_document(void **state) {
	FILE *file = fopen("docs/format.md", "r");
	size_t length;
	(void)state;
	document = calloc(1, 65536);
	if (file == NULL || document == NULL)
		return -1;
	length = fread(document, 1, 65535, file);
	fclose(file);
	return length != 0 ? 0 : -1;
}

static int free_document(void **state) {
	(void)state;
	free(document);
	return 0;
}

static void expect_rows(const struct field *fields, size_t count) {
	for (size_t i = 0; i < count; i++) {
		char row[128];
		snprintf(row, sizeof row, "\n| `%s` | %zu | %zu |", fields[i].name, fields[i].at, fields[i].bytes);
		if (strstr(document, row) == NULL)
			fail_msg("docs/format.md has no row that begins with %s", row + 1);
	}
}

static void every_field_of_the_header_is_documented(void **state) {
	size_t covered = 0;
	(void)state;
	expect_rows(header_fields, sizeof header_fields / sizeof *header_fields);
	for (size_t i = 0; i < sizeof header_fields / sizeof *header_fields; i++)
		covered += header_fields[i].bytes;
	assert_int_equal(covered + sizeof(((struct sl_header *)0)->apart), sizeof(struct sl_header));
}

static void every_field_of_a_bucket_is_documented(void **state) {
	(void)state;
	expect_rows(bucket_fields, sizeof bucket_fields / sizeof *bucket_fields);
}

static void parts_and_sizes_are_documented(void **state) {
	char row[128];
	(void)state;
	snprintf(row, sizeof row, "| header | 0 | %d |", SL_PROCESSES_OFFSET);
	assert_non_null(strstr(document, row));
	snprintf(row, sizeof row, "| processes | %d | %zu |", SL_PROCESSES_OFFSET, sizeof(struct sl_processes));
	assert_non_null(strstr(document, row));
	snprintf(row, sizeof row, "| blocks' control | %d | %zu |", SL_BLOCKS_CONTROL_OFFSET, sizeof(struct sl_blocks));
	assert_non_null(strstr(document, row));
	snprintf(row, sizeof row, "| pages | %d | `page_count` x %zu |", SL_PAGES_OFFSET, sizeof(struct sl_page));
	assert_non_null(strstr(document, row));
	snprintf(row, sizeof row, "| sketch | `sketch_offset` | `cell_count` x %zu |", sizeof(struct sl_sketch_cell));
	assert_non_null(strstr(document, row));
	snprintf(row, sizeof row, "| units | `blocks_offset` | `unit_count` x %d |", SL_UNIT_BYTES);
	assert_non_null(strstr(document, row));
	snprintf(row, sizeof row, "| `version` | 8 | 4 | %d |", SL_ARENA_VERSION);
	assert_non_null(strstr(document, row));
}

static void bits_of_a_tag_are_documented(void **state) {
	const unsigned begins[] = {
		64, SL_TAG_PRINT_SHIFT, SL_TAG_BLOCK_SHIFT, SL_TAG_HOME_SHIFT, SL_TAG_START_SHIFT, SL_TAG_USE_SHIFT, 0};
	(void)state;
	for (size_t i = 1; i < sizeof begins / sizeof *begins; i++) {
		char row[64];
		if (begins[i - 1] - 1 == begins[i])
			snprintf(row, sizeof row, "\n| %u |", begins[i]);
		else
			snprintf(row, sizeof row, "\n| %u..%u |", begins[i - 1] - 1, begins[i]);
		if (strstr(document, row) == NULL)
			fail_msg("docs/format.md has no row of a tag that begins with %s", row + 1);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_of_the_header_is_documented),
		cmocka_unit_test(every_field_of_a_bucket_is_documented),
		cmocka_unit_test(parts_and_sizes_are_documented),
		cmocka_unit_test(bits_of_a_tag_are_documented),
	};
	return cmocka_run_group_tests_name("the format document", tests, read_document, free_document);
}
