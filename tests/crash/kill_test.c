/* Kill -9 at random instants of one of four writers under full load on one file.
 *
 * Each writer makes calls of every kind without a pause: charges of keys whose admitted cost is counted, alone and
 * several at once, new keys that soon expire, logs that grow and are trimmed, refunds, resets, peeks. The controller
 * kills one at a random instant, which may lie in the opening of the store, and starts another.
 *
 *   answered    every survivor makes further calls after each kill, none of which takes ten seconds. Writers note how
 *               long their calls took by the clock on the wall. Since more of them run than there are cores, they note
 *               as well how long they were kept from running *between* calls, where there is nothing to wait for, and
 *               that much is allowed for.
 *   counted     what was admitted and answered of each key is never more than its quota, and less by no more than what
 *               the killed ones had under way: each writer notes on the board what it is about to charge.
 *   whole       after each round of kills the file, as it was left, is settled in memory by a survivor that takes every
 *               lock, and verified; then a first opener must find nothing torn.
 *
 * Rounds take turns between a store in which the keys that nobody counts have soon expired, and a small one in which
 * they last, so that it must evict. The bounds hold while a store is not full (contract 3): there a key that was
 * evicted is remembered by a step of its use, so it may be admitted less than its quota, and, evicted again and
 * again, somewhat more; how much is printed, and must stay below twice its quota. */
#include "tests/crash/arena.h"
#include "tests/crash/child.h"
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

enum {
	WRITERS = 4,
	KILLS_SHORT = 120,
	KILLS_SOAK = 2000,
	KILLS_A_ROUND = 40,
	KEYS = 16, /* whose cost is counted, in each round */
	ITEMS = 4,
	HANG_S = 20,
	ANSWER_MS_MAX = 10000, /* some ms, but for what the machine does meanwhile; else the wait is for ever */
	ALARM_S = 200,
	LARGE_MIB = 8,
	SMALL_MIB = 1,
};

static const char *const counted[] = {
	"fixed-window 60000/3660d", "sliding-window 60000/3660d",
	"sliding-log 9000/1d",      "sliding-buckets 60000/10d precision 1d",
	"token-bucket 60000/3660d", "leaky-bucket 60000/3660d queue 59999",
};
static const char *const passing[] = {
	"fixed-window 3/3ms", "sliding-window 3/3ms",       "sliding-log 200/3ms", "sliding-buckets 9/20ms precision 1ms",
	"token-bucket 3/3ms", "leaky-bucket 3/3ms queue 2",
};
static const char *const lasting[] = {
	"fixed-window 3/1h", "sliding-window 3/1h",       "sliding-log 200/1h", "sliding-buckets 9/1h precision 1m",
	"token-bucket 3/1h", "leaky-bucket 3/1h queue 2",
};
enum { KINDS = sizeof counted / sizeof *counted };

/* What a writer is about to do; read by the controller when it has killed it. */
struct intent {
	uint32_t count, cost; /* count 0: nothing that is counted */
	uint32_t keys[ITEMS];
};

struct writer {
	uint64_t calls;
	uint64_t longest_call_ns, longest_pause_ns;
	uint64_t full; /* denials by SLUICE_BOUND_ROOM */
	struct intent intent;
};

struct board {
	char file[CHILD_PATH_MAX + 16];
	uint64_t seed;
	uint64_t clock_us; /* atomic; of all instants */
	uint64_t round;
	uint32_t stop;
	uint32_t wrong; /* atomic: calls that said what they must not */
	uint64_t admitted[KEYS], uncertain[KEYS];
	struct writer writers[WRITERS];
};

static struct board *board;
static struct sluice_limit counted_limits[KINDS], passing_limits[KINDS]; /* passing: or lasting, by round */

/* ---- a writer ---------------------------------------------------------------------------------------------------- */

struct key {
	char text[40];
};

static struct key counted_key(uint32_t which) {
	struct key key;
	snprintf(key.text, sizeof key.text, "counted:%" PRIu64 ":%" PRIu32, board->round, which);
	return key;
}

static sluice_ns take_instant(void) {
	return ARENA_START_NS + __atomic_fetch_add(&board->clock_us, 1, __ATOMIC_RELAXED) * 1000;
}

