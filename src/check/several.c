/* Calls of any kind: several limits, every operation, what stands beside a counter, retries.
 *
 *   set up, lock all homes, find slots and what stands beside them
 *   recall   what the call asks for was done before under its id: it is answered as that was, charging nothing
 *   grant    how much of the cost fits, where a part will do (`upto`)
 *   judge    each limit as it stands, as if all will be charged
 *   charge   if all enforced limits admit: all or nothing (charge.c)
 *   note     denials that have consequences (strike.c)
 *   unlock, answer
 *
 * I1..I4 of check.c hold here. */
#include "algo/merge.h"
#include "check/member.h"

/* What is known of a call before it is decided: most have no more than limits. */
struct turn {
	struct token *token; /* NULL: none */
	bool costs;          /* a limit that counts is asked for more than 0 */
	bool beside;         /* something may stand beside a counter, or will */
	bool terms;
	bool joins; /* the counter of a limit may be charged by another, or not at all: it is shared, or tried */
};

/* ---- setting up: groups and locks -------------------------------------------------------------------------------- */

static inline uint32_t add_home(struct sl_bucket **homes, uint32_t used, struct sl_bucket *home) {
	uint32_t at = used;
	while (at > 0 && homes[at - 1] > home)
		at--;
	if (at > 0 && homes[at - 1] == home)
		return used;
	for (uint32_t i = used; i > at; i--)
		homes[i] = homes[i - 1];
	homes[at] = home;
	return used + 1;
}

static inline uint32_t collect_homes(const struct member *members, uint32_t count, struct sl_bucket **homes) {
	uint32_t used = 0;
	for (uint32_t i = 0; i < count; i++)
		if (members[i].counts)
			used = add_home(homes, used, members[i].place->home);
	return used;
}

/* Only where two limits have one home, or one has none, may any have one counter. Those that count nothing have one
 * place, at which nothing is. */
static void find_leaders(struct member *members, uint32_t count, struct turn *turn) {
	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = 0;
		while (members[first].place->home != members[i].place->home ||
		       members[first].place->tag != members[i].place->tag)
			first++;
		members[i].leader = (uint8_t)first;
		turn->joins = turn->joins || first != i;
	}
}

/* A lease's number, or a member's fingerprint: keyed, so that nobody can prepare two that collide. */
static uint64_t who_of(const struct sluice_store *store, const struct sluice_call *call,
                       const struct sluice_item *item) {
	uint64_t who;
	if (item->limit->algorithm == SLUICE_CONCURRENCY)
		return call->operation >= SLUICE_ACQUIRE && call->id.len != 0 ? sl_id_number(call->id) : 0;
	if (item->member.data == NULL)
		return 0;
	who = sl_siphash(store->secret, NULL, 0, item->member, 1, 3);
	return who != 0 ? who : 1;
}

/* All that a plain call says; of others set_up_more() adds the rest. As if each limit had a counter of its own, until
 * find_leaders() says otherwise, and nothing beside it, until find_beside() does. */
static inline void set_up(const struct sluice_call *call, const struct sl_place *places, struct member *members,
                          struct sluice_decision *decisions, struct turn *turn, bool plain) {
	*turn = (struct turn){.costs = call->cost != 0};
	for (uint32_t i = 0, count = call->item_count; i < count; i++) {
		struct member *m = &members[i];
		m->item = &call->items[i];
		m->limit = m->item->limit;
		m->cost = call->cost;
		m->place = &places[i];
		m->decision = &decisions[i];
		m->observed = m->item->observed != 0;
		m->tried = m->item->observed == SLUICE_TRIED;
		m->counts = plain ? has_counter(m->limit) : item_has_counter(m->item);
		m->plain = true;
		m->charged = m->forced = m->corrects = m->kept = false;
		m->who = 0;
		m->leader = (uint8_t)i;
		turn->joins |= m->tried;
	}
}

