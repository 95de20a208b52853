/* Virtual time: a queue of events, chance, and the clocks of hosts, which are apart and drift.
 *
 * All that happens in the simulation is an event at an instant of one true time, which nobody in it can read: hosts
 * have clocks of their own. Events of one instant happen in the order in which they were planned, timers before
 * sockets. */
#ifndef TESTS_SIM_TIME_H
#define TESTS_SIM_TIME_H

#include "tests/model/dice.h"

#define SIM_US ((sluice_ns)1000)
#define SIM_MS ((sluice_ns)1000000)
#define SIM_S ((sluice_ns)1000000000)

typedef void sim_event(void *to, uint64_t tag);

struct sim_planned {
	sluice_ns at;
	uint64_t order;
	sim_event *happen;
	void *to;
	uint64_t tag;
};

struct sim_memory {
	struct sim_memory *next;
};

struct sim_time {
	sluice_ns now;
	uint64_t orders;
	struct sim_planned *heap;
	size_t count, room;
	struct dice net, traffic; /* streams of their own: what is taken out of one changes nothing in the other */
	struct sim_memory *memory;
};

void sim_time_begin(struct sim_time *time, uint64_t seed);
void sim_time_end(struct sim_time *time);

/* Plans an event, not before now. */
void sim_plan(struct sim_time *time, sluice_ns at, sim_event *happen, void *to, uint64_t tag);
/* Lets the next event happen, if it is due by `until`; else it is `until`, and false. */
bool sim_step(struct sim_time *time, sluice_ns until);

/* Memory, zeroed, that lives as long as the world. */
void *sim_take(struct sim_time *time, size_t bytes);

/* A host's clock: `ahead` of true time when the world began, and so many parts in 10^9 faster. */
struct sim_clock {
	sluice_ns ahead;
	int64_t faster;
};

static inline sluice_ns sim_clock_read(const struct sim_clock *clock, sluice_ns now) {
	return clock->ahead + now + (sluice_ns)((__int128)now * clock->faster / 1000000000);
}

/* How long a wait by this clock takes in true time. */
static inline sluice_ns sim_clock_wait(const struct sim_clock *clock, sluice_ns wait) {
	return (sluice_ns)((__int128)wait * 1000000000 / (1000000000 + clock->faster)) + 1;
}

/* Between `least` and `most`. */
static inline sluice_ns sim_between(struct dice *dice, sluice_ns least, sluice_ns most) {
	return least + dice_below(dice, most - least + 1);
}

#endif
