/* The data type: how the server saves, loads, copies, measures, moves and frees our values. */
#include "hosts/redis/memory.h"
#include "hosts/redis/companion.h"
#include "hosts/redis/tokens.h"
#include "hosts/redis/request.h"

enum { ENCODING_VERSION = 1 }; /* of the string that is saved; what it holds says its own (codec.h) */

struct RedisModuleType *slr_type;

static void *rdb_load(struct RedisModuleIO *io, int version) {
	size_t len = 0;
	slr_value value;
	char *bytes;
	if (version != ENCODING_VERSION) {
		slr_LogIOError(io, "warning", "sluice: a value of encoding %d; this module reads %d", version,
		               ENCODING_VERSION);
		return NULL;
	}
	bytes = slr_LoadStringBuffer(io, &len);
	if (bytes == NULL || slr_IsIOError(io)) {
		slr_Free(bytes);
		return NULL;
	}
	value = slr_read_value(sl_slice(bytes, len));
	slr_Free(bytes);
	if (value == 0)
		slr_LogIOError(io, "warning", "sluice: a value is damaged, or of another version, and is refused");
	return (void *)value;
}

static void rdb_save(struct RedisModuleIO *io, void *value) {
	struct slr_bytes bytes = {.data = NULL};
	slr_write_value(&bytes, (slr_value)value);
	slr_SaveStringBuffer(io, (const char *)bytes.data, bytes.len);
	slr_bytes_free(&bytes);
}

static void rewrite(struct RedisModuleIO *io, struct RedisModuleString *key, slr_value value, uint32_t i) {
	struct slr_counter scratch;
	struct slr_effects effects = {.bytes.data = NULL};
	const struct slr_counter *counter = slr_value_at(value, i, &scratch);
	slr_effect_kept(&effects, counter, slr_value_until(value, i));
	slr_effect_rate(&effects, counter->identity, &counter->state);
	slr_EmitAOF(io, "SLUICE.EFFECT", "slb", key, (long long)SLR_NO_EXPIRE, (const char *)effects.bytes.data,
	            effects.bytes.len);
	slr_bytes_free(&effects.bytes);
}

/* The server itself writes the key's expiry after it. Strikes come last: a counter that is alone in a value does not
 * know until when it is kept, and of strikes nothing else tells. */
static void aof_rewrite(struct RedisModuleIO *io, struct RedisModuleString *key, void *value) {
	struct slr_counter scratch;
	for (int strikes = 0; strikes < 2; strikes++)
		for (uint32_t i = 0; i < slr_value_count((slr_value)value); i++)
			if (slr_companion_is(SLR_COMPANION_STRIKES, slr_value_at((slr_value)value, i, &scratch)->identity) ==
			    (strikes == 1))
				rewrite(io, key, (slr_value)value, i);
}

static size_t mem_usage(const void *value) {
	return slr_value_bytes((slr_value)value);
}

static void free_value(void *value) {
	slr_value_free((slr_value)value);
}

/* Many small pieces take long to free; ours are few, whatever their size. */
static size_t free_effort(struct RedisModuleString *key, const void *value) {
	(void)key;
	return slr_value_count((slr_value)value);
}

static void *copy(struct RedisModuleString *from, struct RedisModuleString *to, const void *value) {
	(void)from;
	(void)to;
	return (void *)slr_value_copy((slr_value)value);
}

static void *defrag_piece(void *context, void *memory) {
	return slr_DefragAlloc(context, memory);
}

static int defrag(struct RedisModuleDefragCtx *context, struct RedisModuleString *key, void **value) {
	slr_value moved = (slr_value)*value;
	(void)key;
	if (slr_DefragAlloc != NULL)
		slr_value_move(&moved, defrag_piece, context);
	*value = (void *)moved;
	return 0;
}

/* ---- digest ------------------------------------------------------------------------------------------------------ */

/* A block may differ between a primary and its replica, by where its ring begins and how long it is, and yet say the
 * same: so what it says is told, cost by cost as each leaves the window. */
static void digest_block(struct RedisModuleDigest *digest, const struct slr_counter *counter) {
	struct sluice_limit limit;
	struct sluice_decision decision;
	struct sl_counter step;
	sluice_ns now = sl_state_coarse(&counter->state);
	uint64_t most; /* a damaged block may make waits of nothing, again and again */
	if (!sl_identity_widest(counter->identity, &limit))
		return;
	slr_counter_load(counter, &step);
	most = step.block_bytes + 1;
	do {
		sl_step(&limit, &step, now, 0, false, &decision);
		slr_DigestAddLongLong(digest, (long long)now);
		slr_DigestAddLongLong(digest, decision.remaining);
		sl_step(&limit, &step, now, (uint64_t)decision.remaining + 1, false, &decision);
		now += decision.retry_after_ns;
	} while (!decision.allowed && decision.retry_after_ns != SLUICE_NEVER && most-- != 0);
}

