/* Room for a block where there is none: who has to go for it.
 *
 * Logs of many sizes leave gaps that are too short, so what is freed must be neighbours. A hand goes round the blocks;
 * at each step it looks at a few stretches of the length that is needed, and takes the one whose most used owner is the
 * least used, expired owners counting as none: the same order as for slots (claim.c), as far as neighbourhoods allow
 * it. Where small blocks stand, a long stretch is chosen by its beginning, and freed a piece at a time: what is free
 * already of it is passed over in one step.
 *
 * What a search costs is misses of memory: two for an owner, one after the other. So the owners of many stretches are
 * asked for together, ahead of the hand, for the next search already; and stretches that were looked at and passed over
 * for better ones are remembered, by this process, and compete in later searches, which then look at fewer new ones.
 *
 * Planned under the blocks' lock, done without it, since owners are freed under the locks of their homes: in between
 * anything may have changed, and whoever asked asks again. Owners that the call itself holds, or whose home others have
 * locked, are passed over. */
#include "base/assert.h"
#include "store/blocks.h"
#include "store/sketch.h"

enum {
	TRIES = 64,       /* of one search */
	STRETCHES = 24,   /* looked at by one try */
	FEW = 8,          /* the same, where those passed over before stand beside them: see is_enough() */
	RARE = 256,       /* expired ones are, when so many stretches in a row were not */
	AGAIN_MAX = 4,    /* passed over before, that are looked at again by one try */
	OWNERS_MAX = 768, /* likewise: others wait for the blocks' lock meanwhile */
	CHEAP = 1,        /* a rank that is not looked beyond: all have expired */
	AHEAD = 8,        /* owners whose memory is asked for at once */
	LINE_BYTES = 64,
	LINES_MAX = 8,    /* of a stretch, and of its owners, asked for before they are written */
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
		if (tag == 0 || (tag & SL_LIFE_FRESH) == SL_LIFE_FRESH || sl_pins_have(pins, slot))
			break;
		if (sl_marks_are_kept(sl_tag_marks(tag)) && !sl_slot_has_expired(slot, tag, now))
			break;
		rank = sl_slot_rank(slot, tag, now);
		plan->rank = plan->rank > rank ? plan->rank : rank;
		plan->owners[plan->count] = slot;
	}
	return plan->count;
}

/* Each owner is two misses after another, its block's head and its slot, and the next stretch can't be told before. So
 * they are asked for by the map, of many stretches together, and before they are wanted: when a search ends, the slots
 * of those that the next one looks at, and the heads of those after them. Takes the unit from which owners were not
 * asked for yet; returns the one up to which they are now. */
static uint64_t look_ahead(const struct sluice_store *store, uint64_t from) {
	uint32_t blocks[2 * AHEAD], count = sl_blocks_ahead(store, from, 2 * AHEAD, blocks);
	uint32_t near = count < AHEAD ? count : AHEAD;
	SL_ASSERT(count <= 2 * AHEAD);
	for (uint32_t i = 0; i < count; i++)
		__builtin_prefetch(sl_block_head(store, blocks[i]), 1);
	for (uint32_t i = 0; i < near; i++) {
		const struct sl_slot *slot = sl_block_owner(store, blocks[i]);
		if (slot == NULL)
			continue; /* damaged */
		__builtin_prefetch(sl_slot_bucket(slot), 1);
		__builtin_prefetch(sl_slot_state(slot), 1);
	}
	return near != 0 ? (uint64_t)blocks[near - 1] + 1 : from + 1;
}

/* ---- who was passed over ----------------------------------------------------------------------------------------- */

static void pass_over(struct sl_passed *passed, uint32_t unit, uint64_t rank) {
	uint32_t at = passed->count;
	SL_ASSERT(unit != 0 && passed->count <= SL_PASSED_MAX);
	if (at == SL_PASSED_MAX && rank >= passed->ranks[0])
		return;
	if (at == SL_PASSED_MAX) { /* the first goes */
		for (at = 0; at + 1 < SL_PASSED_MAX && passed->ranks[at + 1] > rank; at++) {
			passed->ranks[at] = passed->ranks[at + 1];
			passed->units[at] = passed->units[at + 1];
		}
	} else {
		for (passed->count++; at > 0 && passed->ranks[at - 1] < rank; at--) {
			passed->ranks[at] = passed->ranks[at - 1];
			passed->units[at] = passed->units[at - 1];
		}
	}
	passed->ranks[at] = rank;
	passed->units[at] = unit;
}

/* Of STRETCHES that nobody has seen before, the best is among the lowest 24th on average. Of FEW, whose best competes
 * with those that were passed over, what goes is among the lowest eighth. Where expired ones may be near, or who would
 * go has used more than a little, a search looks at all STRETCHES. */
static bool is_enough(const struct sl_passed *passed, unsigned looked, const struct plan *best) {
	return looked >= STRETCHES ||
	       (looked >= FEW && passed->unexpired >= RARE && best != NULL && sl_rank_use(best->rank) == 0);
}

/* A search's plans take turns: the best so far, and the one that is being made. */
struct finding {
	struct plan *plans;
	struct plan *best; /* NULL: none yet */
};

static struct plan *spare(const struct finding *finding) {
	return finding->best == &finding->plans[0] ? &finding->plans[1] : &finding->plans[0];
}

/* Nobody has the home of any of them locked. It may be another miss of each, so only of those that would go. */
static bool is_unlocked(const struct plan *plan) {
	for (uint32_t i = 0; i < plan->count; i++) {
		const struct sl_slot *slot = plan->owners[i];
		if (__atomic_load_n(&sl_slot_home(slot, sl_slot_tag(slot))->lock, __ATOMIC_RELAXED) != 0)
			return false;
	}
	return true;
}

