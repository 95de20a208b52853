/* A list of series for each worker, which it alone writes and makes longer: a series is whole before `count` says that
 * it is there, and is never moved. The table by which the worker finds a name is its own. */
#include "hosts/server/watch/rule_stats.h"

#include "base/siphash.h"

#include <stdlib.h>

enum { SLOTS = 2 * 4096 };
_Static_assert(SLOTS >= 2 * SL_RULE_SERIES_MAX && (SLOTS & (SLOTS - 1)) == 0, "half full at most");

struct series {
	uint32_t domain_len, len;
	_Atomic uint64_t counts[SL_RULE_COUNTS];
	char name[];
};

struct sl_rule_page {
	_Atomic uint32_t count;
	struct series *list[SL_RULE_SERIES_MAX]; /* the last is all others, once there are so many */
	uint16_t slots[SLOTS];                   /* 1 + its place in the list; 0: free */
};

static const char OTHERS[] = "(others)";

static uint64_t hash_of(struct sluice_bytes name) {
	static const uint64_t key[2] = {0x72756c6573746174, 0x732d736572696573};
	return sl_siphash(key, NULL, 0, name, 1, 3);
}

static struct series *append(struct sl_rule_page *page, struct sluice_bytes domain, struct sluice_bytes name) {
	uint32_t at = atomic_load_explicit(&page->count, memory_order_relaxed);
	struct series *series = calloc(1, sizeof *series + name.len);
	if (series == NULL)
		return NULL;
	const bool begins = domain.len < name.len && ((const char *)name.data)[domain.len] == '.' &&
	                    sl_bytes_equal(sl_slice(name.data, domain.len), domain);
	series->domain_len = begins ? (uint32_t)domain.len : 0; /* one that is cut has none */
	series->len = (uint32_t)name.len;
	memcpy(series->name, name.data, name.len);
	page->list[at] = series;
	/* release; pairs with the acquire of readers: what they count to is whole */
	atomic_store_explicit(&page->count, at + 1, memory_order_release);
	return series;
}

/* The series of a name, made where there is room; else that of all others. NULL without memory. */
static struct series *series_of(struct sl_rule_page *page, struct sluice_bytes domain, struct sluice_bytes name) {
	uint64_t at = hash_of(name);
	uint32_t count = atomic_load_explicit(&page->count, memory_order_relaxed);
	for (; page->slots[at % SLOTS] != 0; at++) {
		struct series *series = page->list[page->slots[at % SLOTS] - 1];
		if (sl_bytes_equal(sl_slice(series->name, series->len), name))
			return series;
	}
	if (count == SL_RULE_SERIES_MAX)
		return page->list[SL_RULE_SERIES_MAX - 1];
	if (count == SL_RULE_SERIES_MAX - 1)
		return append(page, sl_slice(NULL, 0), sl_str(OTHERS));
	struct series *series = append(page, domain, name);
	if (series != NULL)
		page->slots[at % SLOTS] = (uint16_t)(count + 1);
	return series;
}

void sl_rule_stats_count(struct sl_rule_page *_Atomic *place, struct sluice_bytes domain, struct sluice_bytes name,
                         const uint64_t add[SL_RULE_COUNTS]) {
	struct sl_rule_page *page = atomic_load_explicit(place, memory_order_relaxed);
	if (page == NULL) {
		page = calloc(1, sizeof *page);
		atomic_store_explicit(place, page, memory_order_release); /* pairs with the acquire of readers */
	}
	struct series *series = page == NULL ? NULL : series_of(page, domain, name);
	for (int i = 0; series != NULL && i < SL_RULE_COUNTS; i++)
		if (add[i] != 0) /* this worker's alone */
			atomic_store_explicit(&series->counts[i],
			                      atomic_load_explicit(&series->counts[i], memory_order_relaxed) + add[i],
			                      memory_order_relaxed);
}

void sl_rule_stats_free(struct sl_rule_page *page) {
	uint32_t count = page == NULL ? 0 : atomic_load_explicit(&page->count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++)
		free(page->list[i]);
	free(page);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static uint32_t count_of(const struct sl_rule_page *page) {
	return page == NULL ? 0 : atomic_load_explicit(&page->count, memory_order_acquire);
}

uint32_t sl_rule_stats_most(const struct sl_rule_page *const *pages, uint32_t page_count) {
	uint32_t most = 0;
	for (uint32_t i = 0; i < page_count; i++)
		most += count_of(pages[i]);
	return most;
}

/* Names that are added up, found by hash. */
struct adding {
	struct sl_rule_sum *sums;
	uint32_t count, room, slot_count;
	uint32_t *slots; /* 1 + a place in sums; 0: free */
};

static void add(struct adding *to, const struct series *series) {
	const size_t domain_len = series->domain_len,
				 begin = domain_len != 0 && domain_len < series->len ? domain_len + 1 : domain_len;
	struct sluice_bytes domain = {series->name, domain_len}, descriptor = {series->name + begin, series->len - begin};
	uint64_t at = hash_of(domain) ^ hash_of(descriptor) >> 1;
	struct sl_rule_sum *sum = NULL;
	for (; to->slots[at & (to->slot_count - 1)] != 0 && sum == NULL; at++) {
		sum = &to->sums[to->slots[at & (to->slot_count - 1)] - 1];
		if (!sl_bytes_equal(sum->domain, domain) || !sl_bytes_equal(sum->descriptor, descriptor))
			sum = NULL;
	}
	if (sum == NULL && to->count == to->room)
		return; /* it came while we were adding up */
	if (sum == NULL) {
		sum = &to->sums[to->count++];
		*sum = (struct sl_rule_sum){.domain = domain, .descriptor = descriptor};
		to->slots[at & (to->slot_count - 1)] = to->count;
	}
	for (int i = 0; i < SL_RULE_COUNTS; i++)
		sum->counts[i] += atomic_load_explicit(&series->counts[i], memory_order_relaxed);
}

uint32_t sl_rule_stats_sum(const struct sl_rule_page *const *pages, uint32_t page_count, struct sl_rule_sum *sums,
                           uint32_t room) {
	struct adding to = {.sums = sums, .room = room, .slot_count = 16};
	while (to.slot_count < 2 * room)
		to.slot_count *= 2;
	to.slots = calloc(to.slot_count, sizeof *to.slots);
	for (uint32_t i = 0; i < page_count && to.slots != NULL; i++)
		for (uint32_t k = 0, count = count_of(pages[i]); k < count; k++)
			add(&to, pages[i]->list[k]);
	free(to.slots);
	return to.count;
}
