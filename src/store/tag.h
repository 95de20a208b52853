/* The bits of a slot's tag; layout.h says what they are. */
#ifndef SL_TAG_H
#define SL_TAG_H

#include "base/life.h"
#include "store/layout.h"

static inline uint64_t sl_tag_home(uint64_t tag) {
	return tag >> SL_TAG_HOME_SHIFT & (SL_PAGE_BUCKETS - 1);
}

static inline uint64_t sl_tag_use(uint64_t tag) {
	return tag >> SL_TAG_USE_SHIFT & (SL_USES - 1);
}

/* Start and use. */
static inline uint64_t sl_tag_marks(uint64_t tag) {
	return tag >> SL_TAG_USE_SHIFT & ((1 << (SL_TAG_HOME_SHIFT - SL_TAG_USE_SHIFT)) - 1);
}

static inline bool sl_tag_has_block(uint64_t tag) {
	return tag >> SL_TAG_BLOCK_SHIFT & 1;
}

static inline bool sl_tag_matches(uint64_t slot_tag, uint64_t tag) {
	return (slot_tag ^ tag) >> SL_TAG_HOME_SHIFT == 0;
}

/* The units of 2^19 ns that the lifetime of a tag (not FRESH) stands for. */
static inline uint64_t sl_life_units(uint64_t tag) {
	return sl_life_units_of(tag & SL_LIFE_FRESH);
}

/* The instant at which a slot of this tag, with this first word of its state, has expired; saturates. */
static inline sluice_ns sl_slot_end(uint64_t word, uint64_t tag) {
	uint64_t coarse = (word >> SL_COARSE_SHIFT) + sl_life_units(tag) + 1;
	return coarse < UINT64_MAX >> SL_COARSE_SHIFT ? coarse << SL_COARSE_SHIFT : UINT64_MAX;
}

#endif
