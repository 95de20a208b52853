/* sliding-log: the exact log of admitted cost. A charge at s counts in every window (t - W, t] that holds s, and is
 * gone at exactly s + W; a cost c is admitted when what counts, plus c, is at most Q. So no window of length W ever
 * holds more than Q: not an estimate, the definition. Source: Redis sorted-set logs, without their member per unit of
 * cost.
 *
 * One entry a charge, in a ring of entries inside the counter's block; charges at one instant share an entry. An entry
 * is an instant and the running cost up to and including it, modulo 2^32, so the cost of any stretch is a difference,
 * and the edge of the window and the entry whose expiry admits a denied cost are both found by binary search. While all
 * entries cost 1 the running cost is their position, and is left out ("unit" logs): 2 bytes an event up to a window of
 * 65 s, 4 up to 49 days, 8 beyond.
 *
 *   block   u32 capacity, u32 weighted | u32 sums[capacity] if weighted | instants[capacity], 2, 4 or 8 bytes each
 *   ring    head = the entry before the oldest live one (its sum is where the live ones start), then `count` live ones
 *   state   w[0] 63..19  instant of the last charge (base/coarse.h)
 *           w[0] 18..0 and w[1] 63..32  count (26 bits) << 25 | head
 *           w[1] 31..0   the host's
 *
 * An example: `sliding-log 5/10s`, charged 2 at 1.0 s, and 1 each at 3.5, 4.0 and 9.0 s. In a block of 8 entries:
 *
 *     slot      0      1      2      3      4      5   6   7
 *     instant   -   1000   3500   4000   9000      .   .   .      head = 0: the entry before the oldest
 *     sum       0      2      3      4      5      .   .   .      count = 4: slots 1..4
 *
 * All 5 units count until 11.0 s. There the edge of the window, t - W, is at 1.0 s, which is where the first entry
 * stands: it has expired. What counts is total - base = 5 - 2 = 3, the sum at the newest entry less that at the newest
 * expired one; so a cost of 2 is admitted, and it would go to slot 5. A cost of 3 is denied: it fits once no more than
 * 5 - 3 = 2 count, which is when the first entry has gone whose sum is at least 5 - 2 = 3. That is the one at 3.5 s,
 * gone at 13.5 s: retry after 2.5 s. Both entries are found by halving.
 *
 *     t - W                                    t
 *       |<------------------ W = 10 s --------->|
 *   2 @ 1.0   1 @ 3.5   1 @ 4.0         1 @ 9.0
 *   expired   `-------- total - base = 3 -----'
 *
 * Instants are stored in ms, rounded up (nothing expires early, nothing more than 1 ms late), as their low bits: all
 * live ones lie within W of the last charge, so the distance to it restores them.
 *
 * A charge trims what has expired (galloping from the oldest: amortised O(1)) and appends. A full ring, a first charge
 * of another cost, or a ring three quarters empty asks the host for a block an eighth larger than the need, and the
 * live entries move there: amortised O(1), and nothing half-moved is ever seen, since the old block stays as it was.
 *
 * A process may die between any two stores, and leave the old state with a block half written:
 *
 *   charge   The new entry falls after the ring of the old state, which therefore does not see it; but where the ring
 *            is as long as the block and begins with expired entries, over those. Then the state without them, at the
 *            instant of the charge, is published first (sl_log_prepare()): nobody counts them any more, nor charges at
 *            an instant at which they would count. A charge merged into the newest entry raises its sum, in one store:
 *            charged in full, since that entry is the last in the old state as in the new one, and at the same
 *            instant. A new block is nobody's until its state is published.
 *   refund   The state without the entries that are given back whole goes first (sl_log_prepare_refund()): refunded in
 *            part. Then the newest of what is left is lowered, in one store. The other way round that store would move
 *            cost from the lowered entry to newer ones, which expire later.
 *
 * I1  head < capacity; count + 1 <= capacity <= 2^25.
 * I2  instants and (signed distance of) sums never fall along the ring.
 * I3  peeks and denials read only.
 * I4  whatever bytes state and block hold: a header that does not fit the block is no block, a head or count that do
 *     not fit the header are an empty ring, and what entries say decides only answers, never an address. */
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/math.h"
#include "base/point.h"

