/* Repeatable chance; see dice.h. */
#include "tests/model/dice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t from_environment(const char *name, uint64_t otherwise) {
	const char *text = getenv(name);
	return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

uint64_t dice_seed(void) {
	static uint64_t seed;
	struct timespec now;
	if (seed != 0)
		return seed;
	clock_gettime(CLOCK_REALTIME, &now);
	seed = from_environment("SLUICE_SEED", ((uint64_t)now.tv_sec * 1000003 ^ (uint64_t)now.tv_nsec) | 1);
	printf("SLUICE_SEED=%" PRIu64 "\n", seed);
	fflush(stdout);
	return seed;
}

uint64_t dice_ops(uint64_t standard) {
	uint64_t per_million = DICE_MILLION;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SL_DEBUG)
	per_million /= 100;
#endif
	per_million = from_environment("SLUICE_OPS", per_million);
	standard = (uint64_t)((twin_wide)standard * per_million / DICE_MILLION);
	return standard == 0 ? 1 : standard;
}

struct dice dice_of(uint64_t seed, uint64_t stream) {
	struct dice dice = {seed + stream * 0x9e3779b97f4a7c15u};
	dice.state = dice_bits(&dice);
	return dice;
}

uint64_t dice_bits(struct dice *dice) {
	uint64_t z = dice->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t dice_below(struct dice *dice, uint64_t n) {
	return n == 0 ? 0 : dice_bits(dice) % n;
}

uint32_t dice_quota(struct dice *dice) {
	static const uint32_t round[] = {1, 2, 3, 10, 100, 240, 1000, 3000, 1000000, UINT32_MAX - 1, UINT32_MAX};
	switch (dice_below(dice, 4)) {
	case 0:
		return (uint32_t)(1 + dice_below(dice, 12));
	case 1:
		return (uint32_t)(1 + dice_below(dice, 200));
	case 2:
		return round[dice_below(dice, sizeof round / sizeof *round)];
	default:
		return (uint32_t)(1 + (dice_bits(dice) >> (32 + dice_below(dice, 32))) % UINT32_MAX);
	}
}

uint32_t dice_cost(struct dice *dice, uint64_t quota) {
	uint64_t cost;
	switch (dice_below(dice, 16)) {
	case 0:
		cost = 0;
		break;
	case 1:
		cost = quota;
		break;
	case 2:
		cost = quota + 1;
		break;
	case 3:
		cost = quota - (quota > 1);
		break;
	case 4:
		cost = quota / 2;
		break;
	case 5:
		cost = quota / 3 + 1;
		break;
	case 6:
		cost = 1 + dice_below(dice, quota);
		break;
	case 7:
		cost = 1 + dice_below(dice, quota / 4 + 1);
		break;
	case 8:
		cost = dice_one_in(dice, 4) ? dice_bits(dice) >> 32 : UINT32_MAX - dice_below(dice, 3);
		break;
	case 9:
		cost = 1 + dice_below(dice, 5);
		break;
	default:
		cost = quota > 1000 && dice_one_in(dice, 2) ? 1 + dice_below(dice, quota / 8) : 1;
		break;
	}
	return cost > UINT32_MAX ? UINT32_MAX : (uint32_t)cost;
}

uint64_t dice_window(struct dice *dice) {
	static const uint64_t some_ms[] = {1,          2,          3,          10,          1000,        4294,
	                                   4295,       7000,       32000,      32768,       60000,       65536,
	                                   3600000,    4294967,    4294968,    86400000,    2073600000,  2147483648,
	                                   4294967295, 4294967296, 4320000000, 31536000000, 316224000000};
	uint64_t ms;
	if (dice_one_in(dice, 4))
		ms = 1 + (dice_bits(dice) >> (26 + dice_below(dice, 38))) % 316224000000;
	else
		ms = some_ms[dice_below(dice, sizeof some_ms / sizeof *some_ms)];
	return ms * TWIN_MS;
}

/* P and n such that P*n is a window: n first, since few random windows have divisors. */
static void dice_precision(struct dice *dice, struct twin_rule *rule) {
	static const uint64_t some_n[] = {2, 3, 4, 5, 7, 10, 60, 64, 100, 1000, 4096};
	static const uint64_t some_ms[] = {1, 2, 7, 100, 1000, 5000, 60000, 3600000, 77202148};
	uint64_t n = some_n[dice_below(dice, sizeof some_n / sizeof *some_n)];
	uint64_t ms = some_ms[dice_below(dice, sizeof some_ms / sizeof *some_ms)];
	if (dice_one_in(dice, 3))
		n = 2 + dice_below(dice, 12);
	if (dice_one_in(dice, 3))
		ms = 1 + dice_below(dice, 3000);
	rule->precision_ns = ms * TWIN_MS;
	rule->window_ns = n * rule->precision_ns;
}

const struct dice_kind dice_kinds[DICE_KINDS] = {
	{SLUICE_FIXED_WINDOW, 0},
	{SLUICE_SLIDING_WINDOW, 0},
	{SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_COUNT},
	{SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_DROP},
	{SLUICE_SLIDING_BUCKETS, SLUICE_EDGE_WEIGHTED},
	{SLUICE_SLIDING_LOG, 0},
	{SLUICE_TOKEN_BUCKET, 0},
	{SLUICE_LEAKY_BUCKET, 0},
	{SLUICE_UNLIMITED, 0},
};

struct twin_rule dice_rule(struct dice *dice, sluice_algorithm algorithm, sluice_edge edge) {
	struct twin_rule rule = {.algorithm = algorithm, .edge = edge, .quota = dice_quota(dice)};
	if (algorithm == SLUICE_UNLIMITED)
		return (struct twin_rule){.algorithm = algorithm};
	if (algorithm == SLUICE_SLIDING_BUCKETS)
		dice_precision(dice, &rule);
	else
		rule.window_ns = dice_window(dice);
	if (dice_one_in(dice, 40))
		rule.quota = 0;
	else if (algorithm == SLUICE_TOKEN_BUCKET)
		rule.burst = dice_one_in(dice, 2) ? rule.quota : dice_quota(dice);
	else if (algorithm == SLUICE_LEAKY_BUCKET)
		rule.burst = dice_one_in(dice, 2) ? rule.quota : dice_one_in(dice, 4) ? 0 : dice_quota(dice);
	return rule;
}

size_t rule_print(const struct twin_rule *rule, char *text, size_t bytes) {
	static const char *const names[] = {"unlimited",   "fixed-window", "sliding-window", "sliding-buckets",
	                                    "sliding-log", "token-bucket", "leaky-bucket"};
	static const char *const edges[] = {"count", "drop", "weighted"};
	uint64_t window_ms = rule->window_ns / TWIN_MS, precision_ms = rule->precision_ns / TWIN_MS;
	int len = snprintf(text, bytes, "%s %" PRIu32 "/%" PRIu64 "ms", names[rule->algorithm], rule->quota, window_ms);
	char *end = text + len;
	if (rule->algorithm == SLUICE_UNLIMITED)
		return (size_t)snprintf(text, bytes, "unlimited");
	bytes -= (size_t)len;
	if (rule->algorithm == SLUICE_SLIDING_BUCKETS)
		len += snprintf(end, bytes, " precision %" PRIu64 "ms edge %s", precision_ms, edges[rule->edge]);
	if (rule->algorithm == SLUICE_TOKEN_BUCKET && rule->quota != 0)
		len += snprintf(end, bytes, " burst %" PRIu32, rule->burst);
	if (rule->algorithm == SLUICE_LEAKY_BUCKET && rule->quota != 0)
		len += snprintf(end, bytes, " queue %" PRIu32, rule->burst);
	if (rule->spread != 0)
		len += snprintf(end, bytes, " spread %" PRIu32, rule->spread - 1);
	return (size_t)len;
}

struct sluice_limit rule_limit(const struct twin_rule *rule) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	struct sluice_error error = {0};
	struct sluice_limit limit;
	struct sluice_bytes bytes = {text, rule_print(rule, text, sizeof text)};
	if (sluice_limit_parse(&limit, bytes, &error) != SLUICE_OK) {
		fprintf(stderr, "%s: column %" PRIu32 ": %s\n", text, error.column, error.text);
		abort();
	}
	return limit;
}
