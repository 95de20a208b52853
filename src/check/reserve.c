/* Reservations: a companion of a counter, changed together with it.
 *
 * A charge that may be corrected is noted in the counter's ledger (algo/ledger.h): a slot of the same home, so of the
 * same lock, whose block is the list of what is open, by end. What has ended counts as returned at once, for whoever
 * looks; it is corrected by the next who charges. Nothing of this is looked for in a store that never had any
 * (header->ledgers_until_ns).
 *
 *   slot   word 0: 63..19 an instant, 18..0 how many at the beginning of the list are gone
 *          word 1: 63..32 how many the list has, 31..0 its block
 *
 * Counter and ledger change as one: both are written anew, into blocks that nobody refers to yet, within one change of
 * the blocks (store/blocks.c), whose undo log has both slots. Whoever takes the locks of a caller that died finds both
 * as before or both as after. The first opener of a store whose users all died believes no undo log; so within the
 * change the order is one in which every beginning errs to one side, that an estimate stays charged:
 *
 *   1  the ledger without what is corrected    2  the counter, corrected and charged    3  the ledger with what is new
 *
 * I1  A ledger lives at least as long as the last of it, and as its counter may differ from none uncorrected.
 * I2  Where the counter went before (evicted, or its room was needed when it counted no longer), what the ledger names
 *     is charged nowhere: it may be committed, but corrects nothing. A new counter that comes to stand with it must
 *     not be corrected by it either: before it is published all instants in the list become 0, whose windows have long
 *     gone.
 * I3  A counter that is charged and whose ledger stays as it is (nothing has ended) is charged in place, like any. */
#include "check/part.h"

enum { BATCH = SL_LEDGER_LIST_MAX + 8 /* corrections that fit the stack */, PUTS = 4 /* of one call in contents */ };
#define SKIPPED_MASK (((uint64_t)1 << SL_COARSE_SHIFT) - 1)

/* What its bundles are made of. Where that went (evicted), so has the ledger: who would commit it finds it no more, and
 * nothing may be given back as if nobody had asked. */
static void find_contents(const struct sluice_store *store, struct part *m, sluice_ns now) {
	struct ledger *l = &m->ledger;
	uint32_t block;
	if (sl_ledger_bundled(m->cell.limit->algorithm, &(struct sl_ledger){l->list, l->count}) == 0)
		return;
	l->contents_slot = sl_slot_find(&l->contents_place);
	if (l->contents_slot != NULL && (block = (uint32_t)sl_slot_state(l->contents_slot)[1]) != 0 &&
	    !sl_slot_has_expired(l->contents_slot, sl_slot_tag(l->contents_slot), now))
		l->contents = (struct sl_contents){.memory = sl_block_memory(store, block),
		                                   .bytes = sl_block_bytes(store, block)};
	if (!sl_contents_are_valid(&l->contents))
		l->count = l->skipped = 0;
}

void ledger_find(const struct sluice_store *store, struct part *m, sluice_ns now) {
	struct ledger *l = &m->ledger;
	uint32_t block;
	sluice_ns t = now;
	SL_ASSERT(sl_rule_has(m->cell.limit, SL_RESERVABLE));
	l->place = sl_place_beside(m->place, SL_BESIDE_LEDGER);
	l->slot = sl_slot_find(&l->place);
	l->count = l->skipped = l->ended = 0;
	l->contents_place = sl_place_beside(m->place, SL_BESIDE_CONTENTS);
	l->contents_slot = NULL;
	l->contents.memory = NULL;
	l->dead = m->slot == NULL;
	if (l->slot == NULL || (block = (uint32_t)sl_slot_state(l->slot)[1]) == 0)
		return;
	if (sl_slot_has_expired(l->slot, sl_slot_tag(l->slot), now))
		return; /* I1: of what it names nothing counts; a bucket may have been turned since, unseen */
	m->cell.plain = false;
	l->count =
		(uint32_t)sl_min(sl_slot_state(l->slot)[1] >> 32, sl_block_bytes(store, block) / sizeof(struct sl_reservation));
	l->skipped = (uint32_t)sl_min(sl_slot_state(l->slot)[0] & SKIPPED_MASK, l->count);
	l->count -= l->skipped;
	l->list = (const struct sl_reservation *)sl_block_memory(store, block) + l->skipped;
	find_contents(store, m, now);
	if (!l->dead) {
		part_load(store, m);
		t = sl_step_instant(m->cell.limit, &m->cell.counter, now);
	}
	l->ended = sl_ledger_ended(&(struct sl_ledger){l->list, l->count}, t);
}

