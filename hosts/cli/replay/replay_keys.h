/* The different keys that a replay has left in a Redis, to take them away again.
 *
 *   slots: 64 bits of a keyed SipHash, open addressing, doubled when three quarters full
 *   text:  length (4 bytes), key; one after the other
 *
 * Two keys are taken for one if their hashes agree: with a million keys, once in 37 million replays; the one that is
 * missed then ends by itself, later. */
#ifndef SL_CLI_REPLAY_KEYS_H
#define SL_CLI_REPLAY_KEYS_H

#include "base/bytes.h"

struct sl_replay_keys {
	uint64_t *slots; /* 0: free */
	size_t slot_count, count;
	char *text;
	size_t text_len, text_room, bytes_max;
	uint64_t secret[2];
};

/* Begins an empty set that may take `bytes_max` of memory. False when the system gives no memory or no random bytes. */
bool sl_replay_keys_open(struct sl_replay_keys *keys, size_t bytes_max);
void sl_replay_keys_close(struct sl_replay_keys *keys);

/* Adds a key, unless it is there. Amortised O(1). False when there is no more memory, or no more allowed. */
bool sl_replay_keys_add(struct sl_replay_keys *keys, struct sluice_bytes key);

/* Walks over all keys: *at begins as 0. False at the end. The key is valid until the next change. */
bool sl_replay_keys_next(const struct sl_replay_keys *keys, size_t *at, struct sluice_bytes *key);

#endif
