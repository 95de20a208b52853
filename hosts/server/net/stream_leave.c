/* A connection that follows no more: below all who may bring that about. */
#include "hosts/server/net/connection.h"
#include "hosts/server/net/streams.h"

void sl_streams_remove(struct sl_connection *c) {
	struct sl_streams *streams = &c->worker->streams;
	*(c->stream_before != NULL ? &c->stream_before->stream_after : &streams->first) = c->stream_after;
	if (c->stream_after != NULL)
		c->stream_after->stream_before = c->stream_before;
	c->stream_after = c->stream_before = NULL;
}

void sl_streams_end(struct sl_connection *c) {
	if (c->reader == NULL)
		return;
	sl_streams_remove(c);
	sl_tail_leave(c->reader);
	c->reader = NULL;
}
