/* Charging the counters of one call: slots and blocks first, which may fail, then writing, which can't.
 *
 *   claim     a slot for each new counter, FRESH until it is published: a death gives it back
 *   take      the blocks that longer logs need, all within one change of the blocks (store/blocks.c): a death, or one
 *             that is not to be had, undoes all of it
 *   publish   each state by one store; with a new block within the change, so that the state and who owns which block
 *             become true together */
#include "check/member.h"

enum { ROOM_TRIES = 64 };

/* Nothing is claimed yet, and what was found is held. */
static void hold_found(struct member *members, uint32_t count, struct sl_hold *hold) {
	hold->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		members[i].claimed = false;
		if (members[i].slot != NULL)
			hold->slots[hold->count++] = members[i].slot;
	}
}

static sluice_err claim_all(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                            uint32_t count, struct sl_hold *hold) {
	hold_found(members, count, hold);
	for (uint32_t i = 0; i < count; i++) {
		struct member *m = &members[i];
		if (!m->charged || m->slot != NULL)
			continue;
		m->slot = sl_slot_claim(store, m->place, call->now, hold);
		if (m->slot == NULL)
			return SLUICE_E_FULL;
		m->claimed = true;
		hold->slots[hold->count++] = m->slot;
	}
	return SLUICE_OK;
}

static void give_back_claims(struct sluice_store *store, struct member *members, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		if (!members[i].claimed)
			continue;
		sl_slot_free(store, members[i].place->home, members[i].slot);
		members[i].slot = NULL;
		members[i].claimed = false;
	}
}

/* How long a block each member needs; whether any needs one. */
static sluice_err plan_blocks(const struct sluice_call *call, struct member *members, uint32_t count, bool *any) {
	*any = false;
	for (uint32_t i = 0; i < count; i++) {
		struct member *m = &members[i];
		m->block_bytes = 0;
		if (!m->charged || !sl_rule_has_block(m->limit))
			continue;
		m->block_bytes = m->remembered ? sl_step_assume_bytes(m->limit, m->held_count)
		                               : sl_step_block_bytes(m->limit, &m->counter, call->cost);
		if (m->block_bytes == SL_BLOCK_TOO_LARGE)
			return SLUICE_E_FULL;
		*any = *any || m->block_bytes != 0;
	}
	return SLUICE_OK;
}

/* Takes all blocks; returns 0, or the bytes of the one that was not to be had. */
static uint64_t take_all(struct sluice_store *store, struct member *members, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint64_t true_bytes;
		members[i].block = 0;
		if (!members[i].charged || members[i].block_bytes == 0)
			continue;
		members[i].block = sl_blocks_take(store, members[i].block_bytes, &true_bytes);
		if (members[i].block == 0)
			return members[i].block_bytes;
	}
	return 0;
}

/* Opens a change of the blocks in which all are taken. */
static sluice_err open_blocks(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                              uint32_t count, const struct sl_hold *hold) {
	uint64_t short_of;
	for (int i = 0; i < ROOM_TRIES; i++) {
		sl_blocks_begin(store);
		short_of = take_all(store, members, count);
		if (short_of == 0)
			return SLUICE_OK;
		sl_blocks_abort(store);
		if (!sl_store_make_room(store, short_of, call->now, hold))
			break;
	}
	return SLUICE_E_FULL;
}

/* Charges into the block that was taken, and lets go of the one before; within the change. */
static void publish_moved(struct sluice_store *store, struct member *m, const struct sluice_call *call) {
	uint64_t bytes = sl_block_bytes(store, m->block);
	uint32_t old = m->remembered ? 0 : (uint32_t)m->counter.state.w[1];
	void *block = sl_block_memory(store, m->block);
	if (m->remembered) {
		member_assume(m, block, bytes);
		sl_step(m->limit, &m->counter, call->now, call->cost, true, m->decision);
		sl_step_write(m->limit, &m->counter, call->now, call->cost, NULL, 0);
	} else {
		sl_step_write(m->limit, &m->counter, call->now, call->cost, block, bytes);
	}
	m->counter.state.w[1] = m->counter.state.w[1] >> 32 << 32 | m->block;
	sl_block_own(store, m->block, m->slot);
	sl_blocks_save_slot(store, m->slot);
	member_publish_state(m);
	if (old != 0)
		sl_blocks_free(store, old);
}

static void publish_all(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                        uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		struct member *m = &members[i];
		if (!m->charged)
			continue;
		if (m->block_bytes != 0)
			publish_moved(store, m, call);
		else
			member_publish(m, call);
		if (m->remembered)
			__atomic_fetch_add(&store->header->sketch_starts, 1, __ATOMIC_RELAXED);
	}
}

sluice_err members_charge(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                          uint32_t count) {
	struct sl_hold hold;
	bool change;
	sluice_err err = plan_blocks(call, members, count, &change);
	if (err != SLUICE_OK)
		return err;
	err = claim_all(store, call, members, count, &hold);
	if (err == SLUICE_OK && change)
		err = open_blocks(store, call, members, count, &hold);
	if (err != SLUICE_OK) {
		give_back_claims(store, members, count);
		return err;
	}
	publish_all(store, call, members, count);
	if (change)
		sl_blocks_commit(store);
	return SLUICE_OK;
}

/* What the sketch knows can't be taken out of it, since others may share it: a counter that has been charged nothing,
 * and lives as long as that, stands before it. */
static void hide_from_sketch(struct sluice_store *store, struct member *m, sluice_ns now) {
	const struct sl_hold hold = {.count = 0};
	const uint64_t state[2] = {now >> SL_COARSE_SHIFT << SL_COARSE_SHIFT, 0};
	struct sl_slot *slot = sl_slot_claim(store, m->place, now, &hold);
	members_keep_latest(store, now);
	if (slot != NULL)
		sl_slot_publish(slot, state, 0, store->header->sketch_until_ns - now);
}

bool member_reset(struct sluice_store *store, struct member *m, sluice_ns now) {
	struct sluice_decision decision;
	bool was;
	m->slot = sl_slot_find(m->place); /* again: to hide another member one may have had to go */
	was = m->slot != NULL;
	if (was)
		sl_slot_free(store, m->place->home, m->slot);
	m->slot = NULL;
	if (sl_sketch_is_used(store, now)) {
		member_step(store, m, now, 0, false, &decision);
		if (m->remembered)
			hide_from_sketch(store, m, now);
		was = was || m->remembered;
		m->slot = sl_slot_find(m->place);
	}
	return was;
}