#include <string.h>

enum {
	HEAD_BITS = 25,
	ENTRIES_MAX = 1 << HEAD_BITS, /* of one ring, with the one before the oldest */
	HEADER_BYTES = 8,
	ENTRIES_MIN = 8,
};

struct header {
	uint32_t capacity, weighted;
};

static uint32_t width_of(const struct sluice_limit *limit) {
	uint64_t window_ms = limit->window_ns / SL_MS_NS;
	return window_ms <= UINT16_MAX ? 2 : window_ms <= UINT32_MAX ? 4 : 8;
}

static inline uint64_t position_of(const struct sl_state *state) {
	return (state->w[0] & (((uint64_t)1 << SL_COARSE_SHIFT) - 1)) << 32 | state->w[1] >> 32;
}

static void pack(struct sl_state *state, uint64_t last_ms, uint32_t head, uint32_t count) {
	uint64_t position = (uint64_t)count << HEAD_BITS | head;
	SL_DEBUG_ASSERT(head < ENTRIES_MAX && count < ENTRIES_MAX);
	state->w[0] = (last_ms * SL_MS_NS) >> SL_COARSE_SHIFT << SL_COARSE_SHIFT | position >> 32;
	state->w[1] = position << 32 | (uint32_t)state->w[1];
}

static inline uint64_t last_ms_of(const struct sl_state *state) {
	return ((state->w[0] >> SL_COARSE_SHIFT << SL_COARSE_SHIFT) + (SL_MS_NS - 1)) / SL_MS_NS;
}

/* Where entry k stands in the ring: 0 is the oldest, -1 the one before it. */
static inline uint32_t slot_of(const struct sl_log *log, uint32_t k_plus_1) {
	uint32_t slot = log->head + k_plus_1;
	SL_DEBUG_ASSERT(log->head < log->capacity && k_plus_1 <= log->capacity);
	return slot >= log->capacity ? slot - log->capacity : slot;
}

static inline uint32_t load32(const unsigned char *p) {
	uint32_t value;
	memcpy(&value, p, 4);
	return value;
}

/* The sum up to and including entry k, given k + 1, so that 0 asks for the one before the oldest. */
static inline uint32_t sum_at(const struct sl_log *log, uint32_t k_plus_1) {
	return log->weighted ? load32(log->sums + 4 * (size_t)slot_of(log, k_plus_1)) : k_plus_1;
}

static inline uint64_t instant_at(const struct sl_log *log, uint32_t k) {
	const unsigned char *p = log->instants + (size_t)log->width * slot_of(log, k + 1);
	uint64_t wide;
	uint16_t narrow;
	SL_DEBUG_ASSERT(k < log->count);
	if (log->width == 2) {
		memcpy(&narrow, p, 2);
		return log->last_ms - (uint16_t)(log->last_ms - narrow);
	}
	if (log->width == 4)
		return log->last_ms - (uint32_t)((uint32_t)log->last_ms - load32(p));
	memcpy(&wide, p, 8);
	return wide;
}

