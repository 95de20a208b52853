/* Slices: a worker takes slices of hot counters' quotas, spends them without asking, and gives back what it did not
 * spend. Pure: time is passed in, commands go out through a function, answers come in through another.
 *
 *   take() --+-- the slice has it -------------------> SL_QUOTA_SLICE_TAKEN
 *            +-- exhausted, and not yet to ask again -> SL_QUOTA_SLICE_DENIED
 *            +-- on its way ---------------------------> SL_QUOTA_SLICE_WAIT ... decided() with one of the others
 *            +-- not for slices, or not hot -----------> SL_QUOTA_SLICE_NONE: ask as ever
 *
 * When. A counter is hot above SL_QUOTA_SLICE_HOT requests a second at this worker, and if a slice would serve some.
 * Only for algorithms with the trait SL_COUNTS_LATE: what is spent at u and charged at r >= u was held in between, and
 * at any instant from r on it counts for no less than if it had been charged at u. (011 has the argument.) Not so a
 * leaky-bucket's, whose answers carry a delay that depends on the order of all arrivals; nor a bucket that is full
 * again within two of the longest intervals, as a slice holds a part of a burst that is too small for its rate. Who is
 * counted by name is never charged for somebody else.
 *
 * How much. want = what is spent in an interval, but at most an eighth of what was left, or what is spent in
 * SL_QUOTA_SLICE_SHORT_NS if that is more; never less than what waits. So with n workers holding slices of one counter
 * at most 1 - (7/8)^n of what is left is in slices, or n times what each spends in SL_QUOTA_SLICE_SHORT_NS; for an
 * interval at most while its worker lives, for the time of a slice when it dies.
 *
 * How long. An interval is the time of SL_QUOTA_SLICE_PER_COMMAND requests, within 20..100 ms, a sixteenth of the
 * window and a quarter of a slice. After it what is spent is settled (charged), so a window is at most so much longer
 * than W for who spends by slices.
 *
 * Exhausted. An ask that got less than it wanted has taken the last. Then nothing is asked until the wait that came
 * with it is over, and commands are no more than one in SL_QUOTA_SLICE_PER_COMMAND requests, but for one at least every
 * min(W / 16, 250 ms), times the share of requests that are denied. In between all is denied here, with the wait until
 * then. A slice that is spent is settled at once, so that its charges are over as early as they may.
 *
 * Another quota. A key's own, set at run time at any front (hosts/redis/own_quota.h), is in the answer to the next
 * command: at most an interval later where there is a slice, and SL_QUOTA_SLICE_SEEN_NS where it is exhausted. Of a
 * lower one nothing of the slice is spent after that answer; what was spent until then the node still holds.
 *
 * I1  What is spent is at most what was granted, and is spent before the hold at the node can end: `ends` is counted
 *     from when the command was sent.
 * I2  While a command is under way no more is spent than it wants anew: it fits, since it was held. What is lent, taken
 *     by requests that are not over, is always among it: it is told as spent when it is.
 * I3  A command whose end is not known ends the slice: its id is given up, the node charges it in full at its end.
 * I4  One command a counter at a time.
 * I5  Who waits is told by his time, whatever his slice's commands come to: one may follow the other while he waits. */
#ifndef SL_SLICE_H
#define SL_SLICE_H

#include "hosts/server/watch/fleet_figures.h"
#include "hosts/server/remote/plan.h"

enum {
	SL_QUOTA_SLICES_MAX = 1024,       /* slices of a worker */
	SL_QUOTA_SLICE_RATES = 16 * 1024, /* counters whose rate is known */
	SL_QUOTA_SLICE_HOT = 100,         /* requests a second */
	SL_QUOTA_SLICE_PER_COMMAND = 64,  /* requests that a command should serve */
	SL_QUOTA_SLICE_CREDIT_MAX = 20,   /* commands that may be saved up */
};
#define SL_QUOTA_SLICE_SHORT_NS ((sluice_ns)10000000)
#define SL_QUOTA_SLICE_PROBE_NS ((sluice_ns)250000000)
#define SL_QUOTA_SLICE_SEEN_NS ((sluice_ns)500000000)

enum sl_quota_slice_result { SL_QUOTA_SLICE_NONE, SL_QUOTA_SLICE_TAKEN, SL_QUOTA_SLICE_DENIED, SL_QUOTA_SLICE_WAIT };

/* A request that waits for a slice; the caller's memory until decided() was called. */
struct sl_quota_slice_wait {
	struct sl_quota_slice_wait *next;
	struct sl_quota_slice *slice; /* whose slice it waits for, or has taken of */
	sluice_ns until; /* it waits no longer; not before that of who has come before it */
	uint32_t cost;
	uint32_t turn; /* how many slices were given up */
	uint8_t result;
	/* From within sl_quota_slice_answered() or, when its time is over, sl_quota_slices_tick(); never
	 * SL_QUOTA_SLICE_WAIT. `decision` is there unless the result is NONE. */
	void (*decided)(struct sl_quota_slice_wait *wait, enum sl_quota_slice_result result,
	                const struct sluice_decision *decision);
	void *owner;
};

