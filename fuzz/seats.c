/* Any bytes as a counter of leases or members that some other process, or a damaged file, has left: its state, its
 * block, also one with a sketch, and calls of it at instants that jump anywhere. Nothing outside the block may be
 * touched (it is allocated to the byte), every call ends, and its answers agree with themselves.
 *
 *   limit | header: 0 as it comes, 1 of seats, 2 weighted, 3 with a sketch | seats, low and high | calls
 *   | state, 24 bytes | calls of 8 bytes | the block, again and again until it is full
 *
 * A call is: operation, who, 2 of cost, instant's kind and exponent, 3 of the instant. */
#include "algo/hll.h"
#include "algo/step.h"
#include "base/assert.h"
#include "fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 5 + sizeof(struct sl_state), CALL_BYTES = 8, BLOCK_BYTES_MAX = 1 << 20, PLACES_MAX = 2048 };

FUZZ_SHAPE(HEAD_BYTES, CALL_BYTES, 4);

static const char *const notations[] = {
	"concurrency 20 lease 30s",
	"concurrency 1 lease 1ms",
	"concurrency 4G lease 3660d",
	"concurrency 0 lease 1s",
	"distinct 5/1m",
	"distinct 1024/3660d",
	"distinct 0/1h",
	"distinct 1025/1ms edge deny",
	"distinct 1100/1h edge allow",
	"distinct 4G/3660d registers 8192",
	"distinct 5000/1s edge allow",
};
enum { LIMITS = sizeof notations / sizeof *notations };

struct kept {
	struct sl_state state;
	void *block;
	uint64_t block_bytes;
};

static struct sl_counter load(const struct kept *kept, uint64_t who) {
	return (struct sl_counter){
		.state = kept->state, .block = kept->block, .block_bytes = kept->block_bytes, .who = who};
}

static void check_decision(const struct sluice_limit *limit, const struct sluice_decision *d, uint64_t cost) {
	bool never = !d->allowed && (limit->quota == 0 || (limit->algorithm == SLUICE_CONCURRENCY && cost > limit->quota));
	SL_ASSERT(d->quota == limit->quota && d->remaining <= d->quota && d->delay_ns == 0);
	SL_ASSERT(d->allowed == (d->retry_after_ns == 0));
	SL_ASSERT((d->retry_after_ns == SLUICE_NEVER) == never);
	SL_ASSERT(d->reset_after_ns != SLUICE_NEVER && (d->allowed || cost != 0));
	SL_ASSERT(d->reset_after_ns != 0 || d->remaining == limit->quota);
}

static void charge(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost, uint64_t who) {
	struct sl_counter counter = load(kept, who), again = counter;
	struct sluice_decision d, peeked;
	uint64_t need;
	sl_step(limit, &again, now, cost, false, &peeked);
	check_decision(limit, &peeked, cost);
	sl_step(limit, &counter, now, cost, true, &d);
	check_decision(limit, &d, cost);
	SL_ASSERT(d.allowed == peeked.allowed && counter.known == again.known);
	if (!d.allowed || cost == 0)
		return;
	need = (sl_step_block_bytes(limit, &counter, cost) + 7) / 8 * 8;
	if (need > BLOCK_BYTES_MAX)
		return;
	if (need != 0) {
		void *block = malloc(need);
		SL_ASSERT(block != NULL);
		memset(block, 0xa5, need);
		sl_step_write(limit, &counter, now, cost, block, need);
		free(kept->block);
		kept->block = block;
		kept->block_bytes = need;
	} else {
		if (sl_step_prepare(limit, &counter))
			kept->state = counter.state;
		sl_step_write(limit, &counter, now, cost, NULL, 0);
	}
	kept->state = counter.state;
}

static void by_name(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint64_t who, bool renews) {
	struct sl_counter counter = load(kept, who);
	bool found = renews ? sl_lease_renew(limit, &counter, now) : sl_lease_release(limit, &counter, now);
	SL_ASSERT(!found || kept->block != NULL);
	if (found)
		kept->state = counter.state;
}

static void list_them(const struct kept *kept, sluice_ns now, uint32_t room) {
	struct sluice_holder list[64];
	struct sl_counter counter = load(kept, 0);
	uint32_t count = sl_lease_list(&counter, now, list, room % 65);
	for (uint32_t i = 0; i < count && i < room % 65; i++)
		SL_ASSERT(list[i].ends_after_ns != 0);
}

static void refund(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost, uint64_t who) {
	struct sl_counter counter = load(kept, who);
	uint32_t left = cost;
	if (sl_step_prepare_refund(limit, &counter, now, &left))
		kept->state = counter.state;
	if (sl_step_refund(limit, &counter, now, left))
		kept->state = counter.state;
}

