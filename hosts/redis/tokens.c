/* See tokens.h. */
#include "hosts/redis/tokens.h"

#include "base/math.h"
#include "base/siphash.h"
#include "hosts/redis/companion.h"
#include "hosts/redis/memory.h"

#include <stdlib.h>

enum { ROOM_MIN = 8, ROOM_MAX = 2 * SLR_TOKENS_MAX };

static uint64_t place_secret[2];

void slr_tokens_keep_secret(const uint64_t secret[2]) {
	memcpy(place_secret, secret, sizeof place_secret);
}

static struct slr_counter *tokens_of(slr_value value, struct slr_counter *scratch) {
	return slr_companion_find(value, SLR_COMPANION_TOKENS, (struct sl_identity){0, 0}, scratch);
}

static uint32_t room_of(const struct sl_state *state) {
	return (uint32_t)(slr_companion_room(state) / sizeof(struct slr_token));
}

/* Where a hash stands, or the free place where it would. There is one: tables are at most half full. */
static uint32_t place_of(const struct slr_token *table, uint32_t room, uint64_t hash) {
	uint32_t at = (uint32_t)sl_siphash(place_secret, &hash, 1, sl_slice(NULL, 0), 1, 3) & (room - 1);
	while (table[at].hash != 0 && table[at].hash != hash)
		at = (at + 1) & (room - 1);
	return at;
}

const struct slr_token *slr_token_find(slr_value value, uint64_t hash, sluice_ns now) {
	struct slr_counter scratch, *companion = tokens_of(value, &scratch);
	const struct slr_token *table, *token;
	if (companion == NULL)
		return NULL;
	table = (const void *)slr_counter_bytes(companion);
	token = &table[place_of(table, room_of(&companion->state), hash)];
	return token->hash != 0 && token->end > now ? token : NULL;
}

bool slr_token_fits(slr_value value, uint32_t rows) {
	struct slr_counter scratch;
	return slr_value_count(value) + rows < SLR_COUNTERS_MAX || tokens_of(value, &scratch) != NULL;
}

/* ---- making a table anew ----------------------------------------------------------------------------------------- */

/* The number of a list that so many are less than; `*nth` is then how many of its equals are to come before it. Byte by
 * byte from the highest, so that no order of the list makes it slow. */
static uint64_t nth_of(const uint64_t *list, uint32_t count, uint32_t *nth) {
	uint64_t found = 0;
	for (int shift = 56; shift >= 0; shift -= 8) {
		uint32_t counts[256] = {0}, byte = 0;
		for (uint32_t i = 0; i < count; i++)
			if (shift == 56 || list[i] >> (shift + 8) == found)
				counts[list[i] >> shift & 0xff]++;
		while (*nth >= counts[byte])
			*nth -= counts[byte++];
		found = found << 8 | byte;
	}
	return found;
}

/* What ends before it goes; of what ends then, what has a lesser hash. */
struct cut {
	sluice_ns end;
	uint64_t hash;
};

static bool stays(const struct slr_token *token, struct cut cut) {
	return token->hash != 0 && (token->end > cut.end || (token->end == cut.end && token->hash >= cut.hash));
}

/* The cut after one before which so many more go. */
static struct cut further_cut(const struct slr_token *table, uint32_t room, struct cut cut, uint32_t count) {
	uint64_t *list = slr_take(room * sizeof *list);
	uint32_t used = 0;
	for (uint32_t i = 0; i < room; i++)
		if (stays(&table[i], cut))
			list[used++] = table[i].end;
	cut = (struct cut){nth_of(list, used, &count), 0};
	used = 0;
	for (uint32_t i = 0; i < room; i++)
		if (table[i].hash != 0 && table[i].end == cut.end)
			list[used++] = table[i].hash;
	cut.hash = nth_of(list, used, &count);
	slr_give(list);
	return cut;
}

/* Puts down what stays of another table, and counts it. False: one stood there twice. */
static bool put_staying(struct slr_token *table, uint32_t room, const struct slr_token *from, uint32_t from_room,
                        struct cut cut, uint32_t *used) {
	memset(table, 0, room * sizeof *table);
	*used = 0;
	for (uint32_t i = 0; i < from_room; i++) {
		uint32_t at;
		if (!stays(&from[i], cut))
			continue;
		at = place_of(table, room, from[i].hash);
		if (table[at].hash != 0)
			return false;
		table[at] = from[i];
		++*used;
	}
	return true;
}

/* A table of what stays of another one, a quarter full at most where it can be, and without the half of it that ends
 * first where that is too much (T3). NULL: one stood there twice. */
static struct slr_token *made_anew(const struct slr_token *old, uint32_t old_room, struct cut cut, uint32_t *room,
                                   uint32_t *used) {
	uint32_t live = 0;
	struct slr_token *table;
	for (uint32_t i = 0; i < old_room; i++)
		live += stays(&old[i], cut);
	if (live > SLR_TOKENS_KEPT) {
		cut = further_cut(old, old_room, cut, live - live / 2);
		live /= 2;
	}
	for (*room = ROOM_MIN; *room < ROOM_MAX && *room / 4 < live;)
		*room *= 2;
	table = slr_block_take(*room * sizeof *table);
	if (put_staying(table, *room, old, old_room, cut, used))
		return table;
	slr_block_give(table);
	return NULL;
}

