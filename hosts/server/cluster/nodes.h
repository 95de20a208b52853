/* The nodes of Redis or Valkey that a front asks: found, connected, asked, and given up in time.
 *
 * Finds out by itself whether it faces a cluster (CLUSTER SLOTS, kept up to date by MOVED, ASK and failures) or a
 * single server with replicas (ROLE; after a failover the one that has become primary), and at each node whether the
 * module is there or scripts have to do (SLUICE.LEASE without arguments, which every user may try; the script is loaded
 * by us, one for calls with AT and one for all others, and again after SCRIPT FLUSH, a restart or a failover). One
 * connection a node and worker; commands of all requests are pipelined on it.
 *
 * A node that fails or is late several times in a row has its circuit opened: it is not asked any more, so no request
 * waits for it, and is probed (PING) after 100 ms, then in growing intervals with jitter up to 2 s, until it answers.
 * Reconnecting follows the same intervals: a node that returns is not met by a storm. */
#ifndef SL_NODES_H
#define SL_NODES_H

#include "hosts/server/loop/loop.h"
#include "hosts/server/tls/tls.h"
#include "hosts/server/watch/cluster_figures.h"

enum {
	SL_ANSWER_NUMBERS_MAX = 144, /* integers of an answer, nested arrays laid flat */
	SL_ASK_KEYS_MAX = 16,
};

/* How a node is asked. */
enum sl_node_via { SL_BY_EITHER, SL_BY_MODULE, SL_BY_SCRIPT };

enum sl_answer_kind {
	SL_ANSWER_NUMBERS, /* an integer, or arrays of integers, in order */
	SL_ANSWER_ERROR,   /* the node refused the command; `error` is its text */
	SL_ANSWER_LATE,    /* the deadline has passed; the node may have done it, or do it yet */
	SL_ANSWER_LOST,    /* the connection broke after it was sent: likewise */
	SL_ANSWER_AWAY,    /* nothing was done: nobody to send it to, or whoever got it refused it until the deadline */
};

struct sl_reply_token;

struct sl_answer {
	enum sl_answer_kind kind;
	uint32_t count;
	const int64_t *numbers;
	struct sluice_bytes error;
	bool ours; /* LATE: it waited for others, or for us; see sl_nodes_is_busy() */
};

/* A CHECK or PEEK with EXACT of one limit that counts in a window or log: a script is told it as bytes (command.c). */
struct sl_ask_one {
	uint8_t kind; /* 'W' sliding-window, 'F' fixed-window, 'L' sliding-log; 0: it is none */
	bool charges; /* CHECK */
	uint32_t cost, quota;
	uint64_t window_ms;
	struct sluice_bytes name; /* of the limit in a policy; len 0: none */
};

enum { SL_ASK_NAME_MAX = 64 };

/* One command: `SLUICE.<verb> keys[0] words...`, or the script's function of that verb with all keys in KEYS. The
 * caller's memory, and what it points to, until `answered` was called (once, on the loop, never from within
 * sl_nodes_ask()). */
struct sl_node_ask {
	const char *verb;                /* "CHECK", a constant */
	const struct sluice_bytes *keys; /* 1..SL_ASK_KEYS_MAX, all of one group (sl_nodes_group()) */
	uint32_t key_count;              /* 0 of a bare one that is about no key: it goes to whom `group` belongs */
	uint16_t group;                  /* of a bare one */
	const struct sluice_bytes *words; /* after the first key; `KEY k` for the others are among them */
	uint32_t word_count;
	uint32_t exact;     /* which of the words is EXACT, from 1; 0: none. A node that does not know it is told EACH */
	uint32_t part;      /* likewise UPTO of ACQUIRE and RESERVE: a node that does not know it decides the whole cost */
	const struct sl_ask_one *one; /* what the words say, where they say no more than that; else NULL */
	bool dated;                   /* AT is among the words */
	bool bare;          /* the words are all that stands after the verb, keys among them */
	bool at_once;       /* about what is decided already: it does not wait for others (window.h) */
	const void *asker;  /* whose it is; NULL: its own. Those that wait take turns by asker */
	/* Takes the tokens of an answer that is more than integers, but for those of an error; then answered() is told of
	 * SL_ANSWER_NUMBERS, whatever they were. NULL: such an answer is an error. */
	void (*told)(struct sl_node_ask *ask, const struct sl_reply_token *token);
	sluice_ns deadline; /* sl_loop_now() */
	void (*answered)(struct sl_node_ask *ask, const struct sl_answer *answer);
	void *owner; /* the caller's */
};

