/* See replay_stats.h. Memory is bounded, so a log of any size can be replayed. */
#include "hosts/cli/replay/replay_stats.h"

#include "base/assert.h"
#include "base/siphash.h"
#include "os/map.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 1024, TEXT_FIRST = 64 * 1024 };

bool sl_replay_stats_open(struct sl_replay_stats *stats, uint32_t slots_max, uint32_t text_max) {
	SL_ASSERT(slots_max >= 4 && (slots_max & (slots_max - 1)) == 0);
	*stats = (struct sl_replay_stats){.slots_max = slots_max, .text_max = text_max};
	stats->slot_count = slots_max < SLOTS_FIRST ? slots_max : SLOTS_FIRST;
	stats->slots = calloc(stats->slot_count, sizeof *stats->slots);
	return stats->slots != NULL && sl_random_secret(stats->secret);
}

void sl_replay_stats_close(struct sl_replay_stats *stats) {
	free(stats->slots);
	free(stats->text);
}

/* The slot of a hash, or the free one where it belongs. There is always a free one: at most 3/4 are used. */
static struct sl_replay_stats_slot *find(struct sl_replay_stats_slot *slots, uint32_t slot_count, uint64_t hash) {
	uint32_t at = (uint32_t)hash & (slot_count - 1);
	while (slots[at].hash != 0 && slots[at].hash != hash)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

/* Moves the slots (all of them, or the limited ones) to a table of another size. */
static bool rebuild(struct sl_replay_stats *stats, uint32_t slot_count, bool limited_only) {
	struct sl_replay_stats_slot *slots = calloc(slot_count, sizeof *slots);
	if (slots == NULL)
		return false;
	stats->used = 0;
	for (uint32_t i = 0; i < stats->slot_count; i++) {
		const struct sl_replay_stats_slot *old = &stats->slots[i];
		if (old->hash == 0 || (limited_only && old->denied == 0))
			continue;
		*find(slots, slot_count, old->hash) = *old;
		stats->used++;
	}
	free(stats->slots);
	memset(stats->memo, 0, sizeof stats->memo);
	stats->slots = slots;
	stats->slot_count = slot_count;
	return true;
}

/* Makes room for one more key: doubles, else drops those never denied, else says that there is none. */
static bool make_room(struct sl_replay_stats *stats, bool *room) {
	*room = true;
	if ((uint64_t)stats->used * 4 < (uint64_t)stats->slot_count * 3)
		return true;
	if (stats->slot_count < stats->slots_max)
		return rebuild(stats, stats->slot_count * 2, false);
	if (stats->limited <= stats->slot_count / 2 && !stats->keys_at_least) {
		stats->requests_at_least = true;
		return rebuild(stats, stats->slot_count, true);
	}
	stats->keys_at_least = true;
	*room = false;
	return true;
}

/* Keeps a key's text, if there is room for it: it is for people to read, nothing is decided by it. */
static bool keep_text(struct sl_replay_stats *stats, struct sl_replay_stats_slot *slot, struct sluice_bytes key) {
	if (key.len > stats->text_max - stats->text_len || key.len == 0)
		return true;
	if (key.len > stats->text_capacity - stats->text_len) {
		uint64_t capacity = stats->text_capacity != 0 ? stats->text_capacity : TEXT_FIRST;
		while (capacity < (uint64_t)stats->text_len + key.len)
			capacity *= 2;
		char *text = realloc(stats->text, capacity);
		if (text == NULL)
			return false;
		stats->text = text;
		stats->text_capacity = (uint32_t)capacity;
	}
	slot->text_at = stats->text_len;
	slot->text_len = (uint32_t)key.len;
	memcpy(stats->text + stats->text_len, key.data, key.len);
	stats->text_len += slot->text_len;
	return true;
}

/* The slot of a key, a new one if it has none; *slot is NULL where there is no room. False without memory. */
static bool take_slot(struct sl_replay_stats *stats, struct sluice_bytes key, struct sl_replay_stats_slot **slot) {
	uint64_t hash = sl_siphash(stats->secret, NULL, 0, key, 1, 3);
	bool room;
	hash += hash == 0; /* 0 says free */
	*slot = find(stats->slots, stats->slot_count, hash);
	if ((*slot)->hash != 0)
		return true;
	if (!make_room(stats, &room))
		return false;
	*slot = room ? find(stats->slots, stats->slot_count, hash) : NULL;
	if (!room)
		return true;
	(*slot)->hash = hash;
	stats->used++;
	stats->keys++;
	return true;
}

/* A key as two words, which with its length say all of it; where it has its place in the memo. NULL: it is too long. */
static inline struct sl_replay_stats_memo *remember(struct sl_replay_stats *stats, struct sluice_bytes key,
                                                    uint64_t words[2]) {
	const char *p = key.data;
	if (key.len - 1 >= 16)
		return NULL;
	words[0] = words[1] = 0;
	if (key.len >= 8) {
		memcpy(&words[0], p, 8);
		memcpy(&words[1], p + key.len - 8, 8);
	} else {
		memcpy(&words[0], p, key.len);
	}
	uint64_t mixed = (words[0] ^ sl_rotate(words[1], 29)) * UINT64_C(0x9e3779b97f4a7c15);
	return &stats->memo[mixed >> 32 & (SL_REPLAY_STATS_MEMO - 1)];
}

bool sl_replay_stats_add(struct sl_replay_stats *stats, struct sluice_bytes key, bool denied) {
	uint64_t words[2];
	struct sl_replay_stats_memo *memo = remember(stats, key, words);
	struct sl_replay_stats_slot *slot;
	if (memo != NULL && memo->len == key.len && memo->first == words[0] && memo->last == words[1]) {
		slot = &stats->slots[memo->slot];
	} else {
		if (!take_slot(stats, key, &slot))
			return false;
		if (slot == NULL)
			return true;
		if (memo != NULL)
			*memo = (struct sl_replay_stats_memo){words[0], words[1], (uint32_t)key.len,
			                                      (uint32_t)(slot - stats->slots)};
	}
	slot->requests++;
	slot->denied += denied;
	if (!denied || slot->denied > 1)
		return true;
	stats->limited++;
	return keep_text(stats, slot, key);
}

struct sluice_bytes sl_replay_stats_text(const struct sl_replay_stats *stats, const struct sl_replay_stats_slot *slot) {
	return slot->text_len == 0 ? sl_slice("", 0) : sl_slice(stats->text + slot->text_at, slot->text_len);
}

static bool is_worse(const struct sl_replay_stats *stats, const struct sl_replay_stats_slot *a,
                     const struct sl_replay_stats_slot *b) {
	if (a->denied != b->denied)
		return a->denied > b->denied;
	if (a->requests != b->requests)
		return a->requests > b->requests;
	struct sluice_bytes x = sl_replay_stats_text(stats, a), y = sl_replay_stats_text(stats, b);
	int order = memcmp(x.data, y.data, x.len < y.len ? x.len : y.len);
	return order != 0 ? order < 0 : x.len < y.len;
}

uint32_t sl_replay_stats_worst(const struct sl_replay_stats *stats, struct sl_replay_stats_slot *worst,
                               uint32_t count) {
	uint32_t got = 0;
	for (uint32_t i = 0; i < stats->slot_count && count > 0; i++) {
		const struct sl_replay_stats_slot *slot = &stats->slots[i];
		if (slot->denied == 0 || (got == count && !is_worse(stats, slot, &worst[got - 1])))
			continue;
		uint32_t at = got < count ? got++ : got - 1; /* the last one makes room */
		for (; at > 0 && is_worse(stats, slot, &worst[at - 1]); at--)
			worst[at] = worst[at - 1];
		worst[at] = *slot;
	}
	return got;
}
