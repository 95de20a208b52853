/* The case list through the library: every case of the JSON files in tests/cases decided by sluice_decide(), number for
 * number; and by the engine over cells in an array (array_host.h).
 *
 * The same list goes through RESP, HTTP and `sluice replay` in tests/e2e/test_cases.py, so that the doors agree with
 * each other because each agrees with the list. tests/cases/twin.py made the list and checks it; this driver knows
 * nothing of limits but how to ask. Each case has a store of its own, and is one test with its own name.
 *
 * Folder: $SLUICE_CASES, or tests/cases below the working directory. */
#include "array_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <glob.h>
#include <jansson.h>

enum { ITEMS_MAX = SLUICE_ITEMS_MAX + 4, ATTRIBUTES_MAX = 16, CASES_MAX = 4096, HOLDERS_MAX = 8 };

/* What one step asks, and the memory that the question lives in. */
struct question {
	struct sluice_limit limits[ITEMS_MAX];
	struct sluice_item items[ITEMS_MAX];
	struct sluice_decision each[ITEMS_MAX];
	struct sluice_match match;
	struct sluice_call call;
	bool refused; /* the notation, the cost or the number of limits was */
	struct sluice_holder holders[HOLDERS_MAX];
	uint32_t holder_count;
};

/* Where a case stands while it runs. */
struct run {
	struct sluice_store *store;   /* NULL: the cells are in an array */
	struct sluice_policy *policy; /* NULL where the case has none */
	void *buffer;
	json_t *step;
	size_t step_number;
};

static const char *cases_folder(void) {
	const char *folder = getenv("SLUICE_CASES");
	return folder != NULL ? folder : "tests/cases";
}

static const char *text_of(json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));
	return text != NULL ? text : "";
}

static struct sluice_bytes bytes_of(json_t *value) {
	return sl_slice(json_string_value(value), json_string_length(value));
}

/* ---- asking ---- */

static const struct operation {
	const char *name;
	sluice_operation operation;
} operations[] = {{"check", SLUICE_CHARGE},    {"admit", SLUICE_CHARGE},    {"peek", SLUICE_PEEK},
                  {"explain", SLUICE_PEEK},    {"refund", SLUICE_REFUND},   {"reset", SLUICE_RESET},
                  {"acquire", SLUICE_ACQUIRE}, {"release", SLUICE_RELEASE}, {"renew", SLUICE_RENEW},
                  {"holders", SLUICE_PEEK},    {"reserve", SLUICE_RESERVE}, {"commit", SLUICE_COMMIT}};

static sluice_operation operation_of(json_t *step) {
	for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
		if (strcmp(text_of(step, "op"), operations[i].name) == 0)
			return operations[i].operation;
	fail_msg("unknown operation '%s'", text_of(step, "op"));
	return SLUICE_PEEK;
}

/* The limits that the step brings along: a notation, or an object with its own key. */
static void read_limits(struct question *q, json_t *step) {
	json_t *element;
	size_t i;
	json_array_foreach(json_object_get(step, "limits"), i, element) {
		json_t *text = json_is_string(element) ? element : json_object_get(element, "limit");
		json_t *key = json_object_get(json_is_string(element) ? step : element, "key");
		json_t *member = json_is_string(element) ? NULL : json_object_get(element, "member");
		member = member != NULL ? member : json_object_get(step, "member");
		assert_true(i < ITEMS_MAX);
		if (sluice_limit_parse(&q->limits[i], bytes_of(text), NULL) != SLUICE_OK)
			q->refused = true;
		q->items[i] = (struct sluice_item){.limit = &q->limits[i],
		                                   .key = bytes_of(key != NULL ? key : json_object_get(step, "key"))};
		if (member != NULL)
			q->items[i].member = bytes_of(member);
	}
	q->call.items = q->items;
	q->call.item_count = (uint32_t)json_array_size(json_object_get(step, "limits"));
}

