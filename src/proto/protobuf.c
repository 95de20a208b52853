/* Protocol Buffers' wire format. Whatever comes is read as any conforming parser reads it: a varint may be longer than
 * it needs to be, fields may stand in any order and more than once, and unknown ones are passed over. */
#include "proto/protobuf.h"

#include "base/assert.h"

enum { VARINT_BYTES_MAX = 10, NUMBER_MAX = (1 << 29) - 1, GROUP_BEGINS = 3, GROUP_ENDS = 4 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool read_varint(struct sl_pb_reader *reader, uint64_t *value) {
	uint64_t n = 0;
	if (reader->at < reader->end && *reader->at < 0x80) { /* as nearly all are */
		*value = *reader->at++;
		return true;
	}
	for (int i = 0; i < VARINT_BYTES_MAX && reader->at < reader->end; i++) {
		uint8_t byte = *reader->at++;
		if (i == VARINT_BYTES_MAX - 1 && byte > 1) /* bit 64 and beyond */
			return false;
		n |= (uint64_t)(byte & 0x7F) << 7 * i;
		if (byte < 0x80) {
			*value = n;
			return true;
		}
	}
	return false;
}

static bool read_fixed(struct sl_pb_reader *reader, int bytes, uint64_t *value) {
	if (reader->end - reader->at < bytes)
		return false;
	*value = 0;
	for (int i = 0; i < bytes; i++)
		*value |= (uint64_t)reader->at[i] << 8 * i;
	reader->at += bytes;
	return true;
}

static bool read_value(struct sl_pb_reader *reader, struct sl_pb_field *field, unsigned kind) {
	field->kind = (enum sl_pb_kind)kind;
	switch (kind) {
	case SL_PB_VARINT:
		return read_varint(reader, &field->value);
	case SL_PB_FIXED64:
		return read_fixed(reader, 8, &field->value);
	case SL_PB_FIXED32:
		return read_fixed(reader, 4, &field->value);
	case SL_PB_BYTES:
		if (!read_varint(reader, &field->value) || field->value > (uint64_t)(reader->end - reader->at))
			return false;
		field->bytes = sl_slice(reader->at, (size_t)field->value);
		reader->at += field->value;
		return true;
	default:
		return false;
	}
}

int sl_pb_next(struct sl_pb_reader *reader, struct sl_pb_field *field) {
	uint32_t open[SL_PB_DEPTH_MAX]; /* the groups that have begun and not ended */
	int depth = 0;
	while (reader->at < reader->end) {
		uint64_t tag, number;
		if (!read_varint(reader, &tag))
			return -1;
		number = tag >> 3;
		if (number == 0 || number > NUMBER_MAX)
			return -1;
		field->number = (uint32_t)number;
		if ((tag & 7) == GROUP_BEGINS) {
			if (depth == SL_PB_DEPTH_MAX)
				return -1;
			open[depth++] = field->number;
		} else if ((tag & 7) == GROUP_ENDS) {
			if (depth == 0 || open[--depth] != field->number)
				return -1;
		} else if (!read_value(reader, field, tag & 7)) {
			return -1;
		} else if (depth == 0) {
			return 1;
		}
	}
	return depth == 0 ? 0 : -1;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The bytes of a varint. */
static size_t varint_len(uint64_t value) {
	size_t len = 1;
	for (uint64_t rest = value >> 7; rest != 0; rest >>= 7)
		len++;
	return len;
}

static void store_varint(uint8_t *to, size_t len, uint64_t value) {
	for (size_t i = 0; i + 1 < len; i++, value >>= 7)
		to[i] = (uint8_t)(value | 0x80);
	to[len - 1] = (uint8_t)value;
}

void sl_pb_put_long_head(struct sl_pb_writer *writer, uint64_t tag, uint64_t value) {
	SL_DEBUG_ASSERT(tag >> 3 >= 1 && tag >> 3 <= NUMBER_MAX);
	size_t tag_len = varint_len(tag), value_len = varint_len(value);
	uint8_t *to = sl_pb_room(writer, tag_len + value_len);
	if (to == NULL)
		return;
	store_varint(to, tag_len, tag);
	store_varint(to + tag_len, value_len, value);
}

void sl_pb_put_fixed64(struct sl_pb_writer *writer, uint32_t number, uint64_t value) {
	uint64_t tag = (uint64_t)number << 3 | SL_PB_FIXED64;
	size_t tag_len = varint_len(tag);
	uint8_t *to = sl_pb_room(writer, tag_len + 8);
	if (to == NULL)
		return;
	store_varint(to, tag_len, tag);
	for (int i = 0; i < 8; i++)
		to[tag_len + (size_t)i] = (uint8_t)(value >> 8 * i);
}
