/* Decisions while a key's own quota is set and deleted under them: every call is decided by the limit's quota or by the
 * one that was set, whole; none by a mixture, never more is admitted than the larger, and once a SET has returned
 * nothing more by what was before it, in any thread and any process. */
#include "tests/crash/child.h"
#include "tests/race/crew.h"

#include "base/bytes.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { LOW = 100, OWN = 300, FLIPS = 4000 / CREW_SLOWNESS, MEMBERS = 4, STORE_MIB = 4 };

static const char *const notations[] = {"fixed-window 100/1h", "sliding-window 100/1h", "sliding-log 100/1h",
                                        "sliding-buckets 100/1h precision 1m"};
enum { KINDS = sizeof notations / sizeof *notations };

/* What the setter tells the others. A call that begins while `changing` is even and unchanged at its end was decided
 * by a quota that was in force all along: a sequence lock, whose writer never waits. */
struct flips {
	uint64_t changing, in_force, done, wrong, decided, settled;
};

static struct sluice_decision peek(struct sluice_store *store, const struct sluice_limit *limit, uint32_t cost,
                                   sluice_operation operation) {
	struct sluice_item item = {.limit = limit, .key = sl_str("one")};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = cost, .operation = operation, .now = CREW_START_NS};
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	return call.merged;
}

