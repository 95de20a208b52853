/* A node: a Redis with our module, as far as fronts see it. The module is the real one, all of it (hosts/redis but for
 * its clock), over an API of the server that redis_api.c keeps in memory; so what is decided is what is decided there.
 *
 * Around it: a keyspace with expiry by the node's wall clock; one command at a time, each of which takes a while; a
 * queue of what replicas are told, so that a promotion loses what has not come; and those commands of a Redis Cluster,
 * and those errors, that fronts know (PING CLIENT AUTH HELLO ROLE INFO CLUSTER ASKING, MOVED ASK TRYAGAIN CROSSSLOT
 * CLUSTERDOWN READONLY LOADING MASTERDOWN). tests/e2e/test_sim_node.py plays the same calls to a real one. */
#ifndef TESTS_SIM_NODE_H
#define TESTS_SIM_NODE_H

#include "hosts/redis/decide.h"
#include "tests/sim/net.h"

enum { SIM_SLOTS = 16384, SIM_KEY_BYTES = 160, SIM_BUCKETS = 256, SIM_NODES_MAX = 12, SIM_NOBODY = 0xff };

struct sim_entry {
	struct sim_entry *next;
	slr_value value; /* 0: no key */
	int64_t expire_ms;
	uint16_t key_len;
	char key[SIM_KEY_BYTES];
};

/* One thing that replicas are told: what SLUICE.EFFECT says; the whole value that came with a slot; or that the key is
 * gone. */
struct sim_told {
	enum { SIM_TOLD_EFFECT, SIM_TOLD_VALUE, SIM_TOLD_GONE } kind;
	int64_t expire_ms;
	uint16_t key_len;
	char key[SIM_KEY_BYTES];
	size_t len;
	char *data;
};

/* What a node believes of the cluster. */
struct sim_view {
	uint8_t owner[SIM_SLOTS];               /* a node's number, or SIM_NOBODY */
	uint8_t goes[SIM_SLOTS], comes[SIM_SLOTS]; /* MIGRATING to, IMPORTING from; or SIM_NOBODY */
	uint8_t leader[SIM_NODES_MAX];          /* whose replica each node is; SIM_NOBODY: it is a primary */
	bool down;                              /* CLUSTERDOWN */
};

struct sim_node {
	struct sim_host *host;
	uint8_t number;
	bool clustered;
	sluice_ns wall_ahead;   /* of the wall clock, which people set, beside the host's own; modulo 2^64 */
	sluice_ns anchor;       /* what the module's clock is ahead of the host's; taken at its start */
	sluice_ns epoch;        /* Unix time when the world began */
	sluice_ns loading_until, busy_until, command_ns;
	struct sim_entry *buckets[SIM_BUCKETS];
	uint64_t changes;       /* of what it keeps */
	struct sim_view view;
	struct sim_told *told;  /* since it became primary, in order */
	size_t told_count, told_room;
	struct sim_wire *runnable; /* whose turn is next: connections that have commands */
	bool run_planned;
	uint64_t commands, tells;
	bool looked;            /* before() has looked */
	/* Called before each command of a client that is served, and after any; may be NULL. */
	void (*before)(struct sim_node *node, struct sluice_bytes key);
	void (*after)(struct sim_node *node, struct sluice_bytes key);
	/* Before a REFUND; may be NULL. */
	void (*refunding)(struct sim_node *node, const struct sluice_bytes *args, uint32_t count);
	/* Before a key whose time is over goes; may be NULL. */
	void (*expiring)(struct sim_node *node, struct sim_entry *entry);
	struct sim_net *net;
	struct sim_node *all; /* all nodes of its world */
	uint32_t node_count;
};

/* A node of a host, whose process it starts. */
void sim_node_begin(struct sim_node *node, struct sim_host *host, struct sim_node *all, uint32_t count);
/* The process starts again: its module reads the wall clock anew. Its data are what they were: empty it, or not. */
void sim_node_start(struct sim_node *node);
void sim_node_stop(struct sim_node *node);
void sim_node_empty(struct sim_node *node);
/* Takes over all that another has. */
void sim_node_copy(struct sim_node *node, const struct sim_node *from);

sluice_ns sim_node_now(const struct sim_node *node);
int64_t sim_node_wall_ms(const struct sim_node *node);

/* What a client says, and the reply, which is the node's until the next. `asking`: it has said ASKING. */
struct sluice_bytes sim_node_command(struct sim_node *node, const struct sluice_bytes *args, uint32_t count,
                                     bool asking);

/* Applies what a primary has told. */
void sim_node_apply(struct sim_node *node, const struct sim_told *told);
void sim_node_forget_told(struct sim_node *node);

/* Moves a key to another node, as MIGRATE does. */
void sim_node_migrate(struct sim_node *node, struct sim_node *to, struct sluice_bytes key);

struct sim_entry *sim_node_entry(struct sim_node *node, struct sluice_bytes key, bool make);
/* The key's value is another, 0: none; the old one is freed. */
void sim_node_put(struct sim_node *node, struct sim_entry *entry, slr_value value);
/* Whether a key's time is over. */
bool sim_node_is_over(const struct sim_node *node, const struct sim_entry *entry);
/* A primary's key whose time is over goes. Not from within a command of the module. */
void sim_node_expire(struct sim_node *node, struct sim_entry *entry);
void sim_node_tell(struct sim_node *node, int kind, struct sluice_bytes key, int64_t expire_ms, const char *data,
                   size_t len);

static inline bool sim_node_leads(const struct sim_node *node) {
	return node->view.leader[node->number] == SIM_NOBODY;
}

/* ---- redis_api.c ---------------------------------------------------------------------------------------------------
 * */

/* Loads the module; once a process. */
void sim_module_load(void);
/* Runs a command of the module at a node, as from a client, or as from its primary. False: it has no such command. */
bool sim_module_run(struct sim_node *node, const struct sluice_bytes *args, uint32_t count, bool replicated);
/* What it replied; sim_reply_*() write what the node itself does. */
struct sluice_bytes sim_reply(void);
void sim_reply_begin(void);
void sim_reply_line(char type, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_reply_bulk(struct sluice_bytes text);
/* How two values differ, in what the module says of itself when a server compares them (DEBUG DIGEST): 0, not at all.
 * */
uint64_t sim_digest(slr_value value);

#endif
