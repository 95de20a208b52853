/* A value as bytes, for RDB files, DUMP and the append-only file; and the reader and writer that effects share.
 *
 *   value   := version u8 (1, 2, 3, 4, 5) | count u32 | count counters
 *   counter := kind u64 | name u64 | w0 u64 | w1 u64 | until i64, wall ms | block bytes u32 | block
 *              | holds u32 | holds | rate u32 (from version 3 on)
 *   hold    := id u64 | end u64, ns | cost u32 | lease u32
 *
 * Version 2 has what 1 had not: leases, members, windows of the calendar, and companions of counters (companion.h). 3
 * has the rates that buckets of a name drain by; read from 1 or 2, or 0, they are those of whoever asks. 4
 * has ledgers with bundles, and their contents (algo/bundle.h). 5 has quotas of keys' own (own_quota.h). A value is
 * written in the least version that has all of it, so that nodes of several versions understand each other while one
 * is replaced.
 *
 * Numbers are little-endian. The host's 32 bits of w1 are 0. Whatever is read is checked before it is believed: the
 * identity is one that a limit can have, the block is what its algorithm could have written, holds are in order. */
#ifndef SLR_CODEC_H
#define SLR_CODEC_H

#include "hosts/redis/value.h"

enum {
	SLR_CODEC_VERSION_OLD = 1,
	SLR_CODEC_VERSION_RATELESS = 2,
	SLR_CODEC_VERSION_RATES = 3,
	SLR_CODEC_VERSION_BUNDLES = 4,
	SLR_CODEC_VERSION = 5,
};

/* Bytes that grow as they are written. Zeroed it is empty. */
struct slr_bytes {
	unsigned char *data;
	size_t len, room;
};

/* Appends bytes; and numbers, little-endian. Amortised O(len). */
void slr_bytes_add(struct slr_bytes *bytes, const void *data, size_t len);
void slr_bytes_u32(struct slr_bytes *bytes, uint32_t value);
void slr_bytes_u64(struct slr_bytes *bytes, uint64_t value);

/* Gives the memory back; empty again. */
void slr_bytes_free(struct slr_bytes *bytes);

/* Bytes being read: `failed` once more was asked for than there is, and everything after that reads as 0. */
struct slr_reader {
	const unsigned char *at, *end;
	bool failed;
};

/* The next `len` bytes, NULL once there are not as many; and the next numbers, 0 then. */
const void *slr_read(struct slr_reader *reader, size_t len);
uint32_t slr_read_u32(struct slr_reader *reader);
uint64_t slr_read_u64(struct slr_reader *reader);

/* Appends one counter, but for its rate. */
void slr_write_counter(struct slr_bytes *bytes, const struct slr_counter *counter, int64_t until_ms);

/* Reads one counter, as values of a version have it, into a value that has none of this identity: false, and the value
 * as it was, where the bytes are no counter that this code could have written. */
SLUICE_MUST_USE bool slr_read_counter(struct slr_reader *reader, uint64_t version, slr_value *value);

/* Appends the holds of a counter; and reads such into `holds`, NULL for none. False: they are none. */
void slr_write_holds(struct slr_bytes *bytes, const struct slr_holds *holds);
SLUICE_MUST_USE bool slr_read_holds(struct slr_reader *reader, struct slr_holds **holds);

/* Appends a whole value. */
void slr_write_value(struct slr_bytes *bytes, slr_value value);

/* Reads a whole value, all of `bytes`: the value, or 0 when they are none that this code, or an older one, has
 * written. */
slr_value slr_read_value(struct sluice_bytes bytes);

#endif
