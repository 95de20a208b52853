/* Owners of locks that are stopped, as the process beside them meets it: one that is alive is never robbed, is waited
 * for once, by looks and not by time, and is known again when it has moved. Stops at every point of every call are
 * tests/crash/stops_test.c's. */
#include "algo/step.h"
#include "hosts/library/home.h"
#include "store/blocks.h"
#include "store/scan.h"
#include "tests/crash/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
	OTHER = 3 << SL_OWNER_ROW_SHIFT | 7, /* who is stopped */
	HEIR = 3 << SL_OWNER_ROW_SHIFT | 8,  /* who has its row later */
	DEAD = 4 << SL_OWNER_ROW_SHIFT | 1,
	LOOKS = 50,
};

struct world {
	void *memory;
	struct sluice_store store;
	struct sl_stalls stalls;
	struct sluice_limit plain, log;
	sluice_ns now;
};

static uint64_t clock_ns, rests, questions;
static uint64_t rest_takes_ns;
static uint32_t dies = 0; /* another that is dead */
static uint32_t *moves; /* a lock that is let go of at the rest with this number */
static uint64_t moves_at;
static uint32_t *given_back; /* a lock whose owner lets go of it when somebody asks after him */
static uint32_t *sits_on; /* what its owner takes then */

static sluice_ns read_clock(const struct sluice_store *store) {
	(void)store;
	return clock_ns += SL_PATIENCE_NS / 4;
}

static void rest(const struct sluice_store *store, sluice_ns ns) {
	(void)store;
	clock_ns += ns + rest_takes_ns;
	if (++rests != moves_at)
		return;
	sl_unlock(moves);
	if (sits_on != NULL) { /* and another is taken, at which a thread of ours has met it */
		*sits_on = OTHER;
		store->stalls->rows[OTHER >> SL_OWNER_ROW_SHIFT] =
			(uint64_t)((char *)sits_on - (char *)store->header) / 4 << SL_OWNER_ROW_SHIFT | OTHER % (1 << 24);
	}
}

static bool is_the_dead(const struct sluice_store *store, uint32_t owner) {
	(void)store;
	questions++;
	if (given_back != NULL)
		sl_unlock(given_back);
	given_back = NULL;
	return owner == DEAD || (dies != 0 && owner == dies);
}

static int open_world(void **state) {
	struct world *w = calloc(1, sizeof *w);
	w->memory = arena_map();
	arena_format(w->memory, 1);
	arena_attach(&w->store, w->memory, ARENA_SURVIVOR);
	w->store.owner_is_dead = is_the_dead;
	w->store.clock = read_clock;
	w->store.rest = rest;
	w->store.stalls = &w->stalls;
	w->stalls.looks = LOOKS;
	w->plain = arena_limit("sliding-window 9/1m");
	w->log = arena_limit("sliding-log 9/1m");
	sits_on = given_back = NULL;
	w->now = ARENA_START_NS;
	rests = questions = rest_takes_ns = moves_at = dies = 0;
	*state = w;
	return 0;
}

static int close_world(void **state) {
	free(*state);
	return 0;
}

static sluice_err charge(struct world *w, const struct sluice_limit *limit, const char *key) {
	return arena_call(&w->store, SLUICE_CHARGE, limit, key, 1, w->now, NULL);
}

static uint32_t *lock_of(struct world *w, const char *key) {
	return &arena_place(&w->store, &w->plain, key).home->lock;
}

/* Two keys of different homes. */
static const char *key_elsewhere(struct world *w) {
	static char key[16];
	for (int i = 0;; i++) {
		snprintf(key, sizeof key, "k%d", i);
		if (lock_of(w, key) != lock_of(w, "a") && arena_place(&w->store, &w->log, key).home != NULL)
			return key;
	}
}

