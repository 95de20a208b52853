/* The books: a table of names, and pages of counters that only their worker writes.
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
#include "hosts/server/watch/books.h"

#include "base/assert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 64, CHUNKS = SL_ROWS_MAX / CHUNK };

_Static_assert(SL_ROWS_MAX % CHUNK == 0, "rows come in whole chunks");
_Static_assert(SL_ROWS_MAX > 2 * SL_POLICY_LIMITS_MAX, "two policies and row 0 must fit");

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
};

struct sl_books {
	uint32_t workers;
	pthread_mutex_t lock; /* guards all of the following */
	uint64_t policies;    /* entered so far */
	uint64_t steps;       /* taken so far; the newest stands at (steps - 1) % SL_HISTORY_STEPS of each ring */
	sluice_ns last;       /* instant of the newest */
	uint32_t row_count;
	struct name names[SL_ROWS_MAX];
	struct sl_tally *tallies;
};

/* ---- beginning and end ----------------------------------------------------------------------------------------- */

/* Gives a row a name; the lock is held, or nobody else knows the books yet. */
static void open_row(struct sl_books *books, uint32_t row, const char *text, uint32_t hash) {
	struct name *name = &books->names[row];
	name->hash = hash;
	name->since = books->steps;
	name->seen = (struct seen){0};
	snprintf(name->text, sizeof name->text, "%s", text);
	if (name->ring == NULL)
		name->ring = calloc(SL_HISTORY_STEPS, sizeof *name->ring);
	if (row >= books->row_count)
		books->row_count = row + 1;
}

struct sl_books *sl_books_new(uint32_t workers) {
	struct sl_books *books = calloc(1, sizeof *books);
	if (books == NULL)
		return NULL;
	size_t bytes = workers * sizeof *books->tallies;
	books->tallies = aligned_alloc(_Alignof(struct sl_tally), bytes);
	if (books->tallies == NULL) {
		free(books);
		return NULL;
	}
	memset(books->tallies, 0, bytes);
	books->workers = workers;
	pthread_mutex_init(&books->lock, NULL);
	open_row(books, 0, "", 0);
	return books;
}

void sl_books_free(struct sl_books *books) {
	if (books == NULL)
		return;
	for (uint32_t i = 0; i < books->workers; i++)
		for (uint32_t j = 0; j < CHUNKS; j++)
			free(atomic_load_explicit(&books->tallies[i].rows[j], memory_order_relaxed));
	for (uint32_t row = 0; row < books->row_count; row++)
		free(books->names[row].ring);
	pthread_mutex_destroy(&books->lock);
	free(books->tallies);
	free(books);
}

struct sl_tally *sl_books_tally(struct sl_books *books, uint32_t worker) {
	SL_ASSERT(worker < books->workers);
	return &books->tallies[worker];
}

/* ---- writing: a worker's own page ------------------------------------------------------------------------------ */

struct sl_row *sl_tally_row(struct sl_tally *tally, uint32_t row) {
	SL_ASSERT(row < SL_ROWS_MAX);
	_Atomic(struct sl_row *) *place = &tally->rows[row / CHUNK];
	struct sl_row *chunk = atomic_load_explicit(place, memory_order_relaxed); /* only this thread sets it */
	if (chunk == NULL) {
		chunk = calloc(CHUNK, sizeof *chunk);
		if (chunk == NULL)
			return NULL;
		atomic_store_explicit(place, chunk, memory_order_release); /* pairs with find_row */
	}
	return &chunk[row % CHUNK];
}

/* The upper bounds of a histogram's buckets. A linear search is over after two or three of them: a decision takes some
 * hundreds of ns. */
#define DECADE(ns) ns, 2 * (sluice_ns)ns, 5 * (sluice_ns)ns
static const sluice_ns bounds[SL_TIMES] = {
	DECADE(100),      DECADE(1000),      DECADE(10000),      DECADE(100000), DECADE(1000000),
	DECADE(10000000), DECADE(100000000), DECADE(1000000000), 10000000000,    SLUICE_NEVER,
};

sluice_ns sl_times_bound(uint32_t bucket) {
	SL_ASSERT(bucket < SL_TIMES);
	return bounds[bucket];
}