struct sl_nodes;

/* All texts are copied. */
struct sl_nodes_options {
	const char *const *addresses; /* "10.0.0.1:6379", "[::1]:6379", "name:6379", "unix:/path": some of the nodes */
	uint32_t address_count;
	enum sl_node_via via;           /* EITHER: the module where it is there */
	sluice_ns budget_ns;            /* how soon an answer is in time */
	const char *user, *password;    /* NULL: none */
	const struct sl_tls_files *tls; /* NULL: without */
	struct sl_loop loop;
	struct sl_cluster_figures *figures;
	void (*say)(bool trouble, const char *line); /* at most ten lines a second; `trouble`: a warning; may be NULL */
};

/* Begins to connect. False: error->text says why, an address that is none, or a certificate that can't be read. */
SLUICE_MUST_USE bool sl_nodes_open(struct sl_nodes **nodes, const struct sl_nodes_options *options,
                                   struct sluice_error *error);

/* Which keys can go into one command: those of one group. The slot in a cluster; 0 for all keys of a single server. */
uint16_t sl_nodes_group(const struct sl_nodes *nodes, struct sluice_bytes key);

/* Whether keys of this group, a slot that is on its way to another node, go by a command each for the time being: one
 * command for several of them was refused, as some may be here and some there. */
bool sl_nodes_is_torn(const struct sl_nodes *nodes, uint16_t group);

/* Whether it is known by now that it is a cluster, or none: until then groups are those of a cluster. */
bool sl_nodes_knows_slots(const struct sl_nodes *nodes);

/* Sends a command to whom its keys belong; redirections and nodes that are loading are tried again until the
 * deadline. What may have been executed is not sent twice. A node has as much under way as it answers in a part of a
 * budget; more waits for that, until the deadline (window.h). False: nobody to ask (no connection, an open circuit),
 * or too much is under way or waits: 65,536 commands, 16 MiB at the node. Then `answered` will not be called. A node
 * that is being connected for the first time is waited for, until the deadline. About 500 ns, reading the answer
 * included. */
SLUICE_MUST_USE bool sl_nodes_ask(struct sl_nodes *nodes, struct sl_node_ask *ask);

/* A group of the nodes' n-th primary, from 0, in the order of the first groups that they have. False: there are not as
 * many. O(slots). */
bool sl_nodes_primary(const struct sl_nodes *nodes, uint32_t n, uint16_t *group);

/* Whether the group's node could be asked now. */
bool sl_nodes_is_up(const struct sl_nodes *nodes, uint16_t group);

/* Whether the group's node is one that is up without the module: only scripts are asked there. */
bool sl_nodes_has_only_scripts(const struct sl_nodes *nodes, uint16_t group);

/* Whether the group's node is up, and has had nothing for three quarters of a budget that it has not answered: what is
 * late then waits for others, or for us, and the store is not away. */
bool sl_nodes_is_busy(const struct sl_nodes *nodes, uint16_t group);

/* Answers what is under way as LOST (AWAY, what was not sent), closes; `closed` (may be NULL) is called when nothing is
 * left on the loop, at once but for a name that is being resolved. What is asked from within it is refused; after it
 * the nodes are freed. May be called from within `answered`. */
void sl_nodes_close(struct sl_nodes *nodes, void (*closed)(void *to), void *to);

/* The slot of a key in a cluster, 0..16383: CRC16 of its hash tag, or of all of it. */
uint16_t sl_slot_of(struct sluice_bytes key);

#endif
