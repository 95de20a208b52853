/* The table of shapes. A shape may stand in WAYS places from where its hash points; all of them are looked at, so one
 * that is given up leaves no hole that a search would stop at.
 *
 * I1  Only the thread that decides makes shapes and adds users; any thread takes users away. So a shape with users
 *     found by the deciding thread is there, and one that it finds free is nobody's. */
#include "hosts/redis/shape.h"

enum { WAYS = 16 };

struct slr_shape slr_shapes[SLR_SHAPES];

static uint32_t users_of(const struct slr_shape *shape) {
	return __atomic_load_n(&shape->users, __ATOMIC_ACQUIRE); /* pairs with slr_shape_leave() */
}

static uint32_t place_of(uint64_t kind, uint64_t name, uint32_t era) {
	uint64_t hash = (kind ^ (name << 7 | name >> 57) ^ era) * 0x9e3779b97f4a7c15;
	return (uint32_t)(hash >> (64 - 9));
}

_Static_assert(SLR_SHAPES == 1 << 9, "the hash's upper bits number the shapes");

int32_t slr_shape_use(uint64_t kind, uint64_t name, uint32_t era) {
	uint32_t first = place_of(kind, name, era);
	int32_t free_one = -1;
	for (uint32_t i = 0; i < WAYS; i++) {
		uint32_t number = (first + i) % SLR_SHAPES;
		struct slr_shape *shape = &slr_shapes[number];
		if (users_of(shape) == 0) {
			free_one = free_one < 0 ? (int32_t)number : free_one;
		} else if (shape->kind == kind && shape->name == name && shape->era == era) {
			slr_shape_use_again(number);
			return (int32_t)number;
		}
	}
	if (free_one >= 0)
		slr_shapes[free_one] = (struct slr_shape){kind, name, era, 1};
	return free_one;
}

void slr_shape_use_again(uint32_t number) {
	SL_DEBUG_ASSERT(number < SLR_SHAPES);
	__atomic_fetch_add(&slr_shapes[number].users, 1, __ATOMIC_RELAXED);
}

void slr_shape_leave(uint32_t number) {
	SL_DEBUG_ASSERT(number < SLR_SHAPES);
	/* release; pairs with users_of(): who finds it free finds nobody reading it */
	uint32_t before = __atomic_fetch_sub(&slr_shapes[number].users, 1, __ATOMIC_RELEASE);
	SL_ASSERT(before != 0);
}
