/* What comes from HAProxy is hostile: each reader looks at how much is there before it takes it, and a number that has
 * more than 64 bits is malformed. Values are text from here on, as attributes are at every door. */
#include "proto/spop.h"

#include "base/assert.h"
#include "policy/address.h"

enum { SET_VAR = 1, SET_VAR_ARGS = 3, SCOPE_TRANSACTION = 2, FLAG_TRUE = 0x10, VARINT_ONE_BYTE = 240 };

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool take(struct sluice_bytes *rest, size_t len, struct sluice_bytes *bytes) {
	if (rest->len < len)
		return false;
	*bytes = sl_slice(rest->data, len);
	*rest = sl_slice((const char *)rest->data + len, rest->len - len);
	return true;
}

bool sl_spop_take_byte(struct sluice_bytes *rest, uint8_t *byte) {
	struct sluice_bytes bytes;
	if (!take(rest, 1, &bytes))
		return false;
	*byte = *(const uint8_t *)bytes.data;
	return true;
}

/* One that has more bits than fit is malformed. */
static bool take_varint(struct sluice_bytes *rest, uint64_t *number) {
	uint8_t byte;
	if (!sl_spop_take_byte(rest, &byte))
		return false;
	*number = byte;
	if (byte < VARINT_ONE_BYTE)
		return true;
	for (unsigned shift = 4; shift < 64; shift += 7) {
		if (!sl_spop_take_byte(rest, &byte))
			return false;
		uint64_t more = (uint64_t)byte << shift;
		if (more >> shift != byte || *number > UINT64_MAX - more)
			return false;
		*number += more;
		if (byte < 128)
			return true;
	}
	return false;
}

bool sl_spop_take_text(struct sluice_bytes *rest, struct sluice_bytes *text) {
	uint64_t len;
	return take_varint(rest, &len) && len <= rest->len && take(rest, (size_t)len, text);
}

bool sl_spop_take_value(struct sluice_bytes *rest, struct sl_spop_value *value) {
	uint8_t byte;
	*value = (struct sl_spop_value){.kind = SL_SPOP_NULL};
	if (!sl_spop_take_byte(rest, &byte))
		return false;
	value->kind = byte & 0x0f;
	switch (value->kind) {
	case SL_SPOP_NULL:
		return true;
	case SL_SPOP_BOOL:
		value->number = (byte & FLAG_TRUE) != 0;
		return true;
	case SL_SPOP_INT32:
	case SL_SPOP_UINT32:
	case SL_SPOP_INT64:
	case SL_SPOP_UINT64:
		return take_varint(rest, &value->number);
	case SL_SPOP_IPV4:
		return take(rest, 4, &value->bytes);
	case SL_SPOP_IPV6:
		return take(rest, 16, &value->bytes);
	case SL_SPOP_STRING:
	case SL_SPOP_BINARY:
		return sl_spop_take_text(rest, &value->bytes);
	default:
		return false;
	}
}

