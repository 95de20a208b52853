/* The arena: formatting, attaching, refusing. See layout.h for its bytes.
 *
 * The memory comes from outside (private, shared, a file: os/map); here are only the sums of what goes where. */
#include "base/assert.h"
#include "store/blocks.h"
#include "store/store.h"

enum { PAGE_CELLS = 4 }; /* of the sketch: 3 % */

/* How an arena of a size is divided: blocks take their share, the map a 64th of that, pages and sketch what is left. */
static void divide(struct sl_header *header, uint64_t bytes, uint32_t blocks_percent) {
	uint64_t room = bytes - SL_PAGES_OFFSET, page_bytes = SL_PAGE_BYTES + PAGE_CELLS * sizeof(struct sl_sketch_cell);
	header->arena_bytes = bytes;
	header->blocks_percent = blocks_percent;
	/* a multiple of 64, so that the blocks begin on a line of memory */
	header->unit_count = room / 100 * blocks_percent / (SL_UNIT_BYTES + 1) / SL_UNIT_BYTES * SL_UNIT_BYTES;
	header->page_count = (room - header->unit_count * (SL_UNIT_BYTES + 1)) / page_bytes;
	header->cell_count = header->page_count * PAGE_CELLS;
	header->sketch_offset = SL_PAGES_OFFSET + header->page_count * SL_PAGE_BYTES;
	header->map_offset = header->sketch_offset + header->cell_count * sizeof(struct sl_sketch_cell);
	header->blocks_offset = header->map_offset + header->unit_count;
	SL_ASSERT(header->blocks_offset + header->unit_count * SL_UNIT_BYTES <= bytes);
	SL_ASSERT(header->page_count != 0 && header->unit_count != 0 && header->blocks_offset % SL_UNIT_BYTES == 0);
}

/* As many as the page can tell. */
static uint32_t top_bits_for(uint64_t page_count) {
	return (uint32_t)sl_min(63 - (unsigned)__builtin_clzll(page_count), SL_HASH_TOP_BITS_MAX);
}

/* Of what stands between the magic number, which is written after it, and the check itself. */
static uint64_t check_of(const struct sl_header *header) {
	const uint64_t key[2] = {SL_ARENA_MAGIC, SL_ARENA_VERSION};
	const size_t from = offsetof(struct sl_header, version);
	return sl_siphash(key, NULL, 0, sl_slice((const char *)header + from, offsetof(struct sl_header, check) - from), 1,
	                  3);
}

static void format(struct sl_header *header, uint64_t bytes, uint32_t blocks_percent) {
	struct sluice_store store;
	header->version = SL_ARENA_VERSION;
	header->header_bytes = sizeof *header;
	divide(header, bytes, blocks_percent);
	sl_arena_attach(&store, header);
	sl_blocks_rebuild(&store);
	SL_ASSERT(store.page_count == header->page_count && store.unit_count == header->unit_count);
	header->check = check_of(header);
	/* release: last, so that an arena of which the making was cut short is none */
	__atomic_store_n(&header->magic, SL_ARENA_MAGIC, __ATOMIC_RELEASE);
}

uint64_t sl_arena_overrides_most(uint64_t bytes, uint32_t blocks_percent) {
	struct sl_header header;
	SL_ASSERT(bytes >= SL_ARENA_BYTES_MIN);
	divide(&header, bytes, blocks_percent);
	return sl_overrides_most(header.page_count, header.unit_count);
}

static bool size_is_possible(uint64_t bytes, uint32_t blocks_percent) {
	return bytes >= SL_ARENA_BYTES_MIN && bytes <= SL_ARENA_BYTES_MAX && bytes % SL_PAGE_BYTES == 0 &&
	       blocks_percent >= 1 && blocks_percent <= SL_BLOCKS_PERCENT_MAX;
}

sluice_err sl_arena_format(void *memory, uint64_t bytes, uint32_t blocks_percent, const uint64_t secret[2],
                           sluice_ns wall_ns) {
	struct sl_header *header = memory;
	if (!size_is_possible(bytes, blocks_percent))
		return SLUICE_E_RANGE;
	header->secret[0] = secret[0];
	header->secret[1] = secret[1];
	header->formatted_ns = wall_ns;
	divide(header, bytes, blocks_percent);
	header->hash_top_bits = top_bits_for(header->page_count);
	format(header, bytes, blocks_percent);
	return SLUICE_OK;
}

