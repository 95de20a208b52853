/* bench: in this process (bench.c), or a server that runs (bench_live.c). What both share. */
#ifndef SL_CLI_BENCH_H
#define SL_CLI_BENCH_H

#include "hosts/cli/cli.h"
#include "hosts/cli/client.h"

enum {
	SL_BENCH_LIMITS_MAX = 16,
	SL_BENCH_KEY_BYTES = 20,
};

/* xorshift64*: chance that need not be good. The state is not 0. */
static inline uint64_t sl_bench_draw(uint64_t *state) {
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* A key such as "bench:00000000000042": twenty bytes, the length of many a user's id. Returns it in `text`. */
static inline struct sluice_bytes sl_bench_key(char text[SL_BENCH_KEY_BYTES], uint64_t number) {
	memcpy(text, "bench:", 6);
	for (int i = SL_BENCH_KEY_BYTES - 1; i >= 6; i--, number /= 10)
		text[i] = (char)('0' + number % 10);
	return sl_slice(text, SL_BENCH_KEY_BYTES);
}

/* How a server is driven. */
struct sl_bench_live {
	struct sl_client_options server;
	const struct sluice_limit *limits; /* every request asks for all of them: at least one, none with seats */
	uint32_t limit_count;
	uint32_t keys, cost;
	uint32_t rate;    /* requests a second in all; 0: as fast as the clients go */
	uint32_t burst;   /* so many come at once */
	uint32_t clients; /* connections, of a thread each */
	uint32_t skew;    /* percent of the requests that ask for the first fifth of the keys, and so on in it; 20: even */
	sluice_ns duration, think;
	bool audit;
};

enum { SL_BENCH_CLIENTS_MAX = 256, SL_BENCH_BURST_MAX = 1000, SL_BENCH_AUDIT_BYTES_MAX = 1 << 30 };

/* Drives it, and prints what came of it. SL_EXIT_FINE; SL_EXIT_DENIED where the audit found a bound exceeded;
 * SL_EXIT_FAILED after saying why. */
int sl_bench_live_run(const struct sl_verb *verb, const struct sl_bench_live *live);

#endif