static void it_is_waited_for_once(void **state) {
	struct world *w = *state;
	const char *other = key_elsewhere(w);
	*lock_of(w, "a") = OTHER;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	assert_int_equal(rests, LOOKS);
	assert_int_equal(sl_stalls_count(&w->store), 1);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
		assert_int_equal(charge(w, &w->plain, other), SLUICE_OK);
	}
	assert_int_equal(rests, LOOKS);
	assert_int_equal(w->stalls.given_up, 101);
	/* another of its locks: it is the same process */
	*lock_of(w, other) = OTHER;
	assert_int_equal(charge(w, &w->plain, other), SLUICE_E_BUSY);
	assert_int_equal(rests, LOOKS);
	/* it goes on */
	sl_unlock(lock_of(w, "a"));
	sl_unlock(lock_of(w, other));
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(charge(w, &w->plain, other), SLUICE_OK);
	assert_int_equal(sl_stalls_count(&w->store), 0);
	assert_null(sl_store_verify(&w->store));
}

static void one_that_moves_in_time_costs_nobody_a_call(void **state) {
	struct world *w = *state;
	*lock_of(w, "a") = OTHER;
	moves = lock_of(w, "a");
	moves_at = LOOKS - 1;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(rests, LOOKS - 1);
	assert_int_equal(w->stalls.given_up, 0);
	assert_int_equal(sl_stalls_count(&w->store), 0);
}

/* A host that was suspended, a waiter that was stopped itself. */
static void time_that_passes_is_no_look(void **state) {
	struct world *w = *state;
	rest_takes_ns = 3600 * ARENA_S;
	*lock_of(w, "a") = OTHER;
	moves = lock_of(w, "a");
	moves_at = LOOKS - 1;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(rests, LOOKS - 1);
}

/* One that has let go of the lock and sits on another has moved: at any look, and at the last one too. */
static void one_that_sits_elsewhere_has_moved(void **state) {
	struct world *w = *state;
	for (moves_at = 1; moves_at <= LOOKS; moves_at += LOOKS - 1) {
		moves = lock_of(w, "a");
		*moves = OTHER;
		sits_on = lock_of(w, key_elsewhere(w));
		rests = 0;
		assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
		assert_int_equal(rests, moves_at);
		assert_int_equal(sl_stalls_count(&w->store), 0);
		*sits_on = 0;
	}
	assert_int_equal(w->stalls.given_up, 0);
}

/* Its row is given to another process, which is waited for anew. */
static void an_heir_is_another(void **state) {
	struct world *w = *state;
	*lock_of(w, "a") = OTHER;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	*lock_of(w, "a") = HEIR;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	assert_int_equal(rests, 2 * LOOKS);
}

/* It dies while it counts as stopped. */
static void one_that_dies_is_recovered(void **state) {
	struct world *w = *state;
	*lock_of(w, "a") = DEAD;
	w->stalls.rows[DEAD >> SL_OWNER_ROW_SHIFT] = 0;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(rests, 0);
	assert_int_equal(w->store.header->stolen_locks, 1);
	assert_null(sl_store_verify(&w->store));
}

/* One that lets go of its lock while it is asked after has died of nothing. */
static void one_that_lets_go_is_not_recovered(void **state) {
	struct world *w = *state;
	*(given_back = lock_of(w, "a")) = OTHER;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(questions, 1);
	assert_int_equal(rests, 0);
	assert_int_equal(w->store.header->stolen_locks, 0);
}

static void one_that_dies_while_it_is_waited_for_is_recovered(void **state) {
	struct world *w = *state;
	*lock_of(w, "a") = OTHER;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	dies = OTHER;
	assert_int_equal(sl_stall_look(&w->store, (sluice_err)(SL_E_HELD_UP - (OTHER >> SL_OWNER_ROW_SHIFT))),
	                 SL_STALL_OVER);
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(rests, LOOKS);
	assert_int_equal(w->store.header->stolen_locks, 1);
}

/* Whom nobody has waited for counts as nothing, whatever is asked of him; and a store that waits without a bound, or
 * that can ask after nobody, holds nobody up. */
