/* A sliding HyperLogLog: the number of different members in (t - W, t], about, in 200 KB however many they are.
 *
 * A fingerprint of 64 random bits names one of m = 2^b registers by its lower b and has a rank by the rest: 1 + zeros
 * before the first one, so that rank k comes once in 2^k. The highest rank that each register has seen within the
 * window says how many different ones there were (Flajolet, Fusy, Gandouet, Meunier 2007): the standard error is 1.04 /
 * sqrt(m), 1.63 % for m = 4096. An operator may have 2^10 to 2^15 of them (`registers`): 50 bytes each. More would not
 * fit the 16-bit numbers that say how many are live; with less, those that are known exactly would take as much room.
 * To slide, a register must know what its highest rank will be when the newest member of the highest has gone
 * (Chabchoub and Hebrail 2010, who keep lists): here, for each rank, the time when one of at least that rank came last.
 * These fall with the rank, so the highest live rank of a register is the number of its live times; and all that the
 * estimate asks is how many registers are live at each rank: one comparison of 16-bit numbers a cell, which the
 * compiler does by the eight.
 *
 *   estimate = A m^2 / (m sigma(C0 / m) + sum of C_k 2^-k), A = 1 / (2 ln 2), C_k registers at rank k, m of them
 *   sigma(x) = x + sum over k >= 1 of 2^(k-1) x^(2^k)
 *
 * (Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, the improved raw estimator: without
 * bias for any number, no tables, no thresholds). Of his tau, for registers at the highest rank, the first term serves:
 * 2/3 of their weight; with 25 ranks they are 6 % of all at 2^32 members and 4,096 registers. All in fixed point:
 * weights in 1 / (2^60 / m^2), the finest in which m^2, the most that they add up to, fits 64 bits: so A m^2 is the
 * same number for all m.
 *
 * Time is in units of W / 16,384. A member charged at s is noted at the unit that ends at or after s, and gone 16,384
 * units later: nobody goes early, nobody more than a unit late (0.006 % of W). Times are the lower 16 bits of a unit,
 * read by their age at the unit of the counter's last charge, the base, which the state knows to the nanosecond:
 *
 *   0 .. 16384   may count          16385 .. 65535   does not
 *
 * A time that nobody overwrites would come round again after 65,536 units. So with every charge that moves the base on,
 * a 1024th of the cells for every 16 units is looked through, and what no longer counts is made 20,000 units old: a
 * cell is visited once in 16,384 units, and none grows older than 16,384 + 3 x 16,384. Who comes a window later finds
 * nothing that counts, and starts anew (distinct.c).
 *
 * How many registers are live at each rank is noted with every charge, for its unit: until the next unit begins no cell
 * needs to be looked at for an estimate.
 *
 * A process that dies in the middle of raising a register leaves it at a rank in between, which is an estimate less by
 * a part of that member: rows are raised from the first rank on, so that they fall with the rank at every instant. */
#include "algo/hll.h"
#include "base/assert.h"
#include "base/point.h"

#include <stddef.h>

enum {
	WEIGHT_SCALE_BITS = 60,
	OLD = 20000,      /* units: what does not count any more, whatever the rounding */
	SWEEP_UNITS = 16, /* for which a chunk is swept */
	CHUNKS = SL_SKETCH_UNITS / SWEEP_UNITS,
};
_Static_assert(SL_REGISTERS_MIN % CHUNKS == 0, "every cell is swept");
_Static_assert(WEIGHT_SCALE_BITS - 2 * SL_REGISTER_BITS_MAX >= SL_SKETCH_RANKS, "the weight of a rank is no fraction");
_Static_assert(SL_REGISTERS_MAX <= INT16_MAX + 1, "live registers are counted in 16 bits");

/* A m^2 in weights: 2^60 / (2 ln 2). */
#define SCALE UINT64_C(831657068615270156)

/* Registers that are live at each rank and above; [0] are all, and after the last rank there are none. */
struct rows {
	uint16_t live[28];
};
_Static_assert(sizeof(struct rows) == sizeof((struct sl_hll *)0)->rows && SL_SKETCH_RANKS + 2 <= 28, "rows");

static uint64_t unit_of(const struct sluice_limit *limit, sluice_ns t) {
	return sl_div(sl_mul(t, SL_SKETCH_UNITS), limit->window_ns);
}

/* The unit that an instant is noted at. */
static uint64_t unit_of_charge(const struct sluice_limit *limit, sluice_ns t) {
	return sl_div_ceil(sl_mul(t, SL_SKETCH_UNITS), limit->window_ns);
}

static sluice_ns start_of(const struct sluice_limit *limit, uint64_t unit) {
	return sl_div_ceil(sl_mul(unit, limit->window_ns), SL_SKETCH_UNITS);
}

