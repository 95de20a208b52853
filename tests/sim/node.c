/* See node.h: a node's keys and clocks, what it is told and tells, and the commands that are not the module's. */
#include "tests/sim/node.h"

#include "base/assert.h"
#include "hosts/redis/codec.h"
#include "hosts/redis/effect.h"
#include "hosts/redis/request.h"
#include "hosts/server/cluster/nodes.h"
#include "proto/resp.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMMANDS_A_TURN = 8, PORT = 6379 };

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static sluice_ns here(const struct sim_node *node) {
	return sim_clock_read(&node->host->clock, node->net->time->now);
}

sluice_ns sim_node_now(const struct sim_node *node) {
	return node->anchor + here(node);
}

int64_t sim_node_wall_ms(const struct sim_node *node) {
	return (int64_t)((node->epoch + node->wall_ahead + here(node)) / SIM_MS);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static uint32_t bucket_of(struct sluice_bytes key) {
	uint32_t hash = 2166136261u; /* FNV-1a */
	for (size_t i = 0; i < key.len; i++)
		hash = (hash ^ ((const unsigned char *)key.data)[i]) * 16777619u;
	return hash % SIM_BUCKETS;
}

struct sim_entry *sim_node_entry(struct sim_node *node, struct sluice_bytes key, bool make) {
	struct sim_entry **at = &node->buckets[bucket_of(key)];
	for (; *at != NULL; at = &(*at)->next)
		if ((*at)->key_len == key.len && memcmp((*at)->key, key.data, key.len) == 0)
			return *at;
	if (!make)
		return NULL;
	SL_ASSERT(key.len <= SIM_KEY_BYTES);
	*at = calloc(1, sizeof **at);
	SL_ASSERT(*at != NULL);
	(*at)->key_len = (uint16_t)key.len;
	memcpy((*at)->key, key.data, key.len);
	return *at;
}

void sim_node_put(struct sim_node *node, struct sim_entry *entry, slr_value value) {
	if (entry->value != value)
		slr_value_free(entry->value);
	entry->value = value;
	if (value == 0)
		entry->expire_ms = 0;
	node->changes++;
}

static struct sluice_bytes key_of(const struct sim_entry *entry) {
	return sl_slice(entry->key, entry->key_len);
}

bool sim_node_is_over(const struct sim_node *node, const struct sim_entry *entry) {
	return entry->value != 0 && entry->expire_ms != 0 && sim_node_wall_ms(node) >= entry->expire_ms;
}

void sim_node_expire(struct sim_node *node, struct sim_entry *entry) {
	if (!sim_node_leads(node) || !sim_node_is_over(node, entry))
		return;
	if (node->expiring != NULL)
		node->expiring(node, entry);
	sim_node_put(node, entry, 0);
	sim_node_tell(node, SIM_TOLD_GONE, key_of(entry), 0, NULL, 0);
}

void sim_node_empty(struct sim_node *node) {
	for (uint32_t b = 0; b < SIM_BUCKETS; b++)
		while (node->buckets[b] != NULL) {
			struct sim_entry *entry = node->buckets[b];
			node->buckets[b] = entry->next;
			slr_value_free(entry->value);
			free(entry);
		}
	node->changes++;
}

void sim_node_copy(struct sim_node *node, const struct sim_node *from) {
	sim_node_empty(node);
	for (uint32_t b = 0; b < SIM_BUCKETS; b++)
		for (const struct sim_entry *entry = from->buckets[b]; entry != NULL; entry = entry->next) {
			struct sim_entry *own = sim_node_entry(node, key_of(entry), true);
			own->value = entry->value == 0 ? 0 : slr_value_copy(entry->value);
			own->expire_ms = entry->expire_ms;
		}
}

/* ---- replicas ---------------------------------------------------------------------------------------------------- */

void sim_node_tell(struct sim_node *node, int kind, struct sluice_bytes key, int64_t expire_ms, const char *data,
                   size_t len) {
	struct sim_told *told;
	if (node->told_count == node->told_room) {
		node->told_room = node->told_room == 0 ? 256 : 2 * node->told_room;
		node->told = realloc(node->told, node->told_room * sizeof *node->told);
		SL_ASSERT(node->told != NULL);
	}
	told = &node->told[node->told_count++];
	*told = (struct sim_told){.kind = kind, .expire_ms = expire_ms, .key_len = (uint16_t)key.len, .len = len};
	memcpy(told->key, key.data, key.len);
	told->data = malloc(len + 1);
	SL_ASSERT(told->data != NULL);
	if (len != 0)
		memcpy(told->data, data, len);
	node->tells++;
}

void sim_node_forget_told(struct sim_node *node) {
	for (size_t i = 0; i < node->told_count; i++)
		free(node->told[i].data);
	node->told_count = 0;
}

void sim_node_apply(struct sim_node *node, const struct sim_told *told) {
	char expire[24];
	const struct sluice_bytes key = sl_slice(told->key, told->key_len);
	struct sim_entry *entry = sim_node_entry(node, key, true);
	if (told->kind == SIM_TOLD_GONE) {
		sim_node_put(node, entry, 0);
	} else if (told->kind == SIM_TOLD_VALUE) {
		sim_node_put(node, entry, slr_read_value(sl_slice(told->data, told->len)));
		entry->expire_ms = told->expire_ms;
	} else {
		snprintf(expire, sizeof expire, "%lld", (long long)told->expire_ms);
		const struct sluice_bytes args[] = {sl_str("SLUICE.EFFECT"), key, sl_str(expire),
		                                    sl_slice(told->data, told->len)};
		sim_reply_begin();
		SL_ASSERT(sim_module_run(node, args, 4, true));
		SL_ASSERT(*(const char *)sim_reply().data == '+');
	}
}

void sim_node_migrate(struct sim_node *node, struct sim_node *to, struct sluice_bytes key) {
	struct sim_entry *entry = sim_node_entry(node, key, false), *there;
	struct slr_bytes bytes = {.data = NULL};
	if (entry == NULL || entry->value == 0)
		return;
	there = sim_node_entry(to, key, true);
	slr_write_value(&bytes, entry->value); /* as DUMP and RESTORE do */
	sim_node_put(to, there, slr_read_value(sl_slice(bytes.data, bytes.len)));
	SL_ASSERT(there->value != 0);
	if (entry->expire_ms != 0) /* MIGRATE says how long it has to live yet */
		there->expire_ms = sim_node_wall_ms(to) + entry->expire_ms - sim_node_wall_ms(node);
	sim_node_tell(to, SIM_TOLD_VALUE, key, there->expire_ms, (const char *)bytes.data, bytes.len);
	sim_node_tell(node, SIM_TOLD_GONE, key, 0, NULL, 0);
	sim_node_put(node, entry, 0);
	slr_bytes_free(&bytes);
}

/* ---- commands of the server -------------------------------------------------------------------------------------- */

static bool is(struct sluice_bytes word, const char *text) {
	return slr_is_word(word, text);
}

static void address_of(const struct sim_node *node, uint8_t number, char text[32]) {
	sim_host_address(node->all[number].host, text);
}

static void put_node(const struct sim_node *node, uint8_t number) {
	char text[32], id[48];
	address_of(node, number, text);
	*strchr(text, ':') = '\0';
	snprintf(id, sizeof id, "%040u", number);
	sim_reply_line('*', "4");
	sim_reply_bulk(sl_str(text));
	sim_reply_line(':', "%d", PORT);
	sim_reply_bulk(sl_str(id));
	sim_reply_line('*', "0");
}

static uint32_t end_of_range(const struct sim_view *view, uint32_t first) {
	uint32_t last = first;
	while (last + 1 < SIM_SLOTS && view->owner[last + 1] == view->owner[first])
		last++;
	return last;
}

static void reply_slots(const struct sim_node *node) {
	const struct sim_view *view = &node->view;
	uint32_t ranges = 0;
	for (uint32_t slot = 0; slot < SIM_SLOTS; slot = end_of_range(view, slot) + 1)
		ranges += view->owner[slot] != SIM_NOBODY;
	sim_reply_line('*', "%u", ranges);
	for (uint32_t slot = 0, last; slot < SIM_SLOTS; slot = last + 1) {
		const uint8_t owner = view->owner[slot];
		uint32_t replicas = 0;
		last = end_of_range(view, slot);
		if (owner == SIM_NOBODY)
			continue;
		for (uint8_t n = 0; n < node->node_count; n++)
			replicas += view->leader[n] == owner;
		sim_reply_line('*', "%u", 3 + replicas);
		sim_reply_line(':', "%u", slot);
		sim_reply_line(':', "%u", last);
		put_node(node, owner);
		for (uint8_t n = 0; n < node->node_count; n++)
			if (view->leader[n] == owner)
				put_node(node, n);
	}
}

static void reply_role(const struct sim_node *node) {
	const uint8_t leader = node->view.leader[node->number];
	char text[32];
	if (leader == SIM_NOBODY) {
		sim_reply_line('*', "3");
		sim_reply_bulk(sl_str("master"));
		sim_reply_line(':', "%zu", node->told_count);
		sim_reply_line('*', "0");
		return;
	}
	address_of(node, leader, text);
	*strchr(text, ':') = '\0';
	sim_reply_line('*', "5");
	sim_reply_bulk(sl_str("slave"));
	sim_reply_bulk(sl_str(text));
	sim_reply_line(':', "%d", PORT);
	sim_reply_bulk(sl_str("connected"));
	sim_reply_line(':', "0");
}

/* False: it is no command of the server's own. */
static bool run_own(struct sim_node *node, const struct sluice_bytes *args, uint32_t count, bool *asking) {
	if (is(args[0], "PING"))
		sim_reply_line('+', "PONG");
	else if (is(args[0], "CLIENT") || is(args[0], "AUTH"))
		sim_reply_line('+', "OK");
	else if (is(args[0], "ROLE"))
		reply_role(node);
	else if (is(args[0], "CLUSTER") && count == 2 && is(args[1], "SLOTS") && node->clustered)
		reply_slots(node);
	else if (is(args[0], "CLUSTER") || (is(args[0], "ASKING") && !node->clustered))
		sim_reply_line('-', "ERR This instance has cluster support disabled");
	else if (is(args[0], "ASKING"))
		sim_reply_line('+', "OK");
	else
		return false;
	*asking = is(args[0], "ASKING");
	return true;
}

/* ---- where keys belong ------------------------------------------------------------------------------------------- */

/* The row of a command; of a container that of its subcommand. NULL: there is none. */
static const struct slr_command_row *row_of(const struct sluice_bytes *args, uint32_t count) {
	const struct slr_command_row *row = slr_commands;
	struct sluice_bytes name = args[0];
	size_t skip = 0;
	if (is(args[0], slr_override_commands->name)) {
		skip = strlen(slr_override_commands->name) + 1;
		row = slr_override_commands + 1;
		name = count > 1 ? args[1] : sl_slice("", 0);
	}
	while (row->name != NULL && !is(name, row->name + skip))
		row++;
	return row->name == NULL ? NULL : row;
}

/* Where the keys of a command stand. */
static uint32_t places_of(const struct slr_command_row *row, const struct sluice_bytes *args, uint32_t count,
                          uint16_t places[256]) {
	if (count < 2 || row->key_at < 0)
		return 0;
	if (row->arguments == NULL && row->key_at == 0)
		return sl_command_keys(row->operation, args, count, places);
	places[0] = row->key_at == 0 ? 1 : (uint16_t)row->key_at; /* of those that the grammar has not */
	return places[0] < count;
}

static void reply_elsewhere(const struct sim_node *node, const char *word, uint16_t slot, uint8_t to) {
	char text[32];
	address_of(node, to, text);
	sim_reply_line('-', "%s %u %s", word, slot, text);
}

static uint32_t count_there(struct sim_node *node, const struct sluice_bytes *args, const uint16_t *places,
                            uint32_t count) {
	uint32_t there = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct sim_entry *entry = sim_node_entry(node, args[places[i]], false);
		if (entry != NULL)
			sim_node_expire(node, entry);
		there += entry != NULL && entry->value != 0;
	}
	return there;
}

