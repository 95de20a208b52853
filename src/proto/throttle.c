/* CL.THROTTLE, redis-cell's command, for those who come from there.
 *
 *   CL.THROTTLE key max_burst count period [quantity]
 *
 * It is a token-bucket of `count/period` seconds and burst max_burst + 1, with a counter that no SLUICE.CHECK meets.
 * The answers are redis-cell 0.5.0's on every sane call, and differ where it errs: seconds are rounded up, never down
 * to a wait that is too short; a negative rate or burst is refused instead of denying all; a refund of a key that is
 * not there creates nothing; a key is never a Redis value of another kind, so nothing can crash on one. */
#include "algo/rule.h"
#include "proto/command.h"

static bool to_i64(struct sluice_bytes text, int64_t *value) {
	const char *p = text.data;
	bool negative = text.len > 1 && *p == '-';
	uint64_t magnitude;
	if (!sl_bytes_to_u64(sl_slice(p + negative, text.len - negative), &magnitude) || magnitude > (uint64_t)INT64_MAX)
		return false;
	*value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
	return true;
}

/* The number at a place, which is the field's. */
static bool read_number(struct sl_command *command, uint32_t index, enum sl_command_field field, int64_t *value) {
	const struct sl_meaning *meaning = &sl_fields[field];
	int64_t most = (int64_t)meaning->most, least = field == SL_FIELD_QUANTITY ? -most : (int64_t)meaning->least;
	struct sluice_bytes text = command->args[index];
	if (to_i64(text, value) && *value >= least && *value <= most)
		return true;
	return sl_command_fail(command, "%s %s: expected a whole number from %lld to %lld", meaning->name,
	                       sl_shown(text).text, (long long)least, (long long)most);
}

bool sl_command_read_throttle(struct sl_command *command, const struct sluice_bytes *args, uint32_t count) {
	int64_t quantity = 1;
	command->args = args;
	command->count = count;
	command->operation = SL_OP_THROTTLE;
	command->given = 0;
	command->key = sl_command_fold(command, args[1]);
	if (count > 5 && !read_number(command, 5, SL_FIELD_QUANTITY, &quantity))
		return false;
	command->call->operation = quantity > 0 ? SLUICE_CHARGE : quantity == 0 ? SLUICE_PEEK : SLUICE_REFUND;
	command->call->cost = (uint32_t)(quantity < 0 ? -quantity : quantity);
	return true;
}

bool sl_command_throttle_limit(struct sl_command *command, struct sluice_limit *limit) {
	int64_t max_burst, count, period;
	struct sluice_error error;
	if (!read_number(command, 2, SL_FIELD_MAX_BURST, &max_burst) ||
	    !read_number(command, 3, SL_FIELD_COUNT, &count) ||
	    !read_number(command, 4, SL_FIELD_PERIOD, &period))
		return false;
	if (sl_rule_make_token_bucket(limit, (uint64_t)count, (sluice_ns)period * 1000000000, (uint64_t)max_burst + 1,
	                              &error) != SLUICE_OK)
		return sl_command_fail(command, "%s", error.text);
	sl_rule_throttle(limit);
	return true;
}
