/* See streams.h.
 *
 *   rings of all workers --read once a tick--> batch --for each connection: its filter's lines--> door --> socket
 *
 * A connection that has not taken what it got before is passed by, and closed when it takes nothing for
 * SL_STREAMS_STALLED_MS: so one that hangs costs what the kernel holds for it, and no time. What a connection was
 * passed by, what a tick has no room for and what came too late are told as one number: what it wanted less what it
 * got. */
#include "hosts/server/net/streams.h"

#include "base/assert.h"
#include "hosts/server/net/close.h"
#include "hosts/server/net/connection.h"
#include "hosts/server/net/waits.h"
#include "hosts/server/net/wire.h"

#include <stdlib.h>
#include <sys/socket.h>

struct line {
	struct sl_tail_head head;
	uint32_t worker, text; /* whose, and where in the batch */
	uint64_t at;           /* its position in that ring */
};

struct sl_streams_batch {
	uint32_t workers, line_count, used, turn; /* turn: which ring is read first */
	struct line lines[SL_STREAMS_LINES_MAX];
	char text[SL_STREAMS_BYTES + SL_RECORD_BYTES_MAX + 8]; /* the last one may go beyond */
	uint64_t at[];                                         /* of each worker's ring */
};

/* ---- what there is to tell --------------------------------------------------------------------------------------- */

/* Takes the lines of one ring, while there is room for them. */
static void read_ring(struct sl_streams_batch *batch, const struct sl_tail *tail, uint32_t worker) {
	const struct sl_tail_ring *ring = sl_tail_ring(tail, worker);
	enum sl_tail_read got = SL_TAIL_LINE;
	while (got == SL_TAIL_LINE && batch->line_count < SL_STREAMS_LINES_MAX && batch->used < SL_STREAMS_BYTES) {
		struct line *line = &batch->lines[batch->line_count];
		line->worker = worker;
		line->at = batch->at[worker];
		line->text = batch->used;
		got = sl_tail_ring_read(ring, &batch->at[worker], &line->head, batch->text + batch->used);
		if (got == SL_TAIL_LINE) {
			batch->used += line->head.len;
			batch->line_count++;
		}
	}
	if (got == SL_TAIL_LINE) /* no room: what is left is missed */
		batch->at[worker] = sl_tail_ring_end(ring);
}

