/* A request's way through an index: what each of its values is filed under gives a list, and the lists are merged. */
#include "base/assert.h"
#include "policy/index_inside.h"

/* Everything: more lists than there is room for, or a value that can't be looked up. */
static void walk_all(const struct sl_index *index, struct sl_index_walk *walk) {
	walk->all_count = index->count;
}

static void add_list(const struct sl_index *index, uint32_t list, struct sl_index_walk *walk) {
	const uint32_t i = walk->list_count;
	if (i == SL_INDEX_LISTS_MAX) {
		walk_all(index, walk);
		return;
	}
	walk->list_count = i + 1;
	if ((list & SL_LIST_ONE) != 0) {
		walk->next[i] = list & ~SL_LIST_ONE;
		walk->left[i] = 0;
		return;
	}
	walk->next[i] = index->lists[list + 1];
	walk->at[i] = &index->lists[list + 2];
	walk->left[i] = index->lists[list] - 1;
}

/* Others of that tag are told as well, and found not to hold. */
static void look_up(const struct sl_index *index, uint64_t hash, struct sl_index_walk *walk) {
	const uint32_t tag = sl_index_tag(hash);
	for (uint32_t slot = (uint32_t)hash & index->slot_mask; index->slots[slot].tag != 0;
	     slot = (slot + 1) & index->slot_mask)
		if (index->slots[slot].tag == tag)
			add_list(index, index->slots[slot].list, walk);
}

static void look_up_stems(const struct sl_index *index, const struct sl_stems *stems, const struct sl_stem *value,
                          struct sl_index_walk *walk) {
	for (uint32_t at = sl_stems_find(stems, value); at != SL_STEM_NONE; at = stems->list[at].shorter)
		add_list(index, stems->list[at].tag, walk);
}

static __attribute__((noinline)) void look_up_suffix(const struct sl_index *index, const struct sl_stems *stems,
                                                     struct sluice_bytes value, struct sl_index_walk *walk) {
	char turned[SLUICE_KEY_BYTES_MAX];
	const struct sl_stem stem = sl_index_stem(sl_index_turn(value, turned));
	look_up_stems(index, stems, &stem, walk);
}

static void look_up_network(const struct sl_index *index, const struct sl_stems *stems, struct sluice_bytes value,
                            struct sl_index_walk *walk) {
	unsigned char bytes[SL_NETWORK_BYTES];
	struct sl_network network;
	if (!sl_network_parse(value, &network, NULL))
		return;
	const struct sl_stem stem = sl_index_network(&network, bytes);
	look_up_stems(index, stems, &stem, walk);
}

static __attribute__((noinline)) void look_up_shapes(const struct sl_index *index, uint16_t attribute,
                                                     struct sluice_bytes path, struct sl_index_walk *walk) {
	char literals[SLUICE_KEY_BYTES_MAX + SL_SEGMENTS_MAX];
	uint32_t ends[SL_SEGMENTS_MAX];
	if (path.len > SLUICE_KEY_BYTES_MAX) {
		walk_all(index, walk);
		return;
	}
	const uint32_t count = sl_index_split(path, ends);
	for (uint32_t i = 0; i < index->shape_count; i++) {
		const struct sl_shape *shape = &index->shapes[i];
		if (shape->ends ? count != shape->count : count < shape->count)
			continue;
		struct sluice_bytes text = sl_index_literals(shape, path, ends, literals);
		look_up(index, sl_index_hash(index->key, SL_FILED_PARTS, attribute, i, text), walk);
	}
}

bool sl_index_asks(const struct sl_index *index, uint32_t number) {
	for (uint32_t i = 0; i < index->attribute_count; i++)
		if (index->attributes[i].number == number)
			return true;
	return false;
}

void sl_index_begin(const struct sl_index *index, const struct sluice_bytes *values, struct sl_index_walk *walk) {
	walk->list_count = walk->all = walk->all_count = 0;
	if (index->always != SL_INDEX_END)
		add_list(index, index->always, walk);
	for (uint32_t i = 0; i < index->attribute_count; i++) {
		const struct sl_index_attribute *attribute = &index->attributes[i];
		const struct sluice_bytes value = values[attribute->number];
		if (value.data == NULL)
			continue;
		if (attribute->exact)
			look_up(index, sl_index_hash(index->key, SL_FILED_EXACT, attribute->number, 0, value), walk);
		if (attribute->shapes)
			look_up_shapes(index, attribute->number, value, walk);
		if (attribute->stems[SL_FILED_SUFFIX].count != 0)
			look_up_suffix(index, &attribute->stems[SL_FILED_SUFFIX], value, walk);
		if (attribute->stems[SL_FILED_NETWORK].count != 0)
			look_up_network(index, &attribute->stems[SL_FILED_NETWORK], value, walk);
		if (attribute->stems[SL_FILED_PREFIX].count != 0) {
			const struct sl_stem stem = sl_index_stem(value);
			look_up_stems(index, &attribute->stems[SL_FILED_PREFIX], &stem, walk);
		}
	}
}

/* The next number of a list; a list that is at its end gives its place to the last one. */
static void advance(struct sl_index_walk *walk, uint32_t i) {
	if (walk->left[i] != 0) {
		SL_DEBUG_ASSERT(*walk->at[i] > walk->next[i]);
		walk->next[i] = *walk->at[i]++;
		walk->left[i]--;
		return;
	}
	const uint32_t last = --walk->list_count;
	walk->next[i] = walk->next[last];
	walk->at[i] = walk->at[last];
	walk->left[i] = walk->left[last];
}

uint32_t sl_index_next(struct sl_index_walk *walk) {
	if (walk->all_count != 0)
		return walk->all < walk->all_count ? walk->all++ : SL_INDEX_END;
	uint32_t least = SL_INDEX_END;
	for (uint32_t i = 0; i < walk->list_count; i++)
		least = walk->next[i] < least ? walk->next[i] : least;
	for (uint32_t i = walk->list_count; i > 0; i--)
		if (walk->next[i - 1] == least)
			advance(walk, i - 1);
	return least;
}
