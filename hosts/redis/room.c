/* Bounds of ours that a charge meets (contract 4.10): no error, but denials of the limits of that counter.
 *
 *   no memory                            SLUICE_BOUND_ROOM          again in a second, or a window where that is less
 *   256 counters at the key              SLUICE_BOUND_ROOM          again when the first of them matters no more
 *   a log of 2^25 entries                SLUICE_BOUND_ROOM          again when the oldest is gone
 *   16,384 open reservations             SLUICE_BOUND_RESERVATIONS  again when the first of them has ended
 *   256 holds of fronts                  SLUICE_BOUND_HOLDS         again in a millisecond */
#include "base/math.h"
#include "hosts/redis/part.h"

#define MOMENT_NS ((sluice_ns)1000000000)

/* When one more than fits now will. */
static sluice_ns next_of(const struct slr_call *call, struct slr_part *m) {
	struct sluice_decision now, then;
	slr_part_judge(call, m, 0, false, &now);
	slr_part_judge(call, m, (uint64_t)now.remaining + 1, false, &then);
	return then.retry_after_ns;
}

struct sl_shortage slr_shortage_of(const struct slr_call *call, struct slr_part *m, enum slr_failure failure) {
	struct sl_shortage shortage = {.bound = SLUICE_BOUND_ROOM};
	struct sl_ledger open = slr_part_open(m);
	switch (failure) {
	case SLR_TOO_MANY_HOLDS: /* in a moment there is a place */
		shortage.bound = SLUICE_BOUND_HOLDS;
		shortage.wait_ns = SL_MS_NS;
		break;
	case SLR_TOO_MANY_OPEN: /* until the first of them has ended */
		shortage.bound = SLUICE_BOUND_RESERVATIONS;
		shortage.wait_ns = open.count == 0 ? MOMENT_NS : open.list[0].end - m->clock;
		break;
	case SLR_LOG_TOO_LONG: /* until the oldest is gone */
		shortage.wait_ns = next_of(call, m);
		break;
	case SLR_TOO_MANY_COUNTERS:
		shortage.wait_ns = slr_key_first_end(call, m->key);
		break;
	default:
		shortage.wait_ns = sl_min(MOMENT_NS, sl_max(m->cell.limit->window_ns, SL_MS_NS));
	}
	return shortage;
}

struct slr_key *slr_record_key(const struct slr_deciding *d) {
	for (uint32_t i = 0; i < d->call->asked.item_count; i++)
		if (d->parts[i].cell.counts && !d->parts[i].cell.tried)
			return d->parts[i].key;
	return NULL;
}

bool slr_counter_fits(const struct slr_deciding *d, const struct slr_part *m) {
	uint32_t more = 0;
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		const struct sl_cell *c = &d->parts[i].cell;
		more += d->parts[i].key == m->key && c->counts && !c->there && !c->tried && c->leader == i;
	}
	return slr_value_count(m->key->value) + more <= SLR_COUNTERS_MAX ||
	       slr_key_needed(d->call, m->key) + more <= SLR_COUNTERS_MAX;
}

/* The rows that a call makes at a key: counters and ledgers, without which it charges nothing; and contents, which a
 * full value does without, but which take the place of a row that is made after them. */
struct rows {
	uint32_t needed, wanted;
};

static struct rows rows_of(const struct slr_deciding *d, const struct slr_key *key) {
	struct rows rows = {0, 0};
	for (uint32_t i = 0; i < d->call->asked.item_count; i++) {
		const struct slr_part *m = &d->parts[i];
		if (!m->cell.charged || m->key != key)
			continue;
		rows.needed += !m->cell.there;
		rows.needed += m->cell.ttl_ns != 0 && m->ledger.count == 0;
		rows.wanted += m->cell.ttl_ns != 0 && m->ledger.count >= SL_LEDGER_LIST_MAX && m->contents.memory == NULL;
	}
	return rows;
}

bool slr_counters_fit(const struct slr_deciding *d, uint32_t *at) {
	for (*at = 0; *at < d->call->asked.item_count; ++*at) {
		const struct slr_part *m = &d->parts[*at];
		struct rows rows;
		if (!m->cell.charged || (m->cell.there && m->cell.ttl_ns == 0))
			continue;
		rows = rows_of(d, m->key);
		if (rows.needed != 0 && slr_value_count(m->key->value) + rows.needed + rows.wanted > SLR_COUNTERS_MAX)
			return false;
	}
	return true;
}

bool slr_record_fits(const struct slr_deciding *d) {
	const struct slr_key *key = d->call->token != 0 ? slr_record_key(d) : NULL;
	return key == NULL || slr_token_fits(key->value, rows_of(d, key).needed);
}
