/* Who waits for what. Every connection stands in one of four lists of its worker, at the end when it begins to wait, so
 * each list is in the order of its waits, and whoever has waited too long is at its front: no timer a connection, no
 * search, and a time-out that a reload changes applies at once.
 *
 *   IDLE     nothing is asked             since its last answer     connections.idle
 *   REQUEST  a request is unfinished      since its first byte      connections.request   (and greetings, since accept;
 *            or waits for its decisions: for as long as those take)
 *   WRITE    answers are not taken        since some last were sent connections.write     (or taken from the kernel)
 *   LINGER   our last word is said        since then                SL_LINGER_MS
 *
 * A peer that drips bytes does not move in its list: only a request that is whole, or answers that are taken, count. */
#include "hosts/server/net/connection.h"

#include "base/assert.h"

enum { SLOW_LOOKED_AT_MAX = 64 };

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

/* How long a list's connections may wait, in ms; 0: for ever. */
static uint64_t limit_ms(const struct sl_worker *worker, enum sl_wait what) {
	const struct sl_connection_limits *limits = &sl_policy_settings(worker->context.policy)->connections;
	const sluice_ns ns[SL_WAITS] = {
		[SL_WAIT_IDLE] = limits->idle_ns, [SL_WAIT_REQUEST] = limits->request_ns, [SL_WAIT_WRITE] = limits->write_ns};
	return what == SL_WAIT_LINGER ? SL_LINGER_MS : ns[what] / 1000000 + (ns[what] % 1000000 != 0);
}

/* The first of a list, if it has waited for so long. */
static struct sl_connection *first_of(const struct sl_worker *worker, enum sl_wait what, uint64_t ms) {
	struct sl_connection *first = worker->waits[what].first;
	return first != NULL && now_of(worker) - first->since_ms >= ms ? first : NULL;
}

void sl_waits_sweep(struct sl_worker *worker) {
	for (enum sl_wait what = 0; what < SL_WAITS; what++) {
		uint64_t ms = limit_ms(worker, what);
		struct sl_connection *c;
		while (ms != 0 && (c = first_of(worker, what, ms)) != NULL)
			if ((what == SL_WAIT_WRITE && sl_wire_has_moved(c)) || (what == SL_WAIT_REQUEST && c->flying != NULL))
				sl_wait_for(c, what, true);
			else
				sl_connection_close(c);
	}
}

void sl_waits_publish(struct sl_worker *worker) {
	for (enum sl_wait what = 0; what < SL_WAITS; what++) {
		struct sl_wait_list *list = &worker->waits[what];
		uint64_t since_ms = list->first != NULL ? list->first->since_ms : UINT64_MAX;
		if (atomic_load_explicit(&list->since_ms, memory_order_relaxed) != since_ms)
			atomic_store_explicit(&list->since_ms, since_ms, memory_order_relaxed);
	}
}

/* Of two that are slow, the one that has been so for longer. */
static struct sl_connection *slower(struct sl_connection *a, struct sl_connection *b) {
	return a == NULL ? b : b == NULL || a->since_ms <= b->since_ms ? a : b;
}

bool sl_waits_give_way(struct sl_worker *worker) {
	struct sl_connection *c = worker->waits[SL_WAIT_LINGER].first;
	if (c == NULL)
		c = first_of(worker, SL_WAIT_IDLE, SL_GIVE_WAY_MS);
	if (c == NULL)
		c = slower(first_of(worker, SL_WAIT_REQUEST, SL_GIVE_WAY_MS), first_of(worker, SL_WAIT_WRITE, SL_GIVE_WAY_MS));
	if (c == NULL)
		return false;
	sl_connection_close(c);
	return true;
}

static bool has_room(const struct sl_worker *worker, size_t bytes) {
	return bytes <= SL_KEPT_BYTES_MAX && worker->kept_bytes <= SL_KEPT_BYTES_MAX - bytes;
}

bool sl_waits_make_room(struct sl_worker *worker, struct sl_connection *c, size_t bytes) {
	static const enum sl_wait slow[] = {SL_WAIT_REQUEST, SL_WAIT_WRITE};
	for (int i = 0; i < 2 && !has_room(worker, bytes); i++) {
		struct sl_connection *other = worker->waits[slow[i]].first, *next;
		for (int n = 0; other != NULL && n < SLOW_LOOKED_AT_MAX && !has_room(worker, bytes); n++, other = next) {
			next = other->after;
			if (now_of(worker) - other->since_ms < SL_GIVE_WAY_MS)
				break;
			if (other != c && other->input_capacity + other->pending_len != 0)
				sl_connection_close(other);
		}
	}
	return has_room(worker, bytes);
}
