/* The simulated network, and the loops of hosts on it: tests/sim's operations of hosts/server/loop/loop.h.
 *
 * A connection is a pipe each way. What is sent arrives after a while, in order on its own connection and in none
 * across connections, in pieces that are cut anywhere. A path between two hosts may be cut: then what is on its way, or
 * sent meanwhile, waits until it is whole again, as TCP sends again; or a connection may be broken: what was on its way
 * is lost, and both sides are told. A host may be paused: nothing happens on it, and all that has come is there at once
 * when it goes on, timers first. */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "hosts/server/loop/loop.h"
#include "tests/sim/time.h"

enum { SIM_HOSTS_MAX = 24 };

struct sim_net;

struct sim_bytes {
	char *data;
	size_t at, len, room;
};

struct sim_host {
	struct sim_net *net;
	uint32_t number;
	struct sim_clock clock;
	sluice_ns paused_until; /* 0: it is not */
	bool listens;           /* a process is there that takes connections */
	struct sim_wire *wires; /* of this host's connections, those that it has made */
	struct sim_turn_timer *turn_timers;
	bool in_turn;
	/* Of one that listens: bytes have come to a connection; it has ended. */
	void (*arrived)(struct sim_host *host, struct sim_wire *wire);
	void (*ended)(struct sim_host *host, struct sim_wire *wire);
	void *owner;
};

/* A connection, seen from both ends: `from` has made it, and speaks by struct sl_socket; `to` listens. */
struct sim_wire {
	struct sl_socket socket;
	struct sl_socket_events events;
	struct sim_wire *next; /* of its maker's */
	struct sim_host *from, *to;
	struct sim_bytes to_in, from_in; /* what has arrived, and was not read yet */
	sluice_ns to_last, from_last;    /* when what was sent last arrives: what follows is not sooner */
	uint64_t epoch;                  /* counts breaks: what was on its way before one is lost */
	int watched, error;
	bool connected, refused;  /* as its maker knows it */
	bool accepted, to_closed; /* as the listener does */
	bool closed;              /* by its maker */
	bool broken, ended;       /* nothing follows; from_in ends */
	bool choked;              /* no room to send, for a moment */
	bool ready_planned;
	bool doomed; /* it breaks when half a reply has come */
	bool mute; /* its maker is dead: what it says reaches nobody */
	void *state; /* the listener's */
};

struct sim_net {
	struct sim_time *time;
	struct sim_host hosts[SIM_HOSTS_MAX];
	uint32_t host_count;
	sluice_ns latency_least, latency_most; /* one way */
	uint32_t slow_one_in;                  /* a message in so many takes up to ten times as long; 0: none */
	uint32_t piece_one_in;                 /* is cut in two; 0: none */
	bool cut[SIM_HOSTS_MAX][SIM_HOSTS_MAX];
	struct sim_parked {
		struct sim_parked *next;
		sim_event *happen;
		void *to;
		uint64_t tag;
		uint32_t from, at;
	} * parked; /* events that wait for a path */
	uint64_t messages, pieces, resets;
};

void sim_net_begin(struct sim_net *net, struct sim_time *time);
struct sim_host *sim_host_add(struct sim_net *net, const struct sim_clock *clock);

/* The world of a host that makes connections, as its code sees it. */
struct sl_loop sim_loop(struct sim_host *host);
/* Where a host listens. */
void sim_host_address(const struct sim_host *host, char text[32]);

/* Its code runs: what is called at the end of a turn is called after it. For what clients do there. */
void sim_host_turn_end(struct sim_host *host);

/* The listener's side. */
void sim_wire_send(struct sim_wire *wire, const char *data, size_t len);
void sim_wire_take(struct sim_bytes *bytes, size_t len);
/* When something that leaves now arrives. */
sluice_ns sim_net_arrival(struct sim_net *net);

/* Happens when the path is whole: now plus a latency, or when it is mended. */
void sim_net_carry(struct sim_net *net, uint32_t from, uint32_t to, sluice_ns at, sim_event *happen, void *of,
                   uint64_t tag);

/* Faults. */
void sim_net_cut(struct sim_net *net, uint32_t a, uint32_t b, bool cut);
void sim_host_pause(struct sim_host *host, sluice_ns until);
void sim_wire_break(struct sim_wire *wire);
/* All connections of a listener; between two hosts, at once or when half a reply has come; and of who dies: nobody
 * hears of him any more. */
void sim_host_break(struct sim_host *host);
void sim_host_break_from(struct sim_host *from, struct sim_host *to, bool in_reply);
void sim_host_die(struct sim_host *host);

#endif
