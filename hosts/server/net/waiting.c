/* A connection whose door waits for decisions that are made elsewhere (door/flight.h).
 *
 *   feed -> SL_DOOR_WAIT -> fly: nothing is read, what was not consumed is kept -> landed -> resume: fed again
 *
 * What was read under one policy is answered under it: the connection holds that policy until the door is done. A
 * connection that closes meanwhile lets its flight go; the fleet frees it when it lands. The fleet bounds the time that
 * a flight takes, so nothing here does. */
#include "hosts/server/net/connection.h"

#include "base/assert.h"
#include "os/clock.h"

static void on_landed(struct sl_flight *flight, void *to) {
	struct sl_connection *c = to;
	struct sl_tally *tally = c->worker->context.tally;
	struct sl_flight **end = &c->landed;
	SL_ASSERT(flight == c->flying);
	if (tally != NULL && flight->reload == NULL)
		sl_times_add(&tally->decision, (sl_clock_monotonic() - flight->launched) / flight->call_count,
		             flight->call_count);
	while (*end != NULL)
		end = &(*end)->next;
	*end = flight;
	flight->next = NULL;
	c->flying = NULL;
	sl_connection_resume(c);
}

void sl_connection_fly(struct sl_connection *c) {
	struct sl_door_context *context = &c->worker->context;
	c->flying = context->launched;
	c->flying->landed = on_landed;
	c->flying->to = c;
	if (c->policy == NULL)
		c->policy = sl_shared_policy_hold(c->worker->policy);
}

void sl_connection_ground(struct sl_connection *c) {
	if (c->flying != NULL)
		c->flying->to = NULL;
	c->flying = NULL;
	sl_flights_free(c->landed);
	c->landed = NULL;
	c->landed_settled = 0;
	if (c->policy != NULL)
		sl_shared_policy_release(c->policy);
	c->policy = NULL;
}