/* Who counts until when, in whatever order they stand. */
static void digest_places(struct RedisModuleDigest *digest, const struct slr_counter *counter) {
	struct sl_counter step;
	struct sluice_holder *list;
	uint64_t sum = 0;
	uint32_t count;
	slr_counter_load(counter, &step);
	count = sl_lease_list(&step, 0, NULL, 0);
	list = slr_take((count + 1) * sizeof *list);
	count = sl_lease_list(&step, 0, list, count);
	for (uint32_t i = 0; i < count; i++)
		sum += (list[i].id ^ list[i].ends_after_ns << 20 ^ list[i].cost) * UINT64_C(0x9e3779b97f4a7c15);
	slr_give(list);
	slr_DigestAddLongLong(digest, (long long)counter->state.w[0]);
	slr_DigestAddLongLong(digest, (long long)sum);
}

/* Tokens stand where their table's size puts them, and those that have ended may be there still or not. */
static void digest_tokens(struct RedisModuleDigest *digest, const struct slr_counter *companion) {
	const struct slr_token *table = (const void *)slr_counter_bytes(companion);
	uint64_t count = slr_counter_block_bytes(companion) / sizeof *table, sum = 0;
	for (uint64_t i = 0; i < count; i++)
		if (table[i].hash != 0 && table[i].end > companion->state.w[0])
			sum += (table[i].hash ^ table[i].end ^ table[i].granted) * UINT64_C(0x9e3779b97f4a7c15);
	slr_DigestAddLongLong(digest, (long long)sum);
}

static void digest_companion(struct RedisModuleDigest *digest, const struct slr_counter *companion) {
	if (sl_identity_algorithm(companion->identity) == SLR_COMPANION_TOKENS)
		digest_tokens(digest, companion);
	else if (sl_identity_algorithm(companion->identity) != SLR_COMPANION_CONTENTS) /* its ledger sums it up */
		slr_DigestAddStringBuffer(digest, (const char *)slr_counter_bytes(companion),
		                          (size_t)slr_companion_bytes(companion->identity, &companion->state));
}

static void digest_counter(struct RedisModuleDigest *digest, const struct slr_counter *counter) {
	const struct slr_holds *holds = slr_counter_holds(counter);
	slr_DigestAddLongLong(digest, (long long)counter->identity.kind);
	slr_DigestAddLongLong(digest, (long long)counter->identity.name);
	if (sl_identity_is_companion(counter->identity)) {
		digest_companion(digest, counter);
	} else if (sl_identity_has(counter->identity, SL_HAS_SEATS)) {
		digest_places(digest, counter);
	} else if (slr_has_block(counter->identity)) {
		digest_block(digest, counter);
	} else {
		slr_DigestAddLongLong(digest, (long long)counter->state.w[0]);
		slr_DigestAddLongLong(digest, (long long)counter->state.w[1]);
		if (sl_identity_keeps_rate(counter->identity))
			slr_DigestAddLongLong(digest, counter->state.rate);
	}
	for (uint32_t i = 0; holds != NULL && i < holds->count; i++)
		slr_DigestAddStringBuffer(digest, (const char *)&holds->list[i], sizeof holds->list[i]);
}

/* A sequence for each counter: in which order they stand does not matter. */
static void digest_value(struct RedisModuleDigest *digest, void *value) {
	struct slr_counter scratch;
	for (uint32_t i = 0; i < slr_value_count((slr_value)value); i++) {
		digest_counter(digest, slr_value_at((slr_value)value, i, &scratch));
		slr_DigestEndSequence(digest);
	}
}

bool slr_type_create(struct RedisModuleCtx *context) {
	static struct slr_type_methods methods = {
		.version = SLR_TYPE_METHODS_VERSION,
		.rdb_load = rdb_load,
		.rdb_save = rdb_save,
		.aof_rewrite = aof_rewrite,
		.mem_usage = mem_usage,
		.digest = digest_value,
		.free = free_value,
		.free_effort = free_effort,
		.copy = copy,
		.defrag = defrag,
	};
	slr_type = slr_CreateDataType(context, "sluice-01", ENCODING_VERSION, &methods);
	return slr_type != NULL;
}
