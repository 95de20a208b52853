/* Paths of conditions: their parts. */
#ifndef SL_CONF_ROUTE_H
#define SL_CONF_ROUTE_H

#include "policy/conf.h"

/* Reads the parts of a path as it is written, without its star, into a route that has nothing else yet. False for parts
 * that are none, which is reported. */
bool sl_conf_route_parts(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes path, bool prefix,
                         struct sl_route *route);

/* Fills in the texts of a route whose parts were read: its path as it is written, with its star, which is copied, and
 * in the form of paths, without it, which the policy owns already. False without memory. */
bool sl_conf_route_text(struct sl_conf *conf, struct sluice_bytes written, struct sluice_bytes form,
                        struct sl_route *route);

#endif