/* What else a call that is not plain may say. */
static __attribute__((noinline)) void set_up_more(const struct sluice_store *store, const struct sluice_call *call,
                                                  struct member *members, struct turn *turn, struct token *token) {
	turn->costs = false;
	turn->beside = call->ttl_ns != 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (m->item->cost != 0)
			m->cost = m->item->cost;
		if (m->limit->algorithm >= SLUICE_CONCURRENCY)
			m->who = who_of(store, call, m->item);
		m->counter.who = m->who;
		turn->costs = turn->costs || (m->counts && m->cost != 0);
		turn->terms = turn->terms || m->item->terms != NULL;
		turn->beside = turn->beside || m->item->terms != NULL || m->item->ttl_ns != 0;
	}
	if (call->operation == SLUICE_CHARGE && call->id.len != 0 && token_place(store, call, members, token))
		turn->token = token;
}

/* ---- what stands beside counters --------------------------------------------------------------------------------- */

static bool is_reserved(const struct sluice_call *call, const struct member *m) {
	if (m->tried || m->limit->algorithm > SLUICE_LEAKY_BUCKET)
		return false;
	return (call->operation == SLUICE_RESERVE && (call->ttl_ns != 0 || m->item->ttl_ns != 0)) ||
	       (call->operation == SLUICE_ACQUIRE && m->item->ttl_ns != 0);
}

static void find_beside(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	bool ledgers = sl_store_has_ledgers(store, call->now);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		bool reserved, penalties;
		if (!m->counts)
			continue;
		reserved = is_reserved(call, m);
		penalties = m->item->terms != NULL && m->item->terms->penalty_count != 0;
		if (!ledgers && !reserved && !penalties)
			continue;
		member_beside_none(m);
		if ((ledgers || reserved) && m->limit->algorithm <= SLUICE_LEAKY_BUCKET)
			ledger_find(store, m, call->now);
		m->ledger.adds = reserved;
		if (penalties)
			strikes_find(m);
		m->plain = m->plain && !reserved;
	}
}

void member_refresh(const struct sluice_store *store, struct member *m, sluice_ns now) {
	struct sluice_decision left;
	member_judge(store, m, now, m->decision->allowed ? 0 : m->cost, &left);
	m->decision->quota = left.quota;
	m->decision->remaining = left.remaining;
	m->decision->reset_after_ns = left.reset_after_ns;
	if (!m->decision->allowed)
		m->decision->retry_after_ns = left.retry_after_ns;
}

/* ---- charging ---------------------------------------------------------------------------------------------------- */

/* A member whose counter another one has charged: it may have had no slot before, and where it is an observed limit
 * that denies, its figures are to be those after the charge, as everybody else's are. */
static void join_charge(const struct sluice_store *store, const struct sluice_call *call, struct member *m,
                        const struct member *charged) {
	m->slot = sl_slot_find(m->place);
	if (m->plain && !charged->plain) {
		member_beside_none(m); /* what is reserved by this call is found by refresh_beside() */
		m->plain = false;
	}
	if (!m->plain)
		return;
	if (!m->decision->allowed || m->cost != charged->cost || m->limit->quota != charged->limit->quota)
		member_refresh(store, m, call->now); /* it drains at the rate of whoever charged it */
}

/* Those with something beside them were stepped as they stood, or as if that were not there. */
static void refresh_beside(const struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (!m->counts || m->plain)
			continue;
		m->slot = sl_slot_find(m->place);
		if (m->limit->algorithm <= SLUICE_LEAKY_BUCKET)
			ledger_find(store, m, call->now);
		member_refresh(store, m, call->now);
	}
}

/* The first of the group of a member that is charged; NULL: none is. */
static const struct member *find_charger(const struct member *members, uint32_t count, const struct member *m) {
	for (const struct member *other = members; other < members + count; other++)
		if (other->leader == m->leader && other->charged)
			return other;
	return NULL;
}

/* The figures of those who are not charged themselves. */
static void join_charges(const struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		const struct member *charger = m->charged ? m : find_charger(members, call->item_count, m);
		if (charger != NULL && charger != m)
			join_charge(store, call, m, charger);
		else if (charger == NULL && m->tried && m->counts && m->plain)
			member_step(store, m, call->now, m->cost, false, m->decision);
	}
}

/* Charges every group that is to be, or none. A group is charged through its first member that may. As
 * members_charge(). */
