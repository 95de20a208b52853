/* Frames of HAProxy's Stream Processing Offload Protocol 2.0 (SPOE.txt, part 3), as an agent reads and writes them.
 *
 *   frame    = length u32 | type u8 | flags u32 | stream varint | frame varint | payload      numbers big-endian
 *   payload  = pairs (HELLO, DISCONNECT) | messages (NOTIFY) | actions (ACK)
 *   message  = name | count u8 | pairs      pair = name | value      name = varint length, bytes
 *   value    = u8: type in the low half, flags in the high half | what the type has
 *   varint   < 240: one byte; else 4 bits in the first one, 7 in each of the others
 *
 * Readers take from the front of `rest` and return false, where that is malformed, leaving it wherever it is. */
#ifndef SL_SPOP_H
#define SL_SPOP_H

#include "base/out.h"
#include "policy/address.h"

enum sl_spop_type {
	SL_SPOP_UNSET = 0, /* what follows of a payload in pieces */
	SL_SPOP_HAPROXY_HELLO = 1,
	SL_SPOP_HAPROXY_DISCONNECT = 2,
	SL_SPOP_NOTIFY = 3,
	SL_SPOP_AGENT_HELLO = 101,
	SL_SPOP_AGENT_DISCONNECT = 102,
	SL_SPOP_ACK = 103,
};

enum { SL_SPOP_FIN = 1, SL_SPOP_ABORT = 2 };

/* Why a connection ends (SPOE.txt, 3.5). */
enum sl_spop_status {
	SL_SPOP_NORMAL = 0,
	SL_SPOP_TOO_BIG = 3,
	SL_SPOP_INVALID = 4,
	SL_SPOP_NO_VERSION = 5,
	SL_SPOP_NO_FRAME_SIZE = 6,
	SL_SPOP_NO_CAPABILITIES = 7,
	SL_SPOP_BAD_VERSION = 8,
	SL_SPOP_BAD_FRAME_SIZE = 9,
	SL_SPOP_FRAGMENTED = 10,
	SL_SPOP_NO_MEMORY = 13,
	SL_SPOP_UNKNOWN = 99,
};

enum {
	SL_SPOP_LENGTH_BYTES = 4,
	SL_SPOP_FRAME_MIN = 256,       /* the least `max-frame-size` that may be agreed on */
	SL_SPOP_FRAME_MAX = 64 * 1024, /* the most that we agree on */
	SL_SPOP_VARINT_BYTES_MAX = 10,
	SL_SPOP_HEAD_BYTES_MAX = SL_SPOP_LENGTH_BYTES + 5 + 2 * SL_SPOP_VARINT_BYTES_MAX,
};

struct sl_spop_frame {
	uint8_t type; /* enum sl_spop_type, or any other */
	uint32_t flags;
	uint64_t stream, frame;
	struct sluice_bytes payload; /* points into what was read */
};

/* Reads a frame off the front of `len` bytes. Returns how many bytes it has; 0: not all of it is there; or, negative,
 * the sl_spop_status with which the connection ends: a frame longer than `most`, or one that is malformed. */
ptrdiff_t sl_spop_frame_read(struct sl_spop_frame *frame, const char *data, size_t len, uint32_t most);

enum sl_spop_kind {
	SL_SPOP_NULL = 0,
	SL_SPOP_BOOL = 1,
	SL_SPOP_INT32 = 2,
	SL_SPOP_UINT32 = 3,
	SL_SPOP_INT64 = 4,
	SL_SPOP_UINT64 = 5,
	SL_SPOP_IPV4 = 6,
	SL_SPOP_IPV6 = 7,
	SL_SPOP_STRING = 8,
	SL_SPOP_BINARY = 9,
};

struct sl_spop_value {
	uint8_t kind;              /* enum sl_spop_kind */
	uint64_t number;           /* of booleans 0 and 1; of signed integers in two's complement */
	struct sluice_bytes bytes; /* of strings, binaries and addresses (4 and 16 bytes); points into what was read */
};

/* Takes a text, a byte, a value; false where less is there, or it is malformed. Texts point into `rest`. Some ns. */
SLUICE_MUST_USE bool sl_spop_take_text(struct sluice_bytes *rest, struct sluice_bytes *text);
SLUICE_MUST_USE bool sl_spop_take_byte(struct sluice_bytes *rest, uint8_t *byte);
SLUICE_MUST_USE bool sl_spop_take_value(struct sluice_bytes *rest, struct sl_spop_value *value);

/* The room that a value's text takes at most, where it is not in the frame: that of an address or a number. */
enum { SL_SPOP_TEXT_MAX = SL_ADDRESS_TEXT_MAX };
/* A value as text: a string as it is, a number in decimal, an address as usual, a boolean as "true" or "false"; data
 * NULL for SL_SPOP_NULL. */
struct sluice_bytes sl_spop_text(const struct sl_spop_value *value, char memory[SL_SPOP_TEXT_MAX]);

/* ---- writing ---- */

/* Begins a frame that is whole (FIN), and ends it: its length is filled in at `start`, which sl_spop_begin() has
 * returned. */
char *sl_spop_begin(struct sl_out *out, enum sl_spop_type type, uint64_t stream, uint64_t frame);
void sl_spop_end(struct sl_out *out, char *start);

/* A text with its length before it. */
void sl_spop_put_text(struct sl_out *out, struct sluice_bytes text);
/* A pair of HELLO and DISCONNECT. */
void sl_spop_put_pair_text(struct sl_out *out, const char *name, const char *text);
void sl_spop_put_pair_u32(struct sl_out *out, const char *name, uint32_t number);

/* What an ACK has HAProxy do: set a variable of the transaction. About 20 bytes each. */
void sl_spop_set_bool(struct sl_out *out, const char *name, bool value);
void sl_spop_set_number(struct sl_out *out, const char *name, int64_t value);
void sl_spop_set_text(struct sl_out *out, const char *name, struct sluice_bytes text);

#endif
