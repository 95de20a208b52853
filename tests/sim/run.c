/* See run.h. */
#include "tests/sim/run.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CYCLES = 4, PATIENCE_S = 60, TRIES_MAX = 300 };

/* How long the phases of a cycle last. */
#define BEGIN_NS SIM_RECOVERY_NS
#define FAULTS_NS (8 * SIM_S)
#define MENDING_NS (SIM_RECOVERY_NS + SIM_S)
#define CALM_NS (3 * SIM_S)
#define QUIET_NS (5 * SIM_S / 2)
#define MOVES_NS (4 * SIM_S)
#define CYCLE_NS (FAULTS_NS + MENDING_NS + CALM_NS + QUIET_NS + MOVES_NS + QUIET_NS)

/* ---- drawn ------------------------------------------------------------------------------------------------------- */

/* Of what operators do in calm phases; the others are kept. */
static void draw_moves(struct world *world, sluice_ns from, sluice_ns until) {
	const uint32_t first = world->fault_count;
	faults_draw(world, from, until);
	for (uint32_t f = first; f < world->fault_count; f++) {
		struct sim_fault *fault = &world->faults[f];
		fault->kind = world->config.clustered && fault->a % 2 == 0 ? SIM_SWITCH : SIM_MOVE;
		fault->b %= world->config.shards;
		fault->a %= world->counter_count;
	}
}

