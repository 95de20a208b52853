/* Seats: the block behind leases (lease.c) and members (distinct.c). A seat is somebody's, told by 64 bits, counts
 * with its cost until its end, and is then dead; a release makes it dead at once. What counts is therefore said by the
 * ends alone, and every change becomes true by one store of an end:
 *
 *   fill a dead seat   id and cost first, the end last
 *   release, forget     end = 0
 *   renew, refresh      end = t + T
 *
 *   block   u32 capacity, u32 flags | [a sketch (hll.h)] | u64 ends[capacity] | u64 ids[capacity]
 *           | u32 costs[capacity] if weighted
 *   state   w[0] the instant of the last charge or renewal, ns;  w[1] 1 << 32 | the host's
 *
 * Ends are exact nanoseconds. The arrays stand apart, so that a look at a counter is one pass over the ends without a
 * branch (and the costs, where they are not all 1), and a look for somebody one over the ids. Nothing is sorted: the
 * first end after which a cost fits is found by halving between values, reading only; mostly the earliest end does.
 *
 * A seat that has ended but was not released is dead at t, and was not at the instant that the state says. So before
 * it is filled the state goes first, at t (sl_seats_prepare()): from there on nobody, at no instant, counts what stood
 * there, and it may be written over in any order.
 *
 * A block that is full asks for one an eighth longer than the need, one three quarters empty for a shorter one; those
 * that count move there, and the old block stays as it was until the state that names the new one is published.
 *
 * I1  a seat counts if and only if its end lies after t. No end lies more than T after the last charge.
 * I2  nobody stands in two seats that count. Id 0 is nobody's: what is known of an evicted counter.
 * I3  peeks and denials read only.
 * I4  whatever bytes state and block hold: a header that does not fit the block is no block, and what seats say
 *     decides only answers, never an address or how often a loop runs (sl_seats_wait(): 128 rounds). */
#include "algo/seats.h"

#include "algo/hll.h"
#include "base/assert.h"
#include "base/point.h"

enum { HEADER_BYTES = 8, PLACES_MIN = 8, PLACES_MAX = 1 << 25, ROUNDS_MAX = 128 };

struct header {
	uint32_t capacity, flags;
};

static uint64_t sketch_bytes(uint32_t flags) {
	return flags & SL_PLACES_SKETCH ? sl_hll_bytes(sl_seats_sketch_bits(flags)) : 0;
}

/* Whether a block of ours can have these. */
static bool flags_are_known(uint32_t flags) {
	uint32_t low = flags & ((1u << SL_PLACES_BITS_SHIFT) - 1), bits = flags >> SL_PLACES_BITS_SHIFT;
	if (low > (SL_PLACES_WEIGHTED | SL_PLACES_SKETCH))
		return false;
	return bits == 0 || (low == SL_PLACES_SKETCH && bits >= SL_REGISTER_BITS_MIN && bits <= SL_REGISTER_BITS_MAX &&
	                     bits != SL_REGISTER_BITS);
}

uint64_t sl_seats_bytes(uint64_t count, uint32_t flags) {
	return HEADER_BYTES + sketch_bytes(flags) + count * (flags & SL_PLACES_WEIGHTED ? 20 : 16);
}

/* Says where the parts of a block are, by its header; without one that fits there are none. */
static void find_parts(struct sl_seats *p, void *block, uint64_t block_bytes) {
	struct header header = {0, 0};
	unsigned char *at = block;
	if (block_bytes >= HEADER_BYTES)
		memcpy(&header, block, HEADER_BYTES);
	if (!flags_are_known(header.flags) || header.capacity > PLACES_MAX ||
	    sl_seats_bytes(header.capacity, header.flags) > block_bytes)
		header = (struct header){0, 0};
	p->capacity = header.capacity;
	p->flags = header.flags;
	p->ends = p->ids = NULL;
	p->costs = NULL;
	p->hll = NULL;
	if (header.capacity == 0)
		return;
	if (header.flags & SL_PLACES_SKETCH)
		p->hll = (struct sl_hll *)(void *)(at + HEADER_BYTES);
	p->ends = (uint64_t *)(void *)(at + HEADER_BYTES + sketch_bytes(header.flags));
	p->ids = p->ends + header.capacity;
	if (header.flags & SL_PLACES_WEIGHTED)
		p->costs = (uint32_t *)(void *)(p->ids + header.capacity);
}

