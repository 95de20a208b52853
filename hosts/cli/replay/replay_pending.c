/* See replay_pending.h. A binary heap, ordered by instant, then by request. */
#include "hosts/cli/replay/replay_pending.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM_FIRST = 256 };

void sl_replay_pending_id(uint64_t order, char text[SL_PENDING_ID_BYTES]) {
	snprintf(text, SL_PENDING_ID_BYTES, "%016" PRIx64, order);
}

static bool is_earlier(const struct sl_replay_pending *a, const struct sl_replay_pending *b) {
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static bool grow(struct sl_replay_pendings *pendings) {
	size_t room = pendings->room == 0 ? ROOM_FIRST : 2 * pendings->room;
	struct sl_replay_pending **heap = realloc(pendings->heap, room * sizeof *heap);
	if (heap == NULL)
		return false;
	pendings->heap = heap;
	pendings->room = room;
	return true;
}

/* A copy in one piece of memory: itself, its items, their keys. NULL without memory. */
static struct sl_replay_pending *copy_of(const struct sl_replay_pending *pending,
                                         bool (*wanted)(const struct sluice_item *item)) {
	size_t bytes = sizeof *pending, count = 0;
	for (uint32_t i = 0; i < pending->item_count; i++)
		if (wanted(&pending->items[i]))
			bytes += sizeof *pending->items + pending->items[i].key.len, count++;
	struct sl_replay_pending *copy = malloc(bytes);
	if (copy == NULL)
		return NULL;
	*copy = *pending;
	copy->items = (struct sluice_item *)(copy + 1);
	copy->item_count = 0;
	char *key = (char *)(copy->items + count);
	for (uint32_t i = 0; i < pending->item_count; i++) {
		const struct sluice_item *item = &pending->items[i];
		if (!wanted(item))
			continue;
		if (item->key.len != 0)
			memcpy(key, item->key.data, item->key.len);
		copy->items[copy->item_count++] = (struct sluice_item){
			.limit = item->limit, .key = {key, item->key.len}, .observed = item->observed, .terms = item->terms};
		key += item->key.len;
	}
	return copy;
}

bool sl_replay_pending_add(struct sl_replay_pendings *pendings, const struct sl_replay_pending *pending,
                           bool (*wanted)(const struct sluice_item *item)) {
	if (pendings->count == pendings->room && !grow(pendings))
		return false;
	struct sl_replay_pending *copy = copy_of(pending, wanted);
	if (copy == NULL || copy->item_count == 0) {
		free(copy);
		return copy != NULL;
	}
	size_t at = pendings->count++;
	for (; at > 0 && is_earlier(copy, pendings->heap[(at - 1) / 2]); at = (at - 1) / 2)
		pendings->heap[at] = pendings->heap[(at - 1) / 2];
	pendings->heap[at] = copy;
	return true;
}

const struct sl_replay_pending *sl_replay_pending_first(const struct sl_replay_pendings *pendings) {
	return pendings->count != 0 ? pendings->heap[0] : NULL;
}

void sl_replay_pending_drop(struct sl_replay_pendings *pendings) {
	free(pendings->heap[0]);
	struct sl_replay_pending *last = pendings->heap[--pendings->count];
	size_t at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child + 1 < pendings->count && is_earlier(pendings->heap[child + 1], pendings->heap[child]))
			child++;
		if (child >= pendings->count || !is_earlier(pendings->heap[child], last))
			break;
		pendings->heap[at] = pendings->heap[child];
		at = child;
	}
	if (pendings->count != 0)
		pendings->heap[at] = last;
}

void sl_replay_pendings_close(struct sl_replay_pendings *pendings) {
	for (size_t i = 0; i < pendings->count; i++)
		free(pendings->heap[i]);
	free(pendings->heap);
	*pendings = (struct sl_replay_pendings){0};
}
