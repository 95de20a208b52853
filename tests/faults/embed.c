/* A program that embeds the library, for tests/faults: it opens a store, loads a policy, matches, decides, sets a
 * quota of a key's own, looks, closes. All that it was told goes to standard output; what could not be done to standard
 * error, with status 2. What the library does not say by an error must have happened.
 *
 *     embed memory|file|shared [NAME] */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sluice.h"

static struct sluice_error error;

static int fail(const char *what, sluice_err err) {
	fprintf(stderr, "%s: %d: %s\n", what, (int)err, error.text);
	return 2;
}

static struct sluice_bytes bytes(const char *text) {
	return (struct sluice_bytes){text, strlen(text)};
}

static int decide(struct sluice_store *store, const struct sluice_policy *policy) {
	static char buffer[SLUICE_MATCH_BYTES_MAX];
	struct sluice_attribute attributes[] = {{bytes("user"), bytes("ann")}, {bytes("path"), bytes("/a/../login")}};
	struct sluice_match match;
	struct sluice_call call = {.cost = 2, .operation = SLUICE_CHARGE, .now = sluice_store_now(store)};
	sluice_err err = sluice_policy_match(policy, attributes, 2, &match, buffer, sizeof buffer);
	if (err != SLUICE_OK)
		return fail("match", err);
	call.items = match.items;
	call.item_count = match.count;
	err = sluice_decide(store, &call);
	if (err != SLUICE_OK)
		return fail("decide", err);
	printf("decided %d, %" PRIu32 " limits, %" PRIu32 " left\n", call.merged.allowed, match.count,
	       call.merged.remaining);
	return 0;
}

static int use(struct sluice_store *store, const struct sluice_limit *limit, const struct sluice_limit *own) {
	struct sluice_bytes key = bytes("u");
	struct sluice_decision decision;
	struct sluice_override_request request = {.limit = limit, .key = key, .own = own};
	struct sluice_item item = {.limit = limit, .key = key, .cost = 1};
	struct sluice_inspection seen;
	sluice_err err = sluice_check(store, limit, key, 3, &decision);
	if (err != SLUICE_OK)
		return fail("check", err);
	printf("checked %d, %" PRIu32 " left\n", decision.allowed, decision.remaining);
	err = sluice_override_set(store, &request, sluice_store_now(store), &error);
	if (err != SLUICE_OK)
		return fail("override", err);
	err = sluice_inspect(store, &item, 1, sluice_store_now(store), &seen);
	if (err != SLUICE_OK)
		return fail("inspect", err);
	printf("used %" PRIu64 ", %" PRIu32 " left\n", seen.used, seen.decision.remaining);
	return 0;
}

static int embed(struct sluice_store *store) {
	const char *yaml = "limits: [{name: login, when: {path: /login}, key: user, limit: sliding-log 5/1w,"
	                   " optional: true}, {name: all, key: [], limit: 1000/1w}]";
	struct sluice_limit limit, own;
	struct sluice_policy *policy;
	struct sluice_problems problems = {0};
	sluice_err err = sluice_limit_parse(&limit, bytes("sliding-log 100/1w"), &error);
	int status;
	if (err != SLUICE_OK || (err = sluice_limit_parse(&own, bytes("sliding-log 200/1w"), &error)) != SLUICE_OK)
		return fail("parse", err);
	err = sluice_policy_load(&policy, bytes(yaml), &problems);
	if (err != SLUICE_OK) {
		fprintf(stderr, "policy: %d: %s\n", (int)err, problems.count != 0 ? problems.list[0].text : "");
		sluice_problems_free(&problems);
		return 2;
	}
	sluice_problems_free(&problems);
	status = decide(store, policy);
	sluice_policy_free(policy);
	return status != 0 ? status : use(store, &limit, &own);
}

int main(int count, char **arguments) {
	struct sluice_store_options options = {.memory_bytes = 1 << 20};
	struct sluice_store *store;
	sluice_err err;
	int status;
	if (count == 3)
		*(strcmp(arguments[1], "file") == 0 ? &options.file : &options.shared) = arguments[2];
	err = sluice_store_open(&store, &options, &error);
	if (err != SLUICE_OK)
		return fail("open", err);
	status = embed(store);
	sluice_store_close(store);
	if (options.shared == NULL)
		return status;
	err = sluice_store_forget(options.shared, &error);
	return err != SLUICE_OK ? fail("forget", err) : status;
}