static void who_has_not_been_waited_for_is_not_stopped(void **state) {
	struct world *w = *state;
	sluice_err held_up = (sluice_err)(SL_E_HELD_UP - (OTHER >> SL_OWNER_ROW_SHIFT)), err = SLUICE_OK;
	uint32_t *lock = lock_of(w, "a");
	sl_stall_give_up(&w->store, held_up);
	assert_int_equal(sl_stalls_count(&w->store), 0);
	assert_int_equal(sl_stall_look(&w->store, held_up), SL_STALL_OVER);
	assert_false(sl_lock_is_held_up(&w->store, lock, &err));
	*lock = OTHER;
	assert_false(sl_lock_is_held_up(&w->store, lock, &err));
	assert_int_equal(err, SLUICE_OK);
	w->store.owner_is_dead = NULL;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	assert_true(sl_lock_is_held_up(&w->store, lock, &err));
	assert_int_equal(err, held_up);
	w->store.stalls = NULL;
	assert_false(sl_lock_is_held_up(&w->store, lock, &err));
	assert_int_equal(sl_stalls_count(&w->store), 0);
}

/* Of two homes one is had: it is given back, and nothing is changed, before anybody is waited for. */
static void what_is_held_is_given_back(void **state) {
	struct world *w = *state;
	const char *other = key_elsewhere(w);
	bool a_is_first = lock_of(w, "a") < lock_of(w, other);
	const char *stopped = a_is_first ? other : "a", *first = a_is_first ? "a" : other;
	struct sluice_item items[2] = {{.limit = &w->plain, .key = sl_str(stopped)},
	                               {.limit = &w->plain, .key = sl_str(first)}};
	struct sluice_call call = {.items = items, .item_count = 2, .cost = 1, .now = w->now};
	void *before = malloc(ARENA_BYTES);
	*lock_of(w, stopped) = OTHER;
	memcpy(before, w->memory, ARENA_BYTES);
	assert_int_equal(sluice_decide(&w->store, &call), SLUICE_E_BUSY);
	assert_memory_equal(before, w->memory, ARENA_BYTES);
	assert_int_equal(charge(w, &w->plain, first), SLUICE_OK);
	free(before);
}

/* The blocks: who needs none goes on, a new log leaves no claim, a reset of two changes neither. */
static void the_blocks_are_held_up(void **state) {
	struct world *w = *state;
	struct sluice_item items[2] = {{.limit = &w->plain, .key = sl_str("a")}, {.limit = &w->log, .key = sl_str("b")}};
	struct sluice_call reset = {.items = items, .item_count = 2, .operation = SLUICE_RESET, .now = w->now};
	void *before = malloc(ARENA_BYTES);
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(charge(w, &w->log, "b"), SLUICE_OK);
	w->store.blocks->lock = OTHER;
	memcpy(before, w->memory, ARENA_BYTES);
	assert_int_equal(charge(w, &w->log, "new"), SLUICE_E_BUSY);
	assert_int_equal(rests, LOOKS);
	assert_int_equal(sluice_decide(&w->store, &reset), SLUICE_E_BUSY);
	assert_memory_equal(before, w->memory, ARENA_BYTES);
	assert_int_equal(charge(w, &w->plain, "new"), SLUICE_OK);
	assert_int_equal(charge(w, &w->log, "b"), SLUICE_OK); /* its block has room */
	assert_int_equal(sl_blocks_why_full(&w->store), SL_E_HELD_UP - (OTHER >> SL_OWNER_ROW_SHIFT));
	w->store.blocks->lock = 0;
	assert_int_equal(sl_blocks_why_full(&w->store), SLUICE_E_FULL);
	assert_int_equal(charge(w, &w->log, "new"), SLUICE_OK);
	assert_int_equal(sluice_decide(&w->store, &reset), SLUICE_OK);
	assert_int_equal(reset.forgotten, 2);
	assert_null(sl_store_verify(&w->store));
	free(before);
}

/* Whatever is asked: what needs a block is not decided, and has changed nothing, neither at the limit beside it. A
 * denial stands, its strike noted or not. */
