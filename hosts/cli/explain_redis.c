/* What counters in Redis hold of a request, for `sluice explain -c FILE --store redis://...`. A limit that applies is
 * asked for in the words of a front, so under its key and its name; the module tells the rest. */
#include "hosts/cli/explain_redis.h"

#include "algo/step.h"
#include "base/assert.h"
#include "hosts/server/remote/plan.h"
#include "proto/inspection.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 2 + 16 };

/* What the node tells stands first, as at a server; what the policy said of the limit stays. */
static bool read_told(struct sl_client *client, struct sl_told *told, struct sluice_error *error) {
	static struct sl_told there;
	int64_t count;
	if (!sl_client_integer(client, '*', &count, error) || !sl_told_read(client, &there, error))
		return false;
	there.limit = told->limit;
	there.key = told->key;
	there.name = told->name;
	there.why = told->why;
	for (uint32_t i = 0; i < told->number_count && there.number_count < SL_TOLD_NUMBERS_MAX; i++)
		there.numbers[there.number_count++] = told->numbers[i];
	*told = there;
	return true;
}

/* A limit that has met a bound denies, whatever its node would tell: as a front says it. */
static void put_bound(struct sl_told *told, const struct sluice_item *item) {
	static struct sluice_inspection denied;
	struct sl_inspection_number numbers[SL_INSPECTION_NUMBERS];
	SL_ASSERT(told->number_count + SL_INSPECTION_NUMBERS <= SL_TOLD_NUMBERS_MAX);
	sl_decide_unread(item, true, &denied.decision);
	sl_inspection_numbers(&denied, numbers);
	memmove(told->numbers + SL_INSPECTION_NUMBERS, told->numbers, told->number_count * sizeof *told->numbers);
	for (int i = 0; i < SL_INSPECTION_NUMBERS; i++) {
		snprintf(told->numbers[i].name, sizeof told->numbers[i].name, "%s", numbers[i].name);
		told->numbers[i].value = numbers[i].value;
	}
	told->number_count += SL_INSPECTION_NUMBERS;
	snprintf(told->bound, sizeof told->bound, "%s", sluice_bound_name((sluice_bound)item->bound));
}

static bool ask(struct sl_client *client, const struct sluice_item *item, const char *name, const char *prefix,
                struct sluice_error *error) {
	const struct sl_plan_item plan = {item, name, 0};
	struct sl_group *group = sl_group_new(&plan, 1, prefix);
	struct sluice_bytes words[WORDS_MAX] = {sl_str("SLUICE.INSPECT")};
	int count = 2;
	bool sent;
	if (group == NULL) {
		snprintf(error->text, sizeof error->text, "no memory");
		return false;
	}
	SL_ASSERT(group->tail_count + 2 <= WORDS_MAX);
	words[1] = group->keys[0];
	for (uint32_t i = 0; i < group->tail_count; i++)
		words[count++] = group->tail[i];
	sent = sl_client_send(client, words, count, error);
	free(group);
	return sent;
}

/* The limit of a name among those that are told. */
static struct sl_told *find(struct sl_told *list, uint32_t count, const char *name) {
	for (uint32_t i = 0; i < count; i++)
		if (sl_bytes_equal(sl_slice(list[i].name.data, list[i].name.len), sl_str(name)))
			return &list[i];
	return NULL;
}

bool sl_explain_in_redis(struct sl_client *client, const struct sluice_policy *policy, const char *prefix,
                         const struct sluice_attribute *attributes, size_t attribute_count, struct sl_told *list,
                         uint32_t count, struct sluice_error *error) {
	static char keys[SLUICE_MATCH_BYTES_MAX];
	static struct sluice_match match;
	sluice_err err = sluice_policy_match(policy, attributes, attribute_count, &match, keys, sizeof keys);
	SL_ASSERT(err == SLUICE_OK); /* it has been matched before, to find the list */
	for (uint32_t i = 0; i < match.count; i++) {
		const char *name = sluice_policy_limit_name(policy, match.position[i]);
		struct sl_told *told = find(list, count, name);
		if (told == NULL || !sl_rule_has(match.items[i].limit, SL_HAS_COUNTER))
			continue;
		match.items[i].cost = (uint32_t)sl_told_number(told, "cost", 1);
		if (match.items[i].bound != SLUICE_BOUND_NONE)
			put_bound(told, &match.items[i]);
		else if (!ask(client, &match.items[i], name, prefix, error) || !read_told(client, told, error))
			return false;
	}
	return true;
}