static inline uint32_t bits_of(const struct sl_seats *p) {
	return sl_seats_sketch_bits(p->flags);
}

static inline uint32_t register_of(uint64_t who, uint32_t bits) {
	return (uint32_t)(who & (((uint64_t)1 << bits) - 1));
}

static inline uint32_t rank_of(uint64_t who, uint32_t bits) {
	return (uint32_t)sl_min(1 + (uint32_t)__builtin_ctzll(who >> bits | (uint64_t)1 << 63), SL_SKETCH_RANKS);
}

/* The times of a rank, 1..25. */
static inline uint16_t *row_of(const struct sl_seats *p, int rank) {
	return p->hll->times + ((size_t)(rank - 1) << bits_of(p));
}

/* Below which age, at the base, a time counts in a unit. */
static uint32_t ages_in(uint64_t base, uint64_t unit) {
	uint64_t ages = base + SL_SKETCH_UNITS;
	SL_DEBUG_ASSERT(base <= unit + 1);
	return ages > unit ? (uint32_t)sl_min(ages - unit, SL_SKETCH_UNITS + 1) : 0;
}

/* ---- the estimate ----------------------------------------------------------------------------------------------- */

/* Ages are compared as signed numbers, half their range lower: that is one instruction by the eight. */
static uint32_t count_row(const struct sl_seats *p, int rank, uint16_t base, uint16_t ages) {
	const uint16_t *times = row_of(p, rank);
	int16_t below = (int16_t)(ages ^ 0x8000);
	uint16_t live = 0, lower = (uint16_t)(base ^ 0x8000);
	for (int i = 0; i < 1 << bits_of(p); i++)
		live = (uint16_t)(live + ((int16_t)(uint16_t)(lower - times[i]) < below));
	return live;
}

static struct rows count_rows(const struct sl_seats *p, uint64_t base, uint64_t unit) {
	struct rows rows = {.live = {(uint16_t)(1u << bits_of(p))}};
	uint32_t ages = ages_in(base, unit);
	bool known = p->hll->counted == unit + 1;
	for (int rank = 1; rank <= SL_SKETCH_RANKS && rows.live[rank - 1] != 0; rank++) {
		uint32_t live = known ? p->hll->rows[rank] : count_row(p, rank, (uint16_t)base, (uint16_t)ages);
		rows.live[rank] = (uint16_t)sl_min(live, rows.live[rank - 1]); /* more only if damaged */
	}
	return rows;
}

/* m sigma(C0 / m). Squares in 2^-32: below 1, since C0 < m. */
static uint64_t weight_of_empty(uint64_t empty, uint32_t bits) {
	uint64_t x = empty << (32 - bits), sum = x, square = x;
	for (int k = 0; square != 0; k++) {
		square = square * square >> 32;
		sum += square << k;
	}
	return sum << (WEIGHT_SCALE_BITS - bits - 32); /* m of them: 2^bits, in 2^-(60 - 2 bits) */
}

static uint64_t estimate(const struct rows *rows, uint32_t bits) {
	uint32_t weight_bits = WEIGHT_SCALE_BITS - 2 * bits;
	uint64_t weight, empty = ((uint64_t)1 << bits) - rows->live[1];
	SL_ASSERT(rows->live[1] <= 1u << bits);
	if (rows->live[1] == 0)
		return 0;
	weight = weight_of_empty(empty, bits);
	for (int k = 1; k < SL_SKETCH_RANKS; k++)
		SL_DEBUG_ASSERT(rows->live[k] >= rows->live[k + 1]);
	for (int k = 1; k < SL_SKETCH_RANKS; k++)
		weight += (uint64_t)(rows->live[k] - rows->live[k + 1]) << (weight_bits - (uint32_t)k);
	weight += ((uint64_t)rows->live[SL_SKETCH_RANKS] << (weight_bits + 1 - SL_SKETCH_RANKS)) / 3;
	SL_ASSERT(weight != 0);
	return (SCALE + weight / 2) / weight;
}

/* The ranks that a register has seen and that count. */
static uint32_t rank_in(const struct sl_seats *p, uint32_t at, uint64_t base, uint64_t unit) {
	uint32_t rank = 0, ages = ages_in(base, unit);
	while (rank < SL_SKETCH_RANKS && (uint16_t)(base - row_of(p, (int)rank + 1)[at]) < ages)
		rank++;
	return rank;
}