/* The number of entries whose instant is at or before edge_ms: gallop from the oldest, then halve. */
static uint32_t count_expired(const struct sl_log *log, uint64_t edge_ms) {
	uint32_t low = 0, high = 1; /* entries below `low` have expired */
	if (log->count == 0 || instant_at(log, 0) > edge_ms)
		return 0;
	while (high < log->count && instant_at(log, high) <= edge_ms) {
		low = high;
		high = 2 * high + 1;
	}
	high = high < log->count ? high : log->count;
	for (low++; low < high;) {
		uint32_t middle = low + (high - low) / 2;
		if (instant_at(log, middle) <= edge_ms)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline uint64_t bytes_of(uint64_t entries, uint32_t width, bool weighted) {
	return HEADER_BYTES + entries * (width + (weighted ? 4 : 0));
}

static inline __attribute__((always_inline)) void find_parts(struct sl_log *log, void *block, uint64_t block_bytes) {
	unsigned char *p = block;
	struct header header;
	uint64_t sums_bytes;
	memcpy(&header, p, HEADER_BYTES);
	sums_bytes = header.weighted ? 4 * (uint64_t)header.capacity : 0;
	if (header.capacity > ENTRIES_MAX ||
	    HEADER_BYTES + sums_bytes + header.capacity * (uint64_t)log->width > block_bytes) {
		header = (struct header){0, 0}; /* damaged: there is no block */
		sums_bytes = 0;
	}
	log->capacity = header.capacity;
	log->weighted = header.weighted;
	log->sums = p + HEADER_BYTES;
	log->instants = log->sums + sums_bytes;
}

/* The oldest and the newest entry, where they are in a unit log whose ring has not wrapped. */
void sl_log_prefetch(const struct sluice_limit *limit, const struct sl_counter *counter) {
	uint64_t position = position_of(&counter->state), head = position & (ENTRIES_MAX - 1);
	uintptr_t instants = (uintptr_t)counter->block + HEADER_BYTES; /* no pointer: it may lead anywhere */
	uint32_t width = width_of(limit);
	__builtin_prefetch((const void *)(instants + (head + 1) * width), 1);
	__builtin_prefetch((const void *)(instants + (head + (position >> HEAD_BITS) + 1) * width), 1);
}

/* Finds out how the log stands at `now`, into counter->log. */
static struct sl_log *look(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	uint64_t position = position_of(&counter->state), now_ms = now / SL_MS_NS;
	struct sl_log *log = &counter->log;
	if (counter->block == NULL) {
		*log = (struct sl_log){.width = width_of(limit), .window_ms = limit->window_ns / SL_MS_NS, .t = now};
		return log;
	}
	log->width = width_of(limit);
	log->window_ms = limit->window_ns / SL_MS_NS;
	log->t = now;
	log->last_ms = last_ms_of(&counter->state);
	log->head = position & (ENTRIES_MAX - 1);
	log->count = (uint32_t)(position >> HEAD_BITS);
	find_parts(log, counter->block, counter->block_bytes);
	if (log->head >= log->capacity || log->count >= log->capacity) { /* damaged: there are no entries */
		log->head = log->count = 0;
		log->weighted = log->capacity != 0 ? log->weighted : 0;
	}
	/* Within the millisecond that the last charge was rounded up to, time has not gone back. */
	if (now_ms + (now != now_ms * SL_MS_NS) < log->last_ms) {
		now_ms = log->last_ms;
		log->t = now_ms * SL_MS_NS;
	}
	log->expired = now_ms >= log->window_ms ? count_expired(log, now_ms - log->window_ms) : 0;
	SL_DEBUG_ASSERT(log->expired <= log->count && log->t >= now);
	log->base = sum_at(log, log->expired);
	log->total = sum_at(log, log->count);
	return log;
}

/* The wait until an entry's instant leaves the window, which it has not: 1 ns to W + 1 ms, whatever a damaged one says.
 */
static inline sluice_ns wait_for(const struct sl_log *log, uint64_t instant) {
	sluice_ns wait = (instant + log->window_ms) * SL_MS_NS - log->t, most = (log->window_ms + 1) * SL_MS_NS;
	return wait - 1 < most ? wait : most;
}

/* The wait until what counts has fallen to `keep`: W after the oldest entry with which, and all before it, expired no
 * more than that is left. */
static sluice_ns wait_until_left(const struct sl_log *log, uint32_t keep) {
	uint32_t low = log->expired, high = log->count - 1;
	SL_ASSERT(log->expired < log->count && keep < log->total - log->base); /* or it would have been admitted */
	if (!log->weighted)
		low = high = log->count - keep - 1; /* the sums are the positions */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (log->total - sum_at(log, middle + 1) <= keep)
			high = middle;
		else
			low = middle + 1;
	}
	return wait_for(log, instant_at(log, low));
}

static inline uint64_t charge_ms(const struct sl_log *log) {
	return log->t / SL_MS_NS + (log->t % SL_MS_NS != 0);
}

/* Until the newest entry that still counts is gone, which a refund may have left behind the last charge: W at most, as
 * if its instant were not rounded up. */
static sluice_ns log_reset(const struct sl_log *log) {
	if (log->count == log->expired)
		return 0;
	return sl_min(wait_for(log, instant_at(log, log->count - 1)), log->window_ms * SL_MS_NS);
}

void sl_log_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                 bool charge, struct sluice_decision *decision) {
	const struct sl_log *log = look(limit, counter, now);
	uint32_t quota = limit->quota, used = log->total - log->base, room = quota > used ? quota - used : 0;
	sl_decide_room(decision, quota, room, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : wait_until_left(log, (uint32_t)(quota - cost));
	if (charge && decision->allowed && cost != 0) {
		decision->remaining = (uint32_t)(room - cost);
		decision->reset_after_ns = log->window_ms * SL_MS_NS;
	} else {
		decision->reset_after_ns = log_reset(log);
	}
}

/* The oldest entries that count are looked at, and all are counted. */
void sl_log_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                     struct sluice_inspection *told) {
	const struct sl_log *log = look(limit, counter, now);
	told->used = log->total - log->base;
	for (uint32_t k = log->expired; k < log->count && told->charge_count < SLUICE_CHARGES_MAX; k++) {
		sluice_ns instant = instant_at(log, k) * SL_MS_NS;
		sl_describe_charge(told, instant, sl_ns_plus(instant, limit->window_ns), sum_at(log, k + 1) - sum_at(log, k));
	}
	told->charges_in_all = (uint32_t)sl_max(told->charge_count, log->count - log->expired);
}

