/* The clock of a store through restarts, steps of the wall clock and damage: the table at the top of
 * hosts/library/anchor.c, a row a case. Time is passed in. */
#include "hosts/library/anchor.h"

#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define S ((uint64_t)1000000000)
#define H (3600 * S)
#define TICK ((uint64_t)1 << 30)
#define Y2026 ((uint64_t)1767225600 * S)
#define Y2036 ((uint64_t)2082758400 * S)

static const uint64_t secret[2] = {0x1234, 0x5678};

enum damage { NONE, FIRST, SECOND, OFFSETS, LATESTS, ALL };

/* A store was made when wall and boot clocks showed `made`, was last read `used` later, and is opened again. */
struct scene {
	const char *name;
	sluice_ns made_wall, made_boottime;
	sluice_ns used_after;
	enum damage damage;
	bool same_boot, has_boot_id;
	sluice_ns wall, boottime; /* when opened again */
	bool kept;
	sluice_ns now, now_slack; /* now <= answer <= now + slack */
};

static const struct scene scenes[] = {
	{"opened again", Y2026, 5 * H, H, NONE, true, true, Y2026 + H, 6 * H, true, Y2026 + H, 0},
	{"the wall clock was set back a day", Y2026, 5 * H, H, NONE, true, true, Y2026 - 23 * H, 6 * H, true, Y2026 + H, 0},
	{"the wall clock was set on a day", Y2026, 5 * H, H, NONE, true, true, Y2026 + 25 * H, 6 * H, true, Y2026 + H, 0},
	{"a suspend of 3 h, which CLOCK_BOOTTIME counts", Y2026, 5 * H, H, NONE, true, true, Y2026 + 4 * H, 9 * H, true,
     Y2026 + 4 * H, 0},
	{"an hour after a reboot", Y2026, 5 * H, H, NONE, false, true, Y2026 + 2 * H, 60 * S, false, Y2026 + 2 * H, 0},
	{"reboot with a wall clock a year behind", Y2026, 5 * H, H, NONE, false, true, Y2026 - 8760 * H, 60 * S, false,
     Y2026 + H, TICK},
	{"reboot with a wall clock at 1970", Y2026, 5 * H, H, NONE, false, true, 7 * S, 3 * S, false, Y2026 + H, TICK},
	{"anchored in 2036 by mistake, rebooted in 2026", Y2036, S, H, NONE, false, true, Y2026, S, false, Y2036 + H, TICK},
	{"copied from another host, opened later", Y2026, 900 * H, H, NONE, false, true, Y2026 + 5 * H, 2 * H, false,
     Y2026 + 5 * H, 0},
	{"the first copy is damaged", Y2026, 5 * H, H, FIRST, true, true, Y2026 + 9 * H, 6 * H, true, Y2026 + H, 0},
	{"the second copy is damaged", Y2026, 5 * H, H, SECOND, true, true, Y2026 + 9 * H, 6 * H, true, Y2026 + H, 0},
	{"first copy damaged, then a reboot into the past", Y2026, 5 * H, H, FIRST, false, true, S, S, false, Y2026 + H,
     TICK},
	{"both offsets damaged, wall clock right", Y2026, 5 * H, H, OFFSETS, true, true, Y2026 + 2 * H, 7 * H, false,
     Y2026 + 2 * H, 0},
	{"both offsets damaged, wall clock behind", Y2026, 5 * H, H, OFFSETS, true, true, Y2026 - H, 6 * H, false,
     Y2026 + H, TICK},
	{"both latest words damaged, same boot", Y2026, 5 * H, H, LATESTS, true, true, Y2026, 6 * H, true, Y2026 + H, 0},
	{"both latest words damaged, another boot", Y2026, 5 * H, H, LATESTS, false, true, Y2026 + H, S, false, Y2026 + H,
     0},
	{"nothing is whole", Y2026, 5 * H, H, ALL, true, true, Y2026 + 3 * H, 6 * H, false, Y2026 + 3 * H, 0},
	{"the system does not say which boot this is", Y2026, 5 * H, H, NONE, false, false, Y2026, 6 * H, false, Y2026 + H,
     TICK},
	{"opened again within the same instant", Y2026, 5 * H, 0, NONE, true, true, Y2026, 5 * H, true, Y2026, 0},
};

/* Flips a bit in each word that is to be damaged. */
static void damage(struct sl_anchor copies[2], enum damage what) {
	for (int i = 0; i < 2; i++) {
		bool whole = what == ALL || (what == FIRST && i == 0) || (what == SECOND && i == 1);
		copies[i].offset_ns ^= whole || what == OFFSETS ? 1 << 9 : 0;
		copies[i].latest ^= whole || what == LATESTS ? (uint64_t)1 << 62 : 0;
	}
}

