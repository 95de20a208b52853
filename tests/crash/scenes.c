/* Every kind of call; see scenes.h. */
#include "store/blocks.h"
#include "store/slot.h"
#include "tests/crash/scenes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ANYWHERE = -1, BYSTANDERS = 24, SPREAD = 40, LONG_SCENES = 10 };
#define TTL (25 * ARENA_S)

#define LOG "sliding-log 60/1m"
#define SUBS "sliding-buckets 60/1m precision 1s"
#define BUNDLED_LOG "sliding-log 900/1h"
#define BUNDLED_WINDOW "fixed-window 900/1h"
#define BUNDLED_BUCKET "token-bucket 900/1h"

static const char *const notations[] = {
	"fixed-window 60/1m", "sliding-window 60/1m", SUBS, LOG, "token-bucket 60/1m", "leaky-bucket 60/1m",
};
enum { NOTATIONS = sizeof notations / sizeof *notations };

/* ---- the pieces that scenes are made of -------------------------------------------------------------------------- */

/* A counter that nobody has charged yet, whose key lives in this bucket of this page. */
static struct scene_subject *subject_at(struct scene *scene, const char *notation, int64_t page, int64_t bucket) {
	struct scene_subject *subject = &scene->subjects[scene->subject_count];
	if (scene->subject_count == SCENE_SUBJECTS_MAX)
		abort();
	*subject = (struct scene_subject){.limit = arena_limit(notation)};
	for (uint32_t i = 0;; i++) {
		snprintf(subject->key, sizeof subject->key, "%" PRIu32 ":%" PRIu32, scene->subject_count, i);
		struct sl_place place = arena_place(&scene->store, &subject->limit, subject->key);
		if ((page == ANYWHERE || (uint64_t)page == arena_page(&scene->store, &place)) &&
		    (bucket == ANYWHERE || (uint64_t)bucket == arena_bucket(&place)))
			break;
	}
	scene->subject_count++;
	return subject;
}

static struct scene_subject *subject_of(struct scene *scene, const char *notation) {
	return subject_at(scene, notation, ANYWHERE, ANYWHERE);
}

static int64_t page_of(const struct scene *scene, const struct scene_subject *subject) {
	struct sl_place place = arena_place(&scene->store, &subject->limit, subject->key);
	return (int64_t)arena_page(&scene->store, &place);
}

static struct sl_slot *slot_of(const struct scene *scene, const struct scene_subject *subject) {
	struct sl_place place = arena_place(&scene->store, &subject->limit, subject->key);
	return sl_slot_find(&place);
}

static bool charge(struct scene *scene, struct scene_subject *subject, uint32_t cost) {
	struct sluice_decision decision;
	sluice_err err =
		arena_call(&scene->store, SLUICE_CHARGE, &subject->limit, subject->key, cost, scene->now, &decision);
	return err == SLUICE_OK && decision.allowed;
}

static void must_charge(struct scene *scene, struct scene_subject *subject, uint32_t cost) {
	if (!charge(scene, subject, cost))
		abort();
}

static struct sluice_item item_of(const struct scene_subject *subject) {
	return (struct sluice_item){.limit = &subject->limit,
	                            .key = sl_str(subject->key),
	                            .member = subject->member != NULL ? sl_str(subject->member) : sl_slice(NULL, 0),
	                            .terms = subject->terms};
}

/* The call will be made with this counter. */
static struct scene_subject *target(struct scene *scene, struct scene_subject *subject) {
	scene->items[scene->item_count++] = item_of(subject);
	return subject;
}

/* Any call with one counter, while the scene is set up. */
static void must_call(struct scene *scene, const struct scene_subject *subject, sluice_operation operation,
                      uint32_t cost, const char *id, sluice_ns ttl_ns) {
	struct sluice_item item = item_of(subject);
	struct sluice_call call = {.items = &item,
	                           .item_count = 1,
	                           .cost = cost,
	                           .operation = operation,
	                           .now = scene->now,
	                           .id = id != NULL ? sl_str(id) : sl_slice(NULL, 0),
	                           .ttl_ns = ttl_ns};
	if (sluice_decide(&scene->store, &call) != SLUICE_OK)
		abort();
}

static struct scene_subject *charged(struct scene *scene, struct scene_subject *subject) {
	must_charge(scene, subject, 1);
	scene->now += 3 * ARENA_MS;
	must_charge(scene, subject, 2);
	scene->now += 1500 * ARENA_MS;
	must_charge(scene, subject, 3);
	return subject;
}

/* Full with counters of this notation, all of them in use: until one had to go. */
static void fill_page(struct scene *scene, const char *notation, int64_t page, uint32_t cost) {
	while (scene->store.header->evicted == 0)
		must_charge(scene, subject_at(scene, notation, page, ANYWHERE), cost);
}

/* ---- the scenes -------------------------------------------------------------------------------------------------- */

static void new_counter(struct scene *scene, const char *notation) {
	target(scene, subject_of(scene, notation));
}

static void old_counter(struct scene *scene, const char *notation) {
	target(scene, charged(scene, subject_of(scene, notation)));
}

