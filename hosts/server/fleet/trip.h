/* A trip: one call of a flight, from launch to landing.
 *
 *   here    what is known or leased here is decided; some items may wait for a slice
 *   ask     the others, by one command a group: CHECK where it is one, HOLD where there are several, all at once;
 *           PEEK where the request is denied already, or costs nothing
 *   confirm all groups hold and all enforced limits admit: the holds become charges
 *   cancel  else: the holds go at once, and a PEEK finds out how the limits that admitted stand without them
 *   end     merged, counted; units of slices that are not needed are put back
 *
 * Each step begins when all of the one before have been answered, or were found late: the nodes see to that by the
 * deadline, so no trip has a clock of its own.
 *
 * What nobody answered for is decided by what its limits say (aside.c). */
#ifndef SL_TRIP_H
#define SL_TRIP_H

#include "hosts/server/fleet/fleet.h"
#include "hosts/server/fleet/known.h"
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
	bool held; /* by a HOLD, which reported it as charged */
	uint64_t tag;
	struct sl_lease_wait wait;
};

struct sl_journey;

struct sl_trip {
	struct sl_journey *journey;
	struct sl_flight_call *call;
	struct sl_trip_item *items;
	struct sl_group *groups;
	uint32_t pending; /* answers or slices waited for */
	uint8_t verb;     /* enum sl_verb, of the commands under way or behind */
	bool late, asked, was_held;
	bool refused; /* a node can't do what the caller asks for himself: a limit in notation, an instant */
	bool whole;  /* one command, or none: sl_plan_is_whole() */
	bool denied; /* after holds: what follows only tidies up, and looks what the counters say without them */
};

/* A flight on its way. */
struct sl_journey {
	struct sl_fleet *fleet;
	struct sl_flight *flight;
	sluice_ns deadline;
	uint32_t left;  /* trips that have not ended */
	bool launching; /* within launch() */
	struct sl_trip trips[];
};

/* What the files of this folder share of a fleet. */
struct sl_fleet {
	struct sl_remote remote;
	struct sl_nodes *nodes;
	struct sl_leases *leases; /* NULL: none are taken */
	struct sl_known *known;
	struct sluice_store *store;
	struct sl_fleet_figures *figures;
	void (*say)(const char *line);
	char *prefix;
	sluice_ns budget_ns;
	uint64_t secret[2], ids;
	sluice_ns said_at;
	uint64_t unsaid;
	uv_loop_t *loop;
	uv_timer_t timer;
	bool closing, nodes_closing;
	void (*closed)(void *to);
	void *closed_to;
};

/* Makes a journey of a flight, all memory in one piece; NULL when the system gives none. */
struct sl_journey *sl_journey_new(struct sl_fleet *fleet, struct sl_flight *flight);

/* Begins all trips. True: all have ended. The journey is the callee's. */
bool sl_journey_begin(struct sl_journey *journey);

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
