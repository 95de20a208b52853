/* Bundles: a ledger of thousands, looked at in some dozens of steps.
 *
 * A ledger (ledger.h) keeps up to SL_LEDGER_LIST_MAX entries. Where one more is reserved, the two neighbours that are
 * told apart with the least loss become one entry, a bundle: as if both ended when the later one does. So whoever
 * decides looks at no more than the list, and nothing is returned earlier than was promised.
 *
 *   list      | a | b | [ c d e ] | f | [ g h ] |      by end; c, d, e and g, h end with e and h
 *   contents  { c, d, e, g, h }                        a hash table by id: what a commit corrects is its own
 *
 *   bundle    id       the earliest end in it
 *             instant  of the earliest charge in it; 0: nothing of it will count any more by its end. Of a bucket:
 *                      until when all of `cost` can be given back, `end` or later
 *             end      at which all of it is returned
 *             cost     what is returned then, together; less is given back rather than more
 *             debt     15..0 how many are in it, 31..16 the logarithm of the shortest time that one of them was
 *                      reserved for
 *
 * Which two: those whose first is delayed least, as part of the time that it was reserved for. Only reservations of one
 * class may share a bundle: of windows those charged in one window, of logs and sub-buckets those charged in one eighth
 * of a window. Which class one belongs to never changes, so a bundle is found by what is known of a reservation.
 *
 * Of a log and of sub-buckets a bundle is returned as what it is made of, each charge in its place; so those who expire
 * one walk its contents. Decisions that look ahead take the oldest charges of its class for its own.
 *
 * I1  The stretches id..end of two bundles of one class share no instant.
 * I2  What the contents hold is open exactly if a bundle of the list covers its end and class, and its cost isn't 0.
 *     All else in them is free.
 * I3  Whatever bytes stand in list and contents, no place outside is touched. */
#ifndef SL_BUNDLE_H
#define SL_BUNDLE_H

#include "algo/ledger.h"

enum {
	SL_LEDGER_LIST_MAX = 64,
	SL_CONTENTS_BYTES_MAX = 32 + 2048 * 16 * 32,
};

/* The contents of a ledger's bundles, in memory of their host. */
struct sl_contents {
	void *memory; /* NULL: there are none */
	uint64_t bytes;
	void (*save)(void *context, const void *word); /* told before an aligned word of it is written; NULL: nobody is */
	void *context;
};

static inline bool sl_bundle_is(uint32_t algorithm, const struct sl_reservation *it) {
	if (sl_algorithm_has(algorithm, SL_DRAINS))
		return it->instant >= it->end;
	return it->debt != 0;
}

/* How many reservations an entry of a list is. */
static inline uint32_t sl_bundle_count(uint32_t algorithm, const struct sl_reservation *it) {
	return sl_bundle_is(algorithm, it) ? it->debt & 0xffff : 1;
}

/* How many a list is in all, and of them in bundles. O(entries). */
uint32_t sl_ledger_open(uint32_t algorithm, const struct sl_ledger *ledger);
uint32_t sl_ledger_bundled(uint32_t algorithm, const struct sl_ledger *ledger);

/* Bytes of contents for so many reservations, or SL_CONTENTS_BYTES_MAX; and whether there is room in some for `more`
 * beside those that are open in a list. */
uint64_t sl_contents_bytes(uint32_t count);
bool sl_contents_have_room(const struct sl_contents *contents, uint32_t open, uint32_t more);

/* Whether they bear them where no longer contents are to be had: three quarters full. */
bool sl_contents_bear(const struct sl_contents *contents, uint32_t open, uint32_t more);

/* Formats contents, with what is open of others (NULL: none). `seed`: a number that nobody outside can choose.
 * O(bytes). */
void sl_contents_format(const struct sluice_limit *limit, const struct sl_contents *contents,
                        const struct sl_contents *from, const struct sl_ledger *ledger, uint64_t seed);

/* Whether they could have been written by this code. O(1). */
bool sl_contents_are_valid(const struct sl_contents *contents);

/* Adds a reservation to a sorted list in which nothing has ended, and which has room for one more; where the list is as
 * long as it is to be, or a bundle covers it, with the help of the contents, which have room for 3 more. Should they
 * not find a place all the same, which nobody can bring about, a reservation is lost (ledger.h I4).
 *  rate  buckets: by which the counter drains
 * O(entries). */
void sl_bundle_add(const struct sluice_limit *limit, uint32_t rate, struct sl_reservation *list, uint32_t *count,
                   const struct sl_reservation *added, const struct sl_contents *contents);

/* What is found of an id. */
struct sl_found {
	int64_t at;                   /* which entry of the list it is, or is in; -1: it isn't open */
	struct sl_reservation its;    /* as it is to be corrected */
	struct sl_reservation *place; /* in the contents; NULL: it is an entry of its own */
};

/* Finds what is open of an id at `now`, a counter's sl_step_instant(). O(entries). */
struct sl_found sl_bundle_find(const struct sluice_limit *limit, const struct sl_ledger *ledger,
                               const struct sl_contents *contents, uint64_t id, sluice_ns now);

/* The entry of a list without one that was found in it: false where nothing is left of it. */
bool sl_bundle_without(const struct sl_found *found, struct sl_reservation *entry);

/* Takes what was found out of the contents. */
void sl_contents_remove(const struct sl_contents *contents, const struct sl_found *found);

/* The corrections that return entries `from`..`until` - 1 of a list at their ends. Of logs and sub-buckets one for each
 * reservation, in no order; of others one for each entry. `list`: NULL to count them, or room for as many as that
 * said. O(entries), and of bundles of logs and sub-buckets O(contents). */
uint32_t sl_bundle_returns(const struct sluice_limit *limit, const struct sl_ledger *ledger,
                           const struct sl_contents *contents, uint32_t from, uint32_t until,
                           struct sl_correction *list);

/* The bucket is turned from `rate` to the limit's own at `now`: what of an entry can still be given back. And of the
 * contents, from there on: less rather than more. Returns whether these were changed. O(1). */
void sl_bundle_turn(const struct sluice_limit *limit, uint32_t rate, struct sl_reservation *entry, sluice_ns now);
bool sl_contents_turn(const struct sl_contents *contents, uint32_t rate, uint32_t to);

/* Nothing that was charged by `now` is to be corrected: its counter went. */
void sl_bundle_void(uint32_t algorithm, struct sl_reservation *entry);
void sl_contents_void(const struct sl_contents *contents, sluice_ns now);

/* Logs and sub-buckets: the class of an instant, and the instants from..until - 1 of it. */
struct sl_class {
	uint64_t number;
	sluice_ns from, until;
};
struct sl_class sl_bundle_class(const struct sluice_limit *limit, sluice_ns instant);

#endif
