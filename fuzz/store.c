/* Any bytes as a history of one small store: a line-up of limits of every algorithm, few keys, instants that jump both
 * ways, every operation, several limits at once. After each call its answer must agree with itself and with a peek, and
 * at the end the whole arena must be one that this code could have written.
 *
 * A call is 8 bytes: operation and count, limit, key, 2 of cost, exponent of the time step, 2 of the time step.
 * Where the first one is 64..191 the operation is a plain one; else it may be any, with an id, parts, terms,
 * members, times to live, as the other bytes say. */
#include "base/assert.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALL_BYTES = 8, KEYS = 7, ITEMS = 3 };

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

static void decide_plain(struct sluice_store *store, const uint8_t *bytes, struct sluice_call *call) {
	struct sluice_decision each[ITEMS], peeked[ITEMS];
	sluice_operation operation = bytes[0] % 64 == 63 ? SLUICE_RESET : bytes[0] % 4 == 3 ? SLUICE_REFUND : SLUICE_CHARGE;
	call->cost = operation == SLUICE_REFUND || bytes[0] < 144 ? call->cost % 65536 : call->cost;
	call->operation = SLUICE_PEEK;
	call->each = peeked;
	SL_ASSERT(sluice_decide(store, call) == SLUICE_OK);
	bool allowed = call->merged.allowed;

	call->each = each;
	call->operation = operation;
	SL_ASSERT(sluice_decide(store, call) == SLUICE_OK);
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
}

/* Any operation, sensible or not; what is refused must have been peeked at as before. */
static void decide_any(struct sluice_store *store, const uint8_t *bytes, struct sluice_call *call,
                       struct sluice_item *items) {
	static const char ids[] = "0123456789abcdef";
	uint32_t flags = bytes[2];
	call->operation = (sluice_operation)(bytes[0] % 10);
	call->id = sl_slice(ids, flags % 5);
	call->ttl_ns = flags % 3 != 0 ? (sluice_ns)(bytes[3] + 1) << 24 : 0;
	call->upto = flags % 7 == 1;
	call->want_next = flags % 2 == 1;
	for (uint32_t i = 0; i < call->item_count; i++) {
		items[i].observed = flags % 11 == i ? 1 + flags % 2 : 0;
		items[i].cost = flags % 13 == i ? bytes[3] : 0;
		items[i].ttl_ns = flags % 17 == i ? (sluice_ns)(bytes[4] + 1) << 28 : 0;
		items[i].member = sl_slice(ids + bytes[4] % 8, flags % 6 != 0 ? 1 : 0);
		items[i].terms = flags % 4 == i ? &terms[bytes[1] / 64 % 2] : NULL;
	}
	call->cost %= 4096;
	if (sluice_decide(store, call) != SLUICE_OK)
		return;
	SL_ASSERT((call->repeated || call->granted <= call->cost) && call->found <= call->item_count);
	SL_ASSERT(!call->repeated || call->merged.allowed);
	SL_ASSERT(call->merged.remaining <= call->merged.quota);
	SL_ASSERT(!call->merged.allowed || call->merged.retry_after_ns == 0);
	SL_ASSERT(call->merged.allowed || call->merged.retry_after_ns != 0);
	if (call->operation == SLUICE_COMMIT || call->operation == SLUICE_RELEASE) {
		SL_ASSERT(sluice_decide(store, call) == SLUICE_OK && call->found == 0); /* it is done with */
	} else if ((call->operation == SLUICE_ACQUIRE || call->operation == SLUICE_CHARGE) && call->id.len != 0 &&
	           call->merged.allowed && call->cost != 0 && items[0].observed == 0 && call->item_count == 1 &&
	           items[0].limit->algorithm != SLUICE_UNLIMITED) {
		SL_ASSERT(sluice_decide(store, call) == SLUICE_OK && call->repeated);
	}
}

static void decide(struct sluice_store *store, const uint8_t *bytes, sluice_ns now) {
	static const char keys[] = "abcdefgh";
	struct sluice_item items[ITEMS];
	struct sluice_call call = {.items = items,
	                           .item_count = 1 + bytes[0] / 4 % ITEMS,
	                           .now = now,
	                           .cost = (uint32_t)(bytes[3] << 8 | bytes[4]) * (bytes[2] | 1)};
	bool plain = bytes[0] >= 64 && bytes[0] < 192;
	for (uint32_t i = 0; i < call.item_count; i++)
		items[i] = (struct sluice_item){.limit = &limits[(bytes[1] + 5 * i) % (plain ? PLAIN : LIMITS)],
		                                .key = sl_slice(keys + bytes[2] % KEYS, 1)};
	if (plain)
		decide_plain(store, bytes, &call);
	else
		decide_any(store, bytes, &call, items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_store *store;
	struct sluice_store_options options = {.memory_bytes = SL_ARENA_BYTES_MIN};
	sluice_ns now = UINT64_C(1800000000) * 1000000000;
	parse_limits();
	SL_ASSERT(sluice_store_open(&store, &options, NULL) == SLUICE_OK);
	for (; size >= CALL_BYTES; data += CALL_BYTES, size -= CALL_BYTES) {
		sluice_ns step = (sluice_ns)(data[6] << 8 | data[7]) << data[5] % 40;
		now = data[5] >= 224 ? now - step % 100000000000 : now + step;
		decide(store, data, now);
	}
	SL_ASSERT(sl_store_verify(store) == NULL);
	sluice_store_close(store);
	return 0;
}
