/* Denials that have consequences: strikes under an escalation, and charges of what was denied (struct sluice_terms).
 *
 * The strikes of a key stand beside its counter (a slot of the same home, algo/terms.h in its block) and outlive
 * it. They are looked for only where a limit has penalties. A denial by the limit itself adds one, in a block
 * written anew, so that a death leaves them as before or as after; nothing else writes them.
 *
 * A denial stands, whether or not there is room to note it: had it become an error, a host that allows on errors would
 * let through whom the limit has denied. */
#include "check/member.h"

static void load(const struct sluice_store *store, const struct sl_slot *slot, struct sl_strikes *strikes) {
	uint32_t block = slot != NULL ? (uint32_t)sl_slot_state(slot)[1] : 0;
	memset(strikes, 0, sizeof *strikes);
	if (block != 0)
		memcpy(strikes, sl_block_memory(store, block), sl_min(sizeof *strikes, sl_block_bytes(store, block)));
}

void strikes_find(struct member *m) {
	m->strikes.place = sl_place_beside(m->place, SL_BESIDE_STRIKES);
	m->strikes.slot = sl_slot_find(&m->strikes.place);
	m->strikes.looked = true;
	m->plain = false;
}

bool strikes_judge(const struct sluice_store *store, const struct member *m, sluice_ns now, uint64_t cost,
                   struct sluice_decision *decision) {
	struct sl_strikes strikes;
	load(store, m->strikes.slot, &strikes);
	sl_strikes_judge(m->item->terms, &strikes, now, cost, decision);
	return sl_strikes_stand(m->item->terms, &strikes, now).ends_after_ns != 0;
}

/* ---- noting denials --------------------------------------------------------------------------------------------- */

/* Writes strikes into a block that was taken; within the change. */
static void publish(struct sluice_store *store, struct member *m, const struct sl_strikes *strikes, uint32_t block,
                    bool claimed) {
	struct sl_slot *slot = m->strikes.slot;
	const uint64_t state[2] = {strikes->last >> SL_COARSE_SHIFT << SL_COARSE_SHIFT, block};
	uint32_t old = claimed ? 0 : (uint32_t)sl_slot_state(slot)[1];
	memcpy(sl_block_memory(store, block), strikes, sl_strikes_bytes(strikes));
	sl_block_own(store, block, slot);
	sl_blocks_save_slot(store, slot);
	sl_slot_publish(slot, state, SL_MARKS_BESIDE_MUCH,
	                life_until(state[0], ns_add(strikes->last,
	                                            sl_strikes_life(m->item->terms, strikes, strikes->last) + SL_MS_NS)));
	if (old != 0)
		sl_blocks_free(store, old);
}

static bool write(struct sluice_store *store, const struct sluice_call *call, struct member *members, struct member *m,
                  const struct sl_strikes *strikes) {
	uint64_t bytes = sl_strikes_bytes(strikes), true_bytes;
	struct sl_hold hold;
	bool claimed = m->strikes.slot == NULL;
	uint32_t block;
	members_hold_found(members, call->item_count, &hold);
	if (claimed)
		m->strikes.slot = sl_slot_claim(store, &m->strikes.place, call->now, &hold);
	if (m->strikes.slot == NULL)
		return false;
	hold.slots[hold.count++] = m->strikes.slot;
	for (struct sl_room_search room = {0};;) {
		if (sl_blocks_begin(store) != SLUICE_OK)
			break; /* a denial stands, noted or not */
		block = sl_blocks_take(store, bytes, &true_bytes);
		if (block != 0) {
			publish(store, m, strikes, block, claimed);
			sl_blocks_commit(store);
			return true;
		}
		sl_blocks_abort(store);
		if (!sl_store_make_room(store, bytes, call->now, &hold, &room))
			break;
	}
	if (claimed) {
		(void)sl_slot_free(store, m->place->home, m->strikes.slot); /* it has no block yet */
		m->strikes.slot = NULL;
	}
	return false;
}

