/* See audit.h. */
#include "hosts/cli/audit.h"

#include "algo/step.h"
#include "base/math.h"
#include "base/out.h"
#include "base/siphash.h"
#include "base/text.h"
#include "os/map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { SLOTS_FIRST = 1024, ROOM_FIRST = 4, KEY_SHOWN_MAX = 60 };

/* What counts until its end: so much cost, or one member, by the hash of its slot. */
struct entry {
	sluice_ns end;
	uint64_t what;
};

/* A counter; or a member of one, of which only `last` is used: when it ends to count. */
struct slot {
	uint64_t hash; /* 0: free */
	uint64_t sum, bound;
	sluice_ns last; /* the latest instant */
	struct entry *heap;
	uint32_t count, room;
	bool exceeded;
};

struct sl_audit {
	bool apart;
	uint64_t secret[2], bytes, bytes_max;
	struct slot *slots;
	size_t slot_count, used; /* a power of two; at most three quarters of it */
	uint32_t position_count;
	struct sl_audit_worst worst[];
};

struct sl_audit *sl_audit_open(uint32_t positions, uint64_t bytes_max, bool apart) {
	struct sl_audit *audit = calloc(1, sizeof *audit + positions * sizeof *audit->worst);
	if (audit == NULL)
		return NULL;
	audit->apart = apart;
	audit->position_count = positions;
	audit->bytes_max = bytes_max;
	audit->slot_count = SLOTS_FIRST;
	audit->bytes = SLOTS_FIRST * sizeof *audit->slots;
	audit->slots = calloc(SLOTS_FIRST, sizeof *audit->slots);
	if (audit->slots != NULL && sl_random_secret(audit->secret))
		return audit;
	sl_audit_close(audit);
	return NULL;
}

