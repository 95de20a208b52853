/* Damaged and truncated arenas: refused, or repaired to one in which everything is whole and what was not damaged is
 * still there.
 *
 * Damage is done to a copy in memory, which then is refused, or attached, repaired by a first opener, verified, asked
 * for every counter, charged, and verified again; damaged and truncated files go through sluice_store_open(). The copy
 * is on the heap, so that AddressSanitizer sees every byte read beside it.
 *
 * A counter is undamaged when neither its bucket's slots nor its block, with the block's bytes of the map, were, and no
 * damaged slot or block lays claim to its block: whose it is can't be told then. All else (locks, spill bits, free
 * lists, undo log, sketch, processes, clock, figures) is no part of a counter, and damage there must cost none. */
#include "store/blocks.h"
#include "store/scan.h"
#include "store/slot.h"
#include "tests/crash/arena.h"
#include "tests/crash/child.h"
#include "tests/model/dice.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	SUBJECTS = 400,
	STRANGERS = 20, /* keys that no counter is there for */
	CROWDED = 170,  /* in one page: more than it has slots */
	KINDS = 7,      /* of damage to a byte that are no single bit: 0, 255, all bits, and 4 numbers */
	WAYS = 8 + KINDS,
#ifdef __SANITIZE_ADDRESS__
	CHANGES = 1000, /* at random */
	MIXES = 50,
#else
	CHANGES = 4000,
	MIXES = 200,
#endif
	ALARM_S = 600,
	USE_ALARM_S = 60,
	COMPLAINTS_TOLD = 20,
};

static const char *const notations[] = {
	"sliding-log 600/1h",  "sliding-window 600/1h", "sliding-buckets 600/1h precision 1m",
	"fixed-window 600/1h", "token-bucket 600/1h",   "leaky-bucket 600/1h queue 599",
};
enum { LIMITS = sizeof notations / sizeof *notations };

struct subject {
	const struct sluice_limit *limit;
	char key[20];
	size_t slot_at;        /* of its slot, from the arena's beginning; 0: it was evicted */
	uint64_t block, units; /* 0: none */
	struct sluice_decision answer;
};

/* A range of bytes that were damaged. */
struct range {
	size_t begin, end;
};

struct world {
	struct sluice_limit limits[LIMITS];
	struct subject subjects[SUBJECTS + STRANGERS];
	unsigned char *base, *work;
	struct sluice_store at; /* attached to base */
	uint64_t units;
	sluice_ns now;
	uint64_t refused, repaired, dropped; /* counters dropped in all */
	uint64_t complaints;
};

/* The part of the arena in which a byte lies. */
static const char *part_of(const struct world *world, size_t at) {
	const struct sl_header *header = world->at.header;
	if (at < SL_PROCESSES_OFFSET)
		return at < offsetof(struct sl_header, anchors) ? "constants"
		       : at < sizeof *header                    ? "clock, figures"
		                                                : "nothing";
	if (at < SL_PAGES_OFFSET)
		return at < SL_BLOCKS_CONTROL_OFFSET                                      ? "processes"
		       : at < SL_BLOCKS_CONTROL_OFFSET + offsetof(struct sl_blocks, undo) ? "control of blocks"
		                                                                          : "undo log";
	if (at < header->sketch_offset)
		return at % SL_BUCKET_BYTES < 8 ? "lock, spill" : "slots";
	return at < header->map_offset ? "sketch" : at < header->blocks_offset ? "map" : "blocks";
}

