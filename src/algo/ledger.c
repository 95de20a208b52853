/* Deciding with reservations that end: see ledger.h.
 *
 * While nothing is charged, what is used of a counter never grows, and what is returned only lessens it. So "cost c
 * fits at t" once true stays true, and both waits of a decision are the first instant at which a cost fits: the
 * request's, and the whole capacity. Between two ends of reservations the counter is one that a step decides in closed
 * form; which two, is found by halving:
 *
 *         t          e1       e2            e3        sorted ends of those still open
 *         |----------|--------|-------------|-----
 *         fits at e1? no      fits at e3? yes, at e2? no: so at the step's wait from e2, or at e3 if that is sooner
 *
 * The counter up to an end is a corrected copy: of 16 bytes, or of sub-buckets in the scratch memory. A log is not
 * copied: what it uses at t is what it uses with nothing returned, less what those that have ended by then still weigh.
 * In which entry each was charged is found once; then, by halving, the end, and the entry that leaves before it. */
#include "algo/ledger.h"
#include "base/assert.h"
#include "base/math.h"

#include <string.h>

enum { BATCH = 64 /* corrections made at a time */ };

struct view {
	const struct sluice_limit *limit;
	const struct sl_counter *counter;
	const struct sl_ledger *ledger;
	void *scratch;
	sluice_ns t; /* the instant of the decision */
	/* counters without blocks: as they are with the first `known` returned, from where others are found */
	struct sl_counter from;
	uint32_t known;
};

uint32_t sl_ledger_ended(const struct sl_ledger *ledger, sluice_ns now) {
	uint32_t low = 0, high = ledger->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (ledger->list[middle].end <= now)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int64_t sl_ledger_find(const struct sl_ledger *ledger, uint64_t id, sluice_ns now) {
	for (uint32_t i = sl_ledger_ended(ledger, now); i < ledger->count; i++)
		if (ledger->list[i].id == id)
			return i;
	return -1;
}

uint32_t sl_ledger_debt(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	bool bucket = limit->algorithm == SLUICE_TOKEN_BUCKET || limit->algorithm == SLUICE_LEAKY_BUCKET;
	return bucket && limit->quota != 0 ? sl_bucket_debt(limit, counter, now) : 0;
}

uint64_t sl_correct_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t above) {
	if (counter->block == NULL)
		return 0;
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		return sl_log_correct_bytes(limit, counter, above);
	return limit->algorithm == SLUICE_SLIDING_BUCKETS ? sl_step_assume_bytes(limit, 0) : 0;
}

bool sl_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *list,
                uint32_t count, void *block, uint64_t block_bytes) {
	bool changed = false;
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		for (uint32_t i = 0; i < count; i++)
			changed |= sl_window_correct(limit, counter, &list[i]);
		return changed;
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		for (uint32_t i = 0; i < count && limit->quota != 0; i++)
			changed |= sl_bucket_correct(limit, counter, &list[i]);
		return changed;
	case SLUICE_SLIDING_LOG:
		return sl_log_correct(limit, counter, list, count, block, block_bytes);
	case SLUICE_SLIDING_BUCKETS:
		SL_ASSERT(counter->block == NULL || block_bytes >= sl_step_assume_bytes(limit, 0));
		return sl_subs_correct(limit, counter, list, count, block);
	default:
		return false;
	}
}

/* ---- windows, sub-buckets and buckets: corrected copies ---------------------------------------------------------- */

/* The counter with the first `ended` returned. Not the order of the batches but that of the list matters. */
static struct sl_counter returned(const struct view *v, uint32_t ended) {
	uint32_t known = ended >= v->known ? v->known : 0;
	struct sl_counter copy = known != 0 ? v->from : *v->counter;
	struct sl_correction batch[BATCH];
	uint32_t filled = 0;
	for (uint32_t i = known; i < ended; i++) {
		batch[filled++] = sl_ledger_return(&v->ledger->list[i]);
		if (filled == BATCH || i + 1 == ended) {
			(void)sl_correct(v->limit, &copy, batch, filled, v->scratch, SL_LEDGER_SCRATCH_BYTES);
			filled = 0;
		}
	}
	return copy;
}

