/* Ids: SipHash-2-4 of 1, 2, 3.. under a key of 128 bits that the system's generator gave to this thread. SipHash is a
 * pseudo-random function: without the key its values are told from random ones no better than by trying 2^128 keys, so
 * whoever is given a thousand ids learns nothing of the next, and nobody ends the lease of another by guessing. A
 * system call for each would cost 300 ns, ten times all of it. A process that begins as a copy of this one takes a key
 * of its own: with this one's it would make the same ids, and end leases that others hold.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; a PRF of a counter as generator: NIST SP
 * 800-90A's CTR_DRBG, without its reseeding: a process that can read this one's memory can read the store as well. */
#include "hosts/admission/ids.h"

#include "base/out.h"
#include "base/siphash.h"

#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

static _Thread_local struct { uint64_t key[2], count; /* 0: no key yet */ } generator;

static bool watches_forks;

/* In the child, whose only thread is the one that forked. */
static void forget_key(void) {
	generator.count = 0;
}

static void watch_forks(void) {
	watches_forks = pthread_atfork(NULL, NULL, forget_key) == 0;
}

/* Blocks only until the host has gathered its first randomness, at boot. */
static __attribute__((noinline)) bool seed(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t have = 0;
	(void)pthread_once(&once, watch_forks);
	if (!watches_forks)
		return false;
	while (have < sizeof generator.key) {
		ssize_t got = getrandom((char *)generator.key + have, sizeof generator.key - have, 0);
		if (got < 0 && errno != EINTR)
			return false;
		have += got > 0 ? (size_t)got : 0;
	}
	return true;
}

struct sluice_bytes sl_make_id(char text[SL_ID_DIGITS + 1]) {
	uint64_t number;
	text[0] = '\0';
	if (generator.count == 0 && !seed())
		return sl_slice(text, 0);
	do {
		generator.count++;
		number = sl_siphash(generator.key, &generator.count, 1, sl_slice(NULL, 0), 2, 4);
	} while (number == 0);
	sl_hex_text(text, number);
	return sl_slice(text, SL_ID_DIGITS);
}
