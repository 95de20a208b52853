/* How many commands a node has under way at once.
 *
 * Redis answers what it has read of a connection only when it has done all of it. So a client that pipelines
 * thousands of commands would make it silent for longer than a budget, and look like a node that is away. What is
 * under way is therefore bounded by time: no more than a node answers within about a quarter of a budget, above the
 * time that a single command takes there. All others wait here, in their order, until their own budget is over: they
 * were too many, and were never sent.
 *
 * As in TCP Vegas: the quickest answer of the last seconds says how far away the node is. If one has taken much
 * longer, and the node has more to do, then it has waited for others: the window is halved, at most once for what was
 * under way together. As long as answers are quick and commands wait, it grows by one for each answer. A node that
 * has answered all when we come to read it waits for us: the window is doubled, or made wider by an eighth where we
 * were slow. */
#include "hosts/server/cluster/window.h"

#include "base/math.h"

enum { FIRST = 64, LEAST = 16 };

static const sluice_ns SECOND_NS = 1000000000;

void sl_window_reset(struct sl_window *window) {
	*window = (struct sl_window){.most = FIRST, .best = {SLUICE_NEVER, SLUICE_NEVER}};
}

void sl_window_wait(struct sl_window *window, struct sl_pending_command *pending, sluice_ns now) {
	pending->sent = now;
	pending->waits = true;
	pending->next = NULL;
	pending->prev = window->last;
	if (window->last != NULL)
		window->last->next = pending;
	else
		window->first = pending;
	window->last = pending;
}

void sl_window_leave(struct sl_window *window, struct sl_pending_command *pending) {
	if (pending->prev != NULL)
		pending->prev->next = pending->next;
	else
		window->first = pending->next;
	if (pending->next != NULL)
		pending->next->prev = pending->prev;
	else
		window->last = pending->prev;
	pending->next = pending->prev = NULL;
	pending->waits = false;
}

struct sl_pending_command *sl_window_next(struct sl_window *window) {
	struct sl_pending_command *pending = window->under_way < window->most ? window->first : NULL;
	if (pending != NULL)
		sl_window_leave(window, pending);
	return pending;
}

/* The quickest answer of the last one or two seconds. */
static sluice_ns best_of(struct sl_window *window, sluice_ns took, sluice_ns now) {
	if (now >= window->best_end) {
		window->best[1] = now < window->best_end + SECOND_NS ? window->best[0] : SLUICE_NEVER;
		window->best[0] = SLUICE_NEVER;
		window->best_end = now + SECOND_NS;
	}
	window->best[0] = sl_min(window->best[0], took);
	return sl_min(window->best[0], window->best[1]);
}

void sl_window_answered(struct sl_window *window, sluice_ns sent, sluice_ns now, sluice_ns budget_ns) {
	const sluice_ns took = now - sent, best = best_of(window, took, now);
	if (took - best > budget_ns / 4 || took > budget_ns / 8 * 5)
		window->slow = window->slow || sent >= window->narrowed_at;
	else if (window->first != NULL && took - best < budget_ns / 8)
		window->most = sl_min(window->most + 1, SL_PENDING_COMMANDS_MAX);
}

void sl_window_read(struct sl_window *window, sluice_ns now) {
	if (window->under_way == 0 && window->first != NULL) {
		window->most += window->slow ? window->most / 8 : window->most;
		window->most = sl_min(window->most, SL_PENDING_COMMANDS_MAX);
	} else if (window->under_way != 0 && window->slow) {
		window->most = sl_max(window->most / 2, LEAST);
		window->narrowed_at = now;
	}
	window->slow = false;
}
