/* How inputs that are histories change: a head, then calls of one size. libFuzzer alone shifts all calls after a byte
 * that it puts in, and so makes noise of a history that it has found; here calls are put in, taken out, repeated, moved
 * and changed in one byte, and two histories are joined between calls. What it finds of comparisons still comes in,
 * within one call. Where a byte of the head counts the calls, what is behind them is a block of any bytes, and changes
 * as libFuzzer has it.
 *
 *   head | call | call | .. | block */
#ifndef SL_FUZZ_MUTATE_H
#define SL_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t out_max, unsigned seed);

/* What inputs are made of. */
struct fuzz_shape {
	size_t head, call; /* bytes of each */
	size_t count_at;   /* of the head's byte that says how many calls there are; SIZE_MAX: they go on to the end */
};

static inline uint32_t fuzz_draw(uint64_t *seed, uint32_t below) {
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return below == 0 ? 0 : (uint32_t)(*seed >> 33) % below;
}

/* One byte: another, one near it, one bit of it, or one at the edge of what a byte says. */
static inline void fuzz_mutate_byte(uint8_t *byte, uint64_t *seed) {
	static const uint8_t edges[] = {0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 191, 192, 254, 255};
	switch (fuzz_draw(seed, 4)) {
	case 0:
		*byte = (uint8_t)fuzz_draw(seed, 256);
		break;
	case 1:
		*byte = (uint8_t)(*byte + fuzz_draw(seed, 9) - 4);
		break;
	case 2:
		*byte ^= (uint8_t)(1 << fuzz_draw(seed, 8));
		break;
	default:
		*byte = edges[fuzz_draw(seed, sizeof edges)];
	}
}

/* Opens room for `more` bytes at `at`. */
static inline void fuzz_open(uint8_t *data, size_t size, size_t at, size_t more) {
	memmove(data + at + more, data + at, size - at);
}

static inline void fuzz_cut(uint8_t *data, size_t size, size_t at, size_t less) {
	memmove(data + at, data + at + less, size - at - less);
}

static inline void fuzz_add_to_count(uint8_t *data, const struct fuzz_shape *shape, long by) {
	if (shape->count_at == SIZE_MAX)
		return;
	long count = data[shape->count_at] + by;
	data[shape->count_at] = (uint8_t)(count < 0 ? 0 : count > 255 ? 255 : count);
}

/* How many calls there are. */
static inline size_t fuzz_calls(const uint8_t *data, size_t size, const struct fuzz_shape *shape) {
	size_t calls = (size - shape->head) / shape->call;
	return shape->count_at != SIZE_MAX && data[shape->count_at] < calls ? data[shape->count_at] : calls;
}

/* Changes whole calls: returns the new size, or 0 where it can't. */
static inline size_t fuzz_mutate_calls(uint8_t *data, size_t size, size_t size_max, uint64_t *seed,
                                       const struct fuzz_shape *shape) {
	size_t calls = fuzz_calls(data, size, shape);
	uint8_t *first = data + shape->head, one[64];
	size_t a = fuzz_draw(seed, (uint32_t)calls), b = fuzz_draw(seed, (uint32_t)calls + 1);
	size_t run = 1 + fuzz_draw(seed, 8), bytes;
	switch (fuzz_draw(seed, 4)) {
	case 0: /* again, elsewhere: one, or some in a row */
		run = run > calls - a ? calls - a : run;
		bytes = run * shape->call;
		if (calls == 0 || size + bytes > size_max)
			return 0;
		fuzz_open(data, size, shape->head + b * shape->call, bytes);
		a += a >= b ? run : 0;
		if (a < b && a + run > b) /* it stood where the room was made */
			run = b - a;
		memcpy(first + b * shape->call, first + a * shape->call, run * shape->call);
		fuzz_add_to_count(data, shape, (long)(bytes / shape->call));
		return size + bytes;
	case 1: /* none of it */
		run = run > calls - a ? calls - a : run;
		if (calls == 0 || size - run * shape->call == 0)
			return 0;
		fuzz_cut(data, size, shape->head + a * shape->call, run * shape->call);
		fuzz_add_to_count(data, shape, -(long)run);
		return size - run * shape->call;
	case 2: /* in the other's place */
		b %= calls == 0 ? 1 : calls;
		if (calls < 2 || a == b)
			return 0;
		memcpy(one, first + a * shape->call, shape->call);
		memcpy(first + a * shape->call, first + b * shape->call, shape->call);
		memcpy(first + b * shape->call, one, shape->call);
		return size;
	default: /* a new one */
		if (size + shape->call > size_max)
			return 0;
		fuzz_open(data, size, shape->head + b * shape->call, shape->call);
		for (size_t i = 0; i < shape->call; i++)
			first[b * shape->call + i] = (uint8_t)(fuzz_draw(seed, 2) == 0 ? 0 : fuzz_draw(seed, 256));
		fuzz_add_to_count(data, shape, 1);
		return size + shape->call;
	}
}

