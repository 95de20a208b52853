/* SLUICE.INSPECT key: what a key holds, a map for each counter, and one for what stands beside it. It is for people;
 * programs PEEK. */
#include "hosts/redis/side.h"
#include "hosts/redis/turn.h"

#include "base/out.h"

static const char *const spaces[] = {"limit", "policy", "cl.throttle"};

static void pair_text(struct slr_turn *turn, const char *name, const char *text) {
	slr_ReplyWithCString(turn->context, name);
	slr_ReplyWithCString(turn->context, text);
}

static void pair_number(struct slr_turn *turn, const char *name, uint64_t number) {
	slr_ReplyWithCString(turn->context, name);
	slr_ReplyWithLongLong(turn->context, number <= (uint64_t)INT64_MAX ? (long long)number : INT64_MAX);
}

static uint64_t held_by(const struct slr_holds *holds) {
	uint64_t held = 0;
	for (uint32_t i = 0; holds != NULL && i < holds->count; i++)
		held += holds->list[i].cost;
	return held;
}

void slr_hex_of(uint64_t number, char text[17]) {
	for (int i = 0; i < 16; i++)
		text[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
	text[16] = '\0';
}

/* Who counts at this instant: leases that are held, members that are counted. */
static uint32_t places_of(const struct slr_counter *counter, sluice_ns now) {
	struct sl_counter step;
	if (slr_algorithm_of(counter->identity) < SLUICE_CONCURRENCY)
		return 0;
	slr_counter_load(counter, &step);
	return sl_lease_list(&step, now, NULL, 0);
}

static uint64_t reserved_by(const struct sl_ledger *ledger, uint32_t from) {
	uint64_t cost = 0;
	for (uint32_t i = from; i < ledger->count; i++)
		cost += ledger->list[i].cost;
	return cost;
}

static void reply_beside(struct slr_turn *turn, struct slr_identity identity, sluice_ns now) {
	slr_value value = turn->call->keys[0].value;
	struct sl_ledger ledger = slr_ledger_of(value, identity);
	struct sl_strikes strikes;
	uint32_t ended = sl_ledger_ended(&ledger, now);
	(void)slr_strikes_of(value, identity, &strikes);
	struct sl_ledger open = {ledger.list + ended, ledger.count - ended};
	pair_number(turn, "reservations", sl_ledger_open(slr_algorithm_of(identity), &open));
	pair_number(turn, "reserved", reserved_by(&ledger, ended));
	pair_number(turn, "penalties", strikes.level);
	pair_number(turn, "denials", strikes.count);
	pair_number(turn, "shut_out_until_ms", strikes.until / SL_MS_NS);
}

static void reply_counter(struct slr_turn *turn, const struct slr_counter *counter, sluice_ns now) {
	const struct slr_holds *holds = slr_counter_holds(counter);
	uint64_t kind = counter->identity.kind;
	struct sluice_limit limit;
	char name[17];
	bool known = slr_widest_limit(counter->identity, &limit);
	slr_hex_of(counter->identity.name, name);
	slr_ReplyWithMap(turn->context, 15);
	pair_text(turn, "algorithm", known ? sl_rule_word(&limit) : "unknown");
	pair_number(turn, "window_ms", limit.window_ns / SL_MS_NS);
	pair_number(turn, "precision_ms", limit.precision_ns / SL_MS_NS);
	pair_text(turn, "belongs_to", kind >> 62 < 3 ? spaces[kind >> 62] : "unknown");
	pair_text(turn, "name", name);
	pair_number(turn, "last_ms", (counter->state.w[0] >> SL_COARSE_SHIFT << SL_COARSE_SHIFT) / SL_MS_NS);
	pair_number(turn, "block_bytes", slr_counter_block_bytes(counter));
	pair_number(turn, "holds", holds != NULL ? holds->count : 0);
	pair_number(turn, "held", held_by(holds));
	pair_number(turn, slr_algorithm_of(counter->identity) == SLUICE_DISTINCT ? "members" : "leases",
	            places_of(counter, now));
	reply_beside(turn, counter->identity, now);
}

/* What stands beside a counter that is none any more: strikes outlive it. */
static void reply_side(struct slr_turn *turn, const struct slr_counter *side) {
	static const char *const words[] = {"unknown", "reservations", "penalties", "requests that may be retried",
	                                    "bundled reservations"};
	uint32_t type = side->identity.kind >> 58 & 15;
	slr_ReplyWithMap(turn->context, 2);
	pair_text(turn, "beside", words[type <= SLR_SIDE_CONTENTS ? type : 0]);
	pair_number(turn, "bytes", slr_counter_block_bytes(side));
}

static void reply_one(struct slr_turn *turn, const struct slr_counter *counter, sluice_ns now) {
	if (slr_is_side(counter->identity))
		reply_side(turn, counter);
	else
		reply_counter(turn, counter, now);
}

int slr_inspect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_turn turn;
	struct slr_counter scratch;
	sluice_ns now = slr_clock_now();
	slr_value value;
	if (count != 2)
		return slr_WrongArity(context);
	slr_turn_begin(&turn, context, args, count);
	(void)slr_read_key(&turn, 1);
	if (!slr_keys_open(&turn, false))
		return SLR_REDIS_OK;
	value = turn.call->keys[0].value;
	slr_ReplyWithArray(context, slr_value_count(value));
	for (uint32_t i = 0; i < slr_value_count(value); i++)
		reply_one(&turn, slr_value_at(value, i, &scratch), now);
	slr_keys_close(&turn);
	return SLR_REDIS_OK;
}