static void no_call_changes_half_while_the_blocks_are_held_up(void **state) {
	static const struct sluice_terms strict = {.penalty_count = 1,
	                                           .after = 1,
	                                           .within_ns = 60 * ARENA_S,
	                                           .forgive_ns = 60 * ARENA_S,
	                                           .penalties_ns = {60 * ARENA_S}};
	struct world *w = *state;
	struct sluice_limit leases = arena_limit("concurrency 3 lease 1m");
	const struct sluice_limit *second[] = {&w->log, &w->log, &w->log, &w->log, &leases, &w->log};
	static const sluice_operation operations[] = {SLUICE_CHARGE, SLUICE_RESERVE, SLUICE_COMMIT,
	                                              SLUICE_REFUND, SLUICE_ACQUIRE, SLUICE_RESET};
	static const char *const keys[] = {"new", "new", "b", "old", "new", "b"};
	struct sluice_item items[2] = {{.limit = &w->plain, .key = sl_str("a")}, {.limit = &w->log, .key = sl_str("b")}};
	struct sluice_call call = {.items = items, .item_count = 2, .cost = 2, .operation = SLUICE_RESERVE, .now = w->now};
	void *before = malloc(ARENA_BYTES);
	call.id = sl_str("id");
	call.ttl_ns = 10 * ARENA_S;
	assert_int_equal(sluice_decide(&w->store, &call), SLUICE_OK);
	items[1].key = sl_str("old"); /* by now it has ended, and is to be corrected before anything is given back */
	call.now -= 20 * ARENA_S;
	assert_int_equal(sluice_decide(&w->store, &call), SLUICE_OK);
	call.now = w->now;
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
		call.operation = operations[i];
		call.cost = 1;
		items[1].limit = second[i];
		items[1].key = sl_str(keys[i]);
		w->store.blocks->lock = OTHER;
		memcpy(before, w->memory, ARENA_BYTES);
		assert_int_equal(sluice_decide(&w->store, &call), SLUICE_E_BUSY);
		assert_memory_equal(before, w->memory, ARENA_BYTES);
		w->store.blocks->lock = 0;
	}
	items[0] = (struct sluice_item){.limit = &w->plain, .key = sl_str("c"), .terms = &strict};
	call = (struct sluice_call){.items = items, .item_count = 1, .cost = 10, .now = w->now};
	w->store.blocks->lock = OTHER;
	assert_int_equal(sluice_decide(&w->store, &call), SLUICE_OK);
	assert_true(!call.merged.allowed && call.penalized == 0);
	w->store.blocks->lock = 0;
	assert_int_equal(sluice_decide(&w->store, &call), SLUICE_OK);
	assert_true(!call.merged.allowed && call.penalized == 1);
	assert_null(sl_store_verify(&w->store));
	free(before);
}

/* What is told of a key is told under its lock, too. */
static void nor_is_it_inspected(void **state) {
	struct world *w = *state;
	struct sluice_item item = {.limit = &w->plain, .key = sl_str("a")};
	struct sluice_inspection told;
	*lock_of(w, "a") = OTHER;
	assert_int_equal(sluice_inspect(&w->store, &item, 1, w->now, &told), SLUICE_E_BUSY);
	assert_int_equal(rests, LOOKS);
	sl_unlock(lock_of(w, "a"));
	assert_int_equal(sluice_inspect(&w->store, &item, 1, w->now, &told), SLUICE_OK);
}

/* A home whose owner has died can't be made whole while the blocks are held up: it stays the dead one's. */
static void a_recovery_that_is_held_up_is_left_to_others(void **state) {
	struct world *w = *state;
	struct sl_bucket *home = arena_place(&w->store, &w->plain, "a").home;
	struct sl_place place = arena_place(&w->store, &w->log, "a");
	home->lock = DEAD;
	place.home->lock = DEAD;
	home->slots[0].tag = place.tag >> SL_TAG_HOME_SHIFT << SL_TAG_HOME_SHIFT | SL_LIFE_FRESH;
	w->store.blocks->lock = OTHER;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	assert_int_equal(home->lock, DEAD);
	w->store.blocks->lock = 0;
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
	assert_int_equal(home->lock, 0);
}

