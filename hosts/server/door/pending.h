/* Pending decisions: on their way to where the counters are, when those are not on this host.
 *
 * A door asks for decisions in the middle of a request, and must not wait. So it returns SL_DOOR_WAIT and consumes
 * nothing of what made it ask. It is fed the same bytes again when the decisions are ready: it parses the same request,
 * asks for the same decisions, and this time they are there. A door is deterministic, so nothing else has to be kept,
 * and no code of a door knows of connections that wait. What one request asks for in several steps, it gets step by
 * step: `context->ready` lists what it has got so far.
 *
 *   door -> sl_pending_decide() -> context->remote->send()         -> false -> SL_DOOR_WAIT
 *   remote: pending->ready() -> connection feeds again, context->ready set -> sl_pending_decide() -> true
 *
 * struct sl_pending owns copies of all that it carries: keys, limits, names.
 *
 * A door whose requests are answered each on its own (HTTP/2) has many asks under way at a time: sl_pending_put_off().
 * A node that is slow holds up those that ask it, and nobody beside them. */
#ifndef SL_PENDING_H
#define SL_PENDING_H

#include "hosts/server/door/call_outcome.h"

/* What a limit's policy says of an item. */
struct sl_pending_item {
	const char *name; /* of the limit in the policy, whose counter it is (of a candidate: the limit's that it belongs
	                   * to); NULL: given in notation */
	uint8_t on_error; /* enum sl_on_error; of one in notation SL_ON_ERROR_DENY: a failure is told as one */
	bool strict;
};

/* What a caller is told whose call is SLUICE_E_APART there, or SLUICE_E_MISUSE. */
#define SL_PENDING_APART_TEXT                                                                                     \
	"these limits have to change in one step, and their keys lie in several slots of the cluster: give them one " \
	"hash tag, such as {user:1}"
#define SL_PENDING_MISUSE_TEXT                                                                               \
	"the store is in Redis, and its node can't decide that: an instant (AT) needs a module that was loaded " \
	"with client-time yes, and some limits need the module; the server's log has the node's message"

struct sl_pending_call {
	/* items, their terms, id and each (always there) lie in the same memory. Deciding fills err, merged, each,
	 * forgotten, found, granted and repeated: SLUICE_OK where it was decided, there or, under on-error: local, here;
	 * SLUICE_E_AWAY where it was not, and what the limits say to that is the door's to do; SLUICE_E_MISUSE for what
	 * can't be asked there. Others as sluice_decide() has them. */
	struct sluice_call call;
	const struct sl_pending_item *facts; /* of each item */
	struct sl_undecided undecided;       /* what passes all the same; set where the call was decided in part */
	bool retried;                        /* as in struct sl_call_outcome: where need be the id goes */
	bool dated;                          /* the client has set the instant call.now; else the store's clock decides */
};

struct sl_pending {
	struct sl_pending *next;   /* whoever waits for it, in lists of his own */
	struct sl_pending *parked; /* of net/parking.c, which holds it meanwhile, in its own list */
	void *asker;               /* of one that was put off: which of the door's requests asks */
	struct sl_pending *before; /* of such a one: a list of what that request asked for before, and has got */
	/* Called once, on the worker's thread, where send() did not decide at once; from then on it is
	 * the callee's again. `to` is NULL for one that nobody waits for any more: then the fleet frees it instead. */
	void (*ready)(struct sl_pending *pending, void *to);
	void *to;
	void *owner; /* of whoever decides it, for himself */
	/* Of one that waits until the policy was read again: what that came to. It has one call, which is nothing. */
	struct sl_reload *reload;
	struct sl_override_ask *override; /* of one that is about quotas of keys' own; its one call is nothing */
	struct sl_inspected *inspected; /* of one whose only call's items are looked at, and not decided: what is told */
	sluice_ns sent_at; /* sl_clock_monotonic() */
	uint32_t call_count;
	struct sl_pending_call calls[];
};

