/* A request that may be retried: charged once.
 *
 * Its record is a slot of its own, found by the request's id and all counters of the call, as a set: the same id of
 * another key is another request. It is published after the charges. A death between the two lets the retry be charged
 * again; the other way round it would let one through that nobody was charged for.
 *
 *   slot   word 0: the instant of the charge, ns       word 1: 63..32 the delay, 31..0 what was granted
 *   delay  as sl_delay_pack() has it
 *
 * It counts for the longest window of the call. It is evicted as readily as a counter that was hardly used: then the
 * retry is charged. */
#include "base/fold.h"
#include "check/part.h"

/* A namespace of its own among the kinds of algo/rule.c, in which there is no algorithm. */
#define TOKEN_KIND ((uint64_t)3 << 62)

static uint64_t mix(uint64_t x) {
	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd); /* MurmurHash3's finalizer */
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

bool token_place(const struct sluice_store *store, const struct sluice_call *call, const struct part *parts,
                 struct token *token) {
	uint64_t kind[2] = {TOKEN_KIND, 0};
	bool any = false;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		const uint64_t *identity = &item->limit->derived[SL_IDENT_KIND];
		if (!parts[i].cell.counts || parts[i].cell.tried)
			continue;
		any = true;
		if (parts[i].cell.leader != i && !parts[parts[i].cell.leader].cell.tried)
			continue;
		/* a sum: the order of the limits does not matter */
		kind[1] += mix(sl_siphash_folded(store->secret, identity, identity[1] == 0 ? 1 : 2, item->key, 1, 3));
	}
	SL_ASSERT(call->operation == SLUICE_CHARGE && call->id.len != 0);
	if (any)
		token->place = sl_place_of(store, kind, 2, call->id, false);
	return any;
}

bool token_recall(const struct token *token, struct sl_record *record) {
	const uint64_t *state;
	SL_ASSERT(token->place.home != NULL);
	if (token->slot == NULL)
		return false;
	state = sl_slot_state(token->slot);
	record->at = state[0];
	record->granted = (uint32_t)state[1];
	record->delay_ns = sl_delay_unpack((uint32_t)(state[1] >> 32));
	return true;
}

void token_publish(struct token *token, const struct sl_record *record) {
	const uint64_t state[2] = {record->at, (uint64_t)sl_delay_pack(record->delay_ns) << 32 | record->granted};
	SL_ASSERT(token->slot != NULL && record->life_ns != 0);
	sl_slot_publish(token->slot, state, SL_MARKS_BESIDE_LITTLE, record->life_ns);
}
