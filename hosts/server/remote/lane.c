/* See lane.h. Whatever happens to a lane puts it among those to look at; sl_lanes_run() looks at one after the other
 * until none is left, so that nothing here calls itself. */
#include "hosts/server/remote/lane.h"

#include "algo/rule.h"
#include "base/assert.h"
#include "base/math.h"
#include "hosts/server/remote/call_batch.h"
#include "hosts/server/remote/denial_cache.h"
#include "hosts/server/remote/sending.h"

#include <stdlib.h>

enum {
	BUCKETS = 4096,
	LET_GO_DEPTH = 8, /* lanes after lanes that let go with a call that stalls */
	STALL_MS_MAX = 4,
	GRANTED = 7, /* of the numbers that a HOLD with UPTO answers */
	ELSEWHERE = 8,
};

struct sl_lane {
	struct sl_lane *chain, *next_todo;
	uint64_t counter;
	struct sl_seat *first, **last;
	uint32_t seats;
	uint32_t covered;   /* the first so many, that the hold was asked for */
	uint32_t want;      /* their cost */
	uint32_t left;      /* of what was granted */
	uint32_t elsewhere; /* what others held then */
	uint64_t quota;     /* in force at the node, as it answered last for one limit; 0: it has told none */
	bool no_room;       /* the node had no memory for its counter */
	bool asked, open;   /* the HOLD is under way; it was answered */
	bool todo;
	sluice_ns sent;
	struct sl_group *command; /* while asked or open */
};

struct sl_lanes {
	struct sl_fleet *fleet;
	const struct sl_lane_calls *calls;
	struct sl_remote_call *first, *last; /* that wait, by their deadlines */
	struct sl_lane *todo, **todo_last, *spare;
	uint32_t count, cover;
	bool running;
	struct sl_lane *buckets[BUCKETS];
};

struct sl_lanes *sl_lanes_new(struct sl_fleet *fleet, const struct sl_lane_calls *calls) {
	struct sl_lanes *lanes = calloc(1, sizeof *lanes);
	if (lanes == NULL)
		return NULL;
	lanes->fleet = fleet;
	lanes->calls = calls;
	lanes->todo_last = &lanes->todo;
	lanes->cover = SL_LANE_COVER;
	return lanes;
}

