/* See denial_cache.h. An entry is one cache line; the entries of one tag, for different costs, share its set. */
#include "hosts/server/remote/denial_cache.h"

#include "algo/rule.h"
#include "base/siphash.h"

#include <stdlib.h>

struct entry {
	uint64_t tag;
	sluice_ns told, until; /* until: 0 where it is free */
	sluice_ns retry, reset, next;
	uint64_t quota : 56, bound : 8;
	uint32_t cost, remaining;
};

struct sl_denial_cache {
	struct entry entries[SL_DENIAL_CACHE_ENTRIES];
};

uint64_t sl_item_counter(const uint64_t secret[2], const struct sluice_limit *limit, struct sluice_bytes key) {
	const uint64_t counter[2] = {limit->derived[SL_IDENT_KIND], limit->derived[SL_IDENT_NAME]};
	return sl_siphash(secret, counter, 2, key, 1, 3);
}

uint64_t sl_item_tag(const uint64_t secret[2], const struct sluice_limit *limit, struct sluice_bytes key) {
	const uint64_t answer[2] = {sl_item_counter(secret, limit, key), (uint64_t)limit->quota << 32 | limit->burst};
	return sl_siphash(secret, answer, 2, sl_slice(&limit->edge, 1), 1, 3);
}

struct sl_denial_cache *sl_denial_cache_new(void) {
	return calloc(1, sizeof(struct sl_denial_cache));
}

void sl_denial_cache_free(struct sl_denial_cache *cache) {
	free(cache);
}

static size_t set_of(uint64_t tag) {
	return tag % (SL_DENIAL_CACHE_ENTRIES / SL_DENIAL_CACHE_WAYS) * SL_DENIAL_CACHE_WAYS;
}

void sl_denial_cache_add(struct sl_denial_cache *cache, uint64_t tag, uint32_t cost,
                         const struct sluice_decision *denial, sluice_ns now) {
	struct entry *set = &cache->entries[set_of(tag)], *at = set;
	for (int i = 0; i < SL_DENIAL_CACHE_WAYS; i++) {
		if (set[i].tag == tag && set[i].cost == cost) {
			at = &set[i];
			break;
		}
		if (set[i].until < at->until)
			at = &set[i];
	}
	*at = (struct entry){
		.tag = tag,
		.told = now,
		.until =
			now + (denial->retry_after_ns < SL_DENIAL_CACHE_NS_MAX ? denial->retry_after_ns : SL_DENIAL_CACHE_NS_MAX),
		.retry = denial->retry_after_ns,
		.reset = denial->reset_after_ns,
		.next = denial->next_after_ns,
		.quota = denial->quota,
		.bound = denial->bound,
		.cost = cost,
		.remaining = denial->remaining,
	};
}

bool sl_denial_cache_find(const struct sl_denial_cache *cache, uint64_t tag, uint32_t cost, sluice_ns now,
                          struct sluice_decision *denial) {
	const struct entry *set = &cache->entries[set_of(tag)];
	for (int i = 0; i < SL_DENIAL_CACHE_WAYS; i++) {
		const struct entry *e = &set[i];
		if (e->tag != tag || e->cost != cost || now >= e->until)
			continue;
		*denial = (struct sluice_decision){
			.bound = e->bound,
			.quota = e->quota,
			.remaining = e->remaining,
			.retry_after_ns = sl_denial_cache_left(e->retry, now - e->told),
			.reset_after_ns = sl_denial_cache_left(e->reset, now - e->told),
			.next_after_ns = sl_denial_cache_left(e->next, now - e->told),
		};
		return true;
	}
	return false;
}

void sl_denial_cache_forget(struct sl_denial_cache *cache, uint64_t tag) {
	struct entry *set = &cache->entries[set_of(tag)];
	for (int i = 0; i < SL_DENIAL_CACHE_WAYS; i++)
		if (set[i].tag == tag)
			set[i].until = 0;
}