static void decide(struct sluice_store *store, struct writer *me, struct sluice_call *call, uint64_t *last_ns) {
	uint64_t start = arena_clock_ns(), end;
	sluice_err err = sluice_decide(store, call);
	end = arena_clock_ns();
	me->longest_call_ns = sl_max(me->longest_call_ns, end - start);
	me->longest_pause_ns = sl_max(me->longest_pause_ns, start - *last_ns);
	*last_ns = end;
	me->full += err == SLUICE_OK && call->merged.bound == SLUICE_BOUND_ROOM;
	if (err != SLUICE_OK)
		__atomic_fetch_add(&board->wrong, 1, __ATOMIC_RELAXED);
	call->err = err;
}

/* One charge of one to ITEMS keys that are counted. Their order in memory is what the controller relies on when this
 * process is killed: intent, call, what was admitted, end of intent. */
static void charge_counted(struct sluice_store *store, struct writer *me, struct dice *dice, uint64_t *last_ns) {
	struct sluice_item items[ITEMS];
	struct key keys[ITEMS];
	struct intent intent = {.count = dice_one_in(dice, 4) ? 2 + (uint32_t)dice_below(dice, ITEMS - 1) : 1,
	                        .cost = 1 + (uint32_t)dice_below(dice, 3)};
	uint32_t first = (uint32_t)dice_below(dice, KEYS);
	struct sluice_call call = {.items = items, .item_count = intent.count, .cost = intent.cost, .now = take_instant()};
	for (uint32_t i = 0; i < intent.count; i++) {
		uint32_t which = intent.keys[i] = (first + i * 5) % KEYS;
		keys[i] = counted_key(which);
		items[i] = (struct sluice_item){.limit = &counted_limits[which % KINDS], .key = sl_str(keys[i].text)};
	}
	me->intent.cost = intent.cost;
	memcpy(me->intent.keys, intent.keys, sizeof intent.keys);
	__atomic_store_n(&me->intent.count, intent.count, __ATOMIC_SEQ_CST);
	decide(store, me, &call, last_ns);
	for (uint32_t i = 0; call.err == SLUICE_OK && call.merged.allowed && i < intent.count; i++)
		__atomic_fetch_add(&board->admitted[intent.keys[i]], intent.cost, __ATOMIC_SEQ_CST);
	__atomic_store_n(&me->intent.count, 0, __ATOMIC_SEQ_CST);
}

/* A call with keys that nobody counts: new ones that soon expire, or a few that stay and are charged, given back,
 * forgotten. */
static void call_uncounted(struct sluice_store *store, struct writer *me, struct dice *dice, uint64_t *last_ns) {
	struct sluice_item items[2];
	struct key keys[2];
	struct sluice_call call = {.items = items,
	                           .item_count = 1 + (uint32_t)dice_below(dice, 2),
	                           .cost = 1 + (uint32_t)dice_below(dice, 4),
	                           .now = take_instant()};
	uint32_t kind = (uint32_t)dice_below(dice, KINDS);
	bool stays = dice_one_in(dice, 2);
	if (stays)
		call.operation = (sluice_operation)dice_below(dice, SLUICE_RESET + 1);
	for (uint32_t i = 0; i < call.item_count; i++) {
		uint64_t number = stays ? dice_below(dice, 20) : dice_bits(dice) % 1000000000;
		snprintf(keys[i].text, sizeof keys[i].text, "%s:%" PRIu64, stays ? "stays" : "new", number);
		items[i] = (struct sluice_item){.limit = &passing_limits[(kind + i) % KINDS], .key = sl_str(keys[i].text)};
	}
	decide(store, me, &call, last_ns);
}

static bool is_small(void) {
	return board->round % 2 == 1;
}

static void parse_limits(void) {
	for (int i = 0; i < KINDS; i++) {
		counted_limits[i] = arena_limit(counted[i]);
		passing_limits[i] = arena_limit(is_small() ? lasting[i] : passing[i]);
	}
}

static struct sluice_store *open_file(uint64_t mib) {
	struct sluice_store_options options = {.file = board->file, .memory_bytes = mib << 20, .existing = mib == 0};
	return child_store(&options);
}

static int be_a_writer(uint32_t index) {
	struct writer *me = &board->writers[index];
	struct dice dice = dice_of(board->seed, (uint64_t)getpid() << 8 | index);
	struct sluice_store *store;
	uint64_t last_ns;
	alarm(ALARM_S);
	parse_limits();
	store = open_file(0);
	last_ns = arena_clock_ns();
	while (!__atomic_load_n(&board->stop, __ATOMIC_RELAXED)) {
		if (dice_below(&dice, 8) < 5)
			charge_counted(store, me, &dice, &last_ns);
		else
			call_uncounted(store, me, &dice, &last_ns);
		__atomic_fetch_add(&me->calls, 1, __ATOMIC_RELEASE);
	}
	sluice_store_close(store);
	return 0;
}

