/* Quotas of keys' own, set at run time: companions of counters that stay when those go.
 *
 * Each is a slot of the counter's home, with a tag by which nobody evicts it (store/layout.h I9). Its 16 bytes say
 * quota and end (algo/override.h), so that a decision reads nothing more than the bucket that it has locked; its block
 * says whose it is, for people, and the burst of a bucket that is not its quota.
 *
 *   block   u32 burst | u16 bytes of the limit's name | u16 of the key | u16 of the notation | u16 0 | the three texts
 *
 * It is looked for only where the store's header says that there are any. It is set in a block anew, within a change of
 * the blocks, so that a death leaves the quota before or the one after, and never something of both. */
#include "check/part.h"

#include "base/fold.h"
#include "base/out.h"
#include "store/scan.h"
#include "store/walk.h"

enum { PAGES_A_CALL = 1024 }; /* 5 to 10 ms, where each is full */

struct own_head {
	uint32_t burst;
	uint16_t name, key, text, zero;
};
_Static_assert(sizeof(struct own_head) == 12, "as the format says");

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static inline struct sl_slot *find(const struct sl_place *place) {
	struct sl_slot *slot = sl_slot_find(place);
	return slot != NULL && sl_marks_are_kept(sl_tag_marks(sl_slot_tag(slot))) ? slot : NULL;
}

static inline struct sl_place place_of(const struct sl_place *counter) {
	return sl_place_beside(counter, SL_BESIDE_OVERRIDE);
}

bool override_take(const struct sluice_store *store, struct part *m, sluice_ns now) {
	struct sl_place place = place_of(m->place);
	const struct sl_slot *slot = find(&place);
	const uint64_t *words;
	struct sl_own own;
	if (slot == NULL)
		return false;
	words = sl_slot_state(slot);
	if (now >= sl_own_end(words))
		return false;
	own = sl_own_read(words);
	if (own.burst_apart)
		own.burst = *(const uint32_t *)sl_block_memory(store, (uint32_t)words[1]);
	m->own = *m->cell.limit;
	if (!sl_own_apply(&own, &m->own))
		return false; /* damaged */
	m->cell.limit = &m->own;
	return true;
}

/* ---- setting ----------------------------------------------------------------------------------------------------- */

/* A quota that is to be written. */
struct setting {
	const struct sluice_override_request *request;
	struct sluice_bytes key; /* folded, if it is long */
	struct sl_place place;
	uint64_t words[2], bytes, units;
	sluice_ns life_ns;
	struct own_head head;
	char text[SLUICE_LIMIT_TEXT_MAX];
};

/* A text of no bytes may have no address. */
static uint8_t *put_text(uint8_t *to, const void *text, size_t len) {
	if (len != 0)
		memcpy(to, text, len);
	return to + len;
}

static void write_block(const struct setting *s, void *block) {
	uint8_t *to = put_text(block, &s->head, sizeof s->head);
	to = put_text(to, s->request->name.data, s->head.name);
	to = put_text(to, s->key.data, s->head.key);
	put_text(to, s->text, s->head.text);
}

/* Within a change for which the block was taken. */
static void publish(struct sluice_store *store, const struct setting *s, struct sl_slot *slot, uint32_t block,
                    uint32_t old) {
	const uint64_t words[2] = {s->words[0], s->words[1] | block};
	SL_ASSERT(block != 0 && (uint32_t)s->words[1] == 0);
	write_block(s, sl_block_memory(store, block));
	sl_block_own(store, block, slot);
	sl_blocks_save_slot(store, slot);
	sl_slot_publish(slot, words, SL_MARKS_KEPT, s->life_ns);
	if (old != 0)
		sl_blocks_free(store, old);
}

/* Takes a block and publishes. SLUICE_OK, SLUICE_E_FULL, or held up. */
static sluice_err write_anew(struct sluice_store *store, const struct setting *s, struct sl_slot *slot, uint32_t old,
                             sluice_ns now) {
	struct sl_pins pins = {.slots = {slot}, .count = 1};
	for (struct sl_room_search room = {0};;) {
		uint64_t true_bytes;
		sluice_err err = sl_blocks_begin(store);
		uint32_t block;
		if (err != SLUICE_OK)
			return err;
		block = sl_blocks_take(store, s->bytes, &true_bytes);
		if (block != 0) {
			publish(store, s, slot, block, old);
			sl_blocks_commit(store);
			return SLUICE_OK;
		}
		sl_blocks_abort(store);
		if (!sl_store_make_room(store, s->bytes, now, &pins, &room))
			return sl_blocks_why_full(store);
	}
}

