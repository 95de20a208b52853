/* See tail_ring.h. */
#include "hosts/server/watch/tail_ring.h"

#include "base/assert.h"

/* len, mask, taken, now */
enum { HEAD_WORDS = 3 + SL_TAIL_MASK_WORDS };

_Static_assert((SL_TAIL_RING_WORDS & (SL_TAIL_RING_WORDS - 1)) == 0, "a place is a position's lower bits");
_Static_assert(SL_TAIL_RING_WORDS > 4 * (HEAD_WORDS + SL_RECORD_BYTES_MAX / 8 + 1), "a ring has room for some lines");

static size_t words_of(size_t len) {
	return (len + 7) / 8;
}

static void store(struct sl_tail_ring *ring, uint64_t at, uint64_t word) {
	/* release: after `begun`, see R2; pairs with load() */
	atomic_store_explicit(&ring->words[at % SL_TAIL_RING_WORDS], word, memory_order_release);
}

static uint64_t load(const struct sl_tail_ring *ring, uint64_t at) {
	return atomic_load_explicit(&ring->words[at % SL_TAIL_RING_WORDS], memory_order_acquire);
}

void sl_tail_ring_write(struct sl_tail_ring *ring, const struct sl_tail_head *head, const char *text) {
	uint64_t at = atomic_load_explicit(&ring->written, memory_order_relaxed), word; /* ours alone */
	size_t len = head->len, whole = len / 8;
	SL_ASSERT(len <= SL_RECORD_BYTES_MAX);
	atomic_store_explicit(&ring->begun, at + HEAD_WORDS + words_of(len), memory_order_relaxed);
	store(ring, at++, len);
	for (int i = 0; i < SL_TAIL_MASK_WORDS; i++)
		store(ring, at++, head->mask[i]);
	store(ring, at++, head->taken);
	store(ring, at++, head->now);
	for (size_t i = 0; i < whole; i++) {
		memcpy(&word, text + 8 * i, 8);
		store(ring, at++, word);
	}
	if (len % 8 != 0) {
		word = 0;
		memcpy(&word, text + 8 * whole, len % 8);
		store(ring, at++, word);
	}
	/* release: the line is whole; pairs with sl_tail_ring_end() */
	atomic_store_explicit(&ring->written, at, memory_order_release);
}

/* May what was loaded from a position on have been written over? To be asked after it was. */
static bool is_late(const struct sl_tail_ring *ring, uint64_t at) {
	return atomic_load_explicit(&ring->begun, memory_order_relaxed) - at > SL_TAIL_RING_WORDS;
}

static enum sl_tail_read late(uint64_t *at, uint64_t end) {
	*at = end;
	return SL_TAIL_LATE;
}

enum sl_tail_read sl_tail_ring_read(const struct sl_tail_ring *ring, uint64_t *at, struct sl_tail_head *head,
                                    char *text) {
	uint64_t end = sl_tail_ring_end(ring), from = *at, word;
	if (from == end)
		return SL_TAIL_NONE;
	uint64_t len = load(ring, from);
	for (int i = 0; i < SL_TAIL_MASK_WORDS; i++)
		head->mask[i] = load(ring, from + 1 + (uint64_t)i);
	head->taken = load(ring, from + 1 + SL_TAIL_MASK_WORDS);
	head->now = load(ring, from + 2 + SL_TAIL_MASK_WORDS);
	if (is_late(ring, from)) /* before `len` is believed */
		return late(at, end);
	SL_ASSERT(len <= SL_RECORD_BYTES_MAX);
	head->len = (uint32_t)len;
	for (size_t i = 0; i < words_of(len); i++) {
		word = load(ring, from + HEAD_WORDS + i);
		memcpy(text + 8 * i, &word, 8);
	}
	if (is_late(ring, from))
		return late(at, end);
	*at = from + HEAD_WORDS + words_of(len);
	return SL_TAIL_LINE;
}
