/* See tail.h. A worker keeps a copy of the filters of its own, which it takes anew when they have changed: so nothing
 * that it looks at while deciding is shared, and it takes a lock only when somebody came or went.
 *
 *   decision: limit, key, denied
 *      |  hash      |  hash
 *      v            v
 *   [limits]     [keys]        masks of the filters that name this one
 *      |            |
 *   (m | any_limit) & (m | any_key) & (denied ? all : not_only_denied)   then each that is left is compared in full
 *
 * Numbers of filters are given out in turn, so that one that was just let go is not soon another. A filter's count in a
 * worker's page says of which filter it is (`of`): a reader of the next one that has the number does not add it. */
#include "hosts/server/watch/tail.h"

#include "base/assert.h"
#include "base/recall.h"
#include "os/map.h"

#include <pthread.h>
#include <stdlib.h>

#define TICK_NS ((sluice_ns)SL_TAIL_TICK_MS * 1000000)

enum {
	SLOTS = 512, /* of a table of masks; a limit may be looked up by two forms, so at most half of them are taken */
	SLOTS_SHIFT = 64 - 9,
};

_Static_assert(SLOTS == 1 << 9 && SLOTS >= 4 * SL_TAIL_READERS_MAX, "the hash's upper bits number the slots");

/* A limit in notation is what its fields say; what follows is derived from them. */
enum { LIMIT_BYTES = offsetof(struct sluice_limit, derived) };
_Static_assert(LIMIT_BYTES == 32, "there is no padding in between");

struct mask {
	uint64_t words[SL_TAIL_MASK_WORDS];
};

struct slot {
	uint64_t hash; /* 0: free */
	struct mask mask;
};

struct filter {
	uint32_t readers; /* 0: free */
	uint64_t since;   /* the change that brought it */
	struct sl_tail_filter is;
};

struct counted {
	_Atomic uint64_t of, wanted; /* `since` of a filter, and how many decisions it has wanted */
};

struct sl_tail_source {
	struct sl_tail_wanted wanted; /* first: sl_tail_is_wanted() */
	struct sl_tail *tail;
	uint64_t taken; /* the change whose filters these are */
	uint64_t tick;  /* when the one in hand began, and in it: */
	uint32_t changes, shared_left, left[SL_TAIL_READERS_MAX];
	uint32_t count, share;
	bool by_limit, by_key; /* some filters ask for that */
	struct mask used, any_limit, any_key, not_only_denied;
	struct slot limits[SLOTS], keys[SLOTS];
	struct filter filters[SL_TAIL_READERS_MAX];
	struct counted counted[SL_TAIL_READERS_MAX];
	struct sl_tail_ring ring;
};

struct sl_tail {
	uint32_t workers;
	struct sl_tail_source *sources;
	_Atomic uint64_t readers, sent, missed;
	pthread_mutex_t lock; /* guards what follows */
	uint64_t change;
	uint32_t next;
	struct filter filters[SL_TAIL_READERS_MAX];
};

/* ---- filters ----------------------------------------------------------------------------------------------------- */

bool sl_tail_filter_limit(struct sl_tail_filter *filter, struct sluice_bytes text) {
	struct sluice_error error;
	if (text.len == 0 || text.len > sizeof filter->limit_text)
		return false;
	filter->any_limit = false;
	filter->limit_len = (uint16_t)text.len;
	memcpy(filter->limit_text, text.data, text.len);
	filter->is_notation = sluice_limit_parse(&filter->limit, text, &error) == SLUICE_OK;
	return true;
}

bool sl_tail_filter_key(struct sl_tail_filter *filter, struct sluice_bytes key) {
	if (key.len > sizeof filter->key)
		return false;
	filter->any_key = false;
	filter->key_len = (uint16_t)key.len;
	if (key.len != 0)
		memcpy(filter->key, key.data, key.len);
	return true;
}

static struct sluice_bytes limit_text_of(const struct sl_tail_filter *filter) {
	return sl_slice(filter->limit_text, filter->limit_len);
}