static void remake(struct slr_counter *companion, sluice_ns now) {
	const struct slr_token *old = companion->more != NULL ? (const void *)slr_counter_bytes(companion) : NULL;
	uint32_t room, used;
	struct slr_token *table = made_anew(old, room_of(&companion->state), (struct cut){now + 1, 0}, &room, &used);
	SL_ASSERT(table != NULL && used <= SLR_TOKENS_KEPT);
	slr_counter_set_block(companion, table, room * sizeof *table);
	slr_companion_set_used(&companion->state, used);
}

void slr_token_add(slr_value *value, const struct slr_token *token, int64_t until_ms) {
	struct sl_identity identity = slr_companion_of(SLR_COMPANION_TOKENS, (struct sl_identity){0, 0});
	struct slr_counter *companion = slr_value_gather(value, identity, &until_ms);
	struct slr_token *table;
	uint32_t at;
	if (slr_companion_used(&companion->state) * 2 >= room_of(&companion->state))
		remake(companion, token->at);
	table = (void *)slr_counter_bytes(companion);
	at = place_of(table, room_of(&companion->state), token->hash);
	if (table[at].hash == 0)
		slr_companion_set_used(&companion->state, slr_companion_used(&companion->state) + 1u);
	table[at] = *token;
	companion->state.w[0] = sl_max(companion->state.w[0], token->at);
}

/* ---- as bytes ---------------------------------------------------------------------------------------------------- */

/* A token of a table, by where it stands in the saved one: by the low bits of its hash. */
struct ordered {
	uint64_t key; /* the hash, turned so that those come first */
	uint32_t at;
};

static int compare(const void *a, const void *b) {
	const struct ordered *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

/* Put down in the order of their places each stands at its own or at the next that is free: nothing is walked over, as
 * it would be if chosen hashes were put down in any other. */
static void put_in_order(struct slr_token *to, const struct slr_token *table, uint32_t room, struct ordered *list,
                         uint32_t used) {
	uint32_t next = 0, around = 0;
	for (uint32_t i = 0; i < used; i++) {
		const struct slr_token *token = &table[list[i].at];
		uint32_t at = (uint32_t)sl_max(token->hash & (room - 1), next);
		if (at == room) { /* past the end: at the first that are free */
			while (to[around].hash != 0)
				around++;
			at = around;
		} else {
			next = at + 1;
		}
		to[at] = *token;
	}
}

void *slr_tokens_saved(const void *table, uint64_t bytes) {
	const struct slr_token *from = table;
	uint32_t room = (uint32_t)(bytes / sizeof *from), used = 0, bits = (uint32_t)__builtin_ctz(room);
	struct slr_token *to = slr_take(bytes);
	struct ordered *list = slr_take(room * sizeof *list);
	for (uint32_t i = 0; i < room; i++)
		if (from[i].hash != 0)
			list[used++] = (struct ordered){from[i].hash << (64 - bits) | from[i].hash >> bits, i};
	qsort(list, used, sizeof *list, compare);
	memset(to, 0, bytes);
	put_in_order(to, from, room, list, used);
	slr_give(list);
	return to;
}

/* Whether all but the places of a table is as it may be. More than half full were tables of earlier builds. */
static bool entries_are_valid(const struct slr_token *table, uint64_t bytes, const struct sl_state *state,
                              uint64_t used_max) {
	uint64_t room = bytes / sizeof *table, count = 0;
	if (room < ROOM_MIN || room > ROOM_MAX || (room & (room - 1)) != 0 || bytes != room * sizeof *table ||
	    state->w[0] > SLR_INSTANT_MAX)
		return false;
	for (uint32_t i = 0; i < room; i++) {
		if (table[i].hash == 0)
			continue;
		if (table[i].end > SLR_INSTANT_MAX || table[i].at > SLR_INSTANT_MAX || table[i].zero != 0)
			return false;
		count++;
	}
	return count != 0 && count == slr_companion_used(state) && count <= used_max;
}

bool slr_tokens_load(struct sl_counter *counter) {
	const struct cut all = {0, 0};
	struct slr_token *table, *saved = counter->block;
	uint32_t saved_room = (uint32_t)(counter->block_bytes / sizeof *table), room = saved_room, used;
	if (saved == NULL || !entries_are_valid(saved, counter->block_bytes, &counter->state, saved_room))
		return false;
	if (slr_companion_used(&counter->state) > saved_room / 2) {
		table = made_anew(saved, saved_room, all, &room, &used);
	} else {
		table = slr_block_take(counter->block_bytes);
		if (!put_staying(table, room, saved, room, all, &used)) {
			slr_block_give(table);
			table = NULL;
		}
	}
	if (table == NULL)
		return false;
	slr_block_give(saved);
	counter->block = table;
	counter->block_bytes = room * sizeof *table;
	slr_companion_set_used(&counter->state, used);
	return true;
}

bool slr_tokens_are_valid(const struct sl_state *state, const void *table) {
	const struct slr_token *tokens = table;
	uint32_t room = room_of(state);
	if (!entries_are_valid(tokens, slr_companion_room(state), state, room / 2))
		return false;
	for (uint32_t i = 0; i < room; i++)
		if (tokens[i].hash != 0 && place_of(tokens, room, tokens[i].hash) != i)
			return false;
	return true;
}