static void assume(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_held held[2] = {{now - now / 3, UINT64_MAX}, {now, cost}};
	uint64_t bytes = (sl_step_assume_bytes(limit, 2, UINT32_MAX) + 7) / 8 * 8;
	struct sl_counter counter;
	free(kept->block);
	kept->block_bytes = bytes;
	SL_ASSERT((kept->block = calloc(1, bytes)) != NULL);
	sl_step_assume(limit, &counter, held, 2, kept->block, bytes);
	kept->state = counter.state;
	SL_ASSERT(sl_counter_is_valid(limit, &counter));
}

static sluice_ns instant_of(const uint8_t *bytes, const struct kept *kept, sluice_ns now) {
	sluice_ns step = (sluice_ns)(bytes[1] << 16 | bytes[2] << 8 | bytes[3]) << bytes[0] % 41;
	switch (bytes[0] / 41) {
	case 0:
		return step;
	case 1:
		return UINT64_MAX - step;
	case 2:
		return kept->state.w[0] - step;
	case 3:
		return kept->state.w[0] + step;
	case 4:
		return now - step;
	default:
		return now + step;
	}
}

/* Who: one who stands in the block, one of a few, or nobody. */
static uint64_t who_of(const struct kept *kept, uint8_t byte) {
	uint64_t who = byte % 16;
	if (byte >= 128 && kept->block_bytes >= 8 * ((uint64_t)byte + 1))
		memcpy(&who, (const unsigned char *)kept->block + kept->block_bytes - 8 * ((uint64_t)byte - 127), 8);
	return who;
}

static void call(struct sluice_limit *limit, struct kept *kept, const uint8_t *bytes, sluice_ns now) {
	uint32_t cost = bytes[2] < 200 ? bytes[2] % 4 : limit->quota + bytes[3] - 1u;
	uint64_t who = who_of(kept, bytes[1]);
	struct sl_counter counter = load(kept, who);
	sl_counter_is_valid(limit, &counter);
	switch (bytes[0] % 12) {
	case 0:
		by_name(limit, kept, now, who, false);
		return;
	case 1:
		by_name(limit, kept, now, who, true);
		return;
	case 2:
		list_them(kept, now, bytes[3]);
		return;
	case 3:
		refund(limit, kept, now, cost, who);
		return;
	case 4:
		if (bytes[3] < 40)
			assume(limit, kept, now, cost);
		return;
	default:
		charge(limit, kept, now, cost, who);
		return;
	}
}

/* A block as it may have been, or may never have been. */
static void make_block(struct kept *kept, uint8_t kind, uint32_t seats, const uint8_t *bytes, size_t size) {
	static const uint32_t flags[] = {0, 0, SL_PLACES_WEIGHTED, SL_PLACES_SKETCH};
	uint32_t header[2] = {kind % 4 == 3 ? SL_EXACT_MEMBERS : seats % PLACES_MAX, flags[kind % 4]};
	if (kind % 4 == 3) /* of 1,024, 2,048, 4,096 or 8,192 registers: more take the time of many rounds */
		header[1] = sl_seats_sketch_flags(SL_REGISTER_BITS_MIN + kind / 4 % 4);
	unsigned char *block;
	kept->block_bytes = (sl_seats_bytes(header[0], header[1]) + 7) / 8 * 8;
	SL_ASSERT((block = calloc(1, kept->block_bytes)) != NULL);
	for (size_t i = 0; size != 0 && i < kept->block_bytes; i += size)
		memcpy(block + i, bytes, sl_min(size, kept->block_bytes - i));
	if (kind % 4 != 0)
		memcpy(block, header, sizeof header);
	kept->block = block;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_limit limit;
	struct kept kept = {.block = NULL};
	const uint8_t *calls = data + HEAD_BYTES;
	sluice_ns now = UINT64_C(1800000000) * 1000000000;
	size_t count;
	if (size < HEAD_BYTES)
		return 0;
	SL_ASSERT(sluice_limit_parse(&limit, sl_str(notations[data[0] % LIMITS]), NULL) == SLUICE_OK);
	memcpy(&kept.state, data + 5, sizeof kept.state);
	count = sl_min(data[4], (size - HEAD_BYTES) / CALL_BYTES);
	if (data[1] < 224)
		make_block(&kept, data[1], data[2] | (uint32_t)data[3] << 8, calls + count * CALL_BYTES,
		           size - HEAD_BYTES - count * CALL_BYTES);
	for (size_t i = 0; i < count; i++, calls += CALL_BYTES) {
		now = instant_of(calls + 4, &kept, now);
		call(&limit, &kept, calls, now);
	}
	free(kept.block);
	return 0;
}
