/* SipHash-c-d, 64-bit result.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. Sluice uses 1-3, the choice of Rust's and
 * Linux's hash tables against chosen keys; 2-4 is instantiated by the test that compares this very code with
 * libsodium's.
 *
 * The message is two 64-bit words, then bytes: the identity of a limit goes in ahead of the key without being copied
 * together with it. */
#ifndef SL_SIPHASH_H
#define SL_SIPHASH_H

#include "base/bytes.h"

struct sl_sip {
	uint64_t a, b, c, d;
};

static inline uint64_t sl_rotate(uint64_t x, int bits) {
	return x << bits | x >> (64 - bits);
}

/* SipRound, `rounds` times. */
static inline __attribute__((always_inline)) void sl_sip_rounds(struct sl_sip *v, int rounds) {
#pragma GCC unroll 4
	for (int i = 0; i < rounds; i++) {
		v->a += v->b;
		v->c += v->d;
		v->b = sl_rotate(v->b, 13) ^ v->a;
		v->d = sl_rotate(v->d, 16) ^ v->c;
		v->a = sl_rotate(v->a, 32);
		v->c += v->b;
		v->a += v->d;
		v->b = sl_rotate(v->b, 17) ^ v->c;
		v->d = sl_rotate(v->d, 21) ^ v->a;
		v->c = sl_rotate(v->c, 32);
	}
}

static inline __attribute__((always_inline)) void sl_sip_word(struct sl_sip *v, uint64_t word, int rounds) {
	v->d ^= word;
	sl_sip_rounds(v, rounds);
	v->a ^= word;
}

/* The last 0..7 bytes of the message, little-endian, under the message's length. */
static inline uint64_t sl_sip_tail(const unsigned char *p, size_t left, size_t len) {
	uint64_t word = (uint64_t)len << 56;
	uint32_t half;
	uint16_t quarter;
	if (left >= 4) {
		memcpy(&half, p, 4);
		word |= half;
		if (left > 4) {
			/* the bytes after the first four, read as the last four of the eight that end here */
			memcpy(&half, p + left - 4, 4);
			word |= (uint64_t)(half >> (8 * (8 - left))) << 32;
		}
		return word;
	}
	if (left >= 2) {
		memcpy(&quarter, p, 2);
		word |= quarter;
		p += 2;
		left -= 2;
		return left ? word | (uint64_t)*p << 16 : word;
	}
	return left ? word | *p : word;
}

/* The hash of `word_count` words (0..2), then of text's bytes, under a key. c and d are constants, so that the rounds
 * unroll: c for each 8 bytes and c + d at the end, about 1 ns each. */
static inline __attribute__((always_inline)) uint64_t
sl_siphash(const uint64_t key[2], const uint64_t *words, int word_count, struct sluice_bytes text, int c, int d) {
	struct sl_sip v = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
	                   key[1] ^ 0x7465646279746573};
	const unsigned char *p = text.data;
	size_t left = text.len;
	for (int i = 0; i < word_count; i++)
		sl_sip_word(&v, words[i], c);
	for (; left >= 8; p += 8, left -= 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		sl_sip_word(&v, word, c);
	}
	sl_sip_word(&v, sl_sip_tail(p, left, text.len + 8 * (size_t)word_count), c);
	v.c ^= 0xff;
	sl_sip_rounds(&v, d);
	return v.a ^ v.b ^ v.c ^ v.d;
}

#endif
