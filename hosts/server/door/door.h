/* A door: one protocol on one connection. It turns bytes that arrived into decisions and bytes to send; it knows no
 * socket, and the connection that carries it knows no protocol. So a door is tested without a network. */
#ifndef SL_DOOR_H
#define SL_DOOR_H

#include "algo/traits.h"
#include "base/out.h"
#include "hosts/server/access/access.h"
#include "hosts/server/watch/stats.h"
#include "hosts/server/watch/store_stats.h"
#include "hosts/server/watch/denials.h"
#include "hosts/server/watch/failing.h"
#include "hosts/server/watch/tail.h"
#include "hosts/server/watch/top.h"
#include "policy/address.h"
#include "policy/policy.h"

/* A growing output buffer, owned by the worker and reused by every connection's turn. */
struct sl_buffer {
	char *data;
	size_t len, capacity;
};

/* Makes room for `more` bytes at data + len and returns that place; NULL when the system gives no memory. */
char *sl_buffer_reserve(struct sl_buffer *buffer, size_t more);
/* Appends bytes; false when the system gives no memory. */
bool sl_buffer_append(struct sl_buffer *buffer, const void *data, size_t len);
void sl_buffer_free(struct sl_buffer *buffer);

/* Who is at the other end of the connection being fed. */
struct sl_peer {
	const char *text;          /* "127.0.0.1:51000" or "unix"; NULL where there is none. Behind a PROXY header: the one
	                            * that it names */
	struct sl_address address; /* of an inet socket */
	bool is_unix;              /* a unix socket: no address */
	bool is_trusted; /* one of trusted-proxies, or a unix socket: what it forwards of its client is believed */
	bool is_tls;
};

enum { SL_RELOAD_TEXT_MAX = 2048 };

/* What reading the policy again came to. Free its problems with sluice_problems_free(). */
struct sl_reload {
	bool taken_over;                   /* else the current policy is kept */
	uint32_t limit_count;              /* of the policy that is in force now */
	struct sluice_problems problems;   /* of the file's text, by place: mistakes, or the doubts of one taken over */
	char messages[SL_RELOAD_TEXT_MAX]; /* what has no place in the text, a line each, NUL-ended; "" for nothing */
};

struct sl_fleet_figures; /* hosts/server/watch/fleet_figures.h */
struct sl_pending;       /* pending.h */
struct sl_remote;

/* What there is one of in a server, and its doors may ask for. In tests most of it is NULL: then nothing is counted,
 * everybody may do everything, and what can't be done is refused. */
struct sl_shared {
	struct sl_stats *stats;
	struct sl_store_stats *store_stats; /* NULL: the store's figures are not told */
	struct sl_top *const *tops; /* of all workers */
	uint32_t top_count;
	struct sl_denials *denials; /* NULL: no denial log */
	struct sl_tail *tail;       /* NULL: nobody can follow decisions */
	struct sl_stagger *stagger;
	struct sl_failing *failing; /* NULL: an outage is not told */
	struct sl_access *access;
	const struct sl_figures *figures;
	const struct sl_fleet_figures
		*fleet; /* of all workers, figures->worker_count of them; NULL: a store of this host */
	/* Has the policy's file read again, as SIGHUP does. Any thread; nobody waits in here for a file.
	 *  ask    a ticket; NULL where there is no memory, or very many ask. `waits`: somebody will leave it
	 *  look   whether it is over, and what it came to (to be freed), which it says once: after 10 s at the latest
	 *  leave  lets the ticket go */
	void *(*reload_ask)(void *server, bool waits);
	bool (*reload_look)(void *server, void *ticket, struct sl_reload *outcome);
	void (*reload_leave)(void *server, void *ticket);
	void *server;
};