/* What should not be: told as far as one may want to read, while the test goes on. */
__attribute__((format(printf, 3, 4))) static void complain(struct world *world, const struct range *damage,
                                                           const char *format, ...) {
	va_list arguments;
	if (world->complaints++ >= COMPLAINTS_TOLD)
		return;
	printf("damage at %zu..%zu (%s): ", damage->begin, damage->end, part_of(world, damage->begin));
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

/* ---- the arena to be damaged ------------------------------------------------------------------------------------- */

static void name_subject(struct world *world, uint32_t which) {
	struct subject *s = &world->subjects[which];
	s->limit = &world->limits[which % LIMITS];
	for (uint32_t i = 0;; i++) {
		snprintf(s->key, sizeof s->key, "%" PRIu32 ":%" PRIu32, which, i);
		struct sl_place place = arena_place(&world->at, s->limit, s->key);
		if (which >= CROWDED || arena_page(&world->at, &place) == 1)
			return;
	}
}

static struct sluice_decision ask(struct sluice_store *store, const struct world *world, const struct subject *s,
                                  sluice_operation operation) {
	struct sluice_decision decision = {0};
	sluice_err err = arena_call(store, operation, s->limit, s->key, 1, world->now, &decision);
	if (err != SLUICE_OK)
		abort();
	return decision;
}

/* Where a counter and its block are. */
static void locate(struct world *world, struct subject *s) {
	struct sl_place place = arena_place(&world->at, s->limit, s->key);
	const struct sl_slot *slot = sl_slot_find(&place);
	s->slot_at = slot == NULL ? 0 : (size_t)((const unsigned char *)slot - world->base);
	s->block = slot != NULL && sl_rule_has(s->limit, SL_HAS_BLOCK) ? (uint32_t)sl_slot_state(slot)[1] : 0;
	if (s->block != 0)
		s->units = (sl_block_bytes(&world->at, (uint32_t)s->block) + sizeof(struct sl_block_head)) / SL_UNIT_BYTES;
}

static void charge_all(struct world *world, struct dice *dice) {
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t i = 0; i < SUBJECTS; i++) {
			uint32_t charges = (uint32_t)dice_below(dice, i % 20 == 0 ? 40 : 4);
			for (uint32_t k = 0; k <= charges; k++, world->now += 3 * ARENA_MS)
				(void)ask(&world->at, world, &world->subjects[i], SLUICE_CHARGE);
		}
}

static int open_world(void **state) {
	struct world *world = calloc(1, sizeof *world);
	struct dice dice = dice_of(dice_seed(), 5);
	world->base = aligned_alloc(SL_PAGE_BYTES, ARENA_BYTES);
	world->work = aligned_alloc(SL_PAGE_BYTES, ARENA_BYTES);
	world->now = ARENA_START_NS + ARENA_S;
	arena_format(world->base, dice_seed());
	arena_attach(&world->at, world->base, ARENA_VICTIM);
	world->units = world->at.blocks->free_units;
	for (int i = 0; i < LIMITS; i++)
		world->limits[i] = arena_limit(notations[i]);
	for (uint32_t i = 0; i < SUBJECTS + STRANGERS; i++)
		name_subject(world, i);
	charge_all(world, &dice);
	for (uint32_t i = 0; i < SUBJECTS; i++) {
		locate(world, &world->subjects[i]);
		world->subjects[i].answer = ask(&world->at, world, &world->subjects[i], SLUICE_PEEK);
	}
	alarm(ALARM_S);
	*state = world;
	return arena_problem(&world->at, world->units) != NULL || world->at.header->evicted == 0;
}

static int close_world(void **state) {
	struct world *world = *state;
	alarm(0);
	free(world->base);
	free(world->work);
	free(world);
	return 0;
}

/* ---- what is undamaged ------------------------------------------------------------------------------------------- */

static bool overlap(size_t a, size_t a_end, size_t b, size_t b_end) {
	return a < b_end && b < a_end;
}

/* The units that a block would have, as the damaged arena says. */
static struct range units_claimed(const struct sluice_store *store, uint64_t block) {
	uint64_t units = 1;
	if (block < store->header->unit_count)
		units = (sl_block_bytes(store, (uint32_t)block) + sizeof(struct sl_block_head)) / SL_UNIT_BYTES;
	return (struct range){block, block + units};
}

static bool is_own_damage(const struct world *world, const struct subject *s, const struct range *damage) {
	const struct sl_bucket *bucket = (const void *)(world->base + (s->slot_at - s->slot_at % SL_BUCKET_BYTES));
	size_t tags = (size_t)((const unsigned char *)bucket->slots - world->base);
	size_t units_at = (size_t)(world->at.units - world->base), map_at = world->at.header->map_offset;
	if (overlap(tags, tags + SL_BUCKET_BYTES - 8, damage->begin, damage->end))
		return true;
	if (s->block != 0 && overlap(map_at + s->block, map_at + s->block + s->units, damage->begin, damage->end))
		return true;
	return s->block != 0 && overlap(units_at + s->block * SL_UNIT_BYTES,
	                                units_at + (s->block + s->units) * SL_UNIT_BYTES, damage->begin, damage->end);
}

