/* A file of envoyproxy/ratelimit, before anybody asks what it means: its keys, and the types of their values.
 *
 * That program reads a file twice by Go's yaml.v2: into maps, whose keys it checks, and into structs, whose types the
 * library checks. Both are done here, in their order and their words, so that whoever reads its log reads ours. Plain
 * scalars are what YAML 1.1 and that library take them for: yes is true, 010 is 8, 1_000 is 1000, and a number with a
 * point is none that they know.
 *
 * It stops at the first mistake; here all of one kind are told. What it passes over in silence, a key that stands where
 * it means nothing, is a doubt. */
#include "policy/envoy_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	SHOWN_BYTES = 100,     /* of a value, in a message */
	NUMBER_BYTES_MAX = 70, /* the longest whole number has 64 binary digits */
};

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

enum scalar { SCALAR_NIL, SCALAR_TEXT, SCALAR_NUMBER, SCALAR_BOOL, SCALAR_OTHER /* with a point, or too large */ };

static bool is_one_of(struct sluice_bytes text, const char *const *words) {
	for (size_t i = 0; words[i] != NULL; i++)
		if (sl_bytes_equal(text, sl_str(words[i])))
			return true;
	return false;
}

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

static size_t digits_at(const char *p) {
	size_t len = 0;
	while (is_digit(p[len]))
		len++;
	return len;
}

/* 1.5, .5, 5., 5e3: `text` is NUL-ended. */
static bool is_float(const char *p) {
	p += *p == '-' || *p == '+';
	size_t whole = digits_at(p), part = 0;
	p += whole;
	if (*p == '.') {
		part = digits_at(p + 1);
		p += part + 1;
	}
	if (whole + part == 0)
		return false;
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '-' || p[1] == '+');
		size_t exponent = digits_at(p);
		p += exponent;
		if (exponent == 0)
			return false;
	}
	return *p == '\0';
}

