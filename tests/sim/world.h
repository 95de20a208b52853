/* A world of the simulation: hosts, nodes in shards, fronts, their clients, and what befalls them; all of it drawn from
 * one seed, but for the faults, which are a list that can be made shorter. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "hosts/server/remote/fleet.h"
#include "policy/policy.h"
#include "tests/sim/node.h"

#include <stdio.h>

enum {
	SIM_SHARDS_MAX = 3,
	SIM_FRONTS_MAX = 4,
	SIM_LIMITS_MAX = 10,
	SIM_KEYS_MAX = 6, /* of one limit */
	SIM_COUNTERS_MAX = SIM_LIMITS_MAX * SIM_KEYS_MAX,
	SIM_OWNS = 4, /* quotas that keys of a limit may have: the policy's, and three of their own */
	SIM_FAULTS_MAX = 512,
	SIM_WHY_BYTES = 400,
};

#define SIM_RECOVERY_NS (6 * SIM_S) /* after the last fault all is served again */

/* ---- faults ------------------------------------------------------------------------------------------------------ */

enum sim_fault_kind {
	SIM_RESET,     /* front a's connections to node b are broken; of an odd time, in the middle of a reply */
	SIM_PARTITION, /* nothing goes between front a and node b */
	SIM_ISOLATE,   /* nothing goes between node b and other nodes: a split brain */
	SIM_ISLAND,    /* nor between it and fronts other than a */
	SIM_PAUSE,     /* node b is stopped, and goes on */
	SIM_KILL,      /* and is started again after it */
	SIM_LOADING,   /* node b says that it is loading */
	SIM_LAG,       /* what replicas are told takes long */
	SIM_SWITCH,    /* shard b's primary and replica change places, as an operator has them do: nothing is lost */
	SIM_MOVE,      /* the slot of counter a goes to shard b, key by key */
	SIM_STALL,     /* front a stands still */
	SIM_CRASH,     /* front a is killed, and started again */
	SIM_RESTART,   /* front a is ended as it should be, and started again */
	SIM_SLOW,      /* every message takes long */
	SIM_LEAP,      /* node b's wall clock leaps: a says whether backwards */
	SIM_FAULT_KINDS
};
extern const char *const sim_fault_names[SIM_FAULT_KINDS];

struct sim_fault {
	sluice_ns at, lasts;
	uint8_t kind;
	uint32_t a, b;
};

/* ---- what is limited --------------------------------------------------------------------------------------------- */

struct sim_limit {
	struct sluice_limit limit;
	char name[16], text[64];
	bool windowed; /* it is judged by windows */
	uint64_t bounds[SIM_OWNS]; /* what any window admits at most under each; UINT64_MAX: all */
	struct sluice_limit owns[SIM_OWNS]; /* the first is the policy's */
	char own_texts[SIM_OWNS][SLUICE_LIMIT_TEXT_MAX];
	char wide[SLUICE_LIMIT_TEXT_MAX]; /* the same counter, with room for whatever is charged */
	bool account;   /* nothing of it expires while the world lasts, so that what is charged can be compared */
	bool loose;     /* it is refunded and reset, too: no account */
	uint8_t on_error, key_count;
};

/* One admission: some time between these two, by the clock of the counter's node. */
struct sim_admission {
	sluice_ns from, until;
	sluice_ns at; /* when it was judged, by the world's clock */
	uint32_t cost;
};

struct sim_loss {
	sluice_ns at;
	uint64_t cost;
};

/* What clients know of a counter's own quota (overrides.c). */
struct sim_own {
	uint8_t quota;                 /* which of the limit's it has */
	uint8_t next;                  /* which it gets by the change that is under way */
	uint8_t ever;                  /* bits: those that it may have had since the last look */
	bool busy, known;              /* a change is under way; nothing else can have changed it */
	sluice_ns end_least, end_most; /* by its node's clock */
	sluice_ns changed_at;          /* when its last change was acknowledged */
	sluice_ns doubt_until;         /* a change that nobody heard of may come until then */
	sluice_ns last[SIM_OWNS];      /* when each may have been in force last */
	uint32_t crossed;              /* counts what a change that is under way may be lost by */
	uint32_t seen;                 /* in a list */
	uint64_t before;               /* as `before` of struct sim_counter */
};