/* ---- charging -------------------------------------------------------------------------------------------------- */

/* Whether a charge now goes into the newest entry. Unit logs note a repeated instant again, until they grow. */
static bool merges(const struct sl_log *log, uint32_t live) {
	return log->weighted && live != 0 && instant_at(log, log->count - 1) == charge_ms(log);
}

/* Distinct instants among the live entries. Only asked where all of them are about to be copied. */
static uint32_t count_distinct(const struct sl_log *log) {
	uint32_t distinct = 0;
	uint64_t before = 0;
	for (uint32_t k = log->expired; k < log->count; k++) {
		uint64_t instant = instant_at(log, k);
		distinct += distinct == 0 || instant != before;
		before = instant;
	}
	return distinct;
}

/* How the entries are best kept in a new block, and how many there will be after the charge. */
static bool plan(const struct sl_log *log, uint32_t cost, uint64_t *entries) {
	uint32_t live = log->count - log->expired;
	bool unit_costs = cost == 1 && log->total - log->base == live;
	uint32_t distinct = unit_costs && log->weighted ? live : count_distinct(log);
	*entries = (uint64_t)live + 1;
	if (unit_costs && (uint64_t)distinct * (log->width + 4) >= (uint64_t)live * log->width)
		return false;
	*entries = (uint64_t)distinct + 1;
	return true;
}

/* An eighth more than the need; never more than the quota can fill: that many entries, and the one before the
 * oldest. */
uint64_t sl_log_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t cost) {
	const struct sl_log *log = &counter->log;
	uint32_t live = log->count - log->expired, capacity = log->capacity;
	uint64_t entries, need = (uint64_t)live + !merges(log, live) + 1;
	bool weighted;
	if (capacity != 0 && need <= capacity && (log->weighted || cost == 1) &&
	    (need > capacity / 4 || capacity <= 4 * ENTRIES_MIN))
		return 0;
	weighted = plan(log, cost, &entries);
	entries = sl_max(entries + 1, sl_min(entries + 1 + entries / 8, (uint64_t)limit->quota + 1));
	if (entries > ENTRIES_MAX)
		return SL_BLOCK_TOO_LARGE;
	return bytes_of(sl_max(entries, ENTRIES_MIN), log->width, weighted);
}

