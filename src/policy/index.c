/* Making an index: what of its conditions each `when` is filed under, and the tables of that.
 *
 *   count    of all values of all conditions, how many `when` have each
 *   choose   for each `when` the condition whose commonest value is the rarest: that is what a request that meets it
 *            costs at worst, in others that are told for nothing
 *   file     (what, number) sorted; equal ones become a list, each list a slot or a stem
 *
 * Slots are looked up by what requests bring, and filled by what the policy has: nobody who asks makes them longer. But
 * names in a policy may have been chosen by strangers. So a key of the hash under which the slots crowd is given up for
 * the next one: to crowd under all of them, as many hashes would have to collide at once.
 */
#include "base/assert.h"
#include "policy/index_inside.h"
#include "policy/route.h"

#include <stdlib.h>

enum { PROBES_MAX = 64, KEYS_MAX = 16 };

/* What a value of a condition is filed under. */
struct filed {
	uint64_t hash;
	struct sl_stem stem; /* of stems: its data lie in the policy, or for a moment in the maker */
	uint32_t number;     /* of the `when` */
	uint16_t attribute;
	uint8_t kind; /* enum sl_filed */
};

struct tally {
	uint64_t hash;
	uint32_t count;
};

struct maker {
	struct sl_pool *pool, *scratch;
	const char *first;
	size_t stride;
	struct sl_index *index;
	struct tally *tallies; /* by hash, open addressing; count 0 is free */
	uint32_t tally_mask;
	struct filed *filed;
	uint32_t filed_count;
	uint32_t *lists;
	uint32_t lists_used;
	uint32_t number;                                   /* of the `when` at hand */
	uint32_t commonest;                                /* of the condition at hand */
	char text[SLUICE_KEY_BYTES_MAX + SL_SEGMENTS_MAX]; /* of the value at hand */
	bool keeps;                                        /* what is filed stays: its text goes to the policy's memory */
};

typedef void use_filed(struct maker *maker, struct filed *filed);

static const struct sl_when *when_at(const struct maker *maker, uint32_t number) {
	return (const struct sl_when *)(const void *)(maker->first + number * maker->stride);
}

static uint32_t value_count(const struct sl_condition *condition) {
	return condition->exact_count + condition->prefix_count + condition->suffix_count + condition->network_count +
	       condition->route_count;
}

/* ---- what a condition's values are filed under ------------------------------------------------------------ */

static void use_text(struct maker *maker, enum sl_filed kind, uint16_t attribute, uint32_t more,
                     struct sluice_bytes text, use_filed *use) {
	struct filed filed = {.stem = sl_index_stem(text), .attribute = attribute, .kind = (uint8_t)kind};
	filed.hash = sl_index_hash(maker->index->key, kind, attribute, more, text);
	filed.number = maker->number;
	use(maker, &filed);
}

static void use_suffix(struct maker *maker, uint16_t attribute, struct sluice_bytes suffix, use_filed *use) {
	struct sluice_bytes turned = sl_index_turn(suffix, maker->text);
	if (maker->keeps)
		turned.data = sl_pool_text(maker->pool, turned);
	if (turned.data != NULL)
		use_text(maker, SL_FILED_SUFFIX, attribute, 0, turned, use);
}

static void use_network(struct maker *maker, uint16_t attribute, const struct sl_network *network, use_filed *use) {
	unsigned char *bytes = (unsigned char *)maker->text;
	if (maker->keeps)
		bytes = sl_pool_take(maker->pool, SL_NETWORK_BYTES, 1);
	if (bytes == NULL)
		return;
	struct filed filed = {.stem = sl_index_network(network, bytes), .attribute = attribute, .kind = SL_FILED_NETWORK};
	filed.hash = sl_index_hash(maker->index->key, SL_FILED_NETWORK, attribute, filed.stem.bits,
	                           sl_slice(bytes, SL_NETWORK_BYTES));
	filed.number = maker->number;
	use(maker, &filed);
}

/* The number of a shape, new or known; SL_SHAPES_MAX where there are as many others. */
static uint32_t find_shape(struct sl_index *index, const struct sl_shape *shape) {
	uint32_t i = 0;
	while (i < index->shape_count && (index->shapes[i].parts != shape->parts || index->shapes[i].ends != shape->ends ||
	                                  index->shapes[i].count != shape->count))
		i++;
	if (i == index->shape_count && i < SL_SHAPES_MAX)
		index->shapes[index->shape_count++] = *shape;
	return i;
}

