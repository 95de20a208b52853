/* A caller that dies at each of the marks (base/point.h) on the way of every kind of call: at the first, at the second,
 * to the last. After each death a survivor must find every counter as it was before the call or after it, nothing lost,
 * and make the same call. Then the same with a second caller that dies at each mark on its way through the recovery of
 * the first: of those, in the short version, a random few, after a random few of the first deaths.
 *
 * Built with -DSL_POINTS only: `make points`. */
#include "tests/crash/scenes.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef SL_POINTS
#error "points are marked in a build with -DSL_POINTS only"
#endif

enum { DIED = 42, ARRIVED = 43, ALARM_S = 900, ANSWER_MS_MAX = 1000 };

void sl_point(void);

static uint32_t point_count;
static uint32_t point_fatal; /* 0: none */

void sl_point(void) {
	point_count++;
	if (point_count == point_fatal)
		_exit(DIED);
}

/* Points that `work` passes, in a child; what it does stays. */
static uint32_t points_of(struct scene *scene, void (*work)(struct scene *)) {
	uint32_t *count = arena_map(), passed;
	pid_t child = fork();
	int status;
	if (child == 0) {
		point_count = 0;
		work(scene);
		*count = point_count;
		_exit(ARRIVED);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ARRIVED);
	passed = *count;
	munmap(count, ARENA_BYTES);
	return passed;
}

/* A child does `work` and dies at its n-th point. */
static void die_at(struct scene *scene, void (*work)(struct scene *), uint32_t n) {
	pid_t child = fork();
	int status;
	if (child == 0) {
		point_count = 0;
		point_fatal = n;
		work(scene);
		_exit(ARRIVED);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == DIED);
}

static void the_call(struct scene *scene) {
	scene_call(scene, ARENA_VICTIM);
}

static void the_recovery(struct scene *scene) {
	scene_touch(scene, scene->memory, ARENA_SECOND);
}

static void every_point_of_every_call(void **state) {
	struct scene scene = {0};
	uint32_t covered = 0, without = 0;
	(void)state;
	alarm(ALARM_S);
	for (uint32_t which = 0; which < scene_count(); which++) {
		scene_set(&scene, which, dice_seed());
		uint32_t points = points_of(&scene, the_call);
		without += points == 0;
		scene_expect(&scene, scene.memory, "nobody died", 0, 0);
		for (uint32_t n = 1; n <= points; n++) {
			scene_rewind(&scene);
			die_at(&scene, the_call, n);
			scene_expect(&scene, scene.memory, "died at point", n, 0);
		}
		covered += points;
	}
	printf("seed %" PRIu64 ": %" PRIu32 " points of %" PRIu32 " calls, longest wait of a survivor %.3f ms\n",
	       dice_seed(), covered, scene_count(), (double)scene.longest_ns / 1e6);
	assert_int_equal(without, 0);
	assert_true(scene.longest_ns < ANSWER_MS_MAX * ARENA_MS);
	assert_int_equal(scene.complaints, 0);
	scene_free(&scene);
	alarm(0);
}

enum { SECOND_DEATHS = 400, FIRST_DEATHS_ONE_IN = 6 };

static void every_point_of_every_recovery(void **state) {
	struct scene scene = {0};
	struct dice dice = dice_of(dice_seed(), 3);
	/* A first death takes two processes even where no second one is drawn after it: in the short version some of them
	 * are passed over, and after each of the others more second ones are drawn. */
	uint64_t first_in = arena_seconds() == 0 ? FIRST_DEATHS_ONE_IN : 1;
	uint64_t one_in = sl_max(1, 900 / (arena_seconds() + 15) / first_in); /* all would take half an hour */
	/* of one scene: sixteen full ledgers alone have 49 million */
	uint64_t second_deaths = SECOND_DEATHS * (arena_seconds() + 1);
	uint32_t covered = 0, all = 0;
	void *dead = malloc(ARENA_BYTES);
	(void)state;
	assert_non_null(dead);
	alarm(ALARM_S);
	for (uint32_t which = 0; which < scene_count(); which++) {
		scene_set(&scene, which, dice_seed());
		uint32_t points = points_of(&scene, the_call);
		for (uint32_t n = 1; n <= points; n++) {
			if (!dice_one_in(&dice, first_in))
				continue;
			scene_rewind(&scene);
			die_at(&scene, the_call, n);
			memcpy(dead, scene.memory, ARENA_BYTES);
			uint32_t again = points_of(&scene, the_recovery);
			uint64_t rare = sl_max(one_in, (uint64_t)points * again / first_in / second_deaths);
			all += again;
			for (uint32_t m = 1; m <= again; m++) {
				if (!dice_one_in(&dice, rare))
					continue;
				memcpy(scene.memory, dead, ARENA_BYTES);
				die_at(&scene, the_recovery, m);
				scene_expect(&scene, scene.memory, "second death at point", n, m);
				covered++;
			}
		}
	}
	printf("seed %" PRIu64 ": %" PRIu32 " of %" PRIu32 " points of recoveries, longest wait of a survivor %.3f ms\n",
	       dice_seed(), covered, all, (double)scene.longest_ns / 1e6);
	assert_true(covered > 0);
	assert_int_equal(scene.complaints, 0);
	scene_free(&scene);
	free(dead);
	alarm(0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_point_of_every_call),
		cmocka_unit_test(every_point_of_every_recovery),
	};
	return cmocka_run_group_tests_name("death at every point", tests, NULL, NULL);
}