static inline void put_sum(const struct sl_log *to, uint32_t slot, uint32_t sum) {
	SL_DEBUG_ASSERT(to->weighted && slot < to->capacity);
	__atomic_store_n((uint32_t *)(void *)(to->sums + 4 * (size_t)slot), sum, __ATOMIC_RELAXED); /* whole */
	SL_POINT();
}

/* Writes an entry of the ring of `to`, at its place there. */
static void put(const struct sl_log *to, uint32_t slot, uint64_t instant, uint32_t sum) {
	unsigned char *p = to->instants + (size_t)to->width * slot;
	uint16_t narrow = (uint16_t)instant;
	uint32_t middle = (uint32_t)instant;
	SL_DEBUG_ASSERT(slot < to->capacity);
	if (to->width == 2)
		memcpy(p, &narrow, 2);
	else if (to->width == 4)
		memcpy(p, &middle, 4);
	else
		memcpy(p, &instant, 8);
	SL_POINT();
	if (to->weighted)
		put_sum(to, slot, sum);
}

/* Makes an empty ring of a block: head and the entry before the oldest at 0. */
static struct sl_log format_block(void *block, uint64_t block_bytes, uint32_t width, bool weighted) {
	struct sl_log log = {.width = width};
	uint64_t capacity = (block_bytes - HEADER_BYTES) / (width + (weighted ? 4 : 0));
	struct header header = {(uint32_t)sl_min(capacity, ENTRIES_MAX), weighted};
	memcpy(block, &header, HEADER_BYTES);
	find_parts(&log, block, block_bytes);
	SL_ASSERT(log.capacity == header.capacity && log.capacity > 1); /* of a charge, and of the one before the oldest */
	put(&log, 0, 0, 0);
	return log;
}

/* Copies the live entries into a new block; in a weighted one those of one instant become one. Returns their number. */
static uint32_t move_entries(const struct sl_log *log, const struct sl_log *to) {
	uint32_t used = 0;
	uint64_t before = 0;
	/* there is room for all, and the charge: but where damage has put the new block into the old one */
	for (uint32_t k = log->expired; k < log->count && used + 2 < to->capacity; k++) {
		uint64_t instant = instant_at(log, k);
		used += !(to->weighted && used != 0 && instant == before);
		put(to, used, instant, sum_at(log, k + 1) - log->base);
		before = instant;
	}
	return used;
}

static void write_moved(struct sl_counter *counter, uint32_t cost, void *block, uint64_t block_bytes) {
	const struct sl_log *log = &counter->log;
	uint64_t entries;
	bool weighted = plan(log, cost, &entries);
	struct sl_log to = format_block(block, block_bytes, log->width, weighted);
	uint32_t used = move_entries(log, &to);
	used += !(weighted && used != 0 && instant_at(log, log->count - 1) == charge_ms(log));
	SL_ASSERT(used < to.capacity);
	put(&to, used, charge_ms(log), log->total - log->base + cost);
	counter->block = block;
	counter->block_bytes = block_bytes;
	pack(&counter->state, charge_ms(log), 0, used);
}

void sl_log_write(struct sl_counter *counter, uint32_t cost, void *block, uint64_t block_bytes) {
	const struct sl_log *log = &counter->log;
	uint32_t live = log->count - log->expired;
	SL_ASSERT(cost != 0);
	if (block != NULL) {
		write_moved(counter, cost, block, block_bytes);
		return;
	}
	SL_ASSERT(counter->block != NULL);
	live += !merges(log, live);
	SL_ASSERT(live < log->capacity);
	put(log, slot_of(log, log->expired + live), charge_ms(log), log->total + cost);
	pack(&counter->state, charge_ms(log), slot_of(log, log->expired), live);
}

