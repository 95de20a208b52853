/* What the log says of a store that fills up, look by look. */
#include "hosts/server/watch/store_room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS_TEXT "in use; give it more memory, or blocks a larger share, before counters in use make room for others"
#define SLOTS_TEXT "in use; give it more memory, before counters in use make room for others"

struct look {
	uint64_t keys, expired, blocks, evicted; /* of 1,000 slots, 1,000 bytes of blocks */
	const char *says[SL_STORE_ROOM_LINES];
	bool warns;
};

static void test_looks(void **state) {
	static const struct look looks[] = {
		{0, 0, 0, 70, {NULL}, false}, /* what was evicted before is no news */
		{850, 0, 850, 70, {NULL}, false},
		{861, 0, 850, 70, {"store: 87% of its slots are " SLOTS_TEXT}, true},
		{900, 0, 861, 70, {"store: 87% of its blocks are " BLOCKS_TEXT}, true},
		{1000, 0, 1000, 70, {NULL}, false}, /* said once */
		{1000,
	     0,
	     1000,
	     71,
	     {"store: full: 1 counters in use made room for others in the last minute; give it more memory"},
	     true},
		{1000,
	     0,
	     1000,
	     1071,
	     {"store: full: 1000 counters in use made room for others in the last minute; give it more memory"},
	     true},
		{1000, 240, 760, 1071, {NULL}, false}, /* neither low nor back */
		{1000,
	     250,
	     750,
	     1071,
	     {"store: 25% of its slots are free again", "store: 25% of its blocks are free again"},
	     false},
		{1000, 149, 0, 1071, {"store: 86% of its slots are " SLOTS_TEXT}, true},
	};
	struct sl_store_room room = {0};
	(void)state;
	for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
		const struct look *look = &looks[i];
		const struct sl_store_figures figures = {.slots = 1000,
		                                         .keys = look->keys,
		                                         .expired = look->expired,
		                                         .counted = 1,
		                                         .block_bytes = look->blocks,
		                                         .block_bytes_free = 1000 - look->blocks,
		                                         .evicted = look->evicted};
		char lines[SL_STORE_ROOM_LINES][SL_STORE_ROOM_LINE_MAX];
		bool warns[SL_STORE_ROOM_LINES];
		uint32_t count = sl_store_room_look(&room, &figures, lines, warns), expected = 0;
		while (expected < SL_STORE_ROOM_LINES && look->says[expected] != NULL)
			expected++;
		print_message("look %zu\n", i);
		assert_int_equal(count, expected);
		for (uint32_t line = 0; line < count; line++) {
			assert_string_equal(lines[line], look->says[line]);
			assert_int_equal(warns[line], look->warns);
		}
	}
}

/* Before a first count nothing is known of slots; a store without blocks has none to lose; figures fit their line. */
static void test_edges(void **state) {
	struct sl_store_room room = {0};
	struct sl_store_figures figures = {.slots = 10, .keys = 10, .block_bytes = 0, .block_bytes_free = 0};
	char lines[SL_STORE_ROOM_LINES][SL_STORE_ROOM_LINE_MAX];
	bool warns[SL_STORE_ROOM_LINES];
	(void)state;
	assert_int_equal(sl_store_room_look(&room, &figures, lines, warns), 0);
	figures = (struct sl_store_figures){
		.slots = UINT64_MAX, .keys = UINT64_MAX, .counted = 1, .block_bytes = UINT64_MAX / 2, .evicted = UINT64_MAX};
	assert_int_equal(sl_store_room_look(&room, &figures, lines, warns), 3);
	for (int i = 0; i < 3; i++) {
		assert_non_null(strstr(lines[i], "others"));
		assert_true(strlen(lines[i]) < SL_STORE_ROOM_LINE_MAX - 1);
	}
}

/* Quotas of keys' own, of 200: one line when they become many, one when there is room again. */
static void test_overrides(void **state) {
	static const struct {
		uint64_t set;
		const char *says;
		bool warns;
	} looks[] = {{170, NULL, false},
	             {171,
	              "store: 86% of its overrides are in use; at the bound more keys get none: delete some, raise "
	              "store.overrides, or give it more memory",
	              true},
	             {200, NULL, false},
	             {150, "store: 25% of its overrides are free again", false}};
	struct sl_store_room room = {0};
	(void)state;
	for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
		const struct sl_store_figures figures = {.overrides = looks[i].set, .overrides_most = 200};
		char lines[SL_STORE_ROOM_LINES][SL_STORE_ROOM_LINE_MAX];
		bool warns[SL_STORE_ROOM_LINES];
		assert_int_equal(sl_store_room_look(&room, &figures, lines, warns), looks[i].says != NULL);
		if (looks[i].says == NULL)
			continue;
		assert_string_equal(lines[0], looks[i].says);
		assert_int_equal(warns[0], looks[i].warns);
	}
}

/* What the policy says counts where the store can have as many. */
static void test_bound(void **state) {
	(void)state;
	assert_int_equal(sl_store_overrides_bound(0, 200), 200);
	assert_int_equal(sl_store_overrides_bound(199, 200), 199);
	assert_int_equal(sl_store_overrides_bound(201, 200), 200);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_looks), cmocka_unit_test(test_edges),
	                                   cmocka_unit_test(test_overrides), cmocka_unit_test(test_bound)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
