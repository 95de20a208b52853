/* See companion.h. */
#include "hosts/redis/companion.h"

#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/own_quota.h"
#include "hosts/redis/tokens.h"

enum { ROOM_MIN = 4, PUTS = 4 /* in contents, for one reservation more */ };

/* ---- reservations ------------------------------------------------------------------------------------------------ */

struct sl_ledger slr_ledger_of(slr_value value, struct sl_identity counter) {
	struct slr_counter scratch, *companion = slr_companion_find(value, SLR_COMPANION_LEDGER, counter, &scratch);
	if (companion == NULL)
		return (struct sl_ledger){NULL, 0};
	return (struct sl_ledger){(const void *)slr_counter_bytes(companion), slr_companion_used(&companion->state)};
}

struct sl_contents slr_contents_of(slr_value value, struct sl_identity counter) {
	struct slr_counter scratch, *companion = slr_companion_find(value, SLR_COMPANION_CONTENTS, counter, &scratch);
	if (companion == NULL)
		return (struct sl_contents){.memory = NULL};
	return (struct sl_contents){.memory = slr_counter_bytes(companion),
	                            .bytes = slr_companion_room(&companion->state)};
}

/* Contents that have room for what is about to be bundled. A value of as many counters as may be has none: then the
 * ledger is not bundled. */
static struct sl_contents with_contents(slr_value *value, struct sl_identity counter, const struct sluice_limit *limit,
                                        const struct sl_ledger *ledger, const struct sl_reservation *added) {
	struct sl_contents contents = slr_contents_of(*value, counter), more = {.memory = NULL};
	uint32_t bundled = sl_ledger_bundled(limit->algorithm, ledger);
	struct slr_counter *companion;
	if (bundled == 0 && ledger->count < SL_LEDGER_LIST_MAX)
		return more;
	if (bundled != 0 && sl_contents_have_room(&contents, bundled, PUTS))
		return contents;
	if (contents.memory == NULL && slr_value_count(*value) >= SLR_COUNTERS_MAX)
		return more;
	more.bytes = sl_contents_bytes(bundled + PUTS);
	more.memory = slr_block_take(more.bytes);
	sl_contents_format(limit, &more, bundled != 0 ? &contents : NULL, ledger,
	                   added->id ^ added->instant ^ (uintptr_t)more.memory);
	companion = slr_value_open(value, slr_companion_of(SLR_COMPANION_CONTENTS, counter), SLR_UNTIL_UNKNOWN);
	slr_counter_set_block(companion, more.memory, more.bytes);
	return more;
}

static struct sl_reservation *with_room(struct slr_counter *companion, uint32_t count) {
	struct sl_reservation *list = NULL;
	uint32_t room = (uint32_t)(slr_companion_room(&companion->state) / sizeof *list);
	if (companion->more != NULL)
		list = (void *)slr_counter_bytes(companion);
	if (count < room)
		return list;
	room = room < ROOM_MIN ? ROOM_MIN : room * 2;
	list = slr_block_take(room * sizeof *list);
	if (count != 0)
		memcpy(list, slr_counter_bytes(companion), count * sizeof *list);
	slr_counter_set_block(companion, list, room * sizeof *list);
	return list;
}

bool slr_ledger_add(slr_value *value, struct sl_identity counter, const struct sluice_limit *limit, uint32_t rate,
                    const struct sl_reservation *reservation, int64_t until_ms) {
	struct sl_ledger ledger = slr_ledger_of(*value, counter);
	struct sl_contents contents;
	struct sl_reservation *list;
	struct slr_counter *companion;
	if (sl_ledger_open(limit->algorithm, &ledger) >= SL_LEDGER_MAX)
		return false;
	contents = with_contents(value, counter, limit, &ledger, reservation);
	companion = slr_value_gather(value, slr_companion_of(SLR_COMPANION_LEDGER, counter), &until_ms);
	list = with_room(companion, ledger.count);
	sl_bundle_add(limit, rate, list, &ledger.count, reservation, &contents);
	slr_companion_set_used(&companion->state, ledger.count);
	if (contents.memory != NULL)
		slr_value_keep(*value, slr_companion_of(SLR_COMPANION_CONTENTS, counter), until_ms);
	return true;
}

/* Contents of which no bundle is left go with the last of them. */
static void drop_contents(slr_value *value, struct sl_identity counter) {
	struct sl_ledger ledger = slr_ledger_of(*value, counter);
	if (sl_ledger_bundled(sl_identity_algorithm(counter), &ledger) == 0)
		slr_value_remove(value, slr_companion_of(SLR_COMPANION_CONTENTS, counter));
}

void slr_ledger_close(slr_value *value, struct sl_identity counter, const struct sl_found *found) {
	struct sl_ledger ledger = slr_ledger_of(*value, counter);
	struct sl_contents contents = slr_contents_of(*value, counter);
	SL_DEBUG_ASSERT(ledger.list != NULL); /* there it was found */
	struct sl_reservation entry = ledger.list[found->at];
	sl_contents_remove(&contents, found);
	if (sl_bundle_without(found, &entry))
		*(struct sl_reservation *)(uintptr_t)&ledger.list[found->at] = entry;
	else
		slr_ledger_remove(value, counter, (uint32_t)found->at, 1);
}