bool sl_log_prepare(struct sl_counter *counter) {
	const struct sl_log *log = &counter->log;
	uint32_t live = log->count - log->expired;
	if (log->expired == 0 || merges(log, live))
		return false;
	pack(&counter->state, charge_ms(log), slot_of(log, log->expired), live);
	return true;
}

/* ---- giving back ----------------------------------------------------------------------------------------------- */

/* Drops the newest entries whole while `cost` covers them; the last charge's instant stays. */
bool sl_log_prepare_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                           uint32_t *cost) {
	const struct sl_log *log = look(limit, counter, now);
	uint32_t take = (uint32_t)sl_min(*cost, log->total - log->base), count = log->count;
	while (take != 0 && count > log->expired && log->total - sum_at(log, count - 1) <= take)
		count--;
	if (count == log->count)
		return false;
	SL_ASSERT(log->total - sum_at(log, count) <= *cost);
	*cost -= log->total - sum_at(log, count);
	pack(&counter->state, log->last_ms, log->head, count);
	return true;
}

/* What is left of the cost is less than the newest entry holds, if there is one, and it weighs more than 1. */
bool sl_log_refund(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	bool dropped = sl_log_prepare_refund(limit, counter, now, &cost);
	const struct sl_log *log = look(limit, counter, now);
	uint32_t take = (uint32_t)sl_min(cost, log->total - log->base);
	if (take == 0 || !log->weighted)
		return dropped;
	put_sum(log, slot_of(log, log->count), log->total - take);
	return true;
}

/* ---- charges whatever the quota ---------------------------------------------------------------------------------- */

uint32_t sl_log_count(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint32_t cost) {
	const struct sl_log *log = look(limit, counter, now);
	uint32_t used = log->total - log->base;
	counter->keep = (uint32_t)sl_max(limit->quota, used);
	return (uint32_t)sl_min(sl_min(cost, limit->quota), UINT32_MAX - used);
}