static void strike(struct sluice_store *store, struct sluice_call *call, struct member *members, uint32_t i) {
	struct member *m = &members[i];
	struct sl_strikes strikes;
	sluice_ns until;
	m->strikes.slot = sl_slot_find(&m->strikes.place); /* another limit of the call may have brought it */
	load(store, m->strikes.slot, &strikes);
	until = strikes.until;
	members_keep_latest(store, call->now);
	sl_strikes_add(m->item->terms, &strikes, call->now);
	if (!write(store, call, members, m, &strikes))
		return;
	if (strikes.until != until)
		call->penalized |= (uint16_t)(1u << i);
}

/* Charges a denied cost to one counter. Returns whether it was. */
static bool force(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                  struct member *m) {
	struct shortage shortage;
	for (uint32_t i = 0; i < call->item_count; i++)
		members[i].charged = members[i].corrects = false;
	if (m->plain)
		member_beside_none(m);
	m->plain = false;
	m->slot = sl_slot_find(m->place);
	m->ledger.adds = false;
	m->charged = m->forced = true;
	members_keep_latest(store, call->now);
	return members_charge(store, call, members, call->item_count, NULL, &shortage) == SLUICE_OK;
}

/* The decision of the state as it is now; what was decided stays decided. */
static void refresh(const struct sluice_store *store, const struct sluice_call *call, struct member *m) {
	m->slot = sl_slot_find(m->place);
	if (!m->plain && m->ledger.slot != NULL)
		ledger_find(store, m, call->now);
	member_refresh(store, m, call->now);
}

static bool counts_denied(const struct member *m, bool allowed) {
	return m->counts && !m->tried && m->cost != 0 && m->item->terms != NULL && m->item->terms->count_denied &&
	       m->limit->algorithm <= SLUICE_LEAKY_BUCKET && !(allowed && m->decision->allowed);
}

void members_note_denials(struct sluice_store *store, struct sluice_call *call, struct member *members, bool allowed) {
	bool done[SLUICE_ITEMS_MAX] = {false}, struck[SLUICE_ITEMS_MAX] = {false};
	for (uint32_t i = 0; i < call->item_count; i++)
		done[members[i].leader] = done[members[i].leader] || (allowed && members[i].charged);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (!counts_denied(m, allowed) || done[m->leader])
			continue;
		done[m->leader] = true;
		if (!force(store, call, members, m))
			continue;
		for (uint32_t k = 0; k < call->item_count; k++)
			if (members[k].counts && members[k].leader == m->leader)
				refresh(store, call, &members[k]);
	}
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (m->plain || !m->strikes.denied || struck[m->leader])
			continue;
		struck[m->leader] = true;
		strike(store, call, members, i);
		for (uint32_t k = 0; k < call->item_count; k++)
			if (!members[k].plain && members[k].leader == m->leader && members[k].strikes.looked) {
				members[k].strikes.slot = m->strikes.slot;
				if (m->strikes.slot != NULL)
					(void)strikes_judge(store, &members[k], call->now, members[k].cost, members[k].decision);
			}
	}
}

/* ---- how a key stands -------------------------------------------------------------------------------------------- */

struct sluice_standing sluice_standing(struct sluice_store *store, const struct sluice_item *item, sluice_ns now) {
	struct sluice_standing none = {0};
	struct sl_strikes strikes;
	struct sl_place counter, place;
	if (store == NULL || store->owner == 0 || item == NULL || item->limit == NULL || item->terms == NULL ||
	    item->terms->penalty_count == 0 || !sl_terms_are_valid(item->terms) ||
	    item->limit->algorithm == SLUICE_UNLIMITED)
		return none;
	counter = member_place(store, item);
	place = sl_place_beside(&counter, SL_BESIDE_STRIKES);
	if (sl_home_lock_patiently(store, place.home) != SLUICE_OK)
		return none;
	load(store, sl_slot_find(&place), &strikes);
	sl_home_unlock(place.home);
	return sl_strikes_stand(item->terms, &strikes, now);
}