static sluice_err charge_groups(struct sluice_store *store, const struct sluice_call *call, struct member *members,
                                struct turn *turn, struct shortage *shortage) {
	sluice_err err;
	members_keep_latest(store, call->now);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		m->charged = m->counts && m->decision->allowed && !m->tried && m->cost != 0 &&
		             (m->leader == i || find_charger(members, i, m) == NULL);
	}
	err = members_charge(store, call, members, call->item_count, turn->token, shortage);
	if (err != SLUICE_OK)
		return err;
	if (turn->joins)
		join_charges(store, call, members);
	if (turn->beside)
		refresh_beside(store, call, members);
	return SLUICE_OK;
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* The largest part of the cost that all enforced limits admit. A member counts once, whatever the cost; so does what
 * is held already. */
static uint32_t find_part(const struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	uint32_t part = call->cost;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		struct sluice_decision d;
		if (!m->counts || m->observed || m->cost == 0)
			continue;
		member_judge(store, m, call->now, 1, &d);
		if (m->limit->algorithm != SLUICE_DISTINCT || !d.allowed)
			part = (uint32_t)sl_min(part, d.remaining);
	}
	return part;
}

/* Lowers all costs to the part that is granted; where that is nothing, what is asked is 1, and denied. */
static void grant(const struct sluice_store *store, struct sluice_call *call, struct member *members) {
	call->granted = find_part(store, call, members);
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].cost != 0)
			members[i].cost = call->granted != 0 ? call->granted : 1;
}

/* Steps a member as if it will be charged; one with something beside it as it stands. */
static void judge(const struct sluice_store *store, struct member *m, sluice_ns now, bool charge) {
	bool shut_out = false;
	if (m->plain) {
		member_step(store, m, now, m->cost, charge, m->decision);
		return;
	}
	member_judge(store, m, now, m->cost, m->decision);
	if (m->strikes.looked && m->strikes.slot != NULL)
		shut_out = strikes_judge(store, m, now, 0, &(struct sluice_decision){.allowed = true});
	m->strikes.denied = charge && m->strikes.looked && !m->tried && !m->decision->allowed && !shut_out;
}

static bool judge_all(struct sluice_store *store, const struct sluice_call *call, struct member *members, bool charge) {
	bool allowed = true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		judge(store, &members[i], call->now, charge);
		if (!members[i].counts && members[i].item->bound != SLUICE_BOUND_NONE)
			sl_decide_bound(members[i].decision, (sluice_bound)members[i].item->bound, SLUICE_NEVER);
		allowed = allowed && (members[i].decision->allowed || members[i].observed);
	}
	return allowed;
}

/* Nothing was charged, and the figures are those of what stands. */
static void unstep(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].decision->allowed && members[i].plain)
			member_step(store, &members[i], call->now, members[i].cost, false, members[i].decision);
}

/* The answer to a call of which nothing is charged, since that was done before. */
static void answer_again(struct sluice_store *store, struct sluice_call *call, struct member *members,
                         sluice_ns delay_ns) {
	call->repeated = true;
	for (uint32_t i = 0; i < call->item_count; i++) {
		members[i].cost = 0;
		member_judge(store, &members[i], call->now, 0, members[i].decision);
		if (members[i].limit->algorithm == SLUICE_LEAKY_BUCKET)
			members[i].decision->delay_ns = delay_ns;
	}
}

static bool was_done(struct sluice_store *store, struct sluice_call *call, struct member *members,
                     const struct token *token) {
	sluice_ns delay_ns = 0;
	if (call->id.len == 0)
		return false;
	if (call->operation == SLUICE_CHARGE ? token == NULL || !token_recall(token, call, &delay_ns)
	                                     : !members_hold(store, call, members)) {
		for (uint32_t i = 0; i < call->item_count; i++)
			if (members[i].kept)
				members[i].cost = 0;
		return false;
	}
	answer_again(store, call, members, delay_ns);
	return true;
}

static sluice_ns longest_delay(const struct sluice_call *call, const struct member *members) {
	sluice_ns delay_ns = 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].counts && !members[i].observed)
			delay_ns = sl_max(delay_ns, members[i].decision->delay_ns);
	return delay_ns;
}

/* A bound denied: nothing is charged, and the figures of those that admit are those of what stands. */
static void deny_by_bound(struct sluice_store *store, struct sluice_call *call, struct member *members) {
	call->granted = 0;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].decision->allowed)
			member_judge(store, &members[i], call->now, members[i].cost, members[i].decision);
}