/* ---- the controller ---------------------------------------------------------------------------------------------- */

struct totals {
	uint64_t excess; /* admitted by a store that evicts, in percent of a quota */
	uint64_t kills, rounds, exact, calls, within, stolen, evicted, uncertain, missing, full;
	uint64_t longest_call_ns, longest_pause_ns;
};

static uint64_t calls_of(uint32_t index) {
	return __atomic_load_n(&board->writers[index].calls, __ATOMIC_ACQUIRE);
}

/* A call that began after now ends: one may be under way, so two are waited for. */
static void expect_calls(uint32_t index) {
	uint64_t before = calls_of(index), start = arena_clock_ns();
	while (calls_of(index) < before + 2) {
		if (arena_clock_ns() - start > HANG_S * ARENA_S)
			fail_msg("writer %" PRIu32 " hangs", index);
		usleep(50);
	}
}

/* Where one has died, what it was about to charge may be charged without an answer. */
static void note_intent(uint32_t index, struct totals *totals) {
	struct intent *intent = &board->writers[index].intent;
	uint32_t count = __atomic_load_n(&intent->count, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < count; i++)
		board->uncertain[intent->keys[i]] += intent->cost;
	totals->within += count != 0;
	intent->count = 0;
}

static void kill_one(const struct child_room *room, pid_t *writers, struct dice *dice, struct totals *totals) {
	uint32_t which = (uint32_t)dice_below(dice, WRITERS);
	int status;
	usleep((useconds_t)dice_below(dice, 3000));
	assert_int_equal(kill(writers[which], SIGKILL), 0);
	assert_int_equal(waitpid(writers[which], &status, 0), writers[which]);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	note_intent(which, totals);
	totals->kills++;
	for (uint32_t i = 0; i < WRITERS; i++)
		if (i != which && calls_of(i) > 0)
			expect_calls(i);
	totals->calls += board->writers[which].calls;
	board->writers[which].calls = 0;
	writers[which] = child_start(room, which);
	if (!dice_one_in(dice, 4)) /* else it may be killed while it opens the store */
		while (calls_of(which) == 0)
			usleep(50);
}

/* The file as the dead and the quiet left it, in memory, settled by one who takes every lock from its dead owner. */
static void expect_settled(uint64_t mib, uint64_t units) {
	size_t bytes = mib << 20;
	FILE *file = fopen(board->file, "rb");
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sluice_store store;
	const char *problem;
	assert_true(file != NULL && copy != MAP_FAILED && fread(copy, 1, bytes, file) == bytes);
	fclose(file);
	assert_null(sl_arena_refuse(copy, bytes));
	arena_attach(&store, copy, ARENA_SURVIVOR);
	arena_settle(&store);
	problem = arena_problem(&store, units);
	if (problem != NULL)
		fail_msg("%s", problem);
	munmap(copy, bytes);
}

/* Charges what is left of each counted key, and compares. */
static void expect_counts(struct sluice_store *store, bool exact, struct totals *totals) {
	for (uint32_t which = 0; which < KEYS; which++) {
		const struct sluice_limit *limit = &counted_limits[which % KINDS];
		struct key key = counted_key(which);
		uint64_t quota = limit->quota, admitted = board->admitted[which], uncertain = board->uncertain[which];
		struct sluice_decision decision;
		while (arena_call(store, SLUICE_CHARGE, limit, key.text, 1, take_instant(), &decision) == SLUICE_OK &&
		       decision.allowed)
			admitted++;
		uint64_t most = exact ? quota : 2 * quota;
		if (admitted > most || (exact && admitted + uncertain < quota))
			fail_msg("%s: %" PRIu64 " admitted, of which the killed ones had %" PRIu64 " under way",
			         counted[which % KINDS], admitted, uncertain);
		totals->excess = sl_max(totals->excess, admitted > quota ? (admitted - quota) * 100 / quota : 0);
		totals->uncertain += uncertain;
		totals->missing += exact ? quota - admitted : 0;
	}
}