static struct sluice_bytes key_of(const struct sl_tail_filter *filter) {
	return sl_slice(filter->key, filter->key_len);
}

static bool is_same_limit(const struct sluice_limit *a, const struct sluice_limit *b) {
	return memcmp(a, b, LIMIT_BYTES) == 0;
}

/* Equal filters: whatever one wants, the other does. */
static bool is_same(const struct sl_tail_filter *a, const struct sl_tail_filter *b) {
	return a->denied == b->denied && a->any_limit == b->any_limit && a->any_key == b->any_key &&
	       sl_bytes_equal(limit_text_of(a), limit_text_of(b)) && sl_bytes_equal(key_of(a), key_of(b));
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static void set(struct mask *mask, uint32_t i) {
	mask->words[i / 64] |= (uint64_t)1 << i % 64;
}

static uint64_t hash_of(struct sluice_bytes text) {
	uint64_t hash = sl_recall_hash(text);
	return hash != 0 ? hash : 1;
}

static uint64_t hash_of_limit(const struct sluice_limit *limit) {
	return hash_of(sl_slice(limit, LIMIT_BYTES));
}

static struct slot *slot_of(struct slot *table, uint64_t hash) {
	uint32_t at = (uint32_t)(hash >> SLOTS_SHIFT);
	while (table[at].hash != 0 && table[at].hash != hash)
		at = (at + 1) % SLOTS;
	return &table[at];
}

static void enter(struct slot *table, uint64_t hash, uint32_t filter) {
	struct slot *slot = slot_of(table, hash);
	slot->hash = hash;
	set(&slot->mask, filter);
}

/* ---- a worker takes the filters anew ----------------------------------------------------------------------------- */

static void enter_filter(struct sl_tail_source *source, uint32_t i) {
	const struct sl_tail_filter *is = &source->filters[i].is;
	set(&source->used, i);
	if (is->any_limit)
		set(&source->any_limit, i);
	else
		enter(source->limits, hash_of(limit_text_of(is)), i);
	if (is->is_notation)
		enter(source->limits, hash_of_limit(&is->limit), i);
	if (is->any_key)
		set(&source->any_key, i);
	else
		enter(source->keys, hash_of(key_of(is)), i);
	if (!is->denied)
		set(&source->not_only_denied, i);
	source->count++;
}

/* Counts of a filter begin anew where its number was another's. */
static void begin_count(struct counted *counted, uint64_t since) {
	if (atomic_load_explicit(&counted->of, memory_order_relaxed) == since)
		return;
	atomic_store_explicit(&counted->of, 0, memory_order_relaxed);
	atomic_store_explicit(&counted->wanted, 0, memory_order_release); /* pairs with count_of() */
	atomic_store_explicit(&counted->of, since, memory_order_release);
}

static void copy_filters(struct sl_tail_source *source) {
	struct sl_tail *tail = source->tail;
	pthread_mutex_lock(&tail->lock);
	source->taken = tail->change;
	for (uint32_t i = 0; i < SL_TAIL_READERS_MAX; i++)
		if (tail->filters[i].readers != 0 && source->filters[i].since != tail->filters[i].since)
			source->filters[i] = tail->filters[i];
		else
			source->filters[i].readers = tail->filters[i].readers;
	pthread_mutex_unlock(&tail->lock);
}

static void take_filters(struct sl_tail_source *source) {
	copy_filters(source);
	source->used = source->any_limit = source->any_key = source->not_only_denied = (struct mask){{0}};
	memset(source->limits, 0, sizeof source->limits);
	memset(source->keys, 0, sizeof source->keys);
	source->count = 0;
	for (uint32_t i = 0; i < SL_TAIL_READERS_MAX; i++) {
		if (source->filters[i].readers == 0)
			continue;
		enter_filter(source, i);
		begin_count(&source->counted[i], source->filters[i].since);
	}
	source->by_limit = memcmp(&source->any_limit, &source->used, sizeof source->used) != 0;
	source->by_key = memcmp(&source->any_key, &source->used, sizeof source->used) != 0;
	uint32_t before = source->share;
	const uint32_t shares = SL_TAIL_TICK_LINES - SL_TAIL_TICK_SHARED;
	source->share = source->count == 0 ? shares : source->count < shares ? shares / source->count : 1;
	for (uint32_t i = 0; i < SL_TAIL_READERS_MAX; i++) /* who is new has his share in this tick already */
		if (before == 0 || source->left[i] > source->share || source->filters[i].since == source->taken)
			source->left[i] = source->share;
}

static void begin_tick(struct sl_tail_source *source, sluice_ns now) {
	source->tick = now - now % TICK_NS;
	source->changes = 0;
	source->shared_left = SL_TAIL_TICK_SHARED;
	for (uint32_t i = 0; i < SL_TAIL_READERS_MAX; i++)
		source->left[i] = source->share;
}

/* ---- a decision -------------------------------------------------------------------------------------------------- */

/* Those that may want it: hashes do not tell for sure. */
static struct mask candidates_of(struct sl_tail_source *source, const struct sl_tail_subject *subject) {
	struct mask found = subject->denied ? source->used : source->not_only_denied;
	const struct slot *limit = NULL, *key = NULL;
	if (source->by_limit)
		limit = slot_of(source->limits,
		                subject->name.data != NULL ? hash_of(subject->name) : hash_of_limit(subject->limit));
	if (source->by_key)
		key = slot_of(source->keys, hash_of(subject->key));
	for (int i = 0; i < SL_TAIL_MASK_WORDS; i++) {
		if (source->by_limit)
			found.words[i] &= source->any_limit.words[i] | limit->mask.words[i];
		if (source->by_key)
			found.words[i] &= source->any_key.words[i] | key->mask.words[i];
	}
	return found;
}

/* Whether it does want it. */
static bool wants(const struct sl_tail_filter *filter, const struct sl_tail_subject *subject) {
	bool limit = filter->any_limit ||
	             (subject->name.data != NULL ? sl_bytes_equal(limit_text_of(filter), subject->name)
	                                         : filter->is_notation && is_same_limit(&filter->limit, subject->limit));
	return limit && (filter->any_key || sl_bytes_equal(key_of(filter), subject->key));
}

static void count_wanted(struct counted *counted, uint64_t more) {
	/* release: a line that is read was counted before; pairs with count_of() */
	atomic_store_explicit(&counted->wanted, atomic_load_explicit(&counted->wanted, memory_order_relaxed) + more,
	                      memory_order_release);
}

/* Who has nothing left of his share takes of what is shared, once for all such. */
static bool take_line(struct sl_tail_source *source, uint32_t i, bool *shares) {
	if (source->left[i] != 0) {
		source->left[i]--;
		return true;
	}
	if (!*shares && source->shared_left != 0) {
		source->shared_left--;
		*shares = true;
	}
	return *shares;
}

/* What is wanted of decisions that allow, where no filter asks for a limit or a key: so there are one or two. */
static enum sl_tail_interest interest_in_all(const struct sl_tail_source *source) {
	bool any = false, lines = source->shared_left != 0;
	for (int word = 0; word < SL_TAIL_MASK_WORDS; word++)
		for (uint64_t bits = source->not_only_denied.words[word]; bits != 0; bits &= bits - 1) {
			any = true;
			lines = lines || source->left[word * 64 + __builtin_ctzll(bits)] != 0;
		}
	return !any ? SL_TAIL_NOTHING : lines ? SL_TAIL_EACH : SL_TAIL_COUNT;
}

enum sl_tail_interest sl_tail_catch_up(struct sl_tail_source *source, sluice_ns now) {
	if (now - source->tick >= TICK_NS) /* or it has gone back */
		begin_tick(source, now);
	if (source->taken != atomic_load_explicit(&source->wanted.change, memory_order_relaxed) &&
	    source->changes < SL_TAIL_TICK_CHANGES) {
		source->changes++;
		take_filters(source);
	}
	return source->by_limit || source->by_key ? SL_TAIL_EACH : interest_in_all(source);
}

void sl_tail_count(struct sl_tail_source *source, uint64_t count) {
	for (int word = 0; word < SL_TAIL_MASK_WORDS; word++)
		for (uint64_t bits = source->not_only_denied.words[word]; bits != 0; bits &= bits - 1)
			count_wanted(&source->counted[word * 64 + __builtin_ctzll(bits)], count);
}

bool sl_tail_take(struct sl_tail_source *source, const struct sl_tail_subject *subject, sluice_ns now,
                  struct sl_tail_head *head) {
	bool any = false, shares = false;
	struct mask found = candidates_of(source, subject);
	for (int word = 0; word < SL_TAIL_MASK_WORDS; word++) {
		head->mask[word] = 0;
		for (uint64_t bits = found.words[word]; bits != 0; bits &= bits - 1) {
			uint32_t i = (uint32_t)(word * 64 + __builtin_ctzll(bits));
			if (!wants(&source->filters[i].is, subject))
				continue;
			count_wanted(&source->counted[i], 1);
			if (take_line(source, i, &shares)) {
				head->mask[word] |= (uint64_t)1 << i % 64;
				any = true;
			}
		}
	}
	head->taken = source->taken;
	head->now = now;
	return any;
}

void sl_tail_write(struct sl_tail_source *source, struct sl_tail_head *head, struct sluice_bytes line) {
	head->len = (uint32_t)line.len;
	sl_tail_ring_write(&source->ring, head, line.data);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* What one worker has counted for a filter. */
static uint64_t count_of(const struct counted *counted, uint64_t since) {
	/* acquire: the count is this filter's, and of lines read before none is missing */
	if (atomic_load_explicit(&counted->of, memory_order_acquire) != since)
		return 0;
	return atomic_load_explicit(&counted->wanted, memory_order_acquire);
}

static uint64_t counted_of(const struct sl_tail *tail, uint32_t filter, uint64_t since) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < tail->workers; i++)
		sum += count_of(&tail->sources[i].counted[filter], since);
	return sum;
}