/* Its home is locked, and it is counted. */
static sluice_err write_locked(struct sluice_store *store, const struct setting *s, struct sl_slot *slot,
                               sluice_ns now) {
	const struct sl_pins none = {.count = 0};
	uint32_t old = slot != NULL ? (uint32_t)sl_slot_state(slot)[1] : 0;
	bool claimed = slot == NULL;
	sluice_err err;
	if (now >= __atomic_load_n(&store->latest_ns, __ATOMIC_RELAXED))
		sl_store_raise_latest(store, now);
	if (claimed)
		slot = sl_slot_claim(store, &s->place, now, &none);
	if (slot == NULL)
		return sl_blocks_why_full(store);
	err = write_anew(store, s, slot, old, now);
	if (err != SLUICE_OK && claimed)
		(void)sl_slot_free(store, s->place.home, slot); /* it has no block yet */
	return err;
}

static sluice_err set_locked(struct sluice_store *store, const struct setting *s, sluice_ns now) {
	struct sl_slot *slot = find(&s->place);
	uint64_t most = sl_store_overrides_most(store), added = slot == NULL;
	uint32_t block = slot != NULL ? (uint32_t)sl_slot_state(slot)[1] : 0;
	uint64_t had = block != 0 ? sl_block_units(store, block) : 0, more = s->units > had ? s->units - had : 0;
	sluice_err err;
	if (s->request->most != 0 && s->request->most < most)
		most = s->request->most;
	/* one that there is can be changed although there are too many, as when the bound was lowered; of units it needs
	 * only what its block has more than the one that it replaces */
	if (!sl_store_count_override(store, added, more, added != 0 ? most : UINT64_MAX))
		return SLUICE_E_FULL;
	err = slot == NULL && sl_slot_find(&s->place) != NULL ? SLUICE_E_FULL : write_locked(store, s, slot, now);
	if (err != SLUICE_OK)
		sl_store_uncount_override(store, added, more);
	else if (had > s->units)
		sl_store_uncount_override(store, 0, had - s->units);
	return err;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static sluice_err fail(struct sluice_error *error, sluice_err err, const char *text, const char *why) {
	if (error != NULL) {
		struct sl_out out = sl_out_to(error->text, sizeof error->text - 1);
		sl_out_str(&out, text);
		sl_out_str(&out, why);
		*out.at = '\0';
		error->column = 0;
	}
	return err;
}

/* The rule of a limit for a key, and where the quota of that would be. False: it has no counter. */
static bool find_place(const struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                       struct sluice_limit *keyed, struct sl_place *place) {
	struct sluice_item item = {.limit = keyed, .key = key};
	struct sl_place counter;
	if (!sl_rule_has(limit, SL_HAS_COUNTER))
		return false;
	*keyed = *limit;
	sl_rule_key(keyed, key);
	counter = part_place(store, &item);
	*place = place_of(&counter);
	return true;
}

static bool is_asked(const struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key) {
	return store != NULL && limit != NULL && (key.data != NULL || key.len == 0);
}

static sluice_err check_request(const struct sluice_override_request *request, sluice_ns now,
                                struct sluice_error *error) {
	const char *why = sl_own_mismatch(request->limit, request->own);
	if (why != NULL)
		return fail(error, SLUICE_E_RANGE, SL_OWN_MISMATCH_TEXT, why);
	if (request->ttl_ns != 0 && (request->ttl_ns < SL_MS_NS || request->ttl_ns > SL_WINDOW_NS_MAX ||
	                             now > SLUICE_NEVER - 1 - request->ttl_ns))
		return fail(error, SLUICE_E_RANGE, SL_OWN_LASTS_TEXT, "");
	if (request->name.len > SLUICE_NAME_BYTES_MAX)
		return fail(error, SLUICE_E_RANGE, "the name of a limit has at most 64 bytes", "");
	return SLUICE_OK;
}

static void set_up(struct setting *s, const struct sluice_override_request *request, sluice_ns now) {
	s->request = request;
	s->head = (struct own_head){.burst = request->own->burst,
	                            .name = (uint16_t)request->name.len,
	                            .key = (uint16_t)s->key.len,
	                            .text = (uint16_t)sluice_limit_print(request->own, s->text)};
	s->bytes = sizeof s->head + s->head.name + s->head.key + s->head.text;
	s->units = sl_block_units_for(s->bytes);
	sl_own_pack(request->own, now, request->ttl_ns != 0 ? request->ttl_ns : SLUICE_NEVER, s->words, &s->life_ns);
}

/* Frees those that have ended, of some pages from that of a key on: they count until somebody needs their slots. */
static void sweep(struct sluice_store *store, const struct sl_place *place, sluice_ns now) {
	uint64_t page = (uint64_t)(sl_page_of(place->home) - store->pages);
	for (uint64_t left = sl_min(PAGES_A_CALL, store->page_count); left != 0; left--, page++) {
		struct sl_page *at = &store->pages[page % store->page_count];
		for (int i = 0; i < SL_PAGE_SLOTS; i++) {
			struct sl_slot *slot = &at->buckets[i / SL_BUCKET_SLOTS].slots[i % SL_BUCKET_SLOTS];
			uint64_t tag = sl_slot_tag(slot);
			if (sl_marks_are_kept(sl_tag_marks(tag)) && sl_slot_has_expired(slot, tag, now))
				(void)sl_slot_make_free(store, slot, NULL, false, now);
		}
	}
}

static sluice_err set_patiently(struct sluice_store *store, const struct setting *s, sluice_ns now) {
	sluice_err err;
	do {
		err = sl_home_lock(store, s->place.home);
		if (err != SLUICE_OK)
			continue;
		err = set_locked(store, s, now);
		sl_home_unlock(s->place.home);
	} while (sl_is_held_up(err) && sl_held_up_wait(store, &err));
	return err;
}

/* The public error of what a call was held up by, if it was. */
static sluice_err told(sluice_err err) {
	return sl_is_held_up(err) ? SLUICE_E_BUSY : err;
}

sluice_err sluice_override_set(struct sluice_store *store, const struct sluice_override_request *request, sluice_ns now,
                               struct sluice_error *error) {
	char folded[SLUICE_KEY_BYTES_MAX];
	struct setting s;
	struct sluice_limit keyed;
	sluice_err err;
	if (request == NULL || request->own == NULL || !is_asked(store, request->limit, request->key) ||
	    (request->name.data == NULL && request->name.len != 0))
		return fail(error, SLUICE_E_MISUSE, "a store, a limit, a key and a quota are needed", "");
	err = store->owner == 0 ? fail(error, SLUICE_E_BUSY, "this process has no room in the store", "")
	                        : check_request(request, now, error);
	if (err != SLUICE_OK || !find_place(store, request->limit, request->key, &keyed, &s.place))
		return err;
	s.key = sl_key_fold(folded, request->key);
	set_up(&s, request, now);
	err = set_patiently(store, &s, now);
	if (err == SLUICE_E_FULL) {
		sweep(store, &s.place, now);
		err = set_patiently(store, &s, now);
	}
	if (err == SLUICE_E_FULL)
		return fail(error, err, SL_OWN_FULL_TEXT "the store may hold, or it has no room", "");
	return err == SLUICE_OK ? err : fail(error, told(err), "another process has stopped with a lock in hand", "");
}

sluice_err sluice_override_delete(struct sluice_store *store, const struct sluice_limit *limit,
                                  struct sluice_bytes key, sluice_ns now) {
	struct sluice_limit keyed;
	struct sl_place place;
	sluice_err err;
	if (!is_asked(store, limit, key))
		return SLUICE_E_MISUSE;
	if (store->owner == 0)
		return SLUICE_E_BUSY;
	if (!find_place(store, limit, key, &keyed, &place))
		return SLUICE_E_NONE;
	do {
		struct sl_slot *slot;
		bool counts;
		err = sl_home_lock(store, place.home);
		if (err != SLUICE_OK)
			continue;
		slot = find(&place);
		counts = slot != NULL && now < sl_own_end(sl_slot_state(slot));
		err = slot != NULL ? sl_slot_free(store, place.home, slot) : SLUICE_OK;
		if (err == SLUICE_OK && !counts)
			err = SLUICE_E_NONE;
		sl_home_unlock(place.home);
	} while (sl_is_held_up(err) && sl_held_up_wait(store, &err));
	return told(err);
}

static sluice_ns wait_until(sluice_ns end, sluice_ns now) {
	return end == SLUICE_NEVER ? end : end - now;
}

bool override_tell(const struct sluice_store *store, const struct sl_place *counter, const struct sluice_limit *limit,
                   sluice_ns now, struct sluice_override *override) {
	struct part m = {.cell.limit = limit, .place = counter};
	struct sl_place place = place_of(counter);
	if (!override_take(store, &m, now))
		return false;
	override->limit = m.own;
	override->ends_after_ns = wait_until(sl_own_end(sl_slot_state(sl_slot_find(&place))), now);
	return true;
}

sluice_err sluice_override_get(struct sluice_store *store, const struct sluice_limit *limit, struct sluice_bytes key,
                               sluice_ns now, struct sluice_override *override) {
	struct sluice_limit keyed;
	struct sluice_item item = {.limit = &keyed, .key = key};
	struct sl_place counter;
	sluice_err err;
	if (!is_asked(store, limit, key) || override == NULL)
		return SLUICE_E_MISUSE;
	if (store->owner == 0)
		return SLUICE_E_BUSY;
	if (!sl_rule_has(limit, SL_HAS_COUNTER) || !sl_store_has_overrides(store))
		return SLUICE_E_NONE;
	keyed = *limit;
	sl_rule_key(&keyed, key);
	counter = part_place(store, &item);
	err = sl_home_lock_patiently(store, counter.home);
	if (err != SLUICE_OK)
		return told(err);
	err = override_tell(store, &counter, &keyed, now, override) ? SLUICE_OK : SLUICE_E_NONE;
	sl_home_unlock(counter.home);
	return err;
}

/* ---- listing ----------------------------------------------------------------------------------------------------- */

struct listing {
	void (*visit)(void *context, const struct sluice_override_entry *entry);
	void *context;
	sluice_ns now;
	uint32_t told;
};

/* Nothing is believed of what a block says. */
static bool list_one(void *context, const struct sl_entry *slot) {
	struct listing *listing = context;
	struct own_head head;
	const char *texts;
	struct sluice_override_entry entry;
	if (!sl_marks_are_kept(sl_tag_marks(slot->tag)) || listing->now >= sl_own_end(slot->state) ||
	    slot->block == NULL || slot->block_bytes < sizeof head)
		return true;
	memcpy(&head, slot->block, sizeof head);
	if ((uint64_t)head.name + head.key + head.text + sizeof head > slot->block_bytes)
		return true;
	texts = (const char *)slot->block + sizeof head;
	entry = (struct sluice_override_entry){.name = sl_slice(texts, head.name),
	                                       .key = sl_slice(texts + head.name, head.key),
	                                       .limit = sl_slice(texts + head.name + head.key, head.text),
	                                       .ends_after_ns = wait_until(sl_own_end(slot->state), listing->now)};
	listing->visit(listing->context, &entry);
	listing->told++;
	return true;
}

/* Without a lock. */
static bool seems_to_have_any(const struct sl_page *page) {
	for (unsigned at = 0; at < SL_PAGE_BUCKETS; at++)
		for (int i = 0; i < SL_BUCKET_SLOTS; i++) {
			uint64_t tag = sl_slot_tag(&page->buckets[at].slots[i]);
			if (tag != 0 && sl_marks_are_kept(sl_tag_marks(tag)))
				return true;
		}
	return false;
}

uint64_t sluice_override_list(struct sluice_store *store, uint64_t from, uint32_t count, sluice_ns now,
                              void (*visit)(void *context, const struct sluice_override_entry *entry), void *context) {
	struct listing listing = {visit, context, now, 0};
	struct sl_walk walk = {.store = store, .next = from, .end = from};
	if (store == NULL || visit == NULL || store->owner == 0 || from >= store->page_count ||
	    !sl_store_has_overrides(store))
		return 0;
	for (int pages = 0; sl_walk_next(&walk); pages++) {
		if (pages == PAGES_A_CALL || listing.told >= sl_max(count, 1))
			return walk.page;
		if (seems_to_have_any(&store->pages[walk.page]))
			(void)sl_store_scan(store, walk.page, now, NULL, list_one, &listing);
	}
	return 0;
}
