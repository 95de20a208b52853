/* Decisions as they happen, for those who ask to see them (SLUICE.TAIL, GET /v1/tail).
 *
 *   worker decides -> sl_tail_is_wanted()? -> sl_tail_take(): whose filter is it? -> line -> the worker's ring
 *   worker that has the reader's connection: every SL_TAIL_TICK_MS all rings -> its readers
 *
 * What it may cost is bounded, whoever reads and however fast decisions come:
 *  T1  While nobody reads, a decision costs one branch; nothing is written, no timer runs.
 *  T2  A decision is held against all filters at once, by what it is: hashes of its limit and key look up masks. Equal
 *      filters are one. So of 128 readers a decision costs no more than of one; at most eight different filters can
 *      want the same one.
 *  T3  Filters come before sampling: a reader of rare decisions sees each of them in a stream of any speed. Of the
 *      lines that a worker writes in a tick, half are for whoever comes first, and of the others each filter has its
 *      share.
 *  T4  Who is too slow is passed by, and so is what the share does not suffice for: nobody waits, nothing is kept for
 *      anybody. How many a reader has missed he is told.
 *  T5  At most SL_TAIL_READERS_MAX read; a worker learns of new filters at most SL_TAIL_TICK_CHANGES times a tick.
 *
 * Memory is fixed: 0.3 MiB a worker, touched when somebody reads. */
#ifndef SL_TAIL_H
#define SL_TAIL_H

#include "hosts/server/watch/tail_ring.h"

enum {
	SL_TAIL_TICK_MS = 100,
	SL_TAIL_TICK_LINES = 200,  /* that a worker writes in a tick, and that a reader gets at most */
	SL_TAIL_TICK_SHARED = 100, /* of them for whoever comes first */
	SL_TAIL_TICK_SENT = 2000,  /* lines that the readers of one worker get in a tick, together */
	SL_TAIL_TICK_CHANGES = 64, /* see T5 */
	SL_TAIL_TOLD_MS = 1000,    /* how often a reader is told what he has missed, if he has */
	SL_TAIL_ALIVE_MS = 3000,   /* and how often he hears of us at least */
};

/* What a reader wants to see. */
struct sl_tail_filter {
	bool denied;      /* what is denied, or would be; else all */
	bool is_notation; /* `limit_text` is no name alone: `limit` is what it says */
	uint16_t limit_len, key_len;
	bool any_limit, any_key;
	char limit_text[SLUICE_LIMIT_TEXT_MAX];
	char key[SLUICE_KEY_BYTES_MAX];
	struct sluice_limit limit;
};

/* One that lets everything pass. */
static inline void sl_tail_filter_begin(struct sl_tail_filter *filter) {
	memset(filter, 0, sizeof *filter);
	filter->any_limit = filter->any_key = true;
}
/* Lets a limit pass, by its name in the policy or as notation; false where the text is too long for either. Whether
 * there is such a limit is the caller's to say. */
SLUICE_MUST_USE bool sl_tail_filter_limit(struct sl_tail_filter *filter, struct sluice_bytes text);
/* Lets a key pass, as decisions have it (sl_policy_key()); false where it is longer than any. */
SLUICE_MUST_USE bool sl_tail_filter_key(struct sl_tail_filter *filter, struct sluice_bytes key);

struct sl_tail;

/* One for a server of so many workers; NULL when the system gives no memory. */
struct sl_tail *sl_tail_new(uint32_t workers);
/* Nobody may read any more. NULL is allowed. */
void sl_tail_free(struct sl_tail *tail);

/* ---- a worker's side, on its thread ------------------------------------------------------------------------------ */

struct sl_tail_source;

/* That of a worker, 0..workers-1. Owned by the tail. */
struct sl_tail_source *sl_tail_source(struct sl_tail *tail, uint32_t worker);

/* The first field of a source. */
struct sl_tail_wanted {
	_Alignas(64) _Atomic uint64_t change; /* the last of the filters; 0: nobody reads */
};

/* Whether anybody wants to see decisions of this worker; NULL: nobody. About a ns. */
static inline bool sl_tail_is_wanted(const struct sl_tail_source *source) {
	const struct sl_tail_wanted *wanted = (const void *)source;
	return source != NULL && __builtin_expect(atomic_load_explicit(&wanted->change, memory_order_relaxed) != 0, 0);
}