/* Whether the keys of a command are served here; else the reply says where, or why not. */
static bool serves_slot(struct sim_node *node, const struct sluice_bytes *args, const uint16_t *places, uint32_t count,
                        bool asking) {
	const struct sim_view *view = &node->view;
	const uint16_t slot = sl_slot_of(args[places[0]]);
	const uint32_t there = count_there(node, args, places, count);
	bool are_one = true;
	for (uint32_t i = 1; i < count; i++) {
		are_one = are_one && sl_bytes_equal(args[places[i]], args[places[0]]);
		if (sl_slot_of(args[places[i]]) != slot) {
			sim_reply_line('-', "CROSSSLOT Keys in request don't hash to the same slot");
			return false;
		}
	}
	if (view->down) {
		sim_reply_line('-', "CLUSTERDOWN The cluster is down");
	} else if (view->comes[slot] != SIM_NOBODY && asking) {
		if (are_one || there == count)
			return true;
		sim_reply_line('-', "TRYAGAIN Multiple keys request during rehashing of slot");
	} else if (view->owner[slot] == SIM_NOBODY) {
		sim_reply_line('-', "CLUSTERDOWN Hash slot not served");
	} else if (view->owner[slot] != node->number) {
		reply_elsewhere(node, "MOVED", slot, view->owner[slot]);
	} else if (view->goes[slot] == SIM_NOBODY || there == count) {
		return true;
	} else if (there == 0) {
		reply_elsewhere(node, "ASK", slot, view->goes[slot]);
	} else {
		sim_reply_line('-', "TRYAGAIN Multiple keys request during rehashing of slot");
	}
	return false;
}

