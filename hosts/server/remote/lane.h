/* Lanes: calls of this worker that share a counter, in their order, and what is held for them.
 *
 * A call over several slots needs room in each before it may charge any. While it looks, others that come after it
 * must not see what it holds: they would be denied falsely, or told too little. So such calls queue, one lane a
 * counter, and a lane holds at once for all that wait in it:
 *
 *   HOLD want UPTO ----> the node: at most what is left --> left
 *   the first of all its lanes: left >= cost everywhere --> CONFIRM cost KEEP: charged out of the hold
 *                               less somewhere -----------> PEEK cost BESIDE: how the counters stand without the hold
 *   the last that it was asked for is decided ------------> CANCEL of what is left, and HOLD for those that came since
 *
 * Commands of one worker to one node are executed in their order, so each CONFIRM and PEEK tells what would have been
 * told one after another: the hold of the lane is in none of its figures. However many calls wait in a lane, that takes
 * two round trips, and one more for those that came meanwhile.
 *
 * A lane is made by a call over several slots, and gone with the last that waits in it. Calls of one command join it
 * only while it is there. What gives back, forgets or is more than a charge ("alone") waits until nothing is held
 * before it; what follows is asked for later.
 *
 * In doubt. What a lane gets too little of may be held by others, who let go of it, or charge it, in a moment. Then the
 * call is not denied: it stalls, its lanes let go, and it asks again some ms later, for itself alone. So do the first
 * of other lanes after it: nobody holds while he waits for others to let go, and no circle of those lasts.
 *
 * Patience. A call waits here for five eighths of its budget; the rest is for the node to answer. Then it is denied,
 * SLUICE_BOUND_HOLDS where it was in doubt, else SLUICE_BOUND_QUEUE: a queue of ours that is too long is no store that
 * is away. What is never denied (REFUND, RESET, COMMIT) asks its node then, out of turn. Once the fleet has begun to
 * close its nodes nobody waits: who is in doubt is denied.
 *
 * I1  A call is decided when it is the first of all its lanes, and each has been granted something for it.
 * I2  Seats stand in a lane in the order in which calls joined; a call joins all its lanes at once. So the call that
 *     joined first is the first of all its lanes, and something always moves.
 * I3  left is at most what the node holds: it is counted down by what is confirmed, and a hold lasts longer than any
 *     budget. A hold that is gone all the same makes CONFIRM decide anew. */
#ifndef SL_LANE_H
#define SL_LANE_H

#include "hosts/server/remote/plan.h"

enum {
	SL_LANE_SEATS_MAX = 1024, /* calls that wait in one lane */
	SL_LANE_COVER_MIN = 8,    /* that a HOLD is asked for, and so commands that are sent at once: */
	SL_LANE_COVER = 64,       /* to begin with; doubled and halved by how soon the node answers */
	SL_LANE_COVER_MAX = 128,
};

struct sl_fleet;
struct sl_lane;
struct sl_lanes;
struct sl_remote_call;

/* The place of a call in a lane. */
struct sl_seat {
	struct sl_seat *next; /* after it */
	struct sl_lane *lane; /* NULL: it is none */
	struct sl_remote_call *remote;
	uint64_t limits; /* by which limits it asks: a hold is for those of one kind */
	uint32_t items;  /* of the call, by bit, that count here */
	bool wants;      /* something is held for it */
};

/* How the lanes of a call judge it. */
enum sl_lane_verdict { SL_LANE_ADMITS, SL_LANE_DENIES, SL_LANE_DOUBTS };

/* What lanes ask of the calls that wait in them. */
struct sl_lane_calls {
	/* It is the first of all its lanes, or waits in none any more: it is decided, and leaves them; or it stalls. */
	void (*turn)(struct sl_remote_call *remote);
	/* Nobody answers for these items. `tell`: the log has not been told. */
	void (*fail)(struct sl_remote_call *remote, uint32_t items, const struct sl_answer *answer, bool tell);
	/* It has waited long enough, and has left its lanes: for a node, or is denied as call->each of remote->denies says;
	 * or it asks out of turn. */
	void (*expire)(struct sl_remote_call *remote, bool for_node);
};

/* NULL when the system gives no memory. 36 KiB. `calls` lives as long. */
struct sl_lanes *sl_lanes_new(struct sl_fleet *fleet, const struct sl_lane_calls *calls);
/* Nobody waits any more. */
void sl_lanes_free(struct sl_lanes *lanes);

/* Is there a lane that a call, of which items are to be asked for, has to join? Some ns where there is none at all. */
bool sl_lanes_concern(struct sl_lanes *lanes, const struct sl_remote_call *remote);

/* Puts a call at the end of its lanes; `alone`: nothing is held for it. False: one is full, or there is no memory; then
 * it is in none. calls->turn() follows, from within sl_lanes_run(). */
SLUICE_MUST_USE bool sl_lanes_join(struct sl_lanes *lanes, struct sl_remote_call *remote, bool alone);

/* What the first of all its lanes gets: call->each of what is denied, or in doubt, is filled, and remote->denies. */
enum sl_lane_verdict sl_lanes_judge(struct sl_remote_call *remote);

/* Takes its cost out of what its lanes hold. */
void sl_lanes_spend(struct sl_remote_call *remote);

/* It is decided, or given up: those after it move up. */
void sl_lanes_leave(struct sl_lanes *lanes, struct sl_remote_call *remote);

/* It is in doubt: it gets another turn, a little later. */
void sl_lanes_stall(struct sl_lanes *lanes, struct sl_remote_call *remote, sluice_ns now);

/* Lets move what can, unless that is going on. */
void sl_lanes_run(struct sl_lanes *lanes);

/* Ends what has waited long enough. Returns when it wants to be called again; SLUICE_NEVER: not before the next that
 * joins or stalls, of which sl_fleet_wake() tells. */
sluice_ns sl_lanes_tick(struct sl_lanes *lanes, sluice_ns now);

/* Nobody can be asked any more: all that waits gets its turn. */
void sl_lanes_abandon(struct sl_lanes *lanes);

#endif
