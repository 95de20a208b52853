/* How many commands a node has under way at once.
 *
 * Redis answers what it has read of a connection only when it has done all of it. So a client that pipelines
 * thousands of commands would make it silent for longer than a budget, and look like a node that is away. What is
 * under way is therefore bounded by time: no more than a node answers within about a quarter of a budget, above the
 * time that a single command takes there. All others wait here until their own budget is over: they were too many, and
 * were never sent.
 *
 * Those that wait take turns: of each asker, a batch of a connection's, one command, and then the next asker's. So a
 * connection with thousands of requests delays the one of another by as many commands as there are connections. The
 * commands of an asker are a ring; `first` and `last` are the ends of the list of rings, by the first of each.
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

/* Its ring becomes the last one. */
static void add_asker(struct sl_window *window, struct sl_pending_command *first) {
	first->leads = true;
	first->next_asker = NULL;
	first->prev_asker = window->last;
	if (window->last != NULL)
		window->last->next_asker = first;
	else
		window->first = first;
	window->last = first;
}

static void remove_asker(struct sl_window *window, struct sl_pending_command *first) {
	if (first->prev_asker != NULL)
		first->prev_asker->next_asker = first->next_asker;
	else
		window->first = first->next_asker;
	if (first->next_asker != NULL)
		first->next_asker->prev_asker = first->prev_asker;
	else
		window->last = first->prev_asker;
	first->next_asker = first->prev_asker = NULL;
	first->leads = false;
}

/* An asker sends its commands one after the other: where its ring is not the last, it has had a turn since. */
void sl_window_wait(struct sl_window *window, struct sl_pending_command *pending, sluice_ns now) {
	struct sl_pending_command *first = window->last;
	pending->sent = now;
	pending->waits = true;
	if (first == NULL || pending->ask->asker == NULL || first->ask->asker != pending->ask->asker) {
		pending->next = pending->prev = pending;
		add_asker(window, pending);
		return;
	}
	pending->next = first;
	pending->prev = first->prev;
	first->prev->next = pending;
	first->prev = pending;
}

void sl_window_leave(struct sl_window *window, struct sl_pending_command *pending) {
	struct sl_pending_command *next = pending->next != pending ? pending->next : NULL;
	if (pending->leads) {
		remove_asker(window, pending);
		if (next != NULL)
			add_asker(window, next);
	}
	pending->next->prev = pending->prev;
	pending->prev->next = pending->next;
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