/* ---- deciding --------------------------------------------------------------------------------------------------- */

void ledger_judge(const struct sluice_store *store, struct part *m, sluice_ns now, uint64_t cost,
                  struct sluice_decision *decision) {
	uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / sizeof(uint64_t) + 1];
	SL_ASSERT(!m->cell.plain && !m->ledger.dead && m->slot != NULL);
	part_load(store, m);
	sl_ledger_step(m->cell.limit, &m->cell.counter, &(struct sl_ledger){m->ledger.list, m->ledger.count}, now, cost,
	               scratch, decision);
}

void ledger_describe(const struct sluice_store *store, struct part *m, sluice_ns now, struct sluice_inspection *told) {
	uint64_t scratch[SL_LEDGER_SCRATCH_BYTES / sizeof(uint64_t) + 1];
	if (!m->cell.counts || m->cell.plain || m->ledger.dead || m->ledger.ended == 0)
		return;
	told->used = told->charge_count = told->charges_in_all = 0;
	part_load(store, m);
	sl_ledger_describe(m->cell.limit, &m->cell.counter, &(struct sl_ledger){m->ledger.list, m->ledger.count}, now,
	                   scratch, told);
}

/* ---- planning --------------------------------------------------------------------------------------------------- */

/* The entry that a commit leaves where there is more in it. */
static bool leaves_entry(const struct ledger *l, struct sl_reservation *entry) {
	if (l->commits < 0)
		return false;
	*entry = l->list[l->commits];
	return sl_bundle_without(&l->found, entry);
}

/* Entries of the list after the call; what is added may still be bundled. */
static uint32_t left_of(const struct ledger *l) {
	struct sl_reservation entry;
	return l->count - l->ended - (l->commits >= 0 && !leaves_entry(l, &entry)) + l->adds;
}

static struct sl_ledger open_of(const struct ledger *l) {
	if (l->list == NULL)
		return (struct sl_ledger){NULL, 0};
	return (struct sl_ledger){l->list + l->ended, l->count - l->ended};
}

/* Corrections that the call makes, at most. */
static uint32_t corrections_of(const struct part *m) {
	const struct ledger *l = &m->ledger;
	return sl_bundle_returns(m->cell.limit, &(struct sl_ledger){l->list, l->count}, &l->contents, 0, l->ended, NULL) +
	       (l->commits >= 0);
}

/* Whether the contents are made anew: they are too short, or there are none and the list is full. Not in a call that
 * computes in a block as well: it has enough to undo, and one entry more or less matters to nobody. */
static bool renews_contents(const struct part *m, uint32_t bundled) {
	const struct ledger *l = &m->ledger;
	return l->adds && (bundled != 0 || left_of(l) > SL_LEDGER_LIST_MAX) && ledger_scratch_bytes(m) == 0 &&
	       !sl_contents_have_room(&l->contents, bundled, PUTS);
}

bool ledger_plan(struct part *m, uint64_t bytes_most) {
	struct ledger *l = &m->ledger;
	struct sl_ledger open = open_of(l);
	SL_ASSERT(!m->cell.plain && l->ended <= l->count && !(l->adds && l->commits >= 0));
	SL_ASSERT(l->commits < (int64_t)l->count);
	l->corrected = l->ended + (l->commits >= 0);
	l->writes = l->adds || (l->corrected != 0 && !(l->dead && l->commits < 0));
	l->contents_renew = renews_contents(m, sl_ledger_bundled(m->cell.limit->algorithm, &open));
	if (l->contents_renew && l->contents_slot == NULL)
		l->contents_slot = sl_slot_find(&l->contents_place);
	if (!l->adds)
		return true;
	if (l->contents_renew && ledger_contents_bytes(m) > bytes_most) {
		l->contents_renew = false; /* fuller than it likes to be */
		if (!sl_contents_bear(&l->contents, sl_ledger_bundled(m->cell.limit->algorithm, &open), PUTS))
			return false;
	}
	return sl_ledger_open(m->cell.limit->algorithm, &open) < SL_LEDGER_MAX && ledger_bytes(m) <= bytes_most;
}