/* Charges all over the window. */
static void spread_counter(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, subject_of(scene, notation));
	for (int i = 0; i < SPREAD; i++, scene->now += ARENA_S)
		must_charge(scene, subject, 1);
}

/* More counters of one home than it has slots. */
static struct scene_subject *crowd(struct scene *scene, const char *notation) {
	struct scene_subject *subject = charged(scene, subject_of(scene, notation));
	struct sl_place place = arena_place(&scene->store, &subject->limit, subject->key);
	int64_t page = page_of(scene, subject), bucket = (int64_t)arena_bucket(&place);
	for (int i = 0; i < SL_BUCKET_SLOTS + 2; i++)
		subject = charged(scene, subject_at(scene, notation, page, bucket));
	return subject;
}

static void spilled_counter(struct scene *scene, const char *notation) {
	target(scene, crowd(scene, notation));
}

static void spilling_counter(struct scene *scene, const char *notation) {
	struct scene_subject *last = crowd(scene, notation);
	struct sl_place place = arena_place(&scene->store, &last->limit, last->key);
	target(scene, subject_at(scene, notation, page_of(scene, last), (int64_t)arena_bucket(&place)));
}

/* A page without a free slot. */
static void full_page(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, subject_of(scene, "token-bucket 60/1m"));
	fill_page(scene, notation, page_of(scene, subject), 5);
}

static void full_page_for_a_log(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, subject_of(scene, LOG));
	fill_page(scene, notation, page_of(scene, subject), 5);
}

/* The next charge needs a longer block. */
static void log_about_to_grow(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, charged(scene, subject_of(scene, notation)));
	uint32_t block = (uint32_t)sl_slot_state(slot_of(scene, subject))[1];
	for (;;) {
		memcpy(scene->before, scene->memory, ARENA_BYTES);
		scene->now += ARENA_MS;
		must_charge(scene, subject, scene->cost);
		if ((uint32_t)sl_slot_state(slot_of(scene, subject))[1] != block)
			break;
	}
	memcpy(scene->memory, scene->before, ARENA_BYTES);
}

static void three_new(struct scene *scene, const char *notation) {
	new_counter(scene, LOG);
	new_counter(scene, notation);
	new_counter(scene, SUBS);
}

static void three_old(struct scene *scene, const char *notation) {
	old_counter(scene, LOG);
	old_counter(scene, notation);
	old_counter(scene, SUBS);
}

static void sixteen(struct scene *scene, const char *notation) {
	(void)notation;
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		if (i % 3 == 0)
			new_counter(scene, notations[i % NOTATIONS]);
		else
			old_counter(scene, notations[(i + i / NOTATIONS) % NOTATIONS]);
}

/* A counter that was evicted comes back. */
static void evicted_counter(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, subject_of(scene, notation));
	int64_t page = page_of(scene, subject);
	must_charge(scene, subject, 2);
	while (slot_of(scene, subject) != NULL)
		must_charge(scene, subject_at(scene, "sliding-window 60/1m", page, ANYWHERE), 40);
	for (uint32_t i = scene->subject_count - 3; i < scene->subject_count; i++)
		(void)arena_call(&scene->store, SLUICE_RESET, &scene->subjects[i].limit, scene->subjects[i].key, 0, scene->now,
		                 NULL);
}

/* All blocks are taken, first by large ones. */
static void no_blocks(struct scene *scene, const char *notation) {
	while (scene->store.blocks->free_units >= 300)
		must_charge(scene, subject_of(scene, "sliding-buckets 60/4096s precision 1s"), 1);
	while (scene->store.blocks->free_units > 0 && scene->store.header->evicted == 0)
		must_charge(scene, subject_of(scene, "sliding-log 60/1h"), 1);
	target(scene, subject_of(scene, notation));
}

/* A charge, and reservations: two that end in a second, two that stay open for longer. */
static void reserved_counter(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, charged(scene, subject_of(scene, notation)));
	must_call(scene, subject, SLUICE_RESERVE, 9, "short", ARENA_S);
	scene->now += 100 * ARENA_MS;
	must_call(scene, subject, SLUICE_RESERVE, 7, "open", 20 * ARENA_S);
	must_call(scene, subject, SLUICE_RESERVE, 5, "shorter", ARENA_S / 2);
	scene->now += 100 * ARENA_MS;
	must_call(scene, subject, SLUICE_RESERVE, 3, "other", 15 * ARENA_S);
}

static void once_reserved(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, subject_of(scene, notation));
	must_call(scene, subject, SLUICE_RESERVE, 9, "open", 20 * ARENA_S);
}

/* So many reservations until one instant, which bundles hold from the 65th on: "open" among them. */
static void reserved_often(struct scene *scene, const char *notation, unsigned count) {
	struct scene_subject *subject = target(scene, charged(scene, subject_of(scene, notation)));
	char id[16];
	must_call(scene, subject, SLUICE_RESERVE, 7, "open", 20 * ARENA_S);
	for (unsigned i = 1; i < count; i++) {
		snprintf(id, sizeof id, "%u", i);
		must_call(scene, subject, SLUICE_RESERVE, 1 + i % 3, id, i % 8 == 0 ? i * ARENA_S : 20 * ARENA_S);
	}
}

