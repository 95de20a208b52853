/* Streams of decisions over HTTP, for the connection that carries one. */
#ifndef SL_HTTP_TAIL_H
#define SL_HTTP_TAIL_H

#include "hosts/server/door/door.h"

/* As door.h says of stream. */
void sl_http_stream(void *state, struct sl_door_context *context, struct sluice_bytes line, struct sl_buffer *out);
/* Appends what ends the body of context->reader's stream. False: only the connection's end does. */
bool sl_http_end_stream(const struct sl_door_context *context, struct sl_buffer *out);

#endif
