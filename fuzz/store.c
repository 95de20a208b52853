/* Any bytes as a history of one small store: a line-up of limits of every algorithm, few keys, instants that jump both
 * ways and to the edges that answers name, every operation, several limits at once. After each call its answer must
 * agree with itself, with a peek, and with a peek at the instant that it names; at the end the whole arena must be one
 * that this code could have written. The arena is small, so that counters are evicted and blocks run out.
 *
 * A call is CALL_BYTES bytes, each of them one choice, so that what changes in an input is one thing of one call. */
#include "base/assert.h"
#include "fuzz/mutate.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where each choice of a call stands. */
enum {
	AT_KIND,   /* below ANY: a plain charge, refund or reset, which is held against a peek; else any operation */
	AT_LIMIT,  /* of the first item */
	AT_ITEMS,  /* how many, and how far apart their limits */
	AT_KEY,
	AT_COST,   /* 2 bytes: how it is meant, and how much */
	AT_ID = 6, /* which, and whether there is one; and of one that has any, how long it lives */
	AT_WORDS,  /* upto, next, terms, an observed item */
	AT_MEMBER, /* which, or a cost or a time to live of an item's own */
	AT_STEP,   /* how time goes on: STEP_ */
	AT_TIME,   /* 2 bytes: exponent, mantissa */
	CALL_BYTES = 12
};
enum { ANY = 160, KEYS = 60, ITEMS = 3 };
enum { STEP_NONE, STEP_ON, STEP_RETRY, STEP_BEFORE_RETRY, STEP_RESET, STEP_WINDOW, STEP_MS, STEP_BACK, STEPS };

FUZZ_SHAPE(0, CALL_BYTES, SIZE_MAX);

/* A history in hand. */
struct history {
	struct sluice_store *store;
	sluice_ns now, latest;       /* latest: no call before was at a later instant */
	struct sluice_decision last; /* of the call before */
};

static const char *const notations[] = {
	"fixed-window 10/1s",
	"sliding-window 100/1m",
	"sliding-buckets 50/1m precision 5s edge count",
	"sliding-log 20/1m",
	"token-bucket 10/1s burst 100",
	"leaky-bucket 10/1s queue 50",
	"sliding-log 4000000000/1h",
	"sliding-buckets 9/1s precision 10ms edge weighted",
	"sliding-buckets 60000/4h precision 1m edge drop",
	"sliding-window 4294967295/3660d",
	"token-bucket 1/3660d",
	"leaky-bucket 4294967295/1ms queue 0",
	"fixed-window 0/1s",
	"unlimited",
	"sliding-log 300/1ms",
	"sliding-log 70k/1w",
	"concurrency 3 lease 5s",
	"distinct 4/10s",
	"distinct 3000/1m edge allow",
};
#define LAST_NS (UINT64_MAX / 2)
enum { LIMITS = sizeof notations / sizeof *notations, PLAIN = LIMITS - 3 };

static struct sluice_limit limits[LIMITS];
static const struct sluice_terms terms[] = {
	{.count_denied = true},
	{.penalty_count = 2,
     .after = 2,
     .within_ns = 60000000000,
     .forgive_ns = 600000000000,
     .penalties_ns = {1000000000, 90000000000}},
};

static void parse_limits(void) {
	for (int i = 0; i < LIMITS && limits[LIMITS - 1].window_ns == 0; i++)
		SL_ASSERT(sluice_limit_parse(&limits[i], sl_str(notations[i]), NULL) == SLUICE_OK);
}

/* What holds for any one decision. */
static void check_decision(const struct sluice_decision *d, uint32_t cost, sluice_operation operation) {
	SL_ASSERT(d->remaining <= d->quota);
	SL_ASSERT(!d->allowed || d->retry_after_ns == 0);
	SL_ASSERT(d->allowed || (d->retry_after_ns > 0 && d->delay_ns == 0));
	SL_ASSERT(d->allowed || cost > d->remaining);
	SL_ASSERT((d->retry_after_ns == SLUICE_NEVER) == (!d->allowed && cost > d->quota));
	SL_ASSERT(operation != SLUICE_PEEK || d->allowed == (cost <= d->remaining || cost == 0));
	SL_ASSERT(operation != SLUICE_REFUND || d->allowed);
}

static bool same(const struct sluice_decision *a, const struct sluice_decision *b) {
	return a->allowed == b->allowed && a->remaining == b->remaining && a->quota == b->quota &&
	       a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
	       a->delay_ns == b->delay_ns;
}