/* The number of entries, the expired ones among them, that go whole for `keep` to be left. */
static uint32_t too_old(const struct sl_log *log, uint32_t keep) {
	uint32_t low = log->expired, high = log->count; /* `low` of them may go, `high` + 1 may not */
	while (low < high) {
		uint32_t middle = high - (high - low) / 2;
		if (log->total - sum_at(log, middle) >= keep)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Whole entries first, by the state. Then the oldest that is left is lowered, in one store: by raising the sum that it
 * begins at, which nobody else reads any more. */
bool sl_log_trim(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	const struct sl_log *log = look(limit, counter, now);
	uint32_t used = log->total - log->base, gone;
	if (used <= counter->keep)
		return false;
	gone = too_old(log, counter->keep);
	SL_ASSERT(gone >= log->expired && gone < log->count);
	if (gone != log->expired) {
		pack(&counter->state, log->last_ms, slot_of(log, gone), log->count - gone);
		return true;
	}
	SL_ASSERT(log->weighted); /* else an entry is a unit, and some go whole */
	put_sum(log, slot_of(log, gone), log->total - counter->keep);
	return false;
}

/* ---- corrections ------------------------------------------------------------------------------------------------- */

sluice_ns sl_log_instant(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	uint64_t last_ms = counter->block != NULL ? last_ms_of(&counter->state) : 0;
	(void)limit;
	return now / SL_MS_NS + (now % SL_MS_NS != 0) < last_ms ? last_ms * SL_MS_NS : now;
}

/* An instant is kept rounded up to 1 ms, and is gone a window after that. */
struct sl_reach sl_log_reach(const struct sluice_limit *limit, sluice_ns t) {
	sluice_ns edge = t - sl_min(t, limit->window_ns), first = edge - edge % SL_MS_NS + 1;
	return (struct sl_reach){first, first, 0, 1};
}

/* The first entry from `low` on whose instant is `ms` or later. */
static uint32_t find_entry(const struct sl_log *log, uint32_t low, uint64_t ms) {
	uint32_t high = log->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (instant_at(log, middle) < ms)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t sl_log_used(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	const struct sl_log *log = look(limit, counter, now);
	return log->total - log->base;
}

static inline bool is_first(const struct sl_log *log, uint32_t k, uint64_t ms) {
	return k >= log->expired && k < log->count && instant_at(log, k) == ms &&
	       (k == log->expired || instant_at(log, k - 1) != ms);
}

/* Those who ask in turn mostly ask for the same entry again, or for the next one. */
uint32_t sl_log_held(const struct sl_counter *counter, sluice_ns instant, uint32_t *entry) {
	const struct sl_log *log = &counter->log;
	uint64_t ms = charge_ms(&(struct sl_log){.t = instant});
	uint32_t first = *entry, end;
	if (!is_first(log, first, ms) && !is_first(log, ++first, ms)) {
		first = find_entry(log, log->expired, ms);
		if (first == log->count || instant_at(log, first) != ms)
			return 0;
	}
	*entry = first;
	end = first + 1 == log->count || instant_at(log, first + 1) != ms ? first + 1 : find_entry(log, first, ms + 1);
	return sum_at(log, end) - (first == log->expired ? log->base : sum_at(log, first));
}

sluice_ns sl_log_leaves(const struct sl_counter *counter, uint32_t entry) {
	return (instant_at(&counter->log, entry) + counter->log.window_ms) * SL_MS_NS;
}

uint32_t sl_log_first(const struct sl_counter *counter, sluice_ns instant) {
	return find_entry(&counter->log, 0, charge_ms(&(struct sl_log){.t = instant}));
}

uint32_t sl_log_between(const struct sl_counter *counter, uint32_t first, uint32_t last) {
	return first < last ? sum_at(&counter->log, last) - sum_at(&counter->log, first) : 0;
}

/* The log as it stood when it was charged last, which may have been at the beginning of the millisecond that is kept:
 * an entry of exactly W before that may still count. */
static const struct sl_log *look_back(const struct sluice_limit *limit, struct sl_counter *counter) {
	uint64_t last_ms = last_ms_of(&counter->state);
	return look(limit, counter, last_ms == 0 ? 0 : (last_ms - 1) * SL_MS_NS + 1);
}

uint64_t sl_log_correct_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t count) {
	struct sl_counter copy = *counter;
	const struct sl_log *log = look_back(limit, &copy);
	uint64_t entries = (uint64_t)log->count - log->expired + count + 2; /* the one before, and the next charge */
	entries = sl_max(entries + sl_min(entries / 8, limit->quota), ENTRIES_MIN);
	return entries > ENTRIES_MAX ? SL_BLOCK_TOO_LARGE : bytes_of(entries, log->width, true);
}

/* While they are corrected the entries of the new block hold costs instead of sums; entry k stands at k + 1. */
static inline uint32_t cost_at(const struct sl_log *to, uint32_t k) {
	return load32(to->sums + 4 * ((size_t)k + 1));
}

/* Makes room for entry k. */
static void insert(struct sl_log *to, uint32_t k, uint64_t ms) {
	size_t after = to->count - k, at = (size_t)k + 1;
	SL_ASSERT(to->count + 1 < to->capacity);
	memmove(to->sums + 4 * (at + 1), to->sums + 4 * at, 4 * after);
	memmove(to->instants + to->width * (at + 1), to->instants + to->width * at, to->width * after);
	put(to, k + 1, ms, 0);
	to->count++;
}

/* Corrects one charge among the costs, that add up to *total. */
static bool correct_entry(struct sl_log *to, const struct sl_correction *at, uint64_t *total) {
	uint64_t ms = sl_min(charge_ms(&(struct sl_log){.t = at->instant}), to->last_ms), held, corrected;
	uint32_t k;
	if (to->last_ms - ms > to->window_ms)
		return false;
	k = find_entry(to, 0, ms);
	held = k < to->count && instant_at(to, k) == ms ? cost_at(to, k) : 0;
	corrected = sl_corrected(at, held, UINT32_MAX - *total);
	if (corrected == held)
		return false;
	if (k == to->count || instant_at(to, k) != ms)
		insert(to, k, ms);
	put_sum(to, k + 1, (uint32_t)corrected);
	*total = *total + corrected - held;
	SL_DEBUG_ASSERT(to->count < to->capacity);
	return true;
}

/* Turns costs into sums, leaving out entries of none. */
static void sum_up(struct sl_log *to) {
	uint32_t kept = 0, sum = 0;
	for (uint32_t k = 0; k < to->count; k++) {
		uint32_t cost = cost_at(to, k);
		if (cost != 0)
			put(to, ++kept, instant_at(to, k), sum += cost);
	}
	to->count = kept;
}

bool sl_log_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *list,
                    uint32_t count, void *block, uint64_t block_bytes) {
	const struct sl_log *log = look_back(limit, counter);
	uint64_t total = log->total - log->base;
	struct sl_log to;
	bool changed = false;
	if (counter->block == NULL)
		return false;
	to = format_block(block, block_bytes, log->width, true);
	SL_ASSERT(log->count - log->expired < to.capacity);
	to.count = move_entries(log, &to);
	to.last_ms = log->last_ms;
	to.window_ms = log->window_ms;
	for (uint32_t k = to.count; k-- > 1;)
		put_sum(&to, k + 1, cost_at(&to, k) - cost_at(&to, k - 1));
	for (uint32_t i = 0; i < count; i++)
		changed |= correct_entry(&to, &list[i], &total);
	if (!changed)
		return false;
	sum_up(&to);
	counter->block = block;
	counter->block_bytes = block_bytes;
	pack(&counter->state, to.last_ms, 0, to.count);
	return true;
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

/* An entry for each of `held`, the one before the oldest, and the charge that comes. */
uint64_t sl_log_assume_bytes(const struct sluice_limit *limit, int count) {
	return bytes_of(sl_max((uint64_t)count, 1) + 2, width_of(limit), true);
}

/* Each of `held` may have charged all of its cost at its instant, from where it counts longest. So that the entries
 * from there on add up to its cost, its entry holds what it has above the next one. */
void sl_log_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held, int count,
                   void *block, uint64_t block_bytes) {
	uint64_t last = charge_ms(&(struct sl_log){.t = held[count - 1].instant}), window_ms = limit->window_ns / SL_MS_NS;
	struct sl_log to = format_block(block, sl_log_assume_bytes(limit, count), width_of(limit), true);
	uint32_t used = 0, sum = 0;
	for (int i = 0; i < count; i++) {
		uint64_t instant = charge_ms(&(struct sl_log){.t = held[i].instant});
		uint32_t above = (uint32_t)sl_held_above(limit, held, count, i);
		SL_ASSERT(instant <= last);
		if (above == 0 || last - instant > window_ms) /* at W it may count in the last's own ms */
			continue;
		sum += above;
		put(&to, ++used, instant, sum);
	}
	SL_ASSERT(used + 1 < to.capacity); /* the charge that comes has room */
	counter->block = block;
	counter->block_bytes = block_bytes;
	pack(&counter->state, last, 0, used);
}

bool sl_log_is_valid(const struct sluice_limit *limit, const struct sl_counter *counter) {
	struct sl_log log = {.width = width_of(limit)};
	uint64_t position = position_of(&counter->state);
	if (counter->block == NULL)
		return sl_state_is_none(&counter->state);
	if (counter->block_bytes < HEADER_BYTES)
		return false;
	find_parts(&log, counter->block, counter->block_bytes);
	log.last_ms = last_ms_of(&counter->state);
	log.head = position & (ENTRIES_MAX - 1);
	log.count = (uint32_t)(position >> HEAD_BITS);
	if (log.weighted > 1 || log.head >= log.capacity || log.count >= log.capacity)
		return false;
	for (uint32_t k = 1; k < log.count; k++)
		if (instant_at(&log, k - 1) > instant_at(&log, k))
			return false;
	return log.count == 0 || instant_at(&log, log.count - 1) <= log.last_ms;
}