static void full_ledger(struct scene *scene, const char *notation) {
	reserved_often(scene, notation, 64);
}

static void bundled(struct scene *scene, const char *notation) {
	reserved_often(scene, notation, 80);
}

/* Their contents have just no room for more. */
static void much_bundled(struct scene *scene, const char *notation) {
	reserved_often(scene, notation, 64 + 77);
}

/* Sixteen ledgers that are full. */
static void sixteen_full(struct scene *scene, const char *notation) {
	(void)notation;
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		reserved_often(scene, i % 2 == 0 ? "sliding-log 900/1h" : "sliding-buckets 900/1m precision 1s", 64);
}

static void three_reserved(struct scene *scene, const char *notation) {
	reserved_counter(scene, LOG);
	reserved_counter(scene, notation);
	reserved_counter(scene, SUBS);
}

/* Sixteen, each with what stands beside a counter. */
static void sixteen_reserved(struct scene *scene, const char *notation) {
	(void)notation;
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		if (i % 3 == 0)
			new_counter(scene, notations[i % NOTATIONS]);
		else
			once_reserved(scene, notations[i % NOTATIONS]);
}

static void held_lease(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, subject_of(scene, notation));
	must_call(scene, subject, SLUICE_ACQUIRE, 1, "a", 0);
	scene->now += ARENA_S;
	must_call(scene, subject, SLUICE_ACQUIRE, 2, "b", 0);
	scene->now += ARENA_S;
	must_call(scene, subject, SLUICE_ACQUIRE, 1, "open", 0);
}

static void lease_and_others(struct scene *scene, const char *notation) {
	held_lease(scene, "concurrency 9 lease 1m");
	old_counter(scene, notation);
	reserved_counter(scene, LOG);
	scene->items[2].ttl_ns = TTL;
}

static void new_member(struct scene *scene, const char *notation) {
	struct scene_subject *subject = subject_of(scene, notation);
	subject->member = "ann";
	target(scene, subject);
}

static void old_member(struct scene *scene, const char *notation) {
	struct scene_subject *subject = subject_of(scene, notation);
	static const char *const others[] = {"ann", "ben", "eve"};
	for (int i = 0; i < 3; i++, scene->now += ARENA_S) {
		subject->member = others[i];
		must_call(scene, subject, SLUICE_CHARGE, 1, NULL, 0);
	}
	subject->member = "ann";
	target(scene, subject);
}

/* Full, and every denial is charged. */
static void counts_denied(struct scene *scene, const char *notation) {
	static const struct sluice_terms terms = {.count_denied = true};
	struct scene_subject *subject = charged(scene, subject_of(scene, notation));
	subject->terms = &terms;
	target(scene, subject);
	must_charge(scene, subject, 54);
}

/* Denied twice, and the third is one too many. */
static void penalized(struct scene *scene, const char *notation) {
	static const struct sluice_terms terms = {.penalty_count = 1,
	                                          .after = 3,
	                                          .within_ns = 60 * ARENA_S,
	                                          .forgive_ns = 600 * ARENA_S,
	                                          .penalties_ns = {300 * ARENA_S}};
	struct scene_subject *subject = subject_of(scene, notation);
	subject->terms = &terms;
	target(scene, subject);
	must_charge(scene, subject, 60);
	must_call(scene, subject, SLUICE_CHARGE, 1, NULL, 0);
	must_call(scene, subject, SLUICE_CHARGE, 1, NULL, 0);
}

/* Half as much again as the limit says. */
static void with_own(struct scene *scene, const char *notation) {
	struct scene_subject *subject = target(scene, charged(scene, subject_of(scene, notation)));
	struct sluice_limit own = subject->limit;
	struct sluice_override_request request = {
		.limit = &subject->limit, .key = sl_str(subject->key), .own = &own, .ttl_ns = 2 * TTL};
	bool drains = sl_rule_has(&own, SL_DRAINS);
	if (!sl_rule_requota(&own, drains ? own.quota : 90, drains ? 90 : 0, 0))
		abort();
	if (sluice_override_set(&scene->store, &request, scene->now, NULL) != SLUICE_OK)
		abort();
}

