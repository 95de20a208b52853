/* The stats: a table of names, and pages of counters that only their worker writes.
 *
 *   names    [""] ["login"] ["search"] ..   guarded by the lock; a reload, a sample and readers take it, workers never
 *   pages    worker x row -> counters       relaxed: a reader may see one counter of a decision and not yet another
 *   before   row -> sums                    what the row counted under a name that had it earlier
 *   history  row -> ring of steps           made with the name; 9 KiB each
 *
 *  B1  A name keeps its row for as long as it stands in the table, whether a policy has it or not, so that what is
 *      counted only ever grows.
 *  B2  A row goes to another name only when no other is free, the longest unused first, and never one that the present
 *      policy has: a worker that has not yet taken over the new policy still counts there.
 *  B3  Nobody sets a counter to 0: workers write without a lock. A row's new name subtracts what was counted before it.
 */
#include "hosts/server/watch/stats.h"

#include "base/assert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

const char *const sl_transport_names[SL_TRANSPORTS] = {"resp", "http", "spop", "grpc"};

enum { CHUNK = 64, CHUNKS = SL_ROWS_MAX / CHUNK };

_Static_assert(SL_ROWS_MAX % CHUNK == 0, "rows come in whole chunks");
_Static_assert(SL_ROWS_MAX > 2 * (SL_STATS_LIMITS_MAX + 1), "two policies, with their others, and row 0 must fit");

/* What a ring remembers of the sums at its last step. */
struct seen {
	uint64_t allowed, denied, shadow, near, candidate;
};

struct name {
	char text[SLUICE_NAME_BYTES_MAX + 1];
	uint32_t hash;
	uint64_t entered; /* number of the last policy that has it */
	struct sl_row_sum before;
	struct seen seen;
	struct sl_step_sum *ring; /* SL_HISTORY_STEPS; NULL where the system gave no memory */
	uint64_t since;           /* the step that it began with */
	_Atomic uint64_t undecided_at, undecided_s; /* the last such second, and how many; written without the lock */
};

struct sl_stats {
	uint32_t workers;
	pthread_mutex_t lock; /* guards all of the following */
	uint64_t policies;    /* entered so far */
	uint64_t steps;       /* taken so far; the newest stands at (steps - 1) % SL_HISTORY_STEPS of each ring */
	sluice_ns last;       /* instant of the newest */
	uint32_t row_count;
	struct name names[SL_ROWS_MAX];
	struct sl_worker_stats *pages;
	struct sl_route_stats *routes;
};

/* ---- beginning and end ----------------------------------------------------------------------------------------- */

/* Gives a row a name; the lock is held, or nobody else knows the stats yet. */
static void open_row(struct sl_stats *stats, uint32_t row, const char *text, uint32_t hash) {
	struct name *name = &stats->names[row];
	name->hash = hash;
	name->since = stats->steps;
	name->seen = (struct seen){0};
	snprintf(name->text, sizeof name->text, "%s", text);
	if (name->ring == NULL)
		name->ring = calloc(SL_HISTORY_STEPS, sizeof *name->ring);
	if (row >= stats->row_count)
		stats->row_count = row + 1;
}

struct sl_stats *sl_stats_new(uint32_t workers) {
	struct sl_stats *stats = calloc(1, sizeof *stats);
	if (stats == NULL)
		return NULL;
	size_t bytes = workers * sizeof *stats->pages;
	stats->pages = aligned_alloc(_Alignof(struct sl_worker_stats), bytes);
	stats->routes = sl_route_stats_new(workers);
	if (stats->pages == NULL || stats->routes == NULL) {
		sl_route_stats_free(stats->routes);
		free(stats->pages);
		free(stats);
		return NULL;
	}
	memset(stats->pages, 0, bytes);
	for (uint32_t i = 0; i < workers; i++) {
		stats->pages[i].routes = sl_route_stats_worker(stats->routes, i);
		sl_client_page_init(&stats->pages[i].clients);
	}
	stats->workers = workers;
	pthread_mutex_init(&stats->lock, NULL);
	open_row(stats, 0, "", 0);
	return stats;
}

void sl_stats_free(struct sl_stats *stats) {
	if (stats == NULL)
		return;
	for (uint32_t i = 0; i < stats->workers; i++)
		for (uint32_t j = 0; j < CHUNKS; j++)
			free(atomic_load_explicit(&stats->pages[i].rows[j], memory_order_relaxed));
	for (uint32_t i = 0; i < stats->workers; i++)
		sl_rule_stats_free(atomic_load_explicit(&stats->pages[i].rules, memory_order_relaxed));
	for (uint32_t row = 0; row < stats->row_count; row++)
		free(stats->names[row].ring);
	pthread_mutex_destroy(&stats->lock);
	sl_route_stats_free(stats->routes);
	free(stats->pages);
	free(stats);
}

