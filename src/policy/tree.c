/* libyaml's events, folded into nodes.
 *
 * Why not its document: that resolves aliases, knows no bound and drops the style of a scalar, without which a column
 * inside the text cannot be told.
 *
 * Invariants: open[0..depth) are the lists and mappings being read, each a child of the one before; a node is linked to
 * its parent as soon as it is made, so that the tree is whole after any event.
 */
#include "policy/tree.h"

#include "base/assert.h"
#include "policy/alias.h"
#include "policy/brackets.h"
#include "policy/environment.h"
#include "policy/policy.h"
#include "policy/source.h"

#include <stdio.h>
#include <yaml.h>

/* A list or mapping that is being read. */
struct opened {
	struct sl_yaml *node, *last; /* its last child */
	struct sl_alias_anchor *anchor;    /* that names it; NULL */
	uint64_t began;              /* how many steps had been taken: alias.h */
	uint32_t height;             /* of its highest child */
	bool merges;                 /* it has << */
	bool merged;                 /* << merges it, or what is in it: it is no level of its own */
};

struct builder {
	yaml_parser_t parser;
	struct sl_tree *tree;
	struct sl_report *report;
	struct sluice_bytes yaml;
	struct opened open[SL_TREE_DEPTH_THEIRS];
	uint32_t depth, depth_max, nodes_left, documents;
	struct sl_aliases aliases; /* of a file that is theirs */
	bool theirs;
	size_t room; /* what the environment may still say */
};

enum step { STEP_ON, STEP_END };

