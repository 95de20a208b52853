/* The inside of nodes.h, as the files of this folder share it.
 *
 *   nodes.c     open, close, ask, the timer, one write a turn      node.c       one node: connected, greeted, probed
 *   answers.c   tokens -> answers; what errors mean                topology.c   modes, slots, roles: who is asked
 *   command.c   commands -> bytes                                  link.c       one connection, and its bytes
 *   pending_command.c  what is under way, and until when           slots.c      places, and what CLUSTER SLOTS says
 *   window.c    how much a node has at once, and what waits for it
 *   advice.c    what to do about an error
 *
 *                   link up               greeted
 *   IDLE -> CONNECTING -> GREETING ----------------> UP     a node is asked while it is UP and its circuit is closed
 *     ^         |             |                      |
 *     +---------+-------------+--- failed, lost -----+      IDLE until `due`: 100 ms, 200 ms .. 2 s, jittered */
#ifndef SL_NODES_INSIDE_H
#define SL_NODES_INSIDE_H

#include "hosts/server/cluster/link.h"
#include "hosts/server/cluster/window.h"

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
	struct sl_pending_command *first, *last; /* commands whose replies are to come, in order */
	struct sl_pending_command *ping;         /* among them, or NULL */
	struct sl_pending_command *unhanded;     /* the first of them that the system has not taken yet, or NULL */
	struct sl_window window;
	struct sl_node *next_dirty;
	sluice_ns due;         /* connect, give up, probe: by state */
	sluice_ns interval_ns; /* before the next attempt */
	sluice_ns said_at;
	uint32_t failures, turn;
	sluice_ns late_at;  /* when an answer was last found late */
	uint16_t index;
	uint8_t state, role, via;           /* enum sl_node_state, sl_node_role, sl_node_via (never EITHER once UP) */
	bool seed;                          /* named by the settings */
	bool fresh;                         /* has not failed since it became known */
	bool open;                          /* the circuit is: not asked */
	bool dirty;                         /* has output to flush */
	bool has_module;
	bool has_told;                      /* what its module knows, or that it has none */
	uint8_t grammar;                    /* of the module: what it knows (answers.c) */
	bool loads[2];                      /* SCRIPT LOAD of nodes->scripts is under way */
	struct sl_node_place place, leader; /* leader: of a replica; port 0: not known */
	struct sl_reply reply;
	struct sl_collected got;
	char name[SL_PLACE_TEXT_MAX], said[SL_LINK_WHY_BYTES];
};

struct sl_nodes {
	struct sl_link_world world;
	struct sl_pending_commands commands;
	struct sl_cluster_figures *figures;
	void (*say)(bool trouble, const char *line);
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
	struct sl_pending_command *paused; /* a ring's first, by next and prev */
	struct sl_timer *timer, *turn_end;
	sluice_ns armed, expected; /* what the timer is set to; when it will come, if we are not late */
	sluice_ns looked_at;       /* all that had come by then has been read */
	bool stalled;              /* we were: what was due is seen to when sockets have been read */
	uint64_t random;

	uint8_t mode;
	bool had_primary;
	bool doubted;               /* what is known of slots turned out to be wrong */
	bool guessed, told_guess;   /* no node has told of slots, but of an error; the log has it */
	bool recounts;              /* figures are to be counted at the end of this turn */
	struct sl_node *primary;    /* SINGLE: who is asked, or NULL */
	struct sl_node *slots_from; /* who has been asked for the slots, or NULL */
	struct sl_slots_reader slots_reader;
	sluice_ns refresh_due, refreshed, refresh_interval_ns;
	uint16_t owner[SL_SLOTS], next_owner[SL_SLOTS];
	uint8_t torn[SL_SLOTS / 8]; /* by bit: what sl_nodes_is_torn() tells, until the next CLUSTER SLOTS */
	bool is_torn;               /* one of them is */
	uint16_t next_refresh; /* from which index on the next one to ask is looked for */

	sluice_ns said_second;
	uint32_t said, unsaid;
	bool closing;
	uint8_t handles;
	void (*closed)(void *to);
	void *closed_to;
};

/* Is it asked? */
static inline bool sl_node_is_up(const struct sl_node *node) {
	return node->state == SL_NODE_UP && !node->open;
}

#endif
