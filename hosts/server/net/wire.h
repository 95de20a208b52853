/* The bytes of a connection: see wire.c. */
#ifndef SL_WIRE_H
#define SL_WIRE_H

#include "hosts/server/net/connection.h"

enum { SL_WIRE_LATER = -1, SL_WIRE_BROKEN = -2 };

/* Reads once. Bytes; 0 at the end; SL_WIRE_LATER, and c->wants says which event to wait for; SL_WIRE_BROKEN. `room` is
 * at least SL_TLS_RECORD_BYTES. */
ssize_t sl_wire_read(struct sl_connection *c, char *to, size_t room);
/* Sends as much as goes now: 0..len bytes, less than len with c->wants set; or SL_WIRE_BROKEN. What has not gone must
 * be given again, first of all. */
ssize_t sl_wire_write(struct sl_connection *c, const char *data, size_t len);
/* Has the peer taken any of what the kernel holds for it since the last call, or since `c` began to wait for that? */
bool sl_wire_has_moved(struct sl_connection *c);
/* Tells the peer that this was all; false where it can't be told. */
bool sl_wire_end(struct sl_connection *c);

#endif
