/* What a call is beside a charge: leases that end or are renewed, reservations that are committed, requests that come
 * again, and denials that are counted (docs/design/012-leases.md). */
#include "base/math.h"
#include "hosts/redis/member.h"

#include <stdlib.h>

static bool is_lease(const struct slr_member *m) {
	return m->counts && m->limit->algorithm == SLUICE_CONCURRENCY;
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

/* Keeps a renewed counter for as long as it says now. */
static void keep(const struct slr_call *call, struct slr_member *m) {
	slr_member_reload(call, m);
	sl_lease_step(m->limit, &m->image.counter, call->now, 0, false, m->decision); /* also where N is 0 */
	slr_member_keep(call, m);
}

void slr_end_leases(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (!is_lease(m) || m->leader != i)
			continue;
		if (call->operation == SLR_RELEASE) {
			call->found += slr_member_release(call, m);
		} else if (slr_member_renew(call, m)) {
			call->found++;
			keep(call, m);
		}
	}
}

static struct sl_found find_open(const struct slr_member *m, uint64_t id) {
	return sl_bundle_find(m->limit, &m->ledger, &m->contents, id, m->clock);
}

/* ---- retries ----------------------------------------------------------------------------------------------------- */

bool slr_is_held(struct slr_deciding *d) {
	const struct slr_call *call = d->call;
	uint32_t asked = 0, held = 0, observed = 0;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (!m->counts || m->tried)
			continue;
		slr_member_decide(call, m, m->cost, false, m->decision);
		m->kept = is_lease(m) ? m->image.counter.known
		                      : m->ttl_ns != 0 && find_open(m, call->id).at >= 0;
		if (call->operation == SLR_ACQUIRE ? !is_lease(m) : m->ttl_ns == 0)
			continue;
		asked += !m->observed;
		held += m->kept && !m->observed;
		observed += m->kept && m->observed;
	}
	return held == asked && held + observed != 0;
}

void slr_answer_again(struct slr_deciding *d, sluice_ns delay_ns) {
	struct slr_call *call = d->call;
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		m->cost = 0;
		slr_member_decide(call, m, 0, false, m->decision);
		if (m->limit->algorithm == SLUICE_LEAKY_BUCKET)
			m->decision->delay_ns = delay_ns;
	}
	call->granted = call->cost;
	call->repeated = true;
}

struct slr_key *slr_token_key(const struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->item_count; i++)
		if (d->members[i].counts && !d->members[i].tried)
			return d->members[i].key;
	return NULL;
}

const struct slr_token *slr_retry_of(const struct slr_deciding *d) {
	struct slr_key *key = slr_token_key(d);
	return key == NULL ? NULL : slr_token_find(key->value, d->call->token, d->call->now);
}

/* As the store of one host keeps it, so that both answer alike: 27 bits, to 1 in 10^8. */
static sluice_ns rounded(sluice_ns delay_ns) {
	unsigned e = 0;
	while (delay_ns >> e >> 27 != 0 && e < 31)
		e++;
	return delay_ns >> e << e;
}

void slr_remember(struct slr_deciding *d) {
	const struct slr_call *call = d->call;
	struct slr_key *key = slr_token_key(d);
	struct slr_token token = {.hash = call->token, .granted = call->granted};
	sluice_ns life = 0, delay = 0;
	int64_t until_ms;
	for (uint32_t i = 0; i < call->item_count; i++) {
		const struct slr_member *m = &d->members[i];
		if (!m->counts || m->tried)
			continue;
		life = sl_max(life, m->limit->window_ns);
		delay = sl_max(delay, m->observed ? 0 : m->decision->delay_ns);
	}
	if (key == NULL || slr_is_full(call)) /* without memory for it a retry is charged once more */
		return;
	token.at = call->now;
	token.end = call->now + life;
	token.delay = rounded(delay);
	until_ms = slr_wall_in(call, key, life);
	slr_token_add(&key->value, &token, until_ms);
	if (call->noted)
		slr_note_token(&key->notes, &token);
	slr_key_changed(key, until_ms);
}

/* ---- reservations ------------------------------------------------------------------------------------------------ */

/* The call's reservation, if it is open. */
static struct sl_found open_of(const struct slr_deciding *d, const struct slr_member *m, uint32_t i) {
	struct sl_found found = {.at = -1};
	if (m->counts && m->leader == i)
		found = find_open(m, d->call->id);
	if (found.at < (int64_t)m->returned)
		found.at = -1;
	return found;
}

static struct sl_correction correction_of(const struct slr_deciding *d, const struct slr_member *m,
                                          const struct sl_found *found) {
	struct sl_correction correction = sl_ledger_return(&found->its);
	correction.known = m->clock;
	correction.actual = d->call->cost;
	return correction;
}

static void commit_one(const struct slr_call *call, struct slr_member *m, const struct sl_found *found,
                       const struct sl_correction *correction) {
	struct slr_change change = {.correction = correction};
	slr_member_close(call, m, found);
	if (m->there) {
		m->ledger = (struct sl_ledger){m->ledger.list, m->returned}; /* how long it lives if no other is returned */
		slr_member_decide(call, m, 0, false, m->decision);
		m->ledger = slr_ledger_of(m->key->value, m->identity);
		slr_member_commit(call, m, &change);
	}
}

