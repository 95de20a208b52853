/* Deciding a call over cells: every rule of deciding, said once, whatever memory counters are kept in.
 *
 * A cell is one limit of a call with the counter that it counts in, and that counter's companions: its open
 * reservations (algo/ledger.h), its strikes (algo/terms.h). A host keeps cells: the arena (src/check), a value of Redis
 * (hosts/redis), an array (tests/unit/array_host.c). It fills its cells, calls sl_decide(), and is asked back through
 * a table of eight operations, struct sl_host. This folder knows no store and takes no memory.
 *
 *   recall   what the call asks for was done before under its id: it is answered as it was then, and charges nothing
 *   grant    how much of the cost fits, where a part will do (`upto`)
 *   judge    each limit as it stands, as if all will be charged
 *   change   if all enforced limits admit: all cells or none; a cell that has no room denies by its bound
 *   look     the figures of those that were changed under their decision
 *   note     denials that have consequences (denials.c)
 *   answer   each limit, and all of them merged
 *
 * I1  Limits that meet in one counter are each decided on it as it was, by their own cost, and charge it once: through
 *     the one of those that may whose cost is the greatest, the first of equals: the group's charger.
 * I2  Observed limits are decided like the others, never deny, and are charged only where they would have admitted;
 *     candidates (SLUICE_TRIED) are charged through others only.
 * I3  A call that is denied, that only looks, or that fails changes no cell, but for what a denial leaves with limits
 *     that have terms.
 * I4  Of limits that are quotas (sluice_item.quota) all deny together, or none does: where one admits, those that would
 *     deny are observed in this call; where none admits, all are enforced. */
#ifndef SL_DECIDE_H
#define SL_DECIDE_H

#include "algo/ledger.h"
#include "algo/merge.h"
#include "algo/step.h"
#include "algo/terms.h"
#include "base/assert.h"

/* One limit of a call. Its host fills it, by sl_cell_set_up() and its own load(); what comes out is the engine's. */
struct sl_cell {
	const struct sluice_limit *limit;
	const struct sluice_terms *terms;  /* NULL: none */
	struct sluice_decision *decision;  /* out, and what a change is made by */
	struct sl_counter counter;         /* a copy of the counter as the host has it; `who` is filled */
	struct sl_strikes *strikes;        /* a copy of its strikes; NULL: the limit has no penalties */
	uint64_t who;                      /* the lease's number, the member's fingerprint; 0: nobody's */
	sluice_ns ttl_ns;                  /* what is charged is a reservation for so long; 0: it is none */
	uint32_t cost;                     /* that is asked of it, or given back, or the true cost */
	uint8_t leader;                    /* the first cell with the same counter */
	uint8_t bound;                     /* enum sluice_bound that it has met before the call: it denies all that costs */
	bool counts;                       /* it has a counter: not `unlimited`, and no bound met before */
	bool observed;                     /* it takes no part in the merged answer */
	bool quota;                        /* it is enforced only where all that say so deny: I4 */
	bool tried;                        /* a candidate: it charges nothing itself either */
	bool there;                        /* its counter exists */
	bool plain;                        /* the counter has no companions, and the call brings none */
	bool kept;                         /* it holds what the call asks for already: its lease, its reservation */
	bool charged;                      /* in SL_CHARGE: this cell charges the counter that it, or a group, has */
	bool forced;                       /* in SL_CHARGE: whatever the quota */
	bool corrects;                     /* in SL_CORRECT: its reservation gets its true cost */
	bool gone;                         /* out of SL_FORGET: there was something to forget */
	bool struck;                       /* the limit itself denied somebody who was not locked out: a strike is due */
};

/* What a host is to do to cells, all or none. */
enum sl_change {
	SL_CHARGE,  /* those marked `charged`: their cost, as their decision says, and a reservation of it under ttl_ns */
	SL_CORRECT, /* those marked `corrects`: the reservation that find() found. Where there is no room for that, the
	             * estimate stays charged: never SLUICE_E_FULL */
	SL_REFUND,  /* leaders: gives back at most the cost, newest charges first. Never SLUICE_E_FULL */
	SL_FORGET,  /* leaders: the counter and its companions; fills `gone`. Never SLUICE_E_FULL */
};

/* What kept cells from being charged: a bound of ours, by which the limits of one counter deny (contract 4.10). */
struct sl_shortage {
	uint32_t cell;
	sluice_bound bound;
	sluice_ns wait_ns; /* by when it can have passed; SLUICE_NEVER: never */
};

/* The record of a request that was charged under an id. */
struct sl_record {
	sluice_ns at;      /* when */
	sluice_ns life_ns; /* for how long it counts: the longest window of the call */
	sluice_ns delay_ns;
	uint32_t granted;
};

struct sl_deciding;

/* The seam. None of these may fail but change(); all are called on the thread of sl_decide(). */
struct sl_host {
	/* Reads a cell again, after a change: counter, there, plain, strikes. */
	void (*load)(struct sl_deciding *d, struct sl_cell *cell);

	/* Decides a cost of 0..2^32 as the counter stands, with its open reservations and without its penalties; all
	 * fields but index and next_after_ns. With `charge` the figures are those after the charge, where the cell is
	 * plain; of others they may be those before it, and are looked at again. */
	void (*judge)(struct sl_deciding *d, struct sl_cell *cell, uint64_t cost, bool charge,
	              struct sluice_decision *decision);

	/* Changes cells, all or none: SLUICE_OK, after which those that share a counter with a changed cell are to be
	 * loaded again; SLUICE_E_FULL, and `shortage` says which cell was refused and by which bound; or another error,
	 * by which the call fails. Nothing was changed in either case. */
	sluice_err (*change)(struct sl_deciding *d, enum sl_change change, struct sl_shortage *shortage);