bool sl_seats_have_registers(const void *block, uint64_t block_bytes) {
	struct header header = {0, 0};
	if (block_bytes >= HEADER_BYTES)
		memcpy(&header, block, HEADER_BYTES);
	return header.flags >> SL_PLACES_BITS_SHIFT != 0 && flags_are_known(header.flags);
}

static void count_live(struct sl_seats *p) {
	uint64_t held = 0, last_end = 0;
	uint32_t live = 0;
	for (uint32_t i = 0; i < p->capacity; i++) {
		live += p->ends[i] > p->t;
		last_end = sl_max(last_end, p->ends[i]);
	}
	for (uint32_t i = 0; p->costs != NULL && i < p->capacity; i++)
		held += p->ends[i] > p->t ? p->costs[i] : 0;
	SL_DEBUG_ASSERT(live <= p->capacity && (live == 0 || last_end > p->t));
	p->live = live;
	p->held = p->costs != NULL ? held : live;
	p->last_end = live != 0 ? last_end : 0;
}

/* Where somebody stands who counts. */
static uint32_t find_who(const struct sl_seats *p, uint64_t who) {
	for (uint32_t i = 0; who != 0 && i < p->capacity; i++)
		if (p->ids[i] == who && p->ends[i] > p->t)
			return i;
	return SL_NO_PLACE;
}

/* The instant that the state says; `now` where there are no seats. */
static sluice_ns last_of(const struct sl_counter *counter, sluice_ns now) {
	return sl_min(counter->block != NULL ? counter->state.w[0] : now, UINT64_MAX - 1); /* time has an end after it */
}

/* Those that end first, in that order: one pass, in which most are later than the last that is kept. */
static uint32_t first_to_end(const struct sl_seats *p, uint32_t first[SLUICE_CHARGES_MAX]) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < p->capacity; i++) {
		if (p->ends[i] <= p->t || (count == SLUICE_CHARGES_MAX && p->ends[i] >= p->ends[first[count - 1]]))
			continue;
		uint32_t at = count < SLUICE_CHARGES_MAX ? count++ : count - 1;
		for (; at > 0 && p->ends[first[at - 1]] > p->ends[i]; at--)
			first[at] = first[at - 1];
		first[at] = i;
	}
	return count;
}

void sl_seats_describe(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now,
                       struct sluice_inspection *told) {
	const struct sl_seats *p = sl_seats_look(counter, now);
	uint32_t first[SLUICE_CHARGES_MAX], count = first_to_end(p, first);
	SL_ASSERT(count <= p->capacity);
	told->used = p->held;
	for (uint32_t k = 0; k < count; k++)
		sl_describe_charge(told, p->ends[first[k]] - sl_min(p->ends[first[k]], limit->window_ns), p->ends[first[k]],
		                   p->costs != NULL ? p->costs[first[k]] : 1);
	told->charges_in_all = (uint32_t)sl_max(told->charge_count, p->live);
}

sluice_ns sl_seats_instant(const struct sl_counter *counter, sluice_ns now) {
	return sl_min(sl_max(now, last_of(counter, now)), UINT64_MAX - 1);
}

struct sl_seats *sl_seats_find(struct sl_counter *counter, sluice_ns now) {
	struct sl_seats *p = &counter->seats;
	find_parts(p, counter->block, counter->block != NULL ? counter->block_bytes : 0);
	p->last = last_of(counter, now);
	p->t = sl_seats_instant(counter, now);
	SL_DEBUG_ASSERT(p->t >= p->last && p->t < UINT64_MAX);
	p->spare = SL_NO_PLACE;
	p->rows[0] = 0;
	p->mine = find_who(p, counter->who);
	return p;
}

struct sl_seats *sl_seats_look(struct sl_counter *counter, sluice_ns now) {
	count_live(sl_seats_find(counter, now));
	return &counter->seats;
}

/* ---- when a cost fits ------------------------------------------------------------------------------------------- */

/* The cost of those that end at or before an instant; the last of their ends; how many end there after `low`. */
struct cut {
	uint64_t cost, last;
	uint32_t count;
};

static struct cut cut_at(const struct sl_seats *p, uint64_t low, uint64_t at) {
	struct cut cut = {0, 0, 0};
	for (uint32_t i = 0; i < p->capacity; i++) {
		if (p->ends[i] <= p->t || p->ends[i] > at)
			continue;
		cut.cost += p->costs != NULL ? p->costs[i] : 1;
		cut.last = sl_max(cut.last, p->ends[i]);
		cut.count += p->ends[i] > low;
	}
	return cut;
}