void slr_commit_members(struct slr_deciding *d) {
	struct slr_call *call = d->call;
	struct sl_correction corrections[SLUICE_ITEMS_MAX];
	struct sl_found found[SLUICE_ITEMS_MAX];
	bool corrects[SLUICE_ITEMS_MAX];
	for (uint32_t i = 0; i < call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		found[i] = open_of(d, m, i);
		if (found[i].at < 0)
			continue;
		corrections[i] = correction_of(d, m, &found[i]);
		/* where a log can't be made longer for it the estimate stays charged */
		corrects[i] = m->there && slr_member_correct(m, &corrections[i], 1);
	}
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (found[i].at < 0)
			continue;
		call->found++;
		commit_one(call, &d->members[i], &found[i], corrects[i] ? &corrections[i] : NULL);
	}
	for (uint32_t i = 0; i < call->item_count; i++) {
		if (d->members[i].key->changed)
			slr_member_reload(call, &d->members[i]);
		slr_member_decide(call, &d->members[i], 0, false, d->members[i].decision);
	}
}

/* ---- denials ----------------------------------------------------------------------------------------------------- */

static bool has_room(const struct slr_call *call, const struct slr_member *m, struct slr_identity identity) {
	struct slr_counter scratch;
	return slr_value_find(m->key->value, identity, &scratch) != NULL ||
	       (slr_value_count(m->key->value) < SLR_COUNTERS_MAX && !slr_is_full(call));
}

static bool count_denied(const struct slr_call *call, struct slr_member *m) {
	struct slr_change change = {.charge = m->cost, .counted = true};
	if (!has_room(call, m, m->identity))
		return false;
	slr_member_reload(call, m);
	slr_member_commit(call, m, &change);
	return true;
}

/* The figures of a member whose counter has been charged under them. */
static void look_counted(const struct slr_call *call, struct slr_member *m) {
	struct sluice_decision before = *m->decision;
	slr_member_reload(call, m);
	slr_member_decide(call, m, before.allowed ? 0 : m->cost, false, m->decision);
	slr_member_keep(call, m);
	m->decision->allowed = before.allowed;
	m->decision->delay_ns = before.delay_ns;
}

static void count_all(struct slr_deciding *d, bool allowed) {
	bool done[SLUICE_ITEMS_MAX] = {false};
	for (uint32_t i = 0; i < d->call->item_count; i++)
		done[d->members[i].leader] = done[d->members[i].leader] || (allowed && d->members[i].charged);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (m->terms == NULL || !m->terms->count_denied || !m->counts || m->tried || m->cost == 0 ||
		    m->limit->quota == 0 || m->limit->algorithm >= SLUICE_CONCURRENCY || (allowed && m->decision->allowed) ||
		    done[m->leader])
			continue;
		done[m->leader] = true;
		if (!count_denied(d->call, m))
			continue;
		for (uint32_t k = 0; k < d->call->item_count; k++)
			if (d->members[k].counts && d->members[k].leader == m->leader)
				look_counted(d->call, &d->members[k]);
	}
}

static void strike(struct slr_deciding *d, struct slr_member *m) {
	const struct slr_call *call = d->call;
	if (!has_room(call, m, slr_side_of(SLR_SIDE_STRIKES, m->identity)))
		return;
	sl_strikes_add(m->terms, m->strikes, call->now);
	slr_member_strike(call, m);
	for (uint32_t k = 0; k < call->item_count; k++) {
		struct slr_member *other = &d->members[k];
		if (other->leader != m->leader || other->strikes == NULL)
			continue;
		*other->strikes = *m->strikes;
		sl_strikes_judge(other->terms, other->strikes, call->now, other->cost, other->decision);
	}
}

void slr_note_denials(struct slr_deciding *d, bool allowed) {
	bool struck[SLUICE_ITEMS_MAX] = {false};
	count_all(d, allowed);
	for (uint32_t i = 0; i < d->call->item_count; i++) {
		struct slr_member *m = &d->members[i];
		if (!m->strikes_out || struck[m->leader])
			continue;
		struck[m->leader] = true;
		strike(d, m);
	}
}

/* ---- who holds leases -------------------------------------------------------------------------------------------- */

static int ends_before(const void *one, const void *other) {
	const struct sluice_holder *a = one, *b = other;
	if (a->ends_after_ns != b->ends_after_ns)
		return a->ends_after_ns < b->ends_after_ns ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

uint32_t slr_holders_of(const struct slr_call *call, struct sluice_holder *list, uint32_t room) {
	const struct slr_item *item = &call->items[0];
	struct slr_counter scratch;
	const struct slr_counter *counter =
		slr_value_find(call->keys[item->key].value, slr_identity_of(&item->limit), &scratch);
	struct sl_counter step;
	uint32_t count;
	if (counter == NULL || item->limit.algorithm != SLUICE_CONCURRENCY)
		return 0;
	slr_counter_load(counter, &step);
	count = sl_lease_list(&step, call->now, list, room);
	if (room > 1)
		qsort(list, count < room ? count : room, sizeof *list, ends_before);
	return count;
}
