/* Pending commands, in chunks that are kept, and a binary heap of those that are due. Deadlines come in nearly in
 * order, so that an insertion stops at once; the instants lie in the heap, so that sifting does not touch the commands.
 */
#include "hosts/server/cluster/pending_command.h"

#include "base/assert.h"

#include <stdlib.h>

enum { CHUNK = 256, HEAP_ROOM = 256 };

struct sl_pending_commands_chunk {
	struct sl_pending_commands_chunk *next;
	struct sl_pending_command commands[CHUNK];
};

void sl_pending_commands_free(struct sl_pending_commands *commands) {
	while (commands->chunks != NULL) {
		struct sl_pending_commands_chunk *chunk = commands->chunks;
		commands->chunks = chunk->next;
		free(chunk);
	}
	free(commands->heap);
	*commands = (struct sl_pending_commands){.heap = NULL};
}

static bool add_chunk(struct sl_pending_commands *commands) {
	struct sl_pending_commands_chunk *chunk = malloc(sizeof *chunk);
	if (chunk == NULL)
		return false;
	chunk->next = commands->chunks;
	commands->chunks = chunk;
	for (int i = 0; i < CHUNK; i++) {
		chunk->commands[i].next = commands->spare;
		commands->spare = &chunk->commands[i];
	}
	return true;
}

struct sl_pending_command *sl_pending_commands_take(struct sl_pending_commands *commands, uint32_t most) {
	if (commands->taken >= most || (commands->spare == NULL && !add_chunk(commands)))
		return NULL;
	struct sl_pending_command *pending = commands->spare;
	commands->spare = pending->next;
	commands->taken++;
	*pending = (struct sl_pending_command){.next = NULL};
	return pending;
}

void sl_pending_commands_give(struct sl_pending_commands *commands, struct sl_pending_command *pending) {
	SL_ASSERT(pending->place == 0 && commands->taken > 0);
	pending->next = commands->spare;
	commands->spare = pending;
	commands->taken--;
}

/* ---- the heap: places are counted from 1 ------------------------------------------------------------------------- */

static void put(struct sl_pending_commands *commands, uint32_t place, struct sl_due due) {
	commands->heap[place - 1] = due;
	due.pending->place = place;
}

static void rise(struct sl_pending_commands *commands, uint32_t place, struct sl_due due) {
	while (place > 1 && due.at < commands->heap[place / 2 - 1].at) {
		put(commands, place, commands->heap[place / 2 - 1]);
		place /= 2;
	}
	put(commands, place, due);
}

static void sink(struct sl_pending_commands *commands, uint32_t place, struct sl_due due) {
	for (uint32_t child = 2 * place; child <= commands->count; child = 2 * place) {
		if (child < commands->count && commands->heap[child].at < commands->heap[child - 1].at)
			child++;
		if (due.at <= commands->heap[child - 1].at)
			break;
		put(commands, place, commands->heap[child - 1]);
		place = child;
	}
	put(commands, place, due);
}

/* Puts one where another was. */
static void settle(struct sl_pending_commands *commands, uint32_t place, struct sl_due due) {
	if (place > 1 && due.at < commands->heap[place / 2 - 1].at)
		rise(commands, place, due);
	else
		sink(commands, place, due);
}

static bool make_room(struct sl_pending_commands *commands) {
	if (commands->count < commands->room)
		return true;
	const uint32_t room = commands->room == 0 ? HEAP_ROOM : 2 * commands->room;
	struct sl_due *heap = realloc(commands->heap, room * sizeof *heap);
	if (heap == NULL)
		return false;
	commands->heap = heap;
	commands->room = room;
	return true;
}

bool sl_pending_commands_set_due(struct sl_pending_commands *commands, struct sl_pending_command *pending,
                                 sluice_ns due) {
	if (pending->place == 0 && !make_room(commands))
		return false;
	pending->due = due;
	if (pending->place != 0)
		settle(commands, pending->place, (struct sl_due){due, pending});
	else
		rise(commands, ++commands->count, (struct sl_due){due, pending});
	return true;
}

void sl_pending_commands_clear_due(struct sl_pending_commands *commands, struct sl_pending_command *pending) {
	const uint32_t place = pending->place;
	if (place == 0)
		return;
	const struct sl_due last = commands->heap[--commands->count];
	pending->place = 0;
	if (last.pending != pending)
		settle(commands, place, last);
}

struct sl_pending_command *sl_pending_commands_first(const struct sl_pending_commands *commands) {
	return commands->count == 0 ? NULL : commands->heap[0].pending;
}