	/* Whether the cell's counter has an open reservation of the call's id, and of how much: what SL_CORRECT is
	 * about. */
	bool (*find)(struct sl_deciding *d, struct sl_cell *cell, uint32_t *cost);

	/* SLUICE_RELEASE and SLUICE_RENEW: ends the lease of the call's id, or lets it end T from now. False: none is
	 * held. */
	bool (*end)(struct sl_deciding *d, struct sl_cell *cell);

	/* Writes cell->strikes. False: there is no room for them, and they are as they were. */
	bool (*strike)(struct sl_deciding *d, struct sl_cell *cell);

	/* The record of a request under the call's id and of all its counters. recall(): `record` comes with life_ns and
	 * is filled; false: there is none. record(): keeps it for its life_ns, which is not 0, where there is room. */
	bool (*recall)(struct sl_deciding *d, struct sl_record *record);
	void (*record)(struct sl_deciding *d, const struct sl_record *record);
};

/* A call while it is decided. */
struct sl_deciding {
	const struct sl_host *host;
	struct sluice_call *call;
	struct sl_cell *cells[SLUICE_ITEMS_MAX]; /* the host's, call->item_count of them */
	bool retried;                            /* it may have been charged before, and is recorded */
	bool always_changes;                     /* the host changes something even where nothing is charged */
	struct sluice_inspection *inspect;       /* of a peek: what each cell holds is told, too; NULL: it is not */
};

/* Clears the answer of a call that is about to be decided, or decided again: all but what its limits say. */
static inline void sl_answer_clear(struct sluice_call *call) {
	memset(&call->forgotten, 0,
	       offsetof(struct sluice_call, penalized) + sizeof call->penalized - offsetof(struct sluice_call, forgotten));
}

/* Adds a limit to an answer whose `merged` began as sl_merge_nothing(): to its own place and, where it `merges`, to
 * what all enforced limits say. In their order. */
static inline void sl_answer_add(struct sluice_call *call, uint32_t index, const struct sluice_decision *decision,
                                 bool merges) {
	if (merges)
		sl_merge_add(&call->merged, decision, (int32_t)index);
	if (call->each == NULL)
		return;
	call->each[index] = *decision;
	call->each[index].index = (int32_t)index;
}

/* What ACQUIRE and RESERVE say of how long an item's charge is reserved; 0: it is no reservation. */
static inline sluice_ns sl_item_ttl(const struct sluice_call *call, const struct sluice_item *item) {
	if (item->observed == SLUICE_TRIED || !sl_rule_has(item->limit, SL_RESERVABLE))
		return 0;
	if (call->operation == SLUICE_RESERVE)
		return item->ttl_ns != 0 ? item->ttl_ns : call->ttl_ns;
	return call->operation == SLUICE_ACQUIRE ? item->ttl_ns : 0;
}

/* Fills a cell from what the call says of it: all but counter, strikes, who, there and leader. */
static inline void sl_cell_set_up(struct sl_cell *c, const struct sluice_call *call, uint32_t index,
                                  struct sluice_decision *decision) {
	const struct sluice_item *item = &call->items[index];
	SL_ASSERT(index < call->item_count && call->item_count <= SLUICE_ITEMS_MAX);
	c->limit = item->limit;
	c->terms = item->terms;
	c->decision = decision;
	c->strikes = NULL;
	c->cost = item->cost != 0 ? item->cost : call->cost;
	c->bound = item->bound;
	c->counts = sl_rule_has(item->limit, SL_HAS_COUNTER) && item->bound == SLUICE_BOUND_NONE;
	c->ttl_ns = c->counts ? sl_item_ttl(call, item) : 0;
	c->observed = item->observed != 0;
	c->quota = item->quota != 0 && item->observed == 0;
	c->tried = item->observed == SLUICE_TRIED;
	c->plain = c->ttl_ns == 0;
	c->kept = c->charged = c->forced = c->corrects = c->gone = c->struck = false;
}

/* Has a cell decided by `own`, the limit that its key's own quota makes of it (algo/override.h), which lives as long.
 * Of a key that is unlimited for now nothing is counted; but what only ends or gives back what was charged under
 * another quota is done as if there were none. */
static inline void sl_cell_take_own(struct sl_cell *c, sluice_operation operation, const struct sluice_limit *own) {
	bool charges = operation == SLUICE_CHARGE || operation == SLUICE_PEEK || operation == SLUICE_ACQUIRE ||
	               operation == SLUICE_RESERVE;
	if (sl_rule_has(own, SL_HAS_COUNTER)) {
		c->limit = own;
	} else if (charges) {
		c->limit = own;
		c->counts = false;
		c->ttl_ns = 0;
		c->plain = true;
		c->strikes = NULL;
	}
}

/* Decides a call that is valid, its cells set up and loaded: fills its answer but `err`, which it returns: SLUICE_OK,
 * or what change() failed with. O(limits^2), and what the host takes. */
SLUICE_MUST_USE sluice_err sl_decide(struct sl_deciding *d);

/* Answers by the decisions of all cells, again where a host has brought them up to what it knows: each limit, with
 * next_after_ns where that is asked for, and all of them merged. As sl_decide() does at its end. */
void sl_answer(struct sl_deciding *d);

/* SLUICE_OK, or what is wrong with a call (the public header says what is right), whatever counters there are. */
SLUICE_MUST_USE sluice_err sl_call_validate(const struct sluice_call *call);

/* A delay as records keep it, in 32 bits: m * 2^e ns, m of 27 bits. Exact up to 134 ms, and to 1 in 10^8 beyond, never
 * longer. */
uint32_t sl_delay_pack(sluice_ns delay_ns);
sluice_ns sl_delay_unpack(uint32_t packed);

#endif
