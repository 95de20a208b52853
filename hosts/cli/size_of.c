/* See size.h. Each figure is a line through measurements (Redis 7.0, a key of 20 bytes): what a key takes whatever it
 * holds, and what an entry takes more. They are within a quarter of what a real store takes, mostly nearer; the tests
 * fill real ones and compare. */
#include "hosts/cli/size.h"

#include "algo/hll.h"
#include "algo/step.h"
#include "base/math.h"
#include "policy/footprint.h"

enum {
	/* the module: a key, its name, its entries in the tables of keys and of expiries, the value's header; buckets keep
	 * more; then the block and a sixteenth */
	MODULE_KEY = 150,
	MODULE_BUCKET = 196,
	MODULE_BLOCK = 200,
	/* the script: a hash of one field; entries of 4 and 4 bytes in chunks of 128, each a field more */
	SCRIPT_KEY = 196,
	SCRIPT_BLOCK = 340,
	SCRIPT_CHUNK = 374,
	SCRIPT_CHARGE = 8,
	SCRIPT_SUB = 10,
	SCRIPT_LEASE = 31,
	SCRIPT_MEMBER = 18,
	CHUNK_ENTRIES = 128,
	/* a string with an expiry; a sorted set, packed up to 128 entries; a hash, packed up to 512 fields */
	STRING_KEY = 121,
	SET_KEY = 105,
	SET_PACKED = 42,
	SET_PACKED_MAX = 128,
	SET_ENTRY = 127,
	HASH_KEY = 190,
	HASH_PACKED = 22,
	HASH_PACKED_MAX = 510,
	HASH_ENTRY = 96,
};

/* Charges, cells or seats of a counter that is used up. */
static uint64_t entries_of(const struct sluice_limit *limit) {
	if (limit->bucket_count != 0)
		return (uint64_t)limit->bucket_count + 1;
	return sl_rule_has(limit, SL_TAKES_MEMBER) ? sl_min(limit->quota, SL_EXACT_MEMBERS) : limit->quota;
}

/* Members that are estimated: the registers of a sliding HyperLogLog, beside the members that are known. */
static uint64_t estimate_bytes(const struct sluice_limit *limit) {
	return sl_rule_estimates(limit) ? sl_hll_bytes(sl_rule_register_bits(limit)) : 0;
}

/* The block of a counter that has used its quota up, in the module: as in a store, but that cells are of four bytes. */
static uint64_t in_module(const struct sluice_limit *limit) {
	uint64_t cells = limit->bucket_count != 0 ? entries_of(limit) * 4 : 0;
	return cells != 0 ? cells : sl_footprint_bytes_used_up(limit) + estimate_bytes(limit);
}

static uint64_t script_bytes(const struct sluice_limit *limit) {
	uint64_t entries = entries_of(limit);
	uint64_t each = limit->bucket_count != 0                  ? SCRIPT_SUB
	                : sl_rule_has(limit, SL_TAKES_LEASE)      ? SCRIPT_LEASE
	                : sl_rule_has(limit, SL_TAKES_MEMBER)     ? SCRIPT_MEMBER
	                                                          : SCRIPT_CHARGE;
	bool chunks = sl_rule_has(limit, SL_KEEPS_TIMES);
	return SCRIPT_BLOCK + entries * each + (chunks ? (entries - 1) / CHUNK_ENTRIES * SCRIPT_CHUNK : 0);
}

static void fill_theirs(const struct sluice_limit *limit, struct sl_size *size) {
	uint64_t entries = entries_of(limit);
	if (limit->bucket_count != 0) {
		size->theirs = HASH_KEY + entries * (entries <= HASH_PACKED_MAX ? HASH_PACKED : HASH_ENTRY);
		size->theirs_called = "hash";
	} else if (sl_rule_has(limit, SL_KEEPS_TIMES)) {
		size->theirs = entries <= SET_PACKED_MAX ? SET_KEY + entries * SET_PACKED : entries * SET_ENTRY;
		size->theirs_called = "sorted set";
	} else if (sl_rule_has(limit, SL_HAS_WINDOWS)) {
		/* a fixed window is forgotten when it is over; a sliding one needs the one before */
		bool slides = !sl_step_goes_at_once(limit);
		size->theirs = slides ? 2 * STRING_KEY : STRING_KEY;
		size->theirs_called = slides ? "two strings" : "string";
	} else if (sl_rule_has(limit, SL_DRAINS)) {
		size->theirs = STRING_KEY;
		size->theirs_called = "string";
	}
}

struct sl_size sl_size_of(const struct sluice_limit *limit) {
	struct sl_size size = {0};
	if (!sl_rule_has(limit, SL_HAS_COUNTER) || limit->quota == 0)
		return size;
	struct sl_footprint footprint = sl_footprint_of(limit);
	size.slots = footprint.slot;
	size.blocks = footprint.most;
	if (footprint.most == 0) {
		size.module = sl_rule_has(limit, SL_DRAINS) ? MODULE_BUCKET : MODULE_KEY;
		size.script = limit->calendar == SLUICE_CALENDAR_NONE ? SCRIPT_KEY : 0;
	} else {
		uint64_t bytes = in_module(limit);
		size.module = MODULE_BLOCK + bytes + bytes / 16;
		size.script = sl_rule_estimates(limit) ? 0 : script_bytes(limit);
	}
	fill_theirs(limit, &size);
	return size;
}

/* Whole MiB that hold a share of so many percent for this, and some more. */
static uint64_t mib_for(uint64_t each, uint64_t keys, uint64_t percent) {
	return (uint64_t)(sl_mul(each, keys) * 100 / percent >> 20) + 1;
}

void sl_size_store(const struct sluice_limit *limits, uint32_t count, uint64_t keys, uint64_t *mib, uint32_t *percent) {
	uint64_t slots = 0, blocks = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct sl_size size = sl_size_of(&limits[i]);
		slots += size.slots;
		blocks += size.blocks;
	}
	*percent = sl_footprint_split(&(struct sl_footprint){slots, blocks, blocks}); /* for keys that use all up */
	/* by whole percents one of the two may come short: what is given is enough for both */
	*mib = sl_max(mib_for(blocks, keys, *percent), mib_for(slots, keys, 100 - *percent));
}