/* A host that parks calls is told at once, and looks itself. */
static void calls_can_be_parked(void **state) {
	struct world *w = *state;
	sluice_err held_up = (sluice_err)(SL_E_HELD_UP - (OTHER >> SL_OWNER_ROW_SHIFT));
	w->stalls.parks = true;
	*lock_of(w, "a") = OTHER;
	for (int i = 0; i < 3; i++)
		assert_int_equal(charge(w, &w->plain, "a"), held_up);
	assert_int_equal(rests, 0);
	assert_int_equal(sl_stall_look(&w->store, held_up), SL_STALL_STANDS);
	sl_stall_give_up(&w->store, held_up);
	assert_int_equal(sl_stall_look(&w->store, held_up), SL_STALL_STOPPED);
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_E_BUSY);
	assert_int_equal(w->stalls.given_up, 1);
	sl_unlock(lock_of(w, "a"));
	assert_int_equal(sl_stall_look(&w->store, held_up), SL_STALL_OVER);
	assert_int_equal(charge(w, &w->plain, "a"), SLUICE_OK);
}

/* Walks and lists are bounded too. */
static void walks_pass_it_over(void **state) {
	struct world *w = *state;
	struct sl_page_figures figures = {0};
	struct sluice_limit leases = arena_limit("concurrency 3 lease 1m");
	struct sluice_holder holder;
	*lock_of(w, "a") = OTHER;
	for (uint64_t page = 0; page < w->store.page_count; page++)
		assert_true(sl_store_scan(&w->store, page, w->now, &figures, NULL, NULL));
	assert_int_equal(figures.held_up, 1);
	assert_int_equal(rests, LOOKS);
	for (uint64_t page = 0; page < w->store.page_count; page++) /* whoever wants no figures is told nothing of it */
		assert_true(sl_store_scan(&w->store, page, w->now, NULL, NULL, NULL));
	assert_int_equal(rests, LOOKS);
	arena_place(&w->store, &leases, "l").home->lock = OTHER;
	assert_int_equal(sluice_holders(&w->store, &leases, sl_str("l"), w->now, &holder, 1), SLUICE_HOLDERS_BUSY);
	assert_int_equal(rests, LOOKS);
}

static void a_walk_waits_for_one_that_moves(void **state) {
	struct world *w = *state;
	struct sl_page_figures figures = {0};
	moves = lock_of(w, "a");
	*moves = OTHER;
	moves_at = LOOKS - 1;
	for (uint64_t page = 0; page < w->store.page_count; page++)
		assert_true(sl_store_scan(&w->store, page, w->now, &figures, NULL, NULL));
	assert_int_equal(figures.held_up, 0);
	assert_int_equal(rests, LOOKS - 1);
}

/* How a key stands is read under the lock of its home: of one that is held up nothing is known, and the lock stays its
 * owner's; a dead one's is recovered first. */
static void a_standing_is_read_under_the_lock(void **state) {
	static const struct sluice_terms terms = {.penalty_count = 1,
	                                          .after = 1,
	                                          .within_ns = 60 * ARENA_S,
	                                          .forgive_ns = 60 * ARENA_S,
	                                          .penalties_ns = {60 * ARENA_S}};
	struct world *w = *state;
	struct sluice_item item = {.limit = &w->plain, .key = sl_str("a"), .terms = &terms};
	struct sluice_call call = {.items = &item, .item_count = 1, .cost = 10, .now = w->now};
	uint64_t stolen = w->store.header->stolen_locks;
	assert_int_equal(sluice_decide(&w->store, &call), SLUICE_OK);
	assert_int_equal(call.penalized, 1);
	assert_int_equal(sluice_standing(&w->store, &item, w->now).level, 1);
	assert_int_equal(*lock_of(w, "a"), 0);
	*lock_of(w, "a") = OTHER;
	assert_int_equal(sluice_standing(&w->store, &item, w->now).level, 0);
	assert_int_equal(*lock_of(w, "a"), OTHER);
	assert_int_equal(rests, LOOKS);
	*lock_of(w, "a") = DEAD;
	assert_int_equal(sluice_standing(&w->store, &item, w->now).level, 1);
	assert_int_equal(w->store.header->stolen_locks, stolen + 1);
	assert_int_equal(*lock_of(w, "a"), 0);
}