static void note_writers(struct totals *totals) {
	for (uint32_t i = 0; i < WRITERS; i++) {
		struct writer *writer = &board->writers[i];
		totals->calls += writer->calls;
		totals->full += writer->full;
		totals->longest_call_ns = sl_max(totals->longest_call_ns, writer->longest_call_ns);
		totals->longest_pause_ns = sl_max(totals->longest_pause_ns, writer->longest_pause_ns);
		*writer = (struct writer){0};
	}
}

/* A store, four writers, kills, and what is then to be seen. */
static void run_round(const struct child_room *room, uint64_t mib, uint64_t kills, struct dice *dice,
                      struct totals *totals) {
	struct sluice_store *store = open_file(mib);
	struct sluice_store_stats stats;
	uint64_t units = arena_units(store);
	pid_t writers[WRITERS];
	sluice_store_close(store);
	board->stop = 0;
	memset(board->admitted, 0, sizeof board->admitted);
	memset(board->uncertain, 0, sizeof board->uncertain);
	for (uint32_t i = 0; i < WRITERS; i++)
		writers[i] = child_start(room, i);
	for (uint64_t i = 0; i < kills; i++)
		kill_one(room, writers, dice, totals);
	__atomic_store_n(&board->stop, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_true(child_end(writers[i]));
	note_writers(totals);
	assert_int_equal(board->wrong, 0);

	expect_settled(mib, units);
	store = open_file(0);
	assert_null(sluice_store_verify(store));
	sluice_store_stats(store, &stats);
	if (stats.dropped != 0)
		fail_msg("%" PRIu64 " dropped as torn; repaired %" PRIu64 " times", stats.dropped, stats.repairs);
	/* an expired one whose home was locked just then is passed over, so that even there one in use may have to go */
	assert_true(is_small() ? stats.evicted > 0 : stats.evicted <= kills);
	expect_counts(store, stats.evicted == 0, totals);
	totals->exact += stats.evicted == 0;
	totals->stolen += stats.recoveries;
	totals->evicted += stats.evicted;
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
	assert_int_equal(unlink(board->file), 0);
	board->round++;
	totals->rounds++;
}

static void kills_at_random_instants(void **state) {
	uint64_t seconds = arena_seconds(), start = arena_clock_ns(), kills = seconds != 0 ? KILLS_SOAK : KILLS_SHORT;
	struct child_room room;
	struct totals totals = {0};
	struct dice dice = dice_of(dice_seed(), 0);
	(void)state;
	child_room_open(&room, sizeof *board);
	board = room.board;
	snprintf(board->file, sizeof board->file, "%s/store", room.folder);
	board->seed = dice_seed();
	parse_limits();
	while (totals.kills < kills && (seconds == 0 || arena_clock_ns() - start < seconds * ARENA_S)) {
		alarm(ALARM_S);
		run_round(&room, is_small() ? SMALL_MIB : LARGE_MIB, KILLS_A_ROUND, &dice, &totals);
	}
	alarm(0);
	child_room_close(&room);
	printf("seed %" PRIu64 ": %" PRIu64 " kills (%" PRIu64 " within a counted call) among %" PRIu64 " calls; %" PRIu64
	       " of %" PRIu64 " rounds exact\n",
	       dice_seed(), totals.kills, totals.within, totals.calls, totals.exact, totals.rounds);
	printf("  of seed %" PRIu64 ": %" PRIu64 " locks stolen, %" PRIu64 " evicted, %" PRIu64 " full, at most %" PRIu64
	       " %% above a quota; %" PRIu64 " cost under way, %" PRIu64 " of it charged unanswered\n",
	       dice_seed(), totals.stolen, totals.evicted, totals.full, totals.excess, totals.uncertain, totals.missing);
	printf("  of seed %" PRIu64 ": longest call %.1f ms; longest pause between calls %.1f ms\n", dice_seed(),
	       (double)totals.longest_call_ns / 1e6, (double)totals.longest_pause_ns / 1e6);
	assert_true(totals.exact > 0);
	assert_true(totals.longest_call_ns < ANSWER_MS_MAX * ARENA_MS + totals.longest_pause_ns);
}

int main(int argc, char **argv) {
	uint32_t index;
	void *shared;
	const struct CMUnitTest tests[] = {cmocka_unit_test(kills_at_random_instants)};
	if (child_is(argc, argv, sizeof *board, &shared, &index)) {
		board = shared;
		return be_a_writer(index);
	}
	return cmocka_run_group_tests_name("kill -9", tests, NULL, NULL);
}
