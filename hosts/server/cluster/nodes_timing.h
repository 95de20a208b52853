/* What nodes.c does for the others: the timer, the log, pauses, and answers. */
#ifndef SL_NODES_TIMING_H
#define SL_NODES_TIMING_H

#include "hosts/server/cluster/nodes_inside.h"

/* The time of its loop. */
static inline sluice_ns sl_nodes_now(const struct sl_nodes *nodes) {
	return sl_loop_now(nodes->world.loop);
}
/* Sees to it that the timer fires at `due`. */
void sl_nodes_arm(struct sl_nodes *nodes, sluice_ns due);
/* Has a node's output flushed at the end of this turn. */
void sl_nodes_touch(struct sl_node *node);
/* A line for the log, at most ten a second; `trouble`: a warning, else information. */
void sl_nodes_say(struct sl_nodes *nodes, bool trouble, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Has it counted who is known, up, open, at the end of this turn. */
void sl_nodes_count(struct sl_nodes *nodes);
/* Half to all of an interval, at random. */
sluice_ns sl_nodes_jitter(struct sl_nodes *nodes, sluice_ns interval_ns);
/* Tells a caller; the pending, in no list, is gone. */
void sl_nodes_finish(struct sl_nodes *nodes, struct sl_pending_command *pending, const struct sl_answer *answer);
/* The same with an answer that is its kind only. */
void sl_nodes_finish_as(struct sl_nodes *nodes, struct sl_pending_command *pending, enum sl_answer_kind kind);
/* Sends an pending, in no list, which was not executed: to whom its slot belongs, after a pause, or not at all. */
void sl_nodes_send_again(struct sl_nodes *nodes, struct sl_pending_command *pending);
/* The same, after a pause. */
void sl_nodes_pause(struct sl_nodes *nodes, struct sl_pending_command *pending);
/* Tries all that pause, now: something has become better. */
void sl_nodes_hurry(struct sl_nodes *nodes);

#endif
