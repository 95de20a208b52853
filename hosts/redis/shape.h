/* Shapes: the identities of counters that are packed into a pointer (value.h), each kept once and named by a number.
 *
 * A shape is kind and name (algo/rule.h) and an era of 2^32 ms, 49.7 days: what a packed counter says of its instant is
 * the rest. The table is small and fixed: whoever counts under more limits than it holds keeps counters unpacked. */
#ifndef SLR_SHAPE_H
#define SLR_SHAPE_H

#include "base/assert.h"
#include "base/bytes.h"

enum { SLR_SHAPES = 512, SLR_SHAPE_ERA_SHIFT = 32 };

struct slr_shape {
	uint64_t kind, name;
	uint32_t era;
	uint32_t users; /* packed counters of this shape; 0: free */
};

/* All of them, by their numbers. To be read through slr_shape_at() alone. */
extern struct slr_shape slr_shapes[SLR_SHAPES];

/* The shape of a number, 0..SLR_SHAPES - 1, that slr_shape_use() returned and has users still. */
static inline const struct slr_shape *slr_shape_at(uint32_t number) {
	SL_DEBUG_ASSERT(number < SLR_SHAPES);
	return &slr_shapes[number];
}

/* One more user of a shape, which is made if there is none. Returns its number, or -1: there is no room. Only from the
 * thread that decides. About 10 ns. */
int32_t slr_shape_use(uint64_t kind, uint64_t name, uint32_t era);

/* One more user of a shape that has users. */
void slr_shape_use_again(uint32_t number);

/* One user less. From any thread: Redis frees values in the background. */
void slr_shape_leave(uint32_t number);

#endif
