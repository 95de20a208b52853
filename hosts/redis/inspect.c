/* SLUICE.INSPECT key, without limits: what a key holds, a map for each counter, and one for each companion. It is for
 * people; programs PEEK. Of the counters of limits, commands.c tells as a server does. */
#include "hosts/redis/own_quota.h"
#include "hosts/redis/request.h"

#include "base/out.h"

static const char *const spaces[] = {"limit", "policy", "cl.throttle"};

static void pair_text(struct slr_request *request, const char *name, const char *text) {
	slr_ReplyWithCString(request->context, name);
	slr_ReplyWithCString(request->context, text);
}

static void pair_number(struct slr_request *request, const char *name, uint64_t number) {
	slr_ReplyWithCString(request->context, name);
	slr_ReplyWithLongLong(request->context, number <= (uint64_t)INT64_MAX ? (long long)number : INT64_MAX);
}

static uint64_t held_by(const struct slr_holds *holds) {
	uint64_t held = 0;
	for (uint32_t i = 0; holds != NULL && i < holds->count; i++)
		held += holds->list[i].cost;
	return held;
}

/* Who counts at this instant: leases that are held, members that are counted. */
static uint32_t places_of(const struct slr_counter *counter, sluice_ns now) {
	struct sl_counter step;
	if (!sl_identity_has(counter->identity, SL_HAS_SEATS))
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

static void reply_beside(struct slr_request *request, struct sl_identity identity, sluice_ns now) {
	slr_value value = request->call->keys[0].value;
	struct sl_ledger ledger = slr_ledger_of(value, identity);
	struct sl_strikes strikes;
	uint32_t ended = sl_ledger_ended(&ledger, now);
	(void)slr_strikes_of(value, identity, &strikes);
	struct sl_ledger open = {ledger.list + ended, ledger.count - ended};
	pair_number(request, "reservations", sl_ledger_open(sl_identity_algorithm(identity), &open));
	pair_number(request, "reserved", reserved_by(&ledger, ended));
	pair_number(request, "penalties", strikes.level);
	pair_number(request, "denials", strikes.count);
	pair_number(request, "shut_out_until_ms", strikes.until / SL_MS_NS);
}

static void reply_counter(struct slr_request *request, const struct slr_counter *counter, sluice_ns now) {
	const struct slr_holds *holds = slr_counter_holds(counter);
	enum sl_space space = sl_identity_space(counter->identity);
	struct sluice_limit limit;
	char name[17];
	bool known = sl_identity_widest(counter->identity, &limit);
	sl_hex_text(name, counter->identity.name);
	slr_ReplyWithMap(request->context, 15);
	pair_text(request, "algorithm", known ? sl_algorithm_word(sl_rule_algorithm(&limit)) : "unknown");
	pair_number(request, "window_ms", limit.window_ns / SL_MS_NS);
	pair_number(request, "precision_ms", limit.precision_ns / SL_MS_NS);
	pair_text(request, "belongs_to", spaces[space]);
	pair_text(request, "name", name);
	pair_number(request, "last_ms", sl_state_coarse(&counter->state) / SL_MS_NS);
	pair_number(request, "block_bytes", slr_counter_block_bytes(counter));
	pair_number(request, "holds", holds != NULL ? holds->count : 0);
	pair_number(request, "held", held_by(holds));
	pair_number(request, sl_identity_has(counter->identity, SL_TAKES_MEMBER) ? "members" : "leases",
	            places_of(counter, now));
	reply_beside(request, counter->identity, now);
}

/* A companion whose counter has gone: strikes outlive it. */
static void reply_companion(struct slr_request *request, const struct slr_counter *companion) {
	static const char *const words[] = {"unknown", "reservations", "penalties", "requests that may be retried",
	                                    "bundled reservations", "a quota of the key's own"};
	uint32_t type = sl_identity_algorithm(companion->identity);
	const struct slr_own *own = slr_own_of(companion);
	slr_ReplyWithMap(request->context, own != NULL ? 4 : 2);
	pair_text(request, "beside", words[type <= SLR_COMPANION_OVERRIDE ? type : 0]);
	pair_number(request, "bytes", slr_counter_block_bytes(companion));
	if (own == NULL)
		return;
	slr_ReplyWithCString(request->context, "quota");
	slr_ReplyWithStringBuffer(request->context, slr_own_text(own).data, own->text);
	slr_ReplyWithCString(request->context, "ends_ms");
	slr_ReplyWithLongLong(request->context, own->end == SLUICE_NEVER ? -1 : (long long)(own->end / SL_MS_NS));
}

static void reply_one(struct slr_request *request, const struct slr_counter *counter, sluice_ns now) {
	if (sl_identity_is_companion(counter->identity))
		reply_companion(request, counter);
	else
		reply_counter(request, counter, now);
}

int slr_inspect(struct RedisModuleCtx *context, struct RedisModuleString **args, int count) {
	struct slr_request request;
	struct slr_counter scratch;
	sluice_ns now = slr_clock_now();
	slr_value value;
	if (count != 2)
		return slr_WrongArity(context);
	slr_request_begin(&request, context, args, count);
	(void)slr_read_key(&request, 1);
	if (!slr_keys_open(&request, false))
		return SLR_REDIS_OK;
	value = request.call->keys[0].value;
	slr_ReplyWithArray(context, slr_value_count(value));
	for (uint32_t i = 0; i < slr_value_count(value); i++)
		reply_one(&request, slr_value_at(value, i, &scratch), now);
	slr_keys_close(&request);
	return SLR_REDIS_OK;
}