/* Where decisions are made that this process can't make. One a worker. */
struct sl_remote {
	/* Takes calls to be decided. True: they are already (ready() is not called). Never blocks, and calls no ready()
	 * before it returns; ready() itself may send others. */
	bool (*send)(struct sl_remote *remote, struct sl_pending *pending);
};

/* Decides the calls of outcomes (outcome->call, positions, shown and candidate_of are read) at context->remote or,
 * where there is none, at context->parking. True: all are decided, call->err says how; where call->each is not NULL it
 * is filled; call->id is the one under which it was decided, and lives until sl_pending_settle(). False: they are under
 * way, or there is no memory for it (context->pending is NULL then, and the door closes): the caller leaves no trace
 * and returns SL_DOOR_WAIT. */
SLUICE_MUST_USE bool sl_pending_decide(struct sl_door_context *context, const struct sl_call_outcome *outcomes,
                                       size_t count);

/* Decides one call: in the store, where the counters are here and nobody holds it up, else as sl_pending_decide(), with
 * whose words it answers. How long the store took is counted. Where outcome->more, what the store decides is kept until
 * sl_pending_settle(): if a later call waits, this one is asked again, and must neither be decided anew nor get the
 * later one's answer. */
SLUICE_MUST_USE bool sl_pending_ask(struct sl_door_context *context, const struct sl_call_outcome *outcome);

/* The same after calls that were decided in the store: true, unless one is held up by another process (store/lock.h)
 * and has to wait; what was decided beside it is kept. */
SLUICE_MUST_USE bool sl_pending_park(struct sl_door_context *context, const struct sl_call_outcome *outcomes,
                                     size_t count);

struct sl_inspected;

/* Has what counters hold told (door/inspected.h) at context->remote, which is there, by outcome->call's items and
 * positions. True: *told lives until sl_pending_settle(). False: as sl_pending_decide(). */
SLUICE_MUST_USE bool sl_pending_inspect(struct sl_door_context *context, const struct sl_call_outcome *outcome,
                                        const struct sl_inspected **told);

struct sl_override_ask;

/* Has nodes asked about quotas of keys' own (door/override_ask.h) at context->remote, which is there. True: *told,
 * which says what it came to, lives until sl_pending_settle(). False: as sl_pending_decide(). */
SLUICE_MUST_USE bool sl_pending_override(struct sl_door_context *context, const struct sl_override_ask *asked,
                                         struct sl_override_ask **told);

/* Has the policy read again, at context->reloading, which is there. True: *outcome says what it came to, and lives
 * until sl_pending_settle(). False: as sl_pending_decide(). */
SLUICE_MUST_USE bool sl_pending_reload(struct sl_door_context *context, const struct sl_reload **outcome);

/* For doors that answer each request on its own: after sl_pending_decide() or sl_pending_park() has returned false with
 * context->pending, that is put off, and the door goes on with other requests. It is fed nothing, with context->asker
 * and context->ready, when it is there: then that request alone is decided again, by the same calls, and finds what it
 * asked for, in all its steps so far. `asker` must live until then, or until the connection closes, even if its own
 * client has lost interest. */
void sl_pending_put_off(struct sl_door_context *context, void *asker);

/* Whether a door has to ask for what is ready, before it decides in the store. */
static inline bool sl_pending_wait(const struct sl_door_context *context) {
	return context->ready != NULL;
}

/* What was decided since the last call has been answered: what it came from is freed. */
void sl_pending_settle(struct sl_door_context *context);
/* For doors that ask for one request at a time: it is answered, and whatever it asked for is freed. It may have been
 * answered without that, if something else has changed meanwhile: logins of its client are refused now. */
void sl_pending_drop(struct sl_door_context *context);

/* Frees one that nobody decides (any more); NULL is allowed. */
void sl_pending_free(struct sl_pending *pending);
/* Frees a list of them, linked by `next`. */
void sl_pending_free_all(struct sl_pending *first);

#endif
