/* What yaml.v2 does with anchors, aliases and merges when it decodes a document (its decode.go), said once: how many
 * steps that takes, of which it allows so many, and in which order a merge writes. tests/envoy/config.jsonl holds both
 * to the library itself. */
#include "policy/alias.h"

#include "base/math.h"
#include "base/siphash.h"

#include <stdarg.h>
#include <stdio.h>

/* yaml.v2's: below the first number of steps nearly all may be repeated, above the second only a tenth. */
enum {
	FEW_STEPS = 400 * 1000,
	MANY_STEPS = 4000 * 1000,
	REPEATED_FEW = 990, /* in 1,000 */
	REPEATED_MANY = 100,
	STEPS_FREE = 1000, /* up to so many, or so many repeated, nothing is said */
	REPEATED_FREE = 100,
};

static const char MERGE_WANTS[] =
	"map merge requires map or sequence of maps as the value";

static struct sl_alias_anchor **head_of(const struct sl_aliases *aliases, struct sluice_bytes name) {
	static const uint64_t key[2] = {0x616e63686f72732d, 0x6f662d612d66696c};
	return &aliases->heads[sl_siphash(key, NULL, 0, name, 1, 3) % SL_ANCHOR_HEADS];
}

struct sl_alias_anchor *sl_anchor_add(struct sl_aliases *aliases, struct sluice_bytes name,
                                      const struct sl_yaml *node) {
	if (aliases->heads == NULL)
		aliases->heads = sl_pool_take(aliases->pool, SL_ANCHOR_HEADS, sizeof(struct sl_alias_anchor *));
	struct sl_alias_anchor *anchor = sl_pool_take(aliases->pool, 1, sizeof *anchor);
	const char *copy = sl_pool_text(aliases->pool, name);
	if (aliases->heads == NULL || anchor == NULL || copy == NULL)
		return NULL;
	struct sl_alias_anchor **head = head_of(aliases, name);
	*anchor = (struct sl_alias_anchor){.next = *head, .name = copy, .node = node, .steps = 1};
	*head = anchor;
	return anchor;
}

const struct sl_alias_anchor *sl_anchor_find(const struct sl_aliases *aliases, struct sluice_bytes name) {
	const struct sl_alias_anchor *anchor = aliases->heads == NULL ? NULL : *head_of(aliases, name);
	while (anchor != NULL && !sl_bytes_equal(sl_str(anchor->name), name))
		anchor = anchor->next;
	return anchor;
}

void sl_aliases_wrong(struct sl_aliases *aliases, struct sl_position place, const char *format, ...) {
	va_list arguments;
	if (aliases->wrong[0] != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(aliases->wrong, sizeof aliases->wrong, format, arguments);
	va_end(arguments);
	aliases->place = place;
}

/* How many of 1,000,000 times 1,000 steps may be repeated ones. */
static uint64_t repeated_max(uint64_t steps) {
	if (steps <= FEW_STEPS)
		return (uint64_t)REPEATED_FEW * 1000000;
	if (steps >= MANY_STEPS)
		return (uint64_t)REPEATED_MANY * 1000000;
	return (uint64_t)REPEATED_FEW * 1000000 -
	       (REPEATED_FEW - REPEATED_MANY) * (steps - FEW_STEPS) * 1000000 / (MANY_STEPS - FEW_STEPS);
}

/* Their check is made at each step. It is enough after the last of a run of repeated ones: their share only grows in
 * it, and what is allowed only shrinks. */
bool sl_aliases_count(struct sl_aliases *aliases, struct sl_position place, uint64_t repeated) {
	aliases->steps += 1 + repeated;
	aliases->repeated += repeated;
	if (aliases->repeated <= REPEATED_FREE || aliases->steps <= STEPS_FREE)
		return true;
	if ((sl_u128)aliases->repeated * 1000000000 <= (sl_u128)aliases->steps * repeated_max(aliases->steps))
		return true;
	sl_aliases_wrong(aliases, place, "document contains excessive aliasing");
	return false;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

/* The children of a mapping, made anew. */
struct pairs {
	struct sl_aliases *aliases;
	struct sl_yaml *first, **end;
	uint32_t count, *room;
};

static void append(struct pairs *to, struct sl_yaml *node) {
	*to->end = node;
	to->end = &node->next;
	to->count++;
}

static bool append_copy(struct pairs *to, const struct sl_yaml *node) {
	struct sl_yaml *copy = *to->room == 0 ? NULL : sl_pool_take(to->aliases->pool, 1, sizeof *copy);
	if (copy == NULL)
		return false;
	--*to->room;
	*copy = *node;
	copy->next = NULL;
	copy->merged = true;
	append(to, copy);
	return true;
}

static bool append_pairs(struct pairs *to, const struct sl_yaml *map) {
	for (const struct sl_yaml *child = map->first; child != NULL; child = child->next)
		if (!append_copy(to, child))
			return false;
	return true;
}

static void turn_round(struct sl_yaml *list) {
	struct sl_yaml *turned = NULL;
	for (struct sl_yaml *one = list->first, *next; one != NULL; one = next) {
		next = one->next;
		one->next = turned;
		turned = one;
	}
	list->first = turned;
}

/* Of a list the last element first: what comes later in a mapping counts. */
static bool append_list(struct pairs *to, struct sl_yaml *list) {
	bool is_whole = true;
	turn_round(list);
	for (const struct sl_yaml *one = list->first; one != NULL && is_whole; one = one->next)
		if (one->kind == SL_NODE_MAP)
			is_whole = append_pairs(to, one);
		else
			sl_aliases_wrong(to->aliases, one->place, "%s", MERGE_WANTS);
	turn_round(list);
	return is_whole;
}

static bool append_merged(struct pairs *to, struct sl_yaml *value) {
	if (value->kind == SL_NODE_MAP)
		return append_pairs(to, value);
	if (value->kind == SL_NODE_LIST && !value->aliased)
		return append_list(to, value);
	sl_aliases_wrong(to->aliases, value->place, "%s", MERGE_WANTS);
	return true;
}

bool sl_aliases_merge(struct sl_aliases *aliases, struct sl_yaml *map, uint32_t *room) {
	struct pairs to = {.aliases = aliases, .room = room};
	to.end = &to.first;
	for (struct sl_yaml *key = map->first, *next; key != NULL; key = next) {
		struct sl_yaml *value = key->next;
		next = value == NULL ? NULL : value->next;
		if (key->merges && value != NULL) {
			if (!append_merged(&to, value))
				return false;
			continue;
		}
		append(&to, key);
		if (value != NULL)
			append(&to, value);
	}
	*to.end = NULL;
	map->first = to.first;
	map->count = to.count;
	return true;
}
