/* Heavy hitters in fixed memory: Space-Saving, set-associative.
 *
 *   hash(limit, key) -> set 0..63 -> 8 places { hash, count, error, last; name of the limit, key }
 *
 *   known key     count + EVENT
 *   a free place  count EVENT, error 0
 *   else          the place with the least count m is taken over: count m + EVENT, error m
 *
 * With true(k) the events of key k (halved as the counts are) and m the least count of its set, 0 while one is free:
 *  T1  a key that has a place: count - error <= true <= count
 *  T2  a key that has none: true <= m, and m is at most 1/8 of the set's events
 * So every key above an eighth of its set's events has a place. Lists over several workers keep T1: a sketch in which a
 * key has no place adds its m to both count and error.
 *
 * Halving rounds down, which keeps both: count' = count / 2, error' = count' - (count - error) / 2. A set is halved
 * when it is next looked at, by as many steps as have passed. A place counts halves of events, and a list rounds them
 * up: so a lone event is in the list for one to two minutes, and not only until the minute ends. A place whose count
 * has come to 0 is free but keeps its key, for the denial log to know what it has written.
 *
 * One mutex a set, held for some tens of ns by a worker and for the copy of one key by a reader, so that a reader who
 * lists 512 keys never holds a worker up for longer. The hash is 64 bits under a secret of the process: it stands for
 * the key, two of a sketch are taken for one with a chance of 2^-46.
 *
 * Source: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005;
 * merging: Agarwal et al., "Mergeable summaries", 2012. */
#include "hosts/server/watch/top.h"

#include "base/assert.h"
#include "base/math.h"
#include "base/siphash.h"
#include "os/map.h"

#include <pthread.h>
#include <stdlib.h>

#define HALVE_NS ((sluice_ns)SL_TOP_HALVE_MS * 1000000)

enum { EVENT = 2 }; /* what one adds to a count */

_Static_assert((SL_TOP_SETS & (SL_TOP_SETS - 1)) == 0, "a set is chosen by a mask");

struct place {
	uint64_t hash; /* 0: never used */
	uint64_t count, error; /* in halves of events */
	sluice_ns last;
	sluice_ns logged;    /* when the denial log had a line of it; 0: never */
	uint64_t suppressed; /* events since */
};

struct text {
	bool named;
	uint16_t limit_len, key_len;
	char limit[SLUICE_LIMIT_TEXT_MAX], key[SLUICE_KEY_BYTES_MAX];
};

struct set {
	pthread_mutex_t lock; /* guards the set and its texts */
	uint64_t halvings;    /* steps of HALVE_NS since 1970 that its counts have been through */
	struct place places[SL_TOP_WAYS];
};

struct sl_top {
	struct set sets[SL_TOP_KINDS][SL_TOP_SETS];
	struct text texts[SL_TOP_KINDS][SL_TOP_SETS][SL_TOP_WAYS];
};

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static const char *const kinds[SL_TOP_KINDS] = {"denied", "near", "shadow", "candidate"};

const char *sl_top_kind_name(enum sl_top_kind kind) {
	return kind < SL_TOP_KINDS ? kinds[kind] : NULL;
}

bool sl_top_kind_find(struct sluice_bytes name, enum sl_top_kind *kind) {
	for (int i = 0; i < SL_TOP_KINDS; i++)
		if (name.len == strlen(kinds[i]) && sl_bytes_equal_nocase(name, kinds[i])) {
			*kind = (enum sl_top_kind)i;
			return true;
		}
	return false;
}

/* ---- the secret: one for all sketches, so that their keys can be told to be equal -------------------------------- */

static uint64_t secret[2];
static bool secret_made;
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;

static void make_secret(void) {
	secret_made = sl_random_secret(secret);
}

