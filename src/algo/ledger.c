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
 * In which entry each was charged is found once; then, by halving, the end, and the entry that leaves before it.
 *
 * Of a bundle (bundle.h) it isn't known which charges it is. So with R(t) the charges of its class that count at t, and
 * B what of it has ended, they count as the oldest ones: R(t), but at most R less B as it stood at the last charge.
 * That is never less than the truth, and never grows. */
#include "algo/bundle.h"
#include "algo/step.h"
#include "base/assert.h"
#include "base/math.h"

#include <string.h>

enum { BATCH = SL_LEDGER_LIST_MAX + 1 /* corrections made at a time */, CROWDS = 16, CROWDED = 256, NO_CROWD = CROWDS };

/* What the bundles of one class are part of: entries first..last - 1 of a log, which were charged `whole`. */
struct crowd {
	uint64_t class;
	uint32_t first, last;
	uint64_t whole;
};

struct view {
	const struct sluice_limit *limit;
	const struct sl_counter *counter;
	const struct sl_ledger *ledger;
	void *scratch;
	sluice_ns t; /* the instant of the decision */
	/* counters without blocks: as they are with the first `known` returned, from where others are found */
	struct sl_counter from;
	uint32_t known;
	/* logs: those of bundles; and in which of them an entry of the ledger is, of the first CROWDED */
	struct crowd *crowds;
	uint8_t *crowd_of;
	uint32_t crowd_count;
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

uint32_t sl_ledger_debt(const struct sluice_limit *limit, const struct sl_counter *counter, sluice_ns now) {
	return sl_rule_has(limit, SL_DRAINS) && limit->quota != 0 ? sl_bucket_debt(limit, counter, now) : 0;
}

struct sl_reservation sl_reservation_of(const struct sluice_limit *limit, const struct sl_counter *counter,
                                        sluice_ns now, uint64_t id, uint32_t cost, sluice_ns ttl_ns) {
	/* a damaged counter's may be as late as can be: the end is later still, or it would be a bundle */
	sluice_ns instant = sl_min(sl_step_instant(limit, counter, now), SLUICE_NEVER - 2);
	sluice_ns end = instant < SLUICE_NEVER - 1 - ttl_ns ? instant + ttl_ns : SLUICE_NEVER - 1;
	uint32_t debt = sl_ledger_debt(limit, counter, instant);
	return (struct sl_reservation){.id = id, .instant = instant, .end = end, .cost = cost, .debt = debt};
}

uint64_t sl_correct_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t above) {
	if (counter->block == NULL)
		return 0;
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		return sl_log_correct_bytes(limit, counter, above);
	return limit->algorithm == SLUICE_SLIDING_BUCKETS ? sl_subs_wide_bytes(limit) : 0;
}

bool sl_correct(const struct sluice_limit *limit, struct sl_counter *counter, const struct sl_correction *list,
                uint32_t count, void *block, uint64_t block_bytes) {
	bool changed = false;
	SL_ASSERT(list != NULL || count == 0);
	switch (limit->algorithm) {
	case SLUICE_FIXED_WINDOW:
	case SLUICE_SLIDING_WINDOW:
		for (uint32_t i = 0; i < count; i++)
			changed |= sl_window_correct(limit, counter, &list[i]);
		return changed;
	case SLUICE_SPREAD | SLUICE_FIXED_WINDOW:
	case SLUICE_SPREAD | SLUICE_SLIDING_WINDOW:
		for (uint32_t i = 0; i < count; i++)
			changed |= sl_spread_correct(limit, counter, &list[i]);
		return changed;
	case SLUICE_TOKEN_BUCKET:
	case SLUICE_LEAKY_BUCKET:
		for (uint32_t i = 0; i < count && limit->quota != 0; i++)
			changed |= sl_bucket_correct(limit, counter, &list[i]);
		return changed;
	case SLUICE_SLIDING_LOG:
		return sl_log_correct(limit, counter, list, count, block, block_bytes);
	case SLUICE_SLIDING_BUCKETS:
		SL_ASSERT(counter->block == NULL || block_bytes >= sl_subs_wide_bytes(limit));
		return sl_subs_correct(limit, counter, list, count, block);
	default:
		return false;
	}
}

/* ---- windows, sub-buckets and buckets: corrected copies ---------------------------------------------------------- */

struct batch {
	struct sl_correction list[BATCH];
	uint32_t filled;
};

static void flush(const struct view *v, struct sl_counter *copy, struct batch *batch) {
	SL_ASSERT(batch->filled <= BATCH);
	if (batch->filled != 0)
		(void)sl_correct(v->limit, copy, batch->list, batch->filled, v->scratch, SL_LEDGER_SCRATCH_BYTES);
	batch->filled = 0;
}