sluice_ns ledger_first_end(const struct part *m, sluice_ns now) {
	struct sl_counter copy = m->cell.counter;
	sluice_ns t = m->slot != NULL ? sl_step_instant(m->cell.limit, &copy, now) : now;
	if (m->ledger.ended == m->ledger.count)
		return SLUICE_NEVER;
	return m->ledger.list[m->ledger.ended].end > t ? m->ledger.list[m->ledger.ended].end - t : 1;
}

/* What has only ended is skipped where it stands. */
static bool needs_list(const struct ledger *l) {
	return l->adds || (l->commits >= 0 && left_of(l) != 0);
}

uint64_t ledger_bytes(const struct part *m) {
	return needs_list(&m->ledger) ? left_of(&m->ledger) * sizeof(struct sl_reservation) : 0;
}

uint64_t ledger_scratch_bytes(const struct part *m) {
	uint64_t corrections = corrections_of(m);
	return corrections > BATCH ? corrections * sizeof(struct sl_correction) : 0;
}

uint64_t ledger_contents_bytes(const struct part *m) {
	struct sl_ledger open = open_of(&m->ledger);
	return m->ledger.contents_renew
	           ? sl_contents_bytes(sl_ledger_bundled(m->cell.limit->algorithm, &open) + PUTS)
	           : 0;
}

uint64_t ledger_counter_bytes(struct part *m, sluice_ns now) {
	struct sluice_decision ignored;
	uint64_t bytes;
	if (!sl_rule_has(m->cell.limit, SL_HAS_BLOCK) || (m->slot == NULL && !m->cell.charged))
		return 0;
	bytes = sl_correct_bytes(m->cell.limit, &m->cell.counter, m->ledger.commits >= 0);
	if (m->ledger.commits >= 0 || !m->cell.charged)
		return bytes;
	sl_step(m->cell.limit, &m->cell.counter, now, m->cell.cost, false, &ignored);
	return sl_max(bytes, sl_step_block_bytes(m->cell.limit, &m->cell.counter, m->cell.cost));
}

/* ---- publishing ------------------------------------------------------------------------------------------------- */

static void publish_list(struct ledger *l, sluice_ns instant, uint32_t skipped, uint32_t count, uint32_t block,
                         sluice_ns end) {
	const uint64_t state[2] = {(instant & ~SKIPPED_MASK) | skipped, (uint64_t)count << 32 | block};
	sl_slot_publish(l->slot, state, SL_MARKS_BESIDE_MUCH, life_until(state[0], end));
}

/* Lets the contents live as long as the ledger. */
static void extend_contents(const struct ledger *l, sluice_ns end) {
	const uint64_t *state;
	if (l->contents_slot == NULL || l->contents.memory == NULL)
		return;
	state = sl_slot_state(l->contents_slot);
	if (end > sl_slot_end(state[0], sl_slot_tag(l->contents_slot)))
		sl_slot_publish(l->contents_slot, (const uint64_t[2]){state[0], state[1]}, SL_MARKS_BESIDE_MUCH,
		                life_until(state[0], end));
}

/* Lets a ledger live until `end` at least. */
static void extend(struct sluice_store *store, struct ledger *l, sluice_ns end) {
	const uint64_t *state = sl_slot_state(l->slot);
	SL_ASSERT(l->slot != NULL && !(l->writes && l->adds));
	sl_store_raise_ledgers(store, ns_add(end, (sluice_ns)2 << SL_COARSE_SHIFT));
	extend_contents(l, end);
	if (end <= sl_slot_end(state[0], sl_slot_tag(l->slot)))
		return; /* lifetimes are rounded up */
	publish_list(l, state[0], (uint32_t)(state[0] & SKIPPED_MASK), (uint32_t)(state[1] >> 32), (uint32_t)state[1], end);
}

/* A new counter is none that the list speaks of. In place: half of it done is as good. */
static void forget_instants(const struct part *m, sluice_ns now) {
	const struct ledger *l = &m->ledger;
	if (l->count != 0)
		sl_contents_void(&l->contents, now);
	for (uint32_t i = 0; i < l->count; i++) {
		sl_bundle_void(m->cell.limit->algorithm, (struct sl_reservation *)(uintptr_t)&l->list[i]);
		SL_POINT();
	}
}