void sl_audit_close(struct sl_audit *audit) {
	for (size_t i = 0; audit != NULL && audit->slots != NULL && i < audit->slot_count; i++)
		free(audit->slots[i].heap);
	if (audit != NULL)
		free(audit->slots);
	free(audit);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool may_take(struct sl_audit *audit, uint64_t more) {
	if (more > audit->bytes_max - sl_min(audit->bytes, audit->bytes_max))
		return false;
	audit->bytes += more;
	return true;
}

static struct slot *find(struct slot *slots, size_t slot_count, uint64_t hash) {
	size_t at = hash & (slot_count - 1);
	while (slots[at].hash != 0 && slots[at].hash != hash)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

static bool double_slots(struct sl_audit *audit) {
	size_t count = 2 * audit->slot_count;
	struct slot *slots = may_take(audit, audit->slot_count * sizeof *slots) ? calloc(count, sizeof *slots) : NULL;
	if (slots == NULL)
		return false;
	for (size_t i = 0; i < audit->slot_count; i++)
		if (audit->slots[i].hash != 0)
			*find(slots, count, audit->slots[i].hash) = audit->slots[i];
	free(audit->slots);
	audit->slots = slots;
	audit->slot_count = count;
	return true;
}

/* The slot of a hash, a new one where there is none; NULL without memory. Moves the others. */
static struct slot *take_slot(struct sl_audit *audit, uint64_t hash) {
	struct slot *slot = find(audit->slots, audit->slot_count, hash);
	if (slot->hash != 0)
		return slot;
	if (audit->used + 1 > audit->slot_count / 4 * 3) {
		if (!double_slots(audit))
			return NULL;
		slot = find(audit->slots, audit->slot_count, hash);
	}
	audit->used++;
	slot->hash = hash;
	return slot;
}

/* ---- what counts: a heap, the first to end on top ---------------------------------------------------------------- */

static bool push(struct sl_audit *audit, struct slot *slot, struct entry entry) {
	if (slot->count == slot->room) {
		uint32_t room = slot->room == 0 ? ROOM_FIRST : 2 * slot->room;
		struct entry *heap = may_take(audit, (room - slot->room) * sizeof *heap)
		                         ? realloc(slot->heap, room * sizeof *heap)
		                         : NULL;
		if (heap == NULL)
			return false;
		slot->heap = heap;
		slot->room = room;
	}
	uint32_t at = slot->count++;
	for (; at > 0 && entry.end < slot->heap[(at - 1) / 2].end; at = (at - 1) / 2)
		slot->heap[at] = slot->heap[(at - 1) / 2];
	slot->heap[at] = entry;
	return true;
}

/* Puts an entry in the place of the first, and where it belongs. */
static void sink(struct slot *slot, struct entry entry) {
	uint32_t at = 0;
	for (uint32_t child; (child = 2 * at + 1) < slot->count; at = child) {
		child += child + 1 < slot->count && slot->heap[child + 1].end < slot->heap[child].end;
		if (entry.end <= slot->heap[child].end)
			break;
		slot->heap[at] = slot->heap[child];
	}
	slot->heap[at] = entry;
}

static void drop_first(struct slot *slot) {
	struct entry last = slot->heap[--slot->count];
	if (slot->count != 0)
		sink(slot, last);
}

/* Takes out what has ended by `now`. A member who came again since counts on, until his later end. */
static void expire(struct sl_audit *audit, struct slot *slot, bool members, sluice_ns now) {
	while (slot->count != 0 && slot->heap[0].end <= now) {
		struct entry first = slot->heap[0];
		sluice_ns end = members ? find(audit->slots, audit->slot_count, first.what)->last : 0;
		if (end > first.end) {
			sink(slot, (struct entry){end, first.what});
			continue;
		}
		slot->sum -= members ? 1 : first.what;
		drop_first(slot);
	}
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct sl_audit *audit, uint64_t a, uint64_t b, struct sluice_bytes text) {
	uint64_t words[2] = {a, b}, hash = sl_siphash(audit->secret, words, 2, text, 1, 3);
	return hash + (hash == 0); /* 0 is a free slot */
}

static uint64_t hash_of_counter(const struct sl_audit *audit, const struct sl_audit_charge *charge) {
	struct sl_identity identity = sl_identity_of(charge->limit);
	uint64_t of_limit = hash_of(audit, identity.kind, identity.name, sl_slice(NULL, 0));
	return hash_of(audit, of_limit, charge->position, charge->key);
}

/* How long a charge counts. */
static sluice_ns window_of(const struct sl_audit *audit, const struct sluice_limit *limit) {
	sluice_ns less = audit->apart ? limit->window_ns / 10000 + SL_MS_NS : 0;
	return limit->window_ns > less ? limit->window_ns - less : 0;
}

/* Is one worse than the other, as a part of its bound? */
static bool is_worse(uint64_t most, uint64_t bound, const struct sl_audit_worst *worst) {
	if (worst->most == 0 || bound == UINT64_MAX || worst->bound == UINT64_MAX)
		return most > worst->most;
	return sl_mul(most, worst->bound) > sl_mul(worst->most, bound);
}

static void judge(struct sl_audit *audit, struct slot *slot, const struct sl_audit_charge *charge, sluice_ns now) {
	struct sl_audit_worst *worst = &audit->worst[charge->position];
	if (slot->sum > slot->bound && !slot->exceeded) {
		slot->exceeded = true;
		worst->exceeded++;
	}
	if (!is_worse(slot->sum, slot->bound, worst))
		return;
	worst->most = slot->sum;
	worst->bound = slot->bound;
	worst->at = now;
	worst->limit = *charge->limit;
	worst->key_len = sl_min(charge->key.len, SL_AUDIT_KEY_MAX);
	if (worst->key_len != 0)
		memcpy(worst->key, charge->key.data, worst->key_len);
}

/* Counts a member, unless it is counted already; 1 or 0; -1 without memory. */
static int note_member(struct sl_audit *audit, const struct sl_audit_charge *charge, uint64_t hash, sluice_ns now,
                       sluice_ns end, uint64_t *member) {
	*member = hash_of(audit, hash, 1, charge->member);
	struct slot *slot = take_slot(audit, *member);
	if (slot == NULL)
		return -1;
	bool is_counted = slot->last > now;
	slot->last = sl_max(slot->last, end);
	return !is_counted;
}

static bool count(struct sl_audit *audit, const struct sl_audit_charge *charge, uint64_t hash, sluice_ns since,
                  sluice_ns now) {
	bool members = sl_rule_has(charge->limit, SL_TAKES_MEMBER);
	struct slot *slot = find(audit->slots, audit->slot_count, hash);
	struct entry entry = {sl_ns_plus(since, window_of(audit, charge->limit)), charge->cost};
	expire(audit, slot, members, now);
	if (sl_rule_has(charge->limit, SL_TAKES_LEASE))
		entry.end = sl_min(entry.end, charge->until);
	if (charge->cost == 0 || entry.end <= now)
		return true;
	int is_new = members ? note_member(audit, charge, hash, now, entry.end, &entry.what) : 1;
	slot = find(audit->slots, audit->slot_count, hash); /* a new member may have moved it */
	if (is_new <= 0)
		return is_new == 0;
	slot->sum += members ? 1 : entry.what;
	return push(audit, slot, entry);
}

bool sl_audit_add(struct sl_audit *audit, const struct sl_audit_charge *charge) {
	const struct sluice_limit *limit = charge->limit;
	/* a bucket counts time in ticks, and its bound is one of ticks */
	sluice_ns tick = sl_rule_has(limit, SL_DRAINS) ? limit->derived[SL_TICK_NS] : 1;
	sluice_ns since = charge->since - charge->since % tick, now = charge->now - charge->now % tick;
	uint64_t hash = hash_of_counter(audit, charge);
	struct slot *slot = take_slot(audit, hash);
	if (slot == NULL)
		return false;
	audit->worst[charge->position].counters += slot->last == 0;
	if (now < slot->last) {
		since += slot->last - now;
		now = slot->last;
	}
	slot->last = now;
	slot->bound = sl_max(slot->bound, sl_step_most(limit));
	if (!count(audit, charge, hash, since, now))
		return false;
	judge(audit, find(audit->slots, audit->slot_count, hash), charge, now);
	return true;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

const struct sl_audit_worst *sl_audit_worst(const struct sl_audit *audit, uint32_t position) {
	return &audit->worst[position];
}

uint64_t sl_audit_exceeded(const struct sl_audit *audit) {
	uint64_t exceeded = 0;
	for (uint32_t i = 0; i < audit->position_count; i++)
		exceeded += audit->worst[i].exceeded;
	return exceeded;
}

/* "2026-01-31 12:00:59.999 UTC" */
static void print_instant(FILE *to, sluice_ns at) {
	char text[32] = "";
	struct tm parts;
	time_t s = (time_t)(at / 1000000000);
	if (gmtime_r(&s, &parts) != NULL)
		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
	fprintf(to, "%s.%03u UTC", text, (unsigned)(at / 1000000 % 1000));
}

static void print_worst(const struct sl_audit_worst *worst, FILE *to, const char *name) {
	char limit[SLUICE_LIMIT_TEXT_MAX], bound[24] = "-", key[4 * KEY_SHOWN_MAX + 8];
	struct sl_out out = sl_out_to(key, sizeof key);
	sluice_limit_print(&worst->limit, limit);
	if (worst->bound != UINT64_MAX)
		snprintf(bound, sizeof bound, "%" PRIu64, worst->bound);
	sl_out_quoted(&out, sl_slice(worst->key, worst->key_len), KEY_SHOWN_MAX);
	fprintf(to, "  %10" PRIu64 "  %10s  %s%s%s, key %.*s, up to ", worst->most, bound, name != NULL ? name : "",
	        name != NULL ? ": " : "", limit, (int)sl_out_len(&out), key);
	print_instant(to, worst->at);
	fputs(worst->most > worst->bound ? "  EXCEEDED\n" : "\n", to);
}

void sl_audit_print(const struct sl_audit *audit, FILE *to, const char *(*name)(const void *names, uint32_t position),
                    const void *names) {
	uint64_t counters = 0, exceeded = sl_audit_exceeded(audit);
	fputs("\naudit: the largest cost admitted in any window, and the bound that is stated\n"
	      "        most       bound  limit\n",
	      to);
	for (uint32_t i = 0; i < audit->position_count; i++) {
		counters += audit->worst[i].counters;
		if (audit->worst[i].most != 0)
			print_worst(&audit->worst[i], to, name != NULL ? name(names, i) : NULL);
	}
	if (exceeded == 0)
		fprintf(to, "audit: %" PRIu64 " counters, none above its bound\n", counters);
	else
		fprintf(to, "audit: EXCEEDED by %" PRIu64 " of %" PRIu64 " counters\n", exceeded, counters);
}
