/* The end of a connection, whoever brings it about: its place in every list and count is given back. */
#include "hosts/server/net/close.h"

#include "hosts/server/net/streams.h"
#include "hosts/server/net/suspend.h"
#include "hosts/server/net/waits.h"

#include <stdlib.h>
#include <unistd.h>

static void on_closed(uv_handle_t *handle) {
	struct sl_connection *c = handle->data;
	free(c->input);
	free(c->unsent);
	free(c);
}

void sl_connection_close(struct sl_connection *c) {
	struct sl_worker *worker = c->worker;
	if (c->fd < 0)
		return;
	uv_close((uv_handle_t *)&c->poll, on_closed);
	sl_tls_close(c->tls);
	close(c->fd);
	c->fd = -1;
	c->tls = NULL;
	*c->link = c->next;
	if (c->next != NULL)
		c->next->link = c->link;
	sl_wait_leave(c);
	worker->kept_bytes -= c->input_capacity + c->unsent_len + c->held_bytes;
	sl_connection_forget_pending(c);
	sl_connection_forget_waiting(c);
	sl_streams_end(c);
	c->door->close(c->door_state);
	sl_bounds_leave(worker->bounds, &c->place);
	sl_connection_uncount_client(c);
	atomic_fetch_add_explicit(&worker->figures->closed[c->door->transport], 1, memory_order_relaxed);
}

bool sl_connection_leave(struct sl_connection *c) {
	if (c->fd < 0 || c->stage != SL_OPEN || c->door->standing == NULL || c->leaving)
		return false;
	c->leaving = true;
	sl_wait_for(c, SL_WAIT_IDLE, true);
	c->poke(c);
	return c->fd >= 0;
}

void sl_connection_count_error(struct sl_connection *c) {
	struct sl_worker_stats *stats = c->worker->context.stats;
	if (stats != NULL)
		sl_count(&stats->errors[c->door->transport], 1);
}

void sl_connection_count_decided(struct sl_connection *c) {
	struct sl_worker_stats *stats = c->worker->context.stats;
	if (stats != NULL)
		sl_client_stats_note(&stats->clients, c->client, c->door->transport, stats->requests[c->door->transport]);
}

void sl_connection_uncount_client(struct sl_connection *c) {
	struct sl_worker_stats *stats = c->worker->context.stats;
	sl_connection_count_decided(c);
	if (stats != NULL)
		sl_client_stats_close(&stats->clients, c->client);
	c->client = 0;
}
