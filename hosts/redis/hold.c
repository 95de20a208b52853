/* The list of a counter's holds. It is short: a front keeps one lease of a hot key, and holds while a request is
 * between two slots. So everything walks it. */
#include "hosts/redis/hold.h"

#include "hosts/redis/memory.h"

enum { ROOM_MIN = 2 };

int32_t slr_holds_find(const struct slr_holds *holds, uint64_t id, uint32_t lease) {
	for (uint32_t i = 0; holds != NULL && i < holds->count; i++)
		if (holds->list[i].id == id && holds->list[i].lease == lease)
			return (int32_t)i;
	return -1;
}

uint32_t slr_holds_ended(const struct slr_holds *holds, sluice_ns now) {
	uint32_t ended = 0;
	while (holds != NULL && ended < holds->count && holds->list[ended].end <= now)
		ended++;
	return ended;
}

static struct slr_holds *with_room(const struct slr_holds *holds, uint32_t room) {
	struct slr_holds *made = slr_take(sizeof *made + room * sizeof made->list[0]);
	made->count = holds != NULL ? holds->count : 0;
	made->room = room;
	if (made->count != 0)
		memcpy(made->list, holds->list, made->count * sizeof made->list[0]);
	return made;
}

/* Ends decide; ids make the order of equal ends the same wherever it is made. */
static bool comes_before(const struct slr_hold *a, const struct slr_hold *b) {
	if (a->end != b->end)
		return a->end < b->end;
	return a->id != b->id ? a->id < b->id : a->lease < b->lease;
}

struct slr_holds *slr_holds_add(struct slr_holds *holds, const struct slr_hold *hold) {
	uint32_t at;
	if (holds == NULL || holds->count == holds->room) {
		uint32_t room = holds == NULL ? 1 : holds->room < ROOM_MIN ? ROOM_MIN : holds->room * 2;
		struct slr_holds *longer = with_room(holds, room < SLR_HOLDS_MAX ? room : SLR_HOLDS_MAX);
		slr_give(holds);
		holds = longer;
	}
	SL_ASSERT(holds->count < holds->room);
	for (at = holds->count; at > 0 && comes_before(hold, &holds->list[at - 1]); at--)
		holds->list[at] = holds->list[at - 1];
	holds->list[at] = *hold;
	holds->count++;
	return holds;
}

struct slr_holds *slr_holds_remove(struct slr_holds *holds, uint32_t at, uint32_t count) {
	SL_ASSERT(holds != NULL && at + count <= holds->count);
	if (count == holds->count) {
		slr_give(holds);
		return NULL;
	}
	memmove(&holds->list[at], &holds->list[at + count], (holds->count - at - count) * sizeof holds->list[0]);
	holds->count -= count;
	return holds;
}

struct slr_holds *slr_holds_copy(const struct slr_holds *holds) {
	return holds == NULL ? NULL : with_room(holds, holds->count);
}

static bool hold_is_valid(const struct slr_hold *hold) {
	return hold->cost >= SLR_HOLD_COST_MIN && hold->lease <= 1;
}

bool slr_holds_are_valid(const struct slr_holds *holds) {
	if (holds == NULL)
		return true;
	if (holds->count == 0 || holds->count > holds->room || holds->room > SLR_HOLDS_MAX)
		return false;
	for (uint32_t i = 0; i < holds->count; i++) {
		const struct slr_hold *hold = &holds->list[i];
		if (!hold_is_valid(hold) || (i > 0 && !comes_before(&holds->list[i - 1], hold)))
			return false;
		if (slr_holds_find(holds, hold->id, hold->lease) != (int32_t)i)
			return false;
	}
	return true;
}
