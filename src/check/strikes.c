/* Strikes: who was denied how often. They are a counter's companion, in a slot of the same home, with algo/terms.h in
 * its block, and outlive the counter. They are looked for only where a limit has penalties, and written in a block
 * anew, so that a death leaves them as before or as after; nothing else writes them. */
#include "check/part.h"

/* The slot has the instant of the last denial as well. A block that says another is torn, and nothing is remembered: it
 * would lock its key out for as long as the key asks. */
static void load(const struct sluice_store *store, const struct sl_slot *slot, struct sl_strikes *strikes) {
	uint32_t block = slot != NULL ? (uint32_t)sl_slot_state(slot)[1] : 0;
	memset(strikes, 0, sizeof *strikes);
	if (block == 0)
		return;
	memcpy(strikes, sl_block_memory(store, block), sl_min(sizeof *strikes, sl_block_bytes(store, block)));
	if (strikes->last >> SL_COARSE_SHIFT != sl_slot_state(slot)[0] >> SL_COARSE_SHIFT)
		memset(strikes, 0, sizeof *strikes);
}

void strikes_find(const struct sluice_store *store, struct part *m) {
	SL_ASSERT(!m->cell.plain && m->cell.strikes != NULL && m->cell.terms->penalty_count != 0);
	m->strikes.place = sl_place_beside(m->place, SL_BESIDE_STRIKES);
	m->strikes.slot = sl_slot_find(&m->strikes.place);
	load(store, m->strikes.slot, m->cell.strikes);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes strikes into a block that was taken; within the change. A penalty that begins is kept, where it may be. */
static void publish(struct sluice_store *store, struct part *m, uint32_t block, bool claimed) {
	const struct sl_strikes *strikes = m->cell.strikes;
	struct sl_slot *slot = m->strikes.slot;
	uint64_t last = strikes->last >> SL_COARSE_SHIFT << SL_COARSE_SHIFT;
	bool kept = strikes->until > strikes->last && sl_penalty_may_be_kept(store, m->place->home, strikes->last);
	const uint64_t state[2] = {last, (kept ? sl_penalty_word(last, strikes->until) : 0) | block};
	uint32_t old = claimed ? 0 : (uint32_t)sl_slot_state(slot)[1];
	sluice_ns life = sl_strikes_life(m->cell.terms, strikes, strikes->last);
	SL_ASSERT(block != 0 && slot != NULL);
	memcpy(sl_block_memory(store, block), strikes, sl_strikes_bytes(strikes));
	sl_block_own(store, block, slot);
	sl_blocks_save_slot(store, slot);
	sl_slot_publish(slot, state, kept ? SL_MARKS_BESIDE_PENALTY : SL_MARKS_BESIDE_MUCH,
	                life_until(state[0], ns_add(strikes->last, life + SL_MS_NS)));
	if (old != 0)
		sl_blocks_free(store, old);
}

bool strikes_write(struct sluice_store *store, const struct sluice_call *call, struct part *parts, struct part *m) {
	uint64_t bytes = sl_strikes_bytes(m->cell.strikes), true_bytes;
	struct sl_pins pins;
	bool claimed;
	uint32_t block;
	m->strikes.slot = sl_slot_find(&m->strikes.place); /* another limit of the call may have brought it */
	claimed = m->strikes.slot == NULL;
	SL_ASSERT(!m->cell.plain && m->cell.struck && bytes <= sizeof(struct sl_strikes));
	parts_keep_latest(store, call->now);
	parts_pin_found(parts, call->item_count, &pins);
	if (claimed)
		m->strikes.slot = sl_slot_claim(store, &m->strikes.place, call->now, &pins);
	if (m->strikes.slot == NULL)
		return false;
	SL_ASSERT(pins.count < SL_PINS_MAX);
	pins.slots[pins.count++] = m->strikes.slot;
	for (struct sl_room_search room = {0};;) {
		if (sl_blocks_begin(store) != SLUICE_OK)
			break; /* a denial stands, noted or not */
		block = sl_blocks_take(store, bytes, &true_bytes);
		if (block != 0) {
			publish(store, m, block, claimed);
			sl_blocks_commit(store);
			return true;
		}
		sl_blocks_abort(store);
		if (!sl_store_make_room(store, bytes, call->now, &pins, &room))
			break;
	}
	if (claimed) {
		(void)sl_slot_free(store, m->place->home, m->strikes.slot); /* it has no block yet */
		m->strikes.slot = NULL;
	}
	return false;
}

/* ---- how a key stands -------------------------------------------------------------------------------------------- */

struct sluice_standing sluice_standing(struct sluice_store *store, const struct sluice_item *item, sluice_ns now) {
	struct sluice_standing none = {0};
	struct sl_strikes strikes;
	struct sluice_item keyed;
	struct sluice_limit limit;
	struct sl_place counter, place;
	if (store == NULL || store->owner == 0 || item == NULL || item->limit == NULL || item->terms == NULL ||
	    item->terms->penalty_count == 0 || !sl_terms_are_valid(item->terms) ||
	    !sl_rule_has(item->limit, SL_HAS_COUNTER))
		return none;
	limit = *item->limit;
	sl_rule_key(&limit, item->key);
	keyed = (struct sluice_item){.limit = &limit, .key = item->key};
	counter = part_place(store, &keyed);
	place = sl_place_beside(&counter, SL_BESIDE_STRIKES);
	if (sl_home_lock_patiently(store, place.home) != SLUICE_OK)
		return none;
	load(store, sl_slot_find(&place), &strikes);
	sl_home_unlock(place.home);
	return sl_strikes_stand(item->terms, &strikes, now);
}
