/* Who waits for what. Every connection stands in one of five lists of its worker, at the end when it begins to wait, so
 * each list is in the order of its waits, and whoever has waited too long is at its front: no timer a connection, no
 * search, and a time-out that a reload changes applies at once.
 *
 *   IDLE     nothing is asked             since its last answer     connections.idle
 *   REQUEST  a request is unfinished      since its first byte      connections.request   (and greetings, since accept;
 *            or waits for its decisions: for as long as those take)
 *   WRITE    answers are not taken        since some last were sent connections.write     (or taken from the kernel)
 *   LINGER   our last word is said        since then                SL_LINGER_MS
 *   STREAM   it follows decisions         since it began            for ever (streams.c)
 *
 * A peer that drips bytes does not move in its list: only a request that is whole, or answers that are taken, count. */
#include "hosts/server/net/waits.h"

static uint64_t now_of(const struct sl_worker *worker) {
	return uv_now(&worker->loop);
}

void sl_wait_leave(struct sl_connection *c) {
	struct sl_wait_list *list = &c->worker->waits[c->wait];
	if (c->wait == SL_WAITS)
		return;
	*(c->before != NULL ? &c->before->after : &list->first) = c->after;
	*(c->after != NULL ? &c->after->before : &list->last) = c->before;
	c->wait = SL_WAITS;
}

void sl_wait_for(struct sl_connection *c, enum sl_wait what, bool moved) {
	struct sl_wait_list *list = &c->worker->waits[what];
	if (c->wait == what && (!moved || c->since_ms == now_of(c->worker)))
		return; /* a busy connection moves once a millisecond: the order is by milliseconds */
	sl_wait_leave(c);
	c->wait = what;
	c->since_ms = now_of(c->worker);
	c->before = list->last;
	c->after = NULL;
	*(list->last != NULL ? &list->last->after : &list->first) = c;
	list->last = c;
}

void sl_waits_publish(struct sl_worker *worker) {
	for (enum sl_wait what = 0; what < SL_WAITS; what++) {
		struct sl_wait_list *list = &worker->waits[what];
		uint64_t since_ms = list->first != NULL ? list->first->since_ms : UINT64_MAX;
		if (atomic_load_explicit(&list->since_ms, memory_order_relaxed) != since_ms)
			atomic_store_explicit(&list->since_ms, since_ms, memory_order_relaxed);
	}
}