/* The `nth` of the ends between low and high, both left out, or the last there is; 0: none. */
static uint64_t pick(const struct sl_seats *p, uint64_t low, uint64_t high, uint32_t nth) {
	uint64_t picked = 0;
	for (uint32_t i = 0; i < p->capacity; i++) {
		if (p->ends[i] <= low || p->ends[i] >= high)
			continue;
		picked = p->ends[i];
		if (nth-- == 0)
			break;
	}
	return picked;
}

static uint64_t first_end_after(const struct sl_seats *p, sluice_ns instant) {
	uint64_t first = UINT64_MAX;
	for (uint32_t i = 0; i < p->capacity; i++)
		first = p->ends[i] > instant && p->ends[i] < first ? p->ends[i] : first;
	return first;
}

uint64_t sl_seats_ended(const struct sl_seats *p, sluice_ns instant) {
	return cut_at(p, p->t, instant).cost;
}

sluice_ns sl_seats_next_end(const struct sl_seats *p, sluice_ns instant) {
	uint64_t end = first_end_after(p, sl_max(p->t, instant));
	return end != UINT64_MAX ? end : 0;
}

/* Halves between low, up to which too little ends, and high, the end of one up to which enough does: by the one that
 * stands in the middle (ends mostly rise along the block), and in turns by the middle value, which bounds the rounds.
 */
sluice_ns sl_seats_wait(const struct sl_seats *p, uint64_t keep) {
	uint64_t need = p->held - keep, low = p->t, high = p->last_end, first = first_end_after(p, p->t), pivot;
	uint32_t left = p->live;
	SL_ASSERT(keep < p->held && p->live != 0);
	if (cut_at(p, low, first).cost >= need)
		return sl_seats_wait_for(p, first);
	for (int round = 0; round < ROUNDS_MAX; round++) {
		struct cut cut;
		pivot = pick(p, low, high, left / 2);
		if (pivot == 0)
			break;
		if (round % 2 == 1)
			pivot = low + (high - low) / 2;
		cut = cut_at(p, low, pivot);
		if (cut.cost >= need) {
			high = cut.last;
			left = cut.count;
		} else {
			low = pivot;
			left -= sl_min(left, cut.count);
		}
	}
	SL_DEBUG_ASSERT(cut_at(p, p->t, high).cost >= need);
	return sl_seats_wait_for(p, high);
}

/* ---- charging --------------------------------------------------------------------------------------------------- */

void sl_seats_find_spare(struct sl_seats *p) {
	uint32_t i = 0;
	while (i < p->capacity && p->ends[i] > p->t)
		i++;
	p->spare = i < p->capacity ? i : SL_NO_PLACE;
	SL_DEBUG_ASSERT(p->spare == SL_NO_PLACE || p->ends[p->spare] <= p->t);
}

uint64_t sl_seats_block_bytes(const struct sl_seats *p, uint64_t most, uint32_t cost) {
	uint64_t need = (uint64_t)p->live + 1, entries = sl_max(need, sl_min(need + need / 8, most));
	SL_ASSERT(p->live <= p->capacity && cost != 0);
	if (p->hll == NULL && need <= p->capacity && (p->costs != NULL || cost == 1) &&
	    (need > p->capacity / 4 || p->capacity <= 4 * PLACES_MIN))
		return 0;
	if (entries > PLACES_MAX)
		return SL_BLOCK_TOO_LARGE;
	return sl_seats_bytes(sl_max(entries, PLACES_MIN), cost != 1 || p->held != p->live ? SL_PLACES_WEIGHTED : 0);
}

struct sl_seats sl_seats_format(void *block, uint64_t block_bytes, uint32_t flags) {
	struct sl_seats p = {.mine = SL_NO_PLACE, .spare = SL_NO_PLACE};
	uint64_t capacity = (block_bytes - sl_seats_bytes(0, flags)) / (flags & SL_PLACES_WEIGHTED ? 20 : 16);
	struct header header = {(uint32_t)sl_min(capacity, PLACES_MAX), flags};
	SL_ASSERT(block_bytes > sl_seats_bytes(0, flags) && !((flags & SL_PLACES_SKETCH) && capacity < SL_EXACT_MEMBERS));
	if (flags & SL_PLACES_SKETCH)
		header.capacity = SL_EXACT_MEMBERS;
	memcpy(block, &header, HEADER_BYTES);
	find_parts(&p, block, block_bytes);
	SL_ASSERT(p.capacity != 0);
	memset(p.ends, 0, p.capacity * sizeof *p.ends);
	return p;
}

