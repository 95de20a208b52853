/* Whether a value is one that this code may have made: above all that can stand in it. */
#include "hosts/redis/companion.h"
#include "hosts/redis/value.h"

static bool counter_is_valid(const struct slr_counter *counter) {
	struct sluice_limit limit;
	struct sl_counter step;
	if (sl_identity_is_companion(counter->identity))
		return counter->more != NULL && slr_counter_holds(counter) == NULL &&
		       slr_companion_is_valid(counter->identity, &counter->state, slr_counter_bytes(counter));
	if (!sl_identity_widest(counter->identity, &limit) || !slr_holds_are_valid(slr_counter_holds(counter)) ||
	    slr_counter_is_none(counter))
		return false;
	slr_counter_load(counter, &step);
	return sl_counter_is_valid(&limit, &step);
}

bool slr_value_is_valid(slr_value value) {
	struct slr_counter scratch, other;
	for (uint32_t i = 0; i < slr_value_count(value); i++) {
		const struct slr_counter *counter = slr_value_at(value, i, &scratch);
		if (!counter_is_valid(counter))
			return false;
		for (uint32_t k = 0; k < i; k++)
			if (sl_identity_equal(slr_value_at(value, k, &other)->identity, counter->identity))
				return false;
	}
	return slr_value_count(value) <= SLR_COUNTERS_READ_MAX;
}
