/* Any bytes as what befalls a server: clients of every door that connect, ask in pipelines, are cut off in the middle
 * and take their answers late; policies that change, time that passes, connections that go to another process,
 * decisions that are made elsewhere. All of hosts/server/net is the product's own, on a loop, sockets and a clock in
 * memory (fuzz/session); so an input repeats, and nothing waits.
 *
 * The first bytes choose one of two questions:
 *
 *   alike  all that happens is over before the next thing does. It is done twice: bytes arrive whole, and answers go
 *          whole; and then both in pieces. RESP, HTTP and SPOP must say the same bytes.
 *   wild   anything may be under way when the next thing happens. At the end all arrives, all is taken and decided,
 *          and then no worker may leave a byte unread, an answer unsent or a client waiting.
 *
 * In both no loop may spin, all must end within the time that a drain has, and all memory must come back.
 *
 * An event is EVENT_BYTES bytes: what happens, to which connection, and with what. */
#include "base/math.h"
#include "fuzz/mutate.h"
#include "fuzz/session/session.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AT_QUESTION, AT_POLICY, AT_PIECE, AT_ROOM, HEAD_BYTES, EVENT_BYTES = 6, EVENTS_MAX = 160 };
enum {
	TURNS_MAX = 20000, /* of a loop on end with something to do: more is one that spins */
	STEP_MS = 100,
	END_STEPS_MAX = 200, /* a drain has 5 s, lingering 1 s, a hand-over 5 s */
};

FUZZ_SHAPE(HEAD_BYTES, EVENT_BYTES, SIZE_MAX);

static const sluice_ns START_NS = UINT64_C(1800000000) * 1000000000;
static const struct sl_door *const doors[] = {&sl_door_resp, &sl_door_http, &sl_door_spop, &sl_door_grpc};

/* One go through the events. */
struct run {
	struct hosts hosts;
	bool wild;
	size_t piece, room; /* of what arrives and of what is taken at a time; SIZE_MAX: all */
	struct client {
		const struct sl_door *door; /* NULL: it has never connected */
		struct wire *wire;
		uint32_t said;
	} clients[SOCKETS_MAX];
	uint32_t client_count;
};

/* ---- getting on -------------------------------------------------------------------------------------------------- */

/* Turns until nothing is to be done at this instant. */
static void turn_until_quiet(struct run *run) {
	for (int turns = 0; hosts_turn(&run->hosts); turns++)
		SL_ASSERT(turns < TURNS_MAX);
}

/* Lets all that is on its way arrive, and all answers be taken, in such pieces. */
static void complete(struct run *run) {
	bool more = true;
	turn_until_quiet(run);
	for (int turns = 0; more; turns++) {
		SL_ASSERT(turns < TURNS_MAX * 10);
		more = false;
		for (uint32_t i = 0; i < run->client_count; i++) {
			struct wire *wire = run->clients[i].wire;
			size_t left = wire->way_len - wire->way_arrived, queued = wire->queued;
			wire_arrive(wire, run->piece);
			wire_take(wire, run->room);
			more = more || left != 0 || queued != 0;
		}
		turn_until_quiet(run);
	}
}

