/* Deciding where something is held.
 *
 * Where H is held, deciding a cost c is deciding c + H: room is never promised twice. What is used of a counter never
 * grows while nothing is charged, and what a lease is charged when it ends is no more than what was held for it. So
 *
 *   retry   the least, over now and the ends e of leases, of max(e, the first instant at which c + what is leased
 *           after e fits), leases charged at their ends. A fit found for one e that lies after the next is still
 *           a fit.
 *   reset   when the last lease has ended and what is charged by then is back
 *
 * Plain holds have no part in these waits: each is charged or dropped long before its end, so none is told as if it
 * were to last. What would fit but for them is denied with SLUICE_BOUND_HOLDS, and a millisecond to wait.
 *
 * Looking ahead charges leases that have not ended: that is done to an image of the counter, which for a log means a
 * copy of its block. Only counters with leases on them pay for it.
 *
 * Reservations that are open are looked at by sl_ledger_step(), which knows when they end. */
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/part.h"

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* Commands are decided one at a time. */
static _Alignas(8) unsigned char scratch[SL_LEDGER_SCRATCH_BYTES];

static void step(struct slr_part *m, sluice_ns now, uint64_t cost, bool charge, struct sluice_decision *decision) {
	m->cell.counter.state = m->state;
	sl_step(m->cell.limit, &m->cell.counter, now, cost, charge, decision);
}

/* The same, charging nothing, with what reservations that are open will give back. */
static void look(struct slr_part *m, sluice_ns now, uint64_t cost, struct sluice_decision *decision) {
	struct sl_ledger open = slr_part_open(m);
	if (open.count == 0) {
		step(m, now, cost, false, decision);
		return;
	}
	m->cell.counter.state = m->state;
	sl_ledger_step(m->cell.limit, &m->cell.counter, &open, now, cost, scratch, decision);
}

/* A cost with what is held; above every capacity, one is as good as another. */
static uint64_t with_held(const struct slr_part *m, uint64_t cost, uint64_t held) {
	return cost == 0 ? 0 : sl_min(cost + held, m->cell.limit->derived[SL_CAPACITY] + 1);
}

/* What a part's counter looks like from the end of one hold to that of the next. */
struct future {
	struct sl_counter counter;
	struct slr_image image;
	struct sluice_limit wide;
	uint64_t held;
	uint32_t next;     /* hold to end */
	uint32_t returned; /* reservations that the image is corrected by */
	sluice_ns end;     /* that the last one had */
};

static void begin_future(struct future *future, const struct slr_part *m) {
	future->counter.state = m->state;
	future->counter.block = m->cell.counter.block;
	future->counter.block_bytes = m->cell.counter.block_bytes;
	future->image = (struct slr_image){&future->counter, NULL};
	future->wide = sl_rule_widened(m->cell.limit);
	future->held = m->leased;
	future->next = m->ended;
	future->returned = m->returned;
	future->end = m->clock;
}

/* Lets the next lease end, and all that end with it. False: there is none. */
static bool advance(const struct slr_part *m, struct future *future) {
	bool any = false;
	for (; future->next < m->holds->count; future->next++) {
		const struct slr_hold *hold = &m->holds->list[future->next];
		if ((int32_t)future->next == m->own || hold->lease == 0)
			continue;
		if (any && hold->end != future->end)
			break;
		any = true;
		future->end = hold->end;
		future->held -= hold->cost;
		future->returned = slr_image_return(m, &future->image, future->returned, hold->end);
		/* a log too long to be charged is found too long by the next charge: here it only looks less used */
		if (!slr_image_charge_lease(&future->wide, &future->image, hold))
			continue;
	}
	return any;
}

/* A wait that begins with the end that the future has reached; saturates just below SLUICE_NEVER. */
static sluice_ns after_end(const struct slr_part *m, const struct future *future, sluice_ns wait_ns) {
	sluice_ns ahead = future->end - m->clock;
	return wait_ns >= SLUICE_NEVER - ahead ? SLUICE_NEVER - 1 : ahead + wait_ns;
}

static void future_step(const struct slr_part *m, const struct future *future, uint64_t cost,
                        struct sluice_decision *decision) {
	struct sl_ledger open = {NULL, m->ledger.count - future->returned};
	struct sl_counter counter = {.state = future->counter.state};
	counter.block = future->counter.block;
	counter.block_bytes = future->counter.block_bytes;
	if (open.count != 0)
		open.list = m->ledger.list + future->returned;
	if (open.count != 0)
		sl_ledger_step(m->cell.limit, &counter, &open, future->end, cost, scratch, decision);
	else
		sl_step(m->cell.limit, &counter, future->end, cost, false, decision);
}