/* What is refused for now is let in when it says so. But a counter's clock never runs back: where it was charged at a
 * later instant than now, waits are counted from there and nothing is held of them here. */
static void check_retry(struct history *history, const struct sluice_call *denied) {
	struct sluice_call again = *denied;
	struct sluice_decision each[ITEMS];
	sluice_ns retry_ns = denied->merged.retry_after_ns;
	if (retry_ns == SLUICE_NEVER || denied->item_count != 1 || history->now > UINT64_MAX - retry_ns ||
	    history->now < history->latest)
		return;
	again.each = each;
	again.operation = SLUICE_PEEK;
	again.now = history->now + retry_ns;
	SL_ASSERT(sluice_decide(history->store, &again) == SLUICE_OK && again.merged.allowed);
}

static void decide_plain(struct history *history, const uint8_t *bytes, struct sluice_call *call) {
	struct sluice_decision each[ITEMS], peeked[ITEMS];
	sluice_operation operation = bytes[AT_KIND] % 32 == 31  ? SLUICE_RESET
	                             : bytes[AT_KIND] % 4 == 3 ? SLUICE_REFUND
	                                                       : SLUICE_CHARGE;
	call->operation = SLUICE_PEEK;
	call->each = peeked;
	SL_ASSERT(sluice_decide(history->store, call) == SLUICE_OK);
	bool allowed = call->merged.allowed;

	call->each = each;
	call->operation = operation;
	SL_ASSERT(sluice_decide(history->store, call) == SLUICE_OK);
	history->last = call->merged;
	if (call->merged.bound != SLUICE_BOUND_NONE) {
		SL_ASSERT(call->merged.bound == SLUICE_BOUND_ROOM && !call->merged.allowed && operation == SLUICE_CHARGE);
		SL_ASSERT(call->merged.remaining == 0 && call->merged.retry_after_ns != 0);
		return;
	}
	if (operation == SLUICE_CHARGE)
		SL_ASSERT(call->merged.allowed == allowed);
	for (uint32_t i = 0; i < call->item_count && operation != SLUICE_RESET; i++) {
		check_decision(&peeked[i], call->cost, SLUICE_PEEK);
		check_decision(&each[i], call->cost, operation);
		SL_ASSERT(operation != SLUICE_CHARGE || allowed || same(&each[i], &peeked[i]));
		SL_ASSERT(operation != SLUICE_REFUND || each[i].remaining >= peeked[i].remaining);
	}
	if (!call->merged.allowed)
		check_retry(history, call);
}

/* The words of a call that may be any. */
static void fill_any(const uint8_t *bytes, struct sluice_call *call, struct sluice_item *items) {
	static const char ids[] = "0123456789abcdef";
	uint8_t id = bytes[AT_ID], words = bytes[AT_WORDS], member = bytes[AT_MEMBER];
	call->operation = (sluice_operation)(bytes[AT_KIND] % 10);
	call->id = sl_slice(ids + id % 8, id % 4 != 0 ? 1 + id % 3 : 0);
	call->ttl_ns = id >= 64 ? (sluice_ns)1 << (20 + id / 8) : 0;
	call->upto = words % 2 != 0;
	call->want_next = words / 2 % 2 != 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		bool own = member / 64 % 4 == i + 1;
		items[i].terms = words / 4 % 4 == i + 1 ? &terms[words / 16 % 2] : NULL;
		items[i].observed = words / 32 % 4 == i + 1 ? 1 + words / 128 : 0;
		items[i].cost = own ? bytes[AT_COST + 1] : 0;
		items[i].ttl_ns = own && member % 2 != 0 ? (sluice_ns)(member % 64 + 1) << 28 : 0;
		items[i].member = sl_slice(ids + member % 16, member % 64 != 0 ? 1 : 0);
	}
	call->cost %= 4096;
}

