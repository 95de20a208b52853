/* What Envoy is told of a request that was decided in part. */
#include "hosts/server/envoy/rate_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A request of two limits: what the first says, and whether nobody could decide the second, which says on-error: deny.
 * Returns its Retry-After; empty: it has none. */
static const char *retry_after(struct sluice_decision first, bool unable) {
	static char text[32];
	struct sl_rls_worker *worker = calloc(1, sizeof *worker);
	struct sl_door_context context = {.forms = 0};
	struct sl_rls_answer answer = {.writer = NULL};
	assert_non_null(worker);
	struct sl_rls_group *group = &worker->groups[SL_RLS_CHARGED];
	group->used = true;
	group->match.count = worker->request.descriptor_count = 2;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(sluice_limit_parse(&group->overrides[i], sl_str("5/1h"), NULL), SLUICE_OK);
		group->items[i].limit = &group->overrides[i];
		group->match.position[i] = SL_POSITION_NOTATION;
		group->owner[i] = (uint16_t)i;
	}
	group->each[0] = first;
	group->each[1] = (struct sluice_decision){.allowed = true, .quota = 5, .remaining = 4};
	group->unable = unable ? 2 : 0;
	group->undecided.items = unable ? 2 : 0;
	sl_rls_answer_decided(&context, worker, &answer);
	assert_int_equal(answer.response.code, SL_RLS_OVER_LIMIT);
	assert_int_equal(answer.response.statuses[1].code, unable ? SL_RLS_OVER_LIMIT : SL_RLS_OK);
	text[0] = '\0';
	for (uint32_t i = 0; i < answer.response.response_header_count; i++)
		if (sl_bytes_equal_nocase(answer.response.response_headers[i].name, "retry-after"))
			snprintf(text, sizeof text, "%.*s", (int)answer.response.response_headers[i].value.len,
			         (const char *)answer.response.response_headers[i].value.data);
	free(worker);
	return text;
}

/* Whoever is told to come back is not denied then by what is known already. */
static void test_the_longest_wait_is_told(void **state) {
	const sluice_ns second = 1000 * 1000 * 1000;
	const struct sluice_decision admits = {.allowed = true, .quota = 5, .remaining = 1};
	struct sluice_decision denies = {.quota = 5, .retry_after_ns = 57 * second};
	(void)state;
	assert_string_equal(retry_after(denies, false), "57");
	assert_string_equal(retry_after(denies, true), "57");
	assert_string_equal(retry_after(admits, true), "1");
	denies.retry_after_ns = second / 2;
	assert_string_equal(retry_after(denies, true), "1");
	denies.retry_after_ns = SLUICE_NEVER;
	assert_string_equal(retry_after(denies, true), "");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_longest_wait_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