static void pass(struct run *run, sluice_ns ns) {
	wire_now += ns;
	if (run->wild)
		(void)hosts_turn(&run->hosts);
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

static void open_client(struct run *run, const uint8_t *event) {
	int fd;
	struct wire *wire = wire_new(&fd);
	if (wire == NULL)
		return;
	struct client *client = &run->clients[run->client_count++];
	*client = (struct client){.door = doors[event[2] % 4], .wire = wire};
	if (!run->wild && run->piece != SIZE_MAX)
		wire->room = wire->grain = run->room;
	uint8_t from = event[3] % 4 != 0 ? 0 : event[4]; /* most by a unix socket, which is trusted */
	if (hosts_open(&run->hosts, fd, client->door, from) && from % 3 == 1) {
		static const char proxy[] = "PROXY TCP4 198.51.100.4 192.0.2.1 4000 80\r\n";
		wire_say(wire, proxy, sizeof proxy - 1);
	}
}

static void speak(struct client *client, const uint8_t *event, int times) {
	uint8_t bytes[PHRASE_BYTES_MAX];
	const struct phrase phrase = {.choice = event[2], .key = event[3], .number = event[4], .limit = event[5]};
	for (; times > 0; times--) {
		size_t len = say(client->door, &phrase, client->said++, bytes);
		wire_say(client->wire, bytes, len);
	}
}

/* Of a client: what he does. */
static void act(struct run *run, struct client *client, const uint8_t *event) {
	size_t count = (size_t)(event[2] + 1) << event[3] % 9;
	switch (event[0] % 16) {
	case 3:
		speak(client, event, 1 + event[5] % 8);
		return;
	case 4:
		wire_say(client->wire, event + 2, EVENT_BYTES - 2);
		return;
	case 5:
		if (event[2] % 4 == 0 && run->wild)
			client->wire->reset = true;
		client->wire->ended = true;
		return;
	case 6:
		wire_arrive(client->wire, count);
		return;
	case 7:
		wire_take(client->wire, count);
		return;
	case 8:
		client->wire->room = run->wild ? count : client->wire->room;
		client->wire->grain = run->wild ? 1 + event[4] : client->wire->grain;
		return;
	default:
		speak(client, event, 1);
	}
}

/* To the server. */
static void serve(struct run *run, const uint8_t *event) {
	switch (event[2] % 8) {
	case 0:
		if (event[3] % 4 == 0)
			hosts_hand_over(&run->hosts);
		return;
	case 1:
		if (event[3] % 4 == 0)
			sl_worker_redden(hosts_worker(&run->hosts));
		return;
	case 2:
	case 3:
		(void)!hosts_settle(&run->hosts, event[3], event[4] % 4 == 0);
		return;
	default:
		hosts_use_policy(&run->hosts, event[3]);
	}
}

static void happen(struct run *run, const uint8_t *event) {
	uint8_t what = event[0] % 16;
	if (run->client_count == 0 || what == 0)
		open_client(run, event);
	else if (what == 1)
		serve(run, event);
	else if (what == 2)
		pass(run, ((sluice_ns)event[2] + 1) << event[3] % 34);
	else
		act(run, &run->clients[event[1] % run->client_count], event);
	if (!run->wild)
		complete(run);
	else if (event[0] < 192)
		(void)hosts_turn(&run->hosts);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* All that is under way is done: then nobody waits for a server that has nothing to do. */
static void check_nobody_waits(struct run *run) {
	run->piece = run->room = SIZE_MAX;
	for (uint32_t i = 0; i < run->client_count; i++)
		run->clients[i].wire->room = run->clients[i].wire->grain = SIZE_MAX;
	do {
		complete(run);
		for (int ticks = 0; run->hosts.tickets != 0 && ticks < 100; ticks++) { /* policies that are read again */
			wire_now += UINT64_C(2) * 1000000;
			complete(run);
		}
	} while (hosts_settle(&run->hosts, 0, false));
	SL_ASSERT(run->hosts.tickets == 0);
	hosts_check_nobody_waits(&run->hosts);
	for (uint32_t i = 0; i < run->client_count; i++) {
		const struct wire *wire = run->clients[i].wire;
		SL_ASSERT(wire->queued == 0 && (wire->held == 0 || wire->reset || wire->way_at == wire->way_len));
		SL_ASSERT(wire->held == 0 || !wire->ended);
	}
}

static void end(struct run *run) {
	check_nobody_waits(run);
	for (int i = 0; i < WORKERS; i++)
		if (loop_is_alive(&run->hosts.workers[i].loop))
			sl_worker_drain(&run->hosts.workers[i]);
	for (int steps = 0; loop_is_alive(&run->hosts.workers[0].loop) || loop_is_alive(&run->hosts.workers[1].loop);
	     steps++) {
		SL_ASSERT(steps < END_STEPS_MAX);
		complete(run);
		wire_now += UINT64_C(1000000) * STEP_MS;
	}
	hosts_end(&run->hosts);
	loop_forget();
}

/* ---- the two questions ------------------------------------------------------------------------------------------- */

struct heard {
	const struct sl_door *door;
	uint8_t *bytes;
	size_t len;
};

/* Goes through the events; what the clients have heard until then is the caller's to free. */
static void go(const uint8_t *data, size_t size, size_t piece, size_t room, struct heard heard[SOCKETS_MAX]) {
	static struct run run;
	run = (struct run){.wild = data[AT_QUESTION] % 2 != 0, .piece = piece, .room = room};
	wire_now = START_NS;
	hosts_begin(&run.hosts, data[AT_POLICY], run.wild && data[AT_QUESTION] % 4 == 3);
	data += HEAD_BYTES;
	size -= HEAD_BYTES;
	for (int events = 0; size >= EVENT_BYTES && events < EVENTS_MAX; data += EVENT_BYTES, size -= EVENT_BYTES, events++)
		happen(&run, data);
	for (uint32_t i = 0; i < run.client_count && heard != NULL; i++) {
		struct wire *wire = run.clients[i].wire;
		heard[i] = (struct heard){run.clients[i].door, malloc(wire->heard_len), wire->heard_len};
		if (wire->heard_len != 0)
			memcpy(heard[i].bytes, wire->heard, wire->heard_len);
	}
	end(&run);
	wire_forget();
	wire_now = 0;
}

/* For whoever looks into a finding. */
static void tell(const char *how, const struct heard *heard, size_t from) {
	fprintf(stderr, "%s, %s, %zu bytes, of which from %zu on:\n", heard->door->name, how, heard->len, from);
	fwrite(heard->bytes + from, 1, sl_min(heard->len - from, 400), stderr);
	fputs("\n", stderr);
}

static bool are_alike(const struct heard *a, const struct heard *b) {
	size_t same = 0;
	while (same < a->len && same < b->len && a->bytes[same] == b->bytes[same])
		same++;
	if (same == a->len && same == b->len)
		return true;
	same -= sl_min(same, 80);
	tell("whole", a, same);
	tell("in pieces", b, same);
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct heard whole[SOCKETS_MAX] = {{.door = NULL}}, pieces[SOCKETS_MAX] = {{.door = NULL}};
	if (size < HEAD_BYTES + EVENT_BYTES)
		return 0;
	if (data[AT_QUESTION] % 2 != 0) {
		go(data, size, SIZE_MAX, SIZE_MAX, NULL);
		return 0;
	}
	go(data, size, SIZE_MAX, SIZE_MAX, whole);
	go(data, size, 1 + data[AT_PIECE], 1 + (size_t)data[AT_ROOM] * 8, pieces);
	for (int i = 0; i < SOCKETS_MAX; i++) {
		SL_ASSERT(whole[i].door == &sl_door_grpc || are_alike(&whole[i], &pieces[i]));
		free(whole[i].bytes);
		free(pieces[i].bytes);
	}
	return 0;
}