static sluice_ns retry_after(const struct slr_part *m, uint64_t cost, sluice_ns now_retry) {
	struct future future;
	sluice_ns least = now_retry;
	struct sluice_decision then = {.allowed = false};
	begin_future(&future, m);
	while (!then.allowed && advance(m, &future)) {
		future_step(m, &future, with_held(m, cost, future.held), &then);
		if (then.retry_after_ns != SLUICE_NEVER)
			least = sl_min(least, after_end(m, &future, then.retry_after_ns));
	}
	slr_block_give(future.image.own);
	return least;
}

static bool has_live_lease(const struct slr_part *m) {
	for (uint32_t i = m->ended; m->holds != NULL && i < m->holds->count; i++)
		if ((int32_t)i != m->own && m->holds->list[i].lease != 0)
			return true;
	return false;
}

static sluice_ns last_end(const struct slr_part *m) {
	for (uint32_t i = m->holds != NULL ? m->holds->count : 0; i > m->ended; i--)
		if ((int32_t)i - 1 != m->own && m->holds->list[i - 1].lease != 0)
			return m->holds->list[i - 1].end;
	return m->clock;
}

/* The wait until the whole quota is back.
 *  charge  what was charged just now: reset_ns is the wait without holds, after that */
static sluice_ns reset_after(const struct slr_call *call, const struct slr_part *m, uint32_t charge,
                             sluice_ns reset_ns) {
	struct sluice_decision then;
	struct future future;
	if (m->cell.limit->quota == 0)
		return 0; /* there is no quota to be back */
	if (!has_live_lease(m))
		return reset_ns;
	begin_future(&future, m);
	bool found_room = charge == 0 || slr_image_charge(&future.wide, &future.image, call->asked.now, charge);
	(void)found_room; /* planning the charge says where there is none */
	while (advance(m, &future))
		;
	future.end = sl_max(future.end, last_end(m));
	future_step(m, &future, 0, &then);
	slr_block_give(future.image.own);
	return after_end(m, &future, then.reset_after_ns);
}

/* The largest cost that fits now if nothing is held: what sl_step() says, which stops at 2^32 - 1. */
static uint64_t room_of(struct slr_part *m, sluice_ns now, uint64_t remaining) {
	struct sluice_decision whole;
	uint64_t capacity = m->cell.limit->derived[SL_CAPACITY];
	if (remaining < UINT32_MAX || capacity <= UINT32_MAX)
		return remaining;
	look(m, now, capacity, &whole);
	return whole.allowed ? capacity : remaining;
}

/* Why, and for how long, a cost is denied for what is held: by plain holds alone, which is over in a moment, or as
 * if there were none of them. */
static void judge_denial(struct slr_part *m, sluice_ns now, uint64_t cost, struct sluice_decision *decision) {
	struct sluice_decision without;
	if (m->held != m->leased) {
		look(m, now, with_held(m, cost, m->leased), &without);
		if (without.allowed) {
			decision->bound = SLUICE_BOUND_HOLDS;
			decision->retry_after_ns = SL_MS_NS;
			return;
		}
		decision->retry_after_ns = without.retry_after_ns;
	}
	if (m->leased != 0)
		decision->retry_after_ns = retry_after(m, cost, decision->retry_after_ns);
}

static void decide_held(const struct slr_call *call, struct slr_part *m, uint64_t cost, bool charge,
                        struct sluice_decision *decision) {
	bool hold = call->operation == SL_OP_HOLD;
	struct sluice_decision plain;
	uint64_t room;
	look(m, call->asked.now, with_held(m, cost, m->held), decision);
	room = room_of(m, call->asked.now, decision->remaining);
	room = room > m->held ? room - m->held : 0;
	charge = charge && decision->allowed && cost != 0;
	if (!decision->allowed && m->held != 0)
		judge_denial(m, call->asked.now, cost, decision);
	decision->remaining = (uint32_t)sl_min(charge ? room - cost : room, UINT32_MAX);
	if (charge && !hold)
		step(m, call->asked.now, cost, true, &plain);
	else
		look(m, call->asked.now, 0, &plain);
	decision->reset_after_ns = reset_after(call, m, charge && !hold ? (uint32_t)cost : 0, plain.reset_after_ns);
}

void slr_part_judge(const struct slr_call *call, struct slr_part *m, uint64_t cost, bool charge,
                    struct sluice_decision *decision) {
	if (m->cell.counts && (m->held != 0 || (charge && call->operation == SL_OP_HOLD))) {
		decide_held(call, m, cost, charge, decision);
		return;
	}
	if (m->ledger.count == m->returned) {
		step(m, call->asked.now, cost, charge, decision);
		return;
	}
	look(m, call->asked.now, cost, decision);
	if (charge && decision->allowed && cost != 0)
		step(m, call->asked.now, cost, true, decision); /* what is open is looked at again after the charge */
}