static void match_policy(struct question *q, const struct run *run) {
	struct sluice_attribute attributes[ATTRIBUTES_MAX];
	const char *name;
	json_t *value;
	size_t n = 0;
	json_object_foreach(json_object_get(run->step, "attributes"), name, value) {
		assert_true(n < ATTRIBUTES_MAX);
		attributes[n++] = (struct sluice_attribute){.name = sl_str(name), .value = bytes_of(value)};
	}
	assert_int_equal(sluice_policy_match(run->policy, attributes, n, &q->match, run->buffer, SLUICE_MATCH_BYTES_MAX),
	                 SLUICE_OK);
	q->call.items = q->match.items;
	q->call.item_count = q->match.count;
}

/* What an admission comes to: a lease, a reservation, or a charge. */
static sluice_operation admission_of(struct question *q, json_t *step) {
	json_t *member = json_object_get(step, "member");
	sluice_operation operation = SLUICE_CHARGE;
	for (uint32_t i = 0; i < q->match.count; i++) {
		struct sluice_item *item = &q->match.items[i];
		if (item->limit->algorithm == SLUICE_DISTINCT && member != NULL)
			item->member = bytes_of(member);
		if (item->limit->algorithm == SLUICE_CONCURRENCY)
			operation = SLUICE_ACQUIRE;
		else if (item->ttl_ns != 0 && operation == SLUICE_CHARGE)
			operation = SLUICE_RESERVE;
	}
	return operation;
}

/* Lists who holds leases, where that is asked. */
static void list_holders(struct question *q, const struct run *run) {
	if (run->store == NULL)
		q->holder_count = array_holders(&q->items[0], q->call.now, q->holders, HOLDERS_MAX);
	else
		q->holder_count =
			sluice_holders(run->store, q->items[0].limit, q->items[0].key, q->call.now, q->holders, HOLDERS_MAX);
}

static void ask(struct question *q, const struct run *run) {
	json_t *cost = json_object_get(run->step, json_object_get(run->step, "actual") != NULL ? "actual" : "cost");
	json_t *id = json_object_get(run->step, "id"), *ttl_ms = json_object_get(run->step, "ttl_ms");
	json_int_t units = cost != NULL ? json_integer_value(cost) : 1;
	memset(q, 0, sizeof *q);
	q->refused = units < 0 || units > UINT32_MAX;
	if (json_object_get(run->step, "attributes") != NULL)
		match_policy(q, run);
	else
		read_limits(q, run->step);
	if (q->refused)
		return;
	q->call.cost = (uint32_t)units;
	for (uint32_t i = 0; i < q->match.count && units == 0; i++)
		q->match.items[i].cost = 0; /* what costs nothing costs nothing anywhere, as the doors have it */
	q->call.operation =
		strcmp(text_of(run->step, "op"), "admit") == 0 ? admission_of(q, run->step) : operation_of(run->step);
	q->call.upto = json_is_true(json_object_get(run->step, "upto"));
	q->call.ttl_ns = ttl_ms != NULL ? (sluice_ns)json_integer_value(ttl_ms) * 1000000 : 0;
	if (id != NULL)
		q->call.id = bytes_of(id);
	q->call.now = (sluice_ns)json_integer_value(json_object_get(run->step, "at")) * 1000000;
	q->call.each = q->each;
	if (strcmp(text_of(run->step, "op"), "holders") == 0)
		list_holders(q, run);
	else
		q->refused = (run->store == NULL ? array_decide(&q->call) : sluice_decide(run->store, &q->call)) != SLUICE_OK;
}

/* ---- comparing ---- */

static void expect_number(const struct run *run, json_t *expected, const char *field, int64_t got) {
	json_t *want = json_object_get(expected, field);
	if (json_is_integer(want) && json_integer_value(want) == got)
		return;
	char *step = json_dumps(run->step, JSON_COMPACT);
	print_error("step %zu: %s is %lld\n%s\n", run->step_number, field, (long long)got, step);
	free(step);
	fail();
}

static void expect_text(const struct run *run, json_t *expected, const char *field, const char *got) {
	if (strcmp(text_of(expected, field), got) != 0)
		fail_msg("step %zu: %s is '%s', expected '%s'", run->step_number, field, got, text_of(expected, field));
}