/* Charges all who admit. Where a bound of ours keeps a counter from being charged, its limit denies: the whole call, or
 * what is only observed by itself, and then the rest is charged. SLUICE_OK, with `charged` saying whether it was; or
 * held up. */
static sluice_err charge_or_deny(struct sluice_store *store, struct sluice_call *call, struct member *members,
                                 struct turn *turn, bool *charged) {
	struct shortage shortage;
	sluice_err err;
	*charged = false;
	while ((err = charge_groups(store, call, members, turn, &shortage)) == SLUICE_E_FULL)
		if (members_deny(call, members, &shortage)) {
			deny_by_bound(store, call, members);
			return SLUICE_OK;
		}
	if (err != SLUICE_OK)
		return err;
	*charged = true;
	if (turn->token != NULL && turn->token->slot != NULL)
		token_publish(call, turn->token, longest_delay(call, members));
	return SLUICE_OK;
}

static sluice_err decide_members(struct sluice_store *store, struct sluice_call *call, struct member *members,
                                 struct turn *turn) {
	bool charge = call->operation != SLUICE_PEEK, allowed, charged = false;
	sluice_err err = SLUICE_OK;
	call->granted = call->cost;
	if (charge && was_done(store, call, members, turn->token))
		return SLUICE_OK;
	if (call->upto)
		grant(store, call, members);
	allowed = judge_all(store, call, members, charge);
	if (!allowed)
		call->granted = 0;
	if (!charge || !turn->costs)
		return SLUICE_OK;
	if (allowed)
		err = charge_or_deny(store, call, members, turn, &charged);
	else
		unstep(store, call, members);
	if (err == SLUICE_OK && turn->terms && charged == allowed) /* not where a bound denied */
		members_note_denials(store, call, members, allowed);
	return err;
}

/* Answers as a peek of cost 0 does, of what stands there now. */
static void peek_all(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		m->slot = m->counts ? sl_slot_find(m->place) : NULL;
		if (!m->plain && m->limit->algorithm <= SLUICE_LEAKY_BUCKET)
			ledger_find(store, m, call->now);
		member_judge(store, m, call->now, 0, m->decision);
	}
}

static void refund_one(const struct sluice_store *store, const struct sluice_call *call, struct member *m) {
	uint32_t cost = m->cost;
	member_load(store, m);
	if (sl_step_prepare_refund(m->limit, &m->counter, call->now, &cost))
		sl_slot_write(m->slot, m->counter.state.w);
	if (sl_step_refund(m->limit, &m->counter, call->now, cost))
		member_write(m);
}

static sluice_err refund_members(struct sluice_store *store, const struct sluice_call *call, struct member *members) {
	sluice_err err = ledger_settle(store, call, members);
	for (uint32_t i = 0; i < call->item_count && err == SLUICE_OK; i++)
		if (members[i].counts && members[i].leader == i && members[i].slot != NULL)
			refund_one(store, call, &members[i]);
	if (err == SLUICE_OK)
		peek_all(store, call, members);
	return err;
}

/* All are forgotten, or none: the blocks' lock, which may not be had, is taken before anything is changed. */
static sluice_err reset_members(struct sluice_store *store, struct sluice_call *call, struct member *members) {
	bool was[SLUICE_ITEMS_MAX] = {false}, blocks = false;
	sluice_err err;
	for (uint32_t i = 0; i < call->item_count; i++)
		blocks = blocks || (members[i].counts && member_has_block(&members[i]));
	err = blocks ? sl_blocks_begin(store) : SLUICE_OK;
	if (err != SLUICE_OK)
		return err;
	for (uint32_t i = 0; i < call->item_count; i++)
		if (members[i].counts && members[i].leader == i)
			was[i] = member_forget(store, &members[i]);
	if (blocks)
		sl_blocks_commit(store);
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct member *m = &members[i];
		if (m->counts && m->leader == i)
			call->forgotten += (member_hide(store, m, call->now) || was[i]);
		m->plain = true;
	}
	peek_all(store, call, members);
	return SLUICE_OK;
}