void sl_lanes_free(struct sl_lanes *lanes) {
	if (lanes == NULL)
		return;
	SL_ASSERT(lanes->first == NULL && lanes->count == 0);
	while (lanes->spare != NULL) {
		struct sl_lane *lane = lanes->spare;
		lanes->spare = lane->chain;
		free(lane);
	}
	free(lanes);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static uint64_t counter_of(const struct sl_lanes *lanes, const struct sluice_item *item) {
	return sl_item_counter(lanes->fleet->secret, item->limit, item->key);
}

static struct sl_lane *find(const struct sl_lanes *lanes, uint64_t counter) {
	struct sl_lane *lane = lanes->buckets[counter % BUCKETS];
	while (lane != NULL && lane->counter != counter)
		lane = lane->chain;
	return lane;
}

static struct sl_lane *find_or_make(struct sl_lanes *lanes, uint64_t counter) {
	struct sl_lane *lane = find(lanes, counter);
	if (lane != NULL)
		return lane;
	lane = lanes->spare != NULL ? lanes->spare : malloc(sizeof *lane);
	if (lane == NULL)
		return NULL;
	if (lane == lanes->spare)
		lanes->spare = lane->chain;
	*lane = (struct sl_lane){.chain = lanes->buckets[counter % BUCKETS], .counter = counter};
	lane->last = &lane->first;
	lanes->buckets[counter % BUCKETS] = lane;
	lanes->count++;
	return lane;
}

static void look_at(struct sl_lanes *lanes, struct sl_lane *lane) {
	if (lane->todo)
		return;
	lane->todo = true;
	lane->next_todo = NULL;
	*lanes->todo_last = lane;
	lanes->todo_last = &lane->next_todo;
}

/* The node's hold is needed no more: what is left of it goes. */
static void let_go(struct sl_lanes *lanes, struct sl_lane *lane, bool may_hold) {
	struct sl_group *command = lane->command;
	SL_ASSERT(!lane->asked);
	lane->command = NULL;
	lane->open = false;
	lane->covered = 0;
	if (command != NULL && (may_hold || lane->left != 0))
		sl_group_send_off(lanes->fleet, command, SL_OP_CANCEL);
	else
		free(command);
	lane->left = 0;
}

static void reap(struct sl_lanes *lanes, struct sl_lane *lane) {
	struct sl_lane **at = &lanes->buckets[lane->counter % BUCKETS];
	if (lane->first != NULL || lane->asked || lane->todo)
		return;
	if (lane->open)
		let_go(lanes, lane, false);
	while (*at != lane)
		at = &(*at)->chain;
	*at = lane->chain;
	lane->chain = lanes->spare;
	lanes->spare = lane;
	lanes->count--;
}

/* ---- those that wait --------------------------------------------------------------------------------------------- */

static void wait(struct sl_lanes *lanes, struct sl_remote_call *remote) {
	struct sl_remote_call *before = lanes->last;
	while (before != NULL && before->batch->deadline > remote->batch->deadline)
		before = before->prev_waiting;
	remote->prev_waiting = before;
	remote->next_waiting = before == NULL ? lanes->first : before->next_waiting;
	if (remote->next_waiting != NULL)
		remote->next_waiting->prev_waiting = remote;
	else
		lanes->last = remote;
	if (before != NULL)
		before->next_waiting = remote;
	else
		lanes->first = remote;
	remote->seated = true;
}

static void wait_no_more(struct sl_lanes *lanes, struct sl_remote_call *remote) {
	if (!remote->seated)
		return;
	if (remote->prev_waiting != NULL)
		remote->prev_waiting->next_waiting = remote->next_waiting;
	else
		lanes->first = remote->next_waiting;
	if (remote->next_waiting != NULL)
		remote->next_waiting->prev_waiting = remote->prev_waiting;
	else
		lanes->last = remote->prev_waiting;
	remote->seated = false;
}

/* Until when a call may wait here. */
static sluice_ns patience_of(const struct sl_remote_call *remote) {
	sluice_ns budget = remote->batch->fleet->budget_ns;
	return remote->batch->deadline - budget + budget / 8 * 5;
}

/* ---- seats ------------------------------------------------------------------------------------------------------- */

bool sl_lanes_concern(struct sl_lanes *lanes, const struct sl_remote_call *remote) {
	for (uint32_t i = 0; lanes->count != 0 && i < remote->call->call.item_count; i++)
		if (remote->items[i].state == SL_ITEM_TO_ASK &&
		    find(lanes, counter_of(lanes, &remote->call->call.items[i])) != NULL)
			return true;
	return false;
}

/* The seat that the call has in a lane already; NULL: none. */
static struct sl_seat *seat_in(struct sl_remote_call *remote, const struct sl_lane *lane) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (remote->items[i].seat.lane == lane)
			return &remote->items[i].seat;
	return NULL;
}

static struct sl_seat *take_seat(struct sl_lane *lane, struct sl_remote_call *remote, uint32_t i) {
	struct sl_seat *seat = &remote->items[i].seat;
	*seat = (struct sl_seat){.lane = lane, .remote = remote};
	*lane->last = seat;
	lane->last = &seat->next;
	lane->seats++;
	return seat;
}