static void add_returns(const struct view *v, struct sl_counter *copy, struct batch *batch, uint32_t known,
                        uint32_t ended, bool bundles) {
	SL_ASSERT(batch->filled < BATCH && ended <= v->ledger->count);
	for (uint32_t i = known; i < ended; i++) {
		const struct sl_reservation *it = &v->ledger->list[i];
		bool spreads = v->limit->algorithm == SLUICE_SLIDING_BUCKETS && sl_bundle_is(SLUICE_SLIDING_BUCKETS, it);
		struct sl_correction *at = &batch->list[batch->filled];
		if (spreads != bundles)
			continue;
		*at = sl_ledger_return(it);
		at->spread = spreads ? sl_bundle_class(v->limit, it->instant).until : 0;
		if (++batch->filled == BATCH)
			flush(v, copy, batch);
	}
}

/* The counter with the first `ended` returned. Not the order of the batches but that of the list matters; bundles that
 * take the oldest charges of a stretch leave those alone that are known to be others'. */
static struct sl_counter returned(const struct view *v, uint32_t ended) {
	uint32_t known = ended >= v->known ? v->known : 0;
	struct sl_counter copy = known != 0 ? v->from : *v->counter;
	struct batch batch;
	batch.filled = 0;
	add_returns(v, &copy, &batch, known, ended, false);
	if (v->limit->algorithm == SLUICE_SLIDING_BUCKETS)
		add_returns(v, &copy, &batch, known, ended, true);
	flush(v, &copy, &batch);
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
	SL_ASSERT(low <= high && cost <= v->limit->derived[SL_CAPACITY]);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		sluice_ns end = v->ledger->list[middle].end;
		uint32_t after = sl_ledger_ended(v->ledger, end); /* all that end with it; of damaged ones anything */
		if (decide(v, after, end, cost).allowed)
			high = (uint32_t)sl_min(middle, sl_max(low, sl_ledger_ended(v->ledger, end - 1)));
		else
			low = (uint32_t)sl_max(middle + 1, sl_min(after, high));
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

static uint64_t ms_at(sluice_ns instant) {
	return instant / SL_MS_NS + (instant % SL_MS_NS != 0);
}

static uint64_t ms_of(const struct sl_reservation *it) {
	return ms_at(it->instant);
}

static struct share next_share(struct sharing *s, const struct sl_reservation *it) {
	uint64_t ms = ms_of(it);
	struct share share;
	if (ms != s->ms)
		s->left = sl_log_held(s->counter, it->instant, &s->entry);
	s->ms = ms;
	share = (struct share){s->entry, (uint32_t)sl_min(it->cost, s->left)};
	SL_DEBUG_ASSERT(share.cost == 0 || share.entry < s->counter->log.count);
	s->left -= share.cost;
	return share;
}

/* The crowd of a bundle; made if there is none yet. */
static uint32_t find_crowd(struct view *v, const struct sl_counter *counter, const struct sl_reservation *it) {
	struct sl_class class = sl_bundle_class(v->limit, it->instant);
	struct crowd *crowd = v->crowds;
	while (crowd < v->crowds + v->crowd_count && crowd->class != class.number)
		crowd++;
	if (crowd == v->crowds + CROWDS)
		return NO_CROWD; /* more than a window has */
	if (crowd == v->crowds + v->crowd_count) {
		*crowd = (struct crowd){class.number, sl_log_first(counter, class.from), sl_log_first(counter, class.until), 0};
		crowd->whole = sl_log_between(counter, crowd->first, crowd->last);
		v->crowd_count++;
		SL_ASSERT(v->crowd_count <= CROWDS && class.from < class.until);
	}
	return (uint32_t)(crowd - v->crowds);
}

static bool is_bundle(const struct view *v, uint32_t i) {
	return sl_bundle_is(v->limit->algorithm, &v->ledger->list[i]);
}

static void find_crowds(struct view *v, const struct sl_counter *counter) {
	const struct share *shares = v->scratch;
	uint32_t count = (uint32_t)sl_min(v->ledger->count, CROWDED);
	for (uint32_t i = 0; i < count; i++)
		v->crowd_of[i] = is_bundle(v, i) && v->ledger->list[i].instant != 0
		                     ? (uint8_t)find_crowd(v, counter, &v->ledger->list[i])
		                     : NO_CROWD;
	for (uint32_t i = 0; i < count && v->crowd_count != 0; i++)
		for (uint32_t c = 0; c < v->crowd_count && !is_bundle(v, i); c++)
			if (shares[i].entry >= v->crowds[c].first && shares[i].entry < v->crowds[c].last)
				v->crowd_of[i] = (uint8_t)c;
}

static void find_shares(struct view *v, const struct sl_counter *counter) {
	struct sharing sharing = {counter, UINT64_MAX, 0, 0};
	struct share *shares = v->scratch;
	for (uint32_t i = 0; i < v->ledger->count && i < SHARES_MAX; i++)
		shares[i] = is_bundle(v, i) ? (struct share){0, 0} : next_share(&sharing, &v->ledger->list[i]);
	find_crowds(v, counter);
}

/* What of bundles among the first `ended` goes back of a log that has been looked at. */
static uint64_t crowds_back(const struct view *v, const struct sl_counter *copy, uint32_t ended) {
	uint64_t bundled[CROWDS + 1] = {0}, apart[CROWDS + 1] = {0}, apart_live[CROWDS + 1] = {0}, back = 0;
	const struct share *shares = v->scratch;
	uint32_t expired = copy->log.expired;
	for (uint32_t i = 0; i < ended && i < CROWDED; i++) {
		uint32_t c = v->crowd_of[i];
		SL_ASSERT(c < v->crowd_count || c == NO_CROWD);
		bundled[c] += is_bundle(v, i) ? v->ledger->list[i].cost : 0;
		apart[c] += shares[i].cost;
		apart_live[c] += shares[i].entry >= expired ? shares[i].cost : 0;
	}
	for (uint32_t c = 0; c < v->crowd_count; c++) {
		const struct crowd *crowd = &v->crowds[c];
		uint64_t live = sl_log_between(copy, (uint32_t)sl_max(crowd->first, expired), crowd->last), left;
		uint64_t whole = crowd->whole - sl_min(crowd->whole, apart[c]);
		live -= sl_min(live, apart_live[c]);
		left = whole - sl_min(whole, live);
		back += sl_min(live, bundled[c] - sl_min(bundled[c], left));
	}
	return back;
}

/* Where sharing stands after the first `kept`: what is left of the millisecond of the last of them goes on. */
static struct sharing sharing_behind(const struct view *v, const struct sl_counter *copy, uint32_t kept) {
	struct sharing sharing = {copy, UINT64_MAX, 0, 0};
	uint32_t first = kept;
	SL_ASSERT(kept <= v->ledger->count);
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
		back += is_bundle(v, i) ? 0 : next_share(&sharing, &v->ledger->list[i]).cost;
	back += v->crowd_count != 0 ? crowds_back(v, copy, ended) : 0;
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
	SL_ASSERT(copy.log.expired < copy.log.count); /* something counts */
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

/* Finds what stands in which entry, of the log as it stood at its last charge, which was in the millisecond that ends
 * there. */
static void look_at_log(struct view *v, struct sl_counter *copy, struct crowd *crowds, uint8_t *crowd_of) {
	sluice_ns last = sl_step_instant(v->limit, copy, 0);
	(void)sl_log_used(v->limit, copy, last - sl_min(last, SL_MS_NS - 1));
	v->crowds = crowds;
	v->crowd_of = crowd_of;
	find_shares(v, copy);
}

static void step_log(struct view *v, uint64_t cost, struct sluice_decision *decision) {
	struct sl_counter copy = *v->counter;
	struct crowd crowds[CROWDS];
	uint8_t crowd_of[CROWDED];
	uint64_t quota = v->limit->quota, used;
	uint32_t open = sl_ledger_ended(v->ledger, v->t);
	look_at_log(v, &copy, crowds, crowd_of);
	used = log_used(v, &copy, open, v->t);
	sl_decide_room(decision, quota, quota > used ? quota - used : 0, cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > quota ? SLUICE_NEVER : log_wait(v, open, quota - cost);
	decision->reset_after_ns = used != 0 ? sl_min(log_wait(v, open, 0), v->limit->window_ns) : 0;
	v->crowds = NULL;
	v->crowd_of = NULL;
}

/* What one that has ended takes back of a log's charges of the milliseconds from..until - 1. */
struct owed {
	uint64_t from, until;
	uint64_t cost, taken;
	bool bundle;
};
enum { OWED_MAX = SL_LEDGER_SCRATCH_BYTES / sizeof(struct owed), TOLD_MAX = 1024 /* milliseconds, looked at */ };

static uint32_t list_owed(const struct view *v, uint32_t ended, struct owed *owed) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < ended && count < OWED_MAX; i++) {
		const struct sl_reservation *it = &v->ledger->list[i];
		if (it->instant == 0)
			continue;
		owed[count] = (struct owed){ms_of(it), ms_of(it) + 1, it->cost, 0, is_bundle(v, i)};
		if (owed[count].bundle) {
			struct sl_class class = sl_bundle_class(v->limit, it->instant);
			owed[count].from = ms_at(class.from);
			owed[count].until = ms_at(class.until);
		}
		count++;
	}
	return count;
}

/* Bundles take the oldest charges of their class: first those that count no longer, and are no others'. `oldest`: the
 * millisecond of the first that counts. */
static void take_expired(const struct sl_counter *copy, uint64_t oldest, struct owed *owed, uint32_t count) {
	const uint32_t expired = copy->log.expired;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = sl_log_first(copy, owed[i].from * SL_MS_NS);
		uint32_t last = (uint32_t)sl_min(sl_log_first(copy, owed[i].until * SL_MS_NS), expired);
		uint64_t gone = owed[i].bundle && first < last ? sl_log_between(copy, first, last) : 0;
		for (uint32_t k = 0; k < count && gone != 0; k++)
			if (!owed[k].bundle && owed[k].from >= owed[i].from && owed[k].from < sl_min(owed[i].until, oldest))
				gone -= sl_min(gone, owed[k].cost);
		for (uint32_t k = 0; k < i && gone != 0; k++)
			gone -= owed[k].bundle && owed[k].from == owed[i].from ? sl_min(gone, owed[k].taken) : 0;
		owed[i].taken = sl_min(gone, owed[i].cost);
		owed[i].cost -= owed[i].taken;
	}
}