/* The blocks that damaged slots and damaged heads claim now. */
static uint32_t claims(const struct world *world, const struct sluice_store *store, const struct range *damage,
                       struct range *claimed, uint32_t claimed_max) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < SUBJECTS && count + 1 < claimed_max; i++) {
		const struct subject *s = &world->subjects[i];
		if (s->slot_at == 0 || !is_own_damage(world, s, damage))
			continue;
		const struct sl_slot *slot = (const void *)(world->work + s->slot_at);
		claimed[count++] = units_claimed(store, (uint32_t)sl_slot_state(slot)[1]);
		if (s->block != 0)
			claimed[count++] = units_claimed(store, s->block);
	}
	return count;
}

static bool is_claimed(const struct subject *s, const struct range *claimed, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (s->block != 0 && overlap(s->block, s->block + s->units, claimed[i].begin, claimed[i].end))
			return true;
	return false;
}

/* ---- damage and what follows ------------------------------------------------------------------------------------- */

static bool same(const struct sluice_decision *a, const struct sluice_decision *b) {
	return a->allowed == b->allowed && a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns &&
	       a->reset_after_ns == b->reset_after_ns;
}

/* Makes `work` a repaired arena, or sees it refused, which only damage of the constant header may be. */
static bool repair(struct world *world, const struct range *damage, struct sluice_store *store) {
	struct sl_repair found;
	const char *problem;
	bool constants = damage->begin < offsetof(struct sl_header, anchors);
	if (sl_arena_refuse(world->work, ARENA_BYTES) != NULL) {
		if (!constants)
			complain(world, damage, "refused");
		world->refused++;
		return false;
	}
	if (constants) {
		complain(world, damage, "a header with a wrong check is taken for right");
		return false;
	}
	arena_attach(store, world->work, ARENA_SURVIVOR);
	sl_arena_repair(store, &found);
	world->repaired++;
	world->dropped += found.dropped;
	problem = arena_problem(store, world->units);
	if (problem != NULL)
		complain(world, damage, "after the repair: %s", problem);
	return true;
}

/* What the repaired arena says and does. `compare`: the damage is one whose reach is known. */
static void decide(struct world *world, const struct range *damage, struct sluice_store *store, bool compare,
                   const struct range *claimed, uint32_t claimed_count) {
	const char *problem;
	for (uint32_t i = 0; i < SUBJECTS + STRANGERS; i++) {
		const struct subject *s = &world->subjects[i];
		struct sluice_decision answer = ask(store, world, s, SLUICE_PEEK);
		if (!compare || s->slot_at == 0 || is_own_damage(world, s, damage) || is_claimed(s, claimed, claimed_count))
			continue;
		if (same(&answer, &s->answer))
			continue;
		complain(world, damage, "counter %s of %s, undamaged, has %" PRIu32 " left, had %" PRIu32, s->key,
		         notations[i % LIMITS], answer.remaining, s->answer.remaining);
		break;
	}
	for (uint32_t i = 0; i < SUBJECTS + STRANGERS; i++)
		(void)ask(store, world, &world->subjects[i], i % 7 == 0 ? SLUICE_REFUND : SLUICE_CHARGE);
	problem = arena_problem(store, world->units);
	if (problem != NULL)
		complain(world, damage, "after charges: %s", problem);
}

/* `work` is damaged in this range. */
static void face(struct world *world, const struct range *damage, bool compare) {
	struct range claimed[2 * SL_BUCKET_SLOTS * SL_PAGE_BUCKETS + 8];
	struct sluice_store store;
	uint32_t count = 0;
	if (sl_arena_refuse(world->work, ARENA_BYTES) == NULL) {
		arena_attach(&store, world->work, ARENA_SURVIVOR);
		count = claims(world, &store, damage, claimed, sizeof claimed / sizeof *claimed);
	}
	if (repair(world, damage, &store))
		decide(world, damage, &store, compare, claimed, count);
}

