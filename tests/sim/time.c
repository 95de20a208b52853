/* See time.h: a binary heap by instant and order. */
#include "tests/sim/time.h"

#include "base/assert.h"

#include <stdlib.h>

void sim_time_begin(struct sim_time *time, uint64_t seed) {
	*time = (struct sim_time){.net = dice_of(seed, 1), .traffic = dice_of(seed, 2)};
}

void sim_time_end(struct sim_time *time) {
	while (time->memory != NULL) {
		struct sim_memory *memory = time->memory;
		time->memory = memory->next;
		free(memory);
	}
	free(time->heap);
	*time = (struct sim_time){.now = 0};
}

void *sim_take(struct sim_time *time, size_t bytes) {
	struct sim_memory *memory = calloc(1, 16 + bytes);
	SL_ASSERT(memory != NULL);
	memory->next = time->memory;
	time->memory = memory;
	return (char *)memory + 16;
}

static bool comes_before(const struct sim_planned *a, const struct sim_planned *b) {
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_plan(struct sim_time *time, sluice_ns at, sim_event *happen, void *to, uint64_t tag) {
	const struct sim_planned event = {at > time->now ? at : time->now, time->orders++, happen, to, tag};
	size_t place = time->count++;
	if (time->count > time->room) {
		time->room = time->room == 0 ? 256 : 2 * time->room;
		time->heap = realloc(time->heap, time->room * sizeof *time->heap);
		SL_ASSERT(time->heap != NULL);
	}
	for (; place > 0 && comes_before(&event, &time->heap[(place - 1) / 2]); place = (place - 1) / 2)
		time->heap[place] = time->heap[(place - 1) / 2];
	time->heap[place] = event;
}

static struct sim_planned take_first(struct sim_time *time) {
	const struct sim_planned first = time->heap[0], last = time->heap[--time->count];
	size_t place = 0;
	for (size_t child = 1; child < time->count; child = 2 * place + 1) {
		if (child + 1 < time->count && comes_before(&time->heap[child + 1], &time->heap[child]))
			child++;
		if (comes_before(&last, &time->heap[child]))
			break;
		time->heap[place] = time->heap[child];
		place = child;
	}
	if (time->count != 0)
		time->heap[place] = last;
	return first;
}

bool sim_step(struct sim_time *time, sluice_ns until) {
	if (time->count == 0 || time->heap[0].at > until) {
		time->now = until;
		return false;
	}
	const struct sim_planned event = take_first(time);
	time->now = event.at;
	event.happen(event.to, event.tag);
	return true;
}
