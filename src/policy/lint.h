/* Warnings: what loads and yet cannot be meant. Few, and true. */
#ifndef SL_LINT_H
#define SL_LINT_H

#include "policy/attribute.h"
#include "policy/conf_redis.h"
#include "policy/conf_terms.h"

/* ---- shared by the files ----------------------------------------------------------------------------------------- */

/* Takes steps from the budget of a file. Where it is used up: false, and sl_lint_is_half(). */
bool sl_lint_spend(struct sl_conf *conf, uint64_t steps);

/* Does the path of each request that the limit being read is for fill in the attribute of this number? */
bool sl_lint_is_of_route(const struct sl_conf *conf, uint32_t number);

/* What a `when` says of an attribute; NULL: nothing. */
const struct sl_condition *sl_lint_condition(const struct sl_when *when, uint32_t attribute);

/* Does `wide` surely hold for each request that `narrow` holds for? */
bool sl_lint_covers(struct sl_conf *conf, const struct sl_when *wide, const struct sl_when *narrow);

/* ---- one warning each, or of one kind ---------------------------------------------------------------------------- */

/* A part of a key that a request may lack in all its forms: such a request is not limited. */
void sl_lint_part(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_key_part *part);

/* The same of a limit's conditions; `when` is its mapping. */
void sl_lint_when(struct sl_conf *conf, const struct sl_yaml *when);

/* A network of a condition: one that was written with bits after its prefix, or narrower than requests tell. */
void sl_lint_network(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_network *network, bool strays,
                     bool narrow);

/* A value of a condition, or a prefix: one that no request can have, or that holds for more than is written.
 *  form      what it was made of
 *  may_hold  can any value begin so? Of a prefix */
void sl_lint_value(struct sl_conf *conf, const struct sl_yaml *node, enum sl_attribute attribute,
                   struct sluice_bytes written, struct sluice_bytes form, bool prefix, bool may_hold);

/* Names of attributes that no HTTP door can fill in, unless descriptors of Envoy's may have them. The listeners and
 * `attributes` must have been read. */
void sl_lint_names(struct sl_conf *conf);

/* Is there a listener of a door? They must have been read. */
bool sl_lint_has_door(const struct sl_conf *conf, enum sl_listen_door door);

/* A candidate that is what it is tried beside. `node` is its text. */
void sl_lint_candidate(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_policy_limit *limit);

/* A quota of 0. */
void sl_lint_rule(struct sl_conf *conf, const struct sl_yaml *node, const struct sluice_limit *limit);

/* Conditions whose `not` excepts all that they hold for. `node` is their text. */
void sl_lint_never(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_when *when);

/* Overrides after one that takes all they could get, those that the limit's own conditions exclude, and those that
 * change nothing; and a limit that nothing is left for. `nodes` are the overrides' own, `node` is the limit's text.
 * O(overrides), and O(overrides^2) of those that say what the limit says, within conf->lint_steps. */
void sl_lint_overrides(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit,
                       const struct sl_yaml *const *nodes);

/* Limits that deny nobody whom another one of the same key and window admits. `nodes` are the limits' own. O(limits)
 * where their conditions tell them apart, else O(limits^2) within conf->lint_steps. */
void sl_lint_hidden(struct sl_conf *conf, const struct sl_yaml *const *nodes);

/* Routes after one that holds for all their paths: what their parts, or `route`, would be, they never are. `when` is
 * the text of the limit's conditions. O(routes^2), within conf->lint_steps. */
void sl_lint_routes(struct sl_conf *conf, const struct sl_yaml *when, const struct sl_ruleset_limit *limit);

/* Costs of some requests after one that takes all of them, those that the limit's own conditions exclude, and those
 * that no quota which they can be charged to admits. `node` is the value of `cost`; the rest of the limit has been read
 * and has no mistakes. O(costs^2 + costs * overrides), within conf->lint_steps. */
void sl_lint_costs(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit);

