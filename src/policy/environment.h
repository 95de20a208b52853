/* Values of a policy file that the environment says. */
#ifndef SL_ENVIRONMENT_H
#define SL_ENVIRONMENT_H

#include "policy/pool.h"
#include "policy/tree.h"

/* Puts what the environment says into a value that has ${NAME} or ${NAME:-default} in it: the node's text is then a
 * plain one in `pool`, without columns of its own. $${ is a ${ that is meant so. What can't be read is reported, and
 * makes the node a refused one. `*room` is how many bytes all values of a file may still grow by. Nobody may write the
 * environment meanwhile. */
void sl_environment_expand(struct sl_pool *pool, struct sl_report *report, struct sl_yaml *node, size_t *room);

#endif
