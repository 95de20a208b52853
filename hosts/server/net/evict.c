/* Who has to go: whoever waits for longer than the policy lets them, or than anybody else when room is short. */
#include "hosts/server/net/evict.h"

#include "hosts/server/net/close.h"
#include "hosts/server/net/waits.h"
#include "hosts/server/net/wire.h"

enum { SLOW_LOOKED_AT_MAX = 64 };

static uint64_t now_of(const struct sl_worker *worker) {
	return uv_now(&worker->loop);
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

void sl_evict_overdue(struct sl_worker *worker) {
	for (enum sl_wait what = 0; what < SL_WAITS; what++) {
		uint64_t ms = limit_ms(worker, what);
		struct sl_connection *c;
		while (ms != 0 && (c = first_of(worker, what, ms)) != NULL)
			if ((what == SL_WAIT_WRITE && sl_wire_has_moved(c)) ||
			    (what == SL_WAIT_REQUEST && (c->pending != NULL || c->waiting != NULL)))
				sl_wait_for(c, what, true);
			else if (what != SL_WAIT_IDLE || !sl_connection_leave(c))
				sl_connection_close(c);
	}
}

/* Of two that are slow, the one that has been so for longer. */
static struct sl_connection *slower(struct sl_connection *a, struct sl_connection *b) {
	return a == NULL ? b : b == NULL || a->since_ms <= b->since_ms ? a : b;
}

bool sl_evict_longest(struct sl_worker *worker) {
	struct sl_connection *c = worker->waits[SL_WAIT_LINGER].first;
	if (c == NULL)
		c = first_of(worker, SL_WAIT_IDLE, SL_GIVE_WAY_MS);
	if (c == NULL)
		c = slower(first_of(worker, SL_WAIT_REQUEST, SL_GIVE_WAY_MS), first_of(worker, SL_WAIT_WRITE, SL_GIVE_WAY_MS));
	if (c == NULL) /* last: whoever floods a server should not be rid of those who watch */
		c = first_of(worker, SL_WAIT_STREAM, SL_GIVE_WAY_MS);
	if (c == NULL)
		return false;
	sl_connection_close(c);
	return true;
}

static bool has_room(const struct sl_worker *worker, size_t bytes) {
	return bytes <= SL_KEPT_BYTES_MAX && worker->kept_bytes <= SL_KEPT_BYTES_MAX - bytes;
}

bool sl_evict_for_room(struct sl_worker *worker, struct sl_connection *c, size_t bytes) {
	static const enum sl_wait slow[] = {SL_WAIT_REQUEST, SL_WAIT_WRITE};
	for (int i = 0; i < 2 && !has_room(worker, bytes); i++) {
		struct sl_connection *other = worker->waits[slow[i]].first, *next;
		for (int n = 0; other != NULL && n < SLOW_LOOKED_AT_MAX && !has_room(worker, bytes); n++, other = next) {
			next = other->after;
			if (now_of(worker) - other->since_ms < SL_GIVE_WAY_MS)
				break;
			if (other != c && other->input_capacity + other->unsent_len + other->held_bytes != 0)
				sl_connection_close(other);
		}
	}
	return has_room(worker, bytes);
}
