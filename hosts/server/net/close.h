/* Connections end here. */
#ifndef SL_CLOSE_H
#define SL_CLOSE_H

#include "hosts/server/net/connection.h"

/* Closes it at once, whatever it was doing; its memory goes at the end of the turn. Twice is no harm. */
void sl_connection_close(struct sl_connection *c);
/* Counts a connection that was none of ours: a greeting that failed. */
void sl_connection_count_error(struct sl_connection *c);

/* Counts for its client what was decided since that was last done; between two feeds of doors. Some ns. */
void sl_connection_count_decided(struct sl_connection *c);
/* Its client has a connection less: it closes, or could not be opened. Twice is no harm. */
void sl_connection_uncount_client(struct sl_connection *c);

/* Asks a connection whose door answers each request on its own to end, once: it closes by itself when nothing is open.
 * False: it was asked before, or its door can't tell its peer, or it is closed already. */
bool sl_connection_leave(struct sl_connection *c);

#endif
