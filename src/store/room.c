/* Room for a block where there is none: who has to go for it.
 *
 * Logs of many sizes leave gaps that are too short, so what is freed must be neighbours. A hand goes round the blocks;
 * at each step it looks at a few stretches of the length that is needed, and takes the one whose most used owner is the
 * least used, expired owners counting as none: the same order as for slots (claim.c), as far as neighbourhoods allow
 * it. Where small blocks stand, a long stretch is chosen by its beginning, and freed a piece at a time: what is free
 * already of it is passed over in one step.
 *
 * Planned under the blocks' lock, done without it, since owners are freed under the locks of their homes: in between
 * anything may have changed, and whoever asked asks again. Owners that the call itself holds, or whose home others have
 * locked, are passed over. */
#include "base/assert.h"
#include "store/blocks.h"

enum {
	TRIES = 64,       /* of one search */
	STRETCHES = 24,   /* looked at by one try */
	OWNERS_MAX = 768, /* likewise: others wait for the blocks' lock meanwhile */
	CHEAP = 1,        /* a rank that is not looked beyond: all have expired */
	STEPS_MAX = 256,  /* stretches that may be impossible, before the search gives up */
};

struct plan {
	struct sl_slot *owners[SL_STRETCH_MAX];
	uint32_t count;
	uint32_t first; /* unit */
	uint64_t rank;  /* of the most used */
};

/* The owners of a stretch. Returns its length in blocks when all of them can go, else the place of the first that
 * can't. */
static uint32_t plan_stretch(const struct sluice_store *store, const struct sl_stretch *stretch, sluice_ns now,
                             const struct sl_pins *pins, struct plan *plan) {
	plan->rank = 0;
	SL_ASSERT(stretch->count <= SL_STRETCH_MAX);
	for (plan->count = 0; plan->count < stretch->count; plan->count++) {
		struct sl_slot *slot = sl_block_owner(store, stretch->blocks[plan->count]);
		uint64_t tag = slot != NULL ? sl_slot_tag(slot) : 0, rank;
		if (tag != 0 && sl_marks_are_kept(sl_tag_marks(tag)) && !sl_slot_has_expired(slot, tag, now))
			break;
		if (tag == 0 || (tag & SL_LIFE_FRESH) == SL_LIFE_FRESH || sl_pins_have(pins, slot) ||
		    __atomic_load_n(&sl_slot_home(slot, tag)->lock, __ATOMIC_RELAXED) != 0)
			break;
		rank = sl_slot_rank(slot, tag, now);
		plan->rank = plan->rank > rank ? plan->rank : rank;
		plan->owners[plan->count] = slot;
	}
	return plan->count;
}

/* The best of the next stretches. The hand moves after each, or after the block that makes it impossible: so nothing
 * is looked at twice while it goes round, and a long block is one step. */
static bool find_plan(struct sluice_store *store, uint64_t units, sluice_ns now, const struct sl_pins *pins,
                      struct plan *best) {
	uint64_t *hand = &store->header->sweep_unit, unit_count = store->unit_count;
	struct sl_stretch stretch;
	struct plan plan;
	unsigned looked = 0, owners = 0;
	best->rank = best->count = 0;
	SL_ASSERT(units != 0 && unit_count > 1);
	for (unsigned i = 0; i < STEPS_MAX && looked < STRETCHES && owners < OWNERS_MAX; i++) {
		uint64_t from = *hand % unit_count;
		bool possible = sl_blocks_stretch(store, from != 0 ? from : 1, units, &stretch);
		uint32_t fine = plan_stretch(store, &stretch, now, pins, &plan);
		SL_ASSERT(fine == plan.count && fine <= stretch.count);
		owners += fine;
		*hand = fine < stretch.count ? stretch.blocks[fine] + sl_block_units(store, stretch.blocks[fine]) : stretch.end;
		if (!possible || fine < stretch.count || fine == 0)
			continue;
		plan.first = stretch.first;
		if (looked == 0 || plan.rank < best->rank)
			*best = plan;
		looked++;
		if (best->rank < CHEAP)
			break;
	}
	return looked != 0;
}

/* What is left of the stretch whose first piece was chosen before, unless it is in better use than that. */
static bool go_on(const struct sluice_store *store, uint64_t units, sluice_ns now, const struct sl_pins *pins,
                  const struct sl_room_search *room, struct plan *plan) {
	struct sl_stretch stretch;
	plan->first = room->first;
	return room->first != 0 && sl_blocks_stretch(store, room->first, units, &stretch) &&
	       plan_stretch(store, &stretch, now, pins, plan) == stretch.count && stretch.count != 0 &&
	       sl_rank_use(plan->rank) <= sl_rank_use(room->rank);
}

/* A stretch of so many blocks that there may be more of it to free. */
static void note_piece(struct sl_room_search *room, const struct plan *plan) {
	if (plan->count < SL_STRETCH_MAX)
		*room = (struct sl_room_search){.tries = room->tries};
	else if (room->first != plan->first)
		*room = (struct sl_room_search){room->tries, plan->first, plan->rank};
}

bool sl_store_make_room(struct sluice_store *store, uint64_t bytes, sluice_ns now, const struct sl_pins *pins,
                        struct sl_room_search *room) {
	uint64_t units = sl_block_units_for(bytes);
	struct plan plan;
	bool found;
	SL_ASSERT(bytes != 0 && pins->count <= SL_PINS_MAX);
	if (room->tries++ == TRIES || bytes > sl_block_bytes_most(store))
		return false;
	if (sl_blocks_begin(store) != SLUICE_OK)
		return true; /* whoever asks again is told so */
	found = go_on(store, units, now, pins, room, &plan) || find_plan(store, units, now, pins, &plan);
	sl_blocks_commit(store);
	SL_ASSERT(!found || (plan.count != 0 && plan.first != 0));
	if (found)
		note_piece(room, &plan);
	for (uint32_t i = 0; found && i < plan.count; i++)
		(void)sl_slot_make_free(store, plan.owners[i], NULL, true, now); /* or others did, or will */
	return found;
}
