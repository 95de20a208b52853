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
#include "policy/brackets.h"
#include "policy/environment.h"
#include "policy/policy.h"
#include "policy/source.h"

#include <stdio.h>
#include <yaml.h>

/* What an alias may stand for. */
struct anchor {
	struct anchor *next;
	const char *name;
	const struct sl_yaml *node;
};

struct builder {
	yaml_parser_t parser;
	struct sl_tree *tree;
	struct sl_report *report;
	struct sluice_bytes yaml;
	struct sl_yaml *open[SL_TREE_DEPTH_THEIRS];
	struct sl_yaml *last[SL_TREE_DEPTH_THEIRS]; /* the last child of each */
	uint32_t depth, depth_max, node_count, documents;
	struct anchor *anchors; /* of a file that is theirs; the newest first */
	bool theirs;
	size_t room; /* what the environment may still say */
};

enum step { STEP_ON, STEP_END };

static struct sl_position place_of(yaml_mark_t mark) {
	return (struct sl_position){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

/* Makes a node and hangs it under the innermost open one; NULL where a bound or the memory ends. */
static struct sl_yaml *node_add(struct builder *in, enum sl_node_kind kind, struct sl_position place) {
	if (in->node_count == SL_TREE_NODES_MAX) {
		sl_report_error(in->report, place, "expected at most %d values in a file", SL_TREE_NODES_MAX);
		return NULL;
	}
	struct sl_yaml *node = sl_pool_take(&in->tree->pool, 1, sizeof *node);
	if (node == NULL)
		return NULL;
	in->node_count++;
	node->kind = (uint8_t)kind;
	node->place = place;
	if (in->depth == 0) {
		in->tree->root = node;
		return node;
	}
	struct sl_yaml **last = &in->last[in->depth - 1];
	*(*last == NULL ? &in->open[in->depth - 1]->first : &(*last)->next) = node;
	*last = node;
	in->open[in->depth - 1]->count++;
	return node;
}

/* What is refused is not repeated: an unquoted password may begin like this. */
static void refuse_marks(struct builder *in, struct sl_position place, const yaml_char_t *anchor,
                         const yaml_char_t *tag) {
	if (in->theirs)
		return;
	if (anchor != NULL)
		sl_report_error(in->report, place, "expected no anchor: they are not read (quote a text that begins with &)");
	if (tag != NULL)
		sl_report_error(in->report, place, "expected no tag: they are not read (quote a text that begins with !)");
}

static void keep_anchor(struct builder *in, const yaml_char_t *name, const struct sl_yaml *node) {
	struct anchor *anchor = in->theirs && name != NULL ? sl_pool_take(&in->tree->pool, 1, sizeof *anchor) : NULL;
	if (anchor == NULL)
		return;
	*anchor = (struct anchor){in->anchors, sl_pool_text(&in->tree->pool, sl_str((const char *)name)), node};
	if (anchor->name != NULL)
		in->anchors = anchor;
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
	const struct sl_yaml *parent = in->depth == 0 ? NULL : in->open[in->depth - 1];
	bool is_key = parent != NULL && parent->kind == SL_NODE_MAP && parent->count % 2 == 0;
	struct sl_yaml *node = node_add(in, SL_NODE_TEXT, place);
	if (node == NULL)
		return STEP_END;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	              (event->data.scalar.tag == NULL || strcmp((const char *)event->data.scalar.tag, YAML_STR_TAG) != 0);
	node->verbatim = is_verbatim(event, text);
	node->text = (struct sluice_bytes){sl_pool_text(&in->tree->pool, text), text.len};
	if (node->text.data == NULL)
		return STEP_END;
	keep_anchor(in, event->data.scalar.anchor, node);
	if (!is_key && !in->theirs)
		sl_environment_expand(&in->tree->pool, in->report, node, &in->room);
	return in->tree->pool.failed ? STEP_END : STEP_ON;
}

/* A copy of the node, which shares what is inside; nothing that stands inside of what it names. */
static enum step take_their_alias(struct builder *in, const char *name, struct sl_position place) {
	const struct anchor *anchor = in->anchors;
	while (anchor != NULL && strcmp(anchor->name, name) != 0)
		anchor = anchor->next;
	if (anchor == NULL || anchor->node->cut) {
		sl_report_error(in->report, place, SL_TREE_THEIR_ERROR "yaml: %s %s %s",
		                anchor == NULL ? "unknown anchor" : "anchor", sl_quote(sl_str(name)).text,
		                anchor == NULL ? "referenced" : "value contains itself");
		return STEP_END;
	}
	struct sl_yaml *node = node_add(in, SL_NODE_TEXT, place);
	if (node == NULL)
		return STEP_END;
	*node = *anchor->node;
	node->next = NULL;
	return STEP_ON;
}

static enum step take_alias(struct builder *in, const yaml_event_t *event) {
	struct sl_position place = place_of(event->start_mark);
	if (in->theirs)
		return take_their_alias(in, (const char *)event->data.alias.anchor, place);
	sl_report_error(in->report, place, "expected no alias: they are not read (quote a text that begins with *)");
	return node_add(in, SL_NODE_REFUSED, place) == NULL ? STEP_END : STEP_ON;
}

static enum step take_open(struct builder *in, enum sl_node_kind kind, yaml_mark_t mark, const yaml_char_t *anchor) {
	if (in->depth == in->depth_max) {
		sl_report_error(in->report, place_of(mark), "expected at most %u lists and mappings inside one another",
		                in->depth_max);
		return STEP_END;
	}
	struct sl_yaml *node = node_add(in, kind, place_of(mark));
	if (node == NULL)
		return STEP_END;
	node->cut = true;
	keep_anchor(in, anchor, node);
	in->open[in->depth] = node;
	in->last[in->depth++] = NULL;
	return STEP_ON;
}

static enum step take_close(struct builder *in) {
	SL_ASSERT(in->depth > 0);
	in->open[--in->depth]->cut = false;
	return STEP_ON;
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
}

static bool read_tree(struct sl_tree *tree, struct sluice_bytes yaml, struct sl_report *report, bool theirs) {
	struct builder in = {.tree = tree,
	                     .report = report,
	                     .yaml = yaml,
	                     .room = SL_POLICY_FILE_BYTES_MAX,
	                     .theirs = theirs,
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