/* Of a prefix the last segment may go on: it is not compared. */
static void use_route(struct maker *maker, uint16_t attribute, const struct sl_route *route, use_filed *use) {
	const char *p = route->stem.data;
	uint32_t ends[SL_SEGMENTS_MAX], count = sl_index_split(route->stem, ends);
	struct sl_shape shape = {.count = count - route->prefix, .ends = !route->prefix};
	for (uint32_t i = 0; count <= SL_SEGMENTS_MAX && i < shape.count; i++) {
		uint32_t start = i == 0 ? 0 : ends[i - 1] + 1;
		shape.parts |= (uint32_t)(start < ends[i] && p[start] == '{') << i;
	}
	uint32_t number = count <= SL_SEGMENTS_MAX ? find_shape(maker->index, &shape) : SL_SHAPES_MAX;
	if (number < SL_SHAPES_MAX) {
		struct sluice_bytes literals = sl_index_literals(&shape, route->stem, ends, maker->text);
		use_text(maker, SL_FILED_PARTS, attribute, number, literals, use);
	} else {
		const char *brace = memchr(p, '{', route->stem.len);
		SL_ASSERT(brace != NULL);
		use_text(maker, SL_FILED_PREFIX, attribute, 0, sl_slice(p, (size_t)(brace - p)), use);
	}
}

static void use_each(struct maker *maker, const struct sl_condition *condition, use_filed *use) {
	const uint16_t attribute = (uint16_t)condition->attribute;
	for (uint32_t i = 0; i < condition->exact_count; i++)
		use_text(maker, SL_FILED_EXACT, attribute, 0, condition->exact[i], use);
	for (uint32_t i = 0; i < condition->prefix_count; i++)
		use_text(maker, SL_FILED_PREFIX, attribute, 0, condition->prefixes[i], use);
	for (uint32_t i = 0; i < condition->suffix_count; i++)
		use_suffix(maker, attribute, condition->suffixes[i], use);
	for (uint32_t i = 0; i < condition->network_count; i++)
		use_network(maker, attribute, &condition->networks[i], use);
	for (uint32_t i = 0; i < condition->route_count; i++)
		if (condition->routes[i].part_count != 0)
			use_route(maker, attribute, &condition->routes[i], use);
}

/* ---- counting and choosing -------------------------------------------------------------------------------- */

static struct tally *find_tally(const struct maker *maker, uint64_t hash) {
	uint32_t at = (uint32_t)hash & maker->tally_mask;
	while (maker->tallies[at].count != 0 && maker->tallies[at].hash != hash)
		at = (at + 1) & maker->tally_mask;
	return &maker->tallies[at];
}

static void count_one(struct maker *maker, struct filed *filed) {
	struct tally *tally = find_tally(maker, filed->hash);
	tally->hash = filed->hash;
	tally->count++;
}

static void look_at_one(struct maker *maker, struct filed *filed) {
	uint32_t count = find_tally(maker, filed->hash)->count;
	maker->commonest = count > maker->commonest ? count : maker->commonest;
}

static void file_one(struct maker *maker, struct filed *filed) {
	maker->filed[maker->filed_count++] = *filed;
}

/* Of equally rare ones what is looked up soonest. */
static uint32_t rank_of(const struct sl_condition *condition) {
	return condition->prefix_count != 0                              ? 3
	       : condition->network_count + condition->suffix_count != 0 ? 2
	       : condition->has_parts                                    ? 1
	                                                                 : 0;
}

static const struct sl_condition *choose(struct maker *maker, const struct sl_when *when) {
	const struct sl_condition *best = NULL;
	uint32_t least = 0;
	for (uint32_t i = 0; i < when->count; i++) {
		const struct sl_condition *one = &when->list[i];
		maker->commonest = 0;
		use_each(maker, one, look_at_one);
		bool better =
			best == NULL || maker->commonest < least || (maker->commonest == least && rank_of(one) < rank_of(best));
		best = better ? one : best;
		least = better ? maker->commonest : least;
	}
	return best;
}

static uint32_t power_above(uint32_t count) {
	uint32_t power = 16;
	while (power < count)
		power *= 2;
	return power;
}