/* What is wanted of decisions that allow. */
enum sl_tail_interest {
	SL_TAIL_NOTHING,
	SL_TAIL_COUNT, /* how many there are, no more lines in this tick: sl_tail_count() */
	SL_TAIL_EACH,  /* each is to be looked at: sl_tail_take() */
};

/* Takes filters that have changed, and begins a tick: before sl_tail_take(), for one decision or for a batch. */
enum sl_tail_interest sl_tail_catch_up(struct sl_tail_source *source, sluice_ns now);

/* The same where nobody may read: for a batch. */
static inline enum sl_tail_interest sl_tail_interest(struct sl_tail_source *source, sluice_ns now) {
	return sl_tail_is_wanted(source) ? sl_tail_catch_up(source, now) : SL_TAIL_NOTHING;
}

/* Counts decisions that allow, where that is all that is wanted. */
void sl_tail_count(struct sl_tail_source *source, uint64_t count);

/* What a decision is to a filter. */
struct sl_tail_subject {
	struct sluice_bytes name;         /* of the policy's limit; data NULL: it was given in notation */
	const struct sluice_limit *limit; /* that one */
	struct sluice_bytes key;
	bool denied;
};

/* Counts a decision for those who want to see it. True: some of them have lines left in this tick, and *head says whose
 * it is: write it. 5 to 30 ns. sl_tail_catch_up() comes before.
 *  now  Unix ns of the server's clock */
bool sl_tail_take(struct sl_tail_source *source, const struct sl_tail_subject *subject, sluice_ns now,
                  struct sl_tail_head *head);
/* Writes the line of one that was taken; at most SL_RECORD_BYTES_MAX bytes, without a line end. */
void sl_tail_write(struct sl_tail_source *source, struct sl_tail_head *head, struct sluice_bytes line);

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* One reader. What he belongs to is the opener's: the rest is not touched here. */
struct sl_tail_reader {
	struct sl_tail *tail;
	uint32_t filter;      /* which of the tail's */
	uint64_t since;       /* the change that brought it */
	uint64_t base;        /* decisions that it had wanted before this reader came */
	uint64_t wanted;      /* and since, when they were counted last */
	uint64_t got, missed; /* lines, and decisions that he was told he has missed */
	uint64_t told_ms;     /* when he was told of those */
	uint64_t heard_ms;    /* when he got anything */
	uint32_t form;        /* how his door writes lines; the door's own */
	uint64_t from[];      /* of each worker's ring, where his lines begin */
};

enum sl_tail_joined { SL_TAIL_JOINED, SL_TAIL_FULL, SL_TAIL_NO_MEMORY };

/* Begins to read: all decisions from now on. Any thread; some us. */
SLUICE_MUST_USE enum sl_tail_joined sl_tail_join(struct sl_tail *tail, const struct sl_tail_filter *filter,
                                                 struct sl_tail_reader **reader);
/* Ends it, and frees the reader; NULL is allowed. Any thread. */
void sl_tail_leave(struct sl_tail_reader *reader);

/* Whether a line that was read at a position of a worker's ring is for a reader. */
static inline bool sl_tail_is_for(const struct sl_tail_reader *reader, const struct sl_tail_head *head, uint32_t worker,
                                  uint64_t at) {
	return (head->mask[reader->filter / 64] >> reader->filter % 64 & 1) != 0 && head->taken >= reader->since &&
	       at >= reader->from[worker];
}

/* Counts what a reader has wanted up to now; before the rings are read, so that nothing is missed that is yet to come.
 * Some ns a worker. */
void sl_tail_count_wanted(struct sl_tail_reader *reader);
/* How many of those he has not got and was not told of; from now on he was. */
uint64_t sl_tail_missed(struct sl_tail_reader *reader);

/* How many workers there are, and the ring of each, for reading. */
uint32_t sl_tail_workers(const struct sl_tail *tail);
const struct sl_tail_ring *sl_tail_ring(const struct sl_tail *tail, uint32_t worker);

/* Counts lines that readers have got. */
void sl_tail_count_sent(struct sl_tail *tail, uint64_t lines);

struct sl_tail_figures {
	uint64_t readers, sent, missed;
};
/* Any thread. NULL: zeros. */
struct sl_tail_figures sl_tail_figures(const struct sl_tail *tail);

#endif
