/* All stores that this process has open. */
#ifndef SL_REGISTRY_H
#define SL_REGISTRY_H

#include "hosts/library/home.h"

/* Opens a store, or takes one more reference of the one that is open. Errors as sluice_store_open(). Waits for other
 * openings of this process; forks wait for it. */
SLUICE_MUST_USE sluice_err sl_registry_open(struct sl_home **home, const struct sl_opening *opening);

/* sluice_store_open() by a thread that others need: SLUICE_E_BUSY where another process is opening the store for longer
 * than `patience_ns`, at most 10 s. */
SLUICE_MUST_USE sluice_err sl_store_open_within(struct sluice_store **store, const struct sluice_store_options *options,
                                                sluice_ns patience_ns, struct sluice_error *error);

/* What sluice_store_open() says of options before it looks for a store: SLUICE_OK, _RANGE, _MISUSE. For hosts that
 * check a configuration and open nothing. */
SLUICE_MUST_USE sluice_err sl_store_options_check(const struct sluice_store_options *options,
                                                  struct sluice_error *error);

/* The same of the size alone, where the store is there already: SLUICE_E_RANGE for another one than the options say. By
 * its path: nothing is opened. */
SLUICE_MUST_USE sluice_err sl_store_size_check(const struct sluice_store_options *options, struct sluice_error *error);

/* Gives back one reference; the last one leaves the store. */
void sl_registry_close(struct sl_home *home);

#endif
