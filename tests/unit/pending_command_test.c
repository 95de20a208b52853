/* Commands that are due, set and cleared in any order: the first is always one that no other comes before. */
#include "hosts/server/cluster/pending_command.h"

#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { COMMANDS = 40, STEPS = 200000 };

static struct sl_pending_command *earliest(struct sl_pending_command *const list[COMMANDS]) {
	struct sl_pending_command *first = NULL;
	for (int i = 0; i < COMMANDS; i++)
		if (list[i]->place != 0 && (first == NULL || list[i]->due < first->due))
			first = list[i];
	return first;
}

static void test_the_first_is_due_before_all_others(void **state) {
	struct sl_pending_commands commands = {.heap = NULL};
	struct sl_pending_command *list[COMMANDS];
	struct dice dice = dice_of(dice_seed(), 0);
	(void)state;
	for (int i = 0; i < COMMANDS; i++) {
		list[i] = sl_pending_commands_take(&commands, COMMANDS);
		assert_non_null(list[i]);
	}
	assert_null(sl_pending_commands_take(&commands, COMMANDS));
	for (uint64_t step = dice_ops(STEPS); step-- > 0;) {
		struct sl_pending_command *one = list[dice_below(&dice, COMMANDS)], *first, *least;
		if (dice_one_in(&dice, 3))
			sl_pending_commands_clear_due(&commands, one);
		else
			assert_true(sl_pending_commands_set_due(&commands, one, dice_below(&dice, 100)));
		first = sl_pending_commands_first(&commands);
		least = earliest(list);
		if ((first == NULL) != (least == NULL) || (first != NULL && first->due != least->due))
			fail_msg("SLUICE_SEED=%" PRIu64 ": %" PRIu64 " steps before the end another is due first", dice_seed(),
			         step);
	}
	for (int i = 0; i < COMMANDS; i++) {
		sl_pending_commands_clear_due(&commands, list[i]);
		sl_pending_commands_give(&commands, list[i]);
	}
	assert_null(sl_pending_commands_first(&commands));
	sl_pending_commands_free(&commands);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_first_is_due_before_all_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
