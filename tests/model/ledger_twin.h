/* The slow, obvious twin of a counter with open reservations: a list of places and a list of reservations.
 *
 * A place is where a charge counts: the millisecond of a log, the sub-bucket, the window; of buckets a place is an
 * event, replayed in order. Whether a cost fits at t is said by the contract's line over copies of those lists in which
 * whatever has ended by t has been returned; every wait is the first instant at which it fits, found by doubling and
 * halving. It shares nothing with src/algo. */
#ifndef TESTS_MODEL_LEDGER_TWIN_H
#define TESTS_MODEL_LEDGER_TWIN_H

#include "tests/model/dice.h"

enum { PLACES_MAX = 1024 /* of one counter in a test; one more aborts */ };

enum place_kind { CHARGE, COUNT, UP, DOWN, REFUND };

struct place {
	uint64_t at;    /* the window's or sub-bucket's number, the millisecond; of buckets the instant of the event */
	uint64_t cost;  /* buckets: of the event */
	enum place_kind kind; /* buckets */
	uint64_t instant, debt; /* of DOWN: when it was charged, and the debt behind that; debt of COUNT: the capacity */
};

struct open {
	uint64_t id, instant, end, cost, debt;
};

struct model {
	struct twin_rule rule;
	twin_wide most; /* that the state of a bucket can hold, in cost x ns */
	uint64_t clock; /* the last charge, as the counter keeps it */
	uint64_t exact; /* and as it was made */
	size_t places, opens;
	struct place place[PLACES_MAX];
	struct open open[PLACES_MAX];
};

/* The same, packed: there are many places in small worlds. A place of nothing is none. */
enum { KEPT_MAX = 12 };
struct kept {
	uint64_t clock, exact, places, opens;
	struct place place[KEPT_MAX];
	struct open open[KEPT_MAX]; /* by id */
};

void model_keep(struct kept *kept, struct model *m);
/* The rule, and what depends on it, stay as they are. */
void model_recall(struct model *m, const struct kept *kept);
/* Mixes all of it into a fingerprint (histories.h). */
void model_see(const struct kept *kept, uint64_t seen[2]);

/* A counter of nothing. `tick_ns` is that of a bucket (src/algo/bucket.c), which bounds what it can hold. */
void model_start(struct model *m, const struct twin_rule *rule, uint64_t tick_ns);

bool model_is_bucket(const struct twin_rule *rule);

/* The instant at which a request stamped `now` counts. */
uint64_t model_clock(const struct model *m, uint64_t now);

/* The decision on `cost`, charging nothing; waits in whole units, rounded up. */
struct twin_answer model_ask(const struct model *m, uint64_t now, uint64_t cost, uint64_t unit);

/* The debt of a bucket at `t`, in whole units, rounded down; 0 of others. */
uint64_t model_debt(const struct model *m, uint64_t t);

/* Charges at `t`, asking nothing. */
void model_charge(struct model *m, uint64_t t, uint64_t cost);

/* The same, and notes that it may be corrected until `end`. */
void model_reserve(struct model *m, uint64_t t, uint64_t cost, uint64_t id, uint64_t end);

/* Whether a reservation is open at `t`; and what it was, taken out and corrected as of `t`. */
bool model_is_open(const struct model *m, uint64_t id, uint64_t t);
void model_commit(struct model *m, uint64_t id, uint64_t actual, uint64_t t);

/* Returns for good what has ended by `t`. */
void model_collect(struct model *m, uint64_t t);

/* Charges whatever the quota; and gives back, newest first. */
void model_count(struct model *m, uint64_t t, uint64_t cost);
void model_refund(struct model *m, uint64_t t, uint64_t cost);

#endif