bool sl_lanes_join(struct sl_lanes *lanes, struct sl_remote_call *remote, bool alone) {
	struct sluice_call *call = &remote->call->call;
	wait(lanes, remote);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sl_lane *lane;
		struct sl_seat *seat;
		if (remote->items[i].state != SL_ITEM_TO_ASK)
			continue;
		lane = find_or_make(lanes, counter_of(lanes, &call->items[i]));
		if (lane == NULL || lane->seats >= SL_LANE_SEATS_MAX) {
			sl_lanes_leave(lanes, remote);
			return false;
		}
		seat = seat_in(remote, lane);
		if (seat == NULL)
			seat = take_seat(lane, remote, i);
		seat->items |= (uint32_t)1 << i;
		if (!alone && call->items[i].observed == 0) {
			seat->wants = true;
			seat->limits += sl_item_tag(lanes->fleet->secret, call->items[i].limit, call->items[i].key);
		}
		look_at(lanes, lane);
	}
	remote->alone = alone;
	sl_fleet_wake(lanes->fleet, patience_of(remote));
	return true;
}

static void give_up_seat(struct sl_lanes *lanes, struct sl_seat *seat) {
	struct sl_lane *lane = seat->lane;
	struct sl_seat **at = &lane->first;
	uint32_t place = 0;
	for (; *at != seat; at = &(*at)->next)
		place++;
	*at = seat->next;
	if (seat->next == NULL)
		lane->last = at;
	lane->seats--;
	seat->lane = NULL;
	if (place < lane->covered && --lane->covered == 0 && lane->open)
		let_go(lanes, lane, false);
	look_at(lanes, lane);
}

void sl_lanes_leave(struct sl_lanes *lanes, struct sl_remote_call *remote) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++)
		if (remote->items[i].seat.lane != NULL)
			give_up_seat(lanes, &remote->items[i].seat);
	wait_no_more(lanes, remote);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static bool is_ready(const struct sl_remote_call *remote) {
	if (remote->stalled_until != 0)
		return false;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		const struct sl_seat *seat = &remote->items[i].seat;
		const struct sl_lane *lane = seat->lane;
		if (lane == NULL)
			continue;
		if (lane->first != seat || lane->asked || seat->wants != lane->open)
			return false;
	}
	return true;
}

/* How long a denial that holds or our own queue have caused may last; what the counter says takes its place. */
static void deny(struct sl_remote_call *remote, const struct sl_seat *seat, enum sluice_bound bound) {
	struct sluice_call *call = &remote->call->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct sluice_decision *d = &call->each[i];
		if ((seat->items >> i & 1) == 0 || call->items[i].observed != 0)
			continue;
		d->allowed = false;
		d->bound = (uint8_t)bound;
		if (seat->lane->no_room)
			remote->no_room |= (uint32_t)1 << i;
		if (seat->lane->quota != 0)
			d->quota = seat->lane->quota;
		d->remaining = seat->lane->left;
		d->retry_after_ns = bound == SLUICE_BOUND_QUEUE ? remote->batch->fleet->budget_ns : SL_MS_NS;
		remote->denies |= (uint32_t)1 << i;
	}
}

/* What an earlier turn has said of it is no more. */
static void begin_anew(struct sl_remote_call *remote) {
	struct sluice_call *call = &remote->call->call;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (remote->items[i].state == SL_ITEM_TO_ASK)
			call->each[i] = sl_plan_full(call->items[i].limit, (uint8_t)i);
	remote->denies = remote->no_room = 0;
}

enum sl_lane_verdict sl_lanes_judge(struct sl_remote_call *remote) {
	const uint64_t cost = remote->call->call.cost;
	bool doubts = false;
	begin_anew(remote);
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		const struct sl_seat *seat = &remote->items[i].seat;
		const struct sl_lane *lane = seat->lane;
		if (lane == NULL || !seat->wants || lane->left >= cost)
			continue;
		if (lane->elsewhere == 0 || cost > (uint64_t)lane->left + lane->elsewhere)
			deny(remote, seat, SLUICE_BOUND_NONE);
		else
			doubts = true;
	}
	if (remote->denies != 0 || !doubts)
		return remote->denies != 0 ? SL_LANE_DENIES : SL_LANE_ADMITS;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		const struct sl_seat *seat = &remote->items[i].seat;
		if (seat->lane != NULL && seat->wants && seat->lane->left < cost)
			deny(remote, seat, SLUICE_BOUND_HOLDS);
	}
	return SL_LANE_DOUBTS;
}

