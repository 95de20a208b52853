/* A remote call: one call of a batch, until it is decided.
 *
 *   here    what slices and known denials tell is decided; some items may wait for a slice
 *   ask     the others. CHECK, where it is one command: a group; PEEK where the request is denied already, or costs
 *           nothing. Several groups queue in lanes (lane.h), where room is held for all that wait
 *   confirm it is its turn, and there is enough for it everywhere: CONFIRM in each group at the same time
 *   denied  there is not: PEEK in each group finds out how the limits stand
 *   doubt   only what others hold is in the way, of either: it waits in its lanes for what becomes of that
 *   end     merged, counted; units of slices that are not needed are put back
 *
 * Each step begins when all of the one before have been answered, or were found late: the nodes see to that by the
 * deadline, and lanes to what waits in them, so no call has a clock of its own.
 *
 * What nobody answered for is decided by what its limits say (fallback.c). */
#ifndef SL_REMOTE_CALL_H
#define SL_REMOTE_CALL_H

#include "hosts/server/remote/lane.h"
#include "hosts/server/remote/slice.h"

enum sl_remote_state {
	SL_ITEM_FREE,     /* unlimited: nothing to decide */
	SL_ITEM_TO_ASK,   /* by a command, which may be under way */
	SL_ITEM_WAITS,    /* for a slice */
	SL_ITEM_TAKEN,    /* admitted by a slice */
	SL_ITEM_DENIED,   /* denied here */
	SL_ITEM_ANSWERED, /* by its counter */
	SL_ITEM_FAILED,   /* nobody answered */
	SL_ITEM_LOCAL,    /* and it was decided by counters of this process */
};

struct sl_remote_item {
	uint8_t state;
	uint64_t tag;
	struct sl_quota_slice_wait wait;
	struct sl_seat seat;
};

struct sl_call_batch;

struct sl_remote_call {
	struct sl_call_batch *batch;
	struct sl_pending_call *call;
	struct sl_remote_item *items;
	struct sl_group *groups;
	uint32_t pending; /* answers or slices waited for */
	uint8_t verb;     /* enum sl_operation, of the commands under way or after */
	bool late, asked, was_held, has_outcome;
	bool waited;  /* for a slice, perhaps until its time was over */
	bool refused; /* a node can't do what the caller asks for himself: a limit in notation, an instant */
	bool told_error; /* by a node, which the log has */
	bool whole;  /* one command, or none: sl_plan_is_whole() */
	bool denied; /* by its lanes: what follows only looks what the counters say */

	/* lane.h */
	struct sl_remote_call *next_waiting, *prev_waiting;
	sluice_ns stalled_until; /* 0: it is not */
	uint32_t denies;         /* items that its lanes denied, by bit */
	uint32_t no_room;        /* those of them whose counters the node has no memory for */
	uint8_t tries;           /* how often it was in doubt */
	bool seated, alone;
	bool spared; /* at the end of its budget, for one turn of the loop */
};

/* What commands say of one of its items. */
static inline struct sl_plan_item sl_remote_plan(const struct sl_remote_call *remote, uint32_t i) {
	return (struct sl_plan_item){&remote->call->call.items[i], remote->call->facts[i].name, (uint8_t)i};
}

/* Can it be denied, because too many others were before it? What gives something back never is. */
static inline bool sl_remote_can_be_denied(const struct sl_remote_call *remote) {
	return sl_operation_is(remote->call->call.operation, SL_OPS_CHARGING | SL_OP_BIT(PEEK));
}

/* All that a step has waited for is there: the next. */
void sl_remote_call_go_on(struct sl_remote_call *remote);

/* What lanes ask of calls. */
extern const struct sl_lane_calls sl_remote_call_lanes;

#endif
