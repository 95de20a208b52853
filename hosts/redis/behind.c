/* Deciding behind holds.
 *
 * Where H is held, deciding a cost c is deciding c + H: room is never promised twice. What is used of a counter never
 * grows while nothing is charged, and what a lease is charged when it ends is no more than what was held for it. So
 *
 *   retry   the least, over now and the ends e of leases, of max(e, the first instant at which c + what is leased
 *           behind e fits), leases charged at their ends. A fit found for one e that lies behind the next is still
 *           a fit.
 *   reset   when the last lease has ended and what is charged by then is back
 *
 * Plain holds have no part in these waits: each is charged or dropped long before its end, so none is told as if it
 * were to last. What would fit but for them is denied with SLUICE_BOUND_HOLDS, and a millisecond to wait.
 *
 * Looking ahead charges leases that have not ended: that is done to an image of the counter, which for a log means a
 * copy of its block. Only counters with leases on them pay for it.
 *
 * Reservations (algo/ledger.h) are charges that go back when they end. Those that have ended are returned in the image
 * as it is loaded; those that are open are looked at by sl_ledger_step(), which knows when they end. Where a counter
 * has
 * both leases and reservations, all that ends does so in its order. */
#include "base/math.h"
#include "hosts/redis/memory.h"
#include "hosts/redis/member.h"

/* ---- images ------------------------------------------------------------------------------------------------------ */

static void own_block(struct slr_image *image) {
	struct sl_counter *counter = &image->counter;
	if (counter->block == NULL || image->own != NULL)
		return;
	image->own = slr_block_take(counter->block_bytes);
	memcpy(image->own, counter->block, counter->block_bytes);
	counter->block = image->own;
}

/* At the rate of `wide`, from there on. */
static bool charge_image(const struct sluice_limit *wide, struct slr_image *image, sluice_ns instant, uint32_t cost) {
	void *fresh;
	own_block(image);
	if (!slr_force(wide, &image->counter, instant, cost, &fresh))
		return false;
	if (fresh != NULL) {
		slr_block_give(image->own);
		image->own = fresh;
	}
	return true;
}

/* What a lease that has ended is charged says nothing of who asks now: a bucket goes on at the rate that it had. */
static bool charge_lease(const struct sluice_limit *wide, struct slr_image *image, const struct slr_hold *hold) {
	struct sluice_limit as_before = *wide;
	if (sl_rule_rate_may_change(wide) && image->counter.state.rate != 0)
		as_before.quota = image->counter.state.rate;
	return charge_image(&as_before, image, hold->end, hold->cost);
}

static bool correct_image(const struct sluice_limit *limit, struct slr_image *image, const struct sl_correction *list,
                          uint32_t count) {
	void *fresh;
	if (!slr_correct(limit, &image->counter, list, count, &fresh))
		return false;
	if (fresh != NULL) {
		slr_block_give(image->own);
		image->own = fresh;
	}
	return true;
}

struct sl_correction *slr_member_returns(const struct slr_member *m, uint32_t from, uint32_t until, uint32_t *count) {
	uint32_t room = sl_bundle_returns(m->limit, &m->ledger, &m->contents, from, until, NULL);
	struct sl_correction *list = slr_take((room + 1) * sizeof *list);
	*count = sl_bundle_returns(m->limit, &m->ledger, &m->contents, from, until, list);
	return list;
}

/* Returns the reservations from index `from` on that have ended at an instant. Returns how many have in all. */
static uint32_t return_image(const struct slr_member *m, struct slr_image *image, uint32_t from, sluice_ns instant) {
	uint32_t ended = sl_ledger_ended(&m->ledger, instant), count;
	struct sl_correction *list;
	if (ended <= from)
		return from;
	list = slr_member_returns(m, from, ended, &count);
	if (!correct_image(m->limit, image, list, count))
		ended = from; /* a damaged log; they stay charged */
	slr_give(list);
	return ended;
}

