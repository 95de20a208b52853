/* See net.h. Whatever a host's code is called by is one turn of its loop; what waits for the end of it is called then.
 * */
#include "tests/sim/net.h"

#include "base/assert.h"
#include "base/math.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 6379 };

static const struct sl_loop_operations operations;

void sim_net_begin(struct sim_net *net, struct sim_time *time) {
	*net = (struct sim_net){.time = time, .latency_least = 100 * SIM_US, .latency_most = 500 * SIM_US};
}

struct sim_host *sim_host_add(struct sim_net *net, const struct sim_clock *clock) {
	struct sim_host *host = &net->hosts[net->host_count];
	SL_ASSERT(net->host_count < SIM_HOSTS_MAX);
	*host = (struct sim_host){.net = net, .number = net->host_count++, .clock = *clock};
	return host;
}

struct sl_loop sim_loop(struct sim_host *host) {
	return (struct sl_loop){&operations, host};
}

void sim_host_address(const struct sim_host *host, char text[32]) {
	snprintf(text, 32, "10.0.0.%u:%d", host->number, PORT);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void put(struct sim_bytes *bytes, const void *data, size_t len) {
	if (bytes->at != 0 && bytes->at == bytes->len)
		bytes->at = bytes->len = 0;
	if (bytes->len + len > bytes->room) {
		bytes->room = bytes->len + len > 2 * bytes->room ? bytes->len + len : 2 * bytes->room;
		bytes->data = realloc(bytes->data, bytes->room);
		SL_ASSERT(bytes->data != NULL);
	}
	memcpy(bytes->data + bytes->len, data, len);
	bytes->len += len;
}

void sim_wire_take(struct sim_bytes *bytes, size_t len) {
	bytes->at += len;
}

static void give_back(struct sim_bytes *bytes) {
	free(bytes->data);
	*bytes = (struct sim_bytes){.data = NULL};
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

static sluice_ns latency(struct sim_net *net) {
	struct dice *dice = &net->time->net;
	const sluice_ns usual = sim_between(dice, net->latency_least, net->latency_most);
	if (net->slow_one_in != 0 && dice_one_in(dice, net->slow_one_in))
		return usual * (1 + dice_below(dice, 10));
	return usual;
}

sluice_ns sim_net_arrival(struct sim_net *net) {
	return net->time->now + latency(net);
}

void sim_net_carry(struct sim_net *net, uint32_t from, uint32_t to, sluice_ns at, sim_event *happen, void *of,
                   uint64_t tag) {
	struct sim_parked *parked;
	if (!net->cut[from][to]) {
		sim_plan(net->time, at, happen, of, tag);
		return;
	}
	parked = sim_take(net->time, sizeof *parked);
	*parked = (struct sim_parked){NULL, happen, of, tag, from, to};
	struct sim_parked **end = &net->parked;
	while (*end != NULL)
		end = &(*end)->next;
	*end = parked;
}

/* When the last comes that was sent between two hosts, or `at`, if that is later. */
static sluice_ns latest(const struct sim_host *from, const struct sim_host *to, sluice_ns at) {
	for (const struct sim_wire *wire = from->wires; wire != NULL; wire = wire->next) {
		at = wire->to == to && wire->to_last > at ? wire->to_last : at;
		at = wire->to == to && wire->from_last > at ? wire->from_last : at;
	}
	return at;
}

/* What is sent from now on does not come before what waited. */
static void keep_order(struct sim_host *from, const struct sim_host *to, sluice_ns at) {
	for (struct sim_wire *wire = from->wires; wire != NULL; wire = wire->next)
		if (wire->to == to)
			wire->to_last = wire->from_last = at;
}

void sim_net_cut(struct sim_net *net, uint32_t a, uint32_t b, bool cut) {
	struct sim_host *one = &net->hosts[a], *other = &net->hosts[b];
	net->cut[a][b] = net->cut[b][a] = cut;
	if (cut)
		return;
	/* TCP tries again then; what was sent before the cut, and is late, comes before it */
	sluice_ns at = sim_net_arrival(net) + sim_between(&net->time->net, 0, 200 * SIM_MS);
	at = latest(other, one, latest(one, other, at));
	keep_order(one, other, at);
	keep_order(other, one, at);
	for (struct sim_parked **next = &net->parked; *next != NULL;) {
		struct sim_parked *parked = *next;
		if ((parked->from != a || parked->at != b) && (parked->from != b || parked->at != a)) {
			next = &parked->next;
			continue;
		}
		*next = parked->next;
		sim_plan(net->time, at, parked->happen, parked->to, parked->tag);
	}
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

struct sim_turn_timer {
	struct sl_timer timer;
	struct sim_turn_timer *next; /* of its host's at the end of a turn */
	struct sim_host *host;
	enum sl_timer_kind kind;
	void (*fired)(void *to);
	void (*gone)(void *to);
	void *to;
	uint64_t number; /* counts settings: what was planned for one before is over */
	bool set, ended;
};

void sim_host_turn_end(struct sim_host *host) {
	for (struct sim_turn_timer *timer = host->turn_timers; timer != NULL; timer = timer->next)
		if (timer->set) {
			timer->set = false;
			timer->fired(timer->to);
		}
}

/* True: the host is paused, and the event comes again when it is not. */
static bool is_put_off(struct sim_host *host, sim_event *happen, void *to, uint64_t tag, sluice_ns after) {
	if (host->paused_until <= host->net->time->now)
		return false;
	sim_plan(host->net->time, host->paused_until + after, happen, to, tag);
	return true;
}

void sim_host_pause(struct sim_host *host, sluice_ns until) {
	host->paused_until = sl_max(host->paused_until, until); /* of two that overlap, until the later end */
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

static sluice_ns now(void *world) {
	const struct sim_host *host = world;
	return sim_clock_read(&host->clock, host->net->time->now);
}

static bool fill_random(void *world, void *bytes, size_t len) {
	const struct sim_host *host = world;
	for (size_t i = 0; i < len; i++)
		((unsigned char *)bytes)[i] = (unsigned char)dice_bits(&host->net->time->net);
	return true;
}

static struct sl_timer *timer_new(void *world, enum sl_timer_kind kind, void (*fired)(void *to), void *to) {
	struct sim_host *host = world;
	struct sim_turn_timer *timer = sim_take(host->net->time, sizeof *timer);
	*timer = (struct sim_turn_timer){
		.timer = {&operations}, .host = host, .kind = kind, .fired = fired, .to = to};
	if (kind == SL_TIMER_TURN_END) {
		timer->next = host->turn_timers;
		host->turn_timers = timer;
	}
	return &timer->timer;
}

static void on_timer(void *to, uint64_t number) {
	struct sim_turn_timer *timer = to;
	if (!timer->set || timer->number != number || is_put_off(timer->host, on_timer, to, number, 0))
		return;
	timer->set = false;
	timer->fired(timer->to);
	sim_host_turn_end(timer->host);
}

/* As libuv: whole milliseconds, counted from the one that has begun. So it may be a little early. */
static void timer_set(struct sl_timer *of, uint64_t ms) {
	struct sim_turn_timer *timer = (struct sim_turn_timer *)of;
	const sluice_ns here = now(timer->host), due = here - here % SIM_MS + ms * SIM_MS;
	struct sim_time *time = timer->host->net->time;
	timer->set = true;
	timer->number++;
	if (timer->kind == SL_TIMER_TURN_END)
		return;
	const sluice_ns wait = due > here ? sim_clock_wait(&timer->host->clock, due - here) : 0;
	sim_plan(time, time->now + wait + sim_between(&time->net, 1, 60 * SIM_US), on_timer, timer, timer->number);
}

static void timer_stop(struct sl_timer *of) {
	((struct sim_turn_timer *)of)->set = false;
}

static bool timer_is_set(const struct sl_timer *of) {
	return ((const struct sim_turn_timer *)of)->set;
}

static void on_timer_gone(void *to, uint64_t tag) {
	struct sim_turn_timer *timer = to;
	(void)tag;
	if (timer->gone != NULL)
		timer->gone(timer->to);
}

static void timer_free(struct sl_timer *of, void (*gone)(void *to)) {
	struct sim_turn_timer *timer = (struct sim_turn_timer *)of, **at = &timer->host->turn_timers;
	SL_ASSERT(!timer->ended);
	timer->ended = true;
	timer->set = false;
	timer->gone = gone;
	while (*at != NULL && *at != timer)
		at = &(*at)->next;
	if (*at == timer)
		*at = timer->next;
	sim_plan(timer->host->net->time, timer->host->net->time->now, on_timer_gone, timer, 0);
}

/* ---- connections: the maker's side ------------------------------------------------------------------------------- */

static int events_of(const struct sim_wire *wire) {
	int events = 0;
	if (!wire->connected)
		return wire->error != 0 ? wire->watched & SL_SOCKET_WRITABLE : 0;
	if (wire->from_in.at != wire->from_in.len || wire->ended || wire->error != 0)
		events |= SL_SOCKET_READABLE;
	if (!wire->choked || wire->error != 0)
		events |= SL_SOCKET_WRITABLE;
	return events & wire->watched;
}

static void on_ready(void *to, uint64_t tag) {
	struct sim_wire *wire = to;
	int events;
	if (wire->closed || is_put_off(wire->from, on_ready, to, tag, 1)) {
		return;
	}
	wire->ready_planned = false;
	events = events_of(wire);
	if (events == 0)
		return;
	wire->events.ready(wire->events.to, 0, events);
	sim_host_turn_end(wire->from);
	if (!wire->closed && events_of(wire) != 0 && !wire->ready_planned) { /* it is so still: each turn again */
		wire->ready_planned = true;
		sim_plan(wire->from->net->time, wire->from->net->time->now + SIM_US, on_ready, wire, 0);
	}
}

static void look(struct sim_wire *wire) {
	if (wire->closed || wire->ready_planned || events_of(wire) == 0)
		return;
	wire->ready_planned = true;
	sim_plan(wire->from->net->time, wire->from->net->time->now, on_ready, wire, 0);
}

static bool watch(struct sl_socket *of, int events) {
	struct sim_wire *wire = (struct sim_wire *)of;
	wire->watched = events;
	look(wire);
	return true;
}

static int socket_error(struct sl_socket *of) {
	return ((struct sim_wire *)of)->error;
}

static int descriptor(const struct sl_socket *of) {
	(void)of;
	return -1;
}

/* What has come of connecting, back at its maker. */
static void on_connected(void *to, uint64_t error) {
	struct sim_wire *wire = to;
	if (wire->closed || wire->broken)
		return;
	wire->connected = error == 0;
	wire->error = (int)error;
	look(wire);
}

static void on_knock(void *to, uint64_t tag) {
	struct sim_wire *wire = to;
	struct sim_net *net = wire->from->net;
	(void)tag;
	if (wire->closed || wire->broken)
		return;
	wire->accepted = wire->to->listens;
	wire->from_last = sim_net_arrival(net);
	sim_net_carry(net, wire->to->number, wire->from->number, wire->from_last, on_connected, wire,
	              wire->accepted ? 0 : ECONNREFUSED);
}

static struct sl_socket *socket_connect(void *world, const struct sockaddr *address, socklen_t len,
                                        const struct sl_socket_events *events) {
	struct sim_host *host = world;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
	const uint32_t number = ntohl(v4->sin_addr.s_addr) & 0xff;
	struct sim_wire *wire = sim_take(host->net->time, sizeof *wire);
	SL_ASSERT(len == sizeof *v4 && number < host->net->host_count);
	*wire = (struct sim_wire){.socket = {&operations},
	                          .events = *events,
	                          .next = host->wires,
	                          .from = host,
	                          .to = &host->net->hosts[number],
	                          .watched = SL_SOCKET_WRITABLE};
	host->wires = wire;
	wire->to_last = sim_net_arrival(host->net);
	sim_net_carry(host->net, host->number, number, wire->to_last, on_knock, wire, 0);
	return &wire->socket;
}

/* A piece of what was sent, on its way. */
struct piece {
	struct sim_wire *wire;
	uint64_t epoch;
	bool back, half; /* half: more of the same follows */
	size_t len;
	char data[];
};

static void on_piece(void *to, uint64_t tag) {
	struct piece *piece = to;
	struct sim_wire *wire = piece->wire;
	(void)tag;
	if (piece->epoch == wire->epoch && !wire->broken && piece->back && !wire->closed) {
		put(&wire->from_in, piece->data, piece->len);
		look(wire);
		if (wire->doomed && piece->half)
			sim_wire_break(wire);
	} else if (piece->epoch == wire->epoch && !wire->broken && !piece->back && wire->accepted && !wire->to_closed) {
		put(&wire->to_in, piece->data, piece->len);
		wire->to->arrived(wire->to, wire);
	}
	free(piece);
}

static void send_piece(struct sim_wire *wire, const char *data, size_t len, bool back, bool half) {
	struct sim_net *net = wire->from->net;
	struct piece *piece = malloc(sizeof *piece + len);
	sluice_ns *last = back ? &wire->from_last : &wire->to_last, at = sim_net_arrival(net);
	SL_ASSERT(piece != NULL);
	*piece = (struct piece){wire, wire->epoch, back, half, len};
	memcpy(piece->data, data, len);
	*last = at > *last ? at : *last + 1;
	net->pieces++;
	sim_net_carry(net, back ? wire->to->number : wire->from->number, back ? wire->from->number : wire->to->number,
	              *last, on_piece, piece, 0);
}

static void send_all(struct sim_wire *wire, const char *data, size_t len, bool back) {
	struct sim_net *net = wire->from->net;
	net->messages++;
	while (len > 1 && net->piece_one_in != 0 &&
	       (dice_one_in(&net->time->net, net->piece_one_in) || (back && wire->doomed))) {
		const size_t part = 1 + dice_below(&net->time->net, len - 1);
		send_piece(wire, data, part, back, true);
		data += part;
		len -= part;
	}
	send_piece(wire, data, len, back, false);
}

static void on_unchoked(void *to, uint64_t tag) {
	struct sim_wire *wire = to;
	(void)tag;
	wire->choked = false;
	look(wire);
}

static ssize_t socket_send(struct sl_socket *of, const void *data, size_t len) {
	struct sim_wire *wire = (struct sim_wire *)of;
	struct sim_net *net = wire->from->net;
	if (wire->error != 0 || wire->ended)
		return wire->error != 0 ? -wire->error : -EPIPE;
	if (wire->mute)
		return (ssize_t)len;
	if (wire->choked)
		return -EAGAIN;
	if (len > 1 && net->piece_one_in != 0 && dice_one_in(&net->time->net, 4 * (uint64_t)net->piece_one_in)) {
		len = 1 + dice_below(&net->time->net, len - 1);
		wire->choked = true;
		sim_plan(net->time, sim_net_arrival(net), on_unchoked, wire, 0);
	}
	send_all(wire, data, len, false);
	return (ssize_t)len;
}

static ssize_t socket_receive(struct sl_socket *of, void *into, size_t room) {
	struct sim_wire *wire = (struct sim_wire *)of;
	const size_t there = wire->from_in.len - wire->from_in.at, len = there < room ? there : room;
	if (len == 0)
		return wire->error != 0 ? -wire->error : wire->ended ? 0 : -EAGAIN;
	memcpy(into, wire->from_in.data + wire->from_in.at, len);
	sim_wire_take(&wire->from_in, len);
	return (ssize_t)len;
}

static void on_gone(void *to, uint64_t tag) {
	struct sim_wire *wire = to;
	(void)tag;
	if (wire->events.gone != NULL)
		wire->events.gone(wire->events.to);
}

/* The listener hears of it when all that was sent has come. */
static void on_left(void *to, uint64_t tag) {
	struct sim_wire *wire = to;
	(void)tag;
	if (!wire->accepted || wire->to_closed)
		return;
	wire->to_closed = true;
	wire->to->ended(wire->to, wire);
	give_back(&wire->to_in);
}

static void socket_close(struct sl_socket *of) {
	struct sim_wire *wire = (struct sim_wire *)of;
	struct sim_wire **at = &wire->from->wires;
	struct sim_time *time = wire->from->net->time;
	SL_ASSERT(!wire->closed);
	wire->closed = true;
	while (*at != wire)
		at = &(*at)->next;
	*at = wire->next;
	give_back(&wire->from_in);
	sim_plan(time, time->now, on_gone, wire, 0);
	sim_net_carry(wire->from->net, wire->from->number, wire->to->number,
	              wire->to_last > time->now ? wire->to_last + 1 : sim_net_arrival(wire->from->net), on_left, wire, 0);
}

/* ---- connections: the listener's side, and breaks ---------------------------------------------------------------- */

void sim_wire_send(struct sim_wire *wire, const char *data, size_t len) {
	if (!wire->to_closed && !wire->broken && len != 0)
		send_all(wire, data, len, true);
}

static void on_broken(void *to, uint64_t error) {
	struct sim_wire *wire = to;
	if (wire->closed)
		return;
	wire->ended = error == 0;
	wire->error = (int)error;
	look(wire);
}

void sim_wire_break(struct sim_wire *wire) {
	struct sim_net *net = wire->from->net;
	if (wire->broken || wire->closed)
		return;
	net->resets++;
	wire->broken = true;
	wire->epoch++;
	if (wire->accepted && !wire->to_closed) {
		wire->to_closed = true;
		wire->to->ended(wire->to, wire);
		give_back(&wire->to_in);
	}
	sim_net_carry(net, wire->to->number, wire->from->number, sim_net_arrival(net), on_broken, wire,
	              dice_one_in(&net->time->net, 2) ? ECONNRESET : 0);
}

void sim_host_break(struct sim_host *host) {
	for (uint32_t h = 0; h < host->net->host_count; h++)
		for (struct sim_wire *wire = host->net->hosts[h].wires, *next; wire != NULL; wire = next) {
			next = wire->next;
			if (wire->to == host)
				sim_wire_break(wire);
		}
}

void sim_host_break_from(struct sim_host *from, struct sim_host *to, bool in_reply) {
	for (struct sim_wire *wire = from->wires, *next; wire != NULL; wire = next) {
		next = wire->next;
		wire->doomed = wire->doomed || (wire->to == to && in_reply);
		if (wire->to == to && !in_reply)
			sim_wire_break(wire);
	}
}

void sim_host_die(struct sim_host *host) {
	for (struct sim_wire *wire = host->wires; wire != NULL; wire = wire->next) {
		wire->mute = wire->broken = true;
		wire->epoch++;
		if (!wire->accepted || wire->to_closed)
			continue;
		wire->to_closed = true;
		wire->to->ended(wire->to, wire);
		give_back(&wire->to_in);
	}
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

struct sim_lookup {
	struct sl_lookup lookup;
	struct sim_host *host;
	sl_lookup_found found;
	void *to;
	char name[64];
};

/* "node-7" is 10.0.0.7; nobody else has a name. */
static void on_found(void *to, uint64_t tag) {
	struct sim_lookup *lookup = to;
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	const struct addrinfo found = {.ai_addr = (struct sockaddr *)&v4, .ai_addrlen = sizeof v4};
	const bool known = strncmp(lookup->name, "node-", 5) == 0;
	(void)tag;
	v4.sin_addr.s_addr = htonl(0x0a000000 + (uint32_t)strtoul(lookup->name + 5, NULL, 10));
	lookup->found(lookup->to, known ? NULL : "unknown node or service", known ? &found : NULL);
	sim_host_turn_end(lookup->host);
}

static struct sl_lookup *lookup_new(void *world, const char *host, const char *port, sl_lookup_found found, void *to) {
	struct sim_host *here = world;
	struct sim_lookup *lookup = sim_take(here->net->time, sizeof *lookup);
	(void)port;
	*lookup = (struct sim_lookup){.lookup = {&operations}, .host = here, .found = found, .to = to};
	snprintf(lookup->name, sizeof lookup->name, "%s", host);
	sim_plan(here->net->time, sim_net_arrival(here->net), on_found, lookup, 0);
	return &lookup->lookup;
}

static void lookup_cancel(struct sl_lookup *of) {
	(void)of; /* it is on its way */
}

static const struct sl_loop_operations operations = {
	.now = now,
	.random = fill_random,
	.timer_new = timer_new,
	.timer_set = timer_set,
	.timer_stop = timer_stop,
	.timer_is_set = timer_is_set,
	.timer_free = timer_free,
	.connect = socket_connect,
	.watch = watch,
	.error = socket_error,
	.send = socket_send,
	.receive = socket_receive,
	.descriptor = descriptor,
	.close = socket_close,
	.lookup_new = lookup_new,
	.lookup_cancel = lookup_cancel,
};
