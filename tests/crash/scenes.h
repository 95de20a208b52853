/* Every kind of call, each on an arena made ready for it: what the tests that let a caller die within it share.
 *
 * A scene is an arena with some counters, and one call that is about to be made. The answers of every counter, before
 * the call and after it, are known; wherever the caller dies, each counter has to be in one of those two states (a
 * refund's may lie between), nothing may be lost, and others must get on. */
#ifndef TESTS_CRASH_SCENES_H
#define TESTS_CRASH_SCENES_H

#include "tests/crash/arena.h"

enum { SCENE_SUBJECTS_MAX = 1024 };

/* A counter of the scene. */
struct scene_subject {
	struct sluice_limit limit;
	char key[24];
	const char *member;
	const struct sluice_terms *terms;
	struct sluice_decision before[2], after[2]; /* peeks of cost 1: at the call, and when its reservations have ended */
};

struct scene {
	const char *name;
	void *memory; /* ARENA_BYTES, shared with children */
	void *before; /* what stands there before the call */
	uint64_t units;
	sluice_ns now; /* of the call */
	struct scene_subject *subjects;
	uint32_t subject_count;
	struct sluice_store store; /* while it is being set up */
	struct sluice_item items[SLUICE_ITEMS_MAX];
	uint32_t item_count, cost;
	sluice_operation operation;
	const char *id;
	sluice_ns ttl_ns;
	const char *own;     /* not NULL: the call sets this quota of the key's own, or deletes it where that is empty */
	sluice_err err;      /* what the call says when nobody dies */
	uint64_t longest_ns; /* that a survivor has waited for an answer */
	char trouble[256];
	uint64_t complaints, complaints_here; /* in all scenes, and in this one */
};

/* How many there are. */
uint32_t scene_count(void);

/* Whether a scene's call takes tens of thousands of instructions: of ledgers with bundles. They come last. */
bool scene_is_long(uint32_t which);

/* Sets up scene `which`, 0..scene_count() - 1, the memory as before the call. `scene` is zeroed by the first caller,
 * and used again for the next scene. */
void scene_set(struct scene *scene, uint32_t which, uint64_t seed);

/* Makes memory what it was before the call. */
void scene_rewind(struct scene *scene);

/* Makes the call, as a process with this owner word, in the scene's memory. */
void scene_call(struct scene *scene, uint32_t owner);

/* The same call with another handle; and a peek of cost 1 at one of its counters, or another of the scene. */
sluice_err scene_try(const struct scene *scene, struct sluice_store *store);
sluice_err scene_peek(const struct scene *scene, struct sluice_store *store, uint32_t which);

/* Peeks of cost 1 at a counter at the call, and when its reservations have ended. */
void scene_peek_both(struct sluice_store *store, const struct scene *scene, uint32_t which,
                     struct sluice_decision both[2]);

/* What a survivor does first: asks for the counters of the call and takes a look at the blocks. */
void scene_touch(struct scene *scene, void *memory, uint32_t owner);

/* Looks at memory (the scene's, or a copy) as a survivor of this owner word would: counters of the call and all others,
 * then the structure, then makes the call again. Changes the memory. Returns NULL, or what is wrong. */
const char *scene_judge(struct scene *scene, void *memory, uint32_t owner);

/* Judges memory, and tells what is wrong of a death at `when` n.m, as often as one may want to read it in a scene. */
void scene_expect(struct scene *scene, void *memory, const char *when, uint64_t n, uint64_t m);

/* Gives back what it owns. */
void scene_free(struct scene *scene);

#endif