static sluice_err operate(struct sluice_store *store, struct sluice_call *call, struct member *members,
                          struct turn *turn) {
	sluice_err err = SLUICE_OK;
	switch (call->operation) {
	case SLUICE_REFUND:
		return refund_members(store, call, members);
	case SLUICE_RESET:
		return reset_members(store, call, members);
	case SLUICE_RELEASE:
	case SLUICE_RENEW:
		members_end_leases(store, call, members);
		return SLUICE_OK;
	case SLUICE_COMMIT:
		err = members_commit(store, call, members);
		if (err == SLUICE_OK)
			peek_all(store, call, members);
		return err;
	default:
		return decide_members(store, call, members, turn);
	}
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

/* The wait until `remaining` grows by one: when one unit more than it would be admitted. */
static void fill_next(const struct sluice_store *store, struct member *m, sluice_ns now) {
	const struct sluice_limit *limit = m->limit;
	struct sluice_limit full;
	struct sluice_decision next;
	if (m->decision->remaining >= m->decision->quota)
		return;
	if (m->decision->bound != SLUICE_BOUND_NONE) {
		m->decision->next_after_ns = m->decision->retry_after_ns;
		return;
	}
	m->counter.who = 0; /* for a stranger */
	if (limit->algorithm == SLUICE_DISTINCT && limit->quota <= SL_EXACT_MEMBERS) {
		/* whatever its cost, who is counted takes one place: as if there were no more than are taken */
		full = *limit;
		full.quota -= m->decision->remaining;
		full.derived[SL_CAPACITY] = full.quota;
		m->limit = &full;
	}
	member_judge(store, m, now, (uint64_t)m->decision->remaining + 1, &next);
	m->decision->next_after_ns = next.retry_after_ns;
	m->limit = limit;
	m->counter.who = m->who;
}

static void answer(struct sluice_call *call, const struct member *members) {
	call->merged = sl_merge_nothing();
	for (uint32_t i = 0; i < call->item_count; i++) {
		if ((members[i].counts || members[i].item->bound != SLUICE_BOUND_NONE) && !members[i].observed)
			sl_merge_add(&call->merged, members[i].decision, (int32_t)i);
		if (call->each != NULL) {
			call->each[i] = *members[i].decision;
			call->each[i].index = (int32_t)i;
		}
	}
}

/* Takes the locks of all homes, in address order, or none. */
static inline sluice_err lock_homes(struct sluice_store *store, struct sl_bucket **homes, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		sluice_err err = sl_home_lock(store, homes[i]);
		if (__builtin_expect(err == SLUICE_OK, 1))
			continue;
		while (i-- > 0)
			sl_home_unlock(homes[i]);
		return err;
	}
	return SLUICE_OK;
}

sluice_err decide_several(struct sluice_store *store, struct sluice_call *call, const struct sl_place *places,
                          bool plain) {
	struct member members[SLUICE_ITEMS_MAX];
	struct sluice_decision decisions[SLUICE_ITEMS_MAX];
	struct sl_bucket *homes[SLUICE_ITEMS_MAX + 2];
	struct turn turn;
	struct token token;
	uint32_t home_count;
	sluice_err err;
	set_up(call, places, members, decisions, &turn, plain);
	home_count = collect_homes(members, call->item_count, homes);
	if (home_count < call->item_count)
		find_leaders(members, call->item_count, &turn);
	if (!plain)
		set_up_more(store, call, members, &turn, &token);
	if (turn.token != NULL)
		home_count = add_home(homes, home_count, token.place.home);
	err = lock_homes(store, homes, home_count);
	if (err != SLUICE_OK)
		return err;
	for (uint32_t i = 0; i < call->item_count; i++)
		members[i].slot = members[i].counts ? sl_slot_find(members[i].place) : NULL;
	if (turn.token != NULL)
		token.slot = sl_slot_find(&token.place);
	turn.beside = turn.beside || sl_store_has_ledgers(store, call->now);
	if (turn.beside)
		find_beside(store, call, members);
	err = operate(store, call, members, &turn);
	for (uint32_t i = 0; call->want_next && err == SLUICE_OK && i < call->item_count; i++)
		if (members[i].counts)
			fill_next(store, &members[i], call->now);
	for (uint32_t i = 0; i < home_count; i++)
		sl_home_unlock(homes[i]);
	if (err == SLUICE_OK)
		answer(call, members);
	return err;
}
