/* A policy file as a tree of text, lists and mappings, each with its place: YAML's simple half, bounded. */
#ifndef SL_TREE_H
#define SL_TREE_H

#include "policy/pool.h"
#include "policy/report.h"
#include "policy/source.h"

enum {
	SL_TREE_DEPTH_MAX = 16,    /* lists and mappings inside one another; a policy needs 7 */
	SL_TREE_DEPTH_THEIRS = 40, /* the same of a file in YAML as others read it, aliases included */
	SL_TREE_NODES_MAX = 4 * 1024 * 1024,
};

#define SL_TREE_THEIR_ERROR "error loading config file: "

enum sl_node_kind {
	SL_NODE_TEXT,
	SL_NODE_LIST,
	SL_NODE_MAP,
	SL_NODE_REFUSED, /* an alias, a value that the environment has not: already reported, nothing more is said of it */
};

struct sl_yaml {
	uint8_t kind;      /* enum sl_node_kind */
	bool plain : 1;    /* text without quotes */
	bool verbatim : 1; /* text that stands in the file as it is, on one line: columns inside it are known */
	bool cut : 1;      /* the file broke off inside: what is missing says nothing */
	bool merges : 1;   /* of a file that is theirs, as what follows: << of a mapping, while it is read */
	bool aliased : 1;  /* an alias stands here */
	bool merged : 1;   /* a key or value that << has brought here */
	struct sl_position place;
	uint32_t count;               /* children of a list; keys and values of a mapping */
	struct sluice_bytes text;     /* NUL-ended */
	struct sl_yaml *first, *next; /* first child; next child of the same parent. In a mapping: key, value, key, value */
};

struct sl_tree {
	struct sl_pool pool;        /* owns every node and text */
	const struct sl_yaml *root; /* NULL: the file holds nothing */
};

/* Reads YAML bytes. Mistakes go to the report; what could be read before one is in the tree all the same. Anchors,
 * aliases, tags and further documents are refused, so that a tree is never larger than its file. O(bytes).
 * Returns false when the system gave no memory. Free with sl_pool_free(&tree->pool). */
bool sl_tree_read(struct sl_tree *tree, struct sluice_bytes yaml, struct sl_report *report);

/* The place of a byte inside a text, or of its beginning where the file writes it with escapes or on several lines. */
static inline struct sl_position sl_node_place(const struct sl_yaml *node, size_t offset) {
	struct sl_position place = node->place;
	if (node->verbatim && offset <= node->text.len)
		place.column += (uint32_t)(sl_source_characters(node->text.data, offset) + !node->plain);
	return place;
}

/* Reads a file that is not ours, as Go's yaml.v2 would: aliases and merges stand for what they name (alias.h, which
 * also bounds how much more a tree may be than its file), $ and tags mean nothing, only the first document counts, and
 * a mistake is told in that program's words, after "error loading config file: ". As sl_tree_read() otherwise. */
bool sl_tree_read_theirs(struct sl_tree *tree, struct sluice_bytes yaml, struct sl_report *report);

/* Is it a plain text that YAML takes for null: nothing at all, ~ or null? */
bool sl_node_is_null(const struct sl_yaml *node);

/* Steps through a mapping: `for (key = sl_map_first(map); key != NULL; key = sl_map_next(key))`; the value is
 * key->next, never NULL. A key whose value the file breaks off is left out. */
const struct sl_yaml *sl_map_first(const struct sl_yaml *map);
const struct sl_yaml *sl_map_next(const struct sl_yaml *key);

#endif
