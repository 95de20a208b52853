/* The wire format of Protocol Buffers: fields off bytes, and onto them (protobuf.dev/programming-guides/encoding).
 *
 *   field = tag value      tag = varint of number << 3 | kind
 *   kind 0: varint   1: 8 bytes   2: varint of a length, so many bytes   3, 4: a group begins, ends   5: 4 bytes
 *
 * A reader owns nothing and copies nothing. A writer fills its memory from the end to the front: the length that stands
 * before a message is known when the message is written, so nothing is measured first or moved later.
 *
 *   memory   [.................... free ....................|tag len|message]
 *                                                           ^ at            ^ end */
#ifndef SL_PROTOBUF_H
#define SL_PROTOBUF_H

#include "base/assert.h"
#include "base/bytes.h"

enum sl_pb_kind { SL_PB_VARINT = 0, SL_PB_FIXED64 = 1, SL_PB_BYTES = 2, SL_PB_FIXED32 = 5 };

enum { SL_PB_DEPTH_MAX = 32 }; /* groups within groups, which nobody has sent for ten years: more are malformed */

struct sl_pb_reader {
	const uint8_t *at, *end;
};

struct sl_pb_field {
	uint32_t number; /* 1..2^29-1 */
	enum sl_pb_kind kind;
	uint64_t value;            /* of a varint or a fixed one; of SL_PB_BYTES their length */
	struct sluice_bytes bytes; /* of SL_PB_BYTES: within what is read */
};

static inline struct sl_pb_reader sl_pb_read(struct sluice_bytes message) {
	const uint8_t *at = message.data;
	return (struct sl_pb_reader){at, message.len == 0 ? at : at + message.len};
}

/* The next field: 1; 0 at the end; -1 for bytes that are no field: a varint that is cut or of more than 64 bits, a
 * length beyond the end, number 0 or too large, kinds 6 and 7. Groups are passed over, those that don't end are
 * malformed. O(bytes of the field). */
int sl_pb_next(struct sl_pb_reader *reader, struct sl_pb_field *field);

/* Is it this field, of this kind? One of another kind than the message says is unknown, and passed over. */
static inline bool sl_pb_is(const struct sl_pb_field *field, uint32_t number, enum sl_pb_kind kind) {
	return field->number == number && field->kind == kind;
}

struct sl_pb_writer {
	uint8_t *start, *at, *end;
	bool overflow; /* something did not fit: what is written is of no use */
};

static inline struct sl_pb_writer sl_pb_write(void *memory, size_t bytes) {
	uint8_t *p = memory;
	return (struct sl_pb_writer){p, p + bytes, p + bytes, false};
}

/* What is written so far: the last bytes of the memory. */
static inline struct sluice_bytes sl_pb_written(const struct sl_pb_writer *writer) {
	return sl_slice(writer->at, (size_t)(writer->end - writer->at));
}

/* Makes room for so many bytes before what is written; NULL where there is none. */
static inline uint8_t *sl_pb_room(struct sl_pb_writer *writer, size_t len) {
	SL_DEBUG_ASSERT(writer->start <= writer->at && writer->at <= writer->end);
	if ((size_t)(writer->at - writer->start) < len) {
		writer->overflow = true;
		return NULL;
	}
	writer->at -= len;
	return writer->at;
}

/* Puts bytes before what is written so far: a part of a text, or fields that are written already. */
static inline void sl_pb_put_raw(struct sl_pb_writer *writer, struct sluice_bytes bytes) {
	uint8_t *to = sl_pb_room(writer, bytes.len);
	if (to != NULL && bytes.len != 0)
		memcpy(to, bytes.data, bytes.len);
}

/* A tag and the varint after it, of any length. */
void sl_pb_put_long_head(struct sl_pb_writer *writer, uint64_t tag, uint64_t value);

/* The same: two bytes where the number is below 16 and the value below 128, as nearly all are. */
static inline void sl_pb_put_head(struct sl_pb_writer *writer, uint32_t number, enum sl_pb_kind kind, uint64_t value) {
	uint64_t tag = (uint64_t)number << 3 | (uint64_t)kind;
	if ((tag | value) >= 0x80 || writer->at - writer->start < 2) {
		sl_pb_put_long_head(writer, tag, value);
		return;
	}
	writer->at -= 2;
	writer->at[0] = (uint8_t)tag;
	writer->at[1] = (uint8_t)value;
}

/* Each puts one field before what is written so far: the last field of a message is to be written first. */
static inline void sl_pb_put_varint(struct sl_pb_writer *writer, uint32_t number, uint64_t value) {
	sl_pb_put_head(writer, number, SL_PB_VARINT, value);
}
static inline void sl_pb_put_bytes(struct sl_pb_writer *writer, uint32_t number, struct sluice_bytes bytes) {
	sl_pb_put_raw(writer, bytes);
	sl_pb_put_head(writer, number, SL_PB_BYTES, bytes.len);
}
void sl_pb_put_fixed64(struct sl_pb_writer *writer, uint32_t number, uint64_t value);

/* A varint and bytes that are left out where they are 0 or empty, as proto3 has it. */
static inline void sl_pb_put_u64(struct sl_pb_writer *writer, uint32_t number, uint64_t value) {
	if (value != 0)
		sl_pb_put_varint(writer, number, value);
}
static inline void sl_pb_put_text(struct sl_pb_writer *writer, uint32_t number, struct sluice_bytes text) {
	if (text.len != 0)
		sl_pb_put_bytes(writer, number, text);
}

/* A message within: note where it ends, write its fields, close it. */
static inline const uint8_t *sl_pb_message_end(const struct sl_pb_writer *writer) {
	return writer->at;
}
static inline void sl_pb_message_begin(struct sl_pb_writer *writer, uint32_t number, const uint8_t *end) {
	SL_ASSERT(end >= writer->at && end <= writer->end);
	sl_pb_put_head(writer, number, SL_PB_BYTES, (uint64_t)(end - writer->at));
}

#endif
