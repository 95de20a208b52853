/* A run: a world from its beginning to its end, in a process of its own; and how one that fails is made short. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "tests/sim/world.h"

/* What a run is made of: all that a script says. */
struct sim_run {
	uint64_t seed;
	struct sim_config config;
	uint32_t cycles; /* of faults, mending, calm, quiet, moves */
	uint32_t fault_count;
	struct sim_fault faults[SIM_FAULTS_MAX];
};

struct sim_result {
	struct sim_totals totals;
	bool failed;
	char why[SIM_WHY_BYTES];
};

/* Draws all of it from the seed. */
void run_draw(struct sim_run *run, uint64_t seed);
/* Runs it in a process of its own, which may crash, or hang. */
struct sim_result run_apart(const struct sim_run *run);
/* Leaves out whatever it fails without, for the same reason. */
void run_shrink(struct sim_run *run, const struct sim_result *result);
/* A script: the seed, what the world is made of, and the faults, a line each. */
void run_write(const struct sim_run *run, FILE *file);
bool run_read(struct sim_run *run, FILE *file);

#endif
