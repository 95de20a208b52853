/* Routes: what a limit's `when` says of `path`, in the file's order; parts of it stand for any segment. A request that
 * the limit is for has a route, the one that it is of, and its parts as attributes. */
#ifndef SL_ROUTE_H
#define SL_ROUTE_H

#include "policy/ruleset.h"

/* Does a path, in its form, have the route? Then fills `parts` with what stands for its parts, in their order; they
 * point into the path. `parts` has SL_ROUTE_PARTS_MAX, or is NULL. O(path). */
bool sl_route_holds(const struct sl_route *route, struct sluice_bytes path, struct sluice_bytes *parts);

/* Is a path one of a condition's routes that have parts? */
bool sl_routes_hold(const struct sl_condition *condition, struct sluice_bytes path);

/* Does the condition's route, or a part of one, fill in the attribute of this number? */
bool sl_routes_fill(const struct sl_condition *condition, uint32_t number);

/* May a request that the limit is for have this value of the attribute of this number, which the condition's routes
 * fill in? `route` is as for sl_route_enter(); `value` data NULL: may it be absent? O(routes * parts). */
bool sl_routes_allow(const struct sl_condition *condition, uint16_t route, uint16_t number, struct sluice_bytes value);

/* What a request's own attributes were where a route took their places. */
struct sl_route_places {
	uint32_t count;
	uint16_t numbers[SL_ROUTE_PARTS_MAX + 1];
	struct sluice_bytes values[SL_ROUTE_PARTS_MAX + 1];
};

/* Puts the first route of a condition that holds, and its parts, among a request's values by number; `places` keeps
 * what they took the place of, for sl_route_leave(), which puts it back. `route` is the number of the attribute of
 * that name; SL_NAME_NONE: the policy asks for none. */
void sl_route_enter(const struct sl_condition *condition, uint16_t route, struct sluice_bytes *values,
                    struct sl_route_places *places);
void sl_route_leave(struct sl_route_places *places, struct sluice_bytes *values);

#endif