/* Damages one byte in one of WAYS ways. Returns false where that changes nothing. */
static bool damage_byte(struct world *world, size_t at, uint32_t way) {
	static const unsigned char numbers[KINDS] = {0, 0xff, 0, 1, 4, 0x7f, 0x80};
	struct range damage = {at, at + 1};
	unsigned char old = world->base[at], new = way < 8 ? old ^ (unsigned char)(1 << way) : numbers[way - 8];
	if (way == 10)
		new = (unsigned char)~old;
	if (new == old)
		return false;
	memcpy(world->work, world->base, ARENA_BYTES);
	world->work[at] = new;
	face(world, &damage, true);
	return true;
}

static void tell(const struct world *world, const char *what, uint64_t count) {
	printf("seed %" PRIu64 ": %" PRIu64 " %s: %" PRIu64 " refused, %" PRIu64 " repaired, %" PRIu64
	       " counters dropped\n",
	       dice_seed(), count, what, world->refused, world->repaired, world->dropped);
	assert_int_equal(world->complaints, 0);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void nothing_damaged_costs_nothing(void **state) {
	struct world *world = *state;
	struct range damage = {ARENA_BYTES, ARENA_BYTES};
	memcpy(world->work, world->base, ARENA_BYTES);
	face(world, &damage, true);
	assert_int_equal(world->dropped, 0);
	assert_int_equal(world->repaired, 1);
}

static void every_bit_of_the_header(void **state) {
	struct world *world = *state;
	uint64_t count = 0;
	for (size_t at = 0; at < sizeof(struct sl_header) + 8; at++)
		for (uint32_t way = 0; way < WAYS; way++)
			count += damage_byte(world, at, way);
	tell(world, "bytes of the header changed", count);
	assert_int_equal(world->dropped, 0);
}

/* Where damage matters most: slots and blocks that are in use, then what is derived from them, then anywhere. */
static size_t place_to_damage(const struct world *world, struct dice *dice) {
	const struct sl_header *header = world->at.header;
	const struct subject *s = &world->subjects[dice_below(dice, SUBJECTS)];
	size_t units_at = (size_t)(world->at.units - world->base);
	switch (dice_below(dice, 10)) {
	case 0:
	case 1:
	case 2:
		if (s->slot_at != 0)
			return s->slot_at - s->slot_at % SL_BUCKET_BYTES + dice_below(dice, SL_BUCKET_BYTES);
		break;
	case 3:
	case 4:
		if (s->block != 0)
			return units_at + s->block * SL_UNIT_BYTES + dice_below(dice, s->units * SL_UNIT_BYTES);
		break;
	case 5:
		if (s->block != 0)
			return units_at + s->block * SL_UNIT_BYTES + dice_below(dice, 16);
		break;
	case 6:
		return SL_BLOCKS_CONTROL_OFFSET + dice_below(dice, 1024 + 64);
	case 7:
		return header->map_offset + dice_below(dice, header->unit_count);
	case 8:
		return SL_PROCESSES_OFFSET + dice_below(dice, SL_PAGE_BYTES);
	default:
		break;
	}
	return dice_below(dice, ARENA_BYTES);
}

static void bytes_at_random(void **state) {
	struct world *world = *state;
	struct dice dice = dice_of(dice_seed(), 6);
	uint64_t count = CHANGES * (1 + arena_seconds() / 4);
	for (uint64_t i = 0; i < count; i++)
		while (!damage_byte(world, place_to_damage(world, &dice), (uint32_t)dice_below(&dice, WAYS)))
			continue;
	tell(world, "bytes changed at random", count);
	assert_true(world->repaired > 0);
}

static bool is_empty(const struct world *world, size_t at) {
	const unsigned char *line = world->base + (at - at % SL_UNIT_BYTES);
	return line[0] == 0 && memcmp(line, line + 1, SL_UNIT_BYTES - 1) == 0;
}

/* As far as the time goes, from a random place on: all ways for all bytes in lines that hold something, then one for
 * each of the others, where damage differs little. */
static void every_bit_of_every_byte(void **state) {
	struct world *world = *state;
	struct dice dice = dice_of(dice_seed(), 7);
	uint64_t end = arena_clock_ns() + sl_max(1, arena_seconds()) * ARENA_S, count = 0, bytes[2] = {0, 0};
	size_t first = dice_below(&dice, ARENA_BYTES);
	for (int empty = 0; empty < 2; empty++)
		for (size_t i = 0; i < ARENA_BYTES && arena_clock_ns() < end; i++) {
			size_t at = (first + i) % ARENA_BYTES;
			if (is_empty(world, at) != (empty != 0))
				continue;
			alarm(ALARM_S);
			for (uint32_t way = empty ? (uint32_t)dice_below(&dice, 8) : 0; way < WAYS; way += empty ? WAYS : 1)
				count += damage_byte(world, at, way);
			bytes[empty]++;
		}
	printf("seed %" PRIu64 ": %" PRIu64 " bytes where something is, %" PRIu64 " others, of %d from %zu on\n",
	       dice_seed(), bytes[0], bytes[1], ARENA_BYTES, first);
	tell(world, "changes of them", count);
	assert_true(count > 0);
}

/* Pages lost to a power cut. */
static void every_page_lost(void **state) {
	struct world *world = *state;
	struct dice dice = dice_of(dice_seed(), 8);
	for (size_t page = 0; page < ARENA_BYTES; page += SL_PAGE_BYTES) {
		struct range damage = {page, page + SL_PAGE_BYTES};
		memcpy(world->work, world->base, ARENA_BYTES);
		memset(world->work + page, 0, SL_PAGE_BYTES);
		if (memcmp(world->work + page, world->base + page, SL_PAGE_BYTES) == 0)
			continue;
		face(world, &damage, true);
		for (size_t i = 0; i < SL_PAGE_BYTES; i++)
			world->work[page + i] = (unsigned char)dice_bits(&dice);
		memcpy(world->work, world->base, page);
		memcpy(world->work + page + SL_PAGE_BYTES, world->base + page + SL_PAGE_BYTES,
		       ARENA_BYTES - page - SL_PAGE_BYTES);
		face(world, &damage, false);
	}
	tell(world, "pages lost or overwritten", world->refused + world->repaired);
}

/* Each page as it was at one of two instants: what a power cut leaves of a file that was being written back. */
static void pages_of_two_instants(void **state) {
	struct world *world = *state;
	struct dice dice = dice_of(dice_seed(), 9);
	struct range damage = {SL_PAGE_BYTES, ARENA_BYTES};
	unsigned char *earlier = malloc(ARENA_BYTES);
	uint64_t count = MIXES * (1 + arena_seconds() / 4);
	memcpy(earlier, world->base, ARENA_BYTES);
	for (uint64_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < SUBJECTS; k++)
			if (dice_one_in(&dice, 8)) {
				sluice_operation operation = dice_one_in(&dice, 5) ? SLUICE_RESET : SLUICE_CHARGE;
				(void)ask(&world->at, world, &world->subjects[k], operation);
			}
		world->now += ARENA_S;
		for (size_t page = 0; page < ARENA_BYTES; page += SL_PAGE_BYTES)
			memcpy(world->work + page, (dice_one_in(&dice, 2) ? earlier : world->base) + page, SL_PAGE_BYTES);
		face(world, &damage, false);
	}
	tell(world, "mixes of two instants", count);
	assert_int_equal(world->repaired, count);
	free(earlier);
}

