/* Reading a policy: from the tree of a file to a ruleset. Shared by the readers of its parts. */
#ifndef SL_CONF_H
#define SL_CONF_H

#include "policy/ruleset.h"
#include "policy/tree.h"

struct sl_conf {
	struct sluice_policy *policy; /* being filled */
	struct sl_report *report;
	struct sl_pool *scratch; /* given back when the file has been read */
	uint64_t lint_steps;     /* comparisons that warnings may still cost */
};

/* Reads one value into what `into` points to; reports what it cannot read and leaves `into` as it was then. */
typedef void sl_reader(struct sl_conf *conf, const struct sl_node *value, void *into);

/* A key of a mapping. */
struct sl_field {
	const char *name;
	sl_reader *read;
	size_t offset;        /* of what it reads, in what sl_conf_map() is given */
	const char *required; /* NULL: may be left out; else what is expected of it, for the message */
};

/* Reads a mapping by a table that ends with a NULL name (at most 31 fields): unknown, repeated, missing keys and keys
 * that are no text are reported, the others handed to their readers in the order of the file.
 *  what    "a limit", "the policy": for messages */
void sl_conf_map(struct sl_conf *conf, const struct sl_node *node, const char *what, const struct sl_field *fields,
                 void *into);

/* Is a node of a kind? Reports what was expected and what was found if not. */
bool sl_conf_expect(struct sl_conf *conf, const struct sl_node *node, enum sl_node_kind kind, const char *expected);

/* A text: false where it is none, or is nothing at all (null), which is reported. */
bool sl_conf_text(struct sl_conf *conf, const struct sl_node *node, const char *expected, struct sluice_bytes *text);

/* A whole number of decimal digits, from min to max. */
void sl_conf_number(struct sl_conf *conf, const struct sl_node *node, uint32_t min, uint32_t max, uint32_t *value);

/* `true` or `false`, into a bool. */
sl_reader sl_conf_bool;
/* `256MiB`, KiB, MiB, GiB, TiB or bytes, into a uint64_t: what a store can be made of, 1 MiB..256 GiB. */
sl_reader sl_conf_size;
/* `127.0.0.1:7379`, `[::1]:7379`, `unix:/path`, into a const char *. */
sl_reader sl_conf_listen;
/* The path of a file, into a const char *. */
sl_reader sl_conf_path;
/* The name of shared memory, 1..200 of [A-Za-z0-9._-], into a const char *. */
sl_reader sl_conf_shared;
/* `50%`, 1..98, into a uint32_t: the share of a store that is for blocks. */
sl_reader sl_conf_percent;

/* `10.0.0.0/8`; false where it is none, which is reported. */
bool sl_conf_network(struct sl_conf *conf, const struct sl_node *node, struct sl_network *network);

/* `header x-user-id`; false where it is none, which is reported. */
bool sl_conf_source(struct sl_conf *conf, const struct sl_node *node, struct sluice_bytes *header);

/* The number of an attribute whose name stands `offset` bytes into a node's text; reports a name that cannot be one,
 * or one too many, and returns SL_NAME_NONE then. */
uint16_t sl_conf_name(struct sl_conf *conf, const struct sl_node *node, size_t offset, struct sluice_bytes name);

/* Reads a `when` mapping or a `key`, with what hosts print of them. They report, and keep what is good. */
void sl_conf_when(struct sl_conf *conf, const struct sl_node *node, struct sl_when *when);
void sl_conf_key(struct sl_conf *conf, const struct sl_node *node, struct sl_ruleset_limit *limit);

/* The list of limits, into the policy. */
sl_reader sl_conf_limits;

/* Reads a whole file; the policy is initialised. False without memory. */
bool sl_conf_read(struct sluice_policy *policy, struct sluice_bytes yaml, struct sl_report *report);

#endif