uint32_t sl_seats_move(const struct sl_seats *p, const struct sl_seats *to) {
	uint32_t used = 0;
	SL_ASSERT(p->live <= to->capacity);
	for (uint32_t i = 0; i < p->capacity; i++)
		if (p->ends[i] > p->t)
			sl_seats_fill(to, used++, p->ids[i], p->costs != NULL ? p->costs[i] : 1, p->ends[i]);
	return used;
}

void sl_seats_set_end(const struct sl_seats *p, uint32_t i, sluice_ns end) {
	SL_DEBUG_ASSERT(i < p->capacity);
	/* release; pairs with a reader that comes after this process has died, which sees stores in their order */
	__atomic_store_n(&p->ends[i], end, __ATOMIC_RELEASE);
	SL_POINT();
}

void sl_seats_fill(const struct sl_seats *p, uint32_t i, uint64_t id, uint32_t cost, sluice_ns end) {
	SL_DEBUG_ASSERT(i < p->capacity);
	p->ids[i] = id;
	SL_POINT();
	if (p->costs != NULL) {
		p->costs[i] = cost;
		SL_POINT();
	}
	sl_seats_set_end(p, i, end);
}

bool sl_seats_prepare(struct sl_counter *counter) {
	const struct sl_seats *p = &counter->seats;
	if (p->spare == SL_NO_PLACE || p->ends[p->spare] <= p->last)
		return false;
	sl_seats_stamp(counter, p->t);
	return true;
}

void sl_seats_write(const struct sluice_limit *limit, struct sl_counter *counter, uint32_t cost, void *block,
                     uint64_t block_bytes) {
	const struct sl_seats *p = &counter->seats;
	sluice_ns end = sl_seats_end(limit, p->t);
	if (block != NULL) {
		struct sl_seats to =
			sl_seats_format(block, block_bytes, cost != 1 || p->held != p->live ? SL_PLACES_WEIGHTED : 0);
		SL_ASSERT(p->live < to.capacity);
		sl_seats_fill(&to, sl_seats_move(p, &to), counter->who, cost, end);
		counter->block = block;
		counter->block_bytes = block_bytes;
	} else {
		SL_ASSERT(p->spare < p->capacity);
		sl_seats_fill(p, p->spare, counter->who, cost, end);
	}
	sl_seats_stamp(counter, p->t);
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

/* A seat for each of `held`, and for the charge that comes. */
uint64_t sl_seats_assume_bytes(int count) {
	return sl_seats_bytes(sl_max((uint64_t)count + 2, PLACES_MIN), SL_PLACES_WEIGHTED);
}

/* Each of `held` may have charged all of its cost at its instant, from where it counts longest. So that those that
 * count from there on add up to its cost, it has a seat of what it has above the next one. */
void sl_seats_assume(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_held *held,
                      int count, void *block, uint64_t block_bytes) {
	struct sl_seats to = sl_seats_format(block, block_bytes, SL_PLACES_WEIGHTED);
	uint32_t used = 0;
	for (int i = 0; i < count; i++) {
		uint32_t above = (uint32_t)sl_held_above(limit, held, count, i);
		sluice_ns end = sl_seats_end(limit, held[i].instant);
		SL_ASSERT(held[i].instant <= held[count - 1].instant && used + 1 < to.capacity);
		if (above != 0 && end > held[count - 1].instant)
			sl_seats_fill(&to, used++, 0, above, end);
	}
	counter->block = block;
	counter->block_bytes = block_bytes;
	counter->state.w[1] = 0;
	sl_seats_stamp(counter, held[count - 1].instant);
}

bool sl_seats_are_valid(const struct sluice_limit *limit, const struct sl_counter *counter) {
	sluice_ns last = counter->state.w[0], most = sl_seats_end(limit, last);
	struct sl_seats p;
	if (counter->block == NULL)
		return sl_state_is_none(&counter->state);
	find_parts(&p, counter->block, counter->block_bytes);
	if (p.capacity == 0 || counter->state.w[1] >> 32 != 1)
		return false;
	for (uint32_t i = 0; i < p.capacity; i++)
		if (p.ends[i] > most || (p.costs != NULL && p.ends[i] > last && p.costs[i] == 0))
			return false;
	if (p.hll == NULL)
		return true;
	p.t = p.last = last;
	return limit->algorithm == SLUICE_DISTINCT && p.costs == NULL && p.capacity == SL_EXACT_MEMBERS &&
	       sl_hll_is_valid(limit, &p);
}
