/* concurrency: at most N in flight. A lease is held from its acquisition until it is released, or until it ends, T
 * later, whichever comes first; a cost c is admitted when held + c <= N. What a crashed holder leaves behind is back at
 * its T, to the nanosecond, and no sooner.
 *
 * A lease is a seat (seats.c). Whoever acquires one that he holds already, by its id, holds it and nothing more: he
 * is admitted, nothing is charged or prolonged. N is no part of the counter: lowered, leases stay as they are, and
 * nobody is admitted until enough have gone. */
#include "algo/seats.h"
#include "base/assert.h"
#include "base/siphash.h"

void sl_lease_step(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now, uint64_t cost,
                   bool charge, struct sluice_decision *decision) {
	struct sl_seats *p = sl_seats_look(counter, now);
	uint64_t room = limit->quota > p->held ? limit->quota - p->held : 0;
	sluice_ns last_end = p->last_end;
	counter->known = p->mine != SL_NO_PLACE;
	sl_decide_room(decision, limit->quota, room, counter->known ? 0 : cost);
	if (!decision->allowed)
		decision->retry_after_ns = cost > limit->quota ? SLUICE_NEVER : sl_seats_wait(p, limit->quota - cost);
	if (charge && decision->allowed && !counter->known && cost != 0) {
		SL_DEBUG_ASSERT(cost <= room);
		sl_seats_find_spare(p);
		decision->remaining = (uint32_t)(room - cost);
		last_end = sl_max(last_end, sl_seats_end(limit, p->t));
	}
	decision->reset_after_ns = sl_seats_wait_for(p, last_end);
}

uint64_t sl_lease_block_bytes(const struct sluice_limit *limit, const struct sl_counter *counter, uint32_t cost) {
	return counter->known ? 0 : sl_seats_block_bytes(&counter->seats, limit->quota, cost);
}

void sl_lease_write(const struct sluice_limit *limit, struct sl_counter *counter, uint32_t cost, void *block,
                    uint64_t block_bytes) {
	SL_ASSERT(counter->known == (counter->seats.mine != SL_NO_PLACE));
	if (!counter->known)
		sl_seats_write(limit, counter, cost, block, block_bytes);
}

bool sl_lease_is_held(const struct sl_counter *counter, sluice_ns now) {
	struct sl_counter copy = *counter;
	return sl_seats_find(&copy, now)->mine != SL_NO_PLACE;
}

bool sl_lease_release(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	const struct sl_seats *p = sl_seats_find(counter, now);
	(void)limit;
	if (p->mine == SL_NO_PLACE)
		return false;
	sl_seats_set_end(p, p->mine, 0);
	return true;
}

bool sl_lease_renew(const struct sluice_limit *limit, struct sl_counter *counter, sluice_ns now) {
	const struct sl_seats *p = sl_seats_find(counter, now);
	if (p->mine == SL_NO_PLACE)
		return false;
	sl_seats_set_end(p, p->mine, sl_seats_end(limit, p->t));
	sl_seats_stamp(counter, p->t);
	return true;
}

uint32_t sl_lease_list(const struct sl_counter *counter, sluice_ns now, struct sluice_holder *list, uint32_t room) {
	struct sl_counter copy = *counter;
	const struct sl_seats *p = sl_seats_look(&copy, now);
	uint32_t used = 0;
	for (uint32_t i = 0; i < p->capacity && used < room; i++)
		if (p->ends[i] > p->t)
			list[used++] = (struct sluice_holder){.id = p->ids[i],
			                                      .cost = p->costs != NULL ? p->costs[i] : 1,
			                                      .ends_after_ns = sl_seats_wait_for(p, p->ends[i])};
	SL_ASSERT(used <= p->live);
	return p->live;
}

int sl_lease_order(const void *one, const void *other) {
	const struct sluice_holder *a = one, *b = other;
	if (a->ends_after_ns != b->ends_after_ns)
		return a->ends_after_ns < b->ends_after_ns ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static bool read_hex(struct sluice_bytes text, uint64_t *number) {
	const char *p = text.data;
	*number = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
			return false;
		*number = *number << 4 | (uint64_t)(p[i] <= '9' ? p[i] - '0' : p[i] - 'a' + 10);
	}
	return text.len == 16;
}

uint64_t sl_id_number(struct sluice_bytes id) {
	/* A fixed key: an id says the same to every store and every host. */
	static const uint64_t key[2] = {0x6c656173652d6964, 0x2d6f662d736c7569};
	uint64_t number;
	if (!read_hex(id, &number))
		number = sl_siphash(key, NULL, 0, id, 2, 4);
	return number != 0 ? number : 1;
}