/* The lock is held for the following. */

static void tell_change(struct sl_tail *tail) {
	bool any = false;
	tail->change++;
	for (uint32_t i = 0; i < SL_TAIL_READERS_MAX; i++)
		any = any || tail->filters[i].readers != 0;
	for (uint32_t i = 0; i < tail->workers; i++)
		atomic_store_explicit(&tail->sources[i].wanted.change, any ? tail->change : 0, memory_order_relaxed);
}

static uint32_t find_filter(const struct sl_tail *tail, const struct sl_tail_filter *filter) {
	uint32_t i = 0;
	while (i < SL_TAIL_READERS_MAX && (tail->filters[i].readers == 0 || !is_same(&tail->filters[i].is, filter)))
		i++;
	return i;
}

static uint32_t make_filter(struct sl_tail *tail, const struct sl_tail_filter *filter) {
	while (tail->filters[tail->next].readers != 0)
		tail->next = (tail->next + 1) % SL_TAIL_READERS_MAX;
	uint32_t i = tail->next;
	tail->next = (i + 1) % SL_TAIL_READERS_MAX;
	tail->filters[i] = (struct filter){.readers = 1, .since = tail->change + 1, .is = *filter};
	tell_change(tail);
	SL_ASSERT(tail->filters[i].since == tail->change);
	return i;
}

