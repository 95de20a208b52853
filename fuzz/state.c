/* Any bytes as a counter that some other process, or a damaged file, has left: its state, its block, and calls of it at
 * instants that jump anywhere. Nothing outside the block may be touched (it is allocated to the byte), every call ends,
 * and its answers agree with themselves.
 *
 *   limit | block's size in units of 8 bytes, low and high | calls | state, 24 bytes | calls of 8 bytes | the block
 *
 * A call is: operation and cost's size, 3 of cost, instant's kind and exponent, 3 of the instant. */
#include "algo/bundle.h"
#include "algo/step.h"
#include "base/assert.h"
#include "fuzz/mutate.h"

#define LAST_NS (UINT64_MAX - 1000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 4 + sizeof(struct sl_state), CALL_BYTES = 8, UNITS_MAX = 4096, BLOCK_BYTES_MAX = 1 << 20 };

FUZZ_SHAPE(HEAD_BYTES, CALL_BYTES, 3);

static const char *const notations[] = {
	"sliding-log 20/1m",
	"sliding-log 4294967295/1h",
	"sliding-log 300/1ms",
	"sliding-log 70k/1w",
	"sliding-log 1000/3660d",
	"sliding-buckets 50/1m precision 5s edge count",
	"sliding-buckets 9/1s precision 10ms edge weighted",
	"sliding-buckets 60000/4h precision 1m edge drop",
	"sliding-buckets 4294967295/2ms precision 1ms edge count",
	"sliding-buckets 4294967295/3660d precision 1d edge weighted",
	"sliding-buckets 4000000000/4096s precision 1s edge weighted",
	"fixed-window 10/1s",
	"sliding-window 100/1m",
	"sliding-window 4294967295/3660d",
	"sliding-window 7/1ms",
	"token-bucket 10/1s burst 100",
	"token-bucket 1/3660d",
	"token-bucket 4294967295/1ms burst 1",
	"leaky-bucket 10/1h queue 50",
	"leaky-bucket 4294967295/1ms queue 4294967295",
	"fixed-window 0/1s",
	"sliding-log 0/1s",
	"unlimited",
};
enum { LIMITS = sizeof notations / sizeof *notations };

struct kept {
	struct sl_state state;
	void *block;
	uint64_t block_bytes;
};

static struct sluice_limit limit_of(uint8_t choice) {
	struct sluice_limit limit;
	SL_ASSERT(sluice_limit_parse(&limit, sl_str(notations[choice % LIMITS]), NULL) == SLUICE_OK);
	return limit;
}

static struct sl_counter load(const struct kept *kept) {
	return (struct sl_counter){.state = kept->state, .block = kept->block, .block_bytes = kept->block_bytes};
}

static void check_decision(const struct sluice_limit *limit, const struct sluice_decision *d, uint64_t cost) {
	uint64_t most = d->quota < UINT32_MAX ? d->quota : UINT32_MAX;
	SL_ASSERT(d->quota == limit->derived[SL_CAPACITY] && d->remaining <= d->quota);
	SL_ASSERT(d->allowed == (d->retry_after_ns == 0));
	SL_ASSERT((d->retry_after_ns == SLUICE_NEVER) == (!d->allowed && cost > d->quota));
	SL_ASSERT(d->allowed || (d->delay_ns == 0 && cost > d->remaining));
	SL_ASSERT(d->reset_after_ns != SLUICE_NEVER && d->delay_ns != SLUICE_NEVER);
	SL_ASSERT(d->reset_after_ns != 0 || d->remaining == most);
}

static bool peek(const struct sluice_limit *limit, const struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_counter counter = load(kept);
	struct sluice_decision d;
	sl_step(limit, &counter, now, cost, false, &d);
	check_decision(limit, &d, cost);
	SL_ASSERT(d.allowed == (cost <= d.remaining || cost == 0));
	return d.allowed;
}

