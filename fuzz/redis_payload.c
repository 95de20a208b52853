/* Bytes that a dump file, a DUMP payload or a primary of the module hands in: read as a value, or applied as notes to
 * one. What is not refused is a value that this code could have made, survives being written and read, and every
 * decision on it ends within its memory and leaves such a value.
 *
 *   what it is, 1 | limit, 1 | calls, 1 | calls of 8 bytes | the payload
 *
 * A call is: operation, id, 2 of cost, 4 of ms that pass before it. */
#include "hosts/redis/decide.h"

#include "algo/terms.h"
#include "base/assert.h"
#include "fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 3, CALL_BYTES = 8, CALLS_MAX = 32 };

FUZZ_SHAPE(HEAD_BYTES, CALL_BYTES, 2);

static const sluice_ns START_NS = UINT64_C(1800000000) * 1000000000;

static const char *const notations[] = {
	"100/60s",
	"fixed-window 10/1s",
	"sliding-log 20/1m",
	"sliding-log 5/50d",
	"token-bucket 10/1s",
	"sliding-buckets 50/1m precision 5s edge count",
	"sliding-log 0/1m",
	"leaky-bucket 10/1h",
	"sliding-buckets 9/1s precision 10ms edge weighted",
	"unlimited",
	"token-bucket 1/3660d",
	"sliding-window 4294967295/3660d",
	"concurrency 9 lease 1m",
	"distinct 5/1m",
	"distinct 5000/1m edge allow",
};
enum { LIMITS = sizeof notations / sizeof *notations };

static int64_t wall_ms(void) {
	return 1000;
}

static struct sluice_limit limit_of(uint8_t choice) {
	struct sluice_limit limit;
	SL_ASSERT(sluice_limit_parse(&limit, sl_str(notations[choice % LIMITS]), NULL) == SLUICE_OK);
	if (choice >= 128 && sl_rule_has(&limit, SL_HAS_COUNTER))
		sl_rule_name(&limit, sl_str("n"));
	return limit;
}

/* Written and read, it is the same value; a counter that holds have kept alive and no more is none is not. */
static void check_value(slr_value value) {
	struct slr_bytes bytes = {.data = NULL}, again = {.data = NULL};
	slr_value read;
	SL_ASSERT(slr_value_is_valid(value));
	slr_write_value(&bytes, value);
	read = slr_read_value(sl_slice(bytes.data, bytes.len));
	SL_ASSERT((read == 0) == (value == 0));
	slr_write_value(&again, read);
	SL_ASSERT(bytes.len == again.len && memcmp(bytes.data, again.data, bytes.len) == 0);
	slr_bytes_free(&bytes);
	slr_bytes_free(&again);
	slr_value_free(read);
}

/* What the door lets through. */
static bool fits(const struct sluice_limit *limit, enum sl_operation operation) {
	if (operation == SL_OP_HOLDERS)
		return false;
	if (!sl_rule_lacks(limit, SL_OF_CHARGES))
		return true;
	if ((operation == SL_OP_RESERVE && !sl_rule_has(limit, SL_RESERVABLE)) ||
	    (operation == SL_OP_REFUND && !sl_rule_has(limit, SL_REFUNDABLE)))
		return false;
	if (sl_rule_has(limit, SL_HAS_SEATS) && slr_holds_by(operation))
		return false;
	return !sl_rule_has(limit, SL_TAKES_LEASE) || operation != SL_OP_CHECK;
}

static void add_terms(struct sluice_item *item, struct sluice_terms *terms, uint8_t choice) {
	static const char *const texts[] = {"count-denied", "penalty [1s, 1m] after 2 denials in 1m",
	                                    "count-denied; penalty [1h] after 1 denial in 1s"};
	if (choice % 4 == 0 || !sl_rule_has(item->limit, SL_COUNTS_DENIED))
		return;
	SL_ASSERT(sl_terms_parse(terms, sl_str(texts[choice % 4 - 1]), NULL) == SLUICE_OK);
	item->terms = terms;
}

static void call_on(slr_value *value, slr_value *replica, const struct sluice_limit *limit, const uint8_t *bytes,
                    sluice_ns now) {
	struct slr_call call = {.operation = (enum sl_operation)(bytes[0] % (SL_OP_LEASE + 1)), .key_count = 1};
	struct sluice_terms terms;
	struct slr_effects *effects = &call.keys[0].effects;
	if (!fits(limit, call.operation))
		return;
	call.asked.item_count = 1;
	call.asked.now = now;
	call.id = call.operation >= SL_OP_ACQUIRE ? bytes[1] | 1u : bytes[1];
	call.token = call.operation == SL_OP_CHECK ? bytes[1] % 8 : 0;
	call.asked.id = sl_slice("id", 2);
	call.asked.upto = call.operation <= SL_OP_PEEK && bytes[0] >= 128;
	call.asked.cost = call.want = call.spent = (uint32_t)(bytes[2] << 8 | bytes[3]);
	call.asked.ttl_ns = (1 + (sluice_ns)bytes[1] * 200) * SL_MS_NS;
	call.wall_ms = wall_ms;
	call.asked.want_next = call.heard = true;
	call.items[0].limit = limit;
	if (sl_rule_has(limit, SL_TAKES_MEMBER))
		call.items[0].member = sl_slice(&bytes[1], 1);
	if (!slr_holds_by(call.operation))
		add_terms(&call.items[0], &terms, bytes[1] >> 5);
	call.keys[0].value = *value;
	(void)!slr_decide(&call);
	*value = call.keys[0].value;
	check_value(*value);
	if (effects->bytes.len != 0)
		SL_ASSERT(slr_effects_apply(replica, sl_slice(effects->bytes.data, effects->bytes.len)));
	check_value(*replica);
	slr_bytes_free(&effects->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct sluice_limit limit;
	slr_value value = 0, replica;
	sluice_ns now = START_NS;
	size_t count;
	if (size < HEAD_BYTES)
		return 0;
	limit = limit_of(data[1]);
	count = data[2] % (CALLS_MAX + 1);
	if (size - HEAD_BYTES < count * CALL_BYTES)
		count = (size - HEAD_BYTES) / CALL_BYTES;
	const uint8_t *calls = data + HEAD_BYTES, *payload = calls + count * CALL_BYTES;
	struct sluice_bytes bytes = sl_slice(payload, (size_t)(data + size - payload));
	if (data[0] % 2 == 0)
		value = slr_read_value(bytes);
	else
		(void)!slr_effects_apply(&value, bytes);
	check_value(value);
	replica = slr_value_copy(value);
	for (size_t i = 0; i < count; i++, calls += CALL_BYTES) {
		now += (sluice_ns)(calls[4] << 16 | calls[5] << 8 | calls[6]) * SL_MS_NS + calls[7];
		call_on(&value, &replica, &limit, calls, now);
	}
	slr_value_free(value);
	slr_value_free(replica);
	return 0;
}