/* Before a charge that turns a bucket to another rate: what is open is noted as of now (ledger.h I3). In place: half of
 * it done, or the charge not made, gives back less. */
static void note_turn(const struct part *m, sluice_ns now) {
	const struct ledger *l = &m->ledger;
	struct sl_counter before = {.block = NULL};
	uint32_t rate;
	sluice_ns t;
	if (!m->cell.charged || l->dead || l->ended == l->count || m->slot == NULL ||
	    !sl_rule_rate_may_change(m->cell.limit))
		return;
	memcpy(before.state.w, sl_slot_state(m->slot), sizeof before.state.w);
	before.state.life = (uint32_t)(sl_slot_tag(m->slot) & SL_LIFE_FRESH) + 1;
	rate = sl_bucket_rate(m->cell.limit, &before.state);
	t = sl_step_instant(m->cell.limit, &before, now);
	if (rate != m->cell.limit->quota)
		(void)sl_contents_turn(&l->contents, rate, m->cell.limit->quota);
	for (uint32_t i = l->ended; rate != m->cell.limit->quota && i < l->count; i++) {
		struct sl_reservation *it = (struct sl_reservation *)(uintptr_t)&l->list[i], turned = *it;
		if (it->instant == 0)
			continue;
		sl_bundle_turn(m->cell.limit, rate, &turned, t);
		__atomic_store_n(&it->cost, turned.cost, __ATOMIC_RELAXED);
		SL_POINT();
		__atomic_store_n(&it->debt, turned.debt, __ATOMIC_RELAXED);
		SL_POINT();
		__atomic_store_n(&it->instant, turned.instant, __ATOMIC_RELAXED);
		SL_POINT();
	}
}

/* A lifetime as whoever reads a bucket's rate out of it may take it: the longest of its code. */
static sluice_ns as_told(const struct part *m, sluice_ns life) {
	if (!sl_rule_rate_may_change(m->cell.limit))
		return life;
	return sl_min(sl_life_longest(sl_life_code(life)), SLUICE_NEVER - 1);
}

/* How long a counter may differ from none after a charge: as its decision says, but a charge that was forced on it was
 * denied before. */
static sluice_ns life_after(const struct part *m, sluice_ns now) {
	struct sl_counter copy = m->cell.counter;
	struct sluice_decision left;
	if (!m->cell.forced)
		return sl_step_life(m->cell.limit, m->cell.decision);
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK))
		return ns_add(m->cell.limit->window_ns, m->cell.limit->precision_ns + 2 * (sluice_ns)SL_MS_NS);
	sl_step(m->cell.limit, &copy, now, 0, false, &left); /* the copy has been charged */
	return sl_step_life(m->cell.limit, &left);
}

void ledger_outlive(struct sluice_store *store, struct part *m, sluice_ns now) {
	struct sl_counter copy = m->cell.counter;
	SL_ASSERT(!m->cell.plain && !m->ledger.writes && m->cell.charged);
	note_turn(m, now);
	if (m->ledger.dead)
		forget_instants(m, now);
	else if (m->ledger.slot != NULL && !sl_slot_has_expired(m->ledger.slot, sl_slot_tag(m->ledger.slot), now))
		extend(store, &m->ledger, ns_add(sl_step_instant(m->cell.limit, &copy, now), as_told(m, life_after(m, now))));
}

/* All that is to be corrected, in the order in which it is known. */
static uint32_t list_corrections(const struct part *m, sluice_ns t, struct sl_correction *list) {
	const struct ledger *l = &m->ledger;
	const struct sl_reservation *it = &l->found.its;
	uint32_t count = 0;
	if (l->dead)
		return 0;
	count = sl_bundle_returns(m->cell.limit, &(struct sl_ledger){l->list, l->count}, &l->contents, 0, l->ended, list);
	if (l->commits >= 0 && it->instant != 0)
		list[count++] = (struct sl_correction){it->instant, t, it->cost, m->cell.cost, it->debt, 0};
	return count;
}