static bool serves(struct sim_node *node, const struct slr_command_row *row, const struct sluice_bytes *args,
                   uint32_t count, bool asking) {
	uint16_t places[256];
	const uint32_t keys = places_of(row, args, count, places);
	if (keys == 0)
		return true;
	(void)count_there(node, args, places, keys); /* whose time is over goes before the module looks */
	sim_reply_begin();
	if (node->clustered && !serves_slot(node, args, places, keys, asking))
		return false;
	if (sim_node_leads(node) || row->reads)
		return true;
	sim_reply_line('-', "READONLY You can't write against a read only replica.");
	return false;
}

static void run(struct sim_node *node, const struct sluice_bytes *args, uint32_t count, bool *asking) {
	const bool asked = *asking;
	const struct slr_command_row *row = row_of(args, count);
	const bool loading = node->net->time->now < node->loading_until;
	*asking = false;
	sim_reply_begin();
	if (loading && !is(args[0], "CLIENT") && !is(args[0], "AUTH") && !is(args[0], "ROLE")) {
		sim_reply_line('-', "LOADING Redis is loading the dataset in memory");
	} else if (run_own(node, args, count, asking)) {
		/* it has replied */
	} else if (row == NULL) {
		sim_reply_line('-', "ERR unknown command '%.*s', with args beginning with: ", (int)args[0].len,
		               (const char *)args[0].data);
	} else if (serves(node, row, args, count, asked)) {
		if (node->before != NULL && count > 1)
			node->before(node, args[1]);
		if (node->refunding != NULL && is(args[0], "SLUICE.REFUND"))
			node->refunding(node, args, count);
		sim_reply_begin();
		SL_ASSERT(sim_module_run(node, args, count, false));
		node->commands++;
	}
}