/* What a door needs to decide. One a worker thread; nothing in it is shared for writing but the store. */
struct sl_door_context {
	struct sluice_store *store;
	const struct sluice_policy *policy; /* never NULL: an empty policy where no file was given */
	const uint32_t *rows;               /* the policy's rows in the stats (sl_stats_enter()); NULL: no stats */
	sluice_ns now;                      /* read once a turn of the loop */
	bool draining;                      /* the server is shutting down: sl_door_unready() */
	bool leaving;                       /* this connection can't stay: an answer, or a door, that can say so does */
	void *match_buffer;                 /* SLUICE_MATCH_BYTES_MAX bytes, scratch of one feed() */
	uint64_t connection_id;             /* of the connection being fed, from 1 */
	uint32_t client;                    /* as which it is counted (client_stats.h): a door that learns the client's
	                                     * name sets another by sl_door_name_client(); 0: it is not counted so */
	struct sl_peer peer;                /* its other end */
	uint32_t forms;                     /* SL_FORM_ bits of the listener that it came by */
	uint32_t listener;                  /* and its number in the policy: sl_settings_listen() */
	uint64_t commands;                  /* requests answered with this context so far */
	struct sl_worker_stats *stats;      /* this worker's page of the stats; NULL: nothing is counted */
	struct sl_top *top;                 /* this worker's top keys; NULL likewise */
	struct sl_tail_source *tail;        /* this worker's decisions for those who follow; NULL likewise */
	struct sl_tail_reader *reader;      /* of the connection being fed: it follows decisions. A door sets it by
	                                     * sl_tail_join(), and ends it by sl_tail_leave() and NULL; NULL: it does not */
	const struct sl_shared *shared;     /* NULL in tests */
	struct sl_remote *remote;           /* where decisions are made instead of the store (pending.h); NULL: in it */
	struct sl_remote *parking;          /* where calls wait that another process holds up; NULL: they are waited for */
	struct sl_remote *reloading;        /* where it is waited for that the policy is read again; NULL: it can't be */
	struct sl_pending *ready;           /* of the connection being fed: what it asked for before, in order */
	uint32_t ready_settled;             /* of its calls, how many have been answered */
	uint32_t ready_taken;               /* and how many after them the door has taken and not answered yet */
	struct sl_pending *pending;         /* what it asks for now, where feed() returned SL_DOOR_WAIT */
	struct sl_pending *put_off;         /* a list: what its requests ask for, each on its own: sl_pending_put_off() */
	void *asker;                        /* the request that `ready` is of, one that was put off; NULL: it is none's */
	struct sl_resp_worker *resp;        /* the doors' own memory, made by their first open(); sl_door_context_free() */
	struct sl_http_worker *http;
	struct sl_spop_worker *spop;
	struct sl_grpc_worker *grpc;
	struct sl_rls_worker *rls;
};

/* Frees what the doors keep in a context between connections; the context itself is the caller's. */
void sl_door_context_free(struct sl_door_context *context);

/* The client of the connection being fed has said its library's name and version: sl_client_stats_name(). */
static inline void sl_door_name_client(struct sl_door_context *context, struct sluice_bytes name,
                                       struct sluice_bytes version) {
	if (context->client != 0)
		context->client = sl_client_stats_name(&context->stats->clients, context->client, name, version);
}

/* The same by a User-Agent. */
static inline void sl_door_name_agent(struct sl_door_context *context, struct sluice_bytes agent) {
	if (context->client != 0)
		context->client = sl_client_stats_agent(&context->stats->clients, context->client, agent);
}

/* What a running server tells about itself. Written by its workers, each in its own line; read by any. */
struct sl_worker_figures {
	_Alignas(64) _Atomic uint64_t commands;                        /* requests answered */
	_Atomic uint64_t opened[SL_TRANSPORTS], closed[SL_TRANSPORTS]; /* connections */
};

enum { SL_WORKERS_MAX = 256 };

struct sl_figures {
	sluice_ns started;
	uint32_t worker_count;
	uint32_t resp_port;           /* 0 where RESP listens on a unix socket only */
	_Atomic uint64_t reloads[2];  /* of the policy: failed, taken over */
	_Atomic uint64_t reloaded_ns; /* instant of the last one taken over, the start included */
	_Atomic bool reload_failed;   /* the last try was one that failed */
	_Atomic bool awaits_nodes;    /* the store is in Redis, and requests are not wanted before a node answers */
	_Atomic uint64_t refused;     /* connections turned away: bounds reached, no descriptor left */
	struct sl_worker_figures workers[SL_WORKERS_MAX];
};

/* The store that has the counters; NULL: they are in Redis. */
static inline struct sluice_store *sl_door_counts(const struct sl_door_context *context) {
	return context->remote == NULL ? context->store : NULL;
}

