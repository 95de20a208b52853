/* One limit of a call while it is being decided over values: a cell of src/decide, with what this host knows of it. */
#ifndef SLR_PART_H
#define SLR_PART_H

#include "decide/decide.h"
#include "hosts/redis/decide.h"
#include "hosts/redis/charge.h"
#include "hosts/redis/companion.h"

/* A counter as it is or would be, apart from the value. It reads the value's block until it is charged. */
struct slr_image {
	struct sl_counter *counter;
	void *own; /* its own block, once it has one */
};

struct slr_part {
	struct sl_cell cell; /* what the engine knows of it: first */
	struct slr_key *key;
	struct sl_identity identity;

	/* as slr_part_load() found it */
	struct slr_image image;        /* cell.counter, with leases charged and reservations returned that have ended */
	struct sl_state state;         /* of it: a step may change the one in the image */
	uint32_t rate;                 /* of a bucket, as the value has it */
	bool packed;                   /* as the value has it */
	const struct slr_holds *holds; /* in the value; NULL: none */
	uint32_t ended;                /* the first so many of them have */
	int32_t own;                   /* the one with the call's id, left out of account; -1: none */
	uint64_t held;                 /* by all others */
	uint64_t leased;               /* of that: by leases, which last; plain holds are over in a moment */
	struct sl_ledger ledger;       /* in the value */
	struct sl_contents contents;   /* of its bundles */
	uint32_t returned;             /* the first so many of its entries have ended */
	sluice_ns clock;               /* the counter's: `now`, or its last charge where that is later */
	struct sl_found found;         /* what the call commits */
	struct sluice_limit key_rule;  /* cell.limit, where the key has a quota of its own */
	bool free;                     /* that is unlimited, but the call deals with what was held before */
};

/* A call while it is decided. */
struct slr_deciding {
	struct sl_deciding engine; /* first: the engine hands it back */
	struct slr_call *call;
	struct slr_part parts[SLUICE_ITEMS_MAX];
};

/* Reads a part's counter out of its value.
 *  skip_own  the hold with the call's id is not held against it
 * False: a log is too long for the leases that have ended. */
SLUICE_MUST_USE bool slr_part_load(const struct slr_call *call, struct slr_part *m, bool skip_own);

/* Reads it again, after a change of the call: that its leases are charged already is sure. */
void slr_part_reload(const struct slr_call *call, struct slr_part *m);

/* Gives back what loading took. A part may be loaded again after it. */
void slr_part_drop(struct slr_part *m);

/* Decides a cost of 0..2^32 as the counter stands, with what is held and reserved of it, without its penalties; with
 * `charge` the figures are those after the charge, or for SL_OP_HOLD after the hold. Where nothing is held the image's
 * state comes back charged. (held.c) */
void slr_part_judge(const struct slr_call *call, struct slr_part *m, uint64_t cost, bool charge,
                    struct sluice_decision *decision);

/* Charges an image at the rate of `wide`, from there on; with a lease that has ended, which says nothing of who asks
 * now: a bucket goes on at the rate that it had. False: a log is too long for it. */
SLUICE_MUST_USE bool slr_image_charge(const struct sluice_limit *wide, struct slr_image *image, sluice_ns instant,
                                      uint32_t cost);
SLUICE_MUST_USE bool slr_image_charge_lease(const struct sluice_limit *wide, struct slr_image *image,
                                            const struct slr_hold *hold);

/* Returns to an image the reservations from index `from` on that have ended at an instant. Returns how many have in
 * all. */
uint32_t slr_image_return(const struct slr_part *m, struct slr_image *image, uint32_t from, sluice_ns instant);

/* What is done to a part's counter. */
struct slr_change {
	uint32_t charge; /* at `now`, if not 0; forced: without asking the limit */
	bool forced;
	bool counted;                           /* as count-denied charges: whatever the quota */
	bool drop_own;                          /* the hold with the call's id goes */
	bool keep_own;                          /* but only what is charged of it */
	const struct slr_hold *place;           /* a hold to be added, or NULL */
	const struct sl_correction *correction; /* that the image has been corrected by, or NULL */
};

/* Whether the server has no memory for more. */
static inline bool slr_is_full(const struct slr_call *call) {
	return call->is_full != NULL && call->is_full();
}

/* Whether a change finds room: SLR_FINE, or why not. Nothing is changed. A counter that is not there yet, a longer
 * block and a reservation need memory; what was held before, or was admitted elsewhere, finds room in any case. */
SLUICE_MUST_USE enum slr_failure slr_part_plan(const struct slr_call *call, struct slr_part *m,
                                               const struct slr_change *change);

/* Whether the counter could hold one thing more. */
bool slr_part_has_place(const struct slr_part *m);

/* Changes the value, with what ended meanwhile. The part has been loaded, and its change planned; others that share
 * the counter are to be loaded again. m->decision is what the change leads to: it says how long the key is kept. */
void slr_part_commit(const struct slr_call *call, struct slr_part *m, const struct slr_change *change);

