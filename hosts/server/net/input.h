/* What a connection keeps of a request that is not whole yet. */
#ifndef SL_INPUT_H
#define SL_INPUT_H

#include "hosts/server/net/connection.h"

/* Keeps bytes as the connection's unfinished input: they may lie in it already. False: no memory, or no room for it. */
bool sl_input_keep(struct sl_connection *c, const char *data, size_t len);
/* Puts bytes after what is kept, in twice the memory where that is needed. False likewise. */
bool sl_input_append(struct sl_connection *c, const char *data, size_t len);

#endif