/* Decides `cost` at `at` with the first `ended` returned. Where it does not fit, only later ends are looked at from
 * there on: so each reservation is returned about once a search. */
static struct sluice_decision decide(struct view *v, uint32_t ended, sluice_ns at, uint64_t cost) {
	struct sl_counter copy = returned(v, ended), stepped = copy;
	struct sluice_decision decision;
	sl_step(v->limit, &stepped, at, cost, false, &decision);
	if (!decision.allowed && copy.block == NULL) {
		v->from = copy;
		v->known = ended;
	}
	return decision;
}

/* The wait until `cost`, at most the capacity, fits; of those open, the first is at `low`. */
static sluice_ns wait_for(struct view *v, uint32_t low, uint64_t cost) {
	uint32_t high = v->ledger->count;
	sluice_ns from, wait;
	struct sluice_decision decision;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		sluice_ns end = v->ledger->list[middle].end;
		uint32_t behind = sl_ledger_ended(v->ledger, end); /* all that end with it; of damaged ones anything */
		if (decide(v, behind, end, cost).allowed)
			high = (uint32_t)sl_min(middle, sl_max(low, sl_ledger_ended(v->ledger, end - 1)));
		else
			low = (uint32_t)sl_max(middle + 1, sl_min(behind, high));
	}
	from = low != 0 ? sl_max(v->ledger->list[low - 1].end, v->t) : v->t;
	decision = decide(v, low, from, cost);
	wait = decision.allowed ? 0 : decision.retry_after_ns;
	if (low < v->ledger->count)
		wait = sl_min(wait, v->ledger->list[low].end - from);
	return wait < SLUICE_NEVER - 1 - (from - v->t) ? wait + (from - v->t) : SLUICE_NEVER - 1;
}

static void step_by_copies(struct view *v, uint64_t cost, struct sluice_decision *decision) {
	uint64_t capacity = v->limit->derived[SL_CAPACITY];
	uint32_t open = sl_ledger_ended(v->ledger, v->t);
	*decision = decide(v, open, v->t, cost);
	if (!decision->allowed && decision->retry_after_ns != SLUICE_NEVER)
		decision->retry_after_ns = wait_for(v, open, cost);
	if (decision->reset_after_ns != 0)
		decision->reset_after_ns = wait_for(v, open, capacity); /* not before the request's: `from` serves both */
}

/* ---- logs -------------------------------------------------------------------------------------------------------- */

/* What of a reservation goes back when it ends, as long as its entry counts. */
struct share {
	uint32_t entry, cost;
};
enum { SHARES_MAX = SL_LEDGER_SCRATCH_BYTES / sizeof(struct share) /* that are kept; others are found again */ };

/* Finds shares in turn: those of one millisecond, as far as they stand together, share what was charged in it. */
struct sharing {
	const struct sl_counter *counter; /* as it is at v->t */
	uint64_t ms;
	uint32_t entry, left;
};

static uint64_t ms_of(const struct sl_reservation *it) {
	return it->instant / SL_MS_NS + (it->instant % SL_MS_NS != 0);
}

static struct share next_share(struct sharing *s, const struct sl_reservation *it) {
	uint64_t ms = ms_of(it);
	struct share share;
	if (ms != s->ms)
		s->left = sl_log_held(s->counter, it->instant, &s->entry);
	s->ms = ms;
	share = (struct share){s->entry, (uint32_t)sl_min(it->cost, s->left)};
	s->left -= share.cost;
	return share;
}

static void find_shares(const struct view *v, const struct sl_counter *counter) {
	struct sharing sharing = {counter, UINT64_MAX, 0, 0};
	struct share *shares = v->scratch;
	for (uint32_t i = 0; i < v->ledger->count && i < SHARES_MAX; i++)
		shares[i] = next_share(&sharing, &v->ledger->list[i]);
}

