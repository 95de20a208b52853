/* Never too many, whatever processes do: eight that share a file hold leases, count members and reserve, in one counter
 * each, all at once; and exactly as many as there is room for. Then holders that vanish: every lease ends at its T. */
#include "tests/crash/child.h"
#include "tests/model/dice.h"
#include "tests/race/crew.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	MEMBERS = 8,
	LEASES = 5,
	QUOTA = 1000,
	ROUNDS = 400 / CREW_SLOWNESS,
	MS = 1000000,
	HOLDERS = 10000 / CREW_SLOWNESS,
	LEASE_MS = 30000,
};

#define TTL_NS ((sluice_ns)600 * 1000 * MS)
static const char *const reserved_at[] = {"sliding-log 1000/1h", "fixed-window 1000/1h",
                                          "sliding-buckets 1000/1h precision 1m"};

/* What the processes share beside the store. */
struct board {
	pthread_barrier_t barrier;
	char file[CHILD_PATH_MAX + 16];
	uint64_t errors;
	int64_t held; /* leases, counted by those who have them: raised behind the acquire, lowered before the release */
	uint64_t held_most; /* that anybody has seen */
	uint64_t acquired;  /* all in all */
	uint64_t reserved;  /* estimates that are charged, less those that were committed lower */
	uint64_t committed; /* the true costs */
	uint64_t lost;      /* a commit or release that found nothing */
};

static struct board *board;

