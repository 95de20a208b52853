/* What a call gets that nobody answers for: see fallback.c. */
#ifndef SL_FALLBACK_H
#define SL_FALLBACK_H

#include "hosts/server/remote/remote_call.h"

/* Decides what nobody answered for, by counters of `store` where limits say on-error: local. SLUICE_OK: the items that
 * failed have answers now; SLUICE_E_AWAY: the door says what the request gets; SLUICE_E_MISUSE: it tells the caller
 * that this can't be asked. */
sluice_err sl_fallback(struct sl_remote_call *remote, struct sluice_store *store);

/* Whether the door lets a request pass that is SLUICE_E_AWAY. */
bool sl_fallback_passes(const struct sl_remote_call *remote);

#endif