/* Writes the list as it will be, but for what is added. Returns how many are in it. */
static uint32_t write_left(const struct ledger *l, struct sl_reservation *list) {
	uint32_t count = 0;
	struct sl_reservation entry;
	bool leaves = leaves_entry(l, &entry);
	for (uint32_t i = l->ended; i < l->count; i++)
		if (i != l->commits)
			list[count++] = l->list[i];
		else if (leaves)
			list[count++] = entry;
	return count;
}

/* The ledger without what is corrected. */
static void publish_drop(struct sluice_store *store, struct ledger *l) {
	const uint64_t state[2] = {sl_slot_state(l->slot)[0], sl_slot_state(l->slot)[1]};
	sluice_ns end = sl_slot_end(state[0], sl_slot_tag(l->slot));
	uint32_t old = (uint32_t)state[1];
	SL_ASSERT(l->corrected != 0);
	if (left_of(l) == 0) {
		sl_slot_drop_block(store, l->slot, old);
		return;
	}
	sl_blocks_save_slot(store, l->slot);
	if (l->commits >= 0) {
		uint32_t count = write_left(l, sl_block_memory(store, l->block));
		sl_block_own(store, l->block, l->slot);
		publish_list(l, state[0], 0, count, l->block, end);
		sl_contents_remove(&l->contents, &l->found);
		sl_blocks_free(store, old);
	} else {
		publish_list(l, state[0], l->skipped + l->ended, l->skipped + l->count, old, end);
	}
}

static void save_word(void *store, const void *word) {
	sl_blocks_save(store, word);
	SL_POINT();
}

/* New contents, of what is open of the old ones. */
static void publish_contents(struct sluice_store *store, struct part *m, const struct sl_ledger *left,
                             const struct sl_reservation *added) {
	struct ledger *l = &m->ledger;
	struct sl_contents contents = {.memory = sl_block_memory(store, l->contents_block),
	                               .bytes = sl_block_bytes(store, l->contents_block)};
	uint32_t old = l->contents_claimed ? 0 : (uint32_t)sl_slot_state(l->contents_slot)[1];
	const uint64_t state[2] = {added->instant & ~SKIPPED_MASK, l->contents_block};
	SL_ASSERT(l->contents_renew && l->contents_slot != NULL && l->contents_block != 0);
	sl_contents_format(m->cell.limit, &contents, sl_contents_are_valid(&l->contents) ? &l->contents : NULL, left,
	                   store->secret[0] ^ added->id ^ added->instant);
	sl_block_own(store, l->contents_block, l->contents_slot);
	sl_blocks_save_slot(store, l->contents_slot);
	sl_slot_publish(l->contents_slot, state, SL_MARKS_BESIDE_MUCH, life_until(state[0], added->end));
	if (old != 0)
		sl_blocks_free(store, old);
	l->contents = contents;
}

/* The ledger with what is new in it. */
static void publish_add(struct sluice_store *store, struct part *m, const struct sl_reservation *added, sluice_ns end) {
	struct ledger *l = &m->ledger;
	struct sl_reservation *list = sl_block_memory(store, l->block);
	uint32_t old = l->claimed ? 0 : (uint32_t)sl_slot_state(l->slot)[1], count = write_left(l, list);
	SL_ASSERT(l->adds && l->slot != NULL && l->block != 0); /* planned, claimed, taken */
	SL_ASSERT(count < SL_LEDGER_MAX && m->cell.ttl_ns != 0);
	if (l->contents_renew)
		publish_contents(store, m, &(struct sl_ledger){list, count}, added);
	else if (l->contents_slot != NULL)
		sl_blocks_save_slot(store, l->contents_slot);
	l->contents.save = save_word;
	l->contents.context = store;
	sl_bundle_add(m->cell.limit, m->cell.limit->quota, list, &count, added, &l->contents);
	end = sl_max(end, list[count - 1].end);
	sl_store_raise_ledgers(store, ns_add(end, (sluice_ns)2 << SL_COARSE_SHIFT));
	extend_contents(l, end);
	sl_block_own(store, l->block, l->slot);
	sl_blocks_save_slot(store, l->slot);
	publish_list(l, added->instant, 0, count, l->block, end);
	if (old != 0)
		sl_blocks_free(store, old);
}