static void charge(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_counter counter = load(kept);
	struct sluice_decision d;
	bool allowed = peek(limit, kept, now, cost);
	uint64_t need;
	void *block = NULL;
	sl_step_prefetch(limit, &counter);
	sl_step(limit, &counter, now, cost, true, &d);
	check_decision(limit, &d, cost);
	SL_ASSERT(d.allowed == allowed);
	if (!d.allowed || cost == 0)
		return;
	if (sl_rule_has(limit, SL_HAS_BLOCK)) {
		need = (sl_step_block_bytes(limit, &counter, cost) + 7) / 8 * 8;
		if (need > BLOCK_BYTES_MAX)
			return;
		if (need != 0)
			SL_ASSERT((block = calloc(1, need)) != NULL);
		else if (sl_step_prepare(limit, &counter))
			kept->state = counter.state;
		sl_step_write(limit, &counter, now, cost, block, need);
		if (need != 0) {
			free(kept->block);
			kept->block = block;
			kept->block_bytes = need;
		}
	}
	kept->state = counter.state;
}

static void refund(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_counter counter = load(kept);
	uint32_t left = cost;
	if (sl_step_prepare_refund(limit, &counter, now, &left))
		kept->state = counter.state;
	SL_ASSERT(left <= cost);
	if (sl_step_refund(limit, &counter, now, left))
		kept->state = counter.state;
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

/* Charges whatever the quota. */
static void count(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_counter counter = load(kept);
	struct sluice_decision d;
	uint32_t charged = sl_step_count(limit, &counter, now, cost);
	uint64_t need;
	void *block = NULL;
	SL_ASSERT(charged <= cost);
	if (charged != 0 && sl_rule_has(limit, SL_HAS_BLOCK)) {
		need = (sl_step_block_bytes(limit, &counter, charged) + 7) / 8 * 8;
		if (need > BLOCK_BYTES_MAX)
			return;
		if (need != 0)
			SL_ASSERT((block = calloc(1, need)) != NULL);
		else
			(void)sl_step_prepare(limit, &counter);
		sl_step_write(limit, &counter, now, charged, block, need);
		if (need != 0) {
			free(kept->block);
			counter.block = kept->block = block;
			counter.block_bytes = kept->block_bytes = need;
		}
		for (int i = 0; sl_step_trim(limit, &counter, now); i++)
			SL_ASSERT(i < 2);
	}
	kept->state = counter.state;
	d.allowed = false;
	sl_step_counted(limit, &counter, now, cost, &d);
	SL_ASSERT(!d.allowed && d.remaining <= d.quota);
}

/* What a ledger of any bytes says of the counter; then all of it is corrected. */
static void correct(const struct sluice_limit *limit, struct kept *kept, const uint8_t *bytes, sluice_ns now) {
	static uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / 8 + 1];
	struct sl_reservation list[8];
	struct sl_correction corrections[8];
	struct sl_ledger ledger = {list, bytes[1] % 8};
	struct sl_counter counter = load(kept);
	struct sluice_decision d;
	void *block = NULL;
	uint64_t need;
	for (uint32_t i = 0; i < 8; i++) {
		list[i] = (struct sl_reservation){.id = i, .cost = (uint32_t)bytes[i] << bytes[7 - i] % 25, .debt = bytes[2]};
		list[i].instant = instant_of(bytes + i % 4, kept, now);
		list[i].end = instant_of(bytes + (i + 1) % 5, kept, now);
		corrections[i] = sl_ledger_return(&list[i]);
		corrections[i].actual = i % 2 == 0 ? 0 : (uint32_t)bytes[3] << bytes[i] % 25;
	}
	sl_ledger_step(limit, &counter, &ledger, now, bytes[2], scratch, &d);
	SL_ASSERT(d.remaining <= d.quota && d.allowed == (bytes[2] <= d.remaining || bytes[2] == 0));
	(void)sl_bundle_find(limit, &ledger, &(struct sl_contents){.memory = NULL}, bytes[3], now);
	(void)sl_ledger_debt(limit, &counter, now);
	need = (sl_correct_bytes(limit, &counter, 8) + 7) / 8 * 8;
	if (need > BLOCK_BYTES_MAX)
		return;
	if (need != 0)
		SL_ASSERT((block = calloc(1, need)) != NULL);
	if (!sl_correct(limit, &counter, corrections, 8, block, need)) {
		free(block);
		return;
	}
	if (need != 0) {
		free(kept->block);
		kept->block = block;
		kept->block_bytes = need;
	}
	kept->state = counter.state;
}

