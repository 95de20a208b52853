/* One limit of a call while it is being decided: what check.c, charge.c and remember.c share. */
#ifndef SL_MEMBER_H
#define SL_MEMBER_H

#include "algo/step.h"
#include "base/assert.h"
#include "store/blocks.h"
#include "store/sketch.h"

struct member {
	const struct sluice_limit *limit;
	const struct sl_place *place;
	struct sl_slot *slot;      /* NULL: no counter yet */
	struct sl_counter counter; /* a copy */
	struct sluice_decision *decision;
	uint32_t block; /* taken for it */
	uint64_t block_bytes;
	bool observed;
	bool tried;      /* its own answer charges nothing */
	bool counts;     /* not `unlimited`, which has no counter */
	bool charged;    /* this member charges the counter that it, or a group, has */
	bool claimed;    /* the slot was claimed by this call */
	bool remembered; /* it has no counter, and the sketch knows of one: with this use, and this to be held against it */
	uint8_t use;
	uint8_t held_count;
	struct sl_held held[SL_USES];
	uint8_t leader; /* first member with the same counter */
};

/* Copies the state from the slot, or none. */
static inline void member_load(const struct sluice_store *store, struct member *m) {
	const uint64_t *state;
	uint32_t block;
	m->counter.block = NULL;
	m->counter.block_bytes = 0;
	if (m->slot == NULL) {
		m->counter.state = (struct sl_state){{0, 0}};
		return;
	}
	/* by words of 8: whatever wrote them last, the processor can forward that */
	state = sl_slot_state(m->slot);
	m->counter.state.w[0] = __atomic_load_n(&state[0], __ATOMIC_RELAXED);
	m->counter.state.w[1] = __atomic_load_n(&state[1], __ATOMIC_RELAXED);
	block = (uint32_t)m->counter.state.w[1];
	if (sl_rule_has_block(m->limit) && block != 0) {
		m->counter.block = sl_block_memory(store, block);
		m->counter.block_bytes = sl_block_bytes(store, block);
		sl_step_prefetch(m->limit, &m->counter);
	}
}

/* Decides a member that has no counter in a store that has evicted some: from what the sketch knows, if it does. */
void member_step_remembered(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost,
                            bool charge, struct sluice_decision *decision);

/* Makes the counter of a remembered member anew, in its block if it keeps one; then it can be stepped and written. */
void member_assume(struct member *m, void *block, uint64_t block_bytes);

/* Decides a member on a copy of its counter, or on what the sketch knows of one; with `charge`, the copy comes back
 * charged where the algorithm keeps no block. */
static inline void member_step(const struct sluice_store *store, struct member *m, sluice_ns now, uint64_t cost,
                               bool charge, struct sluice_decision *decision) {
	m->remembered = false;
	if (__builtin_expect(m->slot == NULL, 0) && sl_sketch_is_used(store, now)) {
		member_step_remembered(store, m, now, cost, charge, decision);
		return;
	}
	member_load(store, m);
	sl_step(m->limit, &m->counter, now, cost, charge, decision);
}

/* Publishes the state that a member's copy has now, with the use and lifetime that its decision says. */
static inline void member_publish_state(struct member *m) {
	uint64_t marks =
		__builtin_expect(m->remembered, 0) ? sl_marks_start(true, m->use) : sl_tag_marks(sl_slot_tag(m->slot));
	sl_slot_publish(m->slot, m->counter.state.w, sl_marks_of(marks, m->decision->quota, m->decision->remaining),
	                sl_step_life(m->limit, m->decision));
}

/* Charges a counter that is there, and whose block, if it has one, is long enough: sl_step() has been called. */
static inline void member_publish(struct member *m, const struct sluice_call *call) {
	if (sl_rule_has_block(m->limit)) {
		if (sl_step_prepare(m->limit, &m->counter))
			sl_slot_write(m->slot, m->counter.state.w);
		sl_step_write(m->limit, &m->counter, call->now, call->cost, NULL, 0);
	}
	member_publish_state(m);
}

/* Before a state is written at `now`: no state may be later than header->latest_charge. */
static inline void members_keep_latest(struct sluice_store *store, sluice_ns now) {
	if (__builtin_expect(now >= __atomic_load_n(&store->latest_ns, __ATOMIC_RELAXED), 0))
		sl_store_raise_latest(store, now);
}

/* Charges all members that are marked `charged`, or none; sl_step() has been called for each, and its home is locked.
 * Finds slots for new counters and blocks for longer logs, evicting where there is no other way. SLUICE_OK or
 * SLUICE_E_FULL, and then nothing was changed but who else had to go. */
SLUICE_MUST_USE sluice_err members_charge(struct sluice_store *store, const struct sluice_call *call,
                                          struct member *members, uint32_t count);

/* Forgets a counter, and what the sketch knows of it. Returns whether there was one. */
bool member_reset(struct sluice_store *store, struct member *m, sluice_ns now);

#endif