static struct sl_position place_of(yaml_mark_t mark) {
	return (struct sl_position){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static void report_full(struct builder *in, struct sl_position place) {
	sl_report_error(in->report, place, "expected at most %d values in a file", SL_TREE_NODES_MAX);
}

static void report_deep(struct builder *in, struct sl_position place) {
	sl_report_error(in->report, place, "expected at most %u lists and mappings inside one another", in->depth_max);
}

/* Is what comes next a key of a mapping? */
static bool is_key_next(const struct builder *in) {
	const struct sl_yaml *parent = in->depth == 0 ? NULL : in->open[in->depth - 1].node;
	return parent != NULL && parent->kind == SL_NODE_MAP && parent->count % 2 == 0;
}

/* Is it what << merges, or an element of a list of that? */
static bool is_merged_next(const struct builder *in) {
	const struct opened *parent = in->depth == 0 ? NULL : &in->open[in->depth - 1];
	if (parent == NULL || parent->node->kind == SL_NODE_LIST)
		return parent != NULL && parent->merged;
	return parent->node->count % 2 == 1 && parent->last->merges;
}

/* Tells the innermost open one how high what stands in it is. */
static void note_height(struct builder *in, uint32_t height, bool merged) {
	if (in->depth != 0 && in->open[in->depth - 1].height + merged < height)
		in->open[in->depth - 1].height = height - merged;
}

/* Makes a node and hangs it under the innermost open one; NULL where a bound or the memory ends. */
static struct sl_yaml *node_add(struct builder *in, enum sl_node_kind kind, struct sl_position place) {
	if (in->nodes_left == 0) {
		report_full(in, place);
		return NULL;
	}
	struct sl_yaml *node = sl_pool_take(&in->tree->pool, 1, sizeof *node);
	if (node == NULL)
		return NULL;
	in->nodes_left--;
	node->kind = (uint8_t)kind;
	node->place = place;
	if (in->depth == 0) {
		in->tree->root = node;
		return node;
	}
	struct opened *parent = &in->open[in->depth - 1];
	*(parent->last == NULL ? &parent->node->first : &parent->last->next) = node;
	parent->last = node;
	parent->node->count++;
	return node;
}

/* What is refused is not repeated: an unquoted password may begin like this. */
static void refuse_marks(struct builder *in, struct sl_position place, const yaml_char_t *anchor,
                         const yaml_char_t *tag) {
	if (in->theirs)
		return;
	if (anchor != NULL)
		sl_report_error(in->report, place, "expected no anchor: anchors are not supported here (quote a text that "
		                                   "begins with &)");
	if (tag != NULL)
		sl_report_error(in->report, place, "expected no tag: tags are not supported here (quote a text that begins "
		                                   "with !)");
}

static struct sl_alias_anchor *keep_anchor(struct builder *in, const yaml_char_t *name, const struct sl_yaml *node) {
	if (!in->theirs || name == NULL)
		return NULL;
	return sl_anchor_add(&in->aliases, sl_str((const char *)name), node);
}

/* << is a merge where it stands plain, or is called one. */
static bool is_merge(const yaml_event_t *event) {
	const char *tag = (const char *)event->data.scalar.tag;
	return sl_bytes_equal(sl_slice((const char *)event->data.scalar.value, event->data.scalar.length), sl_str("<<")) &&
	       (event->data.scalar.plain_implicit || (tag != NULL && strcmp(tag, "tag:yaml.org,2002:merge") == 0));
}

/* A merge is no step of its own: what it merges is. */
static void note_key(struct builder *in, const yaml_event_t *event, struct sl_yaml *key) {
	key->merges = is_merge(event);
	if (key->merges)
		in->open[in->depth - 1].merges = true;
}

/* Does the text take as many columns as it has characters? Any escape, fold or mark before it takes more. */
static bool is_verbatim(const yaml_event_t *event, struct sluice_bytes text) {
	size_t quotes = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? 0 : 2;
	size_t characters = sl_source_characters(text.data, text.len);
	return event->start_mark.line == event->end_mark.line &&
	       event->end_mark.column - event->start_mark.column == characters + quotes;
}

static enum step take_text(struct builder *in, const yaml_event_t *event) {
	struct sl_position place = place_of(event->start_mark);
	char *bytes = (char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	struct sluice_bytes text = {bytes, in->theirs ? len : sl_brackets_show(bytes, len)};
	refuse_marks(in, place, event->data.scalar.anchor, event->data.scalar.tag);
	bool is_key = is_key_next(in);
	struct sl_yaml *node = node_add(in, SL_NODE_TEXT, place);
	if (node == NULL)
		return STEP_END;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	              (event->data.scalar.tag == NULL || strcmp((const char *)event->data.scalar.tag, YAML_STR_TAG) != 0);
	node->verbatim = is_verbatim(event, text);
	node->text = (struct sluice_bytes){sl_pool_text(&in->tree->pool, text), text.len};
	if (node->text.data == NULL)
		return STEP_END;
	if (in->theirs) {
		keep_anchor(in, event->data.scalar.anchor, node);
		if (is_key)
			note_key(in, event, node);
		if (!node->merges)
			sl_aliases_count(&in->aliases, place, 0);
	} else if (!is_key) {
		sl_environment_expand(&in->tree->pool, in->report, node, &in->room);
	}
	return in->tree->pool.failed ? STEP_END : STEP_ON;
}

/* A copy of the node, which shares what is inside. Nothing that stands inside of what it names, nothing that would be
 * read too often: null stands there, and the rest of the file is read, whose mistakes are told first. */
static enum step take_their_alias(struct builder *in, struct sluice_bytes name, struct sl_position place) {
	const struct sl_alias_anchor *anchor = sl_anchor_find(&in->aliases, name);
	if (anchor == NULL) {
		sl_report_error(in->report, place, SL_TREE_THEIR_ERROR "yaml: unknown anchor %s referenced",
		                sl_quote(name).text);
		return STEP_END;
	}
	const bool merged = is_merged_next(in);
	if (in->depth + anchor->height > in->depth_max + merged) {
		report_deep(in, place);
		return STEP_END;
	}
	struct sl_yaml *node = node_add(in, SL_NODE_TEXT, place);
	if (node == NULL)
		return STEP_END;
	*node = (struct sl_yaml){.kind = SL_NODE_TEXT, .plain = true, .place = place, .text = sl_str("")};
	if (anchor->node->cut) {
		sl_aliases_wrong(&in->aliases, place, "anchor %s value contains itself", sl_quote(name).text);
	} else if (sl_aliases_count(&in->aliases, place, anchor->steps)) {
		*node = *anchor->node;
		node->next = NULL;
		node->merges = false;
	}
	node->aliased = true;
	note_height(in, anchor->height, merged);
	return STEP_ON;
}

static enum step take_alias(struct builder *in, const yaml_event_t *event) {
	struct sl_position place = place_of(event->start_mark);
	if (in->theirs)
		return take_their_alias(in, sl_str((const char *)event->data.alias.anchor), place);
	sl_report_error(in->report, place, "expected no alias: aliases are not supported here (quote a text that begins "
	                                   "with *)");
	return node_add(in, SL_NODE_REFUSED, place) == NULL ? STEP_END : STEP_ON;
}

static enum step take_open(struct builder *in, enum sl_node_kind kind, yaml_mark_t mark, const yaml_char_t *anchor) {
	if (in->depth == in->depth_max) {
		report_deep(in, place_of(mark));
		return STEP_END;
	}
	const bool merged = is_merged_next(in);
	struct sl_yaml *node = node_add(in, kind, place_of(mark));
	if (node == NULL)
		return STEP_END;
	node->cut = true;
	struct opened *open = &in->open[in->depth++];
	*open = (struct opened){.node = node, .began = in->aliases.steps, .merged = merged};
	open->anchor = keep_anchor(in, anchor, node);
	if (in->theirs && !(merged && kind == SL_NODE_LIST)) /* which is no step: what is in it is */
		sl_aliases_count(&in->aliases, node->place, 0);
	return STEP_ON;
}

static enum step take_close(struct builder *in) {
	SL_ASSERT(in->depth > 0);
	const struct opened *closed = &in->open[--in->depth];
	const uint32_t height = closed->height + 1;
	closed->node->cut = false;
	note_height(in, height, closed->merged);
	if (closed->anchor != NULL) {
		closed->anchor->steps = in->aliases.steps - closed->began;
		closed->anchor->height = height;
	}
	if (!closed->merges || sl_aliases_merge(&in->aliases, closed->node, &in->nodes_left))
		return STEP_ON;
	if (!in->tree->pool.failed)
		report_full(in, closed->node->place);
	return STEP_END;
}

static enum step take_document(struct builder *in, yaml_mark_t mark) {
	if (++in->documents == 1)
		return STEP_ON;
	if (in->theirs)
		return STEP_END;
	sl_report_error(in->report, place_of(mark), "expected one document, found a second one");
	return STEP_END;
}

static enum step take_event(struct builder *in, const yaml_event_t *event) {
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return take_document(in, event->start_mark);
	case YAML_SCALAR_EVENT:
		return take_text(in, event);
	case YAML_ALIAS_EVENT:
		return take_alias(in, event);
	case YAML_SEQUENCE_START_EVENT:
		refuse_marks(in, place_of(event->start_mark), event->data.sequence_start.anchor,
		             event->data.sequence_start.tag);
		return take_open(in, SL_NODE_LIST, event->start_mark, event->data.sequence_start.anchor);
	case YAML_MAPPING_START_EVENT:
		refuse_marks(in, place_of(event->start_mark), event->data.mapping_start.anchor, event->data.mapping_start.tag);
		return take_open(in, SL_NODE_MAP, event->start_mark, event->data.mapping_start.anchor);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return take_close(in);
	case YAML_STREAM_END_EVENT:
		return STEP_END;
	default:
		return STEP_ON;
	}
}

/* libyaml's own words are kept: they are what a search engine knows. */
static void report_yaml(struct builder *in) {
	const yaml_parser_t *parser = &in->parser;
	struct sl_position place = place_of(parser->problem_mark);
	if (parser->error == YAML_MEMORY_ERROR)
		in->tree->pool.failed = true;
	else if (sl_source_tab_indents(in->yaml, place.line))
		sl_report_error(in->report, place, "expected spaces, found a tab: YAML is not indented with tabs");
	else if (parser->context != NULL)
		sl_report_error(in->report, place, "YAML: %s, %s that begins in line %zu", parser->problem, parser->context,
		                parser->context_mark.line + 1);
	else
		sl_report_error(in->report, place, "YAML: %s", parser->problem == NULL ? "cannot be read" : parser->problem);
}

/* The same in yaml.v2's words, with its line: one that the scanner names is counted from 0 there. */
static void report_theirs(struct builder *in) {
	const yaml_parser_t *parser = &in->parser;
	const bool scanner = parser->error == YAML_SCANNER_ERROR;
	size_t line = parser->problem_mark.line != 0 ? parser->problem_mark.line + scanner : parser->context_mark.line;
	char where[32] = "";
	if (parser->error == YAML_MEMORY_ERROR)
		in->tree->pool.failed = true;
	if (line != 0)
		snprintf(where, sizeof where, "line %zu: ", line);
	sl_report_error(in->report, place_of(parser->problem_mark), SL_TREE_THEIR_ERROR "yaml: %s%s", where,
	                parser->problem == NULL ? "unknown problem parsing YAML content" : parser->problem);
}

static void read_events(struct builder *in) {
	enum step step = STEP_ON;
	while (step == STEP_ON) {
		yaml_event_t event;
		if (!yaml_parser_parse(&in->parser, &event)) {
			if (in->theirs)
				report_theirs(in);
			else
				report_yaml(in);
			return;
		}
		step = take_event(in, &event);
		yaml_event_delete(&event);
	}
	if (in->aliases.wrong[0] != '\0' && in->report->error_count == 0)
		sl_report_error(in->report, in->aliases.place, SL_TREE_THEIR_ERROR "yaml: %s", in->aliases.wrong);
}

static bool read_tree(struct sl_tree *tree, struct sluice_bytes yaml, struct sl_report *report, bool theirs) {
	struct builder in = {.tree = tree,
	                     .report = report,
	                     .yaml = yaml,
	                     .room = SL_POLICY_FILE_BYTES_MAX,
	                     .theirs = theirs,
	                     .nodes_left = SL_TREE_NODES_MAX,
	                     .aliases = {.pool = &tree->pool, .steps = 1 /* the document */},
	                     .depth_max = theirs ? SL_TREE_DEPTH_THEIRS : SL_TREE_DEPTH_MAX};
	*tree = (struct sl_tree){0};
	if (yaml.len == 0 || !sl_source_check(yaml, report))
		return true;
	/* libyaml, told the encoding, would count the mark as a column */
	size_t mark = sl_source_mark(yaml);
	struct sluice_bytes plain = {(const char *)yaml.data + mark, yaml.len - mark};
	if (!theirs)
		plain = sl_brackets_hide(&tree->pool, plain);
	if (plain.data == NULL || !yaml_parser_initialize(&in.parser))
		return false;
	yaml_parser_set_encoding(&in.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&in.parser, plain.data, plain.len);
	read_events(&in);
	yaml_parser_delete(&in.parser);
	return !tree->pool.failed;
}

bool sl_tree_read(struct sl_tree *tree, struct sluice_bytes yaml, struct sl_report *report) {
	return read_tree(tree, yaml, report, false);
}

bool sl_tree_read_theirs(struct sl_tree *tree, struct sluice_bytes yaml, struct sl_report *report) {
	return read_tree(tree, yaml, report, true);
}

bool sl_node_is_null(const struct sl_yaml *node) {
	if (node->kind != SL_NODE_TEXT || !node->plain)
		return false;
	return node->text.len == 0 || sl_bytes_equal(node->text, sl_str("~")) || sl_bytes_equal_nocase(node->text, "null");
}

const struct sl_yaml *sl_map_first(const struct sl_yaml *map) {
	return map->first != NULL && map->first->next != NULL ? map->first : NULL;
}

const struct sl_yaml *sl_map_next(const struct sl_yaml *key) {
	const struct sl_yaml *next = key->next->next;
	return next != NULL && next->next != NULL ? next : NULL;
}
