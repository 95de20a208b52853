/* Who is denied most, who is near a limit, and whom an observed limit or a candidate would deny: a bounded sketch of
 * heavy hitters for each of these kinds, one a worker. Kinds share no memory: no shadow takes the place of a denial.
 *
 * Space-Saving in small sets: a key's hash names a set of SL_TOP_WAYS places; a key that has none takes the place with
 * the least count and goes on from that count, which is its possible error. A key with more than 1/SL_TOP_WAYS of its
 * set's denials is always there. Counts are halved every SL_TOP_HALVE_MS, so the top is about the last minutes; a lone
 * event is in it for one to two times as long.
 *
 * Memory is fixed: about 0.6 MiB a kind and sketch, touched when there is one of that kind, whatever the keys. The hash
 * is keyed, so nobody can aim at a set. */
#ifndef SL_TOP_H
#define SL_TOP_H

#include "policy/policy.h"

enum sl_top_kind {
	SL_TOP_DENIED,
	SL_TOP_NEAR,
	SL_TOP_SHADOW,    /* an observed limit would have denied */
	SL_TOP_CANDIDATE, /* a limit's candidate would have */
	SL_TOP_KINDS
};

enum {
	SL_TOP_SETS = 64,
	SL_TOP_WAYS = 8,
	SL_TOP_HALVE_MS = 60000,
	SL_TOP_COUNT_MAX = 100, /* that can be asked for */
};

/* What a kind is called at the doors; NULL behind the last. */
const char *sl_top_kind_name(enum sl_top_kind kind);
/* The kind of a name, in whatever case; false where there is none. */
bool sl_top_kind_find(struct sluice_bytes name, enum sl_top_kind *kind);

struct sl_top;

/* Makes a sketch; NULL when the system gives no memory, or no random bytes. */
struct sl_top *sl_top_new(void);
void sl_top_free(struct sl_top *top);

/* What the denial log needs to know of a key that was just noted. */
struct sl_top_noted {
	bool write;          /* it has not been logged for `per_key_ns`: log it now */
	uint64_t suppressed; /* denials of this key since it was last logged */
};

/* Notes one event of a key at a limit.
 *  named       `limit` is the name of a limit of the policy, else its notation
 *  key         as EXPLAIN shows it; its first SLUICE_KEY_BYTES_MAX bytes are kept, all of them tell keys apart
 *  now         an instant earlier than one noted before counts as that one
 *  per_key_ns  how long a key is not to be logged again
 * Any thread; about 50 ns. */
struct sl_top_noted sl_top_note(struct sl_top *top, enum sl_top_kind kind, bool named, struct sluice_bytes limit,
                                struct sluice_bytes key, sluice_ns now, sluice_ns per_key_ns);

/* One line of the list. */
struct sl_top_entry {
	char limit[SLUICE_LIMIT_TEXT_MAX]; /* not NUL-ended */
	uint16_t limit_len, key_len;
	char key[SLUICE_KEY_BYTES_MAX];
	bool named;            /* limit is a name of the policy, else notation */
	uint64_t count, error; /* events lately; at most `error` of them were others' */
	sluice_ns last;        /* when the last one was */
};

/* The keys with the most events over all sketches, most first; equal keys of several sketches are one, and what a
 * sketch may have forgotten of a key is in its `count` and its `error`. Fills at most `room` (up to SL_TOP_COUNT_MAX).
 * Returns how many; 0 also where the system gives no memory. From any thread, which waits for nobody for more than some
 * 100 ns; about 20 us for each sketch. */
uint32_t sl_top_list(struct sl_top *const *tops, uint32_t top_count, enum sl_top_kind kind, sluice_ns now,
                     struct sl_top_entry *entries, uint32_t room);

#endif
