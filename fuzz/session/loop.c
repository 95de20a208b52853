/* libuv, as far as a worker uses it, on a clock and sockets of ours. The order of a turn is libuv's: timers, prepare,
 * what is readable or writable, what other threads have sent, check, closing. */
#include "fuzz/session/session.h"

enum { HANDLES_MAX = 64 };

enum kind { TIMER, PREPARE, CHECK, ASYNC, POLL };

struct handle {
	uv_handle_t *handle; /* NULL: this place is free */
	enum kind kind;
	bool active, sent, closing;
	int fd, events;
	uint64_t due_ms, repeat_ms, order;
	void (*call)(void *handle);
	uv_poll_cb on_poll;
	uv_close_cb on_close;
};

static struct handle handles[HANDLES_MAX];
static uint64_t orders;

static uint64_t now_ms(void) {
	return wire_now / 1000000;
}

static struct handle *find(const void *of) {
	for (int i = 0; i < HANDLES_MAX; i++)
		if (handles[i].handle == of)
			return &handles[i];
	abort(); /* a handle that was never made, or is closed */
}

static struct handle *make(uv_loop_t *loop, void *of, enum kind kind) {
	struct handle *free_one = NULL;
	for (int i = HANDLES_MAX - 1; i >= 0; i--) {
		SL_ASSERT(handles[i].handle != of);
		free_one = handles[i].handle == NULL ? &handles[i] : free_one;
	}
	SL_ASSERT(free_one != NULL);
	*free_one = (struct handle){.handle = of, .kind = kind};
	((uv_handle_t *)of)->loop = loop;
	return free_one;
}

/* ---- what a worker calls ----------------------------------------------------------------------------------------- */

int uv_loop_init(uv_loop_t *loop) {
	(void)loop;
	return 0;
}

int uv_loop_close(uv_loop_t *loop) {
	return loop_is_alive(loop) ? UV_EBUSY : 0;
}

int uv_run(uv_loop_t *loop, uv_run_mode mode) {
	SL_ASSERT(mode == UV_RUN_DEFAULT);
	while (loop_turn(loop))
		;
	return loop_is_alive(loop);
}

uint64_t uv_now(const uv_loop_t *loop) {
	(void)loop;
	return now_ms();
}

int uv_is_active(const uv_handle_t *handle) {
	const struct handle *it = find(handle);
	return it->active && !it->closing;
}

void uv_close(uv_handle_t *handle, uv_close_cb on_close) {
	struct handle *it = find(handle);
	SL_ASSERT(!it->closing);
	it->closing = true;
	it->active = false;
	it->on_close = on_close;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer) {
	make(loop, timer, TIMER);
	return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb call, uint64_t ms, uint64_t repeat_ms) {
	struct handle *it = find(timer);
	SL_ASSERT(!it->closing);
	it->call = (void (*)(void *))call;
	it->due_ms = now_ms() + ms;
	it->repeat_ms = repeat_ms;
	it->order = orders++;
	it->active = true;
	return 0;
}

int uv_timer_stop(uv_timer_t *timer) {
	find(timer)->active = false;
	return 0;
}

int uv_timer_again(uv_timer_t *timer) {
	struct handle *it = find(timer);
	SL_ASSERT(it->call != NULL);
	return it->repeat_ms == 0 ? 0 : uv_timer_start(timer, (uv_timer_cb)it->call, it->repeat_ms, it->repeat_ms);
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *prepare) {
	make(loop, prepare, PREPARE);
	return 0;
}

int uv_check_init(uv_loop_t *loop, uv_check_t *check) {
	make(loop, check, CHECK);
	return 0;
}

static int start(void *handle, void (*call)(void *)) {
	struct handle *it = find(handle);
	it->call = call;
	it->active = true;
	return 0;
}

int uv_prepare_start(uv_prepare_t *prepare, uv_prepare_cb call) {
	return start(prepare, (void (*)(void *))call);
}

