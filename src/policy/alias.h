/* Anchors, aliases and merges (`<<: *base`) of a file that is not ours, as Go's yaml.v2 has them.
 *
 * An alias is a copy of the node that it names, and shares what is inside. A merge puts the pairs of other mappings
 * where it stands: what comes later in a mapping counts, so that a merge first is the usual default, and one last
 * overrides. Of a list of mappings the first counts most.
 *
 * A small file may name one thing very often. Nothing is copied before it is counted what a reader that knows no
 * aliases would have to read, in that library's steps and by its bound: of up to 400,000 steps 99 in 100 may be
 * repetitions, of more than 4 million 1 in 10. So whoever walks a tree takes at most so many steps. */
#ifndef SL_ALIAS_H
#define SL_ALIAS_H

#include "policy/tree.h"

/* What an alias may stand for. */
struct sl_alias_anchor {
	struct sl_alias_anchor *next;
	const char *name;
	const struct sl_yaml *node;
	uint64_t steps;  /* of reading it once; known when the node is whole, as the next */
	uint32_t height; /* lists and mappings inside one another, itself included */
};

enum { SL_ANCHOR_HEADS = 4096 };

/* All zero but `pool`, which is the tree's. */
struct sl_aliases {
	struct sl_pool *pool;
	struct sl_alias_anchor **heads; /* by a hash of their names, the newest first; NULL: there are none */
	uint64_t steps, repeated; /* that were taken so far; those of them inside of aliases */
	struct sl_position place; /* of the first that yaml.v2 would not read though it is YAML, */
	char wrong[256];          /* in its words; empty: there is none */
};

/* Names a node. NULL without memory. O(the name). */
struct sl_alias_anchor *sl_anchor_add(struct sl_aliases *aliases, struct sluice_bytes name,
                                      const struct sl_yaml *node);

/* The newest of a name; NULL. */
const struct sl_alias_anchor *sl_anchor_find(const struct sl_aliases *aliases, struct sluice_bytes name);

/* Notes what can't be read, unless something before it can't. The text follows printf. */
void sl_aliases_wrong(struct sl_aliases *aliases, struct sl_position place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Counts one step of the file's own, and those of what it repeats (0: nothing). False: they are too many, which is
 * noted. */
bool sl_aliases_count(struct sl_aliases *aliases, struct sl_position place, uint64_t repeated);

/* Puts the pairs that a whole mapping merges in place of its merges. What can't be merged is noted, and left out.
 *  room  how many nodes may still be made; what was made is taken from it
 * False without room or memory. O(what is merged). */
SLUICE_MUST_USE bool sl_aliases_merge(struct sl_aliases *aliases, struct sl_yaml *map, uint32_t *room);

#endif
