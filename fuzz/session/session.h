/* What the fuzzer of sessions has in place of a system: a loop, sockets, a clock and chance, all in memory.
 *
 *   fuzz/session.c   what happens, from the input's bytes; what must hold    loop.c  libuv, as far as a worker uses it
 *   say.c            what clients say                                        wire.c  sockets, clock, chance
 *   hosts.c          two workers of one server, and what decides elsewhere
 *
 * Above them is the product's own code from a worker's loop up: hosts/server/net, the doors, the store. */
#ifndef SL_FUZZ_SESSION_H
#define SL_FUZZ_SESSION_H

#include "base/assert.h"
#include "hosts/server/lifecycle/parts.h"
#include "hosts/server/net/worker.h"

/* ---- loop.c ------------------------------------------------------------------------------------------------------ */

/* One turn of a loop, which waits for nothing. False: there was nothing to do. */
bool loop_turn(uv_loop_t *loop);
/* Are there handles that are not closed? */
bool loop_is_alive(const uv_loop_t *loop);
/* Forgets all loops; none may be alive. */
void loop_forget(void);

/* ---- wire.c ------------------------------------------------------------------------------------------------------ */

enum { SOCKETS_MAX = 12 };

/* A connection, from the client's side. */
struct wire {
	bool open;         /* the client has it */
	int held;          /* by how many descriptors of the server; 0: closed there */
	bool ended, reset; /* by the client */
	bool finished;     /* by the server: nothing comes any more */
	uint8_t *way;      /* on its way to the server: way_len bytes, of which way_arrived can be read, and way_at were */
	size_t way_len, way_arrived, way_at;
	size_t queued;     /* answers that the server's kernel holds */
	size_t room;       /* and how many it takes */
	size_t grain;      /* bytes that one call moves at most */
	uint8_t *heard;    /* answers that the client took, and those that are queued behind them */
	size_t heard_len, heard_capacity;
};

/* The first that was never open; NULL: there is none. Its descriptor goes to a worker. */
struct wire *wire_new(int *fd);
struct wire *wire_at(uint32_t index);
/* One more descriptor of the server holds it. */
void wire_hold(int fd);
bool wire_is_readable(int fd);
bool wire_is_writable(int fd);
/* The client says something; it is on its way. */
void wire_say(struct wire *wire, const void *data, size_t len);
/* So many bytes arrive; so many of the answers are taken. */
void wire_arrive(struct wire *wire, size_t len);
void wire_take(struct wire *wire, size_t len);
void wire_forget(void);

/* The one clock there is, in ns since 1970. */
extern sluice_ns wire_now;

/* ---- say.c ------------------------------------------------------------------------------------------------------- */

/* What one client says next: `choice` says what, of its door's words, and the others with what. */
struct phrase {
	uint8_t choice, key, number, limit;
};
/* Writes it; returns its length, at most PHRASE_BYTES_MAX.
 *  stream  counts what this connection has said before */
enum { PHRASE_BYTES_MAX = 2048 };
size_t say(const struct sl_door *door, const struct phrase *phrase, uint32_t stream, uint8_t bytes[PHRASE_BYTES_MAX]);

/* ---- hosts.c ----------------------------------------------------------------------------------------------------- */

enum { WORKERS = 2, POLICIES = 4 };

struct hosts {
	struct sluice_store *store;
	struct sl_parts parts;
	struct sl_worker workers[WORKERS]; /* the second is another process, as far as the first can tell */
	bool has_left;                     /* the first has handed its connections over; the second is served by */
	bool is_elsewhere;                 /* decisions are made elsewhere, by hosts_settle() */
	_Atomic uint64_t next_id;
	uint32_t tickets, looks; /* of policies to be read again, and how often somebody has looked */
};

void hosts_begin(struct hosts *hosts, uint32_t policy, bool is_elsewhere);
/* Ends workers, which must end by themselves, and frees all. */
void hosts_end(struct hosts *hosts);
/* Whoever serves new connections. */
struct sl_worker *hosts_worker(struct hosts *hosts);
/* A client connects. False: it is turned away.
 *  from  whence: an address, a unix socket, a proxy's, with a PROXY header to come */
bool hosts_open(struct hosts *hosts, int fd, const struct sl_door *door, uint8_t from);
/* Another policy. */
void hosts_use_policy(struct hosts *hosts, uint32_t policy);
/* The first worker gives its connections to the second. */
void hosts_hand_over(struct hosts *hosts);
/* One call that was sent elsewhere is answered: decided, or not (`away`). False: there is none. */
bool hosts_settle(struct hosts *hosts, uint8_t which, bool away);
/* All answers are sent and all decisions are there: then no connection waits for any, or has more to say. */
void hosts_check_nobody_waits(const struct hosts *hosts);
/* A turn of all loops. False: nothing was to be done. */
bool hosts_turn(struct hosts *hosts);

#endif