void sl_lanes_spend(struct sl_remote_call *remote) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		struct sl_seat *seat = &remote->items[i].seat;
		if (seat->lane != NULL && seat->wants)
			seat->lane->left -= remote->call->call.cost;
	}
}

/* Lets the lanes go of which a call that can't move is the first, and so on after it. */
static void let_go_behind(struct sl_lanes *lanes, struct sl_remote_call *remote, int depth) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		struct sl_seat *seat = &remote->items[i].seat;
		struct sl_lane *lane = seat->lane;
		if (lane == NULL || lane->first != seat || !lane->open)
			continue;
		let_go(lanes, lane, false);
		for (seat = seat->next; seat != NULL && depth > 0; seat = seat->next)
			let_go_behind(lanes, seat->remote, depth - 1);
	}
}

void sl_lanes_stall(struct sl_lanes *lanes, struct sl_remote_call *remote, sluice_ns now) {
	uint64_t most = remote->tries < 2 ? (uint64_t)1 << remote->tries : STALL_MS_MAX;
	remote->stalled_until = now + SL_MS_NS + sl_fleet_id(lanes->fleet) % (most * SL_MS_NS);
	remote->tries = remote->tries < UINT8_MAX ? (uint8_t)(remote->tries + 1) : remote->tries;
	let_go_behind(lanes, remote, LET_GO_DEPTH);
	sl_fleet_wake(lanes->fleet, remote->stalled_until);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static bool is_same_hold(const struct sl_seat *a, const struct sl_seat *b) {
	const struct sl_pending_call *one = a->remote->call, *other = b->remote->call;
	return b->wants && a->limits == b->limits && one->dated == other->dated &&
	       (!one->dated || one->call.now == other->call.now);
}

/* For how many, and how much: as many as may be, but who was in doubt asks for himself. */
static void choose_cover(const struct sl_lanes *lanes, struct sl_lane *lane) {
	const struct sl_seat *first = lane->first;
	uint32_t most = first->remote->tries != 0 ? 1 : lanes->cover;
	uint64_t want = 0;
	lane->covered = 0;
	for (const struct sl_seat *seat = first; seat != NULL && lane->covered < most; seat = seat->next) {
		if (!is_same_hold(first, seat) || (seat != first && seat->remote->stalled_until != 0) ||
		    want + seat->remote->call->call.cost > UINT32_MAX)
			break;
		want += seat->remote->call->call.cost;
		lane->covered++;
	}
	lane->want = (uint32_t)want;
}

static struct sl_group *command_for(const struct sl_lanes *lanes, const struct sl_seat *seat) {
	const struct sl_pending_call *of = seat->remote->call;
	struct sl_plan_item items[SLUICE_ITEMS_MAX];
	struct sl_group *group;
	uint32_t count = 0;
	for (uint32_t i = 0; i < of->call.item_count; i++)
		if (seat->items >> i & 1 && of->call.items[i].observed == 0)
			items[count++] = sl_remote_plan(seat->remote, i);
	group = sl_group_new(items, count, lanes->fleet->prefix);
	if (group == NULL)
		return NULL;
	group->dated = of->dated;
	group->now = of->call.now;
	group->id = lanes->fleet->hold_id;
	group->number = sl_nodes_group(lanes->fleet->nodes, group->keys[0]);
	return group;
}

/* All lanes that a call waits in. False: none. */
static bool look_again(struct sl_lanes *lanes, struct sl_remote_call *remote) {
	bool any = false;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		if (remote->items[i].seat.lane == NULL)
			continue;
		look_at(lanes, remote->items[i].seat.lane);
		any = true;
	}
	return any;
}