/* Sub-buckets go on in a copy; a log is moved by the write itself. */
static void *copy_cells(struct part *m, void *block, uint64_t bytes) {
	bool moved = m->cell.limit->bucket_count != 0 && sl_subs_move(m->cell.limit, &m->cell.counter, block, bytes);
	return moved ? NULL : block;
}

/* Charges the copy. `block`: to write it to; NULL: it is in a block of its own already, or needs none. What ended was
 * counted as returned when the charge was admitted; should damage have made that untrue, it is charged all the same.
 * Returns whether anything was written. */
static bool charge_copy(struct part *m, sluice_ns now, void *block, uint64_t bytes) {
	struct sluice_decision decision;
	uint32_t cost = m->cell.cost;
	bool counts;
	sl_step(m->cell.limit, &m->cell.counter, now, cost, !m->cell.forced, &decision);
	counts = m->cell.forced || !decision.allowed;
	if (counts)
		cost = sl_step_count(m->cell.limit, &m->cell.counter, now, cost);
	if (sl_rule_has(m->cell.limit, SL_HAS_BLOCK) && cost != 0)
		sl_step_write(m->cell.limit, &m->cell.counter, now, cost, block, bytes);
	while (counts && cost != 0 && sl_step_trim(m->cell.limit, &m->cell.counter, now))
		;
	return cost != 0;
}

/* Corrects and charges the copy of the counter, in its new block if it keeps one. Returns whether that is in use. */
static bool write_counter(struct sluice_store *store, struct part *m, sluice_ns now, const struct sl_correction *list,
                          uint32_t count) {
	bool has_block = m->block != 0;
	void *block = has_block ? sl_block_memory(store, m->block) : NULL;
	uint64_t bytes = has_block ? part_taken_bytes(store, m) : 0;
	bool moved = m->remembered;
	SL_ASSERT(m->slot != NULL && (m->block_bytes == 0 || has_block));
	if (m->remembered)
		part_assume(m, block, bytes);
	else if (count != 0)
		moved = sl_correct(m->cell.limit, &m->cell.counter, list, count, block, bytes);
	if (!m->cell.charged)
		return moved;
	block = has_block && !moved ? copy_cells(m, block, bytes) : NULL;
	moved = block == NULL;
	return charge_copy(m, now, block, bytes) || moved;
}

/* The counter, corrected and charged. Returns the instant at which it will count no longer. */
static sluice_ns publish_counter(struct sluice_store *store, struct part *m, sluice_ns now,
                                 const struct sl_correction *list, uint32_t count) {
	bool keeps_block = sl_rule_has(m->cell.limit, SL_HAS_BLOCK);
	uint32_t old = keeps_block && !m->remembered ? (uint32_t)m->cell.counter.state.w[1] : 0;
	struct sluice_limit wide;
	const struct sluice_limit *lasting = sl_rule_lasting(m->cell.limit, &wide);
	struct sluice_decision left;
	struct sl_counter copy;
	sluice_ns end;
	bool uses = write_counter(store, m, now, list, count);
	uint64_t marks = m->remembered ? sl_marks_start(true, m->use) : sl_tag_marks(sl_slot_tag(m->slot));
	if (keeps_block)
		m->cell.counter.state.w[1] = m->cell.counter.state.w[1] >> 32 << 32 | (uses ? m->block : old);
	copy = m->cell.counter;
	sl_step(lasting, &copy, now, 0, false, &left);
	end = ns_add(sl_step_instant(m->cell.limit, &copy, now), as_told(m, sl_step_life(m->cell.limit, &left)));
	if (lasting != m->cell.limit) { /* all of it is used, whatever it may become */
		left.quota = 1;
		left.remaining = 0;
	}
	if (keeps_block && uses)
		sl_block_own(store, m->block, m->slot);
	sl_blocks_save_slot(store, m->slot);
	sl_slot_publish(m->slot, m->cell.counter.state.w, sl_marks_of(marks, left.quota, left.remaining),
	                sl_rule_rate_may_change(m->cell.limit) ? sl_bucket_life(m->cell.limit, &m->cell.counter.state)
	                                                  : life_until(m->cell.counter.state.w[0], end));
	if (m->block != 0 && (!uses || old != 0))
		sl_blocks_free(store, uses ? old : m->block);
	return end;
}

