/* A caller that is stopped (SIGSTOP) at each of the marks (base/point.h) on the way of every kind of call, and goes on
 * later. Meanwhile another process makes calls:
 *
 *   bounded     they need a lock of the stopped one: it is waited for once, and from then on they fail at once, with
 *               SLUICE_E_BUSY; all others are decided as if it were not there
 *   unchanged   none of those that fail changes a byte: when the stopped one goes on, it ends what it had begun, and
 *               the arena has the very bytes that it has where nobody was stopped
 *   clean       and they leave no lock, no claimed slot, no change of the blocks: in a copy, in which the stopped one
 *               is dead, everything is whole
 *
 * The other process has a clock and rests of its own, so nothing here waits. Of the points, in the short version, a
 * random few. Built with -DSL_POINTS only: `make points`. */
#include "store/blocks.h"
#include "store/scan.h"
#include "tests/crash/scenes.h"
#include "tests/model/dice.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
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

enum { ARRIVED = 43, ALARM_S = 900, LOOKS = 7, STRANGERS = 4, COMPLAINTS_TOLD = 20 };

void sl_point(void);

static uint32_t point_count;
static uint32_t point_of_stop; /* 0: none */

void sl_point(void) {
	point_count++;
	if (point_count == point_of_stop)
		raise(SIGSTOP);
}

/* The process that is not stopped. */
static struct sl_stalls stalls;
static uint64_t clock_ns, rests;

static sluice_ns read_clock(const struct sluice_store *store) {
	(void)store;
	return clock_ns += SL_PATIENCE_NS / 2;
}

static void rest(const struct sluice_store *store, sluice_ns ns) {
	(void)store;
	clock_ns += ns;
	rests++;
}

static bool nobody_is_dead(const struct sluice_store *store, uint32_t owner) {
	(void)store;
	(void)owner;
	return false;
}

static void be_a_neighbour(struct sluice_store *store, void *memory) {
	arena_attach(store, memory, ARENA_SURVIVOR);
	store->owner_is_dead = nobody_is_dead;
	store->clock = read_clock;
	store->rest = rest;
	store->stalls = &stalls;
	stalls = (struct sl_stalls){.looks = LOOKS};
	rests = 0;
}

struct totals {
	uint64_t points, stops, calls, failed;
	uint64_t complaints;
};