struct sluice_bytes sim_node_command(struct sim_node *node, const struct sluice_bytes *args, uint32_t count,
                                     bool asking) {
	run(node, args, count, &asking);
	return sim_reply();
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

struct link {
	struct sim_wire *wire, *next; /* next: after it in the line of those that have commands */
	bool asking, queued;
};

static struct link *link_of(struct sim_node *node, struct sim_wire *wire) {
	if (wire->state == NULL) {
		struct link *link = sim_take(node->net->time, sizeof *link);
		*link = (struct link){.wire = wire};
		wire->state = link;
	}
	return wire->state;
}

static void on_run(void *to, uint64_t tag);

static void plan_run(struct sim_node *node) {
	const sluice_ns now = node->net->time->now, free_at = node->busy_until > now ? node->busy_until : now;
	if (node->runnable == NULL || node->run_planned)
		return;
	node->run_planned = true;
	sim_plan(node->net->time, free_at + node->command_ns, on_run, node, 0);
}

static void queue(struct sim_node *node, struct sim_wire *wire) {
	struct link *link = link_of(node, wire);
	struct sim_wire **end = &node->runnable;
	if (link->queued)
		return;
	while (*end != NULL)
		end = &((struct link *)(*end)->state)->next;
	*end = wire;
	link->next = NULL;
	link->queued = true;
	plan_run(node);
}

/* Runs what one connection has to say, a few commands of it. */
static void serve(struct sim_node *node, struct sim_wire *wire) {
	static struct sl_resp_request request;
	struct link *link = wire->state;
	struct sim_bytes *in = &wire->to_in;
	ptrdiff_t taken = 1;
	int done = 0;
	while (done < COMMANDS_A_TURN && !wire->to_closed && in->at != in->len) {
		taken = sl_resp_parse(&request, in->data + in->at, in->len - in->at);
		SL_ASSERT(taken >= 0);
		if (taken == 0)
			break;
		run(node, request.args, request.count, &link->asking);
		const struct sluice_bytes reply = sim_reply();
		sim_wire_send(wire, reply.data, reply.len);
		if (node->after != NULL && request.count > 1)
			node->after(node, request.args[1]);
		sim_wire_take(in, (size_t)taken);
		done++;
	}
	node->busy_until = node->net->time->now + (sluice_ns)(done == 0 ? 0 : done - 1) * node->command_ns;
	if (taken != 0 && !wire->to_closed && in->at != in->len)
		queue(node, wire);
}

static void on_run(void *to, uint64_t tag) {
	struct sim_node *node = to;
	struct sim_wire *wire = node->runnable;
	if (node->host->paused_until > node->net->time->now) {
		sim_plan(node->net->time, node->host->paused_until, on_run, node, tag);
		return;
	}
	node->run_planned = false;
	if (wire == NULL)
		return;
	struct link *link = wire->state;
	node->runnable = link->next;
	link->queued = false;
	serve(node, wire);
	plan_run(node);
}

static void on_arrived(struct sim_host *host, struct sim_wire *wire) {
	queue(host->owner, wire);
}

static void on_ended(struct sim_host *host, struct sim_wire *wire) {
	struct sim_node *node = host->owner;
	struct sim_wire **at = &node->runnable;
	if (wire->state == NULL || !((struct link *)wire->state)->queued)
		return;
	while (*at != wire)
		at = &((struct link *)(*at)->state)->next;
	*at = ((struct link *)wire->state)->next;
	((struct link *)wire->state)->queued = false;
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

void sim_node_start(struct sim_node *node) {
	node->host->listens = true;
	node->anchor = node->epoch + node->wall_ahead; /* its host's clock then says what the wall clock does */
}

void sim_node_stop(struct sim_node *node) {
	node->host->listens = false;
	sim_host_break(node->host);
}

void sim_node_begin(struct sim_node *node, struct sim_host *host, struct sim_node *all, uint32_t count) {
	host->owner = node;
	host->arrived = on_arrived;
	host->ended = on_ended;
	node->host = host;
	node->net = host->net;
	node->number = (uint8_t)(node - all);
	node->all = all;
	node->node_count = count;
	memset(&node->view, SIM_NOBODY, sizeof node->view);
	node->view.down = false;
	sim_node_start(node);
}