static uint64_t load(const uint64_t *at) {
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static void store_word(uint64_t *at, uint64_t value) {
	__atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

/* One look at the key: its quota is one of the two; the one in force, where that did not change meanwhile. */
static void look(struct flips *flips, struct sluice_store *store, const struct sluice_limit *limit) {
	uint64_t before = load(&flips->changing), in_force = load(&flips->in_force);
	struct sluice_decision decision = peek(store, limit, 1, SLUICE_CHARGE);
	crew_add(&flips->decided, 1);
	if ((decision.quota != LOW && decision.quota != OWN) || decision.remaining >= decision.quota)
		crew_add(&flips->wrong, 1);
	if (before % 2 != 0 || load(&flips->changing) != before)
		return;
	crew_add(&flips->settled, 1);
	if (decision.quota != in_force)
		crew_add(&flips->wrong, 1);
}

/* The limit, three times as much. */
static void change(struct sluice_store *store, const struct sluice_limit *limit, bool set) {
	struct sluice_limit own;
	struct sluice_override_request request = {.limit = limit, .key = sl_str("one"), .own = &own};
	char text[SLUICE_LIMIT_TEXT_MAX];
	size_t len = sluice_limit_print(limit, text);
	char *quota = memchr(text, ' ', len); /* "fixed-window 100/1h" */
	assert_non_null(quota);
	quota[1] = '3';
	assert_int_equal(sluice_limit_parse(&own, sl_slice(text, len), NULL), SLUICE_OK);
	assert_int_equal(set ? sluice_override_set(store, &request, CREW_START_NS, NULL)
	                     : sluice_override_delete(store, limit, request.key, CREW_START_NS),
	                 SLUICE_OK);
}

/* Flips, each time with the whole quota spent before or given back, so that both quotas admit and deny. */
static void flip(struct flips *flips, struct sluice_store *store, const struct sluice_limit *limit) {
	for (uint64_t i = 0; i < FLIPS; i++) {
		store_word(&flips->changing, 2 * i + 1);
		change(store, limit, i % 2 == 0);
		store_word(&flips->in_force, i % 2 == 0 ? OWN : LOW);
		store_word(&flips->changing, 2 * i + 2);
		if (i % 16 == 0)
			(void)peek(store, limit, OWN, SLUICE_REFUND);
		if (peek(store, limit, 0, SLUICE_PEEK).quota != (i % 2 == 0 ? OWN : LOW))
			crew_add(&flips->wrong, 1);
	}
	store_word(&flips->done, 1);
}

static void work(struct crew *crew, uint32_t index) {
	struct flips *flips = crew->more;
	if (index == 0)
		flip(flips, crew->store, crew->limits);
	while (load(&flips->done) == 0)
		look(flips, crew->store, crew->limits);
}

static void check(const struct flips *flips, const char *notation) {
	print_message("%s: %llu decisions, %llu of them between two changes\n", notation,
	              (unsigned long long)flips->decided, (unsigned long long)flips->settled);
	assert_int_equal(flips->wrong, 0);
}

static void no_thread_decides_by_what_is_no_more(void **state) {
	(void)state;
	for (size_t k = 0; k < KINDS; k++) {
		struct sluice_limit limit = crew_limit(notations[k]);
		struct flips flips = {.in_force = LOW};
		struct crew crew = {.store = crew_store(STORE_MIB), .limits = &limit, .more = &flips};
		crew_run(&crew, CREW, work);
		check(&flips, notations[k]);
		sluice_store_close(crew.store);
	}
}

/* All that is admitted while nobody gives anything back: exactly the larger, if that was in force at the end. */
static void spend(struct crew *crew, uint32_t index) {
	struct flips *flips = crew->more;
	if (index == 0)
		for (uint64_t i = 0; i <= FLIPS; i++)
			change(crew->store, crew->limits, i % 2 == 0);
	if (index == 0)
		store_word(&flips->done, 1);
	while (index != 0 && load(&flips->done) == 0)
		crew_charge(crew, crew->limits, "one", CREW_START_NS, 1);
	for (int i = 0; i < OWN; i++) /* by the quota that stays */
		crew_charge(crew, crew->limits, "one", CREW_START_NS, 1);
}

static void never_more_than_the_larger_is_admitted(void **state) {
	(void)state;
	for (size_t k = 0; k < KINDS; k++) {
		struct sluice_limit limit = crew_limit(notations[k]);
		struct flips flips = {.done = 0};
		struct crew crew = {.store = crew_store(STORE_MIB), .limits = &limit, .more = &flips};
		crew_run(&crew, CREW, spend);
		assert_int_equal(crew.errors, 0);
		assert_int_equal(crew.admitted, OWN);
		sluice_store_close(crew.store);
	}
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

struct board {
	pthread_barrier_t barrier;
	char file[CHILD_PATH_MAX + 16];
	struct flips flips[KINDS];
};

static struct sluice_store *open_store(const struct board *board, bool existing) {
	const struct sluice_store_options options = {
		.memory_bytes = (uint64_t)STORE_MIB << 20, .file = board->file, .existing = existing};
	return child_store(&options);
}

static int be_a_member(struct board *board, uint32_t index) {
	struct sluice_store *store = open_store(board, true);
	for (size_t k = 0; k < KINDS; k++) {
		struct sluice_limit limit = crew_limit(notations[k]);
		struct crew crew = {.store = store, .limits = &limit, .more = &board->flips[k]};
		pthread_barrier_wait(&board->barrier);
		work(&crew, index);
	}
	sluice_store_close(store);
	return 0;
}

static void no_process_decides_by_what_is_no_more(void **state) {
	struct child_room room;
	struct sluice_store *store;
	pid_t members[MEMBERS];
	bool fine = true;
	(void)state;
	child_room_open(&room, sizeof(struct board));
	struct board *board = room.board;
	for (size_t k = 0; k < KINDS; k++)
		board->flips[k].in_force = LOW;
	snprintf(board->file, sizeof board->file, "%s/store", room.folder);
	store = open_store(board, false);
	child_barrier_make(&board->barrier, MEMBERS);
	alarm(CREW_SECONDS_MAX);
	for (uint32_t i = 0; i < MEMBERS; i++)
		members[i] = child_start(&room, i);
	for (uint32_t i = 0; i < MEMBERS; i++)
		fine = child_end(members[i]) && fine;
	alarm(0);
	assert_true(fine);
	for (size_t k = 0; k < KINDS; k++)
		check(&board->flips[k], notations[k]);
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
	child_room_close(&room);
}

int main(int argc, char **argv) {
	uint32_t index;
	void *shared;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_thread_decides_by_what_is_no_more),
		cmocka_unit_test(never_more_than_the_larger_is_admitted),
		cmocka_unit_test(no_process_decides_by_what_is_no_more),
	};
	if (child_is(argc, argv, sizeof(struct board), &shared, &index))
		return be_a_member(shared, index);
	return cmocka_run_group_tests_name("quotas of keys' own under races", tests, NULL, NULL);
}
