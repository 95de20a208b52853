/* The policy's files, watched for changes. */
#ifndef SL_FOLLOW_H
#define SL_FOLLOW_H

#include "hosts/server/lifecycle/inside.h"

/* To be called once before the first look. */
void sl_follow_begin(struct sl_server *server);
/* Looks at the policy's files, and has them read where they have changed. Returns in how many ns to look again. On the
 * reader's thread. */
sluice_ns sl_follow_look(struct sl_server *server);

#endif