uint64_t sl_hll_estimate(const struct sluice_limit *limit, struct sl_seats *p, uint64_t who, uint64_t *with_who) {
	uint64_t base = unit_of_charge(limit, p->last), unit = unit_of(limit, p->t), count;
	uint32_t bits = bits_of(p), rank;
	struct rows rows = count_rows(p, base, unit);
	SL_ASSERT(p->t >= p->last && rows.live[0] == 1u << bits);
	memcpy(p->rows, rows.live, sizeof p->rows);
	count = *with_who = estimate(&rows, bits);
	if (who == 0)
		return count;
	rank = rank_in(p, register_of(who, bits), base, unit);
	if (rank >= rank_of(who, bits))
		return count;
	for (; rank < rank_of(who, bits); rank++)
		rows.live[rank + 1] += rows.live[rank + 1] < rows.live[rank]; /* not only if damaged */
	*with_who = estimate(&rows, bits);
	return count;
}

bool sl_hll_covers(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t who) {
	uint64_t base = unit_of_charge(limit, p->last), unit = unit_of(limit, p->t);
	return rank_in(p, register_of(who, bits_of(p)), base, unit) >= rank_of(who, bits_of(p));
}

static void raise(uint8_t *ranks, uint64_t who, uint32_t bits) {
	uint8_t rank = (uint8_t)rank_of(who, bits);
	if (ranks[register_of(who, bits)] < rank)
		ranks[register_of(who, bits)] = rank;
}

uint64_t sl_hll_estimate_of(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t another) {
	uint32_t bits = sl_rule_register_bits(limit);
	uint8_t ranks[SL_REGISTERS_MAX];
	struct rows rows = {.live = {0}};
	memset(ranks, 0, (size_t)1 << bits);
	raise(ranks, another, bits);
	for (uint32_t i = 0; i < p->capacity; i++)
		if (p->ends[i] > p->t)
			raise(ranks, p->ids[i], bits);
	for (int i = 0; i < 1 << bits; i++)
		rows.live[ranks[i]]++;
	for (int rank = SL_SKETCH_RANKS; rank-- > 0;)
		rows.live[rank] += rows.live[rank + 1];
	SL_ASSERT(rows.live[0] == 1u << bits); /* each once */
	return estimate(&rows, bits);
}

/* ---- when it falls ---------------------------------------------------------------------------------------------- */

/* For how many more units the first to go of a row counts; of those that do not count it is more than a window. As in
 * count_row() the numbers are compared as signed ones. */
static uint32_t first_to_go(const struct sl_seats *p, int rank, uint16_t base, uint16_t ages) {
	const uint16_t *times = row_of(p, rank);
	uint16_t oldest = (uint16_t)(base - ages + 1) ^ 0x8000;
	int16_t left = INT16_MAX;
	for (int i = 0; i < 1 << bits_of(p); i++) {
		int16_t its = (int16_t)(uint16_t)(times[i] - oldest);
		left = its < left ? its : left;
	}
	return (uint16_t)left ^ 0x8000;
}

/* The first unit after this one in which a register falls. */
static uint64_t next_fall(const struct sl_seats *p, uint64_t base, uint64_t unit) {
	uint32_t ages = ages_in(base, unit), left = SL_SKETCH_UNITS;
	for (int rank = 1; rank <= SL_SKETCH_RANKS; rank++)
		left = (uint32_t)sl_min(left, first_to_go(p, rank, (uint16_t)base, (uint16_t)ages));
	return unit + left + 1;
}