struct sim_counter {
	struct sim_limit *limit;
	char key[32], redis_key[64];
	uint16_t slot;
	struct sim_admission *admissions; /* those that a window may have, a ring */
	uint32_t count;
	struct sim_loss losses[64]; /* the newest, a ring */
	uint32_t loss_count;
	uint64_t admitted, unknown, lost;
	sluice_ns expired_at, expired_clock; /* when its key went last, by the world's clock and by its node's */
	sluice_ns set_back_at; /* when its node's clock became one that is behind */
	sluice_ns given_back_at, given_back_from; /* judge_given_back(): when, and from when charges may count then */
	bool sliced;       /* it may have been */
	uint64_t base, base_unknown; /* charged - admitted, and what was unknown, at the last look */
	bool has_base;
	uint64_t before, slices_before; /* charged, and in slices, before a command of a node that is no primary any more */
	struct sim_own own;
};

/* ---- who is there ------------------------------------------------------------------------------------------------ */

struct sim_shard {
	uint8_t primary, members[3], member_count;
	uint64_t epoch;  /* counts primaries */
	uint64_t rounds; /* counts beginnings of what replicas are told: what left before one is told no more */
	struct {
		size_t applied;
		bool planned;
	} replicas[3]; /* as members */
	sluice_ns clock; /* the highest instant that its primaries have had */
	sluice_ns lag;
	bool failing; /* a failover is on its way */
};

struct sim_front {
	struct world *world;
	struct sim_host *host;
	uint32_t number;
	struct sl_fleet *fleet;
	struct sl_fleet_figures *figures;
	struct sluice_store *store;
	uint64_t opened;   /* counts fleets: what is asked of one before is answered by nobody */
	sluice_ns down_until;
	bool closing;
	uint64_t under_way;
};

struct sim_config {
	uint32_t fronts, shards, replicas; /* replicas of a shard; shards 1 and clustered false: single servers */
	bool clustered, slices, names;
	sluice_ns budget_ns, slice_ns;
	uint32_t rate; /* calls a second, of all fronts */
	uint32_t node_timeout_ms;
	uint32_t drift; /* parts in 10^9, at most */
	uint32_t apart_ms;
	uint32_t overrides; /* ms between what is asked of quotas of keys' own; 0: nothing is */
};

struct sim_totals {
	uint64_t calls, decisions, admitted, denied, away, sliced, held, known, commands, messages, lost_units, failovers,
		moves, judged, own_judged, own_listed, own_lost;
	uint64_t own_asked[4]; /* enum sl_override_kind */
	uint64_t faults[SIM_FAULT_KINDS];
	sluice_ns simulated;
};

struct world {
	uint64_t seed;
	struct sim_time time;
	struct sim_net net;
	struct sim_config config;
	struct sim_node nodes[SIM_NODES_MAX];
	uint32_t node_count;
	struct sim_shard shards[SIM_SHARDS_MAX];
	uint8_t shard_of[SIM_SLOTS];
	struct sim_front fronts[SIM_FRONTS_MAX];
	struct sim_limit limits[SIM_LIMITS_MAX];
	uint32_t limit_count;
	struct sim_counter counters[SIM_COUNTERS_MAX];
	uint32_t counter_count;
	struct sim_fault faults[SIM_FAULTS_MAX];
	uint32_t fault_count;
	bool moving;
	struct sim_move {
		uint16_t slot;
		uint8_t from, to;
	} move;
	struct dice own_dice; /* of who changes quotas of keys' own */
	bool traffic;   /* clients ask */
	bool has_leapt; /* some wall clock has */
	sluice_ns outage_until;
	sluice_ns disturbed_at, looked_at; /* the last fault that leaves slices to their ends; the last look */
	sluice_ns stalled_until[SIM_FRONTS_MAX];
	sluice_ns replica_listed_at; /* a node that is no primary was asked for its quotas of keys' own */
	sluice_ns slow_until;
	struct sim_totals totals;
	bool failed;
	char why[SIM_WHY_BYTES];
};

/* Says what has gone wrong; the first is kept. */
__attribute__((format(printf, 2, 3))) void sim_fail(struct world *world, const char *format, ...);

/* world.c: draws a world from its seed; `script` (may be NULL) overrides what it says of the configuration. */
void world_begin(struct world *world, uint64_t seed, const struct sim_config *config);
void world_draw(struct sim_config *config, uint64_t seed);
void world_end(struct world *world);
/* Until an instant, or a failure. */
void world_run(struct world *world, sluice_ns until);

