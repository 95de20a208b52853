/* A simulated fleet: fronts, nodes, clients, clocks and what befalls them, in one process, on virtual time, from one
 * seed. The code of fronts (hosts/server/remote, hosts/server/cluster) and of the module (hosts/redis) is the
 * product's; time.c, net.c, redis_api.c, node.c and shards.c are the world around it.
 *
 *   time.h    virtual time, chance, clocks that drift        faults.c  what befalls whom
 *   net.h     hosts, connections, loop/loop.h               judge.c   what must hold, whatever does
 *   node.h    a Redis with the module, in memory            run.h     a run, in a process of its own; made short
 *   shards.c  replication, failovers, slots that move       world.c   all of it, drawn from a seed
 *   fronts.c  fleets and their clients                      planted.py  mistakes made on purpose, each to be found
 *   overrides.c  quotas of keys' own: who changes them, and what must hold of them
 *
 * A world is run in a process of its own for some 120 simulated seconds. One that fails is made short and written to
 * build/sim/SEED.script, which is what to keep here once its cause is mended: all *.script of this folder are run
 * first.
 *
 *   SLUICE_SEED=1 build/tests/sim/fleet_test           worlds of a seed, for SLUICE_SIM_SECONDS of processor (20)
 *   build/tests/sim/fleet_test FILE.script             that one alone; SAY=1 prints what fronts say, SHRINK=1 makes it
 *                                                      short
 *   build/tests/sim/fleet_test --answers               nodes alone: answers.h
 *
 * docs/design/029-simulation.md says what is judged, and what this can't see. */
#include "tests/sim/answers.h"
#include "tests/sim/run.h"

#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#if defined(SL_DEBUG)
enum { SECONDS = 5 };
#else
enum { SECONDS = 20 };
#endif

static uint64_t number_of(const char *name, uint64_t otherwise) {
	const char *text = getenv(name);
	return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

/* Of all worlds that have ended. */
static double processor_seconds(void) {
	struct rusage usage;
	getrusage(RUSAGE_CHILDREN, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void add(struct sim_totals *sum, const struct sim_totals *one) {
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)one;
	for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
		to[i] += from[i];
}
_Static_assert(sizeof(struct sim_totals) % sizeof(uint64_t) == 0, "numbers only");

static void print_totals(const struct sim_totals *totals, uint64_t worlds, double seconds) {
	printf("simulated, seed %" PRIu64 ": %.2f hours in %" PRIu64 " worlds, %.0f s of processor; %" PRIu64
	       " decisions, %" PRIu64 " judged by windows\n",
	       dice_seed(), (double)totals->simulated / 3600e9, worlds, seconds, totals->decisions, totals->judged);
	printf("simulated, by seed: %" PRIu64 " admitted, %" PRIu64 " denied, %" PRIu64 " on-error; %" PRIu64
	       " by slices, %" PRIu64 " held\n",
	       totals->admitted, totals->denied, totals->away, totals->sliced, totals->held);
	printf("simulated, by seed: %" PRIu64 " known denials, %" PRIu64 " commands, %" PRIu64 " failovers lost %" PRIu64
	       " units\n",
	       totals->known, totals->commands, totals->failovers, totals->lost_units);
	printf("simulated, own quotas, by seed: %" PRIu64 " set, %" PRIu64 " got, %" PRIu64 " deleted, %" PRIu64
	       " pages, %" PRIu64 " listed, %" PRIu64 " lost; %" PRIu64 " answers of keys that may have one\n",
	       totals->own_asked[0], totals->own_asked[1], totals->own_asked[2], totals->own_asked[3], totals->own_listed,
	       totals->own_lost, totals->own_judged);
	printf("faults, by seed:");
	for (int kind = 0; kind < SIM_FAULT_KINDS; kind++) {
		printf(" %s %" PRIu64, sim_fault_names[kind], totals->faults[kind]);
		if (kind == SIM_FAULT_KINDS / 2)
			printf("\nfaults, by seed:");
	}
	printf("\n");
}

/* Makes it short, keeps it, and fails. SLUICE_SIM_LONG: not short (planted_test.py only asks whether it is found). */
static void tell(struct sim_run *run, const struct sim_result *result, double seconds) {
	char path[64];
	printf("found: after %.1f s of processor, seed %" PRIu64 ", %s\n", seconds, run->seed, result->why);
	(void)fflush(stdout);
	const bool is_long = getenv("SLUICE_SIM_LONG") != NULL;
	if (!is_long)
		run_shrink(run, result);
	(void)mkdir("build/sim", 0777);
	snprintf(path, sizeof path, "build/sim/%" PRIu64 ".script", run->seed);
	FILE *file = fopen(path, "w");
	if (file != NULL) {
		fprintf(file, "# %s\n", result->why);
		run_write(run, file);
		(void)fclose(file);
	}
	if (!is_long)
		run_write(run, stdout);
	fail_msg("seed %" PRIu64 ": %s; it is kept in %s", run->seed, result->why, path);
}

static void run_script(const char *path) {
	static struct sim_run run;
	FILE *file = fopen(path, "r");
	if (file == NULL || !run_read(&run, file))
		fail_msg("%s: no script", path);
	(void)fclose(file);
	const struct sim_result result = run_apart(&run);
	if (result.failed)
		fail_msg("%s: %s", path, result.why);
}

static void test_scripts(void **state) {
	glob_t found;
	(void)state;
	if (glob("tests/sim/*.script", 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		run_script(found.gl_pathv[i]);
	globfree(&found);
}

static void test_worlds(void **state) {
	static struct sim_run run;
	struct sim_totals totals = {.calls = 0};
	const double seconds = (double)number_of("SLUICE_SIM_SECONDS", SECONDS), begin = processor_seconds();
	uint64_t worlds = 0;
	(void)state;
	while (processor_seconds() - begin < seconds) {
		struct dice dice = dice_of(dice_seed(), worlds++);
		run_draw(&run, dice_bits(&dice) >> 1);
		const struct sim_result result = run_apart(&run);
		if (result.failed)
			tell(&run, &result, processor_seconds() - begin);
		add(&totals, &result.totals);
	}
	print_totals(&totals, worlds, processor_seconds() - begin);
	assert_true(totals.admitted != 0 && totals.denied != 0);
}

int main(int count, char **args) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_scripts), cmocka_unit_test(test_worlds)};
	if (count == 2 && strcmp(args[1], "--answers") == 0)
		return sim_answers(stdin, stdout);
	if (count == 2) {
		static struct sim_run run;
		FILE *file = fopen(args[1], "r");
		if (file == NULL || !run_read(&run, file))
			return 2;
		(void)fclose(file);
		const struct sim_result result = run_apart(&run);
		if (result.failed && getenv("SHRINK") != NULL) {
			run_shrink(&run, &result);
			run_write(&run, stdout);
		}
		printf("%s\n", result.failed ? result.why : "nothing amiss");
		return result.failed;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