/* The one that was made, of the stretch from a unit on: it is the best, or passed over. */
static void weigh(struct sluice_store *store, struct finding *finding, uint32_t first) {
	struct plan *plan = spare(finding), *best = finding->best;
	SL_ASSERT(plan->count != 0);
	plan->first = first;
	if (best != NULL && plan->rank >= best->rank) {
		pass_over(&store->passed, first, plan->rank);
		return;
	}
	if (!is_unlocked(plan))
		return;
	if (best != NULL)
		pass_over(&store->passed, best->first, best->rank);
	finding->best = plan;
}

/* Those that were passed over and still are less used than what was found now; looked at anew, since they may have
 * asked meanwhile, or gone. */
static void look_again(struct sluice_store *store, uint64_t units, sluice_ns now, const struct sl_pins *pins,
                       struct finding *finding) {
	struct sl_passed *passed = &store->passed;
	struct sl_stretch stretch;
	for (int i = 0; i < AGAIN_MAX && passed->count != 0; i++) {
		struct plan *plan = spare(finding);
		if (finding->best != NULL && passed->ranks[passed->count - 1] >= finding->best->rank)
			return;
		passed->count--;
		if (sl_blocks_stretch(store, passed->units[passed->count], units, &stretch) &&
		    plan_stretch(store, &stretch, now, pins, plan) == stretch.count && stretch.count != 0)
			weigh(store, finding, stretch.first);
	}
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* The best of the next stretches, and of those passed over before; NULL: there is none. The hand moves after each, or
 * after the block that makes it impossible: so nothing is looked at twice while it goes round, and a long block is one
 * step. */
static struct plan *find_plan(struct sluice_store *store, uint64_t units, sluice_ns now, const struct sl_pins *pins,
                              struct plan plans[2]) {
	uint64_t *hand = &store->header->sweep_unit, unit_count = store->unit_count;
	struct finding finding = {plans, NULL};
	struct sl_passed *passed = &store->passed;
	struct sl_stretch stretch;
	unsigned looked = 0, owners = 0;
	SL_ASSERT(units != 0 && unit_count > 1);
	for (unsigned i = 0; i < STEPS_MAX && owners < OWNERS_MAX && !is_enough(passed, looked, finding.best); i++) {
		struct plan *plan = spare(&finding);
		uint64_t from = *hand < unit_count ? *hand : 1;
		bool possible;
		uint32_t fine;
		from = from != 0 ? from : 1;
		if (from >= passed->ahead || passed->ahead - from > SL_AHEAD_UNITS) /* where others have moved the hand */
			passed->ahead = look_ahead(store, from);
		possible = sl_blocks_stretch(store, from, units, &stretch);
		fine = plan_stretch(store, &stretch, now, pins, plan);
		SL_ASSERT(fine == plan->count && fine <= stretch.count);
		owners += fine;
		*hand = fine < stretch.count ? stretch.blocks[fine] + sl_block_units(store, stretch.blocks[fine]) : stretch.end;
		if (!possible || fine < stretch.count || fine == 0)
			continue;
		looked += plan->rank < SL_RANK_PENALTY;
		passed->unexpired = plan->rank < CHEAP ? 0 : passed->unexpired + (passed->unexpired < RARE);
		weigh(store, &finding, stretch.first);
		if (finding.best != NULL && finding.best->rank < CHEAP)
			return finding.best;
	}
	look_again(store, units, now, pins, &finding);
	if (*hand < unit_count && passed->ahead < *hand + AHEAD)
		passed->ahead = look_ahead(store, sl_max(passed->ahead, *hand));
	return finding.best;
}

/* Asks for what is about to be written: where the owners are remembered, and the room that the caller waits for. */
static void prefetch_room(const struct sluice_store *store, const struct plan *plan, uint64_t units) {
	const char *memory = (const char *)sl_block_head(store, plan->first);
	SL_ASSERT(plan->first != 0 && plan->first + units <= store->unit_count);
	if (plan->rank >= CHEAP && plan->count <= LINES_MAX) /* one that has expired is forgotten */
		for (uint32_t i = 0; i < plan->count; i++) {
			const struct sl_slot *slot = plan->owners[i];
			uint64_t page = (uint64_t)(sl_page_of(sl_slot_bucket(slot)) - store->pages);
			sl_sketch_prefetch(store, page, sl_slot_tag(slot));
		}
	for (uint64_t i = 0; i < LINES_MAX && i < units; i++)
		__builtin_prefetch(memory + i * LINE_BYTES, 1);
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
	struct plan plans[2], *plan = &plans[0];
	SL_ASSERT(bytes != 0 && pins->count <= SL_PINS_MAX);
	if (room->tries++ == TRIES || bytes > sl_block_bytes_most(store))
		return false;
	if (sl_blocks_begin(store) != SLUICE_OK)
		return true; /* whoever asks again is told so */
	if (!go_on(store, units, now, pins, room, plan))
		plan = find_plan(store, units, now, pins, plans);
	sl_blocks_commit(store);
	if (plan == NULL)
		return false;
	SL_ASSERT(plan->count != 0 && plan->first != 0);
	prefetch_room(store, plan, units);
	note_piece(room, plan);
	for (uint32_t i = 0; i < plan->count; i++)
		(void)sl_slot_make_free(store, plan->owners[i], NULL, true, now); /* or others did, or will */
	return true;
}