/* A whole number of 64 bits, in any of the notations: 10, 012 and 0o12, 0x1f, 0b11, with a sign. */
static bool is_whole(const char *p, bool *negative, uint64_t *magnitude) {
	uint64_t base = 10, value = 0;
	*negative = *p == '-';
	p += *p == '-' || *p == '+';
	if (p[0] == '0' && p[1] != '\0') {
		char prefix = (char)(p[1] | 0x20);
		base = prefix == 'x' ? 16 : prefix == 'b' ? 2 : 8;
		p += prefix == 'x' || prefix == 'b' || prefix == 'o' ? 2 : 1;
	}
	if (*p == '\0')
		return false;
	for (; *p != '\0'; p++) {
		char low = (char)(*p | 0x20);
		uint64_t digit = is_digit(*p)               ? (uint64_t)(*p - '0')
		                 : low >= 'a' && low <= 'f' ? (uint64_t)(low - 'a') + 10
		                                            : 99;
		if (digit >= base || value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	*magnitude = value;
	return true;
}

static enum scalar number_of(struct sluice_bytes text, int64_t *number) {
	char plain[NUMBER_BYTES_MAX + 1];
	size_t len = 0;
	bool negative;
	uint64_t magnitude;
	for (size_t i = 0; i < text.len; i++) {
		char c = ((const char *)text.data)[i];
		if (c == '\0' || (c != '_' && len == NUMBER_BYTES_MAX))
			return SCALAR_TEXT;
		if (c != '_')
			plain[len++] = c;
	}
	plain[len] = '\0';
	if (is_whole(plain, &negative, &magnitude)) {
		if (magnitude > (uint64_t)INT64_MAX + negative)
			return negative ? SCALAR_TEXT : SCALAR_OTHER;
		*number = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
		return SCALAR_NUMBER;
	}
	return is_float(plain) ? SCALAR_OTHER : SCALAR_TEXT;
}

/* What a text is; of true and of a number also which. */
static enum scalar scalar_of(const struct sl_yaml *node, bool *truth, int64_t *number) {
	static const char *const nothing[] = {"", "~", "null", "Null", "NULL", NULL}, *const yes[] = {"y",    "Y",
	                                                                                              "yes",  "Yes",
	                                                                                              "YES",  "true",
	                                                                                              "True", "TRUE",
	                                                                                              "on",   "On",
	                                                                                              "ON",   NULL},
							 *const no[] = {"n",     "N",     "no",  "No",  "NO",  "false",
	                                        "False", "FALSE", "off", "Off", "OFF", NULL},
							 *const others[] = {".nan",  ".NaN",  ".NAN",  ".inf",  ".Inf",  ".INF", "+.inf",
	                                            "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", NULL};
	struct sluice_bytes text = node->text;
	if (!node->plain)
		return SCALAR_TEXT;
	if (is_one_of(text, nothing))
		return SCALAR_NIL;
	*truth = is_one_of(text, yes);
	if (*truth || is_one_of(text, no))
		return SCALAR_BOOL;
	if (is_one_of(text, others))
		return SCALAR_OTHER;
	char first = *(const char *)text.data;
	return is_digit(first) || first == '-' || first == '+' || first == '.' ? number_of(text, number) : SCALAR_TEXT;
}

static enum scalar kind_of(const struct sl_yaml *node) {
	bool truth;
	int64_t number;
	return scalar_of(node, &truth, &number);
}

static bool is_nil(const struct sl_yaml *node) {
	return node->kind == SL_NODE_TEXT && kind_of(node) == SCALAR_NIL;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

/* A value as Go prints it. */
static void put_value(struct sl_out *out, const struct sl_yaml *node, int depth) {
	bool truth = false;
	int64_t number;
	if (node->kind == SL_NODE_LIST && depth < 3) {
		sl_out_char(out, '[');
		for (const struct sl_yaml *one = node->first; one != NULL && !out->overflow; one = one->next) {
			sl_out_str(out, one == node->first ? "" : " ");
			put_value(out, one, depth + 1);
		}
		sl_out_char(out, ']');
	} else if (node->kind != SL_NODE_TEXT) {
		sl_out_str(out, "map[..]");
	} else {
		enum scalar kind = scalar_of(node, &truth, &number);
		if (kind == SCALAR_NIL)
			sl_out_str(out, "<nil>");
		else if (kind == SCALAR_BOOL)
			sl_out_str(out, truth ? "true" : "false");
		else
			sl_out_bytes(out, node->text.data, node->text.len < SHOWN_BYTES ? node->text.len : SHOWN_BYTES);
	}
}

static const char *shown_value(char text[SHOWN_BYTES + 1], const struct sl_yaml *node) {
	struct sl_out out = sl_out_to(text, SHOWN_BYTES);
	put_value(&out, node, 0);
	*out.at = '\0';
	return text;
}

static bool check_key(struct sl_report *report, const struct sl_yaml *key) {
	static const char *const known[] = {"domain",
	                                    "key",
	                                    "value",
	                                    "descriptors",
	                                    "rate_limit",
	                                    "unit",
	                                    "requests_per_unit",
	                                    "unlimited",
	                                    "shadow_mode",
	                                    "quota_mode",
	                                    "name",
	                                    "replaces",
	                                    "detailed_metric",
	                                    "value_to_metric",
	                                    "share_threshold",
	                                    "metadata",
	                                    NULL};
	char text[SHOWN_BYTES + 1];
	if (key->kind != SL_NODE_TEXT || kind_of(key) != SCALAR_TEXT)
		sl_report_error(report, key->place, "config error, key is not of type string: %s",
		                shown_value(text, key));
	else if (!is_one_of(key->text, known))
		sl_report_error(report, key->place, "config error, unknown key '%s'", shown_value(text, key));
	else
		return true;
	return false;
}

static void check_keys(struct sl_report *report, const struct sl_yaml *map);

/* The next key of a mapping that is the same; NULL. */
static const struct sl_yaml *same_later(const struct sl_yaml *key) {
	const struct sl_yaml *later = sl_map_next(key);
	while (later != NULL && !sl_bytes_equal(later->text, key->text))
		later = sl_map_next(later);
	return later;
}

/* A map of Go's has the last value of a key: what it replaced is not looked at. */
static void check_value(struct sl_report *report, const struct sl_yaml *value) {
	char text[SHOWN_BYTES + 1];
	if (value->kind == SL_NODE_MAP)
		check_keys(report, value);
	for (const struct sl_yaml *one = value->kind == SL_NODE_LIST ? value->first : NULL; one != NULL; one = one->next)
		if (one->kind == SL_NODE_MAP)
			check_keys(report, one);
		else
			sl_report_error(report, one->place,
			                "config error, yaml file contains list of type other than map: %s", shown_value(text, one));
	if (value->kind == SL_NODE_TEXT && kind_of(value) == SCALAR_OTHER)
		sl_report_error(report, value->place, "error checking config: %s is no whole number (quote a text)",
		                shown_value(text, value));
}

static void check_keys(struct sl_report *report, const struct sl_yaml *map) {
	for (const struct sl_yaml *key = sl_map_first(map); key != NULL; key = sl_map_next(key))
		if (check_key(report, key) && !sl_bytes_equal(key->text, sl_str("metadata")) && same_later(key) == NULL)
			check_value(report, key->next);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

struct type;
struct member {
	const char *name;
	const struct type *type;
};

/* What a value must be: a text, true or false, a number, a mapping by a table, or a list of those. */
struct type {
	const char *name; /* in Go */
	enum { TYPE_TEXT, TYPE_BOOL, TYPE_NUMBER, TYPE_MAP, TYPE_LIST } kind;
	const struct member *members; /* of a mapping */
	const struct type *each;      /* of a list */
	const char *called;           /* for people */
};

static const struct type a_text = {"string", TYPE_TEXT, NULL, NULL, NULL};
static const struct type a_bool = {"bool", TYPE_BOOL, NULL, NULL, NULL};
static const struct type a_number = {"uint32", TYPE_NUMBER, NULL, NULL, NULL};
static const struct type a_descriptor;
static const struct type some_descriptors = {"[]config.YamlDescriptor", TYPE_LIST, NULL, &a_descriptor, NULL};
static const struct member of_replaces[] = {{"name", &a_text}, {NULL, NULL}};
static const struct type a_replaced = {"config.yamlReplaces", TYPE_MAP, of_replaces, NULL, "replaces"};
static const struct type some_replaced = {"[]config.yamlReplaces", TYPE_LIST, NULL, &a_replaced, NULL};
static const struct member of_rate_limit[] = {
	{"requests_per_unit", &a_number}, {"unit", &a_text}, {"unlimited", &a_bool}, {"name", &a_text},
	{"replaces", &some_replaced},     {NULL, NULL},
};
static const struct type a_rate_limit = {"config.YamlRateLimit", TYPE_MAP, of_rate_limit, NULL, "a rate_limit"};
static const struct member of_descriptor[] = {
	{"key", &a_text},
	{"value", &a_text},
	{"rate_limit", &a_rate_limit},
	{"descriptors", &some_descriptors},
	{"shadow_mode", &a_bool},
	{"quota_mode", &a_bool},
	{"detailed_metric", &a_bool},
	{"value_to_metric", &a_bool},
	{"share_threshold", &a_bool},
	{NULL, NULL},
};
static const struct type a_descriptor = {"config.YamlDescriptor", TYPE_MAP, of_descriptor, NULL, "a descriptor"};
static const struct member of_root[] = {{"domain", &a_text}, {"descriptors", &some_descriptors}, {NULL, NULL}};
static const struct type a_root = {"config.YamlRoot", TYPE_MAP, of_root, NULL, "a file"};

/* In the words of yaml.v2, which shows seven bytes of a longer value. */
static void report_type(struct sl_report *report, const struct sl_yaml *node, const char *wanted) {
	static const char *const tags[] = {
		[SCALAR_NIL] = "!!null",  [SCALAR_TEXT] = "!!str",    [SCALAR_NUMBER] = "!!int",
		[SCALAR_BOOL] = "!!bool", [SCALAR_OTHER] = "!!float",
	};
	const char *tag = node->kind == SL_NODE_MAP ? "!!map" : node->kind == SL_NODE_LIST ? "!!seq" : tags[kind_of(node)];
	char shown[64] = "";
	if (node->kind == SL_NODE_TEXT)
		snprintf(shown, sizeof shown, " `%.*s%s`", (int)(node->text.len > 10 ? 7 : node->text.len),
		         (const char *)node->text.data, node->text.len > 10 ? "..." : "");
	sl_report_error(report, node->place,
	                SL_TREE_THEIR_ERROR "yaml: unmarshal errors: line %u: cannot unmarshal %s%s into %s",
	                node->place.line, tag, shown, wanted);
}

static const struct type *member_of(const struct type *type, struct sluice_bytes name) {
	const struct member *member = type->members;
	while (member->name != NULL && !sl_bytes_equal(name, sl_str(member->name)))
		member++;
	return member->type;
}

static bool is_scalar_good(const struct sl_yaml *node, const struct type *type) {
	bool truth;
	int64_t number;
	enum scalar kind = node->kind == SL_NODE_TEXT ? scalar_of(node, &truth, &number) : SCALAR_OTHER;
	if (kind == SCALAR_NIL)
		return true;
	switch (type->kind) {
	case TYPE_TEXT:
		return node->kind == SL_NODE_TEXT;
	case TYPE_BOOL:
		return kind == SCALAR_BOOL;
	default:
		return kind == SCALAR_NUMBER && number >= 0 && number <= UINT32_MAX;
	}
}

static void check_type(struct sl_report *report, const struct sl_yaml *node, const struct type *type);

static void check_members(struct sl_report *report, const struct sl_yaml *map, const struct type *type) {
	for (const struct sl_yaml *key = sl_map_first(map); key != NULL; key = sl_map_next(key)) {
		const struct type *member = member_of(type, key->text);
		const struct sl_yaml *later = same_later(key);
		if (later != NULL && !key->merged)
			sl_report_warning(report, key->place, "'%s' stands again in line %u, which counts%s",
			                  (const char *)key->text.data, later->place.line,
			                  later->merged ? ": << comes after it" : "");
		if (member != NULL)
			check_type(report, key->next, member);
		else if (type != &a_descriptor || !sl_bytes_equal(key->text, sl_str("metadata")))
			sl_report_warning(report, key->place, "'%s' means nothing in %s", (const char *)key->text.data,
			                  type->called);
	}
}

static void check_type(struct sl_report *report, const struct sl_yaml *node, const struct type *type) {
	if (type->kind == TYPE_MAP && node->kind == SL_NODE_MAP)
		check_members(report, node, type);
	else if (type->kind == TYPE_LIST && node->kind == SL_NODE_LIST)
		for (const struct sl_yaml *one = node->first; one != NULL; one = one->next)
			check_type(report, one, type->each);
	else if (!is_nil(node) && (type->kind >= TYPE_MAP || !is_scalar_good(node, type)))
		report_type(report, node, type->name);
}

void sl_their_check(struct sl_report *report, const struct sl_yaml *root) {
	if (is_nil(root))
		return;
	if (root->kind != SL_NODE_MAP) {
		report_type(report, root, "map[interface {}]interface {}");
		return;
	}
	check_keys(report, root);
	if (report->error_count == 0)
		check_type(report, root, &a_root);
}

/* ---- values of what was checked ---------------------------------------------------------------------------------- */

/* The last that a mapping says of a key, as they take it; NULL where it is absent. */
static const struct sl_yaml *last_of(const struct sl_yaml *map, const char *name) {
	const struct sl_yaml *found = NULL;
	for (const struct sl_yaml *key = sl_map_first(map); key != NULL; key = sl_map_next(key))
		if (sl_bytes_equal(key->text, sl_str(name)))
			found = key->next;
	return found;
}

const struct sl_yaml *sl_their_node(const struct sl_yaml *map, const char *name) {
	const struct sl_yaml *found = last_of(map, name);
	return found != NULL && !is_nil(found) ? found : NULL;
}

static struct sluice_bytes text_of(const struct sl_yaml *node) {
	return node != NULL ? node->text : sl_slice("", 0);
}

struct sluice_bytes sl_their_text(const struct sl_yaml *map, const char *name) {
	return text_of(sl_their_node(map, name));
}

static bool truth_of(const struct sl_yaml *node) {
	bool truth = false;
	int64_t number;
	return node != NULL && scalar_of(node, &truth, &number) == SCALAR_BOOL && truth;
}

void sl_their_descriptor(const struct sl_yaml *map, struct sl_their_descriptor *descriptor) {
	*descriptor = (struct sl_their_descriptor){
		.key = sl_their_text(map, "key"),
		.value = sl_their_text(map, "value"),
		.rate_limit = sl_their_node(map, "rate_limit"),
		.descriptors = sl_their_node(map, "descriptors"),
		.metadata = sl_their_node(map, "metadata"),
		.shadow = truth_of(sl_their_node(map, "shadow_mode")),
		.quota = truth_of(sl_their_node(map, "quota_mode")),
		.detailed = truth_of(sl_their_node(map, "detailed_metric")),
		.value_to_metric = truth_of(sl_their_node(map, "value_to_metric")),
		.share = truth_of(sl_their_node(map, "share_threshold")),
	};
}

/* What a descriptor says of a key of its rate_limit. Theirs are all read into one struct, where several are merged or
 * stand in one descriptor: a later one replaces what it says, null all. */
static const struct sl_yaml *limit_node(const struct sl_yaml *descriptor, const char *name) {
	const struct sl_yaml *found = NULL;
	for (const struct sl_yaml *key = sl_map_first(descriptor); key != NULL; key = sl_map_next(key)) {
		if (!sl_bytes_equal(key->text, sl_str("rate_limit")))
			continue;
		const struct sl_yaml *last = last_of(key->next, name);
		if (is_nil(key->next))
			found = NULL;
		else if (last != NULL)
			found = last;
	}
	return found != NULL && !is_nil(found) ? found : NULL;
}

void sl_their_rate_limit(const struct sl_yaml *descriptor, struct sl_their_rate_limit *limit) {
	const struct sl_yaml *requests = limit_node(descriptor, "requests_per_unit");
	bool truth;
	int64_t number = 0;
	if (requests != NULL)
		(void)scalar_of(requests, &truth, &number);
	*limit = (struct sl_their_rate_limit){
		.requests = (uint32_t)number,
		.unit = limit_node(descriptor, "unit"),
		.name = text_of(limit_node(descriptor, "name")),
		.unlimited = truth_of(limit_node(descriptor, "unlimited")),
		.replaces = limit_node(descriptor, "replaces"),
	};
}