static void expect_decision(const struct run *run, json_t *expected, const struct sluice_decision *got) {
	expect_number(run, expected, "allowed", got->allowed);
	expect_number(run, expected, "quota", (int64_t)got->quota);
	expect_number(run, expected, "remaining", got->remaining);
	expect_number(run, expected, "retry_after_ms", sl_ns_to_ms_ceil(got->retry_after_ns));
	expect_number(run, expected, "reset_after_ms", sl_ns_to_ms_ceil(got->reset_after_ns));
	expect_number(run, expected, "delay_ms", sl_ns_to_ms_ceil(got->delay_ns));
}

/* The limits' own answers, where the case lists them. */
static void expect_each(const struct run *run, json_t *list, const struct question *q) {
	json_t *expected;
	size_t i;
	if (list != NULL)
		assert_int_equal(json_array_size(list), q->call.item_count);
	json_array_foreach(list, i, expected) expect_decision(run, expected, &q->each[i]);
}

/* An explanation: name, canonical limit and own answer of each limit that applies. The key's text is the doors'. */
static void expect_explanation(const struct run *run, json_t *list, const struct question *q) {
	char text[SLUICE_LIMIT_TEXT_MAX];
	json_t *expected;
	size_t i;
	assert_int_equal(json_array_size(list), q->call.item_count);
	json_array_foreach(list, i, expected) {
		sluice_limit_print(q->match.items[i].limit, text);
		expect_text(run, expected, "limit", text);
		expect_text(run, expected, "name", sluice_policy_limit_name(run->policy, q->match.position[i]));
		expect_decision(run, expected, &q->each[i]);
	}
}

/* Each an array of id, cost and ms. */
static void expect_holders(const struct run *run, json_t *list, const struct question *q) {
	json_t *expected;
	size_t i;
	if (json_array_size(list) != q->holder_count)
		fail_msg("step %zu: %u leases are held", run->step_number, q->holder_count);
	json_array_foreach(list, i, expected) {
		char id[17];
		snprintf(id, sizeof id, "%016llx", (unsigned long long)q->holders[i].id);
		assert_string_equal(id, json_string_value(json_array_get(expected, 0)));
		assert_int_equal(q->holders[i].cost, json_integer_value(json_array_get(expected, 1)));
		assert_int_equal(sl_ns_to_ms_ceil(q->holders[i].ends_after_ns),
		                 json_integer_value(json_array_get(expected, 2)));
	}
}

static void expect_told(const struct run *run, json_t *expected, const struct question *q) {
	json_t *repeated = json_object_get(expected, "repeated");
	if (repeated != NULL && json_is_true(repeated) != q->call.repeated)
		fail_msg("step %zu: repeated is %d", run->step_number, q->call.repeated);
	if (json_object_get(expected, "granted") != NULL)
		expect_number(run, expected, "granted", q->call.granted);
}

static void expect_merged(const struct run *run, json_t *expected, const struct question *q) {
	int32_t index = q->call.merged.index;
	expect_decision(run, expected, &q->call.merged);
	if (json_object_get(expected, "name") != NULL) {
		const char *name = index < 0 ? "" : sluice_policy_limit_name(run->policy, q->match.position[index]);
		expect_text(run, expected, "name", name);
		index = index < 0 ? -1 : (int32_t)q->match.position[index];
	}
	expect_number(run, expected, "index", index);
	expect_each(run, json_object_get(expected, "each"), q);
	expect_told(run, expected, q);
}

static void expect_answer(const struct run *run, const struct question *q) {
	json_t *expected = json_object_get(run->step, "expect");
	if (json_object_get(expected, "error") != NULL) {
		if (!q->refused)
			fail_msg("step %zu was not refused", run->step_number);
		return;
	}
	if (q->refused)
		fail_msg("step %zu was refused", run->step_number);
	if (json_object_get(expected, "forgotten") != NULL)
		expect_number(run, expected, "forgotten", q->call.forgotten);
	else if (json_object_get(expected, "found") != NULL)
		expect_number(run, expected, "found", q->call.found);
	else if (json_object_get(expected, "holders") != NULL)
		expect_holders(run, json_object_get(expected, "holders"), q);
	else if (json_object_get(expected, "limits") != NULL)
		expect_explanation(run, json_object_get(expected, "limits"), q);
	else
		expect_merged(run, expected, q);
}

