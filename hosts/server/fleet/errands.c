/* Errands, in chunks that are kept, and a binary heap of those that are due. Deadlines come in nearly in order, so that
 * an insertion stops at once; the instants lie in the heap, so that sifting does not touch the errands. */
#include "hosts/server/fleet/errands.h"

#include "base/assert.h"

#include <stdlib.h>

enum { CHUNK = 256, HEAP_ROOM = 256 };

struct sl_errands_chunk {
	struct sl_errands_chunk *next;
	struct sl_errand errands[CHUNK];
};

void sl_errands_free(struct sl_errands *errands) {
	while (errands->chunks != NULL) {
		struct sl_errands_chunk *chunk = errands->chunks;
		errands->chunks = chunk->next;
		free(chunk);
	}
	free(errands->heap);
	*errands = (struct sl_errands){.heap = NULL};
}

static bool add_chunk(struct sl_errands *errands) {
	struct sl_errands_chunk *chunk = malloc(sizeof *chunk);
	if (chunk == NULL)
		return false;
	chunk->next = errands->chunks;
	errands->chunks = chunk;
	for (int i = 0; i < CHUNK; i++) {
		chunk->errands[i].next = errands->spare;
		errands->spare = &chunk->errands[i];
	}
	return true;
}

struct sl_errand *sl_errands_take(struct sl_errands *errands, uint32_t most) {
	if (errands->taken >= most || (errands->spare == NULL && !add_chunk(errands)))
		return NULL;
	struct sl_errand *errand = errands->spare;
	errands->spare = errand->next;
	errands->taken++;
	*errand = (struct sl_errand){.next = NULL};
	return errand;
}

void sl_errands_give(struct sl_errands *errands, struct sl_errand *errand) {
	SL_ASSERT(errand->place == 0 && errands->taken > 0);
	errand->next = errands->spare;
	errands->spare = errand;
	errands->taken--;
}

/* ---- the heap: places are counted from 1 ------------------------------------------------------------------------- */

static void put(struct sl_errands *errands, uint32_t place, struct sl_due due) {
	errands->heap[place - 1] = due;
	due.errand->place = place;
}

static void rise(struct sl_errands *errands, uint32_t place, struct sl_due due) {
	while (place > 1 && due.at < errands->heap[place / 2 - 1].at) {
		put(errands, place, errands->heap[place / 2 - 1]);
		place /= 2;
	}
	put(errands, place, due);
}

static void sink(struct sl_errands *errands, uint32_t place, struct sl_due due) {
	for (uint32_t child = 2 * place; child <= errands->count; child = 2 * place) {
		if (child < errands->count && errands->heap[child].at < errands->heap[child - 1].at)
			child++;
		if (due.at <= errands->heap[child - 1].at)
			break;
		put(errands, place, errands->heap[child - 1]);
		place = child;
	}
	put(errands, place, due);
}

/* Puts one where another was. */
static void settle(struct sl_errands *errands, uint32_t place, struct sl_due due) {
	if (place > 1 && due.at < errands->heap[place / 2 - 1].at)
		rise(errands, place, due);
	else
		sink(errands, place, due);
}

static bool make_room(struct sl_errands *errands) {
	if (errands->count < errands->room)
		return true;
	const uint32_t room = errands->room == 0 ? HEAP_ROOM : 2 * errands->room;
	struct sl_due *heap = realloc(errands->heap, room * sizeof *heap);
	if (heap == NULL)
		return false;
	errands->heap = heap;
	errands->room = room;
	return true;
}

bool sl_errands_set_due(struct sl_errands *errands, struct sl_errand *errand, sluice_ns due) {
	if (errand->place == 0 && !make_room(errands))
		return false;
	errand->due = due;
	if (errand->place != 0)
		settle(errands, errand->place, (struct sl_due){due, errand});
	else
		rise(errands, ++errands->count, (struct sl_due){due, errand});
	return true;
}

void sl_errands_clear_due(struct sl_errands *errands, struct sl_errand *errand) {
	const uint32_t place = errand->place;
	if (place == 0)
		return;
	const struct sl_due last = errands->heap[--errands->count];
	errand->place = 0;
	if (last.errand != errand)
		settle(errands, place, last);
}

struct sl_errand *sl_errands_first(const struct sl_errands *errands) {
	return errands->count == 0 ? NULL : errands->heap[0].errand;
}