void ledger_publish(struct sluice_store *store, const struct sluice_call *call, struct part *m) {
	struct ledger *l = &m->ledger;
	struct sl_correction few[BATCH], *list = l->scratch != 0 ? sl_block_memory(store, l->scratch) : few;
	sluice_ns t = sl_step_instant(m->cell.limit, &m->cell.counter, call->now), end = 0;
	struct sl_reservation added;
	uint32_t count = list_corrections(m, t, list);
	SL_ASSERT(l->writes && (m->cell.charged || m->cell.corrects) && (l->scratch != 0 || count <= BATCH));
	note_turn(m, call->now);
	if (l->dead && m->cell.charged)
		forget_instants(m, call->now);
	l->contents.save = save_word;
	l->contents.context = store;
	if (l->corrected != 0 && l->slot != NULL)
		publish_drop(store, l);
	if (m->slot != NULL)
		end = publish_counter(store, m, call->now, list, count);
	if (l->adds) {
		added = sl_reservation_of(m->cell.limit, &m->cell.counter, call->now,
		                          call->id.len != 0 ? sl_id_number(call->id) : 0, m->cell.cost, m->cell.ttl_ns);
		publish_add(store, m, &added, end);
	} else if (left_of(l) != 0 && end != 0) {
		extend(store, l, end);
	}
	if (l->scratch != 0)
		sl_blocks_free(store, l->scratch);
}

/* How many are bundled after the call, but for an entry that it committed from. */
static uint32_t bundles_left(const struct part *m) {
	const struct ledger *l = &m->ledger;
	uint32_t bundled = 0;
	for (uint32_t i = l->ended; i < l->count; i++)
		bundled += i != l->commits && sl_bundle_is(m->cell.limit->algorithm, &l->list[i]);
	return bundled;
}

void ledger_close(struct sluice_store *store, struct part *m) {
	struct ledger *l = &m->ledger;
	struct sl_reservation entry;
	SL_ASSERT(l->writes);
	if (l->contents_slot != NULL && !l->adds && !leaves_entry(l, &entry) && bundles_left(m) == 0) {
		(void)sl_slot_free(store, m->place->home, l->contents_slot); /* held up, it expires */
		l->contents_slot = NULL;
	}
	if (l->slot == NULL || (sl_slot_tag(l->slot) & SL_LIFE_FRESH) != SL_LIFE_FRESH)
		return;
	SL_DEBUG_ASSERT(sl_slot_state(l->slot)[1] == 0); /* its block went in the change, and may be another's by now */
	(void)sl_slot_free(store, m->place->home, l->slot);
	l->slot = NULL;
	l->count = l->ended = 0;
}

/* ---- what a commit is about -------------------------------------------------------------------------------------- */

struct sl_found ledger_find_open(const struct part *m, uint64_t id, sluice_ns now) {
	const struct sl_ledger ledger = {m->ledger.list, m->ledger.count};
	struct sl_counter copy = m->cell.counter;
	SL_ASSERT(!m->cell.plain && m->ledger.count != 0);
	return sl_bundle_find(m->cell.limit, &ledger, &m->ledger.contents, id,
	                      m->ledger.dead ? now : sl_step_instant(m->cell.limit, &copy, now));
}

void ledger_keep_estimate(struct part *m) {
	struct sl_reservation *it = (struct sl_reservation *)(uintptr_t)&m->ledger.list[m->ledger.commits];
	SL_ASSERT(m->ledger.commits >= 0 && m->ledger.commits == m->ledger.found.at && !m->cell.charged);
	if (m->ledger.found.place != NULL) {
		uint32_t cost = it->cost - (uint32_t)sl_min(it->cost, m->ledger.found.its.cost);
		__atomic_store_n(&it->cost, cost, __ATOMIC_RELAXED);
		SL_POINT();
		m->ledger.contents.save = NULL; /* no change is open */
		sl_contents_remove(&m->ledger.contents, &m->ledger.found);
	} else {
		__atomic_store_n(&it->instant, 0, __ATOMIC_RELAXED);
		SL_POINT();
		__atomic_store_n(&it->id, 0, __ATOMIC_RELAXED);
	}
	SL_POINT();
	m->cell.corrects = false;
	m->ledger.commits = -1;
}