__attribute__((format(printf, 4, 5))) static void complain(struct totals *totals, const struct scene *scene, uint32_t n,
                                                           const char *format, ...) {
	va_list arguments;
	if (totals->complaints++ >= COMPLAINTS_TOLD)
		return;
	printf("%s, stopped at point %" PRIu32 ": ", scene->name, n);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

/* ---- the process that is stopped --------------------------------------------------------------------------------- */

/* Starts the scene's call in a child that stops at its n-th point (0: at none). */
static pid_t start(struct scene *scene, uint32_t n, uint32_t *passed) {
	pid_t child = fork();
	if (child == 0) {
		point_count = 0;
		point_of_stop = n;
		scene_call(scene, ARENA_VICTIM);
		*passed = point_count;
		_exit(ARRIVED);
	}
	assert_true(child > 0);
	return child;
}

static void expect_stopped(pid_t child) {
	int status;
	assert_true(waitpid(child, &status, WUNTRACED) == child);
	assert_true(WIFSTOPPED(status));
}

static void expect_arrived(pid_t child) {
	int status;
	assert_true(waitpid(child, &status, 0) == child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == ARRIVED);
}

/* ---- what the other one meets ------------------------------------------------------------------------------------ */

static bool is_locked(const struct sluice_store *store, const struct sluice_limit *limit, const char *key) {
	return arena_place(store, limit, key).home->lock == ARENA_VICTIM;
}

/* Counters that have nothing to do with the call, unless their home is that of one that has. */
static void peek_at_all(struct scene *scene, struct sluice_store *store, uint32_t n, struct totals *totals) {
	for (uint32_t i = 0; i < scene->subject_count; i++) {
		bool locked = is_locked(store, &scene->subjects[i].limit, scene->subjects[i].key);
		sluice_err err = scene_peek(scene, store, i), expected = locked ? SLUICE_E_BUSY : SLUICE_OK;
		totals->calls++;
		totals->failed += err != SLUICE_OK;
		if (err != expected)
			complain(totals, scene, n, "a peek at %s said %d, not %d", scene->subjects[i].key, err, expected);
	}
}

static bool is_target_locked(const struct scene *scene, const struct sluice_store *store) {
	bool locked = false;
	for (uint32_t i = 0; i < scene->item_count; i++) {
		char key[24] = "";
		memcpy(key, scene->items[i].key.data, scene->items[i].key.len);
		locked = locked || is_locked(store, scene->items[i].limit, key);
	}
	return locked;
}

/* In the arena in which the stopped one will go on: what fails changes nothing. */
static void meet(struct scene *scene, struct sluice_store *store, uint32_t n, struct totals *totals) {
	peek_at_all(scene, store, n, totals);
	if (is_target_locked(scene, store)) {
		sluice_err err = scene_try(scene, store);
		totals->calls++;
		totals->failed++;
		if (err != SLUICE_E_BUSY)
			complain(totals, scene, n, "the same call said %d", err);
	}
	if (rests > LOOKS)
		complain(totals, scene, n, "%" PRIu64 " rests, of %d", rests, LOOKS);
	if (sl_stalls_count(store) != (rests != 0))
		complain(totals, scene, n, "%" PRIu32 " count as stopped", sl_stalls_count(store));
}

/* What whoever fails may not leave behind. */
static void expect_clean(const struct scene *scene, const struct sluice_store *store, uint32_t n,
                         struct totals *totals) {
	if (store->blocks->lock == ARENA_SURVIVOR)
		complain(totals, scene, n, "the blocks are left locked");
	for (uint64_t i = 0; i < store->page_count * SL_PAGE_BUCKETS; i++) {
		const struct sl_page *page = &store->pages[i / SL_PAGE_BUCKETS];
		const struct sl_bucket *bucket = &page->buckets[i % SL_PAGE_BUCKETS];
		if (bucket->lock == ARENA_SURVIVOR)
			complain(totals, scene, n, "a home is left locked");
		for (int k = 0; k < SL_BUCKET_SLOTS; k++) {
			uint64_t tag = bucket->slots[k].tag;
			if (tag != 0 && (tag & SL_LIFE_FRESH) == SL_LIFE_FRESH && page->buckets[sl_tag_home(tag)].lock == 0)
				complain(totals, scene, n, "a claimed slot is left");
		}
	}
}

/* In a copy: calls with and without a counter of the stopped one, that need blocks or not, and a walk. */
static void charge_others(struct scene *scene, struct sluice_store *store, uint32_t n, struct totals *totals) {
	const struct sluice_limit limits[] = {arena_limit("sliding-log 60/1m"), arena_limit("token-bucket 60/1m")};
	bool blocks = store->blocks->lock == ARENA_VICTIM;
	for (uint32_t i = 0; i < STRANGERS; i++) {
		const struct sluice_limit *limit = &limits[i % 2];
		char key[24];
		snprintf(key, sizeof key, "stranger:%" PRIu32, i);
		bool locked = is_locked(store, limit, key);
		sluice_err err = arena_call(store, SLUICE_CHARGE, limit, key, 1, scene->now, NULL);
		struct sluice_item both[] = {{.limit = limit, .key = sl_str(key)}, scene->items[0]};
		struct sluice_call two = {
			.items = both, .item_count = 2, .cost = 1, .operation = SLUICE_PEEK, .now = scene->now};
		two.err = sluice_decide(store, &two);
		sluice_err forgot = arena_call(store, SLUICE_RESET, limit, key, 0, scene->now, NULL);
		totals->calls += 3;
		totals->failed += (err != SLUICE_OK) + (two.err != SLUICE_OK) + (forgot != SLUICE_OK);
		if (err != SLUICE_OK && err != SLUICE_E_BUSY)
			complain(totals, scene, n, "a stranger's charge said %d", err);
		if (!locked && !blocks && (err != SLUICE_OK || forgot != SLUICE_OK))
			complain(totals, scene, n, "a stranger's charge said %d, its reset %d", err, forgot);
		if (two.err != SLUICE_OK && two.err != SLUICE_E_BUSY)
			complain(totals, scene, n, "a stranger's call beside a counter of the call said %d", two.err);
	}
	struct sl_page_figures figures = {0};
	for (uint64_t page = 0; page < store->page_count; page++)
		(void)sl_store_scan(store, page, scene->now, &figures, NULL, NULL);
	if (rests > LOOKS)
		complain(totals, scene, n, "%" PRIu64 " rests in the copy, of %d", rests, LOOKS);
	expect_clean(scene, store, n, totals);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* One stop. `copy` is scratch, `undisturbed` what the arena is to be in the end. */
static void stop_at(struct scene *scene, uint32_t n, void *copy, const void *undisturbed, uint32_t *passed,
                    struct totals *totals) {
	struct sluice_store store, beside;
	scene_rewind(scene);
	pid_t child = start(scene, n, passed);
	expect_stopped(child);
	memcpy(copy, scene->memory, ARENA_BYTES);
	be_a_neighbour(&store, scene->memory);
	meet(scene, &store, n, totals);
	assert_int_equal(kill(child, SIGCONT), 0);
	expect_arrived(child);
	if (memcmp(scene->memory, undisturbed, ARENA_BYTES) != 0)
		complain(totals, scene, n, "the arena is not what it is where nobody is stopped");
	rests = 0;
	if (scene_peek(scene, &store, 0) != SLUICE_OK || rests != 0 || sl_stalls_count(&store) != 0)
		complain(totals, scene, n, "its end is not noticed");

	be_a_neighbour(&beside, copy);
	charge_others(scene, &beside, n, totals);
	scene_expect(scene, copy, "others failed beside one stopped at point", n, 0);
	totals->stops++;
}

static void every_point_of_every_call(void **state) {
	struct scene scene = {0};
	struct dice dice = dice_of(dice_seed(), 11);
	struct totals totals = {0};
	uint64_t one_in = sl_max(1, 20 / (arena_seconds() + 1));
	uint32_t *passed = arena_map();
	void *copy = arena_map(), *undisturbed = malloc(ARENA_BYTES);
	(void)state;
	assert_non_null(undisturbed);
	alarm(ALARM_S);
	for (uint32_t which = 0; which < scene_count(); which++) {
		scene_set(&scene, which, dice_seed());
		expect_arrived(start(&scene, 0, passed));
		memcpy(undisturbed, scene.memory, ARENA_BYTES);
		uint32_t points = *passed;
		for (uint32_t n = 1; n <= points; n++)
			if (dice_one_in(&dice, one_in))
				stop_at(&scene, n, copy, undisturbed, passed, &totals);
		totals.points += points;
	}
	printf("seed %" PRIu64 ": stopped at %" PRIu64 " of %" PRIu64 " points of %" PRIu32 " calls; %" PRIu64
	       " calls of others meanwhile, of which %" PRIu64 " needed a lock of the stopped one\n",
	       dice_seed(), totals.stops, totals.points, scene_count(), totals.calls, totals.failed);
	assert_true(totals.stops > 0 && totals.failed > 0);
	assert_int_equal(totals.complaints, 0);
	assert_int_equal(scene.complaints, 0);
	scene_free(&scene);
	munmap(copy, ARENA_BYTES);
	munmap(passed, ARENA_BYTES);
	free(undisturbed);
	alarm(0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_point_of_every_call),
	};
	return cmocka_run_group_tests_name("a stop at every point", tests, NULL, NULL);
}
