/* Pending commands: under way at nodes, ours and those that were asked for. A pool, and who is due first. */
#ifndef SL_PENDING_COMMAND_H
#define SL_PENDING_COMMAND_H

#include "hosts/server/cluster/nodes.h"

enum {
	SL_PENDING_COMMANDS_MAX = 65536, /* asks under way */
	SL_PENDING_COMMANDS_OWN = 4096,  /* and what nodes are asked for our own sake: a few for each */
};

enum sl_command_kind {
	SL_COMMAND_ASK,    /* what a caller wants */
	SL_COMMAND_ASKING, /* goes before it, where a slot is on its way to another node */
	SL_COMMAND_AUTH,
	SL_COMMAND_NAME,
	SL_COMMAND_MODULE, /* is the module there? */
	SL_COMMAND_ROLE,
	SL_COMMAND_SLOTS,
	SL_COMMAND_SCRIPT, /* SCRIPT LOAD */
	SL_COMMAND_PING,
};

struct sl_pending_command {
	struct sl_pending_command *next, *prev; /* whoever holds it: a node's line or window, those that pause, the pool */
	struct sl_pending_command *next_asker, *prev_asker; /* of the first of its asker's that wait, in a window */
	struct sl_node_ask *ask;            /* NULL: of our own, or its caller was told that it is late */
	struct sl_node *node;          /* in whose line it is, or was last */
	uint64_t end;                  /* of the link's output: after its last byte */
	sluice_ns sent, due;           /* when it was handed over, or began to wait; when its time is over, or its pause */
	uint32_t place;                /* among those that are due, from 1; 0: it is not among them */
	uint16_t slot;
	uint8_t kind, tries;
	bool paused, waits, leads; /* for its turn, in a window; as the first of its asker's */
};

struct sl_due {
	sluice_ns at;
	struct sl_pending_command *pending;
};

/* A heap by `due`, and commands for use. */
struct sl_pending_commands {
	struct sl_due *heap;
	uint32_t count, room;
	uint32_t taken; /* commands in use */
	struct sl_pending_command *spare;
	struct sl_pending_commands_chunk *chunks;
};

/* Gives all memory back; commands that are in use go with it. All zero afterwards, as before the first. */
void sl_pending_commands_free(struct sl_pending_commands *commands);

/* An pending, all zero; NULL: no memory, or `most` are in use. Some ns. */
struct sl_pending_command *sl_pending_commands_take(struct sl_pending_commands *commands, uint32_t most);
/* Gives one back that is in no list and not due. */
void sl_pending_commands_give(struct sl_pending_commands *commands, struct sl_pending_command *pending);

/* Sets when it is due, in place of what was set before. False: no memory, nothing changed. O(log n), O(1) for one that
 * is due after all others. */
SLUICE_MUST_USE bool sl_pending_commands_set_due(struct sl_pending_commands *commands,
                                                 struct sl_pending_command *pending, sluice_ns due);
/* Takes it from those that are due; nothing where it is not among them. O(log n). */
void sl_pending_commands_clear_due(struct sl_pending_commands *commands, struct sl_pending_command *pending);
/* The one that is due first; NULL where none is. */
struct sl_pending_command *sl_pending_commands_first(const struct sl_pending_commands *commands);

#endif