/* An estimate of `reserve` that no quota which it can be charged to admits; `node` is its number. The rest of the limit
 * has been read and has no mistakes. O(overrides), within conf->lint_steps. */
void sl_lint_first_charge(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit);

/* `unlimited` without overrides. */
void sl_lint_unlimited(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit);

/* More limits that can apply to one request than can be decided in one; `nodes` are the limits' own. O(limits^2),
 * within conf->lint_steps. */
void sl_lint_many(struct sl_conf *conf, const struct sl_yaml *const *nodes);

/* What a limit says of a store that is elsewhere, where it is here, and of one that is here, where it is elsewhere; and
 * `stagger` where nothing is staggered.
 * Nodes are the values of its keys, NULL where it has none. The store must have been read. */
void sl_lint_elsewhere(struct sl_conf *conf, const struct sl_yaml *on_error, const struct sl_yaml *strict,
                       const struct sl_yaml *stagger, const struct sl_policy_limit *limit);

/* Members that a request may lack, or that the key is of already. `node` is the value of `of`; the key was read. */
void sl_lint_of(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_ruleset_limit *limit);

/* A header of responses that no door will see. `node` says which. The listeners must have been read. */
void sl_lint_actual(struct sl_conf *conf, const struct sl_yaml *node);

/* What will surprise of leases, of members that are estimated, of penalties. The limit has no mistakes. */
void sl_lint_terms(struct sl_conf *conf, const struct sl_term_nodes *nodes, const struct sl_ruleset_limit *limit);

/* Logs and leases that the store has no room for, should one counter use its quota up. The store's settings have been
 * read. `nodes` are the limits' own. */
void sl_lint_room(struct sl_conf *conf, const struct sl_yaml *const *nodes);

/* Windows of the calendar that alone bound a key: twice the quota passes around the end of one. `nodes` are the limits'
 * own. O(limits^2), within conf->lint_steps. */
void sl_lint_calendars(struct sl_conf *conf, const struct sl_yaml *const *nodes);

/* Keys of `path` that give each path below a prefix a counter of its own, and nothing bounds them together. `nodes` are
 * the limits' own. O(limits^2), within conf->lint_steps. */
void sl_lint_paths(struct sl_conf *conf, const struct sl_yaml *const *nodes);

/* A limit whose keys share the quota of another one, and how many of them at full quota are the first to ask for more
 * than that admits: 1: a single one can't have all of its own. */
struct sl_lint_sum {
	uint32_t below, above; /* positions */
	uint64_t keys;
};

/* Finds such pairs, by the quotas that stand at the limits themselves: enforced ones that count cost by windows, the
 * one above without conditions. Fills at most `room` of `list`; returns how many.
 *  whole  false: looking at all limits below each would have taken too long, so that some pairs may be missing */
uint32_t sl_lint_sums(const struct sluice_policy *policy, struct sl_lint_sum *list, uint32_t room, bool *whole);

/* Were some rules not compared with each other, because that would have taken too long? Then warnings of what another
 * rule hides, repeats or bounds may be missing. */
bool sl_lint_is_half(const struct sluice_policy *policy);

/* Nodes of Redis that are asked in a way that will be regretted; what was read of them is in `redis`. */
void sl_lint_redis(struct sl_conf *conf, const struct sl_redis_nodes *nodes, const struct sl_redis_settings *redis);

/* A network of proxies that everybody is in. */
void sl_lint_proxy(struct sl_conf *conf, const struct sl_yaml *node, const struct sl_network *network);

/* Listeners that give secrets away, that the server will not open, or whose options do nothing. `nodes` are where each
 * stands, NULL for a default. Users and trusted-proxies must have been read. */
void sl_lint_listens(struct sl_conf *conf, const struct sl_yaml *const *nodes);

/* The other settings of the server, once the whole file has been read. */
void sl_lint_settings(struct sl_conf *conf);

#endif