/* Counts all values; false without memory. */
static bool count_all(struct maker *maker) {
	uint32_t values = 0;
	for (uint32_t i = 0; i < maker->index->count; i++)
		for (uint32_t k = 0; k < when_at(maker, i)->count; k++)
			values += value_count(&when_at(maker, i)->list[k]);
	uint32_t slots = power_above(2 * values);
	maker->tallies = sl_pool_take(maker->scratch, slots, sizeof *maker->tallies);
	maker->tally_mask = slots - 1;
	maker->filed = sl_pool_take(maker->scratch, values, sizeof *maker->filed);
	maker->lists = sl_pool_take(maker->scratch, 2 * (size_t)values + maker->index->count + 1, sizeof *maker->lists);
	if (maker->scratch->failed)
		return false;
	for (uint32_t i = 0; i < maker->index->count; i++)
		for (uint32_t k = 0; k < when_at(maker, i)->count; k++)
			use_each(maker, &when_at(maker, i)->list[k], count_one);
	return true;
}

/* ---- the tables --------------------------------------------------------------------------------------------- */

static bool has_slot(const struct filed *filed) {
	return filed->kind == SL_FILED_EXACT || filed->kind == SL_FILED_PARTS;
}

/* By the attribute, the kind, and what it is. */
static int compare_what(const struct filed *x, const struct filed *y) {
	if (x->attribute != y->attribute)
		return x->attribute < y->attribute ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (has_slot(x))
		return x->hash == y->hash ? 0 : x->hash < y->hash ? -1 : 1;
	return sl_stem_compare(&x->stem, &y->stem);
}

static int compare_filed(const void *a, const void *b) {
	const struct filed *x = a, *y = b;
	int order = compare_what(x, y);
	return order != 0 || x->number == y->number ? order : x->number < y->number ? -1 : 1;
}

/* Numbers that rise, each once, as a list. */
static uint32_t put_list(struct maker *maker, uint32_t start, uint32_t count) {
	if (count == 1)
		return SL_LIST_ONE | maker->lists[start];
	memmove(&maker->lists[start + 1], &maker->lists[start], count * sizeof *maker->lists);
	maker->lists[start] = count;
	maker->lists_used = start + 1 + count;
	return start;
}

/* The list of equal ones that begin at `*at`, which moves on. */
static uint32_t take_list(struct maker *maker, uint32_t *at) {
	const struct filed *filed = maker->filed;
	const uint32_t first = *at, start = maker->lists_used;
	uint32_t count = 0;
	for (; *at < maker->filed_count && compare_what(&filed[first], &filed[*at]) == 0; ++*at)
		if (count == 0 || maker->lists[start + count - 1] != filed[*at].number)
			maker->lists[start + count++] = filed[*at].number;
	return put_list(maker, start, count);
}

/* Puts a list into the slots; false where it lands too far from its place. */
static bool put_slot(struct sl_index_slot *slots, uint32_t mask, uint64_t hash, uint32_t list) {
	uint32_t probes = 0, slot = (uint32_t)hash & mask;
	for (; slots[slot].tag != 0; slot = (slot + 1) & mask)
		probes++;
	slots[slot] = (struct sl_index_slot){sl_index_tag(hash), list};
	return probes <= PROBES_MAX;
}

/* The attribute's entry: those filed are sorted by attribute, so it is the last one or a new one. */
static struct sl_index_attribute *entry_of(struct sl_index_attribute *list, struct sl_index *index, uint16_t number) {
	if (index->attribute_count == 0 || list[index->attribute_count - 1].number != number)
		list[index->attribute_count++].number = number;
	return &list[index->attribute_count - 1];
}

static void put_stem(struct sl_stem *stems, uint32_t *used, const struct filed *filed, uint32_t list,
                     struct sl_index_attribute *attribute) {
	struct sl_stems *set = &attribute->stems[filed->kind];
	if (set->count == 0)
		set->list = &stems[*used];
	stems[*used] = filed->stem;
	stems[(*used)++].tag = list;
	set->count++;
}