void run_draw(struct sim_run *run, uint64_t seed) {
	static struct world world;
	memset(&world, 0, sizeof world);
	*run = (struct sim_run){.seed = seed, .cycles = CYCLES};
	world_draw(&run->config, seed);
	world_begin(&world, seed, &run->config); /* how many counters there are */
	for (uint32_t c = 0; c < run->cycles; c++) {
		const sluice_ns begin = BEGIN_NS + c * CYCLE_NS, moves = begin + CYCLE_NS - QUIET_NS - MOVES_NS;
		faults_draw(&world, begin, begin + FAULTS_NS);
		draw_moves(&world, moves, moves + MOVES_NS);
	}
	run->fault_count = world.fault_count;
	memcpy(run->faults, world.faults, sizeof run->faults);
	world_end(&world);
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

static void run_phases(struct world *world, uint32_t cycles) {
	sluice_ns at = BEGIN_NS;
	world_run(world, at);
	for (uint32_t c = 0; c < cycles && !world->failed; c++) {
		world_run(world, at += FAULTS_NS + MENDING_NS + CALM_NS);
		if (!world->failed)
			judge_holds(world);
		for (int looks = 0; looks < 2; looks++) {
			world->traffic = false;
			world_run(world, at + QUIET_NS / 2);
			if (!world->failed)
				overrides_list(world);
			world_run(world, at += QUIET_NS);
			if (world->failed)
				return;
			judge_accounts(world);
			world->traffic = true;
			if (looks == 0)
				world_run(world, at += MOVES_NS);
		}
	}
}

static void run_here(const struct sim_run *run, struct sim_result *result) {
	static struct world world;
	world_begin(&world, run->seed, &run->config);
	memcpy(world.faults, run->faults, sizeof world.faults);
	world.fault_count = run->fault_count;
	faults_plan(&world);
	run_phases(&world, run->cycles);
	if (!world.failed)
		world_end(&world);
	result->totals = world.totals;
	result->failed = world.failed;
	memcpy(result->why, world.why, sizeof result->why);
}

/* One process each: what crashes or hangs is told like what is judged, and no world sees another's module. */
struct sim_result run_apart(const struct sim_run *run) {
	static struct sim_result result;
	int ends[2], status = 0;
	result = (struct sim_result){.failed = true};
	SL_ASSERT(pipe(ends) == 0);
	(void)fflush(NULL);
	const pid_t child = fork();
	SL_ASSERT(child >= 0);
	if (child == 0) {
		struct sim_result own = {.failed = false};
		const struct rlimit patience = {PATIENCE_S, PATIENCE_S}; /* of processor: others may be busy */
		(void)setrlimit(RLIMIT_CPU, &patience);
		run_here(run, &own);
		_exit(write(ends[1], &own, sizeof own) == sizeof own ? 0 : 1);
	}
	close(ends[1]);
	size_t got = 0;
	for (ssize_t more = 1; more > 0 && got < sizeof result; got += more > 0 ? (size_t)more : 0)
		more = read(ends[0], (char *)&result + got, sizeof result - got);
	close(ends[0]);
	SL_ASSERT(waitpid(child, &status, 0) == child);
	if (got != sizeof result) {
		result.failed = true;
		snprintf(result.why, sizeof result.why, "at the end: crash: the process ended with status %d", status);
	}
	return result;
}

/* ---- made short -------------------------------------------------------------------------------------------------- */

/* What comes after "at 1.5 s: ": "over", "account", ... */
static bool same_reason(const struct sim_result *a, const struct sim_result *b) {
	const char *one = strstr(a->why, ": "), *other = strstr(b->why, ": ");
	if (one == NULL || other == NULL)
		return false;
	const size_t len = strcspn(one + 2, ":");
	return strncmp(one + 2, other + 2, len) == 0;
}

static bool still_fails(const struct sim_run *run, const struct sim_result *result, uint32_t *tries) {
	if (++*tries > TRIES_MAX)
		return false;
	const struct sim_result now = run_apart(run);
	return now.failed && same_reason(&now, result);
}

static bool leave_out(struct sim_run *run, uint32_t first, uint32_t count, const struct sim_result *result,
                      uint32_t *tries) {
	static struct sim_run less;
	less = *run;
	memmove(&less.faults[first], &less.faults[first + count],
	        (less.fault_count - first - count) * sizeof less.faults[0]);
	less.fault_count -= count;
	if (!still_fails(&less, result, tries))
		return false;
	*run = less;
	return true;
}

static void try_config(struct sim_run *run, const struct sim_config *config, const struct sim_result *result,
                       uint32_t *tries) {
	static struct sim_run less;
	less = *run;
	less.config = *config;
	if (still_fails(&less, result, tries))
		*run = less;
}

void run_shrink(struct sim_run *run, const struct sim_result *result) {
	uint32_t tries = 0;
	struct sim_run fewer = *run;
	for (fewer.cycles = 1; fewer.cycles < run->cycles; fewer.cycles++)
		if (still_fails(&fewer, result, &tries))
			*run = fewer;
	for (uint32_t part = run->fault_count; part > 0; part /= 2)
		for (uint32_t first = 0; first + part <= run->fault_count;)
			if (!leave_out(run, first, part, result, &tries))
				first += part;
	struct sim_config config = run->config;
	config.fronts = 1;
	try_config(run, &config, result, &tries);
	config = run->config;
	config.drift = config.apart_ms = 0;
	try_config(run, &config, result, &tries);
	config = run->config;
	config.overrides = 0;
	try_config(run, &config, result, &tries);
	config = run->config;
	config.names = false;
	try_config(run, &config, result, &tries);
}

/* ---- scripts ----------------------------------------------------------------------------------------------------- */

#define NUMBERS(X)                                                                                                 \
	X(fronts, config.fronts) X(shards, config.shards) X(replicas, config.replicas) X(clustered, config.clustered) \
	X(slices, config.slices) X(names, config.names) X(budget, config.budget_ns) X(slice, config.slice_ns)         \
	X(rate, config.rate) X(timeout, config.node_timeout_ms) X(drift, config.drift) X(apart, config.apart_ms)      \
	X(overrides, config.overrides) X(cycles, cycles)

void run_write(const struct sim_run *run, FILE *file) {
	char line[96];
	fprintf(file, "seed %" PRIu64 "\n", run->seed);
#define WRITE(name, field) fprintf(file, #name " %" PRIu64 "\n", (uint64_t)run->field);
	NUMBERS(WRITE)
#undef WRITE
	for (uint32_t f = 0; f < run->fault_count; f++) {
		faults_print(&run->faults[f], line);
		fprintf(file, "%s\n", line);
	}
}

static bool read_number(struct sim_run *run, const char *name, uint64_t value) {
	if (strcmp(name, "seed") == 0) {
		run->seed = value;
		return true;
	}
#define READ(word, field)                     \
	if (strcmp(name, #word) == 0) {           \
		run->field = (typeof(run->field))value; \
		return true;                          \
	}
	NUMBERS(READ)
#undef READ
	return false;
}

bool run_read(struct sim_run *run, FILE *file) {
	char line[256], name[16];
	uint64_t value;
	*run = (struct sim_run){.seed = 0};
	while (fgets(line, sizeof line, file) != NULL) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (run->fault_count < SIM_FAULTS_MAX && faults_read(line, &run->faults[run->fault_count]))
			run->fault_count++;
		else if (sscanf(line, "%15s %" SCNu64, name, &value) != 2 || !read_number(run, name, value))
			return false;
	}
	return run->config.fronts != 0;
}