/* Nobody answers for a lane's counter: all that wait in it have to do without. */
static void fail(struct sl_lanes *lanes, struct sl_lane *lane, const struct sl_answer *answer) {
	bool told = false;
	lane->asked = false;
	let_go(lanes, lane, answer->kind == SL_ANSWER_LATE || answer->kind == SL_ANSWER_LOST);
	while (lane->first != NULL) {
		struct sl_seat *seat = lane->first;
		struct sl_remote_call *remote = seat->remote;
		uint32_t items = seat->items;
		give_up_seat(lanes, seat);
		lanes->calls->fail(remote, items, answer, !told);
		told = true;
		if (!look_again(lanes, remote)) { /* it was the last that the call waited in */
			remote->stalled_until = 0;
			lanes->calls->turn(remote);
		}
	}
}

/* The sooner a node answers, the more is asked of it at once. */
static void adapt(struct sl_lanes *lanes, const struct sl_lane *lane) {
	sluice_ns took = sl_loop_now(lanes->fleet->loop) - lane->sent, budget = lanes->fleet->budget_ns;
	if (took < budget / 8 && lane->covered >= lanes->cover / 2 && lanes->cover < SL_LANE_COVER_MAX)
		lanes->cover *= 2;
	else if (took > budget / 4 && lanes->cover > SL_LANE_COVER_MIN)
		lanes->cover /= 2;
}

static void answered(struct sl_node_ask *ask, const struct sl_answer *answer) {
	struct sl_group *group = (struct sl_group *)(void *)((char *)ask - offsetof(struct sl_group, ask));
	struct sl_lane *lane = group->owner;
	struct sl_lanes *lanes = ask->owner;
	lane->asked = false;
	look_at(lanes, lane);
	if (answer->kind == SL_ANSWER_LATE) {
		let_go(lanes, lane, true); /* whoever still has time asks again */
	} else if (!sl_plan_is_answer(SL_OP_HOLD, answer, group->item_count)) {
		bool was_running = lanes->running;
		lanes->running = true;
		fail(lanes, lane, answer);
		lanes->running = was_running;
	} else {
		lane->open = true;
		lane->left = (uint32_t)answer->numbers[GRANTED];
		lane->no_room = answer->numbers[0] >> 1 == SLUICE_BOUND_ROOM;
		if (group->item_count == 1)
			lane->quota = sl_plan_decision(answer->numbers, SL_EACH_NUMBERS, 0).quota;
		lane->elsewhere = lane->left < lane->want ? (uint32_t)answer->numbers[ELSEWHERE] : 0;
		adapt(lanes, lane);
		if (lane->covered == 0 || lane->first->remote->stalled_until != 0)
			let_go(lanes, lane, false);
	}
	sl_lanes_run(lanes);
}

