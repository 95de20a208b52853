/* A trip: one call of a flight, from launch to landing.
 *
 *   here    what is known or leased here is decided; some items may wait for a slice
 *   ask     the others. CHECK, where it is one command: a group; PEEK where the request is denied already, or costs
 *           nothing. Several groups queue in lanes (lane.h), where room is held for all that wait
 *   confirm it is its turn, and there is enough for it everywhere: CONFIRM in each group at the same time
 *   denied  there is not: PEEK in each group finds out how the limits stand
 *   doubt   only what others hold is in the way, of either: it waits in its lanes for what becomes of that
 *   end     merged, counted; units of slices that are not needed are put back
 *
 * Each step begins when all of the one before have been answered, or were found late: the nodes see to that by the
 * deadline, and lanes to what waits in them, so no trip has a clock of its own.
 *
 * What nobody answered for is decided by what its limits say (aside.c). */
#ifndef SL_TRIP_H
#define SL_TRIP_H

#include "hosts/server/fleet/fleet.h"
#include "hosts/server/fleet/known.h"
#include "hosts/server/fleet/lane.h"
#include "hosts/server/fleet/lease.h"

enum sl_trip_state {
	SL_ITEM_FREE,     /* unlimited: nothing to decide */
	SL_ITEM_TO_ASK,   /* by a command, which may be under way */
	SL_ITEM_WAITS,    /* for a slice */
	SL_ITEM_TAKEN,    /* admitted by a slice */
	SL_ITEM_KNOWN,    /* denied here */
	SL_ITEM_ANSWERED, /* by its counter */
	SL_ITEM_FAILED,   /* nobody answered */
	SL_ITEM_LOCAL,    /* and it was decided by counters of this process */
};

struct sl_trip_item {
	uint8_t state;
	uint64_t tag;
	struct sl_lease_wait wait;
	struct sl_seat seat;
};

struct sl_journey;

struct sl_trip {
	struct sl_journey *journey;
	struct sl_flight_call *call;
	struct sl_trip_item *items;
	struct sl_group *groups;
	uint32_t pending; /* answers or slices waited for */
	uint8_t verb;     /* enum sl_fleet_verb, of the commands under way or behind */
	bool late, asked, was_held;
	bool refused; /* a node can't do what the caller asks for himself: a limit in notation, an instant */
	bool whole;  /* one command, or none: sl_plan_is_whole() */
	bool denied; /* by its lanes: what follows only looks what the counters say */

	/* lane.h */
	struct sl_trip *next_waiting, *prev_waiting;
	sluice_ns stalled_until; /* 0: it is not */
	uint32_t denies;         /* items that its lanes denied, by bit */
	uint32_t no_room;        /* those of them whose counters the node has no memory for */
	uint8_t tries;           /* how often it was in doubt */
	bool seated, alone;
	bool spared; /* at the end of its budget, for one turn of the loop */
};

/* A flight on its way. */
struct sl_journey {
	struct sl_fleet *fleet;
	struct sl_flight *flight;
	sluice_ns deadline;
	uint32_t left;  /* trips that have not ended */
	bool launching; /* within launch() */
	struct sl_journey *next; /* of those that are to land */
	struct sl_trip trips[];
};

/* What the files of this folder share of a fleet. */
struct sl_fleet {
	struct sl_remote remote;
	struct sl_nodes *nodes;
	struct sl_leases *leases; /* NULL: none are taken */
	struct sl_known *known;
	struct sl_lanes *lanes;
	struct sl_journey *to_land; /* ended while another was launched */
	struct sluice_store *store;
	struct sl_fleet_figures *figures;
	void (*say)(const char *line);
	char *prefix;
	sluice_ns budget_ns;
	uint64_t secret[2], ids;
	uint64_t hold_id; /* of all holds of this worker: one a counter */
	sluice_ns said_at;
	uint64_t unsaid;
	uv_loop_t *loop;
	uv_timer_t timer, lane_timer;
	sluice_ns lanes_due; /* when lane_timer is set to; SLUICE_NEVER: it is not */
	sluice_ns lanes_set; /* and when it was set */
	bool stalled;        /* it came too late */
	bool launching;      /* nobody lands meanwhile */
	bool closing, nodes_closing;
	void (*closed)(void *to);
	void *closed_to;
};

/* Makes a journey of a flight, all memory in one piece; NULL when the system gives none. */
struct sl_journey *sl_journey_new(struct sl_fleet *fleet, struct sl_flight *flight);

/* Begins all trips. True: all have ended. The journey is the callee's. */
bool sl_journey_begin(struct sl_journey *journey);

/* A trip of it has ended: with its last one it lands. */
void sl_journey_over(struct sl_journey *journey);

/* Lands what ended while something else was launched. */
void sl_journeys_land(struct sl_fleet *fleet);

/* What commands say of one of its items. */
static inline struct sl_plan_item sl_trip_plan(const struct sl_trip *trip, uint32_t i) {
	return (struct sl_plan_item){&trip->call->call.items[i], trip->call->facts[i].name, (uint8_t)i};
}

/* All that a step has waited for is there: the next. */
void sl_trip_go_on(struct sl_trip *trip);

/* ---- what lanes ask of trips (trip.c) ---- */

/* It is the first of all its lanes, or waits in none any more: it is decided, and leaves them; or it stalls. */
void sl_trip_turn(struct sl_trip *trip);

/* Nobody answers for these items. `tell`: the log has not been told. */
void sl_trip_fail(struct sl_trip *trip, uint32_t items, const struct sl_answer *answer, bool tell);

/* It has waited long enough, and has left its lanes: for a node, or is denied as call->each of trip->denies says. */
void sl_trip_expire(struct sl_trip *trip, bool for_node);

/* What a group's command says of it. */
struct sl_head sl_group_head(const struct sl_fleet *fleet, const struct sl_group *group);

/* Sends a last command of a group, best effort, and frees it. */
void sl_group_send_off(struct sl_fleet *fleet, struct sl_group *group, enum sl_fleet_verb verb);

/* ---- fleet.c ---- */

/* Has the lanes looked at when this instant has come. */
void sl_fleet_wake(struct sl_fleet *fleet, sluice_ns due);

/* A random number for a hold: others can't guess it. */
uint64_t sl_fleet_id(struct sl_fleet *fleet);

/* Sends a group's command; false: nobody to ask. */
bool sl_fleet_ask(struct sl_fleet *fleet, struct sl_group *group);

/* Says in the log that a command was refused, and what to do; at a bounded rate. */
void sl_fleet_refused(struct sl_fleet *fleet, struct sluice_bytes error);

/* Decides what nobody answered for. SLUICE_OK: the items that failed have answers now; SLUICE_E_AWAY: the door says
 * what the request gets; SLUICE_E_MISUSE: it tells the caller that this can't be asked. */
sluice_err sl_aside(struct sl_trip *trip);

/* Whether the door lets a request pass that is SLUICE_E_AWAY. */
bool sl_aside_passes(const struct sl_trip *trip);

#endif
