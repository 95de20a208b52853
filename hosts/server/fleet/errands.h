/* Errands: commands under way at nodes, ours and those that were asked for. A pool, and who is due first. */
#ifndef SL_ERRANDS_H
#define SL_ERRANDS_H

#include "hosts/server/fleet/nodes.h"

enum {
	SL_ERRANDS_MAX = 65536, /* asks under way */
	SL_ERRANDS_OWN = 4096,  /* and what nodes are asked for our own sake: a few for each */
};

enum sl_errand_kind {
	SL_ERRAND_ASK,    /* what a caller wants */
	SL_ERRAND_ASKING, /* goes before it, where a slot is on its way to another node */
	SL_ERRAND_AUTH,
	SL_ERRAND_NAME,
	SL_ERRAND_MODULE, /* is the module there? */
	SL_ERRAND_ROLE,
	SL_ERRAND_SLOTS,
	SL_ERRAND_SCRIPT, /* SCRIPT LOAD */
	SL_ERRAND_PING,
};

struct sl_errand {
	struct sl_errand *next, *prev; /* whoever holds it: a node's line, those that pause, the pool */
	struct sl_node_ask *ask;            /* NULL: of our own, or its caller was told that it is late */
	struct sl_node *node;          /* in whose line it is, or was last */
	uint64_t end;                  /* of the link's output: behind its last byte */
	sluice_ns sent, due;           /* when it was sent; when its time is over, or its pause */
	uint32_t place;                /* among those that are due, from 1; 0: it is not among them */
	uint16_t slot;
	uint8_t kind, tries;
	bool paused;
};

struct sl_due {
	sluice_ns at;
	struct sl_errand *errand;
};

/* A heap by `due`, and errands for use. */
struct sl_errands {
	struct sl_due *heap;
	uint32_t count, room;
	uint32_t taken; /* errands in use */
	struct sl_errand *spare;
	struct sl_errands_chunk *chunks;
};

/* Gives all memory back; errands that are in use go with it. All zero afterwards, as before the first. */
void sl_errands_free(struct sl_errands *errands);

/* An errand, all zero; NULL: no memory, or `most` are in use. Some ns. */
struct sl_errand *sl_errands_take(struct sl_errands *errands, uint32_t most);
/* Gives one back that is in no list and not due. */
void sl_errands_give(struct sl_errands *errands, struct sl_errand *errand);

/* Sets when it is due, in place of what was set before. False: no memory, nothing changed. O(log n), O(1) for one that
 * is due after all others. */
SLUICE_MUST_USE bool sl_errands_set_due(struct sl_errands *errands, struct sl_errand *errand, sluice_ns due);
/* Takes it from those that are due; nothing where it is not among them. O(log n). */
void sl_errands_clear_due(struct sl_errands *errands, struct sl_errand *errand);
/* The one that is due first; NULL where none is. */
struct sl_errand *sl_errands_first(const struct sl_errands *errands);

#endif