static void begin_reader(struct sl_tail *tail, struct sl_tail_reader *reader, const struct sl_tail_filter *filter) {
	uint32_t i = find_filter(tail, filter);
	if (i < SL_TAIL_READERS_MAX)
		tail->filters[i].readers++;
	else
		i = make_filter(tail, filter);
	reader->filter = i;
	reader->since = tail->filters[i].since;
}

enum sl_tail_joined sl_tail_join(struct sl_tail *tail, const struct sl_tail_filter *filter,
                                 struct sl_tail_reader **reader) {
	struct sl_tail_reader *made = calloc(1, sizeof *made + tail->workers * sizeof made->from[0]);
	*reader = NULL;
	if (made == NULL)
		return SL_TAIL_NO_MEMORY;
	pthread_mutex_lock(&tail->lock);
	bool full = atomic_load_explicit(&tail->readers, memory_order_relaxed) == SL_TAIL_READERS_MAX;
	if (!full) {
		atomic_fetch_add_explicit(&tail->readers, 1, memory_order_relaxed);
		begin_reader(tail, made, filter);
	}
	pthread_mutex_unlock(&tail->lock);
	if (full) {
		free(made);
		return SL_TAIL_FULL;
	}
	made->tail = tail;
	/* first where lines begin, then what was counted: a line before that was counted by then */
	for (uint32_t i = 0; i < tail->workers; i++)
		made->from[i] = sl_tail_ring_end(&tail->sources[i].ring);
	made->base = counted_of(tail, made->filter, made->since);
	*reader = made;
	return SL_TAIL_JOINED;
}

