/* A request that may be retried: charged once.
 *
 * Its record is a slot of its own, found by the request's id and all counters of the call, as a set: the same id of
 * another key is another request. It is published behind the charges. A death between the two lets the retry be charged
 * again; the other way round it would let one through that nobody was charged for.
 *
 *   slot   word 0: the instant of the charge, ns       word 1: 63..32 the delay, 31..0 what was granted
 *   delay  m * 2^e ns, m of 27 bits above e of 5: exact up to 134 ms, and to 1 in 10^8 beyond, never longer
 *
 * It counts for the longest window of the call. It is evicted as readily as a counter that was hardly used: then the
 * retry is charged. */
#include "check/member.h"

/* A namespace of its own among the kinds of algo/rule.c, in which there is no algorithm. */
#define TOKEN_KIND ((uint64_t)3 << 62)
enum { DELAY_BITS = 27, EXPONENT_BITS = 5 };

static uint64_t mix(uint64_t x) {
	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd); /* MurmurHash3's finalizer */
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

bool token_place(const struct sluice_store *store, const struct sluice_call *call, const struct member *members,
                 struct token *token) {
	uint64_t kind[2] = {TOKEN_KIND, 0};
	token->life_ns = 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct sluice_item *item = &call->items[i];
		const uint64_t *identity = &item->limit->derived[SL_IDENT_KIND];
		if (!members[i].counts || members[i].tried)
			continue;
		token->life_ns = sl_max(token->life_ns, item->limit->window_ns);
		if (members[i].leader != i && !members[members[i].leader].tried)
			continue;
		/* a sum: the order of the limits does not matter */
		kind[1] += mix(sl_siphash(store->secret, identity, identity[1] == 0 ? 1 : 2, item->key, 1, 3));
	}
	if (token->life_ns != 0)
		token->place = sl_place_of(store, kind, 2, call->id, false);
	return token->life_ns != 0;
}

static uint64_t pack_delay(sluice_ns delay_ns) {
	unsigned e = 0;
	while (delay_ns >> e >> DELAY_BITS != 0 && e < (1 << EXPONENT_BITS) - 1)
		e++;
	return sl_min(delay_ns >> e, (1 << DELAY_BITS) - 1) << EXPONENT_BITS | e;
}

static sluice_ns unpack_delay(uint64_t packed) {
	return (packed >> EXPONENT_BITS) << (packed & ((1 << EXPONENT_BITS) - 1));
}

bool token_recall(const struct token *token, struct sluice_call *call, sluice_ns *delay_ns) {
	const uint64_t *state;
	sluice_ns passed;
	if (token->slot == NULL)
		return false;
	state = sl_slot_state(token->slot);
	passed = call->now > state[0] ? call->now - state[0] : 0;
	if (passed >= token->life_ns)
		return false;
	call->granted = (uint32_t)state[1];
	*delay_ns = unpack_delay(state[1] >> 32);
	*delay_ns -= sl_min(*delay_ns, passed);
	return true;
}

void token_publish(const struct sluice_call *call, struct token *token, sluice_ns delay_ns) {
	const uint64_t state[2] = {call->now, pack_delay(delay_ns) << 32 | call->granted};
	sl_slot_publish(token->slot, state, SL_MARKS_BESIDE_LITTLE, token->life_ns);
}
