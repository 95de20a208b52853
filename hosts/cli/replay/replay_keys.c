/* See replay_keys.h. A replay must leave a Redis as it found it, however many keys the log had. */
#include "hosts/cli/replay/replay_keys.h"

#include "base/siphash.h"
#include "os/map.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 1024, TEXT_FIRST = 64 * 1024, LENGTH_BYTES = 4 };

bool sl_replay_keys_open(struct sl_replay_keys *keys, size_t bytes_max) {
	*keys = (struct sl_replay_keys){.slot_count = SLOTS_FIRST, .text_room = TEXT_FIRST, .bytes_max = bytes_max};
	keys->slots = calloc(keys->slot_count, sizeof *keys->slots);
	keys->text = malloc(keys->text_room);
	return keys->slots != NULL && keys->text != NULL && sl_random_secret(keys->secret);
}

void sl_replay_keys_close(struct sl_replay_keys *keys) {
	free(keys->slots);
	free(keys->text);
}

static uint64_t *find(uint64_t *slots, size_t slot_count, uint64_t hash) {
	size_t at = hash & (slot_count - 1);
	while (slots[at] != 0 && slots[at] != hash)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

static bool may_take(const struct sl_replay_keys *keys, size_t slot_count, size_t text_room) {
	return slot_count * sizeof *keys->slots + text_room <= keys->bytes_max;
}

static bool grow_slots(struct sl_replay_keys *keys) {
	size_t count = keys->slot_count * 2;
	uint64_t *slots = may_take(keys, count, keys->text_room) ? calloc(count, sizeof *slots) : NULL;
	if (slots == NULL)
		return false;
	for (size_t i = 0; i < keys->slot_count; i++)
		if (keys->slots[i] != 0)
			*find(slots, count, keys->slots[i]) = keys->slots[i];
	free(keys->slots);
	keys->slots = slots;
	keys->slot_count = count;
	return true;
}

static bool grow_text(struct sl_replay_keys *keys, size_t more) {
	size_t room = keys->text_room;
	while (room - keys->text_len < more)
		room *= 2;
	char *text = may_take(keys, keys->slot_count, room) ? realloc(keys->text, room) : NULL;
	if (text == NULL)
		return false;
	keys->text = text;
	keys->text_room = room;
	return true;
}

bool sl_replay_keys_add(struct sl_replay_keys *keys, struct sluice_bytes key) {
	uint64_t hash = sl_siphash(keys->secret, NULL, 0, key, 1, 3);
	uint32_t len = (uint32_t)key.len;
	hash += hash == 0; /* 0 is a free slot */
	uint64_t *slot = find(keys->slots, keys->slot_count, hash);
	if (*slot != 0)
		return true;
	if (keys->count * 4 >= keys->slot_count * 3) {
		if (!grow_slots(keys))
			return false;
		slot = find(keys->slots, keys->slot_count, hash);
	}
	if (keys->text_room - keys->text_len < LENGTH_BYTES + key.len && !grow_text(keys, LENGTH_BYTES + key.len))
		return false;
	*slot = hash;
	keys->count++;
	memcpy(keys->text + keys->text_len, &len, LENGTH_BYTES);
	if (len != 0)
		memcpy(keys->text + keys->text_len + LENGTH_BYTES, key.data, len);
	keys->text_len += LENGTH_BYTES + len;
	return true;
}

bool sl_replay_keys_next(const struct sl_replay_keys *keys, size_t *at, struct sluice_bytes *key) {
	uint32_t len;
	if (*at >= keys->text_len)
		return false;
	memcpy(&len, keys->text + *at, LENGTH_BYTES);
	*key = sl_slice(keys->text + *at + LENGTH_BYTES, len);
	*at += LENGTH_BYTES + len;
	return true;
}