static uint32_t number_at(const char *data) {
	const unsigned char *p = (const unsigned char *)data;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

ptrdiff_t sl_spop_frame_read(struct sl_spop_frame *frame, const char *data, size_t len, uint32_t most) {
	struct sluice_bytes rest, flags;
	if (len < SL_SPOP_LENGTH_BYTES)
		return 0;
	uint32_t size = number_at(data);
	if (size > most)
		return -SL_SPOP_TOO_BIG;
	if (len - SL_SPOP_LENGTH_BYTES < size)
		return 0;
	rest = sl_slice(data + SL_SPOP_LENGTH_BYTES, size);
	if (!sl_spop_take_byte(&rest, &frame->type) || !take(&rest, 4, &flags) || !take_varint(&rest, &frame->stream) ||
	    !take_varint(&rest, &frame->frame))
		return -SL_SPOP_INVALID;
	frame->flags = number_at(flags.data);
	frame->payload = rest;
	return (ptrdiff_t)size + SL_SPOP_LENGTH_BYTES;
}

/* ---- values as text --------------------------------------------------------------------------------------------- */

static bool is_negative(const struct sl_spop_value *value) {
	return (value->kind == SL_SPOP_INT32 || value->kind == SL_SPOP_INT64) && value->number > INT64_MAX;
}

static size_t print_address(struct sluice_bytes bytes, char memory[SL_ADDRESS_TEXT_MAX]) {
	struct sl_address address = {.bytes = {[10] = 0xff, [11] = 0xff}};
	memcpy(address.bytes + sizeof address.bytes - bytes.len, bytes.data, bytes.len);
	return sl_address_print(&address, memory);
}

struct sluice_bytes sl_spop_text(const struct sl_spop_value *value, char memory[SL_SPOP_TEXT_MAX]) {
	struct sl_out out = sl_out_to(memory, SL_SPOP_TEXT_MAX);
	switch (value->kind) {
	case SL_SPOP_NULL:
		return sl_slice(NULL, 0);
	case SL_SPOP_STRING:
	case SL_SPOP_BINARY:
		return value->bytes;
	case SL_SPOP_BOOL:
		return sl_str(value->number != 0 ? "true" : "false");
	case SL_SPOP_IPV4:
	case SL_SPOP_IPV6:
		return sl_slice(memory, print_address(value->bytes, memory));
	default:
		if (is_negative(value))
			sl_out_i64(&out, (int64_t)value->number);
		else
			sl_out_u64(&out, value->number);
	}
	SL_ASSERT(!out.overflow);
	return sl_slice(memory, sl_out_len(&out));
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void put_varint(struct sl_out *out, uint64_t number) {
	if (number < VARINT_ONE_BYTE) {
		sl_out_char(out, (char)number);
		return;
	}
	sl_out_char(out, (char)(number | VARINT_ONE_BYTE));
	number = (number - VARINT_ONE_BYTE) >> 4;
	for (; number >= 128; number = (number - 128) >> 7)
		sl_out_char(out, (char)(number | 128));
	sl_out_char(out, (char)number);
}

static void write_number(char *at, uint32_t number) {
	for (int i = 0; i < 4; i++)
		at[i] = (char)(number >> (24 - 8 * i));
}

char *sl_spop_begin(struct sl_out *out, enum sl_spop_type type, uint64_t stream, uint64_t frame) {
	char *start = out->at, fixed[SL_SPOP_LENGTH_BYTES + 5] = {0};
	fixed[SL_SPOP_LENGTH_BYTES] = (char)type;
	write_number(fixed + SL_SPOP_LENGTH_BYTES + 1, SL_SPOP_FIN);
	sl_out_bytes(out, fixed, sizeof fixed);
	put_varint(out, stream);
	put_varint(out, frame);
	return start;
}

void sl_spop_end(struct sl_out *out, char *start) {
	if (!out->overflow)
		write_number(start, (uint32_t)(out->at - start - SL_SPOP_LENGTH_BYTES));
}

void sl_spop_put_text(struct sl_out *out, struct sluice_bytes text) {
	put_varint(out, text.len);
	sl_out_bytes(out, text.data, text.len);
}

void sl_spop_put_pair_text(struct sl_out *out, const char *name, const char *text) {
	sl_spop_put_text(out, sl_str(name));
	sl_out_char(out, SL_SPOP_STRING);
	sl_spop_put_text(out, sl_str(text));
}

void sl_spop_put_pair_u32(struct sl_out *out, const char *name, uint32_t number) {
	sl_spop_put_text(out, sl_str(name));
	sl_out_char(out, SL_SPOP_UINT32);
	put_varint(out, number);
}

static void begin_set(struct sl_out *out, const char *name) {
	static const char head[] = {SET_VAR, SET_VAR_ARGS, SCOPE_TRANSACTION};
	sl_out_bytes(out, head, sizeof head);
	sl_spop_put_text(out, sl_str(name));
}

void sl_spop_set_bool(struct sl_out *out, const char *name, bool value) {
	begin_set(out, name);
	sl_out_char(out, (char)(SL_SPOP_BOOL | (value ? FLAG_TRUE : 0)));
}

void sl_spop_set_number(struct sl_out *out, const char *name, int64_t value) {
	begin_set(out, name);
	sl_out_char(out, SL_SPOP_INT64);
	put_varint(out, (uint64_t)value);
}

void sl_spop_set_text(struct sl_out *out, const char *name, struct sluice_bytes text) {
	begin_set(out, name);
	sl_out_char(out, SL_SPOP_STRING);
	sl_spop_put_text(out, text);
}
