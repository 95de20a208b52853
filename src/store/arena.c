/* The arena: formatting, attaching, verifying. See layout.h for its bytes.
 *
 * The memory comes from outside (private, shared, a file: os/map); here are only the sums of what goes where. */
#include "base/assert.h"
#include "store/store.h"

/* How an arena of a size is divided: blocks take their share, the map a 64th of that, pages what is left. */
static void divide(struct sl_header *header, uint64_t bytes, uint32_t blocks_percent) {
	uint64_t blocks = bytes / 100 * blocks_percent;
	header->unit_count = blocks / (SL_UNIT_BYTES + 1);
	header->page_count = (bytes - SL_PAGE_BYTES - header->unit_count * (SL_UNIT_BYTES + 1)) / SL_PAGE_BYTES;
	header->blocks_offset = SL_PAGE_BYTES + header->page_count * SL_PAGE_BYTES;
	header->map_offset = header->blocks_offset + header->unit_count * SL_UNIT_BYTES;
	SL_ASSERT(header->map_offset + header->unit_count <= bytes);
}

sluice_err sl_arena_format(void *memory, uint64_t bytes, uint32_t blocks_percent, const uint64_t secret[2]) {
	struct sl_header *header = memory;
	struct sluice_store store;
	if (bytes < SL_ARENA_BYTES_MIN || bytes > SL_ARENA_BYTES_MAX || blocks_percent < 1 || blocks_percent > 90)
		return SLUICE_E_RANGE;
	header->version = SL_ARENA_VERSION;
	header->header_bytes = sizeof *header;
	header->arena_bytes = bytes;
	header->secret[0] = secret[0];
	header->secret[1] = secret[1];
	divide(header, bytes, blocks_percent);
	sl_arena_attach(&store, memory);
	sl_blocks_format(&store);
	header->magic = SL_ARENA_MAGIC;
	return SLUICE_OK;
}

void sl_arena_attach(struct sluice_store *store, void *memory) {
	struct sl_header *header = memory;
	*store = (struct sluice_store){
		.header = header,
		.pages = (struct sl_page *)(void *)((uint8_t *)memory + SL_PAGE_BYTES),
		.units = (uint8_t *)memory + header->blocks_offset,
		.map = (uint8_t *)memory + header->map_offset,
		.page_count = header->page_count,
		.secret = {header->secret[0], header->secret[1]},
		.arena_bytes = header->arena_bytes,
	};
}

const void *sl_store_arena(const struct sluice_store *store, size_t *bytes) {
	*bytes = store->arena_bytes;
	return store->header;
}

/* One slot: its home's spill bit names its bucket, its fingerprint is there once, its block is a taken one. */
static const char *verify_slot(const struct sluice_store *store, const struct sl_page *page, unsigned at,
                               const struct sl_slot *slot, uint64_t *blocks) {
	unsigned home = slot->tag >> 8 & (SL_PAGE_BUCKETS - 1);
	struct sl_place place = {(struct sl_bucket *)&page->buckets[home], slot->tag & ~(uint64_t)255};
	uint32_t block = (uint32_t)slot->state[1];
	if (slot->tag >> 14 == 0)
		return "a slot in use has no fingerprint";
	if (at != home && !(page->buckets[home].spill >> at & 1))
		return "a spilled slot is in a bucket that its home does not name";
	if (sl_slot_find(&place) != slot)
		return "a counter stands in two slots";
	if (!(slot->tag >> 13 & 1) || block == 0)
		return NULL;
	if (block >= store->header->unit_count || store->map[block] == 0 || store->map[block] >= 0x80)
		return "a slot refers to a block that is not taken";
	++*blocks;
	return NULL;
}

static uint64_t taken_blocks(const struct sluice_store *store) {
	uint64_t taken = 0;
	for (uint64_t unit = 1; unit < store->header->unit_count; unit++)
		taken += store->map[unit] != 0 && store->map[unit] < 0x80;
	return taken;
}

const char *sl_store_verify(const struct sluice_store *store) {
	uint64_t blocks = 0;
	const char *wrong = sl_blocks_verify(store);
	for (uint64_t p = 0; p < store->page_count && wrong == NULL; p++)
		for (unsigned at = 0; at < SL_PAGE_BUCKETS && wrong == NULL; at++) {
			const struct sl_bucket *bucket = &store->pages[p].buckets[at];
			if (bucket->lock != 0)
				wrong = "a bucket is locked";
			for (int i = 0; i < SL_BUCKET_SLOTS && wrong == NULL; i++)
				if (bucket->slots[i].tag != 0)
					wrong = verify_slot(store, &store->pages[p], at, &bucket->slots[i], &blocks);
		}
	if (wrong == NULL && blocks != taken_blocks(store))
		wrong = "a taken block is referred to by no slot, or by two";
	return wrong;
}