struct sl_worker_stats *sl_stats_worker(struct sl_stats *stats, uint32_t worker) {
	SL_ASSERT(worker < stats->workers);
	return &stats->pages[worker];
}

/* ---- writing: a worker's own page ------------------------------------------------------------------------------ */

struct sl_row *sl_worker_stats_row(struct sl_worker_stats *page, uint32_t row) {
	SL_ASSERT(row < SL_ROWS_MAX);
	_Atomic(struct sl_row *) *place = &page->rows[row / CHUNK];
	struct sl_row *chunk = atomic_load_explicit(place, memory_order_relaxed); /* only this thread sets it */
	if (chunk == NULL) {
		chunk = calloc(CHUNK, sizeof *chunk);
		if (chunk == NULL)
			return NULL;
		atomic_store_explicit(place, chunk, memory_order_release); /* pairs with find_row */
	}
	return &chunk[row % CHUNK];
}

void sl_stats_undecided(struct sl_stats *stats, uint32_t row, sluice_ns now) {
	SL_ASSERT(row < SL_ROWS_MAX);
	struct name *name = &stats->names[row];
	uint64_t second = now / 1000000000, last = atomic_load_explicit(&name->undecided_at, memory_order_relaxed);
	/* relaxed: who loses the exchange lost to one who counted a second, too */
	if (second > last && atomic_compare_exchange_strong_explicit(&name->undecided_at, &last, second,
	                                                             memory_order_relaxed, memory_order_relaxed))
		atomic_fetch_add_explicit(&name->undecided_s, 1, memory_order_relaxed);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* FNV-1a: only to compare fewer names. */
static uint32_t hash_of(const char *text) {
	uint32_t hash = 2166136261u;
	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash;
}

static uint32_t find_name(const struct sl_stats *stats, const char *text, uint32_t hash) {
	for (uint32_t row = 1; row < stats->row_count; row++) {
		const struct name *name = &stats->names[row];
		if (name->hash == hash && strcmp(name->text, text) == 0)
			return row;
	}
	return 0;
}

static void sum_row(const struct sl_stats *stats, uint32_t row, struct sl_row_sum *sum);

/* B2. Two policies of the largest size do not fill the table: what is longest unused is of neither the policy being
 * entered nor the one before it. */
static uint32_t longest_unused(const struct sl_stats *stats) {
	uint32_t best = 1;
	for (uint32_t row = 2; row < SL_ROWS_MAX; row++)
		if (stats->names[row].entered < stats->names[best].entered)
			best = row;
	SL_ASSERT(stats->names[best].entered + 1 < stats->policies);
	return best;
}

static uint32_t take_row(struct sl_stats *stats, const char *text, uint32_t hash) {
	uint32_t row = stats->row_count;
	if (row == SL_ROWS_MAX) {
		row = longest_unused(stats);
		sum_row(stats, row, &stats->names[row].before);
		if (stats->names[row].ring != NULL)
			memset(stats->names[row].ring, 0, SL_HISTORY_STEPS * sizeof *stats->names[row].ring);
	}
	open_row(stats, row, text, hash);
	return row;
}

uint32_t sl_stats_rows_of(const struct sluice_policy *policy) {
	return sl_policy_limit_count(policy) + sl_policy_route_count(policy);
}

uint32_t sl_stats_limits_of(const struct sluice_policy *policy) {
	uint32_t count = sl_policy_limit_count(policy);
	return count < SL_STATS_LIMITS_MAX ? count : SL_STATS_LIMITS_MAX;
}

/* The name of the i-th row of a policy: of a limit, or of all others. */
static const char *name_of(const struct sluice_policy *policy, uint32_t i) {
	return i < SL_STATS_LIMITS_MAX ? sl_policy_limit_at(policy, i)->name : SL_STATS_OTHERS;
}

void sl_stats_enter(struct sl_stats *stats, const struct sluice_policy *policy, uint32_t *rows) {
	uint32_t count = sl_policy_limit_count(policy);
	uint32_t own = sl_stats_limits_of(policy), named = own + (own < count);
	pthread_mutex_lock(&stats->lock);
	uint64_t number = ++stats->policies;
	for (uint32_t i = 0; i < named; i++) { /* those that stay, before any row is given away */
		const char *text = name_of(policy, i);
		rows[i] = find_name(stats, text, hash_of(text));
		if (rows[i] != 0)
			stats->names[rows[i]].entered = number;
	}
	for (uint32_t i = 0; i < named; i++) {
		const char *text = name_of(policy, i);
		if (rows[i] == 0)
			rows[i] = take_row(stats, text, hash_of(text));
		stats->names[rows[i]].entered = number;
	}
	pthread_mutex_unlock(&stats->lock);
	for (uint32_t i = named; i < count; i++)
		rows[i] = rows[own];
	sl_route_stats_enter(stats->routes, policy, rows + count);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static uint64_t look(const _Atomic uint64_t *counter) {
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static const struct sl_row *find_row(const struct sl_worker_stats *page, uint32_t row) {
	const struct sl_row *chunk = atomic_load_explicit(&page->rows[row / CHUNK], memory_order_acquire);
	return chunk == NULL ? NULL : &chunk[row % CHUNK];
}

static void add_row(const struct sl_row *row, struct sl_row_sum *sum) {
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
			sum->decisions[transport][verdict] += look(&row->decisions[transport][verdict]);
	sum->hits[0] += look(&row->hits[0]);
	sum->hits[1] += look(&row->hits[1]);
	sum->near += look(&row->near);
	sum->candidate += look(&row->candidate);
	sum->penalties += look(&row->penalties);
	sum->undecided += look(&row->undecided);
	for (int bound = 0; bound < SLUICE_BOUNDS; bound++)
		sum->bounds[bound] += look(&row->bounds[bound]);
}

/* All that was ever counted in a row, whatever its name. */
static void sum_row(const struct sl_stats *stats, uint32_t row, struct sl_row_sum *sum) {
	*sum = (struct sl_row_sum){.undecided_s = look(&stats->names[row].undecided_s)};
	for (uint32_t i = 0; i < stats->workers; i++) {
		const struct sl_row *own = find_row(&stats->pages[i], row);
		if (own != NULL)
			add_row(own, sum);
	}
}

/* What was counted under the row's present name. */
static void sum_name(const struct sl_stats *stats, uint32_t row, struct sl_row_sum *sum) {
	const struct name *name = &stats->names[row];
	const struct sl_row_sum *before = &name->before;
	sum_row(stats, row, sum);
	memcpy(sum->name, name->text, sizeof sum->name);
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
			sum->decisions[transport][verdict] -= before->decisions[transport][verdict];
	sum->hits[0] -= before->hits[0];
	sum->hits[1] -= before->hits[1];
	sum->near -= before->near;
	sum->candidate -= before->candidate;
	sum->penalties -= before->penalties;
	sum->undecided -= before->undecided;
	sum->undecided_s -= before->undecided_s;
	for (int bound = 0; bound < SLUICE_BOUNDS; bound++)
		sum->bounds[bound] -= before->bounds[bound];
}

/* Readers see const stats; the lock is no part of what they see. */
static void lock(const struct sl_stats *stats) {
	pthread_mutex_lock((pthread_mutex_t *)&stats->lock);
}

static void unlock(const struct sl_stats *stats) {
	pthread_mutex_unlock((pthread_mutex_t *)&stats->lock);
}

uint32_t sl_stats_row_count(const struct sl_stats *stats) {
	lock(stats);
	uint32_t count = stats->row_count;
	unlock(stats);
	return count;
}

bool sl_stats_row(const struct sl_stats *stats, uint32_t row, struct sl_row_sum *sum) {
	lock(stats);
	bool used = row < stats->row_count;
	if (used)
		sum_name(stats, row, sum);
	unlock(stats);
	return used;
}

const struct sl_route_stats *sl_stats_routes(const struct sl_stats *stats) {
	return stats->routes;
}

void sl_stats_sum(const struct sl_stats *stats, struct sl_stats_sum *sum) {
	*sum = (struct sl_stats_sum){0};
	for (uint32_t i = 0; i < stats->workers; i++) {
		const struct sl_worker_stats *page = &stats->pages[i];
		sl_times_sum(&page->decision, sum->decision, &sum->decision_ns);
		for (int transport = 0; transport < SL_TRANSPORTS; transport++) {
			sl_times_sum(&page->request[transport], sum->request[transport], &sum->request_ns[transport]);
			sum->errors[transport] += look(&page->errors[transport]);
			for (int event = 0; event < SL_EVENTS; event++)
				sum->events[transport][event] += look(&page->events[transport][event]);
			for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
				sum->requests[transport][verdict] += look(&page->requests[transport][verdict]);
		}
	}
}

uint64_t sl_row_sum_decided(const struct sl_row_sum *sum, enum sl_verdict verdict) {
	uint64_t total = 0;
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		total += sum->decisions[transport][verdict];
	return total;
}

uint64_t sl_stats_sum_decided(const struct sl_stats_sum *sum, enum sl_verdict verdict) {
	uint64_t total = 0;
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		total += sum->requests[transport][verdict];
	return total;
}

uint64_t sl_stats_sum_event(const struct sl_stats_sum *sum, enum sl_event event) {
	uint64_t total = 0;
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		total += sum->events[transport][event];
	return total;
}

/* ---- history ---------------------------------------------------------------------------------------------------- */

/* What has grown since the last step, which a step may hold 2^32 - 1 of. */
static uint32_t grown(uint64_t *seen, uint64_t now) {
	uint64_t by = now - *seen;
	*seen = now;
	return by < UINT32_MAX ? (uint32_t)by : UINT32_MAX;
}

static void sample_row(struct sl_stats *stats, uint32_t row, struct sl_step_sum *step) {
	struct seen *seen = &stats->names[row].seen;
	struct sl_row_sum sum;
	sum_name(stats, row, &sum);
	step->allowed = grown(&seen->allowed, sl_row_sum_decided(&sum, SL_VERDICT_ALLOWED));
	step->denied = grown(&seen->denied, sl_row_sum_decided(&sum, SL_VERDICT_DENIED));
	step->shadow = grown(&seen->shadow, sl_row_sum_decided(&sum, SL_VERDICT_SHADOW));
	step->near = grown(&seen->near, sum.near);
	step->candidate = grown(&seen->candidate, sum.candidate);
}

/* How many steps have gone by: 1 but where the loop was late, or the host slept. Those between count nothing. */
static uint64_t steps_between(sluice_ns last, sluice_ns now) {
	const sluice_ns step = (sluice_ns)SL_HISTORY_STEP_MS * 1000000;
	uint64_t steps = last == 0 || now <= last ? 1 : (now - last + step / 2) / step;
	return steps == 0 ? 1 : steps > SL_HISTORY_STEPS ? SL_HISTORY_STEPS : steps;
}

void sl_stats_sample(struct sl_stats *stats, sluice_ns now) {
	pthread_mutex_lock(&stats->lock);
	uint64_t steps = steps_between(stats->last, now);
	for (uint32_t row = 0; row < stats->row_count; row++) {
		struct sl_step_sum *ring = stats->names[row].ring;
		if (ring == NULL)
			continue;
		for (uint64_t i = 0; i + 1 < steps; i++)
			ring[(stats->steps + i) % SL_HISTORY_STEPS] = (struct sl_step_sum){0};
		sample_row(stats, row, &ring[(stats->steps + steps - 1) % SL_HISTORY_STEPS]);
	}
	stats->steps += steps;
	stats->last = now;
	pthread_mutex_unlock(&stats->lock);
}

uint32_t sl_stats_history(struct sl_stats *stats, uint32_t row, struct sl_step_sum steps[SL_HISTORY_STEPS],
                          sluice_ns *last) {
	uint64_t count = 0;
	pthread_mutex_lock(&stats->lock);
	const struct name *name = &stats->names[row];
	*last = stats->last;
	if (row < stats->row_count && name->ring != NULL) {
		count = stats->steps - name->since;
		count = count < SL_HISTORY_STEPS ? count : SL_HISTORY_STEPS;
		for (uint64_t i = 0; i < count; i++)
			steps[i] = name->ring[(stats->steps - count + i) % SL_HISTORY_STEPS];
	}
	pthread_mutex_unlock(&stats->lock);
	return (uint32_t)count;
}

uint32_t sl_stats_rules(const struct sl_stats *stats, const struct sl_rule_page *pages[SL_THREADS_MAX]) {
	uint32_t count = stats->workers < SL_THREADS_MAX ? stats->workers : SL_THREADS_MAX;
	for (uint32_t i = 0; i < count; i++)
		pages[i] = atomic_load_explicit(&stats->pages[i].rules, memory_order_acquire);
	return count;
}

uint32_t sl_stats_clients(struct sl_stats *stats, struct sl_client_sum sums[SL_CLIENTS_TOLD_MAX]) {
	struct sl_client_page *pages[SL_THREADS_MAX];
	uint32_t count = stats->workers < SL_THREADS_MAX ? stats->workers : SL_THREADS_MAX;
	for (uint32_t i = 0; i < count; i++)
		pages[i] = &stats->pages[i].clients;
	return sl_client_stats_sums(pages, count, sums);
}
