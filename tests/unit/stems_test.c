/* What a value begins with, out of a set of strings: against a search that tries each of them. Behind each set stand
 * strings that are none of it, and that would be found if they were. */
#include "policy/stems.h"

#include "tests/model/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 40, BYTES = 12, BEHIND = 2 };

struct set {
	char texts[MOST + BEHIND][BYTES];
	struct sl_stem list[MOST + BEHIND];
	struct sl_stems stems;
};

static struct sl_stem stem_of(const char *text) {
	return (struct sl_stem){
		.data = text, .bytes = (uint32_t)strlen(text), .bits = 8 * (uint32_t)strlen(text), .shorter = SL_STEM_NONE};
}

/* Of few letters after what all begin with, so that many begin with others. */
static void draw(struct dice *dice, uint64_t same, char text[BYTES]) {
	const uint64_t bytes = dice_below(dice, BYTES - same);
	memset(text, 'a', same);
	for (uint64_t i = 0; i < bytes; i++)
		text[same + i] = (char)('a' + dice_below(dice, 3));
	text[same + bytes] = '\0';
}

static void fill(struct set *set, struct dice *dice, uint32_t count, uint64_t same) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		draw(dice, same, set->texts[i]);
		set->list[i] = stem_of(set->texts[i]);
	}
	qsort(set->list, count, sizeof *set->list, sl_stem_compare);
	for (uint32_t i = 0; i < count; i++)
		if (i == 0 || sl_stem_compare(&set->list[kept - 1], &set->list[i]) != 0)
			set->list[kept++] = set->list[i];
	sl_stems_join(set->list, kept);
	for (uint32_t i = 0; i < BEHIND; i++) { /* as the first, and longer */
		snprintf(set->texts[MOST + i], BYTES, "%s", (const char *)set->list[0].data);
		memset(set->texts[MOST + i] + set->list[0].bytes, 'a', BYTES - 1 - set->list[0].bytes);
		set->texts[MOST + i][BYTES - 1] = '\0';
		set->list[kept + i] = stem_of(set->texts[MOST + i]);
	}
	set->stems = (struct sl_stems){set->list, kept};
}

static uint32_t find_slowly(const struct sl_stems *stems, const char *value) {
	uint32_t found = SL_STEM_NONE;
	for (uint32_t i = 0; i < stems->count; i++)
		if (strncmp(value, stems->list[i].data, stems->list[i].bytes) == 0 &&
		    (found == SL_STEM_NONE || stems->list[i].bytes > stems->list[found].bytes))
			found = i;
	return found;
}

static void test_the_longest_is_found(void **state) {
	static struct set set;
	struct dice dice = dice_of(dice_seed(), 0);
	(void)state;
	for (uint32_t round = 0; round < 3000; round++) {
		const uint64_t same = dice_below(&dice, 6);
		fill(&set, &dice, 1 + (uint32_t)dice_below(&dice, MOST), same);
		for (int k = 0; k < 20; k++) {
			char value[BYTES];
			draw(&dice, k % 4 == 0 ? dice_below(&dice, 6) : same, value);
			const struct sl_stem stem = stem_of(value);
			const uint32_t found = sl_stems_find(&set.stems, &stem), want = find_slowly(&set.stems, value);
			if (found != want)
				fail_msg("SLUICE_SEED=%llu, set %u, %s: found %d, should be %d", (unsigned long long)dice_seed(), round,
				         value, (int)found, (int)want);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_longest_is_found)};
	return cmocka_run_group_tests_name("stems", tests, NULL, NULL);
}