/* ---- beside its users -------------------------------------------------------------------------------------------- */

/* Damages a few words, or a page, of any part, the header's constants included. */
static void damage_some(unsigned char *bytes, const struct world *world, struct dice *dice) {
	uint32_t count = 1 + (uint32_t)dice_below(dice, 12);
	if (dice_one_in(dice, 8)) {
		size_t page = dice_below(dice, ARENA_BYTES / SL_PAGE_BYTES) * SL_PAGE_BYTES;
		for (size_t i = 0; i < SL_PAGE_BYTES; i++)
			bytes[page + i] = (unsigned char)dice_bits(dice);
	}
	for (uint32_t i = 0; i < count; i++) {
		static const uint32_t numbers[] = {0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 64, 4096};
		size_t at = dice_one_in(dice, 8) ? dice_below(dice, 256) : place_to_damage(world, dice);
		uint32_t value = dice_one_in(dice, 2) ? (uint32_t)dice_bits(dice)
		                                      : numbers[dice_below(dice, sizeof numbers / sizeof *numbers)];
		memcpy(bytes + at / 4 * 4, &value, 4);
	}
}

static bool count_entry(void *context, const struct sl_entry *entry) {
	(void)entry;
	++*(uint64_t *)context;
	return true;
}

/* It may meet its own word in a lock. */
static sluice_ns no_clock(const struct sluice_store *store) {
	static sluice_ns now;
	(void)store;
	return now += SL_PATIENCE_NS;
}