int uv_check_start(uv_check_t *check, uv_check_cb call) {
	return start(check, (void (*)(void *))call);
}

int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb call) {
	make(loop, async, ASYNC);
	return start(async, (void (*)(void *))call);
}

int uv_async_send(uv_async_t *async) {
	struct handle *it = find(async);
	SL_ASSERT(!it->closing);
	it->sent = true;
	return 0;
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd) {
	make(loop, poll, POLL)->fd = fd;
	return 0;
}

int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb call) {
	struct handle *it = find(poll);
	SL_ASSERT(!it->closing);
	it->events = events;
	it->on_poll = call;
	it->active = events != 0;
	return 0;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static bool is_of(const struct handle *it, const uv_loop_t *loop, enum kind kind) {
	return it->handle != NULL && it->handle->loop == loop && it->kind == kind && it->active;
}

static void call_all(uv_loop_t *loop, enum kind kind) {
	for (int i = 0; i < HANDLES_MAX; i++)
		if (is_of(&handles[i], loop, kind))
			handles[i].call(handles[i].handle);
}

/* Timers that are due when it begins, in their order; one that is set meanwhile waits for the next turn. */
static bool call_timers(uv_loop_t *loop) {
	uint64_t before = orders;
	bool any = false;
	for (;;) {
		struct handle *next = NULL;
		for (int i = 0; i < HANDLES_MAX; i++) {
			struct handle *it = &handles[i];
			if (is_of(it, loop, TIMER) && it->due_ms <= now_ms() && it->order < before &&
			    (next == NULL || it->due_ms < next->due_ms || (it->due_ms == next->due_ms && it->order < next->order)))
				next = it;
		}
		if (next == NULL)
			return any;
		any = true;
		next->active = false;
		if (next->repeat_ms != 0)
			uv_timer_start((uv_timer_t *)next->handle, (uv_timer_cb)next->call, next->repeat_ms, next->repeat_ms);
		next->call(next->handle);
	}
}

static bool call_ready(uv_loop_t *loop) {
	bool any = false;
	for (int i = 0; i < HANDLES_MAX; i++) {
		struct handle *it = &handles[i];
		if (!is_of(it, loop, POLL))
			continue;
		int events = (wire_is_readable(it->fd) ? UV_READABLE : 0) | (wire_is_writable(it->fd) ? UV_WRITABLE : 0);
		if ((events &= it->events) == 0)
			continue;
		any = true;
		it->on_poll((uv_poll_t *)it->handle, 0, events);
	}
	return any;
}

static bool call_sent(uv_loop_t *loop) {
	bool any = false;
	for (int i = 0; i < HANDLES_MAX; i++) {
		if (!is_of(&handles[i], loop, ASYNC) || !handles[i].sent)
			continue;
		any = true;
		handles[i].sent = false;
		handles[i].call(handles[i].handle);
	}
	return any;
}

static bool close_all(uv_loop_t *loop) {
	bool any = false;
	for (int i = 0; i < HANDLES_MAX; i++) {
		struct handle was = handles[i];
		if (was.handle == NULL || was.handle->loop != loop || !was.closing)
			continue;
		any = true;
		handles[i].handle = NULL;
		if (was.on_close != NULL)
			was.on_close(was.handle);
	}
	return any;
}

bool loop_turn(uv_loop_t *loop) {
	bool any = call_timers(loop);
	call_all(loop, PREPARE);
	any = call_ready(loop) || any;
	any = call_sent(loop) || any;
	call_all(loop, CHECK);
	return close_all(loop) || any;
}

bool loop_is_alive(const uv_loop_t *loop) {
	for (int i = 0; i < HANDLES_MAX; i++)
		if (handles[i].handle != NULL && handles[i].handle->loop == loop)
			return true;
	return false;
}

void loop_forget(void) {
	for (int i = 0; i < HANDLES_MAX; i++)
		SL_ASSERT(handles[i].handle == NULL);
	orders = 0;
}