/* How many slots and stems there will be, and attributes. */
static void count_what(const struct maker *maker, uint32_t *slots, uint32_t *stems, uint32_t *attributes) {
	*slots = *stems = *attributes = 0;
	for (uint32_t i = 0; i < maker->filed_count; i++) {
		const struct filed *one = &maker->filed[i];
		*attributes += i == 0 || one->attribute != one[-1].attribute;
		if (i == 0 || compare_what(one - 1, one) != 0)
			++*(has_slot(one) ? slots : stems);
	}
}

/* Fills the index from what is filed; false where the slots crowd under this key. */
static bool fill(struct maker *maker) {
	uint32_t slot_count, stem_count, attribute_count, stems_used = 0;
	struct sl_index *index = maker->index;
	count_what(maker, &slot_count, &stem_count, &attribute_count);
	const uint32_t mask = power_above(2 * slot_count) - 1;
	struct sl_index_slot *slots = sl_pool_take(maker->pool, (size_t)mask + 1, sizeof *slots);
	struct sl_stem *stems = sl_pool_take(maker->pool, stem_count, sizeof *stems);
	struct sl_index_attribute *attributes = sl_pool_take(maker->pool, attribute_count, sizeof *attributes);
	bool spread = true;
	if (slots == NULL || stems == NULL || attributes == NULL)
		return true;
	for (uint32_t i = 0; i < maker->filed_count;) {
		const struct filed *filed = &maker->filed[i];
		struct sl_index_attribute *attribute = entry_of(attributes, index, filed->attribute);
		uint32_t list = take_list(maker, &i);
		attribute->exact = attribute->exact || filed->kind == SL_FILED_EXACT;
		attribute->shapes = attribute->shapes || filed->kind == SL_FILED_PARTS;
		if (has_slot(filed))
			spread = put_slot(slots, mask, filed->hash, list) && spread;
		else
			put_stem(stems, &stems_used, filed, list, attribute);
	}
	for (uint32_t i = 0; i < index->attribute_count; i++)
		for (uint32_t kind = 0; kind < SL_FILED_KINDS; kind++) {
			const struct sl_stems *set = &attributes[i].stems[kind];
			if (set->count != 0)
				sl_stems_join(stems + (set->list - stems), set->count);
		}
	index->slots = slots;
	index->slot_mask = mask;
	index->attributes = attributes;
	return spread;
}

/* Files each `when`; those with no condition to be filed under make the first list. */
static void file_all(struct maker *maker) {
	uint32_t free_count = 0;
	for (maker->number = 0; maker->number < maker->index->count; maker->number++) {
		maker->keeps = false;
		const struct sl_condition *condition = choose(maker, when_at(maker, maker->number));
		maker->keeps = true;
		if (condition != NULL)
			use_each(maker, condition, file_one);
		else
			maker->lists[free_count++] = maker->number;
	}
	maker->index->always = free_count == 0 ? SL_INDEX_END : put_list(maker, 0, free_count);
	qsort(maker->filed, maker->filed_count, sizeof *maker->filed, compare_filed);
}

/* An index under one key; false where another key may do better. */
static bool make_under(struct maker *maker, uint64_t key) {
	struct sl_index *index = maker->index;
	*index = (struct sl_index){.key = {key, 0x78646e6920656c75}, .count = index->count};
	maker->filed_count = maker->lists_used = 0;
	if (!count_all(maker))
		return true;
	file_all(maker);
	bool spread = fill(maker);
	uint32_t *lists = sl_pool_take(maker->pool, maker->lists_used, sizeof *lists);
	if (lists != NULL)
		memcpy(lists, maker->lists, maker->lists_used * sizeof *lists);
	index->lists = lists;
	return spread;
}

const struct sl_index *sl_index_make(struct sl_pool *pool, const struct sl_when *first, size_t stride, uint32_t count) {
	struct sl_index *index = pool->failed ? NULL : sl_pool_take(pool, 1, sizeof *index);
	if (index == NULL)
		return NULL;
	index->count = count;
	bool made = false;
	for (uint64_t key = 1; !made && key <= KEYS_MAX; key++) {
		struct sl_pool scratch = {0};
		struct maker maker = {.pool = pool, .scratch = &scratch, .first = (const void *)first, .stride = stride};
		maker.index = index;
		made = make_under(&maker, key) || key == KEYS_MAX;
		pool->failed = pool->failed || scratch.failed;
		sl_pool_free(&scratch);
	}
	return pool->failed ? NULL : index;
}