bool slr_member_correct(struct slr_member *m, const struct sl_correction *list, uint32_t count) {
	m->image.counter.state = m->state;
	if (!correct_image(m->limit, &m->image, list, count))
		return false;
	m->state = m->image.counter.state;
	return true;
}

static struct slr_image image_of(const struct slr_member *m) {
	struct slr_image image = {.own = NULL};
	image.counter.state = m->state;
	image.counter.block = m->image.counter.block;
	image.counter.block_bytes = m->image.counter.block_bytes;
	return image;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* The instant at which a counter decides what is asked at `now` (contract 4.6): the algorithms raise it so. */
static sluice_ns clock_of(const struct sluice_limit *limit, const struct sl_state *state, sluice_ns now) {
	uint64_t tick = 1, last = state->w[0];
	unsigned bits = 0;
	if (sl_state_is_none(state))
		return now;
	if (limit->algorithm == SLUICE_SLIDING_LOG)
		tick = SL_MS_NS;
	else if (limit->algorithm == SLUICE_TOKEN_BUCKET || limit->algorithm == SLUICE_LEAKY_BUCKET)
		tick = limit->derived[SL_TICK_NS];
	if (tick != 1) {
		bits = tick == SL_MS_NS ? SL_COARSE_SHIFT : 9; /* what bucket.c and log.c pack below an instant */
		last = ((last >> bits << bits) + (tick - 1)) / tick * tick;
	}
	/* a log's last charge was rounded up: within that ms time has not gone back */
	if (limit->algorithm == SLUICE_SLIDING_LOG && last > now && last - now < SL_MS_NS)
		return now;
	return sl_max(now, last);
}

static bool charge_ended(struct slr_member *m) {
	struct sluice_limit wide;
	bool any = false;
	for (uint32_t i = 0; i < m->ended; i++) {
		const struct slr_hold *hold = &m->holds->list[i];
		if (hold->lease == 0)
			continue;
		if (!any)
			wide = slr_widened(m->limit);
		any = true;
		m->returned = return_image(m, &m->image, m->returned, hold->end);
		if (!charge_lease(&wide, &m->image, hold))
			return false;
	}
	return true;
}

static bool load_holds(const struct slr_call *call, struct slr_member *m, bool skip_own) {
	m->ended = slr_holds_ended(m->holds, m->clock);
	if (skip_own)
		m->own = slr_holds_find(m->holds, call->id, call->operation == SLR_LEASE);
	if (m->own >= 0 && (uint32_t)m->own < m->ended)
		m->own = -1;
	for (uint32_t i = m->ended; i < m->holds->count; i++)
		if ((int32_t)i != m->own) {
			m->held += m->holds->list[i].cost;
			m->leased += m->holds->list[i].lease != 0 ? m->holds->list[i].cost : 0;
		}
	if (!charge_ended(m))
		return false;
	m->state = m->image.counter.state;
	return true;
}

/* What stands beside the counter, or would if there were one. */
static void load_sides(struct slr_member *m) {
	m->ledger = slr_ledger_of(m->key->value, m->identity);
	m->contents = slr_contents_of(m->key->value, m->identity);
	if (m->strikes != NULL)
		slr_strikes_of(m->key->value, m->identity, m->strikes);
}

static bool load_sided(const struct slr_call *call, struct slr_member *m, bool skip_own) {
	load_sides(m);
	if (m->holds != NULL && !load_holds(call, m, skip_own))
		return false;
	m->returned = return_image(m, &m->image, m->returned, m->clock);
	m->state = m->image.counter.state;
	return true;
}

static void load_nothing(struct slr_member *m) {
	m->state = m->image.counter.state = (struct sl_state){.rate = 0};
	m->image.counter.block = NULL;
	m->image.counter.block_bytes = 0;
	m->image.counter.who = m->who;
	m->image.counter.known = false;
}

bool slr_member_load(const struct slr_call *call, struct slr_member *m, bool skip_own) {
	struct slr_counter scratch;
	const struct slr_counter *counter = m->counts ? slr_value_find(m->key->value, m->identity, &scratch) : NULL;
	bool sides = counter != &scratch && m->counts && slr_value_has_sides(m->key->value);
	m->there = counter != NULL;
	m->rate = counter != NULL ? counter->state.rate : 0;
	m->packed = counter == &scratch;
	m->image.own = NULL;
	m->holds = NULL;
	m->ended = 0;
	m->own = -1;
	m->held = m->leased = 0;
	m->ledger = (struct sl_ledger){NULL, 0};
	m->contents.memory = NULL;
	m->returned = 0;
	m->clock = call->now;
	if (m->strikes != NULL)
		memset(m->strikes, 0, sizeof *m->strikes);
	if (counter == NULL) {
		load_nothing(m);
	} else {
		slr_counter_load(counter, &m->image.counter);
		m->image.counter.who = m->who;
		m->state = m->image.counter.state;
		m->clock = clock_of(m->limit, &m->state, call->now);
		m->holds = slr_counter_holds(counter);
	}
	if (sides)
		return load_sided(call, m, skip_own);
	return m->holds == NULL || load_holds(call, m, skip_own);
}

void slr_member_drop(struct slr_member *m) {
	slr_block_give(m->image.own);
	m->image.own = NULL;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* Commands are decided one at a time. */
static _Alignas(8) unsigned char scratch[SL_LEDGER_SCRATCH_BYTES];

static void step(struct slr_member *m, sluice_ns now, uint64_t cost, bool charge, struct sluice_decision *decision) {
	m->image.counter.state = m->state;
	sl_step(m->limit, &m->image.counter, now, cost, charge, decision);
}

/* The same, charging nothing, with what reservations that are open will give back. */
static void look(struct slr_member *m, sluice_ns now, uint64_t cost, struct sluice_decision *decision) {
	struct sl_ledger open = slr_member_open(m);
	if (open.count == 0) {
		step(m, now, cost, false, decision);
		return;
	}
	m->image.counter.state = m->state;
	sl_ledger_step(m->limit, &m->image.counter, &open, now, cost, scratch, decision);
}

/* A cost behind what is held; above every capacity, one is as good as another. */
static uint64_t behind(const struct slr_member *m, uint64_t cost, uint64_t held) {
	return cost == 0 ? 0 : sl_min(cost + held, m->limit->derived[SL_CAPACITY] + 1);
}

/* What a member's counter looks like from the end of one hold to that of the next. */
struct future {
	struct slr_image image;
	struct sluice_limit wide;
	uint64_t held;
	uint32_t next;     /* hold to end */
	uint32_t returned; /* reservations that the image is corrected by */
	sluice_ns end;     /* that the last one had */
};

static struct future future_of(const struct slr_member *m) {
	struct future future = {
		.image = image_of(m), .held = m->leased, .next = m->ended, .returned = m->returned, .end = m->clock};
	future.wide = slr_widened(m->limit);
	return future;
}

/* Lets the next lease end, and all that end with it. False: there is none. */
static bool advance(const struct slr_member *m, struct future *future) {
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
		future->returned = return_image(m, &future->image, future->returned, hold->end);
		/* a log too long to be charged is found too long by the next charge: here it only looks less used */
		if (!charge_lease(&future->wide, &future->image, hold))
			continue;
	}
	return any;
}

/* A wait that begins with the end that the future has reached; saturates just below SLUICE_NEVER. */
static sluice_ns behind_end(const struct slr_member *m, const struct future *future, sluice_ns wait_ns) {
	sluice_ns ahead = future->end - m->clock;
	return wait_ns >= SLUICE_NEVER - ahead ? SLUICE_NEVER - 1 : ahead + wait_ns;
}

static void future_step(const struct slr_member *m, const struct future *future, uint64_t cost,
                        struct sluice_decision *decision) {
	struct sl_ledger open = {NULL, m->ledger.count - future->returned};
	struct sl_counter counter;
	counter.state = future->image.counter.state;
	counter.block = future->image.counter.block;
	counter.block_bytes = future->image.counter.block_bytes;
	counter.who = 0;
	if (open.count != 0)
		open.list = m->ledger.list + future->returned;
	if (open.count != 0)
		sl_ledger_step(m->limit, &counter, &open, future->end, cost, scratch, decision);
	else
		sl_step(m->limit, &counter, future->end, cost, false, decision);
}

static sluice_ns retry_behind(const struct slr_member *m, uint64_t cost, sluice_ns now_retry) {
	struct future future = future_of(m);
	sluice_ns least = now_retry;
	struct sluice_decision then = {.allowed = false};
	while (!then.allowed && advance(m, &future)) {
		future_step(m, &future, behind(m, cost, future.held), &then);
		if (then.retry_after_ns != SLUICE_NEVER)
			least = sl_min(least, behind_end(m, &future, then.retry_after_ns));
	}
	slr_block_give(future.image.own);
	return least;
}

static bool has_live_lease(const struct slr_member *m) {
	for (uint32_t i = m->ended; m->holds != NULL && i < m->holds->count; i++)
		if ((int32_t)i != m->own && m->holds->list[i].lease != 0)
			return true;
	return false;
}

static sluice_ns last_end(const struct slr_member *m) {
	for (uint32_t i = m->holds != NULL ? m->holds->count : 0; i > m->ended; i--)
		if ((int32_t)i - 1 != m->own && m->holds->list[i - 1].lease != 0)
			return m->holds->list[i - 1].end;
	return m->clock;
}

/* The wait until the whole quota is back.
 *  charge  what was charged just now: reset_ns is the wait without holds, after that */
static sluice_ns reset_behind(const struct slr_call *call, const struct slr_member *m, uint32_t charge,
                              sluice_ns reset_ns) {
	struct sluice_decision then;
	struct future future;
	if (m->limit->quota == 0)
		return 0; /* there is no quota to be back */
	if (!has_live_lease(m))
		return reset_ns;
	future = future_of(m);
	if (charge != 0 && !charge_image(&future.wide, &future.image, call->now, charge))
		charge = 0; /* planning the charge will say so */
	while (advance(m, &future))
		;
	future.end = sl_max(future.end, last_end(m));
	future_step(m, &future, 0, &then);
	slr_block_give(future.image.own);
	return behind_end(m, &future, then.reset_after_ns);
}

/* The largest cost that fits now if nothing is held: what sl_step() says, which stops at 2^32 - 1. */
static uint64_t room_of(struct slr_member *m, sluice_ns now, uint64_t remaining) {
	struct sluice_decision whole;
	uint64_t capacity = m->limit->derived[SL_CAPACITY];
	if (remaining < UINT32_MAX || capacity <= UINT32_MAX)
		return remaining;
	look(m, now, capacity, &whole);
	return whole.allowed ? capacity : remaining;
}

/* Why, and for how long, a cost is denied behind what is held: by plain holds alone, which is over in a moment, or as
 * if there were none of them. */
static void judge_denial(struct slr_member *m, sluice_ns now, uint64_t cost, struct sluice_decision *decision) {
	struct sluice_decision beside;
	if (m->held != m->leased) {
		look(m, now, behind(m, cost, m->leased), &beside);
		if (beside.allowed) {
			decision->bound = SLUICE_BOUND_HOLDS;
			decision->retry_after_ns = SL_MS_NS;
			return;
		}
		decision->retry_after_ns = beside.retry_after_ns;
	}
	if (m->leased != 0)
		decision->retry_after_ns = retry_behind(m, cost, decision->retry_after_ns);
}

static void decide_behind(const struct slr_call *call, struct slr_member *m, uint64_t cost, bool charge,
                          struct sluice_decision *decision) {
	bool hold = call->operation == SLR_HOLD;
	struct sluice_decision plain;
	uint64_t room;
	look(m, call->now, behind(m, cost, m->held), decision);
	room = room_of(m, call->now, decision->remaining);
	room = room > m->held ? room - m->held : 0;
	charge = charge && decision->allowed && cost != 0;
	if (!decision->allowed && m->held != 0)
		judge_denial(m, call->now, cost, decision);
	decision->remaining = (uint32_t)sl_min(charge ? room - cost : room, UINT32_MAX);
	if (charge && !hold)
		step(m, call->now, cost, true, &plain);
	else
		look(m, call->now, 0, &plain);
	decision->reset_after_ns = reset_behind(call, m, charge && !hold ? (uint32_t)cost : 0, plain.reset_after_ns);
}

/* Decides by the counter alone, without the penalties of who is shut out. */
static void decide_plain(const struct slr_call *call, struct slr_member *m, uint64_t cost, bool charge,
                         struct sluice_decision *decision) {
	if (m->counts && (m->held != 0 || (charge && call->operation == SLR_HOLD))) {
		decide_behind(call, m, cost, charge, decision);
		return;
	}
	if (m->ledger.count == m->returned) {
		step(m, call->now, cost, charge, decision);
		return;
	}
	look(m, call->now, cost, decision);
	if (charge && decision->allowed && cost != 0)
		step(m, call->now, cost, true, decision); /* what is open is looked at again behind the charge */
}

static __attribute__((noinline)) void decide_beside(const struct slr_call *call, struct slr_member *m, uint64_t cost,
                                                    bool charge, struct sluice_decision *decision) {
	if (m->strikes == NULL) {
		decide_plain(call, m, cost, charge, decision);
		return;
	}
	m->shut = sl_strikes_stand(m->terms, m->strikes, call->now).ends_after_ns != 0;
	decide_plain(call, m, cost, charge && !m->shut, decision);
	m->denied = !decision->allowed;
	sl_strikes_judge(m->terms, m->strikes, call->now, cost, decision);
}

void slr_member_decide(const struct slr_call *call, struct slr_member *m, uint64_t cost, bool charge,
                       struct sluice_decision *decision) {
	bool open = m->ledger.count != m->returned;
	if (m->held != 0 || open || m->strikes != NULL || call->operation == SLR_HOLD)
		decide_beside(call, m, cost, charge, decision);
	else
		step(m, call->now, cost, charge, decision);
}

/* The same of a stranger to a limit that asks who. What is counted of `distinct` counts once, whatever it costs: so as
 * if there were no more places than are taken. */
static void next_of_places(const struct slr_call *call, struct slr_member *m, struct sluice_decision *next) {
	const struct sluice_limit *limit = m->limit;
	struct sluice_limit full = *limit;
	m->image.counter.who = 0;
	if (limit->algorithm == SLUICE_DISTINCT && limit->quota <= SL_EXACT_MEMBERS) {
		full.quota -= m->decision->remaining;
		full.derived[SL_CAPACITY] = full.quota;
		m->limit = &full;
	}
	slr_member_decide(call, m, (uint64_t)m->decision->remaining + 1, false, next);
	m->limit = limit;
	m->image.counter.who = m->who;
}

void slr_member_next(const struct slr_call *call, struct slr_member *m) {
	struct sluice_decision next;
	m->decision->next_after_ns = 0;
	if (!m->counts || m->decision->remaining >= m->decision->quota)
		return;
	if (m->limit->algorithm >= SLUICE_CONCURRENCY)
		next_of_places(call, m, &next);
	else
		slr_member_decide(call, m, (uint64_t)m->decision->remaining + 1, false, &next);
	m->decision->next_after_ns = next.retry_after_ns;
}