/* Keeps the key of a counter that was changed as long as its decision, made after the change, says. */
void slr_part_keep(const struct slr_call *call, struct slr_part *m);

/* The reservations that are open at the part's clock. */
static inline struct sl_ledger slr_part_open(const struct slr_part *m) {
	if (m->ledger.count == m->returned)
		return (struct sl_ledger){NULL, 0};
	return (struct sl_ledger){m->ledger.list + m->returned, m->ledger.count - m->returned};
}

/* Corrects the image, and with it what is decided on it. False: a log is too long for it, and nothing was changed. */
SLUICE_MUST_USE bool slr_part_correct(struct slr_part *m, const struct sl_correction *list, uint32_t count);

/* Records that what a part was charged by the commit before is a reservation of the call's id. */
void slr_part_reserve(const struct slr_call *call, struct slr_part *m);

/* A reservation that was found is over: it leaves the ledger. Before the commit. */
void slr_part_close(const struct slr_call *call, struct slr_part *m, const struct sl_found *found);

/* The corrections that return entries from..until - 1 of a part's ledger, for slr_give(); they may be none. */
struct sl_correction *slr_part_returns(const struct slr_part *m, uint32_t from, uint32_t until, uint32_t *count);

/* Writes the strikes of a part's counter. */
void slr_part_strike(const struct slr_call *call, struct slr_part *m);

/* Ends the lease of the call's id, or renews it. False: there is none, and nothing changed. */
bool slr_part_release(const struct slr_call *call, struct slr_part *m);
bool slr_part_renew(const struct slr_call *call, struct slr_part *m);

/* Gives back at most `cost`; a counter that is not there stays so. */
void slr_part_refund(const struct slr_call *call, struct slr_part *m, uint32_t cost);

/* Forgets the counter. False: there was none. */
bool slr_part_reset(const struct slr_call *call, struct slr_part *m);

/* ---- room (room.c) ----------------------------------------------------------------------------------------------- */

/* The key among whose counters a request's record is kept: of the first limit that it can charge; NULL: it charges
 * none. */
struct slr_key *slr_record_key(const struct slr_deciding *d);

/* Of a peek: whether there will be room for the counter of a cell, which has none, and for all that the call would make
 * at its key. */
SLUICE_MUST_USE bool slr_counter_fits(const struct slr_deciding *d, const struct slr_part *m);

/* Whether there is room in their values for all counters that the cells marked `charged` would make; else `*at` is a
 * cell that would make one. */
SLUICE_MUST_USE bool slr_counters_fit(const struct slr_deciding *d, uint32_t *at);

/* Whether there will be room for the record of the call, if it has one, too; else it is not remembered. */
SLUICE_MUST_USE bool slr_record_fits(const struct slr_deciding *d);

/* Which bound a failure is, and for how long. */
struct sl_shortage slr_shortage_of(const struct slr_call *call, struct slr_part *m, enum slr_failure failure);

/* ---- the call (cells.c, slice.c) --------------------------------------------------------------------------------- */

/* Decides a call of any kind. (cells.c) */
SLUICE_MUST_USE enum slr_failure slr_decide_cells(struct slr_call *call);

/* What a front does with its holds, and no other call does: SL_OP_CANCEL, SL_OP_LEASE. Of SL_OP_HOLD and SL_OP_CONFIRM
 * the figures where nothing was charged, so that the call's own hold is where it was. (slice.c) */
void slr_cancel_holds(struct slr_deciding *d);
SLUICE_MUST_USE enum slr_failure slr_take_slice(struct slr_deciding *d);
void slr_look_kept(struct slr_deciding *d);

/* ---- keys (commit.c) --------------------------------------------------------------------------------------------- */

/* Says that a key's value has changed, and is to be kept until a wall time (0: as long as it is kept anyhow); and the
 * wall time of an instant that is so far ahead. */
void slr_key_changed(struct slr_key *key, int64_t until_ms);
int64_t slr_wall_in(const struct slr_call *call, struct slr_key *key, sluice_ns ahead);

/* Before a call: nothing of the key is changed yet. Returns how many counters it has. */
static inline uint32_t slr_key_begin(struct slr_key *key) {
	key->changed = key->exact = false;
	key->expire_ms = key->spare_ms = key->wall_ms = 0;
	key->effects.bytes.len = 0;
	return slr_value_count(key->value);
}

/* Where a key has as many counters as it may, and a charge needs another: removes those whose time is over. False: none
 * was. Parts of the key are to be loaded again. */
bool slr_key_reclaim(const struct slr_call *call, struct slr_key *key);

/* How many counters of a key slr_key_reclaim() would leave. */
uint32_t slr_key_needed(const struct slr_call *call, struct slr_key *key);

/* The wait until the first of a key's counters can be removed, by the wall's clock; SLUICE_NEVER: none is known. */
sluice_ns slr_key_first_end(const struct slr_call *call, struct slr_key *key);

/* After the last change of a call: rows whose time is over go, and the value takes its smallest form. */
void slr_key_settle(const struct slr_call *call, struct slr_key *key, uint32_t count_before);

#endif
