/* The store that a policy asks for: opened, and what was found there told. */
#ifndef SL_STORE_LOCATION_H
#define SL_STORE_LOCATION_H

#include "policy/policy.h"

/* Opens the store of a policy: private memory, a file or shared memory, made where there is none. Where a store exists
 * it must have the policy's size, if the policy says one. Unless `quiet`, says on standard error what became of the
 * counters of a file or of shared memory: "sluice: store FILE: kept 12 counters". NULL, and one line on standard error,
 * where it can't be opened. Close it with sluice_store_close(). O(size) where the store is checked, or counted. */
struct sluice_store *sl_store_location_open(const struct sluice_policy *policy, bool quiet);

/* Whether sl_store_location_open() would succeed; a store that there is is opened for a moment, one that there is not
 * is not made: then the folder has to be one that this process may write to. False after a line in the log. */
bool sl_store_location_check(const struct sl_settings *settings);

/* Whether a store can hold as many quotas of keys' own as a policy says; false with `error` filled. */
bool sl_store_location_bears(const struct sl_settings *settings, const struct sluice_store *store,
                             struct sluice_error *error);

/* Whether two policies ask for the same store: a reload can't change it. */
bool sl_store_location_equal(const struct sl_settings *a, const struct sl_settings *b);

#endif
