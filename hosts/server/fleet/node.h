/* The inside of nodes.h: what node.c, answers.c, topology.c, command.c and nodes.c share.
 *
 *   nodes.c     open, close, ask, the timer, one write a turn      node.c      one node: connected, greeted, probed
 *   answers.c   tokens -> answers; what errors mean                topology.c  modes, slots, roles: who is asked
 *   command.c   commands -> bytes                                  errands.h   what is under way, and until when
 *
 *                   link up               greeted
 *   IDLE -> CONNECTING -> GREETING ----------------> UP     a node is asked while it is UP and its circuit is closed
 *     ^         |             |                      |
 *     +---------+-------------+--- failed, lost -----+      IDLE until `due`: 100 ms, 200 ms .. 2 s, jittered */
#ifndef SL_NODE_H
#define SL_NODE_H

#include "hosts/server/fleet/errands.h"
#include "hosts/server/fleet/link.h"

enum {
	SL_NODES_MAX = 1024,
	SL_NODE_NONE = UINT16_MAX,
	SL_NODE_FAILURES_MAX = 5,  /* in a row: the circuit opens */
	SL_NODE_REDIRECTS_MAX = 5, /* at once; further ones after a pause each */
	SL_NODE_ERROR_BYTES = 256, /* of an error's text that are kept */
};

#define SL_MS_NS ((sluice_ns)1000000)
#define SL_NODE_CONNECT_NS (1000 * SL_MS_NS) /* to be connected and greeted; to answer PING */
#define SL_NODE_PULSE_NS (1000 * SL_MS_NS)   /* between PINGs of a node that is well */
#define SL_NODE_PAUSE_NS (5 * SL_MS_NS)      /* before a command is tried again */
#define SL_NODE_INTERVAL_MIN_NS (100 * SL_MS_NS)
#define SL_NODE_INTERVAL_MAX_NS (2000 * SL_MS_NS)

enum sl_node_state { SL_NODE_IDLE, SL_NODE_CONNECTING, SL_NODE_GREETING, SL_NODE_UP };
enum sl_node_role { SL_ROLE_UNKNOWN, SL_ROLE_PRIMARY, SL_ROLE_REPLICA };
enum sl_nodes_mode { SL_MODE_UNKNOWN, SL_MODE_SINGLE, SL_MODE_CLUSTER };

/* What was kept of the reply in hand. */
struct sl_collected {
	uint32_t count;     /* integers */
	bool is_error, odd; /* odd: something that is no integer and no array of them, or too many */
	uint32_t texts;     /* strings seen */
	uint16_t error_len;
	char error[SL_NODE_ERROR_BYTES];
	char first[16];                     /* the first string */
	char second[SL_HOST_BYTES_MAX + 1]; /* the second */
	int64_t numbers[SL_ANSWER_NUMBERS_MAX];
};

struct sl_node {
	struct sl_nodes *nodes;
	struct sl_link *link;
	struct sl_errand *first, *last; /* commands whose replies are to come, in order */
	struct sl_errand *ping;         /* among them, or NULL */
	struct sl_node *next_dirty;
	sluice_ns due;         /* connect, give up, probe: by state */
	sluice_ns interval_ns; /* before the next attempt */
	sluice_ns said_at;
	uint32_t failures, turn;
	sluice_ns late_at;  /* when an answer was last found late */
	sluice_ns heard_at; /* when an ask was last answered within a budget */
	uint16_t index;
	uint8_t state, role, via;           /* enum sl_node_state, sl_node_role, sl_redis_via (never AUTO once UP) */
	bool seed;                          /* named by the settings */
	bool fresh;                         /* has not failed since it became known */
	bool open;                          /* the circuit is: not asked */
	bool dirty;                         /* has output to flush */
	bool has_module, exact;             /* exact: the module knows EXACT */
	bool loads[2];                      /* SCRIPT LOAD of nodes->scripts is under way */
	struct sl_node_place place, leader; /* leader: of a replica; port 0: not known */
	struct sl_reply reply;
	struct sl_collected got;
	char name[SL_PLACE_TEXT_MAX], said[SL_LINK_WHY_BYTES];
};

struct sl_nodes {
	struct sl_link_world world;
	struct sl_errands errands;
	struct sl_fleet_figures *figures;
	void (*say)(const char *line);
	char *user, *password;
	uint8_t via;
	sluice_ns budget_ns;
	struct sl_node_script {
		struct sluice_bytes text; /* empty: there is none */
		char sha[41];
	} scripts[2]; /* for calls without AT, and for those with it */

	struct sl_node *list[SL_NODES_MAX]; /* holes are NULL */
	uint32_t count;                     /* the highest index in use + 1 */
	struct sl_node *dirty;
	struct sl_errand *paused; /* a ring's first, by next and prev */
	uv_timer_t timer;
	uv_prepare_t prepare;
	sluice_ns armed, expected; /* what the timer is set to; when it will come, if we are not late */
	bool stalled;              /* we were: what was due is seen to when sockets have been read */
	uint64_t random;

	uint8_t mode;
	bool had_primary;
	bool doubted;               /* what is known of slots turned out to be wrong */
	bool recounts;              /* figures are to be counted at the end of this turn */
	struct sl_node *primary;    /* SINGLE: who is asked, or NULL */
	struct sl_node *slots_from; /* who has been asked for the slots, or NULL */
	struct sl_slots_reader slots_reader;
	sluice_ns refresh_due, refreshed, refresh_interval_ns;
	uint16_t owner[SL_SLOTS], next_owner[SL_SLOTS];
	uint16_t next_refresh; /* from which index on the next one to ask is looked for */

