/* A dump: a store's counters as a stream of bytes, for a copy beside a running server, or for another machine.
 *
 * Every number is a little-endian u64. The states are numbers; what stands in blocks is in the byte order of the
 * machine that wrote it, and one of another order refuses the dump.
 *
 *   header   SL_DUMP_WORDS numbers: see enum. The last is a check of those before
 *   frames   bytes, count, check, then `bytes` of `count` records; bytes is a multiple of 8
 *     record  hash, tag, state, state, block_bytes, then the block, filled up with zeros to a multiple of 8
 *   end      a frame of count 0 and 16 bytes: how many records there were, and an instant that none of them is past
 *
 * A frame's check is SipHash-1-3 of bytes, count and what follows, keyed by the check before it: a frame that is
 * changed, missing or in another place is found where it stands. It guards against accidents, not against a forger: who
 * can write dumps can write counters. A dump holds the store's secret: keep it as the store's file is kept. */
#ifndef SL_CLI_DUMP_H
#define SL_CLI_DUMP_H

#include "base/siphash.h"
#include "hosts/cli/cli.h"
#include "store/store.h"

#include <endian.h>

#define SL_DUMP_MAGIC UINT64_C(0x0a31706d75446c53) /* "SlDump1\n" */

enum {
	SL_DUMP_AT_MAGIC,
	SL_DUMP_AT_VERSION, /* of this format */
	SL_DUMP_AT_ORDER,   /* of bytes in blocks: 1 little-endian, 2 big-endian */
	SL_DUMP_AT_ARENA,   /* version of the arena, and so of states and blocks */
	SL_DUMP_AT_BYTES,   /* of the arena that was dumped */
	SL_DUMP_AT_PERCENT,
	SL_DUMP_AT_TOP_BITS, /* hash_top_bits: how much of its hash a counter is known by */
	SL_DUMP_AT_SECRET,
	SL_DUMP_AT_ANCHORS = SL_DUMP_AT_SECRET + 2, /* both, word by word */
	SL_DUMP_AT_LATEST = SL_DUMP_AT_ANCHORS + 2 * sizeof(struct sl_anchor) / 8,
	SL_DUMP_AT_FORMATTED, /* when the store was created */
	SL_DUMP_AT_TAKEN,     /* the instant of the dump, by the store's clock: what had expired by then is not in it */
	SL_DUMP_AT_CHECK,
	SL_DUMP_WORDS,
};

enum {
	SL_DUMP_VERSION = 1,
	SL_DUMP_FRAME_BYTES = 256 * 1024, /* a frame is ended when it has so many */
	SL_DUMP_FRAME_WORDS = 3,
	SL_DUMP_RECORD_WORDS = 5,
	SL_DUMP_END_BYTES = 16,
	SL_DUMP_ORDER = __BYTE_ORDER == __LITTLE_ENDIAN ? 1 : 2,
};

/* The check of a frame, or (bytes and count 0) of a header, after the check before it. */
static inline uint64_t sl_dump_check(uint64_t before, uint64_t bytes, uint64_t count, struct sluice_bytes body) {
	const uint64_t key[2] = {before, SL_DUMP_MAGIC}, words[2] = {bytes, count};
	return sl_siphash(key, words, 2, body, 1, 3);
}

/* What became of a store's counters. */
struct sl_dump_figures {
	uint64_t counters; /* dumped */
	uint64_t torn;     /* left out, as no store could have them */
};

/* Writes a dump of a store beside its users to a descriptor. SL_GO_ON with *figures, or SL_EXIT_FAILED after saying
 * why. */
int sl_dump_write(const struct sl_verb *verb, struct sluice_store *store, int fd, struct sl_dump_figures *figures);

struct sl_dump_options {
	uint64_t bytes;   /* of the new store; 0: as it was */
	uint32_t percent; /* 0: as it was */
	bool force;       /* also when some counters find no room */
};

/* Makes a store's file from a dump. SL_GO_ON with what became of the counters, or SL_EXIT_FAILED after saying why, no
 * file left. */
int sl_dump_load(const struct sl_verb *verb, int fd, const char *path, const struct sl_dump_options *options,
                 uint64_t *kept, uint64_t *lost);

#endif
