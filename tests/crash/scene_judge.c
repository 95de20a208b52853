/* Looking at what a death within a scene's call has left: see scenes.h. */
#include "store/blocks.h"
#include "tests/crash/scenes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COMPLAINTS_A_SCENE = 3 };

static void touch(struct scene *scene, struct sluice_store *store) {
	struct sluice_call call = {
		.items = scene->items, .item_count = scene->item_count, .operation = SLUICE_PEEK, .cost = 1, .now = scene->now};
	if (sluice_decide(store, &call) != SLUICE_OK)
		abort();
	if (sl_blocks_begin(store) != SLUICE_OK)
		abort();
	sl_blocks_commit(store);
}

void scene_touch(struct scene *scene, void *memory, uint32_t owner) {
	struct sluice_store store;
	arena_attach(&store, memory, owner);
	touch(scene, &store);
}

static bool same(const struct sluice_decision *a, const struct sluice_decision *b) {
	return a->allowed == b->allowed && a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns &&
	       a->reset_after_ns == b->reset_after_ns && a->delay_ns == b->delay_ns;
}

static bool within(uint64_t x, uint64_t a, uint64_t b) {
	return x >= sl_min(a, b) && x <= sl_max(a, b);
}

/* As before or as after, at both instants: a counter and its reservations are one. A refund, which may take from
 * several sub-buckets or entries, may have been made in part; so may a reset of strikes and counter. */
static bool is_fine(const struct scene *scene, const struct scene_subject *s, const struct sluice_decision now[2]) {
	if ((same(&now[0], &s->before[0]) && same(&now[1], &s->before[1])) ||
	    (same(&now[0], &s->after[0]) && same(&now[1], &s->after[1])))
		return true;
	if (scene->operation == SLUICE_RESET && s->terms != NULL)
		return true;
	return scene->operation == SLUICE_REFUND &&
	       within(now[0].remaining, s->before[0].remaining, s->after[0].remaining) &&
	       within(now[0].reset_after_ns, s->before[0].reset_after_ns, s->after[0].reset_after_ns);
}

static const char *judge_subjects(struct scene *scene, struct sluice_store *store) {
	for (uint32_t i = 0; i < scene->subject_count; i++) {
		const struct scene_subject *s = &scene->subjects[i];
		struct sluice_decision now[2];
		char text[SLUICE_LIMIT_TEXT_MAX];
		scene_peek_both(store, scene, i, now);
		if (is_fine(scene, s, now))
			continue;
		sluice_limit_print(&s->limit, text);
		snprintf(scene->trouble, sizeof scene->trouble,
		         "%s of %s: remaining %" PRIu32 " (later %" PRIu32 "), reset %" PRIu64 "; before %" PRIu32 " (%" PRIu32
		         "), %" PRIu64 ", after %" PRIu32 " (%" PRIu32 "), %" PRIu64,
		         text, s->key, now[0].remaining, now[1].remaining, now[0].reset_after_ns, s->before[0].remaining,
		         s->before[1].remaining, s->before[0].reset_after_ns, s->after[0].remaining, s->after[1].remaining,
		         s->after[0].reset_after_ns);
		return scene->trouble;
	}
	return NULL;
}

/* Nobody else runs, so a survivor waits by running; what others on the machine take of the time is not its wait. */
static uint64_t processor_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

const char *scene_judge(struct scene *scene, void *memory, uint32_t owner) {
	struct sluice_store store;
	const char *problem;
	uint64_t start = processor_ns();
	sluice_err err;
	arena_attach(&store, memory, owner);
	touch(scene, &store);
	scene->longest_ns = sl_max(scene->longest_ns, processor_ns() - start);
	problem = judge_subjects(scene, &store);
	arena_settle(&store);
	problem = problem != NULL ? problem : arena_problem(&store, scene->units);
	if (problem != NULL)
		return problem;
	err = scene_try(scene, &store);
	if (err != SLUICE_OK && err != scene->err)
		return "the call made again is refused";
	return arena_problem(&store, scene->units);
}

void scene_expect(struct scene *scene, void *memory, const char *when, uint64_t n, uint64_t m) {
	const char *problem = scene_judge(scene, memory, ARENA_SURVIVOR);
	if (problem == NULL)
		return;
	scene->complaints++;
	if (scene->complaints_here++ < COMPLAINTS_A_SCENE)
		printf("%s, %s %" PRIu64 ".%" PRIu64 ": %s\n", scene->name, when, n, m, problem);
}
