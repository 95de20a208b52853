/* The output buffer of a worker: grows by doubling, never shrinks while it serves, and is bounded by the doors, which
 * hand over what they have once SL_DOOR_OUTPUT_TURN bytes stand in it. */
#include "hosts/server/door/door.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES_MIN = 16 * 1024 };

char *sl_buffer_reserve(struct sl_buffer *buffer, size_t more) {
	if (buffer->capacity - buffer->len >= more)
		return buffer->data + buffer->len;
	size_t capacity = buffer->capacity == 0 ? BUFFER_BYTES_MIN : buffer->capacity;
	while (capacity - buffer->len < more) {
		if (capacity > SIZE_MAX / 2)
			return NULL;
		capacity *= 2;
	}
	char *data = realloc(buffer->data, capacity);
	if (data == NULL)
		return NULL;
	buffer->data = data;
	buffer->capacity = capacity;
	return data + buffer->len;
}

bool sl_buffer_append(struct sl_buffer *buffer, const void *data, size_t len) {
	char *at = sl_buffer_reserve(buffer, len);
	if (at == NULL)
		return false;
	if (len != 0)
		memcpy(at, data, len);
	buffer->len += len;
	return true;
}

void sl_buffer_free(struct sl_buffer *buffer) {
	free(buffer->data);
	*buffer = (struct sl_buffer){.data = NULL};
}