/* Where sharing stands behind the first `kept`: what is left of the millisecond of the last of them goes on. */
static struct sharing sharing_behind(const struct view *v, const struct sl_counter *copy, uint32_t kept) {
	struct sharing sharing = {copy, UINT64_MAX, 0, 0};
	uint32_t first = kept;
	while (first != 0 && ms_of(&v->ledger->list[first - 1]) == ms_of(&v->ledger->list[kept - 1]))
		first--;
	for (uint32_t i = first; i < kept; i++)
		(void)next_share(&sharing, &v->ledger->list[i]);
	return sharing;
}

/* What counts at `at`, which is v->t or later, with the first `ended` returned. */
static uint64_t log_used(const struct view *v, struct sl_counter *copy, uint32_t ended, sluice_ns at) {
	uint64_t used = sl_log_used(v->limit, copy, at), back = 0;
	const struct share *shares = v->scratch;
	uint32_t expired = copy->log.expired, kept = (uint32_t)sl_min(ended, SHARES_MAX);
	struct sharing sharing = sharing_behind(v, copy, kept < ended ? kept : 0);
	for (uint32_t i = 0; i < kept; i++)
		back += shares[i].entry >= expired ? shares[i].cost : 0;
	for (uint32_t i = kept; i < ended; i++)
		back += next_share(&sharing, &v->ledger->list[i]).cost;
	return used - sl_min(used, back);
}

/* The first of the ends from `low` on at which at most `keep` counts. */
static uint32_t first_end(const struct view *v, struct sl_counter *copy, uint32_t low, uint64_t keep) {
	uint32_t high = v->ledger->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		sluice_ns end = v->ledger->list[middle].end;
		if (log_used(v, copy, sl_ledger_ended(v->ledger, end), end) <= keep)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The wait until at most `keep` counts: an end, or an entry's that leaves before it. */
static sluice_ns log_wait(const struct view *v, uint32_t open, uint64_t keep) {
	struct sl_counter copy = *v->counter;
	uint32_t ended = first_end(v, &copy, open, keep), low, high;
	sluice_ns from = ended != 0 ? sl_max(v->ledger->list[ended - 1].end, v->t) : v->t, until;
	if (log_used(v, &copy, ended, from) <= keep)
		return from - v->t;
	low = copy.log.expired;
	high = copy.log.count - 1; /* once the last is gone, nothing counts */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (log_used(v, &copy, ended, sl_log_leaves(&copy, middle)) <= keep)
			high = middle;
		else
			low = middle + 1;
	}
	until = sl_log_leaves(&copy, low);
	if (ended < v->ledger->count)
		until = sl_min(until, v->ledger->list[ended].end);
	return sl_min(sl_max(until, v->t + 1) - v->t, v->limit->window_ns + SL_MS_NS);
}

static void step_log(const struct view *v, uint64_t cost, struct sluice_decision *decision) {
	struct sl_counter copy = *v->counter;
	uint64_t quota = v->limit->quota, used = sl_log_used(v->limit, &copy, v->t);
	uint32_t open = sl_ledger_ended(v->ledger, v->t);
	find_shares(v, &copy);
	used = log_used(v, &copy, open, v->t);
	sl_decide_room(decision, quota, quota > used ? quota - used : 0, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : log_wait(v, open, quota - cost);
	decision->reset_after_ns = used != 0 ? sl_min(log_wait(v, open, 0), v->limit->window_ns) : 0;
}

void sl_ledger_step(const struct sluice_limit *limit, const struct sl_counter *counter, const struct sl_ledger *ledger,
                    sluice_ns now, uint64_t cost, void *scratch, struct sluice_decision *decision) {
	struct view v = {limit, counter, ledger, scratch, sl_step_instant(limit, counter, now), *counter, 0};
	struct sl_counter copy = *counter;
	if (ledger->count == 0 || limit->quota == 0 ||
	    !(limit->algorithm >= SLUICE_FIXED_WINDOW && limit->algorithm <= SLUICE_LEAKY_BUCKET))
		sl_step(limit, &copy, now, cost, false, decision);
	else if (limit->algorithm == SLUICE_SLIDING_LOG)
		step_log(&v, cost, decision);
	else
		step_by_copies(&v, cost, decision);
}
