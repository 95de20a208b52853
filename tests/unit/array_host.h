/* A third host of src/decide, besides the arena and values of Redis: cells in an array. It is as small as a host can
 * be, and shows by that how wide the seam is. There is one of it; nothing is evicted. */
#ifndef ARRAY_HOST_H
#define ARRAY_HOST_H

#include "decide/decide.h"

/* Forgets all counters. */
void array_open(void);

/* As sluice_decide() and sluice_holders(). */
sluice_err array_decide(struct sluice_call *call);
uint32_t array_holders(const struct sluice_item *item, sluice_ns now, struct sluice_holder *list, uint32_t room);

#endif