static void no_rest(const struct sluice_store *store, sluice_ns ns) {
	(void)store;
	(void)ns;
}

/* Everything that a server does with a store that it has open. Answers may be anything, an error included. */
static void use(struct sluice_store *store, const struct world *world) {
	static const sluice_operation operations[] = {SLUICE_CHARGE, SLUICE_CHARGE, SLUICE_PEEK,  SLUICE_REFUND,
	                                              SLUICE_CHARGE, SLUICE_RESET,  SLUICE_CHARGE};
	struct sluice_limit leases = arena_limit("concurrency 40 lease 1h");
	uint64_t entries = 0;
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < SUBJECTS + STRANGERS; i++) {
			const struct subject *s = &world->subjects[i];
			struct sluice_item item = {.limit = s->limit, .key = sl_str(s->key)};
			struct sluice_call call = {.items = &item,
			                           .item_count = 1,
			                           .cost = 1 + i % 3,
			                           .operation = operations[(i + round) % 7],
			                           .now = world->now + i * ARENA_MS};
			(void)!sluice_decide(store, &call);
			call.operation = SLUICE_RESERVE;
			call.ttl_ns = 60 * ARENA_S;
			if (i % 5 == 0)
				(void)!sluice_decide(store, &call);
			item.limit = &leases;
			call.operation = SLUICE_ACQUIRE;
			call.id = sl_str(s->key);
			if (i % 7 == 0)
				(void)!sluice_decide(store, &call);
		}
	for (uint64_t page = 0; page < store->page_count; page++)
		(void)sl_store_scan(store, page, world->now, NULL, count_entry, &entries);
}

/* Whoever damages a store's file under a running server spoils counters; the server goes on. Memory that has gone
 * (a file that was truncated) is another matter. */
static void damage_beside_a_user_ends_nobody(void **state) {
	struct world *world = *state;
	struct dice dice = dice_of(dice_seed(), 12);
	uint64_t count = CHANGES / 8 * (1 + arena_seconds() / 4), ended = 0;
	for (uint64_t i = 0; i < count; i++) {
		struct sluice_store store;
		int status = 0;
		memcpy(world->work, world->base, ARENA_BYTES);
		arena_attach(&store, world->work, ARENA_SURVIVOR);
		damage_some(world->work, world, &dice);
		pid_t child = fork();
		if (child == 0) {
			struct sl_stalls stalls = {.looks = 100};
			store.stalls = &stalls;
			store.clock = no_clock;
			store.rest = no_rest;
			alarm(USE_ALARM_S);
			use(&store, world);
			_exit(0);
		}
		assert_true(child > 0 && waitpid(child, &status, 0) == child);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			if (ended++ < COMPLAINTS_TOLD)
				printf("change %" PRIu64 ": %s %d\n", i, WIFSIGNALED(status) ? "ended by signal" : "exit status",
				       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		}
	}
	printf("seed %" PRIu64 ": %" PRIu64 " changes beside a user, %" PRIu64 " of which ended it\n", dice_seed(), count,
	       ended);
	assert_int_equal(ended, 0);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t count) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
	close(fd);
}

/* Opens the file; where that works the store must be whole, and have `expected` of its key unless that is negative. */
static sluice_err open_damaged(const char *path, int64_t expected) {
	struct sluice_store_options options = {.file = path, .existing = true};
	struct sluice_limit limit = arena_limit("sliding-log 600/1h");
	struct sluice_error error = {0};
	struct sluice_decision decision;
	struct sluice_store *store;
	sluice_err err = sluice_store_open(&store, &options, &error);
	if (err != SLUICE_OK) {
		assert_true(error.text[0] != '\0');
		return err;
	}
	assert_null(sluice_store_verify(store));
	assert_int_equal(arena_call(store, SLUICE_PEEK, &limit, "kept", 1, sluice_store_now(store), &decision), SLUICE_OK);
	if (expected >= 0)
		assert_int_equal(decision.remaining, expected);
	assert_int_equal(sluice_check(store, &limit, sl_str("other"), 1, &decision), SLUICE_OK);
	assert_null(sluice_store_verify(store));
	sluice_store_close(store);
	return SLUICE_OK;
}