void sl_tail_leave(struct sl_tail_reader *reader) {
	if (reader == NULL)
		return;
	struct sl_tail *tail = reader->tail;
	pthread_mutex_lock(&tail->lock);
	SL_ASSERT(tail->filters[reader->filter].readers != 0);
	atomic_fetch_sub_explicit(&tail->readers, 1, memory_order_relaxed);
	if (--tail->filters[reader->filter].readers == 0)
		tell_change(tail);
	pthread_mutex_unlock(&tail->lock);
	free(reader);
}

void sl_tail_count_wanted(struct sl_tail_reader *reader) {
	reader->wanted = counted_of(reader->tail, reader->filter, reader->since) - reader->base;
}

uint64_t sl_tail_missed(struct sl_tail_reader *reader) {
	uint64_t known = reader->got + reader->missed, missed = reader->wanted > known ? reader->wanted - known : 0;
	reader->missed += missed;
	atomic_fetch_add_explicit(&reader->tail->missed, missed, memory_order_relaxed);
	return missed;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

struct sl_tail *sl_tail_new(uint32_t workers) {
	struct sl_tail *tail = calloc(1, sizeof *tail);
	if (tail == NULL)
		return NULL;
	pthread_mutex_init(&tail->lock, NULL);
	tail->workers = workers;
	tail->sources = sl_map_private(workers * sizeof *tail->sources, true); /* zeros; touched once somebody reads */
	if (tail->sources == NULL) {
		sl_tail_free(tail);
		return NULL;
	}
	for (uint32_t i = 0; i < workers; i++)
		tail->sources[i].tail = tail;
	return tail;
}

void sl_tail_free(struct sl_tail *tail) {
	if (tail == NULL)
		return;
	SL_ASSERT(atomic_load_explicit(&tail->readers, memory_order_relaxed) == 0);
	if (tail->sources != NULL)
		sl_map_free(tail->sources, tail->workers * sizeof *tail->sources);
	pthread_mutex_destroy(&tail->lock);
	free(tail);
}

struct sl_tail_source *sl_tail_source(struct sl_tail *tail, uint32_t worker) {
	SL_ASSERT(worker < tail->workers);
	return &tail->sources[worker];
}

uint32_t sl_tail_workers(const struct sl_tail *tail) {
	return tail->workers;
}

const struct sl_tail_ring *sl_tail_ring(const struct sl_tail *tail, uint32_t worker) {
	return &tail->sources[worker].ring;
}

void sl_tail_count_sent(struct sl_tail *tail, uint64_t lines) {
	atomic_fetch_add_explicit(&tail->sent, lines, memory_order_relaxed);
}

struct sl_tail_figures sl_tail_figures(const struct sl_tail *tail) {
	if (tail == NULL)
		return (struct sl_tail_figures){0};
	return (struct sl_tail_figures){atomic_load_explicit(&tail->readers, memory_order_relaxed),
	                                atomic_load_explicit(&tail->sent, memory_order_relaxed),
	                                atomic_load_explicit(&tail->missed, memory_order_relaxed)};
}
