/* The unfinished request of a connection, in as many bytes as it has: most have none. */
#include "hosts/server/net/input.h"

#include "base/assert.h"
#include "hosts/server/net/evict.h"

#include <stdlib.h>

enum { INPUT_ROOM_MIN = 256 };

/* Gives the input a buffer of so many bytes, at least input_len. */
static bool resize_input(struct sl_connection *c, size_t capacity) {
	struct sl_worker *worker = c->worker;
	SL_ASSERT(capacity >= c->input_len);
	if (capacity > c->input_capacity && !sl_evict_for_room(worker, c, capacity - c->input_capacity))
		return false;
	char *input = realloc(c->input, capacity);
	if (input == NULL)
		return false;
	worker->kept_bytes += capacity - c->input_capacity;
	c->input = input;
	c->input_capacity = capacity;
	return true;
}

static void drop_input(struct sl_connection *c) {
	free(c->input);
	c->worker->kept_bytes -= c->input_capacity;
	c->input = NULL;
	c->input_len = c->input_capacity = 0;
}

bool sl_input_keep(struct sl_connection *c, const char *data, size_t len) {
	if (len == 0) {
		drop_input(c);
		return true;
	}
	bool is_inside = c->input != NULL && data >= c->input && data < c->input + c->input_capacity;
	if (!is_inside) {
		c->input_len = 0;
		if (c->input_capacity < len && !resize_input(c, len + INPUT_ROOM_MIN))
			return false;
		SL_ASSERT(c->input != NULL); /* there is capacity */
		memcpy(c->input, data, len);
	} else if (data != c->input) {
		memmove(c->input, data, len);
	}
	c->input_len = len;
	if (c->input_capacity > 4 * (len + INPUT_ROOM_MIN))
		return resize_input(c, len + INPUT_ROOM_MIN);
	return true;
}

bool sl_input_append(struct sl_connection *c, const char *data, size_t len) {
	size_t need = c->input_len + len;
	size_t more = need < 2 * c->input_capacity ? 2 * c->input_capacity : need;
	if (need > c->input_capacity && !resize_input(c, more))
		return false;
	memcpy(c->input + c->input_len, data, len);
	c->input_len = need;
	return true;
}
