/* One key under one limit; see probe.h. */
#include "tests/model/probe.h"

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>

const struct kind kinds[KINDS] = {
	{"fixed-window", SLUICE_FIXED_WINDOW, SLUICE_EDGE_COUNT, true},
	{"sliding-window", SLUICE_SLIDING_WINDOW, SLUICE_EDGE_COUNT, true},
	{"sliding-buckets edge count", SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_COUNT, true},
	{"sliding-buckets edge drop", SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_DROP, true},
	{"sliding-buckets edge weighted", SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_WEIGHTED, true},
	{"sliding-log", SLUICE_SLIDING_LOG, SLUICE_EDGE_COUNT, false},
	{"token-bucket", SLUICE_TOKEN_BUCKET, SLUICE_EDGE_COUNT, false},
	{"leaky-bucket", SLUICE_LEAKY_BUCKET, SLUICE_EDGE_COUNT, false},
};

static struct sluice_store *small_store(void) {
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct sluice_store *store;
	if (sluice_store_open(&store, &options, NULL) != SLUICE_OK)
		abort();
	return store;
}

struct probe probe_of(const struct twin_rule *rule) {
	return (struct probe){.store = small_store(), .limit = rule_limit(rule), .rule = *rule, .key = "0"};
}

struct probe probe_of_text(const char *notation) {
	struct probe probe = {.store = small_store(), .key = "0"};
	if (sluice_limit_parse(&probe.limit, sl_str(notation), NULL) != SLUICE_OK)
		abort();
	return probe;
}

void probe_close(struct probe *probe) {
	sluice_store_close(probe->store);
	probe->store = NULL;
}

void probe_next_key(struct probe *probe) {
	snprintf(probe->key, sizeof probe->key, "%lld", strtoll(probe->key, NULL, 10) + 1);
}

struct sluice_decision probe_do(const struct probe *probe, sluice_operation operation, uint64_t now_ns, uint32_t cost) {
	struct sluice_item item = {.limit = &probe->limit, .key = sl_str(probe->key)};
	struct sluice_call call = {
		.items = &item, .item_count = 1, .cost = cost, .operation = operation, .want_next = true, .now = now_ns};
	if (sluice_decide(probe->store, &call) != SLUICE_OK) {
		fprintf(stderr, "error %d at %llu, cost %u\n", call.err, (unsigned long long)now_ns, cost);
		abort();
	}
	return call.merged;
}

uint64_t probe_stir(const struct probe *probe, struct dice *dice, uint64_t now_ns, uint64_t unit_ns, size_t most) {
	uint64_t units = probe->limit.window_ns / unit_ns;
	for (size_t n = (size_t)dice_below(dice, most + 1); n != 0; n--) {
		struct sluice_decision d = probe_do(probe, dice_one_in(dice, 8) ? SLUICE_REFUND : SLUICE_CHARGE, now_ns,
		                                    dice_cost(dice, probe->limit.quota));
		if (dice_one_in(dice, 6))
			probe_charge(probe, now_ns, d.remaining);
		if (dice_one_in(dice, 2))
			now_ns += unit_ns * dice_below(dice, dice_one_in(dice, 8) ? 2 * units : units / 6 + 2);
	}
	return now_ns;
}

struct twin_rule kind_rule(const struct kind *kind, uint32_t window_ms, uint32_t quota) {
	struct twin_rule rule = {.algorithm = kind->algorithm, .edge = kind->edge, .quota = quota};
	rule.window_ns = window_ms * (uint64_t)TWIN_MS;
	if (kind->algorithm == SLUICE_SLIDING_BUCKETS)
		rule.precision_ns = (window_ms >= 4 && window_ms % 2 == 0 ? 2 : 1) * (uint64_t)TWIN_MS;
	if (kind->algorithm == SLUICE_TOKEN_BUCKET)
		rule.burst = quota;
	if (kind->algorithm == SLUICE_LEAKY_BUCKET)
		rule.burst = quota - 1; /* of which one more fits */
	return rule;
}
