#include "hosts/cli/replay_tally.h"

#include "base/assert.h"
#include "base/siphash.h"
#include "os/map.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 1024, TEXT_FIRST = 64 * 1024 };

bool sl_tally_open(struct sl_replay_tally *tally, uint32_t slots_max, uint32_t text_max) {
	SL_ASSERT(slots_max >= 4 && (slots_max & (slots_max - 1)) == 0);
	*tally = (struct sl_replay_tally){.slots_max = slots_max, .text_max = text_max};
	tally->slot_count = slots_max < SLOTS_FIRST ? slots_max : SLOTS_FIRST;
	tally->slots = calloc(tally->slot_count, sizeof *tally->slots);
	return tally->slots != NULL && sl_random_secret(tally->secret);
}

void sl_tally_close(struct sl_replay_tally *tally) {
	free(tally->slots);
	free(tally->text);
}

/* The slot of a hash, or the free one where it belongs. There is always a free one: at most 3/4 are used. */
static struct sl_tally_slot *find(struct sl_tally_slot *slots, uint32_t slot_count, uint64_t hash) {
	uint32_t at = (uint32_t)hash & (slot_count - 1);
	while (slots[at].hash != 0 && slots[at].hash != hash)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

/* Moves the slots (all of them, or the limited ones) to a table of another size. */
static bool rebuild(struct sl_replay_tally *tally, uint32_t slot_count, bool limited_only) {
	struct sl_tally_slot *slots = calloc(slot_count, sizeof *slots);
	if (slots == NULL)
		return false;
	tally->used = 0;
	for (uint32_t i = 0; i < tally->slot_count; i++) {
		const struct sl_tally_slot *old = &tally->slots[i];
		if (old->hash == 0 || (limited_only && old->denied == 0))
			continue;
		*find(slots, slot_count, old->hash) = *old;
		tally->used++;
	}
	free(tally->slots);
	tally->slots = slots;
	tally->slot_count = slot_count;
	return true;
}

/* Makes room for one more key: doubles, else drops those never denied, else says that there is none. */
static bool make_room(struct sl_replay_tally *tally, bool *room) {
	*room = true;
	if ((uint64_t)tally->used * 4 < (uint64_t)tally->slot_count * 3)
		return true;
	if (tally->slot_count < tally->slots_max)
		return rebuild(tally, tally->slot_count * 2, false);
	if (tally->limited <= tally->slot_count / 2 && !tally->keys_at_least) {
		tally->requests_at_least = true;
		return rebuild(tally, tally->slot_count, true);
	}
	tally->keys_at_least = true;
	*room = false;
	return true;
}

/* Keeps a key's text, if there is room for it: it is for people to read, nothing is decided by it. */
static bool keep_text(struct sl_replay_tally *tally, struct sl_tally_slot *slot, struct sluice_bytes key) {
	if (key.len > tally->text_max - tally->text_len || key.len == 0)
		return true;
	if (key.len > tally->text_capacity - tally->text_len) {
		uint64_t capacity = tally->text_capacity != 0 ? tally->text_capacity : TEXT_FIRST;
		while (capacity < (uint64_t)tally->text_len + key.len)
			capacity *= 2;
		char *text = realloc(tally->text, capacity);
		if (text == NULL)
			return false;
		tally->text = text;
		tally->text_capacity = (uint32_t)capacity;
	}
	slot->text_at = tally->text_len;
	slot->text_len = (uint32_t)key.len;
	memcpy(tally->text + tally->text_len, key.data, key.len);
	tally->text_len += slot->text_len;
	return true;
}

bool sl_tally_add(struct sl_replay_tally *tally, struct sluice_bytes key, bool denied) {
	uint64_t hash = sl_siphash(tally->secret, NULL, 0, key, 1, 3);
	hash += hash == 0; /* 0 says free */
	struct sl_tally_slot *slot = find(tally->slots, tally->slot_count, hash);
	if (slot->hash == 0) {
		bool room;
		if (!make_room(tally, &room))
			return false;
		if (!room)
			return true;
		slot = find(tally->slots, tally->slot_count, hash);
		slot->hash = hash;
		tally->used++;
		tally->keys++;
	}
	slot->requests++;
	slot->denied += denied;
	if (!denied || slot->denied > 1)
		return true;
	tally->limited++;
	return keep_text(tally, slot, key);
}

struct sluice_bytes sl_tally_text(const struct sl_replay_tally *tally, const struct sl_tally_slot *slot) {
	return slot->text_len == 0 ? sl_slice("", 0) : sl_slice(tally->text + slot->text_at, slot->text_len);
}

static bool is_worse(const struct sl_replay_tally *tally, const struct sl_tally_slot *a,
                     const struct sl_tally_slot *b) {
	if (a->denied != b->denied)
		return a->denied > b->denied;
	if (a->requests != b->requests)
		return a->requests > b->requests;
	struct sluice_bytes x = sl_tally_text(tally, a), y = sl_tally_text(tally, b);
	int order = memcmp(x.data, y.data, x.len < y.len ? x.len : y.len);
	return order != 0 ? order < 0 : x.len < y.len;
}

uint32_t sl_tally_worst(const struct sl_replay_tally *tally, struct sl_tally_slot *worst, uint32_t count) {
	uint32_t got = 0;
	for (uint32_t i = 0; i < tally->slot_count && count > 0; i++) {
		const struct sl_tally_slot *slot = &tally->slots[i];
		if (slot->denied == 0 || (got == count && !is_worse(tally, slot, &worst[got - 1])))
			continue;
		uint32_t at = got < count ? got++ : got - 1; /* the last one makes room */
		for (; at > 0 && is_worse(tally, slot, &worst[at - 1]); at--)
			worst[at] = worst[at - 1];
		worst[at] = *slot;
	}
	return got;
}
