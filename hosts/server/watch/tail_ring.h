/* Lines from one writer to any number of readers who may be too slow: a ring that the writer goes round in without
 * looking at anybody. A reader finds out that what he was copying has been written over, and goes on at the newest.
 *
 *     words   [ ..|head: len, for, for, taken|text|head|text| .. ]      positions count words for ever
 *                 ^ a reader's position                     ^ written       ^ begun: the writer is about to touch
 *                                                                             words below it
 *
 *  R1  A word at position p may have been written over once begun > p + SL_TAIL_RING_WORDS, and not before.
 *  R2  Whoever sees a word that the writer has written over sees `begun` as it was set before that: each word is stored
 *      by release and loaded by acquire. So a reader copies first and asks `begun` afterwards.
 *  R3  A reader who is not told that he was late has copied the line whole.
 *
 * Source: the seqlock, as in Boehm, "Can seqlocks get along with programming language memory models?", 2012. */
#ifndef SL_TAIL_RING_H
#define SL_TAIL_RING_H

#include "hosts/server/watch/record.h"

#include <stdatomic.h>

enum {
	SL_TAIL_READERS_MAX = 128, /* and so at most as many filters: a bit of a mask each */
	SL_TAIL_MASK_WORDS = SL_TAIL_READERS_MAX / 64,
	SL_TAIL_RING_WORDS = 32 * 1024, /* 256 KiB: some 700 lines of the usual length */
};

struct sl_tail_ring {
	_Alignas(64) _Atomic uint64_t begun, written;
	_Atomic uint64_t words[SL_TAIL_RING_WORDS];
};

/* What stands before a line. */
struct sl_tail_head {
	uint32_t len;                      /* of its text, at most SL_RECORD_BYTES_MAX */
	uint64_t mask[SL_TAIL_MASK_WORDS]; /* bit i: the filter i wants it */
	uint64_t taken;                    /* as of which change of the filters */
	sluice_ns now;                     /* when it was decided */
};

/* Appends a line; by the ring's one writer. Some 50 ns for 300 bytes. */
void sl_tail_ring_write(struct sl_tail_ring *ring, const struct sl_tail_head *head, const char *text);

enum sl_tail_read { SL_TAIL_NONE, SL_TAIL_LINE, SL_TAIL_LATE };

/* Copies the line at *at, 0 or what this returned there, and moves *at behind it. SL_TAIL_LATE: it is gone, and *at is
 * moved to the newest. From any thread.
 *  text  SL_RECORD_BYTES_MAX bytes and 7 more */
enum sl_tail_read sl_tail_ring_read(const struct sl_tail_ring *ring, uint64_t *at, struct sl_tail_head *head,
                                    char *text);

/* Behind the newest line. */
static inline uint64_t sl_tail_ring_end(const struct sl_tail_ring *ring) {
	return atomic_load_explicit(&ring->written, memory_order_acquire); /* pairs with sl_tail_ring_write() */
}

#endif