/* Any operation, sensible or not; what is refused must have been peeked at as before. */
static void decide_any(struct history *history, struct sluice_call *call) {
	struct sluice_store *store = history->store;
	if (sluice_decide(store, call) != SLUICE_OK)
		return;
	history->last = call->merged;
	SL_ASSERT((call->repeated || call->granted <= call->cost) && call->found <= call->item_count);
	SL_ASSERT(!call->repeated || call->merged.allowed);
	SL_ASSERT(call->merged.remaining <= call->merged.quota);
	SL_ASSERT(!call->merged.allowed || call->merged.retry_after_ns == 0);
	SL_ASSERT(call->merged.allowed || call->merged.retry_after_ns != 0);
	if (call->operation == SLUICE_COMMIT || call->operation == SLUICE_RELEASE) {
		SL_ASSERT(sluice_decide(store, call) == SLUICE_OK && call->found == 0); /* it is done with */
	} else if ((call->operation == SLUICE_ACQUIRE || call->operation == SLUICE_CHARGE) && call->id.len != 0 &&
	           call->merged.allowed && call->cost != 0 && call->items[0].observed == 0 && call->item_count == 1 &&
	           call->items[0].limit->algorithm != SLUICE_UNLIMITED) {
		SL_ASSERT(sluice_decide(store, call) == SLUICE_OK && call->repeated);
	}
}

/* A cost is small, or near to a quota, or of any size. */
static uint32_t cost_of(const uint8_t *bytes, const struct sluice_limit *limit) {
	uint32_t much = bytes[AT_COST + 1];
	switch (bytes[AT_COST] % 4) {
	case 0:
		return 1;
	case 1:
		return much;
	case 2:
		return (uint32_t)(limit->quota / (1 + bytes[AT_COST] / 4 % 4)) + much % 8 - 4;
	default:
		return much << bytes[AT_COST] / 4 % 25;
	}
}

/* The instant of the next call. */
static void step(struct history *history, const uint8_t *bytes, const struct sluice_limit *limit) {
	sluice_ns by = (sluice_ns)(bytes[AT_TIME + 1] + 1) << bytes[AT_TIME] % 40, now = history->now;
	bool never = history->last.retry_after_ns == SLUICE_NEVER;
	switch (bytes[AT_STEP] % STEPS) {
	case STEP_NONE:
		return;
	case STEP_RETRY:
		now += never ? by : history->last.retry_after_ns;
		break;
	case STEP_BEFORE_RETRY:
		now += never || history->last.retry_after_ns == 0 ? by : history->last.retry_after_ns - 1;
		break;
	case STEP_RESET:
		now += history->last.reset_after_ns != SLUICE_NEVER ? history->last.reset_after_ns : by;
		break;
	case STEP_WINDOW:
		now += limit->window_ns / (1 + bytes[AT_TIME] % 4) + bytes[AT_TIME + 1] % 3 - 1;
		break;
	case STEP_MS:
		now += bytes[AT_TIME + 1] * UINT64_C(1000000) - now % 1000000;
		break;
	case STEP_BACK:
		now -= by % 100000000000;
		break;
	default:
		now += by;
	}
	if (now < LAST_NS)
		history->now = now;
	if (history->now > history->latest)
		history->latest = history->now;
}

static void decide(struct history *history, const uint8_t *bytes) {
	static char keys[KEYS][2];
	struct sluice_item items[ITEMS];
	bool plain = bytes[AT_KIND] < ANY;
	uint32_t key = bytes[AT_KEY] % KEYS, most = plain ? PLAIN : LIMITS;
	const struct sluice_limit *first = &limits[bytes[AT_LIMIT] % most];
	step(history, bytes, first);
	struct sluice_call call = {.items = items,
	                           .item_count = 1 + bytes[AT_ITEMS] % ITEMS,
	                           .now = history->now,
	                           .cost = cost_of(bytes, first)};
	for (uint32_t i = 0; i < call.item_count; i++) {
		keys[key][0] = (char)('0' + key);
		items[i] = (struct sluice_item){.limit = &limits[(bytes[AT_LIMIT] + bytes[AT_ITEMS] / ITEMS * i) % most],
		                                .key = sl_slice(keys[key], 1)};
	}
	if (plain) {
		decide_plain(history, bytes, &call);
		return;
	}
	fill_any(bytes, &call, items);
	decide_any(history, &call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_store_options options = {.memory_bytes = SL_ARENA_BYTES_MIN};
	const sluice_ns start = UINT64_C(1800000000) * 1000000000;
	struct history history = {.now = start, .latest = start};
	parse_limits();
	SL_ASSERT(sluice_store_open(&history.store, &options, NULL) == SLUICE_OK);
	for (; size >= CALL_BYTES; data += CALL_BYTES, size -= CALL_BYTES)
		decide(&history, data);
	SL_ASSERT(sl_store_verify(history.store) == NULL);
	sluice_store_close(history.store);
	return 0;
}