/* ---- running ---- */

static char *read_file(const char *path, size_t *len) {
	char *text = malloc(65536);
	FILE *file = fopen(path, "r");
	if (file == NULL || text == NULL)
		fail_msg("cannot read %s", path);
	*len = fread(text, 1, 65536, file);
	assert_true(*len < 65536);
	fclose(file);
	return text;
}

static struct sluice_policy *load_policy(const char *name) {
	struct sluice_problems problems = {0};
	struct sluice_policy *policy = NULL;
	char path[512];
	size_t len;
	snprintf(path, sizeof path, "%s/policies/%s", cases_folder(), name);
	char *text = read_file(path, &len);
	if (sluice_policy_load(&policy, sl_slice(text, len), &problems) != SLUICE_OK)
		fail_msg("%s: line %u: %s", path, problems.count ? problems.list[0].line : 0,
		         problems.count ? problems.list[0].text : "no memory");
	sluice_problems_free(&problems);
	free(text);
	return policy;
}

static void run_steps(struct run *run, json_t *steps) {
	static struct question q;
	json_array_foreach(steps, run->step_number, run->step) {
		json_t *times = json_object_get(run->step, "times");
		for (json_int_t i = times != NULL ? json_integer_value(times) : 1; i > 0; i--)
			ask(&q, run);
		expect_answer(run, &q);
	}
}

static void run_by(json_t *one, struct sluice_store *store) {
	struct run run = {.store = store, .buffer = malloc(SLUICE_MATCH_BYTES_MAX)};
	assert_non_null(run.buffer);
	if (json_object_get(one, "policy") != NULL)
		run.policy = load_policy(text_of(one, "policy"));
	run_steps(&run, json_object_get(one, "steps"));
	sluice_policy_free(run.policy);
	free(run.buffer);
}

static void run_case(void **state) {
	struct sluice_store_options options = {.memory_bytes = 8 * 1024 * 1024};
	struct sluice_store *store;
	assert_int_equal(sluice_store_open(&store, &options, NULL), SLUICE_OK);
	run_by(*state, store);
	sluice_store_close(store);
	array_open();
	run_by(*state, NULL);
}

static size_t add_file(struct CMUnitTest *tests, size_t count, const char *path) {
	json_error_t error;
	json_t *one, *list = json_load_file(path, 0, &error);
	const char *file = strrchr(path, '/') + 1;
	size_t i, bytes;
	if (list == NULL) {
		fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
		exit(1);
	}
	json_array_foreach(list, i, one) {
		if (count == CASES_MAX)
			break;
		bytes = strlen(file) + strlen(text_of(one, "name")) + 3;
		char *name = malloc(bytes);
		if (name == NULL)
			exit(1);
		snprintf(name, bytes, "%s: %s", file, text_of(one, "name"));
		tests[count++] = (struct CMUnitTest){.name = name, .test_func = run_case, .initial_state = json_incref(one)};
	}
	json_decref(list);
	return count;
}

int main(void) {
	struct CMUnitTest *tests = calloc(CASES_MAX, sizeof *tests);
	size_t count = 0;
	char pattern[512];
	glob_t found;
	snprintf(pattern, sizeof pattern, "%s/*.json", cases_folder());
	if (tests == NULL || glob(pattern, 0, NULL, &found) != 0) {
		fprintf(stderr, "no case list: expected files %s; set SLUICE_CASES or run from the top folder\n", pattern);
		return 1;
	}
	for (size_t i = 0; i < found.gl_pathc; i++)
		count = add_file(tests, count, found.gl_pathv[i]);
	globfree(&found);
	int failed = _cmocka_run_group_tests("cases", tests, count, NULL, NULL);
	for (size_t i = 0; i < count; i++) {
		json_decref(tests[i].initial_state);
		free((char *)(uintptr_t)tests[i].name);
	}
	free(tests);
	return failed;
}