static void test_reopened(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
		const struct scene *scene = &scenes[i];
		struct sl_boot first = {{7, 8}, scene->made_wall, scene->made_boottime}, second = first;
		struct sl_anchor copies[2] = {{.check = 0}, {.check = 0}}, chosen;
		sluice_ns used = scene->made_wall + scene->used_after, now;
		assert_false(sl_anchor_choose(copies, secret, &first, &chosen));
		assert_int_equal(chosen.offset_ns + scene->made_boottime, scene->made_wall);
		copies[0] = copies[1] = chosen;
		copies[0].latest = copies[1].latest = sl_latest_write(used, secret);
		damage(copies, scene->damage);
		second.id[1] = scene->same_boot ? 8 : 9;
		if (!scene->has_boot_id)
			second.id[0] = second.id[1] = 0;
		second.wall_ns = scene->wall;
		second.boottime_ns = scene->boottime;
		if (sl_anchor_choose(copies, secret, &second, &chosen) != scene->kept)
			fail_msg("%s: kept is not %d", scene->name, scene->kept);
		now = chosen.offset_ns + scene->boottime;
		if (now < scene->now || now - scene->now > scene->now_slack)
			fail_msg("%s: %lld ns from what was expected", scene->name, (long long)(now - scene->now));
		if (sl_latest_read(chosen.latest, secret) <= now)
			fail_msg("%s: the clock has reached `latest`", scene->name);
	}
}

/* A boot without an id is never taken for the same one, though its zeros are equal. */
static void test_no_boot_id_is_not_kept(void **state) {
	struct sl_boot boot = {{0, 0}, Y2026, H};
	struct sl_anchor copies[2] = {{.check = 0}, {.check = 0}}, chosen;
	(void)state;
	assert_false(sl_anchor_choose(copies, secret, &boot, &chosen));
	copies[0] = copies[1] = chosen;
	assert_false(sl_anchor_choose(copies, secret, &boot, &chosen));
}

/* Ten reboots with a wall clock that always wakes at 1970: the clock never runs back. */
static void test_never_runs_back(void **state) {
	struct sl_anchor copies[2] = {{.check = 0}, {.check = 0}}, chosen;
	sluice_ns last = 0;
	(void)state;
	for (uint64_t boot = 1; boot <= 10; boot++) {
		struct sl_boot at = {{boot, boot}, boot == 1 ? Y2026 : S, S};
		assert_false(sl_anchor_choose(copies, secret, &at, &chosen));
		assert_true(chosen.offset_ns + S > last);
		last = chosen.offset_ns + S + 10 * S;
		chosen.latest = sl_latest_write(last, secret);
		copies[boot % 2] = chosen; /* only one of them was written before the power went */
	}
	assert_true(last >= Y2026 + 100 * S && last < Y2026 + 100 * S + 20 * TICK);
}

/* Every bit of the word is covered by its check, and no reading of it lies at or before the instant it was made of. */
static void test_latest_word(void **state) {
	const sluice_ns instants[] = {0, 1, TICK - 1, TICK, TICK + 1, Y2026, UINT64_MAX - TICK};
	(void)state;
	for (size_t i = 0; i < sizeof instants / sizeof instants[0]; i++) {
		uint64_t word = sl_latest_write(instants[i], secret);
		sluice_ns latest = sl_latest_read(word, secret);
		assert_true(latest >= instants[i] && latest - instants[i] <= TICK);
		assert_true(latest > instants[i] || instants[i] >> 30 == UINT64_MAX >> 30);
		for (int bit = 0; bit < 64; bit++)
			assert_int_equal(sl_latest_read(word ^ (uint64_t)1 << bit, secret), 0);
	}
}

/* Every bit of what the offset's check covers. */
static void test_damaged_offset_is_not_believed(void **state) {
	struct sl_boot boot = {{7, 8}, Y2026, H};
	struct sl_anchor copies[2] = {{.check = 0}, {.check = 0}}, good, chosen;
	(void)state;
	assert_false(sl_anchor_choose(copies, secret, &boot, &good));
	for (size_t bit = 0; bit < 8 * offsetof(struct sl_anchor, latest); bit++) {
		copies[0] = good;
		memset(&copies[1], 0, sizeof copies[1]);
		((uint8_t *)&copies[0])[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(sl_anchor_choose(copies, secret, &boot, &chosen));
		copies[1] = good;
		assert_true(sl_anchor_choose(copies, secret, &boot, &chosen));
		assert_int_equal(chosen.offset_ns, good.offset_ns);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reopened),
		cmocka_unit_test(test_no_boot_id_is_not_kept),
		cmocka_unit_test(test_never_runs_back),
		cmocka_unit_test(test_latest_word),
		cmocka_unit_test(test_damaged_offset_is_not_believed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