sluice_err sl_arena_format_like(void *memory, uint64_t bytes, uint32_t blocks_percent, const struct sl_header *like) {
	struct sl_header *header = memory;
	if (!size_is_possible(bytes, blocks_percent))
		return SLUICE_E_RANGE;
	header->secret[0] = like->secret[0];
	header->secret[1] = like->secret[1];
	header->formatted_ns = like->formatted_ns;
	divide(header, bytes, blocks_percent);
	/* counters that are known by fewer bits of their hash stay so; those known by more can be cut */
	header->hash_top_bits = (uint32_t)sl_min(like->hash_top_bits, top_bits_for(header->page_count));
	memcpy(header->anchors, like->anchors, sizeof header->anchors);
	header->latest_charge = like->latest_charge;
	header->evicted = like->evicted;
	header->sketch_starts = like->sketch_starts;
	header->stolen_locks = like->stolen_locks;
	header->repairs = like->repairs;
	header->dropped = like->dropped;
	format(header, bytes, blocks_percent);
	return SLUICE_OK;
}

const char *sl_arena_refuse(const void *memory, uint64_t bytes) {
	struct sl_header header, sums = {.version = 0};
	if (bytes < sizeof header)
		return "it is too short to be a store";
	memcpy(&header, memory, sizeof header);
	if (header.magic != SL_ARENA_MAGIC)
		return "it is not a Sluice store of this kind of machine";
	if (header.version != SL_ARENA_VERSION || header.header_bytes != sizeof header)
		return "it was made by another version of Sluice: dump it there, load it here";
	if (header.check != check_of(&header))
		return "its header is damaged";
	if (header.arena_bytes != bytes)
		return bytes < header.arena_bytes ? "it has been truncated" : "it is longer than when it was made";
	if (!size_is_possible(bytes, header.blocks_percent))
		return "its header has an impossible size";
	divide(&sums, bytes, header.blocks_percent);
	if (sums.page_count != header.page_count || sums.cell_count != header.cell_count ||
	    sums.unit_count != header.unit_count || sums.sketch_offset != header.sketch_offset ||
	    sums.map_offset != header.map_offset || sums.blocks_offset != header.blocks_offset ||
	    header.hash_top_bits > top_bits_for(header.page_count))
		return "its header has impossible parts";
	return NULL;
}

void sl_arena_attach(struct sluice_store *store, void *memory) {
	struct sl_header *header = memory;
	uint8_t *bytes = memory;
	SL_ASSERT((uintptr_t)memory % SL_PAGE_BYTES == 0);
	*store = (struct sluice_store){
		.header = header,
		.processes = (struct sl_processes *)(void *)(bytes + SL_PROCESSES_OFFSET),
		.blocks = (struct sl_blocks *)(void *)(bytes + SL_BLOCKS_CONTROL_OFFSET),
		.pages = (struct sl_page *)(void *)(bytes + SL_PAGES_OFFSET),
		.sketch = (struct sl_sketch_cell *)(void *)(bytes + header->sketch_offset),
		.map = bytes + header->map_offset,
		.units = bytes + header->blocks_offset,
		.page_count = header->page_count,
		.cell_count = header->cell_count,
		.unit_count = header->unit_count,
		.secret = {header->secret[0], header->secret[1]},
		.hash_top_mask = header->hash_top_bits != 0 ? UINT64_MAX << (64 - header->hash_top_bits) : 0,
		.hash_top_bits = header->hash_top_bits,
		.hash_unused = SL_HASH_TOP_BITS_MAX - header->hash_top_bits,
		.arena_bytes = header->arena_bytes,
	};
}

const void *sl_store_arena(const struct sluice_store *store, size_t *bytes) {
	*bytes = store->arena_bytes;
	return store->header;
}

sluice_ns sl_store_latest_charge(const struct sluice_store *store) {
	uint64_t word = __atomic_load_n(&store->header->latest_charge, __ATOMIC_RELAXED);
	sluice_ns latest = sl_latest_read(word, store->secret);
	return word == 0 ? 0 : latest != 0 ? latest : UINT64_MAX;
}

void sl_store_raise_ledgers(struct sluice_store *store, sluice_ns until) {
	uint64_t *word = &store->header->ledgers_until_ns, seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	while (seen < until && !__atomic_compare_exchange_n(word, &seen, until, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void sl_store_raise_latest(struct sluice_store *store, sluice_ns now) {
	uint64_t *word = &store->header->latest_charge, seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	/* a step further than must be, since states may be rounded up */
	sluice_ns ahead = now < UINT64_MAX - SL_LATEST_STEP_NS ? now + SL_LATEST_STEP_NS : now, latest;
	uint64_t next = sl_latest_write(ahead, store->secret);
	while (seen >> SL_LATEST_BITS < next >> SL_LATEST_BITS &&
	       !__atomic_compare_exchange_n(word, &seen, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	latest = sl_max(seen, next) & ~(SL_LATEST_STEP_NS - 1);
	SL_ASSERT(latest >= SL_LATEST_STEP_NS);
	/* relaxed: an older value only asks again */
	__atomic_store_n(&store->latest_ns, latest - SL_LATEST_STEP_NS, __ATOMIC_RELAXED);
}