/* shards.c: replication, failovers, slots on the move. */
void shards_begin(struct world *world);
/* Whether a node serves a counter that another is the primary for: all that it charges is lost. */
bool shards_is_stale(const struct world *world, const struct sim_node *node, const struct sim_counter *counter);
struct world *world_of(const struct sim_node *node);
struct sim_shard *shard_of_node(struct world *world, uint32_t node);
struct sim_node *primary_of(struct world *world, uint16_t slot);
void shards_replicate(struct world *world, struct sim_shard *shard);
void shards_suspect(struct world *world, uint32_t node);
void shards_switch(struct world *world, uint32_t shard);
void shards_move(struct world *world, uint16_t slot, uint32_t shard);
void shards_finish_move(struct world *world);
void shards_return(struct world *world, uint32_t node);
/* Nodes hear of each other again. */
void shards_news(struct world *world);

/* faults.c */
void faults_draw(struct world *world, sluice_ns from, sluice_ns until);
void faults_plan(struct world *world);
void faults_print(const struct sim_fault *fault, char line[96]);
bool faults_read(const char *line, struct sim_fault *fault);
/* Whether faults of this kind keep nodes from answering in time. */
bool fault_is_outage(const struct world *world, const struct sim_fault *fault);

/* fronts.c: fleets, and clients that ask them. */
void fronts_begin(struct world *world);
void front_open(struct sim_front *front);
void front_close(struct sim_front *front);
void fronts_end(struct world *world);
void fronts_ask(struct world *world);

/* overrides.c: quotas of keys' own. */
void overrides_begin(struct world *world);
/* Which of the limit's quotas may have been in force at some time since then: bits. */
uint32_t overrides_since(struct world *world, struct sim_counter *counter, sluice_ns since);
/* Whether an answer to what was sent then may tell of such a quota. */
bool overrides_fit(struct world *world, struct sim_counter *counter, sluice_ns sent, uint64_t quota,
                   sluice_operation operation);
/* What may be admitted at most in a window that ends now, and began then: by the world's clock. */
uint64_t overrides_bound(struct world *world, struct sim_counter *counter, sluice_ns begin);
/* The counter has another node now, which had been told all, or not. */
void overrides_promoted(struct world *world, struct sim_counter *counter, bool has_all);
/* The counter's key goes, maybe before its time. */
void overrides_expired(struct world *world, struct sim_node *node, struct sim_counter *counter, bool may_be_early);
/* Of what a node has: the same while it is the same. */
uint64_t overrides_print(struct sim_node *node, const struct sim_counter *counter);
/* Nobody asks, and all is settled: reads all of them at a front, and judges what is told. */
void overrides_list(struct world *world);

/* judge.c */
struct sim_call;
void judge_begin(struct world *world);
void judge_admitted(struct world *world, struct sim_counter *counter, sluice_ns sent, uint32_t cost, sluice_ns floor);
void judge_lost(struct world *world, struct sim_counter *counter, uint64_t cost);
/* What a node has of a counter, as any client finds it at an instant of the counter's clock: how much is used. */
uint64_t judge_used(struct sim_node *node, struct sim_counter *counter, sluice_ns at);
/* What is held of that; in slices, or in all. */
uint64_t judge_held(struct sim_node *node, const struct sim_counter *counter, sluice_ns at, bool in_slices);
/* All faults are over, and calls are decided: nothing is held for one that is over. */
void judge_holds(struct world *world);
/* A counter's node has another clock now, or it has another node. */
void judge_clock_changed(struct world *world, struct sim_node *node, struct sim_counter *counter, sluice_ns before);
/* The same of a counter whose key has gone by the clock before, and is not yet to go by this one. */
void judge_clock_reopened(struct world *world, const struct sim_node *node, struct sim_counter *counter);
/* A node is told to give back what a front has charged. */
void judge_given_back(struct sim_node *node, const struct sluice_bytes *args, uint32_t count);
/* A key goes whose time is over. */
void judge_expiring(struct sim_node *node, struct sim_entry *entry);
/* All faults are over and all is settled: what was charged is what was admitted. */
void judge_accounts(struct world *world);
/* The instant of a counter's node; while its slot moves, of the one of the two whose clock is behind. */
sluice_ns judge_clock(struct world *world, const struct sim_counter *counter, sluice_ns *highest);

#endif