/* Looks ahead by 1, 2, 4... units, since mostly somebody goes soon, leaps to where somebody does, and then halves. */
sluice_ns sl_hll_below(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t quota) {
	uint32_t bits = bits_of(p);
	uint64_t base = unit_of_charge(limit, p->last), low = unit_of(limit, p->t), high = low + 1, step = 1;
	struct rows before = count_rows(p, base, low), rows;
	while (high < base + SL_SKETCH_UNITS && start_of(limit, high) < p->hll->beyond) {
		rows = count_rows(p, base, high);
		if (estimate(&rows, bits) < quota)
			break;
		if (memcmp(&rows, &before, sizeof rows) != 0) {
			low = high;
			step *= 2;
		} else {
			low = next_fall(p, base, high) - 1;
			step = 1;
		}
		high = sl_min(low + step, base + SL_SKETCH_UNITS);
		before = rows;
	}
	SL_ASSERT(low < high);
	while (high > low + 1) {
		uint64_t middle = low + (high - low) / 2;
		rows = count_rows(p, base, middle);
		if (estimate(&rows, bits) < quota)
			high = middle;
		else
			low = middle;
	}
	return sl_min(start_of(limit, high), p->hll->beyond);
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

void sl_hll_format(const struct sluice_limit *limit, const struct sl_seats *p) {
	uint16_t old = (uint16_t)(unit_of_charge(limit, p->t) - OLD);
	memset(p->hll, 0, offsetof(struct sl_hll, times));
	for (int i = 0; i < SL_SKETCH_RANKS << bits_of(p); i++)
		p->hll->times[i] = old;
}

static void set_counted(struct sl_hll *hll, uint64_t counted) {
	if (hll->counted != counted)
		__atomic_store_n(&hll->counted, counted, __ATOMIC_SEQ_CST); /* before, or after, all that it speaks of */
	SL_POINT();
}

/* Raises the times of a register, up to so many ranks, to a unit. */
static void raise_times(const struct sl_seats *p, uint32_t at, uint32_t ranks, uint64_t base, uint64_t unit) {
	for (uint32_t rank = 1; rank <= ranks; rank++) {
		uint16_t *time = &row_of(p, (int)rank)[at];
		if ((uint16_t)(base - *time) > base - unit) {
			*time = (uint16_t)unit;
			SL_POINT();
		}
	}
}

/* The rows go with the times: what they say is taken back first, and said again once both agree. */
void sl_hll_add(const struct sluice_limit *limit, const struct sl_seats *p, uint64_t who, sluice_ns instant) {
	uint64_t base = unit_of_charge(limit, p->t), now = unit_of(limit, p->t);
	uint32_t at = register_of(who, bits_of(p)), ranks = rank_of(who, bits_of(p)), rank = rank_in(p, at, base, now);
	if (rank < ranks || p->hll->counted != now + 1)
		set_counted(p->hll, 0);
	raise_times(p, at, ranks, base, unit_of_charge(limit, instant));
	if (p->hll->counted != 0 || p->rows[0] == 0)
		return;
	memcpy(p->hll->rows, p->rows, sizeof p->rows);
	SL_ASSERT(ranks >= 1 && ranks <= SL_SKETCH_RANKS);
	for (; rank < ranks; rank++)
		p->hll->rows[rank + 1]++;
	set_counted(p->hll, now + 1);
}

static void sweep_chunk(uint16_t *times, uint64_t cells, uint16_t base) {
	for (uint64_t i = 0; i < cells; i++)
		if ((uint16_t)(base - times[i]) > SL_SKETCH_UNITS)
			times[i] = (uint16_t)(base - OLD);
}

bool sl_hll_sweep(const struct sluice_limit *limit, const struct sl_seats *p) {
	uint64_t base = unit_of_charge(limit, p->last), next = unit_of_charge(limit, p->t);
	uint64_t chunk = base / SWEEP_UNITS, end = next / SWEEP_UNITS;
	uint64_t cells = ((uint64_t)SL_SKETCH_RANKS << bits_of(p)) / CHUNKS;
	SL_ASSERT(base <= next); /* the clock of seats never falls */
	for (end = sl_min(end, chunk + CHUNKS); chunk < end; chunk++)
		sweep_chunk(p->hll->times + chunk % CHUNKS * cells, cells, (uint16_t)base);
	return next != base;
}

static bool rows_are_right(const struct sluice_limit *limit, const struct sl_seats *p) {
	uint16_t base = (uint16_t)unit_of_charge(limit, p->last);
	uint32_t ages = ages_in(unit_of_charge(limit, p->last), unit_of(limit, p->last));
	uint32_t wrong = 0;
	for (int rank = 1; rank <= SL_SKETCH_RANKS; rank++)
		wrong += count_row(p, rank, base, (uint16_t)ages) != p->hll->rows[rank];
	return wrong == 0;
}

/* Whatever counts at a rank counts at those below. */
bool sl_hll_is_valid(const struct sluice_limit *limit, const struct sl_seats *p) {
	uint16_t base = (uint16_t)unit_of_charge(limit, p->last);
	sluice_ns most = sl_seats_end(limit, p->last);
	if (p->hll->beyond > most || p->hll->ghosts_end > most || p->hll->ghosts > UINT32_MAX)
		return false;
	if (p->hll->counted == unit_of(limit, p->last) + 1 && !rows_are_right(limit, p))
		return false;
	for (int rank = 2; rank <= SL_SKETCH_RANKS; rank++)
		for (int i = 0; i < 1 << bits_of(p); i++) {
			uint16_t age = (uint16_t)(base - row_of(p, rank)[i]);
			if (age <= SL_SKETCH_UNITS && (uint16_t)(base - row_of(p, rank - 1)[i]) > age)
				return false;
		}
	return true;
}

/* 10,000 x 1.04 / sqrt(2^bits), rounded up. */
uint32_t sl_distinct_error(const struct sluice_limit *limit) {
	static const uint16_t errors_bp[] = {325, 230, 163, 115, 82, 58};
	_Static_assert(sizeof errors_bp / sizeof errors_bp[0] == SL_REGISTER_BITS_MAX - SL_REGISTER_BITS_MIN + 1, "each");
	if (!sl_rule_estimates(limit))
		return 0;
	return errors_bp[sl_rule_register_bits(limit) - SL_REGISTER_BITS_MIN];
}