/* What is left of what a millisecond was charged; bundles take what nobody else does. */
static uint64_t left_of(struct owed *owed, uint32_t count, uint64_t ms, uint64_t cost) {
	for (int bundles = 0; bundles < 2; bundles++)
		for (uint32_t i = 0; i < count && cost != 0; i++) {
			uint64_t take = sl_min(owed[i].cost, cost);
			if (owed[i].bundle != (bundles != 0) || ms < owed[i].from || ms >= owed[i].until)
				continue;
			owed[i].cost -= take;
			cost -= take;
		}
	return cost;
}

static sluice_ns log_instant(const struct view *v, const struct sl_counter *copy, uint32_t entry) {
	sluice_ns leaves = sl_log_leaves(copy, entry);
	return leaves - sl_min(leaves, v->limit->window_ns);
}

static void describe_log(struct view *v, uint32_t ended, struct sluice_inspection *told) {
	struct sl_counter copy = *v->counter;
	struct crowd crowds[CROWDS];
	uint8_t crowd_of[CROWDED];
	struct owed *owed = v->scratch;
	uint32_t count, k, first;
	look_at_log(v, &copy, crowds, crowd_of);
	told->used = log_used(v, &copy, ended, v->t);
	count = list_owed(v, ended, owed); /* in the place of the shares */
	k = copy.log.expired;
	if (k < copy.log.count)
		take_expired(&copy, log_instant(v, &copy, k) / SL_MS_NS, owed, count);
	for (int i = 0; i < TOLD_MAX && k < copy.log.count && told->charge_count < SLUICE_CHARGES_MAX; i++) {
		sluice_ns instant = log_instant(v, &copy, k);
		first = k;
		k = (uint32_t)sl_min(sl_max(k + 1, sl_log_first(&copy, instant + 1)), copy.log.count);
		sl_describe_charge(told, instant, sl_ns_plus(instant, v->limit->window_ns),
		                   left_of(owed, count, ms_at(instant), sl_log_between(&copy, first, k)));
	}
	told->charges_in_all += copy.log.count - k;
	v->crowds = NULL;
	v->crowd_of = NULL;
}