/* Most scenes leave out the last column. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const struct {
	const char *name;
	void (*set)(struct scene *, const char *notation);
	const char *notation;
	sluice_operation operation;
	uint32_t cost;
	sluice_ns ahead_ns; /* of the last charge */
	const char *id;
	sluice_ns ttl_ns;
	const char *own;
} scenes[] = {
	{"new fixed-window", new_counter, "fixed-window 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"new sliding-window", new_counter, "sliding-window 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"new sliding-buckets", new_counter, SUBS, SLUICE_CHARGE, 1, 0, NULL, 0},
	{"new sliding-log", new_counter, LOG, SLUICE_CHARGE, 1, 0, NULL, 0},
	{"new sliding-log of cost 7", new_counter, LOG, SLUICE_CHARGE, 7, 0, NULL, 0},
	{"new token-bucket", new_counter, "token-bucket 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"new leaky-bucket", new_counter, "leaky-bucket 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"fixed-window", old_counter, "fixed-window 60/1m", SLUICE_CHARGE, 2, ARENA_S, NULL, 0},
	{"sliding-window", old_counter, "sliding-window 60/1m", SLUICE_CHARGE, 2, ARENA_S, NULL, 0},
	{"sliding-window, next window", old_counter, "sliding-window 60/1m", SLUICE_CHARGE, 2, 60 * ARENA_S, NULL, 0},
	{"sliding-window, idle for long", old_counter, "sliding-window 60/1m", SLUICE_CHARGE, 2, 600 * ARENA_S, NULL, 0},
	{"sliding-buckets", old_counter, SUBS, SLUICE_CHARGE, 2, 0, NULL, 0},
	{"sliding-buckets, weighted", old_counter, SUBS " edge weighted", SLUICE_CHARGE, 2, 700 * ARENA_MS, NULL, 0},
	{"sliding-buckets, three on", spread_counter, SUBS, SLUICE_CHARGE, 2, 3 * ARENA_S, NULL, 0},
	{"sliding-buckets, thirty on", spread_counter, SUBS, SLUICE_CHARGE, 2, 30 * ARENA_S, NULL, 0},
	{"sliding-buckets, idle for long", spread_counter, SUBS, SLUICE_CHARGE, 2, 100 * ARENA_S, NULL, 0},
	{"sliding-log", old_counter, LOG, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"sliding-log of 1, then 5", new_counter, LOG, SLUICE_CHARGE, 5, ARENA_S, NULL, 0},
	{"sliding-log, weighted", old_counter, LOG, SLUICE_CHARGE, 5, ARENA_S, NULL, 0},
	{"sliding-log, spread", spread_counter, LOG, SLUICE_CHARGE, 1, 0, NULL, 0},
	{"sliding-log, spread, then 5", spread_counter, LOG, SLUICE_CHARGE, 5, 0, NULL, 0},
	{"sliding-log, half expired", spread_counter, LOG, SLUICE_CHARGE, 1, 40 * ARENA_S, NULL, 0},
	{"sliding-log, half expired, then 5", spread_counter, LOG, SLUICE_CHARGE, 5, 40 * ARENA_S, NULL, 0},
	{"sliding-log, all expired", spread_counter, LOG, SLUICE_CHARGE, 1, 61 * ARENA_S, NULL, 0},
	{"sliding-log that grows", log_about_to_grow, "sliding-log 4000/1m", SLUICE_CHARGE, 1, ARENA_MS, NULL, 0},
	{"sliding-log that grows, weighted", log_about_to_grow, "sliding-log 4000/1m", SLUICE_CHARGE, 3, ARENA_MS, NULL, 0},
	{"sliding-log of hours that grows", log_about_to_grow, "sliding-log 4000/1h", SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"token-bucket", old_counter, "token-bucket 60/1m", SLUICE_CHARGE, 2, ARENA_S, NULL, 0},
	{"leaky-bucket", old_counter, "leaky-bucket 60/1m", SLUICE_CHARGE, 2, ARENA_S, NULL, 0},
	{"spilling", spilling_counter, "sliding-window 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"spilling log", spilling_counter, LOG, SLUICE_CHARGE, 1, 0, NULL, 0},
	{"spilled", spilled_counter, "sliding-window 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"spilled log", spilled_counter, LOG, SLUICE_CHARGE, 1, 0, NULL, 0},
	{"reset of a spilled one", spilled_counter, "token-bucket 60/1m", SLUICE_RESET, 0, 0, NULL, 0},
	{"reset of a spilled log", spilled_counter, LOG, SLUICE_RESET, 0, 0, NULL, 0},
	{"home of expired ones", spilling_counter, "sliding-window 60/1m", SLUICE_CHARGE, 1, 300 * ARENA_S, NULL, 0},
	{"home of expired logs", spilling_counter, LOG, SLUICE_CHARGE, 1, 300 * ARENA_S, NULL, 0},
	{"page of expired ones", full_page, "sliding-window 60/1m", SLUICE_CHARGE, 1, 300 * ARENA_S, NULL, 0},
	{"page of expired logs", full_page, LOG, SLUICE_CHARGE, 1, 300 * ARENA_S, NULL, 0},
	{"full page", full_page, "sliding-window 60/1m", SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"full page of logs", full_page, LOG, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"full page of logs, log", full_page_for_a_log, LOG, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"full page of sub-buckets, log", full_page_for_a_log, SUBS, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"refund, fixed-window", spread_counter, "fixed-window 60/1m", SLUICE_REFUND, 5, 0, NULL, 0},
	{"refund, sliding-window", spread_counter, "sliding-window 60/1m", SLUICE_REFUND, 5, 30 * ARENA_S, NULL, 0},
	{"refund, sliding-buckets", spread_counter, SUBS, SLUICE_REFUND, 5, 0, NULL, 0},
	{"refund, sliding-buckets later", spread_counter, SUBS, SLUICE_REFUND, 5, 25 * ARENA_S, NULL, 0},
	{"refund, sliding-log", spread_counter, LOG, SLUICE_REFUND, 5, 0, NULL, 0},
	{"refund, weighted sliding-log", old_counter, LOG, SLUICE_REFUND, 4, 0, NULL, 0},
	{"refund of a whole sliding-log", spread_counter, LOG, SLUICE_REFUND, 50, 25 * ARENA_S, NULL, 0},
	{"refund, token-bucket", spread_counter, "token-bucket 60/1h", SLUICE_REFUND, 5, 0, NULL, 0},
	{"refund, leaky-bucket", spread_counter, "leaky-bucket 60/1h", SLUICE_REFUND, 5, 0, NULL, 0},
	{"refund of three", three_old, "token-bucket 60/1h", SLUICE_REFUND, 3, 0, NULL, 0},
	{"reset", old_counter, "token-bucket 60/1m", SLUICE_RESET, 0, 0, NULL, 0},
	{"reset of a log", spread_counter, LOG, SLUICE_RESET, 0, 0, NULL, 0},
	{"reset of three", three_old, "token-bucket 60/1m", SLUICE_RESET, 0, 0, NULL, 0},
	{"three new ones", three_new, "token-bucket 60/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"three old ones", three_old, "sliding-window 60/1m", SLUICE_CHARGE, 2, ARENA_S, NULL, 0},
	{"three expired ones", three_old, "sliding-window 60/1m", SLUICE_CHARGE, 2, 400 * ARENA_S, NULL, 0},
	{"sixteen", sixteen, NULL, SLUICE_CHARGE, 2, ARENA_S, NULL, 0},
	{"reset of sixteen", sixteen, NULL, SLUICE_RESET, 0, ARENA_S, NULL, 0},
	{"evicted sliding-window", evicted_counter, "sliding-window 60/1m", SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"evicted token-bucket", evicted_counter, "token-bucket 60/1m", SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"evicted sliding-log", evicted_counter, LOG, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"evicted sliding-buckets", evicted_counter, SUBS, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"no blocks, expired ones", no_blocks, LOG, SLUICE_CHARGE, 1, 20000 * ARENA_S, NULL, 0},
	{"no blocks", no_blocks, LOG, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"no blocks for sub-buckets", no_blocks, SUBS, SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"reserve, new fixed-window", new_counter, "fixed-window 60/1m", SLUICE_RESERVE, 5, 0, "new", TTL},
	{"reserve, fixed-window, some ended", reserved_counter, "fixed-window 60/1m", SLUICE_RESERVE, 5, 2 * ARENA_S, "new",
     TTL},
	{"charge, fixed-window, some ended", reserved_counter, "fixed-window 60/1m", SLUICE_CHARGE, 5, 2 * ARENA_S, NULL,
     0},
	{"charge, fixed-window, all ended", reserved_counter, "fixed-window 60/1m", SLUICE_CHARGE, 5, 21 * ARENA_S, NULL,
     0},
	{"commit, fixed-window", reserved_counter, "fixed-window 60/1m", SLUICE_COMMIT, 2, 2 * ARENA_S, "open", 0},
	{"commit above, fixed-window", once_reserved, "fixed-window 60/1m", SLUICE_COMMIT, 30, 2 * ARENA_S, "open", 0},
	{"reserve, new sliding-window", new_counter, "sliding-window 60/1m", SLUICE_RESERVE, 5, 0, "new", TTL},
	{"reserve, sliding-window, some ended", reserved_counter, "sliding-window 60/1m", SLUICE_RESERVE, 5, 2 * ARENA_S,
     "new", TTL},
	{"charge, sliding-window, some ended", reserved_counter, "sliding-window 60/1m", SLUICE_CHARGE, 5, 2 * ARENA_S,
     NULL, 0},
	{"charge, sliding-window, all ended", reserved_counter, "sliding-window 60/1m", SLUICE_CHARGE, 5, 21 * ARENA_S,
     NULL, 0},
	{"commit, sliding-window", reserved_counter, "sliding-window 60/1m", SLUICE_COMMIT, 2, 2 * ARENA_S, "open", 0},
	{"commit above, sliding-window", once_reserved, "sliding-window 60/1m", SLUICE_COMMIT, 30, 2 * ARENA_S, "open", 0},
	{"reserve, new sliding-buckets", new_counter, SUBS, SLUICE_RESERVE, 5, 0, "new", TTL},
	{"reserve, sliding-buckets, some ended", reserved_counter, SUBS, SLUICE_RESERVE, 5, 2 * ARENA_S, "new", TTL},
	{"charge, sliding-buckets, some ended", reserved_counter, SUBS, SLUICE_CHARGE, 5, 2 * ARENA_S, NULL, 0},
	{"charge, sliding-buckets, all ended", reserved_counter, SUBS, SLUICE_CHARGE, 5, 21 * ARENA_S, NULL, 0},
	{"commit, sliding-buckets", reserved_counter, SUBS, SLUICE_COMMIT, 2, 2 * ARENA_S, "open", 0},
	{"commit above, sliding-buckets", once_reserved, SUBS, SLUICE_COMMIT, 30, 2 * ARENA_S, "open", 0},
	{"reserve, new sliding-log", new_counter, LOG, SLUICE_RESERVE, 5, 0, "new", TTL},
	{"reserve, sliding-log, some ended", reserved_counter, LOG, SLUICE_RESERVE, 5, 2 * ARENA_S, "new", TTL},
	{"charge, sliding-log, some ended", reserved_counter, LOG, SLUICE_CHARGE, 5, 2 * ARENA_S, NULL, 0},
	{"charge, sliding-log, all ended", reserved_counter, LOG, SLUICE_CHARGE, 5, 21 * ARENA_S, NULL, 0},
	{"commit, sliding-log", reserved_counter, LOG, SLUICE_COMMIT, 2, 2 * ARENA_S, "open", 0},
	{"commit above, sliding-log", once_reserved, LOG, SLUICE_COMMIT, 30, 2 * ARENA_S, "open", 0},
	{"reserve, new token-bucket", new_counter, "token-bucket 60/1h", SLUICE_RESERVE, 5, 0, "new", TTL},
	{"reserve, token-bucket, some ended", reserved_counter, "token-bucket 60/1h", SLUICE_RESERVE, 5, 2 * ARENA_S, "new",
     TTL},
	{"charge, token-bucket, some ended", reserved_counter, "token-bucket 60/1h", SLUICE_CHARGE, 5, 2 * ARENA_S, NULL,
     0},
	{"charge, token-bucket, all ended", reserved_counter, "token-bucket 60/1h", SLUICE_CHARGE, 5, 21 * ARENA_S, NULL,
     0},
	{"commit, token-bucket", reserved_counter, "token-bucket 60/1h", SLUICE_COMMIT, 2, 2 * ARENA_S, "open", 0},
	{"commit above, token-bucket", once_reserved, "token-bucket 60/1h", SLUICE_COMMIT, 30, 2 * ARENA_S, "open", 0},
	{"reserve, new leaky-bucket", new_counter, "leaky-bucket 60/1h", SLUICE_RESERVE, 5, 0, "new", TTL},
	{"reserve, leaky-bucket, some ended", reserved_counter, "leaky-bucket 60/1h", SLUICE_RESERVE, 5, 2 * ARENA_S, "new",
     TTL},
	{"charge, leaky-bucket, some ended", reserved_counter, "leaky-bucket 60/1h", SLUICE_CHARGE, 5, 2 * ARENA_S, NULL,
     0},
	{"charge, leaky-bucket, all ended", reserved_counter, "leaky-bucket 60/1h", SLUICE_CHARGE, 5, 21 * ARENA_S, NULL,
     0},
	{"commit, leaky-bucket", reserved_counter, "leaky-bucket 60/1h", SLUICE_COMMIT, 2, 2 * ARENA_S, "open", 0},
	{"commit above, leaky-bucket", once_reserved, "leaky-bucket 60/1h", SLUICE_COMMIT, 30, 2 * ARENA_S, "open", 0},
	{"reserve, sliding-log, none ended", once_reserved, LOG, SLUICE_RESERVE, 5, ARENA_S, "new", TTL},
	{"reserve, sliding-buckets, none ended", once_reserved, SUBS, SLUICE_RESERVE, 5, ARENA_S, "new", TTL},
	{"reserve, token-bucket, none ended", once_reserved, "token-bucket 60/1h", SLUICE_RESERVE, 5, ARENA_S, "new", TTL},
	{"charge, sliding-log, none ended", once_reserved, LOG, SLUICE_CHARGE, 5, ARENA_S, NULL, 0},
	{"charge, sliding-buckets, none ended", once_reserved, SUBS, SLUICE_CHARGE, 5, ARENA_S, NULL, 0},
	{"charge, token-bucket, none ended", once_reserved, "token-bucket 60/1h", SLUICE_CHARGE, 5, ARENA_S, NULL, 0},
	{"refund where some ended", reserved_counter, "fixed-window 60/1m", SLUICE_REFUND, 2, 2 * ARENA_S, NULL, 0},
	{"refund of a log where some ended", reserved_counter, LOG, SLUICE_REFUND, 2, 2 * ARENA_S, NULL, 0},
	{"reset of reservations", reserved_counter, LOG, SLUICE_RESET, 0, 2 * ARENA_S, NULL, 0},
	{"reserve at three", three_reserved, "token-bucket 60/1h", SLUICE_RESERVE, 2, 0, "new", TTL},
	{"commit at three", three_reserved, "token-bucket 60/1h", SLUICE_COMMIT, 1, 2 * ARENA_S, "open", 0},
	{"reserve at sixteen", sixteen_reserved, NULL, SLUICE_RESERVE, 2, ARENA_S, "new", TTL},
	{"commit at sixteen", sixteen_reserved, NULL, SLUICE_COMMIT, 1, ARENA_S, "open", 0},
	{"first lease", new_counter, "concurrency 9 lease 1m", SLUICE_ACQUIRE, 1, 0, "new", 0},
	{"first lease of cost 3", new_counter, "concurrency 9 lease 1m", SLUICE_ACQUIRE, 3, 0, "new", 0},
	{"acquire", held_lease, "concurrency 9 lease 1m", SLUICE_ACQUIRE, 2, ARENA_S, "new", 0},
	{"acquire where some ended", held_lease, "concurrency 9 lease 10s", SLUICE_ACQUIRE, 2, 9 * ARENA_S, "new", 0},
	{"release", held_lease, "concurrency 9 lease 1m", SLUICE_RELEASE, 0, ARENA_S, "b", 0},
	{"renew", held_lease, "concurrency 9 lease 1m", SLUICE_RENEW, 0, 30 * ARENA_S, "a", 0},
	{"lease, charge and reservation", lease_and_others, "sliding-window 60/1m", SLUICE_ACQUIRE, 2, ARENA_S, "new", 0},
	{"first member", new_member, "distinct 3/1m", SLUICE_CHARGE, 1, 0, NULL, 0},
	{"new member", new_member, "distinct 9/1m", SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"member, known", old_member, "distinct 3/1m", SLUICE_CHARGE, 1, 30 * ARENA_S, NULL, 0},
	{"member, place of another", old_member, "distinct 3/1m", SLUICE_CHARGE, 1, 60 * ARENA_S, NULL, 0},
	{"member, forgotten", old_member, "distinct 3/1m", SLUICE_REFUND, 1, ARENA_S, NULL, 0},
	{"charge that may be retried", old_counter, "leaky-bucket 60/1h", SLUICE_CHARGE, 2, ARENA_S, "r", 0},
	{"three that may be retried", three_new, "token-bucket 60/1m", SLUICE_CHARGE, 1, 0, "r", 0},
	{"denial that counts", counts_denied, "sliding-window 60/1m", SLUICE_CHARGE, 3, ARENA_S, NULL, 0},
	{"denial that counts in a log", counts_denied, LOG, SLUICE_CHARGE, 3, ARENA_S, NULL, 0},
	{"denial that counts in sub-buckets", counts_denied, SUBS, SLUICE_CHARGE, 3, ARENA_S, NULL, 0},
	{"strike that shuts out", penalized, "sliding-window 60/1m", SLUICE_CHARGE, 1, ARENA_S, NULL, 0},
	{"reset of strikes", penalized, "sliding-window 60/1m", SLUICE_RESET, 0, ARENA_S, NULL, 0},
	{"first quota of its own", old_counter, "sliding-window 60/1m", .own = "90/1m"},
	{"first quota of its own, no counter", new_counter, LOG, .own = "sliding-log 90/1m", .ttl_ns = TTL},
	{"another quota of its own", with_own, "token-bucket 60/1m", .own = "token-bucket 60/1m burst 70", .ttl_ns = TTL},
	{"quota of its own for longer", with_own, "sliding-window 60/1m", .own = "90/1m", .ttl_ns = 4 * TTL},
	{"quota of its own, deleted", with_own, "sliding-window 60/1m", .own = ""},
	{"quota of its own, full page", full_page, "sliding-window 60/1m", .own = "token-bucket 60/1m burst 90",
     .ahead_ns = ARENA_S},
	{"quota of its own, no blocks", no_blocks, LOG, .own = "sliding-log 90/1m", .ahead_ns = ARENA_S},
	{"charge by a quota of its own", with_own, "sliding-window 60/1m", SLUICE_CHARGE, 70, ARENA_S, NULL, 0},
	{"reset beside a quota of its own", with_own, "sliding-window 60/1m", SLUICE_RESET, 0, ARENA_S, NULL, 0},
	{"reserve, first bundle, fixed-window", full_ledger, BUNDLED_WINDOW, SLUICE_RESERVE, 5, ARENA_S, "new", TTL},
	{"reserve, longer contents, fixed-window", much_bundled, BUNDLED_WINDOW, SLUICE_RESERVE, 5, 0, "new", 20 * ARENA_S},
	{"commit, bundled, fixed-window", bundled, BUNDLED_WINDOW, SLUICE_COMMIT, 2, ARENA_S, "open", 0},
	{"charge, bundles ended, fixed-window", bundled, BUNDLED_WINDOW, SLUICE_CHARGE, 5, 21 * ARENA_S, NULL, 0},
	{"reserve, bundled, sliding-log", bundled, BUNDLED_LOG, SLUICE_RESERVE, 5, ARENA_S, "new", TTL},
	{"commit, bundled, sliding-log", bundled, BUNDLED_LOG, SLUICE_COMMIT, 2, ARENA_S, "open", 0},
	{"charge, bundles ended, sliding-log", bundled, BUNDLED_LOG, SLUICE_CHARGE, 5, 21 * ARENA_S, NULL, 0},
	{"commit, bundled, token-bucket", bundled, BUNDLED_BUCKET, SLUICE_COMMIT, 2, ARENA_S, "open", 0},
	{"charge, bundles ended, token-bucket", bundled, BUNDLED_BUCKET, SLUICE_CHARGE, 5, 21 * ARENA_S, NULL, 0},
	{"reserve, sixteen full", sixteen_full, "", SLUICE_RESERVE, 5, ARENA_S, "new", TTL},
};

uint32_t scene_count(void) {
	return sizeof scenes / sizeof *scenes;
}

bool scene_is_long(uint32_t which) {
	return which >= scene_count() - LONG_SCENES;
}

/* ---- setting up and looking -------------------------------------------------------------------------------------- */

static sluice_err try_peek(struct sluice_store *store, const struct scene *scene, uint32_t which, sluice_ns ahead_ns,
                           struct sluice_decision *decision) {
	struct sluice_item item = item_of(&scene->subjects[which]);
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = 1, .operation = SLUICE_PEEK, .now = scene->now + ahead_ns};
	item.member = sl_slice(NULL, 0); /* a stranger */
	sluice_err err = sluice_decide(store, &call);
	*decision = call.merged;
	return err;
}

static struct sluice_decision peek(struct sluice_store *store, const struct scene *scene, uint32_t which,
                                   sluice_ns ahead_ns) {
	struct sluice_decision decision;
	if (try_peek(store, scene, which, ahead_ns, &decision) != SLUICE_OK)
		abort();
	return decision;
}

sluice_err scene_peek(const struct scene *scene, struct sluice_store *store, uint32_t which) {
	struct sluice_decision ignored;
	return try_peek(store, scene, which, 0, &ignored);
}

void scene_peek_both(struct sluice_store *store, const struct scene *scene, uint32_t which,
                      struct sluice_decision both[2]) {
	both[0] = peek(store, scene, which, 0);
	both[1] = peek(store, scene, which, TTL);
}

void scene_set(struct scene *scene, uint32_t which, uint64_t seed) {
	if (scene->memory == NULL) {
		scene->memory = arena_map();
		scene->before = malloc(ARENA_BYTES);
		scene->subjects = calloc(SCENE_SUBJECTS_MAX, sizeof *scene->subjects);
	}
	if (scene->before == NULL || scene->subjects == NULL)
		abort();
	scene->subject_count = scene->item_count = 0;
	scene->complaints_here = 0;
	scene->name = scenes[which].name;
	scene->cost = scenes[which].cost;
	scene->operation = scenes[which].operation;
	scene->id = scenes[which].id;
	scene->ttl_ns = scenes[which].ttl_ns;
	scene->own = scenes[which].own;
	scene->now = ARENA_START_NS + 7 * ARENA_S;
	arena_format(scene->memory, seed + which);
	arena_attach(&scene->store, scene->memory, ARENA_VICTIM);
	scene->units = scene->store.blocks->free_units;
	for (int i = 0; i < BYSTANDERS; i++)
		must_charge(scene, subject_of(scene, notations[i % NOTATIONS]), 1 + (uint32_t)i % 5);
	scenes[which].set(scene, scenes[which].notation);
	scene->now += scenes[which].ahead_ns;

	memcpy(scene->before, scene->memory, ARENA_BYTES);
	for (uint32_t i = 0; i < scene->subject_count; i++)
		scene_peek_both(&scene->store, scene, i, scene->subjects[i].before);
	scene_call(scene, ARENA_VICTIM);
	for (uint32_t i = 0; i < scene->subject_count; i++)
		scene_peek_both(&scene->store, scene, i, scene->subjects[i].after);
	scene_rewind(scene);
}

void scene_rewind(struct scene *scene) {
	memcpy(scene->memory, scene->before, ARENA_BYTES);
}

static sluice_err try_own(const struct scene *scene, struct sluice_store *store) {
	const struct sluice_item *item = scene->items;
	struct sluice_limit own;
	sluice_err err;
	if (scene->own[0] == '\0') {
		err = sluice_override_delete(store, item->limit, item->key, scene->now);
		return err == SLUICE_E_NONE ? SLUICE_OK : err; /* made again */
	}
	own = arena_limit(scene->own);
	return sluice_override_set(
		store,
		&(struct sluice_override_request){.limit = item->limit, .key = item->key, .own = &own, .ttl_ns = scene->ttl_ns},
		scene->now, NULL);
}

sluice_err scene_try(const struct scene *scene, struct sluice_store *store) {
	if (scene->own != NULL)
		return try_own(scene, store);
	struct sluice_call call = {.items = scene->items,
	                           .item_count = scene->item_count,
	                           .cost = scene->cost,
	                           .operation = scene->operation,
	                           .now = scene->now,
	                           .id = scene->id != NULL ? sl_str(scene->id) : sl_slice(NULL, 0),
	                           .ttl_ns = scene->ttl_ns};
	return sluice_decide(store, &call);
}

void scene_call(struct scene *scene, uint32_t owner) {
	struct sluice_store store;
	arena_attach(&store, scene->memory, owner);
	scene->err = scene_try(scene, &store);
}

void scene_free(struct scene *scene) {
	if (scene->memory != NULL)
		munmap(scene->memory, ARENA_BYTES);
	free(scene->before);
	free(scene->subjects);
}