static void ask(struct sl_lanes *lanes, struct sl_lane *lane) {
	static const struct sl_answer away = {.kind = SL_ANSWER_AWAY};
	struct sl_head head;
	choose_cover(lanes, lane);
	lane->command = command_for(lanes, lane->first);
	lane->left = 0;
	if (lane->command == NULL) {
		fail(lanes, lane, &away);
		return;
	}
	lane->sent = sl_loop_now(lanes->fleet->loop);
	lane->command->cost = lane->want;
	lane->command->owner = lane;
	head = sl_group_head(lanes->fleet, lane->command);
	sl_group_say(lane->command, SL_OP_HOLD, &head);
	lane->command->ask.deadline = lane->sent + lanes->fleet->budget_ns;
	lane->command->ask.answered = answered;
	lane->command->ask.owner = lanes;
	lane->asked = true;
	if (sl_fleet_ask(lanes->fleet, lane->command))
		return;
	if (sl_fleet_is_busy(lanes->fleet, lane->command->number)) { /* as many are under way as there is room for */
		lane->asked = false;
		let_go(lanes, lane, false);
	} else
		fail(lanes, lane, &away);
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static void move(struct sl_lanes *lanes, struct sl_lane *lane) {
	while (lane->first != NULL) {
		struct sl_remote_call *remote = lane->first->remote;
		if (is_ready(remote))
			lanes->calls->turn(remote);
		else if (lane->first->wants && !lane->open && !lane->asked && remote->stalled_until == 0)
			ask(lanes, lane);
		if (lane->first == NULL || lane->first->remote == remote)
			break;
	}
	reap(lanes, lane);
}

void sl_lanes_run(struct sl_lanes *lanes) {
	if (lanes->running)
		return;
	lanes->running = true;
	while (lanes->todo != NULL) {
		struct sl_lane *lane = lanes->todo;
		lanes->todo = lane->next_todo;
		if (lanes->todo == NULL)
			lanes->todo_last = &lanes->todo;
		lane->todo = false;
		move(lanes, lane);
	}
	lanes->running = false;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Whether a HOLD for it is under way: then it waits for the node, to the end of its budget. */
static bool is_asked(const struct sl_remote_call *remote) {
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		const struct sl_seat *seat = &remote->items[i].seat, *at;
		uint32_t place = 0;
		if (seat->lane == NULL || !seat->lane->asked)
			continue;
		for (at = seat->lane->first; at != seat; at = at->next)
			place++;
		if (place < seat->lane->covered)
			return true;
	}
	return false;
}

static void wake(struct sl_lanes *lanes, struct sl_remote_call *remote) {
	remote->stalled_until = 0;
	(void)look_again(lanes, remote);
}

/* Whether those nodes that it has asked have owed no answer for long: then it is load that it waits for. */
static bool is_behind_others(const struct sl_lanes *lanes, const struct sl_remote_call *remote) {
	bool busy = true;
	for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
		const struct sl_lane *lane = remote->items[i].seat.lane;
		if (lane != NULL && lane->asked)
			busy = busy && sl_fleet_is_busy(lanes->fleet, lane->command->number);
	}
	return busy;
}

/* A call that has waited long enough: of the holds that it was in doubt for, or in our own queue. */
static void deny_waiting(struct sl_remote_call *remote) {
	if (!sl_remote_can_be_denied(remote) || (remote->tries != 0 && remote->denies != 0))
		return; /* it asks out of turn; or it is denied as it was judged last */
	for (int all = 0; all < 2 && remote->denies == 0; all++)
		for (uint32_t i = 0; i < remote->call->call.item_count; i++) {
			const struct sl_seat *seat = &remote->items[i].seat;
			if (seat->lane != NULL && (all || seat->lane->first != seat || seat->wants != seat->lane->open))
				deny(remote, seat, SLUICE_BOUND_QUEUE);
		}
}

sluice_ns sl_lanes_tick(struct sl_lanes *lanes, sluice_ns now) {
	sluice_ns due = SLUICE_NEVER;
	lanes->running = true;
	for (struct sl_remote_call *remote = lanes->first, *next; remote != NULL; remote = next) {
		bool asked = now >= patience_of(remote) && is_asked(remote);
		sluice_ns end = asked ? remote->batch->deadline : patience_of(remote);
		next = remote->next_waiting;
		if (now >= end && asked && !remote->spared) { /* the answer may lie there: what is to be read is read first */
			remote->spared = true;
			end = now + SL_MS_NS;
		}
		if (now >= end) {
			asked = asked && !is_behind_others(lanes, remote);
			if (!asked)
				deny_waiting(remote);
			sl_lanes_leave(lanes, remote);
			lanes->calls->expire(remote, asked);
			continue;
		}
		if (remote->stalled_until != 0 && now >= remote->stalled_until)
			wake(lanes, remote);
		due = sl_min(due, remote->stalled_until != 0 ? sl_min(end, remote->stalled_until) : end);
	}
	lanes->running = false;
	sl_lanes_run(lanes);
	return due;
}

void sl_lanes_abandon(struct sl_lanes *lanes) {
	for (struct sl_remote_call *remote = lanes->first; remote != NULL; remote = remote->next_waiting)
		wake(lanes, remote);
	sl_lanes_run(lanes);
}