void sl_times_add(struct sl_times *times, sluice_ns ns, uint64_t count) {
	uint32_t bucket = 0;
	while (ns > bounds[bucket])
		bucket++;
	sl_count(&times->counts[bucket], count);
	sl_count(&times->sum_ns, ns * count);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* FNV-1a: only to compare fewer names. */
static uint32_t hash_of(const char *text) {
	uint32_t hash = 2166136261u;
	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash;
}

static uint32_t find_name(const struct sl_books *books, const char *text, uint32_t hash) {
	for (uint32_t row = 1; row < books->row_count; row++) {
		const struct name *name = &books->names[row];
		if (name->hash == hash && strcmp(name->text, text) == 0)
			return row;
	}
	return 0;
}

static void sum_row(const struct sl_books *books, uint32_t row, struct sl_row_sum *sum);

/* B2. Two policies of the largest size do not fill the table: what is longest unused is of neither the policy being
 * entered nor the one before it. */
static uint32_t longest_unused(const struct sl_books *books) {
	uint32_t best = 1;
	for (uint32_t row = 2; row < SL_ROWS_MAX; row++)
		if (books->names[row].entered < books->names[best].entered)
			best = row;
	SL_ASSERT(books->names[best].entered + 1 < books->policies);
	return best;
}

static uint32_t take_row(struct sl_books *books, const char *text, uint32_t hash) {
	uint32_t row = books->row_count;
	if (row == SL_ROWS_MAX) {
		row = longest_unused(books);
		sum_row(books, row, &books->names[row].before);
		if (books->names[row].ring != NULL)
			memset(books->names[row].ring, 0, SL_HISTORY_STEPS * sizeof *books->names[row].ring);
	}
	open_row(books, row, text, hash);
	return row;
}

void sl_books_enter(struct sl_books *books, const struct sluice_policy *policy, uint32_t *rows) {
	uint32_t count = sl_policy_limit_count(policy);
	pthread_mutex_lock(&books->lock);
	uint64_t number = ++books->policies;
	for (uint32_t i = 0; i < count; i++) { /* those that stay, before any row is given away */
		const char *text = sl_policy_limit_at(policy, i)->name;
		rows[i] = find_name(books, text, hash_of(text));
		if (rows[i] != 0)
			books->names[rows[i]].entered = number;
	}
	for (uint32_t i = 0; i < count; i++) {
		const char *text = sl_policy_limit_at(policy, i)->name;
		if (rows[i] == 0)
			rows[i] = take_row(books, text, hash_of(text));
		books->names[rows[i]].entered = number;
	}
	pthread_mutex_unlock(&books->lock);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static uint64_t look(const _Atomic uint64_t *counter) {
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static const struct sl_row *find_row(const struct sl_tally *tally, uint32_t row) {
	const struct sl_row *chunk = atomic_load_explicit(&tally->rows[row / CHUNK], memory_order_acquire);
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
	for (int bound = 0; bound < SLUICE_BOUNDS; bound++)
		sum->bounds[bound] += look(&row->bounds[bound]);
}

/* All that was ever counted in a row, whatever its name. */
static void sum_row(const struct sl_books *books, uint32_t row, struct sl_row_sum *sum) {
	*sum = (struct sl_row_sum){.near = 0};
	for (uint32_t i = 0; i < books->workers; i++) {
		const struct sl_row *own = find_row(&books->tallies[i], row);
		if (own != NULL)
			add_row(own, sum);
	}
}

/* What was counted under the row's present name. */
static void sum_name(const struct sl_books *books, uint32_t row, struct sl_row_sum *sum) {
	const struct name *name = &books->names[row];
	const struct sl_row_sum *before = &name->before;
	sum_row(books, row, sum);
	memcpy(sum->name, name->text, sizeof sum->name);
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
			sum->decisions[transport][verdict] -= before->decisions[transport][verdict];
	sum->hits[0] -= before->hits[0];
	sum->hits[1] -= before->hits[1];
	sum->near -= before->near;
	sum->candidate -= before->candidate;
	sum->penalties -= before->penalties;
	for (int bound = 0; bound < SLUICE_BOUNDS; bound++)
		sum->bounds[bound] -= before->bounds[bound];
}

/* Readers see const books; the lock is no part of what they see. */
static void lock(const struct sl_books *books) {
	pthread_mutex_lock((pthread_mutex_t *)&books->lock);
}

static void unlock(const struct sl_books *books) {
	pthread_mutex_unlock((pthread_mutex_t *)&books->lock);
}

uint32_t sl_books_row_count(const struct sl_books *books) {
	lock(books);
	uint32_t count = books->row_count;
	unlock(books);
	return count;
}

bool sl_books_row(const struct sl_books *books, uint32_t row, struct sl_row_sum *sum) {
	lock(books);
	bool used = row < books->row_count;
	if (used)
		sum_name(books, row, sum);
	unlock(books);
	return used;
}

void sl_times_sum(const struct sl_times *times, uint64_t counts[SL_TIMES], sluice_ns *sum_ns) {
	for (int i = 0; i < SL_TIMES; i++)
		counts[i] += look(&times->counts[i]);
	*sum_ns += look(&times->sum_ns);
}

void sl_books_sum(const struct sl_books *books, struct sl_books_sum *sum) {
	*sum = (struct sl_books_sum){0};
	for (uint32_t i = 0; i < books->workers; i++) {
		const struct sl_tally *tally = &books->tallies[i];
		sl_times_sum(&tally->decision, sum->decision, &sum->decision_ns);
		for (int transport = 0; transport < SL_TRANSPORTS; transport++) {
			sl_times_sum(&tally->request[transport], sum->request[transport], &sum->request_ns[transport]);
			sum->errors[transport] += look(&tally->errors[transport]);
			for (int event = 0; event < SL_EVENTS; event++)
				sum->events[transport][event] += look(&tally->events[transport][event]);
			for (int verdict = 0; verdict < SL_VERDICTS; verdict++)
				sum->requests[transport][verdict] += look(&tally->requests[transport][verdict]);
		}
	}
}

/* ---- history ---------------------------------------------------------------------------------------------------- */

static uint64_t of_all_transports(const struct sl_row_sum *sum, enum sl_verdict verdict) {
	uint64_t total = 0;
	for (int transport = 0; transport < SL_TRANSPORTS; transport++)
		total += sum->decisions[transport][verdict];
	return total;
}

/* What has grown since the last step, which a step may hold 2^32 - 1 of. */
static uint32_t grown(uint64_t *seen, uint64_t now) {
	uint64_t by = now - *seen;
	*seen = now;
	return by < UINT32_MAX ? (uint32_t)by : UINT32_MAX;
}

static void sample_row(struct sl_books *books, uint32_t row, struct sl_step_sum *step) {
	struct seen *seen = &books->names[row].seen;
	struct sl_row_sum sum;
	sum_name(books, row, &sum);
	step->allowed = grown(&seen->allowed, of_all_transports(&sum, SL_VERDICT_ALLOWED));
	step->denied = grown(&seen->denied, of_all_transports(&sum, SL_VERDICT_DENIED));
	step->shadow = grown(&seen->shadow, of_all_transports(&sum, SL_VERDICT_SHADOW));
	step->near = grown(&seen->near, sum.near);
	step->candidate = grown(&seen->candidate, sum.candidate);
}

/* How many steps have gone by: 1 but where the loop was late, or the host slept. Those between count nothing. */
static uint64_t steps_between(sluice_ns last, sluice_ns now) {
	const sluice_ns step = (sluice_ns)SL_HISTORY_STEP_MS * 1000000;
	uint64_t steps = last == 0 || now <= last ? 1 : (now - last + step / 2) / step;
	return steps == 0 ? 1 : steps > SL_HISTORY_STEPS ? SL_HISTORY_STEPS : steps;
}

void sl_books_sample(struct sl_books *books, sluice_ns now) {
	pthread_mutex_lock(&books->lock);
	uint64_t steps = steps_between(books->last, now);
	for (uint32_t row = 0; row < books->row_count; row++) {
		struct sl_step_sum *ring = books->names[row].ring;
		if (ring == NULL)
			continue;
		for (uint64_t i = 0; i + 1 < steps; i++)
			ring[(books->steps + i) % SL_HISTORY_STEPS] = (struct sl_step_sum){0};
		sample_row(books, row, &ring[(books->steps + steps - 1) % SL_HISTORY_STEPS]);
	}
	books->steps += steps;
	books->last = now;
	pthread_mutex_unlock(&books->lock);
}

uint32_t sl_books_history(struct sl_books *books, uint32_t row, struct sl_step_sum steps[SL_HISTORY_STEPS],
                          sluice_ns *last) {
	uint64_t count = 0;
	pthread_mutex_lock(&books->lock);
	const struct name *name = &books->names[row];
	*last = books->last;
	if (row < books->row_count && name->ring != NULL) {
		count = books->steps - name->since;
		count = count < SL_HISTORY_STEPS ? count : SL_HISTORY_STEPS;
		for (uint64_t i = 0; i < count; i++)
			steps[i] = name->ring[(books->steps - count + i) % SL_HISTORY_STEPS];
	}
	pthread_mutex_unlock(&books->lock);
	return (uint32_t)count;
}