/* In the order of time; of one worker in its own. */
static int compare(const void *a, const void *b) {
	const struct line *x = a, *y = b;
	if (x->head.now != y->head.now)
		return x->head.now < y->head.now ? -1 : 1;
	if (x->worker != y->worker)
		return x->worker < y->worker ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void read_rings(struct sl_streams_batch *batch, const struct sl_tail *tail) {
	batch->line_count = batch->used = 0;
	batch->turn = (batch->turn + 1) % batch->workers;
	for (uint32_t i = 0; i < batch->workers; i++)
		read_ring(batch, tail, (batch->turn + i) % batch->workers);
	if (batch->workers > 1)
		qsort(batch->lines, batch->line_count, sizeof batch->lines[0], compare);
}

/* ---- one connection ---------------------------------------------------------------------------------------------- */

static uint64_t now_ms(const struct sl_connection *c) {
	return uv_now(&c->worker->loop);
}

/* Appends the lines that are his, at most so many. */
static void put_lines(struct sl_connection *c, const struct sl_streams_batch *batch, uint32_t most) {
	struct sl_door_context *context = &c->worker->context;
	struct sl_tail_reader *reader = c->reader;
	uint64_t before = reader->got;
	for (uint32_t i = 0; i < batch->line_count && reader->got - before < most; i++) {
		const struct line *line = &batch->lines[i];
		if (!sl_tail_is_for(reader, &line->head, line->worker, line->at))
			continue;
		if (c->worker->out.len > SL_STREAMS_OUTPUT_MAX)
			break;
		c->door->stream(c->door_state, context, sl_slice(batch->text + line->text, line->head.len), &c->worker->out);
		reader->got++;
	}
	sl_tail_count_sent(reader->tail, reader->got - before);
}

/* Tells him what he has missed; or nothing, so that he hears that we are here. */
static void put_skipped(struct sl_connection *c) {
	struct sl_tail_reader *reader = c->reader;
	char memory[128];
	struct sl_out out = sl_out_to(memory, sizeof memory);
	bool alive = now_ms(c) - reader->heard_ms >= SL_TAIL_ALIVE_MS && c->worker->out.len == 0;
	if (!alive && now_ms(c) - reader->told_ms < SL_TAIL_TOLD_MS)
		return;
	uint64_t missed = sl_tail_missed(reader);
	if (missed == 0 && !alive)
		return;
	sl_record_put_skipped(&out, c->worker->context.now, missed);
	c->door->stream(c->door_state, &c->worker->context, sl_slice(memory, sl_out_len(&out)), &c->worker->out);
	reader->told_ms = now_ms(c);
}

/* Has it taken nothing of what was sent, for too long? */
static bool is_stalled(struct sl_connection *c) {
	if (now_ms(c) - c->since_ms < SL_STREAMS_STALLED_MS)
		return false;
	if (!sl_wire_has_moved(c))
		return true;
	sl_wait_for(c, SL_WAIT_WRITE, true);
	return false;
}

static void tell(struct sl_connection *c, const struct sl_streams_batch *batch, uint32_t most) {
	struct sl_door_context *context = &c->worker->context;
	if (!c->worker->streams.calls->may(c)) {
		c->worker->streams.calls->end(c);
		return;
	}
	if (c->unsent_len != 0) {
		if (is_stalled(c))
			sl_connection_close(c);
		return;
	}
	if (c->pending != NULL || c->stage != SL_OPEN) /* it has asked for something else, which is answered first */
		return;
	context->reader = c->reader;
	put_lines(c, batch, most);
	put_skipped(c);
	context->reader = NULL;
	if (c->worker->out.len == 0)
		return;
	c->reader->heard_ms = now_ms(c);
	c->worker->streams.calls->send(c);
}

/* ---- the tick ---------------------------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer) {
	struct sl_streams *streams = timer->data;
	const struct sl_tail *tail = streams->worker->context.shared->tail;
	uint32_t count = 0;
	for (struct sl_connection *c = streams->first; c != NULL; c = c->stream_after) {
		struct sl_tail_reader *reader = c->reader;
		sl_tail_count_wanted(reader);
		if (reader->heard_ms == 0)
			reader->heard_ms = reader->told_ms = now_ms(c);
		count++;
	}
	if (count == 0) {
		uv_timer_stop(timer);
		return;
	}
	uint32_t share = SL_TAIL_TICK_SENT / count;
	read_rings(streams->batch, tail);
	sl_worker_read_clock(streams->worker);
	/* one that needs room may close others, the next one too: then the rest is told in the next tick */
	for (struct sl_connection *c = streams->first, *next; c != NULL && c->reader != NULL; c = next) {
		next = c->stream_after;
		tell(c, streams->batch, share < SL_TAIL_TICK_LINES ? share : SL_TAIL_TICK_LINES);
	}
}

static bool make_batch(struct sl_streams *streams, const struct sl_tail_reader *reader) {
	uint32_t workers = sl_tail_workers(reader->tail);
	if (streams->batch == NULL)
		streams->batch = calloc(1, sizeof *streams->batch + workers * sizeof streams->batch->at[0]);
	if (streams->batch == NULL)
		return false;
	streams->batch->workers = workers;
	if (!uv_is_active((uv_handle_t *)&streams->timer))
		for (uint32_t i = 0; i < workers; i++)
			streams->batch->at[i] = reader->from[i];
	return true;
}

void sl_streams_add(struct sl_connection *c, const struct sl_stream_calls *calls) {
	struct sl_streams *streams = &c->worker->streams;
	int bytes = SL_STREAMS_SOCKET_BYTES;
	streams->calls = calls;
	if (!make_batch(streams, c->reader)) { /* as if it had never been let in */
		sl_connection_close(c);
		return;
	}
	setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	c->stream_before = NULL;
	c->stream_after = streams->first;
	if (streams->first != NULL)
		streams->first->stream_before = c;
	streams->first = c;
	if (!uv_is_active((uv_handle_t *)&streams->timer))
		uv_timer_start(&streams->timer, on_tick, SL_TAIL_TICK_MS, SL_TAIL_TICK_MS);
}

void sl_streams_init(struct sl_streams *streams, uv_loop_t *loop, struct sl_worker *worker) {
	*streams = (struct sl_streams){.worker = worker};
	SL_ASSERT(uv_timer_init(loop, &streams->timer) == 0);
	streams->timer.data = streams;
}

void sl_streams_close(struct sl_streams *streams) {
	SL_ASSERT(streams->first == NULL);
	free(streams->batch);
	streams->batch = NULL;
	uv_close((uv_handle_t *)&streams->timer, NULL);
}