/* For LLVMFuzzerCustomMutator(). Changes one to four things. */
static inline size_t fuzz_mutate(uint8_t *data, size_t size, size_t size_max, unsigned seed_of,
                                 const struct fuzz_shape *shape) {
	uint64_t seed = (uint64_t)seed_of << 1 | 1;
	if (size_max < shape->head + shape->call)
		return LLVMFuzzerMutate(data, size, size_max);
	if (size < shape->head) {
		memset(data + size, 0, shape->head - size);
		size = shape->head;
	}
	for (uint32_t changes = 1 + fuzz_draw(&seed, 4); changes != 0; changes--) {
		size_t calls = fuzz_calls(data, size, shape), grown = 0;
		size_t rest = shape->head + calls * shape->call;
		uint32_t how = fuzz_draw(&seed, 16);
		if (shape->count_at != SIZE_MAX && rest < size_max && fuzz_draw(&seed, 3) == 0) {
			size = rest + LLVMFuzzerMutate(data + rest, size - rest, size_max - rest);
			continue;
		}
		if (how < 6 || calls == 0)
			grown = fuzz_mutate_calls(data, size, size_max, &seed, shape);
		size = grown != 0 ? grown : size;
		if (how == 6 && shape->head != 0) {
			fuzz_mutate_byte(data + fuzz_draw(&seed, (uint32_t)shape->head), &seed);
		} else if (how > 6 && calls != 0) {
			uint8_t *call = data + shape->head + fuzz_draw(&seed, (uint32_t)calls) * shape->call;
			if (how == 7) /* what comparisons have shown, within the call; what it takes out stays as it was */
				(void)LLVMFuzzerMutate(call, shape->call, shape->call);
			else
				fuzz_mutate_byte(call + fuzz_draw(&seed, (uint32_t)shape->call), &seed);
		}
	}
	return size;
}

/* For LLVMFuzzerCustomCrossOver(): the first calls of one, then the last of the other. */
static inline size_t fuzz_cross(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                size_t out_max, unsigned seed_of, const struct fuzz_shape *shape) {
	uint64_t seed = (uint64_t)seed_of << 1 | 1;
	if (a_size < shape->head || b_size < shape->head || out_max < a_size)
		return 0;
	size_t keep = shape->call * fuzz_draw(&seed, (uint32_t)((a_size - shape->head) / shape->call) + 1);
	size_t from = shape->call * fuzz_draw(&seed, (uint32_t)((b_size - shape->head) / shape->call) + 1);
	size_t more = b_size - shape->head - from;
	more = more > out_max - shape->head - keep ? out_max - shape->head - keep : more;
	memcpy(out, a, shape->head + keep);
	memcpy(out + shape->head + keep, b + shape->head + from, more);
	if (shape->count_at != SIZE_MAX)
		fuzz_add_to_count(out, shape, (long)b[shape->count_at] - (long)(from / shape->call));
	return shape->head + keep + more;
}

/* Both, for a harness: FUZZ_SHAPE(head, call, count_at). */
#define FUZZ_SHAPE(...)                                                                                            \
	static const struct fuzz_shape fuzz_shape = {__VA_ARGS__};                                                     \
	size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed) {                   \
		return fuzz_mutate(data, size, size_max, seed, &fuzz_shape);                                               \
	}                                                                                                              \
	size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,             \
	                                 uint8_t *out, size_t out_max, unsigned seed) {                                \
		return fuzz_cross(a, a_size, b, b_size, out, out_max, seed, &fuzz_shape);                                  \
	}                                                                                                              \
	_Static_assert(1, "")

#endif