/* A file of 1 MiB with counters; its bytes. */
static unsigned char *make_file(const char *path) {
	struct sluice_store_options options = {.file = path, .memory_bytes = ARENA_BYTES};
	struct sluice_store *store = child_store(&options);
	struct sluice_limit limit = arena_limit("sliding-log 600/1h");
	unsigned char *bytes = malloc(ARENA_BYTES);
	struct sluice_decision decision;
	for (int i = 0; i < 100; i++)
		assert_int_equal(sluice_check(store, &limit, sl_str("kept"), 1, &decision), SLUICE_OK);
	sluice_store_close(store);
	FILE *file = fopen(path, "rb");
	assert_true(file != NULL && fread(bytes, 1, ARENA_BYTES, file) == ARENA_BYTES);
	fclose(file);
	return bytes;
}

static void every_truncation_of_a_file(void **state) {
	struct child_room room;
	char path[CHILD_PATH_MAX + 16];
	unsigned char *bytes;
	uint64_t count = 0;
	(void)state;
	child_room_open(&room, SL_PAGE_BYTES);
	snprintf(path, sizeof path, "%s/store", room.folder);
	bytes = make_file(path);
	assert_int_equal(open_damaged(path, 500), SLUICE_OK);
	write_file(path, bytes, ARENA_BYTES);
	for (size_t page = ARENA_BYTES; page > 0; page -= SL_PAGE_BYTES)
		for (size_t length = page == ARENA_BYTES ? page - 1 : page + 1; length >= page - 1; length--, count++) {
			assert_int_equal(truncate(path, (off_t)length), 0);
			assert_int_equal(open_damaged(path, 0), SLUICE_E_STORE);
		}
	for (size_t length = 64; length > 0; length--, count++) {
		write_file(path, bytes, length);
		assert_int_equal(open_damaged(path, 0), SLUICE_E_STORE);
	}
	for (int32_t more = 1; more <= SL_PAGE_BYTES; more += SL_PAGE_BYTES - 1, count++) {
		write_file(path, bytes, ARENA_BYTES);
		assert_int_equal(truncate(path, ARENA_BYTES + more), 0);
		sluice_err err = open_damaged(path, 500);
		assert_true(err == SLUICE_OK || err == SLUICE_E_STORE);
	}
	printf("%" PRIu64 " lengths of a file (no seed)\n", count);
	free(bytes);
	child_room_close(&room);
}

static void damaged_files(void **state) {
	struct child_room room;
	struct dice dice = dice_of(dice_seed(), 10);
	char path[CHILD_PATH_MAX + 16];
	unsigned char *bytes;
	uint64_t refused = 0, count = 200;
	(void)state;
	child_room_open(&room, SL_PAGE_BYTES);
	snprintf(path, sizeof path, "%s/store", room.folder);
	bytes = make_file(path);
	for (uint64_t i = 0; i < count; i++) {
		size_t at = dice_below(&dice, dice_one_in(&dice, 2) ? sizeof(struct sl_header) : ARENA_BYTES);
		unsigned char bit = (unsigned char)(1 << dice_below(&dice, 8));
		bool constants = at < offsetof(struct sl_header, anchors);
		bytes[at] ^= bit;
		write_file(path, bytes, ARENA_BYTES);
		bytes[at] ^= bit;
		assert_int_equal(open_damaged(path, at < sizeof(struct sl_header) ? 500 : -1),
		                 constants ? SLUICE_E_STORE : SLUICE_OK);
		refused += constants;
	}
	printf("seed %" PRIu64 ": %" PRIu64 " damaged files, %" PRIu64 " refused\n", dice_seed(), count, refused);
	free(bytes);
	child_room_close(&room);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void) {
	const struct CMUnitTest tests[] = {
		IN_A_WORLD(nothing_damaged_costs_nothing),
		IN_A_WORLD(every_bit_of_the_header),
		IN_A_WORLD(bytes_at_random),
		IN_A_WORLD(every_bit_of_every_byte),
		IN_A_WORLD(every_page_lost),
		IN_A_WORLD(pages_of_two_instants),
		IN_A_WORLD(damage_beside_a_user_ends_nobody),
		cmocka_unit_test(every_truncation_of_a_file),
		cmocka_unit_test(damaged_files),
	};
	return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