/* A quota of a key's own is neither set, changed, read nor taken back past a lock, and is whole when that is free. */
static void quotas_of_keys_wait_for_it_too(void **state) {
	struct world *w = *state;
	struct sluice_limit own = arena_limit("sliding-window 20/1m"), more = arena_limit("sliding-window 30/1m");
	struct sluice_override_request request = {.limit = &w->plain, .key = sl_str("a"), .own = &own};
	struct sluice_override found;
	struct sluice_error error;
	uint32_t *home = lock_of(w, "a"), *locks[2] = {home, &w->store.blocks->lock};
	for (int i = 0; i < 2; i++) {
		*locks[i] = OTHER;
		assert_int_equal(sluice_override_set(&w->store, &request, w->now, &error), SLUICE_E_BUSY);
		assert_string_equal(error.text, "another process has stopped with a lock in hand");
		*locks[i] = 0;
		assert_int_equal(sluice_override_get(&w->store, &w->plain, request.key, w->now, &found), SLUICE_E_NONE);
	}
	assert_int_equal(w->store.header->overrides, 0);
	assert_int_equal(sluice_override_set(&w->store, &request, w->now, NULL), SLUICE_OK);
	request.own = &more;
	for (int i = 0; i < 2; i++) {
		*locks[i] = OTHER;
		assert_int_equal(sluice_override_set(&w->store, &request, w->now, NULL), SLUICE_E_BUSY);
		assert_int_equal(sluice_override_delete(&w->store, &w->plain, request.key, w->now), SLUICE_E_BUSY);
		if (locks[i] == home)
			assert_int_equal(sluice_override_get(&w->store, &w->plain, request.key, w->now, &found), SLUICE_E_BUSY);
		*locks[i] = 0;
		assert_int_equal(sluice_override_get(&w->store, &w->plain, request.key, w->now, &found), SLUICE_OK);
		assert_int_equal(found.limit.quota, 20);
	}
	assert_int_equal(sluice_override_set(&w->store, &request, w->now, NULL), SLUICE_OK);
	assert_int_equal(sluice_override_delete(&w->store, &w->plain, request.key, w->now), SLUICE_OK);
	assert_null(sl_store_verify(&w->store));
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(it_is_waited_for_once),
		IN_A_WORLD(one_that_moves_in_time_costs_nobody_a_call),
		IN_A_WORLD(time_that_passes_is_no_look),
		IN_A_WORLD(one_that_sits_elsewhere_has_moved),
		IN_A_WORLD(an_heir_is_another),
		IN_A_WORLD(one_that_lets_go_is_not_recovered),
		IN_A_WORLD(one_that_dies_is_recovered),
		IN_A_WORLD(one_that_dies_while_it_is_waited_for_is_recovered),
		IN_A_WORLD(who_has_not_been_waited_for_is_not_stopped),
		IN_A_WORLD(what_is_held_is_given_back),
		IN_A_WORLD(the_blocks_are_held_up),
		IN_A_WORLD(no_call_changes_half_while_the_blocks_are_held_up),
		IN_A_WORLD(nor_is_it_inspected),
		IN_A_WORLD(a_recovery_that_is_held_up_is_left_to_others),
		IN_A_WORLD(calls_can_be_parked),
		IN_A_WORLD(walks_pass_it_over),
		IN_A_WORLD(a_walk_waits_for_one_that_moves),
		IN_A_WORLD(a_standing_is_read_under_the_lock),
		IN_A_WORLD(quotas_of_keys_wait_for_it_too),
	};
	return cmocka_run_group_tests_name("stopped", tests, NULL, NULL);
}
