/* See bundle.h.
 *
 * The contents are buckets of 16 places; a reservation is in one of two that its id picks, in the emptier one when it
 * came. They are at most five eighths full, or three quarters where there is no more memory: then no bucket overflows,
 * and all that is looked at for an id is 32 places. Nobody clears the places of what has ended with its bundle: whoever
 * needs one sees that no bundle covers it. */
#include "algo/bundle.h"

#include "algo/calendar.h"
#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"

#include <string.h>

enum { PLACES = 16, BUCKETS_MIN = 8, BUCKETS_MAX = 2048, CLASSES = 8, FOLDS_AT_ONCE = 2 };
#define NEVER_COUNTS UINT64_MAX /* the class of what counts no longer when it ends */

struct head {
	uint32_t buckets; /* a power of two */
	uint32_t rate;    /* the highest by which the bucket drained since it was turned; 0: it was not */
	sluice_ns void_until;
	uint64_t seed;
	uint64_t zero;
};
_Static_assert(sizeof(struct head) == 32 && sizeof(struct sl_reservation) == 32, "a table of whole words");
_Static_assert(SL_CONTENTS_BYTES_MAX == sizeof(struct head) + BUCKETS_MAX * PLACES * sizeof(struct sl_reservation),
               "what the header says");
_Static_assert(BUCKETS_MAX * PLACES / 8 * 5 > SL_LEDGER_MAX, "the longest ledger has room");