static uint64_t add(uint64_t *counter, uint64_t n) {
	return __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static struct sluice_call make(sluice_operation operation, const struct sluice_item *item, uint32_t cost,
                               const char *id) {
	return (struct sluice_call){.items = item,
	                            .item_count = 1,
	                            .cost = cost,
	                            .operation = operation,
	                            .now = CREW_START_NS,
	                            .id = id != NULL ? sl_str(id) : sl_slice(NULL, 0)};
}

static bool decide(struct sluice_store *store, struct sluice_call *call) {
	if (sluice_decide(store, call) == SLUICE_OK)
		return true;
	add(&board->errors, 1);
	return false;
}

/* ---- what each process does -------------------------------------------------------------------------------------- */

struct id {
	char text[24];
};

static struct id id_of(uint32_t index, uint32_t i) {
	struct id id;
	snprintf(id.text, sizeof id.text, "%" PRIu32 ":%" PRIu32, index, i);
	return id;
}

static void note_held(int64_t change) {
	uint64_t held = (uint64_t)(__atomic_fetch_add(&board->held, change, __ATOMIC_SEQ_CST) + change);
	uint64_t most = __atomic_load_n(&board->held_most, __ATOMIC_RELAXED);
	while (change > 0 && held > most &&
	       !__atomic_compare_exchange_n(&board->held_most, &most, held, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void release(struct sluice_store *store, const struct sluice_item *item, struct id id) {
	struct sluice_call call = make(SLUICE_RELEASE, item, 0, id.text);
	note_held(-1);
	add(&board->lost, !decide(store, &call) || call.found != 1);
}

/* Each holds two, of the five that there are for all eight, and tries for a third. */
static void hold_leases(struct sluice_store *store, uint32_t index) {
	struct sluice_limit limit = crew_limit("concurrency 5 lease 1h");
	struct sluice_item item = {.limit = &limit, .key = sl_str("leases")};
	struct id mine[2];
	uint32_t count = 0;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct id id = id_of(index, i);
		struct sluice_call call = make(SLUICE_ACQUIRE, &item, 1, id.text);
		bool allowed = decide(store, &call) && call.merged.allowed;
		sched_yield();
		if (count != 0 && (count == 2 || !allowed)) {
			release(store, &item, mine[0]);
			mine[0] = mine[--count];
		}
		if (!allowed)
			continue;
		note_held(1);
		add(&board->acquired, 1);
		if (i % 3 == 0) /* made again, for want of an answer */
			add(&board->lost, !decide(store, &call) || !call.repeated);
		mine[count++] = id;
	}
	while (count != 0)
		release(store, &item, mine[--count]);
}

/* All try the same hundred members, in orders of their own. */
static void count_members(struct sluice_store *store, uint32_t index) {
	struct sluice_limit limit = crew_limit("distinct 40/1h");
	struct sluice_item item = {.limit = &limit, .key = sl_str("members")};
	for (uint32_t i = 0; i < 100; i++) {
		char name[16];
		struct sluice_call call = make(SLUICE_CHARGE, &item, 1, NULL), peek;
		snprintf(name, sizeof name, "%" PRIu32, (i * 37 + index * 13) % 100);
		item.member = sl_str(name);
		if (!decide(store, &call) || !call.merged.allowed)
			continue;
		peek = make(SLUICE_PEEK, &item, 1, NULL); /* who is in stays in */
		add(&board->lost, !decide(store, &peek) || !peek.merged.allowed);
	}
}

/* Whatever is reserved is committed at less, at more, or left. */
static void reserve(struct sluice_store *store, uint32_t index) {
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct sluice_limit limit = crew_limit(reserved_at[i % 3]);
		struct sluice_item item = {.limit = &limit, .key = sl_str("reserved")};
		struct sluice_call call = make(SLUICE_RESERVE, &item, 20, NULL);
		struct id id = id_of(index, i);
		call.id = sl_str(id.text);
		call.ttl_ns = TTL_NS;
		if (!decide(store, &call) || !call.merged.allowed)
			continue;
		add(&board->reserved, 20);
		if (i % 4 == 0)
			continue;
		call = make(SLUICE_COMMIT, &item, i % 4 == 1 ? 2 : 0, id.text);
		add(&board->lost, !decide(store, &call) || call.found != 1);
		add(&board->committed, i % 4 == 1 ? 2 : 0);
		__atomic_fetch_sub(&board->reserved, 20, __ATOMIC_RELAXED);
	}
}

static struct sluice_store *open_store(bool existing) {
	struct sluice_store_options options = {
		.memory_bytes = (uint64_t)8 << 20, .existing = existing, .file = board->file};
	return child_store(&options);
}

static int be_a_member(uint32_t index) {
	struct sluice_store *store = open_store(true);
	pthread_barrier_wait(&board->barrier);
	hold_leases(store, index);
	pthread_barrier_wait(&board->barrier);
	count_members(store, index);
	pthread_barrier_wait(&board->barrier);
	reserve(store, index);
	sluice_store_close(store);
	return 0;
}

/* ---- what is to be seen ------------------------------------------------------------------------------------------ */

static uint32_t left(struct sluice_store *store, const char *notation, const char *key, sluice_ns now) {
	struct sluice_limit limit = crew_limit(notation);
	struct sluice_item item = {.limit = &limit, .key = sl_str(key)};
	struct sluice_call call = make(SLUICE_PEEK, &item, 0, NULL);
	call.now = now;
	assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
	return call.merged.remaining;
}

static uint64_t used_at(struct sluice_store *store, sluice_ns now) {
	uint64_t used = 0;
	for (int i = 0; i < 3; i++)
		used += QUOTA - left(store, reserved_at[i], "reserved", now);
	return used;
}

static void eight_processes(void **state) {
	struct child_room room;
	struct sluice_store *store;
	pid_t members[MEMBERS];
	bool fine = true;
	uint64_t used;
	(void)state;
	alarm(CREW_SECONDS_MAX);
	child_room_open(&room, sizeof *board);
	board = room.board;
	snprintf(board->file, sizeof board->file, "%s/store", room.folder);
	store = open_store(false);
	child_barrier_make(&board->barrier, MEMBERS);
	for (uint32_t i = 0; i < MEMBERS; i++)
		members[i] = child_start(&room, i);
	for (uint32_t i = 0; i < MEMBERS; i++)
		fine = child_end(members[i]) && fine;
	assert_true(fine);
	used = used_at(store, CREW_START_NS);
	printf("%" PRIu64 " leases, at most %" PRIu64 " at once; %" PRIu64 " reserved and %" PRIu64 " committed, %" PRIu64
	       " charged (no seed)\n",
	       board->acquired, board->held_most, board->reserved, board->committed, used);
	assert_int_equal(board->errors, 0);
	assert_int_equal(board->lost, 0);
	assert_true(board->acquired >= ROUNDS && board->held_most <= LEASES); /* how many meet is up to the machine */
	assert_int_equal(left(store, "concurrency 5 lease 1h", "leases", CREW_START_NS), LEASES);
	assert_int_equal(left(store, "distinct 40/1h", "members", CREW_START_NS), 0);
	assert_int_equal(left(store, "distinct 41/1h", "members", CREW_START_NS), 1);
	assert_int_equal(used, board->reserved + board->committed);
	/* what was left open is back when its time has run out */
	assert_int_equal(used_at(store, CREW_START_NS + TTL_NS), board->committed);
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
	child_room_close(&room);
	alarm(0);
}

/* 10,000 holders, of which half vanish without a word, at instants of their own. Every place is back at the T of its
 * holder, to the ms, and none sooner: all along what is free is what a list of ends says. */
static void holders_that_vanish(void **state) {
	struct sluice_store *store = crew_store(16);
	struct sluice_limit limit = crew_limit("concurrency 100 lease 30s");
	struct sluice_item item = {.limit = &limit, .key = sl_str("pool")};
	struct dice dice = dice_of(dice_seed(), 6);
	uint64_t ends[100] = {0}, now_ms = 0, denied = 0, gone = 0;
	(void)state;
	for (uint32_t made = 0; made < HOLDERS;) {
		uint32_t held = 0, spare = 0;
		uint64_t first = UINT64_MAX;
		char id[24];
		for (uint32_t k = 0; k < 100; k++) {
			held += ends[k] > now_ms;
			spare = ends[k] > now_ms ? spare : k;
			first = ends[k] > now_ms && ends[k] < first ? ends[k] : first;
		}
		snprintf(id, sizeof id, "%" PRIu32, made);
		struct sluice_call call = make(SLUICE_ACQUIRE, &item, 1, id);
		call.now += now_ms * MS;
		assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
		assert_true(call.merged.allowed == (held < 100));
		if (!call.merged.allowed) {
			assert_int_equal(call.merged.retry_after_ns, (first - now_ms) * MS);
			denied++;
			now_ms = first - (dice_below(&dice, 2) != 0 && first - 1 > now_ms); /* one ms before, or at it */
			continue;
		}
		made++;
		assert_int_equal(call.merged.remaining, 99 - held);
		if (dice_below(&dice, 2) != 0) {
			call.operation = SLUICE_RELEASE;
			assert_int_equal(sluice_decide(store, &call), SLUICE_OK);
			assert_int_equal(call.found, 1);
		} else {
			ends[spare] = now_ms + LEASE_MS;
			gone++;
		}
		now_ms += dice_below(&dice, 200);
	}
	printf("seed %" PRIu64 ": %d holders, %" PRIu64 " vanished, %" PRIu64 " denied meanwhile\n", dice_seed(), HOLDERS,
	       gone, denied);
	assert_true(denied > 0);
	sluice_store_close(store);
}

int main(int argc, char **argv) {
	uint32_t index;
	void *shared;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_processes),
		cmocka_unit_test(holders_that_vanish),
	};
	if (child_is(argc, argv, sizeof *board, &shared, &index)) {
		board = shared;
		return be_a_member(index);
	}
	return cmocka_run_group_tests_name("leases, members and reservations of many processes", tests, NULL, NULL);
}