void sl_ledger_describe(const struct sluice_limit *limit, const struct sl_counter *counter,
                        const struct sl_ledger *ledger, sluice_ns now, void *scratch, struct sluice_inspection *told) {
	struct view v = {limit,    counter, ledger, scratch, sl_step_instant(limit, counter, now),
	                 *counter, 0,       NULL,   NULL,    0};
	uint32_t ended = sl_ledger_ended(ledger, v.t);
	struct sl_counter copy;
	SL_ASSERT(scratch != NULL && (uintptr_t)scratch % 8 == 0 && sl_rule_has(limit, SL_RESERVABLE));
	if (limit->algorithm == SLUICE_SLIDING_LOG) {
		describe_log(&v, ended, told);
		return;
	}
	copy = returned(&v, ended);
	sl_step_describe(limit, &copy, now, told);
}

void sl_ledger_step(const struct sluice_limit *limit, const struct sl_counter *counter, const struct sl_ledger *ledger,
                    sluice_ns now, uint64_t cost, void *scratch, struct sluice_decision *decision) {
	struct view v = {limit,    counter, ledger, scratch, sl_step_instant(limit, counter, now),
	                 *counter, 0,       NULL,   NULL,    0};
	struct sl_counter copy = *counter;
	SL_ASSERT(ledger->count == 0 || (scratch != NULL && (uintptr_t)scratch % 8 == 0));
	if (ledger->count == 0 || limit->quota == 0 || !sl_rule_has(limit, SL_RESERVABLE))
		sl_step(limit, &copy, now, cost, false, decision);
	else if (limit->algorithm == SLUICE_SLIDING_LOG)
		step_log(&v, cost, decision);
	else
		step_by_copies(&v, cost, decision);
}