/* Why requests are not wanted now, for those who ask after the server's health; NULL: they are. Whoever sends some all
 * the same is answered. */
static inline const char *sl_door_unready(const struct sl_door_context *context) {
	const struct sl_figures *figures = context->shared == NULL ? NULL : context->shared->figures;
	if (context->draining)
		return "the server is shutting down: ask another";
	if (figures != NULL && atomic_load_explicit(&figures->awaits_nodes, memory_order_relaxed))
		return "no node of Redis has answered yet: ask another";
	return NULL;
}

enum sl_door_verdict {
	SL_DOOR_OPEN = 0,  /* keep the connection; call again with more bytes */
	SL_DOOR_CLOSE = 1, /* send what is in `out`, then close */
	SL_DOOR_MORE = 2,  /* enough for a turn: send `out`, and call again, when others had their turns, with what is left
	                    * over, without new bytes */
	SL_DOOR_WAIT = 3,  /* decisions are under way (context->pending): when they are ready, call again with what is left
	                    * over, without new bytes, and with them in context->ready */
};

/* What a connection has in hand, whose requests are answered each on its own. */
struct sl_door_standing {
	bool unfinished;   /* the peer has begun something, and has to go on */
	bool unread;       /* the peer takes no answers */
	size_t held_bytes; /* of unfinished requests and of answers */
};

/* Two kinds of doors. Most answer one request after the other: they wait for one as pending.h has it. Others, which
 * have standing(), answer each request on its own, in any order: they consume all that they are fed, never return
 * SL_DOOR_WAIT, and are fed nothing (len 0) when the context has something to tell: that an answer is there
 * (context->asker, context->ready), that the server is draining or the connection has to leave. When it leaves, such a
 * door says so to its peer and closes as soon as nothing is open. */
struct sl_door {
	const char *name; /* "resp", "http", "spop", "grpc" */
	enum sl_transport transport;
	const char *alpn; /* what TLS calls the protocol, its length in the first byte; NULL: it has no name */
	/* Makes the state of a new connection; NULL when there is no memory. */
	void *(*open)(struct sl_door_context *context);
	void (*close)(void *state);
	/* Takes bytes and appends replies to `out`. `*consumed` (0..len) says how many are done with; the rest is given
	 * again, with more after it. A door that needs more than SL_DOOR_INPUT_MAX unconsumed bytes must refuse. */
	enum sl_door_verdict (*feed)(void *state, struct sl_door_context *context, const char *data, size_t len,
	                             size_t *consumed, struct sl_buffer *out);
	/* Writes what a connection between two requests is to another process of this program (SL_DOOR_PACK_MAX bytes at
	 * most) and returns its length; and makes such a state anew, NULL for bytes that are none. */
	size_t (*pack)(const void *state, char *bytes);
	void *(*unpack)(struct sl_door_context *context, const char *bytes, size_t len);
	/* Of doors that answer each request on its own, which have no pack() and unpack(): their connections don't move. */
	struct sl_door_standing (*standing)(const void *state);
	/* Of a connection that follows decisions (context->reader), between its feeds; NULL where none can. stream: appends
	 * one line, JSON without a line end, in the form that the client asked for. may_stream: whether he still may, after
	 * another policy came. end_stream: appends what ends the stream; the connection closes after it. */
	void (*stream)(void *state, struct sl_door_context *context, struct sluice_bytes line, struct sl_buffer *out);
	bool (*may_stream)(void *state, struct sl_door_context *context);
	void (*end_stream)(void *state, struct sl_door_context *context, struct sl_buffer *out);
};

enum {
	SL_DOOR_INPUT_MAX = 256 * 1024,   /* unconsumed input that a connection keeps */
	SL_DOOR_OUTPUT_TURN = 256 * 1024, /* bytes of answers, said or left unsaid, after which feed() should return
	                                   * SL_DOOR_MORE: what says much took time */
	SL_DOOR_PACK_MAX = 1024,
};

extern const struct sl_door sl_door_resp;
extern const struct sl_door sl_door_http;
extern const struct sl_door sl_door_spop;
extern const struct sl_door sl_door_grpc;

#endif
