/* Who asked how often, and who was denied how often, over any number of keys in bounded memory.
 *
 *   slot: hash of the key (64 bits of a keyed SipHash) | requests | denied | where its text stands
 *
 * Open addressing, doubled when three quarters full, until `slots_max` (2^21: 64 MiB). A full table of that size drops
 * the keys that were never denied: what is wanted is the worst, and those are not among them. Should one of them come
 * again, its requests from before are forgotten (requests_at_least). Only when more than half of the slots hold limited
 * keys is there nothing left to drop; from then on new keys are not counted (keys_at_least). The text of a key is kept
 * from its first denial, in at most `text_max` bytes (64 MiB).
 *
 * Keys of at most sixteen bytes that came lately are known by these, in a small memo of where their slots are: most
 * lines of a log are of few clients, and then nothing is hashed. Whoever chooses keys that push each other out of it
 * makes them cost what others do.
 *
 * Two keys are taken for one if 64 bits of their hashes agree: with a million keys, once in 37 million replays. */
#ifndef SL_CLI_REPLAY_STATS_H
#define SL_CLI_REPLAY_STATS_H

#include "base/bytes.h"

enum {
	SL_REPLAY_STATS_SLOTS_MAX = 1 << 21,
	SL_REPLAY_STATS_TEXT_MAX = 64 * 1024 * 1024,
	SL_REPLAY_STATS_WORST_MAX = 1000,
	SL_REPLAY_STATS_MEMO = 512, /* a power of two */
};

struct sl_replay_stats_slot {
	uint64_t hash; /* 0: free */
	uint64_t requests, denied;
	uint32_t text_at, text_len; /* of the key, in `text`; len 0: not kept */
};

/* A key of `len` bytes, 1..16, as two words: of one that is shorter its bytes, overlapping. len 0: none. */
struct sl_replay_stats_memo {
	uint64_t first, last;
	uint32_t len, slot;
};

struct sl_replay_stats {
	struct sl_replay_stats_slot *slots;
	uint32_t slot_count, slots_max; /* powers of two */
	uint32_t used;
	char *text;
	uint32_t text_len, text_capacity, text_max;
	uint64_t secret[2];
	uint64_t keys, limited; /* different keys met; of them, those denied at least once */
	bool requests_at_least; /* some keys' `requests`, and `keys`, may be too small or too great: see above */
	bool keys_at_least;     /* `keys` and `limited` are too small */
	struct sl_replay_stats_memo memo[SL_REPLAY_STATS_MEMO]; /* forgotten when slots move */
};

/* Begins with nothing counted. False when the system gives no memory or no random bytes. */
bool sl_replay_stats_open(struct sl_replay_stats *stats, uint32_t slots_max, uint32_t text_max);
void sl_replay_stats_close(struct sl_replay_stats *stats);

/* Counts one request of a key. Amortised O(1); false when the system gives no memory. */
bool sl_replay_stats_add(struct sl_replay_stats *stats, struct sluice_bytes key, bool denied);

/* The `count` (<= SL_REPLAY_STATS_WORST_MAX) limited keys with most denials, the worst first; then by requests, then by
 * text. Fills `worst` with slots and returns how many there are. */
uint32_t sl_replay_stats_worst(const struct sl_replay_stats *stats, struct sl_replay_stats_slot *worst, uint32_t count);

/* The text of a slot that sl_replay_stats_worst() gave. */
struct sluice_bytes sl_replay_stats_text(const struct sl_replay_stats *stats, const struct sl_replay_stats_slot *slot);

#endif