void slr_ledger_remove(slr_value *value, struct sl_identity counter, uint32_t at, uint32_t count) {
	struct sl_ledger ledger = slr_ledger_of(*value, counter);
	struct sl_identity identity = slr_companion_of(SLR_COMPANION_LEDGER, counter);
	struct sl_reservation *list;
	struct slr_counter *companion;
	if (count == 0)
		return;
	SL_ASSERT(at + count <= ledger.count);
	if (count == ledger.count) {
		slr_value_remove(value, identity);
	} else {
		companion = slr_value_open(value, identity, SLR_UNTIL_UNKNOWN);
		list = (void *)slr_counter_bytes(companion);
		memmove(&list[at], &list[at + count], (ledger.count - at - count) * sizeof *list);
		slr_companion_set_used(&companion->state, ledger.count - count);
	}
	drop_contents(value, counter);
}

static bool entry_is_valid(uint32_t algorithm, const struct sl_reservation *it) {
	if (it->end > SLR_INSTANT_MAX)
		return false;
	if (sl_bundle_is(algorithm, it))
		return it->id <= it->end && (it->debt & 0xffff) != 0;
	return it->cost != 0 && it->instant < it->end;
}

static bool ledger_is_valid(uint32_t algorithm, const struct sl_reservation *list, uint64_t bytes, uint32_t count) {
	if (count == 0 || count > SL_LEDGER_MAX || bytes / sizeof *list < count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!entry_is_valid(algorithm, &list[i]) || (i > 0 && list[i - 1].end > list[i].end))
			return false;
	return true;
}

static bool contents_are_valid(void *block, uint64_t bytes, uint32_t used) {
	const struct sl_contents contents = {.memory = block, .bytes = bytes};
	return used == 0 && bytes <= SL_CONTENTS_BYTES_MAX && sl_contents_are_valid(&contents);
}

/* ---- strikes ----------------------------------------------------------------------------------------------------- */

bool slr_strikes_of(slr_value value, struct sl_identity counter, struct sl_strikes *strikes) {
	struct slr_counter scratch, *companion = slr_companion_find(value, SLR_COMPANION_STRIKES, counter, &scratch);
	memset(strikes, 0, sizeof *strikes);
	if (companion != NULL)
		memcpy(strikes, slr_counter_bytes(companion),
		       sl_min(slr_companion_room(&companion->state), sizeof *strikes));
	return companion != NULL;
}

void slr_strikes_put(slr_value *value, struct sl_identity counter, const struct sl_strikes *strikes, int64_t until_ms) {
	size_t bytes = sl_strikes_bytes(strikes);
	struct slr_counter *companion = slr_value_open(value, slr_companion_of(SLR_COMPANION_STRIKES, counter), until_ms);
	void *block;
	if (companion->more != NULL && slr_companion_room(&companion->state) == bytes) {
		block = slr_counter_bytes(companion);
	} else {
		block = slr_block_take(bytes);
		slr_counter_set_block(companion, block, bytes);
	}
	memcpy(block, strikes, bytes);
}

static bool strikes_are_valid(const struct sl_strikes *strikes, uint64_t bytes, uint32_t used) {
	uint64_t head = offsetof(struct sl_strikes, denials);
	return used == 0 && bytes >= head && strikes->count < SL_AFTER_MAX && strikes->until <= SLR_INSTANT_MAX &&
	       strikes->last <= SLR_INSTANT_MAX && bytes == head + strikes->count * sizeof strikes->denials[0];
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

uint64_t slr_companion_bytes(struct sl_identity identity, const struct sl_state *state) {
	if (sl_identity_algorithm(identity) == SLR_COMPANION_LEDGER)
		return slr_companion_used(state) * sizeof(struct sl_reservation);
	return slr_companion_room(state);
}

bool slr_companion_is_valid(struct sl_identity identity, const struct sl_state *state, void *block) {
	uint64_t bytes = slr_companion_room(state);
	uint32_t algorithm;
	if (!sl_identity_is_companion(identity) || block == NULL)
		return false;
	if (slr_companion_is_tokens(identity))
		return slr_tokens_are_valid(state, block);
	if (state->w[0] != 0 || !sl_identity_accompanies(identity, &algorithm))
		return false;
	switch ((enum slr_companion)sl_identity_algorithm(identity)) {
	case SLR_COMPANION_LEDGER:
		return ledger_is_valid(algorithm, block, bytes, slr_companion_used(state));
	case SLR_COMPANION_CONTENTS:
		return contents_are_valid(block, bytes, slr_companion_used(state));
	case SLR_COMPANION_STRIKES:
		return strikes_are_valid(block, bytes, slr_companion_used(state));
	case SLR_COMPANION_OVERRIDE:
		return slr_companion_used(state) == 0 && slr_own_is_valid(identity.name, block, bytes);
	default:
		return false;
	}
}
