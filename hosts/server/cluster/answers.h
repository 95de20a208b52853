/* From a node's bytes to answers: see answers.c. */
#ifndef SL_ANSWERS_H
#define SL_ANSWERS_H

#include "hosts/server/cluster/nodes_inside.h"

/* Bytes of a node's link: see sl_link_world. */
ptrdiff_t sl_answers_read(struct sl_link *link, void *owner, const char *data, size_t len, size_t *need,
                          const char **why);

#endif