/* Starts anew from what is remembered of the counter: its instant, and as much as it may hold. */
static void assume(const struct sluice_limit *limit, struct kept *kept, sluice_ns now, uint32_t cost) {
	struct sl_held held[SL_HELD_MAX] = {{kept->state.w[0], UINT64_MAX}, {now, cost}};
	int first = held[0].instant <= now ? 0 : 1;
	uint64_t bytes = (sl_step_assume_bytes(limit, SL_HELD_MAX, UINT32_MAX) + 7) / 8 * 8;
	struct sl_counter counter;
	free(kept->block);
	kept->block = NULL;
	kept->block_bytes = bytes;
	if (bytes != 0)
		SL_ASSERT((kept->block = calloc(1, bytes)) != NULL);
	sl_step_assume(limit, &counter, held + first, 2 - first, kept->block, bytes);
	kept->state = counter.state;
	/* in the last millisecond of time (2554) a log's instants, rounded up, begin anew */
	SL_ASSERT(held[1].instant > LAST_NS || held[0].instant > LAST_NS || sl_counter_is_valid(limit, &counter));
}

static void call(const struct sluice_limit *limit, struct kept *kept, const uint8_t *bytes, sluice_ns now) {
	uint32_t cost = (uint32_t)(bytes[1] << 16 | bytes[2] << 8 | bytes[3]) >> bytes[0] / 16;
	struct sl_counter counter = load(kept);
	if (bytes[0] / 16 == 15) /* the costs next to the quota */
		cost = limit->quota + bytes[1] - 1u;
	sl_counter_is_valid(limit, &counter);
	if (bytes[0] % 16 == 15)
		assume(limit, kept, now, cost);
	else if (bytes[0] % 16 == 14)
		count(limit, kept, now, cost);
	else if (bytes[0] % 16 == 13)
		correct(limit, kept, bytes, now);
	else if (bytes[0] % 4 == 3)
		refund(limit, kept, now, cost);
	else
		charge(limit, kept, now, cost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_limit limit;
	struct kept kept = {.block = NULL};
	const uint8_t *calls = data + HEAD_BYTES;
	sluice_ns now = UINT64_C(1800000000) * 1000000000;
	size_t count, rest;
	if (size < HEAD_BYTES)
		return 0;
	limit = limit_of(data[0]);
	memcpy(&kept.state, data + 4, sizeof kept.state);
	count = data[3] < (size - HEAD_BYTES) / CALL_BYTES ? data[3] : (size - HEAD_BYTES) / CALL_BYTES;
	rest = size - HEAD_BYTES - count * CALL_BYTES;
	kept.block_bytes = sl_rule_has(&limit, SL_HAS_BLOCK) ? (uint64_t)(data[1] | data[2] << 8) % (UNITS_MAX + 1) * 8 : 0;
	if (kept.block_bytes != 0) {
		SL_ASSERT((kept.block = calloc(1, kept.block_bytes)) != NULL);
		memcpy(kept.block, calls + count * CALL_BYTES, rest < kept.block_bytes ? rest : kept.block_bytes);
	}
	for (size_t i = 0; i < count; i++, calls += CALL_BYTES) {
		now = instant_of(calls + 4, &kept, now);
		call(&limit, &kept, calls, now);
	}
	free(kept.block);
	return 0;
}