static uint64_t hash_of(bool named, struct sluice_bytes limit, struct sluice_bytes key) {
	const uint64_t words[2] = {sl_siphash(secret, NULL, 0, limit, 1, 3), named};
	uint64_t hash = sl_siphash(secret, words, 2, key, 1, 3);
	return hash != 0 ? hash : 1;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

struct sl_top *sl_top_new(void) {
	pthread_once(&secret_once, make_secret);
	struct sl_top *top = secret_made ? calloc(1, sizeof *top) : NULL;
	for (int kind = 0; top != NULL && kind < SL_TOP_KINDS; kind++)
		for (int i = 0; i < SL_TOP_SETS; i++)
			pthread_mutex_init(&top->sets[kind][i].lock, NULL);
	return top;
}

void sl_top_free(struct sl_top *top) {
	for (int kind = 0; top != NULL && kind < SL_TOP_KINDS; kind++)
		for (int i = 0; i < SL_TOP_SETS; i++)
			pthread_mutex_destroy(&top->sets[kind][i].lock);
	free(top);
}

/* ---- one set, locked --------------------------------------------------------------------------------------------- */

static void halve(struct set *set, sluice_ns now) {
	uint64_t steps = now / HALVE_NS, by = steps - set->halvings;
	if (steps <= set->halvings)
		return;
	set->halvings = steps;
	by = sl_min(by, 63);
	for (int i = 0; i < SL_TOP_WAYS; i++) {
		struct place *place = &set->places[i];
		uint64_t sure = (place->count - place->error) >> by;
		place->count >>= by;
		place->error = place->count - sure;
	}
}

/* What a key without a place may have had at most. */
static uint64_t least_count(const struct set *set) {
	uint64_t least = set->places[0].count;
	for (int i = 1; i < SL_TOP_WAYS; i++)
		least = sl_min(least, set->places[i].count);
	return least;
}

/* The place of a key; -1 where it has none. */
static int find(const struct set *set, uint64_t hash) {
	for (int i = 0; i < SL_TOP_WAYS; i++)
		if (set->places[i].hash == hash)
			return i;
	return -1;
}

/* The place to take over: the least count, and of equals the one unused for longest. */
static int choose(const struct set *set) {
	int best = 0;
	for (int i = 1; i < SL_TOP_WAYS; i++) {
		const struct place *one = &set->places[i], *than = &set->places[best];
		if (one->count < than->count || (one->count == than->count && one->last < than->last))
			best = i;
	}
	return best;
}

static void write_text(struct text *text, bool named, struct sluice_bytes limit, struct sluice_bytes key) {
	text->named = named;
	text->limit_len = (uint16_t)sl_min(limit.len, sizeof text->limit);
	text->key_len = (uint16_t)sl_min(key.len, sizeof text->key);
	if (text->limit_len != 0)
		memcpy(text->limit, limit.data, text->limit_len);
	if (text->key_len != 0)
		memcpy(text->key, key.data, text->key_len);
}

/* ---- noting ------------------------------------------------------------------------------------------------------ */

/* Counts one more event of a place, and says whether it is to be logged. */
static struct sl_top_noted note_place(struct place *place, sluice_ns now, sluice_ns per_key_ns) {
	struct sl_top_noted noted = {.suppressed = place->suppressed};
	place->count += EVENT;
	place->last = sl_max(place->last, now);
	noted.write = place->logged == 0 || now >= place->logged + per_key_ns;
	if (noted.write) {
		place->logged = now;
		place->suppressed = 0;
	} else {
		place->suppressed++;
	}
	return noted;
}

struct sl_top_noted sl_top_note(struct sl_top *top, enum sl_top_kind kind, bool named, struct sluice_bytes limit,
                                struct sluice_bytes key, sluice_ns now, sluice_ns per_key_ns) {
	uint64_t hash = hash_of(named, limit, key);
	uint32_t index = hash & (SL_TOP_SETS - 1);
	struct set *set = &top->sets[kind][index];
	pthread_mutex_lock(&set->lock);
	halve(set, now);
	int at = find(set, hash);
	if (at < 0) {
		at = choose(set);
		uint64_t before = set->places[at].count;
		set->places[at] = (struct place){.hash = hash, .count = before, .error = before};
		write_text(&top->texts[kind][index][at], named, limit, key);
	}
	struct sl_top_noted noted = note_place(&set->places[at], now, per_key_ns);
	pthread_mutex_unlock(&set->lock);
	return noted;
}

/* ---- listing ----------------------------------------------------------------------------------------------------- */

/* A key of the list. */
struct candidate {
	uint64_t hash;
	int64_t count, error; /* less the least counts of its set, until all sketches have been looked at */
	sluice_ns last;
	struct sl_top *top; /* one that has its text */
};

struct gathering {
	struct candidate *list;
	size_t count, first; /* of the set in hand */
};

static struct candidate *candidate_of(struct gathering *found, uint64_t hash, struct sl_top *top) {
	for (size_t i = found->first; i < found->count; i++)
		if (found->list[i].hash == hash)
			return &found->list[i];
	found->list[found->count] = (struct candidate){.hash = hash, .top = top};
	return &found->list[found->count++];
}

/* Adds the keys of one set of one sketch to those of the same set of the sketches before. Returns its least count. */
static uint64_t gather_set(struct gathering *found, struct sl_top *top, struct set *set, sluice_ns now) {
	pthread_mutex_lock(&set->lock);
	halve(set, now);
	uint64_t least = least_count(set);
	for (int i = 0; i < SL_TOP_WAYS; i++) {
		const struct place *place = &set->places[i];
		if (place->count == 0)
			continue;
		struct candidate *one = candidate_of(found, place->hash, top);
		one->count += (int64_t)(place->count - least);
		one->error += (int64_t)(place->error - least); /* may be below 0 */
		one->last = sl_max(one->last, place->last);
	}
	pthread_mutex_unlock(&set->lock);
	return least;
}

static void gather(struct gathering *found, struct sl_top *const *tops, uint32_t top_count, enum sl_top_kind kind,
                   sluice_ns now) {
	for (int set = 0; set < SL_TOP_SETS; set++) {
		uint64_t least = 0;
		found->first = found->count;
		for (uint32_t i = 0; i < top_count; i++)
			least += gather_set(found, tops[i], &tops[i]->sets[kind][set], now);
		for (size_t i = found->first; i < found->count; i++) {
			found->list[i].count += (int64_t)least;
			found->list[i].error += (int64_t)least;
		}
	}
}

/* Most events first; of equals the surer, then the later. */
static int compare(const void *a, const void *b) {
	const struct candidate *x = a, *y = b;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	if (x->error != y->error)
		return x->error < y->error ? -1 : 1;
	return x->last > y->last ? -1 : x->last < y->last;
}

static uint64_t events_of(uint64_t count) {
	return (count + EVENT - 1) / EVENT;
}

/* Copies the text of a key; false where it has lost its place since. */
static bool fill(struct sl_top_entry *entry, const struct candidate *from, enum sl_top_kind kind) {
	uint32_t index = from->hash & (SL_TOP_SETS - 1);
	struct set *set = &from->top->sets[kind][index];
	pthread_mutex_lock(&set->lock);
	int at = find(set, from->hash);
	if (at >= 0) {
		const struct text *text = &from->top->texts[kind][index][at];
		entry->named = text->named;
		entry->limit_len = text->limit_len;
		entry->key_len = text->key_len;
		memcpy(entry->limit, text->limit, text->limit_len);
		memcpy(entry->key, text->key, text->key_len);
	}
	pthread_mutex_unlock(&set->lock);
	entry->count = events_of((uint64_t)from->count);
	entry->error = entry->count - events_of((uint64_t)(from->count - from->error));
	entry->last = from->last;
	return at >= 0;
}

uint32_t sl_top_list(struct sl_top *const *tops, uint32_t top_count, enum sl_top_kind kind, sluice_ns now,
                     struct sl_top_entry *entries, uint32_t room) {
	struct gathering found = {.list = calloc((size_t)top_count * SL_TOP_SETS * SL_TOP_WAYS + 1, sizeof *found.list)};
	uint32_t count = 0;
	if (found.list == NULL)
		return 0;
	gather(&found, tops, top_count, kind, now);
	qsort(found.list, found.count, sizeof *found.list, compare);
	for (size_t i = 0; i < found.count && count < room; i++)
		count += fill(&entries[count], &found.list[i], kind);
	free(found.list);
	return count;
}