/* Of logs and sub-buckets each charge is returned in its own place. */
static bool by_charge(uint32_t algorithm) {
	return sl_algorithm_has(algorithm, SL_KEEPS_TIMES);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* The window of the calendar that an instant is in; most are in that of the one before. */
static struct sl_span span_in(const struct sluice_limit *limit, sluice_ns instant, struct sl_span *before) {
	if (instant < before->start || instant >= before->end)
		*before = sl_calendar_span(limit, instant);
	return *before;
}

/* When a charge counts no longer at all. */
static sluice_ns leaves_at(const struct sluice_limit *limit, sluice_ns instant, struct sl_span *before) {
	return limit->calendar != SLUICE_CALENDAR_NONE ? span_in(limit, instant, before).end
	                                               : sl_step_leaves(limit, instant);
}

/* Of logs in milliseconds as they keep them, rounded up. */
struct sl_class sl_bundle_class(const struct sluice_limit *limit, sluice_ns instant) {
	sluice_ns width = limit->window_ns / CLASSES, at = instant;
	uint64_t number;
	if (sl_rule_has(limit, SL_ROUNDS_TO_MS)) {
		width = sl_max(width / SL_MS_NS, 1) * SL_MS_NS;
		at = sl_ns_plus(at, SL_MS_NS - 1) / SL_MS_NS * SL_MS_NS;
	} else {
		width = (limit->bucket_count + CLASSES - 1) / CLASSES * limit->precision_ns;
	}
	SL_ASSERT(width != 0);
	number = at / width;
	return (struct sl_class){number, number * width, sl_ns_plus(number * width, width)};
}

static uint64_t class_of_charge(const struct sluice_limit *limit, sluice_ns instant, struct sl_span *before) {
	if (sl_rule_has(limit, SL_DRAINS))
		return 0;
	if (instant == 0)
		return NEVER_COUNTS;
	if (by_charge(limit->algorithm))
		return sl_bundle_class(limit, instant).number;
	if (limit->calendar != SLUICE_CALENDAR_NONE)
		return span_in(limit, instant, before).start;
	if (sl_rule_spreads(limit))
		return sl_step_reach(limit, instant).full;
	return instant - instant % limit->window_ns;
}

/* A bundle's instant says its class; a reservation is of none where it ends when it counts no longer. */
static uint64_t class_behind(const struct sluice_limit *limit, const struct sl_reservation *it,
                             struct sl_span *before) {
	if (!sl_bundle_is(limit->algorithm, it) && it->end >= leaves_at(limit, it->instant, before))
		return NEVER_COUNTS;
	return class_of_charge(limit, it->instant, before);
}

static uint64_t class_of(const struct sluice_limit *limit, const struct sl_reservation *it) {
	struct sl_span before = {0, 0};
	return class_behind(limit, it, &before);
}

static sluice_ns low_of(uint32_t algorithm, const struct sl_reservation *it) {
	return sl_bundle_is(algorithm, it) ? it->id : it->end;
}

/* The bundle that covers a reservation of a class; -1: none. */
static int64_t covering(const struct sluice_limit *limit, const struct sl_reservation *list, uint32_t count,
                        uint64_t class, sluice_ns end) {
	struct sl_span before = {0, 0};
	for (uint32_t i = end != 0 ? sl_ledger_ended(&(struct sl_ledger){list, count}, end - 1) : 0; i < count; i++)
		if (sl_bundle_is(limit->algorithm, &list[i]) && list[i].id <= end &&
		    class_behind(limit, &list[i], &before) == class)
			return i;
	return -1;
}

uint32_t sl_ledger_open(uint32_t algorithm, const struct sl_ledger *ledger) {
	uint32_t open = 0;
	for (uint32_t i = 0; i < ledger->count; i++)
		open += sl_bundle_count(algorithm, &ledger->list[i]);
	return open;
}

uint32_t sl_ledger_bundled(uint32_t algorithm, const struct sl_ledger *ledger) {
	uint32_t bundled = 0;
	for (uint32_t i = 0; i < ledger->count; i++)
		bundled += sl_bundle_is(algorithm, &ledger->list[i]) ? ledger->list[i].debt & 0xffff : 0;
	return bundled;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static struct head *head_of(const struct sl_contents *contents) {
	return contents->memory;
}

bool sl_contents_are_valid(const struct sl_contents *contents) {
	const struct head *head = contents->memory;
	return head != NULL && contents->bytes >= sizeof *head && head->buckets >= BUCKETS_MIN &&
	       head->buckets <= BUCKETS_MAX && (head->buckets & (head->buckets - 1)) == 0 && head->zero == 0 &&
	       contents->bytes >= sizeof *head + (uint64_t)head->buckets * PLACES * sizeof(struct sl_reservation);
}

static uint32_t buckets_for(uint32_t count) {
	uint32_t buckets = BUCKETS_MIN;
	while (buckets < BUCKETS_MAX && buckets * PLACES / 8 * 5 < count)
		buckets *= 2;
	return buckets;
}

uint64_t sl_contents_bytes(uint32_t count) {
	SL_ASSERT(buckets_for(count) >= BUCKETS_MIN && buckets_for(count) <= BUCKETS_MAX);
	return sizeof(struct head) + (uint64_t)buckets_for(count) * PLACES * sizeof(struct sl_reservation);
}

bool sl_contents_have_room(const struct sl_contents *contents, uint32_t open, uint32_t more) {
	return sl_contents_are_valid(contents) && buckets_for(open + more) <= head_of(contents)->buckets;
}

bool sl_contents_bear(const struct sl_contents *contents, uint32_t open, uint32_t more) {
	return sl_contents_are_valid(contents) && open + more <= head_of(contents)->buckets * PLACES / 4 * 3;
}

static struct sl_reservation *bucket_at(const struct sl_contents *contents, uint64_t hash, unsigned which) {
	struct sl_reservation *first = (struct sl_reservation *)(void *)(head_of(contents) + 1);
	uint32_t bucket = (uint32_t)(which == 0 ? hash : hash >> 32) & (head_of(contents)->buckets - 1);
	return first + (size_t)bucket * PLACES;
}

/* The finalizer of MurmurHash3. */
static uint64_t hash_of(const struct sl_contents *contents, uint64_t id) {
	uint64_t hash = id ^ head_of(contents)->seed;
	hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
	hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ hash >> 33;
}

static void save(const struct sl_contents *contents, const void *word) {
	if (contents->save != NULL)
		contents->save(contents->context, word);
}

static void write_place(const struct sl_contents *contents, struct sl_reservation *place,
                        const struct sl_reservation *it) {
	SL_ASSERT((uintptr_t)place % 8 == 0 && it->cost != 0);
	save(contents, &place->id);
	save(contents, &place->instant);
	save(contents, &place->end);
	save(contents, &place->cost);
	*place = *it;
}

static uint64_t class_in(const struct sluice_limit *limit, const struct sl_contents *contents,
                         const struct sl_reservation *it) {
	if (it->instant <= head_of(contents)->void_until && !sl_rule_has(limit, SL_DRAINS))
		return NEVER_COUNTS;
	return class_of(limit, it);
}

static bool is_open(const struct sluice_limit *limit, const struct sl_contents *contents,
                    const struct sl_reservation *it, const struct sl_reservation *list, uint32_t count) {
	return it->cost != 0 && count != 0 &&
	       covering(limit, list, count, class_in(limit, contents, it), it->end) >= 0;
}

/* The earliest end that any bundle of a list covers: what ended before has gone. */
static sluice_ns earliest(uint32_t algorithm, const struct sl_reservation *list, uint32_t count) {
	sluice_ns low = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++)
		if (sl_bundle_is(algorithm, &list[i]) && list[i].id < low)
			low = list[i].id;
	return low;
}

/* A place of a bucket that is free, and how many are; NULL: none is. Of what has gone with its bundle, most ended
 * before all that is open; the rest is looked for only where there is nothing else. */
static struct sl_reservation *free_place(struct sl_reservation *bucket, sluice_ns low, uint32_t *empty) {
	struct sl_reservation *found = NULL;
	*empty = 0;
	for (unsigned i = 0; i < PLACES; i++)
		if (bucket[i].cost == 0 || bucket[i].end < low) {
			++*empty;
			found = &bucket[i];
		}
	return found;
}

static struct sl_reservation *gone_place(const struct sluice_limit *limit, const struct sl_contents *contents,
                                         struct sl_reservation *bucket, const struct sl_reservation *list,
                                         uint32_t count) {
	for (unsigned i = 0; i < PLACES; i++)
		if (count == 0 || (bucket[i].end < list[0].end && !is_open(limit, contents, &bucket[i], list, count)))
			return &bucket[i];
	return NULL;
}

static bool put(const struct sluice_limit *limit, const struct sl_contents *contents, const struct sl_reservation *it,
                const struct sl_reservation *list, uint32_t count) {
	/* of nobody's id there may be many, and nobody looks for them */
	uint64_t hash = hash_of(contents, it->id != 0 ? it->id : it->end ^ it->instant << 17 ^ (uint64_t)it->debt << 40);
	struct sl_reservation *buckets[2] = {bucket_at(contents, hash, 0), bucket_at(contents, hash, 1)}, *place;
	sluice_ns low = earliest(limit->algorithm, list, count);
	uint32_t empty[2];
	struct sl_reservation *places[2] = {free_place(buckets[0], low, &empty[0]), free_place(buckets[1], low, &empty[1])};
	place = places[empty[1] > empty[0]];
	for (unsigned i = 0; i < 2 && place == NULL; i++)
		place = gone_place(limit, contents, buckets[i], list, count);
	if (place != NULL)
		write_place(contents, place, it);
	return place != NULL;
}

static const struct sl_reservation *first_place(const struct sl_contents *contents) {
	return (const struct sl_reservation *)(const void *)(head_of(contents) + 1);
}

static uint32_t places_of(const struct sl_contents *contents) {
	return head_of(contents)->buckets * PLACES;
}

void sl_contents_format(const struct sluice_limit *limit, const struct sl_contents *contents,
                        const struct sl_contents *from, const struct sl_ledger *ledger, uint64_t seed) {
	uint32_t buckets = BUCKETS_MIN, count = from != NULL && sl_contents_are_valid(from) ? places_of(from) : 0;
	while (buckets < BUCKETS_MAX &&
	       sizeof(struct head) + (uint64_t)buckets * 2 * PLACES * sizeof(struct sl_reservation) <= contents->bytes)
		buckets *= 2;
	SL_ASSERT(sizeof(struct head) + (uint64_t)buckets * PLACES * sizeof(struct sl_reservation) <= contents->bytes);
	memset(contents->memory, 0, sizeof(struct head) + (uint64_t)buckets * PLACES * sizeof(struct sl_reservation));
	head_of(contents)->buckets = buckets;
	head_of(contents)->seed = seed;
	if (count != 0) {
		head_of(contents)->rate = head_of(from)->rate;
		head_of(contents)->void_until = head_of(from)->void_until;
	}
	SL_ASSERT(sl_contents_are_valid(contents));
	for (uint32_t i = 0; i < count; i++)
		if (is_open(limit, from, &first_place(from)[i], ledger->list, ledger->count))
			(void)put(limit, contents, &first_place(from)[i], ledger->list, ledger->count);
}

/* ---- folding ----------------------------------------------------------------------------------------------------- */

static unsigned logarithm(uint64_t n) {
	return n == 0 ? 0 : 63 - (unsigned)__builtin_clzll(n);
}

/* The logarithm of the time that an entry was reserved for. */
static unsigned span_of(uint32_t algorithm, const struct sl_reservation *it) {
	return sl_bundle_is(algorithm, it) ? it->debt >> 16 & 63 : logarithm(it->end - it->instant);
}

/* How much later what is in `a` ends with `b`, as part of the time that it was reserved for: in 2^-32, but for a factor
 * below 2. */
static uint64_t delay_of(uint32_t algorithm, const struct sl_reservation *a, const struct sl_reservation *b) {
	sluice_ns late = b->end - low_of(algorithm, a);
	unsigned span = span_of(algorithm, a);
	if (span >= 32)
		return late >> (span - 32);
	return late >> (32 + span) != 0 ? UINT64_MAX : late << (32 - span);
}

struct last {
	uint64_t class;
	uint32_t at;
};

/* The two neighbours of one class that are to be one. False: there are none. */
static bool choose(const struct sluice_limit *limit, const struct sl_reservation *list, uint32_t count, uint32_t *i,
                   uint32_t *j) {
	struct last lasts[SL_LEDGER_LIST_MAX];
	uint32_t used = 0;
	uint64_t least = UINT64_MAX;
	struct sl_span before = {0, 0};
	bool any = false;
	for (uint32_t k = 0; k < count; k++) {
		uint64_t class = class_behind(limit, &list[k], &before), delay;
		uint32_t at = used;
		while (at > 0 && lasts[at - 1].class != class)
			at--;
		if (at == 0) {
			if (used < SL_LEDGER_LIST_MAX)
				lasts[used++] = (struct last){class, k};
			continue;
		}
		delay = delay_of(limit->algorithm, &list[lasts[at - 1].at], &list[k]);
		if (!any || delay < least) {
			*i = lasts[at - 1].at;
			*j = k;
			least = delay;
			any = true;
		}
		lasts[at - 1].at = k;
	}
	SL_ASSERT(!any || (*i < *j && *j < count));
	return any;
}

/* How long so many units take to drain, rounded down. */
static sluice_ns time_of(const struct sluice_limit *limit, uint32_t rate, uint64_t units) {
	SL_ASSERT(rate != 0);
	return sl_min(sl_div(sl_mul(units, limit->window_ns), rate), UINT64_MAX / 2);
}

/* What of a bucket's entry is given back where it ends later, and until when that holds.
 *
 * As long as the debt after a charge was more than drained of it since, all of the charge is left. From there on it
 * drains, and so do others of the bundle, one after the other. What a bucket owes if they are returned late differs
 * from what it owes if they were in time by what drains of it meanwhile, at most: so that much less is given back, in
 * whole units, which hold a while longer. */
struct stretch {
	uint32_t cost;
	sluice_ns until;
};

static struct stretch stretch_to(const struct sluice_limit *limit, uint32_t rate, const struct sl_reservation *it,
                                 sluice_ns end) {
	struct stretch s = {it->cost, it->instant};
	uint64_t late_ns, units;
	if (rate == 0)
		return (struct stretch){0, end};
	if (!sl_bundle_is(limit->algorithm, it)) {
		s.until = sl_ns_plus(s.until, it->debt > it->cost ? time_of(limit, rate, it->debt - it->cost) : 0);
		if (s.until < it->end)
			s = (struct stretch){(uint32_t)sl_min(it->cost, sl_ledger_left(limit, rate, it, it->end)), it->end};
	}
	if (s.until >= end)
		return s;
	late_ns = end - s.until;
	units = sl_min(sl_div_ceil(sl_mul(rate, late_ns), limit->window_ns), UINT32_MAX);
	s.cost -= (uint32_t)sl_min(s.cost, units);
	SL_ASSERT(s.cost <= it->cost); /* less is given back rather than more */
	s.until = sl_max(end, sl_ns_plus(s.until, time_of(limit, rate, units)));
	return s;
}

static struct sl_reservation fold(const struct sluice_limit *limit, uint32_t rate, const struct sl_reservation *a,
                                  const struct sl_reservation *b) {
	uint32_t algorithm = limit->algorithm, a_cost = a->cost, b_cost = b->cost;
	uint32_t count = sl_bundle_count(algorithm, a) + sl_bundle_count(algorithm, b);
	struct sl_span before = {0, 0};
	struct sl_reservation one = {.id = low_of(algorithm, a), .end = b->end};
	one.debt = (uint32_t)sl_min(span_of(algorithm, a), span_of(algorithm, b)) << 16 | (count & 0xffff);
	one.instant = sl_min(a->instant, b->instant);
	if (sl_algorithm_has(algorithm, SL_DRAINS)) {
		struct stretch late = stretch_to(limit, rate, a, one.end), in_time = stretch_to(limit, rate, b, one.end);
		a_cost = late.cost;
		b_cost = in_time.cost;
		one.instant = sl_min(late.until, in_time.until);
	} else if (class_of(limit, b) == NEVER_COUNTS) {
		one.instant = 0;
	} else if (by_charge(algorithm) && one.end > leaves_at(limit, one.instant, &before)) {
		a_cost = b_cost = 0; /* a part of it may have gone before it ends */
	}
	SL_ASSERT(a_cost <= a->cost && b_cost <= b->cost);
	one.cost = (uint32_t)sl_min((uint64_t)a_cost + b_cost, UINT32_MAX);
	return one;
}

static void put_entry(const struct sluice_limit *limit, const struct sl_contents *contents,
                      const struct sl_reservation *it, struct sl_reservation *list, uint32_t count,
                      struct sl_reservation *bundle) {
	if (sl_bundle_is(limit->algorithm, it) || put(limit, contents, it, list, count))
		return;
	bundle->debt -= 1; /* lost */
}

/* The neighbours that `choose` has found become one. */
static void fold_two(const struct sluice_limit *limit, uint32_t rate, struct sl_reservation *list, uint32_t *count,
                     uint32_t i, uint32_t j, const struct sl_contents *contents) {
	struct sl_reservation a = list[i], b = list[j];
	SL_ASSERT(i < j && j < *count);
	list[j] = fold(limit, rate, &a, &b);
	memmove(&list[i], &list[i + 1], (*count - i - 1) * sizeof *list);
	--*count;
	put_entry(limit, contents, &a, list, *count, &list[j - 1]);
	put_entry(limit, contents, &b, list, *count, &list[j - 1]);
}

/* A bundle that covers what is added takes it in. */
static bool join(const struct sluice_limit *limit, uint32_t rate, struct sl_reservation *list, uint32_t count,
                 const struct sl_reservation *added, const struct sl_contents *contents) {
	int64_t at = covering(limit, list, count, class_of(limit, added), added->end);
	struct sl_reservation both;
	if (at < 0)
		return false;
	SL_ASSERT(at < count && sl_bundle_is(limit->algorithm, &list[at]));
	if (!put(limit, contents, added, list, count))
		return true; /* lost */
	both = fold(limit, rate, added, &list[at]);
	both.id = list[at].id;
	list[at] = both;
	return true;
}

void sl_bundle_add(const struct sluice_limit *limit, uint32_t rate, struct sl_reservation *list, uint32_t *count,
                   const struct sl_reservation *added, const struct sl_contents *contents) {
	bool valid = sl_contents_are_valid(contents);
	uint32_t at = *count, i, j;
	SL_ASSERT(added->cost != 0 && !sl_bundle_is(limit->algorithm, added));
	if (valid && join(limit, rate, list, *count, added, contents))
		return;
	for (; at > 0 && list[at - 1].end > added->end; at--)
		list[at] = list[at - 1];
	list[at] = *added;
	++*count;
	for (unsigned k = 0; valid && k < FOLDS_AT_ONCE && *count > SL_LEDGER_LIST_MAX; k++)
		if (choose(limit, list, *count, &i, &j))
			fold_two(limit, rate, list, count, i, j, contents);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* What stands in the contents, as it is to be corrected at `now`. */
static struct sl_reservation as_corrected(const struct sluice_limit *limit, const struct sl_contents *contents,
                                          const struct sl_reservation *place, sluice_ns now) {
	struct sl_reservation its = *place;
	uint32_t rate = head_of(contents)->rate;
	if (place->instant <= head_of(contents)->void_until) {
		its.instant = 0;
	} else if (sl_rule_has(limit, SL_DRAINS) && rate != 0) {
		its.debt = sl_ledger_left(limit, rate, place, now);
		its.instant = now;
	}
	return its;
}

struct sl_found sl_bundle_find(const struct sluice_limit *limit, const struct sl_ledger *ledger,
                               const struct sl_contents *contents, uint64_t id, sluice_ns now) {
	uint32_t ended = sl_ledger_ended(ledger, now);
	struct sl_found found = {.at = -1};
	for (uint32_t i = ended; i < ledger->count; i++)
		if (ledger->list[i].id == id && !sl_bundle_is(limit->algorithm, &ledger->list[i]))
			return (struct sl_found){i, ledger->list[i], NULL};
	if (!sl_contents_are_valid(contents) || id == 0)
		return found;
	for (unsigned which = 0; which < 2; which++) {
		struct sl_reservation *bucket = bucket_at(contents, hash_of(contents, id), which);
		for (unsigned i = 0; i < PLACES; i++) {
			int64_t at;
			if (bucket[i].id != id || bucket[i].cost == 0)
				continue;
			at = covering(limit, ledger->list + ended, ledger->count - ended, class_in(limit, contents, &bucket[i]),
			              bucket[i].end);
			if (at >= 0)
				return (struct sl_found){ended + at, as_corrected(limit, contents, &bucket[i], now), &bucket[i]};
		}
	}
	return found;
}

bool sl_bundle_without(const struct sl_found *found, struct sl_reservation *entry) {
	if (found->place == NULL || (entry->debt & 0xffff) <= 1)
		return false;
	entry->debt--;
	entry->cost -= (uint32_t)sl_min(entry->cost, found->its.cost);
	return true;
}

void sl_contents_remove(const struct sl_contents *contents, const struct sl_found *found) {
	if (found->place == NULL)
		return;
	save(contents, &found->place->cost);
	__atomic_store_n(&found->place->cost, 0, __ATOMIC_RELAXED);
}

/* ---- returning --------------------------------------------------------------------------------------------------- */

/* Each of the contents that the ended ones cover. */
static uint32_t return_contents(const struct sluice_limit *limit, const struct sl_reservation *list, uint32_t count,
                                const struct sl_contents *contents, struct sl_correction *to, uint32_t room) {
	const struct sl_reservation *place = first_place(contents);
	sluice_ns last = count != 0 ? list[count - 1].end : 0;
	uint32_t used = 0;
	for (uint32_t i = 0; i < places_of(contents) && used < room; i++) {
		int64_t at;
		if (place[i].cost == 0 || place[i].end > last || place[i].instant <= head_of(contents)->void_until)
			continue;
		at = covering(limit, list, count, class_in(limit, contents, &place[i]), place[i].end);
		if (at < 0)
			continue;
		to[used] = sl_ledger_return(&place[i]);
		to[used++].known = list[at].end;
	}
	return used;
}

uint32_t sl_bundle_returns(const struct sluice_limit *limit, const struct sl_ledger *ledger,
                           const struct sl_contents *contents, uint32_t from, uint32_t until,
                           struct sl_correction *list) {
	uint32_t used = 0, bundled = 0;
	SL_ASSERT(from <= until && until <= ledger->count);
	for (uint32_t i = from; i < until; i++) {
		const struct sl_reservation *it = &ledger->list[i];
		if (by_charge(limit->algorithm) && sl_bundle_is(limit->algorithm, it)) {
			bundled += it->debt & 0xffff;
			continue;
		}
		if (it->instant == 0 || it->cost == 0)
			continue;
		if (list != NULL)
			list[used] = sl_ledger_return(it);
		used++;
	}
	if (list == NULL)
		return used + bundled;
	if (bundled != 0 && sl_contents_are_valid(contents))
		used += return_contents(limit, ledger->list + from, until - from, contents, list + used, bundled);
	return used;
}

/* ---- turning, voiding -------------------------------------------------------------------------------------------- */

void sl_bundle_turn(const struct sluice_limit *limit, uint32_t rate, struct sl_reservation *entry, sluice_ns now) {
	struct stretch late;
	sluice_ns ahead, turned;
	if (!sl_bundle_is(limit->algorithm, entry)) {
		entry->debt = sl_ledger_left(limit, rate, entry, now);
		entry->instant = now;
		return;
	}
	ahead = entry->instant - sl_min(entry->instant, now);
	turned = limit->quota != 0 ? sl_div(sl_mul(ahead, rate), limit->quota) : 0;
	entry->instant = sl_ns_plus(now, sl_min(turned, UINT64_MAX / 2));
	late = stretch_to(limit, limit->quota, &(struct sl_reservation){.instant = entry->instant, .cost = entry->cost},
	                  entry->end);
	SL_ASSERT(late.cost <= entry->cost);
	entry->cost = late.cost;
	entry->instant = late.until;
}

bool sl_contents_turn(const struct sl_contents *contents, uint32_t rate, uint32_t to) {
	struct head *head = contents->memory;
	uint32_t most = (uint32_t)sl_max(rate, to);
	if (!sl_contents_are_valid(contents) || head->rate >= most)
		return false;
	save(contents, &head->buckets);
	__atomic_store_n(&head->rate, most, __ATOMIC_RELAXED);
	return true;
}

void sl_bundle_void(uint32_t algorithm, struct sl_reservation *entry) {
	if (sl_algorithm_has(algorithm, SL_DRAINS) && sl_bundle_is(algorithm, entry))
		__atomic_store_n(&entry->cost, 0, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&entry->instant, 0, __ATOMIC_RELAXED);
}

void sl_contents_void(const struct sl_contents *contents, sluice_ns now) {
	if (!sl_contents_are_valid(contents))
		return;
	save(contents, &head_of(contents)->void_until);
	__atomic_store_n(&head_of(contents)->void_until, now, __ATOMIC_RELAXED);
}