/* One counter's slice. Only what a host needs to send commands is told here. */
struct sl_quota_slice {
	struct sl_quota_slice *next, *prev;
	struct sl_group *command; /* made with it; the host fills `ask.answered` */
	struct sl_quota_slices *slices;
	uint64_t tag, id;
	uint64_t capacity; /* of the limit */
	uint64_t quota;    /* as last told */
	sluice_ns window_ns;
	uint32_t users;             /* requests that have taken of it and may put back */
	uint32_t left, lent, spent; /* of the slice: to be had; taken by requests that are not over; spent, not told yet */
	uint32_t held;              /* what the node holds for us, as far as is known */
	uint32_t wanted;            /* by the command that is under way, or was last */
	uint64_t recent_taken, recent_denied; /* requests, halved with every pause */
	uint32_t carried;                     /* what was left and lent when it was sent, and is in what it wants */
	uint32_t turn;                        /* how many slices were given up */
	uint32_t credit;                      /* thousandths of a command */
	bool asking, stale;                   /* a command is under way; and its answer means nothing any more */
	bool told, exhausted;                 /* an answer is here; the last ask got less than it wanted */
	bool unlimited;                       /* the key is, by a quota of its own, as last told */
	uint32_t remaining;                   /* as last told, beside all slices */
	sluice_ns retry, reset, following, told_at;
	sluice_ns ends;         /* of the slice */
	sluice_ns sent_at;      /* of the last command */
	sluice_ns asked_at;     /* of the last that wanted something */
	sluice_ns ask_after;    /* while exhausted */
	sluice_ns barred_until; /* no slices before */
	sluice_ns used_at;
	struct sl_quota_slice_wait *first, **last;
	uint64_t waiting; /* cost of those */
	struct sl_rate *rate;
};

struct sl_quota_slices_options {
	sluice_ns slice_ns; /* how long slices last at most, 10 ms..10 s */
	const char *prefix; /* of keys; lives as long */
	uint64_t seed;      /* of ids */
	/* Sends a slice's command (slice->command, said). True: sl_quota_slice_answered() will be called, not from within.
	 */
	bool (*send)(void *to, struct sl_quota_slice *slice);
	void *to;
	struct sl_fleet_figures *figures;
};

struct sl_quota_slices;

/* NULL when the system gives no memory. */
struct sl_quota_slices *sl_quota_slices_new(const struct sl_quota_slices_options *options);
/* No command may be under way, and nobody wait. */
void sl_quota_slices_free(struct sl_quota_slices *slices);

/* Whether a limit's counters may be sliced at all. */
bool sl_quota_slice_suits(const struct sluice_limit *limit);

/* One request for one counter: `tag` is sl_item_tag()'s. `wait` has its until, cost, decided and owner filled.
 * SL_QUOTA_SLICE_WAIT: it is kept. SL_QUOTA_SLICE_TAKEN: to be ended by sl_quota_slice_done(). TAKEN, DENIED:
 * `decision` is filled (index 0). */
enum sl_quota_slice_result sl_quota_slice_take(struct sl_quota_slices *slices, const struct sl_plan_item *item,
                                               uint64_t tag, sluice_ns now, struct sl_quota_slice_wait *wait,
                                               struct sluice_decision *decision);

/* The same for a peek of `cost`: NONE where only the counter knows. */
enum sl_quota_slice_result sl_quota_slice_peek(struct sl_quota_slices *slices, uint64_t tag, uint32_t cost,
                                               sluice_ns now, struct sluice_decision *decision);

/* A request that has taken is over: it was charged, or, `back`, denied elsewhere: then its units are there again. */
void sl_quota_slice_done(const struct sl_quota_slice_wait *taken, bool back, sluice_ns now);

/* What became of a command. */
void sl_quota_slice_answered(struct sl_quota_slice *slice, const struct sl_answer *answer, sluice_ns now);

/* Before a refund: what is spent is to be charged first. */
void sl_quota_slice_settle(struct sl_quota_slices *slices, uint64_t tag, sluice_ns now);
/* The quota has changed: what is left is given back, and whoever asks next is told by the new one. */
void sl_quota_slice_end(struct sl_quota_slices *slices, uint64_t tag, sluice_ns now);
/* After a reset, sent already: the slice is gone. */
void sl_quota_slice_forget(struct sl_quota_slices *slices, uint64_t tag);

/* Settles what is due, gives back what is idle, drops what is cold, tells those who have waited long enough. Returns
 * when it wants to be called again; SLUICE_NEVER: after the next sl_quota_slice_take(). O(slices). */
sluice_ns sl_quota_slices_tick(struct sl_quota_slices *slices, sluice_ns now);

/* What there is of a counter's slice: to be had, and spent but not told yet; zeroes where there is none. */
void sl_quota_slice_look(struct sl_quota_slices *slices, uint64_t tag, uint32_t *left, uint32_t *spent);

/* How many there are; how many of their commands are under way, O(slices). */
uint32_t sl_quota_slices_count(const struct sl_quota_slices *slices);
uint32_t sl_quota_slices_under_way(const struct sl_quota_slices *slices);

/* Gives everything back; from then on everything is NONE. Returns how many commands are under way. */
uint32_t sl_quota_slices_end(struct sl_quota_slices *slices, sluice_ns now);

#endif
