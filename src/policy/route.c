/* Routes, compared segment by segment.
 *
 *   /orgs/{org}/search     a part is one whole segment, never an empty one; a star at the end stands for any rest
 *
 * Both sides have the form of paths, so a segment ends at a slash or at the end. Routes are tried in the order of the
 * file: whoever writes two that hold for one path has said which is meant.
 */
#include "policy/route.h"

#include "base/assert.h"
#include "policy/attribute.h"

/* The end of the segment that begins here. */
static size_t segment_end(struct sluice_bytes path, size_t at) {
	const char *p = path.data;
	const char *slash = at < path.len ? memchr(p + at, '/', path.len - at) : NULL;
	return slash != NULL ? (size_t)(slash - p) : path.len;
}

bool sl_route_holds(const struct sl_route *route, struct sluice_bytes path, struct sluice_bytes *parts) {
	const char *r = route->stem.data, *p = path.data;
	size_t at = 0, part = 0;
	for (size_t i = 0; i < route->stem.len; i++) {
		if (route->part_count == 0 || r[i] != '{') {
			bool ends = route->ends_loosely && i + 1 == route->stem.len && at == path.len;
			if (!ends && (at == path.len || p[at] != r[i]))
				return false;
			at += !ends;
			continue;
		}
		size_t end = segment_end(path, at);
		if (end == at)
			return false;
		if (parts != NULL)
			parts[part++] = sl_slice(p + at, end - at);
		at = end;
		while (r[i] != '}')
			i++;
	}
	return route->prefix || at == path.len;
}

bool sl_routes_hold(const struct sl_condition *condition, struct sluice_bytes path) {
	for (uint32_t i = 0; i < condition->route_count; i++)
		if (condition->routes[i].part_count != 0 && sl_route_holds(&condition->routes[i], path, NULL))
			return true;
	return false;
}

static bool has_part(const struct sl_route *route, uint32_t number) {
	for (uint32_t i = 0; i < route->part_count; i++)
		if (route->numbers[i] == number)
			return true;
	return false;
}

bool sl_routes_fill(const struct sl_condition *condition, uint32_t number) {
	for (uint32_t i = 0; i < condition->route_count; i++)
		if (has_part(&condition->routes[i], number))
			return true;
	return false;
}

bool sl_routes_allow(const struct sl_condition *condition, uint16_t route, uint16_t number, struct sluice_bytes value) {
	bool is_segment = value.data != NULL && value.len != 0 && memchr(value.data, '/', value.len) == NULL;
	for (uint32_t i = 0; i < condition->route_count; i++) {
		const struct sl_route *one = &condition->routes[i];
		if (number == route ? value.data != NULL && sl_bytes_equal(one->text, value)
		                    : is_segment || !has_part(one, number)) /* that route leaves what the request says */
			return true;
	}
	return false;
}

static void put(struct sl_route_places *places, struct sluice_bytes *values, uint16_t number,
                struct sluice_bytes value) {
	places->numbers[places->count] = number;
	places->values[places->count++] = values[number];
	values[number] = value;
}

void sl_route_enter(const struct sl_condition *condition, uint16_t route, struct sluice_bytes *values,
                    struct sl_route_places *places) {
	struct sluice_bytes path = values[condition->attribute], parts[SL_ROUTE_PARTS_MAX];
	for (uint32_t i = 0; i < condition->route_count; i++) {
		const struct sl_route *one = &condition->routes[i];
		if (!sl_route_holds(one, path, parts))
			continue;
		for (uint32_t k = 0; k < one->part_count; k++)
			put(places, values, one->numbers[k], parts[k]);
		if (route != SL_NAME_NONE)
			put(places, values, route, one->text);
		return;
	}
}

void sl_route_leave(struct sl_route_places *places, struct sluice_bytes *values) {
	while (places->count > 0) {
		places->count--;
		values[places->numbers[places->count]] = places->values[places->count];
	}
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

struct sl_policy_routes sl_policy_routes(const struct sluice_policy *policy, uint32_t position) {
	if (position >= policy->limit_count) /* a rule of envoyproxy/ratelimit's files */
		return (struct sl_policy_routes){0, 0};
	return policy->limits[position].routes;
}

uint32_t sl_policy_route_count(const struct sluice_policy *policy) {
	return policy->route_count;
}

struct sluice_bytes sl_policy_route_at(const struct sluice_policy *policy, uint32_t position, uint32_t i) {
	SL_ASSERT(i < sl_policy_routes(policy, position).count);
	return policy->limits[position].paths->routes[i].text;
}

/* The place of the first route of a limit that holds for a path, among them all; -1: none. */
static int64_t find_place(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes path) {
	const struct sl_condition *paths = position < policy->limit_count ? policy->limits[position].paths : NULL;
	char memory[SLUICE_KEY_BYTES_MAX];
	if (path.data == NULL || paths == NULL)
		return -1;
	path = sl_attribute_counted(SL_ATTRIBUTE_PATH, path, policy->settings.ipv6_prefix, policy->settings.paths, memory);
	for (uint32_t i = 0; i < paths->route_count; i++)
		if (sl_route_holds(&paths->routes[i], path, NULL))
			return i;
	return -1;
}

struct sluice_bytes sl_policy_route(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes path) {
	int64_t place = find_place(policy, position, path);
	return place < 0 ? sl_slice(NULL, 0) : policy->limits[position].paths->routes[place].text;
}

int64_t sl_policy_route_find(const struct sluice_policy *policy, uint32_t position, struct sluice_bytes path) {
	const struct sl_policy_routes routes = sl_policy_routes(policy, position);
	int64_t place = find_place(policy, position, path);
	return place >= 0 && place < routes.count ? routes.first + place : -1;
}