	sluice_ns said_second;
	uint32_t said, unsaid;
	bool closing;
	uint8_t handles;
	void (*closed)(void *to);
	void *closed_to;
};

/* ---- nodes.c ---- */

/* Sees to it that the timer fires at `due`. */
void sl_nodes_arm(struct sl_nodes *nodes, sluice_ns due);
/* Has a node's output flushed at the end of this turn. */
void sl_nodes_touch(struct sl_node *node);
/* A line for the log, at most ten a second. */
void sl_nodes_say(struct sl_nodes *nodes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Has it counted who is known, up, open, at the end of this turn. */
void sl_nodes_count(struct sl_nodes *nodes);
/* Half to all of an interval, at random. */
sluice_ns sl_nodes_jitter(struct sl_nodes *nodes, sluice_ns interval_ns);
/* Tells a caller; the errand, in no list, is gone. */
void sl_nodes_land(struct sl_nodes *nodes, struct sl_errand *errand, const struct sl_answer *answer);
/* The same with an answer that is its kind only. */
void sl_nodes_land_as(struct sl_nodes *nodes, struct sl_errand *errand, enum sl_answer_kind kind);
/* Sends an errand, in no list, which was not executed: to whom its slot belongs, after a pause, or not at all. */
void sl_nodes_send_again(struct sl_nodes *nodes, struct sl_errand *errand);
/* The same, after a pause. */
void sl_nodes_pause(struct sl_nodes *nodes, struct sl_errand *errand);
/* Tries all that pause, now: something has become better. */
void sl_nodes_hurry(struct sl_nodes *nodes);

/* ---- node.c ---- */

/* The node of a place; made, and being connected, where it was not known. NULL: no memory, or too many. */
struct sl_node *sl_node_at(struct sl_nodes *nodes, const struct sl_node_place *place);
/* Takes it from the list and frees it; it has no errands. */
void sl_node_remove(struct sl_node *node);
/* Is it asked? */
static inline bool sl_node_is_up(const struct sl_node *node) {
	return node->state == SL_NODE_UP && !node->open;
}
/* Puts a command of our own into its line. False: no room. */
bool sl_node_command(struct sl_node *node, enum sl_errand_kind kind, uint32_t count, const struct sluice_bytes *args);
/* Puts an errand's ask into its line. False: no room, nothing changed. */
bool sl_node_send(struct sl_node *node, struct sl_errand *errand, sluice_ns now);
/* Takes the first errand from its line. */
struct sl_errand *sl_node_shift(struct sl_node *node);
/* Its greeting is answered: asks may go. */
void sl_node_greeted(struct sl_node *node);
/* The answer to PING. */
void sl_node_pinged(struct sl_node *node, sluice_ns sent);
/* It has answered an ask in time. */
static inline void sl_node_succeeded(struct sl_node *node) {
	node->failures = 0;
	node->interval_ns = SL_NODE_INTERVAL_MIN_NS;
}
/* It has failed so many asks: opens the circuit where that is too many in a row. */
void sl_node_failed(struct sl_node *node, uint32_t asks, const char *why);
/* Gives its connection up; what was under way is answered. */
void sl_node_down(struct sl_node *node, const char *why);
/* Does what is due at `now`; sets node->due anew. */
void sl_node_tick(struct sl_node *node, sluice_ns now);
/* The events of its link. */
void sl_node_on_up(struct sl_link *link, void *owner);
void sl_node_on_down(struct sl_link *link, void *owner, const char *why);

/* ---- answers.c ---- */

/* Bytes of a node's link: see sl_link_world. */
ptrdiff_t sl_answers_read(struct sl_link *link, void *owner, const char *data, size_t len, size_t *need,
                          const char **why);

/* ---- topology.c ---- */

/* Who is asked for a slot now; NULL where nobody is known. */
struct sl_node *sl_topology_route(const struct sl_nodes *nodes, uint16_t slot);
/* Nobody is up, but some are being connected for the first time: asks may wait a moment. */
bool sl_topology_is_hopeful(const struct sl_nodes *nodes);
/* What a node said of itself, in node->got. */
void sl_topology_on_role(struct sl_node *node);
/* The reply of CLUSTER SLOTS: each token; its end, or that it will not come. */
void sl_topology_on_slot(struct sl_node *node, const struct sl_reply_token *token);
void sl_topology_on_slots(struct sl_node *node);
void sl_topology_no_slots(struct sl_nodes *nodes);
/* A node is up, down, opened, closed, or has said what it is: choose anew. */
void sl_topology_changed(struct sl_nodes *nodes);
/* A slot belongs to another node than we thought. */
void sl_topology_moved(struct sl_nodes *nodes, uint16_t slot, struct sl_node *to);
/* What is known is out of date: find out, not more often than may be. */
void sl_topology_doubt(struct sl_nodes *nodes);
/* Does what is due at `now`. Returns when it wants to be called again. */
sluice_ns sl_topology_tick(struct sl_nodes *nodes, sluice_ns now);

/* ---- command.c ---- */

/* At most how many bytes a command takes. */
size_t sl_command_bytes(uint32_t count, const struct sluice_bytes *args);
/* Writes it; returns its end. */
char *sl_command_write(char *at, uint32_t count, const struct sluice_bytes *args);
/* Those of an ask, by the module or, where `sha` is not NULL, by the script; with EACH for EXACT unless `exact`. */
size_t sl_command_ask_bytes(const struct sl_node_ask *ask);
char *sl_command_write_ask(char *at, const struct sl_node_ask *ask, const char *sha, bool exact);
/* The script for EVALSHA, for calls with AT where they are `dated`, and its SHA-1 in hex. About 100 us. */
struct sl_node_script sl_command_script(bool dated);

#endif
