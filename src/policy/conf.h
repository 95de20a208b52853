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
	bool hushed;             /* what is being read may hold secrets: messages repeat none of it */
	bool optional;           /* of the limit being read: attributes may be absent, and that is meant */
	/* sections that others ask about; NULL while or where there is none */
	const struct sl_yaml *tls, *anonymous, *observe, *overrides_most;
	const struct sl_condition *routed; /* of the limit being read: its paths; NULL: it has none */
	struct sl_position *first_use; /* of each name of an attribute in a limit that is not optional; line 0: none */
};

/* Reads one value into what `into` points to; reports what it cannot read and leaves `into` as it was then. */
typedef void sl_reader(struct sl_conf *conf, const struct sl_yaml *value, void *into);

/* A key of a mapping. */
struct sl_field {
	const char *name;
	sl_reader *read;
	size_t offset;        /* of what it reads, in what sl_conf_map() is given */
	const char *required; /* NULL: may be left out; else what is expected of it, for the message */
};

/* Reads a mapping by a table that ends with a NULL name (at most 31 fields): unknown, repeated, missing keys and keys
 * that are no text are reported, the others handed to their readers in the order of the table, whatever theirs in the
 * file is: a reader may count on those before it.
 *  what    "a limit", "the policy": for messages */
void sl_conf_map(struct sl_conf *conf, const struct sl_yaml *node, const char *what, const struct sl_field *fields,
                 void *into);

/* Is a node of a kind? Reports what was expected and what was found if not. */
bool sl_conf_expect(struct sl_conf *conf, const struct sl_yaml *node, enum sl_node_kind kind, const char *expected);

/* A text: false where it is none, or is nothing at all (null), which is reported. */
bool sl_conf_text(struct sl_conf *conf, const struct sl_yaml *node, const char *expected, struct sluice_bytes *text);

/* A whole number of decimal digits, from min to max. */
void sl_conf_number(struct sl_conf *conf, const struct sl_yaml *node, uint32_t min, uint32_t max, uint32_t *value);

/* `true` or `false`, into a bool. */
sl_reader sl_conf_bool;
/* `allow`, `deny` or `local`, into a uint8_t: enum sl_on_error. */
sl_reader sl_conf_on_error;
/* `256MiB`, KiB, MiB, GiB, TiB or bytes, into a uint64_t: what a store can be made of, 1 MiB..256 GiB. */
sl_reader sl_conf_size;
/* `127.0.0.1:7379`, `[::1]:7379`, `unix:/path`, into a const char *. */
sl_reader sl_conf_address;
/* The path of a file, into a const char *. */
sl_reader sl_conf_path;
/* The name of shared memory, 1..200 of [A-Za-z0-9._-], into a const char *. */
sl_reader sl_conf_shared;

/* `50%`, from min to max; `what` says of what, "a share of the quota". */
void sl_conf_percent(struct sl_conf *conf, const struct sl_yaml *node, uint32_t min, uint32_t max, const char *what,
                     uint32_t *value);

/* `10s`: a whole number and ms, s, m, h, d or w, from 0s to max, which `max_text` spells, in nanoseconds. */
void sl_conf_duration(struct sl_conf *conf, const struct sl_yaml *node, sluice_ns max, const char *max_text,
                      sluice_ns *value);
/* The same, from min, which `min_text` spells. */
void sl_conf_wait(struct sl_conf *conf, const struct sl_yaml *node, sluice_ns min, const char *min_text, sluice_ns max,
                  const char *max_text, sluice_ns *value);

/* A word of a table that ends with a NULL text, other spellings last. */
struct sl_word {
	const char *text;
	uint32_t bits;
	bool alias; /* another spelling: read, and not listed where the words are */
};

/* Words that can't stand in one set, and why; a table ends with a NULL reason. */
struct sl_clash {
	uint32_t a, b;
	const char *why;
};

/* One word of a table; false where it is none of them, which is reported. */
bool sl_conf_word(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_word *words, uint32_t *bits);

/* A word or a list of words, as the union of their bits. A word without bits stands alone. `clashes` may be NULL. */
void sl_conf_set(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_word *words,
                 const struct sl_clash *clashes, uint32_t *bits);

/* `10.0.0.0/8`; false where it is none, which is reported. */
bool sl_conf_network(struct sl_conf *conf, const struct sl_yaml *node, struct sl_network *network);

/* `header x-user-id`; false where it is none, which is reported. */
bool sl_conf_source(struct sl_conf *conf, const struct sl_yaml *node, struct sluice_bytes *header);

/* Does a text begin like one of those? Then it is read as one, and nothing else is expected in its place. */
bool sl_conf_is_header(const struct sl_yaml *node);
/* The same as sl_conf_source(), NUL-ended; NULL where it is none, which is reported. */
const char *sl_conf_header(struct sl_conf *conf, const struct sl_yaml *node);

/* A copy in lower case, in the policy's memory; data NULL without any. */
struct sluice_bytes sl_conf_lower(struct sl_conf *conf, struct sluice_bytes text);

/* The number of an attribute whose name stands `offset` bytes into a node's text; reports a name that cannot be one,
 * or one too many, and returns SL_NAME_NONE then. */
uint16_t sl_conf_name(struct sl_conf *conf, const struct sl_yaml *node, size_t offset, struct sluice_bytes name);

/* Reads a `when` mapping or a `key`, with what hosts print of them. They report, and keep what is good. */
void sl_conf_when(struct sl_conf *conf, const struct sl_yaml *node, struct sl_when *when);
void sl_conf_key(struct sl_conf *conf, const struct sl_yaml *node, struct sl_ruleset_limit *limit);

/* Sections, into the struct sluice_policy. */
sl_reader sl_conf_limits;
sl_reader sl_conf_proxies;
sl_reader sl_conf_attributes;
/* Sections, into the struct sl_settings. `listen` may be NULL: the defaults. */
sl_reader sl_conf_store;
sl_reader sl_conf_tls;
sl_reader sl_conf_users;
sl_reader sl_conf_listen;
/* Once all has been read: whether the store can have as many quotas of keys' own as it says. Reports. */
void sl_conf_check_overrides(struct sl_conf *conf);
/* Into a struct of their own: sl_connection_limits, sl_log_settings. */
sl_reader sl_conf_connections;
sl_reader sl_conf_log;
sl_reader sl_conf_envoy; /* sl_envoy_settings */
/* Into a uint32_t: bits of roles and of forms, a count, bits, percent. */
sl_reader sl_conf_anonymous;
sl_reader sl_conf_forms;
sl_reader sl_conf_threads;
sl_reader sl_conf_ipv6_prefix;
sl_reader sl_conf_near;
/* `header NAME`, in lower case, into a const char *. */
sl_reader sl_conf_retry_id;
/* `denied`: the body of denials, into a uint8_t that numbers it from 1. */
sl_reader sl_conf_denied;
/* Which paths are one, into a uint32_t of SL_PATHS_ bits. */
sl_reader sl_conf_paths;
/* Into a bool: is it `forwarded`? */
sl_reader sl_conf_client_address;
/* Into a sluice_ns. */
sl_reader sl_conf_drain;

/* Reads a whole file; the policy is initialised. False without memory. */
bool sl_conf_read(struct sluice_policy *policy, struct sluice_bytes yaml, struct sl_report *report);

#endif
